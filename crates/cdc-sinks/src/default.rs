//! What rows that are already there read in a column that is added to them.
//!
//! `ADD COLUMN flag INT NOT NULL DEFAULT 7` writes no rows at the source: the rows that are there read 7. So
//! the default has to be computed here, exactly as the server does, or refused: a constant is; what depends
//! on the moment, the session or the row (CURRENT_TIMESTAMP, UUID(), an expression, a TIMESTAMP literal,
//! which is in the session's time zone) is not. A NOT NULL column without a default reads the type's
//! implicit one (MySQL manual 13.6): zero, the empty text, the first member of an ENUM.

use cdc_core::address::canonical;
use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::schema::{Column, ColumnType, same_name};
use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};
use cdc_core::{Error, codes};

/// A column as the source has it, which tells what its rows read: at the target it may hold NULL although it is NOT NULL there.
pub(crate) fn as_source(column: &Column, implicit: bool) -> Column {
    Column { nullable: column.nullable && !implicit, ..column.clone() }
}

/// The error of rows whose values in a column are not known here.
pub(crate) fn cannot_tell(table: &str, column: &Column, why: String) -> Error {
    Error::definite(
        codes::TARGET_DDL,
        format!(
            "table \"{table}\": what the rows that are there read in column \"{}\" cannot be told",
            column.name
        ),
    )
    .note(why)
    .help("copy the table anew, or exclude add_column from the flow's schema changes")
}

/// The error of a column that is to be added and is there: somebody else has made it, since rows read another value in it than `reads`.
/// (A run before a crash may have made one, and then its rows read that.)
pub(crate) fn other_values(table: &str, column: &Column, there: &str, reads: &str, rename: String) -> Error {
    Error::definite(
        codes::TARGET_SHAPE,
        format!("table \"{table}\" at the target has a column \"{}\" with other values in it", column.name),
    )
    .note(format!("a row reads {there} there; at the source it reads {reads} in the new column"))
    .note("the pipeline has not made it")
    .help(rename)
}

/// The error of a table of another shape, where `on_existing = evolve` does not make it fit: `left` says what it could not change
/// without that the table can hold less than before.
pub(crate) fn not_widened(error: Error, left: &[String]) -> Error {
    left.iter().fold(error, |error, what| {
        error.note(format!(
            "on_existing = evolve adds columns and widens types; it does not mend this: {what}"
        ))
    })
}

/// The same of one that holds rows: in a column that is added they would read what the source does not have.
pub(crate) fn not_empty(error: Error) -> Error {
    error.note("on_existing = evolve changes a table that is empty; this one holds rows")
}

/// Behind a statement: without the rows that the source has deleted and the target keeps.
pub(crate) fn without_deleted(table: &TargetTable, quote: impl Fn(&str) -> String) -> String {
    let flag = table.soft_delete.and_then(|i| table.schema.columns.get(i));
    flag.map_or_else(String::new, |column| format!(" WHERE {} = 0", quote(&column.name)))
}

/// The value, or why it cannot be told.
pub(crate) fn default_value(column: &Column) -> Result<Value<'static>, String> {
    if column.generated.is_some() {
        return Err("a generated column is computed from each row".to_owned());
    }
    if column.auto_increment {
        return Err("AUTO_INCREMENT numbers the rows that are there".to_owned());
    }
    match &column.default {
        Some(text) => match literal(text) {
            Some(Literal::Null) => Ok(Value::Null),
            Some(literal) => convert(&literal, &column.ty)
                .ok_or_else(|| format!("DEFAULT {text} of a {} column", column.ty)),
            None => Err(format!("DEFAULT {text} is not a constant")),
        },
        None if column.nullable => Ok(Value::Null),
        None => implicit(&column.ty).ok_or_else(|| format!("{} has no implicit default", column.ty)),
    }
}

/// The digits of fraction of a default that is the moment of the statement; `None` for any other.
pub(crate) fn moment(default: &str) -> Option<u8> {
    let rest = default.trim().strip_prefix("CURRENT_TIMESTAMP")?;
    if rest.is_empty() {
        return Some(0);
    }
    rest.strip_prefix('(')?.strip_suffix(')')?.parse().ok()
}

/// The moment of the statement, where the column has as many digits of fraction as it: else one of them would be cut.
pub(crate) fn moment_of(column: &Column) -> Option<Result<u8, String>> {
    let default = column.default.as_deref()?;
    let digits = moment(default)?;
    Some(match column.ty {
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } if fsp == digits => Ok(fsp),
        _ => Err(format!("DEFAULT {default} of a {} column", column.ty)),
    })
}

