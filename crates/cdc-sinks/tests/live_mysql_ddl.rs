//! Schema changes at a MySQL or MariaDB target, which commit by themselves: made once, found made, and in step with
//! the ticks whatever happens in between.

mod common;
#[path = "common/mysql.rs"]
mod target;

use cdc_core::connector::{Sink, TargetSchemaChange as Change, TargetTable};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId};
use cdc_core::value::Value;
use cdc_core::{Row, codes};
use cdc_testkit::proxy::Proxy;
use common::*;
use std::sync::Arc;
use target::{Target, start};

/// Applies each change twice, the second time as a restart does.
#[track_caller]
fn twice(sink: &mut dyn Sink, change: &Change) {
    sink.apply(change).unwrap();
    sink.apply(change).unwrap();
}

fn add(column: Column) -> Change {
    Change::AddColumn { table: "orders".into(), implicit: !column.nullable, column, keeps_default: false }
}

fn rename(from: &str, to: &str) -> Change {
    Change::RenameColumn { table: "orders".into(), from: from.into(), to: to.into() }
}

fn alter(column: &str, ty: ColumnType) -> Change {
    Change::AlterColumnType { table: "orders".into(), column: column.into(), ty, was: None }
}

fn with_default(ty: ColumnType, default: &str) -> Column {
    let mut column = Column::new("flag", ty).not_null();
    column.default = Some(default.to_owned());
    column
}

