//! Random histories of a table without a key, through the dataflow and the committer into SQLite, with one, two and three
//! workers, against a count of rows.

use super::*;
use crate::job::Stop;
use cdc_core::Value;
use cdc_core::connector::JobIdentity;
use cdc_core::event::{Batch, Change, Op, Origin, SchemaEvent};
use cdc_core::expr::{BinaryOp, Expr, ExprKind, MetaField};
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::program::RowMeta;
use cdc_core::plan::{
    CheckpointPlan, FlowOp, KeyConflict, NamedExpr, OptionValue, Options, Plan, SchemaChangeMode, SelectItem,
    SinkPlan, SourcePlan, TargetName,
};
use cdc_core::position::Position;
use cdc_core::schema::{Charset, ColumnType, IntWidth, TableSchema};
use cdc_core::schema_change::SchemaChange;
use cdc_materialize::record::{Guard, Record};
use cdc_materialize::render::{Counters, Ports, SourcePort, render};

/// xorshift64*; a seed is a test case.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

fn log(name: &str) -> Arc<TableSchema> {
    let text = ColumnType::VarChar { length: 20, charset: Charset::utf8mb4() };
    Arc::new(TableSchema {
        id: TableId::new("shop", name),
        version: 1,
        columns: vec![
            Column::new("a", ColumnType::Int { width: IntWidth::Int, unsigned: false }),
            Column::new("b", text),
            Column::new("c", ColumnType::Double { unsigned: false }),
        ],
        primary_key: vec![],
        unique_keys: vec![],
        charset: Charset::utf8mb4(),
        comment: String::new(),
    })
}

/// Few values, so that rows are equal, and some that SQLite holds for equal and are not.
fn any_row(random: &mut Random) -> Row {
    let a = [Value::Null, Value::Int(1), Value::Int(2), Value::Int(3)];
    let b = [Value::Null, Value::Text("x".into()), Value::Text("X".into()), Value::Text("".into())];
    let c = [Value::Null, Value::Double(0.0), Value::Double(-0.0)];
    Row::pack([
        a[random.below(a.len())].clone(),
        b[random.below(b.len())].clone(),
        c[random.below(c.len())].clone(),
    ])
}

type Rows = BTreeMap<Row, u64>;

fn add(rows: &mut Rows, row: &Row) {
    *rows.entry(row.clone()).or_default() += 1;
}

fn take(rows: &mut Rows, row: &Row) {
    let count = rows.get_mut(row).expect("a row that is there");
    *count -= 1;
    if *count == 0 {
        rows.remove(row);
    }
}

fn pick(rows: &Rows, random: &mut Random) -> Option<Row> {
    let total: u64 = rows.values().sum();
    let mut at = random.below(usize::try_from(total.max(1)).expect("few")) as u64;
    rows.iter().find_map(|(row, count)| match at.checked_sub(*count) {
        None => Some(row.clone()),
        Some(rest) => {
            at = rest;
            None
        }
    })
}

/// What a source gives out, and what it holds in the end.
struct History {
    schema: Arc<TableSchema>,
    records: Vec<Record>,
    rows: Rows,
    tick: Tick,
    ordinal: u64,
}

impl History {
    fn new(name: &str) -> History {
        History { schema: log(name), records: Vec::new(), rows: Rows::new(), tick: 1, ordinal: 0 }
    }

    fn changes(&mut self, changes: Vec<(Op, Option<Row>, Option<Row>)>) {
        let changes = changes
            .into_iter()
            .map(|(op, before, after)| {
                before.iter().for_each(|row| take(&mut self.rows, row));
                after.iter().for_each(|row| add(&mut self.rows, row));
                self.ordinal += 1;
                Change { tick: self.tick, ordinal: self.ordinal, op, origin: 0, before, after }
            })
            .collect();
        let batch = Batch { schema: self.schema.clone(), origins: vec![Origin::default()], changes };
        self.records.push(Record::Rows { worker: 0, batch: Arc::new(batch), guard: Guard::default() });
    }

    fn random(&mut self, random: &mut Random, count: usize) {
        for _ in 0..count {
            let there = pick(&self.rows, random);
            let new = any_row(random);
            let change = match (random.below(5), there) {
                (0 | 1, _) | (_, None) => (Op::Insert, None, Some(new)),
                (2, Some(old)) => (Op::Update, Some(old), Some(new)),
                (_, Some(old)) => (Op::Delete, Some(old), None),
            };
            self.changes(vec![change]);
        }
    }

