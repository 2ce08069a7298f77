//! Regular expressions (MySQL manual 14.8.2).
//!
//! The server has ICU's, this program those of the crate `regex`: it takes time that is linear in the text, which
//! a pipeline needs, and has no look-around and no back references. A pattern therefore is read here, by the rules
//! of ICU, and written anew for the crate; what is not known to mean the same is refused when it is bound:
//! look-around, back references, possessive and atomic groups, flags within the pattern, `\p`, `\Q`, `\X` and the
//! like, sets of sets, and repetition of what can be empty. So patterns are constants.
//!
//! # What means the same
//! Both take the leftmost match, and among those at one place the one that comes first by the order of the
//! alternatives and the greed of the quantifiers. `.` stops at every line terminator of Unicode's. `\d`, `\w` and
//! `\s` are Unicode's in both.
//!
//! # `$`
//! At the end of the text, or in front of a line terminator that ends it. The crate only has the former, so a text
//! that ends with a line terminator is searched as it is and without it, and the match that begins first counts;
//! two that begin at one place and end at different ones are an error at that row. For this `$` must stand at the
//! end of its alternative.
//!
//! # Letter case
//! Counts if the collation of text and pattern says so, or the match type `c` or `i`. ICU folds some characters to
//! several (`ß` to `ss`) when it compares a run of letters; a text that holds such a character is an error where
//! the pattern has a run that it could be compared with.

use super::Function;
use super::text::{byte_of, owned, text_type};
use crate::codes;
use crate::expr::eval::{
    Args, Binder, BoundExpr, Call, Coercibility, Env, ExprType, Failure, Fault, Ready, describe,
    merge_collations,
};
use crate::schema::IntWidth;
use crate::value::Value;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "regexp_like",
        aliases: &[],
        signature: "regexp_like(text, pattern[, match_type])",
        help: "1 if the pattern is found in the text; also `text regexp pattern`. Match types: `c` letter case counts, `i` it does not, `n` the dot takes line ends too",
        examples: &[("regexp_like('order 66', '[0-9]+$')", "1"), ("'abc' regexp '^b'", "0")],
        refused: None,
        arity: (2, Some(3)),
        bind: |binder, args| {
            let (bound, _, ready) = searched(binder, args.args, 0, &args.name)?;
            let ty = ExprType::int(IntWidth::Int, false, bound.iter().any(|b| b.ty().nullable));
            binder.evaluated_with(bound, ty, &args.span, ready, |call, env| {
                let Some((text, regex)) = text_and_regex(call, env)? else { return Ok(Value::Null) };
                regex.ensure_clear(&text)?;
                Ok(Value::Int(i64::from(regex.find(&text, 0)?.is_some())))
            })
        },
    },
    Function {
        name: "regexp_instr",
        aliases: &[],
        signature: "regexp_instr(text, pattern[, position[, occurrence]])",
        help: "the character, from 1, at which the pattern is found; 0 if it is not",
        examples: &[("regexp_instr('dog cat dog', 'dog', 2)", "9")],
        refused: None,
        arity: (2, Some(4)),
        bind: |binder, args| {
            let (bound, _, ready) = searched(binder, args.args, 2, &args.name)?;
            let ty = ExprType::bigint(false, bound.iter().any(|b| b.ty().nullable));
            binder.evaluated_with(bound, ty, &args.span, ready, |call, env| {
                let Some(text) = call.text(env, 0)? else { return Ok(Value::Null) };
                match occurrence(call, env, &text, true)? {
                    None => Ok(Value::Null),
                    Some(None) => Ok(Value::Int(0)),
                    Some(Some((from, _))) => Ok(Value::Int(text[..from].chars().count() as i64 + 1)),
                }
            })
        },
    },
    Function {
        name: "regexp_substr",
        aliases: &[],
        signature: "regexp_substr(text, pattern[, position[, occurrence]])",
        help: "what the pattern matches, or NULL",
        examples: &[
            ("regexp_substr('order 66', '[0-9]+')", "'66'"),
            ("regexp_substr('abc def ghi', '[a-z]+', 1, 3)", "'ghi'"),
        ],
        refused: None,
        arity: (2, Some(4)),
        bind: |binder, args| {
            let (bound, ty, ready) = searched(binder, args.args, 2, &args.name)?;
            binder.evaluated_with(bound, ty.with_nullable(true), &args.span, ready, |call, env| {
                ensure_position(call, env, 2)?;
                let Some(text) = call.text(env, 0)? else { return Ok(Value::Null) };
                match occurrence(call, env, &text, false)? {
                    Some(Some((from, to))) => Ok(super::text::slice(text, from, to)),
                    _ => Ok(Value::Null),
                }
            })
        },
    },
    Function {
        name: "regexp_replace",
        aliases: &[],
        signature: "regexp_replace(text, pattern, replacement[, position[, occurrence]])",
        help: "every match, or that one, replaced; `$1` in the replacement is the first group, `\\\\$` a dollar",
        examples: &[
            ("regexp_replace('2026-01-31', '([0-9]+)-([0-9]+)', '$2/$1')", "'01/2026-31'"),
            ("regexp_replace('a  b   c', ' +', ' ')", "'a b c'"),
        ],
        refused: None,
        arity: (3, Some(5)),
        bind: bind_replace,
    },
];

