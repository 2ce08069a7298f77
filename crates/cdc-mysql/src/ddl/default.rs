//! DEFAULT clauses: read from DDL, written in one normal form.
//!
//! Servers print one default in several ways (`5`, `'5'`, `NOW()`, `current_timestamp()`), so the text kept
//! in `Column::default` has one form for each value, whatever it was read from: a bare number for number
//! types, a quoted text for texts and times, `b'..'` for BIT, `0x..` for bytes, `CURRENT_TIMESTAMP(n)`, and
//! an expression in parentheses. `DEFAULT NULL` is no default: nobody can tell them apart in
//! `information_schema`, and rows read NULL either way.

use super::context::Context;
use super::cursor::{Cursor, Parsed};
use super::lexer::{self, Kind};
use cdc_core::schema::{ColumnType, same_name};

/// A default as DDL writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number with its sign.
    Number(String),
    /// A text, or a date or time in quotes.
    Text(String),
    /// Bytes, or the bits of a BIT column, high byte first.
    Bytes(Vec<u8>),
    /// CURRENT_TIMESTAMP: the time of the statement.
    Now {
        /// Digits of fraction.
        fsp: u8,
    },
    /// Anything else, without its outer parentheses: it has no value that could be told from the statement.
    Expression(String),
}

const NOW: &[&str] = &["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"];

/// Behind DEFAULT. `None` is NULL.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Parsed<Option<DefaultValue>> {
    let start = cursor.peek().start;
    let value = primary(cursor)?;
    // MariaDB takes expressions without parentheses.
    let mut is_expression = false;
    while let Kind::Symbol(b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'^' | b'<' | b'>' | b'=') =
        cursor.peek().kind
    {
        is_expression = true;
        cursor.advance();
        primary(cursor)?;
    }
    if is_expression {
        return Ok(Some(DefaultValue::Expression(cursor.since(start).to_owned())));
    }
    Ok(value)
}

fn primary(cursor: &mut Cursor<'_>) -> Parsed<Option<DefaultValue>> {
    let token = cursor.peek();
    let start = token.start;
    Ok(Some(match token.kind {
        Kind::Symbol(b'(') => DefaultValue::Expression(cursor.group()?.to_owned()),
        Kind::Symbol(sign @ (b'+' | b'-')) => {
            cursor.advance();
            let mut minus = sign == b'-';
            while let Kind::Symbol(more @ (b'+' | b'-')) = cursor.peek().kind {
                minus ^= more == b'-';
                cursor.advance();
            }
            if cursor.peek().kind == Kind::Number {
                let digits = cursor.advance().text;
                DefaultValue::Number(if minus { format!("-{digits}") } else { digits.to_owned() })
            } else {
                operand(cursor)?;
                DefaultValue::Expression(cursor.since(start).to_owned())
            }
        }
        Kind::Number => DefaultValue::Number(cursor.advance().text.to_owned()),
        Kind::Hex | Kind::Bit => {
            cursor.advance();
            DefaultValue::Bytes(lexer::unquote_bits(token.kind, token.text))
        }
        Kind::Text | Kind::National => DefaultValue::Text(cursor.text()?.into_owned()),
        Kind::Word => return word(cursor),
        Kind::Quoted => {
            operand(cursor)?;
            DefaultValue::Expression(cursor.since(start).to_owned())
        }
        _ => return Err(cursor.unexpected("a default")),
    }))
}

fn word(cursor: &mut Cursor<'_>) -> Parsed<Option<DefaultValue>> {
    let token = cursor.peek();
    let start = token.start;
    let second = cursor.second().kind;
    if token.is("NULL") {
        cursor.advance();
        return Ok(None);
    }
    if cursor.is_any(NOW) {
        return Ok(Some(DefaultValue::Now { fsp: now(cursor)? }));
    }
    if token.is("TRUE") || token.is("FALSE") {
        cursor.advance();
        return Ok(Some(DefaultValue::Number(u8::from(token.is("TRUE")).to_string())));
    }
    if cursor.is_any(&["DATE", "TIME", "TIMESTAMP"]) && second == Kind::Text {
        cursor.advance();
        return Ok(Some(DefaultValue::Text(cursor.text()?.into_owned())));
    }
    if token.text.starts_with('_') && matches!(second, Kind::Text | Kind::Hex | Kind::Bit) {
        if second == Kind::Text {
            return Ok(Some(DefaultValue::Text(cursor.text()?.into_owned())));
        }
        cursor.advance();
        let bits = cursor.advance();
        return Ok(Some(DefaultValue::Bytes(lexer::unquote_bits(bits.kind, bits.text))));
    }
    operand(cursor)?;
    Ok(Some(DefaultValue::Expression(cursor.since(start).to_owned())))
}

