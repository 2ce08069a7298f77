//! `cdc test`: the tests of pipeline files, with no server.

use crate::args::{ReportFormat, TestArgs};
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::{count, print, print_json, printable, render, stdout_style, to_json};
use crate::surroundings::PipelineFile;
use cdc_core::catalog::Surroundings;
use cdc_core::diagnostic::{Diagnostic, Severity};
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::test::TestPlan;
use cdc_core::plan::{Plan, SourcePlan};
use cdc_core::schema::TableSchema;
use cdc_core::{Result, codes};
use cdc_runtime::rehearsal::{Differences, Failed, rehearse};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// A test that was run.
struct Ran {
    name: String,
    /// Of the line that it begins in, or where it failed.
    line: usize,
    failed: Option<Box<Failed>>,
}

/// What became of one file.
struct Tested {
    name: String,
    /// `None` where it could not be read.
    file: Option<PipelineFile>,
    /// Why its tests were not run, and what is to be told besides.
    diagnostics: Vec<Diagnostic>,
    ran: Vec<Ran>,
    exit: Exit,
}

/// Runs the tests of every file; the exit code is that of the worst.
pub fn test(args: &TestArgs, told: &Told) -> Exit {
    let log = Log::new(Form::Lines, told);
    let is_json = args.format == ReportFormat::Json;
    let parameters = args.settings.parameters();
    let (mut all, mut worst) = (Vec::new(), Exit::Done);
    for path in &args.files {
        let tested = test_one(path, &parameters, args.filter.as_deref(), &mut |file, ran| {
            if is_json { Ok(()) } else { print(&to_text(file, ran)) }
        });
        let tested = match tested {
            Ok(tested) => tested,
            Err(error) => return log.failed(&error, None),
        };
        worst = worst.max(tested.exit);
        if !is_json {
            log.diagnostics(&tested.diagnostics, tested.file.as_ref());
        }
        all.push(tested);
    }
    let ran = all.iter().map(|tested| tested.ran.len()).sum::<usize>();
    // a name that is misspelt is no test that has passed
    if ran == 0 && args.filter.is_some() {
        worst = worst.max(Exit::Refused);
    }
    let failed = all.iter().map(Tested::failed).sum::<usize>();
    let said = if is_json {
        print_json(&json!({
            "ok": worst == Exit::Done,
            "tests": ran,
            "failed": failed,
            "files": all.iter().map(Tested::to_json).collect::<Vec<_>>(),
        }))
    } else {
        print(&format!("{}\n", verdict(ran, failed, args.filter.as_deref())))
    };
    match said {
        Ok(()) => worst,
        Err(error) => log.failed(&error, None),
    }
}

fn verdict(ran: usize, failed: usize, filter: Option<&str>) -> String {
    match (ran, failed) {
        (0, _) => match filter {
            Some(filter) => format!("no test was run: none has \"{}\" in its name", printable(filter)),
            None => "no test was run".to_owned(),
        },
        (ran, 0) => format!("{}: ok", count(ran as u64, "test")),
        (ran, failed) => format!("{}: {failed} failed", count(ran as u64, "test")),
    }
}

fn test_one(
    path: &Path,
    parameters: &BTreeMap<String, String>,
    filter: Option<&str>,
    each: &mut dyn FnMut(&PipelineFile, &Ran) -> Result<()>,
) -> Result<Tested> {
    let file = match PipelineFile::read(path) {
        Ok(file) => file,
        Err(error) => {
            return Ok(Tested {
                name: path.display().to_string(),
                file: None,
                diagnostics: vec![error.diagnostic().clone()],
                ran: Vec::new(),
                exit: Exit::of(&error),
            });
        }
    };
    // an account's password is not needed, so it need not be there
    let compiled = file.compile(parameters, true);
    let mut tested = Tested {
        name: file.name.clone(),
        diagnostics: compiled.diagnostics,
        file: None,
        ran: Vec::new(),
        exit: Exit::Done,
    };
    match compiled.plan {
        None => tested.exit = Exit::Refused,
        Some(plan) => {
            tested.ensure_given(&plan);
            if tested.exit == Exit::Done && !plan.tests.is_empty() {
                match tables(&plan, &file) {
                    Ok(tables) => {
                        let wanted =
                            |test: &&TestPlan| filter.is_none_or(|filter| test.name.contains(filter));
                        for test in plan.tests.iter().filter(wanted) {
                            let ran = Ran::of(&plan, test, &tables, &file);
                            each(&file, &ran)?;
                            tested.ran.push(ran);
                        }
                    }
                    Err(diagnostics) => {
                        tested.diagnostics.extend(diagnostics);
                        tested.exit = Exit::Refused;
                    }
                }
            }
        }
    }
    // warnings are what `cdc check` tells
    tested.diagnostics.retain(|d| d.severity == Severity::Error);
    if tested.failed() > 0 {
        tested.exit = Exit::Found;
    }
    tested.file = Some(file);
    Ok(tested)
}

