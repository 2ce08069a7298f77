//! Column types of the source as SQLite stores them.
//!
//! SQLite types *values*; a column's declared type only gives it an *affinity*, which converts what is
//! written (<https://www.sqlite.org/datatype3.html>, section 3.1): a name that contains `INT` is an integer
//! column whatever else it says, then `CHAR`, `CLOB`, `TEXT` make text, `BLOB` or nothing makes *no*
//! affinity, `REAL`, `FLOA`, `DOUB` make floating point, and all other names (`DECIMAL`, `DATETIME`) make
//! NUMERIC, which would turn `1.50` into 1.5. So each declared type here names the source's type and ends in
//! the word that gives the affinity under which values stay as they are:
//!
//! | source | declared | stored as |
//! |---|---|---|
//! | TINYINT .. BIGINT, unsigned up to INT | `INTEGER` | INTEGER |
//! | BIGINT UNSIGNED | `BIGUNSIGNED_BLOB` | up to 2^63-1 INTEGER, above TEXT of 20 digits, see below |
//! | YEAR | `YEAR_INT` | INTEGER |
//! | BIT(n), n < 64 | `BIT_INT(n)` | INTEGER |
//! | BIT(64) | `BIT_BLOB(64)` | as BIGINT UNSIGNED |
//! | DECIMAL(p,s) | `DECIMAL_TEXT(p,s)` | TEXT with exactly s digits of fraction |
//! | FLOAT, DOUBLE | `FLOAT_BLOB`, `DOUBLE_BLOB` | REAL; a FLOAT as its exact value |
//! | DATE | `DATE_TEXT` | TEXT `2026-01-31`, zero dates as they are |
//! | TIME(f), DATETIME(f) | `TIME_TEXT(f)`, `DATETIME_TEXT(f)` | TEXT in the server's form with f digits |
//! | TIMESTAMP(f) | `TIMESTAMP_TEXT(f)` | TEXT like DATETIME, in UTC |
//! | CHAR | `CHAR_TEXT` | TEXT |
//! | VARCHAR, TEXT family | `TEXT` | TEXT, NUL characters kept |
//! | ENUM, SET | `ENUM_TEXT`, `SET_TEXT` | TEXT: the label, the labels joined by commas |
//! | JSON | `JSON_TEXT` | TEXT, as the server prints it |
//! | UUID, INET4, INET6 (MariaDB) | `UUID_TEXT`, `INET4_TEXT`, `INET6_TEXT` | TEXT, as the server prints it |
//! | BINARY(n) | `BINARY_BLOB(n)` | BLOB of n bytes |
//! | VARBINARY, BLOB family | `BLOB` | BLOB |
//! | spatial types | `GEOMETRY_BLOB` | BLOB: SRID (4 bytes, little endian), WKB |
//! | VECTOR(n) | `VECTOR_BLOB(n)` | BLOB: 32 bit floats, little endian |
//!
//! Read the other way, the last word says the storage class and the rest says what the source had.
//!
//! **BIGINT UNSIGNED above 2^63-1.** SQLite's integers are signed 64 bits, and REAL would lose digits. Such
//! a value is stored as a text of exactly 20 digits (`09223372036854775808` .. `18446744073709551615`) in a
//! column without affinity. SQLite sorts every INTEGER before every TEXT and texts of one length by their
//! digits, so order and equality are those of the numbers, each number has one form, and the many columns
//! that never hold such a value hold plain integers.
//!
//! **FLOAT and DOUBLE** have no affinity because REAL affinity stores whole numbers as integers and so turns
//! -0.0 into 0.0 (tried on 3.50). A table that was there before us may have REAL columns: they are taken,
//! and -0.0 and 0.0 are then the same.
//!
//! Only key columns are declared NOT NULL: the source is what enforces its rules, and a column that becomes
//! nullable there would otherwise need a rebuild of the whole table here before its first NULL. Defaults
//! are not copied (rows arrive whole); only a column that is added to rows carries one, which is what those
//! rows read.

use crate::text;
use cdc_core::schema::ColumnType;
use cdc_core::value::Value;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

/// How SQLite converts what is written to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affinity {
    Integer,
    Text,
    /// Converts nothing; SQLite's manual calls it BLOB.
    None,
    Real,
    Numeric,
}

