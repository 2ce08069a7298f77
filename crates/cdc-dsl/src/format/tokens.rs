//! Tokens on a line: the space between two of them, and where a line that is too long is broken.

use super::{Formatter, WIDTH, rows};
use crate::parser::Role;
use crate::token::TokenKind;
use std::ops::Range;

impl Formatter<'_> {
    /// A token as it is printed.
    fn spelled(&self, index: usize) -> String {
        let token = self.token(index);
        let text = &self.text[token.span()];
        match self.parse.roles[index] {
            Role::Keyword | Role::Function => text.to_ascii_lowercase(),
            _ => text.to_owned(),
        }
    }

    /// Does this token end something that an operator can stand behind?
    fn ends_operand(&self, index: usize) -> bool {
        let token = self.token(index);
        match token.kind {
            TokenKind::Word => {
                self.parse.roles[index] != Role::Keyword
                    || ["null", "true", "false", "end"]
                        .iter()
                        .any(|w| self.text[token.span()].eq_ignore_ascii_case(w))
            }
            TokenKind::Quoted
            | TokenKind::String
            | TokenKind::Number
            | TokenKind::Hex
            | TokenKind::Bits
            | TokenKind::Param
            | TokenKind::Regex
            | TokenKind::CloseParen
            | TokenKind::CloseBracket => true,
            // `src.*`
            TokenKind::Star => index > 0 && self.token(index - 1).kind == TokenKind::Dot,
            _ => false,
        }
    }

    /// Is this a sign, not an operator between two operands?
    fn is_sign(&self, index: usize) -> bool {
        match self.token(index).kind {
            TokenKind::Bang => true,
            TokenKind::Minus | TokenKind::Plus | TokenKind::Tilde => {
                index == 0 || !self.ends_operand(index - 1)
            }
            _ => false,
        }
    }

    /// Is there a space between this token and the next?
    fn space_after(&self, index: usize) -> bool {
        use TokenKind::*;
        let (a, b) = (self.token(index).kind, self.token(index + 1).kind);
        if self.parse.roles[index + 1] == Role::Joined {
            return false;
        }
        match (a, b) {
            (OpenBrace, CloseBrace) => false,
            (OpenBracket, OpenBrace) | (CloseBrace, CloseBracket) => true,
            (Dot, _) | (_, Dot) if !(b == Dot && a == Number) => false,
            (OpenParen | OpenBracket, _) | (_, CloseParen | CloseBracket | Comma | Colon) => false,
            (Arrow | LongArrow, _) | (_, Arrow | LongArrow) => false,
            // two hyphens would look like a comment
            (Minus, Minus) => true,
            (_, OpenParen) => self.parse.roles[index] != Role::Function && !self.is_sign(index),
            (Minus | Plus | Tilde | Bang, _) => !self.is_sign(index),
            _ => true,
        }
    }

    /// Tokens on one line. A comma before a closing bracket is left out.
    pub(super) fn flat(&self, range: Range<usize>) -> String {
        let mut out = String::new();
        let mut i = range.start;
        while i < range.end {
            let closes = |k| matches!(k, TokenKind::CloseBrace | TokenKind::CloseBracket);
            let stray =
                self.token(i).kind == TokenKind::Comma && i + 1 < range.end && closes(self.token(i + 1).kind);
            if stray {
                // `1, }` and `}, ]` keep the space that stands before the bracket without a comma
                let spaced = self.token(i + 1).kind == TokenKind::CloseBrace
                    || i > range.start && self.token(i - 1).kind == TokenKind::CloseBrace;
                if spaced && !out.ends_with(' ') {
                    out.push(' ');
                }
            } else {
                out.push_str(&self.spelled(i));
                if i + 1 < range.end && self.space_after(i) {
                    out.push(' ');
                }
            }
            i += 1;
        }
        out
    }

    /// Tokens as lines: one if they fit and no comment is among them. `prefix` stands before the first.
    pub(super) fn wrapped(&mut self, indent: usize, blank: bool, prefix: &str, range: Range<usize>) {
        let pieces = self.pieces(range.clone(), indent + rows::width(prefix));
        let mut first = true;
        for piece in pieces {
            let (start, end) = (self.token(piece.start).start, self.token(piece.end - 1).end);
            let inner = indent + if first { 0 } else { 4 };
            if !first {
                self.comments_before(start, inner);
            }
            let text = self.flat(piece.clone());
            let text = if first { format!("{prefix}{text}") } else { text };
            self.row(inner, first && blank, text, end);
            first = false;
        }
    }

    /// Splits at comments, and what is too long at the outermost commas, else before the outermost `and`
    /// and `or`.
    fn pieces(&self, range: Range<usize>, used: usize) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        for i in range.clone() {
            let last = i + 1 == range.end;
            if last || self.has_comment((self.token(i).end..self.token(i + 1).start).into()) {
                parts.push(start..i + 1);
                start = i + 1;
            }
        }
        let mut out = Vec::new();
        for (n, part) in parts.into_iter().enumerate() {
            let before = if n == 0 { used } else { 8 };
            if before + rows::width(&self.flat(part.clone())) <= WIDTH {
                out.push(part);
            } else {
                out.extend(self.broken(part));
            }
        }
        out
    }

    fn broken(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut depth = 0_usize;
        let mut commas: Vec<(usize, usize)> = Vec::new();
        let mut words: Vec<(usize, usize)> = Vec::new();
        let mut between = false;
        // `group by` and `per` hold what is behind them together
        let mut clause = None;
        for i in range.clone() {
            match self.token(i).kind {
                TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace => depth += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => {
                    depth = depth.saturating_sub(1);
                }
                TokenKind::Comma if i + 1 < range.end => commas.push((depth, i + 1)),
                TokenKind::Word if self.parse.roles[i] == Role::Keyword => {
                    let text = self.text[self.token(i).span()].to_ascii_lowercase();
                    match text.as_str() {
                        "between" => between = true,
                        // the `and` of `between` belongs to it
                        "and" if between => between = false,
                        "group" | "per" if i > range.start && depth == 0 => clause = Some(i),
                        "and" | "or" | "on" if i > range.start => words.push((depth, i)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        if let Some(at) = clause {
            let fits = |part: &Range<usize>| 8 + rows::width(&self.flat(part.clone())) <= WIDTH;
            let parts = [range.start..at, at..range.end];
            return parts.into_iter().flat_map(|p| if fits(&p) { vec![p] } else { self.broken(p) }).collect();
        }
        let all = if commas.iter().any(|(d, _)| *d == 0) || words.is_empty() { commas } else { words };
        let Some(outermost) = all.iter().map(|(d, _)| *d).min() else { return vec![range] };
        let mut pieces = Vec::new();
        let mut start = range.start;
        for (_, at) in all.into_iter().filter(|(d, _)| *d == outermost) {
            pieces.push(start..at);
            start = at;
        }
        pieces.push(start..range.end);
        pieces
    }
}
