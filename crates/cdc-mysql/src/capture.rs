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

mod adopt;
mod discover;
mod exact;
mod labels;
mod partial;

pub use discover::{Discovery, discover};

use crate::binlog::files;
use crate::binlog::rows::KeyExtractor;
use crate::binlog::shadow;
use crate::binlog::xa::{self, Branches};
use crate::binlog::{LogItem, LogPoint, LogReader, RowChange, SkipUntil};
use crate::config::{Config, StartMode};
use crate::conn::{connect, connect_first, query_value};
use crate::ddl::online;
use crate::gtid::{Gtid, GtidSet};
use crate::narrow::Narrow;
use crate::preflight;
use crate::server::{Flavor, Server};
use crate::snapshot::chunk::{self, ChunkError, ChunkJob, ChunkKey, ChunkRows, KeyRange};
use crate::snapshot::reconcile::{ChunkNumber, Mended, NotYet, Reconciler, TableNumber, TransactionSet};
use crate::snapshot::splitter::{self, Split, SplitJob};
use crate::snapshot::watermark::{self, Mark, Watermark};
use crate::structure::TableStructures;
use adopt::{Adoption, moved_while_copying};
use cdc_core::event::Origin;
use cdc_core::plan::pattern::TableSet;
use cdc_core::position::Position;
use cdc_core::schema::same_name;
use cdc_core::schema_change::SchemaChange;
use cdc_core::zero_dates::DateView;
use cdc_core::{Diagnostic, Error, Result, Row, RowBuilder, TableId, TableSchema, codes};
use discover::{discover_past, list_tables};
use exact::{Exact, State, Told, Verdict};
use mysql_async::Conn;
use partial::Noted;
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
    /// Nothing follows (start mode `snapshot`; a log in files).
    End,
}

impl Table {
    /// Is it an exact copy?
    fn is_whole(&self) -> bool {
        self.copying.is_none() && self.exact.is_none()
    }
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
    /// The log is of the past, and these were the structures of now: see [`crate::binlog::metadata`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<Arc<TableStructures>>,
    /// The tables of online schema change tools that are at work.
    #[serde(default, skip_serializing_if = "TableStructures::is_empty")]
    pub shadows: TableStructures,
    /// The source's `tables`, as they were; empty if not known.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Tables that come in later than the position, each with the transactions that are passed over for it; `None`:
    /// not known yet.
    #[serde(default)]
    pub ahead: Vec<(TableId, Option<GtidSet>)>,
}

