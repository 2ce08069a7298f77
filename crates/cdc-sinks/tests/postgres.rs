//! What the postgres sink promises, tried on a server.

mod common;

use cdc_core::connector::{Comparison, Sink, TargetSchemaChange};
use cdc_core::event::Op;
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, LobSize};
use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};
use cdc_core::{Row, codes};
use common::postgres::Target;
use common::*;

/// A column of every type, and rows at the ends of each; the last: what the server prints for the first row.
fn everything() -> Vec<(ColumnType, Vec<Value<'static>>, &'static str)> {
    let charset = Charset::utf8mb4();
    let day = |year, month, day| Date { year, month, day };
    let at = |date, hour, minute, second, micro| DateTime { date, hour, minute, second, micro };
    let nines = "9".repeat(35) + "." + &"9".repeat(30);
    let all_bytes: Vec<u8> = (0..=255).collect();
    let int = |width, unsigned| ColumnType::Int { width, unsigned };
    use IntWidth::{Big, Int, Medium, Small, Tiny};
    vec![
        (int(Int, false), (1..=3).map(Value::Int).collect(), "1"),
        (int(Tiny, false), vec![Value::Int(-128), Value::Int(127), Value::Null], "-128"),
        (int(Tiny, true), vec![Value::UInt(255), Value::UInt(0), Value::Null], "255"),
        (int(Small, false), vec![Value::Int(-32_768), Value::Int(32_767), Value::Null], "-32768"),
        (int(Small, true), vec![Value::UInt(65_535), Value::UInt(0), Value::Null], "65535"),
        (int(Medium, false), vec![Value::Int(-8_388_608), Value::Int(8_388_607), Value::Null], "-8388608"),
        (int(Medium, true), vec![Value::UInt(16_777_215), Value::UInt(0), Value::Null], "16777215"),
        (
            int(Int, false),
            vec![Value::Int(-2_147_483_648), Value::Int(2_147_483_647), Value::Null],
            "-2147483648",
        ),
        (int(Int, true), vec![Value::UInt(4_294_967_295), Value::UInt(0), Value::Null], "4294967295"),
        (
            int(Big, false),
            vec![Value::Int(i64::MIN), Value::Int(i64::MAX), Value::Int(0)],
            "-9223372036854775808",
        ),
        (
            int(Big, true),
            vec![Value::UInt(u64::MAX), Value::UInt(1 << 63), Value::UInt(i64::MAX as u64)],
            "18446744073709551615",
        ),
        (
            decimal(65, 30),
            vec![
                Value::Decimal(nines.clone().into()),
                Value::Decimal(("-".to_owned() + &nines).into()),
                Value::Decimal(("0.".to_owned() + &"0".repeat(30)).into()),
            ],
            "99999999999999999999999999999999999.999999999999999999999999999999",
        ),
        (
            decimal(10, 2),
            vec![
                Value::Decimal("-0.01".into()),
                Value::Decimal("1.50".into()),
                Value::Decimal("100.00".into()),
            ],
            "-0.01",
        ),
        (
            ColumnType::Float { unsigned: false },
            vec![Value::Float(-0.0), Value::Float(f32::MAX), Value::Float(0.1)],
            "-0",
        ),
        (
            ColumnType::Float { unsigned: false },
            vec![Value::Float(1e-45), Value::Float(f32::MIN_POSITIVE), Value::Float(16_777_216.0)],
            "1e-45",
        ),
        (
            ColumnType::Double { unsigned: false },
            vec![Value::Double(f64::MAX), Value::Double(5e-324), Value::Double(-0.0)],
            "1.7976931348623157e+308",
        ),
        (
            ColumnType::Double { unsigned: false },
            vec![Value::Double(0.1), Value::Double(1e15), Value::Double(9_007_199_254_740_993.0)],
            "0.1",
        ),
        (ColumnType::Bit { width: 3 }, vec![Value::Bit(3), Value::Bit(0), Value::Bit(7)], "011"),
        (
            ColumnType::Bit { width: 64 },
            vec![Value::Bit(1 << 63 | 1), Value::Bit(u64::MAX), Value::Bit(0)],
            "1000000000000000000000000000000000000000000000000000000000000001",
        ),
        (ColumnType::Year, vec![Value::Year(1901), Value::Year(0), Value::Year(2155)], "1901"),
        (
            ColumnType::Date,
            vec![Value::Date(day(9999, 12, 31)), Value::Date(day(0, 1, 1)), Value::Date(day(1, 1, 1))],
            "9999-12-31",
        ),
        (
            ColumnType::Time { fsp: 0 },
            vec![
                Value::Time(Time { micros: -3_020_399_000_000 }),
                Value::Time(Time { micros: -1_000_000 }),
                Value::Time(Time { micros: 360_000_000_000 }),
            ],
            "-838:59:59",
        ),
        (
            ColumnType::Time { fsp: 6 },
            vec![
                Value::Time(Time { micros: -10_000 }),
                Value::Time(Time { micros: 3_020_399_999_999 }),
                Value::Time(Time { micros: 0 }),
            ],
            "-00:00:00.01",
        ),
        (
            ColumnType::DateTime { fsp: 6 },
            vec![
                Value::DateTime(at(day(9999, 12, 31), 23, 59, 59, 999_999)),
                Value::DateTime(at(day(0, 12, 31), 1, 2, 3, 40)),
                Value::DateTime(at(day(1, 1, 1), 0, 0, 0, 1)),
            ],
            "9999-12-31 23:59:59.999999",
        ),
        (
            ColumnType::DateTime { fsp: 0 },
            vec![
                Value::DateTime(at(day(1000, 1, 1), 0, 0, 0, 0)),
                Value::DateTime(at(day(2026, 3, 29), 2, 30, 0, 0)),
                Value::Null,
            ],
            "1000-01-01 00:00:00",
        ),
        (
            ColumnType::Timestamp { fsp: 3 },
            vec![
                Value::Timestamp(Timestamp { micros: 2_147_483_647_999_000 }),
                Value::Timestamp(Timestamp { micros: 1_000_000 }),
                Value::Timestamp(Timestamp { micros: 4_294_967_295_000_000 }),
            ],
            "2038-01-19 03:14:07.999+00",
        ),
        (
            ColumnType::Char { length: 10, charset: charset.clone() },
            vec![text("0012"), text(""), text("1e3")],
            "0012",
        ),
        (
            varchar(),
            vec![text("'\"\\;-- \\N\\. \\x41"), text("  spaces \t\r\n "), text("日本語🙂\u{10ffff}")],
            "'\"\\;-- \\N\\. \\x41",
        ),
        (
            ColumnType::Text { size: LobSize::Long, charset: charset.clone() },
            vec![text("NULL"), text(&"x".repeat(20_000)), Value::Null],
            "NULL",
        ),
        (
            ColumnType::Binary { length: 4 },
            vec![
                Value::Bytes(vec![0xaa, 0, 0, 0].into()),
                Value::Bytes(vec![0; 4].into()),
                Value::Bytes(b"1234".to_vec().into()),
            ],
            "\\xaa000000",
        ),
        (
            ColumnType::Blob { size: LobSize::Long },
            vec![
                Value::Bytes(b"\\x\0".to_vec().into()),
                Value::Bytes(all_bytes.into()),
                Value::Bytes(vec![].into()),
            ],
            "\\x5c7800",
        ),
        (
            ColumnType::Enum { labels: ["point".into(), "1".into()].into(), charset: charset.clone() },
            vec![
                Value::Enum { index: 1, label: "point".into() },
                Value::Enum { index: 0, label: "".into() },
                Value::Enum { index: 2, label: "1".into() },
            ],
            "point",
        ),
        (
            ColumnType::Set { labels: ["a".into(), "b".into()].into(), charset },
            vec![
                Value::Set { bits: 3, labels: "a,b".into() },
                Value::Set { bits: 0, labels: "".into() },
                Value::Null,
            ],
            "a,b",
        ),
        (
            ColumnType::Json,
            vec![
                Value::Json("{\"b\": 1.50, \"a\": [null, \"é\\u0000\"]}".into()),
                Value::Json("1".into()),
                Value::Json("null".into()),
            ],
            "{\"b\": 1.50, \"a\": [null, \"é\\u0000\"]}",
        ),
        (
            ColumnType::Geometry { kind: "point".into(), srid: Some(4326) },
            vec![
                Value::Geometry(vec![0xe6, 0x10, 0, 0, 1, 1].into()),
                Value::Null,
                Value::Geometry(vec![0].into()),
            ],
            "\\xe61000000101",
        ),
        (
            ColumnType::Vector { dimensions: 2 },
            vec![
                Value::Vector(
                    [1.0f32, -0.0, 0.1].iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>().into(),
                ),
                Value::Null,
                Value::Vector(vec![].into()),
            ],
            "{1,-0,0.1}",
        ),
        (
            ColumnType::Uuid,
            vec![
                text("00112233-4455-6677-8899-aabbccddeeff"),
                Value::Null,
                text("ffffffff-ffff-ffff-ffff-ffffffffffff"),
            ],
            "00112233-4455-6677-8899-aabbccddeeff",
        ),
        (ColumnType::Inet4, vec![text("10.1.0.0"), text("0.0.0.0"), Value::Null], "10.1.0.0"),
        (
            ColumnType::Inet6,
            vec![text("2001:db8::1:1:1:1:1"), text("::ffff:10.1.0.0"), text("1::")],
            "2001:db8:0:1:1:1:1:1",
        ),
    ]
}

