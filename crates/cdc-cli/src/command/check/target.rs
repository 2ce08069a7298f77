//! What a target says to a pipeline: can it be reached, what may the account do there, and do the tables that are there take the
//! rows. Only looks; changes nothing at the target.

use super::live::{self, Live};
use crate::output::{count, printable, some_of};
use crate::surroundings::PipelineFile;
use cdc_core::connector::{JobIdentity, Sink, TargetTable};
use cdc_core::plan::program::BoundFlow;
use cdc_core::plan::{Plan, SinkPlan};
use cdc_core::preflight::Check;
use cdc_core::{Error, Result};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// What was seen at one target.
pub struct Target {
    sink: String,
    place: String,
    /// The last tick that it has of this pipeline.
    tick: Option<u64>,
    checks: Vec<Check>,
    /// What flows write there, as far as the source could be asked.
    tables: Vec<String>,
    /// What keeps the pipeline from running.
    pub errors: Vec<Error>,
}

/// Looks at the target of a sink; `sources` were looked at before.
pub fn look(plan_of: &SinkPlan, plan: &Plan, file: &PipelineFile, sources: &[Live]) -> Target {
    let mut target = Target {
        sink: plan_of.name.clone(),
        place: String::new(),
        tick: None,
        checks: Vec::new(),
        tables: Vec::new(),
        errors: Vec::new(),
    };
    let asked = cdc_sinks::registry::open(plan_of, &file.base)
        .and_then(|mut sink| target.ask(&mut *sink, plan_of, plan, sources));
    if let Err(error) = asked {
        target.errors.push(error);
    }
    target
}

impl Target {
    fn ask(&mut self, sink: &mut dyn Sink, plan_of: &SinkPlan, plan: &Plan, sources: &[Live]) -> Result<()> {
        self.place = sink.place();
        let identity = JobIdentity {
            pipeline: plan.name.clone(),
            sink: plan_of.name.clone(),
            job_id: String::new(),
            run: "cdc check".to_owned(),
        };
        self.tick = sink.inspect(&identity)?.map(|resume| resume.tick);
        let tables = tables_of(plan_of, plan, sources);
        self.tables = tables.iter().map(|t| t.name.clone()).collect();
        self.checks = sink.preflight(&tables)?;
        for lack in self.checks.iter().filter_map(Check::diagnostic) {
            // what is advised is shown in its line
            if lack.severity == cdc_core::Severity::Error {
                self.errors.push(Error::from(lack.note(format!("sink \"{}\"", plan_of.name))));
            }
        }
        for upstream in sources.iter().filter_map(|s| s.upstream.as_ref()) {
            if let Err(error) = sink.fed_by(upstream) {
                self.errors.push(error);
            }
        }
        for table in &tables {
            if let Err(error) = sink.check(table) {
                self.errors.push(error);
            }
        }
        Ok(())
    }

    /// The report for people.
    pub fn to_text(&self) -> String {
        let mut out = format!("sink {}", self.sink);
        if !self.place.is_empty() {
            _ = write!(out, " at {}", printable(&self.place));
        }
        if let Some(tick) = self.tick {
            _ = write!(out, ", at tick {tick}");
        }
        out.push('\n');
        out.push_str(&live::lines(&self.checks));
        if !self.tables.is_empty() {
            let names: Vec<String> = self.tables.iter().map(|t| printable(t).into_owned()).collect();
            _ = writeln!(out, "  {}: {}", count(names.len() as u64, "table"), some_of(&names, 50));
        }
        out
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "sink": self.sink,
            "place": self.place,
            "tick": self.tick,
            "checks": self.checks.iter().map(live::to_json).collect::<Vec<_>>(),
            "tables": self.tables,
        })
    }
}

/// The tables that flows write to a sink now, each once.
fn tables_of(sink: &SinkPlan, plan: &Plan, sources: &[Live]) -> Vec<Arc<TargetTable>> {
    let mut tables: Vec<Arc<TargetTable>> = Vec::new();
    for flow in plan.flows.iter().filter(|f| f.sink == sink.name) {
        let of_source = sources.iter().filter(|s| s.source == flow.source).filter_map(|s| s.tables.as_ref());
        for schema in of_source.flatten().filter(|s| flow.tables.matches(&s.id)) {
            // what does not bind has been told with the flow
            let Ok(bound) = BoundFlow::bind(flow, schema) else { continue };
            if !tables.iter().any(|t| t.name == bound.target().name) {
                tables.push(bound.target().clone());
            }
        }
    }
    tables
}