/// A pattern, compiled.
#[derive(Debug)]
pub(crate) struct Regex {
    regex: regex::Regex,
    /// `$` stands in it.
    has_end: bool,
    /// `\b` or `\B` stands in it.
    has_boundary: bool,
    /// Letter case does not count, and it has a run of letters to which one character can fold.
    can_fold: bool,
}

fn in_doubt(why: &str) -> Failure {
    Failure::new(codes::OUT_OF_RANGE, why)
}

impl Regex {
    /// Is its meaning on this text that of the server?
    fn ensure_clear(&self, text: &str) -> Result<(), Failure> {
        if text.is_ascii() {
            return Ok(());
        }
        if self.can_fold && text.chars().any(folds_to_many) {
            return Err(in_doubt(
                "the text has a character that the server takes for several letters when letter case does not count",
            ));
        }
        // where a word ends, ICU looks past marks and format characters
        if self.has_boundary && text.chars().any(is_mark_or_format) {
            return Err(in_doubt(
                "the text has combining or format characters, at which \\b is another thing at the server",
            ));
        }
        Ok(())
    }

    /// The first match that begins at the byte `from` or behind it.
    fn find(&self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Failure> {
        let range = |m: regex::Match<'_>| (m.start(), m.end());
        let whole = self.regex.find_at(text, from).map(range);
        let Some(short) = self.shortened(text, from) else { return Ok(whole) };
        let cut = self.regex.find_at(short, from).map(range);
        match (whole, cut) {
            (Some(a), Some(b)) if a.0 == b.0 && a.1 != b.1 => {
                Err(in_doubt("the pattern matches with and without the line end at the end of the text"))
            }
            (Some(a), Some(b)) => Ok(Some(if b.0 < a.0 { b } else { a })),
            (a, b) => Ok(a.or(b)),
        }
    }

    /// The text without the line terminator at its end, where that matters.
    fn shortened<'t>(&self, text: &'t str, from: usize) -> Option<&'t str> {
        if !self.has_end {
            return None;
        }
        let short = text.strip_suffix("\r\n").or_else(|| text.strip_suffix(is_line_end))?;
        (from <= short.len()).then_some(short)
    }

    fn captures<'t>(&self, text: &'t str, found: (usize, usize)) -> Option<regex::Captures<'t>> {
        let same = |c: &regex::Captures<'t>| c.get(0).is_some_and(|m| (m.start(), m.end()) == found);
        self.regex
            .captures_at(text, found.0)
            .filter(same)
            .or_else(|| self.regex.captures_at(self.shortened(text, found.0)?, found.0).filter(same))
    }
}

