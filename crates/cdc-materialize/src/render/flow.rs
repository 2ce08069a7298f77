//! A flow's chain: `filter[..]`, `map[..]`, `route[..]`.
//!
//! Programs are bound to a table's schema when its first batch comes, and again for each version of it. An error
//! (in binding or in a row) is noted in [`Failure`] and nothing is sent on: see there why nothing behind it is
//! committed.

use crate::record::{Record, Routed, worker_of};
use crate::render::{Failure, Records};
use cdc_core::connector::{TargetChange, TargetTable};
use cdc_core::event::{Batch, Change, Op, Origin, SchemaEvent};
use cdc_core::plan::program::{BoundFlow, RowMeta, Stage, collision, not_told_from};
use cdc_core::plan::{FlowOp, FlowPlan, KeyConflict, Plan};
use cdc_core::schema::{TableId, TableSchema};
use cdc_core::tick::Tick;
use cdc_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::Operator;

/// Ends of ticks go past the flows to every sink.
pub(crate) fn ends<'scope>(records: Records<'scope>, source: &str) -> Stream<'scope, Tick, Vec<Routed>> {
    records.unary::<CapacityContainerBuilder<Vec<Routed>>, _, _, _>(
        Pipeline,
        &format!("ends[{source}]"),
        |_, _| {
            move |input, output| {
                input.for_each(|cap, data| {
                    let mut session = output.session(&cap);
                    for record in data.drain(..) {
                        if let Record::End { tick, binding } = record {
                            session.give(Routed::End { tick, binding });
                        }
                    }
                });
            }
        },
    )
}

/// The chain of one flow; `watch` stands between its operators and its target.
pub(crate) fn flow<'scope>(
    records: Records<'scope>,
    plan: &Arc<Plan>,
    index: usize,
    peers: usize,
    failure: &Arc<Failure>,
    watch: impl FnOnce(Records<'scope>) -> Records<'scope>,
) -> Stream<'scope, Tick, Vec<Routed>> {
    let flow = &plan.flows[index];
    let mut stream = records;
    for (place, op) in flow.ops.iter().enumerate() {
        let word = match op {
            FlowOp::Where(_) => "filter",
            _ => "map",
        };
        stream = stage(stream, format!("{word}[{}]", flow.name), plan.clone(), index, place, failure.clone());
    }
    route(watch(stream), plan.clone(), index, peers, failure.clone())
}

/// Programs by the address of the schema they were bound to; the schema is held, so the address stays its own.
struct Bound<P> {
    programs: HashMap<*const TableSchema, (Arc<TableSchema>, P), foldhash::fast::FixedState>,
}

impl<P> Bound<P> {
    fn new() -> Bound<P> {
        Bound { programs: HashMap::default() }
    }

    fn get(&mut self, schema: &Arc<TableSchema>, bind: impl FnOnce() -> Result<P>) -> Result<&P> {
        use std::collections::hash_map::Entry;
        // versions that came and went are not kept for ever
        if self.programs.len() > 4096 {
            self.programs.clear();
        }
        match self.programs.entry(Arc::as_ptr(schema)) {
            Entry::Occupied(entry) => Ok(&entry.into_mut().1),
            Entry::Vacant(entry) => Ok(&entry.insert((schema.clone(), bind()?)).1),
        }
    }
}

/// The first of several diagnostics of a binding, as an error.
pub(crate) fn first(diagnostics: Vec<cdc_core::Diagnostic>) -> Error {
    let mut diagnostics = diagnostics.into_iter();
    match diagnostics.next() {
        Some(first) => Error::from(first),
        None => Error::definite(cdc_core::codes::INTERNAL, "a program was refused without a reason"),
    }
}

/// One operator of a flow, over whole batches. The rows before and after a change pass it alike: a row that enters
/// a filter becomes an insert, one that leaves it a delete, one that stays out nothing.
fn stage<'scope>(
    records: Records<'scope>,
    name: String,
    plan: Arc<Plan>,
    index: usize,
    place: usize,
    failure: Arc<Failure>,
) -> Records<'scope> {
    records.unary::<CapacityContainerBuilder<Vec<Record>>, _, _, _>(Pipeline, &name, move |_, _| {
        let mut bound: Bound<Stage> = Bound::new();
        move |input, output| {
            input.for_each(|cap, data| {
                let flow = &plan.flows[index];
                let mut session = output.session(&cap);
                for record in data.drain(..) {
                    if failure.is_set() {
                        continue;
                    }
                    match record {
                        Record::Rows { worker, batch, guard } => {
                            if place == 0 && !flow.takes(&batch.schema.id) {
                                continue;
                            }
                            match run(&mut bound, &flow.ops[place], &batch) {
                                Ok(Some(batch)) => {
                                    session.give(Record::Rows { worker, batch: Arc::new(batch), guard });
                                }
                                Ok(None) => {}
                                Err(error) => failure.set(error.note(format!("flow \"{}\"", flow.name))),
                            }
                        }
                        // routes look at schema changes themselves; ends take their own way
                        schema @ Record::Schema { .. } => session.give(schema),
                        Record::End { .. } => {}
                    }
                }
            });
        }
    })
}

