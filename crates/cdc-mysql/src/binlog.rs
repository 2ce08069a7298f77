//! The log, transaction by transaction.
//!
//! [`LogReader`] asks the server for its log from a GTID set (or a file and position), verifies each event's
//! checksum, decodes row events of captured tables with the structure in force at that position, follows DDL,
//! and gives out [`LogItem`]s: rows, schema changes, ends of transactions, and that the position has moved.
//!
//! Connection, framing and control events are `mysql_async`'s and `mysql_common`'s; rows are decoded here
//! ([`rows`], twenty times faster than the library's). What carries rows and is not understood is an error,
//! never passed over.
//!
//! *Reconnect.* The position holds the GTIDs of whole transactions, and how many row changes of an incomplete
//! one have been given out. A new connection asks for the log from those GTIDs; the server sends the
//! incomplete transaction again from its first event, the same events in the same order, and as many row
//! changes as were given out are passed over. So nothing is lost or doubled wherever the connection broke.
//!
//! *Cancel safety.* The future of [`LogReader::next`] may be dropped at any point, and is, many times a second: it
//! waits for a connection, and for conversion tables of character sets that a DDL has brought, which tasks of their own
//! get and fields hold; and for the stream's next event; the time since the last event is a field too. All other state
//! changes after a wait happen before it returns.

mod dump;
pub mod event;
pub mod files;
mod held;
pub mod metadata;
pub mod partial;
pub mod rows;
pub mod shadow;
mod source;
mod statements;
pub mod table_map;
mod versioned;
pub mod xa;

use crate::charsets;
use crate::config::Config;
use crate::conn::{connect, query_error};
use crate::ddl::{self, online};
use crate::gtid::{Gtid, GtidSet};
use crate::server::Server;
use crate::snapshot::watermark::Mark;
use crate::structure::TableStructures;
use cdc_core::event::{Op, Origin};
use cdc_core::position::Position;
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Diagnostic, Error, Result, Row, TableId, TableSchema, codes};
use event::{Header, kind};
use futures_util::FutureExt;
use held::{Held, savepoint_of};
use mysql_common::binlog::events::Event;
use partial::{Completion, Unknown, Why};
use rows::{RowDecoder, RowsEvent, RowsKind};
use source::{EventSource, Incoming, Lost};
use statements::Statements;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};
use table_map::TableMap;
use versioned::RowsOfNow;
use xa::{Branches, Collected, branch_of};

/// How often a quiet server tells where it stands.
const HEARTBEAT: Duration = Duration::from_millis(250);

/// A stream that is silent for so long, heartbeats too, is dead: a half-open connection says nothing.
const SILENCE: Duration = Duration::from_secs(20);

/// Who asks for the next item asks again at least so often while there is none.
const ABSENT: Duration = Duration::from_secs(2);

/// Ends of XA transactions of MariaDB that are kept in mind: the engine is done with one in a moment.
const MOST_ENDED: usize = 1024;

/// A point of the log of one server; ordered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
pub struct LogPoint {
    /// The file.
    pub file: Arc<str>,
    /// The byte behind the last event.
    pub offset: u64,
}

impl LogPoint {
    /// A file and a byte in it.
    pub fn new(file: impl Into<Arc<str>>, offset: u64) -> LogPoint {
        LogPoint { file: file.into(), offset }
    }

    /// Log files are numbered; the number may outgrow its six digits.
    fn order(&self) -> (u64, u64) {
        let number = self.file.rsplit('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        (number, self.offset)
    }

    /// Is this point at or behind the other?
    pub fn has_reached(&self, other: &LogPoint) -> bool {
        self.order() >= other.order()
    }
}

impl std::fmt::Display for LogPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

/// One row change of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// Insert, update or delete.
    pub op: Op,
    /// The row before: of updates and deletes.
    pub before: Option<Row>,
    /// The row after: of inserts and updates.
    pub after: Option<Row>,
    /// A column whose value after the log does not tell; it is absent. Other absent ones are what they were.
    pub unknown: Option<Unknown>,
}

impl RowChange {
    /// Of images with all that there is to know.
    pub fn new(op: Op, before: Option<Row>, after: Option<Row>) -> RowChange {
        RowChange { op, before, after, unknown: None }
    }
}

/// What a log gives out.
#[derive(Debug, Clone)]
pub enum LogItem {
    /// Changes of one table, of one transaction, in order.
    Rows {
        /// The transaction.
        gtid: Gtid,
        /// The same, for watermarks.
        mark: Mark,
        /// The table's shape.
        schema: Arc<TableSchema>,
        /// Where they come from.
        origin: Arc<Origin>,
        /// The changes.
        changes: Vec<RowChange>,
    },
    /// A statement changed a captured table.
    Schema {
        /// The same as of its rows.
        mark: Mark,
        /// Where it comes from.
        origin: Arc<Origin>,
        /// The statement.
        statement: Arc<str>,
        /// What it does to this table, in order.
        changes: Vec<SchemaChange>,
        /// The shape before; `None` for a table created.
        before: Option<Arc<TableSchema>>,
        /// The shape after; `None` for a table dropped.
        after: Option<Arc<TableSchema>>,
    },
    /// A table that was not captured has got the name of one that is: its structure and rows are not known.
    /// Until [`LogReader::adopt`] nothing of it is given out.
    Appeared {
        /// Its name.
        table: TableId,
    },
    /// The transaction is complete: [`LogReader::position`] is a boundary.
    Commit {
        /// The transaction.
        gtid: Gtid,
    },
    /// Nothing for us, but the position has moved (a heartbeat, a rotation).
    Moved,
    /// The files are read to their end, with what is to be told of it, or the time of [`LogReader::stop_at`] has come.
    /// Asked again it is the same.
    End(Option<Box<Diagnostic>>),
}

enum Mapped {
    Captured {
        schema: Arc<TableSchema>,
        decoder: Box<RowDecoder>,
        /// Of a system-versioned table.
        of_now: Option<RowsOfNow>,
        /// For images without all columns; made when the first comes.
        completion: OnceLock<Box<Completion>>,
    },
    /// Captured, in a log of the past, and nothing tells its structure.
    Unknown(Box<Error>),
    Ignored,
}

/// What a table map of a log of the past has taught.
enum Learning {
    /// Nothing: its structure is known, or it is no table.
    Known,
    /// It is to be read again when what is pending has been given out.
    Later,
    /// It does not tell.
    Refused(Box<Error>),
}

struct CachedMap {
    body: Vec<u8>,
    mapped: Mapped,
}

struct Transaction {
    gtid: Gtid,
    mark: Mark,
    origin: Arc<Origin>,
    /// Row changes of captured tables seen so far, given out or passed over.
    rows: u64,
    /// Inside BEGIN .. COMMIT; a DDL outside it is a transaction of its own.
    begun: bool,
    /// Its statement has none: an ALTER of MariaDB that begins or is given up.
    no_effect: bool,
    /// Of XA START: the branch, and its rows.
    xa: Option<Collected>,
    /// Of MariaDB: its rows, held back until it ends, while they are few.
    held: Option<Held>,
    /// Of XA COMMIT: the branch, whose rows are these.
    resolves: Option<String>,
    /// It was given out, or is passed over, by what we begin with.
    passed: bool,
    /// Its statement has changed the structures.
    altered: bool,
    /// Row events seen so far, of whichever table.
    row_events: u64,
    /// The text of the statement whose rows come, where the log that is read holds it.
    statement: Option<Arc<str>>,
}

