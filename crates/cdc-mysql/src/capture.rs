//! The whole source as one stream.
//!
//! [`Capture::next`] gives out, in an order in which applying one after the other gives the source's state:
//! changes of the log, rows of mended chunks, schema changes, ends of transactions. [`Capture::state`], asked
//! for at the end of a transaction, is what a restart needs to go on from exactly there: the position, the
//! structures in force at it, and which ranges of which tables are still to be copied.
//!
//! One task owns everything: the log reader, touched, the list of chunks. Chunk readers and the splitter are
//! tasks of their own that send messages; a full budget of chunks never stops the log reader, since it is only
//! by reading on that chunks get mended.
//!
//! *Loss of a connection.* The log reader goes on from its position; a chunk is read again from its
//! announcement on; both with back-off, each told by a [`CaptureItem::Notice`].

use crate::binlog::rows::KeyExtractor;
use crate::binlog::xa::{self, Branches};
use crate::binlog::{LogItem, LogPoint, LogReader, RowChange, SkipUntil, is_user_database};
use crate::config::{Config, StartMode};
use crate::conn::{connect, query_error, query_value, server_code};
use crate::gtid::{Gtid, GtidSet};
use crate::server::Server;
use crate::snapshot::chunk::{self, ChunkError, ChunkJob, ChunkKey, ChunkRows, KeyRange};
use crate::snapshot::reconcile::{ChunkNumber, Mended, NotYet, Reconciler, RowEvent, TableNumber};
use crate::snapshot::splitter::{self, Split, SplitJob};
use crate::snapshot::watermark::{self, Mark, Watermark};
use crate::structure::TableStructures;
use crate::{charsets, ddl, preflight};
use cdc_core::event::{Op, Origin};
use cdc_core::position::Position;
use cdc_core::schema::same_name;
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Charset, Diagnostic, Error, Result, Row, TableId, TableSchema, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, oneshot};

/// What a source gives out.
#[derive(Debug, Clone)]
pub enum CaptureItem {
    /// Changes of one table, of one transaction.
    Changes {
        /// The table's shape.
        schema: Arc<TableSchema>,
        /// The transaction.
        origin: Arc<Origin>,
        /// In log order.
        changes: Vec<RowChange>,
    },
    /// Rows of a mended chunk.
    Chunk {
        /// The table's shape.
        schema: Arc<TableSchema>,
        /// When and where they were read.
        origin: Arc<Origin>,
        /// The rows.
        rows: Vec<Row>,
    },
    /// A statement changed a table. The transaction ends with the next [`CaptureItem::TransactionEnd`].
    Schema {
        /// Where it comes from.
        origin: Arc<Origin>,
        /// The statement.
        statement: Arc<str>,
        /// What it does, in order.
        changes: Vec<SchemaChange>,
        /// The shape before; `None` for a table created.
        before: Option<Arc<TableSchema>>,
        /// The shape after; `None` for a table dropped.
        after: Option<Arc<TableSchema>>,
    },
    /// A transaction is complete.
    TransactionEnd,
    /// The position has moved with nothing for us.
    Moved,
    /// A table is an exact copy of the source from here on.
    TableWhole(TableId),
    /// Something to be told to the user; the stream goes on.
    Notice(Diagnostic),
    /// Nothing follows (start mode `snapshot`).
    End,
}

/// What a restart goes on from.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CaptureState {
    /// The server the position belongs to: [`Server::id`].
    pub server_uuid: String,
    /// Everything before it has been given out.
    pub position: Position,
    /// The structures in force at the position.
    pub structures: TableStructures,
    /// The tables that are still being copied.
    pub copying: Vec<CopyState>,
    /// Transactions that are still passed over, of a start by file or time.
    #[serde(default)]
    pub skip: Option<SkipUntil>,
    /// The start mode is `snapshot` and the copy is complete.
    #[serde(default)]
    pub ended: bool,
    /// XA transactions that are prepared and not ended.
    #[serde(default)]
    pub branches: Branches,
}

/// How far a table has been copied.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CopyState {
    /// Which table.
    pub table: TableId,
    /// It has been cut into chunks up to this key; `None`: not at all.
    pub cut_to: Option<Row>,
    /// Its last chunk has been cut.
    pub cut: bool,
    /// The chunks that have been cut and are not finished.
    pub open: Vec<KeyRange>,
    /// Single keys that are to be read.
    pub small: Vec<Row>,
    /// Rows given out so far.
    pub rows: u64,
    /// Chunks finished so far.
    pub chunks: u64,
}

/// Where a table stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableProgress {
    /// Which table.
    pub table: TableId,
    /// True when the table is an exact copy.
    pub whole: bool,
    /// Rows given out by the snapshot.
    pub rows: u64,
    /// Rows that the server reckons with; 0 if not known.
    pub estimate: u64,
    /// Chunks finished.
    pub chunks: u64,
}

struct OpenChunk {
    range: KeyRange,
    /// A small chunk: just this key.
    key: Option<Row>,
    running: Option<ChunkNumber>,
}

struct Copying {
    key: Arc<ChunkKey>,
    extractor: KeyExtractor,
    cut_to: Option<Row>,
    cut: bool,
    open: Vec<OpenChunk>,
    /// The table is not as the reader expected: wait until the log has said why.
    wait_for: Option<LogPoint>,
    moved_errors: u32,
}

struct Table {
    number: TableNumber,
    /// `None`: whole.
    copying: Option<Copying>,
    rows: u64,
    chunks: u64,
    estimate: u64,
    /// Of a row, as the server reckons and as the last chunk showed; 0 if not known.
    row_bytes: u64,
}

enum Reply {
    Go,
    Again,
    Drop,
}

enum Message {
    Low {
        chunk: ChunkNumber,
        low: Watermark,
        reply: oneshot::Sender<Reply>,
    },
    Done {
        chunk: ChunkNumber,
        /// The structure that it was selected with: the one in force may be another by now.
        schema: Arc<TableSchema>,
        result: std::result::Result<ChunkRows, ChunkError>,
        conn: Option<Conn>,
    },
}

struct ReadChunk {
    table: TableId,
    schema: Arc<TableSchema>,
    rows: ChunkRows,
}

/// Bytes of touched above which chunks in flight are given up, so that it can be swept.
const TOUCHED_LIMIT: usize = 64 << 20;

