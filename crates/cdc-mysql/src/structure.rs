//! The structures with which the log's bytes must be read, at one position of the log.
//!
//! This is the second of the four structures that change at different times (the source's now, the log's
//! here, the registry's, the target's). It is a function of the position alone: starting from what a
//! checkpoint holds and applying every DDL behind it gives, at each position, the structure the server wrote
//! the rows there with. So it is checkpointed together with the position and never compared with the live
//! table, which may be ahead.
//!
//! Versions count the shapes of one table from 1. A number is never used twice for one name, even after DROP
//! and CREATE: whoever holds rows of version 3 must not take them for rows of the new table. Changes that
//! leave the shape (TRUNCATE, a new snapshot) leave the number.
//!
//! Of a system-versioned table (MariaDB) is known, besides, how it keeps the time of its rows: the log's rows may
//! have two columns more than the structure, and a row that ends is an UPDATE. A sequence is a name and no
//! table: its rows in the log are to be passed over. A name is one of the two at most; whatever makes it a table
//! ends the sequence.

use crate::ddl::{Definition, Fact, HistoryPartitions, Index, Period, Structures, Versioning};
use cdc_core::schema::{SchemaVersion, same_name};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Charset, Error, Result, TableId, TableSchema, codes};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tables and databases known at one position. Serialisable: part of a checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct TableStructures {
    tables: BTreeMap<TableId, Table>,
    databases: BTreeMap<Arc<str>, Charset>,
    /// The last version given to each name, of tables that are gone too.
    versions: BTreeMap<TableId, SchemaVersion>,
    sequences: BTreeSet<TableId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    schema: Arc<TableSchema>,
    beside: Beside,
}

/// What is known of a table that its schema has no room for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Beside {
    indexes: Option<Arc<[Index]>>,
    versioning: Option<Versioning>,
    history: Option<HistoryPartitions>,
    period: Option<Period>,
}

type StoredTable = (Arc<TableSchema>, Option<Arc<[Index]>>);

/// As lists: keys of maps would have to be texts in JSON. What came later is in lists of its own, which a checkpoint
/// of before does not have.
#[derive(Serialize, Deserialize)]
struct Stored {
    tables: Vec<StoredTable>,
    databases: Vec<(Arc<str>, Charset)>,
    versions: Vec<(TableId, SchemaVersion)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    versioning: Vec<(TableId, Versioning)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<(TableId, HistoryPartitions)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    periods: Vec<(TableId, Period)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequences: Vec<TableId>,
}

impl From<Stored> for TableStructures {
    fn from(stored: Stored) -> TableStructures {
        let table = |(schema, indexes): StoredTable| {
            (schema.id.clone(), Table { schema, beside: Beside { indexes, ..Beside::default() } })
        };
        let mut tables: BTreeMap<TableId, Table> = stored.tables.into_iter().map(table).collect();
        for (id, versioning) in stored.versioning {
            if let Some(table) = tables.get_mut(&id) {
                table.beside.versioning = Some(versioning);
            }
        }
        for (id, history) in stored.history {
            if let Some(table) = tables.get_mut(&id) {
                table.beside.history = Some(history);
            }
        }
        for (id, period) in stored.periods {
            if let Some(table) = tables.get_mut(&id) {
                table.beside.period = Some(period);
            }
        }
        TableStructures {
            tables,
            databases: stored.databases.into_iter().collect(),
            versions: stored.versions.into_iter().collect(),
            sequences: stored.sequences.into_iter().collect(),
        }
    }
}

impl From<TableStructures> for Stored {
    fn from(structures: TableStructures) -> Stored {
        let mut stored = Stored {
            tables: Vec::with_capacity(structures.tables.len()),
            databases: structures.databases.into_iter().collect(),
            versions: structures.versions.into_iter().collect(),
            versioning: Vec::new(),
            history: Vec::new(),
            periods: Vec::new(),
            sequences: structures.sequences.into_iter().collect(),
        };
        for (id, Table { schema, beside }) in structures.tables {
            stored.tables.push((schema, beside.indexes));
            stored.versioning.extend(beside.versioning.map(|v| (id.clone(), v)));
            stored.history.extend(beside.history.map(|h| (id.clone(), h)));
            stored.periods.extend(beside.period.map(|p| (id.clone(), p)));
        }
        stored
    }
}

impl TableStructures {
    /// No table, no database.
    pub fn new() -> TableStructures {
        TableStructures::default()
    }

    /// The same databases and sequences, and no table, nor any number used.
    pub fn without_tables(&self) -> TableStructures {
        TableStructures {
            databases: self.databases.clone(),
            sequences: self.sequences.clone(),
            ..TableStructures::default()
        }
    }

