//! Opening the log's stream: looking whether what is wanted can be had, then asking for it.
//!
//! It runs as a task of its own, so that whoever waits for it may stop waiting and wait again.

use super::{HEARTBEAT, LogPoint, event, random_uuid};
use crate::config::Config;
use crate::conn::{connect, query_error, query_value};
use crate::gtid::{Gtid, GtidSet};
use crate::server::{Flavor, Server};
use cdc_core::position::Position;
use cdc_core::{Error, Result, codes};
use mysql_async::prelude::Queryable;
use mysql_async::{BinlogStream, BinlogStreamRequest};

/// What is wanted.
pub(super) struct Wanted {
    pub(super) config: Config,
    /// Everything that is not in it.
    pub(super) gtids: GtidSet,
    /// For a start by file: this file, from its beginning.
    pub(super) point: LogPoint,
    pub(super) by_file: bool,
    /// What was given out, and where that was in the log of the server of this id.
    pub(super) given_out: Option<(GtidSet, LogPoint, Option<String>)>,
    /// For messages.
    pub(super) position: Position,
}

/// A stream, and whose it is.
pub(super) struct Opened {
    pub(super) stream: BinlogStream,
    pub(super) server: Server,
}

impl Wanted {
    /// Connects and asks.
    pub(super) async fn open(self) -> Result<Opened> {
        let mut conn = connect(&self.config).await?;
        let doing = "asking for the log";
        let server = Server::ask(&mut conn).await?;
        self.check_reachable(&mut conn, &server).await?;
        let nanos = HEARTBEAT.as_nanos();
        let session = match server.flavor {
            // A UUID of our own: the server then ends no other replica's dump that happens to have our number.
            Flavor::MySql => format!(
                "SET @master_heartbeat_period = {nanos}, @source_heartbeat_period = {nanos}, \
                 @slave_uuid = '{uuid}', @replica_uuid = '{uuid}', @source_binlog_checksum = 'CRC32'",
                uuid = random_uuid()
            ),
            // Capability 4: we know its GTID events. Strict: a position that is not in its log is refused, and not
            // taken for the next one that is.
            Flavor::MariaDb => {
                let connect = if self.by_file {
                    String::new()
                } else {
                    format!(", @slave_connect_state = '{}', @slave_gtid_strict_mode = 1", self.gtids)
                };
                format!("SET @master_heartbeat_period = {nanos}, @mariadb_slave_capability = 4{connect}")
            }
        };
        conn.query_drop(session).await.map_err(|e| query_error(e, doing))?;
        let request = BinlogStreamRequest::new(self.config.server_id);
        let file = self.point.file.as_bytes().to_vec();
        let request = match (self.by_file, server.flavor) {
            (true, _) => request.with_filename(&file).with_pos(4),
            (false, Flavor::MySql) => request.with_gtid().with_gtid_set(event::sids(&self.gtids)?),
            // by what the session says
            (false, Flavor::MariaDb) => request.with_pos(4),
        };
        let stream = conn.get_binlog_stream(request).await.map_err(|e| query_error(e, doing))?;
        Ok(Opened { stream, server })
    }

    /// Is everything that is asked for still on the server, and is it a server that has what we have?
    async fn check_reachable(&self, conn: &mut mysql_async::Conn, server: &Server) -> Result<()> {
        let doing = "looking for the log position";
        if self.by_file {
            let logs: Vec<mysql_async::Row> =
                conn.query("SHOW BINARY LOGS").await.map_err(|e| query_error(e, doing))?;
            let names: Vec<String> = logs.into_iter().filter_map(|r| r.get::<String, _>(0)).collect();
            if !names.iter().any(|n| **n == *self.point.file) {
                return Err(Error::definite(
                    codes::LOG_PURGED,
                    format!("log file \"{}\" is not on the server", self.point.file),
                )
                .note(format!("the oldest log is \"{}\"", names.first().map_or("", String::as_str)))
                .help("choose a start that the server still has, or start = initial"));
            }
            return Ok(());
        }
        if !self.gtids.is_of(server.flavor) {
            return Err(Error::definite(
                codes::SERVER_CHANGED,
                format!("the server is {server}, and what was read before is not of such a server: {}", self.gtids),
            )
            .note(format!("we stand at {}", self.position))
            .help("name the right server in url, or copy the tables anew: stop, remove the state folder and the target's tables and progress, start again"));
        }
        if server.is_mariadb() {
            // of what was purged it says so in the stream's first packet
            return self.check_history(conn, server).await;
        }
        let purged: String =
            query_value(conn, "SELECT @@global.gtid_purged", doing).await?.unwrap_or_default();
        let missing = GtidSet::parse(&purged)?.minus(&self.gtids);
        if !missing.is_empty() {
            let logs: Vec<mysql_async::Row> =
                conn.query("SHOW BINARY LOGS").await.map_err(|e| query_error(e, doing))?;
            let oldest = logs.first().and_then(|r| r.get::<String, _>(0)).unwrap_or_default();
            return Err(Error::definite(
                codes::LOG_PURGED,
                format!("the server has purged transactions that were not read yet: {missing}"),
            )
            .note(format!("we stand at {}", self.position))
            .note(format!("the oldest log left is \"{oldest}\""))
            .help(
                "copy the tables anew: stop, remove the state folder and the target's tables and progress, start again; and \
                 keep logs longer: SET PERSIST binlog_expire_logs_seconds = 604800",
            ));
        }
        // The log is sent before the engine has committed, so what was read may be owned still. Owned first: what
        // commits between the two questions is in the second answer.
        let owned: String = query_value(conn, "SELECT @@global.gtid_owned", doing).await?.unwrap_or_default();
        let executed: String =
            query_value(conn, "SELECT @@global.gtid_executed", doing).await?.unwrap_or_default();
        let ahead = self.gtids.minus(&GtidSet::parse(&executed)?).minus(&GtidSet::parse_owned(&owned)?);
        if !ahead.is_empty() {
            return Err(Error::definite(
                codes::SERVER_CHANGED,
                format!("the server does not have transactions that were read before: {ahead}"),
            )
            .note("it is another server, one that was reset, or a replica that is behind")
            .help("let the server catch up, or name the right one in url"));
        }
        Ok(())
    }

