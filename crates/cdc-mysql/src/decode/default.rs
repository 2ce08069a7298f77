//! The value that a column has in a row whose INSERT does not name it: its DEFAULT, as the log or a SELECT would give it.
//!
//! Only what is certain is told. A constant is; what depends on the moment or the row (CURRENT_TIMESTAMP, an expression)
//! is not, nor is a TIMESTAMP's literal, whose text is of some session's time zone. A NOT NULL column without DEFAULT
//! reads the type's implicit one (MySQL manual 13.6 "Data Type Default Values"): zero, the empty text, the first member of
//! an ENUM; the server takes it outside of strict mode and with IGNORE only.

use super::charset::{Codec, charset};
use super::enum_set;
use super::in_key;
use super::number::decimal_from_result;
use super::temporal::{date_from_result, digits_from_result, time_from_result};
use crate::ddl::{DefaultValue, read_default};
use cdc_core::address::canonical;
use cdc_core::row::{Row, RowBuilder};
use cdc_core::schema::{Column, ColumnType, IntWidth, TableSchema, same_name};
use cdc_core::value::Timestamp;

/// The default of a column, as a row of one value; `None` if it cannot be told.
pub fn default_value(table: &TableSchema, column: usize) -> Option<Row> {
    let Column { ty, nullable, default, auto_increment, generated, .. } = table.columns.get(column)?;
    if *auto_increment || generated.is_some() {
        return None;
    }
    // a key's text may be told apart by another table than the column's
    if in_key(table, column)
        && let Some(charset_of) = ty.charset()
        && matches!(charset(&charset_of.name)?.codec()?, Codec::Table(_) | Codec::KeyTable(_))
    {
        return None;
    }
    let mut out = RowBuilder::new();
    match default.as_deref() {
        Some(text) if !text.trim().eq_ignore_ascii_case("NULL") => push(&read_default(text)?, ty, &mut out)?,
        _ if *nullable => out.push_null(),
        Some(_) => return None,
        None => push_implicit(ty, &mut out)?,
    }
    Some(out.finish())
}

fn push(value: &DefaultValue, ty: &ColumnType, out: &mut RowBuilder) -> Option<()> {
    let text = match value {
        DefaultValue::Number(text) | DefaultValue::Text(text) => Some(text.as_str()),
        DefaultValue::Bytes(_) => None,
        DefaultValue::Now { .. } | DefaultValue::Expression(_) => return None,
    };
    match ty {
        ColumnType::Int { width, unsigned } => push_int(text?.trim().parse().ok()?, *width, *unsigned, out)?,
        ColumnType::Decimal { scale, .. } => push_decimal(text?.trim(), usize::from(*scale), out)?,
        ColumnType::Float { .. } => {
            out.push_float(text?.trim().parse().ok().filter(|v: &f32| v.is_finite())?)
        }
        ColumnType::Double { .. } => {
            out.push_double(text?.trim().parse().ok().filter(|v: &f64| v.is_finite())?)
        }
        ColumnType::Year => match text?.trim().parse().ok()? {
            year @ (0 | 1901..=2155) => out.push_year(year),
            _ => return None,
        },
        ColumnType::Bit { width } => {
            let DefaultValue::Bytes(bytes) = value else { return None };
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            let bits = bytes[zeros..].iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
            if bytes.len() - zeros > 8 || (*width < 64 && bits >> *width != 0) {
                return None;
            }
            out.push_bit(bits);
        }
        ColumnType::Date => {
            let (year, month, day) = date(text?)?;
            date_from_result(year, month, day, out).ok()?;
        }
        ColumnType::Time { fsp } => {
            let (negative, body) = match text?.strip_prefix('-') {
                Some(body) => (true, body),
                None => (false, text?),
            };
            let (hour, minute, second, micro) = clock(body, *fsp)?;
            time_from_result((negative, hour / 24, (hour % 24) as u8, minute, second, micro), out).ok()?;
        }
        ColumnType::DateTime { fsp } => {
            let (day, time) = text?.split_once(' ').unwrap_or((text?, "00:00:00"));
            let ((year, month, day), (hour, minute, second, micro)) = (date(day)?, clock(time, *fsp)?);
            let hour = u8::try_from(hour).ok()?;
            out.push_datetime(digits_from_result((year, month, day, hour, minute, second, micro)).ok()?);
        }
        ColumnType::Timestamp { .. } if text?.starts_with("0000-00-00 00:00:00") => {
            out.push_timestamp(Timestamp { micros: 0 });
        }
        ColumnType::Timestamp { .. } => return None,
        ColumnType::Char { .. } => out.push_text(text?.trim_end_matches(' ')),
        ColumnType::VarChar { .. } | ColumnType::Text { .. } => out.push_text(text?),
        ColumnType::Enum { labels, .. } => {
            let DefaultValue::Text(text) = value else { return None };
            let exact = labels.iter().position(|l| **l == **text);
            let at = exact.or_else(|| labels.iter().position(|l| same_name(l, text)))?;
            enum_set::push_enum(at as u64 + 1, labels, out).ok()?;
        }
        ColumnType::Set { labels, .. } => {
            let DefaultValue::Text(text) = value else { return None };
            let mut bits = 0u64;
            for wanted in text.split(',').filter(|w| !w.is_empty()) {
                bits |= 1 << labels.iter().position(|l| same_name(l, wanted))?;
            }
            enum_set::push_set(bits, labels, &mut String::new(), out).ok()?;
        }
        ColumnType::Binary { length } => {
            let mut bytes = bytes_of(value)?;
            if bytes.len() > *length as usize {
                return None;
            }
            bytes.resize(*length as usize, 0);
            out.push_bytes(&bytes);
        }
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => out.push_bytes(&bytes_of(value)?),
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => {
            out.push_text(&canonical(ty, text?.trim())?);
        }
        ColumnType::Json | ColumnType::Geometry { .. } | ColumnType::Vector { .. } => return None,
    }
    Some(())
}

