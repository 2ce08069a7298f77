//! What rows that are already there read in a column that is added to them.
//!
//! `ADD COLUMN flag INT NOT NULL DEFAULT 7` writes no rows at the source: the rows that are there read 7. The
//! target is a server of the same kind, so it computes the value from the same constant, as DEFAULT of the column it
//! adds: one statement, and no row is written here either. Only a constant is taken over: what depends on the
//! moment, the session or the row (CURRENT_TIMESTAMP, UUID(), an expression, a TIMESTAMP literal, which is in
//! the session's time zone) would be another value here. The constant is read and written anew, so that no text
//! of the source runs at the target. A NOT NULL column without a default reads its type's implicit one (MySQL
//! manual 13.6).

use super::sql;
use super::types::Dialect;
use cdc_core::schema::{Column, ColumnType};

/// The literal, or why the value cannot be told. `None`: NULL.
pub(crate) fn default_literal(column: &Column, dialect: &Dialect) -> Result<Option<String>, String> {
    if column.generated.is_some() {
        return Err("a generated column is computed from each row".to_owned());
    }
    if column.auto_increment {
        return Err("AUTO_INCREMENT numbers the rows that are there".to_owned());
    }
    match &column.default {
        Some(text) => match literal(text) {
            Some(Literal::Null) => Ok(None),
            Some(literal) => {
                let is_zero = matches!(&literal, Literal::Text(t) if t.starts_with("0000-00-00"));
                match column.ty {
                    ColumnType::Timestamp { .. } if !is_zero => Err(format!(
                        "DEFAULT {text} is in the time zone of the session that added the column"
                    )),
                    ColumnType::Geometry { .. } | ColumnType::Vector { .. } | ColumnType::Json => {
                        Err(format!("DEFAULT {text} of a {} column", column.ty))
                    }
                    _ => Ok(Some(literal.sql())),
                }
            }
            None => Err(format!("DEFAULT {text} is not a constant")),
        },
        None if column.nullable => Ok(None),
        None => implicit(&column.ty, dialect)
            .map(Some)
            .ok_or_else(|| format!("{} has no implicit default", column.ty)),
    }
}

/// Does DEFAULT of this type take a literal only as an expression, in parentheses?
pub(crate) fn needs_parentheses(declared: &str, dialect: &Dialect) -> bool {
    let word = declared.split('(').next().unwrap_or_default();
    !dialect.mariadb && (word.ends_with("text") || word.ends_with("blob") || word == "json")
}

/// A constant after DEFAULT.
#[derive(Debug, Clone, PartialEq)]
enum Literal {
    Null,
    /// Digits as written, with sign, dot and exponent.
    Number(String),
    Text(String),
    Bytes(Vec<u8>),
    Bits(u64),
}

impl Literal {
    fn sql(&self) -> String {
        match self {
            Literal::Null => "NULL".to_owned(),
            Literal::Number(digits) => digits.clone(),
            Literal::Text(text) => sql::text(text),
            Literal::Bytes(bytes) => {
                let mut out = b"x'".to_vec();
                sql::push_hex(&mut out, bytes);
                out.push(b'\'');
                String::from_utf8_lossy(&out).into_owned()
            }
            Literal::Bits(bits) => format!("b'{bits:b}'"),
        }
    }
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
        let bits = if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 2).ok() };
        return bits.map(Literal::Bits);
    }
    // a character set introducer: the text is shown as UTF-8 all the same
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
    // a second minus would begin a comment
    (looks && has_digit && !number.contains("--") && number.parse::<f64>().is_ok())
        .then(|| Literal::Number(number.to_owned()))
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    even.as_bytes().chunks(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok()).collect()
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

/// The implicit default of a NOT NULL column.
fn implicit(ty: &ColumnType, dialect: &Dialect) -> Option<String> {
    Some(
        match ty {
            ColumnType::Int { .. }
            | ColumnType::Bit { .. }
            | ColumnType::Year
            | ColumnType::Decimal { .. }
            | ColumnType::Float { .. }
            | ColumnType::Double { .. } => "0",
            ColumnType::Date => "'0000-00-00'",
            ColumnType::Time { .. } => "'00:00:00'",
            ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => "'0000-00-00 00:00:00'",
            ColumnType::Char { .. }
            | ColumnType::VarChar { .. }
            | ColumnType::Text { .. }
            | ColumnType::Set { .. }
            | ColumnType::Binary { .. }
            | ColumnType::VarBinary { .. }
            | ColumnType::Blob { .. } => "''",
            ColumnType::Enum { labels, .. } => return labels.first().map(|l| sql::text(l)),
            ColumnType::Json if dialect.mariadb => "'null'",
            ColumnType::Json => "CAST('null' AS JSON)",
            ColumnType::Uuid => "'00000000-0000-0000-0000-000000000000'",
            ColumnType::Inet4 => "'0.0.0.0'",
            ColumnType::Inet6 => "'::'",
            ColumnType::Geometry { .. } | ColumnType::Vector { .. } => return None,
        }
        .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_constants_are_read_and_they_are_written_anew() {
        let of = |text: &str| literal(text).map(|l| l.sql());
        for (text, sql) in [
            ("7", "7"),
            ("'7'", "'7'"),
            ("(-7.5)", "-7.5"),
            ("TRUE", "1"),
            ("'it''s \\'x\\' \\\\'", "'it\\'s \\'x\\' \\\\'"),
            ("_utf8mb4'é'", "'é'"),
            ("b'101'", "b'101'"),
            ("0x41", "x'41'"),
            ("1e3", "1e3"),
        ] {
            assert_eq!(of(text).as_deref(), Some(sql), "{text}");
        }
        for text in
            ["CURRENT_TIMESTAMP", "(uuid())", "1 + 1", "'a", "'a' OR 'b'", "1--1", "now()", "'a'; DROP"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
