//! Rows of the original schema as rows of the evolved schema, without loss or not at all.
//!
//! A [`Coercion`] names, for each column that is written, the column of the flow's row that it comes from, and what its
//! values are turned into where the types differ. [`convert`] gives the same value in another type (`17` as `17.00`, a
//! DATE as a DATETIME at midnight, a member of an ENUM under its new number) or says why there is none: a value is never
//! rounded, cut, wrapped around or made NULL. What "the same" means: the value can be read back from the result.
//!
//! Nearly always nothing differs; then there is no coercion at all, and rows pass as they are.

use crate::merge::same_type;
use cdc_core::address::canonical;
use cdc_core::connector::{TargetBatch, TargetChange, TargetTable};
use cdc_core::expr::eval::server_text;
use cdc_core::schema::{ColumnType, IntWidth};
use cdc_core::value::{Date, DateTime, Value};
use cdc_core::{Error, Result, Row, RowBuilder, codes};
use std::borrow::Cow;
use std::sync::Arc;

/// How rows of one shape become rows of another.
#[derive(Debug, Clone)]
pub struct Coercion {
    /// The shape that rows come in.
    from: Arc<TargetTable>,
    /// The shape that is written.
    to: Arc<TargetTable>,
    /// For each column that is written: the index of the one it comes from, and the types where values change.
    columns: Vec<(usize, Option<(ColumnType, ColumnType)>)>,
}

impl Coercion {
    /// `columns`: for each column of `to` the index of a column of `from`.
    pub fn new(from: Arc<TargetTable>, to: Arc<TargetTable>, columns: Vec<usize>) -> Coercion {
        let columns = columns
            .into_iter()
            .zip(&to.schema.columns)
            .map(|(i, column)| {
                let ty = &from.schema.columns[i].ty;
                (i, (!same_type(ty, &column.ty)).then(|| (ty.clone(), column.ty.clone())))
            })
            .collect();
        Coercion { from, to, columns }
    }

    /// The shape that is written.
    pub fn to(&self) -> &Arc<TargetTable> {
        &self.to
    }

    /// The row in the shape that is written.
    ///
    /// # Errors
    /// `TARGET_VALUE` with table, column, key and value.
    pub fn row(&self, row: &Row) -> Result<Row> {
        let values: Vec<Value<'_>> = row.iter().collect();
        let mut builder = RowBuilder::with_capacity(row.as_bytes().len());
        for (i, types) in &self.columns {
            let value = values.get(*i).cloned().unwrap_or(Value::Absent);
            match types {
                None => builder.push(&value),
                Some((from, to)) => {
                    let converted =
                        convert(&value, from, to).map_err(|why| self.refused(*i, row, &value, &why))?;
                    builder.push(&converted);
                }
            }
        }
        Ok(builder.finish())
    }

    /// A batch in the shape that is written.
    ///
    /// # Errors
    /// As [`Coercion::row`].
    pub fn batch(&self, batch: &TargetBatch) -> Result<TargetBatch> {
        let changes = batch.changes.iter().map(|c| self.change(c)).collect::<Result<_>>()?;
        Ok(TargetBatch { table: self.to.clone(), origins: batch.origins.clone(), changes })
    }

    fn change(&self, change: &TargetChange) -> Result<TargetChange> {
        let row = change.row.as_ref().map(|row| self.row(row)).transpose()?;
        let before = change.before.as_ref().map(|row| self.row(row)).transpose()?;
        let key = if self.from.is_multiset() { self.row(&change.key)? } else { self.key(&change.key)? };
        Ok(TargetChange { key, row, before, ..change.clone() })
    }

    /// A packed key; its columns are those of the flow's key, in that order.
    fn key(&self, key: &Row) -> Result<Row> {
        let mut builder = RowBuilder::with_capacity(key.as_bytes().len());
        for (value, i) in key.iter().zip(&self.from.key) {
            match self.columns.iter().find(|(from, _)| from == i) {
                Some((_, Some((from, to)))) => {
                    let converted = convert(&value, from, to)
                        .map_err(|why| self.error(*i, &value, &why).note(format!("key: {key:?}")))?;
                    builder.push(&converted);
                }
                _ => builder.push(&value),
            }
        }
        Ok(builder.finish())
    }

