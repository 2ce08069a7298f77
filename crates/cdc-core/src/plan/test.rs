//! The `test` blocks of a pipeline: what happens at the source, and what is expected of it. Plain data, run without a server.

use super::ColumnName;
use crate::diagnostic::Span;
use crate::expr::Expr;
use crate::schema::TableId;

/// A test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestPlan {
    /// What it shows.
    pub name: String,
    /// In the order of the file.
    pub steps: Vec<TestStep>,
    /// Where its name stands in the file.
    pub span: Span,
}

/// A step of a test, and where it stands in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct TestStep {
    /// What it is.
    pub kind: TestStepKind,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of steps.
#[derive(Debug, Clone, PartialEq)]
pub enum TestStepKind {
    /// One transaction of the source, that there is before anything is looked at.
    Given(Vec<TestChange>),
    /// One transaction of the source.
    When(Vec<TestChange>),
    /// A statement that the source runs.
    Ddl(String),
    /// Just these rows, in any order.
    ExpectRows {
        /// Where.
        target: TestTarget,
        /// The rows.
        rows: Vec<TestRow>,
    },
    /// Just these columns, in this order.
    ExpectColumns {
        /// Where.
        target: TestTarget,
        /// The columns.
        columns: Vec<ColumnName>,
    },
}

/// Changes of one table of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct TestChange {
    /// The source's name in the pipeline.
    pub source: String,
    /// The table.
    pub table: TableId,
    /// What happens to the rows.
    pub kind: TestChangeKind,
    /// Which rows.
    pub rows: Vec<TestRow>,
    /// Where the table is named.
    pub span: Span,
}

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestChangeKind {
    /// `+`: these rows come; a column that is not named has its default.
    Insert,
    /// `-`: the rows of these keys go.
    Delete,
    /// `~`: the rows of these keys get the other values.
    Update,
}

/// `{ column: value, .. }`.
#[derive(Debug, Clone, PartialEq)]
pub struct TestRow {
    /// Columns and their values, which read no column.
    pub values: Vec<(ColumnName, Expr)>,
    /// Where it stands.
    pub span: Span,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestTarget {
    /// A table of a sink.
    Table {
        /// The sink's name in the pipeline.
        sink: String,
        /// The table's name there.
        table: String,
        /// Where it stands.
        span: Span,
    },
    /// A view.
    View {
        /// Its name.
        name: String,
        /// Where it stands.
        span: Span,
    },
}
