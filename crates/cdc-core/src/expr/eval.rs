//! Binding an expression to the columns of a table, and evaluating it row by row, with MySQL's meaning.
//!
//! # Two steps
//! [`bind`] resolves names to indexes, finds each part's type, converts literals to what they are compared
//! with, and refuses what has no clear meaning; it reports everything that it finds at once, each at its
//! characters. A [`BoundExpr`] then is evaluated with [`BoundExpr::eval`] over the values of a row, unpacked
//! once, without looking anything up.
//!
//! # MySQL's meaning, and where we are stricter
//! Three-valued logic; exact arithmetic of integers in 64 bits (an overflow is an error, as MySQL's 1690) and
//! of DECIMAL with MySQL's scales; division by zero is NULL; exact comparison of all exact numbers; dates
//! and times compared with texts by converting the text; text compared under the column's collation.
//! All expected values of the tests were read off a 9.7 server.
//!
//! MySQL guesses where a pipeline should not. These are refused when the expression is bound, with the
//! `cast` that says what is meant:
//! - arithmetic on text, and a *column* of text compared with a number. (MySQL compares as doubles, manual
//!   14.3, so `'abc' = 0` is true and 9007199254740993 equals '9007199254740992'.) A text *literal* beside a
//!   number is read as an exact number;
//! - numbers beside dates and times, and TIME beside a day;
//! - text as a condition.
//!
//! A value that a `cast` cannot convert is an error at its row, as it is in an INSERT in strict mode, not a
//! NULL or a cut-off number with a warning; `cast` between integers wraps around, as documented there.
//!
//! # Collations
//! Text columns compare under the collations that [`Collator`] knows, with their PAD rules. Copying,
//! `concat` and the like need none. Literals and metadata take the other side's collation, and compare among
//! each other by code point. The parts of IN, BETWEEN and CASE compare in pairs, each pair under its own
//! collation and types; MySQL finds one for all of them, which shows only where unlike columns are mixed.
//!
//! # Time zone
//! UTC. TIMESTAMP beside DATETIME is read as its UTC digits.

mod bind;
mod cast;
mod collation;
mod decimal;
pub(crate) mod json;
mod nearest;
mod number;
mod temporal;
mod text;
mod types;

pub(crate) use bind::{Args, Binder, NUMBER_OF_LABEL, Scope, ScopeColumn, describe, unknown_column};
pub use cast::server_text;
pub use collation::Collator;
pub(crate) use decimal::{Decimal, Rounding};
pub use nearest::nearest;
pub(crate) use number::{Number, NumberType, to_bits};
pub(crate) use temporal::MAX_TIME_MICROS;
pub(crate) use text::{encoded_length, is_utf8, to_lower, to_upper};
pub(crate) use types::{Class, merge_collations};
pub use types::{Coercibility, ExprType};

use super::{BinaryOp, Expr, MetaField, Unit};
use crate::codes;
use crate::diagnostic::{Code, Diagnostic, Span};
use crate::error::{Error, Result};
use crate::event::{Op, Origin};
use crate::schema::{TableId, TableSchema};
use crate::value::{DateTime, Timestamp, Value};
use cast::Conversion;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use text::LikePattern;

/// Binds an expression to the columns of a table.
///
/// # Errors
/// All that is wrong with it, each with its place in the pipeline file.
pub fn bind(expr: &Expr, schema: &TableSchema) -> Result<BoundExpr, Vec<Diagnostic>> {
    let scope = Scope::of_table(schema);
    let mut binder = Binder::new(&scope);
    let bound = binder.bind(expr);
    binder.finish(bound)
}

/// What `meta.` is about.
#[derive(Debug, Clone, Copy)]
pub struct RowMeta<'a> {
    /// What happened to the row.
    pub op: Op,
    /// The source table.
    pub table: &'a TableId,
    /// The transaction or chunk.
    pub origin: &'a Origin,
}