/// The log of a server, from a position on.
pub struct LogReader {
    config: Config,
    stream: Option<EventSource>,
    structures: TableStructures,
    gtids: GtidSet,
    /// Where the connection stands, transactions not captured or not complete too.
    point: LogPoint,
    /// The point behind the last whole transaction.
    boundary: LogPoint,
    rows_given: u64,
    rows_to_skip: u64,
    /// Something was given out of a transaction whose end was not.
    inside: bool,
    /// The incomplete transaction's statement has changed the structures, on a connection before this one
    /// (CREATE TABLE .. SELECT is one transaction with its rows).
    altered: bool,
    transaction: Option<Transaction>,
    /// What was read of the log, where that is not what was given out: the log is read from in front of it, for
    /// the sake of XA transactions.
    read_from: Option<GtidSet>,
    /// MariaDB: the transactions read on this connection, and all before.
    read: GtidSet,
    /// XA transactions that are prepared and not ended.
    branches: Branches,
    /// MariaDB: those that ended last, and where.
    ended: BTreeMap<Arc<str>, LogPoint>,
    /// Tables that came in later than the position: what these transactions did to them is passed over, their
    /// structure is of behind it. `None`: it is not known yet up to where.
    ahead: BTreeMap<TableId, Option<GtidSet>>,
    /// Of those that are not known yet: statements about them that were passed over.
    missed: BTreeMap<TableId, Vec<Gtid>>,
    /// The rows of an XA COMMIT are read again.
    again: Option<Box<LogReader>>,
    /// The branch that goes with the commit that is pending.
    resolved: Option<String>,
    /// What is committed at or after this time is not given out.
    stop_micros: Option<i64>,
    /// One of these has been met.
    over: bool,
    /// Nothing but this transaction is wanted, and its rows although it ends in a PREPARE.
    only: Option<Gtid>,
    maps: HashMap<u64, CachedMap, foldhash::fast::FixedState>,
    pending: VecDeque<LogItem>,
    /// Bytes of events that a compressed transaction still owes.
    payload_left: u64,
    /// Set for starts by file: GTIDs come from the log itself, and events before this point are passed over.
    skip_until: Option<SkipUntil>,
    events: u64,
    /// A connection on its way.
    connecting: Option<tokio::task::JoinHandle<Result<dump::Opened>>>,
    /// Of the last connection.
    server: Option<Server>,
    /// When the last event had come, and when one was last asked for.
    heard: Instant,
    asked: Instant,
    /// One has come since.
    came: bool,
    /// This connection has sent its format description.
    described: bool,
    /// A file of the log has begun on this connection.
    in_sequence: bool,
    /// The GTIDs are those of the log itself, from a file's beginning on.
    by_log: bool,
    /// The conversion tables of all structures' character sets are there.
    charsets_ensured: bool,
    /// The tables of online schema change tools: see [`shadow`].
    shadows: TableStructures,
    /// In a log of the past: the structures of now, see [`metadata`].
    present: Option<Arc<TableStructures>>,
    /// The set in which a table map names members, to be asked for.
    members_in: Option<&'static str>,
    /// A table map that is read when what it has taught has been given out, and its sets' tables are there.
    deferred: Option<Vec<u8>>,
    /// They are being asked for.
    asking_charsets: Option<tokio::task::JoinHandle<Result<()>>>,
    /// A row event whose statement must be known: it is handled when its text is there.
    unsure: Option<(u8, Vec<u8>)>,
    /// MariaDB's texts of statements, as far as they were asked for.
    statements: Statements,
    asking_statements: Option<tokio::task::JoinHandle<Result<Statements>>>,
}

/// What a start by file or by time passes over: transactions that begin before this.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SkipUntil {
    /// A point of a file.
    Point(LogPoint),
    /// A commit time, in microseconds since 1970 UTC.
    Time(i64),
}

impl LogReader {
    /// A reader that will go on from a position; nothing is asked of the server yet. `structures` are those in
    /// force at the position.
    ///
    /// # Errors
    /// `LOG_POSITION` if the position's GTID set is malformed.
    pub fn new(config: Config, position: &Position, structures: TableStructures) -> Result<LogReader> {
        let point = LogPoint::new(position.file.clone(), position.offset);
        let mut reader = LogReader::bare(config, point, structures);
        reader.gtids = GtidSet::parse(&position.gtids)?;
        reader.rows_given = position.rows;
        reader.rows_to_skip = position.rows;
        reader.inside = position.rows > 0;
        Ok(reader)
    }

    /// A reader from a point of a file on: transactions that begin before it are passed over. The log is read
    /// from the file's beginning, where the server says which GTIDs came before it.
    pub fn from_file(config: Config, point: LogPoint, structures: TableStructures) -> LogReader {
        let start = LogPoint::new(point.file.clone(), 4);
        let mut reader = LogReader::bare(config, start, structures);
        reader.skip_until = Some(SkipUntil::Point(point));
        reader
    }

    /// A reader from the first transaction committed at or after a time, in a log that begins with `file`.
    pub fn from_time(config: Config, file: &str, micros: i64, structures: TableStructures) -> LogReader {
        let mut reader = LogReader::bare(config, LogPoint::new(file, 4), structures);
        reader.skip_until = Some(SkipUntil::Time(micros));
        reader
    }

    /// A reader that goes on while transactions are still passed over: what [`LogReader::skip`] said at the position.
    ///
    /// # Errors
    /// As [`LogReader::new`].
    pub fn resume_skipping(
        config: Config,
        position: &Position,
        structures: TableStructures,
        skip: Option<SkipUntil>,
    ) -> Result<LogReader> {
        let mut reader = LogReader::new(config, position, structures)?;
        if skip.is_some() && reader.gtids.is_empty() {
            // the file has not told the GTIDs before it yet
            reader.point.offset = 4;
        }
        reader.skip_until = skip;
        Ok(reader)
    }

    /// The same reader, that reads from in front of its position: transactions which the position holds are passed
    /// over, but XA transactions that they leave open are known.
    pub fn reading_from(mut self, from: GtidSet) -> LogReader {
        self.read_from = Some(from);
        self
    }

    /// The reader, with the tools' tables that it knew: see [`shadow`].
    pub fn with_shadows(mut self, shadows: TableStructures) -> LogReader {
        self.shadows = shadows;
        self
    }

    /// The tools' tables.
    pub fn shadows(&self) -> &TableStructures {
        &self.shadows
    }

    /// The same reader, that knows these open XA transactions.
    pub fn with_branches(mut self, branches: Branches) -> LogReader {
        self.branches = branches;
        self
    }

    /// The same reader, with these tables that come in later than the position.
    pub fn with_ahead(mut self, ahead: impl IntoIterator<Item = (TableId, Option<GtidSet>)>) -> LogReader {
        self.ahead = ahead.into_iter().collect();
        self
    }

    /// The tables that came in later than the position, each with the transactions that are passed over for it.
    pub fn ahead(&self) -> &BTreeMap<TableId, Option<GtidSet>> {
        &self.ahead
    }

    /// Takes a table in whose structure is the one in force behind these transactions: what they did to it is passed
    /// over, on the way there.
    pub fn adopt(&mut self, definition: ddl::Definition, gtids: GtidSet) -> Arc<TableSchema> {
        let schema = self.structures.insert_definition(definition);
        // Held rows, and counts of rows, are without the new table's.
        for branch in self.branches.0.values_mut() {
            branch.rows = u64::MAX;
            branch.held = None;
        }
        let behind = !self.gtids.contains_set(&gtids);
        if behind {
            self.ahead.insert(schema.id.clone(), Some(gtids));
        } else {
            self.ahead.remove(&schema.id);
        }
        self.maps.clear();
        self.charsets_ensured = false;
        schema
    }

    /// Has a statement about this table been passed over that is not in this set?
    pub fn has_missed(&self, table: &TableId, gtids: &GtidSet) -> bool {
        self.missed.get(table).is_some_and(|missed| missed.iter().any(|gtid| !gtids.contains(gtid)))
    }

    /// Takes note that a table will be adopted.
    pub fn expect(&mut self, table: TableId) {
        self.missed.remove(&table);
        self.ahead.insert(table, None);
        self.maps.clear();
    }

    /// The table is not there behind these transactions: what they did to it is passed over, on the way there.
    pub fn adopt_nothing(&mut self, table: &TableId, gtids: GtidSet) {
        self.structures.forget([table]);
        if self.gtids.contains_set(&gtids) {
            self.ahead.remove(table);
        } else {
            self.ahead.insert(table.clone(), Some(gtids));
        }
        self.maps.clear();
    }

    /// The XA transactions of MariaDB that were committed last, with the points of their commits.
    pub fn ended(&self) -> &BTreeMap<Arc<str>, LogPoint> {
        &self.ended
    }

    /// The XA transactions that are open at the position.
    pub fn branches(&self) -> &Branches {
        &self.branches
    }

    /// The same reader, of a log of the past: structures are those that the log tells; `present` are those of now, see
    /// [`metadata`].
    pub fn learning(mut self, present: Arc<TableStructures>) -> LogReader {
        self.present = Some(present);
        self
    }

    /// The structures of now, if the log is of the past.
    pub fn present(&self) -> Option<&Arc<TableStructures>> {
        self.present.as_ref()
    }

    /// What is still passed over, if anything is.
    pub fn skip(&self) -> Option<&SkipUntil> {
        self.skip_until.as_ref()
    }

    fn bare(config: Config, start: LogPoint, structures: TableStructures) -> LogReader {
        LogReader {
            config,
            stream: None,
            structures,
            gtids: GtidSet::new(),
            boundary: start.clone(),
            point: start,
            rows_given: 0,
            rows_to_skip: 0,
            inside: false,
            altered: false,
            transaction: None,
            read_from: None,
            read: GtidSet::new(),
            branches: Branches::default(),
            ended: BTreeMap::new(),
            ahead: BTreeMap::new(),
            missed: BTreeMap::new(),
            again: None,
            resolved: None,
            stop_micros: None,
            over: false,
            only: None,
            maps: HashMap::default(),
            pending: VecDeque::new(),
            payload_left: 0,
            skip_until: None,
            events: 0,
            connecting: None,
            server: None,
            heard: Instant::now(),
            asked: Instant::now(),
            came: false,
            described: false,
            in_sequence: false,
            by_log: false,
            charsets_ensured: false,
            shadows: TableStructures::new(),
            present: None,
            members_in: None,
            deferred: None,
            asking_charsets: None,
            unsure: None,
            statements: Statements::default(),
            asking_statements: None,
        }
    }

    /// Everything given out: where to go on from. Inside a transaction it holds the row changes given out of it.
    pub fn position(&self) -> Position {
        Position {
            gtids: self.gtids.to_string().into(),
            file: self.boundary.file.clone(),
            offset: self.boundary.offset,
            rows: self.rows_given,
        }
    }

