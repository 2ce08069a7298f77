//! Dates, times and numbers as texts of a given form, and back (MySQL manual 14.7, DATE_FORMAT, and 14.8, FORMAT).
//!
//! Names of days and months are English: `lc_time_names` is `en_US` where nobody has changed it, and a pipeline
//! has no session in which somebody could.
//!
//! `str_to_date` reads what `date_format` writes, as `extract_date_time()` in the server's source does. Its type
//! is found from the format, which therefore is a constant. What does not fit the format is NULL, as the manual
//! says. Where the server goes on with a warning, since something is behind what it has read, that is an error
//! here. Formats with weeks are refused.

use super::Function;
use super::calendar::{DAYS, MONTHS, clock_of, day_number, month_days, raw_day_number, raw_week};
use super::text::owned;
use crate::codes;
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Coercibility, Decimal, Env, ExprType, Failure, Fault, Number, Ready,
    Rounding, describe,
};
use crate::schema::{Charset, ColumnType};
use crate::value::{Date, DateTime, Time, Value};
use std::fmt::Write as _;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "date_format",
        aliases: &[],
        signature: "date_format(x, format)",
        help: "the date as a text, with `%Y`, `%m`, `%d`, `%H`, `%i`, `%s` and so on in the format replaced",
        examples: &[
            ("date_format(timestamp '2026-01-31 10:11:12', '%d.%m.%Y %H:%i')", "'31.01.2026 10:11'"),
            ("date_format(date '2026-01-31', '%W, %M %D')", "'Saturday, January 31st'"),
        ],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_date_format,
    },
    Function {
        name: "time_format",
        aliases: &[],
        signature: "time_format(x, format)",
        help: "as date_format, of a TIME or a time of day",
        examples: &[("time_format(time '100:11:12', '%H:%i')", "'100:11'")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_time_format,
    },
    Function {
        name: "str_to_date",
        aliases: &[],
        signature: "str_to_date(text, format)",
        help: "the DATE, TIME or DATETIME that a text in this format is; NULL if it is none",
        examples: &[
            ("str_to_date('31.01.2026', '%d.%m.%Y')", "date '2026-01-31'"),
            ("str_to_date('31.02.2026', '%d.%m.%Y')", "NULL"),
        ],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_str_to_date,
    },
    Function {
        name: "format",
        aliases: &[],
        signature: "format(x, digits)",
        help: "the number rounded to so many digits after the dot, with commas between thousands",
        examples: &[("format(1234567.891, 2)", "'1,234,567.89'"), ("format(0.5, 0)", "'1'")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_format,
    },
];

/// What a format is filled with: a moment, or a TIME, which has no day.
struct Moment {
    day: Option<Date>,
    negative: bool,
    hours: u64,
    minute: u64,
    second: u64,
    micro: u64,
}

impl Moment {
    fn of(v: DateTime) -> Moment {
        Moment {
            day: Some(v.date),
            negative: false,
            hours: v.hour.into(),
            minute: v.minute.into(),
            second: v.second.into(),
            micro: v.micro.into(),
        }
    }

    fn of_time(v: Time) -> Moment {
        let size = v.micros.unsigned_abs();
        let seconds = size / 1_000_000;
        Moment {
            day: None,
            negative: v.micros < 0,
            hours: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micro: size % 1_000_000,
        }
    }

    /// The format filled in; `None` where it asks for what is not there.
    fn filled(&self, format: &str) -> Option<String> {
        if format.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(format.len() + 16);
        if self.negative {
            out.push('-');
        }
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' => match chars.next() {
                    Some(letter) => self.part(letter, &mut out)?,
                    None => out.push('%'),
                },
                c => out.push(c),
            }
        }
        Some(out)
    }

    fn part(&self, letter: char, out: &mut String) -> Option<()> {
        let date = self.day.unwrap_or_default();
        // of a TIME there is no name of a day
        let known = self.day.filter(|d| d.month > 0 || d.year > 0);
        let twelve = (self.hours % 24 + 11) % 12 + 1;
        let half = if self.hours % 24 < 12 { "AM" } else { "PM" };
        let month = || usize::from(date.month).checked_sub(1).and_then(|m| MONTHS.get(m));
        let _ = match letter {
            'M' => write!(out, "{}", month()?),
            'b' => write!(out, "{}", &month()?[..3]),
            'W' => write!(out, "{}", DAYS[weekday(known?)]),
            'a' => write!(out, "{}", &DAYS[weekday(known?)][..3]),
            'w' => write!(out, "{}", (weekday(known?) + 1) % 7),
            'D' => {
                let ending = match (date.day / 10, date.day % 10) {
                    (1, _) => "th",
                    (_, 1) => "st",
                    (_, 2) => "nd",
                    (_, 3) => "rd",
                    _ => "th",
                };
                write!(out, "{}{ending}", date.day)
            }
            'Y' => write!(out, "{:04}", date.year),
            'y' => write!(out, "{:02}", date.year % 100),
            'm' => write!(out, "{:02}", date.month),
            'c' => write!(out, "{}", date.month),
            'd' => write!(out, "{:02}", date.day),
            'e' => write!(out, "{}", date.day),
            'f' => write!(out, "{:06}", self.micro),
            'H' => write!(out, "{:02}", self.hours),
            'k' => write!(out, "{}", self.hours),
            'h' | 'I' => write!(out, "{twelve:02}"),
            'l' => write!(out, "{twelve}"),
            'i' => write!(out, "{:02}", self.minute),
            'S' | 's' => write!(out, "{:02}", self.second),
            'p' => write!(out, "{half}"),
            'r' => write!(out, "{twelve:02}:{:02}:{:02} {half}", self.minute, self.second),
            'T' => write!(out, "{:02}:{:02}:{:02}", self.hours, self.minute, self.second),
            'j' => {
                let first = Date { month: 1, day: 1, ..self.day? };
                write!(out, "{:03}", raw_day_number(date) - raw_day_number(first) + 1)
            }
            'U' => write!(out, "{:02}", raw_week(self.day?, 0).1),
            'u' => write!(out, "{:02}", raw_week(self.day?, 1).1),
            'V' => write!(out, "{:02}", raw_week(self.day?, 2).1),
            'v' => write!(out, "{:02}", raw_week(self.day?, 3).1),
            'X' => write!(out, "{:04}", raw_week(self.day?, 2).0),
            'x' => write!(out, "{:04}", raw_week(self.day?, 3).0),
            other => write!(out, "{other}"),
        };
        Some(())
    }
}

