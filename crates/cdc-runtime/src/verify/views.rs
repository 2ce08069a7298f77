//! Targets of views, compared: the views' tables are read from the source in one snapshot, the views are worked out from the beginning
//! ([`cdc_materialize::reference`]), and each row is compared with the target's. Nothing of the run's own state is used.
//!
//! *While it moves* the target is ahead or behind of that snapshot: what differs is worked out again, all of it, until it agrees
//! or the time is up.

use super::{Difference, Kind, Options, PAGE, TableReport, extra_keys, hash, kind_of, show_key, show_row};
use crate::state::StateDir;
use cdc_core::connector::{TargetReader, TargetTable};
use cdc_core::diagnostic::Diagnostic;
use cdc_core::event::{Op, Origin};
use cdc_core::plan::program::{BoundFlow, RowMeta};
use cdc_core::plan::view::OnConflict;
use cdc_core::plan::view::bind::{Graph, TableInput, bind_again, bind_or_first};
use cdc_core::plan::view::rank::Ranking;
use cdc_core::plan::{FlowPlan, Plan};
use cdc_core::schema::{TableId, TableSchema, same_name};
use cdc_core::zero_dates::{DateView, TableView};
use cdc_core::{Error, Result, Row, RowBuilder, codes};
use cdc_materialize::reference::evaluate;
use cdc_mysql::conn::query_error;
use cdc_mysql::decode::result::ResultDecoder;
use cdc_mysql::narrow::Narrow;
use cdc_mysql::snapshot::chunk::quote_name;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Of rows that agree in the target's key the one that stands for them, as `on_conflict = last` and `log` choose it.
fn chosen(table: &TargetTable, flow: &FlowPlan, rows: Vec<Row>) -> Result<Vec<Row>> {
    let ranking =
        Ranking::bind(&flow.on_conflict, &table.schema, &format!("flow \"{}\"", flow.name)).map_err(first)?;
    let mut chosen: BTreeMap<Row, (Vec<u8>, Row)> = BTreeMap::new();
    for row in rows {
        let ranked = (ranking.order_of(&row)?, row);
        let key = table.key_of(&ranked.1);
        match chosen.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(ranked)),
            Entry::Occupied(mut entry) if *entry.get() < ranked => drop(entry.insert(ranked)),
            Entry::Occupied(_) => {}
        }
    }
    Ok(chosen.into_values().map(|(_, row)| row).collect())
}

fn first(diagnostics: Vec<Diagnostic>) -> Error {
    match diagnostics.into_iter().next() {
        Some(first) => Error::from(first),
        None => Error::definite(codes::INTERNAL, "a flow was refused without a reason"),
    }
}

/// What views are made of, at the source.
pub(super) struct Source<'s> {
    pub(super) schemas: &'s [Arc<TableSchema>],
    pub(super) narrow: Arc<Narrow>,
    pub(super) dates: &'s DateView,
}

impl Source<'_> {
    fn shown(&self, schema: &Arc<TableSchema>) -> Arc<TableView> {
        self.dates.table(&self.narrow.schema(schema))
    }
}

/// The views that flows read, as a run binds them: to the tables as they were at its first start, where there was one.
///
/// # Errors
/// What is wrong with them; those of reading the state.
pub(super) fn graph(plan: &Plan, options: &Options, source: &Source<'_>) -> Result<Graph> {
    let wanted: BTreeSet<String> = plan.flows.iter().filter_map(|f| f.view.clone()).collect();
    if wanted.is_empty() {
        return Ok(Graph::default());
    }
    let checkpoint = match &options.state {
        Some(state) => StateDir::peek(state)?,
        None => None,
    };
    match checkpoint.filter(|c| !c.view_tables.is_empty()) {
        Some(checkpoint) => bind_again(&plan.views, &wanted, &checkpoint.view_tables),
        None => {
            let shown: Vec<_> = source.schemas.iter().map(|s| source.shown(s).schema().clone()).collect();
            bind_or_first(&plan.views, &wanted, &shown)
        }
    }
}

/// Compares the target table of a flow that reads a view.
///
/// # Errors
/// If either side cannot be read.
pub(super) async fn table(
    conn: &mut Conn,
    reader: &mut dyn TargetReader,
    flow: &FlowPlan,
    graph: &Graph,
    source: &Source<'_>,
    options: &Options,
    each: &mut dyn FnMut(u64),
) -> Result<TableReport> {
    let end = Instant::now() + options.wait;
    loop {
        let report = look(conn, reader, flow, graph, source, options, each).await?;
        if report.differing == 0 || Instant::now() >= end {
            return Ok(report);
        }
        tokio::time::sleep(Duration::from_millis(300).min(end.saturating_duration_since(Instant::now())))
            .await;
    }
}

