//! The net changes of a tick: at most one per key, or, in a table without key, the rows that go and the rows that
//! come.
//!
//! Of several changes of one key in one tick the last by (tick, ordinal) counts, whichever came first; of a
//! delete and an upsert with the same ordinal (a row that kept its key) the upsert. Deletes go before upserts: a
//! key that the target holds equal to another (a case-insensitive collation) is then deleted and written,
//! never written and deleted.
//!
//! *Updates in part* ([`TargetChange::is_in_part`]) are laid over what the tick has said of the row before them, in the order
//! of the source; so of a whole row a whole row comes, and of several updates in part one, of the row that had
//! the first one's key in front of the tick. A row that moves to another key takes what is known of it along.
//!
//! *A table without key.* The rows that come count +1 each, those that go -1, equal rows together; what is left over is
//! handed on, each row as many times. Deletes go before inserts here too, and each finds its row: a worker has all
//! changes of a row of the source in their order, and nothing deletes a row that is not there; so of the rows that it
//! wrote in earlier parts at least as many are still there as go now, whatever other workers do.

use cdc_core::Row;
use cdc_core::connector::{TargetChange, TargetOp, TargetTable};
use cdc_core::event::Op;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;

/// The key that the row of an update had in front of it.
pub type From<'f> = &'f dyn Fn(&TargetChange) -> Row;

/// [`From`], of changes that all have this table's shape.
pub fn key_before<'t>(table: &'t TargetTable) -> impl Fn(&TargetChange) -> Row + 't {
    |change| change.before.as_ref().map_or_else(|| change.key.clone(), |before| table.key_of(before))
}