impl CaptureState {
    /// The tools' tables for a reader that trusts them; to another one they are tables like any other.
    fn shadows_for(&self, config: &Config) -> TableStructures {
        if config.trust_online_ddl { self.shadows.clone() } else { TableStructures::new() }
    }
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
    /// It has no key: its copy is begun anew.
    #[serde(default)]
    pub exact: bool,
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
    /// Being copied in chunks.
    copying: Option<Copying>,
    /// Being copied in one pass, for want of a key.
    exact: Option<Exact>,
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
    /// Of a table without a key.
    Exact {
        table: TableId,
        generation: u64,
        told: Told,
    },
    /// The written end of the log; `None`: it could not be asked for.
    End(Option<LogPoint>),
    /// A table's own start was found.
    Adopted(Box<Result<Adoption>>),
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

/// Where the log ends now.
async fn ask_end(config: Config, id: String, messages: mpsc::Sender<Message>) {
    let end = async {
        let mut conn = connect(&config).await?;
        let server = Server::ask(&mut conn).await?;
        if server.id != id {
            let headline = format!("the server is {}, and was {id}", server.id);
            return Err(Error::transient(codes::SERVER_CHANGED, headline));
        }
        let end = watermark::written_end(&mut conn, &server).await?;
        let _ = conn.disconnect().await;
        Ok::<LogPoint, Error>(end)
    };
    let end = end.await.ok();
    let _ = messages.send(Message::End(end)).await;
}

/// How often a silent log is looked at.
const LOOK_AT_END: Duration = Duration::from_secs(20);

/// How far the clocks of two machines may be apart, in microseconds.
const CLOCKS: i64 = 2_000_000;

/// Why the rows of a table are other ones for whoever takes them behind a statement: what it changes, and the table before and after
/// it, as they are given out.
pub type OtherRows =
    Arc<dyn Fn(&[SchemaChange], &Arc<TableSchema>, &Arc<TableSchema>) -> Option<String> + Send + Sync>;

/// A source.
pub struct Capture {
    config: Config,
    /// What is given out passes through it, last of all.
    dates: DateView,
    /// And before that through this.
    narrow: Narrow,
    other_rows: Option<OtherRows>,
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
    /// The time has come at which it was to end.
    over: bool,
    /// Starts of tables are looked for one at a time.
    finding: Arc<tokio::sync::Mutex<()>>,
    /// Copies of tables without a key that were begun: none has the number of another.
    generations: u64,
    /// The written end of the log when the time had come at which it was to end.
    stop_end: Option<LogPoint>,
    /// It is being asked for.
    asking_end: bool,
    /// When it was asked last, and where the log reader was.
    end_asked: Instant,
    end_asked_to_stop: bool,
    boundary_asked: LogPoint,
    /// Tables that come in at the next boundary.
    adopted: Vec<Adoption>,
    /// Everything that was given out or passed over before the start, and P0 of tables that came in later.
    base: Watermark,
    /// A table without a key whose changes that waited are being given out.
    draining: Option<TableId>,
    /// See [`Capture::partial_images`].
    partial_images: Option<String>,
    /// See [`Capture::upstream`].
    upstream: Vec<String>,
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
        if config.files.is_some() {
            return Capture::of_files(config, None);
        }
        let mut conn = connect_first(&config).await?;
        let (server, checks) = preflight::check(&mut conn, &config).await?;
        preflight::ensure(&checks)?;
        let copy = matches!(config.start, StartMode::Initial | StartMode::Snapshot);
        let (log, discovery) = match &config.start {
            StartMode::Initial | StartMode::Snapshot | StartMode::Latest => {
                begin_now(&mut conn, &server, &config, tell).await?
            }
            StartMode::Earliest => {
                let first = LogPoint::new(oldest_log(&mut conn).await?, 4);
                let (past, discovery) = discover_past(&mut conn, &config).await?;
                (past.of(LogReader::from_file(config.clone(), first, past.known.clone())), discovery)
            }
            StartMode::Timestamp(micros) => {
                let first = oldest_log(&mut conn).await?;
                let (past, discovery) = discover_past(&mut conn, &config).await?;
                (
                    past.of(LogReader::from_time(config.clone(), &first, *micros, past.known.clone())),
                    discovery,
                )
            }
            StartMode::File(file, offset) => {
                let (past, discovery) = discover_past(&mut conn, &config).await?;
                let point = LogPoint::new(file.as_str(), *offset);
                (past.of(LogReader::from_file(config.clone(), point, past.known.clone())), discovery)
            }
            StartMode::Gtids(set) => {
                let position = Position { gtids: set.to_string().into(), ..Position::default() };
                let (past, discovery) = discover_past(&mut conn, &config).await?;
                (past.of(LogReader::new(config.clone(), &position, past.known.clone())?), discovery)
            }
        };
        let copying =
            if copy { discovery.tables.iter().map(|t| (t.id.clone(), None)).collect() } else { Vec::new() };
        let mut capture = Capture::assemble(config, server, log, copying)?;
        capture.partial_images = preflight::partial_images(&checks);
        capture.upstream = capture.server.upstream(&mut conn).await?;
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
        if config.files.is_some() {
            return Capture::of_files(config, Some(state));
        }
        // what has no name in the patterns any more is let go; what has got one is taken in
        let known = TableSet::parse(&state.patterns).ok();
        let mut conn = connect(&config).await?;
        let (server, checks) = preflight::check(&mut conn, &config).await?;
        preflight::ensure(&checks)?;
        if server.is_mariadb() && !state.copying.is_empty() && server.id != state.server_uuid {
            // low watermarks are points of one server's log
            return Err(moved_while_copying(&server.id, &state.server_uuid));
        }
        let mut structures = state.structures.clone();
        let gone: Vec<TableId> =
            structures.tables().map(|t| t.id.clone()).filter(|id| !config.tables.contains(id)).collect();
        structures.forget(&gone);
        let mut ahead = state.ahead.clone();
        ahead.retain(|(id, _)| config.tables.contains(id));
        if config.trust_online_ddl {
            // copied, or to be copied, under another word of the option
            let known = structures.tables().map(|t| &t.id);
            let ids: Vec<TableId> = known.chain(ahead.iter().map(|(id, _)| id)).cloned().collect();
            structures.forget(ids.iter().filter(|id| shadow::is_shadow(id, ids.iter())));
            ahead.retain(|(id, _)| !shadow::is_shadow(id, ids.iter()));
        }
        let mut fresh: BTreeSet<TableId> =
            ahead.iter().filter(|(_, gtids)| gtids.is_none()).map(|(id, _)| id.clone()).collect();
        let known = known.filter(|known| *known != config.tables);
        // in a log of the past every table is unknown, and its next map tells what it is
        let left_out = !config.trust_online_ddl && state.present.is_none();
        if known.is_some() || left_out {
            let (_, mut all) = list_tables(&mut conn).await?;
            all.retain(|id| config.tables.contains(id));
            if config.trust_online_ddl {
                let captured = all.clone();
                all.retain(|id| !shadow::is_shadow(id, captured.iter()));
            }
            let unknown = |id: &&TableId| {
                structures.get(id).is_none()
                    && config.tables.contains(id)
                    && !ahead.iter().any(|(known, _)| known == *id)
            };
            if left_out {
                // Left out while the tools were trusted. Those that were at work then may be gone by now, and the log tells of them.
                let tools = all.iter().chain(state.shadows.tables().map(|t| &t.id));
                let tools = tools.filter(|id| online::belongs_to(id).is_some());
                fresh.extend(tools.filter(unknown).cloned());
            }
            if let Some(known) = known {
                fresh.extend(all.iter().filter(|id| !known.contains(id)).filter(unknown).cloned());
            }
        }
        let mut position = state.position.clone();
        if server.is_mariadb() && server.id != state.server_uuid {
            // a point of another server's log
            (position.file, position.offset) = ("".into(), 0);
        }
        let mut log = LogReader::resume_skipping(config.clone(), &position, structures, state.skip.clone())?
            .with_branches(state.branches.clone())
            .with_shadows(state.shadows_for(&config))
            .with_ahead(ahead);
        if let Some(present) = &state.present {
            log = log.learning(present.clone());
        }
        let copying = state.copying.iter().map(|c| (c.table.clone(), Some(c))).collect();
        // touched is lost: all that was given out counts as forgotten
        let mut capture = Capture::assemble(config, server.clone(), log, copying)?;
        capture.partial_images = preflight::partial_images(&checks);
        capture.upstream = capture.server.upstream(&mut conn).await?;
        for table in fresh {
            capture.begin_adoption(table);
        }
        capture.log.ensure_connected().await?;
        let notices = discover::notices(&mut conn, &server, &capture.config, &state.structures).await?;
        capture.out.extend(notices.into_iter().map(CaptureItem::Notice));
        capture.ended = state.ended;
        Ok(capture)
    }

