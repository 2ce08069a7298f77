//! The canonical layout.
//!
//! The syntax tree says where lines begin; the tokens of each line are then put down as they were written,
//! with the white space that [`tokens`] wants between them, so no word, no quote and no parenthesis of the
//! user's changes. Comments are no tokens: they come back by their place, behind the line they stood behind
//! or on lines of their own before what they stood before. Blank lines stay, at most one at a time; a
//! statement of several lines stands free.
//!
//! The layout depends on tokens and comments and on one choice of the user's: a block whose first option
//! stands on the line of its brace stays on one line where it fits. The output makes the same choices, so
//! formatting twice is formatting once; and since tokens stay, it means the same. Tests hold both.

mod block;
mod rows;
mod statement;
mod tokens;

use crate::ast::Span;
use crate::parser::{Parse, parse};
use crate::token::Token;
use cdc_core::diagnostic::Diagnostic;
use rows::{Chunk, Row};

/// Columns of a line, at most, where there is a choice.
const WIDTH: usize = 100;

/// Lays a pipeline file out.
///
/// # Errors
/// What is wrong with the text's syntax; such a text is left alone.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let parse = parse(text);
    if !parse.diagnostics.is_empty() {
        return Err(parse.diagnostics);
    }
    let mut formatter = Formatter { text, parse: &parse, comment: 0, rows: Vec::new() };
    let chunks = formatter.file();
    Ok(rows::assemble(chunks))
}

struct Formatter<'a> {
    text: &'a str,
    parse: &'a Parse,
    /// The first comment that was not put down yet.
    comment: usize,
    rows: Vec<Row>,
}

impl<'a> Formatter<'a> {
    fn file(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for statement in &self.parse.file.statements {
            self.comments_before(statement.span.start, 0);
            let leading = std::mem::take(&mut self.rows);
            let blank = self.blank_before(statement.span.start);
            self.statement(statement);
            let body = std::mem::take(&mut self.rows);
            chunks.push(Chunk { leading, blank, body, align: statement::align(&statement.kind) });
        }
        self.comments_before(usize::MAX, 0);
        let leading = std::mem::take(&mut self.rows);
        chunks.push(Chunk { leading, blank: false, body: Vec::new(), align: None });
        chunks
    }

    /// The tokens within a span.
    fn tokens(&self, span: Span) -> std::ops::Range<usize> {
        let all = &self.parse.tokens;
        let first = all.partition_point(|t| t.start < span.start);
        let end = all.partition_point(|t| t.start < span.end);
        first..end.max(first)
    }

    fn token(&self, index: usize) -> Token {
        self.parse.tokens[index]
    }

    /// Puts the comments before a place down, on lines of their own.
    fn comments_before(&mut self, at: usize, indent: usize) {
        while let Some(comment) = self.parse.comments.get(self.comment).filter(|c| c.start < at) {
            let blank = self.blank_before(comment.start);
            let text = self.text[comment.start..comment.end].to_owned();
            self.rows.push(Row { indent, blank, comment: Some(text), ..Row::default() });
            self.comment += 1;
        }
    }

    /// Is there a comment within this span that was not put down yet?
    fn has_comment(&self, span: Span) -> bool {
        self.parse.comments[self.comment..].iter().any(|c| c.start >= span.start && c.start < span.end)
    }

    /// Is there an empty line right before this place?
    fn blank_before(&self, at: usize) -> bool {
        let before = self.text[..at].trim_end_matches(char::is_whitespace);
        self.text[before.len()..at].matches('\n').count() > 1
    }

    /// The comment behind a place on its line, if it belongs to what ends there: no other token, but a
    /// comma, stands between.
    fn trailing(&mut self, end: usize) -> Option<String> {
        let comment = *self.parse.comments.get(self.comment)?;
        let between = self.text.get(end..comment.start)?;
        if comment.own_line || between.chars().any(|c| !(c == ',' || c.is_whitespace()) || c == '\n') {
            return None;
        }
        self.comment += 1;
        Some(self.text[comment.start..comment.end].to_owned())
    }

    /// A line of code that ends at a place of the text.
    fn row(&mut self, indent: usize, blank: bool, text: String, end: usize) {
        let comment = self.trailing(end);
        self.rows.push(Row { indent, blank, text, comment });
    }
}
