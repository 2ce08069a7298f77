//! What the benches share: a table, its rows, a pipeline.

pub mod views;

use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::{FlowOp, FlowPlan, KeyConflict, SchemaChangeMode, TargetName};
use cdc_core::schema::TableSchema;
use cdc_core::value::{Date, DateTime};
use cdc_core::{Row, Value};
use cdc_mysql::ddl::{Context, parse_definition};
use cdc_mysql::structure::TableStructures;
use std::sync::Arc;

/// The narrow table of the project's measurements.
pub const NARROW: &str = "CREATE TABLE narrow (id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)";

/// Its structure.
pub fn narrow() -> Arc<TableSchema> {
    table(NARROW)
}

/// The wide table of the project's measurements.
pub const WIDE: &str = "CREATE TABLE wide (id BIGINT NOT NULL PRIMARY KEY, amount INT UNSIGNED NOT NULL, name VARCHAR(100) NOT NULL, \
  price DECIMAL(20,6) NULL, made DATETIME(6) NOT NULL, seen TIMESTAMP NULL, doc JSON NOT NULL, ratio DOUBLE NULL, digest BLOB NOT NULL, \
  state ENUM('new', 'open', 'paid', 'sent', 'done') NOT NULL)";

/// The structure that a CREATE TABLE makes.
///
/// # Panics
/// If it is none.
pub fn table(statement: &str) -> Arc<TableSchema> {
    let context = Context::mysql(90_700).in_database("bench");
    let definition = parse_definition(statement, &context, &TableStructures::new()).expect("a CREATE TABLE");
    Arc::new(definition.schema)
}

/// A row of the wide table.
pub fn wide_row(id: i64) -> Row {
    let date = Date { year: 2024, month: 1 + (id % 12) as u8, day: 1 + (id % 28) as u8 };
    Row::pack([
        Value::Int(id),
        Value::Int(id * 7 % 1000),
        Value::Text("größe 487932199-96439406143-93774651418".into()),
        Value::Decimal("-1999.000041".into()),
        Value::DateTime(DateTime { date, hour: 12, minute: 30, second: 5, micro: 250_000 }),
        Value::Null,
        Value::Json(r#"{"id": 1, "name": "22195207048", "tags": [1, "x", null], "ratio": 0.125}"#.into()),
        Value::Double(id as f64 / 8.0),
        Value::Bytes(vec![7; 64].into()),
        Value::Enum { index: 3, label: "paid".into() },
    ])
}

/// A row of the narrow table.
pub fn narrow_row(id: i64) -> Row {
    Row::pack([
        Value::Int(id),
        Value::Int(id * 7 % 1000),
        Value::Text("68487932199-96439406143-93774651418-41631865787-96406072701".repeat(2).into()),
        Value::Text("22195207048-70116052123-74140395089-76317954521-98694025897".into()),
    ])
}

/// A flow over it.
pub fn flow(ops: Vec<FlowOp>) -> FlowPlan {
    FlowPlan {
        name: "bench".into(),
        source: "src".into(),
        tables: TablePattern { database: None, table: NamePattern::glob("*") },
        ops,
        sink: "out".into(),
        target: TargetName::SameAsSource,
        key: None,
        on_schema_change: SchemaChangeMode::Lenient,
        include: Vec::new(),
        exclude: Vec::new(),
        backfill: true,
        soft_delete: None,
        view: None,
        upsert: Default::default(),
        on_conflict: Default::default(),
        key_conflict: KeyConflict::Refuse,
        span: 0..0,
    }
}

/// A pipeline of some forty lines.
pub const PIPELINE: &str = include_str!("../../examples/shop.cdc");
