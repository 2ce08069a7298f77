//! DATE, TIME, DATETIME and TIMESTAMP, in the layouts since MySQL 5.6 and the ones before.
//!
//! The ones before live on in MariaDB: a table made under `mysql56_temporal_format = OFF`, or before it was
//! ON, has them, and there they have fractions too. The log says nothing of these: how many bytes a value
//! has is our structure's knowledge. Their layouts were read off 10.11.19 and 11.8.9 (see the tests): with
//! no fraction the numbers of MySQL before 5.6, little endian; else one number, big endian, that counts in
//! units of the last digit.
//!
//! Layouts: MySQL source documentation, `my_time.cc` (`my_time_packed_from_binary` and its siblings) and the
//! internals page "Date and Time Data Type Representation". All are big endian, biased so that they sort as
//! bytes, with the fraction behind, in `(fsp + 1) / 2` bytes.

use super::Flaw;
use super::bytes::Bytes;
use cdc_core::row::RowBuilder;
use cdc_core::value::{Date, DateTime, Time, Timestamp};

/// The first TIME that is too large, 839:00:00. MySQL's largest is 838:59:59.000000, MariaDB's
/// 838:59:59.999999.
const TIME_END: i64 = 839 * 3600 * 1_000_000;

/// DATE, 3 bytes: day, month, year from the lowest bit.
#[inline]
pub fn date(input: &mut Bytes<'_>, out: &mut RowBuilder) -> Result<(), Flaw> {
    let v = input.u24()?;
    out.push_date(checked_date(v >> 9, v >> 5 & 15, v & 31)?);
    Ok(())
}

/// TIME(fsp).
#[inline]
pub fn time2(input: &mut Bytes<'_>, fsp: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    // One biased number of whole and fraction: below zero, the two borrow from each other, which reading
    // them as one number undoes.
    let (bytes, scale) = fraction(fsp);
    let raw = input.uint_be(3 + bytes)?.cast_signed();
    let bits = 8 * bytes as u32;
    let packed = raw - (0x80_0000 << bits);
    let magnitude = packed.unsigned_abs().cast_signed();
    let (hms, fraction) = (magnitude >> bits, (magnitude & ((1 << bits) - 1)) * scale);
    out.push_time(checked_time(packed < 0, hms >> 12 & 0x3ff, hms >> 6 & 63, hms & 63, fraction)?);
    Ok(())
}

/// DATETIME(fsp).
#[inline]
pub fn datetime2(input: &mut Bytes<'_>, fsp: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    let biased = input.uint_be(5)?;
    let micro = micros(input, fsp)?;
    let Some(v) = biased.checked_sub(0x80_0000_0000) else {
        return Err(Flaw::undecodable("a DATETIME before the year 0"));
    };
    out.push_datetime(unpacked_datetime(v, micro)?);
    Ok(())
}

/// TIMESTAMP(fsp): seconds since 1970, big endian.
#[inline]
pub fn timestamp2(input: &mut Bytes<'_>, fsp: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    let seconds = input.uint_be(4)?.cast_signed();
    let micro = micros(input, fsp)?;
    out.push_timestamp(Timestamp { micros: seconds * 1_000_000 + i64::from(micro) });
    Ok(())
}

