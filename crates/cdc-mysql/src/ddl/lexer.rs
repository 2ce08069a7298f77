//! The words of a statement, one at a time.
//!
//! A token borrows its text; nothing is decoded before somebody asks for it, so that a statement whose first
//! two words settle the matter costs two words. What the bytes mean depends on the `sql_mode` the statement
//! ran under and on the server: `"x"` is a name under ANSI_QUOTES, `\` is a letter under
//! NO_BACKSLASH_ESCAPES, `/*!80013 .. */` is code where the server is that new (manual 11.1 and 11.7).
//!
//! Every step moves forward, so a statement costs time in proportion to its length, whatever it holds.

use super::context::Context;
use std::borrow::Cow;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An unquoted name or keyword.
    Word,
    /// A quoted name.
    Quoted,
    /// `'..'`, or `".."` without ANSI_QUOTES.
    Text,
    /// `N'..'`.
    National,
    /// `X'..'` or `0x..`.
    Hex,
    /// `b'..'` or `0b..`.
    Bit,
    /// Digits, perhaps with a dot and an exponent; no sign.
    Number,
    /// A character that stands for itself.
    Symbol(u8),
    /// A quoted text, name or comment without its end.
    Unterminated,
    /// Behind the last token.
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// As written, quotes and all.
    pub(super) text: &'a str,
    /// Its first byte.
    pub(super) start: usize,
}

impl Token<'_> {
    /// Behind its last byte.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Is it this unquoted word, in any letter case?
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }
}

