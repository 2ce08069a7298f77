//! Functions of numbers (MySQL manual 14.6.2).

use super::Function;
use crate::expr::BinaryOp;
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Class, Decimal, Env, Evaluator, ExprType, Fault, Number, Rounding,
};
use crate::schema::IntWidth;
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "abs",
        aliases: &[],
        signature: "abs(x)",
        help: "the number without its sign",
        examples: &[("abs(-1.50)", "1.50")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_abs,
    },
    Function {
        name: "sign",
        aliases: &[],
        signature: "sign(x)",
        help: "-1, 0 or 1",
        examples: &[("sign(-3)", "-1")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_sign,
    },
    Function {
        name: "floor",
        aliases: &[],
        signature: "floor(x)",
        help: "the greatest whole number that is not greater",
        examples: &[("floor(-1.5)", "-2")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| whole_number(binder, args, |call, env| to_whole(call, env, Rounding::Floor)),
    },
    Function {
        name: "ceiling",
        aliases: &["ceil"],
        signature: "ceiling(x)",
        help: "the least whole number that is not less",
        examples: &[("ceiling(1.2)", "2")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| whole_number(binder, args, |call, env| to_whole(call, env, Rounding::Ceiling)),
    },
    Function {
        name: "round",
        aliases: &[],
        signature: "round(x[, digits])",
        help: "rounded to so many digits after the dot: exact numbers half away from zero, doubles half to even",
        examples: &[("round(1.005, 2)", "1.01"), ("round(1250, -2)", "1300"), ("round(2.5e0)", "2")],
        refused: None,
        arity: (1, Some(2)),
        bind: |binder, args| rounded(binder, args, 1, |call, env| round(call, env, Rounding::HalfAway)),
    },
    Function {
        name: "truncate",
        aliases: &[],
        signature: "truncate(x, digits)",
        help: "cut to so many digits after the dot",
        examples: &[("truncate(-1.999, 1)", "-1.9")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| rounded(binder, args, 0, |call, env| round(call, env, Rounding::Truncate)),
    },
    Function {
        name: "mod",
        aliases: &[],
        signature: "mod(x, y)",
        help: "the remainder of x / y, with the sign of x; NULL if y is zero",
        examples: &[("mod(-10.5, 3)", "-1.5"), ("mod(10, 0)", "NULL")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| {
            let [a, b]: [BoundExpr; 2] = args.args.try_into().ok()?;
            binder.arithmetic(BinaryOp::Modulo, a, b, &args.span)
        },
    },
];

/// The one argument, a number.
fn number(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = args.args.into_iter().next()?;
    binder.ensure_number(&arg, &args.name)?;
    Some(arg)
}

fn bind_abs(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let span = args.span.clone();
    let arg = number(binder, args)?;
    let ty = match arg.ty().class() {
        Class::Decimal => arg.ty().clone(),
        class if class.is_approximate() => ExprType::double(arg.ty().nullable),
        _ => ExprType::bigint(arg.ty().is_unsigned(), arg.ty().nullable),
    };
    binder.evaluated(vec![arg], ty, &span, |call, env| {
        Ok(match call.number(env, 0)? {
            None => Value::Null,
            Some(Number::Int(v)) => call.store(Number::Int(v.saturating_abs()))?,
            Some(Number::Decimal(v)) => call.store(Number::Decimal(v.abs()))?,
            Some(Number::Double(v)) => call.store(Number::Double(v.abs()))?,
        })
    })
}

fn bind_sign(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let span = args.span.clone();
    let arg = number(binder, args)?;
    let ty = ExprType::int(IntWidth::Int, false, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &span, |call, env| {
        let Some(number) = call.number(env, 0)? else { return Ok(Value::Null) };
        let negative = match &number {
            Number::Int(v) => *v < 0,
            Number::Decimal(v) => v.is_negative(),
            Number::Double(v) => *v < 0.0,
        };
        Ok(Value::Int(if !number.is_true() {
            0
        } else if negative {
            -1
        } else {
            1
        }))
    })
}

/// BIGINT where the digits before the dot surely fit, else DECIMAL, as the server types FLOOR and CEILING.
fn whole_number(binder: &mut Binder<'_>, args: Args, eval: Evaluator) -> Option<BoundExpr> {
    let span = args.span.clone();
    let arg = number(binder, args)?;
    let (ty, nullable) = (arg.ty(), arg.ty().nullable);
    let ty = match ty.class() {
        class if class.is_approximate() => ExprType::double(nullable),
        Class::Decimal if ty.digits().0 > 17 => ExprType::decimal(ty.digits().0 + 1, 0, nullable),
        Class::Decimal => ExprType::bigint(false, nullable),
        _ => ExprType::bigint(ty.is_unsigned(), nullable),
    };
    binder.evaluated(vec![arg], ty, &span, eval)
}

fn to_whole<'a>(call: &'a Call, env: &Env<'a, '_>, rounding: Rounding) -> Result<Value<'a>, Fault> {
    Ok(match call.number(env, 0)? {
        None => Value::Null,
        Some(Number::Decimal(v)) => call.store(Number::Decimal(v.round(0, rounding)))?,
        Some(Number::Double(v)) => {
            call.store(Number::Double(if rounding == Rounding::Floor { v.floor() } else { v.ceil() }))?
        }
        Some(whole) => call.store(whole)?,
    })
}

/// `carry`: how many more digits the result may have before the dot.
fn rounded(binder: &mut Binder<'_>, args: Args, carry: u32, eval: Evaluator) -> Option<BoundExpr> {
    for arg in &args.args {
        binder.ensure_number(arg, &args.name)?;
    }
    let ty = args.args[0].ty();
    let nullable = args.args.iter().any(|a| a.ty().nullable);
    let ty = match ty.class() {
        class if class.is_approximate() => ExprType::double(nullable),
        Class::Decimal => {
            let (whole, scale) = ty.digits();
            match args.args.get(1).map_or(Some(0), BoundExpr::const_whole) {
                // digits that are not there are not added
                Some(digits) if digits >= i64::from(scale) => ty.clone().with_nullable(nullable),
                Some(digits) => ExprType::decimal(whole + carry, digits.max(0) as u32, nullable),
                None => ExprType::decimal(whole + carry, scale, nullable),
            }
        }
        _ => ExprType::bigint(ty.is_unsigned(), nullable),
    };
    binder.evaluated(args.args, ty, &args.span, eval)
}

fn round<'a>(call: &'a Call, env: &Env<'a, '_>, rounding: Rounding) -> Result<Value<'a>, Fault> {
    let Some(number) = call.number(env, 0)? else { return Ok(Value::Null) };
    let digits = if call.args.len() == 2 {
        let Some(digits) = call.whole(env, 1)? else { return Ok(Value::Null) };
        digits.clamp(-400, 400) as i32
    } else {
        0
    };
    let exact = |v: Decimal| match digits {
        0.. => v.round((digits as u32).min(v.scale()), rounding),
        _ => v.round_whole(digits.unsigned_abs(), rounding),
    };
    Ok(match number {
        Number::Int(_) if digits >= 0 => call.store(number)?,
        Number::Int(v) => call.store(Number::Decimal(exact(Decimal::from_int(v))))?,
        Number::Decimal(v) => call.store(Number::Decimal(exact(v)))?,
        Number::Double(v) => call.store(Number::Double(round_double(v, digits, rounding)))?,
    })
}

/// As the server's `my_double_round`: scaled up, rounded half to even, scaled down.
pub(super) fn round_double(v: f64, digits: i32, rounding: Rounding) -> f64 {
    // parsed, since `powi` is off by a bit for large exponents
    let unit: f64 = format!("1e{}", digits.unsigned_abs()).parse().unwrap_or(f64::INFINITY);
    let scaled = if digits < 0 { v / unit } else { v * unit };
    if digits < 0 && unit.is_infinite() {
        return 0.0;
    }
    if !scaled.is_finite() {
        return v;
    }
    let whole = match rounding {
        Rounding::Truncate => scaled.trunc(),
        _ => scaled.round_ties_even(),
    };
    if digits < 0 { whole * unit } else { whole / unit }
}
