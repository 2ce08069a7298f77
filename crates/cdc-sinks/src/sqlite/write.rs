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

//!
//! # Updates in part
//! Where columns of a row are absent, the row is there and keeps them: an UPDATE of the others, by key. One that moves to
//! another key is read in front of the tick's changes, since others of them may take its place, and written as a whole under
//! the new one (columns of the user's beside ours are lost, as in any move: it is a delete and an insert).
//!
//! # A table without key
//! An upsert is a plain INSERT, a delete takes away one row that is equal in every bit of every column we write
//! (columns of others may differ: which of such rows goes is nobody's matter), found by its values and deleted by its
//! row number. A few are looked for one by one, or as many as there are if an index of the user's helps; else the
//! table is read once for all of them. A row that is not there is an error: the target is not what we left there.

use super::error::Errors;
use super::look::Found;
use super::sql::{equal_condition, key_condition, quote, quote_all};
use super::types::{Affinity, Bound, Form, encode, push_exact};
use cdc_core::connector::{TargetBatch, TargetChange, TargetOp, TargetTable};
use cdc_core::{Error, Row, codes};
use rusqlite::types::{Value as Stored, ValueRef};
use rusqlite::{CachedStatement, Connection};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Rows to be deleted from a table without key for which it is not read as a whole.
const FEW: usize = 4;

/// How rows of a table are written under one schema.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) table: Arc<TargetTable>,
    forms: Vec<Form>,
    in_key: Vec<bool>,
    key_forms: Vec<Form>,
    upsert: String,
    delete: String,
    part: Part,
    multiset: Option<Multiset>,
    /// Selects which source table the row of a key comes from.
    whose: Option<String>,
}

/// What statements of updates in part are made of.
#[derive(Debug, Clone)]
struct Part {
    /// The table, in quotes.
    table: String,
    /// The columns, in quotes.
    columns: Vec<String>,
    /// Of each column: is it set?
    set: Vec<bool>,
    /// Selects all columns of a key.
    select: String,
}

/// How rows of a table without key are found.
#[derive(Debug, Clone)]
struct Multiset {
    /// Row number and columns of all rows; with `equal` behind it, of those that are equal to the parameters (to SQLite:
    /// the two zeros are one).
    read: String,
    equal: String,
    delete: String,
    /// True where a column cannot tell -0.0 from 0.0.
    one_zero: Vec<bool>,
}

impl Multiset {
    fn new(found: &Found, names: &[&str]) -> Multiset {
        // a table that hides its row numbers was refused
        let number = found.row_number().unwrap_or("rowid");
        let here = quote(&found.name);
        let one_zero =
            |name: &&str| found.column(name).is_some_and(|c| Affinity::of(&c.declared) == Affinity::Real);
        Multiset {
            read: format!("SELECT {number}, {} FROM {here}", quote_all(names.iter().copied())),
            equal: format!(" WHERE {}", equal_condition(names.iter().copied())),
            delete: format!("DELETE FROM {here} WHERE {number} = ?1"),
            one_zero: names.iter().map(one_zero).collect(),
        }
    }

    fn find(&self) -> String {
        format!("{}{}", self.read, self.equal)
    }

    /// The row that a statement is at, in a form of its own.
    fn exactly(&self, out: &mut Vec<u8>, row: &rusqlite::Row<'_>) -> rusqlite::Result<()> {
        out.clear();
        for (i, one_zero) in self.one_zero.iter().enumerate() {
            push_exact(out, row.get_ref(i + 1)?, *one_zero);
        }
        Ok(())
    }

