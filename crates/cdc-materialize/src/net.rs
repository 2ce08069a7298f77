//! The net changes of a tick: at most one per key.
//!
//! Of several changes of one key in one tick the last by (tick, ordinal) counts, whichever came first; of a
//! delete and an upsert with the same ordinal (a row that kept its key) the upsert. Deletes go before upserts: a
//! key that the target holds equal to another (a case-insensitive collation) is then deleted and written,
//! never written and deleted.

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
