//! MariaDB's system-versioned tables and periods.
//!
//! Such a table keeps rows that ended next to the rows of now, told apart by the time at which a row ended. Its
//! two columns of time are either named by the definition (`s TIMESTAMP(6) GENERATED ALWAYS AS ROW START`) or made
//! by the server and shown nowhere (measured: not in SHOW CREATE TABLE, not in `information_schema`; in every row
//! of the log they are the last two, `row_start` and `row_end`, whatever is added or moved). Only where named columns
//! were dropped of a table that stays versioned they are hidden where they stood, until the next ALTER TABLE puts them
//! at the end in the order they have: that is followed only if they stood there.
//!
//! Named ones are generated columns of the schema, with the server's own words for their expression, `ROW START`
//! and `ROW END`. No other column's expression can be these words: as an expression they are an error. So which
//! columns keep the time is read off the columns themselves, and renames need no care of their own.
//!
//! Keys. The server puts the end of a row into every unique key, at its end, and for named columns SHOW CREATE TABLE
//! says so: PRIMARY KEY (a) becomes PRIMARY KEY (a, e). All rows of now end at the same time, the last one there is,
//! so of the rows that are copied (a) is unique; that is also what the statement meant. So the ROW END column is left
//! out of primary and unique keys that have other columns, wherever it stands in them, whoever put it there.
//!
//! Partitions BY SYSTEM_TIME hold rows that ended, all but the one called CURRENT. Dropping or emptying one of the
//! others changes no row of now.

use super::cursor::{Cursor, Parsed};
use super::index::{self, NumberedPart};
use super::lexer::Kind;
use cdc_core::schema::{Column, Generated, TableSchema};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a system-versioned table (MariaDB) keeps the time of its rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Versioning {
    /// Two columns, `row_start` and `row_end`, that the definition does not show and that stand at the end of
    /// every row of the log.
    Hidden,
    /// Columns of the definition: GENERATED ALWAYS AS ROW START and ROW END.
    Columns {
        /// When a row began.
        start: Arc<str>,
        /// When it ended; for a row of now the last time there is.
        end: Arc<str>,
    },
}

impl Versioning {
    /// Of a table with these columns, if it is `versioned`.
    pub(crate) fn of(schema: &TableSchema, versioned: bool) -> Option<Versioning> {
        versioned.then(|| match row_times(&schema.columns) {
            Some((start, end)) => Versioning::Columns { start, end },
            None => Versioning::Hidden,
        })
    }
}

/// What is known of the partitions of a table partitioned BY SYSTEM_TIME.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPartitions {
    /// The name of the one that holds the rows of now, if it is known.
    pub current: Option<Arc<str>>,
}

impl HistoryPartitions {
    /// Does this partition hold no row of now, for sure?
    pub(super) fn is_history(&self, partition: &str) -> bool {
        self.current.as_ref().is_some_and(|current| !index::same(current, partition))
    }
}

/// An application-time period: `PERIOD FOR name (start, end)`. Its columns are NOT NULL while it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Period {
    /// The column with which it begins.
    pub start: Arc<str>,
    /// The column with which it ends.
    pub end: Arc<str>,
}

impl Period {
    /// With its column `from` called `to`.
    pub(crate) fn renamed(mut self, from: &str, to: &Arc<str>) -> Period {
        for name in [&mut self.start, &mut self.end] {
            if index::same(name, from) {
                *name = to.clone();
            }
        }
        self
    }

    pub(super) fn has(&self, column: &str) -> bool {
        index::same(&self.start, column) || index::same(&self.end, column)
    }
}

/// Which of a row's two times a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowTime {
    Start,
    End,
}

impl RowTime {
    /// The expression of its column, as `information_schema` has it.
    pub(super) fn generated(self) -> Generated {
        let expression = match self {
            RowTime::Start => "ROW START",
            RowTime::End => "ROW END",
        };
        Generated { expression: expression.to_owned(), stored: true }
    }

