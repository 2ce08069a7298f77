//! Functions of JSON (MySQL manual 14.17).
//!
//! A document is a JSON column, or a text that is parsed; one that is no JSON is an error at its row, as it is
//! at the server. MySQL's form is given out, on MariaDB too, whose own functions leave a text as it was written.
//! Paths are constants: they are read once, and an error in them is found before anything runs.
//!
//! What asks what *kind* of value something is takes texts only: in a JSON column the server tells a DECIMAL
//! from a double and a date from a string, and the text that it prints does not. See `expr::eval::json`.

use super::Function;
use super::text::owned;
use crate::codes;
use crate::diagnostic::Span;
use crate::expr::eval::json::{self, Json, Members, Path};
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Class, Coercibility, Env, Evaluator, ExprType, Failure, Fault, MAX_RESULT,
    Ready, describe, too_long,
};
use crate::schema::{Charset, ColumnType, IntWidth};
use crate::value::Value;
use std::borrow::Cow;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "json_extract",
        aliases: &[],
        signature: "json_extract(document, path, ...)",
        help: "what stands at the path, as JSON; an array of all there is at several; also `document -> path`",
        examples: &[
            ("json_extract('{\"a\": [1, 2]}', '$.a[1]')", "cast('2' as json)"),
            ("json_extract('{\"a\": [1, 2]}', '$.a[*]')", "cast('[1, 2]' as json)"),
            ("json_extract('{\"a\": 1}', '$.b')", "NULL"),
        ],
        refused: None,
        arity: (2, None),
        bind: |binder, args| extracted(binder, args.args, false, &args.span),
    },
    Function {
        name: "json_unquote",
        aliases: &[],
        signature: "json_unquote(x)",
        help: "a JSON string without its quotes, anything else as its text; `document ->> path` is both in one",
        examples: &[("json_unquote('\"a\\\\tb\"')", "'a\tb'"), ("'{\"a\": \"x\"}' ->> '$.a'", "'x'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_unquote,
    },
    Function {
        name: "json_value",
        aliases: &[],
        signature: "json_value(document, path)",
        help: "the text of what stands at the path; NULL for the JSON null, and for more than 512 characters",
        examples: &[("json_value('{\"a\": \"x\"}', '$.a')", "'x'")],
        refused: None,
        arity: (2, Some(2)),
        bind: bind_value,
    },
    Function {
        name: "json_length",
        aliases: &[],
        signature: "json_length(document[, path])",
        help: "the items of an array, the members of an object, 1 for anything else",
        examples: &[("json_length('[1, 2, {}]')", "3"), ("json_length('{\"a\": [1]}', '$.b')", "NULL")],
        refused: None,
        arity: (1, Some(2)),
        bind: |binder, args| {
            at_path(binder, args, ExprType::bigint(false, true), |call, env| {
                let Some(value) = found(call, env)? else { return Ok(Value::Null) };
                let bracket = value.as_bytes().first().copied().unwrap_or(0);
                Ok(Value::Int(match bracket {
                    b'{' | b'[' => {
                        let mut count = 0;
                        for member in Members::of(&value, bracket) {
                            member?;
                            count += 1;
                        }
                        count
                    }
                    _ => 1,
                }))
            })
        },
    },
    Function {
        name: "json_keys",
        aliases: &[],
        signature: "json_keys(document[, path])",
        help: "the keys of an object, as a JSON array; NULL of anything else",
        examples: &[("json_keys('{\"bb\": 1, \"a\": 2}')", "cast('[\"a\", \"bb\"]' as json)")],
        refused: None,
        arity: (1, Some(2)),
        bind: |binder, args| {
            at_path(binder, args, json_type(true), |call, env| {
                // here alone an object is no array of one
                let Some(text) = document(call, env, 0)? else { return Ok(Value::Null) };
                let Ready::Paths(paths, _) = &call.ready else { return Ok(Value::Null) };
                let value = match paths.first() {
                    Some(path) => path.strictly(&text)?,
                    None => Some(&*text),
                };
                let Some(value) = value.filter(|v| v.starts_with('{')) else { return Ok(Value::Null) };
                let mut out = String::from("[");
                for member in Members::of(value, b'{') {
                    out.push_str(if out.len() > 1 { ", " } else { "" });
                    out.push_str(member?.0);
                }
                out.push(']');
                Ok(Value::Json(out.into()))
            })
        },
    },
    Function {
        name: "json_depth",
        aliases: &[],
        signature: "json_depth(document)",
        help: "levels of nesting, 1 for what holds nothing",
        examples: &[("json_depth('[1, {\"a\": []}]')", "3")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            at_path(binder, args, ExprType::bigint(false, true), |call, env| {
                Ok(match document(call, env, 0)? {
                    None => Value::Null,
                    Some(text) => Value::Int(json::parse(&text)?.depth()),
                })
            })
        },
    },
    Function {
        name: "json_valid",
        aliases: &[],
        signature: "json_valid(x)",
        help: "1 if it is JSON, 0 if not",
        examples: &[("json_valid('{\"a\": 1}')", "1"), ("json_valid('{a: 1}')", "0")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_valid,
    },
    Function {
        name: "json_type",
        aliases: &[],
        signature: "json_type(text)",
        help: "OBJECT, ARRAY, STRING, INTEGER, UNSIGNED INTEGER, DOUBLE, BOOLEAN or NULL, of a JSON text",
        examples: &[("json_type('[1]')", "'ARRAY'"), ("json_type('1.5')", "'DOUBLE'")],
        refused: None,
        arity: (1, Some(1)),
        bind: bind_type,
    },
    Function {
        name: "json_quote",
        aliases: &[],
        signature: "json_quote(text)",
        help: "the text as a JSON string, in quotes",
        examples: &[("json_quote('a\"b')", "'\"a\\\\\"b\"'")],
        refused: None,
        arity: (1, Some(1)),
        bind: |binder, args| {
            let arg = args.args.into_iter().next()?;
            let class = arg.ty().class();
            if class != Class::Null && !class.is_text() {
                let headline = format!("\"json_quote\" takes a text, and {} is none", describe(&arg));
                let diagnostic = binder.mismatch(&arg.span().clone(), headline);
                return binder.refuse(diagnostic.help("write `cast(.. as char)`"));
            }
            let arg = binder.text_of(arg)?;
            let length = arg.ty().text_length().saturating_mul(6).saturating_add(2);
            let ty = text_type(length, arg.ty().nullable);
            binder.evaluated(vec![arg], ty, &args.span, |call, env| {
                let Some(text) = call.text(env, 0)? else { return Ok(Value::Null) };
                let mut out = String::new();
                json::push_quoted(&text, &mut out);
                Ok(owned(out))
            })
        },
    },
    Function {
        name: "json_contains",
        aliases: &[],
        signature: "json_contains(document, candidate[, path])",
        help: "1 if the candidate, JSON too, is contained in the document, or in what stands at the path",
        examples: &[
            ("json_contains('{\"tags\": [\"a\", \"b\"]}', '\"a\"', '$.tags')", "1"),
            ("json_contains('{\"a\": 1, \"b\": 2}', '{\"a\": 2}')", "0"),
        ],
        refused: None,
        arity: (2, Some(3)),
        bind: |binder, args| compared(binder, args, |document, candidate| document.contains(candidate)),
    },
    Function {
        name: "json_contains_path",
        aliases: &[],
        signature: "json_contains_path(document, 'one' or 'all', path, ...)",
        help: "1 if something stands at one of the paths, or at all of them",
        examples: &[("json_contains_path('{\"a\": 1}', 'all', '$.a', '$.b')", "0")],
        refused: None,
        arity: (3, None),
        bind: bind_contains_path,
    },
];

fn json_type(nullable: bool) -> ExprType {
    ExprType::new(ColumnType::Json, nullable)
}

/// JSON's texts are utf8mb4 and compare under utf8mb4_bin (manual 13.5).
fn text_type(length: u64, nullable: bool) -> ExprType {
    ExprType::text(length, Charset::new("utf8mb4", "utf8mb4_bin"), Coercibility::Implicit, nullable)
}

/// A JSON value or a text that is parsed.
fn ensure_document(binder: &mut Binder<'_>, operand: &BoundExpr) -> Option<()> {
    let class = operand.ty().class();
    if matches!(class, Class::Json | Class::Text | Class::Null) {
        return Some(());
    }
    let headline = format!("{} is no JSON document", describe(operand));
    let diagnostic = binder.mismatch(&operand.span().clone(), headline);
    binder.refuse(match class {
        Class::Enum | Class::Set => diagnostic.help("write `cast(.. as char)`"),
        Class::Bytes => diagnostic.help("write `cast(.. as char)` if the bytes are UTF-8"),
        _ => diagnostic.help("a document is a JSON column or a text"),
    })
}

fn path_of(binder: &mut Binder<'_>, operand: &BoundExpr, many: bool) -> Option<Path> {
    let span = operand.span().clone();
    let path = match operand.const_text() {
        Some(text) => Path::parse(text),
        None => Err("a path into JSON is a constant text"),
    };
    match path {
        Ok(path) if path.is_many() && !many => {
            let diagnostic =
                binder.mismatch(&span, "a path with * leads to several values, and one is meant");
            binder.refuse(diagnostic)
        }
        Ok(path) => Some(path),
        Err(why) => {
            let diagnostic = binder.mismatch(&span, why);
            binder.refuse(
                diagnostic
                    .help("a path looks like '$.name', '$.\"a name\"', '$[0]', '$[last]' or '$.list[*]'"),
            )
        }
    }
}

/// The document in the server's form; `None` is NULL.
fn document<'a>(call: &'a Call, env: &Env<'a, '_>, index: usize) -> Result<Option<Cow<'a, str>>, Fault> {
    Ok(match call.value(env, index)? {
        None => None,
        Some(Value::Json(text)) => Some(text),
        Some(Value::Text(v) | Value::Enum { label: v, .. } | Value::Set { labels: v, .. }) => {
            Some(Cow::Owned(json::canonical(&v)?))
        }
        Some(other) => return Err(Failure::unexpected(&other, "JSON").into()),
    })
}

