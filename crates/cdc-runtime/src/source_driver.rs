//! Cuts a source's stream into ticks, and checkpoints.
//!
//! A tick is closed at the end of a transaction, when it has many rows or its first row has waited long enough;
//! a quiet source closes an empty tick now and then, so that the stored position moves. A schema change opens a
//! tick of its own; one that empties a table before it is copied again has it to itself.
//!
//! *Replay.* After a restart from a checkpoint at tick C a target may stand at S > C, at a known position (its
//! binding). The same ticks are cut up to the furthest such S: everything up to the binding of the next known cut
//! gets that cut's tick, or a lower one, and nothing behind it does. A target drops ticks that it has, so which ticks
//! lie between two cuts does not matter; schema changes have ticks of their own here too. Chunks are not mended before the furthest cut is reached
//! ([`Capture::hold_chunks_until`]): their rows never enter a replayed tick.
//!
//! *Checkpoints.* At the end of a tick the source's state is noted; when every sink has committed that
//! tick (the probe's frontier says so), it is written. So a checkpoint never calls finished what some target lacks.

use crate::job::{FIRST_WAIT, LONGEST_WAIT};
use crate::state::{Checkpoint, StateDir};
use crate::status::{Info, Phase, StatusHandle};
use crate::view_store::ViewStore;
use cdc_core::event::{Batch, Change, Op, Origin, SchemaEvent};
use cdc_core::faults;
use cdc_core::plan::FlowPlan;
use cdc_core::plan::program::multiset_warnings;
use cdc_core::position::{Binding, Position};
use cdc_core::schema::{TableId, TableSchema};
use cdc_core::schema_change::SchemaChange;
use cdc_core::tick::Tick;
use cdc_core::{Diagnostic, Error, Result, Row, Severity, codes};
use cdc_materialize::inputs::Inputs;
use cdc_materialize::record::{Guard, Record};
use cdc_materialize::render::SourcePort;
use cdc_materialize::render::copied_by;
use cdc_materialize::voice::Voice;
use cdc_mysql::binlog::LogPoint;
use cdc_mysql::capture::{Capture, CaptureItem, CaptureState};
use cdc_mysql::config::StopAt;
use cdc_mysql::gtid::GtidSet;
use cdc_schema::registry::Registry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use timely::scheduling::SyncActivator;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// Rows after which a tick is closed at the next end of a transaction.
const TICK_ROWS: u64 = 8192;

/// Items taken before anything else is looked at.
const AT_ONCE: usize = 64;

/// How long the first row of a tick waits for company.
const TICK_WAIT: Duration = Duration::from_millis(3);

/// How often a quiet source closes an empty tick.
const IDLE_TICK: Duration = Duration::from_secs(1);

/// Rows of a batch.
const BATCH_ROWS: usize = 1024;

/// How often the status is brought up to date.
const STATUS: Duration = Duration::from_millis(100);

/// While tables are copied, finished chunks are made durable at least so often.
const SNAPSHOT_CHECKPOINT: Duration = Duration::from_secs(1);

/// Permits are counted in units of this many bytes.
const UNIT: usize = 1024;

/// Rows under way between a source and its sinks, in bytes.
pub(crate) const IN_FLIGHT: usize = 16 << 20;

/// The dataflow's end of a source.
pub(crate) struct Port {
    pub(crate) from: mpsc::Receiver<Record>,
    pub(crate) activator: Arc<Mutex<Option<SyncActivator>>>,
    pub(crate) first: Tick,
    pub(crate) failure: Arc<cdc_materialize::render::Failure>,
}

impl SourcePort for Port {
    fn connect(&mut self, activator: SyncActivator) {
        *self.activator.lock().unwrap_or_else(PoisonError::into_inner) = Some(activator);
    }

    fn first(&self) -> Tick {
        self.first
    }

    fn poll(&mut self) -> Result<Option<Record>, ()> {
        if self.failure.is_set() {
            return Err(());
        }
        match self.from.try_recv() {
            Ok(record) => Ok(Some(record)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => Err(()),
        }
    }
}

/// When a run ends by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Until {
    /// Never.
    #[default]
    Stopped,
    /// When everything that the source had committed at the start has been committed at every sink.
    CaughtUp,
    /// At this place of the source's log, once every table is whole.
    At(StopAt),
}

