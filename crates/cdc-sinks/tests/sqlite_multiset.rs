//! SQLite as a target of tables without a key: rows are counted, not keyed.

mod common;

use cdc_core::connector::{Sink, TargetChange, TargetOp, TargetSchemaChange, TargetTable};
use cdc_core::event::Op;
use cdc_core::schema::{Column, ColumnType, TableId};
use cdc_core::value::Value;
use cdc_core::{Row, codes};
use common::*;
use std::path::Path;
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

fn lines(folder: &Path) -> Vec<String> {
    query(folder, "SELECT line, n, x, COUNT(*) FROM log GROUP BY 1, 2, 3, 1 / x ORDER BY 1, 2, 3, 1 / x")
}

#[test]
fn equal_rows_are_kept_as_many_times_and_one_goes_at_a_time() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let (a, upper, null) = (line(text("a"), 1, 1.0), line(text("A"), 1, 1.0), line(Value::Null, 1, 1.0));
    let all = [&a, &a, &a, &upper, &null, &null];
    write(&mut *sink, &table, 1, all.map(|row| plus(1, row)).to_vec());
    assert_eq!(lines(folder.path()), ["NULL|1|1.0|2", "A|1|1.0|1", "a|1|1.0|3"]);
    write(&mut *sink, &table, 2, vec![minus(2, &a), minus(2, &null)]);
    assert_eq!(lines(folder.path()), ["NULL|1|1.0|1", "A|1|1.0|1", "a|1|1.0|2"]);
    // more than a few: the table is read once for all of them
    let many: Vec<Row> = (0..50).map(|i| line(text("b"), i % 25, 1.0)).collect();
    write(&mut *sink, &table, 3, many.iter().map(|row| plus(3, row)).collect());
    write(&mut *sink, &table, 4, many.iter().take(40).map(|row| minus(4, row)).collect());
    assert_eq!(query(folder.path(), "SELECT n FROM log WHERE line = 'b' ORDER BY n").len(), 10);
    assert_eq!(query(folder.path(), "SELECT DISTINCT n FROM log WHERE line = 'b' ORDER BY n").len(), 10);
}

#[test]
fn the_two_zeros_and_other_spellings_are_other_rows() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    for (tick, count) in [(1, 1), (10, 9)] {
        // by few and by many
        let zeros: Vec<Row> = (0..count).map(|_| line(text("z"), 0, 0.0)).collect();
        let minus_zeros: Vec<Row> = (0..count).map(|_| line(text("z"), 0, -0.0)).collect();
        let both = zeros.iter().chain(&minus_zeros);
        write(&mut *sink, &table, tick, both.map(|row| plus(tick, row)).collect());
        write(&mut *sink, &table, tick + 1, minus_zeros.iter().map(|row| minus(tick + 1, row)).collect());
        let left = query(folder.path(), "SELECT DISTINCT 1 / x, x FROM log");
        assert_eq!(left, ["NULL|0.0"], "by {count}");
        write(&mut *sink, &table, tick + 2, zeros.iter().map(|row| minus(tick + 2, row)).collect());
        assert!(lines(folder.path()).is_empty());
    }
}

#[test]
fn a_row_that_is_not_there_is_an_error_and_nothing_is_written() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let row = |n: i64| line(text("a"), n, 1.5);
    write(&mut *sink, &table, 1, (0..9).map(|n| plus(1, &row(n))).collect());
    let before = lines(folder.path());
    let words = ["\"log\"", "(\"a\", 9, 1.5)", "cdc verify"];
    refused(
        sink.write(&batch(&table, vec![plus(2, &row(0)), minus(2, &row(9))])),
        codes::TARGET_ROW_MISSING,
        &words,
    );
    let many = (0..10).map(|n| minus(2, &row(n))).collect();
    refused(sink.write(&batch(&table, many)), codes::TARGET_ROW_MISSING, &words);
    // one too many of those that are there
    let twice = vec![minus(2, &row(3)), minus(2, &row(3))];
    refused(sink.write(&batch(&table, twice)), codes::TARGET_ROW_MISSING, &["(\"a\", 3, 1.5)"]);
    assert_eq!(lines(folder.path()), before);
    assert_eq!(query(folder.path(), "SELECT tick FROM _cdc_progress"), ["1"]);
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

