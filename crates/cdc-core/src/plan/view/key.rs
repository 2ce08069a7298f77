//! Values as bytes that compare as the values do.
//!
//! Groups, joins and orders ask two things of a value: is it equal to another one, and does it come before it, in MySQL's
//! meaning (1 = 1.0, 'a' = 'A' under a collation that says so, -0 = 0). `KeyPart::encode` answers both at once: `memcmp` of the
//! bytes is the comparison. What is equal has equal bytes, so a hash map finds it; what is ordered is ordered, so a B-tree does.
//!
//! Each encoding is *self-delimiting*: no encoding is the beginning of another one of its type. So the parts of a composite key stand one
//! behind the other, and a later part decides only where all before it are equal.
//!
//! | type | bytes behind the 1 that says "not NULL" |
//! |---|---|
//! | whole numbers | nine, big end first, from -2^63 on |
//! | exact numbers | sign, how many digits before the dot, digits, end; all bits turned of negative ones |
//! | doubles | eight, sign turned; all bits turned of negative ones |
//! | text | as its collation says |
//! | bytes | as they are, 0 as 0 255; end 0 0 |
//! | days, times | eight, big end first |
//!
//! NULL is the byte 0 alone: the least, as MySQL orders it. A descending part has all its bits turned.

use crate::error::Result;
use crate::expr::eval::{
    BoundExpr, Class, Collator, Comparison, Decimal, ExprType, Failure, Number, RowMeta,
};
use crate::row::Row;
use crate::value::{DateTime, Value};

/// How a value becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyType {
    /// Nothing is equal to it: a literal NULL.
    Never,
    Whole,
    Exact,
    Double,
    Text(Collator),
    Bytes,
    Days,
    Times,
}

impl KeyType {
    /// For two values that are compared like this.
    pub(crate) fn of(how: Comparison, a: Class, b: Class) -> KeyType {
        match how {
            Comparison::Never => KeyType::Never,
            Comparison::Numbers if a.is_approximate() || b.is_approximate() => KeyType::Double,
            Comparison::Numbers if a == Class::Decimal || b == Class::Decimal => KeyType::Exact,
            Comparison::Numbers => KeyType::Whole,
            Comparison::Text(collator) => KeyType::Text(collator),
            Comparison::Bytes => KeyType::Bytes,
            Comparison::Days => KeyType::Days,
            Comparison::Times => KeyType::Times,
        }
    }

    /// Is what is equal the same? Then any of several equal values may stand for them.
    pub(crate) fn tells_all(self, class: Class) -> bool {
        match self {
            // FLOAT's and DOUBLE's -0; texts that differ in case; an ENUM has index and label
            KeyType::Double | KeyType::Text(_) => false,
            // 1.0 and 1.00 do not meet in one column; a TIMESTAMP and a DATETIME do not either
            _ => !matches!(class, Class::Enum | Class::Set),
        }
    }

    fn put(self, value: &Value<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            KeyType::Never => {}
            KeyType::Whole => {
                let whole = Number::of(value)?.and_then(|n| n.to_whole()).unwrap_or(0);
                out.extend_from_slice(&(whole + (1 << 63)).to_be_bytes()[7..]);
            }
            KeyType::Exact => {
                let decimal = Number::of(value)?.and_then(|n| n.to_decimal());
                exact(&decimal.unwrap_or_else(|| Decimal::from_int(0)), out);
            }
            KeyType::Double => {
                let double = Number::of(value)?.map_or(0.0, |n| n.to_f64());
                // -0 is 0
                let bits = if double == 0.0 { 0 } else { double.to_bits() };
                let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
                out.extend_from_slice(&ordered.to_be_bytes());
            }
            KeyType::Text(collator) => collator.encode(crate::expr::eval::text_of(value)?, out),
            KeyType::Bytes => escaped(crate::expr::eval::bytes_of(value)?, out),
            KeyType::Days => {
                let DateTime { date, hour, minute, second, micro } = crate::expr::eval::datetime_of(value)?;
                let days = (u64::from(date.year) * 13 + u64::from(date.month)) * 32 + u64::from(date.day);
                let seconds = (u64::from(hour) * 60 + u64::from(minute)) * 60 + u64::from(second);
                let all = (days * 86_400 + seconds) * 1_000_000 + u64::from(micro);
                out.extend_from_slice(&all.to_be_bytes());
            }
            KeyType::Times => {
                let Value::Time(time) = value else { return Err(Failure::unexpected(value, "a TIME")) };
                out.extend_from_slice(&(time.micros as u64 ^ 1 << 63).to_be_bytes());
            }
        }
        Ok(())
    }
}

