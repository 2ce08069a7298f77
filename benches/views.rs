//! Views: upserts by key, and a join with a group-by, each against the map that one thread would keep.

use cdc_benches::table;
use cdc_benches::views::{
    CUSTOMERS, ITEMS, JOIN_VIEW, ORDERS, PLAIN_VIEW, bound, by_map, by_upserts, item_records, items, run,
    shop_records,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const CHANGES: u64 = 20_000;
const ORDERS_PER_RUN: i64 = 10_000;

fn views(c: &mut Criterion) {
    let mut group = c.benchmark_group("upsert");
    group.sample_size(20).throughput(Throughput::Elements(CHANGES));
    let all = items(CHANGES, 4000);
    group.bench_function("a map", |b| b.iter(|| by_map(&all)));
    group.bench_function("a changelog", |b| b.iter(|| by_upserts(&all)));
    let schema = table(ITEMS);
    let plain = bound(PLAIN_VIEW, std::slice::from_ref(&schema));
    group.bench_function("a view's table", |b| {
        b.iter_batched(
            || item_records(&schema, &all),
            |records| run(&plain, records, 1),
            BatchSize::LargeInput,
        );
    });
    group.finish();
    let mut group = c.benchmark_group("join");
    group.sample_size(20).throughput(Throughput::Elements(ORDERS_PER_RUN as u64));
    let join = bound(JOIN_VIEW, &[table(CUSTOMERS), table(ORDERS)]);
    for workers in [1, 2] {
        group.bench_function(format!("orders with customers, by region, {workers} workers"), |b| {
            b.iter_batched(
                || shop_records(1000, ORDERS_PER_RUN),
                |records| run(&join, records, workers),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, views);
criterion_main!(benches);
