//! The schema registry: the control plane of schema changes of one sink.
//!
//! It holds the evolved schema of every target table, makes changes one after another, and says when the stream may go
//! on. It is a pure state machine: it waits for nothing, sends nothing and knows no clock; whoever drives it tells it what
//! happened and does what it answers.
//!
//! ```text
//!                 requested(t)                  every writer has flushed all before t
//!   at rest ──────────────────► Flush(t) wanted ───────────────────────────────────► Apply wanted
//!      ▲                                                                                │
//!      └──── Release(t) ◄──── applied ◄──────────────── the target shows the change ◄───┘
//!                             failed  ──► Refuse: nothing behind t may be written
//! ```
//!
//! # Why old and new rows never meet
//!
//! A change sits alone at its time t: rows before it have a time < t, rows behind it a time > t. `Apply` comes only when every
//! writer has said that it has written everything before t, and `Release` only when the target shows the change. Between the two
//! nothing is under way. Where a writer is a worker of a dataflow, its report is its frontier at the sink, which passes t
//! when nothing of a time before t can come any more.
//!
//! # Why it cannot deadlock
//!
//! A report may come before the request that it answers (a writer does not wait to be asked), so nobody waits for a question. Requests
//! are served in the order of their times, one at a time, and each needs reports about times before its own only: the
//! request with the least time never waits for another one. A writer that has ended counts as having flushed everything.
//!
//! # Generations
//!
//! A reset to a checkpoint begins a new generation: what was asked in an older one is cancelled, and an answer to it that
//! comes late is not taken for an answer to what is asked now. Each request has a number of its own, so a late answer of an
//! applier is never taken for one to a request that came after it was cancelled either.
//!
//! # What is kept
//!
//! A checkpoint at tick T needs the schemas as of T, while later changes may have been made already: each change is kept
//! with its tick until a checkpoint has passed it ([`Registry::at`], [`Registry::forget`]). So the list is as long as what
//! can still be replayed.

use crate::evolved::Evolved;
use cdc_core::connector::TargetTable;
use cdc_core::plan::SchemaChangeMode;
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, codes};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A request's number.
pub type RequestId = u64;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Writers must write everything before this tick; their reports are awaited.
    Flush {
        /// The tick of the change.
        before: Tick,
    },
    /// The target is to be changed.
    Apply {
        /// Which request.
        request: RequestId,
        /// In which generation it is to be answered.
        generation: u64,
    },
    /// The stream may go on behind this tick.
    Release {
        /// The tick of the change.
        tick: Tick,
    },
    /// The change was not made: nothing behind this tick may be written.
    Refuse {
        /// The tick of the change.
        tick: Tick,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    id: RequestId,
    tick: Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Rest,
    Flushing,
    Applying,
    Refused,
}

type Tables = BTreeMap<String, Arc<Evolved>>;

/// The registry.
#[derive(Debug, Clone)]
pub struct Registry {
    generation: u64,
    /// By writer: everything before this tick is written.
    writers: BTreeMap<usize, Tick>,
    queue: VecDeque<Request>,
    phase: Phase,
    next: RequestId,
    /// By name at the target.
    tables: Tables,
    /// The tables as of the last checkpoint.
    base: Tables,
    /// What has become of tables since, in the order of ticks.
    history: VecDeque<Change>,
}

/// A target table that became another one at a tick.
#[derive(Debug, Clone)]
struct Change {
    tick: Tick,
    before: Option<String>,
    after: Option<Arc<Evolved>>,
}

impl Change {
    fn make(&self, tables: &mut Tables) {
        if let Some(before) = &self.before {
            tables.remove(before);
        }
        if let Some(after) = &self.after {
            tables.insert(after.name.clone(), after.clone());
        }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new(Vec::new())
    }
}

impl Registry {
    /// A registry that begins with the schemas of a checkpoint.
    pub fn new(tables: Vec<Evolved>) -> Registry {
        let tables: Tables = tables.into_iter().map(|t| (t.name.clone(), Arc::new(t))).collect();
        Registry {
            generation: 0,
            writers: BTreeMap::new(),
            queue: VecDeque::new(),
            phase: Phase::Rest,
            next: 1,
            history: VecDeque::new(),
            base: tables.clone(),
            tables,
        }
    }

