//! The committer: one thread per sink, the only one that talks to it.
//!
//! Workers hand over each tick's net changes; the committer writes complete ticks in order and makes them
//! visible with their binding in one transaction of the target.
//!
//! *When is a tick complete?* When its end has come (it carries the binding) and every worker has said that its
//! frontier is past the tick. Both are needed: the end alone says nothing of rows still on their way between
//! workers; the frontier alone does not know the binding, and passes a tick that a stopping source never ended.
//!
//! *Groups.* While a commit is under way more ticks complete; they are committed together. A tick is never split
//! over two commits. A tick with very many rows is written in parts as they come, once all ticks before it are
//! committed, so no tick is too large for memory; it is committed once.
//!
//! *Schema changes* come alone at their tick, in front of rows of their own statement. Everything of earlier
//! ticks has been written by then and nothing of later ones: old and new rows never meet. This is the barrier: it is
//! the frontier at all workers, seen by the one thread that acts. Nothing waits inside an operator, so it
//! cannot deadlock. The [`Registry`] is told what the workers have passed, and answers when the target may be
//! changed; it holds what each target table has become, and rows of another shape are made to fit it
//! ([`cdc_schema::coerce`]).
//!
//! *A replay* does not change the target again for ticks that it has, but the registry goes through the same changes. What they
//! do is derived from the log and the schemas alone, so it comes out as it did; only what a target has refused (mode
//! try_evolve) cannot be derived, so it is noted in the state folder before the tick that goes on without it is committed.
//!
//! *Transient errors* of a target: the transaction is rolled back, and what it held is written again, with
//! back-off. What was written in parts and is too large to be held cannot be: there is no more of it here than what has not
//! come yet. Then all of the run goes back to its last checkpoint (see `job`), from where the source gives that transaction
//! again, and the target says by its progress whether it has it. The committer only notes that this is what helps.

use cdc_core::connector::{Sink, TargetBatch, TargetChange, TargetSchemaChange, TargetTable};
use cdc_core::event::{Origin, SchemaEvent};
use cdc_core::faults;
use cdc_core::plan::program::{BoundFlow, target_name};
use cdc_core::plan::{FlowPlan, SchemaChangeMode};
use cdc_core::position::Binding;
use cdc_core::schema::{Column, TableId, TableSchema};
use cdc_core::schema_change::{self, SchemaChange};
use cdc_core::tick::Tick;
use cdc_core::{Diagnostic, Error, Result, Row, Severity, codes};
use cdc_materialize::render::{Failure, SinkBatch, SinkPort};
use cdc_schema::coerce::Coercion;
use cdc_schema::derivator::{Derived, Question, Share, Step, derive};
use cdc_schema::registry::{Action, Registry, out_of_step};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use timely::scheduling::SyncActivator;

use crate::state::{Refusal, StateDir};
use crate::status::{Info, StatusHandle};

/// Rows written before a group is committed, if more ticks are waiting.
const GROUP_ROWS: usize = 100_000;

/// Rows of an open tick above which they are written before it ends.
const EARLY_ROWS: usize = 50_000;

/// Bytes of the source's rows of an open tick above which it is written before it ends: well under what a source may have under way,
/// or a tick larger than that could never end.
const EARLY_BYTES: usize = 4 << 20;

/// Bytes of written rows that are held for being written again.
const HELD_BYTES: usize = 16 << 20;

/// What comes from the workers.
pub(crate) enum ToCommitter {
    Rows { tick: Tick, batch: SinkBatch },
    Schema(Box<SchemaWork>),
    End { tick: Tick, binding: Arc<Binding> },
    Passed { worker: usize, next: Option<Tick> },
}

pub(crate) struct SchemaWork {
    ordinal: u64,
    flow: usize,
    event: Arc<SchemaEvent>,
    before: Option<Arc<TargetTable>>,
    after: Option<Arc<TargetTable>>,
    /// When it came to the barrier.
    came: Instant,
}

/// What the operators of a sink on all workers share with its committer.
pub(crate) struct SinkShared {
    committed: AtomicU64,
    activators: Mutex<Vec<SyncActivator>>,
    failure: Arc<Failure>,
}

impl SinkShared {
    pub(crate) fn new(committed: Tick, failure: Arc<Failure>) -> Arc<SinkShared> {
        Arc::new(SinkShared { committed: AtomicU64::new(committed), activators: Mutex::default(), failure })
    }

    fn activate(&self) {
        for activator in self.activators.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // a worker that has ended need not be woken
            let _ = activator.activate();
        }
    }
}

/// The workers' end.
pub(crate) struct Port {
    pub(crate) worker: usize,
    pub(crate) to: mpsc::Sender<ToCommitter>,
    pub(crate) shared: Arc<SinkShared>,
}

impl Port {
    fn send(&self, message: ToCommitter) {
        // a committer that has ended has noted why
        let _ = self.to.send(message);
    }
}

impl SinkPort for Port {
    fn connect(&mut self, activator: SyncActivator) {
        self.shared.activators.lock().unwrap_or_else(PoisonError::into_inner).push(activator);
    }