async fn look(
    conn: &mut Conn,
    reader: &mut dyn TargetReader,
    flow: &FlowPlan,
    graph: &Graph,
    source: &Source<'_>,
    options: &Options,
    each: &mut dyn FnMut(u64),
) -> Result<TableReport> {
    let view = flow.view.as_ref().and_then(|name| graph.view(name)).ok_or_else(|| {
        Error::definite(codes::INTERNAL, format!("flow \"{}\" reads a view that is not there", flow.name))
    })?;
    let tables = read(conn, graph, source, each).await?;
    let rows = evaluate(graph, &tables)?.remove(&view.name).unwrap_or_default();
    let bound = BoundFlow::bind(flow, &view.schema).map_err(first)?;
    let origin = Origin { snapshot: true, ..Origin::default() };
    let meta = RowMeta { op: Op::Read, table: &view.schema.id, origin: &origin };
    let mut outputs = Vec::with_capacity(rows.len());
    for row in &rows {
        outputs.extend(bound.apply(row, &meta)?);
    }
    let table = bound.target();
    if flow.may_be_watched() && flow.on_conflict != OnConflict::Error && !table.is_multiset() {
        outputs = chosen(table, flow, outputs)?;
    }
    let mut report = TableReport {
        sink: flow.sink.clone(),
        target: table.name.clone(),
        sources: graph.tables().map(|input| input.table.clone()).collect(),
        source_rows: outputs.len() as u64,
        target_rows: 0,
        differing: 0,
        missing: 0,
        extra: 0,
        differences: Vec::new(),
        left: Vec::new(),
    };
    let mut found = Vec::new();
    if table.is_multiset() {
        let mut counts: BTreeMap<u64, (i64, String)> = BTreeMap::new();
        for output in &outputs {
            let entry = counts.entry(hash(&reader.encode_key(table, output)));
            entry.or_insert_with(|| (0, show_row(table, output))).0 += 1;
        }
        reader.scan_keys(table, &mut |encoded, text| {
            report.target_rows += 1;
            counts.entry(hash(&encoded)).or_insert((0, text)).0 -= 1;
            true
        })?;
        for (count, key) in counts.into_values().filter(|(count, _)| *count != 0) {
            let (kind, n) = if count > 0 {
                (Kind::Missing, &mut report.missing)
            } else {
                (Kind::Extra, &mut report.extra)
            };
            *n += count.unsigned_abs();
            found.push(Difference { key, kind });
        }
        report.differing = report.missing + report.extra;
    } else {
        let mut expected: HashSet<u64, foldhash::fast::FixedState> = HashSet::default();
        for page in outputs.chunks(PAGE as usize) {
            expected.extend(page.iter().map(|output| hash(&reader.encode_key(table, output))));
            for (output, answer) in page.iter().zip(reader.compare(table, page)?) {
                if let Some(kind) = kind_of(answer) {
                    report.missing += u64::from(kind == Kind::Missing);
                    report.differing += 1;
                    found.push(Difference { key: show_key(table, output), kind });
                }
            }
        }
        report.target_rows = reader.count(table)?;
        for (_, key) in extra_keys(reader, table, &expected)? {
            report.extra += 1;
            report.differing += 1;
            found.push(Difference { key, kind: Kind::Extra });
        }
    }
    found.truncate(options.limit);
    report.differences = found;
    each(report.source_rows);
    Ok(report)
}

/// The error of a column that the source's table does not have any more.
fn gone(input: &TableInput, column: &str) -> Error {
    let (table, (readers, read)) = (&input.table, input.read_by(Some(column)));
    Error::definite(
        codes::VIEW_COLUMN_CHANGED,
        format!("column \"{column}\" of table \"{table}\" is gone, and {readers} {read} it"),
    )
    .note("what the target holds cannot be worked out from the source any more; a run stops at the statement that changed the column")
    .help(format!(
        "change {readers} to what the table is now, and begin anew: remove the state folder and the targets' tables and progress"
    ))
}

/// What the views' tables hold, all at one moment: the columns that travel.
async fn read(
    conn: &mut Conn,
    graph: &Graph,
    source: &Source<'_>,
    each: &mut dyn FnMut(u64),
) -> Result<BTreeMap<TableId, Vec<Row>>> {
    let doing = "reading the source";
    for sql in
        ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"]
    {
        conn.query_drop(sql).await.map_err(|e| query_error(e, doing))?;
    }
    let mut out = BTreeMap::new();
    let mut total = 0;
    for input in graph.tables() {
        let id = &input.table;
        let Some(schema) = source.schemas.iter().find(|s| s.id == *id) else {
            // it is gone, and its rows with it
            out.insert(id.clone(), Vec::new());
            continue;
        };
        let view = source.shown(schema);
        let place = |name: &str| view.schema().columns.iter().position(|c| same_name(&c.name, name));
        let mut places = Vec::with_capacity(input.columns.len());
        for column in &input.columns {
            let Some(place) = place(&column.name) else { return Err(gone(input, &column.name)) };
            places.push(place);
        }
        let decoder = ResultDecoder::new(schema)?;
        let list = decoder.select_list();
        let sql = format!("SELECT {list} FROM {}.{}", quote_name(&id.database), quote_name(&id.table));
        let mut result = conn.exec_iter(sql, ()).await.map_err(|e| query_error(e, doing))?;
        let (mut builder, mut rows) = (RowBuilder::new(), Vec::new());
        let origin = Origin { snapshot: true, ..Origin::default() };
        while let Some(row) = result.next().await.map_err(|e| query_error(e, doing))? {
            let row = decoder.decode(&mut builder, &row.unwrap())?;
            let row = source.narrow.row(schema, row, &mut builder);
            let row = view.row(row, &origin, &mut builder)?;
            let values: Vec<_> = row.iter().collect();
            rows.push(Row::pack(places.iter().map(|i| values[*i].clone())));
            total += 1;
            if total % PAGE == 0 {
                each(total);
            }
        }
        out.insert(id.clone(), rows);
    }
    conn.query_drop("COMMIT").await.map_err(|e| query_error(e, doing))?;
    Ok(out)
}
