//! Views as the language gives them: names resolved, columns still by name. [`bind`] makes operators of them once the tables'
//! schemas are known.
//!
//! A view is read as a source table is: a flow whose head is a view has [`FlowPlan::view`](super::FlowPlan::view), and takes the
//! rows of the table [`ViewPlan::table`], which no server can have.

pub mod bind;
pub mod group;
pub mod key;
pub mod rank;

use super::pattern::TablePattern;
use super::{ColumnName, FlowOp, NamedExpr};
use crate::diagnostic::Span;
use crate::expr::Expr;
use crate::schema::TableId;

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewPlan {
    /// Its name in the pipeline.
    pub name: String,
    /// Where its rows come from.
    pub from: ViewInput,
    /// What happens to them, in order.
    pub ops: Vec<ViewOp>,
    /// How long state is kept, in milliseconds of source time; for ever where none is given.
    pub ttl_ms: Option<u64>,
    /// What to do about rows that agree in the view's key.
    pub on_conflict: OnConflict,
    /// Where its name stands in the file.
    pub span: Span,
}

impl ViewPlan {
    /// The table that it is to the flows behind it: of no database, which no table of a server is.
    pub fn table(&self) -> TableId {
        TableId::new("", self.name.as_str())
    }

    /// Whose rows it reads: where it begins, then what is joined and united.
    pub fn inputs(&self) -> impl Iterator<Item = &ViewInput> {
        let more = self.ops.iter().filter_map(|op| match op {
            ViewOp::Join { with, .. } | ViewOp::Union { with, .. } => Some(with),
            _ => None,
        });
        std::iter::once(&self.from).chain(more)
    }
}

/// A view and those that it reads, and they read, in the order of the file.
pub fn read_by<'p>(views: &'p [ViewPlan], name: &str) -> Vec<&'p ViewPlan> {
    let mut found: Vec<&str> = Vec::new();
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        let Some(view) = views.iter().find(|v| v.name == name) else { continue };
        if found.contains(&view.name.as_str()) {
            continue;
        }
        found.push(&view.name);
        for input in view.inputs() {
            if let InputOf::View(name) = &input.of {
                open.push(name);
            }
        }
    }
    views.iter().filter(|v| found.contains(&v.name.as_str())).collect()
}

/// A side of a view's operators.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewInput {
    /// Whose rows.
    pub of: InputOf,
    /// What its columns may be qualified with.
    pub alias: String,
    /// Where it stands in the file.
    pub span: Span,
}

/// Whose rows.
#[derive(Debug, Clone, PartialEq)]
pub enum InputOf {
    /// Those of one table of a source.
    Table {
        /// The source's name.
        source: String,
        /// Exact names; the database may be left out where the source covers one.
        table: TablePattern,
    },
    /// Those of a view that stands in the file too, in whatever order.
    View(String),
}

/// An operator of a view.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewOp {
    /// `where`, `select`, `extend`, `drop`, `rename`.
    Row(FlowOp),
    /// A join with another input.
    Join {
        /// Which.
        kind: JoinKind,
        /// The right side.
        with: ViewInput,
        /// The condition.
        on: Expr,
        /// Where it stands.
        span: Span,
    },
    /// A row for each group: the columns of `group_by`, then those of `items`.
    Aggregate {
        /// What makes a group; none: one row, over nothing too.
        group_by: Vec<NamedExpr>,
        /// What is computed of each group. An expression over aggregates (`sum(a) / count(*)`) is an aggregate each and a
        /// `select` behind this.
        items: Vec<AggregateItem>,
        /// Where it stands.
        span: Span,
    },
    /// Each row once.
    Distinct {
        /// Where it stands.
        span: Span,
    },
    /// The rows of another input too, column by column.
    Union {
        /// Are equal rows kept?
        all: bool,
        /// The other side.
        with: ViewInput,
        /// Where it stands.
        span: Span,
    },
    /// The first rows of an order.
    Top {
        /// How many.
        count: u64,
        /// The order.
        by: Vec<OrderKey>,
        /// So many of each of these groups; none: of all rows.
        per: Vec<Expr>,
        /// Where it stands.
        span: Span,
    },
}