/// A chunk whose connection failed is tried again after this pause.
const RECONNECT: Duration = Duration::from_millis(500);

/// A table that keeps answering "not as expected" although the log has been read past it is not followed.
const MOVED_LIMIT: u32 = 20;

/// A source.
pub struct Capture {
    config: Config,
    server: Server,
    log: LogReader,
    tables: BTreeMap<TableId, Table>,
    next_number: TableNumber,
    reconciler: Reconciler<Mark, Watermark>,
    idle: Vec<Conn>,
    reading: BTreeMap<ChunkNumber, TableId>,
    read: BTreeMap<ChunkNumber, ReadChunk>,
    messages: (mpsc::Sender<Message>, mpsc::Receiver<Message>),
    splits: Option<mpsc::Receiver<Split>>,
    split_failures: u32,
    out: VecDeque<CaptureItem>,
    /// Chunks wait until the log reader has given out all of these.
    hold: GtidSet,
    /// In start mode `snapshot`: the greatest high watermark so far.
    highest: Option<LogPoint>,
    backoff: Backoff,
    ended: bool,
    touched_limit: usize,
    /// After a lost connection: when the log is asked for again.
    retry_at: Option<Instant>,
}

struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);

    fn take(&mut self) -> Duration {
        let now = self.next;
        self.next = (now * 2).min(Duration::from_secs(10));
        now
    }

    fn reset(&mut self) {
        self.next = Self::FIRST;
    }
}

/// The tables of a server that a source captures, and what is to be told about them.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// By name.
    pub tables: Vec<Arc<TableSchema>>,
    /// Warnings.
    pub notices: Vec<Diagnostic>,
}

/// Looks for the tables of a source and reads their structures.
///
/// # Errors
/// `NO_TABLES`, `NO_KEY`, `GRANT_MISSING`, `TYPE_UNSUPPORTED`; those of the connection.
pub async fn discover(conn: &mut Conn, config: &Config) -> Result<(TableStructures, Discovery)> {
    let doing = "looking for tables";
    let rows: Vec<(Vec<u8>, Vec<u8>, String)> = conn
        .query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES \
             WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') ORDER BY TABLE_SCHEMA, TABLE_NAME",
        )
        .await
        .map_err(|e| query_error(e, doing))?;
    let named = |(database, table, ty): &(Vec<u8>, Vec<u8>, String)| {
        (TableId::new(String::from_utf8_lossy(database), String::from_utf8_lossy(table)), ty == "SEQUENCE")
    };
    let (sequences, all): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(named)
        .filter(|(id, _)| is_user_database(&id.database))
        .partition(|(_, is_sequence)| *is_sequence);
    let all: Vec<TableId> = all.into_iter().map(|(id, _)| id).collect();
    let mut discovery = Discovery::default();
    for pattern in config.tables.unmatched(&all) {
        discovery.notices.push(
            Diagnostic::warning(
                codes::PATTERN_MATCHES_NOTHING,
                format!("\"{pattern}\" matches no table of the server"),
            )
            .help(format!(
                "check its spelling, and that account \"{}\" may see the table: GRANT SELECT",
                config.account()
            )),
        );
    }
    let captured: Vec<TableId> = all.iter().filter(|t| config.tables.contains(t)).cloned().collect();
    if captured.is_empty() {
        let mut databases: Vec<&str> = all.iter().map(|t| &*t.database).collect();
        databases.dedup();
        return Err(Error::definite(codes::NO_TABLES, "the source's patterns match no table of the server")
            .note(format!(
                "account \"{}\" sees {} tables in {} databases{}",
                config.account(),
                all.len(),
                databases.len(),
                if databases.is_empty() { String::new() } else { format!(": {}", databases.join(", ")) }
            ))
            .help(format!("check tables = [..]; or: GRANT SELECT ON db.* TO '{}'@'%'", config.account())));
    }
    let mut structures = TableStructures::new();
    let context = Server::ask(conn).await?.context();
    let charsets: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> = conn
        .query("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA")
        .await
        .map_err(|e| query_error(e, doing))?;
    for (database, charset, collation) in charsets {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        structures.set_database(text(&database), Charset::new(text(&charset), text(&collation)));
    }
    for (sequence, _) in sequences {
        structures.set_sequence(sequence, true);
    }
    for table in captured {
        let Some(definition) = structure_of(conn, &table, &context, &structures).await? else { continue };
        if definition.schema.key().is_none() {
            return Err(Error::definite(codes::NO_KEY, format!("table \"{table}\" has no primary key and no unique key over columns that are not null"))
                .note("a table without a key is a multiset, which this version does not copy")
                .help(format!("ALTER TABLE {table} ADD COLUMN id BIGINT AUTO_INCREMENT PRIMARY KEY; or leave it out: tables = [.., \"!{table}\"]; a flow's `key` cannot replace it yet")));
        }
        discovery.tables.push(structures.insert_definition(definition));
    }
    charsets::ensure(conn, structures.tables()).await?;
    Ok((structures, discovery))
}

/// The present structure of a table; `None` if it is gone.
async fn structure_of(
    conn: &mut Conn,
    table: &TableId,
    context: &ddl::Context<'_>,
    known: &TableStructures,
) -> Result<Option<ddl::Definition>> {
    let name = format!("{}.{}", chunk::quote_name(&table.database), chunk::quote_name(&table.table));
    // any privilege on the table shows its structure; that its rows may be read is found out by reading none
    let readable = conn.query_drop(format!("SELECT * FROM {name} LIMIT 0")).await;
    let shown = match readable {
        Ok(()) => conn.query_first(format!("SHOW CREATE TABLE {name}")).await,
        Err(e) => Err(e),
    };
    let row: Option<mysql_async::Row> = match shown {
        Ok(row) => row,
        Err(e) if matches!(server_code(&e), Some(1146 | 1049)) => return Ok(None),
        Err(e) => {
            return Err(query_error(e, &format!("reading the structure of table \"{table}\"")).help(
                format!("GRANT SELECT ON {}.* TO the source's account", chunk::quote_name(&table.database)),
            ));
        }
    };
    let text: Option<Vec<u8>> = row.and_then(|r| r.get(1));
    let text = text
        .ok_or_else(|| Error::definite(codes::SERVER_ERROR, format!("no structure given for \"{table}\"")))?;
    let text = String::from_utf8(text).map_err(|_| {
        Error::definite(codes::DDL_NOT_UNDERSTOOD, format!("structure of \"{table}\" is not UTF-8 text"))
    })?;
    let mut definition = ddl::parse_definition(&text, &context.clone().in_database(&table.database), known)?;
    definition.schema.id = table.clone();
    Ok(Some(definition))
}