/// The microseconds in a unit of the last of so many digits (0 to 6).
const UNITS: [u64; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
/// The bytes of an old TIME(fsp), and below of an old DATETIME(fsp) and the fraction of an old TIMESTAMP(fsp).
const OLD_TIME_BYTES: [usize; 7] = [3, 4, 4, 5, 5, 5, 6];
const OLD_DATETIME_BYTES: [usize; 7] = [8, 6, 6, 7, 7, 7, 8];
const OLD_FRACTION_BYTES: [usize; 7] = [0, 1, 1, 2, 2, 3, 3];

/// The microseconds of the next number, big endian, in units of the last of `fsp` digits.
fn units(input: &mut Bytes<'_>, fsp: u8, bytes: &[usize; 7]) -> Result<u64, Flaw> {
    let fsp = usize::from(fsp.min(6));
    let count = input.uint_be(bytes[fsp])?;
    count.checked_mul(UNITS[fsp]).ok_or_else(|| Flaw::undecodable(format!("a time of {count} units")))
}

/// TIME(fsp) in the layout before MySQL 5.6. Without a fraction a signed number `HHMMSS` in 3 bytes; else the
/// time, plus the first one that is too large, so that it sorts as bytes.
pub fn time(input: &mut Bytes<'_>, fsp: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    if fsp > 0 {
        let biased = units(input, fsp, &OLD_TIME_BYTES)?;
        let micros = i64::try_from(biased).unwrap_or(i64::MAX) - TIME_END;
        if micros.abs() >= TIME_END {
            return Err(Flaw::undecodable(format!("a TIME of {micros} microseconds")));
        }
        out.push_time(Time { micros });
        return Ok(());
    }
    let v = i64::from((input.u24()? << 8).cast_signed() >> 8);
    let magnitude = v.abs();
    out.push_time(checked_time(v < 0, magnitude / 10_000, magnitude / 100 % 100, magnitude % 100, 0)?);
    Ok(())
}

/// DATETIME(fsp) in the layout before MySQL 5.6. Without a fraction a number `YYYYMMDDHHMMSS` in 8 bytes;
/// else year, month, day, hour, minute, second and fraction, each multiplied by how many values the one
/// behind it has (13 months and 32 days, as 0 is one).
pub fn datetime(input: &mut Bytes<'_>, fsp: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    if fsp > 0 {
        let v = units(input, fsp, &OLD_DATETIME_BYTES)?;
        let (micro, v) = ((v % 1_000_000) as u32, v / 1_000_000);
        let (second, minute, hour, v) = (v % 60, v / 60 % 60, v / 3600 % 24, v / 86_400);
        let (day, month, year) = ((v % 32) as u32, (v / 32 % 13) as u32, v / 416);
        let date = checked_date(u32::try_from(year).unwrap_or(u32::MAX), month, day)?;
        out.push_datetime(checked_datetime(date, hour, minute, second, micro)?);
        return Ok(());
    }
    let v = input.u64()?;
    let (date, time) = (v / 1_000_000, v % 1_000_000);
    let year = u32::try_from(date / 10_000).map_err(|_| Flaw::undecodable(format!("the DATETIME {v}")))?;
    let date = checked_date(year, (date / 100 % 100) as u32, (date % 100) as u32)?;
    out.push_datetime(checked_datetime(date, time / 10_000, time / 100 % 100, time % 100, 0)?);
    Ok(())
}

/// TIMESTAMP(fsp) in the layout before MySQL 5.6: seconds since 1970, little endian; with a fraction big
/// endian, and the fraction behind them.
pub fn timestamp(input: &mut Bytes<'_>, fsp: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    if fsp > 0 {
        let seconds = input.uint_be(4)?.cast_signed();
        let micro = units(input, fsp, &OLD_FRACTION_BYTES)?;
        if micro > 999_999 {
            return Err(Flaw::undecodable(format!("{micro} microseconds")));
        }
        out.push_timestamp(Timestamp { micros: seconds * 1_000_000 + micro.cast_signed() });
        return Ok(());
    }
    let seconds = input.u32()?;
    out.push_timestamp(Timestamp { micros: i64::from(seconds) * 1_000_000 });
    Ok(())
}

/// The bytes of a fraction of so many digits, and the microseconds that one unit of them is.
#[inline]
fn fraction(fsp: u8) -> (usize, i64) {
    match fsp {
        0 => (0, 0),
        1 | 2 => (1, 10_000),
        3 | 4 => (2, 100),
        _ => (3, 1),
    }
}

/// The fraction behind a DATETIME or TIMESTAMP.
#[inline]
fn micros(input: &mut Bytes<'_>, fsp: u8) -> Result<u32, Flaw> {
    let (bytes, scale) = fraction(fsp);
    let micro = input.uint_be(bytes)? * scale.cast_unsigned();
    if micro > 999_999 {
        return Err(Flaw::undecodable(format!("{micro} microseconds")));
    }
    Ok(micro as u32)
}