#[test]
fn every_type_comes_back_as_it_went_in() {
    let target = Target::start();
    let all = everything();
    let columns: Vec<Column> =
        all.iter().enumerate().map(|(i, (ty, _, _))| Column::new(format!("c{i}"), ty.clone())).collect();
    let table = table("types", columns.clone(), &[0]);
    let rows: Vec<Row> =
        (0..3).map(|r| Row::pack(all.iter().map(|(_, values, _)| values[r].clone()))).collect();
    let nulls = Row::pack((0..all.len()).map(|i| if i == 0 { Value::Int(4) } else { Value::Null }));
    let printed = |case: &common::postgres::Case<'_>, i: usize| {
        case.sql(&format!("SELECT c{i} FROM types WHERE c0 = 1")).join("\n")
    };
    // By a statement; by COPY, and the updates by a staging table.
    for copies in [1, 170] {
        let case = target.case();
        let mut sink = case.claimed();
        sink.prepare(&table).unwrap();
        let more: Vec<Row> = (0..copies)
            .flat_map(|n| rows.iter().map(move |row| (n, row)))
            .map(|(n, row)| {
                let id = Value::Int(
                    row.iter().next().map_or(0, |v| if let Value::Int(v) = v { v } else { 0 }) + n * 10,
                );
                Row::pack([id].into_iter().chain(row.iter().skip(1)))
            })
            .collect();
        sink.write(&upserts(&table, 1, &more)).unwrap();
        sink.commit(1, &binding(1)).unwrap();
        case.equal(&table, &more);
        for (i, (ty, _, wanted)) in all.iter().enumerate() {
            assert_eq!(printed(&case, i), *wanted, "{ty}");
        }
        // The same through updates, and a NULL in every column.
        let mut updates = upserts(&table, 2, &more);
        updates.changes.iter_mut().for_each(|c| c.source_op = Op::Update);
        sink.write(&updates).unwrap();
        sink.write(&upserts(&table, 2, std::slice::from_ref(&nulls))).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        let with_nulls: Vec<Row> = more.iter().chain([&nulls]).cloned().collect();
        case.equal(&table, &with_nulls);
        if copies > 1 {
            continue;
        }
        // What differs is told, both sides shown.
        case.sql("UPDATE types SET c12 = -0.02, c9 = 7 WHERE c0 = 1");
        let Comparison::Differs(columns) = &case.reader().compare(&table, &rows[..1]).unwrap()[0] else {
            panic!()
        };
        let told: Vec<_> = columns.iter().map(|d| (&*d.column, &*d.expected, &*d.actual)).collect();
        assert_eq!(told, [("c9", "-9223372036854775808", "7"), ("c12", "-0.01", "-0.02")]);
    }
    // Each can be a key.
    let case = target.case();
    let mut sink = case.claimed();
    let mut tick = 0;
    for (i, (_, values, _)) in all.iter().enumerate() {
        let name = format!("keyed{i}");
        let table = common::table(&name, vec![columns[i].clone(), Column::new("n", int())], &[0]);
        let keys: Vec<&Value<'_>> = values
            .iter()
            .filter(|v| !v.is_null() && !matches!(v, Value::Text(t) if t.len() > 2000))
            .collect();
        let row = |v: &Value<'static>, n: i64| Row::pack([v.clone(), Value::Int(n)]);
        sink.prepare(&table).unwrap();
        for n in [1, 2] {
            let rows: Vec<Row> = keys.iter().map(|v| row(v, n)).collect();
            tick += 1;
            sink.write(&upserts(&table, tick, &rows)).unwrap();
            sink.commit(tick, &binding(1)).unwrap();
            case.equal(&table, &rows);
        }
        tick += 1;
        sink.write(&batch(&table, vec![delete(tick, Row::pack([keys[0].clone()]))])).unwrap();
        sink.commit(tick, &binding(3)).unwrap();
        let rest: Vec<Row> = keys[1..].iter().map(|v| row(v, 2)).collect();
        case.equal(&table, &rest);
        if let Some(null) = values.iter().find(|v| v.is_null()) {
            let refusal = sink.write(&upserts(&table, tick + 1, &[row(null, 1)]));
            refused(refusal, codes::KEY_COLUMN_NULL, &[&name, "help:"]);
        }
    }
}