/// Nets the changes of one table and tick, in any order of arrival.
pub fn net(from: From<'_>, mut changes: Vec<TargetChange>) -> Vec<TargetChange> {
    if changes.iter().any(TargetChange::is_in_part) {
        return net_in_part(from, changes);
    }
    // rows of one chunk have keys of their own
    if changes.iter().all(|c| c.source_op == Op::Read) && is_one_chunk(&changes) {
        return changes;
    }
    // where no two hashes are the same no two keys are, which is nearly always so: then nothing is to be netted
    let hasher = foldhash::fast::FixedState::default();
    let mut hashes: Vec<u64> = changes.iter().map(|c| hasher.hash_one(&c.key)).collect();
    hashes.sort_unstable();
    if hashes.windows(2).all(|pair| pair[0] != pair[1]) {
        changes.sort_unstable_by_key(|c| (c.op, c.ordinal));
        return changes;
    }
    let mut last: HashMap<Row, TargetChange, foldhash::fast::FixedState> =
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

/// The same, where some are updates in part.
fn net_in_part(from: From<'_>, mut changes: Vec<TargetChange>) -> Vec<TargetChange> {
    changes.sort_by_key(|c| (c.tick, c.ordinal, c.op));
    let mut known: HashMap<Row, TargetChange, foldhash::fast::FixedState> =
        HashMap::with_capacity_and_hasher(changes.len(), foldhash::fast::FixedState::default());
    for change in changes {
        if !change.is_in_part() {
            known.insert(change.key.clone(), change);
            continue;
        }
        let from = from(&change);
        let moved = from != change.key;
        let merged = match known.remove(&from) {
            // the tick has not said anything of it
            None => change.clone(),
            // it is gone: nothing is there to be changed
            Some(gone) if gone.op == TargetOp::Delete => {
                known.insert(from, gone);
                continue;
            }
            Some(earlier) => {
                let row = match (&earlier.row, &change.row) {
                    (Some(below), Some(above)) => Some(below.overlaid(above)),
                    (_, row) => row.clone(),
                };
                let in_part = earlier.is_in_part();
                TargetChange {
                    row,
                    // of an update in part the row that is changed, as it was in front of the tick
                    before: if in_part {
                        earlier.before.or_else(|| change.before.clone())
                    } else if moved {
                        None
                    } else {
                        earlier.before
                    },
                    source_op: if in_part { Op::Update } else { earlier.source_op },
                    ..change.clone()
                }
            }
        };
        if moved {
            let gone = TargetChange {
                op: TargetOp::Delete,
                source_op: Op::Delete,
                key: from.clone(),
                row: None,
                before: change.before.clone(),
                ..change.clone()
            };
            known.insert(from, gone);
        }
        known.insert(change.key.clone(), merged);
    }
    let mut net: Vec<TargetChange> = known.into_values().collect();
    net.sort_unstable_by(|a, b| (a.op, a.ordinal, &a.key).cmp(&(b.op, b.ordinal, &b.key)));
    net
}

/// Nets the changes of a target table into which several source tables flow, whose rows must not take each other's place
/// ([`TargetTable::told_by`]): as [`net`], but
///
/// - of a key that rows of several of them have at the end of the tick the last one of each is handed on, so that it is seen;
/// - a row whose place another table's row has left in the same tick (it moved from one shard to another) has that one as the row before.
///
/// `table` is the shape of a change's row.
pub fn net_told<'t>(
    table: &dyn Fn(&TargetChange) -> &'t TargetTable,
    mut changes: Vec<TargetChange>,
) -> Vec<TargetChange> {
    if changes.iter().all(|c| c.source_op == Op::Read) && is_one_chunk(&changes) {
        return changes;
    }
    changes.sort_by_key(|c| (c.tick, c.ordinal, c.op));
    let owner = |c: &TargetChange| {
        let table = table(c);
        c.row.as_ref().or(c.before.as_ref()).and_then(|row| table.owner_of(row))
    };
    let mut keys: HashMap<Row, Vec<TargetChange>, foldhash::fast::FixedState> =
        HashMap::with_capacity_and_hasher(changes.len(), foldhash::fast::FixedState::default());
    for change in changes {
        keys.entry(change.key.clone()).or_default().push(change);
    }
    let mut net: Vec<TargetChange> = Vec::with_capacity(keys.len());
    for of_key in keys.into_values() {
        // of each table the row in front of its first change: where there is one, the target has it in front of the tick
        let mut first: Vec<(Option<String>, Option<Row>)> = Vec::with_capacity(1);
        let mut last: Vec<(Option<String>, TargetChange)> = Vec::with_capacity(1);
        for change in of_key {
            let whose = owner(&change);
            if !first.iter().any(|(other, _)| *other == whose) {
                first.push((whose.clone(), change.before.clone()));
            }
            last.retain(|(other, _)| *other != whose);
            last.push((whose, change));
        }
        if !last.iter().any(|(_, c)| table(c).is_there(c)) {
            net.extend(last.pop().map(|(_, change)| change));
            continue;
        }
        last.retain(|(_, c)| table(c).is_there(c));
        for (whose, mut change) in last {
            let left = first.iter().find(|(other, before)| *other != whose && before.is_some());
            if let Some((_, before)) = left {
                change.before = before.clone();
            }
            net.push(change);
        }
    }
    net.sort_unstable_by(|a, b| (a.op, a.ordinal, &a.key).cmp(&(b.op, b.ordinal, &b.key)));
    net
}

/// Rows of one chunk share their origin and have ordinals that ascend one by one.
fn is_one_chunk(changes: &[TargetChange]) -> bool {
    changes.windows(2).all(|w| w[0].origin == w[1].origin && w[0].ordinal < w[1].ordinal)
        && changes.iter().all(|c| c.op == TargetOp::Upsert)
}