/// The kinds of joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs that match.
    Inner,
    /// And rows of the left side without a match, with NULLs.
    Left,
    /// And rows of the right side without a match, with NULLs.
    Right,
    /// And both.
    Full,
    /// Rows of the left side that have a match, each once.
    Semi,
    /// Rows of the left side that have none.
    Anti,
}

impl JoinKind {
    /// Its words.
    pub fn word(self) -> &'static str {
        match self {
            JoinKind::Inner => "join",
            JoinKind::Left => "left join",
            JoinKind::Right => "right join",
            JoinKind::Full => "full join",
            JoinKind::Semi => "semi join",
            JoinKind::Anti => "anti join",
        }
    }
}

/// Something computed of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateItem {
    /// The column's name.
    pub name: String,
    /// What.
    pub function: Aggregate,
    /// Of equal values one only.
    pub distinct: bool,
    /// Of what; none for `count(*)`.
    pub arg: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// The aggregate functions (MySQL manual 14.19.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// `count(*)`, `count(x)`, `count(distinct x)`.
    Count,
    /// `sum(x)`: DECIMAL of exact numbers, DOUBLE of others.
    Sum,
    /// `avg(x)`: four digits more behind the point.
    Avg,
    /// `min(x)`.
    Min,
    /// `max(x)`.
    Max,
}

impl Aggregate {
    /// All, in the order of their pages.
    pub const ALL: [Aggregate; 5] =
        [Aggregate::Count, Aggregate::Sum, Aggregate::Avg, Aggregate::Min, Aggregate::Max];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Avg => "avg",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
        }
    }

    /// The aggregate of this name, in any letter case.
    pub fn from_name(name: &str) -> Option<Aggregate> {
        Aggregate::ALL.into_iter().find(|a| a.name().eq_ignore_ascii_case(name))
    }
}

/// A key of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderKey {
    /// The value.
    pub expr: Expr,
    /// Greatest first? (NULL is the least, as in MySQL.)
    pub descending: bool,
}

/// What to do about two rows of one key. Which one is the last is told by what they hold, never by which came first ([`rank::Ranking`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Stop.
    #[default]
    Error,
    /// The greatest row stays: by this column where one is named, then by its columns in order.
    Last(Option<ColumnName>),
    /// As `last`, and each conflict is told.
    Log(Option<ColumnName>),
}

impl OnConflict {
    /// The words of all policies.
    pub const WORDS: &'static [&'static str] = &["error", "last", "log"];

    /// The words of those that may name a column.
    pub const WITH_COLUMN: &'static [&'static str] = &["last", "log"];

    /// The policy of this word, with the column that it names.
    pub fn from_name(word: &str, by: Option<ColumnName>) -> Option<OnConflict> {
        match word {
            "error" => Some(OnConflict::Error),
            "last" => Some(OnConflict::Last(by)),
            "log" => Some(OnConflict::Log(by)),
            _ => None,
        }
    }

    /// Its word.
    pub fn word(&self) -> &'static str {
        match self {
            OnConflict::Error => "error",
            OnConflict::Last(_) => "last",
            OnConflict::Log(_) => "log",
        }
    }

    /// The column by which the last row of a key is told.
    pub fn by(&self) -> Option<&ColumnName> {
        match self {
            OnConflict::Error => None,
            OnConflict::Last(by) | OnConflict::Log(by) => by.as_ref(),
        }
    }
}

/// Does a flow's rows pass an operator that tells conflicts and nets changes by the flow's key?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Upsert {
    /// Where it is not proved that it need not be there.
    #[default]
    Auto,
    /// It is there.
    Force,
    /// It is not.
    None,
}

impl Upsert {
    /// All strategies and their words.
    pub const ALL: [(Upsert, &'static str); 3] =
        [(Upsert::Auto, "auto"), (Upsert::Force, "force"), (Upsert::None, "none")];

    /// The strategy of this word.
    pub fn from_name(name: &str) -> Option<Upsert> {
        Upsert::ALL.iter().find(|(_, n)| *n == name).map(|(s, _)| *s)
    }
}
