//! The sinks that give out lines, and the one that only counts.

mod common;

use cdc_core::connector::{Sink, TargetSchemaChange};
use cdc_core::event::Op;
use cdc_core::schema::{Charset, Column, ColumnType, LobSize};
use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};
use cdc_core::{Row, codes};
use cdc_sinks::null::checksum_sql;
use cdc_sinks::stdout::StdoutSink;
use common::*;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::tempdir;

fn jsonl(folder: &Path) -> Box<dyn Sink> {
    cdc_sinks::open(&plan("jsonl", &[("path", "feed.jsonl"), ("format", "plain")]), folder).unwrap()
}

fn text_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("feed.jsonl")).unwrap()
}

const ONE: &str = "{\"tick\":1,\"table\":\"orders\",\"op\":\"upsert\",\"key\":{\"id\":1},\"row\":{\"id\":1,\"note\":\"a\"}}\n";
const TWO: &str = "{\"tick\":2,\"table\":\"orders\",\"op\":\"upsert\",\"key\":{\"id\":2},\"row\":{\"id\":2,\"note\":\"b\"}}\n";

#[test]
fn jsonl_appends_cuts_off_a_torn_line_and_takes_back_what_was_not_committed() {
    let folder = tempdir().unwrap();
    let table = orders();
    let mut sink = jsonl(folder.path());
    assert_eq!(sink.inspect(&job("run")).unwrap(), None);
    assert!(!folder.path().join("feed.jsonl").exists());
    sink.claim(&job("run")).unwrap();
    sink.prepare(&table).unwrap();
    sink.write(&upserts(&table, 1, &[order(1, "a")])).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    assert_eq!(text_of(folder.path()), ONE);
    // More than one piece of the buffer is out when the tick is given up.
    let big = order(3, &"x".repeat(300_000));
    sink.apply(&TargetSchemaChange::TruncateTable { table: "orders".into() }).unwrap();
    sink.write(&upserts(&table, 2, &[big])).unwrap();
    assert!(text_of(folder.path()).len() > 300_000);
    sink.rollback();
    assert_eq!(text_of(folder.path()), ONE);
    let second = refused(jsonl(folder.path()).claim(&job("second")), codes::TARGET_BUSY, &["another run"]);
    assert!(second.is_transient());
    drop(sink);
    for torn in ["{", "{\"tick\":2,\"table\":\"orders\",\"op\":\"ups"] {
        std::fs::write(folder.path().join("feed.jsonl"), ONE.to_owned() + torn).unwrap();
        let mut sink = jsonl(folder.path());
        sink.claim(&job("run")).unwrap();
        assert_eq!(text_of(folder.path()), ONE);
        sink.write(&upserts(&table, 2, &[order(2, "b")])).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        assert_eq!(text_of(folder.path()), ONE.to_owned() + TWO);
    }
    std::fs::write(folder.path().join("feed.jsonl"), "{\"ti").unwrap();
    jsonl(folder.path()).claim(&job("run")).unwrap();
    assert_eq!(text_of(folder.path()), "");
}