/// Nets the changes of one table without key and one tick, in any order of arrival.
pub fn net_multiset(_: From<'_>, changes: Vec<TargetChange>) -> Vec<TargetChange> {
    if changes.iter().all(|c| c.op == TargetOp::Upsert) {
        return changes;
    }
    // of the changes that go and come, those that have not found their opposite
    let mut left: HashMap<Row, Vec<TargetChange>, foldhash::fast::FixedState> =
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
    use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema};
    use cdc_core::{Row, Value};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn table() -> TargetTable {
        let column = |name| Column::new(name, ColumnType::Int { width: IntWidth::Int, unsigned: false });
        let schema = TableSchema {
            id: TableId::new("shop", "t"),
            version: 1,
            columns: vec![column("id"), column("a"), column("b")],
            primary_key: vec![0],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        TargetTable {
            name: "t".into(),
            schema: Arc::new(schema),
            key: vec![0],
            soft_delete: None,
            told_by: None,
        }
    }

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
            let netted = net(&key_before(&table()), order);
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
            let netted = net_multiset(&key_before(&table()), order);
            assert!(netted.windows(2).all(|w| w[0].op <= w[1].op), "deletes first");
            assert_eq!(netted.len(), 3);
            assert_eq!(count(&netted), expected);
        });
    }

    /// Of two source tables, in any order of arrival: rows that go over, rows that swap, and rows that meet.
    #[test]
    fn rows_of_several_tables_that_meet_are_both_handed_on() {
        use TargetOp::{Delete, Upsert};
        let mut columns = table().schema.columns.clone();
        columns[2].ty = ColumnType::VarChar { length: 9, charset: Charset::utf8mb4() };
        let schema = Arc::new(TableSchema { columns, ..(*table().schema).clone() });
        let told = TargetTable { schema, told_by: Some(2), ..table() };
        let row = |key, value, owner: &str| {
            Row::pack([Value::Int(key), Value::Int(value), Value::Text(owner.to_owned().into())])
        };
        let come = |ordinal, key, owner: &str| TargetChange {
            row: Some(row(key, ordinal as i64, owner)),
            ..change(ordinal, Upsert, key, 0)
        };
        let gone = |ordinal, key, owner: &str| TargetChange {
            before: Some(row(key, 0, owner)),
            ..change(ordinal, Delete, key, 0)
        };
        let changes = vec![
            // 1 goes from a to b, the insert first; 2 from b to a and back; 3 comes in both; 4 goes in a, comes and goes in b
            come(1, 1, "b"),
            gone(2, 1, "a"),
            gone(3, 2, "b"),
            come(4, 2, "a"),
            gone(5, 2, "a"),
            come(6, 2, "b"),
            come(7, 3, "a"),
            come(8, 3, "b"),
            gone(9, 4, "a"),
            come(10, 4, "b"),
            gone(11, 4, "b"),
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..500 {
            let mut shuffled = changes.clone();
            for i in (1..shuffled.len()).rev() {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                shuffled.swap(i, (state % (i as u64 + 1)) as usize);
            }
            let netted = net_told(&|_| &told, shuffled);
            let seen: Vec<_> = netted
                .iter()
                .map(|c| {
                    let owner = |row: &Option<Row>| row.as_ref().and_then(|row| told.owner_of(row));
                    (c.op, c.ordinal, owner(&c.row), owner(&c.before))
                })
                .collect();
            let some = |owner: &str| Some(owner.to_owned());
            let wanted = [
                (Delete, 11, None, some("b")),
                (Upsert, 1, some("b"), some("a")),
                (Upsert, 6, some("b"), None),
                (Upsert, 7, some("a"), None),
                (Upsert, 8, some("b"), None),
            ];
            assert_eq!(seen, wanted);
        }
    }

    /// A row of a key and two columns, of which some may be absent.
    fn part(key: i64, a: Option<i64>, b: Option<i64>) -> Row {
        let value = |v: Option<i64>| v.map_or(Value::Absent, Value::Int);
        Row::pack([Value::Int(key), value(a), value(b)])
    }

    /// What a target does with a batch: rows that move are looked up in front of it.
    fn write(table: &TargetTable, target: &mut BTreeMap<Row, Row>, changes: &[TargetChange]) {
        let from = key_before(table);
        let first = target.clone();
        for c in changes {
            match &c.row {
                None => drop(target.remove(&c.key)),
                Some(row) if !c.is_in_part() => drop(target.insert(c.key.clone(), row.clone())),
                Some(row) => match first.get(&from(c)) {
                    Some(known) => drop(target.insert(c.key.clone(), known.overlaid(row))),
                    None => assert!(c.before.is_none(), "{c:?} finds no row"),
                },
            }
        }
    }

    /// Random histories of three keys: inserts, updates in part and whole, moves, deletes. The target that is given the
    /// net changes of each tick holds what the source held at its end.
    #[test]
    fn case_29_updates_in_part_are_merged_in_the_order_of_the_source() {
        let table = table();
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut random = |below: i64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as i64
        };
        let (mut source, mut target) = (BTreeMap::<i64, Row>::new(), BTreeMap::new());
        for tick in 1..3_000 {
            let mut changes = Vec::new();
            for ordinal in 1..=1 + random(9) as u64 {
                let (key, to) = (random(3), random(3));
                let change = |op, source_op, key, row: Option<Row>, before| TargetChange {
                    tick,
                    ordinal,
                    op,
                    source_op,
                    key: Row::pack([Value::Int(key)]),
                    row,
                    before,
                    origin: 0,
                };
                let key_only = part(key, None, None);
                match source.remove(&key) {
                    None => {
                        let row = part(key, Some(random(100)), Some(random(100)));
                        source.insert(key, row.clone());
                        changes.push(change(TargetOp::Upsert, Op::Insert, key, Some(row), None));
                    }
                    Some(_) if random(5) == 0 => {
                        changes.push(change(TargetOp::Delete, Op::Delete, key, None, Some(key_only)));
                    }
                    Some(row) => {
                        let to = if source.contains_key(&to) { key } else { to };
                        let some = |yes: bool, v| yes.then_some(v);
                        let which = random(3);
                        let over = part(to, some(which != 0, random(100)), some(which != 1, random(100)));
                        source.insert(to, row.overlaid(&over));
                        if over.has_absent() || to == key {
                            let before = Some(if random(3) == 0 { row } else { key_only });
                            changes.push(change(TargetOp::Upsert, Op::Update, to, Some(over), before));
                        } else {
                            changes.push(change(TargetOp::Delete, Op::Delete, key, None, Some(key_only)));
                            changes.push(change(TargetOp::Upsert, Op::Insert, to, Some(over), None));
                        }
                    }
                }
            }
            let ours: Vec<_> = changes.clone();
            // in any order of arrival
            for i in (1..changes.len()).rev() {
                changes.swap(i, random(i as i64 + 1) as usize);
            }
            let netted = net(&key_before(&table), changes);
            assert!(netted.windows(2).all(|w| w[0].op <= w[1].op), "deletes first");
            let keys: std::collections::BTreeSet<_> = netted.iter().map(|c| &c.key).collect();
            assert_eq!(keys.len(), netted.len(), "one change a key: {netted:?}");
            write(&table, &mut target, &netted);
            let expected: BTreeMap<Row, Row> =
                source.iter().map(|(key, row)| (Row::pack([Value::Int(*key)]), row.clone())).collect();
            assert_eq!(target, expected, "tick {tick}: {ours:#?}\n{netted:#?}");
        }
    }

    /// While a table is copied a row need not be there.
    #[test]
    fn case_29_updates_in_part_of_rows_that_are_not_there_yet() {
        let table = table();
        let update = |ordinal, a| TargetChange {
            row: Some(part(1, a, None)),
            ..change(ordinal, TargetOp::Upsert, 1, 0)
        };
        let read = TargetChange {
            row: Some(part(1, Some(5), Some(6))),
            source_op: Op::Read,
            ..change(2, TargetOp::Upsert, 1, 0)
        };
        let mut target = BTreeMap::new();
        write(&table, &mut target, &net(&key_before(&table), vec![update(1, Some(1))]));
        assert!(target.is_empty());
        // the chunk's row has seen the first one
        write(
            &table,
            &mut target,
            &net(&key_before(&table), vec![update(3, Some(3)), read, update(1, Some(1))]),
        );
        assert_eq!(target.into_values().collect::<Vec<_>>(), [part(1, Some(3), Some(6))]);
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
