//! Copying a table without a key: an exact snapshot, read in one pass.
//!
//! Rows of such a table cannot be told apart, so a row of a SELECT cannot be mended by what the log says of "it". The
//! copy must be the table as it was at one point X of the log: what the log holds behind X comes after it, what it
//! holds up to X is in it, and nothing is both.
//!
//! *MariaDB* says where in the log a consistent snapshot stands: X is that.
//!
//! *MySQL* does not. LW = `gtid_executed`, then START TRANSACTION WITH CONSISTENT SNAPSHOT, then HW = the written end of
//! the log. What is in LW is in the snapshot; what is in the snapshot lies in front of HW. If no transaction that
//! changes the table lies in front of HW and outside of LW, the snapshot is the table at HW: X = HW. Whether
//! one does is known when the log reader has reached HW; till then no row has been read, and if one does, another snapshot
//! is opened (milliseconds). A table that is written to without pause may never be caught so: with
//! `lock = brief` a read lock of the table is held while the snapshot is opened, from the sixth try on.
//!
//! *Meanwhile* the table's row events wait ([`Spill`]): those in LW are dropped when the snapshot is opened (it holds
//! them, and so does every later one), the others are given out behind the last row. A statement that changes the table's
//! structure, or TRUNCATE, is given out at its place; the copy then begins anew, with a snapshot that holds it. Each copy
//! begins by emptying the target's table, so that what an earlier one has left does not matter, before a restart too.
//! *LW must hold every transaction given out or made to wait, before a restart too*: as for chunks.

use super::Message;
use super::discover::discover;
use crate::binlog::LogPoint;
use crate::charsets;
use crate::config::Config;
use crate::conn::{connect, query_error, server_code};
use crate::decode::result::ResultDecoder;
use crate::server::{Flavor, Server};
use crate::snapshot::chunk::{self, quote_name};
use crate::snapshot::spill::Spill;
use crate::snapshot::watermark::{self, Watermark};
use cdc_core::plan::pattern::TableSet;
use cdc_core::{Error, Result, Row, RowBuilder, TableSchema, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Tries without the lock.
const TRIES: u32 = 5;

/// A copy of a table without a key.
#[derive(Debug)]
pub(super) struct Exact {
    /// Which copy: answers of an earlier one are not taken.
    pub(super) generation: u64,
    /// The table's changes that wait.
    pub(super) spill: Spill,
    /// What every snapshot must hold.
    pub(super) base: Watermark,
    pub(super) state: State,
    /// Snapshots opened so far.
    pub(super) tries: u32,
}

/// How far a copy is.
#[derive(Debug)]
pub(super) enum State {
    /// Not begun, or to be begun anew.
    Idle,
    /// A task has been started.
    Opening,
    /// A snapshot is open, and the log reader has not reached its high watermark.
    Opened { low: Watermark, high: LogPoint, reply: oneshot::Sender<Verdict> },
    /// Rows come.
    Reading,
    /// All rows have come; what waits follows, once the log reader is here.
    Read { high: LogPoint },
}

/// What becomes of a snapshot that was opened.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is exact: read it.
    Read,
    /// Open another one; under a lock, or not.
    Again { lock: bool },
}

/// What a task that copies tells.
#[derive(Debug)]
pub(super) enum Told {
    Opened {
        low: Watermark,
        high: LogPoint,
        reply: oneshot::Sender<Verdict>,
    },
    Rows(Vec<Row>),
    /// The written end of the log behind the last row; none if nothing was read.
    End(Result<Option<LogPoint>>),
}

impl Exact {
    pub(super) fn new(base: Watermark) -> Exact {
        Exact { generation: 0, spill: Spill::default(), base, state: State::Idle, tries: 0 }
    }

    /// Everything so far is void.
    pub(super) fn restart(&mut self) {
        // no copy has this number
        self.generation = 0;
        self.spill.clear();
        self.state = State::Idle;
    }

    /// Should the next snapshot be opened under a lock?
    pub(super) fn wants_lock(&self, config: &Config) -> bool {
        config.lock_briefly && self.tries >= TRIES
    }
}

/// Where a copy's messages go, and whose they are.
pub(super) struct Line {
    pub(super) table: cdc_core::TableId,
    pub(super) generation: u64,
    pub(super) messages: mpsc::Sender<Message>,
}

impl Line {
    /// False if nobody listens any more.
    async fn tell(&self, told: Told) -> bool {
        let message = Message::Exact { table: self.table.clone(), generation: self.generation, told };
        self.messages.send(message).await.is_ok()
    }
}

/// Opens snapshots until one is exact, and reads it.
pub(super) async fn copy(config: Config, server: Server, schema: Arc<TableSchema>, lock: bool, line: Line) {
    let result = try_copy(&config, &server, &schema, lock, &line).await;
    if result.as_ref().is_err_and(Error::is_transient) {
        // the next try begins with the answer to this one
        tokio::time::sleep(super::RECONNECT).await;
    }
    line.tell(Told::End(result)).await;
}

async fn try_copy(
    config: &Config,
    server: &Server,
    schema: &Arc<TableSchema>,
    mut lock: bool,
    line: &Line,
) -> Result<Option<LogPoint>> {
    let mut conn = chunk::open(config, server).await?;
    charsets::ensure(&mut conn, [schema]).await?;
    ensure_transactional(&mut conn, schema).await?;
    let mut wait = Duration::from_millis(1);
    loop {
        let (low, high) = open(&mut conn, config, server, schema, lock).await?;
        let (reply, verdict) = oneshot::channel();
        if !line.tell(Told::Opened { low, high, reply }).await {
            return Ok(None);
        }
        match verdict.await {
            Ok(Verdict::Read) => break,
            Ok(Verdict::Again { lock: next }) => {
                lock = next;
                // not at the rate of the table's writers
                tokio::time::sleep(wait).await;
                wait = (2 * wait).min(Duration::from_millis(100));
            }
            // not wanted any more
            Err(_) => return Ok(None),
        }
    }
    read(&mut conn, config, schema, line).await?;
    // no lock keeps DDL from the table until its first row is read: what the SELECT may have seen lies in front of this
    let high = watermark::written_end(&mut conn, server).await?;
    let _ = conn.query_drop("COMMIT").await;
    let _ = conn.disconnect().await;
    Ok(Some(high))
}