#[test]
fn shape_changes_keep_the_rows_and_their_number() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let row = line(text("5"), 5, 1.0);
    write(&mut *sink, &table, 1, vec![plus(1, &row), plus(1, &row), plus(1, &line(text("6"), 6, 1.0))]);
    let mut added = Column::new("added", int());
    added.default = Some("9".into());
    let name = || "log".to_owned();
    let changes = [
        TargetSchemaChange::AddColumn {
            table: name(),
            implicit: !added.nullable,
            column: added,
            keeps_default: false,
        },
        TargetSchemaChange::RenameColumn { table: name(), from: "line".into(), to: "text".into() },
        TargetSchemaChange::AlterColumnType { table: name(), column: "n".into(), ty: varchar() },
        TargetSchemaChange::DropColumn { table: name(), column: "x".into() },
        TargetSchemaChange::AlterNullability { table: name(), column: "n".into(), nullable: false },
        TargetSchemaChange::RenameTable { from: name(), to: "lines".into() },
    ];
    for change in &changes {
        sink.apply(change).unwrap();
    }
    let columns =
        vec![Column::new("text", varchar()), Column::new("n", varchar()), Column::new("added", int())];
    let lines = common::table("lines", columns, &[]);
    sink.prepare(&lines).unwrap();
    let now = Row::pack([text("5"), text("5"), Value::Int(9)]);
    write(&mut *sink, &lines, 2, vec![minus(2, &now)]);
    assert_eq!(query(folder.path(), "SELECT * FROM lines ORDER BY 1"), ["5|5|9", "6|6|9"]);
    sink.apply(&TargetSchemaChange::TruncateTable { table: "lines".into() }).unwrap();
    write(&mut *sink, &lines, 3, vec![plus(3, &now)]);
    assert_eq!(query(folder.path(), "SELECT * FROM lines"), ["5|5|9"]);
    sink.apply(&TargetSchemaChange::DropTable { table: "lines".into() }).unwrap();
    sink.commit(4, &binding(4)).unwrap();
    assert!(query(folder.path(), "SELECT 1 FROM sqlite_schema WHERE name = 'lines'").is_empty());
}

/// The target may lack a column of the source, which lenient keeps: rows are equal in what is written.
#[test]
fn columns_that_are_not_written_do_not_count() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    write(&mut *sink, &table, 1, (0..3).map(|n| plus(1, &line(text("a"), n, 1.0))).collect());
    let less = common::table("log", vec![Column::new("line", varchar())], &[]);
    let row = Row::pack([text("a")]);
    write(&mut *sink, &less, 2, vec![minus(2, &row), minus(2, &row)]);
    assert_eq!(query(folder.path(), "SELECT COUNT(*) FROM log"), ["1"]);
}

fn again(only: Vec<(Column, Row)>) -> TargetSchemaChange {
    TargetSchemaChange::RemoveRows {
        table: "log".into(),
        source: TableId::new("shop", "log"),
        only,
        again: true,
    }
}

#[test]
fn a_table_copied_again_is_emptied_in_its_place_and_as_one_with_its_rows() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let (old, new) = (line(text("old"), 1, 1.0), line(text("new"), 1, 1.0));
    write(&mut *sink, &table, 1, vec![plus(1, &old), plus(1, &old)]);
    sink.write(&batch(&table, vec![plus(2, &old)])).unwrap();
    sink.apply(&again(vec![])).unwrap();
    sink.prepare(&table).unwrap();
    sink.write(&batch(&table, vec![plus(3, &new), plus(3, &new), minus(3, &new)])).unwrap();
    assert_eq!(lines(folder.path()), ["old|1|1.0|2"], "nothing is seen before the commit");
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(lines(folder.path()), ["new|1|1.0|1"]);
    // given up: as it was
    sink.apply(&again(vec![])).unwrap();
    sink.rollback();
    assert_eq!(lines(folder.path()), ["new|1|1.0|1"]);
    // a table that is not there has no rows
    sink.apply(&TargetSchemaChange::RemoveRows {
        table: "nowhere".into(),
        source: TableId::new("shop", "nowhere"),
        only: vec![],
        again: true,
    })
    .unwrap();
}

