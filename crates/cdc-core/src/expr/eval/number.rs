//! Numbers at run time: exact ones exactly, approximate ones as doubles, overflow as an error.

use super::Failure;
use super::decimal::{Decimal, Rounding};
use super::types::{Class, ExprType};
use crate::codes;
use crate::expr::BinaryOp;
use crate::schema::ColumnType;
use crate::value::Value;
use std::cmp::Ordering;

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Number {
    /// Signed or unsigned: both fit.
    Int(i128),
    /// DECIMAL.
    Decimal(Decimal),
    /// FLOAT and DOUBLE.
    Double(f64),
}

/// What a number is stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberType {
    /// BIGINT, or BIGINT UNSIGNED: expressions compute in 64 bits (MySQL manual 14.6.1).
    Integer {
        unsigned: bool,
    },
    Decimal {
        precision: u32,
        scale: u32,
    },
    Float,
    Double,
}

impl NumberType {
    pub(crate) fn of(ty: &ExprType) -> Option<NumberType> {
        Some(match (&ty.ty, ty.class()) {
            (Some(ColumnType::Decimal { precision, scale, .. }), _) => {
                NumberType::Decimal { precision: u32::from(*precision), scale: u32::from(*scale) }
            }
            (_, Class::Integer) => NumberType::Integer { unsigned: ty.is_unsigned() },
            (_, Class::Float) => NumberType::Float,
            (_, Class::Double) => NumberType::Double,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            NumberType::Integer { unsigned: false } => "BIGINT",
            NumberType::Integer { unsigned: true } => "BIGINT UNSIGNED",
            NumberType::Decimal { .. } => "DECIMAL",
            NumberType::Float => "FLOAT",
            NumberType::Double => "DOUBLE",
        }
    }
}

impl Number {
    /// The number that a value is; NULL gives `None`. ENUM and SET count by index and bits.
    pub(crate) fn of(value: &Value<'_>) -> Result<Option<Number>, Failure> {
        Ok(Some(match value {
            Value::Null => return Ok(None),
            Value::Int(v) => Number::Int(i128::from(*v)),
            Value::UInt(v) | Value::Bit(v) | Value::Set { bits: v, .. } => Number::Int(i128::from(*v)),
            Value::Year(v) | Value::Enum { index: v, .. } => Number::Int(i128::from(*v)),
            Value::Decimal(text) => {
                let malformed = || Failure::new(codes::STRUCTURE_DIFFERS, "a DECIMAL that is no number");
                Number::Decimal(Decimal::parse(text).ok_or_else(malformed)?)
            }
            Value::Float(v) => Number::Double(f64::from(*v)),
            Value::Double(v) => Number::Double(*v),
            other => return Err(Failure::unexpected(other, "a number")),
        }))
    }

