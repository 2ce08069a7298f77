//! Functions of text (MySQL manual 14.8). Positions count characters from 1, as there.

use super::Function;
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Class, Env, ExprType, Fault, MAX_RESULT, encoded_length, is_utf8,
    merge_collations, to_bits, to_lower, to_upper, too_long,
};
use crate::schema::{ColumnType, IntWidth};
use crate::value::Value;
use std::borrow::Cow;
use std::fmt::Write as _;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "upper",
        aliases: &["ucase"],
        signature: "upper(text)",
        help: "the text in upper case, character by character",
        examples: &[("upper('straße')", "'STRAßE'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| same_length(binder, args, |call, env| map_text(call, env, to_upper)),
    },
    Function {
        name: "lower",
        aliases: &["lcase"],
        signature: "lower(text)",
        help: "the text in lower case, character by character",
        examples: &[("lower('ABC É')", "'abc é'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| same_length(binder, args, |call, env| map_text(call, env, to_lower)),
    },
    Function {
        name: "concat",
        aliases: &[],
        signature: "concat(text, ...)",
        help: "the texts one after the other; NULL if one is NULL",
        examples: &[("concat('a', 1, 2.50)", "'a12.50'"), ("concat('a', null)", "NULL")],
        refused: None,
        arity: (1, None),
        bind: bind_concat,
    },
    Function {
        name: "concat_ws",
        aliases: &[],
        signature: "concat_ws(separator, text, ...)",
        help: "the texts that are not NULL, with the separator between them",
        examples: &[("concat_ws(',', 'a', null, 'b')", "'a,b'")],
        refused: None,
        arity: (2, None),
        bind: bind_concat_ws,
    },
    Function {
        name: "length",
        aliases: &["octet_length"],
        signature: "length(text)",
        help: "the bytes of the text in its column's character set, or of bytes",
        examples: &[("length('é')", "2")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_length,
    },
    Function {
        name: "char_length",
        aliases: &["character_length"],
        signature: "char_length(text)",
        help: "the characters of the text, or the bytes of bytes",
        examples: &[("char_length('é')", "1")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| measured(binder, args, eval_char_length),
    },
    Function {
        name: "left",
        aliases: &[],
        signature: "left(text, count)",
        help: "the first characters",
        examples: &[("left('abc', 2)", "'ab'")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| counted(binder, args, eval_left),
    },
    Function {
        name: "right",
        aliases: &[],
        signature: "right(text, count)",
        help: "the last characters",
        examples: &[("right('abc', 2)", "'bc'")],
        refused: None,
        arity: (2, Some(2)),
        bind: |binder, args| counted(binder, args, eval_right),
    },
    Function {
        name: "substring",
        aliases: &["substr", "mid"],
        signature: "substring(text, position[, count])",
        help: "the characters from a position on, which counts from 1, or from the end if it is negative",
        examples: &[("substring('Quadratically', 5, 6)", "'ratica'"), ("substring('Sakila', -3)", "'ila'")],
        refused: None,
        arity: (2, Some(3)),
        bind: |binder, args| counted(binder, args, eval_substring),
    },
    Function {
        name: "trim",
        aliases: &[],
        signature: "trim(text)",
        help: "without spaces at both ends",
        examples: &[("trim('  a b  ')", "'a b'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            same_length(binder, args, |call, env| cut_text(call, env, |s| s.trim_matches(' ')))
        },
    },
    Function {
        name: "ltrim",
        aliases: &[],
        signature: "ltrim(text)",
        help: "without spaces at the beginning",
        examples: &[("ltrim('  a')", "'a'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            same_length(binder, args, |call, env| cut_text(call, env, |s| s.trim_start_matches(' ')))
        },
    },
    Function {
        name: "rtrim",
        aliases: &[],
        signature: "rtrim(text)",
        help: "without spaces at the end",
        examples: &[("rtrim('a  ')", "'a'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            same_length(binder, args, |call, env| cut_text(call, env, |s| s.trim_end_matches(' ')))
        },
    },
    Function {
        name: "replace",
        aliases: &[],
        signature: "replace(text, from, to)",
        help: "every occurrence of one text replaced with another; letter case counts",
        examples: &[("replace('www.mysql.com', 'w', 'Ww')", "'WwWwWw.mysql.com'")],
        refused: None,
        arity: (3, Some(3)),
        bind: bind_replace,
    },
    Function {
        name: "lpad",
        aliases: &[],
        signature: "lpad(text, length, filling)",
        help: "filled up at the beginning, or cut, to so many characters",
        examples: &[("lpad('7', 3, '0')", "'007'"), ("lpad('hi', 1, '?')", "'h'")],
        refused: None,
        arity: (3, Some(3)),
        bind: |binder, args| padded(binder, args, |call, env| pad(call, env, true)),
    },
    Function {
        name: "rpad",
        aliases: &[],
        signature: "rpad(text, length, filling)",
        help: "filled up at the end, or cut, to so many characters",
        examples: &[("rpad('hi', 5, 'xy')", "'hixyx'")],
        refused: None,
        arity: (3, Some(3)),
        bind: |binder, args| padded(binder, args, |call, env| pad(call, env, false)),
    },
    Function {
        name: "reverse",
        aliases: &[],
        signature: "reverse(text)",
        help: "the characters from the last to the first",
        examples: &[("reverse('abc')", "'cba'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            same_length(binder, args, |call, env| map_text(call, env, |s| s.chars().rev().collect()))
        },
    },
    Function {
        name: "repeat",
        aliases: &[],
        signature: "repeat(text, count)",
        help: "the text so many times",
        examples: &[("repeat('ab', 3)", "'ababab'")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_repeat,
    },
    Function {
        name: "space",
        aliases: &[],
        signature: "space(count)",
        help: "so many spaces",
        examples: &[("space(2)", "'  '")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_space,
    },
    Function {
        name: "hex",
        aliases: &[],
        signature: "hex(value)",
        help: "a whole number, or the bytes of a text, in hexadecimal",
        examples: &[("hex('abc')", "'616263'"), ("hex(255)", "'FF'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_hex,
    },
    Function {
        name: "crc32",
        aliases: &[],
        signature: "crc32(text)",
        help: "the CRC-32 of the bytes",
        examples: &[("crc32('MySQL')", "3259397556")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_crc32,
    },
];

/// Joins a part, unless the whole becomes too long.
fn join(out: &mut String, part: &str) -> Result<(), Fault> {
    if out.len() + part.len() > MAX_RESULT {
        return Err(too_long());
    }
    out.push_str(part);
    Ok(())
}

pub(super) fn owned<'a>(text: String) -> Value<'a> {
    Value::Text(Cow::Owned(text))
}

/// A text of so many characters, with the collation that its parts agree on.
pub(super) fn text_type(parts: &[BoundExpr], length: u64, nullable: bool) -> ExprType {
    let mut ty = ExprType::null();
    for part in parts {
        let (charset, coercibility) = merge_collations(&ty, part.ty());
        ty = ExprType::text(0, charset, coercibility, false);
    }
    let (charset, coercibility) = merge_collations(&ty, &ExprType::null());
    ExprType::text(length, charset, coercibility, nullable)
}

pub(super) fn texts(binder: &mut Binder<'_>, args: Vec<BoundExpr>) -> Option<Vec<BoundExpr>> {
    let bound: Vec<_> = args.into_iter().map(|a| binder.text_of(a)).collect();
    bound.into_iter().collect()
}

/// A function of one text that makes it no longer.
fn same_length(binder: &mut Binder<'_>, args: Args, eval: crate::expr::eval::Evaluator) -> Option<BoundExpr> {
    let bound = texts(binder, args.args)?;
    let ty = text_type(&bound, bound[0].ty().text_length(), bound[0].ty().nullable);
    binder.evaluated(bound, ty, &args.span, eval)
}

fn map_text<'a>(call: &'a Call, env: &Env<'a, '_>, f: impl Fn(&str) -> String) -> Result<Value<'a>, Fault> {
    Ok(call.text(env, 0)?.map_or(Value::Null, |s| owned(f(&s))))
}

fn cut_text<'a>(call: &'a Call, env: &Env<'a, '_>, f: impl Fn(&str) -> &str) -> Result<Value<'a>, Fault> {
    Ok(match call.text(env, 0)? {
        None => Value::Null,
        Some(Cow::Borrowed(s)) => Value::Text(Cow::Borrowed(f(s))),
        Some(Cow::Owned(s)) => owned(f(&s).to_owned()),
    })
}

fn bind_concat(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let bound = texts(binder, args.args)?;
    let length = bound.iter().map(|a| a.ty().text_length()).sum();
    let ty = text_type(&bound, length, bound.iter().any(|a| a.ty().nullable));
    binder.evaluated(bound, ty, &args.span, |call, env| {
        let mut out = String::new();
        for i in 0..call.args.len() {
            let Some(part) = call.text(env, i)? else { return Ok(Value::Null) };
            join(&mut out, &part)?;
        }
        Ok(owned(out))
    })
}

fn bind_concat_ws(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let bound = texts(binder, args.args)?;
    let separators = bound[0].ty().text_length() * (bound.len() as u64 - 2);
    let length = bound[1..].iter().map(|a| a.ty().text_length()).sum::<u64>() + separators;
    let ty = text_type(&bound, length, bound[0].ty().nullable);
    binder.evaluated(bound, ty, &args.span, |call, env| {
        let Some(separator) = call.text(env, 0)? else { return Ok(Value::Null) };
        let mut out = String::new();
        let mut first = true;
        for i in 1..call.args.len() {
            let Some(part) = call.text(env, i)? else { continue };
            if !first {
                join(&mut out, &separator)?;
            }
            first = false;
            join(&mut out, &part)?;
        }
        Ok(owned(out))
    })
}

/// The argument of a function that takes texts and bytes.
pub(super) fn text_or_bytes(binder: &mut Binder<'_>, arg: BoundExpr) -> Option<BoundExpr> {
    if arg.ty().class() == Class::Bytes { Some(arg) } else { binder.text_of(arg) }
}

fn measured(binder: &mut Binder<'_>, args: Args, eval: crate::expr::eval::Evaluator) -> Option<BoundExpr> {
    let arg = text_or_bytes(binder, args.args.into_iter().next()?)?;
    let ty = ExprType::int(IntWidth::Int, false, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, eval)
}

fn bind_length(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    if let Some(charset) = args.args[0].ty().ty.as_ref().and_then(ColumnType::charset)
        && encoded_length(charset, "").is_none()
    {
        return binder.refuse_charset(&args.args[0]);
    }
    measured(binder, args, |call, env| {
        Ok(match call.value(env, 0)? {
            None => Value::Null,
            Some(Value::Bytes(b)) => Value::Int(b.len() as i64),
            Some(_) => {
                let text = call.text(env, 0)?.unwrap_or_default();
                let charset = call.args[0].ty().ty.as_ref().and_then(ColumnType::charset);
                let length = charset.and_then(|c| encoded_length(c, &text)).unwrap_or(text.len());
                Value::Int(length as i64)
            }
        })
    })
}

fn eval_char_length<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    Ok(match call.value(env, 0)? {
        None => Value::Null,
        Some(Value::Bytes(b)) => Value::Int(b.len() as i64),
        Some(_) => Value::Int(call.text(env, 0)?.unwrap_or_default().chars().count() as i64),
    })
}

/// A function of a text and one or two whole numbers that makes the text no longer.
fn counted(binder: &mut Binder<'_>, args: Args, eval: crate::expr::eval::Evaluator) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let text = binder.text_of(rest.next()?);
    let numbers: Vec<_> = rest.collect();
    let checked: Vec<_> = numbers.iter().map(|n| binder.ensure_number(n, &args.name)).collect();
    let text = text?;
    checked.into_iter().collect::<Option<Vec<_>>>()?;
    let nullable = text.ty().nullable || numbers.iter().any(|n| n.ty().nullable);
    // the last number is a count in all of them but `substring(text, position)`
    let most = match numbers.last().and_then(BoundExpr::const_whole) {
        Some(n) if args.name == "left" || args.name == "right" || numbers.len() == 2 => n.max(0) as u64,
        _ => u64::MAX,
    };
    let length = text.ty().text_length().min(most);
    let mut bound = vec![text];
    let ty = text_type(&bound, length, nullable);
    bound.extend(numbers);
    binder.evaluated(bound, ty, &args.span, eval)
}

/// The byte at which character `n` begins, counted from 0; the end of the text beyond its last one.
pub(super) fn byte_of(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(i, _)| i)
}

pub(super) fn slice<'a>(text: Cow<'a, str>, from: usize, to: usize) -> Value<'a> {
    match text {
        Cow::Borrowed(s) => Value::Text(Cow::Borrowed(s.get(from..to).unwrap_or(""))),
        Cow::Owned(s) => owned(s.get(from..to).unwrap_or("").to_owned()),
    }
}

fn eval_left<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(text), Some(count)) = (call.text(env, 0)?, call.whole(env, 1)?) else { return Ok(Value::Null) };
    let end = byte_of(&text, usize::try_from(count).unwrap_or(0));
    Ok(slice(text, 0, end))
}

fn eval_right<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(text), Some(count)) = (call.text(env, 0)?, call.whole(env, 1)?) else { return Ok(Value::Null) };
    let skipped = text.chars().count().saturating_sub(usize::try_from(count).unwrap_or(0));
    let (start, end) = (byte_of(&text, skipped), text.len());
    Ok(slice(text, start, end))
}

fn eval_substring<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Value<'a>, Fault> {
    let (Some(text), Some(position)) = (call.text(env, 0)?, call.whole(env, 1)?) else {
        return Ok(Value::Null);
    };
    let count = if call.args.len() == 3 {
        let Some(count) = call.whole(env, 2)? else { return Ok(Value::Null) };
        usize::try_from(count).unwrap_or(0)
    } else {
        usize::MAX
    };
    // position 0, and one before the first character, give an empty text
    let start = match position {
        1.. => usize::try_from(position - 1).ok(),
        0 => None,
        _ => text.chars().count().checked_sub(usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let Some(start) = start else { return Ok(Value::Text(Cow::Borrowed(""))) };
    let from = byte_of(&text, start);
    let to = from + byte_of(&text[from..], count);
    Ok(slice(text, from, to))
}

fn bind_replace(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let bound = texts(binder, args.args)?;
    let [text, from, to] = [0, 1, 2].map(|i: usize| bound[i].ty().text_length());
    // what is replaced may be shorter than its type allows, so more often there
    let from = if bound[1].is_constant() { from.max(1) } else { 1 };
    let length = text.saturating_add((text / from).saturating_mul(to.saturating_sub(from)));
    let ty = text_type(&bound, length, bound.iter().any(|a| a.ty().nullable));
    binder.evaluated(bound, ty, &args.span, |call, env| {
        let (Some(text), Some(from), Some(to)) = (call.text(env, 0)?, call.text(env, 1)?, call.text(env, 2)?)
        else {
            return Ok(Value::Null);
        };
        if from.is_empty() || !text.contains(&*from) {
            return Ok(Value::Text(text));
        }
        if to.len() > from.len()
            && text.matches(&*from).count().saturating_mul(to.len()).saturating_add(text.len()) > MAX_RESULT
        {
            return Err(too_long());
        }
        Ok(owned(text.replace(&*from, &to)))
    })
}

fn padded(binder: &mut Binder<'_>, args: Args, eval: crate::expr::eval::Evaluator) -> Option<BoundExpr> {
    let [text, length, filling]: [BoundExpr; 3] = args.args.try_into().ok()?;
    let (text, filling) = (binder.text_of(text), binder.text_of(filling));
    binder.ensure_number(&length, &args.name)?;
    let (text, filling) = (text?, filling?);
    let most = length.const_whole().map_or(u64::MAX, |n| n.max(0) as u64);
    let parts = [text, filling];
    // a negative length gives NULL
    let ty = text_type(&parts, most, true);
    let [text, filling] = parts;
    binder.evaluated(vec![text, length, filling], ty, &args.span, eval)
}

fn pad<'a>(call: &'a Call, env: &Env<'a, '_>, at_front: bool) -> Result<Value<'a>, Fault> {
    let (Some(text), Some(length), Some(filling)) =
        (call.text(env, 0)?, call.whole(env, 1)?, call.text(env, 2)?)
    else {
        return Ok(Value::Null);
    };
    let Ok(length) = usize::try_from(length) else { return Ok(Value::Null) };
    let chars = text.chars().count();
    if chars >= length {
        let end = byte_of(&text, length);
        return Ok(slice(text, 0, end));
    }
    if length > MAX_RESULT / 4 {
        return Err(too_long());
    }
    if filling.is_empty() {
        return Ok(Value::Text(text));
    }
    let fill = filling.chars().cycle().take(length - chars);
    let mut out = String::with_capacity(text.len() + length - chars);
    if at_front {
        out.extend(fill);
        out.push_str(&text);
    } else {
        out.push_str(&text);
        out.extend(fill);
    }
    Ok(owned(out))
}

fn bind_repeat(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [text, count]: [BoundExpr; 2] = args.args.try_into().ok()?;
    let text = binder.text_of(text);
    binder.ensure_number(&count, &args.name)?;
    let text = text?;
    let times = count.const_whole().map_or(u64::MAX, |n| n.max(0) as u64);
    let nullable = text.ty().nullable || count.ty().nullable;
    let parts = [text];
    let ty = text_type(&parts, parts[0].ty().text_length().saturating_mul(times), nullable);
    let [text] = parts;
    binder.evaluated(vec![text, count], ty, &args.span, |call, env| {
        let (Some(text), Some(count)) = (call.text(env, 0)?, call.whole(env, 1)?) else {
            return Ok(Value::Null);
        };
        let count = usize::try_from(count).unwrap_or(0);
        if text.len().saturating_mul(count) > MAX_RESULT {
            return Err(too_long());
        }
        Ok(owned(text.repeat(count)))
    })
}

fn bind_space(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let count = args.args.into_iter().next()?;
    binder.ensure_number(&count, &args.name)?;
    let most = count.const_whole().map_or(u64::MAX, |n| n.max(0) as u64);
    let ty = ExprType::text(
        most,
        crate::Charset::utf8mb4(),
        crate::expr::eval::Coercibility::Literal,
        count.ty().nullable,
    );
    binder.evaluated(vec![count], ty, &args.span, |call, env| {
        let Some(count) = call.whole(env, 0)? else { return Ok(Value::Null) };
        let count = usize::try_from(count).unwrap_or(0);
        if count > MAX_RESULT {
            return Err(too_long());
        }
        Ok(owned(" ".repeat(count)))
    })
}

pub(super) fn hex_digits(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for b in bytes {
        // writing to a String does not fail
        let _ = write!(out, "{b:02X}");
    }
    out
}

/// The argument of a function that looks at a text's bytes.
pub(super) fn utf8_or_bytes(binder: &mut Binder<'_>, arg: BoundExpr) -> Option<BoundExpr> {
    if !is_utf8(arg.ty()) {
        return binder.refuse_charset(&arg);
    }
    text_or_bytes(binder, arg)
}

fn bind_hex(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = args.args.into_iter().next()?;
    let nullable = arg.ty().nullable;
    if arg.ty().class().is_number() {
        let ty =
            ExprType::text(16, crate::Charset::utf8mb4(), crate::expr::eval::Coercibility::Literal, nullable);
        return binder.evaluated(vec![arg], ty, &args.span, |call, env| {
            Ok(match call.number(env, 0)? {
                None => Value::Null,
                Some(number) => owned(format!("{:X}", to_bits(&number)?)),
            })
        });
    }
    let arg = utf8_or_bytes(binder, arg)?;
    let bytes = if arg.ty().class() == Class::Bytes { 1 } else { 4 };
    let length = arg.ty().text_length().saturating_mul(2 * bytes);
    let ty =
        ExprType::text(length, crate::Charset::utf8mb4(), crate::expr::eval::Coercibility::Literal, nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(match call.value(env, 0)? {
            None => Value::Null,
            Some(Value::Bytes(b)) => owned(hex_digits(&b)),
            Some(_) => owned(hex_digits(call.text(env, 0)?.unwrap_or_default().as_bytes())),
        })
    })
}

fn bind_crc32(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = utf8_or_bytes(binder, args.args.into_iter().next()?)?;
    let ty = ExprType::int(IntWidth::Int, true, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(match call.value(env, 0)? {
            None => Value::Null,
            Some(Value::Bytes(b)) => Value::UInt(u64::from(crc32(&b))),
            Some(_) => Value::UInt(u64::from(crc32(call.text(env, 0)?.unwrap_or_default().as_bytes()))),
        })
    })
}

/// CRC-32 of ISO 3309, bit by bit: it is called on keys, not on files.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    })
}
