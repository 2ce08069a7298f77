//! Partial JSON updates: a document and the differences that the log holds of it, to the text of the document after.
//!
//! With `binlog_row_value_options = PARTIAL_JSON` a PARTIAL_UPDATE_ROWS event may hold, in place of a document after a
//! change, what JSON_SET, JSON_REPLACE and JSON_REMOVE did to the one before (MySQL source documentation,
//! `Json_diff` in `json_diff.h`, written by `Json_diff_vector::write_binary`):
//!
//! ```text
//! differences = length (4 bytes) difference*
//! difference  = operation (1 byte: 0 REPLACE, 1 INSERT, 2 REMOVE) path value?       no value to REMOVE
//! path, value = length (packed integer) bytes                    a path as text, a value as a binary document
//! ```
//!
//! A path has no wildcards, and names what is there: nothing is wrapped into an array on the way, REPLACE and REMOVE need
//! the place, INSERT its parent. An INSERT into an array moves what is behind the place, so differences of arrays give
//! another document each time they are applied: they are applied once, to the very document that the image before holds.
//!
//! The members of an object stand in the order of `json_binary.h`, shorter names first, equally long ones by their bytes.

use super::{MAX_DEPTH, Printer, Size, flaw, push_quoted, tag, utf8};
use crate::decode::Flaw;
use crate::decode::bytes::Bytes;
use std::borrow::Cow;

/// Replaces the content of `out` by the text of the document that these differences make of `document`. `differences`: what
/// is behind the length of all of them.
pub fn apply_to_text(document: &[u8], differences: &[u8], out: &mut String) -> Result<(), Flaw> {
    let mut root = Node::parse(document)?;
    let mut input = Bytes(differences);
    while !input.is_empty() {
        let operation = input.u8()?;
        let legs = legs(utf8(input.lenenc_bytes()?)?)?;
        match operation {
            REPLACE => *root.seek(&legs)? = Node::parse(input.lenenc_bytes()?)?,
            INSERT => {
                let value = Node::parse(input.lenenc_bytes()?)?;
                root.insert(&legs, value)?;
            }
            REMOVE => root.remove(&legs)?,
            other => return Err(flaw(format!("there is no difference of kind {other}"))),
        }
    }
    out.clear();
    Printer { out, budget: usize::MAX }.node(&root, 0)
}

const REPLACE: u8 = 0;
const INSERT: u8 = 1;
const REMOVE: u8 = 2;