    fn error(&self, column: usize, value: &Value<'_>, why: &str) -> Error {
        let column = &self.from.schema.columns[column];
        let there = self.columns.iter().position(|(i, _)| self.from.schema.columns[*i].name == column.name);
        let wanted = there.map_or_else(String::new, |i| {
            let there = &self.to.schema.columns[i];
            format!("; at the target it is \"{}\" {}", there.name, there.ty)
        });
        Error::definite(
            codes::TARGET_VALUE,
            format!(
                "table \"{}\", column \"{}\": {} does not fit the target's column: {why}",
                self.to.name,
                column.name,
                shown(value)
            ),
        )
        .note(format!("at the source the column is {}{wanted}", column.ty))
        .help(
            "let the flow follow the change: on_schema_change = lenient or evolve; then copy the table anew",
        )
    }

    fn refused(&self, column: usize, row: &Row, value: &Value<'_>, why: &str) -> Error {
        let key: Vec<String> = self
            .from
            .key
            .iter()
            .map(|&i| format!("{} = {}", self.from.schema.columns[i].name, shown(&row.get(i))))
            .collect();
        let error = self.error(column, value, why);
        if key.is_empty() { error } else { error.note(format!("key: {}", key.join(", "))) }
    }
}

/// The longest picture of a value in a message.
const MAX_SHOWN: usize = 100;

fn shown(value: &Value<'_>) -> String {
    let mut text = value.to_string();
    if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
        text.truncate(end);
        text.push_str("..");
    }
    text
}