/// An expression with everything resolved: see [`bind`].
#[derive(Debug, Clone)]
pub struct BoundExpr {
    node: Node,
    ty: ExprType,
    span: Span,
}

/// A row to evaluate with.
pub(crate) struct Env<'a, 'e> {
    columns: &'e [Value<'a>],
    meta: &'e RowMeta<'a>,
}

/// A function with its arguments, bound.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) eval: Evaluator,
    pub(crate) args: Vec<BoundExpr>,
    /// What was made ready when it was bound.
    pub(crate) ready: Ready,
    /// The type of the result.
    pub(crate) ty: ExprType,
}

/// What a call needs and what does not change from row to row.
#[derive(Debug, Clone)]
pub(crate) enum Ready {
    Nothing,
    /// Whether something that the function asks is so.
    Flag(bool),
    /// A unit of time, and whether it is taken away.
    Unit(Unit, bool),
    /// How texts are compared.
    Collator(Collator),
    /// How each of the arguments behind the first is compared with it.
    Comparisons(Vec<Comparison>),
    /// Paths into JSON, and whether one or all must be there.
    Paths(Vec<json::Path>, bool),
    /// A path into the first of two documents that are compared, and how.
    Documents(Vec<json::Path>, fn(&json::Json<'_>, &json::Json<'_>) -> bool),
    /// Offsets of two time zones, in microseconds.
    Zones(i64, i64),
    /// What is computed of the bytes.
    OfBytes(fn(&[u8]) -> i64),
    /// What is computed of a day, with the number in the second argument.
    OfDay(fn(crate::value::Date, i64) -> Option<i64>),
    /// What a day is called.
    NameOfDay(fn(crate::value::Date) -> Option<&'static str>),
    /// What is computed of two numbers of months; is the second a period as well?
    Periods(fn(i64, i64) -> Option<i64>, bool),
    /// A regular expression.
    Regex(Arc<crate::function::Regex>),
}

pub(crate) type Evaluator = for<'a> fn(&'a Call, &Env<'a, '_>) -> Result<Value<'a>, Fault>;

#[derive(Debug, Clone)]
enum Node {
    Column {
        index: usize,
        name: Arc<str>,
    },
    Meta(MetaField),
    Const(Value<'static>, Option<Number>),
    Arithmetic {
        op: BinaryOp,
        ty: NumberType,
        operands: Box<[BoundExpr; 2]>,
    },
    Negate {
        ty: NumberType,
        operand: Box<BoundExpr>,
    },
    Bits {
        op: BinaryOp,
        operands: Box<[BoundExpr; 2]>,
    },
    BitNot(Box<BoundExpr>),
    Not(Box<BoundExpr>),
    And(Vec<BoundExpr>),
    Or(Vec<BoundExpr>),
    Xor(Box<[BoundExpr; 2]>),
    Compare {
        op: BinaryOp,
        how: Comparison,
        operands: Box<[BoundExpr; 2]>,
    },
    IsNull {
        operand: Box<BoundExpr>,
        negated: bool,
    },
    IsTruth {
        operand: Box<BoundExpr>,
        truth: bool,
        negated: bool,
    },
    Between {
        operand: Box<BoundExpr>,
        low: (Comparison, Box<BoundExpr>),
        high: (Comparison, Box<BoundExpr>),
        negated: bool,
    },
    In {
        operand: Box<BoundExpr>,
        list: Vec<(Comparison, BoundExpr)>,
        negated: bool,
    },
    Like {
        operands: Box<[BoundExpr; 2]>,
        pattern: Pattern,
        negated: bool,
    },
    Case {
        operand: Option<Box<BoundExpr>>,
        branches: Vec<Branch>,
        otherwise: Option<Box<BoundExpr>>,
    },
    Coalesce(Vec<BoundExpr>),
    NullIf {
        how: Comparison,
        operands: Box<[BoundExpr; 2]>,
    },
    Extreme {
        how: Comparison,
        greatest: bool,
        args: Vec<BoundExpr>,
    },
    Convert {
        to: Conversion,
        operand: Box<BoundExpr>,
    },
    Call(Call),
}

#[derive(Debug, Clone)]
struct Branch {
    /// With an operand: how it is compared with `when`.
    how: Comparison,
    when: BoundExpr,
    then: BoundExpr,
}

/// LIKE's pattern, ready where it is constant.
#[derive(Debug, Clone)]
enum Pattern {
    Text(LikePattern<u32>, Collator),
    Bytes(LikePattern<u8>),
    /// Texts under a collation, or bytes.
    PerRow {
        escape: char,
        how: Option<Collator>,
    },
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// One of them is the literal NULL.
    Never,
    Numbers,
    Text(Collator),
    Bytes,
    Days,
    Times,
}

/// What went wrong at run time, before its place is known.
#[derive(Debug)]
pub(crate) struct Failure(Box<(Code, String)>);

/// A failure, or one that already has its place.
#[derive(Debug)]
pub(crate) enum Fault {
    Here(Failure),
    Placed(Error),
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault::Here(failure)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Placed(error)
    }
}

