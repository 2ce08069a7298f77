//! Values as the server prints them, appended to a byte buffer without an allocation.
//!
//! SQLite's text columns, the lines of the feeds and the null sink's checksum all show a value in the same
//! form: the one `SELECT` gives, so that a target can be compared with the source by eye or by program.
//!
//! * integers, YEAR, BIT: decimal digits;
//! * FLOAT: the digits of its exact value as a DOUBLE (`CAST(c AS DOUBLE)`); DOUBLE: the shortest digits that
//!   read back as the same value, laid out as `my_gcvt` of the server's `strings/dtoa.cc` does
//!   ([`push_double`]);
//! * DATE, TIME, DATETIME: the server's form, with exactly the column's digits of fraction; TIMESTAMP the
//!   same, in UTC;
//! * ENUM, SET: labels; everything else: its own bytes.

use cdc_core::ColumnType;
use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};

/// Digits of fraction of a column; 0 for types without.
pub(crate) fn fraction_digits(ty: &ColumnType) -> u8 {
    match ty {
        ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => {
            (*fsp).min(6)
        }
        _ => 0,
    }
}

/// Appends a value; nothing for NULL and absent values.
pub(crate) fn push_value(out: &mut Vec<u8>, value: &Value<'_>, fsp: u8) {
    match value {
        Value::Null | Value::Absent => {}
        Value::Int(v) => push_int(out, *v),
        Value::UInt(v) | Value::Bit(v) => push_uint(out, *v),
        Value::Float(v) => push_double(out, f64::from(*v)),
        Value::Double(v) => push_double(out, *v),
        Value::Date(v) => push_date(out, *v),
        Value::Time(v) => push_time(out, *v, fsp),
        Value::DateTime(v) => push_datetime(out, *v, fsp),
        Value::Timestamp(v) => push_timestamp(out, *v, fsp),
        Value::Year(v) => push_uint(out, u64::from(*v)),
        Value::Decimal(v) | Value::Text(v) | Value::Json(v) => out.extend_from_slice(v.as_bytes()),
        Value::Enum { label, .. } => out.extend_from_slice(label.as_bytes()),
        Value::Set { labels, .. } => out.extend_from_slice(labels.as_bytes()),
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => out.extend_from_slice(v),
    }
}

pub(crate) fn push_int(out: &mut Vec<u8>, v: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
}

pub(crate) fn push_uint(out: &mut Vec<u8>, v: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(v).as_bytes());
}

/// Appends at least `width` digits.
fn push_padded(out: &mut Vec<u8>, v: u64, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(v).as_bytes();
    for _ in digits.len()..width {
        out.push(b'0');
    }
    out.extend_from_slice(digits);
}

fn push_two(out: &mut Vec<u8>, v: u8) {
    if v < 100 {
        out.extend_from_slice(&[b'0' + v / 10, b'0' + v % 10]);
    } else {
        push_uint(out, u64::from(v));
    }
}

fn push_fraction(out: &mut Vec<u8>, micro: u32, fsp: u8) {
    if fsp == 0 {
        return;
    }
    out.push(b'.');
    let start = out.len();
    push_padded(out, u64::from(micro), 6);
    out.truncate(start + usize::from(fsp.min(6)));
}

pub(crate) fn push_date(out: &mut Vec<u8>, v: Date) {
    push_padded(out, u64::from(v.year), 4);
    out.push(b'-');
    push_two(out, v.month);
    out.push(b'-');
    push_two(out, v.day);
}

pub(crate) fn push_time(out: &mut Vec<u8>, v: Time, fsp: u8) {
    let abs = v.micros.unsigned_abs();
    let seconds = abs / 1_000_000;
    if v.micros < 0 {
        out.push(b'-');
    }
    push_padded(out, seconds / 3600, 2);
    out.push(b':');
    push_two(out, (seconds / 60 % 60) as u8);
    out.push(b':');
    push_two(out, (seconds % 60) as u8);
    push_fraction(out, (abs % 1_000_000) as u32, fsp);
}

pub(crate) fn push_datetime(out: &mut Vec<u8>, v: DateTime, fsp: u8) {
    push_date(out, v.date);
    out.push(b' ');
    push_two(out, v.hour);
    out.push(b':');
    push_two(out, v.minute);
    out.push(b':');
    push_two(out, v.second);
    push_fraction(out, v.micro, fsp);
}

