//! `cdc test`: the tests of a pipeline, run without a server.
//!
//! What is played is the source (`source`) and what is behind a sink (`target`); everything in between is what a run uses: the
//! dataflow of `render`, a committer with its registry per sink, schema changes as the parser of DDL and the derivator make them.
//! Each test has all of it for itself, and an empty source. Each step of a test is a tick, and views speak from the first one.
//!
//! A step is over when its ticks are committed at every sink: the committer's word, as in a run. So what goes wrong is told at the step that
//! led to it.

mod compare;
mod rows;
mod source;
mod target;
#[cfg(test)]
mod tests;
mod values;

use crate::job::{Stop, announce, bind_all, only_source};
use crate::sink_driver::{Committer, Feeds, Port as SinkEnd, SinkShared};
use crate::source_driver::Port as SourceEnd;
use crate::state::{StateDir, this_run};
use crate::status::StatusHandle;
use cdc_core::connector::{JobIdentity, Sink};
use cdc_core::diagnostic::{Diagnostic, Span};
use cdc_core::expr::eval::nearest;
use cdc_core::plan::pattern::{NamePattern, TablePattern, TableSet};
use cdc_core::plan::test::{TestPlan, TestStep, TestStepKind, TestTarget};
use cdc_core::plan::view::bind::bind_or_first;
use cdc_core::plan::{FlowPlan, Options, Plan, SchemaChangeMode, SinkPlan, TargetName};
use cdc_core::position::Binding;
use cdc_core::schema::TableSchema;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, ZeroDates, codes};
use cdc_materialize::inputs::Inputs;
use cdc_materialize::record::Record;
use cdc_materialize::render::{Counters, Failure, Ports, render};
use cdc_materialize::voice::{Spoken, Voice};
use cdc_schema::registry::Registry;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use target::{Shown, Table, Target};
use timely::scheduling::SyncActivator;
use values::placed;

pub use compare::{Differences, Different};

/// How long a step may take to come through; the machine may be a busy one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at whether the dataflow has failed.
const GLANCE: Duration = Duration::from_millis(20);

/// The sink of the views that a test looks at; no pipeline can name one so.
const VIEWS: &str = "";

/// Why a test has failed.
#[derive(Debug, Clone)]
pub struct Failed {
    /// What is wrong, at its place in the pipeline file.
    pub diagnostic: Diagnostic,
    /// The rows that are not as expected, where it is that.
    pub differences: Option<Differences>,
}

impl From<Diagnostic> for Failed {
    fn from(diagnostic: Diagnostic) -> Failed {
        Failed { diagnostic, differences: None }
    }
}

/// The source's name, and which tables it captures.
///
/// # Errors
/// `FEATURE_NOT_YET`: dates of a source that are changed on their way are not played.
fn captured(plan: &Plan) -> Result<(String, TableSet)> {
    let source = only_source(plan)?;
    let dates = source.options.text("zero_dates").and_then(ZeroDates::parse).unwrap_or_default();
    if dates.changes_schemas() {
        let headline = format!("tests of a source with zero_dates = {dates} are not built yet");
        return Err(Error::from(
            Diagnostic::error(codes::FEATURE_NOT_YET, headline).at(source.span.clone(), ""),
        ));
    }
    let tables = source.options.list("tables").unwrap_or_default();
    let tables =
        TableSet::parse(tables).map_err(|(_, why)| Error::definite(codes::MALFORMED_PATTERN, why))?;
    Ok((source.name.clone(), tables))
}

/// Runs a test: `tables` are those of the source's schema text.
///
/// # Errors
/// What the test has found: an expectation that is not met, a step that cannot be made, an error of the pipeline.
pub fn rehearse(plan: &Plan, test: &TestPlan, tables: &[TableSchema]) -> Result<(), Box<Failed>> {
    let at_test = |error: Error| Box::new(Failed::from(placed(error.diagnostic().clone(), &test.span)));
    let (name, captured) = captured(plan).map_err(at_test)?;
    let plan = Arc::new(with_views(plan, test, &name));
    let mut source = Source::new(&name, captured, tables, plan.flows.clone());
    let stage = Stage::set(&plan, &mut source).map_err(at_test)?;
    let mut result = Ok(());
    for step in &test.steps {
        if let Err(failed) = stage.step(step, &mut source) {
            result = Err(Box::new(failed));
            break;
        }
    }
    let ended = stage.end().map_err(at_test);
    result.and(ended)
}

