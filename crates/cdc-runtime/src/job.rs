//! One run of a pipeline, from looking at everything to the last checkpoint.
//!
//! *The order of the start.* (1) The state folder is locked. (2) The source is connected, looked at, and its
//! position found, or a checkpoint's is taken. (3) Targets are asked where they stand, and their tables are checked:
//! until here nothing has been changed but the state folder's lock. (4) If this is a first start, the first checkpoint
//! (position, structures, chunk lists) is made durable. (5) Targets are claimed: no other run can commit from now on.
//! (6) Tables are made ready and rows flow.
//!
//! *Why (4) is before (5).* A sink that committed without a checkpoint would, after a crash, be met by a new start with
//! a new position: rows deleted at the source in between would stay at the target for ever. So a target that holds
//! our progress while there is no checkpoint to it is refused.
//!
//! *Who is away at the start is waited for.* Servers are started side by side with us, and restarted: so what ends with a *transient*
//! error in (2), (3), (5) and (6) is done again with back-off, each try told, for [`RunOptions::wait`] since the first of
//! them; then it is the error, since an address that is wrong looks the same as a server that is slow. It makes no difference
//! whether a server has answered before: one that is refused at the very first connection is the usual case of a start side by side.
//! A run that is told to stop meanwhile has stopped well: nothing of it is under way.
//! *Definite* errors (account, database, rights, shape, a host that no name server knows) end the run at once, and whoever only looks
//! (`check --live`, `verify`) does not wait. Why doing it again is right: (2) and (3) read only, and (2) begins anew as a whole;
//! a claim may have happened although its answer was lost, and then raises the epoch once more; tables that (6) has made are
//! found. A target that was away may stand elsewhere when it is back: a commit of the run before came through, or commits were
//! lost with its server. So a claim compares with where the target stood when it was looked at, and is then a transient
//! error; it is looked at again before it is claimed again, and cuts are made of what was seen last.
//!
//! *Going back.* A transaction that is too large to be held is not known any more once the target has lost a part of it. All of it is
//! in the source's log still, and the last checkpoint knows the place: so the run ends its dataflow and begins again at (1), just as a new
//! process would, with nothing kept but its counts. No limit holds then: as for any other loss later on, it is tried until the
//! target is there or the run is told to stop.

use crate::sink_driver::{Committer, Feeds, Port as SinkEnd, SinkShared, ToCommitter};
use crate::source_driver::{Driver, Ended, IN_FLIGHT, Port as SourceEnd, Until, Views};
use crate::state::{Checkpoint, StateDir, this_run};
use crate::status::{Info, Phase, Status, StatusHandle};
use crate::view_store::ViewStore;
use cdc_core::connector::{JobIdentity, Sink, TargetSchemaChange, TargetTable, Upstream};
use cdc_core::diagnostic::{Diagnostic, Severity};
use cdc_core::plan::program::{
    BoundFlow, collision, multiset_warnings, other_rows_when_renamed, whole_rows_missing,
};
use cdc_core::plan::view::bind::{Graph, bind_again, bind_or_first};
use cdc_core::plan::view::{OnConflict, ViewPlan};
use cdc_core::plan::{self, FlowPlan, KeyConflict, Plan, SchemaChangeMode, SourcePlan};
use cdc_core::position::{Binding, Position};
use cdc_core::preflight::Check;
use cdc_core::schema::{TableId, TableSchema, same_name};
use cdc_core::schema_change::SchemaChange;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, ZeroDates, codes};
use cdc_materialize::inputs::Inputs;
use cdc_materialize::record::Record;
use cdc_materialize::render::{Counters, Failure, Ports, render};
use cdc_materialize::voice::{Spoken, Voice};
use cdc_mysql::capture::Capture;
use cdc_mysql::config::{Config, StopAt};
use cdc_schema::copied::other_rows_when_altered;
use cdc_schema::derivator::{Question, derive};
use cdc_schema::registry::Registry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use timely::scheduling::SyncActivator;
use tokio::sync::{Semaphore, watch};

/// How a plan is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The pipeline file's folder: paths of targets are relative to it.
    pub base: PathBuf,
    /// The state folder.
    pub state: PathBuf,
    /// Timely workers in this process.
    pub workers: usize,
    /// When the run ends by itself.
    pub until: Until,
    /// How long a source or target that cannot be reached is waited for at the start.
    pub wait: Duration,
}

/// A run that ended well.
#[derive(Debug, Clone)]
pub struct Report {
    /// Why it ended.
    pub ended: Ended,
    /// The last tick that every sink has committed.
    pub committed: Tick,
    /// Row changes of the log given out.
    pub log_rows: u64,
    /// Rows of the snapshot given out.
    pub snapshot_rows: u64,
    /// What sinks have to tell.
    pub summaries: Vec<String>,
}

/// Tells a run to stop.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Stop(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Stop at the next end of a transaction, with a checkpoint.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Has it been told?
    pub fn is_told(&self) -> bool {
        *self.0.borrow()
    }
}

struct OpenSink {
    name: String,
    /// Its tables as of the checkpoint.
    registry: Arc<Mutex<Registry>>,
    sink: Box<dyn Sink>,
    identity: JobIdentity,
    resumed: Tick,
    /// Where that tick ends, if the target says so.
    binding: Option<Binding>,
}

