//! Views against the naive evaluator, at every tick: random histories over three tables, with keys that move, several changes of
//! a key in one tick, deletions and TRUNCATE, on one, two and three workers.

use cdc_core::connector::{Delivery, TargetChange, TargetOp, TargetTable};
use cdc_core::event::{Batch, Change, Op, Origin, SchemaEvent};
use cdc_core::expr::{BinaryOp, Expr, ExprKind};
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::view::bind::{Graph, NodeKind, bind};
use cdc_core::plan::view::{
    Aggregate, AggregateItem, InputOf, JoinKind, OnConflict, OrderKey, Upsert, ViewInput, ViewOp, ViewPlan,
};
use cdc_core::plan::{
    CheckpointPlan, ColumnName, FlowOp, FlowPlan, NamedExpr, Options, Plan, SchemaChangeMode, SelectItem,
    SinkPlan, SourcePlan, TargetName,
};
use cdc_core::position::Binding;
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema};
use cdc_core::schema_change::SchemaChange;
use cdc_core::tick::Tick;
use cdc_core::{Error, Row, Value};
use cdc_materialize::inputs::{InputChange, InputRow, Inputs, TableChanges};
use cdc_materialize::metrics;
use cdc_materialize::record::{Guard, Record};
use cdc_materialize::reference::evaluate;
use cdc_materialize::render::{Counters, Failure, Ports, SinkBatch, SinkPort, SourcePort, render};
use cdc_materialize::voice::{Spoken, Voice};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use timely::scheduling::SyncActivator;

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: 0..0 }
}

/// `o.id` or `id`.
fn col(name: &str) -> Expr {
    expr(match name.split_once('.') {
        Some((table, column)) => ExprKind::Of { table: table.into(), column: column.into() },
        None => ExprKind::Column(name.into()),
    })
}

fn int(n: i64) -> Expr {
    expr(ExprKind::Literal(Value::Int(n)))
}

fn op(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(a), Box::new(b)))
}

fn eq(a: &str, b: &str) -> Expr {
    op(BinaryOp::Equal, col(a), col(b))
}

fn named(name: &str, expr: Expr) -> NamedExpr {
    NamedExpr { name: name.into(), expr }
}

/// `a.b` as `name`, or under its own.
fn pick(names: &[(&str, &str)]) -> ViewOp {
    ViewOp::Row(FlowOp::Select(
        names.iter().map(|(from, to)| SelectItem::Expr(named(to, col(from)))).collect(),
    ))
}

fn table(name: &str, alias: &str) -> ViewInput {
    let table = TablePattern { database: None, table: NamePattern::exact(name) };
    ViewInput { of: InputOf::Table { source: "src".into(), table }, alias: alias.into(), span: 0..0 }
}

fn of_view(name: &str) -> ViewInput {
    ViewInput { of: InputOf::View(name.into()), alias: name.into(), span: 0..0 }
}

fn join(kind: JoinKind, with: ViewInput, on: Expr) -> ViewOp {
    ViewOp::Join { kind, with, on, span: 0..0 }
}

fn item(name: &str, function: Aggregate, distinct: bool, arg: Option<Expr>) -> AggregateItem {
    AggregateItem { name: name.into(), function, distinct, arg, span: 0..0 }
}

fn aggregate(group_by: &[(&str, &str)], items: Vec<AggregateItem>) -> ViewOp {
    let group_by = group_by.iter().map(|(from, to)| named(to, col(from))).collect();
    ViewOp::Aggregate { group_by, items, span: 0..0 }
}

fn view(name: &str, from: ViewInput, ops: Vec<ViewOp>) -> ViewPlan {
    ViewPlan { name: name.into(), from, ops, ttl_ms: None, on_conflict: OnConflict::Error, span: 0..0 }
}

fn all_aggregates() -> Vec<AggregateItem> {
    let amount = || Some(col("o.amount"));
    vec![
        item("rows_", Aggregate::Count, false, None),
        item("amounts", Aggregate::Count, false, amount()),
        item("kinds", Aggregate::Count, true, amount()),
        item("total", Aggregate::Sum, false, amount()),
        item("total_of_kinds", Aggregate::Sum, true, amount()),
        item("mean", Aggregate::Avg, false, amount()),
        item("least", Aggregate::Min, false, amount()),
        item("most", Aggregate::Max, false, amount()),
        item("weights", Aggregate::Sum, false, Some(col("o.weight"))),
        item("last_coupon", Aggregate::Max, false, Some(col("o.coupon"))),
    ]
}

