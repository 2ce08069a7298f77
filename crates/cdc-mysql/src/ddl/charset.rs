//! Character sets: their default collations, and which set a collation belongs to.
//!
//! `SHOW CHARACTER SET` of MySQL 9.7 and MariaDB 10.11. Of `utf8mb3` only that name is used, never the old
//! `utf8`: servers disagree about what they print.

use super::context::Context;
use cdc_core::Charset;
use std::sync::Arc;

/// Name, default collation, most bytes in a character.
const CHARSETS: &[(&str, &str, u64)] = &[
    ("armscii8", "armscii8_general_ci", 1),
    ("ascii", "ascii_general_ci", 1),
    ("big5", "big5_chinese_ci", 2),
    ("binary", "binary", 1),
    ("cp1250", "cp1250_general_ci", 1),
    ("cp1251", "cp1251_general_ci", 1),
    ("cp1256", "cp1256_general_ci", 1),
    ("cp1257", "cp1257_general_ci", 1),
    ("cp850", "cp850_general_ci", 1),
    ("cp852", "cp852_general_ci", 1),
    ("cp866", "cp866_general_ci", 1),
    ("cp932", "cp932_japanese_ci", 2),
    ("dec8", "dec8_swedish_ci", 1),
    ("eucjpms", "eucjpms_japanese_ci", 3),
    ("euckr", "euckr_korean_ci", 2),
    ("gb18030", "gb18030_chinese_ci", 4),
    ("gb2312", "gb2312_chinese_ci", 2),
    ("gbk", "gbk_chinese_ci", 2),
    ("geostd8", "geostd8_general_ci", 1),
    ("greek", "greek_general_ci", 1),
    ("hebrew", "hebrew_general_ci", 1),
    ("hp8", "hp8_english_ci", 1),
    ("keybcs2", "keybcs2_general_ci", 1),
    ("koi8r", "koi8r_general_ci", 1),
    ("koi8u", "koi8u_general_ci", 1),
    ("latin1", "latin1_swedish_ci", 1),
    ("latin2", "latin2_general_ci", 1),
    ("latin5", "latin5_turkish_ci", 1),
    ("latin7", "latin7_general_ci", 1),
    ("macce", "macce_general_ci", 1),
    ("macroman", "macroman_general_ci", 1),
    ("sjis", "sjis_japanese_ci", 2),
    ("swe7", "swe7_swedish_ci", 1),
    ("tis620", "tis620_thai_ci", 1),
    ("ucs2", "ucs2_general_ci", 2),
    ("ujis", "ujis_japanese_ci", 3),
    ("utf16", "utf16_general_ci", 4),
    ("utf16le", "utf16le_general_ci", 4),
    ("utf32", "utf32_general_ci", 4),
    ("utf8mb3", "utf8mb3_general_ci", 3),
    ("utf8mb4", "utf8mb4_general_ci", 4),
];

/// The register's spelling of a name: lower case, `utf8` as `utf8mb3`.
fn normal_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    if lower == "utf8" { "utf8mb3".to_owned() } else { lower }
}

fn normal_collation(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    match lower.strip_prefix("utf8_") {
        Some(rest) => format!("utf8mb3_{rest}"),
        None => lower,
    }
}

/// A collation by the name of its order. MariaDB 11.8 takes MySQL's name for what is its own, of Unicode 14: texts would
/// be compared by the weights of Unicode 9, if it went by that name here.
pub(crate) fn own_name(collation: String, mariadb: bool) -> String {
    if mariadb && collation == "utf8mb4_0900_ai_ci" {
        return "utf8mb4_uca1400_nopad_ai_ci".to_owned();
    }
    collation
}

/// Most bytes a character takes; 4 for a set we do not know, so that nothing is cut too short.
pub(super) fn max_bytes(name: &str) -> u64 {
    CHARSETS.iter().find(|c| c.0 == name).map_or(4, |c| c.2)
}

/// A character set with the collation it has by default on this server.
pub(super) fn default_of(name: &str, mariadb: bool, version: u32) -> Charset {
    let name = normal_name(name);
    let unicode = matches!(&*name, "utf8mb4" | "utf8mb3" | "ucs2" | "utf16" | "utf32");
    let collation = if name == "utf8mb4" && !mariadb && version >= 80001 {
        "utf8mb4_0900_ai_ci".to_owned()
    } else if unicode && mariadb && version >= 110500 {
        // MariaDB 11.5: character_set_collations.
        format!("{name}_uca1400_ai_ci")
    } else {
        match CHARSETS.iter().find(|c| c.0 == name) {
            Some(known) => known.1.to_owned(),
            None => String::new(),
        }
    };
    Charset::new(name, collation)
}

/// A character set with the collation built into every server. MariaDB's CHARACTER SET DEFAULT gives it, whatever
/// the database has and the session says (measured on 10.11 and 11.8).
pub(super) fn built_in(name: &str) -> Charset {
    let collation = CHARSETS.iter().find(|c| c.0 == name).map_or("", |c| c.1);
    Charset::new(name.to_owned(), collation)
}

/// The character set a collation belongs to, by the first part of its name.
fn of_collation(collation: &str) -> Option<&'static str> {
    let set = collation.split('_').next().unwrap_or("");
    CHARSETS.iter().find(|c| c.0 == set).map(|c| c.0)
}

/// From what a column, table or database says (CHARACTER SET, COLLATE, either or both) and what it inherits.
/// `Err` holds the name that no server knows.
pub(super) fn resolve(
    name: Option<&str>,
    collation: Option<&str>,
    inherited: &Charset,
    context: &Context<'_>,
) -> Result<Charset, String> {
    let base = match name {
        None => None,
        Some(name) => Some(of_name(name, context).ok_or_else(|| name.to_owned())?),
    };
    let Some(collation) = collation else {
        return Ok(base.unwrap_or_else(|| inherited.clone()));
    };
    let collation = own_name(normal_collation(collation), context.mariadb);
    match of_collation(&collation) {
        Some(set) => Ok(Charset::new(set, collation)),
        // MariaDB: `uca1400_ai_ci` goes with any Unicode set.
        None if collation.starts_with("uca1400_") => {
            let set: Arc<str> = base.as_ref().unwrap_or(inherited).name.clone();
            let collation = format!("{set}_{collation}");
            Ok(Charset { name: set, collation: collation.into() })
        }
        None => Err(collation),
    }
}

/// A character set by name, with its default collation in this session.
pub(super) fn of_name(name: &str, context: &Context<'_>) -> Option<Charset> {
    let charset = default_of(name, context.mariadb, context.version);
    if charset.collation.is_empty() {
        return None;
    }
    Some(match &context.utf8mb4_collation {
        Some(collation) if &*charset.name == "utf8mb4" => Charset { collation: collation.clone(), ..charset },
        _ => charset,
    })
}

/// The set's binary collation: the BINARY attribute of a text column.
pub(super) fn binary_collation(charset: &Charset) -> Charset {
    let collation = match &*charset.name {
        "binary" => "binary".to_owned(),
        name => format!("{name}_bin"),
    };
    Charset { name: charset.name.clone(), collation: collation.into() }
}

/// Does every text of one set read the same after it is converted to the other? Only pairs where this holds
/// for every stored byte; anything else is to be copied again.
pub(super) fn keeps_text(from: &str, to: &str) -> bool {
    from == to
        || matches!(
            (from, to),
            ("ascii", "latin1" | "utf8mb3" | "utf8mb4")
                | ("latin1", "utf8mb3" | "utf8mb4")
                | ("utf8mb3", "utf8mb4")
        )
}
