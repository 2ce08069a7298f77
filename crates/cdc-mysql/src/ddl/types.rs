//! The type part of a column definition (MySQL manual chapter 13, MariaDB's data types).
//!
//! A text type's character set is written behind it or inherited from a table whose options come last, so
//! the type is read in two steps: [`parse`] gives a [`RawType`], [`RawType::finish`] the column's type.

use super::charset;
use super::context::Context;
use super::cursor::{Cursor, Failure, Parsed};
use super::lexer::Kind;
use cdc_core::codes;
use cdc_core::schema::{Charset, ColumnType, IntWidth, LobSize};
use std::borrow::Cow;
use std::sync::Arc;

/// A type before its character set is known.
#[derive(Debug, Clone)]
pub(super) enum RawType {
    /// One without a character set.
    Fixed(ColumnType),
    Char(u32),
    VarChar(u32),
    /// TEXT(n) chooses its size by n and the character set.
    Text {
        size: LobSize,
        length: Option<u64>,
    },
    Enum(Vec<Arc<str>>),
    Set(Vec<Arc<str>>),
    /// A type this version cannot copy; its word.
    Unsupported(String),
}

/// A type with what its words imply.
#[derive(Debug, Clone)]
pub(super) struct TypeWords {
    pub(super) raw: RawType,
    /// NATIONAL CHAR and its like, MariaDB's JSON.
    pub(super) charset: Option<Charset>,
    /// SERIAL: NOT NULL AUTO_INCREMENT UNIQUE.
    pub(super) serial: bool,
    /// FLOAT(m, d) and DOUBLE(m, d) round what is stored.
    pub(super) rounds: bool,
}

fn int(width: IntWidth) -> RawType {
    RawType::Fixed(ColumnType::Int { width, unsigned: false })
}

fn text(size: LobSize) -> RawType {
    RawType::Text { size, length: None }
}

fn blob(size: LobSize) -> RawType {
    RawType::Fixed(ColumnType::Blob { size })
}

fn geometry(kind: &str) -> RawType {
    RawType::Fixed(ColumnType::Geometry { kind: kind.into(), srid: None })
}

/// The smallest of the four sizes that holds so many bytes.
pub(super) fn lob_size(bytes: u64) -> LobSize {
    match bytes {
        0..=0xff => LobSize::Tiny,
        0x100..=0xffff => LobSize::Normal,
        0x1_0000..=0xff_ffff => LobSize::Medium,
        _ => LobSize::Long,
    }
}

