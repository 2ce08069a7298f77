//! Compares a target with its source, row by row and value by value.
//!
//! Each source table is read in the order of its key, a chunk at a time; each row goes through the flow's
//! program, and what comes out is compared with the target's row of the same key, as the sink would have written it.
//! Then the target's keys are counted: more than were expected means rows that should not be there, and they
//! are looked for by key.
//!
//! *While it moves.* Source and target are read at different moments, so a row that differs may only be on its
//! way. Rows that differ are looked at again, both sides, until they agree or the time is up; a row counts as
//! different only if it differed every time. Keys that only the target has are looked for at the source
//! in the same way.
//!
//! *Dates that no calendar has* pass through the source's option `zero_dates` as in a run; pages are cut by the source's own keys.
//!
//! *Tables without a key.* Where the target is a multiset both sides are read in any order and rows are counted by a hash of
//! the whole row as the sink stores it, +1 at the source, -1 at the target: what is not 0 differs. Those rows alone are
//! counted again, both sides, until they agree or the time is up. (SQLite: the two zeros of DOUBLE count as one.) Where
//! a flow states a key for such a table, the target is looked at by that key, and the source is read as a whole each time.
//!
//! *Modes.* Where a mode keeps the target from following the source (ignore, lenient, what a target has refused), rows are
//! compared as they are written: by what the state folder's last checkpoint says of the target. What is left different is listed.
//!
//! *Views* are worked out anew from their tables, read in one snapshot (`views`).
//!
//! *Memory.* Per target table 8 bytes for each row, and the keys that differ; of a multiset some 20 bytes for each row
//! that is another.

mod views;

use cdc_core::connector::{ColumnDifference, Comparison, TargetReader, TargetTable};
use cdc_core::event::{Op, Origin};
use cdc_core::plan::program::{BoundFlow, RowMeta};
use cdc_core::plan::{FlowPlan, Plan};
use cdc_core::schema::{TableId, TableSchema};
use cdc_core::zero_dates::{DateView, TableView};
use cdc_core::{Error, Result, Row, RowBuilder, codes};
use cdc_mysql::config::Config;
use cdc_mysql::conn::{connect, query_error};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_mysql::narrow::Narrow;
use cdc_mysql::server::Server;
use cdc_mysql::snapshot::chunk::{ChunkKey, KeyRange, quote_name};
use cdc_schema::coerce::Coercion;
use cdc_schema::evolved::Evolved;
use cdc_schema::merge::same_type;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::state::{Checkpoint, StateDir};

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The pipeline file's folder.
    pub base: PathBuf,
    /// Differences listed per table.
    pub limit: usize,
    /// How long rows that differ are looked at again.
    pub wait: Duration,
    /// The state folder of the pipeline's runs: it says what modes have made of the targets. A run may have it meanwhile.
    pub state: Option<PathBuf>,
}

/// How a row differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The target does not have it.
    Missing,
    /// Only the target has it.
    Extra,
    /// These columns differ.
    Differs(Vec<ColumnDifference>),
}

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its key, for people; without key the row, and how many of it where there are several.
    pub key: String,
    /// How.
    pub kind: Kind,
}

/// A target table, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    /// The sink.
    pub sink: String,
    /// The target table.
    pub target: String,
    /// The source tables that flow into it.
    pub sources: Vec<TableId>,
    /// Rows that should be at the target.
    pub source_rows: u64,
    /// Rows that are.
    pub target_rows: u64,
    /// Rows that differ.
    pub differing: u64,
    /// Those of them that the target does not have.
    pub missing: u64,
    /// Those of them that only the target has.
    pub extra: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// What the mode of the flow leaves different, for people.
    pub left: Vec<String>,
}

/// A target, compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// By sink and table.
    pub tables: Vec<TableReport>,
    /// Sinks that cannot be read back.
    pub skipped: Vec<String>,
}

impl Report {
    /// Rows that differ, in all tables.
    pub fn differing(&self) -> u64 {
        self.tables.iter().map(|t| t.differing).sum()
    }

