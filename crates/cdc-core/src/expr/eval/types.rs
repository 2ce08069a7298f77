//! Types of expressions, and how MySQL combines them.

use crate::schema::{Charset, ColumnType, IntWidth, LobSize};
use crate::value::Value;
use std::fmt;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprType {
    /// `None` for the literal NULL, which has no type of its own.
    pub ty: Option<ColumnType>,
    /// Can it be NULL?
    pub nullable: bool,
    /// How strongly it holds to its collation.
    pub coercibility: Coercibility,
}

/// Whose collation wins in a comparison: the smaller (MySQL manual 12.8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coercibility {
    /// A `collate` clause.
    Explicit,
    /// Two columns of different collations were mixed: may be copied, not compared.
    NoCollation,
    /// A column.
    Implicit,
    /// A literal or a metadata field.
    Literal,
    /// A number or a temporal value.
    Numeric,
    /// NULL.
    Ignorable,
}

/// What rules of comparison and arithmetic a type follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Null,
    Integer,
    Decimal,
    Float,
    Double,
    Bit,
    Year,
    Date,
    Time,
    DateTime,
    Timestamp,
    Text,
    Enum,
    Set,
    Bytes,
    Json,
    Geometry,
    Vector,
    Uuid,
    Inet4,
    Inet6,
}

/// The most characters of a VARCHAR of `utf8mb4`; computed texts that may be longer are LONGTEXT.
const MAX_VARCHAR: u64 = 16_383;

/// The most bytes of a VARBINARY.
const MAX_VARBINARY: u64 = 65_535;

impl ExprType {
    /// A type whose values hold to no collation.
    pub(crate) fn new(ty: ColumnType, nullable: bool) -> ExprType {
        let coercibility =
            if ty.charset().is_some() { Coercibility::Implicit } else { Coercibility::Numeric };
        ExprType { ty: Some(ty), nullable, coercibility }
    }

    /// The type of NULL.
    pub(crate) fn null() -> ExprType {
        ExprType { ty: None, nullable: true, coercibility: Coercibility::Ignorable }
    }

    /// 0 or 1.
    pub(crate) fn boolean(nullable: bool) -> ExprType {
        ExprType::int(IntWidth::Int, false, nullable)
    }

    pub(crate) fn int(width: IntWidth, unsigned: bool, nullable: bool) -> ExprType {
        ExprType::new(ColumnType::Int { width, unsigned }, nullable)
    }

    pub(crate) fn bigint(unsigned: bool, nullable: bool) -> ExprType {
        ExprType::int(IntWidth::Big, unsigned, nullable)
    }

    pub(crate) fn double(nullable: bool) -> ExprType {
        ExprType::new(ColumnType::Double { unsigned: false }, nullable)
    }

    /// A DECIMAL of so many digits before and after the dot, cut to what a DECIMAL can have.
    pub(crate) fn decimal(whole: u32, scale: u32, nullable: bool) -> ExprType {
        let scale = scale.min(30);
        let precision = (whole + scale).clamp(1, 65);
        ExprType::new(
            ColumnType::Decimal { precision: precision as u8, scale: scale as u8, unsigned: false },
            nullable,
        )
    }

    /// A text of at most so many characters.
    pub(crate) fn text(
        length: u64,
        charset: Charset,
        coercibility: Coercibility,
        nullable: bool,
    ) -> ExprType {
        let ty = if length <= MAX_VARCHAR {
            ColumnType::VarChar { length: length as u32, charset }
        } else {
            ColumnType::Text { size: LobSize::Long, charset }
        };
        ExprType { ty: Some(ty), nullable, coercibility }
    }

    /// At most so many bytes.
    pub(crate) fn bytes(length: u64, nullable: bool) -> ExprType {
        let ty = if length <= MAX_VARBINARY {
            ColumnType::VarBinary { length: length as u32 }
        } else {
            ColumnType::Blob { size: LobSize::Long }
        };
        ExprType::new(ty, nullable)
    }

