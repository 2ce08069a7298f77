//! What each target table is, and which columns of its source tables it comes from: for `cdc explain --schema`; and what of each
//! is written, for `cdc check --live`.
//!
//! Where a run has been, its newest checkpoint knows: modes have led source and target apart by what happened, so that cannot be
//! found out in any other way, and no server is asked. Before the first run it is what that run would make of the tables that are
//! given: the same steps as [`crate::job`] takes, so it is what will be there. Nothing is locked or written; a run
//! may have the folder meanwhile.

use cdc_core::connector::TargetTable;
use cdc_core::plan::{Plan, SchemaChangeMode};
use cdc_core::schema::{Column, TableId, TableSchema, same_name};
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, ZeroDates, codes};
use cdc_mysql::capture::{CaptureState, discover};
use cdc_mysql::config::Config;
use cdc_mysql::conn::connect;
use cdc_schema::merge::same_type;
use cdc_schema::registry::Registry;
use std::path::Path;
use std::sync::Arc;

use crate::state::{Checkpoint, StateDir};

pub use cdc_schema::evolved::{Evolved, Fed, Feed};

/// The tables of a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkSchemas {
    /// The sink.
    pub sink: String,
    /// As of this tick of the state folder's newest checkpoint; `None`: as the first run will make them.
    pub tick: Option<Tick>,
    /// By name.
    pub tables: Vec<Evolved>,
}

/// The tables of a plan's sinks, in the order of the file. `schemas` is asked for the source's tables if a sink has not been
/// written to yet.
///
/// # Errors
/// `STATE_FOREIGN` if the state folder is another pipeline's, those of reading it, of `schemas`, and of flows that do not fit.
pub fn look(
    plan: &Plan,
    state: &Path,
    schemas: impl FnOnce() -> Result<Vec<Arc<TableSchema>>>,
) -> Result<Vec<SinkSchemas>> {
    let checkpoint = StateDir::peek(state)?;
    if let Some(checkpoint) = &checkpoint {
        crate::job::check_pipeline(checkpoint, plan)?;
    }
    let known = |sink: &str| {
        let of = |c: &Checkpoint| Some((c.tick, c.evolved.get(sink)?.clone()));
        checkpoint.as_ref().and_then(of)
    };
    let sinks = sinks(plan);
    let bound = if sinks.iter().all(|name| known(name).is_some()) {
        Vec::new()
    } else {
        crate::job::bind_all(plan, &crate::job::with_views(plan, &schemas()?, &[])?)?
    };
    sinks
        .into_iter()
        .map(|sink| {
            let (tick, tables) = match known(sink) {
                Some((tick, tables)) => (Some(tick), tables),
                None => {
                    let registry = announced(bound.iter().filter(|(name, _, _)| name == sink))?;
                    (None, registry.tables().map(|t| (**t).clone()).collect())
                }
            };
            Ok(SinkSchemas { sink: sink.to_owned(), tick, tables })
        })
        .collect()
}

/// The tick that a run would go on from with this source, if one has been here; and the tables that it follows there.
///
/// # Errors
/// `STATE_FOREIGN` if the state folder is another pipeline's; those of reading it.
pub fn goes_on(plan: &Plan, source: &str, state: &Path) -> Result<Option<(Tick, Vec<TableId>)>> {
    let Some(checkpoint) = StateDir::peek(state)? else { return Ok(None) };
    crate::job::check_pipeline(&checkpoint, plan)?;
    let of = |state: &CaptureState| state.structures.tables().map(|t| t.id.clone()).collect();
    Ok(checkpoint.sources.get(source).map(|state| (checkpoint.tick, of(state))))
}

/// What a run that starts now writes at a sink.
#[derive(Debug, Clone)]
pub struct Writes {
    /// The sink.
    pub sink: String,
    /// As of [`SinkSchemas::tick`].
    pub tick: Option<Tick>,
    /// What is written of each source table, as the target has it: only this can be compared with what is there.
    pub tables: Vec<Arc<TargetTable>>,
    /// What the other flows give out: source tables that are new or another than at the tick. What becomes of them at the target,
    /// their schema changes say, which the run is still to meet.
    pub to_come: Vec<Arc<TargetTable>>,
}

