//! Temporal texts (MySQL manual 11.1.3 "Date and Time Literals") and the arithmetic of fractions.

use crate::value::{Date, DateTime, Time};

/// The largest TIME, 838:59:59.
pub(crate) const MAX_TIME_MICROS: i64 = (838 * 3600 + 59 * 60 + 59) * 1_000_000;

/// A text as DATE or DATETIME, as far as the fraction goes; `None` if it is not one. The second part is
/// true where the text has a time of day.
///
/// Zero and partly zero dates are dates, since columns hold them; February 30 is not.
pub(crate) fn parse_datetime(text: &str) -> Option<(DateTime, bool)> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (date, rest) = if digits >= 6 { compact_date(text, digits)? } else { delimited_date(text)? };
    if !(date.is_real() || date.month == 0 && date.day <= 31 || date.month <= 12 && date.day == 0) {
        return None;
    }
    let Some(rest) = rest else { return Some((DateTime { date, ..DateTime::default() }, false)) };
    let (clock, offset) = split_offset(rest);
    let (hour, minute, second, micro) = clock_digits(clock)?;
    let value = DateTime { date, hour, minute, second, micro };
    let value = match offset {
        Some(text) => shifted(value, offset_micros(text)?)?,
        None => value,
    };
    Some((value, true))
}

/// `YYYY-M-D`, with `-`, `/` or `.`; two digits of a year are 1970 to 2069 (manual 13.2.9).
fn delimited_date(text: &str) -> Option<(Date, Option<&str>)> {
    let (day_part, rest) = match text.find([' ', 'T']) {
        Some(i) => (&text[..i], Some(text[i + 1..].trim_start())),
        None => (text, None),
    };
    let mut parts = day_part.split(['-', '/', '.']);
    let (y, m, d) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || m.len() > 2 || d.len() > 2 {
        return None;
    }
    Some((Date { year: year(y)?, month: number(m)? as u8, day: number(d)? as u8 }, rest))
}

/// `YYYYMMDD`, `YYMMDD`, and either with `hhmmss` behind.
fn compact_date(text: &str, digits: usize) -> Option<(Date, Option<&str>)> {
    let (year_digits, with_clock) = match digits {
        8 => (4, false),
        14 => (4, true),
        6 => (2, false),
        12 => (2, true),
        _ => return None,
    };
    let (y, rest) = text.split_at(year_digits);
    let date = Date { year: year(y)?, month: number(&rest[..2])? as u8, day: number(&rest[2..4])? as u8 };
    let rest = &rest[4..];
    if with_clock {
        return Some((date, Some(rest)));
    }
    match rest.as_bytes().first() {
        None => Some((date, None)),
        Some(b' ' | b'T') => Some((date, Some(rest[1..].trim_start()))),
        Some(_) => None,
    }
}

fn year(text: &str) -> Option<u16> {
    let n = number(text)?;
    match text.len() {
        4 => Some(n as u16),
        2 => Some(if n < 70 { 2000 } else { 1900 } + n as u16),
        _ => None,
    }
}

