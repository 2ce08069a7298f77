//! Statements, and how to go on after one that cannot be read.

use super::{Fail, Parsed, Parser};
use crate::ast::{Connection, File, Name, Param, Span, Statement, StatementKind, View};
use crate::suggest::nearest;
use crate::token::TokenKind;
use cdc_core::diagnostic::codes;

/// The words that begin a statement; everything else is a flow.
const KEYWORDS: &[&str] = &["pipeline", "param", "source", "sink", "view", "test"];

impl Parser<'_> {
    /// The whole file.
    pub(super) fn file(&mut self) -> File {
        let mut statements = Vec::new();
        while self.kind() != TokenKind::End {
            let first = self.at;
            let start = self.span();
            let kind = match self.statement() {
                Ok(kind) => kind,
                Err(Fail) => {
                    let broken = self.broken(first);
                    self.recover(first);
                    broken
                }
            };
            statements.push(Statement { kind, span: start.to(self.previous_span()) });
        }
        File { statements }
    }

    /// Skips to the next line that begins in column 1 with what may begin a statement.
    fn recover(&mut self, first: usize) {
        loop {
            let token = self.token();
            let continues = matches!(
                token.kind,
                TokenKind::Pipe
                    | TokenKind::FatArrow
                    | TokenKind::CloseBrace
                    | TokenKind::CloseBracket
                    | TokenKind::CloseParen
            );
            if token.kind == TokenKind::End || token.column_one && !continues && self.at > first {
                return;
            }
            self.advance();
        }
    }

    /// What is known of a statement that could not be read: the name it was about to define.
    fn broken(&self, first: usize) -> StatementKind {
        let keyword = self.text_of(self.tokens[first]);
        let keyword = nearest(keyword, KEYWORDS.iter().copied()).unwrap_or(keyword).to_owned();
        let defines = KEYWORDS.contains(&keyword.as_str());
        let name = self.tokens.get(first + 1).filter(|t| {
            defines && first + 1 < self.tokens.len() && matches!(t.kind, TokenKind::Word | TokenKind::Quoted)
        });
        let name = name.map(|t| Name { text: super::unquote(self.text_of(*t)), span: t.span().into() });
        StatementKind::Broken { keyword, name }
    }

    fn statement(&mut self) -> Parsed<StatementKind> {
        let next = self.kind_at(1);
        let is_flow = self.is_name()
            && (matches!(next, TokenKind::Dot | TokenKind::FatArrow | TokenKind::Pipe)
                || self.word_at(1, "as") && self.kind_at(2) != TokenKind::Equal);
        if is_flow {
            return Ok(StatementKind::Flow(self.flow()?));
        }
        let keyword = KEYWORDS.iter().copied().find(|k| self.at_word(k));
        if let Some(keyword) = keyword {
            self.eat_word(keyword);
        }
        match keyword {
            Some("pipeline") => Ok(StatementKind::Pipeline(self.option_block()?)),
            Some("param") => Ok(StatementKind::Param(self.param()?)),
            Some("source") => Ok(StatementKind::Source(self.connection("source")?)),
            Some("sink") => Ok(StatementKind::Sink(self.connection("sink")?)),
            Some("view") => Ok(StatementKind::View(self.view()?)),
            Some("test") => Ok(StatementKind::Test(self.test()?)),
            _ => Err(self.unknown_statement()),
        }
    }

    fn unknown_statement(&mut self) -> Fail {
        if !self.is_name() || self.at > 0 && !self.token().first_on_line {
            let expected =
                if self.token().first_on_line { "a statement" } else { "the end of the statement" };
            let alias = self.is_name() && self.at > 0;
            let fail = self.unexpected(expected);
            if matches!(self.kind(), TokenKind::Pipe | TokenKind::FatArrow) {
                self.help("a flow begins with its tables: source.table |> .. => sink.table");
            } else if alias && !self.token().first_on_line {
                self.help("an alias needs \"as\"; a new statement begins on a new line");
            }
            return fail;
        }
        let token = self.token();
        let text = self.text_of(token);
        let headline = format!("unknown statement \"{text}\"");
        self.report(codes::UNKNOWN_STATEMENT, headline, token.span().into(), "");
        match nearest(text, KEYWORDS.iter().copied()) {
            Some(near) => self.help(&format!("did you mean \"{near}\"?")),
            None if text.eq_ignore_ascii_case("from") => {
                self.help("a flow begins with its tables: source.table |> .. => sink.table");
            }
            None => self.help(
                "a statement begins with \"pipeline\", \"param\", \"source\", \"sink\", \"view\", \"test\", \
                 or is a flow: source.table => sink.table",
            ),
        }
        Fail
    }

    fn param(&mut self) -> Parsed<Param> {
        let name = self.name("the parameter's name")?;
        let ty = if self.eat(TokenKind::Colon) { Some(self.name("a type")?) } else { None };
        let default = if self.eat(TokenKind::Equal) { Some(self.expr()?) } else { None };
        if ty.is_none() && default.is_none() {
            return Err(self.unexpected("\":\" and a type"));
        }
        Ok(Param { name, ty, default })
    }

    fn connection(&mut self, what: &str) -> Parsed<Connection> {
        let name = self.name(&format!("the {what}'s name"))?;
        self.expect(TokenKind::Equal, "\"=\" and a connector")?;
        let connector = self.name("a connector, such as \"mysql\"")?;
        let options = if self.kind() == TokenKind::OpenBrace { Some(self.option_block()?) } else { None };
        Ok(Connection { name, connector, options })
    }

    fn view(&mut self) -> Parsed<View> {
        let name = self.name("the view's name")?;
        let with = if self.eat_word("with") { Some(self.option_block()?) } else { None };
        self.expect(TokenKind::Equal, "\"=\"")?;
        self.expect_word("from")?;
        let from = self.table_with_alias()?;
        let ops = self.ops()?;
        Ok(View { name, with, from, ops })
    }

    /// The span of the nodes from `start` to the last token.
    pub(super) fn since(&self, start: Span) -> Span {
        start.to(self.previous_span())
    }
}
