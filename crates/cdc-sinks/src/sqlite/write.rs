//! Rows into a table: one prepared statement for upserts and one for deletes.
//!
//! The upsert is `INSERT .. ON CONFLICT (key) DO UPDATE`, not `REPLACE`: REPLACE deletes the row first, which
//! loses what columns of the user's hold beside ours and runs no delete triggers. Key columns are set too
//! where the key compares by another collation than by bytes: else the old spelling would stay. (By bytes a
//! row that conflicts has the very same key, and setting it only costs: updates measured 2.5 times slower.)
//!
//! One row a statement: SQLite has no round trip to save, and inserts of ten rows measured no faster.
//!
//! Order. A batch is net per key and tick; within a tick deletes go first: under a case-insensitive key,
//! upsert 'A' and then delete 'a' would leave no row. The engine hands them over in that order, and then
//! they are written as they come. If a delete comes after an upsert of the same tick all the same, it is
//! moved in front, unless a key comes twice in that tick: then the batch is not net (a transaction beyond
//! the memory limit, in its own order), and the order is what makes it right.

use super::error::Errors;
use super::look::Found;
use super::sql::{key_condition, quote, quote_all};
use super::types::{Bound, Form, encode};
use cdc_core::connector::{TargetBatch, TargetChange, TargetOp, TargetTable};
use cdc_core::{Error, Row, codes};
use rusqlite::{CachedStatement, Connection};
use std::collections::HashSet;
use std::sync::Arc;

/// How rows of a table are written under one schema.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) table: Arc<TargetTable>,
    forms: Vec<Form>,
    in_key: Vec<bool>,
    key_forms: Vec<Form>,
    upsert: String,
    delete: String,
}

impl Writer {
    /// For a table that was checked to take the rows.
    pub(crate) fn new(table: &Arc<TargetTable>, found: &Found) -> Writer {
        let columns = &table.schema.columns;
        let name = |i: usize| found.column(&columns[i].name).map_or(&*columns[i].name, |c| &c.name);
        let key: Vec<usize> = table.key.iter().copied().filter(|i| *i < columns.len()).collect();
        let in_key: Vec<bool> = (0..columns.len()).map(|i| key.contains(&i)).collect();
        let set: Vec<String> = (0..columns.len())
            .filter(|i| !in_key[*i] || found.folds_keys())
            .map(|i| format!("{0} = excluded.{0}", quote(name(i))))
            .collect();
        let action =
            if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        let places: Vec<String> = (1..=columns.len()).map(|i| format!("?{i}")).collect();
        Writer {
            forms: columns.iter().map(|c| Form::of(&c.ty)).collect(),
            in_key,
            key_forms: key.iter().map(|i| Form::of(&columns[*i].ty)).collect(),
            upsert: format!(
                "INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO {action}",
                quote(&found.name),
                quote_all((0..columns.len()).map(name)),
                places.join(", "),
                quote_all(key.iter().map(|i| name(*i))),
            ),
            delete: format!(
                "DELETE FROM {} WHERE {}",
                quote(&found.name),
                key_condition(key.iter().map(|i| name(*i)))
            ),
            table: table.clone(),
        }
    }

    /// Writes a batch into the open transaction.
    pub(crate) fn write(
        &self,
        db: &Connection,
        batch: &TargetBatch,
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let prepare = |sql: &str| {
            db.prepare_cached(sql)
                .map_err(|e| errors.of(codes::TARGET_WRITE, &format!("statement: {sql}"), &e))
        };
        let mut upsert = prepare(&self.upsert)?;
        let mut delete = prepare(&self.delete)?;
        for tick in batch.changes.chunk_by(|a, b| a.tick == b.tick) {
            if deletes_move(tick) {
                let (deletes, upserts): (Vec<_>, Vec<_>) =
                    tick.iter().partition(|c| c.op == TargetOp::Delete);
                for change in deletes.into_iter().chain(upserts) {
                    self.change(&mut upsert, &mut delete, change, scratch, errors)?;
                }
            } else {
                for change in tick {
                    self.change(&mut upsert, &mut delete, change, scratch, errors)?;
                }
            }
        }
        Ok(())
    }

