//! The server's conversion tables of the legacy character sets.
//!
//! Whoever makes a decoder has called [`ensure`] for its tables on a connection before: the chunk readers and the
//! splitter on theirs, [`crate::capture::discover`] for whoever reads what it found, and the log reader whenever
//! structures have changed, on a connection of its own. A set is asked for once in a process; where nothing is
//! missing, as nearly always, the call is a look at a list.
//!
//! *The question.* All codes that a set can have are put together by a cross join of their hexadecimal digits
//! (no table, no privilege, no limit on recursion is involved), and each is converted to UTF-8 as the server
//! converts a value of a column. A code that is ill-formed gives NULL. One that is more than one character, or
//! none, is not a code. `?` and U+FFFD that do not go back to the code they came from are the server's signs for
//! "no such character".
//!
//! *gb18030* has 1.6 million codes of four bytes. Those below U+10000 are asked for like all others; the
//! million beyond follow each other as the characters do (measured on 9.7.4: all of them), which is checked at
//! the first code of each first byte and at the last.
//!
//! A process has one table of a set, of the server that was asked first. MySQL's tables are compiled in and the
//! same in 8.0 to 9.7; a process that reads from two servers whose tables differ would read by the first's.

use crate::conn::query_error;
use crate::decode::charset::table::{self, Meaning, Table, beyond_bmp};
use crate::decode::charset::{CharsetInfo, charset};
use cdc_core::{ColumnType, Error, Result, TableSchema, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::sync::Arc;

/// The digits that a code can have at each of its places.
type Form = &'static [&'static str];

const ANY: &str = "0123456789ABCDEF";
const HIGH: &str = "89ABCDEF";
const ONE_BYTE: Form = &[ANY, ANY];
const TWO_BYTES: Form = &[HIGH, ANY, ANY, ANY];
const THREE_BYTES: Form = &["8", "F", HIGH, ANY, HIGH, ANY];
/// Up to U+FFFF.
const FOUR_BYTES: Form = &["8", "1234", "3", "0123456789", HIGH, ANY, "3", "0123456789"];
/// The first of each first byte, beyond U+FFFF.
const FOUR_BYTES_BEYOND: Form = &["9ABCDE", ANY, "3", "0", "8", "1", "3", "0"];
const LAST: Form = &["E", "3", "3", "2", "9", "A", "3", "5"];

/// The sets in these tables whose conversion tables have not been read.
pub fn missing<'s>(schemas: impl IntoIterator<Item = &'s Arc<TableSchema>>) -> Vec<&'static CharsetInfo> {
    let mut missing: Vec<&CharsetInfo> = Vec::new();
    for column in schemas.into_iter().flat_map(|schema| &schema.columns) {
        let (ColumnType::Char { charset: set, .. }
        | ColumnType::VarChar { charset: set, .. }
        | ColumnType::Text { charset: set, .. }) = &column.ty
        else {
            continue;
        };
        if let Some(info) = charset(&set.name)
            && info.lacks_table()
            && missing.iter().all(|known| known.name != info.name)
        {
            missing.push(info);
        }
    }
    missing
}

/// Reads the conversion tables that the decoders of these tables need and that this process does not have.
///
/// # Errors
/// Those of the connection; `CHARSET_UNSUPPORTED` if the server converts in a way that is not understood.
pub async fn ensure(conn: &mut Conn, schemas: impl IntoIterator<Item = &Arc<TableSchema>>) -> Result<()> {
    let missing = missing(schemas);
    for info in missing {
        table::keep(load(conn, info).await?);
    }
    Ok(())
}

