//! Structures out of the log's own metadata, for starts in the past.
//!
//! With `binlog_row_metadata = FULL` a TABLE_MAP tells of its table: names, types, signedness, character sets (as
//! numbers of collations), the members of ENUM and SET, geometry types, the primary key, and on MySQL what is
//! visible and how many dimensions a VECTOR has. [`structure`] makes a whole [`TableSchema`] of it.
//!
//! *What it cannot tell*, and what is therefore absent: defaults, AUTO_INCREMENT, expressions of generated columns,
//! comments, unique keys, the SRID of a column, what a column without a character set gets (it is taken from the
//! table as it is now, else from its database). A unique key that the server has promoted to the primary one looks
//! like a primary key. Of a key with a prefix of a column there is no key, as everywhere.
//!
//! *What it tells in two ways.* MariaDB's UUID and INET6 look like BINARY(16), INET4 like BINARY(4), a VECTOR like
//! VARBINARY; TIME, DATETIME and TIMESTAMP in the layout of before MySQL 5.6 have digits of fraction that nobody
//! names; a system-versioned table whose columns of time have names of their own looks like any other. Then the table
//! as it is now decides, if it has a column of that name and of such a type (a table, the columns of that name); else
//! it is what it looks like, and of the old layouts nothing is known. So a column that was BINARY(16) then and is UUID
//! now is read as UUID: its bytes are given out as that text. MariaDB 11 leaves generated columns out of some row
//! images, and which columns these are, again only the table of now can tell.
//!
//! # How a log of the past is followed
//!
//! The present structures are those of *now*; which of the statements in the log they have seen already nobody can
//! tell from them. So none is in force at the start: a table becomes known where the log tells its structure, which is
//! at its CREATE TABLE or at its first table map with full metadata, whichever comes first. From there on it is
//! followed as any table is. The argument:
//!
//! 1. *Nothing is applied twice.* A statement is applied to what was learned in front of it, never to what was read
//!    from the present. One that alters a table that is not known is passed over: the next table map is written behind
//!    it and tells its outcome.
//! 2. *No row is read with a structure that is not its own.* Of a table that is not known the rows are read with the map
//!    in front of them, which is the server's word on exactly these bytes. Of one that is known the map is compared with
//!    what is known; if they differ (a statement that was not logged, a default that the log does not tell) the map is
//!    right, and the difference is told as a schema change. Without full metadata nothing can be told from the map:
//!    then a table that is not known is refused at its first row, with a code; until then nothing is.
//! 3. *Whoever follows is told each structure before its first row.* A table that becomes known is told as created
//!    (`CreateTable`, no structure before), one that turned out to differ as altered; both as an item of the
//!    transaction they are found in, in front of the rows. [`Capture::schemas`](crate::capture::Capture::schemas) is
//!    empty at such a start, so there is nothing to be taken back: the road not taken is to give out the present
//!    structures and then alter the consumer's tables *back* to those of then; it would drop columns of a target that
//!    the log adds again, and fail where a column was renamed in between.
//! 4. *What a table that is not known loses* is told: TRUNCATE and DROP empty a target that may hold rows of before the
//!    start. They need no structure, so they are told with the present one.
//! 5. *Restart.* What was learned is part of the structures of a checkpoint; that the log is read in this way, and the
//!    present structures that help, are in it too. The rows behind it are met again in the same order, so what is told
//!    again is the same, with the same versions.
//!
//! A learned structure that is told in the middle of a transaction does not end what came before it in that transaction:
//! rows of one structure lie on one side of it (see the runtime's source driver).

use super::table_map::{TableMap, WireColumn, WireType};
use crate::ddl::Versioning;
use crate::decode::bytes::LengthWidth;
use crate::decode::charset::charset;
use crate::server::Flavor;
use crate::structure::TableStructures;
use cdc_core::schema::{Column, ColumnType, IntWidth, LobSize, TableSchema, same_name};
use cdc_core::schema_change::{ColumnPosition, SchemaChange};
use cdc_core::{Charset, Error, TableId, codes};
use mysql_common::collations::{Collation, CollationId};
use std::fmt;
use std::sync::Arc;

