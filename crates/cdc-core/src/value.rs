//! The closed set of column values.
//!
//! A value is what the *server* stores, not what a host language finds handy: a `TIME` runs past 24 hours,
//! a `DATE` may have a zero month, a `DECIMAL` has 65 digits, an `ENUM` may hold index 0. Nothing is lost
//! and nothing is rounded. The value read by a snapshot and the value read from the log are the same value,
//! byte for byte; that is why there is exactly one representation of each (canonical forms are noted at the
//! variants).
//!
//! `Value` borrows from a [`Row`](crate::row::Row) where it can; `Value<'static>` owns.

use std::borrow::Cow;
use std::fmt;

/// A column value.
///
/// Equality is identity of the stored value (`Float` and `Double` compare by bits, so a row equals itself);
/// it is *not* SQL's `=`, which lives in [`crate::expr`].
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// Not in the row image (`binlog_row_image` MINIMAL or NOBLOB). Absent is not NULL.
    Absent,
    /// TINYINT to BIGINT, signed.
    Int(i64),
    /// TINYINT to BIGINT, unsigned.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL as text: optional `-`, digits, and, where the column has a scale, a dot and exactly that many
    /// digits. No leading zeros but one before the dot, no `-` before a zero: the form the server prints.
    Decimal(Cow<'a, str>),
    /// DATE, zero and partly zero dates included.
    Date(Date),
    /// TIME, from -838:59:59.000000 to 838:59:59.000000; on MariaDB from -838:59:59.999999 to 838:59:59.999999.
    Time(Time),
    /// DATETIME: digits on a calendar, no time zone.
    DateTime(DateTime),
    /// TIMESTAMP: an instant.
    Timestamp(Timestamp),
    /// YEAR: 0 or 1901..=2155.
    Year(u16),
    /// BIT(1..=64), right aligned.
    Bit(u64),
    /// ENUM.
    Enum {
        /// From 1; 0 is what the server stores for an invalid value.
        index: u16,
        /// The member, empty for index 0.
        label: Cow<'a, str>,
    },
    /// SET.
    Set {
        /// Bit n is member n.
        bits: u64,
        /// The members that are set, joined by commas, in the order of the definition.
        labels: Cow<'a, str>,
    },
    /// CHAR (trailing spaces removed, as the server gives it out), VARCHAR, the TEXT family; as UTF-8.
    /// MariaDB's UUID, INET4 and INET6 in the text that the server prints.
    Text(Cow<'a, str>),
    /// BINARY (padded to its length), VARBINARY, the BLOB family.
    Bytes(Cow<'a, [u8]>),
    /// JSON, in the text that the server prints.
    Json(Cow<'a, str>),
    /// A spatial value: SRID (4 bytes, little endian), then WKB, as the server stores it.
    Geometry(Cow<'a, [u8]>),
    /// VECTOR: 32 bit floats, little endian.
    Vector(Cow<'a, [u8]>),
}

/// A calendar day, year 0 to 9999. Month and day may be 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date {
    /// 0 to 9999.
    pub year: u16,
    /// 0 to 12.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
}

/// A signed duration or time of day, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Microseconds; negative for negative times.
    pub micros: i64,
}

/// A calendar day and a time of that day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 999,999.
    pub micro: u32,
}

/// An instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Microseconds since 1970-01-01 00:00:00 UTC. 0 is the zero timestamp `0000-00-00 00:00:00`, which the
    /// server stores as 0 too: its range of real instants begins at second 1.
    pub micros: i64,
}

impl Value<'_> {
    /// The same value, owning its bytes.
    pub fn into_owned(self) -> Value<'static> {
        fn s(c: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(c.into_owned())
        }
        fn b(c: Cow<'_, [u8]>) -> Cow<'static, [u8]> {
            Cow::Owned(c.into_owned())
        }
        match self {
            Value::Null => Value::Null,
            Value::Absent => Value::Absent,
            Value::Int(v) => Value::Int(v),
            Value::UInt(v) => Value::UInt(v),
            Value::Float(v) => Value::Float(v),
            Value::Double(v) => Value::Double(v),
            Value::Decimal(v) => Value::Decimal(s(v)),
            Value::Date(v) => Value::Date(v),
            Value::Time(v) => Value::Time(v),
            Value::DateTime(v) => Value::DateTime(v),
            Value::Timestamp(v) => Value::Timestamp(v),
            Value::Year(v) => Value::Year(v),
            Value::Bit(v) => Value::Bit(v),
            Value::Enum { index, label } => Value::Enum { index, label: s(label) },
            Value::Set { bits, labels } => Value::Set { bits, labels: s(labels) },
            Value::Text(v) => Value::Text(s(v)),
            Value::Bytes(v) => Value::Bytes(b(v)),
            Value::Json(v) => Value::Json(s(v)),
            Value::Geometry(v) => Value::Geometry(b(v)),
            Value::Vector(v) => Value::Vector(b(v)),
        }
    }

    /// True for SQL NULL; false for `Absent`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// True where the image does not hold the column.
    pub fn is_absent(&self) -> bool {
        matches!(self, Value::Absent)
    }

    /// The word used for this kind of value in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Absent => "an absent value",
            Value::Int(_) => "an integer",
            Value::UInt(_) => "an unsigned integer",
            Value::Float(_) => "a FLOAT",
            Value::Double(_) => "a DOUBLE",
            Value::Decimal(_) => "a DECIMAL",
            Value::Date(_) => "a DATE",
            Value::Time(_) => "a TIME",
            Value::DateTime(_) => "a DATETIME",
            Value::Timestamp(_) => "a TIMESTAMP",
            Value::Year(_) => "a YEAR",
            Value::Bit(_) => "a BIT",
            Value::Enum { .. } => "an ENUM",
            Value::Set { .. } => "a SET",
            Value::Text(_) => "a text",
            Value::Bytes(_) => "bytes",
            Value::Json(_) => "a JSON value",
            Value::Geometry(_) => "a geometry",
            Value::Vector(_) => "a VECTOR",
        }
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        use Value::*;
        match (self, other) {
            (Null, Null) | (Absent, Absent) => true,
            (Int(a), Int(b)) => a == b,
            (UInt(a), UInt(b)) => a == b,
            (Float(a), Float(b)) => a.to_bits() == b.to_bits(),
            (Double(a), Double(b)) => a.to_bits() == b.to_bits(),
            (Decimal(a), Decimal(b)) | (Text(a), Text(b)) | (Json(a), Json(b)) => a == b,
            (Date(a), Date(b)) => a == b,
            (Time(a), Time(b)) => a == b,
            (DateTime(a), DateTime(b)) => a == b,
            (Timestamp(a), Timestamp(b)) => a == b,
            (Year(a), Year(b)) => a == b,
            (Bit(a), Bit(b)) => a == b,
            (Enum { index: a, label: x }, Enum { index: b, label: y }) => a == b && x == y,
            (Set { bits: a, labels: x }, Set { bits: b, labels: y }) => a == b && x == y,
            (Bytes(a), Bytes(b)) | (Geometry(a), Geometry(b)) | (Vector(a), Vector(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value<'_> {}

/// For people and messages: NULL, numbers bare, text in double quotes, bytes in hexadecimal, temporal values
/// with six digits where the fraction is not zero.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Absent => f.write_str("(absent)"),
            Value::Int(v) => write!(f, "{v}"),
            Value::UInt(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v}"),
            Value::Double(v) => write!(f, "{v}"),
            Value::Decimal(v) => f.write_str(v),
            Value::Date(v) => write!(f, "{v}"),
            Value::Time(v) => f.write_str(&v.to_text(if v.micros % 1_000_000 == 0 { 0 } else { 6 })),
            Value::DateTime(v) => f.write_str(&v.to_text(if v.micro == 0 { 0 } else { 6 })),
            Value::Timestamp(v) => f.write_str(&v.to_text(if v.micros % 1_000_000 == 0 { 0 } else { 6 })),
            Value::Year(v) => write!(f, "{v:04}"),
            Value::Bit(v) => write!(f, "b'{v:b}'"),
            Value::Enum { label, .. } => write!(f, "{label:?}"),
            Value::Set { labels, .. } => write!(f, "{labels:?}"),
            Value::Text(v) => write!(f, "{v:?}"),
            Value::Json(v) => f.write_str(v),
            Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => {
                f.write_str("0x")?;
                v.iter().try_for_each(|b| write!(f, "{b:02X}"))
            }
        }
    }
}

