//! DDL text of the log into schema change events.
//!
//! [`parse`] is pure: the statement, the session it ran in ([`Context`]) and the structures in front of it
//! ([`Structures`]) go in, an [`Outcome`] comes out. The server has parsed and carried out the statement
//! already, so this is no judge of syntax: it reads the parts that change a table's shape or rows, passes
//! over those that surely do not, and calls everything else not understood, with the tables it could
//! recognise. It never guesses that a statement is harmless because it did not look like anything.
//!
//! Why the shapes come out right: one parser reads CREATE TABLE in the log, in a schema file and in the
//! output of SHOW CREATE TABLE; ALTER TABLE is computed as the server computes it (see `ddl/evolve.rs`), and
//! the changes given out were applied to a copy and gave that shape.
//!
//! After the outcome `Changes` or `NoEffect`: `structures.apply(&changes)?`, then `structures.learn(&facts)`.
//! After `NotUnderstood` on tables that are not followed: `structures.forget(&tables)`.
//!
//! A query event with an error of the server goes to [`parse_failed`] instead.

mod alter;
mod charset;
mod classify;
mod column;
mod context;
mod create;
mod cursor;
mod default;
mod dml;
mod drop;
mod evolve;
mod index;
mod lexer;
pub mod online;
mod rename;
mod sequence;
#[cfg(test)]
mod tests;
mod transaction;
mod types;
mod values;
mod versioning;

pub(crate) use charset::own_name;
pub use context::{Context, Index, NoStructures, SqlMode, Structures};
pub use default::{DefaultValue, read_default};
pub use transaction::{Transaction, Xid};
pub use versioning::{HistoryPartitions, Period, Versioning};

use cdc_core::schema_change::SchemaChange;
use cdc_core::{Charset, Diagnostic, Error, Result, TableId, TableSchema, codes};
use cursor::{Cursor, Failure, Parsed};
use std::borrow::Cow;
use std::sync::Arc;

/// The most columns a table can have (MySQL manual 10.4.7). Lists longer than that are not read on.
const MAX_COLUMNS: usize = 4096;

/// What a statement does.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It changes tables: these changes, in order. May hold none but facts.
    Changes {
        /// In the order in which they are to be applied.
        changes: Vec<SchemaChange>,
        /// What those who follow structures must know besides.
        facts: Vec<Fact>,
    },
    /// It is known to change no row and no shape.
    NoEffect {
        /// What it is, in a few words.
        what: Cow<'static, str>,
        /// The tables it names, where they were read.
        tables: Vec<TableId>,
        /// What those who follow structures must know besides.
        facts: Vec<Fact>,
    },
    /// It changes rows, and the log holds it as text instead of rows.
    Dml {
        /// Its first word.
        what: &'static str,
        /// The tables it writes, as far as they were recognised; may be empty for a call.
        tables: Vec<TableId>,
    },
    /// It opens, closes or marks a transaction.
    Transaction(Transaction),
    /// It could not be read, or not be followed. With `STRUCTURE_UNKNOWN` the text is clear, but the table
    /// it changes is not known: for a table that is not followed there is nothing to say.
    NotUnderstood {
        /// What and where.
        diagnostic: Box<Diagnostic>,
        /// The tables it changes, as far as they were recognised. Empty: it may be any.
        tables: Vec<TableId>,
    },
}

/// What belongs to following structures, and is no event for a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// What a table has from now on.
    Table {
        /// Its name behind the statement.
        table: TableId,
        /// What later columns inherit.
        charset: Charset,
        /// The table's comment.
        comment: String,
        /// Its indexes by name, if they are known.
        indexes: Option<Arc<[Index]>>,
        /// How it keeps the time of its rows, if it does.
        versioning: Option<Versioning>,
        /// If it is partitioned BY SYSTEM_TIME: what is known of its partitions.
        history: Option<HistoryPartitions>,
        /// Its application-time period.
        period: Option<Period>,
    },
    /// A name is a sequence from now on, or none any more. MariaDB keeps a sequence as a table of one row and
    /// logs its steps as rows of it; for us it is no table.
    Sequence {
        /// The name.
        table: TableId,
        /// Is it one?
        is: bool,
    },
    /// What tables made in a database inherit from now on; `None` if the database is gone.
    Database {
        /// The database.
        name: Arc<str>,
        /// Its character set and collation.
        charset: Option<Charset>,
    },
}

