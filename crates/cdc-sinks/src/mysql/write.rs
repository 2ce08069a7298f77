//! Rows into a table: many of them in one statement.
//!
//! An upsert is `INSERT .. ON DUPLICATE KEY UPDATE`, not `REPLACE`: REPLACE deletes the row first, which loses what
//! columns of the user's hold beside ours and runs delete triggers. Key columns are set
//! too where the key compares by another collation than by bytes: else the old spelling would stay.
//!
//! *No row but that of the key.* The server updates whichever row it meets in any unique index. A table with another
//! one than our key is refused when it is prepared; somebody may add one at any time after that, and then the insert of a
//! key would turn another key's row into it, without a word. So the update itself compares the keys, and ends in an error where
//! they differ: `k = IF(t.k = new.k OR EXP(710 + LENGTH(new.k)) = 0, new.k, new.k)`. EXP of that is beyond
//! any DOUBLE, which is an error under any `sql_mode`; that it depends on the row keeps the server from finding that out where no
//! row needs it. Rows that are new do not get there. Measured on two shared cores with 300,000 rows of 200 bytes at MySQL 9.7 and MariaDB
//! 11.8, inserted, written once more, and changed: with it and without it differ by less than one run from the next.
//!
//! Statements are filled up to [`STATEMENT_BYTES`], within `max_allowed_packet`: a round trip and a parse for
//! hundreds of rows. Larger ones are no faster: what the server makes of a statement no longer fits into its processor's caches. Measured at MySQL
//! 9.7 on two shared cores, 500,000 rows of a log: 4.2 CPU seconds of the server with statements of 512 KiB, 3.85 with 64 and with 32 KiB.
//! Against LOAD DATA LOCAL of the same rows: a copy has 0.53 of its rate, a log with updates and deletes all over the table 0.53 to 0.56.
//! LOAD DATA LOCAL itself is no way: most servers forbid it (`local_infile` is
//! off at MySQL by default), it silently cuts values that do not fit, as if IGNORE were written (seen in that very
//! measurement), and it has no update of a row that is there, only REPLACE.
//!
//! Changes of several ticks wait and go together, of each key the last one ([`crate::pending`]): what is in between nobody sees, since
//! they are committed at once. Rows that are neighbours at the target are so in the statement too. The next statement is made while the
//! server is at work on the one before it.
//!
//! Order. What waits has one change for each key, and deletes go first. Ticks with updates in part do not wait: a batch is net
//! per key and tick, and within a tick deletes go first: under a case-insensitive key, upsert 'A'
//! and then delete 'a' would leave no row. If a delete comes after an upsert of the same tick all the same, it
//! is moved in front, unless a key comes twice in that tick: then the batch is not net (a transaction beyond the
//! memory limit, in its own order), and the order is what makes it right.
//!
//! *A row that the target refuses.* The server undoes the statement, and names a row by its place in it at best. So
//! the statement's rows are tried one by one, until one is refused: that one is reported. (All of it is rolled
//! back anyhow.)
//!
//! *An ENUM's invalid value* (index 0) has no literal that a strict session takes. A row with one is written
//! by a statement of its own in a session that is not strict, and its warnings are read: any that is not about
//! that very column is an error. Its text is that of a member of no characters, so where a key is compared, and set by an
//! expression, an ENUM's number is taken. So it is with a SET that has such a member: the set of that one reads as the empty set.
//!
//! # Updates in part
//! Where columns of a row are absent, the row is there and keeps them: an UPDATE of the others, by key. One that
//! moves to another key is read in front of the tick's changes, since others of them may take its place, and
//! written as a whole under the new one.
//!
//! # A table without key
//! An upsert is a plain INSERT, a delete takes away rows that are equal in every bit of every column we write:
//! `DELETE .. WHERE (all columns are exactly these) LIMIT n`, which must find n. Where there are many of them and
//! the table has our row number ([`ROW_NUMBER`]), it is read once for all of them, and they are deleted by number.

use super::conn::{Errors, Given, Link, NOT_STRICT, STRICT};
use super::look::{Found, ROW_NUMBER};
use super::sql::{clipped, quote, quote_all};
use super::types::{Dialect, Pushed, Slot};
use crate::pending::Change;
use cdc_core::connector::{TargetChange, TargetOp, TargetTable};
use cdc_core::event::Op;
use cdc_core::{Error, Row, codes};
use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, mpsc};
use std::thread;

