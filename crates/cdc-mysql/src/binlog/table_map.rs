//! TABLE_MAP: how the bytes of the row events behind it are laid out, and the proof that the structure we
//! hold is the one they were written with.
//!
//! MySQL source documentation, `Table_map_event` in `rows_event.h`. The event gives each column a type code
//! and a few bytes of metadata, which say how long a value is, but not what it means (signed or not, which
//! character set, the labels of an ENUM). The meaning comes from our own structure at this position of the
//! log. [`TableMap::check`] compares everything that both sides know, so that a structure that has gone
//! wrong stops with an error and never decodes into plausible nonsense. With `binlog_row_metadata = FULL`
//! the log knows names, signedness, character sets and labels too, and they are all compared.

use crate::decode::bytes::{Bytes, LengthWidth};
use crate::decode::charset::{self, charset};
use crate::decode::{Flaw, enum_set};
use cdc_core::diagnostic::codes;
use cdc_core::error::{Error, Result};
use cdc_core::schema::{Column, ColumnType, IntWidth, LobSize, TableSchema};
use mysql_common::collations::{Collation, CollationId};
use std::fmt;
use std::sync::Arc;

/// A TABLE_MAP event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    /// The number by which row events name the table; valid until the server opens the table anew.
    pub table_id: u64,
    /// The event's flags.
    pub flags: u16,
    /// The database.
    pub database: Arc<str>,
    /// The table.
    pub table: Arc<str>,
    /// The columns, in the order of the table.
    pub columns: Vec<WireColumn>,
    /// The primary key, if the log says it (`binlog_row_metadata = FULL`): index of the column, and the
    /// length of the prefix in bytes, 0 for the whole column.
    pub primary_key: Option<Vec<(usize, u64)>>,
}

/// What a TABLE_MAP says of a column. What is optional is there with `binlog_row_metadata = FULL`, and
/// signedness and geometry type always since MySQL 8.0.1 and MariaDB 10.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireColumn {
    /// The layout of a value.
    pub ty: WireType,
    /// May it be NULL?
    pub nullable: bool,
    /// Of a number: UNSIGNED?
    pub unsigned: Option<bool>,
    /// Of a text, ENUM or SET: the number of its collation.
    pub collation: Option<u16>,
    /// Its name.
    pub name: Option<String>,
    /// Of an ENUM or SET: the members, in the column's character set.
    pub members: Option<Vec<Vec<u8>>>,
    /// Of a spatial type: which one, from 0 for GEOMETRY to 7 for GEOMETRYCOLLECTION.
    pub geometry: Option<u64>,
    /// Is it visible?
    pub visible: Option<bool>,
    /// Of a VECTOR: the most dimensions.
    pub dimensions: Option<u64>,
}

/// The layout of a column's values: the type code with its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// TINYINT.
    Tiny,
    /// SMALLINT.
    Short,
    /// MEDIUMINT.
    Int24,
    /// INT.
    Long,
    /// BIGINT.
    LongLong,
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    NewDecimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the dot.
        scale: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME in the layout before MySQL 5.6. The log does not say how many digits of fraction there are; so
    /// with the next two.
    Time,
    /// DATETIME in the layout before MySQL 5.6.
    DateTime,
    /// TIMESTAMP in the layout before MySQL 5.6.
    Timestamp,
    /// TIME.
    Time2 {
        /// Digits of fraction.
        fsp: u8,
    },
    /// DATETIME.
    DateTime2 {
        /// Digits of fraction.
        fsp: u8,
    },
    /// TIMESTAMP.
    Timestamp2 {
        /// Digits of fraction.
        fsp: u8,
    },
    /// CHAR and BINARY; MariaDB's UUID, INET4 and INET6.
    String {
        /// In bytes.
        length: u16,
    },
    /// VARCHAR and VARBINARY; MariaDB's VECTOR.
    VarChar {
        /// In bytes.
        length: u16,
    },
    /// VARCHAR and VARBINARY that are COMPRESSED (MariaDB).
    VarCharCompressed {
        /// In bytes, the byte in front that says how a value is compressed among them: one more than the
        /// type has.
        length: u16,
    },
    /// The TEXT and BLOB families, COMPRESSED (MariaDB).
    BlobCompressed {
        /// The length in front of a value.
        width: LengthWidth,
    },
    /// The TEXT and BLOB families.
    Blob {
        /// The length in front of a value.
        width: LengthWidth,
    },
    /// ENUM.
    Enum {
        /// In bytes.
        bytes: u8,
    },
    /// SET.
    Set {
        /// In bytes.
        bytes: u8,
    },
    /// BIT.
    Bit {
        /// In bits.
        width: u16,
    },
    /// JSON, in binary JSON.
    Json {
        /// The length in front of a value.
        width: LengthWidth,
    },
    /// A spatial type.
    Geometry {
        /// The length in front of a value.
        width: LengthWidth,
    },
    /// VECTOR.
    Vector {
        /// The length in front of a value.
        width: LengthWidth,
    },
}

/// The codes of `enum_field_types`.
mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    pub const BLOB_COMPRESSED: u8 = 140;
    pub const VARCHAR_COMPRESSED: u8 = 141;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// `Optional_metadata_field_type`.
mod field {
    pub const SIGNEDNESS: u8 = 1;
    pub const DEFAULT_CHARSET: u8 = 2;
    pub const COLUMN_CHARSET: u8 = 3;
    pub const COLUMN_NAME: u8 = 4;
    pub const SET_STR_VALUE: u8 = 5;
    pub const ENUM_STR_VALUE: u8 = 6;
    pub const GEOMETRY_TYPE: u8 = 7;
    pub const SIMPLE_PRIMARY_KEY: u8 = 8;
    pub const PRIMARY_KEY_WITH_PREFIX: u8 = 9;
    pub const ENUM_AND_SET_DEFAULT_CHARSET: u8 = 10;
    pub const ENUM_AND_SET_COLUMN_CHARSET: u8 = 11;
    pub const COLUMN_VISIBILITY: u8 = 12;
    pub const VECTOR_DIMENSIONALITY: u8 = 13;
}