/// The tables of the schema texts of the sources that flows read.
fn tables(plan: &Plan, file: &PipelineFile) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
    let mut out = Vec::new();
    for source in plan.sources.iter().filter(|s| plan.flows.iter().any(|f| f.source == s.name)) {
        let Some(path) = source.options.text("schema") else { return Err(vec![without_schema(source)]) };
        let covered = source.options.list("tables").and_then(|tables| TableSet::parse(tables).ok());
        out.extend(file.schema_file(path, covered.as_ref().and_then(TableSet::only_database))?);
    }
    Ok(out)
}

fn without_schema(source: &SourcePlan) -> Diagnostic {
    let headline = format!("source \"{}\" has no schema text, which tests take its tables from", source.name);
    Diagnostic::error(codes::MISSING_OPTION, headline)
        .at(source.span.clone(), "in this source")
        .help("add schema = \"FILE.sql\", a file of CREATE TABLE statements beside the pipeline file")
        .help("cdc init mysql://host:port writes one for a server's tables")
}

impl Ran {
    fn of(plan: &Plan, test: &TestPlan, tables: &[TableSchema], file: &PipelineFile) -> Ran {
        let failed = rehearse(plan, test, tables).err();
        let place = failed.as_ref().and_then(|f| f.diagnostic.labels.first()).map(|label| label.span.start);
        let at = place.unwrap_or(test.span.start).min(file.text.len());
        let line = file.text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
        Ran { name: test.name.clone(), line, failed }
    }

    fn to_json(&self, file: Option<&PipelineFile>) -> Value {
        let diagnostics: Vec<Diagnostic> = self.failed.iter().map(|f| f.diagnostic.clone()).collect();
        json!({
            "name": self.name,
            "line": self.line,
            "ok": self.failed.is_none(),
            "diagnostics": to_json(&diagnostics, file),
            "differences": self.failed.as_ref().and_then(|f| f.differences.as_ref()).map(differences_to_json),
        })
    }
}

impl Tested {
    fn failed(&self) -> usize {
        self.ran.iter().filter(|ran| ran.failed.is_some()).count()
    }

    /// What is missing in the environment matters where rows are made of it: a test would run with a placeholder. In a source or a sink
    /// it does not, since none is connected.
    fn ensure_given(&mut self, plan: &Plan) {
        let spans = plan.sources.iter().map(|s| &s.span).chain(plan.sinks.iter().map(|s| &s.span));
        let spans: Vec<_> = spans.collect();
        let is_of_connection = |d: &Diagnostic| {
            let at = d.labels.first().map(|label| label.span.start);
            at.is_some_and(|at| spans.iter().any(|span| span.contains(&at)))
        };
        self.diagnostics.retain(|d| d.code != codes::MISSING_PARAMETER || !is_of_connection(d));
        for diagnostic in self.diagnostics.iter_mut().filter(|d| d.code == codes::MISSING_PARAMETER) {
            diagnostic.severity = Severity::Error;
            self.exit = Exit::Refused;
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "file": self.name,
            "ok": self.exit == Exit::Done,
            "diagnostics": to_json(&self.diagnostics, self.file.as_ref()),
            "tests": self.ran.iter().map(|ran| ran.to_json(self.file.as_ref())).collect::<Vec<_>>(),
        })
    }
}

