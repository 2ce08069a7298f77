//! Column types of the source as MySQL and MariaDB hold them.
//!
//! | source | MySQL | MariaDB | remarks |
//! |---|---|---|---|
//! | TINYINT .. BIGINT, UNSIGNED | the same | the same | |
//! | DECIMAL(p,s) | the same | the same | a scale above 30 (MariaDB's) is a text at MySQL: `VARCHAR(p + 3)` |
//! | FLOAT, DOUBLE | the same | the same | UNSIGNED is left out: it is deprecated, and only refuses; MariaDB stores -0.0 as 0.0 |
//! | BIT(n), YEAR | the same | the same | |
//! | DATE, TIME, DATETIME, TIMESTAMP | the same | the same | zero and impossible dates as they are, TIMESTAMP as the same instant |
//! | CHAR, VARCHAR, TEXT | the same, utf8mb4 | the same, utf8mb4 | see below |
//! | BINARY, VARBINARY, BLOB | the same | the same | |
//! | ENUM, SET | the same, `utf8mb4_bin` | the same | the invalid value (index 0) too |
//! | JSON (MySQL) | JSON | LONGTEXT | MariaDB's JSON is a LONGTEXT whose check takes fewer levels than MySQL's |
//! | spatial types | the same, with SRID | the same | written in the server's own form, so no axis is swapped |
//! | VECTOR(n) | the same | 11.7 on the same, else `VARBINARY(4n)` | MariaDB takes no shorter vector than n |
//! | UUID, INET4, INET6 (MariaDB) | `CHAR(36)`, `VARCHAR(15)`, `VARCHAR(45)`, ascii | the same | |
//!
//! What one server can hold and the other cannot is refused with the row, never changed: a TIMESTAMP behind
//! January 2038 at MySQL (MariaDB 11.5 on has them on 64 bit), a TIME of 838:59:59.999999 at MySQL, a VECTOR
//! of fewer floats at MariaDB, or of floats whose squares no FLOAT holds.
//!
//! **Character sets.** Every text is utf8mb4. A TEXT of a character set whose characters may take more bytes
//! in UTF-8 gets the next larger type; a VARCHAR's length counts characters and stays. A collation of utf8mb4
//! that the target knows is kept where the column is no key, so that queries find what they find at the
//! source.
//!
//! **Keys.** A text in a key gets the collation that holds nothing for equal but equal bytes, spaces at the end
//! included: `utf8mb4_0900_bin` at MySQL, `utf8mb4_nopad_bin` at MariaDB. So two keys that are two at the
//! source are two here, whatever the source's collation is. (Under a coarser collation than the source's, one
//! would silently replace the other.)
//!
//! *3072 bytes* is the most an index takes, and utf8mb4 counts four for each character. A key that was 3072
//! bytes at the source because its character set is narrower keeps that character set, under its binary
//! collation. (At MySQL that one holds `'a'` and `'a '` for equal; so did every collation that a source may
//! have given such a column, except MariaDB's `_nopad_` ones: those are refused.) A TEXT or BLOB in a key that
//! the flow names becomes a VARCHAR or VARBINARY of what is left of the 3072 bytes.
//!
//! **Rows.** The columns of a row count for at most 65,535 bytes, TEXT and BLOB for 12 of them. Where utf8mb4 is
//! too wide, the widest columns outside the key become TEXT or BLOB until they fit; a VARCHAR of more than
//! 16,383 characters is a TEXT or MEDIUMTEXT anyhow.
//!
//! Only key columns are NOT NULL, and defaults are not copied: the source enforces its rules, and a column
//! that becomes nullable there would otherwise need a rebuild here before its first NULL.

use super::json;
use super::sql;
use crate::text::{fraction_digits, push_value};
use cdc_core::connector::TargetTable;
use cdc_core::schema::{Charset, ColumnType, IntWidth, LobSize};
use cdc_core::value::Value;
use cdc_core::{Error, Result, codes};
use std::collections::HashSet;
use std::fmt::Write;

/// The most bytes of an index.
const KEY_BYTES: usize = 3072;

/// The most bytes of a row, as its columns count, less what a flag for each column may take.
const ROW_BYTES: usize = 65_535;

/// Which server it is, and what it knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dialect {
    pub(crate) mariadb: bool,
    /// 90700, 101119, 110809.
    pub(crate) number: u32,
    /// Its collations of utf8mb4.
    pub(crate) collations: HashSet<String>,
}

impl Dialect {
    fn has_vectors(&self) -> bool {
        if self.mariadb { self.number >= 110_700 } else { self.number >= 90_000 }
    }

    /// The collation of utf8mb4 that holds nothing for equal but equal bytes.
    pub(crate) fn exact(&self) -> &'static str {
        if self.mariadb { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" }
    }

    /// For texts whose own collation the target does not have.
    fn usual(&self) -> &'static str {
        if self.mariadb { "utf8mb4_general_ci" } else { "utf8mb4_0900_ai_ci" }
    }

    fn collation_of(&self, charset: &Charset, in_key: bool) -> String {
        let collation = charset.collation.to_ascii_lowercase();
        if in_key {
            self.exact().to_owned()
        } else if collation.starts_with("utf8mb4_") && self.collations.contains(&collation) {
            collation
        } else if ["_bin", "_cs"].iter().any(|end| collation.ends_with(end)) || collation == "binary" {
            self.exact().to_owned()
        } else {
            self.usual().to_owned()
        }
    }
}