/// Bytes of a statement.
const STATEMENT_BYTES: usize = 64 << 10;

/// Changes of which the statements are made by another thread.
const BESIDE: usize = 500;

/// Keys of a DELETE. The server looks each up in the index, but only up to a size of its own of the condition.
const KEYS: usize = 500;

/// EXP of it and of what is greater is no DOUBLE.
const BEYOND_DOUBLE: u32 = 710;

/// Different rows to be deleted from a table without key for which it is not read as a whole.
const FEW: usize = 4;

/// How rows of a table are written under one schema.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) table: Arc<TargetTable>,
    dialect: Dialect,
    here: String,
    names: Vec<String>,
    slots: Vec<Slot>,
    set: Vec<bool>,
    insert: String,
    on_duplicate: String,
    has_row_number: bool,
}

/// What changes are written by.
enum Piece<'c> {
    /// A statement, and the changes that it makes: all of them deletes, or all upserts.
    Statement(Vec<u8>, &'c [&'c TargetChange]),
    /// A row with an ENUM's invalid value.
    Invalid(&'c TargetChange),
}

/// Where rows go.
pub(crate) struct Way<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) errors: Errors<'a>,
}

impl Writer {
    /// For a table that was checked to take the rows.
    pub(crate) fn new(table: &Arc<TargetTable>, found: &Found, dialect: &Dialect) -> Writer {
        let columns = &table.schema.columns;
        let there = |i: usize| found.column(&columns[i].name);
        let names: Vec<String> = (0..columns.len())
            .map(|i| there(i).map_or(columns[i].name.to_string(), |c| c.name.clone()))
            .collect();
        let slots: Vec<Slot> = (0..columns.len())
            .map(|i| Slot::new(&columns[i].ty, there(i).map_or("", |c| &c.ty), dialect))
            .collect();
        let folds = found.folds_keys(dialect);
        let set: Vec<bool> = (0..columns.len()).map(|i| folds || !table.key.contains(&i)).collect();
        let value = |name: &str| {
            if dialect.mariadb {
                format!("VALUES({})", quote(name))
            } else {
                format!("_cdc_new.{}", quote(name))
            }
        };
        let mut assigned: Vec<String> = table
            .key
            .first()
            .map(|first| {
                // IF gives a text, and that of an ENUM's invalid value is none of its own
                let same = table.key.iter().map(|i| {
                    let there = format!("{}.{}", quote(&found.name), quote(&names[*i]));
                    format!("{} = {}", slots[*i].number(&there), slots[*i].number(&value(&names[*i])))
                });
                let same: Vec<String> = same.collect();
                let (column, new) = (quote(&names[*first]), value(&names[*first]));
                let given = slots[*first].number(&new);
                format!(
                    "{column} = IF({} OR EXP({BEYOND_DOUBLE} + LENGTH({new})) = 0, {given}, {given})",
                    same.join(" AND ")
                )
            })
            .into_iter()
            .collect();
        let others = (0..names.len()).filter(|i| set[*i] && table.key.first() != Some(i));
        assigned
            .extend(others.map(|i| format!("{} = {}", quote(&names[i]), slots[i].number(&value(&names[i])))));
        let alias = if dialect.mariadb { "" } else { " AS _cdc_new" };
        Writer {
            here: quote(&found.name),
            insert: format!(
                "INSERT INTO {} ({}) VALUES ",
                quote(&found.name),
                quote_all(names.iter().map(String::as_str))
            ),
            on_duplicate: if table.is_multiset() {
                String::new()
            } else {
                format!("{alias} ON DUPLICATE KEY UPDATE {}", assigned.join(", "))
            },
            table: table.clone(),
            dialect: dialect.clone(),
            names,
            slots,
            set,
            has_row_number: found.has_row_number(),
        }
    }

    /// Writes changes into the open transaction: what is to become of each key, and nothing of what it was in between.
    pub(crate) fn write_last(&self, way: &mut Way<'_>, changes: Vec<(Row, Change)>) -> Result<(), Error> {
        let change = |(key, change): (Row, Change)| {
            let (op, row) = match change {
                Change::Upsert(row, _) => (TargetOp::Upsert, Some(row)),
                Change::Delete | Change::Count(_) => (TargetOp::Delete, None),
            };
            // for messages these are as good as any
            let (tick, ordinal, source_op, before, origin) = (0, 0, Op::Update, None, 0);
            TargetChange { tick, ordinal, op, source_op, key, row, before, origin }
        };
        let changes: Vec<TargetChange> = changes.into_iter().map(change).collect();
        let (mut all, upserts): (Vec<_>, Vec<_>) = changes.iter().partition(|c| c.op == TargetOp::Delete);
        all.extend(upserts);
        self.whole(way, &all)
    }

