//! Expressions, with MySQL's precedence (manual 14.4.1), by binding powers.
//!
//! From loose to tight: `or`, `xor`, `and`, `not`, comparisons with `is`, then `in like between`, `|`, `&`,
//! shifts, `+ -`, `* / div % mod`, `^`, the signs with `!`, and `collate ->`. A chain such as `a + b + c` is
//! a loop here but a deep tree for all who come after, so the depth of a tree is limited too.

use super::{Fail, Parsed, Parser, Role};
use crate::ast::{BinaryOp, Expr, ExprKind, Name, Span, TypeName, UnaryOp};
use crate::token::TokenKind;
use cdc_core::diagnostic::codes;
use cdc_core::expr::Unit;

/// Operators below each other, at most.
const MAX_DEPTH: u16 = 200;

const OR: u8 = 1;
const XOR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARE: u8 = 5;
const PREDICATE: u8 = 6;
const BIT_OR: u8 = 7;
const BIT_AND: u8 = 8;
const SHIFT: u8 = 9;
const ADD: u8 = 10;
const MULTIPLY: u8 = 11;
const BIT_XOR: u8 = 12;
const SIGN: u8 = 13;

/// Words that hold expressions together and are columns only in backticks or behind a dot.
const STRUCTURE: &[&str] = &[
    "and", "as", "between", "by", "collate", "div", "else", "end", "in", "is", "like", "on", "or", "regexp",
    "rlike", "then", "when", "where", "xor",
];