/// What the call's one path leads to in its first argument; the document itself where it has none.
fn found<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Option<Cow<'a, str>>, Fault> {
    let Some(text) = document(call, env, 0)? else { return Ok(None) };
    let Ready::Paths(paths, _) = &call.ready else { return Ok(Some(text)) };
    let Some(path) = paths.first() else { return Ok(Some(text)) };
    Ok(match text {
        Cow::Borrowed(s) => path.values(s)?.first().map(|v| Cow::Borrowed(*v)),
        Cow::Owned(s) => path.values(&s)?.first().map(|v| Cow::Owned((*v).to_owned())),
    })
}

/// `json_extract(document, path, ..)`; `unquoted`: `document ->> path`.
pub(crate) fn extracted(
    binder: &mut Binder<'_>,
    args: Vec<BoundExpr>,
    unquoted: bool,
    span: &Span,
) -> Option<BoundExpr> {
    let mut rest = args.into_iter();
    let document = rest.next()?;
    let known = ensure_document(binder, &document);
    let paths: Vec<_> = rest.map(|p| path_of(binder, &p, true)).collect();
    known?;
    let paths = paths.into_iter().collect::<Option<Vec<_>>>()?;
    let many = paths.len() > 1 || paths.iter().any(Path::is_many);
    let ready = Ready::Paths(paths, many);
    if unquoted {
        let ty = text_type(u64::from(u32::MAX), true);
        return binder.evaluated_with(vec![document], ty, span, ready, |call, env| {
            Ok(match eval_extract(call, env)? {
                Some(text) => Value::Text(json::unquoted(text)?),
                None => Value::Null,
            })
        });
    }
    binder.evaluated_with(vec![document], json_type(true), span, ready, |call, env| {
        Ok(eval_extract(call, env)?.map_or(Value::Null, Value::Json))
    })
}