/// A column of a table that we make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    /// As in `information_schema.COLUMNS.COLUMN_TYPE`.
    pub(crate) ty: String,
    /// Of a text: character set and collation.
    pub(crate) charset: Option<(String, String)>,
    /// Of a geometry at MySQL.
    pub(crate) srid: Option<u32>,
}

impl Declared {
    /// As it stands in a statement.
    pub(crate) fn sql(&self) -> String {
        let mut out = self.ty.clone();
        if let Some((charset, collation)) = &self.charset {
            let _ = write!(out, " CHARACTER SET {charset} COLLATE {collation}");
        }
        if let Some(srid) = self.srid {
            let _ = write!(out, " SRID {srid}");
        }
        out
    }

    /// Bytes that it counts for in a row.
    fn row_bytes(&self) -> usize {
        let width = self.charset.as_ref().map_or(1, |(name, _)| char_bytes(name));
        let (word, n) = word_and_length(&self.ty);
        match word {
            "char" | "binary" => n * width,
            "varchar" | "varbinary" => n * width + 2,
            "decimal" => 32,
            // MariaDB keeps one like a VARBINARY
            "vector" => n * 4 + 2,
            _ => 12,
        }
    }
}

/// `varchar(20)` as `varchar` and 20.
pub(crate) fn word_and_length(ty: &str) -> (&str, usize) {
    let (word, rest) = ty.split_once('(').unwrap_or((ty, ""));
    let digits = rest.split([',', ')']).next().unwrap_or_default();
    (word, digits.parse().unwrap_or(0))
}

/// The most bytes of a character.
fn char_bytes(charset: &str) -> usize {
    match charset {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => 4,
        "utf8" | "utf8mb3" | "ujis" | "eucjpms" => 3,
        "ucs2" | "gbk" | "gb2312" | "big5" | "sjis" | "cp932" | "euckr" => 2,
        _ => 1,
    }
}

fn lob(size: LobSize, word: &str) -> String {
    let prefix = match size {
        LobSize::Tiny => "tiny",
        LobSize::Normal => "",
        LobSize::Medium => "medium",
        LobSize::Long => "long",
    };
    format!("{prefix}{word}")
}

/// The TEXT or BLOB type for so many bytes.
fn lob_for(bytes: usize, word: &str) -> String {
    lob(if bytes <= 65_535 { LobSize::Normal } else { LobSize::Medium }, word)
}

/// A TEXT whose characters may take more bytes in UTF-8.
fn widened(size: LobSize, charset: &Charset) -> LobSize {
    match (&*charset.name, size) {
        ("utf8mb4" | "utf8mb3" | "utf8" | "ascii", size) => size,
        (_, LobSize::Tiny) => LobSize::Normal,
        (_, LobSize::Normal) => LobSize::Medium,
        (_, LobSize::Medium | LobSize::Long) => LobSize::Long,
    }
}

/// A column's type at the target; `in_key`: what may stand in a key stands in one.
pub(crate) fn declared(ty: &ColumnType, dialect: &Dialect, in_key: bool) -> Declared {
    let plain = |ty: String| Declared { ty, charset: None, srid: None };
    let text = |ty: String, charset: &Charset| Declared {
        ty,
        charset: Some(("utf8mb4".to_owned(), dialect.collation_of(charset, in_key))),
        srid: None,
    };
    let ascii =
        |ty: String| Declared { ty, charset: Some(("ascii".to_owned(), "ascii_bin".to_owned())), srid: None };
    let members = |word: &str, labels: &[std::sync::Arc<str>]| {
        let labels: Vec<String> = labels.iter().map(|l| sql::text(l)).collect();
        Declared {
            ty: format!("{word}({})", labels.join(",")),
            charset: Some(("utf8mb4".to_owned(), "utf8mb4_bin".to_owned())),
            srid: None,
        }
    };
    let fsp = |word: &str, digits: u8| {
        plain(if digits == 0 { word.to_owned() } else { format!("{word}({digits})") })
    };
    match ty {
        ColumnType::Int { width, unsigned } => {
            let word = match width {
                IntWidth::Tiny => "tinyint",
                IntWidth::Small => "smallint",
                IntWidth::Medium => "mediumint",
                IntWidth::Int => "int",
                IntWidth::Big => "bigint",
            };
            plain(format!("{word}{}", if *unsigned { " unsigned" } else { "" }))
        }
        ColumnType::Decimal { precision, scale, .. } if *scale > 30 && !dialect.mariadb => {
            ascii(format!("varchar({})", u32::from(*precision) + 3))
        }
        ColumnType::Decimal { precision, scale, .. } => plain(format!("decimal({precision},{scale})")),
        ColumnType::Float { .. } => plain("float".to_owned()),
        ColumnType::Double { .. } => plain("double".to_owned()),
        ColumnType::Bit { width } => plain(format!("bit({width})")),
        ColumnType::Year => plain("year".to_owned()),
        ColumnType::Date => plain("date".to_owned()),
        ColumnType::Time { fsp: n } => fsp("time", *n),
        ColumnType::DateTime { fsp: n } => fsp("datetime", *n),
        ColumnType::Timestamp { fsp: n } => fsp("timestamp", *n),
        ColumnType::Char { length, charset } => text(format!("char({length})"), charset),
        ColumnType::VarChar { length, charset } if *length > 16_383 => {
            text(lob_for(*length as usize * char_bytes(&charset.name).max(3), "text"), charset)
        }
        ColumnType::VarChar { length, charset } => text(format!("varchar({length})"), charset),
        ColumnType::Text { size, charset } => text(lob(widened(*size, charset), "text"), charset),
        ColumnType::Binary { length } => plain(format!("binary({length})")),
        ColumnType::VarBinary { length } if *length > 65_532 => plain("blob".to_owned()),
        ColumnType::VarBinary { length } => plain(format!("varbinary({length})")),
        ColumnType::Blob { size } => plain(lob(*size, "blob")),
        ColumnType::Enum { labels, .. } => members("enum", labels),
        ColumnType::Set { labels, .. } => members("set", labels),
        ColumnType::Json if dialect.mariadb => Declared {
            ty: "longtext".to_owned(),
            charset: Some(("utf8mb4".to_owned(), "utf8mb4_bin".to_owned())),
            srid: None,
        },
        ColumnType::Json => plain("json".to_owned()),
        ColumnType::Geometry { kind, srid } => Declared {
            ty: match (&**kind, dialect.mariadb) {
                ("geomcollection" | "geometrycollection", true) => "geometrycollection".to_owned(),
                ("geomcollection" | "geometrycollection", false) => "geomcollection".to_owned(),
                (kind, _) => kind.to_owned(),
            },
            charset: None,
            srid: srid.filter(|_| !dialect.mariadb),
        },
        ColumnType::Vector { dimensions } if dialect.has_vectors() => {
            plain(format!("vector({})", (*dimensions).max(1)))
        }
        ColumnType::Vector { dimensions } => plain(format!("varbinary({})", dimensions * 4)),
        ColumnType::Uuid if dialect.mariadb => plain("uuid".to_owned()),
        ColumnType::Inet4 if dialect.mariadb => plain("inet4".to_owned()),
        ColumnType::Inet6 if dialect.mariadb => plain("inet6".to_owned()),
        ColumnType::Uuid => ascii("char(36)".to_owned()),
        ColumnType::Inet4 => ascii("varchar(15)".to_owned()),
        ColumnType::Inet6 => ascii("varchar(45)".to_owned()),
    }
}