/// The collation of bytes.
const BINARY_COLLATION: u16 = 63;

impl TableMap {
    /// Reads an event's body: what is between its header of 19 bytes and its checksum.
    pub fn parse(body: &[u8]) -> Result<TableMap> {
        let mut input = Bytes(body);
        let mut parsed = read_head(&mut input).map_err(corrupt)?;
        read_columns(&mut input, &mut parsed)?;
        let columns = parsed.columns.len();
        read_optional(&mut input, &mut parsed).map_err(|flaw| {
            corrupt(flaw).note(format!(
                "in the metadata of table \"{}.{}\" of {columns} columns",
                parsed.database, parsed.table
            ))
        })?;
        Ok(parsed)
    }

    /// Table number, database and table alone, for a reader that wants to know whether the table concerns it
    /// before it reads the rest.
    pub fn parse_names(body: &[u8]) -> Result<(u64, &str, &str)> {
        let mut input = Bytes(body);
        let mut names = || {
            let (table_id, _) = (input.u48()?, input.u16()?);
            Ok((table_id, read_name(&mut input)?, read_name(&mut input)?))
        };
        names().map_err(corrupt)
    }

    /// Compares what the log says of the table with the structure that we hold.
    pub fn check(&self, schema: &TableSchema) -> Result<()> {
        if self.columns.len() != schema.columns.len() {
            return Err(differs(
                schema,
                format!(
                    "has {} columns in the log, but {} in the known structure",
                    self.columns.len(),
                    schema.columns.len()
                ),
            )
            .note(format!("known columns: {}", name_list(schema))));
        }
        for (wire, column) in self.columns.iter().zip(&schema.columns) {
            if let Some((log, known)) = difference(wire, column) {
                return Err(differs(
                    schema,
                    format!(
                        "has column \"{}\" as {log} in the log, but as {known} in the known structure",
                        column.name
                    ),
                ));
            }
        }
        if let Some(key) = &self.primary_key
            && !key.iter().map(|&(i, _)| i).eq(schema.primary_key.iter().copied())
            // a key that our structure leaves out because of its prefix is no contradiction
            && !(schema.primary_key.is_empty() && key.iter().any(|&(_, prefix)| prefix > 0))
            // without one the server tells the unique key that it has promoted
            && !(schema.primary_key.is_empty()
                && schema.unique_keys.iter().any(|u| {
                    u.iter().all(|&c| !schema.columns[c].nullable)
                        && key.iter().map(|&(i, _)| i).eq(u.iter().copied())
                }))
        {
            let names = |indexes: &mut dyn Iterator<Item = usize>| {
                let names: Vec<_> =
                    indexes.map(|i| schema.columns.get(i).map_or("?", |c| &*c.name)).collect();
                format!("({})", names.join(", "))
            };
            return Err(differs(
                schema,
                format!(
                    "has the primary key {} in the log, but {} in the known structure",
                    names(&mut key.iter().map(|&(i, _)| i)),
                    names(&mut schema.primary_key.iter().copied())
                ),
            ));
        }
        Ok(())
    }
}

fn name_list(schema: &TableSchema) -> String {
    schema.columns.iter().map(|c| &*c.name).collect::<Vec<_>>().join(", ")
}

#[cold]
fn corrupt(flaw: Flaw) -> Error {
    let why = match flaw {
        Flaw::Truncated => "it ends too early".into(),
        Flaw::Undecodable(why) => why,
    };
    Error::definite(codes::LOG_CORRUPT, format!("the log holds a table map that cannot be read: {why}"))
}

#[cold]
fn differs(schema: &TableSchema, what: String) -> Error {
    Error::definite(codes::STRUCTURE_DIFFERS, format!("table \"{}\" {what}", schema.id))
}

fn read_name<'a>(input: &mut Bytes<'a>) -> Result<&'a str, Flaw> {
    let length = input.lenenc_usize()?;
    let name = input.take(length)?;
    if input.u8()? != 0 {
        return Err(Flaw::undecodable("a name does not end in a zero byte"));
    }
    std::str::from_utf8(name).map_err(|_| Flaw::undecodable("a name is not UTF-8"))
}

fn read_head(input: &mut Bytes<'_>) -> Result<TableMap, Flaw> {
    Ok(TableMap {
        table_id: input.u48()?,
        flags: input.u16()?,
        database: read_name(input)?.into(),
        table: read_name(input)?.into(),
        columns: Vec::new(),
        primary_key: None,
    })
}

fn read_columns(input: &mut Bytes<'_>, parsed: &mut TableMap) -> Result<()> {
    let lists = |input: &mut Bytes<'_>| -> Result<_, Flaw> {
        let count = input.lenenc_usize()?;
        let types = input.take(count)?.to_vec();
        let metadata = input.lenenc_bytes()?.to_vec();
        let nullable = input.take(count.div_ceil(8))?.to_vec();
        Ok((types, metadata, nullable))
    };
    let (types, metadata, nullable) = lists(input).map_err(corrupt)?;
    let mut metadata = Bytes(&metadata);
    parsed.columns.reserve(types.len());
    for (i, &code) in types.iter().enumerate() {
        let ty = read_type(code, &mut metadata).map_err(corrupt)?.ok_or_else(|| {
            Error::definite(
                codes::TYPE_UNSUPPORTED,
                format!(
                    "column {} of table \"{}.{}\" has the type code {code} in the log, which is not known",
                    i + 1,
                    parsed.database,
                    parsed.table
                ),
            )
        })?;
        parsed.columns.push(WireColumn {
            ty,
            nullable: nullable.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1),
            unsigned: None,
            collation: None,
            name: None,
            members: None,
            geometry: None,
            visible: None,
            dimensions: None,
        });
    }
    if !metadata.is_empty() {
        return Err(corrupt(Flaw::undecodable("it has more type metadata than its columns need")));
    }
    Ok(())
}