/// A plan whose sinks are those that are written to, with one more for the views that a test looks at.
fn with_views(plan: &Plan, test: &TestPlan, source: &str) -> Plan {
    let mut plan = plan.clone();
    let views: BTreeMap<&str, &Span> = test
        .steps
        .iter()
        .filter_map(|step| match &step.kind {
            TestStepKind::ExpectRows { target: TestTarget::View { name, span }, .. }
            | TestStepKind::ExpectColumns { target: TestTarget::View { name, span }, .. } => {
                Some((name.as_str(), span))
            }
            _ => None,
        })
        .collect();
    for (name, span) in &views {
        plan.flows.push(FlowPlan {
            name: format!("view {name}"),
            source: source.to_owned(),
            tables: TablePattern { database: None, table: NamePattern::exact(*name) },
            view: Some((*name).to_owned()),
            ops: Vec::new(),
            sink: VIEWS.to_owned(),
            target: TargetName::Fixed((*name).to_owned()),
            // whatever a view holds can be looked at, rows with NULL in its key too
            key: Some(Vec::new()),
            on_schema_change: SchemaChangeMode::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            backfill: true,
            soft_delete: None,
            key_conflict: cdc_core::plan::KeyConflict::Refuse,
            upsert: cdc_core::plan::view::Upsert::None,
            on_conflict: Default::default(),
            span: (*span).clone(),
        });
    }
    if !views.is_empty() {
        plan.sinks.push(SinkPlan {
            name: VIEWS.to_owned(),
            connector: "memory".to_owned(),
            options: Options::default(),
            span: 0..0,
        });
    }
    let is_written = |name: &str| plan.flows.iter().any(|flow| flow.sink == name);
    let sinks = plan.sinks.iter().filter(|sink| is_written(&sink.name)).cloned().collect();
    plan.sinks = sinks;
    plan
}

/// A run that waits for what the source gives.
struct Stage {
    to_source: mpsc::Sender<Record>,
    activator: Arc<Mutex<Option<SyncActivator>>>,
    failure: Arc<Failure>,
    workers: timely::communication::WorkerGuards<()>,
    committers: Vec<std::thread::JoinHandle<Vec<String>>>,
    /// By sink.
    shown: BTreeMap<String, Arc<Shown>>,
    /// The key of each view that has one.
    keys: BTreeMap<String, Vec<Arc<str>>>,
    _state: tempfile::TempDir,
}

