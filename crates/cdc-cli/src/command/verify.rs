//! `cdc verify`: targets against their source.

use super::load;
use crate::args::{ReportFormat, VerifyArgs};
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::{count, print, print_json, printable, takes_a_view};
use cdc_core::{Diagnostic, Error, Result, codes};
use cdc_runtime::verify::{self, Difference, Kind, Options, Report, TableReport};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Compares every target of a pipeline that can be read back.
pub fn verify(args: &VerifyArgs, told: &Told) -> Exit {
    let is_json = args.format == ReportFormat::Json;
    let log = Log::new(if is_json { Form::Document } else { Form::Lines }, told);
    let (file, plan) = match load(&args.file, &args.settings.parameters(), false, &log) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    if let Some(source) = plan.sources.iter().find(|s| s.options.text("files").is_some()) {
        let error = Error::definite(
            codes::OPTION_VALUE,
            format!("source \"{}\" reads files, which hold no table to compare with", source.name),
        )
        .help("name the server: url = \"mysql://host:port\" instead of files");
        return log.failed(&error, Some(&file));
    }
    let options = Options {
        base: file.base.clone(),
        limit: args.limit,
        wait: Duration::from_secs(args.wait),
        state: Some(super::state_folder(args.state.as_deref(), &plan, &file.base)),
    };
    let screen = if takes_a_view() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, screen);
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    let result = verify::verify(&plan, &options, &mut |table, rows| {
        bar.set_message(format!("{table}: {rows} rows compared"))
    });
    bar.finish_and_clear();
    let report = match result {
        Ok(report) => report,
        Err(error) => return log.failed(&error, Some(&file)),
    };
    if let Err(error) = show(&report, is_json) {
        return log.failed(&error, None);
    }
    if report.differing() == 0 {
        return Exit::Done;
    }
    if !is_json {
        log.diagnostics(&[found(&report, &file.name)], None);
    }
    Exit::Found
}

fn show(report: &Report, is_json: bool) -> Result<()> {
    if is_json { print_json(&to_json(report)) } else { print(&to_text(report)) }
}

fn found(report: &Report, file: &str) -> Diagnostic {
    Diagnostic::error(
        codes::DIFFERENCES,
        format!("target differs from the source: {}", rows_differ(report.differing())),
    )
    .note("changes that are still on their way count as differences, unless they come within --wait")
    .help(format!("if the target is only behind: cdc run {file} --until caught-up, then verify again"))
}

fn rows_differ(rows: u64) -> String {
    if rows == 1 { "1 row differs".to_owned() } else { format!("{rows} rows differ") }
}

/// A line per table, its differences, and the verdict as the last line.
fn to_text(report: &Report) -> String {
    let mut out = String::new();
    for table in &report.tables {
        _ = writeln!(
            out,
            "{}: {} at the source, {} at the target, {}{}",
            name(table),
            count(table.source_rows, "row"),
            table.target_rows,
            count(table.differing, "difference"),
            kinds(table)
        );
        for left in &table.left {
            _ = writeln!(out, "  by the mode of the flow: {}", printable(left));
        }
        for difference in &table.differences {
            one_difference(&mut out, difference);
        }
        let more = table.differing.saturating_sub(table.differences.len() as u64);
        if more > 0 {
            _ = writeln!(out, "  and {more} more");
        }
    }
    for sink in &report.skipped {
        _ = writeln!(out, "{}: not compared, it cannot be read back", printable(sink));
    }
    if report.tables.is_empty() {
        _ = writeln!(out, "nothing was compared: no table of a sink that can be read back");
        return out;
    }
    let (tables, rows) = (count(report.tables.len() as u64, "table"), count(report.rows(), "row"));
    _ = writeln!(out, "verified {tables}, {rows}: {}", count(report.differing(), "difference"));
    out
}

/// How many are missing, and how many are extra.
fn kinds(table: &TableReport) -> String {
    match (table.missing, table.extra) {
        (0, 0) => String::new(),
        (missing, 0) => format!(", {missing} missing"),
        (0, extra) => format!(", {extra} extra"),
        (missing, extra) => format!(", {missing} missing, {extra} extra"),
    }
}

fn name(table: &TableReport) -> String {
    printable(&format!("{}.{}", table.sink, table.target)).into_owned()
}

