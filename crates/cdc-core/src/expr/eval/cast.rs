//! Conversions of values: `cast`, and those that the binder puts in between.

use super::decimal::{Decimal, Rounding};
use super::number::{Number, NumberType, double_text, double_text_in_full, float_text};
use super::temporal::{MAX_TIME_MICROS, parse_datetime, parse_time, round_datetime, round_micros};
use super::{Class, Failure, datetime_of};
use crate::codes;
use crate::value::{Date, DateTime, Time, Timestamp, Value};
use std::borrow::Cow;

/// What a value is turned into. NULL stays NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Text as the server writes the value; `fsp` is of the type that it comes from, `room` is for a DOUBLE.
    /// Cut at `length` characters.
    Text {
        fsp: u8,
        length: Option<u32>,
        room: Room,
    },
    /// Bytes, cut or filled up with zeros to `length`.
    Bytes {
        length: Option<u32>,
        room: Room,
    },
    /// `cast(.. as signed | unsigned)`: integers wrap around.
    Integer {
        unsigned: bool,
    },
    /// A number, rounded; out of its range is an error.
    Number(NumberType),
    Date,
    DateTime {
        fsp: u8,
    },
    Timestamp {
        fsp: u8,
    },
    Time {
        fsp: u8,
    },
    Year,
}

/// How long the text of a DOUBLE may be. The server writes a column in 24 places (`Field_double`), and what was
/// computed in 22 (`String::set_real`), which gives some small numbers an exponent or fewer digits. CASE and IF hand
/// on what their branch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// Of a column.
    All,
    /// Of what was computed.
    Some,
    /// Of one or the other: a number of which it matters is an error.
    Unclear,
}

impl Room {
    /// Of a value that is one or the other of two.
    pub(crate) fn or(self, other: Room) -> Room {
        if self == other { self } else { Room::Unclear }
    }

    fn text(self, v: f64) -> Result<String, Failure> {
        let (all, some) = (double_text_in_full(v), double_text(v));
        match self {
            Room::All => Ok(all),
            Room::Some => Ok(some),
            Room::Unclear if all == some => Ok(some),
            Room::Unclear => Err(Failure::new(
                codes::OUT_OF_RANGE,
                "the server's text of the DOUBLE depends on where it comes from",
            )),
        }
    }
}

impl Conversion {
    /// Can values of this class be converted at all?
    pub(crate) fn takes(self, from: Class) -> bool {
        let text = from.is_text();
        match self {
            Conversion::Text { .. } => !matches!(from, Class::Bit | Class::Geometry | Class::Vector),
            Conversion::Bytes { .. } => {
                text || matches!(from, Class::Bytes | Class::Json | Class::Geometry | Class::Vector)
                    || from.is_number() && from != Class::Bit
                    || from.is_temporal()
            }
            Conversion::Integer { .. } | Conversion::Number(_) => {
                from.is_number() || text || from.is_temporal()
            }
            Conversion::Date | Conversion::DateTime { .. } | Conversion::Timestamp { .. } => {
                text || from.is_day()
            }
            Conversion::Time { .. } => {
                text || matches!(from, Class::Time | Class::DateTime | Class::Timestamp)
            }
            Conversion::Year => text || from.is_day() || from.is_number(),
        }
    }

    pub(crate) fn apply<'a>(self, value: Value<'a>) -> Result<Value<'a>, Failure> {
        if value.is_null() {
            return Ok(value);
        }
        match self {
            Conversion::Text { fsp, length, room } => {
                let text = to_text(value, fsp, room)?;
                Ok(Value::Text(match length {
                    Some(length) => cut(text, length as usize),
                    None => text,
                }))
            }
            Conversion::Bytes { length, room } => to_bytes(value, length, room),
            Conversion::Integer { unsigned } => to_integer(&value, unsigned),
            Conversion::Number(ty @ (NumberType::Double | NumberType::Float)) => match &value {
                Value::Text(text) => {
                    Number::Double(double_of(text).ok_or_else(|| not_a("a number"))?).store(ty)
                }
                other => to_number(other)?.store(ty),
            },
            Conversion::Number(ty) => to_number(&value)?.store(ty),
            Conversion::Date => Ok(Value::Date(to_datetime(&value)?.date)),
            Conversion::DateTime { fsp } => {
                let rounded = round_datetime(to_datetime(&value)?, fsp);
                rounded.map(Value::DateTime).ok_or_else(|| Failure::out_of_range("DATETIME"))
            }
            Conversion::Timestamp { fsp } => match value {
                Value::Timestamp(v) => {
                    Ok(Value::Timestamp(Timestamp { micros: round_micros(v.micros, fsp) }))
                }
                other => Err(Failure::unexpected(&other, "a TIMESTAMP")),
            },
            Conversion::Time { fsp } => {
                let micros = round_micros(to_time(&value)?.micros, fsp);
                // MariaDB's largest TIME is a microsecond short of 839 hours
                if micros.abs() >= MAX_TIME_MICROS + 1_000_000 {
                    return Err(Failure::out_of_range("TIME"));
                }
                Ok(Value::Time(Time { micros }))
            }
            Conversion::Year => to_year(&value),
        }
    }
}