impl Failure {
    pub(crate) fn new(code: Code, headline: impl Into<String>) -> Failure {
        Failure(Box::new((code, headline.into())))
    }

    /// MySQL's error 1690.
    pub(crate) fn out_of_range(ty: &str) -> Failure {
        Failure::new(codes::OUT_OF_RANGE, format!("the result is out of the range of {ty}"))
    }

    /// The value that a row holds does not fit the schema that it came with.
    pub(crate) fn unexpected(value: &Value<'_>, wanted: &str) -> Failure {
        if value.is_absent() {
            return Failure::new(codes::PARTIAL_IMAGE, "the row image does not hold all columns");
        }
        Failure::new(codes::STRUCTURE_DIFFERS, format!("{} where {wanted} was expected", value.kind()))
    }

    pub(crate) fn at(self, span: &Span) -> Error {
        let (code, headline) = *self.0;
        Error::from(Diagnostic::error(code, headline).at(span.clone(), "computed here"))
    }
}

/// A value that borrows from where a longer-lived one stands.
fn reborrow<'a>(value: &'a Value<'_>) -> Value<'a> {
    match value {
        Value::Decimal(v) => Value::Decimal(Cow::Borrowed(v)),
        Value::Enum { index, label } => Value::Enum { index: *index, label: Cow::Borrowed(label) },
        Value::Set { bits, labels } => Value::Set { bits: *bits, labels: Cow::Borrowed(labels) },
        Value::Text(v) => Value::Text(Cow::Borrowed(v)),
        Value::Json(v) => Value::Json(Cow::Borrowed(v)),
        Value::Bytes(v) => Value::Bytes(Cow::Borrowed(v)),
        Value::Geometry(v) => Value::Geometry(Cow::Borrowed(v)),
        Value::Vector(v) => Value::Vector(Cow::Borrowed(v)),
        other => other.clone(),
    }
}

/// Longer results of functions are refused: the server's own bound is `max_allowed_packet`, 64 MiB unless changed. Without a bound
/// a few calls within each other that double a text (hex, json_quote) would take all memory.
pub(crate) const MAX_RESULT: usize = 64 << 20;

pub(crate) fn too_long() -> Fault {
    Failure::new(codes::OUT_OF_RANGE, "the text is longer than 64 MiB").into()
}

