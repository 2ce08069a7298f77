//! XA transactions in two phases.
//!
//! What a branch changed stands in the log at its PREPARE, and is nobody's business until its COMMIT, which may come hours
//! later, from another session, or never. So at the PREPARE nothing is given out; the branch is noted, with its rows if
//! they are few. At the COMMIT its rows are given out as rows of *that* transaction, there, in its place of the log: that
//! is when they become visible, so it is also what watermarks are compared with. At ROLLBACK the branch is forgotten.
//!
//! *Rows that are not held*, because they were many or because we were restarted since, are read again from the log at
//! the COMMIT, on a connection of their own, from the PREPARE on. So memory is bounded, a checkpoint holds names only, and
//! a branch may be open over any number of restarts, as long as the server keeps its log. The structures of its tables
//! are still those of then: a prepared branch keeps its metadata locks, so that nobody alters them.
//!
//! *Branches that were prepared before we began* are found by XA RECOVER. If one of them is still open, the start waits
//! until all of them are ended, and begins behind that; branches that are prepared in the meantime are learned from the
//! log, which is read from in front of the waiting.

use super::LogItem;
use crate::conn::query_error;
use crate::gtid::{Gtid, GtidSet};
use cdc_core::Result;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rows of open branches that are kept in memory, in all.
const HELD_LIMIT: usize = 16 << 20;

/// A branch that is prepared and not ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Branch {
    /// The transaction of its PREPARE, as text.
    pub gtid: String,
    /// MariaDB: where to read from, to come to it.
    pub before: GtidSet,
    /// Row changes of captured tables in it.
    pub rows: u64,
    /// They are, if they are held.
    #[serde(skip)]
    pub(super) held: Option<Vec<LogItem>>,
}

/// The open branches, by name ([`name`]).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Branches(pub BTreeMap<String, Branch>);

/// What an XA transaction has collected so far.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) branch: String,
    /// `None`: they are too many.
    items: Option<Vec<LogItem>>,
    bytes: usize,
}

impl Collected {
    pub(super) fn new(branch: String) -> Collected {
        Collected { branch, items: Some(Vec::new()), bytes: 0 }
    }

    /// Takes rows in, or lets all of them go when they become too many. `bytes`: of the event.
    pub(super) fn push(&mut self, item: LogItem, bytes: usize) {
        self.bytes += bytes;
        if self.bytes > HELD_LIMIT {
            self.items = None;
        }
        if let Some(items) = &mut self.items {
            items.push(item);
        }
    }

    pub(super) fn into_items(self) -> Option<Vec<LogItem>> {
        self.items
    }
}

impl Branches {
    /// Notes a branch. Beyond the limit of all, rows are read again when they are wanted.
    pub(super) fn prepare(
        &mut self,
        name: String,
        gtid: &Gtid,
        before: &GtidSet,
        rows: u64,
        held: Option<Vec<LogItem>>,
    ) {
        let bytes: usize = self.0.values().flat_map(|b| b.held.iter().flatten()).map(bytes_of).sum();
        let held = held.filter(|items| bytes + items.iter().map(bytes_of).sum::<usize>() <= HELD_LIMIT);
        let branch = Branch { gtid: gtid.to_string(), before: before.clone(), rows, held };
        self.0.insert(name, branch);
    }
}

fn bytes_of(item: &LogItem) -> usize {
    let LogItem::Rows { changes, .. } = item else { return 0 };
    let images = changes.iter().flat_map(|c| c.before.iter().chain(&c.after));
    images.map(|row| row.as_bytes().len() + 64).sum()
}

/// The branch that a statement names: what follows its two words.
pub(super) fn branch_of(statement: &str) -> String {
    name(&statement.split_whitespace().skip(2).collect::<String>())
}

/// One spelling of `X'gtrid',X'bqual',format`: the digits are hexadecimal.
pub fn name(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// The names of the branches that are prepared at the server now; `None` if the account may not ask.
///
/// # Errors
/// Those of the connection.
pub async fn prepared(conn: &mut Conn) -> Result<Option<Vec<String>>> {
    let rows: Vec<(i64, usize, usize, Vec<u8>)> = match conn.query("XA RECOVER").await {
        Ok(rows) => rows,
        // XA_RECOVER_ADMIN
        Err(mysql_async::Error::Server(e)) if matches!(e.code, 1227 | 1401) => return Ok(None),
        Err(e) => return Err(query_error(e, "asking for prepared XA transactions")),
    };
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let named = |(format, gtrid, _, data): (i64, usize, usize, Vec<u8>)| {
        let (gtrid, bqual) = data.split_at(gtrid.min(data.len()));
        format!("x'{}',x'{}',{format}", hex(gtrid), hex(bqual))
    };
    Ok(Some(rows.into_iter().map(named).collect()))
}
