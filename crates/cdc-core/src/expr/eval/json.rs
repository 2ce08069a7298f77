//! JSON texts: the server's form of them, paths, and what lies at a path.
//!
//! # One form
//! A JSON value travels as the text that MySQL prints: members ordered by the length of their keys, then by
//! their bytes; `", "` and `": "` as separators; one way to write each string and number (`Json_wrapper`
//! in the server's source documentation). A JSON *column* comes in that form. A text is brought into it by
//! [`canonical`], as the server does when it parses one: the last of equal keys counts, whole numbers of
//! 64 bits stay whole, all others become doubles. So a part of a document is a slice of its text, and equal
//! strings are equal slices.
//!
//! # What the form does not say
//! A column may hold values that JSON has no word for: a DECIMAL prints like a double, a date like a string.
//! What asks for the *kind* of a value is therefore bound to texts only, where the question has one answer;
//! see [`is_unclear`] for the one place where two columns' strings could print alike and be different.
//!
//! # It ends on any input
//! Texts are nested at most [`MAX_DEPTH`] deep, as the server allows; slices are walked without recursion.

use super::Failure;
use super::decimal::Decimal;
use super::number::shortest_text;
use crate::codes;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// The server's `JSON_DOCUMENT_MAX_DEPTH`.
const MAX_DEPTH: usize = 100;

/// A JSON value of a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'t> {
    /// `null`, `true`, `false`.
    Word(&'static str),
    /// As it is printed.
    Number(Cow<'t, str>),
    String(Cow<'t, str>),
    Array(Vec<Json<'t>>),
    /// In the server's order of keys.
    Object(Vec<(Cow<'t, str>, Json<'t>)>),
}

/// The server's error 3141.
fn no_json() -> Failure {
    // the text itself is not shown: it may have come from the environment
    Failure::new(codes::OUT_OF_RANGE, "the text is not JSON")
}

fn odd_document() -> Failure {
    Failure::new(codes::STRUCTURE_DIFFERS, "a JSON value that is none")
}

/// A text in the form that the server prints.
///
/// # Errors
/// `OUT_OF_RANGE` where it is not JSON.
pub(crate) fn canonical(text: &str) -> Result<String, Failure> {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    parse(text)?.print(&mut out);
    Ok(out)
}

/// The value of a text.
pub(crate) fn parse(text: &str) -> Result<Json<'_>, Failure> {
    whole(Parser { text, at: 0, exact: false })
}

/// The value of a text in the server's form, whose numbers stay as they are printed: a DECIMAL is no double.
pub(crate) fn parse_exact(text: &str) -> Result<Json<'_>, Failure> {
    whole(Parser { text, at: 0, exact: true })
}

fn whole(mut parser: Parser<'_>) -> Result<Json<'_>, Failure> {
    let text = parser.text;
    parser.space();
    let value = parser.value(1)?;
    parser.space();
    if parser.at == text.len() { Ok(value) } else { Err(no_json()) }
}

/// Is it JSON?
pub(crate) fn is_valid(text: &str) -> bool {
    parse(text).is_ok()
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// Numbers are kept as they are written.
    exact: bool,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is = self.peek() == byte;
        self.at += usize::from(is);
        is
    }

    fn value(&mut self, depth: usize) -> Result<Json<'t>, Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::new(
                codes::OUT_OF_RANGE,
                "the JSON text is nested more than 100 levels deep",
            ));
        }
        match self.peek() {
            b'{' => self.object(depth),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                self.space();
                if self.eat(b']') {
                    return Ok(Json::Array(items));
                }
                loop {
                    self.space();
                    items.push(self.value(depth + 1)?);
                    self.space();
                    if self.eat(b']') {
                        return Ok(Json::Array(items));
                    }
                    if !self.eat(b',') {
                        return Err(no_json());
                    }
                }
            }
            b'"' => self.string().map(Json::String),
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                for word in ["null", "true", "false"] {
                    if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
                        self.at += word.len();
                        return Ok(Json::Word(word));
                    }
                }
                Err(no_json())
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'t>, Failure> {
        self.at += 1;
        let mut members: Vec<(Cow<'t, str>, Json<'t>)> = Vec::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != b'"' {
                return Err(no_json());
            }
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(no_json());
            }
            self.space();
            members.push((key, self.value(depth + 1)?));
            self.space();
            if self.eat(b'}') {
                break;
            }
            if !self.eat(b',') {
                return Err(no_json());
            }
        }
        // the sort is stable, so the last of equal keys is the last of its group, and it is the one that counts
        members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        members.reverse();
        members.dedup_by(|(a, _), (b, _)| a == b);
        members.reverse();
        Ok(Json::Object(members))
    }

    fn string(&mut self) -> Result<Cow<'t, str>, Failure> {
        self.at += 1;
        let start = self.at;
        let mut out: Option<String> = None;
        let mut plain = start;
        let text = self.text;
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        loop {
            match self.peek() {
                b'"' => {
                    let rest = part(plain, self.at);
                    self.at += 1;
                    return Ok(match out {
                        None => Cow::Borrowed(rest),
                        Some(mut out) => {
                            out.push_str(rest);
                            Cow::Owned(out)
                        }
                    });
                }
                b'\\' => {
                    let out = out.get_or_insert_default();
                    out.push_str(part(plain, self.at));
                    self.at += 1;
                    let c = self.escape()?;
                    out.push(c);
                    plain = self.at;
                }
                // the end of the text, too
                0..0x20 => return Err(no_json()),
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, Failure> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.four_digits()?;
                if (0xd800..0xdc00).contains(&code) {
                    if !(self.eat(b'\\') && self.eat(b'u')) {
                        return Err(no_json());
                    }
                    let low = self.four_digits()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(no_json());
                    }
                    code = 0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                // a low surrogate alone is no character
                char::from_u32(code).ok_or_else(no_json)?
            }
            _ => return Err(no_json()),
        })
    }

    fn four_digits(&mut self) -> Result<u32, Failure> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(no_json)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(no_json());
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| no_json())
    }

    fn digits(&mut self) -> Result<(), Failure> {
        if !self.peek().is_ascii_digit() {
            return Err(no_json());
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json<'t>, Failure> {
        let start = self.at;
        self.eat(b'-');
        if self.eat(b'0') {
            // no digit may follow
            if self.peek().is_ascii_digit() {
                return Err(no_json());
            }
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.eat(b'.') {
            whole = false;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        if self.exact {
            return Ok(Json::Number(text.into()));
        }
        if text == "-0" {
            return Ok(Json::Number("0".into()));
        }
        if whole && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()) {
            return Ok(Json::Number(text.into()));
        }
        match text.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(Json::Number(double_text(v).into())),
            _ => Err(Failure::new(codes::OUT_OF_RANGE, "a number in the JSON text is too large")),
        }
    }
}