    /// MariaDB: is its log the one that we have read? Its numbers alone do not tell: after RESET MASTER, and on a server
    /// with the same server_id, they come again for other transactions, and the server takes ours for its own. So the place
    /// in the log where we stand is asked for its GTID position (manual, BINLOG_GTID_POS), and where we have none, or it
    /// is purged, the numbers that the server has given (`gtid_binlog_state`) or applied.
    async fn check_history(&self, conn: &mut mysql_async::Conn, server: &Server) -> Result<()> {
        let doing = "comparing the server's log with what was read";
        let Some((gtids, point, id)) = &self.given_out else { return Ok(()) };
        let changed = |note: String| {
            Error::definite(
                codes::SERVER_CHANGED,
                format!("the server does not have transactions that were read before: {gtids}"),
            )
            .note(note)
            .note("it is another server, one that was reset (RESET MASTER), or a replica that is behind")
            .help(
                "name the right server in url, or copy the tables anew: stop, remove the state folder and the target's \
                 tables and progress, start again",
            )
        };
        let is_same = id.as_ref().is_none_or(|id| *id == server.id);
        // at 4 a file begins, and nothing stands in front of it there
        if is_same && !point.file.is_empty() && point.offset > 4 {
            let logs: Vec<mysql_async::Row> =
                conn.query("SHOW BINARY LOGS").await.map_err(|e| query_error(e, doing))?;
            let logs: Vec<(String, u64)> = logs
                .into_iter()
                .filter_map(|r| r.get(0).zip(r.get_opt(1).and_then(|size| size.ok())))
                .collect();
            let position = async |conn: &mut mysql_async::Conn, offset: u64| -> Result<Option<String>> {
                let sql = "SELECT BINLOG_GTID_POS(?, ?)";
                let row: Option<mysql_async::Row> =
                    conn.exec_first(sql, (&*point.file, offset)).await.map_err(|e| query_error(e, doing))?;
                Ok(row.and_then(|row| row.get_opt::<Option<String>, _>(0)).and_then(|p| p.ok()).flatten())
            };
            if let Some((_, size)) = logs.iter().find(|(name, _)| **name == *point.file) {
                match position(conn, point.offset).await? {
                    Some(there) => {
                        let there = GtidSet::parse(&there)?;
                        if gtids.contains_set(&there) && there.contains_set(gtids) {
                            return Ok(());
                        }
                        return Err(changed(format!("at {point} it stands at {there}")));
                    }
                    // it answers NULL for what is no end of an event, and if it cannot read the file
                    None if *size < point.offset || position(conn, *size).await?.is_some() => {
                        return Err(changed(format!("{point} is no place in its log")));
                    }
                    None => {}
                }
            } else if let Some((last, _)) = logs.last()
                && !LogPoint::new(last.as_str(), u64::MAX).has_reached(point)
            {
                return Err(changed(format!("we stand at {point}, and its last log is \"{last}\"")));
            }
        }
        let ask = async |conn: &mut mysql_async::Conn, variable: &str| -> Result<Vec<Gtid>> {
            let sql = format!("SELECT @@global.{variable}");
            let text: String = query_value(conn, &sql, doing).await?.unwrap_or_default();
            text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Gtid::parse).collect()
        };
        let mut has = ask(conn, "gtid_binlog_state").await?;
        has.extend(ask(conn, "gtid_slave_pos").await?);
        for ours in gtids.domains() {
            let Gtid::MariaDb { domain, server, sequence } = ours else { continue };
            let is_there = has.iter().any(|gtid| {
                matches!(gtid, Gtid::MariaDb { domain: d, server: s, sequence: n }
                    if *d == domain && (*s == server) && *n >= sequence)
            });
            // of a replica that logs nothing of its own the position may be all there is
            let covered = has.iter().any(|gtid| {
                matches!(gtid, Gtid::MariaDb { domain: d, sequence: n, .. } if *d == domain && *n > sequence)
            });
            if !is_there && !covered {
                return Err(changed(format!("of domain {domain} it has: {}", shown(&has))));
            }
        }
        Ok(())
    }
}

fn shown(gtids: &[Gtid]) -> String {
    let texts: Vec<String> = gtids.iter().map(ToString::to_string).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(",") }
}