    /// Rows compared, in all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|t| t.source_rows).sum()
    }
}

/// Rows read from the source at a time.
const PAGE: u64 = 4096;

/// Compares all targets of a plan with its source. `each` is told of each table and how many of its rows have been
/// compared.
///
/// # Errors
/// If either side cannot be read.
pub fn verify(plan: &Plan, options: &Options, each: &mut dyn FnMut(&str, u64)) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no thread for input and output: {e}")))?;
    runtime.block_on(compare(plan, options, each))
}

/// One source table on its way into one target table.
struct Feed {
    flow: BoundFlow,
    /// What a run gives to the flow: first this, then that.
    narrow: Arc<Narrow>,
    view: Arc<TableView>,
    schema: Arc<TableSchema>,
    /// The source's; `None` if the table has none.
    key: Option<ChunkKey>,
    decoder: ResultDecoder,
    /// How rows are made to fit the target, where the mode has kept that from following the source.
    coercion: Option<Coercion>,
    left: Vec<String>,
}

impl Feed {
    /// What is written.
    fn table(&self) -> &Arc<TargetTable> {
        self.coercion.as_ref().map_or_else(|| self.flow.target(), |c| c.to())
    }

    fn written(&self, output: Row) -> Result<Row> {
        match &self.coercion {
            None => Ok(output),
            Some(coercion) => coercion.row(&output),
        }
    }
}

async fn compare(plan: &Plan, options: &Options, each: &mut dyn FnMut(&str, u64)) -> Result<Report> {
    let mut report = Report::default();
    let source = plan
        .sources
        .iter()
        .find(|s| plan.flows.iter().any(|f| f.source == s.name))
        .ok_or_else(|| Error::definite(codes::NO_FLOW, "no flow reads a source"))?;
    let config = Config::from_options(&source.options)?.relative_to(&options.base);
    let mut conn = connect(&config).await?;
    let mut evolved =
        EvolvedNow { state: options.state.clone(), end: Instant::now() + options.wait, checkpoint: None };
    let schemas: Vec<Arc<TableSchema>> = match cdc_mysql::capture::discover(&mut conn, &config).await {
        Ok((structures, _)) => structures.tables().cloned().collect(),
        // all of them were dropped since a run has been here
        Err(error) if error.code() == codes::NO_TABLES && evolved.is_known()? => Vec::new(),
        Err(error) => return Err(error),
    };
    // what a run would refuse is no difference
    let narrow = Arc::new(Narrow::new(&Server::ask(&mut conn).await?));
    let dates = DateView::new(config.zero_dates);
    let shown: Vec<Arc<TableSchema>> = schemas.iter().map(|s| dates.schema(&narrow.schema(s))).collect();
    let of_views = views::Source { schemas: &schemas, narrow: narrow.clone(), dates: &dates };
    let graph = views::graph(plan, options, &of_views)?;
    let with_views: Vec<Arc<TableSchema>> =
        shown.iter().cloned().chain(graph.views.iter().map(|view| view.schema.clone())).collect();
    crate::job::bind_all(plan, &with_views)?;
    for sink in plan.sinks.iter().filter(|s| plan.flows.iter().any(|f| f.sink == s.name)) {
        let Some(mut reader) = cdc_sinks::registry::reader(sink, &options.base)? else {
            report.skipped.push(sink.name.clone());
            continue;
        };
        let mut feeds: BTreeMap<String, Vec<Feed>> = BTreeMap::new();
        let of_sink = |flow: &&FlowPlan| flow.sink == sink.name && flow.source == source.name;
        for flow in plan.flows.iter().filter(of_sink) {
            for schema in schemas.iter().filter(|s| flow.takes(&s.id)) {
                let view = dates.table(&narrow.schema(schema));
                let bound = BoundFlow::bind(flow, view.schema()).map_err(|mut d| {
                    if d.is_empty() {
                        Error::definite(codes::INTERNAL, "a flow was refused without a reason")
                    } else {
                        Error::from(d.remove(0))
                    }
                })?;
                let (key, decoder) = (ChunkKey::of(schema), ResultDecoder::new(schema)?);
                let (coercion, left) = evolved.of(&sink.name, bound.target()).await?;
                let feed = Feed {
                    decoder,
                    key,
                    schema: schema.clone(),
                    narrow: narrow.clone(),
                    view,
                    flow: bound,
                    coercion,
                    left,
                };
                feeds.entry(feed.table().name.clone()).or_default().push(feed);
            }
        }
        for flow in plan.flows.iter().filter(of_sink).filter(|f| f.view.is_some()) {
            let told = &mut |rows| each(&flow.name, rows);
            let reader = reader.as_mut();
            report
                .tables
                .push(views::table(&mut conn, reader, flow, &graph, &of_views, options, told).await?);
        }
        for (target, feeds) in feeds {
            let name = format!("{}.{target}", sink.name);
            let told = &mut |rows| each(&name, rows);
            let (conn, reader) = (&mut conn, reader.as_mut());
            let multiset = feeds.first().is_some_and(|f| f.table().is_multiset());
            report.tables.push(if multiset {
                counted(conn, reader, &sink.name, &target, &feeds, options, told).await?
            } else {
                table(conn, reader, &sink.name, &target, &feeds, options, told).await?
            });
        }
        let tables = evolved.tables(&sink.name)?;
        for table in tables.iter().filter(|t| t.feeds.is_empty()) {
            let is_told = report.tables.iter().any(|r| r.sink == sink.name && r.target == table.name);
            if !is_told {
                report.tables.push(kept(reader.as_mut(), plan, &sink.name, table)?);
            }
        }
    }
    let _ = conn.disconnect().await;
    Ok(report)
}