fn push_implicit(ty: &ColumnType, out: &mut RowBuilder) -> Option<()> {
    let zero = DefaultValue::Number("0".into());
    let text = |text: &str| DefaultValue::Text(text.into());
    let value = match ty {
        ColumnType::Int { .. }
        | ColumnType::Decimal { .. }
        | ColumnType::Float { .. }
        | ColumnType::Double { .. }
        | ColumnType::Year => zero,
        ColumnType::Bit { .. } => DefaultValue::Bytes(Vec::new()),
        ColumnType::Date => text("0000-00-00"),
        ColumnType::Time { .. } => text("00:00:00"),
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => text("0000-00-00 00:00:00"),
        ColumnType::Enum { labels, .. } => text(labels.first()?),
        ColumnType::Char { .. }
        | ColumnType::VarChar { .. }
        | ColumnType::Text { .. }
        | ColumnType::Set { .. }
        | ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob { .. } => text(""),
        ColumnType::Json => {
            // an empty document, see `json::to_text`
            out.push_json("null");
            return Some(());
        }
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => return None,
        ColumnType::Geometry { .. } | ColumnType::Vector { .. } => return None,
    };
    push(&value, ty, out)
}

fn push_int(value: i128, width: IntWidth, unsigned: bool, out: &mut RowBuilder) -> Option<()> {
    let bits = match width {
        IntWidth::Tiny => 8,
        IntWidth::Small => 16,
        IntWidth::Medium => 24,
        IntWidth::Int => 32,
        IntWidth::Big => 64,
    };
    if unsigned {
        out.push_uint(u64::try_from(value).ok().filter(|v| bits == 64 || v >> bits == 0)?);
    } else {
        let value = i64::try_from(value).ok()?;
        let fits = bits == 64 || (-(1i64 << (bits - 1))..1i64 << (bits - 1)).contains(&value);
        out.push_int(fits.then_some(value)?);
    }
    Some(())
}

/// With as many digits behind the dot as the column has; `None` if it has to be rounded.
fn push_decimal(text: &str, scale: usize, out: &mut RowBuilder) -> Option<()> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (kept, rest) = fraction.split_at(fraction.len().min(scale));
    if rest.bytes().any(|b| b != b'0') {
        return None;
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    let mut plain = format!("{sign}{whole}");
    if scale > 0 {
        plain.push('.');
        plain.push_str(kept);
        plain.extend(std::iter::repeat_n('0', scale - kept.len()));
    }
    decimal_from_result(plain.as_bytes(), &mut String::new(), out).ok()
}

fn bytes_of(value: &DefaultValue) -> Option<Vec<u8>> {
    match value {
        DefaultValue::Bytes(bytes) => Some(bytes.clone()),
        DefaultValue::Text(text) | DefaultValue::Number(text) => Some(text.clone().into_bytes()),
        DefaultValue::Now { .. } | DefaultValue::Expression(_) => None,
    }
}

