//! What the sqlite sink promises, tried on files.

mod common;

use cdc_core::connector::Comparison;
use cdc_core::schema::{Charset, Column, ColumnType, LobSize};
use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};
use cdc_core::{Row, codes};
use common::*;
use std::path::Path;
use tempfile::tempdir;

#[track_caller]
fn equal(folder: &Path, table: &cdc_core::connector::TargetTable, rows: &[Row]) {
    let mut reader = reader(folder);
    let answers = reader.compare(table, rows).unwrap();
    assert!(answers.iter().all(|a| *a == Comparison::Equal), "{answers:?}");
    assert_eq!(reader.count(table).unwrap(), rows.len() as u64);
    let mut wanted: Vec<Vec<u8>> = rows.iter().map(|r| reader.encode_key(table, r)).collect();
    let mut found = Vec::new();
    reader
        .scan_keys(table, &mut |key, _| {
            found.push(key);
            true
        })
        .unwrap();
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
}

#[test]
fn a_target_that_is_not_there_holds_nothing_and_is_not_made_by_looking() {
    let folder = tempdir().unwrap();
    let mut sink = sqlite(folder.path());
    assert_eq!(sink.inspect(&job("run")).unwrap(), None);
    sink.check(&orders()).unwrap();
    let mut reader = reader(folder.path());
    assert_eq!(reader.count(&orders()).unwrap(), 0);
    assert_eq!(reader.compare(&orders(), &[order(1, "a")]).unwrap(), [Comparison::Missing]);
    assert!(!folder.path().join("dw.db").exists());
}

#[test]
fn a_claim_waits_for_an_open_transaction_and_then_reads_its_tick() {
    let folder = tempdir().unwrap();
    let table = orders();
    let mut first = claimed(folder.path());
    first.prepare(&table).unwrap();
    first.write(&upserts(&table, 1, &[order(1, "a")])).unwrap();
    let path = folder.path().to_owned();
    let second = std::thread::spawn(move || {
        let mut second = sqlite(&path);
        second.claim(&job("second")).unwrap();
        second
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!second.is_finished());
    first.commit(1, &binding(1)).unwrap();
    let mut second = second.join().unwrap();
    refused(first.commit(2, &binding(2)), codes::TARGET_FENCED, &["second"]);
    second.commit(2, &binding(2)).unwrap();
    assert_eq!(query(folder.path(), "SELECT tick, epoch FROM _cdc_progress"), ["2|2"]);
}

#[test]
fn files_that_cannot_be_a_target_are_refused_and_left_alone() {
    let folder = tempdir().unwrap();
    let open = |path: &str| cdc_sinks::open(&plan("sqlite", &[("path", path)]), folder.path()).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "x".repeat(5000)).unwrap();
    for (path, code, words) in [
        ("notes.txt", codes::TARGET_NOT_OURS, &["not a SQLite database", "help:"][..]),
        (".", codes::TARGET_OPEN, &["folder"]),
        ("no/such/dw.db", codes::TARGET_OPEN, &["no/such", "make the folder"]),
        ("notes.txt/dw.db", codes::TARGET_OPEN, &["notes.txt/dw.db"]),
    ] {
        refused(open(path).inspect(&job("run")), code, words);
        refused(open(path).claim(&job("run")), code, words);
        refused(open(path).check(&orders()), code, words);
    }
    assert_eq!(std::fs::read(folder.path().join("notes.txt")).unwrap(), "x".repeat(5000).as_bytes());
    // A url is a file name like any other.
    let mut odd = open("file:odd?mode=memory");
    odd.claim(&job("run")).unwrap();
    assert!(folder.path().join("file:odd?mode=memory").exists());
    std::fs::write(folder.path().join("empty.db"), "").unwrap();
    assert_eq!(open("empty.db").inspect(&job("run")).unwrap(), None);
}

