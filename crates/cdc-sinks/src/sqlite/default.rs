//! What rows that are already there read in a column that is added to them.
//!
//! `ADD COLUMN flag INT NOT NULL DEFAULT 7` writes no rows at the source: the rows that are there read 7. So
//! the default has to be computed here, exactly as the server does, or refused: a constant is; what depends
//! on the moment, the session or the row (CURRENT_TIMESTAMP, UUID(), an expression, a TIMESTAMP literal,
//! which is in the session's time zone) is not. A NOT NULL column without a default reads the type's
//! implicit one (MySQL manual 13.6): zero, the empty text, the first member of an ENUM.

use super::convert::{pad_fraction, rescale};
use super::types::Form;
use cdc_core::address::canonical;
use cdc_core::schema::{Column, ColumnType, same_name};
use cdc_core::value::Value;
use rusqlite::types::Value as Stored;

/// The value, or why it cannot be told.
pub(crate) fn default_value(column: &Column) -> Result<Stored, String> {
    if column.generated.is_some() {
        return Err("a generated column is computed from each row".to_owned());
    }
    if column.auto_increment {
        return Err("AUTO_INCREMENT numbers the rows that are there".to_owned());
    }
    match &column.default {
        Some(text) => match literal(text) {
            Some(Literal::Null) => Ok(Stored::Null),
            Some(literal) => convert(&literal, &column.ty)
                .ok_or_else(|| format!("DEFAULT {text} of a {} column", column.ty)),
            None => Err(format!("DEFAULT {text} is not a constant")),
        },
        None if column.nullable => Ok(Stored::Null),
        None => implicit(&column.ty).ok_or_else(|| format!("{} has no implicit default", column.ty)),
    }
}

/// A constant after DEFAULT.
#[derive(Debug, Clone, PartialEq)]
enum Literal {
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
fn literal(text: &str) -> Option<Literal> {
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

/// A constant as a column of this type stores it; `None` where the server's conversion is not certain.
fn convert(literal: &Literal, ty: &ColumnType) -> Option<Stored> {
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
            integer(number, Form::of(ty))
        }
        ColumnType::Decimal { scale, .. } => rescale(text?.trim(), u32::from(*scale)).map(Stored::Text),
        ColumnType::Double { .. } => text?.trim().parse().ok().map(Stored::Real),
        ColumnType::Float { .. } => text?.trim().parse::<f32>().ok().map(|v| Stored::Real(f64::from(v))),
        ColumnType::Date => date(text?).map(Stored::Text),
        ColumnType::Time { fsp } => clock(text?, *fsp).map(Stored::Text),
        ColumnType::DateTime { fsp } => datetime(text?, *fsp).map(Stored::Text),
        ColumnType::Timestamp { fsp } => {
            let text = datetime(text?, *fsp)?;
            text.starts_with("0000-00-00").then_some(Stored::Text(text))
        }
        ColumnType::Char { .. } => Some(Stored::Text(text?.trim_end_matches(' ').to_owned())),
        ColumnType::VarChar { .. } | ColumnType::Text { .. } => Some(Stored::Text(text?.to_owned())),
        ColumnType::Enum { labels, .. } => {
            let Literal::Text(text) = literal else { return None };
            let exact = labels.iter().find(|l| ***l == **text);
            exact.or_else(|| labels.iter().find(|l| same_name(l, text))).map(|l| Stored::Text(l.to_string()))
        }
        ColumnType::Set { labels, .. } => {
            let Literal::Text(text) = literal else { return None };
            let wanted: Vec<&str> = text.split(',').filter(|w| !w.is_empty()).collect();
            let is_wanted = |l: &str| wanted.iter().any(|w| same_name(l, w));
            if !wanted.iter().all(|w| labels.iter().any(|l| same_name(l, w))) {
                return None;
            }
            let chosen: Vec<&str> = labels.iter().map(|l| &**l).filter(|l| is_wanted(l)).collect();
            Some(Stored::Text(chosen.join(",")))
        }
        ColumnType::Binary { length } => {
            let mut bytes = bytes(literal)?;
            if bytes.len() > *length as usize {
                return None;
            }
            bytes.resize(*length as usize, 0);
            Some(Stored::Blob(bytes))
        }
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => bytes(literal).map(Stored::Blob),
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => {
            canonical(ty, text?.trim()).map(Stored::Text)
        }
        ColumnType::Json | ColumnType::Geometry { .. } | ColumnType::Vector { .. } => None,
    }
}