impl Stage {
    /// The order of a first start: tables are bound, targets claimed and made ready, then the dataflow stands.
    fn set(plan: &Arc<Plan>, source: &mut Source) -> Result<Stage> {
        let folder = tempfile::tempdir()
            .map_err(|e| Error::definite(codes::STATE_UNREADABLE, format!("no temporary folder: {e}")))?;
        let state = Arc::new(Mutex::new(StateDir::open(folder.path())?));
        let mut schemas: Vec<Arc<TableSchema>> = source.schemas().cloned().collect();
        let wanted: BTreeSet<String> = plan.flows.iter().filter_map(|f| f.view.clone()).collect();
        let graph = Arc::new(bind_or_first(&plan.views, &wanted, &schemas)?);
        source.read_by_views(graph.tables().map(|input| input.table.clone()).collect());
        schemas.extend(graph.views.iter().map(|view| view.schema.clone()));
        let key_of = |schema: &TableSchema| -> Vec<Arc<str>> {
            schema.primary_key.iter().filter_map(|&i| schema.columns.get(i)).map(|c| c.name.clone()).collect()
        };
        let keys = graph.views.iter().map(|view| (view.name.clone(), key_of(&view.schema))).collect();
        let tables = bind_all(plan, &schemas)?;
        let failure = Arc::new(Failure::default());
        let flows = Arc::new(plan.flows.clone());
        // what is told of a run is of no interest here, its errors are
        let (status, _) = StatusHandle::new();
        let (mut committers, mut ends, mut shown) = (Vec::new(), Vec::new(), BTreeMap::new());
        for sink_plan in &plan.sinks {
            let (mut sink, shows) = Target::new();
            shown.insert(sink_plan.name.clone(), shows);
            let ours: Vec<_> = tables
                .iter()
                .filter(|(name, _, _)| *name == sink_plan.name)
                .map(|(_, mode, table)| (*mode, table))
                .collect();
            let mut registry = Registry::default();
            let written = announce(&mut registry, &ours)?;
            sink.claim(&JobIdentity {
                pipeline: plan.name.clone(),
                sink: sink_plan.name.clone(),
                job_id: "test".to_owned(),
                run: this_run(),
            })?;
            let shared_tables: Vec<_> = registry
                .tables()
                .filter(|t| t.feeds.len() > 1)
                .filter_map(|t| t.feeds.first().map(|f| t.table(&f.table, 0)))
                .collect();
            for table in shared_tables.iter().chain(&written) {
                sink.prepare(table)?;
            }
            // there are tables to look at in front of the first step
            sink.commit(0, &Binding::default())?;
            let (to, inbox) = mpsc::channel();
            let shared = SinkShared::new(0, failure.clone());
            ends.push((sink_plan.name.clone(), sink.delivery(), to, shared.clone()));
            let committer = Committer {
                back: Arc::default(),
                notes_bindings: !sink.holds_progress(),
                state: state.clone(),
                registry: Arc::new(Mutex::new(registry)),
                refusals: BTreeMap::new(),
                feeds_before: None,
                name: sink_plan.name.clone(),
                sink: Box::new(sink),
                flows: flows.clone(),
                feeds: Feeds::new(&flows, &sink_plan.name, &schemas),
                workers: 1,
                resumed: 0,
                shared,
                status: status.clone(),
                stop: Stop::default(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("cdc-sink-{}", sink_plan.name))
                .spawn(move || committer.run(&inbox))
                .map_err(|e| Error::definite(codes::INTERNAL, format!("no thread for a sink: {e}")))?;
            committers.push(thread);
        }
        let (to_source, from_driver) = mpsc::channel::<Record>();
        let activator = Arc::new(Mutex::new(None::<SyncActivator>));
        let source_end = Mutex::new(
            plan.sources.iter().find(|s| plan.flows.iter().any(|f| f.source == s.name)).map(|s| {
                let end = SourceEnd {
                    first: 1,
                    from: from_driver,
                    activator: activator.clone(),
                    failure: failure.clone(),
                };
                (s.name.clone(), end)
            }),
        );
        let workers = {
            let (plan, failure, ends) = (plan.clone(), failure.clone(), Mutex::new(ends));
            timely::execute(timely::Config::process(1), move |worker| {
                let take =
                    |m: &Mutex<Option<(String, SourceEnd)>>| m.lock().ok().and_then(|mut end| end.take());
                let mut ports = Ports {
                    sources: BTreeMap::new(),
                    sinks: BTreeMap::new(),
                    by_table: BTreeSet::new(),
                    failure: failure.clone(),
                    counters: Arc::new(Counters::of_workers(1)),
                    views: graph.clone(),
                    inputs: Arc::new(Inputs::default()),
                    voice: Arc::new(Voice::of(Spoken { until: None, from: Some(1) })),
                    notices: Arc::default(),
                };
                if let Some((name, end)) = take(&source_end) {
                    ports.sources.insert(name, Box::new(end));
                }
                if let Ok(mut ends) = ends.lock() {
                    for (name, delivery, to, shared) in ends.drain(..) {
                        ports.sinks.insert(name, (delivery, Box::new(SinkEnd { worker: 0, to, shared })));
                    }
                }
                let (probe, held) = render(worker, &plan, ports);
                while !probe.done() {
                    worker.step_or_park(Some(Duration::from_millis(100)));
                    held.passed(probe.with_frontier(|f| f.first().copied()));
                }
            })
            .map_err(|e| Error::definite(codes::INTERNAL, format!("no workers: {e}")))?
        };
        Ok(Stage { to_source, activator, failure, workers, committers, shown, keys, _state: folder })
    }

    fn step(&self, step: &TestStep, source: &mut Source) -> Result<(), Failed> {
        match &step.kind {
            TestStepKind::Given(changes) | TestStepKind::When(changes) => {
                self.send(source.transaction(changes)?);
                // what it leads to is told at its place
                self.through(source.tick(), &step.span)?;
            }
            TestStepKind::Ddl(statement) => {
                self.send(source.statement(statement, &step.span)?);
                self.through(source.tick(), &step.span)?;
            }
            TestStepKind::ExpectRows { target, rows } => {
                let (name, table) = self.look(target, source.tick(), &step.span)?;
                if let Some(differences) = compare::rows(&name, &table, rows)? {
                    return Err(Failed {
                        diagnostic: Diagnostic::error(
                            codes::TEST_FAILED,
                            format!("\"{name}\" is not what is expected"),
                        )
                        .at(place_of(target).clone(), summary(&differences)),
                        differences: Some(differences),
                    });
                }
            }
            TestStepKind::ExpectColumns { target, columns } => {
                let (name, table) = self.look(target, source.tick(), &step.span)?;
                compare::columns(&name, &table, columns, place_of(target))?;
            }
        }
        Ok(())
    }

    fn send(&self, records: Vec<Record>) {
        for record in records {
            // a dataflow that has ended has noted why
            let _ = self.to_source.send(record);
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(activator) = &*self.activator.lock().unwrap_or_else(PoisonError::into_inner) {
            // a worker that has ended need not be woken
            let _ = activator.activate();
        }
    }

    /// The tables of a sink, once a tick is committed there.
    fn at(&self, shown: &Shown, tick: Tick, span: &Span) -> Result<BTreeMap<String, Table>, Diagnostic> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(error) = self.failure.get() {
                return Err(placed(error.diagnostic().clone(), span));
            }
            if let Some(tables) = shown.at(tick, GLANCE) {
                return Ok(tables);
            }
            if Instant::now() > deadline {
                let headline = format!("a step is not through after {} s", PATIENCE.as_secs());
                return Err(Diagnostic::error(codes::TEST_STEP, headline).at(span.clone(), ""));
            }
        }
    }