#[test]
fn options_are_checked() {
    let folder = tempdir().unwrap();
    let open = |options: &[(&str, &str)]| cdc_sinks::open(&plan("sqlite", options), folder.path());
    refused(open(&[]), codes::MISSING_OPTION, &["\"path\""]);
    refused(open(&[("path", "")]), codes::OPTION_VALUE, &["\"path\""]);
    refused(open(&[("path", "x"), ("synchronous", "off")]), codes::OPTION_VALUE, &["full, normal"]);
    refused(open(&[("path", "x"), ("on_existing", "mend")]), codes::OPTION_VALUE, &["check, evolve"]);
    open(&[("path", "x"), ("synchronous", "normal"), ("on_existing", "check")]).unwrap();
    refused(
        cdc_sinks::open(&plan("kafka", &[]), folder.path()),
        codes::UNKNOWN_CONNECTOR,
        &["sqlite", "null"],
    );
    let names: Vec<_> = cdc_sinks::descriptors().iter().map(|d| d.name).collect();
    assert_eq!(names, ["sqlite", "mysql", "postgres", "jsonl", "stdout", "null"]);
}

#[test]
fn a_file_that_is_taken_away_is_noticed() {
    let folder = tempdir().unwrap();
    let table = orders();
    let mut sink = claimed(folder.path());
    sink.prepare(&table).unwrap();
    std::fs::rename(folder.path().join("dw.db"), folder.path().join("away.db")).unwrap();
    refused(sink.write(&upserts(&table, 1, &[order(1, "a")])), codes::TARGET_OPEN, &["moved"]);
}