/// What a function has made, unless it is too long; what it hands on is as long as it is.
fn not_too_long(value: Value<'_>) -> Result<Value<'_>, Fault> {
    let made = match &value {
        Value::Text(Cow::Owned(v)) | Value::Json(Cow::Owned(v)) => v.len(),
        Value::Bytes(Cow::Owned(v)) => v.len(),
        _ => 0,
    };
    if made > MAX_RESULT { Err(too_long()) } else { Ok(value) }
}

impl BoundExpr {
    /// Its type, and whether it can be NULL.
    pub fn ty(&self) -> &ExprType {
        &self.ty
    }

    /// A column as it is.
    pub(crate) fn of_column(index: usize, name: &Arc<str>, ty: &ExprType, span: &Span) -> BoundExpr {
        BoundExpr { node: Node::Column { index, name: name.clone() }, ty: ty.clone(), span: span.clone() }
    }

    /// The index of the column that it is a plain copy of.
    pub fn as_column(&self) -> Option<usize> {
        match self.node {
            Node::Column { index, .. } => Some(index),
            _ => None,
        }
    }

    /// Where it stands in the pipeline file.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Its value for a row. The values of `columns` are those of the schema that it was bound to, in order;
    /// text that borrows from the row goes on borrowing from it.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` for an overflow or a value that a `cast` cannot convert; `PARTIAL_IMAGE` where a column
    /// that is needed is absent; `STRUCTURE_DIFFERS` if the values are not of the schema's types.
    pub fn eval<'a>(&'a self, columns: &[Value<'a>], meta: &RowMeta<'a>) -> Result<Value<'a>> {
        let value = self.value(&Env { columns, meta })?;
        match &value {
            // sign, dot, and a zero before it
            Value::Decimal(text)
                if text.len() > 65
                    && text.bytes().filter(u8::is_ascii_digit).count()
                        > 65 + usize::from(text.trim_start_matches('-').starts_with("0.")) =>
            {
                return Err(self.place(Failure::out_of_range("DECIMAL")));
            }
            _ => {}
        }
        Ok(value)
    }

    /// As [`BoundExpr::eval`], as a condition: `None` is NULL.
    ///
    /// # Errors
    /// As `eval`.
    pub fn eval_truth<'a>(&'a self, columns: &[Value<'a>], meta: &RowMeta<'a>) -> Result<Option<bool>> {
        self.truth(&Env { columns, meta })
    }

    /// True for a literal, and for what was computed from literals alone.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.node, Node::Const(..))
    }

    /// The whole number that it always is.
    pub(crate) fn const_whole(&self) -> Option<i64> {
        match &self.node {
            Node::Const(_, Some(number)) => i64::try_from(number.to_whole()?).ok(),
            _ => None,
        }
    }

    /// The text that it always is.
    pub(crate) fn const_text(&self) -> Option<&str> {
        match self.const_value() {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn const_value(&self) -> Option<&Value<'static>> {
        match &self.node {
            Node::Const(value, _) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn place(&self, fault: impl Into<Fault>) -> Error {
        match fault.into() {
            Fault::Here(failure) => failure.at(&self.span),
            Fault::Placed(error) => error,
        }
    }

    pub(crate) fn value<'a>(&'a self, env: &Env<'a, '_>) -> Result<Value<'a>> {
        match &self.node {
            Node::Column { index, name } => match env.columns.get(*index) {
                Some(Value::Absent) => {
                    let headline = format!("the row image does not hold the column \"{name}\"");
                    Err(self.place(Failure::new(codes::PARTIAL_IMAGE, headline)))
                }
                Some(value) => Ok(value.clone()),
                None => {
                    let headline = format!("the row is too short to hold the column \"{name}\"");
                    Err(self.place(Failure::new(codes::STRUCTURE_DIFFERS, headline)))
                }
            },
            Node::Meta(field) => Ok(meta_value(*field, env.meta)),
            Node::Const(value, _) => Ok(reborrow(value)),
            Node::Arithmetic { ty, .. } | Node::Negate { ty, .. } => {
                Ok(self.number(env)?.map_or(Value::Null, |n| n.into_value(*ty)))
            }
            Node::Bits { .. } | Node::BitNot(_) => {
                let unsigned = NumberType::Integer { unsigned: true };
                Ok(self.number(env)?.map_or(Value::Null, |n| n.into_value(unsigned)))
            }
            Node::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), env)
            }
            Node::Coalesce(args) => {
                for arg in args {
                    let value = arg.value(env)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Node::NullIf { how, operands } => {
                let [a, b] = &**operands;
                let value = a.value(env)?;
                let equal = how.compare(&value, &b.value(env)?).map_err(|f| self.place(f))?;
                Ok(if equal == Some(Ordering::Equal) { Value::Null } else { value })
            }
            Node::Extreme { how, greatest, args } => self.extreme(*how, *greatest, args, env),
            Node::Convert { to, operand } => to.apply(operand.value(env)?).map_err(|f| self.place(f)),
            Node::Call(call) => (call.eval)(call, env).and_then(not_too_long).map_err(|f| self.place(f)),
            _ => Ok(match self.truth(env)? {
                None => Value::Null,
                Some(truth) => Value::Int(i64::from(truth)),
            }),
        }
    }

    /// As a number; what arithmetic makes is not written out as a text in between.
    pub(crate) fn number<'a>(&'a self, env: &Env<'a, '_>) -> Result<Option<Number>> {
        match &self.node {
            Node::Const(_, Some(number)) => Ok(Some(number.clone())),
            Node::Arithmetic { op, ty, operands } => {
                let [a, b] = &**operands;
                // both sides are always computed: an overflow on one is not hidden by a NULL on the other
                let (x, y) = (a.number(env)?, b.number(env)?);
                let (Some(x), Some(y)) = (x, y) else { return Ok(None) };
                number::arithmetic(*op, &x, &y, *ty).map_err(|f| self.place(f))
            }
            Node::Negate { ty, operand } => {
                let Some(x) = operand.number(env)? else { return Ok(None) };
                x.negate().fit(*ty).map(Some).map_err(|f| self.place(f))
            }
            Node::Bits { op, operands } => {
                let [a, b] = &**operands;
                let (Some(x), Some(y)) = (a.bits(env)?, b.bits(env)?) else { return Ok(None) };
                let shift = u32::try_from(y).unwrap_or(u32::MAX);
                let bits = match op {
                    BinaryOp::BitAnd => x & y,
                    BinaryOp::BitOr => x | y,
                    BinaryOp::BitXor => x ^ y,
                    // 64 and more leave nothing (MySQL manual 14.12)
                    BinaryOp::ShiftLeft => x.checked_shl(shift).unwrap_or(0),
                    _ => x.checked_shr(shift).unwrap_or(0),
                };
                Ok(Some(Number::Int(i128::from(bits))))
            }
            Node::BitNot(operand) => Ok(operand.bits(env)?.map(|bits| Number::Int(i128::from(!bits)))),
            _ => {
                let value = self.value(env)?;
                Number::of(&value).map_err(|f| self.place(f))
            }
        }
    }

    fn bits<'a>(&'a self, env: &Env<'a, '_>) -> Result<Option<u64>> {
        let Some(number) = self.number(env)? else { return Ok(None) };
        to_bits(&number).map(Some).map_err(|f| self.place(f))
    }

    /// As a condition, in three-valued logic: `None` is NULL.
    pub(crate) fn truth<'a>(&'a self, env: &Env<'a, '_>) -> Result<Option<bool>> {
        match &self.node {
            Node::Not(operand) => Ok(operand.truth(env)?.map(|t| !t)),
            Node::And(operands) => {
                let mut result = Some(true);
                for operand in operands {
                    match operand.truth(env)? {
                        Some(false) => return Ok(Some(false)),
                        None => result = None,
                        Some(true) => {}
                    }
                }
                Ok(result)
            }
            Node::Or(operands) => {
                let mut result = Some(false);
                for operand in operands {
                    match operand.truth(env)? {
                        Some(true) => return Ok(Some(true)),
                        None => result = None,
                        Some(false) => {}
                    }
                }
                Ok(result)
            }
            Node::Xor(operands) => {
                let [a, b] = &**operands;
                Ok(match (a.truth(env)?, b.truth(env)?) {
                    (Some(x), Some(y)) => Some(x != y),
                    _ => None,
                })
            }
            Node::Compare { op, how, operands } => {
                let [a, b] = &**operands;
                let (x, y) = (a.value(env)?, b.value(env)?);
                if *op == BinaryOp::NullSafeEqual && (x.is_null() || y.is_null()) {
                    return Ok(Some(x.is_null() && y.is_null()));
                }
                let order = how.compare(&x, &y).map_err(|f| self.place(f))?;
                Ok(order.map(|o| match op {
                    BinaryOp::Less => o.is_lt(),
                    BinaryOp::LessEqual => o.is_le(),
                    BinaryOp::Greater => o.is_gt(),
                    BinaryOp::GreaterEqual => o.is_ge(),
                    BinaryOp::NotEqual => o.is_ne(),
                    _ => o.is_eq(),
                }))
            }
            Node::IsNull { operand, negated } => Ok(Some(operand.value(env)?.is_null() != *negated)),
            Node::IsTruth { operand, truth, negated } => {
                Ok(Some((operand.truth(env)? == Some(*truth)) != *negated))
            }
            Node::Between { operand, low, high, negated } => {
                let value = operand.value(env)?;
                let order = |bound: &'a (Comparison, Box<BoundExpr>)| {
                    bound.0.compare(&value, &bound.1.value(env)?).map_err(|f| self.place(f))
                };
                let from = order(low)?.map(Ordering::is_ge);
                let to = order(high)?.map(Ordering::is_le);
                let within = match (from, to) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
                Ok(within.map(|w| w != *negated))
            }
            Node::In { operand, list, negated } => {
                let value = operand.value(env)?;
                let mut result = Some(false);
                for (how, item) in list {
                    match how.compare(&value, &item.value(env)?).map_err(|f| self.place(f))? {
                        Some(Ordering::Equal) => return Ok(Some(!negated)),
                        None => result = None,
                        Some(_) => {}
                    }
                }
                Ok(result.map(|r| r != *negated))
            }
            Node::Like { operands, pattern, negated } => {
                Ok(self.like(operands, pattern, env)?.map(|m| m != *negated))
            }
            _ => Ok(self.number(env)?.map(|n| n.is_true())),
        }
    }

    fn like<'a>(
        &'a self,
        operands: &'a [BoundExpr; 2],
        pattern: &Pattern,
        env: &Env<'a, '_>,
    ) -> Result<Option<bool>> {
        let value = operands[0].value(env)?;
        if value.is_null() {
            return Ok(None);
        }
        let place = |f: Failure| self.place(f);
        Ok(Some(match pattern {
            Pattern::Text(pattern, how) => pattern.matches_text(text_of(&value).map_err(place)?, *how),
            Pattern::Bytes(pattern) => pattern.matches(bytes_of(&value).map_err(place)?),
            Pattern::PerRow { escape, how } => {
                let pattern = operands[1].value(env)?;
                if pattern.is_null() {
                    return Ok(None);
                }
                match how {
                    None => {
                        let pattern = LikePattern::of_bytes(bytes_of(&pattern).map_err(place)?, *escape);
                        pattern.matches(bytes_of(&value).map_err(place)?)
                    }
                    Some(how) => {
                        let pattern = LikePattern::of_text(text_of(&pattern).map_err(place)?, *escape, *how);
                        pattern.matches_text(text_of(&value).map_err(place)?, *how)
                    }
                }
            }
        }))
    }

    fn case<'a>(
        &'a self,
        operand: Option<&'a BoundExpr>,
        branches: &'a [Branch],
        otherwise: Option<&'a BoundExpr>,
        env: &Env<'a, '_>,
    ) -> Result<Value<'a>> {
        let operand = operand.map(|o| o.value(env)).transpose()?;
        for branch in branches {
            let hit = match &operand {
                None => branch.when.truth(env)? == Some(true),
                Some(value) => {
                    let when = branch.when.value(env)?;
                    branch.how.compare(value, &when).map_err(|f| self.place(f))? == Some(Ordering::Equal)
                }
            };
            if hit {
                return branch.then.value(env);
            }
        }
        otherwise.map_or(Ok(Value::Null), |o| o.value(env))
    }

    /// GREATEST and LEAST: NULL if any is NULL.
    fn extreme<'a>(
        &'a self,
        how: Comparison,
        greatest: bool,
        args: &'a [BoundExpr],
        env: &Env<'a, '_>,
    ) -> Result<Value<'a>> {
        let mut best = Value::Null;
        for (i, arg) in args.iter().enumerate() {
            let value = arg.value(env)?;
            if value.is_null() {
                return Ok(Value::Null);
            }
            let order = how.compare(&value, &best).map_err(|f| self.place(f))?;
            // of texts that are equal without being the same the server takes the last for the greatest
            let tie = greatest && matches!(how, Comparison::Text(_)) && order == Some(Ordering::Equal);
            if i == 0 || tie || order == Some(if greatest { Ordering::Greater } else { Ordering::Less }) {
                best = value;
            }
        }
        Ok(best)
    }
}