/// 0 for Monday; also of a date that no calendar has, as the server counts.
fn weekday(date: Date) -> usize {
    ((raw_day_number(date) + 5) % 7) as usize
}

/// The longest that a format becomes: no part is longer than "00:00:00 AM".
fn filled_type(format: &BoundExpr) -> ExprType {
    let length = match format.const_text() {
        Some(text) => 1 + text.chars().count() as u64 + 11 * text.matches('%').count() as u64,
        None => format.ty().text_length().saturating_mul(6),
    };
    ExprType::text(length, Charset::utf8mb4(), Coercibility::Literal, true)
}

fn bind_date_format(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [day, format]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let (day, format) = (binder.day_of(day, &args.name), binder.text_of(format));
    let (day, format) = (day?, format?);
    let ty = filled_type(&format);
    binder.evaluated(vec![day, format], ty, &args.span, |call, env| {
        let (Some(v), Some(format)) = (call.datetime(env, 0)?, call.text(env, 1)?) else {
            return Ok(Value::Null);
        };
        Ok(Moment::of(v).filled(&format).map_or(Value::Null, owned))
    })
}

fn bind_time_format(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [time, format]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let time = clock_of(binder, time, &args.name);
    let span = format.span().clone();
    // of the day the server gives what it happens to hold
    let letters = format.const_text().map(letters_of);
    if letters.is_none_or(|l| l.iter().any(|l| "aMbcDdejUuVvWwXxYym".contains(*l))) {
        let diagnostic =
            binder.mismatch(&span, "the format of \"time_format\" is a constant text without parts of a day");
        return binder.refuse(diagnostic.help("`date_format` takes days"));
    }
    let format = binder.text_of(format);
    let (time, format) = (time?, format?);
    let ty = filled_type(&format);
    binder.evaluated(vec![time, format], ty, &args.span, |call, env| {
        let (Some(value), Some(format)) = (call.value(env, 0)?, call.text(env, 1)?) else {
            return Ok(Value::Null);
        };
        let moment = match value {
            Value::Time(v) => Moment::of_time(v),
            // of a day only the time counts
            _ => Moment { day: None, ..Moment::of(call.datetime(env, 0)?.unwrap_or_default()) },
        };
        Ok(moment.filled(&format).map_or(Value::Null, owned))
    })
}

/// What `str_to_date` gives by its format; the server looks for these letters, and for no others.
fn type_of_format(format: &str) -> ColumnType {
    let letters: Vec<char> = letters_of(format);
    let has = |of: &str| letters.iter().any(|l| of.contains(*l));
    let fraction = has("f");
    let (time, date) = (fraction || has("HISThiklrs"), has("MVUXYWabcjmvuxyw"));
    let fsp = if fraction { 6 } else { 0 };
    match (time, date) {
        (true, true) => ColumnType::DateTime { fsp },
        (true, false) => ColumnType::Time { fsp },
        _ => ColumnType::Date,
    }
}