/// The columns of a table that we make, in the table's order.
///
/// # Errors
/// `TARGET_SHAPE` where no index can hold its key.
pub(crate) fn layout(table: &TargetTable, dialect: &Dialect) -> Result<Vec<Declared>> {
    let columns = &table.schema.columns;
    let mut all: Vec<Declared> =
        columns.iter().enumerate().map(|(i, c)| declared(&c.ty, dialect, table.key.contains(&i))).collect();
    fit_key(table, dialect, &mut all)?;
    let count = |all: &[Declared]| all.iter().map(Declared::row_bytes).sum::<usize>() + all.len().div_ceil(8);
    while count(&all) > ROW_BYTES {
        let widest = (0..all.len())
            .filter(|i| !table.key.contains(i))
            .filter(|i| ["char", "varchar", "varbinary"].contains(&word_and_length(&all[*i].ty).0))
            .max_by_key(|i| all[*i].row_bytes());
        let Some(widest) = widest.filter(|i| all[*i].row_bytes() > 12) else { break };
        let bytes = all[widest].row_bytes();
        let word = if all[widest].charset.is_some() { "text" } else { "blob" };
        all[widest].ty = lob_for(bytes, word);
    }
    Ok(all)
}

/// Makes the key's columns narrow enough for an index.
fn fit_key(table: &TargetTable, dialect: &Dialect, all: &mut [Declared]) -> Result<()> {
    let columns = &table.schema.columns;
    let is_lob = |d: &Declared| {
        let word = word_and_length(&d.ty).0;
        word.ends_with("text") || word.ends_with("blob")
    };
    let refuse = |what: String| {
        Err(Error::definite(
            codes::TARGET_SHAPE,
            format!("table \"{}\" cannot have its key at the target: {what}", table.name),
        )
        .help("choose another key for the flow: key (..)"))
    };
    for i in &table.key {
        let word = word_and_length(&all[*i].ty).0;
        if matches!(columns[*i].ty, ColumnType::Json | ColumnType::Geometry { .. }) || word == "vector" {
            return refuse(format!("column \"{}\" is {}", columns[*i].name, columns[*i].ty));
        }
    }
    let bytes = |all: &[Declared]| {
        let of = |d: &Declared| if is_lob(d) { 0 } else { d.row_bytes().min(12 + d.row_bytes()) };
        table.key.iter().map(|i| of(&all[*i])).sum::<usize>()
    };
    if bytes(all) > KEY_BYTES {
        for i in &table.key {
            let Some(charset) = columns[*i].ty.charset() else { continue };
            if is_lob(&all[*i]) || char_bytes(&charset.name) >= 4 || &*charset.name == "binary" {
                continue;
            }
            let nopad = charset.collation.contains("nopad");
            if nopad && !dialect.mariadb {
                return refuse(format!(
                    "column \"{}\" is too long for utf8mb4, and MySQL has no collation of {} that tells spaces at the end apart",
                    columns[*i].name, charset.name
                ));
            }
            let end = if dialect.mariadb { "nopad_bin" } else { "bin" };
            let name = if &*charset.name == "utf8" { "utf8mb3" } else { &*charset.name };
            all[*i].charset = Some((name.to_owned(), format!("{name}_{end}")));
        }
    }
    let lobs: Vec<usize> = table.key.iter().copied().filter(|i| is_lob(&all[*i])).collect();
    let left = KEY_BYTES.saturating_sub(bytes(all));
    for i in &lobs {
        let share = left / lobs.len();
        let length =
            if all[*i].charset.is_some() { (share.saturating_sub(2)) / 4 } else { share.saturating_sub(2) };
        let word = if all[*i].charset.is_some() { "varchar" } else { "varbinary" };
        all[*i].ty = format!("{word}({length})");
        if length == 0 {
            return refuse(format!("nothing is left of {KEY_BYTES} bytes for \"{}\"", columns[*i].name));
        }
    }
    // two bytes for a length do not count in an index
    let wide = bytes(all).saturating_sub(2 * table.key.len());
    if wide > KEY_BYTES {
        return refuse(format!("it takes {wide} bytes, and an index holds {KEY_BYTES}"));
    }
    Ok(())
}

