//! Test blocks.

use super::{Fail, Parsed, Parser};
use crate::ast::{Change, ChangeKind, Record, Step, StepKind, Test};
use crate::token::TokenKind;

const STEPS: &[&str] = &["given", "when", "expect", "ddl"];

impl Parser<'_> {
    pub(super) fn test(&mut self) -> Parsed<Test> {
        let name = self.text("the test's name in quotes")?;
        self.expect(TokenKind::OpenBrace, "\"{\"")?;
        let mut steps = Vec::new();
        while !self.eat(TokenKind::CloseBrace) {
            let start = self.span();
            match self.step() {
                Ok(kind) => steps.push(Step { kind, span: self.since(start) }),
                Err(Fail) => self.recover_step()?,
            }
        }
        Ok(Test { name, steps })
    }

    fn at_step(&self) -> bool {
        STEPS.iter().any(|s| self.at_word(s))
    }

    /// Skips to the next step or the end of the block.
    fn recover_step(&mut self) -> Parsed<()> {
        loop {
            let token = self.token();
            match token.kind {
                TokenKind::End => return Err(Fail),
                TokenKind::CloseBrace if token.column_one => return Ok(()),
                _ if token.first_on_line && self.at_step() => return Ok(()),
                _ if token.column_one && self.is_name() => return Err(Fail),
                _ => {
                    self.advance();
                }
            }
        }
    }

    fn step(&mut self) -> Parsed<StepKind> {
        match STEPS.iter().copied().find(|w| self.eat_word(w)) {
            Some("given") => Ok(StepKind::Given(self.changes()?)),
            Some("when") => Ok(StepKind::When(self.changes()?)),
            Some("ddl") => Ok(StepKind::Ddl(self.text("a statement in quotes")?)),
            Some("expect") => self.expectation(),
            _ => Err(self.unexpected("\"given\", \"when\", \"expect\", \"ddl\" or \"}\"")),
        }
    }

    /// One transaction: changes of one table or, after commas, of more.
    fn changes(&mut self) -> Parsed<Vec<Change>> {
        let mut changes = vec![self.change()?];
        while self.eat(TokenKind::Comma) {
            changes.push(self.change()?);
        }
        Ok(changes)
    }

    fn change(&mut self) -> Parsed<Change> {
        let table = self.table_ref("a table, such as \"src.orders\"")?;
        let kind = match self.kind() {
            TokenKind::Plus => ChangeKind::Insert,
            TokenKind::Minus => ChangeKind::Delete,
            TokenKind::Tilde => ChangeKind::Update,
            _ => return Err(self.unexpected("\"+\", \"-\" or \"~\" and rows")),
        };
        self.advance();
        let mut rows = vec![self.record()?];
        while self.kind() == TokenKind::Comma && self.kind_at(1) == TokenKind::OpenBrace {
            self.advance();
            rows.push(self.record()?);
        }
        Ok(Change { table, kind, rows })
    }

    fn record(&mut self) -> Parsed<Record> {
        let start = self.span();
        self.expect(TokenKind::OpenBrace, "a row, such as \"{ id: 1 }\"")?;
        let mut fields = Vec::new();
        while !self.eat(TokenKind::CloseBrace) {
            let name = self.name("a column or \"}\"")?;
            self.expect(TokenKind::Colon, "\":\" and a value")?;
            fields.push((name, self.expr()?));
            if !self.eat(TokenKind::Comma) {
                self.expect(TokenKind::CloseBrace, "\",\" or \"}\"")?;
                break;
            }
        }
        Ok(Record { fields, span: self.since(start) })
    }

    fn expectation(&mut self) -> Parsed<StepKind> {
        let table = self.table_ref("a table, such as \"dw.orders\"")?;
        if self.eat_word("columns") {
            return Ok(StepKind::ExpectColumns { table, columns: self.name_list("a column")? });
        }
        self.expect(TokenKind::Equal, "\"=\" and rows, or \"columns\"")?;
        self.expect(TokenKind::OpenBracket, "\"[\"")?;
        let mut rows = Vec::new();
        while !self.eat(TokenKind::CloseBracket) {
            rows.push(self.record()?);
            if !self.eat(TokenKind::Comma) {
                self.expect(TokenKind::CloseBracket, "\",\" or \"]\"")?;
                break;
            }
        }
        Ok(StepKind::ExpectRows { table, rows })
    }
}