    fn rows(&mut self, tick: Tick, batch: SinkBatch) {
        self.send(ToCommitter::Rows { tick, batch });
    }

    fn schema(
        &mut self,
        ordinal: u64,
        flow: usize,
        event: Arc<SchemaEvent>,
        before: Option<Arc<TargetTable>>,
        after: Option<Arc<TargetTable>>,
    ) {
        let came = Instant::now();
        self.send(ToCommitter::Schema(Box::new(SchemaWork { ordinal, flow, event, before, after, came })));
    }

    fn end(&mut self, tick: Tick, binding: Arc<Binding>) {
        self.send(ToCommitter::End { tick, binding });
    }

    fn passed(&mut self, next: Option<Tick>) {
        self.send(ToCommitter::Passed { worker: self.worker, next });
    }

    fn committed(&self) -> Tick {
        // after a failure nothing is held back any more, so that the dataflow can end
        if self.shared.failure.is_set() { Tick::MAX } else { self.shared.committed.load(Ordering::SeqCst) }
    }
}

/// Which source tables flow into each target table of a sink, and in which columns all rows of one have one value.
#[derive(Debug, Default, Clone)]
pub(crate) struct Feeds {
    targets: BTreeMap<String, BTreeMap<TableId, Vec<(Column, Row)>>>,
}

impl Feeds {
    /// What a sink's flows make of the tables that are there at the start.
    pub(crate) fn new(flows: &[FlowPlan], sink: &str, schemas: &[Arc<TableSchema>]) -> Feeds {
        let mut feeds = Feeds::default();
        for flow in flows.iter().filter(|f| f.sink == sink) {
            schemas.iter().filter(|s| flow.takes(&s.id)).for_each(|s| feeds.add(flow, s));
        }
        feeds
    }

    fn add(&mut self, flow: &FlowPlan, schema: &Arc<TableSchema>) {
        // one that cannot be bound has been refused
        let Ok(bound) = BoundFlow::bind(flow, schema) else { return };
        let columns = &bound.target().schema.columns;
        let constants =
            bound.constants().iter().map(|(i, value)| (columns[*i].clone(), value.clone())).collect();
        self.targets.entry(bound.target().name.clone()).or_default().insert(schema.id.clone(), constants);
    }

    /// Whose rows a target table has behind a schema change.
    fn follow(&mut self, flow: &FlowPlan, work: &SchemaWork) {
        if let (Some(target), Some(before)) = (&work.before, &work.event.before)
            && let Some(tables) = self.targets.get_mut(&target.name)
        {
            tables.remove(&before.id);
        }
        if let Some(after) = work.event.after.as_ref().filter(|s| flow.takes(&s.id)) {
            self.add(flow, after);
        }
    }

    /// Which rows of a target table are a source table's.
    pub(crate) fn share(&self, target: &str, source: &TableId) -> Share {
        let Some(tables) = self.targets.get(target) else { return Share::Alone };
        let others: Vec<_> = tables.iter().filter(|(id, _)| *id != source).collect();
        if others.is_empty() {
            return Share::Alone;
        }
        let ours = tables.get(source).map(Vec::as_slice).unwrap_or_default();
        // a column in which the other has one value too, and another one
        let tells = |(column, value): &(Column, Row), theirs: &[(Column, Row)]| {
            theirs.iter().any(|(c, v)| c.name == column.name && v != value)
        };
        let untold: Vec<TableId> = others
            .iter()
            .filter(|(_, theirs)| !ours.iter().any(|mine| tells(mine, theirs)))
            .map(|(id, _)| (*id).clone())
            .collect();
        if !untold.is_empty() {
            return Share::Untold(untold);
        }
        Share::Told(
            ours.iter()
                .filter(|mine| others.iter().any(|(_, theirs)| tells(mine, theirs)))
                .cloned()
                .collect(),
        )
    }
}

#[derive(Default)]
struct TickWork {
    schema: Vec<SchemaWork>,
    batches: Vec<TargetBatch>,
    guards: Vec<Vec<cdc_materialize::record::Guard>>,
    rows: usize,
    bytes: usize,
    binding: Option<Arc<Binding>>,
}

/// A sink with its committer's state.
pub(crate) struct Committer {
    pub(crate) name: String,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) flows: Arc<Vec<FlowPlan>>,
    pub(crate) feeds: Feeds,
    /// As of the last commit, where that is another.
    pub(crate) feeds_before: Option<Feeds>,
    pub(crate) workers: usize,
    /// Ticks up to here are at the target already.
    pub(crate) resumed: Tick,
    pub(crate) shared: Arc<SinkShared>,
    /// What the target's tables have become. Shared with whoever writes checkpoints.
    pub(crate) registry: Arc<Mutex<Registry>>,
    /// What the target has refused since the last checkpoint, by schema change.
    pub(crate) refusals: BTreeMap<String, BTreeSet<String>>,
    pub(crate) state: Arc<Mutex<StateDir>>,
    /// For sinks that cannot hold their progress: bindings are noted before their ticks are written.
    pub(crate) notes_bindings: bool,
    pub(crate) status: StatusHandle,
    /// A run that is to stop does not try for ever.
    pub(crate) stop: crate::job::Stop,
    /// Set where what is to be written again is not held any more, so that only the last checkpoint helps.
    pub(crate) back: Arc<AtomicBool>,
}

