//! Changes that wait to be written: the last one of each key.
//!
//! What is written between two commits becomes visible at once, so of several changes of one key only the last one is
//! seen by anybody. Ticks are often small, and a round trip to the server costs as much as some hundred rows: so
//! changes of several ticks wait here and go together, until they are many, a commit or a schema change is due. A
//! table without key keeps for each row how many times more, or less, it is there.
//!
//! Deletes go first when they are written. Under a key of the target that does not tell letter case apart, upsert 'A'
//! and then delete 'a' would leave no row. With one change per key the order among them is free otherwise, so they are given
//! in the order of their keys: neighbours lie on one page of the target's index. Measured at MySQL 9.7, 100,000 rows of 200
//! bytes with keys all over a table, per statement as large as they get: 0.92 CPU seconds of the server in the order of coming, 0.65 in
//! that of the keys; at PostgreSQL 17, merging 20,000 of them, 0.16 and 0.11 s.

use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::Op;
use cdc_core::{Row, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Changes of one table.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    places: HashMap<Row, usize, foldhash::fast::RandomState>,
    changes: Vec<(Row, Change)>,
    pub(crate) bytes: usize,
}

/// What is to become of a key, or of a row of a table without.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Delete,
    /// The row; true if nobody has said that there is one of this key.
    Upsert(Row, bool),
    /// So many more of this row, or less.
    Count(i64),
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn contains(&self, key: &Row) -> bool {
        self.places.contains_key(key)
    }

    /// Takes a change of a table with a key. An upsert has its row, whole.
    pub(crate) fn push(&mut self, change: &TargetChange) {
        let is_first_of_it = matches!(change.source_op, Op::Read | Op::Insert);
        let next = match (&change.row, change.op) {
            (Some(row), TargetOp::Upsert) => Change::Upsert(row.clone(), is_first_of_it),
            _ => Change::Delete,
        };
        self.bytes += size_of(&change.key) + change.row.as_ref().map_or(0, size_of);
        match self.places.entry(change.key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(self.changes.len());
                self.changes.push((change.key.clone(), next));
            }
            Entry::Occupied(entry) => {
                let held = &mut self.changes[*entry.get()].1;
                *held = match (&*held, next) {
                    // a row is there, or may be
                    (Change::Delete | Change::Upsert(_, false), Change::Upsert(row, _)) => {
                        Change::Upsert(row, false)
                    }
                    (_, next) => next,
                };
            }
        }
    }

    /// Takes a change of a table without key.
    pub(crate) fn count(&mut self, row: &Row, by: i64) {
        match self.places.entry(row.clone()) {
            Entry::Vacant(entry) => {
                self.bytes += size_of(row);
                entry.insert(self.changes.len());
                self.changes.push((row.clone(), Change::Count(by)));
            }
            Entry::Occupied(entry) => {
                if let Change::Count(held) = &mut self.changes[*entry.get()].1 {
                    *held += by;
                }
            }
        }
    }

    /// Gives all of them, by their keys, and is empty.
    pub(crate) fn take(&mut self) -> Vec<(Row, Change)> {
        self.places.clear();
        self.bytes = 0;
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_by_cached_key(|(key, _)| place(key));
        changes
    }
}

/// Where a key lies in an index, about: numbers and bytes as they are ordered, as far as they go; what else there is counts as equal.
/// Nothing depends on it but how far the target has to go from one row to the next.
fn place(key: &Row) -> [u8; 24] {
    let mut place = [0; 24];
    let mut rest = &mut place[..];
    for value in key.iter() {
        let number;
        let bytes = match &value {
            Value::Int(n) => {
                number = (n.cast_unsigned() ^ 1 << 63).to_be_bytes();
                &number[..]
            }
            Value::UInt(n) => {
                number = n.to_be_bytes();
                &number[..]
            }
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            _ => break,
        };
        let taken = bytes.len().min(rest.len());
        rest[..taken].copy_from_slice(&bytes[..taken]);
        rest = &mut rest[taken..];
    }
    place
}

fn size_of(row: &Row) -> usize {
    row.as_bytes().len() + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(op: TargetOp, source_op: Op, id: i64, v: i64) -> TargetChange {
        TargetChange {
            tick: 1,
            ordinal: 0,
            op,
            source_op,
            key: Row::pack([Value::Int(id)]),
            row: (op == TargetOp::Upsert).then(|| Row::pack([Value::Int(id), Value::Int(v)])),
            before: None,
            origin: 0,
        }
    }

    #[test]
    fn the_last_change_of_a_key_counts_and_rows_that_may_be_there_are_known() {
        let mut pending = Pending::default();
        for (op, source, id, v) in [
            (TargetOp::Upsert, Op::Insert, 1, 1),
            (TargetOp::Upsert, Op::Update, 1, 2),
            (TargetOp::Delete, Op::Delete, 2, 0),
            (TargetOp::Upsert, Op::Insert, 2, 3),
            (TargetOp::Upsert, Op::Read, 3, 4),
            (TargetOp::Upsert, Op::Read, 4, 5),
            (TargetOp::Delete, Op::Delete, 4, 0),
        ] {
            pending.push(&change(op, source, id, v));
        }
        let shown: Vec<String> = pending.take().iter().map(|(key, c)| format!("{key:?} {c:?}")).collect();
        assert_eq!(
            shown,
            [
                "(1) Upsert((1, 2), false)",
                "(2) Upsert((2, 3), false)",
                "(3) Upsert((3, 4), true)",
                "(4) Delete"
            ]
        );
        assert!(pending.is_empty());
    }
    #[test]
    fn they_come_by_their_keys() {
        let mut pending = Pending::default();
        let keys = [
            Row::pack([Value::Int(3), Value::Text("b".into())]),
            Row::pack([Value::Int(-7), Value::Text("z".into())]),
            Row::pack([Value::Int(3), Value::Text("a".into())]),
            Row::pack([Value::Int(i64::MAX), Value::Text("".into())]),
            Row::pack([Value::Int(i64::MIN), Value::Null]),
        ];
        for key in &keys {
            pending.push(&TargetChange { key: key.clone(), ..change(TargetOp::Upsert, Op::Update, 0, 0) });
        }
        let given: Vec<Row> = pending.take().into_iter().map(|(key, _)| key).collect();
        let expected: Vec<Row> = [4, 1, 2, 0, 3].iter().map(|i: &usize| keys[*i].clone()).collect();
        assert_eq!(given, expected);
        // a number beyond what the other kind holds
        let unsigned = |n| Row::pack([Value::UInt(n)]);
        assert!(place(&unsigned(u64::MAX)) > place(&unsigned(1 << 62)));
    }
}
