//! Tokens: the words of a pipeline file, each with its place.
//!
//! Comments are no tokens: the parser never sees them, and the formatter puts them back by their place.

use std::ops::Range;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or a keyword; which of them, the parser says.
    Word,
    /// A name in backticks.
    Quoted,
    /// `'..'` or `".."`.
    String,
    /// `12`, `1.5`, `1e3`.
    Number,
    /// `x'..'` or `0x..`.
    Hex,
    /// `b'..'`.
    Bits,
    /// `${NAME}`.
    Param,
    /// `/../`, right after the dot of a table name.
    Regex,
    Dot,
    Comma,
    Colon,
    OpenParen,
    CloseParen,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Caret,
    Tilde,
    Bang,
    Question,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    NullSafeEqual,
    AndAnd,
    Ampersand,
    Bar,
    /// `||`: already reported; read as `or`.
    BarBar,
    ShiftLeft,
    ShiftRight,
    /// `->`.
    Arrow,
    /// `->>`.
    LongArrow,
    /// `|>`.
    Pipe,
    /// `=>`.
    FatArrow,
    /// What is no token; already reported.
    Error,
    /// After the last token.
    End,
}

/// A token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
    /// No other token before it on its line.
    pub first_on_line: bool,
    /// A text without an end: it took the rest of its line with it.
    pub unclosed: bool,
    /// At the very beginning of its line: where a statement is looked for after an error.
    pub column_one: bool,
}

impl Token {
    pub fn span(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A comment, without its line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Comment {
    pub start: usize,
    pub end: usize,
    /// Nothing but white space before it on its line.
    pub own_line: bool,
}
