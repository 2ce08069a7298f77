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
//! *What cannot be read* may be of a statement that the log reader has not come to: the next copy begins when it is behind it,
//! and if no statement was met there, one more counts of [`super::MOVED_LIMIT`].
//! *LW must hold every transaction given out or made to wait, before a restart too*: as for chunks.

use super::Message;
use super::discover::discover;
use crate::binlog::LogPoint;
use crate::charsets;
use crate::config::Config;
use crate::conn::{connect, query_error, server_code};
use crate::decode::result::ResultDecoder;
use crate::server::{Flavor, Server};
use crate::snapshot::chunk::{self, ChunkError, quote_name};
use crate::snapshot::spill::Spill;
use crate::snapshot::watermark::{self, Watermark};
use cdc_core::plan::pattern::TableSet;
use cdc_core::schema::{Column, same_name};
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
    /// The table is not as the reader expected: wait until the log has said why.
    pub(super) wait_for: Option<LogPoint>,
    /// Copies in a row that found it so, with no statement between them.
    pub(super) moved_errors: u32,
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
    End(Result<Option<LogPoint>, ChunkError>),
}

impl Exact {
    pub(super) fn new(base: Watermark) -> Exact {
        Exact {
            generation: 0,
            spill: Spill::default(),
            base,
            state: State::Idle,
            tries: 0,
            wait_for: None,
            moved_errors: 0,
        }
    }

    /// Everything so far is void.
    pub(super) fn restart(&mut self) {
        // no copy has this number
        self.generation = 0;
        self.spill.clear();
        self.state = State::Idle;
        // it has been met
        (self.wait_for, self.moved_errors) = (None, 0);
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
    if matches!(&result, Err(ChunkError::Failed(error)) if error.is_transient()) {
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
) -> Result<Option<LogPoint>, ChunkError> {
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
    read(&mut conn, config, server, schema, line).await?;
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

/// A value could not be read. If the table is another one by now, it may be of a statement that the log reader will come to.
async fn unreadable(config: &Config, server: &Server, schema: &TableSchema, error: Error) -> ChunkError {
    match look_again(config, server, schema).await {
        Ok(Some(high)) => ChunkError::Moved(high, error),
        Ok(None) => ChunkError::Failed(error),
        // not known: this is no reason to stop
        Err(other) if other.is_transient() => ChunkError::Failed(other.note(error.to_string())),
        Err(other) => {
            ChunkError::Failed(error.note(format!("its structure could not be read again: {other}")))
        }
    }
}

/// The written end of the log, if the table is not as it was.
async fn look_again(config: &Config, server: &Server, schema: &TableSchema) -> Result<Option<LogPoint>> {
    // the rows of the other one are still on their way
    let mut conn = chunk::open(config, server).await?;
    let only = Config { tables: TableSet::only([&schema.id]), ..config.clone() };
    let has_moved = match discover(&mut conn, &only).await {
        Ok((structures, _)) => {
            structures.get(&schema.id).is_none_or(|now| reads_otherwise(&schema.columns, &now.columns))
        }
        Err(error) if error.code() == codes::NO_TABLES => true,
        Err(error) => return Err(error),
    };
    let high = watermark::written_end(&mut conn, server).await?;
    let _ = conn.disconnect().await;
    Ok(has_moved.then_some(high))
}

/// Do values of these columns come in another way now? What else is told of a column (its comment, its DEFAULT, which the log and
/// SHOW CREATE may spell in two ways) explains no value that cannot be read.
fn reads_otherwise(before: &[Column], now: &[Column]) -> bool {
    before.iter().any(|column| !now.iter().any(|c| same_name(&c.name, &column.name) && c.ty == column.ty))
}

/// The server does not give the rows.
async fn failed(conn: &mut Conn, server: &Server, error: mysql_async::Error) -> ChunkError {
    // dropped or altered behind the snapshot, which the log reader will come to
    let moved = matches!(server_code(&error), Some(1146 | 1054 | 1412 | 1049 | 1051));
    let error = query_error(error, "reading a table without a key");
    if !moved {
        return ChunkError::Failed(error);
    }
    match watermark::written_end(conn, server).await {
        Ok(high) => ChunkError::Moved(high, error),
        Err(other) => ChunkError::Failed(other),
    }
}

/// All rows, in one pass.
async fn read(
    conn: &mut Conn,
    config: &Config,
    server: &Server,
    schema: &Arc<TableSchema>,
    line: &Line,
) -> Result<(), ChunkError> {
    let decoder = ResultDecoder::new(schema)?;
    let sql = format!("SELECT {} FROM {}", decoder.select_list(), name_of(schema));
    let mut result = match conn.exec_iter(sql, ()).await {
        Ok(result) => result,
        Err(error) => return Err(failed(conn, server, error).await),
    };
    let mut builder = RowBuilder::new();
    let mut values = Vec::new();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    loop {
        let row = match result.next().await {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) => {
                drop(result);
                return Err(failed(conn, server, error).await);
            }
        };
        values.clear();
        values.extend(row.unwrap_raw().into_iter().map(|v| v.unwrap_or(mysql_async::Value::NULL)));
        let row = match decoder.decode(&mut builder, &values) {
            Ok(row) => row,
            Err(error) => return Err(unreadable(config, server, schema, error).await),
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

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::{Charset, ColumnType};

    #[test]
    fn a_comment_or_a_default_in_two_spellings_explains_no_value() {
        let column = |name: &str, length: u32| {
            Column::new(name, ColumnType::VarChar { length, charset: Charset::utf8mb4() })
        };
        let before = [column("a", 5), column("b", 5)];
        let told = Column { comment: "x".into(), default: Some("now()".into()), ..column("a", 5) };
        assert!(!reads_otherwise(&before, &[column("c", 1), column("B", 5), told]));
        assert!(reads_otherwise(&before, &[column("a", 5), column("b", 6)]));
        assert!(reads_otherwise(&before, &[column("a", 5)]));
    }
}