    /// Writes changes into the open transaction, each of them.
    pub(crate) fn write(&self, way: &mut Way<'_>, changes: &[TargetChange]) -> Result<(), Error> {
        if self.table.is_multiset() {
            for run in changes.chunk_by(|a, b| a.op == b.op) {
                if run.first().is_some_and(|c| c.op == TargetOp::Delete) {
                    self.take_away(way, run)?;
                } else {
                    self.whole(way, &run.iter().collect::<Vec<_>>())?;
                }
            }
            return Ok(());
        }
        for tick in changes.chunk_by(|a, b| a.tick == b.tick) {
            let moved = self.rows_that_move(way, tick)?;
            let mut all: Vec<&TargetChange> = tick.iter().collect();
            if deletes_move(tick) {
                all.sort_by_key(|c| c.op);
            }
            for run in all.chunk_by(|a, b| !a.is_in_part() && !b.is_in_part()) {
                match run {
                    [change] if change.is_in_part() => self.in_part(way, &moved, change)?,
                    whole => self.whole(way, whole)?,
                }
            }
        }
        Ok(())
    }

    /// The first of these keys whose row comes from another source table than `owners`, and which.
    pub(crate) fn other_owner(
        &self,
        way: &mut Way<'_>,
        keys: &[Row],
        owners: &[&str],
    ) -> Result<Option<(usize, String)>, Error> {
        let Some(told_by) = self.table.told_by else { return Ok(None) };
        let whose = quote(&self.names[told_by]);
        let owners: Vec<String> = owners.iter().map(|owner| super::sql::text(owner)).collect();
        let other =
            format!("CONVERT({whose} USING utf8mb4) COLLATE utf8mb4_bin NOT IN ({})", owners.join(", "));
        let kept = self.table.soft_delete.map(|flag| format!(" AND {} = 0", quote(&self.names[flag])));
        let tail = format!(") AND {other}{} LIMIT 1", kept.unwrap_or_default());
        let mut ask = |keys: &[Row]| -> Result<Option<String>, Error> {
            let mut sql = format!("SELECT {whose} FROM {} WHERE (", self.here).into_bytes();
            for (n, key) in keys.iter().enumerate() {
                if n > 0 {
                    sql.extend_from_slice(b" OR ");
                }
                self.push_key(&mut sql, key)?;
            }
            sql.extend_from_slice(tail.as_bytes());
            let found = way.link.texts(&sql).map_err(|e| {
                let doing = format!("looking whose rows of table \"{}\" are there", self.table.name);
                way.errors.of(codes::TARGET_WRITE, &doing, &e)
            })?;
            Ok(found.into_iter().flatten().next())
        };
        for (n, some) in keys.chunks(KEYS).enumerate() {
            if ask(some)?.is_none() {
                continue;
            }
            // which of them? That is asked once in a run
            for (place, key) in some.iter().enumerate() {
                if let Some(owner) = ask(std::slice::from_ref(key))? {
                    return Ok(Some((n * KEYS + place, owner)));
                }
            }
        }
        Ok(None)
    }

    /// An update of a row of which not all columns are known.
    fn in_part(
        &self,
        way: &mut Way<'_>,
        moved: &HashMap<&Row, Given>,
        change: &TargetChange,
    ) -> Result<(), Error> {
        match self.key_before(change) {
            Some(from) if from != change.key => {
                let stored = moved.get(&change.key).ok_or_else(|| self.nothing_to_update(&from))?;
                let mut sql = self.insert.clone().into_bytes();
                let pushed = self.push_row(&mut sql, change, Some(stored))?;
                sql.extend_from_slice(self.on_duplicate.as_bytes());
                if pushed == Pushed::Invalid {
                    return self.leniently(way, change, &sql).map(|_| ());
                }
                way.link.run(&sql).map(|_| ()).map_err(|e| self.refused(way, change, &e))
            }
            _ => self.update(way, change),
        }
    }