fn bytes(literal: &Literal) -> Option<Vec<u8>> {
    match literal {
        Literal::Bytes(v) => Some(v.clone()),
        Literal::Text(v) | Literal::Number(v) => Some(v.as_bytes().to_vec()),
        Literal::Null | Literal::Bits(_) => None,
    }
}

fn integer(number: i128, form: Form) -> Option<Stored> {
    let value = if number < 0 {
        Value::Int(i64::try_from(number).ok()?)
    } else {
        Value::UInt(u64::try_from(number).ok()?)
    };
    let mut scratch = Vec::new();
    super::types::encode(&value, form, &mut scratch).map(Stored::from_ref)
}

/// Owns a stored value.
pub(crate) trait FromRef {
    fn from_ref(value: rusqlite::types::ValueRef<'_>) -> Self;
}

impl FromRef for Stored {
    fn from_ref(value: rusqlite::types::ValueRef<'_>) -> Stored {
        use rusqlite::types::ValueRef;
        match value {
            ValueRef::Null => Stored::Null,
            ValueRef::Integer(v) => Stored::Integer(v),
            ValueRef::Real(v) => Stored::Real(v),
            // What is not UTF-8 was not written by us.
            ValueRef::Text(v) => Stored::Text(String::from_utf8_lossy(v).into_owned()),
            ValueRef::Blob(v) => Stored::Blob(v.to_vec()),
        }
    }
}

/// `2026-01-31`.
fn date(text: &str) -> Option<String> {
    let fits = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    fits.then(|| text.to_owned())
}

/// `[-]HH:MM:SS[.fraction]` with `fsp` digits.
fn clock(text: &str, fsp: u8) -> Option<String> {
    let body = text.strip_prefix('-').unwrap_or(text);
    let whole = body.split('.').next()?;
    let parts: Vec<&str> = whole.split(':').collect();
    let digits = |p: &&str| (2..=3).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_digit());
    (parts.len() == 3 && parts.iter().all(digits)).then(|| pad_fraction(text, u32::from(fsp)))?
}

fn datetime(text: &str, fsp: u8) -> Option<String> {
    let (day, time) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    date(day)?;
    if time.starts_with('-') || time.find(':') != Some(2) {
        return None;
    }
    Some(format!("{day} {}", clock(time, fsp)?))
}

/// The implicit default of a NOT NULL column.
fn implicit(ty: &ColumnType) -> Option<Stored> {
    let text = |t: &str| Some(Stored::Text(t.to_owned()));
    match ty {
        ColumnType::Int { .. } | ColumnType::Bit { .. } | ColumnType::Year => Some(Stored::Integer(0)),
        ColumnType::Decimal { scale, .. } => rescale("0", u32::from(*scale)).map(Stored::Text),
        ColumnType::Float { .. } | ColumnType::Double { .. } => Some(Stored::Real(0.0)),
        ColumnType::Date => text("0000-00-00"),
        ColumnType::Time { fsp } => pad_fraction("00:00:00", u32::from(*fsp)).map(Stored::Text),
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            pad_fraction("0000-00-00 00:00:00", u32::from(*fsp)).map(Stored::Text)
        }
        ColumnType::Char { .. }
        | ColumnType::VarChar { .. }
        | ColumnType::Text { .. }
        | ColumnType::Set { .. } => text(""),
        ColumnType::Enum { labels, .. } => text(labels.first()?),
        ColumnType::Binary { length } => Some(Stored::Blob(vec![0; *length as usize])),
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => Some(Stored::Blob(Vec::new())),
        ColumnType::Json => text("null"),
        ColumnType::Uuid => text("00000000-0000-0000-0000-000000000000"),
        ColumnType::Inet4 => text("0.0.0.0"),
        ColumnType::Inet6 => text("::"),
        ColumnType::Geometry { .. } | ColumnType::Vector { .. } => None,
    }
}

