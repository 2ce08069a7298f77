//! What the sink tests share.
#![allow(dead_code)]

pub mod postgres;

use cdc_core::connector::{
    JobIdentity, Sink, TargetBatch, TargetChange, TargetOp, TargetReader, TargetSchemaChange, TargetTable,
};
use cdc_core::event::{Op, Origin};
use cdc_core::plan::{OptionValue, Options, SinkPlan};
use cdc_core::position::{Binding, Position};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, LobSize, TableId, TableSchema};
use cdc_core::value::{Date, DateTime, Time, Value};
use cdc_core::{Error, Row};
use std::path::Path;
use std::sync::Arc;

pub fn int() -> ColumnType {
    ColumnType::Int { width: IntWidth::Int, unsigned: false }
}

pub fn bigint(unsigned: bool) -> ColumnType {
    ColumnType::Int { width: IntWidth::Big, unsigned }
}

pub fn varchar() -> ColumnType {
    ColumnType::VarChar { length: 100, charset: Charset::utf8mb4() }
}

pub fn binary_varchar() -> ColumnType {
    ColumnType::VarChar { length: 100, charset: Charset::new("utf8mb4", "utf8mb4_bin") }
}

pub fn decimal(precision: u8, scale: u8) -> ColumnType {
    ColumnType::Decimal { precision, scale, unsigned: false }
}

/// A table named `name` of database `shop`; key columns by index.
pub fn table(name: &str, columns: Vec<Column>, key: &[usize]) -> Arc<TargetTable> {
    let schema = TableSchema {
        id: TableId::new("shop", name),
        version: 1,
        columns,
        primary_key: key.to_vec(),
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    };
    Arc::new(TargetTable {
        name: name.to_owned(),
        schema: Arc::new(schema),
        key: key.to_vec(),
        soft_delete: None,
        told_by: None,
    })
}

/// `orders (id INT, note VARCHAR)`.
pub fn orders() -> Arc<TargetTable> {
    table("orders", vec![Column::new("id", int()).not_null(), Column::new("note", varchar())], &[0])
}

/// Rows of three source tables, whose names differ in letter case too; n tells them in the order of [`shard_rows`].
pub fn shards() -> Arc<TargetTable> {
    let columns = vec![
        Column::new("id", int()).not_null(),
        Column::new("n", int()),
        Column::new("shard", varchar()),
        Column::new("note", varchar()),
        Column::new("copy", varchar()),
    ];
    table("shards", columns, &[0])
}

/// What is there before [`changes_of_one_shard`].
pub fn shard_rows() -> Vec<Row> {
    let row = |(n, shard): (usize, &&str)| {
        let n = n as i64;
        Row::pack([Value::Int(n), Value::Int(n), text(shard), text("own"), text("old")])
    };
    ["a", "A", "it's", "a", "A", "it's"].iter().enumerate().map(row).collect()
}

/// One column is filled for shard `A`, one reads its default in `it's`, and the rows of `a` go.
pub fn changes_of_one_shard(sink: &mut dyn Sink) {
    let only = |shard: &str| vec![(Column::new("shard", varchar()), Row::pack([text(shard)]))];
    let note = Column { default: Some("'new'".into()), ..Column::new("note", varchar()) };
    let name = || "shards".to_owned();
    for change in [
        TargetSchemaChange::FillColumn {
            table: name(),
            from: "note".into(),
            to: "copy".into(),
            was: None,
            only: only("A"),
        },
        TargetSchemaChange::ResetColumn { table: name(), column: note, implicit: false, only: only("it's") },
        TargetSchemaChange::ResetColumn {
            table: name(),
            column: Column::new("n", int()).not_null(),
            implicit: false,
            only: only("A"),
        },
        TargetSchemaChange::RemoveRows {
            table: name(),
            source: TableId::new("shop", "a"),
            only: only("a"),
            again: false,
        },
    ] {
        sink.apply(&change).unwrap();
    }
    sink.commit(2, &binding(2)).unwrap();
}

/// What is there then: shard, id, note, copy, n. (A column without default that is NOT NULL reads 0.)
pub const SHARDS_AFTER: [&str; 4] =
    ["A|1|own|own|0", "A|4|own|own|0", "it's|2|new|old|2", "it's|5|new|old|5"];

pub fn text(t: &str) -> Value<'static> {
    Value::Text(t.to_owned().into())
}

pub fn order(id: i64, note: &str) -> Row {
    Row::pack([Value::Int(id), text(note)])
}