/// The same value in another type, or why there is none.
///
/// # Errors
/// A few words: `it is out of range`.
pub fn convert<'a>(value: &Value<'a>, from: &ColumnType, to: &ColumnType) -> Result<Value<'a>, String> {
    if matches!(value, Value::Null | Value::Absent) {
        return Ok(value.clone());
    }
    let unlike = || Err(format!("{} is no {to}", value.kind()));
    match to {
        ColumnType::Int { width, unsigned } => match whole(value) {
            Some(v) => int(v, *width, *unsigned).ok_or_else(|| "it is out of range".to_owned()),
            None if matches!(value, Value::Decimal(_) | Value::Float(_) | Value::Double(_)) => {
                Err("it would lose digits of its fraction".to_owned())
            }
            None => unlike(),
        },
        ColumnType::Year => match (value, whole(value)) {
            (Value::Year(_), _) => Ok(value.clone()),
            (_, Some(v)) if v == 0 || (1901..=2155).contains(&v) => Ok(Value::Year(v as u16)),
            (_, Some(_)) => Err("it is no year".to_owned()),
            _ => unlike(),
        },
        ColumnType::Bit { width } => match value {
            Value::Bit(v) if *width >= 64 || v >> width == 0 => Ok(value.clone()),
            Value::Bit(_) => Err("it has too many bits".to_owned()),
            _ => unlike(),
        },
        ColumnType::Decimal { precision, scale, unsigned } => {
            let Some(text) = number_text(value) else { return unlike() };
            decimal(&text, *precision, *scale, *unsigned)
        }
        ColumnType::Double { unsigned } => match float(value)? {
            Some(v) if *unsigned && v < 0.0 => Err("it is negative".to_owned()),
            Some(v) => Ok(Value::Double(v)),
            None => unlike(),
        },
        ColumnType::Float { unsigned } => match (value, float(value)?) {
            (Value::Float(v), _) if !(*unsigned && *v < 0.0) => Ok(value.clone()),
            (_, Some(v)) if *unsigned && v < 0.0 => Err("it is negative".to_owned()),
            (_, Some(v)) if f64::from(v as f32).to_bits() == v.to_bits() => Ok(Value::Float(v as f32)),
            (_, Some(_)) => Err("a FLOAT has fewer digits".to_owned()),
            _ => unlike(),
        },
        ColumnType::Char { length, .. } => {
            let Some(text) = server_text(value, fsp(from)) else { return unlike() };
            if text.ends_with(' ') {
                return Err("a CHAR has no spaces at its end".to_owned());
            }
            no_longer(text, u64::from(*length))
        }
        ColumnType::VarChar { length, .. } => {
            let Some(text) = server_text(value, fsp(from)) else { return unlike() };
            no_longer(text, u64::from(*length))
        }
        ColumnType::Text { size, .. } => {
            let Some(text) = server_text(value, fsp(from)) else { return unlike() };
            // in bytes of the target's character set; UTF-8 is the widest in use
            if text.len() as u64 > size.max_bytes() {
                return Err("it is too long".to_owned());
            }
            Ok(Value::Text(text))
        }
        ColumnType::Enum { labels, .. } => match value {
            Value::Enum { index: 0, .. } => Ok(value.clone()),
            Value::Enum { label, .. } | Value::Text(label) => {
                match labels.iter().position(|l| **l == **label) {
                    Some(i) => Ok(Value::Enum { index: i as u16 + 1, label: label.clone() }),
                    None => Err("it is none of the members".to_owned()),
                }
            }
            _ => unlike(),
        },
        ColumnType::Set { labels, .. } => match value {
            Value::Set { labels: text, .. } => {
                let mut bits = 0u64;
                for word in text.split(',').filter(|w| !w.is_empty()) {
                    match labels.iter().position(|l| **l == *word) {
                        Some(i) => bits |= 1 << i,
                        None => return Err("it is not made of the members".to_owned()),
                    }
                }
                let text: Vec<&str> = labels
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| bits >> i & 1 == 1)
                    .map(|(_, l)| &**l)
                    .collect();
                Ok(Value::Set { bits, labels: Cow::Owned(text.join(",")) })
            }
            _ => unlike(),
        },
        ColumnType::Binary { length } => match value {
            // a longer column would fill it up with zeros
            Value::Bytes(v) if v.len() == *length as usize => Ok(value.clone()),
            Value::Bytes(_) => Err("it has another length".to_owned()),
            _ => unlike(),
        },
        ColumnType::VarBinary { length } => match value {
            Value::Bytes(v) if v.len() <= *length as usize => Ok(value.clone()),
            Value::Bytes(_) => Err("it is too long".to_owned()),
            _ => unlike(),
        },
        ColumnType::Blob { size } => match value {
            Value::Bytes(v) if v.len() as u64 <= size.max_bytes() => Ok(value.clone()),
            Value::Bytes(_) => Err("it is too long".to_owned()),
            _ => unlike(),
        },
        ColumnType::Date => match value {
            Value::Date(_) => Ok(value.clone()),
            Value::DateTime(DateTime { date, hour: 0, minute: 0, second: 0, micro: 0 }) => {
                Ok(Value::Date(*date))
            }
            Value::DateTime(_) => Err("it has a time of day".to_owned()),
            _ => unlike(),
        },
        ColumnType::DateTime { fsp } => match value {
            Value::Date(date) => Ok(Value::DateTime(DateTime { date: *date, ..midnight() })),
            Value::DateTime(v) => fraction(i64::from(v.micro), *fsp).map(|()| value.clone()),
            _ => unlike(),
        },
        ColumnType::Timestamp { fsp } => match value {
            Value::Timestamp(v) => fraction(v.micros, *fsp).map(|()| value.clone()),
            _ => unlike(),
        },
        ColumnType::Time { fsp } => match value {
            Value::Time(v) => fraction(v.micros, *fsp).map(|()| value.clone()),
            _ => unlike(),
        },
        ColumnType::Json => match value {
            Value::Json(_) => Ok(value.clone()),
            _ => unlike(),
        },
        ColumnType::Geometry { kind, srid } => match (value, from) {
            (Value::Geometry(v), ColumnType::Geometry { kind: have, .. }) => {
                let its: Option<[u8; 4]> = v.get(..4).and_then(|b| b.try_into().ok());
                if &**kind != "geometry" && kind != have {
                    return Err(format!("a {have} need not be a {kind}"));
                }
                if srid.is_some() && its.map(u32::from_le_bytes) != *srid {
                    return Err("it has another SRID".to_owned());
                }
                Ok(value.clone())
            }
            _ => unlike(),
        },
        ColumnType::Vector { dimensions } => match value {
            Value::Vector(v) if v.len() / 4 <= *dimensions as usize => Ok(value.clone()),
            Value::Vector(_) => Err("it has more dimensions".to_owned()),
            _ => unlike(),
        },
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => match value {
            Value::Text(text) if matches!((from, to), (ColumnType::Inet4, ColumnType::Inet6)) => {
                canonical(to, &format!("::ffff:{text}"))
                    .map(|t| Value::Text(t.into()))
                    .ok_or_else(|| format!("it is no {from}"))
            }
            Value::Text(text) => match canonical(to, text) {
                Some(same) if same == **text => Ok(value.clone()),
                _ => Err(format!("it is not written as a value of type {to}")),
            },
            _ => unlike(),
        },
    }
}