    /// The type of a constant.
    pub(crate) fn of_literal(value: &Value<'_>) -> ExprType {
        let ty = match value {
            Value::Null | Value::Absent => return ExprType::null(),
            Value::Int(v) => int_literal(i128::from(*v)),
            Value::UInt(v) => int_literal(i128::from(*v)),
            Value::Float(_) => ColumnType::Float { unsigned: false },
            Value::Double(_) => ColumnType::Double { unsigned: false },
            Value::Decimal(text) => {
                let scale = text.split_once('.').map_or(0, |(_, f)| f.len());
                let whole = text.trim_start_matches('-').len() - if scale > 0 { scale + 1 } else { 0 };
                return ExprType::decimal(whole.min(65) as u32, scale.min(30) as u32, false);
            }
            Value::Date(_) => ColumnType::Date,
            Value::Time(v) => ColumnType::Time { fsp: fsp_of(v.micros) },
            Value::DateTime(v) => ColumnType::DateTime { fsp: fsp_of(i64::from(v.micro)) },
            Value::Timestamp(v) => ColumnType::Timestamp { fsp: fsp_of(v.micros) },
            Value::Year(_) => ColumnType::Year,
            Value::Bit(v) => ColumnType::Bit { width: (64 - v.leading_zeros()).max(1) as u8 },
            Value::Text(text) | Value::Enum { label: text, .. } | Value::Set { labels: text, .. } => {
                let length = text.chars().count() as u64;
                return ExprType::text(length, Charset::utf8mb4(), Coercibility::Literal, false);
            }
            Value::Bytes(v) => return ExprType::bytes(v.len() as u64, false),
            Value::Json(_) => ColumnType::Json,
            Value::Geometry(_) => ColumnType::Geometry { kind: "geometry".into(), srid: None },
            Value::Vector(v) => ColumnType::Vector { dimensions: (v.len() / 4) as u32 },
        };
        ExprType::new(ty, false)
    }

    /// The type of a column that holds its values. NULL alone is `varbinary(0)`, as in CREATE TABLE .. SELECT.
    pub fn column_type(&self) -> ColumnType {
        self.ty.clone().unwrap_or(ColumnType::VarBinary { length: 0 })
    }

    pub(crate) fn with_nullable(mut self, nullable: bool) -> ExprType {
        self.nullable = nullable;
        self
    }

    pub(crate) fn class(&self) -> Class {
        match &self.ty {
            None => Class::Null,
            Some(ty) => class_of(ty),
        }
    }

    pub(crate) fn is_unsigned(&self) -> bool {
        match &self.ty {
            Some(ColumnType::Int { unsigned, .. }) => *unsigned,
            Some(ColumnType::Bit { .. } | ColumnType::Year) => true,
            _ => false,
        }
    }

    /// Digits of fraction of a temporal type.
    pub(crate) fn fsp(&self) -> u8 {
        match &self.ty {
            Some(ColumnType::Time { fsp } | ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp }) => {
                *fsp
            }
            _ => 0,
        }
    }

    /// Digits before and after the dot of an exact number.
    pub(crate) fn digits(&self) -> (u32, u32) {
        match &self.ty {
            Some(ColumnType::Int { width, unsigned }) => (int_digits(*width, *unsigned), 0),
            Some(ColumnType::Decimal { precision, scale, .. }) => {
                (u32::from(precision.saturating_sub(*scale)), u32::from(*scale))
            }
            Some(ColumnType::Year) => (4, 0),
            // MySQL counts a BIT(n) as n / log2(10) digits
            Some(ColumnType::Bit { width }) => (u32::from(*width) * 302 / 1000 + 1, 0),
            _ => (20, 0),
        }
    }

    /// The most characters that a value has as a text.
    pub(crate) fn text_length(&self) -> u64 {
        let Some(ty) = &self.ty else { return 0 };
        let fraction = |fsp: u8| if fsp > 0 { u64::from(fsp) + 1 } else { 0 };
        match ty {
            ColumnType::Int { width, unsigned } => {
                u64::from(int_digits(*width, *unsigned)) + u64::from(!*unsigned)
            }
            ColumnType::Decimal { precision, scale, .. } => {
                u64::from(*precision) + 1 + u64::from(*scale > 0) + u64::from(precision == scale)
            }
            ColumnType::Float { .. } => 12,
            // sign, 17 digits, dot, and e-308
            ColumnType::Double { .. } => 24,
            ColumnType::Bit { .. } => 20,
            ColumnType::Year => 4,
            ColumnType::Date => 10,
            ColumnType::Time { fsp } => 10 + fraction(*fsp),
            ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => 19 + fraction(*fsp),
            ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. } => u64::from(*length),
            ColumnType::Binary { length } | ColumnType::VarBinary { length } => u64::from(*length),
            ColumnType::Enum { labels, .. } => {
                labels.iter().map(|l| l.chars().count() as u64).max().unwrap_or(0)
            }
            ColumnType::Set { labels, .. } => {
                labels.iter().map(|l| l.chars().count() as u64 + 1).sum::<u64>().saturating_sub(1)
            }
            ColumnType::Text { size, .. } | ColumnType::Blob { size } => size.max_bytes(),
            ColumnType::Json | ColumnType::Geometry { .. } | ColumnType::Vector { .. } => 0xffff_ffff,
            ColumnType::Uuid => 36,
            ColumnType::Inet4 => 15,
            ColumnType::Inet6 => 39,
        }
    }
}

