//! A chunk: a range of the whole key, its SQL, and reading it.
//!
//! Bounds are values of the key's columns, compared by the server only. The condition is spelled out
//! (`a > x OR (a = x AND b > y)`): MySQL answers this form from the index; a row constructor `(a, b) > (x, y)`
//! it does not (manual 10.2.1.22).

use crate::binlog::LogPoint;
use crate::charsets;
use crate::config::{Config, Point};
use crate::conn::{connect, query_error, server_code};
use crate::decode::result::ResultDecoder;
use crate::server::Server;
use crate::snapshot::watermark::{self, written_end};
use cdc_core::{Error, Result, Row, RowBuilder, TableSchema, Value, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::fmt::Write;
use std::sync::Arc;

/// A range of keys: above `lower` (excluded), up to `upper` (included); open where there is none.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, Default)]
pub struct KeyRange {
    /// Packed key columns; excluded.
    pub lower: Option<Row>,
    /// Packed key columns; included.
    pub upper: Option<Row>,
}

/// A table's key as the snapshot uses it: which columns, and how to ask for them.
#[derive(Debug, Clone)]
pub struct ChunkKey {
    /// The table's shape.
    pub schema: Arc<TableSchema>,
    /// Indexes of the key's columns.
    pub columns: Vec<usize>,
    key_schema: Arc<TableSchema>,
}

impl ChunkKey {
    /// The key of a table; `None` if it has none.
    pub fn of(schema: &Arc<TableSchema>) -> Option<ChunkKey> {
        let columns = schema.key()?.to_vec();
        let mut key_schema = TableSchema::clone(schema);
        key_schema.columns = columns.iter().map(|&i| schema.columns[i].clone()).collect();
        key_schema.primary_key = (0..columns.len()).collect();
        key_schema.unique_keys = Vec::new();
        Some(ChunkKey { schema: schema.clone(), columns, key_schema: Arc::new(key_schema) })
    }

    /// The shape of a packed key.
    pub fn key_schema(&self) -> &Arc<TableSchema> {
        &self.key_schema
    }

    fn name(&self, i: usize) -> String {
        quote_name(&self.schema.columns[self.columns[i]].name)
    }

    /// `FROM` with the table, and the index where it has a name that is known.
    pub fn from(&self) -> String {
        let hint = if self.schema.primary_key.is_empty() { "" } else { " FORCE INDEX (PRIMARY)" };
        format!("FROM {}.{}{hint}", quote_name(&self.schema.id.database), quote_name(&self.schema.id.table))
    }

    /// The key's columns, for ORDER BY.
    pub fn order(&self) -> String {
        (0..self.columns.len()).map(|i| self.name(i)).collect::<Vec<_>>().join(", ")
    }

    /// The condition of a range, with `WHERE`; empty for the whole table.
    pub fn condition(&self, range: &KeyRange) -> String {
        let mut parts = Vec::new();
        if let Some(lower) = &range.lower {
            parts.push(self.compare(lower, ">", ">"));
        }
        if let Some(upper) = &range.upper {
            parts.push(self.compare(upper, "<", "<="));
        }
        if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) }
    }

    /// `a = x AND b = y`, for one key.
    pub fn equals(&self, key: &Row) -> String {
        let parts: Vec<String> =
            key.iter().enumerate().map(|(i, v)| format!("{} = {}", self.name(i), literal(&v))).collect();
        parts.join(" AND ")
    }

    fn compare(&self, bound: &Row, strict: &str, last: &str) -> String {
        let values: Vec<String> = bound.iter().map(|v| literal(&v)).collect();
        let mut out = String::from("(");
        for i in 0..values.len() {
            if i > 0 {
                out.push_str(" OR ");
            }
            let op = if i + 1 == values.len() { last } else { strict };
            out.push('(');
            for (j, value) in values.iter().enumerate().take(i) {
                let _ = write!(out, "{} = {value} AND ", self.name(j));
            }
            let _ = write!(out, "{} {op} {})", self.name(i), values[i]);
        }
        out.push(')');
        out
    }
}

/// A name in backticks.
pub fn quote_name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A value as SQL text that the server reads back as the same value, whatever the connection's character set.
/// ENUM and SET are given by number: their `>` against text and their ORDER BY differ.
pub fn literal(value: &Value<'_>) -> String {
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut out, b| {
            let _ = write!(out, "{b:02X}");
            out
        })
    };
    match value {
        Value::Null | Value::Absent => "NULL".into(),
        Value::Int(v) => v.to_string(),
        Value::UInt(v) | Value::Bit(v) => v.to_string(),
        Value::Float(v) => format!("{:e}", f64::from(*v)),
        Value::Double(v) => format!("{v:e}"),
        Value::Decimal(v) => v.to_string(),
        Value::Date(v) => format!("'{v}'"),
        Value::Time(v) => format!("'{}'", v.to_text(6)),
        Value::DateTime(v) => format!("'{}'", v.to_text(6)),
        Value::Timestamp(v) => format!("'{}'", v.to_text(6)),
        Value::Year(v) => v.to_string(),
        Value::Enum { index, .. } => index.to_string(),
        Value::Set { bits, .. } => bits.to_string(),
        Value::Text(v) | Value::Json(v) => format!("_utf8mb4 X'{}'", hex(v.as_bytes())),
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => format!("X'{}'", hex(v)),
    }
}

