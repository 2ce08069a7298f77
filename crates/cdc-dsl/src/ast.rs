//! The syntax tree: what is written, before any name in it is looked up.
//!
//! Equality leaves places out, so two trees are equal if they say the same: this is what "formatting changes
//! nothing" is tested with. Parentheses that only group are not kept; the tree's shape says it.

pub use cdc_core::plan::view::JoinKind;
use std::ops::Range;

/// Bytes of the file, from and up to. All spans are equal to each other (see the module).
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Span {
    /// As a range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }

    /// From the beginning of this one to the end of the other.
    pub fn to(self, end: Span) -> Span {
        Span { start: self.start, end: end.end }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Span {
        Span { start: range.start, end: range.end }
    }
}

/// A pipeline file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct File {
    /// In the order of the file.
    pub statements: Vec<Statement>,
}

/// A statement and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What it is.
    pub kind: StatementKind,
    /// From its first word to its last.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    /// `pipeline { .. }`.
    Pipeline(OptionBlock),
    /// `param name: type = default`.
    Param(Param),
    /// `source name = connector { .. }`.
    Source(Connection),
    /// `sink name = connector { .. }`.
    Sink(Connection),
    /// `head |> .. => target`.
    Flow(Flow),
    /// `view name = from .. |> ..`.
    View(View),
    /// `test "name" { .. }`.
    Test(Test),
    /// What could not be read; already reported. The name that it would have defined is not reported again.
    Broken {
        /// The word it begins with.
        keyword: String,
        /// The name it defines.
        name: Option<Name>,
    },
}

/// A name.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// Without backticks.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A text in quotes.
#[derive(Debug, Clone, PartialEq)]
pub struct Text {
    /// Its parts: one, where no `${..}` is in it; none, where it is empty.
    pub parts: Vec<TextPart>,
    /// With its quotes.
    pub span: Span,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum TextPart {
    /// As it stands, escapes resolved.
    Literal(String),
    /// `${NAME}`.
    Param(Name),
}

/// `{ name = value .. }`.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionBlock {
    /// In the order of the file.
    pub entries: Vec<OptionEntry>,
    /// The options that were named but could not be read; already reported.
    pub broken: Vec<Name>,
    /// With its braces.
    pub span: Span,
}

/// `name = value`.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionEntry {
    /// The option.
    pub name: Name,
    /// What it is set to.
    pub value: OptionValue,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionValue {
    /// What it is.
    pub kind: OptionValueKind,
    /// Where.
    pub span: Span,
}

/// The kinds of values of options.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValueKind {
    /// `".."`.
    Text(Text),
    /// `5400`, `-1`, `1.5`.
    Number(String),
    /// `initial`, `true`, `10s`.
    Word(String),
    /// `${NAME}`.
    Param(Name),
    /// `[a, b]`.
    List(Vec<OptionValue>),
    /// `{ a = b }`.
    Map(OptionBlock),
}

/// A parameter of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// Its type's word.
    pub ty: Option<Name>,
    /// What it is where nothing is set.
    pub default: Option<Expr>,
}

/// A source or a sink.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// Its name.
    pub name: Name,
    /// The connector's word.
    pub connector: Name,
    /// Its options.
    pub options: Option<OptionBlock>,
}

/// A flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Where its rows come from.
    pub head: TableRef,
    /// What happens to them.
    pub ops: Vec<Op>,
    /// Where they go.
    pub target: TableRef,
    /// `key (a, b)`.
    pub key: Option<Vec<Name>>,
    /// `with { .. }`.
    pub with: Option<OptionBlock>,
}

/// `source.database.table`, `view`, `sink."template"`, with an alias or without.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRef {
    /// The source, view or sink.
    pub root: Name,
    /// What stands behind its dots.
    pub parts: Vec<TablePart>,
    /// `as alias`.
    pub alias: Option<Name>,
    /// Without the alias.
    pub span: Span,
}

/// A part of a table's name.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePart {
    /// What it is.
    pub kind: TablePartKind,
    /// Where.
    pub span: Span,
}

/// The kinds of parts of a table's name.
#[derive(Debug, Clone, PartialEq)]
pub enum TablePartKind {
    /// Just this name.
    Name(String),
    /// With `*` or `?` in it.
    Glob(String),
    /// `/../`, without its slashes.
    Regex(String),
    /// `".."`.
    Template(Text),
}

