//! Texts as typed values: the types of parameters, typed literals, durations, sizes.

use cdc_core::value::{Date, DateTime, Time, Timestamp, Value};
use std::borrow::Cow;

/// The types of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamType {
    Text,
    Int,
    Decimal,
    Double,
    Bool,
    Date,
    DateTime,
    Timestamp,
}

impl ParamType {
    /// Their words.
    pub const WORDS: [(&'static str, ParamType); 10] = [
        ("text", ParamType::Text),
        ("string", ParamType::Text),
        ("int", ParamType::Int),
        ("bigint", ParamType::Int),
        ("decimal", ParamType::Decimal),
        ("double", ParamType::Double),
        ("bool", ParamType::Bool),
        ("date", ParamType::Date),
        ("datetime", ParamType::DateTime),
        ("timestamp", ParamType::Timestamp),
    ];

    pub fn from_word(word: &str) -> Option<ParamType> {
        Self::WORDS.iter().find(|(w, _)| w.eq_ignore_ascii_case(word)).map(|(_, t)| *t)
    }

    /// What a value of this type looks like, after "expected".
    pub fn expected(self) -> &'static str {
        match self {
            ParamType::Text => "a text",
            ParamType::Int => "a whole number",
            ParamType::Decimal => "a number such as 12.50",
            ParamType::Double => "a number such as 1.5 or 1e-3",
            ParamType::Bool => "true or false",
            ParamType::Date => "a day such as 2026-01-31",
            ParamType::DateTime => "a day and time such as 2026-01-31 12:00:00",
            ParamType::Timestamp => "an instant such as 2026-01-31 12:00:00 or 2026-01-31T12:00:00+02:00",
        }
    }

    /// The value that a text stands for. `zone_minutes`: the pipeline's time zone as an offset, if it is one.
    pub fn parse(self, text: &str, zone_minutes: Option<i32>) -> Option<Value<'static>> {
        let t = text.trim();
        Some(match self {
            ParamType::Text => Value::Text(Cow::Owned(text.to_owned())),
            ParamType::Int => match t.parse::<i64>() {
                Ok(v) => Value::Int(v),
                Err(_) => Value::UInt(t.strip_prefix('+').unwrap_or(t).parse().ok()?),
            },
            ParamType::Decimal => Value::Decimal(Cow::Owned(canonical_decimal(t)?)),
            ParamType::Double => {
                let v: f64 = t.parse().ok()?;
                // also "inf" and "nan" are numbers to Rust
                return v.is_finite().then_some(Value::Double(v));
            }
            ParamType::Bool => match t.to_ascii_lowercase().as_str() {
                "true" | "1" => Value::Int(1),
                "false" | "0" => Value::Int(0),
                _ => return None,
            },
            ParamType::Date => Value::Date(parse_date(t)?),
            ParamType::DateTime => Value::DateTime(parse_datetime(t)?),
            ParamType::Timestamp => Value::Timestamp(parse_timestamp(t, zone_minutes)?),
        })
    }
}

/// Is it a number at all? The lexer reports those that are none and gives them out all the same.
pub(crate) fn is_number(text: &str) -> bool {
    !text.ends_with('.') && text.parse::<f64>().is_ok()
}

/// Digits with at most one dot, in the one form that the server prints.
pub(crate) fn canonical_decimal(text: &str) -> Option<String> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) || body.ends_with('.') {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() + fraction.len() > 65 || fraction.len() > 30 {
        return None;
    }
    let zero = whole.is_empty() && fraction.bytes().all(|b| b == b'0');
    let sign = if negative && !zero { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let dot = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{dot}{fraction}"))
}

fn number<T: std::str::FromStr>(text: &str, min: usize, max: usize) -> Option<T> {
    let fits = (min..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// `YYYY-MM-DD`, a day of the calendar.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let date = Date {
        year: number(parts.next()?, 4, 4)?,
        month: number(parts.next()?, 1, 2)?,
        day: number(parts.next()?, 1, 2)?,
    };
    (parts.next().is_none() && date.is_real()).then_some(date)
}

/// `HH:MM[:SS[.ffffff]]` as hour, minute, second, microseconds.
fn parse_clock(text: &str, max_hour: u32) -> Option<(u32, u8, u8, u32)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let hour: u32 = number(parts.next()?, 1, 3)?;
    let minute: u8 = number(parts.next()?, 1, 2)?;
    let second: u8 = parts.next().map_or(Some(0), |s| number(s, 1, 2))?;
    let digits: u32 = number(fraction, 1, 6)?;
    let micro = digits * 10_u32.pow(6 - fraction.len() as u32);
    (parts.next().is_none() && hour <= max_hour && minute < 60 && second < 60)
        .then_some((hour, minute, second, micro))
}