/// `None` for a type code that is not known.
fn read_type(code: u8, metadata: &mut Bytes<'_>) -> Result<Option<WireType>, Flaw> {
    let width = |metadata: &mut Bytes<'_>| {
        let n = metadata.u8()?;
        LengthWidth::of_blob(n).ok_or_else(|| Flaw::undecodable(format!("a blob's length has {n} bytes")))
    };
    let fsp = |metadata: &mut Bytes<'_>| match metadata.u8()? {
        fsp @ 0..=6 => Ok(fsp),
        n => Err(Flaw::undecodable(format!("a time has {n} digits of fraction"))),
    };
    Ok(Some(match code {
        code::TINY => WireType::Tiny,
        code::SHORT => WireType::Short,
        code::INT24 => WireType::Int24,
        code::LONG => WireType::Long,
        code::LONGLONG => WireType::LongLong,
        code::FLOAT => {
            metadata.u8()?;
            WireType::Float
        }
        code::DOUBLE => {
            metadata.u8()?;
            WireType::Double
        }
        code::NEWDECIMAL => WireType::NewDecimal { precision: metadata.u8()?, scale: metadata.u8()? },
        code::YEAR => WireType::Year,
        code::DATE | code::NEWDATE => WireType::Date,
        code::TIME => WireType::Time,
        code::DATETIME => WireType::DateTime,
        code::TIMESTAMP => WireType::Timestamp,
        code::TIME2 => WireType::Time2 { fsp: fsp(metadata)? },
        code::DATETIME2 => WireType::DateTime2 { fsp: fsp(metadata)? },
        code::TIMESTAMP2 => WireType::Timestamp2 { fsp: fsp(metadata)? },
        code::VARCHAR => WireType::VarChar { length: metadata.u16()? },
        code::BLOB => WireType::Blob { width: width(metadata)? },
        code::VARCHAR_COMPRESSED => WireType::VarCharCompressed { length: metadata.u16()? },
        code::BLOB_COMPRESSED => WireType::BlobCompressed { width: width(metadata)? },
        code::JSON => WireType::Json { width: width(metadata)? },
        code::GEOMETRY => WireType::Geometry { width: width(metadata)? },
        code::VECTOR => WireType::Vector { width: width(metadata)? },
        code::BIT => {
            let (bits, bytes) = (metadata.u8()?, metadata.u8()?);
            WireType::Bit { width: u16::from(bytes) * 8 + u16::from(bits) }
        }
        code::STRING | code::VAR_STRING | code::ENUM | code::SET => {
            // `Field_string::do_save_field_metadata()`: the real type, with bits 8 and 9 of the length
            // inverted in its bits 4 and 5 (which are set in all three types), then the rest of the length
            let (a, b) = (metadata.u8()?, metadata.u8()?);
            match a | 0x30 {
                code::ENUM => WireType::Enum { bytes: b },
                code::SET => WireType::Set { bytes: b },
                code::STRING | code::VAR_STRING => {
                    WireType::String { length: (u16::from(a & 0x30 ^ 0x30) << 4) | u16::from(b) }
                }
                real => return Err(Flaw::undecodable(format!("a string has the real type {real}"))),
            }
        }
        _ => return Ok(None),
    }))
}

impl WireType {
    /// `is_numeric_type()`; YEAR counts (measured on MySQL 9.7.4 and MariaDB 10.11).
    fn is_numeric(self) -> bool {
        use WireType::*;
        matches!(self, Tiny | Short | Int24 | Long | LongLong | Float | Double | NewDecimal { .. } | Year)
    }

    /// `is_character_type()`: bytes count, with the collation `binary`; so do MariaDB's UUID, INET4, INET6
    /// and VECTOR, and its compressed types (measured on 10.11 and 11.8), and MySQL's VECTOR (9.7.4).
    fn is_character(self) -> bool {
        use WireType::*;
        matches!(
            self,
            String { .. }
                | VarChar { .. }
                | Blob { .. }
                | Vector { .. }
                | VarCharCompressed { .. }
                | BlobCompressed { .. }
        )
    }

    /// MariaDB's: spatial types too, with the collation `binary` (measured on 10.11.19 and 11.8.9).
    fn is_character_of_mariadb(self) -> bool {
        self.is_character() || matches!(self, WireType::Geometry { .. })
    }

    fn is_enum_or_set(self) -> bool {
        matches!(self, WireType::Enum { .. } | WireType::Set { .. })
    }
}

/// Which columns the fields of character sets count: MySQL leaves spatial columns out, MariaDB does not, and
/// the event does not say which of them wrote it. MySQL's says what is visible wherever it says names, from
/// 8.0.23 on; MariaDB's never does. `None` where it says neither (`binlog_row_metadata = MINIMAL`) and it
/// matters: the character sets are then not compared.
fn character_columns(fields: &[u8], columns: &[WireColumn]) -> Option<fn(WireType) -> bool> {
    if !columns.iter().any(|c| matches!(c.ty, WireType::Geometry { .. })) {
        return Some(WireType::is_character);
    }
    let (mut names, mut fields) = (false, Bytes(fields));
    while let Ok(tag) = fields.u8() {
        match tag {
            field::COLUMN_VISIBILITY => return Some(WireType::is_character),
            field::COLUMN_NAME => names = true,
            _ => {}
        }
        fields.lenenc_bytes().ok()?;
    }
    names.then_some(WireType::is_character_of_mariadb)
}

