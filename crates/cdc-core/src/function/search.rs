//! Functions that look for a text in others (MySQL manual 14.8). Positions count characters from 1.
//!
//! What is equal is said by the collation, as in a comparison: where that is not built, they are refused.
//! Those that look for a text within another are also refused where the collation holds characters for equal
//! that are not the same. Under the others a text is found where its characters stand, one by one.

use super::Function;
use super::text::{byte_of, owned, slice, text_type, texts};
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Class, Coercibility, Comparison, Env, Evaluator, ExprType, Fault, Ready,
    describe,
};
use crate::schema::IntWidth;
use crate::value::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "locate",
        aliases: &[],
        signature: "locate(part, text[, position])",
        help: "where the part begins in the text, at the position or behind it; 0 if it is not there",
        examples: &[("locate('bar', 'foobarbar')", "4"), ("locate('bar', 'foobarbar', 5)", "7")],
        refused: None,
        arity: (2, Some(3)),
        bind: |binder, args| located(binder, args, eval_locate),
    },
    Function {
        name: "instr",
        aliases: &[],
        signature: "instr(text, part)",
        help: "where the part begins in the text; 0 if it is not there",
        examples: &[("instr('foobarbar', 'bar')", "4")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| {
            located(binder, args, |call, env| {
                let (Some(text), Some(part)) = (call.text(env, 0)?, call.text(env, 1)?) else {
                    return Ok(Value::Null);
                };
                Ok(Value::Int(position_of(&part, &text, 0)))
            })
        },
    },
    Function {
        name: "find_in_set",
        aliases: &[],
        signature: "find_in_set(text, list)",
        help: "the place of the text in a list with commas, from 1; 0 if it is not there",
        examples: &[("find_in_set('b', 'a,b,c')", "2")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| located(binder, args, eval_find_in_set),
    },
    Function {
        name: "strcmp",
        aliases: &[],
        signature: "strcmp(a, b)",
        help: "-1, 0 or 1, as a is less than b, equal or greater",
        examples: &[("strcmp('a', 'b')", "-1")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_strcmp,
    },
    Function {
        name: "field",
        aliases: &[],
        signature: "field(x, a, b, ...)",
        help: "the place of the first of the others that equals x, from 1; 0 if there is none, and for NULL",
        examples: &[("field('b', 'a', 'b', 'c')", "2"), ("field(null, 1, 2)", "0")],
        refused: None,
        arity: (2, None),
        bind: bind_field,
    },
    Function {
        name: "elt",
        aliases: &[],
        signature: "elt(n, a, b, ...)",
        help: "the n-th of the texts, from 1; NULL if there is none",
        examples: &[("elt(2, 'a', 'b')", "'b'"), ("elt(3, 'a', 'b')", "NULL")],
        refused: None,
        arity: (2, None),
        bind: bind_elt,
    },
    Function {
        name: "substring_index",
        aliases: &[],
        signature: "substring_index(text, delimiter, count)",
        help: "what stands before so many delimiters, or, if the count is negative, behind so many from the end; letter case counts",
        examples: &[
            ("substring_index('www.mysql.com', '.', 2)", "'www.mysql'"),
            ("substring_index('www.mysql.com', '.', -2)", "'mysql.com'"),
        ],
        refused: None,
        arity: (3, Some(3)),
        bind: bind_substring_index,
    },
    Function {
        name: "insert",
        aliases: &[],
        signature: "insert(text, position, count, other)",
        help: "the text with so many characters from a position on replaced with the other text",
        examples: &[("insert('Quadratic', 3, 4, 'What')", "'QuWhattic'")],
        refused: None,
        arity: (4, Some(4)),
        bind: bind_insert,
    },
];

fn bind_strcmp(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [a, b]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let (a, b) = (binder.text_of(a), binder.text_of(b));
    let (a, b) = (a?, b?);
    let collator = binder.collator(&a, &b, &args.span)?;
    let ty = ExprType::int(IntWidth::Big, false, a.ty().nullable || b.ty().nullable);
    binder.evaluated_with(vec![a, b], ty, &args.span, Ready::Collator(collator), eval_strcmp)
}

/// Functions that look for a text in another, perhaps from a position on.
fn located(binder: &mut Binder<'_>, args: Args, eval: Evaluator) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let (a, b) = (binder.text_of(rest.next()?), binder.text_of(rest.next()?));
    let position = rest.next();
    if let Some(position) = &position {
        binder.ensure_number(position, &args.name)?;
    }
    let (a, b) = (a?, b?);
    let mut nullable = a.ty().nullable || b.ty().nullable;
    binder.ensure_searchable(&a, &b, &args.name, &args.span)?;
    nullable |= position.as_ref().is_some_and(|p| p.ty().nullable);
    let ty = ExprType::int(IntWidth::Big, false, nullable);
    let bound = [a, b].into_iter().chain(position).collect();
    binder.evaluated(bound, ty, &args.span, eval)
}

/// The character, from 1, at which `part` begins in `text` from the byte `from` on; 0 if nowhere.
fn position_of(part: &str, text: &str, from: usize) -> i64 {
    let found = text.get(from..).and_then(|rest| rest.find(part)).map(|at| from + at);
    found.map_or(0, |at| text[..at].chars().count() as i64 + 1)
}

fn eval_locate<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(part), Some(text)) = (call.text(env, 0)?, call.text(env, 1)?) else { return Ok(Value::Null) };
    let mut from = 0;
    if call.args.len() == 3 {
        let Some(position) = call.whole(env, 2)? else { return Ok(Value::Null) };
        let skipped = position.checked_sub(1).and_then(|n| usize::try_from(n).ok());
        match skipped {
            Some(n) if n <= text.chars().count() => from = byte_of(&text, n),
            _ => return Ok(Value::Int(0)),
        }
    }
    Ok(Value::Int(position_of(&part, &text, from)))
}