/// Functions whose first argument is a unit, such as `day`; `extract` has a form of its own.
const TAKE_A_UNIT: &[&str] = &["timestampadd", "timestampdiff"];

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(|p| p.climb(0))
    }

    fn make(&mut self, kind: ExprKind, span: Span) -> Parsed<Expr> {
        let mut expr = Expr { kind, span, depth: 0 };
        expr.depth = expr.children().iter().map(|c| c.depth + 1).max().unwrap_or(0);
        if expr.depth > MAX_DEPTH {
            self.report(codes::TOO_DEEP, "this expression is nested too deeply", span, "");
            self.help("name parts of it with \"extend\" before");
            return Err(Fail);
        }
        Ok(expr)
    }

    /// Reads operators that bind at least as tight as `min`.
    fn climb(&mut self, min: u8) -> Parsed<Expr> {
        let mut left = self.prefix()?;
        loop {
            // a word in column 1 begins a statement
            if self.kind() == TokenKind::Word && self.token().column_one {
                return Ok(left);
            }
            left = match self.infix(left, min)? {
                Ok(longer) => longer,
                Err(done) => return Ok(done),
            };
        }
    }

    fn prefix(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let (op, power) = match self.kind() {
            TokenKind::Minus => (Some(UnaryOp::Negate), SIGN),
            TokenKind::Plus => (None, SIGN),
            TokenKind::Tilde => (Some(UnaryOp::BitNot), SIGN),
            TokenKind::Bang => (Some(UnaryOp::Not), SIGN),
            TokenKind::Word if self.at_word("not") && self.kind_at(1) != TokenKind::Equal => {
                (Some(UnaryOp::Not), NOT)
            }
            _ => return self.primary(),
        };
        if self.kind() == TokenKind::Word {
            self.eat_word("not");
        } else {
            self.advance();
        }
        let operand = self.nested(|p| p.climb(power))?;
        match op {
            Some(op) => {
                let span = self.since(start);
                self.make(ExprKind::Unary(op, Box::new(operand)), span)
            }
            None => Ok(operand),
        }
    }

    /// One more operator behind `left`, if there is one that binds tight enough.
    fn infix(&mut self, left: Expr, min: u8) -> Parsed<Result<Expr, Expr>> {
        if let Some((op, power)) = self.binary_operator() {
            if power < min {
                return Ok(Err(left));
            }
            let keyword = self.kind() == TokenKind::Word;
            let at = self.at;
            if keyword {
                self.roles[at] = Role::Keyword;
            }
            self.advance();
            let right = self.nested(|p| p.climb(power + 1))?;
            let span = left.span.to(self.previous_span());
            let (left, right) = (Box::new(left), Box::new(right));
            let bars = self.tokens[at].kind == TokenKind::BarBar;
            let kind = if bars { ExprKind::Bars(left, right) } else { ExprKind::Binary(op, left, right) };
            return self.make(kind, span).map(Ok);
        }
        if self.kind() != TokenKind::Word {
            return Ok(Err(left));
        }
        if self.at_word("collate") {
            self.eat_word("collate");
            let name = self.name("a collation")?;
            let span = left.span.to(self.previous_span());
            return self.make(ExprKind::Collate(Box::new(left), name), span).map(Ok);
        }
        if self.at_word("is") {
            return if COMPARE < min { Ok(Err(left)) } else { self.is(left).map(Ok) };
        }
        let negated = self.at_word("not");
        let word = usize::from(negated);
        let predicate =
            ["in", "like", "between", "regexp", "rlike"].into_iter().find(|w| self.word_at(word, w));
        match predicate {
            Some(predicate) if PREDICATE >= min => {
                if negated {
                    self.eat_word("not");
                }
                self.eat_word(predicate);
                self.predicate(left, predicate, negated).map(Ok)
            }
            _ => Ok(Err(left)),
        }
    }

    fn binary_operator(&self) -> Option<(BinaryOp, u8)> {
        use BinaryOp::*;
        Some(match self.kind() {
            TokenKind::BarBar => (Or, OR),
            TokenKind::AndAnd => (And, AND),
            TokenKind::Equal => (Equal, COMPARE),
            TokenKind::NotEqual => (NotEqual, COMPARE),
            TokenKind::Less => (Less, COMPARE),
            TokenKind::LessEqual => (LessEqual, COMPARE),
            TokenKind::Greater => (Greater, COMPARE),
            TokenKind::GreaterEqual => (GreaterEqual, COMPARE),
            TokenKind::NullSafeEqual => (NullSafeEqual, COMPARE),
            TokenKind::Bar => (BitOr, BIT_OR),
            TokenKind::Ampersand => (BitAnd, BIT_AND),
            TokenKind::ShiftLeft => (ShiftLeft, SHIFT),
            TokenKind::ShiftRight => (ShiftRight, SHIFT),
            TokenKind::Plus => (Add, ADD),
            TokenKind::Minus => (Subtract, ADD),
            TokenKind::Star => (Multiply, MULTIPLY),
            TokenKind::Slash => (Divide, MULTIPLY),
            TokenKind::Percent => (Modulo, MULTIPLY),
            TokenKind::Caret => (BinaryOp::BitXor, BIT_XOR),
            TokenKind::Arrow => (JsonExtract, SIGN),
            TokenKind::LongArrow => (JsonUnquote, SIGN),
            TokenKind::Word => {
                let text = self.text_of(self.token());
                let words =
                    [("or", Or, OR), ("xor", Xor, XOR), ("and", And, AND), ("div", IntegerDivide, MULTIPLY)];
                let found = words.into_iter().chain([("mod", Modulo, MULTIPLY)]);
                return found
                    .into_iter()
                    .find(|(w, _, _)| w.eq_ignore_ascii_case(text))
                    .map(|(_, op, power)| (op, power));
            }
            _ => return None,
        })
    }

    fn is(&mut self, left: Expr) -> Parsed<Expr> {
        self.eat_word("is");
        let negated = self.eat_word("not");
        let operand = Box::new(left);
        let start = operand.span;
        let kind = if self.eat_word("null") || self.eat_word("unknown") {
            ExprKind::IsNull { operand, negated }
        } else if self.eat_word("true") {
            ExprKind::IsTruth { operand, truth: true, negated }
        } else if self.eat_word("false") {
            ExprKind::IsTruth { operand, truth: false, negated }
        } else {
            return Err(self.unexpected("\"null\", \"true\" or \"false\""));
        };
        let span = self.since(start);
        self.make(kind, span)
    }

    fn predicate(&mut self, left: Expr, word: &str, negated: bool) -> Parsed<Expr> {
        let start = left.span;
        let operand = Box::new(left);
        let kind = match word {
            "in" => {
                self.expect(TokenKind::OpenParen, "\"(\"")?;
                self.no_query()?;
                let list = self.arguments()?;
                self.expect(TokenKind::CloseParen, "\",\" or \")\"")?;
                ExprKind::In { operand, list, negated }
            }
            "between" => {
                let low = Box::new(self.nested(|p| p.climb(BIT_OR))?);
                self.expect_word("and")?;
                let high = Box::new(self.nested(|p| p.climb(BIT_OR))?);
                ExprKind::Between { operand, low, high, negated }
            }
            "like" => {
                let pattern = Box::new(self.nested(|p| p.climb(SIGN))?);
                let escape =
                    if self.eat_word("escape") { Some(self.text("a character in quotes")?) } else { None };
                ExprKind::Like { operand, pattern, escape, negated }
            }
            _ => {
                let pattern = self.nested(|p| p.climb(SIGN))?;
                let name = Name { text: "regexp_like".to_owned(), span: start };
                let span = self.since(start);
                let arguments = vec![*operand, pattern];
                let call = ExprKind::Call { name, distinct: false, star: false, arguments };
                let call = self.make(call, span)?;
                if !negated {
                    return Ok(call);
                }
                ExprKind::Unary(UnaryOp::Not, Box::new(call))
            }
        };
        let span = self.since(start);
        self.make(kind, span)
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut arguments = vec![self.expr()?];
        while self.eat(TokenKind::Comma) {
            arguments.push(self.expr()?);
        }
        Ok(arguments)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let span: Span = token.span().into();
        let kind = match token.kind {
            TokenKind::Number => {
                self.advance();
                ExprKind::Number(self.text_of(token).to_owned())
            }
            TokenKind::Hex => {
                self.advance();
                let text = self.text_of(token);
                ExprKind::Hex(text[2..].trim_end_matches('\'').to_owned())
            }
            TokenKind::Bits => {
                self.advance();
                ExprKind::Bits(self.text_of(token)[2..].trim_end_matches('\'').to_owned())
            }
            TokenKind::String => ExprKind::Text(self.text("a text")?),
            TokenKind::Param => {
                self.advance();
                ExprKind::Param(self.param_name(token))
            }
            TokenKind::OpenParen => return self.parenthesised(),
            TokenKind::Quoted => return self.column_or_call(),
            TokenKind::Word => return self.word(),
            _ => return Err(self.unexpected("an expression")),
        };
        self.make(kind, span)
    }

    /// At the word `interval`: is it one, and not a column of that name?
    fn interval_begins(&self) -> bool {
        let unit_at = |n: usize| Unit::ALL.iter().any(|u| self.word_at(n, u.name()));
        match self.kind_at(1) {
            TokenKind::Number | TokenKind::String | TokenKind::Param | TokenKind::OpenParen => true,
            TokenKind::Minus => self.kind_at(2) == TokenKind::Number && self.kind_at(3) == TokenKind::Word,
            TokenKind::Word | TokenKind::Quoted => unit_at(2),
            _ => false,
        }
    }

    fn parenthesised(&mut self) -> Parsed<Expr> {
        self.advance();
        self.no_query()?;
        let expr = self.expr()?;
        self.expect(TokenKind::CloseParen, "\")\"")?;
        Ok(expr)
    }

    fn no_query(&mut self) -> Parsed<()> {
        let begins = !matches!(self.kind_at(1), TokenKind::CloseParen | TokenKind::Comma | TokenKind::Equal);
        if !self.at_word("select") || !begins {
            return Ok(());
        }
        let fail = self.unexpected("an expression");
        self.help("there are no queries within expressions: join the other table instead");
        Err(fail)
    }

    fn word(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let span: Span = token.span().into();
        let lower = self.text_of(token).to_ascii_lowercase();
        let next = self.kind_at(1);
        if next == TokenKind::Dot {
            return self.column_or_call();
        }
        match lower.as_str() {
            "null" | "true" | "false" => {
                self.eat_word(&lower);
                let kind = if lower == "null" { ExprKind::Null } else { ExprKind::Bool(lower == "true") };
                self.make(kind, span)
            }
            "case" => self.case(),
            "cast" | "convert" if next == TokenKind::OpenParen => self.cast(),
            "date" | "time" | "timestamp" | "datetime" if next == TokenKind::String => {
                self.eat_word(&lower);
                let text = self.text("a text")?;
                let span = self.since(span);
                self.make(ExprKind::Typed(lower, text), span)
            }
            "interval" if self.interval_begins() => {
                self.eat_word("interval");
                let count = Box::new(self.nested(|p| p.climb(BIT_OR))?);
                let unit = self.name("a unit, such as \"day\"")?;
                let span = self.since(span);
                self.make(ExprKind::Interval(count, unit), span)
            }
            // as in MySQL, `extract(unit from x)`
            "extract" if next == TokenKind::OpenParen => self.extract(),
            _ if next != TokenKind::OpenParen
                && next != TokenKind::Equal
                && STRUCTURE.contains(&lower.as_str()) =>
            {
                let fail = self.unexpected("an expression");
                self.help(&format!("a column of this name is written `{lower}`"));
                Err(fail)
            }
            _ => self.column_or_call(),
        }
    }

    fn column_or_call(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if self.kind() == TokenKind::Word && self.kind_at(1) == TokenKind::OpenParen {
            return self.call();
        }
        let mut name = self.name("a column")?;
        let mut qualifier = None;
        while self.eat(TokenKind::Dot) {
            let next = self.name("a column")?;
            // of `source.table.column` the table's name is what counts
            qualifier = Some(std::mem::replace(&mut name, next));
        }
        let span = self.since(start);
        self.make(ExprKind::Column { qualifier, name }, span)
    }

    fn call(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let at = self.at;
        self.roles[at] = Role::Function;
        let mut name = self.name("a function")?;
        name.text = name.text.to_ascii_lowercase();
        self.advance();
        let star = self.kind() == TokenKind::Star && self.kind_at(1) == TokenKind::CloseParen;
        let mut distinct = false;
        let mut arguments = Vec::new();
        if star {
            self.advance();
        } else if self.kind() != TokenKind::CloseParen {
            distinct = !matches!(self.kind_at(1), TokenKind::Comma | TokenKind::CloseParen)
                && self.eat_word("distinct");
            arguments = self.arguments()?;
        }
        self.expect(TokenKind::CloseParen, "\",\" or \")\"")?;
        if TAKE_A_UNIT.contains(&name.text.as_str())
            && let Some(Expr { kind, .. }) = arguments.first_mut()
            && let ExprKind::Column { qualifier: None, name } = kind
        {
            *kind = ExprKind::Unit(name.clone());
        }
        let span = self.since(start);
        self.make(ExprKind::Call { name, distinct, star, arguments }, span)
    }

    fn extract(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let at = self.at;
        self.eat_word("extract");
        self.roles[at] = Role::Function;
        self.advance();
        let name = Name { text: "extract".to_owned(), span: start };
        let unit = self.name("a unit, such as \"year\"")?;
        let unit_span = unit.span;
        let unit = self.make(ExprKind::Unit(unit), unit_span)?;
        self.expect_word("from")?;
        let operand = self.expr()?;
        self.expect(TokenKind::CloseParen, "\")\"")?;
        let span = self.since(start);
        let arguments = vec![unit, operand];
        self.make(ExprKind::Call { name, distinct: false, star: false, arguments }, span)
    }

    fn case(&mut self) -> Parsed<Expr> {
        let start = self.span();
        self.eat_word("case");
        let operand = if self.at_word("when") { None } else { Some(Box::new(self.expr()?)) };
        let mut branches = Vec::new();
        while self.eat_word("when") {
            let when = self.expr()?;
            self.expect_word("then")?;
            branches.push((when, self.expr()?));
        }
        if branches.is_empty() {
            return Err(self.unexpected("\"when\""));
        }
        let otherwise = if self.eat_word("else") { Some(Box::new(self.expr()?)) } else { None };
        if !self.eat_word("end") {
            return Err(self.unexpected("\"when\", \"else\" or \"end\""));
        }
        let span = self.since(start);
        self.make(ExprKind::Case { operand, branches, otherwise }, span)
    }

    /// `cast(x as type)`, and `convert(x, type)`, which means the same.
    fn cast(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let at = self.at;
        let convert = self.eat_word("convert");
        if !convert {
            self.eat_word("cast");
        }
        self.roles[at] = Role::Function;
        self.advance();
        let operand = self.expr()?;
        if convert {
            self.expect(TokenKind::Comma, "\",\" and a type")?;
        } else {
            self.expect_word("as")?;
        }
        let ty = self.type_name()?;
        self.expect(TokenKind::CloseParen, "\")\"")?;
        let span = self.since(start);
        self.make(ExprKind::Cast(Box::new(operand), ty), span)
    }

    fn type_name(&mut self) -> Parsed<TypeName> {
        let start = self.span();
        let mut words = Vec::new();
        while self.kind() == TokenKind::Word {
            let at = self.at;
            self.roles[at] = Role::Function;
            words.push(self.text_of(self.token()).to_ascii_lowercase());
            self.advance();
        }
        if words.is_empty() {
            return Err(self.unexpected("a type, such as \"signed\" or \"decimal(10, 2)\""));
        }
        let mut arguments = Vec::new();
        if self.eat(TokenKind::OpenParen) {
            loop {
                let token = self.expect(TokenKind::Number, "a number")?;
                match self.text_of(token).parse() {
                    Ok(n) => arguments.push(n),
                    Err(_) => {
                        self.report(codes::OUT_OF_RANGE, "this number is too large", token.span().into(), "");
                        return Err(Fail);
                    }
                }
                if !self.eat(TokenKind::Comma) {
                    break;
                }
            }
            self.expect(TokenKind::CloseParen, "\",\" or \")\"")?;
        }
        Ok(TypeName { words: words.join(" "), arguments, span: self.since(start) })
    }
}
