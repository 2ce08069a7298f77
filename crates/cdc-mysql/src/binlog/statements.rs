//! Which statement made a row event, where its images do not say enough ([`super::partial`]): MariaDB notes the texts of
//! statements in its log (`binlog_annotate_row_events`, on by default). It sends them only to those who ask for them when
//! they ask for the log, which the library cannot; so they are asked for with SHOW BINLOG EVENTS, many at a time, on a
//! connection of its own. Files have them.

use crate::config::Config;
use crate::conn::{connect, query_error};
use crate::ddl;
use crate::structure::TableStructures;
use cdc_core::{Result, TableId};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::VecDeque;
use std::sync::Arc;

/// Events asked for at a time.
const EVENTS: u32 = 400;

/// A row event of a transaction. Positions do not tell: inside of a transaction MariaDB 11.8 writes none into its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The file.
    pub(super) file: Arc<str>,
    /// Where the transaction begins.
    pub(super) begin: u64,
    /// Which of its row events, from 1.
    pub(super) number: u64,
}

/// The texts of a stretch of one log file, read from front to back.
#[derive(Debug, Default)]
pub(super) struct Statements {
    /// The row event in front of the stretch; its number is 0 where that is the beginning of the transaction.
    passed: Option<Place>,
    /// The text in front of it.
    text: Option<Arc<str>>,
    ahead: VecDeque<(u64, What)>,
    /// The last event asked for.
    last: u64,
    /// There was nothing behind it.
    at_end: bool,
    conn: Option<Conn>,
}

#[derive(Debug)]
enum What {
    Begin,
    Text(Arc<str>),
    Rows,
    Other,
}

impl Statements {
    /// The text in front of a row event, if there is one; `Err` if it has to be asked for.
    pub(super) fn text(&mut self, place: &Place) -> std::result::Result<Option<Arc<str>>, ()> {
        let goes_on = |p: &Place| p.file == place.file && p.begin == place.begin && p.number <= place.number;
        if !self.passed.as_ref().is_some_and(goes_on) {
            let same_file = self.passed.as_ref().is_some_and(|p| p.file == place.file);
            while same_file && self.ahead.front().is_some_and(|(at, _)| *at < place.begin) {
                self.ahead.pop_front();
            }
            if !same_file || self.ahead.front().is_none_or(|(at, _)| *at != place.begin) {
                return Err(());
            }
            self.ahead.pop_front();
            (self.passed, self.text) = (Some(Place { number: 0, ..place.clone() }), None);
        }
        let Some(passed) = &mut self.passed else { return Err(()) };
        while passed.number < place.number {
            match self.ahead.front() {
                Some((_, What::Begin)) => return Ok(None),
                None if self.at_end => return Ok(None),
                None => return Err(()),
                Some((_, What::Text(text))) => self.text = Some(text.clone()),
                Some((_, What::Rows)) => passed.number += 1,
                Some((_, What::Other)) => {}
            }
            self.ahead.pop_front();
        }
        Ok(self.text.clone())
    }

    /// Asks for more, on the way to this event.
    pub(super) async fn ask(mut self, config: Config, place: Place) -> Result<Statements> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => connect(&config).await?,
        };
        let inside = self.passed.as_ref().is_some_and(|p| p.file == place.file && p.begin == place.begin);
        if !inside {
            // the transaction is the first event
            let passed = Some(Place { begin: place.begin, file: place.file.clone(), number: 0 });
            self = Statements { passed, last: place.begin, ..Statements::default() };
        }
        let sql = format!(
            "SHOW BINLOG EVENTS IN '{}' FROM {} LIMIT {EVENTS}",
            place.file.replace('\'', "''"),
            self.last
        );
        let events: Vec<mysql_async::Row> =
            conn.query(sql).await.map_err(|e| query_error(e, "asking for the texts of statements"))?;
        // the first is the one that was the last
        self.at_end = events.len() < 2;
        for event in events.into_iter().skip(1) {
            let (Some(at), Some(kind)) = (event.get::<u64, _>(1), event.get::<String, _>(2)) else {
                continue;
            };
            self.last = at;
            let what = match &*kind {
                "Gtid" => What::Begin,
                "Annotate_rows" => What::Text(
                    String::from_utf8_lossy(&event.get::<Vec<u8>, _>(5).unwrap_or_default()).into(),
                ),
                kind if kind.contains("_rows") => What::Rows,
                _ => What::Other,
            };
            self.ahead.push_back((at, what));
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
