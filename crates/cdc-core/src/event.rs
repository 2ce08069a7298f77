//! What flows: row changes in batches of one table and one schema version, and schema changes.
//!
//! Every change carries `(tick, ordinal)`: the ordinal counts changes within a tick in the order of the
//! source, over all tables, so that for any key the later change is the one with the greater pair, whatever
//! channel was faster. A transaction is never split over two ticks.

use crate::error::Error;
use crate::row::Row;
use crate::schema::{TableId, TableSchema};
use crate::schema_change::SchemaChange;
use crate::tick::Tick;
use std::sync::Arc;

/// What happened to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Op {
    /// It is there, says a snapshot: insert it or replace what is there.
    Read,
    /// It was inserted.
    Insert,
    /// It was updated.
    Update,
    /// It was deleted.
    Delete,
}

impl Op {
    /// Debezium's letter for it.
    pub fn letter(self) -> &'static str {
        match self {
            Op::Read => "r",
            Op::Insert => "c",
            Op::Update => "u",
            Op::Delete => "d",
        }
    }
}

/// A change of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Change {
    /// The tick it belongs to.
    pub tick: Tick,
    /// Its place in the tick.
    pub ordinal: u64,
    /// What happened.
    pub op: Op,
    /// Index into the batch's `origins`.
    pub origin: u32,
    /// The row before: for updates and deletes.
    pub before: Option<Row>,
    /// The row after: for all but deletes.
    pub after: Option<Row>,
}

/// Where changes come from: one entry per transaction (or chunk), shared by its changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Origin {
    /// Commit time at the source, in microseconds since 1970 UTC; for chunk rows, when they were read.
    pub timestamp_micros: i64,
    /// The transaction's GTID; empty for chunk rows.
    pub gtid: Arc<str>,
    /// The log file.
    pub file: Arc<str>,
    /// Where in it the transaction begins (log), or the high watermark (chunk).
    pub offset: u64,
    /// True for rows read by a snapshot.
    pub snapshot: bool,
}

impl Origin {
    /// The place in the log, in words for a message; `None` where there is none (rows that were read outside a run, or of
    /// which the server tells no place).
    pub fn place(&self) -> Option<String> {
        if self.file.is_empty() {
            return None;
        }
        let gtid = if self.gtid.is_empty() { String::new() } else { format!(", GTID {}", self.gtid) };
        let place = format!("{}:{}{gtid}", self.file, self.offset);
        Some(if self.snapshot {
            format!("read in a chunk of the snapshot, before {place}")
        } else {
            format!("at {place}")
        })
    }
}

/// Changes of one table under one schema version, in (tick, ordinal) order.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Batch {
    /// The shape of all rows in it.
    pub schema: Arc<TableSchema>,
    /// See [`Change::origin`].
    pub origins: Vec<Origin>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// A DDL statement's effect on one table; alone at its tick.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SchemaEvent {
    /// Its tick.
    pub tick: Tick,
    /// Where it comes from.
    pub origin: Origin,
    /// The statement, as logged.
    pub statement: Arc<str>,
    /// What it does, in order.
    pub changes: Vec<SchemaChange>,
    /// The shape before; `None` for a table created, and for one that is gone and was never known.
    pub before: Option<Arc<TableSchema>>,
    /// The shape after; `None` for a table dropped.
    pub after: Option<Arc<TableSchema>>,
}

impl SchemaEvent {
    /// The table, if all that is known is that it is not there any more.
    pub fn gone(&self) -> Option<&TableId> {
        match (&self.before, &self.after, &self.changes[..]) {
            (None, None, [SchemaChange::DropTable { table }]) => Some(table),
            _ => None,
        }
    }

    /// An error with the statement that it came of and its place, as far as there are any: a table that is copied anew has neither.
    pub fn explain(&self, error: Error) -> Error {
        let statement = self.statement.trim();
        let error = if statement.is_empty() {
            error
        } else {
            error.note(format!("behind the statement: {statement}"))
        };
        match self.origin.place() {
            Some(place) => error.note(place),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;

    #[test]
    fn notes_that_would_say_nothing_are_left_out() {
        let mut origin =
            Origin { timestamp_micros: 0, gtid: "".into(), file: "".into(), offset: 0, snapshot: true };
        assert_eq!(origin.place(), None);
        let mut event = SchemaEvent {
            tick: 1,
            origin: origin.clone(),
            statement: " ".into(),
            changes: Vec::new(),
            before: None,
            after: None,
        };
        let error = || Error::definite(codes::TARGET_VALUE, "it does not fit");
        assert!(event.explain(error()).diagnostic().notes.is_empty());
        (origin.file, origin.offset) = ("binlog.000003".into(), 194);
        assert_eq!(
            origin.place().as_deref(),
            Some("read in a chunk of the snapshot, before binlog.000003:194")
        );
        (origin.snapshot, origin.gtid) = (false, "0-1-7".into());
        event.origin = origin;
        event.statement = "DROP TABLE t".into();
        assert_eq!(
            event.explain(error()).diagnostic().notes,
            ["behind the statement: DROP TABLE t", "at binlog.000003:194, GTID 0-1-7"]
        );
    }
}