    /// Is no table known?
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The structure of a table.
    pub fn get(&self, id: &TableId) -> Option<&Arc<TableSchema>> {
        self.tables.get(id).map(|t| &t.schema)
    }

    /// All structures, by database and table.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values().map(|t| &t.schema)
    }

    /// How a table keeps the time of its rows; `None` if it is not system-versioned, or not known.
    pub fn versioning(&self, id: &TableId) -> Option<&Versioning> {
        self.tables.get(id).and_then(|t| t.beside.versioning.as_ref())
    }

    /// Notes how a known table keeps the time of its rows.
    pub fn set_versioning(&mut self, id: &TableId, versioning: Option<Versioning>) {
        if let Some(table) = self.tables.get_mut(id) {
            table.beside.versioning = versioning;
        }
    }

    /// Is this a sequence (MariaDB)? The log's rows of it are no rows of a table.
    pub fn is_sequence(&self, id: &TableId) -> bool {
        self.sequences.contains(id)
    }

    /// Notes that this is a sequence, or none. A table of this name is no more.
    pub fn set_sequence(&mut self, id: TableId, is: bool) {
        if is {
            self.tables.remove(&id);
            self.sequences.insert(id);
        } else {
            self.sequences.remove(&id);
        }
    }

    /// Puts in a table read from the server, with all that is known of it: a new version, unless it is the shape
    /// known already. Gives its structure with its number.
    pub fn insert_definition(&mut self, definition: Definition) -> Arc<TableSchema> {
        let Definition { schema, indexes, versioning, history, period } = definition;
        let schema = self.insert(schema, indexes);
        if let Some(table) = self.tables.get_mut(&schema.id) {
            table.beside = Beside { versioning, history, period, indexes: table.beside.indexes.take() };
        }
        schema
    }

    /// All that is known of a table.
    pub fn definition(&self, id: &TableId) -> Option<Definition> {
        let Table { schema, beside } = self.tables.get(id)?;
        let Beside { indexes, versioning, history, period } = beside.clone();
        Some(Definition { schema: (**schema).clone(), indexes, versioning, history, period })
    }

    /// Puts in a table read from the server: a new version, unless it is the shape known already. Gives its
    /// structure with its number. What else the server said of it: [`TableStructures::insert_definition`].
    pub fn insert(&mut self, schema: TableSchema, indexes: Option<Arc<[Index]>>) -> Arc<TableSchema> {
        if let Some(known) = self.tables.get_mut(&schema.id) {
            let version = known.schema.version;
            if *known.schema == (TableSchema { version, ..schema.clone() }) {
                known.beside.indexes = indexes.or(known.beside.indexes.take());
                return known.schema.clone();
            }
        }
        self.put(schema, Beside { indexes, ..Beside::default() })
    }

    /// Sets a database's default character set.
    pub fn set_database(&mut self, name: impl Into<Arc<str>>, charset: Charset) {
        self.databases.insert(name.into(), charset);
    }

    /// Forgets tables whose structure is no longer known. Their numbers stay used.
    pub fn forget<'t>(&mut self, tables: impl IntoIterator<Item = &'t TableId>) {
        for table in tables {
            self.tables.remove(table);
            self.sequences.remove(table);
        }
    }

    /// Applies changes in order.
    ///
    /// # Errors
    /// `DDL_UNSUPPORTED` if one does not fit its table, `STRUCTURE_UNKNOWN` if it changes columns of a table
    /// that is not known. Then nothing is applied. Renames, drops and the like of unknown tables are no
    /// errors: they are of tables that are not followed.
    pub fn apply(&mut self, changes: &[SchemaChange]) -> Result<()> {
        // Statements that change many tables at once are rare; the copy holds pointers to the structures.
        let mut next = self.clone();
        for change in changes {
            next.apply_one(change)?;
        }
        *self = next;
        Ok(())
    }

    /// Takes in what an outcome tells besides its changes; after [`TableStructures::apply`].
    pub fn learn(&mut self, facts: &[Fact]) {
        for fact in facts {
            match fact {
                Fact::Table { table, charset, comment, indexes, versioning, history, period } => {
                    let Some(known) = self.tables.get_mut(table) else { continue };
                    known.beside = Beside {
                        indexes: indexes.clone(),
                        versioning: versioning.clone(),
                        history: history.clone(),
                        period: period.clone(),
                    };
                    if known.schema.charset != *charset || known.schema.comment != *comment {
                        // No new version: rows are read as before.
                        let (charset, comment) = (charset.clone(), comment.clone());
                        known.schema = Arc::new(TableSchema { charset, comment, ..(*known.schema).clone() });
                    }
                }
                Fact::Database { name, charset: Some(charset) } => {
                    self.databases.insert(name.clone(), charset.clone());
                }
                Fact::Database { name, charset: None } => {
                    self.databases.remove(name);
                    self.sequences.retain(|id| id.database != *name);
                }
                Fact::Sequence { table, is } => self.set_sequence(table.clone(), *is),
            }
        }
    }

    fn put(&mut self, schema: TableSchema, beside: Beside) -> Arc<TableSchema> {
        self.sequences.remove(&schema.id);
        let last = self.versions.entry(schema.id.clone()).or_insert(0);
        // A renamed table keeps counting above both names' numbers.
        *last = (*last).max(schema.version) + 1;
        let schema = Arc::new(TableSchema { version: *last, ..schema });
        self.tables.insert(schema.id.clone(), Table { schema: schema.clone(), beside });
        schema
    }

    fn apply_one(&mut self, change: &SchemaChange) -> Result<()> {
        match change {
            SchemaChange::CreateTable { schema } => {
                self.put(TableSchema { version: 0, ..(**schema).clone() }, Beside::default());
            }
            SchemaChange::DropTable { table } => {
                self.tables.remove(table);
                self.sequences.remove(table);
            }
            SchemaChange::RenameTable { table, .. } => {
                if let Some(known) = self.tables.remove(table) {
                    self.put(change.apply_to(&known.schema)?, known.beside);
                }
            }
            SchemaChange::TruncateTable { .. } | SchemaChange::ResnapshotTable { .. } => {}
            _ => {
                let table = change.table();
                let Some(known) = self.tables.get(table) else {
                    return Err(Error::definite(
                        codes::STRUCTURE_UNKNOWN,
                        format!("the structure of \"{table}\", which is altered, is not known here"),
                    )
                    .note(format!("the change: {change}"))
                    .help("copy the table again"));
                };
                let next = change.apply_to(&known.schema)?;
                let beside = known.beside.behind(change, &next);
                self.put(next, beside);
            }
        }
        Ok(())
    }
}

