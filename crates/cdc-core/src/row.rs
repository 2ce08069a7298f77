//! The packed row: all values of a row in one allocation.
//!
//! Layout: the number of columns (u16, little endian), then one item per column: a tag byte and its payload.
//! Fixed-size payloads are little endian; text and bytes are a LEB128 length and the bytes. Each value has
//! exactly one encoding, so two rows are equal exactly if their bytes are, and rows can be hashed, compared
//! and exchanged as bytes. The order of rows is that of their bytes: total, stable, and *not* SQL's order.
//!
//! Why one allocation: on this project's measurements a `Vec` of value enums costs four to five times the
//! CPU of byte rows in an exchange, a join or an arrangement, and three times the memory. Why `Arc`: a row
//! is held at once by the log's touched map, by several flows and by views; a clone is a count.
//!
//! Reading is sequential ([`Row::iter`]); [`Row::get`] walks from the front.

use crate::value::{Date, DateTime, Time, Timestamp, Value};
use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes of a buffer that are kept for the next row.
const KEPT: usize = 64 << 10;

/// A packed row; cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Row(Arc<[u8]>);

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        // what is sorted to bring equal rows together is often one row held twice; `==` of an `Arc` looks at that by itself
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
    }
}

mod tag {
    pub const NULL: u8 = 0;
    pub const ABSENT: u8 = 1;
    pub const INT: u8 = 2;
    pub const UINT: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const DECIMAL: u8 = 6;
    pub const DATE: u8 = 7;
    pub const TIME: u8 = 8;
    pub const DATETIME: u8 = 9;
    pub const TIMESTAMP: u8 = 10;
    pub const YEAR: u8 = 11;
    pub const BIT: u8 = 12;
    pub const ENUM: u8 = 13;
    pub const SET: u8 = 14;
    pub const TEXT: u8 = 15;
    pub const BYTES: u8 = 16;
    pub const JSON: u8 = 17;
    pub const GEOMETRY: u8 = 18;
    pub const VECTOR: u8 = 19;
}

impl Row {
    /// A row of these values.
    pub fn pack<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Row {
        let mut builder = RowBuilder::new();
        for value in values {
            builder.push(&value);
        }
        builder.finish()
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    /// True for a row of no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, from the first column to the last.
    pub fn iter(&self) -> RowIter<'_> {
        RowIter { rest: &self.0[2..] }
    }