impl Fact {
    /// The table or sequence it is about; `None` if it is a database.
    pub fn table(&self) -> Option<&TableId> {
        match self {
            Fact::Table { table, .. } | Fact::Sequence { table, .. } => Some(table),
            Fact::Database { .. } => None,
        }
    }
}

/// A table, with what its structure has no room for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its structure, not numbered.
    pub schema: TableSchema,
    /// Its indexes by name.
    pub indexes: Option<Arc<[Index]>>,
    /// How it keeps the time of its rows, if it does.
    pub versioning: Option<Versioning>,
    /// If it is partitioned BY SYSTEM_TIME: what is known of its partitions.
    pub history: Option<HistoryPartitions>,
    /// Its application-time period.
    pub period: Option<Period>,
}

/// What the parsers of single statements fill in.
struct Work<'w> {
    structures: &'w dyn Structures,
    what: Cow<'static, str>,
    tables: Vec<TableId>,
    changes: Vec<SchemaChange>,
    facts: Vec<Fact>,
}

impl Work<'_> {
    fn fact(&mut self, definition: &Definition) {
        self.facts.push(Fact::Table {
            table: definition.schema.id.clone(),
            charset: definition.schema.charset.clone(),
            comment: definition.schema.comment.clone(),
            indexes: definition.indexes.clone(),
            versioning: definition.versioning.clone(),
            history: definition.history.clone(),
            period: definition.period.clone(),
        });
    }

    /// Notes that a name is a sequence, or none any more.
    fn sequence(&mut self, table: TableId, is: bool) {
        self.facts.push(Fact::Sequence { table, is });
    }

    fn create(&mut self, definition: Definition) {
        self.fact(&definition);
        self.changes.push(SchemaChange::CreateTable { schema: Arc::new(definition.schema) });
    }
}

/// Reads a statement of the log.
pub fn parse(statement: &str, context: &Context<'_>, structures: &dyn Structures) -> Outcome {
    read(statement, context, structures, classify::statement)
}

/// Reads a statement that the log holds with an error of the server: it did something before it failed.
///
/// MariaDB's CREATE OR REPLACE drops what is there first (measured: it is gone, and the statement is logged with
/// the error with which the rest failed). What others may have done is not known.
pub fn parse_failed(statement: &str, context: &Context<'_>, structures: &dyn Structures) -> Outcome {
    read(statement, context, structures, classify::failed)
}

fn read(
    statement: &str,
    context: &Context<'_>,
    structures: &dyn Structures,
    reader: fn(&mut Cursor<'_>, &mut Work<'_>) -> Parsed<Option<Outcome>>,
) -> Outcome {
    let mut cursor = Cursor::new(statement, context);
    let mut work = Work {
        structures,
        what: Cow::Borrowed(""),
        tables: Vec::new(),
        changes: Vec::new(),
        facts: Vec::new(),
    };
    match reader(&mut cursor, &mut work) {
        Ok(Some(outcome)) => outcome,
        Ok(None) if work.changes.is_empty() => {
            Outcome::NoEffect { what: work.what, tables: work.tables, facts: work.facts }
        }
        Ok(None) => Outcome::Changes { changes: work.changes, facts: work.facts },
        Err(failure) => Outcome::NotUnderstood {
            diagnostic: Box::new(diagnose(&failure, statement, &work.tables)),
            tables: work.tables,
        },
    }
}

/// A failure as it is shown.
fn diagnose(failure: &Failure, statement: &str, tables: &[TableId]) -> Diagnostic {
    let names: Vec<String> = tables.iter().map(|t| format!("\"{t}\"")).collect();
    let on = if names.is_empty() { String::new() } else { format!(" on {}", names.join(", ")) };
    let headline = match failure.code {
        codes::DDL_NOT_UNDERSTOOD => format!("statement{on} that is not understood: {}", failure.message),
        _ => format!("statement{on} that cannot be followed: {}", failure.message),
    };
    let mut diagnostic = Diagnostic::error(failure.code, headline);
    if let Some(at) = failure.at {
        let near = statement.get(at..).unwrap_or("");
        diagnostic = diagnostic.note(format!("at byte {}, near: {}", at + 1, one_line(near, 60)));
    }
    diagnostic
        .note(format!("the statement: {}", one_line(statement, 400)))
        .help("leave the table out of the pipeline, or remove its state so that it is copied anew behind this statement")
}

