//! Tokens to a syntax tree, by recursive descent.
//!
//! Whatever is read, a tree comes out: a statement that cannot be read becomes `Broken` and the parser goes
//! on at the next line that begins in column 1 with neither `|>` nor `=>` (nor a closing bracket). Blocks of
//! options and of test steps mend themselves sooner, at the next thing that looks like an entry. A failure
//! is reported where it is found and travels up as [`Fail`], which carries nothing: so one mistake is
//! reported once.
//!
//! Keywords are contextual. The parser notes which words it took as keywords; the formatter spells those in
//! lower case and leaves names alone.

mod expr;
mod flow;
mod options;
mod statement;
mod test;
mod text;

use crate::ast::{File, Name, Span};
use crate::lexer::lex;
use crate::token::{Comment, Token, TokenKind};
use cdc_core::diagnostic::{Code, Diagnostic, codes};

/// Something was reported; the caller cannot go on with what it was reading.
pub(crate) struct Fail;

/// What a part of the parser gives.
pub(crate) type Parsed<T> = Result<T, Fail>;

/// Parentheses and brackets within each other, at most.
const MAX_NESTING: usize = 48;

/// What a token was taken for; only the formatter asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A name, a value, a sign.
    Plain,
    /// A keyword.
    Keyword,
    /// The name of a function or a type: its parenthesis stands right behind it.
    Function,
    /// Belongs to the token before, with no white space between: a part of a pattern.
    Joined,
}

/// A text, read.
pub(crate) struct Parse {
    pub file: File,
    pub tokens: Vec<Token>,
    pub comments: Vec<Comment>,
    /// For each token: what its word was taken for.
    pub roles: Vec<Role>,
    /// In the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a text.
pub(crate) fn parse(text: &str) -> Parse {
    let lexed = lex(text);
    let roles = vec![Role::Plain; lexed.tokens.len()];
    let mut parser = Parser {
        text,
        tokens: lexed.tokens,
        at: 0,
        roles,
        diagnostics: lexed.diagnostics,
        nesting: 0,
        silent: false,
    };
    let file = parser.file();
    let mut diagnostics = parser.diagnostics;
    diagnostics.sort_by_key(|d| d.labels.first().map_or(0, |l| l.span.start));
    Parse { file, tokens: parser.tokens, comments: lexed.comments, roles: parser.roles, diagnostics }
}

/// Reads a single value of an option, as it would be written; `None` if it is none.
pub(crate) fn parse_option_value(text: &str) -> Option<crate::ast::OptionValue> {
    let lexed = lex(text);
    if !lexed.diagnostics.is_empty() {
        return None;
    }
    let roles = vec![Role::Plain; lexed.tokens.len()];
    let mut parser = Parser {
        text,
        tokens: lexed.tokens,
        at: 0,
        roles,
        diagnostics: Vec::new(),
        nesting: 0,
        silent: false,
    };
    let value = parser.option_value().ok()?;
    (parser.kind() == TokenKind::End && parser.diagnostics.is_empty()).then_some(value)
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    roles: Vec<Role>,
    diagnostics: Vec<Diagnostic>,
    nesting: usize,
    /// The last failure was not reported, since it follows from one that was.
    silent: bool,
}

impl<'a> Parser<'a> {
    // The cursor.

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn kind(&self) -> TokenKind {
        self.token().kind
    }

    /// The kind of a token further on.
    fn kind_at(&self, ahead: usize) -> TokenKind {
        self.tokens.get(self.at + ahead).map_or(TokenKind::End, |t| t.kind)
    }

    fn text_of(&self, token: Token) -> &'a str {
        &self.text[token.span()]
    }

    fn span(&self) -> Span {
        self.token().span().into()
    }