impl Affinity {
    /// Of a declared type, by the manual's rules in their order. (`ANY` is special in STRICT tables only.)
    pub(crate) fn of(declared: &str) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |words: &[&str]| words.iter().any(|w| declared.contains(w));
        if has(&["INT"]) {
            Affinity::Integer
        } else if has(&["CHAR", "CLOB", "TEXT"]) {
            Affinity::Text
        } else if declared.is_empty() || has(&["BLOB"]) {
            Affinity::None
        } else if has(&["REAL", "FLOA", "DOUB"]) {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }
}

/// The storage classes that values of a column take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// INTEGER.
    Integer,
    /// INTEGER, or above 2^63-1 a text of 20 digits.
    Unsigned,
    /// REAL.
    Real,
    /// TEXT; temporal values with this many digits of fraction.
    Text(u8),
    /// BLOB.
    Blob,
}

impl Form {
    pub(crate) fn of(ty: &ColumnType) -> Form {
        use cdc_core::schema::IntWidth;
        match ty {
            ColumnType::Int { width: IntWidth::Big, unsigned: true } => Form::Unsigned,
            ColumnType::Bit { width } if *width >= 64 => Form::Unsigned,
            ColumnType::Int { .. } | ColumnType::Bit { .. } | ColumnType::Year => Form::Integer,
            ColumnType::Float { .. } | ColumnType::Double { .. } => Form::Real,
            ColumnType::Binary { .. }
            | ColumnType::VarBinary { .. }
            | ColumnType::Blob { .. }
            | ColumnType::Geometry { .. }
            | ColumnType::Vector { .. } => Form::Blob,
            ColumnType::Decimal { .. }
            | ColumnType::Date
            | ColumnType::Time { .. }
            | ColumnType::DateTime { .. }
            | ColumnType::Timestamp { .. }
            | ColumnType::Char { .. }
            | ColumnType::VarChar { .. }
            | ColumnType::Text { .. }
            | ColumnType::Enum { .. }
            | ColumnType::Set { .. }
            | ColumnType::Json
            | ColumnType::Uuid
            | ColumnType::Inet4
            | ColumnType::Inet6 => Form::Text(text::fraction_digits(ty)),
        }
    }

    /// Do values of this form come out of a column of this affinity as they went in?
    pub(crate) fn survives(self, affinity: Affinity) -> bool {
        match self {
            Form::Integer => matches!(affinity, Affinity::Integer | Affinity::Numeric | Affinity::None),
            Form::Unsigned => affinity == Affinity::None,
            Form::Real => matches!(affinity, Affinity::Real | Affinity::None),
            Form::Text(_) => matches!(affinity, Affinity::Text | Affinity::None),
            Form::Blob => true,
        }
    }

    /// Does a column of this type in a STRICT table take values of this form?
    pub(crate) fn fits_strict(self, declared: &str) -> bool {
        let is = |word: &str| declared.eq_ignore_ascii_case(word);
        is("ANY")
            || match self {
                Form::Integer => is("INTEGER") || is("INT"),
                Form::Unsigned => false,
                Form::Real => is("REAL"),
                Form::Text(_) => is("TEXT"),
                Form::Blob => is("BLOB"),
            }
    }
}

/// The declared type of a column in a table that we make.
pub(crate) fn declared(ty: &ColumnType) -> String {
    match ty {
        ColumnType::Int { .. } if Form::of(ty) == Form::Unsigned => "BIGUNSIGNED_BLOB".to_owned(),
        ColumnType::Int { .. } => "INTEGER".to_owned(),
        ColumnType::Decimal { precision, scale, .. } => format!("DECIMAL_TEXT({precision},{scale})"),
        ColumnType::Float { .. } => "FLOAT_BLOB".to_owned(),
        ColumnType::Double { .. } => "DOUBLE_BLOB".to_owned(),
        ColumnType::Bit { width } if *width >= 64 => format!("BIT_BLOB({width})"),
        ColumnType::Bit { width } => format!("BIT_INT({width})"),
        ColumnType::Year => "YEAR_INT".to_owned(),
        ColumnType::Date => "DATE_TEXT".to_owned(),
        ColumnType::Time { fsp } => format!("TIME_TEXT({fsp})"),
        ColumnType::DateTime { fsp } => format!("DATETIME_TEXT({fsp})"),
        ColumnType::Timestamp { fsp } => format!("TIMESTAMP_TEXT({fsp})"),
        ColumnType::Char { .. } => "CHAR_TEXT".to_owned(),
        ColumnType::VarChar { .. } | ColumnType::Text { .. } => "TEXT".to_owned(),
        ColumnType::Binary { length } => format!("BINARY_BLOB({length})"),
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => "BLOB".to_owned(),
        ColumnType::Enum { .. } => "ENUM_TEXT".to_owned(),
        ColumnType::Set { .. } => "SET_TEXT".to_owned(),
        ColumnType::Json => "JSON_TEXT".to_owned(),
        ColumnType::Geometry { .. } => "GEOMETRY_BLOB".to_owned(),
        ColumnType::Vector { dimensions } => format!("VECTOR_BLOB({dimensions})"),
        ColumnType::Uuid => "UUID_TEXT".to_owned(),
        ColumnType::Inet4 => "INET4_TEXT".to_owned(),
        ColumnType::Inet6 => "INET6_TEXT".to_owned(),
    }
}