fn one_line(text: &str, most: usize) -> String {
    // Cut first: a statement may be megabytes long.
    let short = cursor::shorten(text.trim_start(), most);
    short.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads the output of SHOW CREATE TABLE. A name without a database is of the context's database.
///
/// # Errors
/// If it is no CREATE TABLE, or one that cannot be followed: `DDL_NOT_UNDERSTOOD`, `TYPE_UNSUPPORTED`, ..
pub fn parse_show_create(text: &str, context: &Context<'_>) -> Result<TableSchema> {
    parse_definition(text, context, &NoStructures).map(|definition| definition.schema)
}

/// Reads a CREATE TABLE, with the names of its indexes.
///
/// # Errors
/// As [`parse_show_create`].
pub fn parse_definition(
    text: &str,
    context: &Context<'_>,
    structures: &dyn Structures,
) -> Result<Definition> {
    let mut cursor = Cursor::new(text, context);
    let mut tables = Vec::new();
    let definition = create_table(&mut cursor, structures, &mut tables);
    definition.map_err(|failure| Error::from(diagnose(&failure, text, &tables)))
}

fn create_table(
    cursor: &mut Cursor<'_>,
    structures: &dyn Structures,
    tables: &mut Vec<TableId>,
) -> Parsed<Definition> {
    cursor.expect("CREATE")?;
    cursor.accept_all(&["OR", "REPLACE"]);
    cursor.expect("TABLE")?;
    cursor.if_not_exists();
    let id = cursor.table(structures)?;
    tables.push(id.clone());
    match create::body(cursor, structures, &id)? {
        create::Made::Table(definition) => Ok(*definition),
        create::Made::Sequence => {
            Err(Failure::new(codes::DDL_UNSUPPORTED, "it is a sequence, whose rows are not copied"))
        }
    }
}

/// Reads a file of DDL (a dump's structures, or migrations one after the other) into the tables it leaves.
/// Statements that concern no table, and INSERTs, are passed over.
///
/// # Errors
/// A diagnostic for each statement that is not understood.
pub fn parse_schema_text(
    text: &str,
    default_database: Option<&str>,
    context: &Context<'_>,
) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
    let mut structures = crate::structure::TableStructures::default();
    let mut diagnostics = Vec::new();
    let mut database: Option<String> = default_database.or(context.database).map(str::to_owned);
    for statement in statements(text, context) {
        let session = Context { database: database.as_deref(), ..context.clone() };
        match parse(statement, &session, &structures) {
            Outcome::Changes { changes, facts } => match structures.apply(&changes) {
                Ok(()) => structures.learn(&facts),
                Err(error) => diagnostics.push(error.diagnostic().clone()),
            },
            Outcome::NoEffect { facts, .. } => structures.learn(&facts),
            Outcome::Dml { .. } | Outcome::Transaction(_) => {}
            Outcome::NotUnderstood { diagnostic, .. } => diagnostics.push(*diagnostic),
        }
        if let Some(used) = used_database(statement, context) {
            database = Some(used);
        }
    }
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    Ok(structures.tables().map(|schema| TableSchema { version: 0, ..(**schema).clone() }).collect())
}

/// `USE name`.
fn used_database(statement: &str, context: &Context<'_>) -> Option<String> {
    let mut cursor = Cursor::new(statement, context);
    if !cursor.accept("USE") {
        return None;
    }
    cursor.database().ok().map(Cow::into_owned)
}

/// Splits a file at its semicolons.
fn statements<'t>(text: &'t str, context: &'t Context<'t>) -> impl Iterator<Item = &'t str> {
    let mut cursor = Cursor::new(text, context);
    std::iter::from_fn(move || {
        while cursor.accept_symbol(b';') {}
        let start = cursor.peek().start;
        if cursor.peek().kind == lexer::Kind::End {
            return None;
        }
        while !cursor.at_end() {
            cursor.advance();
        }
        Some(cursor.since(start))
    })
}