pub fn key_of(table: &TargetTable, row: &Row) -> Row {
    Row::pack(table.key.iter().map(|i| row.get(*i)))
}

pub fn upsert(table: &TargetTable, tick: u64, row: &Row) -> TargetChange {
    TargetChange {
        tick,
        ordinal: 0,
        op: TargetOp::Upsert,
        source_op: Op::Insert,
        key: key_of(table, row),
        row: Some(row.clone()),
        before: None,
        origin: 0,
    }
}

pub fn delete(tick: u64, key: Row) -> TargetChange {
    TargetChange {
        tick,
        ordinal: 0,
        op: TargetOp::Delete,
        source_op: Op::Delete,
        key,
        row: None,
        before: None,
        origin: 0,
    }
}

pub fn batch(table: &Arc<TargetTable>, mut changes: Vec<TargetChange>) -> TargetBatch {
    for (i, change) in changes.iter_mut().enumerate() {
        change.ordinal = i as u64;
    }
    let origin = Origin {
        timestamp_micros: 1_767_225_600_000_000,
        gtid: "3e11fa47-71ca-11e1-9e33-c80aa9429562:5".into(),
        file: "binlog.000003".into(),
        offset: 1234,
        snapshot: false,
    };
    TargetBatch { table: table.clone(), origins: Arc::new([origin]), changes }
}

pub fn upserts(table: &Arc<TargetTable>, tick: u64, rows: &[Row]) -> TargetBatch {
    batch(table, rows.iter().map(|r| upsert(table, tick, r)).collect())
}

pub fn binding(offset: u64) -> Binding {
    let position = Position { gtids: "a:1-5".into(), file: "binlog.000001".into(), offset, rows: 0 };
    Binding { positions: [("src".to_owned(), position)].into() }
}

pub fn job(run: &str) -> JobIdentity {
    JobIdentity { pipeline: "shop".into(), sink: "dw".into(), job_id: "job-1".into(), run: run.into() }
}

pub fn plan(connector: &str, options: &[(&str, &str)]) -> SinkPlan {
    let options = options.iter().map(|(k, v)| ((*k).to_owned(), OptionValue::Text((*v).to_owned())));
    SinkPlan {
        name: "dw".into(),
        connector: connector.into(),
        options: Options(options.collect()),
        span: 0..0,
    }
}

pub fn sqlite(folder: &Path) -> Box<dyn Sink> {
    cdc_sinks::open(&plan("sqlite", &[("path", "dw.db")]), folder).unwrap()
}

pub fn claimed(folder: &Path) -> Box<dyn Sink> {
    let mut sink = sqlite(folder);
    sink.inspect(&job("run 1")).unwrap();
    sink.claim(&job("run 1")).unwrap();
    sink
}

pub fn reader(folder: &Path) -> Box<dyn TargetReader> {
    cdc_sinks::reader(&plan("sqlite", &[("path", "dw.db")]), folder).unwrap().unwrap()
}

/// The user's own connection to the target.
pub fn user(folder: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.join("dw.db")).unwrap()
}

/// Writes a tick and commits it: once.
pub fn done(sink: &mut dyn Sink, tick: cdc_core::tick::Tick, batches: &[TargetBatch]) -> Result<(), Error> {
    batches
        .iter()
        .try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b)))
        .and_then(|()| sink.commit(tick, &binding(tick)))
}