/// A label as the server prints it in a type: its dictionary is in utf8mb3, so characters beyond U+FFFF are question marks. A row's
/// label is written as text, and a strict session refuses one that the column does not have: what looks alike is found out there.
fn printed(label: &str) -> String {
    label.chars().map(|c| if c > '\u{ffff}' { '?' } else { c }).collect()
}

/// Do labels of the type have characters that the server does not print?
pub(crate) fn hides_labels(ty: &ColumnType) -> bool {
    matches!(ty, ColumnType::Enum { labels, .. } | ColumnType::Set { labels, .. }
        if labels.iter().any(|label| label.chars().any(|c| c > '\u{ffff}')))
}

/// A column's type in one spelling for both servers: no display widths, letters in lower case outside quotes, labels as they are
/// printed.
pub(crate) fn normal(column_type: &str) -> String {
    let (head, rest) = match column_type.find('(') {
        Some(at) => column_type.split_at(at),
        None => column_type.split_at(column_type.find(' ').unwrap_or(column_type.len())),
    };
    let word = head.trim().to_ascii_lowercase();
    match &*word {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" => {
            let unsigned = if rest.to_ascii_lowercase().contains("unsigned") { " unsigned" } else { "" };
            format!("{}{unsigned}", if word == "integer" { "int" } else { &*word })
        }
        "year" => word,
        "geometrycollection" => "geomcollection".to_owned(),
        "enum" | "set" => format!(
            "{word}({})",
            members_of(column_type).iter().map(|l| sql::text(&printed(l))).collect::<Vec<_>>().join(",")
        ),
        "float" | "double" | "decimal" => {
            let rest = rest.to_ascii_lowercase();
            let args = rest.find(')').map_or("", |end| &rest[..=end]);
            format!("{word}{args}")
        }
        _ => format!("{word}{}", rest.to_ascii_lowercase()),
    }
}

/// The members of an ENUM or SET as `information_schema` prints the type, or we declare it. Whatever `sql_mode` is, both servers
/// print a quote as two, and a backslash, a line feed, a carriage return and a NUL with a backslash in front; we put one in
/// front of a quote too.
fn members_of(column_type: &str) -> Vec<String> {
    let Some(inner) = column_type.split_once('(').map(|(_, inner)| inner) else { return Vec::new() };
    let mut members = Vec::new();
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\'' {
            continue;
        }
        let mut member = String::new();
        while let Some(c) = chars.next() {
            match c {
                '\'' if chars.peek() == Some(&'\'') => {
                    chars.next();
                    member.push('\'');
                }
                '\'' => break,
                '\\' => match chars.next() {
                    Some('n') => member.push('\n'),
                    Some('r') => member.push('\r'),
                    Some('0') => member.push('\0'),
                    Some(c) => member.push(c),
                    None => {}
                },
                c => member.push(c),
            }
        }
        members.push(member);
    }
    members
}

/// Does a column of the type that we declare for `ty` hold all that one of the target's `found` type could? By the rules by which types of
/// several source tables get a common one: what is a number stays one, and texts are no numbers. Any character set is held by ours.
pub(crate) fn widens(found: &str, ty: &ColumnType, dialect: &Dialect) -> bool {
    let (theirs, ours) = (normal(found), normal(&declared(ty, dialect, false).ty));
    let unsigned = |ty: &str| ty.ends_with(" unsigned");
    let word = |ty: &str| word_and_length(ty).0.split(' ').next().unwrap_or_default().to_owned();
    let (from, to) = (word(&theirs), word(&ours));
    let (n, m) = (word_and_length(&theirs).1, word_and_length(&ours).1);
    let scale =
        |ty: &str| ty.split_once(',').and_then(|(_, s)| s.trim_end_matches(')').parse::<usize>().ok());
    let integer =
        |word: &str| ["tinyint", "smallint", "mediumint", "int", "bigint"].iter().position(|w| *w == word);
    let room = |word: &str, n: usize, bytes: usize| match word {
        "char" | "varchar" | "binary" | "varbinary" => Some(n * bytes),
        "tinytext" | "tinyblob" => Some(255),
        "text" | "blob" => Some(65_535),
        "mediumtext" | "mediumblob" => Some(16_777_215),
        "longtext" | "longblob" => Some(usize::MAX),
        _ => None,
    };
    let is_text = |word: &str| word.ends_with("char") || word.ends_with("text");
    match (from.as_str(), to.as_str()) {
        (from, to) if integer(from).is_some() && integer(to).is_some() => {
            let (a, b) = (integer(from), integer(to));
            match (unsigned(&theirs), unsigned(&ours)) {
                (true, true) | (false, false) => a <= b,
                (true, false) => a < b,
                (false, true) => false,
            }
        }
        (from, "decimal") if integer(from).is_some() => {
            let digits = [3, 5, 8, 10, 20][integer(from).unwrap_or(4)];
            m.saturating_sub(scale(&ours).unwrap_or(0)) >= digits
        }
        ("decimal", "decimal") => {
            let (s, t) = (scale(&theirs).unwrap_or(0), scale(&ours).unwrap_or(0));
            s <= t && n.saturating_sub(s) <= m.saturating_sub(t)
        }
        ("float", "double") | ("date", "datetime") => true,
        ("datetime", "datetime") | ("timestamp", "timestamp") | ("time", "time") => n <= m,
        // a CHAR gives no spaces at its end, so it goes into no other type
        ("char", "char") | ("varchar", "varchar") | ("varbinary", "varbinary") | ("bit", "bit") => n <= m,
        ("varchar" | "tinytext" | "text" | "mediumtext" | "longtext", to) if is_text(to) && to != "char" => {
            // characters of ours have up to four bytes, and those of a text were counted in bytes
            match (room(&from, n, 4), room(to, m, 1)) {
                (Some(theirs), Some(ours)) => theirs <= ours,
                _ => false,
            }
        }
        (
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob",
            "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob",
        ) => room(&from, n, 1) <= room(&to, m, 1),
        _ => false,
    }
}

