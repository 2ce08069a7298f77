//! Random expressions over random rows: binding and evaluating never panic, and what is bound gives values of
//! the type that it said.

mod support;

use cdc_core::event::Op;
use cdc_core::expr::eval::{RowMeta, bind};
use cdc_core::expr::{BinaryOp, CastType, Expr, ExprKind, MetaField, UnaryOp, Unit};
use cdc_core::schema::IntWidth;
use cdc_core::value::{Date, DateTime, Time, Timestamp};
use cdc_core::{ColumnType, TableId, TableSchema, Value, codes};

/// xorshift64*; a seed is a test case.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn integer(&mut self) -> i64 {
        let any = self.next() as i64;
        self.pick(&[0, 1, -1, 2, 7, 10, 255, 1 << 53, i64::MAX, i64::MIN, any])
    }

    fn text(&mut self) -> String {
        let pieces =
            ["", "a", "B ", "é", "🙂", "%", "_", "\\", "12", "1.5", "2026-01-31", "10:11:12", "\0", "ß"];
        // what some functions take
        let whole = [
            "$",
            "$.a",
            "$[last]",
            "$[*]",
            "$.\"a",
            "{\"a\": [1, \"x\"]}",
            "[1, 2",
            "%Y-%m-%d %T",
            "%d.%m",
            "%H:%i %p",
            "[a-c]+",
            "(a|B)*$",
            "\\bx{2,3}?",
            "(",
            "+02:00",
            "i",
            "one",
            "YWJj",
            "00112233-4455-6677-8899-aabbccddeeff",
            "10.0.0.1",
            "$1\\",
        ];
        if self.below(4) == 0 {
            return self.pick(&whole).to_owned();
        }
        (0..self.below(4)).map(|_| self.pick(&pieces)).collect()
    }

    fn decimal(&mut self) -> String {
        let any = [
            "0",
            "0.00",
            "1.50",
            "-0.01",
            "12345678901234567890.5",
            "-99999999999999999999999999999999999999",
        ];
        match self.below(8) {
            0 => "9".repeat(65),
            1 => format!("0.{}", "9".repeat(30)),
            _ => self.pick(&any).to_owned(),
        }
    }

    fn date(&mut self) -> Date {
        self.pick(&[
            Date::default(),
            support::date(2026, 1, 31),
            support::date(2024, 2, 29),
            support::date(2026, 0, 10),
            support::date(9999, 12, 31),
            support::date(1, 1, 1),
        ])
    }

    fn datetime(&mut self) -> DateTime {
        let micro = self.pick(&[0, 1, 500_000, 999_999]);
        let (hour, minute, second) = self.pick(&[(0, 0, 0), (23, 59, 59), (10, 11, 12)]);
        DateTime { date: self.date(), hour, minute, second, micro }
    }

    fn double(&mut self) -> f64 {
        self.pick(&[0.0, -0.0, 1.5, 2.5, -1e300, 1e308, 5e-324, 1e15, 0.1])
    }

    fn literal(&mut self) -> Value<'static> {
        match self.below(12) {
            0 => Value::Null,
            1 | 2 => Value::Int(self.integer()),
            3 => Value::UInt(self.next()),
            4 => Value::Decimal(self.decimal().into()),
            5 => Value::Double(self.double()),
            6 | 7 => Value::Text(self.text().into()),
            8 => Value::Bytes(self.text().into_bytes().into()),
            9 => Value::Date(self.date()),
            10 => Value::DateTime(self.datetime()),
            // what no parser makes
            _ => self.pick(&[
                Value::Absent,
                Value::Decimal("x".into()),
                Value::Json("{}".into()),
                Value::Year(7),
            ]),
        }
    }

    /// A value that a column of the type can hold, most of the time.
    fn value(&mut self, ty: &ColumnType) -> Value<'static> {
        if self.below(8) == 0 {
            return Value::Null;
        }
        if self.below(200) == 0 {
            return self.literal();
        }
        match ty {
            ColumnType::Int { unsigned: true, .. } => Value::UInt(self.next()),
            ColumnType::Int { width: IntWidth::Int, .. } => Value::Int(i64::from(self.integer() as i32)),
            ColumnType::Int { .. } => Value::Int(self.integer()),
            ColumnType::Decimal { scale: 0, .. } => {
                Value::Decimal("99999999999999999999999999999999999999".into())
            }
            ColumnType::Decimal { .. } => {
                Value::Decimal(self.pick(&["0.00", "-12.50", "99999999.99"]).into())
            }
            ColumnType::Float { .. } => Value::Float(self.pick(&[0.1, -3.4e38, 0.0])),
            ColumnType::Double { .. } => Value::Double(self.double()),
            ColumnType::Bit { .. } => Value::Bit(self.next() & 1023),
            ColumnType::Year => Value::Year(self.pick(&[0, 1901, 2026, 2155])),
            ColumnType::Date => Value::Date(self.date()),
            ColumnType::Time { .. } => {
                Value::Time(Time { micros: self.pick(&[0, -1, 3_020_399_000_000, -3_020_399_999_999]) })
            }
            ColumnType::DateTime { .. } => Value::DateTime(self.datetime()),
            ColumnType::Timestamp { .. } => {
                Value::Timestamp(Timestamp { micros: self.pick(&[0, 1_000_000, 2_147_483_647_999_999]) })
            }
            ColumnType::Enum { labels, .. } => {
                let index = self.below(labels.len() + 1);
                let label = index.checked_sub(1).map_or(String::new(), |i| labels[i].to_string());
                Value::Enum { index: index as u16, label: label.into() }
            }
            ColumnType::Set { .. } => Value::Set { bits: 5, labels: "x,z".into() },
            ColumnType::Json => Value::Json("[1]".into()),
            ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => {
                Value::Bytes(vec![0xff, 0].into())
            }
            ColumnType::Geometry { .. } => Value::Geometry(vec![0; 25].into()),
            ColumnType::Vector { .. } => Value::Vector(vec![0; 8].into()),
            ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. } => {
                Value::Text(self.text().chars().take(*length as usize).collect::<String>().into())
            }
            _ => Value::Text(self.text().into()),
        }
    }

    fn expr(&mut self, depth: usize, schema: &TableSchema) -> Expr {
        let kind = if depth == 0 || self.below(5) == 0 {
            match self.below(8) {
                0..3 => ExprKind::Literal(self.literal()),
                3 => ExprKind::Meta(self.pick(&MetaField::ALL)),
                _ => ExprKind::Column(schema.columns[self.below(schema.columns.len())].name.to_string()),
            }
        } else {
            self.compound(depth - 1, schema)
        };
        Expr { kind, span: 3..4 }
    }

    fn boxed(&mut self, depth: usize, schema: &TableSchema) -> Box<Expr> {
        Box::new(self.expr(depth, schema))
    }

    fn compound(&mut self, depth: usize, schema: &TableSchema) -> ExprKind {
        use BinaryOp::*;
        let negated = self.coin();
        match self.below(16) {
            0 => {
                let op = self.pick(&[UnaryOp::Negate, UnaryOp::Not, UnaryOp::BitNot]);
                ExprKind::Unary(op, self.boxed(depth, schema))
            }
            1..5 => {
                let op = self.pick(&[
                    Add,
                    Subtract,
                    Multiply,
                    Divide,
                    IntegerDivide,
                    Modulo,
                    Equal,
                    NotEqual,
                    Less,
                    LessEqual,
                    Greater,
                    GreaterEqual,
                    NullSafeEqual,
                    And,
                    Or,
                    Xor,
                    BitAnd,
                    BitOr,
                    BitXor,
                    ShiftLeft,
                    ShiftRight,
                    JsonExtract,
                    JsonUnquote,
                ]);
                ExprKind::Binary(op, self.boxed(depth, schema), self.boxed(depth, schema))
            }
            5 => ExprKind::IsNull { operand: self.boxed(depth, schema), negated },
            6 => ExprKind::IsTruth { operand: self.boxed(depth, schema), truth: self.coin(), negated },
            7 => ExprKind::Between {
                operand: self.boxed(depth, schema),
                low: self.boxed(depth, schema),
                high: self.boxed(depth, schema),
                negated,
            },
            8 => ExprKind::In {
                operand: self.boxed(depth, schema),
                list: (0..self.below(4)).map(|_| self.expr(depth, schema)).collect(),
                negated,
            },
            9 => ExprKind::Like {
                operand: self.boxed(depth, schema),
                pattern: self.boxed(depth, schema),
                escape: self.coin().then_some('é'),
                negated,
            },
            10 => ExprKind::Case {
                operand: self.coin().then(|| self.boxed(depth, schema)),
                branches: (0..self.below(3))
                    .map(|_| (self.expr(depth, schema), self.expr(depth, schema)))
                    .collect(),
                otherwise: self.coin().then(|| self.boxed(depth, schema)),
            },
            11 => {
                let ty = self.pick(&[
                    CastType::Signed,
                    CastType::Unsigned,
                    CastType::Decimal { precision: 10, scale: 2 },
                    CastType::Decimal { precision: 65, scale: 30 },
                    CastType::Decimal { precision: 0, scale: 255 },
                    CastType::Double,
                    CastType::Float,
                    CastType::Char { length: None },
                    CastType::Char { length: Some(2) },
                    CastType::Binary { length: Some(3) },
                    CastType::Date,
                    CastType::DateTime { fsp: 0 },
                    CastType::DateTime { fsp: 255 },
                    CastType::Time { fsp: 3 },
                    CastType::Year,
                    CastType::Json,
                ]);
                ExprKind::Cast(self.boxed(depth, schema), ty)
            }
            14 => {
                let interval = ExprKind::Interval(self.boxed(depth, schema), self.pick(&Unit::ALL));
                let interval = Expr { kind: interval, span: 3..4 };
                let date = self.expr(depth, schema);
                match self.below(3) {
                    0 => ExprKind::Binary(Add, Box::new(date), Box::new(interval)),
                    1 => ExprKind::Binary(Subtract, Box::new(date), Box::new(interval)),
                    _ => ExprKind::Call(
                        self.pick(&["date_add", "date_sub", "upper"]).to_owned(),
                        vec![date, interval],
                    ),
                }
            }
            15 => {
                let unit = Expr { kind: ExprKind::Unit(self.pick(&Unit::ALL)), span: 3..4 };
                let name = self.pick(&["extract", "timestampadd", "timestampdiff", "date_add", "concat"]);
                let n = self.below(3);
                let rest = (0..n).map(|_| self.expr(depth, schema)).collect::<Vec<_>>();
                ExprKind::Call(name.to_owned(), std::iter::once(unit).chain(rest).collect())
            }
            12 => {
                let collation = self.pick(&[
                    "utf8mb4_bin",
                    "binary",
                    "latin1_swedish_ci",
                    "utf8mb4_0900_ai_ci",
                    "utf8mb4_general_ci",
                    "",
                    "_",
                ]);
                ExprKind::Collate(self.boxed(depth, schema), collation.to_owned())
            }
            _ => {
                let names: Vec<_> = cdc_core::function::all().map(|f| f.name).chain(["nothing"]).collect();
                let name = self.pick(&names);
                ExprKind::Call(
                    name.to_owned(),
                    (0..self.below(4)).map(|_| self.expr(depth, schema)).collect(),
                )
            }
        }
    }
}