fn size_of_change(change: &TargetChange) -> usize {
    let size = |row: &Option<cdc_core::Row>| row.as_ref().map_or(0, |r| r.as_bytes().len());
    size(&change.row)
        + size(&change.before)
        + change.key.as_bytes().len()
        + std::mem::size_of::<TargetChange>()
}

/// How rows of each shape that has come are written: as they are, or made to fit. By the address of the shape.
type Prepared = HashMap<*const TargetTable, Option<Arc<Coercion>>, foldhash::fast::FixedState>;

/// The most of a statement that is shown.
const STATEMENT_SHOWN: usize = 200;

pub(crate) fn clipped(statement: &str) -> String {
    let one_line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(STATEMENT_SHOWN) {
        Some((end, _)) => format!("{} ..", &one_line[..end]),
        None => one_line,
    }
}

/// What was written since the last commit, to be written again after a transient error.
enum Written {
    Batch(TargetBatch),
    Schema(SchemaWork),
}

struct Group {
    written: Vec<Written>,
    bytes: usize,
    rows: usize,
    /// Some of it is not held any more.
    lost: bool,
    last: Option<(Tick, Arc<Binding>)>,
}

impl Committer {
    /// Runs until the dataflow has ended; gives back the sink's summary.
    pub(crate) fn run(mut self, inbox: &mpsc::Receiver<ToCommitter>) -> Vec<String> {
        let result = self.serve(inbox);
        if let Err(error) = result {
            self.sink.rollback();
            let error = error.note(format!("sink \"{}\"", self.name));
            self.shared.failure.set(error);
        }
        self.shared.activate();
        self.sink.summary()
    }

    fn serve(&mut self, inbox: &mpsc::Receiver<ToCommitter>) -> Result<()> {
        let mut pending: BTreeMap<Tick, TickWork> = BTreeMap::new();
        (0..self.workers).for_each(|worker| self.registry().register(worker));
        let mut prepared = Prepared::default();
        // what `prepared` points to, so that addresses stay their own
        let mut held_tables: Vec<Arc<TargetTable>> = Vec::new();
        let mut group = Group { written: Vec::new(), bytes: 0, rows: 0, lost: false, last: None };
        loop {
            let Ok(first) = inbox.recv() else { return Ok(()) };
            let mut next = Some(first);
            while let Some(message) = next {
                self.take(message, &mut pending)?;
                next = inbox.try_recv().ok();
            }
            if self.shared.failure.is_set() {
                self.sink.rollback();
                return Ok(());
            }
            let passed = self.registry().flushed_to();
            self.note(&pending, passed)?;
            while let Some(entry) = pending.first_entry() {
                if *entry.key() >= passed || entry.get().binding.is_none() {
                    break;
                }
                let (tick, work) = entry.remove_entry();
                if tick <= self.resumed {
                    continue;
                }
                // What is not held could not be written again if the target makes no change, or not now. And where it may refuse one
                // that is then passed over, as little as may be is to be written again: a backlog of changes would be, for each refusal.
                let may_be_refused = || {
                    work.schema.iter().any(|s| {
                        let flow = self.flows.get(s.flow);
                        flow.is_some_and(|f| f.on_schema_change == SchemaChangeMode::TryEvolve)
                    })
                };
                if !work.schema.is_empty()
                    && (self.sink.commits_by_itself() || group.lost || may_be_refused())
                {
                    self.commit(&mut group, &mut prepared)?;
                }
                let binding = work.binding.clone();
                self.write_tick(work, &mut group, &mut prepared, &mut held_tables)?;
                if let Some(binding) = binding {
                    group.last = Some((tick, binding));
                }
                if group.rows >= GROUP_ROWS {
                    self.commit(&mut group, &mut prepared)?;
                }
            }
            if group.last.is_some() {
                self.commit(&mut group, &mut prepared)?;
            }
            // what is complete is committed: an open tick may be written in parts
            if let Some(mut entry) = pending.first_entry()
                && *entry.key() > self.resumed
                // the lowest tick that anything may still come for, so nothing is due before it
                && *entry.key() == passed
                && (entry.get().rows >= EARLY_ROWS || entry.get().bytes >= EARLY_BYTES)
            {
                let open = entry.get_mut();
                let part = TickWork {
                    schema: std::mem::take(&mut open.schema),
                    batches: std::mem::take(&mut open.batches),
                    guards: std::mem::take(&mut open.guards),
                    rows: std::mem::take(&mut open.rows),
                    bytes: std::mem::take(&mut open.bytes),
                    binding: None,
                };
                self.write_tick(part, &mut group, &mut prepared, &mut held_tables)?;
            }
        }
    }