fn shape(target: &Target<'_>, table: &str) -> Vec<String> {
    let lines = target.run(&format!(
        "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    ));
    // MariaDB prints a width
    lines.into_iter().map(|line| line.replace("int(11)", "int")).collect()
}

fn filled<'s>(target: &Target<'s>) -> Box<dyn Sink> {
    target.filled(&orders(), &[order(1, "a"), order(2, "b")])
}

#[test]
fn rows_that_are_there_read_the_default_of_an_added_column() {
    let server = start();
    let target = Target::new(&server, "defaults");
    let charset = Charset::utf8mb4();
    let mut sink = filled(&target);
    let text = ColumnType::Text { size: cdc_core::schema::LobSize::Normal, charset: charset.clone() };
    for (ty, default, reads) in [
        (int(), "7", "7"),
        (int(), "'-7'", "-7"),
        (decimal(10, 2), "1.5", "1.50"),
        (varchar(), "'it''s'", "it's"),
        (varchar(), "'a\\\\b'", "a\\\\b"),
        (text, "'long'", "long"),
        (ColumnType::Double { unsigned: false }, "3", "3"),
        (bigint(true), "18446744073709551615", "18446744073709551615"),
        (ColumnType::Binary { length: 2 }, "0x4142", "AB"),
        (ColumnType::Enum { labels: ["x".into(), "y".into()].into(), charset }, "'y'", "y"),
        (ColumnType::DateTime { fsp: 2 }, "'2026-01-31 10:00:00'", "2026-01-31 10:00:00.00"),
        (ColumnType::Date, "'0000-00-00'", "0000-00-00"),
        (ColumnType::Uuid, "'00112233-4455-6677-8899-aabbccddeeff'", "00112233-4455-6677-8899-aabbccddeeff"),
        (ColumnType::Inet4, "'10.1.0.0'", "10.1.0.0"),
        (int(), "NULL", "NULL"),
    ] {
        twice(&mut *sink, &add(with_default(ty.clone(), default)));
        let found = target.run("SELECT IFNULL(flag, 'NULL') FROM orders");
        assert_eq!(found, [reads, reads], "{ty} DEFAULT {default}");
        twice(&mut *sink, &Change::DropColumn { table: "orders".into(), column: "flag".into() });
    }
    // NOT NULL without a default reads the implicit one, also where the target's column may hold NULL
    for ty in [int(), varchar(), ColumnType::Json] {
        let reads = if ty == int() {
            "0"
        } else if ty == ColumnType::Json {
            "null"
        } else {
            ""
        };
        let column = Column::new("flag", ty);
        twice(
            &mut *sink,
            &Change::AddColumn { table: "orders".into(), column, implicit: true, keeps_default: false },
        );
        assert_eq!(target.run("SELECT CONCAT(flag) FROM orders"), [reads, reads]);
        twice(&mut *sink, &Change::DropColumn { table: "orders".into(), column: "flag".into() });
    }
    // what cannot be told is refused, unless there are no rows
    for (ty, default) in [
        (ColumnType::DateTime { fsp: 0 }, "CURRENT_TIMESTAMP"),
        (varchar(), "(uuid())"),
        (ColumnType::Timestamp { fsp: 0 }, "'2026-01-01 00:00:00'"),
    ] {
        let change = add(with_default(ty, default));
        refused(sink.apply(&change), codes::TARGET_DDL, &["\"flag\"", default, "help:"]);
        sink.rollback();
    }
    sink.apply(&Change::TruncateTable { table: "orders".into() }).unwrap();
    sink.apply(&add(with_default(ColumnType::DateTime { fsp: 0 }, "CURRENT_TIMESTAMP"))).unwrap();
    sink.commit(2, &binding(2)).unwrap();
}

#[test]
fn columns_are_renamed_dropped_and_filled() {
    let server = start();
    let target = Target::new(&server, "columns");
    let mut sink = filled(&target);
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
    twice(
        &mut *sink,
        &Change::AlterNullability { table: "orders".into(), column: "copy".into(), nullable: false },
    );
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(target.run("SELECT * FROM orders"), ["1|a|1.00", "2|b|2.00"]);
    assert_eq!(shape(&target, "orders"), ["id|int", "copy|varchar(100)", "price|decimal(10,2)"]);
    refused(sink.apply(&rename("nothing", "x")), codes::TARGET_DDL, &["no column \"nothing\""]);
    refused(sink.apply(&rename("copy", "price")), codes::TARGET_SHAPE, &["wanted:", "there:"]);
    let twice_there = add(Column::new("price", decimal(12, 2)));
    refused(
        sink.apply(&twice_there),
        codes::TARGET_SHAPE,
        &["decimal(10,2)", "decimal(12,2)", "RENAME COLUMN"],
    );
    target.run("UPDATE orders SET copy = 'x' WHERE id = 2");
    let words = ["UPDATE `orders`", "Incorrect decimal"];
    refused(sink.apply(&fill("copy", "price")), codes::TARGET_VALUE, &words);
    target.equal(
        &table(
            "orders",
            vec![
                Column::new("id", int()),
                Column::new("copy", varchar()),
                Column::new("price", decimal(10, 2)),
            ],
            &[0],
        ),
        &[(1, "a", "1.00"), (2, "x", "2.00")]
            .map(|(i, c, p)| Row::pack([Value::Int(i), text(c), Value::Decimal(p.into())])),
    );
}

#[test]
fn tables_are_made_truncated_renamed_and_dropped() {
    let server = start();
    let target = Target::new(&server, "tables");
    let mut sink = filled(&target);
    let other = table("other", vec![Column::new("id", int()).not_null()], &[0]);
    twice(&mut *sink, &Change::CreateTable { table: other.clone() });
    twice(&mut *sink, &Change::RenameTable { from: "other".into(), to: "third".into() });
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(target.run("SELECT name, changing FROM _cdc_tables ORDER BY 1"), ["orders|0", "third|0"]);
    let taken = Change::RenameTable { from: "third".into(), to: "orders".into() };
    refused(sink.apply(&taken), codes::TARGET_SHAPE, &["already", "RENAME TABLE"]);
    twice(&mut *sink, &Change::TruncateTable { table: "orders".into() });
    sink.prepare(&orders()).unwrap();
    sink.write(&upserts(&orders(), 3, &[order(9, "z")])).unwrap();
    twice(&mut *sink, &Change::DropTable { table: "third".into() });
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(target.run("SELECT * FROM orders"), ["9|z"]);
    assert_eq!(target.run("SELECT name FROM _cdc_tables"), ["orders"]);
    let gone = Change::RenameTable { from: "gone".into(), to: "x".into() };
    refused(sink.apply(&gone), codes::TARGET_DDL, &["\"gone\" is not at the target"]);
    // rows of others: neither taken over nor dropped
    target.run("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)");
    let theirs = table("t", vec![Column::new("id", int()).not_null()], &[0]);
    for change in [Change::CreateTable { table: theirs }, Change::DropTable { table: "t".into() }] {
        refused(sink.apply(&change), codes::TARGET_PROGRESS, &["already holds 1 rows"]);
    }
    target.run("DELETE FROM t");
    sink.apply(&Change::DropTable { table: "t".into() }).unwrap();
    assert_eq!(target.run("SELECT COUNT(*) FROM t"), ["0"], "an empty one of others stays");
    // many rows go at once
    let many: Vec<Row> = (0..12_000).map(|i| order(i, "x")).collect();
    sink.commit(4, &binding(4)).unwrap();
    sink.prepare(&orders()).unwrap();
    sink.write(&upserts(&orders(), 5, &many)).unwrap();
    sink.commit(5, &binding(5)).unwrap();
    let again = Change::RemoveRows {
        table: "orders".into(),
        source: TableId::new("shop", "orders"),
        only: vec![],
        again: true,
    };
    twice(&mut *sink, &again);
    sink.prepare(&orders()).unwrap();
    sink.write(&upserts(&orders(), 6, &many[..3])).unwrap();
    sink.commit(6, &binding(6)).unwrap();
    target.equal(&orders(), &many[..3]);
    // and those of one source
    let only = vec![(Column::new("note", varchar()), Row::pack([text("X")]))];
    let some =
        Change::RemoveRows { table: "orders".into(), source: TableId::new("shop", "o"), only, again: true };
    sink.apply(&some).unwrap();
    sink.commit(7, &binding(7)).unwrap();
    assert_eq!(
        target.run("SELECT COUNT(*) FROM orders"),
        ["3"],
        "X is not x, whatever the column's collation says"
    );
}

#[test]
fn a_type_changes_with_the_values_that_are_there() {
    let server = start();
    let target = Target::new(&server, "types");
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
    let mut sink = target.filled(&before, &[row(1, "a"), row(2, "é")]);
    target.run("CREATE INDEX by_note ON orders (note); CREATE VIEW seen AS SELECT id, price FROM orders");
    twice(&mut *sink, &alter("price", decimal(12, 4)));
    twice(&mut *sink, &alter("age", bigint(false)));
    twice(&mut *sink, &alter("day", ColumnType::DateTime { fsp: 3 }));
    twice(&mut *sink, &alter("note", ColumnType::VarChar { length: 300, charset: Charset::utf8mb4() }));
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(
        target.run("SELECT * FROM orders ORDER BY id"),
        ["1|1.5000|17|2026-01-31 00:00:00.000|a", "2|1.5000|17|2026-01-31 00:00:00.000|é"]
    );
    assert_eq!(target.run("SELECT price FROM seen WHERE id = 1"), ["1.5000"]);
    // a key's column keeps what makes keys two
    twice(&mut *sink, &alter("id", bigint(false)));
    // what would lose something, or cannot be told
    let tiny = ColumnType::Int { width: IntWidth::Tiny, unsigned: false };
    target.run("UPDATE orders SET age = 1000 WHERE id = 1");
    refused(sink.apply(&alter("age", tiny)), codes::TARGET_VALUE, &["Out of range", "MODIFY COLUMN `age`"]);
    refused(
        sink.apply(&alter("day", ColumnType::Timestamp { fsp: 3 })),
        codes::TARGET_DDL,
        &["time zone", "copy the table anew"],
    );
    refused(sink.apply(&alter("note", ColumnType::VarBinary { length: 300 })), codes::TARGET_DDL, &["ASCII"]);
    assert_eq!(target.run("SELECT age FROM orders WHERE id = 1"), ["1000"]);
}

#[test]
fn a_key_changes_and_rows_with_it() {
    let server = start();
    let target = Target::new(&server, "key_changes");
    let columns =
        || vec![Column::new("id", int()).not_null(), Column::new("note", varchar()), Column::new("n", int())];
    let by = |key: &[usize]| {
        let mut columns = columns();
        key.iter().for_each(|i| columns[*i].nullable = false);
        table("orders", columns, key)
    };
    let row = |id, note: &str, n| Row::pack([Value::Int(id), text(note), Value::Int(n)]);
    let rows = [row(1, "a", 1), row(2, "A", 1), row(3, "a ", 2)];
    let mut sink = target.filled(&by(&[0]), &rows);
    let key = |target: &Target<'_>| {
        target.run(
            "SELECT GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX) FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND INDEX_NAME = 'PRIMARY'",
        )
    };
    let mut tick = 1;
    let mut change = |sink: &mut dyn Sink, table: &Arc<TargetTable>| {
        twice(sink, &Change::ChangeKey { table: table.clone() });
        tick += 1;
        sink.prepare(table).unwrap();
        sink.commit(tick, &binding(tick)).unwrap();
    };
    // a text under a case-insensitive collation becomes a key: none of its rows may be lost
    change(&mut *sink, &by(&[1]));
    assert_eq!(key(&target), ["note"]);
    target.equal(&by(&[1]), &rows);
    change(&mut *sink, &by(&[2, 0]));
    assert_eq!(key(&target), ["n,id"]);
    change(&mut *sink, &by(&[0, 2]));
    assert_eq!(key(&target), ["id,n"]);
    // none, and one again
    change(&mut *sink, &by(&[]));
    assert_eq!(key(&target), ["_cdc_row"]);
    assert_eq!(target.run("SELECT * FROM orders ORDER BY id").len(), 3);
    sink.write(&batch(&by(&[]), vec![delete(9, rows[2].clone())])).unwrap();
    sink.commit(9, &binding(9)).unwrap();
    twice(&mut *sink, &Change::ChangeKey { table: by(&[0]) });
    sink.prepare(&by(&[0])).unwrap();
    sink.write(&upserts(&by(&[0]), 10, &[row(2, "new", 5)])).unwrap();
    sink.commit(10, &binding(10)).unwrap();
    assert_eq!(key(&target), ["id"]);
    target.equal(&by(&[0]), &[row(1, "a", 1), row(2, "new", 5)]);
    // rows that the new key does not tell apart
    sink.write(&upserts(&by(&[0]), 11, &[row(4, "x", 5)])).unwrap();
    sink.commit(11, &binding(11)).unwrap();
    let words = ["Duplicate entry", "ADD PRIMARY KEY (`n`)"];
    refused(sink.apply(&Change::ChangeKey { table: by(&[2]) }), codes::TARGET_DDL, &words);
    assert_eq!(key(&target), ["id"]);
}