/// As in messages: `decimal(10,2)`, `varchar(20)`, `NULL`.
impl fmt::Display for ExprType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ty {
            None => f.write_str("NULL"),
            Some(ty) => write!(f, "{ty}"),
        }
    }
}

impl Class {
    /// Exact and approximate numbers, and what counts as one.
    pub(crate) fn is_number(self) -> bool {
        matches!(
            self,
            Class::Integer | Class::Decimal | Class::Float | Class::Double | Class::Bit | Class::Year
        )
    }

    pub(crate) fn is_approximate(self) -> bool {
        matches!(self, Class::Float | Class::Double)
    }

    /// Integers, and what counts as one.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Class::Integer | Class::Bit | Class::Year)
    }

    /// Text, and what compares like it.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Class::Text | Class::Enum | Class::Set)
    }

    /// Identifiers and addresses, which have one text each. The server orders them by their bytes (and some
    /// UUIDs by the time in them), which is not the order of the texts: only equality is built.
    pub(crate) fn is_address(self) -> bool {
        matches!(self, Class::Uuid | Class::Inet4 | Class::Inet6)
    }

    /// On a calendar.
    pub(crate) fn is_day(self) -> bool {
        matches!(self, Class::Date | Class::DateTime | Class::Timestamp)
    }

    pub(crate) fn is_temporal(self) -> bool {
        self.is_day() || self == Class::Time
    }
}

pub(crate) fn class_of(ty: &ColumnType) -> Class {
    match ty {
        ColumnType::Int { .. } => Class::Integer,
        ColumnType::Decimal { .. } => Class::Decimal,
        ColumnType::Float { .. } => Class::Float,
        ColumnType::Double { .. } => Class::Double,
        ColumnType::Bit { .. } => Class::Bit,
        ColumnType::Year => Class::Year,
        ColumnType::Date => Class::Date,
        ColumnType::Time { .. } => Class::Time,
        ColumnType::DateTime { .. } => Class::DateTime,
        ColumnType::Timestamp { .. } => Class::Timestamp,
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => Class::Text,
        ColumnType::Enum { .. } => Class::Enum,
        ColumnType::Set { .. } => Class::Set,
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => Class::Bytes,
        ColumnType::Json => Class::Json,
        ColumnType::Geometry { .. } => Class::Geometry,
        ColumnType::Vector { .. } => Class::Vector,
        ColumnType::Uuid => Class::Uuid,
        ColumnType::Inet4 => Class::Inet4,
        ColumnType::Inet6 => Class::Inet6,
    }
}

/// INT up to nine digits, else BIGINT, as `create table .. select 5` makes them.
fn int_literal(v: i128) -> ColumnType {
    let unsigned = v > i128::from(i64::MAX);
    let width = if v.unsigned_abs() < 1_000_000_000 { IntWidth::Int } else { IntWidth::Big };
    ColumnType::Int { width, unsigned }
}

fn int_digits(width: IntWidth, unsigned: bool) -> u32 {
    match width {
        IntWidth::Tiny => 3,
        IntWidth::Small => 5,
        IntWidth::Medium => 7 + u32::from(unsigned),
        IntWidth::Int => 10,
        IntWidth::Big => 19 + u32::from(unsigned),
    }
}

fn fsp_of(micros: i64) -> u8 {
    let mut digits = 6;
    let mut rest = micros % 1_000_000;
    if rest == 0 {
        return 0;
    }
    while rest % 10 == 0 {
        rest /= 10;
        digits -= 1;
    }
    digits
}

/// The one type that holds the values of all of these: of the branches of a CASE, the arguments of
/// COALESCE, GREATEST and so on (MySQL manual 14.5, "Flow Control Functions": the aggregated type).
/// `Err` names the two that do not go together.
///
/// Stricter than MySQL, which makes a text of anything: numbers and temporal values are not mixed.
pub(crate) fn unify(types: &[&ExprType]) -> Result<ExprType, (ExprType, ExprType)> {
    let mut result = ExprType::null();
    for ty in types {
        let nullable = result.nullable || ty.nullable;
        result =
            unify_two(&result, ty).ok_or_else(|| (result.clone(), (*ty).clone()))?.with_nullable(nullable);
    }
    // the empty start must not make it nullable
    let nullable = types.iter().any(|t| t.nullable);
    Ok(result.with_nullable(nullable))
}