/// Is it a value of the type?
fn fits(value: &Value<'_>, ty: &ColumnType) -> bool {
    match (value, ty) {
        (Value::Null, _) => true,
        (Value::Int(v), ColumnType::Int { width: IntWidth::Int, unsigned: false }) => {
            i32::try_from(*v).is_ok()
        }
        (Value::Int(_), ColumnType::Int { unsigned, .. }) => !unsigned,
        (Value::UInt(_), ColumnType::Int { unsigned, .. }) => *unsigned,
        (Value::Decimal(text), ColumnType::Decimal { precision, scale, .. }) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let whole = whole.trim_start_matches(['-', '0']);
            text.ends_with(|c: char| c.is_ascii_digit())
                && fraction.len() == usize::from(*scale)
                && whole.len() <= usize::from(precision - scale)
        }
        (Value::Float(_), ColumnType::Float { .. }) | (Value::Double(_), ColumnType::Double { .. }) => true,
        (Value::Text(text), ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. }) => {
            text.chars().count() <= *length as usize
        }
        (Value::Text(_), ColumnType::Text { .. }) => true,
        (Value::Enum { .. }, ColumnType::Enum { .. }) | (Value::Set { .. }, ColumnType::Set { .. }) => true,
        (Value::Date(_), ColumnType::Date) => true,
        (Value::Time(v), ColumnType::Time { .. }) => v.micros.abs() <= 3_020_399_999_999,
        (Value::DateTime(_), ColumnType::DateTime { .. }) => true,
        (Value::Timestamp(_), ColumnType::Timestamp { .. }) => true,
        (Value::Year(_), ColumnType::Year) | (Value::Bit(_), ColumnType::Bit { .. }) => true,
        (Value::Json(_), ColumnType::Json) | (Value::Geometry(_), ColumnType::Geometry { .. }) => true,
        (Value::Bytes(bytes), ColumnType::VarBinary { length }) => bytes.len() <= *length as usize,
        (Value::Bytes(_), ColumnType::Blob { .. }) => true,
        (Value::Vector(_), ColumnType::Vector { .. }) => true,
        _ => false,
    }
}