fn midnight() -> DateTime {
    DateTime { date: Date::default(), hour: 0, minute: 0, second: 0, micro: 0 }
}

/// Digits of fraction that its type shows.
fn fsp(ty: &ColumnType) -> u8 {
    match ty {
        ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => *fsp,
        _ => 0,
    }
}

fn fraction(micros: i64, fsp: u8) -> Result<(), String> {
    let unit = 10i64.pow(6u32.saturating_sub(u32::from(fsp)));
    if micros % unit == 0 { Ok(()) } else { Err("it would lose digits of its fraction".to_owned()) }
}

/// A number without a fraction.
fn whole(value: &Value<'_>) -> Option<i128> {
    match value {
        Value::Int(v) => Some(i128::from(*v)),
        Value::UInt(v) => Some(i128::from(*v)),
        Value::Year(v) => Some(i128::from(*v)),
        Value::Decimal(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            if fraction.bytes().all(|b| b == b'0') { whole.parse().ok() } else { None }
        }
        // beyond 2^53 several whole numbers share one double
        Value::Double(v) if v.trunc() == *v && v.abs() <= 9_007_199_254_740_992.0 && !negative_zero(*v) => {
            Some(*v as i128)
        }
        Value::Float(v) if v.trunc() == *v && v.abs() <= 16_777_216.0 && !negative_zero(f64::from(*v)) => {
            Some(*v as i128)
        }
        _ => None,
    }
}

fn negative_zero(v: f64) -> bool {
    v == 0.0 && v.is_sign_negative()
}

fn int<'a>(v: i128, width: IntWidth, unsigned: bool) -> Option<Value<'a>> {
    let bits = match width {
        IntWidth::Tiny => 8,
        IntWidth::Small => 16,
        IntWidth::Medium => 24,
        IntWidth::Int => 32,
        IntWidth::Big => 64,
    };
    if unsigned {
        return u64::try_from(v).ok().filter(|v| bits == 64 || v >> bits == 0).map(Value::UInt);
    }
    let half = 1i128 << (bits - 1);
    (-half..half).contains(&v).then_some(Value::Int(v as i64))
}

/// A number's digits, without an exponent.
fn number_text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Decimal(v) => Some(v.to_string()),
        // the shortest digits that read back as the same number
        Value::Double(v) if v.is_finite() && !negative_zero(*v) => Some(format!("{v}")),
        Value::Float(v) if v.is_finite() && !negative_zero(f64::from(*v)) => Some(format!("{v}")),
        Value::Double(_) | Value::Float(_) => None,
        other => whole(other).map(|v| v.to_string()),
    }
}