/// Unicode's line terminators.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Characters that full case folding makes into several (Unicode's CaseFolding.txt, status F).
fn folds_to_many(c: char) -> bool {
    matches!(u32::from(c),
        0xdf | 0x130 | 0x149 | 0x1f0 | 0x390 | 0x3b0 | 0x587 | 0x1e96..=0x1e9e | 0x1f50..=0x1f56 | 0x1f80..=0x1faf
        | 0x1fb2..=0x1fbc | 0x1fc2..=0x1fcc | 0x1fd2..=0x1fd7 | 0x1fe2..=0x1fe7 | 0x1ff2..=0x1ffc
        | 0xfb00..=0xfb06 | 0xfb13..=0xfb17)
}

fn is_mark_or_format(c: char) -> bool {
    static ODD: std::sync::LazyLock<Option<regex::Regex>> =
        std::sync::LazyLock::new(|| regex::Regex::new(r"^[\p{M}\p{Cf}]$").ok());
    ODD.as_ref().is_none_or(|odd| odd.is_match(c.encode_utf8(&mut [0; 4])))
}

/// Text and pattern bound, with what the result would be as a text, and the pattern compiled. `numbers`: how many of
/// the last arguments may be numbers; else the last one may be a match type.
fn searched(
    binder: &mut Binder<'_>,
    args: Vec<BoundExpr>,
    numbers: usize,
    name: &str,
) -> Option<(Vec<BoundExpr>, ExprType, Ready)> {
    let mut rest = args.into_iter();
    let (text, pattern) = (binder.text_of(rest.next()?), binder.text_of(rest.next()?));
    let rest: Vec<BoundExpr> = rest.collect();
    let (text, pattern) = (text?, pattern?);
    let (charset, coercibility) = merge_collations(text.ty(), pattern.ty());
    // constants compare by code point here, see `Collator::LITERAL`
    let mut sensitive = match &*charset.collation {
        _ if coercibility >= Coercibility::Literal => Some(true),
        _ if coercibility == Coercibility::NoCollation => None,
        "binary" => Some(true),
        name if name.ends_with("_bin") || name.ends_with("_cs") => Some(true),
        name if name.ends_with("_ci") => Some(false),
        _ => None,
    };
    let mut dot_takes_all = false;
    if numbers == 0 {
        if let Some(option) = rest.first() {
            let letters = option.const_text().map(str::to_owned);
            let span = option.span().clone();
            for letter in letters.as_deref().unwrap_or("?").chars() {
                match letter {
                    'c' => sensitive = Some(true),
                    'i' => sensitive = Some(false),
                    'n' => dot_takes_all = true,
                    _ => {
                        let diagnostic = binder
                            .mismatch(&span, "a match type is a constant text of the letters c, i and n");
                        return binder.refuse(diagnostic);
                    }
                }
            }
        }
    } else {
        for number in &rest {
            binder.ensure_number(number, name)?;
        }
    }
    let Some(sensitive) = sensitive else {
        let headline = format!("whether letter case counts in {} is not known", describe(&text));
        let diagnostic =
            crate::Diagnostic::error(codes::COLLATION_NOT_BUILT, headline).at(text.span().clone(), "");
        return binder
            .refuse(diagnostic.help("write `collate utf8mb4_bin` behind it, or the match type 'c' or 'i'"));
    };
    let span = pattern.span().clone();
    let compiled = match pattern.const_text() {
        Some(text) => compile(text, sensitive, dot_takes_all),
        None if pattern.ty().class() == crate::expr::eval::Class::Null => compile("a", true, false),
        None => Err("a pattern is a constant text".to_owned()),
    };
    let regex = match compiled {
        Ok(regex) => regex,
        Err(why) => {
            let diagnostic = binder.mismatch(&span, why);
            return binder.refuse(diagnostic);
        }
    };
    let length = text.ty().text_length();
    let nullable = text.ty().nullable || pattern.ty().nullable || rest.iter().any(|r| r.ty().nullable);
    let parts = [text];
    let ty = text_type(&parts, length, nullable);
    let [text] = parts;
    let bound = [text, pattern].into_iter().chain(rest.into_iter().filter(|_| numbers > 0)).collect();
    Some((bound, ty, Ready::Regex(Arc::new(regex))))
}

