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
//! cannot deadlock.
//!
//! *Transient errors* of a target: the transaction is rolled back, and what it held is written again, with
//! back-off. What was written in parts and is too large to be held cannot be; then the run ends, and the next start
//! goes on from where the target stands.

use cdc_core::connector::{Sink, TargetBatch, TargetChange, TargetTable};
use cdc_core::event::SchemaEvent;
use cdc_core::faults;
use cdc_core::plan::FlowPlan;
use cdc_core::plan::program::BoundFlow;
use cdc_core::position::Binding;
use cdc_core::schema::{Column, TableId, TableSchema};
use cdc_core::tick::Tick;
use cdc_core::{Diagnostic, Result, Row, Severity};
use cdc_materialize::render::{Failure, SinkBatch, SinkPort};
use cdc_schema::derivator::{Share, derive};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use timely::scheduling::SyncActivator;

use crate::state::StateDir;
use crate::status::StatusHandle;

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
        self.send(ToCommitter::Schema(Box::new(SchemaWork { ordinal, flow, event, before, after })));
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
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    targets: BTreeMap<String, BTreeMap<TableId, Vec<(Column, Row)>>>,
}

impl Feeds {
    /// What a sink's flows make of the tables that are there at the start.
    pub(crate) fn new(flows: &[FlowPlan], sink: &str, schemas: &[Arc<TableSchema>]) -> Feeds {
        let mut feeds = Feeds::default();
        for flow in flows.iter().filter(|f| f.sink == sink) {
            schemas.iter().filter(|s| flow.tables.matches(&s.id)).for_each(|s| feeds.add(flow, s));
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
        if let Some(after) = work.event.after.as_ref().filter(|s| flow.tables.matches(&s.id)) {
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
    pub(crate) workers: usize,
    /// Ticks up to here are at the target already.
    pub(crate) resumed: Tick,
    pub(crate) shared: Arc<SinkShared>,
    /// For sinks that cannot hold their progress: where bindings are noted before their ticks are written.
    pub(crate) bindings: Option<Arc<Mutex<StateDir>>>,
    pub(crate) status: StatusHandle,
    /// A run that is to stop does not try for ever.
    pub(crate) stop: crate::job::Stop,
}

fn size_of_change(change: &TargetChange) -> usize {
    let size = |row: &Option<cdc_core::Row>| row.as_ref().map_or(0, |r| r.as_bytes().len());
    size(&change.row)
        + size(&change.before)
        + change.key.as_bytes().len()
        + std::mem::size_of::<TargetChange>()
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
        let mut frontiers: Vec<Option<Tick>> = vec![Some(0); self.workers];
        let mut prepared: HashSet<*const TargetTable> = HashSet::new();
        // what `prepared` points to, so that addresses stay their own
        let mut held_tables: Vec<Arc<TargetTable>> = Vec::new();
        let mut group = Group { written: Vec::new(), bytes: 0, rows: 0, lost: false, last: None };
        loop {
            let Ok(first) = inbox.recv() else { return Ok(()) };
            let mut next = Some(first);
            while let Some(message) = next {
                self.take(message, &mut pending, &mut frontiers);
                next = inbox.try_recv().ok();
            }
            if self.shared.failure.is_set() {
                self.sink.rollback();
                return Ok(());
            }
            // None is "nothing at all", past everything
            let passed = frontiers.iter().map(|f| f.unwrap_or(Tick::MAX)).min().unwrap_or(0);
            self.note(&pending, passed)?;
            while let Some(entry) = pending.first_entry() {
                if *entry.key() >= passed || entry.get().binding.is_none() {
                    break;
                }
                let (tick, work) = entry.remove_entry();
                if tick <= self.resumed {
                    continue;
                }
                if !work.schema.is_empty() && self.sink.commits_by_itself() {
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
        let Some(bindings) = &self.bindings else { return Ok(()) };
        let due: Vec<(Tick, &Binding)> = pending
            .iter()
            .take_while(|(tick, _)| **tick < passed)
            .map_while(|(tick, work)| work.binding.as_deref().map(|binding| (*tick, binding)))
            .filter(|(tick, _)| *tick > self.resumed)
            .collect();
        if due.is_empty() {
            return Ok(());
        }
        bindings.lock().unwrap_or_else(PoisonError::into_inner).note_bindings(&due)?;
        faults::at("bindings.noted");
        Ok(())
    }

    fn take(
        &mut self,
        message: ToCommitter,
        pending: &mut BTreeMap<Tick, TickWork>,
        frontiers: &mut [Option<Tick>],
    ) {
        match message {
            ToCommitter::Rows { tick, batch } => {
                if tick <= self.resumed {
                    return;
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
                } else if let Some(flow) = self.flows.get(schema.flow) {
                    self.feeds.follow(flow, &schema);
                }
            }
            ToCommitter::End { tick, binding } => {
                pending.entry(tick).or_default().binding = Some(binding);
            }
            ToCommitter::Passed { worker, next } => {
                if let Some(frontier) = frontiers.get_mut(worker) {
                    *frontier = next;
                }
            }
        }
    }

    fn write_tick(
        &mut self,
        mut work: TickWork,
        group: &mut Group,
        prepared: &mut HashSet<*const TargetTable>,
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
            if !prepared.contains(&Arc::as_ptr(&batch.table)) {
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

    fn write(&mut self, batch: &TargetBatch, prepared: &mut HashSet<*const TargetTable>) -> Result<()> {
        if prepared.insert(Arc::as_ptr(&batch.table)) {
            self.sink.prepare(&batch.table)?;
        }
        self.sink.write(batch)?;
        faults::at("sink.written");
        Ok(())
    }

    fn change(&mut self, work: &SchemaWork, prepared: &mut HashSet<*const TargetTable>) -> Result<()> {
        let flows = self.flows.clone();
        let Some(flow) = flows.get(work.flow) else { return Ok(()) };
        let place = |e: cdc_core::Error| work.event.explain(e);
        if work.before.is_none() {
            // a table that comes has its part in the target already
            self.feeds.follow(flow, work);
        }
        let target = work.before.as_ref().or(work.after.as_ref());
        let source = work.event.before.as_ref().or(work.event.after.as_ref());
        let share = match (target, source) {
            (Some(target), Some(source)) => self.feeds.share(&target.name, &source.id),
            _ => Share::Alone,
        };
        let (before, after) = (work.before.as_ref(), work.after.as_ref());
        let changes = derive(flow, &work.event.changes, before, after, &share).map_err(place)?;
        self.feeds.follow(flow, work);
        for change in &changes {
            faults::at("schema.apply");
            self.sink.apply(change).map_err(place)?;
            faults::at("schema.applied");
        }
        prepared.clear();
        if let Some(after) = &work.after {
            self.sink.prepare(after).map_err(place)?;
        }
        let done: Vec<String> = work.event.changes.iter().map(ToString::to_string).collect();
        let target = work.after.as_ref().or(work.before.as_ref()).map_or("", |t| &t.name);
        self.status.info(format!(
            "schema change: {}; {}.{target}: {}",
            done.join("; "),
            self.name,
            if changes.is_empty() {
                "nothing to do".to_owned()
            } else {
                format!("{} applied", changes.len())
            }
        ));
        Ok(())
    }

    /// Does something in the open transaction; after a transient error all of the transaction again.
    fn attempt(
        &mut self,
        group: &mut Group,
        prepared: &mut HashSet<*const TargetTable>,
        mut act: impl FnMut(&mut Self, &mut HashSet<*const TargetTable>) -> Result<()>,
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
                    if self.stop.is_told() {
                        return Err(error
                            .note("told to stop: not tried again; the target stands at the commit before"));
                    }
                    self.sink.rollback();
                    prepared.clear();
                    let notice = error.diagnostic().clone();
                    self.status.notice(
                        Diagnostic { severity: Severity::Warning, ..notice }
                            .note(format!("sink \"{}\": trying again in {wait:?}", self.name)),
                    );
                    std::thread::sleep(wait);
                    wait = (wait * 2).min(Duration::from_secs(5));
                    again = true;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes again what the rolled-back transaction held.
    fn rewrite(&mut self, group: &mut Group, prepared: &mut HashSet<*const TargetTable>) -> Result<()> {
        let written = std::mem::take(&mut group.written);
        let result = written.iter().try_for_each(|w| match w {
            Written::Batch(batch) => self.write(batch, prepared),
            Written::Schema(schema) => self.change(schema, prepared),
        });
        group.written = written;
        result
    }

    fn commit(&mut self, group: &mut Group, prepared: &mut HashSet<*const TargetTable>) -> Result<()> {
        let Some((tick, binding)) = group.last.take() else { return Ok(()) };
        // an operator that failed has said so before its frontier passed
        if self.shared.failure.is_set() {
            self.sink.rollback();
            return Ok(());
        }
        faults::at("sink.commit");
        self.attempt(group, prepared, |this, _| this.sink.commit(tick, &binding))?;
        faults::at("sink.committed");
        *group = Group { written: Vec::new(), bytes: 0, rows: 0, lost: false, last: None };
        self.shared.committed.store(tick, Ordering::SeqCst);
        self.shared.activate();
        Ok(())
    }
}

#[cfg(test)]
mod multiset_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::Value;
    use cdc_core::expr::{Expr, ExprKind, MetaField};
    use cdc_core::plan::pattern::{NamePattern, TablePattern};
    use cdc_core::plan::{FlowOp, NamedExpr, SchemaChangeMode, TargetName};
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
