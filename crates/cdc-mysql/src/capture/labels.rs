//! Labels of ENUM and SET that a server does not print.
//!
//! A server's dictionary is in utf8mb3. Where SHOW CREATE TABLE and `information_schema` print a label, each character beyond
//! U+FFFF is a `?`, whatever the session's character set is (MySQL 9.7, MariaDB 10.11 and 11.8). Rows come by number, in
//! the snapshot as in the log, and get their labels from the structure: a smiley would arrive as a question mark, without a word.
//!
//! So where a column's character set has such characters and a label is printed with a `?`, its text is asked for. In this order:
//!
//! 1. *A temporary table* with that one column, into which the labels' numbers are put, reads them out. It takes the privilege
//!    CREATE TEMPORARY TABLES on the database; nothing of it is logged.
//! 2. *A row* that holds the label is looked for, [`LOOKING`] at most, since there may be no index and no such row.
//! 3. If there is no row, the label is taken as it is printed, where the log will tell: with `binlog_row_metadata = FULL` it holds
//!    the labels, and they are compared in front of the first row. Else the start is refused: nobody knows what will come.
//!
//! Statements in the log hold labels as they were written; only a structure that is read from the server passes here.

use crate::conn::{query_error, server_code};
use crate::server::Server;
use crate::snapshot::chunk::quote_name;
use cdc_core::schema::{ColumnType, TableSchema};
use cdc_core::{Error, Result, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long rows of a table are looked for.
const LOOKING: Duration = Duration::from_secs(20);

/// The temporary table: of this session, and no other sees it.
const ASIDE: &str = "_cdc_labels";

/// What was found of a label.
enum Found {
    Text(Arc<str>),
    /// No row holds it.
    NoRow,
    /// There was not enough time.
    Late,
}

/// Puts right the labels of a structure as the server has printed it.
pub(super) async fn complete(conn: &mut Conn, server: &Server, schema: &mut TableSchema) -> Result<()> {
    let deadline = Instant::now() + LOOKING;
    for at in 0..schema.columns.len() {
        let column = &schema.columns[at];
        let (ColumnType::Enum { labels, charset } | ColumnType::Set { labels, charset }) = &column.ty else {
            continue;
        };
        if !is_beyond_dictionary(&charset.name) {
            continue;
        }
        let doubtful: Vec<usize> = (0..labels.len()).filter(|i| labels[*i].contains('?')).collect();
        if doubtful.is_empty() {
            continue;
        }
        let mut known = labels.to_vec();
        let look = Look {
            database: quote_name(&schema.id.database),
            table: format!("{}.{}", quote_name(&schema.id.database), quote_name(&schema.id.table)),
            column: quote_name(&column.name),
            is_set: matches!(column.ty, ColumnType::Set { .. }),
        };
        if let Some(texts) = look.aside(conn, &doubtful).await? {
            for (label, text) in texts {
                known[label] = text;
            }
        } else {
            let mut unknown = Vec::new();
            for label in doubtful {
                match look.in_rows(conn, server, label, deadline).await? {
                    Found::Text(text) => known[label] = text,
                    Found::NoRow if log_has_labels(conn).await? => {}
                    Found::NoRow | Found::Late => unknown.push(&*labels[label]),
                }
            }
            if !unknown.is_empty() {
                return Err(cannot_be_told(server, schema, &column.name, &unknown));
            }
        }
        let (charset, labels) = (charset.clone(), Arc::from(known));
        schema.columns[at].ty = if look.is_set {
            ColumnType::Set { labels, charset }
        } else {
            ColumnType::Enum { labels, charset }
        };
    }
    Ok(())
}

/// Has the character set characters that the dictionary has not?
fn is_beyond_dictionary(charset: &str) -> bool {
    matches!(charset, "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030")
}

/// A column whose labels are asked for; names are quoted.
struct Look {
    database: String,
    table: String,
    column: String,
    is_set: bool,
}

impl Look {
    /// The number that stands for a label alone.
    fn number(&self, label: usize) -> u64 {
        if self.is_set { 1 << label } else { label as u64 + 1 }
    }

    /// By a temporary table; `None` where the account may not make one.
    async fn aside(&self, conn: &mut Conn, labels: &[usize]) -> Result<Option<Vec<(usize, Arc<str>)>>> {
        let doing = "looking at the labels of a column";
        let aside = format!("{}.{ASIDE}", self.database);
        let make =
            format!("CREATE TEMPORARY TABLE {aside} SELECT {} FROM {} LIMIT 0", self.column, self.table);
        match conn.query_drop(make).await {
            Ok(()) => {}
            // no privilege, a server that is read-only through and through, ..
            Err(mysql_async::Error::Server(_)) => return Ok(None),
            Err(e) => return Err(query_error(e, doing)),
        }
        let mut texts = Vec::with_capacity(labels.len());
        for label in labels {
            let number = self.number(*label);
            for sql in [format!("DELETE FROM {aside}"), format!("INSERT INTO {aside} VALUES ({number})")] {
                conn.query_drop(sql).await.map_err(|e| query_error(e, doing))?;
            }
            let read = format!("SELECT CONVERT({} USING utf8mb4) FROM {aside}", self.column);
            let row: Option<Vec<u8>> = conn.query_first(read).await.map_err(|e| query_error(e, doing))?;
            texts.push((*label, text(row.unwrap_or_default())?));
        }
        conn.query_drop(format!("DROP TEMPORARY TABLE {aside}")).await.map_err(|e| query_error(e, doing))?;
        Ok(Some(texts))
    }

    /// By a row that holds the label.
    async fn in_rows(
        &self,
        conn: &mut Conn,
        server: &Server,
        label: usize,
        deadline: Instant,
    ) -> Result<Found> {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        if left == 0 {
            return Ok(Found::Late);
        }
        let (column, table, number) = (&self.column, &self.table, self.number(label));
        let condition = if self.is_set {
            format!("CAST({column} AS UNSIGNED) & {number} <> 0")
        } else {
            // by number, so that an index serves
            format!("{column} = {number}")
        };
        let select = format!(
            "CAST({column} AS UNSIGNED), CONVERT({column} USING utf8mb4) FROM {table} WHERE {condition} LIMIT 1"
        );
        let sql = if server.is_mariadb() {
            format!("SET STATEMENT max_statement_time = {} FOR SELECT {select}", left.div_ceil(1000))
        } else {
            format!("SELECT /*+ MAX_EXECUTION_TIME({left}) */ {select}")
        };
        let row: Option<(u64, Vec<u8>)> = match conn.query_first(sql).await {
            Ok(row) => row,
            // interrupted: the time is over
            Err(e) if matches!(server_code(&e), Some(1317 | 1969 | 3024)) => return Ok(Found::Late),
            Err(e) => return Err(query_error(e, "looking for a row with a label")),
        };
        let Some((bits, labels)) = row else { return Ok(Found::NoRow) };
        let labels = text(labels)?;
        if !self.is_set {
            return Ok(Found::Text(labels));
        }
        // no label of a SET holds a comma; they stand in the order of their bits
        let before = (bits & (number - 1)).count_ones() as usize;
        Ok(labels.split(',').nth(before).map_or(Found::NoRow, |label| Found::Text(label.into())))
    }
}

fn text(bytes: Vec<u8>) -> Result<Arc<str>> {
    String::from_utf8(bytes)
        .map(Arc::from)
        .map_err(|_| Error::definite(codes::SERVER_ERROR, "the server gave a label that is not UTF-8 text"))
}

async fn log_has_labels(conn: &mut Conn) -> Result<bool> {
    let metadata: Option<String> = conn
        .query_first("SELECT CAST(@@global.binlog_row_metadata AS CHAR)")
        .await
        .map_err(|e| query_error(e, "looking at the server's setting binlog_row_metadata"))?;
    Ok(metadata.as_deref() == Some("FULL"))
}

fn cannot_be_told(server: &Server, schema: &TableSchema, column: &str, labels: &[&str]) -> Error {
    let shown: Vec<String> = labels.iter().take(5).map(|l| format!("\"{l}\"")).collect();
    let more = if labels.len() > shown.len() { ", .." } else { "" };
    let database = quote_name(&schema.id.database);
    Error::definite(
        codes::TYPE_UNSUPPORTED,
        format!("labels of column \"{column}\" of table \"{}\" cannot be told: {}{more}", schema.id, shown.join(", ")),
    )
    .note("the server prints each character beyond U+FFFF as a \"?\", and a true \"?\" in the same way; rows hold numbers only")
    .note("no row was found in time from which the label could be read, and the account may make no temporary table for it")
    .help(format!("GRANT CREATE TEMPORARY TABLES ON {database}.* TO the source's account; then it is read, and nothing is written or logged"))
    .help(format!("or let the log hold the labels: {}", server.set_for_good("binlog_row_metadata", "FULL")))
    .help(format!("or leave the table out: tables = [.., \"!{}\"]", schema.id))
}