/// Runs a plan to its end.
///
/// # Errors
/// The first definite error of any part; nothing behind it has been committed.
pub fn run(plan: &Plan, options: &RunOptions, status: &StatusHandle, stop: &Stop) -> Result<Report> {
    let mut wait = FIRST_WAIT;
    let mut patience = Some(options.wait);
    loop {
        let before = status.get().committed;
        let back = Arc::new(AtomicBool::new(false));
        let error = match attempt(plan, options, (status, stop, patience), &back) {
            Err(Halt::Failed(error))
                if back.load(Ordering::SeqCst) && error.is_transient() && !stop.is_told() =>
            {
                error
            }
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Stopped) => return Ok(report(Ended::Stopped, status, Vec::new())),
            Ok(report) => return Ok(report),
        };
        if status.get().committed > before {
            wait = FIRST_WAIT;
        }
        let warning = Diagnostic { severity: Severity::Warning, ..error.diagnostic().clone() };
        status.notice(warning.note(format!("going back to the last checkpoint in {wait:?}")));
        status.update(|s| s.phase = Phase::Starting);
        sleep(wait, stop);
        wait = (wait * 2).min(LONGEST_WAIT);
        patience = None;
    }
}

/// Runs once, on a thread of its own. A target is asked by calls that nothing ends but their time-outs: a run that is told to
/// stop meanwhile leaves the thread behind. That is as if it were killed in a start, which a next one makes good, and
/// the thread begins no other call.
fn attempt(
    plan: &Plan,
    options: &RunOptions,
    (status, stop, patience): (&StatusHandle, &Stop, Option<Duration>),
    back: &Arc<AtomicBool>,
) -> Result<Report, Halt> {
    let asking = Arc::new(AtomicBool::new(false));
    let (to, ended) = mpsc::channel();
    let work = {
        let (plan, options, status, stop) = (plan.clone(), options.clone(), status.clone(), stop.clone());
        let (back, asking) = (back.clone(), asking.clone());
        move || {
            let waiting = Waiting { status: &status, stop: &stop, patience, asking: &asking };
            // each with threads of its own for input and output: nothing of one is at work in the next
            let result = threads().map_err(Halt::from).and_then(|runtime| {
                let result = run_on(&runtime, &plan, &options, &waiting, &back);
                runtime.shutdown_timeout(Duration::from_millis(500));
                result
            });
            // where nobody hears it, it has been left behind
            let _ = to.send(result);
        }
    };
    let no_thread = |why: String| Error::definite(codes::INTERNAL, format!("no thread for a run: {why}"));
    std::thread::Builder::new()
        .name("cdc-run".to_owned())
        .spawn(work)
        .map_err(|e| no_thread(e.to_string()))?;
    let mut told = None;
    loop {
        match ended.recv_timeout(Duration::from_millis(20)) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(no_thread("it ended without an answer".to_owned()).into());
            }
            Err(mpsc::RecvTimeoutError::Timeout) if stop.is_told() && asking.load(Ordering::SeqCst) => {
                // who answers is heard
                if told.get_or_insert_with(Instant::now).elapsed() > GRACE {
                    return Err(Halt::Stopped);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => told = None,
        }
    }
}

fn threads() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("cdc-io")
        .enable_all()
        .build()
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no threads for input and output: {e}")))
}

