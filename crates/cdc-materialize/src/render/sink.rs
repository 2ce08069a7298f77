//! `sink[name]`: collects each tick's changes, hands them to the sink's committer, and keeps its capability
//! until they are committed.
//!
//! The operator hands a tick's changes over when its input frontier has passed the tick: nothing more of it can
//! come. Of a tick with very many rows it hands over parts before, where the order of arrival is the order of
//! the source, so that no tick is too large for memory.

use crate::net::{From, key_before, net, net_multiset, net_told};
use crate::record::{Guard, Routed};
use crate::render::{Counters, activator};
use cdc_core::connector::{Delivery, TargetChange, TargetTable};
use cdc_core::event::{Origin, SchemaEvent};
use cdc_core::position::Binding;
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;
use timely::scheduling::SyncActivator;

/// Changes of one table and tick from one worker.
#[derive(Debug)]
pub struct SinkBatch {
    /// The table.
    pub table: Arc<TargetTable>,
    /// Where the changes come from.
    pub origins: Arc<[Origin]>,
    /// The changes.
    pub changes: Vec<TargetChange>,
    /// Dropped when they have been written.
    pub guard: Vec<Guard>,
}

/// The way from one worker to a sink's committer.
pub trait SinkPort: 'static {
    /// Called once, with what wakes the operator after a commit.
    fn connect(&mut self, activator: SyncActivator);
    /// Changes of a tick.
    fn rows(&mut self, tick: Tick, batch: SinkBatch);
    /// A schema change; from worker 0 only.
    fn schema(
        &mut self,
        ordinal: u64,
        flow: usize,
        event: Arc<SchemaEvent>,
        before: Option<Arc<TargetTable>>,
        after: Option<Arc<TargetTable>>,
    );
    /// A tick's binding; from worker 0 only.
    fn end(&mut self, tick: Tick, binding: Arc<Binding>);
    /// Nothing of a tick before this one will come from this worker; `None`: nothing at all.
    fn passed(&mut self, next: Option<Tick>);
    /// The last tick that is durable at the target.
    fn committed(&self) -> Tick;
}

/// Rows of one tick at one worker above which parts are handed over early.
const PART: usize = 16_384;

/// Bytes of the source's rows of one tick at one worker above which parts are handed over early. Small against what a source may have
/// under way, times the number of workers: else a tick could hold all of it and never end.
const PART_BYTES: usize = 512 << 10;

type Key = (*const TargetTable, *const Origin);

#[derive(Default)]
struct TickRows {
    batches: BTreeMap<Key, SinkBatch>,
    rows: usize,
    bytes: usize,
    in_order: bool,
}

