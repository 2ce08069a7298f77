//! Cuts tables into chunks, a few chunks ahead of the readers, with the server's own order of keys.
//!
//! *No chunk holds more than twice the wanted rows when it is cut.* Where the key is one integer and dense (the
//! span of its values is at most twice the rows the server reckons with), a chunk is `k` values wide, so it holds
//! at most `k` rows, whatever the reckoning was worth. Else the server is asked for the key `k` rows on, from the
//! index. The first chunk is open below and the last one open above; a reader that finds more rows than it
//! should cuts the chunk again ([`crate::snapshot::chunk::read`]).
//!
//! Only the point up to which a table has been cut and the chunks that are not finished are ever held, so the
//! list of chunks does not grow with the table.

use crate::binlog::LogPoint;
use crate::charsets;
use crate::config::Config;
use crate::conn::query_error;
use crate::decode::result::ResultDecoder;
use crate::server::Server;
use crate::snapshot::chunk::{ChunkKey, KeyRange, open};
use crate::snapshot::watermark::written_end;
use cdc_core::{ColumnType, Result, Row, RowBuilder, Value};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A table to be cut, from where it was cut to before.
#[derive(Debug, Clone)]
pub struct SplitJob {
    /// Its key.
    pub key: Arc<ChunkKey>,
    /// Cut up to here.
    pub cut_to: Option<Row>,
}

/// What the splitter tells.
#[derive(Debug)]
pub enum Split {
    /// Rows of a table and bytes of a row, as the server reckons.
    Estimate(Arc<ChunkKey>, u64, u64),
    /// The next chunk of a table. One without an upper bound is its last.
    Chunk(Arc<ChunkKey>, KeyRange),
    /// It could not be cut, and the written end of the log then: a definite error may be the sight of a DDL that the
    /// log reader has not reached.
    Failed(cdc_core::Error, Option<LogPoint>),
}

/// Cuts tables one after the other; ends when all are cut or nobody listens.
pub async fn run(config: Config, server: Server, jobs: Vec<SplitJob>, out: mpsc::Sender<Split>) {
    let mut conn = match open(&config, &server).await {
        Ok(conn) => conn,
        Err(error) => {
            let _ = out.send(Split::Failed(error, None)).await;
            return;
        }
    };
    for job in jobs {
        match split(&mut conn, &job, &config, &out).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let point = match error.is_transient() {
                    true => None,
                    false => written_end(&mut conn, &server).await.ok(),
                };
                let _ = out.send(Split::Failed(error, point)).await;
                return;
            }
        }
    }
    let _ = conn.disconnect().await;
}

/// False if nobody listens any more.
async fn split(conn: &mut Conn, job: &SplitJob, config: &Config, out: &mpsc::Sender<Split>) -> Result<bool> {
    charsets::ensure(conn, [&job.key.schema]).await?;
    let (estimate, bytes) = estimate(conn, &job.key).await?;
    // so that a chunk's rows fit into its bytes
    let rows = config.chunk_rows.min((config.chunk_bytes as u64 / bytes.max(1)).max(1));
    if out.send(Split::Estimate(job.key.clone(), estimate, bytes)).await.is_err() {
        return Ok(false);
    }
    let mut dense = dense_range(conn, job, estimate).await?;
    let mut lower = job.cut_to.clone();
    loop {
        let upper = match &mut dense {
            Some(dense) => dense.next(rows),
            None => next_bound(conn, &job.key, lower.as_ref(), rows).await?,
        };
        let last = upper.is_none();
        let range = KeyRange { lower, upper: upper.clone() };
        if out.send(Split::Chunk(job.key.clone(), range)).await.is_err() {
            return Ok(false);
        }
        if last {
            return Ok(true);
        }
        lower = upper;
    }
}

/// Rows of the table and bytes of a row, as the server reckons.
async fn estimate(conn: &mut Conn, key: &ChunkKey) -> Result<(u64, u64)> {
    let doing = "asking for the size of a table";
    let _ = conn.query_drop("SET SESSION information_schema_stats_expiry = 0").await;
    let sql = "SELECT TABLE_ROWS, AVG_ROW_LENGTH FROM information_schema.TABLES \
               WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?";
    let id = &key.schema.id;
    let row: Option<(Option<u64>, Option<u64>)> =
        conn.exec_first(sql, (&*id.database, &*id.table)).await.map_err(|e| query_error(e, doing))?;
    Ok(row.map_or((0, 0), |(rows, bytes)| (rows.unwrap_or(0), bytes.unwrap_or(0))))
}

/// The key `rows` keys above `lower`; none if there are not so many.
async fn next_bound(conn: &mut Conn, key: &ChunkKey, lower: Option<&Row>, rows: u64) -> Result<Option<Row>> {
    let decoder = ResultDecoder::new(key.key_schema())?;
    let condition = key.condition(&KeyRange { lower: lower.cloned(), upper: None });
    let sql = format!(
        "SELECT {} {}{condition} ORDER BY {} LIMIT 1 OFFSET {}",
        decoder.select_list(),
        key.from(),
        key.order(),
        rows - 1
    );
    let row: Option<mysql_async::Row> =
        conn.exec_first(sql, ()).await.map_err(|e| query_error(e, "cutting a table into chunks"))?;
    let Some(row) = row else { return Ok(None) };
    decoder.decode(&mut RowBuilder::new(), &row.unwrap()).map(Some)
}

/// Integer keys without many gaps: bounds by arithmetic.
struct Dense {
    at: i128,
    max: i128,
    unsigned: bool,
}

impl Dense {
    fn next(&mut self, rows: u64) -> Option<Row> {
        self.at += i128::from(rows);
        if self.at >= self.max {
            return None;
        }
        let value = if self.unsigned { Value::UInt(self.at as u64) } else { Value::Int(self.at as i64) };
        Some(Row::pack([value]))
    }
}

/// The span of values may be this many times the rows.
const DENSE: i128 = 2;

async fn dense_range(conn: &mut Conn, job: &SplitJob, estimate: u64) -> Result<Option<Dense>> {
    let key = &job.key;
    let [column] = key.columns[..] else { return Ok(None) };
    let ColumnType::Int { unsigned, .. } = key.schema.columns[column].ty else { return Ok(None) };
    let name = key.order();
    let condition = key.condition(&KeyRange { lower: job.cut_to.clone(), upper: None });
    let sql = format!("SELECT MIN({name}), MAX({name}) {}{condition}", key.from());
    let row: Option<(mysql_async::Value, mysql_async::Value)> =
        conn.exec_first(sql, ()).await.map_err(|e| query_error(e, "cutting a table into chunks"))?;
    let whole = |v: &mysql_async::Value| match v {
        mysql_async::Value::Int(v) => Some(i128::from(*v)),
        mysql_async::Value::UInt(v) => Some(i128::from(*v)),
        _ => None,
    };
    let Some((Some(min), Some(max))) = row.map(|(a, b)| (whole(&a), whole(&b))) else { return Ok(None) };
    if max - min > DENSE * i128::from(estimate) {
        return Ok(None);
    }
    Ok(Some(Dense { at: min - 1, max, unsigned }))
}