/// A double as `my_gcvt()` lays it out in 34 places, and `.0` behind what would look like an integer.
pub(crate) fn double_text(value: f64) -> String {
    let text = shortest_text(value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent + 1;
    let len = digits.len() as i32;
    if point < -14 || point > 15 && len <= point {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{dot}{rest}e{exponent}");
    }
    if point <= 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    }
    if len <= point {
        return format!("{sign}{digits}{}.0", "0".repeat((point - len) as usize));
    }
    let (a, b) = digits.split_at(point as usize);
    format!("{sign}{a}.{b}")
}

/// A string in double quotes (`double_quote()`): escapes for the quote, the backslash and the characters
/// below U+0020; everything else, U+007F and `/` too, stands as it is.
pub(crate) fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl Json<'_> {
    /// As the server prints it.
    pub(crate) fn print(&self, out: &mut String) {
        match self {
            Json::Word(word) => out.push_str(word),
            Json::Number(text) => out.push_str(text),
            Json::String(text) => push_quoted(text, out),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.print(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    push_quoted(key, out);
                    out.push_str(": ");
                    value.print(out);
                }
                out.push('}');
            }
        }
    }

    /// Levels of nesting: 1 for a scalar and for an empty container.
    pub(crate) fn depth(&self) -> i64 {
        let below = match self {
            Json::Array(items) => items.iter().map(Json::depth).max(),
            Json::Object(members) => members.iter().map(|(_, v)| v.depth()).max(),
            _ => None,
        };
        1 + below.unwrap_or(0)
    }

    /// The word of JSON_TYPE (MySQL manual 14.17.5), of a value that was parsed from a text.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Json::Word("null") => "NULL",
            Json::Word(_) => "BOOLEAN",
            Json::Number(text) if text.contains(['.', 'e']) => "DOUBLE",
            Json::Number(text) if text.parse::<i64>().is_ok() => "INTEGER",
            Json::Number(_) => "UNSIGNED INTEGER",
            Json::String(_) => "STRING",
            Json::Array(_) => "ARRAY",
            Json::Object(_) => "OBJECT",
        }
    }

    /// Is `candidate` contained in it (manual 14.17.3, JSON_CONTAINS)?
    pub(crate) fn contains(&self, candidate: &Json<'_>) -> bool {
        match (self, candidate) {
            (Json::Object(members), Json::Object(wanted)) => {
                wanted.iter().all(|(key, value)| members.iter().any(|(k, v)| k == key && v.contains(value)))
            }
            (Json::Array(_), Json::Array(wanted)) => wanted.iter().all(|w| self.has_item(w)),
            (Json::Array(_), _) => self.has_item(candidate),
            _ => self.equals(candidate),
        }
    }

    fn has_item(&self, wanted: &Json<'_>) -> bool {
        let Json::Array(items) = self else { return false };
        items.iter().any(|item| item.contains(wanted))
    }

    /// Equal as JSON compares: numbers by value, all else by what it is.
    pub(crate) fn equals(&self, other: &Json<'_>) -> bool {
        match (self, other) {
            (Json::Number(a), Json::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
            (Json::Array(a), Json::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.equals(y))
            }
            (Json::Object(a), Json::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((k, x), (l, y))| k == l && x.equals(y))
            }
            _ => self == other,
        }
    }

    /// Does it hold a string that a value of a type without a JSON word prints as, too?
    pub(crate) fn is_unclear(&self) -> bool {
        match self {
            Json::String(text) => is_unclear(text),
            Json::Array(items) => items.iter().any(Json::is_unclear),
            Json::Object(members) => members.iter().any(|(_, v)| v.is_unclear()),
            _ => false,
        }
    }
}