    /// The value of a column, by index from 0; walks over the columns before it.
    ///
    /// # Panics
    /// If the row has no such column.
    pub fn get(&self, index: usize) -> Value<'_> {
        let mut iter = self.iter();
        for _ in 0..index {
            iter.skip_value();
        }
        iter.next().expect("a column index within the row")
    }

    /// The row of these of its columns, in this order; what it does not have is absent.
    pub fn picked(&self, columns: &[usize]) -> Row {
        // keys are picked for every change, and are short: no buffer is made for each
        thread_local!(static BUILDER: RefCell<RowBuilder> = RefCell::new(RowBuilder::new()));
        BUILDER.with_borrow_mut(|builder| {
            builder.clear();
            self.each_of(columns, |value| match value {
                Some(value) => builder.push_encoded(value),
                None => builder.push_absent(),
            });
            let row = builder.finish();
            builder.keep_at_most(KEPT);
            row
        })
    }

    /// Are these columns what they are in the other row?
    pub fn agrees(&self, other: &Row, columns: &[usize]) -> bool {
        if columns.is_sorted_by(|a, b| a < b) {
            let (mut mine, mut others, mut at) = (self.iter(), other.iter(), 0);
            return columns.iter().all(|column| {
                while at < *column {
                    mine.skip_value();
                    others.skip_value();
                    at += 1;
                }
                at += 1;
                mine.next_encoded() == others.next_encoded()
            });
        }
        self.picked(columns) == other.picked(columns)
    }

    /// Hashes these columns; rows that agree in them have the same hash, rows of other columns may have another one.
    pub fn hash_of(&self, columns: &[usize], hasher: &mut impl Hasher) {
        self.each_of(columns, |value| value.hash(hasher));
    }

    /// The values of columns, in the order in which they are named.
    fn each_of<'r>(&'r self, columns: &[usize], mut give: impl FnMut(Option<Encoded<'r>>)) {
        let mut values = self.iter();
        if columns.is_sorted_by(|a, b| a < b) {
            let mut at = 0;
            for column in columns {
                while at < *column {
                    values.skip_value();
                    at += 1;
                }
                give(values.next_encoded());
                at += 1;
            }
        } else {
            let all: Vec<Encoded<'_>> = std::iter::from_fn(|| values.next_encoded()).collect();
            columns.iter().for_each(|column| give(all.get(*column).copied()));
        }
    }

    /// The packed bytes; equal rows have equal bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A row from bytes that [`Row::as_bytes`] gave; `None` if they are not a well-formed row.
    pub fn from_bytes(bytes: &[u8]) -> Option<Row> {
        let count = u16::from_le_bytes([*bytes.first()?, *bytes.get(1)?]);
        let mut rest = &bytes[2..];
        for _ in 0..count {
            checked_value(&mut rest)?;
        }
        rest.is_empty().then(|| Row(Arc::from(bytes)))
    }

    /// This row with the values that `over` has: where that has a value it counts. Both have the same columns.
    pub fn overlaid(&self, over: &Row) -> Row {
        let mut builder = RowBuilder::with_capacity(self.0.len().max(over.0.len()));
        let (mut below, mut above) = (self.iter(), over.iter());
        while let (Some(below), Some(above)) = (below.next_encoded(), above.next_encoded()) {
            builder.push_encoded(if above.is_absent() { below } else { above });
        }
        builder.finish()
    }

    /// True if a value of the row is absent (a partial image).
    pub fn has_absent(&self) -> bool {
        let mut iter = self.iter();
        while let Some(tag) = iter.rest.first().copied() {
            if tag == tag::ABSENT {
                return true;
            }
            iter.skip_value();
        }
        false
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, value) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{value}")?;
        }
        f.write_str(")")
    }
}

/// Builds packed rows; keeps its buffer between rows.
#[derive(Debug, Clone)]
pub struct RowBuilder {
    buffer: Vec<u8>,
    count: u16,
}

impl Default for RowBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl RowBuilder {
    /// An empty builder.
    pub fn new() -> RowBuilder {
        RowBuilder { buffer: vec![0, 0], count: 0 }
    }

    /// An empty builder with room for a row of so many packed bytes.
    pub fn with_capacity(bytes: usize) -> RowBuilder {
        let mut buffer = Vec::with_capacity(bytes.max(2));
        buffer.extend([0, 0]);
        RowBuilder { buffer, count: 0 }
    }

    /// The columns pushed since the last `finish`.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// True if nothing has been pushed since the last `finish`.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Drops what has been pushed since the last `finish`.
    pub fn clear(&mut self) {
        self.buffer.truncate(2);
        self.count = 0;
    }

    /// Gives back what an unusually large row has made the buffer larger than this.
    fn keep_at_most(&mut self, bytes: usize) {
        self.buffer.shrink_to(bytes);
    }

    /// The row of what was pushed; the builder is empty afterwards.
    pub fn finish(&mut self) -> Row {
        self.buffer[..2].copy_from_slice(&self.count.to_le_bytes());
        let row = Row(Arc::from(&self.buffer[..]));
        self.clear();
        row
    }