/// `[-]HH:MM:SS[.ffffff]`, up to 838 hours.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => (-1, body),
        None => (1, text),
    };
    let (hour, minute, second, micro) = parse_clock(body, 838)?;
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(Time { micros: sign * (seconds * 1_000_000 + i64::from(micro)) })
}

/// `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`, with a space or a `T`.
pub(crate) fn parse_datetime(text: &str) -> Option<DateTime> {
    let Some((date, clock)) = text.split_once([' ', 'T']) else {
        return Some(DateTime { date: parse_date(text)?, ..DateTime::default() });
    };
    let (hour, minute, second, micro) = parse_clock(clock.trim_start(), 23)?;
    Some(DateTime { date: parse_date(date)?, hour: hour as u8, minute, second, micro })
}

fn parse_timestamp(text: &str, zone_minutes: Option<i32>) -> Option<Timestamp> {
    let (digits, zone) = if let Some(body) = text.strip_suffix(['Z', 'z']) {
        (body, 0)
    } else {
        // a sign behind the day's two hyphens
        match text.char_indices().skip(10).find(|(_, c)| matches!(c, '+' | '-')) {
            Some((i, _)) => (&text[..i], offset_minutes(&text[i..])?),
            None => (text, zone_minutes?),
        }
    };
    let micros = parse_datetime(digits.trim_end())?.micros_since_epoch()?;
    Some(Timestamp { micros: micros - i64::from(zone) * 60_000_000 })
}

/// `UTC` or `+02:00` in minutes; `None` for everything else.
pub(crate) fn offset_minutes(zone: &str) -> Option<i32> {
    if zone.eq_ignore_ascii_case("utc") {
        return Some(0);
    }
    let sign = match zone.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    let (hours, minutes): (i32, i32) = (number(hours, 1, 2)?, number(minutes, 2, 2)?);
    // the server's range, manual 7.1.15
    let all = sign * (hours * 60 + minutes);
    (minutes < 60 && (-839..=840).contains(&all)).then_some(all)
}

/// `10s`, `1h30m`, `250ms`, in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Option<u64> {
    const UNITS: &[(&str, u64)] =
        &[("ms", 1), ("min", 60_000), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let mut rest = text.trim();
    let mut sum: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|d| *d > 0)?;
        let n: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].trim_start();
        let (word, factor) = UNITS.iter().find(|(w, _)| {
            unit.strip_prefix(w).is_some_and(|r| !r.starts_with(|c: char| c.is_alphabetic()))
        })?;
        sum = sum.checked_add(n.checked_mul(*factor)?)?;
        rest = unit[word.len()..].trim_start();
    }
    // milliseconds must fit the clocks of those who wait
    (i64::try_from(sum).is_ok()).then_some(sum)
}

/// `16MB`, `64KB`, `4096`, in bytes; powers of 1024, as in MySQL's own settings.
pub(crate) fn parse_bytes(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let n: i64 = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1_i64 << 40,
        _ => return None,
    };
    n.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes() {
        assert_eq!(parse_duration("10s"), Some(10_000));
        assert_eq!(parse_duration("1h 30m"), Some(5_400_000));
        assert_eq!(parse_duration("250ms"), Some(250));
        assert_eq!(parse_duration("2min"), Some(120_000));
        assert_eq!(
            ["", "10", "s", "10x", "-1s", "1.5s", "99999999999999999999d"].map(parse_duration),
            [None; 7]
        );
        assert_eq!(parse_bytes("16MB"), Some(16 << 20));
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(["", "MB", "1XB", "99999999999TB"].map(parse_bytes), [None; 4]);
    }

    #[test]
    fn values_of_parameters() {
        let parse = |ty: ParamType, t: &str| ty.parse(t, Some(0)).map(|v| v.to_string());
        assert_eq!(parse(ParamType::Date, "2026-02-28").as_deref(), Some("2026-02-28"));
        assert_eq!(parse(ParamType::Date, "2026-02-30"), None);
        assert_eq!(parse(ParamType::Decimal, "-007.50").as_deref(), Some("-7.50"));
        assert_eq!(parse(ParamType::Decimal, "-0.0").as_deref(), Some("0.0"));
        assert_eq!(parse(ParamType::Int, "18446744073709551615").as_deref(), Some("18446744073709551615"));
        assert_eq!(parse(ParamType::Double, "nan"), None);
        assert_eq!(parse(ParamType::Bool, "TRUE").as_deref(), Some("1"));
        let ts = ParamType::Timestamp;
        assert_eq!(parse(ts, "2026-01-31T12:00:00+02:00").as_deref(), Some("2026-01-31 10:00:00"));
        assert_eq!(ts.parse("2026-01-31", None), None);
        assert_eq!(parse(ParamType::DateTime, "2026-01-31 24:00:00"), None);
    }
}