/// `datetime2`'s number without its bias: 17 bits of year * 13 + month, 5 of day, 5 of hour, 6 of minute,
/// 6 of second.
#[inline]
fn unpacked_datetime(v: u64, micro: u32) -> Result<DateTime, Flaw> {
    let (ymd, hms) = (v >> 17, v & 0x1_ffff);
    let year_month = (ymd >> 5) as u32;
    let date = checked_date(year_month / 13, year_month % 13, (ymd & 31) as u32)?;
    checked_datetime(date, hms >> 12, hms >> 6 & 63, hms & 63, micro)
}

#[inline]
fn checked_date(year: u32, month: u32, day: u32) -> Result<Date, Flaw> {
    if year > 9999 || month > 12 || day > 31 {
        return Err(Flaw::undecodable(format!("the day {year:04}-{month:02}-{day:02}")));
    }
    Ok(Date { year: year as u16, month: month as u8, day: day as u8 })
}

#[inline]
fn checked_datetime(date: Date, hour: u64, minute: u64, second: u64, micro: u32) -> Result<DateTime, Flaw> {
    if hour > 23 || minute > 59 || second > 59 || micro > 999_999 {
        return Err(Flaw::undecodable(format!(
            "the time of day {hour:02}:{minute:02}:{second:02}.{micro:06}"
        )));
    }
    Ok(DateTime { date, hour: hour as u8, minute: minute as u8, second: second as u8, micro })
}

#[inline]
fn checked_time(negative: bool, hour: i64, minute: i64, second: i64, micro: i64) -> Result<Time, Flaw> {
    let micros = (hour * 3600 + minute * 60 + second) * 1_000_000 + micro;
    if minute > 59 || second > 59 || micro > 999_999 || micros >= TIME_END {
        let sign = if negative { "-" } else { "" };
        return Err(Flaw::undecodable(format!(
            "the TIME {sign}{hour:02}:{minute:02}:{second:02}.{micro:06}"
        )));
    }
    Ok(Time { micros: if negative { -micros } else { micros } })
}

/// The DATE of a result set's digits. A partly zero date has zero digits, a zero date nothing but zeros.
pub fn date_from_result(year: u16, month: u8, day: u8, out: &mut RowBuilder) -> Result<(), Flaw> {
    out.push_date(checked_date(year.into(), month.into(), day.into())?);
    Ok(())
}

/// The TIME of a result set's digits.
pub fn time_from_result(
    (negative, days, hours, minutes, seconds, micros): (bool, u32, u8, u8, u8, u32),
    out: &mut RowBuilder,
) -> Result<(), Flaw> {
    let hours = i64::from(days) * 24 + i64::from(hours);
    out.push_time(checked_time(negative, hours, minutes.into(), seconds.into(), micros.into())?);
    Ok(())
}

/// The digits of a result set's DATETIME or TIMESTAMP.
pub fn digits_from_result(
    (year, month, day, hour, minute, second, micro): (u16, u8, u8, u8, u8, u8, u32),
) -> Result<DateTime, Flaw> {
    let date = checked_date(year.into(), month.into(), day.into())?;
    checked_datetime(date, hour.into(), minute.into(), second.into(), micro)
}

/// The TIMESTAMP whose digits, in UTC, a result set gave; the zero date is the zero timestamp.
pub fn timestamp_from_result(digits: DateTime, out: &mut RowBuilder) -> Result<(), Flaw> {
    let micros = if digits == DateTime::default() {
        0
    } else {
        digits
            .micros_since_epoch()
            .ok_or_else(|| Flaw::undecodable(format!("the TIMESTAMP {}", digits.to_text(6))))?
    };
    out.push_timestamp(Timestamp { micros });
    Ok(())
}

/// A DATE, TIME or DATETIME inside binary JSON: the packed number of `my_time.cc`
/// (`TIME_to_longlong_packed`), 24 bits of microseconds below the number that the columns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packed(pub i64);