/// `YYYY-MM-DD`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl Date {
    /// True if year, month and day are all zero.
    pub fn is_zero(self) -> bool {
        self == Date::default()
    }

    /// True if it is a day of the proleptic Gregorian calendar (so not a zero or partly zero date).
    pub fn is_real(self) -> bool {
        self.month >= 1
            && self.month <= 12
            && self.day >= 1
            && self.day <= days_in_month(self.year, self.month)
    }

    /// Days since 1970-01-01, of a real date (`is_real`), by Howard Hinnant's `days_from_civil`.
    pub fn days_since_epoch(self) -> i64 {
        let y = i64::from(self.year) - i64::from(self.month <= 2);
        let era = y.div_euclid(400);
        let yoe = y.rem_euclid(400);
        let m = i64::from(self.month);
        let doy = (153 * (if m > 2 { m - 3 } else { m + 9 }) + 2) / 5 + i64::from(self.day) - 1;
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
        era * 146_097 + doe - 719_468
    }

    /// The inverse of [`Date::days_since_epoch`]; `None` outside the years 0 to 9999.
    pub fn from_days_since_epoch(days: i64) -> Option<Date> {
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let doe = z.rem_euclid(146_097);
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = (doy - (153 * mp + 2) / 5 + 1) as u8;
        let month = (if mp < 10 { mp + 3 } else { mp - 9 }) as u8;
        let year = yoe + era * 400 + i64::from(month <= 2);
        if (0..=9999).contains(&year) { Some(Date { year: year as u16, month, day }) } else { None }
    }
}