    /// Appends a value.
    pub fn push(&mut self, value: &Value<'_>) {
        match value {
            Value::Null => self.push_null(),
            Value::Absent => self.push_absent(),
            Value::Int(v) => self.push_int(*v),
            Value::UInt(v) => self.push_uint(*v),
            Value::Float(v) => self.push_float(*v),
            Value::Double(v) => self.push_double(*v),
            Value::Decimal(v) => self.push_decimal(v),
            Value::Date(v) => self.push_date(*v),
            Value::Time(v) => self.push_time(*v),
            Value::DateTime(v) => self.push_datetime(*v),
            Value::Timestamp(v) => self.push_timestamp(*v),
            Value::Year(v) => self.push_year(*v),
            Value::Bit(v) => self.push_bit(*v),
            Value::Enum { index, label } => self.push_enum(*index, label),
            Value::Set { bits, labels } => self.push_set(*bits, labels),
            Value::Text(v) => self.push_text(v),
            Value::Bytes(v) => self.push_bytes(v),
            Value::Json(v) => self.push_json(v),
            Value::Geometry(v) => self.push_geometry(v),
            Value::Vector(v) => self.push_vector(v),
        }
    }

    /// Appends a value of another row.
    #[inline]
    pub fn push_encoded(&mut self, value: Encoded<'_>) {
        self.count += 1;
        self.buffer.extend_from_slice(value.0);
    }

    fn tag(&mut self, tag: u8) {
        self.count += 1;
        self.buffer.push(tag);
    }

    fn fixed<const N: usize>(&mut self, tag: u8, bytes: [u8; N]) {
        self.tag(tag);
        self.buffer.extend_from_slice(&bytes);
    }

    fn sized(&mut self, tag: u8, bytes: &[u8]) {
        self.tag(tag);
        self.length(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    fn length(&mut self, mut n: usize) {
        while n >= 0x80 {
            self.buffer.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.buffer.push(n as u8);
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.tag(tag::NULL);
    }
    /// Appends "not in this image".
    pub fn push_absent(&mut self) {
        self.tag(tag::ABSENT);
    }
    /// Appends a signed integer.
    pub fn push_int(&mut self, v: i64) {
        self.fixed(tag::INT, v.to_le_bytes());
    }
    /// Appends an unsigned integer.
    pub fn push_uint(&mut self, v: u64) {
        self.fixed(tag::UINT, v.to_le_bytes());
    }
    /// Appends a FLOAT.
    pub fn push_float(&mut self, v: f32) {
        self.fixed(tag::FLOAT, v.to_le_bytes());
    }
    /// Appends a DOUBLE.
    pub fn push_double(&mut self, v: f64) {
        self.fixed(tag::DOUBLE, v.to_le_bytes());
    }
    /// Appends a DECIMAL in its canonical text.
    pub fn push_decimal(&mut self, v: &str) {
        self.sized(tag::DECIMAL, v.as_bytes());
    }
    /// Appends a DATE.
    pub fn push_date(&mut self, v: Date) {
        let [a, b] = v.year.to_le_bytes();
        self.fixed(tag::DATE, [a, b, v.month, v.day]);
    }
    /// Appends a TIME.
    pub fn push_time(&mut self, v: Time) {
        self.fixed(tag::TIME, v.micros.to_le_bytes());
    }
    /// Appends a DATETIME.
    pub fn push_datetime(&mut self, v: DateTime) {
        // 20 bits of microsecond, 6 second, 6 minute, 5 hour, 5 day, 4 month, 14 year
        let packed = u64::from(v.micro)
            | u64::from(v.second) << 20
            | u64::from(v.minute) << 26
            | u64::from(v.hour) << 32
            | u64::from(v.date.day) << 37
            | u64::from(v.date.month) << 42
            | u64::from(v.date.year) << 46;
        self.fixed(tag::DATETIME, packed.to_le_bytes());
    }
    /// Appends a TIMESTAMP.
    pub fn push_timestamp(&mut self, v: Timestamp) {
        self.fixed(tag::TIMESTAMP, v.micros.to_le_bytes());
    }
    /// Appends a YEAR.
    pub fn push_year(&mut self, v: u16) {
        self.fixed(tag::YEAR, v.to_le_bytes());
    }
    /// Appends a BIT.
    pub fn push_bit(&mut self, v: u64) {
        self.fixed(tag::BIT, v.to_le_bytes());
    }
    /// Appends an ENUM.
    pub fn push_enum(&mut self, index: u16, label: &str) {
        self.fixed(tag::ENUM, index.to_le_bytes());
        self.length(label.len());
        self.buffer.extend_from_slice(label.as_bytes());
    }
    /// Appends a SET.
    pub fn push_set(&mut self, bits: u64, labels: &str) {
        self.fixed(tag::SET, bits.to_le_bytes());
        self.length(labels.len());
        self.buffer.extend_from_slice(labels.as_bytes());
    }
    /// Appends text.
    pub fn push_text(&mut self, v: &str) {
        self.sized(tag::TEXT, v.as_bytes());
    }
    /// Appends bytes.
    pub fn push_bytes(&mut self, v: &[u8]) {
        self.sized(tag::BYTES, v);
    }
    /// Appends JSON text.
    pub fn push_json(&mut self, v: &str) {
        self.sized(tag::JSON, v.as_bytes());
    }
    /// Appends a spatial value.
    pub fn push_geometry(&mut self, v: &[u8]) {
        self.sized(tag::GEOMETRY, v);
    }
    /// Appends a VECTOR.
    pub fn push_vector(&mut self, v: &[u8]) {
        self.sized(tag::VECTOR, v);
    }
}

/// A value as it lies in a row. Equal values have equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Encoded<'a>(&'a [u8]);

impl Encoded<'_> {
    /// True for SQL NULL.
    pub fn is_null(self) -> bool {
        self.0.first() == Some(&tag::NULL)
    }

    /// True where the image does not hold the column.
    pub fn is_absent(self) -> bool {
        self.0.first() == Some(&tag::ABSENT)
    }
}

/// The values of a row, from [`Row::iter`].
#[derive(Debug, Clone)]
pub struct RowIter<'a> {
    rest: &'a [u8],
}

impl<'a> RowIter<'a> {
    /// Steps over the next value without looking at it.
    pub fn skip_value(&mut self) {
        self.next_encoded();
    }