    /// The GTIDs of the whole transactions given out (and of those that were passed over knowingly).
    pub fn gtids(&self) -> &GtidSet {
        &self.gtids
    }

    /// How far the log has been read and decoded.
    pub fn point(&self) -> &LogPoint {
        &self.point
    }

    /// True between transactions. A connection lost in the middle of one makes no boundary.
    pub fn at_boundary(&self) -> bool {
        self.transaction.is_none() && self.pending.is_empty() && !self.inside
    }

    /// The structures in force at the reader's position.
    pub fn structures(&self) -> &TableStructures {
        &self.structures
    }

    /// Events received.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Gives up the connection; the next call of `next` opens another.
    pub fn disconnect(&mut self) {
        self.stream = None;
        if let Some(opening) = self.connecting.take() {
            opening.abort();
        }
        self.altered |= self.transaction.take().is_some_and(|t| t.altered);
        self.again = None;
        self.resolved = None;
        self.maps.clear();
        self.pending.clear();
        self.deferred = None;
        self.unsure = None;
        self.asking_statements = None;
        self.payload_left = 0;
        self.rows_to_skip = self.rows_given;
    }

    /// Opens the stream if there is none. May be dropped while it waits: connecting goes on, and the next call waits
    /// for the same connection.
    ///
    /// # Errors
    /// `LOG_PURGED`, `SERVER_CHANGED`, `GRANT_MISSING`; transient ones of the connection.
    pub async fn ensure_connected(&mut self) -> Result<()> {
        if self.stream.is_some() {
            return Ok(());
        }
        if let Some(named) = &self.config.files {
            let (log, server) = files::FileLog::open(named, &self.point.file)?;
            if !self.gtids.is_empty() {
                // files are read from their beginning, in front of the position
                self.read_from.get_or_insert_default();
            }
            self.server = Some(server);
            self.stream = Some(EventSource::Files(log));
            self.described = true;
            return Ok(());
        }
        let from = self.read_from.as_ref().unwrap_or(&self.gtids);
        if self.connecting.is_none() {
            self.read = from.clone();
        }
        let wanted = dump::Wanted {
            config: self.config.clone(),
            gtids: from.clone(),
            point: self.point.clone(),
            by_file: self.by_file(),
            given_out: self.given_out(),
            position: self.position(),
        };
        let opening = self.connecting.get_or_insert_with(|| tokio::spawn(wanted.open()));
        let opened = opening.await;
        self.connecting = None;
        let opened = opened.map_err(|e| task_failed("opens the log", &e))??;
        if self.server.as_ref().is_some_and(|known| known.id != opened.server.id) {
            // another server's files have nothing to do with those before
            self.point = LogPoint::default();
            self.boundary = LogPoint::default();
        }
        self.server = Some(opened.server);
        self.stream = Some(EventSource::Network(Box::new(opened.stream)));
        self.described = false;
        self.heard = Instant::now();
        Ok(())
    }

    /// The server that the log was last read from.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The point behind the last whole transaction given out, or behind what was passed over since.
    pub fn boundary(&self) -> &LogPoint {
        &self.boundary
    }

    /// What was given out, where it was, and in whose log; not where a start in the past is still passed over.
    fn given_out(&self) -> Option<(GtidSet, LogPoint, Option<String>)> {
        let known = self.skip_until.is_none() && !self.gtids.is_empty();
        known.then(|| (self.gtids.clone(), self.boundary.clone(), self.server.as_ref().map(|s| s.id.clone())))
    }

    /// A start by file whose file has not told the GTIDs before it yet; afterwards GTIDs say where we are.
    fn by_file(&self) -> bool {
        self.skip_until.is_some() && self.gtids.is_empty()
    }

    /// The next item.
    ///
    /// # Errors
    /// Transient: the connection was lost; call [`LogReader::disconnect`], then `next` again. Definite: the log
    /// holds something that cannot be followed.
    pub async fn next(&mut self) -> Result<LogItem> {
        loop {
            if let Some(item) = self.take_pending() {
                return Ok(item);
            }
            if self.over {
                return Ok(LogItem::End(None));
            }
            if self.again.is_some() {
                self.read_again().await?;
                continue;
            }
            self.ensure_charsets().await?;
            if let Some(body) = self.deferred.take() {
                self.handle_table_map(&body)?;
                continue;
            }
            if self.unsure.is_some() {
                self.ask_statement().await?;
                continue;
            }
            self.ensure_connected().await?;
            let Some(stream) = self.stream.as_mut() else { continue };
            let incoming = {
                let mut next = std::pin::pin!(stream.next());
                // An event that is there already is taken without a look at the clock: there is one for each few rows.
                match futures_util::poll!(next.as_mut()) {
                    Poll::Ready(incoming) => incoming,
                    Poll::Pending if self.config.files.is_some() => next.await,
                    Poll::Pending => {
                        // a caller that was away for a while has not listened meanwhile
                        let now = Instant::now();
                        if self.came || now.duration_since(self.asked) > ABSENT {
                            self.heard = now;
                            self.came = false;
                        }
                        self.asked = now;
                        match tokio::time::timeout_at((self.heard + SILENCE).into(), next).await {
                            Ok(incoming) => incoming,
                            Err(_) => {
                                return Err(Error::transient(
                                    codes::SERVER_LOST,
                                    format!("the server has sent no event and no heartbeat for {SILENCE:?}"),
                                ));
                            }
                        }
                    }
                }
            };
            let event = match incoming {
                Ok(Incoming::Event(event)) => event,
                Ok(Incoming::File { name, server }) => {
                    self.point = LogPoint::new(name, 4);
                    if let Some(known) = &mut self.server {
                        // the server may have been upgraded in between
                        *known = Server { id: known.id.clone(), ..server };
                    }
                    if self.at_boundary() {
                        self.pending.push_back(LogItem::Moved);
                    }
                    continue;
                }
                Ok(Incoming::End(notice)) => return Ok(LogItem::End(notice)),
                Err(Lost::Ended) => {
                    return Err(Error::transient(codes::SERVER_LOST, "the server has ended the log stream"));
                }
                Err(Lost::Connection(error)) => return Err(self.stream_error(error)),
                Err(Lost::Torn(what)) => {
                    self.stream = None;
                    return Err(self.corrupt(what));
                }
                Err(Lost::Failed(error)) => return Err(error),
            };
            self.events += 1;
            self.came = true;
            self.handle(&event)?;
        }
    }

    /// Once for the structures that it began with, and after every DDL; a connection only if a table is missing. A
    /// task of its own asks, as of the stream's connection.
    async fn ensure_charsets(&mut self) -> Result<()> {
        if self.charsets_ensured {
            return Ok(());
        }
        let members_in = self.members_in.map(metadata::table_of_charset);
        let tables = || self.structures.tables().chain(&members_in);
        // no server is asked for those of files: then a table that needs one is refused
        if self.config.files.is_none() && !charsets::missing(tables()).is_empty() {
            let asking = self.asking_charsets.get_or_insert_with(|| {
                let (config, tables) = (self.config.clone(), tables().cloned().collect());
                tokio::spawn(load_charsets(config, tables))
            });
            let asked = asking.await;
            self.asking_charsets = None;
            asked.map_err(|e| task_failed("reads conversion tables", &e))??;
        }
        self.charsets_ensured = true;
        Ok(())
    }

    /// From here on nothing is given out that was committed at or after this time (microseconds since 1970 UTC), nor
    /// anything behind it in the log: [`LogItem::End`] comes instead, between two transactions.
    pub fn stop_at(&mut self, micros: i64) {
        self.stop_micros = Some(micros);
    }

    /// Has everything been given out that was read?
    pub fn is_drained(&self) -> bool {
        self.pending.is_empty()
    }

    /// The next item, if it is there without waiting.
    ///
    /// # Errors
    /// As [`LogReader::next`].
    pub fn ready(&mut self) -> Result<Option<LogItem>> {
        // `next` may be dropped while it waits; whoever waits for it later is woken by that call
        self.next().now_or_never().transpose()
    }

