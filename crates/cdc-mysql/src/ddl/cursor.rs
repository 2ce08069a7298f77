//! Walks over a statement's tokens: what the parsers of all statements share.
//!
//! No parser here calls itself: expressions are passed over by counting parentheses, so no depth of nesting
//! needs a stack.

use super::context::{Context, Structures};
use super::lexer::{self, Kind, Lexer, Token};
use cdc_core::{Code, TableId, codes};
use std::borrow::Cow;

/// Why a statement could not be followed, and where in it.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) message: String,
    /// The byte of the statement that it is about.
    pub(super) at: Option<usize>,
}

impl Failure {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), at: None }
    }
}

pub(super) type Parsed<T> = Result<T, Failure>;

/// A place in a statement; a copy is a place to come back to.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    /// The end of the token before.
    behind: usize,
    pub(super) text: &'a str,
    pub(super) context: &'a Context<'a>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, context: &'a Context<'a>) -> Cursor<'a> {
        let mut lexer = Lexer::new(text, context);
        let token = lexer.next();
        Cursor { lexer, token, behind: 0, text, context }
    }

    /// The token in front.
    pub(super) fn peek(&self) -> Token<'a> {
        self.token
    }

    /// The token behind the one in front.
    pub(super) fn second(&self) -> Token<'a> {
        let mut lexer = self.lexer;
        lexer.next()
    }

    pub(super) fn advance(&mut self) -> Token<'a> {
        let token = self.token;
        self.behind = token.end();
        self.token = self.lexer.next();
        token
    }

    /// Text from a byte to the end of the last token taken.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.behind).unwrap_or("").trim()
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.token.is(word)
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|w| self.token.is(w))
    }

    pub(super) fn is_symbol(&self, symbol: u8) -> bool {
        self.token.kind == Kind::Symbol(symbol)
    }

    /// Behind everything: the end, or a semicolon.
    pub(super) fn at_end(&self) -> bool {
        matches!(self.token.kind, Kind::End | Kind::Symbol(b';'))
    }

    /// Takes this word if it is in front.
    pub(super) fn accept(&mut self, word: &str) -> bool {
        let found = self.token.is(word);
        if found {
            self.advance();
        }
        found
    }

    /// Takes one of these words if it is in front.
    pub(super) fn accept_any(&mut self, words: &[&str]) -> bool {
        let found = self.is_any(words);
        if found {
            self.advance();
        }
        found
    }

    /// Takes these words if they are in front, all or none.
    pub(super) fn accept_all(&mut self, words: &[&str]) -> bool {
        let start = *self;
        for word in words {
            if !self.accept(word) {
                *self = start;
                return false;
            }
        }
        true
    }

    pub(super) fn accept_symbol(&mut self, symbol: u8) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.accept(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    pub(super) fn expect_symbol(&mut self, symbol: u8) -> Parsed<()> {
        if self.accept_symbol(symbol) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("\"{}\"", char::from(symbol))))
        }
    }

    /// The failure that something else stands in front than what is wanted.
    pub(super) fn unexpected(&self, wanted: &str) -> Failure {
        let found = match self.token.kind {
            Kind::End => "the statement ends".to_owned(),
            Kind::Unterminated => "a quote or comment has no end".to_owned(),
            _ => format!("\"{}\" stands", shorten(self.token.text, 40)),
        };
        Failure {
            code: codes::DDL_NOT_UNDERSTOOD,
            message: format!("{found} where {wanted} is wanted"),
            at: Some(self.token.start),
        }
    }

    /// A failure about the token in front.
    pub(super) fn failure(&self, code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into(), at: Some(self.token.start) }
    }

    /// A name, quoted or not. Reserved words are taken too: the server has let them pass.
    pub(super) fn name(&mut self, what: &str) -> Parsed<Cow<'a, str>> {
        match self.token.kind {
            Kind::Word => Ok(Cow::Borrowed(self.advance().text)),
            Kind::Quoted => Ok(lexer::unquote_name(self.advance().text)),
            _ => Err(self.unexpected(what)),
        }
    }

    /// The part of a qualified name behind its dot, where digits are a name too.
    fn name_behind_dot(&mut self, what: &str) -> Parsed<Cow<'a, str>> {
        match self.token.kind {
            Kind::Number => Ok(Cow::Borrowed(self.advance().text)),
            _ => self.name(what),
        }
    }

    /// `table`, `database.table` or `.table`, spelled as the server stores it.
    pub(super) fn table(&mut self, structures: &dyn Structures) -> Parsed<TableId> {
        let start = self.token.start;
        if self.accept_symbol(b'.') {
            let table = self.name_behind_dot("a table's name")?;
            return self.table_id(None, &table, structures, start);
        }
        let first = self.name("a table's name")?;
        if self.is_symbol(b'.') && !matches!(self.second().kind, Kind::Symbol(b'*')) {
            self.advance();
            let table = self.name_behind_dot("a table's name")?;
            return self.table_id(Some(&first), &table, structures, start);
        }
        self.table_id(None, &first, structures, start)
    }

    fn table_id(
        &self,
        database: Option<&str>,
        table: &str,
        structures: &dyn Structures,
        at: usize,
    ) -> Parsed<TableId> {
        let Some(database) = database.or(self.context.database) else {
            return Err(Failure {
                at: Some(at),
                ..Failure::new(
                    codes::DDL_NOT_UNDERSTOOD,
                    format!("the table \"{table}\" is named without a database, and none is current"),
                )
            });
        };
        Ok(match self.context.lower_case_table_names {
            0 => TableId::new(database, table),
            1 => TableId::new(database.to_lowercase(), table.to_lowercase()),
            _ => {
                let same = |id: &TableId| id.table.to_lowercase() == table.to_lowercase();
                let known = structures.tables_of(database).into_iter().find(same);
                known.unwrap_or_else(|| TableId::new(database, table))
            }
        })
    }

    /// A database's name, spelled as the server stores it.
    pub(super) fn database(&mut self) -> Parsed<Cow<'a, str>> {
        let name = self.name("a database's name")?;
        let lower = self.context.lower_case_table_names == 1;
        Ok(if lower { Cow::Owned(name.to_lowercase()) } else { name })
    }

    /// A column's name; a table and database in front of it are passed over.
    pub(super) fn column(&mut self) -> Parsed<Cow<'a, str>> {
        self.accept_symbol(b'.');
        let mut name = self.name("a column's name")?;
        for _ in 0..2 {
            if !self.accept_symbol(b'.') {
                break;
            }
            name = self.name_behind_dot("a column's name")?;
        }
        Ok(name)
    }

    /// A whole number.
    pub(super) fn number(&mut self) -> Parsed<u64> {
        let value = match self.token.kind {
            Kind::Number => self.token.text.parse::<u64>().ok(),
            Kind::Hex => u64::from_str_radix(self.token.text.trim_start_matches("0x"), 16).ok(),
            _ => None,
        };
        match value {
            Some(value) => {
                self.advance();
                Ok(value)
            }
            None => Err(self.unexpected("a whole number")),
        }
    }

    /// `(n)`.
    pub(super) fn bracketed_number(&mut self) -> Parsed<u64> {
        self.expect_symbol(b'(')?;
        let value = self.number()?;
        self.expect_symbol(b')')?;
        Ok(value)
    }

    /// `(n)` if a parenthesis is in front.
    pub(super) fn optional_number(&mut self) -> Parsed<Option<u64>> {
        if self.is_symbol(b'(') { self.bracketed_number().map(Some) } else { Ok(None) }
    }

    /// The value of the text token in front, adjacent ones joined as the server does.
    pub(super) fn text(&mut self) -> Parsed<Cow<'a, str>> {
        if self.token.kind == Kind::Word
            && self.token.text.starts_with('_')
            && matches!(self.second().kind, Kind::Text | Kind::Hex | Kind::Bit)
        {
            self.advance();
        }
        let mut value = match self.token.kind {
            Kind::Text | Kind::National => self.unquote(self.token.text),
            Kind::Hex | Kind::Bit => {
                let bytes = lexer::unquote_bits(self.token.kind, self.token.text);
                Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
            }
            _ => return Err(self.unexpected("a text")),
        };
        let joins = matches!(self.token.kind, Kind::Text | Kind::National);
        self.advance();
        while joins && self.token.kind == Kind::Text {
            let more = self.unquote(self.token.text);
            value.to_mut().push_str(&more);
            self.advance();
        }
        Ok(value)
    }

    fn unquote(&self, raw: &'a str) -> Cow<'a, str> {
        lexer::unquote_text(raw, !self.context.sql_mode.no_backslash_escapes)
    }

    /// A name or a text: character sets and engines are written either way.
    pub(super) fn name_or_text(&mut self) -> Parsed<Cow<'a, str>> {
        if self.token.kind == Kind::Text { self.text() } else { self.name("a name") }
    }

    /// Moves over `( .. )`, however deep; gives what is inside.
    pub(super) fn group(&mut self) -> Parsed<&'a str> {
        self.expect_symbol(b'(')?;
        let start = self.token.start;
        let mut depth = 1usize;
        loop {
            match self.token.kind {
                Kind::Symbol(b'(') => depth += 1,
                Kind::Symbol(b')') => {
                    depth -= 1;
                    if depth == 0 {
                        let inside = self.since(start);
                        self.advance();
                        return Ok(inside);
                    }
                }
                Kind::End | Kind::Unterminated => return Err(self.unexpected("\")\"")),
                _ => {}
            }
            self.advance();
        }
    }

    /// Moves over one part of a list: up to a comma, a closing parenthesis or the end, at this depth. What an ALTER
    /// TABLE says of partitions stands behind its last part without a comma.
    pub(super) fn skip_part(&mut self) -> Parsed<()> {
        loop {
            let of_partitions = (self.is("PARTITION") && self.second().is("BY"))
                || (self.is("REMOVE") && self.second().is("PARTITIONING"));
            if of_partitions {
                return Ok(());
            }
            match self.token.kind {
                Kind::Symbol(b',' | b')' | b';') | Kind::End => return Ok(()),
                Kind::Unterminated => return Err(self.unexpected("a whole text")),
                Kind::Symbol(b'(') => {
                    self.group()?;
                }
                _ => {
                    self.advance();
                }
            }
        }
    }

    /// Nothing may follow but semicolons.
    pub(super) fn expect_end(&mut self) -> Parsed<()> {
        while self.accept_symbol(b';') {}
        if self.token.kind == Kind::End { Ok(()) } else { Err(self.unexpected("the end of the statement")) }
    }

    pub(super) fn if_exists(&mut self) -> bool {
        self.accept_all(&["IF", "EXISTS"])
    }

    pub(super) fn if_not_exists(&mut self) -> bool {
        self.accept_all(&["IF", "NOT", "EXISTS"])
    }

    /// MariaDB: `WAIT n`, `NOWAIT`.
    pub(super) fn skip_wait(&mut self) -> Parsed<()> {
        if self.is("WAIT") && self.second().kind == Kind::Number {
            self.advance();
            self.advance();
        } else {
            self.accept("NOWAIT");
        }
        Ok(())
    }
}

/// The first `most` bytes of a text, cut between characters.
pub(super) fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{} ..", &text[..end]))
}
