//! What a target says to a pipeline: can it be reached, what may the account do there, and do the tables that are there take the
//! rows. Only looks; changes nothing at the target.

use super::live::{self, Live};
use crate::output::{count, printable, some_of};
use crate::surroundings::PipelineFile;
use cdc_core::connector::{JobIdentity, Sink, TargetTable};
use cdc_core::plan::{Plan, SinkPlan};
use cdc_core::preflight::Check;
use cdc_core::{Error, Result};
use cdc_runtime::schemas::Writes;
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
    /// Those of which the state does not know what is written now.
    to_come: Vec<String>,
    /// What keeps the pipeline from running.
    pub errors: Vec<Error>,
}

/// Looks at the target of a sink; `sources` were looked at before. `writes`: what is written there, where that could be told.
pub fn look(
    plan_of: &SinkPlan,
    plan: &Plan,
    file: &PipelineFile,
    sources: &[Live],
    writes: Option<&Writes>,
) -> Target {
    let mut target = Target {
        sink: plan_of.name.clone(),
        place: String::new(),
        tick: None,
        checks: Vec::new(),
        tables: Vec::new(),
        to_come: Vec::new(),
        errors: Vec::new(),
    };
    let asked = cdc_sinks::registry::open(plan_of, &file.base)
        .and_then(|mut sink| target.ask(&mut *sink, plan_of, plan, sources, writes));
    if let Err(error) = asked {
        target.errors.push(error);
    }
    target
}

impl Target {
    fn ask(
        &mut self,
        sink: &mut dyn Sink,
        plan_of: &SinkPlan,
        plan: &Plan,
        sources: &[Live],
        writes: Option<&Writes>,
    ) -> Result<()> {
        self.place = sink.place();
        let identity = JobIdentity {
            pipeline: plan.name.clone(),
            sink: plan_of.name.clone(),
            job_id: String::new(),
            run: "cdc check".to_owned(),
        };
        self.tick = sink.inspect(&identity)?.map(|resume| resume.tick);
        let (mut known, mut to_come) = (Vec::new(), Vec::new());
        if let Some(writes) = writes {
            // as a run, which compares what is there only where it goes on from: elsewhere it has the shape of another moment
            let without_progress = !sink.holds_progress() || writes.tick == Some(0);
            let here = self.tick == writes.tick || (self.tick.is_none() && without_progress);
            if here { &mut known } else { &mut to_come }.extend_from_slice(&writes.tables);
            to_come.extend_from_slice(&writes.to_come);
        }
        self.to_come = names(&to_come);
        let tables = each_once(known.iter().chain(&to_come));
        self.tables = names(&tables);
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
        for table in &known {
            let Err(error) = sink.check(table) else { continue };
            // of several tables in one each may stumble over the same
            if !self.errors.iter().any(|e| e.diagnostic() == error.diagnostic()) {
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
            _ = writeln!(out, "  {}: {}", count(self.tables.len() as u64, "table"), listed(&self.tables));
        }
        if !self.to_come.is_empty() {
            _ = writeln!(out, "  not compared, the state is of another moment: {}", listed(&self.to_come));
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
            "not_compared": self.to_come,
        })
    }
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|t| printable(t).into_owned()).collect();
    some_of(&names, 50)
}

/// Several source tables may be written to one.
fn each_once<'t>(tables: impl Iterator<Item = &'t Arc<TargetTable>>) -> Vec<Arc<TargetTable>> {
    let mut out: Vec<Arc<TargetTable>> = Vec::new();
    for table in tables {
        if !out.iter().any(|t| t.name == table.name) {
            out.push(table.clone());
        }
    }
    out
}

fn names(tables: &[Arc<TargetTable>]) -> Vec<String> {
    each_once(tables.iter()).iter().map(|t| t.name.clone()).collect()
}
