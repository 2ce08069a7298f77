//! Updates in part: rows of which only some columns are known.

mod common;

use cdc_core::codes;
use cdc_core::connector::{TargetChange, TargetOp, TargetTable};
use cdc_core::event::Op;
use cdc_core::schema::Column;
use cdc_core::value::Value;
use cdc_core::{Error, Row};
use common::postgres::{Case, Target};
use common::{batch, binding, delete, int, key_of, table, text, upserts, varchar};
use std::sync::Arc;

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

fn rows(case: &Case<'_>) -> Vec<String> {
    case.sql("SELECT id, a, b FROM t ORDER BY id")
}

fn check(
    target: &Target,
    ticks: Vec<Vec<TargetChange>>,
    expected: Result<&[(i64, &str, &str)], &[&str]>,
) -> Option<Error> {
    let case = target.case();
    let table = t();
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    let first: Vec<Row> =
        [(1, "a1", "b1"), (2, "a2", "b2"), (3, "a3", "b3")].map(|(i, a, b)| row(i, Some(a), Some(b))).into();
    sink.write(&upserts(&table, 1, &first)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    let written = sink.write(&batch(&table, ticks.into_iter().flatten().collect()));
    match expected {
        Ok(expected) => {
            written.unwrap();
            sink.commit(9, &binding(9)).unwrap();
            let expected: Vec<String> = expected.iter().map(|(i, a, b)| format!("{i}|{a}|{b}")).collect();
            assert_eq!(rows(&case), expected);
            None
        }
        Err(words) => {
            let error = written.unwrap_err();
            assert_eq!(error.code(), codes::TARGET_ROW_MISSING);
            assert!(words.iter().all(|w| error.to_string().contains(w)), "{error}");
            Some(error)
        }
    }
}

fn case_29_only_the_columns_that_are_there_are_written(target: &Target) {
    check(
        target,
        vec![
            vec![update(2, Some(1), row(1, Some("x"), None)), update(2, Some(2), row(2, None, Some("y")))],
            vec![update(3, None, row(1, None, Some("z"))), update(3, None, row(7, Some("not"), None))],
            // nothing but the key
            vec![update(4, Some(3), row(3, None, None))],
        ],
        Ok(&[(1, "x", "z"), (2, "a2", "y"), (3, "a3", "b3")]),
    );
}

fn case_29_a_row_takes_its_columns_to_another_key(target: &Target) {
    let gone = |id: i64| delete(2, Row::pack([Value::Int(id)]));
    check(
        target,
        vec![vec![gone(1), update(2, Some(1), row(9, Some("x"), None))]],
        Ok(&[(2, "a2", "b2"), (3, "a3", "b3"), (9, "x", "b1")]),
    );
    // two change places, a third takes the place of a row that goes
    check(
        target,
        vec![vec![
            gone(3),
            update(2, Some(2), row(1, None, Some("from 2"))),
            update(2, Some(1), row(2, Some("from 1"), None)),
        ]],
        Ok(&[(1, "a2", "from 2"), (2, "from 1", "b1")]),
    );
    check(
        target,
        vec![vec![gone(2), gone(3), update(2, Some(3), row(2, None, None))]],
        Ok(&[(1, "a1", "b1"), (2, "a3", "b3")]),
    );
}

fn a_row_that_must_be_there_and_is_not_is_an_error(target: &Target) {
    check(
        target,
        vec![vec![update(2, Some(7), row(7, Some("x"), None))]],
        Err(&["\"t\"", "key (7)", "MINIMAL"]),
    );
    check(target, vec![vec![update(2, Some(7), row(8, Some("x"), None))]], Err(&["\"t\"", "key (7)"]));
}

/// One server for all of them.
#[test]
fn case_29_updates_in_part() {
    let target = Target::start();
    case_29_only_the_columns_that_are_there_are_written(&target);
    case_29_a_row_takes_its_columns_to_another_key(&target);
    a_row_that_must_be_there_and_is_not_is_an_error(&target);
}