/// A line for a test, and for one that failed what is wrong.
fn to_text(file: &PipelineFile, ran: &Ran) -> String {
    let (file_name, name) = (printable(&file.name), printable(&ran.name));
    let Some(failed) = &ran.failed else { return format!("ok      {file_name}: {name}\n") };
    let mut out = format!("FAILED  {file_name}:{}: {name}\n", ran.line);
    let diagnostics = std::slice::from_ref(&failed.diagnostic);
    let placed = Some(file).filter(|_| !failed.diagnostic.labels.is_empty());
    out.push_str(&render(diagnostics, placed, stdout_style().report()));
    if let Some(differences) = &failed.differences {
        out.push('\n');
        table(&mut out, differences);
    }
    out.push('\n');
    out
}

/// The rows that differ, as a table: what is expected above what is there, and marks below values that differ.
fn table(out: &mut String, differences: &Differences) {
    // the row as it is shown, and for a line of marks what is marked
    enum Line {
        Values(&'static str, Vec<String>),
        Marks(Vec<bool>),
    }
    let shown = |values: &[String]| values.iter().map(|v| short(&printable(v))).collect::<Vec<_>>();
    let names: Vec<String> = differences.columns.iter().map(|c| short(&printable(c))).collect();
    let mut lines = vec![Line::Values("", names)];
    for row in &differences.rows {
        match (&row.expected, &row.actual) {
            (Some(expected), Some(actual)) => {
                lines.push(Line::Values("expected", shown(expected)));
                lines.push(Line::Values("actual", shown(actual)));
                let is_marked = |i| row.columns.contains(&i);
                lines.push(Line::Marks((0..differences.columns.len()).map(is_marked).collect()));
            }
            (Some(expected), None) => lines.push(Line::Values("missing", shown(expected))),
            (None, Some(actual)) => lines.push(Line::Values("too many", shown(actual))),
            (None, None) => {}
        }
    }
    let width = |text: &str| console::measure_text_width(text);
    let mut widths = vec![0; differences.columns.len()];
    for line in &lines {
        if let Line::Values(_, values) = line {
            for (widest, value) in widths.iter_mut().zip(values) {
                *widest = (*widest).max(width(value));
            }
        }
    }
    let mut last: Option<&[String]> = None;
    for line in &lines {
        let mut text = String::new();
        match line {
            Line::Values(word, values) => {
                _ = write!(text, "  {word:<8}");
                for (value, wide) in values.iter().zip(&widths) {
                    _ = write!(text, "  {value}{}", " ".repeat(wide.saturating_sub(width(value))));
                }
                last = Some(values);
            }
            Line::Marks(marks) => {
                _ = write!(text, "  {:<8}", "");
                for ((i, wide), marked) in widths.iter().enumerate().zip(marks) {
                    let under = last.and_then(|values| values.get(i)).map_or(1, |v| width(v).max(1));
                    let mark = if *marked { "^".repeat(under) } else { String::new() };
                    _ = write!(text, "  {mark:<wide$}");
                }
            }
        }
        _ = writeln!(out, "{}", text.trim_end());
    }
    if differences.equal > 0 {
        _ = writeln!(out, "  {} as expected", count(differences.equal as u64, "row"));
    }
}

/// As much of a value as tells two apart on a screen; JSON has all of it.
fn short(value: &str) -> String {
    const MOST: usize = 60;
    match value.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value.to_owned(),
    }
}

fn differences_to_json(differences: &Differences) -> Value {
    let rows: Vec<Value> = differences
        .rows
        .iter()
        .map(|row| {
            let names: Vec<&String> =
                row.columns.iter().filter_map(|&i| differences.columns.get(i)).collect();
            json!({ "expected": row.expected, "actual": row.actual, "differs": names })
        })
        .collect();
    json!({
        "target": differences.target,
        "columns": differences.columns,
        "as_expected": differences.equal,
        "rows": rows,
    })
}