/// The changes of one statement, of which each but the first looks for what the one before has made.
fn treacherous() -> (Vec<Change>, Arc<TargetTable>) {
    let changes = vec![
        rename("note", "b"),
        add(with_default(varchar(), "'new'").renamed("note")),
        Change::FillColumn {
            table: "orders".into(),
            from: "b".into(),
            to: "note".into(),
            was: None,
            only: vec![],
        },
        Change::DropColumn { table: "orders".into(), column: "b".into() },
        rename("note", "c"),
        add(Column::new("note", int())),
    ];
    let columns =
        vec![Column::new("id", int()).not_null(), Column::new("c", varchar()), Column::new("note", int())];
    (changes, table("orders", columns, &[0]))
}

trait Renamed {
    fn renamed(self, name: &str) -> Self;
}

impl Renamed for Column {
    fn renamed(mut self, name: &str) -> Column {
        self.name = name.into();
        self
    }
}

fn after(id: i64, c: &str, note: Value<'static>) -> Row {
    Row::pack([Value::Int(id), text(c), note])
}

/// A crash behind each statement: the next run is given the same changes in front of anything else.
#[test]
fn a_run_that_ends_between_two_changes_is_taken_up_by_the_next() {
    let server = start();
    let (changes, then) = treacherous();
    for made in 0..=changes.len() {
        for with_rows in [false, true] {
            let target = Target::new(&server, &format!("between_{made}_{with_rows}"));
            {
                let mut sink = filled(&target);
                for change in &changes[..made] {
                    sink.apply(change).unwrap();
                }
                if with_rows && made == changes.len() {
                    sink.prepare(&then).unwrap();
                    sink.write(&upserts(&then, 2, &[after(7, "lost", Value::Null)])).unwrap();
                }
            }
            let mut sink = target.sink();
            let resume = sink.inspect(&job("run 2")).unwrap().unwrap();
            assert_eq!(resume.tick, 1, "the tick is not committed");
            // the table as the source's checkpoint knows it: not to be had any more, nor made anew
            sink.check(&orders()).unwrap();
            sink.claim(&job("run 2")).unwrap();
            sink.prepare(&orders()).unwrap();
            // a tick of other tables may come in front
            sink.commit(2, &binding(2)).unwrap();
            for change in &changes {
                sink.apply(change).unwrap_or_else(|e| panic!("{made} made: {e}"));
            }
            sink.prepare(&then).unwrap();
            sink.write(&upserts(&then, 3, &[after(3, "n", Value::Int(3))])).unwrap();
            sink.commit(3, &binding(3)).unwrap();
            let rows = [after(1, "a", Value::Null), after(2, "b", Value::Null), after(3, "n", Value::Int(3))];
            target.equal(&then, &rows);
            assert_eq!(target.run("SELECT tick, changes FROM _cdc_progress"), ["3|"]);
            assert_eq!(target.run("SELECT name, changing FROM _cdc_tables"), ["orders|0"]);
        }
    }
}