/// Why a table map does not tell its table's structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// `binlog_row_metadata` was MINIMAL, or the server is too old to tell.
    Names,
    /// Of this column there is not all that its type needs.
    Of {
        /// Which.
        column: String,
        /// What is missing.
        what: &'static str,
    },
    /// The members of this column are in a character set whose conversion table has not been read.
    Conversion {
        /// Which.
        column: String,
        /// The character set.
        charset: &'static str,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Names => f.write_str("binlog_row_metadata was not FULL: the log names no columns"),
            Missing::Of { column, what } => write!(f, "the log does not tell {what} of column \"{column}\""),
            Missing::Conversion { column, charset } => {
                write!(
                    f,
                    "the members of column \"{column}\" are in {charset}, whose conversion table is not there"
                )
            }
        }
    }
}

/// A structure that a table map tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// Not numbered.
    pub schema: TableSchema,
    /// How the table keeps the time of its rows, if it does.
    pub versioning: Option<Versioning>,
}

/// The structure that a table map tells. `present`: the structures of now, which help where it is ambiguous.
///
/// # Errors
/// What is missing.
pub fn structure(map: &TableMap, flavor: Flavor, present: &TableStructures) -> Result<Learned, Missing> {
    let id = TableId::new(map.database.clone(), map.table.clone());
    let now = present.get(&id).map(|schema| &**schema);
    let mut columns = Vec::with_capacity(map.columns.len());
    for wire in &map.columns {
        let name = wire.name.as_deref().ok_or(Missing::Names)?;
        let of_now = now.and_then(|t| t.columns.iter().find(|c| *c.name == *name));
        let ty = column_type(wire, name, flavor, of_now.map(|c| &c.ty))?;
        let generated = match flavor {
            Flavor::MySql => None,
            Flavor::MariaDb => of_now.filter(|c| c.ty == ty).and_then(|c| c.generated.clone()),
        };
        columns.push(Column {
            nullable: wire.nullable,
            invisible: wire.visible == Some(false),
            generated,
            ..Column::new(name, ty)
        });
    }
    let key = map.primary_key.as_deref().unwrap_or_default();
    let whole = key.iter().all(|&(i, prefix)| prefix == 0 && i < columns.len());
    let primary_key = if whole { key.iter().map(|&(i, _)| i).collect() } else { Vec::new() };
    let charset = now
        .map(|t| t.charset.clone())
        .or_else(|| crate::ddl::Structures::database_charset(present, &id.database))
        .unwrap_or_else(Charset::utf8mb4);
    let mut schema = TableSchema {
        id,
        version: 0,
        columns,
        primary_key,
        unique_keys: Vec::new(),
        charset,
        comment: String::new(),
    };
    let versioning = match flavor {
        Flavor::MySql => None,
        Flavor::MariaDb => versioning(&mut schema, present),
    };
    Ok(Learned { schema, versioning })
}

/// Is it a sequence of MariaDB, by the columns that every sequence has?
pub fn is_sequence(map: &TableMap) -> Option<bool> {
    const COLUMNS: [&str; 8] = [
        "next_not_cached_value",
        "minimum_value",
        "maximum_value",
        "start_value",
        "increment",
        "cache_size",
        "cycle_option",
        "cycle_count",
    ];
    let names: Option<Vec<&str>> = map.columns.iter().map(|c| c.name.as_deref()).collect();
    names.map(|names| names == COLUMNS)
}

/// Takes the columns that the definition does not show out of the schema.
fn versioning(schema: &mut TableSchema, present: &TableStructures) -> Option<Versioning> {
    let shown = schema.columns.len().checked_sub(2)?;
    let is_time = |column: &Column, name: &str| {
        same_name(&column.name, name)
            && matches!(
                column.ty,
                ColumnType::Timestamp { fsp: 6 } | ColumnType::Int { width: IntWidth::Big, unsigned: true }
            )
    };
    if is_time(&schema.columns[shown], "row_start") && is_time(&schema.columns[shown + 1], "row_end") {
        schema.columns.truncate(shown);
        schema.primary_key.retain(|&i| i < shown);
        return Some(Versioning::Hidden);
    }
    let named = present.versioning(&schema.id)?;
    let Versioning::Columns { start, end } = named else { return None };
    let (from, to) = (schema.column_index(start)?, schema.column_index(end)?);
    if !is_time(&schema.columns[from], start) || !is_time(&schema.columns[to], end) {
        return None;
    }
    // of now: which columns keep the time is read off their expressions when the table is altered
    let now = present.get(&schema.id)?;
    for i in [from, to] {
        schema.columns[i].generated =
            now.column_index(&schema.columns[i].name).and_then(|c| now.columns[c].generated.clone());
    }
    if schema.primary_key.len() > 1 {
        schema.primary_key.retain(|&i| i != to);
    }
    Some(named.clone())
}