fn eval_extract<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Option<Cow<'a, str>>, Fault> {
    let Ready::Paths(paths, many) = &call.ready else { return Ok(None) };
    if !many {
        return found(call, env);
    }
    let Some(text) = document(call, env, 0)? else { return Ok(None) };
    let mut values = Vec::new();
    let mut length = 0;
    for path in paths {
        let found = path.values(&text)?;
        length += found.iter().map(|v| v.len()).sum::<usize>();
        if length > MAX_RESULT {
            return Err(too_long());
        }
        values.extend(found);
    }
    Ok(if values.is_empty() { None } else { Some(format!("[{}]", values.join(", ")).into()) })
}

/// `cast(x as json)`.
pub(crate) fn parsed(binder: &mut Binder<'_>, operand: BoundExpr, span: &Span) -> Option<BoundExpr> {
    let class = operand.ty().class();
    if class == Class::Json {
        return Some(operand);
    }
    if class != Class::Null && !class.is_text() {
        let headline = format!("casts of {} to JSON are not built", describe(&operand));
        let diagnostic = crate::Diagnostic::error(codes::FEATURE_NOT_YET, headline).at(span.clone(), "");
        return binder.refuse(diagnostic.help("texts are cast to JSON"));
    }
    let ty = json_type(operand.ty().nullable);
    binder.evaluated(vec![operand], ty, span, |call, env| {
        Ok(document(call, env, 0)?.map_or(Value::Null, Value::Json))
    })
}