fn run(bound: &mut Bound<Stage>, op: &FlowOp, batch: &Batch) -> Result<Option<Batch>> {
    let stage = bound.get(&batch.schema, || Stage::bind(op, &batch.schema).map_err(first))?;
    let mut changes = Vec::with_capacity(batch.changes.len());
    for change in &batch.changes {
        let meta = RowMeta {
            op: change.op,
            table: &batch.schema.id,
            origin: &batch.origins[change.origin as usize],
        };
        let before = match &change.before {
            Some(row) => stage.apply(row, &meta)?,
            None => None,
        };
        let after = match &change.after {
            Some(row) => stage.apply(row, &meta)?,
            None => None,
        };
        let op = match (&before, &after, change.op) {
            (None, None, _) => continue,
            // of an update in part the row before may not be known
            (None, Some(_), Op::Update) if change.before.is_some() => Op::Insert,
            (Some(_), None, Op::Update) => Op::Delete,
            (_, _, op) => op,
        };
        changes.push(Change { op, before, after, ..change.clone() });
    }
    if changes.is_empty() {
        return Ok(None);
    }
    Ok(Some(Batch { schema: stage.output().clone(), origins: batch.origins.clone(), changes }))
}

/// Target table, key and worker of each change.
fn route<'scope>(
    records: Records<'scope>,
    plan: Arc<Plan>,
    index: usize,
    peers: usize,
    failure: Arc<Failure>,
) -> Stream<'scope, Tick, Vec<Routed>> {
    let name = format!("route[{}]", plan.flows[index].name);
    records.unary::<CapacityContainerBuilder<Vec<Routed>>, _, _, _>(Pipeline, &name, move |_, _| {
        let flow = &plan.flows[index];
        // what is left to do once the operators are through: the target's name and key
        let tail = FlowPlan { ops: Vec::new(), ..flow.clone() };
        // equal keys of several tables meet at one worker too
        let in_order = peers == 1 || (flow.key.is_none() && flow.key_conflict == KeyConflict::Refuse);
        let mut bound: Bound<BoundFlow> = Bound::new();
        let mut owners = Owners::default();
        let plan = plan.clone();
        move |input, output| {
            input.for_each(|cap, data| {
                let flow = &plan.flows[index];
                let mut session = output.session(&cap);
                for record in data.drain(..) {
                    if failure.is_set() {
                        continue;
                    }
                    match record {
                        Record::Rows { worker, batch, guard } => {
                            if flow.ops.is_empty() && !flow.takes(&batch.schema.id) {
                                continue;
                            }
                            let program = bound.get(&batch.schema, || {
                                let bound = BoundFlow::bind(&tail, &batch.schema).map_err(first)?;
                                owners.note(&bound.target().name, &batch.schema.id);
                                Ok(bound)
                            });
                            let result =
                                program.and_then(|p| changes(p, &batch).map(|c| (p.target().clone(), c)));
                            let result = result.and_then(|(table, changes)| {
                                if !in_order {
                                    ensure_unmoved(&table, &changes, &batch)?;
                                }
                                Ok((table, changes))
                            });
                            match result {
                                Ok((table, changes)) => {
                                    let origins: Arc<[_]> = batch.origins.clone().into();
                                    let mut parts: BTreeMap<u64, Vec<_>> = BTreeMap::new();
                                    if peers == 1 || in_order {
                                        // The source's key is the target's: it is where it belongs. Nor need equal
                                        // rows of a table without key meet: each worker's only cancel out among
                                        // themselves (see `net`).
                                        parts.insert(worker, changes);
                                    } else {
                                        for change in changes {
                                            parts
                                                .entry(worker_of(&change.key, peers))
                                                .or_default()
                                                .push(change);
                                        }
                                    }
                                    for (worker, changes) in parts {
                                        session.give(Routed::Rows {
                                            worker,
                                            table: table.clone(),
                                            origins: origins.clone(),
                                            changes,
                                            in_order,
                                            guard: guard.clone(),
                                        });
                                    }
                                }
                                Err(error) => failure.set(error.note(format!("flow \"{}\"", flow.name))),
                            }
                        }
                        Record::Schema { ordinal, event } => {
                            match schema_change(flow, &event).and_then(|tables| {
                                owners.follow(flow, &event, tables.as_ref())?;
                                Ok(tables)
                            }) {
                                Ok(None) => {}
                                Ok(Some((before, after))) => {
                                    session.give(Routed::Schema {
                                        ordinal,
                                        flow: index,
                                        event,
                                        before,
                                        after,
                                    });
                                }
                                Err(error) => {
                                    failure.set(event.explain(error.note(format!("flow \"{}\"", flow.name))));
                                }
                            }
                        }
                        Record::End { .. } => {}
                    }
                }
            });
        }
    })
}