/// Reads a type and its own attributes (UNSIGNED, ZEROFILL), up to the column's attributes.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Parsed<TypeWords> {
    let mut words = TypeWords { raw: int(IntWidth::Int), charset: None, serial: false, rounds: false };
    let national = |words: &mut TypeWords| {
        words.charset = Some(Charset::new("utf8mb3", "utf8mb3_general_ci"));
    };
    let context = cursor.context;
    let oracle = context.mariadb && context.sql_mode.oracle;
    let token = cursor.peek();
    if token.kind != Kind::Word {
        return Err(cursor.unexpected("a type"));
    }
    let word = token.text.to_ascii_lowercase();
    cursor.advance();
    words.raw = match &*word {
        "tinyint" | "int1" => int(IntWidth::Tiny),
        "smallint" | "int2" => int(IntWidth::Small),
        "mediumint" | "int3" | "middleint" => int(IntWidth::Medium),
        "int" | "integer" | "int4" => int(IntWidth::Int),
        "bigint" | "int8" => int(IntWidth::Big),
        "bool" | "boolean" => {
            return fixed(words, ColumnType::Int { width: IntWidth::Tiny, unsigned: false });
        }
        "serial" => {
            words.serial = true;
            return fixed(words, ColumnType::Int { width: IntWidth::Big, unsigned: true });
        }
        "decimal" | "dec" | "numeric" | "fixed" => decimal(cursor)?,
        "number" if oracle => {
            if cursor.is_symbol(b'(') {
                decimal(cursor)?
            } else {
                RawType::Fixed(ColumnType::Double { unsigned: false })
            }
        }
        "float" | "float4" | "real" | "double" | "float8" => {
            let (raw, rounds) = float(cursor, &word)?;
            words.rounds = rounds;
            raw
        }
        "bit" => {
            let width = cursor.optional_number()?.unwrap_or(1).clamp(1, 64) as u8;
            RawType::Fixed(ColumnType::Bit { width })
        }
        "date" if oracle => RawType::Fixed(ColumnType::DateTime { fsp: 0 }),
        "date" => RawType::Fixed(ColumnType::Date),
        "time" => RawType::Fixed(ColumnType::Time { fsp: fsp(cursor)? }),
        "datetime" => RawType::Fixed(ColumnType::DateTime { fsp: fsp(cursor)? }),
        "timestamp" => RawType::Fixed(ColumnType::Timestamp { fsp: fsp(cursor)? }),
        "year" => match cursor.optional_number()? {
            // 2000 and 0000 are both 00 to a SELECT and not in the log: no copy of it would be right
            Some(2) if context.mariadb => RawType::Unsupported("year(2)".to_owned()),
            _ => RawType::Fixed(ColumnType::Year),
        },
        "national" => {
            national(&mut words);
            if cursor.accept_any(&["VARCHAR", "VARCHARACTER"]) {
                varchar(cursor)?
            } else if cursor.accept_any(&["CHAR", "CHARACTER"]) {
                if cursor.accept("VARYING") { varchar(cursor)? } else { char_type(cursor)? }
            } else {
                return Err(cursor.unexpected("CHAR or VARCHAR"));
            }
        }
        "nchar" => {
            national(&mut words);
            if cursor.accept_any(&["VARCHAR", "VARCHARACTER", "VARYING"]) {
                varchar(cursor)?
            } else {
                char_type(cursor)?
            }
        }
        "nvarchar" => {
            national(&mut words);
            varchar(cursor)?
        }
        "char" | "character" => {
            if cursor.accept("VARYING") {
                varchar(cursor)?
            } else {
                char_type(cursor)?
            }
        }
        "varchar" | "varcharacter" | "varchar2" => varchar(cursor)?,
        "binary" => {
            if cursor.accept("VARYING") {
                varbinary(cursor)?
            } else {
                RawType::Fixed(ColumnType::Binary { length: length(cursor)?.unwrap_or(1) })
            }
        }
        "varbinary" => varbinary(cursor)?,
        "raw" if oracle => varbinary(cursor)?,
        "tinytext" => text(LobSize::Tiny),
        "text" => {
            let length = cursor.optional_number()?;
            RawType::Text { size: LobSize::Normal, length }
        }
        "mediumtext" => text(LobSize::Medium),
        "longtext" => text(LobSize::Long),
        "clob" if oracle => text(LobSize::Long),
        "tinyblob" => blob(LobSize::Tiny),
        "blob" => match cursor.optional_number()? {
            None | Some(0) if oracle => blob(LobSize::Long),
            None | Some(0) => blob(LobSize::Normal),
            Some(length) => blob(lob_size(length)),
        },
        "mediumblob" => blob(LobSize::Medium),
        "longblob" => blob(LobSize::Long),
        "long" => long(cursor),
        "enum" => RawType::Enum(labels(cursor)?),
        "set" => RawType::Set(labels(cursor)?),
        // MariaDB's JSON is a text (its rows in the log are LONGTEXT's).
        "json" if context.mariadb => {
            words.charset = Some(Charset::new("utf8mb4", "utf8mb4_bin"));
            text(LobSize::Long)
        }
        "json" => RawType::Fixed(ColumnType::Json),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" => geometry(&word),
        "geometrycollection" | "geomcollection" => geometry("geomcollection"),
        "vector" => {
            let dimensions = cursor.optional_number()?.unwrap_or(2048);
            RawType::Fixed(ColumnType::Vector { dimensions: dimensions.min(u64::from(u32::MAX)) as u32 })
        }
        // MariaDB's. MySQL has no types of these names and its log cannot hold them as such; a schema file,
        // which says nothing of its server, can.
        "uuid" => RawType::Fixed(ColumnType::Uuid),
        "inet4" => RawType::Fixed(ColumnType::Inet4),
        "inet6" => RawType::Fixed(ColumnType::Inet6),
        "xmltype" => RawType::Unsupported(word),
        _ => {
            return Err(Failure {
                at: Some(token.start),
                ..Failure::new(codes::TYPE_UNSUPPORTED, format!("the type \"{word}\" is not known"))
            });
        }
    };
    number_attributes(cursor, &mut words.raw)?;
    Ok(words)
}