fn bind_unquote(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = args.args.into_iter().next()?;
    ensure_document(binder, &arg)?;
    let ty = text_type(arg.ty().text_length(), arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(match call.value(env, 0)? {
            None => Value::Null,
            Some(Value::Json(text)) => Value::Text(json::unquoted(text)?),
            Some(_) => {
                let text = call.text(env, 0)?.unwrap_or_default();
                // a text in quotes is a JSON string, any other stands for itself
                if text.len() < 2 || !text.starts_with('"') || !text.ends_with('"') {
                    return Ok(Value::Text(text));
                }
                match json::parse(&text)? {
                    Json::String(inner) => owned(inner.into_owned()),
                    _ => Value::Text(text),
                }
            }
        })
    })
}

fn bind_value(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    at_path(binder, args, text_type(512, true), |call, env| {
        let Some(value) = found(call, env)?.filter(|v| v != "null") else { return Ok(Value::Null) };
        let text = json::unquoted(value)?;
        Ok(if text.chars().count() > 512 { Value::Null } else { Value::Text(text) })
    })
}

/// A function of a document, and of the one value at a path if it has a second argument.
fn at_path(binder: &mut Binder<'_>, args: Args, ty: ExprType, eval: Evaluator) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let document = rest.next()?;
    let known = ensure_document(binder, &document);
    let path = match rest.next() {
        Some(path) => vec![path_of(binder, &path, false)?],
        None => Vec::new(),
    };
    known?;
    binder.evaluated_with(vec![document], ty, &args.span, Ready::Paths(path, false), eval)
}

fn bind_valid(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = args.args.into_iter().next()?;
    ensure_document(binder, &arg)?;
    let ty = ExprType::int(IntWidth::Int, false, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(match call.value(env, 0)? {
            None => Value::Null,
            Some(Value::Json(_)) => Value::Int(1),
            Some(_) => Value::Int(i64::from(json::is_valid(&call.text(env, 0)?.unwrap_or_default()))),
        })
    })
}