    fn change<'db>(
        &self,
        upsert: &mut CachedStatement<'db>,
        delete: &mut CachedStatement<'db>,
        change: &TargetChange,
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let (statement, sql) = match change.op {
            TargetOp::Delete => {
                self.bind(delete, &change.key, &self.key_forms, true, scratch, errors)?;
                (delete, &self.delete)
            }
            TargetOp::Upsert => {
                let Some(row) = &change.row else {
                    return Err(self.broken(&format!("an upsert of {:?} came without its row", change.key)));
                };
                self.bind(upsert, row, &self.forms, false, scratch, errors)?;
                (upsert, &self.upsert)
            }
        };
        match statement.raw_execute() {
            Ok(_) => Ok(()),
            Err(e) => {
                let doing = match change.op {
                    TargetOp::Delete => "deleting",
                    TargetOp::Upsert => "writing",
                };
                let doing = format!("{doing} key {:?} of table \"{}\"", change.key, self.table.name);
                let mut error = errors.of(codes::TARGET_WRITE, &doing, &e);
                if let Some(row) = &change.row {
                    error = error.note(format!("row: {}", clipped(&format!("{row:?}"))));
                }
                Err(error.note(format!("statement: {}", clipped(sql))))
            }
        }
    }

    fn bind(
        &self,
        statement: &mut CachedStatement<'_>,
        row: &Row,
        forms: &[Form],
        keys_only: bool,
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        if row.len() != forms.len() {
            return Err(self.broken(&format!("{row:?} has {} values instead of {}", row.len(), forms.len())));
        }
        for (i, (value, form)) in row.iter().zip(forms).enumerate() {
            let in_key = keys_only || self.in_key[i];
            // NULL would give a row number by itself to an INTEGER PRIMARY KEY.
            if value.is_null() && in_key {
                let headline = format!("table \"{}\": NULL in a key column", self.table.name);
                return Err(Error::definite(codes::KEY_COLUMN_NULL, headline)
                    .note(format!("row: {}", clipped(&format!("{row:?}"))))
                    .help("choose another key for the flow: key (..)"));
            }
            let Some(stored) = encode(&value, *form, scratch) else {
                return Err(self.no_place(i, keys_only, &value, row));
            };
            if let Err(e) = statement.raw_bind_parameter(i + 1, Bound(stored)) {
                let doing =
                    format!("a value of {} bytes for table \"{}\"", row.as_bytes().len(), self.table.name);
                return Err(errors.of(codes::TARGET_VALUE, &doing, &e));
            }
        }
        Ok(())
    }

    fn no_place(&self, i: usize, keys_only: bool, value: &cdc_core::Value<'_>, row: &Row) -> Error {
        let columns = &self.table.schema.columns;
        let column =
            if keys_only { self.table.key.get(i).and_then(|i| columns.get(*i)) } else { columns.get(i) };
        let (name, ty) =
            column.map_or((String::new(), String::new()), |c| (c.name.to_string(), c.ty.to_string()));
        let place = format!("table \"{}\", column \"{name}\"", self.table.name);
        let row = format!("row: {}", clipped(&format!("{row:?}")));
        if value.is_absent() {
            return Error::definite(
                codes::PARTIAL_IMAGE,
                format!("{place}: the row came without this column"),
            )
            .note(row)
            .help("SET GLOBAL binlog_row_image = 'FULL';");
        }
        let what = clipped(&format!("{value}"));
        Error::definite(
            codes::TARGET_VALUE,
            format!("{place}: {} cannot be written to a column of {ty}", value.kind()),
        )
        .note(format!("value: {what}"))
        .note(row)
    }

    fn broken(&self, what: &str) -> Error {
        Error::definite(codes::INTERNAL, format!("table \"{}\": {}", self.table.name, clipped(what)))
    }
}

/// Is a delete to be moved in front of an upsert of the same tick?
fn deletes_move(tick: &[TargetChange]) -> bool {
    let in_order = tick.is_sorted_by_key(|c| c.op);
    if in_order {
        return false;
    }
    let mut seen = HashSet::with_capacity(tick.len());
    tick.iter().all(|c| seen.insert(c.key.as_bytes()))
}

/// A text short enough for a message.
pub(crate) fn clipped(text: &str) -> String {
    const LIMIT: usize = 400;
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let end = (0..=LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}.. ({} bytes)", &text[..end], text.len())
}