/// Why a start has come to no dataflow.
enum Halt {
    /// The run was told to stop before it was there.
    Stopped,
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

/// What a run has come to, from what it shows.
fn report(ended: Ended, status: &StatusHandle, summaries: Vec<String>) -> Report {
    let last = status.get();
    let Status { committed, log_rows, snapshot_rows, .. } = last;
    Report { ended, committed, log_rows, snapshot_rows, summaries }
}

fn run_on(
    runtime: &tokio::runtime::Runtime,
    plan: &Plan,
    options: &RunOptions,
    waiting: &Waiting<'_>,
    back: &Arc<AtomicBool>,
) -> Result<Report, Halt> {
    let Waiting { status, stop, .. } = *waiting;
    let source = only_source(plan)?;
    let mut config = Config::from_options(&source.options)?.relative_to(&options.base);
    if let Until::At(StopAt::Timestamp(micros)) = &options.until {
        config.stop_micros = Some(*micros);
    }
    let mut sinks = Vec::new();
    for sink_plan in plan.sinks.iter().filter(|s| plan.flows.iter().any(|f| f.sink == s.name)) {
        sinks.push((sink_plan.name.clone(), cdc_sinks::registry::open(sink_plan, &options.base)?));
    }
    tells_owners(plan, &sinks)?;
    let mut dir = StateDir::open(&options.state)?;
    let (found, notices) = dir.load()?;
    notices.into_iter().for_each(|n| status.notice(n));
    let fingerprint = fingerprint(plan);
    if let Some(checkpoint) = &found {
        check_fingerprint(checkpoint, plan, &fingerprint)?;
        // every sink has it, whatever becomes of this start
        status.update(|s| s.committed = s.committed.max(checkpoint.tick));
    }
    // until the source is there, Ctrl-C must not wait for its time-outs
    let mut stopped = stop.0.subscribe();
    let capture = waiting.until(&format!("source \"{}\"", source.name), |_| {
        runtime.block_on(async {
            let open = async {
                match found.as_ref().and_then(|c| c.sources.get(&source.name)) {
                    Some(state) => Capture::resume(config.clone(), state).await,
                    None => Capture::start_telling(config.clone(), &|notice| status.notice(notice)).await,
                }
            };
            tokio::select! {
                capture = open => capture.map(Some),
                _ = stopped.wait_for(|s| *s) => Ok(None),
            }
        })
    })?;
    let Some(mut capture) = capture else { return Err(Halt::Stopped) };
    let first = found.is_none();
    let base = found.unwrap_or_else(|| Checkpoint {
        pipeline: plan.name.clone(),
        fingerprint,
        job_id: new_job_id(),
        tick: 0,
        sources: BTreeMap::new(),
        evolved: BTreeMap::new(),
        view_tables: Vec::new(),
        views_from: None,
        views_until: None,
    });
    let mut base = base;
    base.fingerprint = self::fingerprint(plan);
    let mut schemas: Vec<Arc<TableSchema>> = capture.schemas().collect();
    let graph = Arc::new(bind_views(plan, first, &mut base, &schemas)?);
    schemas.extend(graph.views.iter().map(|view| view.schema.clone()));
    let flows: Vec<FlowPlan> = plan.flows.iter().filter(|f| f.source == source.name).cloned().collect();
    let read: BTreeSet<TableId> = base.view_tables.iter().map(|table| table.id.clone()).collect();
    capture.copy_where_other(Arc::new(move |changes, before, after| {
        other_rows(&flows, &read, changes, before, after)
    }));
    let tables = bind_all(plan, &schemas)?;
    if let Some(setting) = capture.partial_images()
        && let Some(missing) = whole_rows_missing(&plan.flows, &schemas, setting).into_iter().next()
    {
        return Err(Error::from(missing).into());
    }
    warn_of_keys(plan, &schemas, status);
    let mut open = inspect(sinks, plan, &base, first, waiting)?;
    let mut written = Vec::new();
    for sink in &open {
        let ours =
            tables.iter().filter(|(name, _, _)| *name == sink.name).map(|(_, mode, table)| (*mode, table));
        let mut registry = lock(&sink.registry);
        written.push(announce(&mut registry, &ours.collect::<Vec<_>>())?);
        base.evolved.insert(sink.name.clone(), registry.tables().map(|t| (**t).clone()).collect());
    }
    let upstream = Upstream { servers: capture.upstream().to_vec(), tables: config.tables.clone() };
    for (sink, written) in open.iter_mut().zip(&written) {
        let who = sink.who();
        // what the first schema change, or the first row, would stumble over
        let checks = waiting.until(&who, |_| sink.sink.preflight(written))?;
        for lack in checks.iter().filter_map(Check::diagnostic) {
            let warning = Diagnostic { severity: Severity::Warning, ..lack };
            status.notice(warning.note(who.clone()));
        }
        waiting.until(&who, |_| sink.sink.fed_by(&upstream))?;
        if sink.resumed == base.tick {
            for table in written {
                waiting.until(&who, |_| sink.sink.check(table))?;
            }
        }
    }
    if first {
        base.sources.insert(source.name.clone(), capture.state());
        dir.save(&base)?;
    } else {
        status.info(Info::GoingOn { tick: base.tick, position: capture.position().to_string() });
    }
    for (sink, written) in open.iter_mut().zip(&written) {
        waiting.until(&sink.who(), |again| {
            if again {
                sink.stand(&base, first)?;
            }
            sink.sink.claim(&sink.identity)
        })?;
        let who = sink.who();
        if sink.resumed == base.tick {
            // one that several tables flow into is made with the columns of all
            let shared: Vec<_> = lock(&sink.registry)
                .tables()
                .filter(|t| t.feeds.len() > 1)
                .filter_map(|t| t.feeds.first().map(|f| t.table(&f.table, 0)))
                .collect();
            for table in shared.iter().filter(|_| first).chain(written) {
                // later ones come by schema changes, which say it
                let is_new = base.tick == 0 && !waiting.until(&who, |_| sink.sink.has_table(&table.name))?;
                waiting.until(&who, |again| {
                    if again {
                        sink.sink.rollback();
                    }
                    sink.sink.prepare(table)
                })?;
                let made = TargetSchemaChange::CreateTable { table: table.clone() };
                let left = if is_new { sink.sink.leaves_out(&made) } else { Vec::new() };
                if !left.is_empty() {
                    let (sink, table) = (sink.name.clone(), table.name.clone());
                    status.info(Info::TableMade { sink, table, left });
                }
            }
        }
    }
    let cuts = cuts(&open, &base, &dir, &source.name)?;
    let mut refusals: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for refusal in dir.refusals()? {
        refusals.entry(refusal.change).or_default().insert(refusal.step);
    }
    if let Some((_, furthest)) = cuts.back() {
        capture.hold_chunks_until(furthest)?;
    }
    let views = if graph.views.is_empty() {
        None
    } else {
        let store = ViewStore::open(&options.state, base.tick, base.views_until)?;
        let begun = std::time::Instant::now();
        let held = store.load()?;
        let rows: usize = held.values().map(Vec::len).sum();
        if rows > 0 {
            let seconds = begun.elapsed().as_secs_f64();
            status.info(Info::ViewsLoaded { rows, seconds });
        }
        let spoken = Spoken { until: base.views_until, from: base.views_from };
        let inputs = match spoken {
            Spoken { until: Some(_), .. } => Inputs::hushed(base.tick, held, store.said()?),
            Spoken { from, .. } => Inputs::new(base.tick, held, from.is_none_or(|from| from > base.tick)),
        };
        let tables = graph.tables().map(|input| input.table.clone()).collect();
        let (inputs, voice) = (Arc::new(inputs), Arc::new(Voice::of(spoken)));
        Some(Views { inputs, store, voice, tables, notices: Arc::default() })
    };
    let back = back.clone();
    let started = Started { source, capture, base, open, cuts, dir, refusals, graph, views, back };
    Ok(flow(runtime, plan, options, status, stop, started)?)
}

/// Why the rows of a table are other ones for its flows, and for views, behind a statement, so that they must come anew.
pub(crate) fn other_rows(
    flows: &[FlowPlan],
    read_by_views: &BTreeSet<TableId>,
    changes: &[SchemaChange],
    before: &Arc<TableSchema>,
    after: &Arc<TableSchema>,
) -> Option<String> {
    let when_renamed = || {
        let of_view =
            || read_by_views.contains(&after.id).then(|| "renamed to where a view reads it".to_owned());
        other_rows_when_renamed(flows, &before.id, &after.id).or_else(of_view)
    };
    let renamed = if before.id == after.id { None } else { when_renamed() };
    renamed.or_else(|| other_rows_when_altered(flows, changes, before, after))
}

fn lock(registry: &Mutex<Registry>) -> std::sync::MutexGuard<'_, Registry> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the tables known that a sink's flows write now, and gives back what is written of each: nothing of columns that the
/// target does not have, by the mode of the flow.
pub(crate) fn announce(
    registry: &mut Registry,
    tables: &[(SchemaChangeMode, &Arc<TargetTable>)],
) -> Result<Vec<Arc<TargetTable>>> {
    registry.keep_only(|name, source| {
        tables.iter().any(|(_, table)| table.name == name && table.schema.id == *source)
    });
    for (mode, table) in tables {
        registry.announce(table, *mode)?;
    }
    tables.iter().map(|(_, table)| written(registry, table)).collect()
}

/// A flow's rows as they are written.
pub(crate) fn written(registry: &Registry, table: &Arc<TargetTable>) -> Result<Arc<TargetTable>> {
    let coercion = match registry.find(&table.name, &table.schema.id) {
        Some(evolved) => evolved.coercion(table)?,
        None => None,
    };
    Ok(coercion.map_or_else(|| table.clone(), |c| c.to().clone()))
}

struct Started<'p> {
    source: &'p SourcePlan,
    capture: Capture,
    base: Checkpoint,
    open: Vec<OpenSink>,
    cuts: VecDeque<(Tick, Position)>,
    dir: StateDir,
    /// What targets have refused since the checkpoint, by schema change.
    refusals: BTreeMap<String, BTreeSet<String>>,
    graph: Arc<Graph>,
    views: Option<Views>,
    /// Set by a committer that the last checkpoint can help, and nothing else.
    back: Arc<AtomicBool>,
}