fn eval_find_in_set<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(text), Some(list)) = (call.text(env, 0)?, call.text(env, 1)?) else { return Ok(Value::Null) };
    // an empty list has no members, not an empty one
    let place = if list.is_empty() { None } else { list.split(',').position(|member| member == text) };
    Ok(Value::Int(place.map_or(0, |n| n as i64 + 1)))
}

fn eval_strcmp<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(a), Some(b)) = (call.text(env, 0)?, call.text(env, 1)?) else { return Ok(Value::Null) };
    let Ready::Collator(collator) = &call.ready else { return Ok(Value::Null) };
    Ok(Value::Int(match collator.compare(&a, &b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

/// All texts or all numbers: the server compares a mixture as doubles.
fn bind_field(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let class = |a: &BoundExpr| a.ty().class();
    let bound = if args.args.iter().any(|a| class(a).is_text()) {
        if let Some(odd) = args.args.iter().find(|a| !class(a).is_text() && class(a) != Class::Null) {
            let headline = format!("{} stands among texts", describe(odd));
            let diagnostic = binder.mismatch(&odd.span().clone(), headline);
            return binder.refuse(diagnostic.help("write `cast(.. as char)`, or `cast` the texts"));
        }
        let bound = texts(binder, args.args)?;
        // the collation is that of the first argument alone, and a constant has that of the server's session
        let holds = |b: &BoundExpr| b.ty().coercibility < Coercibility::Literal;
        if !holds(&bound[0]) && bound[1..].iter().any(holds) {
            let diagnostic = binder.mismatch(
                &bound[0].span().clone(),
                "\"field\" compares under the collation of its first argument, and a constant has none",
            );
            return binder.refuse(
                diagnostic.help("write a column first, or `collate utf8mb4_bin` behind the constant"),
            );
        }
        bound
    } else {
        for arg in &args.args {
            binder.ensure_number(arg, &args.name)?;
        }
        // the server compares the bits of 64-bit numbers, whether they have a sign or not
        let unsigned = |a: &BoundExpr| a.ty().is_unsigned();
        let negative =
            |a: &BoundExpr| !unsigned(a) && class(a).is_whole() && a.const_whole().is_none_or(|n| n < 0);
        if args.args.iter().any(unsigned) && args.args.iter().any(negative) {
            let diagnostic = binder.mismatch(&args.span, "numbers with a sign stand among numbers without");
            return binder.refuse(
                diagnostic.help("write `cast(.. as signed)` or `cast(.. as decimal(20))` around them"),
            );
        }
        binder.unified(args.args, &args.span)?.0
    };
    let mut comparisons = Vec::new();
    for other in &bound[1..] {
        let how = binder.comparison(bound[0].clone(), other.clone(), &args.span)?.0;
        comparisons.push(match how {
            Comparison::Text(_) => Comparison::Text(binder.collator(&bound[0], &bound[0], &args.span)?),
            how => how,
        });
    }
    let ty = ExprType::int(IntWidth::Int, false, false);
    binder.evaluated_with(bound, ty, &args.span, Ready::Comparisons(comparisons), |call, env| {
        let Ready::Comparisons(comparisons) = &call.ready else { return Ok(Value::Null) };
        let wanted = call.args[0].value(env)?;
        for (i, how) in comparisons.iter().enumerate() {
            if how.compare(&wanted, &call.args[i + 1].value(env)?)? == Some(Ordering::Equal) {
                return Ok(Value::Int(i as i64 + 1));
            }
        }
        Ok(Value::Int(0))
    })
}

fn bind_elt(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let n = rest.next()?;
    binder.ensure_number(&n, &args.name)?;
    let bound = texts(binder, rest.collect())?;
    let length = bound.iter().map(|b| b.ty().text_length()).max().unwrap_or(0);
    let ty = text_type(&bound, length, true);
    let bound = std::iter::once(n).chain(bound).collect();
    binder.evaluated(bound, ty, &args.span, |call, env| {
        let n = call.whole(env, 0)?.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        if n == 0 || n >= call.args.len() {
            return Ok(Value::Null);
        }
        Ok(call.text(env, n)?.map_or(Value::Null, Value::Text))
    })
}

fn bind_substring_index(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [text, delimiter, count]: [BoundExpr; 3] = args.args.try_into().ok()?;
    let (text, delimiter) = (binder.text_of(text), binder.text_of(delimiter));
    binder.ensure_number(&count, &args.name)?;
    let (text, delimiter) = (text?, delimiter?);
    let nullable = text.ty().nullable || delimiter.ty().nullable || count.ty().nullable;
    let length = text.ty().text_length();
    let parts = [text, delimiter];
    let ty = text_type(&parts, length, nullable);
    let [text, delimiter] = parts;
    binder.evaluated(vec![text, delimiter, count], ty, &args.span, |call, env| {
        let (Some(text), Some(delimiter), Some(count)) =
            (call.text(env, 0)?, call.text(env, 1)?, call.whole(env, 2)?)
        else {
            return Ok(Value::Null);
        };
        if delimiter.is_empty() || count == 0 {
            return Ok(Value::Text(Cow::Borrowed("")));
        }
        let found: Vec<usize> = text.match_indices(&*delimiter).map(|(at, _)| at).collect();
        let n = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        let end = text.len();
        Ok(if count > 0 {
            let to = found.get(n - 1).copied().unwrap_or(end);
            slice(text, 0, to)
        } else {
            let from =
                found.len().checked_sub(n).and_then(|i| found.get(i)).map_or(0, |at| at + delimiter.len());
            slice(text, from, end)
        })
    })
}

fn bind_insert(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [text, position, count, other]: [BoundExpr; 4] = args.args.try_into().ok()?;
    let (text, other) = (binder.text_of(text), binder.text_of(other));
    let (p, c) = (binder.ensure_number(&position, &args.name), binder.ensure_number(&count, &args.name));
    p.and(c)?;
    let (text, other) = (text?, other?);
    let nullable = [&text, &position, &count, &other].iter().any(|a| a.ty().nullable);
    let length = text.ty().text_length().saturating_add(other.ty().text_length());
    let parts = [text, other];
    let ty = text_type(&parts, length, nullable);
    let [text, other] = parts;
    binder.evaluated(vec![text, position, count, other], ty, &args.span, |call, env| {
        let (Some(text), Some(position), Some(count), Some(other)) =
            (call.text(env, 0)?, call.whole(env, 1)?, call.whole(env, 2)?, call.text(env, 3)?)
        else {
            return Ok(Value::Null);
        };
        let chars = text.chars().count();
        let Some(skipped) = usize::try_from(position).ok().filter(|p| (1..=chars).contains(p)).map(|p| p - 1)
        else {
            return Ok(Value::Text(text));
        };
        // a count that is negative or too large takes the rest
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(chars - skipped);
        let (from, to) = (byte_of(&text, skipped), byte_of(&text, skipped + count));
        Ok(owned(format!("{}{other}{}", &text[..from], &text[to..])))
    })
}
