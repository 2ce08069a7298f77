//! Updates in part: rows of which only some columns are known.

use super::*;
use cdc_core::codes;
use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::Op;
use cdc_core::value::Value;

pub fn parts(place: &dyn Place) {
    only_the_columns_that_are_there_are_written(place);
    a_row_takes_its_columns_to_another_key(place);
    a_row_that_must_be_there_and_is_not_is_an_error(place);
}

fn t() -> Arc<TargetTable> {
    table(
        "t",
        vec![Column::new("id", int()).not_null(), Column::new("a", varchar()), Column::new("b", varchar())],
        &[0],
    )
}

fn row(id: i64, a: Option<&str>, b: Option<&str>) -> Row {
    let value = |v: Option<&str>| v.map_or(Value::Absent, text);
    Row::pack([Value::Int(id), value(a), value(b)])
}

/// An update of the row of key `from`; `None`: it need not be there.
fn update(tick: u64, from: Option<i64>, row: Row) -> TargetChange {
    TargetChange {
        tick,
        ordinal: 0,
        op: TargetOp::Upsert,
        source_op: Op::Update,
        key: key_of(&t(), &row),
        before: from.map(|id| self::row(id, None, None)),
        row: Some(row),
        origin: 0,
    }
}

#[track_caller]
fn check(place: &dyn Place, ticks: Vec<Vec<TargetChange>>, expected: Result<&[(i64, &str, &str)], &[&str]>) {
    let case = &*place.case();
    let table = t();
    let first: Vec<Row> =
        [(1, "a1", "b'1"), (2, "a2", "b2"), (3, "a3", "b3")].map(|(i, a, b)| row(i, Some(a), Some(b))).into();
    let mut sink = case.filled(&table, &first);
    let written = sink.write(&batch(&table, ticks.into_iter().flatten().collect()));
    match expected {
        Ok(expected) => {
            written.unwrap();
            sink.commit(9, &binding(9)).unwrap();
            let expected: Vec<String> = expected.iter().map(|(i, a, b)| format!("{i}|{a}|{b}")).collect();
            assert_eq!(case.sql("SELECT id, a, b FROM t ORDER BY id"), expected);
        }
        Err(words) => drop(refused(written, codes::TARGET_ROW_MISSING, words)),
    }
}

fn only_the_columns_that_are_there_are_written(place: &dyn Place) {
    check(
        place,
        vec![
            vec![update(2, Some(1), row(1, Some("x"), None)), update(2, Some(2), row(2, None, Some("y")))],
            vec![update(3, None, row(1, None, Some("z"))), update(3, None, row(7, Some("not"), None))],
            // nothing but the key; and as it is already: found, though nothing changes
            vec![update(4, Some(3), row(3, None, None)), update(5, Some(3), row(3, None, Some("b3")))],
        ],
        Ok(&[(1, "x", "z"), (2, "a2", "y"), (3, "a3", "b3")]),
    );
}

fn a_row_takes_its_columns_to_another_key(place: &dyn Place) {
    let gone = |id: i64| delete(2, Row::pack([Value::Int(id)]));
    check(
        place,
        vec![vec![gone(1), update(2, Some(1), row(9, Some("x"), None))]],
        Ok(&[(2, "a2", "b2"), (3, "a3", "b3"), (9, "x", "b'1")]),
    );
    // two change places, a third takes the place of a row that goes
    check(
        place,
        vec![vec![
            gone(3),
            update(2, Some(2), row(1, None, Some("from 2"))),
            update(2, Some(1), row(2, Some("from 1"), None)),
        ]],
        Ok(&[(1, "a2", "from 2"), (2, "from 1", "b'1")]),
    );
    check(
        place,
        vec![vec![gone(2), gone(3), update(2, Some(3), row(2, None, None))]],
        Ok(&[(1, "a1", "b'1"), (2, "a3", "b3")]),
    );
}

fn a_row_that_must_be_there_and_is_not_is_an_error(place: &dyn Place) {
    let stays = ["\"t\"", "key (7)", "MINIMAL", "cdc verify"];
    check(place, vec![vec![update(2, Some(7), row(7, Some("x"), None))]], Err(&stays));
    check(place, vec![vec![update(2, Some(7), row(8, Some("x"), None))]], Err(&stays));
}