    /// The place of the last token that was read.
    fn previous_span(&self) -> Span {
        self.at.checked_sub(1).map_or(Span::default(), |i| self.tokens[i].span().into())
    }

    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.kind() == kind;
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind, what: &str) -> Parsed<Token> {
        if self.kind() == kind { Ok(self.advance()) } else { Err(self.unexpected(what)) }
    }

    /// Does this token end where the next one begins?
    fn next_is_adjacent(&self) -> bool {
        self.tokens.get(self.at + 1).is_some_and(|next| next.start == self.token().end)
    }

    // Keywords and names.

    fn word_at(&self, ahead: usize, word: &str) -> bool {
        self.tokens
            .get(self.at + ahead)
            .is_some_and(|t| t.kind == TokenKind::Word && self.text_of(*t).eq_ignore_ascii_case(word))
    }

    fn at_word(&self, word: &str) -> bool {
        self.word_at(0, word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.roles[self.at] = Role::Keyword;
            self.advance();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.unexpected(&format!("\"{word}\""))) }
    }

    fn is_name(&self) -> bool {
        matches!(self.kind(), TokenKind::Word | TokenKind::Quoted)
    }

    /// A name: any word, or anything in backticks.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        if !self.is_name() {
            let fail = self.unexpected(what);
            if self.kind() == TokenKind::String {
                self.help("a name with other characters than letters, digits and \"_\" stands in backticks");
            }
            return Err(fail);
        }
        let token = self.advance();
        Ok(Name { text: unquote(self.text_of(token)), span: token.span().into() })
    }

    /// `(a, b, ..)`.
    fn name_list(&mut self, what: &str) -> Parsed<Vec<Name>> {
        self.expect(TokenKind::OpenParen, "\"(\"")?;
        let mut names = vec![self.name(what)?];
        while self.eat(TokenKind::Comma) {
            names.push(self.name(what)?);
        }
        self.expect(TokenKind::CloseParen, "\",\" or \")\"")?;
        Ok(names)
    }

    // Reporting.

    fn report(&mut self, code: Code, headline: impl Into<String>, span: Span, label: &str) {
        self.silent = false;
        self.diagnostics.push(Diagnostic::error(code, headline).at(span.range(), label));
    }

    /// Adds to the last report.
    fn help(&mut self, line: &str) {
        if let Some(last) = self.diagnostics.last_mut().filter(|_| !self.silent) {
            last.help.push(line.to_owned());
        }
    }

    /// Adds a place to the last report.
    fn label(&mut self, span: Span, message: &str) {
        if let Some(last) = self.diagnostics.last_mut().filter(|_| !self.silent) {
            *last = last.clone().at(span.range(), message);
        }
    }

    /// Reports that the present token is not what it should be, unless that follows from what the lexer reported.
    fn unexpected(&mut self, expected: &str) -> Fail {
        let token = self.token();
        // what is missing here is in the text that took the rest of its line with it
        let follows = self.at > 0 && self.tokens[self.at - 1].unclosed;
        self.silent = follows || token.kind == TokenKind::Error;
        if self.silent {
            return Fail;
        }
        let headline = match token.kind {
            TokenKind::End => format!("unexpected end of the file, expected {expected}"),
            _ => {
                let text = self.text_of(token);
                let text = text.lines().next().unwrap_or(text);
                if text.starts_with('"') && text.len() > 1 {
                    format!("unexpected {text}, expected {expected}")
                } else {
                    format!("unexpected \"{text}\", expected {expected}")
                }
            }
        };
        self.report(codes::UNEXPECTED_TOKEN, headline, token.span().into(), "");
        let adjacent_minus = |i: usize| {
            let (a, b) = (self.tokens.get(i), self.tokens.get(i + 1));
            matches!((a, b), (Some(a), Some(b)) if a.kind == TokenKind::Minus
                && b.kind == TokenKind::Minus && a.end == b.start)
        };
        if adjacent_minus(self.at) || self.at > 0 && adjacent_minus(self.at - 1) {
            self.help("a comment begins with \"-- \": two hyphens and a space");
        }
        Fail
    }

    /// Runs a part of the grammar that can hold itself, as long as it is not too deep.
    fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            let span = self.span();
            self.report(codes::TOO_DEEP, "this is nested too deeply", span, "");
            self.help(&format!("at most {MAX_NESTING} levels are read; name parts with \"extend\" before"));
            return Err(Fail);
        }
        self.nesting += 1;
        let result = part(self);
        self.nesting -= 1;
        result
    }
}

/// A name without its backticks.
pub(crate) fn unquote(text: &str) -> String {
    match text.strip_prefix('`').and_then(|t| t.strip_suffix('`')) {
        Some(inner) => inner.replace("``", "`"),
        None => text.to_owned(),
    }
}
