//! Expressions as text in the language, with no more parentheses than they need.

use crate::expr::{BinaryOp, CastType, Expr, ExprKind, UnaryOp};
use crate::value::Value;
use std::fmt;

/// How tightly an expression holds together, from the loosest (MySQL manual 14.4.1).
mod level {
    pub const OR: u8 = 1;
    pub const XOR: u8 = 2;
    pub const AND: u8 = 3;
    pub const NOT: u8 = 4;
    pub const BETWEEN: u8 = 5;
    pub const COMPARE: u8 = 6;
    pub const BIT_OR: u8 = 7;
    pub const BIT_AND: u8 = 8;
    pub const SHIFT: u8 = 9;
    pub const ADD: u8 = 10;
    pub const MULTIPLY: u8 = 11;
    pub const BIT_XOR: u8 = 12;
    pub const UNARY: u8 = 13;
    pub const COLLATE: u8 = 14;
    pub const PATH: u8 = 15;
    pub const PRIMARY: u8 = 16;
}

/// Words that would not be read as a name where a name is meant.
const WORDS: &[&str] = &[
    "and", "as", "between", "by", "case", "cast", "collate", "distinct", "div", "drop", "else", "end",
    "escape", "except", "extend", "false", "from", "full", "group", "in", "is", "join", "key", "left",
    "like", "meta", "mod", "not", "null", "on", "or", "per", "rename", "right", "select", "then", "top",
    "true", "union", "when", "where", "with", "xor",
];

/// A name as it is written: bare where it can be, else in backticks.
pub fn name(text: &str) -> String {
    let first = text.chars().next();
    let bare = first.is_some_and(|c| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !WORDS.contains(&text.to_lowercase().as_str());
    if bare { text.to_owned() } else { format!("`{}`", text.replace('`', "``")) }
}

/// As the language writes it.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, 0)
    }
}

fn binary_level(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Or => level::OR,
        BinaryOp::Xor => level::XOR,
        BinaryOp::And => level::AND,
        BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::Less
        | BinaryOp::LessEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterEqual
        | BinaryOp::NullSafeEqual => level::COMPARE,
        BinaryOp::BitOr => level::BIT_OR,
        BinaryOp::BitAnd => level::BIT_AND,
        BinaryOp::ShiftLeft | BinaryOp::ShiftRight => level::SHIFT,
        BinaryOp::Add | BinaryOp::Subtract => level::ADD,
        BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::IntegerDivide | BinaryOp::Modulo => level::MULTIPLY,
        BinaryOp::BitXor => level::BIT_XOR,
        BinaryOp::JsonExtract | BinaryOp::JsonUnquote => level::PATH,
    }
}

fn level_of(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Binary(op, ..) => binary_level(*op),
        ExprKind::Unary(UnaryOp::Not, _) => level::NOT,
        ExprKind::Unary(..) => level::UNARY,
        ExprKind::Between { .. } => level::BETWEEN,
        ExprKind::IsNull { .. } | ExprKind::IsTruth { .. } | ExprKind::In { .. } | ExprKind::Like { .. } => {
            level::COMPARE
        }
        ExprKind::Collate(..) => level::COLLATE,
        // a negative number is written with a sign
        ExprKind::Literal(Value::Int(v)) if *v < 0 => level::UNARY,
        ExprKind::Literal(Value::Double(v)) if v.is_sign_negative() => level::UNARY,
        ExprKind::Literal(Value::Decimal(v)) if v.starts_with('-') => level::UNARY,
        _ => level::PRIMARY,
    }
}

fn write(f: &mut fmt::Formatter<'_>, expr: &Expr, least: u8) -> fmt::Result {
    if level_of(expr) < least {
        f.write_str("(")?;
        bare(f, expr)?;
        return f.write_str(")");
    }
    bare(f, expr)
}

fn not(negated: bool) -> &'static str {
    if negated { "not " } else { "" }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[Expr]) -> fmt::Result {
    f.write_str("(")?;
    for (i, item) in items.iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write(f, item, 0)?;
    }
    f.write_str(")")
}