    /// Of a log in files: no server is asked for anything.
    fn of_files(config: Config, state: Option<&CaptureState>) -> Result<Capture> {
        config.ensure_files_start()?;
        let files = config.files.as_ref().map(files::find).transpose()?.unwrap_or_default();
        let server = files::server_of(&files)?;
        let (log, present) = match state {
            Some(state) => {
                let structures = state.structures.clone();
                let log = LogReader::resume_skipping(
                    config.clone(),
                    &state.position,
                    structures,
                    state.skip.clone(),
                )?;
                let log = log.with_branches(state.branches.clone()).with_shadows(state.shadows_for(&config));
                (log, state.present.clone().unwrap_or_default())
            }
            None => {
                let known = config.structures_of_file(&server)?;
                let first = LogPoint::new(files.first().map_or("".into(), |f| f.name.clone()), 4);
                let present = Arc::new(known.clone());
                let log = match &config.start {
                    StartMode::Timestamp(micros) => {
                        LogReader::from_time(config.clone(), &first.file, *micros, known)
                    }
                    StartMode::File(file, offset) => {
                        LogReader::from_file(config.clone(), LogPoint::new(file.as_str(), *offset), known)
                    }
                    StartMode::Gtids(set) => {
                        let position = Position { gtids: set.to_string().into(), ..Position::default() };
                        LogReader::new(config.clone(), &position, known)?
                    }
                    _ => LogReader::from_file(config.clone(), first, known),
                };
                (log, present)
            }
        };
        Capture::assemble(config, server, log.learning(present), Vec::new())
    }

    /// A log in files ends; a server's does not.
    pub fn ends_by_itself(&self) -> bool {
        self.config.files.is_some()
    }

