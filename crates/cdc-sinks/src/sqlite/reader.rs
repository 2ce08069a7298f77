//! Reads a database back, for `cdc verify`. Never writes, and holds no transaction between calls.
//!
//! A row is compared as it is stored: class and content of each column against what the sink would write
//! for the same value, so a `1` that became `'1'`, or a lost digit, is a difference. The one exception is a
//! column that its owner declared with REAL affinity: it cannot hold -0.0, which then equals 0.0.
//!
//! Of a table without key every column is the key, for reading: `scan_keys` gives whole rows (the two zeros as
//! one).

use super::look::Found;
use super::sql::{key_condition, quote, quote_all};
use super::types::{Affinity, Bound, Form, encode, push_key, show};
use super::{SqliteOptions, open_to_read};
use crate::default::without_deleted;
use crate::sqlite::error::Errors;
use cdc_core::connector::{ColumnDifference, Comparison, TargetReader, TargetTable};
use cdc_core::{Error, Result, Row, codes};
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection};

/// The reader of a database.
pub struct SqliteReader {
    options: SqliteOptions,
    db: Option<Connection>,
}

impl SqliteReader {
    /// A reader; opens nothing yet. A database that is not there reads as one without tables.
    pub fn new(options: SqliteOptions) -> SqliteReader {
        SqliteReader { options, db: None }
    }

    fn errors(&self) -> Errors<'_> {
        Errors(&self.options.path)
    }

    /// The table, if there is one, checked to have all our columns.
    fn find(&mut self, table: &TargetTable) -> Result<Option<(&Connection, Found)>> {
        if self.db.is_none() {
            self.db = open_to_read(&self.options.path)?;
        }
        let errors = Errors(&self.options.path);
        let Some(db) = &self.db else { return Ok(None) };
        let found = Found::look(db, &table.name).map_err(|e| {
            errors.of(codes::TARGET_OPEN, &format!("looking at table \"{}\"", table.name), &e)
        })?;
        // One that differs in letter case is another table to the source.
        let Some(found) = found.filter(|f| f.name == table.name) else { return Ok(None) };
        if let Some(missing) = table.schema.columns.iter().find(|c| found.column(&c.name).is_none()) {
            return Err(Error::definite(
                codes::TARGET_SHAPE,
                format!("table \"{}\" at the target has no column \"{}\"", table.name, missing.name),
            )
            .note(format!("found: {}", found.sql)));
        }
        Ok(Some((db, found)))
    }
}

/// The columns of the key; all of them where there is none.
fn key_columns(table: &TargetTable) -> Vec<usize> {
    if table.is_multiset() { (0..table.schema.columns.len()).collect() } else { table.key.clone() }
}

/// The names of our key columns, as the target spells them.
fn key_names<'a>(table: &'a TargetTable, found: &'a Found) -> Vec<&'a str> {
    let columns = key_columns(table).into_iter().filter_map(|i| table.schema.columns.get(i));
    columns.map(|c| found.column(&c.name).map_or(&*c.name, |f| &*f.name)).collect()
}

impl TargetReader for SqliteReader {
    fn count(&mut self, table: &TargetTable) -> Result<u64> {
        let count = match self.find(table)? {
            None => Ok(0),
            Some((db, found)) => {
                let sql =
                    format!("SELECT COUNT(*) FROM {}{}", quote(&found.name), without_deleted(table, quote));
                db.query_row(&sql, [], |r| r.get::<_, i64>(0))
            }
        };
        let count = count.map_err(|e| self.errors().of(codes::TARGET_OPEN, "counting rows", &e))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    fn compare(&mut self, table: &TargetTable, rows: &[Row]) -> Result<Vec<Comparison>> {
        if table.is_multiset() {
            return Err(Error::definite(
                codes::INTERNAL,
                format!(
                    "rows of table \"{}\" were to be compared by a key that it does not have",
                    table.name
                ),
            ));
        }
        let path = self.options.path.clone();
        let Some((db, found)) = self.find(table)? else { return Ok(vec![Comparison::Missing; rows.len()]) };
        let columns: Vec<Compared> = table
            .schema
            .columns
            .iter()
            .map(|c| {
                let there = found.column(&c.name);
                Compared {
                    name: c.name.to_string(),
                    form: Form::of(&c.ty),
                    one_zero: there.is_some_and(|f| Affinity::of(&f.declared) == Affinity::Real),
                }
            })
            .collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            quote_all(
                table.schema.columns.iter().map(|c| found.column(&c.name).map_or(&*c.name, |f| &*f.name))
            ),
            quote(&found.name),
            key_condition(key_names(table, &found))
        );
        let compare = || -> rusqlite::Result<Vec<Comparison>> {
            // One read transaction for all of them: each would take and give back its locks by itself.
            let reading = db.unchecked_transaction()?;
            let mut statement = db.prepare_cached(&sql)?;
            let answers = rows.iter().map(|row| compare_row(&mut statement, table, &columns, row)).collect();
            drop(statement);
            reading.finish()?;
            answers
        };
        compare().map_err(|e| {
            Errors(&path).of(codes::TARGET_OPEN, &format!("reading table \"{}\"", table.name), &e)
        })
    }