/// An engine without snapshots is read as of now, row by row: there is no one point at which the rows were these.
async fn ensure_transactional(conn: &mut Conn, schema: &TableSchema) -> Result<()> {
    let sql = "SELECT t.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t \
               LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE \
               WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ?";
    let row: Option<(Option<String>, Option<String>)> = conn
        .exec_first(sql, (&*schema.id.database, &*schema.id.table))
        .await
        .map_err(|e| query_error(e, "asking for a table's engine"))?;
    match row {
        Some((Some(engine), transactions)) if transactions.as_deref() != Some("YES") => Err(Error::definite(
            codes::SNAPSHOT_UNSAFE,
            format!(
                "table \"{}\" has no key, and its engine {engine} has no snapshots: no copy of it is exact",
                schema.id
            ),
        )
        .help(
            "give it a key, ALTER TABLE .. ENGINE = InnoDB, or leave it out: tables = [.., \"!db.table\"]",
        )),
        _ => Ok(()),
    }
}

/// Opens a snapshot on this connection.
async fn open(
    conn: &mut Conn,
    config: &Config,
    server: &Server,
    schema: &TableSchema,
    lock: bool,
) -> Result<(Watermark, LogPoint)> {
    if server.flavor == Flavor::MariaDb {
        let low = watermark::low(conn, server).await?;
        let high = low.point().clone();
        return Ok((low, high));
    }
    let locked = if lock { Some(lock_table(config, schema).await?) } else { None };
    let low = watermark::low(conn, server).await?;
    conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        .await
        .map_err(|e| query_error(e, "opening a consistent snapshot"))?;
    let high = watermark::written_end(conn, server).await?;
    if let Some(mut conn) = locked {
        conn.query_drop("UNLOCK TABLES").await.map_err(|e| query_error(e, "unlocking a table"))?;
        let _ = conn.disconnect().await;
    }
    Ok((low, high))
}

async fn lock_table(config: &Config, schema: &TableSchema) -> Result<Conn> {
    let mut conn = connect(config).await?;
    let name = name_of(schema);
    conn.query_drop("SET SESSION lock_wait_timeout = 10")
        .await
        .map_err(|e| query_error(e, "locking a table"))?;
    conn.query_drop(format!("FLUSH TABLES {name} WITH READ LOCK"))
        .await
        .map_err(|e| query_error(e, &format!("locking table \"{}\" for its snapshot", schema.id)))
        .map_err(|e| {
            e.help("lock = brief needs: GRANT RELOAD, LOCK TABLES ON *.* TO the source's account")
        })?;
    Ok(conn)
}

fn name_of(schema: &TableSchema) -> String {
    format!("{}.{}", quote_name(&schema.id.database), quote_name(&schema.id.table))
}

/// Is the table another one by now? Then what cannot be decoded is of a statement that the log reader will come to.
async fn has_moved(config: &Config, schema: &TableSchema) -> Result<bool> {
    let mut conn = connect(config).await?;
    let only = Config { tables: TableSet::only([&schema.id]), ..config.clone() };
    let found = discover(&mut conn, &only).await;
    let _ = conn.disconnect().await;
    match found {
        Ok((structures, _)) => Ok(structures.get(&schema.id).is_none_or(|now| now.columns != schema.columns)),
        Err(error) if error.code() == codes::NO_TABLES => Ok(true),
        Err(error) => Err(error),
    }
}

/// All rows, in one pass.
async fn read(conn: &mut Conn, config: &Config, schema: &Arc<TableSchema>, line: &Line) -> Result<()> {
    let decoder = ResultDecoder::new(schema)?;
    let sql = format!("SELECT {} FROM {}", decoder.select_list(), name_of(schema));
    let failed = |e: mysql_async::Error| {
        // dropped or altered behind the snapshot, which the log reader will come to
        let moved = matches!(server_code(&e), Some(1146 | 1054 | 1412 | 1049 | 1051));
        let error = query_error(e, "reading a table without a key");
        if moved { Error::transient(codes::CHUNK_FAILED, error.to_string()) } else { error }
    };
    let mut result = conn.exec_iter(sql, ()).await.map_err(failed)?;
    let mut builder = RowBuilder::new();
    let mut values = Vec::new();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = result.next().await.map_err(failed)? {
        values.clear();
        values.extend(row.unwrap_raw().into_iter().map(|v| v.unwrap_or(mysql_async::Value::NULL)));
        let row = match decoder.decode(&mut builder, &values) {
            Ok(row) => row,
            Err(error) if has_moved(config, schema).await? => {
                return Err(Error::transient(codes::CHUNK_FAILED, error.to_string()));
            }
            Err(error) => return Err(error),
        };
        bytes += row.as_bytes().len();
        rows.push(row);
        if rows.len() as u64 >= config.chunk_rows || bytes >= config.chunk_bytes {
            bytes = 0;
            if !line.tell(Told::Rows(std::mem::take(&mut rows))).await {
                return Ok(());
            }
        }
    }
    if !rows.is_empty() {
        line.tell(Told::Rows(rows)).await;
    }
    Ok(())
}
