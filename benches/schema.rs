//! Schema changes: what a statement is for a target, and rows made to fit one that is not as the source.

use cdc_benches::{NARROW, WIDE, flow, narrow_row, table, wide_row};
use cdc_core::connector::{TargetBatch, TargetChange, TargetOp, TargetTable};
use cdc_core::event::Op;
use cdc_core::plan::program::BoundFlow;
use cdc_core::plan::{FlowPlan, SchemaChangeMode};
use cdc_core::schema::{Column, ColumnType, IntWidth, TableSchema};
use cdc_core::schema_change::{ColumnPosition, SchemaChange};
use cdc_core::{Row, Value};
use cdc_schema::derivator::{Question, Share, derive};
use cdc_schema::evolved::Evolved;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::collections::BTreeSet;
use std::sync::Arc;

const ROWS: i64 = 1000;

fn bound(flow: &FlowPlan, schema: &Arc<TableSchema>) -> BoundFlow {
    BoundFlow::bind(flow, schema).expect("a flow that binds")
}

/// From the statement's changes to those of the target.
fn derivation(c: &mut Criterion) {
    let wide = table(WIDE);
    let add = SchemaChange::AddColumn {
        table: wide.id.clone(),
        column: Column::new("note", ColumnType::Int { width: IntWidth::Int, unsigned: false }),
        position: ColumnPosition::After("name".into()),
    };
    let rename =
        SchemaChange::RenameColumn { table: wide.id.clone(), column: "amount".into(), to: "number".into() };
    let widen = SchemaChange::AlterColumnType {
        table: wide.id.clone(),
        column: "amount".into(),
        ty: ColumnType::Int { width: IntWidth::Big, unsigned: false },
        position: None,
    };
    let mut group = c.benchmark_group("derivation, 10 columns");
    group.throughput(Throughput::Elements(1));
    let refused = BTreeSet::new();
    for mode in [SchemaChangeMode::Evolve, SchemaChangeMode::Lenient, SchemaChangeMode::Ignore] {
        let flow = FlowPlan { on_schema_change: mode, ..flow(Vec::new()) };
        for (name, change) in [("add", &add), ("rename", &rename), ("widen", &widen)] {
            let after = Arc::new(change.apply_to(&wide).expect("a change that fits"));
            let (before, after) = (bound(&flow, &wide), bound(&flow, &after));
            let evolved = Evolved::of(before.target());
            let question = Question {
                flow: &flow,
                changes: std::slice::from_ref(change),
                before: Some(&before),
                after: Some(&after),
                share: &Share::Alone,
                evolved: Some(&evolved),
                taken: None,
                gone: None,
                refused: &refused,
            };
            group.bench_function(format!("{name}, {}", mode.name()), |b| b.iter(|| derive(&question)));
        }
    }
    group.finish();
}

fn batch(table: &Arc<TargetTable>, row: impl Fn(i64) -> Row) -> TargetBatch {
    let change = |i: i64| TargetChange {
        tick: 1,
        ordinal: i as u64,
        op: TargetOp::Upsert,
        source_op: Op::Update,
        key: Row::pack([Value::Int(i)]),
        row: Some(row(i)),
        before: None,
        origin: 0,
    };
    TargetBatch { table: table.clone(), origins: Arc::new([]), changes: (0..ROWS).map(change).collect() }
}

/// Rows into a target that is not as the source: one column is wider there, one is left out.
fn coercion(c: &mut Criterion) {
    let mut group = c.benchmark_group("coercion");
    group.throughput(Throughput::Elements(ROWS as u64));
    let flow = flow(Vec::new());
    type Rows = fn(i64) -> Row;
    for (name, statement, number, row) in
        [("narrow", NARROW, "k", narrow_row as Rows), ("wide", WIDE, "amount", wide_row as Rows)]
    {
        let schema = table(statement);
        let target = bound(&flow, &schema).target().clone();
        let batch = batch(&target, row);
        let evolved = Evolved::of(&target);
        // asked for each shape once; the answer is that batches pass as they are
        group.bench_function(format!("{name}, nothing differs"), |b| {
            b.iter(|| evolved.coercion(&batch.table).map(|coercion| coercion.is_none()));
        });
        let mut wider = evolved.clone();
        for column in wider.columns.iter_mut().filter(|c| *c.name == *number) {
            column.ty = ColumnType::Int { width: IntWidth::Big, unsigned: false };
        }
        let mut narrower = evolved.clone();
        for fed in narrower.feeds.iter_mut().flat_map(|f| &mut f.columns).filter(|f| *f.output == *number) {
            fed.target = None;
        }
        for (what, evolved) in [("one is wider", wider), ("one is left out", narrower)] {
            let coercion = evolved.coercion(&target).expect("a key that is fed").expect("a difference");
            group.bench_function(format!("{name}, {what}"), |b| {
                b.iter(|| coercion.batch(&batch).map(|b| b.changes.len()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, derivation, coercion);
criterion_main!(benches);