/// Binds the views that flows read: to the tables as they were when the pipeline started first.
fn bind_views(
    plan: &Plan,
    first: bool,
    base: &mut Checkpoint,
    schemas: &[Arc<TableSchema>],
) -> Result<Graph> {
    let wanted: BTreeSet<String> = plan.flows.iter().filter_map(|f| f.view.clone()).collect();
    if wanted.is_empty() {
        return Ok(Graph::default());
    }
    if !first {
        return bind_again(&plan.views, &wanted, &base.view_tables);
    }
    let graph = bind_or_first(&plan.views, &wanted, schemas)?;
    base.view_tables = graph.schemas();
    Ok(graph)
}

/// Tables, and what the views that flows read are as tables: bound to `then`, the tables of views of a run that has begun, where there are any.
pub(crate) fn with_views(
    plan: &Plan,
    schemas: &[Arc<TableSchema>],
    then: &[Arc<TableSchema>],
) -> Result<Vec<Arc<TableSchema>>> {
    let wanted: BTreeSet<String> = plan.flows.iter().filter_map(|f| f.view.clone()).collect();
    let graph = if then.is_empty() {
        bind_or_first(&plan.views, &wanted, schemas)?
    } else {
        bind_again(&plan.views, &wanted, then)?
    };
    Ok(schemas.iter().cloned().chain(graph.views.iter().map(|view| view.schema.clone())).collect())
}