    /// A writer has come; it has flushed nothing yet.
    pub fn register(&mut self, writer: usize) {
        self.writers.entry(writer).or_insert(0);
    }

    /// A writer has written everything before this tick. [`Tick::MAX`]: it has ended.
    pub fn flushed(&mut self, writer: usize, before: Tick) -> Vec<Action> {
        let at = self.writers.entry(writer).or_insert(0);
        *at = (*at).max(before);
        self.step()
    }

    /// Everything before this tick is written by every writer.
    pub fn flushed_to(&self) -> Tick {
        self.writers.values().copied().min().unwrap_or(0)
    }

    /// A change was met in the stream at this tick.
    pub fn requested(&mut self, tick: Tick) -> (RequestId, Vec<Action>) {
        let id = self.next;
        self.next += 1;
        // behind those of its own tick, which are in the order of the source
        let at = self.queue.partition_point(|r| r.tick <= tick);
        // what is being made now stays the first
        let busy = usize::from(self.phase != Phase::Rest);
        self.queue.insert(at.max(busy.min(self.queue.len())), Request { id, tick });
        (id, self.step())
    }

    /// The target shows the change of a request.
    pub fn applied(&mut self, request: RequestId, generation: u64) -> Vec<Action> {
        if !self.is_answer(request, generation) {
            return Vec::new();
        }
        self.phase = Phase::Rest;
        let Some(done) = self.queue.pop_front() else { return Vec::new() };
        let mut out = vec![Action::Release { tick: done.tick }];
        out.extend(self.step());
        out
    }

    /// The change of a request cannot be made.
    pub fn failed(&mut self, request: RequestId, generation: u64) -> Vec<Action> {
        if !self.is_answer(request, generation) {
            return Vec::new();
        }
        self.phase = Phase::Refused;
        self.queue.front().map(|r| Action::Refuse { tick: r.tick }).into_iter().collect()
    }

    /// Back to a checkpoint: what was asked is cancelled, and the schemas are those of its tick.
    pub fn reset(&mut self, tick: Tick) {
        self.generation += 1;
        self.queue.clear();
        self.phase = Phase::Rest;
        self.writers.values_mut().for_each(|w| *w = 0);
        self.tables = self.at(tick);
        self.history.retain(|change| change.tick <= tick);
    }

    /// The target has lost what was not committed behind this tick, and it will be asked for again. The stream has not moved: what
    /// writers have reported stays.
    pub fn rolled_back(&mut self, tick: Tick) {
        let writers = self.writers.clone();
        self.reset(tick);
        self.writers = writers;
    }