/// What the last checkpoint says of the targets' tables.
struct EvolvedNow {
    state: Option<PathBuf>,
    end: Instant,
    checkpoint: Option<Checkpoint>,
}

impl EvolvedNow {
    /// Has a run been here?
    fn is_known(&mut self) -> Result<bool> {
        if let (None, Some(state)) = (&self.checkpoint, &self.state) {
            self.checkpoint = StateDir::peek(state)?;
        }
        Ok(self.checkpoint.is_some())
    }

    /// What the last checkpoint says of a sink's tables.
    fn tables(&mut self, sink: &str) -> Result<Vec<Evolved>> {
        self.is_known()?;
        Ok(self.checkpoint.as_ref().and_then(|c| c.evolved.get(sink)).cloned().unwrap_or_default())
    }

    /// How a flow's rows are written, and what is left different. A run that follows a schema change right now has it in its
    /// next checkpoint: that is waited for.
    async fn of(&mut self, sink: &str, bound: &Arc<TargetTable>) -> Result<(Option<Coercion>, Vec<String>)> {
        let Some(state) = self.state.clone() else { return Ok((None, Vec::new())) };
        loop {
            if self.checkpoint.is_none() {
                self.checkpoint = StateDir::peek(&state)?;
            }
            let tables = self.checkpoint.as_ref().and_then(|c| c.evolved.get(sink));
            let Some(tables) = tables else { return Ok((None, Vec::new())) };
            let found = tables.iter().find_map(|t| Some((t, t.feed(&bound.name, &bound.schema.id)?)));
            let columns = &bound.schema.columns;
            let is_now = found.is_some_and(|(_, feed)| {
                feed.columns.len() == columns.len()
                    && feed
                        .columns
                        .iter()
                        .zip(columns)
                        .all(|(f, c)| f.output == c.name && same_type(&f.ty, &c.ty))
            });
            match found {
                Some((table, feed)) if is_now => return Ok((table.coercion(bound)?, table.left(feed))),
                _ if Instant::now() < self.end => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    self.checkpoint = None;
                }
                _ => return Ok((None, Vec::new())),
            }
        }
    }
}