    /// The next value, not decoded: for copying it into another row ([`RowBuilder::push_encoded`]) or
    /// comparing it for identity.
    #[inline]
    pub fn next_encoded(&mut self) -> Option<Encoded<'a>> {
        // A row is only made by `RowBuilder` or checked by `Row::from_bytes`.
        let n = encoded_len(self.rest)?;
        take(&mut self.rest, n).map(Encoded)
    }
}

impl<'a> Iterator for RowIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        Some(checked_value(&mut self.rest).expect("a row is well formed by construction"))
    }
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(n)?;
    *rest = tail;
    Some(head)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn sized<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut n = 0usize;
    let mut shift = 0;
    loop {
        let [b] = array(rest)?;
        n |= usize::from(b & 0x7f).checked_shl(shift)?;
        if b & 0x80 == 0 {
            return take(rest, n);
        }
        shift += 7;
    }
}

/// The bytes of the value at the start of `rest`, without a look at what they mean.
#[inline]
fn encoded_len(rest: &[u8]) -> Option<usize> {
    let head = match *rest.first()? {
        tag::NULL | tag::ABSENT => return Some(1),
        tag::INT | tag::UINT | tag::DOUBLE | tag::TIME | tag::DATETIME | tag::TIMESTAMP | tag::BIT => {
            return Some(9);
        }
        tag::FLOAT | tag::DATE => return Some(5),
        tag::YEAR => return Some(3),
        tag::ENUM => 3,
        tag::SET => 9,
        _ => 1,
    };
    let mut after = rest.get(head..)?;
    let whole = after.len();
    sized(&mut after)?;
    Some(head + whole - after.len())
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<Cow<'a, str>> {
    std::str::from_utf8(sized(rest)?).ok().map(Cow::Borrowed)
}