/// A line for people: a default that a target does not have.
pub(crate) fn no_default(column: &Column, why: &str) -> String {
    format!("column \"{}\" of the target has no default: {why}", column.name)
}

/// A line for people: a comment that a target does not have.
pub(crate) fn no_comment(column: Option<&str>, why: &str) -> String {
    let what =
        column.map_or_else(|| "the target's table".to_owned(), |c| format!("column \"{c}\" of the target"));
    format!("{what} has no comment: {why}")
}

/// A line for people: a comment that a target has in part.
pub(crate) fn part_of_comment(column: Option<&str>, why: &str) -> String {
    let what =
        column.map_or_else(|| "the target's table".to_owned(), |c| format!("column \"{c}\" of the target"));
    format!("{what} has not all of its comment: {why}")
}

/// The columns whose defaults a change brings, and the comments, each with its column.
pub(crate) fn brought(change: &TargetSchemaChange) -> (Vec<&Column>, Vec<(Option<&str>, &str)>) {
    match change {
        TargetSchemaChange::CreateTable { table } => {
            let columns = &table.schema.columns;
            let comments = columns.iter().map(|c| (Some(&*c.name), &*c.comment));
            (
                columns.iter().collect(),
                std::iter::once((None, &*table.schema.comment)).chain(comments).collect(),
            )
        }
        TargetSchemaChange::AddColumn { column, keeps_default, .. } => (
            Some(column).filter(|_| *keeps_default).into_iter().collect(),
            vec![(Some(&*column.name), &*column.comment)],
        ),
        TargetSchemaChange::AlterColumnDefault { column, .. } => (vec![column], Vec::new()),
        TargetSchemaChange::AlterComment { column, comment, .. } => {
            (Vec::new(), vec![(column.as_deref(), comment)])
        }
        _ => (Vec::new(), Vec::new()),
    }
}

/// A constant after DEFAULT.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    /// Digits as written, with sign, dot and exponent.
    Number(String),
    Text(String),
    /// `x'..'`, `0x..`.
    Bytes(Vec<u8>),
    /// `b'..'`, `0b..`.
    Bits(u64),
}

/// Reads a constant as the server prints it; `None` for anything else.
pub(crate) fn literal(text: &str) -> Option<Literal> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        return literal(inner);
    }
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("NULL") {
        return Some(Literal::Null);
    }
    if is("TRUE") || is("FALSE") {
        return Some(Literal::Number(if is("TRUE") { "1" } else { "0" }.to_owned()));
    }
    let quoted = |prefix: &str| {
        let head = text.get(..prefix.len())?;
        let rest = text.get(prefix.len()..)?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)?.strip_suffix('\'')
    };
    if let Some(digits) = text.strip_prefix("0x").or_else(|| quoted("x'")) {
        return hex(digits).map(Literal::Bytes);
    }
    if let Some(digits) = text.strip_prefix("0b").or_else(|| quoted("b'")) {
        return if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 2).ok() }
            .map(Literal::Bits);
    }
    // A character set introducer: the text is shown as UTF-8 all the same.
    let body = match text.strip_prefix('_') {
        Some(rest) => rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim_start(),
        None => text,
    };
    if body.starts_with(['\'', '"']) {
        return unquoted(body).map(Literal::Text);
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    let looks = number.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let has_digit = number.trim_start_matches(['-', '.']).starts_with(|c: char| c.is_ascii_digit());
    (looks && has_digit && number.parse::<f64>().is_ok()).then(|| Literal::Number(number.to_owned()))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    let pairs = even.as_bytes().chunks(2);
    pairs.map(|p| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok()).collect()
}

/// The text between two quotes, with doubled quotes and backslash escapes read.
fn unquoted(text: &str) -> Option<String> {
    let mut chars = text.chars();
    let quote = chars.next()?;
    let mut out = String::new();
    loop {
        match chars.next()? {
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                '0' => out.push('\0'),
                'Z' => out.push('\u{1a}'),
                c @ ('%' | '_') => out.extend(['\\', c]),
                c => out.push(c),
            },
            c if c == quote => {
                if !chars.as_str().starts_with(quote) {
                    return chars.as_str().is_empty().then_some(out);
                }
                chars.next();
                out.push(quote);
            }
            c => out.push(c),
        }
    }
}

