//! CREATE TABLE, and CREATE and ALTER DATABASE.
//!
//! In row format the server logs `CREATE TABLE .. SELECT` with all its columns written out (MySQL adds
//! `START TRANSACTION`), so a SELECT in the text means that the columns are not known.

use super::charset;
use super::column::{self, ColumnDef};
use super::context::{Context, Structures};
use super::cursor::{Cursor, Failure, Parsed};
use super::index::{self, Element, KeyDef};
use super::lexer::Kind;
use super::versioning::{self, HistoryPartitions, Period, Versioning};
use super::{Definition, Fact, Work};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Charset, TableId, TableSchema, codes};
use std::sync::Arc;

/// Table options that followers of a table need; the others are passed over.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) charset: Option<String>,
    /// MariaDB: CHARACTER SET DEFAULT, the database's.
    pub(super) charset_of_database: bool,
    pub(super) collation: Option<String>,
    pub(super) comment: Option<String>,
    /// MariaDB: WITH SYSTEM VERSIONING.
    pub(super) versioned: bool,
    /// MariaDB: SEQUENCE=1 makes a sequence of it, SEQUENCE=0 a table.
    pub(super) sequence: Option<bool>,
}

impl Options {
    /// The table's character set, if it inherits `inherited`, in a database that has `database`.
    pub(super) fn resolve(
        &self,
        inherited: &Charset,
        database: &Charset,
        context: &Context<'_>,
    ) -> Parsed<Charset> {
        let base = self.charset_of_database.then(|| charset::built_in(&database.name));
        let inherited = base.as_ref().unwrap_or(inherited);
        charset::resolve(self.charset.as_deref(), self.collation.as_deref(), inherited, context).map_err(
            |unknown| {
                Failure::new(
                    codes::CHARSET_UNSUPPORTED,
                    format!("the character set or collation \"{unknown}\" is not known"),
                )
            },
        )
    }

    /// Does it name a character set or a collation?
    pub(super) fn names_charset(&self) -> bool {
        self.charset.is_some() || self.collation.is_some() || self.charset_of_database
    }
}

/// What a table inherits from its database.
pub(super) fn inherited(structures: &dyn Structures, database: &str, context: &Context<'_>) -> Charset {
    structures.database_charset(database).unwrap_or_else(|| context.server_charset.clone())
}

/// What stands in a table's parentheses.
#[derive(Debug, Default)]
struct Elements {
    columns: Vec<ColumnDef>,
    keys: Vec<KeyDef>,
    period: Option<Period>,
}

/// What a CREATE TABLE makes.
pub(super) enum Made {
    Table(Box<Definition>),
    /// MariaDB: SEQUENCE=1, or LIKE a sequence.
    Sequence,
}

/// Behind CREATE [OR REPLACE] TABLE.
pub(super) fn table(cursor: &mut Cursor<'_>, work: &mut Work<'_>, replace: bool) -> Parsed<()> {
    work.what = "CREATE TABLE".into();
    let if_not_exists = cursor.if_not_exists();
    let id = cursor.table(work.structures)?;
    work.tables.push(id.clone());
    let known = work.structures.table(&id).is_some();
    if if_not_exists && (known || work.structures.is_sequence(&id)) {
        // The server did nothing, whatever the rest says.
        work.what = "CREATE TABLE IF NOT EXISTS of a table that is there".into();
        return Ok(());
    }
    let made = body(cursor, work.structures, &id)?;
    if replace && known {
        work.changes.push(SchemaChange::DropTable { table: id.clone() });
    }
    match made {
        Made::Table(definition) => {
            if work.structures.is_sequence(&id) {
                work.sequence(id, false);
            }
            work.create(*definition);
        }
        Made::Sequence => work.sequence(id, true),
    }
    Ok(())
}