pub(crate) fn push_timestamp(out: &mut Vec<u8>, v: Timestamp, fsp: u8) {
    push_datetime(out, v.to_datetime(), fsp);
}

/// Appends a DOUBLE as the server prints one without a fixed number of decimals: the shortest digits that
/// read back as the same value; as a plain number where its first digit stands at most 15 places before the
/// dot or 14 behind it (or where more digits than places before the dot are there), else as `d.ddde-12`.
pub(crate) fn push_double(out: &mut Vec<u8>, v: f64) {
    use std::io::Write;
    if !v.is_finite() {
        // The server stores no such value; an expression could make one.
        out.extend_from_slice(if v.is_nan() {
            b"nan"
        } else if v > 0.0 {
            b"inf"
        } else {
            b"-inf"
        });
        return;
    }
    if v == v.trunc() && v.abs() < 1e15 && (v != 0.0 || v.is_sign_positive()) {
        return push_int(out, v as i64);
    }
    // `{:e}` gives the shortest digits as `[-]d[.ddd]e[-]n`, 17 digits at most: it fits, and a write to a
    // slice of the stack fails only when it does not.
    let mut buffer = [0u8; 40];
    let mut rest = &mut buffer[..];
    let fits = write!(rest, "{v:e}").is_ok();
    let left = rest.len();
    let text = &buffer[..40 - left];
    let Some(e) = text.iter().position(|b| *b == b'e').filter(|_| fits) else {
        out.extend_from_slice(format!("{v}").as_bytes());
        return;
    };
    let (mantissa, exponent) = (&text[..e], &text[e + 1..]);
    let exponent: i32 = std::str::from_utf8(exponent).ok().and_then(|t| t.parse().ok()).unwrap_or(0);
    let mut digits = [0u8; 20];
    let mut len = 0;
    for &b in mantissa.iter().filter(|b| b.is_ascii_digit()).take(20) {
        digits[len] = b;
        len += 1;
    }
    let digits = &digits[..len];
    if mantissa.first() == Some(&b'-') {
        out.push(b'-');
    }
    let point = exponent + 1; // the place of the dot, counted from before the first digit
    if point >= -14 && (point <= 15 || len as i32 > point) {
        if point <= 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + point.unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        } else if (point as usize) < len {
            out.extend_from_slice(&digits[..point as usize]);
            out.push(b'.');
            out.extend_from_slice(&digits[point as usize..]);
        } else {
            out.extend_from_slice(digits);
            out.resize(out.len() + point as usize - len, b'0');
        }
    } else {
        out.push(digits[0]);
        if len > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.push(b'e');
        push_int(out, i64::from(exponent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(v: f64) -> String {
        let mut out = Vec::new();
        push_double(&mut out, v);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_print_as_the_server_prints_them() {
        // Right-hand sides read from MySQL 9.7.
        for (v, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (f64::from(0.1f32), "0.10000000149011612"),
            (100000000000000.0, "100000000000000"),
            (1e15, "1e15"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e15"),
            (123456789012345.67, "123456789012345.67"),
            (1e-14, "0.00000000000001"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.5e-15, "0.0000000000000015"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (1e22, "1e22"),
            (9007199254740993.0, "9.007199254740992e15"),
        ] {
            assert_eq!(double(v), text, "{v:?}");
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), v.to_bits());
        }
    }

    #[test]
    fn the_fast_printers_agree_with_the_values_own() {
        for micros in [0, 1, -10_000, 3_020_399_000_000, -3_020_399_999_999, 359_999_999_999] {
            for fsp in 0..=6 {
                let mut out = Vec::new();
                push_time(&mut out, Time { micros }, fsp);
                assert_eq!(out, Time { micros }.to_text(fsp).as_bytes());
            }
        }
        for micros in [0, 1_000_000, 2_147_483_647_999_999, 951_782_400_123_456] {
            for fsp in 0..=6 {
                let mut out = Vec::new();
                push_timestamp(&mut out, Timestamp { micros }, fsp);
                assert_eq!(out, Timestamp { micros }.to_text(fsp).as_bytes());
            }
        }
    }
}
