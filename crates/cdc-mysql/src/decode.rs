//! Wire bytes to packed rows.
//!
//! Two ways lead to a value: the log's row images ([`crate::binlog::rows`]) and the result sets of the
//! binary protocol that the snapshot reads ([`result`]). Both must give the *same* bytes for the same stored
//! value, because a row from a chunk is compared, overlaid and retracted by what the log says of it. So each
//! kind of value has one module here, and what is particular to it (the canonical text of a DECIMAL, the
//! trailing spaces of a CHAR, the label of an ENUM, the bytes of a character set) is decided there once, for
//! both ways.
//!
//! What a side does to a value on its way, and what is done about it:
//!
//! | type | the log | the snapshot | here |
//! |---|---|---|---|
//! | BINARY(n) | trims trailing 0x00 | all n bytes | padded to n |
//! | CHAR(n) | trims trailing spaces | trims them too, unless PAD_CHAR_TO_FULL_LENGTH | trimmed |
//! | DECIMAL | packed digits | text, zero-filled if the column is | canonical text |
//! | ENUM, SET | number | `CAST(.. AS UNSIGNED)`, because the text cannot tell index 0 from a member `''` | number, and labels by our structure |
//! | text | bytes of the column's character set | the same bytes, with `character_set_results = NULL` | UTF-8 |
//! | JSON | binary JSON | text | the server's text |
//! | FLOAT | 4 bytes | 4 bytes in the binary protocol (six digits as text) | as is |
//! | TIMESTAMP | seconds since 1970 | digits, with `time_zone = '+00:00'` | microseconds since 1970 |
//! | UUID, INET4, INET6 | bytes, trailing 0x00 trimmed | text | the server's text |
//! | COMPRESSED columns | compressed | the value | the value |
//! | BIT | big endian bytes | big endian bytes | number |
//!
//! Nothing here panics, whatever the bytes: a value that cannot be is a [`Flaw`], which the caller turns into
//! an error that names table, column and row.

pub mod address;
pub mod bit;
pub mod bytes;
pub mod charset;
pub mod compressed;
pub mod default;
pub mod enum_set;
pub mod geometry;
pub mod json;
pub mod number;
pub mod result;
pub mod temporal;
pub mod text;

use cdc_core::diagnostic::codes;
use cdc_core::error::Error;
use cdc_core::schema::{Column, TableId, TableSchema};

/// What is wrong with the bytes of a value, before it is said where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// The bytes end inside the value, or a length points past their end.
    Truncated,
    /// The bytes are all there and have no value.
    Undecodable(Box<str>),
}

impl Flaw {
    /// A value that cannot be, and why.
    #[cold]
    pub fn undecodable(why: impl Into<Box<str>>) -> Flaw {
        Flaw::Undecodable(why.into())
    }

    /// The error of a value in a row image; rows count from 1 within their event.
    #[cold]
    pub(crate) fn in_event(self, table: &TableSchema, column: usize, row: usize) -> Error {
        let id = &table.id;
        match (self, table.columns.get(column)) {
            (Flaw::Truncated, Some(Column { name, .. })) => Error::definite(
                codes::LOG_CORRUPT,
                format!("row event of table \"{id}\" ends inside column \"{name}\" of row {row}"),
            ),
            (Flaw::Undecodable(why), Some(Column { name, ty, .. })) => Error::definite(
                codes::VALUE_UNDECODABLE,
                format!("column \"{name}\" of table \"{id}\" holds a value that cannot be decoded: {why}"),
            )
            .note(format!("row {row} of the event; the column's type is {ty}")),
            (_, None) => Error::definite(
                codes::LOG_CORRUPT,
                format!("row event of table \"{id}\" ends inside the head of row {row}"),
            ),
        }
    }

    /// The error of a value in a result set.
    #[cold]
    pub(crate) fn in_result(self, table: &TableSchema, column: usize) -> Error {
        let why = match self {
            Flaw::Truncated => "its bytes end too early".into(),
            Flaw::Undecodable(why) => why,
        };
        let (name, ty) = match table.columns.get(column) {
            Some(Column { name, ty, .. }) => (&**name, ty.to_string()),
            None => ("", String::new()),
        };
        Error::definite(
            codes::VALUE_UNDECODABLE,
            format!(
                "column \"{name}\" of table \"{}\" holds a value that cannot be decoded: {why}",
                table.id
            ),
        )
        .note(format!("read by SELECT; the column's type is {ty}"))
    }
}

/// The error of a column whose character set is not known, or whose table was not asked for in time.
#[cold]
pub(crate) fn charset_unsupported(table: &TableId, column: &Column, charset: &str) -> Error {
    Error::definite(
        codes::CHARSET_UNSUPPORTED,
        format!(
            "column \"{}\" of table \"{table}\" has the character set \"{charset}\", which is not supported yet",
            column.name
        ),
    )
    .help(format!("leave the column out, or convert it: ALTER TABLE {table} MODIFY .. CHARACTER SET utf8mb4"))
}

/// Does the key by which the rows of this table are told apart hold the column?
pub(crate) fn in_key(table: &TableSchema, column: usize) -> bool {
    table.key().is_some_and(|key| key.contains(&column))
}
