//! Tells statements apart by their first words.
//!
//! The kinds that change a table's shape or rows are few and known: TABLE, INDEX, DATABASE. A SEQUENCE of
//! MariaDB is a name that is none of them, which must be known because the log holds its steps as rows. What CREATEs,
//! ALTERs or DROPs anything else, and what administers the server, is passed over without a look at its
//! body: MySQL logs texts of triggers that it could not parse itself.

use super::alter::{self, Action};
use super::cursor::{Cursor, Failure, Parsed};
use super::index::{self, KeyKind};
use super::lexer::Kind;
use super::{Outcome, Work, create, dml, drop, rename, sequence, transaction};
use cdc_core::codes;
use std::sync::Arc;

/// First words of statements that change no table.
const ADMINISTRATION: &[&str] = &[
    "ANALYZE",
    "BACKUP",
    "BINLOG",
    "CACHE",
    "CHANGE",
    "CHECK",
    "CHECKSUM",
    "CLONE",
    "DEALLOCATE",
    "DELIMITER",
    "DESC",
    "DESCRIBE",
    "EXPLAIN",
    "FLUSH",
    "GET",
    "GRANT",
    "HANDLER",
    "HELP",
    "INSTALL",
    "KILL",
    "LOCK",
    "OPTIMIZE",
    "PREPARE",
    "PURGE",
    "REPAIR",
    "RESET",
    "RESIGNAL",
    "RESTART",
    "REVOKE",
    "SET",
    "SHOW",
    "SHUTDOWN",
    "SIGNAL",
    "SLAVE",
    "START",
    "STOP",
    "UNINSTALL",
    "UNLOCK",
    "USE",
];