/// A new table's definition, from behind its name.
pub(super) fn body(cursor: &mut Cursor<'_>, structures: &dyn Structures, id: &TableId) -> Parsed<Made> {
    let bracketed = cursor.is_symbol(b'(') && cursor.second().is("LIKE");
    if bracketed {
        cursor.advance();
    }
    if cursor.accept("LIKE") {
        let source = cursor.table(structures)?;
        if bracketed {
            cursor.expect_symbol(b')')?;
        }
        cursor.expect_end()?;
        return like(structures, id, &source);
    }
    let begins_with_select = cursor.is_symbol(b'(') && cursor.second().is("SELECT");
    let elements =
        if cursor.is_symbol(b'(') && !begins_with_select { elements(cursor)? } else { Elements::default() };
    let mut options = Options::default();
    let mut history = None;
    loop {
        if cursor.accept_symbol(b',') {
            continue;
        }
        if cursor.at_end() {
            break;
        }
        if cursor.accept_all(&["PARTITION", "BY"]) {
            history = versioning::system_time(cursor)?;
            skip_partitions(cursor)?;
            continue;
        }
        let with_query = cursor.is("WITH") && !cursor.second().is("SYSTEM");
        let keywords = ["SELECT", "AS", "IGNORE", "REPLACE", "TABLE", "VALUES"];
        if with_query || cursor.is_any(&keywords) || cursor.is_symbol(b'(') {
            return Err(cursor.failure(
                codes::DDL_UNSUPPORTED,
                "the columns of the new table come from a SELECT that the log gives as text",
            ));
        }
        option(cursor, &mut options)?;
    }
    cursor.expect_end()?;
    if options.sequence == Some(true) {
        return Ok(Made::Sequence);
    }
    let definition = define(cursor.context, structures, id, elements, &options, history)?;
    Ok(Made::Table(Box::new(definition)))
}

