//! What a statement's meaning depends on besides its text.

use super::charset;
use super::versioning::{HistoryPartitions, Period, Versioning};
use cdc_core::{Charset, TableId, TableSchema};
use std::sync::Arc;

/// The parts of `sql_mode` that change how DDL is read (manual 7.1.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqlMode {
    /// `"x"` is a name.
    pub ansi_quotes: bool,
    /// `\` is a letter like others.
    pub no_backslash_escapes: bool,
    /// REAL is FLOAT, not DOUBLE.
    pub real_as_float: bool,
    /// MariaDB's Oracle mode: other words for types, DATE is DATETIME.
    pub oracle: bool,
}

impl SqlMode {
    /// From the number in a query event's status variables (`Q_SQL_MODE_CODE`).
    pub fn from_bits(bits: u64) -> SqlMode {
        SqlMode {
            real_as_float: bits & 1 != 0,
            ansi_quotes: bits & (1 << 2) != 0,
            oracle: bits & (1 << 9) != 0,
            no_backslash_escapes: bits & (1 << 20) != 0,
        }
    }

    /// From the words of `@@sql_mode`.
    pub fn from_names(names: &str) -> SqlMode {
        let has = |word: &str| names.split(',').any(|n| n.trim().eq_ignore_ascii_case(word));
        SqlMode {
            ansi_quotes: has("ANSI_QUOTES") || has("ANSI"),
            no_backslash_escapes: has("NO_BACKSLASH_ESCAPES"),
            real_as_float: has("REAL_AS_FLOAT") || has("ANSI"),
            oracle: has("ORACLE"),
        }
    }
}

/// The session and server a statement ran in: from its event's status variables and the server's settings.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// The current database: where names without one live.
    pub database: Option<&'a str>,
    /// The session's `sql_mode`.
    pub sql_mode: SqlMode,
    /// `collation_server`: what CREATE DATABASE without a character set takes.
    pub server_charset: Charset,
    /// The session's `default_collation_for_utf8mb4`; the server's own default if it is not told.
    pub utf8mb4_collation: Option<Arc<str>>,
    /// `explicit_defaults_for_timestamp`: without it TIMESTAMP is NOT NULL by itself.
    pub explicit_timestamp: bool,
    /// MariaDB, else MySQL.
    pub mariadb: bool,
    /// As in version comments: 80400 is 8.4.0, 101119 is MariaDB 10.11.19.
    pub version: u32,
    /// The server's `lower_case_table_names`: 0 as typed, 1 in lower case, 2 as typed and compared without
    /// regard to case.
    pub lower_case_table_names: u8,
}

impl<'a> Context<'a> {
    /// A MySQL server of this version with its own defaults.
    pub fn mysql(version: u32) -> Context<'a> {
        Context::new(false, version)
    }

    /// A MariaDB server of this version with its own defaults.
    pub fn mariadb(version: u32) -> Context<'a> {
        Context::new(true, version)
    }

    fn new(mariadb: bool, version: u32) -> Context<'a> {
        let name = match (mariadb, version) {
            (false, 80000..) | (true, 110600..) => "utf8mb4",
            _ => "latin1",
        };
        Context {
            database: None,
            sql_mode: SqlMode::default(),
            server_charset: charset::default_of(name, mariadb, version),
            utf8mb4_collation: None,
            explicit_timestamp: if mariadb { version >= 101000 } else { version >= 80000 },
            mariadb,
            version,
            lower_case_table_names: 0,
        }
    }

    /// The same server with this current database.
    pub fn in_database(mut self, database: &'a str) -> Context<'a> {
        self.database = Some(database);
        self
    }
}

/// What is known of the source's tables in front of a statement.
pub trait Structures {
    /// The table's structure; `None` if the table is not there or not followed.
    fn table(&self, id: &TableId) -> Option<Arc<TableSchema>>;

    /// The tables known in a database.
    fn tables_of(&self, database: &str) -> Vec<TableId>;

    /// The database's default character set and collation.
    fn database_charset(&self, database: &str) -> Option<Charset>;

    /// The table's indexes by name; `None` if they are not known. Without them a DROP INDEX cannot always be
    /// judged.
    fn indexes(&self, _id: &TableId) -> Option<Arc<[Index]>> {
        None
    }

    /// How the table keeps the time of its rows, if it is known to be system-versioned.
    fn versioning(&self, _id: &TableId) -> Option<Versioning> {
        None
    }

    /// Its partitions, if they are known to be BY SYSTEM_TIME.
    fn history(&self, _id: &TableId) -> Option<HistoryPartitions> {
        None
    }

    /// Its application-time period.
    fn period(&self, _id: &TableId) -> Option<Period> {
        None
    }

    /// Is it known to be a sequence (MariaDB), which is no table for us?
    fn is_sequence(&self, _id: &TableId) -> bool {
        false
    }
}

/// No table is known.
pub struct NoStructures;

impl Structures for NoStructures {
    fn table(&self, _: &TableId) -> Option<Arc<TableSchema>> {
        None
    }

    fn tables_of(&self, _: &str) -> Vec<TableId> {
        Vec::new()
    }

    fn database_charset(&self, _: &str) -> Option<Charset> {
        None
    }
}

/// An index and its name. `TableSchema` has no room for names, and DROP INDEX says nothing else.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Index {
    /// Its name; the primary key is not listed.
    pub name: Arc<str>,
    /// UNIQUE.
    pub unique: bool,
    /// What it is over, in order.
    pub parts: Vec<IndexPart>,
}

/// A part of an index.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct IndexPart {
    /// The column; `None` for an expression.
    pub column: Option<Arc<str>>,
    /// Only so many characters or bytes of it (`SUB_PART` of `information_schema.STATISTICS`).
    pub prefix: Option<u32>,
}
