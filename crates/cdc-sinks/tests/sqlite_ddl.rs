//! Schema changes at a SQLite target.

mod common;

use cdc_core::connector::{Comparison, Sink, TargetSchemaChange as Change, TargetTable};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth};
use cdc_core::value::Value;
use cdc_core::{Row, codes};
use common::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::{TempDir, tempdir};

/// `orders` with two rows, committed at tick 1.
fn filled() -> (TempDir, Box<dyn Sink>) {
    filled_with(&orders(), &[order(1, "a"), order(2, "b")])
}

fn filled_with(table: &Arc<TargetTable>, rows: &[Row]) -> (TempDir, Box<dyn Sink>) {
    let folder = tempdir().unwrap();
    let mut sink = claimed(folder.path());
    sink.prepare(table).unwrap();
    sink.write(&upserts(table, 1, rows)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    (folder, sink)
}

/// Applies each change twice, the second time as a restart does.
#[track_caller]
fn twice(sink: &mut dyn Sink, change: &Change) {
    sink.apply(change).unwrap();
    sink.apply(change).unwrap();
}

fn shape(folder: &Path, table: &str) -> Vec<String> {
    query(folder, &format!("SELECT name || ' ' || type FROM pragma_table_info('{table}')"))
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
    let (folder, mut sink) = filled();
    sink.apply(&add(Column::new("x", int()))).unwrap();
    assert_eq!(shape(folder.path(), "orders"), ["id INTEGER", "note TEXT"]);
    sink.rollback();
    sink.apply(&add(Column::new("y", int()))).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(shape(folder.path(), "orders"), ["id INTEGER", "note TEXT", "y INTEGER"]);
}

#[test]
fn rows_that_are_there_read_the_default_of_an_added_column() {
    let charset = Charset::utf8mb4();
    for (ty, default, reads) in [
        (int(), "7", "7|integer"),
        (int(), "'-7'", "-7|integer"),
        (decimal(10, 2), "1.5", "1.50|text"),
        (varchar(), "'it''s'", "it's|text"),
        (varchar(), "'a\\0b'", "a\0b|text"),
        (ColumnType::Double { unsigned: false }, "3", "3.0|real"),
        (ColumnType::Double { unsigned: false }, "-0", "-0.0|real"),
        (bigint(true), "18446744073709551615", "18446744073709551615|text"),
        (bigint(true), "7", "7|integer"),
        (ColumnType::Binary { length: 2 }, "0x41", "[41, 00]|blob"),
        (ColumnType::Enum { labels: ["x".into(), "y".into()].into(), charset }, "'y'", "y|text"),
        (ColumnType::DateTime { fsp: 2 }, "'2026-01-31 10:00:00'", "2026-01-31 10:00:00.00|text"),
        (ColumnType::Uuid, "'00112233445566778899AABBCCDDEEFF'", "00112233-4455-6677-8899-aabbccddeeff|text"),
        (ColumnType::Inet4, "'10.1.0.0'", "10.1.0.0|text"),
        (ColumnType::Inet6, "'2001:DB8:0::0'", "2001:db8::|text"),
        (int(), "NULL", "NULL|null"),
    ] {
        let (folder, mut sink) = filled();
        twice(&mut *sink, &add(with_default(ty.clone(), default)));
        sink.commit(2, &binding(2)).unwrap();
        let found = query(folder.path(), "SELECT flag, typeof(flag) FROM orders");
        assert_eq!(found, [reads, reads], "{ty} DEFAULT {default}");
    }
    // NOT NULL without a default reads the implicit one.
    let (folder, mut sink) = filled();
    twice(&mut *sink, &add(Column::new("flag", int()).not_null()));
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(query(folder.path(), "SELECT flag FROM orders"), ["0", "0"]);
    // In mode lenient the column may hold NULL at the target; the rows read the source's default all the same.
    let (folder, mut sink) = filled();
    let column = Column::new("flag", int());
    twice(
        &mut *sink,
        &Change::AddColumn { table: "orders".into(), column, implicit: true, keeps_default: false },
    );
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(query(folder.path(), "SELECT flag FROM orders"), ["0", "0"]);
}

#[test]
fn a_default_that_cannot_be_told_is_refused_unless_there_are_no_rows() {
    for default in ["CURRENT_TIMESTAMP", "(uuid())"] {
        let change = add(with_default(ColumnType::DateTime { fsp: 0 }, default));
        let (folder, mut sink) = filled();
        refused(sink.apply(&change), codes::TARGET_DDL, &["\"flag\"", default, "help:"]);
        sink.commit(2, &binding(2)).unwrap();
        assert_eq!(shape(folder.path(), "orders").len(), 2);
        let (folder, mut sink) = filled_with(&orders(), &[]);
        sink.apply(&change).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        assert_eq!(shape(folder.path(), "orders").len(), 3);
    }
}

#[test]
fn a_column_that_is_there_in_another_way_is_refused_with_both() {
    let (_folder, mut sink) = filled();
    twice(&mut *sink, &add(Column::new("x", decimal(10, 2))));
    refused(
        sink.apply(&add(Column::new("x", decimal(12, 2)))),
        codes::TARGET_SHAPE,
        &["DECIMAL_TEXT(10,2)", "DECIMAL_TEXT(12,2)", "RENAME COLUMN"],
    );
    refused(sink.apply(&add(Column::new("NOTE", int()))), codes::TARGET_SHAPE, &["\"note\" TEXT", "INTEGER"]);
}

/// In a table of the user's too, whose column takes `a` and `A` for equal.
#[test]
fn rows_of_one_source_are_told_by_bytes_whatever_collation_the_user_has_given() {
    let folder = tempfile::tempdir().unwrap();
    user(folder.path())
        .execute_batch("CREATE TABLE shards (id INTEGER PRIMARY KEY, n INTEGER, shard TEXT COLLATE NOCASE, note TEXT, copy TEXT)")
        .unwrap();
    let mut sink = claimed(folder.path());
    sink.prepare(&shards()).unwrap();
    sink.write(&upserts(&shards(), 1, &shard_rows())).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    changes_of_one_shard(&mut *sink);
    let found = query(folder.path(), "SELECT shard, id, note, copy, n FROM shards ORDER BY n, id");
    assert_eq!(found, SHARDS_AFTER);
}

#[test]
fn columns_are_renamed_dropped_and_filled() {
    let (folder, mut sink) = filled();
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
    assert_eq!(query(folder.path(), "SELECT * FROM orders"), ["1|a|1.00", "2|b|2.00"]);
    assert_eq!(shape(folder.path(), "orders"), ["id INTEGER", "copy TEXT", "price DECIMAL_TEXT(10,2)"]);
    refused(sink.apply(&rename("nothing", "x")), codes::TARGET_DDL, &["no column \"nothing\""]);
    refused(sink.apply(&rename("copy", "price")), codes::TARGET_SHAPE, &["wanted:", "found:"]);
    refused(
        sink.apply(&fill("copy", "price")),
        codes::TARGET_DDL,
        &["key (1)", "\"a\"", "copy the table anew"],
    );
    refused(
        sink.apply(&Change::DropColumn { table: "orders".into(), column: "id".into() }),
        codes::TARGET_DDL,
        &["PRIMARY KEY", "help:"],
    );
}

#[test]
fn tables_are_made_truncated_renamed_and_dropped() {
    let (folder, mut sink) = filled();
    let other = table("other", vec![Column::new("id", int()).not_null()], &[0]);
    twice(&mut *sink, &Change::CreateTable { table: other.clone() });
    twice(&mut *sink, &Change::RenameTable { from: "other".into(), to: "Other".into() });
    twice(&mut *sink, &Change::RenameTable { from: "Other".into(), to: "third".into() });
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(query(folder.path(), "SELECT name FROM _cdc_tables ORDER BY 1"), ["orders", "third"]);
    refused(
        sink.apply(&Change::RenameTable { from: "third".into(), to: "orders".into() }),
        codes::TARGET_SHAPE,
        &["already", "CREATE TABLE"],
    );
    twice(&mut *sink, &Change::TruncateTable { table: "orders".into() });
    sink.write(&upserts(&orders(), 3, &[order(9, "z")])).unwrap();
    twice(&mut *sink, &Change::DropTable { table: "third".into() });
    // Of another spelling: another table to the source.
    sink.apply(&Change::DropTable { table: "ORDERS".into() }).unwrap();
    sink.apply(&Change::AlterNullability { table: "orders".into(), column: "note".into(), nullable: true })
        .unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(query(folder.path(), "SELECT * FROM orders"), ["9|z"]);
    assert_eq!(query(folder.path(), "SELECT name FROM _cdc_tables"), ["orders"]);
    refused(
        sink.apply(&Change::RenameTable { from: "gone".into(), to: "x".into() }),
        codes::TARGET_DDL,
        &["\"gone\" is not at the target"],
    );
    refused(
        sink.apply(&add(Column::new("rowid", int())).clone()).and_then(|()| {
            sink.apply(&Change::CreateTable {
                table: table("orders", vec![Column::new("x", int()).not_null()], &[0]),
            })
        }),
        codes::TARGET_SHAPE,
        &["wanted:", "found:"],
    );
}

#[test]
fn a_table_with_rows_of_others_does_not_become_ours_by_create_table() {
    let (folder, mut sink) = filled();
    user(folder.path())
        .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
        .unwrap();
    let theirs = table("t", vec![Column::new("id", int()).not_null()], &[0]);
    refused(
        sink.apply(&Change::CreateTable { table: theirs }),
        codes::TARGET_PROGRESS,
        &["already holds 1 rows"],
    );
}

#[test]
fn a_type_changes_with_the_values_that_are_there() {
    let columns = vec![
        Column::new("id", int()).not_null(),
        Column::new("price", decimal(10, 2)),
        Column::new("age", int()),
        Column::new("day", ColumnType::Date),
        Column::new("note", varchar()),
    ];
    let before = table("orders", columns, &[0]);
    let date = Value::Date(cdc_core::value::Date { year: 2026, month: 1, day: 31 });
    let row = |id, note: &str| {
        Row::pack([Value::Int(id), Value::Decimal("1.50".into()), Value::Int(17), date.clone(), text(note)])
    };
    let nulls = Row::pack([Value::Int(3), Value::Null, Value::Null, Value::Null, Value::Null]);
    let (folder, mut sink) = filled_with(&before, &[row(1, "a"), row(2, "x\0y"), nulls]);
    user(folder.path())
        .execute_batch(
            "CREATE INDEX by_note ON orders (note);
             CREATE TABLE log (id BLOB);
             CREATE TRIGGER watch AFTER INSERT ON orders BEGIN INSERT INTO log VALUES (new.id); END;
             CREATE VIEW seen AS SELECT id, price FROM orders;",
        )
        .unwrap();
    let alter = |column: &str, ty| Change::AlterColumnType {
        table: "orders".into(),
        column: column.into(),
        ty,
        was: None,
    };
    let big = ColumnType::Int { width: IntWidth::Big, unsigned: true };
    twice(&mut *sink, &alter("price", decimal(12, 4)));
    twice(&mut *sink, &alter("age", ColumnType::Double { unsigned: false }));
    twice(&mut *sink, &alter("day", ColumnType::DateTime { fsp: 3 }));
    twice(&mut *sink, &alter("id", big.clone()));
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(
        query(folder.path(), "SELECT id, price, age, typeof(age), day, hex(note) FROM orders ORDER BY id"),
        [
            "1|1.5000|17.0|real|2026-01-31 00:00:00.000|61",
            "2|1.5000|17.0|real|2026-01-31 00:00:00.000|780079",
            "3|NULL|NULL|null|NULL|"
        ]
    );
    assert_eq!(
        query(
            folder.path(),
            "SELECT name FROM sqlite_schema WHERE name NOT LIKE '%\\_cdc\\_%' ESCAPE '\\' AND sql NOT NULL ORDER BY 1"
        ),
        ["by_note", "log", "orders", "seen", "watch"]
    );
    assert_eq!(query(folder.path(), "SELECT price FROM seen WHERE id = 1"), ["1.5000"]);
    // Rows of the new shape go on; the key is one that no INTEGER holds.
    let columns = vec![
        Column::new("id", big).not_null(),
        Column::new("price", decimal(12, 4)),
        Column::new("age", ColumnType::Double { unsigned: false }),
        Column::new("day", ColumnType::DateTime { fsp: 3 }),
        Column::new("note", varchar()),
    ];
    let after = table("orders", columns, &[0]);
    let new = Row::pack([
        Value::UInt(u64::MAX),
        Value::Decimal("2.0000".into()),
        Value::Double(-0.0),
        Value::Null,
        text("n"),
    ]);
    sink.prepare(&after).unwrap();
    sink.write(&upserts(&after, 3, std::slice::from_ref(&new))).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(reader(folder.path()).compare(&after, &[new]).unwrap(), [Comparison::Equal]);
    assert_eq!(query(folder.path(), "SELECT id FROM log"), ["18446744073709551615"]);
}

#[test]
fn a_value_that_does_not_convert_stops_the_change_whole() {
    let (folder, mut sink) = filled();
    let change =
        Change::AlterColumnType { table: "orders".into(), column: "note".into(), ty: int(), was: None };
    refused(sink.apply(&change), codes::TARGET_DDL, &["\"note\"", "key (1)", "\"a\"", "help:"]);
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(query(folder.path(), "SELECT * FROM orders"), ["1|a", "2|b"]);
    let foreign = tempdir().unwrap();
    user(foreign.path())
        .execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT CHECK (note <> ''))")
        .unwrap();
    let mut sink = claimed(foreign.path());
    sink.prepare(&orders()).unwrap();
    refused(sink.apply(&change), codes::TARGET_DDL, &["not made by cdc", "CHECK", "lang_altertable"]);
}