fn text_and_regex<'a>(call: &'a Call, env: &Env<'a, '_>) -> Result<Option<(Cow<'a, str>, &'a Regex)>, Fault> {
    let (Some(text), Some(_)) = (call.text(env, 0)?, call.text(env, 1)?) else { return Ok(None) };
    let Ready::Regex(regex) = &call.ready else { return Ok(None) };
    Ok(Some((text, regex)))
}

/// A position that is not behind the first character, which the server looks at before it looks at the text.
fn ensure_position<'a>(call: &'a Call, env: &Env<'a, '_>, index: usize) -> Result<(), Fault> {
    match call.args.get(index) {
        Some(_) if call.whole(env, index)?.is_some_and(|n| n <= 0) => Err(off_text()),
        _ => Ok(()),
    }
}

/// The server's errors 3686 and 1583.
fn off_text() -> Fault {
    Failure::new(codes::OUT_OF_RANGE, "the position is not within the text").into()
}

/// The byte at which a search begins, of a position in characters. `last`: may it stand behind the last one?
fn start_of<'a>(
    call: &'a Call,
    env: &Env<'a, '_>,
    index: usize,
    text: &str,
    last: bool,
) -> Result<Option<usize>, Fault> {
    if call.args.len() <= index {
        return Ok(Some(0));
    }
    let Some(position) = call.whole(env, index)? else { return Ok(None) };
    let skipped = position.checked_sub(1).and_then(|n| usize::try_from(n).ok());
    let chars = text.chars().count();
    match skipped.filter(|n| *n < chars || *n == chars && (last || chars == 0)) {
        Some(n) => Ok(Some(byte_of(text, n))),
        None => Err(off_text()),
    }
}

