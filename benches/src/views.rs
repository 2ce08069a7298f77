//! Views without a server: a pipeline's dataflow, fed with changes, into a sink that counts.

use cdc_core::TableSchema;
use cdc_core::catalog::{Catalog, Surroundings};
use cdc_core::connector::{Delivery, TargetTable};
use cdc_core::diagnostic::Diagnostic;
use cdc_core::event::{Batch, Change, Op, Origin, SchemaEvent};
use cdc_core::plan::Plan;
use cdc_core::plan::view::bind::{Graph, bind};
use cdc_core::position::Binding;
use cdc_core::tick::Tick;
use cdc_core::{Row, Value};
use cdc_materialize::inputs::Inputs;
use cdc_materialize::record::{Guard, Record};
use cdc_materialize::render::{Failure, Ports, SinkBatch, SinkPort, SourcePort, render};
use cdc_materialize::upsert::{Policy, Upserts};
use cdc_materialize::voice::{Spoken, Voice};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use timely::scheduling::SyncActivator;

/// The table of `upsert`.
pub const ITEMS: &str =
    "CREATE TABLE items (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL, note VARCHAR(40))";

/// The tables of `join_aggregate`.
pub const CUSTOMERS: &str =
    "CREATE TABLE customers (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40) NOT NULL, region INT NOT NULL)";

/// The other one.
pub const ORDERS: &str =
    "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, customer BIGINT NOT NULL, amount BIGINT NOT NULL)";

/// All rows of a table go through the operator that takes upserts in, and no other.
pub const PLAIN_VIEW: &str = "view v = from src.items |> select id, n, note\nv => out.v";

/// All rows are one group, of which the least, the greatest and the first ten are asked.
pub const EXTREMES_VIEW: &str =
    "view v = from src.items |> aggregate min(n) as least, max(n) as most, count(distinct note) as notes
view w = from src.items |> top 10 by n desc |> select id, n
v => out.v
w => out.w key (id)";

/// A join and a group-by.
pub const JOIN_VIEW: &str = "view v = from src.orders as o |> join src.customers as c on o.customer = c.id
  |> aggregate sum(o.amount) as total, count(*) as orders group by c.region
v => out.v";

/// Rows of a tick.
const TICK: u64 = 100;

struct Nothing;

impl Surroundings for Nothing {
    fn environment(&self, _: &str) -> Option<String> {
        Some("secret".into())
    }

    fn schema_file(&self, _: &str, _: Option<&str>) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
        Ok(Vec::new())
    }
}

/// A pipeline whose views are bound to tables.
pub struct Bound {
    plan: Arc<Plan>,
    graph: Arc<Graph>,
}

/// Compiles and binds views.
///
/// # Panics
/// If something is wrong with them.
pub fn bound(views: &str, tables: &[Arc<TableSchema>]) -> Bound {
    let text = format!(
        "pipeline {{ name = \"bench\" }}
         source src = mysql {{ url = \"mysql://127.0.0.1\", user = \"cdc\", password = \"${{CDC_PASSWORD}}\", tables = [\"bench.*\"] }}
         sink out = null {{}}
         {views}"
    );
    let parameters = BTreeMap::new();
    let connectors = [cdc_mysql::descriptor::descriptor(), cdc_sinks::null::descriptor()];
    let catalog = Catalog {
        connectors: &connectors,
        parameters: &parameters,
        surroundings: &Nothing,
        lenient_environment: true,
    };
    let compiled = cdc_dsl::compile(&text, &catalog);
    let plan = compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics));
    let wanted = plan.views.iter().map(|view| view.name.clone()).collect();
    let graph = bind(&plan.views, &wanted, tables).unwrap_or_else(|errors| panic!("{errors:#?}"));
    Bound { plan: Arc::new(plan), graph: Arc::new(graph) }
}

struct Script(VecDeque<Record>);

impl SourcePort for Script {
    fn connect(&mut self, activator: SyncActivator) {
        let _ = activator.activate();
    }

