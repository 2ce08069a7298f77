//! The plan: a pipeline, resolved, as plain data.
//!
//! The language makes it, the engine renders it, `cdc explain` prints it; none of them knows the others.
//! Everything in it is checked as far as it can be without a server. Flows keep patterns and expressions
//! with column *names*: tables are found when the source is asked, and each table's schema is bound when its
//! first row comes, and again after each schema change ([`program`]).

pub mod explain;
pub mod pattern;
pub mod program;
pub mod test;
pub mod view;

use crate::diagnostic::Span;
use crate::expr::Expr;
use crate::schema::{TableId, TableSchema};
use pattern::TablePattern;
use std::collections::BTreeMap;
use std::fmt;

/// A pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name: part of the key of the progress row at each target.
    pub name: String,
    /// Where and how often to checkpoint.
    pub checkpoint: CheckpointPlan,
    /// What flows do that do not say otherwise.
    pub on_schema_change: SchemaChangeMode,
    /// Of date and time functions: a name such as `UTC` or an offset such as `+02:00`.
    pub time_zone: String,
    /// In the order of the file.
    pub sources: Vec<SourcePlan>,
    /// In the order of the file.
    pub sinks: Vec<SinkPlan>,
    /// In the order of the file.
    pub views: Vec<view::ViewPlan>,
    /// In the order of the file.
    pub flows: Vec<FlowPlan>,
    /// In the order of the file.
    pub tests: Vec<test::TestPlan>,
}

/// Where and how often to checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPlan {
    /// The state folder, relative to the pipeline file's folder.
    pub dir: String,
    /// Milliseconds between checkpoints.
    pub every_ms: u64,
}

/// A source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePlan {
    /// Its name in the pipeline.
    pub name: String,
    /// The connector's word, e.g. `mysql`.
    pub connector: String,
    /// Its options, checked against the connector's descriptor.
    pub options: Options,
    /// Where it stands in the file.
    pub span: Span,
}

/// A sink.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkPlan {
    /// Its name in the pipeline.
    pub name: String,
    /// The connector's word, e.g. `sqlite`.
    pub connector: String,
    /// Its options, checked against the connector's descriptor.
    pub options: Options,
    /// Where it stands in the file.
    pub span: Span,
}

/// A flow: rows of some source tables, through some operators, into tables of a sink.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowPlan {
    /// Its name in `explain`, logs and status: made from its head and target.
    pub name: String,
    /// The source's name.
    pub source: String,
    /// Which of its tables; of a flow that reads a view, the one that the view is.
    pub tables: TablePattern,
    /// The view that it reads, whose tables are of the source.
    pub view: Option<String>,
    /// The operators, in the order in which rows pass them.
    pub ops: Vec<FlowOp>,
    /// The sink's name.
    pub sink: String,
    /// The target table of a source table.
    pub target: TargetName,
    /// Columns of the result that identify a row; the source table's key where none are given. An empty list: none do, the rows are
    /// a multiset whatever the source's key is (no file can say so).
    pub key: Option<Vec<String>>,
    /// What to do about schema changes.
    pub on_schema_change: SchemaChangeMode,
    /// Kinds of schema changes to apply; empty: all. In the words of [`SCHEMA_CHANGE_KINDS`].
    pub include: Vec<String>,
    /// Kinds of schema changes to pass over. In the words of [`SCHEMA_CHANGE_KINDS`].
    pub exclude: Vec<String>,
    /// Mode lenient: the new column of one that was renamed is filled from the old one.
    pub backfill: bool,
    /// The column at the target that says of a row that it was deleted at the source: it stays, with 1 there.
    pub soft_delete: Option<String>,
    /// What becomes of rows of several source tables that agree in the key.
    pub key_conflict: KeyConflict,
    /// Of a flow that reads a view: is its key watched?
    pub upsert: view::Upsert,
    /// What to do about two rows of its key.
    pub on_conflict: view::OnConflict,
    /// Where it stands in the file.
    pub span: Span,
}

impl FlowPlan {
    /// Does it read this table?
    pub fn takes(&self, table: &TableId) -> bool {
        match &self.view {
            Some(view) => table.database.is_empty() && *table.table == **view,
            None => !table.database.is_empty() && self.tables.matches(table),
        }
    }

    /// Of a flow that reads a view: must it be watched that the key that it states, by its place among the columns of the rows, tells them
    /// apart? Not where it holds the key that they are known to have.
    pub fn is_watched(&self, rows: &TableSchema, stated: &[usize]) -> bool {
        match self.upsert {
            view::Upsert::Force => true,
            view::Upsert::None => false,
            view::Upsert::Auto => !rows.key().is_some_and(|key| key.iter().all(|c| stated.contains(c))),
        }
    }

    /// Of a flow that reads a view: may it have to be watched? Without a key of its own it is by the view's only, which is known to tell rows apart.
    pub fn may_be_watched(&self) -> bool {
        self.view.is_some() && (self.key.is_some() || self.upsert == view::Upsert::Force)
    }

    /// Is a kind of schema change one that `include` and `exclude` let through?
    pub fn lets_through(&self, kind: &str) -> bool {
        (self.include.is_empty() || self.include.iter().any(|k| k == kind))
            && !self.exclude.iter().any(|k| k == kind)
    }

    /// Do columns have their defaults at the target? One that the flow would not follow there would be of some moment or other.
    /// In mode ignore nothing of a target's table is ever altered, so rows to come that have no value for a column could
    /// not be kept from reading its default.
    pub fn carries_defaults(&self) -> bool {
        self.on_schema_change != SchemaChangeMode::Ignore && self.lets_through("alter_column_default")
    }