impl Capture {
    /// Begins: looks at the server and its tables, finds the position to start from.
    ///
    /// # Errors
    /// Everything that preflight and discovery find.
    pub async fn start(config: Config) -> Result<Capture> {
        Capture::start_telling(config, &|_| ()).await
    }

    /// As [`Capture::start`]; `tell` is told what it waits for.
    ///
    /// # Errors
    /// Those of [`Capture::start`].
    pub async fn start_telling(config: Config, tell: &(dyn Fn(Diagnostic) + Sync)) -> Result<Capture> {
        let mut conn = connect(&config).await?;
        let (server, checks) = preflight::check(&mut conn, &config).await?;
        preflight::ensure(&checks)?;
        let copy = matches!(config.start, StartMode::Initial | StartMode::Snapshot);
        let (log, discovery) = match &config.start {
            StartMode::Initial | StartMode::Snapshot | StartMode::Latest => {
                begin_now(&mut conn, &server, &config, tell).await?
            }
            StartMode::Earliest => {
                let first = LogPoint::new(oldest_log(&mut conn).await?, 4);
                let (structures, discovery) = discover(&mut conn, &config).await?;
                (LogReader::from_file(config.clone(), first, structures), discovery)
            }
            StartMode::Timestamp(micros) => {
                let first = oldest_log(&mut conn).await?;
                let (structures, discovery) = discover(&mut conn, &config).await?;
                (LogReader::from_time(config.clone(), &first, *micros, structures), discovery)
            }
            StartMode::File(file, offset) => {
                let (structures, discovery) = discover(&mut conn, &config).await?;
                let point = LogPoint::new(file.as_str(), *offset);
                (LogReader::from_file(config.clone(), point, structures), discovery)
            }
            StartMode::Gtids(set) => {
                let position = Position { gtids: set.to_string().into(), ..Position::default() };
                let (structures, discovery) = discover(&mut conn, &config).await?;
                (LogReader::new(config.clone(), &position, structures)?, discovery)
            }
        };
        let copying = if copy {
            discovery.tables.iter().map(|t| (t.id.clone(), None)).collect()
        } else {
            Vec::new()
        };
        let mut capture = Capture::assemble(config, server, log, copying)?;
        capture.out.extend(discovery.notices.into_iter().map(CaptureItem::Notice));
        if !copy {
            // anything wrong with the position is told at once
            capture.log.ensure_connected().await?;
        }
        Ok(capture)
    }

    /// Goes on from a state.
    ///
    /// # Errors
    /// `LOG_PURGED`, `SERVER_CHANGED`; what preflight finds.
    pub async fn resume(config: Config, state: &CaptureState) -> Result<Capture> {
        let mut conn = connect(&config).await?;
        let (server, checks) = preflight::check(&mut conn, &config).await?;
        preflight::ensure(&checks)?;
        if server.is_mariadb() && !state.copying.is_empty() && server.id != state.server_uuid {
            // low watermarks are points of one server's log
            return Err(moved_while_copying(&server.id, &state.server_uuid));
        }
        let log = LogReader::resume_skipping(
            config.clone(),
            &state.position,
            state.structures.clone(),
            state.skip.clone(),
        )?
        .with_branches(state.branches.clone());
        let copying = state.copying.iter().map(|c| (c.table.clone(), Some(c))).collect();
        // touched is lost: all that was given out counts as forgotten
        let mut capture = Capture::assemble(config, server, log, copying)?;
        capture.log.ensure_connected().await?;
        capture.ended = state.ended;
        Ok(capture)
    }

    fn assemble(
        config: Config,
        server: Server,
        log: LogReader,
        copying: Vec<(TableId, Option<&CopyState>)>,
    ) -> Result<Capture> {
        let given_out = Watermark::of_position(server.flavor, log.gtids(), log.boundary());
        let mut capture = Capture {
            reconciler: Reconciler::new(given_out),
            config,
            server,
            log,
            tables: BTreeMap::new(),
            next_number: 0,
            idle: Vec::new(),
            reading: BTreeMap::new(),
            read: BTreeMap::new(),
            messages: mpsc::channel(64),
            splits: None,
            split_failures: 0,
            out: VecDeque::new(),
            hold: GtidSet::new(),
            highest: None,
            backoff: Backoff { next: Backoff::FIRST },
            ended: false,
            touched_limit: TOUCHED_LIMIT,
            retry_at: None,
        };
        let known: Vec<Arc<TableSchema>> = capture.log.structures().tables().cloned().collect();
        for schema in known {
            capture.add_table(&schema.id, None);
        }
        for (id, state) in copying {
            let Some(schema) = capture.log.structures().get(&id).cloned() else { continue };
            let key = chunk_key(&schema)?;
            let mut copying = Copying {
                extractor: KeyExtractor::new(&schema, &key.columns),
                key,
                cut_to: None,
                cut: false,
                open: Vec::new(),
                wait_for: None,
                moved_errors: 0,
            };
            let mut done = (0, 0);
            if let Some(state) = state {
                copying.cut_to = state.cut_to.clone();
                copying.cut = state.cut;
                copying.open.extend(state.open.iter().map(|r| OpenChunk {
                    range: r.clone(),
                    key: None,
                    running: None,
                }));
                copying.open.extend(state.small.iter().map(|k| OpenChunk {
                    range: KeyRange::default(),
                    key: Some(k.clone()),
                    running: None,
                }));
                done = (state.rows, state.chunks);
            }
            if let Some(table) = capture.tables.get_mut(&id) {
                table.copying = Some(copying);
                (table.rows, table.chunks) = done;
            }
        }
        capture.start_splitter();
        Ok(capture)
    }

    fn add_table(&mut self, id: &TableId, copying: Option<Copying>) {
        let number = self.next_number;
        self.next_number += 1;
        self.tables
            .insert(id.clone(), Table { number, copying, rows: 0, chunks: 0, estimate: 0, row_bytes: 0 });
    }