/// Dataflow, committers and driver, until they end.
fn flow(
    runtime: &tokio::runtime::Runtime,
    plan: &Plan,
    options: &RunOptions,
    status: &StatusHandle,
    stop: &Stop,
    started: Started<'_>,
) -> Result<Report> {
    let workers = options.workers.max(1);
    let plan = Arc::new(plan.clone());
    let failure = Arc::new(Failure::default());
    let counters = Arc::new(Counters::of_workers(workers));
    status.set_counters(counters.clone());
    let dir = Arc::new(Mutex::new(started.dir));
    let flows = Arc::new(plan.flows.clone());
    let mut schemas: Vec<Arc<TableSchema>> = started.capture.schemas().collect();
    schemas.extend(started.graph.views.iter().map(|view| view.schema.clone()));
    let mut committers = Vec::new();
    let mut ends: Vec<(String, cdc_core::connector::Delivery, mpsc::Sender<ToCommitter>, Arc<SinkShared>)> =
        Vec::new();
    let registries: BTreeMap<String, Arc<Mutex<Registry>>> =
        started.open.iter().map(|s| (s.name.clone(), s.registry.clone())).collect();
    for sink in started.open {
        let (to, inbox) = mpsc::channel();
        let shared = SinkShared::new(sink.resumed, failure.clone());
        ends.push((sink.name.clone(), sink.sink.delivery(), to, shared.clone()));
        let committer = Committer {
            notes_bindings: !sink.sink.holds_progress(),
            state: dir.clone(),
            registry: sink.registry.clone(),
            refusals: started.refusals.clone(),
            feeds_before: None,
            name: sink.name.clone(),
            sink: sink.sink,
            flows: flows.clone(),
            feeds: Feeds::new(&flows, &sink.name, &schemas),
            workers,
            resumed: sink.resumed,
            shared,
            status: status.clone(),
            stop: stop.clone(),
            back: started.back.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("cdc-sink-{}", sink.name))
            .spawn(move || committer.run(&inbox))
            .map_err(|e| Error::definite(codes::INTERNAL, format!("no thread for a sink: {e}")))?;
        committers.push(thread);
    }
    let (to_source, from_driver) = mpsc::channel::<Record>();
    let activator = Arc::new(Mutex::new(None::<SyncActivator>));
    let (frontier, committed) = watch::channel::<Tick>(started.base.tick);
    // what only worker 0 gets
    let source_end = Mutex::new(Some(SourceEnd {
        first: started.base.tick + 1,
        from: from_driver,
        activator: activator.clone(),
        failure: failure.clone(),
    }));
    let frontier = Mutex::new(Some(frontier));
    let source_name = started.source.name.clone();
    let by_table: BTreeSet<String> =
        started.capture.partial_images().map(|_| source_name.clone()).into_iter().collect();
    let graph = started.graph;
    let (inputs, voice, notices) = match &started.views {
        Some(views) => (views.inputs.clone(), views.voice.clone(), views.notices.clone()),
        None => Default::default(),
    };
    let has_views = started.views.is_some();
    let guards = {
        let (plan, failure, counters) = (plan.clone(), failure.clone(), counters);
        let ends = Mutex::new(ends);
        timely::execute(timely::Config::process(workers), move |worker| {
            let first = worker.index() == 0;
            let lock = |m: &Mutex<Option<SourceEnd>>| m.lock().ok().and_then(|mut s| s.take());
            let mut ports = Ports {
                sources: BTreeMap::new(),
                sinks: BTreeMap::new(),
                by_table: by_table.clone(),
                failure: failure.clone(),
                counters: counters.clone(),
                views: graph.clone(),
                inputs: inputs.clone(),
                voice: voice.clone(),
                notices: notices.clone(),
            };
            if first && let Some(end) = lock(&source_end) {
                ports.sources.insert(source_name.clone(), Box::new(end));
            }
            let index = worker.index();
            if let Ok(ends) = ends.lock() {
                for (name, delivery, to, shared) in ends.iter() {
                    let end = SinkEnd { worker: index, to: to.clone(), shared: shared.clone() };
                    ports.sinks.insert(name.clone(), (*delivery, Box::new(end)));
                }
            }
            let frontier = if first { frontier.lock().ok().and_then(|mut f| f.take()) } else { None };
            let (probe, held) = render(worker, &plan, ports);
            let mut last = 0;
            while !probe.done() {
                worker.step_or_park(Some(Duration::from_millis(100)));
                if has_views {
                    held.passed(probe.with_frontier(|f| f.first().copied()));
                }
                if let Some(frontier) = &frontier {
                    let next = probe.with_frontier(|f| f.first().copied());
                    // After a failure operators let go of what no sink has: looked at behind the frontier, since a
                    // failure is noted before anything is let go.
                    if let Some(next) = next
                        && next > last
                        && !failure.is_set()
                    {
                        last = next;
                        frontier.send_if_modified(|c| {
                            let newer = next - 1 > *c;
                            *c = (*c).max(next - 1);
                            newer
                        });
                    }
                }
            }
        })
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no workers: {e}")))?
    };
    let driver = Driver {
        is_computing: false,
        source: started.source.name.clone(),
        capture: started.capture,
        to: Some(to_source),
        activator: activator.clone(),
        failure: failure.clone(),
        permits: Arc::new(Semaphore::new(IN_FLIGHT / 1024)),
        committed,
        stop: stop.0.subscribe(),
        state: dir,
        registries,
        status: status.clone(),
        base: started.base,
        every: Duration::from_millis(plan.checkpoint.every_ms.max(100)),
        until: options.until.clone(),
        cuts: started.cuts,
        // what goes into views is held until its tick has ended
        in_order: !has_views
            && (workers == 1
                || plan.flows.iter().all(|f| f.key.is_none() && f.key_conflict == KeyConflict::Refuse)),
        flows,
        views: started.views,
        warned: schemas.iter().filter(|s| s.key().is_none()).map(|s| s.id.clone()).collect(),
    };
    let watched = failure.clone();
    let result = runtime.block_on(async {
        let failed = async {
            while !watched.is_set() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // spawned, so that it runs on the pool and ends even when this future is dropped
        let mut task = tokio::spawn(driver.run());
        tokio::select! {
            result = &mut task => result.unwrap_or_else(|e| Err(Error::definite(codes::INTERNAL, format!("the source driver failed: {e}")))),
            () = failed => {
                task.abort();
                let _ = task.await;
                Ok(Ended::Stopped)
            }
        }
    });
    if let Err(error) = &result {
        // committers must not commit what is still under way behind an error of the source: what is complete is
        // right, but the run is over
        failure.set(error.clone());
    }
    // A driver that was aborted has not told the source that it is over, and on a quiet server nothing else would
    // have it look: the workers would never end.
    if let Some(activator) = &*activator.lock().unwrap_or_else(PoisonError::into_inner) {
        // a worker that has ended need not be woken
        let _ = activator.activate();
    }
    for ended in guards.join() {
        if let Err(error) = ended {
            failure.set(Error::definite(codes::WORKER_PANIC, format!("a worker failed: {error}")));
        }
    }
    let mut summaries = Vec::new();
    for committer in committers {
        match committer.join() {
            Ok(lines) => summaries.extend(lines),
            Err(_) => failure.set(Error::definite(codes::WORKER_PANIC, "a committer failed")),
        }
    }
    if let Some(error) = failure.get() {
        return Err(error);
    }
    Ok(report(result?, status, summaries))
}

pub(crate) fn only_source(plan: &Plan) -> Result<&SourcePlan> {
    let used: Vec<&SourcePlan> =
        plan.sources.iter().filter(|s| plan.flows.iter().any(|f| f.source == s.name)).collect();
    match used[..] {
        [source] => Ok(source),
        [] => Err(Error::definite(codes::NO_FLOW, "no flow reads a source")),
        _ => Err(Error::definite(codes::FEATURE_NOT_YET, "a pipeline with several sources is not built yet")
            .help("write a pipeline file for each source")),
    }
}

/// Until now no two rows of a flow have agreed in its key, so what is to happen to such rows may be chosen yet.
const NO_CONFLICTS: &str = "error";

/// What a state folder belongs to: which tables are read, and how rows get to targets.
fn fingerprint(plan: &Plan) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for source in &plan.sources {
        out.insert(
            format!("source {}: tables", source.name),
            format!("{:?}", source.options.list("tables").unwrap_or_default()),
        );
        // keep and error show the same tables: a run goes on from one to the other
        let dates = source.options.text("zero_dates").and_then(ZeroDates::parse).unwrap_or_default();
        if dates.changes_schemas() {
            out.insert(format!("source {}: zero_dates", source.name), dates.to_string());
        }
    }
    for flow in &plan.flows {
        out.insert(
            format!("flow {}", flow.name),
            format!("{:?}", (&flow.source, &flow.tables, &flow.sink, &flow.target, &flow.key)),
        );
        if let Some(column) = &flow.soft_delete {
            out.insert(format!("flow {}: soft_delete", flow.name), column.clone());
        }
        // what a key that is not watched has come to, no one that is watched can go on from, nor the other way round
        if flow.upsert == plan::view::Upsert::None && flow.may_be_watched() {
            out.insert(format!("flow {}: upsert", flow.name), "none".to_owned());
        }
        // the target's tables have a column more
        if flow.key_conflict == KeyConflict::Error {
            out.insert(format!("flow {}: key_conflict", flow.name), "error".to_owned());
        }
        // which row of a key the target holds
        if flow.may_be_watched() {
            let by = match (&flow.on_conflict, flow.on_conflict.by()) {
                (_, Some(by)) => format!("last by {}", by.name),
                (OnConflict::Error, None) => NO_CONFLICTS.to_owned(),
                (_, None) => "last".to_owned(),
            };
            out.insert(format!("flow {}: on_conflict", flow.name), by);
        }
        // the operators as `explain` prints them: without places, and without secrets
        let alone = Plan {
            sources: Vec::new(),
            sinks: Vec::new(),
            views: Vec::new(),
            tests: Vec::new(),
            flows: vec![flow.clone()],
            ..plan.clone()
        };
        let text = cdc_core::plan::explain::to_text(&alone);
        let operators: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|l| l.starts_with("filter[") || l.starts_with("map["))
            .collect();
        if let Some(view) = &flow.view {
            // what it reads, all the way: another view would say other rows of the same tables
            // but what flows of it do about conflicts, which each of them has for itself
            let without = |view: &ViewPlan| ViewPlan { on_conflict: OnConflict::default(), ..view.clone() };
            let views = plan::view::read_by(&plan.views, view).into_iter().map(without).collect();
            let text = cdc_core::plan::explain::to_text(&Plan { views, flows: Vec::new(), ..alone.clone() });
            let lines: Vec<&str> =
                text.lines().map(str::trim).filter(|l| l.contains('[') || l.starts_with("view ")).collect();
            out.insert(format!("flow {}: view", flow.name), lines.join(" "));
        }
        if !operators.is_empty() {
            out.insert(format!("flow {}: operators", flow.name), operators.join(" "));
        }
    }
    out
}