/// A column of every type, and rows at the ends of each.
fn everything() -> (Vec<Column>, Vec<Vec<Value<'static>>>) {
    let charset = Charset::utf8mb4();
    let day = |year, month, day| Date { year, month, day };
    let at = |date, hour, minute, second, micro| DateTime { date, hour, minute, second, micro };
    let nines = "9".repeat(35) + "." + &"9".repeat(30);
    let all_bytes: Vec<u8> = (0..=255).collect();
    let mut columns: Vec<(ColumnType, Vec<Value<'static>>)> = vec![
        (bigint(false), vec![Value::Int(i64::MIN), Value::Int(i64::MAX), Value::Int(0)]),
        (bigint(true), vec![Value::UInt(u64::MAX), Value::UInt(1 << 63), Value::UInt(i64::MAX as u64)]),
        (int(), vec![Value::Int(-2_147_483_648), Value::Int(2_147_483_647), Value::UInt(4_294_967_295)]),
        (
            decimal(65, 30),
            vec![
                Value::Decimal(nines.clone().into()),
                Value::Decimal(("-".to_owned() + &nines).into()),
                Value::Decimal(("0.".to_owned() + &"0".repeat(30)).into()),
            ],
        ),
        (
            decimal(10, 2),
            vec![
                Value::Decimal("1.50".into()),
                Value::Decimal("-0.01".into()),
                Value::Decimal("100.00".into()),
            ],
        ),
        (
            ColumnType::Float { unsigned: false },
            vec![Value::Float(f32::MAX), Value::Float(0.1), Value::Float(-0.0)],
        ),
        (
            ColumnType::Double { unsigned: false },
            vec![Value::Double(f64::MAX), Value::Double(5e-324), Value::Double(-0.0)],
        ),
        (
            ColumnType::Double { unsigned: false },
            vec![Value::Double(3.0), Value::Double(1e15), Value::Double(-0.1)],
        ),
        (ColumnType::Bit { width: 3 }, vec![Value::Bit(3), Value::Bit(0), Value::Bit(7)]),
        (ColumnType::Bit { width: 64 }, vec![Value::Bit(u64::MAX), Value::Bit(1 << 63), Value::Bit(0)]),
        (ColumnType::Year, vec![Value::Year(0), Value::Year(1901), Value::Year(2155)]),
        (
            ColumnType::Date,
            vec![Value::Date(day(0, 0, 0)), Value::Date(day(9999, 12, 31)), Value::Date(day(2026, 2, 0))],
        ),
        (
            ColumnType::Time { fsp: 0 },
            vec![
                Value::Time(Time { micros: -3_020_399_000_000 }),
                Value::Time(Time { micros: -1_000_000 }),
                Value::Time(Time { micros: 360_000_000_000 }),
            ],
        ),
        (
            ColumnType::Time { fsp: 2 },
            vec![Value::Time(Time { micros: -10_000 }), Value::Time(Time { micros: 0 }), Value::Null],
        ),
        (
            ColumnType::DateTime { fsp: 6 },
            vec![
                Value::DateTime(at(day(9999, 12, 31), 23, 59, 59, 999_999)),
                Value::DateTime(DateTime::default()),
                Value::DateTime(at(day(1, 1, 1), 0, 0, 0, 1)),
            ],
        ),
        (
            ColumnType::Timestamp { fsp: 3 },
            vec![
                Value::Timestamp(Timestamp { micros: 2_147_483_647_999_000 }),
                Value::Timestamp(Timestamp { micros: 0 }),
                Value::Timestamp(Timestamp { micros: 1_000_000 }),
            ],
        ),
        (
            ColumnType::Char { length: 10, charset: charset.clone() },
            vec![text(""), text("0012"), text("1e3")],
        ),
        (varchar(), vec![text("a\0b'\"\\;-- \n"), text("  spaces  "), text("日本語🙂\u{10ffff}")]),
        (
            ColumnType::Text { size: LobSize::Long, charset: charset.clone() },
            vec![text(&"x".repeat(100_000)), text("NULL"), Value::Null],
        ),
        (
            ColumnType::Binary { length: 4 },
            vec![
                Value::Bytes(vec![0xaa, 0, 0, 0].into()),
                Value::Bytes(vec![0; 4].into()),
                Value::Bytes(b"1234".to_vec().into()),
            ],
        ),
        (
            ColumnType::Blob { size: LobSize::Long },
            vec![Value::Bytes(all_bytes.into()), Value::Bytes(vec![].into()), Value::Null],
        ),
        (
            ColumnType::Enum { labels: ["point".into(), "1".into()].into(), charset: charset.clone() },
            vec![
                Value::Enum { index: 0, label: "".into() },
                Value::Enum { index: 2, label: "1".into() },
                Value::Enum { index: 1, label: "point".into() },
            ],
        ),
        (
            ColumnType::Set { labels: ["a".into(), "b".into()].into(), charset },
            vec![
                Value::Set { bits: 3, labels: "a,b".into() },
                Value::Set { bits: 0, labels: "".into() },
                Value::Null,
            ],
        ),
        (
            ColumnType::Json,
            vec![
                Value::Json("{\"a\": 1.50, \"b\": [null, \"é\"]}".into()),
                Value::Json("1".into()),
                Value::Json("null".into()),
            ],
        ),
        (
            ColumnType::Geometry { kind: "point".into(), srid: Some(4326) },
            vec![
                Value::Geometry(vec![0xe6, 0x10, 0, 0, 1, 1].into()),
                Value::Null,
                Value::Geometry(vec![0].into()),
            ],
        ),
        (
            ColumnType::Vector { dimensions: 2 },
            vec![Value::Vector(vec![0, 0, 128, 63].into()), Value::Null, Value::Vector(vec![].into())],
        ),
        (
            ColumnType::Uuid,
            vec![
                text("00112233-4455-6677-8899-aabbccddeeff"),
                Value::Null,
                text("ffffffff-ffff-ffff-ffff-ffffffffffff"),
            ],
        ),
        (ColumnType::Inet4, vec![text("10.1.0.0"), text("0.0.0.0"), Value::Null]),
        (ColumnType::Inet6, vec![text("::ffff:10.1.0.0"), text("::"), text("1::")]),
    ];
    columns.insert(0, (int(), (1..=3).map(Value::Int).collect()));
    let rows = (0..3).map(|r| columns.iter().map(|(_, values)| values[r].clone()).collect()).collect();
    let columns = columns.into_iter().enumerate().map(|(i, (ty, _))| Column::new(format!("c{i}"), ty));
    (columns.collect(), rows)
}