/// What a declared type says of the source's type: [`declared`] read backwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Unsigned,
    Year,
    Bit,
    Float,
    Double,
    /// Its scale.
    Decimal(u32),
    Date,
    /// Its digits of fraction; so the next two.
    Time(u32),
    DateTime(u32),
    Timestamp(u32),
    Char,
    Text,
    Enum,
    Set,
    Json,
    /// Its length.
    Binary(u32),
    Blob,
    Geometry,
    Vector,
    Uuid,
    Inet4,
    Inet6,
    /// Not a type that we declare.
    Foreign,
}

impl Kind {
    pub(crate) fn of(declared: &str) -> Kind {
        let declared = declared.to_ascii_uppercase();
        let (word, rest) = declared.split_once('(').unwrap_or((&declared, ""));
        let last = || {
            let digits = rest.trim_end_matches(')').rsplit(',').next().unwrap_or("");
            digits.trim().parse().unwrap_or(0)
        };
        match word.trim() {
            "INTEGER" => Kind::Int,
            "BIGUNSIGNED_BLOB" => Kind::Unsigned,
            "YEAR_INT" => Kind::Year,
            "BIT_INT" | "BIT_BLOB" => Kind::Bit,
            "FLOAT_BLOB" => Kind::Float,
            "DOUBLE_BLOB" => Kind::Double,
            "DECIMAL_TEXT" => Kind::Decimal(last()),
            "DATE_TEXT" => Kind::Date,
            "TIME_TEXT" => Kind::Time(last()),
            "DATETIME_TEXT" => Kind::DateTime(last()),
            "TIMESTAMP_TEXT" => Kind::Timestamp(last()),
            "CHAR_TEXT" => Kind::Char,
            "TEXT" => Kind::Text,
            "ENUM_TEXT" => Kind::Enum,
            "SET_TEXT" => Kind::Set,
            "JSON_TEXT" => Kind::Json,
            "BINARY_BLOB" => Kind::Binary(last()),
            "BLOB" => Kind::Blob,
            "GEOMETRY_BLOB" => Kind::Geometry,
            "VECTOR_BLOB" => Kind::Vector,
            "UUID_TEXT" => Kind::Uuid,
            "INET4_TEXT" => Kind::Inet4,
            "INET6_TEXT" => Kind::Inet6,
            _ => Kind::Foreign,
        }
    }

    /// True for kinds whose text or bytes depend on their scale, digits or length: a column declared so
    /// holds values of no other type.
    pub(crate) fn is_exact(self) -> bool {
        matches!(
            self,
            Kind::Decimal(_) | Kind::Time(_) | Kind::DateTime(_) | Kind::Timestamp(_) | Kind::Binary(_)
        )
    }
}