/// Is it this pipeline's?
pub(crate) fn check_pipeline(checkpoint: &Checkpoint, plan: &Plan) -> Result<()> {
    if checkpoint.pipeline != plan.name {
        return Err(Error::definite(
            codes::STATE_FOREIGN,
            format!(
                "the state folder belongs to pipeline \"{}\", this is \"{}\"",
                checkpoint.pipeline, plan.name
            ),
        )
        .help("give each pipeline a state folder of its own: checkpoint = { dir = \"..\" } or --state"));
    }
    Ok(())
}

/// The text of views, as a fingerprint has it, without what they say of conflicts.
fn without_policies(text: &str) -> String {
    const BEGIN: &str = " with { on_conflict = ";
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once(BEGIN) {
        let end = if behind.starts_with('{') { " } }" } else { " }" };
        let Some((_, behind)) = behind.split_once(end) else { break };
        out.push_str(before);
        rest = behind;
    }
    out + rest
}

/// Can a pipeline go on from a checkpoint? Tables and flows may come and go; a flow that stays must be the same, and a
/// new one must not want the rows of a table that others have been following: these have gone by.
fn check_fingerprint(checkpoint: &Checkpoint, plan: &Plan, now: &BTreeMap<String, String>) -> Result<()> {
    check_pipeline(checkpoint, plan)?;
    let before = &checkpoint.fingerprint;
    let is_flow = |key: &str| key.starts_with("flow ");
    const ON_CONFLICT: &str = ": on_conflict";
    const PARTS: [&str; 6] =
        [": operators", ": soft_delete", ": key_conflict", ": view", ": upsert", ON_CONFLICT];
    let flow_of = |key: &str| PARTS.iter().find_map(|part| key.strip_suffix(part)).unwrap_or(key).to_owned();
    let mut differences: Vec<String> = Vec::new();
    for (key, value) in now.iter().filter(|(key, _)| is_flow(key)) {
        let old = before.get(key);
        if key.ends_with(ON_CONFLICT) && (old.is_none_or(|old| old == NO_CONFLICTS) || value == NO_CONFLICTS)
        {
            continue;
        }
        // names of columns are the same in any case of letters, and views had their policies in their texts once
        let same = |old: &String| match key {
            key if key.ends_with(ON_CONFLICT) => same_name(old, value),
            key if key.ends_with(": view") => without_policies(old) == *value,
            _ => old == value,
        };
        if before.contains_key(&flow_of(key)) && !old.is_some_and(same) {
            differences.push(format!("changed: {}", flow_of(key)));
        }
    }
    for key in before.keys().filter(|key| PARTS.iter().any(|part| key.ends_with(part))) {
        if now.contains_key(&flow_of(key)) && !now.contains_key(key) {
            differences.push(format!("changed: {}", flow_of(key)));
        }
    }
    // under another word the tables at the target are other ones
    for key in before.keys().chain(now.keys()).filter(|key| key.ends_with(": zero_dates")) {
        if before.get(key) != now.get(key) {
            differences.push(format!("changed: {key}"));
        }
    }
    for flow in plan.flows.iter().filter(|f| !before.contains_key(&format!("flow {}", f.name))) {
        // a view says all that it holds once, when its tables are whole
        if let Some(view) = &flow.view {
            differences
                .push(format!("flow \"{}\" is new, and a view begins with a copy of its tables: those of \"{view}\" have been copied", flow.name));
        }
        let followed = checkpoint.sources.get(&flow.source);
        let old = followed.into_iter().flat_map(|state| state.structures.tables());
        for table in old.filter(|t| flow.takes(&t.id)) {
            differences.push(format!(
                "flow \"{}\" is new, and table \"{}\" was copied before it was there",
                flow.name, table.id
            ));
        }
    }
    differences.dedup();
    if differences.is_empty() {
        return Ok(());
    }
    let mut error = Error::definite(
        codes::PIPELINE_CHANGED,
        "the pipeline changed in a way that cannot go on from its state",
    );
    for difference in differences {
        error = error.note(difference);
    }
    Err(error
        .note("new tables with flows of their own may come, tables and flows may go")
        .help("undo the change, or copy anew: remove the state folder and the target's tables and progress"))
}