#[test]
fn what_the_server_has_no_value_for_is_refused_or_goes_by_the_policy() {
    let target = Target::start();
    let (table, hostile) = (orders(), order(7, "a\0b"));
    let case = target.case();
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    let write = |sink: &mut dyn Sink, table: &_, rows: &[Row]| {
        sink.write(&upserts(table, 1, rows)).and_then(|()| sink.commit(1, &binding(1)))
    };
    let words = ["table \"orders\"", "column \"note\"", "key: (7)", "nul = remove"];
    refused(write(&mut *sink, &table, &[order(6, "x"), hostile.clone()]), codes::TARGET_VALUE, &words);
    // in a COPY too
    let many: Vec<Row> = (100..300).map(|i| order(i, "x")).chain([hostile.clone()]).collect();
    refused(write(&mut *sink, &table, &many), codes::TARGET_VALUE, &words);
    case.equal(&table, &[]);
    for (policy, reads) in [("remove", "7|ab"), ("replace", "7|a\u{fffd}b")] {
        let case = target.case().with("nul", policy);
        let mut sink = case.claimed();
        sink.prepare(&table).unwrap();
        write(&mut *sink, &table, std::slice::from_ref(&hostile)).unwrap();
        assert_eq!(case.sql("SELECT * FROM orders"), [reads]);
        case.equal(&table, std::slice::from_ref(&hostile));
        let keyed = common::table("keyed", vec![Column::new("k", varchar()).not_null()], &[0]);
        sink.prepare(&keyed).unwrap();
        sink.write(&upserts(&keyed, 2, &[Row::pack([text("a\0b")])])).unwrap();
        refused(sink.commit(2, &binding(2)), codes::TARGET_VALUE, &["\"k\"", "this is a key"]);
    }
    let case = target.case();
    let mut sink = case.claimed();
    let dates = common::table(
        "dates",
        vec![
            Column::new("id", int()).not_null(),
            Column::new("d", ColumnType::Date),
            Column::new("t", ColumnType::Timestamp { fsp: 0 }),
        ],
        &[0],
    );
    sink.prepare(&dates).unwrap();
    for (d, t) in [
        (Value::Date(Date::default()), Value::Null),
        (Value::Date(Date { year: 2026, month: 2, day: 31 }), Value::Null),
        (Value::Null, Value::Timestamp(Timestamp { micros: 0 })),
    ] {
        let row = Row::pack([Value::Int(1), d, t]);
        refused(
            write(&mut *sink, &dates, &[row]),
            codes::TARGET_VALUE,
            &["\"dates\"", "key: (1)", "zero_dates"],
        );
    }
    let wrong = Row::pack([Value::Int(1), Value::Int(2)]);
    sink.prepare(&table).unwrap();
    refused(write(&mut *sink, &table, &[wrong]), codes::TARGET_VALUE, &["column \"note\"", "an integer"]);
    let partial = Row::pack([Value::Int(1), Value::Absent]);
    refused(
        write(&mut *sink, &table, &[partial]),
        codes::PARTIAL_IMAGE,
        &["column \"note\"", "binlog_row_image"],
    );
    refused(write(&mut *sink, &table, &[Row::pack([Value::Int(1)])]), codes::INTERNAL, &[]);
    let mut lost = upsert(&table, 2, &order(1, "a"));
    lost.row = None;
    refused(sink.write(&batch(&table, vec![lost])), codes::INTERNAL, &["without its row"]);
    // longer than an index takes
    let keyed = common::table("long", vec![Column::new("k", varchar()).not_null()], &[0]);
    sink.prepare(&keyed).unwrap();
    let long: String =
        (0..9000u32).map(|i| char::from(b'!' + (i.wrapping_mul(2_654_435_761) >> 24) as u8 % 90)).collect();
    let long = Row::pack([text(&long)]);
    refused(
        write(&mut *sink, &keyed, &[Row::pack([text("short")]), long]),
        codes::TARGET_VALUE,
        &["\"long\"", "index row"],
    );
    case.equal(&table, &[]);
}