    /// The generation that answers belong to.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn is_answer(&self, request: RequestId, generation: u64) -> bool {
        generation == self.generation
            && self.phase == Phase::Applying
            && self.queue.front().is_some_and(|r| r.id == request)
    }

    fn step(&mut self) -> Vec<Action> {
        let Some(first) = self.queue.front() else { return Vec::new() };
        let (id, tick) = (first.id, first.tick);
        let ready = !self.writers.is_empty() && self.flushed_to() >= tick;
        match self.phase {
            Phase::Rest | Phase::Flushing if ready => {
                self.phase = Phase::Applying;
                vec![Action::Apply { request: id, generation: self.generation }]
            }
            Phase::Rest => {
                self.phase = Phase::Flushing;
                vec![Action::Flush { before: tick }]
            }
            Phase::Flushing | Phase::Applying | Phase::Refused => Vec::new(),
        }
    }

    /// The target table that a source table is written to, under the name that its flow gives it.
    pub fn find(&self, name: &str, table: &TableId) -> Option<&Arc<Evolved>> {
        let named = self.tables.get(name).filter(|t| t.feed(name, table).is_some());
        named.or_else(|| self.tables.values().find(|t| t.feed(name, table).is_some()))
    }

    /// A target table.
    pub fn table(&self, name: &str) -> Option<&Arc<Evolved>> {
        self.tables.get(name)
    }

    /// All target tables.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Evolved>> {
        self.tables.values()
    }

    /// A target table that its flow writes from the start on, and whose rows are all still to come; does nothing if it is known.
    /// For the start, before any change.
    ///
    /// # Errors
    /// As [`Evolved::join`].
    pub fn announce(&mut self, table: &TargetTable, mode: SchemaChangeMode) -> Result<()> {
        if self.find(&table.name, &table.schema.id).is_some() {
            return Ok(());
        }
        match self.tables.get_mut(&table.name) {
            Some(there) => {
                Arc::make_mut(there).join(table, mode)?;
            }
            None => {
                self.tables.insert(table.name.clone(), Arc::new(Evolved::of(table)));
            }
        }
        self.base = self.tables.clone();
        Ok(())
    }

    /// Source tables that no flow takes any more feed nothing. For the start, before any change.
    pub fn keep_only(&mut self, is_taken: impl Fn(&str, &TableId) -> bool) {
        let gone = |t: &Evolved| t.feeds.iter().any(|f| !is_taken(&f.name, &f.table));
        for table in self.tables.values_mut().filter(|t| gone(t)) {
            Arc::make_mut(table).feeds.retain(|f| is_taken(&f.name, &f.table));
        }
        self.base = self.tables.clone();
    }

    /// What became of a target table at a tick. `before`: the one that it was.
    pub fn changed(&mut self, tick: Tick, before: Option<&str>, after: Option<Evolved>) {
        let change = Change { tick, before: before.map(str::to_owned), after: after.map(Arc::new) };
        change.make(&mut self.tables);
        // in a replay changes of two flows may come in another order than that of their ticks; they are about two tables then
        let at = self.history.partition_point(|known| known.tick <= tick);
        self.history.insert(at, change);
    }

    /// The tables as of a tick; of one before the last checkpoint those of the checkpoint.
    pub fn at(&self, tick: Tick) -> Tables {
        let mut tables = self.base.clone();
        self.history
            .iter()
            .take_while(|change| change.tick <= tick)
            .for_each(|change| change.make(&mut tables));
        tables
    }

    /// A checkpoint at this tick is durable: nothing before it can be replayed any more.
    pub fn forget(&mut self, tick: Tick) {
        while let Some(change) = self.history.front().filter(|change| change.tick <= tick) {
            change.make(&mut self.base);
            self.history.pop_front();
        }
    }

    /// How many changes are kept for replays.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.history.len()
    }
}