/// Could this string be the print of a DATE, TIME, DATETIME or of bytes within a JSON column? The server tells
/// such a value from the string, its print does not.
pub(crate) fn is_unclear(text: &str) -> bool {
    let begins = text.strip_prefix('-').unwrap_or(text).as_bytes().first().is_some_and(u8::is_ascii_digit);
    let of_digits = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b':' | b'.' | b' '));
    let parts = text.contains(':') || text.matches('-').count() >= 2;
    text.starts_with("base64:type") || begins && of_digits && parts
}

/// Numbers by value; exactly, unless one is written with an exponent.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    if !a.contains('e')
        && !b.contains('e')
        && let (Some(x), Some(y)) = (Decimal::parse(a), Decimal::parse(b))
    {
        return x.compare(&y);
    }
    let (x, y) = (a.parse::<f64>().unwrap_or(0.0), b.parse::<f64>().unwrap_or(0.0));
    x.partial_cmp(&y).unwrap_or(Ordering::Equal)
}

/// A path (MySQL manual 13.5, "JSON Path Syntax"), but for `**`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `.key`, as it is printed with its quotes.
    Member(String),
    /// `.*`.
    AllMembers,
    /// `[n]`.
    Item(usize),
    /// `[last]`, `[last - n]`.
    FromLast(usize),
    /// `[*]`.
    AllItems,
}

impl Path {
    /// A path, or what is not understood of it.
    pub(crate) fn parse(text: &str) -> Result<Path, &'static str> {
        let mut rest = text.trim_matches(' ').strip_prefix('$').ok_or("a path begins with $")?;
        let mut steps = Vec::new();
        loop {
            rest = rest.trim_start_matches(' ');
            if rest.is_empty() {
                return Ok(Path { steps });
            }
            if rest.starts_with("**") {
                return Err("** is not built");
            }
            if let Some(behind) = rest.strip_prefix('.') {
                let behind = behind.trim_start_matches(' ');
                let (step, next) = member(behind)?;
                steps.push(step);
                rest = next;
            } else if let Some(behind) = rest.strip_prefix('[') {
                let (inside, next) = behind.split_once(']').ok_or("a [ without its ]")?;
                steps.push(item(inside.trim_matches(' '))?);
                rest = next;
            } else {
                return Err("a step of a path begins with a dot or with [");
            }
        }
    }

    /// Can it lead to several values?
    pub(crate) fn is_many(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::AllMembers | Step::AllItems))
    }

    /// The values that it leads to, as slices of a document in the server's form.
    pub(crate) fn values<'t>(&self, document: &'t str) -> Result<Vec<&'t str>, Failure> {
        self.walk(document, true)
    }

    /// The value that it leads to if only an array is taken for one.
    pub(crate) fn strictly<'t>(&self, document: &'t str) -> Result<Option<&'t str>, Failure> {
        Ok(self.walk(document, false)?.first().copied())
    }

    fn walk<'t>(&self, document: &'t str, wrap: bool) -> Result<Vec<&'t str>, Failure> {
        let mut found = vec![document];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.take(value, wrap, &mut next)?;
            }
            found = next;
        }
        Ok(found)
    }
}