/// A connection that is cut in the middle of changes: the committer applies all of them again.
#[test]
fn changes_on_a_connection_that_is_cut_are_made_once() {
    let server = start();
    let proxy = Proxy::start(server.port()).unwrap();
    let (changes, then) = treacherous();
    let mut cuts = 0;
    for bytes in (40..5000).step_by(310) {
        let direct = Target::new(&server, &format!("cut_{bytes}"));
        let target = direct.by(proxy.port());
        let mut sink = filled(&target);
        proxy.cut_after(bytes);
        loop {
            let done = changes.iter().try_for_each(|c| sink.apply(c)).and_then(|()| {
                sink.prepare(&then)?;
                sink.write(&upserts(&then, 2, &[after(3, "n", Value::Int(3))]))?;
                sink.commit(2, &binding(2))
            });
            match done {
                Ok(()) => break,
                Err(e) => {
                    assert!(e.is_transient(), "at byte {bytes}: {e}");
                    sink.rollback();
                    cuts += 1;
                }
            }
        }
        proxy.cut_after(u32::MAX >> 1);
        let rows = [after(1, "a", Value::Null), after(2, "b", Value::Null), after(3, "n", Value::Int(3))];
        direct.equal(&then, &rows);
        assert_eq!(direct.run("SELECT tick, changes FROM _cdc_progress"), ["2|"]);
    }
    assert!(cuts >= 10, "{cuts}");
}

/// Tables that are made and renamed in a tick that is not committed.
#[test]
fn a_crash_behind_a_table_that_was_made_renamed_or_dropped() {
    let server = start();
    for (n, change) in [
        Change::RenameTable { from: "orders".into(), to: "moved".into() },
        Change::DropTable { table: "orders".into() },
        Change::CreateTable { table: table("made", vec![Column::new("id", int()).not_null()], &[0]) },
        Change::TruncateTable { table: "orders".into() },
        Change::ChangeKey { table: table("orders", orders().schema.columns.clone(), &[]) },
    ]
    .into_iter()
    .enumerate()
    {
        let target = Target::new(&server, &format!("tables_{n}"));
        filled(&target).apply(&change).unwrap();
        let mut sink = target.sink();
        sink.inspect(&job("run 2")).unwrap();
        sink.check(&orders()).unwrap();
        sink.claim(&job("run 2")).unwrap();
        sink.prepare(&orders()).unwrap();
        sink.apply(&change).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        let listed = target.run("SELECT name, changing FROM _cdc_tables ORDER BY 1");
        let tables = target.run(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE '\\_cdc%' ORDER BY 1",
        );
        let expected: &[&str] = match n {
            0 => &["moved"],
            1 => &[],
            2 => &["made", "orders"],
            _ => &["orders"],
        };
        assert_eq!(tables, expected, "{change:?}");
        assert_eq!(listed, expected.iter().map(|t| format!("{t}|0")).collect::<Vec<_>>(), "{change:?}");
    }
}

