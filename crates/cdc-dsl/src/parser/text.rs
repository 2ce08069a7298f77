//! Texts in quotes: escapes as in MySQL (manual 11.1.1), `${NAME}`, and `$${` for a literal `${`.

use super::Parser;
use crate::ast::{Name, Span, Text, TextPart};
use crate::lexer::param_length;
use crate::token::{Token, TokenKind};
use cdc_core::diagnostic::codes;

impl Parser<'_> {
    /// The present token, a text.
    pub(super) fn text(&mut self, what: &str) -> super::Parsed<Text> {
        let token = self.expect(TokenKind::String, what)?;
        Ok(self.text_from(token))
    }

    pub(super) fn text_from(&mut self, token: Token) -> Text {
        let (parts, stray) = decode_text(self.text_of(token), token.start);
        for at in stray {
            let span = Span { start: at, end: at + 2 };
            self.report(codes::UNEXPECTED_CHARACTER, "\"${\" in a text begins a parameter", span, "");
            self.help("write ${NAME}, or $${ for these two characters themselves");
        }
        Text { parts, span: token.span().into() }
    }
}

/// Resolves a text with its quotes; `base` is where it stands in the file. Also says where a `${` begins
/// nothing.
pub(crate) fn decode_text(raw: &str, base: usize) -> (Vec<TextPart>, Vec<usize>) {
    let mut parts = Vec::new();
    let mut stray = Vec::new();
    let mut literal = String::new();
    let Some(quote) = raw.chars().next() else { return (parts, stray) };
    // a text without an end, reported by the lexer, has no closing quote
    let closed = raw.len() > 1 && crate::lexer::quoted_end(raw, 0) == Some(raw.len());
    let end = if closed { raw.len() - 1 } else { raw.len() };
    let mut i = 1;
    while let Some(c) = raw[i..end].chars().next() {
        let rest = &raw[i..end];
        if rest.starts_with("$${") {
            literal.push_str("${");
            i += 3;
        } else if rest.starts_with("${") {
            match param_length(rest) {
                Some(length) => {
                    if !literal.is_empty() {
                        parts.push(TextPart::Literal(std::mem::take(&mut literal)));
                    }
                    let span = Span { start: base + i, end: base + i + length };
                    parts.push(TextPart::Param(Name { text: rest[2..length - 1].to_owned(), span }));
                    i += length;
                }
                None => {
                    stray.push(base + i);
                    literal.push_str("${");
                    i += 2;
                }
            }
        } else if c == '\\' {
            let Some(next) = rest[1..].chars().next() else { break };
            escape(next, &mut literal);
            i += 1 + next.len_utf8();
        } else if c == quote {
            // doubled
            literal.push(c);
            i += if rest[1..].starts_with(quote) { 2 } else { 1 };
        } else {
            literal.push(c);
            i += c.len_utf8();
        }
    }
    if !literal.is_empty() {
        parts.push(TextPart::Literal(literal));
    }
    (parts, stray)
}

fn escape(c: char, out: &mut String) {
    match c {
        '0' => out.push('\0'),
        'b' => out.push('\u{8}'),
        'n' => out.push('\n'),
        'r' => out.push('\r'),
        't' => out.push('\t'),
        'Z' => out.push('\u{1a}'),
        // kept for LIKE, which gives them their meaning
        '%' | '_' => {
            out.push('\\');
            out.push(c);
        }
        c => out.push(c),
    }
}