fn decimal<'a>(text: &str, precision: u8, scale: u8, unsigned: bool) -> Result<Value<'a>, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = usize::from(scale);
    let (kept, lost) = fraction.split_at(fraction.len().min(scale));
    if lost.bytes().any(|b| b != b'0') {
        return Err("it would lose digits of its fraction".to_owned());
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > usize::from(precision).saturating_sub(scale) {
        return Err("it has too many digits".to_owned());
    }
    let zero = whole.is_empty() && kept.bytes().all(|b| b == b'0');
    let sign = if zero { "" } else { sign };
    if unsigned && !sign.is_empty() {
        return Err("it is negative".to_owned());
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    let text = if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{kept:0<scale$}") };
    Ok(Value::Decimal(text.into()))
}

/// A number as a DOUBLE that is read back as that number.
fn float(value: &Value<'_>) -> Result<Option<f64>, String> {
    let digits = |text: &str| {
        let plain = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
        (whole.trim_start_matches('0').to_owned(), fraction.trim_end_matches('0').to_owned())
    };
    Ok(match value {
        Value::Double(v) => Some(*v),
        Value::Float(v) => Some(f64::from(*v)),
        other => {
            let Some(text) = number_text(other) else { return Ok(None) };
            let v: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
            if digits(&text) != digits(&format!("{v}")) {
                return Err("a DOUBLE has fewer digits".to_owned());
            }
            Some(v)
        }
    })
}

fn no_longer<'a>(text: Cow<'a, str>, characters: u64) -> Result<Value<'a>, String> {
    // no character takes less than a byte
    if text.len() as u64 > characters && text.chars().count() as u64 > characters {
        return Err("it is too long".to_owned());
    }
    Ok(Value::Text(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::{common, tests::all_types};
    use cdc_core::value::{Time, Timestamp};

    /// Values of a type, its extremes among them.
    fn values(ty: &ColumnType) -> Vec<Value<'static>> {
        let text = |t: String| Value::Text(t.into());
        match ty {
            ColumnType::Int { width, unsigned } => {
                let all =
                    [i128::from(i64::MIN), -1, 0, 1, 127, 255, i128::from(i64::MAX), i128::from(u64::MAX)];
                all.into_iter().filter_map(|v| int(v, *width, *unsigned)).collect()
            }
            ColumnType::Year => vec![Value::Year(0), Value::Year(1901), Value::Year(2155)],
            ColumnType::Decimal { precision, scale, unsigned } => {
                let whole = "9".repeat(usize::from(precision - scale));
                let whole = if whole.is_empty() { "0".to_owned() } else { whole };
                let nines =
                    if *scale == 0 { whole } else { format!("{whole}.{}", "9".repeat(usize::from(*scale))) };
                let zero = if *scale == 0 {
                    "0".to_owned()
                } else {
                    format!("0.{}", "0".repeat(usize::from(*scale)))
                };
                let mut all = vec![Value::Decimal(zero.into()), Value::Decimal(nines.clone().into())];
                if !unsigned {
                    all.push(Value::Decimal(format!("-{nines}").into()));
                }
                all
            }
            ColumnType::Float { unsigned } => {
                let all = [0.0f32, 0.1, 1e30, -1.5, -0.0, f32::MAX];
                all.into_iter().filter(|v| !unsigned || *v >= 0.0).map(Value::Float).collect()
            }
            ColumnType::Double { unsigned } => {
                let all = [0.0f64, 0.1, 1e300, -1.5, -0.0, f64::MAX];
                all.into_iter().filter(|v| !unsigned || *v >= 0.0).map(Value::Double).collect()
            }
            ColumnType::Bit { width } => vec![Value::Bit(0), Value::Bit(u64::MAX >> (64 - width))],
            ColumnType::Char { length, .. } => vec![text(String::new()), text("ä".repeat(*length as usize))],
            ColumnType::VarChar { length, .. } => {
                vec![text(String::new()), text(" ".repeat(*length as usize))]
            }
            ColumnType::Text { .. } => vec![text(String::new()), text("😀 ".to_owned())],
            ColumnType::Binary { length } => vec![Value::Bytes(vec![0; *length as usize].into())],
            ColumnType::VarBinary { length } => vec![Value::Bytes(vec![255; *length as usize].into())],
            ColumnType::Blob { .. } => vec![Value::Bytes(vec![].into())],
            ColumnType::Enum { labels, .. } => {
                let mut all = vec![Value::Enum { index: 0, label: "".into() }];
                all.extend(
                    labels
                        .iter()
                        .enumerate()
                        .map(|(i, l)| Value::Enum { index: i as u16 + 1, label: l.to_string().into() }),
                );
                all
            }
            ColumnType::Set { labels, .. } => {
                let bits = (1u64 << labels.len()) - 1;
                vec![
                    Value::Set { bits: 0, labels: "".into() },
                    Value::Set { bits, labels: labels.join(",").into() },
                ]
            }
            ColumnType::Date => vec![
                Value::Date(Date { year: 0, month: 0, day: 0 }),
                Value::Date(Date { year: 9999, month: 12, day: 31 }),
            ],
            ColumnType::DateTime { fsp } => {
                let micro = 999_999 / 10u32.pow(6 - u32::from(*fsp)) * 10u32.pow(6 - u32::from(*fsp));
                let date = Date { year: 2026, month: 2, day: 28 };
                vec![Value::DateTime(DateTime { date, hour: 23, minute: 59, second: 59, micro })]
            }
            ColumnType::Timestamp { .. } => vec![Value::Timestamp(Timestamp { micros: 1_000_000 })],
            ColumnType::Time { .. } => vec![Value::Time(Time { micros: -3_020_399_000_000 })],
            ColumnType::Json => vec![Value::Json("{\"a\": 1}".into())],
            ColumnType::Geometry { srid, .. } => {
                let mut bytes = srid.unwrap_or(0).to_le_bytes().to_vec();
                bytes.extend([1, 1, 0, 0, 0]);
                vec![Value::Geometry(bytes.into())]
            }
            ColumnType::Vector { dimensions } => {
                vec![Value::Vector(vec![0; 4 * *dimensions as usize].into())]
            }
            ColumnType::Uuid => vec![text("00000000-0000-0000-0000-00000000000a".to_owned())],
            ColumnType::Inet4 => vec![text("10.0.0.1".to_owned())],
            ColumnType::Inet6 => vec![text("::1".to_owned())],
        }
    }

    /// Where there is a common type, every value of both goes there and comes back as it was.
    #[test]
    fn case_53_no_value_changes_on_its_way_to_the_common_type() {
        let types = all_types();
        let mut count = 0;
        for from in &types {
            for other in &types {
                let Some(to) = common(from, other) else { continue };
                for value in values(from) {
                    let there = convert(&value, from, &to).unwrap_or_else(|why| {
                        panic!("{value} of {from} as {to}, common with {other}: {why}")
                    });
                    count += 1;
                    // the way back exists where the type is not a text that tells no kind
                    if let Ok(back) = convert(&there, &to, from) {
                        assert_eq!(back, value, "{value} of {from} by way of {to}");
                    }
                }
            }
        }
        assert!(count > 2000, "{count}");
    }

    #[test]
    fn what_would_change_a_value_is_refused() {
        let int_type = |width| ColumnType::Int { width, unsigned: false };
        let varchar = |length| ColumnType::VarChar { length, charset: cdc_core::schema::Charset::utf8mb4() };
        let double = ColumnType::Double { unsigned: false };
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale, unsigned: false };
        let date = Date { year: 2026, month: 1, day: 31 };
        for (value, from, to) in [
            (Value::Int(128), int_type(IntWidth::Small), int_type(IntWidth::Tiny)),
            (
                Value::Int(-1),
                int_type(IntWidth::Small),
                ColumnType::Int { width: IntWidth::Big, unsigned: true },
            ),
            (Value::Double(0.5), double.clone(), int_type(IntWidth::Int)),
            (Value::Double(-0.0), double.clone(), int_type(IntWidth::Int)),
            (Value::Int(9_007_199_254_740_993), int_type(IntWidth::Big), double.clone()),
            (Value::Decimal("0.30000000000000001".into()), decimal(20, 17), double.clone()),
            (Value::Double(0.1), double.clone(), ColumnType::Float { unsigned: false }),
            (Value::Decimal("1.55".into()), decimal(5, 2), decimal(5, 1)),
            (Value::Decimal("100".into()), decimal(3, 0), decimal(4, 2)),
            (Value::Text("abc".into()), varchar(3), varchar(2)),
            (Value::Text("17".into()), varchar(3), int_type(IntWidth::Int)),
            (
                Value::DateTime(DateTime { date, hour: 0, minute: 0, second: 1, micro: 0 }),
                ColumnType::DateTime { fsp: 0 },
                ColumnType::Date,
            ),
            (Value::Time(Time { micros: 1 }), ColumnType::Time { fsp: 6 }, ColumnType::Time { fsp: 3 }),
            (
                Value::Timestamp(Timestamp { micros: 1 }),
                ColumnType::Timestamp { fsp: 6 },
                ColumnType::DateTime { fsp: 6 },
            ),
            (
                Value::Bytes(vec![1].into()),
                ColumnType::VarBinary { length: 1 },
                ColumnType::Binary { length: 2 },
            ),
        ] {
            assert!(convert(&value, &from, &to).is_err(), "{value} of {from} as {to}");
        }
        let same =
            |value: Value<'static>, from: &ColumnType, to: &ColumnType| convert(&value, from, to).unwrap();
        assert_eq!(same(Value::Double(17.0), &double, &int_type(IntWidth::Int)), Value::Int(17));
        assert_eq!(same(Value::Decimal("-0.50".into()), &decimal(5, 2), &double), Value::Double(-0.5));
        assert_eq!(same(Value::Double(0.1), &double, &decimal(5, 3)), Value::Decimal("0.100".into()));
        assert_eq!(same(Value::Int(7), &int_type(IntWidth::Int), &varchar(3)), Value::Text("7".into()));
        let midnight = DateTime { date, ..DateTime::default() };
        assert_eq!(
            same(Value::Date(date), &ColumnType::Date, &ColumnType::DateTime { fsp: 3 }),
            Value::DateTime(midnight)
        );
    }
}