fn one_difference(out: &mut String, difference: &Difference) {
    let key = printable(&difference.key);
    match &difference.kind {
        Kind::Missing => _ = writeln!(out, "  missing  {key}"),
        Kind::Extra => _ = writeln!(out, "  extra    {key}"),
        Kind::Differs(columns) => {
            _ = writeln!(out, "  differs  {key}");
            for c in columns {
                let (column, expected, actual) =
                    (printable(&c.column), printable(&c.expected), printable(&c.actual));
                _ = writeln!(out, "    {column}: expected {}, actual {}", short(&expected), short(&actual));
            }
        }
    }
}

/// As much of a value as tells two apart on a screen; JSON has all of it.
fn short(value: &str) -> String {
    const MOST: usize = 120;
    match value.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}… ({} characters)", &value[..at], value.chars().count()),
        None => value.to_owned(),
    }
}

fn to_json(report: &Report) -> Value {
    let difference = |d: &Difference| match &d.kind {
        Kind::Missing => json!({ "key": d.key, "kind": "missing" }),
        Kind::Extra => json!({ "key": d.key, "kind": "extra" }),
        Kind::Differs(columns) => json!({
            "key": d.key,
            "kind": "differs",
            "columns": columns
                .iter()
                .map(|c| json!({ "column": c.column, "expected": c.expected, "actual": c.actual }))
                .collect::<Vec<_>>(),
        }),
    };
    let table = |t: &TableReport| {
        json!({
            "sink": t.sink,
            "target": t.target,
            "sources": t.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "source_rows": t.source_rows,
            "target_rows": t.target_rows,
            "differing": t.differing,
            "missing": t.missing,
            "extra": t.extra,
            "left": t.left,
            "differences": t.differences.iter().map(difference).collect::<Vec<_>>(),
        })
    };
    json!({
        "ok": report.differing() == 0,
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
        "skipped": report.skipped,
        "rows": report.rows(),
        "differing": report.differing(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::connector::ColumnDifference;
    use cdc_core::schema::TableId;

    fn report(differences: Vec<Difference>, differing: u64) -> Report {
        let count_of = |kind: &Kind| differences.iter().filter(|d| d.kind == *kind).count() as u64;
        let table = TableReport {
            sink: "dw".into(),
            target: "orders".into(),
            sources: vec![TableId::new("shop", "orders")],
            source_rows: 2000,
            target_rows: 1999,
            differing,
            missing: count_of(&Kind::Missing),
            extra: count_of(&Kind::Extra),
            differences,
            left: Vec::new(),
        };
        Report { tables: vec![table], skipped: vec!["feed".into()] }
    }

    #[test]
    fn equal_tables_end_with_no_differences() {
        let text = to_text(&report(Vec::new(), 0));
        assert_eq!(
            text,
            "dw.orders: 2000 rows at the source, 1999 at the target, 0 differences\n\
             feed: not compared, it cannot be read back\n\
             verified 1 table, 2000 rows: 0 differences\n"
        );
    }

    #[test]
    fn differences_are_listed() {
        let column =
            ColumnDifference { column: "amount".into(), expected: "5.00".into(), actual: "\x1b[2J".into() };
        let differences = vec![
            Difference { key: "id=1".into(), kind: Kind::Missing },
            Difference { key: "id=2".into(), kind: Kind::Extra },
            Difference { key: "id=3".into(), kind: Kind::Differs(vec![column]) },
        ];
        let report = report(differences, 4);
        assert_eq!(
            to_text(&report).lines().collect::<Vec<_>>(),
            [
                "dw.orders: 2000 rows at the source, 1999 at the target, 4 differences, 1 missing, 1 extra",
                "  missing  id=1",
                "  extra    id=2",
                "  differs  id=3",
                "    amount: expected 5.00, actual \u{fffd}[2J",
                "  and 1 more",
                "feed: not compared, it cannot be read back",
                "verified 1 table, 2000 rows: 4 differences",
            ]
        );
        let json = to_json(&report);
        assert_eq!(json["ok"], false);
        assert_eq!(json["tables"][0]["differences"][2]["columns"][0]["expected"], "5.00");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(short(&"é".repeat(120)), "é".repeat(120));
        assert_eq!(short(&"é".repeat(500)), format!("{}… (500 characters)", "é".repeat(120)));
    }
}