/// An end that does not come.
fn never(headline: String) -> Error {
    Error::definite(codes::OPTION_VALUE, headline).help("check what is behind --until")
}

/// Where a run ends, in what is compared at each boundary.
enum Goal {
    Gtids(GtidSet),
    Point(LogPoint),
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop.
    Stopped,
    /// `until = caught-up`.
    CaughtUp,
    /// The source has nothing more to give (start mode `snapshot`).
    Complete,
}

/// A source on its way into the dataflow.
pub(crate) struct Driver {
    pub(crate) source: String,
    pub(crate) capture: Capture,
    pub(crate) to: Option<mpsc::Sender<Record>>,
    pub(crate) activator: Arc<Mutex<Option<SyncActivator>>>,
    pub(crate) failure: Arc<cdc_materialize::render::Failure>,
    pub(crate) permits: Arc<Semaphore>,
    /// The last tick that every sink has committed.
    pub(crate) committed: watch::Receiver<Tick>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) state: Arc<Mutex<StateDir>>,
    pub(crate) status: StatusHandle,
    /// The checkpoint that this run began with; its fields but tick and source states stay.
    pub(crate) base: Checkpoint,
    pub(crate) every: Duration,
    pub(crate) until: Until,
    /// Ticks that targets have, ascending.
    pub(crate) cuts: VecDeque<(Tick, Position)>,
    /// Changes of one key reach the sinks in the order of the source: one worker, or no flow with a key of its own.
    pub(crate) in_order: bool,
    /// What a table that comes while it runs is copied by.
    pub(crate) flows: Arc<Vec<FlowPlan>>,
    /// Tables without a key that have been warned of.
    pub(crate) warned: BTreeSet<TableId>,
    /// What targets' tables have become, by sink.
    pub(crate) registries: BTreeMap<String, Arc<Mutex<Registry>>>,
    /// Where flows read views.
    pub(crate) views: Option<Views>,
    /// It was told that views are being computed, and not yet that targets have them.
    pub(crate) is_computing: bool,
}

/// What views need of whoever cuts ticks.
pub(crate) struct Views {
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) store: ViewStore,
    /// See [`cdc_materialize::render::Ports::voice`].
    pub(crate) voice: Arc<Voice>,
    /// What views read.
    pub(crate) tables: BTreeSet<TableId>,
    pub(crate) notices: Arc<Mutex<Vec<Diagnostic>>>,
}

struct Builder {
    schema: Arc<TableSchema>,
    origins: Vec<Origin>,
    last_origin: Option<Arc<Origin>>,
    changes: Vec<Change>,
    bytes: usize,
}

struct Open {
    tick: Tick,
    ordinal: u64,
    rows: u64,
    builders: Vec<Builder>,
    since: Option<Instant>,
    /// It holds a schema change: it ends with the transaction.
    schema: bool,
    used: bool,
}

impl Open {
    fn new(tick: Tick) -> Open {
        Open { tick, ordinal: 0, rows: 0, builders: Vec::new(), since: None, schema: false, used: false }
    }
}

impl Driver {
    /// Runs until the end; what is said to be durable then is durable.
    pub(crate) async fn run(mut self) -> Result<Ended> {
        let result = self.drive().await;
        if let Err(error) = &result {
            // noted before the source ends: what a sink holds back it lets go only when it looks behind that
            self.failure.set(error.clone());
        }
        // the dataflow ends when its source is gone
        self.to = None;
        self.wake();
        result
    }