/// A value as the server writes it as text; `fsp` is of its type. `None` where it has no text of its own (BIT, bytes, spatial
/// values, vectors), and for NULL.
pub fn server_text<'a>(value: &Value<'a>, fsp: u8) -> Option<Cow<'a, str>> {
    if matches!(value, Value::Bytes(_)) {
        return None;
    }
    to_text(value.clone(), fsp, Room::All).ok()
}

fn not_a(what: &str) -> Failure {
    // the text itself is not shown: it may have come from the environment
    Failure::new(codes::OUT_OF_RANGE, format!("the text is not {what}"))
}

fn cut(text: Cow<'_, str>, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        None => text,
        Some((end, _)) => match text {
            Cow::Borrowed(s) => Cow::Borrowed(&s[..end]),
            Cow::Owned(mut s) => {
                s.truncate(end);
                Cow::Owned(s)
            }
        },
    }
}

/// As the server writes it; bytes as the UTF-8 that they are.
fn to_text<'a>(value: Value<'a>, fsp: u8, room: Room) -> Result<Cow<'a, str>, Failure> {
    Ok(match value {
        Value::Text(v) | Value::Json(v) | Value::Decimal(v) => v,
        Value::Enum { label, .. } => label,
        Value::Set { labels, .. } => labels,
        Value::Int(v) => v.to_string().into(),
        Value::UInt(v) => v.to_string().into(),
        Value::Float(v) => float_text(v).into(),
        Value::Double(v) => room.text(v)?.into(),
        Value::Date(v) => v.to_string().into(),
        Value::Time(v) => v.to_text(fsp).into(),
        Value::DateTime(v) => v.to_text(fsp).into(),
        Value::Timestamp(v) => v.to_text(fsp).into(),
        Value::Year(v) => format!("{v:04}").into(),
        Value::Bytes(v) => match v {
            Cow::Borrowed(v) => std::str::from_utf8(v).map_err(|_| not_a("UTF-8"))?.into(),
            Cow::Owned(v) => String::from_utf8(v).map_err(|_| not_a("UTF-8"))?.into(),
        },
        other => return Err(Failure::unexpected(&other, "a text")),
    })
}

