//! Schema changes at a PostgreSQL target.

mod common;

use cdc_core::connector::{Sink, TargetSchemaChange as Change, TargetTable};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, LobSize};
use cdc_core::value::Value;
use cdc_core::{Row, codes};
use cdc_testkit::proxy::Proxy;
use common::postgres::{Case, Target};
use common::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `orders` with two rows, committed at tick 1.
fn filled(target: &Target) -> (Case<'_>, Box<dyn Sink>) {
    filled_with(target, &orders(), &[order(1, "a"), order(2, "b")])
}

fn filled_with<'a>(target: &'a Target, table: &Arc<TargetTable>, rows: &[Row]) -> (Case<'a>, Box<dyn Sink>) {
    let case = target.case();
    let mut sink = case.claimed();
    sink.prepare(table).unwrap();
    sink.write(&upserts(table, 1, rows)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    (case, sink)
}

/// Applies each change twice, the second time as a restart does.
#[track_caller]
fn twice(sink: &mut dyn Sink, change: &Change) {
    sink.apply(change).unwrap();
    sink.apply(change).unwrap();
}

fn add(column: Column) -> Change {
    Change::AddColumn { table: "orders".into(), implicit: !column.nullable, column, keeps_default: false }
}

fn with_default(ty: ColumnType, default: &str) -> Column {
    let mut column = Column::new("flag", ty).not_null();
    column.default = Some(default.to_owned());
    column
}

#[test]
fn a_change_and_its_tick_are_one_transaction() {
    let target = Target::start();
    let (case, mut sink) = filled(&target);
    sink.apply(&add(Column::new("x", int()))).unwrap();
    sink.rollback();
    assert_eq!(case.shape("orders"), ["id integer", "note text"]);
    // changes that wait are written in front of it, in the shape before
    sink.write(&upserts(&orders(), 2, &[order(3, "c")])).unwrap();
    sink.apply(&add(Column::new("y", int()))).unwrap();
    assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), ["1"]);
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(case.shape("orders"), ["id integer", "note text", "y integer"]);
    assert_eq!(case.sql("SELECT * FROM orders ORDER BY 1"), ["1|a|NULL", "2|b|NULL", "3|c|NULL"]);
}