#[test]
fn names_that_the_server_cannot_have_are_refused() {
    let target = Target::start();
    let case = target.case();
    let mut sink = case.claimed();
    let long = "x".repeat(64);
    for name in ["_cdc_progress", "_CDC_x", "", "a\0b", &long] {
        let columns = vec![Column::new("id", int()).not_null()];
        refused(sink.prepare(&table(name, columns, &[0])), codes::TARGET_SHAPE, &["help:"]);
        let columns = vec![Column::new("id", int()).not_null(), Column::new(name, int())];
        if !name.to_lowercase().starts_with("_cdc") {
            refused(sink.prepare(&table("t", columns, &[0])), codes::TARGET_SHAPE, &["rename"]);
        }
    }
    let columns = vec![Column::new("ctid", int()).not_null()];
    refused(sink.check(&table("t", columns, &[0])), codes::TARGET_SHAPE, &["\"ctid\"", "rename"]);
}

#[test]
fn keys_under_every_kind_of_type_that_folds_letter_case() {
    let target = Target::start();
    let case = target.case();
    let make =
        |name: &str, ty| table(name, vec![Column::new("k", ty).not_null(), Column::new("v", int())], &[0]);
    let row = |k: &str, v| Row::pack([text(k), Value::Int(v)]);
    let key = |k: &str| Row::pack([text(k)]);
    let mut sink = case.claimed();
    // A key of the target that does not tell letter case apart.
    case.server.admin("CREATE EXTENSION citext; CREATE COLLATION public.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)").unwrap();
    let folding =
        ["k citext PRIMARY KEY", "k text COLLATE ci PRIMARY KEY", "k varchar(200) COLLATE ci PRIMARY KEY"];
    for (i, declared) in folding.into_iter().enumerate() {
        let name = format!("ci{i}");
        case.sql(&format!("CREATE TABLE {name} ({declared}, v int)"));
        // Under a source's key that tells case apart, two rows would become one.
        refused(sink.check(&make(&name, binary_varchar())), codes::TARGET_SHAPE, &["letter case", "help:"]);
        let table = make(&name, varchar());
        sink.check(&table).unwrap();
        sink.prepare(&table).unwrap();
        let mut tick = 10 + i as u64 * 10;
        let mut commit = |sink: &mut dyn Sink| {
            tick += 1;
            sink.commit(tick, &binding(1)).unwrap();
        };
        sink.write(&upserts(&table, 9, &[row("a", 1)])).unwrap();
        commit(&mut *sink);
        let changes = vec![upsert(&table, 9, &row("A", 2)), delete(9, key("a"))];
        sink.write(&batch(&table, changes)).unwrap();
        commit(&mut *sink);
        case.equal(&table, &[row("A", 2)]);
        sink.write(&upserts(&table, 9, &[row("a", 3)])).unwrap();
        commit(&mut *sink);
        case.equal(&table, &[row("a", 3)]);
        // several ticks in one transaction, there and back
        for (from, to, v) in [("a", "A", 4), ("A", "a", 5), ("a", "A", 6)] {
            sink.write(&batch(
                &table,
                vec![delete(v as u64, key(from)), upsert(&table, v as u64, &row(to, v))],
            ))
            .unwrap();
        }
        commit(&mut *sink);
        case.equal(&table, &[row("A", 6)]);
    }
}