/// The days of a month, 1 to 12, of the proleptic Gregorian calendar.
pub fn days_in_month(year: u16, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

fn push_fraction(out: &mut String, micro: u32, digits: u8) {
    if digits > 0 {
        let text = format!("{micro:06}");
        out.push('.');
        out.push_str(&text[..usize::from(digits.min(6))]);
    }
}

impl Time {
    /// `[-]HH:MM:SS` with `digits` of fraction (0 to 6), hours without an upper bound.
    pub fn to_text(self, digits: u8) -> String {
        let abs = self.micros.unsigned_abs();
        let seconds = abs / 1_000_000;
        let mut out = format!(
            "{}{:02}:{:02}:{:02}",
            if self.micros < 0 { "-" } else { "" },
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        push_fraction(&mut out, (abs % 1_000_000) as u32, digits);
        out
    }
}

impl DateTime {
    /// `YYYY-MM-DD HH:MM:SS` with `digits` of fraction (0 to 6).
    pub fn to_text(self, digits: u8) -> String {
        let mut out = format!("{} {:02}:{:02}:{:02}", self.date, self.hour, self.minute, self.second);
        push_fraction(&mut out, self.micro, digits);
        out
    }

    /// Microseconds since 1970-01-01 00:00:00 of the same digits read as UTC; `None` if the day is not real.
    pub fn micros_since_epoch(self) -> Option<i64> {
        if !self.date.is_real() {
            return None;
        }
        let seconds = self.date.days_since_epoch() * 86_400
            + i64::from(self.hour) * 3600
            + i64::from(self.minute) * 60
            + i64::from(self.second);
        Some(seconds * 1_000_000 + i64::from(self.micro))
    }

    /// The digits of an instant in UTC; `None` outside the years 0 to 9999.
    pub fn from_micros_since_epoch(micros: i64) -> Option<DateTime> {
        let seconds = micros.div_euclid(1_000_000);
        let date = Date::from_days_since_epoch(seconds.div_euclid(86_400))?;
        let of_day = seconds.rem_euclid(86_400);
        Some(DateTime {
            date,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            micro: micros.rem_euclid(1_000_000) as u32,
        })
    }
}

impl Timestamp {
    /// The digits in UTC with `digits` of fraction; the zero timestamp as `0000-00-00 00:00:00`.
    pub fn to_text(self, digits: u8) -> String {
        self.to_datetime().to_text(digits)
    }

    /// The digits in UTC; the zero timestamp as the zero date.
    pub fn to_datetime(self) -> DateTime {
        if self.micros == 0 {
            return DateTime::default();
        }
        DateTime::from_micros_since_epoch(self.micros).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_round_trip_over_the_whole_range() {
        let first = Date { year: 0, month: 1, day: 1 }.days_since_epoch();
        let last = Date { year: 9999, month: 12, day: 31 }.days_since_epoch();
        let mut previous = None;
        for days in first..=last {
            let date = Date::from_days_since_epoch(days).unwrap();
            assert!(date.is_real());
            assert_eq!(date.days_since_epoch(), days);
            assert!(previous < Some(date));
            previous = Some(date);
        }
        assert_eq!(Date::from_days_since_epoch(last + 1), None);
    }

    #[test]
    fn negative_times_keep_their_sign_and_fraction() {
        assert_eq!(Time { micros: -10_000 }.to_text(2), "-00:00:00.01");
        assert_eq!(Time { micros: -(838 * 3600 + 59 * 60 + 59) * 1_000_000 }.to_text(0), "-838:59:59");
    }

    #[test]
    fn timestamps_print_in_utc() {
        assert_eq!(Timestamp { micros: 0 }.to_text(0), "0000-00-00 00:00:00");
        assert_eq!(Timestamp { micros: 2_147_483_647_999_999 }.to_text(6), "2038-01-19 03:14:07.999999");
    }
}
