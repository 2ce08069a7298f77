//! Reads a target back, for `cdc verify`. Never writes, and holds no transaction between calls.
//!
//! A row is compared as the server prints it: the text of each column against the text that the sink writes for the
//! same value, in one spelling ([`Form::normal`]); so a lost digit is a difference. All rows of a call go in one
//! statement.
//!
//! Of a table without key every column is the key, for reading: `scan_keys` gives whole rows (the two zeros as one).

use super::conn::Conn;
use super::error::Errors;
use super::look::Found;
use super::options::PostgresOptions;
use super::sql::{literal, quote};
use super::types::Form;
use crate::default::without_deleted;
use cdc_core::connector::{ColumnDifference, Comparison, TargetReader, TargetTable};
use cdc_core::{Error, Result, Row, codes};
use std::collections::HashMap;

/// Keys of a statement.
const KEYS: usize = 1_000;

/// The reader of a target.
pub struct PostgresReader {
    options: PostgresOptions,
    conn: Option<Conn>,
}

impl PostgresReader {
    /// A reader; opens nothing yet.
    pub fn new(options: PostgresOptions) -> PostgresReader {
        PostgresReader { options, conn: None }
    }

    fn errors(&self) -> Errors<'_> {
        Errors(&self.options)
    }

    /// The table, if there is one, checked to have all our columns.
    fn find(&mut self, table: &TargetTable) -> Result<Option<(&Conn, Found)>> {
        if self.conn.as_ref().is_none_or(Conn::is_closed) {
            self.conn = Some(Conn::open(&self.options, false)?);
        }
        let Some(conn) = &self.conn else { return Ok(None) };
        let found = Found::look(conn, &self.options.schema, &table.name).map_err(|e| {
            self.errors().of(codes::TARGET_OPEN, &format!("looking at table \"{}\"", table.name), &e)
        })?;
        let Some(found) = found else { return Ok(None) };
        if let Some(missing) = table.schema.columns.iter().find(|c| found.column(&c.name).is_none()) {
            return Err(Error::definite(
                codes::TARGET_SHAPE,
                format!("table \"{}\" at the target has no column \"{}\"", table.name, missing.name),
            )
            .note(format!("found: {}", found.shown())));
        }
        Ok(Some((conn, found)))
    }

    /// The text of a value as it is written; `None` inside for NULL, outside for one that has no place there.
    fn text(&self, table: &TargetTable, i: usize, value: &cdc_core::Value<'_>) -> Option<Option<String>> {
        let form = Form::of(&table.schema.columns.get(i)?.ty);
        let nul = if table.key.contains(&i) { super::NulPolicy::Error } else { self.options.nul };
        form.text(value, nul).ok()
    }
}

/// The columns of the key; all of them where there is none.
fn key_columns(table: &TargetTable) -> Vec<usize> {
    if table.is_multiset() { (0..table.schema.columns.len()).collect() } else { table.key.clone() }
}

/// A column's name at the target, in quotes.
fn name_of(table: &TargetTable, found: &Found, i: usize) -> String {
    let name = table.schema.columns.get(i).map_or("", |c| &*c.name);
    quote(found.column(name).map_or(name, |f| &f.name))
}

