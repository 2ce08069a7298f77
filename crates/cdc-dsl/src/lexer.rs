//! Text to tokens.
//!
//! Two places look back: `/` begins a regular expression, and digits begin a name, only right after the dot
//! of a name. Everything else is decided by the characters alone, so a file can be read again from any
//! line. What is no token is reported here, once, and comes out as a token that the parser passes over in
//! silence, or as the nearest thing that was meant.

use crate::token::{Comment, Token, TokenKind};
use cdc_core::diagnostic::{Diagnostic, codes};

/// What the lexer gives.
pub(crate) struct Lexed {
    /// Ends with one token of kind `End`.
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Splits a text.
pub(crate) fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer {
        text,
        at: 0,
        line_start: 0,
        line_has_token: false,
        out: Lexed { tokens: Vec::new(), comments: Vec::new(), diagnostics: Vec::new() },
    };
    lexer.run();
    lexer.out
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line_start: usize,
    line_has_token: bool,
    out: Lexed,
}

/// A letter, a digit or `_`.
pub(crate) fn is_name_char(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn run(&mut self) {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
            self.line_start = self.at;
        }
        while let Some(c) = self.peek() {
            if c == '\n' {
                self.at += 1;
                self.line_start = self.at;
                self.line_has_token = false;
            } else if c.is_whitespace() {
                self.at += c.len_utf8();
            } else if self.is_comment() {
                let end = self.line_end(self.at);
                let trimmed = self.text[self.at..end].trim_end();
                let comment =
                    Comment { start: self.at, end: self.at + trimmed.len(), own_line: !self.line_has_token };
                self.out.comments.push(comment);
                self.at = end;
            } else {
                self.token(c);
            }
        }
        self.push(TokenKind::End, 0);
    }

    /// `--`, then white space or the end of the line.
    fn is_comment(&self) -> bool {
        self.rest().strip_prefix("--").is_some_and(|r| r.chars().next().is_none_or(char::is_whitespace))
    }

    fn line_end(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |i| from + i)
    }

    /// Takes `length` bytes as a token.
    fn push(&mut self, kind: TokenKind, length: usize) {
        self.out.tokens.push(Token {
            kind,
            start: self.at,
            end: self.at + length,
            first_on_line: !self.line_has_token,
            unclosed: false,
            column_one: self.at == self.line_start,
        });
        self.line_has_token = true;
        self.at += length;
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.out.diagnostics.push(diagnostic);
    }

    /// Right after the dot of a name, with no white space anywhere.
    fn after_name_dot(&self) -> bool {
        let [.., name, dot] = self.out.tokens.as_slice() else { return false };
        dot.kind == TokenKind::Dot
            && dot.end == self.at
            && name.end == dot.start
            && matches!(
                name.kind,
                TokenKind::Word
                    | TokenKind::Quoted
                    | TokenKind::Star
                    | TokenKind::Question
                    | TokenKind::Regex
            )
    }

    fn token(&mut self, c: char) {
        match c {
            '\'' | '"' => self.string(0, TokenKind::String),
            '`' => self.backticks(),
            'x' | 'X' if self.text[self.at + 1..].starts_with('\'') => self.string(1, TokenKind::Hex),
            'b' | 'B' if self.text[self.at + 1..].starts_with('\'') => self.string(1, TokenKind::Bits),
            '/' if self.after_name_dot() => self.regex(),
            '$' => self.param(),
            '0'..='9' if !self.after_name_dot() => self.number(),
            '.' if !self.after_name()
                && self.text[self.at + 1..].starts_with(|c: char| c.is_ascii_digit()) =>
            {
                self.number();
            }
            c if is_name_char(c) => {
                let length = self.rest().find(|c| !is_name_char(c)).unwrap_or(self.rest().len());
                self.push(TokenKind::Word, length);
            }
            c => self.symbol(c),
        }
    }

    /// Right after a name: `o.5` is not `o` and `.5`.
    fn after_name(&self) -> bool {
        self.out.tokens.last().is_some_and(|t| {
            t.end == self.at
                && matches!(t.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Star | TokenKind::Regex)
        })
    }

    fn symbol(&mut self, c: char) {
        use TokenKind::*;
        const SYMBOLS: &[(&str, TokenKind)] = &[
            ("->>", LongArrow),
            ("<=>", NullSafeEqual),
            ("->", Arrow),
            ("|>", Pipe),
            ("||", BarBar),
            ("=>", FatArrow),
            ("<=", LessEqual),
            (">=", GreaterEqual),
            ("<>", NotEqual),
            ("!=", NotEqual),
            ("<<", ShiftLeft),
            (">>", ShiftRight),
            ("&&", AndAnd),
            (".", Dot),
            (",", Comma),
            (":", Colon),
            ("(", OpenParen),
            (")", CloseParen),
            ("{", OpenBrace),
            ("}", CloseBrace),
            ("[", OpenBracket),
            ("]", CloseBracket),
            ("+", Plus),
            ("-", Minus),
            ("*", Star),
            ("/", Slash),
            ("%", Percent),
            ("^", Caret),
            ("~", Tilde),
            ("!", Bang),
            ("?", Question),
            ("=", Equal),
            ("<", Less),
            (">", Greater),
            ("&", Ampersand),
            ("|", Bar),
        ];
        if self.foreign_comment() {
            return;
        }
        match SYMBOLS.iter().find(|(s, _)| self.rest().starts_with(s)) {
            Some((s, kind)) => {
                if *kind == BarBar {
                    let d =
                        Diagnostic::error(codes::CONCAT_BARS, "\"||\" is not an operator of this language")
                            .at(self.at..self.at + 2, "or? concatenation?")
                            .help("write \"or\" between conditions, \"concat(a, b)\" to join texts");
                    self.report(d);
                }
                self.push(*kind, s.len());
            }
            None => self.stray(c),
        }
    }

    /// The comments of other languages: reported, and passed over as the comments that they are.
    fn foreign_comment(&mut self) -> bool {
        let rest = self.rest();
        let (mark, length) = if rest.starts_with("/*") {
            ("/*", rest.find("*/").map_or_else(|| rest.find('\n').unwrap_or(rest.len()), |i| i + 2))
        } else if rest.starts_with('#') {
            ("#", rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("//") {
            ("//", rest.find('\n').unwrap_or(rest.len()))
        } else {
            return false;
        };
        let d =
            Diagnostic::error(codes::UNEXPECTED_CHARACTER, format!("\"{mark}\" does not begin a comment"))
                .at(self.at..self.at + mark.len(), "")
                .help("write \"-- \": two hyphens and a space, up to the end of the line");
        self.report(d);
        // line by line, so that the places of lines stay right
        let end = self.at + length;
        while let Some(i) = self.text[self.at..end].find('\n') {
            self.at += i + 1;
            self.line_start = self.at;
            self.line_has_token = false;
        }
        self.at = end;
        true
    }

    fn stray(&mut self, c: char) {
        let span = self.at..self.at + c.len_utf8();
        let shown: String = if c.is_control() { c.escape_unicode().collect() } else { c.to_string() };
        let d = Diagnostic::error(codes::UNEXPECTED_CHARACTER, format!("unexpected character \"{shown}\""))
            .at(span, "");
        let d = match c {
            ';' => d.help("statements need no end mark: leave it out"),
            '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{2018}' | '\u{2019}' => {
                d.help("texts stand in straight quotes: \"..\" or '..'")
            }
            '@' | '\\' => d.help("a name with this character stands in backticks"),
            _ => d,
        };
        self.report(d);
        const CURLY: [char; 5] = ['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}'];
        if c == ';' {
            self.at += 1;
        } else if CURLY.contains(&c) {
            // a whole text in such quotes is one mistake
            let inner = self.at + c.len_utf8();
            let line = &self.text[inner..self.line_end(inner)];
            let close = line.char_indices().find(|(_, c)| CURLY.contains(c));
            let end = close.map_or(inner, |(i, c)| inner + i + c.len_utf8());
            self.push(TokenKind::Error, end - self.at);
        } else {
            self.push(TokenKind::Error, c.len_utf8());
        }
    }

    /// A text in quotes, `prefix` bytes before the opening quote.
    fn string(&mut self, prefix: usize, kind: TokenKind) {
        let open = self.at + prefix;
        let mut unclosed = false;
        let length = match quoted_end(self.text, open) {
            Some(end) if self.closes_here(open, end) => end - self.at,
            _ => {
                let mut end = self.line_end(open);
                end = open + self.text[open..end].trim_end().len();
                let d = Diagnostic::error(codes::UNTERMINATED, "this text has no end")
                    .at(open..end, "begins here")
                    .help("close it with the quote that it began with");
                self.report(d);
                unclosed = true;
                end - self.at
            }
        };
        let lines = self.text[self.at..self.at + length].rfind('\n').map(|i| self.at + i + 1);
        self.push(kind, length);
        if let Some(token) = self.out.tokens.last_mut() {
            token.unclosed = unclosed;
        }
        if let Some(start) = lines {
            self.line_start = start;
        }
    }

    /// A text over several lines is taken as such only if the rest of its last line holds an even number of
    /// its quotes, and none of its lines looks like code: else it was a quote that someone forgot, and the
    /// next text's beginning is not its end.
    fn closes_here(&self, open: usize, end: usize) -> bool {
        if !self.text[open..end].contains('\n') {
            return true;
        }
        let quote = &self.text[open..open + 1];
        let line_end = self.line_end(end);
        let even = self.text[end..line_end].matches(quote).count().is_multiple_of(2);
        even && !self.text[open..line_end].lines().skip(1).any(looks_like_code)
    }

    fn backticks(&mut self) {
        let line = self.line_end(self.at);
        let mut i = self.at + 1;
        while let Some(j) = self.text[i..line].find('`') {
            i += j + 1;
            if !self.text[i..line].starts_with('`') {
                let length = i - self.at;
                if length == 2 {
                    let d = Diagnostic::error(codes::UNEXPECTED_CHARACTER, "a name in backticks is empty")
                        .at(self.at..i, "");
                    self.report(d);
                    return self.push(TokenKind::Error, length);
                }
                return self.push(TokenKind::Quoted, length);
            }
            i += 1;
        }
        let end = self.at + self.text[self.at..line].trim_end().len();
        let d = Diagnostic::error(codes::UNTERMINATED, "this name has no closing backtick")
            .at(self.at..end, "begins here");
        self.report(d);
        self.push(TokenKind::Error, end - self.at);
    }

    fn regex(&mut self) {
        let line = self.line_end(self.at);
        let mut escaped = false;
        for (i, c) in self.text[self.at + 1..line].char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '/' => return self.push(TokenKind::Regex, i + 2),
                _ => {}
            }
        }
        let end = self.at + self.text[self.at..line].trim_end().len();
        let d = Diagnostic::error(codes::UNTERMINATED, "this regular expression has no end")
            .at(self.at..end, "begins here")
            .help("close it with \"/\" on the same line; write \"\\/\" for a slash in it");
        self.report(d);
        self.push(TokenKind::Error, end - self.at);
    }

    fn param(&mut self) {
        if let Some(length) = param_length(self.rest()) {
            return self.push(TokenKind::Param, length);
        }
        let length = if self.rest().starts_with("${") { 2 } else { 1 };
        let d = Diagnostic::error(codes::UNEXPECTED_CHARACTER, "\"$\" begins a parameter")
            .at(self.at..self.at + length, "")
            .help("write ${NAME}: letters, digits and \"_\" between the braces");
        self.report(d);
        self.push(TokenKind::Error, length);
    }

    fn number(&mut self) {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if rest.len() > 2 && (rest.starts_with("0x") || rest.starts_with("0X")) {
            let length = 2 + rest[2..].find(|c: char| !is_name_char(c)).unwrap_or(rest.len() - 2);
            if length > 2 && rest[2..length].bytes().all(|b| b.is_ascii_hexdigit()) {
                return self.push(TokenKind::Hex, length);
            }
        }
        let whole = digits(0);
        let mut length = whole;
        let mut fraction = false;
        if bytes.get(length) == Some(&b'.') {
            let n = digits(length + 1);
            fraction = true;
            length += 1 + n;
            if n == 0 {
                return self.malformed_number(length, "a number needs a digit after its dot");
            }
        }
        if matches!(bytes.get(length), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let n = digits((length + 1 + sign).min(bytes.len()));
            let end = length + 1 + sign + n;
            if n > 0 && !rest[end..].starts_with(is_name_char) {
                return self.push(TokenKind::Number, end);
            }
        }
        if rest[length..].starts_with(is_name_char) {
            let end = length + rest[length..].find(|c| !is_name_char(c)).unwrap_or(rest.len() - length);
            if fraction {
                return self.malformed_number(end, "letters behind a number");
            }
            // names may begin with digits, as in MySQL
            return self.push(TokenKind::Word, end);
        }
        self.push(TokenKind::Number, length);
    }

    fn malformed_number(&mut self, length: usize, what: &str) {
        let text = &self.rest()[..length];
        let d = Diagnostic::error(codes::MALFORMED_NUMBER, format!("\"{text}\" is not a number"))
            .at(self.at..self.at + length, what);
        let d = if text.ends_with('.') { d.help(format!("write \"{text}0\"")) } else { d };
        self.report(d);
        self.push(TokenKind::Number, length);
    }
}

/// Does a line look like one of a flow, or like the beginning of a statement?
fn looks_like_code(line: &str) -> bool {
    let trimmed = line.trim_start();
    let first = line.split(|c: char| !is_name_char(c)).next().unwrap_or_default();
    trimmed.starts_with("|>")
        || trimmed.starts_with("=>")
        || ["pipeline", "param", "source", "sink", "view", "test"].contains(&first)
        || line.starts_with(is_name_char) && line.contains("=>")
}

/// The end of a text in quotes that opens at `open`: behind the closing quote.
pub(crate) fn quoted_end(text: &str, open: usize) -> Option<usize> {
    let quote = text[open..].chars().next()?;
    let mut chars = text[open + 1..].char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
            } else {
                return Some(open + 1 + i + 1);
            }
        }
    }
    None
}

/// The bytes of a `${NAME}` at the beginning of a text.
pub(crate) fn param_length(text: &str) -> Option<usize> {
    let body = text.strip_prefix("${")?;
    let end = body.find('}')?;
    let name = &body[..end];
    let well_formed = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    well_formed.then_some(2 + end + 1)
}