    /// No chunk is mended before the log reader has given out all of these transactions: those that a target
    /// already has. So rows of chunks never enter a tick that is replayed.
    pub fn hold_chunks_until(&mut self, position: &Position) -> Result<()> {
        self.hold.extend(&GtidSet::parse(&position.gtids)?);
        Ok(())
    }

    /// True once everything that was asked for by `hold_chunks_until` has been given out.
    pub fn is_past_hold(&self) -> bool {
        self.log.gtids().contains_set(&self.hold)
    }

    /// Has the log reader given out everything that this position holds?
    ///
    /// # Errors
    /// `LOG_POSITION` for a malformed GTID set.
    pub fn has_reached(&self, position: &Position) -> Result<bool> {
        Ok(self.log.gtids().contains_set(&GtidSet::parse(&position.gtids)?))
    }

    /// Everything given out.
    pub fn position(&self) -> Position {
        self.log.position()
    }

    /// How far the log has been read.
    pub fn log_point(&self) -> &LogPoint {
        self.log.point()
    }

    /// True between transactions, when nothing that was begun is still to be given out.
    pub fn at_boundary(&self) -> bool {
        self.log.at_boundary() && self.out.is_empty()
    }

    /// True when every table is whole.
    pub fn is_whole(&self) -> bool {
        self.tables.values().all(|t| t.copying.is_none())
    }

    /// Is this table whole?
    pub fn is_table_whole(&self, table: &TableId) -> bool {
        self.tables.get(table).is_none_or(|t| t.copying.is_none())
    }

    /// The structures in force.
    pub fn schemas(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.log.structures().tables()
    }

    /// Where each table stands.
    pub fn progress(&self) -> Vec<TableProgress> {
        self.tables
            .iter()
            .map(|(id, t)| TableProgress {
                table: id.clone(),
                whole: t.copying.is_none(),
                rows: t.rows,
                estimate: t.estimate,
                chunks: t.chunks,
            })
            .collect()
    }