/// Up to nine digits.
fn number(text: &str) -> Option<u32> {
    if text.is_empty() || text.len() > 9 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A time zone offset at the end, `+hh:mm` (manual 11.1.3); the pipeline's zone is UTC.
fn split_offset(text: &str) -> (&str, Option<&str>) {
    match text.rfind(['+', '-']) {
        Some(i) if i > 0 => (&text[..i], Some(&text[i..])),
        _ => (text, None),
    }
}

fn offset_micros(text: &str) -> Option<i64> {
    let (h, m) = text.get(1..)?.split_once(':')?;
    if h.len() != 2 || m.len() != 2 {
        return None;
    }
    let minutes = i64::from(number(h)?) * 60 + i64::from(number(m)?);
    // the manual's range: -13:59 to +14:00
    if number(m)? > 59 || minutes > 14 * 60 {
        return None;
    }
    Some(if text.starts_with('-') { -minutes } else { minutes } * 60_000_000)
}

fn shifted(value: DateTime, offset: i64) -> Option<DateTime> {
    DateTime::from_micros_since_epoch(value.micros_since_epoch()?.checked_sub(offset)?)
}

/// `h[:m[:s[.f]]]` or `hhmmss[.f]` of a day.
fn clock_digits(text: &str) -> Option<(u8, u8, u8, u32)> {
    let (clock, micro) = split_fraction(text)?;
    let (h, m, s) = if clock.contains(':') {
        let mut parts = clock.split(':');
        let h = number(parts.next()?)?;
        let m = number(parts.next()?)?;
        let s = parts.next().map_or(Some(0), number)?;
        if parts.next().is_some() {
            return None;
        }
        (h, m, s)
    } else {
        match clock.len() {
            1 | 2 => (number(clock)?, 0, 0),
            6 => {
                let n = number(clock)?;
                (n / 10_000, n / 100 % 100, n % 100)
            }
            _ => return None,
        }
    };
    (h < 24 && m < 60 && s < 60).then_some((h as u8, m as u8, s as u8, micro))
}

/// The part before the dot, and the microseconds behind it; a seventh digit and more are cut off, as the
/// server does when it reads a literal.
fn split_fraction(text: &str) -> Option<(&str, u32)> {
    let Some((clock, fraction)) = text.split_once('.') else { return Some((text, 0)) };
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
    Some((clock, number(&six)?))
}

/// A text as TIME: `[-][d ]h:m[:s[.f]]`, `[h]hmmss`, `mmss`, `ss`; `None` if it is not one.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    let text = text.trim();
    let (negative, body) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (days, body) = match body.split_once(' ') {
        Some((days, rest)) => (i64::from(number(days)?), rest.trim_start()),
        None => (0, body),
    };
    let (clock, micro) = split_fraction(body)?;
    let (h, m, s) = if clock.contains(':') {
        let mut parts = clock.split(':');
        let h = number(parts.next()?)?;
        let m = number(parts.next()?)?;
        let s = parts.next().map_or(Some(0), number)?;
        if parts.next().is_some() {
            return None;
        }
        (h, m, s)
    } else if days > 0 {
        (number(clock)?, 0, 0)
    } else {
        let n = number(clock)?;
        (n / 10_000, n / 100 % 100, n % 100)
    };
    if m > 59 || s > 59 {
        return None;
    }
    let seconds = days * 86_400 + i64::from(h) * 3600 + i64::from(m) * 60 + i64::from(s);
    let micros = seconds * 1_000_000 + i64::from(micro);
    (micros <= MAX_TIME_MICROS).then_some(Time { micros: if negative { -micros } else { micros } })
}

/// Rounds microseconds to `fsp` digits, half away from zero (manual 13.2.6).
pub(crate) fn round_micros(micros: i64, fsp: u8) -> i64 {
    let unit = 10i64.pow(6 - u32::from(fsp.min(6)));
    let (whole, rest) = (micros / unit, micros % unit);
    let up = if rest.abs() * 2 >= unit { micros.signum() } else { 0 };
    (whole + up) * unit
}

/// Rounds a DATETIME to `fsp` digits; `None` if the carry leaves the calendar or meets a zero date.
pub(crate) fn round_datetime(value: DateTime, fsp: u8) -> Option<DateTime> {
    let micro = round_micros(i64::from(value.micro), fsp);
    if micro < 1_000_000 {
        return Some(DateTime { micro: micro as u32, ..value });
    }
    DateTime::from_micros_since_epoch(value.micros_since_epoch()? - i64::from(value.micro) + 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_the_server_reads_them() {
        let cases = [
            ("2026-01-31", "2026-01-31 00:00:00.000000"),
            ("2026-1-3", "2026-01-03 00:00:00.000000"),
            ("26-01-31", "2026-01-31 00:00:00.000000"),
            ("20260131", "2026-01-31 00:00:00.000000"),
            ("20260131101112", "2026-01-31 10:11:12.000000"),
            ("2026-01-31 10:11:12.5678", "2026-01-31 10:11:12.567800"),
            ("2026-01-31T10:11:12", "2026-01-31 10:11:12.000000"),
            ("2026-01-31 10:11", "2026-01-31 10:11:00.000000"),
            ("2026-01-31 10:11:12+02:00", "2026-01-31 08:11:12.000000"),
            ("2026-12-31 23:30:00-01:00", "2027-01-01 00:30:00.000000"),
            ("0000-00-00", "0000-00-00 00:00:00.000000"),
            ("2026-00-10", "2026-00-10 00:00:00.000000"),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_datetime(text).map(|(v, _)| v.to_text(6)).as_deref(), Some(expect), "{text}");
        }
        for text in
            ["", "x", "2026-02-31", "2026-13-01", "2026-01-01 24:00:00", "2026-01-01x", "é", "2026-01-01 1é"]
        {
            assert_eq!(parse_datetime(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_days_signs_and_fractions() {
        let cases = [
            ("10:11:12.55", "10:11:12.550000"),
            ("-10:11", "-10:11:00.000000"),
            ("1 10:11:12", "34:11:12.000000"),
            ("101112", "10:11:12.000000"),
            ("1112", "00:11:12.000000"),
            ("12", "00:00:12.000000"),
            ("838:59:59", "838:59:59.000000"),
        ];
        for (text, expect) in cases {
            assert_eq!(parse_time(text).map(|v| v.to_text(6)).as_deref(), Some(expect), "{text}");
        }
        for text in ["", "839:00:00", "10:60:00", "a", "1:2:3:4", "-"] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }
}