fn fixed(words: TypeWords, ty: ColumnType) -> Parsed<TypeWords> {
    Ok(TypeWords { raw: RawType::Fixed(ty), ..words })
}

/// `(n)` of integers (their display width) and UNSIGNED, SIGNED, ZEROFILL of numbers.
fn number_attributes(cursor: &mut Cursor<'_>, raw: &mut RawType) -> Parsed<()> {
    let RawType::Fixed(ty) = raw else { return Ok(()) };
    if matches!(ty, ColumnType::Int { .. }) {
        cursor.optional_number()?;
    }
    let (ColumnType::Int { unsigned, .. }
    | ColumnType::Decimal { unsigned, .. }
    | ColumnType::Float { unsigned }
    | ColumnType::Double { unsigned }) = ty
    else {
        return Ok(());
    };
    loop {
        if cursor.accept_any(&["UNSIGNED", "ZEROFILL"]) {
            *unsigned = true;
        } else if !cursor.accept("SIGNED") {
            return Ok(());
        }
    }
}

/// `(p)` or `(p, s)`.
fn two_numbers(cursor: &mut Cursor<'_>) -> Parsed<(Option<u64>, Option<u64>)> {
    if !cursor.accept_symbol(b'(') {
        return Ok((None, None));
    }
    let first = cursor.number()?;
    let second = if cursor.accept_symbol(b',') { Some(cursor.number()?) } else { None };
    cursor.expect_symbol(b')')?;
    Ok((Some(first), second))
}

fn decimal(cursor: &mut Cursor<'_>) -> Parsed<RawType> {
    let (precision, scale) = two_numbers(cursor)?;
    // DECIMAL(0) is DECIMAL(10) (manual 13.1.3).
    let precision = precision.filter(|&p| p > 0).unwrap_or(10).min(65) as u8;
    let most = if cursor.context.mariadb { 38 } else { 30 };
    let scale = scale.unwrap_or(0).min(most) as u8;
    Ok(RawType::Fixed(ColumnType::Decimal { precision, scale, unsigned: false }))
}

/// The type, and whether it rounds.
fn float(cursor: &mut Cursor<'_>, word: &str) -> Parsed<(RawType, bool)> {
    if word == "double" {
        cursor.accept("PRECISION");
    }
    let (precision, scale) = two_numbers(cursor)?;
    let single = match word {
        // FLOAT(p) is the smallest type of p bits; FLOAT(m, d) stays FLOAT.
        "float" => scale.is_some() || precision.unwrap_or(0) <= 24,
        "float4" => true,
        "real" => cursor.context.sql_mode.real_as_float,
        _ => false,
    };
    let ty =
        if single { ColumnType::Float { unsigned: false } } else { ColumnType::Double { unsigned: false } };
    Ok((RawType::Fixed(ty), scale.is_some()))
}

fn fsp(cursor: &mut Cursor<'_>) -> Parsed<u8> {
    Ok(cursor.optional_number()?.unwrap_or(0).min(6) as u8)
}

fn length(cursor: &mut Cursor<'_>) -> Parsed<Option<u32>> {
    Ok(cursor.optional_number()?.map(|n| n.min(u64::from(u32::MAX)) as u32))
}

fn char_type(cursor: &mut Cursor<'_>) -> Parsed<RawType> {
    Ok(RawType::Char(length(cursor)?.unwrap_or(1)))
}

fn varchar(cursor: &mut Cursor<'_>) -> Parsed<RawType> {
    match length(cursor)? {
        Some(length) => Ok(RawType::VarChar(length)),
        // Oracle mode lets the length away.
        None if cursor.context.mariadb && cursor.context.sql_mode.oracle => Ok(RawType::VarChar(4000)),
        None => Err(cursor.unexpected("a length")),
    }
}

fn varbinary(cursor: &mut Cursor<'_>) -> Parsed<RawType> {
    match length(cursor)? {
        Some(length) => Ok(match sized_binary(u64::from(length)) {
            Some(lob) => RawType::Fixed(lob),
            None => RawType::Fixed(ColumnType::VarBinary { length }),
        }),
        None => Err(cursor.unexpected("a length")),
    }
}

