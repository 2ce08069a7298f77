//! Functions that compute in doubles (MySQL manual 14.6.2).
//!
//! The server calls the C library of its machine, and so does this program here: roots are exact to the last
//! bit everywhere, of the others the last bit may be another where the libraries differ. A result that is no
//! number, such as that of `power(-8, 1/3)`, is out of range, as it is at the server.

use super::Function;
use crate::expr::eval::{Args, Binder, BoundExpr, Call, Env, Evaluator, ExprType, Failure, Fault};
use crate::value::Value;

const fn of_one(
    name: &'static str,
    signature: &'static str,
    help: &'static str,
    examples: &'static [(&'static str, &'static str)],
    bind: fn(&mut Binder<'_>, Args) -> Option<BoundExpr>,
) -> Function {
    Function { name, aliases: &[], signature, help, examples, refused: None, arity: (1, Some(1)), bind }
}

pub(super) const FUNCTIONS: &[Function] = &[
    of_one(
        "sqrt",
        "sqrt(x)",
        "the square root; NULL of a negative number",
        &[("sqrt(2.25)", "1.5e0"), ("sqrt(-1)", "NULL")],
        |b, a| doubles(b, a, true, |call, env| one(call, env, |x| (x >= 0.0).then(|| x.sqrt()))),
    ),
    of_one("exp", "exp(x)", "e to the power of x", &[("exp(0)", "1e0")], |b, a| {
        doubles(b, a, false, |call, env| one(call, env, |x| Some(x.exp())))
    }),
    of_one(
        "ln",
        "ln(x)",
        "the natural logarithm; NULL unless x is greater than 0",
        &[("ln(1)", "0e0"), ("ln(0)", "NULL")],
        |b, a| doubles(b, a, true, |call, env| one(call, env, |x| (x > 0.0).then(|| x.ln()))),
    ),
    Function {
        name: "log",
        aliases: &[],
        signature: "log([base, ]x)",
        help: "the natural logarithm, or that to a base; NULL where there is none",
        examples: &[("log(2, 65536)", "16e0"), ("log(1, 5)", "NULL")],
        refused: None,
        arity: (1, Some(2)),
        bind: |b, a| {
            doubles(b, a, true, |call, env| {
                if call.args.len() == 1 {
                    return one(call, env, |x| (x > 0.0).then(|| x.ln()));
                }
                two(call, env, |base, x| (base > 0.0 && x > 0.0 && base != 1.0).then(|| x.ln() / base.ln()))
            })
        },
    },
    of_one(
        "log2",
        "log2(x)",
        "the logarithm to base 2; NULL unless x is greater than 0",
        &[("log2(8)", "3e0")],
        |b, a| doubles(b, a, true, |call, env| one(call, env, |x| (x > 0.0).then(|| x.log2()))),
    ),
    of_one(
        "log10",
        "log10(x)",
        "the logarithm to base 10; NULL unless x is greater than 0",
        &[("log10(100)", "2e0")],
        |b, a| doubles(b, a, true, |call, env| one(call, env, |x| (x > 0.0).then(|| x.log10()))),
    ),
    Function {
        name: "power",
        aliases: &["pow"],
        signature: "power(x, y)",
        help: "x to the power of y, a DOUBLE",
        examples: &[("power(2, 10)", "1024e0"), ("power(2, -1)", "0.5e0")],
        refused: None,
        arity: (2, Some(2)),
        bind: |b, a| doubles(b, a, false, |call, env| two(call, env, |x, y| Some(x.powf(y)))),
    },
    of_one(
        "radians",
        "radians(x)",
        "degrees as radians",
        &[("radians(90)", "1.5707963267948966e0")],
        |b, a| doubles(b, a, false, |call, env| one(call, env, |x| Some(x * (std::f64::consts::PI / 180.0)))),
    ),
    of_one("degrees", "degrees(x)", "radians as degrees", &[("degrees(pi())", "180e0")], |b, a| {
        doubles(b, a, false, |call, env| one(call, env, |x| Some(x * (180.0 / std::f64::consts::PI))))
    }),
    of_one("sin", "sin(x)", "the sine of radians", &[("sin(0)", "0e0")], |b, a| {
        doubles(b, a, false, |call, env| one(call, env, |x| Some(x.sin())))
    }),
    of_one("cos", "cos(x)", "the cosine of radians", &[("cos(0)", "1e0")], |b, a| {
        doubles(b, a, false, |call, env| one(call, env, |x| Some(x.cos())))
    }),
    of_one("tan", "tan(x)", "the tangent of radians", &[("tan(0)", "0e0")], |b, a| {
        doubles(b, a, false, |call, env| one(call, env, |x| Some(x.tan())))
    }),
    of_one(
        "asin",
        "asin(x)",
        "the radians of a sine; NULL beyond -1 to 1",
        &[("asin(0)", "0e0"), ("asin(2)", "NULL")],
        |b, a| {
            doubles(b, a, true, |call, env| one(call, env, |x| (-1.0..=1.0).contains(&x).then(|| x.asin())))
        },
    ),
    of_one(
        "acos",
        "acos(x)",
        "the radians of a cosine; NULL beyond -1 to 1",
        &[("acos(1)", "0e0")],
        |b, a| {
            doubles(b, a, true, |call, env| one(call, env, |x| (-1.0..=1.0).contains(&x).then(|| x.acos())))
        },
    ),
    Function {
        name: "atan",
        aliases: &["atan2"],
        signature: "atan(y[, x])",
        help: "the radians of a tangent, or of the point (x, y)",
        examples: &[("atan(0)", "0e0"), ("atan2(1, 0)", "1.5707963267948966e0")],
        refused: None,
        arity: (1, Some(2)),
        bind: |b, a| {
            doubles(b, a, false, |call, env| {
                if call.args.len() == 1 {
                    return one(call, env, |x| Some(x.atan()));
                }
                two(call, env, |y, x| Some(y.atan2(x)))
            })
        },
    },
    Function {
        name: "pi",
        aliases: &[],
        signature: "pi()",
        help: "3.141592653589793, a DOUBLE",
        examples: &[("pi()", "3.141592653589793e0")],
        refused: None,
        arity: (0, Some(0)),
        bind: |b, a| {
            b.evaluated(a.args, ExprType::double(false), &a.span, |_, _| {
                Ok(Value::Double(std::f64::consts::PI))
            })
        },
    },
];

/// Numbers to a double. `partial`: some numbers have no result.
fn doubles(binder: &mut Binder<'_>, args: Args, partial: bool, eval: Evaluator) -> Option<BoundExpr> {
    for arg in &args.args {
        binder.ensure_number(arg, &args.name)?;
    }
    let nullable = partial || args.args.iter().any(|a| a.ty().nullable);
    binder.evaluated(args.args, ExprType::double(nullable), &args.span, eval)
}

fn finite<'a>(result: Option<f64>) -> Result<Value<'a>, Fault> {
    match result {
        None => Ok(Value::Null),
        Some(v) if v.is_finite() => Ok(Value::Double(v)),
        Some(_) => Err(Failure::out_of_range("DOUBLE").into()),
    }
}

fn one<'a>(call: &'a Call, env: &Env<'a, '_>, f: fn(f64) -> Option<f64>) -> Result<Value<'a>, Fault> {
    match call.double(env, 0)? {
        None => Ok(Value::Null),
        Some(x) => finite(f(x)),
    }
}

fn two<'a>(call: &'a Call, env: &Env<'a, '_>, f: fn(f64, f64) -> Option<f64>) -> Result<Value<'a>, Fault> {
    match (call.double(env, 0)?, call.double(env, 1)?) {
        (Some(x), Some(y)) => finite(f(x, y)),
        _ => Ok(Value::Null),
    }
}
