//! Text: DDL statements (wanted: more than 100,000 a second), a pipeline file.

use cdc_benches::{NARROW, PIPELINE, narrow};
use cdc_core::TableSchema;
use cdc_core::catalog::{Catalog, Surroundings};
use cdc_core::diagnostic::Diagnostic;
use cdc_mysql::ddl::{Context, parse};
use cdc_mysql::structure::TableStructures;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
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
    let mut structures = TableStructures::new();
    structures.insert(TableSchema::clone(&narrow()), None);
    let mut group = c.benchmark_group("DDL");
    group.throughput(Throughput::Elements(1));
    for (name, statement) in [
        ("CREATE TABLE of 4 columns", NARROW),
        ("ADD COLUMN", "ALTER TABLE narrow ADD COLUMN note VARCHAR(40) NOT NULL DEFAULT 'none' AFTER k"),
        (
            "CHANGE",
            "ALTER TABLE narrow CHANGE c `text` VARCHAR(200) CHARACTER SET utf8mb4 NULL COMMENT 'it''s text'",
        ),
        ("RENAME COLUMN, DROP COLUMN", "ALTER TABLE narrow RENAME COLUMN k TO kind, DROP COLUMN pad"),
        ("RENAME TABLE", "RENAME TABLE narrow TO narrow_old, narrow_new TO narrow"),
        ("CREATE INDEX", "CREATE INDEX by_k ON narrow (k, c(10)) /* nobody's business */"),
        ("TRUNCATE", "TRUNCATE TABLE narrow"),
        ("GRANT", "GRANT SELECT, INSERT ON bench.* TO 'somebody'@'%'"),
    ] {
        group.bench_function(name, |b| b.iter(|| parse(statement, &context, &structures)));
    }
    group.finish();
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