/// The match that is asked for: `None` is NULL, `Some(None)` is that there is none. `cut`: the text begins for the
/// pattern at the position, so that `^` and `\b` match there, as only REGEXP_INSTR has it.
#[allow(clippy::option_option)]
fn occurrence<'a>(
    call: &'a Call,
    env: &Env<'a, '_>,
    text: &str,
    cut: bool,
) -> Result<Option<Option<(usize, usize)>>, Fault> {
    let Some((_, regex)) = text_and_regex(call, env)? else { return Ok(None) };
    let Some(start) = start_of(call, env, 2, text, !cut)? else { return Ok(None) };
    let (shift, text, mut from) = if cut { (start, &text[start..], 0) } else { (0, text, start) };
    let wanted = if call.args.len() > 3 {
        let Some(n) = call.whole(env, 3)? else { return Ok(None) };
        n.max(1)
    } else {
        1
    };
    regex.ensure_clear(text)?;
    let mut seen = 0;
    while let Some(found) = regex.find(text, from)? {
        seen += 1;
        if seen == wanted {
            return Ok(Some(Some((found.0 + shift, found.1 + shift))));
        }
        match behind(text, found) {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(Some(None))
}

/// Where the next search begins: one character on behind an empty match.
fn behind(text: &str, found: (usize, usize)) -> Option<usize> {
    if found.1 > found.0 {
        return Some(found.1);
    }
    text.get(found.1..).and_then(|rest| rest.chars().next()).map(|c| found.1 + c.len_utf8())
}

fn bind_replace(binder: &mut Binder<'_>, args: Args) -> Option<BoundExpr> {
    let mut all = args.args;
    let replacement = binder.text_of(all.remove(2))?;
    let (mut bound, ty, ready) = searched(binder, all, 2, &args.name)?;
    let nullable = ty.nullable || replacement.ty().nullable;
    bound.insert(2, replacement);
    let ty = text_type(&bound[..1], u64::from(u32::MAX), nullable);
    binder.evaluated_with(bound, ty, &args.span, ready, |call, env| {
        ensure_position(call, env, 3)?;
        let Some((text, regex)) = text_and_regex(call, env)? else { return Ok(Value::Null) };
        let Some(replacement) = call.text(env, 2)? else { return Ok(Value::Null) };
        let Some(mut from) = start_of(call, env, 3, &text, true)? else { return Ok(Value::Null) };
        let wanted = if call.args.len() > 4 {
            let Some(n) = call.whole(env, 4)? else { return Ok(Value::Null) };
            // before the first there is none
            if n < 0 { 1 } else { n }
        } else {
            0
        };
        regex.ensure_clear(&text)?;
        if text.is_empty() {
            // nothing is put into an empty text, even where the pattern matches it
            return Ok(Value::Text(text));
        }
        let mut out = String::new();
        let (mut copied, mut seen) = (0, 0);
        while let Some(found) = regex.find(&text, from)? {
            seen += 1;
            if wanted == 0 || seen == wanted {
                out.push_str(&text[copied..found.0]);
                fill(&replacement, regex, &text, found, &mut out)?;
                copied = found.1;
                if out.len() > crate::expr::eval::MAX_RESULT {
                    return Err(crate::expr::eval::too_long());
                }
            }
            match behind(&text, found) {
                Some(next) if seen != wanted => from = next,
                _ => break,
            }
        }
        if copied == 0 && out.is_empty() && seen == 0 {
            return Ok(Value::Text(text));
        }
        out.push_str(&text[copied..]);
        Ok(owned(out))
    })
}

/// The replacement with its groups filled in, by ICU's rules: a number is as long as there are groups of it.
fn fill(
    replacement: &str,
    regex: &Regex,
    text: &str,
    found: (usize, usize),
    out: &mut String,
) -> Result<(), Fault> {
    if !replacement.contains(['$', '\\']) {
        out.push_str(replacement);
        return Ok(());
    }
    let odd = |why: &str| Fault::from(Failure::new(codes::OUT_OF_RANGE, why.to_owned()));
    let captures = regex
        .captures(text, found)
        .ok_or_else(|| odd("the groups of a match depend on the line end behind it"))?;
    let mut chars = replacement.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('u' | 'U') | None => {
                    return Err(odd("the replacement has a \\ that stands for nothing known"));
                }
                Some(c) => out.push(c),
            },
            '$' => {
                let mut group = None;
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                    let next = group.unwrap_or(0) * 10 + digit as usize;
                    if next >= captures.len() {
                        break;
                    }
                    group = Some(next);
                    chars.next();
                }
                let group =
                    group.ok_or_else(|| odd("a $ of the replacement names no group of the pattern"))?;
                out.push_str(captures.get(group).map_or("", |m| m.as_str()));
            }
            c => out.push(c),
        }
    }
    Ok(())
}

/// What a pattern means to ICU, for the crate; or what is not known to mean the same.
fn compile(pattern: &str, sensitive: bool, dot_takes_all: bool) -> Result<Regex, String> {
    if pattern.is_empty() {
        return Err("the pattern is empty".to_owned());
    }
    let mut translation = Translation {
        chars: pattern.chars().collect(),
        at: 0,
        out: String::new(),
        sensitive,
        dot_takes_all,
        has_end: false,
        has_boundary: false,
        run: String::new(),
        can_fold: false,
        depth: 0,
    };
    translation.alternatives()?;
    if translation.at < translation.chars.len() {
        return Err("the pattern has a ) without its (".to_owned());
    }
    let regex = regex::RegexBuilder::new(&translation.out)
        .case_insensitive(!sensitive)
        .size_limit(4 << 20)
        .build()
        .map_err(|_| "the pattern is too large".to_owned())?;
    Ok(Regex {
        regex,
        has_end: translation.has_end,
        has_boundary: translation.has_boundary,
        can_fold: translation.can_fold,
    })
}

/// Groups within each other.
const MAX_DEPTH: usize = 50;