    /// For a sink that cannot hold its progress: notes where the ticks end that are about to be written, before any of
    /// them is. A crash may leave some where readers see them; those must come again under the same numbers, with
    /// the same rows.
    fn note(&self, pending: &BTreeMap<Tick, TickWork>, passed: Tick) -> Result<()> {
        if !self.notes_bindings {
            return Ok(());
        }
        let due: Vec<(Tick, &Binding)> = pending
            .iter()
            .take_while(|(tick, _)| **tick < passed)
            .map_while(|(tick, work)| work.binding.as_deref().map(|binding| (*tick, binding)))
            .filter(|(tick, _)| *tick > self.resumed)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).note_bindings(&due)?;
        faults::at("bindings.noted");
        Ok(())
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&mut self, message: ToCommitter, pending: &mut BTreeMap<Tick, TickWork>) -> Result<()> {
        match message {
            ToCommitter::Rows { tick, batch } => {
                if tick <= self.resumed {
                    return Ok(());
                }
                let work = pending.entry(tick).or_default();
                work.rows += batch.changes.len();
                work.bytes += batch.guard.iter().map(|g| g.bytes).sum::<usize>();
                work.guards.push(batch.guard);
                work.batches.push(TargetBatch {
                    table: batch.table,
                    origins: batch.origins,
                    changes: batch.changes,
                });
            }
            ToCommitter::Schema(schema) => {
                if schema.event.tick > self.resumed {
                    pending.entry(schema.event.tick).or_default().schema.push(*schema);
                } else {
                    self.replayed(&schema)?;
                }
            }
            ToCommitter::End { tick, binding } => {
                pending.entry(tick).or_default().binding = Some(binding);
            }
            ToCommitter::Passed { worker, next } => {
                // None is "nothing at all", past everything; what is due is looked at by tick, once all have come
                self.registry().flushed(worker, next.unwrap_or(Tick::MAX));
            }
        }
        Ok(())
    }

    fn write_tick(
        &mut self,
        mut work: TickWork,
        group: &mut Group,
        prepared: &mut Prepared,
        held: &mut Vec<Arc<TargetTable>>,
    ) -> Result<()> {
        // In a replayed tick a schema change may stand between rows: everything in the order of the source.
        // A batch has one schema version, so all of it lies on one side of its table's change.
        enum Step {
            Schema(SchemaWork),
            Batch(TargetBatch),
        }
        let mut steps: Vec<(u64, Step)> = Vec::with_capacity(work.schema.len() + work.batches.len());
        steps.extend(work.schema.drain(..).map(|s| (s.ordinal, Step::Schema(s))));
        steps.extend(
            work.batches
                .drain(..)
                .map(|b| (b.changes.iter().map(|c| c.ordinal).min().unwrap_or(0), Step::Batch(b))),
        );
        steps.sort_by_key(|(ordinal, _)| *ordinal);
        for (_, step) in steps {
            let batch = match step {
                Step::Schema(schema) => {
                    self.attempt(group, prepared, |this, prepared| this.change(&schema, prepared))?;
                    group.written.push(Written::Schema(schema));
                    continue;
                }
                Step::Batch(batch) => batch,
            };
            if held.len() > 10_000 {
                held.clear();
                prepared.clear();
            }
            if !prepared.contains_key(&Arc::as_ptr(&batch.table)) {
                held.push(batch.table.clone());
            }
            self.attempt(group, prepared, |this, prepared| this.write(&batch, prepared))?;
            group.rows += batch.changes.len();
            group.bytes += batch.changes.iter().map(size_of_change).sum::<usize>();
            if group.bytes > HELD_BYTES {
                group.lost = true;
                group.written.clear();
            }
            if !group.lost {
                group.written.push(Written::Batch(batch));
            }
        }
        // only now may the source send more
        drop(work.guards);
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch, prepared: &mut Prepared) -> Result<()> {
        let coercion = match prepared.get(&Arc::as_ptr(&batch.table)) {
            Some(known) => known.clone(),
            None => {
                let coercion = self.coercion(&batch.table)?;
                self.sink.prepare(coercion.as_ref().map_or(&batch.table, |c| c.to()))?;
                prepared.insert(Arc::as_ptr(&batch.table), coercion.clone());
                coercion
            }
        };
        let fitted;
        let batch = match coercion {
            None => batch,
            Some(coercion) => {
                fitted = coercion.batch(batch)?;
                &fitted
            }
        };
        if batch.table.told_by.is_some() {
            self.write_told(batch)?;
        } else {
            self.sink.write(batch)?;
        }
        faults::at("sink.written");
        Ok(())
    }

    /// Writes rows of several source tables that must not take each other's place: first what goes, then the rows of one table after the
    /// other, and in front of each the target is asked whose rows have its keys. So it is seen whichever way they meet: in one
    /// tick or in two, in one run or in two, under keys that only the target holds for equal.
    fn write_told(&mut self, batch: &TargetBatch) -> Result<()> {
        let table = &batch.table;
        let part = |changes: Vec<TargetChange>| TargetBatch {
            table: table.clone(),
            origins: batch.origins.clone(),
            changes,
        };
        let (come, gone): (Vec<&TargetChange>, Vec<&TargetChange>) =
            batch.changes.iter().partition(|c| table.is_there(c));
        self.sink.write(&part(gone.into_iter().cloned().collect()))?;
        // by the table that they come from, and the one whose row has made room in the same tick
        let mut groups: BTreeMap<String, BTreeMap<Option<String>, Vec<&TargetChange>>> = BTreeMap::new();
        for change in come {
            let owner = |row: &Option<Row>| row.as_ref().and_then(|row| table.owner_of(row));
            let (now, before) = (owner(&change.row).unwrap_or_default(), owner(&change.before));
            let before = before.filter(|before| *before != now);
            groups.entry(now).or_default().entry(before).or_default().push(change);
        }
        for (owner, by_before) in groups {
            for (before, changes) in &by_before {
                let keys: Vec<Row> = changes.iter().map(|c| c.key.clone()).collect();
                let owners: Vec<&str> = [&*owner].into_iter().chain(before.as_deref()).collect();
                let tick = changes.first().map_or(0, |c| c.tick);
                if let Some((place, other)) = self.sink.other_owner(table, tick, &keys, &owners)? {
                    return Err(key_taken(batch, &owner, &other, changes.get(place)));
                }
            }
            let mut changes: Vec<TargetChange> = by_before.into_values().flatten().cloned().collect();
            changes.sort_by_key(|c| c.ordinal);
            self.sink.write(&part(changes))?;
        }
        Ok(())
    }

    /// How rows of a shape are made to fit the target.
    fn coercion(&self, table: &Arc<TargetTable>) -> Result<Option<Arc<Coercion>>> {
        let registry = self.registry();
        let Some(evolved) = registry.find(&table.name, &table.schema.id) else { return Ok(None) };
        Ok(evolved.coercion(table)?.map(Arc::new))
    }

    /// What a schema change is known by in the state folder: the same each time that the log is read.
    fn identity(&self, flow: &FlowPlan, work: &SchemaWork) -> String {
        let origin = &work.event.origin;
        let place = if origin.gtid.is_empty() {
            format!("{}:{}", origin.file, origin.offset)
        } else {
            origin.gtid.to_string()
        };
        let table = work.event.before.as_ref().or(work.event.after.as_ref()).map(|s| &s.id);
        let table = table.or_else(|| work.event.gone()).map(ToString::to_string);
        format!("{} {} {place} {}", self.name, flow.name, table.unwrap_or_default())
    }

    /// What a schema change makes of the target, and the name of the target's table before it.
    fn derived(
        &self,
        flow: &FlowPlan,
        work: &SchemaWork,
        refused: &BTreeSet<String>,
    ) -> Result<(Derived, Option<String>)> {
        let bound = |schema: &Option<Arc<TableSchema>>, table: &Option<Arc<TargetTable>>| {
            let (Some(schema), Some(_)) = (schema, table) else { return Ok(None) };
            BoundFlow::bind(flow, schema).map(Some).map_err(|diagnostics| {
                diagnostics.into_iter().next().map_or_else(
                    || Error::definite(codes::INTERNAL, "a flow was refused without a reason"),
                    Error::from,
                )
            })
        };
        let (before, after) =
            (bound(&work.event.before, &work.before)?, bound(&work.event.after, &work.after)?);
        let gone = work.event.gone().map(|table| target_name(flow, table)).transpose()?;
        // one that is renamed into the flow is none of its tables under the name before
        let bound = before.as_ref().or(after.as_ref());
        let share = bound.map_or(Share::Alone, |b| self.feeds.share(&b.target().name, &b.source().id));
        let (evolved, taken) = {
            let registry = self.registry();
            let evolved = match (&before, &after) {
                (Some(before), _) => registry.find(&before.target().name, &before.source().id).cloned(),
                (None, Some(after)) => registry.table(&after.target().name).cloned(),
                (None, None) => gone.as_deref().and_then(|name| registry.table(name)).cloned(),
            };
            let renamed = after
                .as_ref()
                .filter(|a| before.as_ref().is_some_and(|b| b.target().name != a.target().name));
            (evolved, renamed.and_then(|a| registry.table(&a.target().name)).cloned())
        };
        let derived = derive(&Question {
            flow,
            changes: &work.event.changes,
            before: before.as_ref(),
            after: after.as_ref(),
            share: &share,
            evolved: evolved.as_deref(),
            taken: taken.as_deref(),
            gone: gone.as_deref(),
            refused,
        })?;
        Ok((derived, evolved.map(|e| e.name.clone())))
    }

    /// A schema change that the target has already.
    fn replayed(&mut self, work: &SchemaWork) -> Result<()> {
        let flows = self.flows.clone();
        let Some(flow) = flows.get(work.flow) else { return Ok(()) };
        if work.before.is_none() {
            self.feeds.follow(flow, work);
        }
        let refused = self.refusals.get(&self.identity(flow, work)).cloned().unwrap_or_default();
        let (derived, before) = self.derived(flow, work, &refused)?;
        self.registry().changed(work.event.tick, before.as_deref(), derived.evolved);
        self.feeds.follow(flow, work);
        Ok(())
    }

    fn change(&mut self, work: &SchemaWork, prepared: &mut Prepared) -> Result<()> {
        let flows = self.flows.clone();
        let Some(flow) = flows.get(work.flow) else { return Ok(()) };
        let tick = work.event.tick;
        let (request, generation) = {
            let mut registry = self.registry();
            let (request, actions) = registry.requested(tick);
            match &actions[..] {
                [Action::Apply { request: now, generation }] if *now == request => (request, *generation),
                [other, ..] => return Err(out_of_step(other)),
                [] => return Err(out_of_step(&Action::Flush { before: tick })),
            }
        };
        let result = self.make(flow, work, prepared);
        let mut registry = self.registry();
        let answer = match &result {
            Ok(()) => registry.applied(request, generation),
            // one that is to be tried again is asked for anew, behind a rollback
            Err(error) if error.is_transient() => Vec::new(),
            Err(_) => registry.failed(request, generation),
        };
        drop(registry);
        match (&result, &answer[..]) {
            (Ok(()), [Action::Release { .. }]) => Ok(()),
            (Ok(()), other) => Err(out_of_step(other.first().unwrap_or(&Action::Refuse { tick }))),
            (Err(_), _) => result,
        }
    }

    /// Changes the target, and prepares it for what comes.
    fn make(&mut self, flow: &FlowPlan, work: &SchemaWork, prepared: &mut Prepared) -> Result<()> {
        let begun = Instant::now();
        if self.feeds_before.is_none() {
            self.feeds_before = Some(self.feeds.clone());
        }
        let place = |e: Error| work.event.explain(e);
        if work.before.is_none() {
            // a table that comes has its part in the target already
            self.feeds.follow(flow, work);
        }
        let identity = self.identity(flow, work);
        let refused = self.refusals.get(&identity).cloned().unwrap_or_default();
        let (mut derived, before) = self.derived(flow, work, &refused).map_err(place)?;
        if work.before.is_none() && !self.sink.holds_progress() {
            // a feed has nothing that could be left behind: readers of it are told what the source has done
            let was_told = work.event.changes.iter().any(|c| matches!(c, SchemaChange::DropTable { .. }));
            let was_told = was_told && work.event.gone().is_none();
            derived.steps.retain(|s| was_told || !matches!(s.change, TargetSchemaChange::DropTable { .. }));
        }
        if work.event.gone().is_some() && derived.steps.is_empty() {
            // nearly always: nothing of it is there, and nobody need hear of it
            self.registry().changed(work.event.tick, before.as_deref(), derived.evolved);
            return Ok(());
        }
        self.feeds.follow(flow, work);
        for step in &derived.steps {
            faults::at("schema.apply");
            if let Err(error) = self.sink.apply(&step.change) {
                return Err(self.refused(flow, &identity, work, step, place(error))?);
            }
            faults::at("schema.applied");
        }
        self.registry().changed(work.event.tick, before.as_deref(), derived.evolved);
        prepared.clear();
        let mut name = None;
        if let Some(after) = &work.after {
            let coercion = self.coercion(after).map_err(place)?;
            let written = coercion.as_ref().map_or(after, |c| c.to());
            self.sink.prepare(written).map_err(place)?;
            name = Some(written.name.clone());
        }
        let name = name.or_else(|| work.before.as_ref().map(|t| t.name.clone()));
        let name = match (name, work.event.gone()) {
            (Some(name), _) => name,
            (None, Some(gone)) => target_name(flow, gone)?,
            (None, None) => String::new(),
        };
        for step in &derived.steps {
            derived.left.extend(self.sink.leaves_out(&step.change));
        }
        self.tell(work, &name, &derived.steps, &derived.left, begun);
        Ok(())
    }

    /// What became of a schema change, for people.
    fn tell(&self, work: &SchemaWork, table: &str, steps: &[Step], left: &[String], begun: Instant) {
        let ms = |from: Instant| from.elapsed().as_secs_f64() * 1000.0;
        self.status.info(Info::SchemaChange {
            tick: work.event.tick,
            sink: self.name.clone(),
            table: table.to_owned(),
            changes: schema_change::told(&work.event.changes).iter().map(ToString::to_string).collect(),
            statement: work.event.statement.to_string(),
            made: steps.iter().map(|s| s.name.to_string()).collect(),
            left: left.to_vec(),
            held_ms: ms(work.came),
            target_ms: ms(begun),
        });
    }

    /// The target does not make a change. In mode try_evolve it is passed over: noted, so that a replay does the same, and all
    /// of the tick written again without it.
    fn refused(
        &mut self,
        flow: &FlowPlan,
        identity: &str,
        work: &SchemaWork,
        step: &Step,
        error: Error,
    ) -> Result<Error> {
        let is_refusal = !error.is_transient()
            && [codes::TARGET_DDL, codes::TARGET_SHAPE, codes::GRANT_MISSING].contains(&error.code());
        if flow.on_schema_change != SchemaChangeMode::TryEvolve || !is_refusal {
            return Ok(error);
        }
        let known = self.refusals.get(identity).cloned().unwrap_or_default();
        let mut steps = match (&*step.name, &step.change) {
            // the target has kept one of that name, of which nothing is known here: it is written as far as it goes
            ("create_table", TargetSchemaChange::CreateTable { table })
                if known.contains("drop_table") && error.code() == codes::TARGET_SHAPE =>
            {
                self.not_taken(table)?
            }
            ("create_table" | "resnapshot_table" | "change_primary_key", _) => Vec::new(),
            (name, _) => vec![name.to_owned()],
        };
        // one that comes again although it is passed over would come for ever
        steps.retain(|step| !known.contains(step));
        if steps.is_empty() {
            return Ok(error);
        }
        for step in &steps {
            let refusal = Refusal { tick: work.event.tick, change: identity.to_owned(), step: step.clone() };
            self.state.lock().unwrap_or_else(PoisonError::into_inner).note_refusal(&refusal)?;
            faults::at("refusal.noted");
            self.refusals.entry(identity.to_owned()).or_default().insert(step.clone());
        }
        let step = steps.join(", ");
        let notice = error.diagnostic().clone();
        let mut passed = Error::transient(
            codes::SCHEMA_CHANGE_REFUSED,
            format!(
                "the target refuses {step}: passed over, rows are made to fit (on_schema_change = try_evolve)"
            ),
        )
        .note(notice.headline);
        for note in notice.notes {
            passed = passed.note(note);
        }
        Ok(passed)
    }

    /// The steps that would make a table which is there take what it does not take of these rows, by column; none where that is not
    /// all that is in the way.
    fn not_taken(&mut self, table: &TargetTable) -> Result<Vec<String>> {
        self.sink.rollback();
        let mut takes = |part: Option<TargetTable>| match self.sink.check_now(part.as_ref().unwrap_or(table))
        {
            Ok(()) => Ok(true),
            Err(error) if error.code() == codes::TARGET_SHAPE => Ok(false),
            Err(error) => Err(error),
        };
        let mut steps = Vec::new();
        for column in &table.schema.columns {
            if !takes(table.only(|c| c.name == column.name))? {
                steps.push(format!("add_column {}", column.name));
            }
        }
        let is_taken = |c: &Column| !steps.contains(&format!("add_column {}", c.name));
        Ok(if takes(table.only(is_taken))? { steps } else { Vec::new() })
    }

    /// Does something in the open transaction; after a transient error all of the transaction again.
    fn attempt(
        &mut self,
        group: &mut Group,
        prepared: &mut Prepared,
        mut act: impl FnMut(&mut Self, &mut Prepared) -> Result<()>,
    ) -> Result<()> {
        let mut wait = Duration::from_millis(50);
        let mut again = false;
        loop {
            let result = if again {
                self.rewrite(group, prepared).and_then(|()| act(self, prepared))
            } else {
                act(self, prepared)
            };
            match result {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() && !group.lost && !self.shared.failure.is_set() => {
                    // (without what the target refuses it is done at once)
                    if self.stop.is_told() && error.code() != codes::SCHEMA_CHANGE_REFUSED {
                        return Err(error
                            .note("told to stop: not tried again; the target stands at the commit before"));
                    }
                    self.sink.rollback();
                    self.registry().rolled_back(self.shared.committed.load(Ordering::SeqCst));
                    if let Some(feeds) = self.feeds_before.take() {
                        self.feeds = feeds;
                    }
                    prepared.clear();
                    let notice = error.diagnostic().clone();
                    // (what the target refuses is left out, and the rest is written at once)
                    let again_without = error.code() == codes::SCHEMA_CHANGE_REFUSED;
                    let next = if again_without {
                        format!("sink \"{}\": going on without it", self.name)
                    } else {
                        format!("sink \"{}\": trying again in {wait:?}", self.name)
                    };
                    self.status.notice(Diagnostic { severity: Severity::Warning, ..notice }.note(next));
                    if again_without {
                        again = true;
                        continue;
                    }
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(Duration::from_secs(5));
                    again = true;
                }
                Err(error) if error.is_transient() && group.lost => {
                    self.back.store(true, Ordering::SeqCst);
                    return Err(error
                        .note("the transaction under way is too large to be held and written again; the target stands at the commit before")
                        .help("nothing is lost: a run that is started again reads all of that transaction again"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes again what the rolled-back transaction held.
    fn rewrite(&mut self, group: &mut Group, prepared: &mut Prepared) -> Result<()> {
        let written = std::mem::take(&mut group.written);
        let result = written.iter().try_for_each(|w| match w {
            Written::Batch(batch) => self.write(batch, prepared),
            Written::Schema(schema) => self.change(schema, prepared),
        });
        group.written = written;
        result
    }

    fn commit(&mut self, group: &mut Group, prepared: &mut Prepared) -> Result<()> {
        let Some((tick, binding)) = group.last.take() else { return Ok(()) };
        // an operator that failed has said so before its frontier passed
        if self.shared.failure.is_set() {
            self.sink.rollback();
            return Ok(());
        }
        faults::at("sink.commit");
        self.attempt(group, prepared, |this, _| this.sink.commit(tick, &binding))?;
        faults::at("sink.committed");
        self.feeds_before = None;
        *group = Group { written: Vec::new(), bytes: 0, rows: 0, lost: false, last: None };
        self.shared.committed.store(tick, Ordering::SeqCst);
        self.shared.activate();
        Ok(())
    }
}

/// The error of a row whose key another source table's row has.
fn key_taken(batch: &TargetBatch, owner: &str, other: &str, change: Option<&&TargetChange>) -> Error {
    let table = &batch.table;
    let names: Vec<&str> =
        table.key.iter().filter_map(|i| table.schema.columns.get(*i)).map(|c| &*c.name).collect();
    let key = change
        .map_or_else(String::new, |c| c.key.iter().map(|v| v.to_string()).collect::<Vec<_>>().join(", "));
    let mut error = Error::definite(
        codes::TARGET_KEY_TAKEN,
        format!(
            "tables \"{other}\" and \"{owner}\" both have a row of key ({}) = ({}) for target table \"{}\"",
            names.join(", "),
            clipped(&key),
            table.name
        ),
    )
    .note(format!("the target holds the row of \"{other}\""));
    if let Some(change) = change {
        let row = change.row.as_ref().map(|row| format!("{row:?}")).unwrap_or_default();
        error = error.note(format!("the row of \"{owner}\": {}", clipped(&row)));
        if let Some(place) = batch.origins.get(change.origin as usize).and_then(Origin::place) {
            error = error.note(place);
        }
    }
    error
        .help("let the key tell the tables apart: extend meta.table as shard => .. key (shard, ..); or let the last row stay: key_conflict = last")
        .help("both copy anew: remove the state folder and the target's tables and progress, start again")
}

#[cfg(test)]
mod multiset_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::Value;
    use cdc_core::expr::{Expr, ExprKind, MetaField};
    use cdc_core::plan::pattern::{NamePattern, TablePattern};
    use cdc_core::plan::{FlowOp, KeyConflict, NamedExpr, SchemaChangeMode, TargetName};
    use cdc_core::schema::{Charset, ColumnType, IntWidth};

    fn schema(name: &str) -> Arc<TableSchema> {
        Arc::new(TableSchema {
            id: TableId::new("shop", name),
            version: 1,
            columns: vec![Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false })],
            primary_key: vec![],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        })
    }

    fn flow(tables: &str, ops: Vec<FlowOp>) -> FlowPlan {
        FlowPlan {
            name: "f".into(),
            source: "src".into(),
            tables: TablePattern { database: None, table: NamePattern::glob(tables) },
            ops,
            sink: "dw".into(),
            target: TargetName::Fixed("all".into()),
            key: Some(vec!["id".into()]),
            on_schema_change: SchemaChangeMode::Lenient,
            include: vec![],
            exclude: vec![],
            backfill: true,
            soft_delete: None,
            view: None,
            upsert: Default::default(),
            on_conflict: Default::default(),
            key_conflict: KeyConflict::Refuse,
            span: 0..0,
        }
    }

    #[test]
    fn rows_of_a_table_are_told_by_its_name_in_a_column() {
        let meta = |field| Expr { kind: ExprKind::Meta(field), span: 0..0 };
        let shard = FlowOp::Extend(vec![
            NamedExpr { name: "shard".into(), expr: meta(MetaField::Table) },
            NamedExpr { name: "db".into(), expr: meta(MetaField::Database) },
        ]);
        let schemas = [schema("a"), schema("b"), schema("c")];
        let told = |flow: &FlowPlan, schemas: &[Arc<TableSchema>], source: &str| {
            Feeds::new(std::slice::from_ref(flow), "dw", schemas).share("all", &TableId::new("shop", source))
        };
        let Share::Told(only) = told(&flow("*", vec![shard.clone()]), &schemas, "b") else { panic!("told") };
        let [(column, value)] = &only[..] else { panic!("{only:?}") };
        assert_eq!((&*column.name, value), ("shard", &Row::pack([Value::Text("b".into())])));
        assert_eq!(told(&flow("*", vec![shard.clone()]), &schemas[1..2], "b"), Share::Alone);
        let others = vec![TableId::new("shop", "a"), TableId::new("shop", "c")];
        assert_eq!(told(&flow("*", vec![]), &schemas, "b"), Share::Untold(others));
        assert_eq!(told(&flow("b", vec![]), &schemas, "b"), Share::Alone);
    }
}
