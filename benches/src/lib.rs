//! What the benches share: a table, its rows, a pipeline.

use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::{FlowOp, FlowPlan, SchemaChangeMode, TargetName};
use cdc_core::schema::TableSchema;
use cdc_core::{Row, Value};
use cdc_mysql::ddl::{Context, parse_definition};
use cdc_mysql::structure::TableStructures;
use std::sync::Arc;

/// The narrow table of the project's measurements.
pub const NARROW: &str = "CREATE TABLE narrow (id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL)";

/// Its structure.
///
/// # Panics
/// Never: the statement is a constant.
pub fn narrow() -> Arc<TableSchema> {
    let context = Context::mysql(90_700).in_database("bench");
    let definition = parse_definition(NARROW, &context, &TableStructures::new()).expect("a CREATE TABLE");
    Arc::new(definition.schema)
}

/// A row of it.
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
        last_of_key: false,
        span: 0..0,
    }
}

/// A pipeline of some forty lines.
pub const PIPELINE: &str = include_str!("../../examples/shop.cdc");
