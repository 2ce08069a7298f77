//! Rows: packing, reading, the key, a flow's program, the net changes of a tick, the exchange's codec.

use cdc_benches::{flow, narrow, narrow_row};
use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::{Change, Op, Origin};
use cdc_core::plan::program::BoundFlow;
use cdc_core::{Row, Value};
use cdc_materialize::net::net;
use cdc_mysql::binlog::rows::KeyExtractor;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

const ROWS: i64 = 1000;

fn rows(c: &mut Criterion) {
    let schema = narrow();
    let all: Vec<Row> = (0..ROWS).map(narrow_row).collect();
    let mut group = c.benchmark_group("rows");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("pack", |b| b.iter(|| (0..ROWS).map(narrow_row).for_each(|r| drop(black_box(r)))));
    group.bench_function("read every value", |b| {
        b.iter(|| all.iter().flat_map(Row::iter).filter(|v| !matches!(v, Value::Null)).count());
    });
    group.bench_function("key", |b| {
        let mut keys = KeyExtractor::new(&schema, &[0]);
        b.iter(|| all.iter().for_each(|r| drop(black_box(keys.key(r)))));
    });
    group.bench_function("program of a plain flow", |b| {
        let bound = BoundFlow::bind(&flow(Vec::new()), &schema).expect("a flow that binds");
        let origin = Origin::default();
        let changes: Vec<Change> = all
            .iter()
            .zip(1..)
            .map(|(row, ordinal)| Change {
                tick: 1,
                ordinal,
                op: Op::Update,
                origin: 0,
                before: Some(row.clone()),
                after: Some(row.clone()),
            })
            .collect();
        b.iter(|| {
            let mut out = Vec::with_capacity(changes.len());
            for change in &changes {
                bound.changes(change, &origin, 0, &mut out).expect("a row that fits");
            }
            out.len()
        });
    });
    group.bench_function("net, every key four times", |b| {
        let changes: Vec<TargetChange> = (0..ROWS)
            .map(|i| TargetChange {
                tick: 1,
                ordinal: i as u64,
                op: TargetOp::Upsert,
                source_op: Op::Update,
                key: Row::pack([Value::Int(i % (ROWS / 4))]),
                row: Some(all[i as usize].clone()),
                before: None,
                origin: 0,
            })
            .collect();
        let from = |change: &TargetChange| change.key.clone();
        b.iter(|| net(&from, changes.clone()).len());
    });
    group.bench_function("exchange codec, JSON as the slow bound", |b| {
        b.iter(|| serde_json::to_vec(&all).map(|v| v.len()));
    });
    group.finish();
}

criterion_group!(benches, rows);
criterion_main!(benches);
