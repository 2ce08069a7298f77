//! What the live tests of the source share: a server, a copy that follows a capture as a plain target would,
//! and the comparison with the server, row by row.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod connecting;

use anyhow::{Context, Result, bail, ensure};
use cdc_core::event::Op;
use cdc_core::position::Position;
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Diagnostic, Error, Row, RowBuilder, TableId, TableSchema};
use cdc_mysql::binlog::RowChange;
use cdc_mysql::binlog::rows::KeyExtractor;
use cdc_mysql::capture::{Capture, CaptureItem};
use cdc_mysql::config::{Config, Point, StartMode};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_testkit::servers::{Server, ServerOptions};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Rows by key.
pub type Rows = BTreeMap<Row, Row>;

/// Is called with each row that is written.
pub type Watch = dyn FnMut(&TableId, &Row) + Send;

/// What takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server of this test file; its watchdog ends it with the process.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ServerOptions::of_this_run()).expect("a server"))
}

/// As the account `cdc`, with a replica id of its own.
pub fn config(server: &Server, tables: &[&str]) -> Config {
    config_at(server.port(), tables)
}

/// As [`config`], for a proxy's port.
pub fn config_at(port: u16, tables: &[&str]) -> Config {
    static SERVER_ID: AtomicU32 = AtomicU32::new(7000);
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    let url = format!("mysql://127.0.0.1:{port}");
    let mut config = Config::new(&url, "cdc", Some("cdc"), &tables).expect("a configuration");
    config.server_id = SERVER_ID.fetch_add(1, Ordering::SeqCst);
    config
}

/// A connection as root.
pub async fn root(server: &Server) -> Result<Conn> {
    Ok(Conn::new(Opts::from_url(&server.url("root"))?).await?)
}

/// Calls `action` the `nth` time (from 1) that a chunk of the table is at the point.
pub fn at(
    config: &mut Config,
    point: Point,
    table: &str,
    nth: usize,
    action: impl Fn() + Send + Sync + 'static,
) {
    let (former, table, count) = (config.hook.take(), table.to_owned(), AtomicUsize::new(0));
    config.hook = Some(Arc::new(move |reached, of| {
        if let Some(former) = &former {
            former(reached, of);
        }
        if reached == point && *of.table == *table && count.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            action();
        }
    }));
}

/// Sleeps at every point of every chunk.
pub fn dawdle(config: &mut Config, time: Duration) {
    config.hook = Some(Arc::new(move |_, _| std::thread::sleep(time)));
}

/// Tables as a plain target holds them: items are applied in the order in which they come.
pub struct Copy {
    /// The rows.
    pub tables: BTreeMap<TableId, Rows>,
    /// The structures announced last.
    pub schemas: BTreeMap<TableId, Arc<TableSchema>>,
    /// Tables that must be exact copies: each change is checked against what is there.
    pub whole: BTreeSet<TableId>,
    /// What was told.
    pub notices: Vec<Diagnostic>,
    /// The rows of each chunk given out.
    pub chunks: Vec<(TableId, usize)>,
    /// The changes given out, without those that were skipped.
    pub log: Vec<(TableId, RowChange)>,
    /// Statements given out.
    pub schemas_told: usize,
    /// Is called with each row that is written.
    pub watch: Option<Box<Watch>>,
    /// Changes were given out, and the end of their transaction was not.
    in_transaction: bool,
}

impl Copy {
    /// Empty tables, with the structures that the capture begins with.
    pub fn of(capture: &Capture) -> Copy {
        let mut copy = Copy {
            tables: BTreeMap::new(),
            schemas: BTreeMap::new(),
            whole: BTreeSet::new(),
            notices: Vec::new(),
            chunks: Vec::new(),
            log: Vec::new(),
            schemas_told: 0,
            watch: None,
            in_transaction: false,
        };
        copy.resume(capture);
        copy
    }

    /// Goes on with a capture that was resumed.
    pub fn resume(&mut self, capture: &Capture) {
        self.schemas = capture.schemas().map(|schema| (schema.id.clone(), schema.clone())).collect();
        self.whole.retain(|table| capture.is_table_whole(table));
        for table in self.schemas.keys() {
            self.tables.entry(table.clone()).or_default();
        }
    }