/// Does a column of the target's `found` type and character set keep values of `ty` as they are?
pub(crate) fn takes(found: &str, charset: Option<&str>, ty: &ColumnType, dialect: &Dialect) -> bool {
    let found_normal = normal(found);
    if found_normal == normal(&declared(ty, dialect, false).ty)
        && ty.charset().is_none_or(|_| charset.is_none_or(|c| holds(c, ty)))
    {
        return true;
    }
    let (word, n) = word_and_length(&found_normal);
    let unsigned = found_normal.ends_with(" unsigned");
    let word = word.split(' ').next().unwrap_or(word);
    let text_room = |chars: usize, bytes: usize| {
        charset.is_some_and(|c| holds(c, ty))
            && match word {
                "varchar" => n >= chars,
                "tinytext" => bytes <= 255,
                "text" => bytes <= 65_535,
                "mediumtext" => bytes <= 16_777_215,
                "longtext" => true,
                _ => false,
            }
    };
    let byte_room = |bytes: usize| match word {
        "varbinary" => n >= bytes,
        "tinyblob" => bytes <= 255,
        "blob" => bytes <= 65_535,
        "mediumblob" => bytes <= 16_777_215,
        "longblob" => true,
        _ => false,
    };
    match ty {
        ColumnType::Int { width, unsigned: ours } => {
            let bits = |w: &str| match w {
                "tinyint" => 8,
                "smallint" => 16,
                "mediumint" => 24,
                "int" => 32,
                "bigint" => 64,
                _ => 0,
            };
            let our_bits = match width {
                IntWidth::Tiny => 8,
                IntWidth::Small => 16,
                IntWidth::Medium => 24,
                IntWidth::Int => 32,
                IntWidth::Big => 64,
            };
            match (ours, unsigned) {
                (true, true) | (false, false) => bits(word) >= our_bits,
                (true, false) => bits(word) > our_bits,
                (false, true) => false,
            }
        }
        ColumnType::Decimal { precision, scale, .. } => {
            let args = found_normal.split_once(',').and_then(|(_, s)| s.trim_end_matches(')').parse().ok());
            word == "decimal" && args == Some(*scale) && n >= usize::from(*precision)
        }
        ColumnType::Float { .. } => word == "double",
        ColumnType::Bit { width } => word == "bit" && n >= usize::from(*width),
        ColumnType::Char { length, .. } => {
            let chars = *length as usize;
            (word == "char" && n >= chars && charset.is_some_and(|c| holds(c, ty)))
                || text_room(chars, chars * 4)
        }
        ColumnType::VarChar { length, .. } => text_room(*length as usize, *length as usize * 4),
        ColumnType::Text { size, charset } => {
            text_room(usize::MAX, widened(*size, charset).max_bytes() as usize)
        }
        ColumnType::Binary { length } | ColumnType::VarBinary { length } => byte_room(*length as usize),
        ColumnType::Blob { size } => byte_room(size.max_bytes() as usize),
        ColumnType::Enum { labels, .. } | ColumnType::Set { labels, .. } => {
            let is_enum = matches!(ty, ColumnType::Enum { .. });
            let there = members_of(found);
            let known = |l: &std::sync::Arc<str>| there.iter().any(|t| **t == **l || *t == printed(l));
            let longest = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
            let all = labels.iter().map(|l| l.chars().count() + 1).sum::<usize>();
            let chars = if is_enum { longest } else { all };
            (word == if is_enum { "enum" } else { "set" } && labels.iter().all(known))
                || text_room(chars, chars * 4)
        }
        ColumnType::Json => word == "longtext" && charset == Some("utf8mb4"),
        ColumnType::Geometry { .. } => word == "geometry",
        ColumnType::Vector { dimensions } => byte_room(*dimensions as usize * 4),
        ColumnType::Uuid => charset.is_some() && ((word == "char" && n >= 36) || text_room(36, 36)),
        ColumnType::Inet4 => charset.is_some() && text_room(15, 15),
        ColumnType::Inet6 => charset.is_some() && text_room(45, 45),
        ColumnType::Double { .. }
        | ColumnType::Year
        | ColumnType::Date
        | ColumnType::Time { .. }
        | ColumnType::DateTime { .. }
        | ColumnType::Timestamp { .. } => false,
    }
}

/// Does a character set hold every text of a column?
fn holds(charset: &str, ty: &ColumnType) -> bool {
    let source = ty.charset().map_or("ascii", |c| &*c.name);
    let same = |a: &str, b: &str| {
        a == b || (a.starts_with("utf8") && b == "utf8") || (a == "utf8mb3" && b.starts_with("utf8mb3"))
    };
    charset == "utf8mb4" || same(charset, source) || (source == "ascii" && char_bytes(charset) < 4)
}