/// What is to be read.
#[derive(Debug, Clone)]
pub struct ChunkJob {
    /// Which rows.
    pub range: KeyRange,
    /// For a small chunk: one key instead of a range.
    pub key: Option<Row>,
    /// The table's key.
    pub table: Arc<ChunkKey>,
    /// The most rows; a range that holds more is cut behind them.
    pub limit: u64,
    /// The most bytes of rows; a range that holds more is cut behind them.
    pub bytes: usize,
}

/// What was read.
#[derive(Debug)]
pub struct ChunkRows {
    /// Key and row, in the order of the key.
    pub rows: Vec<(Row, Row)>,
    /// The written end of the log after the SELECT.
    pub high: LogPoint,
    /// The range that was cut off and is still to be read.
    pub rest: Option<KeyRange>,
}

/// Why a chunk was not read.
#[derive(Debug)]
pub enum ChunkError {
    /// The table is not as it was: wait until the log reader has reached this point, and look again.
    Moved(LogPoint, Error),
    /// Another error.
    Failed(Error),
}

impl From<Error> for ChunkError {
    fn from(error: Error) -> Self {
        ChunkError::Failed(error)
    }
}

/// A connection for chunks, on the server that the log is read from.
///
/// # Errors
/// `SERVER_CHANGED` (transient: behind a proxy the next try may reach the right one).
pub async fn open(config: &Config, server: &Server) -> Result<Conn> {
    let mut conn = connect(config).await?;
    let found = Server::ask(&mut conn).await?;
    if found.id != server.id {
        return Err(Error::transient(
            codes::SERVER_CHANGED,
            format!("the url leads to server {} where the log is read from server {}", found.id, server.id),
        ));
    }
    Ok(conn)
}

/// The SELECT of a chunk.
pub fn select(job: &ChunkJob, decoder: &ResultDecoder) -> String {
    let table = &job.table;
    match &job.key {
        Some(key) => format!("SELECT {} {} WHERE {}", decoder.select_list(), table.from(), table.equals(key)),
        None => format!(
            "SELECT {} {}{} ORDER BY {} LIMIT {}",
            decoder.select_list(),
            table.from(),
            table.condition(&job.range),
            table.order(),
            job.limit + 1
        ),
    }
}

/// SELECT, then the high watermark. The low watermark has been accepted before.
///
/// # Errors
/// See [`ChunkError`].
pub async fn read(
    conn: &mut Conn,
    server: &Server,
    config: &Config,
    job: &ChunkJob,
) -> std::result::Result<ChunkRows, ChunkError> {
    config.reach(Point::AfterLow, &job.table.schema.id);
    charsets::ensure(conn, [&job.table.schema]).await?;
    let decoder = ResultDecoder::new(&job.table.schema)?;
    let sql = select(job, &decoder);
    let rows = match read_rows(conn, job, &sql, &decoder).await {
        Ok(rows) => rows,
        Err(ReadError::Server(error)) => {
            // unknown table or column, table definition changed, no such database: DDL that the log
            // reader has not reached yet, or that the SELECT ran into
            if matches!(server_code(&error), Some(1146 | 1054 | 1412 | 1049 | 1051 | 1176)) {
                let high = written_end(conn, server).await?;
                return Err(ChunkError::Moved(high, query_error(error, "reading a chunk")));
            }
            return Err(ChunkError::Failed(query_error(error, "reading a chunk")));
        }
        // a column of this name with another type: the SELECT ran behind a statement that the log reader has not reached
        Err(ReadError::Value(error)) if error.code() == codes::VALUE_UNDECODABLE => {
            let high = written_end(conn, server).await?;
            return Err(ChunkError::Moved(high, error));
        }
        Err(ReadError::Value(error)) => return Err(ChunkError::Failed(error)),
    };
    config.reach(Point::BeforeHigh, &job.table.schema.id);
    let high = written_end(conn, server).await?;
    watermark::release(conn, server).await?;
    config.reach(Point::AfterHigh, &job.table.schema.id);
    let (rows, cut) = rows;
    let rest = cut
        .then(|| {
            rows.last().map(|(key, _)| KeyRange { lower: Some(key.clone()), upper: job.range.upper.clone() })
        })
        .flatten();
    Ok(ChunkRows { rows, high, rest })
}

enum ReadError {
    Server(mysql_async::Error),
    Value(Error),
}

type KeyedRows = Vec<(Row, Row)>;

/// The rows with their keys, and whether the limit cut some off.
async fn read_rows(
    conn: &mut Conn,
    job: &ChunkJob,
    sql: &str,
    decoder: &ResultDecoder,
) -> std::result::Result<(KeyedRows, bool), ReadError> {
    let mut result = conn.exec_iter(sql, ()).await.map_err(ReadError::Server)?;
    let mut keys = crate::binlog::rows::KeyExtractor::new(&job.table.schema, &job.table.columns);
    let mut builder = RowBuilder::new();
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut cut = false;
    let mut values = Vec::new();
    while let Some(row) = result.next().await.map_err(ReadError::Server)? {
        if cut {
            continue;
        }
        if rows.len() as u64 >= job.limit || (bytes >= job.bytes && !rows.is_empty()) {
            // the rest of the answer is read and dropped: it is at most a chunk's worth
            cut = true;
            continue;
        }
        values.clear();
        // `None` marks values that were taken, and nothing was
        values.extend(row.unwrap_raw().into_iter().map(|v| v.unwrap_or(mysql_async::Value::NULL)));
        let row = decoder.decode(&mut builder, &values).map_err(ReadError::Value)?;
        bytes += row.as_bytes().len();
        let key = keys.key(&row);
        rows.push((key, row));
    }
    Ok((rows, cut))
}