#[test]
fn rows_that_are_there_read_the_default_of_an_added_column() {
    let target = Target::start();
    let charset = Charset::utf8mb4();
    let (case, mut sink) = filled(&target);
    let mut tick = 2;
    for (ty, default, reads) in [
        (int(), "7", "7"),
        (int(), "'-7'", "-7"),
        (decimal(10, 2), "1.5", "1.50"),
        (varchar(), "'it''s \\\\'", "it's \\"),
        (ColumnType::Double { unsigned: false }, "3", "3"),
        (ColumnType::Double { unsigned: false }, "-0", "-0"),
        (bigint(true), "18446744073709551615", "18446744073709551615"),
        (ColumnType::Binary { length: 2 }, "0x41", "\\x4100"),
        (ColumnType::Bit { width: 4 }, "b'101'", "0101"),
        (ColumnType::Enum { labels: ["x".into(), "y".into()].into(), charset: charset.clone() }, "'y'", "y"),
        (ColumnType::Set { labels: ["x".into(), "y".into()].into(), charset }, "'y,x'", "x,y"),
        (ColumnType::DateTime { fsp: 2 }, "'2026-01-31 10:00:00.5'", "2026-01-31 10:00:00.5"),
        (ColumnType::Date, "'2026-01-31'", "2026-01-31"),
        (ColumnType::Time { fsp: 0 }, "'-26:00:00'", "-26:00:00"),
        (ColumnType::Year, "2026", "2026"),
        (ColumnType::Uuid, "'00112233445566778899AABBCCDDEEFF'", "00112233-4455-6677-8899-aabbccddeeff"),
        (ColumnType::Inet4, "'10.1.0.0'", "10.1.0.0"),
        (ColumnType::Inet6, "'2001:DB8:0::0'", "2001:db8::"),
        (int(), "NULL", "NULL"),
    ] {
        twice(&mut *sink, &add(with_default(ty.clone(), default)));
        sink.commit(tick, &binding(tick)).unwrap();
        assert_eq!(case.sql("SELECT flag FROM orders"), [reads, reads], "{ty} DEFAULT {default}");
        // rows to come bring all their values
        assert_eq!(case.sql("SELECT count(*) FROM pg_attrdef WHERE adrelid = 'orders'::regclass"), ["0"]);
        twice(&mut *sink, &Change::DropColumn { table: "orders".into(), column: "flag".into() });
        tick += 1;
    }
    // NOT NULL without a default reads the implicit one; in mode lenient the column may hold NULL at the target, and
    // the rows read the source's default all the same.
    for column in [Column::new("flag", int()).not_null(), Column::new("flag", int())] {
        let change =
            Change::AddColumn { table: "orders".into(), implicit: true, column, keeps_default: false };
        twice(&mut *sink, &change);
        sink.commit(tick, &binding(tick)).unwrap();
        assert_eq!(case.sql("SELECT flag FROM orders"), ["0", "0"]);
        twice(&mut *sink, &Change::DropColumn { table: "orders".into(), column: "flag".into() });
        tick += 1;
    }
    // what cannot be told, or be held
    for (ty, default, word) in [
        (ColumnType::DateTime { fsp: 0 }, "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        (varchar(), "(uuid())", "(uuid())"),
        (varchar(), "'a\\0b'", "does not hold"),
        (ColumnType::Date, "'0000-00-00'", "zero_dates"),
    ] {
        let change = add(with_default(ty, default));
        let (case, mut sink) = filled(&target);
        refused(sink.apply(&change), codes::TARGET_DDL, &["\"flag\"", word, "help:"]);
        sink.commit(2, &binding(2)).unwrap();
        assert_eq!(case.shape("orders").len(), 2);
        let (case, mut sink) = filled_with(&target, &orders(), &[]);
        sink.apply(&change).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        assert_eq!(case.shape("orders").len(), 3);
    }
}

#[test]
fn columns_are_renamed_dropped_and_filled() {
    let target = Target::start();
    let (case, mut sink) = filled(&target);
    let rename = |from: &str, to: &str| Change::RenameColumn {
        table: "orders".into(),
        from: from.into(),
        to: to.into(),
    };
    let fill = |from: &str, to: &str| Change::FillColumn {
        table: "orders".into(),
        from: from.into(),
        to: to.into(),
        was: None,
        only: vec![],
    };
    twice(&mut *sink, &rename("note", "select"));
    twice(&mut *sink, &rename("select", "SELECT"));
    twice(&mut *sink, &add(Column::new("copy", varchar())));
    twice(&mut *sink, &fill("SELECT", "copy"));
    twice(&mut *sink, &add(Column::new("price", decimal(10, 2))));
    twice(&mut *sink, &fill("id", "price"));
    twice(&mut *sink, &Change::DropColumn { table: "orders".into(), column: "SELECT".into() });
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(case.sql("SELECT * FROM orders ORDER BY 1"), ["1|a|1.00", "2|b|2.00"]);
    assert_eq!(case.shape("orders"), ["id integer", "copy text", "price numeric(10,2)"]);
    let mut tick = 2;
    let mut attempt = |change: &Change| {
        tick += 1;
        let result = sink.apply(change);
        sink.rollback();
        result
    };
    refused(attempt(&rename("nothing", "x")), codes::TARGET_DDL, &["no column \"nothing\""]);
    refused(attempt(&rename("copy", "price")), codes::TARGET_SHAPE, &["wanted:", "found:"]);
    refused(attempt(&fill("copy", "price")), codes::TARGET_DDL, &["key (1)", "\"a\"", "copy the table anew"]);
    refused(
        attempt(&Change::DropColumn { table: "orders".into(), column: "id".into() }),
        codes::TARGET_DDL,
        &["PRIMARY KEY", "help:"],
    );
    refused(
        attempt(&add(Column::new("price", decimal(12, 2)))),
        codes::TARGET_SHAPE,
        &["numeric(10,2)", "numeric(12,2)", "RENAME COLUMN"],
    );
    refused(attempt(&add(Column::new("COPY", int()))), codes::TARGET_SHAPE, &["\"copy\" text", "integer"]);
    let long = "x".repeat(64);
    refused(attempt(&add(Column::new(&*long, int()))), codes::TARGET_SHAPE, &["64 bytes"]);
    refused(attempt(&rename("copy", &long)), codes::TARGET_SHAPE, &["64 bytes"]);
    // of a view of the user's
    case.sql("CREATE VIEW seen AS SELECT copy FROM orders");
    let drop = Change::DropColumn { table: "orders".into(), column: "copy".into() };
    refused(attempt(&drop), codes::TARGET_DDL, &["view seen", "drop that first"]);
    let alter =
        Change::AlterColumnType { table: "orders".into(), column: "copy".into(), ty: binary(), was: None };
    refused(attempt(&alter), codes::TARGET_DDL, &["view", "drop that first"]);
    let gone = Change::DropTable { table: "orders".into() };
    refused(attempt(&gone), codes::TARGET_DDL, &["view seen", "drop that first"]);
}

fn binary() -> ColumnType {
    ColumnType::VarBinary { length: 100 }
}

#[test]
fn tables_are_made_truncated_renamed_and_dropped() {
    let target = Target::start();
    let (case, mut sink) = filled(&target);
    let other = table("other", vec![Column::new("id", int()).not_null()], &[0]);
    twice(&mut *sink, &Change::CreateTable { table: other.clone() });
    twice(&mut *sink, &Change::RenameTable { from: "other".into(), to: "Other".into() });
    twice(&mut *sink, &Change::RenameTable { from: "Other".into(), to: "third".into() });
    // made again under the name before: its key's name is taken
    twice(&mut *sink, &Change::CreateTable { table: other });
    twice(&mut *sink, &Change::DropTable { table: "other".into() });
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(case.sql("SELECT name FROM _cdc_tables ORDER BY 1"), ["orders", "third"]);
    let both = Change::RenameTable { from: "third".into(), to: "orders".into() };
    refused(sink.apply(&both), codes::TARGET_SHAPE, &["already", "TABLE"]);
    twice(&mut *sink, &Change::TruncateTable { table: "orders".into() });
    sink.write(&upserts(&orders(), 3, &[order(9, "z")])).unwrap();
    twice(&mut *sink, &Change::DropTable { table: "third".into() });
    // Of another spelling: another table.
    sink.apply(&Change::DropTable { table: "ORDERS".into() }).unwrap();
    sink.apply(&Change::AlterNullability { table: "orders".into(), column: "note".into(), nullable: true })
        .unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(case.sql("SELECT * FROM orders"), ["9|z"]);
    assert_eq!(case.sql("SELECT name FROM _cdc_tables"), ["orders"]);
    refused(
        sink.apply(&Change::RenameTable { from: "gone".into(), to: "x".into() }),
        codes::TARGET_DDL,
        &["\"gone\" is not at the target"],
    );
    let another = table("orders", vec![Column::new("x", int()).not_null()], &[0]);
    refused(sink.apply(&Change::CreateTable { table: another }), codes::TARGET_SHAPE, &["wanted:", "found:"]);
    // a foreign key of the user's: TRUNCATE is refused, DELETE is not
    case.sql("CREATE TABLE needs (id int REFERENCES orders)");
    twice(&mut *sink, &Change::TruncateTable { table: "orders".into() });
    sink.commit(4, &binding(4)).unwrap();
    assert_eq!(case.sql("SELECT count(*) FROM orders"), ["0"]);
    // rows of others
    case.sql("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let theirs = table("t", vec![Column::new("id", int()).not_null()], &[0]);
    refused(
        sink.apply(&Change::CreateTable { table: theirs }),
        codes::TARGET_PROGRESS,
        &["already holds 1 rows"],
    );
    let drop = Change::DropTable { table: "t".into() };
    refused(sink.apply(&drop), codes::TARGET_PROGRESS, &["already holds 1 rows"]);
    case.sql("DELETE FROM t");
    twice(&mut *sink, &drop);
    sink.commit(5, &binding(5)).unwrap();
    assert_eq!(case.sql("SELECT count(*) FROM t"), ["0"]);
}

/// Each row: the type until now and a value, the type from now on and what the server prints then, or why not.
#[test]
fn a_type_changes_with_the_values_that_are_there() {
    use cdc_core::value::{Date, DateTime, Time, Timestamp};
    let target = Target::start();
    let charset = Charset::utf8mb4;
    let int_of = |width, unsigned| ColumnType::Int { width, unsigned };
    let long = || ColumnType::Text { size: LobSize::Long, charset: charset() };
    let chars = |length| ColumnType::Char { length, charset: charset() };
    let labels = |l: &[&str]| l.iter().map(|l| (*l).into()).collect::<Vec<Arc<str>>>().into();
    let members = |l: &[&str]| ColumnType::Enum { labels: labels(l), charset: charset() };
    let set = |l: &[&str]| ColumnType::Set { labels: labels(l), charset: charset() };
    let double = || ColumnType::Double { unsigned: false };
    let float = || ColumnType::Float { unsigned: false };
    let date = Date { year: 2026, month: 1, day: 31 };
    let at = |micro| Value::DateTime(DateTime { date, hour: 10, minute: 0, second: 0, micro });
    let bytes = |b: &[u8]| Value::Bytes(b.to_vec().into());
    let decimal_text = |t: &'static str| Value::Decimal(t.into());
    let mut cases: Vec<(ColumnType, Value<'static>, ColumnType, Result<&str, &str>)> = vec![
        (int(), Value::Int(17), bigint(false), Ok("17")),
        (int(), Value::Int(17), bigint(true), Ok("17")),
        (int(), Value::Int(-17), bigint(true), Err("not stay the same")),
        (bigint(false), Value::Int(300), int_of(IntWidth::Tiny, true), Err("not stay the same")),
        (bigint(true), Value::UInt(200), int_of(IntWidth::Tiny, true), Ok("200")),
        (int(), Value::Int(-17), decimal(10, 2), Ok("-17.00")),
        (int(), Value::Int(100), decimal(3, 1), Err("not stay the same")),
        (int(), Value::Int(17), double(), Ok("17")),
        (int(), Value::Int(17), varchar(), Ok("17")),
        (decimal(10, 2), decimal_text("1.50"), decimal(12, 4), Ok("1.5000")),
        (decimal(10, 2), decimal_text("1.50"), decimal(10, 1), Ok("1.5")),
        (decimal(10, 2), decimal_text("1.55"), decimal(10, 1), Err("key (1), value \"1.55\"")),
        (decimal(10, 2), decimal_text("1.50"), varchar(), Ok("1.50")),
        (decimal(10, 2), decimal_text("3.00"), int(), Ok("3")),
        (float(), Value::Float(0.1), double(), Ok("0.10000000149011612")),
        (double(), Value::Double(0.1), varchar(), Err("not certain")),
        (ColumnType::Bit { width: 3 }, Value::Bit(5), ColumnType::Bit { width: 8 }, Ok("00000101")),
        (int(), Value::Int(5), ColumnType::Bit { width: 3 }, Ok("101")),
        (int(), Value::Int(8), ColumnType::Bit { width: 3 }, Err("not stay the same")),
        (ColumnType::Year, Value::Year(2026), varchar(), Ok("2026")),
        (ColumnType::Year, Value::Year(0), varchar(), Ok("0000")),
        (int_of(IntWidth::Tiny, false), Value::Int(0), varchar(), Ok("0")),
        (ColumnType::Date, Value::Date(date), ColumnType::DateTime { fsp: 3 }, Ok("2026-01-31 00:00:00")),
        (ColumnType::Date, Value::Date(date), varchar(), Ok("2026-01-31")),
        (ColumnType::Date, Value::Date(date), ColumnType::Timestamp { fsp: 0 }, Err("time zone")),
        (
            ColumnType::DateTime { fsp: 1 },
            at(500_000),
            ColumnType::DateTime { fsp: 3 },
            Ok("2026-01-31 10:00:00.5"),
        ),
        (
            ColumnType::DateTime { fsp: 1 },
            at(500_000),
            ColumnType::DateTime { fsp: 0 },
            Err("not stay the same"),
        ),
        (ColumnType::DateTime { fsp: 1 }, at(0), ColumnType::Date, Err("not stay the same")),
        (ColumnType::DateTime { fsp: 2 }, at(500_000), varchar(), Ok("2026-01-31 10:00:00.50")),
        (ColumnType::DateTime { fsp: 0 }, at(0), varchar(), Ok("2026-01-31 10:00:00")),
        (
            ColumnType::Time { fsp: 0 },
            Value::Time(Time { micros: -1_000_000 }),
            ColumnType::Time { fsp: 3 },
            Ok("-00:00:01"),
        ),
        (
            ColumnType::Time { fsp: 1 },
            Value::Time(Time { micros: 500_000 }),
            ColumnType::Time { fsp: 0 },
            Err("not stay"),
        ),
        (
            ColumnType::Timestamp { fsp: 0 },
            Value::Timestamp(Timestamp { micros: 1_000_000 }),
            ColumnType::Timestamp { fsp: 3 },
            Ok("1970-01-01 00:00:01+00"),
        ),
        (
            ColumnType::Timestamp { fsp: 0 },
            Value::Timestamp(Timestamp { micros: 1_000_000 }),
            varchar(),
            Err("time zone"),
        ),
        (varchar(), text("it's \\ 'x'  "), long(), Ok("it's \\ 'x'  ")),
        (varchar(), text("x  "), chars(10), Ok("x")),
        (varchar(), text("17"), int(), Err("value \"17\"")),
        (varchar(), text("b"), members(&["a", "b"]), Ok("b")),
        (varchar(), text("c'"), members(&["a", "b"]), Err("not stay the same")),
        (varchar(), text("a,b"), set(&["b", "a"]), Ok("a,b")),
        (varchar(), text("a,c"), set(&["b", "a"]), Err("not stay the same")),
        (members(&["a", "1"]), Value::Enum { index: 2, label: "1".into() }, varchar(), Ok("1")),
        (members(&["a", "1"]), Value::Enum { index: 2, label: "1".into() }, int(), Err("not certain")),
        (varchar(), text("ascii"), binary(), Ok("\\x6173636969")),
        (varchar(), text("ä"), binary(), Err("not stay the same")),
        (binary(), bytes(b"ascii"), varchar(), Ok("ascii")),
        (binary(), bytes(b"\xe4"), varchar(), Err("not stay the same")),
        (ColumnType::Binary { length: 1 }, bytes(&[1]), ColumnType::Binary { length: 3 }, Ok("\\x010000")),
        (binary(), bytes(&[1, 2, 3]), ColumnType::Binary { length: 2 }, Err("not stay the same")),
        (ColumnType::Json, Value::Json("{\"a\": 1}".into()), long(), Ok("{\"a\": 1}")),
        (long(), text("{}"), ColumnType::Json, Err("prints JSON anew")),
        (
            ColumnType::Uuid,
            text("00112233-4455-6677-8899-aabbccddeeff"),
            varchar(),
            Ok("00112233-4455-6677-8899-aabbccddeeff"),
        ),
        (varchar(), text("no uuid"), ColumnType::Uuid, Err("not stay the same")),
        (ColumnType::Inet4, text("10.1.0.0"), ColumnType::Inet6, Ok("::ffff:10.1.0.0")),
        (ColumnType::Inet4, text("10.1.0.0"), varchar(), Ok("10.1.0.0")),
        (ColumnType::Inet6, text("2001:db8::1"), varchar(), Err("not stay the same")),
    ];
    // without values any type goes
    cases.push((varchar(), Value::Null, ColumnType::Json, Ok("NULL")));
    cases.push((ColumnType::Json, Value::Null, ColumnType::Bit { width: 3 }, Ok("NULL")));
    let case = target.case();
    let mut sink = case.claimed();
    for (i, (from, value, to, expected)) in cases.into_iter().enumerate() {
        let name = format!("t{i}");
        let before =
            table(&name, vec![Column::new("id", int()).not_null(), Column::new("c", from.clone())], &[0]);
        let tick = i as u64 * 2 + 1;
        sink.prepare(&before).unwrap();
        let rows = [Row::pack([Value::Int(1), value.clone()]), Row::pack([Value::Int(2), Value::Null])];
        sink.write(&upserts(&before, tick, &rows)).unwrap();
        sink.commit(tick, &binding(1)).unwrap();
        let (column, was) = ("c".into(), Some(from.clone()));
        let change = Change::AlterColumnType { table: name.clone(), column, ty: to.clone(), was };
        let reads = || case.sql(&format!("SELECT c FROM {name} WHERE id = 1")).join("");
        match expected {
            Ok(expected) => {
                twice(&mut *sink, &change);
                sink.commit(tick + 1, &binding(1)).unwrap();
                assert_eq!(reads(), expected, "{from} to {to}");
                // what a fresh table of the new shape would have
                let after =
                    table(&name, vec![Column::new("id", int()).not_null(), Column::new("c", to)], &[0]);
                sink.check(&after).unwrap();
                let fresh = TargetTable { name: format!("{name} fresh"), ..(*after).clone() };
                sink.prepare(&Arc::new(fresh)).unwrap();
                assert_eq!(case.shape(&name), case.shape(&format!("{name} fresh")));
            }
            Err(word) => {
                let was = reads();
                refused(sink.apply(&change), codes::TARGET_DDL, &["\"c\"", "key (1)", word, "help:"]);
                assert_eq!(reads(), was, "{from} to {to}");
            }
        }
    }
}

#[test]
fn a_key_changes_with_the_rows_as_they_are() {
    let target = Target::start();
    let columns = vec![
        Column::new("id", int()).not_null(),
        Column::new("code", varchar()).not_null(),
        Column::new("extra", ColumnType::Json),
    ];
    let keyed = |key: &[usize]| table("orders", columns.clone(), key);
    let row = |id, code: &str| Row::pack([Value::Int(id), text(code), Value::Json("{\"a\": 1}".into())]);
    let (case, mut sink) = filled_with(&target, &keyed(&[0]), &[row(1, "a"), row(2, "b")]);
    let key = |case: &Case<'_>| {
        case.sql(
            "SELECT a.attname || ' ' || a.attnotnull FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(n, o), pg_attribute a
             WHERE i.indrelid = 'orders'::regclass AND i.indisunique AND a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY k.o",
        )
    };
    let mut tick = 2;
    for (to, wanted, not_null) in [
        (&[1][..], &["code true"][..], "code"),
        (&[1, 0], &["code true", "id true"], "code,id"),
        (&[], &[], "NULL"),
        (&[2, 0], &["extra true", "id true"], "extra,id"),
        (&[0], &["id true"], "id"),
    ] {
        twice(&mut *sink, &Change::ChangeKey { table: keyed(to) });
        sink.commit(tick, &binding(tick)).unwrap();
        assert_eq!(key(&case), wanted);
        let sql = "SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute
                   WHERE attrelid = 'orders'::regclass AND attnum > 0 AND attnotnull";
        assert_eq!(case.sql(sql), [not_null]);
        sink.prepare(&keyed(to)).unwrap();
        // rows go on under the new key
        let next = row(tick as i64 + 10, &format!("n{tick}"));
        let mut changes = upserts(&keyed(to), tick + 1, std::slice::from_ref(&next));
        if to.is_empty() {
            changes.changes[0].key = next;
        }
        sink.write(&changes).unwrap();
        sink.commit(tick + 1, &binding(1)).unwrap();
        tick += 2;
    }
    assert_eq!(case.sql("SELECT count(*) FROM orders"), ["7"]);
    // rows that the new key does not tell apart
    case.sql("UPDATE orders SET code = 'same'");
    let change = Change::ChangeKey { table: keyed(&[1]) };
    refused(sink.apply(&change), codes::TARGET_DDL, &["duplicated", "key (..)"]);
    sink.commit(tick, &binding(1)).unwrap();
    assert_eq!(key(&case), ["id true"]);
}

#[test]
fn defaults_and_comments_are_those_of_the_source_as_far_as_they_mean_the_same() {
    let target = Target::start();
    let case = target.case();
    let mut sink = case.claimed();
    let wanted = table_with_defaults("all");
    let names = |all: &[usize]| all.iter().map(|i| format!("c{i}")).collect::<Vec<_>>();
    // (what is none anyway need not be told)
    let is_null = |v: &Value<'_>| matches!(v, Value::Null);
    let none: Vec<usize> =
        (0..defaults().len()).filter(|i| is_null(&defaults()[*i].2) && defaults()[*i].1 != "NULL").collect();
    sink.prepare(&wanted).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    let create = Change::CreateTable { table: wanted.clone() };
    assert_eq!(left_out(&*sink, &create), names(&none));
    case.sql("INSERT INTO \"all\" (id) VALUES (1)");
    // taken away, one by one, and set again, each twice
    let alter = |i: usize, default: Option<&str>| {
        let column = Column { default: default.map(str::to_owned), ..wanted.schema.columns[i + 1].clone() };
        Change::AlterColumnDefault { table: "all".into(), column }
    };
    let comment = |column: Option<String>, comment: &str| Change::AlterComment {
        table: "all".into(),
        column,
        comment: comment.into(),
    };
    for i in 0..defaults().len() {
        twice(&mut *sink, &alter(i, None));
        twice(&mut *sink, &comment(Some(format!("c{i}")), ""));
    }
    twice(&mut *sink, &comment(None, ""));
    sink.commit(2, &binding(2)).unwrap();
    case.sql("INSERT INTO \"all\" (id) VALUES (2)");
    assert_eq!(case.sql(SAID), [""; 0]);
    for (i, (_, default, _)) in defaults().into_iter().enumerate() {
        twice(&mut *sink, &alter(i, Some(default)));
        let told = if none.contains(&i) { names(&[i]) } else { Vec::new() };
        assert_eq!(left_out(&*sink, &alter(i, Some(default))), told);
        twice(&mut *sink, &comment(Some(format!("c{i}")), &format!("again '{i}'")));
    }
    twice(&mut *sink, &comment(None, "again"));
    sink.commit(3, &binding(3)).unwrap();
    case.sql("INSERT INTO \"all\" (id) VALUES (3)");
    let nothing = Row::pack(std::iter::once(Value::Int(2)).chain(defaults().iter().map(|_| Value::Null)));
    case.equal(&wanted, &[row_of_defaults(1), nothing, row_of_defaults(3)]);
    assert_eq!(case.sql(SAID).len(), defaults().len() + 1);
    // the comments of columns are where they were when their types change, and a default goes until it is set anew
    twice(
        &mut *sink,
        &Change::AlterColumnType { table: "all".into(), column: "c0".into(), ty: bigint(false), was: None },
    );
    twice(&mut *sink, &alter(0, Some("8")));
    sink.commit(4, &binding(4)).unwrap();
    case.sql("INSERT INTO \"all\" (id) VALUES (4)");
    assert_eq!(case.sql("SELECT c0 FROM \"all\" WHERE id = 4"), ["8"]);
    assert_eq!(case.sql(SAID).len(), defaults().len() + 1);
}

/// What has a comment.
const SAID: &str = "SELECT objsubid::text FROM pg_description WHERE objoid = '\"all\"'::regclass";

/// Ticks of one commit, in which names change hands.
struct Hands {
    /// What is applied, what is prepared behind it, and the row of the tick.
    steps: Vec<(Vec<Change>, Option<Arc<TargetTable>>)>,
    /// By name: the table as it is in the end, and its rows.
    then: BTreeMap<String, (Arc<TargetTable>, Vec<Row>)>,
}

fn shaped(name: &str, column: &str) -> Arc<TargetTable> {
    table(name, vec![Column::new("id", int()).not_null(), Column::new(column, varchar())], &[0])
}

/// The row that a table gets in tick `t`.
fn of_tick(t: u64) -> Row {
    Row::pack([Value::Int(t as i64), text("later")])
}

/// `a b`: renamed. `-a`: dropped. `+a`: made. `a.x`: its column is called x from now on. `a~`: nothing is to be done.
fn hands(steps: &[&str], alike: bool) -> Hands {
    let column = |of: &str| if alike { "v".to_owned() } else { format!("of_{of}") };
    let begin = |name: &str| (column(name), vec![Row::pack([Value::Int(1), text(name)])]);
    let mut now: BTreeMap<String, (String, Vec<Row>)> =
        ["a", "b", "c"].iter().map(|n| ((*n).to_owned(), begin(n))).collect();
    let mut made = Vec::new();
    for (step, tick) in steps.iter().zip(2..) {
        let (changes, name) = if let Some(name) = step.strip_prefix('-') {
            now.remove(name);
            (vec![Change::DropTable { table: name.into() }], None)
        } else if let Some(name) = step.strip_prefix('+') {
            now.insert(name.into(), (column("new"), Vec::new()));
            (vec![Change::CreateTable { table: shaped(name, &column("new")) }], Some(name))
        } else if let Some(name) = step.strip_suffix('~') {
            (Vec::new(), Some(name))
        } else if let Some((name, to)) = step.split_once('.') {
            let from = std::mem::replace(&mut now.get_mut(name).unwrap().0, to.into());
            let rename = Change::RenameColumn { table: name.into(), from, to: to.into() };
            (vec![rename], Some(name))
        } else {
            let (from, to) = step.split_once(' ').unwrap();
            let table = now.remove(from).unwrap();
            now.insert(to.into(), table);
            (vec![Change::RenameTable { from: from.into(), to: to.into() }], Some(to))
        };
        let table = name.map(|name| {
            let (column, rows) = now.get_mut(name).unwrap();
            rows.push(of_tick(tick));
            shaped(name, column)
        });
        made.push((changes, table));
    }
    let then = now.into_iter().map(|(n, (column, rows))| (n.clone(), (shaped(&n, &column), rows))).collect();
    Hands { steps: made, then }
}

impl Hands {
    /// All that waits for the commit, as the committer writes it, and again behind a rollback.
    fn write(&self, sink: &mut dyn Sink) -> cdc_core::Result<()> {
        for ((changes, table), tick) in self.steps.iter().zip(2..) {
            changes.iter().try_for_each(|change| sink.apply(change))?;
            if let Some(table) = table {
                sink.prepare(table)?;
                sink.write(&upserts(table, tick, &[of_tick(tick)]))?;
            }
        }
        Ok(())
    }

    fn commit(&self, sink: &mut dyn Sink) -> cdc_core::Result<()> {
        let tick = 1 + self.steps.len() as u64;
        sink.commit(tick, &binding(tick))
    }
}

/// Names of tables and columns change hands, the commit is made, and its answer is lost: found out at once, or, where the server cannot be
/// reached then, when all is written once more.
#[test]
fn case_55_a_commit_of_names_that_change_hands_whose_answer_is_lost() {
    let target = Target::start();
    let proxy = Proxy::start(target.server.port()).unwrap();
    for (n, steps) in [
        &["a tmp", "b a", "tmp b"][..],
        &["a tmp", "tmp a"],
        &["a tmp", "b a", "c b", "tmp c"],
        &["a old", "b a", "c b"],
        &["-a", "b a", "c b"],
        &["a tmp", "+a", "tmp b2", "-b"],
        &["a.x", "a.y"],
        &["a.x", "a tmp", "b a", "tmp b", "b.y", "a.x"],
        &["a~", "a z"],
        &["a~", "-a"],
        &["+d", "d.x", "d e", "-c"],
    ]
    .into_iter()
    .enumerate()
    {
        let hands = hands(steps, n % 2 == 0);
        let filled = || {
            let case = target.case().through(proxy.port());
            let mut sink = case.claimed();
            for name in ["a", "b", "c"] {
                let column = if n % 2 == 0 { "v".to_owned() } else { format!("of_{name}") };
                let table = shaped(name, &column);
                sink.prepare(&table).unwrap();
                sink.write(&upserts(&table, 1, &[Row::pack([Value::Int(1), text(name)])])).unwrap();
            }
            sink.commit(1, &binding(1)).unwrap();
            (case, sink)
        };
        // how long the answers to a commit are
        let bytes = {
            let (_, mut sink) = filled();
            hands.write(&mut *sink).unwrap();
            let before = proxy.bytes_from_server();
            hands.commit(&mut *sink).unwrap();
            (proxy.bytes_from_server() - before) as u32
        };
        for later in [false, true] {
            let here = format!("{steps:?}, found out later: {later}");
            let (case, mut sink) = filled();
            hands.write(&mut *sink).unwrap();
            proxy.cut_after(bytes - 1);
            proxy.refuse(later);
            let committed = hands.commit(&mut *sink);
            proxy.refuse(false);
            proxy.cut_after(u32::MAX >> 1);
            assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), [(1 + steps.len()).to_string()], "{here}");
            assert_eq!(committed.is_err(), later, "{here}");
            if let Err(error) = committed {
                assert!(error.is_transient(), "{here}: {error}");
                sink.rollback();
                hands.write(&mut *sink).unwrap_or_else(|e| panic!("{here}: {e}"));
                hands.commit(&mut *sink).unwrap_or_else(|e| panic!("{here}: {e}"));
            }
            // and on from there
            let next = 2 + steps.len() as u64;
            for (table, _) in hands.then.values() {
                sink.prepare(table).unwrap_or_else(|e| panic!("{here}: {e}"));
                sink.write(&upserts(table, next, &[of_tick(next)])).unwrap();
            }
            sink.commit(next, &binding(next)).unwrap();
            let names: Vec<&String> = hands.then.keys().collect();
            let tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT LIKE '\\_cdc%' ORDER BY 1";
            assert_eq!(case.sql(tables).iter().collect::<Vec<_>>(), names, "{here}");
            assert_eq!(
                case.sql("SELECT name FROM _cdc_tables ORDER BY 1").iter().collect::<Vec<_>>(),
                names,
                "{here}"
            );
            for (table, rows) in hands.then.values() {
                case.equal(table, &[&rows[..], &[of_tick(next)]].concat());
            }
        }
    }
}
