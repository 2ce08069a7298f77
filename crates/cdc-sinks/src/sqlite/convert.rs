//! Stored values under a new type: what ALTER TABLE .. MODIFY does to rows that are there.
//!
//! The source's server converts its rows in place and logs no row; the target has to arrive at the same
//! values. Only conversions that this module is certain of are made: widening ones, where the value stays
//! and at most its form changes (`17` to `17.00`, a DATE to a DATETIME at midnight), and those whose result
//! the manual defines exactly. What would lose something is an error with the value, never a changed value;
//! what narrows at the source makes the engine copy the table anew.

use super::types::{Form, Kind, declared, encode};
use crate::text;
use cdc_core::address::canonical;
use cdc_core::schema::ColumnType;
use cdc_core::value::Value;
use rusqlite::types::{Value as Stored, ValueRef};

use super::default::FromRef;
use crate::default::{pad_fraction, rescale};

/// True if every stored value stays as it is.
pub(crate) fn is_identity(from: Kind, to: &ColumnType) -> bool {
    let to = Kind::of(&declared(to));
    // A BIT of 64 may hold texts where a smaller one holds integers.
    (from == to && from != Kind::Bit)
        || matches!(
            (from, to),
            (Kind::Int | Kind::Year, Kind::Int | Kind::Unsigned)
                | (Kind::Float, Kind::Double)
                | (Kind::Char | Kind::Enum | Kind::Set | Kind::Json, Kind::Text)
                | (Kind::Uuid | Kind::Inet4 | Kind::Inet6, Kind::Char | Kind::Text)
                | (Kind::Binary(_), Kind::Blob)
        )
}

