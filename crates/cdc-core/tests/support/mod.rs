//! A small parser of SQL expressions, so that tests can be tables of texts, and a table to bind them to.
//! The language's own parser is in `cdc-dsl`, which depends on this crate.

#![allow(dead_code)] // each test file uses a part of it

use cdc_core::event::{Op, Origin};
use cdc_core::expr::eval::{BoundExpr, RowMeta, bind};
use cdc_core::expr::{BinaryOp, CastType, Expr, ExprKind, MetaField, UnaryOp, Unit};
use cdc_core::schema::{IntWidth, LobSize};
use cdc_core::{Charset, Column, ColumnType, Diagnostic, TableId, TableSchema, Value};

/// What an expression gives over constants and the row of [`row`]: a value as text, or the error's code.
pub fn result_of(text: &str) -> String {
    let bound = match bind(&parse(text), &table()) {
        Ok(bound) => bound,
        Err(diagnostics) => return codes_of(&diagnostics),
    };
    evaluated(&bound, &row())
}

pub fn codes_of(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(|d| d.code.to_string()).collect::<Vec<_>>().join(" ")
}

pub fn evaluated(bound: &BoundExpr, row: &[Value<'_>]) -> String {
    let (table, origin) = (TableId::new("shop", "t"), origin());
    let meta = RowMeta { op: Op::Update, table: &table, origin: &origin };
    match bound.eval(row, &meta) {
        Ok(Value::Text(v) | Value::Enum { label: v, .. } | Value::Set { labels: v, .. }) => v.into_owned(),
        Ok(Value::Double(v)) => format!("{v:?}"),
        Ok(value) => value.to_string(),
        Err(error) => error.code().to_string(),
    }
}

pub fn origin() -> Origin {
    Origin {
        timestamp_micros: 1_767_262_272_500_000,
        gtid: "3e11fa47-71ca-11e1-9e33-c80aa9429562:23".into(),
        file: "binlog.000007".into(),
        offset: 154,
        snapshot: false,
    }
}

pub fn bin() -> Charset {
    Charset::new("utf8mb4", "utf8mb4_bin")
}

pub fn unbuilt() -> Charset {
    Charset::new("utf8mb4", "utf8mb4_unicode_ci")
}

/// A column of every kind that expressions treat differently.
pub fn table() -> TableSchema {
    let int = |width, unsigned| ColumnType::Int { width, unsigned };
    let labels = |l: &[&str]| l.iter().map(|s| (*s).into()).collect::<Vec<std::sync::Arc<str>>>().into();
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale, unsigned: false };
    let columns = vec![
        Column::new("id", int(IntWidth::Int, false)).not_null(),
        Column::new("i", int(IntWidth::Int, false)),
        Column::new("n", int(IntWidth::Int, false)),
        Column::new("b", int(IntWidth::Big, false)),
        Column::new("u", int(IntWidth::Big, true)),
        Column::new("d", decimal(10, 2)),
        Column::new("dd", decimal(38, 0)),
        Column::new("f", ColumnType::Float { unsigned: false }),
        Column::new("g", ColumnType::Double { unsigned: false }),
        Column::new("v", ColumnType::VarChar { length: 20, charset: bin() }),
        // under a collation that is not built
        Column::new("ci", ColumnType::VarChar { length: 20, charset: unbuilt() }),
        Column::new("l1", ColumnType::VarChar { length: 20, charset: Charset::new("latin1", "latin1_bin") }),
        Column::new(
            "nopad",
            ColumnType::Char { length: 9, charset: Charset::new("utf8mb4", "utf8mb4_0900_bin") },
        ),
        Column::new("tx", ColumnType::Text { size: LobSize::Normal, charset: bin() }),
        Column::new("da", ColumnType::Date),
        Column::new("dt", ColumnType::DateTime { fsp: 3 }),
        Column::new("ts", ColumnType::Timestamp { fsp: 0 }),
        Column::new("tm", ColumnType::Time { fsp: 1 }),
        Column::new("y", ColumnType::Year),
        Column::new("bt", ColumnType::Bit { width: 10 }),
        Column::new("e", ColumnType::Enum { labels: labels(&["new", "paid"]), charset: bin() }),
        Column::new("s", ColumnType::Set { labels: labels(&["x", "yy", "z"]), charset: bin() }),
        Column::new("eci", ColumnType::Enum { labels: labels(&["new"]), charset: unbuilt() }),
        Column::new("vb", ColumnType::VarBinary { length: 10 }),
        Column::new("j", ColumnType::Json),
        Column::new("geo", ColumnType::Geometry { kind: "point".into(), srid: None }),
    ];
    TableSchema {
        id: TableId::new("shop", "t"),
        version: 1,
        columns,
        primary_key: vec![0],
        unique_keys: vec![],
        charset: Charset::utf8mb4(),
        comment: String::new(),
    }
}

