//! Tables without a key: rows are counted, not keyed.

use super::*;
use cdc_core::codes;
use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::Op;
use cdc_core::schema::TableId;
use cdc_core::value::Value;

pub fn multisets(place: &dyn Place) {
    equal_rows_are_kept_as_many_times_and_one_goes_at_a_time(place);
    a_row_that_is_not_there_is_an_error_and_nothing_is_written(place);
    shape_changes_keep_the_rows_and_their_number(place);
    columns_that_are_not_written_do_not_count(place);
    a_table_copied_again_is_emptied_in_its_place_and_as_one_with_its_rows(place);
    a_commit_whose_answer_was_lost_doubles_no_row(place);
    a_reader_gives_whole_rows(place);
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
    done(sink, tick, &[batch(table, changes)]).unwrap();
}

fn lines(case: &dyn Case) -> Vec<String> {
    case.counted("SELECT line, n FROM log")
}

fn equal_rows_are_kept_as_many_times_and_one_goes_at_a_time(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    let (a, upper, null) = (line(text("a"), 1, 1.0), line(text("A"), 1, 1.0), line(Value::Null, 1, 1.0));
    let all = [&a, &a, &a, &upper, &null, &null];
    write(&mut *sink, &table, 1, all.map(|row| plus(1, row)).to_vec());
    assert_eq!(lines(case), ["A|1|1", "NULL|1|2", "a|1|3"]);
    write(&mut *sink, &table, 2, vec![minus(2, &a), minus(2, &null)]);
    assert_eq!(lines(case), ["A|1|1", "NULL|1|1", "a|1|2"]);
    // more than a few: the table is read once for all of them
    let many: Vec<Row> = (0..50).map(|i| line(text("b"), i % 25, 1.0)).collect();
    write(&mut *sink, &table, 3, many.iter().map(|row| plus(3, row)).collect());
    write(&mut *sink, &table, 4, many.iter().take(40).map(|row| minus(4, row)).collect());
    assert_eq!(case.sql("SELECT n FROM log WHERE line = 'b'").len(), 10);
    assert_eq!(case.sql("SELECT DISTINCT n FROM log WHERE line = 'b'").len(), 10);
}

/// Not of MariaDB, which stores -0.0 as 0.0.
pub fn the_two_zeros_are_two(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    for (tick, count) in [(1, 1), (10, 9)] {
        // by few and by many
        let zeros: Vec<Row> = (0..count).map(|_| line(text("z"), 0, 0.0)).collect();
        let minus_zeros: Vec<Row> = (0..count).map(|_| line(text("z"), 1, -0.0)).collect();
        let spelled: Vec<Row> = (0..count).map(|_| line(text("z"), 1, 0.0)).collect();
        let all = zeros.iter().chain(&minus_zeros).chain(&spelled);
        write(&mut *sink, &table, tick, all.map(|row| plus(tick, row)).collect());
        write(&mut *sink, &table, tick + 1, minus_zeros.iter().map(|row| minus(tick + 1, row)).collect());
        assert_eq!(lines(case), [format!("z|0|{count}"), format!("z|1|{count}")]);
        // what is left of n = 1 are the others: they go by their own bits
        write(&mut *sink, &table, tick + 2, spelled.iter().map(|row| minus(tick + 2, row)).collect());
        write(&mut *sink, &table, tick + 3, zeros.iter().map(|row| minus(tick + 3, row)).collect());
        assert!(lines(case).is_empty());
    }
}

fn a_row_that_is_not_there_is_an_error_and_nothing_is_written(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    let row = |n: i64| line(text("a"), n, 1.5);
    write(&mut *sink, &table, 1, (0..9).map(|n| plus(1, &row(n))).collect());
    let before = lines(case);
    let mut told = |changes, words: &[&str]| {
        let result = done(&mut *sink, 2, &[batch(&table, changes)]);
        refused(result, codes::TARGET_ROW_MISSING, words);
        sink.rollback();
    };
    let words = ["\"log\"", "(\"a\", 9, 1.5)", "cdc verify"];
    told(vec![plus(2, &row(0)), minus(2, &row(9))], &words);
    told((0..10).map(|n| minus(2, &row(n))).collect(), &words);
    // one too many of those that are there
    told(vec![minus(2, &row(3)), minus(2, &row(3))], &["(\"a\", 3, 1.5)"]);
    assert_eq!(lines(case), before);
    assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), ["1"]);
}

fn shape_changes_keep_the_rows_and_their_number(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
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
        TargetSchemaChange::AlterColumnType { table: name(), column: "n".into(), ty: varchar(), was: None },
        TargetSchemaChange::DropColumn { table: name(), column: "x".into() },
        TargetSchemaChange::AlterNullability { table: name(), column: "n".into(), nullable: false },
        TargetSchemaChange::RenameTable { from: name(), to: "pages".into() },
    ];
    changes.iter().for_each(|change| sink.apply(change).unwrap());
    sink.commit(2, &binding(2)).unwrap();
    let columns =
        vec![Column::new("text", varchar()), Column::new("n", varchar()), Column::new("added", int())];
    let lines = crate::common::table("pages", columns, &[]);
    let now = Row::pack([text("5"), text("5"), Value::Int(9)]);
    write(&mut *sink, &lines, 3, vec![minus(3, &now)]);
    let found = || case.counted("SELECT text, n, added FROM pages");
    assert_eq!(found(), ["5|5|9|1", "6|6|9|1"]);
    sink.apply(&TargetSchemaChange::TruncateTable { table: "pages".into() }).unwrap();
    write(&mut *sink, &lines, 4, vec![plus(4, &now)]);
    assert_eq!(found(), ["5|5|9|1"]);
    sink.apply(&TargetSchemaChange::DropTable { table: "pages".into() }).unwrap();
    sink.commit(5, &binding(5)).unwrap();
    assert_eq!(case.reader().count(&lines).unwrap(), 0);
    assert!(case.sql("SELECT name FROM _cdc_tables").is_empty());
}