/// Which source tables flow into each target table of a flow. One that comes while it runs must be told apart from the others
/// there by the key: the check that the tables at the start have had.
#[derive(Default)]
struct Owners {
    tables: HashMap<String, BTreeSet<TableId>>,
}

impl Owners {
    fn note(&mut self, target: &str, source: &TableId) {
        let owners = self.tables.entry(target.to_owned()).or_default();
        if !owners.contains(source) {
            owners.insert(source.clone());
        }
    }

    fn follow(&mut self, flow: &FlowPlan, event: &SchemaEvent, tables: Option<&Tables>) -> Result<()> {
        let Some((before, after)) = tables else { return Ok(()) };
        if let (Some(table), Some(schema)) = (before, &event.before)
            && let Some(owners) = self.tables.get_mut(&table.name)
        {
            owners.remove(&schema.id);
        }
        let (Some(table), Some(schema)) = (after, &event.after) else { return Ok(()) };
        let others = self.tables.get(&table.name).into_iter().flatten();
        if let Some(other) = not_told_from(flow, schema, others) {
            return Err(collision(other, &schema.id, &table.name));
        }
        self.note(&table.name, &schema.id);
        Ok(())
    }
}

fn changes(program: &BoundFlow, batch: &Batch) -> Result<Vec<cdc_core::connector::TargetChange>> {
    let mut out = Vec::with_capacity(batch.changes.len());
    for change in &batch.changes {
        let origin = &batch.origins[change.origin as usize];
        program.changes(change, origin, change.origin, &mut out)?;
    }
    Ok(out)
}

/// Rows of a target table whose key the flow states are with the worker of their key. One that moves to another key with
/// an image that does not hold all its columns takes them from the worker of the old one: that is not done.
fn ensure_unmoved(table: &TargetTable, changes: &[TargetChange], batch: &Batch) -> Result<()> {
    let moves = |c: &&TargetChange| {
        c.is_in_part() && c.before.as_ref().is_some_and(|before| table.key_of(before) != c.key)
    };
    let Some(change) = changes.iter().find(moves) else { return Ok(()) };
    let origin = &batch.origins[change.origin as usize];
    Err(moved_in_part(&batch.schema.id, origin))
}

/// The error of a row in part that would have to change its worker.
pub(crate) fn moved_in_part(table: &TableId, origin: &Origin) -> Error {
    Error::definite(
        cdc_core::codes::PARTIAL_IMAGE,
        format!("a row of table \"{table}\" moves to another key, and its image does not hold all columns"),
    )
    .note(format!("at {}:{}, GTID {}", origin.file, origin.offset, origin.gtid))
    .note("the session that wrote it has binlog_row_image = MINIMAL or NOBLOB; with several workers such a row cannot be followed here")
    .help("run with one worker: cdc run --workers 1; or set binlog_row_image = FULL at the source, in every session that sets its own too")
}

type Tables = (Option<Arc<cdc_core::connector::TargetTable>>, Option<Arc<cdc_core::connector::TargetTable>>);

/// What a flow writes before and after a schema change; `None` if it reads neither table.
fn schema_change(flow: &FlowPlan, event: &SchemaEvent) -> Result<Option<Tables>> {
    let table = |schema: &Option<Arc<TableSchema>>| -> Result<_> {
        match schema {
            Some(schema) if flow.takes(&schema.id) => {
                BoundFlow::bind(flow, schema).map(|b| Some(b.target().clone())).map_err(first)
            }
            _ => Ok(None),
        }
    };
    let (before, after) = (table(&event.before)?, table(&event.after)?);
    if let Some(gone) = event.gone() {
        // it has no structure here, and only its name at the target counts
        return Ok(flow.tables.matches(gone).then_some((None, None)));
    }
    Ok((before.is_some() || after.is_some()).then_some((before, after)))
}