fn column_type(
    wire: &WireColumn,
    name: &str,
    flavor: Flavor,
    of_now: Option<&ColumnType>,
) -> Result<ColumnType, Missing> {
    let missing = |what| Missing::Of { column: name.to_owned(), what };
    let unsigned = || wire.unsigned.ok_or_else(|| missing("the sign"));
    let int = |width| Ok(ColumnType::Int { width, unsigned: unsigned()? });
    let set = || {
        let number = wire.collation.ok_or_else(|| missing("the character set"))?;
        charset_of(flavor, number).ok_or_else(|| missing("a character set that is known"))
    };
    let characters = |bytes: u16, set: &Charset| {
        charset(&set.name)
            .map(|info| u32::from(bytes) / u32::from(info.max_bytes))
            .ok_or_else(|| missing("a character set that is known"))
    };
    let size = |width| match width {
        LengthWidth::One => LobSize::Tiny,
        LengthWidth::Two => LobSize::Normal,
        LengthWidth::Three => LobSize::Medium,
        LengthWidth::Four => LobSize::Long,
    };
    let varchar = |bytes: u16| {
        let set = set()?;
        Ok(match (of_now, &*set.name) {
            (Some(&ColumnType::Vector { dimensions }), "binary")
                if flavor == Flavor::MariaDb && u64::from(dimensions) * 4 == u64::from(bytes) =>
            {
                ColumnType::Vector { dimensions }
            }
            (_, "binary") => ColumnType::VarBinary { length: u32::from(bytes) },
            _ => ColumnType::VarChar { length: characters(bytes, &set)?, charset: set },
        })
    };
    let lob = |width| {
        let (set, size) = (set()?, size(width));
        Ok(match &*set.name {
            "binary" => ColumnType::Blob { size },
            _ => ColumnType::Text { size, charset: set },
        })
    };
    let members = |set: &Charset| {
        let members = wire.members.as_deref().ok_or_else(|| missing("the members"))?;
        labels(members, set).ok_or_else(|| Missing::Conversion {
            column: name.to_owned(),
            charset: charset(&set.name).map_or("", |info| info.name),
        })
    };
    match wire.ty {
        WireType::Tiny => int(IntWidth::Tiny),
        WireType::Short => int(IntWidth::Small),
        WireType::Int24 => int(IntWidth::Medium),
        WireType::Long => int(IntWidth::Int),
        WireType::LongLong => int(IntWidth::Big),
        WireType::Float => Ok(ColumnType::Float { unsigned: unsigned()? }),
        WireType::Double => Ok(ColumnType::Double { unsigned: unsigned()? }),
        WireType::NewDecimal { precision, scale } => {
            Ok(ColumnType::Decimal { precision, scale, unsigned: unsigned()? })
        }
        WireType::Year => Ok(ColumnType::Year),
        WireType::Date => Ok(ColumnType::Date),
        WireType::Time2 { fsp } => Ok(ColumnType::Time { fsp }),
        WireType::DateTime2 { fsp } => Ok(ColumnType::DateTime { fsp }),
        WireType::Timestamp2 { fsp } => Ok(ColumnType::Timestamp { fsp }),
        // the layouts of before MySQL 5.6
        WireType::Time | WireType::DateTime | WireType::Timestamp => match (wire.ty, of_now) {
            (WireType::Time, Some(ty @ ColumnType::Time { .. }))
            | (WireType::DateTime, Some(ty @ ColumnType::DateTime { .. }))
            | (WireType::Timestamp, Some(ty @ ColumnType::Timestamp { .. })) => Ok(ty.clone()),
            _ => Err(missing("the digits of fraction")),
        },
        WireType::String { length } => {
            let set = set()?;
            Ok(match (&*set.name, of_now) {
                ("binary", Some(ty @ (ColumnType::Uuid | ColumnType::Inet6))) if length == 16 => ty.clone(),
                ("binary", Some(ColumnType::Inet4)) if length == 4 => ColumnType::Inet4,
                ("binary", _) => ColumnType::Binary { length: u32::from(length) },
                _ => ColumnType::Char { length: characters(length, &set)?, charset: set },
            })
        }
        WireType::VarChar { length } => varchar(length),
        // a byte says how a value is compressed
        WireType::VarCharCompressed { length } => varchar(length.saturating_sub(1)),
        WireType::Blob { width } | WireType::BlobCompressed { width } => lob(width),
        WireType::Enum { .. } => {
            let charset = set()?;
            Ok(ColumnType::Enum { labels: members(&charset)?, charset })
        }
        WireType::Set { .. } => {
            let charset = set()?;
            Ok(ColumnType::Set { labels: members(&charset)?, charset })
        }
        WireType::Bit { width } => Ok(ColumnType::Bit { width: width.min(64) as u8 }),
        WireType::Json { .. } => Ok(ColumnType::Json),
        WireType::Geometry { .. } => {
            let kind = wire.geometry.and_then(super::table_map::geometry_kind);
            let kind = kind.ok_or_else(|| missing("the kind of geometry"))?;
            Ok(ColumnType::Geometry { kind: kind.into(), srid: None })
        }
        WireType::Vector { .. } => {
            let dimensions = wire.dimensions.and_then(|n| u32::try_from(n).ok());
            Ok(ColumnType::Vector { dimensions: dimensions.ok_or_else(|| missing("the dimensions"))? })
        }
    }
}

