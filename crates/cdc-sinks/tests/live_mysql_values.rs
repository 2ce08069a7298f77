//! Values and keys in a MySQL or MariaDB target: what comes out is what went in, by the target's own SELECT.

mod common;
#[path = "common/mysql.rs"]
mod target;

use cdc_core::connector::{Comparison, TargetChange};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, LobSize};
use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};
use cdc_core::{Row, codes};
use common::*;
use target::{Target, start};

fn int_of(width: IntWidth, unsigned: bool) -> ColumnType {
    ColumnType::Int { width, unsigned }
}

fn text_of(size: LobSize) -> ColumnType {
    ColumnType::Text { size, charset: Charset::utf8mb4() }
}

fn bytes(v: &[u8]) -> Value<'static> {
    Value::Bytes(v.to_vec().into())
}

fn decimal_value(v: impl Into<String>) -> Value<'static> {
    Value::Decimal(v.into().into())
}

/// A point as the servers store it.
fn point(srid: u32, x: f64, y: f64) -> Vec<u8> {
    let mut out = srid.to_le_bytes().to_vec();
    out.extend([1, 1, 0, 0, 0]);
    out.extend(x.to_le_bytes());
    out.extend(y.to_le_bytes());
    out
}

/// A type, the values, and for each what `reading` of the column gives at the target. `{}` is the column.
type Case = (ColumnType, &'static str, Vec<(Value<'static>, String)>);