    fn first(&self) -> Tick {
        1
    }

    fn poll(&mut self) -> Result<Option<Record>, ()> {
        self.0.pop_front().map(Some).ok_or(())
    }
}

struct Counting {
    seen: Arc<AtomicU64>,
    committed: Tick,
}

impl SinkPort for Counting {
    fn connect(&mut self, _: SyncActivator) {}

    fn rows(&mut self, _: Tick, batch: SinkBatch) {
        self.seen.fetch_add(batch.changes.len() as u64, Ordering::Relaxed);
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

    fn passed(&mut self, next: Option<Tick>) {
        self.committed = next.map_or(Tick::MAX - 1, |next| next.saturating_sub(1)).max(self.committed);
    }

    fn committed(&self) -> Tick {
        self.committed
    }
}

/// Runs records through the views; how many changes came out.
///
/// # Panics
/// If an operator fails.
pub fn run(bound: &Bound, records: Vec<Record>, workers: usize) -> u64 {
    let seen = Arc::new(AtomicU64::new(0));
    let failure = Arc::new(Failure::default());
    let inputs = Arc::new(Inputs::new(0, BTreeMap::new(), true));
    let records = Mutex::new(Some(VecDeque::from(records)));
    let (plan, graph) = (bound.plan.clone(), bound.graph.clone());
    let shared = (seen.clone(), failure.clone(), inputs);
    timely::execute(timely::Config::process(workers), move |worker| {
        let (seen, failure, inputs) = shared.clone();
        let mut ports = Ports {
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            by_table: Default::default(),
            failure,
            counters: Arc::default(),
            views: graph.clone(),
            inputs: inputs.clone(),
            voice: Arc::new(Voice::of(Spoken { until: None, from: Some(1) })),
            notices: Arc::default(),
        };
        if worker.index() == 0
            && let Some(records) = records.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            ports.sources.insert("src".into(), Box::new(Script(records)));
        }
        let sink = Counting { seen, committed: 0 };
        ports.sinks.insert("out".into(), (Delivery::Net, Box::new(sink)));
        let (probe, held) = render(worker, &plan, ports);
        let mut steps = 0_u32;
        while !probe.done() {
            worker.step();
            steps = steps.wrapping_add(1);
            // as the runtime does: what is behind all sinks is let go, and so is what a checkpoint would take
            if steps.is_multiple_of(64) {
                let next = probe.with_frontier(|frontier| frontier.first().copied());
                held.passed(next);
                if let Some(next) = next.filter(|_| worker.index() == 0) {
                    inputs.changes_until(next.saturating_sub(1));
                }
            }
        }
    })
    .unwrap_or_else(|error| panic!("{error}"))
    .join()
    .into_iter()
    .for_each(|done| done.unwrap_or_else(|error| panic!("{error}")));
    if let Some(error) = failure.get() {
        panic!("{error}");
    }
    seen.load(Ordering::Relaxed)
}

/// A new value of a key of the table of items, before and after.
pub struct Item {
    key: Row,
    before: Option<Row>,
    after: Row,
}

/// Changes of so many keys, at random, repeatable.
pub fn items(changes: u64, keys: u64) -> Vec<Item> {
    let (mut state, mut rows) = (7_u64, vec![None::<Row>; keys as usize]);
    (0..changes)
        .map(|n| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 33) % keys;
            let id = Value::Int(key as i64);
            let after = Row::pack([
                id.clone(),
                Value::Int(n as i64),
                Value::Text("a note of some thirty letters".into()),
            ]);
            let before = rows[key as usize].replace(after.clone());
            Item { key: Row::pack([id]), before, after }
        })
        .collect()
}

/// What anybody would need: a map of one thread. The rows held in the end.
pub fn by_map(items: &[Item]) -> usize {
    let mut rows: HashMap<Row, Row, foldhash::fast::FixedState> = HashMap::default();
    for item in items {
        rows.insert(item.key.clone(), item.after.clone());
    }
    rows.len()
}