impl Comparison {
    /// The order of two values; `None` if one is NULL.
    pub(crate) fn compare(self, a: &Value<'_>, b: &Value<'_>) -> Result<Option<Ordering>, Failure> {
        if a.is_null() || b.is_null() {
            return Ok(None);
        }
        Ok(Some(match (self, a, b) {
            (Comparison::Never, _, _) => return Ok(None),
            (Comparison::Numbers, Value::Int(x), Value::Int(y)) => x.cmp(y),
            (Comparison::Numbers, _, _) => match (Number::of(a)?, Number::of(b)?) {
                (Some(x), Some(y)) => number::compare(&x, &y),
                _ => return Ok(None),
            },
            (Comparison::Text(collator), _, _) => collator.compare(text_of(a)?, text_of(b)?),
            (Comparison::Bytes, _, _) => bytes_of(a)?.cmp(bytes_of(b)?),
            (Comparison::Days, _, _) => datetime_of(a)?.cmp(&datetime_of(b)?),
            (Comparison::Times, Value::Time(x), Value::Time(y)) => x.cmp(y),
            (Comparison::Times, x, Value::Time(_)) => return Err(Failure::unexpected(x, "a TIME")),
            (Comparison::Times, _, y) => return Err(Failure::unexpected(y, "a TIME")),
        }))
    }
}