#[test]
fn every_type_comes_back_as_it_went_in() {
    let folder = tempdir().unwrap();
    let (columns, values) = everything();
    let table = table("types", columns, &[0]);
    let rows: Vec<Row> = values.into_iter().map(Row::pack).collect();
    let mut sink = claimed(folder.path());
    sink.prepare(&table).unwrap();
    sink.write(&upserts(&table, 1, &rows)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    equal(folder.path(), &table, &rows);
    // The same through updates, and a NULL in every column.
    let nulls =
        Row::pack((0..table.schema.columns.len()).map(|i| if i == 0 { Value::Int(4) } else { Value::Null }));
    sink.write(&upserts(&table, 2, &rows)).unwrap();
    sink.write(&upserts(&table, 2, std::slice::from_ref(&nulls))).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    let mut all = rows.clone();
    all.push(nulls);
    equal(folder.path(), &table, &all);
    assert_eq!(
        query(folder.path(), "SELECT c5, c6, c7, typeof(c7), c12, c13, c14, c15 FROM types WHERE c0 = 2"),
        ["-0.01|0.10000000149011612|5e-324|real|9999-12-31|-00:00:01|00:00:00.00|0000-00-00 00:00:00.000000"]
    );
    // What differs is told, both sides shown.
    user(folder.path()).execute_batch("UPDATE types SET c5 = '1.5', c1 = '7' WHERE c0 = 1").unwrap();
    let mut reader = reader(folder.path());
    let Comparison::Differs(columns) = &reader.compare(&table, &rows[..1]).unwrap()[0] else { panic!() };
    let told: Vec<_> = columns.iter().map(|d| (&*d.column, &*d.expected, &*d.actual)).collect();
    assert_eq!(told, [("c1", "-9223372036854775808", "7"), ("c5", "\"1.50\"", "\"1.5\"")]);
}

#[test]
fn every_type_can_be_a_key() {
    let (columns, values) = everything();
    for i in 0..columns.len() {
        let folder = tempdir().unwrap();
        let table = table("keyed", vec![columns[i].clone(), Column::new("n", int())], &[0]);
        let keys: Vec<&Value<'_>> = values.iter().map(|row| &row[i]).filter(|v| !v.is_null()).collect();
        let row = |v: &Value<'static>, n: i64| Row::pack([v.clone(), Value::Int(n)]);
        let mut sink = claimed(folder.path());
        sink.prepare(&table).unwrap();
        for n in [1, 2] {
            let rows: Vec<Row> = keys.iter().map(|v| row(v, n)).collect();
            sink.write(&upserts(&table, n as u64, &rows)).unwrap();
            sink.commit(n as u64, &binding(1)).unwrap();
            equal(folder.path(), &table, &rows);
        }
        sink.write(&batch(&table, vec![delete(3, Row::pack([keys[0].clone()]))])).unwrap();
        sink.commit(3, &binding(3)).unwrap();
        let rest: Vec<Row> = keys[1..].iter().map(|v| row(v, 2)).collect();
        equal(folder.path(), &table, &rest);
        if let Some(null) = values.iter().map(|row| &row[i]).find(|v| v.is_null()) {
            refused(
                sink.write(&upserts(&table, 4, &[row(null, 1)])),
                codes::KEY_COLUMN_NULL,
                &["keyed", "help:"],
            );
        }
    }
}

#[test]
fn big_unsigned_keys_sort_and_compare_as_numbers() {
    let folder = tempdir().unwrap();
    let table = table("big", vec![Column::new("id", bigint(true)).not_null()], &[0]);
    let keys = [u64::MAX, 1 << 63, 5, i64::MAX as u64, 10_000_000_000_000_000_000, 9_999_999_999_999_999_999];
    let rows: Vec<Row> = keys.iter().map(|k| Row::pack([Value::UInt(*k)])).collect();
    let mut sink = claimed(folder.path());
    sink.prepare(&table).unwrap();
    sink.write(&upserts(&table, 1, &rows)).unwrap();
    sink.write(&upserts(&table, 1, &rows)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    equal(folder.path(), &table, &rows);
    assert_eq!(
        query(folder.path(), "SELECT id FROM big ORDER BY id"),
        [
            "5",
            "9223372036854775807",
            "09223372036854775808",
            "09999999999999999999",
            "10000000000000000000",
            "18446744073709551615"
        ]
    );
}

#[test]
fn tables_of_another_shape_are_refused_with_both_shapes_and_the_way_out() {
    for (sql, words) in [
        ("CREATE TABLE orders (id INTEGER PRIMARY KEY)", &["\"note\"", "ADD COLUMN \"note\" TEXT;"][..]),
        ("CREATE TABLE orders (id INTEGER, note TEXT)", &["no key", "CREATE UNIQUE INDEX"]),
        ("CREATE TABLE orders (id INTEGER, note TEXT PRIMARY KEY)", &["unique there", "RENAME TO"]),
        ("CREATE TABLE orders (id INTEGER, note TEXT, PRIMARY KEY (id, note))", &["unique there"]),
        ("CREATE TABLE orders (id TEXT PRIMARY KEY, note TEXT)", &["column \"id\" is TEXT", "INTEGER"]),
        ("CREATE TABLE orders (id INTEGER PRIMARY KEY, note DECIMAL(5))", &["column \"note\" is DECIMAL(5)"]),
        ("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT NOT NULL)", &["NOT NULL"]),
        ("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT, x TEXT NOT NULL)", &["\"x\" is not ours"]),
        ("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT UNIQUE)", &["(\"note\") is unique there"]),
        (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT); CREATE UNIQUE INDEX u ON orders (note)",
            &["DROP INDEX \"u\";"],
        ),
        (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT); CREATE UNIQUE INDEX u ON orders (lower(note))",
            &["an expression", "DROP INDEX \"u\";"],
        ),
        (
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT GENERATED ALWAYS AS ('x') STORED)",
            &["generated there"],
        ),
        ("CREATE VIEW orders AS SELECT 1 AS id, 'x' AS note", &["it is a view"]),
        ("CREATE TABLE Orders (id INTEGER PRIMARY KEY, note TEXT)", &["letter case"]),
        ("CREATE TABLE orders (id INTEGER PRIMARY KEY, note BLOB) STRICT", &["column \"note\" is BLOB"]),
    ] {
        let folder = tempdir().unwrap();
        user(folder.path()).execute_batch(sql).unwrap();
        let mut sink = sqlite(folder.path());
        let mut all = words.to_vec();
        all.extend(["another shape", "wanted:", "found:", "help:"]);
        if sql.contains("VIEW") || sql.contains("Orders") {
            all.retain(|w| *w != "wanted:" || sql.contains("Orders"));
        }
        refused(sink.check(&orders()), codes::TARGET_SHAPE, &all);
        sink.claim(&job("run")).unwrap();
        refused(sink.prepare(&orders()), codes::TARGET_SHAPE, &all);
    }
}