/// What a run would write that starts now, of the tables that the source has now.
///
/// # Errors
/// As [`look`]; those of flows that may not share a target; `KEY_CHANGED`.
pub fn writes(plan: &Plan, state: &Path, schemas: &[Arc<TableSchema>]) -> Result<Vec<Writes>> {
    let source = crate::job::only_source(plan)?;
    let dates = source.options.text("zero_dates").and_then(ZeroDates::parse).unwrap_or_default();
    let checkpoint = StateDir::peek(state)?;
    if let Some(checkpoint) = &checkpoint {
        crate::job::check_pipeline(checkpoint, plan)?;
    }
    let then = checkpoint.as_ref().map_or(&[][..], |c| &c.view_tables);
    let schemas = &crate::job::with_views(plan, schemas, then)?;
    let bound = crate::job::bind_all(plan, schemas)?;
    let followed = checkpoint.as_ref().and_then(|c| c.sources.get(&source.name));
    let is_as_then = |registry: &Registry, table: &TargetTable| {
        let id = &table.schema.id;
        // a view is what it was when it was bound
        if id.database.is_empty() {
            return registry.find(&table.name, id).is_some();
        }
        let (Some(evolved), Some(followed)) = (registry.find(&table.name, id), followed) else {
            return false;
        };
        let (Some(feed), Some(then)) = (evolved.feed(&table.name, id), followed.structures.get(id)) else {
            return false;
        };
        let now = schemas.iter().find(|s| s.id == *id);
        let then = dates.schema(then);
        // a feed does not know of NULL
        let nullable =
            |c: &Column| then.columns.iter().any(|t| same_name(&t.name, &c.name) && t.nullable == c.nullable);
        let fed = |c: &Column| {
            feed.columns.iter().any(|f| same_name(&f.output, &c.name) && same_type(&f.ty, &c.ty))
        };
        now.is_some_and(|now| now.columns.iter().all(nullable))
            && feed.columns.len() == table.schema.columns.len()
            && table.schema.columns.iter().all(fed)
    };
    let of_sink = |sink: &str| {
        let ours = || bound.iter().filter(|(name, _, _)| name == sink);
        let known = checkpoint.as_ref().and_then(|c| Some((c.tick, c.evolved.get(sink)?)));
        let registry = match known {
            Some((_, evolved)) => Registry::new(evolved.clone()),
            None => announced(ours())?,
        };
        let mut out = Writes {
            sink: sink.to_owned(),
            tick: known.map(|(tick, _)| tick),
            tables: Vec::new(),
            to_come: Vec::new(),
        };
        for (_, _, table) in ours() {
            if known.is_none() || is_as_then(&registry, table) {
                out.tables.push(crate::job::written(&registry, table)?);
            } else {
                out.to_come.push(table.clone());
            }
        }
        Ok(out)
    };
    sinks(plan).into_iter().map(of_sink).collect()
}

/// The sinks that are written to, in the order of the file.
fn sinks(plan: &Plan) -> Vec<&str> {
    let is_written = |name: &&str| plan.flows.iter().any(|f| f.sink == *name);
    plan.sinks.iter().map(|s| s.name.as_str()).filter(is_written).collect()
}

type Bound = (String, SchemaChangeMode, Arc<TargetTable>);

/// What a first run makes.
fn announced<'b>(bound: impl Iterator<Item = &'b Bound>) -> Result<Registry> {
    let mut registry = Registry::default();
    for (_, mode, table) in bound {
        registry.announce(table, *mode)?;
    }
    Ok(registry)
}

/// The tables that a plan's source has now, as its flows see them.
///
/// # Errors
/// `OPTION_VALUE` for a source without a server; those of the connection.
pub fn ask(plan: &Plan, base: &Path) -> Result<Vec<Arc<TableSchema>>> {
    let source = crate::job::only_source(plan)?;
    let config = Config::from_options(&source.options)?.relative_to(base);
    if config.files.is_some() {
        return Err(Error::definite(
            codes::OPTION_VALUE,
            format!(
                "source \"{}\" reads files, and which tables they hold is known when they have been read",
                source.name
            ),
        )
        .help("name a text with the tables' statements: schema = \"shop.sql\"; or run it first"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no thread for input and output: {e}")))?;
    runtime.block_on(async {
        let mut conn = connect(&config).await?;
        let (_, discovery) = discover(&mut conn, &config).await?;
        let _ = conn.disconnect().await;
        Ok(discovery.tables)
    })
}