fn views() -> Vec<ViewPlan> {
    use JoinKind::{Anti, Full, Inner, Left, Right, Semi};
    let orders = || table("orders", "o");
    let customers = |alias: &str| table("customers", alias);
    let wide = [("o.id", "id"), ("c.id", "customer"), ("c.name", "name"), ("o.amount", "amount")];
    let on_customer = || eq("o.customer", "c.id");
    let top = |per: Vec<Expr>| ViewOp::Top {
        count: 2,
        by: vec![
            OrderKey { expr: col("amount"), descending: true },
            OrderKey { expr: col("coupon"), descending: false },
        ],
        per,
        span: 0..0,
    };
    // a target's key takes no NULL
    let not_null = |name: &str| {
        ViewOp::Row(FlowOp::Where(expr(ExprKind::IsNull { operand: Box::new(col(name)), negated: true })))
    };
    let mut all = vec![
        view("lines", orders(), vec![join(Inner, customers("c"), on_customer()), pick(&wide)]),
        view(
            "filtered",
            orders(),
            vec![
                join(
                    Inner,
                    customers("c"),
                    op(
                        BinaryOp::And,
                        on_customer(),
                        op(
                            BinaryOp::And,
                            op(BinaryOp::Greater, col("o.amount"), int(3)),
                            op(BinaryOp::Less, col("c.region"), col("o.id")),
                        ),
                    ),
                ),
                ViewOp::Row(FlowOp::Where(op(BinaryOp::NotEqual, col("region"), int(1)))),
                pick(&wide),
            ],
        ),
        view(
            "star",
            orders(),
            vec![ViewOp::Row(FlowOp::Extend(vec![named(
                "twice",
                op(BinaryOp::Add, col("amount"), col("amount")),
            )]))],
        ),
        view("semi", orders(), vec![join(Semi, customers("c"), on_customer())]),
        view("anti", orders(), vec![join(Anti, customers("c"), on_customer())]),
        view(
            "by_region",
            orders(),
            vec![
                join(Inner, customers("c"), on_customer()),
                join(Left, table("coupons", "k"), eq("o.coupon", "k.code")),
                not_null("region"),
                aggregate(&[("c.region", "region")], all_aggregates()),
            ],
        ),
        view("of_all", orders(), vec![aggregate(&[], all_aggregates())]),
        view(
            "names",
            customers("c"),
            vec![not_null("name"), pick(&[("name", "name")]), ViewOp::Distinct { span: 0..0 }],
        ),
        view(
            "both_all",
            orders(),
            vec![
                pick(&[("id", "id"), ("coupon", "text")]),
                ViewOp::Union { all: true, with: of_view("customer_names"), span: 0..0 },
            ],
        ),
        view(
            "both_once",
            orders(),
            vec![
                pick(&[("customer", "id"), ("coupon", "text")]),
                ViewOp::Union { all: false, with: of_view("customer_names"), span: 0..0 },
                not_null("id"),
                not_null("text"),
            ],
        ),
        view("customer_names", customers("c"), vec![pick(&[("id", "id"), ("name", "text")])]),
        view("top_of_each", orders(), vec![top(vec![col("customer")])]),
        view("top_of_all", orders(), vec![top(vec![])]),
        view(
            "namesakes",
            customers("a"),
            vec![
                join(
                    Inner,
                    customers("b"),
                    op(BinaryOp::And, eq("a.name", "b.name"), op(BinaryOp::Less, col("a.id"), col("b.id"))),
                ),
                pick(&[("a.id", "one"), ("b.id", "other"), ("b.name", "name")]),
            ],
        ),
        view(
            "null_safe",
            orders(),
            vec![
                join(Inner, customers("c"), op(BinaryOp::NullSafeEqual, col("o.customer"), col("c.region"))),
                pick(&[("o.id", "id"), ("c.id", "customer")]),
            ],
        ),
        view(
            "totals_of_lines",
            of_view("lines"),
            vec![
                not_null("name"),
                aggregate(
                    &[("name", "name")],
                    vec![item("total", Aggregate::Sum, false, Some(col("amount")))],
                ),
                ViewOp::Row(FlowOp::Where(op(BinaryOp::Greater, col("total"), int(5)))),
            ],
        ),
    ];
    all.push(view("left", orders(), vec![join(Left, customers("c"), on_customer()), pick(&wide)]));
    // conditions beside the equality: on a side whose rows count without a match, on the other one, on both, on none
    let and = |a: Expr, b: Expr| op(BinaryOp::And, a, b);
    let of_left = || op(BinaryOp::Greater, col("o.amount"), int(3));
    let of_right = || op(BinaryOp::NotEqual, col("c.region"), int(1));
    let of_both = || op(BinaryOp::LessEqual, col("c.region"), col("o.id"));
    let all_of = || and(and(of_left(), on_customer()), and(of_right(), of_both()));
    for (name, kind, on) in [
        ("left_of_left", Left, and(on_customer(), of_left())),
        ("left_of_none", Left, and(on_customer(), op(BinaryOp::Equal, int(1), int(0)))),
        ("left_of_both", Left, and(on_customer(), of_both())),
        ("left_of_all", Left, all_of()),
    ] {
        all.push(view(name, orders(), vec![join(kind, customers("c"), on), pick(&wide)]));
    }
    for (name, kind, on) in [
        ("anti_of_left", Anti, and(on_customer(), of_left())),
        ("anti_of_all", Anti, all_of()),
        ("semi_of_all", Semi, all_of()),
    ] {
        all.push(view(name, orders(), vec![join(kind, customers("c"), on)]));
    }
    // rows that are there more than once, on either side
    let coupons = |kind| {
        let on = and(eq("k.code", "o.coupon"), op(BinaryOp::Less, col("k.percent"), col("o.id")));
        vec![join(kind, orders(), on)]
    };
    let columns = pick(&[("k.code", "code"), ("k.percent", "percent"), ("o.id", "id")]);
    all.push(view("coupons_left", table("coupons", "k"), [coupons(Left), vec![columns.clone()]].concat()));
    all.push(view("coupons_full", table("coupons", "k"), [coupons(Full), vec![columns]].concat()));
    all.push(view("coupons_anti", table("coupons", "k"), coupons(Anti)));
    // without key: the one that they have may be NULL
    for (name, kind, on) in [
        ("right", Right, on_customer()),
        ("full", Full, on_customer()),
        ("right_of_right", Right, and(on_customer(), of_right())),
        ("right_of_both", Right, and(on_customer(), of_both())),
        ("full_of_left", Full, and(on_customer(), of_left())),
        ("full_of_right", Full, and(on_customer(), of_right())),
        ("full_of_all", Full, all_of()),
    ] {
        let or_zero = |name: &str| expr(ExprKind::Call("coalesce".into(), vec![col(name), int(0)]));
        let columns = vec![
            SelectItem::Expr(named("id", or_zero("o.id"))),
            SelectItem::Expr(named("customer", or_zero("c.id"))),
            SelectItem::Expr(named("name", col("name"))),
        ];
        let ops = vec![join(kind, customers("c"), on), ViewOp::Row(FlowOp::Select(columns))];
        all.push(view(name, orders(), ops));
    }
    all
}