    /// Applies items until the condition holds at a boundary, or the capture ends. Changes that are given out
    /// before the capture is past its hold are there already, and are skipped.
    pub async fn run(
        &mut self,
        capture: &mut Capture,
        mut until: impl FnMut(&Capture, &Copy) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if capture.at_boundary() {
                ensure!(!self.in_transaction, "a boundary inside a transaction, at {}", capture.position());
                if until(capture, self) {
                    return Ok(());
                }
            }
            let step = tokio::time::timeout_at(deadline, self.step(capture)).await;
            let end =
                step.with_context(|| format!("no end at {}: {:?}", capture.position(), capture.progress()))??;
            if end {
                ensure!(!self.in_transaction, "an end inside a transaction, at {}", capture.position());
                return Ok(());
            }
        }
    }

    /// Applies one item; true if it is the end.
    pub async fn step(&mut self, capture: &mut Capture) -> Result<bool> {
        let item = capture.next().await?;
        let end = matches!(item, CaptureItem::End);
        self.apply(item, !capture.is_past_hold())?;
        Ok(end)
    }

    /// Applies items until all that is committed at the source now is given out and every table is whole.
    pub async fn catch_up(&mut self, capture: &mut Capture) -> Result<()> {
        let end = capture.server_position().await?;
        self.run_to(capture, &end).await
    }

    /// Applies items until the position is reached and every table is whole.
    pub async fn run_to(&mut self, capture: &mut Capture, end: &Position) -> Result<()> {
        self.run(capture, |capture, _| capture.is_whole() && capture.has_reached(end).unwrap_or(false)).await
    }

    fn apply(&mut self, item: CaptureItem, is_there: bool) -> Result<()> {
        match item {
            CaptureItem::Chunk { schema, rows, origin } => {
                ensure!(origin.snapshot, "rows of a chunk say that they are of the log");
                ensure!(!self.whole.contains(&schema.id), "a chunk of \"{}\", which is whole", schema.id);
                ensure!(!is_there, "a chunk enters what the target has committed");
                self.check_announced(&schema)?;
                self.chunks.push((schema.id.clone(), rows.len()));
                let mut keys = KeyExtractor::new(&schema, schema.key().context("a key")?);
                for row in rows {
                    self.write(&schema.id, keys.key(&row), row);
                }
            }
            CaptureItem::Changes { schema, changes, .. } => {
                self.in_transaction = true;
                self.check_announced(&schema)?;
                if !is_there {
                    let mut keys = KeyExtractor::new(&schema, schema.key().context("a key")?);
                    changes.into_iter().try_for_each(|change| self.change(&schema.id, &mut keys, change))?;
                }
            }
            CaptureItem::Schema { changes, before, after, .. } => {
                self.in_transaction = true;
                self.schemas_told += 1;
                self.schema(&changes, before.as_deref(), after);
            }
            CaptureItem::TransactionEnd => self.in_transaction = false,
            CaptureItem::TableWhole(table) => _ = self.whole.insert(table),
            CaptureItem::Notice(notice) => self.notices.push(notice),
            CaptureItem::Moved | CaptureItem::End => {}
        }
        Ok(())
    }

    fn check_announced(&self, schema: &Arc<TableSchema>) -> Result<()> {
        match self.schemas.get(&schema.id) {
            Some(announced) if announced == schema => Ok(()),
            Some(announced) => bail!(
                "rows of \"{}\" come in version {}, announced is {}",
                schema.id,
                schema.version,
                announced.version
            ),
            None => bail!("rows of \"{}\", which was not announced", schema.id),
        }
    }

    fn change(&mut self, table: &TableId, keys: &mut KeyExtractor, change: RowChange) -> Result<()> {
        let whole = self.whole.contains(table);
        let rows = self.tables.entry(table.clone()).or_default();
        let mut gone = None;
        if let Some(before) = &change.before {
            gone = rows.remove(&keys.key(before));
            let is_it = gone.as_ref().is_some_and(|gone| overlay(gone, before) == *gone);
            ensure!(!whole || is_it, "{change:?} of \"{table}\" finds {gone:?}");
        }
        if let Some(after) = &change.after {
            let key = keys.key(after);
            if change.before.is_none() && change.op == Op::Update {
                ensure!(!whole && after.has_absent(), "{change:?} of \"{table}\", which is whole");
                gone = rows.remove(&key);
            }
            ensure!(!whole || !rows.contains_key(&key), "{change:?} of \"{table}\": its key is taken");
            // a partial row of which there is nothing is left to a chunk
            if let Some(row) =
                if after.has_absent() { gone.map(|g| overlay(&g, after)) } else { Some(after.clone()) }
            {
                self.write(table, key, row);
            }
        }
        self.log.push((table.clone(), change));
        Ok(())
    }

    fn write(&mut self, table: &TableId, key: Row, row: Row) {
        if let Some(watch) = &mut self.watch {
            watch(table, &row);
        }
        self.tables.entry(table.clone()).or_default().insert(key, row);
    }

    fn schema(
        &mut self,
        changes: &[SchemaChange],
        before: Option<&TableSchema>,
        after: Option<Arc<TableSchema>>,
    ) {
        let mut rows = before.and_then(|before| {
            self.schemas.remove(&before.id);
            self.tables.remove(&before.id)
        });
        let emptied = |c: &SchemaChange| {
            matches!(
                c,
                SchemaChange::CreateTable { .. }
                    | SchemaChange::TruncateTable { .. }
                    | SchemaChange::ResnapshotTable { .. }
            )
        };
        if changes.iter().any(emptied) {
            rows = None;
        }
        if changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. })) {
            self.whole.retain(|id| after.as_ref().is_none_or(|after| after.id != *id));
        }
        // another key: the same rows under it
        if let (Some(before), Some(after), Some(old)) = (before, &after, &rows)
            && before.key() != after.key()
            && before.columns.len() == after.columns.len()
            && let Some(key) = after.key()
        {
            let mut keys = KeyExtractor::new(after, key);
            rows = Some(old.values().map(|row| (keys.key(row), row.clone())).collect());
        }
        if let Some(after) = after {
            self.tables.insert(after.id.clone(), rows.unwrap_or_default());
            self.schemas.insert(after.id.clone(), after);
        }
    }

    /// Rows given out by chunks of a table, and the most in one.
    pub fn chunk_rows(&self, table: &str) -> (usize, usize) {
        let of = self.chunks.iter().filter(|(id, _)| *id.table == *table).map(|(_, rows)| *rows);
        of.fold((0, 0), |(sum, most), rows| (sum + rows, most.max(rows)))
    }

    /// The rows of a table.
    pub fn rows(&self, table: &str) -> &Rows {
        let found = self.tables.iter().find(|(id, _)| *id.table == *table);
        found.map(|(_, rows)| rows).expect("a table of the copy")
    }
}

