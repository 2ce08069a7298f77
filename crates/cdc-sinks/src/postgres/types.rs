//! Column types of the source as PostgreSQL stores them.
//!
//! | source | PostgreSQL | remarks |
//! |---|---|---|
//! | TINYINT (unsigned too), SMALLINT, YEAR | `smallint` | |
//! | SMALLINT UNSIGNED, MEDIUMINT (unsigned too), INT | `integer` | |
//! | INT UNSIGNED, BIGINT | `bigint` | |
//! | BIGINT UNSIGNED | `numeric(20,0)` | |
//! | DECIMAL(p,s) | `numeric(p,s)` | all digits |
//! | FLOAT, DOUBLE | `real`, `double precision` | every bit, -0 too |
//! | BIT(n) | `bit(n)` | |
//! | DATE | `date` | year 0 is `0001 BC`; dates that no calendar has: see below |
//! | TIME(f) | `interval(f)` | `time` ends at 24 hours, and knows no sign |
//! | DATETIME(f) | `timestamp(f) without time zone` | the same digits |
//! | TIMESTAMP(f) | `timestamp(f) with time zone` | the same instant |
//! | CHAR, VARCHAR, TEXT family | `text` | a NUL character: see below |
//! | ENUM, SET | `text` | the label, the labels joined by commas |
//! | JSON | `json` | the text that the server prints; in a key `text` |
//! | UUID (MariaDB) | `uuid` | |
//! | INET4, INET6 (MariaDB) | `inet` | |
//! | BINARY(n), VARBINARY, BLOB family | `bytea` | BINARY with all its n bytes |
//! | spatial types | `bytea` | SRID (4 bytes, little endian), WKB |
//! | VECTOR(n) | `real[]` | |
//!
//! Why these. `text` and not `varchar(n)`: both are stored alike, and a length that grows at the source changes nothing
//! here. `json` and not `jsonb`, which would turn `1.0` into another text and refuses `\u0000`; it is a cast away
//! (`col::jsonb`). `numeric(20,0)` for the one integer type that has no counterpart.
//!
//! **What PostgreSQL has no value for** is refused with table, key and column, never changed in silence:
//!
//! * A NUL character in a text: option `nul` says `error`, `remove` or `replace`; in a key column it is always an
//!   error, since two keys could become one.
//! * Dates and times that no calendar has (`0000-00-00`, `2026-02-31`): the source's option `zero_dates` says
//!   `null` or `text`.
//! * A row of 500 MB or more.
//!
//! **Texts.** Every value but bytes goes to the server as the text that the server itself prints for it, cast there to
//! the column's type. So what is compared, by `verify` and where a table has no key, is the very text that was written;
//! only where a number, an address or a vector has several spellings both are read first ([`Form::normal`]).
//!
//! Only key columns are declared NOT NULL: the source is what enforces its rules. Defaults are not copied: rows
//! arrive whole.

use super::options::NulPolicy;
use crate::text;
use cdc_core::address::canonical;
use cdc_core::schema::{ColumnType, IntWidth};
use cdc_core::value::{Date, Time, Value};
use std::borrow::Cow;
use std::io::Write;

/// PostgreSQL's limit of a value, in bytes.
const LARGEST: usize = (1 << 30) - 1;

/// How values of a column are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    Integer,
    Decimal,
    Float,
    Double,
    /// Its width.
    Bit(u8),
    Date,
    Time,
    DateTime,
    Timestamp,
    Text,
    Json,
    Uuid,
    Inet4,
    Inet6,
    Bytes,
    Vector,
}

/// Why a value has no place in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It is not in the row image.
    Absent,
    /// It is of another kind.
    Kind,
    Nul,
    NoSuchDate,
    TooLarge,
}