/// A value of a document; scalars stay the bytes that they are.
enum Node<'a> {
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    Array(Vec<Node<'a>>),
    Scalar(u8, &'a [u8]),
}

/// A step of a path.
enum Leg {
    Member(String),
    Cell(usize),
}

impl<'a> Node<'a> {
    fn parse(document: &'a [u8]) -> Result<Node<'a>, Flaw> {
        // the JSON null of a column that has no document, see `to_text`
        if document.is_empty() {
            return Ok(Node::Scalar(tag::LITERAL, &[0]));
        }
        let mut input = Bytes(document);
        let tag = input.u8()?;
        Parser { budget: document.len() }.value(tag, input.0, 0)
    }

    /// The value that a path leads to.
    fn seek(&mut self, legs: &[Leg]) -> Result<&mut Node<'a>, Flaw> {
        let mut here = self;
        for leg in legs {
            here = match (leg, here) {
                (Leg::Member(name), Node::Object(members)) => {
                    let at = place(members, name).map_err(|_| flaw("a difference finds no member"))?;
                    &mut members[at].1
                }
                (Leg::Cell(at), Node::Array(cells)) => {
                    cells.get_mut(*at).ok_or_else(|| flaw("a difference finds no cell"))?
                }
                _ => return Err(flaw("a difference finds another kind of value")),
            };
        }
        Ok(here)
    }

    fn insert(&mut self, legs: &[Leg], value: Node<'a>) -> Result<(), Flaw> {
        let (last, parent) = legs.split_last().ok_or_else(|| flaw("a difference inserts nowhere"))?;
        match (last, self.seek(parent)?) {
            (Leg::Member(name), Node::Object(members)) => match place(members, name) {
                Ok(_) => Err(flaw("a difference inserts a member that is there")),
                Err(at) => {
                    members.insert(at, (Cow::Owned(name.clone()), value));
                    Ok(())
                }
            },
            (Leg::Cell(at), Node::Array(cells)) => {
                cells.insert((*at).min(cells.len()), value);
                Ok(())
            }
            _ => Err(flaw("a difference finds another kind of value")),
        }
    }

    fn remove(&mut self, legs: &[Leg]) -> Result<(), Flaw> {
        let (last, parent) = legs.split_last().ok_or_else(|| flaw("a difference removes everything"))?;
        match (last, self.seek(parent)?) {
            (Leg::Member(name), Node::Object(members)) => {
                let at = place(members, name).map_err(|_| flaw("a difference finds no member"))?;
                members.remove(at);
            }
            (Leg::Cell(at), Node::Array(cells)) if *at < cells.len() => drop(cells.remove(*at)),
            _ => return Err(flaw("a difference finds no cell")),
        }
        Ok(())
    }
}

/// Where the member of this name is, or belongs.
fn place(members: &[(Cow<'_, str>, Node<'_>)], name: &str) -> Result<usize, usize> {
    members.binary_search_by(|(other, _)| (other.len(), other.as_bytes()).cmp(&(name.len(), name.as_bytes())))
}

struct Parser {
    /// As of [`Printer`].
    budget: usize,
}

impl Parser {
    fn spend(&mut self, n: usize) -> Result<(), Flaw> {
        self.budget = self.budget.checked_sub(n).ok_or_else(|| flaw("values overlap"))?;
        Ok(())
    }

    fn value<'a>(&mut self, tag: u8, bytes: &'a [u8], depth: usize) -> Result<Node<'a>, Flaw> {
        let size = match tag {
            tag::SMALL_OBJECT | tag::SMALL_ARRAY => Size::Small,
            tag::LARGE_OBJECT | tag::LARGE_ARRAY => Size::Large,
            // what it is is looked at when it is printed
            _ => return Ok(Node::Scalar(tag, bytes)),
        };
        if depth >= MAX_DEPTH {
            return Err(flaw("more than 100 levels"));
        }
        let object = matches!(tag, tag::SMALL_OBJECT | tag::LARGE_OBJECT);
        let entries = size.entries(bytes, object)?;
        self.spend(entries.count)?;
        let mut members = Vec::new();
        let mut cells = Vec::new();
        for i in 0..entries.count {
            let (tag, bytes) = entries.value(i)?;
            let value = self.value(tag, bytes, depth + 1)?;
            if object {
                let key = entries.key(i)?;
                self.spend(key.len())?;
                members.push((Cow::Borrowed(utf8(key)?), value));
            } else {
                cells.push(value);
            }
        }
        Ok(if object { Node::Object(members) } else { Node::Array(cells) })
    }
}

impl Printer<'_> {
    fn node(&mut self, node: &Node<'_>, depth: usize) -> Result<(), Flaw> {
        if depth > MAX_DEPTH {
            return Err(flaw("more than 100 levels"));
        }
        match node {
            Node::Scalar(tag, bytes) => return self.value(*tag, Bytes(bytes), depth),
            Node::Object(members) => {
                self.out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    push_quoted(key, self.out);
                    self.out.push_str(": ");
                    self.node(value, depth + 1)?;
                }
                self.out.push('}');
            }
            Node::Array(cells) => {
                self.out.push('[');
                for (i, value) in cells.iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.node(value, depth + 1)?;
                }
                self.out.push(']');
            }
        }
        Ok(())
    }
}

/// The steps of a path: `$.name`, `."any name"`, `[7]`.
fn legs(path: &str) -> Result<Vec<Leg>, Flaw> {
    let wrong = || flaw(format!("a difference at the path {path:?}"));
    let mut rest = path.strip_prefix('$').ok_or_else(wrong)?;
    let mut legs = Vec::new();
    while !rest.is_empty() {
        if let Some(cell) = rest.strip_prefix('[') {
            let (digits, behind) = cell.split_once(']').ok_or_else(wrong)?;
            legs.push(Leg::Cell(digits.parse().map_err(|_| wrong())?));
            rest = behind;
        } else if let Some(quoted) = rest.strip_prefix(".\"") {
            let (name, behind) = unquoted(quoted).ok_or_else(wrong)?;
            legs.push(Leg::Member(name));
            rest = behind;
        } else {
            let name = rest.strip_prefix('.').ok_or_else(wrong)?;
            let end = name.find(['.', '[']).unwrap_or(name.len());
            if end == 0 || name[..end].contains('*') {
                return Err(wrong());
            }
            legs.push(Leg::Member(name[..end].to_owned()));
            rest = &name[end..];
        }
    }
    Ok(legs)
}