/// A stored value as a literal that ADD COLUMN takes as a default; `None` for values that have none.
pub(crate) fn as_literal(value: &Stored) -> Option<String> {
    match value {
        Stored::Null => Some("NULL".to_owned()),
        Stored::Integer(v) => Some(v.to_string()),
        // `{:?}` gives the shortest digits with a dot or an exponent; the sign of -0.0 would be lost.
        Stored::Real(v) if *v == 0.0 && v.is_sign_negative() => None,
        Stored::Real(v) => Some(format!("{v:?}")),
        // SQLite's text literals end at a NUL.
        Stored::Text(v) if v.contains('\0') => None,
        Stored::Text(v) => Some(format!("'{}'", v.replace('\'', "''"))),
        Stored::Blob(v) => Some(format!("x'{}'", v.iter().map(|b| format!("{b:02x}")).collect::<String>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, IntWidth};

    fn of(ty: ColumnType, default: &str) -> Result<Stored, String> {
        let mut column = Column::new("c", ty).not_null();
        column.default = Some(default.to_owned());
        default_value(&column)
    }

    #[test]
    fn constants_are_computed_as_the_server_does() {
        let int = || ColumnType::Int { width: IntWidth::Int, unsigned: false };
        let decimal = || ColumnType::Decimal { precision: 10, scale: 2, unsigned: false };
        let varchar = || ColumnType::VarChar { length: 20, charset: Charset::utf8mb4() };
        let text = |t: &str| Ok(Stored::Text(t.to_owned()));
        assert_eq!(of(int(), "7"), Ok(Stored::Integer(7)));
        assert_eq!(of(int(), "'7'"), Ok(Stored::Integer(7)));
        assert_eq!(of(int(), "-7"), Ok(Stored::Integer(-7)));
        assert_eq!(of(int(), "(7)"), Ok(Stored::Integer(7)));
        assert_eq!(of(int(), "NULL"), Ok(Stored::Null));
        assert_eq!(of(int(), "TRUE"), Ok(Stored::Integer(1)));
        assert!(of(int(), "7.5").is_err());
        assert_eq!(of(decimal(), "'1.5'"), text("1.50"));
        assert_eq!(of(decimal(), "1.5"), text("1.50"));
        assert_eq!(of(decimal(), "-.5"), text("-0.50"));
        assert_eq!(of(varchar(), r"'it''s \'x\' \\ \n'"), text("it's 'x' \\ \n"));
        assert_eq!(of(varchar(), "_utf8mb4'é'"), text("é"));
        assert_eq!(
            of(ColumnType::DateTime { fsp: 3 }, "'2026-01-01 00:00:00'"),
            text("2026-01-01 00:00:00.000")
        );
        assert_eq!(of(ColumnType::Bit { width: 3 }, "b'101'"), Ok(Stored::Integer(5)));
        assert_eq!(of(ColumnType::Binary { length: 3 }, "0x41"), Ok(Stored::Blob(vec![0x41, 0, 0])));
        assert_eq!(of(ColumnType::Double { unsigned: false }, "'1e3'"), Ok(Stored::Real(1000.0)));
        let big = ColumnType::Int { width: IntWidth::Big, unsigned: true };
        assert_eq!(of(big, "18446744073709551615"), text("18446744073709551615"));
        for unknown in ["CURRENT_TIMESTAMP", "(uuid())", "now()", "(1 + 1)", "'a", "CURRENT_TIMESTAMP(6)"] {
            assert!(of(ColumnType::DateTime { fsp: 0 }, unknown).is_err(), "{unknown}");
            assert!(of(varchar(), unknown).is_err(), "{unknown}");
        }
        assert!(of(ColumnType::Timestamp { fsp: 0 }, "'2026-01-01 00:00:00'").is_err());
        assert_eq!(
            of(ColumnType::Timestamp { fsp: 1 }, "'0000-00-00 00:00:00'"),
            text("0000-00-00 00:00:00.0")
        );
    }

    #[test]
    fn not_null_without_a_default_reads_the_implicit_one() {
        let column =
            Column::new("c", ColumnType::Decimal { precision: 5, scale: 1, unsigned: false }).not_null();
        assert_eq!(default_value(&column), Ok(Stored::Text("0.0".to_owned())));
        let column = Column::new("c", ColumnType::Json);
        assert_eq!(default_value(&column), Ok(Stored::Null));
    }
}