struct Translation {
    chars: Vec<char>,
    at: usize,
    out: String,
    sensitive: bool,
    dot_takes_all: bool,
    has_end: bool,
    has_boundary: bool,
    /// The literal characters that stand side by side so far.
    run: String,
    can_fold: bool,
    depth: usize,
}

/// What was read: can it be empty, and may something follow it?
#[derive(Clone, Copy)]
struct Item {
    empty: bool,
    ends: bool,
}

impl Translation {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += usize::from(is);
        is
    }

    fn alternatives(&mut self) -> Result<Item, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the groups of the pattern are nested too deeply".to_owned());
        }
        let mut all = self.sequence()?;
        while self.eat('|') {
            self.out.push('|');
            let next = self.sequence()?;
            all = Item { empty: all.empty || next.empty, ends: all.ends || next.ends };
        }
        self.depth -= 1;
        Ok(all)
    }

    fn sequence(&mut self) -> Result<Item, String> {
        self.end_run();
        let mut all = Item { empty: true, ends: false };
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            if all.ends {
                return Err("a $ stands at the end of its alternative here".to_owned());
            }
            let item = self.item(c)?;
            let item = self.repeated(item)?;
            all = Item { empty: all.empty && item.empty, ends: item.ends };
        }
        self.end_run();
        Ok(all)
    }

    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run).to_lowercase();
        let latin = ["ss", "ff", "fi", "fl", "st"].iter().any(|pair| run.contains(pair));
        let other = run.chars().filter(|c| !c.is_ascii()).count() > 1;
        self.can_fold |= !self.sensitive && (latin || other);
    }

    fn item(&mut self, c: char) -> Result<Item, String> {
        const ONE: Item = Item { empty: false, ends: false };
        const NONE: Item = Item { empty: true, ends: false };
        self.at += 1;
        if !matches!(c, '\\') && !is_plain(c) {
            self.end_run();
        }
        match c {
            '.' if self.dot_takes_all => self.out.push_str("(?s:.)"),
            '.' => self.out.push_str(r"[^\n\x0B\x0C\r\x{85}\x{2028}\x{2029}]"),
            '^' => {
                self.out.push_str(r"\A");
                return Ok(NONE);
            }
            '$' => {
                self.has_end = true;
                self.out.push_str(r"\z");
                return Ok(Item { empty: true, ends: true });
            }
            '(' => {
                let opening = if self.eat('?') {
                    if !self.eat(':') {
                        return Err("of the groups that begin with (? only (?: is built".to_owned());
                    }
                    "(?:"
                } else {
                    "("
                };
                self.out.push_str(opening);
                let item = self.alternatives()?;
                if !self.eat(')') {
                    return Err("the pattern has a ( without its )".to_owned());
                }
                self.out.push(')');
                return Ok(item);
            }
            '[' => self.set()?,
            '\\' => return self.escape(),
            '*' | '+' | '?' | '{' => return Err("the pattern repeats nothing".to_owned()),
            '}' | ']' => return Err(format!("a {c} that closes nothing is written \\{c}")),
            c => self.literal(c)?,
        }
        Ok(ONE)
    }

    fn literal(&mut self, c: char) -> Result<(), String> {
        if !self.sensitive && !is_simply_cased(c) {
            return Err(format!(
                "the letter case of \"{c}\" is not built in patterns: write the match type 'c'"
            ));
        }
        self.run.push(c);
        let _ = write!(self.out, "\\x{{{:x}}}", u32::from(c));
        Ok(())
    }

    fn escape(&mut self) -> Result<Item, String> {
        let Some(c) = self.peek() else { return Err("the pattern ends with a \\".to_owned()) };
        let item = |empty| Ok(Item { empty, ends: false });
        if let 'd' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'A' | 'z' = c {
            self.at += 1;
            self.end_run();
            let _ = write!(self.out, "\\{c}");
            self.has_boundary |= matches!(c, 'b' | 'B');
            return item(matches!(c, 'b' | 'B' | 'A' | 'z'));
        }
        let c = self.escaped()?;
        self.literal(c)?;
        item(false)
    }

    /// The character that stands behind a `\`.
    fn escaped(&mut self) -> Result<char, String> {
        let c = self.peek().ok_or("the pattern ends with a \\")?;
        self.at += 1;
        Ok(match c {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'x' | 'u' => {
                let digits = if c == 'x' { 2 } else { 4 };
                let text: String = self.chars.iter().skip(self.at).take(digits).collect();
                let code = u32::from_str_radix(&text, 16)
                    .ok()
                    .filter(|_| text.chars().all(|c| c.is_ascii_hexdigit()));
                self.at += digits;
                match code.filter(|_| text.len() == digits).and_then(char::from_u32) {
                    Some(c) => c,
                    None => return Err(format!("\\{c} is followed by {digits} hexadecimal digits")),
                }
            }
            c if c.is_ascii_punctuation() || c == ' ' => c,
            c => return Err(format!("\\{c} is not built in patterns")),
        })
    }

    /// Quantifiers behind an item that was just written.
    fn repeated(&mut self, item: Item) -> Result<Item, String> {
        let quantifier = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => self.bounds()?,
            _ => return Ok(item),
        };
        self.at += 1;
        // what is repeated is compared alone
        self.run.pop();
        self.end_run();
        if item.ends {
            return Err("a $ is repeated".to_owned());
        }
        if item.empty {
            return Err("what is repeated can be empty".to_owned());
        }
        let _ = match quantifier {
            (least, Some(most)) => write!(self.out, "{{{least},{most}}}"),
            (least, None) => write!(self.out, "{{{least},}}"),
        };
        if self.eat('?') {
            self.out.push('?');
        }
        if matches!(self.peek(), Some('+' | '*' | '?' | '{')) {
            return Err("a quantifier behind a quantifier is not built".to_owned());
        }
        Ok(Item { empty: quantifier.0 == 0, ends: false })
    }

    /// `{n}`, `{n,}`, `{n,m}`, up to the closing bracket.
    fn bounds(&mut self) -> Result<(u32, Option<u32>), String> {
        let rest: String = self.chars[self.at + 1..].iter().take_while(|c| **c != '}').collect();
        let number =
            |s: &str| s.parse::<u32>().ok().filter(|n| *n <= 1000 && s.bytes().all(|b| b.is_ascii_digit()));
        let bounds = match rest.split_once(',') {
            None => number(&rest).map(|n| (n, Some(n))),
            Some((least, "")) => number(least).map(|n| (n, None)),
            Some((least, most)) => number(least).zip(number(most)).map(|(a, b)| (a, Some(b))),
        };
        self.at += 1 + rest.chars().count();
        match bounds {
            Some((a, most)) if self.peek() == Some('}') && most.is_none_or(|b| b >= a && b > 0) => {
                Ok((a, most))
            }
            _ => Err("braces hold {n}, {n,} or {n,m}, up to 1000".to_owned()),
        }
    }

    /// `[..]`, behind its opening bracket.
    fn set(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.eat('^') {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let Some(c) = self.peek() else { return Err("the pattern has a [ without its ]".to_owned()) };
            self.at += 1;
            let from = match c {
                ']' if first => return Err("an empty set, or one that begins with ]".to_owned()),
                ']' => break,
                '[' => {
                    self.class()?;
                    first = false;
                    continue;
                }
                '&' if self.peek() == Some('&') => return Err("&& in a set is not built".to_owned()),
                '-' if !first && self.peek() != Some(']') => {
                    return Err("a - in a set stands first or last".to_owned());
                }
                '\\' => match self.peek() {
                    Some(c @ ('d' | 'w' | 's' | 'D' | 'W' | 'S')) => {
                        self.at += 1;
                        let _ = write!(self.out, "\\{c}");
                        first = false;
                        continue;
                    }
                    _ => self.escaped()?,
                },
                c => c,
            };
            first = false;
            self.member(from)?;
            if self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']') {
                self.at += 1;
                let to = match self.peek() {
                    Some('\\') => {
                        self.at += 1;
                        self.escaped()?
                    }
                    Some('[' | '-') | None => return Err("a range of a set has two characters".to_owned()),
                    Some(c) => {
                        self.at += 1;
                        c
                    }
                };
                if to < from {
                    return Err("a range of a set goes backwards".to_owned());
                }
                self.out.push('-');
                self.member(to)?;
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn member(&mut self, c: char) -> Result<(), String> {
        // within a set folding is by character, and this one's partners are in both programs' tables
        if !self.sensitive && !is_simply_cased(c) {
            return Err(format!(
                "the letter case of \"{c}\" is not built in patterns: write the match type 'c'"
            ));
        }
        let _ = write!(self.out, "\\x{{{:x}}}", u32::from(c));
        Ok(())
    }

    /// `[:name:]`, behind its first bracket.
    fn class(&mut self) -> Result<(), String> {
        let rest: String = self.chars[self.at..].iter().take_while(|c| **c != ']').collect();
        let word = rest.strip_prefix(':').and_then(|r| r.strip_suffix(':'));
        let class = match word {
            Some("alpha") => r"\p{Alphabetic}",
            Some("digit") => r"\d",
            Some("alnum") => r"\p{Alphabetic}\d",
            Some("space") => r"\s",
            Some("upper") if self.sensitive => r"\p{Uppercase}",
            Some("lower") if self.sensitive => r"\p{Lowercase}",
            _ => return Err("a set within a set is not built, but for [:alpha:], [:digit:], [:alnum:], [:space:], [:upper:] and [:lower:]".to_owned()),
        };
        self.out.push_str(class);
        self.at += rest.chars().count() + 1;
        Ok(())
    }
}

fn is_plain(c: char) -> bool {
    !matches!(c, '.' | '^' | '$' | '(' | ')' | '[' | ']' | '{' | '}' | '*' | '+' | '?' | '|')
}

/// Is its case folding one character to one, the same in both programs, and no part of another's?
fn is_simply_cased(c: char) -> bool {
    let code = u32::from(c);
    let uncased = c.to_lowercase().eq([c]) && c.to_uppercase().eq([c]);
    match code {
        0..0x80 => true,
        // letters that fold to several, or to ASCII
        0xdf | 0x130 | 0x131 | 0x149 | 0x17f => false,
        0xc0..=0x17e | 0x391..=0x3a9 | 0x3b1..=0x3c9 | 0x400..=0x4ff => true,
        _ => uncased && !is_mark_or_format(c) && c != '\u{2bc}' && c != '\u{2be}',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_refused_where_the_two_programs_differ() {
        for pattern in [
            "", "(?=a)", "(?<n>a)", "(?i)a", "a++", "a*+", r"\p{L}", r"\1", r"\Qa\E", "[a&&b]", "[[a]b]",
            "[]a]", "a{2", "a{3,2}", "(a*)*", "(a|)+", "$a", "(a$)b", "*a", "a|*", ")", "(", "[a", "[z-a]",
            "\\", r"\x4", "a}", "a{0}", "a{2000}",
        ] {
            assert!(compile(pattern, true, false).is_err(), "{pattern}");
        }
        assert!(compile("straße", false, false).is_err());
        assert!(compile("straße", true, false).is_ok());
    }

    #[test]
    fn the_end_of_a_text_is_before_its_line_end_too() {
        let find = |pattern: &str, text: &str| compile(pattern, true, false).unwrap().find(text, 0).unwrap();
        assert_eq!(find("b$", "ab"), Some((1, 2)));
        assert_eq!(find("b$", "ab\n"), Some((1, 2)));
        assert_eq!(find("b$", "ab\r\n"), Some((1, 2)));
        assert_eq!(find("b$", "ab\n\n"), None);
        assert_eq!(find(".*$", "a\n"), Some((0, 1)));
        assert_eq!(find("^a|b$", "cb\n"), Some((1, 2)));
        assert!(compile("b\n?$", true, false).unwrap().find("ab\n", 0).is_err());
    }
}