/// Names change hands in one statement: the run ends behind each step, or with the step noted and not made. No row is lost, and
/// nothing is left that nobody has.
#[test]
fn a_run_that_ends_between_two_steps_of_names_that_change_hands() {
    let server = start();
    // what each name is made with at first: the tables differ in their columns, or in their rows alone
    let shaped = |name: &str, of: &str, alike: bool| {
        let own = if alike { "v".to_owned() } else { format!("of_{of}") };
        table(name, vec![Column::new("id", int()).not_null(), Column::new(own, varchar())], &[0])
    };
    let names = ["a", "b", "c", "d"];
    let rename = |pair: &str| {
        let (from, to) = pair.split_once(' ').unwrap();
        Change::RenameTable { from: from.into(), to: to.into() }
    };
    for (n, (steps, kept)) in [
        (&["a tmp", "b a", "tmp b"][..], "a=b b=a c=c d=d"),
        (&["a tmp", "tmp a"], "a=a b=b c=c d=d"),
        (&["a tmp", "b a", "c b", "tmp c"], "a=b b=c c=a d=d"),
        (&["a t1", "b t2", "t1 b", "t2 a"], "a=b b=a c=c d=d"),
        (&["a t", "t u", "u t", "b a", "a b"], "b=b c=c d=d t=a"),
        (&["a old", "b a", "c b", "d c"], "a=b b=c c=d old=a"),
        (&["a x", "b y", "c z"], "d=d x=a y=b z=c"),
        (&["a x", "d a", "b y"], "a=d c=c x=a y=b"),
        (&["-a", "-b", "-c"], "d=d"),
        (&["-a", "b a", "c b", "-d"], "a=b b=c"),
        (&["a tmp", "+a", "tmp b2", "-b"], "a= b2=a c=c d=d"),
        (&["-a", "+a", "-b", "c b"], "a= b=c d=d"),
    ]
    .into_iter()
    .enumerate()
    {
        for made in 0..=steps.len() {
            // (with each of the two costs a minute more)
            let alike = (n + made) % 2 == 0;
            // what each step is, and which table is called what behind it
            let mut owner: std::collections::BTreeMap<String, String> =
                names.iter().map(|n| ((*n).to_owned(), (*n).to_owned())).collect();
            let mut changes = Vec::new();
            for step in steps {
                let (change, after) = match step.split_at(1) {
                    ("-", name) => {
                        owner.remove(name);
                        (Change::DropTable { table: name.into() }, None)
                    }
                    ("+", name) => {
                        owner.insert(name.into(), "new".into());
                        let made = shaped(name, "new", alike);
                        (Change::CreateTable { table: made.clone() }, Some(made))
                    }
                    _ => {
                        let (from, to) = step.split_once(' ').unwrap();
                        let of = owner.remove(from).unwrap();
                        owner.insert(to.into(), of.clone());
                        (rename(step), Some(shaped(to, &of, alike)))
                    }
                };
                changes.push((change, after));
            }
            for undone in [false, true] {
                if undone && (n + made) % 3 != 0 {
                    continue;
                }
                let target = Target::new(&server, &format!("hands_{n}_{made}_{undone}"));
                let here =
                    || format!("{steps:?}, alike: {alike}, {made} made, the last one undone: {undone}");
                {
                    let mut sink = target.sink();
                    sink.inspect(&job("run 1")).unwrap();
                    sink.claim(&job("run 1")).unwrap();
                    for name in names {
                        let table = shaped(name, name, alike);
                        sink.prepare(&table).unwrap();
                        let row = Row::pack([Value::Int(1), text(name)]);
                        sink.write(&upserts(&table, 1, &[row])).unwrap();
                    }
                    sink.commit(1, &binding(1)).unwrap();
                    for (change, after) in &changes[..made] {
                        sink.apply(change).unwrap();
                        if let Some(after) = after {
                            sink.prepare(after).unwrap();
                        }
                    }
                }
                // what was noted as about to be made, and was not
                match changes[..made].last() {
                    Some((Change::RenameTable { from, to }, _)) if undone => {
                        target.run(&format!("RENAME TABLE {to} TO {from}"));
                    }
                    Some((Change::CreateTable { table }, _)) if undone => {
                        target.run(&format!("DROP TABLE {}", table.name));
                    }
                    _ if undone => continue,
                    _ => {}
                }
                // twice: what the second run does is not committed either
                for run in ["run 2", "run 3"] {
                    let mut sink = target.sink();
                    sink.inspect(&job(run)).unwrap();
                    for name in names {
                        sink.check(&shaped(name, name, alike)).unwrap_or_else(|e| panic!("{}: {e}", here()));
                    }
                    sink.claim(&job(run)).unwrap();
                    for name in names {
                        sink.prepare(&shaped(name, name, alike))
                            .unwrap_or_else(|e| panic!("{}: {e}", here()));
                    }
                    for (change, after) in &changes {
                        sink.apply(change).unwrap_or_else(|e| panic!("{}: {e}", here()));
                        if let Some(after) = after {
                            sink.prepare(after).unwrap_or_else(|e| panic!("{}: {e}", here()));
                        }
                    }
                    if run == "run 3" {
                        sink.commit(2, &binding(2)).unwrap_or_else(|e| panic!("{}: {e}", here()));
                        for (name, of) in &owner {
                            let table = shaped(name, of, alike);
                            sink.prepare(&table).unwrap_or_else(|e| panic!("{}: {e}", here()));
                            let row = Row::pack([Value::Int(2), text("later")]);
                            sink.write(&upserts(&table, 3, &[row])).unwrap();
                        }
                        sink.commit(3, &binding(3)).unwrap();
                    }
                }
                let found = target.run(
                    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE '\\_cdc%' ORDER BY 1",
                );
                let holds: Vec<String> = found
                    .iter()
                    .map(|name| {
                        let rows = target.run(&format!("SELECT * FROM {name} ORDER BY id"));
                        let rows: Vec<&str> = rows.iter().filter_map(|r| r.split('|').nth(1)).collect();
                        assert_eq!(rows.last(), Some(&"later"), "{}", here());
                        format!("{name}={}", rows[..rows.len() - 1].concat())
                    })
                    .collect();
                assert_eq!(holds.join(" "), kept, "{}", here());
                let listed = target.run("SELECT name, changing FROM _cdc_tables ORDER BY 1");
                let expected: Vec<String> = found.iter().map(|t| format!("{t}|0")).collect();
                assert_eq!(listed, expected, "{}", here());
            }
        }
    }
}

