//! Watermarks, as each kind of server gives them.
//!
//! *Low*: everything in it is visible to the SELECT that follows on the same connection.
//! *High*: everything that the SELECT may have seen lies at or before it.
//!
//! | | MySQL | MariaDB |
//! |---|---|---|
//! | low | `gtid_executed`: a transaction is counted there after the engine has committed it | the position of a consistent snapshot, in which the SELECT then runs |
//! | a transaction is in it | by GTID | if it begins in front of it: a log has one order, and the snapshot stands between two transactions |
//! | high | the written end of the log, after the SELECT | the same: instant ALTERs, and engines without snapshots, are read as of now |
//!
//! *XA on MariaDB.* The commit of an XA transaction is written to the log first and done by the engine afterwards, outside of
//! that order: a snapshot's position may lie behind a commit that the snapshot does not see (measured: 8 of 4,104 where
//! the same session commits, 21 of 345 where another does). While the engine is at it, XA RECOVER still names the
//! branch. So before the snapshot the written end is taken and then XA RECOVER is asked: a commit is in the watermark if
//! it lies at or before that end and its branch is not named. One that is given out and forgotten and still named is
//! waited for ([`Watermark::lacks`]).
//!
//! MariaDB freezes the position and the engine's view of the rows in one step under the lock by which it orders
//! commits (`START TRANSACTION WITH CONSISTENT SNAPSHOT`, status `binlog_snapshot_file` and `_position`); its
//! `gtid_binlog_pos` promises as little as MySQL's written end does. To turn the position into GTIDs the server
//! reads its log file from the start (`BINLOG_GTID_POS`), so that is asked for once, at the start of a
//! pipeline, and chunks are compared by position.

use crate::binlog::LogPoint;
use crate::conn::{query_error, query_value};
use crate::gtid::{Gtid, GtidSet};
use crate::server::{Flavor, Server};
use crate::snapshot::reconcile::TransactionSet;
use cdc_core::{Error, Result, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction, by what watermarks are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mark {
    /// MySQL: its GTID.
    Gtid(Gtid),
    /// MariaDB: behind its first event.
    Point(LogPoint),
    /// MariaDB: the commit of an XA transaction, behind its first event, and the branch.
    Xa(LogPoint, Arc<str>),
}

/// A set of transactions: of MySQL by their GTIDs, of MariaDB all up to a point of the log. Of the other part each
/// is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Watermark {
    gtids: GtidSet,
    point: LogPoint,
    /// MariaDB: of commits of XA transactions only those up to here are in it.
    xa_point: LogPoint,
    /// And of those not these.
    open: BTreeSet<Arc<str>>,
}

impl Watermark {
    /// These transactions of MySQL.
    pub fn of_gtids(gtids: GtidSet) -> Watermark {
        Watermark { gtids, ..Watermark::default() }
    }

    /// All of MariaDB up to this point.
    pub fn of_point(point: LogPoint) -> Watermark {
        Watermark { xa_point: point.clone(), point, ..Watermark::default() }
    }

    /// Is one of these XA transactions, which the log has ended at these points, in front of it and not done by the engine
    /// yet?
    pub fn lacks(&self, ended: &BTreeMap<Arc<str>, LogPoint>) -> bool {
        self.open.iter().any(|name| ended.get(name).is_some_and(|point| self.xa_point.has_reached(point)))
    }

    /// Of MariaDB: how far it reaches.
    pub fn point(&self) -> &LogPoint {
        &self.point
    }

    /// Everything given out by a log reader that stands here.
    pub fn of_position(flavor: Flavor, gtids: &GtidSet, boundary: &LogPoint) -> Watermark {
        match flavor {
            Flavor::MySql => Watermark::of_gtids(gtids.clone()),
            Flavor::MariaDb => Watermark::of_point(boundary.clone()),
        }
    }
}

impl TransactionSet<Mark> for Watermark {
    fn holds(&self, transaction: &Mark) -> bool {
        match transaction {
            Mark::Gtid(gtid) => self.gtids.contains(gtid),
            Mark::Point(point) => self.point.has_reached(point),
            Mark::Xa(point, branch) => self.xa_point.has_reached(point) && !self.open.contains(branch),
        }
    }

    fn holds_all(&self, other: &Watermark) -> bool {
        self.gtids.contains_set(&other.gtids) && self.point.has_reached(&other.point)
    }

    fn add(&mut self, transaction: &Mark) {
        match transaction {
            Mark::Gtid(gtid) => self.gtids.insert(gtid),
            Mark::Point(point) | Mark::Xa(point, _) => self.reach(point),
        }
    }

    fn add_all(&mut self, other: &Watermark) {
        self.gtids.extend(&other.gtids);
        self.reach(&other.point);
        // what was complete once is complete in all later ones
        if other.xa_point.has_reached(&self.xa_point) {
            self.xa_point = other.xa_point.clone();
            self.open.clone_from(&other.open);
        }
    }
}

impl Watermark {
    fn reach(&mut self, point: &LogPoint) {
        if !self.point.has_reached(point) {
            self.point = point.clone();
        }
    }
}