/// A name or a call of a function.
fn operand(cursor: &mut Cursor<'_>) -> Parsed<()> {
    if !cursor.is_symbol(b'(') {
        cursor.column()?;
    }
    if cursor.is_symbol(b'(') {
        cursor.group()?;
    }
    Ok(())
}

/// `NOW`, `NOW()`, `NOW(n)`.
pub(super) fn now(cursor: &mut Cursor<'_>) -> Parsed<u8> {
    if !cursor.accept_any(NOW) {
        return Err(cursor.unexpected("CURRENT_TIMESTAMP"));
    }
    if !cursor.accept_symbol(b'(') {
        return Ok(0);
    }
    let fsp = if cursor.is_symbol(b')') { 0 } else { cursor.number()? };
    cursor.expect_symbol(b')')?;
    Ok(fsp.min(6) as u8)
}

/// The text kept for a column of this type.
pub(super) fn write(value: &DefaultValue, ty: &ColumnType) -> String {
    match value {
        DefaultValue::Now { fsp: 0 } => "CURRENT_TIMESTAMP".to_owned(),
        DefaultValue::Now { fsp } => format!("CURRENT_TIMESTAMP({fsp})"),
        DefaultValue::Expression(text) => format!("({text})"),
        DefaultValue::Number(_) | DefaultValue::Text(_) | DefaultValue::Bytes(_) => literal(value, ty),
    }
}

fn literal(value: &DefaultValue, ty: &ColumnType) -> String {
    match ty {
        ColumnType::Bit { .. } => format!("b'{:b}'", bits(value)),
        ColumnType::Int { .. }
        | ColumnType::Decimal { .. }
        | ColumnType::Float { .. }
        | ColumnType::Double { .. }
        | ColumnType::Year => {
            let text = match value {
                DefaultValue::Bytes(_) => bits(value).to_string(),
                DefaultValue::Number(text) | DefaultValue::Text(text) => text.trim().to_owned(),
                _ => String::new(),
            };
            match number(&text, ty) {
                Some(number) => number,
                None => quote(&text),
            }
        }
        ColumnType::Date
        | ColumnType::Time { .. }
        | ColumnType::DateTime { .. }
        | ColumnType::Timestamp { .. }
            if matches!(value, DefaultValue::Number(n) if n == "0") =>
        {
            quote(&zero(ty))
        }
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            let text = plain(value);
            quote(&whole_time(&text, *fsp).unwrap_or(text))
        }
        ColumnType::Enum { labels, .. } if matches!(value, DefaultValue::Number(_)) => {
            let label = match value {
                DefaultValue::Number(n) => {
                    n.parse::<usize>().ok().and_then(|i| labels.get(i.wrapping_sub(1)))
                }
                _ => None,
            };
            label.map_or_else(|| quote(&plain(value)), |label| quote(label))
        }
        // The member as it is spelled.
        ColumnType::Enum { labels, .. } => {
            let text = plain(value);
            let exact = labels.iter().find(|label| ***label == *text);
            let label = exact.or_else(|| labels.iter().find(|label| same_name(label, &text)));
            quote(label.map_or(&text, |label| label))
        }
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => {
            let mut bytes = match value {
                DefaultValue::Bytes(bytes) => bytes.clone(),
                _ => plain(value).into_bytes(),
            };
            if let ColumnType::Binary { length } = ty {
                // As it is stored.
                bytes.resize(bytes.len().max((*length).min(255) as usize), 0);
            }
            match std::str::from_utf8(&bytes) {
                Ok(text) => quote(text),
                Err(_) => {
                    let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
                    format!("0x{digits}")
                }
            }
        }
        // Without strict mode a default that is too long is cut.
        ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. } => {
            let text = plain(value);
            match text.char_indices().nth(*length as usize) {
                Some((end, _)) => quote(&text[..end]),
                None => quote(&text),
            }
        }
        _ => quote(&plain(value)),
    }
}