/// An operator and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// What it is.
    pub kind: OpKind,
    /// From its first word to its last, without `|>`.
    pub span: Span,
}

/// The operators.
#[derive(Debug, Clone, PartialEq)]
pub enum OpKind {
    /// `where condition`.
    Where(Expr),
    /// `select items`.
    Select(Vec<SelectItem>),
    /// `extend expression as name, ..`.
    Extend(Vec<Named>),
    /// `drop a, b`.
    Drop(Vec<Name>),
    /// `rename a as b, ..`.
    Rename(Vec<(Name, Name)>),
    /// `join t as a on condition` and its kin.
    Join {
        /// Which of them.
        kind: JoinKind,
        /// The other side.
        table: TableRef,
        /// The condition.
        on: Expr,
    },
    /// `aggregate items [group by keys]`.
    Aggregate {
        /// What is computed of each group.
        items: Vec<Named>,
        /// What makes a group.
        group_by: Vec<Named>,
    },
    /// `distinct`.
    Distinct,
    /// `union all t`, `union distinct t`.
    Union {
        /// Are equal rows kept?
        all: bool,
        /// The other side.
        table: TableRef,
    },
    /// `top n by keys [per groups]`.
    Top {
        /// How many rows.
        count: Expr,
        /// The order.
        by: Vec<OrderKey>,
        /// Of each of these groups.
        per: Vec<Expr>,
    },
}

impl OpKind {
    /// Its words.
    pub fn word(&self) -> &'static str {
        match self {
            OpKind::Where(_) => "where",
            OpKind::Select(_) => "select",
            OpKind::Extend(_) => "extend",
            OpKind::Drop(_) => "drop",
            OpKind::Rename(_) => "rename",
            OpKind::Join { kind, .. } => kind.word(),
            OpKind::Aggregate { .. } => "aggregate",
            OpKind::Distinct => "distinct",
            OpKind::Union { .. } => "union",
            OpKind::Top { .. } => "top",
        }
    }
}

/// A part of a `select`.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectItem {
    /// `*`, `* except (a, b)`.
    Star {
        /// The columns left out.
        except: Vec<Name>,
        /// Where.
        span: Span,
    },
    /// An expression.
    Expr(Named),
}

/// `expression [as name]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// The value.
    pub expr: Expr,
    /// The name.
    pub alias: Option<Name>,
}

/// `expression [asc | desc]`.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderKey {
    /// The value.
    pub expr: Expr,
    /// Greatest first?
    pub descending: bool,
}

/// A view.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Its name.
    pub name: Name,
    /// `with { .. }`.
    pub with: Option<OptionBlock>,
    /// Where its rows come from.
    pub from: TableRef,
    /// What happens to them.
    pub ops: Vec<Op>,
}

/// A test.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// What it shows.
    pub name: Text,
    /// In the order of the file.
    pub steps: Vec<Step>,
}

/// A step of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// Where.
    pub span: Span,
}

/// The kinds of steps.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    /// `given changes`.
    Given(Vec<Change>),
    /// `when changes`.
    When(Vec<Change>),
    /// `ddl "statement"`.
    Ddl(Text),
    /// `expect t = [rows]`.
    ExpectRows {
        /// The table at the sink, or the view.
        table: TableRef,
        /// Its rows, in any order.
        rows: Vec<Record>,
    },
    /// `expect t columns (a, b)`.
    ExpectColumns {
        /// The table at the sink, or the view.
        table: TableRef,
        /// Its columns, in this order.
        columns: Vec<Name>,
    },
}

/// Changes of one table.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which table.
    pub table: TableRef,
    /// `+`, `-`, `~`.
    pub kind: ChangeKind,
    /// Of these rows.
    pub rows: Vec<Record>,
}

/// The kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// `+`.
    Insert,
    /// `-`.
    Delete,
    /// `~`.
    Update,
}

/// `{ column: value, .. }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Columns and values.
    pub fields: Vec<(Name, Expr)>,
    /// With its braces.
    pub span: Span,
}