fn unify_two(a: &ExprType, b: &ExprType) -> Option<ExprType> {
    let (x, y) = (a.class(), b.class());
    if x == Class::Null {
        return Some(b.clone());
    }
    if y == Class::Null || a.ty == b.ty && !matches!(x, Class::Enum | Class::Set | Class::Text) {
        return Some(a.clone());
    }
    if x.is_number() && y.is_number() {
        return Some(unify_numbers(a, b));
    }
    if x.is_day() && y.is_day() {
        let fsp = a.fsp().max(b.fsp());
        let ty = match (x, y) {
            (Class::Timestamp, Class::Timestamp) => ColumnType::Timestamp { fsp },
            _ => ColumnType::DateTime { fsp },
        };
        return Some(ExprType::new(ty, false));
    }
    if x == Class::Time && y == Class::Time {
        return Some(ExprType::new(ColumnType::Time { fsp: a.fsp().max(b.fsp()) }, false));
    }
    let textual =
        |c: Class| c.is_text() || c.is_number() && c != Class::Bit || c.is_temporal() || c.is_address();
    if (x.is_text() || y.is_text()) && textual(x) && textual(y) {
        let (charset, coercibility) = merge_collations(a, b);
        return Some(ExprType::text(a.text_length().max(b.text_length()), charset, coercibility, false));
    }
    match (x, y) {
        (Class::Bytes, Class::Bytes) => Some(ExprType::bytes(a.text_length().max(b.text_length()), false)),
        (Class::Geometry, Class::Geometry) => {
            Some(ExprType::new(ColumnType::Geometry { kind: "geometry".into(), srid: None }, false))
        }
        (Class::Vector, Class::Vector) => {
            Some(if a.text_length() >= b.text_length() { a } else { b }.clone())
        }
        _ => None,
    }
}

fn unify_numbers(a: &ExprType, b: &ExprType) -> ExprType {
    let (x, y) = (a.class(), b.class());
    if x.is_approximate() || y.is_approximate() {
        // the server's `field_types_merge_rules`: a FLOAT stays one beside whole numbers, but for INT, and for a
        // BIGINT that stands first
        let narrow = |ty: &ExprType, first: bool| match &ty.ty {
            Some(ColumnType::Float { .. } | ColumnType::Year) => true,
            Some(ColumnType::Int { width: IntWidth::Int, .. }) => false,
            Some(ColumnType::Int { width: IntWidth::Big, .. }) => !first,
            Some(ColumnType::Int { .. }) => true,
            _ => false,
        };
        let float = (x == Class::Float || y == Class::Float) && narrow(a, true) && narrow(b, false);
        return if float {
            ExprType::new(ColumnType::Float { unsigned: false }, false)
        } else {
            ExprType::double(false)
        };
    }
    if let (Some(ColumnType::Bit { width: m }), Some(ColumnType::Bit { width: n })) = (&a.ty, &b.ty) {
        return ExprType::new(ColumnType::Bit { width: *m.max(n) }, false);
    }
    if !x.is_whole() || !y.is_whole() {
        let ((w1, s1), (w2, s2)) = (a.digits(), b.digits());
        let (whole, scale) = (w1.max(w2), s1.max(s2));
        if scale > 30 {
            // a column of MariaDB, whose digits are not rounded off by standing beside another
            let precision = (whole + scale).min(65) as u8;
            let ty = ColumnType::Decimal { precision, scale: scale as u8, unsigned: false };
            return ExprType::new(ty, false);
        }
        return ExprType::decimal(whole, scale, false);
    }
    let width = |t: &ExprType| match &t.ty {
        Some(ColumnType::Int { width, .. }) => *width,
        Some(ColumnType::Year) => IntWidth::Small,
        _ => IntWidth::Big,
    };
    let (wa, wb) = (width(a), width(b));
    match (a.is_unsigned(), b.is_unsigned()) {
        (false, false) => ExprType::int(wa.max(wb), false, false),
        (true, true) => ExprType::int(wa.max(wb), true, false),
        (u, _) => {
            // signed, and wide enough for the unsigned one
            let of_unsigned = if u { wa } else { wb };
            let of_signed = if u { wb } else { wa };
            match of_unsigned {
                IntWidth::Big => ExprType::decimal(20, 0, false),
                IntWidth::Int => ExprType::bigint(false, false),
                IntWidth::Medium => ExprType::int(of_signed.max(IntWidth::Int), false, false),
                IntWidth::Small => ExprType::int(of_signed.max(IntWidth::Medium), false, false),
                IntWidth::Tiny => ExprType::int(of_signed.max(IntWidth::Small), false, false),
            }
        }
    }
}