/// The type-length-value fields at the end. One that is not known is skipped: it can only add to what is
/// compared.
fn read_optional(input: &mut Bytes<'_>, parsed: &mut TableMap) -> Result<(), Flaw> {
    let character = character_columns(input.0, &parsed.columns);
    while !input.is_empty() {
        let tag = input.u8()?;
        let value = input.lenenc_bytes()?;
        let value = &mut Bytes(value);
        let columns = &mut parsed.columns;
        match tag {
            field::SIGNEDNESS => {
                let bits = value.0;
                for (n, c) in columns.iter_mut().filter(|c| c.ty.is_numeric()).enumerate() {
                    c.unsigned = Some(bit(bits, n)?);
                }
            }
            field::DEFAULT_CHARSET => {
                if let Some(character) = character {
                    read_default_charset(value, columns, character)?;
                }
            }
            field::COLUMN_CHARSET => {
                if let Some(character) = character {
                    read_charsets(value, columns, character)?;
                }
            }
            field::ENUM_AND_SET_DEFAULT_CHARSET => {
                read_default_charset(value, columns, WireType::is_enum_or_set)?;
            }
            field::ENUM_AND_SET_COLUMN_CHARSET => read_charsets(value, columns, WireType::is_enum_or_set)?,
            field::COLUMN_NAME => {
                for c in columns {
                    let name = std::str::from_utf8(value.lenenc_bytes()?)
                        .map_err(|_| Flaw::undecodable("a column's name is not UTF-8"))?;
                    c.name = Some(name.to_owned());
                }
            }
            field::SET_STR_VALUE => {
                read_members(value, columns, |ty| matches!(ty, WireType::Set { .. }))?;
            }
            field::ENUM_STR_VALUE => {
                read_members(value, columns, |ty| matches!(ty, WireType::Enum { .. }))?;
            }
            field::GEOMETRY_TYPE => {
                for c in columns.iter_mut().filter(|c| matches!(c.ty, WireType::Geometry { .. })) {
                    c.geometry = Some(value.lenenc()?);
                }
            }
            field::SIMPLE_PRIMARY_KEY => {
                let mut key = Vec::new();
                while !value.is_empty() {
                    key.push((value.lenenc_usize()?, 0));
                }
                parsed.primary_key = Some(key);
            }
            field::PRIMARY_KEY_WITH_PREFIX => {
                let mut key = Vec::new();
                while !value.is_empty() {
                    key.push((value.lenenc_usize()?, value.lenenc()?));
                }
                parsed.primary_key = Some(key);
            }
            field::COLUMN_VISIBILITY => {
                let bits = value.0;
                for (n, c) in columns.iter_mut().enumerate() {
                    c.visible = Some(bit(bits, n)?);
                }
            }
            field::VECTOR_DIMENSIONALITY => {
                for c in columns.iter_mut().filter(|c| matches!(c.ty, WireType::Vector { .. })) {
                    c.dimensions = Some(value.lenenc()?);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Bit `n` of these bytes, from the highest bit of the first.
fn bit(bytes: &[u8], n: usize) -> Result<bool, Flaw> {
    bytes.get(n / 8).map(|byte| byte << (n % 8) & 0x80 != 0).ok_or(Flaw::Truncated)
}

fn collation(input: &mut Bytes<'_>) -> Result<u16, Flaw> {
    u16::try_from(input.lenenc()?).map_err(|_| Flaw::undecodable("there is no such collation"))
}

/// One collation for all columns of a kind, but for those that follow by index (among the columns of the
/// kind).
fn read_default_charset(
    input: &mut Bytes<'_>,
    columns: &mut [WireColumn],
    of_kind: fn(WireType) -> bool,
) -> Result<(), Flaw> {
    let default = collation(input)?;
    let mut columns: Vec<_> = columns.iter_mut().filter(|c| of_kind(c.ty)).collect();
    columns.iter_mut().for_each(|c| c.collation = Some(default));
    while !input.is_empty() {
        let index = input.lenenc_usize()?;
        let own = collation(input)?;
        columns.get_mut(index).ok_or(Flaw::Truncated)?.collation = Some(own);
    }
    Ok(())
}

fn read_charsets(
    input: &mut Bytes<'_>,
    columns: &mut [WireColumn],
    of_kind: fn(WireType) -> bool,
) -> Result<(), Flaw> {
    for c in columns.iter_mut().filter(|c| of_kind(c.ty)) {
        c.collation = Some(collation(input)?);
    }
    Ok(())
}

fn read_members(
    input: &mut Bytes<'_>,
    columns: &mut [WireColumn],
    of_kind: fn(WireType) -> bool,
) -> Result<(), Flaw> {
    for c in columns.iter_mut().filter(|c| of_kind(c.ty)) {
        let count = input.lenenc()?;
        // not reserved by `count`, which may be anything
        let mut members = Vec::new();
        for _ in 0..count {
            members.push(input.lenenc_bytes()?.to_vec());
        }
        c.members = Some(members);
    }
    Ok(())
}

/// The first thing in which the log and the structure differ, in words for each side.
fn difference(wire: &WireColumn, column: &Column) -> Option<(String, String)> {
    if let Some(name) = &wire.name
        && **name != *column.name
    {
        return Some((format!("\"{name}\""), format!("\"{}\"", column.name)));
    }
    if !layout_agrees(wire.ty, &column.ty) {
        return Some((wire.ty.to_string(), column.ty.to_string()));
    }
    if wire.nullable != column.nullable {
        let words = |nullable| if nullable { "nullable" } else { "not null" }.to_owned();
        return Some((words(wire.nullable), words(column.nullable)));
    }
    if let (Some(log), Some(known)) = (wire.unsigned, is_unsigned(&column.ty))
        && log != known
    {
        let words = |unsigned| if unsigned { "unsigned" } else { "signed" }.to_owned();
        return Some((words(log), words(known)));
    }
    if let (Some(log), Some(known)) = (wire.collation.and_then(charset_of), charset_name(&column.ty))
        && canonical(log) != canonical(known)
    {
        return Some((format!("character set \"{log}\""), format!("character set \"{known}\"")));
    }
    if let (Some(members), ColumnType::Enum { labels, charset } | ColumnType::Set { labels, charset }) =
        (&wire.members, &column.ty)
        && let Some(members) = decoded(members, &charset.name)
        && !members.iter().map(String::as_str).eq(labels.iter().map(|l| &**l))
    {
        return Some((format!("one of the members {members:?}"), column.ty.to_string()));
    }
    if let (Some(log), ColumnType::Geometry { kind, .. }) = (wire.geometry, &column.ty)
        && geometry_kind(log).is_some_and(|log| log != &**kind)
    {
        return Some((geometry_kind(log).unwrap_or_default().to_owned(), kind.to_string()));
    }
    if let (Some(log), ColumnType::Vector { dimensions }) = (wire.dimensions, &column.ty)
        && log != u64::from(*dimensions)
    {
        return Some((format!("vector({log})"), column.ty.to_string()));
    }
    None
}

/// Do the type code and its metadata fit the column's type?
fn layout_agrees(wire: WireType, ty: &ColumnType) -> bool {
    // bytes of a length in characters; a character set that is not known fits any length and is refused
    // when the rows are decoded
    let in_bytes = |length: u32, name: &str, bytes: u16| {
        charset(name).is_none_or(|info| u64::from(length) * u64::from(info.max_bytes) == u64::from(bytes))
    };
    match (ty, wire) {
        (ColumnType::Int { width, .. }, _) => {
            wire == match width {
                IntWidth::Tiny => WireType::Tiny,
                IntWidth::Small => WireType::Short,
                IntWidth::Medium => WireType::Int24,
                IntWidth::Int => WireType::Long,
                IntWidth::Big => WireType::LongLong,
            }
        }
        (ColumnType::Decimal { precision: a, scale: b, .. }, WireType::NewDecimal { precision, scale }) => {
            *a == precision && *b == scale
        }
        (ColumnType::Float { .. }, WireType::Float)
        | (ColumnType::Double { .. }, WireType::Double)
        | (ColumnType::Year, WireType::Year)
        | (ColumnType::Date, WireType::Date)
        | (ColumnType::Json, WireType::Json { .. })
        | (ColumnType::Geometry { .. }, WireType::Geometry { .. })
        | (ColumnType::Vector { .. }, WireType::Vector { .. }) => true,
        (ColumnType::Bit { width }, WireType::Bit { width: log }) => u16::from(*width) == log,
        (ColumnType::Time { fsp }, WireType::Time2 { fsp: log })
        | (ColumnType::DateTime { fsp }, WireType::DateTime2 { fsp: log })
        | (ColumnType::Timestamp { fsp }, WireType::Timestamp2 { fsp: log }) => *fsp == log,
        // any fraction, of which the log says nothing; MySQL has none in these layouts
        (ColumnType::Time { .. }, WireType::Time)
        | (ColumnType::DateTime { .. }, WireType::DateTime)
        | (ColumnType::Timestamp { .. }, WireType::Timestamp) => true,
        (ColumnType::Uuid | ColumnType::Inet6, WireType::String { length }) => length == 16,
        (ColumnType::Inet4, WireType::String { length }) => length == 4,
        // MariaDB
        (ColumnType::Vector { dimensions }, WireType::VarChar { length }) => {
            u64::from(*dimensions) * 4 == u64::from(length)
        }
        (ColumnType::Char { length, charset }, WireType::String { length: log })
        | (ColumnType::VarChar { length, charset }, WireType::VarChar { length: log }) => {
            in_bytes(*length, &charset.name, log)
        }
        (ColumnType::Binary { length }, WireType::String { length: log })
        | (ColumnType::VarBinary { length }, WireType::VarChar { length: log }) => *length == u32::from(log),
        // one byte more, see `VarCharCompressed`
        (ColumnType::VarChar { length, charset }, WireType::VarCharCompressed { length: log @ 1.. }) => {
            in_bytes(*length, &charset.name, log - 1)
        }
        (ColumnType::VarBinary { length }, WireType::VarCharCompressed { length: log @ 1.. }) => {
            *length == u32::from(log - 1)
        }
        (
            ColumnType::Text { size, .. } | ColumnType::Blob { size },
            WireType::Blob { width } | WireType::BlobCompressed { width },
        ) => {
            width
                == match size {
                    LobSize::Tiny => LengthWidth::One,
                    LobSize::Normal => LengthWidth::Two,
                    LobSize::Medium => LengthWidth::Three,
                    LobSize::Long => LengthWidth::Four,
                }
        }
        (ColumnType::Enum { labels, .. }, WireType::Enum { bytes }) => {
            enum_set::enum_bytes(labels.len()) == bytes
        }
        (ColumnType::Set { labels, .. }, WireType::Set { bytes }) => {
            enum_set::set_bytes(labels.len()) == bytes
        }
        _ => false,
    }
}

/// `None` for a type that has no sign, YEAR among them: the log calls it unsigned.
fn is_unsigned(ty: &ColumnType) -> Option<bool> {
    match ty {
        ColumnType::Int { unsigned, .. }
        | ColumnType::Decimal { unsigned, .. }
        | ColumnType::Float { unsigned }
        | ColumnType::Double { unsigned } => Some(*unsigned),
        _ => None,
    }
}

/// The character set that the log should name for a column of this type.
fn charset_name(ty: &ColumnType) -> Option<&str> {
    match ty {
        ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob { .. }
        | ColumnType::Uuid
        | ColumnType::Inet4
        | ColumnType::Inet6
        | ColumnType::Vector { .. } => Some("binary"),
        _ => ty.charset().map(|charset| &*charset.name),
    }
}

/// The character set of a collation; `None` if the number is not known.
pub(super) fn charset_of(collation: u16) -> Option<&'static str> {
    if collation == BINARY_COLLATION {
        return Some("binary");
    }
    // MariaDB's own numbers (all of 10.11.19 and 11.8.9 were compared)
    let collation = match collation {
        // uca1400: the collations of a character set fill 256 numbers
        0x800..0xd00 => {
            return Some(["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"][usize::from((collation >> 8) - 8)]);
        }
        // a NO PAD collation is its sibling's number and 1024
        1024..0x800 => collation - 1024,
        _ => collation,
    };
    // Croatian, Burmese and Thai
    match collation >> 5 {
        18 => return Some("utf8mb3"),
        19 => return Some("utf8mb4"),
        20 => return Some("ucs2"),
        21 => return Some("utf16"),
        23 => return Some("utf32"),
        _ => {}
    }
    let id = CollationId::from(collation);
    match id {
        CollationId::UNKNOWN_COLLATION_ID => None,
        _ => charset(Collation::resolve(id).charset).map(|info| info.name),
    }
}

/// `utf8` is another name of `utf8mb3`.
fn canonical(name: &str) -> &str {
    charset(name).map_or(name, |info| info.name)
}

/// Labels in UTF-8; `None` if we cannot decode them, in which case they are not compared.
fn decoded(members: &[Vec<u8>], charset: &str) -> Option<Vec<String>> {
    let codec = charset::charset(charset)?.codec()?;
    let mut scratch = String::new();
    members.iter().map(|m| codec.decode(m, &mut scratch).map(str::to_owned).ok()).collect()
}

pub(super) fn geometry_kind(code: u64) -> Option<&'static str> {
    Some(match code {
        0 => "geometry",
        1 => "point",
        2 => "linestring",
        3 => "polygon",
        4 => "multipoint",
        5 => "multilinestring",
        6 => "multipolygon",
        7 => "geomcollection",
        _ => return None,
    })
}

/// In the words of SQL as far as the log knows them: lengths are in bytes.
impl fmt::Display for WireType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blob = |width: LengthWidth| match width {
            LengthWidth::One => "tinyblob or tinytext",
            LengthWidth::Two => "blob or text",
            LengthWidth::Three => "mediumblob or mediumtext",
            LengthWidth::Four => "longblob or longtext",
        };
        match self {
            WireType::Tiny => f.write_str("tinyint"),
            WireType::Short => f.write_str("smallint"),
            WireType::Int24 => f.write_str("mediumint"),
            WireType::Long => f.write_str("int"),
            WireType::LongLong => f.write_str("bigint"),
            WireType::Float => f.write_str("float"),
            WireType::Double => f.write_str("double"),
            WireType::NewDecimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            WireType::Year => f.write_str("year"),
            WireType::Date => f.write_str("date"),
            WireType::Time => f.write_str("time in the layout before MySQL 5.6"),
            WireType::DateTime => f.write_str("datetime in the layout before MySQL 5.6"),
            WireType::Timestamp => f.write_str("timestamp in the layout before MySQL 5.6"),
            WireType::Time2 { fsp } => write!(f, "time({fsp})"),
            WireType::DateTime2 { fsp } => write!(f, "datetime({fsp})"),
            WireType::Timestamp2 { fsp } => write!(f, "timestamp({fsp})"),
            WireType::String { length } => write!(f, "char or binary of {length} bytes"),
            WireType::VarChar { length } => write!(f, "varchar or varbinary of {length} bytes"),
            WireType::VarCharCompressed { length } => {
                write!(f, "compressed varchar or varbinary of {} bytes", length.saturating_sub(1))
            }
            WireType::BlobCompressed { width } => write!(f, "compressed {}", blob(*width)),
            WireType::Blob { width } => f.write_str(blob(*width)),
            WireType::Enum { bytes } => write!(f, "enum of {bytes} bytes"),
            WireType::Set { bytes } => write!(f, "set of {bytes} bytes"),
            WireType::Bit { width } => write!(f, "bit({width})"),
            WireType::Json { .. } => f.write_str("json"),
            WireType::Geometry { .. } => f.write_str("geometry"),
            WireType::Vector { .. } => f.write_str("vector"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, TableId};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// `shop.t (id INT UNSIGNED PRIMARY KEY, name VARCHAR(20) utf8mb4 NULL, y YEAR, e ENUM('a','ç'))` with
    /// full metadata.
    fn body() -> Vec<u8> {
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
        body.extend(b"\x04shop\0\x01t\0");
        body.extend([4, code::LONG, code::VARCHAR, code::YEAR, code::STRING]);
        body.extend([4, 80, 0, code::ENUM, 1]);
        body.push(0b1110);
        body.extend([field::SIGNEDNESS, 1, 0b1100_0000]);
        body.extend([field::DEFAULT_CHARSET, 3, 0xfc, 255, 0]);
        body.extend(b"\x04\x0c\x02id\x04name\x01y\x01e");
        body.extend([field::ENUM_STR_VALUE, 6, 2, 1, b'a', 2, 0xc3, 0xa7]);
        body.extend([field::ENUM_AND_SET_DEFAULT_CHARSET, 3, 0xfc, 255, 0]);
        body.extend([field::SIMPLE_PRIMARY_KEY, 1, 0]);
        body.extend([field::COLUMN_VISIBILITY, 1, 0xf0]);
        body.extend([99, 2, 1, 1]);
        body
    }

    fn schema() -> TableSchema {
        let labels = ["a".into(), "ç".into()].into();
        TableSchema {
            id: TableId::new("shop", "t"),
            version: 1,
            columns: vec![
                Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: true }).not_null(),
                Column::new("name", ColumnType::VarChar { length: 20, charset: Charset::utf8mb4() }),
                Column::new("y", ColumnType::Year),
                Column::new("e", ColumnType::Enum { labels, charset: Charset::utf8mb4() }),
            ],
            primary_key: vec![0],
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        }
    }

    #[test]
    fn everything_that_the_event_says_is_read() {
        let map = TableMap::parse(&body()).unwrap();
        assert_eq!((map.table_id, map.flags), (7, 1));
        assert_eq!((&*map.database, &*map.table), ("shop", "t"));
        assert_eq!(
            map.columns.iter().map(|c| c.ty).collect::<Vec<_>>(),
            [WireType::Long, WireType::VarChar { length: 80 }, WireType::Year, WireType::Enum { bytes: 1 }]
        );
        assert_eq!(map.columns.iter().map(|c| c.nullable).collect::<Vec<_>>(), [false, true, true, true]);
        assert_eq!(map.columns[0].unsigned, Some(true));
        assert_eq!(map.columns[2].unsigned, Some(true), "YEAR has a bit of its own");
        assert_eq!(map.columns[1].collation, Some(255));
        assert_eq!(map.columns[3].collation, Some(255));
        assert_eq!(map.columns[3].members, Some(vec![b"a".to_vec(), "ç".into()]));
        assert_eq!(map.columns[1].name.as_deref(), Some("name"));
        assert_eq!(map.columns[1].visible, Some(true));
        assert_eq!(map.primary_key, Some(vec![(0, 0)]));
        assert_eq!(TableMap::parse_names(&body()).unwrap(), (7, "shop", "t"));
    }

    #[test]
    fn a_structure_that_fits_passes() {
        TableMap::parse(&body()).unwrap().check(&schema()).unwrap();
    }

    #[test]
    fn a_structure_that_differs_is_refused_with_both_sides() {
        let map = TableMap::parse(&body()).unwrap();
        let check = |change: &dyn Fn(&mut TableSchema), words: &[&str]| {
            let mut schema = schema();
            change(&mut schema);
            let error = map.check(&schema).unwrap_err();
            assert_eq!(error.code(), codes::STRUCTURE_DIFFERS);
            let text = error.to_string();
            for word in words.iter().chain(&["\"shop.t\""]) {
                assert!(text.contains(word), "{word} in {text}");
            }
        };
        check(&|s| s.columns.truncate(3), &["4 columns", "but 3"]);
        check(&|s| s.columns.swap(1, 2), &["\"name\"", "\"y\""]);
        check(
            &|s| s.columns[0].ty = ColumnType::Int { width: IntWidth::Big, unsigned: true },
            &["\"id\"", "int", "bigint unsigned"],
        );
        check(
            &|s| s.columns[0].ty = ColumnType::Int { width: IntWidth::Int, unsigned: false },
            &["unsigned", "signed"],
        );
        check(&|s| s.columns[1].nullable = false, &["nullable", "not null"]);
        check(
            &|s| s.columns[1].ty = ColumnType::VarChar { length: 19, charset: Charset::utf8mb4() },
            &["80 bytes", "varchar(19)"],
        );
        check(
            &|s| {
                s.columns[1].ty = ColumnType::VarChar { length: 80, charset: Charset::new("latin1", "") };
            },
            &["\"utf8mb4\"", "\"latin1\""],
        );
        check(
            &|s| {
                let labels = ["ç".into(), "a".into()].into();
                s.columns[3].ty = ColumnType::Enum { labels, charset: Charset::utf8mb4() };
            },
            &["enum('ç','a')"],
        );
        check(&|s| s.primary_key = vec![2], &["(id)", "(y)"]);
    }

    #[test]
    fn the_length_of_a_long_char_hides_in_its_type() {
        let mut metadata = Bytes(&[0xee, 0xfc]);
        assert_eq!(read_type(code::STRING, &mut metadata).unwrap(), Some(WireType::String { length: 508 }));
        let mut metadata = Bytes(&[0xfe, 0x28]);
        assert_eq!(read_type(code::STRING, &mut metadata).unwrap(), Some(WireType::String { length: 40 }));
        // CHAR(255) of utf8mb4: 1020 bytes
        let mut metadata = Bytes(&[0xce, 0xfc]);
        assert_eq!(read_type(code::STRING, &mut metadata).unwrap(), Some(WireType::String { length: 1020 }));
    }

    fn hex(s: &str) -> Vec<u8> {
        (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
    }

    /// An event of table `t.t` with these columns (their count and all behind), and a structure of these types.
    fn mariadb(columns: &str, types: Vec<ColumnType>) -> (TableMap, TableSchema) {
        let body = [&[7, 0, 0, 0, 0, 0, 1, 0][..], b"\x01t\0\x01t\0", &hex(columns)].concat();
        let columns = types.into_iter().enumerate().map(|(i, ty)| Column::new(format!("c{i}"), ty));
        let mut columns: Vec<_> = columns.collect();
        columns[0].nullable = false;
        let schema = TableSchema { id: TableId::new("t", "t"), columns, ..schema() };
        (TableMap::parse(&body).unwrap(), schema)
    }

    fn int() -> ColumnType {
        ColumnType::Int { width: IntWidth::Int, unsigned: false }
    }

    /// As 10.11.19 and 11.8.9 log them, without the columns' names.
    #[test]
    fn compressed_columns_of_mariadb() {
        let text = |name: &str, length| ColumnType::VarChar { length, charset: Charset::new(name, "") };
        let lob = |name: &str, size| ColumnType::Text { size, charset: Charset::new(name, "") };
        let types = vec![
            int(),
            text("utf8mb4", 500),
            text("latin1", 255),
            text("latin1", 254),
            lob("utf8mb4", LobSize::Normal),
            ColumnType::Blob { size: LobSize::Normal },
            lob("latin1", LobSize::Tiny),
            lob("ucs2", LobSize::Medium),
        ];
        for charsets in ["072d08082d3f0823", "0ffc00090808fc00093ffc0009fc000a"] {
            let columns = format!("08038d8d8d8c8c8c8c0ad1070001ff0002020103fe01010003{charsets}080100");
            let mut types = types.clone();
            if charsets.starts_with("0f") {
                types[6] = lob("utf8mb4", LobSize::Tiny);
            }
            let (map, mut schema) = mariadb(&columns, types);
            assert_eq!(map.columns[1].ty, WireType::VarCharCompressed { length: 2001 });
            assert_eq!(map.columns[7].ty, WireType::BlobCompressed { width: LengthWidth::Three });
            map.check(&schema).unwrap();
            schema.columns[3].ty = text("latin1", 253);
            let error = map.check(&schema).unwrap_err().to_string();
            assert!(error.contains("compressed varchar or varbinary of 254 bytes"), "{error}");
        }
    }

    /// `c1 UUID, c2 INET4, c3 CHAR(16), c4 INET6, c5 BINARY(16), c6 VARCHAR(5)`, then two VECTORs of 11.8.9.
    #[test]
    fn identifiers_addresses_and_vectors_of_mariadb() {
        let types = vec![
            ColumnType::Int { width: IntWidth::Int, unsigned: true },
            ColumnType::Uuid,
            ColumnType::Inet4,
            ColumnType::Char { length: 16, charset: Charset::utf8mb4() },
            ColumnType::Inet6,
            ColumnType::Binary { length: 16 },
            ColumnType::VarChar { length: 5, charset: Charset::new("latin1", "") },
        ];
        let columns = "0703fefefefefe0f0cfe10fe04fe40fe10fe1005007e01018002053f022d0508080100";
        let (map, mut schema) = mariadb(columns, types);
        assert_eq!((map.columns[1].collation, map.columns[3].collation), (Some(63), Some(45)));
        map.check(&schema).unwrap();
        schema.columns[1].ty = ColumnType::Inet4;
        assert_eq!(map.check(&schema).unwrap_err().code(), codes::STRUCTURE_DIFFERS);

        let vector = |dimensions| ColumnType::Vector { dimensions };
        let columns = "04030f0f0f060c000c0000010e01010002013f080100";
        let (map, mut schema) = mariadb(columns, vec![int(), vector(3), vector(3), vector(64)]);
        map.check(&schema).unwrap();
        schema.columns[3].ty = vector(63);
        assert_eq!(map.check(&schema).unwrap_err().code(), codes::STRUCTURE_DIFFERS);
    }

    /// `id INT PRIMARY KEY, g POINT, ge GEOMETRY, v VARCHAR(5) utf8mb4, w VARCHAR(5) latin1, b BLOB`.
    #[test]
    fn spatial_columns_have_a_character_set_on_mariadb_alone() {
        let types = || {
            let varchar = |name: &str| ColumnType::VarChar { length: 5, charset: Charset::new(name, "") };
            let geometry = |kind: &str| ColumnType::Geometry { kind: kind.into(), srid: None };
            vec![
                int(),
                geometry("point"),
                geometry("geometry"),
                varchar("utf8mb4"),
                varchar("latin1"),
                ColumnType::Blob { size: LobSize::Normal },
            ]
        };
        let head = "0603ffff0f0ffc07040414000500023e010100";
        let names = "040e0269640167026765017601770162080100";
        for (fields, known) in [
            // 9.7.4, 10.11.19 and 11.8.9 with full metadata
            (format!("0305fcff00083f07020100{names}0c01fc"), [None, Some(255), Some(8), Some(63)]),
            (format!("02053f022d030807020100{names}"), [Some(63), Some(45), Some(8), Some(63)]),
            (format!("02073f02fc0009030807020100{names}"), [Some(63), Some(2304), Some(8), Some(63)]),
            // with minimal metadata
            ("0305fcff00083f07020100".to_owned(), [None; 4]),
            ("02053f022d030807020100".to_owned(), [None; 4]),
        ] {
            let (map, schema) = mariadb(&format!("{head}{fields}"), types());
            let read: Vec<_> = map.columns[2..].iter().map(|c| c.collation).collect();
            assert_eq!(read, known, "{fields}");
            let named = map.columns[0].name.is_some();
            let mut schema = schema;
            for (column, name) in schema.columns.iter_mut().zip(["id", "g", "ge", "v", "w", "b"]) {
                if named {
                    column.name = name.into();
                }
            }
            map.check(&schema).unwrap();
        }
    }

    #[test]
    fn collations_of_mariadb_have_their_character_sets() {
        for (collation, charset) in [
            (2304, "utf8mb4"),
            (2048, "utf8mb3"),
            (3271, "utf32"),
            (1070, "utf8mb4"),
            (1071, "latin1"),
            (1111, "gbk"),
            (576, "utf8mb3"),
            (608, "utf8mb4"),
            (1232, "utf8mb3"),
            (736, "utf32"),
            (45, "utf8mb4"),
            (63, "binary"),
        ] {
            assert_eq!(charset_of(collation), Some(charset), "{collation}");
        }
        for collation in 0..=u16::MAX {
            charset_of(collation);
        }
    }

    #[test]
    fn torn_events_are_corrupt() {
        let whole = body();
        for n in 0..whole.len() {
            // cut between two optional fields, the event is whole
            if let Err(error) = TableMap::parse(&whole[..n]) {
                assert_eq!(error.code(), codes::LOG_CORRUPT);
            }
        }
        let mut unknown = body();
        unknown[18] = 200;
        assert_eq!(TableMap::parse(&unknown).unwrap_err().code(), codes::TYPE_UNSUPPORTED);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = StdRng::seed_from_u64(2);
        for _ in 0..100_000 {
            let mut bytes = body();
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random_range(0..=255);
            }
            if let Ok(map) = TableMap::parse(&bytes) {
                let _ = map.check(&schema());
            }
            let noise: Vec<u8> = (0..rng.random_range(0..80)).map(|_| rng.random()).collect();
            let _ = TableMap::parse(&noise);
            let _ = TableMap::parse_names(&noise);
        }
    }
}