/// A table that nobody feeds any more: the mode has kept it, or the source's patterns have let it go, which its rows do not show. So they
/// are told, and do not count as different.
fn kept(reader: &mut dyn TargetReader, plan: &Plan, sink: &str, evolved: &Evolved) -> Result<TableReport> {
    let mut table = TargetTable::clone(&evolved.table(&TableId::new("", evolved.name.as_str()), 0));
    // rows that are marked as deleted are as they should be
    let flags = plan.flows.iter().filter(|f| f.sink == sink).filter_map(|f| f.soft_delete.as_deref());
    table.soft_delete = flags.filter_map(|flag| table.schema.column_index(flag)).next();
    let rows = reader.count(&table)?;
    Ok(TableReport {
        sink: sink.to_owned(),
        target: table.name.clone(),
        sources: Vec::new(),
        source_rows: 0,
        target_rows: rows,
        differing: 0,
        missing: 0,
        extra: 0,
        differences: Vec::new(),
        left: vec![format!(
            "no table of the source is written to it any more; {} kept",
            if rows == 1 { "its one row is".to_owned() } else { format!("its {rows} rows are") }
        )],
    })
}

/// A row that differed when it was last looked at: where it comes from, its key at the source, and a hash of that at
/// the target.
struct Suspect {
    feed: usize,
    key: Row,
    target: u64,
    found: Difference,
}

/// Hashes of rows or keys as the target stores them; they need no hashing of their own.
type Counts = HashMap<u64, i64, foldhash::fast::FixedState>;

/// A target table without key.
async fn counted(
    conn: &mut Conn,
    reader: &mut dyn TargetReader,
    sink: &str,
    target: &str,
    feeds: &[Feed],
    options: &Options,
    each: &mut dyn FnMut(u64),
) -> Result<TableReport> {
    let end = Instant::now() + options.wait;
    let mut found = count(conn, reader, feeds, None, 0, each).await?;
    // at least once more, for what the rows are
    while !found.counts.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        tokio::time::sleep(Duration::from_millis(200).min(left)).await;
        found = count(conn, reader, feeds, Some(&found.counts), options.limit, each).await?;
        if Instant::now() >= end {
            break;
        }
    }
    let sum =
        |of: fn(i64) -> i64| -> u64 { found.counts.values().map(|n| of(*n).max(0).unsigned_abs()).sum() };
    let (missing, extra) = (sum(|n| n), sum(|n| -n));
    let mut differences: Vec<Difference> = found
        .texts
        .into_iter()
        .filter_map(|(hash, row)| {
            let count = *found.counts.get(&hash)?;
            let kind = if count > 0 { Kind::Missing } else { Kind::Extra };
            let key = match count.unsigned_abs() {
                1 => row,
                n => format!("{n} times: {row}"),
            };
            Some(Difference { key, kind })
        })
        .collect();
    differences.sort_by(|a, b| (a.kind == Kind::Extra, &a.key).cmp(&(b.kind == Kind::Extra, &b.key)));
    Ok(TableReport {
        sink: sink.to_owned(),
        target: target.to_owned(),
        sources: feeds.iter().map(|f| f.schema.id.clone()).collect(),
        source_rows: found.source_rows,
        target_rows: found.target_rows,
        differing: missing + extra,
        missing,
        extra,
        differences,
        left: left_of(feeds),
    })
}

/// Both sides of a table without key, counted.
#[derive(Default)]
struct Counted {
    source_rows: u64,
    target_rows: u64,
    /// By hash of the row: how many more the source has. Only those that differ.
    counts: Counts,
    /// Some of them for people.
    texts: HashMap<u64, String>,
}

