//! What each target table is, and which columns of its source tables it comes from: for `cdc explain --schema`.
//!
//! Where a run has been, its newest checkpoint knows: modes have led source and target apart by what happened, so that cannot be
//! found out in any other way, and no server is asked. Before the first run it is what that run would make of the tables that are
//! given: the same steps as [`crate::job`] takes, so it is what will be there. Nothing is locked or written; a run
//! may have the folder meanwhile.

use cdc_core::connector::TargetTable;
use cdc_core::plan::{Plan, SchemaChangeMode};
use cdc_core::schema::TableSchema;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, codes};
use cdc_mysql::capture::discover;
use cdc_mysql::config::Config;
use cdc_mysql::conn::connect;
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
    let sinks: Vec<&str> = plan
        .sinks
        .iter()
        .map(|s| s.name.as_str())
        .filter(|name| plan.flows.iter().any(|f| f.sink == *name))
        .collect();
    let bound = if sinks.iter().all(|name| known(name).is_some()) {
        Vec::new()
    } else {
        crate::job::bind_all(plan, &schemas()?)?
    };
    sinks
        .into_iter()
        .map(|sink| {
            let (tick, tables) = match known(sink) {
                Some((tick, tables)) => (Some(tick), tables),
                None => (None, first(bound.iter().filter(|(name, _, _)| name == sink))?),
            };
            Ok(SinkSchemas { sink: sink.to_owned(), tick, tables })
        })
        .collect()
}

type Bound = (String, SchemaChangeMode, Arc<TargetTable>);

/// What a first run makes.
fn first<'b>(bound: impl Iterator<Item = &'b Bound>) -> Result<Vec<Evolved>> {
    let mut registry = Registry::default();
    for (_, mode, table) in bound {
        registry.announce(table, *mode)?;
    }
    Ok(registry.tables().map(|t| (**t).clone()).collect())
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