impl Beside {
    /// What is known behind a change that made this table of it. The statement's facts say the rest.
    fn behind(&self, change: &SchemaChange, next: &TableSchema) -> Beside {
        let period = match change {
            SchemaChange::RenameColumn { column, to, .. } => {
                self.period.clone().map(|period| period.renamed(column, to))
            }
            _ => self.period.clone(),
        };
        Beside {
            indexes: self.indexes.as_deref().and_then(|known| follow(known, change)),
            versioning: Versioning::of(next, self.versioning.is_some()),
            history: self.history.clone(),
            period,
        }
    }
}

/// Index names behind a change, where the change tells them.
fn follow(indexes: &[Index], change: &SchemaChange) -> Option<Arc<[Index]>> {
    let mut next = indexes.to_vec();
    match change {
        SchemaChange::ChangeUniqueKeys { .. } => return None,
        SchemaChange::RenameColumn { column, to, .. } => {
            for name in next.iter_mut().flat_map(|i| &mut i.parts).filter_map(|part| part.column.as_mut()) {
                if same_name(name, column) {
                    *name = to.clone();
                }
            }
        }
        SchemaChange::DropColumn { column, .. } => {
            for index in &mut next {
                index.parts.retain(|part| part.column.as_ref().is_none_or(|name| !same_name(name, column)));
            }
            next.retain(|index| !index.parts.is_empty());
        }
        _ => {}
    }
    Some(next.into())
}

impl Structures for TableStructures {
    fn table(&self, id: &TableId) -> Option<Arc<TableSchema>> {
        self.get(id).cloned()
    }

    fn tables_of(&self, database: &str) -> Vec<TableId> {
        self.tables.keys().filter(|id| &*id.database == database).cloned().collect()
    }

    fn database_charset(&self, database: &str) -> Option<Charset> {
        self.databases.get(database).cloned()
    }

    fn indexes(&self, id: &TableId) -> Option<Arc<[Index]>> {
        self.tables.get(id).and_then(|t| t.beside.indexes.clone())
    }

    fn versioning(&self, id: &TableId) -> Option<Versioning> {
        TableStructures::versioning(self, id).cloned()
    }

    fn history(&self, id: &TableId) -> Option<HistoryPartitions> {
        self.tables.get(id).and_then(|t| t.beside.history.clone())
    }

    fn period(&self, id: &TableId) -> Option<Period> {
        self.tables.get(id).and_then(|t| t.beside.period.clone())
    }