/// Rows that take each other's place are found by asking the target, which a feed cannot be.
fn tells_owners(plan: &Plan, sinks: &[(String, Box<dyn Sink>)]) -> Result<()> {
    let feeds = |name: &str| sinks.iter().any(|(n, sink)| n == name && !sink.holds_progress());
    let Some(flow) = plan.flows.iter().find(|f| f.key_conflict == KeyConflict::Error && feeds(&f.sink))
    else {
        return Ok(());
    };
    Err(Error::definite(
        codes::OPTION_VALUE,
        format!("flow \"{}\": key_conflict = error, and sink \"{}\" cannot say which rows it holds", flow.name, flow.sink),
    )
    .help("write to sqlite, mysql or postgres; or let the key tell the tables apart: extend meta.table as shard => .. key (shard, id)"))
}

/// A name for the job that nobody else has: ties targets to the state folder.
fn new_job_id() -> String {
    use std::hash::{BuildHasher, Hasher};
    let word = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", word(), word())
}

/// Who writes a target table.
struct Owner {
    /// The flow, by its place.
    flow: usize,
    /// A table that flows into it.
    table: TableId,
    /// What tells each of these tables in the key.
    told: BTreeSet<Vec<Row>>,
}

/// What flows make of every table now, with the sink and the flow's mode: checks on the way that no two source tables meet by
/// accident.
pub(crate) fn bind_all(
    plan: &Plan,
    schemas: &[Arc<TableSchema>],
) -> Result<Vec<(String, SchemaChangeMode, Arc<TargetTable>)>> {
    let mut tables = Vec::new();
    // by sink and target table
    let mut owners: BTreeMap<(String, String), Owner> = BTreeMap::new();
    for (index, flow) in plan.flows.iter().enumerate() {
        for schema in schemas.iter().filter(|s| flow.takes(&s.id)) {
            let bound = BoundFlow::bind(flow, schema).map_err(|mut diagnostics| {
                diagnostics.truncate(1);
                diagnostics.pop().map_or_else(
                    || Error::definite(codes::INTERNAL, "a flow was refused without a reason"),
                    |d| Error::from(d).note(format!("flow \"{}\", table \"{}\"", flow.name, schema.id)),
                )
            })?;
            let target = bound.target();
            tables.push((flow.sink.clone(), flow.on_schema_change, target.clone()));
            let owner = owners.entry((flow.sink.clone(), target.name.clone()));
            match owner {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    let told = BTreeSet::from([bound.key_constants()]);
                    entry.insert(Owner { flow: index, table: schema.id.clone(), told });
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    let Owner { flow: other, table: id, told } = entry.get_mut();
                    let may_meet = index == *other
                        && (told.insert(bound.key_constants()) || flow.key_conflict != KeyConflict::Refuse);
                    if !may_meet {
                        let error = collision(id, &schema.id, &target.name);
                        return Err(error.note(format!("flow \"{}\"", flow.name)));
                    }
                }
            }
        }
    }
    check_shares(plan, schemas)?;
    Ok(tables)
}

/// The copy of a table without a key begins by deleting its rows at the target: they must be known from those of other
/// tables there.
fn check_shares(plan: &Plan, schemas: &[Arc<TableSchema>]) -> Result<()> {
    for sink in &plan.sinks {
        let feeds = Feeds::new(&plan.flows, &sink.name, schemas);
        for flow in plan.flows.iter().filter(|f| f.sink == sink.name) {
            for schema in schemas.iter().filter(|s| s.key().is_none() && flow.takes(&s.id)) {
                let Ok(bound) = BoundFlow::bind(flow, schema) else { continue };
                let (target, table) = (bound.target(), schema.id.clone());
                let share = feeds.share(&target.name, &table);
                let copy = SchemaChange::ResnapshotTable { table, reason: "it has no key".into() };
                derive(&Question {
                    flow,
                    changes: &[copy],
                    before: Some(&bound),
                    after: Some(&bound),
                    share: &share,
                    evolved: None,
                    taken: None,
                    gone: None,
                    refused: &BTreeSet::new(),
                })
                .map_err(|e| e.note(format!("flow \"{}\"", flow.name)))?;
            }
        }
    }
    Ok(())
}

/// A table without a key is copied as a multiset, which has its price.
///
/// A stated key that does not hold the source's key may name several rows: then the last one written stays, and a
/// delete of one deletes it. The user may know better, so it is told and done.
fn warn_of_keys(plan: &Plan, schemas: &[Arc<TableSchema>], status: &StatusHandle) {
    multiset_warnings(&plan.flows, schemas).into_iter().for_each(|warning| status.notice(warning));
    for flow in plan.flows.iter().filter(|f| f.key.is_some()) {
        for schema in schemas.iter().filter(|s| flow.takes(&s.id)) {
            let Ok(bound) = BoundFlow::bind(flow, schema) else { continue };
            let stated: Vec<usize> =
                bound.target().key.iter().filter_map(|&i| bound.passthrough()[i]).collect();
            if schema.key().is_some_and(|key| !key.iter().all(|c| stated.contains(c))) {
                status.notice(
                    cdc_core::Diagnostic::warning(
                        codes::KEY_CONFLICT,
                        format!("the key of flow \"{}\" does not hold the key of table \"{}\"", flow.name, schema.id),
                    )
                    .note("rows of the source that agree in the stated key become one row at the target")
                    .help("add the source's key columns to key (..), unless the stated ones are unique at the source"),
                );
            }
        }
    }
}

