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
//! *Memory.* Per target table 8 bytes for each row, and the keys that differ.

use cdc_core::connector::{ColumnDifference, Comparison, TargetReader, TargetTable};
use cdc_core::event::{Op, Origin};
use cdc_core::plan::Plan;
use cdc_core::plan::program::{BoundFlow, RowMeta};
use cdc_core::schema::{TableId, TableSchema};
use cdc_core::{Error, Result, Row, RowBuilder, codes};
use cdc_mysql::config::Config;
use cdc_mysql::conn::{connect, query_error};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_mysql::snapshot::chunk::{ChunkKey, KeyRange};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to compare.
#[derive(Debug, Clone)]
pub struct Options {
    /// The pipeline file's folder.
    pub base: PathBuf,
    /// Differences listed per table.
    pub limit: usize,
    /// How long rows that differ are looked at again.
    pub wait: Duration,
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
    /// Its key, for people.
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
    /// The first of them.
    pub differences: Vec<Difference>,
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
    key: ChunkKey,
    decoder: ResultDecoder,
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
    let (structures, _) = cdc_mysql::capture::discover(&mut conn, &config).await?;
    let schemas: Vec<Arc<TableSchema>> = structures.tables().cloned().collect();
    // what a run would refuse is no difference
    crate::job::bind_all(plan, &schemas)?;
    for sink in plan.sinks.iter().filter(|s| plan.flows.iter().any(|f| f.sink == s.name)) {
        let Some(mut reader) = cdc_sinks::registry::reader(sink, &options.base)? else {
            report.skipped.push(sink.name.clone());
            continue;
        };
        let mut feeds: BTreeMap<String, Vec<Feed>> = BTreeMap::new();
        for flow in plan.flows.iter().filter(|f| f.sink == sink.name && f.source == source.name) {
            for schema in schemas.iter().filter(|s| flow.tables.matches(&s.id)) {
                let bound = BoundFlow::bind(flow, schema).map_err(|mut d| {
                    if d.is_empty() {
                        Error::definite(codes::INTERNAL, "a flow was refused without a reason")
                    } else {
                        Error::from(d.remove(0))
                    }
                })?;
                let key = ChunkKey::of(schema).ok_or_else(|| {
                    Error::definite(codes::NO_KEY, format!("table \"{}\" has no key", schema.id))
                })?;
                let feed = Feed { decoder: ResultDecoder::new(schema)?, key, flow: bound };
                feeds.entry(feed.flow.target().name.clone()).or_default().push(feed);
            }
        }
        for (target, feeds) in feeds {
            let name = format!("{}.{target}", sink.name);
            let table =
                table(&mut conn, reader.as_mut(), &sink.name, &target, &feeds, options, &mut |rows| {
                    each(&name, rows);
                })
                .await?;
            report.tables.push(table);
        }
    }
    let _ = conn.disconnect().await;
    Ok(report)
}

/// A row that differed when it was last looked at: where it comes from, and its key at the source.
struct Suspect {
    feed: usize,
    key: Row,
    found: Difference,
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
        let mut lower: Option<Row> = None;
        loop {
            let rows = read_page(conn, feed, &KeyRange { lower: lower.clone(), upper: None }, None).await?;
            let Some((last, _)) = rows.last() else { break };
            lower = Some(last.clone());
            let full = rows.len() as u64 >= PAGE;
            let (keys, outputs) = through(feed, rows)?;
            source_rows += outputs.len() as u64;
            for output in &outputs {
                expected.insert(hash(&reader.encode_key(feed.flow.target(), output)));
            }
            let answers = reader.compare(feed.flow.target(), &outputs)?;
            for ((key, output), answer) in keys.into_iter().zip(&outputs).zip(answers) {
                if let Some(kind) = kind_of(answer) {
                    let found = Difference { key: show_key(feed.flow.target(), output), kind };
                    suspects.push(Suspect { feed: index, key, found });
                }
            }
            each(source_rows);
            if !full {
                break;
            }
        }
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
    let table = first.flow.target().clone();
    let mut target_rows = reader.count(&table)?;
    let mut extra = extra_keys(reader, &table, &expected)?;
    // what only the target has may be a row that was inserted at the source behind our reading
    while !extra.is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(300).min(end.saturating_duration_since(Instant::now())))
            .await;
        let mut now: HashSet<u64, foldhash::fast::FixedState> = HashSet::default();
        for feed in feeds {
            let mut lower: Option<Row> = None;
            loop {
                let rows =
                    read_page(conn, feed, &KeyRange { lower: lower.clone(), upper: None }, None).await?;
                let Some((last, _)) = rows.last() else { break };
                lower = Some(last.clone());
                let (_, outputs) = through(feed, rows)?;
                now.extend(outputs.iter().map(|o| hash(&reader.encode_key(feed.flow.target(), o))));
            }
        }
        // only one that was extra each time counts
        let again: HashSet<Vec<u8>> =
            extra_keys(reader, &table, &now)?.into_iter().map(|(encoded, _)| encoded).collect();
        extra.retain(|(encoded, _)| again.contains(encoded));
        target_rows = reader.count(&table)?;
    }
    let differing = (suspects.len() + extra.len()) as u64;
    let mut differences: Vec<Difference> = suspects.into_iter().map(|s| s.found).collect();
    differences.extend(extra.into_iter().map(|(_, key)| Difference { key, kind: Kind::Extra }));
    differences.truncate(options.limit);
    Ok(TableReport {
        sink: sink.to_owned(),
        target: target.to_owned(),
        sources: feeds.iter().map(|f| f.key.schema.id.clone()).collect(),
        source_rows,
        target_rows,
        differing,
        differences,
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
    for mut suspect in std::mem::take(suspects) {
        let feed = &feeds[suspect.feed];
        let rows = read_page(conn, feed, &KeyRange::default(), Some(&suspect.key)).await?;
        let (_, outputs) = through(feed, rows)?;
        // gone from the source, or filtered out now: whether the target still has it is seen by its keys
        let answers = reader.compare(feed.flow.target(), &outputs)?;
        if let Some(kind) = answers.into_iter().next().and_then(kind_of) {
            suspect.found.kind = kind;
            left.push(suspect);
        }
    }
    *suspects = left;
    Ok(())
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
    let list = feed.decoder.select_list();
    let sql = match key {
        Some(key) => format!("SELECT {list} {} WHERE {}", feed.key.from(), feed.key.equals(key)),
        None => format!(
            "SELECT {list} {}{} ORDER BY {} LIMIT {PAGE}",
            feed.key.from(),
            feed.key.condition(range),
            feed.key.order()
        ),
    };
    let rows: Vec<mysql_async::Row> =
        conn.exec(sql, ()).await.map_err(|e| query_error(e, "reading the source"))?;
    let mut keys = cdc_mysql::binlog::rows::KeyExtractor::new(&feed.key.schema, &feed.key.columns);
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
    let meta = RowMeta { op: Op::Read, table: &feed.key.schema.id, origin: &origin };
    let mut keys = Vec::with_capacity(rows.len());
    let mut outputs = Vec::with_capacity(rows.len());
    for (key, row) in rows {
        if let Some(output) = feed.flow.apply(&row, &meta)? {
            keys.push(key);
            outputs.push(output);
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