    /// Is it this column?
    fn is(self, column: &Column) -> bool {
        column.generated.as_ref().is_some_and(|g| *g == self.generated())
    }
}

/// The columns of a row's times, if the definition names them.
fn row_times(columns: &[Column]) -> Option<(Arc<str>, Arc<str>)> {
    let of = |time: RowTime| columns.iter().find(|c| time.is(c)).map(|c| c.name.clone());
    Some((of(RowTime::Start)?, of(RowTime::End)?))
}

/// Is it the column that says when a row ended?
pub(super) fn is_row_end(column: &Column) -> bool {
    RowTime::End.is(column)
}

/// In a table that is not versioned a column GENERATED ALWAYS AS ROW START or END is one like others, and NOT NULL
/// (measured).
pub(super) fn make_plain(column: &mut Column) {
    if RowTime::Start.is(column) || RowTime::End.is(column) {
        column.generated = None;
    }
}

/// A unique key's parts without the end of the row (see the module's head).
pub(super) fn without_row_end<'c>(
    parts: &mut Vec<NumberedPart>,
    column: impl Fn(usize) -> Option<&'c Column>,
) {
    let is_end = |part: &NumberedPart| part.column.and_then(&column).is_some_and(is_row_end);
    if !parts.iter().all(is_end) {
        parts.retain(|part| !is_end(part));
    }
}

/// What PERIOD FOR says.
pub(super) enum PeriodDef {
    /// SYSTEM_TIME: its columns say the same of themselves.
    SystemTime,
    Application {
        period: Period,
        if_not_exists: bool,
    },
}

/// `PERIOD [IF NOT EXISTS] FOR name (start, end)`.
pub(super) fn period(cursor: &mut Cursor<'_>) -> Parsed<PeriodDef> {
    cursor.expect("PERIOD")?;
    let if_not_exists = cursor.if_not_exists();
    cursor.expect("FOR")?;
    let system_time = cursor.is("SYSTEM_TIME");
    cursor.name("a period's name")?;
    cursor.expect_symbol(b'(')?;
    let start = cursor.column()?.as_ref().into();
    cursor.expect_symbol(b',')?;
    let end = cursor.column()?.as_ref().into();
    cursor.expect_symbol(b')')?;
    if system_time {
        return Ok(PeriodDef::SystemTime);
    }
    Ok(PeriodDef::Application { period: Period { start, end }, if_not_exists })
}

/// Behind PARTITION BY, as far as the end of the partitions' list: what it says, if it says SYSTEM_TIME.
///
/// Without a list the server names the partitions p0, p1, .. and the last one pn (measured).
pub(super) fn system_time(cursor: &mut Cursor<'_>) -> Parsed<Option<HistoryPartitions>> {
    if !cursor.accept("SYSTEM_TIME") {
        return Ok(None);
    }
    let mut history = HistoryPartitions { current: Some(Arc::from("pn")) };
    loop {
        match cursor.peek().kind {
            Kind::Symbol(b'(') if cursor.second().is("PARTITION") => {
                history.current = current(cursor)?;
                return Ok(Some(history));
            }
            Kind::Symbol(b'(') => {
                cursor.group()?;
            }
            Kind::Unterminated => return Err(cursor.unexpected("a partition")),
            _ if cursor.at_end() || cursor.is_any(&["SELECT", "AS", "IGNORE", "REPLACE", "WITH"]) => {
                return Ok(Some(history));
            }
            _ => {
                cursor.advance();
            }
        }
    }
}

/// The list in parentheses: `PARTITION name {HISTORY | CURRENT} ..`.
fn current(cursor: &mut Cursor<'_>) -> Parsed<Option<Arc<str>>> {
    let mut current = None;
    cursor.expect_symbol(b'(')?;
    loop {
        cursor.expect("PARTITION")?;
        let name = cursor.name("a partition's name")?;
        if cursor.accept("CURRENT") {
            current = Some(Arc::from(&*name));
        }
        cursor.skip_part()?;
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_symbol(b')')?;
    Ok(current)
}