    pub(crate) fn to_decimal(&self) -> Option<Decimal> {
        match self {
            Number::Int(v) => Some(Decimal::from_int(*v)),
            Number::Decimal(v) => Some(v.clone()),
            Number::Double(v) => Decimal::from_f64(*v),
        }
    }

    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Number::Int(v) => *v as f64,
            Number::Decimal(v) => v.to_f64(),
            Number::Double(v) => *v,
        }
    }

    /// Rounded to a whole number: exact ones half away from zero, doubles half to even, as MySQL converts
    /// them. `None` beyond an `i128`.
    pub(crate) fn to_whole(&self) -> Option<i128> {
        match self {
            Number::Int(v) => Some(*v),
            Number::Decimal(v) => v.to_i128(Rounding::HalfAway),
            Number::Double(v) => {
                let v = v.round_ties_even();
                // 2^126 is far beyond BIGINT and well within i128
                (v.abs() < 8.5e37).then_some(v as i128)
            }
        }
    }

    /// MySQL's truth: anything but zero.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Number::Int(v) => *v != 0,
            Number::Decimal(v) => !v.is_zero(),
            Number::Double(v) => *v != 0.0,
        }
    }

    pub(crate) fn negate(self) -> Number {
        match self {
            // an integer of 64 bits is far from the ends of an i128
            Number::Int(v) => Number::Int(v.saturating_neg()),
            Number::Decimal(v) => Number::Decimal(v.negate()),
            Number::Double(v) => Number::Double(-v),
        }
    }

    /// The number as this type has it: in its range, with its digits after the dot.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`: MySQL's error 1690.
    pub(crate) fn fit(self, ty: NumberType) -> Result<Number, Failure> {
        let out_of_range = || Failure::out_of_range(ty.name());
        match ty {
            NumberType::Integer { unsigned } => {
                let v = self.to_whole().ok_or_else(out_of_range)?;
                let fits = if unsigned { u64::try_from(v).is_ok() } else { i64::try_from(v).is_ok() };
                if fits { Ok(Number::Int(v)) } else { Err(out_of_range()) }
            }
            NumberType::Decimal { precision, scale } => {
                let v = self.to_decimal().ok_or_else(out_of_range)?;
                let v = if v.scale() == scale { v } else { v.round(scale, Rounding::HalfAway) };
                if v.digits() > precision {
                    return Err(Failure::out_of_range(&match precision {
                        ..=65 => format!("DECIMAL({precision},{scale})"),
                        _ => "DECIMAL".to_owned(),
                    }));
                }
                Ok(Number::Decimal(v))
            }
            NumberType::Double => {
                let v = self.to_f64();
                if v.is_finite() { Ok(Number::Double(v)) } else { Err(out_of_range()) }
            }
            NumberType::Float => {
                let v = self.to_f64() as f32;
                if v.is_finite() { Ok(Number::Double(f64::from(v))) } else { Err(out_of_range()) }
            }
        }
    }

    /// The value of a number that [`fit`](Number::fit) gave for the same type.
    pub(crate) fn into_value(self, ty: NumberType) -> Value<'static> {
        match (self, ty) {
            (Number::Int(v), NumberType::Integer { unsigned: true }) => Value::UInt(v as u64),
            (Number::Int(v), _) => Value::Int(v as i64),
            (Number::Decimal(v), _) => Value::Decimal(v.to_text().into()),
            (Number::Double(v), NumberType::Float) => Value::Float(v as f32),
            (Number::Double(v), _) => Value::Double(v),
        }
    }

    /// As a value of this type.
    ///
    /// # Errors
    /// `OUT_OF_RANGE`.
    pub(crate) fn store(self, ty: NumberType) -> Result<Value<'static>, Failure> {
        Ok(self.fit(ty)?.into_value(ty))
    }
}

/// Compares two numbers: exactly unless one is a double (MySQL manual 14.3).
pub(crate) fn compare(a: &Number, b: &Number) -> Ordering {
    match (a, b) {
        (Number::Int(x), Number::Int(y)) => x.cmp(y),
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            // NaN is in no column
            a.to_f64().partial_cmp(&b.to_f64()).unwrap_or(Ordering::Equal)
        }
        (Number::Int(x), Number::Decimal(y)) => Decimal::from_int(*x).compare(y),
        (Number::Decimal(x), Number::Int(y)) => x.compare(&Decimal::from_int(*y)),
        (Number::Decimal(x), Number::Decimal(y)) => x.compare(y),
    }
}