/// The columns and keys in parentheses.
fn elements(cursor: &mut Cursor<'_>) -> Parsed<Elements> {
    let mut elements = Elements::default();
    cursor.expect_symbol(b'(')?;
    loop {
        if index::is_in_front(cursor) {
            match index::parse(cursor)? {
                Element::Key(key) => elements.keys.push(key),
                Element::Period { period, .. } => elements.period = Some(period),
                Element::Nothing => {}
            }
        } else {
            let def = column::parse(cursor)?;
            elements.keys.extend(def.keys(cursor.context));
            elements.columns.push(def);
        }
        if elements.columns.len().max(elements.keys.len()) > super::MAX_COLUMNS {
            return Err(cursor.unexpected("no further column"));
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_symbol(b')')?;
    Ok(elements)
}

/// One table option, in CREATE or ALTER TABLE.
pub(super) fn option(cursor: &mut Cursor<'_>, options: &mut Options) -> Parsed<()> {
    let start = *cursor;
    cursor.accept("DEFAULT");
    if column::charset_words(cursor) {
        cursor.accept_symbol(b'=');
        options.charset_of_database = cursor.accept("DEFAULT");
        options.charset =
            if options.charset_of_database { None } else { Some(cursor.name_or_text()?.into_owned()) };
        return Ok(());
    }
    if cursor.accept("COLLATE") {
        cursor.accept_symbol(b'=');
        options.collation =
            if cursor.accept("DEFAULT") { None } else { Some(cursor.name_or_text()?.into_owned()) };
        return Ok(());
    }
    *cursor = start;
    if cursor.accept("COMMENT") {
        cursor.accept_symbol(b'=');
        options.comment = Some(cursor.text()?.into_owned());
    } else if cursor.accept_all(&["WITH", "SYSTEM", "VERSIONING"]) {
        options.versioned = true;
    } else if cursor.accept("SEQUENCE") {
        cursor.accept_symbol(b'=');
        options.sequence = if cursor.accept("DEFAULT") { None } else { Some(cursor.number()? != 0) };
    } else if cursor.accept_all(&["START", "TRANSACTION"]) {
    } else if cursor.is_any(&["DATA", "INDEX"]) && cursor.second().is("DIRECTORY") {
        cursor.advance();
        cursor.advance();
        value(cursor)?;
    } else if cursor.accept("TABLESPACE") {
        value(cursor)?;
        if cursor.accept("STORAGE") {
            cursor.name("DISK or MEMORY")?;
        }
    } else {
        cursor.name("a table option")?;
        value(cursor)?;
    }
    Ok(())
}

/// `[=] value`.
fn value(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.accept_symbol(b'=');
    match cursor.peek().kind {
        Kind::Symbol(b'(') => cursor.group().map(drop),
        Kind::Word | Kind::Quoted | Kind::Text | Kind::Number | Kind::Hex => {
            cursor.advance();
            Ok(())
        }
        _ => Err(cursor.unexpected("a value")),
    }
}

/// Behind PARTITION BY, up to a SELECT or the end.
fn skip_partitions(cursor: &mut Cursor<'_>) -> Parsed<()> {
    loop {
        match cursor.peek().kind {
            Kind::Symbol(b'(') => {
                cursor.group()?;
            }
            Kind::Unterminated => return Err(cursor.unexpected("a partition")),
            _ if cursor.at_end() || cursor.is_any(&["SELECT", "AS", "IGNORE", "REPLACE", "WITH"]) => {
                return Ok(());
            }
            _ => {
                cursor.advance();
            }
        }
    }
}

fn define(
    context: &Context<'_>,
    structures: &dyn Structures,
    id: &TableId,
    elements: Elements,
    options: &Options,
    history: Option<HistoryPartitions>,
) -> Parsed<Definition> {
    if elements.columns.is_empty() {
        return Err(Failure::new(codes::DDL_NOT_UNDERSTOOD, "a table without columns"));
    }
    let inherited = inherited(structures, &id.database, context);
    let charset = options.resolve(&inherited, &inherited, context)?;
    let versioned = options.versioned || elements.columns.iter().any(|def| def.versioned);
    let mut columns =
        elements.columns.into_iter().map(|def| def.finish(&charset, context)).collect::<Parsed<Vec<_>>>()?;
    if !versioned {
        columns.iter_mut().for_each(versioning::make_plain);
    }
    let keys = index::assemble(&mut columns, &elements.keys)?;
    let period = elements.period;
    for column in columns.iter_mut().filter(|c| period.as_ref().is_some_and(|p| p.has(&c.name))) {
        column.nullable = false;
    }
    let schema = TableSchema {
        id: id.clone(),
        version: 0,
        columns,
        primary_key: keys.primary,
        unique_keys: keys.unique,
        charset,
        comment: options.comment.clone().unwrap_or_default(),
    };
    let versioning = Versioning::of(&schema, versioned);
    Ok(Definition { schema, indexes: Some(keys.indexes.into()), versioning, history, period })
}

fn like(structures: &dyn Structures, id: &TableId, source: &TableId) -> Parsed<Made> {
    if structures.is_sequence(source) {
        return Ok(Made::Sequence);
    }
    let Some(known) = structures.table(source) else {
        return Err(Failure::new(
            codes::STRUCTURE_UNKNOWN,
            format!("the structure of \"{source}\", which the new table is like, is not known here"),
        ));
    };
    let schema = TableSchema { id: id.clone(), version: 0, ..(*known).clone() };
    Ok(Made::Table(Box::new(Definition {
        schema,
        indexes: structures.indexes(source),
        versioning: structures.versioning(source),
        history: structures.history(source),
        period: structures.period(source),
    })))
}

/// Behind CREATE or ALTER {DATABASE | SCHEMA}.
pub(super) fn database(cursor: &mut Cursor<'_>, work: &mut Work<'_>, alter: bool) -> Parsed<()> {
    work.what = if alter { "ALTER DATABASE" } else { "CREATE DATABASE" }.into();
    let if_not_exists = !alter && cursor.if_not_exists();
    let starts_options = cursor.is_any(&["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "READ", "ENCRYPTION"]);
    let name: Arc<str> = if alter && (starts_options || cursor.at_end()) {
        match cursor.context.database {
            Some(current) => current.into(),
            None => return Ok(()),
        }
    } else {
        cursor.database()?.as_ref().into()
    };
    let known = work.structures.database_charset(&name);
    if if_not_exists && known.is_some() {
        return Ok(());
    }
    let mut options = Options::default();
    while !cursor.at_end() {
        if cursor.accept_symbol(b',') {
            continue;
        }
        if cursor.accept_all(&["READ", "ONLY"]) {
            value(cursor)?;
            continue;
        }
        option(cursor, &mut options)?;
    }
    let server = &cursor.context.server_charset;
    let inherited = known.filter(|_| alter).unwrap_or_else(|| server.clone());
    options.charset_of_database = false;
    let charset = options.resolve(&inherited, server, cursor.context)?;
    work.facts.push(Fact::Database { name, charset: Some(charset) });
    Ok(())
}