/// Counts the rows of both sides; of `only` these, with texts for the first `limit` of them.
async fn count(
    conn: &mut Conn,
    reader: &mut dyn TargetReader,
    feeds: &[Feed],
    only: Option<&Counts>,
    limit: usize,
    each: &mut dyn FnMut(u64),
) -> Result<Counted> {
    let mut found = Counted::default();
    let mut texts: HashMap<u64, String> = HashMap::new();
    let counts = |hash: &u64| only.is_none_or(|only| only.contains_key(hash));
    let is_sample = |texts: &HashMap<u64, String>, hash: &u64| {
        only.is_some() && texts.len() < limit && !texts.contains_key(hash)
    };
    for feed in feeds {
        let table = feed.table();
        pages(conn, feed, &mut |rows| {
            for output in through(feed, rows)?.1 {
                found.source_rows += 1;
                let hash = hash(&reader.encode_key(table, &output));
                if counts(&hash) {
                    *found.counts.entry(hash).or_default() += 1;
                    if is_sample(&texts, &hash) {
                        texts.insert(hash, show_row(table, &output));
                    }
                }
            }
            each(found.source_rows);
            Ok(())
        })
        .await?;
    }
    let Some(first) = feeds.first() else { return Ok(found) };
    reader.scan_keys(first.table(), &mut |encoded, text| {
        found.target_rows += 1;
        let hash = hash(&encoded);
        if counts(&hash) {
            let count = found.counts.entry(hash).or_default();
            *count -= 1;
            if *count == 0 {
                found.counts.remove(&hash);
            } else if is_sample(&texts, &hash) {
                texts.insert(hash, text);
            }
        }
        true
    })?;
    found.counts.retain(|_, n| *n != 0);
    found.texts = texts;
    Ok(found)
}

/// All rows of a source table that a flow reads, with their keys there, some at a time; without key the whole row stands
/// for it.
async fn pages(
    conn: &mut Conn,
    feed: &Feed,
    each: &mut dyn FnMut(Vec<(Row, Row)>) -> Result<()>,
) -> Result<()> {
    let Some(_) = &feed.key else {
        let id = &feed.schema.id;
        let list = feed.decoder.select_list();
        let sql = format!("SELECT {list} FROM {}.{}", quote_name(&id.database), quote_name(&id.table));
        let doing = "reading the source";
        let mut result = conn.exec_iter(sql, ()).await.map_err(|e| query_error(e, doing))?;
        let mut builder = RowBuilder::new();
        let mut page = Vec::new();
        while let Some(row) = result.next().await.map_err(|e| query_error(e, doing))? {
            let row = feed.decoder.decode(&mut builder, &row.unwrap())?;
            page.push((row.clone(), row));
            if page.len() as u64 >= PAGE {
                each(std::mem::take(&mut page))?;
            }
        }
        return each(page);
    };
    let mut lower: Option<Row> = None;
    loop {
        let rows = read_page(conn, feed, &KeyRange { lower: lower.clone(), upper: None }, None).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        lower = Some(last.clone());
        let full = rows.len() as u64 >= PAGE;
        each(rows)?;
        if !full {
            return Ok(());
        }
    }
}