/// All rows of a statement, each as its values with `|` between them.
pub fn query(folder: &Path, sql: &str) -> Vec<String> {
    let db = user(folder);
    let mut statement = db.prepare(sql).unwrap();
    let n = statement.column_count();
    let rows = statement.query_map([], |r| {
        let show = |i| match r.get_ref(i).unwrap() {
            rusqlite::types::ValueRef::Null => "NULL".to_owned(),
            rusqlite::types::ValueRef::Integer(v) => v.to_string(),
            rusqlite::types::ValueRef::Real(v) => format!("{v:?}"),
            rusqlite::types::ValueRef::Text(v) => String::from_utf8_lossy(v).into_owned(),
            rusqlite::types::ValueRef::Blob(v) => format!("{v:02x?}"),
        };
        Ok((0..n).map(show).collect::<Vec<_>>().join("|"))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

#[track_caller]
pub fn refused<T>(result: Result<T, Error>, code: cdc_core::Code, words: &[&str]) -> Error {
    let Err(error) = result else { panic!("expected {code}") };
    let text = error.to_string();
    assert_eq!(error.code(), code, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in\n{text}");
    }
    error
}

/// A default of every type, and what a row reads that somebody else inserts without it. NULL: it is none at a target.
pub fn defaults() -> Vec<(ColumnType, &'static str, Value<'static>)> {
    let labels = || ["x".into(), "y".into()].into();
    let charset = Charset::utf8mb4;
    let date = Date { year: 2026, month: 1, day: 31 };
    let at = DateTime { date, hour: 10, minute: 0, second: 0, micro: 500_000 };
    vec![
        (int(), "7", Value::Int(7)),
        (int(), "-7", Value::Int(-7)),
        (bigint(true), "18446744073709551615", Value::UInt(u64::MAX)),
        (decimal(10, 2), "1.50", Value::Decimal("1.50".into())),
        (ColumnType::Double { unsigned: false }, "3", Value::Double(3.0)),
        (ColumnType::Float { unsigned: false }, "-2.5", Value::Float(-2.5)),
        (varchar(), "'it''s \\\\ é'", text("it's \\ é")),
        (ColumnType::Text { size: LobSize::Normal, charset: charset() }, "'long'", text("long")),
        (ColumnType::Char { length: 4, charset: charset() }, "''", text("")),
        (ColumnType::Bit { width: 4 }, "b'101'", Value::Bit(5)),
        (
            ColumnType::Enum { labels: labels(), charset: charset() },
            "'y'",
            Value::Enum { index: 2, label: "y".into() },
        ),
        (
            ColumnType::Set { labels: labels(), charset: charset() },
            "'x,y'",
            Value::Set { bits: 3, labels: "x,y".into() },
        ),
        (ColumnType::Date, "'2026-01-31'", Value::Date(date)),
        (ColumnType::DateTime { fsp: 2 }, "'2026-01-31 10:00:00.50'", Value::DateTime(at)),
        (ColumnType::Time { fsp: 0 }, "'-26:00:00'", Value::Time(Time { micros: -26 * 3_600_000_000 })),
        (ColumnType::Year, "2026", Value::Year(2026)),
        (ColumnType::Binary { length: 3 }, "0x414200", Value::Bytes(vec![0x41, 0x42, 0].into())),
        (ColumnType::VarBinary { length: 3 }, "0x41FF", Value::Bytes(vec![0x41, 0xff].into())),
        (ColumnType::Blob { size: LobSize::Normal }, "'a\\\\b'", Value::Bytes(b"a\\b".to_vec().into())),
        (
            ColumnType::Uuid,
            "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
            text("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ),
        (ColumnType::Inet4, "'10.1.0.0'", text("10.1.0.0")),
        (ColumnType::Inet6, "'2001:DB8:0::0'", text("2001:db8::")),
        (int(), "NULL", Value::Null),
        (int(), "(1 + 1)", Value::Null),
        (varchar(), "(uuid())", Value::Null),
        (varchar(), "CURRENT_TIMESTAMP", Value::Null),
        (ColumnType::Json, "('null')", Value::Null),
        (ColumnType::Timestamp { fsp: 0 }, "'2026-01-01 00:00:00'", Value::Null),
        (ColumnType::DateTime { fsp: 6 }, "CURRENT_TIMESTAMP", Value::Null),
    ]
}

/// A table whose columns have the defaults, and each a comment.
pub fn table_with_defaults(name: &str) -> Arc<TargetTable> {
    let mut columns = vec![Column::new("id", int()).not_null()];
    for (i, (ty, default, _)) in defaults().into_iter().enumerate() {
        let mut column = Column::new(format!("c{i}"), ty);
        column.default = Some(default.to_owned());
        column.comment = format!("it's \\ \"{i}\"");
        columns.push(column);
    }
    let made = table(name, columns, &[0]);
    let schema = TableSchema { comment: "all; 'of' them".into(), ..(*made.schema).clone() };
    Arc::new(TargetTable { schema: Arc::new(schema), ..(*made).clone() })
}

/// The row that somebody inserts there with nothing but its id.
pub fn row_of_defaults(id: i64) -> Row {
    Row::pack(std::iter::once(Value::Int(id)).chain(defaults().into_iter().map(|(_, _, reads)| reads)))
}

/// What is told of a change, in few words: whose default is none.
pub fn left_out(sink: &dyn Sink, change: &TargetSchemaChange) -> Vec<String> {
    let word = |line: String| line.split('"').nth(1).unwrap_or_default().to_owned();
    sink.leaves_out(change).into_iter().map(word).collect()
}