/// A value as a literal for a column.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    ty: ColumnType,
    fsp: u8,
    /// The target's column is of type JSON.
    json: bool,
    /// The target's column is an ENUM: index 0 has no text.
    is_enum: bool,
    /// The number there of the member of no characters, if it has one: that reads as index 0 does, and a text compares equal to both.
    empty: Option<usize>,
    /// The target's column is a SET with a member of no characters: the set of that one has the text of the empty set.
    set: Option<Numbers>,
    /// The target's column is a DECIMAL.
    is_decimal: bool,
    /// The target has no -0.0.
    one_zero: bool,
}

/// A SET whose values go by their numbers.
#[derive(Debug, Clone)]
struct Numbers {
    /// The target's members.
    members: Vec<String>,
    /// Of each member of ours its bit there.
    bits: Vec<Option<u64>>,
}

impl Numbers {
    fn new(ty: &ColumnType, found: &str) -> Option<Numbers> {
        let ColumnType::Set { labels, .. } = ty else { return None };
        let members = members_of(found);
        if !found.to_ascii_lowercase().starts_with("set(") || !members.iter().any(String::is_empty) {
            return None;
        }
        let place = |label: &str| members.iter().position(|m| m == label || *m == printed(label));
        let bits = labels.iter().map(|label| 1_u64.checked_shl(place(label)? as u32)).collect();
        Some(Numbers { members, bits })
    }

    /// The number there; a text is that of labels, and an empty one that of none.
    fn of(&self, value: &Value<'_>) -> Option<u64> {
        match value {
            Value::Set { bits, .. } => {
                let is_in = |i: &usize| *i < 64 && bits >> i & 1 == 1;
                let beyond = |i| bits.checked_shr(i).is_some_and(|rest| rest != 0);
                if beyond(self.bits.len() as u32) {
                    return None;
                }
                (0..self.bits.len()).filter(is_in).try_fold(0, |all, i| Some(all | self.bits[i]?))
            }
            Value::Text(text) if text.is_empty() => Some(0),
            Value::Text(text) => text.split(',').try_fold(0, |all, label| {
                let place = self.members.iter().position(|m| m == label || *m == printed(label))?;
                Some(all | 1_u64.checked_shl(place as u32)?)
            }),
            _ => None,
        }
    }

    /// A number there for people.
    fn show(&self, stored: &str) -> String {
        let number: u64 = stored.parse().unwrap_or_default();
        let is_in =
            |(i, member): (usize, &String)| (i < 64 && number >> i & 1 == 1).then_some(member.clone());
        let members: Vec<String> = self.members.iter().enumerate().filter_map(is_in).collect();
        sql::clipped(&format!("{stored} ({members:?})"))
    }
}

/// How a value of an ENUM reads that has a member of no characters: the invalid value, ..
const NO_MEMBER: &[u8] = b"0";

/// .. and what is in front of a member.
const MEMBER: u8 = b'=';

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is in the statement.
    Done,
    /// It is in the statement, which needs a session that is not strict: an ENUM's invalid value.
    Invalid,
    /// The column has no place for it.
    NoPlace,
}

impl Slot {
    pub(crate) fn new(ty: &ColumnType, found: &str, dialect: &Dialect) -> Slot {
        let set = Numbers::new(ty, found);
        let found = found.to_ascii_lowercase();
        Slot {
            ty: ty.clone(),
            fsp: fraction_digits(ty),
            json: found == "json",
            is_enum: found.starts_with("enum("),
            empty: found
                .starts_with("enum(")
                .then(|| members_of(&found).iter().position(String::is_empty).map(|i| i + 1))
                .flatten(),
            set,
            is_decimal: found.starts_with("decimal"),
            one_zero: dialect.mariadb,
        }
    }

    pub(crate) fn is_float(&self) -> bool {
        matches!(self.ty, ColumnType::Float { .. } | ColumnType::Double { .. })
    }

    /// Does a value belong into a column of our type? The server would convert others, silently at times.
    fn fits(&self, value: &Value<'_>) -> bool {
        use ColumnType as T;
        let is_text = matches!(self.ty, T::Char { .. } | T::VarChar { .. } | T::Text { .. });
        match value {
            Value::Null => true,
            Value::Absent => false,
            Value::Int(_) | Value::UInt(_) => matches!(self.ty, T::Int { .. } | T::Bit { .. } | T::Year),
            Value::Year(_) => matches!(self.ty, T::Year | T::Int { .. }),
            Value::Bit(_) => matches!(self.ty, T::Bit { .. } | T::Int { .. }),
            Value::Float(_) | Value::Double(_) => self.is_float(),
            Value::Decimal(_) => is_text || matches!(self.ty, T::Decimal { .. }),
            Value::Date(_) => matches!(self.ty, T::Date),
            Value::Time(_) => matches!(self.ty, T::Time { .. }),
            Value::DateTime(_) => matches!(self.ty, T::DateTime { .. }),
            // behind the year 9999 it would print as the zero one
            Value::Timestamp(v) => {
                matches!(self.ty, T::Timestamp { .. }) && (0..253_402_300_800_000_000).contains(&v.micros)
            }
            Value::Enum { .. } => is_text || matches!(self.ty, T::Enum { .. }),
            Value::Set { .. } => is_text || matches!(self.ty, T::Set { .. }),
            Value::Json(_) => is_text || matches!(self.ty, T::Json),
            // a strict session takes no text that is not a member, or no address
            Value::Text(_) => {
                let checked =
                    matches!(self.ty, T::Enum { .. } | T::Set { .. } | T::Uuid | T::Inet4 | T::Inet6);
                is_text || checked
            }
            Value::Bytes(_) => matches!(self.ty, T::Binary { .. } | T::VarBinary { .. } | T::Blob { .. }),
            Value::Geometry(_) => matches!(self.ty, T::Geometry { .. }),
            Value::Vector(_) => matches!(self.ty, T::Vector { .. }),
        }
    }

