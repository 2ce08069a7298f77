//! Functions of dates and times (MySQL manual 14.7), in UTC.

use super::Function;
use crate::expr::eval::{Args, Binder, BoundExpr, Call, Decimal, Env, Evaluator, ExprType, Fault, Number};
use crate::schema::{ColumnType, IntWidth};
use crate::value::{DateTime, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "date",
        aliases: &[],
        signature: "date(x)",
        help: "the day of a date with a time",
        examples: &[("date(timestamp '2026-01-31 10:11:12')", "date '2026-01-31'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_date,
    },
    Function {
        name: "year",
        aliases: &[],
        signature: "year(x)",
        help: "the year, 0 to 9999",
        examples: &[("year(date '2026-01-31')", "2026")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            part_of_day(binder, args, |call, env| day_part(call, env, |v| v.date.year.into()))
        },
    },
    Function {
        name: "quarter",
        aliases: &[],
        signature: "quarter(x)",
        help: "the quarter of the year, 1 to 4; 0 for month 0",
        examples: &[("quarter(date '2026-05-31')", "2")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            part_of_day(binder, args, |call, env| {
                day_part(call, env, |v| i64::from(v.date.month.div_ceil(3)))
            })
        },
    },
    Function {
        name: "month",
        aliases: &[],
        signature: "month(x)",
        help: "the month, 0 to 12",
        examples: &[("month(date '2026-01-31')", "1")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            part_of_day(binder, args, |call, env| day_part(call, env, |v| v.date.month.into()))
        },
    },
    Function {
        name: "day",
        aliases: &["dayofmonth"],
        signature: "day(x)",
        help: "the day of the month, 0 to 31",
        examples: &[("day(date '2026-01-31')", "31")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            part_of_day(binder, args, |call, env| day_part(call, env, |v| v.date.day.into()))
        },
    },
    Function {
        name: "hour",
        aliases: &[],
        signature: "hour(x)",
        help: "the hour of a date with a time, or the hours of a TIME, which may be more than 23",
        examples: &[("hour(time '-100:11:12')", "100")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| part_of_clock(binder, args, |call, env| clock_part(call, env, |s| s / 3600)),
    },
    Function {
        name: "minute",
        aliases: &[],
        signature: "minute(x)",
        help: "the minute, 0 to 59",
        examples: &[("minute(timestamp '2026-01-31 10:11:12')", "11")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| part_of_clock(binder, args, |call, env| clock_part(call, env, |s| s / 60 % 60)),
    },
    Function {
        name: "second",
        aliases: &[],
        signature: "second(x)",
        help: "the second, 0 to 59",
        examples: &[("second(time '10:11:12')", "12")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| part_of_clock(binder, args, |call, env| clock_part(call, env, |s| s % 60)),
    },
    Function {
        name: "unix_timestamp",
        aliases: &[],
        signature: "unix_timestamp(x)",
        help: "the seconds since 1970-01-01 00:00:00 UTC; 0 before that, for zero dates, and after 3001-01-18",
        examples: &[("unix_timestamp(timestamp '2026-01-31 10:11:12')", "1769854272")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_unix_timestamp,
    },
];

/// 3001-01-18 23:59:59.999999 UTC, the last instant of UNIX_TIMESTAMP (manual 14.7).
const LAST_UNIX_MICROS: i64 = 32_536_771_199_999_999;

fn bind_date(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = binder.day_of(args.args.into_iter().next()?, &args.name)?;
    let ty = ExprType::new(ColumnType::Date, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(call.datetime(env, 0)?.map_or(Value::Null, |v| Value::Date(v.date)))
    })
}

fn int(nullable: bool) -> ExprType {
    // the server types YEAR() as YEAR, which cannot hold all years that YEAR() gives
    ExprType::int(IntWidth::Int, false, nullable)
}

fn part_of_day(binder: &mut Binder<'_>, args: Args, eval: Evaluator) -> Option<BoundExpr> {
    let arg = binder.day_of(args.args.into_iter().next()?, &args.name)?;
    let ty = int(arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, eval)
}

fn day_part<'a>(call: &'a Call, env: &Env<'a, '_>, part: fn(DateTime) -> i64) -> Result<Value<'a>, Fault> {
    Ok(call.datetime(env, 0)?.map_or(Value::Null, |v| Value::Int(part(v))))
}

fn part_of_clock(binder: &mut Binder<'_>, args: Args, eval: Evaluator) -> Option<BoundExpr> {
    let arg = args.args.into_iter().next()?;
    let arg = super::calendar::clock_of(binder, arg, &args.name)?;
    let ty = int(arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, eval)
}

/// A part of the whole seconds of the day, or of the TIME without its sign.
fn clock_part<'a>(call: &'a Call, env: &Env<'a, '_>, part: fn(i64) -> i64) -> Result<Value<'a>, Fault> {
    let seconds = match call.value(env, 0)? {
        None => return Ok(Value::Null),
        Some(Value::Time(v)) => v.micros.saturating_abs() / 1_000_000,
        Some(_) => {
            let v = call.datetime(env, 0)?.unwrap_or_default();
            i64::from(v.hour) * 3600 + i64::from(v.minute) * 60 + i64::from(v.second)
        }
    };
    Ok(Value::Int(part(seconds)))
}

fn bind_unix_timestamp(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = binder.day_of(args.args.into_iter().next()?, &args.name)?;
    let (fsp, nullable) = (arg.ty().fsp(), arg.ty().nullable);
    let ty = if fsp == 0 {
        ExprType::bigint(false, nullable)
    } else {
        ExprType::decimal(11, u32::from(fsp), nullable)
    };
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        let Some(v) = call.datetime(env, 0)? else { return Ok(Value::Null) };
        let micros =
            v.micros_since_epoch().filter(|m| (1_000_000..=LAST_UNIX_MICROS).contains(m)).unwrap_or(0);
        let exact = Decimal::parse(&format!("{micros}e-6")).unwrap_or_else(|| Decimal::from_int(0));
        // a fraction beyond the type's digits cannot be: the value has its type's
        call.store(Number::Decimal(exact))
    })
}
