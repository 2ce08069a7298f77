//! Values of a test, as a strict INSERT would store them.

use cdc_core::address::canonical;
use cdc_core::codes;
use cdc_core::diagnostic::{Diagnostic, Span};
use cdc_core::event::{Op, Origin};
use cdc_core::expr::eval::{RowMeta, bind};
use cdc_core::expr::{CastType, Expr, ExprKind};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema, same_name};
use cdc_core::value::{Timestamp, Value};
use cdc_schema::coerce::convert;
use std::sync::Arc;

/// The last second of a TIMESTAMP: 2038-01-19 03:14:07 UTC.
const LAST_SECOND: i64 = 2_147_483_647;

/// What a column stores of a value that is written into it.
///
/// # Errors
/// At its place: what is wrong with the expression, or why its value is none of the column's.
pub(super) fn stored(expr: &Expr, column: &Column) -> Result<Value<'static>, Diagnostic> {
    let (value, from) = evaluated(expr)?;
    let Some(from) = from.filter(|_| !value.is_null()) else { return Ok(Value::Null) };
    // the value itself is not shown: it may have come from the environment
    let none = |why: String| {
        let headline = format!("the value is none of column \"{}\" {}: {why}", column.name, column.ty);
        Diagnostic::error(codes::OUT_OF_RANGE, headline).at(expr.span.clone(), "")
    };
    let written = value.clone();
    let value = prepared(value, &from, &column.ty).map_err(none)?;
    // as it is written: it may be secret
    let mut cast_of = match value == written {
        true => expr.clone(),
        false => Expr { kind: ExprKind::Literal(value.clone()), span: expr.span.clone() },
    };
    let from = if value != written && matches!(value, Value::UInt(_)) { WHOLE } else { from };
    let casts = casts(&value, &column.ty);
    let (value, from) = if casts.is_empty() {
        (value, from)
    } else {
        for to in casts {
            cast_of = Expr { kind: ExprKind::Cast(Box::new(cast_of), to), span: expr.span.clone() };
        }
        let (value, ty) = evaluated(&cast_of).map_err(|d| in_column(d, column))?;
        (value, ty.unwrap_or(from))
    };
    fitted(&value, &from, &column.ty).map_err(none)
}

const WHOLE: ColumnType = ColumnType::Int { width: IntWidth::Big, unsigned: true };

/// A value as a column's type first takes it, where that is not a cast.
fn prepared(value: Value<'static>, from: &ColumnType, to: &ColumnType) -> Result<Value<'static>, String> {
    let number = matches!(
        to,
        ColumnType::Int { .. }
            | ColumnType::Decimal { .. }
            | ColumnType::Float { .. }
            | ColumnType::Double { .. }
            | ColumnType::Year
    );
    let texts = matches!(to, ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. });
    let bytes =
        matches!(to, ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. });
    Ok(match (value, to) {
        // x'41' and b'101' are numbers in a column of numbers, and bytes in others
        (Value::Bytes(v), _) if number => Value::UInt(whole_of(&v).ok_or("it is out of range")?),
        (Value::Bit(v), _) if number => Value::UInt(v),
        (Value::Bit(v), _) if texts || bytes => {
            let width = if let ColumnType::Bit { width } = from { usize::from(*width) } else { 64 };
            let all = v.to_be_bytes();
            Value::Bytes(all[all.len() - width.div_ceil(8).clamp(1, 8)..].to_vec().into())
        }
        // an approximate number is rounded half to even, and cut for a BIT
        (Value::Double(v), ColumnType::Int { .. }) => Value::Double(v.round_ties_even()),
        (Value::Float(v), ColumnType::Int { .. }) => Value::Double(f64::from(v).round_ties_even()),
        (Value::Double(v), ColumnType::Bit { .. }) => Value::Double(v.trunc()),
        (Value::Float(v), ColumnType::Bit { .. }) => Value::Double(f64::from(v).trunc()),
        // bytes are bits, those of a text too
        (Value::Bytes(v), ColumnType::Bit { .. }) => Value::UInt(whole_of(&v).ok_or("it has too many bits")?),
        (Value::Text(v), ColumnType::Bit { .. }) => {
            Value::UInt(whole_of(v.as_bytes()).ok_or("it has too many bits")?)
        }
        // 0 of four digits is the year 0
        (Value::Text(v), ColumnType::Year) if v.trim().len() != 4 && v.trim().parse() == Ok(0u8) => {
            Value::UInt(2000)
        }
        (Value::Text(v), ColumnType::Time { .. }) if v.contains(['T', 't']) => {
            return Err("between day and time there is a space".to_owned());
        }
        (value, _) => value,
    })
}