    /// Appends a value as a literal.
    pub(crate) fn push(&self, out: &mut Vec<u8>, value: &Value<'_>) -> Pushed {
        if !self.fits(value) {
            return Pushed::NoPlace;
        }
        if let Some(set) = self.set.as_ref().filter(|_| !value.is_null()) {
            let Some(number) = set.of(value) else { return Pushed::NoPlace };
            out.extend_from_slice(number.to_string().as_bytes());
            return Pushed::Done;
        }
        match value {
            Value::Null => out.extend_from_slice(b"NULL"),
            Value::Int(_) | Value::UInt(_) | Value::Bit(_) | Value::Year(_) => push_value(out, value, 0),
            Value::Float(v) if !sql::push_double(out, f64::from(*v)) => return Pushed::NoPlace,
            Value::Double(v) if !sql::push_double(out, *v) => return Pushed::NoPlace,
            Value::Float(_) | Value::Double(_) => {}
            Value::Decimal(v) => {
                let plain = v.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
                if !plain || v.is_empty() {
                    return Pushed::NoPlace;
                }
                if self.is_decimal {
                    // never in quotes: a DECIMAL is compared with a text as a DOUBLE, in 17 digits
                    out.extend_from_slice(v.as_bytes());
                } else {
                    sql::push_text(out, v.as_bytes());
                }
            }
            Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Timestamp(_) => {
                out.push(b'\'');
                push_value(out, value, self.fsp);
                out.push(b'\'');
            }
            // by its number: there may be a member of no characters, which is another value
            Value::Enum { index: 0, .. } if self.is_enum => {
                out.push(b'0');
                return Pushed::Invalid;
            }
            Value::Enum { label: text, .. } | Value::Text(text)
                if text.is_empty()
                    && let Some(number) = self.empty =>
            {
                out.extend_from_slice(number.to_string().as_bytes());
            }
            Value::Enum { label, .. } => sql::push_text(out, label.as_bytes()),
            Value::Set { labels, .. } => sql::push_text(out, labels.as_bytes()),
            Value::Text(v) => sql::push_text(out, v.as_bytes()),
            Value::Json(v) if self.json => json::push_literal(out, v),
            Value::Json(v) => sql::push_text(out, v.as_bytes()),
            Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => sql::push_bytes(out, v),
            Value::Absent => return Pushed::NoPlace,
        }
        Pushed::Done
    }

    /// Appends what a stored value of the target has, in a form in which equal values have equal bytes, by what the
    /// source's value would be. `false`: no place.
    pub(crate) fn push_expected(&self, out: &mut Vec<u8>, value: &Value<'_>) -> bool {
        if value.is_null() || !self.fits(value) {
            return false;
        }
        if let Some(set) = &self.set {
            let Some(number) = set.of(value) else { return false };
            out.extend_from_slice(number.to_string().as_bytes());
            return true;
        }
        let bits = |v: f64| if v == 0.0 && self.one_zero { 0 } else { v.to_bits() };
        match value {
            Value::Float(v) => out.extend_from_slice(&bits(f64::from(*v)).to_be_bytes()),
            Value::Double(v) => out.extend_from_slice(&bits(*v).to_be_bytes()),
            Value::Enum { index: 0, .. } if self.empty.is_some() => out.extend_from_slice(NO_MEMBER),
            value => {
                if self.empty.is_some() {
                    out.push(MEMBER);
                }
                push_value(out, value, self.fsp);
            }
        }
        true
    }

    /// The same of what a statement gave for [`Slot::reading`].
    pub(crate) fn stored(&self, given: Vec<u8>) -> Vec<u8> {
        if !self.is_float() {
            return given;
        }
        let value = std::str::from_utf8(&given).ok().and_then(|t| t.parse::<f64>().ok());
        value.map_or(given, |v| v.to_bits().to_be_bytes().to_vec())
    }

    /// The expression that gives a column's value whole.
    pub(crate) fn reading(&self, column: &str) -> String {
        let column = sql::quote(column);
        match &self.ty {
            ColumnType::Float { .. } => format!("CAST({column} AS DOUBLE)"),
            ColumnType::Bit { .. } => format!("CAST({column} AS UNSIGNED)"),
            ColumnType::Year => format!("{column} + 0"),
            _ if self.set.is_some() => self.number(&column),
            // (NULL stays NULL)
            _ if self.empty.is_some() => format!("IF({column} + 0 = 0, '0', CONCAT('=', {column}))"),
            _ => column,
        }
    }

    /// An expression of this column's type, so that what is compared with it or set to it gets its value where a text is
    /// that of two: by its number. (A server assigns a SET to a SET by its text.)
    pub(crate) fn number(&self, expression: &str) -> String {
        if self.is_enum {
            format!("{expression} + 0")
        } else if self.set.is_some() {
            // (+ 0 would be a DOUBLE, which has 53 bits)
            format!("CAST({expression} AS UNSIGNED)")
        } else {
            expression.to_owned()
        }
    }

    /// The same, for a value that is written back into its own column: of an ENUM its number, since the invalid value has no text.
    pub(crate) fn reading_back(&self, column: &str) -> String {
        if self.is_enum { format!("{} + 0", sql::quote(column)) } else { self.reading(column) }
    }