fn bind_type(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let arg = args.args.into_iter().next()?;
    if arg.ty().class() == Class::Json {
        let headline = format!("the kind of {} is not told by its text", describe(&arg));
        let diagnostic = binder.mismatch(&arg.span().clone(), headline);
        return binder.refuse(diagnostic.help("`json_type(cast(.. as char))` takes it as a JSON text, in which dates are strings and decimals doubles"));
    }
    ensure_document(binder, &arg)?;
    let ty = text_type(51, arg.ty().nullable);
    binder.evaluated(vec![arg], ty, &args.span, |call, env| {
        Ok(match call.text(env, 0)? {
            None => Value::Null,
            Some(text) => Value::Text(json::parse(&text)?.kind().into()),
        })
    })
}

/// Functions that compare two documents. A string of a column that could be the print of a date is compared only
/// with what it cannot be equal to, or with nothing at all.
fn compared(binder: &mut Binder<'_>, args: Args, f: fn(&Json<'_>, &Json<'_>) -> bool) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let (document, candidate) = (rest.next()?, rest.next()?);
    let (a, b) = (ensure_document(binder, &document), ensure_document(binder, &candidate));
    let path = match rest.next() {
        Some(path) => vec![path_of(binder, &path, false)?],
        None => Vec::new(),
    };
    a.and(b)?;
    let of_column = |e: &BoundExpr| e.ty().class() == Class::Json;
    let clear = match candidate.const_text() {
        Some(text) => json::parse(text).is_ok_and(|value| !value.is_unclear()),
        None => candidate.ty().class() == Class::Null,
    };
    if of_column(&candidate) || of_column(&document) && !clear {
        let which = if of_column(&candidate) { &candidate } else { &document };
        let headline = format!("whether {} holds dates or strings is not told by its text", describe(which));
        let diagnostic = binder.mismatch(&which.span().clone(), headline);
        return binder.refuse(diagnostic.help("write `cast(.. as char)` around it to take dates as strings, or compare with a constant that is no date"));
    }
    let ty = ExprType::int(IntWidth::Int, false, true);
    let ready = Ready::Documents(path, f);
    binder.evaluated_with(vec![document, candidate], ty, &args.span, ready, |call, env| {
        let Ready::Documents(paths, f) = &call.ready else { return Ok(Value::Null) };
        let (Some(text), Some(candidate)) = (self::document(call, env, 0)?, self::document(call, env, 1)?)
        else {
            return Ok(Value::Null);
        };
        let value = match paths.first() {
            Some(path) => match path.values(&text)?.first() {
                Some(value) => *value,
                None => return Ok(Value::Null),
            },
            None => &*text,
        };
        Ok(Value::Int(i64::from(f(&column_value(value)?, &json::parse(&candidate)?))))
    })
}

/// The value of a text in the server's form, in which a number may be a DECIMAL.
fn column_value(text: &str) -> Result<Json<'_>, Failure> {
    json::parse_exact(text)
}

fn bind_contains_path(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let mut rest = args.args.into_iter();
    let (document, how) = (rest.next()?, rest.next()?);
    let known = ensure_document(binder, &document);
    let all = match how.const_text().map(str::to_ascii_lowercase).as_deref() {
        Some("one") => Some(false),
        Some("all") => Some(true),
        _ => {
            let diagnostic = binder.mismatch(&how.span().clone(), "'one' or 'all' stands here");
            binder.refuse(diagnostic)
        }
    };
    let paths: Vec<_> = rest.map(|p| path_of(binder, &p, true)).collect();
    known?;
    let ready = Ready::Paths(paths.into_iter().collect::<Option<_>>()?, all?);
    let ty = ExprType::int(IntWidth::Int, false, document.ty().nullable);
    binder.evaluated_with(vec![document], ty, &args.span, ready, |call, env| {
        let Ready::Paths(paths, all) = &call.ready else { return Ok(Value::Null) };
        let Some(text) = self::document(call, env, 0)? else { return Ok(Value::Null) };
        for path in paths {
            if path.values(&text)?.is_empty() == *all {
                return Ok(Value::Int(i64::from(!all)));
            }
        }
        Ok(Value::Int(i64::from(*all)))
    })
}