pub(crate) fn text_of<'v>(value: &'v Value<'_>) -> Result<&'v str, Failure> {
    match value {
        Value::Text(v) | Value::Enum { label: v, .. } | Value::Set { labels: v, .. } => Ok(v),
        other => Err(Failure::unexpected(other, "a text")),
    }
}

pub(crate) fn bytes_of<'v>(value: &'v Value<'_>) -> Result<&'v [u8], Failure> {
    match value {
        Value::Bytes(v) => Ok(v),
        other => text_of(other).map(str::as_bytes),
    }
}

/// Its digits on the calendar; a TIMESTAMP's in UTC.
pub(crate) fn datetime_of(value: &Value<'_>) -> Result<DateTime, Failure> {
    Ok(match value {
        Value::Date(date) => DateTime { date: *date, ..DateTime::default() },
        Value::DateTime(v) => *v,
        Value::Timestamp(v) => v.to_datetime(),
        other => return Err(Failure::unexpected(other, "a date")),
    })
}

fn meta_value<'a>(field: MetaField, meta: &RowMeta<'a>) -> Value<'a> {
    match field {
        MetaField::Op => Value::Text(Cow::Borrowed(meta.op.letter())),
        MetaField::Database => Value::Text(Cow::Borrowed(&*meta.table.database)),
        MetaField::Table => Value::Text(Cow::Borrowed(&*meta.table.table)),
        MetaField::Ts => Value::Timestamp(Timestamp { micros: meta.origin.timestamp_micros }),
        MetaField::Position => {
            Value::Text(Cow::Owned(format!("{}:{}", meta.origin.file, meta.origin.offset)))
        }
        MetaField::Gtid if meta.origin.gtid.is_empty() => Value::Null,
        MetaField::Gtid => Value::Text(Cow::Borrowed(&*meta.origin.gtid)),
    }
}