/// `2026-01-31`.
fn date(text: &str) -> Option<(u16, u8, u8)> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    Some((year.parse().ok()?, month.parse().ok()?, day.parse().ok()?))
}

/// `HH:MM:SS[.fraction]`, the fraction of at most `fsp` digits.
fn clock(text: &str, fsp: u8) -> Option<(u32, u8, u8, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > usize::from(fsp) || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let micro = format!("{fraction:0<6}").parse().ok()?;
    let mut parts = whole.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !(2..=3).contains(&hour.len()) || minute.len() != 2 || second.len() != 2 {
        return None;
    }
    Some((hour.parse().ok()?, minute.parse().ok()?, second.parse().ok()?, micro))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, TableId};
    use cdc_core::value::{Date, DateTime, Time, Value};

    fn check(ty: ColumnType, default: Option<&str>, expected: Option<Value<'static>>) {
        let mut column = Column::new("c", ty).not_null();
        column.default = default.map(str::to_owned);
        let table = TableSchema {
            id: TableId::new("shop", "t"),
            version: 1,
            columns: vec![column],
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        assert_eq!(default_value(&table, 0), expected.map(|value| Row::pack([value])), "{default:?}");
    }

    #[test]
    fn constants_and_implicit_defaults() {
        let int = |unsigned| ColumnType::Int { width: IntWidth::Tiny, unsigned };
        check(int(false), Some("-7"), Some(Value::Int(-7)));
        check(int(true), Some("200"), Some(Value::UInt(200)));
        check(int(false), Some("200"), None);
        check(int(false), None, Some(Value::Int(0)));
        check(int(false), Some("(1 + 1)"), None);
        let decimal = || ColumnType::Decimal { precision: 9, scale: 3, unsigned: false };
        check(decimal(), Some("1.5"), Some(Value::Decimal("1.500".into())));
        check(decimal(), Some("-0.5"), Some(Value::Decimal("-0.500".into())));
        check(decimal(), Some("1.23456"), None);
        check(decimal(), None, Some(Value::Decimal("0.000".into())));
        check(ColumnType::Bit { width: 9 }, Some("b'100000001'"), Some(Value::Bit(257)));
        check(ColumnType::Year, Some("2020"), Some(Value::Year(2020)));
        let char = || ColumnType::Char { length: 9, charset: Charset::utf8mb4() };
        check(char(), Some("'it''s  '"), Some(Value::Text("it's".into())));
        check(char(), None, Some(Value::Text("".into())));
        check(ColumnType::Binary { length: 3 }, Some("0xFF"), Some(Value::Bytes(vec![255, 0, 0].into())));
        let labels: std::sync::Arc<[std::sync::Arc<str>]> = ["a".into(), "b".into(), "c".into()].into();
        let set = ColumnType::Set { labels: labels.clone(), charset: Charset::utf8mb4() };
        check(set, Some("'c,A'"), Some(Value::Set { bits: 5, labels: "a,c".into() }));
        let one_of = || ColumnType::Enum { labels: labels.clone(), charset: Charset::utf8mb4() };
        check(one_of(), Some("'b'"), Some(Value::Enum { index: 2, label: "b".into() }));
        check(one_of(), None, Some(Value::Enum { index: 1, label: "a".into() }));
        let day = Date { year: 2020, month: 1, day: 2 };
        check(ColumnType::Date, Some("'2020-01-02'"), Some(Value::Date(day)));
        let time = DateTime { date: day, hour: 3, minute: 4, second: 5, micro: 600_000 };
        check(ColumnType::DateTime { fsp: 2 }, Some("'2020-01-02 03:04:05.60'"), Some(Value::DateTime(time)));
        check(ColumnType::DateTime { fsp: 0 }, Some("CURRENT_TIMESTAMP"), None);
        let micros = -(838 * 3600 + 59 * 60 + 59) * 1_000_000;
        check(ColumnType::Time { fsp: 0 }, Some("'-838:59:59'"), Some(Value::Time(Time { micros })));
        check(ColumnType::Timestamp { fsp: 0 }, Some("'2020-01-01 00:00:00'"), None);
        check(ColumnType::Timestamp { fsp: 0 }, None, Some(Value::Timestamp(Timestamp { micros: 0 })));
        check(ColumnType::Json, None, Some(Value::Json("null".into())));
    }
}