    fn scan_keys(
        &mut self,
        table: &TargetTable,
        each: &mut dyn FnMut(Vec<u8>, String) -> bool,
    ) -> Result<()> {
        let path = self.options.path.clone();
        let Some((db, found)) = self.find(table)? else { return Ok(()) };
        let names = key_names(table, &found);
        let sql = format!(
            "SELECT {} FROM {}{}",
            quote_all(names.iter().copied()),
            quote(&found.name),
            without_deleted(table, quote)
        );
        let mut scan = || -> rusqlite::Result<()> {
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let mut key = Vec::new();
                let mut texts = Vec::with_capacity(names.len());
                for (i, name) in names.iter().enumerate() {
                    let value = row.get_ref(i)?;
                    push_key(&mut key, value);
                    texts.push(format!("{name} = {}", show(value)));
                }
                if !each(key, texts.join(", ")) {
                    break;
                }
            }
            Ok(())
        };
        scan().map_err(|e| {
            Errors(&path).of(codes::TARGET_OPEN, &format!("reading the keys of table \"{}\"", table.name), &e)
        })
    }

    fn encode_key(&mut self, table: &TargetTable, row: &Row) -> Vec<u8> {
        let values: Vec<_> = row.iter().collect();
        let mut key = Vec::new();
        let mut scratch = Vec::new();
        for i in key_columns(table) {
            let (Some(value), Some(column)) = (values.get(i), table.schema.columns.get(i)) else {
                continue;
            };
            // What has no place at the target is never found there.
            match encode(value, Form::of(&column.ty), &mut scratch) {
                Some(stored) => push_key(&mut key, stored),
                None => key.push(u8::MAX),
            }
        }
        key
    }
}

struct Compared {
    name: String,
    form: Form,
    /// True where the column cannot tell -0.0 from 0.0.
    one_zero: bool,
}

fn compare_row(
    statement: &mut CachedStatement<'_>,
    table: &TargetTable,
    columns: &[Compared],
    row: &Row,
) -> rusqlite::Result<Comparison> {
    let values: Vec<_> = row.iter().collect();
    let mut scratch = Vec::new();
    for (place, i) in table.key.iter().enumerate() {
        let (Some(value), Some(column)) = (values.get(*i), columns.get(*i)) else {
            return Ok(Comparison::Missing);
        };
        // What has no place at the target is not there.
        let Some(stored) = encode(value, column.form, &mut scratch) else { return Ok(Comparison::Missing) };
        statement.raw_bind_parameter(place + 1, Bound(stored))?;
    }
    let mut rows = statement.raw_query();
    let Some(actual) = rows.next()? else { return Ok(Comparison::Missing) };
    let mut differences = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let actual = actual.get_ref(i)?;
        let expected = values.get(i).and_then(|v| encode(v, column.form, &mut scratch));
        if !expected.is_some_and(|e| same(e, actual, column.one_zero)) {
            let expected = match (expected, values.get(i)) {
                (Some(stored), _) => show(stored),
                (None, Some(value)) => format!("{value} (not to be written to this column)"),
                (None, None) => "(no value)".to_owned(),
            };
            differences.push(ColumnDifference {
                column: column.name.clone(),
                expected,
                actual: show(actual),
            });
        }
    }
    Ok(if differences.is_empty() { Comparison::Equal } else { Comparison::Differs(differences) })
}

fn same(expected: ValueRef<'_>, actual: ValueRef<'_>, one_zero: bool) -> bool {
    match (expected, actual) {
        (ValueRef::Real(a), ValueRef::Real(b)) => a.to_bits() == b.to_bits() || (one_zero && a == b),
        (a, b) => a == b,
    }
}
