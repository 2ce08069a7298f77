//! SQLite as a target of tables without a key: rows are counted, not keyed.

mod common;

use cdc_core::connector::{Sink, TargetChange, TargetOp, TargetTable};
use cdc_core::event::Op;
use cdc_core::schema::{Column, ColumnType};
use cdc_core::value::Value;
use cdc_core::{Row, codes};
use common::*;
use std::sync::Arc;
use tempfile::tempdir;

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

#[test]
fn an_existing_table_must_be_able_to_hold_equal_rows() {
    let folder = tempdir().unwrap();
    let declared = "line TEXT, n INTEGER, x DOUBLE_BLOB";
    let make =
        |sql: &str| user(folder.path()).execute_batch(&format!("DROP TABLE IF EXISTS log; {sql}")).unwrap();
    let check = |sql: &str| {
        make(sql);
        let mut sink = sqlite(folder.path());
        sink.inspect(&job("run")).unwrap();
        sink.check(&log())
    };
    check(&format!("CREATE TABLE log ({declared})")).unwrap();
    check(&format!("CREATE TABLE log ({declared}, theirs TEXT); CREATE INDEX i ON log (n)")).unwrap();
    let unique = format!("CREATE TABLE log ({declared}); CREATE UNIQUE INDEX u ON log (n, line)");
    refused(check(&unique), codes::TARGET_SHAPE, &["equal rows are to be kept", "DROP INDEX \"u\";"]);
    let inside = format!("CREATE TABLE log ({declared}, UNIQUE (n))");
    refused(check(&inside), codes::TARGET_SHAPE, &["(\"n\") is unique there"]);
    let key = "CREATE TABLE log (line TEXT, n INTEGER PRIMARY KEY, x DOUBLE_BLOB)";
    refused(check(key), codes::TARGET_SHAPE, &["its key is (\"n\"), ours has none"]);
    let key = "CREATE TABLE log (line TEXT PRIMARY KEY, n INTEGER, x DOUBLE_BLOB) WITHOUT ROWID";
    refused(check(key), codes::TARGET_SHAPE, &["its key is (\"line\"), ours has none"]);
    // the other way: rows with a key need one
    make(&format!("CREATE TABLE log ({declared})"));
    let keyed = table("log", log().schema.columns.clone(), &[1]);
    refused(sqlite(folder.path()).check(&keyed), codes::TARGET_SHAPE, &["it has no key"]);
}

#[test]
fn columns_named_as_the_row_number_are_columns() {
    let folder = tempdir().unwrap();
    let mut sink = claimed(folder.path());
    let of = |names: &[&str]| table("t", names.iter().map(|n| Column::new(*n, int())).collect(), &[]);
    let row = |n: usize| Row::pack((0..n).map(|_| Value::Int(7)));
    let table = of(&["ROWID", "oid"]);
    write(&mut *sink, &table, 1, vec![plus(1, &row(2)), plus(1, &row(2))]);
    write(&mut *sink, &table, 2, vec![minus(2, &row(2))]);
    assert_eq!(query(folder.path(), "SELECT * FROM t"), ["7|7"]);
    let hidden = TargetTable { name: "h".into(), ..(*of(&["rowid", "oid", "_rowid_"])).clone() };
    user(folder.path())
        .execute_batch("CREATE TABLE h (rowid INTEGER, oid INTEGER, _rowid_ INTEGER)")
        .unwrap();
    refused(sink.check(&hidden), codes::TARGET_SHAPE, &["hide the row number"]);
    user(folder.path()).execute_batch("DROP TABLE h").unwrap();
    let hidden = Arc::new(hidden);
    refused(sink.prepare(&hidden), codes::TARGET_SHAPE, &["hide the row number"]);
}

#[test]
fn an_index_and_a_collation_of_the_users_change_nothing_but_speed() {
    let folder = tempdir().unwrap();
    user(folder.path())
        .execute_batch(
            "CREATE TABLE log (line TEXT COLLATE NOCASE, n INTEGER, x REAL, theirs TEXT DEFAULT 'new');
             CREATE INDEX by_line ON log (line COLLATE BINARY, n)",
        )
        .unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let rows: Vec<Row> =
        (0..20).map(|i| line(text(if i % 2 == 0 { "a" } else { "A" }), i / 4, -0.0)).collect();
    write(&mut *sink, &table, 1, rows.iter().map(|row| plus(1, row)).collect());
    write(&mut *sink, &table, 2, rows.iter().step_by(2).map(|row| minus(2, row)).collect());
    assert_eq!(query(folder.path(), "SELECT DISTINCT line COLLATE BINARY, theirs FROM log"), ["A|new"]);
    assert_eq!(query(folder.path(), "SELECT COUNT(*) FROM log"), ["10"]);
}
