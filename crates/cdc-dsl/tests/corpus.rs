//! The corpus in `dsl/corpus/`: what files mean, how they are laid out, what is said of those that are wrong.
//! `UPDATE_EXPECT=1` rewrites what is expected.

mod common;

use cdc_core::diagnostic::Severity;
use cdc_core::plan::explain::to_text;
use cdc_core::plan::test::{TestChange, TestPlan, TestRow, TestStep, TestStepKind, TestTarget};
use cdc_testkit::markdown::{check_dir, check_file};
use common::{compile, compile_with, dsl_dir, rendered, whole};

/// `--set` and the environment of a case: ```` ```set ````, a `name=value` a line, and `lenient`.
fn settings(text: &str) -> (Vec<(&str, &str)>, bool) {
    let set = text.lines().filter_map(|l| l.split_once('=')).collect();
    (set, text.lines().any(|l| l == "lenient"))
}

#[test]
fn diagnostics_are_as_expected() {
    check_dir("dsl/corpus/errors", |case| {
        let as_it_is = case.blocks("cdc").any(|b| b.arguments().any(|a| a == "whole"));
        let text = if as_it_is { case.text("cdc").to_owned() } else { whole(case.text("cdc")) };
        let (set, lenient) = settings(case.text("set"));
        let compiled = compile_with(&text, &set, lenient);
        let error = compiled.diagnostics.iter().any(|d| d.severity == Severity::Error);
        assert_eq!(error, compiled.plan.is_none(), "a plan comes out if nothing is wrong");
        if compiled.diagnostics.is_empty() {
            return "nothing is wrong".to_owned();
        }
        rendered(&compiled.diagnostics, &text)
    });
}

#[test]
fn layout_is_as_expected() {
    check_file("dsl/corpus/format.md", |case| match cdc_dsl::format(case.text("cdc")) {
        Ok(text) => text,
        Err(diagnostics) => rendered(&diagnostics, case.text("cdc")),
    });
}

#[test]
fn plans_are_as_expected() {
    check_file("dsl/corpus/plans.md", |case| {
        let text = whole(case.text("cdc"));
        let (set, lenient) = settings(case.text("set"));
        let compiled = compile_with(&text, &set, lenient);
        let Some(plan) = compiled.plan else { return rendered(&compiled.diagnostics, &text) };
        let mut out = format!("{plan:#?}");
        if case.name.contains("flow") {
            out = plan.flows.iter().map(|f| format!("{f:#?}\n")).collect();
        }
        without_spans(&out)
    });
}

/// What `cdc explain` says of them: each operator with its expressions, as they were lowered. And tests, in full.
#[test]
fn views_and_tests_are_as_expected() {
    check_file("dsl/corpus/views.md", |case| {
        let text = whole(case.text("cdc"));
        let compiled = compile(&text);
        let Some(plan) = compiled.plan else { return rendered(&compiled.diagnostics, &text) };
        if !plan.tests.is_empty() {
            return plan.tests.iter().map(test_text).collect();
        }
        let shown = to_text(&plan);
        let from = shown.find("\nview").unwrap_or(shown.len());
        format!("{}{}", rendered(&compiled.diagnostics, &text), shown[from..].trim_start())
    });
}

/// A test, a line a step.
fn test_text(test: &TestPlan) -> String {
    let row = |row: &TestRow| {
        let values: Vec<String> = row.values.iter().map(|(c, v)| format!("{} = {v}", c.name)).collect();
        format!("({})", values.join(", "))
    };
    let rows = |all: &[TestRow]| all.iter().map(row).collect::<Vec<_>>().join(" ");
    let changes = |all: &[TestChange]| {
        let of = |c: &TestChange| format!(" {:?} {} {}: {}", c.kind, c.source, c.table, rows(&c.rows));
        all.iter().map(of).collect::<Vec<_>>().join(";")
    };
    let target = |target: &TestTarget| match target {
        TestTarget::Table { sink, table, .. } => format!("table {table} of sink {sink}"),
        TestTarget::View { name, .. } => format!("view {name}"),
    };
    let step = |step: &TestStep| match &step.kind {
        TestStepKind::Given(all) => format!("  given{}\n", changes(all)),
        TestStepKind::When(all) => format!("  when{}\n", changes(all)),
        TestStepKind::Ddl(text) => format!("  ddl {text}\n"),
        TestStepKind::ExpectRows { target: of, rows: all } => {
            format!("  expect {}: {}\n", target(of), rows(all))
        }
        TestStepKind::ExpectColumns { target: of, columns } => {
            let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
            format!("  expect {} columns: {}\n", target(of), names.join(", "))
        }
    };
    format!("test {:?}\n{}", test.name, test.steps.iter().map(step).collect::<String>())
}

/// A plan's `{:#?}` on fewer lines: no places, and what is short on one line.
fn without_spans(text: &str) -> String {
    let kept: Vec<&str> = text.lines().filter(|l| !l.trim_start().starts_with("span: ")).collect();
    kept.join("\n")
}

#[test]
fn every_file_of_the_corpus_keeps_its_meaning_when_it_is_formatted() {
    let mut checked = 0;
    for entry in std::fs::read_dir(dsl_dir().join("corpus")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "cdc") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(tree) = cdc_dsl::parse(&text) else { continue };
        let formatted = cdc_dsl::format(&text).unwrap();
        assert!(cdc_dsl::parse(&formatted).unwrap() == tree, "{} means something else", path.display());
        assert_eq!(cdc_dsl::format(&formatted).unwrap(), formatted, "{} changes again", path.display());
        checked += 1;
    }
    assert!(checked > 0);
}

/// The example of the language's specification: all that is wrong with it is that state is kept for ever, that
/// one table meets another in `dw.orders`, and that no table ends in `_v2`.
#[test]
fn the_example_of_the_specification() {
    let text = std::fs::read_to_string(dsl_dir().join("corpus/shop.cdc")).unwrap();
    let codes: Vec<String> = compile(&text).diagnostics.iter().map(|d| d.code.to_string()).collect();
    assert_eq!(codes, ["E0211", "E0215", "E0503"]);
    let formatted = cdc_dsl::format(&text).unwrap();
    let differing: Vec<&str> = text.lines().filter(|l| !formatted.lines().any(|f| f == *l)).collect();
    // a comment, and two lines that are too long
    assert_eq!(differing.len(), 3, "{differing:#?}");
}