fn letters_of(format: &str) -> Vec<char> {
    let mut chars = format.chars();
    let mut letters = Vec::new();
    while let Some(c) = chars.next() {
        if c == '%' {
            letters.extend(chars.next());
        }
    }
    letters
}

fn bind_str_to_date(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [text, format]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let text = binder.text_of(text);
    let span = format.span().clone();
    let Some(pattern) = format.const_text().map(str::to_owned) else {
        let headline = format!("the format of \"str_to_date\" is a constant text, not {}", describe(&format));
        let diagnostic = binder.mismatch(&span, headline);
        return binder.refuse(diagnostic.help("the type of the result is found from it"));
    };
    if let Some(letter) = letters_of(&pattern).into_iter().find(|l| "UuVvXx".contains(*l)) {
        let diagnostic =
            binder.mismatch(&span, format!("weeks (`%{letter}`) are not built in \"str_to_date\""));
        return binder.refuse(diagnostic);
    }
    let ty = ExprType::new(type_of_format(&pattern), true);
    binder.evaluated(vec![text?, format], ty, &args.span, |call, env| {
        let (Some(text), Some(format)) = (call.text(env, 0)?, call.text(env, 1)?) else {
            return Ok(Value::Null);
        };
        let mut reading = Reading { rest: text.as_bytes(), ..Reading::default() };
        if reading.read(format.as_bytes()).is_none() {
            return Ok(Value::Null);
        }
        let Some(read) = reading.finished() else { return Ok(Value::Null) };
        let value = match &call.ty.ty {
            Some(ColumnType::Date) => Some(Value::Date(read.date)),
            Some(ColumnType::Time { .. }) => {
                let hours = i64::from(read.date.day) * 24 + i64::from(read.hour);
                let seconds = hours * 3600 + i64::from(read.minute) * 60 + i64::from(read.second);
                Some(Value::Time(Time { micros: seconds * 1_000_000 + i64::from(read.micro) }))
            }
            _ => Some(Value::DateTime(read)),
        };
        if reading.rest.iter().any(|b| !is_space(*b)) {
            return Err(
                Failure::new(codes::OUT_OF_RANGE, "the text goes on behind what its format says").into()
            );
        }
        Ok(value.unwrap_or(Value::Null))
    })
}

/// White space of the C locale.
fn is_space(b: u8) -> bool {
    matches!(b, b' ' | 0x09..=0x0d)
}

/// What has been read of a text.
#[derive(Default)]
struct Reading<'t> {
    rest: &'t [u8],
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    micro: u32,
    day_of_year: u32,
    /// Hours count to 12.
    twelve: bool,
    afternoon: bool,
}