fn cases(mariadb: bool, vectors: bool) -> Vec<Case> {
    let charset = Charset::utf8mb4();
    let day = |year, month, day| Date { year, month, day };
    let at = |date, hour, minute, second, micro| DateTime { date, hour, minute, second, micro };
    let nines = "9".repeat(35) + "." + &"9".repeat(30);
    let all_bytes: Vec<u8> = (0..=255).collect();
    let hex = |v: &[u8]| v.iter().map(|b| format!("{b:02X}")).collect::<String>();
    let zero = if mariadb { "0" } else { "-0" };
    let mut cases: Vec<Case> = Vec::new();
    for (width, bits) in [
        (IntWidth::Tiny, 8),
        (IntWidth::Small, 16),
        (IntWidth::Medium, 24),
        (IntWidth::Int, 32),
        (IntWidth::Big, 64),
    ] {
        let (min, max) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
        let most = u64::MAX >> (64 - bits);
        let signed = [min, max, 0, -1].map(|v| (Value::Int(v), v.to_string()));
        let unsigned = [most, 0, 1, most / 2 + 1].map(|v| (Value::UInt(v), v.to_string()));
        cases.push((int_of(width, false), "{}", signed.into()));
        cases.push((int_of(width, true), "{}", unsigned.into()));
    }
    let plain = |values: &[&str], make: &dyn Fn(&str) -> Value<'static>| -> Vec<(Value<'static>, String)> {
        values.iter().map(|v| (make(v), (*v).to_owned())).collect()
    };
    cases.push((
        decimal(65, 30),
        "{}",
        plain(&[&nines, &format!("-{nines}"), &format!("0.{}", "0".repeat(30))], &|v| decimal_value(v)),
    ));
    cases.push((decimal(10, 2), "{}", plain(&["1.50", "-0.01", "100.00"], &|v| decimal_value(v))));
    cases.push((decimal(65, 0), "{}", plain(&[&"9".repeat(65), "-1"], &|v| decimal_value(v))));
    cases.push((
        decimal(60, 38),
        "{}",
        plain(&[&format!("-{}.{}", "9".repeat(22), "9".repeat(38))], &|v| decimal_value(v)),
    ));
    let float = |v: f32, shown: &str| (Value::Float(v), shown.to_owned());
    cases.push((
        ColumnType::Float { unsigned: false },
        "CAST({} AS DOUBLE)",
        vec![
            float(f32::MAX, "3.4028234663852886e38"),
            float(0.1, "0.10000000149011612"),
            float(-0.0, zero),
            float(f32::MIN_POSITIVE, "1.1754943508222875e-38"),
            float(16_777_217.0, "16777216"),
        ],
    ));
    let double = |v: f64, shown: &str| (Value::Double(v), shown.to_owned());
    cases.push((
        ColumnType::Double { unsigned: false },
        "{}",
        vec![
            double(f64::MAX, "1.7976931348623157e308"),
            double(f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            double(-0.0, zero),
            double(0.1 + 0.2, "0.30000000000000004"),
            double(9_007_199_254_740_993.0, "9.007199254740992e15"),
        ],
    ));
    cases.push((
        ColumnType::Bit { width: 3 },
        "BIN({})",
        vec![(Value::Bit(3), "11".into()), (Value::Bit(7), "111".into())],
    ));
    cases.push((
        ColumnType::Bit { width: 64 },
        "HEX({})",
        vec![(Value::Bit(u64::MAX), "F".repeat(16)), (Value::Bit(1 << 63), format!("8{}", "0".repeat(15)))],
    ));
    cases.push((
        ColumnType::Year,
        "{}",
        vec![
            (Value::Year(0), "0000".into()),
            (Value::Year(1901), "1901".into()),
            (Value::Year(2155), "2155".into()),
        ],
    ));
    cases.push((
        ColumnType::Date,
        "{}",
        vec![
            (Value::Date(day(0, 0, 0)), "0000-00-00".into()),
            (Value::Date(day(9999, 12, 31)), "9999-12-31".into()),
            (Value::Date(day(2026, 2, 0)), "2026-02-00".into()),
            (Value::Date(day(2024, 2, 31)), "2024-02-31".into()),
            (Value::Date(day(1, 1, 1)), "0001-01-01".into()),
        ],
    ));
    let time = |micros, shown: &str| (Value::Time(Time { micros }), shown.to_owned());
    cases.push((
        ColumnType::Time { fsp: 0 },
        "{}",
        vec![
            time(-3_020_399_000_000, "-838:59:59"),
            time(-1_000_000, "-00:00:01"),
            time(360_000_000_000, "100:00:00"),
        ],
    ));
    cases.push((
        ColumnType::Time { fsp: 6 },
        "{}",
        vec![
            time(-10_000, "-00:00:00.010000"),
            time(3_020_399_000_000, "838:59:59.000000"),
            time(1, "00:00:00.000001"),
        ],
    ));
    let datetime = |v, shown: &str| (Value::DateTime(v), shown.to_owned());
    cases.push((
        ColumnType::DateTime { fsp: 6 },
        "{}",
        vec![
            datetime(at(day(9999, 12, 31), 23, 59, 59, 999_999), "9999-12-31 23:59:59.999999"),
            datetime(DateTime::default(), "0000-00-00 00:00:00.000000"),
            datetime(at(day(2024, 2, 30), 1, 2, 3, 4), "2024-02-30 01:02:03.000004"),
        ],
    ));
    let timestamp = |micros, shown: &str| (Value::Timestamp(Timestamp { micros }), shown.to_owned());
    cases.push((
        ColumnType::Timestamp { fsp: 3 },
        "{}",
        vec![
            timestamp(2_147_483_647_999_000, "2038-01-19 03:14:07.999"),
            timestamp(0, "0000-00-00 00:00:00.000"),
            timestamp(1_000_000, "1970-01-01 00:00:01.000"),
        ],
    ));
    let hexed = |v: &str| (text(v), hex(v.as_bytes()));
    cases.push((
        ColumnType::Char { length: 10, charset: charset.clone() },
        "HEX({})",
        vec![hexed(""), hexed(" 12"), hexed("ÿ日🙂")],
    ));
    cases.push((
        varchar(),
        "HEX({})",
        vec![
            hexed("a\0b'\"\\;-- \n\t%_"),
            hexed("  spaces  "),
            hexed("日本語🙂\u{10ffff}"),
            hexed("\\'; DROP"),
        ],
    ));
    cases.push((text_of(LobSize::Tiny), "HEX({})", vec![hexed(&"é".repeat(127)), hexed("NULL")]));
    cases.push((text_of(LobSize::Long), "LENGTH({})", vec![(text(&"x'".repeat(600_000)), "1200000".into())]));
    cases.push((
        ColumnType::Binary { length: 4 },
        "HEX({})",
        [[0xaa, 0, 0, 0], [0; 4], *b"12'\\"].map(|v| (bytes(&v), hex(&v))).into(),
    ));
    cases.push((
        ColumnType::VarBinary { length: 300 },
        "HEX({})",
        vec![(bytes(&all_bytes), hex(&all_bytes)), (bytes(&[]), String::new()), (bytes(&[0]), "00".into())],
    ));
    cases.push((
        ColumnType::Blob { size: LobSize::Long },
        "LENGTH({})",
        vec![(bytes(&all_bytes.repeat(5000)), "1280000".into())],
    ));
    let member =
        |index, label: &'static str| (Value::Enum { index, label: label.into() }, format!("{index}{label}"));
    cases.push((
        ColumnType::Enum {
            labels: ["a'b".into(), "A'B".into(), "1".into(), "é,".into()].into(),
            charset: charset.clone(),
        },
        "CONCAT({} + 0, {})",
        vec![member(0, ""), member(1, "a'b"), member(2, "A'B"), member(3, "1"), member(4, "é,")],
    ));
    // the invalid value is another one than a member of no characters, or of the digit that it reads as
    cases.push((
        ColumnType::Enum { labels: ["0".into(), "".into(), "=".into()].into(), charset: charset.clone() },
        "CONCAT({} + 0, {})",
        vec![member(0, ""), member(1, "0"), member(2, ""), member(3, "=")],
    ));
    let charset_of_sets = charset.clone();
    let set = |bits, labels: &'static str| (Value::Set { bits, labels: labels.into() }, labels.to_owned());
    cases.push((
        ColumnType::Set { labels: ["m1".into(), "M1".into(), "it's".into()].into(), charset },
        "{}",
        vec![set(7, "m1,M1,it's"), set(0, ""), set(2, "M1")],
    ));
    // the set of a member of no characters reads as the empty one
    let number = |bits, labels: &'static str| (Value::Set { bits, labels: labels.into() }, format!("{bits}"));
    cases.push((
        ColumnType::Set {
            labels: (0..64).map(|i| if i == 0 { "".into() } else { format!("u{i}").into() }).collect(),
            charset: charset_of_sets,
        },
        "CAST({} AS UNSIGNED)",
        vec![number(0, ""), number(1, ""), number(3, ",u1"), number(2, "u1"), number(1 << 63 | 1, ",u63")],
    ));
    let json = |v: &'static str| (Value::Json(v.into()), v.replace('\\', "\\\\"));
    cases.push((
        ColumnType::Json,
        "{}",
        vec![
            json("{\"a\": 1.50, \"b\": [null, \"é🙂\", true]}"),
            json("12345678901234567890.1234567890"),
            json("{\"x\": 1e22, \"k\\\"ey\": [1.0, 0.1, -1.10, 18446744073709551615]}"),
            json("null"),
            json("\"\\\\ \\n '\""),
        ],
    ));
    let geometry = |v: Vec<u8>| {
        let shown = hex(&v);
        (Value::Geometry(v.into()), shown)
    };
    cases.push((
        ColumnType::Geometry { kind: "point".into(), srid: Some(4326) },
        "HEX({})",
        vec![geometry(point(4326, 13.4, 52.5))],
    ));
    let empty = [&0u32.to_le_bytes()[..], &[1, 7, 0, 0, 0, 0, 0, 0, 0]].concat();
    cases.push((
        ColumnType::Geometry { kind: "geometry".into(), srid: None },
        "HEX({})",
        vec![geometry(point(0, 1.0, -2.0)), geometry(empty)],
    ));
    let floats = |v: [f32; 2]| v.iter().flat_map(|f| f.to_le_bytes()).collect::<Vec<u8>>();
    let (one, two) = (floats([1.0, -0.5]), floats([1e18, 1e-30]));
    let mut vector =
        vec![(Value::Vector(one.clone().into()), hex(&one)), (Value::Vector(two.clone().into()), hex(&two))];
    if !mariadb || !vectors {
        vector.push((Value::Vector(one[..4].to_vec().into()), hex(&one[..4])));
    }
    cases.push((ColumnType::Vector { dimensions: 2 }, "HEX({})", vector));
    let same = |v: &'static str| (text(v), v.to_owned());
    cases.push((
        ColumnType::Uuid,
        "{}",
        vec![same("00112233-4455-6677-8899-aabbccddeeff"), same("ffffffff-ffff-ffff-ffff-ffffffffffff")],
    ));
    cases.push((ColumnType::Inet4, "{}", vec![same("10.1.0.0"), same("255.255.255.255")]));
    cases.push((
        ColumnType::Inet6,
        "{}",
        vec![same("::ffff:10.1.0.0"), same("::"), same("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
    ));
    cases
}

#[test]
fn every_type_comes_back_as_it_went_in() {
    let server = start();
    let target = Target::new(&server, "types");
    let vectors = !server.sql("SELECT VERSION()").unwrap().starts_with("10.");
    let cases = cases(server.kind().is_mariadb(), vectors);
    let rows = cases.iter().map(|(_, _, values)| values.len()).max().unwrap() + 1;
    let mut columns = vec![Column::new("id", int()).not_null()];
    columns.extend(cases.iter().enumerate().map(|(i, (ty, _, _))| Column::new(format!("c{i}"), ty.clone())));
    let table = table("types", columns, &[0]);
    let value = |case: &Case, row: usize| case.2.get(row).map_or(Value::Null, |(v, _)| v.clone());
    let rows: Vec<Row> = (0..rows)
        .map(|r| Row::pack(std::iter::once(Value::Int(r as i64)).chain(cases.iter().map(|c| value(c, r)))))
        .collect();
    let mut sink = target.filled(&table, &rows);
    let told = |i: usize, case: &Case| {
        let shown = case.1.replace("{}", &format!("c{i}"));
        let mut told = target.run(&format!("SELECT IFNULL({shown}, 'NULL') FROM types ORDER BY id"));
        told.truncate(case.2.len());
        told
    };
    for (i, case) in cases.iter().enumerate() {
        let expected: Vec<String> = case.2.iter().map(|(_, shown)| shown.clone()).collect();
        assert_eq!(told(i, case), expected, "{}", case.0);
    }
    target.equal(&table, &rows);
    // the same through updates, and of each row by itself
    for row in &rows {
        sink.write(&upserts(&table, 2, std::slice::from_ref(row))).unwrap();
    }
    sink.commit(2, &binding(2)).unwrap();
    target.equal(&table, &rows);
    // what differs is told, both sides shown
    target.run("UPDATE types SET c0 = 7, c11 = '1.51', c15 = NULL WHERE id = 0");
    let Comparison::Differs(columns) = &target.reader().compare(&table, &rows[..1]).unwrap()[0] else {
        panic!()
    };
    let told: Vec<_> = columns.iter().map(|d| (&*d.column, &*d.expected, &*d.actual)).collect();
    assert_eq!(
        told,
        [("c0", "-128", "7"), ("c11", "1.50", "1.51"), ("c15", "1.7976931348623157e308", "NULL")]
    );
}

/// Without a key every value of a row has to be found by itself.
#[test]
fn rows_without_a_key_are_found_by_every_type() {
    let server = start();
    let target = Target::new(&server, "found");
    let vectors = !server.sql("SELECT VERSION()").unwrap().starts_with("10.");
    let cases = cases(server.kind().is_mariadb(), vectors);
    let columns =
        cases.iter().enumerate().map(|(i, (ty, _, _))| Column::new(format!("c{i}"), ty.clone())).collect();
    let table = table("found", columns, &[]);
    let value = |case: &Case, row: usize| case.2.get(row).map_or(Value::Null, |(v, _)| v.clone());
    let rows: Vec<Row> = (0..6).map(|r| Row::pack(cases.iter().map(|c| value(c, r)))).collect();
    let mut sink = target.claimed();
    sink.prepare(&table).unwrap();
    let add = |tick| {
        batch(
            &table,
            rows.iter()
                .map(|r| upsert(&table, tick, r))
                .map(|mut c| {
                    c.key = c.row.clone().unwrap();
                    c
                })
                .collect(),
        )
    };
    sink.write(&add(1)).unwrap();
    sink.write(&add(1)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    // one by one, then all at once
    for row in &rows {
        sink.write(&batch(&table, vec![delete(2, row.clone())])).unwrap();
    }
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(target.run("SELECT COUNT(*) FROM found"), ["6"]);
    let mut reader = target.reader();
    let mut found = Vec::new();
    reader
        .scan_keys(&table, &mut |key, _| {
            found.push(key);
            true
        })
        .unwrap();
    found.sort();
    let mut wanted: Vec<_> = rows.iter().map(|r| reader.encode_key(&table, r)).collect();
    wanted.sort();
    assert_eq!(found, wanted);
    sink.write(&batch(&table, rows.iter().map(|r| delete(3, r.clone())).collect())).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(target.run("SELECT COUNT(*) FROM found"), ["0"]);
    let error = sink.write(&batch(&table, vec![delete(4, rows[0].clone())]));
    refused(error, codes::TARGET_ROW_MISSING, &["cdc verify"]);
}

/// An ENUM whose second member has no characters: it reads like the invalid value.
fn no_characters() -> ColumnType {
    ColumnType::Enum { labels: ["a".into(), "".into()].into(), charset: Charset::utf8mb4() }
}

/// Behind the back of the sink one becomes the other: seen by key, and in a table without one.
#[test]
fn the_invalid_value_of_an_enum_is_told_from_a_member_of_no_characters() {
    let server = start();
    let target = Target::new(&server, "nothing");
    let member = |index, label: &'static str| Value::Enum { index, label: label.into() };
    let values = [member(0, ""), member(1, "a"), member(2, ""), Value::Null];
    let rows: Vec<Row> =
        (0..).zip(&values).map(|(id, value)| Row::pack([Value::Int(id), value.clone()])).collect();
    let columns = || vec![Column::new("id", int()).not_null(), Column::new("e", no_characters())];
    let (keyed, lines) = (table("keyed", columns(), &[0]), table("keyless", columns(), &[]));
    let mut sink = target.claimed();
    sink.prepare(&keyed).unwrap();
    sink.prepare(&lines).unwrap();
    sink.write(&upserts(&keyed, 1, &rows)).unwrap();
    let line = |row: &Row| TargetChange { key: row.clone(), ..upsert(&lines, 1, row) };
    sink.write(&batch(&lines, rows.iter().map(line).collect())).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    target.equal(&keyed, &rows);
    let scanned = || {
        let (mut reader, mut found) = (target.reader(), Vec::new());
        let each = &mut |row, _| {
            found.push(row);
            true
        };
        reader.scan_keys(&lines, each).unwrap();
        let mut wanted: Vec<_> = rows.iter().map(|row| reader.encode_key(&lines, row)).collect();
        wanted.retain(|row| match found.iter().position(|f| f == row) {
            Some(at) => {
                found.remove(at);
                false
            }
            None => true,
        });
        (wanted.len(), found.len())
    };
    assert_eq!(scanned(), (0, 0));
    for (from, to, id) in [("0", "2", 0), ("2", "'bad'", 2)] {
        for table in ["keyed", "keyless"] {
            target.run(&format!(
                "SET sql_mode = ''; UPDATE {table} SET e = {to} WHERE id = {id} AND e = {from}"
            ));
        }
        let answers = target.reader().compare(&keyed, &rows).unwrap();
        let differs = |(i, answer): (usize, &Comparison)| (*answer != Comparison::Equal).then_some(i);
        let places: Vec<usize> = answers.iter().enumerate().filter_map(differs).collect();
        assert!(places.contains(&id), "{answers:#?}");
        println!("{:?}", answers[id]);
        assert_eq!(scanned(), (places.len(), places.len()));
    }
}

/// A key of each kind whose neighbours are as close as they can be: only the one that is named goes.
#[test]
fn keys_that_are_close_are_two() {
    let server = start();
    let target = Target::new(&server, "close");
    let at = |micros| Value::Timestamp(Timestamp { micros });
    let time = |micros| Value::Time(Time { micros });
    let long = |end: &str| decimal_value(format!("{}.{end}", "9".repeat(36)));
    let uuid = |end: &str| text(&format!("00112233-4455-6677-8899-aabbccddee{end}"));
    let member = |index, label: &'static str| Value::Enum { index, label: label.into() };
    let kinds: Vec<(ColumnType, [Value<'static>; 2])> = vec![
        (bigint(true), [Value::UInt(u64::MAX), Value::UInt(u64::MAX - 1)]),
        (bigint(false), [Value::Int(i64::MIN), Value::Int(i64::MIN + 1)]),
        (decimal(38, 2), [long("01"), long("02")]),
        (ColumnType::Double { unsigned: false }, [Value::Double(0.1), Value::Double(0.1f64.next_up())]),
        (ColumnType::Float { unsigned: false }, [Value::Float(0.1), Value::Float(0.1f32.next_up())]),
        (ColumnType::Bit { width: 64 }, [Value::Bit(u64::MAX), Value::Bit(u64::MAX - 1)]),
        (ColumnType::Timestamp { fsp: 6 }, [at(1_700_000_000_000_001), at(1_700_000_000_000_002)]),
        (ColumnType::Time { fsp: 6 }, [time(-1), time(-2)]),
        (ColumnType::VarBinary { length: 20 }, [bytes(b"a"), bytes(b"a\0")]),
        (ColumnType::Binary { length: 2 }, [bytes(b"a\0"), bytes(b"a ")]),
        (ColumnType::Char { length: 5, charset: Charset::utf8mb4() }, [text("a"), text("A")]),
        (ColumnType::Uuid, [uuid("ff"), uuid("fe")]),
        (
            ColumnType::Enum { labels: ["a".into(), "A".into()].into(), charset: Charset::utf8mb4() },
            [member(1, "a"), member(2, "A")],
        ),
        (no_characters(), [member(0, ""), member(2, "")]),
        (no_characters(), [member(2, ""), member(0, "")]),
    ];
    let mut sink = target.claimed();
    for (tick, (ty, [one, two])) in (1..).step_by(2).zip(kinds) {
        for key in [&[0][..], &[1, 0]] {
            let columns = vec![
                Column::new("k", ty.clone()).not_null(),
                Column::new("v", int()).not_null(),
                Column::new("x", int()),
            ];
            let table = table(&format!("t{tick}_{}", key.len()), columns, key);
            let row = |k: &Value<'static>, v| Row::pack([k.clone(), Value::Int(v), Value::Null]);
            // of the pair, only the first column tells them apart
            let rows = [row(&one, 1), row(&two, if key.len() == 1 { 2 } else { 1 })];
            sink.prepare(&table).unwrap();
            sink.write(&upserts(&table, tick, &rows)).unwrap();
            sink.commit(tick, &binding(tick)).unwrap();
            target.equal(&table, &rows);
            sink.write(&batch(&table, vec![delete(tick, key_of(&table, &rows[0]))])).unwrap();
            sink.commit(tick, &binding(tick)).unwrap();
            target.equal(&table, &rows[1..]);
        }
    }
}