fn schema(name: &str, columns: Vec<Column>, key: Vec<usize>) -> Arc<TableSchema> {
    Arc::new(TableSchema {
        id: TableId::new("shop", name),
        version: 1,
        columns,
        primary_key: key,
        unique_keys: vec![],
        charset: Charset::utf8mb4(),
        comment: String::new(),
    })
}

/// `coupons` has no key.
fn schemas() -> Vec<Arc<TableSchema>> {
    let number = |name: &str| Column::new(name, ColumnType::Int { width: IntWidth::Int, unsigned: false });
    let bin = || Charset::new("utf8mb4", "utf8mb4_bin");
    let text = |name: &str| Column::new(name, ColumnType::VarChar { length: 20, charset: bin() });
    let amount = Column::new("amount", ColumnType::Decimal { precision: 10, scale: 2, unsigned: false });
    let weight = Column::new("weight", ColumnType::Double { unsigned: false });
    vec![
        schema(
            "orders",
            vec![text("note"), number("id").not_null(), number("customer"), amount, weight, text("coupon")],
            vec![1],
        ),
        schema("customers", vec![number("id").not_null(), text("name"), number("region")], vec![0]),
        schema("coupons", vec![text("code"), number("percent")], vec![]),
    ]
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn int(&mut self, n: u64) -> Value<'static> {
        match self.below(n + 1) {
            0 => Value::Null,
            v => Value::Int(v as i64),
        }
    }

    fn text(&mut self, n: u64) -> Value<'static> {
        match self.below(n + 1) {
            0 => Value::Null,
            v => Value::Text(["", "a", "A", "a ", "b", "ab"][v as usize % 6].into()),
        }
    }

    fn row(&mut self, table: usize, key: i64) -> Row {
        match table {
            0 => {
                let amount = match self.below(6) {
                    0 => Value::Null,
                    v => Value::Decimal(format!("{}.{:02}", v, self.below(3) * 50).into()),
                };
                let weight = match self.below(4) {
                    0 => Value::Null,
                    v => Value::Double([0.1, 1e16, -1e16][v as usize - 1]),
                };
                Row::pack([
                    Value::Text("n".into()),
                    Value::Int(key),
                    self.int(4),
                    amount,
                    weight,
                    self.text(3),
                ])
            }
            1 => Row::pack([Value::Int(key), self.text(4), self.int(3)]),
            _ => Row::pack([self.text(3), self.int(2)]),
        }
    }
}

/// Rows by table and key; of the table without key by a number that nobody sees.
type Tables = Vec<BTreeMap<i64, Row>>;

/// Records of a source, and what its tables hold at the end of each tick.
fn history(random: &mut Random, ticks: u64) -> (Vec<Record>, BTreeMap<Tick, Tables>) {
    let schemas = schemas();
    let (mut records, mut states) = (Vec::new(), BTreeMap::new());
    let mut now: Tables = vec![BTreeMap::new(); 3];
    for tick in 1..=ticks {
        let origin =
            Origin { timestamp_micros: tick as i64, file: "log".into(), offset: tick, ..Origin::default() };
        for ordinal in 1..=random.below(6) {
            let at = random.below(3) as usize;
            let table = &mut now[at];
            if random.below(60) == 0 {
                table.clear();
                let id = schemas[at].id.clone();
                let event = SchemaEvent {
                    tick,
                    origin: origin.clone(),
                    statement: "TRUNCATE".into(),
                    changes: vec![SchemaChange::TruncateTable { table: id }],
                    before: Some(schemas[at].clone()),
                    after: Some(schemas[at].clone()),
                };
                records.push(Record::Schema { ordinal, event: Arc::new(event) });
                continue;
            }
            let key = random.below(6) as i64;
            let (op, before, after) = match (table.get(&key).cloned(), random.below(4)) {
                (Some(row), 0) => {
                    table.remove(&key);
                    (Op::Delete, Some(row), None)
                }
                (Some(row), 1) => {
                    // to another key, whose row goes before
                    let to = random.below(6) as i64;
                    let after = random.row(at, to);
                    if to != key && table.contains_key(&to) {
                        continue;
                    }
                    table.remove(&key);
                    table.insert(to, after.clone());
                    (Op::Update, Some(row), Some(after))
                }
                (Some(row), _) => {
                    let after = random.row(at, key);
                    table.insert(key, after.clone());
                    (Op::Update, Some(row), Some(after))
                }
                (None, _) => {
                    let after = random.row(at, key);
                    table.insert(key, after.clone());
                    (Op::Insert, None, Some(after))
                }
            };
            let change = Change { tick, ordinal, op, origin: 0, before, after };
            let batch =
                Batch { schema: schemas[at].clone(), origins: vec![origin.clone()], changes: vec![change] };
            records.push(Record::Rows { worker: 0, batch: Arc::new(batch), guard: Guard::default() });
        }
        records.push(Record::End { tick, binding: Arc::new(Binding::default()) });
        states.insert(tick, now.clone());
    }
    (records, states)
}

struct Script {
    records: VecDeque<Record>,
    first: Tick,
}

impl SourcePort for Script {
    fn connect(&mut self, activator: SyncActivator) {
        let _ = activator.activate();
    }