/// A constant as a value of a column of this type; `None` where the server's conversion is not certain.
fn convert(literal: &Literal, ty: &ColumnType) -> Option<Value<'static>> {
    let text = match literal {
        Literal::Number(t) | Literal::Text(t) => Some(t.as_str()),
        _ => None,
    };
    match ty {
        ColumnType::Int { .. } | ColumnType::Bit { .. } | ColumnType::Year => {
            let number = match literal {
                Literal::Bits(v) => i128::from(*v),
                Literal::Bytes(v) if v.len() <= 8 => v.iter().fold(0, |n, b| n << 8 | i128::from(*b)),
                // A text in a BIT column is its bytes.
                Literal::Text(t) if matches!(ty, ColumnType::Bit { .. }) => {
                    if t.len() > 8 {
                        return None;
                    }
                    t.bytes().fold(0, |n, b| n << 8 | i128::from(b))
                }
                _ => rescale(text?.trim(), 0)?.parse().ok()?,
            };
            integer(number, ty)
        }
        ColumnType::Decimal { scale, .. } => {
            rescale(text?.trim(), u32::from(*scale)).map(|t| Value::Decimal(t.into()))
        }
        ColumnType::Double { .. } => text?.trim().parse().ok().map(Value::Double),
        ColumnType::Float { .. } => text?.trim().parse().ok().map(Value::Float),
        ColumnType::Date => date(text?).map(Value::Date),
        ColumnType::Time { fsp } => time(text?, *fsp).map(Value::Time),
        ColumnType::DateTime { fsp } => datetime(text?, *fsp).map(Value::DateTime),
        ColumnType::Timestamp { fsp } => {
            let zero = datetime(text?, *fsp)?.date.is_zero();
            zero.then_some(Value::Timestamp(Timestamp { micros: 0 }))
        }
        ColumnType::Char { .. } => Some(Value::Text(text?.trim_end_matches(' ').to_owned().into())),
        ColumnType::VarChar { .. } | ColumnType::Text { .. } => Some(Value::Text(text?.to_owned().into())),
        ColumnType::Enum { labels, .. } => {
            let Literal::Text(text) = literal else { return None };
            let exact = labels.iter().position(|l| **l == **text);
            member(labels, exact.or_else(|| labels.iter().position(|l| same_name(l, text)))?)
        }
        ColumnType::Set { labels, .. } => {
            let Literal::Text(text) = literal else { return None };
            let wanted: Vec<&str> = text.split(',').filter(|w| !w.is_empty()).collect();
            let is_wanted = |l: &str| wanted.iter().any(|w| same_name(l, w));
            if !wanted.iter().all(|w| labels.iter().any(|l| same_name(l, w))) {
                return None;
            }
            let chosen: Vec<(usize, &str)> =
                labels.iter().map(|l| &**l).enumerate().filter(|(_, l)| is_wanted(l)).collect();
            let bits = chosen.iter().fold(0u64, |bits, (i, _)| bits | 1 << (i & 63));
            let labels: Vec<&str> = chosen.iter().map(|(_, l)| *l).collect();
            Some(Value::Set { bits, labels: labels.join(",").into() })
        }
        ColumnType::Binary { length } => {
            let mut bytes = bytes(literal)?;
            if bytes.len() > *length as usize {
                return None;
            }
            bytes.resize(*length as usize, 0);
            Some(Value::Bytes(bytes.into()))
        }
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => {
            bytes(literal).map(|b| Value::Bytes(b.into()))
        }
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => {
            canonical(ty, text?.trim()).map(|t| Value::Text(t.into()))
        }
        ColumnType::Json | ColumnType::Geometry { .. } | ColumnType::Vector { .. } => None,
    }
}

fn member(labels: &[std::sync::Arc<str>], i: usize) -> Option<Value<'static>> {
    let index = u16::try_from(i + 1).ok()?;
    Some(Value::Enum { index, label: labels.get(i)?.to_string().into() })
}

fn bytes(literal: &Literal) -> Option<Vec<u8>> {
    match literal {
        Literal::Bytes(v) => Some(v.clone()),
        Literal::Text(v) | Literal::Number(v) => Some(v.as_bytes().to_vec()),
        Literal::Null | Literal::Bits(_) => None,
    }
}

fn integer(number: i128, ty: &ColumnType) -> Option<Value<'static>> {
    match ty {
        ColumnType::Bit { .. } => u64::try_from(number).ok().map(Value::Bit),
        ColumnType::Year => u16::try_from(number).ok().map(Value::Year),
        ColumnType::Int { unsigned: true, .. } => u64::try_from(number).ok().map(Value::UInt),
        _ => i64::try_from(number).ok().map(Value::Int),
    }
}