    fn is_sequence(&self, id: &TableId) -> bool {
        TableStructures::is_sequence(self, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl::{Context, Outcome, parse};

    fn follow_all(structures: &mut TableStructures, statements: &[&str]) {
        follow_in(&Context::mysql(90704).in_database("shop"), structures, statements);
    }

    fn follow_in(context: &Context<'_>, structures: &mut TableStructures, statements: &[&str]) {
        for statement in statements {
            match parse(statement, context, structures) {
                Outcome::Changes { changes, facts } => {
                    structures.apply(&changes).unwrap_or_else(|e| panic!("{statement}: {e}"));
                    structures.learn(&facts);
                }
                Outcome::NoEffect { facts, .. } => structures.learn(&facts),
                other => panic!("{statement}: {other:?}"),
            }
        }
    }

    fn versions(structures: &TableStructures) -> Vec<(String, SchemaVersion)> {
        structures.tables().map(|t| (t.id.to_string(), t.version)).collect()
    }

    #[test]
    fn versions_are_never_used_twice() {
        let mut structures = TableStructures::new();
        follow_all(&mut structures, &["CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT, ADD c INT"]);
        assert_eq!(versions(&structures), [("shop.t".to_owned(), 3)]);
        follow_all(
            &mut structures,
            &["TRUNCATE t", "ALTER TABLE t ENGINE = InnoDB", "CREATE INDEX i ON t (a)"],
        );
        assert_eq!(versions(&structures), [("shop.t".to_owned(), 3)]);
        follow_all(&mut structures, &["ALTER TABLE t COMMENT 'x'", "ALTER TABLE t COMMENT 'x'"]);
        assert_eq!(versions(&structures), [("shop.t".to_owned(), 4)]);
        follow_all(&mut structures, &["DROP TABLE t", "CREATE TABLE t (a INT)"]);
        assert_eq!(versions(&structures), [("shop.t".to_owned(), 5)]);
        follow_all(&mut structures, &["CREATE TABLE u (a INT)", "RENAME TABLE t TO x, u TO t"]);
        assert_eq!(versions(&structures), [("shop.t".to_owned(), 6), ("shop.x".to_owned(), 6)]);
    }

    #[test]
    fn a_checkpoint_holds_everything() {
        let mut structures = TableStructures::new();
        let statements = [
            "CREATE DATABASE shop CHARACTER SET latin1",
            "CREATE TABLE t (a INT NOT NULL, b VARCHAR(9), UNIQUE KEY u (a))",
            "CREATE TABLE gone (a INT)",
            "DROP TABLE gone",
        ];
        follow_all(&mut structures, &statements);
        let json = serde_json::to_string(&structures).expect("it is plain data");
        let mut back: TableStructures = serde_json::from_str(&json).expect("it was written by this code");
        assert_eq!(back, structures);
        follow_all(&mut back, &["CREATE TABLE gone (b CHAR(1))", "ALTER TABLE t DROP INDEX u"]);
        let gone = back.get(&TableId::new("shop", "gone")).expect("it was made again");
        assert_eq!(gone.version, 2);
        assert_eq!(&*gone.charset.name, "latin1");
        assert_eq!(back.get(&TableId::new("shop", "t")).map(|t| t.unique_keys.len()), Some(0));
    }

    #[test]
    fn versioning_is_kept_with_its_table() {
        let context = Context::mariadb(101119).in_database("shop");
        let id = |table: &str| TableId::new("shop", table);
        let columns = |start: &str, end: &str| Versioning::Columns { start: start.into(), end: end.into() };
        let mut structures = TableStructures::new();
        let statements = [
            "CREATE TABLE h (a INT PRIMARY KEY) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME LIMIT 5",
            "CREATE TABLE n (a INT, s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, b DATE, c DATE, \
             PERIOD FOR SYSTEM_TIME (s, e), PERIOD FOR p (b, c)) WITH SYSTEM VERSIONING",
            "CREATE TABLE plain (a INT)",
            "CREATE SEQUENCE q",
            "RENAME TABLE h TO x, n TO h, x TO n, q TO r",
            "CREATE TABLE l LIKE h",
            "ALTER TABLE h RENAME COLUMN s TO began, RENAME COLUMN b TO since",
        ];
        follow_in(&context, &mut structures, &statements);
        let check = |structures: &TableStructures| {
            assert_eq!(structures.versioning(&id("h")), Some(&columns("began", "e")));
            assert_eq!(structures.versioning(&id("l")), Some(&columns("s", "e")));
            assert_eq!(structures.versioning(&id("n")), Some(&Versioning::Hidden));
            assert_eq!(structures.versioning(&id("plain")), None);
            assert_eq!(structures.versioning(&id("x")), None);
            assert!(structures.history(&id("n")).is_some_and(|h| h.current.as_deref() == Some("pn")));
            assert_eq!(structures.period(&id("h")), Some(Period { start: "since".into(), end: "c".into() }));
            assert!(structures.is_sequence(&id("r")) && !structures.is_sequence(&id("q")));
        };
        check(&structures);
        let json = serde_json::to_string(&structures).expect("it is plain data");
        let back: TableStructures = serde_json::from_str(&json).expect("it was written by this code");
        assert_eq!(back, structures);
        check(&back);
        // Read again from the server, it is the same table.
        let schema = TableSchema { version: 0, ..(**back.get(&id("n")).expect("it is known")).clone() };
        structures.insert(schema.clone(), None);
        check(&structures);
        let other = TableSchema { comment: "another".to_owned(), ..schema };
        structures.insert(other, None);
        assert_eq!(structures.versioning(&id("n")), None);
        structures.set_versioning(&id("n"), Some(Versioning::Hidden));
        assert_eq!(structures.versioning(&id("n")), Some(&Versioning::Hidden));
        follow_in(&context, &mut structures, &["DROP TABLE l, h", "CREATE TABLE l (a INT)"]);
        assert_eq!(structures.versioning(&id("l")), None);
        follow_in(&context, &mut structures, &["ALTER TABLE n DROP SYSTEM VERSIONING"]);
        assert_eq!(structures.versioning(&id("n")), None);
    }

    #[test]
    fn a_name_is_a_table_or_a_sequence() {
        let context = Context::mariadb(101119).in_database("shop");
        let id = |table: &str| TableId::new("shop", table);
        let mut structures = TableStructures::new();
        structures.set_sequence(id("s"), true);
        structures.set_sequence(TableId::new("other", "s"), true);
        follow_in(&context, &mut structures, &["CREATE OR REPLACE TABLE s (a INT)"]);
        assert!(!structures.is_sequence(&id("s")) && structures.get(&id("s")).is_some());
        follow_in(&context, &mut structures, &["CREATE OR REPLACE SEQUENCE s", "CREATE SEQUENCE t"]);
        assert!(structures.is_sequence(&id("s")) && structures.get(&id("s")).is_none());
        structures.forget(&[id("t")]);
        assert!(!structures.is_sequence(&id("t")));
        follow_in(&context, &mut structures, &["DROP DATABASE shop"]);
        assert!(!structures.is_sequence(&id("s")) && structures.is_sequence(&TableId::new("other", "s")));
    }

    #[test]
    fn a_checkpoint_of_before_is_read() {
        let mut structures = TableStructures::new();
        follow_all(
            &mut structures,
            &["CREATE DATABASE shop", "CREATE TABLE t (a INT NOT NULL, UNIQUE KEY u (a))"],
        );
        let json = serde_json::to_string(&structures).expect("it is plain data");
        for later in ["versioning", "history", "periods", "sequences"] {
            assert!(!json.contains(later), "{later} is written only where there is one");
        }
        assert_eq!(serde_json::from_str::<TableStructures>(&json).expect("it is a checkpoint"), structures);
    }

    #[test]
    fn nothing_is_applied_in_part() {
        let mut structures = TableStructures::new();
        follow_all(&mut structures, &["CREATE TABLE t (a INT)"]);
        let before = structures.clone();
        let table = TableId::new("shop", "t");
        let add = |column: &str| SchemaChange::AddColumn {
            table: table.clone(),
            column: cdc_core::Column::new(column, cdc_core::ColumnType::Year),
            position: cdc_core::schema_change::ColumnPosition::Last,
        };
        let error = structures.apply(&[add("b"), add("a")]).expect_err("a is there already");
        assert_eq!(error.code(), codes::DDL_UNSUPPORTED);
        assert_eq!(structures, before);
        let drop = SchemaChange::DropColumn { table: TableId::new("shop", "u"), column: "a".into() };
        let error = structures.apply(&[drop]).expect_err("u is not known");
        assert_eq!(error.code(), codes::STRUCTURE_UNKNOWN);
    }

    #[test]
    fn a_table_read_again_keeps_its_number() {
        let mut structures = TableStructures::new();
        follow_all(&mut structures, &["CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT"]);
        let known = structures.get(&TableId::new("shop", "t")).expect("it is known").clone();
        let again = TableSchema { version: 0, ..(*known).clone() };
        assert_eq!(structures.insert(again.clone(), None).version, 2);
        let mut other = again;
        other.columns.pop();
        assert_eq!(structures.insert(other, None).version, 3);
    }
}