/// A name behind its opening quote, and what is behind the closing one.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut high: Option<u32> = None;
    loop {
        let (at, c) = chars.next()?;
        let c = match c {
            '"' if high.is_none() => return Some((name, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let mut unit = 0;
                    for _ in 0..4 {
                        unit = unit << 4 | chars.next()?.1.to_digit(16)?;
                    }
                    match (high.take(), unit) {
                        (None, 0xd800..0xdc00) => {
                            high = Some(unit);
                            continue;
                        }
                        (Some(high), 0xdc00..0xe000) => {
                            char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00))?
                        }
                        (None, unit) => char::from_u32(unit)?,
                        _ => return None,
                    }
                }
                other => other,
            },
            other => other,
        };
        if high.is_some() {
            return None;
        }
        name.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// {"a": 1, "b": [true, "x"]}
    const DOCUMENT: &[u8] = &[
        0, 2, 0, 33, 0, 18, 0, 1, 0, 19, 0, 1, 0, 5, 1, 0, 2, 20, 0, b'a', b'b', 2, 0, 13, 0, 4, 1, 0, 12,
        10, 0, 1, b'x', 0,
    ];

    fn difference(operation: u8, path: &str, value: Option<&[u8]>) -> Vec<u8> {
        let mut out = vec![operation, path.len() as u8];
        out.extend(path.as_bytes());
        if let Some(value) = value {
            out.push(value.len() as u8);
            out.extend(value);
        }
        out
    }

    fn check(differences: &[Vec<u8>], expected: Option<&str>) {
        let mut out = String::new();
        let applied = apply_to_text(DOCUMENT, &differences.concat(), &mut out);
        match expected {
            Some(expected) => {
                applied.unwrap();
                assert_eq!(out, expected);
            }
            None => assert!(applied.is_err(), "{out}"),
        }
    }

    #[test]
    fn differences_are_applied_in_order() {
        let seven: &[u8] = &[5, 7, 0];
        check(&[], Some(r#"{"a": 1, "b": [true, "x"]}"#));
        check(&[difference(REPLACE, "$.a", Some(seven))], Some(r#"{"a": 7, "b": [true, "x"]}"#));
        check(&[difference(REPLACE, "$.b[1]", Some(seven))], Some(r#"{"a": 1, "b": [true, 7]}"#));
        check(&[difference(INSERT, "$.b[1]", Some(seven))], Some(r#"{"a": 1, "b": [true, 7, "x"]}"#));
        check(&[difference(INSERT, "$.b[9]", Some(seven))], Some(r#"{"a": 1, "b": [true, "x", 7]}"#));
        check(&[difference(REMOVE, "$.b[0]", None)], Some(r#"{"a": 1, "b": ["x"]}"#));
        check(&[difference(REMOVE, "$.a", None), difference(REMOVE, "$.b", None)], Some("{}"));
        // shorter names first
        check(
            &[
                difference(INSERT, "$.aa", Some(seven)),
                difference(INSERT, "$.\"a \\\"\\u0041\"", Some(seven)),
                difference(INSERT, "$.c", Some(seven)),
            ],
            Some(r#"{"a": 1, "b": [true, "x"], "c": 7, "aa": 7, "a \"A": 7}"#),
        );
        check(
            &[difference(REPLACE, "$.b", Some(DOCUMENT)), difference(REMOVE, "$.b.b[1]", None)],
            Some(r#"{"a": 1, "b": {"a": 1, "b": [true]}}"#),
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let seven: &[u8] = &[5, 7, 0];
        for (operation, path) in [
            (REPLACE, "$.c"),
            (REPLACE, "$.b[2]"),
            (REPLACE, "$.a[0]"),
            (REPLACE, "$[0]"),
            (INSERT, "$.a"),
            (INSERT, "$.c.d"),
            (INSERT, "$"),
            (REPLACE, "a"),
            (REPLACE, "$.*"),
            (REPLACE, "$[x]"),
            (REPLACE, "$.\"a"),
            (3, "$.a"),
        ] {
            check(&[difference(operation, path, Some(seven))], None);
        }
        check(&[difference(REMOVE, "$.c", None)], None);
        check(&[difference(REMOVE, "$.b[2]", None)], None);
        let whole = difference(REPLACE, "$.a", Some(seven));
        for n in 1..whole.len() {
            check(&[whole[..n].to_vec()], None);
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = StdRng::seed_from_u64(2);
        let seven: &[u8] = &[5, 7, 0];
        for _ in 0..100_000 {
            let mut document = DOCUMENT.to_vec();
            let mut differences =
                [difference(INSERT, "$.b[1]", Some(DOCUMENT)), difference(REPLACE, "$.b[1].a", Some(seven))]
                    .concat();
            for bytes in [&mut document, &mut differences] {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
            let _ = apply_to_text(&document, &differences, &mut String::new());
        }
    }
}
