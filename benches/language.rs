//! Text: a DDL statement, a pipeline file.

use cdc_benches::{NARROW, PIPELINE};
use cdc_core::TableSchema;
use cdc_core::catalog::{Catalog, Surroundings};
use cdc_core::diagnostic::Diagnostic;
use cdc_mysql::ddl::{Context, parse};
use cdc_mysql::structure::TableStructures;
use criterion::{Criterion, criterion_group, criterion_main};
use std::collections::BTreeMap;

struct Nothing;

impl Surroundings for Nothing {
    fn environment(&self, _: &str) -> Option<String> {
        Some("secret".into())
    }

    fn schema_file(&self, _: &str, _: Option<&str>) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
        Ok(Vec::new())
    }
}

fn language(c: &mut Criterion) {
    let context = Context::mysql(90_700).in_database("bench");
    let structures = TableStructures::new();
    c.bench_function("DDL: CREATE TABLE of 4 columns", |b| b.iter(|| parse(NARROW, &context, &structures)));
    let parameters = BTreeMap::new();
    let connectors = [cdc_mysql::descriptor::descriptor()];
    let catalog = Catalog {
        connectors: &connectors,
        parameters: &parameters,
        surroundings: &Nothing,
        lenient_environment: true,
    };
    c.bench_function("compile a pipeline file", |b| b.iter(|| cdc_dsl::compile(PIPELINE, &catalog)));
    c.bench_function("format a pipeline file", |b| b.iter(|| cdc_dsl::format(PIPELINE)));
}

criterion_group!(benches, language);
criterion_main!(benches);