/// A low watermark for the SELECT that follows on this connection. On MariaDB it opens a transaction; [`release`] ends
/// it.
///
/// # Errors
/// Those of the connection.
pub async fn low(conn: &mut Conn, server: &Server) -> Result<Watermark> {
    Ok(match server.flavor {
        Flavor::MySql => Watermark::of_gtids(executed(conn).await?),
        Flavor::MariaDb => {
            let xa_point = written_end(conn, server).await?;
            let open = crate::binlog::xa::prepared(conn).await?.unwrap_or_default();
            let point = snapshot(conn).await?;
            let open = open.into_iter().map(Arc::from).collect();
            Watermark { xa_point, open, ..Watermark::of_point(point) }
        }
    })
}

/// Ends what [`low`] has opened, and with it the locks that keep DDL from the tables read.
///
/// # Errors
/// Those of the connection.
pub async fn release(conn: &mut Conn, server: &Server) -> Result<()> {
    match server.flavor {
        Flavor::MySql => Ok(()),
        Flavor::MariaDb => {
            conn.query_drop("COMMIT").await.map_err(|e| query_error(e, "ending a consistent snapshot"))
        }
    }
}

/// Where a pipeline begins: the transactions to be passed over, and the point of the log they reach to. On MySQL the
/// log is ahead of the set, on MariaDB both are exact.
///
/// # Errors
/// Those of the connection.
pub async fn start(conn: &mut Conn, server: &Server) -> Result<(GtidSet, LogPoint)> {
    match server.flavor {
        Flavor::MySql => {
            let executed = executed(conn).await?;
            Ok((executed, written_end(conn, server).await?))
        }
        Flavor::MariaDb => {
            let point = snapshot(conn).await?;
            release(conn, server).await?;
            let doing = "asking for the GTIDs of a position";
            let gtids: Option<Option<String>> = conn
                .exec_first("SELECT BINLOG_GTID_POS(?, ?)", (&*point.file, point.offset))
                .await
                .map_err(|e| query_error(e, doing))?;
            let gtids = gtids.flatten().ok_or_else(|| {
                Error::transient(
                    codes::SERVER_ERROR,
                    format!("the server knows no GTIDs of position {point}"),
                )
            })?;
            Ok((GtidSet::parse(&gtids)?, point))
        }
    }
}

/// The transactions committed up to now, for people and for stops: on MariaDB it may run ahead of what is visible.
///
/// # Errors
/// Those of the connection.
pub async fn committed(conn: &mut Conn, server: &Server) -> Result<GtidSet> {
    match server.flavor {
        Flavor::MySql => executed(conn).await,
        Flavor::MariaDb => {
            let text: Option<String> =
                query_value(conn, "SELECT @@global.gtid_binlog_pos", "asking for the server's position")
                    .await?;
            GtidSet::parse(&text.unwrap_or_default())
        }
    }
}

async fn executed(conn: &mut Conn) -> Result<GtidSet> {
    let text: String = query_value(conn, "SELECT @@global.gtid_executed", "reading a low watermark")
        .await?
        .unwrap_or_default();
    GtidSet::parse(&text)
}

/// Opens a consistent snapshot and tells where in the log it stands.
async fn snapshot(conn: &mut Conn) -> Result<LogPoint> {
    let doing = "opening a consistent snapshot";
    let failed = |e| query_error(e, doing);
    conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.map_err(failed)?;
    let status: Vec<(String, String)> =
        conn.query("SHOW STATUS LIKE 'binlog_snapshot_%'").await.map_err(failed)?;
    let value = |name: &str| {
        let found = status.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    };
    let file = value("binlog_snapshot_file");
    let offset = value("binlog_snapshot_position").parse();
    match offset {
        Ok(offset) if !file.is_empty() => Ok(LogPoint::new(file, offset)),
        _ => Err(no_log()),
    }
}

/// The written end of the log: a high watermark.
///
/// # Errors
/// Those of the connection; `SETTING_WRONG` without a log.
pub async fn written_end(conn: &mut Conn, server: &Server) -> Result<LogPoint> {
    let doing = "reading a high watermark";
    let row: Option<mysql_async::Row> =
        conn.query_first(server.show_log_status()).await.map_err(|e| query_error(e, doing))?;
    let row = row.ok_or_else(no_log)?;
    let file: String = row.get(0).unwrap_or_default();
    let offset: u64 = row.get(1).unwrap_or_default();
    Ok(LogPoint::new(file, offset))
}

fn no_log() -> Error {
    Error::definite(codes::SETTING_WRONG, "the server writes no binary log")
        .help("start the server with --log-bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_holds_what_begins_in_front_of_it() {
        let at = |offset| Mark::Point(LogPoint::new("binlog.000009", offset));
        let mut low = Watermark::of_point(LogPoint::new("binlog.000009", 500));
        assert!(low.holds(&at(100)) && low.holds(&at(500)) && !low.holds(&at(501)));
        let next = Mark::Point(LogPoint::new("binlog.000010", 44));
        assert!(!low.holds(&next));
        let older = low.clone();
        low.add(&next);
        assert!(low.holds(&next) && low.holds_all(&older) && !older.holds_all(&low));
        // numbers, not texts
        assert!(!low.holds(&Mark::Point(LogPoint::new("binlog.1000000", 4))));
        low.add_all(&older);
        assert!(low.holds(&next));
        assert!(low.holds_all(&Watermark::default()));
    }
}
