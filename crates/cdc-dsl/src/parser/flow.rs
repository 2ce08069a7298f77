//! Flows and the pipe operators, which views share.

use super::{Fail, Parsed, Parser, Role};
use crate::ast::{
    Flow, JoinKind, Name, Named, Op, OpKind, OrderKey, SelectItem, TablePart, TablePartKind, TableRef,
};
use crate::suggest::nearest;
use crate::token::TokenKind;
use cdc_core::diagnostic::codes;

/// The words that begin an operator.
const OPERATORS: &[&str] = &[
    "where",
    "select",
    "extend",
    "drop",
    "rename",
    "join",
    "left",
    "right",
    "full",
    "semi",
    "anti",
    "aggregate",
    "distinct",
    "union",
    "top",
];

/// Words of other languages, and what is written here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("filter", "where"),
    ("map", "select"),
    ("project", "select"),
    ("group", "aggregate .. group by"),
    ("order", "top n by"),
    ("limit", "top n by"),
    ("inner", "join"),
    ("cross", "join"),
    ("having", "where"),
];

impl Parser<'_> {
    pub(super) fn flow(&mut self) -> Parsed<Flow> {
        let head = self.table_with_alias()?;
        let ops = self.ops()?;
        if self.kind() != TokenKind::FatArrow {
            let fail = self.unexpected(if ops.is_empty() {
                "\"|>\" or \"=>\""
            } else {
                "\"|>\", \"=>\" or the rest of the operator"
            });
            if self.is_name() && !self.token().first_on_line {
                self.help("an alias needs \"as\"");
            }
            return Err(fail);
        }
        self.advance();
        if !self.is_name() {
            let fail = self.unexpected("a sink, such as \"dw.orders\"");
            if !self.tokens[self.at - 1].first_on_line {
                self.help("\"=>\" begins the target; \"greater or equal\" is written \">=\"");
            }
            return Err(fail);
        }
        let target = self.table_ref("a sink, such as \"dw.orders\"")?;
        let key = if self.at_word("key") && self.kind_at(1) == TokenKind::OpenParen {
            self.eat_word("key");
            Some(self.name_list("a column")?)
        } else {
            None
        };
        let with = if self.at_word("with") && self.kind_at(1) == TokenKind::OpenBrace {
            self.eat_word("with");
            Some(self.option_block()?)
        } else {
            None
        };
        Ok(Flow { head, ops, target, key, with })
    }

    pub(super) fn table_with_alias(&mut self) -> Parsed<TableRef> {
        let mut table = self.table_ref("a table, such as \"src.orders\"")?;
        if self.eat_word("as") {
            table.alias = Some(self.name("an alias")?);
        }
        Ok(table)
    }

    /// `root.part.part`. Patterns and templates are read wherever a table is; what may stand where is
    /// checked later, with a better word than "unexpected".
    pub(super) fn table_ref(&mut self, what: &str) -> Parsed<TableRef> {
        let start = self.span();
        let root = self.name(what)?;
        let mut parts = Vec::new();
        while self.eat(TokenKind::Dot) {
            parts.push(self.table_part()?);
        }
        Ok(TableRef { root, parts, alias: None, span: self.since(start) })
    }

    fn table_part(&mut self) -> Parsed<TablePart> {
        let start = self.span();
        let token = self.token();
        let kind = match token.kind {
            TokenKind::String => TablePartKind::Template(self.text("a name")?),
            TokenKind::Regex => {
                self.advance();
                let text = self.text_of(token);
                // the slash is ours, the rest is the expression's
                TablePartKind::Regex(text[1..text.len() - 1].replace("\\/", "/"))
            }
            TokenKind::Quoted => {
                self.advance();
                TablePartKind::Name(super::unquote(self.text_of(token)))
            }
            TokenKind::Word | TokenKind::Star | TokenKind::Question => self.glob(),
            _ => {
                let fail = self.unexpected("a table's name");
                return Err(fail);
            }
        };
        Ok(TablePart { kind, span: self.since(start) })
    }

    /// A name, with `*` and `?` in it or not: all that stands there without white space.
    fn glob(&mut self) -> TablePartKind {
        let start = self.token().start;
        let mut pattern = false;
        loop {
            pattern |= matches!(self.kind(), TokenKind::Star | TokenKind::Question);
            let goes_on = self.next_is_adjacent()
                && match self.kind_at(1) {
                    TokenKind::Star | TokenKind::Question | TokenKind::Word => true,
                    // digits behind a star
                    TokenKind::Number => !self.text_of(self.tokens[self.at + 1]).contains(['.', '+', '-']),
                    _ => false,
                };
            let end = self.advance().end;
            if goes_on {
                let next = self.at;
                self.roles[next] = Role::Joined;
            } else {
                let text = self.text[start..end].to_owned();
                return if pattern { TablePartKind::Glob(text) } else { TablePartKind::Name(text) };
            }
        }
    }

    pub(super) fn ops(&mut self) -> Parsed<Vec<Op>> {
        let mut ops = Vec::new();
        while self.eat(TokenKind::Pipe) {
            let start = self.span();
            let kind = self.op()?;
            ops.push(Op { kind, span: self.since(start) });
        }
        Ok(ops)
    }

    fn op(&mut self) -> Parsed<OpKind> {
        let found = OPERATORS.iter().copied().find(|w| self.eat_word(w));
        match found {
            Some("where") => Ok(OpKind::Where(self.expr()?)),
            Some("select") => Ok(OpKind::Select(self.list(Self::select_item)?)),
            Some("extend") => Ok(OpKind::Extend(self.list(Self::named)?)),
            Some("drop") => Ok(OpKind::Drop(self.list(|p| p.name("a column"))?)),
            Some("rename") => Ok(OpKind::Rename(self.list(Self::renaming)?)),
            Some("join") => self.join(JoinKind::Inner),
            Some("left") => self.outer_join(JoinKind::Left),
            Some("right") => self.outer_join(JoinKind::Right),
            Some("full") => self.outer_join(JoinKind::Full),
            Some("semi") => self.outer_join(JoinKind::Semi),
            Some("anti") => self.outer_join(JoinKind::Anti),
            Some("aggregate") => self.aggregate(),
            Some("distinct") => Ok(OpKind::Distinct),
            Some("union") => self.union(),
            Some("top") => self.top(),
            _ => Err(self.unknown_operator()),
        }
    }

    fn unknown_operator(&mut self) -> Fail {
        if self.kind() != TokenKind::Word {
            return self.unexpected("an operator, such as \"where\"");
        }
        let token = self.token();
        let text = self.text_of(token);
        self.report(codes::UNEXPECTED_TOKEN, format!("unknown operator \"{text}\""), token.span().into(), "");
        let elsewhere = ELSEWHERE.iter().find(|(w, _)| w.eq_ignore_ascii_case(text));
        match (elsewhere, nearest(text, OPERATORS.iter().copied())) {
            (Some((_, here)), _) => self.help(&format!("this is written \"{here}\"")),
            (None, Some(near)) => self.help(&format!("did you mean \"{near}\"?")),
            (None, None) => self.help(
                "operators are where, select, extend, drop, rename, join (left, right, full, semi, anti), \
                 aggregate, distinct, union all, union distinct, top",
            ),
        }
        Fail
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn select_item(&mut self) -> Parsed<SelectItem> {
        if self.kind() != TokenKind::Star {
            return Ok(SelectItem::Expr(self.named()?));
        }
        let start = self.span();
        self.advance();
        let except = if self.eat_word("except") { self.name_list("a column")? } else { Vec::new() };
        Ok(SelectItem::Star { except, span: self.since(start) })
    }

    fn named(&mut self) -> Parsed<Named> {
        let expr = self.expr()?;
        let alias = if self.eat_word("as") { Some(self.name("a name")?) } else { None };
        Ok(Named { expr, alias })
    }

    fn renaming(&mut self) -> Parsed<(Name, Name)> {
        let from = self.name("a column")?;
        self.expect_word("as")?;
        Ok((from, self.name("the column's new name")?))
    }

    fn outer_join(&mut self, kind: JoinKind) -> Parsed<OpKind> {
        if matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full) {
            self.eat_word("outer");
        }
        self.expect_word("join")?;
        self.join(kind)
    }

    fn join(&mut self, kind: JoinKind) -> Parsed<OpKind> {
        let table = self.table_with_alias()?;
        if self.kind() == TokenKind::Word && !self.at_word("on") {
            let fail = self.unexpected("\"on\"");
            self.help("an alias needs \"as\"");
            return Err(fail);
        }
        self.expect_word("on")?;
        Ok(OpKind::Join { kind, table, on: self.expr()? })
    }

    fn aggregate(&mut self) -> Parsed<OpKind> {
        let items = self.list(Self::named)?;
        let group_by = if self.eat_word("group") {
            self.expect_word("by")?;
            self.list(Self::named)?
        } else {
            Vec::new()
        };
        Ok(OpKind::Aggregate { items, group_by })
    }

    fn union(&mut self) -> Parsed<OpKind> {
        let all = if self.eat_word("all") {
            true
        } else if self.eat_word("distinct") {
            false
        } else {
            let fail = self.unexpected("\"all\" or \"distinct\"");
            self.help("\"union all\" keeps equal rows, \"union distinct\" keeps one of them");
            return Err(fail);
        };
        Ok(OpKind::Union { all, table: self.table_with_alias()? })
    }

    fn top(&mut self) -> Parsed<OpKind> {
        let count = self.expr()?;
        self.expect_word("by")?;
        let by = self.list(|p| {
            let expr = p.expr()?;
            let descending = p.eat_word("desc");
            if !descending {
                p.eat_word("asc");
            }
            Ok(OrderKey { expr, descending })
        })?;
        let per = if self.eat_word("per") { self.list(Self::expr)? } else { Vec::new() };
        Ok(OpKind::Top { count, by, per })
    }
}