async fn table(
    conn: &mut Conn,
    reader: &mut dyn TargetReader,
    sink: &str,
    target: &str,
    feeds: &[Feed],
    options: &Options,
    each: &mut dyn FnMut(u64),
) -> Result<TableReport> {
    let end = Instant::now() + options.wait;
    let mut expected: HashSet<u64, foldhash::fast::FixedState> = HashSet::default();
    let mut suspects: Vec<Suspect> = Vec::new();
    let mut source_rows = 0;
    for (index, feed) in feeds.iter().enumerate() {
        pages(conn, feed, &mut |rows| {
            let (keys, outputs) = through(feed, rows)?;
            source_rows += outputs.len() as u64;
            let encoded = outputs.iter().map(|o| hash(&reader.encode_key(feed.table(), o)));
            let encoded: Vec<u64> = encoded.collect();
            expected.extend(&encoded);
            let answers = reader.compare(feed.table(), &outputs)?;
            for (((key, output), target), answer) in keys.into_iter().zip(&outputs).zip(encoded).zip(answers)
            {
                if let Some(kind) = kind_of(answer) {
                    let found = Difference { key: show_key(feed.table(), output), kind };
                    suspects.push(Suspect { feed: index, key, target, found });
                }
            }
            each(source_rows);
            Ok(())
        })
        .await?;
    }
    while !suspects.is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(200).min(end.saturating_duration_since(Instant::now())))
            .await;
        look_again(conn, reader, feeds, &mut suspects).await?;
    }
    // a table of one feed tells the shape of all; there is at least one
    let Some(first) = feeds.first() else {
        return Err(Error::definite(codes::INTERNAL, "a target table without a flow"));
    };
    let table = first.table().clone();
    let mut target_rows = reader.count(&table)?;
    let mut extra = extra_keys(reader, &table, &expected)?;
    // what only the target has may be a row that was inserted at the source behind our reading
    while !extra.is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(300).min(end.saturating_duration_since(Instant::now())))
            .await;
        let mut now: HashSet<u64, foldhash::fast::FixedState> = HashSet::default();
        for feed in feeds {
            pages(conn, feed, &mut |rows| {
                let outputs = through(feed, rows)?.1;
                now.extend(outputs.iter().map(|o| hash(&reader.encode_key(feed.table(), o))));
                Ok(())
            })
            .await?;
        }
        // only one that was extra each time counts
        let again: HashSet<Vec<u8>> =
            extra_keys(reader, &table, &now)?.into_iter().map(|(encoded, _)| encoded).collect();
        extra.retain(|(encoded, _)| again.contains(encoded));
        target_rows = reader.count(&table)?;
    }
    let missing = suspects.iter().filter(|s| s.found.kind == Kind::Missing).count() as u64;
    let (differing, extra_rows) = ((suspects.len() + extra.len()) as u64, extra.len() as u64);
    let mut differences: Vec<Difference> = suspects.into_iter().map(|s| s.found).collect();
    differences.extend(extra.into_iter().map(|(_, key)| Difference { key, kind: Kind::Extra }));
    differences.truncate(options.limit);
    Ok(TableReport {
        sink: sink.to_owned(),
        target: target.to_owned(),
        sources: feeds.iter().map(|f| f.schema.id.clone()).collect(),
        source_rows,
        target_rows,
        differing,
        missing,
        extra: extra_rows,
        differences,
        left: left_of(feeds),
    })
}

/// Looks at rows that differed once more, on both sides.
async fn look_again(
    conn: &mut Conn,
    reader: &mut dyn TargetReader,
    feeds: &[Feed],
    suspects: &mut Vec<Suspect>,
) -> Result<()> {
    let mut left = Vec::new();
    // what differs now, by the key at the target, of those feeds that cannot be asked for one row
    let mut now: HashMap<u64, Kind, foldhash::fast::FixedState> = HashMap::default();
    for (index, feed) in feeds.iter().enumerate().filter(|(_, f)| f.key.is_none()) {
        let wanted: HashSet<u64, foldhash::fast::FixedState> =
            suspects.iter().filter(|s| s.feed == index).map(|s| s.target).collect();
        if wanted.is_empty() {
            continue;
        }
        pages(conn, feed, &mut |rows| {
            let table = feed.table();
            let outputs: Vec<(u64, Row)> = through(feed, rows)?
                .1
                .into_iter()
                .map(|output| (hash(&reader.encode_key(table, &output)), output))
                .filter(|(hash, _)| wanted.contains(hash))
                .collect();
            let rows: Vec<Row> = outputs.iter().map(|(_, output)| output.clone()).collect();
            for ((hash, _), answer) in outputs.iter().zip(reader.compare(table, &rows)?) {
                if let Some(kind) = kind_of(answer) {
                    now.insert(*hash, kind);
                }
            }
            Ok(())
        })
        .await?;
    }
    for mut suspect in std::mem::take(suspects) {
        let feed = &feeds[suspect.feed];
        if feed.key.is_none() {
            if let Some(kind) = now.get(&suspect.target) {
                suspect.found.kind = kind.clone();
                left.push(suspect);
            }
            continue;
        }
        let rows = read_page(conn, feed, &KeyRange::default(), Some(&suspect.key)).await?;
        let (_, outputs) = through(feed, rows)?;
        // gone from the source, or filtered out now: whether the target still has it is seen by its keys
        let answers = reader.compare(feed.table(), &outputs)?;
        if let Some(kind) = answers.into_iter().next().and_then(kind_of) {
            suspect.found.kind = kind;
            left.push(suspect);
        }
    }
    *suspects = left;
    Ok(())
}

