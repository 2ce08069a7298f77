//! Arithmetic with dates and times (MySQL manual 14.7), in UTC.
//!
//! # Days
//! The server counts days from 0000-01-01, which is 1, in a year 0 of 365 days (`calc_daynr()` in its source);
//! from 0001-01-01 on that is the Gregorian calendar. [`day_number`] and [`day_of_number`] are that count. A
//! date that no calendar has gives NULL in all functions here, as at the server: where nothing can be counted
//! there is no result. So does a result before year 0 or behind 9999-12-31, and a TIME beyond 838:59:59.
//!
//! # Types
//! A DATE stays a DATE when days or more are added, and becomes a DATETIME with a time of day; a TIME stays a
//! TIME, and has no days: the server would take those of today. Texts are refused: the server gives a text
//! for a text, in a form that depends on what it finds in it.

use super::Function;
use crate::codes;
use crate::diagnostic::Span;
use crate::expr::Unit;
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Class, Coercibility, Decimal, Env, ExprType, Failure, Fault,
    MAX_TIME_MICROS, Number, Ready, Rounding, describe,
};
use crate::schema::{Charset, ColumnType};
use crate::value::{Date, DateTime, Time, Value, days_in_month};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "date_add",
        aliases: &["adddate"],
        signature: "date_add(x, interval n unit)",
        help: "so much later; also `x + interval n unit`, and `adddate(x, days)`",
        examples: &[
            ("date_add(date '2026-01-31', interval 1 month)", "date '2026-02-28'"),
            ("timestamp '2026-01-31 10:00:00' + interval 90 minute", "timestamp '2026-01-31 11:30:00'"),
        ],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| added(binder, args, false),
    },
    Function {
        name: "date_sub",
        aliases: &["subdate"],
        signature: "date_sub(x, interval n unit)",
        help: "so much earlier; also `x - interval n unit`, and `subdate(x, days)`",
        examples: &[("date_sub(date '2026-03-01', interval 1 day)", "date '2026-02-28'")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| added(binder, args, true),
    },
    Function {
        name: "timestampadd",
        aliases: &[],
        signature: "timestampadd(unit, n, x)",
        help: "so much later",
        examples: &[("timestampadd(week, 1, date '2026-01-31')", "date '2026-02-07'")],
        refused: None,
        arity: (3, Some(3)),
        bind: |binder, args| {
            let unit = args.unit;
            let [count, x]: [BoundExpr; 2] = args.args.try_into().ok()?;
            match unit {
                Some(unit) => shifted(binder, x, count, unit, false, &args.span),
                None => None,
            }
        },
    },
    Function {
        name: "timestampdiff",
        aliases: &[],
        signature: "timestampdiff(unit, a, b)",
        help: "the whole units from a to b",
        examples: &[
            ("timestampdiff(month, date '2026-01-31', date '2026-02-28')", "0"),
            ("timestampdiff(hour, date '2026-01-31', timestamp '2026-02-01 11:59:59')", "35"),
        ],
        refused: None,
        arity: (3, Some(3)),
        bind: bind_timestampdiff,
    },
    Function {
        name: "datediff",
        aliases: &[],
        signature: "datediff(a, b)",
        help: "the days from b to a",
        examples: &[("datediff(date '2026-03-01', date '2026-02-01')", "28")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_datediff,
    },
    Function {
        name: "last_day",
        aliases: &[],
        signature: "last_day(x)",
        help: "the last day of the month",
        examples: &[("last_day(date '2024-02-10')", "date '2024-02-29'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            let arg = binder.day_of(args.args.into_iter().next()?, &args.name)?;
            binder.evaluated(vec![arg], ExprType::new(ColumnType::Date, true), &args.span, |call, env| {
                let Some(date) =
                    call.datetime(env, 0)?.map(|v| v.date).filter(|d| (1..=12).contains(&d.month))
                else {
                    return Ok(Value::Null);
                };
                if date.day == 0 {
                    // a day at the server where it stands alone, NULL within another function
                    return Err(Failure::new(codes::OUT_OF_RANGE, "the date has no day").into());
                }
                Ok(Value::Date(Date { day: month_days(date.year, date.month), ..date }))
            })
        },
    },
    Function {
        name: "dayofweek",
        aliases: &[],
        signature: "dayofweek(x)",
        help: "the day of the week, from 1 for Sunday to 7",
        examples: &[("dayofweek(date '2026-01-31')", "7")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| of_day(binder, args, |d, _| Some((weekday(d)? + 1) % 7 + 1)),
    },
    Function {
        name: "weekday",
        aliases: &[],
        signature: "weekday(x)",
        help: "the day of the week, from 0 for Monday to 6",
        examples: &[("weekday(date '2026-01-31')", "5")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| of_day(binder, args, |d, _| weekday(d)),
    },
    Function {
        name: "dayofyear",
        aliases: &[],
        signature: "dayofyear(x)",
        help: "the day of the year, 1 to 366",
        examples: &[("dayofyear(date '2026-02-01')", "32")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            of_day(binder, args, |d, _| {
                Some(day_number(d)? - day_number(Date { month: 1, day: 1, ..d })? + 1)
            })
        },
    },
    Function {
        name: "week",
        aliases: &[],
        signature: "week(x[, mode])",
        help: "the week of the year; without a mode as mode 0: from Sunday, 0 to 53",
        examples: &[("week(date '2026-01-31')", "4"), ("week(date '2026-01-01', 3)", "1")],
        refused: None,
        arity: (1, Some(2)),
        bind: |binder, args| of_day(binder, args, |d, mode| Some(week(d, mode)?.1)),
    },
    Function {
        name: "weekofyear",
        aliases: &[],
        signature: "weekofyear(x)",
        help: "the week of ISO 8601, 1 to 53",
        examples: &[("weekofyear(date '2026-01-01')", "1")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| of_day(binder, args, |d, _| Some(week(d, 3)?.1)),
    },
    Function {
        name: "yearweek",
        aliases: &[],
        signature: "yearweek(x[, mode])",
        help: "the year and the week in it, as 202604; without a mode as mode 0",
        examples: &[("yearweek(date '2026-01-01')", "202552"), ("yearweek(date '2026-01-01', 3)", "202601")],
        refused: None,
        arity: (1, Some(2)),
        bind: |binder, args| {
            of_day(binder, args, |d, mode| {
                let (year, week) = week(d, mode | 2)?;
                Some(year * 100 + week)
            })
        },
    },
    Function {
        name: "to_days",
        aliases: &[],
        signature: "to_days(x)",
        help: "the days since year 0",
        examples: &[("to_days(date '2026-01-01')", "739982")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| of_day(binder, args, |d, _| day_number(d)),
    },
    Function {
        name: "from_days",
        aliases: &[],
        signature: "from_days(n)",
        help: "the date of so many days since year 0",
        examples: &[("from_days(739982)", "date '2026-01-01'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            binder.ensure_number(&args.args[0], &args.name)?;
            let ty = ExprType::new(ColumnType::Date, true);
            binder.evaluated(args.args, ty, &args.span, |call, env| {
                Ok(call.whole(env, 0)?.and_then(day_of_number).map_or(Value::Null, Value::Date))
            })
        },
    },
    Function {
        name: "to_seconds",
        aliases: &[],
        signature: "to_seconds(x)",
        help: "the seconds since year 0",
        examples: &[("to_seconds(timestamp '2026-01-01 10:00:00')", "63934480800")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            let arg = binder.day_of(args.args.into_iter().next()?, &args.name)?;
            binder.evaluated(vec![arg], ExprType::bigint(false, true), &args.span, |call, env| {
                Ok(call
                    .datetime(env, 0)?
                    .and_then(instant)
                    .map_or(Value::Null, |t| Value::Int((t / SECOND) as i64)))
            })
        },
    },
    Function {
        name: "dayname",
        aliases: &[],
        signature: "dayname(x)",
        help: "the English name of the day of the week",
        examples: &[("dayname(date '2026-01-31')", "'Saturday'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| named(binder, args, |d| weekday(d).map(|n| DAYS[n as usize])),
    },
    Function {
        name: "monthname",
        aliases: &[],
        signature: "monthname(x)",
        help: "the English name of the month; NULL for month 0",
        examples: &[("monthname(date '2026-01-31')", "'January'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            named(binder, args, |d| usize::from(d.month).checked_sub(1).and_then(|m| MONTHS.get(m)).copied())
        },
    },
    Function {
        name: "makedate",
        aliases: &[],
        signature: "makedate(year, day)",
        help: "the date of a year and a day in it, which may be more than the year has",
        examples: &[("makedate(2026, 32)", "date '2026-02-01'"), ("makedate(2026, 0)", "NULL")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_makedate,
    },
    Function {
        name: "from_unixtime",
        aliases: &[],
        signature: "from_unixtime(seconds)",
        help: "the DATETIME in UTC of seconds since 1970-01-01 00:00:00; NULL before that and after 3001-01-18",
        examples: &[
            ("from_unixtime(1769854272)", "timestamp '2026-01-31 10:11:12'"),
            ("from_unixtime(-1)", "NULL"),
        ],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_from_unixtime,
    },
    Function {
        name: "convert_tz",
        aliases: &[],
        signature: "convert_tz(x, from, to)",
        help: "a DATETIME of one offset from UTC in another; unchanged before 1970 and after 3001-01-18",
        examples: &[(
            "convert_tz(timestamp '2026-01-01 12:00:00', '+00:00', '-05:30')",
            "timestamp '2026-01-01 06:30:00'",
        )],
        refused: None,
        arity: (3, Some(3)),
        bind: bind_convert_tz,
    },
    Function {
        name: "timestamp",
        aliases: &[],
        signature: "timestamp(x[, time])",
        help: "x as a DATETIME, the time added to it",
        examples: &[("timestamp(date '2026-01-31', time '10:11:12')", "timestamp '2026-01-31 10:11:12'")],
        refused: None,
        arity: (1, Some(2)),
        bind: bind_timestamp,
    },
    Function {
        name: "time",
        aliases: &[],
        signature: "time(x)",
        help: "the time of day, or the TIME as it is",
        examples: &[("time(timestamp '2026-01-31 10:11:12')", "time '10:11:12'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_time,
    },
    Function {
        name: "timediff",
        aliases: &[],
        signature: "timediff(a, b)",
        help: "the TIME from b to a, both of them TIMEs or both dates",
        examples: &[("timediff(time '10:00:00', time '11:30:00')", "time '-01:30:00'")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_timediff,
    },
    Function {
        name: "addtime",
        aliases: &[],
        signature: "addtime(x, time)",
        help: "a DATETIME or TIME, and a TIME added to it",
        examples: &[("addtime(time '10:00:00', time '01:30:00')", "time '11:30:00'")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| with_time(binder, args, false),
    },
    Function {
        name: "subtime",
        aliases: &[],
        signature: "subtime(x, time)",
        help: "a DATETIME or TIME, and a TIME taken from it",
        examples: &[("subtime(time '10:00:00', time '11:30:00')", "time '-01:30:00'")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| with_time(binder, args, true),
    },
    Function {
        name: "time_to_sec",
        aliases: &[],
        signature: "time_to_sec(x)",
        help: "the whole seconds of a TIME, or of a time of day",
        examples: &[("time_to_sec(time '-01:00:01')", "-3601")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            let arg = clock_of(binder, args.args.into_iter().next()?, &args.name)?;
            let ty = ExprType::bigint(false, arg.ty().nullable);
            binder.evaluated(vec![arg], ty, &args.span, |call, env| {
                Ok(clock(call, env, 0)?.map_or(Value::Null, |t| Value::Int(t / 1_000_000)))
            })
        },
    },
    Function {
        name: "sec_to_time",
        aliases: &[],
        signature: "sec_to_time(seconds)",
        help: "the TIME of so many seconds; an error beyond 838:59:59",
        examples: &[("sec_to_time(3661)", "time '01:01:01'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_sec_to_time,
    },
    Function {
        name: "maketime",
        aliases: &[],
        signature: "maketime(hour, minute, second)",
        help: "the TIME of its parts; NULL for minutes or seconds beyond 0 to 59",
        examples: &[("maketime(-1, 30, 0)", "time '-01:30:00'"), ("maketime(1, 60, 0)", "NULL")],
        refused: None,
        arity: (3, Some(3)),
        bind: bind_maketime,
    },
    Function {
        name: "microsecond",
        aliases: &[],
        signature: "microsecond(x)",
        help: "the microseconds, 0 to 999999",
        examples: &[("microsecond(time '10:11:12.5')", "500000")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            let arg = clock_of(binder, args.args.into_iter().next()?, &args.name)?;
            let ty = ExprType::bigint(false, arg.ty().nullable);
            binder.evaluated(vec![arg], ty, &args.span, |call, env| {
                Ok(clock(call, env, 0)?.map_or(Value::Null, |t| Value::Int((t % 1_000_000).abs())))
            })
        },
    },
    Function {
        name: "extract",
        aliases: &[],
        signature: "extract(unit from x)",
        help: "a part of a date or time; of a negative TIME a negative one",
        examples: &[
            ("extract(month from date '2026-01-31')", "1"),
            ("extract(hour from time '-10:11:12')", "-10"),
        ],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_extract,
    },
    Function {
        name: "period_add",
        aliases: &[],
        signature: "period_add(period, months)",
        help: "a month, as 202601, and so many months later",
        examples: &[("period_add(202611, 3)", "202702")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| {
            periods(
                binder,
                args,
                |months, n| {
                    months
                        .checked_add(n)
                        .filter(|m| (0..=i64::from(u32::MAX)).contains(m))
                        .map(period_of_months)
                },
                false,
            )
        },
    },
    Function {
        name: "period_diff",
        aliases: &[],
        signature: "period_diff(a, b)",
        help: "the months from b to a, both as 202601",
        examples: &[("period_diff(202601, 202511)", "2")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| periods(binder, args, |a, b| Some(a - b), true),
    },
];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// From Monday.
pub(super) const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const SECOND: i128 = 1_000_000;
const DAY: i128 = 86_400 * SECOND;

/// 9999-12-31.
const LAST_DAY: i64 = 3_652_424;

/// 3001-01-18 23:59:59, the last second of UNIX times (manual 14.7).
const LAST_UNIX_SECOND: i64 = 32_536_771_199;

/// A function of a day, and of the number in its second argument; 0 where there is none.
fn of_day(binder: &mut Binder<'_>, args: Args, f: fn(Date, i64) -> Option<i64>) -> Option<BoundExpr> {
    if let Some(mode) = args.args.get(1)
        && !mode.const_whole().is_some_and(|mode| (0..=7).contains(&mode))
    {
        // of a mode that is NULL the server gives 0, which is no week of mode 0
        let diagnostic =
            binder.mismatch(&mode.span().clone(), "the mode of a week is a constant from 0 to 7");
        return binder.refuse(diagnostic.help("3 is ISO 8601: from Monday, 1 to 53"));
    }
    let mut rest = args.args.into_iter();
    let day = binder.day_of(rest.next()?, &args.name)?;
    let bound = std::iter::once(day).chain(rest).collect();
    binder.evaluated_with(bound, ExprType::bigint(false, true), &args.span, Ready::OfDay(f), |call, env| {
        let Ready::OfDay(f) = &call.ready else { return Ok(Value::Null) };
        let Some(day) = call.datetime(env, 0)? else { return Ok(Value::Null) };
        let number = if call.args.len() == 2 {
            let Some(number) = call.whole(env, 1)? else { return Ok(Value::Null) };
            number
        } else {
            0
        };
        Ok(f(day.date, number).map_or(Value::Null, Value::Int))
    })
}

fn is_leap(year: u16) -> bool {
    year > 0 && days_in_month(year, 2) == 29
}

/// The days of a month; year 0 is no leap year here.
pub(super) fn month_days(year: u16, month: u8) -> u8 {
    if year == 0 && month == 2 { 28 } else { days_in_month(year, month) }
}

/// Days since the day before 0000-01-01; `None` of a date that no calendar has.
pub(super) fn day_number(date: Date) -> Option<i64> {
    if !date.is_real() {
        return None;
    }
    if date.year == 0 {
        let before: i64 = (1..date.month).map(|m| i64::from(month_days(0, m))).sum();
        return Some(before + i64::from(date.day));
    }
    // 1970-01-01 is day 719528
    Some(date.days_since_epoch() + 719_528)
}

/// The inverse of [`day_number`].
pub(super) fn day_of_number(number: i64) -> Option<Date> {
    match number {
        1..=365 => {
            let mut day = number;
            let mut month = 1;
            while day > i64::from(month_days(0, month)) {
                day -= i64::from(month_days(0, month));
                month += 1;
            }
            Some(Date { year: 0, month, day: day as u8 })
        }
        366..=LAST_DAY => Date::from_days_since_epoch(number - 719_528),
        _ => None,
    }
}

/// 0 for Monday.
pub(super) fn weekday(date: Date) -> Option<i64> {
    Some((day_number(date)? + 5) % 7)
}

/// Year and week (manual 14.7, WEEK), of a real date.
pub(super) fn week(date: Date, mode: i64) -> Option<(i64, i64)> {
    if !date.is_real() {
        return None;
    }
    let (year, week) = raw_week(date, mode);
    Some((i64::from(year), i64::from(week)))
}

/// `calc_daynr()`: as [`day_number`], and some number of a date that no calendar has.
pub(super) fn raw_day_number(date: Date) -> i64 {
    let (mut year, month) = (i64::from(date.year), i64::from(date.month));
    if year == 0 && month == 0 {
        return 0;
    }
    let mut days = 365 * year + 31 * (month - 1) + i64::from(date.day);
    if month <= 2 {
        year -= 1;
    } else {
        days -= (month * 4 + 23) / 10;
    }
    days + year / 4 - (year / 100 + 1) * 3 / 4
}

/// `calc_week()`, in the widths of its numbers, since a date that no calendar has makes some of them wrap around.
/// Bit 0 of the mode: from Monday; bit 1: 1 to 53, the first days of a year may be in a week of the year before;
/// bit 2: what makes the first week, its first day or four days.
pub(super) fn raw_week(date: Date, mode: i64) -> (u32, u32) {
    let monday_first = mode & 1 != 0;
    let mut week_of_year = mode & 2 != 0;
    // with weeks from Monday the bit means the contrary
    let by_first_day = (mode & 4 != 0) == monday_first;
    let days_of = |year: u32| if u16::try_from(year).is_ok_and(is_leap) { 366 } else { 365 };
    let number = raw_day_number(date);
    let mut first = raw_day_number(Date { month: 1, day: 1, ..date });
    let mut weekday = (first + 5 + i64::from(!monday_first)) % 7;
    let mut year = u32::from(date.year);
    let is_late = |weekday: i64| if by_first_day { weekday != 0 } else { weekday >= 4 };
    if date.month == 1 && i64::from(date.day) <= 7 - weekday {
        if !week_of_year && is_late(weekday) {
            return (year, 0);
        }
        week_of_year = true;
        year = year.wrapping_sub(1);
        first -= days_of(year);
        weekday = (weekday + 53 * 7 - days_of(year)) % 7;
    }
    let days = (number - if is_late(weekday) { first + (7 - weekday) } else { first - weekday }) as u32;
    if week_of_year && days >= 52 * 7 {
        weekday = (weekday + days_of(year)) % 7;
        if !is_late(weekday) {
            return (year.wrapping_add(1), 1);
        }
    }
    (year, days / 7 + 1)
}

/// Microseconds since the midnight before day 0.
fn instant(v: DateTime) -> Option<i128> {
    v.date.is_real().then(|| raw_instant(v))
}

/// As [`instant`], by some number of a day that no calendar has.
fn raw_instant(v: DateTime) -> i128 {
    let seconds = i128::from(v.hour) * 3600 + i128::from(v.minute) * 60 + i128::from(v.second);
    i128::from(raw_day_number(v.date)) * DAY + seconds * SECOND + i128::from(v.micro)
}

/// The inverse of [`instant`].
fn datetime_at(instant: i128) -> Option<DateTime> {
    let date = day_of_number(i64::try_from(instant.div_euclid(DAY)).ok()?)?;
    let micros = instant.rem_euclid(DAY);
    let seconds = (micros / SECOND) as u32;
    Some(DateTime {
        date,
        hour: (seconds / 3600) as u8,
        minute: (seconds / 60 % 60) as u8,
        second: (seconds % 60) as u8,
        micro: (micros % SECOND) as u32,
    })
}

fn seconds_of(unit: Unit) -> i128 {
    match unit {
        Unit::Second => 1,
        Unit::Minute => 60,
        Unit::Hour => 3600,
        Unit::Day => 86_400,
        Unit::Week => 7 * 86_400,
        _ => 0,
    }
}

fn months_of(unit: Unit) -> i128 {
    match unit {
        Unit::Month => 1,
        Unit::Quarter => 3,
        Unit::Year => 12,
        _ => 0,
    }
}

/// `x + interval n unit`; `back`: minus.
pub(crate) fn shifted(
    binder: &mut Binder<'_>,
    x: BoundExpr,
    count: BoundExpr,
    unit: Unit,
    back: bool,
    span: &Span,
) -> Option<BoundExpr> {
    binder.ensure_number(&count, "interval")?;
    let class = x.ty().class();
    let is_time = class == Class::Time && unit.is_of_clock();
    if !(class.is_day() || class == Class::Null || is_time) {
        let headline = if class == Class::Time {
            format!("a TIME has no {}s", unit.name())
        } else {
            format!("an interval is added to a date or time, and {} is none", describe(&x))
        };
        let diagnostic = binder.mismatch(&x.span().clone(), headline);
        return binder.refuse(match class {
            Class::Time => {
                diagnostic.help("the server takes today for its day, which is another one tomorrow")
            }
            Class::Text => {
                diagnostic.help("write `date '2026-01-31'`, `cast(.. as date)` or `cast(.. as datetime)`")
            }
            _ => diagnostic,
        });
    }
    let fraction = match (unit, count.ty().class()) {
        (Unit::Microsecond, _) => 6,
        (Unit::Second, Class::Decimal) => count.ty().digits().1.min(6) as u8,
        (Unit::Second, c) if c.is_approximate() => 6,
        _ => 0,
    };
    let fsp = x.ty().fsp().max(fraction);
    let ty = match class {
        Class::Date if !unit.is_of_clock() => ColumnType::Date,
        Class::Time => ColumnType::Time { fsp },
        _ => ColumnType::DateTime { fsp },
    };
    binder.evaluated_with(
        vec![x, count],
        ExprType::new(ty, true),
        span,
        Ready::Unit(unit, back),
        |call, env| {
            let Ready::Unit(unit, back) = call.ready else { return Ok(Value::Null) };
            let Some(x) = call.value(env, 0)? else { return Ok(Value::Null) };
            // a date that no calendar has is NULL whatever is added
            if call.args[0].ty().class().is_day() && !call.datetime(env, 0)?.is_some_and(|v| v.date.is_real())
            {
                return Ok(Value::Null);
            }
            let Some(amount) = amount(call, env, 1, unit)? else { return Ok(Value::Null) };
            let amount = if back { amount.saturating_neg() } else { amount };
            if let Value::Time(v) = x {
                // the interval has to be a TIME, too
                let fits = amount.abs() <= i128::from(MAX_TIME_MICROS);
                return Ok(if fits { time_value(i128::from(v.micros) + amount) } else { Value::Null });
            }
            let Some(v) = call.datetime(env, 0)? else { return Ok(Value::Null) };
            let moved = if months_of(unit) == 0 {
                instant(v).and_then(|t| t.checked_add(amount)).and_then(datetime_at)
            } else {
                later_by_months(v, amount)
            };
            Ok(match (moved, &call.ty.ty) {
                (None, _) => Value::Null,
                (Some(v), Some(ColumnType::Date)) => Value::Date(v.date),
                (Some(v), _) => Value::DateTime(v),
            })
        },
    )
}

/// The interval in microseconds, or in months. Parts of a unit are rounded away, but for those of a second.
fn amount<'a>(call: &'a Call, env: &Env<'a, '_>, index: usize, unit: Unit) -> Result<Option<i128>, Fault> {
    let Some(number) = call.number(env, index)? else { return Ok(None) };
    let number = match number {
        // the server takes the bits of a BIGINT UNSIGNED for a BIGINT
        Number::Int(n) => Number::Int(i128::from(n as u64 as i64)),
        other => other,
    };
    let out_of_range = || Failure::out_of_range("BIGINT");
    let exact = match (unit, &number) {
        (Unit::Second, Number::Decimal(_) | Number::Double(_)) => {
            Some(number.to_decimal().ok_or_else(out_of_range)?)
        }
        _ => None,
    };
    let n = number.to_whole().filter(|n| i64::try_from(*n).is_ok()).ok_or_else(out_of_range)?;
    Ok(Some(match (exact, months_of(unit)) {
        (Some(exact), _) => micros_of(&exact, Rounding::Truncate),
        (None, 0) if unit == Unit::Microsecond => n,
        (None, 0) => n * seconds_of(unit) * SECOND,
        (None, months) => n * months,
    }))
}

/// Cut to nine digits after the dot, as the server does before it looks at the sign.
fn nanoseconds(seconds: &Decimal) -> Decimal {
    if seconds.scale() > 9 { seconds.round(9, Rounding::Truncate) } else { seconds.clone() }
}

/// Seconds as microseconds.
fn micros_of(seconds: &Decimal, rounding: Rounding) -> i128 {
    let million = Decimal::from_int(SECOND);
    seconds.round(6, rounding).multiply(&million).to_i128(rounding).unwrap_or(i128::MAX >> 40)
}

fn later_by_months(v: DateTime, months: i128) -> Option<DateTime> {
    if !v.date.is_real() {
        return None;
    }
    let count = i128::from(v.date.year) * 12 + i128::from(v.date.month) - 1 + months;
    if !(0..120_000).contains(&count) {
        return None;
    }
    let (year, month) = ((count / 12) as u16, (count % 12 + 1) as u8);
    let day = v.date.day.min(month_days(year, month));
    Some(DateTime { date: Date { year, month, day }, ..v })
}

/// A TIME, or NULL where there is none of so many microseconds.
fn time_value<'a>(micros: i128) -> Value<'a> {
    match i64::try_from(micros) {
        Ok(micros) if micros.abs() <= MAX_TIME_MICROS => Value::Time(Time { micros }),
        _ => Value::Null,
    }
}

/// `date_add(x, interval n unit)`, and `adddate(x, days)`.
fn added(binder: &mut Binder<'_>, args: Args, back: bool) -> Option<BoundExpr> {
    let by_days = matches!(args.name.as_str(), "adddate" | "subdate");
    let unit = match args.unit {
        Some(unit) => unit,
        None if by_days => Unit::Day,
        None => {
            let headline = format!("\"{}\" takes an interval", args.name);
            let diagnostic = binder.mismatch(&args.span, headline);
            return binder.refuse(diagnostic.help(format!("write `{}(x, interval 1 day)`", args.name)));
        }
    };
    let [x, count]: [BoundExpr; 2] = args.args.try_into().ok()?;
    shifted(binder, x, count, unit, back, &args.span)
}

fn two_days(binder: &mut Binder<'_>, args: Vec<BoundExpr>, name: &str) -> Option<Vec<BoundExpr>> {
    let bound: Vec<_> = args.into_iter().map(|a| binder.day_of(a, name)).collect();
    bound.into_iter().collect()
}

fn bind_datediff(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let bound = two_days(binder, args.args, &args.name)?;
    binder.evaluated(bound, ExprType::bigint(false, true), &args.span, |call, env| {
        let (Some(a), Some(b)) = (call.datetime(env, 0)?, call.datetime(env, 1)?) else {
            return Ok(Value::Null);
        };
        Ok(match (day_number(a.date), day_number(b.date)) {
            (Some(a), Some(b)) => Value::Int(a - b),
            _ => Value::Null,
        })
    })
}

fn bind_timestampdiff(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let unit = args.unit?;
    let bound = two_days(binder, args.args, &args.name)?;
    let ready = Ready::Unit(unit, false);
    binder.evaluated_with(bound, ExprType::bigint(false, true), &args.span, ready, |call, env| {
        let Ready::Unit(unit, _) = call.ready else { return Ok(Value::Null) };
        let (Some(a), Some(b)) = (call.datetime(env, 0)?, call.datetime(env, 1)?) else {
            return Ok(Value::Null);
        };
        let (Some(x), Some(y)) = (instant(a), instant(b)) else { return Ok(Value::Null) };
        let between = match unit {
            Unit::Microsecond => y - x,
            _ if months_of(unit) > 0 => {
                let (from, to, sign) = if x <= y { (a, b, 1) } else { (b, a, -1) };
                months_between(from, to) / months_of(unit) * sign
            }
            _ => (y - x) / SECOND / seconds_of(unit),
        };
        Ok(i64::try_from(between).map_or(Value::Null, Value::Int))
    })
}

/// Whole months from one moment to one that is not before it.
fn months_between(from: DateTime, to: DateTime) -> i128 {
    let count = |d: Date| i128::from(d.year) * 12 + i128::from(d.month);
    let rest = |v: DateTime| (v.date.day, v.hour, v.minute, v.second, v.micro);
    count(to.date) - count(from.date) - i128::from(rest(to) < rest(from))
}

fn named(binder: &mut Binder<'_>, args: Args, f: fn(Date) -> Option<&'static str>) -> Option<BoundExpr> {
    let arg = binder.day_of(args.args.into_iter().next()?, &args.name)?;
    let ty = ExprType::text(9, Charset::utf8mb4(), Coercibility::Literal, true);
    binder.evaluated_with(vec![arg], ty, &args.span, Ready::NameOfDay(f), |call, env| {
        let Ready::NameOfDay(f) = &call.ready else { return Ok(Value::Null) };
        let name = call.datetime(env, 0)?.and_then(|v| f(v.date));
        Ok(name.map_or(Value::Null, |n| Value::Text(n.into())))
    })
}

fn bind_makedate(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    for arg in &args.args {
        binder.ensure_number(arg, &args.name)?;
    }
    binder.evaluated(args.args, ExprType::new(ColumnType::Date, true), &args.span, |call, env| {
        let (Some(year), Some(day)) = (call.whole(env, 0)?, call.whole(env, 1)?) else {
            return Ok(Value::Null);
        };
        let year = match year {
            0..=69 => year + 2000,
            70..=99 => year + 1900,
            _ => year,
        };
        let Some(year) = u16::try_from(year).ok().filter(|y| *y <= 9999) else { return Ok(Value::Null) };
        let first = day_number(Date { year, month: 1, day: 1 }).unwrap_or(0);
        let date = if day > 0 { day.checked_add(first - 1).and_then(day_of_number) } else { None };
        Ok(date.map_or(Value::Null, Value::Date))
    })
}

/// Digits of fraction of a TIME or DATETIME that is made from a number of seconds.
pub(super) fn fraction_of(number: &BoundExpr) -> u8 {
    match number.ty().class() {
        Class::Decimal => number.ty().digits().1.min(6) as u8,
        class if class.is_approximate() => 6,
        _ => 0,
    }
}

fn bind_from_unixtime(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let seconds = args.args.into_iter().next()?;
    binder.ensure_number(&seconds, &args.name)?;
    let ty = ExprType::new(ColumnType::DateTime { fsp: fraction_of(&seconds) }, true);
    binder.evaluated(vec![seconds], ty, &args.span, |call, env| {
        let Some(number) = call.number(env, 0)? else { return Ok(Value::Null) };
        let Some(exact) = number.to_decimal() else { return Ok(Value::Null) };
        let exact = nanoseconds(&exact);
        let micros = micros_of(&exact, Rounding::HalfAway);
        let last = i128::from(LAST_UNIX_SECOND) * SECOND + SECOND - 1;
        let micros =
            Some(micros).filter(|m| !exact.is_negative() && *m <= last).and_then(|m| i64::try_from(m).ok());
        Ok(micros.and_then(DateTime::from_micros_since_epoch).map_or(Value::Null, Value::DateTime))
    })
}

/// `+hh:mm`, from -13:59 to +14:00 (manual 7.1.15), in microseconds.
fn offset_of(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("utc") {
        return None;
    }
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |s: &str| {
        s.parse::<i64>().ok().filter(|_| matches!(s.len(), 1 | 2) && s.bytes().all(|b| b.is_ascii_digit()))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let total = sign * (hours * 60 + minutes);
    (minutes < 60 && (-839..=840).contains(&total)).then_some(total * 60_000_000)
}

fn bind_convert_tz(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [x, from, to]: [BoundExpr; 3] = args.args.try_into().ok()?;
    let x = binder.day_of(x, &args.name);
    let mut offset = |zone: &BoundExpr| match zone.const_text().and_then(offset_of) {
        Some(offset) => Some(offset),
        None => {
            let diagnostic = binder.mismatch(&zone.span().clone(), "a time zone is a constant offset here");
            binder.refuse(diagnostic.help(
                "write it as '+02:00', from '-13:59' to '+14:00': what a named zone means is in the server's tables",
            ))
        }
    };
    let (from, to) = (offset(&from), offset(&to));
    let (x, from, to) = (x?, from?, to?);
    let ty = ExprType::new(ColumnType::DateTime { fsp: x.ty().fsp() }, true);
    binder.evaluated_with(vec![x], ty, &args.span, Ready::Zones(from, to), |call, env| {
        let Ready::Zones(from, to) = call.ready else { return Ok(Value::Null) };
        let Some(v) = call.datetime(env, 0)? else { return Ok(Value::Null) };
        let Some(micros) = v.micros_since_epoch() else { return Ok(Value::Null) };
        let utc = micros - from;
        // outside of UNIX times the server leaves it as it is
        if !(1..=LAST_UNIX_SECOND).contains(&utc.div_euclid(1_000_000)) {
            return Ok(Value::DateTime(v));
        }
        Ok(DateTime::from_micros_since_epoch(utc + to).map_or(Value::Null, Value::DateTime))
    })
}

/// A TIME, or a day, or a literal that is one of them. A literal that is a day alone is refused: the server takes
/// it for a time of day, and reads 20 minutes and 26 seconds in '2026-01-31'.
pub(super) fn clock_of(binder: &mut Binder<'_>, arg: BoundExpr, name: &str) -> Option<BoundExpr> {
    if arg.ty().class() == Class::Time {
        return Some(arg);
    }
    match arg.const_text() {
        Some(_) => binder.clock_literal(arg),
        None => binder.day_of(arg, name),
    }
}

/// Its microseconds: of the TIME, or of the time of day.
fn clock<'a>(call: &'a Call, env: &Env<'a, '_>, index: usize) -> Result<Option<i64>, Fault> {
    Ok(match call.value(env, index)? {
        None => None,
        Some(Value::Time(v)) => Some(v.micros),
        Some(_) => call.datetime(env, index)?.map(|v| {
            let seconds = i64::from(v.hour) * 3600 + i64::from(v.minute) * 60 + i64::from(v.second);
            seconds * 1_000_000 + i64::from(v.micro)
        }),
    })
}

fn bind_time(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = clock_of(binder, args.args.into_iter().next()?, &args.name)?;
    let ty = ExprType::new(ColumnType::Time { fsp: arg.ty().fsp() }, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(clock(call, env, 0)?.map_or(Value::Null, |micros| Value::Time(Time { micros })))
    })
}

fn bind_timestamp(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let day = binder.day_of(rest.next()?, &args.name)?;
    let time = rest.next();
    if let Some(time) = &time {
        ensure_time(binder, time, &args.name)?;
    }
    let fsp = day.ty().fsp().max(time.as_ref().map_or(0, |t| t.ty().fsp()));
    let nullable = time.is_some() || day.ty().nullable;
    let ty = ExprType::new(ColumnType::DateTime { fsp }, nullable);
    let bound = std::iter::once(day).chain(time).collect();
    binder.evaluated(bound, ty, &args.span, |call, env| {
        let Some(v) = call.datetime(env, 0)? else { return Ok(Value::Null) };
        if call.args.len() == 1 {
            return Ok(Value::DateTime(v));
        }
        let Some(time) = clock(call, env, 1)? else { return Ok(Value::Null) };
        let sum = instant(v).and_then(|t| datetime_at(t + i128::from(time)));
        Ok(sum.map_or(Value::Null, Value::DateTime))
    })
}

fn ensure_time(binder: &mut Binder<'_>, operand: &BoundExpr, name: &str) -> Option<()> {
    if matches!(operand.ty().class(), Class::Time | Class::Null) {
        return Some(());
    }
    let headline = format!("\"{name}\" takes a TIME, and {} is none", describe(operand));
    let diagnostic = binder.mismatch(&operand.span().clone(), headline);
    binder.refuse(diagnostic.help("write `time '10:00:00'` or `cast(.. as time)`"))
}

fn bind_timediff(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [a, b]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let kind = |e: &BoundExpr| match e.ty().class() {
        Class::Time => Some(true),
        class if class.is_day() => Some(false),
        _ => None,
    };
    if kind(&a).is_none() || kind(&a) != kind(&b) {
        let headline =
            format!("\"timediff\" takes two TIMEs or two dates, not {} and {}", describe(&a), describe(&b));
        let diagnostic = binder.mismatch(&args.span, headline);
        return binder
            .refuse(diagnostic.help("write `cast(.. as time)` or `cast(.. as datetime)` around them"));
    }
    let ty = ExprType::new(ColumnType::Time { fsp: a.ty().fsp().max(b.ty().fsp()) }, true);
    binder.evaluated(vec![a, b], ty, &args.span, |call, env| {
        let (Some(x), Some(y)) = (call.value(env, 0)?, call.value(env, 1)?) else { return Ok(Value::Null) };
        let (x, y) = match (x, y) {
            (Value::Time(x), Value::Time(y)) => (Some(i128::from(x.micros)), Some(i128::from(y.micros))),
            _ => (call.datetime(env, 0)?.map(raw_instant), call.datetime(env, 1)?.map(raw_instant)),
        };
        let (Some(x), Some(y)) = (x, y) else { return Ok(Value::Null) };
        within_time(x - y)
    })
}

/// A TIME; one beyond the range is an error, where the server clamps it with a warning.
fn within_time<'a>(micros: i128) -> Result<Value<'a>, Fault> {
    match time_value(micros) {
        Value::Null => Err(Failure::out_of_range("TIME").into()),
        time => Ok(time),
    }
}

fn with_time(binder: &mut Binder<'_>, args: Args, back: bool) -> Option<BoundExpr> {
    let [x, time]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let class = x.ty().class();
    let is_moment = matches!(class, Class::Time | Class::DateTime | Class::Timestamp | Class::Null);
    if !is_moment {
        let headline = format!("\"{}\" takes a DATETIME or a TIME, and {} is none", args.name, describe(&x));
        let diagnostic = binder.mismatch(&x.span().clone(), headline);
        return binder.refuse(diagnostic.help("write `cast(.. as datetime)` or `cast(.. as time)`"));
    }
    ensure_time(binder, &time, &args.name)?;
    let fsp = x.ty().fsp().max(time.ty().fsp());
    let ty = if class == Class::Time { ColumnType::Time { fsp } } else { ColumnType::DateTime { fsp } };
    let ready = Ready::Unit(Unit::Microsecond, back);
    binder.evaluated_with(vec![x, time], ExprType::new(ty, true), &args.span, ready, |call, env| {
        let Ready::Unit(_, back) = call.ready else { return Ok(Value::Null) };
        let (Some(x), Some(time)) = (call.value(env, 0)?, clock(call, env, 1)?) else {
            return Ok(Value::Null);
        };
        let time = i128::from(time) * if back { -1 } else { 1 };
        if let Value::Time(v) = x {
            return Ok(time_value(i128::from(v.micros) + time));
        }
        let sum = call.datetime(env, 0)?.and_then(instant).and_then(|t| datetime_at(t + time));
        Ok(sum.map_or(Value::Null, Value::DateTime))
    })
}

fn bind_sec_to_time(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let seconds = args.args.into_iter().next()?;
    binder.ensure_number(&seconds, &args.name)?;
    let ty = ExprType::new(ColumnType::Time { fsp: fraction_of(&seconds) }, seconds.ty().nullable);
    binder.evaluated(vec![seconds], ty, &args.span, |call, env| {
        let Some(number) = call.number(env, 0)? else { return Ok(Value::Null) };
        let micros = match number.to_decimal() {
            Some(exact) => micros_of(&exact, Rounding::HalfAway),
            None => i128::MAX >> 40,
        };
        within_time(micros)
    })
}

fn bind_maketime(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    for arg in &args.args {
        binder.ensure_number(arg, &args.name)?;
    }
    let ty = ExprType::new(ColumnType::Time { fsp: fraction_of(&args.args[2]) }, true);
    binder.evaluated(args.args, ty, &args.span, |call, env| {
        let (Some(hour), Some(minute), Some(second)) =
            (call.whole(env, 0)?, call.whole(env, 1)?, call.number(env, 2)?)
        else {
            return Ok(Value::Null);
        };
        let Some(second) = second.to_decimal() else { return Ok(Value::Null) };
        let second = nanoseconds(&second);
        let micros = micros_of(&second, Rounding::HalfAway);
        if !(0..60).contains(&minute) || second.is_negative() || micros >= 60 * SECOND {
            return Ok(Value::Null);
        }
        // the server has no fraction in the last hour, and clamps a TIME that has one
        if hour.unsigned_abs() >= 838 && micros % SECOND > 0 {
            return Err(Failure::out_of_range("TIME").into());
        }
        let size =
            i128::from(hour.unsigned_abs()) * 3600 * SECOND + i128::from(minute) * 60 * SECOND + micros;
        within_time(if hour < 0 { -size } else { size })
    })
}

fn bind_extract(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let unit = args.unit?;
    let arg = args.args.into_iter().next()?;
    let arg = if unit.is_of_clock() {
        clock_of(binder, arg, &args.name)?
    } else {
        binder.day_of(arg, &args.name)?
    };
    let nullable = arg.ty().nullable;
    let ready = Ready::Unit(unit, false);
    binder.evaluated_with(vec![arg], ExprType::bigint(false, nullable), &args.span, ready, |call, env| {
        let Ready::Unit(unit, _) = call.ready else { return Ok(Value::Null) };
        if unit.is_of_clock() {
            let Some(micros) = clock(call, env, 0)? else { return Ok(Value::Null) };
            return Ok(Value::Int(match unit {
                Unit::Hour => micros / 3_600_000_000,
                Unit::Minute => micros / 60_000_000 % 60,
                Unit::Second => micros / 1_000_000 % 60,
                _ => micros % 1_000_000,
            }));
        }
        let Some(date) = call.datetime(env, 0)?.map(|v| v.date) else { return Ok(Value::Null) };
        Ok(match unit {
            Unit::Day => Value::Int(date.day.into()),
            // counted on, also from a date that no calendar has
            Unit::Week => Value::Int(i64::from(raw_week(date, 0).1)),
            Unit::Month => Value::Int(date.month.into()),
            Unit::Quarter => Value::Int(date.month.div_ceil(3).into()),
            _ => Value::Int(date.year.into()),
        })
    })
}

fn period_of_months(months: i64) -> i64 {
    months / 12 * 100 + months % 12 + 1
}

/// Months since year 0; two digits of a year are 1970 to 2069. `None` where it is no period.
fn months_of_period(period: i64) -> Option<i64> {
    let (year, month) = (period / 100, period % 100);
    let year = match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    (period > 0 && (1..=12).contains(&month)).then(|| year * 12 + month - 1)
}

/// `both`: both arguments are periods.
fn periods(
    binder: &mut Binder<'_>,
    args: Args,
    f: fn(i64, i64) -> Option<i64>,
    both: bool,
) -> Option<BoundExpr> {
    for arg in &args.args {
        binder.ensure_number(arg, &args.name)?;
    }
    let nullable = args.args.iter().any(|a| a.ty().nullable);
    let ready = Ready::Periods(f, both);
    binder.evaluated_with(args.args, ExprType::bigint(false, nullable), &args.span, ready, |call, env| {
        let Ready::Periods(f, both) = call.ready else { return Ok(Value::Null) };
        let (Some(a), Some(b)) = (call.whole(env, 0)?, call.whole(env, 1)?) else { return Ok(Value::Null) };
        let no_period = || Failure::new(codes::OUT_OF_RANGE, "the number is no month such as 202601");
        let a = months_of_period(a).ok_or_else(no_period)?;
        let b = if both { months_of_period(b).ok_or_else(no_period)? } else { b };
        let result = f(a, b).ok_or_else(|| Failure::out_of_range("BIGINT"))?;
        Ok(Value::Int(result))
    })
}