/// Reads a statement; what it does to tables ends in `work`.
pub(super) fn statement(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<Option<Outcome>> {
    while cursor.accept_symbol(b';') {}
    skip_set_statement(cursor)?;
    if let Some(outcome) = transaction::parse(cursor) {
        return outcome.map(Some);
    }
    if let Some(outcome) = dml::parse(cursor, work.structures) {
        return Ok(Some(outcome));
    }
    if cursor.at_end() {
        work.what = "an empty statement".into();
    } else if cursor.accept("CREATE") {
        create_something(cursor, work)?;
    } else if cursor.accept("ALTER") {
        alter_something(cursor, work)?;
    } else if cursor.accept("DROP") {
        drop_something(cursor, work)?;
    } else if cursor.accept("RENAME") {
        if cursor.accept_any(&["TABLE", "TABLES"]) {
            rename::table(cursor, work)?;
        } else {
            work.what = passed_over(cursor, "RENAME");
        }
    } else if cursor.accept("TRUNCATE") {
        drop::truncate(cursor, work)?;
    } else if let Some(word) = ADMINISTRATION.iter().find(|word| cursor.is(word)) {
        work.what = (*word).into();
    } else {
        return Err(cursor.unexpected("the first word of a statement"));
    }
    Ok(None)
}

/// Reads a statement that failed.
pub(super) fn failed(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<Option<Outcome>> {
    let start = *cursor;
    while cursor.accept_symbol(b';') {}
    skip_set_statement(cursor)?;
    let replaces = cursor.accept_all(&["CREATE", "OR", "REPLACE"]);
    if replaces && cursor.accept_any(&["TABLE", "SEQUENCE"]) {
        work.what = "CREATE OR REPLACE that failed".into();
        let table = cursor.table(work.structures)?;
        work.tables.push(table.clone());
        drop::one(work, table, true);
        return Ok(None);
    }
    *cursor = start;
    let outcome = statement(cursor, work)?;
    if outcome.is_none() && !work.changes.is_empty() {
        work.changes.clear();
        work.facts.clear();
        let message = "it failed at the server, and what it had done by then is not known";
        return Err(Failure::new(codes::DDL_UNSUPPORTED, message));
    }
    Ok(outcome)
}

/// MariaDB: `SET STATEMENT x=y, .. FOR statement`, perhaps several in a row.
fn skip_set_statement(cursor: &mut Cursor<'_>) -> Parsed<()> {
    while cursor.is("SET") && cursor.second().is("STATEMENT") {
        cursor.advance();
        cursor.advance();
        while !cursor.accept("FOR") {
            if cursor.is_symbol(b'(') {
                cursor.group()?;
            } else if matches!(cursor.peek().kind, Kind::End | Kind::Unterminated) {
                return Err(cursor.unexpected("FOR"));
            } else {
                cursor.advance();
            }
        }
    }
    Ok(())
}

fn passed_over(cursor: &Cursor<'_>, verb: &str) -> std::borrow::Cow<'static, str> {
    let word = cursor.peek();
    let word = if word.kind == Kind::Word { word.text.to_uppercase() } else { String::new() };
    format!("{verb} {word}").trim_end().to_owned().into()
}

fn create_something(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    let replace = cursor.accept_all(&["OR", "REPLACE"]);
    if cursor.accept("TABLE") {
        return create::table(cursor, work, replace);
    }
    if cursor.is_any(&["TEMPORARY", "TEMP"]) {
        work.what = "CREATE TEMPORARY TABLE".into();
        return Ok(());
    }
    if cursor.accept_any(&["DATABASE", "SCHEMA"]) {
        return create::database(cursor, work, false);
    }
    if cursor.accept("SEQUENCE") {
        return sequence::create(cursor, work, replace);
    }
    let start = *cursor;
    cursor.accept_any(&["ONLINE", "OFFLINE"]);
    let kind = if cursor.accept("UNIQUE") { KeyKind::Unique } else { KeyKind::Plain };
    if kind == KeyKind::Plain && !cursor.accept_any(&["FULLTEXT", "SPATIAL"]) && cursor.second().is("INDEX") {
        cursor.accept("VECTOR");
    }
    if cursor.accept("INDEX") {
        return create_index(cursor, work, kind);
    }
    *cursor = start;
    // CREATE DEFINER = .. SQL SECURITY .. VIEW: the kind stands somewhere behind; nothing hangs on it.
    work.what = passed_over(cursor, "CREATE");
    Ok(())
}

fn create_index(cursor: &mut Cursor<'_>, work: &mut Work<'_>, kind: KeyKind) -> Parsed<()> {
    work.what = "CREATE INDEX".into();
    let if_not_exists = cursor.if_not_exists();
    let name: Arc<str> = Arc::from(&*cursor.name("an index's name")?);
    if cursor.accept_any(&["USING", "TYPE"]) {
        cursor.name("an index type")?;
    }
    cursor.expect("ON")?;
    let id = cursor.table(work.structures)?;
    work.tables.push(id.clone());
    let key = index::of_create_index(cursor, kind, name, if_not_exists)?;
    alter::with_action(cursor, work, id, Action::AddKey(key))
}

fn alter_something(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    let start = *cursor;
    while cursor.accept_any(&["ONLINE", "OFFLINE", "IGNORE"]) {}
    if cursor.accept("TABLE") {
        return alter::table(cursor, work);
    }
    *cursor = start;
    if cursor.accept_any(&["DATABASE", "SCHEMA"]) {
        return create::database(cursor, work, true);
    }
    if cursor.accept("SEQUENCE") {
        return sequence::alter(cursor, work);
    }
    work.what = passed_over(cursor, "ALTER");
    Ok(())
}

fn drop_something(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    if cursor.accept_any(&["TABLE", "TABLES"]) {
        return drop::table(cursor, work);
    }
    if cursor.accept_any(&["DATABASE", "SCHEMA"]) {
        return drop::database(cursor, work);
    }
    if cursor.accept("SEQUENCE") {
        return sequence::drop(cursor, work);
    }
    let start = *cursor;
    cursor.accept_any(&["ONLINE", "OFFLINE"]);
    if cursor.accept("INDEX") {
        work.what = "DROP INDEX".into();
        cursor.if_exists();
        let name: Arc<str> = Arc::from(&*cursor.name("an index's name")?);
        cursor.expect("ON")?;
        let id = cursor.table(work.structures)?;
        work.tables.push(id.clone());
        return alter::with_action(cursor, work, id, Action::DropIndex { name });
    }
    *cursor = start;
    work.what = if cursor.is_any(&["TEMPORARY", "TEMP"]) {
        "DROP TEMPORARY TABLE".into()
    } else {
        passed_over(cursor, "DROP")
    };
    Ok(())
}
