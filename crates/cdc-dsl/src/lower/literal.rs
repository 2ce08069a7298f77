//! Constants as values.

use crate::values::{canonical_decimal, parse_date, parse_datetime, parse_time};
use cdc_core::value::Value;
use std::borrow::Cow;

/// A number: an integer where it fits 64 bits, an exact DECIMAL without an exponent, else a DOUBLE; as in
/// MySQL. The error says what is wrong.
pub(super) fn number(text: &str) -> Result<Value<'static>, &'static str> {
    if text.contains(['e', 'E']) {
        return match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Value::Double(v)),
            _ => Err("beyond the range of DOUBLE"),
        };
    }
    if !text.contains('.') {
        if let Ok(v) = text.parse::<i64>() {
            return Ok(Value::Int(v));
        }
        if let Ok(v) = text.parse::<u64>() {
            return Ok(Value::UInt(v));
        }
    }
    let decimal =
        canonical_decimal(text).ok_or("a DECIMAL has at most 65 digits, 30 of them behind the dot")?;
    Ok(Value::Decimal(Cow::Owned(decimal)))
}

/// The negative of a number, where that is a number of the same kind.
pub(super) fn negated(value: &Value<'static>) -> Option<Value<'static>> {
    match value {
        Value::Int(v) => v.checked_neg().map(Value::Int),
        // the least of all
        Value::UInt(v) if *v == 1 << 63 => Some(Value::Int(i64::MIN)),
        Value::UInt(v) => Some(Value::Decimal(Cow::Owned(format!("-{v}")))),
        Value::Double(v) => Some(Value::Double(-v)),
        Value::Decimal(v) => canonical_decimal(&format!("-{v}")).map(|v| Value::Decimal(Cow::Owned(v))),
        _ => None,
    }
}

/// The bytes of `x'..'` or `0x..`: an even number of digits in quotes, any number behind `0x`.
pub(super) fn hex(digits: &str, quoted: bool) -> Option<Value<'static>> {
    if quoted && digits.len() % 2 == 1 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    let byte = |i: usize| u8::from_str_radix(padded.get(i..i + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..padded.len()).step_by(2).map(byte).collect();
    Some(Value::Bytes(Cow::Owned(bytes?)))
}

/// The value of `b'..'`.
pub(super) fn bits(digits: &str) -> Option<Value<'static>> {
    u64::from_str_radix(digits, 2).ok().map(Value::Bit)
}

/// `date '..'` and its kin; `timestamp '..'` is a DATETIME, as in MySQL (manual 11.1.3).
pub(super) fn typed(word: &str, text: &str) -> Option<Value<'static>> {
    match word {
        "date" => parse_date(text).map(Value::Date),
        "time" => parse_time(text).map(Value::Time),
        _ => parse_datetime(text).map(Value::DateTime),
    }
}