    fn end(&mut self) {
        let position =
            Position { gtids: "".into(), file: "binlog.000001".into(), offset: self.tick, rows: 0 };
        let binding = Binding { positions: [("src".to_owned(), position)].into() };
        self.records.push(Record::End { tick: self.tick, binding: Arc::new(binding) });
        self.tick += 1;
        self.ordinal = 0;
    }

    /// The table is emptied and all its rows come again, as after a copy that was interrupted.
    fn again(&mut self) {
        let change = SchemaChange::ResnapshotTable { table: self.schema.id.clone(), reason: "no key".into() };
        let event = SchemaEvent {
            tick: self.tick,
            origin: Origin::default(),
            statement: "".into(),
            changes: vec![change],
            before: Some(self.schema.clone()),
            after: Some(self.schema.clone()),
        };
        self.records.push(Record::Schema { ordinal: 1, event: Arc::new(event) });
        self.end();
        let rows: Vec<Row> = std::mem::take(&mut self.rows)
            .into_iter()
            .flat_map(|(row, n)| std::iter::repeat_n(row, usize::try_from(n).expect("few")))
            .collect();
        for part in rows.chunks(7) {
            self.changes(part.iter().map(|row| (Op::Read, None, Some(row.clone()))).collect());
            self.end();
        }
    }
}

struct Port1(mpsc::Receiver<Record>);

impl SourcePort for Port1 {
    fn connect(&mut self, _: SyncActivator) {}

    fn first(&self) -> Tick {
        1
    }

    fn poll(&mut self) -> Result<Option<Record>, ()> {
        self.0.recv().map(Some).map_err(|_| ())
    }
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: 0..0 }
}