/// The row with the values that the other one has.
fn overlay(row: &Row, over: &Row) -> Row {
    Row::pack(row.iter().zip(over.iter()).map(|(below, above)| if above.is_absent() { below } else { above }))
}

/// Starts a capture and copies until it ends (start mode `snapshot`).
pub async fn snapshot(mut config: Config) -> Result<Copy> {
    config.start = StartMode::Snapshot;
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    copy.run(&mut capture, |_, _| false).await?;
    ensure!(capture.is_whole(), "ended, and a table is not whole");
    Ok(copy)
}

/// Starts a capture and copies until it has all that is committed now. The capture goes on from there.
pub async fn initial(config: Config) -> Result<(Capture, Copy)> {
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    copy.catch_up(&mut capture).await?;
    Ok((capture, copy))
}

/// The error with which a capture ends before it gives anything out. MySQL is asked whether it has what a position
/// needs; MariaDB says so itself, in the log that it sends.
pub async fn refusal(capture: cdc_core::Result<Capture>) -> Result<Error> {
    let mut capture = match capture {
        Ok(capture) => capture,
        Err(error) => return Ok(error),
    };
    loop {
        match tokio::time::timeout(PATIENCE, capture.next()).await? {
            Ok(CaptureItem::Moved) => {}
            Ok(item) => bail!("it goes on: {item:?}"),
            Err(error) => return Ok(error),
        }
    }
}

/// A table as the server gives it in the binary protocol.
pub async fn read_table(server: &Server, schema: &Arc<TableSchema>) -> Result<Rows> {
    let decoder = ResultDecoder::new(schema)?;
    let mut conn = cdc_mysql::conn::connect(&config(server, &["*.*"])).await?;
    let quote = |name: &str| format!("`{}`", name.replace('`', "``"));
    let (database, table) = (quote(&schema.id.database), quote(&schema.id.table));
    let sql = format!("SELECT {} FROM {database}.{table}", decoder.select_list());
    let result: Vec<mysql_async::Row> = conn.exec(sql, ()).await?;
    let mut keys = KeyExtractor::new(schema, schema.key().context("a key")?);
    let mut builder = RowBuilder::new();
    let mut rows = Rows::new();
    for row in result {
        let row = decoder.decode(&mut builder, &row.unwrap())?;
        ensure!(rows.insert(keys.key(&row), row).is_none(), "two rows of one key in \"{}\"", schema.id);
    }
    conn.disconnect().await?;
    Ok(rows)
}

/// Compares one table with the source, and prints how many rows it compared.
pub async fn assert_equal(server: &Server, schema: &Arc<TableSchema>, copied: &Rows) -> Result<()> {
    let source = read_table(server, schema).await?;
    let keys: BTreeSet<&Row> = source.keys().chain(copied.keys()).collect();
    let differ: Vec<&Row> = keys.into_iter().filter(|key| source.get(*key) != copied.get(*key)).collect();
    if let Some(first) = differ.first() {
        bail!(
            "\"{}\": {} of {} rows differ; the first, {first:?}: the source has {:?}, the copy {:?}",
            schema.id,
            differ.len(),
            source.len(),
            source.get(*first),
            copied.get(*first)
        );
    }
    eprintln!("{}: {} rows equal", schema.id, source.len());
    Ok(())
}

/// Compares every table of the copy with the source.
pub async fn assert_all_equal(server: &Server, copy: &Copy) -> Result<()> {
    for (table, schema) in &copy.schemas {
        assert_equal(server, schema, &copy.tables[table]).await?;
    }
    Ok(())
}

/// A client that writes without pause until it is told to end.
pub struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<u64>>,
}

impl Writer {
    /// Runs what `sql` gives for 0, 1, 2, ..
    pub async fn start(server: &Server, sql: impl Fn(u64) -> String + Send + 'static) -> Result<Writer> {
        let mut conn = root(server).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let task = tokio::spawn(async move {
            let mut number = 0;
            while !told.load(Ordering::SeqCst) {
                conn.query_drop(sql(number)).await?;
                number += 1;
                // what is written faster than a busy machine reads is never caught up with
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok(number)
        });
        Ok(Writer { stop, task })
    }

    /// Ends it, and gives how often it wrote.
    pub async fn end(self) -> Result<u64> {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await?
    }
}