fn exact(decimal: &Decimal, out: &mut Vec<u8>) {
    if decimal.is_zero() {
        out.push(1);
        return;
    }
    let start = out.len();
    let text = decimal.to_text();
    let text = text.trim_start_matches('-');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    out.push(2);
    out.push(whole.len().min(255) as u8);
    out.extend_from_slice(whole.as_bytes());
    out.extend_from_slice(fraction.as_bytes());
    out.push(0);
    if decimal.is_negative() {
        // 2 becomes 253: below zero's 1 it must be
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        out[start] = 0;
    }
}

/// The bytes of a whole row that order it by its columns, one behind the other: numbers by value, texts by code point, whatever their collation.
/// For choosing one of several rows: total, and the same everywhere.
///
/// # Errors
/// A DECIMAL that is no number.
pub fn order_of(row: &Row) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(row.as_bytes().len());
    for value in row.iter() {
        let ty = match &value {
            Value::Null | Value::Absent => {
                out.push(0);
                continue;
            }
            Value::Int(_) | Value::UInt(_) | Value::Bit(_) | Value::Year(_) => KeyType::Whole,
            Value::Decimal(_) => KeyType::Exact,
            Value::Float(_) | Value::Double(_) => KeyType::Double,
            Value::Date(_) | Value::DateTime(_) | Value::Timestamp(_) => KeyType::Days,
            Value::Time(_) => KeyType::Times,
            Value::Enum { .. } | Value::Set { .. } => KeyType::Whole,
            Value::Text(_) | Value::Bytes(_) => KeyType::Bytes,
            Value::Json(v) => {
                out.push(1);
                escaped(v.as_bytes(), &mut out);
                continue;
            }
            Value::Geometry(v) | Value::Vector(v) => {
                out.push(1);
                escaped(v, &mut out);
                continue;
            }
        };
        out.push(1);
        ty.put(&value, &mut out).map_err(|failure| failure.at(&crate::diagnostic::Span::default()))?;
    }
    Ok(out)
}

fn escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(255);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// One value of a key.
#[derive(Debug, Clone)]
pub struct KeyPart {
    pub(crate) expr: BoundExpr,
    pub(crate) ty: KeyType,
    pub(crate) descending: bool,
    /// Does a NULL here equal another one? (In a group, not in a join.)
    pub(crate) nulls_meet: bool,
}

impl KeyPart {
    /// Does it tell values of this type apart as a key of that type does?
    pub(crate) fn is_of_type(&self, ty: &ExprType) -> bool {
        match self.ty {
            KeyType::Never => false,
            KeyType::Double => ty.class().is_approximate(),
            KeyType::Text(collator) => {
                ty.ty.as_ref().and_then(|ty| ty.charset()).and_then(Collator::of) == Some(collator)
            }
            _ => true,
        }
    }

    /// Appends the bytes of a row's value; false if nothing is equal to it.
    pub(crate) fn encode<'v>(
        &'v self,
        columns: &[Value<'v>],
        meta: &RowMeta<'v>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let value = self.expr.eval(columns, meta)?;
        let start = out.len();
        if value.is_null() {
            out.push(0);
        } else {
            out.push(1);
            self.ty.put(&value, out).map_err(|failure| self.expr.place(failure))?;
        }
        if self.descending {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(self.ty != KeyType::Never && (self.nulls_meet || !value.is_null()))
    }
}

/// A key of several values.
#[derive(Debug, Clone, Default)]
pub struct KeyProgram {
    pub(crate) parts: Vec<KeyPart>,
    /// Of a side of an outer join: a row for which one of these is not true meets nothing, and stays without a match.
    pub(crate) conditions: Vec<BoundExpr>,
}

impl KeyProgram {
    /// Of these values.
    pub(crate) fn of(parts: Vec<KeyPart>) -> KeyProgram {
        KeyProgram { parts, conditions: Vec::new() }
    }