fn bare(f: &mut fmt::Formatter<'_>, expr: &Expr) -> fmt::Result {
    match &expr.kind {
        ExprKind::Column(column) => f.write_str(&name(column)),
        ExprKind::Of { table, column } => write!(f, "{}.{}", name(table), name(column)),
        ExprKind::Meta(field) => write!(f, "meta.{}", field.name()),
        ExprKind::Literal(value) => literal(f, value),
        ExprKind::Secret(_) => f.write_str("***"),
        ExprKind::Unary(op, operand) => {
            let (word, least) = match op {
                UnaryOp::Not => ("not ", level::NOT),
                // `--` would begin a comment
                UnaryOp::Negate => ("-", level::COLLATE),
                UnaryOp::BitNot => ("~", level::UNARY),
            };
            f.write_str(word)?;
            write(f, operand, least)
        }
        ExprKind::Binary(..) => chain(f, expr),
        ExprKind::IsNull { operand, negated } => {
            write(f, operand, level::BIT_OR)?;
            write!(f, " is {}null", not(*negated))
        }
        ExprKind::IsTruth { operand, truth, negated } => {
            write(f, operand, level::BIT_OR)?;
            write!(f, " is {}{truth}", not(*negated))
        }
        ExprKind::Between { operand, low, high, negated } => {
            write(f, operand, level::BIT_OR)?;
            write!(f, " {}between ", not(*negated))?;
            write(f, low, level::BIT_OR)?;
            f.write_str(" and ")?;
            write(f, high, level::BIT_OR)
        }
        ExprKind::In { operand, list: items, negated } => {
            write(f, operand, level::BIT_OR)?;
            write!(f, " {}in ", not(*negated))?;
            list(f, items)
        }
        ExprKind::Like { operand, pattern, escape, negated } => {
            write(f, operand, level::BIT_OR)?;
            write!(f, " {}like ", not(*negated))?;
            write(f, pattern, level::BIT_OR)?;
            match escape {
                Some(c) => {
                    f.write_str(" escape ")?;
                    text(f, c.encode_utf8(&mut [0; 4]))
                }
                None => Ok(()),
            }
        }
        ExprKind::Case { operand, branches, otherwise } => {
            f.write_str("case")?;
            if let Some(operand) = operand {
                f.write_str(" ")?;
                write(f, operand, 0)?;
            }
            for (when, then) in branches {
                f.write_str(" when ")?;
                write(f, when, 0)?;
                f.write_str(" then ")?;
                write(f, then, 0)?;
            }
            if let Some(otherwise) = otherwise {
                f.write_str(" else ")?;
                write(f, otherwise, 0)?;
            }
            f.write_str(" end")
        }
        ExprKind::Cast(operand, ty) => {
            f.write_str("cast(")?;
            write(f, operand, 0)?;
            write!(f, " as {ty})")
        }
        ExprKind::Collate(operand, collation) => {
            write(f, operand, level::COLLATE)?;
            write!(f, " collate {collation}")
        }
        ExprKind::Call(function, args) => {
            f.write_str(function)?;
            match &args[..] {
                [Expr { kind: ExprKind::Unit(unit), .. }, operand] if function == "extract" => {
                    write!(f, "({} from ", unit.name())?;
                    write(f, operand, 0)?;
                    f.write_str(")")
                }
                _ => list(f, args),
            }
        }
        ExprKind::Interval(count, unit) => {
            f.write_str("interval ")?;
            match count.kind {
                ExprKind::Column(_) | ExprKind::Of { .. } | ExprKind::Literal(_) | ExprKind::Secret(_) => {
                    bare(f, count)?
                }
                _ => write!(f, "({count})")?,
            }
            write!(f, " {}", unit.name())
        }
        ExprKind::Unit(unit) => f.write_str(unit.name()),
    }
}

/// A chain of operators of one level, however long, without going down into it.
fn chain(f: &mut fmt::Formatter<'_>, expr: &Expr) -> fmt::Result {
    let ExprKind::Binary(op, ..) = &expr.kind else { return Ok(()) };
    let here = binary_level(*op);
    let mut rest = expr;
    let mut parts = Vec::new();
    while let ExprKind::Binary(op, left, right) = &rest.kind
        && binary_level(*op) == here
    {
        parts.push((op, &**right));
        rest = left;
    }
    write(f, rest, here + u8::from(here == level::COMPARE))?;
    for (op, right) in parts.into_iter().rev() {
        match op {
            BinaryOp::JsonExtract | BinaryOp::JsonUnquote => f.write_str(op.symbol())?,
            _ => write!(f, " {} ", op.symbol())?,
        }
        write(f, right, here + 1)?;
    }
    Ok(())
}

/// In single quotes, as MySQL reads them (manual 11.1.1). `\%` and `\_` stay as they are, for LIKE.
fn text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("'")?;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => f.write_str("''")?,
            '\\' if matches!(chars.peek(), Some('%' | '_')) => f.write_str("\\")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\0' => f.write_str("\\0")?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("'")
}

fn literal(f: &mut fmt::Formatter<'_>, value: &Value<'_>) -> fmt::Result {
    match value {
        Value::Null | Value::Absent => f.write_str("null"),
        // with an exponent, which makes it a DOUBLE
        Value::Double(v) => write!(f, "{v:e}"),
        Value::Float(v) => write!(f, "{v:e}"),
        Value::Text(v) | Value::Json(v) => text(f, v),
        Value::Enum { label, .. } => text(f, label),
        Value::Set { labels, .. } => text(f, labels),
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => {
            f.write_str("x'")?;
            v.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
            f.write_str("'")
        }
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Timestamp(_) => write!(f, "'{value}'"),
        other => write!(f, "{other}"),
    }
}

/// As it is written behind `as`.
impl fmt::Display for CastType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sized = |f: &mut fmt::Formatter<'_>, word: &str, n: Option<u32>| match n {
            Some(n) => write!(f, "{word}({n})"),
            None => f.write_str(word),
        };
        let fraction = |fsp: u8| (fsp > 0).then_some(u32::from(fsp));
        match *self {
            CastType::Signed => f.write_str("signed"),
            CastType::Unsigned => f.write_str("unsigned"),
            CastType::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            CastType::Double => f.write_str("double"),
            CastType::Float => f.write_str("float"),
            CastType::Char { length } => sized(f, "char", length),
            CastType::Binary { length } => sized(f, "binary", length),
            CastType::Date => f.write_str("date"),
            CastType::DateTime { fsp } => sized(f, "datetime", fraction(fsp)),
            CastType::Time { fsp } => sized(f, "time", fraction(fsp)),
            CastType::Year => f.write_str("year"),
            CastType::Json => f.write_str("json"),
        }
    }
}