/// A stored value of a column of kind `from` as a column of type `to` stores it, or why that is not certain.
pub(crate) fn convert(stored: ValueRef<'_>, from: Kind, to: &ColumnType) -> Result<Stored, String> {
    if stored == ValueRef::Null || is_identity(from, to) {
        return Ok(Stored::from_ref(stored));
    }
    // A column that we did not declare says what it holds by its values.
    let from = match (from, stored) {
        (Kind::Foreign, ValueRef::Integer(_)) => Kind::Int,
        (Kind::Foreign, ValueRef::Real(_)) => Kind::Double,
        (Kind::Foreign, ValueRef::Text(_)) => Kind::Text,
        (Kind::Foreign, ValueRef::Blob(_)) => Kind::Blob,
        (kind, _) => kind,
    };
    if matches!(from, Kind::Enum | Kind::Set) && !is_text(to) {
        return Err("an ENUM or SET converts by its number, which the target does not hold".to_owned());
    }
    // as bytes they are the 4 or 16 bytes that the server stores
    if matches!(from, Kind::Uuid | Kind::Inet4 | Kind::Inet6)
        && matches!(to, ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. })
    {
        return Err(unknown(to));
    }
    match to {
        ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit { .. } => {
            if matches!(to, ColumnType::Bit { .. }) && !matches!(from, Kind::Int | Kind::Unsigned | Kind::Bit)
            {
                return Err("only integers become BIT".to_owned());
            }
            integer(stored, to)
        }
        ColumnType::Decimal { precision, scale, .. } => {
            let text = match stored {
                ValueRef::Real(v) => plain_double(v).ok_or("it has an exponent")?,
                stored => number_text(stored, from)?,
            };
            let text = rescale(&text, u32::from(*scale)).ok_or("it would lose digits")?;
            let whole =
                text.trim_start_matches('-').split('.').next().unwrap_or_default().trim_start_matches('0');
            if whole.len() > usize::from(precision.saturating_sub(*scale)) {
                return Err("it has too many digits".to_owned());
            }
            Ok(Stored::Text(text))
        }
        ColumnType::Double { .. } => real(stored, from).map(Stored::Real),
        ColumnType::Float { .. } => real(stored, from).map(|v| Stored::Real(f64::from(v as f32))),
        ColumnType::VarChar { .. } | ColumnType::Text { .. } => plain_text(stored, from).map(Stored::Text),
        ColumnType::Char { .. } => {
            plain_text(stored, from).map(|t| Stored::Text(t.trim_end_matches(' ').to_owned()))
        }
        ColumnType::Enum { labels, .. } => {
            let text = plain_text(stored, from)?;
            let known = labels.iter().any(|l| **l == *text) || (text.is_empty() && from == Kind::Enum);
            known.then_some(Stored::Text(text)).ok_or_else(|| "it is not a member".to_owned())
        }
        ColumnType::Set { labels, .. } => {
            let text = plain_text(stored, from)?;
            let known = text.is_empty() || text.split(',').all(|w| labels.iter().any(|l| **l == *w));
            known.then_some(Stored::Text(text)).ok_or_else(|| "it is not made of members".to_owned())
        }
        ColumnType::Date => match from {
            Kind::DateTime(_) => {
                let text = utf8(stored)?;
                let (date, time) = text.split_once(' ').unwrap_or((text, ""));
                let midnight = time.bytes().all(|b| b"0:.".contains(&b));
                midnight
                    .then(|| Stored::Text(date.to_owned()))
                    .ok_or_else(|| "it would lose its time".to_owned())
            }
            _ => Err(unknown(to)),
        },
        ColumnType::Time { fsp } => match from {
            Kind::Time(_) => fraction(utf8(stored)?, *fsp),
            _ => Err(unknown(to)),
        },
        ColumnType::DateTime { fsp } => match from {
            Kind::DateTime(_) => fraction(utf8(stored)?, *fsp),
            Kind::Date => fraction(&format!("{} 00:00:00", utf8(stored)?), *fsp),
            Kind::Timestamp(_) => Err(time_zone()),
            _ => Err(unknown(to)),
        },
        ColumnType::Timestamp { fsp } => match from {
            Kind::Timestamp(_) => fraction(utf8(stored)?, *fsp),
            Kind::DateTime(_) | Kind::Date => Err(time_zone()),
            _ => Err(unknown(to)),
        },
        ColumnType::Binary { length } => {
            let mut bytes = plain_bytes(stored)?;
            if bytes.len() > *length as usize {
                return Err("it is too long".to_owned());
            }
            bytes.resize(*length as usize, 0);
            Ok(Stored::Blob(bytes))
        }
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => plain_bytes(stored).map(Stored::Blob),
        ColumnType::Json => Err("the server prints JSON anew".to_owned()),
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => match (from, to) {
            (Kind::Char | Kind::Text, _) => canonical(to, utf8(stored)?)
                .map(Stored::Text)
                .ok_or_else(|| format!("it is not written as a value of type {to}")),
            // `10.0.0.1` becomes `::ffff:10.0.0.1`
            (Kind::Inet4, ColumnType::Inet6) => canonical(to, &format!("::ffff:{}", utf8(stored)?))
                .map(Stored::Text)
                .ok_or_else(|| "it is not an INET4".to_owned()),
            _ => Err(unknown(to)),
        },
        ColumnType::Geometry { .. } | ColumnType::Vector { .. } => Err(unknown(to)),
    }
}

fn unknown(to: &ColumnType) -> String {
    format!("what the server makes of it as {to} is not certain")
}

fn time_zone() -> String {
    "it depends on the time zone of the session that changed the column".to_owned()
}

fn is_text(ty: &ColumnType) -> bool {
    matches!(Form::of(ty), Form::Text(_))
        && matches!(
            ty,
            ColumnType::Char { .. }
                | ColumnType::VarChar { .. }
                | ColumnType::Text { .. }
                | ColumnType::Enum { .. }
                | ColumnType::Set { .. }
        )
}

fn utf8(stored: ValueRef<'_>) -> Result<&str, String> {
    match stored {
        ValueRef::Text(v) => std::str::from_utf8(v).map_err(|_| "it is not UTF-8".to_owned()),
        _ => Err("it is not a text".to_owned()),
    }
}