/// What evaluators of functions use.
impl Call {
    /// An argument's text; `None` is NULL.
    pub(crate) fn text<'a>(&'a self, env: &Env<'a, '_>, index: usize) -> Result<Option<Cow<'a, str>>, Fault> {
        Ok(match self.args[index].value(env)? {
            Value::Null => None,
            Value::Text(v) | Value::Enum { label: v, .. } | Value::Set { labels: v, .. } => Some(v),
            other => return Err(Failure::unexpected(&other, "a text").into()),
        })
    }

    /// An argument as it is; `None` is NULL.
    pub(crate) fn value<'a>(&'a self, env: &Env<'a, '_>, index: usize) -> Result<Option<Value<'a>>, Fault> {
        Ok(Some(self.args[index].value(env)?).filter(|v| !v.is_null()))
    }

    /// An argument's number; `None` is NULL.
    pub(crate) fn number<'a>(&'a self, env: &Env<'a, '_>, index: usize) -> Result<Option<Number>, Fault> {
        Ok(self.args[index].number(env)?)
    }

    /// An argument rounded to a whole number, kept within a range that no text exceeds; `None` is NULL.
    pub(crate) fn whole<'a>(&'a self, env: &Env<'a, '_>, index: usize) -> Result<Option<i64>, Fault> {
        Ok(self.args[index].number(env)?.map(|n| match n.to_whole() {
            Some(v) => v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64,
            None if n.to_f64() < 0.0 => i64::MIN,
            None => i64::MAX,
        }))
    }

    /// An argument's bytes, or the UTF-8 of its text; `None` is NULL.
    pub(crate) fn bytes<'a>(
        &'a self,
        env: &Env<'a, '_>,
        index: usize,
    ) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        Ok(match self.args[index].value(env)? {
            Value::Null => None,
            Value::Bytes(v) => Some(v),
            Value::Text(v) | Value::Enum { label: v, .. } | Value::Set { labels: v, .. } => Some(match v {
                Cow::Borrowed(s) => Cow::Borrowed(s.as_bytes()),
                Cow::Owned(s) => Cow::Owned(s.into_bytes()),
            }),
            other => return Err(Failure::unexpected(&other, "bytes").into()),
        })
    }

    /// An argument's number as a double; `None` is NULL.
    pub(crate) fn double<'a>(&'a self, env: &Env<'a, '_>, index: usize) -> Result<Option<f64>, Fault> {
        Ok(self.args[index].number(env)?.map(|n| n.to_f64()))
    }

    /// An argument's digits on the calendar; `None` is NULL.
    pub(crate) fn datetime<'a>(&'a self, env: &Env<'a, '_>, index: usize) -> Result<Option<DateTime>, Fault> {
        match self.args[index].value(env)? {
            Value::Null => Ok(None),
            other => Ok(Some(datetime_of(&other)?)),
        }
    }

    /// A number as the call's type.
    pub(crate) fn store(&self, number: Number) -> Result<Value<'static>, Fault> {
        let ty = NumberType::of(&self.ty).unwrap_or(NumberType::Double);
        Ok(number.store(ty)?)
    }
}