fn push_key(out: &mut Vec<u8>, form: &Form, text: Option<&str>) {
    match text {
        None => out.push(0),
        Some(text) => {
            let text = form.key(form.normal(text));
            out.push(1);
            out.extend_from_slice(&(text.len() as u64).to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// A value for people, numbers bare; long ones are cut short.
fn show(form: &Form, text: Option<&str>) -> String {
    const LIMIT: usize = 200;
    let bare = matches!(form, Form::Integer | Form::Decimal | Form::Float | Form::Double);
    match text {
        None => "NULL".to_owned(),
        Some(text) if bare => text.to_owned(),
        Some(text) if text.len() <= LIMIT => format!("{text:?}"),
        Some(text) => {
            let end = (0..=LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
            format!("{:?}.. ({} bytes)", &text[..end], text.len())
        }
    }
}

impl TargetReader for PostgresReader {
    fn count(&mut self, table: &TargetTable) -> Result<u64> {
        let count = match self.find(table)? {
            None => Ok(0),
            Some((conn, found)) => found.count(conn, &without_deleted(table, quote)),
        };
        count.map_err(|e| self.errors().of(codes::TARGET_OPEN, "counting rows", &e))
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
        let options = self.options.clone();
        let errors = Errors(&options);
        let mut answers = vec![Comparison::Missing; rows.len()];
        // what has no place at the target is not there
        let keys: Vec<Option<Vec<String>>> = rows
            .iter()
            .map(|row| {
                let values: Vec<_> = row.iter().collect();
                table.key.iter().map(|i| self.text(table, *i, values.get(*i)?)?).collect()
            })
            .collect();
        let Some((conn, found)) = self.find(table)? else { return Ok(answers) };
        let forms: Vec<Form> = table.schema.columns.iter().map(|c| Form::of(&c.ty)).collect();
        let names: Vec<String> = (0..forms.len()).map(|i| name_of(table, &found, i)).collect();
        let selected: Vec<String> = names.iter().map(|n| format!("t.{n}::text")).collect();
        let matched: Vec<String> = table
            .key
            .iter()
            .enumerate()
            .map(|(n, i)| {
                let base = found.column(&table.schema.columns[*i].name).map_or("text", |f| &f.base);
                let base = if base == "bit" { "bit varying" } else { base };
                format!("t.{} = k.c{n}::{base}", names[*i])
            })
            .collect();
        let mut stored: HashMap<usize, Vec<Option<String>>> = HashMap::new();
        let wanted: Vec<(usize, &Vec<String>)> =
            keys.iter().enumerate().filter_map(|(i, key)| Some((i, key.as_ref()?))).collect();
        for part in wanted.chunks(KEYS) {
            let values: Vec<String> = part
                .iter()
                .map(|(n, key)| {
                    let texts: Vec<String> = key.iter().map(|t| format!("{}::text", literal(t))).collect();
                    format!("({n}, {})", texts.join(", "))
                })
                .collect();
            let columns: Vec<String> = (0..table.key.len()).map(|i| format!("c{i}")).collect();
            let sql = format!(
                "SELECT k.n, {} FROM (VALUES {}) AS k(n, {}) JOIN {} AS t ON {}",
                selected.join(", "),
                values.join(", "),
                columns.join(", "),
                found.full,
                matched.join(" AND ")
            );
            let read = conn.rows(&sql).map_err(|e| {
                errors.of(codes::TARGET_OPEN, &format!("reading table \"{}\"", table.name), &e)
            })?;
            for mut row in read {
                let rest = row.split_off(1.min(row.len()));
                let n = row.first().and_then(|n| n.as_deref()?.parse().ok()).unwrap_or(usize::MAX);
                stored.insert(n, rest);
            }
        }
        for (n, (row, answer)) in rows.iter().zip(&mut answers).enumerate() {
            let Some(actual) = stored.get(&n) else { continue };
            let mut differences = Vec::new();
            for (i, value) in row.iter().enumerate() {
                let actual = actual.get(i).and_then(Option::as_deref);
                let actual_normal = actual.map(|a| forms[i].normal(a));
                let expected = self.text(table, i, &value);
                if expected.as_ref().is_some_and(|e| e.as_deref() == actual_normal.as_deref()) {
                    continue;
                }
                differences.push(ColumnDifference {
                    column: table.schema.columns[i].name.to_string(),
                    expected: match &expected {
                        Some(expected) => show(&forms[i], expected.as_deref()),
                        None => format!("{value} (not to be written to this column)"),
                    },
                    actual: show(&forms[i], actual),
                });
            }
            *answer =
                if differences.is_empty() { Comparison::Equal } else { Comparison::Differs(differences) };
        }
        Ok(answers)
    }

    fn scan_keys(
        &mut self,
        table: &TargetTable,
        each: &mut dyn FnMut(Vec<u8>, String) -> bool,
    ) -> Result<()> {
        let options = self.options.clone();
        let Some((conn, found)) = self.find(table)? else { return Ok(()) };
        let columns = key_columns(table);
        let forms: Vec<Form> = columns.iter().map(|i| Form::of(&table.schema.columns[*i].ty)).collect();
        let names: Vec<&str> = columns.iter().map(|i| &*table.schema.columns[*i].name).collect();
        let selected: Vec<String> =
            columns.iter().map(|i| format!("{}::text", name_of(table, &found, *i))).collect();
        let sql =
            format!("SELECT {} FROM {}{}", selected.join(", "), found.full, without_deleted(table, quote));
        conn.each(&sql, |row| {
            let mut key = Vec::new();
            let mut texts = Vec::with_capacity(row.len());
            for ((value, form), name) in row.iter().zip(&forms).zip(&names) {
                push_key(&mut key, form, *value);
                texts.push(format!("{name} = {}", show(form, *value)));
            }
            each(key, texts.join(", "))
        })
        .map_err(|e| {
            Errors(&options).of(
                codes::TARGET_OPEN,
                &format!("reading the keys of table \"{}\"", table.name),
                &e,
            )
        })
    }

    fn encode_key(&mut self, table: &TargetTable, row: &Row) -> Vec<u8> {
        let values: Vec<_> = row.iter().collect();
        let mut key = Vec::new();
        for i in key_columns(table) {
            let (Some(value), Some(column)) = (values.get(i), table.schema.columns.get(i)) else {
                continue;
            };
            // What has no place at the target is never found there.
            match self.text(table, i, value) {
                Some(text) => push_key(&mut key, &Form::of(&column.ty), text.as_deref()),
                None => key.push(u8::MAX),
            }
        }
        key
    }
}