impl Form {
    pub(crate) fn of(ty: &ColumnType) -> Form {
        match ty {
            ColumnType::Int { .. } | ColumnType::Year => Form::Integer,
            ColumnType::Decimal { .. } => Form::Decimal,
            ColumnType::Float { .. } => Form::Float,
            ColumnType::Double { .. } => Form::Double,
            ColumnType::Bit { width } => Form::Bit(*width),
            ColumnType::Date => Form::Date,
            ColumnType::Time { .. } => Form::Time,
            ColumnType::DateTime { .. } => Form::DateTime,
            ColumnType::Timestamp { .. } => Form::Timestamp,
            ColumnType::Char { .. }
            | ColumnType::VarChar { .. }
            | ColumnType::Text { .. }
            | ColumnType::Enum { .. }
            | ColumnType::Set { .. } => Form::Text,
            ColumnType::Json => Form::Json,
            ColumnType::Uuid => Form::Uuid,
            ColumnType::Inet4 => Form::Inet4,
            ColumnType::Inet6 => Form::Inet6,
            ColumnType::Binary { .. }
            | ColumnType::VarBinary { .. }
            | ColumnType::Blob { .. }
            | ColumnType::Geometry { .. } => Form::Bytes,
            ColumnType::Vector { .. } => Form::Vector,
        }
    }

    /// Appends a value as it is sent: bytes as they are, all else as text. False for NULL.
    pub(crate) fn encode(&self, value: &Value<'_>, nul: NulPolicy, out: &mut Vec<u8>) -> Result<bool, Unfit> {
        match (self, value) {
            (_, Value::Null) => return Ok(false),
            (_, Value::Absent) => return Err(Unfit::Absent),
            (Form::Integer, Value::Int(v)) => text::push_int(out, *v),
            (Form::Integer, Value::UInt(v) | Value::Bit(v)) => text::push_uint(out, *v),
            (Form::Integer, Value::Year(v)) => text::push_uint(out, u64::from(*v)),
            (Form::Float, Value::Float(v)) => push_float(out, *v),
            (Form::Double, Value::Double(v)) => push_double(out, *v),
            (Form::Double, Value::Float(v)) => push_double(out, f64::from(*v)),
            (Form::Bit(width), Value::Bit(v)) => {
                if *width < 64 && v >> width != 0 {
                    return Err(Unfit::Kind);
                }
                (0..*width).rev().for_each(|i| out.push(b'0' + (v >> i & 1) as u8));
            }
            (Form::Date, Value::Date(v)) => {
                push_date(out, *v)?;
                push_era(out, *v);
            }
            (Form::Time, Value::Time(v)) => push_time(out, *v),
            (Form::DateTime, Value::DateTime(v)) => {
                push_date(out, v.date)?;
                push_clock(out, v.hour, v.minute, v.second, v.micro);
                push_era(out, v.date);
            }
            (Form::Timestamp, Value::Timestamp(v)) => {
                if v.micros == 0 {
                    return Err(Unfit::NoSuchDate);
                }
                let v = v.to_datetime();
                push_date(out, v.date)?;
                push_clock(out, v.hour, v.minute, v.second, v.micro);
                out.extend_from_slice(b"+00");
                push_era(out, v.date);
            }
            (Form::Text, Value::Text(v) | Value::Json(v)) => push_text(out, v, nul)?,
            (Form::Text, Value::Enum { label, .. }) => push_text(out, label, nul)?,
            (Form::Text, Value::Set { labels, .. }) => push_text(out, labels, nul)?,
            (Form::Json, Value::Json(v) | Value::Text(v))
            | (Form::Uuid | Form::Inet4 | Form::Inet6, Value::Text(v)) => {
                push_text(out, v, NulPolicy::Error)?
            }
            (form, Value::Decimal(v)) if *form != Form::Bytes => out.extend_from_slice(v.as_bytes()),
            (Form::Bytes, Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v)) => {
                if v.len() > LARGEST {
                    return Err(Unfit::TooLarge);
                }
                out.extend_from_slice(v);
            }
            (Form::Vector, Value::Vector(v)) => {
                let (floats, rest) = v.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(Unfit::Kind);
                }
                out.push(b'{');
                for (i, float) in floats.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    push_float(out, f32::from_le_bytes(*float));
                }
                out.push(b'}');
            }
            _ => return Err(Unfit::Kind),
        }
        Ok(true)
    }

    /// The value as `column::text` gives it; for bytes `\x..`. `None` for NULL.
    pub(crate) fn text(&self, value: &Value<'_>, nul: NulPolicy) -> Result<Option<String>, Unfit> {
        let mut out = Vec::new();
        if !self.encode(value, nul, &mut out)? {
            return Ok(None);
        }
        if *self == Form::Bytes {
            let mut text = b"\\x".to_vec();
            push_hex(&mut text, &out);
            out = text;
        }
        // all that is written here is text by now
        Ok(Some(String::from_utf8_lossy(&out).into_owned()))
    }

    /// What the server prints, in the one spelling that we write.
    pub(crate) fn normal<'a>(&self, printed: &'a str) -> Cow<'a, str> {
        let mut out = Vec::new();
        match self {
            Form::Float => match printed.parse() {
                Ok(v) => push_float(&mut out, v),
                Err(_) => return printed.into(),
            },
            Form::Double => match printed.parse() {
                Ok(v) => push_double(&mut out, v),
                Err(_) => return printed.into(),
            },
            Form::Inet4 | Form::Inet6 => {
                let ty = if *self == Form::Inet4 { ColumnType::Inet4 } else { ColumnType::Inet6 };
                // `inet` as text has the width of its network behind it, a single address's too
                let width = if printed.contains(':') { "/128" } else { "/32" };
                let address = printed.strip_suffix(width).unwrap_or(printed);
                return canonical(&ty, address).map_or(printed.into(), Cow::Owned);
            }
            Form::Vector => {
                let inner = printed.trim_start_matches('{').trim_end_matches('}');
                out.push(b'{');
                for (i, float) in inner.split(',').filter(|f| !f.is_empty()).enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    match float.parse() {
                        Ok(v) => push_float(&mut out, v),
                        Err(_) => return printed.into(),
                    }
                }
                out.push(b'}');
            }
            _ => return printed.into(),
        }
        Cow::Owned(String::from_utf8_lossy(&out).into_owned())
    }

    /// In a key the two zeros are one.
    pub(crate) fn key<'a>(&self, normal: Cow<'a, str>) -> Cow<'a, str> {
        match self {
            Form::Float | Form::Double if normal == "-0e0" => "0e0".into(),
            _ => normal,
        }
    }

    /// Is there an `=` for the column's type that agrees with equality of its text, but for the two zeros?
    pub(crate) fn is_comparable(&self) -> bool {
        *self != Form::Json
    }
}

