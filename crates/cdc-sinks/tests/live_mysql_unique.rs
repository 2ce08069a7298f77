//! A unique index beside our key that comes while we write: no row of another key is touched, and it is told which
//! index that is.

mod common;
#[path = "common/mysql.rs"]
mod target;

use cdc_core::connector::{TargetTable, Upstream};
use cdc_core::plan::pattern::TableSet;
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth};
use cdc_core::value::{Date, DateTime, Time, Value};
use cdc_core::{Row, codes};
use cdc_testkit::servers::Server;
use common::*;
use std::sync::Arc;
use target::{Target, start};

#[test]
fn a_unique_index_that_is_added_while_we_write_costs_no_row() {
    let server = start();
    let target = Target::new(&server, "added");
    let table = orders();
    let first = [order(1, "a"), order(2, "b")];
    let mut sink = target.filled(&table, &first);
    let words = ["(`note`) is unique there", "DROP INDEX `theirs`"];
    // one row; one among others; a row that is there, into the place of another
    for (key, rows) in [
        (4, &[order(4, "a")][..]),
        (4, &[order(3, "c"), order(4, "a"), order(5, "d")]),
        (1, &[order(1, "b")]),
    ] {
        target.run("ALTER TABLE orders ADD UNIQUE INDEX theirs (note)");
        let error = refused(done(&mut *sink, 2, &[upserts(&table, 2, rows)]), codes::TARGET_SHAPE, &words);
        let text = error.to_string();
        assert!(
            !error.is_transient() && text.contains(&format!("key ({key})")) && text.contains("row: "),
            "{text}"
        );
        target.equal(&table, &first);
        // from now on the table is seen to be another one
        refused(done(&mut *sink, 2, &[upserts(&table, 2, rows)]), codes::TARGET_SHAPE, &words);
        target.run("ALTER TABLE orders DROP INDEX theirs");
        sink.write(&upserts(&table, 2, &first)).unwrap();
        sink.rollback();
        sink.prepare(&table).unwrap();
    }
    sink.write(&upserts(&table, 2, &[order(3, "c"), order(4, "a")])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    target.equal(&table, &[order(1, "a"), order(2, "b"), order(3, "c"), order(4, "a")]);
}

#[test]
fn keys_of_several_columns_and_rows_of_an_invalid_enum_are_compared_too() {
    let server = start();
    let target = Target::new(&server, "several");
    let labels: Arc<[Arc<str>]> = ["x".into(), "y".into()].into();
    let columns = vec![
        Column::new("a", int()).not_null(),
        Column::new("b", varchar()).not_null(),
        Column::new("e", ColumnType::Enum { labels, charset: Charset::utf8mb4() }),
        Column::new("n", int()),
    ];
    let table = table("t", columns, &[0, 1]);
    let row = |a: i64, b: &str, e: u16, n: i64| {
        let label = ["", "x", "y"][e as usize].into();
        Row::pack([Value::Int(a), text(b), Value::Enum { index: e, label }, Value::Int(n)])
    };
    let first = [row(1, "p", 1, 10), row(2, "p", 2, 20)];
    let mut sink = target.filled(&table, &first);
    // the last one is written in a session that is not strict
    for wrong in [row(1, "q", 1, 10), row(3, "p", 1, 20), row(3, "p", 0, 20)] {
        target.run("ALTER TABLE t ADD UNIQUE INDEX theirs (n)");
        let words = ["(`n`) is unique there", "DROP INDEX `theirs`", "the row meets another one"];
        refused(done(&mut *sink, 2, &[upserts(&table, 2, &[wrong])]), codes::TARGET_SHAPE, &words);
        target.equal(&table, &first);
        target.run("ALTER TABLE t DROP INDEX theirs");
        sink.prepare(&table).unwrap();
    }
}

/// The table's own key may be a UNIQUE index of columns that take NULL.
#[test]
fn a_key_that_is_no_primary_one_is_compared_too() {
    let server = start();
    let target = Target::new(&server, "nullable");
    target.run("CREATE TABLE orders (id INT NULL, note VARCHAR(100) CHARACTER SET utf8mb4, UNIQUE (id))");
    let table = orders();
    let mut sink = target.filled(&table, &[order(1, "a")]);
    sink.write(&upserts(&table, 2, &[order(1, "b")])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    target.run("ALTER TABLE orders ADD UNIQUE INDEX theirs (note)");
    refused(
        done(&mut *sink, 3, &[upserts(&table, 3, &[order(2, "b")])]),
        codes::TARGET_SHAPE,
        &["DROP INDEX `theirs`"],
    );
    target.equal(&table, &[order(1, "b")]);
}

/// A key's row is written over, whatever the key's type: the comparison holds for every value that the index holds for
/// equal.
#[test]
fn keys_of_every_type_are_equal_to_themselves() {
    let server = start();
    let target = Target::new(&server, "kinds");
    let latin = |collation: &str| Charset::new("latin1", collation);
    let labels: Arc<[Arc<str>]> = ["x".into(), "X".into(), "".into()].into();
    let date = |year, month, day| Date { year, month, day };
    let at = |date| Value::DateTime(DateTime { date, hour: 0, minute: 0, second: 1, micro: 0 });
    let of = |ty: ColumnType, values: Vec<Value<'static>>| (ty, values);
    let kinds = vec![
        of(bigint(true), vec![Value::UInt(0), Value::UInt(u64::MAX)]),
        of(bigint(false), vec![Value::Int(i64::MIN), Value::Int(i64::MAX), Value::Int(i64::MAX - 1)]),
        of(ColumnType::Int { width: IntWidth::Tiny, unsigned: true }, vec![Value::UInt(255)]),
        of(
            decimal(38, 10),
            vec![
                Value::Decimal("-0.1000000000".into()),
                Value::Decimal("9999999999999999999999999999.0000000001".into()),
            ],
        ),
        of(
            ColumnType::Float { unsigned: false },
            vec![Value::Float(0.1), Value::Float(f32::MAX), Value::Float(-0.0)],
        ),
        of(
            ColumnType::Double { unsigned: false },
            vec![Value::Double(0.1), Value::Double(f64::MIN_POSITIVE)],
        ),
        of(ColumnType::Bit { width: 64 }, vec![Value::Bit(u64::MAX), Value::Bit(0)]),
        of(ColumnType::Year, vec![Value::Year(0), Value::Year(2155)]),
        of(
            ColumnType::Date,
            vec![Value::Date(date(0, 0, 0)), Value::Date(date(2024, 2, 31)), Value::Date(date(2024, 0, 1))],
        ),
        of(ColumnType::DateTime { fsp: 6 }, vec![at(date(0, 0, 0)), at(date(2024, 2, 31))]),
        of(
            ColumnType::Time { fsp: 3 },
            vec![Value::Time(Time { micros: -3_020_399_000_000 }), Value::Time(Time { micros: 1_000 })],
        ),
        of(
            varchar(),
            vec![text("a"), text("A"), text("a "), text(""), text("\u{0}"), text("🙂"), text("%_\\'")],
        ),
        of(
            ColumnType::VarChar { length: 3000, charset: latin("latin1_swedish_ci") },
            vec![text("ä"), text("a"), text("ß")],
        ),
        of(
            ColumnType::VarBinary { length: 9 },
            vec![
                Value::Bytes(vec![0].into()),
                Value::Bytes(vec![].into()),
                Value::Bytes(vec![0, 255].into()),
            ],
        ),
        of(
            ColumnType::Binary { length: 2 },
            vec![Value::Bytes(vec![0, 0].into()), Value::Bytes(vec![32, 0].into())],
        ),
        of(
            ColumnType::Enum { labels: labels.clone(), charset: Charset::utf8mb4() },
            vec![
                Value::Enum { index: 1, label: "x".into() },
                Value::Enum { index: 2, label: "X".into() },
                Value::Enum { index: 3, label: "".into() },
            ],
        ),
        of(
            ColumnType::Set { labels: ["p".into(), "q".into()].into(), charset: Charset::utf8mb4() },
            vec![Value::Set { bits: 0, labels: "".into() }, Value::Set { bits: 3, labels: "p,q".into() }],
        ),
        of(
            ColumnType::Set { labels: ["".into(), "q".into()].into(), charset: Charset::utf8mb4() },
            [(0, ""), (1, ""), (2, "q"), (3, ",q")]
                .map(|(bits, labels)| Value::Set { bits, labels: labels.into() })
                .into(),
        ),
    ];
    let tables: Vec<(Arc<TargetTable>, Vec<Row>)> = kinds
        .into_iter()
        .enumerate()
        .map(|(n, (ty, values))| {
            let columns = vec![Column::new("k", ty).not_null(), Column::new("v", int())];
            let rows = values.into_iter().map(|v| Row::pack([v, Value::Int(1)])).collect();
            (table(&format!("t{n}"), columns, &[0]), rows)
        })
        .collect();
    let mut sink = target.claimed();
    let mut compared = 0;
    for tick in 1..=3 {
        for (table, rows) in &tables {
            let rows: Vec<Row> = rows.iter().map(|r| Row::pack([r.get(0), Value::Int(tick)])).collect();
            sink.prepare(table).unwrap();
            sink.write(&upserts(table, tick as u64, &rows)).unwrap();
            sink.commit(tick as u64, &binding(tick as u64)).unwrap();
            println!("{tick}: key of {}", table.schema.columns[0].ty);
            target.equal(table, &rows);
            compared += rows.len();
        }
    }
    println!("{} types of keys, {compared} rows compared", tables.len());
}

/// The server's own name, as a source has asked for it.
fn upstream(server: &Server, tables: &[&str]) -> Upstream {
    let sql = if server.kind().is_mariadb() {
        cdc_core::connector::SERVER_NAME_MARIADB
    } else {
        cdc_core::connector::SERVER_NAME_MYSQL
    };
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    Upstream {
        servers: vec![server.sql(sql).unwrap().trim_end().to_owned()],
        tables: TableSet::parse(&tables).unwrap(),
    }
}

#[test]
fn what_the_source_would_read_again_is_not_written() {
    let server = start();
    let target = Target::new(&server, "again");
    let fed = |tables: &[&str]| {
        let mut sink = target.sink();
        sink.inspect(&job("run 1")).unwrap();
        sink.fed_by(&upstream(&server, tables)).map(|()| sink)
    };
    let words = ["again.orders", "!again.*", "one server"];
    for tables in [&["*.*"][..], &["again.o*"], &["/ag.*/"], &["again.orders"]] {
        let mut sink = fed(tables).unwrap();
        refused(sink.check(&orders()), codes::TARGET_CAPTURED, &words);
        sink.claim(&job("run 1")).unwrap();
        refused(sink.prepare(&orders()), codes::TARGET_CAPTURED, &words);
        let create = cdc_core::connector::TargetSchemaChange::CreateTable { table: orders() };
        refused(sink.apply(&create), codes::TARGET_CAPTURED, &words);
        assert_eq!(target.run("SHOW TABLES LIKE 'orders'"), Vec::<String>::new());
    }
    refused(fed(&["again._cdc_progress"]).map(|_| ()), codes::TARGET_CAPTURED, &["again._cdc_progress"]);
    for tables in [&["*.*", "!again.*"][..], &["shop.*"], &["AGAIN.*"], &["again.x*"]] {
        let mut sink = fed(tables).unwrap();
        sink.check(&orders()).unwrap();
    }
    // a server of another name
    let mut sink = target.sink();
    sink.inspect(&job("run 1")).unwrap();
    sink.fed_by(&Upstream { servers: vec!["another".into()], ..upstream(&server, &["*.*"]) }).unwrap();
    sink.check(&orders()).unwrap();
}