/// Bytes as a number, the big end first.
fn whole_of(bytes: &[u8]) -> Option<u64> {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let bytes = bytes.get(first..).filter(|bytes| bytes.len() <= 8)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn in_column(diagnostic: Diagnostic, column: &Column) -> Diagnostic {
    diagnostic.note(format!("it is to be a value of column \"{}\" {}", column.name, column.ty))
}

/// The value of an expression that reads no column, and its type; the literal NULL has none.
fn evaluated(expr: &Expr) -> Result<(Value<'static>, Option<ColumnType>), Diagnostic> {
    let table = TableId::new("", "");
    let schema = TableSchema {
        id: table.clone(),
        version: 0,
        columns: Vec::new(),
        primary_key: Vec::new(),
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    };
    let unknown = || Diagnostic::error(codes::INTERNAL, "an expression was refused without a reason");
    let bound = bind(expr, &schema).map_err(|found| found.into_iter().next().unwrap_or_else(unknown))?;
    let origin = Origin::default();
    let value = bound
        .eval(&[], &RowMeta { op: Op::Insert, table: &table, origin: &origin })
        .map_err(|error| placed(error.diagnostic().clone(), &expr.span))?
        .into_owned();
    Ok((value, bound.ty().ty.clone()))
}

/// A diagnostic that has a place; this one if it has none.
pub(super) fn placed(diagnostic: Diagnostic, span: &Span) -> Diagnostic {
    if diagnostic.labels.is_empty() { diagnostic.at(span.clone(), "") } else { diagnostic }
}

/// What a value is cast to on its way into a column, one behind the other.
fn casts(value: &Value<'_>, to: &ColumnType) -> Vec<CastType> {
    // a fraction of a second is rounded before what is smaller or larger is told
    let rounded = match (to, value) {
        (ColumnType::Date, Value::Text(_) | Value::DateTime(_) | Value::Timestamp(_))
        | (ColumnType::Int { .. }, Value::DateTime(_) | Value::Timestamp(_)) => {
            Some(CastType::DateTime { fsp: 0 })
        }
        (ColumnType::Int { .. }, Value::Time(_)) => Some(CastType::Time { fsp: 0 }),
        _ => None,
    };
    rounded.into_iter().chain(cast(value, to)).collect()
}

fn cast(value: &Value<'_>, to: &ColumnType) -> Option<CastType> {
    match (to, value) {
        (ColumnType::Int { .. } | ColumnType::Bit { .. }, Value::Int(_) | Value::UInt(_) | Value::Bit(_)) => {
            None
        }
        // rounded, as an INSERT does
        (ColumnType::Int { .. } | ColumnType::Bit { .. }, _) => {
            Some(CastType::Decimal { precision: 65, scale: 0 })
        }
        (ColumnType::Decimal { scale, .. }, _) => {
            Some(CastType::Decimal { precision: 65, scale: (*scale).min(30) })
        }
        (ColumnType::Float { .. } | ColumnType::Double { .. }, _) => Some(CastType::Double),
        (ColumnType::Year, Value::Text(_) | Value::Int(_) | Value::UInt(_)) => Some(CastType::Year),
        (ColumnType::Date, _) => Some(CastType::Date),
        (ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp }, _) => {
            Some(CastType::DateTime { fsp: *fsp })
        }
        (ColumnType::Time { fsp }, _) => Some(CastType::Time { fsp: *fsp }),
        (ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. }, Value::Text(_)) => {
            None
        }
        (ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. }, _) => {
            Some(CastType::Char { length: None })
        }
        (
            ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. },
            Value::Bytes(_) | Value::Text(_) | Value::Geometry(_) | Value::Vector(_),
        ) => None,
        (ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. }, _) => {
            Some(CastType::Char { length: None })
        }
        (ColumnType::Json, Value::Text(_)) => Some(CastType::Json),
        _ => None,
    }
}