/// The target may lack a column of the source, which lenient keeps: rows are equal in what is written.
fn columns_that_are_not_written_do_not_count(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    write(&mut *sink, &table, 1, (0..3).map(|n| plus(1, &line(text("a"), n, 1.0))).collect());
    let less = crate::common::table("log", vec![Column::new("line", varchar())], &[]);
    let row = Row::pack([text("a")]);
    write(&mut *sink, &less, 2, vec![minus(2, &row), minus(2, &row)]);
    assert_eq!(case.sql("SELECT COUNT(*) FROM log"), ["1"]);
}

fn again() -> TargetSchemaChange {
    TargetSchemaChange::RemoveRows {
        table: "log".into(),
        source: TableId::new("shop", "log"),
        only: vec![],
        again: true,
    }
}

fn a_table_copied_again_is_emptied_in_its_place_and_as_one_with_its_rows(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    let (old, new) = (line(text("old"), 1, 1.0), line(text("new"), 1, 1.0));
    write(&mut *sink, &table, 1, vec![plus(1, &old), plus(1, &old)]);
    if !matches!(case.flavor(), Flavor::Mysql | Flavor::MariaDb) {
        // there the committer commits what is open in front of a change
        sink.write(&batch(&table, vec![plus(2, &old)])).unwrap();
    }
    sink.apply(&again()).unwrap();
    sink.prepare(&table).unwrap();
    sink.write(&batch(&table, vec![plus(3, &new), plus(3, &new), minus(3, &new)])).unwrap();
    assert_eq!(lines(case), ["old|1|2"], "nothing is seen before the commit");
    sink.commit(3, &binding(3)).unwrap();
    assert_eq!(lines(case), ["new|1|1"]);
    // given up: as it was
    sink.apply(&again()).unwrap();
    sink.rollback();
    assert_eq!(lines(case), ["new|1|1"]);
    // a table that is not there has no rows
    sink.apply(&TargetSchemaChange::RemoveRows {
        table: "nowhere".into(),
        source: TableId::new("shop", "nowhere"),
        only: vec![],
        again: true,
    })
    .unwrap();
}

/// What a lost commit covers must not be written twice: rows have no key that would make it harmless.
fn a_commit_whose_answer_was_lost_doubles_no_row(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    let (a, b) = (line(text("a"), 1, 1.0), line(text("b"), 1, 1.0));
    write(&mut *sink, &table, 1, vec![plus(1, &a), plus(1, &b)]);
    // As if the commit of tick 2, which deletes a and adds b, had become durable and reported an error all the same.
    let lost = || {
        case.sql("DELETE FROM log WHERE line = 'a'");
        case.sql("INSERT INTO log (line, n, x) VALUES ('b', 1, 1.0)");
        case.sql("UPDATE _cdc_progress SET tick = tick + 1");
    };
    lost();
    let again_of = |tick| vec![minus(tick, &a), plus(tick, &b)];
    write(&mut *sink, &table, 2, again_of(2));
    assert_eq!(lines(case), ["b|1|2"]);
    // The same, and the next commit covers more.
    write(&mut *sink, &table, 3, vec![plus(3, &a)]);
    lost();
    sink.write(&batch(&table, again_of(4))).unwrap();
    sink.write(&batch(&table, vec![plus(5, &a)])).unwrap();
    sink.commit(5, &binding(5)).unwrap();
    assert_eq!(lines(case), ["a|1|1", "b|1|3"]);
    // What empties a table lies before or behind it: nobody knows.
    lost();
    sink.apply(&again()).unwrap();
    sink.prepare(&table).unwrap();
    sink.write(&batch(&table, vec![plus(7, &a)])).unwrap();
    refused(sink.commit(7, &binding(7)), codes::INTERNAL, &["tick 6", "start again"]);
    drop(sink);
    assert_eq!(lines(case), ["b|1|4"]);
    let mut next = case.claimed();
    next.prepare(&table).unwrap();
    next.apply(&again()).unwrap();
    next.commit(7, &binding(7)).unwrap();
    assert!(lines(case).is_empty());
}

fn a_reader_gives_whole_rows(place: &dyn Place) {
    let case = &*place.case();
    let (table, mut sink) = (log(), case.claimed());
    let (a, null) = (line(text("a"), 1, 1.5), Row::pack([Value::Null, Value::Null, Value::Null]));
    write(&mut *sink, &table, 1, vec![plus(1, &a), plus(1, &null), plus(1, &a)]);
    let mut reader = case.reader();
    let mut found = Vec::new();
    reader
        .scan_keys(&table, &mut |row, text| {
            found.push((row, text));
            true
        })
        .unwrap();
    found.sort();
    let mut encoded = |row: &Row| reader.encode_key(&table, row);
    let shown: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    let mut expected = vec![encoded(&null), encoded(&a), encoded(&a)];
    expected.sort();
    assert_eq!(found.iter().map(|(row, _)| row.clone()).collect::<Vec<_>>(), expected);
    for part in ["line = NULL", "n = NULL", "x = NULL", "line = \"a\"", "n = 1", "x = 1.5"] {
        assert!(shown.iter().any(|text| text.contains(part)), "{part} in {shown:?}");
    }
    refused(reader.compare(&table, &[a]), codes::INTERNAL, &["key"]);
}