/// LONG, LONG VARCHAR, LONG CHAR VARYING are MEDIUMTEXT; LONG VARBINARY is MEDIUMBLOB.
fn long(cursor: &mut Cursor<'_>) -> RawType {
    if cursor.accept("VARBINARY") {
        return blob(LobSize::Medium);
    }
    if cursor.accept_any(&["CHAR", "CHARACTER"]) {
        cursor.accept("VARYING");
    } else {
        cursor.accept_any(&["VARCHAR", "VARCHARACTER"]);
    }
    text(LobSize::Medium)
}

/// The members of an ENUM or SET; the server drops spaces at their ends.
fn labels(cursor: &mut Cursor<'_>) -> Parsed<Vec<Arc<str>>> {
    cursor.expect_symbol(b'(')?;
    let mut labels = Vec::new();
    loop {
        let label: Cow<'_, str> = cursor.text()?;
        labels.push(Arc::from(label.trim_end_matches(' ')));
        // As many as an ENUM may have (manual 13.3.6).
        if labels.len() > 65535 {
            return Err(cursor.unexpected("no further member"));
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_symbol(b')')?;
    Ok(labels)
}

/// What a VARBINARY too long for a row is turned into without strict mode.
fn sized_binary(bytes: u64) -> Option<ColumnType> {
    (bytes > 65535).then(|| ColumnType::Blob { size: lob_size(bytes) })
}

impl RawType {
    /// Does the type have a character set?
    pub(super) fn is_text(&self) -> bool {
        !matches!(self, RawType::Fixed(_) | RawType::Unsupported(_))
    }

    /// The type under this character set; `binary` makes bytes of text (manual 12.10.7).
    pub(super) fn finish(self, charset: Charset, context: &Context<'_>) -> Result<ColumnType, String> {
        let binary = &*charset.name == "binary";
        let per_char = charset::max_bytes(&charset.name);
        Ok(match self {
            RawType::Fixed(ty) => ty,
            RawType::Unsupported(word) => {
                let server = if context.mariadb { "MariaDB's type" } else { "the type" };
                return Err(format!("{server} {}", word.to_uppercase()));
            }
            RawType::Char(length) if binary => ColumnType::Binary { length },
            RawType::Char(length) => ColumnType::Char { length, charset },
            RawType::VarChar(length) => {
                // Without strict mode a VARCHAR that no row can hold is turned into a TEXT.
                let bytes = u64::from(length) * per_char;
                match (bytes > 65535, binary) {
                    (false, false) => ColumnType::VarChar { length, charset },
                    (false, true) => ColumnType::VarBinary { length },
                    (true, false) => ColumnType::Text { size: lob_size(bytes), charset },
                    (true, true) => ColumnType::Blob { size: lob_size(bytes) },
                }
            }
            RawType::Text { size, length } => {
                let size = match length {
                    None | Some(0) => size,
                    Some(length) => lob_size(length.saturating_mul(per_char)),
                };
                if binary { ColumnType::Blob { size } } else { ColumnType::Text { size, charset } }
            }
            RawType::Enum(labels) => ColumnType::Enum { labels: labels.into(), charset },
            RawType::Set(labels) => ColumnType::Set { labels: labels.into(), charset },
        })
    }
}

/// The type of a text column after CONVERT TO CHARACTER SET: it holds as many characters as before, so a
/// TEXT may grow (manual 15.1.9.8).
pub(super) fn convert(ty: &ColumnType, charset: &Charset, context: &Context<'_>) -> ColumnType {
    let raw = match ty {
        ColumnType::Char { length, .. } => RawType::Char(*length),
        ColumnType::VarChar { length, .. } => RawType::VarChar(*length),
        ColumnType::Text { size, charset: old } => {
            let chars = size.max_bytes() / charset::max_bytes(&old.name);
            RawType::Text { size: *size, length: Some(chars.max(1)) }
        }
        ColumnType::Enum { labels, .. } => RawType::Enum(labels.to_vec()),
        ColumnType::Set { labels, .. } => RawType::Set(labels.to_vec()),
        _ => return ty.clone(),
    };
    raw.finish(charset.clone(), context).unwrap_or_else(|_| ty.clone())
}