/// The digits of an exact number.
fn number_text(stored: ValueRef<'_>, from: Kind) -> Result<String, String> {
    match stored {
        ValueRef::Integer(v) => Ok(v.to_string()),
        // The 20 digits of a big unsigned number.
        ValueRef::Text(_) if matches!(from, Kind::Unsigned | Kind::Bit) => {
            Ok(utf8(stored)?.trim_start_matches('0').to_owned())
        }
        ValueRef::Text(_) => Ok(utf8(stored)?.to_owned()),
        _ => Err("it is not an exact number".to_owned()),
    }
}

fn integer(stored: ValueRef<'_>, to: &ColumnType) -> Result<Stored, String> {
    let text = match stored {
        ValueRef::Real(v) if v == v.trunc() && v.abs() < 9e15 => (v as i64).to_string(),
        stored => number_text(stored, Kind::Foreign)?,
    };
    let number: i128 = rescale(&text, 0)
        .and_then(|t| t.parse().ok())
        .ok_or_else(|| "it is not a whole number".to_owned())?;
    let value = match (u64::try_from(number), i64::try_from(number)) {
        (Ok(v), _) => Value::UInt(v),
        (_, Ok(v)) => Value::Int(v),
        _ => return Err("it is out of range".to_owned()),
    };
    // Other numbers become years by rules of their own (5 is 2005).
    if matches!(to, ColumnType::Year) && number != 0 && !(1901..=2155).contains(&number) {
        return Err("it is not a year".to_owned());
    }
    let mut scratch = Vec::new();
    encode(&value, Form::of(to), &mut scratch)
        .map(Stored::from_ref)
        .ok_or_else(|| "it is out of range".to_owned())
}

fn real(stored: ValueRef<'_>, from: Kind) -> Result<f64, String> {
    match stored {
        ValueRef::Real(v) => Ok(v),
        // The server rounds to the nearest double, and so does `as`.
        ValueRef::Integer(v) => Ok(v as f64),
        stored => number_text(stored, from)?.trim().parse().map_err(|_| "it is not a number".to_owned()),
    }
}

fn plain_text(stored: ValueRef<'_>, from: Kind) -> Result<String, String> {
    match (stored, from) {
        (_, Kind::Bit) => Err("a BIT becomes bytes".to_owned()),
        (ValueRef::Integer(v), Kind::Year) => Ok(format!("{v:04}")),
        (ValueRef::Integer(v), _) => Ok(v.to_string()),
        (ValueRef::Real(_), Kind::Float) => Err("the server prints a FLOAT with six digits".to_owned()),
        (ValueRef::Real(v), _) => {
            let mut out = Vec::new();
            text::push_double(&mut out, v);
            String::from_utf8(out).map_err(|e| e.to_string())
        }
        (ValueRef::Text(_), Kind::Unsigned) => number_text(stored, from),
        (ValueRef::Text(_), _) => utf8(stored).map(str::to_owned),
        (ValueRef::Blob(v), _) => match std::str::from_utf8(v) {
            // Other bytes mean what the column's character set says.
            Ok(text) if text.is_ascii() => Ok(text.to_owned()),
            _ => Err("its bytes are not ASCII".to_owned()),
        },
        (ValueRef::Null, _) => Err("it is NULL".to_owned()),
    }
}

fn plain_bytes(stored: ValueRef<'_>) -> Result<Vec<u8>, String> {
    match stored {
        ValueRef::Blob(v) => Ok(v.to_vec()),
        ValueRef::Text(v) if v.is_ascii() => Ok(v.to_vec()),
        ValueRef::Text(_) => Err("its bytes depend on the character set".to_owned()),
        _ => Err("it is not bytes".to_owned()),
    }
}