#[test]
fn of_a_shared_table_only_the_rows_of_one_source_go() {
    let folder = tempdir().unwrap();
    let shard = Column::new("shard", varchar());
    let columns = vec![shard.clone().not_null(), Column::new("id", int()).not_null()];
    let table = table("log", columns, &[0, 1]);
    let mut sink = claimed(folder.path());
    sink.prepare(&table).unwrap();
    let row = |shard: &'static str, id| Row::pack([text(shard), Value::Int(id)]);
    let rows = [row("a", 1), row("A", 1), row("a", 2), row("b", 1)];
    sink.write(&upserts(&table, 1, &rows)).unwrap();
    sink.apply(&again(vec![(shard, Row::pack([text("a")]))])).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    assert_eq!(query(folder.path(), "SELECT * FROM log ORDER BY 1, 2"), ["A|1", "b|1"]);
    let unknown = Column::new("nothing", varchar());
    refused(sink.apply(&again(vec![(unknown, Row::pack([text("a")]))])), codes::TARGET_DDL, &["nothing"]);
}

/// What a lost commit covers must not be written twice: rows have no key that would make it harmless.
#[test]
fn a_commit_whose_answer_was_lost_doubles_no_row() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let (a, b) = (line(text("a"), 1, 1.0), line(text("b"), 1, 1.0));
    write(&mut *sink, &table, 1, vec![plus(1, &a), plus(1, &b)]);
    // As if the commit of tick 2, which deletes a and adds b, had become durable and reported an error all the same.
    let lost = || {
        user(folder.path())
            .execute_batch(
                "DELETE FROM log WHERE line = 'a'; INSERT INTO log VALUES ('b', 1, 1.0);
                 UPDATE _cdc_progress SET tick = tick + 1",
            )
            .unwrap();
    };
    lost();
    let again = |tick| vec![minus(tick, &a), plus(tick, &b)];
    write(&mut *sink, &table, 2, again(2));
    assert_eq!(lines(folder.path()), ["b|1|1.0|2"]);
    // The same, and the next commit covers more.
    write(&mut *sink, &table, 3, vec![plus(3, &a)]);
    lost();
    sink.write(&batch(&table, again(4))).unwrap();
    sink.write(&batch(&table, vec![plus(5, &a)])).unwrap();
    sink.commit(5, &binding(5)).unwrap();
    assert_eq!(lines(folder.path()), ["a|1|1.0|1", "b|1|1.0|3"]);
    // What empties a table lies before or behind it: nobody knows.
    lost();
    sink.apply(&self::again(vec![])).unwrap();
    sink.write(&batch(&table, vec![plus(7, &a)])).unwrap();
    refused(sink.commit(7, &binding(7)), codes::INTERNAL, &["tick 6", "start again"]);
    assert_eq!(lines(folder.path()), ["b|1|1.0|4"]);
    let mut next = claimed(folder.path());
    next.prepare(&table).unwrap();
    next.apply(&self::again(vec![])).unwrap();
    next.commit(7, &binding(7)).unwrap();
    assert!(lines(folder.path()).is_empty());
}

#[test]
fn a_reader_gives_whole_rows() {
    let folder = tempdir().unwrap();
    let (table, mut sink) = (log(), claimed(folder.path()));
    let (a, null) = (line(text("a"), 1, 1.0), Row::pack([Value::Null, Value::Null, Value::Null]));
    write(&mut *sink, &table, 1, vec![plus(1, &a), plus(1, &null), plus(1, &a)]);
    let mut reader = reader(folder.path());
    let mut found = Vec::new();
    reader
        .scan_keys(&table, &mut |row, text| {
            found.push((row, text));
            true
        })
        .unwrap();
    found.sort();
    let encoded = |row: &Row| reader.encode_key(&table, row);
    let mut expected = vec![
        (encoded(&null), "line = NULL, n = NULL, x = NULL".to_owned()),
        (encoded(&a), "line = \"a\", n = 1, x = 1.0".to_owned()),
        (encoded(&a), "line = \"a\", n = 1, x = 1.0".to_owned()),
    ];
    expected.sort();
    assert_eq!(found, expected);
    refused(reader.compare(&table, &[a]), codes::INTERNAL, &["key"]);
}
