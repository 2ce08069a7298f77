//! A plan as a dataflow.

mod flow;
mod sink;
mod source;
mod view;

pub use sink::{SinkBatch, SinkPort};
pub use source::SourcePort;
pub use view::{Held, copied_by};

use crate::inputs::Inputs;
use crate::metrics::Operators;
use crate::record::{Record, Routed};
use crate::voice::Voice;
use cdc_core::Error;
use cdc_core::connector::Delivery;
use cdc_core::diagnostic::Diagnostic;
use cdc_core::plan::view::bind::Graph;
use cdc_core::plan::{FlowPlan, Plan};
use cdc_core::tick::Tick;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use timely::dataflow::operators::{Concatenate, Probe};
use timely::dataflow::{ProbeHandle, Scope, Stream};
use timely::worker::Worker;

/// The first error of any operator. An operator that fails notes it here before it returns, that is, before
/// anybody can see that its input frontier has passed; committers look here before each commit. So nothing that an
/// error should have stopped is ever committed.
#[derive(Debug, Default)]
pub struct Failure {
    error: Mutex<Option<Error>>,
    failed: std::sync::atomic::AtomicBool,
}

impl Failure {
    /// Notes an error; the first one counts.
    pub fn set(&self, error: Error) {
        let mut slot = self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slot.get_or_insert(error);
        self.failed.store(true, Ordering::SeqCst);
    }

    /// Has anything failed?
    pub fn is_set(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// The error.
    pub fn get(&self) -> Option<Error> {
        self.error.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// Rows that passed, by flow: written by the workers, read by whoever shows status.
#[derive(Debug, Default)]
pub struct Counters {
    /// Changes into each sink, by worker.
    pub rows: Vec<AtomicU64>,
    /// Operators of views.
    pub operators: Operators,
}

impl Counters {
    /// For so many workers.
    pub fn of_workers(workers: usize) -> Counters {
        Counters { rows: (0..workers).map(|_| AtomicU64::new(0)).collect(), operators: Operators::default() }
    }
}

/// What the dataflow is connected to, on one worker.
pub struct Ports {
    /// By source name; on worker 0 only.
    pub sources: BTreeMap<String, Box<dyn SourcePort>>,
    /// By sink name.
    pub sinks: BTreeMap<String, (Delivery, Box<dyn SinkPort>)>,
    /// Sources in whose logs images need not hold all columns; the same on all workers.
    pub by_table: BTreeSet<String>,
    /// Shared by all workers.
    pub failure: Arc<Failure>,
    /// Shared by all workers; as many as there are workers.
    pub counters: Arc<Counters>,
    /// The views that flows read; the same on all workers.
    pub views: Arc<Graph>,
    /// What their tables hold; shared by all workers.
    pub inputs: Arc<Inputs>,
    /// When views speak. Shared by all workers.
    pub voice: Arc<Voice>,
    /// What views have to tell; shared by all workers.
    pub notices: Arc<Mutex<Vec<Diagnostic>>>,
}

/// Builds the dataflow of a plan on this worker; every worker must build the same. The probe's frontier is the
/// first tick that some sink has not committed: whoever steps the worker tells it to what is [`Held`].
pub fn render(worker: &mut Worker, plan: &Arc<Plan>, mut ports: Ports) -> (ProbeHandle<Tick>, Held) {
    let held = Held::default();
    let probe = worker.dataflow::<Tick, _, _>(|scope| {
        let probe = ProbeHandle::new();
        let mut routed: BTreeMap<&str, Vec<Stream<'_, Tick, Vec<Routed>>>> = BTreeMap::new();
        for source in &plan.sources {
            let port = ports.sources.remove(&source.name);
            let records = source::source(&scope, &source.name, port);
            let ends = flow::ends(records.clone(), &source.name);
            let by_table = ports.by_table.contains(&source.name);
            let of_source = |flow: &&FlowPlan| flow.source == source.name;
            let reads_views = plan.flows.iter().filter(of_source).any(|f| f.view.is_some());
            let told = reads_views.then(|| view::told(records.clone(), &source.name, scope.peers()));
            let spread = source::spread(records, &source.name, scope.peers(), by_table, &ports.failure);
            let shared = view::Shared {
                failure: ports.failure.clone(),
                inputs: ports.inputs.clone(),
                voice: ports.voice.clone(),
                held: held.clone(),
                notices: ports.notices.clone(),
                counters: ports.counters.clone(),
                index: scope.index(),
                peers: scope.peers(),
                by_table,
            };
            let views = match &told {
                Some(told) => view::views(&spread, told, plan, &ports.views, &shared),
                None => BTreeMap::new(),
            };
            for sink in &plan.sinks {
                routed.entry(&sink.name).or_default().push(ends.clone());
            }
            for (index, plan_flow) in plan.flows.iter().enumerate().filter(|(_, f)| f.source == source.name) {
                let bound = plan_flow.view.as_ref().and_then(|name| ports.views.view(name));
                let stream = match (bound, &told) {
                    (Some(bound), Some(told)) => {
                        let Some(rows) = views.get(&bound.name) else { continue };
                        let watch =
                            |stream| view::upserts(stream, told.clone(), plan_flow, bound, shared.clone());
                        flow::flow(rows.clone(), plan, index, scope.peers(), &ports.failure, watch)
                    }
                    _ => {
                        let as_it_is = |stream| stream;
                        flow::flow(spread.clone(), plan, index, scope.peers(), &ports.failure, as_it_is)
                    }
                };
                routed.entry(&plan_flow.sink).or_default().push(stream);
            }
        }
        for sink_plan in &plan.sinks {
            let Some((delivery, port)) = ports.sinks.remove(&sink_plan.name) else { continue };
            let streams = routed.remove(sink_plan.name.as_str()).unwrap_or_default();
            let input = scope.concatenate(streams);
            sink::sink(input, &sink_plan.name, delivery, port, ports.counters.clone()).probe_with(&probe);
        }
        probe
    });
    (probe, held)
}

/// The address under which an operator is woken from another thread.
pub(crate) fn activator(scope: &Scope<'_, Tick>, address: &Rc<[usize]>) -> timely::scheduling::SyncActivator {
    scope.worker().sync_activator_for(address.to_vec())
}

pub(crate) use flow::first;

pub(crate) type Records<'scope> = Stream<'scope, Tick, Vec<Record>>;