    /// Waits until every sink has committed a tick.
    fn through(&self, tick: Tick, span: &Span) -> Result<(), Diagnostic> {
        self.shown.values().try_for_each(|shown| self.at(shown, tick, span).map(drop))
    }

    /// The table that is looked at.
    fn look(&self, target: &TestTarget, tick: Tick, span: &Span) -> Result<(String, Table), Diagnostic> {
        let (sink, table, name) = match target {
            TestTarget::Table { sink, table, .. } => (sink.as_str(), table, format!("{sink}.{table}")),
            TestTarget::View { name, .. } => (VIEWS, name, name.clone()),
        };
        let tables = match self.shown.get(sink) {
            Some(shown) => self.at(shown, tick, span)?,
            None => BTreeMap::new(),
        };
        if let Some(found) = tables.get(table) {
            let mut found = found.clone();
            if let TestTarget::View { name, .. } = target {
                // a row that differs is shown beside the one of its key
                found.key = self.keys.get(name).cloned().unwrap_or_default();
            }
            return Ok((name, found));
        }
        let d = Diagnostic::error(codes::UNKNOWN_TABLE, format!("unknown table \"{name}\""))
            .at(place_of(target).clone(), "the target does not have it now");
        let names: Vec<&str> = tables.keys().map(String::as_str).collect();
        Err(match nearest(table, names.iter().copied()) {
            Some(near) => d.help(format!("did you mean {sink}.{near}?")),
            None if names.is_empty() => d.help(format!("nothing flows into \"{sink}\"")),
            None => d.help(format!("there is {}", names.join(", "))),
        })
    }

    /// The source is at its end: everything ends behind it.
    fn end(self) -> Result<()> {
        let Stage { to_source, activator, failure, workers, committers, .. } = self;
        drop(to_source);
        if let Some(activator) = &*activator.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = activator.activate();
        }
        for ended in workers.join() {
            if let Err(error) = ended {
                failure.set(Error::definite(codes::WORKER_PANIC, format!("a worker failed: {error}")));
            }
        }
        for committer in committers {
            if committer.join().is_err() {
                failure.set(Error::definite(codes::WORKER_PANIC, "a committer failed"));
            }
        }
        failure.get().map_or(Ok(()), Err)
    }
}

fn place_of(target: &TestTarget) -> &Span {
    match target {
        TestTarget::Table { span, .. } | TestTarget::View { span, .. } => span,
    }
}

/// `1 row differs, 2 are missing`.
fn summary(differences: &Differences) -> String {
    let of = |is: &dyn Fn(&Different) -> bool| differences.rows.iter().filter(|row| is(row)).count();
    let differ = of(&|row| row.expected.is_some() && row.actual.is_some());
    let missing = of(&|row| row.actual.is_none());
    let extra = of(&|row| row.expected.is_none());
    let rows = |number: usize| if number == 1 { "1 row".to_owned() } else { format!("{number} rows") };
    let parts = [(differ, "differing"), (missing, "missing"), (extra, "too many")];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| format!("{} {word}", rows(*number)))
        .collect();
    parts.join(", ")
}