    fn assemble(
        config: Config,
        server: Server,
        log: LogReader,
        copying: Vec<(TableId, Option<&CopyState>)>,
    ) -> Result<Capture> {
        let given_out = Watermark::of_position(server.flavor, log.gtids(), log.boundary());
        let mut base = given_out.clone();
        if server.flavor == Flavor::MySql {
            // of MariaDB the point of such a table's start is behind all that is passed over for it
            for gtids in log.ahead().values().flatten() {
                base.add_all(&Watermark::of_gtids(gtids.clone()));
            }
        }
        let mut capture = Capture {
            reconciler: Reconciler::new(base.clone()),
            dates: DateView::new(config.zero_dates),
            narrow: Narrow::new(&server),
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
            over: false,
            finding: Arc::default(),
            generations: 0,
            stop_end: None,
            asking_end: false,
            end_asked: Instant::now(),
            other_rows: None,
            end_asked_to_stop: false,
            boundary_asked: LogPoint::default(),
            adopted: Vec::new(),
            base,
            draining: None,
            partial_images: None,
            upstream: Vec::new(),
        };
        let known: Vec<Arc<TableSchema>> = capture.log.structures().tables().cloned().collect();
        for schema in known {
            capture.add_table(&schema.id, None);
        }
        for (id, state) in copying {
            let Some(schema) = capture.log.structures().get(&id).cloned() else { continue };
            if schema.key().is_none() {
                let exact = Exact::new(capture.base.clone());
                if let Some(table) = capture.tables.get_mut(&id) {
                    table.exact = Some(exact);
                }
                continue;
            }
            let mut copying = Copying::of(&schema)?;
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
        self.tables.insert(
            id.clone(),
            Table { number, copying, exact: None, rows: 0, chunks: 0, estimate: 0, row_bytes: 0 },
        );
    }

    /// A table that is copied from its beginning, at a boundary.
    fn take_in(&mut self, schema: &Arc<TableSchema>) -> Result<()> {
        self.add_table(&schema.id, None);
        self.copy_anew(&schema.id, schema)?;
        let reason = "it came in behind the start".to_owned();
        let changes = vec![
            SchemaChange::DropTable { table: schema.id.clone() },
            SchemaChange::CreateTable { schema: schema.clone() },
            SchemaChange::ResnapshotTable { table: schema.id.clone(), reason },
        ];
        self.tell_schema(changes, None, Some(schema.clone()));
        self.out.push_back(CaptureItem::TransactionEnd);
        Ok(())
    }

    /// The copy of a table begins, or begins anew.
    fn copy_anew(&mut self, id: &TableId, schema: &Arc<TableSchema>) -> Result<()> {
        let base = self.base.clone();
        let Some(table) = self.tables.get_mut(id) else { return Ok(()) };
        self.reconciler.forget_table(table.number);
        self.reading.retain(|_, t| t != id);
        self.read.retain(|_, r| r.table != *id);
        (table.rows, table.chunks) = (0, 0);
        if schema.key().is_some() {
            table.exact = None;
            table.copying = Some(Copying::of(schema)?);
        } else {
            table.copying = None;
            match &mut table.exact {
                Some(exact) => exact.restart(),
                None => table.exact = Some(Exact::new(base)),
            }
        }
        Ok(())
    }

    /// A change of structure that no statement of the log makes.
    fn tell_schema(
        &mut self,
        changes: Vec<SchemaChange>,
        before: Option<Arc<TableSchema>>,
        after: Option<Arc<TableSchema>>,
    ) {
        let boundary = self.log.boundary();
        let origin = Origin {
            timestamp_micros: now_micros(),
            gtid: "".into(),
            file: boundary.file.clone(),
            offset: boundary.offset,
            snapshot: true,
        };
        self.out.push_back(CaptureItem::Schema {
            origin: Arc::new(origin),
            statement: "".into(),
            changes,
            before,
            after,
        });
    }

    /// No chunk is mended before the log reader has given out all of these transactions: those that a target
    /// already has. So rows of chunks never enter a tick that is replayed.
    pub fn hold_chunks_until(&mut self, position: &Position) -> Result<()> {
        self.hold.extend(&GtidSet::parse(&position.gtids)?);
        Ok(())
    }

    /// The server that is read from.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Has everything of this set been given out?
    pub fn has_given_out(&self, gtids: &GtidSet) -> bool {
        self.log.gtids().contains_set(gtids)
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
        self.log.at_boundary() && self.out.is_empty() && self.draining.is_none()
    }

    /// The server's setting at the start, if by it images of its log need not hold all columns. (A session may have
    /// its own, and the log of another time may have been written under another one.)
    pub fn partial_images(&self) -> Option<&str> {
        self.partial_images.as_deref()
    }

    /// The servers whose changes are read, by their names; none of a log in files.
    pub fn upstream(&self) -> &[String] {
        &self.upstream
    }

    /// True when every table is whole.
    pub fn is_whole(&self) -> bool {
        self.tables.values().all(Table::is_whole) && self.log.ahead().values().all(Option::is_some)
    }

    /// Is this table whole?
    pub fn is_table_whole(&self, table: &TableId) -> bool {
        self.tables.get(table).is_none_or(Table::is_whole)
    }

    /// The structures in force, as flows and targets see them.
    pub fn schemas(&self) -> impl Iterator<Item = Arc<TableSchema>> {
        self.log.structures().tables().map(|schema| self.dates.schema(&self.narrow.schema(schema)))
    }

    /// Where each table stands.
    pub fn progress(&self) -> Vec<TableProgress> {
        self.tables
            .iter()
            .map(|(id, t)| TableProgress {
                table: id.clone(),
                whole: t.is_whole(),
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
        if let Some(named) = &self.config.files {
            // which transactions these are is known when they have been read
            let (file, offset) = files::end_of(&files::find(named)?)?;
            return Ok(Position { file, offset, ..Position::default() });
        }
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
                if t.exact.is_some() {
                    return Some(CopyState { exact: true, ..CopyState::of(id) });
                }
                let c = t.copying.as_ref()?;
                Some(CopyState {
                    exact: false,
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
            present: self.log.present().cloned(),
            shadows: self.log.shadows().clone(),
            patterns: self.config.tables.texts().to_vec(),
            ahead: self.log.ahead().iter().map(|(id, gtids)| (id.clone(), gtids.clone())).collect(),
        }
    }

    /// The next item. May be dropped while it waits.
    ///
    /// # Errors
    /// Definite ones only: transient ones are told as notices and tried again.
    pub async fn next(&mut self) -> Result<CaptureItem> {
        loop {
            if let Some(item) = self.out.pop_front() {
                return self.show(item);
            }
            if self.ended || self.over {
                return Ok(CaptureItem::End);
            }
            if let Some(stop) = self.config.stop_micros
                && self.is_whole()
            {
                self.log.stop_at(stop);
            }
            if self.drain()? {
                continue;
            }
            self.dispatch();
            self.adopt()?;
            self.exact()?;
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
                    Err(error) => self.log_failed(error)?,
                },
                () = sleep_until(self.retry_at), if self.retry_at.is_some() => self.retry_at = None,
            }
            self.check_server()?;
        }
    }

    /// The log broke off: it is tried again after a while, or it is the end.
    fn log_failed(&mut self, error: Error) -> Result<()> {
        if !error.is_transient() {
            return Err(error);
        }
        self.log.disconnect();
        let wait = self.backoff.take();
        let notice = error.diagnostic().clone();
        self.out.push_back(CaptureItem::Notice(
            Diagnostic { severity: cdc_core::Severity::Warning, ..notice }
                .note(format!("trying again in {wait:?}")),
        ));
        self.retry_at = Some(Instant::now() + wait);
        Ok(())
    }

    /// The next item, if it is there already.
    ///
    /// # Errors
    /// As [`Capture::next`].
    pub fn ready(&mut self) -> Result<Option<CaptureItem>> {
        // while tables are copied, chunks and watermarks want to be looked at between two items
        while self.out.is_empty() {
            let only_log = self.is_whole()
                && self.draining.is_none()
                && self.retry_at.is_none()
                && self.config.start != StartMode::Snapshot
                && self.config.stop_micros.is_none()
                && !(self.ended || self.over);
            if !only_log {
                return Ok(None);
            }
            match self.log.ready() {
                Ok(Some(item)) => {
                    self.backoff.reset();
                    self.handle_log(item)?;
                }
                Ok(None) => return Ok(None),
                Err(error) => self.log_failed(error)?,
            }
            self.check_server()?;
        }
        let Some(item) = self.out.pop_front() else { return Ok(None) };
        self.show(item).map(Some)
    }

    /// An item as flows and targets see it: see [`cdc_core::zero_dates`].
    fn show(&self, item: CaptureItem) -> Result<CaptureItem> {
        let item = self.narrow.item(item)?;
        if self.dates.is_identity() {
            return Ok(item);
        }
        let mut builder = RowBuilder::new();
        Ok(match item {
            CaptureItem::Changes { schema, origin, mut changes } => {
                let view = self.dates.table(&schema);
                if !view.is_identity() {
                    for change in &mut changes {
                        change.before = change.before.take().map(|row| view.before(row, &mut builder));
                        change.after = change
                            .after
                            .take()
                            .map(|row| view.row(row, &origin, &mut builder))
                            .transpose()?;
                    }
                }
                CaptureItem::Changes { schema: view.schema().clone(), origin, changes }
            }
            CaptureItem::Chunk { schema, origin, mut rows } => {
                let view = self.dates.table(&schema);
                if !view.is_identity() {
                    rows = rows
                        .into_iter()
                        .map(|row| view.row(row, &origin, &mut builder))
                        .collect::<Result<_>>()?;
                }
                CaptureItem::Chunk { schema: view.schema().clone(), origin, rows }
            }
            CaptureItem::Schema { origin, statement, changes, before, after } => {
                let changes = self
                    .dates
                    .changes(changes, before.as_ref(), after.as_ref(), &origin)
                    .map_err(|e| e.note(format!("statement: {statement}")))?;
                let shown = |schema: &Arc<TableSchema>| self.dates.schema(schema);
                let item = CaptureItem::Schema {
                    origin,
                    statement,
                    changes,
                    before: before.as_ref().map(shown),
                    after: after.as_ref().map(shown),
                };
                if let Some(before) = before.filter(|b| after.as_ref().is_none_or(|a| !Arc::ptr_eq(a, b))) {
                    self.dates.forget(&before);
                }
                item
            }
            other => other,
        })
    }

    /// Asks how far the log is written.
    fn ask_end(&mut self, to_stop: bool) {
        self.asking_end = true;
        self.end_asked_to_stop = to_stop;
        self.end_asked = Instant::now();
        self.boundary_asked = self.log.boundary().clone();
        tokio::spawn(ask_end(self.config.clone(), self.server.id.clone(), self.messages.0.clone()));
    }

    /// Has the log reader come to another server? Its positions are other ones.
    fn check_server(&mut self) -> Result<()> {
        let Some(now) = self.log.server().filter(|now| now.id != self.server.id) else { return Ok(()) };
        if !self.is_whole() {
            return Err(moved_while_copying(&now.id, &self.server.id));
        }
        self.server = now.clone();
        self.highest = None;
        self.stop_end = None;
        self.idle.clear();
        if self.server.is_mariadb() {
            // points of the other server's log; every table is whole
            self.reconciler = Reconciler::new(Watermark::default());
            self.base = Watermark::default();
        }
        Ok(())
    }

    // ---- the log

    fn handle_log(&mut self, item: LogItem) -> Result<()> {
        match item {
            LogItem::Rows { mark, schema, origin, mut changes, .. } => {
                let without_generated = self.server.leaves_out_generated();
                if let Some(table) = self.tables.get_mut(&schema.id) {
                    if let Some(exact) = &mut table.exact {
                        partial::ensure_known(&changes, &schema, &origin)?;
                        return exact.spill.push(mark, schema, origin, changes);
                    }
                    if let Some(copying) = &mut table.copying {
                        let noted = Noted { number: table.number, mark: &mark, without_generated };
                        changes = noted.touch(&mut self.reconciler, copying, &schema, changes);
                        if self.reconciler.bytes() > self.touched_limit {
                            self.shed();
                        }
                    } else {
                        partial::ensure_known(&changes, &schema, &origin)?;
                    }
                } else {
                    partial::ensure_known(&changes, &schema, &origin)?;
                    self.add_table(&schema.id, None);
                }
                if !changes.is_empty() {
                    self.out.push_back(CaptureItem::Changes { schema, origin, changes });
                }
            }
            LogItem::Schema { mark, origin, statement, mut changes, before, after } => {
                if let Some(again) = self.dates.copied_again(&changes, before.as_ref(), after.as_ref())? {
                    if self.config.files.is_some() {
                        return Err(Error::definite(codes::DDL_UNSUPPORTED, again.to_string())
                            .note(format!("the statement: {statement}"))
                            .help("files do not tell what the rows are from then on: read from the server"));
                    }
                    changes.insert(0, again);
                }
                if let Some(reason) = self.copied_where_other(&changes, before.as_ref(), after.as_ref())
                    && let Some(after) = &after
                {
                    if self.config.files.is_some() {
                        return Err(Error::definite(
                            codes::DDL_UNSUPPORTED,
                            format!("table \"{}\" has to be copied again: {reason}", after.id),
                        )
                        .note(format!("the statement: {statement}"))
                        .help("files do not tell what the rows are from then on: read from the server"));
                    }
                    changes.push(SchemaChange::ResnapshotTable { table: after.id.clone(), reason });
                }
                self.handle_schema(&mark, &changes, before.as_ref(), after.as_ref())?;
                self.out.push_back(CaptureItem::Schema { origin, statement, changes, before, after });
            }
            LogItem::Appeared { table } => self.begin_adoption(table),
            LogItem::Moved
                if self.config.stop_micros.is_some_and(|stop| now_micros() > stop + CLOCKS)
                    && self.is_whole() =>
            {
                // on a quiet server: whatever is behind its written end of now is behind the time
                match &self.stop_end {
                    Some(end) => self.over = self.log.at_boundary() && self.log.point().has_reached(end),
                    None if !self.asking_end => {
                        self.ask_end(true);
                    }
                    None => {}
                }
                self.out.push_back(CaptureItem::Moved);
            }
            LogItem::Commit { .. } => self.out.push_back(CaptureItem::TransactionEnd),
            LogItem::Moved => {
                // A log that was reset under its reader only falls silent (measured on MariaDB).
                if !self.asking_end && self.end_asked.elapsed() > LOOK_AT_END && self.config.files.is_none() {
                    self.ask_end(false);
                }
                self.out.push_back(CaptureItem::Moved);
            }
            LogItem::End(notice) => {
                // files end once and for all, a time may be another one in the next run
                self.ended = self.config.files.is_some();
                self.over = true;
                self.out.extend(notice.map(|notice| CaptureItem::Notice(*notice)));
            }
        }
        Ok(())
    }

    /// Says of which tables the rows are other ones for whoever takes them behind a statement, and why: they are copied again. (Who
    /// takes which table, and what is made of it, is not known here.)
    pub fn copy_where_other(&mut self, why: OtherRows) {
        self.other_rows = Some(why);
    }

    fn copied_where_other(
        &self,
        changes: &[SchemaChange],
        before: Option<&Arc<TableSchema>>,
        after: Option<&Arc<TableSchema>>,
    ) -> Option<String> {
        let (Some(before), Some(after), Some(why)) = (before, after, &self.other_rows) else { return None };
        let comes_anyway = |c: &SchemaChange| {
            matches!(c, SchemaChange::CreateTable { .. } | SchemaChange::ResnapshotTable { .. })
        };
        if changes.iter().any(comes_anyway) {
            return None;
        }
        let given_out = |schema| self.dates.schema(&self.narrow.schema(schema));
        why(changes, &given_out(before), &given_out(after))
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
            (table.copying, table.exact) = (None, None);
        }
        let again = changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }));
        let mut anew = again;
        if let Some(exact) = &mut table.exact {
            exact.base.add(mark);
            exact.restart();
        }
        if let Some(copying) = &mut table.copying {
            match chunk_key(after) {
                Ok(key) if same_key(&copying.key, &key, changes) => {
                    copying.extractor = KeyExtractor::new(after, &key.columns);
                    copying.key = key;
                }
                // its ranges say nothing any more, those of finished chunks neither
                _ => anew = true,
            }
        } else if table.exact.is_some() && after.key().is_some() {
            anew = true;
        }
        for table in self.reading.values_mut().chain(self.read.values_mut().map(|r| &mut r.table)) {
            if *table == old_id {
                *table = after.id.clone();
            }
        }
        let copies = table.copying.is_some();
        self.tables.insert(after.id.clone(), table);
        if anew {
            self.base.add(mark);
            self.copy_anew(&after.id, after)?;
            if let Some(table) = self.tables.get(&after.id) {
                self.reconciler.ddl(table.number, mark);
            }
        }
        if anew {
            self.start_splitter();
        } else if copies || recreated {
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
                let lacks = low.lacks(self.log.ended());
                let answer = match self.reconciler.low_watermark(chunk, &low) {
                    // of another try
                    Ok(()) if lacks => Reply::Again,
                    Ok(()) => Reply::Go,
                    Err(NotYet::Forgotten | NotYet::Base) => Reply::Again,
                    Err(NotYet::Dropped) => Reply::Drop,
                };
                // the reader may have gone: then its chunk fails by itself
                let _ = reply.send(answer);
            }
            Message::Exact { table, generation, told } => self.handle_exact(&table, generation, told)?,
            Message::End(end) => {
                self.asking_end = false;
                if let Some(end) = &end
                    && !end.has_reached(&self.boundary_asked)
                    && self.log.server().is_some_and(|server| server.id == self.server.id)
                {
                    return Err(Error::definite(
                        codes::SERVER_CHANGED,
                        format!("the server's log ends at {end}, and was read up to {}", self.boundary_asked),
                    )
                    .note("it was reset (RESET MASTER, RESET BINARY LOGS AND GTIDS)")
                    .help("copy the tables anew: stop, remove the state folder and the target's tables and progress, start again"));
                }
                self.stop_end = end.filter(|_| self.end_asked_to_stop);
            }
            Message::Adopted(adoption) => self.adopted.push((*adoption)?),
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

    // ---- tables without a key

    /// Starts the next copy of a table without a key, and judges a snapshot that was opened.
    fn exact(&mut self) -> Result<()> {
        if !self.log.at_boundary() || !self.is_past_hold() {
            return Ok(());
        }
        let busy = |t: &Table| t.exact.as_ref().is_some_and(|e| !matches!(e.state, State::Idle));
        if !self.tables.values().any(busy) {
            let point = self.log.point();
            let can_begin = |e: &Exact| e.wait_for.as_ref().is_none_or(|at| point.has_reached(at));
            let next = self.tables.iter_mut().find(|(_, t)| t.exact.as_ref().is_some_and(can_begin));
            if let Some((id, exact)) = next.and_then(|(id, t)| Some((id, t.exact.as_mut()?)))
                && let Some(schema) = self.log.structures().get(id)
            {
                exact.state = State::Opening;
                exact.wait_for = None;
                self.generations += 1;
                exact.generation = self.generations;
                let line = exact::Line {
                    table: id.clone(),
                    generation: exact.generation,
                    messages: self.messages.0.clone(),
                };
                let lock = exact.wants_lock(&self.config);
                tokio::spawn(exact::copy(
                    self.config.clone(),
                    self.server.clone(),
                    schema.clone(),
                    lock,
                    line,
                ));
            }
        }
        let point = self.log.point().clone();
        let opened = self.tables.iter_mut().find_map(|(id, t)| {
            let exact = t.exact.as_mut()?;
            let State::Opened { high, .. } = &exact.state else { return None };
            point.has_reached(high).then(|| (id.clone(), exact))
        });
        let Some((id, exact)) = opened else { return Ok(()) };
        let State::Opened { low, high, reply } = std::mem::replace(&mut exact.state, State::Opening) else {
            return Ok(());
        };
        exact.tries += 1;
        // in every snapshot from here on
        exact.spill.retain(|w| !low.holds(&w.mark));
        // on MariaDB the position is exact but for XA
        let mariadb = self.server.is_mariadb();
        let counts = |mark: &Mark| !mariadb || matches!(mark, Mark::Xa(..));
        let changed = exact.spill.any(|w| counts(&w.mark) && !w.begin.has_reached(&high));
        if !low.holds_all(&exact.base) || changed || low.lacks(self.log.ended()) {
            let tries = exact.tries;
            let _ = reply.send(Verdict::Again { lock: exact.wants_lock(&self.config) });
            if tries % 100 == 0 {
                self.out.push_back(CaptureItem::Notice(
                    Diagnostic::warning(
                        codes::CHUNK_FAILED,
                        format!("table \"{id}\" has no key and is written to without pause: {tries} snapshots of it were not exact"),
                    )
                    .help("let the source lock it for a moment: lock = brief; or give it a key"),
                ));
            }
            return Ok(());
        }
        // a task that has gone answers with nothing more: then the copy is begun anew at its end
        let _ = reply.send(Verdict::Read);
        exact.state = State::Reading;
        let Some(schema) = self.log.structures().get(&id).cloned() else { return Ok(()) };
        if let Some(table) = self.tables.get_mut(&id) {
            table.rows = 0;
        }
        let reason = "it has no key: all of its rows come".to_owned();
        let changes = vec![SchemaChange::ResnapshotTable { table: id, reason }];
        self.tell_schema(changes, Some(schema.clone()), Some(schema));
        self.out.push_back(CaptureItem::TransactionEnd);
        Ok(())
    }

    fn handle_exact(&mut self, id: &TableId, generation: u64, told: Told) -> Result<()> {
        let Some(table) = self.tables.get_mut(id) else { return Ok(()) };
        let Some(exact) = table.exact.as_mut().filter(|e| e.generation == generation) else { return Ok(()) };
        match told {
            Told::Opened { low, high, reply } => {
                if self.highest.as_ref().is_none_or(|h| !h.has_reached(&high)) {
                    self.highest = Some(high.clone());
                }
                exact.state = State::Opened { low, high, reply };
            }
            Told::Rows(rows) => {
                table.rows += rows.len() as u64;
                let Some(schema) = self.log.structures().get(id).cloned() else { return Ok(()) };
                let boundary = self.log.boundary();
                let origin = Origin {
                    timestamp_micros: now_micros(),
                    gtid: "".into(),
                    file: boundary.file.clone(),
                    offset: boundary.offset,
                    snapshot: true,
                };
                self.out.push_back(CaptureItem::Chunk { schema, origin: Arc::new(origin), rows });
            }
            Told::End(Ok(end)) => {
                // of a snapshot that was not read there is nothing to go on with
                exact.state = match (&exact.state, end) {
                    (State::Reading, Some(high)) => State::Read { high },
                    _ => State::Idle,
                };
                if let State::Read { high } = &exact.state
                    && self.highest.as_ref().is_none_or(|h| !h.has_reached(high))
                {
                    self.highest = Some(high.clone());
                }
            }
            Told::End(Err(ChunkError::Moved(point, error))) => {
                exact.state = State::Idle;
                exact.moved_errors += 1;
                if exact.moved_errors > MOVED_LIMIT {
                    return Err(error
                        .note(format!("table \"{id}\""))
                        .note("the log holds no statement that explains it"));
                }
                // in start mode `snapshot` the log is read on for it
                if self.highest.as_ref().is_none_or(|h| !h.has_reached(&point)) {
                    self.highest = Some(point.clone());
                }
                exact.wait_for = Some(point);
            }
            Told::End(Err(ChunkError::Failed(error))) if error.is_transient() => {
                exact.state = State::Idle;
                let notice = error.diagnostic().clone();
                self.out.push_back(CaptureItem::Notice(Diagnostic {
                    severity: cdc_core::Severity::Warning,
                    ..notice
                }));
            }
            Told::End(Err(ChunkError::Failed(error))) => {
                return Err(error.note(format!("table \"{id}\"")));
            }
        }
        Ok(())
    }

    /// Changes that waited for a table's copy are given out as one transaction, at a boundary; true if something was.
    fn drain(&mut self) -> Result<bool> {
        if self.draining.is_none() && self.log.at_boundary() {
            let point = self.log.point();
            // a statement that changed the table under the SELECT has been met by then, and has voided the copy
            let is_read = |t: &Table| {
                t.exact
                    .as_ref()
                    .is_some_and(|e| matches!(&e.state, State::Read { high } if point.has_reached(high)))
            };
            self.draining = self.tables.iter().find(|(_, t)| is_read(t)).map(|(id, _)| id.clone());
        }
        let Some(id) = self.draining.clone() else { return Ok(false) };
        let exact = self.tables.get_mut(&id).and_then(|t| t.exact.as_mut());
        if let Some((waiting, changes)) = exact.map(|e| e.spill.pop()).transpose()?.flatten() {
            self.out.push_back(CaptureItem::Changes {
                schema: waiting.schema,
                origin: waiting.origin,
                changes,
            });
            return Ok(true);
        }
        self.draining = None;
        if let Some(table) = self.tables.get_mut(&id) {
            table.exact = None;
            table.chunks = 1;
        }
        self.out.push_back(CaptureItem::TransactionEnd);
        self.out.push_back(CaptureItem::TableWhole(id));
        Ok(true)
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
        // of a statement that is told in several items, all must have been taken in
        if !self.log.is_drained() {
            return Ok(());
        }
        if self.read.is_empty() && self.tables.values().all(Table::is_whole) {
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
                again.into_iter().for_each(|key| copying.read_again(key));
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

impl Copying {
    /// From its beginning.
    fn of(schema: &Arc<TableSchema>) -> Result<Copying> {
        let key = chunk_key(schema)?;
        Ok(Copying {
            extractor: KeyExtractor::new(schema, &key.columns),
            key,
            cut_to: None,
            cut: false,
            open: Vec::new(),
            wait_for: None,
            moved_errors: 0,
        })
    }
}

impl Copying {
    /// Queues a key as a small chunk of its own. One that is queued or read already does: what it reads is void if it
    /// is not new enough.
    fn read_again(&mut self, key: Row) {
        if !self.open.iter().any(|o| o.key.as_ref() == Some(&key)) {
            self.open.push(OpenChunk { range: KeyRange::default(), key: Some(key), running: None });
        }
    }
}

impl CopyState {
    /// From its beginning.
    fn of(table: &TableId) -> CopyState {
        CopyState {
            table: table.clone(),
            cut_to: None,
            cut: false,
            open: Vec::new(),
            small: Vec::new(),
            rows: 0,
            chunks: 0,
            exact: false,
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
    cdc_core::faults::at("snapshot.chunk-read");
    if let Err(ChunkError::Failed(error)) = &result
        && error.is_transient()
        && error.code() != codes::CHUNK_FAILED
    {
        // the next try begins with the answer to this one
        tokio::time::sleep(RECONNECT).await;
    }
    let _ = messages.send(Message::Done { chunk: number, schema, result, conn }).await;
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
                if attempts > 60 {
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
                    codes::PREPARED_BRANCH,
                    format!(
                        "waiting for XA transactions that were prepared before the start: {}",
                        left.len()
                    ),
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
    let mut ended = BTreeMap::new();
    loop {
        let open = reader.branches().clone();
        if reader.at_boundary() && reader.point().has_reached(after) {
            // those that end behind the position are open at it
            let mut branches = reader.branches().clone();
            branches.0.extend(ended);
            return Ok(Scan::Fits { passed, branches });
        }
        match reader.next().await {
            Ok(LogItem::Schema { .. } | LogItem::Appeared { .. }) => return Ok(Scan::Moved),
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
                } else if !executed.contains(&gtid) {
                    let still = reader.branches();
                    ended.extend(open.0.into_iter().filter(|(name, _)| !still.0.contains_key(name)));
                }
            }
            Ok(LogItem::Moved | LogItem::End(_)) => {}
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