fn member(text: &str) -> Result<(Step, &str), &'static str> {
    if let Some(rest) = text.strip_prefix('*') {
        return Ok((Step::AllMembers, rest));
    }
    if text.starts_with('"') {
        let mut parser = Parser { text, at: 0, exact: false };
        let key = parser.string().map_err(|_| "a key in quotes that is no JSON string")?;
        let mut quoted = String::new();
        push_quoted(&key, &mut quoted);
        return Ok((Step::Member(quoted), text.get(parser.at..).unwrap_or_default()));
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    match key.chars().next() {
        Some(c) if !c.is_ascii_digit() => Ok((Step::Member(format!("\"{key}\"")), rest)),
        _ => Err("a key that is no name stands in double quotes"),
    }
}

fn item(text: &str) -> Result<Step, &'static str> {
    let number = |text: &str| {
        let text = text.trim_matches(' ');
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| digits).map(|n| n as usize)
    };
    if text == "*" {
        return Ok(Step::AllItems);
    }
    if text == "last" {
        return Ok(Step::FromLast(0));
    }
    if let Some(behind) = text.strip_prefix("last") {
        let n = behind.trim_start_matches(' ').strip_prefix('-').and_then(number);
        return n.map(Step::FromLast).ok_or("within [ ] stands a number, last, last - n or *");
    }
    number(text).map(Step::Item).ok_or("within [ ] stands a number, last, last - n or *")
}

impl Step {
    fn take<'t>(&self, value: &'t str, wrap: bool, out: &mut Vec<&'t str>) -> Result<(), Failure> {
        match self {
            Step::Member(wanted) => {
                let found = Members::of(value, b'{').find(|part| match part {
                    Ok((key, _)) => key == wanted,
                    Err(_) => true,
                });
                out.extend(found.transpose()?.map(|(_, v)| v));
            }
            Step::AllMembers => {
                for part in Members::of(value, b'{') {
                    out.push(part?.1);
                }
            }
            Step::AllItems => {
                for part in Members::of(value, b'[') {
                    out.push(part?.1);
                }
            }
            // a scalar or an object is an array of one
            Step::Item(0) | Step::FromLast(0) if wrap && !value.starts_with('[') => out.push(value),
            Step::Item(n) => out.extend(Members::of(value, b'[').nth(*n).transpose()?.map(|(_, v)| v)),
            Step::FromLast(n) => {
                let items = Members::of(value, b'[').collect::<Result<Vec<_>, _>>()?;
                out.extend(items.len().checked_sub(n + 1).and_then(|i| items.get(i)).map(|(_, v)| *v));
            }
        }
        Ok(())
    }
}

/// The members of an object, or the items of an array with empty keys, of a document in the server's form;
/// none of anything else.
pub(crate) struct Members<'t> {
    text: &'t str,
    at: usize,
    keyed: bool,
    over: bool,
}

impl<'t> Members<'t> {
    /// `bracket`: `{` or `[`.
    pub(crate) fn of(text: &'t str, bracket: u8) -> Members<'t> {
        let over = text.as_bytes().first() != Some(&bracket) || text.len() <= 2;
        Members { text, at: 1, keyed: bracket == b'{', over }
    }

    fn part(&mut self) -> Option<(&'t str, &'t str)> {
        let mut key = "";
        if self.keyed {
            let end = end_of(self.text, self.at)?;
            key = self.text.get(self.at..end)?;
            self.at = end + 2;
        }
        let end = end_of(self.text, self.at)?;
        let value = self.text.get(self.at..end)?;
        if self.text.as_bytes().get(end) == Some(&b',') {
            self.at = end + 2;
        } else {
            self.over = true;
        }
        Some((key, value))
    }
}

impl<'t> Iterator for Members<'t> {
    /// The key with its quotes, and the value.
    type Item = Result<(&'t str, &'t str), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let part = self.part();
        self.over |= part.is_none();
        Some(part.ok_or_else(odd_document))
    }
}