pub fn date(year: u16, month: u8, day: u8) -> cdc_core::value::Date {
    cdc_core::value::Date { year, month, day }
}

/// A row of [`table`]: 7, 7, NULL, 9007199254740993, max, 12.50, 38 nines, 0.1, 2.5, ...
pub fn row() -> Vec<Value<'static>> {
    use cdc_core::value::{DateTime, Time, Timestamp};
    vec![
        Value::Int(7),
        Value::Int(7),
        Value::Null,
        Value::Int(9_007_199_254_740_993),
        Value::UInt(u64::MAX),
        Value::Decimal("12.50".into()),
        Value::Decimal("9".repeat(38).into()),
        Value::Float(0.1),
        Value::Double(2.5),
        Value::Text("Straße ".into()),
        Value::Text("Paid".into()),
        Value::Text("€".into()),
        Value::Text("ab".into()),
        Value::Text("long text".into()),
        Value::Date(date(2026, 1, 31)),
        Value::DateTime(DateTime {
            date: date(2026, 1, 31),
            hour: 10,
            minute: 11,
            second: 12,
            micro: 500_000,
        }),
        Value::Timestamp(Timestamp { micros: 1_767_262_272_000_000 }),
        Value::Time(Time { micros: -3_661_500_000 }),
        Value::Year(2026),
        Value::Bit(5),
        Value::Enum { index: 2, label: "paid".into() },
        Value::Set { bits: 5, labels: "x,z".into() },
        Value::Enum { index: 1, label: "new".into() },
        Value::Bytes(vec![0x61, 0xff].into()),
        Value::Json("{\"a\": 1}".into()),
        Value::Null,
    ]
}

/// Parses an expression; panics where it is malformed, since tests are not.
pub fn parse(text: &str) -> Expr {
    let mut parser = Parser { tokens: tokens(text), at: 0, end: text.len() };
    let expr = parser.expr(0);
    assert_eq!(parser.at, parser.tokens.len(), "all of `{text}` is an expression");
    expr
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Number(String),
    Text(String),
    Hex(Vec<u8>),
    Symbol(&'static str),
}

const SYMBOLS: &[&str] = &[
    "<=>", "->>", "->", "<=", ">=", "<>", "!=", "<<", ">>", "&&", "(", ")", ",", "+", "-", "*", "/", "%",
    "=", "<", ">", "&", "|", "^", "~", "!", ".",
];

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < text.len() {
        let rest = &text[at..];
        let c = rest.chars().next().unwrap();
        let start = at;
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let token = if c == '\'' {
            let mut value = String::new();
            let mut chars = rest[1..].char_indices().peekable();
            loop {
                let (i, c) = chars.next().expect("a closing quote");
                match c {
                    '\'' if chars.peek().is_some_and(|(_, c)| *c == '\'') => {
                        chars.next();
                        value.push('\'');
                    }
                    '\'' => {
                        at += i + 2;
                        break;
                    }
                    '\\' => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        't' => value.push('\t'),
                        // kept for LIKE, as in MySQL
                        c @ ('%' | '_') => value.extend(['\\', c]),
                        c => value.push(c),
                    },
                    c => value.push(c),
                }
            }
            Token::Text(value)
        } else if (c == 'x' || c == 'X') && bytes.get(at + 1) == Some(&b'\'') {
            let end = rest[2..].find('\'').unwrap() + 2;
            at += end + 1;
            Token::Hex(
                (2..end).step_by(2).map(|i| u8::from_str_radix(&rest[i..i + 2], 16).unwrap()).collect(),
            )
        } else if c.is_ascii_digit() {
            let mut end = 0;
            let b = rest.as_bytes();
            while end < b.len()
                && (b[end].is_ascii_digit()
                    || b[end] == b'.'
                    || b[end] == b'e'
                    || b[end] == b'-' && b[end - 1] == b'e')
            {
                end += 1;
            }
            at += end;
            Token::Number(rest[..end].to_owned())
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            at += end;
            Token::Word(rest[..end].to_owned())
        } else if c == '`' {
            let end = rest[1..].find('`').unwrap() + 1;
            at += end + 1;
            Token::Word(rest[1..end].to_owned())
        } else {
            let symbol = SYMBOLS.iter().find(|s| rest.starts_with(**s)).expect("a symbol");
            at += symbol.len();
            Token::Symbol(symbol)
        };
        out.push((token, start));
    }
    out
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
    /// The length of the text.
    end: usize,
}

impl Parser {
    fn is_word(&self, word: &str) -> bool {
        matches!(self.tokens.get(self.at), Some((Token::Word(w), _)) if w.eq_ignore_ascii_case(word))
    }