/// `a op b`; `None` is NULL, which division by zero gives (MySQL manual 14.6.1).
pub(crate) fn arithmetic(
    op: BinaryOp,
    a: &Number,
    b: &Number,
    ty: NumberType,
) -> Result<Option<Number>, Failure> {
    let overflow = || Failure::out_of_range(ty.name());
    let result = match (a, b) {
        (Number::Int(x), Number::Int(y)) if op != BinaryOp::Divide => match op {
            BinaryOp::Add => Number::Int(x.checked_add(*y).ok_or_else(overflow)?),
            BinaryOp::Subtract => Number::Int(x.checked_sub(*y).ok_or_else(overflow)?),
            BinaryOp::Multiply => Number::Int(x.checked_mul(*y).ok_or_else(overflow)?),
            _ if *y == 0 => return Ok(None),
            BinaryOp::IntegerDivide => Number::Int(x.checked_div(*y).ok_or_else(overflow)?),
            _ => Number::Int(x.checked_rem(*y).unwrap_or(0)),
        },
        // `div` of doubles goes over DECIMAL, as in MySQL
        _ if op != BinaryOp::IntegerDivide
            && (matches!(a, Number::Double(_)) || matches!(b, Number::Double(_))) =>
        {
            let (x, y) = (a.to_f64(), b.to_f64());
            Number::Double(match op {
                BinaryOp::Add => x + y,
                BinaryOp::Subtract => x - y,
                BinaryOp::Multiply => x * y,
                _ if y == 0.0 => return Ok(None),
                BinaryOp::Divide => x / y,
                _ => x % y,
            })
        }
        _ => {
            let (x, y) = (a.to_decimal().ok_or_else(overflow)?, b.to_decimal().ok_or_else(overflow)?);
            let scale = match ty {
                NumberType::Decimal { scale, .. } => scale,
                _ => 0,
            };
            let result = match op {
                BinaryOp::Add => Some(x.add(&y)),
                BinaryOp::Subtract => Some(x.subtract(&y)),
                BinaryOp::Multiply => Some(x.multiply(&y)),
                BinaryOp::Divide => x.divide(&y, scale),
                BinaryOp::IntegerDivide => x.divide_whole(&y),
                _ => x.remainder(&y),
            };
            let Some(result) = result else { return Ok(None) };
            Number::Decimal(result)
        }
    };
    result.fit(ty).map(Some)
}

/// The whole number as bits: BIGINT UNSIGNED (MySQL manual 14.12). A DECIMAL or DOUBLE counts as a BIGINT before:
/// beyond that the server takes the greatest one.
pub(crate) fn to_bits(number: &Number) -> Result<u64, Failure> {
    let v = number.to_whole().ok_or_else(|| Failure::out_of_range("BIGINT"))?;
    if let (Number::Int(_), Ok(v)) = (number, u64::try_from(v)) {
        return Ok(v);
    }
    // two's complement, as in `-1 & 255`
    i64::try_from(v).map(|v| v as u64).map_err(|_| Failure::out_of_range("BIGINT"))
}

/// A DOUBLE as the server writes it: the shortest digits that read back, in 22 characters, without an
/// exponent from 1e-15 up to 1e15 (the server's `my_gcvt`).
pub(crate) fn double_text(v: f64) -> String {
    gcvt(v, 17, 22)
}

/// A DOUBLE of a column, for which the server has 24 places: enough for all digits of every number.
pub(crate) fn double_text_in_full(v: f64) -> String {
    gcvt(v, 17, 24)
}

/// A FLOAT as the server writes it: six digits, in 12 characters.
pub(crate) fn float_text(v: f32) -> String {
    gcvt(f64::from(v), 6, 12)
}