impl Reading<'_> {
    fn skip_spaces(&mut self) {
        let n = self.rest.iter().take_while(|b| is_space(**b)).count();
        self.rest = &self.rest[n..];
    }

    /// Up to so many digits, at least one. A sign is none of them.
    fn digits(&mut self, most: usize) -> Option<(u32, usize)> {
        let n = self.rest.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
        if n == 0 {
            return None;
        }
        let number = self.rest[..n].iter().fold(0, |v, b| v * 10 + u32::from(b - b'0'));
        self.rest = &self.rest[n..];
        Some((number, n))
    }

    fn number(&mut self, most: usize) -> Option<u32> {
        self.digits(most).map(|(n, _)| n)
    }

    /// One of these words, whole or its first `length` characters, in any letter case; its place from 1.
    fn word(&mut self, words: &[&str], length: usize) -> Option<u32> {
        let n = self.rest.iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let found = &self.rest[..n];
        let place =
            words.iter().position(|w| w.as_bytes()[..length.min(w.len())].eq_ignore_ascii_case(found))?;
        self.rest = &self.rest[n..];
        Some(place as u32 + 1)
    }

    fn skip_while(&mut self, is: fn(&u8) -> bool) {
        let n = self.rest.iter().take_while(|b| is(b)).count();
        self.rest = &self.rest[n..];
    }

    /// Reads as far as the text goes; `None` where it does not fit.
    fn read(&mut self, format: &[u8]) -> Option<()> {
        let full = |year: u32| if year < 70 { year + 2000 } else { year + 1900 };
        let mut at = 0;
        while let Some(c) = format.get(at) {
            at += 1;
            self.skip_spaces();
            if self.rest.is_empty() {
                break;
            }
            let letter = match (c, format.get(at)) {
                (b'%', Some(letter)) => *letter,
                (c, _) if is_space(*c) => continue,
                (c, _) => {
                    self.rest = self.rest.strip_prefix(&[*c])?;
                    continue;
                }
            };
            at += 1;
            match letter {
                b'Y' => {
                    let (year, digits) = self.digits(4)?;
                    self.year = if digits <= 2 { full(year) } else { year };
                }
                b'y' => self.year = full(self.number(2)?),
                b'm' | b'c' => self.month = self.number(2)?,
                b'M' => self.month = self.word(&MONTHS, usize::MAX)?,
                b'b' => self.month = self.word(&MONTHS, 3)?,
                b'd' | b'e' => self.day = self.number(2)?,
                b'D' => {
                    self.day = self.number(2)?;
                    // "st", "nd", "rd", "th", and whatever else stands there
                    self.rest = &self.rest[self.rest.len().min(2)..];
                }
                b'h' | b'I' | b'l' => {
                    self.twelve = true;
                    self.hour = self.number(2)?;
                }
                b'H' | b'k' => self.hour = self.number(2)?,
                b'i' => self.minute = self.number(2)?,
                b's' | b'S' => self.second = self.number(2)?,
                b'f' => {
                    let (micro, digits) = self.digits(6)?;
                    self.micro = micro * 10u32.pow(6 - digits as u32);
                }
                b'p' => {
                    if !self.twelve {
                        return None;
                    }
                    let (half, rest) = self.rest.split_at_checked(2)?;
                    self.afternoon = half.eq_ignore_ascii_case(b"PM");
                    if !self.afternoon && !half.eq_ignore_ascii_case(b"AM") {
                        return None;
                    }
                    self.rest = rest;
                }
                b'W' => _ = self.word(&DAYS, usize::MAX)?,
                b'a' => _ = self.word(&DAYS, 3)?,
                b'w' => _ = self.number(1).filter(|n| *n < 7)?,
                b'j' => self.day_of_year = self.number(3)?,
                b'r' => self.read(b"%I:%i:%S %p")?,
                b'T' => self.read(b"%H:%i:%S")?,
                b'.' => self.skip_while(u8::is_ascii_punctuation),
                b'@' => self.skip_while(u8::is_ascii_alphabetic),
                b'#' => self.skip_while(u8::is_ascii_digit),
                _ => return None,
            }
        }
        Some(())
    }

    /// The moment that was read, if there is one.
    fn finished(&mut self) -> Option<DateTime> {
        if self.twelve {
            if !(1..=12).contains(&self.hour) {
                return None;
            }
            self.hour = self.hour % 12 + if self.afternoon { 12 } else { 0 };
        }
        if self.day_of_year > 0 {
            let first = Date { year: self.year as u16, month: 1, day: 1 };
            let number = day_number(first)? + i64::from(self.day_of_year) - 1;
            let date = super::calendar::day_of_number(number)?;
            (self.year, self.month, self.day) = (date.year.into(), date.month.into(), date.day.into());
        }
        let clock = self.hour < 24 && self.minute < 60 && self.second < 60;
        if self.month > 12 || self.day > 31 || !clock {
            return None;
        }
        let (year, month, day) = (self.year as u16, self.month as u8, self.day as u8);
        // February 30 is no date; one with zeros is
        if month > 0 && day > month_days(year, month) {
            return None;
        }
        Some(DateTime {
            date: Date { year, month, day },
            hour: self.hour as u8,
            minute: self.minute as u8,
            second: self.second as u8,
            micro: self.micro,
        })
    }
}

fn bind_format(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    for arg in &args.args {
        binder.ensure_number(arg, &args.name)?;
    }
    let nullable = args.args.iter().any(|a| a.ty().nullable);
    let whole = if args.args[0].ty().class().is_approximate() { 309 } else { 66 };
    // a comma for three digits, a sign, a dot, and at most 30 digits behind it
    let ty = ExprType::text(whole + whole / 3 + 32, Charset::utf8mb4(), Coercibility::Literal, nullable);
    binder.evaluated_with(args.args, ty, &args.span, Ready::Nothing, eval_format)
}

fn eval_format<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(number), Some(digits)) = (call.number(env, 0)?, call.whole(env, 1)?) else {
        return Ok(Value::Null);
    };
    let digits = digits.clamp(0, 30) as usize;
    let text = match number {
        // rounded as a double, then written in its own digits and zeros behind them
        Number::Double(v) => {
            let rounded = super::number::round_double(v, digits as i32, Rounding::HalfAway);
            match Decimal::from_f64(rounded) {
                // the sign of a double is kept even where nothing else is left of it
                Some(exact) => {
                    let text = exact.abs().round(digits as u32, Rounding::HalfAway).to_text();
                    format!("{}{text}", if rounded.is_sign_negative() { "-" } else { "" })
                }
                None => return Err(Failure::out_of_range("DOUBLE").into()),
            }
        }
        exact => match exact.to_decimal() {
            Some(exact) => exact.round(digits as u32, Rounding::HalfAway).to_text(),
            None => return Ok(Value::Null),
        },
    };
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => ("-", body),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    Ok(owned(out))
}