/// The error of an action that does not fit: the driver of the registry is wrong.
pub fn out_of_step(action: &Action) -> Error {
    Error::definite(codes::INTERNAL, format!("a schema change came out of step: {action:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{Apply, Flush, Refuse, Release};
    use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableSchema};

    fn with_writers(n: usize) -> Registry {
        let mut registry = Registry::default();
        (0..n).for_each(|w| registry.register(w));
        registry
    }

    fn apply(request: RequestId) -> Action {
        Apply { request, generation: 0 }
    }

    #[test]
    fn a_change_is_applied_when_every_writer_has_flushed_and_then_released() {
        let mut registry = with_writers(2);
        let (id, out) = registry.requested(5);
        assert_eq!(out, [Flush { before: 5 }]);
        assert_eq!(registry.flushed(0, 5), []);
        assert_eq!(registry.flushed(1, 4), []);
        assert_eq!(registry.flushed(1, 6), [apply(id)]);
        assert_eq!(registry.flushed(1, 7), [], "asked once");
        assert_eq!(registry.applied(id, 0), [Release { tick: 5 }]);
        assert_eq!(registry.applied(id, 0), [], "answered once");
    }

    #[test]
    fn a_flush_may_be_reported_before_it_is_asked_for() {
        let mut registry = with_writers(2);
        registry.flushed(0, 9);
        registry.flushed(1, Tick::MAX);
        let (id, out) = registry.requested(5);
        assert_eq!(out, [apply(id)]);
    }

    #[test]
    fn changes_are_made_one_after_another_in_the_order_of_their_ticks() {
        let mut registry = with_writers(1);
        let (late, out) = registry.requested(9);
        assert_eq!(out, [Flush { before: 9 }]);
        registry.reset(0);
        let (late_again, _) = registry.requested(9);
        assert_ne!(late, late_again);
        let mut registry = with_writers(1);
        registry.flushed(0, 20);
        let (first, out) = registry.requested(3);
        assert_eq!(out, [apply(first)]);
        let (third, out) = registry.requested(8);
        assert_eq!(out, []);
        let (second, out) = registry.requested(3);
        assert_eq!(out, [], "one at a time");
        assert_eq!(registry.applied(first, 0), [Release { tick: 3 }, apply(second)]);
        assert_eq!(registry.applied(second, 0), [Release { tick: 3 }, apply(third)]);
    }

    #[test]
    fn answers_of_an_older_generation_or_another_request_are_ignored() {
        let mut registry = with_writers(1);
        registry.flushed(0, 9);
        let (old, _) = registry.requested(5);
        registry.reset(0);
        assert_eq!(registry.applied(old, 0), []);
        registry.flushed(0, 9);
        let (new, out) = registry.requested(5);
        assert_eq!(out, [Apply { request: new, generation: 1 }]);
        assert_eq!(registry.applied(old, 0), [], "a late answer of the cancelled one");
        assert_eq!(registry.applied(old, 1), []);
        assert_eq!(registry.failed(new, 1), [Refuse { tick: 5 }]);
        assert_eq!(registry.applied(new, 1), [], "nothing goes on behind a refusal");
        assert_eq!(registry.requested(6).1, []);
    }

    fn table(name: &str, source: &str, columns: &[&str]) -> TargetTable {
        let int = ColumnType::Int { width: IntWidth::Int, unsigned: false };
        TargetTable {
            name: name.into(),
            schema: Arc::new(TableSchema {
                id: TableId::new("shop", source),
                version: 1,
                columns: columns.iter().map(|c| Column::new(*c, int.clone())).collect(),
                primary_key: vec![0],
                unique_keys: vec![],
                charset: Charset::utf8mb4(),
                comment: String::new(),
            }),
            key: vec![0],
            soft_delete: None,
            told_by: None,
        }
    }

    #[test]
    fn a_table_that_is_announced_again_is_known_and_one_made_anew_is_new() {
        let mut registry = Registry::default();
        registry.announce(&table("t", "t", &["id", "a"]), SchemaChangeMode::Evolve).unwrap();
        let known = registry.table("t").cloned();
        registry.announce(&table("t", "t", &["id", "a", "b"]), SchemaChangeMode::Evolve).unwrap();
        assert_eq!(registry.table("t").cloned(), known);
        registry.changed(4, Some("t"), None);
        registry.announce(&table("t", "t", &["id", "b"]), SchemaChangeMode::Evolve).unwrap();
        assert_eq!(registry.table("t").unwrap().columns[1].name.as_ref(), "b");
        // another source table joins the one that is there
        registry.announce(&table("t", "other", &["id", "c"]), SchemaChangeMode::Evolve).unwrap();
        assert_eq!(registry.table("t").unwrap().columns.len(), 3);
        registry.keep_only(|_, source| &*source.table == "t");
        assert_eq!(registry.table("t").unwrap().feeds.len(), 1);
    }

    #[test]
    fn schemas_as_of_a_tick_are_kept_until_a_checkpoint_has_passed_it() {
        let mut registry = Registry::new(vec![Evolved::of(&table("t", "t", &["id"]))]);
        let with = |columns: &[&str]| Some(Evolved::of(&table("t", "t", columns)));
        registry.changed(12, Some("t"), with(&["id", "a"]));
        registry.changed(15, Some("t"), with(&["id", "a", "b"]));
        let columns = |registry: &Registry, tick| registry.at(tick)["t"].columns.len();
        assert_eq!([10, 11, 12, 14, 15, 99].map(|t| columns(&registry, t)), [1, 1, 2, 2, 3, 3]);
        registry.forget(13);
        assert_eq!((columns(&registry, 13), columns(&registry, 15), registry.kept()), (2, 3, 1));
        registry.reset(13);
        assert_eq!((registry.table("t").unwrap().columns.len(), registry.kept()), (2, 0));
    }

    /// A source table that was renamed while the mode keeps the target's name is found by both.
    #[test]
    fn a_table_is_found_by_the_name_that_its_flow_gives_it() {
        let mut renamed = Evolved::of(&table("old", "old", &["id"]));
        renamed.feeds[0].name = "new".into();
        renamed.feeds[0].table = TableId::new("shop", "new");
        let registry = Registry::new(vec![renamed]);
        assert_eq!(registry.find("new", &TableId::new("shop", "new")).unwrap().name, "old");
        assert!(registry.find("old", &TableId::new("shop", "old")).is_none());
    }
}