fn plain_double(v: f64) -> Option<String> {
    let mut out = Vec::new();
    text::push_double(&mut out, v);
    String::from_utf8(out).ok().filter(|t| !t.contains('e'))
}

fn fraction(text: &str, fsp: u8) -> Result<Stored, String> {
    pad_fraction(text, u32::from(fsp))
        .map(Stored::Text)
        .ok_or_else(|| "it would lose its fraction".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, IntWidth};

    fn text(t: &str) -> Stored {
        Stored::Text(t.to_owned())
    }

    #[test]
    fn widening_keeps_the_value_and_changes_the_form() {
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale, unsigned: false };
        let varchar = ColumnType::VarChar { length: 50, charset: Charset::utf8mb4() };
        let big = ColumnType::Int { width: IntWidth::Big, unsigned: true };
        let t = |t: &'static str| ValueRef::Text(t.as_bytes());
        for (stored, from, to, becomes) in [
            (ValueRef::Integer(17), Kind::Int, ColumnType::Double { unsigned: false }, Stored::Real(17.0)),
            (ValueRef::Integer(-17), Kind::Int, decimal(10, 2), text("-17.00")),
            (t("1.50"), Kind::Decimal(2), decimal(12, 4), text("1.5000")),
            (t("09223372036854775808"), Kind::Unsigned, decimal(20, 0), text("9223372036854775808")),
            (t("09223372036854775808"), Kind::Unsigned, varchar.clone(), text("9223372036854775808")),
            (ValueRef::Integer(5), Kind::Int, big, Stored::Integer(5)),
            (t("2026-01-31"), Kind::Date, ColumnType::DateTime { fsp: 3 }, text("2026-01-31 00:00:00.000")),
            (t("10.1.0.0"), Kind::Inet4, ColumnType::Inet6, text("::ffff:10.1.0.0")),
            (t("10.1.0.0"), Kind::Inet4, varchar.clone(), text("10.1.0.0")),
            (t("2001:DB8:0::1"), Kind::Text, ColumnType::Inet6, text("2001:db8::1")),
            (t("10:00:00.5"), Kind::Time(1), ColumnType::Time { fsp: 3 }, text("10:00:00.500")),
            (
                ValueRef::Blob(&[1]),
                Kind::Binary(1),
                ColumnType::Binary { length: 3 },
                Stored::Blob(vec![1, 0, 0]),
            ),
            (ValueRef::Integer(0), Kind::Year, varchar.clone(), text("0000")),
            (ValueRef::Real(0.1), Kind::Double, varchar, text("0.1")),
            (ValueRef::Null, Kind::Decimal(2), decimal(12, 4), Stored::Null),
        ] {
            assert_eq!(convert(stored, from, &to), Ok(becomes), "{stored:?} to {to}");
        }
    }

    #[test]
    fn what_would_lose_something_is_refused() {
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale, unsigned: false };
        let t = |t: &'static str| ValueRef::Text(t.as_bytes());
        for (stored, from, to) in [
            (t("1.55"), Kind::Decimal(2), decimal(10, 1)),
            (t("100"), Kind::Decimal(0), decimal(3, 1)),
            (t("2026-01-31 10:00:00"), Kind::DateTime(0), ColumnType::Date),
            (t("2026-01-31 10:00:00"), Kind::DateTime(0), ColumnType::Timestamp { fsp: 0 }),
            (t("::1"), Kind::Inet6, ColumnType::VarBinary { length: 16 }),
            (t("::1"), Kind::Inet6, ColumnType::Inet4),
            (t("no uuid"), Kind::Text, ColumnType::Uuid),
            (t("x"), Kind::Enum, ColumnType::Int { width: IntWidth::Int, unsigned: false }),
            (t("x"), Kind::Text, ColumnType::Int { width: IntWidth::Int, unsigned: false }),
            (t("{}"), Kind::Text, ColumnType::Json),
        ] {
            assert!(convert(stored, from, &to).is_err(), "{stored:?} to {to}");
        }
    }
}