/// `2026-01-31`.
fn date(text: &str) -> Option<Date> {
    let fits = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    if !fits {
        return None;
    }
    Some(Date {
        year: text.get(..4)?.parse().ok()?,
        month: text.get(5..7)?.parse().ok()?,
        day: text.get(8..)?.parse().ok()?,
    })
}

/// `[-]HH:MM:SS[.fraction]`, the fraction of at most `fsp` digits.
fn time(text: &str, fsp: u8) -> Option<Time> {
    let (sign, body) = text.strip_prefix('-').map_or((1, text), |body| (-1, body));
    let body = pad_fraction(body, u32::from(fsp)).and_then(|body| pad_fraction(&body, 6))?;
    let (whole, fraction) = body.split_once('.')?;
    let parts: Vec<&str> = whole.split(':').collect();
    let digits = |p: &&str| (2..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
    if parts.len() != 3 || !parts.iter().all(digits) {
        return None;
    }
    let number = |i: usize| parts.get(i)?.parse::<i64>().ok();
    let seconds = number(0)? * 3600 + number(1)? * 60 + number(2)?;
    Some(Time { micros: sign * (seconds * 1_000_000 + fraction.parse::<i64>().ok()?) })
}

fn datetime(text: &str, fsp: u8) -> Option<DateTime> {
    let (day, clock) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let date = date(day)?;
    if clock.starts_with('-') || clock.find(':') != Some(2) {
        return None;
    }
    let micros = u64::try_from(time(clock, fsp)?.micros).ok()?;
    let seconds = micros / 1_000_000;
    Some(DateTime {
        date,
        hour: u8::try_from(seconds / 3600).ok().filter(|h| *h < 24)?,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micro: (micros % 1_000_000) as u32,
    })
}

/// The implicit default of a NOT NULL column.
fn implicit(ty: &ColumnType) -> Option<Value<'static>> {
    let text = |t: &'static str| Some(Value::Text(t.into()));
    match ty {
        ColumnType::Int { .. } | ColumnType::Bit { .. } | ColumnType::Year => integer(0, ty),
        ColumnType::Decimal { scale, .. } => {
            rescale("0", u32::from(*scale)).map(|t| Value::Decimal(t.into()))
        }
        ColumnType::Float { .. } => Some(Value::Float(0.0)),
        ColumnType::Double { .. } => Some(Value::Double(0.0)),
        ColumnType::Date => Some(Value::Date(Date::default())),
        ColumnType::Time { .. } => Some(Value::Time(Time::default())),
        ColumnType::DateTime { .. } => Some(Value::DateTime(DateTime::default())),
        ColumnType::Timestamp { .. } => Some(Value::Timestamp(Timestamp::default())),
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => text(""),
        ColumnType::Set { .. } => Some(Value::Set { bits: 0, labels: "".into() }),
        ColumnType::Enum { labels, .. } => member(labels, 0),
        ColumnType::Binary { length } => Some(Value::Bytes(vec![0; *length as usize].into())),
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => Some(Value::Bytes(Vec::new().into())),
        ColumnType::Json => Some(Value::Json("null".into())),
        ColumnType::Uuid => text("00000000-0000-0000-0000-000000000000"),
        ColumnType::Inet4 => text("0.0.0.0"),
        ColumnType::Inet6 => text("::"),
        ColumnType::Geometry { .. } | ColumnType::Vector { .. } => None,
    }
}

/// A time with exactly `digits` digits of fraction; `None` if that would cut off other digits than zeros.
pub(crate) fn pad_fraction(text: &str, digits: u32) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = exact_digits(fraction, digits)?;
    Some(if digits == 0 { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

/// A decimal number in the server's form with exactly `scale` digits of fraction; `None` if it is no plain
/// number or would lose digits.
pub(crate) fn rescale(text: &str, scale: u32) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let fraction = exact_digits(fraction, scale)?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let zero = whole == "0" && fraction.bytes().all(|b| b == b'0');
    let sign = if zero { "" } else { sign };
    Some(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// A fraction filled up with zeros or cut back by zeros.
fn exact_digits(fraction: &str, digits: u32) -> Option<String> {
    let digits = digits as usize;
    if !fraction.is_ascii() {
        return None;
    }
    if fraction.len() <= digits {
        return Some(format!("{fraction:0<digits$}"));
    }
    let (kept, lost) = fraction.split_at(digits);
    lost.bytes().all(|b| b == b'0').then(|| kept.to_owned())
}