/// Shortest digits that read back as the same value; the server reads exponents.
fn push_float(out: &mut Vec<u8>, v: f32) {
    // a write to a Vec cannot fail
    drop(write!(out, "{v:e}"));
}

fn push_double(out: &mut Vec<u8>, v: f64) {
    drop(write!(out, "{v:e}"));
}

fn push_text(out: &mut Vec<u8>, v: &str, nul: NulPolicy) -> Result<(), Unfit> {
    if v.len() > LARGEST {
        return Err(Unfit::TooLarge);
    }
    if !v.contains('\0') {
        out.extend_from_slice(v.as_bytes());
        return Ok(());
    }
    match nul {
        NulPolicy::Error => return Err(Unfit::Nul),
        NulPolicy::Remove => out.extend(v.bytes().filter(|b| *b != 0)),
        NulPolicy::Replace => out.extend_from_slice(v.replace('\0', "\u{fffd}").as_bytes()),
    }
    Ok(())
}

fn push_date(out: &mut Vec<u8>, v: Date) -> Result<(), Unfit> {
    if !v.is_real() {
        return Err(Unfit::NoSuchDate);
    }
    // the year before 1 is 1 BC there
    text::push_date(out, Date { year: v.year.max(1), ..v });
    Ok(())
}

fn push_era(out: &mut Vec<u8>, v: Date) {
    if v.year == 0 {
        out.extend_from_slice(b" BC");
    }
}