/// A value as one of a type, or why it is none.
pub(super) fn fitted(
    value: &Value<'_>,
    from: &ColumnType,
    to: &ColumnType,
) -> Result<Value<'static>, String> {
    let plain = |value: &Value<'_>| convert(value, from, to).map(Value::into_owned);
    match (to, value) {
        (ColumnType::Enum { labels, .. }, Value::Text(text)) => {
            let at = member(labels, text).ok_or("it is none of the members")?;
            Ok(Value::Enum { index: at as u16 + 1, label: labels[at].to_string().into() })
        }
        (ColumnType::Set { labels, .. }, Value::Text(text)) => {
            let mut bits = 0u64;
            for word in text.split(',').filter(|_| !text.is_empty()) {
                bits |= 1 << member(labels, word).ok_or("it is not made of the members")?;
            }
            let set = labels.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            let text: Vec<&str> = set.map(|(_, label)| &**label).collect();
            Ok(Value::Set { bits, labels: text.join(",").into() })
        }
        (ColumnType::Bit { width }, value) if !matches!(value, Value::Bit(_)) => {
            let bits = match value {
                Value::Int(v) => u64::try_from(*v).ok(),
                Value::UInt(v) => Some(*v),
                Value::Decimal(v) => v.parse().ok(),
                _ => None,
            };
            let bits = bits.filter(|bits| *width >= 64 || bits >> width == 0);
            bits.map(Value::Bit).ok_or_else(|| "it has too many bits".to_owned())
        }
        (ColumnType::Float { unsigned }, Value::Double(v)) => match *v as f32 {
            _ if v.abs() > f64::from(f32::MAX) => Err("it is out of range".to_owned()),
            v if *unsigned && v < 0.0 => Err("it is negative".to_owned()),
            v => Ok(Value::Float(v)),
        },
        (ColumnType::Timestamp { .. }, Value::DateTime(v)) => match v.micros_since_epoch() {
            Some(micros) if (1..=LAST_SECOND).contains(&micros.div_euclid(1_000_000)) => {
                Ok(Value::Timestamp(Timestamp { micros }))
            }
            _ => Err("it is out of range".to_owned()),
        },
        (ColumnType::Char { charset, .. }, Value::Text(text)) => {
            encoded(text, charset)?;
            plain(&Value::Text(text.trim_end_matches(' ').into()))
        }
        (ColumnType::VarChar { length, charset }, Value::Text(text)) => {
            encoded(text, charset)?;
            let end = text.char_indices().nth(*length as usize).map_or(text.len(), |(end, _)| end);
            plain(&Value::Text(without_spaces_behind(text, end).into()))
        }
        (ColumnType::Text { size, charset }, Value::Text(text)) => {
            encoded(text, charset)?;
            let most = usize::try_from(size.max_bytes()).unwrap_or(usize::MAX);
            plain(&Value::Text(without_spaces_behind(text, most).into()))
        }
        (ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. }, value) => {
            let mut bytes = match value {
                Value::Bytes(bytes) => bytes.to_vec(),
                Value::Text(text) => text.as_bytes().to_vec(),
                other => return Err(format!("{} is no {to}", other.kind())),
            };
            if let ColumnType::Binary { length } = to
                && bytes.len() < *length as usize
            {
                bytes.resize(*length as usize, 0);
            }
            plain(&Value::Bytes(bytes.into()))
        }
        (ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6, Value::Text(text)) => {
            canonical(to, text).map(|text| Value::Text(text.into())).ok_or_else(|| format!("it is no {to}"))
        }
        (ColumnType::Geometry { .. }, Value::Bytes(bytes)) => Ok(Value::Geometry(bytes.to_vec().into())),
        (ColumnType::Vector { .. }, Value::Bytes(bytes)) => plain(&Value::Vector(bytes.to_vec().into())),
        _ => plain(value),
    }
}

/// Spaces that would stand behind a column's length are cut.
fn without_spaces_behind(text: &str, end: usize) -> &str {
    match text.get(end..) {
        Some(rest) if rest.bytes().all(|byte| byte == b' ') => &text[..end],
        _ => text,
    }
}

/// What stands in the place of latin1's bytes 128 to 159.
const OF_CP1252: &str = "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ\u{81}\u{8d}\u{8f}\u{90}\u{9d}";

/// Has a character set all characters of a text? Of others than these two it is not asked.
fn encoded(text: &str, charset: &Charset) -> Result<(), String> {
    let has = |c: char| match &*charset.name {
        "ascii" => c.is_ascii(),
        "latin1" => c < '\u{80}' || ('\u{a0}'..='\u{ff}').contains(&c) || OF_CP1252.contains(c),
        _ => true,
    };
    if text.chars().all(has) {
        return Ok(());
    }
    Err(format!("character set {} does not have all its characters", charset.name))
}

/// The member of this label, as it is spelled or without regard to letter case.
fn member(labels: &[Arc<str>], text: &str) -> Option<usize> {
    let exact = labels.iter().position(|label| **label == *text);
    exact.or_else(|| labels.iter().position(|label| same_name(label, text)))
}
