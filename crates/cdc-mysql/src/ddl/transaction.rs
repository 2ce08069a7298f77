//! Statements that open, close and mark transactions, as query events hold them.

use super::Outcome;
use super::cursor::{Cursor, Parsed};
use super::lexer::{self, Kind};
use std::sync::Arc;

/// An XA branch's identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Xid {
    /// The format number; 1 if none is written.
    pub format: u64,
    /// The global part.
    pub gtrid: Vec<u8>,
    /// The branch.
    pub bqual: Vec<u8>,
}

/// A statement about a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK.
    Rollback,
    /// SAVEPOINT.
    Savepoint(Arc<str>),
    /// ROLLBACK TO.
    RollbackTo(Arc<str>),
    /// RELEASE SAVEPOINT.
    Release(Arc<str>),
    /// XA START, XA BEGIN.
    XaStart(Xid),
    /// XA END.
    XaEnd(Xid),
    /// XA PREPARE.
    XaPrepare(Xid),
    /// XA COMMIT.
    XaCommit {
        /// Which branch.
        xid: Xid,
        /// ONE PHASE: without a PREPARE before.
        one_phase: bool,
    },
    /// XA ROLLBACK.
    XaRollback(Xid),
}

/// A statement about a transaction, if it is one.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Option<Parsed<Outcome>> {
    let start = *cursor;
    let transaction = if cursor.accept("BEGIN") {
        // MariaDB's BEGIN NOT ATOMIC is a compound statement.
        if cursor.is("NOT") {
            *cursor = start;
            return None;
        }
        Ok(Transaction::Begin)
    } else if cursor.accept_all(&["START", "TRANSACTION"]) {
        Ok(Transaction::Begin)
    } else if cursor.accept("COMMIT") {
        Ok(Transaction::Commit)
    } else if cursor.accept("ROLLBACK") {
        cursor.accept("WORK");
        if cursor.accept("TO") {
            cursor.accept("SAVEPOINT");
            name(cursor).map(Transaction::RollbackTo)
        } else {
            Ok(Transaction::Rollback)
        }
    } else if cursor.accept("SAVEPOINT") {
        name(cursor).map(Transaction::Savepoint)
    } else if cursor.accept_all(&["RELEASE", "SAVEPOINT"]) {
        name(cursor).map(Transaction::Release)
    } else if cursor.accept("XA") {
        xa(cursor)
    } else {
        return None;
    };
    Some(transaction.map(Outcome::Transaction))
}

fn name(cursor: &mut Cursor<'_>) -> Parsed<Arc<str>> {
    Ok(Arc::from(&*cursor.name("a savepoint's name")?))
}

fn xa(cursor: &mut Cursor<'_>) -> Parsed<Transaction> {
    if cursor.accept_any(&["START", "BEGIN"]) {
        xid(cursor).map(Transaction::XaStart)
    } else if cursor.accept("END") {
        xid(cursor).map(Transaction::XaEnd)
    } else if cursor.accept("PREPARE") {
        xid(cursor).map(Transaction::XaPrepare)
    } else if cursor.accept("COMMIT") {
        let xid = xid(cursor)?;
        Ok(Transaction::XaCommit { xid, one_phase: cursor.accept_all(&["ONE", "PHASE"]) })
    } else if cursor.accept("ROLLBACK") {
        xid(cursor).map(Transaction::XaRollback)
    } else {
        Err(cursor.unexpected("START, END, PREPARE, COMMIT or ROLLBACK"))
    }
}

/// `gtrid [, bqual [, format]]`.
fn xid(cursor: &mut Cursor<'_>) -> Parsed<Xid> {
    let mut xid = Xid { format: 1, gtrid: bytes(cursor)?, bqual: Vec::new() };
    if cursor.accept_symbol(b',') {
        xid.bqual = bytes(cursor)?;
        if cursor.accept_symbol(b',') {
            xid.format = cursor.number()?;
        }
    }
    Ok(xid)
}

fn bytes(cursor: &mut Cursor<'_>) -> Parsed<Vec<u8>> {
    let token = cursor.peek();
    if matches!(token.kind, Kind::Hex | Kind::Bit) {
        cursor.advance();
        return Ok(lexer::unquote_bits(token.kind, token.text));
    }
    Ok(cursor.text()?.into_owned().into_bytes())
}
