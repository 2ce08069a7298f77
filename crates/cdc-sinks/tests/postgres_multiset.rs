//! PostgreSQL as a target of tables without a key: rows are counted, not keyed.

mod common;

use cdc_core::connector::{Sink, TargetChange, TargetOp, TargetTable};
use cdc_core::event::Op;
use cdc_core::schema::{Column, ColumnType};
use cdc_core::value::Value;
use cdc_core::{Row, codes};
use common::postgres::Target;
use common::*;
use std::sync::Arc;

/// `log (line VARCHAR, n INT, x DOUBLE)`, nothing of it NOT NULL or unique.
fn log() -> Arc<TargetTable> {
    let double = ColumnType::Double { unsigned: false };
    let columns = vec![Column::new("line", varchar()), Column::new("n", int()), Column::new("x", double)];
    table("log", columns, &[])
}

fn line(text: Value<'static>, n: i64, x: f64) -> Row {
    Row::pack([text, Value::Int(n), Value::Double(x)])
}

fn change(tick: u64, op: TargetOp, row: &Row) -> TargetChange {
    TargetChange {
        tick,
        ordinal: 0,
        op,
        source_op: if op == TargetOp::Delete { Op::Delete } else { Op::Insert },
        key: row.clone(),
        row: (op == TargetOp::Upsert).then(|| row.clone()),
        before: (op == TargetOp::Delete).then(|| row.clone()),
        origin: 0,
    }
}

fn plus(tick: u64, row: &Row) -> TargetChange {
    change(tick, TargetOp::Upsert, row)
}

fn minus(tick: u64, row: &Row) -> TargetChange {
    change(tick, TargetOp::Delete, row)
}

fn write(sink: &mut dyn Sink, table: &Arc<TargetTable>, tick: u64, changes: Vec<TargetChange>) {
    sink.prepare(table).unwrap();
    sink.write(&batch(table, changes)).unwrap();
    sink.commit(tick, &binding(tick)).unwrap();
}

fn an_existing_table_must_be_able_to_hold_equal_rows(target: &Target) {
    let case = target.case();
    let declared = "line text, n int, x float8";
    let make = |sql: &str| case.sql(&format!("DROP TABLE IF EXISTS log; {sql}"));
    let check = |sql: &str| {
        make(sql);
        let mut sink = case.sink();
        sink.inspect(&job("run")).unwrap();
        sink.check(&log())
    };
    check(&format!("CREATE TABLE log ({declared})")).unwrap();
    check(&format!("CREATE TABLE log ({declared}, theirs text); CREATE INDEX i ON log (n)")).unwrap();
    let unique = format!("CREATE TABLE log ({declared}); CREATE UNIQUE INDEX u ON log (n, line)");
    refused(check(&unique), codes::TARGET_SHAPE, &["equal rows are to be kept", "DROP INDEX", "\"u\""]);
    let inside = format!("CREATE TABLE log ({declared}, UNIQUE (n))");
    refused(check(&inside), codes::TARGET_SHAPE, &["(\"n\") is unique there"]);
    let key = "CREATE TABLE log (line text, n int PRIMARY KEY, x float8)";
    refused(check(key), codes::TARGET_SHAPE, &["(\"n\") is unique there; ours has no key"]);
    let parts = format!("CREATE TABLE log ({declared}) PARTITION BY HASH (n)");
    refused(check(&parts), codes::TARGET_SHAPE, &["partitioned"]);
    // the other way: rows with a key need one
    make(&format!("CREATE TABLE log ({declared})"));
    let keyed = table("log", log().schema.columns.clone(), &[1]);
    refused(case.sink().check(&keyed), codes::TARGET_SHAPE, &["it has no key"]);
}

fn an_index_and_a_collation_of_the_users_change_nothing_but_speed(target: &Target) {
    let case = target.case();
    case.server
        .admin(
            "CREATE COLLATION public.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        )
        .unwrap();
    case.sql(
        "CREATE TABLE log (line text COLLATE ci, n int, x float8, theirs text DEFAULT 'new');
         CREATE INDEX by_line ON log (line, n)",
    );
    let (table, mut sink) = (log(), case.claimed());
    let rows: Vec<Row> =
        (0..20).map(|i| line(text(if i % 2 == 0 { "a" } else { "A" }), i / 4, -0.0)).collect();
    write(&mut *sink, &table, 1, rows.iter().map(|row| plus(1, row)).collect());
    write(&mut *sink, &table, 2, rows.iter().step_by(2).map(|row| minus(2, row)).collect());
    assert_eq!(case.sql("SELECT DISTINCT line COLLATE \"C\", theirs FROM log"), ["A|new"]);
    assert_eq!(case.sql("SELECT COUNT(*) FROM log"), ["10"]);
    // a type without equality
    let columns = vec![Column::new("j", ColumnType::Json), Column::new("n", int())];
    let json = common::table("json", columns, &[]);
    let row = |text: &'static str| Row::pack([Value::Json(text.into()), Value::Int(1)]);
    write(&mut *sink, &json, 3, ["{}", "{ }", "{}"].map(|t| plus(3, &row(t))).to_vec());
    write(&mut *sink, &json, 4, vec![minus(4, &row("{}")), minus(4, &row("{}"))]);
    assert_eq!(case.sql("SELECT j FROM json"), ["{ }"]);
}

/// One server for both.
#[test]
fn tables_of_the_users_hold_equal_rows_or_are_refused() {
    let target = Target::start();
    an_existing_table_must_be_able_to_hold_equal_rows(&target);
    an_index_and_a_collation_of_the_users_change_nothing_but_speed(&target);
}