    /// The text of the statement behind a row event, then the event.
    async fn ask_statement(&mut self) -> Result<()> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        let wanted = statements::Place {
            file: transaction.origin.file.clone(),
            begin: transaction.origin.offset,
            number: transaction.row_events,
        };
        let known = match self.config.files {
            // it stood in front of the event, or nowhere
            Some(_) => Ok(None),
            None => self.statements.text(&wanted),
        };
        if let Ok(text) = known {
            if let Some(transaction) = &mut self.transaction {
                // an empty one says nothing
                transaction.statement = Some(text.unwrap_or_else(|| "".into()));
            }
            let Some((kind, body)) = self.unsure.take() else { return Ok(()) };
            return self.handle_rows(kind, &body);
        }
        let asking = self.asking_statements.get_or_insert_with(|| {
            let statements = std::mem::take(&mut self.statements);
            tokio::spawn(statements.ask(self.config.clone(), wanted))
        });
        let asked = asking.await;
        self.asking_statements = None;
        self.statements = asked.map_err(|e| task_failed("asks for texts of statements", &e))??;
        Ok(())
    }

    /// The next rows of the XA transaction that the log commits here.
    async fn read_again(&mut self) -> Result<()> {
        let Some(again) = self.again.as_mut() else { return Ok(()) };
        // may be dropped while it waits: the reader is a field
        match Box::pin(again.next()).await? {
            LogItem::Rows { schema, changes, .. } => self.give_out_again(schema, changes),
            LogItem::Commit { gtid } if again.only.as_ref() == Some(&gtid) => {
                self.again = None;
                self.commit()?;
            }
            LogItem::Commit { .. } | LogItem::Moved | LogItem::Schema { .. } | LogItem::Appeared { .. } => {}
            LogItem::End(_) => {
                return Err(self.corrupt("the files do not hold the rows of an XA transaction"));
            }
        }
        Ok(())
    }

    /// Rows of a branch become rows of the transaction that commits it.
    fn give_out_again(&mut self, schema: Arc<TableSchema>, mut changes: Vec<RowChange>) {
        let Some(transaction) = self.transaction.as_mut() else { return };
        let before = transaction.rows;
        transaction.rows += changes.len() as u64;
        let skipped = self.rows_to_skip.saturating_sub(before).min(changes.len() as u64);
        changes.drain(..skipped as usize);
        if !changes.is_empty() {
            self.pending.push_back(LogItem::Rows {
                gtid: transaction.gtid.clone(),
                mark: transaction.mark.clone(),
                schema,
                origin: transaction.origin.clone(),
                changes,
            });
        }
    }

    fn take_pending(&mut self) -> Option<LogItem> {
        let item = self.pending.pop_front()?;
        match &item {
            LogItem::Rows { changes, .. } => {
                self.rows_given += changes.len() as u64;
                self.inside = true;
            }
            LogItem::Commit { gtid } => {
                self.gtids.insert(gtid);
                if !self.ahead.is_empty() {
                    let reached =
                        |set: &Option<GtidSet>| set.as_ref().is_some_and(|s| self.gtids.contains_set(s));
                    self.ahead.retain(|_, set| !reached(set));
                    self.maps.clear();
                }
                if let Some(resolved) = self.resolved.take() {
                    self.branches.0.remove(&resolved);
                }
                self.rows_given = 0;
                self.inside = false;
                self.boundary = self.point.clone();
            }
            // a stream begins at the beginning of a file, in front of what was given out
            LogItem::Moved if self.point.has_reached(&self.boundary) => self.boundary = self.point.clone(),
            LogItem::Moved => {}
            LogItem::Appeared { .. } => self.inside = true,
            LogItem::End(_) => {}
            LogItem::Schema { .. } => self.inside = true,
        }
        Some(item)
    }

    fn stream_error(&self, error: mysql_async::Error) -> Error {
        if let mysql_async::Error::Server(e) = &error {
            let text = e.message.to_lowercase();
            if e.code == 1236 && text.contains("which is not in the master's binlog") {
                return Error::definite(
                    codes::SERVER_CHANGED,
                    format!("the server does not have transactions that were read before: {}", e.message),
                )
                .note(format!("we stand at {}", self.position()))
                .note("it is another server, one that was reset, or a replica that is behind")
                .help("let the server catch up, or name the right one in url");
            }
            if e.code == 1236 && (text.contains("purged") || text.contains("could not find first log")) {
                return Error::definite(codes::LOG_PURGED, format!("the log we need is gone: {}", e.message))
                    .note(format!("we stand at {}", self.position()))
                    .help("copy the tables anew: stop, remove the state folder and the target's tables and progress, start again");
            }
            // MariaDB tells replicas apart by nothing but this number
            if e.code == 4052 || e.code == 1236 && text.contains("same server") {
                return Error::definite(
                    codes::SERVER_ID_IN_USE,
                    format!("another replica has connected with server_id {}", self.config.server_id),
                )
                .help("give each source and each pipeline a server_id of its own");
            }
            if e.code == 1236 {
                return Error::definite(
                    codes::LOG_POSITION,
                    format!("the server refuses our position: {}", e.message),
                )
                .note(format!("we stand at {}", self.position()));
            }
        }
        query_error(error, "reading the log")
    }

    fn here(&self) -> String {
        place(&self.point, self.transaction.as_ref())
    }

    fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        Error::definite(codes::LOG_CORRUPT, format!("corrupt log event: {what}")).note(self.here()).help(
            "check the server's disk; mysqlbinlog --verify-binlog-checksum shows whether its file is damaged",
        )
    }

    fn handle(&mut self, event: &Event) -> Result<()> {
        let header = Header::of(event);
        let inner = self.payload_left > 0;
        if inner {
            self.payload_left = self.payload_left.saturating_sub(u64::from(header.size));
        } else {
            source::verify_checksum(event).map_err(|why| self.corrupt(why))?;
            self.advance(&header);
        }
        let body = event.data();
        if let (true, Some(transaction)) = (kind::is_rows(header.kind), &mut self.transaction) {
            transaction.row_events += 1;
        }
        match header.kind {
            // the next file says itself that it begins
            kind::ROTATE if self.config.files.is_some() => {}
            kind::ROTATE => {
                // The first event of a stream is made up by the server, in front of the format description that
                // tells the library of checksums: its checksum is still part of the body.
                let body = if self.described { body } else { &body[..body.len().saturating_sub(4)] };
                let (file, offset) = event::rotate(body).map_err(|w| self.corrupt(w))?;
                if *self.point.file != *file || header.log_pos == 0 {
                    self.point = LogPoint::new(file, offset);
                }
                // the one in front of a stream tells where it begins, before what was given out
                if self.described && self.at_boundary() {
                    self.pending.push_back(LogItem::Moved);
                }
            }
            kind::FORMAT_DESCRIPTION => self.described = true,
            kind::STOP
            | kind::ROWS_QUERY
            | kind::IGNORABLE
            | kind::INTVAR
            | kind::RAND
            | kind::USER_VAR
            | kind::TRANSACTION_CONTEXT
            | kind::VIEW_CHANGE
            // MariaDB; an encrypted log is sent in the clear
            | kind::BINLOG_CHECKPOINT
            | kind::START_ENCRYPTION => {}
            kind::ANNOTATE_ROWS => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.statement = Some(String::from_utf8_lossy(body).into());
                }
            }
            kind::HEARTBEAT | kind::HEARTBEAT_V2 => {
                if self.at_boundary() {
                    self.pending.push_back(LogItem::Moved);
                }
            }
            kind::PREVIOUS_GTIDS => {
                let before = event::previous_gtids(body).map_err(|w| self.corrupt(w))?;
                self.follows(before)?;
            }
            kind::GTID_LIST => {
                let before = event::gtid_list(body).map_err(|w| self.corrupt(w))?;
                self.follows(before)?;
            }
            kind::ANONYMOUS_GTID => {
                return Err(Error::definite(codes::SETTING_WRONG, "the log holds a transaction without a GTID")
                    .note(self.here())
                    .help("SET PERSIST gtid_mode = ON (step by step, see the manual), and start behind this position"));
            }
            kind::GTID | kind::GTID_TAGGED => {
                let (gtid, micros) = event::gtid(event).map_err(|w| self.corrupt(w))?;
                self.begin(&header, gtid, micros)?;
            }
            kind::DOMAIN_GTID => {
                let begins = event::domain_gtid(&header, body).map_err(|w| self.corrupt(w))?;
                self.begin(&header, begins.gtid, None)?;
                if let Some(transaction) = &mut self.transaction {
                    transaction.begun = !begins.standalone;
                    transaction.xa = begins.prepares.as_deref().map(|text| Collected::new(xa::name(text)));
                    transaction.no_effect = begins.no_effect;
                }
            }
            kind::TRANSACTION_PAYLOAD => {
                self.payload_left = event::payload_size(body).map_err(|w| self.corrupt(w))?;
            }
            kind::QUERY => self.handle_query(body)?,
            kind::QUERY_COMPRESSED => {
                let plain = event::plain_query(body).map_err(|w| self.corrupt(w))?;
                self.handle_query(&plain)?;
            }
            kind::XID => self.commit()?,
            kind::XA_PREPARE => self.prepare(body.first() == Some(&1))?,
            kind::TABLE_MAP => self.handle_table_map(body)?,
            kind::WRITE_ROWS_V1
            | kind::UPDATE_ROWS_V1
            | kind::DELETE_ROWS_V1
            | kind::WRITE_ROWS
            | kind::UPDATE_ROWS
            | kind::DELETE_ROWS
            | kind::PARTIAL_UPDATE_ROWS => self.handle_rows(header.kind, body)?,
            kind::WRITE_ROWS_COMPRESSED_V1
            | kind::UPDATE_ROWS_COMPRESSED_V1
            | kind::DELETE_ROWS_COMPRESSED_V1
            | kind::WRITE_ROWS_COMPRESSED
            | kind::UPDATE_ROWS_COMPRESSED
            | kind::DELETE_ROWS_COMPRESSED => {
                if !self.skipping()
                    && let Some((kind, plain)) =
                        rows::decompress(header.kind, body).map_err(|e| e.note(self.here()))?
                {
                    self.handle_rows(kind, &plain)?;
                }
            }
            kind::INCIDENT => {
                return Err(Error::definite(codes::INCIDENT, "the server logged an incident: changes may be missing from its log")
                    .note(self.here())
                    .help("copy the tables anew: stop, remove the state folder and the target's tables and progress, start again"));
            }
            other if header.ignorable() => {
                let _ = other;
            }
            other => {
                return Err(Error::definite(
                    codes::LOG_EVENT_UNKNOWN,
                    format!("log event of the unknown kind {other}"),
                )
                .note(self.here())
                .help("a newer cdc may know it"));
            }
        }
        if inner && self.payload_left == 0 && self.transaction.is_some() {
            return Err(self.corrupt("a compressed transaction ended without a commit"));
        }
        Ok(())
    }

    /// A file begins, behind these transactions.
    fn follows(&mut self, before: GtidSet) -> Result<()> {
        let is_first = !std::mem::replace(&mut self.in_sequence, true);
        // for starts by file: what came before this file
        if self.skip_until.is_some() && self.gtids.is_empty() && (is_first || self.config.files.is_none()) {
            self.gtids = before;
            self.by_log = true;
            return Ok(());
        }
        if self.config.files.is_none() || self.only.is_some() {
            return Ok(());
        }
        let missing = before.minus(&self.gtids);
        if !missing.is_empty() {
            return Err(Error::definite(
                codes::LOG_PURGED,
                format!("transactions in front of log file \"{}\" are in no file: {missing}", self.point.file),
            )
            .note(format!("we stand at {}", self.position()))
            .help("name all files of the log, from the start on; a file between is missing, or is of another server"));
        }
        let more = self.gtids.minus(&before);
        if self.by_log && !more.is_empty() {
            return Err(Error::definite(
                codes::SERVER_CHANGED,
                format!(
                    "log file \"{}\" does not come behind transactions of the file before it: {more}",
                    self.point.file
                ),
            )
            .help("name the files of one server"));
        }
        Ok(())
    }

    /// A transaction begins with this event.
    fn begin(&mut self, header: &Header, gtid: Gtid, micros: Option<i64>) -> Result<()> {
        if let Some(open) = &self.transaction {
            return Err(self.corrupt(format!("transaction {} has no end", open.gtid)));
        }
        let mark = match &gtid {
            Gtid::MySql { .. } => Mark::Gtid(gtid.clone()),
            Gtid::MariaDb { domain, .. } => {
                if self.gtids.contains(&gtid) && self.read_from.is_none() {
                    let last = self.gtids.last_of(*domain).map_or(String::new(), |last| last.to_string());
                    return Err(Error::definite(
                        codes::LOG_POSITION,
                        format!("transaction {gtid} stands behind {last} in the log: the numbers of its domain do not rise"),
                    )
                    .note(self.here())
                    .note("a position in such a log does not say what was read")
                    .help("SET GLOBAL gtid_strict_mode = ON, and give each server that is written to a gtid_domain_id of its own; then copy the tables anew"));
                }
                Mark::Point(self.point.clone())
            }
        };
        let passed = match &self.only {
            Some(only) => *only != gtid,
            None => self.read_from.is_some() && self.gtids.contains(&gtid),
        };
        if !passed && self.only.is_none() {
            // what comes now is new, on later connections too
            self.read_from = None;
        }
        let committed = micros.unwrap_or(i64::from(header.timestamp) * 1_000_000);
        if !passed && self.only.is_none() && self.stop_micros.is_some_and(|stop| committed >= stop) {
            self.over = true;
            return Ok(());
        }
        let origin = Origin {
            timestamp_micros: committed,
            gtid: gtid.to_string().into(),
            file: self.point.file.clone(),
            offset: self.point.offset.saturating_sub(u64::from(header.size)),
            snapshot: false,
        };
        let held = matches!(gtid, Gtid::MariaDb { .. }) && self.only.is_none() && self.rows_to_skip == 0;
        let held = held.then(Held::default);
        self.transaction = Some(Transaction {
            gtid,
            mark,
            origin: Arc::new(origin),
            rows: 0,
            begun: false,
            no_effect: false,
            xa: None,
            held,
            resolves: None,
            passed,
            altered: false,
            row_events: 0,
            statement: None,
        });
        Ok(())
    }

    /// XA PREPARE, or XA COMMIT .. ONE PHASE.
    fn prepare(&mut self, one_phase: bool) -> Result<()> {
        let passed = self.skipping();
        let Some(transaction) = self.transaction.as_mut() else {
            return Err(self.corrupt("an XA PREPARE outside a transaction"));
        };
        let Some(collected) = transaction.xa.take() else { return self.commit() };
        let (gtid, rows) = (transaction.gtid.clone(), transaction.rows);
        if !one_phase && self.only.is_none() {
            // of one that is passed over nothing was decoded: how much it holds is not known
            // So it is while what it did to a table that came in later was passed over.
            let unknown = passed || !self.ahead.is_empty();
            let rows = if unknown { u64::MAX } else { rows };
            let name = collected.branch.clone();
            let held = collected.into_items().filter(|_| !unknown);
            self.branches.prepare(name, &gtid, &self.read, rows, held);
            return self.commit();
        }
        // nothing of it was given out yet, although it was counted
        transaction.rows = 0;
        match collected.into_items() {
            Some(items) => {
                self.give_out_items(items);
                self.commit()
            }
            None => self.ask_again(&gtid),
        }
    }

    fn give_out_items(&mut self, items: Vec<LogItem>) {
        for item in items {
            if let LogItem::Rows { schema, changes, .. } = item {
                self.give_out_again(schema, changes);
            }
        }
    }

    /// XA COMMIT: the rows of its branch are given out here.
    fn commit_branch(&mut self, name: String) -> Result<()> {
        let Some(branch) = self.branches.0.get(&name) else {
            return Err(Error::definite(
                codes::XA_UNSEEN,
                format!("the log commits XA transaction {name}, whose rows were not seen"),
            )
            .note(self.here())
            .note("it was prepared before the log was read")
            .help("copy the tables anew: stop, remove the state folder and the target's tables and progress, start again")
            .help(
                "GRANT XA_RECOVER_ADMIN to the source's account: then a start waits for such transactions",
            ));
        };
        let (rows, held, gtid) = (branch.rows, branch.held.clone(), Gtid::parse(&branch.gtid)?);
        if let Some(transaction) = &mut self.transaction {
            transaction.resolves = Some(name);
        }
        match held {
            _ if rows == 0 => self.commit(),
            Some(items) => {
                self.give_out_items(items);
                self.commit()
            }
            None => self.ask_again(&gtid),
        }
    }

    /// Reads the rows of a transaction of the log again, for the one that is open.
    fn ask_again(&mut self, gtid: &Gtid) -> Result<()> {
        let from = match gtid {
            Gtid::MySql { .. } => self.gtids.without(gtid),
            Gtid::MariaDb { .. } => {
                let open = self.transaction.as_ref().and_then(|t| t.resolves.as_ref());
                match open.and_then(|name| self.branches.0.get(name)) {
                    Some(branch) => branch.before.clone(),
                    None => self.read.clone(),
                }
            }
        };
        let position = Position {
            gtids: from.to_string().into(),
            // of files it may be in any
            file: if self.config.files.is_some() { "".into() } else { self.point.file.clone() },
            offset: 4,
            rows: 0,
        };
        // a reader without an id ends no other's stream, and ends with the log
        let config = Config { server_id: 0, ..self.config.clone() };
        // of a table that is behind here the rows come with its copy
        let behind: Vec<_> =
            self.ahead.keys().filter(|t| self.is_behind(t)).map(|t| (t.clone(), None)).collect();
        let mut again = LogReader::new(config, &position, self.structures.clone())?.with_ahead(behind);
        again.only = Some(gtid.clone());
        self.again = Some(Box::new(again));
        Ok(())
    }

    /// A setting that the log must be written under, for a help.
    fn set_for_good(&self, variable: &str, value: &str) -> String {
        let statement = match &self.server {
            Some(server) => server.set_for_good(variable, value),
            None => format!("SET GLOBAL {variable} = {value}"),
        };
        format!("{statement}, also in every session that sets its own; then copy the tables anew")
    }

    fn not_built(&self, what: &str) -> Error {
        Error::definite(
            codes::LOG_EVENT_UNKNOWN,
            format!("the log holds {what}, which this version does not follow"),
        )
        .note(self.here())
    }

    /// `log_pos` is the low 32 bits of the event's end; files grow beyond that.
    fn advance(&mut self, header: &Header) {
        if header.log_pos == 0 || header.kind == kind::ROTATE {
            return;
        }
        let low = u64::from(header.log_pos);
        let mut end = (self.point.offset & !0xffff_ffff) | low;
        if end < self.point.offset {
            end += 1 << 32;
        }
        self.point.offset = end;
    }

    fn skipping(&self) -> bool {
        if self.transaction.as_ref().is_some_and(|t| t.passed) {
            return true;
        }
        match (&self.skip_until, &self.transaction) {
            (Some(SkipUntil::Point(until)), Some(t)) => {
                !LogPoint::new(t.origin.file.clone(), t.origin.offset).has_reached(until)
            }
            // MariaDB tells seconds: what is of the same second may be behind the time, and is given out
            (Some(SkipUntil::Time(micros)), Some(t)) => match t.gtid {
                Gtid::MySql { .. } => t.origin.timestamp_micros < *micros,
                Gtid::MariaDb { .. } => t.origin.timestamp_micros / 1_000_000 < *micros / 1_000_000,
            },
            _ => false,
        }
    }

    /// What comes now may not be taken back: what was held goes out in front of it.
    fn release_held(&mut self) {
        let held = self.transaction.as_mut().and_then(|t| t.held.take());
        self.pending.extend(held.into_iter().flat_map(Held::release));
    }

    fn commit(&mut self) -> Result<()> {
        let Some(mut t) = self.transaction.take() else {
            return Err(self.corrupt("a commit outside a transaction"));
        };
        if self.rows_to_skip > t.rows {
            return Err(Error::definite(
                codes::LOG_POSITION,
                format!(
                    "transaction {} has {} row changes, {} of them were read before",
                    t.gtid, t.rows, self.rows_to_skip
                ),
            )
            .note("the captured tables are not those of the run that left this position"));
        }
        self.rows_to_skip = 0;
        self.altered = false;
        self.pending.extend(t.held.take().into_iter().flat_map(Held::release));
        if matches!(t.gtid, Gtid::MariaDb { .. }) {
            self.read.insert(&t.gtid);
        }
        if t.passed {
            self.branches.0.retain(|name, _| t.resolves.as_ref() != Some(name));
            self.pending.push_back(LogItem::Moved);
        } else {
            self.resolved = t.resolves;
            self.pending.push_back(LogItem::Commit { gtid: t.gtid });
        }
        Ok(())
    }

    fn handle_query(&mut self, body: &[u8]) -> Result<()> {
        let query = event::query(body).map_err(|w| self.corrupt(w))?;
        if self.transaction.is_none() {
            return Err(self.corrupt("a statement outside a transaction"));
        }
        let skipping = self.skipping();
        let word = query.text.get(..12).unwrap_or(&query.text).to_ascii_uppercase();
        let Some(transaction) = self.transaction.as_mut() else { return Ok(()) };
        if query.text == "BEGIN" {
            transaction.begun = true;
            return Ok(());
        }
        if query.text == "COMMIT" {
            return self.commit();
        }
        if query.text == "ROLLBACK" {
            if transaction.held.as_mut().is_some_and(Held::take_back) {
                transaction.rows = 0;
            }
            if transaction.rows > 0 && !skipping {
                return Err(self.not_built(
                    "a transaction that was rolled back behind changes of a non-transactional table",
                ));
            }
            return self.commit();
        }
        if word.starts_with("XA START") || word.starts_with("XA BEGIN") {
            transaction.begun = true;
            transaction.xa = Some(Collected::new(branch_of(&query.text)));
            return Ok(());
        }
        if word.starts_with("XA END") {
            return Ok(());
        }
        if word.starts_with("XA COMMIT") {
            let name = branch_of(&query.text);
            if let Mark::Point(point) = &transaction.mark {
                let name: Arc<str> = name.as_str().into();
                // its engine may not be done with it: see `snapshot::watermark`
                if self.ended.len() >= MOST_ENDED
                    && let Some(oldest) =
                        self.ended.iter().min_by_key(|(_, at)| at.order()).map(|(n, _)| n.clone())
                {
                    self.ended.remove(&oldest);
                }
                self.ended.insert(name.clone(), point.clone());
                transaction.mark = Mark::Xa(point.clone(), name);
            }
            if skipping {
                transaction.resolves = Some(name);
                return self.commit();
            }
            return self.commit_branch(name);
        }
        if word.starts_with("XA ROLLBACK") {
            transaction.resolves = Some(branch_of(&query.text));
            return self.commit();
        }
        if word.starts_with("SAVEPOINT") {
            let rows = transaction.rows;
            if let Some(held) = &mut transaction.held {
                held.savepoint(savepoint_of(&query.text), rows);
            }
            return Ok(());
        }
        if word.starts_with("RELEASE SAVE") {
            return Ok(());
        }
        if word.starts_with("ROLLBACK TO") {
            // the server writes it only where it could not take the rows out of the log again
            if let Some(rows) = transaction.held.as_mut().and_then(|h| h.back_to(savepoint_of(&query.text))) {
                transaction.rows = rows;
                return Ok(());
            }
            if transaction.rows > 0 && !skipping {
                return Err(
                    self.not_built("a rollback to a savepoint behind changes of a non-transactional table")
                );
            }
            return Ok(());
        }
        // A statement. CREATE TABLE .. SELECT goes on with rows; any other DDL outside BEGIN is a whole transaction.
        let whole = !transaction.begun && !query.starts_transaction;
        transaction.begun |= query.starts_transaction;
        if !transaction.no_effect {
            self.statement(&query)?;
        }
        if whole { self.commit() } else { Ok(()) }
    }

    fn captured(&self, table: &TableId) -> bool {
        is_user_database(&table.database)
            && self.config.tables.contains(table)
            && !self.is_behind(table)
            && !self.is_shadow(table)
    }

    /// Is it a tool's, beside a captured table? One whose structure is followed stays a tool's while the table is gone.
    fn is_shadow(&self, table: &TableId) -> bool {
        self.config.trust_online_ddl && {
            let known = self.structures.tables().map(|schema| &schema.id);
            shadow::is_shadow(table, known.chain(self.ahead.keys())) || self.shadows.get(table).is_some()
        }
    }

    /// Was it a tool's before its table went? Then nothing was read of it, and nothing is: see [`shadow`].
    fn is_left_over(&self, table: &TableId) -> bool {
        // in a log of the past a structure may be unknown for another reason
        self.config.trust_online_ddl
            && self.present.is_none()
            && ddl::online::belongs_to(table).is_some()
            && self.structures.get(table).is_none()
    }

    /// Does the table's structure come from behind this transaction?
    fn is_behind(&self, table: &TableId) -> bool {
        match self.ahead.get(table) {
            None => false,
            Some(None) => true,
            Some(Some(gtids)) => self.transaction.as_ref().is_some_and(|t| gtids.contains(&t.gtid)),
        }
    }

    fn statement(&mut self, query: &event::Query<'_>) -> Result<()> {
        if self.skipping() {
            // Before the start: no structure is known that it could change, or they are present ones, which have seen it.
            return Ok(());
        }
        let Some(server) = self.server.as_ref().map(Server::context) else { return Ok(()) };
        let context = query.context(&server);
        let quote = |text: &str| {
            let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.chars().count() <= 400 {
                text
            } else {
                text.chars().take(400).collect::<String>() + " .."
            }
        };
        let parse = if query.error == 0 { ddl::parse } else { ddl::parse_failed };
        let known = shadow::Both { captured: &self.structures, shadows: &self.shadows };
        match parse(&query.text, &context, &known) {
            ddl::Outcome::Changes { changes, mut facts } => {
                facts.retain(|fact| fact.table().is_none_or(|table| !self.is_behind(table)));
                self.release_held();
                self.schema_changes(query, changes)?;
                self.structures.learn(&facts);
                self.shadows.learn(&facts);
                Ok(())
            }
            ddl::Outcome::NoEffect { mut facts, .. } => {
                facts.retain(|fact| fact.table().is_none_or(|table| !self.is_behind(table)));
                self.structures.learn(&facts);
                self.shadows.learn(&facts);
                Ok(())
            }
            ddl::Outcome::Transaction(_) => Ok(()),
            ddl::Outcome::Dml { tables, .. } => {
                // of tables that are not captured it does not matter how they are logged
                if tables.is_empty() || tables.iter().any(|t| self.captured(t) && !self.is_left_over(t)) {
                    return Err(Error::definite(
                        codes::STATEMENT_FORMAT,
                        "a change was logged as a statement, not as rows",
                    )
                    .note(self.here())
                    .note(format!("the statement: {}", quote(&query.text)))
                    .help(self.set_for_good("binlog_format", "ROW")));
                }
                Ok(())
            }
            // what an unknown table is behind it, its next table map tells
            ddl::Outcome::NotUnderstood { tables, .. }
                if self.present.is_some()
                    && !tables.is_empty()
                    && tables.iter().all(|t| self.structures.get(t).is_none()) =>
            {
                let gtid = self.transaction.as_ref().map(|t| t.gtid.clone());
                for (table, gtid) in tables.iter().zip(gtid.iter().cycle()) {
                    if matches!(self.ahead.get(table), Some(None)) {
                        self.missed.entry(table.clone()).or_default().push(gtid.clone());
                    }
                }
                // of one that has come in later the structure is of behind this statement
                let forgotten: Vec<TableId> = tables.into_iter().filter(|t| !self.is_behind(t)).collect();
                self.structures.forget(&forgotten);
                Ok(())
            }
            // The text is clear, and speaks of a table that is not followed (CREATE TABLE .. LIKE it): what has come
            // into being is taken in as any other that appears.
            ddl::Outcome::NotUnderstood { diagnostic, tables }
                if diagnostic.code == codes::STRUCTURE_UNKNOWN
                    && self.config.files.is_none()
                    && !tables.is_empty()
                    && tables.iter().all(|t| self.structures.get(t).is_none()) =>
            {
                let gtid = self.transaction.as_ref().map(|t| t.gtid.clone());
                self.release_held();
                for table in tables {
                    if matches!(self.ahead.get(&table), Some(None)) {
                        self.missed.entry(table).or_default().extend(gtid.clone());
                    } else if self.captured(&table) {
                        self.expect(table.clone());
                        self.pending.push_back(LogItem::Appeared { table });
                    }
                }
                Ok(())
            }
            ddl::Outcome::NotUnderstood { diagnostic, tables } => {
                // without a table it may be any
                if tables.is_empty() || tables.iter().any(|t| self.captured(t)) {
                    return Err(Error::from(*diagnostic).note(self.here()));
                }
                // of one that has come in later the structure is of behind this statement
                let forgotten: Vec<TableId> = tables.into_iter().filter(|t| !self.is_behind(t)).collect();
                self.structures.forget(&forgotten);
                Ok(())
            }
        }
    }

    fn schema_changes(&mut self, query: &event::Query<'_>, changes: Vec<SchemaChange>) -> Result<()> {
        if self.altered {
            // sent again after a lost connection: applied and told before
            return Ok(());
        }
        let Some(transaction) = self.transaction.as_mut() else { return Ok(()) };
        transaction.altered = true;
        let (mark, origin) = (transaction.mark.clone(), transaction.origin.clone());
        let gtid = transaction.gtid.clone();
        if self.swapped(query, &changes)? {
            return Ok(());
        }
        let mut groups: Vec<(TableId, Vec<SchemaChange>)> = Vec::new();
        let mut appeared: Vec<TableId> = Vec::new();
        // which names stand for a known table behind the changes so far
        let mut names: BTreeMap<TableId, bool> = BTreeMap::new();
        for change in changes {
            let table = change.table().clone();
            let target = match &change {
                SchemaChange::RenameTable { to, .. } => Some(to.clone()),
                _ => None,
            };
            let mut from_captured = self.captured(&table);
            if let Some(to) = &target {
                let is_known = names.get(&table).copied().unwrap_or(self.structures.get(&table).is_some());
                // Its name is captured and its rows were not followed: a tool's table whose real one was dropped in front of
                // this, or a temporary one that nobody else has. (In a log of the past every table is unknown at first.)
                from_captured &= is_known || self.present.is_some();
                names.insert(table.clone(), false);
                names.insert(to.clone(), from_captured);
            }
            let to_captured = target.as_ref().is_some_and(|t| self.captured(t));
            for name in [Some(&table), target.as_ref()].into_iter().flatten() {
                if matches!(self.ahead.get(name), Some(None)) {
                    self.missed.entry(name.clone()).or_default().push(gtid.clone());
                }
            }
            // of files there is no other word than the table's next map
            if let (false, true, Some(table), None) =
                (from_captured, to_captured, &target, &self.config.files)
            {
                appeared.push(table.clone());
            }
            if matches!(change, SchemaChange::CreateTable { .. } | SchemaChange::DropTable { .. }) {
                names.insert(
                    table.clone(),
                    from_captured && matches!(change, SchemaChange::CreateTable { .. }),
                );
            }
            if !from_captured {
                if self.is_shadow(&table) {
                    shadow::follow(&mut self.shadows, &change);
                }
                continue;
            }
            // renamed out of sight: to us it is dropped
            let change = match change {
                SchemaChange::RenameTable { table, .. } if !to_captured => SchemaChange::DropTable { table },
                other => other,
            };
            self.ensure_can_copy(query, &change)?;
            match groups.iter_mut().find(|(t, _)| *t == table) {
                Some((_, group)) => group.push(change),
                None => groups.push((table, vec![change])),
            }
        }
        for (table, changes) in groups {
            let before = self.structures.get(&table).cloned();
            if let (None, Some(present)) = (&before, &self.present)
                && !changes.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. }))
            {
                // whoever follows may have rows of before the start
                if let Some((changes, before, after)) = metadata::loss(&changes, present) {
                    let (mark, origin) = (mark.clone(), origin.clone());
                    let statement = (&*query.text).into();
                    let before = Some(before);
                    self.pending.push_back(LogItem::Schema {
                        mark,
                        origin,
                        statement,
                        changes,
                        before,
                        after,
                    });
                }
                continue;
            }
            self.structures
                .apply(&changes)
                .map_err(|e| e.note(self.here()).note(format!("the statement: {}", query.text)))?;
            let now = changes
                .iter()
                .rev()
                .find_map(|c| match c {
                    SchemaChange::RenameTable { to, .. } => Some(to.clone()),
                    _ => None,
                })
                .unwrap_or_else(|| table.clone());
            let after = self.structures.get(&now).cloned();
            self.pending.push_back(LogItem::Schema {
                mark: mark.clone(),
                origin: origin.clone(),
                statement: (&*query.text).into(),
                changes,
                before,
                after,
            });
        }
        for table in appeared {
            self.expect(table.clone());
            self.pending.push_back(LogItem::Appeared { table });
        }
        self.maps.clear();
        self.charsets_ensured = false;
        Ok(())
    }

    /// Files do not tell what rows are that changed unseen.
    fn ensure_can_copy(&self, query: &event::Query<'_>, change: &SchemaChange) -> Result<()> {
        let (SchemaChange::ResnapshotTable { table, reason }, true) = (change, self.config.files.is_some())
        else {
            return Ok(());
        };
        Err(Error::definite(
            codes::DDL_UNSUPPORTED,
            format!("rows of \"{table}\" changed without row events: {reason}"),
        )
        .note(self.here())
        .note(format!("the statement: {}", query.text))
        .help("files do not tell what the rows are from then on: read from the server"))
    }

    /// The swap of an online schema change tool that is trusted, told as a change of the real table's shape. False: it is no such
    /// swap, or the shadow's structure is not known, or none that the real one can be made into.
    fn swapped(&mut self, query: &event::Query<'_>, changes: &[SchemaChange]) -> Result<bool> {
        if !self.config.trust_online_ddl {
            return Ok(false);
        }
        let Some(swap) = online::swap(changes).filter(|swap| self.captured(&swap.real)) else {
            return Ok(false);
        };
        let before = self.structures.get(&swap.real).cloned();
        let (Some(before), Some(shadow)) = (before, self.shadows.definition(&swap.shadow)) else {
            return Ok(false);
        };
        let Ok((mut changes, reasons)) = online::shape_changes(&before, &shadow.schema) else {
            return Ok(false);
        };
        if !reasons.is_empty() {
            let copied =
                SchemaChange::ResnapshotTable { table: swap.real.clone(), reason: reasons.join(", ") };
            self.ensure_can_copy(query, &copied)?;
            changes.push(copied);
        }
        self.shadows.forget([&swap.shadow]);
        let schema = TableSchema { id: swap.real, version: 0, ..shadow.schema };
        let after = self.structures.insert_definition(ddl::Definition { schema, ..shadow });
        // indexes alone are nobody's business
        if let (Some(transaction), false) = (&self.transaction, changes.is_empty()) {
            self.pending.push_back(LogItem::Schema {
                mark: transaction.mark.clone(),
                origin: transaction.origin.clone(),
                statement: (&*query.text).into(),
                changes,
                before: Some(before),
                after: Some(after),
            });
        }
        self.maps.clear();
        self.charsets_ensured = false;
        Ok(true)
    }

    fn handle_table_map(&mut self, body: &[u8]) -> Result<()> {
        if self.skipping() {
            // its structure may be one that is known no more
            return Ok(());
        }
        let id = event::table_map_id(body).map_err(|w| self.corrupt(w))?;
        if self.ahead.is_empty() && self.maps.get(&id).is_some_and(|c| c.body == body) {
            return Ok(());
        }
        // names first: a table that is not captured may have types that are not known
        let (_, database, name) = TableMap::parse_names(body).map_err(|e| e.note(self.here()))?;
        let table = TableId::new(database, name);
        let captured = self.captured(&table) && !self.is_left_over(&table);
        if captured && self.present.is_some() {
            match self.learn(&table, body)? {
                Learning::Known => {}
                Learning::Later => {
                    self.deferred = Some(body.to_vec());
                    self.charsets_ensured = false;
                    return Ok(());
                }
                Learning::Refused(error) => {
                    let mapped = Mapped::Unknown(error);
                    self.maps.insert(id, CachedMap { body: body.to_vec(), mapped });
                    return Ok(());
                }
            }
        }
        let mapped = if captured && !self.structures.is_sequence(&table) {
            let Some(schema) = self.structures.get(&table).cloned() else {
                return Err(Error::definite(
                    codes::STRUCTURE_UNKNOWN,
                    format!("the structure of table \"{table}\" at this position is not known"),
                )
                .note(self.here())
                .help("start where the table's present structure was in force, or copy the tables anew"));
            };
            let map = TableMap::parse(body).map_err(|e| e.note(self.here()))?;
            let stored = self.structures.versioning(&table).and_then(|v| versioned::as_stored(&schema, v));
            let (stored, of_now) = match stored {
                Some((stored, of_now)) => (stored, Some(of_now)),
                None => (schema.clone(), None),
            };
            let stored = match &self.server {
                Some(server) if server.is_mariadb() => versioned::with_hashes(&map, stored),
                _ => stored,
            };
            // checks that the structure fits
            let mut decoder = RowDecoder::new(&map, &stored).map_err(|e| e.note(self.here()))?;
            if self.server.as_ref().is_some_and(Server::is_mariadb) {
                decoder = decoder.with_plain_zeros();
            }
            Mapped::Captured { schema, decoder: Box::new(decoder), of_now, completion: OnceLock::new() }
        } else {
            Mapped::Ignored
        };
        self.maps.insert(id, CachedMap { body: body.to_vec(), mapped });
        Ok(())
    }

    /// Of a log of the past: takes a structure from the table map, if it is not the one that is known.
    fn learn(&mut self, table: &TableId, body: &[u8]) -> Result<Learning> {
        let (Some(present), Some(server)) = (self.present.clone(), self.server.as_ref()) else {
            return Ok(Learning::Known);
        };
        let mut map = TableMap::parse(body).map_err(|e| e.note(self.here()))?;
        if server.is_mariadb() {
            map.columns.truncate(map.columns.len() - versioned::hashes(&map));
        }
        if server.is_mariadb()
            && let Some(is) = metadata::is_sequence(&map)
        {
            if is != self.structures.is_sequence(table) {
                self.structures.set_sequence(table.clone(), is);
            }
            if is {
                return Ok(Learning::Known);
            }
        }
        if self.structures.is_sequence(table) {
            return Ok(Learning::Known);
        }
        let known = self.structures.get(table).cloned();
        let mut differs = None;
        if let Some(known) = &known {
            let stored = self.structures.versioning(table).and_then(|v| versioned::as_stored(known, v));
            match map.check(stored.as_ref().map_or(known, |(stored, _)| stored)) {
                Ok(()) => return Ok(Learning::Known),
                Err(error) => differs = Some(error),
            }
        }
        let metadata::Learned { schema, versioning } =
            match metadata::structure(&map, server.flavor, &present) {
                Ok(learned) => learned,
                Err(metadata::Missing::Conversion { charset, .. }) if self.members_in != Some(charset) => {
                    self.members_in = Some(charset);
                    return Ok(Learning::Later);
                }
                Err(missing) => {
                    let error = differs.unwrap_or_else(|| metadata::unknown(table, &missing));
                    return Ok(Learning::Refused(Box::new(error.note(self.here()))));
                }
            };
        let Some(transaction) = &self.transaction else {
            return Err(self.corrupt("a table map outside a transaction"));
        };
        let (mark, origin) = (transaction.mark.clone(), transaction.origin.clone());
        let schema = match &known {
            Some(known) => metadata::with_known(schema, known),
            None => schema,
        };
        // a damaged map may contradict itself
        let stored = Arc::new(schema.clone());
        let stored =
            versioning.as_ref().and_then(|v| versioned::as_stored(&stored, v)).map_or(stored, |(s, _)| s);
        if let Err(error) = map.check(&stored) {
            return Ok(Learning::Refused(Box::new(error.note(self.here()))));
        }
        self.release_held();
        let told = known.as_ref().map(|known| metadata::difference(known, &schema));
        let after = self.structures.insert_definition(ddl::Definition {
            schema,
            indexes: None,
            versioning,
            history: None,
            period: None,
        });
        // under other numbers, of before
        self.maps.retain(|_, cached| match &cached.mapped {
            Mapped::Captured { schema, .. } => schema.id != *table,
            _ => true,
        });
        self.pending.push_back(LogItem::Schema {
            mark,
            origin,
            statement: format!("the log's metadata of table {table}").into(),
            changes: told.unwrap_or_else(|| vec![SchemaChange::CreateTable { schema: after.clone() }]),
            before: known,
            after: Some(after),
        });
        Ok(Learning::Later)
    }

    fn handle_rows(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        if self.skipping() {
            return Ok(());
        }
        let event = RowsEvent::parse(kind, body).map_err(|e| e.note(self.here()))?;
        self.take_rows(kind, body, &event)?;
        if event.is_statement_end()
            && self.unsure.is_none()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.statement = None;
        }
        Ok(())
    }

    fn take_rows(&mut self, kind: u8, body: &[u8], event: &RowsEvent<'_>) -> Result<()> {
        let Some(transaction) = self.transaction.as_mut() else {
            return Err(self.corrupt("row changes outside a transaction"));
        };
        let Some(cached) = self.maps.get(&event.table_id()) else {
            // the server ends a statement's list of tables with a dummy event of this id
            if event.is_dummy() {
                return Ok(());
            }
            return Err(self.corrupt("row changes of a table that no table map announced"));
        };
        let Mapped::Captured { schema, decoder, of_now, completion } = &cached.mapped else {
            return match &cached.mapped {
                Mapped::Unknown(error) => Err(Error::clone(error)),
                _ => Ok(()),
            };
        };
        let server = self.server.as_ref();
        let without_generated = server.is_some_and(Server::leaves_out_generated);
        let whole = decoder.gives_whole_rows(event)
            || (without_generated && event.lacks_only_generated(decoder.schema()));
        let completion = (!whole).then(|| {
            completion.get_or_init(|| {
                let indexes = ddl::Structures::indexes(&self.structures, &schema.id);
                let mariadb = server.is_some_and(Server::is_mariadb);
                let past = self.present.is_some();
                Box::new(Completion::new(
                    decoder.schema(),
                    indexes.as_deref(),
                    mariadb,
                    without_generated,
                    past,
                ))
            })
        });
        let op = match event.kind {
            RowsKind::Write => Op::Insert,
            RowsKind::Update => Op::Update,
            RowsKind::Delete => Op::Delete,
        };
        let replaces = transaction.statement.as_ref().map(|text| {
            let context = server.map(Server::context);
            context.and_then(|c| statements::replaces(text, &schema.id, &c, &self.structures))
        });
        // Of a versioned table the two times go by themselves.
        let hides_more = decoder.schema().columns.last().is_some_and(versioned::is_hash);
        let rows_before = transaction.rows;
        let mut changes = Vec::with_capacity((body.len() / 64).clamp(1, 128));
        let mut rows = decoder.rows(event);
        while let Some(row) = rows.next() {
            let here = |e: Error| e.note(place(&self.point, Some(transaction)));
            let (mut before, mut after) = row.map_err(here)?;
            let mut unknown = None;
            if let Some(completion) = completion {
                ((before, after), unknown) = completion
                    .complete(event.kind, (before, after), rows.differs(), replaces.flatten())
                    .map_err(here)?;
                if unknown.is_some_and(|u| u.why == Why::Replace) && replaces.is_none() {
                    transaction.rows = rows_before;
                    self.unsure = Some((kind, body.to_vec()));
                    return Ok(());
                }
            }
            let mut change = match of_now {
                None => RowChange { op, before, after, unknown },
                Some(of_now) => match of_now.change(before, after) {
                    Some(change) => RowChange { unknown, ..change },
                    None => continue,
                },
            };
            if hides_more {
                let shown = schema.columns.len();
                change.before = change.before.map(|row| versioned::first(row, shown));
                change.after = change.after.map(|row| versioned::first(row, shown));
            }
            transaction.rows += 1;
            // of an XA transaction that is decided at its end
            if transaction.rows > self.rows_to_skip || transaction.xa.is_some() {
                changes.push(change);
            }
        }
        if !changes.is_empty() {
            let item = LogItem::Rows {
                gtid: transaction.gtid.clone(),
                mark: transaction.mark.clone(),
                schema: schema.clone(),
                origin: transaction.origin.clone(),
                changes,
            };
            match &mut transaction.xa {
                Some(collected) if self.only.is_none() => collected.push(item, body.len()),
                _ => match &mut transaction.held {
                    Some(held) => self.pending.extend(held.push(item, body.len())),
                    None => self.pending.push_back(item),
                },
            }
        }
        Ok(())
    }
}

async fn load_charsets(config: Config, tables: Vec<Arc<TableSchema>>) -> Result<()> {
    let mut conn = connect(&config).await?;
    charsets::ensure(&mut conn, &tables).await?;
    let _ = conn.disconnect().await;
    Ok(())
}

fn task_failed(what: &str, error: &tokio::task::JoinError) -> Error {
    Error::definite(codes::INTERNAL, format!("the task that {what} failed: {error}"))
}

/// Where we are, for messages.
fn place(point: &LogPoint, transaction: Option<&Transaction>) -> String {
    match transaction {
        Some(t) => format!("at {point}, transaction {}", t.gtid),
        None => format!("at {point}"),
    }
}

/// The server's own databases are never captured.
pub fn is_user_database(name: &str) -> bool {
    !matches!(name, "mysql" | "information_schema" | "performance_schema" | "sys")
}

fn random_uuid() -> String {
    use std::hash::{BuildHasher, Hasher};
    // RandomState is seeded by the system
    let word = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&word().to_le_bytes());
    bytes[8..].copy_from_slice(&word().to_le_bytes());
    crate::gtid::uuid_text(&bytes)
}