fn gcvt(v: f64, max_digits: usize, width: usize) -> String {
    if v == 0.0 {
        return if v.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    if !v.is_finite() {
        return v.to_string();
    }
    let sign = if v < 0.0 { "-" } else { "" };
    let width = width - sign.len();
    let v = v.abs();
    let (mut digits, mut point) = shortest(v);
    if digits.len() > max_digits {
        (digits, point) = at_most(v, max_digits);
    }
    let len = digits.len() as i32;
    let plain_width = match point {
        ..=0 => len - point + 2,
        p if p < len => len + 1,
        p => p,
    };
    // the server's DBL_DIG; a number with a fraction has no exponent beyond it either
    if ((-14..=15).contains(&point) || point > 15 && len > point) && plain_width <= width as i32 {
        let body = match point {
            ..=0 => format!("0.{}{digits}", "0".repeat((-point) as usize)),
            p if p < len => format!("{}.{}", &digits[..p as usize], &digits[p as usize..]),
            p => format!("{digits}{}", "0".repeat((p - len) as usize)),
        };
        return format!("{sign}{body}");
    }
    // `d[.ddd]e[-]n`
    let exponent_text = |point: i32| format!("e{}", point - 1);
    let room = width.saturating_sub(exponent_text(point).len());
    let digit_room = if digits.len() > 1 { room.saturating_sub(1).max(1) } else { room.max(1) };
    if digits.len() > digit_room {
        (digits, point) = at_most(v, digit_room);
    }
    let (first, rest) = digits.split_at(1);
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{dot}{rest}{}", exponent_text(point))
}

/// The digits without trailing zeros, and where the dot stands among them.
fn shortest(v: f64) -> (String, i32) {
    split_scientific(&shortest_text(v))
}

/// The shortest `d.ddde±n` that reads back as this double. Of two that are equally near, the server takes
/// the one that ends in an even digit, as rounding to so many digits does; `{:e}` alone does not.
pub(super) fn shortest_text(v: f64) -> String {
    let text = format!("{v:e}");
    let digits = text.bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit).count();
    let even = format!("{v:.*e}", digits.saturating_sub(1));
    if even.parse() == Ok(v) { even } else { text }
}

fn at_most(v: f64, digits: usize) -> (String, i32) {
    split_scientific(&format!("{v:.*e}", digits.saturating_sub(1)))
}

fn split_scientific(text: &str) -> (String, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let trimmed = digits.trim_end_matches('0');
    let digits = if trimmed.is_empty() { "0" } else { trimmed };
    (digits.to_owned(), exponent.parse::<i32>().unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `select cast(x as char)` on 9.7.
    #[test]
    fn doubles_and_floats_are_written_as_the_server_writes_them() {
        let doubles = [
            (1e20, "1e20"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (123_456_789_012_345_680.0, "1.2345678901234568e17"),
            (0.1, "0.1"),
            (1e-5, "0.00001"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.234567e-10, "0.0000000001234567"),
            (1.234567890123e-10, "1.234567890123e-10"),
            (123456789012345.67, "123456789012345.67"),
            (-1.5, "-1.5"),
            (0.0, "0"),
            (-0.0, "-0"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::MIN_POSITIVE, "2.225073858507201e-308"),
            (-f64::MIN_POSITIVE, "-2.2250738585072e-308"),
            (5e-324, "5e-324"),
            (-1.2345678901234567e-5, "-1.2345678901234568e-5"),
            (999_999_999_999_996.2, "999999999999996.2"),
            (1_000_000_000_000_000.5, "1000000000000000.5"),
            (1e16 + 2.0, "1.0000000000000002e16"),
        ];
        for (v, text) in doubles {
            assert_eq!(double_text(v), text);
        }
        // of a column of 9.7
        for (v, text) in [
            (1.234_567_890_123_456_7e-6, "0.0000012345678901234567"),
            (1.234_567_890_123_456_7e-7, "1.2345678901234566e-7"),
            (-1.234_567_890_123_456_7e-5, "-0.000012345678901234568"),
            (-2.833_140_940_457_441_3e-242, "-2.8331409404574413e-242"),
        ] {
            assert_eq!(double_text_in_full(v), text);
        }
        let floats = [
            (0.1, "0.1"),
            (16_777_216.0, "16777200"),
            (1e10, "10000000000"),
            (3.4e38, "3.4e38"),
            (1_234_567.8, "1234570"),
            (1e-10, "0.0000000001"),
            (1e14, "1e14"),
            (1.234567e-7, "1.23457e-7"),
            (1.0 / 3.0, "0.333333"),
        ];
        for (v, text) in floats {
            assert_eq!(float_text(v), text);
        }
    }
}
