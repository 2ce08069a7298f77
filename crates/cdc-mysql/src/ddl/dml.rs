//! Statements that change rows and stand in the log as text: told by their first words, with the tables they
//! write as far as they can be recognised.
//!
//! Too many tables named means a stop that was not needed, too few a change that is missed; so every table
//! of a multi-table UPDATE or DELETE is listed, but none that only a subquery reads.

use super::Outcome;
use super::context::Structures;
use super::cursor::Cursor;
use super::lexer::Kind;
use cdc_core::TableId;

const READS_OR_CALLS: &[&str] = &["CALL", "DO", "SELECT", "TABLE", "VALUES", "EXECUTE"];

/// A statement that changes rows, if it is one.
pub(super) fn parse(cursor: &mut Cursor<'_>, structures: &dyn Structures) -> Option<Outcome> {
    let start = *cursor;
    if cursor.is("WITH") || cursor.is_symbol(b'(') {
        skip_with(cursor);
    }
    let mut tables = Vec::new();
    let what = if cursor.accept("INSERT") {
        into(cursor, structures, &mut tables);
        "INSERT"
    } else if cursor.accept("REPLACE") {
        into(cursor, structures, &mut tables);
        "REPLACE"
    } else if cursor.accept("UPDATE") {
        references(cursor, structures, &mut tables, &["SET"]);
        "UPDATE"
    } else if cursor.accept("DELETE") {
        delete(cursor, structures, &mut tables);
        "DELETE"
    } else if cursor.accept("LOAD") {
        load(cursor, structures, &mut tables);
        "LOAD"
    } else if READS_OR_CALLS.iter().any(|word| cursor.is(word)) {
        // A routine's or function's work, logged as the call.
        "a call"
    } else {
        *cursor = start;
        return None;
    };
    tables.sort();
    tables.dedup();
    Some(Outcome::Dml { what, tables })
}

/// Over the common table expressions, to the statement.
fn skip_with(cursor: &mut Cursor<'_>) {
    while !cursor.at_end() && !cursor.is_any(&["UPDATE", "DELETE", "SELECT", "INSERT", "REPLACE"]) {
        if cursor.is_symbol(b'(') {
            if cursor.group().is_err() {
                return;
            }
        } else {
            cursor.advance();
        }
    }
}

/// A table, if one stands in front and can be resolved.
fn table(cursor: &mut Cursor<'_>, structures: &dyn Structures, tables: &mut Vec<TableId>) {
    if let Ok(id) = cursor.table(structures) {
        tables.push(id);
    }
}

fn into(cursor: &mut Cursor<'_>, structures: &dyn Structures, tables: &mut Vec<TableId>) {
    while cursor.accept_any(&["LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE", "INTO"]) {}
    table(cursor, structures, tables);
}

fn delete(cursor: &mut Cursor<'_>, structures: &dyn Structures, tables: &mut Vec<TableId>) {
    while cursor.accept_any(&["LOW_PRIORITY", "QUICK", "IGNORE", "HISTORY"]) {}
    // `DELETE a, b FROM ..` names aliases; the tables stand behind FROM.
    while !cursor.at_end() && !cursor.is("FROM") {
        cursor.advance();
    }
    cursor.accept("FROM");
    references(cursor, structures, tables, &["WHERE", "ORDER", "LIMIT", "RETURNING", "USING"]);
    if cursor.accept("USING") {
        // What stands between FROM and USING are aliases too.
        tables.clear();
        references(cursor, structures, tables, &["WHERE", "ORDER", "LIMIT", "RETURNING"]);
    }
}

fn load(cursor: &mut Cursor<'_>, structures: &dyn Structures, tables: &mut Vec<TableId>) {
    while !cursor.at_end() {
        if cursor.accept_all(&["INTO", "TABLE"]) {
            return table(cursor, structures, tables);
        }
        cursor.advance();
    }
}

/// The tables of a join, up to one of the words that end it.
fn references(
    cursor: &mut Cursor<'_>,
    structures: &dyn Structures,
    tables: &mut Vec<TableId>,
    ends: &[&str],
) {
    while cursor.accept_any(&["LOW_PRIORITY", "IGNORE"]) {}
    let mut table_follows = true;
    while !cursor.at_end() && !cursor.is_any(ends) {
        let token = cursor.peek();
        if token.kind == Kind::Symbol(b'(') {
            let inside = cursor.second();
            if table_follows && !["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|w| inside.is(w)) {
                cursor.advance();
            } else if cursor.group().is_err() {
                return;
            } else {
                table_follows = false;
            }
        } else if table_follows && matches!(token.kind, Kind::Word | Kind::Quoted) {
            if !cursor.accept("LATERAL") {
                table(cursor, structures, tables);
                table_follows = false;
            }
        } else {
            cursor.advance();
            table_follows = token.kind == Kind::Symbol(b',') || token.is("JOIN") || token.is("STRAIGHT_JOIN");
        }
    }
}