/// Asks the server for a set's table.
///
/// # Errors
/// As [`ensure`].
pub async fn load(conn: &mut Conn, info: &CharsetInfo) -> Result<Table> {
    let mut table = Table::new(info.name);
    let forms: &[Form] = match info.max_bytes {
        1 => &[ONE_BYTE],
        2 => &[ONE_BYTE, TWO_BYTES],
        3 => &[ONE_BYTE, TWO_BYTES, THREE_BYTES],
        _ => &[ONE_BYTE, TWO_BYTES, FOUR_BYTES],
    };
    for form in forms {
        for answer in ask(conn, info.name, form).await? {
            let (code, meaning) = answer.read(info.name)?;
            if !table.put(&code, meaning) {
                return Err(not_understood(info.name, &code));
            }
        }
    }
    if info.max_bytes == 4 {
        check_beyond_bmp(conn, info.name).await?;
    }
    Ok(table)
}

async fn check_beyond_bmp(conn: &mut Conn, set: &'static str) -> Result<()> {
    for form in [FOUR_BYTES_BEYOND, LAST] {
        for answer in ask(conn, set, form).await? {
            let (code, meaning) = answer.read(set)?;
            let ours = <[u8; 4]>::try_from(&*code).ok().and_then(beyond_bmp);
            let ours = ours.map_or(Meaning::Nothing, |char| Meaning::Char { char, canonical: true });
            if meaning != ours {
                return Err(not_understood(set, &code));
            }
        }
    }
    Ok(())
}

struct Answer {
    code: Vec<u8>,
    text: Vec<u8>,
    canonical: bool,
}

impl Answer {
    fn read(self, set: &str) -> Result<(Vec<u8>, Meaning)> {
        let mut chars = std::str::from_utf8(&self.text).unwrap_or_default().chars();
        let (Some(char), None) = (chars.next(), chars.next()) else {
            return Err(not_understood(set, &self.code));
        };
        let meaning = match char {
            '?' | char::REPLACEMENT_CHARACTER if !self.canonical => Meaning::Nothing,
            char => Meaning::Char { char, canonical: self.canonical },
        };
        Ok((self.code, meaning))
    }
}

/// Of all codes of a form those that the server takes for one character.
async fn ask(conn: &mut Conn, set: &'static str, form: Form) -> Result<Vec<Answer>> {
    let sql = question(set, form);
    let doing = format!("reading the conversion table of character set {set}");
    let rows: Vec<(Vec<u8>, Vec<u8>, i64)> = conn.query(sql).await.map_err(|e| query_error(e, &doing))?;
    Ok(rows
        .into_iter()
        .map(|(code, text, canonical)| Answer { code, text, canonical: canonical != 0 })
        .collect())
}

/// The LIMIT keeps the codes in a table of their own. Else the server puts their expression where `code` stands,
/// and its CONVERT leaves the set's name on the bytes that SELECT then sends: they come converted, unless
/// `character_set_results` is NULL (measured on 9.7.4).
fn question(set: &str, form: Form) -> String {
    let mut digits = Vec::new();
    let mut places = Vec::new();
    for (i, place) in form.iter().enumerate() {
        let values: Vec<String> = place.chars().map(|digit| format!("SELECT '{digit}' d")).collect();
        digits.push(format!("p{i}.d"));
        places.push(format!("({}) p{i}", values.join(" UNION ALL ")));
    }
    format!(
        "SELECT code, text, COALESCE(CAST(CONVERT(text USING {set}) AS BINARY) = code, 0) FROM \
         (SELECT code, CONVERT(CONVERT(code USING {set}) USING utf8mb4) text FROM \
         (SELECT UNHEX(CONCAT({})) code FROM {} LIMIT 1000000) codes) chars WHERE CHAR_LENGTH(text) = 1",
        digits.join(", "),
        places.join(", ")
    )
}

#[cold]
fn not_understood(set: &str, code: &[u8]) -> Error {
    Error::definite(
        codes::CHARSET_UNSUPPORTED,
        format!("the server converts character set \"{set}\" in a way that is not understood"),
    )
    .note(format!("the first code that differs: {code:02X?}"))
    .help("convert the table: ALTER TABLE .. CONVERT TO CHARACTER SET utf8mb4")
}