    /// Where the server is now. A server that is away is asked again until it is there, as it is for its log; `None`: we were told to
    /// stop meanwhile.
    async fn server_position(&mut self) -> Result<Option<Position>> {
        let mut stop = self.stop.clone();
        let mut wait = FIRST_WAIT;
        loop {
            let error = tokio::select! {
                answer = self.capture.server_position() => match answer {
                    Err(error) if error.is_transient() => error,
                    answer => return answer.map(Some),
                },
                _ = stop.wait_for(|told| *told) => return Ok(None),
            };
            let warning = Diagnostic { severity: Severity::Warning, ..error.diagnostic().clone() };
            self.status.notice(warning.note(format!("trying again in {wait:?}")));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stop.wait_for(|told| *told) => return Ok(None),
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn has_reached(&self, goal: Option<&Goal>) -> bool {
        let reached = match goal {
            None => return false,
            Some(Goal::Gtids(gtids)) => self.capture.has_given_out(gtids),
            Some(Goal::Point(point)) => self.capture.log_point().has_reached(point),
        };
        reached && self.capture.is_whole()
    }

    async fn drive(&mut self) -> Result<Ended> {
        let goal = match &self.until.clone() {
            // a log in files ends where it is caught up with
            Until::CaughtUp if self.capture.ends_by_itself() => None,
            Until::CaughtUp => {
                let there = self.server_position().await?;
                there.map(|position| GtidSet::parse(&position.gtids).map(Goal::Gtids)).transpose()?
            }
            Until::At(StopAt::Gtids(gtids)) => {
                let server = self.capture.server().clone();
                if !gtids.is_of(server.flavor) {
                    return Err(Error::definite(
                        codes::OPTION_VALUE,
                        format!("the server is {server}, and \"{gtids}\" is no GTID set of such a server"),
                    )
                    .help("a GTID set of MySQL reads like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23, one of MariaDB like 0-1-270"));
                }
                if server.is_mariadb()
                    && !self.capture.ends_by_itself()
                    && let Some(there) = self.server_position().await?
                {
                    let has = GtidSet::parse(&there.gtids)?;
                    if gtids.domains().any(|gtid| has.domain_of(&gtid).is_none()) {
                        return Err(never(format!(
                            "the server has no transaction of a domain of {gtids}: it has {has}"
                        )));
                    }
                }
                Some(Goal::Gtids(gtids.clone()))
            }
            Until::At(StopAt::File(file, offset)) => {
                let base = |file: &str| file.rsplit_once('.').map_or(file, |(base, _)| base).to_owned();
                let here = self.capture.log_point().file.clone();
                if !here.is_empty() && base(&here) != base(file) {
                    return Err(never(format!(
                        "the server's log has no file \"{file}\": it is at \"{here}\""
                    )));
                }
                Some(Goal::Point(LogPoint::new(file.as_str(), *offset)))
            }
            // the source ends by itself
            Until::At(StopAt::Timestamp(_)) | Until::Stopped => None,
        };
        let mut open = Open::new(self.base.tick + 1);
        let mut candidate: Option<(Tick, CaptureState)> = None;
        let mut last_checkpoint = Instant::now();
        let mut last_closed = Instant::now();
        let mut last_tick: Tick = self.base.tick;
        let mut status_timer = tokio::time::interval(STATUS);
        status_timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut moved = false;
        let mut ending: Option<Ended> = None;
        // all tables are whole, which has not been told yet
        let mut is_complete = false;
        let mut give_up: Option<Instant> = None;
        self.enter_phase(last_tick);
        // on a quiet server a target may stand where we do, with ticks of its own
        if let Some(tick) = self.cut(&mut open).await? {
            last_tick = tick;
        }
        loop {
            if *self.stop.borrow() && ending.is_none() {
                ending = Some(Ended::Stopped);
                give_up = Some(Instant::now() + Duration::from_secs(5));
                self.status.update(|s| s.phase = Phase::Stopping);
            }
            let boundary = self.capture.at_boundary();
            if ending.is_none() && boundary && self.has_reached(goal.as_ref()) {
                ending = Some(Ended::CaughtUp);
            }
            let in_replay = !self.cuts.is_empty();
            if boundary
                && !in_replay
                && !*self.stop.borrow()
                && !self.failure.is_set()
                && self.is_silent(last_tick)
            {
                if !self.speak(&mut open, &mut last_tick).await? {
                    if self.committed.has_changed().is_err() {
                        // the dataflow is gone; whoever ended it has noted why
                        return Ok(ending.unwrap_or(Ended::Stopped));
                    }
                    // told to stop: the next turn sees it
                    continue;
                }
                (moved, candidate, last_closed) = (false, None, Instant::now());
                last_checkpoint = Instant::now();
                continue;
            }
            if let Some(ended) = ending
                && (boundary || give_up.is_some_and(|at| Instant::now() >= at))
            {
                // inside a transaction the open tick is never ended, so it is never committed
                if boundary && !in_replay {
                    if open.used || moved || candidate.is_none() {
                        last_tick = self.close(&mut open).await?;
                    }
                    candidate = Some((last_tick, self.capture.state()));
                }
                self.finish(candidate, ended).await?;
                return Ok(ended);
            }
            let wait = open.since.map(|since| since + TICK_WAIT);
            let close_now = boundary
                && !in_replay
                && ((open.rows >= TICK_ROWS)
                    || wait.is_some_and(|at| Instant::now() >= at)
                    || (moved && last_closed.elapsed() >= IDLE_TICK));
            if close_now {
                last_tick = self.close(&mut open).await?;
                moved = false;
                last_closed = Instant::now();
                let every =
                    if self.capture.is_whole() { self.every } else { self.every.min(SNAPSHOT_CHECKPOINT) };
                if candidate.is_none() && last_checkpoint.elapsed() >= every {
                    candidate = Some((last_tick, self.capture.state()));
                }
                continue;
            }
            let stopping = ending.is_some();
            let mut item = None;
            tokio::select! {
                biased;
                changed = self.committed.changed() => {
                    if changed.is_err() {
                        // the dataflow is gone; whoever ended it has noted why
                        return Ok(ending.unwrap_or(Ended::Stopped));
                    }
                    let committed = *self.committed.borrow_and_update();
                    let caught_up = committed >= last_tick
                        && !open.used
                        && self.capture.is_whole()
                        && !self.is_silent(last_tick);
                    self.status.update(|s| {
                        s.committed = committed;
                        s.caught_up = caught_up;
                    });
                    self.heard(committed);
                    if let Some((tick, state)) = candidate.take_if(|(tick, _)| *tick <= committed) {
                        self.checkpoint(tick, state)?;
                        last_checkpoint = Instant::now();
                    }
                }
                _ = self.stop.changed(), if !stopping => {}
                next = self.capture.next() => item = Some(next?),
                () = sleep_until(wait), if wait.is_some() && boundary && !in_replay => {}
                _ = status_timer.tick() => self.show(&open),
            }
            // What is there already is not waited for: waking up costs more than a small transaction.
            let mut taken = 0;
            while let Some(now) = item.take() {
                match now {
                    CaptureItem::Changes { schema, origin, changes } => {
                        self.status.update(|s| s.log_rows += changes.len() as u64);
                        for change in changes {
                            self.add(&mut open, &schema, &origin, change.op, change.before, change.after)
                                .await?;
                        }
                    }
                    CaptureItem::Chunk { schema, origin, rows } => {
                        self.status.update(|s| s.snapshot_rows += rows.len() as u64);
                        for row in rows {
                            self.add(&mut open, &schema, &origin, Op::Read, None, Some(row)).await?;
                        }
                        faults::at("snapshot.chunk-given");
                    }
                    CaptureItem::Schema { origin, statement, changes, before, after } => {
                        // Rows of one shape may stand on both sides of this one: it gets a tick of its own, so that
                        // none of them meet (a batch lies on one side of a change by its shape's version alone).
                        let again = changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }));
                        // One that a table map has told may stand behind rows of its own transaction: that is not
                        // torn apart.
                        let inside = self.capture.position().rows > 0;
                        if open.used && !inside && (!open.schema || (again && open.rows > 0)) {
                            // the position is still that in front of the statement's transaction
                            last_tick = self.close(&mut open).await?;
                        }
                        if let (None, Some(table)) = (&before, &after)
                            && table.key().is_none()
                            && self.warned.insert(table.id.clone())
                        {
                            let warnings = multiset_warnings(&*self.flows, std::slice::from_ref(table));
                            warnings.into_iter().for_each(|warning| self.status.notice(warning));
                        }
                        self.flush(&mut open).await?;
                        open.schema = true;
                        open.used = true;
                        open.since.get_or_insert_with(Instant::now);
                        open.ordinal += 1;
                        let event = SchemaEvent {
                            tick: open.tick,
                            origin: Origin::clone(&origin),
                            statement,
                            changes,
                            before,
                            after,
                        };
                        if let Some(views) = &self.views
                            && let Some(table) =
                                copied_by(&event).into_iter().find(|table| views.tables.contains(table))
                        {
                            if views.voice.last().is_some() {
                                self.status.info(Info::ViewsSilent { table: table.clone(), tick: open.tick });
                            }
                            // before the tick is closed
                            views.voice.hush(open.tick);
                        }
                        let is_gone = event.gone().is_some();
                        self.send(Record::Schema { ordinal: open.ordinal, event: Arc::new(event) });
                        // one that is no statement of the log has no end of a transaction behind it
                        if (again || is_gone) && self.capture.at_boundary() && self.cuts.is_empty() {
                            last_tick = self.close(&mut open).await?;
                        }
                    }
                    CaptureItem::TransactionEnd => {
                        self.status.update(|s| s.transactions += 1);
                        moved = true;
                        if open.schema {
                            last_tick = self.close(&mut open).await?;
                        }
                        if let Some(tick) = self.cut(&mut open).await? {
                            last_tick = tick;
                        }
                    }
                    CaptureItem::Moved => {
                        moved = true;
                        if let Some(tick) = self.cut(&mut open).await? {
                            last_tick = tick;
                        }
                    }
                    CaptureItem::TableWhole(table) => {
                        self.status.info(Info::TableWhole { table });
                        moved = true;
                        is_complete = self.capture.is_whole();
                    }
                    CaptureItem::Notice(notice) => self.status.notice(notice),
                    CaptureItem::End => ending = Some(ending.unwrap_or(Ended::Complete)),
                }
                taken += 1;
                let reached = self.capture.at_boundary() && self.has_reached(goal.as_ref());
                if taken < AT_ONCE && open.rows < TICK_ROWS && ending.is_none() && !reached {
                    item = self.capture.ready()?;
                }
            }
            // of several tables that have become whole at once the last one has been told
            if is_complete && taken < AT_ONCE {
                is_complete = false;
                if self.capture.is_whole() {
                    self.show(&open);
                    self.status.info(Info::SnapshotComplete);
                    self.enter_phase(last_tick);
                }
            }
        }
    }

    fn show(&self, open: &Open) {
        if let Some(views) = &self.views {
            let notices = std::mem::take(&mut *views.notices.lock().unwrap_or_else(PoisonError::into_inner));
            notices.into_iter().for_each(|notice| self.status.notice(notice));
        }
        let progress = self.capture.progress();
        let position = self.capture.position();
        let busy = IN_FLIGHT.saturating_sub(self.permits.available_permits() * UNIT);
        self.status.update(|s| {
            s.tables.insert(self.source.clone(), progress);
            s.positions.insert(self.source.clone(), format!("{}:{}", position.file, position.offset));
            s.in_flight_bytes = busy as u64;
            if open.used {
                s.caught_up = false;
            }
        });
    }

    /// Adds a change to the open tick.
    async fn add(
        &mut self,
        open: &mut Open,
        schema: &Arc<TableSchema>,
        origin: &Arc<Origin>,
        op: Op,
        before: Option<Row>,
        after: Option<Row>,
    ) -> Result<()> {
        open.used = true;
        open.since.get_or_insert_with(Instant::now);
        open.ordinal += 1;
        open.rows += 1;
        let at = match open.builders.iter().position(|b| Arc::ptr_eq(&b.schema, schema)) {
            Some(at) => at,
            None => {
                open.builders.push(Builder {
                    schema: schema.clone(),
                    origins: Vec::new(),
                    last_origin: None,
                    changes: Vec::with_capacity(BATCH_ROWS),
                    bytes: 0,
                });
                open.builders.len() - 1
            }
        };
        let builder = &mut open.builders[at];
        if builder.last_origin.as_ref().is_none_or(|o| !Arc::ptr_eq(o, origin)) {
            if builder.origins.is_empty() && op != Op::Read {
                self.status.update(|s| s.last_commit_micros = origin.timestamp_micros);
            }
            builder.origins.push(Origin::clone(origin));
            builder.last_origin = Some(origin.clone());
        }
        let size = |row: &Option<Row>| row.as_ref().map_or(0, |r| r.as_bytes().len());
        builder.bytes += size(&before) + size(&after) + std::mem::size_of::<Change>();
        builder.changes.push(Change {
            tick: open.tick,
            ordinal: open.ordinal,
            op,
            origin: builder.origins.len() as u32 - 1,
            before,
            after,
        });
        if builder.changes.len() >= BATCH_ROWS || builder.bytes >= IN_FLIGHT / 16 {
            let full = open.builders.swap_remove(at);
            self.send_batch(full).await?;
        }
        Ok(())
    }

    async fn flush(&mut self, open: &mut Open) -> Result<()> {
        for builder in std::mem::take(&mut open.builders) {
            self.send_batch(builder).await?;
        }
        Ok(())
    }

    /// Waits until there is room: a slow target slows the source down. The rows of the open tick itself are handed on
    /// and written before it ends, so there will be room; where a flow states a key of its own and there are
    /// several workers they cannot be (their order is only known when all have come): then the open tick alone is
    /// not made to wait. Nor is a run that is to stop.
    async fn send_batch(&mut self, builder: Builder) -> Result<()> {
        let Some(tick) = builder.changes.first().map(|c| c.tick) else { return Ok(()) };
        let units = (builder.bytes / UNIT + 1).min(IN_FLIGHT / UNIT) as u32;
        let mut committed = self.committed.clone();
        let mut stop = self.stop.clone();
        let in_order = self.in_order;
        let permit: Option<Arc<OwnedSemaphorePermit>> = tokio::select! {
            biased;
            permit = self.permits.clone().acquire_many_owned(units) => permit.ok().map(Arc::new),
            _ = committed.wait_for(|c| *c + 1 >= tick), if !in_order => None,
            _ = stop.wait_for(|s| *s) => None,
        };
        self.send(Record::Rows {
            worker: 0,
            batch: Arc::new(Batch {
                schema: builder.schema,
                origins: builder.origins,
                changes: builder.changes,
            }),
            guard: Guard {
                held: permit.map(|p| p as Arc<dyn std::any::Any + Send + Sync>),
                bytes: builder.bytes,
            },
        });
        Ok(())
    }

    /// Ends the open tick and opens the next; gives the tick ended.
    async fn close(&mut self, open: &mut Open) -> Result<Tick> {
        self.flush(open).await?;
        let tick = open.tick;
        let mut binding = Binding::default();
        binding.positions.insert(self.source.clone(), self.capture.position());
        self.send(Record::End { tick, binding: Arc::new(binding) });
        faults::at("tick.closed");
        *open = Open::new(tick + 1);
        Ok(tick)
    }

    /// In a replay: ends the cuts whose position has been reached, each with the tick that its target has. Rows of the
    /// open tick may have a lower number, since the target has them; the cut's own number ends it. Gives the last
    /// tick ended.
    async fn cut(&mut self, open: &mut Open) -> Result<Option<Tick>> {
        let mut last = None;
        while let Some((tick, position)) = self.cuts.front().cloned() {
            if !self.capture.has_reached(&position)? {
                break;
            }
            self.cuts.pop_front();
            if open.tick > tick {
                // It is that of a schema change, which has just been ended. To end another one here would give what
                // follows a higher number than its target has it under: it would be written twice.
                if open.used {
                    return Err(Error::definite(
                        codes::INTERNAL,
                        format!(
                            "replay: rows in front of {position:?} are in tick {}, not {tick}",
                            open.tick
                        ),
                    ));
                }
                continue;
            }
            if open.used && open.tick < tick {
                self.close(open).await?;
            }
            // the run before made a tick of each schema change too, so there is always room for the number
            if open.tick < tick {
                *open = Open::new(tick);
            }
            last = Some(self.close(open).await?);
        }
        Ok(last)
    }

    fn send(&self, record: Record) {
        if let Some(to) = &self.to {
            // a dataflow that has ended has noted why
            let _ = to.send(record);
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(activator) = &*self.activator.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = activator.activate();
        }
    }

    /// Waits until all that was closed is committed everywhere, and writes the last checkpoint.
    async fn finish(&mut self, candidate: Option<(Tick, CaptureState)>, _ended: Ended) -> Result<()> {
        let Some((tick, state)) = candidate else { return Ok(()) };
        loop {
            let committed = *self.committed.borrow_and_update();
            self.status.update(|s| s.committed = committed);
            self.heard(committed);
            if committed >= tick {
                self.show(&Open::new(tick + 1));
                self.status.update(|s| s.caught_up = true);
                return self.checkpoint(tick, state);
            }
            if self.committed.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Are there views whose tables are whole, and which have not said so yet?
    fn is_silent(&self, last_tick: Tick) -> bool {
        self.views.as_ref().is_some_and(|views| match views.voice.last() {
            None => self.capture.is_whole(),
            Some(first) => last_tick < first,
        })
    }

    /// The phase of a run that has just begun, or whose last table has become whole.
    fn enter_phase(&mut self, last_tick: Tick) {
        let phase = match self.capture.is_whole() {
            false => Phase::Snapshot,
            true if self.is_silent(last_tick) => Phase::Views,
            true => Phase::Streaming,
        };
        if phase == Phase::Views && !std::mem::replace(&mut self.is_computing, true) {
            self.status.info(Info::ViewsComputing);
        }
        self.status.update(|s| s.phase = phase);
    }

    /// Tells that targets have what views say, where that was waited for.
    fn heard(&mut self, committed: Tick) {
        let Some(first) = self.views.as_ref().and_then(|views| views.voice.last()) else { return };
        if committed >= first && std::mem::take(&mut self.is_computing) {
            self.status.info(Info::ViewsSpeak { tick: first });
            self.status.update(|s| {
                if s.phase == Phase::Views {
                    s.phase = Phase::Streaming;
                }
            });
        }
    }

    /// Lets views speak: a checkpoint says that all tables are whole and at which tick views begin, then that tick is given. False if it
    /// did not come to that; what was closed on the way is the last tick all the same, or a checkpoint would call rows finished that no
    /// target has.
    async fn speak(&mut self, open: &mut Open, last_tick: &mut Tick) -> Result<bool> {
        let Some(voice) = self.views.as_ref().map(|views| views.voice.clone()) else { return Ok(true) };
        if voice.last().is_none() {
            let tick = self.close(open).await?;
            *last_tick = tick;
            let state = self.capture.state();
            let mut stop = self.stop.clone();
            let failure = self.failure.clone();
            loop {
                if *self.committed.borrow_and_update() >= tick {
                    break;
                }
                if failure.is_set() {
                    return Ok(false);
                }
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|s| *s) => return Ok(false),
                    changed = self.committed.changed() => if changed.is_err() { return Ok(false) },
                }
            }
            // the tick is not open before the checkpoint says so
            voice.speak(tick + 1);
            self.checkpoint(tick, state)?;
            faults::at("views.speak");
        }
        if voice.at(*last_tick).until.is_some() {
            let tick = voice.last().unwrap_or(open.tick);
            self.status.info(Info::ViewsSpeakAgain { tick });
        }
        let first = voice.last().unwrap_or(open.tick);
        *last_tick = self.close(open).await?;
        while *last_tick < first {
            *last_tick = self.close(open).await?;
        }
        Ok(true)
    }

    fn checkpoint(&mut self, tick: Tick, state: CaptureState) -> Result<()> {
        if let Some(views) = &mut self.views {
            // in front of the checkpoint: see there
            let spoken = views.voice.at(tick);
            // what targets have been told is of the tables in front of the tick at which views fell silent
            let until = spoken.until.filter(|until| *until > views.store.tick());
            let before = until.map(|until| views.inputs.changes_until(until.saturating_sub(1)));
            views.store.save(tick, spoken.until, before, views.inputs.changes_until(tick))?;
            (self.base.views_from, self.base.views_until) = (spoken.from, spoken.until);
            faults::at("views.saved");
        }
        self.base.tick = tick;
        self.base.sources.insert(self.source.clone(), state);
        // Every sink has committed the tick itself, since there are candidates behind a replay only: so its registry has heard of
        // all that is before it.
        for (name, registry) in &self.registries {
            let tables = registry.lock().unwrap_or_else(PoisonError::into_inner).at(tick);
            self.base.evolved.insert(name.clone(), tables.values().map(|t| (**t).clone()).collect());
        }
        let mut dir = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        dir.save(&self.base)?;
        for registry in self.registries.values() {
            registry.lock().unwrap_or_else(PoisonError::into_inner).forget(tick);
        }
        dir.trim_bindings(tick)
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
