//! Scalar expressions: SQL's, with MySQL's meaning.
//!
//! An [`Expr`] is what the language lowers to: names resolved to columns or metadata fields *by name*, since
//! a flow's pattern may catch tables that are not known yet. Binding it to a table's schema
//! ([`eval`]) resolves names to indexes, checks types, and gives something that can be
//! evaluated row by row.

pub mod eval;

use crate::diagnostic::Span;
use crate::value::Value;

/// An expression and where it stands in the pipeline file.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its bytes in the pipeline file.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A column of the row.
    Column(String),
    /// A column of one of the inputs of a view: `o.id`.
    Of {
        /// The input's alias.
        table: String,
        /// The column.
        column: String,
    },
    /// Metadata of the row.
    Meta(MetaField),
    /// A constant.
    Literal(Value<'static>),
    /// A constant that came from the environment: never shown.
    Secret(Secret),
    /// `- x`, `not x`, `~ x`.
    Unary(UnaryOp, Box<Expr>),
    /// `a + b` and the like.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `x is [not] null`.
    IsNull {
        /// x.
        operand: Box<Expr>,
        /// With `not`.
        negated: bool,
    },
    /// `x is [not] true|false`.
    IsTruth {
        /// x.
        operand: Box<Expr>,
        /// `true` or `false`.
        truth: bool,
        /// With `not`.
        negated: bool,
    },
    /// `x [not] between low and high`.
    Between {
        /// x.
        operand: Box<Expr>,
        /// The lower bound, inclusive.
        low: Box<Expr>,
        /// The upper bound, inclusive.
        high: Box<Expr>,
        /// With `not`.
        negated: bool,
    },
    /// `x [not] in (a, b, ...)`.
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
        /// The pattern: `%` any text, `_` any character.
        pattern: Box<Expr>,
        /// The escape character; `\` where none is given.
        escape: Option<char>,
        /// With `not`.
        negated: bool,
    },
    /// `case [operand] when .. then .. [else ..] end`.
    Case {
        /// Compared with each `when`; without it each `when` is a condition.
        operand: Option<Box<Expr>>,
        /// `when`, `then`.
        branches: Vec<(Expr, Expr)>,
        /// NULL where there is none.
        otherwise: Option<Box<Expr>>,
    },
    /// `cast(x as type)`.
    Cast(Box<Expr>, CastType),
    /// `x collate name`.
    Collate(Box<Expr>, String),
    /// A function, by its name in lower case.
    Call(String, Vec<Expr>),
    /// `interval n unit`: added to a date or a time, or taken from it.
    Interval(Box<Expr>, Unit),
    /// A unit as an argument: `timestampdiff(day, a, b)`, `extract(year from a)`.
    Unit(Unit),
}

/// A value that is never shown.
#[derive(Clone, PartialEq)]
pub struct Secret(pub Value<'static>);

/// `***`.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The types that `cast` knows (MySQL manual 14.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastType {
    /// SIGNED.
    Signed,
    /// UNSIGNED.
    Unsigned,
    /// DECIMAL(precision, scale).
    Decimal {
        /// 1 to 65.
        precision: u8,
        /// 0 to 30.
        scale: u8,
    },
    /// DOUBLE.
    Double,
    /// FLOAT.
    Float,
    /// CHAR, with the most characters kept.
    Char {
        /// In characters.
        length: Option<u32>,
    },
    /// BINARY.
    Binary {
        /// In bytes.
        length: Option<u32>,
    },
    /// DATE.
    Date,
    /// DATETIME(fsp).
    DateTime {
        /// Digits of fraction.
        fsp: u8,
    },
    /// TIME(fsp).
    Time {
        /// Digits of fraction.
        fsp: u8,
    },
    /// YEAR.
    Year,
    /// JSON.
    Json,
}

/// Units of intervals (MySQL manual 11.5), but for those of several parts such as `DAY_HOUR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// MICROSECOND.
    Microsecond,
    /// SECOND.
    Second,
    /// MINUTE.
    Minute,
    /// HOUR.
    Hour,
    /// DAY.
    Day,
    /// WEEK.
    Week,
    /// MONTH.
    Month,
    /// QUARTER.
    Quarter,
    /// YEAR.
    Year,
}

impl Unit {
    /// All units, from the shortest.
    pub const ALL: [Unit; 9] = [
        Unit::Microsecond,
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
        Unit::Week,
        Unit::Month,
        Unit::Quarter,
        Unit::Year,
    ];

    /// Its word in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Microsecond => "microsecond",
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Quarter => "quarter",
            Unit::Year => "year",
        }
    }

    /// The unit of this name, in any letter case, with or without `SQL_TSI_` in front.
    pub fn from_name(name: &str) -> Option<Unit> {
        let lower = name.to_ascii_lowercase();
        let word = lower.strip_prefix("sql_tsi_").unwrap_or(&lower);
        Unit::ALL.into_iter().find(|u| u.name() == word)
    }

    /// Shorter than a day.
    pub fn is_of_clock(self) -> bool {
        matches!(self, Unit::Microsecond | Unit::Second | Unit::Minute | Unit::Hour)
    }
}

/// Fields of `meta.`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaField {
    /// `meta.op`: `r`, `c`, `u` or `d`.
    Op,
    /// `meta.database`.
    Database,
    /// `meta.table`.
    Table,
    /// `meta.ts`: commit time at the source.
    Ts,
    /// `meta.position`: `file:offset`.
    Position,
    /// `meta.gtid`.
    Gtid,
}

impl MetaField {
    /// All fields.
    pub const ALL: [MetaField; 6] = [
        MetaField::Op,
        MetaField::Database,
        MetaField::Table,
        MetaField::Ts,
        MetaField::Position,
        MetaField::Gtid,
    ];

    /// The word after `meta.`.
    pub fn name(self) -> &'static str {
        match self {
            MetaField::Op => "op",
            MetaField::Database => "database",
            MetaField::Table => "table",
            MetaField::Ts => "ts",
            MetaField::Position => "position",
            MetaField::Gtid => "gtid",
        }
    }

    /// The field of this name.
    pub fn from_name(name: &str) -> Option<MetaField> {
        MetaField::ALL.into_iter().find(|f| f.name().eq_ignore_ascii_case(name))
    }
}

/// Operators with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`.
    Negate,
    /// `not`, `!`.
    Not,
    /// `~`.
    BitNot,
}

/// Operators with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`.
    Divide,
    /// `div`.
    IntegerDivide,
    /// `%`, `mod`.
    Modulo,
    /// `=`.
    Equal,
    /// `<>`, `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterEqual,
    /// `<=>`.
    NullSafeEqual,
    /// `and`, `&&`.
    And,
    /// `or`.
    Or,
    /// `xor`.
    Xor,
    /// `&`.
    BitAnd,
    /// `|`.
    BitOr,
    /// `^`.
    BitXor,
    /// `<<`.
    ShiftLeft,
    /// `>>`.
    ShiftRight,
    /// `->`.
    JsonExtract,
    /// `->>`.
    JsonUnquote,
}