/// `None`: there is no conversion table.
fn labels(members: &[Vec<u8>], set: &Charset) -> Option<Arc<[Arc<str>]>> {
    let info = charset(&set.name)?;
    let Some(codec) = info.codec() else {
        // the sets without a codec of their own, and bytes, are ASCII where all bytes are
        let ascii = |m: &Vec<u8>| m.is_ascii().then(|| String::from_utf8_lossy(m).into());
        return members.iter().map(ascii).collect();
    };
    let mut scratch = String::new();
    members.iter().map(|m| codec.decode(m, &mut scratch).map(Arc::from).ok()).collect()
}

/// A collation's character set and name; the name is empty where it is not known.
pub fn charset_of(flavor: Flavor, collation: u16) -> Option<Charset> {
    let set = super::table_map::charset_of(collation)?;
    let name = match flavor {
        Flavor::MySql => known_name(collation),
        Flavor::MariaDb => match collation {
            0x800.. => uca1400(set, collation),
            // MariaDB's own of these numbers are others than MySQL's
            0x100.. => String::new(),
            // of Unicode it has a Croatian of its own, and that of MySQL under another name
            0x65.. => {
                let name = known_name(collation).replace("_croatian_ci", "_croatian_mysql561_ci");
                crate::ddl::own_name(name, true)
            }
            _ => known_name(collation),
        },
    };
    // a name of another set is one of a number that the other kind of server has taken
    let of_set = name.strip_prefix(set).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    let old_name = set == "utf8mb3" && name.starts_with("utf8_");
    Some(match (of_set, old_name) {
        (true, _) => Charset::new(set, name),
        (false, true) => Charset::new(set, name.replacen("utf8_", "utf8mb3_", 1)),
        (false, false) => Charset::new(set, ""),
    })
}

fn known_name(collation: u16) -> String {
    match CollationId::from(collation) {
        CollationId::UNKNOWN_COLLATION_ID => String::new(),
        id => Collation::resolve(id).collation.to_owned(),
    }
}

/// MariaDB since 10.10: a character set's 256 numbers hold 8 collations of each language, the flags NO PAD, accents and
/// letter case in the lowest bits. Of the languages only the first, none, has a name here.
fn uca1400(set: &str, collation: u16) -> String {
    let number = collation & 0xff;
    if number >= 8 {
        return String::new();
    }
    let pad = if number & 4 != 0 { "_nopad" } else { "" };
    let accents = if number & 2 != 0 { "as" } else { "ai" };
    let case = if number & 1 != 0 { "cs" } else { "ci" };
    format!("{set}_uca1400{pad}_{accents}_{case}")
}

/// A change, with the structures before and after it.
type Told = (Vec<SchemaChange>, Arc<TableSchema>, Option<Arc<TableSchema>>);

/// What changes of a table that is not known take from whoever has rows of before the start: it is told with the
/// present structure. `None`: nothing, or there is no such table now.
pub(super) fn loss(changes: &[SchemaChange], present: &TableStructures) -> Option<Told> {
    let is_loss =
        |c: &&SchemaChange| matches!(c, SchemaChange::TruncateTable { .. } | SchemaChange::DropTable { .. });
    let changes: Vec<SchemaChange> = changes.iter().filter(is_loss).cloned().collect();
    let before = present.get(changes.first()?.table())?.clone();
    let is_dropped = changes.iter().any(|c| matches!(c, SchemaChange::DropTable { .. }));
    let after = (!is_dropped).then(|| before.clone());
    Some((changes, before, after))
}