    /// Does an index help to find a row?
    fn is_indexed(&self, db: &Connection) -> rusqlite::Result<bool> {
        let mut statement = db.prepare_cached(&format!("EXPLAIN QUERY PLAN {}", self.find()))?;
        // parameters that are not bound are NULL, which does here
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if matches!(row.get_ref(3)?, ValueRef::Text(detail) if detail.starts_with(b"SEARCH")) {
                return Ok(true);
            }
        }
        Ok(false)
    }
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
        let names: Vec<&str> = (0..columns.len()).map(name).collect();
        let conflict = if table.is_multiset() {
            String::new()
        } else {
            format!(" ON CONFLICT ({}) DO {action}", quote_all(key.iter().map(|i| name(*i))))
        };
        let by_key = key_condition(key.iter().map(|i| name(*i)));
        Writer {
            part: Part {
                table: quote(&found.name),
                columns: names.iter().map(|n| quote(n)).collect(),
                set: in_key.iter().map(|in_key| !in_key || found.folds_keys()).collect(),
                select: format!(
                    "SELECT {} FROM {} WHERE {by_key}",
                    quote_all(names.iter().copied()),
                    quote(&found.name)
                ),
            },
            multiset: table.is_multiset().then(|| Multiset::new(found, &names)),
            whose: table.told_by.map(|told_by| {
                let kept = table.soft_delete.map(|flag| format!(" AND {} = 0", quote(names[flag])));
                format!(
                    "SELECT {} FROM {} WHERE {by_key}{}",
                    quote(names[told_by]),
                    quote(&found.name),
                    kept.unwrap_or_default()
                )
            }),
            forms: columns.iter().map(|c| Form::of(&c.ty)).collect(),
            in_key,
            key_forms: key.iter().map(|i| Form::of(&columns[*i].ty)).collect(),
            upsert: format!(
                "INSERT INTO {} ({}) VALUES ({}){conflict}",
                quote(&found.name),
                quote_all(names.iter().copied()),
                places.join(", "),
            ),
            delete: format!("DELETE FROM {} WHERE {by_key}", quote(&found.name)),
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
        if let Some(multiset) = &self.multiset {
            let mut delete = prepare(&multiset.delete)?;
            for run in batch.changes.chunk_by(|a, b| a.op == b.op) {
                if run.first().is_some_and(|c| c.op == TargetOp::Delete) {
                    self.take_away(db, multiset, run, scratch, errors)?;
                } else {
                    for change in run {
                        self.change(&mut upsert, &mut delete, change, scratch, errors)?;
                    }
                }
            }
            return Ok(());
        }
        let mut delete = prepare(&self.delete)?;
        for tick in batch.changes.chunk_by(|a, b| a.tick == b.tick) {
            let moved = self.rows_that_move(db, tick, scratch, errors)?;
            if deletes_move(tick) {
                let (deletes, upserts): (Vec<_>, Vec<_>) =
                    tick.iter().partition(|c| c.op == TargetOp::Delete);
                for change in deletes.into_iter().chain(upserts) {
                    self.keyed(db, &moved, &mut upsert, &mut delete, change, scratch, errors)?;
                }
            } else {
                for change in tick {
                    self.keyed(db, &moved, &mut upsert, &mut delete, change, scratch, errors)?;
                }
            }
        }
        Ok(())
    }

    /// The first of these keys whose row comes from another source table than `owners`, and which.
    pub(crate) fn other_owner(
        &self,
        db: &Connection,
        keys: &[Row],
        owners: &[&str],
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<Option<(usize, String)>, Error> {
        let Some(sql) = &self.whose else { return Ok(None) };
        let failed = |e: &rusqlite::Error| errors.of(codes::TARGET_WRITE, &format!("statement: {sql}"), e);
        let mut select = db.prepare_cached(sql).map_err(|e| failed(&e))?;
        for (place, key) in keys.iter().enumerate() {
            self.bind(&mut select, key, &self.key_forms, true, scratch, errors)?;
            let mut found = select.raw_query();
            let owner = match found.next().map_err(|e| failed(&e))? {
                Some(row) => row.get::<_, Option<String>>(0).map_err(|e| failed(&e))?,
                None => None,
            };
            if let Some(owner) = owner.filter(|owner| !owners.contains(&&**owner)) {
                return Ok(Some((place, owner)));
            }
        }
        Ok(None)
    }

    /// A change of a table with a key.
    #[allow(clippy::too_many_arguments, reason = "two statements, and what is bound to them")]
    fn keyed<'db>(
        &self,
        db: &'db Connection,
        moved: &HashMap<&Row, Vec<Stored>>,
        upsert: &mut CachedStatement<'db>,
        delete: &mut CachedStatement<'db>,
        change: &TargetChange,
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        match &change.row {
            Some(row) if change.is_in_part() => match self.key_before(change) {
                Some(from) if from != change.key => {
                    let Some(stored) = moved.get(&change.key) else {
                        return Err(self.nothing_to_update(&from));
                    };
                    self.bind_over(upsert, row, stored, scratch, errors)?;
                    self.executed(upsert.raw_execute(), change, &self.upsert, errors).map(|_| ())
                }
                _ => self.update(db, row, change, scratch, errors),
            },
            _ => self.change(upsert, delete, change, scratch, errors),
        }
    }

    fn key_before(&self, change: &TargetChange) -> Option<Row> {
        change.before.as_ref().map(|before| self.table.key_of(before))
    }

    /// The rows, as they are stored, that move to another key with an update in part: by their new key.
    fn rows_that_move<'c>(
        &self,
        db: &Connection,
        tick: &'c [TargetChange],
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<HashMap<&'c Row, Vec<Stored>>, Error> {
        let mut rows = HashMap::new();
        for change in tick.iter().filter(|c| c.is_in_part()) {
            let Some(from) = self.key_before(change).filter(|from| *from != change.key) else { continue };
            let failed = |e: &rusqlite::Error| {
                errors.of(
                    codes::TARGET_WRITE,
                    &format!("reading key {from:?} of table \"{}\"", self.table.name),
                    e,
                )
            };
            let mut select = db.prepare_cached(&self.part.select).map_err(|e| failed(&e))?;
            self.bind(&mut select, &from, &self.key_forms, true, scratch, errors)?;
            let mut found = select.raw_query();
            if let Some(row) = found.next().map_err(|e| failed(&e))? {
                let stored = (0..self.forms.len()).map(|i| row.get(i)).collect::<rusqlite::Result<_>>();
                rows.insert(&change.key, stored.map_err(|e| failed(&e))?);
            }
        }
        Ok(rows)
    }

    /// An update of the columns that a row has, by its key.
    fn update(
        &self,
        db: &Connection,
        row: &Row,
        change: &TargetChange,
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let part = &self.part;
        let here: Vec<usize> =
            row.iter().enumerate().filter(|(i, v)| part.set[*i] && !v.is_absent()).map(|(i, _)| i).collect();
        let key = self.table.key.iter().zip(here.len() + 1..);
        let by_key: Vec<String> = key.map(|(i, n)| format!("{} = ?{n}", part.columns[*i])).collect();
        let set: Vec<String> =
            here.iter().zip(1..).map(|(i, n)| format!("{} = ?{n}", part.columns[*i])).collect();
        let sql = if set.is_empty() {
            // nothing but the key
            return Ok(());
        } else {
            format!("UPDATE {} SET {} WHERE {}", part.table, set.join(", "), by_key.join(" AND "))
        };
        let doing = |e: &rusqlite::Error| errors.of(codes::TARGET_WRITE, &format!("statement: {sql}"), e);
        let mut statement = db.prepare_cached(&sql).map_err(|e| doing(&e))?;
        let mut values = row.iter().enumerate().filter(|(i, _)| here.contains(i));
        let mut place = 0;
        for (i, value) in values.by_ref() {
            place += 1;
            self.bind_one(&mut statement, place, i, &value, self.forms[i], false, row, scratch, errors)?;
        }
        for (i, (value, form)) in change.key.iter().zip(&self.key_forms).enumerate() {
            place += 1;
            self.bind_one(&mut statement, place, i, &value, *form, true, &change.key, scratch, errors)?;
        }
        let updated = self.executed(statement.raw_execute(), change, &sql, errors)?;
        // without the row before it may still be on its way in a snapshot
        if updated == 0 && change.before.is_some() {
            return Err(self.nothing_to_update(&change.key));
        }
        Ok(())
    }

    fn nothing_to_update(&self, key: &Row) -> Error {
        Error::definite(
            codes::TARGET_ROW_MISSING,
            format!("table \"{}\" has no row of key {} to be updated", self.table.name, clipped(&format!("{key:?}"))),
        )
        .note("the log holds some of the row's columns only (binlog_row_image = MINIMAL or NOBLOB): the target does not hold what was written to it")
        .help("cdc verify shows what else differs; copy the table anew: stop, remove the state folder and the target's tables and progress, start again")
    }

    /// The values of a row, and where they are absent those that are stored.
    fn bind_over(
        &self,
        statement: &mut CachedStatement<'_>,
        row: &Row,
        stored: &[Stored],
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        for (i, (value, form)) in row.iter().zip(&self.forms).enumerate() {
            match stored.get(i) {
                Some(stored) if value.is_absent() => {
                    statement.raw_bind_parameter(i + 1, stored).map_err(|e| {
                        errors.of(
                            codes::TARGET_VALUE,
                            &format!("a value of table \"{}\"", self.table.name),
                            &e,
                        )
                    })?;
                }
                _ => self.bind_one(statement, i + 1, i, &value, *form, false, row, scratch, errors)?,
            }
        }
        Ok(())
    }

    /// Deletes a row for each of these changes of a table without key.
    fn take_away(
        &self,
        db: &Connection,
        multiset: &Multiset,
        deletes: &[TargetChange],
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let failed = |e: &rusqlite::Error| {
            errors.of(codes::TARGET_WRITE, &format!("deleting rows of table \"{}\"", self.table.name), e)
        };
        let mut delete = db.prepare_cached(&multiset.delete).map_err(|e| failed(&e))?;
        if deletes.len() <= FEW || multiset.is_indexed(db).map_err(|e| failed(&e))? {
            let mut find = db.prepare_cached(&multiset.find()).map_err(|e| failed(&e))?;
            for change in deletes {
                let wanted = self.exactly(multiset, &change.key, scratch)?;
                self.bind(&mut find, &change.key, &self.forms, false, scratch, errors)?;
                let number = first_equal(multiset, &mut find, &wanted).map_err(|e| failed(&e))?;
                let Some(number) = number else { return Err(self.no_row(&change.key)) };
                delete.execute([number]).map_err(|e| failed(&e))?;
            }
            return Ok(());
        }
        let mut wanted: HashMap<Vec<u8>, Vec<&Row>> = HashMap::with_capacity(deletes.len());
        for change in deletes {
            wanted.entry(self.exactly(multiset, &change.key, scratch)?).or_default().push(&change.key);
        }
        let mut numbers = Vec::with_capacity(deletes.len());
        let mut read = db.prepare_cached(&multiset.read).map_err(|e| failed(&e))?;
        let mut search = || -> rusqlite::Result<()> {
            let mut rows = read.query([])?;
            let mut bytes = Vec::new();
            while let Some(row) = rows.next()? {
                multiset.exactly(&mut bytes, row)?;
                if wanted.get_mut(&bytes).and_then(Vec::pop).is_some() {
                    numbers.push(row.get::<_, i64>(0)?);
                    if numbers.len() == deletes.len() {
                        break;
                    }
                }
            }
            Ok(())
        };
        search().map_err(|e| failed(&e))?;
        if let Some(row) = wanted.values().find_map(|rows| rows.first()) {
            return Err(self.no_row(row));
        }
        numbers.iter().try_for_each(|number| delete.execute([number]).map(|_| ())).map_err(|e| failed(&e))
    }

    /// A row as it would be stored, in the form of [`Multiset::exactly`].
    fn exactly(&self, multiset: &Multiset, row: &Row, scratch: &mut Vec<u8>) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(row.as_bytes().len());
        for (i, (value, form)) in row.iter().zip(&self.forms).enumerate() {
            match encode(&value, *form, scratch) {
                Some(stored) => {
                    push_exact(&mut out, stored, multiset.one_zero.get(i).copied().unwrap_or_default());
                }
                None => return Err(self.no_place(i, false, &value, row)),
            }
        }
        Ok(out)
    }

    fn no_row(&self, row: &Row) -> Error {
        Error::definite(
            codes::TARGET_ROW_MISSING,
            format!("table \"{}\" has no row like the one to be deleted", self.table.name),
        )
        .note(format!("row: {}", clipped(&format!("{row:?}"))))
        .note("the table has no key, so the row is found by all its values: the target does not hold what was written to it")
        .help("cdc verify shows what else differs; copy the table anew: stop, remove the state folder and the target's tables and progress, start again")
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
        self.executed(statement.raw_execute(), change, sql, errors).map(|_| ())
    }

    /// The rows that a statement has changed.
    fn executed(
        &self,
        result: rusqlite::Result<usize>,
        change: &TargetChange,
        sql: &str,
        errors: Errors<'_>,
    ) -> Result<usize, Error> {
        result.map_err(|e| {
            let doing = match change.op {
                TargetOp::Delete => "deleting",
                TargetOp::Upsert => "writing",
            };
            let doing = format!("{doing} key {:?} of table \"{}\"", change.key, self.table.name);
            let mut error = errors.of(codes::TARGET_WRITE, &doing, &e);
            if let Some(row) = &change.row {
                error = error.note(format!("row: {}", clipped(&format!("{row:?}"))));
            }
            error.note(format!("statement: {}", clipped(sql)))
        })
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
            self.bind_one(statement, i + 1, i, &value, *form, keys_only, row, scratch, errors)?;
        }
        Ok(())
    }

    /// Binds value `i` of a row, or of a key.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "what a message about it names")]
    fn bind_one(
        &self,
        statement: &mut CachedStatement<'_>,
        place: usize,
        i: usize,
        value: &cdc_core::Value<'_>,
        form: Form,
        keys_only: bool,
        row: &Row,
        scratch: &mut Vec<u8>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let in_key = keys_only || self.in_key[i];
        // NULL would give a row number by itself to an INTEGER PRIMARY KEY.
        if value.is_null() && in_key {
            let headline = format!("table \"{}\": NULL in a key column", self.table.name);
            return Err(Error::definite(codes::KEY_COLUMN_NULL, headline)
                .note(format!("row: {}", clipped(&format!("{row:?}"))))
                .help("choose another key for the flow: key (..)"));
        }
        let Some(stored) = encode(value, form, scratch) else {
            return Err(self.no_place(i, keys_only, value, row));
        };
        statement.raw_bind_parameter(place, Bound(stored)).map_err(|e| {
            let doing =
                format!("a value of {} bytes for table \"{}\"", row.as_bytes().len(), self.table.name);
            errors.of(codes::TARGET_VALUE, &doing, &e)
        })
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

/// The number of the first row found that is equal in every bit.
fn first_equal(
    multiset: &Multiset,
    find: &mut CachedStatement<'_>,
    wanted: &[u8],
) -> rusqlite::Result<Option<i64>> {
    let mut rows = find.raw_query();
    let mut bytes = Vec::with_capacity(wanted.len());
    while let Some(row) = rows.next()? {
        multiset.exactly(&mut bytes, row)?;
        if bytes == wanted {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
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