#[test]
fn tables_of_another_shape_are_refused_with_both_shapes_and_the_way_out() {
    let target = Target::start();
    let case = target.case();
    for (sql, words) in [
        ("CREATE TABLE orders (id int PRIMARY KEY)", &["\"note\"", "ADD COLUMN \"note\" text;"][..]),
        ("CREATE TABLE orders (id int, note text)", &["no key", "ADD PRIMARY KEY"]),
        ("CREATE TABLE orders (id int, note text PRIMARY KEY)", &["unique there", "DROP CONSTRAINT"]),
        ("CREATE TABLE orders (id int, note text, PRIMARY KEY (id, note))", &["unique there"]),
        (
            "CREATE TABLE orders (id smallint PRIMARY KEY, note text)",
            &["column \"id\" is smallint", "integer"],
        ),
        ("CREATE TABLE orders (id int PRIMARY KEY, note numeric(5))", &["column \"note\" is numeric(5,0)"]),
        ("CREATE TABLE orders (id int PRIMARY KEY, note varchar(99))", &["character varying(99)"]),
        ("CREATE TABLE orders (id int PRIMARY KEY, note text NOT NULL)", &["NOT NULL", "DROP NOT NULL"]),
        ("CREATE TABLE orders (id int PRIMARY KEY, note text, x text NOT NULL)", &["\"x\" is not ours"]),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, note text UNIQUE)",
            &["(\"note\") is unique there", "DROP CONSTRAINT \"orders_note_key\""],
        ),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, note text); CREATE UNIQUE INDEX u ON orders (note)",
            &["DROP INDEX", "\"u\""],
        ),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, note text); CREATE UNIQUE INDEX u ON orders (lower(note))",
            &["an expression", "DROP INDEX"],
        ),
        (
            "CREATE TABLE orders (id int, note text); CREATE UNIQUE INDEX u ON orders (id) WHERE id > 3",
            &["unique there"],
        ),
        ("CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE, note text)", &["end of a transaction"]),
        ("CREATE TABLE orders (id int PRIMARY KEY, note text, EXCLUDE (note WITH =))", &["unique there"]),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, note text GENERATED ALWAYS AS ('x') STORED)",
            &["generated there"],
        ),
        (
            "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)",
            &["identity", "BY DEFAULT"],
        ),
        ("CREATE VIEW orders AS SELECT 1 AS id, 'x' AS note", &["it is a view"]),
        ("CREATE TABLE orders (id int PRIMARY KEY, note bytea)", &["column \"note\" is bytea"]),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, note text); CREATE RULE r AS ON DELETE TO orders DO INSTEAD NOTHING",
            &["rules"],
        ),
        (
            "CREATE TABLE orders (id int PRIMARY KEY, note text); ALTER TABLE orders ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
            &["row security"],
        ),
    ] {
        case.sql(sql);
        let mut all = words.to_vec();
        all.extend(["another shape", "wanted:", "found:", "help:"]);
        let mut sink = case.sink();
        refused(sink.check(&orders()), codes::TARGET_SHAPE, &all);
        sink.claim(&job("run")).unwrap();
        refused(sink.prepare(&orders()), codes::TARGET_SHAPE, &all);
        case.sql(if sql.contains("VIEW") { "DROP VIEW orders" } else { "DROP TABLE orders" });
    }
    for sql in [
        "CREATE TABLE orders (note varchar(100), id bigint NOT NULL UNIQUE, extra text DEFAULT 'kept')",
        "CREATE TABLE orders (\"ID\" int PRIMARY KEY, \"Note\" text, extra text NOT NULL DEFAULT 'kept')",
        "CREATE TABLE orders (id numeric(30,0) PRIMARY KEY, note varchar, extra text DEFAULT 'kept'); CREATE INDEX i ON orders (note)",
        "CREATE TABLE orders (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, note text, extra text DEFAULT 'kept')",
        "CREATE TABLE orders (id int PRIMARY KEY, note text, extra text DEFAULT 'kept') PARTITION BY RANGE (id);
         CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (2); CREATE TABLE high PARTITION OF orders DEFAULT",
    ] {
        let case = target.case();
        case.sql(sql);
        let (table, rows) = (orders(), [order(1, "a"), order(2, "bb")]);
        let mut sink = case.claimed();
        sink.check(&table).unwrap();
        sink.prepare(&table).unwrap();
        sink.write(&upserts(&table, 1, &[order(1, "x"), order(3, "y")])).unwrap();
        sink.commit(1, &binding(1)).unwrap();
        case.sql("UPDATE orders SET extra = 'mine'");
        sink.write(&upserts(&table, 2, &rows)).unwrap();
        sink.write(&batch(&table, vec![delete(2, Row::pack([Value::Int(3)]))])).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        case.equal(&table, &rows);
        assert_eq!(case.sql("SELECT extra FROM orders ORDER BY 1 DESC"), ["mine", "kept"]);
    }
}