fn push_clock(out: &mut Vec<u8>, hour: u8, minute: u8, second: u8, micro: u32) {
    drop(write!(out, " {hour:02}:{minute:02}:{second:02}"));
    push_fraction(out, micro);
}

fn push_time(out: &mut Vec<u8>, v: Time) {
    let abs = v.micros.unsigned_abs();
    let seconds = abs / 1_000_000;
    let sign = if v.micros < 0 { "-" } else { "" };
    drop(write!(out, "{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    push_fraction(out, (abs % 1_000_000) as u32);
}

/// The server prints no zeros at a fraction's end.
fn push_fraction(out: &mut Vec<u8>, micro: u32) {
    if micro > 0 {
        drop(write!(out, ".{micro:06}"));
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// The type of a column in a table that we make, as `format_type` prints it.
pub(crate) fn declared(ty: &ColumnType, in_key: bool) -> String {
    let int = |width: IntWidth, unsigned: bool| match (width, unsigned) {
        (IntWidth::Tiny, _) | (IntWidth::Small, false) => "smallint",
        (IntWidth::Small, true) | (IntWidth::Medium, _) | (IntWidth::Int, false) => "integer",
        (IntWidth::Int, true) | (IntWidth::Big, false) => "bigint",
        (IntWidth::Big, true) => "numeric(20,0)",
    };
    match ty {
        ColumnType::Int { width, unsigned } => int(*width, *unsigned).to_owned(),
        ColumnType::Decimal { precision, scale, .. } => format!("numeric({precision},{scale})"),
        ColumnType::Float { .. } => "real".to_owned(),
        ColumnType::Double { .. } => "double precision".to_owned(),
        ColumnType::Bit { width } => format!("bit({width})"),
        ColumnType::Year => "smallint".to_owned(),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Time { fsp } => format!("interval({fsp})"),
        ColumnType::DateTime { fsp } => format!("timestamp({fsp}) without time zone"),
        ColumnType::Timestamp { fsp } => format!("timestamp({fsp}) with time zone"),
        ColumnType::Json if !in_key => "json".to_owned(),
        ColumnType::Char { .. }
        | ColumnType::VarChar { .. }
        | ColumnType::Text { .. }
        | ColumnType::Enum { .. }
        | ColumnType::Set { .. }
        | ColumnType::Json => "text".to_owned(),
        ColumnType::Uuid => "uuid".to_owned(),
        ColumnType::Inet4 | ColumnType::Inet6 => "inet".to_owned(),
        ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob { .. }
        | ColumnType::Geometry { .. } => "bytea".to_owned(),
        ColumnType::Vector { .. } => "real[]".to_owned(),
    }
}

/// A type as `format_type` prints it: its words and the numbers in parentheses.
pub(crate) fn parts(declared: &str) -> (String, Vec<u32>) {
    let Some((before, rest)) = declared.split_once('(') else { return (declared.to_owned(), Vec::new()) };
    let (inside, after) = rest.split_once(')').unwrap_or((rest, ""));
    let numbers = inside.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    (format!("{before}{after}"), numbers)
}

/// Does a column of the type that we declare for `ty` hold all that one declared as `found` could? By the rules by which types of several
/// source tables get a common one: what is a number stays one, and texts are no numbers.
pub(crate) fn widens(found: &str, ty: &ColumnType) -> bool {
    let (theirs, ours) = (parts(found), parts(&declared(ty, false)));
    let fraction = |numbers: &[u32]| numbers.first().copied().unwrap_or(6);
    // digits in front of the dot, and behind it
    let digits = |(words, numbers): &(String, Vec<u32>)| match (words.as_str(), &numbers[..]) {
        ("smallint", _) => Some((5, 0)),
        ("integer", _) => Some((10, 0)),
        ("bigint", _) => Some((19, 0)),
        ("numeric", [precision, scale]) => Some((precision.saturating_sub(*scale), *scale)),
        _ => None,
    };
    match (theirs.0.as_str(), ours.0.as_str()) {
        ("character varying", "text")
        | ("real", "double precision")
        | ("date", "timestamp without time zone") => true,
        ("interval", "interval")
        | ("timestamp without time zone", "timestamp without time zone")
        | ("timestamp with time zone", "timestamp with time zone") => {
            fraction(&theirs.1) <= fraction(&ours.1)
        }
        // an integer type has no more digits than it says, and not all numbers of them
        (_, "smallint" | "integer" | "bigint") if theirs.0 == "numeric" => false,
        _ => match (digits(&theirs), digits(&ours)) {
            (Some(theirs), Some(ours)) => theirs.0 <= ours.0 && theirs.1 <= ours.1,
            _ => false,
        },
    }
}

/// Does a column that was declared so keep values of this type as they are?
pub(crate) fn takes(found: &str, ty: &ColumnType) -> bool {
    if found == declared(ty, false) || found == declared(ty, true) {
        return true;
    }
    let (words, numbers) = parts(found);
    let words = words.as_str();
    let is_text = matches!(words, "text" | "citext" | "public.citext")
        || (words == "character varying" && numbers.is_empty());
    let bits = match words {
        "smallint" => 16,
        "integer" => 32,
        "bigint" => 64,
        _ => 0,
    };
    // digits in front of the dot, and behind it; without a limit a numeric keeps what it is given
    let numeric = (words == "numeric").then(|| match numbers[..] {
        [precision, scale] => Some((precision.saturating_sub(scale), scale)),
        _ => None,
    });
    // no number: as many digits as there are
    let digits = |most: u8| numbers.first().is_none_or(|n| *n >= u32::from(most));
    match ty {
        ColumnType::Int { width, unsigned } => {
            let needed = match width {
                IntWidth::Tiny => 8,
                IntWidth::Small => 16,
                IntWidth::Medium => 24,
                IntWidth::Int => 32,
                IntWidth::Big => 64,
            } + u32::from(*unsigned);
            bits >= needed
                || is_text
                || numeric.is_some_and(|n| n.is_none_or(|(front, scale)| front >= 20 && scale == 0))
        }
        ColumnType::Year => bits > 0 || is_text,
        ColumnType::Decimal { precision, scale, .. } => {
            let front = u32::from(precision.saturating_sub(*scale));
            is_text || numeric.is_some_and(|n| n.is_none_or(|(f, s)| f >= front && s == u32::from(*scale)))
        }
        ColumnType::Time { fsp } => words == "interval" && digits(*fsp),
        ColumnType::DateTime { fsp } => words == "timestamp without time zone" && digits(*fsp),
        ColumnType::Timestamp { fsp } => words == "timestamp with time zone" && digits(*fsp),
        ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. } => {
            is_text || (words == "character varying" && numbers.first().is_some_and(|n| n >= length))
        }
        ColumnType::Text { .. }
        | ColumnType::Enum { .. }
        | ColumnType::Set { .. }
        | ColumnType::Json
        | ColumnType::Uuid => is_text,
        ColumnType::Inet4
        | ColumnType::Inet6
        | ColumnType::Float { .. }
        | ColumnType::Double { .. }
        | ColumnType::Bit { .. }
        | ColumnType::Date
        | ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob { .. }
        | ColumnType::Geometry { .. }
        | ColumnType::Vector { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::{DateTime, Timestamp};

    fn text(ty: &ColumnType, value: &Value<'_>) -> Result<Option<String>, Unfit> {
        Form::of(ty).text(value, NulPolicy::Error)
    }

    #[test]
    fn values_are_written_as_the_server_prints_them() {
        let date = |year, month, day| Date { year, month, day };
        let at = |date, micro| DateTime { date, hour: 1, minute: 2, second: 3, micro };
        for (ty, value, printed) in [
            (ColumnType::Bit { width: 3 }, Value::Bit(5), "101"),
            (ColumnType::Date, Value::Date(date(0, 3, 1)), "0001-03-01 BC"),
            (ColumnType::Time { fsp: 2 }, Value::Time(Time { micros: -10_000 }), "-00:00:00.01"),
            (ColumnType::Time { fsp: 0 }, Value::Time(Time { micros: -3_020_399_000_000 }), "-838:59:59"),
            (
                ColumnType::DateTime { fsp: 3 },
                Value::DateTime(at(date(2026, 1, 31), 500_000)),
                "2026-01-31 01:02:03.5",
            ),
            (
                ColumnType::DateTime { fsp: 0 },
                Value::DateTime(at(date(0, 1, 1), 0)),
                "0001-01-01 01:02:03 BC",
            ),
            (
                ColumnType::Timestamp { fsp: 0 },
                Value::Timestamp(Timestamp { micros: 1_000_000 }),
                "1970-01-01 00:00:01+00",
            ),
            (
                ColumnType::Blob { size: cdc_core::schema::LobSize::Long },
                Value::Bytes(vec![0, 255].into()),
                "\\x00ff",
            ),
            (
                ColumnType::Vector { dimensions: 2 },
                Value::Vector(vec![0, 0, 192, 63, 0, 0, 0, 128].into()),
                "{1.5e0,-0e0}",
            ),
        ] {
            assert_eq!(text(&ty, &value), Ok(Some(printed.to_owned())), "{ty}");
        }
        assert_eq!(text(&ColumnType::Date, &Value::Date(date(2026, 2, 31))), Err(Unfit::NoSuchDate));
        assert_eq!(text(&ColumnType::Bit { width: 3 }, &Value::Bit(8)), Err(Unfit::Kind));
        let zero = Value::Timestamp(Timestamp { micros: 0 });
        assert_eq!(text(&ColumnType::Timestamp { fsp: 0 }, &zero), Err(Unfit::NoSuchDate));
        let nul = Value::Text("a\0b".into());
        let with = |policy| Form::Text.text(&nul, policy).map(Option::unwrap_or_default);
        assert_eq!(with(NulPolicy::Error), Err(Unfit::Nul));
        assert_eq!(with(NulPolicy::Remove), Ok("ab".to_owned()));
        assert_eq!(with(NulPolicy::Replace), Ok("a\u{fffd}b".to_owned()));
    }

    #[test]
    fn other_spellings_of_the_server_are_one() {
        assert_eq!(Form::Double.normal("1e+15"), "1e15");
        assert_eq!(Form::Float.normal("-0"), "-0e0");
        assert_eq!(Form::Vector.normal("{1.5,-0}"), "{1.5e0,-0e0}");
        assert_eq!(Form::Inet6.normal("2001:db8:0:1:1:1:1:1/128"), "2001:db8::1:1:1:1:1");
        assert_eq!(Form::Inet4.normal("10.0.0.0/8"), "10.0.0.0/8");
        assert_eq!(Form::Double.key(Form::Double.normal("-0")), "0e0");
    }

    #[test]
    fn columns_that_are_wide_enough_are_taken() {
        let int = |width, unsigned| ColumnType::Int { width, unsigned };
        for (found, ty, taken) in [
            ("bigint", int(IntWidth::Int, true), true),
            ("integer", int(IntWidth::Int, true), false),
            ("numeric", int(IntWidth::Big, true), true),
            ("numeric(20,0)", int(IntWidth::Int, false), true),
            ("numeric(20,2)", int(IntWidth::Int, false), false),
            ("numeric(12,2)", ColumnType::Decimal { precision: 10, scale: 2, unsigned: false }, true),
            ("numeric(12,4)", ColumnType::Decimal { precision: 10, scale: 2, unsigned: false }, false),
            ("timestamp without time zone", ColumnType::DateTime { fsp: 6 }, true),
            ("timestamp(3) without time zone", ColumnType::DateTime { fsp: 6 }, false),
            ("timestamp(3) with time zone", ColumnType::DateTime { fsp: 3 }, false),
            ("jsonb", ColumnType::Json, false),
        ] {
            assert_eq!(takes(found, &ty), taken, "{found} for {ty}");
        }
    }
}