    /// Do tables and columns have their comments at the target?
    pub fn carries_comments(&self) -> bool {
        self.lets_through("alter_comment")
    }
}

/// What becomes of rows of several source tables that come into one target table and agree in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KeyConflict {
    /// There must not be any: a flow whose key does not tell the tables apart is refused.
    #[default]
    Refuse,
    /// The last one written stays.
    Last,
    /// They stop the run. Each row says whose it is, in a column of its own ([`SOURCE_COLUMN`]).
    Error,
}

/// The column that says which source table a row comes from, where the flow says `key_conflict = error`.
pub const SOURCE_COLUMN: &str = "_cdc_source";

/// The words of `include` and `exclude`.
pub const SCHEMA_CHANGE_KINDS: &[&str] = &[
    "create_table",
    "drop_table",
    "truncate_table",
    "rename_table",
    "add_column",
    "drop_column",
    "alter_column_type",
    "rename_column",
    "alter_nullability",
    "alter_column_default",
    "alter_comment",
    "change_primary_key",
];

/// One operator of a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowOp {
    /// Keeps rows for which the expression is true (not false, not NULL).
    Where(Expr),
    /// The columns of the result.
    Select(Vec<SelectItem>),
    /// Adds columns behind the others.
    Extend(Vec<NamedExpr>),
    /// Takes columns away.
    Drop(Vec<ColumnName>),
    /// Renames columns: old, new.
    Rename(Vec<(ColumnName, String)>),
}

/// A column by name, and where it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnName {
    /// As written.
    pub name: String,
    /// Where.
    pub span: Span,
}

/// An expression under a name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedExpr {
    /// The column's name.
    pub name: String,
    /// Its value.
    pub expr: Expr,
}

/// A part of a `select`.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectItem {
    /// `*` or `* except (...)`.
    Star {
        /// The columns left out.
        except: Vec<ColumnName>,
    },
    /// An expression.
    Expr(NamedExpr),
}

/// The name of the target table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetName {
    /// `sink.*`: as the source table is named (without its database).
    SameAsSource,
    /// One table.
    Fixed(String),
    /// A template: literal parts and groups of the head's regular expression, or `{table}`, `{database}`.
    Template(Vec<TemplatePart>),
}

/// A part of a name template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text as it stands.
    Text(String),
    /// `{name}`: a named group of the head's regular expression, else `table` or `database`.
    Group(String),
}

/// What to do at the target about a schema change of the source (see the table in the language reference).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SchemaChangeMode {
    /// Stop.
    Exception,
    /// Keep the target as it is; rows are made to fit it.
    Ignore,
    /// As evolve, but what the target cannot do is passed over and reported.
    TryEvolve,
    /// Do the same at the target.
    Evolve,
    /// Never lose a column or a value at the target: append, widen, keep.
    #[default]
    Lenient,
}

impl SchemaChangeMode {
    /// All modes and their words.
    pub const ALL: [(SchemaChangeMode, &'static str); 5] = [
        (SchemaChangeMode::Exception, "exception"),
        (SchemaChangeMode::Ignore, "ignore"),
        (SchemaChangeMode::TryEvolve, "try_evolve"),
        (SchemaChangeMode::Evolve, "evolve"),
        (SchemaChangeMode::Lenient, "lenient"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        SchemaChangeMode::ALL.iter().find(|(m, _)| *m == self).map_or("", |(_, n)| n)
    }

    /// The mode of this word.
    pub fn from_name(name: &str) -> Option<SchemaChangeMode> {
        SchemaChangeMode::ALL.iter().find(|(_, n)| *n == name).map(|(m, _)| *m)
    }
}

/// Options of a connector, by name. Only those that were written and those with a default are there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options(pub BTreeMap<String, OptionValue>);

/// The value of an option.
#[derive(Clone, PartialEq)]
pub enum OptionValue {
    /// A text, a path, a word.
    Text(String),
    /// A text that is never shown: what came from the environment, passwords.
    Secret(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Bool(bool),
    /// A duration such as `10s`, in milliseconds.
    Duration(u64),
    /// A list of texts.
    List(Vec<String>),
    /// Options within an option.
    Map(Options),
}

/// Secrets print as `***`.
impl fmt::Debug for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(v) => write!(f, "{v:?}"),
            OptionValue::Secret(_) => f.write_str("***"),
            OptionValue::Integer(v) => write!(f, "{v}"),
            OptionValue::Bool(v) => write!(f, "{v}"),
            OptionValue::Duration(v) => write!(f, "\"{v}ms\""),
            OptionValue::List(v) => write!(f, "{v:?}"),
            OptionValue::Map(v) => f.debug_map().entries(&v.0).finish(),
        }
    }
}

impl Options {
    /// A text option, secret or not.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name) {
            Some(OptionValue::Text(v) | OptionValue::Secret(v)) => Some(v),
            _ => None,
        }
    }

    /// A whole-number option.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(OptionValue::Integer(v)) => Some(*v),
            _ => None,
        }
    }

    /// A true-or-false option.
    pub fn bool(&self, name: &str) -> Option<bool> {
        match self.0.get(name) {
            Some(OptionValue::Bool(v)) => Some(*v),
            _ => None,
        }
    }

    /// A duration in milliseconds.
    pub fn duration_ms(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(OptionValue::Duration(v)) => Some(*v),
            _ => None,
        }
    }

    /// A list of texts.
    pub fn list(&self, name: &str) -> Option<&[String]> {
        match self.0.get(name) {
            Some(OptionValue::List(v)) => Some(v),
            _ => None,
        }
    }

    /// Options within an option.
    pub fn map(&self, name: &str) -> Option<&Options> {
        match self.0.get(name) {
            Some(OptionValue::Map(v)) => Some(v),
            _ => None,
        }
    }
}