/// A table that is taken in anew has the structure of now: after a crash in that tick it may be another one.
#[test]
fn a_table_that_was_made_in_a_tick_that_comes_again_with_another_shape() {
    let server = start();
    let target = Target::new(&server, "another_shape");
    let drop = Change::DropTable { table: "orders".into() };
    let with = |name| {
        let columns = vec![Column::new("id", int()).not_null(), Column::new(name, int())];
        table("orders", columns, &[0])
    };
    let mut sink = filled(&target);
    sink.apply(&drop).unwrap();
    sink.apply(&Change::CreateTable { table: with("a") }).unwrap();
    for name in ["b", "c"] {
        let mut sink = target.sink();
        sink.inspect(&job("run 2")).unwrap();
        sink.check(&with(name)).unwrap();
        sink.claim(&job("run 2")).unwrap();
        sink.prepare(&with(name)).unwrap();
        sink.apply(&drop).unwrap();
        sink.apply(&Change::CreateTable { table: with(name) }).unwrap();
        if name == "c" {
            sink.prepare(&with(name)).unwrap();
            let row = Row::pack([Value::Int(1), Value::Int(2)]);
            sink.write(&upserts(&with(name), 2, std::slice::from_ref(&row))).unwrap();
            sink.commit(2, &binding(2)).unwrap();
            target.equal(&with(name), &[row]);
        }
    }
    assert_eq!(shape(&target, "orders"), ["id|int", "c|int"]);
    assert_eq!(target.run("SELECT name, changing FROM _cdc_tables"), ["orders|0"]);
    // but nobody else's
    target.run("CREATE TABLE theirs (x INT PRIMARY KEY)");
    let mut sink = target.sink();
    sink.claim(&job("run 3")).unwrap();
    sink.apply(&Change::DropTable { table: "theirs".into() }).unwrap();
    let made =
        Change::CreateTable { table: table("theirs", vec![Column::new("id", int()).not_null()], &[0]) };
    refused(sink.apply(&made), codes::TARGET_SHAPE, &["\"id\""]);
    assert_eq!(target.run("SELECT COUNT(*) FROM theirs"), ["0"]);
}

/// A table that was made in a tick which a crash has cut off, and that never comes again.
#[test]
fn a_table_that_was_made_and_does_not_come_again_goes() {
    let server = start();
    let target = Target::new(&server, "strays");
    let make = |name| {
        let table = table(name, vec![Column::new("id", int()).not_null()], &[0]);
        Change::CreateTable { table }
    };
    let tables = |target: &Target<'_>| {
        target.run(
            "SELECT GROUP_CONCAT(TABLE_NAME ORDER BY 1) FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE '\\_cdc%'",
        )
    };
    for (tick, again) in [(2, "stray"), (3, "other")] {
        let mut sink = if tick == 2 { filled(&target) } else { target.sink() };
        if tick == 3 {
            sink.claim(&job("run 3")).unwrap();
        }
        sink.apply(&make("stray")).unwrap();
        let mut sink = target.sink();
        sink.claim(&job("run 2")).unwrap();
        // rows alone say nothing of what is still to come
        sink.prepare(&orders()).unwrap();
        sink.write(&upserts(&orders(), 10 * tick, &[order(3, "c")])).unwrap();
        sink.commit(10 * tick, &binding(10 * tick)).unwrap();
        assert!(tables(&target)[0].contains("stray"));
        sink.apply(&make(again)).unwrap();
        sink.commit(10 * tick + 1, &binding(10 * tick + 1)).unwrap();
        if again == "stray" {
            assert_eq!(tables(&target), ["orders,stray"]);
            sink.apply(&Change::DropTable { table: "stray".into() }).unwrap();
            sink.commit(10 * tick + 2, &binding(10 * tick + 2)).unwrap();
        } else {
            assert_eq!(tables(&target), ["orders,other"]);
        }
    }
    let listed = target.run("SELECT name, changing FROM _cdc_tables ORDER BY 1");
    assert_eq!(listed, ["orders|0", "other|0"]);
}

/// The commit in front is done, whatever becomes of such a table.
#[test]
fn a_table_that_cannot_go_is_no_error_of_the_commit() {
    let server = start();
    let target = Target::new(&server, "stays");
    let make = |name| {
        let table = table(name, vec![Column::new("id", int()).not_null()], &[0]);
        Change::CreateTable { table }
    };
    filled(&target).apply(&make("stray")).unwrap();
    let listed = || target.run("SELECT name, changing FROM _cdc_tables ORDER BY 1");
    target.run("REVOKE DROP ON stays.* FROM dw@'%'");
    let mut sink = target.sink();
    sink.claim(&job("run 2")).unwrap();
    sink.apply(&make("other")).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(target.run("SELECT tick FROM _cdc_progress"), ["2"]);
    // another change does not let it be forgotten
    sink.apply(&make("third")).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(listed(), ["orders|0", "other|0", "stray|2", "third|0"]);
    // for the table: one for the database is seen by sessions to come
    target.run("GRANT DROP ON stays.stray TO dw@'%'");
    sink.commit(4, &binding(4)).unwrap();
    assert_eq!(listed(), ["orders|0", "other|0", "third|0"]);
    assert_eq!(target.run("SHOW TABLES LIKE 'stray'"), [""; 0]);
}

