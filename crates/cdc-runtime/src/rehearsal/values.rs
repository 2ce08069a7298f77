//! Values of a test, as a strict INSERT would store them.

use cdc_core::address::canonical;
use cdc_core::codes;
use cdc_core::diagnostic::{Diagnostic, Span};
use cdc_core::event::{Op, Origin};
use cdc_core::expr::eval::{RowMeta, bind};
use cdc_core::expr::{CastType, Expr, ExprKind};
use cdc_core::schema::{Charset, Column, ColumnType, TableId, TableSchema, same_name};
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
    let (value, from) = match cast(&value, &column.ty) {
        Some(to) => {
            let cast = Expr { kind: ExprKind::Cast(Box::new(expr.clone()), to), span: expr.span.clone() };
            let (value, ty) = evaluated(&cast).map_err(|d| in_column(d, column))?;
            (value, ty.unwrap_or(from))
        }
        None => (value, from),
    };
    fitted(&value, &from, &column.ty).map_err(|why| {
        // the value itself is not shown: it may have come from the environment
        let headline = format!("the value is none of column \"{}\" {}: {why}", column.name, column.ty);
        Diagnostic::error(codes::OUT_OF_RANGE, headline).at(expr.span.clone(), "")
    })
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

/// What a value is cast to on its way into a column; `None`: nothing.
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
        (ColumnType::Year, Value::Text(_)) => Some(CastType::Year),
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
            for word in text.split(',').filter(|word| !word.is_empty()) {
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
            v if !v.is_finite() => Err("it is out of range".to_owned()),
            v if *unsigned && v < 0.0 => Err("it is negative".to_owned()),
            v => Ok(Value::Float(v)),
        },
        (ColumnType::Timestamp { .. }, Value::DateTime(v)) => match v.micros_since_epoch() {
            Some(micros) if (1..=LAST_SECOND).contains(&micros.div_euclid(1_000_000)) => {
                Ok(Value::Timestamp(Timestamp { micros }))
            }
            _ => Err("it is out of range".to_owned()),
        },
        (ColumnType::Char { .. }, Value::Text(text)) => {
            plain(&Value::Text(text.trim_end_matches(' ').into()))
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

/// The member of this label, as it is spelled or without regard to letter case.
fn member(labels: &[Arc<str>], text: &str) -> Option<usize> {
    let exact = labels.iter().position(|label| **label == *text);
    exact.or_else(|| labels.iter().position(|label| same_name(label, text)))
}