pub(crate) fn sink<'scope>(
    input: Stream<'scope, Tick, Vec<Routed>>,
    name: &str,
    delivery: Delivery,
    mut port: Box<dyn SinkPort>,
    counters: Arc<Counters>,
) -> Stream<'scope, Tick, Vec<()>> {
    let scope = input.scope();
    let worker = scope.index();
    input.unary_frontier::<CapacityContainerBuilder<Vec<()>>, _, _, _>(
        Exchange::new(|r: &Routed| match r {
            Routed::Rows { worker, .. } => *worker,
            _ => 0,
        }),
        &format!("sink[{name}]"),
        move |initial, info| {
            drop(initial);
            port.connect(activator(&scope, &info.address));
            let mut open: BTreeMap<Tick, TickRows> = BTreeMap::new();
            let mut held: Option<Capability<Tick>> = None;
            // the last tick that has ended
            let mut last: Tick = 0;
            let mut told: Option<Option<Tick>> = None;
            move |(input, frontier), _output| {
                input.for_each(|cap, data| {
                    if let Some(new) = cap.retain_least(0)
                        && held.as_ref().is_none_or(|h| new.time() < h.time())
                    {
                        held = Some(new);
                    }
                    for routed in data.drain(..) {
                        match routed {
                            Routed::Rows { table, origins, changes, in_order, guard, .. } => {
                                if let Some(counter) = counters.rows.get(worker) {
                                    counter.fetch_add(changes.len() as u64, Ordering::Relaxed);
                                }
                                collect(
                                    &mut open,
                                    &table,
                                    &origins,
                                    changes,
                                    in_order,
                                    &guard,
                                    port.committed(),
                                );
                            }
                            Routed::Schema { ordinal, flow, event, before, after } => {
                                port.schema(ordinal, flow, event, before, after);
                            }
                            // Only ticks that have ended hold the capability: until then the source's own does,
                            // and one that a stopping source never ends must hold nothing.
                            Routed::End { tick, binding } => {
                                last = last.max(tick);
                                port.end(tick, binding);
                            }
                        }
                    }
                });
                for (tick, rows) in &mut open {
                    if rows.in_order && (rows.rows >= PART || rows.bytes >= PART_BYTES) {
                        hand_over(port.as_mut(), *tick, std::mem::take(rows), delivery);
                        rows.in_order = true;
                    }
                }
                let next = frontier.frontier().first().copied();
                while let Some(entry) = open.first_entry() {
                    if next.is_some_and(|n| n <= *entry.key()) {
                        break;
                    }
                    let (tick, rows) = entry.remove_entry();
                    hand_over(port.as_mut(), tick, rows, delivery);
                }
                if told != Some(next) {
                    port.passed(next);
                    told = Some(next);
                }
                let committed = port.committed();
                if committed >= last {
                    held = None;
                } else if let Some(cap) = &mut held
                    && *cap.time() <= committed
                {
                    cap.downgrade(&(committed + 1));
                }
            }
        },
    )
}

/// Sorts changes into their ticks. What the target has already is let go at once: a replayed tick may be long.
fn collect(
    open: &mut BTreeMap<Tick, TickRows>,
    table: &Arc<TargetTable>,
    origins: &Arc<[Origin]>,
    changes: Vec<TargetChange>,
    in_order: bool,
    guard: &Guard,
    committed: Tick,
) {
    let mut changes = changes.into_iter().filter(|c| c.tick > committed).peekable();
    while let Some(tick) = changes.peek().map(|c| c.tick) {
        let rows = open.entry(tick).or_insert_with(|| TickRows { in_order: true, ..TickRows::default() });
        rows.in_order &= in_order;
        // what the batch keeps from the source driver, however little of it is left
        rows.bytes += guard.bytes;
        let batch = rows.batches.entry((Arc::as_ptr(table), origins.as_ptr())).or_insert_with(|| SinkBatch {
            table: table.clone(),
            origins: origins.clone(),
            changes: Vec::new(),
            guard: vec![guard.clone()],
        });
        while let Some(change) = changes.next_if(|c| c.tick == tick) {
            rows.rows += 1;
            batch.changes.push(change);
        }
    }
}

fn hand_over(port: &mut dyn SinkPort, tick: Tick, rows: TickRows, delivery: Delivery) {
    if delivery == Delivery::Log && rows.in_order {
        for batch in rows.batches.into_values() {
            port.rows(tick, batch);
        }
        return;
    }
    // Changes of one target table are netted, or put in order, together, from whichever batch and source table: a
    // key may have moved from one to the other. Where rows of one source table have several versions a schema change may stand between:
    // then those of one version only.
    let mut versions: BTreeMap<&TableId, BTreeSet<u32>> = BTreeMap::new();
    for batch in rows.batches.values() {
        versions.entry(&batch.table.schema.id).or_default().insert(batch.table.schema.version);
    }
    let changed = versions.values().any(|versions| versions.len() > 1);
    let mut tables: BTreeMap<(String, u32), Vec<SinkBatch>> = BTreeMap::new();
    for batch in rows.batches.into_values() {
        let version = if changed { batch.table.schema.version } else { 0 };
        tables.entry((batch.table.name.clone(), version)).or_default().push(batch);
    }
    for batches in tables.into_values() {
        // one target table has one key, or none, under one version of one source's schema
        let act = match (delivery, batches.first()) {
            (Delivery::Log, _) => in_order,
            (_, Some(batch)) if batch.table.is_multiset() => net_multiset,
            _ => net,
        };
        together(batches, act, delivery == Delivery::Log)
            .into_iter()
            .for_each(|batch| port.rows(tick, batch));
    }
}

