//! `cdc check`: what is wrong with pipeline files, and with `--live` what their servers and targets lack.

mod live;
mod target;

use crate::args::{CheckArgs, ReportFormat};
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::{count, print, print_json, to_json};
use crate::surroundings::PipelineFile;
use cdc_core::diagnostic::{Diagnostic, Severity};
use cdc_core::plan::program::check_flow;
use cdc_core::plan::{FlowPlan, Plan};
use cdc_core::{Result, codes};
use cdc_mysql::config::Config;
use cdc_runtime::schemas::{self, Writes};
use live::Live;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use target::Target;

/// What was found out about one file.
struct Checked {
    name: String,
    /// `None` where it could not be read.
    file: Option<PipelineFile>,
    plan: Option<Plan>,
    diagnostics: Vec<Diagnostic>,
    live: Vec<Live>,
    targets: Vec<Target>,
    exit: Exit,
}

/// Checks every file; the exit code is that of the worst.
pub fn check(args: &CheckArgs, told: &Told) -> Exit {
    let log = Log::new(Form::Lines, told);
    let parameters = args.settings.parameters();
    let mut worst = Exit::Done;
    let mut documents = Vec::new();
    for path in &args.files {
        let checked = check_one(path, &parameters, args);
        worst = worst.max(checked.exit);
        match args.format {
            ReportFormat::Json => documents.push(checked.to_json()),
            ReportFormat::Text => {
                if let Err(error) = checked.show(&log) {
                    return log.failed(&error, None);
                }
            }
        }
    }
    if args.format == ReportFormat::Json
        && let Err(error) = print_json(&json!({ "ok": worst == Exit::Done, "files": documents }))
    {
        return log.failed(&error, None);
    }
    worst
}

fn check_one(path: &Path, parameters: &BTreeMap<String, String>, args: &CheckArgs) -> Checked {
    let live = args.live;
    let file = match PipelineFile::read(path) {
        Ok(file) => file,
        Err(error) => {
            return Checked {
                name: path.display().to_string(),
                file: None,
                plan: None,
                diagnostics: vec![error.diagnostic().clone()],
                live: Vec::new(),
                targets: Vec::new(),
                exit: Exit::of(&error),
            };
        }
    };
    let compiled = file.compile(parameters, !live);
    let mut checked = Checked {
        name: file.name.clone(),
        file: None,
        plan: None,
        exit: Exit::Done,
        live: Vec::new(),
        targets: Vec::new(),
        diagnostics: compiled.diagnostics,
    };
    match &compiled.plan {
        None => checked.exit = Exit::Refused,
        Some(plan) => {
            checked.sources(plan);
            if live && checked.exit == Exit::Done {
                checked.look(plan, &file, args.state.as_deref());
            }
        }
    }
    checked.plan = compiled.plan;
    checked.file = Some(file);
    checked
}

impl Checked {
    /// What only the source's own crate knows of its options.
    fn sources(&mut self, plan: &Plan) {
        if self.diagnostics.iter().any(|d| d.code == codes::MISSING_PARAMETER) {
            // a placeholder stands where an option's text will be
            return;
        }
        for source in &plan.sources {
            if let Err(error) = Config::from_options(&source.options) {
                let mut diagnostic = error.diagnostic().clone();
                if diagnostic.labels.is_empty() {
                    diagnostic = diagnostic.at(source.span.clone(), "in this source");
                }
                self.diagnostics.push(diagnostic);
                self.exit = Exit::Refused;
            }
        }
    }

    fn look(&mut self, plan: &Plan, file: &PipelineFile, state: Option<&Path>) {
        let state = &super::state_folder(state, plan, &file.base);
        for source in &plan.sources {
            let live = live::look(source, plan, file, state);
            for error in &live.errors {
                self.exit = self.exit.max(Exit::of(error));
                self.diagnostics.push(error.diagnostic().clone());
            }
            self.diagnostics.extend(live.warnings.iter().cloned());
            self.live.push(live);
        }
        let writes = match self.writes(plan, state) {
            Ok(writes) => writes,
            Err(error) => {
                self.exit = self.exit.max(Exit::of(&error));
                self.diagnostics.push(error.diagnostic().clone());
                Vec::new()
            }
        };
        for sink in plan.sinks.iter().filter(|s| plan.flows.iter().any(|f| f.sink == s.name)) {
            let writes = writes.iter().find(|w| w.sink == sink.name);
            let target = target::look(sink, plan, file, &self.live, writes);
            for error in &target.errors {
                self.exit = self.exit.max(Exit::of(error));
                self.diagnostics.push(error.diagnostic().clone());
            }
            self.targets.push(target);
        }
    }

    /// What a run that starts now would write, by sink; nothing where a source could not be asked.
    fn writes(&self, plan: &Plan, state: &Path) -> Result<Vec<Writes>> {
        let mut tables = Vec::new();
        for live in self.live.iter().filter(|l| plan.flows.iter().any(|f| f.source == l.source)) {
            let Some(of_source) = &live.tables else { return Ok(Vec::new()) };
            tables.extend(of_source.iter().cloned());
        }
        // what does not bind has been told with the flow
        let binds = |flow: &FlowPlan| check_flow(flow, &tables).iter().all(|d| d.severity != Severity::Error);
        let mut binding = plan.clone();
        binding.flows.retain(binds);
        if binding.flows.is_empty() { Ok(Vec::new()) } else { schemas::writes(&binding, state, &tables) }
    }

    fn number(&self, severity: Severity) -> u64 {
        self.diagnostics.iter().filter(|d| d.severity == severity).count() as u64
    }

    fn show(&self, log: &Log) -> Result<()> {
        for live in &self.live {
            print(&live.to_text())?;
        }
        for target in &self.targets {
            print(&target.to_text())?;
        }
        let (placed, unplaced): (Vec<Diagnostic>, Vec<Diagnostic>) =
            self.diagnostics.iter().cloned().partition(|d| self.live.is_empty() || !d.labels.is_empty());
        log.diagnostics(&placed, self.file.as_ref());
        if !placed.is_empty() && !unplaced.is_empty() {
            log.gap();
        }
        log.diagnostics(&unplaced, None);
        let (errors, warnings) = (self.number(Severity::Error), self.number(Severity::Warning));
        let mut verdict = format!("{}: ", self.name);
        match &self.plan {
            Some(plan) if errors == 0 => verdict.push_str(&format!("ok, {}", contents(plan))),
            _ => verdict.push_str(&count(errors, "error")),
        }
        if warnings > 0 {
            verdict.push_str(&format!(", {}", count(warnings, "warning")));
        }
        verdict.push('\n');
        if errors == 0 {
            return print(&verdict);
        }
        log.gap();
        log.event("verdict", verdict.trim_end(), json!({}));
        Ok(())
    }

    fn to_json(&self) -> Value {
        json!({
            "file": self.name,
            "ok": self.exit == Exit::Done,
            "errors": self.number(Severity::Error),
            "warnings": self.number(Severity::Warning),
            "diagnostics": to_json(&self.diagnostics, self.file.as_ref()),
            "live": self.live.iter().map(Live::to_json).collect::<Vec<_>>(),
            "targets": self.targets.iter().map(Target::to_json).collect::<Vec<_>>(),
        })
    }
}

fn contents(plan: &Plan) -> String {
    let counts = [(plan.sources.len(), "source"), (plan.sinks.len(), "sink"), (plan.flows.len(), "flow")];
    let counts = counts.map(|(number, noun)| count(number as u64, noun)).join(", ");
    format!("pipeline \"{}\" with {counts}", plan.name)
}