/// What the committer never does: rows of its tick in front of a change. Those with a key are taken again; others could
/// not be told from new ones.
#[test]
fn rows_in_front_of_a_change_are_refused_where_they_could_be_doubled() {
    let server = start();
    let target = Target::new(&server, "in_front");
    let mut sink = filled(&target);
    let log = table("log", vec![Column::new("line", varchar())], &[]);
    sink.prepare(&log).unwrap();
    assert!(sink.commits_by_itself());
    let row = Row::pack([text("x")]);
    let mut plus = upsert(&log, 2, &row);
    plus.key = row.clone();
    sink.write(&batch(&log, vec![plus])).unwrap();
    refused(sink.apply(&add(Column::new("x", int()))), codes::TARGET_DDL, &["without key", "key (..)"]);
    assert_eq!(target.run("SELECT COUNT(*) FROM log"), ["0"]);
    sink.rollback();
    sink.prepare(&orders()).unwrap();
    sink.write(&upserts(&orders(), 2, &[order(3, "c")])).unwrap();
    sink.apply(&add(Column::new("x", int()))).unwrap();
    sink.rollback();
    sink.apply(&add(Column::new("x", int()))).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(shape(&target, "orders"), ["id|int", "note|varchar(100)", "x|int"]);
}

/// A row that would be too wide, or a column beyond what fits beside the others.
#[test]
fn columns_that_no_row_has_room_for_become_texts() {
    let server = start();
    let target = Target::new(&server, "wide");
    let wide = |length| ColumnType::VarChar { length, charset: Charset::utf8mb4() };
    let mut sink = filled(&target);
    for name in ["a", "b", "c"] {
        sink.apply(&add(Column::new(name, wide(12_000)))).unwrap();
    }
    sink.apply(&alter("note", wide(10_000))).unwrap();
    let mut filled = Column::new("d", wide(12_000)).not_null();
    filled.default = Some("'there'".into());
    sink.apply(&add(filled)).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(target.run("SELECT DISTINCT d FROM orders"), ["there"]);
    let long = "é".repeat(12_000);
    let columns = ["id", "note", "a", "b", "c"];
    let columns = columns
        .iter()
        .map(|n| {
            if *n == "id" {
                Column::new(*n, int()).not_null()
            } else {
                Column::new(*n, wide(if *n == "note" { 10_000 } else { 12_000 }))
            }
        })
        .collect();
    let table = table("orders", columns, &[0]);
    sink.prepare(&table).unwrap();
    let row = Row::pack([Value::Int(5), text("n"), text(&long), text(&long), text(&long)]);
    sink.write(&upserts(&table, 3, &[row])).unwrap();
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(target.run("SELECT CHAR_LENGTH(a), CHAR_LENGTH(c) FROM orders WHERE id = 5"), ["12000|12000"]);
}

#[test]
fn defaults_and_comments_are_those_of_the_source_as_far_as_they_mean_the_same() {
    let server = start();
    let target = Target::new(&server, "said");
    let mut sink = target.claimed();
    let wanted = table_with_defaults("all");
    let names = |all: &[usize]| all.iter().map(|i| format!("c{i}")).collect::<Vec<_>>();
    // (what is none anyway need not be told)
    let is_null = |v: &Value<'_>| matches!(v, Value::Null);
    let none: Vec<usize> =
        (0..defaults().len()).filter(|i| is_null(&defaults()[*i].2) && defaults()[*i].1 != "NULL").collect();
    sink.prepare(&wanted).unwrap();
    let create = Change::CreateTable { table: wanted.clone() };
    assert_eq!(left_out(&*sink, &create), names(&none));
    target.run("INSERT INTO `all` (id) VALUES (1)");
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
    sink.commit(1, &binding(1)).unwrap();
    target.run("INSERT INTO `all` (id) VALUES (2)");
    assert_eq!(target.run(SAID), [""; 0]);
    for (i, (_, default, _)) in defaults().into_iter().enumerate() {
        twice(&mut *sink, &alter(i, Some(default)));
        let told = if none.contains(&i) { names(&[i]) } else { Vec::new() };
        assert_eq!(left_out(&*sink, &alter(i, Some(default))), told);
        twice(&mut *sink, &comment(Some(format!("c{i}")), &format!("again '{i}'")));
    }
    twice(&mut *sink, &comment(None, "again"));
    // of a comment that the server does not hold, what it holds
    let odd = comment(Some("c0".into()), "a \u{1f642} b");
    twice(&mut *sink, &odd);
    assert!(sink.leaves_out(&odd)[0].contains("column \"c0\" of the target has not all of its comment"));
    let held = "SELECT COLUMN_COMMENT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = 'c0' AND TABLE_NAME = 'all'";
    assert_eq!(target.run(held), ["a \u{fffd} b"]);
    sink.commit(2, &binding(2)).unwrap();
    target.run("INSERT INTO `all` (id) VALUES (3)");
    let nothing = Row::pack(std::iter::once(Value::Int(2)).chain(defaults().iter().map(|_| Value::Null)));
    target.equal(&wanted, &[row_of_defaults(1), nothing, row_of_defaults(3)]);
    assert_eq!(target.run(SAID).len(), defaults().len() + 1);
    // the comments of columns are where they were when their types change, and a default goes until it is set anew
    twice(
        &mut *sink,
        &Change::AlterColumnType { table: "all".into(), column: "c0".into(), ty: bigint(false), was: None },
    );
    twice(&mut *sink, &alter(0, Some("8")));
    sink.commit(3, &binding(3)).unwrap();
    target.run("INSERT INTO `all` (id) VALUES (4)");
    assert_eq!(target.run("SELECT c0 FROM `all` WHERE id = 4"), ["8"]);
    assert_eq!(target.run(SAID).len(), defaults().len() + 1);
}