/// The widest source type whose values a column that we declared so holds in the same form; `None` where its
/// values stay as they are whatever the source calls them.
pub(crate) fn column_type(declared: &str) -> Option<ColumnType> {
    use cdc_core::schema::{Charset, IntWidth, LobSize};
    let digits = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
    Some(match Kind::of(declared) {
        Kind::Int => ColumnType::Int { width: IntWidth::Big, unsigned: false },
        Kind::Unsigned => ColumnType::Int { width: IntWidth::Big, unsigned: true },
        Kind::Year => ColumnType::Year,
        Kind::Bit => ColumnType::Bit { width: 64 },
        Kind::Float => ColumnType::Float { unsigned: false },
        Kind::Double => ColumnType::Double { unsigned: false },
        Kind::Decimal(scale) => ColumnType::Decimal { precision: 65, scale: digits(scale), unsigned: false },
        Kind::Date => ColumnType::Date,
        Kind::Time(n) => ColumnType::Time { fsp: digits(n) },
        Kind::DateTime(n) => ColumnType::DateTime { fsp: digits(n) },
        Kind::Timestamp(n) => ColumnType::Timestamp { fsp: digits(n) },
        Kind::Char | Kind::Text => ColumnType::Text { size: LobSize::Long, charset: Charset::utf8mb4() },
        Kind::Json => ColumnType::Json,
        Kind::Binary(length) => ColumnType::Binary { length },
        Kind::Blob => ColumnType::Blob { size: LobSize::Long },
        Kind::Geometry => ColumnType::Geometry { kind: "geometry".into(), srid: None },
        Kind::Vector => ColumnType::Vector { dimensions: 0 },
        Kind::Uuid => ColumnType::Uuid,
        Kind::Inet4 => ColumnType::Inet4,
        Kind::Inet6 => ColumnType::Inet6,
        Kind::Enum | Kind::Set | Kind::Foreign => return None,
    })
}

/// A value as SQLite stores it, in a column of this form; `None` if the form has no place for it. `scratch`
/// holds texts that are made here.
pub(crate) fn encode<'a>(value: &'a Value<'_>, form: Form, scratch: &'a mut Vec<u8>) -> Option<ValueRef<'a>> {
    Some(match (form, value) {
        (_, Value::Null) => ValueRef::Null,
        (Form::Integer | Form::Unsigned, Value::Int(v)) => ValueRef::Integer(*v),
        (Form::Integer | Form::Unsigned, Value::Year(v)) => ValueRef::Integer(i64::from(*v)),
        (Form::Integer | Form::Unsigned, Value::UInt(v) | Value::Bit(v)) => match i64::try_from(*v) {
            Ok(v) => ValueRef::Integer(v),
            Err(_) if form == Form::Integer => return None,
            Err(_) => {
                use std::io::Write;
                scratch.clear();
                // A write to a Vec cannot fail.
                drop(write!(scratch, "{v:020}"));
                ValueRef::Text(scratch)
            }
        },
        (Form::Real, Value::Double(v)) => ValueRef::Real(*v),
        (Form::Real, Value::Float(v)) => ValueRef::Real(f64::from(*v)),
        (Form::Text(_), Value::Decimal(v) | Value::Text(v) | Value::Json(v)) => ValueRef::Text(v.as_bytes()),
        (Form::Text(_), Value::Enum { label, .. }) => ValueRef::Text(label.as_bytes()),
        (Form::Text(_), Value::Set { labels, .. }) => ValueRef::Text(labels.as_bytes()),
        (Form::Text(fsp), Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Timestamp(_)) => {
            scratch.clear();
            text::push_value(scratch, value, fsp);
            ValueRef::Text(scratch)
        }
        (Form::Blob, Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v)) => ValueRef::Blob(v),
        _ => return None,
    })
}

/// A stored value as a statement's parameter.
pub(crate) struct Bound<'a>(pub(crate) ValueRef<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(self.0))
    }
}

/// A stored value for people; its class can be told from it. Long ones are cut short.
pub(crate) fn show(value: ValueRef<'_>) -> String {
    const LIMIT: usize = 200;
    let head = |v: &'_ [u8]| v[..v.len().min(LIMIT)].to_vec();
    let tail = |v: &[u8]| if v.len() > LIMIT { format!(".. ({} bytes)", v.len()) } else { String::new() };
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(v) => v.to_string(),
        ValueRef::Real(v) => format!("{v:?}"),
        ValueRef::Text(v) => format!("{:?}{}", String::from_utf8_lossy(&head(v)), tail(v)),
        ValueRef::Blob(v) => {
            let digits: String = head(v).iter().map(|b| format!("{b:02X}")).collect();
            format!("0x{digits}{}", tail(v))
        }
    }
}

/// Appends a stored value, so that equal values have equal bytes and unequal ones have not.
pub(crate) fn push_key(out: &mut Vec<u8>, value: ValueRef<'_>) {
    let sized = |out: &mut Vec<u8>, class: u8, v: &[u8]| {
        out.push(class);
        out.extend_from_slice(&(v.len() as u64).to_be_bytes());
        out.extend_from_slice(v);
    };
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Integer(v) => {
            out.push(1);
            out.extend_from_slice(&v.to_be_bytes());
        }
        ValueRef::Real(v) => {
            out.push(2);
            // The two zeros are one key to SQLite.
            out.extend_from_slice(&(if v == 0.0 { 0.0f64 } else { v }).to_bits().to_be_bytes());
        }
        ValueRef::Text(v) => sized(out, 3, v),
        ValueRef::Blob(v) => sized(out, 4, v),
    }
}