/// What modes leave different, each once.
fn left_of(feeds: &[Feed]) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    for line in feeds.iter().flat_map(|f| &f.left) {
        if !left.contains(line) {
            left.push(line.clone());
        }
    }
    left
}

fn kind_of(answer: Comparison) -> Option<Kind> {
    match answer {
        Comparison::Equal => None,
        Comparison::Missing => Some(Kind::Missing),
        Comparison::Differs(columns) => Some(Kind::Differs(columns)),
    }
}

fn hash(bytes: &[u8]) -> u64 {
    use std::hash::BuildHasher;
    foldhash::quality::FixedState::with_seed(0).hash_one(bytes)
}

fn extra_keys(
    reader: &mut dyn TargetReader,
    table: &TargetTable,
    expected: &HashSet<u64, foldhash::fast::FixedState>,
) -> Result<Vec<(Vec<u8>, String)>> {
    let mut extra = Vec::new();
    reader.scan_keys(table, &mut |encoded, text| {
        if !expected.contains(&hash(&encoded)) {
            extra.push((encoded, text));
        }
        true
    })?;
    Ok(extra)
}

/// Rows with their source keys; a page of a range, or one key.
async fn read_page(
    conn: &mut Conn,
    feed: &Feed,
    range: &KeyRange,
    key: Option<&Row>,
) -> Result<Vec<(Row, Row)>> {
    let Some(by) = &feed.key else {
        return Err(Error::definite(
            codes::INTERNAL,
            format!("table \"{}\" was read by a key", feed.schema.id),
        ));
    };
    let list = feed.decoder.select_list();
    let sql = match key {
        Some(key) => format!("SELECT {list} {} WHERE {}", by.from(), by.equals(key)),
        None => {
            let (from, condition, order) = (by.from(), by.condition(range), by.order());
            format!("SELECT {list} {from}{condition} ORDER BY {order} LIMIT {PAGE}")
        }
    };
    let rows: Vec<mysql_async::Row> =
        conn.exec(sql, ()).await.map_err(|e| query_error(e, "reading the source"))?;
    let mut keys = cdc_mysql::binlog::rows::KeyExtractor::new(&feed.schema, &by.columns);
    let mut builder = RowBuilder::new();
    rows.into_iter()
        .map(|row| {
            let row = feed.decoder.decode(&mut builder, &row.unwrap())?;
            Ok((keys.key(&row), row))
        })
        .collect()
}

/// Rows through the flow's program; those that are filtered out are left out.
fn through(feed: &Feed, rows: Vec<(Row, Row)>) -> Result<(Vec<Row>, Vec<Row>)> {
    let origin = Origin { snapshot: true, ..Origin::default() };
    let meta = RowMeta { op: Op::Read, table: &feed.schema.id, origin: &origin };
    let mut keys = Vec::with_capacity(rows.len());
    let mut outputs = Vec::with_capacity(rows.len());
    let mut builder = RowBuilder::new();
    for (key, row) in rows {
        let row = feed.narrow.row(&feed.schema, row, &mut builder);
        let row = feed.view.row(row, &origin, &mut builder)?;
        if let Some(output) = feed.flow.apply(&row, &meta)? {
            keys.push(key);
            outputs.push(feed.written(output)?);
        }
    }
    Ok((keys, outputs))
}

fn show_key(table: &TargetTable, row: &Row) -> String {
    let values: Vec<_> = row.iter().collect();
    let parts: Vec<String> =
        table.key.iter().map(|&i| format!("{} = {}", table.schema.columns[i].name, values[i])).collect();
    parts.join(", ")
}

/// A whole row.
fn show_row(table: &TargetTable, row: &Row) -> String {
    let columns = table.schema.columns.iter().zip(row.iter());
    columns.map(|(column, value)| format!("{} = {value}", column.name)).collect::<Vec<_>>().join(", ")
}