/// How long a target that is asked in the start still has for its answer when the run is told to stop.
const GRACE: Duration = Duration::from_millis(250);

/// The first pause before something is tried again at the start, or the run goes back.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(250);

/// And the longest.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Who is told of a source or target that is waited for, who may end it, and for how long it goes on: without end if there is no limit.
struct Waiting<'a> {
    status: &'a StatusHandle,
    stop: &'a Stop,
    patience: Option<Duration>,
    /// Set while the other side is waited for.
    asking: &'a AtomicBool,
}

impl Waiting<'_> {
    /// Does what needs the other side, which may be away: again after a while, and that is told. `act` is told whether it is done
    /// again. What is wrong for good (an account, a name) is an error at once.
    fn until<T>(&self, who: &str, mut act: impl FnMut(bool) -> Result<T>) -> Result<T, Halt> {
        let mut wait = FIRST_WAIT;
        let mut begun = None;
        loop {
            // nothing is begun any more, and who is away has been told of
            if self.stop.is_told() {
                return Err(Halt::Stopped);
            }
            self.asking.store(true, Ordering::SeqCst);
            let answer = act(begun.is_some());
            self.asking.store(false, Ordering::SeqCst);
            let error = match answer {
                Err(error) if error.is_transient() => error,
                answer => return Ok(answer?),
            };
            if self.stop.is_told() {
                continue;
            }
            let begun = *begun.get_or_insert_with(Instant::now);
            if let Some(patience) = self.patience
                && begun.elapsed() + wait > patience
            {
                let error = error.note(match patience.is_zero() {
                    true => who.to_owned(),
                    false => format!("{who}: it was tried for {patience:?}"),
                });
                return Err(Halt::Failed(error));
            }
            let warning = Diagnostic { severity: Severity::Warning, ..error.diagnostic().clone() };
            self.status.notice(warning.note(format!("{who}: trying again in {wait:?}")));
            sleep(wait, self.stop);
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// Ctrl-C is not to wait.
fn sleep(wait: Duration, stop: &Stop) {
    let until = Instant::now() + wait;
    while Instant::now() < until && !stop.is_told() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl OpenSink {
    fn who(&self) -> String {
        format!("sink \"{}\"", self.name)
    }

    /// Asks the target where it stands, and whether that belongs to our state.
    fn stand(&mut self, base: &Checkpoint, first: bool) -> Result<()> {
        let foreign = |what: &str| {
            Error::definite(codes::TARGET_PROGRESS, format!("sink \"{}\": {what}", self.name)).help(
                "use the state folder that belongs to the target; to copy anew: remove the state folder and the target's tables and progress",
            )
        };
        (self.resumed, self.binding) = match self.sink.inspect(&self.identity)? {
            // (our own name is there if a claim was made whose answer was lost)
            Some(resume) if first && resume.job_id != base.job_id => {
                return Err(foreign(
                    "the target holds progress of this pipeline, and there is no state to go on from",
                ));
            }
            Some(resume) if resume.job_id != base.job_id => {
                return Err(foreign(
                    "the target holds progress of another run of this pipeline, with another state folder",
                ));
            }
            Some(resume) if resume.tick < base.tick => {
                return Err(foreign(&format!(
                    "the target stands at tick {}, behind the state's tick {}: it was set back",
                    resume.tick, base.tick
                )));
            }
            Some(resume) => (resume.tick, Some(resume.binding)),
            None if self.sink.holds_progress() && !first && base.tick > 0 => {
                return Err(foreign("the target has lost its progress, or is another one than before"));
            }
            None => (base.tick, None),
        };
        Ok(())
    }
}

/// Asks every target where it stands.
fn inspect(
    sinks: Vec<(String, Box<dyn Sink>)>,
    plan: &Plan,
    base: &Checkpoint,
    first: bool,
    waiting: &Waiting<'_>,
) -> Result<Vec<OpenSink>, Halt> {
    let mut open = Vec::new();
    for (name, sink) in sinks {
        let identity = JobIdentity {
            pipeline: plan.name.clone(),
            sink: name.clone(),
            job_id: base.job_id.clone(),
            run: this_run(),
        };
        let evolved = base.evolved.get(&name).cloned().unwrap_or_default();
        let registry = Arc::new(Mutex::new(Registry::new(evolved)));
        let mut sink = OpenSink { name, registry, sink, identity, resumed: base.tick, binding: None };
        waiting.until(&sink.who(), |_| sink.stand(base, first))?;
        open.push(sink);
    }
    Ok(open)
}

/// The ticks that targets have beyond the checkpoint, and where they end, ascending.
fn cuts(
    open: &[OpenSink],
    base: &Checkpoint,
    dir: &StateDir,
    source: &str,
) -> Result<VecDeque<(Tick, Position)>> {
    let held = open.iter().filter_map(|sink| Some((sink.resumed, sink.binding.clone()?)));
    // what sinks without progress of their own have been given, they are given under the same ticks again
    let beyond = held.chain(dir.bindings()?).filter(|(tick, _)| *tick > base.tick);
    let cuts: BTreeMap<Tick, Position> =
        beyond.filter_map(|(tick, binding)| Some((tick, binding.positions.get(source)?.clone()))).collect();
    Ok(cuts.into_iter().collect())
}
