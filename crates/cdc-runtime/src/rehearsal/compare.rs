//! What is expected of a table, beside what is there.

use super::source::unknown_column;
use super::target::{Table, Values};
use super::values::stored;
use cdc_core::diagnostic::{Diagnostic, Span};
use cdc_core::plan::ColumnName;
use cdc_core::plan::test::TestRow;
use cdc_core::{Row, codes};
use std::collections::HashMap;

/// The rows in which a table is not what is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differences {
    /// The table, as the test names it.
    pub target: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// Rows that are as expected.
    pub equal: usize,
    /// The others.
    pub rows: Vec<Different>,
}

/// A row that is not as expected: values as text, in the order of the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Different {
    /// What it should be; `None`: it should not be there.
    pub expected: Option<Vec<String>>,
    /// What it is; `None`: it is not there.
    pub actual: Option<Vec<String>>,
    /// Where the two differ, by column; empty where there is only one of them.
    pub columns: Vec<usize>,
}

/// Compares the rows of a table.
///
/// # Errors
/// At its place: a column that is not there, one that is not named, a value that is none of its column's.
pub(super) fn rows(
    target: &str,
    table: &Table,
    expected: &[TestRow],
) -> Result<Option<Differences>, Diagnostic> {
    let mut missing = expected.iter().map(|row| wanted(target, table, row)).collect::<Result<Vec<_>, _>>()?;
    let packed = |row: &Values| Row::pack(row.iter().cloned());
    let mut there: HashMap<Row, usize> = HashMap::with_capacity(table.rows.len());
    for row in &table.rows {
        *there.entry(packed(row)).or_default() += 1;
    }
    let total = missing.len();
    let mut met: HashMap<Row, usize> = HashMap::new();
    let mut takes = |row: &Values, there: &mut HashMap<Row, usize>| {
        let row = packed(row);
        let left = there.get_mut(&row).filter(|left| **left > 0);
        left.is_some_and(|left| {
            *left -= 1;
            *met.entry(row).or_default() += 1;
            true
        })
    };
    missing.retain(|row| !takes(row, &mut there));
    let mut extra = table.rows.clone();
    extra.retain(|row| {
        let met = met.get_mut(&packed(row)).filter(|met| **met > 0);
        met.is_none_or(|met| {
            *met -= 1;
            false
        })
    });
    let equal = total - missing.len();
    if missing.is_empty() && extra.is_empty() {
        return Ok(None);
    }
    let key = table.key();
    let text = |row: &Values| row.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut differing = Vec::new();
    for row in &missing {
        let same = |there: &Values| !key.is_empty() && key.iter().all(|&i| there.get(i) == row.get(i));
        let actual = extra.iter().position(same).map(|at| extra.remove(at));
        let columns = match &actual {
            Some(actual) => (0..row.len()).filter(|&i| row.get(i) != actual.get(i)).collect(),
            None => Vec::new(),
        };
        differing.push(Different { expected: Some(text(row)), actual: actual.as_ref().map(text), columns });
    }
    differing.extend(extra.iter().map(|row| Different {
        expected: None,
        actual: Some(text(row)),
        columns: Vec::new(),
    }));
    Ok(Some(Differences {
        target: target.to_owned(),
        columns: table.columns.iter().map(|c| c.name.to_string()).collect(),
        equal,
        rows: differing,
    }))
}

/// An expected row, in the order of the table's columns.
fn wanted(target: &str, table: &Table, row: &TestRow) -> Result<Values, Diagnostic> {
    let mut values: Vec<Option<_>> = vec![None; table.columns.len()];
    for (name, expr) in &row.values {
        let at = table
            .place(&name.name)
            .ok_or_else(|| unknown_column(&name.name, &name.span, target, &table.columns))?;
        values[at] = Some(stored(expr, &table.columns[at])?);
    }
    let unnamed: Vec<&str> =
        table.columns.iter().zip(&values).filter(|(_, v)| v.is_none()).map(|(c, _)| &*c.name).collect();
    if !unnamed.is_empty() {
        let headline = format!("an expected row of \"{target}\" does not name all columns");
        return Err(Diagnostic::error(codes::TEST_STEP, headline)
            .at(row.span.clone(), "")
            .help(format!("name {} as well: all columns are compared", unnamed.join(", "))));
    }
    Ok(values.into_iter().flatten().collect())
}

/// Compares the columns of a table, in their order.
pub(super) fn columns(
    target: &str,
    table: &Table,
    expected: &[ColumnName],
    span: &Span,
) -> Result<(), Diagnostic> {
    let actual: Vec<&str> = table.columns.iter().map(|c| &*c.name).collect();
    let wanted: Vec<&str> = expected.iter().map(|c| c.name.as_str()).collect();
    if actual == wanted {
        return Ok(());
    }
    // the first that differs, where it is one of those that are expected
    let first = wanted.iter().zip(&actual).position(|(a, b)| a != b).and_then(|at| expected.get(at));
    let first = first.or_else(|| expected.get(actual.len()));
    let place = first.map_or_else(|| span.clone(), |column| column.span.clone());
    Err(Diagnostic::error(codes::TEST_FAILED, format!("\"{target}\" has other columns than expected"))
        .at(place, "")
        .note(format!("expected: ({})", wanted.join(", ")))
        .note(format!("actual:   ({})", actual.join(", "))))
}