#[test]
fn tables_of_the_users_own_that_fit_are_taken() {
    for sql in [
        "CREATE TABLE orders (note VARCHAR(3), id INT NOT NULL UNIQUE, extra TEXT DEFAULT 'kept')",
        "CREATE TABLE orders (ID INTEGER PRIMARY KEY, Note TEXT, extra TEXT NOT NULL DEFAULT 'kept')",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, note ANY, extra TEXT DEFAULT 'kept') STRICT",
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, note TEXT, extra TEXT DEFAULT 'kept') WITHOUT ROWID; \
         CREATE INDEX i ON orders (note)",
    ] {
        let folder = tempdir().unwrap();
        user(folder.path()).execute_batch(sql).unwrap();
        let (table, rows) = (orders(), [order(1, "a"), order(2, "bb\0b")]);
        let mut sink = claimed(folder.path());
        sink.check(&table).unwrap();
        sink.prepare(&table).unwrap();
        sink.write(&upserts(&table, 1, &[order(1, "x"), order(3, "y")])).unwrap();
        sink.commit(1, &binding(1)).unwrap();
        user(folder.path()).execute_batch("UPDATE orders SET extra = 'mine'").unwrap();
        sink.write(&upserts(&table, 2, &rows)).unwrap();
        sink.write(&batch(&table, vec![delete(2, Row::pack([Value::Int(3)]))])).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        equal(folder.path(), &table, &rows);
        assert_eq!(query(folder.path(), "SELECT extra FROM orders ORDER BY id"), ["mine", "kept"]);
    }
}