/// Reads tokens; a copy is a place to come back to.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Inside `/*! .. */` whose content is code.
    in_comment: bool,
    ansi_quotes: bool,
    backslash: bool,
    mariadb: bool,
    version: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, context: &Context<'_>) -> Lexer<'a> {
        Lexer {
            text,
            at: 0,
            in_comment: false,
            ansi_quotes: context.sql_mode.ansi_quotes,
            backslash: !context.sql_mode.no_backslash_escapes,
            mariadb: context.mariadb,
            version: context.version,
        }
    }

    fn byte(&self, at: usize) -> u8 {
        // 0 stands for "behind the end"; a NUL in the text itself ends nothing but the token it follows.
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn token(&mut self, kind: Kind, start: usize, end: usize) -> Token<'a> {
        let end = end.min(self.text.len());
        self.at = end;
        // Every end below lies behind an ASCII byte or a whole word, so `get` does not fail; if it ever did,
        // the rest of the text is one token that nothing accepts.
        match self.text.get(start..end) {
            Some(text) => Token { kind, text, start },
            None => {
                self.at = self.text.len();
                Token { kind: Kind::Unterminated, text: "", start: self.text.len() }
            }
        }
    }

    /// The next token; `End` for ever once the text is used up.
    pub(super) fn next(&mut self) -> Token<'a> {
        if let Some(start) = self.skip_blanks() {
            return self.token(Kind::Unterminated, start, self.text.len());
        }
        let start = self.at;
        if start >= self.text.len() {
            return Token { kind: Kind::End, text: "", start };
        }
        let byte = self.byte(start);
        let quote_follows = self.byte(start + 1) == b'\'';
        match byte {
            b'`' => self.quoted(Kind::Quoted, start, start, b'`', false),
            b'"' if self.ansi_quotes => self.quoted(Kind::Quoted, start, start, b'"', false),
            b'\'' | b'"' => self.quoted(Kind::Text, start, start, byte, self.backslash),
            b'n' | b'N' if quote_follows => {
                self.quoted(Kind::National, start, start + 1, b'\'', self.backslash)
            }
            b'x' | b'X' if quote_follows => self.quoted(Kind::Hex, start, start + 1, b'\'', false),
            b'b' | b'B' if quote_follows => self.quoted(Kind::Bit, start, start + 1, b'\'', false),
            b'0'..=b'9' => self.number(start),
            b'.' if self.byte(start + 1).is_ascii_digit() && !self.follows_name(start) => self.number(start),
            _ if is_word(byte) => {
                let end = self.word_end(start);
                self.token(Kind::Word, start, end)
            }
            _ => self.token(Kind::Symbol(byte), start, start + 1),
        }
    }

    /// Is the dot at `at` the one between two names? Then digits behind it are a name.
    fn follows_name(&self, at: usize) -> bool {
        at > 0 && {
            let before = self.byte(at - 1);
            is_word(before) || before == b'`' || (before == b'"' && self.ansi_quotes)
        }
    }

    fn word_end(&self, start: usize) -> usize {
        let rest = &self.text.as_bytes()[start.min(self.text.len())..];
        start + rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len())
    }

    fn digits_end(&self, start: usize) -> usize {
        let rest = &self.text.as_bytes()[start.min(self.text.len())..];
        start + rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len())
    }

    /// A name may begin with a digit: `1a` is one, `1e5` is not, `0x1g` is.
    fn number(&mut self, start: usize) -> Token<'a> {
        let word_end = self.word_end(start);
        let word = &self.text.as_bytes()[start..word_end.max(start)];
        let radix = |digit: fn(&u8) -> bool| word.len() > 2 && word[2..].iter().all(digit);
        if word.starts_with(b"0x") && radix(u8::is_ascii_hexdigit) {
            return self.token(Kind::Hex, start, word_end);
        }
        if word.starts_with(b"0b") && radix(|b| matches!(b, b'0' | b'1')) {
            return self.token(Kind::Bit, start, word_end);
        }
        let mut end = self.digits_end(start);
        if self.byte(end) == b'.' && (end == word_end) {
            end = self.digits_end(end + 1);
        }
        if matches!(self.byte(end), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(end + 1), b'+' | b'-'));
            let exponent_end = self.digits_end(end + 1 + sign);
            if exponent_end > end + 1 + sign {
                end = exponent_end;
            }
        }
        if end < self.word_end(start) {
            return self.token(Kind::Word, start, word_end);
        }
        self.token(Kind::Number, start, end)
    }

    /// A quoted token whose quote stands at `open`.
    fn quoted(&mut self, kind: Kind, start: usize, open: usize, quote: u8, backslash: bool) -> Token<'a> {
        let bytes = self.text.as_bytes();
        let mut at = open + 1;
        while at < bytes.len() {
            let byte = bytes[at];
            if byte == quote {
                if self.byte(at + 1) == quote {
                    at += 2;
                    continue;
                }
                return self.token(kind, start, at + 1);
            }
            // A backslash hides the next byte; where that is the first of a longer character, the others
            // are no quotes.
            at += if byte == b'\\' && backslash { 2 } else { 1 };
        }
        self.token(Kind::Unterminated, start, bytes.len())
    }

    /// Moves over blanks and comments. The start of a comment that does not end, if there is one.
    fn skip_blanks(&mut self) -> Option<usize> {
        loop {
            let start = self.at;
            match self.byte(start) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'#' => self.skip_line(),
                b'-' if self.byte(start + 1) == b'-'
                    && (start + 2 >= self.text.len() || self.byte(start + 2) <= b' ') =>
                {
                    self.skip_line();
                }
                b'/' if self.byte(start + 1) == b'*' => {
                    if !self.enter_comment() {
                        return Some(start);
                    }
                }
                b'*' if self.in_comment && self.byte(start + 1) == b'/' => {
                    self.in_comment = false;
                    self.at += 2;
                }
                _ => return None,
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |i| i + 1);
    }

    /// At `/*`: moves behind the comment, or behind its head if its content is code. False if it has no end.
    fn enter_comment(&mut self) -> bool {
        let start = self.at;
        let head = match (self.byte(start + 2), self.byte(start + 3)) {
            (b'!', _) => Some((start + 3, false)),
            (b'M', b'!') => Some((start + 4, true)),
            _ => None,
        };
        // Version comments do not nest in each other; one inside another is a plain comment.
        if let Some((digits, only_mariadb)) = head.filter(|_| !self.in_comment) {
            let end = self.digits_end(digits).min(digits + 6);
            let wanted = match end - digits {
                5 | 6 => self.text[digits..end].parse::<u32>().unwrap_or(0),
                _ => 0,
            };
            let behind = if wanted > 0 { end } else { digits };
            let is_code = if only_mariadb {
                self.mariadb && wanted <= self.version
            } else {
                // MariaDB takes 50700 to 99999 for MySQL's own and leaves them out.
                wanted <= self.version && !(self.mariadb && (50700..=99999).contains(&wanted))
            };
            if is_code {
                self.in_comment = true;
                self.at = behind;
                return true;
            }
            return self.skip_comment(start + 2, true);
        }
        self.skip_comment(start + 2, false)
    }

    /// Moves behind the `*/` of a comment; one that is not code may hold one level of comments.
    fn skip_comment(&mut self, from: usize, nests: bool) -> bool {
        let bytes = self.text.as_bytes();
        let mut at = from;
        let mut inner = false;
        while at + 1 < bytes.len() {
            match (bytes[at], bytes[at + 1]) {
                (b'*', b'/') if inner => {
                    inner = false;
                    at += 2;
                }
                (b'*', b'/') => {
                    self.at = at + 2;
                    return true;
                }
                (b'/', b'*') if nests => {
                    inner = true;
                    at += 2;
                }
                _ => at += 1,
            }
        }
        self.at = bytes.len();
        false
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// The name in a quoted token's text.
pub(super) fn unquote_name(raw: &str) -> Cow<'_, str> {
    let Some(quote) = raw.chars().next() else { return Cow::Borrowed(raw) };
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or("");
    if !inner.contains(quote) {
        return Cow::Borrowed(inner);
    }
    let twice: String = [quote, quote].iter().collect();
    Cow::Owned(inner.replace(&twice, &quote.to_string()))
}