/// What has a comment in a database.
const SAID: &str = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_COMMENT <> '' AND TABLE_NAME = 'all' \
     UNION ALL SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_COMMENT <> '' AND TABLE_NAME = 'all'";

/// A column is added to rows with a value that is not to stay its default: two statements, and a crash between them.
#[test]
fn a_default_that_was_only_for_the_rows_goes() {
    let server = start();
    let target = Target::new(&server, "only_rows");
    let mut sink = filled(&target);
    let has_default = || {
        let shown = target.run("SHOW CREATE TABLE orders").join(" ");
        shown.contains("DEFAULT 7")
            || shown.contains("DEFAULT '7'")
            || shown.contains("DEFAULT '0'")
            || shown.contains("DEFAULT 0")
    };
    let column = with_default(int(), "7");
    for (change, reads) in [
        (add(column.clone()), "7"),
        (
            Change::AddColumn {
                table: "orders".into(),
                column: Column::new("flag", int()),
                implicit: true,
                keeps_default: false,
            },
            "0",
        ),
    ] {
        sink.apply(&change).unwrap();
        assert!(!has_default());
        sink.rollback();
        // the first statement is made, and the second is not
        target.run(&format!("ALTER TABLE orders ALTER COLUMN flag SET DEFAULT {reads}"));
        twice(&mut *sink, &change);
        assert!(!has_default());
        assert_eq!(target.run("SELECT flag FROM orders"), [reads, reads]);
        twice(&mut *sink, &Change::DropColumn { table: "orders".into(), column: "flag".into() });
    }
    let stays = Change::AddColumn { table: "orders".into(), column, implicit: true, keeps_default: true };
    twice(&mut *sink, &stays);
    assert!(has_default());
}

/// A tick is half made, and after the crash a table is taken in in front of it: names that change hands do so once.
#[test]
fn a_table_that_is_taken_in_comes_in_front_of_a_tick_that_is_half_made() {
    let server = start();
    let columns =
        vec![Column::new("id", int()).not_null(), Column::new("a", int()), Column::new("b", bigint(false))];
    let names = table("names", columns, &[0]);
    let swap = [("a", "aside"), ("b", "a"), ("aside", "b")].map(|(from, to)| Change::RenameColumn {
        table: "names".into(),
        from: from.into(),
        to: to.into(),
    });
    let taken_in = |column: &str| {
        let columns = vec![Column::new("id", int()).not_null(), Column::new(column, int())];
        let other = table("other", columns, &[0]);
        [
            Change::DropTable { table: "other".into() },
            Change::CreateTable { table: other.clone() },
            Change::RemoveRows {
                table: "other".into(),
                source: other.schema.id.clone(),
                only: Vec::new(),
                again: true,
            },
        ]
    };
    for made in 1..=3 {
        let target = Target::new(&server, &format!("beside_{made}"));
        let row = Row::pack([Value::Int(1), Value::Int(2), Value::Int(3)]);
        let mut sink = target.filled(&names, &[row]);
        swap[..made].iter().for_each(|change| sink.apply(change).unwrap());
        // (one that is left in the middle, and then has another shape)
        for (column, ends) in [("before", false), ("now", true)] {
            sink = target.sink();
            sink.inspect(&job("run 2")).unwrap();
            sink.claim(&job("run 2")).unwrap();
            sink.prepare(&names).unwrap();
            taken_in(column).iter().for_each(|change| sink.apply(change).unwrap());
            if ends {
                sink.commit(2, &binding(2)).unwrap();
            }
        }
        let listed = |sql: &str| target.run(&format!("SELECT name FROM _cdc_tables WHERE changing {sql}"));
        assert_eq!((listed("= 1"), listed("= 0")), (vec!["names".to_owned()], vec!["other".to_owned()]));
        swap.iter().for_each(|change| sink.apply(change).unwrap());
        sink.commit(3, &binding(3)).unwrap();
        assert_eq!(
            shape(&target, "names").iter().map(|c| c.replace("(20)", "")).collect::<Vec<_>>(),
            ["id|int", "b|int", "a|bigint"]
        );
        assert_eq!(target.run("SELECT b, a FROM names"), ["2|3"]);
        assert_eq!(shape(&target, "other"), ["id|int", "now|int"]);
        assert!(listed("<> 0").is_empty());
        assert_eq!(target.run("SELECT changes FROM _cdc_progress"), [""]);
    }
}