/// The same as a changelog, by ticks. The rows held in the end.
///
/// # Panics
/// If keys have conflicts, which they have not.
pub fn by_upserts(items: &[Item]) -> usize {
    let mut upserts = Upserts::new(Policy::Error);
    for (tick, changes) in (1_u64..).zip(items.chunks(TICK as usize)) {
        for item in changes {
            if let Some(before) = &item.before {
                upserts.change(item.key.clone(), before.clone(), tick, -1);
            }
            upserts.change(item.key.clone(), item.after.clone(), tick, 1);
        }
        let closed = upserts.close(tick);
        assert!(closed.is_ok_and(|changes| !changes.is_empty()), "a tick that changes nothing");
    }
    upserts.metrics().state_rows as usize
}

/// Changes of one table as a source gives them.
pub fn records(
    schema: &Arc<TableSchema>,
    first: Tick,
    changes: impl Iterator<Item = (Option<Row>, Row)>,
) -> Vec<Record> {
    in_ticks_of(TICK, schema, first, changes)
}

fn in_ticks_of(
    size: u64,
    schema: &Arc<TableSchema>,
    first: Tick,
    changes: impl Iterator<Item = (Option<Row>, Row)>,
) -> Vec<Record> {
    let mut records = Vec::new();
    let mut changes = changes.peekable();
    let mut tick = first;
    while changes.peek().is_some() {
        let made = changes
            .by_ref()
            .take(size as usize)
            .zip(1..)
            .map(|((before, after), ordinal)| {
                let op = if before.is_some() { Op::Update } else { Op::Insert };
                Change { tick, ordinal, op, origin: 0, before, after: Some(after) }
            })
            .collect();
        let batch = Batch { schema: schema.clone(), origins: vec![Origin::default()], changes: made };
        records.push(Record::Rows { worker: 0, batch: Arc::new(batch), guard: Guard::default() });
        records.push(Record::End { tick, binding: Arc::new(Binding::default()) });
        tick += 1;
    }
    records
}

/// Items as the view's operator gets them.
pub fn item_records(schema: &Arc<TableSchema>, items: &[Item]) -> Vec<Record> {
    records(schema, 1, items.iter().map(|item| (item.before.clone(), item.after.clone())))
}

/// Rows of one group, and then changes of it, each in a tick of its own and half of them at an end of the order.
pub fn group_records(schema: &Arc<TableSchema>, rows: u64, changes: u64) -> Vec<Record> {
    let row = |id: u64, n: i64| {
        Row::pack([Value::Int(id as i64), Value::Int(n), Value::Text(format!("note {}", id % 1000).into())])
    };
    let mut numbers: Vec<i64> = (0..rows as i64).collect();
    let mut all = records(schema, 1, (0..rows).map(|id| (None, row(id, id as i64))));
    let next = 1 + all.len() as Tick / 2;
    let changed = (0..changes).map(|change| {
        let id = change * 7919 % rows;
        let n = match change % 4 {
            0 => rows as i64 + change as i64,
            1 => -(change as i64),
            _ => (change * 31 % rows) as i64,
        };
        let before = row(id, std::mem::replace(&mut numbers[id as usize], n));
        (Some(before), row(id, n))
    });
    all.extend(in_ticks_of(1, schema, next, changed));
    all
}

/// Customers, then orders of theirs.
pub fn shop_records(customers: i64, orders: i64) -> Vec<Record> {
    let region =
        |id: i64| Row::pack([Value::Int(id), Value::Text(format!("name {id}").into()), Value::Int(id % 50)]);
    let order =
        |id: i64| Row::pack([Value::Int(id), Value::Int(id * 7919 % customers), Value::Int(id * 31 % 1000)]);
    let table = crate::table;
    let mut all = records(&table(CUSTOMERS), 1, (0..customers).map(|id| (None, region(id))));
    let next = 1 + all.len() as Tick / 2;
    all.extend(records(&table(ORDERS), next, (0..orders).map(|id| (None, order(id)))));
    all
}
