//! Bytes and numbers in other forms: digests, base64, hexadecimal digits, bases, UUIDs, addresses (MySQL manual
//! 14.8, 14.13 and 14.23).
//!
//! What looks at bytes takes bytes, and texts whose bytes at the server are their UTF-8; texts in another
//! character set are refused. What the manual says is NULL (digits that are none, base64 that is none) is NULL.

use super::Function;
use super::text::{owned, text_or_bytes, utf8_or_bytes};
use crate::codes;
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Class, Coercibility, Env, Evaluator, ExprType, Failure, Fault, MAX_RESULT,
    Ready, describe, to_bits, too_long,
};
use crate::schema::{Charset, ColumnType, IntWidth};
use crate::value::Value;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "md5",
        aliases: &[],
        signature: "md5(text)",
        help: "the MD5 of the bytes, in 32 hexadecimal digits",
        examples: &[("md5('abc')", "'900150983cd24fb0d6963f7d28e17f72'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            digest(binder, args, 32, |call, env| hashed(call, env, |b| lower_hex(&Md5::digest(b))))
        },
    },
    Function {
        name: "sha1",
        aliases: &["sha"],
        signature: "sha1(text)",
        help: "the SHA-1 of the bytes, in 40 hexadecimal digits",
        examples: &[("sha1('abc')", "'a9993e364706816aba3e25717850c26c9cd0d89d'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            digest(binder, args, 40, |call, env| hashed(call, env, |b| lower_hex(&Sha1::digest(b))))
        },
    },
    Function {
        name: "sha2",
        aliases: &[],
        signature: "sha2(text, bits)",
        help: "the SHA-2 of 224, 256 (also written 0), 384 or 512 bits of the bytes, in hexadecimal digits; NULL for other bits",
        examples: &[("sha2('abc', 224)", "'23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7'")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_sha2,
    },
    Function {
        name: "unhex",
        aliases: &[],
        signature: "unhex(text)",
        help: "the bytes of hexadecimal digits; NULL if it holds anything else",
        examples: &[("unhex('4D7953')", "x'4D7953'"), ("unhex('xy')", "NULL")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_unhex,
    },
    Function {
        name: "to_base64",
        aliases: &[],
        signature: "to_base64(text)",
        help: "the bytes in base64, with a line feed after every 76 characters",
        examples: &[("to_base64('abc')", "'YWJj'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_to_base64,
    },
    Function {
        name: "from_base64",
        aliases: &[],
        signature: "from_base64(text)",
        help: "the bytes of base64, in which white space does not count; NULL if it is none",
        examples: &[("from_base64('YWJj')", "x'616263'"), ("from_base64('!')", "NULL")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_from_base64,
    },
    Function {
        name: "ascii",
        aliases: &[],
        signature: "ascii(text)",
        help: "the first byte; 0 if there is none",
        examples: &[("ascii('2')", "50"), ("ascii('')", "0")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| counted(binder, args, |b| b.first().map_or(0, |b| i64::from(*b))),
    },
    Function {
        name: "ord",
        aliases: &[],
        signature: "ord(text)",
        help: "the bytes of the first character as one number",
        examples: &[("ord('2')", "50"), ("ord('é')", "50089")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_ord,
    },
    Function {
        name: "bit_length",
        aliases: &[],
        signature: "bit_length(text)",
        help: "eight times the bytes",
        examples: &[("bit_length('é')", "16")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| counted(binder, args, |b| b.len() as i64 * 8),
    },
    Function {
        name: "bit_count",
        aliases: &[],
        signature: "bit_count(n)",
        help: "the bits of a whole number that are set, out of 64",
        examples: &[("bit_count(29)", "4"), ("bit_count(-1)", "64")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            binder.ensure_number(&args.args[0], &args.name)?;
            let ty = ExprType::int(IntWidth::Int, false, args.args[0].ty().nullable);
            binder.evaluated(args.args, ty, &args.span, |call, env| {
                Ok(match call.number(env, 0)? {
                    None => Value::Null,
                    Some(number) => Value::Int(i64::from(to_bits(&number)?.count_ones())),
                })
            })
        },
    },
    Function {
        name: "bin",
        aliases: &[],
        signature: "bin(n)",
        help: "a whole number in base 2; a negative one as 64 bits",
        examples: &[("bin(12)", "'1100'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| based(binder, args, |call, env| converted(call, env, 10, 2)),
    },
    Function {
        name: "oct",
        aliases: &[],
        signature: "oct(n)",
        help: "a whole number in base 8; a negative one as 64 bits",
        examples: &[("oct(12)", "'14'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| based(binder, args, |call, env| converted(call, env, 10, 8)),
    },
    Function {
        name: "conv",
        aliases: &[],
        signature: "conv(n, from, to)",
        help: "a number of one base (2 to 36) in another; a negative base is that of numbers with a sign",
        examples: &[
            ("conv('ff', 16, 2)", "'11111111'"),
            ("conv(-17, 10, -18)", "'-H'"),
            ("conv(1, 10, 99)", "NULL"),
        ],
        refused: None,
        arity: (3, Some(3)),
        bind: |binder, args| {
            based(binder, args, |call, env| match (call.whole(env, 1)?, call.whole(env, 2)?) {
                (Some(from), Some(to)) => converted(call, env, from, to),
                _ => Ok(Value::Null),
            })
        },
    },
    Function {
        name: "is_uuid",
        aliases: &[],
        signature: "is_uuid(text)",
        help: "1 for a UUID of 32 digits, also with hyphens, also in braces; else 0",
        examples: &[("is_uuid('6ccd780c-baba-1026-9564-5b8c656024db')", "1"), ("is_uuid('no')", "0")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| counted(binder, args, |b| i64::from(uuid_of(b).is_some())),
    },
    Function {
        name: "uuid_to_bin",
        aliases: &[],
        signature: "uuid_to_bin(text[, swap])",
        help: "the 16 bytes of a UUID; with swap 1 the high part of its time stands in front",
        examples: &[(
            "uuid_to_bin('6ccd780c-baba-1026-9564-5b8c656024db')",
            "x'6CCD780CBABA102695645B8C656024DB'",
        )],
        refused: None,
        arity: (1, Some(2)),
        bind: bind_uuid_to_bin,
    },
    Function {
        name: "bin_to_uuid",
        aliases: &[],
        signature: "bin_to_uuid(bytes[, swap])",
        help: "the UUID of 16 bytes; with swap 1 of bytes in which the high part of its time stands in front",
        examples: &[(
            "bin_to_uuid(x'6CCD780CBABA102695645B8C656024DB')",
            "'6ccd780c-baba-1026-9564-5b8c656024db'",
        )],
        refused: None,
        arity: (1, Some(2)),
        bind: bind_bin_to_uuid,
    },
    Function {
        name: "inet_aton",
        aliases: &[],
        signature: "inet_aton(text)",
        help: "the number of an IPv4 address; NULL if it is none",
        examples: &[("inet_aton('10.0.5.9')", "167773449"), ("inet_aton('10.0.5.')", "NULL")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_inet_aton,
    },
    Function {
        name: "inet_ntoa",
        aliases: &[],
        signature: "inet_ntoa(n)",
        help: "the IPv4 address of a number; NULL if it is none",
        examples: &[("inet_ntoa(167773449)", "'10.0.5.9'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            binder.ensure_number(&args.args[0], &args.name)?;
            binder.evaluated(args.args, ascii_text(15, true), &args.span, |call, env| {
                let address = call.whole(env, 0)?.and_then(|n| u32::try_from(n).ok());
                Ok(address.map_or(Value::Null, |n| owned(std::net::Ipv4Addr::from(n).to_string())))
            })
        },
    },
];

/// A text that is made from digits, not from another text.
fn ascii_text(length: u64, nullable: bool) -> ExprType {
    ExprType::text(length, Charset::utf8mb4(), Coercibility::Literal, nullable)
}

fn lower_hex(bytes: &[u8]) -> String {
    super::text::hex_digits(bytes).to_ascii_lowercase()
}

fn digest(binder: &mut Binder<'_>, args: Args, length: u64, eval: Evaluator) -> Option<BoundExpr> {
    let arg = utf8_or_bytes(binder, args.args.into_iter().next()?)?;
    let ty = ascii_text(length, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, eval)
}

fn hashed<'a>(call: &'a Call, env: &Env<'a, '_>, f: fn(&[u8]) -> String) -> Result<Value<'a>, Fault> {
    Ok(call.bytes(env, 0)?.map_or(Value::Null, |b| owned(f(&b))))
}

fn bind_sha2(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let [text, bits]: [BoundExpr; 2] = args.args.try_into().ok()?;
    binder.ensure_number(&bits, &args.name)?;
    let text = utf8_or_bytes(binder, text)?;
    let length = match bits.const_whole() {
        Some(224) => 56,
        Some(0 | 256) => 64,
        Some(384) => 96,
        _ => 128,
    };
    let ty = ascii_text(length, true);
    binder.evaluated(vec![text, bits], ty, &args.span, |call, env| {
        let (Some(bytes), Some(bits)) = (call.bytes(env, 0)?, call.whole(env, 1)?) else {
            return Ok(Value::Null);
        };
        Ok(owned(match bits {
            224 => lower_hex(&Sha224::digest(&bytes)),
            0 | 256 => lower_hex(&Sha256::digest(&bytes)),
            384 => lower_hex(&Sha384::digest(&bytes)),
            512 => lower_hex(&Sha512::digest(&bytes)),
            _ => return Ok(Value::Null),
        }))
    })
}

fn bind_unhex(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = text_or_bytes(binder, args.args.into_iter().next()?)?;
    let ty = ExprType::bytes(arg.ty().text_length().div_ceil(2), true);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(call.bytes(env, 0)?.and_then(|b| unhex(&b)).map_or(Value::Null, |b| Value::Bytes(b.into())))
    })
}

/// The first of an odd number of digits is a byte of its own.
fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let values: Vec<u8> =
        digits.iter().map(|b| char::from(*b).to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (odd, pairs) = values.split_at(values.len() % 2);
    Some(odd.iter().copied().chain(pairs.chunks(2).map(|p| p[0] << 4 | p[1])).collect())
}

fn bind_to_base64(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = utf8_or_bytes(binder, args.args.into_iter().next()?)?;
    let bytes = if arg.ty().class() == Class::Bytes { 1 } else { 4 };
    let digits = arg.ty().text_length().saturating_mul(bytes).div_ceil(3).saturating_mul(4);
    let ty = ascii_text(digits.saturating_add(digits / 76), arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        let Some(bytes) = call.bytes(env, 0)? else { return Ok(Value::Null) };
        if bytes.len() > MAX_RESULT / 2 {
            return Err(too_long());
        }
        let digits = BASE64.encode(&bytes);
        let mut out = String::with_capacity(digits.len() + digits.len() / 76);
        for (i, c) in digits.chars().enumerate() {
            if i > 0 && i % 76 == 0 {
                out.push('\n');
            }
            out.push(c);
        }
        Ok(owned(out))
    })
}

/// With its padding; the bits that are left over in the last digit do not count.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

fn bind_from_base64(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = text_or_bytes(binder, args.args.into_iter().next()?)?;
    let ty = ExprType::bytes(arg.ty().text_length().div_ceil(4).saturating_mul(3), true);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        let Some(bytes) = call.bytes(env, 0)? else { return Ok(Value::Null) };
        let digits: Vec<u8> = bytes
            .iter()
            .copied()
            .filter(|b| !matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c))
            .collect();
        Ok(BASE64.decode(&digits).map_or(Value::Null, |b| Value::Bytes(b.into())))
    })
}

/// A function from bytes to a number.
fn counted(binder: &mut Binder<'_>, args: Args, f: fn(&[u8]) -> i64) -> Option<BoundExpr> {
    let arg = utf8_or_bytes(binder, args.args.into_iter().next()?)?;
    let ty = ExprType::bigint(false, arg.ty().nullable);
    binder.evaluated_with(vec![arg], ty, &args.span, Ready::OfBytes(f), |call, env| {
        let Ready::OfBytes(f) = &call.ready else { return Ok(Value::Null) };
        Ok(call.bytes(env, 0)?.map_or(Value::Null, |b| Value::Int(f(&b))))
    })
}

fn bind_ord(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let is_bytes = args.args[0].ty().class() == Class::Bytes;
    if is_bytes {
        return counted(binder, args, |b| b.first().map_or(0, |b| i64::from(*b)));
    }
    counted(binder, args, |b| {
        let first = std::str::from_utf8(b).ok().and_then(|s| s.chars().next());
        let length = first.map_or(0, char::len_utf8);
        b[..length].iter().fold(0, |n, b| n << 8 | i64::from(*b))
    })
}

/// Functions of a number in some base.
fn based(binder: &mut Binder<'_>, args: Args, eval: Evaluator) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let number = rest.next()?;
    let ready = Ready::Flag(number.ty().class().is_number());
    let number = binder.text_of(number);
    let bases: Vec<BoundExpr> = rest.collect();
    for base in &bases {
        binder.ensure_number(base, &args.name)?;
    }
    let bound = std::iter::once(number?).chain(bases).collect();
    binder.evaluated_with(bound, ascii_text(65, true), &args.span, ready, eval)
}

/// The digits are read as far as they are digits of the base, as the server reads a number with a fraction. A
/// text that is no number is an error, since the server cuts it off with a warning.
fn converted<'a>(call: &'a Call, env: &Env<'a, '_>, from: i64, to: i64) -> Result<Value<'a>, Fault> {
    let Some(text) = call.text(env, 0)? else { return Ok(Value::Null) };
    let base = |n: i64| (2..=36).contains(&n.unsigned_abs());
    if !base(from) || !base(to) || text.is_empty() {
        return Ok(Value::Null);
    }
    let radix = from.unsigned_abs() as u32;
    let body = text.trim_start_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    let (negative, digits) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let end = digits.find(|c: char| c.to_digit(radix).is_none()).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    // what is behind the digits is cut off in silence: of a number its fraction, or exponent
    let of_number = matches!(call.ready, Ready::Flag(true));
    let is_number = !digits.is_empty() && (rest.is_empty() || rest.starts_with('.') || of_number);
    let out_of_range = || Failure::new(codes::OUT_OF_RANGE, "the number does not fit 64 bits");
    if !is_number {
        let headline = format!("the text is not a number in base {radix}");
        return Err(Failure::new(codes::OUT_OF_RANGE, headline).into());
    }
    let size = u64::from_str_radix(digits, radix).map_err(|_| out_of_range())?;
    let bits = match (negative, from < 0) {
        (false, false) => size,
        (true, false) => size.wrapping_neg(),
        (false, true) => i64::try_from(size).map_err(|_| out_of_range())? as u64,
        (true, true) if size <= 1 << 63 => size.wrapping_neg(),
        (true, true) => return Err(out_of_range().into()),
    };
    let signed = to < 0 && (bits as i64) < 0;
    let mut left = if signed { (bits as i64).unsigned_abs() } else { bits };
    let radix = to.unsigned_abs();
    let mut out = Vec::new();
    loop {
        out.push(char::from_digit((left % radix) as u32, radix as u32).unwrap_or('0').to_ascii_uppercase());
        left /= radix;
        if left == 0 {
            break;
        }
    }
    if signed {
        out.push('-');
    }
    Ok(owned(out.into_iter().rev().collect()))
}

/// The bytes of a UUID in one of its three spellings.
fn uuid_of(text: &[u8]) -> Option<[u8; 16]> {
    let body = match text.len() {
        38 => text.strip_prefix(b"{")?.strip_suffix(b"}")?,
        _ => text,
    };
    let digits: Vec<u8> = match body.len() {
        32 => body.to_vec(),
        36 => {
            if [8, 13, 18, 23].iter().any(|i| body[*i] != b'-') {
                return None;
            }
            let hyphen = |i: usize| matches!(i, 8 | 13 | 18 | 23);
            body.iter().enumerate().filter(|(i, _)| !hyphen(*i)).map(|(_, b)| *b).collect()
        }
        _ => return None,
    };
    unhex(&digits)?.try_into().ok()
}

/// `time-low time-mid time-high ..` to `time-high time-mid time-low ..`.
fn swapped(b: [u8; 16]) -> [u8; 16] {
    let mut out = b;
    out[..2].copy_from_slice(&b[6..8]);
    out[2..4].copy_from_slice(&b[4..6]);
    out[4..8].copy_from_slice(&b[..4]);
    out
}

fn unswapped(b: [u8; 16]) -> [u8; 16] {
    let mut out = b;
    out[6..8].copy_from_slice(&b[..2]);
    out[4..6].copy_from_slice(&b[2..4]);
    out[..4].copy_from_slice(&b[4..8]);
    out
}

/// The second argument: NULL is no swap.
fn is_swapped<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<bool, Fault> {
    Ok(call.args.len() == 2 && call.number(env, 1)?.is_some_and(|n| n.is_true()))
}

fn bind_uuid_to_bin(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    if let Some(swap) = args.args.get(1) {
        binder.ensure_number(swap, &args.name)?;
    }
    let mut rest = args.args.into_iter();
    let text = binder.text_of(rest.next()?)?;
    let ty = ExprType::new(ColumnType::VarBinary { length: 16 }, text.ty().nullable);
    let bound = std::iter::once(text).chain(rest).collect();
    binder.evaluated(bound, ty, &args.span, |call, env| {
        let Some(text) = call.bytes(env, 0)? else { return Ok(Value::Null) };
        let Some(bytes) = uuid_of(&text) else {
            return Err(Failure::new(codes::OUT_OF_RANGE, "the text is not a UUID").into());
        };
        let bytes = if is_swapped(call, env)? { swapped(bytes) } else { bytes };
        Ok(Value::Bytes(bytes.to_vec().into()))
    })
}

fn bind_bin_to_uuid(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let class = args.args[0].ty().class();
    if class != Class::Bytes && class != Class::Null {
        let headline = format!("\"bin_to_uuid\" takes bytes, and {} is none", describe(&args.args[0]));
        let diagnostic = binder.mismatch(&args.args[0].span().clone(), headline);
        return binder.refuse(diagnostic);
    }
    if let Some(swap) = args.args.get(1) {
        binder.ensure_number(swap, &args.name)?;
    }
    let ty = ascii_text(36, args.args[0].ty().nullable);
    binder.evaluated(args.args, ty, &args.span, |call, env| {
        let Some(bytes) = call.bytes(env, 0)? else { return Ok(Value::Null) };
        let Ok(bytes) = <[u8; 16]>::try_from(&*bytes) else {
            return Err(Failure::new(codes::OUT_OF_RANGE, "a UUID has 16 bytes").into());
        };
        let digits = lower_hex(&if is_swapped(call, env)? { unswapped(bytes) } else { bytes });
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Ok(owned(parts.join("-")))
    })
}

fn bind_inet_aton(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = binder.text_of(args.args.into_iter().next()?)?;
    let ty = ExprType::bigint(true, true);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        let number = call.text(env, 0)?.and_then(|text| address(&text));
        Ok(number.map_or(Value::Null, Value::UInt))
    })
}

/// An address; missing parts are zeros before the last one, as in `127.1`.
fn address(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split('.').collect();
    let part = |p: &&str| {
        let digits = p.bytes().all(|b| b.is_ascii_digit());
        match p.trim_start_matches('0') {
            _ if !digits => None,
            "" => Some(0),
            p => p.parse::<u8>().ok().map(u64::from),
        }
    };
    if text.is_empty() || parts.last().is_some_and(|p| p.is_empty()) || parts.len() > 4 {
        return None;
    }
    let numbers: Vec<u64> = parts.iter().map(part).collect::<Option<_>>()?;
    let (last, front) = numbers.split_last()?;
    let shift = match front.len() {
        1 => 16,
        2 => 8,
        _ => 0,
    };
    Some((front.iter().fold(0, |n, p| n << 8 | p) << shift << 8) + last)
}