fn checked_value<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    let [tag] = array(rest)?;
    Some(match tag {
        tag::NULL => Value::Null,
        tag::ABSENT => Value::Absent,
        tag::INT => Value::Int(i64::from_le_bytes(array(rest)?)),
        tag::UINT => Value::UInt(u64::from_le_bytes(array(rest)?)),
        tag::FLOAT => Value::Float(f32::from_le_bytes(array(rest)?)),
        tag::DOUBLE => Value::Double(f64::from_le_bytes(array(rest)?)),
        tag::DECIMAL => Value::Decimal(text(rest)?),
        tag::DATE => {
            let [a, b, month, day] = array(rest)?;
            Value::Date(Date { year: u16::from_le_bytes([a, b]), month, day })
        }
        tag::TIME => Value::Time(Time { micros: i64::from_le_bytes(array(rest)?) }),
        tag::DATETIME => {
            let v = u64::from_le_bytes(array(rest)?);
            Value::DateTime(DateTime {
                date: Date {
                    year: (v >> 46 & 0x3fff) as u16,
                    month: (v >> 42 & 0xf) as u8,
                    day: (v >> 37 & 0x1f) as u8,
                },
                hour: (v >> 32 & 0x1f) as u8,
                minute: (v >> 26 & 0x3f) as u8,
                second: (v >> 20 & 0x3f) as u8,
                micro: (v & 0xf_ffff) as u32,
            })
        }
        tag::TIMESTAMP => Value::Timestamp(Timestamp { micros: i64::from_le_bytes(array(rest)?) }),
        tag::YEAR => Value::Year(u16::from_le_bytes(array(rest)?)),
        tag::BIT => Value::Bit(u64::from_le_bytes(array(rest)?)),
        tag::ENUM => {
            let index = u16::from_le_bytes(array(rest)?);
            Value::Enum { index, label: text(rest)? }
        }
        tag::SET => {
            let bits = u64::from_le_bytes(array(rest)?);
            Value::Set { bits, labels: text(rest)? }
        }
        tag::TEXT => Value::Text(text(rest)?),
        tag::BYTES => Value::Bytes(Cow::Borrowed(sized(rest)?)),
        tag::JSON => Value::Json(text(rest)?),
        tag::GEOMETRY => Value::Geometry(Cow::Borrowed(sized(rest)?)),
        tag::VECTOR => Value::Vector(Cow::Borrowed(sized(rest)?)),
        _ => return None,
    })
}