/// The collation of a text made of both, and how strongly it holds (MySQL manual 12.8.4).
pub(crate) fn merge_collations(a: &ExprType, b: &ExprType) -> (Charset, Coercibility) {
    let of = |t: &ExprType| t.ty.as_ref().and_then(ColumnType::charset).cloned();
    let (x, y) = match (of(a), of(b)) {
        (Some(x), Some(y)) => (x, y),
        (Some(x), None) => return (x, a.coercibility),
        (None, Some(y)) => return (y, b.coercibility),
        (None, None) => return (Charset::utf8mb4(), Coercibility::Literal),
    };
    if a.coercibility != b.coercibility {
        return if a.coercibility < b.coercibility { (x, a.coercibility) } else { (y, b.coercibility) };
    }
    if x == y {
        return (x, a.coercibility);
    }
    match a.coercibility {
        Coercibility::Literal => (Charset::utf8mb4(), Coercibility::Literal),
        Coercibility::Implicit => {
            let binary = |c: &Charset| c.collation.ends_with("_bin");
            match (is_unicode(&x), is_unicode(&y)) {
                (true, false) => (x, Coercibility::Implicit),
                (false, true) => (y, Coercibility::Implicit),
                _ if x.name == y.name && binary(&x) != binary(&y) => {
                    (if binary(&x) { x } else { y }, Coercibility::Implicit)
                }
                _ => (Charset::utf8mb4(), Coercibility::NoCollation),
            }
        }
        _ => (Charset::utf8mb4(), Coercibility::NoCollation),
    }
}

pub(crate) fn is_unicode(charset: &Charset) -> bool {
    charset.name.starts_with("utf") || &*charset.name == "ucs2"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(width: IntWidth, unsigned: bool) -> ExprType {
        ExprType::int(width, unsigned, false)
    }

    /// What `create table .. select coalesce(a, b)` makes on 9.7.
    #[test]
    fn types_are_united_as_the_server_unites_them() {
        let decimal =
            |p, s| ExprType::new(ColumnType::Decimal { precision: p, scale: s, unsigned: false }, false);
        let datetime = |fsp| ExprType::new(ColumnType::DateTime { fsp }, false);
        let own = |ty| ExprType::new(ty, false);
        let varchar = |n| ExprType::text(n, Charset::utf8mb4(), Coercibility::Implicit, false);
        let float = || ExprType::new(ColumnType::Float { unsigned: false }, false);
        let cases = [
            (int(IntWidth::Int, false), decimal(10, 2), "decimal(12,2)"),
            (int(IntWidth::Tiny, false), int(IntWidth::Int, false), "int"),
            (int(IntWidth::Int, false), int(IntWidth::Big, true), "decimal(20,0)"),
            (decimal(10, 2), decimal(65, 30), "decimal(65,30)"),
            (datetime(3), ExprType::new(ColumnType::Date, false), "datetime(3)"),
            (datetime(3), ExprType::new(ColumnType::Timestamp { fsp: 2 }, false), "datetime(3)"),
            (decimal(10, 2), ExprType::new(ColumnType::Float { unsigned: false }, false), "double"),
            (varchar(20), decimal(10, 2), "varchar(20)"),
            (varchar(20), ExprType::new(ColumnType::Date, false), "varchar(20)"),
            (ExprType::null(), int(IntWidth::Int, false), "int"),
            (float(), float(), "float"),
            (float(), int(IntWidth::Small, true), "float"),
            (float(), int(IntWidth::Int, false), "double"),
            // of MariaDB
            (decimal(65, 38), decimal(10, 2), "decimal(65,38)"),
            (own(ColumnType::Inet6), own(ColumnType::Inet6), "inet6"),
            (own(ColumnType::Uuid), varchar(20), "varchar(36)"),
        ];
        for (a, b, expect) in cases {
            assert_eq!(unify(&[&a, &b]).unwrap().to_string(), expect, "{a} and {b}");
            assert_eq!(unify(&[&b, &a]).unwrap().to_string(), expect, "{b} and {a}");
        }
        assert_eq!(unify(&[&float(), &int(IntWidth::Big, false)]).unwrap().to_string(), "float");
        assert_eq!(unify(&[&int(IntWidth::Big, false), &float()]).unwrap().to_string(), "double");
        assert!(unify(&[&datetime(0), &int(IntWidth::Int, false)]).is_err());
        assert!(unify(&[&own(ColumnType::Inet4), &own(ColumnType::Inet6)]).is_err());
        assert!(unify(&[&own(ColumnType::Inet4), &int(IntWidth::Big, true)]).is_err());
        assert!(unify(&[&int(IntWidth::Int, false), &ExprType::null()]).unwrap().nullable);
    }
}
