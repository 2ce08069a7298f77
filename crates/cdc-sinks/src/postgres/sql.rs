//! Names and texts as SQL, and what PostgreSQL takes for a name.

use cdc_core::{Error, Result, codes};

/// Bytes of the longest name; a longer one would be cut off without a word (NAMEDATALEN of the server, less one).
pub(crate) const LONGEST_NAME: usize = 63;

/// Columns that every table has by itself.
const SYSTEM_COLUMNS: &[&str] = &["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

/// A name in double quotes.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names in double quotes, joined by commas.
pub(crate) fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// A text in single quotes, whatever `standard_conforming_strings` says. It must hold no NUL.
pub(crate) fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// Refuses table names that the server cannot hold or that we keep for ourselves.
pub(crate) fn check_table_name(name: &str) -> Result<()> {
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|p| p.eq_ignore_ascii_case(prefix));
    let why = match wrong_name(name) {
        Some(why) => why,
        None if begins("_cdc_") => "cdc keeps names with \"_cdc_\" for itself".to_owned(),
        None => return Ok(()),
    };
    Err(Error::definite(
        codes::TARGET_SHAPE,
        format!("a table at the target cannot be named \"{}\": {why}", name.escape_debug()),
    )
    .help("send the flow to another name"))
}

/// Refuses column names that the server cannot hold.
pub(crate) fn check_column_name(table: &str, name: &str) -> Result<()> {
    let why = match wrong_name(name) {
        Some(why) => why,
        None if SYSTEM_COLUMNS.contains(&name) => {
            "every table of PostgreSQL has a column of that name by itself".into()
        }
        None => return Ok(()),
    };
    Err(Error::definite(
        codes::TARGET_SHAPE,
        format!(
            "table \"{table}\": a column at the target cannot be named \"{}\": {why}",
            name.escape_debug()
        ),
    )
    .help(format!("give it another name in the flow: |> rename ({} as ..)", name.escape_debug())))
}

fn wrong_name(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("it is empty".to_owned())
    } else if name.contains('\0') {
        Some("it holds a NUL".to_owned())
    } else if name.len() > LONGEST_NAME {
        Some(format!("it has {} bytes, PostgreSQL takes {LONGEST_NAME}", name.len()))
    } else {
        None
    }
}

/// FNV-1a, each word closed by a byte that no text holds.
pub(crate) fn fnv(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|w| w.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_cannot_end_their_quotes() {
        assert_eq!(quote("a\"; DROP TABLE t; --"), "\"a\"\"; DROP TABLE t; --\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("\\'; --"), "E'\\\\''; --'");
    }

    #[test]
    fn names_that_would_be_cut_off_are_refused() {
        check_table_name(&"ä".repeat(31)).unwrap();
        assert_eq!(check_table_name(&"ä".repeat(32)).unwrap_err().code(), codes::TARGET_SHAPE);
        assert!(check_column_name("t", "ctid").is_err());
        assert!(check_column_name("t", "CTID").is_ok());
    }
}