    /// The written end of the log now, and the transactions committed up to now.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn server_position(&self) -> Result<Position> {
        let mut conn = connect(&self.config).await?;
        let server = Server::ask(&mut conn).await?;
        let executed = watermark::committed(&mut conn, &server).await?;
        let end = watermark::written_end(&mut conn, &server).await?;
        let _ = conn.disconnect().await;
        Ok(Position { gtids: executed.to_string().into(), file: end.file, offset: end.offset, rows: 0 })
    }

    /// What a restart goes on from. Only at a boundary ([`Capture::at_boundary`]).
    pub fn state(&self) -> CaptureState {
        let copying = self
            .tables
            .iter()
            .filter_map(|(id, t)| {
                let c = t.copying.as_ref()?;
                Some(CopyState {
                    table: id.clone(),
                    cut_to: c.cut_to.clone(),
                    cut: c.cut,
                    open: c.open.iter().filter(|o| o.key.is_none()).map(|o| o.range.clone()).collect(),
                    small: c.open.iter().filter_map(|o| o.key.clone()).collect(),
                    rows: t.rows,
                    chunks: t.chunks,
                })
            })
            .collect();
        CaptureState {
            server_uuid: self.server.id.clone(),
            position: self.log.position(),
            structures: self.log.structures().clone(),
            copying,
            skip: self.log.skip().cloned(),
            ended: self.ended,
            branches: self.log.branches().clone(),
        }
    }

    /// The next item. May be dropped while it waits.
    ///
    /// # Errors
    /// Definite ones only: transient ones are told as notices and tried again.
    pub async fn next(&mut self) -> Result<CaptureItem> {
        loop {
            if let Some(item) = self.out.pop_front() {
                return Ok(item);
            }
            if self.ended {
                return Ok(CaptureItem::End);
            }
            self.dispatch();
            self.mend()?;
            if !self.out.is_empty() {
                continue;
            }
            let snapshot = self.config.start == StartMode::Snapshot;
            if snapshot && self.is_whole() && self.log.at_boundary() {
                self.ended = true;
                continue;
            }
            // In start mode `snapshot` the log is given out only up to the high watermarks taken.
            let hold_log = snapshot
                && self.log.at_boundary()
                && self.is_past_hold()
                && self.highest.as_ref().is_none_or(|h| self.log.point().has_reached(h));
            let want_splits = self.splits.is_some() && self.waiting() < self.in_flight_limit();
            tokio::select! {
                biased;
                Some(message) = self.messages.1.recv() => self.handle_message(message)?,
                split = recv_split(&mut self.splits), if want_splits => self.handle_split(split)?,
                item = self.log.next(), if !hold_log && self.retry_at.is_none() => match item {
                    Ok(item) => {
                        self.backoff.reset();
                        self.handle_log(item)?;
                    }
                    Err(error) if error.is_transient() => {
                        self.log.disconnect();
                        let wait = self.backoff.take();
                        let notice = error.diagnostic().clone();
                        self.out.push_back(CaptureItem::Notice(Diagnostic { severity: cdc_core::Severity::Warning, ..notice }
                            .note(format!("trying again in {wait:?}"))));
                        self.retry_at = Some(Instant::now() + wait);
                    }
                    Err(error) => return Err(error),
                },
                () = sleep_until(self.retry_at), if self.retry_at.is_some() => self.retry_at = None,
            }
            self.check_server()?;
        }
    }

    /// Has the log reader come to another server? Its positions are other ones.
    fn check_server(&mut self) -> Result<()> {
        let Some(now) = self.log.server().filter(|now| now.id != self.server.id) else { return Ok(()) };
        if !self.is_whole() {
            return Err(moved_while_copying(&now.id, &self.server.id));
        }
        self.server = now.clone();
        self.highest = None;
        Ok(())
    }

    // ---- the log

    fn handle_log(&mut self, item: LogItem) -> Result<()> {
        match item {
            LogItem::Rows { mark, schema, origin, changes, .. } => {
                if let Some(table) = self.tables.get_mut(&schema.id) {
                    if let Some(copying) = &mut table.copying {
                        touch(&mut self.reconciler, table.number, copying, &mark, &changes);
                        if self.reconciler.bytes() > self.touched_limit {
                            self.shed();
                        }
                    }
                } else {
                    self.add_table(&schema.id, None);
                }
                self.out.push_back(CaptureItem::Changes { schema, origin, changes });
            }
            LogItem::Schema { mark, origin, statement, changes, before, after } => {
                self.handle_schema(&mark, &changes, before.as_ref(), after.as_ref())?;
                self.out.push_back(CaptureItem::Schema { origin, statement, changes, before, after });
            }
            LogItem::Commit { .. } => self.out.push_back(CaptureItem::TransactionEnd),
            LogItem::Moved => self.out.push_back(CaptureItem::Moved),
        }
        Ok(())
    }

    fn handle_schema(
        &mut self,
        mark: &Mark,
        changes: &[SchemaChange],
        before: Option<&Arc<TableSchema>>,
        after: Option<&Arc<TableSchema>>,
    ) -> Result<()> {
        let Some(old_id) = before.map(|s| s.id.clone()) else {
            // created: every row of it comes with the log
            if let Some(after) = after {
                self.add_table(&after.id, None);
            }
            return Ok(());
        };
        let Some(mut table) = self.tables.remove(&old_id) else { return Ok(()) };
        self.reconciler.ddl(table.number, mark);
        let Some(after) = after else {
            self.reconciler.forget_table(table.number);
            self.reading.retain(|_, t| *t != old_id);
            self.read.retain(|_, r| r.table != old_id);
            self.restart_splitter();
            return Ok(());
        };
        let recreated = changes.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. }));
        if recreated {
            self.reconciler.forget_table(table.number);
            table.copying = None;
        }
        if let Some(copying) = &mut table.copying {
            let key = chunk_key(after)?;
            if !same_key(&copying.key, &key, changes) {
                return Err(Error::definite(
                    codes::KEY_CHANGED,
                    format!("the key of table \"{}\" changed while it was being copied", after.id),
                )
                .help(
                    "copy the table anew: stop, remove the state folder and the target's tables, start again",
                ));
            }
            copying.extractor = KeyExtractor::new(after, &key.columns);
            copying.key = key;
        }
        for table in self.reading.values_mut().chain(self.read.values_mut().map(|r| &mut r.table)) {
            if *table == old_id {
                *table = after.id.clone();
            }
        }
        let copies = table.copying.is_some();
        self.tables.insert(after.id.clone(), table);
        if copies || recreated {
            self.restart_splitter();
        }
        Ok(())
    }

    /// Touched is over its limit: if a sweep does not help, the chunks in flight are given up, so that the next
    /// one does. The limit then grows with what is left: what no `gtid_executed` holds yet cannot go.
    fn shed(&mut self) {
        self.reconciler.sweep();
        self.reconciler.count_bytes();
        if self.reconciler.bytes() <= self.touched_limit / 2 {
            return;
        }
        for number in self.reading.keys().chain(self.read.keys()) {
            self.reconciler.drop_chunk(*number);
        }
        self.reading.clear();
        self.read.clear();
        for copying in self.tables.values_mut().filter_map(|t| t.copying.as_mut()) {
            for chunk in &mut copying.open {
                chunk.running = None;
            }
        }
        self.reconciler.sweep();
        self.reconciler.count_bytes();
        self.touched_limit = TOUCHED_LIMIT.max(2 * self.reconciler.bytes());
    }

    // ---- cutting

    fn start_splitter(&mut self) {
        let jobs: Vec<SplitJob> = self
            .tables
            .values()
            .filter_map(|t| t.copying.as_ref())
            .filter(|c| !c.cut)
            .map(|c| SplitJob { key: c.key.clone(), cut_to: c.cut_to.clone() })
            .collect();
        if jobs.is_empty() {
            self.splits = None;
            return;
        }
        let (sender, receiver) = mpsc::channel(self.config.chunk_readers * 2);
        tokio::spawn(splitter::run(self.config.clone(), self.server.clone(), jobs, sender));
        self.splits = Some(receiver);
    }

    /// The tables or their names are other ones: what the splitter has cut and nobody took is cut again.
    fn restart_splitter(&mut self) {
        if self.splits.is_some() {
            self.start_splitter();
        }
    }

    fn handle_split(&mut self, split: Option<Split>) -> Result<()> {
        match split {
            None => self.splits = None,
            Some(Split::Estimate(key, rows, bytes)) => {
                if let Some(table) = self.tables.get_mut(&key.schema.id) {
                    table.estimate = rows;
                    table.row_bytes = bytes;
                }
            }
            Some(Split::Chunk(key, range)) => {
                self.split_failures = 0;
                if let Some(copying) = self.tables.get_mut(&key.schema.id).and_then(|t| t.copying.as_mut()) {
                    match &range.upper {
                        Some(upper) => copying.cut_to = Some(upper.clone()),
                        None => copying.cut = true,
                    }
                    copying.open.push(OpenChunk { range, key: None, running: None });
                }
            }
            Some(Split::Failed(error, point)) => {
                // a DDL that the log reader has not reached looks like a definite error until it has
                if !error.is_transient() && point.as_ref().is_none_or(|p| self.log.point().has_reached(p)) {
                    self.split_failures += 1;
                    if self.split_failures > MOVED_LIMIT {
                        return Err(error);
                    }
                }
                if let Some(point) = point
                    && self.highest.as_ref().is_none_or(|h| !h.has_reached(&point))
                {
                    self.highest = Some(point);
                }
                let notice = error.diagnostic().clone();
                self.out.push_back(CaptureItem::Notice(Diagnostic {
                    severity: cdc_core::Severity::Warning,
                    ..notice
                }));
                // the next one begins after a pause, without holding up the log
                let wait = Duration::from_millis(100 * u64::from(self.split_failures.clamp(5, 50)));
                let (sender, receiver) = mpsc::channel(self.config.chunk_readers * 2);
                let jobs = self
                    .tables
                    .values()
                    .filter_map(|t| t.copying.as_ref())
                    .filter(|c| !c.cut)
                    .map(|c| SplitJob { key: c.key.clone(), cut_to: c.cut_to.clone() })
                    .collect();
                let (config, server) = (self.config.clone(), self.server.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(wait).await;
                    splitter::run(config, server, jobs, sender).await;
                });
                self.splits = Some(receiver);
            }
        }
        Ok(())
    }

    // ---- chunks

    /// Chunks being read or waiting for the log, at most: memory is this many times `chunk_bytes`.
    fn in_flight_limit(&self) -> usize {
        2 * self.config.chunk_readers
    }

    /// Chunks that are cut and neither read nor being read. No more are taken from the splitter than are soon
    /// begun, so the list of chunks does not grow with the table.
    fn waiting(&self) -> usize {
        let copying = self.tables.values().filter_map(|t| t.copying.as_ref());
        copying.map(|c| c.open.iter().filter(|o| o.running.is_none()).count()).sum()
    }

    fn dispatch(&mut self) {
        if !self.is_past_hold() {
            return;
        }
        while self.reading.len() < self.config.chunk_readers
            && self.reading.len() + self.read.len() < self.in_flight_limit()
        {
            let point = self.log.point().clone();
            let Some((id, table)) = self.tables.iter_mut().find(|(_, t)| {
                t.copying.as_ref().is_some_and(|c| {
                    c.wait_for.as_ref().is_none_or(|w| point.has_reached(w))
                        && c.open.iter().any(|o| o.running.is_none())
                })
            }) else {
                return;
            };
            let Some(copying) = table.copying.as_mut() else { return };
            copying.wait_for = None;
            let Some(open) = copying.open.iter_mut().find(|o| o.running.is_none()) else { return };
            let number = self.reconciler.announce(table.number, open.key.clone());
            open.running = Some(number);
            let job = ChunkJob {
                range: open.range.clone(),
                key: open.key.clone(),
                table: copying.key.clone(),
                // what a chunk cannot hold is read for nothing: with large rows it is asked for less
                limit: (2 * self.config.chunk_rows)
                    .min((2 * self.config.chunk_bytes as u64 / table.row_bytes.max(1)).max(1)),
                bytes: self.config.chunk_bytes,
            };
            self.reading.insert(number, id.clone());
            let conn = self.idle.pop();
            tokio::spawn(read_chunk(
                self.config.clone(),
                self.server.clone(),
                conn,
                number,
                job,
                self.messages.0.clone(),
            ));
        }
    }

    fn handle_message(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Low { chunk, low, reply } => {
                // whatever becomes of the chunk, later sets hold at least as much: touched can be swept by it
                self.reconciler.executed(&low);
                let answer = match self.reconciler.low_watermark(chunk, &low) {
                    Ok(()) => Reply::Go,
                    Err(NotYet::Forgotten | NotYet::Base) => Reply::Again,
                    Err(NotYet::Dropped) => Reply::Drop,
                };
                // the reader may have gone: then its chunk fails by itself
                let _ = reply.send(answer);
            }
            Message::Done { chunk, schema, result, conn } => {
                self.idle.extend(conn);
                let Some(table) = self.reading.remove(&chunk) else { return Ok(()) };
                match result {
                    Ok(rows) => {
                        if self.highest.as_ref().is_none_or(|h| !h.has_reached(&rows.high)) {
                            self.highest = Some(rows.high.clone());
                        }
                        if self.is_wanted(&table, chunk) {
                            self.read.insert(chunk, ReadChunk { table, schema, rows });
                        } else {
                            self.reconciler.drop_chunk(chunk);
                        }
                    }
                    Err(error) => self.chunk_failed(&table, chunk, error)?,
                }
            }
        }
        Ok(())
    }

    /// Is the chunk still one of its table?
    fn is_wanted(&self, table: &TableId, chunk: ChunkNumber) -> bool {
        let copying = self.tables.get(table).and_then(|t| t.copying.as_ref());
        copying.is_some_and(|c| c.open.iter().any(|o| o.running == Some(chunk)))
    }

    fn chunk_failed(&mut self, table: &TableId, chunk: ChunkNumber, error: ChunkError) -> Result<()> {
        self.reconciler.drop_chunk(chunk);
        let Some(copying) = self.tables.get_mut(table).and_then(|t| t.copying.as_mut()) else {
            return Ok(());
        };
        if let Some(open) = copying.open.iter_mut().find(|o| o.running == Some(chunk)) {
            open.running = None;
        }
        match error {
            ChunkError::Moved(point, error) => {
                copying.moved_errors += 1;
                if copying.moved_errors > MOVED_LIMIT {
                    return Err(error.note("the log holds no statement that explains it"));
                }
                // in start mode `snapshot` the log is read on for it
                if self.highest.as_ref().is_none_or(|h| !h.has_reached(&point)) {
                    self.highest = Some(point.clone());
                }
                copying.wait_for = Some(point);
            }
            ChunkError::Failed(error) if error.is_transient() => {
                let notice = error.diagnostic().clone();
                self.out.push_back(CaptureItem::Notice(Diagnostic {
                    severity: cdc_core::Severity::Warning,
                    ..notice
                }));
            }
            ChunkError::Failed(error) => return Err(error.note(format!("table \"{table}\""))),
        }
        Ok(())
    }

    /// Mends the chunks whose high watermark the log reader has reached.
    fn mend(&mut self) -> Result<()> {
        if self.read.is_empty() && self.tables.values().all(|t| t.copying.is_none()) {
            return Ok(());
        }
        let point = self.log.point();
        let ready: Vec<ChunkNumber> =
            self.read.iter().filter(|(_, r)| point.has_reached(&r.rows.high)).map(|(n, _)| *n).collect();
        for number in ready {
            let Some(chunk) = self.read.remove(&number) else { continue };
            self.mend_one(number, chunk);
        }
        if self.log.at_boundary() {
            let whole: Vec<TableId> = self
                .tables
                .iter()
                .filter(|(_, t)| t.copying.as_ref().is_some_and(|c| c.cut && c.open.is_empty()))
                .map(|(id, _)| id.clone())
                .collect();
            for id in whole {
                if let Some(table) = self.tables.get_mut(&id) {
                    table.copying = None;
                    self.reconciler.forget_table(table.number);
                }
                self.out.push_back(CaptureItem::TableWhole(id));
            }
            if self.is_whole() {
                // nothing is copied any more: the connections are given back
                self.idle.clear();
                self.splits = None;
            }
        }
        Ok(())
    }

    fn mend_one(&mut self, number: ChunkNumber, chunk: ReadChunk) {
        let Some(table) = self.tables.get_mut(&chunk.table) else {
            self.reconciler.drop_chunk(number);
            return;
        };
        let Some(copying) = table.copying.as_mut() else {
            self.reconciler.drop_chunk(number);
            return;
        };
        let Some(at) = copying.open.iter().position(|o| o.running == Some(number)) else {
            self.reconciler.drop_chunk(number);
            return;
        };
        // the structure in force at the mend position must be the one it was selected with
        let same =
            copying.key.schema.version == chunk.schema.version && copying.key.schema.id == chunk.schema.id;
        let mended = if same {
            self.reconciler.mend(number, chunk.rows.rows)
        } else {
            self.reconciler.drop_chunk(number);
            Mended::Void
        };
        match mended {
            Mended::Void | Mended::Dropped => copying.open[at].running = None,
            Mended::Rows { rows, again } => {
                let small = copying.open.remove(at).key.is_some();
                copying.moved_errors = 0;
                if let Some(rest) = chunk.rows.rest {
                    copying.open.push(OpenChunk { range: rest, key: None, running: None });
                }
                for key in again {
                    if !copying.open.iter().any(|o| o.key.as_ref() == Some(&key)) {
                        copying.open.push(OpenChunk {
                            range: KeyRange::default(),
                            key: Some(key),
                            running: None,
                        });
                    }
                }
                table.rows += rows.len() as u64;
                if let Some(mean) = (rows.iter().map(|r| r.as_bytes().len() as u64).sum::<u64>())
                    .checked_div(rows.len() as u64)
                {
                    table.row_bytes = mean;
                }
                table.chunks += u64::from(!small);
                let origin = Origin {
                    timestamp_micros: now_micros(),
                    gtid: "".into(),
                    file: chunk.rows.high.file.clone(),
                    offset: chunk.rows.high.offset,
                    snapshot: true,
                };
                if !rows.is_empty() {
                    self.out.push_back(CaptureItem::Chunk {
                        // the very one that rows of the log carry: a comment may have made a copy of the version
                        schema: copying.key.schema.clone(),
                        origin: Arc::new(origin),
                        rows,
                    });
                }
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

async fn recv_split(splits: &mut Option<mpsc::Receiver<Split>>) -> Option<Split> {
    match splits {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

fn touch(
    reconciler: &mut Reconciler<Mark, Watermark>,
    number: TableNumber,
    copying: &mut Copying,
    mark: &Mark,
    changes: &[RowChange],
) {
    for change in changes {
        let before = change.before.as_ref().map(|r| copying.extractor.key(r));
        let after = change.after.as_ref().map(|r| copying.extractor.key(r));
        if let Some(key) = before
            && after.as_ref() != Some(&key)
        {
            reconciler.touch(number, mark, RowEvent::Deleted { key });
        }
        if let Some(key) = after {
            reconciler.touch(number, mark, RowEvent::Whole { key });
        }
        debug_assert!(change.op != Op::Read);
    }
}

fn chunk_key(schema: &Arc<TableSchema>) -> Result<Arc<ChunkKey>> {
    ChunkKey::of(schema)
        .map(Arc::new)
        .ok_or_else(|| Error::definite(codes::NO_KEY, format!("table \"{}\" has no key", schema.id)))
}

/// The same columns, renamed or not, of the same types: then ranges of one are ranges of the other.
fn same_key(a: &ChunkKey, b: &ChunkKey, changes: &[SchemaChange]) -> bool {
    let renamed = |name: &Arc<str>| {
        changes.iter().fold(name.clone(), |name, change| match change {
            SchemaChange::RenameColumn { column, to, .. } if same_name(column, &name) => to.clone(),
            _ => name,
        })
    };
    let columns = |k: &ChunkKey| -> Vec<_> {
        k.columns
            .iter()
            .map(|&i| (k.schema.columns[i].name.clone(), k.schema.columns[i].ty.clone()))
            .collect()
    };
    let (a, b) = (columns(a), columns(b));
    a.len() == b.len() && a.iter().zip(&b).all(|((n, t), (m, u))| same_name(&renamed(n), m) && t == u)
}

fn now_micros() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

/// One chunk, from its announcement on: low watermark, SELECT, high watermark.
async fn read_chunk(
    config: Config,
    server: Server,
    conn: Option<Conn>,
    number: ChunkNumber,
    job: ChunkJob,
    messages: mpsc::Sender<Message>,
) {
    let schema = job.table.schema.clone();
    let opened = match conn {
        Some(conn) => Ok(conn),
        None => chunk::open(&config, &server).await,
    };
    let (result, conn) = match opened {
        Ok(mut conn) => {
            let result = match low_watermark(&mut conn, &server, number, &messages).await {
                Ok(true) => chunk::read(&mut conn, &server, &config, &job).await,
                Ok(false) => Err(dropped()),
                Err(error) => Err(ChunkError::Failed(error)),
            };
            // a connection on which something failed is not used again
            let keep = result.is_ok().then_some(conn);
            (result, keep)
        }
        Err(error) => (Err(ChunkError::Failed(error)), None),
    };
    if let Err(ChunkError::Failed(error)) = &result
        && error.is_transient()
        && error.code() != codes::CHUNK_FAILED
    {
        // the next try begins with the answer to this one
        tokio::time::sleep(RECONNECT).await;
    }
    let _ = messages.send(Message::Done { chunk: number, schema, result, conn }).await;
}

fn moved_while_copying(now: &str, before: &str) -> Error {
    Error::definite(
        codes::SERVER_CHANGED,
        format!("the url led to server {now} while tables were being copied from server {before}"),
    )
    .help("let the url lead to the first server again until the copy is complete; or copy anew from this one")
}

fn dropped() -> ChunkError {
    ChunkError::Failed(Error::transient(codes::CHUNK_FAILED, "the chunk was given up"))
}

/// Asks for low watermarks until one is accepted; false if the chunk is not wanted any more.
async fn low_watermark(
    conn: &mut Conn,
    server: &Server,
    chunk: ChunkNumber,
    messages: &mpsc::Sender<Message>,
) -> Result<bool> {
    let mut wait = Duration::from_millis(1);
    loop {
        let low = watermark::low(conn, server).await?;
        let (reply, answer) = oneshot::channel();
        if messages.send(Message::Low { chunk, low, reply }).await.is_err() {
            return Ok(false);
        }
        match answer.await {
            Ok(Reply::Go) => return Ok(true),
            Ok(Reply::Again) => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_millis(50));
            }
            Ok(Reply::Drop) | Err(_) => return Ok(false),
        }
    }
}

async fn oldest_log(conn: &mut Conn) -> Result<String> {
    let name: Option<String> = query_value(conn, "SHOW BINARY LOGS", "looking for the oldest log").await?;
    name.ok_or_else(|| {
        Error::definite(codes::SETTING_WRONG, "the server has no binary log")
            .help("start the server with --log-bin")
    })
}

/// How often a server is asked whether the XA transactions that we wait for have ended.
const ASK_XA: Duration = Duration::from_millis(200);

/// A position that is now, with the structures in force at it, and the XA transactions that are open at it.
async fn begin_now(
    conn: &mut Conn,
    server: &Server,
    config: &Config,
    tell: &(dyn Fn(Diagnostic) + Sync),
) -> Result<(LogReader, Discovery)> {
    // from here on the log tells of every XA transaction that is prepared; those before are waited for
    let mut since: Option<GtidSet> = None;
    let mut attempts = 0;
    loop {
        let (executed, written) = watermark::start(conn, server).await?;
        let (structures, discovery) = discover(conn, config).await?;
        let open = xa::prepared(conn).await?.unwrap_or_default();
        let after = watermark::written_end(conn, server).await?;
        let since_here = since.as_ref().unwrap_or(&executed);
        let scanned = match scan(config, since_here, &executed, &written, &after, &structures).await? {
            Scan::Fits { passed, branches } => {
                let unseen: Vec<String> =
                    open.into_iter().filter(|name| !branches.0.contains_key(name)).collect();
                if unseen.is_empty() {
                    Some((passed, branches))
                } else {
                    since.get_or_insert(executed.clone());
                    wait_for_xa(conn, &unseen, tell).await?;
                    None
                }
            }
            // it ended between the two questions
            Scan::Unseen => {
                since.get_or_insert(executed.clone());
                None
            }
            Scan::Moved => {
                attempts += 1;
                if attempts > 20 {
                    return Err(Error::definite(
                        codes::STRUCTURE_MOVED,
                        "tables kept changing while their structures were read",
                    )
                    .help("start again when no ALTER TABLE runs"));
                }
                None
            }
        };
        let Some((passed, branches)) = scanned else { continue };
        // what begins before the written end was given out and forgotten; a start at the latest position gives
        // out what commits from now on
        let mut gtids = executed;
        gtids.extend(&passed);
        let open_here = |branch: &xa::Branch| Gtid::parse(&branch.gtid).is_ok_and(|g| gtids.contains(&g));
        let branches = Branches(branches.0.into_iter().filter(|(_, b)| open_here(b)).collect());
        let position =
            Position { gtids: gtids.to_string().into(), file: written.file, offset: written.offset, rows: 0 };
        let log = LogReader::new(config.clone(), &position, structures)?.with_branches(branches);
        return Ok((log, discovery));
    }
}

/// Until none of these is prepared any more.
async fn wait_for_xa(conn: &mut Conn, names: &[String], tell: &(dyn Fn(Diagnostic) + Sync)) -> Result<()> {
    let mut told = false;
    let begun = Instant::now();
    loop {
        let open = xa::prepared(conn).await?.unwrap_or_default();
        let left: Vec<&String> = names.iter().filter(|name| open.contains(name)).collect();
        let Some(first) = left.first() else { return Ok(()) };
        if !told && begun.elapsed() > 2 * ASK_XA {
            told = true;
            tell(
                Diagnostic::warning(
                    codes::XA_UNSEEN,
                    format!("waiting for XA transactions that were prepared before the start: {}", left.len()),
                )
                .note(left.iter().take(10).map(|n| n.as_str()).collect::<Vec<_>>().join("; "))
                .help(format!("end them: XA COMMIT {first}, or XA ROLLBACK {first}")),
            );
        }
        tokio::time::sleep(ASK_XA).await;
    }
}

/// What the log says of a position that is to be begun at.
enum Scan {
    /// The structures are those in force there.
    Fits {
        /// Transactions that begin in front of the written end.
        passed: GtidSet,
        /// XA transactions that are open at the end.
        branches: Branches,
    },
    /// A DDL of a captured table, or rows that do not fit the structures: these may have been read on either side
    /// of it.
    Moved,
    /// The commit of an XA transaction that was prepared in front of what was read.
    Unseen,
}

/// Reads the log from `since` to `after`; what is in `executed` is passed over.
async fn scan(
    config: &Config,
    since: &GtidSet,
    executed: &GtidSet,
    written: &LogPoint,
    after: &LogPoint,
    structures: &TableStructures,
) -> Result<Scan> {
    let position =
        Position { gtids: executed.to_string().into(), file: written.file.clone(), offset: 0, rows: 0 };
    let mut reader = LogReader::new(config.clone(), &position, structures.clone())?;
    if since != executed {
        reader = reader.reading_from(since.clone());
    }
    let mut passed = GtidSet::new();
    let mut begins_before = BTreeSet::new();
    loop {
        if reader.at_boundary() && reader.point().has_reached(after) {
            let branches = reader.branches().clone();
            return Ok(Scan::Fits { passed, branches });
        }
        match reader.next().await {
            Ok(LogItem::Schema { .. }) => return Ok(Scan::Moved),
            Ok(LogItem::Rows { gtid, origin, .. }) => {
                let begin = LogPoint::new(origin.file.clone(), origin.offset);
                if !begin.has_reached(written) {
                    begins_before.insert(gtid.to_string());
                }
            }
            Ok(LogItem::Commit { gtid }) => {
                // one that holds no captured rows may be passed or not: nothing is given out of it
                if begins_before.remove(&gtid.to_string()) {
                    passed.insert(&gtid);
                }
            }
            Ok(LogItem::Moved) => {}
            Err(error) if error.code() == codes::XA_UNSEEN => return Ok(Scan::Unseen),
            // a DDL, or rows, that do not fit structures which were read behind it: the next try begins behind it
            Err(error)
                if [
                    codes::STRUCTURE_DIFFERS,
                    codes::STRUCTURE_UNKNOWN,
                    codes::DDL_UNSUPPORTED,
                    codes::DDL_NOT_UNDERSTOOD,
                    codes::KEY_CHANGED,
                ]
                .contains(&error.code()) =>
            {
                return Ok(Scan::Moved);
            }
            Err(error) => return Err(error),
        }
    }
}