impl Packed {
    /// As a DATE or DATETIME.
    pub fn datetime(self) -> Result<DateTime, Flaw> {
        let Ok(v) = u64::try_from(self.0) else {
            return Err(Flaw::undecodable("a DATETIME before the year 0"));
        };
        unpacked_datetime(v >> 24, (v & 0xff_ffff) as u32)
    }

    /// As a TIME.
    pub fn time(self) -> Result<Time, Flaw> {
        let magnitude = i64::try_from(self.0.unsigned_abs()).unwrap_or(i64::MAX);
        let (hms, micro) = (magnitude >> 24, magnitude & 0xff_ffff);
        if hms >> 22 != 0 {
            return Err(Flaw::undecodable("a TIME of more than 838 hours"));
        }
        checked_time(self.0 < 0, hms >> 12 & 0x3ff, hms >> 6 & 63, hms & 63, micro)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::Value;

    fn one(decode: impl FnOnce(&mut RowBuilder) -> Result<(), Flaw>) -> Value<'static> {
        let mut out = RowBuilder::new();
        decode(&mut out).unwrap();
        out.finish().get(0).into_owned()
    }

    fn hex(s: &str) -> Vec<u8> {
        (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn times_of_all_fractions_and_both_signs() {
        let check = |fsp: u8, bytes: &str, text: &str| {
            let bytes = hex(bytes);
            let mut input = Bytes(&bytes);
            let value = one(|out| time2(&mut input, fsp, out));
            assert!(input.is_empty());
            let Value::Time(time) = value else { panic!("{value:?}") };
            assert_eq!(time.to_text(fsp), text);
        };
        check(0, "800000", "00:00:00");
        check(0, "7FFFFF", "-00:00:01");
        check(0, "806400", "06:16:00");
        check(0, "864000", "100:00:00");
        check(0, "B46EFB", "838:59:59");
        check(0, "4B9105", "-838:59:59");
        // the table of `my_time_packed_from_binary`: fraction below zero borrows from the second
        check(2, "80000000", "00:00:00.00");
        check(2, "7FFFFFFF", "-00:00:00.01");
        check(2, "7FFFFF9D", "-00:00:00.99");
        check(2, "7FFFFF00", "-00:00:01.00");
        check(2, "7FFFFEFF", "-00:00:01.01");
        check(2, "7FFFFEF6", "-00:00:01.10");
        check(4, "7FFFFFFFFF", "-00:00:00.0001");
        check(6, "7FFFFFFFFFFF", "-00:00:00.000001");
        check(6, "4B9105000000", "-838:59:59.000000");
        // MariaDB's ends
        check(6, "B46EFB0F423F", "838:59:59.999999");
        check(6, "4B9104F0BDC1", "-838:59:59.999999");
        assert!(time2(&mut Bytes(&[0xff; 6]), 6, &mut RowBuilder::new()).is_err());
        assert_eq!(time2(&mut Bytes(&[0x80; 5]), 6, &mut RowBuilder::new()), Err(Flaw::Truncated));
    }

    #[test]
    fn dates_zero_and_partly_zero() {
        let check = |bytes: [u8; 3], text: &str| {
            assert_eq!(one(|out| date(&mut Bytes(&bytes), out)).to_string(), text);
        };
        check([0, 0, 0], "0000-00-00");
        check([0x21, 0x02, 0x00], "0001-01-01");
        check([0x9f, 0x1f, 0x4e], "9999-12-31");
        check([0x00, 0xd0, 0x0f], "2024-00-00");
        assert!(date(&mut Bytes(&[0xff; 3]), &mut RowBuilder::new()).is_err());
    }

    #[test]
    fn datetimes_with_fractions() {
        let check = |fsp: u8, bytes: &str, text: &str| {
            let Value::DateTime(v) = one(|out| datetime2(&mut Bytes(&hex(bytes)), fsp, out)) else {
                panic!()
            };
            assert_eq!(v.to_text(fsp), text);
        };
        check(0, "8000000000", "0000-00-00 00:00:00");
        check(0, "FEF3FF7EFB", "9999-12-31 23:59:59");
        check(6, "99B2BAC8B80C0A14", "2024-02-29 12:34:56.789012");
        check(2, "99B2BAC8B84E", "2024-02-29 12:34:56.78");
        check(3, "99B2BAC8B81ED2", "2024-02-29 12:34:56.789");
        assert!(datetime2(&mut Bytes(&[0; 5]), 0, &mut RowBuilder::new()).is_err());
        assert!(datetime2(&mut Bytes(&[0xff; 8]), 6, &mut RowBuilder::new()).is_err());
    }

    #[test]
    fn timestamps() {
        assert_eq!(
            one(|out| timestamp2(&mut Bytes(&hex("7FFFFFFF0F423F")), 6, out)),
            Value::Timestamp(Timestamp { micros: 2_147_483_647_999_999 })
        );
        assert_eq!(
            one(|out| timestamp2(&mut Bytes(&[0; 4]), 0, out)),
            Value::Timestamp(Timestamp { micros: 0 })
        );
        assert!(timestamp2(&mut Bytes(&hex("00000001FF")), 2, &mut RowBuilder::new()).is_err());
    }

    #[test]
    fn the_old_layouts() {
        let le = |v: i64, n: usize| v.to_le_bytes()[..n].to_vec();
        assert_eq!(one(|out| time(&mut Bytes(&le(-8_385_959, 3)), 0, out)).to_string(), "-838:59:59");
        assert_eq!(
            one(|out| datetime(&mut Bytes(&le(20_240_229_123_456, 8)), 0, out)).to_string(),
            "2024-02-29 12:34:56"
        );
        assert_eq!(
            one(|out| timestamp(&mut Bytes(&le(1, 4)), 0, out)),
            Value::Timestamp(Timestamp { micros: 1_000_000 })
        );
        assert!(datetime(&mut Bytes(&[0xff; 8]), 0, &mut RowBuilder::new()).is_err());
    }

    /// As 10.11.19 and 11.8.9 log them under `mysql56_temporal_format = OFF`.
    #[test]
    fn the_old_layouts_with_fractions() {
        let check = |fsp: u8, bytes: &str, text: &str| {
            let bytes = hex(bytes);
            let mut input = Bytes(&bytes);
            let read = match text {
                _ if text.starts_with('@') => timestamp,
                _ if text.contains(' ') => datetime,
                _ => time,
            };
            let value = one(|out| read(&mut input, fsp, out));
            assert!(input.is_empty());
            let shown = match value {
                Value::Time(v) => v.to_text(fsp),
                Value::DateTime(v) => v.to_text(fsp),
                Value::Timestamp(v) => format!("@{}", v.to_text(fsp)),
                other => panic!("{other:?}"),
            };
            assert_eq!(shown, text);
            for n in 0..bytes.len() {
                assert_eq!(read(&mut Bytes(&bytes[..n]), fsp, &mut RowBuilder::new()), Err(Flaw::Truncated));
            }
        };
        check(0, "40E201", "12:34:56");
        check(0, "590A80", "-838:59:59");
        check(0, "FFFFFF", "-00:00:01");
        check(1, "01D3C9C1", "12:34:56.1");
        check(2, "1245E18C", "12:34:56.12");
        check(3, "00B6BACF7B", "12:34:56.123");
        check(4, "07234C1AD2", "12:34:56.1234");
        check(5, "4760F90C39", "12:34:56.12345");
        check(6, "02C9C9BA7A40", "12:34:56.123456");
        check(1, "00000001", "-838:59:59.9");
        check(3, "0000000001", "-838:59:59.999");
        check(6, "000000000001", "-838:59:59.999999");
        check(1, "01CCE05F", "-00:00:00.1");
        check(2, "1200C3BF", "-00:00:00.01");
        check(3, "00B407A57F", "-00:00:00.001");
        check(6, "02BF3DDE7BFF", "-00:00:00.000001");
        check(5, "463CCB1AB2", "-01:02:03.45678");
        check(6, "057E7BBCF7FF", "838:59:59.999999");
        check(0, "80C5AA8B68120000", "2024-02-29 12:34:56");
        check(1, "00A965A7FC61", "2024-02-29 12:34:56.1");
        check(2, "069DF88FDBCC", "2024-02-29 12:34:56.12");
        check(3, "00422BB59E95FB", "2024-02-29 12:34:56.123");
        check(4, "0295B51831DBD2", "2024-02-29 12:34:56.1234");
        check(5, "19D912F1F29639", "2024-02-29 12:34:56.12345");
        check(6, "01027ABD7379DE40", "2024-02-29 12:34:56.123456");
        check(5, "19D856CE700001", "2024-00-00 00:00:00.00001");
        check(6, "0000234856BF6001", "0001-01-01 00:00:00.000001");
        check(6, "04FCEE3943BFFFFF", "9999-12-31 23:59:59.999999");
        check(1, "000000000000", "0000-00-00 00:00:00.0");
        check(0, "F079E065", "@2024-02-29 12:34:56");
        check(1, "65E079F001", "@2024-02-29 12:34:56.1");
        check(2, "65E079F00C", "@2024-02-29 12:34:56.12");
        check(3, "65E079F0007B", "@2024-02-29 12:34:56.123");
        check(4, "65E079F004D2", "@2024-02-29 12:34:56.1234");
        check(5, "65E079F0003039", "@2024-02-29 12:34:56.12345");
        check(6, "65E079F001E240", "@2024-02-29 12:34:56.123456");
        check(6, "7FFFFFFF0F423F", "@2038-01-19 03:14:07.999999");
        check(2, "0000000000", "@0000-00-00 00:00:00.00");
        let mut out = RowBuilder::new();
        for fsp in 1..=6 {
            assert!(time(&mut Bytes(&[0xff; 8]), fsp, &mut out).is_err());
            assert!(datetime(&mut Bytes(&[0xff; 8]), fsp, &mut out).is_err());
            assert!(timestamp(&mut Bytes(&[0xff; 8]), fsp, &mut out).is_err());
        }
        // the first that are too large and too small
        assert!(time(&mut Bytes(&hex("057E7BBCF800")), 6, &mut out).is_err());
        assert!(time(&mut Bytes(&hex("000000000000")), 6, &mut out).is_err());
        // the digits of the last byte's fraction: 99 of two, not 100
        assert!(timestamp(&mut Bytes(&hex("0000000164")), 2, &mut out).is_err());
    }

    #[test]
    fn result_sets() {
        assert_eq!(
            one(|out| time_from_result((true, 34, 22, 59, 59, 999_999), out)),
            Value::Time(Time { micros: 1 - TIME_END })
        );
        let zero = digits_from_result((0, 0, 0, 0, 0, 0, 0)).unwrap();
        assert_eq!(one(|out| timestamp_from_result(zero, out)), Value::Timestamp(Timestamp { micros: 0 }));
        assert_eq!(one(|out| date_from_result(2024, 0, 0, out)).to_string(), "2024-00-00");
        assert!(digits_from_result((2024, 13, 1, 0, 0, 0, 0)).is_err());
        let partly = digits_from_result((2024, 1, 0, 0, 0, 0, 0)).unwrap();
        assert!(timestamp_from_result(partly, &mut RowBuilder::new()).is_err());
    }

    #[test]
    fn packed_numbers_of_json() {
        // 2024-02-29 12:34:56.789012 as the column has it, less the bias
        let whole = 0x99_B2BA_C8B8_i64 - 0x80_0000_0000;
        assert_eq!(
            Packed(whole << 24 | 789_012).datetime().unwrap().to_text(6),
            "2024-02-29 12:34:56.789012"
        );
        assert_eq!(Packed(-(1 << 24 | 1)).time().unwrap().to_text(6), "-00:00:01.000001");
        for wild in [i64::MIN, i64::MAX, -1] {
            assert!(Packed(wild).datetime().is_err());
        }
        assert!(Packed(i64::MIN).time().is_err());
    }
}