#[cfg(feature = "serde")]
impl serde::Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(&self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Row {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Row, D::Error> {
        struct V;
        impl<'de> serde::de::Visitor<'de> for V {
            type Value = Row;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of a packed row")
            }
            fn visit_bytes<E: serde::de::Error>(self, v: &[u8]) -> Result<Row, E> {
                Row::from_bytes(v).ok_or_else(|| E::custom("the bytes are not a packed row"))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Row, A::Error> {
                let mut bytes = Vec::with_capacity(seq.size_hint().unwrap_or(0));
                while let Some(b) = seq.next_element::<u8>()? {
                    bytes.push(b);
                }
                self.visit_bytes(&bytes)
            }
        }
        d.deserialize_bytes(V)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_kinds() -> Vec<Value<'static>> {
        vec![
            Value::Null,
            Value::Absent,
            Value::Int(i64::MIN),
            Value::UInt(u64::MAX),
            Value::Float(f32::MIN_POSITIVE),
            Value::Double(-0.0),
            Value::Decimal("-12345678901234567890123456789012345.123456789012345678901234567890".into()),
            Value::Date(Date { year: 9999, month: 0, day: 31 }),
            Value::Time(Time { micros: -3_020_399_000_000 }),
            Value::DateTime(DateTime {
                date: Date { year: 9999, month: 12, day: 31 },
                hour: 23,
                minute: 59,
                second: 59,
                micro: 999_999,
            }),
            Value::Timestamp(Timestamp { micros: 2_147_483_647_999_999 }),
            Value::Year(2155),
            Value::Bit(u64::MAX),
            Value::Enum { index: 65535, label: "ç".into() },
            Value::Set { bits: 1 << 63, labels: "x,z".into() },
            Value::Text("hé🙂".repeat(100).into()),
            Value::Bytes(vec![0; 20_000].into()),
            Value::Json("{\"a\": 1}".into()),
            Value::Geometry(vec![1, 2, 3].into()),
            Value::Vector(vec![0, 0, 128, 63].into()),
        ]
    }

    #[test]
    fn every_kind_of_value_comes_back_as_it_went_in() {
        let values = all_kinds();
        let row = Row::pack(values.iter().cloned());
        assert_eq!(row.len(), values.len());
        assert_eq!(row.iter().collect::<Vec<_>>(), values);
        for (i, value) in values.iter().enumerate() {
            assert_eq!(&row.get(i), value);
        }
        let (mut encoded, mut copy) = (row.iter(), RowBuilder::new());
        while let Some(value) = encoded.next_encoded() {
            copy.push_encoded(value);
        }
        assert_eq!(copy.finish(), row);
        assert_eq!(Row::from_bytes(row.as_bytes()), Some(row.clone()));
        assert!(row.has_absent());
    }

    #[test]
    fn torn_bytes_are_refused() {
        let row = Row::pack(all_kinds());
        for n in 0..200 {
            assert_eq!(Row::from_bytes(&row.as_bytes()[..n]), None);
        }
    }

    #[test]
    fn columns_are_picked_as_they_are() {
        let row =
            Row::pack([Value::Int(1), Value::Text("b".into()), Value::Null, Value::Decimal("4.50".into())]);
        assert_eq!(row.picked(&[1, 3]), Row::pack([Value::Text("b".into()), Value::Decimal("4.50".into())]));
        assert_eq!(
            row.picked(&[3, 0, 0]),
            Row::pack([Value::Decimal("4.50".into()), Value::Int(1), Value::Int(1)])
        );
        assert_eq!(row.picked(&[2, 7]), Row::pack([Value::Null, Value::Absent]));
        assert_eq!(row.picked(&[]), Row::pack([]));
    }

    #[test]
    fn rows_agree_in_columns_exactly_where_what_is_picked_is_equal() {
        let hash = |row: &Row, columns: &[usize]| {
            let mut hasher = std::hash::DefaultHasher::new();
            row.hash_of(columns, &mut hasher);
            hasher.finish()
        };
        let text = |text: &'static str| Value::Text(text.into());
        let rows = [
            Row::pack([Value::Int(1), text("a"), Value::Null]),
            Row::pack([Value::Int(1), text("ab"), Value::Null]),
            Row::pack([Value::Int(2), text("a"), Value::Absent]),
            Row::pack([Value::Int(1), text("a")]),
        ];
        let columns: [&[usize]; 7] = [&[], &[0], &[1], &[2], &[0, 2], &[1, 0], &[0, 1, 2]];
        for (a, b) in rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b))) {
            for columns in columns {
                // a row that ends in front of a column has nothing there, which is not a value that is absent
                let ends = |row: &Row| columns.iter().filter(|c| **c >= row.len()).count();
                let equal = a.picked(columns) == b.picked(columns) && ends(a) == ends(b);
                assert_eq!(a.agrees(b, columns), equal, "{a:?} {b:?} {columns:?}");
                if equal {
                    assert_eq!(hash(a, columns), hash(b, columns));
                }
            }
        }
    }

    #[test]
    fn zero_and_minus_zero_are_two_rows() {
        assert_ne!(Row::pack([Value::Double(0.0)]), Row::pack([Value::Double(-0.0)]));
    }
}