#[test]
fn jsonl_touches_no_file_of_others() {
    let folder = tempdir().unwrap();
    for content in ["precious notes, no newline", "precious\nnotes\n", "[1, 2]\n", "{\"name\":1}\n"] {
        std::fs::write(folder.path().join("feed.jsonl"), content).unwrap();
        refused(jsonl(folder.path()).inspect(&job("run")), codes::TARGET_NOT_OURS, &["help:"]);
        refused(jsonl(folder.path()).claim(&job("run")), codes::TARGET_NOT_OURS, &["help:"]);
        assert_eq!(text_of(folder.path()), content);
    }
    let open = |path| cdc_sinks::open(&plan("jsonl", &[("path", path)]), folder.path()).unwrap();
    refused(open("no/feed").inspect(&job("run")), codes::TARGET_OPEN, &["make the folder"]);
    refused(open(".").inspect(&job("run")), codes::TARGET_OPEN, &["not a file"]);
    refused(
        cdc_sinks::open(&plan("jsonl", &[("path", "x"), ("format", "xml")]), folder.path()),
        codes::OPTION_VALUE,
        &["plain"],
    );
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn stdout_gives_out_a_tick_when_it_commits() {
    let out = Shared::default();
    let mut sink = StdoutSink::to(Box::new(out.clone()), "plain");
    sink.claim(&job("run")).unwrap();
    sink.write(&upserts(&orders(), 1, &[order(1, "wrong")])).unwrap();
    sink.rollback();
    sink.write(&upserts(&orders(), 1, &[order(1, "a")])).unwrap();
    assert!(out.0.lock().unwrap().is_empty());
    sink.commit(1, &binding(1)).unwrap();
    assert_eq!(*out.0.lock().unwrap(), ONE.as_bytes());
    let mut closed = StdoutSink::to(Box::new(Closed), "plain");
    closed.write(&upserts(&orders(), 1, &[order(1, "a")])).unwrap();
    let error = refused(closed.commit(1, &binding(1)), codes::TARGET_WRITE, &["reader of standard output"]);
    assert!(!error.is_transient());
}

fn null() -> Box<dyn Sink> {
    cdc_sinks::open(&plan("null", &[]), Path::new("")).unwrap()
}

/// Rows, statement and result are those of MySQL 9.7.4; the table is in the comment.
#[test]
fn the_null_sink_sums_up_what_the_server_sums_up() {
    // CREATE TABLE t (i INT PRIMARY KEY, u BIGINT UNSIGNED ZEROFILL, d DECIMAL(20,6), f FLOAT, g DOUBLE, b BIT(64), y YEAR,
    //   dt DATE, tm TIME(2), dtm DATETIME(6), ts TIMESTAMP(3), c CHAR(10) CHARACTER SET gbk, v VARCHAR(50),
    //   bi BINARY(4), bl BLOB, e ENUM('é','y') CHARACTER SET latin1, s SET('a','b'), j JSON, p POINT, ve VECTOR(3));
    let charset = Charset::utf8mb4();
    let labels = |l: &[&str]| l.iter().map(|x| (*x).into()).collect::<Vec<Arc<str>>>().into();
    let types = [
        int(),
        bigint(true),
        decimal(20, 6),
        ColumnType::Float { unsigned: false },
        ColumnType::Double { unsigned: false },
        ColumnType::Bit { width: 64 },
        ColumnType::Year,
        ColumnType::Date,
        ColumnType::Time { fsp: 2 },
        ColumnType::DateTime { fsp: 6 },
        ColumnType::Timestamp { fsp: 3 },
        ColumnType::Char { length: 10, charset: Charset::new("gbk", "gbk_chinese_ci") },
        ColumnType::VarChar { length: 50, charset: charset.clone() },
        ColumnType::Binary { length: 4 },
        ColumnType::Blob { size: LobSize::Normal },
        ColumnType::Enum {
            labels: labels(&["é", "y"]),
            charset: Charset::new("latin1", "latin1_swedish_ci"),
        },
        ColumnType::Set { labels: labels(&["a", "b"]), charset },
        ColumnType::Json,
        ColumnType::Geometry { kind: "point".into(), srid: None },
        ColumnType::Vector { dimensions: 3 },
    ];
    let names = [
        "i", "u", "d", "f", "g", "b", "y", "dt", "tm", "dtm", "ts", "c", "v", "bi", "bl", "e", "s", "j", "p",
        "ve",
    ];
    let columns = names.iter().zip(types).map(|(n, ty)| Column::new(*n, ty)).collect();
    let table = table("t", columns, &[0]);
    let date = |year, month, day| Date { year, month, day };
    let point = [0, 0, 0, 0, 1, 1, 0, 0, 0].into_iter().chain(1f64.to_le_bytes()).chain(2f64.to_le_bytes());
    // INSERT INTO t VALUES (1, 7, -1.5, 0.1, -0.0, ~0, 0, '0000-00-00', '-00:00:00.01', '9999-12-31 23:59:59.999999',
    //   '2026-01-01 00:00:00.5', '中 ', 'it''s 🙂', x'aa', x'00ff', 'é', 'a,b', '{"b":1,"a":[1.50]}', ST_GeomFromText('POINT(1 2)'), TO_VECTOR('[1,2,3]')),
    //   (2, NULL, ..., NULL);
    let first = Row::pack([
        Value::Int(1),
        Value::UInt(7),
        Value::Decimal("-1.500000".into()),
        Value::Float(0.1),
        Value::Double(-0.0),
        Value::Bit(u64::MAX),
        Value::Year(0),
        Value::Date(date(0, 0, 0)),
        Value::Time(Time { micros: -10_000 }),
        Value::DateTime(DateTime {
            date: date(9999, 12, 31),
            hour: 23,
            minute: 59,
            second: 59,
            micro: 999_999,
        }),
        Value::Timestamp(Timestamp { micros: 1_767_225_600_500_000 }),
        text("中"),
        text("it's 🙂"),
        Value::Bytes(vec![0xaa, 0, 0, 0].into()),
        Value::Bytes(vec![0, 255].into()),
        Value::Enum { index: 1, label: "é".into() },
        Value::Set { bits: 3, labels: "a,b".into() },
        Value::Json("{\"a\": [1.5], \"b\": 1}".into()),
        Value::Geometry(point.collect::<Vec<u8>>().into()),
        Value::Vector([1f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into()),
    ]);
    let second = Row::pack((0..20).map(|i| if i == 0 { Value::Int(2) } else { Value::Null }));
    let mut sink = null();
    sink.write(&upserts(&table, 1, &[first.clone(), second.clone()])).unwrap();
    assert_eq!(sink.summary(), ["null: shop.t 2 rows checksum 000000016ee8625c"]);

    // An update and its way back, and a delete and an insert, leave the sum as it was.
    let mut there = upsert(&table, 2, &second);
    there.before = Some(first.clone());
    let mut back = upsert(&table, 2, &first);
    back.before = Some(second.clone());
    let mut gone = delete(2, key_of(&table, &first));
    gone.before = Some(first.clone());
    sink.write(&batch(&table, vec![there, back, gone, upsert(&table, 2, &first)])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(sink.summary(), ["null: shop.t 2 rows checksum 000000016ee8625c"]);
    // What was given up does not count.
    sink.write(&upserts(&table, 3, &[first])).unwrap();
    sink.rollback();
    assert_eq!(sink.summary(), ["null: shop.t 2 rows checksum 000000016ee8625c"]);
}

#[test]
fn the_null_sink_says_where_its_sum_is_not_the_servers() {
    let table = orders();
    let mut sink = null();
    let mut update = upsert(&table, 1, &order(1, "b"));
    update.source_op = Op::Update;
    sink.write(&batch(&table, vec![upsert(&table, 1, &order(1, "a")), update])).unwrap();
    let summary = sink.summary().join("\n");
    assert!(summary.starts_with("null: shop.orders 1 rows checksum "), "{summary}");
    assert!(summary.contains("1 changes came without a whole image before"), "{summary}");
    sink.apply(&TargetSchemaChange::TruncateTable { table: "orders".into() }).unwrap();
    assert_eq!(sink.summary(), ["null: shop.orders 0 rows checksum 0000000000000000"]);
}

#[test]
fn the_checksum_statement_quotes_names() {
    let table = table("a`b", vec![Column::new("x`y", int()).not_null()], &[0]);
    assert_eq!(
        checksum_sql(&table.schema),
        "SELECT COUNT(*), LPAD(LOWER(HEX(CAST(COALESCE(SUM(CRC32(CONCAT(COALESCE(CONCAT(X'01', CONVERT(`x``y` + 0 USING utf8mb4)), X'00'))))\
         , 0) % 18446744073709551616 AS UNSIGNED))), 16, '0') FROM `shop`.`a``b`"
    );
}

/// `log (line VARCHAR)`, without a key: a row comes, comes again, and one of the two goes.
fn of_multiset() -> cdc_core::connector::TargetBatch {
    let table = table("log", vec![Column::new("line", varchar())], &[]);
    let row = Row::pack([text("a")]);
    let come = |tick, op| {
        let mut change = upsert(&table, tick, &row);
        (change.key, change.source_op) = (row.clone(), op);
        change
    };
    let mut go = delete(3, row.clone());
    go.before = Some(row.clone());
    batch(&table, vec![come(1, Op::Read), come(2, Op::Insert), go])
}

fn again(only: Vec<(Column, Row)>) -> TargetSchemaChange {
    let source = cdc_core::TableId::new("shop", "log");
    TargetSchemaChange::RemoveRows { table: "log".into(), source, only, again: true }
}

#[test]
fn rows_without_a_key_are_told_whole() {
    let folder = tempdir().unwrap();
    let mut sink = jsonl(folder.path());
    sink.claim(&job("run")).unwrap();
    sink.apply(&again(vec![])).unwrap();
    sink.write(&of_multiset()).unwrap();
    sink.apply(&again(vec![(Column::new("shard", varchar()), Row::pack([text("a\"b")]))])).unwrap();
    let mut truncate = again(vec![(Column::new("n", int()), Row::pack([Value::Int(7)]))]);
    let TargetSchemaChange::RemoveRows { again, .. } = &mut truncate else { unreachable!() };
    *again = false;
    sink.apply(&truncate).unwrap();
    sink.commit(4, &binding(4)).unwrap();
    let expected = r#"{"schema_change":"resnapshot_table","table":"log","source":"shop.log","tick":1}
{"tick":1,"table":"log","op":"insert","key":null,"row":{"line":"a"}}
{"tick":2,"table":"log","op":"insert","key":null,"row":{"line":"a"}}
{"tick":3,"table":"log","op":"delete","key":null,"row":{"line":"a"}}
{"schema_change":"resnapshot_table","table":"log","source":"shop.log","only":{"shard":"a\"b"},"tick":4}
{"schema_change":"truncate_table","table":"log","source":"shop.log","only":{"n":7},"tick":4}
"#;
    assert_eq!(text_of(folder.path()), expected);
    // and as Debezium's envelope: the row that goes is `before`
    let options = [("path", "feed.jsonl"), ("format", "debezium-json")];
    std::fs::remove_file(folder.path().join("feed.jsonl")).unwrap();
    drop(sink);
    let mut sink = cdc_sinks::open(&plan("jsonl", &options), folder.path()).unwrap();
    sink.claim(&job("run")).unwrap();
    sink.write(&of_multiset()).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    let lines: Vec<serde_json::Value> =
        text_of(folder.path()).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<String> =
        lines.iter().map(|l| format!("{} {} {}", l["op"], l["before"], l["after"])).collect();
    assert_eq!(told, [r#""r" null {"line":"a"}"#, r#""c" null {"line":"a"}"#, r#""d" {"line":"a"} null"#]);
}

#[test]
fn the_null_sink_counts_rows_without_a_key_and_begins_anew_with_the_table() {
    let mut sink = null();
    sink.write(&of_multiset()).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    let one = sink.summary();
    assert!(one[0].starts_with("null: shop.log 1 rows checksum "), "{one:?}");
    assert!(!one[0].contains("not the server's"), "{one:?}");
    sink.apply(&again(vec![])).unwrap();
    assert_eq!(sink.summary(), ["null: shop.log 0 rows checksum 0000000000000000"]);
    sink.rollback();
    assert_eq!(sink.summary(), one);
    sink.apply(&again(vec![(Column::new("shard", int()), Row::pack([Value::Int(1)]))])).unwrap();
    assert!(sink.summary()[0].contains("uncounted"), "{:?}", sink.summary());
}
