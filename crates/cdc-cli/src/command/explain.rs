//! `cdc explain`: what a pipeline does, as text, as a graph, as JSON.

mod schema;

use super::load;
use crate::args::{ExplainArgs, PlanFormat};
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::print;
use crate::surroundings::PipelineFile;
use cdc_core::catalog::Surroundings;
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::{Plan, explain};
use cdc_core::schema::TableSchema;
use cdc_core::zero_dates::ZeroDates;
use cdc_core::{Error, codes};
use cdc_runtime::schemas;
use std::sync::Arc;

/// Shows the plan of a file, or its tables.
pub fn explain(args: &ExplainArgs, told: &Told) -> Exit {
    let is_json = args.format == PlanFormat::Json;
    let log = Log::new(if is_json { Form::Document } else { Form::Lines }, told);
    let (file, plan) = match load(&args.file, &args.settings.parameters(), true, &log) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    if args.schema {
        return explain_schema(args, &file, &plan, &log);
    }
    let mut text = match args.format {
        PlanFormat::Text => explain::to_text(&plan),
        PlanFormat::Mermaid => explain::to_mermaid(&plan),
        PlanFormat::Dot => explain::to_dot(&plan),
        PlanFormat::Json => explain::to_json(&plan),
    };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match print(&text) {
        Ok(()) => Exit::Done,
        Err(error) => log.failed(&error, None),
    }
}

fn explain_schema(args: &ExplainArgs, file: &PipelineFile, plan: &Plan, log: &Log) -> Exit {
    if !matches!(args.format, PlanFormat::Text | PlanFormat::Json) {
        let error =
            Error::definite(codes::OPTION_VALUE, "tables are shown as text or as JSON, not as a graph")
                .help("leave out --format, or --format json");
        return log.failed(&error, None);
    }
    let state = super::state_folder(args.state.as_deref(), plan, &file.base);
    // what the environment lacks matters only where a server is to be asked
    let mut lacking = None;
    let found = schemas::look(plan, &state, || {
        if let Some(written) = written(plan, file) {
            return Ok(written);
        }
        let compiled = file.compile(&args.settings.parameters(), false);
        match &compiled.plan {
            Some(plan) => schemas::ask(plan, &file.base),
            None => {
                let error = Error::definite(codes::MISSING_PARAMETER, "the file cannot be run");
                lacking = Some(compiled.diagnostics);
                Err(error)
            }
        }
    });
    if let Some(diagnostics) = lacking {
        log.refused(&diagnostics, Some(file));
        return Exit::Refused;
    }
    let shown = found.and_then(|sinks| schema::show(&plan.name, &sinks, args.format == PlanFormat::Json));
    match shown {
        Ok(()) => Exit::Done,
        Err(error) => log.failed(&error, Some(file)),
    }
}

/// The tables of the sources' schema texts, as flows see them; `None` if a source has none.
fn written(plan: &Plan, file: &PipelineFile) -> Option<Vec<Arc<TableSchema>>> {
    let mut out = Vec::new();
    for source in plan.sources.iter().filter(|s| plan.flows.iter().any(|f| f.source == s.name)) {
        let path = source.options.text("schema")?;
        let tables = source.options.list("tables").and_then(|t| TableSet::parse(t).ok())?;
        let dates = source.options.text("zero_dates").and_then(ZeroDates::parse).unwrap_or_default();
        // what is wrong with the text has been told with the pipeline's mistakes
        let written = file.schema_file(path, tables.only_database()).ok()?;
        out.extend(
            written.into_iter().filter(|t| tables.contains(&t.id)).map(|t| dates.schema(&Arc::new(t))),
        );
    }
    Some(out)
}