    /// A value as [`Slot::reading_back`] and [`Slot::stored`] have it, as a literal.
    pub(crate) fn push_stored(&self, out: &mut Vec<u8>, stored: &[u8]) -> Pushed {
        if self.is_enum {
            out.extend_from_slice(stored);
            return if stored == b"0" { Pushed::Invalid } else { Pushed::Done };
        }
        if self.set.is_some() {
            out.extend_from_slice(stored);
            return Pushed::Done;
        }
        match &self.ty {
            ColumnType::Int { .. } | ColumnType::Bit { .. } | ColumnType::Year => {
                out.extend_from_slice(stored)
            }
            ColumnType::Decimal { .. } if self.is_decimal => out.extend_from_slice(stored),
            ColumnType::Float { .. } | ColumnType::Double { .. } => {
                let bits: Option<[u8; 8]> = stored.try_into().ok();
                if !bits.is_some_and(|b| sql::push_double(out, f64::from_bits(u64::from_be_bytes(b)))) {
                    out.extend_from_slice(b"NULL");
                }
            }
            ColumnType::Json if self.json => json::push_literal(out, &String::from_utf8_lossy(stored)),
            ColumnType::Binary { .. }
            | ColumnType::VarBinary { .. }
            | ColumnType::Blob { .. }
            | ColumnType::Geometry { .. }
            | ColumnType::Vector { .. } => sql::push_bytes(out, stored),
            _ => sql::push_text(out, stored),
        }
        Pushed::Done
    }

    /// May the target's column hold an ENUM's invalid value?
    pub(crate) fn is_enum(&self) -> bool {
        self.is_enum
    }

    /// Appends a condition that holds for a stored value that is this one in every bit, and for no other.
    pub(crate) fn push_exactly(
        &self,
        out: &mut Vec<u8>,
        column: &str,
        value: &Value<'_>,
        dialect: &Dialect,
    ) -> bool {
        use ColumnType as T;
        let quoted = sql::quote(column);
        if value.is_null() {
            out.extend_from_slice(format!("{quoted} IS NULL").as_bytes());
            return true;
        }
        let mut expected = Vec::new();
        if !self.push_expected(&mut expected, value) {
            return false;
        }
        match &self.ty {
            T::Set { .. } if self.set.is_some() => {
                out.extend_from_slice(format!("{} = ", self.reading(column)).as_bytes());
                out.extend_from_slice(&expected);
            }
            T::Enum { .. } if self.empty.is_some() => {
                out.extend_from_slice(
                    format!("CONVERT({} USING utf8mb4) COLLATE {} = ", self.reading(column), dialect.exact())
                        .as_bytes(),
                );
                sql::push_text(out, &expected);
            }
            T::Char { .. }
            | T::VarChar { .. }
            | T::Text { .. }
            | T::Enum { .. }
            | T::Set { .. }
            | T::Json
            | T::Uuid
            | T::Inet4
            | T::Inet6 => {
                out.extend_from_slice(
                    format!("CONVERT({quoted} USING utf8mb4) COLLATE {} = ", dialect.exact()).as_bytes(),
                );
                sql::push_text(out, &expected);
            }
            T::Geometry { .. }
            | T::Vector { .. }
            | T::Binary { .. }
            | T::VarBinary { .. }
            | T::Blob { .. } => {
                out.extend_from_slice(format!("HEX({quoted}) = '").as_bytes());
                sql::push_hex(out, &expected);
                out.push(b'\'');
            }
            T::Float { .. } | T::Double { .. } => {
                out.extend_from_slice(format!("{quoted} = ").as_bytes());
                self.push_stored(out, &expected);
                let zero = expected.iter().skip(1).all(|b| *b == 0);
                if zero && !self.one_zero {
                    let sign = if expected[0] == 0 { "NOT " } else { "" };
                    out.extend_from_slice(format!(" AND CAST({quoted} AS CHAR) {sign}LIKE '-%'").as_bytes());
                }
            }
            _ => {
                out.extend_from_slice(format!("{quoted} = ").as_bytes());
                return self.push(out, value) == Pushed::Done;
            }
        }
        true
    }

    /// A stored value for people.
    pub(crate) fn show(&self, stored: Option<&[u8]>) -> String {
        let Some(mut stored) = stored else { return "NULL".to_owned() };
        if self.empty.is_some() {
            if stored == NO_MEMBER {
                return "0 (the invalid value, which is no member)".to_owned();
            }
            stored = stored.strip_prefix(&[MEMBER]).unwrap_or(stored);
        }
        if let Some(set) = &self.set {
            return set.show(&String::from_utf8_lossy(stored));
        }
        match &self.ty {
            ColumnType::Float { .. } | ColumnType::Double { .. } => {
                let bits: Option<[u8; 8]> = stored.try_into().ok();
                bits.map_or("?".to_owned(), |b| format!("{:?}", f64::from_bits(u64::from_be_bytes(b))))
            }
            ColumnType::Binary { .. }
            | ColumnType::VarBinary { .. }
            | ColumnType::Blob { .. }
            | ColumnType::Geometry { .. }
            | ColumnType::Vector { .. } => {
                let mut out = b"0x".to_vec();
                sql::push_hex(&mut out, &stored[..stored.len().min(100)]);
                let more =
                    if stored.len() > 100 { format!(".. ({} bytes)", stored.len()) } else { String::new() };
                format!("{}{more}", String::from_utf8_lossy(&out))
            }
            ColumnType::Int { .. }
            | ColumnType::Decimal { .. }
            | ColumnType::Bit { .. }
            | ColumnType::Year => String::from_utf8_lossy(stored).into_owned(),
            _ => sql::clipped(&format!("{:?}", String::from_utf8_lossy(stored))),
        }
    }
}