fn to_bytes(value: Value<'_>, length: Option<u32>, room: Room) -> Result<Value<'_>, Failure> {
    let mut bytes = match value {
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => v,
        other => match to_text(other, 6, room)? {
            Cow::Borrowed(s) => Cow::Borrowed(s.as_bytes()),
            Cow::Owned(s) => Cow::Owned(s.into_bytes()),
        },
    };
    // BINARY(n) is filled up with zeros (MySQL manual 14.10)
    if let Some(length) = length.map(|l| l as usize)
        && bytes.len() != length
    {
        bytes.to_mut().resize(length, 0);
    }
    Ok(Value::Bytes(bytes))
}

/// The double nearest to a text that is a number from end to end: a DECIMAL would have too few places for a small one.
pub(crate) fn double_of(text: &str) -> Option<f64> {
    let text = text.trim();
    Decimal::parse(text).and_then(|_| text.parse().ok())
}

/// Any number (of an ENUM the place of its label, of a SET its bits), a text that is one from end to end, or a temporal
/// value as the digits that it is written in.
fn to_number(value: &Value<'_>) -> Result<Number, Failure> {
    Ok(match value {
        Value::Text(text) => Number::Decimal(Decimal::parse(text.trim()).ok_or_else(|| not_a("a number"))?),
        Value::Date(v) => Number::Int(day_digits(*v)),
        Value::DateTime(_) | Value::Timestamp(_) => {
            let v = datetime_of(value)?;
            with_micros(day_digits(v.date) * 1_000_000 + clock_digits(v), i128::from(v.micro))
        }
        Value::Time(v) => {
            let seconds = i128::from(v.micros / 1_000_000);
            let digits = seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
            with_micros(digits, i128::from(v.micros % 1_000_000))
        }
        other => Number::of(other)?.ok_or_else(|| Failure::unexpected(other, "a number"))?,
    })
}

fn day_digits(v: Date) -> i128 {
    i128::from(v.year) * 10_000 + i128::from(v.month) * 100 + i128::from(v.day)
}

fn clock_digits(v: DateTime) -> i128 {
    i128::from(v.hour) * 10_000 + i128::from(v.minute) * 100 + i128::from(v.second)
}

fn with_micros(digits: i128, micros: i128) -> Number {
    let text = format!("{}e-6", digits * 1_000_000 + micros);
    Decimal::parse(&text).map_or(Number::Int(digits), Number::Decimal)
}

/// To 64 bits. Integers wrap around, as `cast(-1 as unsigned)` is documented to (MySQL manual 14.10); what
/// had a fraction or was a text must fit.
fn to_integer(value: &Value<'_>, unsigned: bool) -> Result<Value<'static>, Failure> {
    let ty = NumberType::Integer { unsigned };
    let bits = match value {
        Value::Int(v) => *v as u64,
        Value::UInt(v) | Value::Bit(v) => *v,
        // the time of day is rounded before it is written as digits: 59.5 seconds are the next minute
        Value::DateTime(_) | Value::Timestamp(_) => {
            let rounded = round_datetime(datetime_of(value)?, 0);
            let v = rounded.ok_or_else(|| Failure::out_of_range("DATETIME"))?;
            return to_number(&Value::DateTime(v))?.store(ty);
        }
        Value::Time(v) => {
            return to_number(&Value::Time(Time { micros: round_micros(v.micros, 0) }))?.store(ty);
        }
        other => {
            let number = to_number(other)?;
            // the server stops at an exponent, as it does at a dot
            if matches!(other, Value::Text(text) if text.contains(['e', 'E'])) {
                return Err(not_a("a whole number"));
            }
            if let (Number::Decimal(v), Value::Text(_)) = (&number, other)
                && v.round(0, Rounding::Truncate).compare(v).is_ne()
            {
                return Err(not_a("a whole number"));
            }
            return number.store(ty);
        }
    };
    Ok(if unsigned { Value::UInt(bits) } else { Value::Int(bits as i64) })
}

fn to_datetime(value: &Value<'_>) -> Result<DateTime, Failure> {
    match value {
        Value::Text(text) | Value::Enum { label: text, .. } | Value::Set { labels: text, .. } => {
            parse_datetime(text).map(|(v, _)| v).ok_or_else(|| not_a("a date"))
        }
        other => datetime_of(other),
    }
}

fn to_time(value: &Value<'_>) -> Result<Time, Failure> {
    let of_day = |v: DateTime| {
        let seconds = i64::from(v.hour) * 3600 + i64::from(v.minute) * 60 + i64::from(v.second);
        Time { micros: seconds * 1_000_000 + i64::from(v.micro) }
    };
    match value {
        Value::Time(v) => Ok(*v),
        Value::Text(text) | Value::Enum { label: text, .. } | Value::Set { labels: text, .. } => {
            match (parse_time(text), parse_datetime(text)) {
                (Some(time), _) => Ok(time),
                (None, Some((v, true))) => Ok(of_day(v)),
                _ => Err(not_a("a time")),
            }
        }
        other => datetime_of(other).map(of_day),
    }
}

/// Two digits are 1970 to 2069; 0 is the year 0 (MySQL manual 13.2.4).
fn to_year(value: &Value<'_>) -> Result<Value<'static>, Failure> {
    let year = match value {
        Value::Date(_) | Value::DateTime(_) | Value::Timestamp(_) => {
            i128::from(datetime_of(value)?.date.year)
        }
        Value::Year(v) => return Ok(Value::Year(*v)),
        other => to_number(other)?.to_whole().unwrap_or(-1),
    };
    let year = match year {
        1..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    match u16::try_from(year) {
        Ok(y) if y == 0 || (1901..=2155).contains(&y) => Ok(Value::Year(y)),
        _ => Err(Failure::out_of_range("YEAR")),
    }
}