    fn first(&self) -> Tick {
        self.first
    }

    fn poll(&mut self) -> Result<Option<Record>, ()> {
        self.records.pop_front().map(Some).ok_or(())
    }
}

/// What came to the sink: by tick, the table's name and its key columns, and the change.
type Seen = Arc<Mutex<BTreeMap<Tick, Vec<(Arc<TargetTable>, TargetChange)>>>>;

struct Collected {
    seen: Seen,
    committed: Tick,
}

impl SinkPort for Collected {
    fn connect(&mut self, _: SyncActivator) {}

    fn rows(&mut self, tick: Tick, batch: SinkBatch) {
        let mut seen = self.seen.lock().unwrap();
        let changes = batch.changes.into_iter().map(|change| (batch.table.clone(), change));
        seen.entry(tick).or_default().extend(changes);
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

fn flow(view: &ViewPlan) -> FlowPlan {
    FlowPlan {
        name: view.name.clone(),
        source: "src".into(),
        tables: TablePattern {
            database: Some(NamePattern::exact("")),
            table: NamePattern::exact(view.name.as_str()),
        },
        view: Some(view.name.clone()),
        ops: vec![],
        sink: "dw".into(),
        target: TargetName::Fixed(view.name.clone()),
        key: None,
        on_schema_change: SchemaChangeMode::Lenient,
        include: vec![],
        exclude: vec![],
        backfill: true,
        soft_delete: None,
        key_conflict: Default::default(),
        upsert: Upsert::Auto,
        on_conflict: OnConflict::Error,
        span: 0..0,
    }
}

fn plan(views: Vec<ViewPlan>, flows: Vec<FlowPlan>) -> Plan {
    let options = || Options::default();
    Plan {
        name: "p".into(),
        checkpoint: CheckpointPlan { dir: "state".into(), every_ms: 1000 },
        on_schema_change: SchemaChangeMode::Lenient,
        time_zone: "UTC".into(),
        sources: vec![SourcePlan {
            name: "src".into(),
            connector: "mysql".into(),
            options: options(),
            span: 0..0,
        }],
        sinks: vec![SinkPlan {
            name: "dw".into(),
            connector: "sqlite".into(),
            options: options(),
            span: 0..0,
        }],
        views,
        flows,
        tests: vec![],
    }
}

struct Run {
    changes: BTreeMap<Tick, Vec<(Arc<TargetTable>, TargetChange)>>,
    noted: TableChanges,
    operators: BTreeMap<String, metrics::Seen>,
    error: Option<Error>,
}

/// Runs records through the views, from what the tables held behind `after`.
fn run(
    plan: &Plan,
    graph: &Graph,
    records: Vec<Record>,
    workers: usize,
    (after, inputs): (Tick, Inputs),
    voice: Voice,
) -> Run {
    let seen: Seen = Arc::default();
    let failure = Arc::new(Failure::default());
    let (inputs, voice) = (Arc::new(inputs), Arc::new(voice));
    let records = Mutex::new(Some(VecDeque::from(records)));
    let (plan, graph) = (Arc::new(plan.clone()), Arc::new(graph.clone()));
    let counters = Arc::new(Counters::of_workers(workers));
    let shared = (seen.clone(), failure.clone(), inputs.clone(), counters.clone(), voice);
    timely::execute(timely::Config::process(workers), move |worker| {
        let (seen, failure, inputs, counters, voice) = shared.clone();
        let mut ports = Ports {
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            by_table: BTreeSet::new(),
            failure,
            counters,
            views: graph.clone(),
            inputs,
            voice,
            notices: Arc::default(),
        };
        if worker.index() == 0
            && let Some(records) = records.lock().unwrap().take()
        {
            ports.sources.insert("src".into(), Box::new(Script { records, first: after + 1 }));
        }
        ports.sinks.insert("dw".into(), (Delivery::Net, Box::new(Collected { seen, committed: after })));
        let (probe, _) = render(worker, &plan, ports);
        while !probe.done() {
            worker.step();
        }
    })
    .unwrap()
    .join()
    .into_iter()
    .for_each(|done| done.unwrap());
    let changes = std::mem::take(&mut *seen.lock().unwrap());
    let noted = inputs.changes_until(Tick::MAX - 1);
    Run { changes, noted, operators: counters.operators.seen(), error: failure.get() }
}

/// What targets hold: by table, rows with how often.
#[derive(Default, Clone)]
struct Target(BTreeMap<String, BTreeMap<Row, (Row, i64)>>);

impl Target {
    fn apply(&mut self, changes: Vec<(Arc<TargetTable>, TargetChange)>) {
        let mut keys = BTreeSet::new();
        for (table, change) in changes {
            let rows = self.0.entry(table.name.clone()).or_default();
            let shown = format!("{} {change:?}", table.name);
            if table.is_multiset() {
                let entry = rows.entry(change.key.clone()).or_insert((change.key.clone(), 0));
                entry.1 += if change.op == TargetOp::Delete { -1 } else { 1 };
                assert!(entry.1 >= 0, "a row goes that is not there: {shown}");
                if entry.1 == 0 {
                    rows.remove(&change.key);
                }
                continue;
            }
            assert!(keys.insert((table.name.clone(), change.key.clone())), "two writes of a key: {shown}");
            match (change.op, change.row) {
                (TargetOp::Upsert, Some(row)) => {
                    let before = rows.insert(change.key, (row.clone(), 1));
                    assert_ne!(
                        before.map(|(row, _)| row),
                        Some(row),
                        "a write that changes nothing: {shown}"
                    );
                }
                _ => assert!(rows.remove(&change.key).is_some(), "a row goes that is not there: {shown}"),
            }
        }
    }

    fn rows(&self, table: &str) -> Vec<Row> {
        let rows = self.0.get(table).into_iter().flat_map(BTreeMap::values);
        let mut rows: Vec<Row> = rows.flat_map(|(row, times)| (0..*times).map(|_| row.clone())).collect();
        rows.sort();
        rows
    }
}

/// The columns that travel, of a state of the tables.
fn projected(graph: &Graph, tables: &Tables) -> BTreeMap<TableId, Vec<Row>> {
    let schemas = schemas();
    let mut out = BTreeMap::new();
    for input in graph.tables() {
        let at = schemas.iter().position(|s| s.id == input.table).unwrap();
        let places: Vec<usize> =
            input.columns.iter().map(|c| schemas[at].column_index(&c.name).unwrap()).collect();
        let rows = tables[at].values().map(|row| Row::pack(places.iter().map(|i| row.get(*i)))).collect();
        out.insert(input.table.clone(), rows);
    }
    out
}

fn graph_of(views: &[ViewPlan]) -> Graph {
    let wanted = views.iter().map(|v| v.name.clone()).collect();
    bind(views, &wanted, &schemas()).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn check(graph: &Graph, views: &[ViewPlan], target: &Target, tables: &Tables, at: &str) {
    let expected = evaluate(graph, &projected(graph, tables)).unwrap();
    for view in views {
        let mut rows = expected[&view.name].clone();
        rows.sort();
        assert_eq!(target.rows(&view.name), rows, "view {} {at}", view.name);
    }
}

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("CDC_SEED").ok().and_then(|v| v.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 1..4,
    }
}

/// Nothing is held, and views speak from a tick on.
fn afresh(speaks: Tick) -> ((Tick, Inputs), Voice) {
    ((0, Inputs::new(0, BTreeMap::new(), true)), Voice::of(Spoken { until: None, from: Some(speaks) }))
}

/// What the tables hold at a tick, as a store would give it back.
fn held(graph: &Graph, tables: &Tables) -> BTreeMap<TableId, Vec<InputRow>> {
    let schemas = schemas();
    let mut out = BTreeMap::new();
    for (table, rows) in projected(graph, tables) {
        let input = graph.tables().find(|input| input.table == table).unwrap();
        let mut counts: BTreeMap<Row, i64> = BTreeMap::new();
        let mut held = Vec::new();
        for row in rows {
            match &input.key {
                Some(names) => {
                    let place = |n: &Arc<str>| input.columns.iter().position(|c| c.name == *n).unwrap();
                    let key = Row::pack(names.iter().map(|n| row.get(place(n))));
                    held.push(InputRow::Keyed { key, row });
                }
                None => *counts.entry(row).or_default() += 1,
            }
        }
        held.extend(counts.into_iter().map(|(row, times)| InputRow::Counted { row, times }));
        assert!(schemas.iter().any(|s| s.id == table));
        out.insert(table, held);
    }
    out
}

#[test]
fn case_72_views_say_at_every_tick_what_the_query_would() {
    let views = views();
    for view in &views {
        // each alone, with those that it reads, so that its columns travel and no more
        let alone = plan(views.clone(), vec![flow(view)]);
        let wanted = BTreeSet::from([view.name.clone()]);
        let graph = bind(&views, &wanted, &schemas()).unwrap_or_else(|errors| panic!("{errors:#?}"));
        for seed in seeds() {
            let (records, states) = history(&mut Random(seed), 30);
            for workers in [1, 2, 3] {
                let (begin, voice) = afresh(1);
                let mut run = run(&alone, &graph, records.clone(), workers, begin, voice);
                assert!(run.error.is_none(), "{}", run.error.unwrap());
                let mut target = Target::default();
                for (tick, tables) in &states {
                    target.apply(run.changes.remove(tick).unwrap_or_default());
                    let at = format!("at tick {tick}, seed {seed}, {workers} workers");
                    check(&graph, std::slice::from_ref(view), &target, tables, &at);
                }
                assert!(run.changes.is_empty());
            }
        }
    }
}

/// Conditions behind joins are asked in front of them where that leaves out the same rows, and nowhere else.
#[test]
fn conditions_go_in_front_of_joins() {
    let filters = |kind: JoinKind, condition: Expr| {
        let ops = vec![
            join(kind, table("customers", "c"), eq("o.customer", "c.id")),
            ViewOp::Row(FlowOp::Where(condition)),
            pick(&[("o.id", "id")]),
        ];
        let views = [view("v", table("orders", "o"), ops)];
        let graph = bind(&views, &BTreeSet::from(["v".to_owned()]), &schemas()).unwrap();
        let join = graph.nodes.iter().position(|n| matches!(n.kind, NodeKind::Join { .. })).unwrap();
        let is_filter = |n: &cdc_core::plan::view::bind::Node| n.name.starts_with("filter[");
        // of the first input, of the second; the select is behind the join in any case
        (
            graph.nodes[..join].iter().filter(|n| is_filter(n)).count(),
            graph.nodes[join..].iter().filter(|n| n.name.starts_with("map[")).count(),
        )
    };
    let of = |name: &str| op(BinaryOp::Greater, col(name), int(1));
    let both = || op(BinaryOp::And, of("o.amount"), of("region"));
    let mixed = || op(BinaryOp::Less, col("o.id"), col("region"));
    assert_eq!(filters(JoinKind::Inner, both()), (2, 1));
    assert_eq!(filters(JoinKind::Inner, mixed()), (0, 1));
    assert_eq!(filters(JoinKind::Inner, op(BinaryOp::And, mixed(), of("c.region"))), (1, 1));
    // a row without a match has NULL there, which the condition leaves out behind the join
    assert_eq!(filters(JoinKind::Left, of("region")), (0, 1));
    assert_eq!(filters(JoinKind::Left, of("o.amount")), (1, 1));
    assert_eq!(filters(JoinKind::Right, of("o.amount")), (0, 1));
    assert_eq!(filters(JoinKind::Full, both()), (0, 1));
    assert_eq!(filters(JoinKind::Anti, of("o.amount")), (1, 1));
}

/// The names of the columns that tell a view's rows apart.
fn key_of_view(ops: Vec<ViewOp>, from: ViewInput, others: Vec<ViewPlan>) -> Vec<String> {
    let views: Vec<ViewPlan> = [view("v", from, ops)].into_iter().chain(others).collect();
    let graph = graph_of(&views);
    let schema = &graph.view("v").unwrap().schema;
    schema.primary_key.iter().map(|k| schema.columns[*k].name.to_string()).collect()
}

#[test]
fn a_key_is_known_only_where_it_tells_rows_apart() {
    let counts = |name: &str, of: &str, by: &str| {
        let count = vec![item("n", Aggregate::Count, false, None)];
        view(name, table(of, "t"), vec![aggregate(&[(by, "k")], count)])
    };
    let joined = |kind, on: Expr| {
        vec![join(kind, of_view("right"), on), pick(&[("left.k", "a"), ("right.k", "b"), ("right.n", "n")])]
    };
    let on = || eq("left.k", "right.k");
    let nullable = || vec![counts("left", "orders", "coupon"), counts("right", "customers", "name")];
    // (NULL, NULL) may be a row of the left alone and one of the right alone
    assert!(key_of_view(joined(JoinKind::Full, on()), of_view("left"), nullable()).is_empty());
    assert_eq!(key_of_view(joined(JoinKind::Left, on()), of_view("left"), nullable()), ["a"]);
    assert_eq!(key_of_view(joined(JoinKind::Right, on()), of_view("left"), nullable()), ["a", "b"]);
    let told = vec![counts("left", "orders", "customer"), counts("right", "customers", "id")];
    assert_eq!(key_of_view(joined(JoinKind::Full, on()), of_view("left"), told), ["a", "b"]);
    // "x" and "X" are two rows of the right side and equal to one of the left by this collation, whichever side says it
    let ci = |name: &str| expr(ExprKind::Collate(Box::new(col(name)), "utf8mb4_general_ci".into()));
    for on in
        [op(BinaryOp::Equal, ci("left.k"), col("right.k")), op(BinaryOp::Equal, col("left.k"), ci("right.k"))]
    {
        for kind in [JoinKind::Inner, JoinKind::Left] {
            assert_eq!(key_of_view(joined(kind, on.clone()), of_view("left"), nullable()), ["a", "b"]);
        }
    }
}

#[test]
fn views_share_tables_and_go_on_from_what_they_held() {
    let views = views();
    let plan = plan(views.clone(), views.iter().map(flow).collect());
    let graph = graph_of(&views);
    let tables = graph.nodes.iter().filter(|n| matches!(n.kind, NodeKind::Table(_))).count();
    assert!(tables < views.len(), "{tables} inputs");
    for seed in seeds() {
        let mut random = Random(seed);
        let (records, states) = history(&mut random, 60);
        let stop = 10 + random.below(40);
        let speaks = 1 + random.below(20);
        let workers = 1 + random.below(3) as usize;
        let first: Vec<Record> =
            records.iter().filter(|r| r.tick().is_some_and(|t| t <= stop)).cloned().collect();
        let (begin, voice) = afresh(speaks);
        let mut one = run(&plan, &graph, first, workers, begin, voice);
        assert!(one.error.is_none(), "{}", one.error.unwrap());
        let mut target = Target::default();
        let shown = |tick: &Tick| {
            format!(
                "at tick {tick}, seed {seed}, {workers} workers, speaking from {speaks}, stopped behind {stop}"
            )
        };
        for (tick, tables) in states.range(..=stop) {
            let changes = one.changes.remove(tick).unwrap_or_default();
            assert!(*tick >= speaks || changes.is_empty(), "{}", shown(tick));
            target.apply(changes);
            if *tick >= speaks {
                check(&graph, &views, &target, tables, &shown(tick));
            }
        }
        // what was noted is what the tables hold
        let mut noted: BTreeMap<TableId, BTreeMap<Row, (Option<Row>, i64)>> = BTreeMap::new();
        for (table, change) in
            one.noted.into_iter().flat_map(|(t, all)| all.into_iter().map(move |c| (t.clone(), c)))
        {
            let rows = noted.entry(table).or_default();
            match change {
                InputChange::Keyed { key, row: Some(row) } => {
                    rows.insert(key, (Some(row), 1));
                }
                InputChange::Keyed { key, row: None } => {
                    rows.remove(&key);
                }
                InputChange::Counted { row, times } => {
                    rows.entry(row.clone()).or_default().1 += times;
                    rows.retain(|_, (_, times)| *times != 0);
                }
            }
        }
        let empty = vec![BTreeMap::new(); 3];
        let expected = held(&graph, states.get(&stop).unwrap_or(&empty));
        for (table, rows) in &expected {
            let input =
                graph.nodes.iter().find(|n| matches!(&n.kind, NodeKind::Table(t) if t.table == *table));
            let seen = one.operators[&input.unwrap().name];
            let bytes = |row: &InputRow| match row {
                InputRow::Keyed { key, row } => key.as_bytes().len() + row.as_bytes().len(),
                InputRow::Counted { row, times } => row.as_bytes().len() * *times as usize,
            };
            let count = |row: &InputRow| match row {
                InputRow::Keyed { .. } => 1,
                InputRow::Counted { times, .. } => *times,
            };
            let held = (rows.iter().map(count).sum::<i64>(), rows.iter().map(bytes).sum::<usize>() as i64);
            assert_eq!((seen.state_rows, seen.state_bytes), held, "{table} {}", shown(&stop));
            let mut rows: Vec<String> = rows.iter().map(|r| format!("{r:?}")).collect();
            let mut have: Vec<String> = noted
                .remove(table)
                .unwrap_or_default()
                .into_iter()
                .map(|(key, (row, times))| match row {
                    Some(row) => format!("{:?}", InputRow::Keyed { key, row }),
                    None => format!("{:?}", InputRow::Counted { row: key, times }),
                })
                .collect();
            rows.sort();
            have.sort();
            assert_eq!(have, rows, "{table} {}", shown(&stop));
        }
        if speaks > stop {
            continue;
        }
        // with another number of workers, from what was held; the target is told nothing again
        let rest: Vec<Record> =
            records.iter().filter(|r| r.tick().is_some_and(|t| t > stop)).cloned().collect();
        let workers = 1 + random.below(3) as usize;
        let voice = Voice::of(Spoken { until: None, from: Some(speaks) });
        let mut two = run(&plan, &graph, rest, workers, (stop, Inputs::new(stop, expected, false)), voice);
        assert!(two.error.is_none(), "{}", two.error.unwrap());
        for (tick, tables) in states.range(stop + 1..) {
            target.apply(two.changes.remove(tick).unwrap_or_default());
            check(&graph, &views, &target, tables, &shown(tick));
        }
        assert!(two.changes.is_empty());
        // What operators hold is a matter of what there is, not of how it came about. (Views that were silent have not told what watches keys.)
        let (begin, voice) = afresh(1);
        let whole = run(&plan, &graph, records, 1, begin, voice);
        let held = |run: &Run| -> BTreeMap<String, (i64, i64)> {
            run.operators.iter().map(|(name, s)| (name.clone(), (s.state_rows, s.state_bytes))).collect()
        };
        assert_eq!(held(&two), held(&whole), "{}", shown(&stop));
    }
}

/// One of a history's tables is copied anew: its rows go at one tick, nothing is told of it for a while, and then its rows come.
fn copied_anew(
    records: Vec<Record>,
    states: &BTreeMap<Tick, Tables>,
    (at, from, whole): (usize, Tick, Tick),
) -> Vec<Record> {
    let schema = &schemas()[at];
    let is_ours = |record: &Record| match record {
        Record::Rows { batch, .. } => batch.schema.id == schema.id,
        Record::Schema { event, .. } => event.after.as_ref().is_some_and(|s| s.id == schema.id),
        Record::End { .. } => false,
    };
    let is_unseen = |tick: Tick| (from..=whole).contains(&tick);
    let mut out = Vec::new();
    let (mut is_emptied, mut has_come) = (false, false);
    for record in records {
        let Some(tick) = record.tick() else { continue };
        if tick == from && !std::mem::replace(&mut is_emptied, true) {
            let event = SchemaEvent {
                tick,
                origin: Origin::default(),
                statement: "ALTER TABLE".into(),
                changes: vec![SchemaChange::ResnapshotTable {
                    table: schema.id.clone(),
                    reason: "its rows move".into(),
                }],
                before: Some(schema.clone()),
                after: Some(schema.clone()),
            };
            out.push(Record::Schema { ordinal: 0, event: Arc::new(event) });
        }
        if is_unseen(tick) && is_ours(&record) {
            continue;
        }
        if tick == whole && matches!(record, Record::End { .. }) && !std::mem::replace(&mut has_come, true) {
            let rows = states[&whole][at].values().cloned().zip(100..);
            let changes: Vec<Change> = rows
                .map(|(row, ordinal)| Change {
                    tick,
                    ordinal,
                    op: Op::Read,
                    origin: 0,
                    before: None,
                    after: Some(row),
                })
                .collect();
            let batch = Batch { schema: schema.clone(), origins: vec![Origin::default()], changes };
            out.push(Record::Rows { worker: 0, batch: Arc::new(batch), guard: Guard::default() });
        }
        out.push(record);
    }
    out
}

#[test]
fn views_are_silent_while_a_table_is_copied_anew_and_say_then_what_has_become() {
    let views = views();
    // every other one is watched by a state of its own
    let flows = views.iter().zip([Upsert::Auto, Upsert::Force].into_iter().cycle());
    let flows = flows.map(|(view, upsert)| FlowPlan { upsert, ..flow(view) }).collect();
    let plan = plan(views.clone(), flows);
    let graph = graph_of(&views);
    for seed in seeds().flat_map(|seed| (0..3).map(move |i| seed * 100 + i)) {
        let mut random = Random(seed);
        let (records, states) = history(&mut random, 50);
        let at = random.below(3) as usize;
        let speaks = 1 + random.below(5);
        let from = 8 + random.below(10);
        let whole = from + random.below(8);
        let again = whole + 1 + random.below(5);
        let stop = from + random.below(again - from);
        let (first_workers, then_workers) = (1 + random.below(3) as usize, 1 + random.below(3) as usize);
        let shown = |tick: &Tick| {
            format!(
                "at tick {tick}, seed {seed}, {first_workers} then {then_workers} workers, speaking from {speaks}, table {at} copied from {from} to {whole}, speaking again from {again}, stopped behind {stop}"
            )
        };
        let records = copied_anew(records, &states, (at, from, whole));
        let voice = || {
            let voice = afresh(speaks).1;
            voice.hush(from);
            voice.speak(again);
            voice
        };
        let check_from = |changes: &mut BTreeMap<Tick, Vec<_>>, mut target: Target, after: Tick| {
            for (tick, tables) in states.range(after + 1..) {
                let changes = changes.remove(tick).unwrap_or_default();
                let is_silent = *tick < speaks || (from..again).contains(tick);
                assert!(!is_silent || changes.is_empty(), "{}", shown(tick));
                target.apply(changes);
                if !is_silent {
                    check(&graph, &views, &target, tables, &shown(tick));
                }
            }
        };
        let mut whole_run = run(&plan, &graph, records.clone(), first_workers, afresh(speaks).0, voice());
        assert!(whole_run.error.is_none(), "{}", whole_run.error.unwrap());
        let mut target = Target::default();
        for (tick, changes) in whole_run.changes.range(..from) {
            let copy = changes.iter().map(|(table, change)| (table.clone(), change.clone())).collect();
            assert!(*tick >= speaks);
            target.apply(copy);
        }
        check_from(&mut whole_run.changes, Target::default(), 0);
        // a start in between, from what the tables held then and in front of the copy
        let mut then = states[&stop].clone();
        if stop < whole {
            then[at].clear();
        }
        let inputs = Inputs::hushed(stop, held(&graph, &then), held(&graph, &states[&(from - 1)]));
        let rest: Vec<Record> = records.into_iter().filter(|r| r.tick().is_some_and(|t| t > stop)).collect();
        let mut two = run(&plan, &graph, rest, then_workers, (stop, inputs), Voice::of(voice().at(stop)));
        assert!(two.error.is_none(), "{}", two.error.unwrap());
        check_from(&mut two.changes, target, stop);
    }
}

/// Of rows that agree in a flow's key the greatest by a column stays, then by all columns: at every tick, on any number of workers, with a start in between.
#[test]
fn the_last_row_of_a_key_is_told_by_the_column_that_is_named() {
    let columns = [("id", "id"), ("customer", "customer"), ("amount", "amount"), ("coupon", "coupon")];
    let is_there = expr(ExprKind::IsNull { operand: Box::new(col("customer")), negated: true });
    let by_customer =
        view("by_customer", table("orders", "o"), vec![pick(&columns), ViewOp::Row(FlowOp::Where(is_there))]);
    let graph = graph_of(std::slice::from_ref(&by_customer));
    let thousandths = |value: Value<'_>| match value {
        Value::Decimal(text) => text.parse::<f64>().ok().map(|n| (n * 1000.0) as i64),
        _ => None,
    };
    // spaces at the end do not count in this collation
    let text = |value: Value<'_>| match value {
        Value::Text(text) => Some(text.trim_end().to_owned()),
        _ => None,
    };
    let greatest = |by: Option<&str>, rows: &[Row]| -> Row {
        let rank = |row: &&Row| {
            let id = match row.get(0) {
                Value::Int(id) => id,
                other => panic!("{other:?}"),
            };
            match by {
                Some("amount") => (thousandths(row.get(2)), None, id),
                Some(_) => (None, text(row.get(3)), id),
                None => (None, None, id),
            }
        };
        rows.iter().max_by_key(rank).unwrap().clone()
    };
    let mut conflicts = 0;
    for seed in seeds().flat_map(|seed| (0..6).map(move |i| seed * 10 + i)) {
        let by = [None, Some("amount"), Some("coupon")][seed as usize % 3];
        let named = by.map(|name| ColumnName { name: name.into(), span: 0..0 });
        let on_conflict = if seed % 2 == 0 { OnConflict::Last(named) } else { OnConflict::Log(named) };
        let to_key = FlowPlan { key: Some(vec!["customer".into()]), on_conflict, ..flow(&by_customer) };
        let plan = plan(vec![by_customer.clone()], vec![to_key]);
        let mut random = Random(seed);
        let (records, states) = history(&mut random, 60);
        let stop = 10 + random.below(40);
        let (first, rest): (Vec<Record>, Vec<Record>) =
            records.into_iter().partition(|r| r.tick().is_some_and(|t| t <= stop));
        let workers = || [1, 2, 3][(seed % 3) as usize];
        let (begin, voice) = afresh(1);
        let mut one = run(&plan, &graph, first, workers(), begin, voice);
        assert!(one.error.is_none(), "{}", one.error.unwrap());
        let inputs = Inputs::new(stop, held(&graph, &states[&stop]), false);
        let voice = Voice::of(Spoken { until: None, from: Some(1) });
        let mut two = run(&plan, &graph, rest, 1 + random.below(3) as usize, (stop, inputs), voice);
        assert!(two.error.is_none(), "{}", two.error.unwrap());
        let mut target = Target::default();
        for (tick, tables) in &states {
            let from = if *tick <= stop { &mut one.changes } else { &mut two.changes };
            target.apply(from.remove(tick).unwrap_or_default());
            let all = evaluate(&graph, &projected(&graph, tables)).unwrap().remove("by_customer").unwrap();
            let mut keys: BTreeMap<Row, Vec<Row>> = BTreeMap::new();
            for row in all {
                keys.entry(Row::pack([row.get(1)])).or_default().push(row);
            }
            conflicts += keys.values().filter(|rows| rows.len() > 1).count();
            let mut expected: Vec<Row> = keys.values().map(|rows| greatest(by, rows)).collect();
            expected.sort();
            assert_eq!(
                target.rows("by_customer"),
                expected,
                "by {by:?} at tick {tick}, seed {seed}, stopped behind {stop}"
            );
        }
    }
    assert!(conflicts > 100, "{conflicts}");
}