/// Appends a value so that two values have the same bytes only if they are the same in every bit; `one_zero`: but
/// for the sign of a zero.
pub(crate) fn push_exact(out: &mut Vec<u8>, value: ValueRef<'_>, one_zero: bool) {
    match value {
        ValueRef::Real(v) if !one_zero => {
            out.push(2);
            out.extend_from_slice(&v.to_bits().to_be_bytes());
        }
        value => push_key(out, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, IntWidth, LobSize};

    pub(crate) fn every_type() -> Vec<ColumnType> {
        let charset = Charset::utf8mb4();
        let mut types = vec![
            ColumnType::Decimal { precision: 65, scale: 30, unsigned: false },
            ColumnType::Float { unsigned: true },
            ColumnType::Double { unsigned: false },
            ColumnType::Bit { width: 1 },
            ColumnType::Bit { width: 64 },
            ColumnType::Year,
            ColumnType::Date,
            ColumnType::Time { fsp: 2 },
            ColumnType::DateTime { fsp: 6 },
            ColumnType::Timestamp { fsp: 0 },
            ColumnType::Char { length: 3, charset: charset.clone() },
            ColumnType::VarChar { length: 3, charset: charset.clone() },
            ColumnType::Text { size: LobSize::Tiny, charset: charset.clone() },
            ColumnType::Binary { length: 4 },
            ColumnType::VarBinary { length: 4 },
            ColumnType::Blob { size: LobSize::Long },
            ColumnType::Enum { labels: ["point".into()].into(), charset: charset.clone() },
            ColumnType::Set { labels: ["a".into()].into(), charset },
            ColumnType::Json,
            ColumnType::Geometry { kind: "point".into(), srid: None },
            ColumnType::Vector { dimensions: 3 },
            ColumnType::Uuid,
            ColumnType::Inet4,
            ColumnType::Inet6,
        ];
        for width in [IntWidth::Tiny, IntWidth::Small, IntWidth::Medium, IntWidth::Int, IntWidth::Big] {
            types.extend([false, true].map(|unsigned| ColumnType::Int { width, unsigned }));
        }
        types
    }

    #[test]
    fn every_declared_type_has_an_affinity_that_keeps_its_values() {
        for ty in every_type() {
            let declared = declared(&ty);
            let affinity = Affinity::of(&declared);
            assert!(Form::of(&ty).survives(affinity), "{ty}: {declared}");
            if matches!(Form::of(&ty), Form::Unsigned | Form::Real | Form::Blob) {
                assert_eq!(affinity, Affinity::None, "{ty}: {declared}");
            }
            assert_ne!(Kind::of(&declared), Kind::Foreign, "{ty}: {declared}");
        }
    }

    #[test]
    fn affinities_follow_the_manual() {
        for (declared, affinity) in [
            ("INT", Affinity::Integer),
            ("BIGINT UNSIGNED", Affinity::Integer),
            ("FLOATING POINT", Affinity::Integer),
            ("VARCHAR(255)", Affinity::Text),
            ("CLOB", Affinity::Text),
            ("", Affinity::None),
            ("blob", Affinity::None),
            ("DOUBLE PRECISION", Affinity::Real),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("DATETIME", Affinity::Numeric),
            ("STRING", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of(declared), affinity, "{declared}");
        }
    }

    #[test]
    fn unsigned_numbers_sort_as_they_count() {
        let mut last: Option<Vec<u8>> = None;
        for v in [1u64 << 63, 9_999_999_999_999_999_999, 10_000_000_000_000_000_000, u64::MAX] {
            let mut scratch = Vec::new();
            let value = Value::UInt(v);
            let Some(ValueRef::Text(text)) = encode(&value, Form::Unsigned, &mut scratch) else { panic!() };
            assert_eq!(text.len(), 20);
            assert!(last.as_deref() < Some(text));
            last = Some(text.to_vec());
        }
        let mut scratch = Vec::new();
        let value = Value::UInt(i64::MAX as u64);
        assert_eq!(encode(&value, Form::Unsigned, &mut scratch), Some(ValueRef::Integer(i64::MAX)));
    }
}