    /// Writes rows of which all columns are known, and deletes. Where they are many the next statement is made while the
    /// server is at work on the one before it.
    fn whole(&self, way: &mut Way<'_>, changes: &[&TargetChange]) -> Result<(), Error> {
        let packet = way.link.packet;
        if changes.len() < BESIDE {
            return self.pieces(changes, packet, &mut |piece| self.send(way, piece));
        }
        thread::scope(|scope| {
            let (to, pieces) = mpsc::sync_channel(1);
            let maker = scope.spawn(move || {
                self.pieces(changes, packet, &mut |piece| {
                    // whoever does not take it any more says why
                    to.send(piece).map_err(|_| self.broken("its statements were given up"))
                })
            });
            for piece in pieces {
                self.send(way, piece)?;
            }
            maker.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Gives out the statements that make these changes, in their order.
    fn pieces<'c>(
        &self,
        changes: &'c [&'c TargetChange],
        packet: usize,
        give: &mut dyn FnMut(Piece<'c>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut sql, mut first) = (Vec::new(), 0);
        let mut at = 0;
        while let Some(change) = changes.get(at) {
            let waiting = &changes[first..at];
            let is_other = waiting.first().is_some_and(|c| c.op != change.op);
            let is_full = sql.len() >= STATEMENT_BYTES.min(packet)
                || (change.op == TargetOp::Delete && waiting.len() >= KEYS);
            if is_other || is_full {
                give(self.finished(std::mem::take(&mut sql), waiting))?;
                first = at;
                continue;
            }
            let length = sql.len();
            let pushed = self.push(&mut sql, change, waiting.is_empty())?;
            let is_invalid = pushed == Pushed::Invalid && change.op == TargetOp::Upsert;
            // a row must not push others beyond what the server takes
            let is_too_much = sql.len() + self.on_duplicate.len() + 1 > packet && !waiting.is_empty();
            if is_invalid || is_too_much {
                sql.truncate(length);
                if !waiting.is_empty() {
                    give(self.finished(std::mem::take(&mut sql), waiting))?;
                }
                first = at;
            }
            if is_invalid {
                give(Piece::Invalid(change))?;
                first = at + 1;
            }
            if is_invalid || !is_too_much {
                at += 1;
            }
        }
        if first < at { give(self.finished(sql, &changes[first..at])) } else { Ok(()) }
    }

    fn finished<'c>(&self, mut sql: Vec<u8>, changes: &'c [&'c TargetChange]) -> Piece<'c> {
        if let Some(change) = changes.first() {
            self.finish(&mut sql, change.op);
        }
        Piece::Statement(sql, changes)
    }

    fn send(&self, way: &mut Way<'_>, piece: Piece<'_>) -> Result<(), Error> {
        let (sql, changes) = match piece {
            Piece::Invalid(change) => return self.write_invalid(way, change),
            Piece::Statement(sql, changes) => (sql, changes),
        };
        match (way.link.run(&sql), changes) {
            (Ok(_), _) => Ok(()),
            (Err(e), [change]) => Err(self.refused(way, change, &e)),
            (Err(e), changes) => Err(self.find_refused(way, changes, &e)),
        }
    }

    fn push(&self, sql: &mut Vec<u8>, change: &TargetChange, first: bool) -> Result<Pushed, Error> {
        match change.op {
            TargetOp::Delete => self.push_delete(sql, change, first),
            TargetOp::Upsert => self.push_upsert(sql, change, first),
        }
    }

    fn finish(&self, sql: &mut Vec<u8>, op: TargetOp) {
        match op {
            TargetOp::Upsert => sql.extend_from_slice(self.on_duplicate.as_bytes()),
            TargetOp::Delete if self.table.key.len() == 1 => sql.push(b')'),
            TargetOp::Delete => {}
        }
    }

    /// Which of a statement's rows was refused?
    fn find_refused(&self, way: &mut Way<'_>, changes: &[&TargetChange], e: &mysql_async::Error) -> Error {
        let doing = format!("writing {} rows of table \"{}\"", changes.len(), self.table.name);
        let error = way.errors.of(codes::TARGET_WRITE, &doing, e);
        if error.is_transient() || way.link.is_lost() {
            return error;
        }
        for change in changes {
            let mut sql = Vec::new();
            if let Err(e) = self.push(&mut sql, change, true) {
                return e;
            }
            self.finish(&mut sql, change.op);
            if let Err(e) = way.link.run(&sql) {
                return self.refused(way, change, &e);
            }
        }
        error.note("each of its rows by itself is taken")
    }

    fn push_upsert(&self, sql: &mut Vec<u8>, change: &TargetChange, first: bool) -> Result<Pushed, Error> {
        sql.extend_from_slice(if first { self.insert.as_bytes() } else { b"," });
        self.push_row(sql, change, None)
    }

    /// The values of a row, in parentheses; where they are absent those that are stored.
    fn push_row(
        &self,
        sql: &mut Vec<u8>,
        change: &TargetChange,
        stored: Option<&Given>,
    ) -> Result<Pushed, Error> {
        let Some(row) = &change.row else {
            return Err(self.broken(&format!("an upsert of {:?} came without its row", change.key)));
        };
        if row.len() != self.slots.len() {
            return Err(self.broken(&format!(
                "{row:?} has {} values instead of {}",
                row.len(),
                self.slots.len()
            )));
        }
        let mut pushed = Pushed::Done;
        for (i, (value, slot)) in row.iter().zip(&self.slots).enumerate() {
            sql.push(if i == 0 { b'(' } else { b',' });
            if let Some(stored) = stored.and_then(|s| s.get(i)).filter(|_| value.is_absent()) {
                match stored {
                    Some(stored) => match slot.push_stored(sql, stored) {
                        Pushed::Invalid => pushed = Pushed::Invalid,
                        Pushed::Done | Pushed::NoPlace => {}
                    },
                    None => sql.extend_from_slice(b"NULL"),
                }
                continue;
            }
            if value.is_null() && self.table.key.contains(&i) {
                return Err(self.null_in_key(row));
            }
            match slot.push(sql, &value) {
                Pushed::Done => {}
                Pushed::Invalid => pushed = Pushed::Invalid,
                Pushed::NoPlace => return Err(self.no_place(i, &value, row)),
            }
        }
        sql.push(b')');
        Ok(pushed)
    }

    fn push_delete(&self, sql: &mut Vec<u8>, change: &TargetChange, first: bool) -> Result<Pushed, Error> {
        let key = &self.table.key;
        if first {
            sql.extend_from_slice(format!("DELETE FROM {} WHERE ", self.here).as_bytes());
        }
        if let [i] = key[..] {
            if first {
                sql.extend_from_slice(format!("{} IN (", quote(&self.names[i])).as_bytes());
            } else {
                sql.push(b',');
            }
            return self.push_key_value(sql, i, &change.key.get(0), &change.key);
        }
        if !first {
            sql.extend_from_slice(b" OR ");
        }
        self.push_key(sql, &change.key)
    }

    /// `(a = 1 AND b = 2)`.
    fn push_key(&self, sql: &mut Vec<u8>, key: &Row) -> Result<Pushed, Error> {
        if key.len() != self.table.key.len() {
            return Err(self.broken(&format!(
                "key {key:?} has {} values instead of {}",
                key.len(),
                self.table.key.len()
            )));
        }
        for (n, (i, value)) in self.table.key.iter().zip(key.iter()).enumerate() {
            sql.extend_from_slice(if n == 0 { b"(" } else { b" AND " });
            sql.extend_from_slice(format!("{} = ", quote(&self.names[*i])).as_bytes());
            self.push_key_value(sql, *i, &value, key)?;
        }
        sql.push(b')');
        Ok(Pushed::Done)
    }

    fn push_key_value(
        &self,
        sql: &mut Vec<u8>,
        i: usize,
        value: &cdc_core::Value<'_>,
        key: &Row,
    ) -> Result<Pushed, Error> {
        if value.is_null() {
            return Err(self.null_in_key(key));
        }
        match self.slots[i].push(sql, value) {
            Pushed::NoPlace => Err(self.no_place(i, value, key)),
            _ => Ok(Pushed::Done),
        }
    }

    /// A row with an ENUM's invalid value.
    fn write_invalid(&self, way: &mut Way<'_>, change: &TargetChange) -> Result<(), Error> {
        let mut sql = Vec::new();
        self.push_upsert(&mut sql, change, true)?;
        sql.extend_from_slice(self.on_duplicate.as_bytes());
        self.leniently(way, change, &sql).map(|_| ())
    }

    /// Runs a statement in a session that is not strict; only the invalid values of its row may be warned of.
    fn leniently(&self, way: &mut Way<'_>, change: &TargetChange, sql: &[u8]) -> Result<u64, Error> {
        way.link
            .run(format!("SET SESSION sql_mode = {NOT_STRICT}"))
            .map_err(|e| self.refused(way, change, &e))?;
        let done = way.link.run_warned(sql);
        let warnings = match &done {
            Ok((_, n)) if *n > 0 => {
                way.link.texts("SHOW WARNINGS").map_err(|e| self.refused(way, change, &e))?
            }
            _ => Vec::new(),
        };
        if !way.link.is_lost() {
            way.link
                .run(format!("SET SESSION sql_mode = {STRICT}"))
                .map_err(|e| self.refused(way, change, &e))?;
        }
        let (found, _) = done.map_err(|e| self.refused(way, change, &e))?;
        // what is absent is written as it is stored
        let is_invalid = |(value, slot): (cdc_core::Value<'_>, &Slot)| {
            matches!(value, cdc_core::Value::Enum { index: 0, .. }) || (value.is_absent() && slot.is_enum())
        };
        let values = change.row.iter().flat_map(Row::iter).zip(&self.slots).map(is_invalid);
        let invalid: Vec<String> = values
            .zip(&self.names)
            .filter(|(is_invalid, _)| *is_invalid)
            .map(|(_, name)| format!("'{name}'"))
            .collect();
        let odd = warnings.iter().find(|w| {
            let (code, message) = (w.get(1).map(String::as_str), w.get(2).map(String::as_str));
            code != Some("1265") || !invalid.iter().any(|name| message.is_some_and(|m| m.contains(name)))
        });
        match odd {
            None => Ok(found),
            Some(warning) => Err(self.note_change(
                Error::definite(
                    codes::TARGET_VALUE,
                    format!("table \"{}\": {}", self.table.name, warning.join(" ")),
                ),
                change,
            )),
        }
    }

    fn key_before(&self, change: &TargetChange) -> Option<Row> {
        change.before.as_ref().map(|before| self.table.key_of(before))
    }

    fn reading(&self) -> String {
        let columns = self.slots.iter().zip(&self.names).map(|(slot, name)| slot.reading(name));
        columns.collect::<Vec<_>>().join(", ")
    }

    /// The rows, as they are stored, that move to another key with an update in part: by their new key.
    fn rows_that_move<'c>(
        &self,
        way: &mut Way<'_>,
        tick: &'c [TargetChange],
    ) -> Result<HashMap<&'c Row, Given>, Error> {
        let mut rows = HashMap::new();
        for change in tick.iter().filter(|c| c.is_in_part()) {
            let Some(from) = self.key_before(change).filter(|from| *from != change.key) else { continue };
            let columns = self.slots.iter().zip(&self.names).map(|(slot, name)| slot.reading_back(name));
            let columns = columns.collect::<Vec<_>>().join(", ");
            let mut sql = format!("SELECT {columns} FROM {} WHERE ", self.here).into_bytes();
            self.push_key(&mut sql, &from)?;
            let found = way.link.rows(&sql).map_err(|e| {
                let doing = format!("reading key {from:?} of table \"{}\"", self.table.name);
                way.errors.of(codes::TARGET_WRITE, &doing, &e)
            })?;
            if let Some(row) = found.into_iter().next() {
                let stored = row.into_iter().zip(&self.slots).map(|(v, slot)| v.map(|v| slot.stored(v)));
                rows.insert(&change.key, stored.collect());
            }
        }
        Ok(rows)
    }

    /// An update of the columns that a row has, by its key.
    fn update(&self, way: &mut Way<'_>, change: &TargetChange) -> Result<(), Error> {
        let Some(row) = &change.row else { return Ok(()) };
        let mut sql = format!("UPDATE {} SET ", self.here).into_bytes();
        let (mut any, mut invalid) = (false, false);
        for (i, (value, slot)) in row.iter().zip(&self.slots).enumerate() {
            if value.is_absent() || !self.set[i] {
                continue;
            }
            if any {
                sql.extend_from_slice(b", ");
            }
            any = true;
            sql.extend_from_slice(format!("{} = ", quote(&self.names[i])).as_bytes());
            match slot.push(&mut sql, &value) {
                Pushed::Done => {}
                Pushed::Invalid => invalid = true,
                Pushed::NoPlace => return Err(self.no_place(i, &value, row)),
            }
        }
        if !any {
            // nothing but the key
            return Ok(());
        }
        sql.extend_from_slice(b" WHERE ");
        self.push_key(&mut sql, &change.key)?;
        let updated = if invalid {
            self.leniently(way, change, &sql)?
        } else {
            way.link.run(&sql).map_err(|e| self.refused(way, change, &e))?
        };
        // without the row before it may still be on its way in a snapshot
        if updated == 0 && change.before.is_some() {
            return Err(self.nothing_to_update(&change.key));
        }
        Ok(())
    }

    /// Deletes a row for each of these changes of a table without key.
    fn take_away(&self, way: &mut Way<'_>, deletes: &[TargetChange]) -> Result<(), Error> {
        let mut wanted: HashMap<&Row, u64> = HashMap::with_capacity(deletes.len());
        for change in deletes {
            *wanted.entry(&change.key).or_default() += 1;
        }
        if wanted.len() > FEW && self.has_row_number {
            return self.take_many(way, &wanted);
        }
        for (row, count) in wanted {
            let mut sql = format!("DELETE FROM {} WHERE ", self.here).into_bytes();
            if row.len() != self.slots.len() {
                return Err(self.broken(&format!("{row:?} has {} values", row.len())));
            }
            for (i, (value, slot)) in row.iter().zip(&self.slots).enumerate() {
                if i > 0 {
                    sql.extend_from_slice(b" AND ");
                }
                if !slot.push_exactly(&mut sql, &self.names[i], &value, &self.dialect) {
                    return Err(self.no_place(i, &value, row));
                }
            }
            sql.extend_from_slice(format!(" LIMIT {count}").as_bytes());
            let deleted = way.link.run(&sql).map_err(|e| {
                let doing = format!("deleting rows of table \"{}\"", self.table.name);
                way.errors
                    .of(codes::TARGET_WRITE, &doing, &e)
                    .note(format!("row: {}", clipped(&format!("{row:?}"))))
            })?;
            if deleted < count {
                return Err(self.no_row(row));
            }
        }
        Ok(())
    }

    /// The same, by one read of the table.
    fn take_many(&self, way: &mut Way<'_>, rows: &HashMap<&Row, u64>) -> Result<(), Error> {
        let failed = |e: &mysql_async::Error| {
            way.errors.of(codes::TARGET_WRITE, &format!("deleting rows of table \"{}\"", self.table.name), e)
        };
        let mut wanted: HashMap<Vec<u8>, (&Row, u64)> = HashMap::with_capacity(rows.len());
        for (row, count) in rows {
            let mut exact = Vec::new();
            for (i, (value, slot)) in row.iter().zip(&self.slots).enumerate() {
                let mut expected = Vec::new();
                let there = slot.push_expected(&mut expected, &value);
                if !there && !value.is_null() {
                    return Err(self.no_place(i, &value, row));
                }
                push_exact(&mut exact, there.then_some(&expected));
            }
            wanted.insert(exact, (row, *count));
        }
        let mut numbers: Vec<Vec<u8>> = Vec::new();
        let sql = format!("SELECT {}, {} FROM {}", quote(ROW_NUMBER), self.reading(), self.here);
        way.link
            .each(&sql, &mut |row| {
                let mut values = row.into_iter();
                let number = values.next().flatten();
                let mut exact = Vec::new();
                for (value, slot) in values.zip(&self.slots) {
                    push_exact(&mut exact, value.map(|v| slot.stored(v)).as_ref());
                }
                if let (Some((_, left)), Some(number)) = (wanted.get_mut(&exact), number)
                    && *left > 0
                {
                    *left -= 1;
                    numbers.push(number);
                }
                true
            })
            .map_err(|e| failed(&e))?;
        if let Some((row, _)) = wanted.values().find(|(_, left)| *left > 0) {
            return Err(self.no_row(row));
        }
        for some in numbers.chunks(KEYS) {
            let list = some.join(&b","[..]);
            let mut sql = format!("DELETE FROM {} WHERE {} IN (", self.here, quote(ROW_NUMBER)).into_bytes();
            sql.extend_from_slice(&list);
            sql.push(b')');
            way.link.run(&sql).map_err(|e| failed(&e))?;
        }
        Ok(())
    }

    fn refused(&self, way: &mut Way<'_>, change: &TargetChange, e: &mysql_async::Error) -> Error {
        let errors = way.errors;
        let doing = match change.op {
            TargetOp::Delete => "deleting",
            TargetOp::Upsert => "writing",
        };
        let doing =
            format!("{doing} key {} of table \"{}\"", clipped(&format!("{:?}", change.key)), self.table.name);
        if self.met_another_row(e) {
            return self.note_change(self.not_alone(way, &doing, e), change);
        }
        let error = errors.of(codes::TARGET_WRITE, &doing, e);
        if error.is_transient() { error } else { self.note_change(error, change) }
    }

    /// Is this what the server says where a row meets another one in a unique index?
    fn met_another_row(&self, e: &mysql_async::Error) -> bool {
        match e {
            mysql_async::Error::Server(e) => match e.code {
                1062 | 1586 => true,
                // by our own comparison
                1690 => e.message.contains("exp(") && e.message.contains(&format!("{BEYOND_DOUBLE} + ")),
                _ => false,
            },
            _ => false,
        }
    }

    /// Somebody has added a unique index while we wrote: the table is looked at again, which says which.
    fn not_alone(&self, way: &mut Way<'_>, doing: &str, e: &mysql_async::Error) -> Error {
        let place = way.errors.0.place();
        let note = format!("{doing}: the row meets another one in a unique index");
        match Found::look(way.link, &self.table.name) {
            Ok(Some(found)) => {
                if let Err(misfit) = found.check(&self.table, &self.dialect) {
                    return misfit.note(note);
                }
            }
            Ok(None) => {}
            Err(e) => {
                return way.errors.of(
                    codes::TARGET_OPEN,
                    &format!("looking at table \"{}\"", self.table.name),
                    &e,
                );
            }
        }
        let said = match e {
            mysql_async::Error::Server(e) => format!("{} (error {})", e.message, e.code),
            other => other.to_string(),
        };
        Error::definite(codes::TARGET_WRITE, format!("{place}: {said}")).note(note).help(format!(
            "a unique index or a trigger at the target refuses a row that the source holds: SHOW CREATE TABLE {0}; SHOW TRIGGERS LIKE {1}; and drop it",
            self.here,
            super::sql::text(&self.table.name)
        ))
    }

    fn note_change(&self, error: Error, change: &TargetChange) -> Error {
        let error = match &change.row {
            Some(row) => error.note(format!("row: {}", clipped(&format!("{row:?}")))),
            None => error,
        };
        let statement = match change.op {
            TargetOp::Delete => format!("DELETE FROM {} WHERE ..", self.here),
            TargetOp::Upsert => format!("{}(..){}", self.insert, self.on_duplicate),
        };
        error.note(format!("statement: {}", clipped(&statement)))
    }

    fn null_in_key(&self, row: &Row) -> Error {
        Error::definite(
            codes::KEY_COLUMN_NULL,
            format!("table \"{}\": NULL in a key column", self.table.name),
        )
        .note(format!("row: {}", clipped(&format!("{row:?}"))))
        .help("choose another key for the flow: key (..)")
    }

    fn nothing_to_update(&self, key: &Row) -> Error {
        Error::definite(
            codes::TARGET_ROW_MISSING,
            format!("table \"{}\" has no row of key {} to be updated", self.table.name, clipped(&format!("{key:?}"))),
        )
        .note("the log holds some of the row's columns only (binlog_row_image = MINIMAL or NOBLOB): the target does not hold what was written to it")
        .help("cdc verify shows what else differs; copy the table anew: stop, remove the state folder and the target's tables and progress, start again")
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

    fn no_place(&self, i: usize, value: &cdc_core::Value<'_>, row: &Row) -> Error {
        let column = self.table.schema.columns.get(i);
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
        Error::definite(
            codes::TARGET_VALUE,
            format!("{place}: {} cannot be written to a column of {ty}", value.kind()),
        )
        .note(format!("value: {}", clipped(&format!("{value}"))))
        .note(row)
    }

    fn broken(&self, what: &str) -> Error {
        Error::definite(codes::INTERNAL, format!("table \"{}\": {}", self.table.name, clipped(what)))
    }
}

/// Appends a value in a form of which no two rows' look the same.
fn push_exact(out: &mut Vec<u8>, value: Option<&Vec<u8>>) {
    match value {
        None => out.push(0),
        Some(bytes) => {
            out.push(1);
            out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// Is a delete to be moved in front of an upsert of the same tick?
fn deletes_move(tick: &[TargetChange]) -> bool {
    if tick.is_sorted_by_key(|c| c.op) {
        return false;
    }
    let mut seen = HashSet::with_capacity(tick.len());
    tick.iter().all(|c| seen.insert(c.key.as_bytes()))
}