/// The text in a text token, its quotes included (an `N` in front is passed over).
pub(super) fn unquote_text(raw: &str, backslash: bool) -> Cow<'_, str> {
    let raw = raw.strip_prefix(['n', 'N']).unwrap_or(raw);
    let Some(quote) = raw.chars().next() else { return Cow::Borrowed(raw) };
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or("");
    let is_plain = !inner.contains(quote) && (!backslash || !inner.contains('\\'));
    if is_plain {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            chars.next();
            text.push(quote);
        } else if c == '\\' && backslash {
            match chars.next() {
                Some('0') => text.push('\0'),
                Some('b') => text.push('\x08'),
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('t') => text.push('\t'),
                Some('Z') => text.push('\x1a'),
                // These two keep their backslash: they mean something to LIKE (manual 11.1.1).
                Some(wild @ ('%' | '_')) => text.extend(['\\', wild]),
                Some(other) => text.push(other),
                None => text.push('\\'),
            }
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

/// The bytes of a `X'..'`, `0x..`, `b'..'` or `0b..` token.
pub(super) fn unquote_bits(kind: Kind, raw: &str) -> Vec<u8> {
    let digits = raw.get(2..).unwrap_or("").trim_end_matches('\'').as_bytes();
    let (per_byte, radix) = if kind == Kind::Hex { (2, 16) } else { (8, 2) };
    digits
        .rchunks(per_byte)
        .rev()
        .map(|chunk| {
            chunk.iter().fold(0u8, |byte, &digit| {
                let value = char::from(digit).to_digit(radix).unwrap_or(0);
                byte.wrapping_mul(radix as u8).wrapping_add(value as u8)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(context: &Context<'_>, text: &str, expect: &str) {
        let mut lexer = Lexer::new(text, context);
        let mut got = Vec::new();
        loop {
            let token = lexer.next();
            if token.kind == Kind::End {
                break;
            }
            got.push(match token.kind {
                Kind::Symbol(b) => char::from(b).to_string(),
                Kind::Quoted => format!("Quoted:{}", unquote_name(token.text)),
                Kind::Text | Kind::National => {
                    format!("{:?}:{}", token.kind, unquote_text(token.text, lexer.backslash))
                }
                kind => format!("{kind:?}:{}", token.text),
            });
        }
        assert_eq!(got.join(" "), expect, "{text}");
    }

    #[test]
    fn ddl_tokens() {
        let mysql = Context::mysql(90704);
        check(&mysql, "a `b``c` \"d\" 'e''f\\'g' N'h'", "Word:a Quoted:b`c Text:d Text:e'f'g National:h");
        check(&mysql, "X'4a' 0x4a 0xzz b'01' 0b01", "Hex:X'4a' Hex:0x4a Word:0xzz Bit:b'01' Bit:0b01");
        check(
            &mysql,
            "1 1.5 .5 1e5 1e 1a 2e+3",
            "Number:1 Number:1.5 Number:.5 Number:1e5 Word:1e Word:1a Number:2e+3",
        );
        check(&mysql, "a.1b `a`.2", "Word:a . Word:1b Quoted:a . Number:2");
        check(&mysql, "a -- b\nc # d\ne --f", "Word:a Word:c Word:e - - Word:f");
        check(
            &mysql,
            "a /* ' */ b /*!80013 c */ /*!99999 d */ e /*! f */",
            "Word:a Word:b Word:c Word:e Word:f",
        );
        check(&mysql, "a /*M! b */ /*!999999 /* x */ y */ c", "Word:a Word:c");
        check(&mysql, "'a", "Unterminated:'a");
        check(&mysql, "a /* b", "Word:a Unterminated:/* b");
        check(&mysql, "größe \u{1f600}", "Word:größe Word:\u{1f600}");
        let mariadb = Context::mariadb(101119);
        check(&mariadb, "/*!80013 a */ /*M!100100 b */ /*!50100 c */ /*M!110000 d */", "Word:b Word:c");
        let mut ansi = Context::mysql(90704);
        ansi.sql_mode.ansi_quotes = true;
        ansi.sql_mode.no_backslash_escapes = true;
        check(&ansi, "\"a\"\"b\" 'c\\' d", "Quoted:a\"b Text:c\\ Word:d");
    }

    #[test]
    fn ddl_bits() {
        assert_eq!(unquote_bits(Kind::Hex, "0x41F"), [0x04, 0x1f]);
        assert_eq!(unquote_bits(Kind::Hex, "X'4142'"), b"AB");
        assert_eq!(unquote_bits(Kind::Bit, "b'101'"), [5]);
    }
}
