//! Which statement made a row event, where its images do not say enough ([`super::partial`]): MariaDB notes the texts of
//! statements in its log (`binlog_annotate_row_events`, on by default). It sends them only to those who ask for them when
//! they ask for the log, which the library cannot; so they are asked for with SHOW BINLOG EVENTS, many at a time, on a
//! connection of its own. Files have them.

use super::LogPoint;
use crate::config::Config;
use crate::conn::{connect, query_error};
use crate::ddl;
use crate::structure::TableStructures;
use cdc_core::{Result, TableId};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events asked for at a time.
const EVENTS: u32 = 400;

/// The texts of a stretch of one log file.
#[derive(Debug, Default)]
pub(super) struct Statements {
    file: Arc<str>,
    from: u64,
    to: u64,
    /// By where they begin.
    texts: BTreeMap<u64, Arc<str>>,
    conn: Option<Conn>,
}

impl Statements {
    /// The text in front of an event that ends at this point, of a transaction that begins at `begin`; `Err` if it has
    /// to be asked for.
    pub(super) fn text(&self, begin: u64, point: &LogPoint) -> std::result::Result<Option<Arc<str>>, ()> {
        if self.file != point.file || begin < self.from || point.offset > self.to {
            return Err(());
        }
        Ok(self.texts.range(begin..point.offset).next_back().map(|(_, text)| text.clone()))
    }

    /// Asks for more, such that in the end the point is covered.
    pub(super) async fn ask(mut self, config: Config, begin: u64, point: LogPoint) -> Result<Statements> {
        let doing = "asking for the texts of statements";
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => connect(&config).await?,
        };
        let goes_on = self.file == point.file && self.from <= begin && begin <= self.to;
        if !goes_on {
            self = Statements { file: point.file.clone(), from: begin, to: begin, ..Statements::default() };
        }
        // what is in front of the transaction is not asked for again
        self.texts = self.texts.split_off(&begin);
        self.from = begin;
        while self.to < point.offset {
            let sql = format!(
                "SHOW BINLOG EVENTS IN '{}' FROM {} LIMIT {EVENTS}",
                self.file.replace('\'', "''"),
                self.to
            );
            let events: Vec<mysql_async::Row> = conn.query(sql).await.map_err(|e| query_error(e, doing))?;
            let to = self.to;
            for event in events {
                let (at, kind, end) =
                    (event.get::<u64, _>(1), event.get::<String, _>(2), event.get::<u64, _>(4));
                let (Some(at), Some(kind), Some(end)) = (at, kind, end) else { continue };
                self.to = self.to.max(end);
                if kind == "Annotate_rows" {
                    let text = event.get::<Vec<u8>, _>(5).unwrap_or_default();
                    self.texts.insert(at, String::from_utf8_lossy(&text).into());
                }
            }
            if self.to == to {
                // it has nothing to say
                self.to = point.offset;
            }
        }
        self.conn = Some(conn);
        Ok(self)
    }
}

/// Has the statement with this text made an UPDATE of the table as a REPLACE? `None`: it does not tell, since it
/// does not name the table (a trigger or a function made it), or is a call.
pub(super) fn replaces(
    text: &str,
    table: &TableId,
    context: &ddl::Context<'_>,
    structures: &TableStructures,
) -> Option<bool> {
    // an unqualified name is taken for one of the table's database
    let context = context.clone().in_database(&table.database);
    let ddl::Outcome::Dml { what, tables } = ddl::parse(text, &context, structures) else { return None };
    if !tables.contains(table) {
        return None;
    }
    match what {
        "REPLACE" => Some(true),
        "INSERT" | "UPDATE" | "DELETE" => Some(false),
        "LOAD" => {
            let words = || text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            Some(words().any(|word| word.eq_ignore_ascii_case("REPLACE")))
        }
        _ => None,
    }
}
