//! Blocks of options: `{ name = value }`, commas between entries or not.

use super::{Fail, Parsed, Parser, Role};
use crate::ast::{Name, OptionBlock, OptionEntry, OptionValue, OptionValueKind, Span};
use crate::token::TokenKind;

impl Parser<'_> {
    /// A block. An entry that cannot be read is passed over; the others stay.
    pub(super) fn option_block(&mut self) -> Parsed<OptionBlock> {
        self.nested(Self::option_block_inner)
    }

    fn option_block_inner(&mut self) -> Parsed<OptionBlock> {
        let start = self.span();
        self.expect(TokenKind::OpenBrace, "\"{\"")?;
        let (mut entries, mut broken) = (Vec::new(), Vec::new());
        loop {
            while self.eat(TokenKind::Comma) {}
            if self.kind() == TokenKind::CloseBrace {
                self.advance();
                return Ok(OptionBlock { entries, broken, span: start.to(self.previous_span()) });
            }
            let (first, reports) = (self.token(), self.diagnostics.len());
            match self.option_entry() {
                Ok(entry) => entries.push(entry),
                Err(Fail) => {
                    let at_next = self.token().kind == TokenKind::End || self.token().column_one;
                    if at_next && self.diagnostics.len() > reports && self.token().start == first.start {
                        self.label(start, "this is not closed");
                    } else if matches!(first.kind, TokenKind::Word | TokenKind::Quoted) {
                        let text = super::unquote(self.text_of(first));
                        broken.push(Name { text, span: first.span().into() });
                    }
                    self.recover_entry()?;
                }
            }
        }
    }

    fn option_entry(&mut self) -> Parsed<OptionEntry> {
        let named = self.is_name() && self.kind_at(1) == TokenKind::Equal;
        if !named && (!self.is_name() || self.token().column_one) {
            let fail = self.unexpected("an option or \"}\"");
            return Err(fail);
        }
        let name = self.name("an option")?;
        if !self.eat(TokenKind::Equal) {
            let fail = self.unexpected(&format!("\"=\" after \"{}\"", name.text));
            if self.kind() == TokenKind::Colon {
                self.help("options are written name = value");
            }
            return Err(fail);
        }
        Ok(OptionEntry { name, value: self.option_value()? })
    }

    /// Skips to the next entry of this block or to its end; fails where the block has none, at the beginning
    /// of the next statement.
    fn recover_entry(&mut self) -> Parsed<()> {
        let mut depth = 0_usize;
        loop {
            let token = self.token();
            let entry = |ahead| {
                matches!(self.kind_at(ahead), TokenKind::Word | TokenKind::Quoted)
                    && self.kind_at(ahead + 1) == TokenKind::Equal
            };
            match token.kind {
                TokenKind::End => return Err(Fail),
                TokenKind::CloseBrace if depth == 0 || token.column_one => return Ok(()),
                TokenKind::Comma if depth == 0 && entry(1) => return Ok(()),
                _ if token.first_on_line && entry(0) => return Ok(()),
                _ if token.column_one && self.is_name() => return Err(Fail),
                TokenKind::OpenBrace => depth += 1,
                TokenKind::CloseBrace => depth -= 1,
                _ => {}
            }
            self.advance();
        }
    }

    pub(super) fn option_value(&mut self) -> Parsed<OptionValue> {
        let start = self.span();
        let token = self.token();
        let kind = match token.kind {
            TokenKind::String => OptionValueKind::Text(self.text("a text")?),
            TokenKind::Number => {
                self.advance();
                OptionValueKind::Number(self.text_of(token).to_owned())
            }
            TokenKind::Minus if self.kind_at(1) == TokenKind::Number => {
                self.advance();
                let number = self.advance();
                OptionValueKind::Number(format!("-{}", self.text_of(number)))
            }
            TokenKind::Word if !token.column_one && self.kind_at(1) != TokenKind::Equal => {
                OptionValueKind::Word(self.hyphenated_word())
            }
            TokenKind::Param => {
                self.advance();
                OptionValueKind::Param(self.param_name(token))
            }
            TokenKind::OpenBracket => OptionValueKind::List(self.nested(Self::option_list)?),
            TokenKind::OpenBrace => OptionValueKind::Map(self.option_block()?),
            _ => {
                let fail = self.unexpected("a value");
                return Err(fail);
            }
        };
        // one mistake, whatever the first part by itself would be
        if self.kind() == TokenKind::Dot {
            let fail = self.unexpected("\",\" or \"}\"");
            self.help("a text with a dot in it stands in quotes; a column is named by itself, without its table, and `meta.ts` and the like are none");
            return Err(fail);
        }
        Ok(OptionValue { kind, span: start.to(self.previous_span()) })
    }

    /// `caught-up` is one word, as long as no white space is in it.
    fn hyphenated_word(&mut self) -> String {
        let mut word = self.text_of(self.token()).to_owned();
        while self.next_is_adjacent() && self.kind_at(1) == TokenKind::Minus {
            let (minus, part) = (self.tokens[self.at + 1], self.tokens.get(self.at + 2).copied());
            let Some(part) = part.filter(|p| p.kind == TokenKind::Word && p.start == minus.end) else {
                break;
            };
            self.roles[self.at + 1] = Role::Joined;
            self.roles[self.at + 2] = Role::Joined;
            word.push('-');
            word.push_str(self.text_of(part));
            self.at += 2;
        }
        self.advance();
        word
    }

    fn option_list(&mut self) -> Parsed<Vec<OptionValue>> {
        self.expect(TokenKind::OpenBracket, "\"[\"")?;
        let mut items = Vec::new();
        while !self.eat(TokenKind::CloseBracket) {
            items.push(self.option_value()?);
            if !self.eat(TokenKind::Comma) {
                self.expect(TokenKind::CloseBracket, "\",\" or \"]\"")?;
                break;
            }
        }
        Ok(items)
    }

    pub(super) fn param_name(&self, token: crate::token::Token) -> Name {
        let text = self.text_of(token);
        let name = text.get(2..text.len().saturating_sub(1)).unwrap_or_default();
        Name { text: name.to_owned(), span: Span::from(token.span()) }
    }
}