#[test]
fn a_delete_that_the_target_refuses_is_shown() {
    let target = Target::start();
    let case = target.case();
    let table = orders();
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    sink.write(&upserts(&table, 2, &[order(1, "a"), order(2, "b")])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    case.sql("CREATE TABLE needs (id int REFERENCES orders); INSERT INTO needs VALUES (2)");
    let gone = |id| delete(3, Row::pack([Value::Int(id)]));
    sink.write(&batch(&table, vec![gone(1), gone(2)])).unwrap();
    refused(sink.commit(3, &binding(3)), codes::TARGET_WRITE, &["foreign key", "deleting key (2)", "DELETE"]);
    case.equal(&table, &[order(1, "a"), order(2, "b")]);
    // one that waits for the end of the transaction is asked then
    case.sql("ALTER TABLE needs ALTER CONSTRAINT needs_id_fkey DEFERRABLE INITIALLY IMMEDIATE");
    sink.write(&batch(&table, vec![gone(2)])).unwrap();
    sink.write(&upserts(&table, 4, &[order(2, "again")])).unwrap();
    sink.commit(4, &binding(4)).unwrap();
    case.equal(&table, &[order(1, "a"), order(2, "again")]);
}

#[test]
fn many_updates_go_through_a_staging_table_or_without_one() {
    let target = Target::start();
    let case = target.case();
    let table = orders();
    let updates = |tick, from: i64, n: i64, note: &str| {
        let mut batch = upserts(&table, tick, &(from..from + n).map(|i| order(i, note)).collect::<Vec<_>>());
        batch.changes.iter_mut().for_each(|c| c.source_op = Op::Update);
        batch
    };
    let notes = |case: &common::postgres::Case<'_>| {
        case.sql("SELECT note, count(*) FROM orders GROUP BY 1 ORDER BY 1")
    };
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    // more than wait at most: several parts in one transaction, of the second of which some rows are there
    sink.write(&updates(1, 0, 51_000, "a")).unwrap();
    sink.write(&updates(1, 50_000, 25_000, "b")).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    assert_eq!(notes(&case), ["a|50000", "b|25000"]);
    // given up, and again; under another shape; with the table there from before
    sink.write(&updates(2, 0, 51_000, "c")).unwrap();
    sink.rollback();
    sink.write(&updates(2, 0, 700, "d")).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    let add = TargetSchemaChange::AddColumn {
        table: "orders".into(),
        column: Column::new("x", int()),
        implicit: false,
        keeps_default: false,
    };
    sink.apply(&add).unwrap();
    let columns = [table.schema.columns.clone(), vec![Column::new("x", int())]].concat();
    let wider = common::table("orders", columns, &[0]);
    let rows: Vec<Row> = (0..600).map(|i| Row::pack([Value::Int(i), text("e"), Value::Int(i)])).collect();
    let mut batch = upserts(&wider, 3, &rows);
    batch.changes.iter_mut().for_each(|c| c.source_op = Op::Update);
    sink.prepare(&wider).unwrap();
    sink.write(&batch).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(notes(&case), ["a|49300", "b|25000", "d|100", "e|600"]);
    // a row that is refused among them is found
    case.sql("ALTER TABLE orders ADD CHECK (note <> 'no' OR id <> 650)");
    let refusal = sink.write(&updates(4, 0, 900, "no")).and_then(|()| sink.commit(4, &binding(4)));
    refused(refusal, codes::TARGET_WRITE, &["key (650)", "check constraint"]);
    // an account that may not make temporary tables
    target
        .server
        .admin("REVOKE TEMP ON DATABASE dw FROM PUBLIC; REVOKE TEMP ON DATABASE dw FROM cdc")
        .unwrap();
    let mut sink = case.sink();
    sink.claim(&job("without")).unwrap();
    sink.prepare(&table).unwrap();
    sink.write(&updates(4, 0, 600, "f")).unwrap();
    sink.commit(4, &binding(4)).unwrap();
    assert_eq!(notes(&case), ["a|49300", "b|25000", "d|100", "f|600"]);
}