#[test]
fn random_expressions_never_panic_and_keep_to_their_types() {
    let schema = support::table();
    let (table, origin) = (TableId::new("shop", "t"), support::origin());
    let meta = RowMeta { op: Op::Update, table: &table, origin: &origin };
    let (mut bound_count, mut value_count) = (0, 0);
    for seed in 1..=60_000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let depth = 1 + random.below(4);
        let expr = random.expr(depth, &schema);
        let _ = expr.to_string();
        let bound = match bind(&expr, &schema) {
            Ok(bound) => bound,
            Err(diagnostics) => {
                assert!(!diagnostics.is_empty(), "seed {seed}: {expr}");
                continue;
            }
        };
        bound_count += 1;
        for _ in 0..3 {
            let row: Vec<_> = schema.columns.iter().map(|c| random.value(&c.ty)).collect();
            let well_formed = row.iter().zip(&schema.columns).all(|(v, c)| fits(v, &c.ty));
            match bound.eval(&row, &meta) {
                Ok(value) if well_formed => {
                    value_count += 1;
                    let ty = bound.ty().column_type();
                    assert!(fits(&value, &ty), "seed {seed}: {expr} gave {value:?}, which is no {ty}");
                }
                Err(error) if well_formed => {
                    assert_eq!(error.code(), codes::OUT_OF_RANGE, "seed {seed}: {expr}: {error}");
                }
                _ => {}
            }
        }
    }
    assert!(bound_count > 5_000 && value_count > 10_000, "{bound_count} bound, {value_count} values");
}