    fn word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some((Token::Symbol(s), _)) if *s == symbol);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, symbol: &str) {
        assert!(self.symbol(symbol), "`{symbol}` at {:?}", self.tokens.get(self.at));
    }

    fn make(&self, kind: ExprKind, start: usize) -> Expr {
        Expr { kind, span: start..self.tokens.get(self.at).map_or(self.end, |t| t.1) }
    }

    fn binary(&self) -> Option<(BinaryOp, u8)> {
        let (token, _) = self.tokens.get(self.at)?;
        Some(match token {
            Token::Word(w) => match w.to_lowercase().as_str() {
                "or" => (BinaryOp::Or, 1),
                "xor" => (BinaryOp::Xor, 2),
                "and" => (BinaryOp::And, 3),
                "div" => (BinaryOp::IntegerDivide, 11),
                "mod" => (BinaryOp::Modulo, 11),
                _ => return None,
            },
            Token::Symbol(s) => match *s {
                "&&" => (BinaryOp::And, 3),
                "=" => (BinaryOp::Equal, 6),
                "<>" | "!=" => (BinaryOp::NotEqual, 6),
                "<" => (BinaryOp::Less, 6),
                "<=" => (BinaryOp::LessEqual, 6),
                ">" => (BinaryOp::Greater, 6),
                ">=" => (BinaryOp::GreaterEqual, 6),
                "<=>" => (BinaryOp::NullSafeEqual, 6),
                "|" => (BinaryOp::BitOr, 7),
                "&" => (BinaryOp::BitAnd, 8),
                "<<" => (BinaryOp::ShiftLeft, 9),
                ">>" => (BinaryOp::ShiftRight, 9),
                "+" => (BinaryOp::Add, 10),
                "-" => (BinaryOp::Subtract, 10),
                "*" => (BinaryOp::Multiply, 11),
                "/" => (BinaryOp::Divide, 11),
                "%" => (BinaryOp::Modulo, 11),
                "^" => (BinaryOp::BitXor, 12),
                "->" => (BinaryOp::JsonExtract, 15),
                "->>" => (BinaryOp::JsonUnquote, 15),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn expr(&mut self, least: u8) -> Expr {
        let start = self.tokens.get(self.at).map_or(0, |t| t.1);
        let mut left = self.prefix(start);
        loop {
            if let Some((op, level)) = self.binary() {
                if level < least {
                    break;
                }
                self.at += 1;
                let right = self.expr(level + 1);
                left = self.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), start);
                continue;
            }
            if least <= 14 && self.word("collate") {
                let Some((Token::Word(name), _)) = self.tokens.get(self.at).cloned() else {
                    panic!("a collation")
                };
                self.at += 1;
                left = self.make(ExprKind::Collate(Box::new(left), name), start);
                continue;
            }
            if least > 6 {
                break;
            }
            let before = self.at;
            if self.word("is") {
                let negated = self.word("not");
                let operand = Box::new(left);
                let kind = if self.word("null") {
                    ExprKind::IsNull { operand, negated }
                } else {
                    let truth = self.word("true");
                    assert!(truth || self.word("false"));
                    ExprKind::IsTruth { operand, truth, negated }
                };
                left = self.make(kind, start);
                continue;
            }
            let negated = self.word("not");
            if self.word("between") {
                let low = Box::new(self.expr(7));
                assert!(self.word("and"));
                let high = Box::new(self.expr(7));
                left = self.make(ExprKind::Between { operand: Box::new(left), low, high, negated }, start);
            } else if self.word("in") {
                self.expect("(");
                let list = self.list();
                left = self.make(ExprKind::In { operand: Box::new(left), list, negated }, start);
            } else if self.word("like") {
                let pattern = Box::new(self.expr(7));
                let escape = self.word("escape").then(|| match &self.tokens[self.at].0 {
                    Token::Text(t) => t.chars().next().unwrap(),
                    other => panic!("an escape character, not {other:?}"),
                });
                self.at += usize::from(escape.is_some());
                left = self.make(ExprKind::Like { operand: Box::new(left), pattern, escape, negated }, start);
            } else {
                self.at = before;
                break;
            }
        }
        left
    }

    /// Up to the closing parenthesis.
    fn list(&mut self) -> Vec<Expr> {
        let mut list = Vec::new();
        if self.symbol(")") {
            return list;
        }
        loop {
            list.push(self.expr(0));
            if !self.symbol(",") {
                self.expect(")");
                return list;
            }
        }
    }

    fn number(&mut self) -> u32 {
        let (Token::Number(n), _) = &self.tokens[self.at] else { panic!("a number") };
        let n = n.parse().unwrap();
        self.at += 1;
        n
    }

    fn unit(&mut self) -> Unit {
        let (Token::Word(word), _) = &self.tokens[self.at] else { panic!("a unit") };
        let unit = Unit::from_name(word).expect("a unit");
        self.at += 1;
        unit
    }

    fn cast_type(&mut self) -> CastType {
        let (Token::Word(word), _) = self.tokens[self.at].clone() else { panic!("a type") };
        self.at += 1;
        let mut args = Vec::new();
        if self.symbol("(") {
            args.push(self.number());
            while self.symbol(",") {
                args.push(self.number());
            }
            self.expect(")");
        }
        let first = args.first().copied();
        let fsp = first.unwrap_or(0) as u8;
        match word.to_lowercase().as_str() {
            "signed" => CastType::Signed,
            "unsigned" => CastType::Unsigned,
            "decimal" => CastType::Decimal {
                precision: first.unwrap_or(10) as u8,
                scale: args.get(1).copied().unwrap_or(0) as u8,
            },
            "double" => CastType::Double,
            "float" => CastType::Float,
            "char" => CastType::Char { length: first },
            "binary" => CastType::Binary { length: first },
            "date" => CastType::Date,
            "datetime" => CastType::DateTime { fsp },
            "time" => CastType::Time { fsp },
            "year" => CastType::Year,
            "json" => CastType::Json,
            other => panic!("the type {other}"),
        }
    }

    fn prefix(&mut self, start: usize) -> Expr {
        let (token, _) = self.tokens.get(self.at).cloned().expect("an expression");
        self.at += 1;
        let literal = |value| ExprKind::Literal(value);
        let kind = match token {
            Token::Symbol("-") => ExprKind::Unary(UnaryOp::Negate, Box::new(self.expr(13))),
            Token::Symbol("~") => ExprKind::Unary(UnaryOp::BitNot, Box::new(self.expr(13))),
            Token::Symbol("!") => ExprKind::Unary(UnaryOp::Not, Box::new(self.expr(13))),
            Token::Symbol("(") => {
                let inner = self.expr(0);
                self.expect(")");
                return inner;
            }
            Token::Symbol(other) => panic!("an expression, not {other}"),
            Token::Text(text) => literal(Value::Text(text.into())),
            Token::Hex(bytes) => literal(Value::Bytes(bytes.into())),
            Token::Number(n) if n.contains('e') => literal(Value::Double(n.parse().unwrap())),
            Token::Number(n) if n.contains('.') => literal(Value::Decimal(n.into())),
            Token::Number(n) => literal(match n.parse::<i64>() {
                Ok(v) => Value::Int(v),
                Err(_) => n.parse::<u64>().map_or(Value::Decimal(n.into()), Value::UInt),
            }),
            Token::Word(word) => match word.to_lowercase().as_str() {
                "null" => literal(Value::Null),
                "true" => literal(Value::Int(1)),
                "false" => literal(Value::Int(0)),
                "not" => ExprKind::Unary(UnaryOp::Not, Box::new(self.expr(4))),
                "case" => self.case(),
                "cast" => {
                    self.expect("(");
                    let operand = Box::new(self.expr(0));
                    assert!(self.word("as"));
                    let ty = self.cast_type();
                    self.expect(")");
                    ExprKind::Cast(operand, ty)
                }
                "meta" => {
                    self.expect(".");
                    let (Token::Word(field), _) = self.tokens[self.at].clone() else { panic!("a field") };
                    self.at += 1;
                    ExprKind::Meta(MetaField::from_name(&field).unwrap())
                }
                "interval" => {
                    let count = Box::new(self.expr(7));
                    ExprKind::Interval(count, self.unit())
                }
                "extract" if self.symbol("(") => {
                    let at = self.at;
                    let unit = ExprKind::Unit(self.unit());
                    let unit = self.make(unit, self.tokens[at].1);
                    assert!(self.word("from"));
                    let operand = self.expr(0);
                    self.expect(")");
                    ExprKind::Call("extract".to_owned(), vec![unit, operand])
                }
                lower @ ("timestampadd" | "timestampdiff") if self.symbol("(") => {
                    let at = self.at;
                    let unit = ExprKind::Unit(self.unit());
                    let unit = self.make(unit, self.tokens[at].1);
                    self.expect(",");
                    ExprKind::Call(lower.to_owned(), std::iter::once(unit).chain(self.list()).collect())
                }
                lower if self.symbol("(") => ExprKind::Call(lower.to_owned(), self.list()),
                _ => ExprKind::Column(word),
            },
        };
        self.make(kind, start)
    }

    fn case(&mut self) -> ExprKind {
        let operand = (!self.is_word("when")).then(|| Box::new(self.expr(0)));
        let mut branches = Vec::new();
        while self.word("when") {
            let when = self.expr(0);
            assert!(self.word("then"));
            branches.push((when, self.expr(0)));
        }
        let otherwise = self.word("else").then(|| Box::new(self.expr(0)));
        assert!(self.word("end"));
        ExprKind::Case { operand, branches, otherwise }
    }
}