    /// Appends a row's key; false if nothing is equal to it (a NULL in a join, a condition that is not true).
    ///
    /// # Errors
    /// What its expressions meet.
    pub fn encode<'v>(
        &'v self,
        columns: &[Value<'v>],
        meta: &RowMeta<'v>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut meets = true;
        for part in &self.parts {
            meets &= part.encode(columns, meta, out)?;
        }
        for condition in &self.conditions {
            // of a row that meets nothing anyway nothing else is asked
            meets = meets && condition.eval_truth(columns, meta)? == Some(true);
        }
        Ok(meets)
    }

    /// What it is made of, where that is columns alone: two keys of one name are the same.
    pub fn name(&self) -> Option<String> {
        if !self.conditions.is_empty() {
            return None;
        }
        let part = |p: &KeyPart| {
            Some(format!("{} {:?} {} {};", p.expr.as_column()?, p.ty, p.descending, p.nulls_meet))
        };
        self.parts.iter().map(part).collect()
    }

    /// How many values.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Date, Time};
    use std::cmp::Ordering;

    fn bytes(ty: KeyType, value: &Value<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        ty.put(value, &mut out).unwrap();
        out
    }

    /// The bytes say what the comparison says, and none is the beginning of another.
    fn check(how: Comparison, ty: KeyType, values: &[Value<'_>]) {
        for a in values {
            for b in values {
                let expected = how.compare(a, b).unwrap().unwrap();
                let (x, y) = (bytes(ty, a), bytes(ty, b));
                assert_eq!(x.cmp(&y), expected, "{a:?} {b:?}: {x:?} {y:?}");
                assert!(expected == Ordering::Equal || !y.starts_with(&x), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn rows_are_ordered_by_their_columns() {
        let row = |text: &'static str, n: i64| Row::pack([Value::Text(text.into()), Value::Int(n)]);
        let mut rows = [row("zz", 1), row("name 7", 2), row("name 7", -2), row("", 5), row("name", 9)];
        rows.sort_by_key(|row| order_of(row).unwrap());
        assert_eq!(rows, [row("", 5), row("name", 9), row("name 7", -2), row("name 7", 2), row("zz", 1)]);
    }

    #[test]
    fn bytes_compare_as_values_do() {
        let whole = [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX].map(Value::Int);
        let mut numbers: Vec<Value<'_>> = whole.to_vec();
        numbers.extend([0, 1, u64::MAX, 1 << 63].map(Value::UInt));
        check(Comparison::Numbers, KeyType::Whole, &numbers);
        let texts = [
            "0.00",
            "0.01",
            "-0.01",
            "0.1",
            "1.0",
            "1.00",
            "1.01",
            "9.9",
            "10",
            "-10",
            "-9.9",
            "-1.5",
            "-1.05",
            "123456789012345678901234567890.5",
            "-123456789012345678901234567890.5",
            "0.000000000000000000000000000001",
        ];
        numbers.extend(texts.map(|t| Value::Decimal(t.into())));
        check(Comparison::Numbers, KeyType::Exact, &numbers);
        let doubles = [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, -5e-324].map(Value::Double);
        check(Comparison::Numbers, KeyType::Double, &doubles);
        let blobs: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0b", b"ab", b"\xff"];
        check(Comparison::Bytes, KeyType::Bytes, &blobs.map(|b| Value::Bytes(b.into())));
        let day = |year, month, day| Value::Date(Date { year, month, day });
        let moment = |second, micro| {
            let date = Date { year: 2026, month: 2, day: 3 };
            Value::DateTime(DateTime { date, second, micro, ..DateTime::default() })
        };
        let days = [
            day(0, 0, 0),
            day(2026, 2, 3),
            day(2026, 2, 4),
            day(2026, 3, 1),
            day(9999, 12, 31),
            moment(0, 0),
            moment(0, 1),
            moment(59, 999_999),
        ];
        check(Comparison::Days, KeyType::Days, &days);
        let times =
            [-3_020_399_000_000, -1, 0, 1, 3_020_399_000_000].map(|micros| Value::Time(Time { micros }));
        check(Comparison::Times, KeyType::Times, &times);
    }
}
