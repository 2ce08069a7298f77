//! The corpus in `dsl/corpus/`: what files mean, how they are laid out, what is said of those that are wrong.
//! `UPDATE_EXPECT=1` rewrites what is expected.

mod common;

use cdc_core::diagnostic::Severity;
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

/// The example of the language's specification: all that is wrong with it is that views are not built, that
/// one table meets another in `dw.orders`, and that no table ends in `_v2`.
#[test]
fn the_example_of_the_specification() {
    let text = std::fs::read_to_string(dsl_dir().join("corpus/shop.cdc")).unwrap();
    let codes: Vec<String> = compile(&text).diagnostics.iter().map(|d| d.code.to_string()).collect();
    assert_eq!(codes, ["E0211", "E0215", "E0501", "E0501", "E0502"]);
    let formatted = cdc_dsl::format(&text).unwrap();
    let differing: Vec<&str> = text.lines().filter(|l| !formatted.lines().any(|f| f == *l)).collect();
    // a comment, and two lines that are too long
    assert_eq!(differing.len(), 3, "{differing:#?}");
}