/// Plain; or filtered, with a column less, so that rows become equal, and one more.
fn flow(operators: bool) -> FlowPlan {
    let column = |name: &str| expr(ExprKind::Column(name.into()));
    let named = |name: &str, expr: Expr| NamedExpr { name: name.into(), expr };
    let one = expr(ExprKind::Literal(Value::Int(1)));
    let ops = vec![
        FlowOp::Where(expr(ExprKind::Binary(
            BinaryOp::NotEqual,
            Box::new(expr(ExprKind::Call("coalesce".into(), vec![column("a"), one.clone()]))),
            Box::new(expr(ExprKind::Literal(Value::Int(2)))),
        ))),
        FlowOp::Select(vec![
            SelectItem::Expr(named("b", column("b"))),
            SelectItem::Expr(named("t", expr(ExprKind::Meta(MetaField::Table)))),
        ]),
    ];
    FlowPlan {
        name: "f".into(),
        source: "src".into(),
        tables: TablePattern { database: None, table: NamePattern::glob("*") },
        ops: if operators { ops } else { Vec::new() },
        sink: "dw".into(),
        target: TargetName::SameAsSource,
        key: None,
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

fn plan(flow: FlowPlan) -> Arc<Plan> {
    let path = OptionValue::Text("dw.db".into());
    Arc::new(Plan {
        name: "p".into(),
        checkpoint: CheckpointPlan { dir: "state".into(), every_ms: 1000 },
        on_schema_change: SchemaChangeMode::Lenient,
        time_zone: "UTC".into(),
        sources: vec![SourcePlan {
            name: "src".into(),
            connector: "mysql".into(),
            options: Options::default(),
            span: 0..0,
        }],
        sinks: vec![SinkPlan {
            name: "dw".into(),
            connector: "sqlite".into(),
            options: Options([("path".to_owned(), path)].into()),
            span: 0..0,
        }],
        views: Vec::new(),
        flows: vec![flow],
        tests: Vec::new(),
    })
}

/// Runs a history; what the target holds must be what the flow makes of the source's rows.
fn follows(history: History, flow: FlowPlan, workers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(flow.clone());
    let mut sink = cdc_sinks::registry::open(&plan.sinks[0], folder.path()).unwrap();
    let job = JobIdentity { pipeline: "p".into(), sink: "dw".into(), job_id: "j".into(), run: "r".into() };
    sink.inspect(&job).unwrap();
    sink.claim(&job).unwrap();
    let failure = Arc::new(Failure::default());
    let counters = Arc::new(Counters::default());
    let (to, inbox) = mpsc::channel();
    let shared = SinkShared::new(0, failure.clone());
    let (status, _messages) = StatusHandle::new();
    let flows = Arc::new(vec![flow.clone()]);
    let committer = Committer {
        back: Arc::default(),
        name: "dw".into(),
        feeds: Feeds::new(&flows, "dw", std::slice::from_ref(&history.schema)),
        flows,
        workers,
        resumed: 0,
        shared: shared.clone(),
        notes_bindings: false,
        state: Arc::new(Mutex::new(StateDir::open(&folder.path().join("state")).unwrap())),
        registry: Arc::default(),
        refusals: BTreeMap::new(),
        feeds_before: None,
        status,
        stop: Stop::default(),
        sink,
    };
    let thread = std::thread::spawn(move || committer.run(&inbox));
    let (send, receive) = mpsc::channel();
    history.records.into_iter().for_each(|record| send.send(record).unwrap());
    drop(send);
    let receive = Mutex::new(Some(receive));
    let to = Mutex::new(to);
    let failed = failure.clone();
    let guards = timely::execute(timely::Config::process(workers), move |worker| {
        let mut ports = Ports {
            by_table: Default::default(),
            sources: BTreeMap::new(),
            sinks: BTreeMap::new(),
            failure: failure.clone(),
            counters: counters.clone(),
            views: Arc::default(),
            inputs: Arc::default(),
            voice: Arc::default(),
            notices: Arc::default(),
        };
        if worker.index() == 0
            && let Some(receive) = receive.lock().unwrap().take()
        {
            ports.sources.insert("src".into(), Box::new(Port1(receive)));
        }
        let port = Port { worker: worker.index(), to: to.lock().unwrap().clone(), shared: shared.clone() };
        ports.sinks.insert("dw".into(), (cdc_core::connector::Delivery::Net, Box::new(port)));
        let (probe, _) = render(worker, &plan, ports);
        while !probe.done() {
            worker.step_or_park(Some(Duration::from_millis(5)));
        }
    })
    .unwrap();
    guards.join().into_iter().for_each(|ended| ended.unwrap());
    thread.join().unwrap();
    if let Some(error) = failed.get() {
        panic!("{error}");
    }
    let bound = BoundFlow::bind(&flow, &history.schema).unwrap();
    let plan = self::plan(flow);
    let mut reader = cdc_sinks::registry::reader(&plan.sinks[0], folder.path()).unwrap().unwrap();
    let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let origin = Origin::default();
    let meta = RowMeta { op: Op::Read, table: &history.schema.id, origin: &origin };
    for (row, count) in &history.rows {
        if let Some(output) = bound.apply(row, &meta).unwrap() {
            *expected.entry(reader.encode_key(bound.target(), &output)).or_default() += count;
        }
    }
    let mut found: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    reader
        .scan_keys(bound.target(), &mut |row, _| {
            *found.entry(row).or_default() += 1;
            true
        })
        .unwrap();
    assert_eq!(found, expected, "{workers} workers");
}

#[test]
fn random_histories_end_as_the_source() {
    for seed in 1..=24 {
        for workers in 1..=3 {
            let mut random = Random(seed);
            let mut history = History::new("log");
            for _ in 0..40 {
                match random.below(20) {
                    0 => history.again(),
                    _ => {
                        let count = [1, 2, 5, 40][random.below(4)];
                        history.random(&mut random, count);
                        history.end();
                    }
                }
            }
            follows(history, flow(seed % 2 == 0), workers);
        }
    }
}

/// A transaction that is written in parts: rows that come in one go in another.
#[test]
fn a_tick_that_is_written_in_parts_finds_its_rows() {
    for workers in [1, 3] {
        let mut history = History::new("log");
        let mut random = Random(9);
        let row = |i: usize| Row::pack([Value::Int(i as i64 % 30_000), Value::Null, Value::Null]);
        for part in (0..60_000).collect::<Vec<usize>>().chunks(1000) {
            history.changes(part.iter().map(|i| (Op::Insert, None, Some(row(*i)))).collect());
        }
        for part in (0..30_000).collect::<Vec<usize>>().chunks(1000) {
            let change = |i: &usize| match random.below(2) {
                0 => (Op::Delete, Some(row(*i)), None),
                _ => (Op::Update, Some(row(*i)), Some(row(*i + 1))),
            };
            history.changes(part.iter().map(change).collect());
        }
        history.end();
        follows(history, flow(false), workers);
    }
}
