//! The shape of a table at one moment.

use std::fmt;
use std::sync::Arc;

/// Database and table, as the server spells them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TableId {
    /// The database (MySQL's schema).
    pub database: Arc<str>,
    /// The table.
    pub table: Arc<str>,
}

impl TableId {
    /// `database.table`.
    pub fn new(database: impl Into<Arc<str>>, table: impl Into<Arc<str>>) -> TableId {
        TableId { database: database.into(), table: table.into() }
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // a view has no database
        if self.database.is_empty() {
            return f.write_str(&self.table);
        }
        write!(f, "{}.{}", self.database, self.table)
    }
}

/// Counts the shapes of one table from 1, in the order of the log. 0: not yet numbered.
pub type SchemaVersion = u32;

/// A table: its columns in their order, and its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TableSchema {
    /// Which table.
    pub id: TableId,
    /// Which shape of it.
    pub version: SchemaVersion,
    /// In the order of the table.
    pub columns: Vec<Column>,
    /// Indexes into `columns`, in key order; empty if there is no primary key.
    pub primary_key: Vec<usize>,
    /// The other unique keys, each as its columns in key order. One over an expression or a prefix of a
    /// column does not identify a row by stored values and is not listed.
    pub unique_keys: Vec<Vec<usize>>,
    /// What a column without a character set of its own gets.
    pub charset: Charset,
    /// The table's comment.
    pub comment: String,
}

impl TableSchema {
    /// The columns that identify a row: the primary key, else the first unique key whose columns are all
    /// not null; `None` if the table is a multiset.
    pub fn key(&self) -> Option<&[usize]> {
        if !self.primary_key.is_empty() {
            return Some(&self.primary_key);
        }
        self.unique_keys.iter().find(|key| key.iter().all(|&i| !self.columns[i].nullable)).map(Vec::as_slice)
    }

    /// The index of a column; names compare without regard to letter case, as in MySQL.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| same_name(&c.name, name))
    }
}

/// Column names are equal without regard to letter case (MySQL manual 11.2.3).
pub fn same_name(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Column {
    /// As the table spells it.
    pub name: Arc<str>,
    /// Its type.
    pub ty: ColumnType,
    /// May it hold NULL?
    pub nullable: bool,
    /// The text after DEFAULT, as the server prints it: `NULL`, a quoted literal, a number, an expression.
    pub default: Option<String>,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// `Some` for a generated column.
    pub generated: Option<Generated>,
    /// Left out by `SELECT *`.
    pub invisible: bool,
    /// The column's comment.
    pub comment: String,
}

impl Column {
    /// A nullable column with nothing else said about it.
    pub fn new(name: impl Into<Arc<str>>, ty: ColumnType) -> Column {
        Column {
            name: name.into(),
            ty,
            nullable: true,
            default: None,
            auto_increment: false,
            generated: None,
            invisible: false,
            comment: String::new(),
        }
    }

    /// The same column, NOT NULL.
    pub fn not_null(mut self) -> Column {
        self.nullable = false;
        self
    }
}

/// How a generated column is made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Generated {
    /// The expression, as the server prints it.
    pub expression: String,
    /// STORED, else VIRTUAL. A virtual column is in row images all the same.
    pub stored: bool,
}

/// A character set and a collation of it, by the server's names, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Charset {
    /// `utf8mb4`, `latin1`, `binary`, ...
    pub name: Arc<str>,
    /// `utf8mb4_0900_ai_ci`, ...; empty where nothing but the character set is known.
    pub collation: Arc<str>,
}

impl Charset {
    /// A character set with a collation.
    pub fn new(name: impl Into<Arc<str>>, collation: impl Into<Arc<str>>) -> Charset {
        Charset { name: name.into(), collation: collation.into() }
    }

    /// `utf8mb4` with the default collation of MySQL 8 and later.
    pub fn utf8mb4() -> Charset {
        Charset::new("utf8mb4", "utf8mb4_0900_ai_ci")
    }
}