/// The byte behind the value that begins at `at`.
fn end_of(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut i) = (0usize, at);
    loop {
        match bytes.get(i)? {
            b'"' => {
                i += 1;
                while *bytes.get(i)? != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                i += 1;
            }
            b'{' | b'[' => {
                depth += 1;
                i += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                i += 1;
            }
            b',' | b':' | b' ' if depth > 0 => {
                i += 1;
                continue;
            }
            _ => {
                let length = bytes[i..].iter().take_while(|b| !matches!(b, b',' | b'}' | b']')).count();
                if length == 0 {
                    return None;
                }
                i += length;
            }
        }
        if depth == 0 {
            return Some(i);
        }
    }
}

/// A string without its quotes and escapes, anything else as it is printed (JSON_UNQUOTE).
pub(crate) fn unquoted<'t>(value: Cow<'t, str>) -> Result<Cow<'t, str>, Failure> {
    if !value.starts_with('"') {
        return Ok(value);
    }
    if !value.contains('\\') {
        let inner = 1..value.len().saturating_sub(1);
        return Ok(match value {
            Cow::Borrowed(s) => Cow::Borrowed(s.get(inner).unwrap_or_default()),
            Cow::Owned(s) => Cow::Owned(s.get(inner).unwrap_or_default().to_owned()),
        });
    }
    let mut parser = Parser { text: &value, at: 0, exact: false };
    parser.string().map(|s| Cow::Owned(s.into_owned())).map_err(|_| odd_document())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_the_servers_form() {
        for (text, form) in [
            (" {\"bb\" : 1,\"a\":[ ],\"a\":{} } ", "{\"a\": {}, \"bb\": 1}"),
            (
                "[1.10, 1e2, -0, -0.0, 18446744073709551615, 18446744073709551616]",
                "[1.1, 100.0, 0, -0.0, 18446744073709551615, 1.8446744073709552e19]",
            ),
            ("\"\\u00e9\\/\\ud83d\\ude42\\u0001\"", "\"é/🙂\\u0001\""),
            ("null", "null"),
        ] {
            assert_eq!(canonical(text).ok().as_deref(), Some(form), "{text}");
        }
        for text in [
            "",
            "x",
            "01",
            "1.",
            "[1,]",
            "{\"a\"}",
            "\"a",
            "\"\n\"",
            "\"\\ud800\"",
            "nul",
            "1 2",
            "1e999",
            "[",
            "{\"a\":1",
        ] {
            assert!(canonical(text).is_err(), "{text}");
        }
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(is_valid(&deep(100)));
        assert!(!is_valid(&deep(101)));
        assert!(!is_valid(&"[".repeat(1_000_000)));
    }

    #[test]
    fn paths_lead_to_slices() {
        let document = "{\"a\": [1, {\"b\": \"x, \\\"]\"}], \"c d\": null}";
        let found = |path: &str| Path::parse(path).unwrap().values(document).unwrap();
        assert_eq!(found("$"), [document]);
        assert_eq!(found("$.a[1].b"), ["\"x, \\\"]\""]);
        assert_eq!(found("$ . a [last-1]"), ["1"]);
        assert_eq!(found("$.\"c d\"[0][last]"), ["null"]);
        assert_eq!(found("$.*").len(), 2);
        assert_eq!(found("$.a[*]"), ["1", "{\"b\": \"x, \\\"]\"}"]);
        assert_eq!(found("$.a[2]").len() + found("$.b").len() + found("$[1]").len(), 0);
        for path in ["", "a", "$.", "$..a", "$**.a", "$[", "$[-1]", "$.1", "$[1 to 2]", "$a"] {
            assert!(Path::parse(path).is_err(), "{path}");
        }
        for odd in ["{", "[1", "{\"a\"", "[,]", "{\"a\": \"", "[\"\\", "{1}", "[]]", "[1}"] {
            for path in ["$.a", "$.*", "$[1]", "$[*]", "$[last]"] {
                let _ = Path::parse(path).unwrap().values(odd);
            }
        }
    }
}
