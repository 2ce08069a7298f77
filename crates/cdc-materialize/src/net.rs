//! The net changes of a tick: at most one per key, or, in a table without key, the rows that go and the rows that
//! come.
//!
//! Of several changes of one key in one tick the last by (tick, ordinal) counts, whichever came first; of a
//! delete and an upsert with the same ordinal (a row that kept its key) the upsert. Deletes go before upserts: a
//! key that the target holds equal to another (a case-insensitive collation) is then deleted and written,
//! never written and deleted.
//!
//! *A table without key.* The rows that come count +1 each, those that go -1, equal rows together; what is left over is
//! handed on, each row as many times. Deletes go before inserts here too, and each finds its row: a worker has all
//! changes of a row of the source in their order, and nothing deletes a row that is not there; so of the rows that it
//! wrote in earlier parts at least as many are still there as go now, whatever other workers do.

use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::Op;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Nets the changes of one table and tick, in any order of arrival.
pub fn net(changes: Vec<TargetChange>) -> Vec<TargetChange> {
    // rows of one chunk have keys of their own
    if changes.iter().all(|c| c.source_op == Op::Read) && is_one_chunk(&changes) {
        return changes;
    }
    let mut last: HashMap<cdc_core::Row, TargetChange, foldhash::fast::FixedState> =
        HashMap::with_capacity_and_hasher(changes.len(), foldhash::fast::FixedState::default());
    for change in changes {
        match last.entry(change.key.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(change);
            }
            Entry::Occupied(mut entry) => {
                let rank = |c: &TargetChange| (c.tick, c.ordinal, c.op);
                if rank(entry.get()) <= rank(&change) {
                    entry.insert(change);
                }
            }
        }
    }
    let mut net: Vec<TargetChange> = last.into_values().collect();
    // a stable order makes runs repeatable
    net.sort_unstable_by_key(|c| (c.op, c.ordinal));
    net
}

/// Rows of one chunk share their origin and have ordinals that ascend one by one.
fn is_one_chunk(changes: &[TargetChange]) -> bool {
    changes.windows(2).all(|w| w[0].origin == w[1].origin && w[0].ordinal < w[1].ordinal)
        && changes.iter().all(|c| c.op == TargetOp::Upsert)
}

/// Nets the changes of one table without key and one tick, in any order of arrival.
pub fn net_multiset(changes: Vec<TargetChange>) -> Vec<TargetChange> {
    if changes.iter().all(|c| c.op == TargetOp::Upsert) {
        return changes;
    }
    // of the changes that go and come, those that have not found their opposite
    let mut left: HashMap<cdc_core::Row, Vec<TargetChange>, foldhash::fast::FixedState> =
        HashMap::with_capacity_and_hasher(changes.len(), foldhash::fast::FixedState::default());
    for change in changes {
        let same = left.entry(change.key.clone()).or_default();
        match same.last() {
            Some(last) if last.op != change.op => drop(same.pop()),
            _ => same.push(change),
        }
    }
    let mut net: Vec<TargetChange> = left.into_values().flatten().collect();
    net.sort_unstable_by(|a, b| (a.op, a.ordinal, &a.key).cmp(&(b.op, b.ordinal, &b.key)));
    net
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::{Row, Value};

    fn change(ordinal: u64, op: TargetOp, key: i64, value: i64) -> TargetChange {
        TargetChange {
            tick: 1,
            ordinal,
            op,
            source_op: if op == TargetOp::Delete { Op::Delete } else { Op::Update },
            key: Row::pack([Value::Int(key)]),
            row: (op == TargetOp::Upsert).then(|| Row::pack([Value::Int(key), Value::Int(value)])),
            before: None,
            origin: 0,
        }
    }

    fn apply(changes: &[TargetChange]) -> std::collections::BTreeMap<Row, Row> {
        let mut table = std::collections::BTreeMap::new();
        for c in changes {
            match &c.row {
                Some(row) => table.insert(c.key.clone(), row.clone()),
                None => table.remove(&c.key),
            };
        }
        table
    }

    #[test]
    fn any_order_of_arrival_gives_what_the_order_of_the_source_gives() {
        use TargetOp::{Delete, Upsert};
        // two keys swap, one is deleted and made again, one is made and deleted
        let changes = vec![
            change(1, Delete, 1, 0),
            change(1, Upsert, 2, 10),
            change(2, Delete, 2, 0),
            change(2, Upsert, 1, 20),
            change(3, Upsert, 3, 30),
            change(4, Delete, 3, 0),
        ];
        // within one ordinal the row arrives under its new key: 2 is deleted at 2 after it was written at 1
        let expected = apply(&changes);
        permute(changes.clone(), &mut |order| {
            let netted = net(order);
            assert!(netted.windows(2).all(|w| w[0].op <= w[1].op), "deletes first");
            assert_eq!(apply(&netted), expected);
            assert!(netted.len() <= 3);
        });
    }

    #[test]
    fn rows_of_a_multiset_cancel_by_count_in_any_order() {
        use TargetOp::{Delete, Upsert};
        let change = |ordinal, op, value: i64| {
            let row = Row::pack([Value::Int(value)]);
            TargetChange { key: row.clone(), row: (op == Upsert).then_some(row), ..change(ordinal, op, 0, 0) }
        };
        let count = |changes: &[TargetChange]| {
            let mut count = std::collections::BTreeMap::<Row, i64>::new();
            for c in changes {
                *count.entry(c.key.clone()).or_default() += if c.op == Upsert { 1 } else { -1 };
            }
            count.retain(|_, n| *n != 0);
            count
        };
        // two of 1 come; one of 2 goes and comes and goes; 3 comes and goes; an update of 4 to 5
        let changes = vec![
            change(1, Upsert, 1),
            change(2, Upsert, 1),
            change(3, Delete, 2),
            change(4, Upsert, 2),
            change(5, Delete, 2),
            change(6, Upsert, 3),
            change(7, Delete, 3),
        ];
        let expected = count(&changes);
        permute(changes, &mut |order| {
            let netted = net_multiset(order);
            assert!(netted.windows(2).all(|w| w[0].op <= w[1].op), "deletes first");
            assert_eq!(netted.len(), 3);
            assert_eq!(count(&netted), expected);
        });
    }

    fn permute(items: Vec<TargetChange>, each: &mut impl FnMut(Vec<TargetChange>)) {
        fn go(prefix: Vec<TargetChange>, rest: Vec<TargetChange>, each: &mut impl FnMut(Vec<TargetChange>)) {
            if rest.is_empty() {
                each(prefix);
                return;
            }
            for i in 0..rest.len() {
                let mut next = prefix.clone();
                let mut left = rest.clone();
                next.push(left.remove(i));
                go(next, left, each);
            }
        }
        go(Vec::new(), items, each);
    }
}