/// An expression and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where, without the parentheses around it.
    pub span: Span,
    /// The operators on the longest way down, so that walks of the tree stay within the stack.
    pub depth: u16,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// `column`, `alias.column`, `meta.field`.
    Column {
        /// What stands before the dot.
        qualifier: Option<Name>,
        /// The column.
        name: Name,
    },
    /// `${NAME}`.
    Param(Name),
    /// `'..'`.
    Text(Text),
    /// `12`, `1.50`, `1e3`.
    Number(String),
    /// `x'..'`, `0x..`: its digits.
    Hex(String),
    /// `b'..'`: its digits.
    Bits(String),
    /// `true`, `false`.
    Bool(bool),
    /// `null`.
    Null,
    /// `date '..'`, `time '..'`, `timestamp '..'`: the word, the text.
    Typed(String, Text),
    /// `interval n unit`.
    Interval(Box<Expr>, Name),
    /// A unit as an argument, as in `extract(year from x)`.
    Unit(Name),
    /// `- x`, `not x`, `~ x`, `+ x`.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b` and the like.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a || b`: already reported, and means nothing.
    Bars(Box<Expr>, Box<Expr>),
    /// `x is [not] null`.
    IsNull {
        /// x.
        operand: Box<Expr>,
        /// With `not`.
        negated: bool,
    },
    /// `x is [not] true | false`.
    IsTruth {
        /// x.
        operand: Box<Expr>,
        /// Which.
        truth: bool,
        /// With `not`.
        negated: bool,
    },
    /// `x [not] between low and high`.
    Between {
        /// x.
        operand: Box<Expr>,
        /// The lower bound.
        low: Box<Expr>,
        /// The upper bound.
        high: Box<Expr>,
        /// With `not`.
        negated: bool,
    },
    /// `x [not] in (..)`.
    In {
        /// x.
        operand: Box<Expr>,
        /// The list.
        list: Vec<Expr>,
        /// With `not`.
        negated: bool,
    },
    /// `x [not] like pattern [escape 'c']`.
    Like {
        /// x.
        operand: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character, as a text.
        escape: Option<Text>,
        /// With `not`.
        negated: bool,
    },
    /// `case [x] when .. then .. [else ..] end`.
    Case {
        /// x.
        operand: Option<Box<Expr>>,
        /// `when`, `then`.
        branches: Vec<(Expr, Expr)>,
        /// `else`.
        otherwise: Option<Box<Expr>>,
    },
    /// `cast(x as type)`.
    Cast(Box<Expr>, TypeName),
    /// `x collate name`.
    Collate(Box<Expr>, Name),
    /// `f(a, b)`, the name in lower case.
    Call {
        /// The function.
        name: Name,
        /// With `distinct` before the arguments.
        distinct: bool,
        /// `*` as the only argument.
        star: bool,
        /// The arguments.
        arguments: Vec<Expr>,
    },
}

pub use cdc_core::expr::{BinaryOp, UnaryOp};

/// The type of a cast.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeName {
    /// Its words, in lower case, with one space between them.
    pub words: String,
    /// The numbers in its parentheses.
    pub arguments: Vec<u32>,
    /// Where.
    pub span: Span,
}

impl Expr {
    /// The expressions right below this one.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Column { .. }
            | ExprKind::Param(_)
            | ExprKind::Text(_)
            | ExprKind::Number(_)
            | ExprKind::Hex(_)
            | ExprKind::Bits(_)
            | ExprKind::Bool(_)
            | ExprKind::Null
            | ExprKind::Unit(_)
            | ExprKind::Typed(..) => Vec::new(),
            ExprKind::Interval(x, _)
            | ExprKind::Unary(_, x)
            | ExprKind::IsNull { operand: x, .. }
            | ExprKind::IsTruth { operand: x, .. }
            | ExprKind::Cast(x, _)
            | ExprKind::Collate(x, _) => vec![x],
            ExprKind::Binary(_, a, b) | ExprKind::Bars(a, b) => vec![a, b],
            ExprKind::Between { operand, low, high, .. } => vec![operand, low, high],
            ExprKind::In { operand, list, .. } => std::iter::once(&**operand).chain(list).collect(),
            ExprKind::Like { operand, pattern, .. } => vec![operand, pattern],
            ExprKind::Case { operand, branches, otherwise } => operand
                .as_deref()
                .into_iter()
                .chain(branches.iter().flat_map(|(when, then)| [when, then]))
                .chain(otherwise.as_deref())
                .collect(),
            ExprKind::Call { arguments, .. } => arguments.iter().collect(),
        }
    }
}