fn plain(value: &DefaultValue) -> String {
    match value {
        DefaultValue::Number(text) if text.contains(['e', 'E']) => double(text),
        DefaultValue::Number(text) | DefaultValue::Text(text) => text.clone(),
        DefaultValue::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// A number with an exponent as the server turns it into a text.
fn double(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(n) if n == 0.0 || (1e-15..1e15).contains(&n.abs()) => n.to_string(),
        Ok(n) => format!("{n:e}"),
        Err(_) => text.to_owned(),
    }
}

fn bits(value: &DefaultValue) -> u64 {
    let fold = |bytes: &[u8]| bytes.iter().fold(0u64, |n, &b| (n << 8) | u64::from(b));
    match value {
        DefaultValue::Number(text) => {
            text.parse().unwrap_or_else(|_| text.parse::<f64>().map_or(0, |n| n.round() as u64))
        }
        DefaultValue::Text(text) => fold(text.as_bytes()),
        DefaultValue::Bytes(bytes) => fold(bytes),
        _ => 0,
    }
}

/// A plain number as the type holds it; `None` if it is none.
fn number(text: &str, ty: &ColumnType) -> Option<String> {
    let exponent = text.contains(['e', 'E']).then(|| double(text));
    let text = exponent.as_deref().unwrap_or(text);
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_plain = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.bytes().filter(|&b| b == b'.').count() <= 1
        && digits != ".";
    if !is_plain {
        return text.parse::<f64>().ok().filter(|n| n.is_finite()).map(|_| text.to_owned());
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let (whole, fraction) = match ty {
        ColumnType::Decimal { scale, .. } => round(whole, fraction, usize::from(*scale)),
        ColumnType::Int { .. } => round(whole, fraction, 0),
        _ => (whole.to_owned(), fraction.trim_end_matches('0').to_owned()),
    };
    let sign =
        if text.starts_with('-') && (whole != "0" || fraction.bytes().any(|b| b != b'0')) { "-" } else { "" };
    Some(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// To so many digits behind the dot, half away from zero.
fn round(whole: &str, fraction: &str, scale: usize) -> (String, String) {
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let kept = whole.len() + scale;
    let up = digits.get(kept).is_some_and(|&d| d >= b'5');
    digits.resize(kept, b'0');
    let mut at = kept;
    while up && at > 0 {
        at -= 1;
        if digits[at] < b'9' {
            digits[at] += 1;
            break;
        }
        digits[at] = b'0';
        if at == 0 {
            digits.insert(0, b'1');
        }
    }
    let dot = digits.len() - scale;
    let text = |part: &[u8]| part.iter().map(|&b| char::from(b)).collect();
    (text(&digits[..dot]), text(&digits[dot..]))
}

/// `2020-01-02` and `2020-01-02 03:04:05` with the type's digits of fraction, as the server keeps them. Whatever is
/// written in another way, or has a fraction already, is left as it is.
fn whole_time(text: &str, fsp: u8) -> Option<String> {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let time = match &*shape {
        "0000-00-00" => " 00:00:00",
        "0000-00-00 00:00:00" => "",
        _ => return None,
    };
    let fraction = if fsp == 0 { String::new() } else { format!(".{}", "0".repeat(usize::from(fsp))) };
    Some(format!("{text}{time}{fraction}"))
}

fn zero(ty: &ColumnType) -> String {
    let (text, fsp) = match ty {
        ColumnType::Date => ("0000-00-00", 0),
        ColumnType::Time { fsp } => ("00:00:00", *fsp),
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => ("0000-00-00 00:00:00", *fsp),
        _ => ("0", 0),
    };
    if fsp == 0 { text.to_owned() } else { format!("{text}.{}", "0".repeat(usize::from(fsp))) }
}

/// Quoted as the server quotes.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for c in text.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\0' => quoted.push_str("\\0"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// Reads back the text kept in `Column::default`. `None` is NULL, or a text that is no default.
pub fn read_default(text: &str) -> Option<DefaultValue> {
    let context = Context::mysql(u32::MAX);
    let mut cursor = Cursor::new(text, &context);
    parse(&mut cursor).ok().flatten()
}

/// The bytes of a text in a character set that ASCII is no part of: what a column of it holds once it is made binary.
pub(super) fn in_wide_bytes(value: DefaultValue, charset: &str) -> DefaultValue {
    let (DefaultValue::Text(text) | DefaultValue::Number(text)) = &value else { return value };
    let units = text.encode_utf16();
    DefaultValue::Bytes(match charset {
        "ucs2" | "utf16" => units.flat_map(u16::to_be_bytes).collect(),
        "utf16le" => units.flat_map(u16::to_le_bytes).collect(),
        "utf32" => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        _ => return value,
    })
}

/// Is the kept text an expression, whose value for a row that is already there nobody can tell?
pub(super) fn is_expression(text: &str) -> bool {
    text.starts_with('(') || text.starts_with("CURRENT_TIMESTAMP")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::Charset;
    use cdc_core::schema::IntWidth;

    #[test]
    fn ddl_defaults() {
        let context = Context::mysql(90704);
        let check = |text: &str, ty: &ColumnType, expect: &str| {
            let mut cursor = Cursor::new(text, &context);
            let value = parse(&mut cursor).unwrap_or_else(|f| panic!("{text}: {}", f.message));
            assert!(cursor.at_end(), "{text}");
            let got = value.map_or("none".to_owned(), |v| write(&v, ty));
            assert_eq!(got, expect, "{text}");
        };
        let int = ColumnType::Int { width: IntWidth::Int, unsigned: false };
        let text = ColumnType::VarChar { length: 9, charset: Charset::utf8mb4() };
        let decimal = ColumnType::Decimal { precision: 9, scale: 3, unsigned: false };
        let time = ColumnType::Timestamp { fsp: 3 };
        check("NULL", &int, "none");
        check("'5'", &int, "5");
        check("- 5", &int, "-5");
        check("TRUE", &int, "1");
        check("0x10", &int, "16");
        check("1.5", &decimal, "1.500");
        check("'-0'", &decimal, "0.000");
        check("-9.9995", &decimal, "-10.000");
        check("1.5", &int, "2");
        check("5", &text, "'5'");
        check("_utf8mb4'a' 'b'", &text, "'ab'");
        check("x'4142'", &text, "'AB'");
        check("'a''b\\nc\\\\'", &text, "'a''b\\nc\\\\'");
        check("0", &time, "'0000-00-00 00:00:00.000'");
        check("now(3)", &time, "CURRENT_TIMESTAMP(3)");
        check("current_timestamp()", &time, "CURRENT_TIMESTAMP");
        check("(uuid())", &text, "(uuid())");
        check("uuid()", &text, "(uuid())");
        check("1 + (2 * 3)", &int, "(1 + (2 * 3))");
        check("b'101'", &ColumnType::Bit { width: 3 }, "b'101'");
        check("2", &ColumnType::Bit { width: 3 }, "b'10'");
        check("x'FF00'", &ColumnType::Binary { length: 2 }, "0xFF00");
        check("TIMESTAMP'2020-01-01 00:00:00'", &time, "'2020-01-01 00:00:00.000'");
        check("'2020-01-01'", &time, "'2020-01-01 00:00:00.000'");
        check("1e3", &int, "1000");
        check("1e2", &text, "'100'");
    }

    #[test]
    fn ddl_read_default() {
        assert_eq!(read_default("-5"), Some(DefaultValue::Number("-5".into())));
        assert_eq!(read_default("'a''b'"), Some(DefaultValue::Text("a'b".into())));
        assert_eq!(read_default("0xFF00"), Some(DefaultValue::Bytes(vec![255, 0])));
        assert_eq!(read_default("CURRENT_TIMESTAMP(3)"), Some(DefaultValue::Now { fsp: 3 }));
        assert_eq!(read_default("(uuid())"), Some(DefaultValue::Expression("uuid()".into())));
        assert_eq!(read_default("NULL"), None);
    }
}