/// The changes of one table as the source made them: of one change of a row that became two the delete first.
fn in_order(_: From<'_>, mut changes: Vec<TargetChange>) -> Vec<TargetChange> {
    changes.sort_by_key(|c| (c.ordinal, c.op));
    changes
}

/// What `act` makes of all changes of one target table, a batch for each shape that its rows come in.
fn together(
    mut batches: Vec<SinkBatch>,
    act: fn(From<'_>, Vec<TargetChange>) -> Vec<TargetChange>,
    is_in_order: bool,
) -> Vec<SinkBatch> {
    let is_told = batches.first().is_some_and(|batch| batch.table.told_by.is_some()) && !is_in_order;
    if let [only] = &mut batches[..] {
        let changes = std::mem::take(&mut only.changes);
        let table = only.table.clone();
        only.changes =
            if is_told { net_told(&|_| &table, changes) } else { act(&key_before(&table), changes) };
        return batches;
    }
    let mut shapes: Vec<Arc<TargetTable>> = Vec::new();
    // by origin: the place of its rows' shape
    let mut shape_of: Vec<usize> = Vec::new();
    let (mut origins, mut changes, mut guards) = (Vec::new(), Vec::new(), Vec::new());
    for batch in batches {
        let same = |table: &Arc<TargetTable>| {
            Arc::ptr_eq(table, &batch.table)
                || (table.schema.columns == batch.table.schema.columns && table.key == batch.table.key)
        };
        let shape = shapes.iter().position(same).unwrap_or_else(|| {
            shapes.push(batch.table.clone());
            shapes.len() - 1
        });
        let offset = origins.len() as u32;
        origins.extend(batch.origins.iter().cloned());
        shape_of.resize(origins.len(), shape);
        changes.extend(batch.changes.into_iter().map(|c| TargetChange { origin: c.origin + offset, ..c }));
        guards.extend(batch.guard);
    }
    let origins: Arc<[Origin]> = origins.into();
    let mut out: Vec<SinkBatch> = shapes
        .into_iter()
        .map(|table| SinkBatch {
            table,
            origins: origins.clone(),
            changes: Vec::new(),
            guard: guards.clone(),
        })
        .collect();
    let tables: Vec<Arc<TargetTable>> = out.iter().map(|batch| batch.table.clone()).collect();
    let table = |change: &TargetChange| {
        let shape = shape_of.get(change.origin as usize).copied().unwrap_or(0);
        &*tables[shape.min(tables.len() - 1)]
    };
    let from = |change: &TargetChange| key_before(table(change))(change);
    let acted = if is_told { net_told(&table, changes) } else { act(&from, changes) };
    for change in acted {
        let shape = shape_of.get(change.origin as usize).copied().unwrap_or(0);
        if let Some(batch) = out.get_mut(shape) {
            batch.changes.push(change);
        }
    }
    out.retain(|batch| !batch.changes.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::connector::TargetOp;
    use cdc_core::event::Op;
    use cdc_core::schema::{Charset, TableSchema};
    use cdc_core::{Row, Value};

    #[derive(Default)]
    struct Seen(Vec<(u64, TargetOp)>);

    impl SinkPort for Seen {
        fn connect(&mut self, _: SyncActivator) {}
        fn rows(&mut self, _: Tick, batch: SinkBatch) {
            self.0.extend(batch.changes.iter().map(|c| (c.ordinal, c.op)));
        }
        fn schema(
            &mut self,
            _: u64,
            _: usize,
            _: Arc<SchemaEvent>,
            _: Option<Arc<TargetTable>>,
            _: Option<Arc<TargetTable>>,
        ) {
        }
        fn end(&mut self, _: Tick, _: Arc<Binding>) {}
        fn passed(&mut self, _: Option<Tick>) {}
        fn committed(&self) -> Tick {
            0
        }
    }

    /// An update of a row that has no key at the source is two changes of two workers, which a key of the flow brings
    /// together again: a feed must tell the delete first.
    #[test]
    fn changes_that_come_by_several_workers_are_told_in_the_order_of_the_source() {
        let schema = TableSchema {
            id: TableId::new("shop", "log"),
            version: 1,
            columns: vec![],
            primary_key: vec![],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        let table = Arc::new(TargetTable {
            name: "log".into(),
            schema: Arc::new(schema),
            key: vec![0],
            soft_delete: None,
            told_by: None,
        });
        let change = |ordinal, op| TargetChange {
            tick: 1,
            ordinal,
            op,
            source_op: Op::Update,
            key: Row::pack([Value::Int(1)]),
            row: None,
            before: None,
            origin: 0,
        };
        use TargetOp::{Delete, Upsert};
        let mut open = BTreeMap::new();
        for changes in
            [vec![change(2, Upsert), change(4, Delete)], vec![change(2, Delete), change(3, Upsert)]]
        {
            let origins: Arc<[Origin]> = Arc::new([Origin::default()]);
            collect(&mut open, &table, &origins, changes, false, &Guard::default(), 0);
        }
        let mut seen = Seen::default();
        let rows = open.remove(&1).unwrap_or_default();
        hand_over(&mut seen, 1, rows, Delivery::Log);
        assert_eq!(seen.0, [(2, Delete), (2, Upsert), (3, Upsert), (4, Delete)]);
    }

    /// A row goes from one table to the other in one transaction, and only one of the two has been altered before: the changes of both are
    /// netted together all the same, or the delete would be written behind the insert.
    #[test]
    fn a_key_that_moves_between_tables_of_two_versions_is_written_once() {
        use TargetOp::{Delete, Upsert};
        let table = |source: &str, version| {
            let schema = TableSchema {
                id: TableId::new("shop", source),
                version,
                columns: vec![],
                primary_key: vec![],
                unique_keys: vec![],
                charset: Charset::utf8mb4(),
                comment: String::new(),
            };
            let schema = Arc::new(schema);
            Arc::new(TargetTable {
                name: "all".into(),
                schema,
                key: vec![0],
                soft_delete: None,
                told_by: None,
            })
        };
        let change = |ordinal, op, key| TargetChange {
            tick: 1,
            ordinal,
            op,
            source_op: Op::Insert,
            key: Row::pack([Value::Int(key)]),
            row: None,
            before: None,
            origin: 0,
        };
        let handed = |a: u32, b: &[u32]| {
            let mut open = BTreeMap::new();
            let mut put = |table: &Arc<TargetTable>, changes| {
                let origins: Arc<[Origin]> = Arc::new([Origin::default()]);
                collect(&mut open, table, &origins, changes, false, &Guard::default(), 0);
            };
            put(&table("a", a), vec![change(2, Delete, 1)]);
            b.iter().for_each(|v| {
                put(&table("b", *v), vec![change(1, Upsert, 7 + i64::from(*v)), change(3, Upsert, 1)])
            });
            let mut seen = Seen::default();
            hand_over(&mut seen, 1, open.remove(&1).unwrap_or_default(), Delivery::Net);
            seen.0.sort();
            seen.0
        };
        assert_eq!(handed(1, &[1]), [(1, Upsert), (3, Upsert)]);
        assert_eq!(handed(1, &[2]), [(1, Upsert), (3, Upsert)]);
        // where a schema change may stand between, each version by itself
        assert_eq!(handed(1, &[1, 2]), [(1, Upsert), (1, Upsert), (3, Upsert), (3, Upsert)]);
        assert_eq!(handed(3, &[1, 2]), [(1, Upsert), (1, Upsert), (2, Delete), (3, Upsert), (3, Upsert)]);
    }
}