#[cold]
pub(super) fn unknown(table: &TableId, missing: &Missing) -> Error {
    Error::definite(
        codes::STRUCTURE_UNKNOWN,
        format!("the structure of table \"{table}\" at this position is not known"),
    )
    .note(missing.to_string())
    .note("the start is in the past, and the table may have been altered since")
    .help("start = initial copies the tables as they are now; start = latest follows from now on")
    .help("SET GLOBAL binlog_row_metadata = FULL lets the log tell structures from then on; it does not help the past")
}

/// Changes that lead from one structure of a table to another.
pub fn difference(from: &TableSchema, to: &TableSchema) -> Vec<SchemaChange> {
    let table = &from.id;
    let mut changes = Vec::new();
    let mut now = from.clone();
    let mut make = |now: &mut TableSchema, change: SchemaChange| {
        if let Ok(next) = change.apply_to(now) {
            *now = next;
            changes.push(change);
        }
    };
    for column in from.columns.iter().filter(|c| to.column_index(&c.name).is_none()) {
        let column = column.name.clone();
        make(&mut now, SchemaChange::DropColumn { table: table.clone(), column });
    }
    // behind the step for place i the first i + 1 columns are the final ones
    for (i, column) in to.columns.iter().enumerate() {
        let position = || match i.checked_sub(1) {
            None => ColumnPosition::First,
            Some(before) => ColumnPosition::After(to.columns[before].name.clone()),
        };
        let table = table.clone();
        match now.column_index(&column.name) {
            None => {
                let change = SchemaChange::AddColumn { table, column: column.clone(), position: position() };
                make(&mut now, change);
            }
            Some(at) => {
                let name = now.columns[at].name.clone();
                if name != column.name {
                    let (column, to) = (name, column.name.clone());
                    make(&mut now, SchemaChange::RenameColumn { table: table.clone(), column, to });
                }
                if at != i || now.columns[at].ty != column.ty {
                    let change = SchemaChange::AlterColumnType {
                        table: table.clone(),
                        column: column.name.clone(),
                        ty: column.ty.clone(),
                        position: (at != i).then(position),
                    };
                    make(&mut now, change);
                }
                // of a damaged map a change may not have been made
                if now.columns.get(i).is_some_and(|c| c.nullable != column.nullable) {
                    let (name, nullable) = (column.name.clone(), column.nullable);
                    let change =
                        SchemaChange::AlterNullability { table: table.clone(), column: name, nullable };
                    make(&mut now, change);
                }
                if now.columns.get(i).is_some_and(|c| c != column) {
                    make(&mut now, SchemaChange::AlterColumnAttributes { table, column: column.clone() });
                }
            }
        }
    }
    let names = |key: &[usize]| key.iter().map(|&i| to.columns[i].name.clone()).collect::<Vec<_>>();
    if now.primary_key != to.primary_key {
        let columns = names(&to.primary_key);
        make(&mut now, SchemaChange::ChangePrimaryKey { table: table.clone(), columns });
    }
    if now.unique_keys != to.unique_keys {
        let keys = to.unique_keys.iter().map(|key| names(key)).collect();
        make(&mut now, SchemaChange::ChangeUniqueKeys { table: table.clone(), keys });
    }
    changes
}

/// A table that has nothing but a text of this set: whoever asks for the conversion tables of tables asks for it.
pub(super) fn table_of_charset(set: &'static str) -> Arc<TableSchema> {
    let ty = ColumnType::VarChar { length: 1, charset: Charset::new(set, "") };
    Arc::new(TableSchema {
        id: TableId::new("", ""),
        version: 0,
        columns: vec![Column::new("c", ty)],
        primary_key: Vec::new(),
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    })
}

/// A structure with what only the one that was known before can say of the columns that both have: defaults,
/// expressions, comments.
pub(super) fn with_known(mut learned: TableSchema, known: &TableSchema) -> TableSchema {
    for column in &mut learned.columns {
        let Some(before) = known.columns.iter().find(|c| same_name(&c.name, &column.name)) else { continue };
        if before.ty == column.ty {
            *column = Column { nullable: column.nullable, name: column.name.clone(), ..before.clone() };
        }
    }
    let place = |&i: &usize| learned.column_index(&known.columns[i].name);
    learned.unique_keys =
        known.unique_keys.iter().filter_map(|key| key.iter().map(place).collect::<Option<_>>()).collect();
    learned.charset = known.charset.clone();
    learned.comment.clone_from(&known.comment);
    learned
}