/// Bytes of an integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum IntWidth {
    /// TINYINT, 1 byte.
    Tiny,
    /// SMALLINT, 2 bytes.
    Small,
    /// MEDIUMINT, 3 bytes.
    Medium,
    /// INT, 4 bytes.
    Int,
    /// BIGINT, 8 bytes.
    Big,
}

/// The four sizes of the TEXT and BLOB families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LobSize {
    /// Up to 255 bytes.
    Tiny,
    /// Up to 65,535 bytes.
    Normal,
    /// Up to 16 MiB.
    Medium,
    /// Up to 4 GiB.
    Long,
}

impl LobSize {
    /// The most bytes of a value.
    pub fn max_bytes(self) -> u64 {
        match self {
            LobSize::Tiny => 0xff,
            LobSize::Normal => 0xffff,
            LobSize::Medium => 0xff_ffff,
            LobSize::Long => 0xffff_ffff,
        }
    }
}

/// The type of a column (MySQL manual chapter 13).
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ColumnType {
    /// TINYINT, SMALLINT, MEDIUMINT, INT, BIGINT.
    Int {
        /// Its size.
        width: IntWidth,
        /// UNSIGNED (ZEROFILL implies it).
        unsigned: bool,
    },
    /// DECIMAL(precision, scale).
    Decimal {
        /// Digits in all, 1 to 65.
        precision: u8,
        /// Digits after the dot, 0 to 30; 0 to 38 on MariaDB.
        scale: u8,
        /// UNSIGNED.
        unsigned: bool,
    },
    /// FLOAT.
    Float {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// DOUBLE.
    Double {
        /// UNSIGNED.
        unsigned: bool,
    },
    /// BIT(width).
    Bit {
        /// 1 to 64.
        width: u8,
    },
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// TIME(fsp).
    Time {
        /// Digits of fraction, 0 to 6.
        fsp: u8,
    },
    /// DATETIME(fsp).
    DateTime {
        /// Digits of fraction, 0 to 6.
        fsp: u8,
    },
    /// TIMESTAMP(fsp).
    Timestamp {
        /// Digits of fraction, 0 to 6.
        fsp: u8,
    },
    /// CHAR(length).
    Char {
        /// In characters, 0 to 255.
        length: u32,
        /// Its character set.
        charset: Charset,
    },
    /// VARCHAR(length).
    VarChar {
        /// In characters.
        length: u32,
        /// Its character set.
        charset: Charset,
    },
    /// TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT.
    Text {
        /// Which of them.
        size: LobSize,
        /// Its character set.
        charset: Charset,
    },
    /// BINARY(length).
    Binary {
        /// In bytes.
        length: u32,
    },
    /// VARBINARY(length).
    VarBinary {
        /// In bytes.
        length: u32,
    },
    /// TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB.
    Blob {
        /// Which of them.
        size: LobSize,
    },
    /// ENUM('a', 'b', ...).
    Enum {
        /// The members, as UTF-8.
        labels: Arc<[Arc<str>]>,
        /// Its character set.
        charset: Charset,
    },
    /// SET('a', 'b', ...).
    Set {
        /// The members, as UTF-8.
        labels: Arc<[Arc<str>]>,
        /// Its character set.
        charset: Charset,
    },
    /// JSON.
    Json,
    /// GEOMETRY, POINT, ...
    Geometry {
        /// The type's word in lower case: `geometry`, `point`, `linestring`, `polygon`, `multipoint`,
        /// `multilinestring`, `multipolygon`, `geomcollection`.
        kind: Arc<str>,
        /// The SRID attribute.
        srid: Option<u32>,
    },
    /// VECTOR(dimensions).
    Vector {
        /// The most floats a value may have; on MariaDB all have so many.
        dimensions: u32,
    },
    /// MariaDB's UUID; a value is its text, see [`crate::address`].
    Uuid,
    /// MariaDB's INET4; a value is its text.
    Inet4,
    /// MariaDB's INET6; a value is its text.
    Inet6,
}

impl ColumnType {
    /// The character set of a text type.
    pub fn charset(&self) -> Option<&Charset> {
        match self {
            ColumnType::Char { charset, .. }
            | ColumnType::VarChar { charset, .. }
            | ColumnType::Text { charset, .. }
            | ColumnType::Enum { charset, .. }
            | ColumnType::Set { charset, .. } => Some(charset),
            _ => None,
        }
    }
}

/// As in `information_schema.COLUMNS.COLUMN_TYPE` (MySQL 8 and later: no display widths), without the
/// character set.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn fsp(f: &mut fmt::Formatter<'_>, word: &str, digits: u8) -> fmt::Result {
            if digits == 0 { f.write_str(word) } else { write!(f, "{word}({digits})") }
        }
        fn members(f: &mut fmt::Formatter<'_>, word: &str, labels: &[Arc<str>]) -> fmt::Result {
            write!(f, "{word}(")?;
            for (i, label) in labels.iter().enumerate() {
                let comma = if i > 0 { "," } else { "" };
                write!(f, "{comma}'{}'", label.replace('\'', "''"))?;
            }
            f.write_str(")")
        }
        fn sized(f: &mut fmt::Formatter<'_>, size: LobSize, word: &str) -> fmt::Result {
            let prefix = match size {
                LobSize::Tiny => "tiny",
                LobSize::Normal => "",
                LobSize::Medium => "medium",
                LobSize::Long => "long",
            };
            write!(f, "{prefix}{word}")
        }
        let sign = |unsigned: &bool| if *unsigned { " unsigned" } else { "" };
        match self {
            ColumnType::Int { width, unsigned } => {
                let word = match width {
                    IntWidth::Tiny => "tinyint",
                    IntWidth::Small => "smallint",
                    IntWidth::Medium => "mediumint",
                    IntWidth::Int => "int",
                    IntWidth::Big => "bigint",
                };
                write!(f, "{word}{}", sign(unsigned))
            }
            ColumnType::Decimal { precision, scale, unsigned } => {
                write!(f, "decimal({precision},{scale}){}", sign(unsigned))
            }
            ColumnType::Float { unsigned } => write!(f, "float{}", sign(unsigned)),
            ColumnType::Double { unsigned } => write!(f, "double{}", sign(unsigned)),
            ColumnType::Bit { width } => write!(f, "bit({width})"),
            ColumnType::Year => f.write_str("year"),
            ColumnType::Date => f.write_str("date"),
            ColumnType::Time { fsp: n } => fsp(f, "time", *n),
            ColumnType::DateTime { fsp: n } => fsp(f, "datetime", *n),
            ColumnType::Timestamp { fsp: n } => fsp(f, "timestamp", *n),
            ColumnType::Char { length, .. } => write!(f, "char({length})"),
            ColumnType::VarChar { length, .. } => write!(f, "varchar({length})"),
            ColumnType::Text { size, .. } => sized(f, *size, "text"),
            ColumnType::Binary { length } => write!(f, "binary({length})"),
            ColumnType::VarBinary { length } => write!(f, "varbinary({length})"),
            ColumnType::Blob { size } => sized(f, *size, "blob"),
            ColumnType::Enum { labels, .. } => members(f, "enum", labels),
            ColumnType::Set { labels, .. } => members(f, "set", labels),
            ColumnType::Json => f.write_str("json"),
            ColumnType::Geometry { kind, .. } => f.write_str(kind),
            ColumnType::Vector { dimensions } => write!(f, "vector({dimensions})"),
            ColumnType::Uuid => f.write_str("uuid"),
            ColumnType::Inet4 => f.write_str("inet4"),
            ColumnType::Inet6 => f.write_str("inet6"),
        }
    }
}
