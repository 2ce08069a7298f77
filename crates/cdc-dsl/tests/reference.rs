//! Every example in `dsl/reference/` and `dsl/diagnostics/` is compiled: without errors, or with those that its
//! fence names, such as ```` ```cdc error=E0303,E0301 ````. With `fmt` behind it an example is in its canonical
//! layout too; `set=name=value` gives a parameter a value, `whole` takes the example as it stands.

mod common;

use cdc_testkit::markdown::{Block, parse};
use common::{compile_with, dsl_dir, rendered, whole};
use std::fmt::Write as _;

/// Runs the examples of the pages of a folder; how many there were.
fn run_examples(folder: &str) -> usize {
    let mut failures = String::new();
    let mut count = 0;
    for (name, text) in pages(folder) {
        for block in parse(&text).iter().flat_map(|case| case.blocks("cdc")) {
            count += 1;
            if let Some(why) = run_example(block) {
                _ = writeln!(failures, "{name}:{}: {why}", block.line);
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    count
}

/// What one example does that its fence does not say.
fn run_example(block: &Block) -> Option<String> {
    let said = |key: &'static str| block.arguments().filter_map(move |a| a.strip_prefix(key));
    let mut expected: Vec<&str> =
        said("error=").chain(said("warning=")).flat_map(|list| list.split(',')).collect();
    expected.sort_unstable();
    let set: Vec<(&str, &str)> = said("set=").filter_map(|setting| setting.split_once('=')).collect();
    let as_it_is = block.arguments().any(|a| a == "whole");
    let text = if as_it_is { block.text.clone() } else { whole(&block.text) };
    let diagnostics = compile_with(&text, &set, false).diagnostics;
    let mut found: Vec<String> = diagnostics.iter().map(|d| d.code.to_string()).collect();
    found.sort();
    if found != expected {
        return Some(format!("expected {expected:?}\n{}", rendered(&diagnostics, &text)));
    }
    if block.arguments().any(|a| a == "fmt") {
        let laid_out = cdc_dsl::format(&block.text).unwrap_or_default();
        if laid_out != block.text {
            return Some(format!("is laid out as\n{laid_out}"));
        }
    }
    None
}

/// The Markdown files of a folder of `dsl/`, by name.
fn pages(folder: &str) -> Vec<(String, String)> {
    let mut pages: Vec<(String, String)> = std::fs::read_dir(dsl_dir().join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

#[test]
fn examples_do_what_they_say() {
    let count = run_examples("reference");
    assert!(count > 40, "only {count} examples were found");
}

#[test]
fn examples_of_the_pages_of_diagnostics_do_what_they_say() {
    let count = run_examples("diagnostics");
    assert!(count > 80, "only {count} examples were found");
}

/// Each page says what its code is, has an example that shows it, and the way out; examples of the language are
/// those that are run.
#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let pages = pages("diagnostics");
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let codes: Vec<String> = cdc_core::codes::ALL.iter().map(|code| format!("{code}.md")).collect();
    let missing: Vec<&String> = codes.iter().filter(|code| !names.contains(&code.as_str())).collect();
    let extra: Vec<&&str> = names.iter().filter(|name| !codes.iter().any(|code| code == **name)).collect();
    assert!(missing.is_empty() && extra.is_empty(), "without a page: {missing:?}, without a code: {extra:?}");
    for (code, (name, text)) in cdc_core::codes::ALL.iter().zip(&pages) {
        assert_eq!(text.lines().next(), Some(format!("# {code}: {}", code.title).as_str()), "{name}");
        let cases = parse(text);
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(headings, ["Example", "How to mend it"], "{name}");
        let example = cases.iter().find(|case| case.name.ends_with("/ Example"));
        let example = example.unwrap_or_else(|| panic!("{name} has no example"));
        let shows = |argument: &str| {
            let codes = argument.strip_prefix("error=").or(argument.strip_prefix("warning="));
            codes.is_some_and(|codes| codes.split(',').any(|c| c == code.to_string()))
        };
        let executed = example.blocks("cdc").any(|block| block.arguments().any(shows));
        let printed = ["error", "warning"]
            .iter()
            .any(|word| example.text("text").starts_with(&format!("{word}[{code}]: ")));
        let is_language = code.number < 1000;
        assert!(if is_language { executed } else { printed }, "{name} has no example of its code");
        let mended = cases.iter().find(|case| case.name.ends_with("/ How to mend it"));
        let runs = mended.is_some_and(|case| case.blocks("cdc").count() > 0);
        assert!(runs || !is_language, "{name} does not show the mended form");
    }
}

/// Compares a page with what it is made from; `UPDATE_EXPECT=1` writes it.
fn page(name: &str, text: &str) {
    let path = dsl_dir().join("reference").join(name);
    if std::env::var("UPDATE_EXPECT").is_ok_and(|v| !v.is_empty() && v != "0") {
        std::fs::write(&path, text).unwrap();
    }
    let is = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        is == text,
        "dsl/reference/{name} is stale; UPDATE_EXPECT=1 writes it\n{}",
        cdc_testkit::markdown::diff(&is, text)
    );
}

const FUNCTIONS_HEAD: &str = "\
# Functions

Made from the register of functions (`cdc_core::function`). Every example is computed by a test, and asked of MySQL and MariaDB by
another, which also calls every function with random arguments: value, NULL, kind of type, scale and fraction of seconds are those
of MySQL 9.7. Where MariaDB gives another value, MySQL's counts: `MARIADB` in `function_oracle.rs` lists these functions.

What the manual says is NULL is NULL, such as a text that `str_to_date` cannot read. Where the server cuts off or clamps with a warning,
that is an error at the row. What cannot be given as the server gives it is refused when the file is checked: a named time zone, a
pattern with look-around, the kind of a value in a JSON column.

| call | what it gives | examples |
|---|---|---|
";

/// What an expression over constants gives.
fn value_of(expression: &str) -> String {
    use cdc_core::event::{Op, Origin};
    use cdc_core::expr::eval::{RowMeta, bind};
    use cdc_core::plan::FlowOp;
    let text = whole(&format!("src.orders\n  |> extend {expression} as x\n  => dw.a\n"));
    let compiled = compile_with(&text, &[], false);
    let Some(plan) = compiled.plan else {
        panic!("{expression}\n{}", rendered(&compiled.diagnostics, &text));
    };
    let [FlowOp::Extend(items)] = &plan.flows[0].ops[..] else { panic!("{expression}") };
    let (table, origin) = (cdc_core::TableId::new("shop", "orders"), Origin::default());
    let schema = cdc_core::TableSchema {
        id: table.clone(),
        version: 0,
        columns: Vec::new(),
        primary_key: Vec::new(),
        unique_keys: Vec::new(),
        charset: cdc_core::Charset::utf8mb4(),
        comment: String::new(),
    };
    let bound = bind(&items[0].expr, &schema).unwrap_or_else(|d| panic!("{expression}: {d:?}"));
    let value = bound.eval(&[], &RowMeta { op: Op::Read, table: &table, origin: &origin });
    value.unwrap_or_else(|e| panic!("{expression}: {e}")).to_string()
}

#[test]
fn examples_of_functions_give_what_they_say() {
    let mut count = 0;
    for (call, value) in cdc_core::function::all().flat_map(|f| f.examples) {
        assert_eq!(value_of(call), value_of(value), "{call} = {value}");
        count += 1;
    }
    assert!(count > 150, "only {count} examples");
}

#[test]
fn the_page_of_functions_is_that_of_the_register() {
    let mut text = String::from(FUNCTIONS_HEAD);
    let cell = |s: &str| s.replace('|', "\\|");
    let mut functions: Vec<_> = cdc_core::function::all().collect();
    functions.sort_by_key(|f| f.name);
    for f in functions.iter().filter(|f| f.refused.is_none()) {
        let also = if f.aliases.is_empty() {
            String::new()
        } else {
            format!(" (also `{}`)", f.aliases.join("`, `"))
        };
        let example = |(call, value): &(&str, &str)| format!("`{}` = `{}`", cell(call), cell(value));
        let examples: Vec<String> = f.examples.iter().map(example).collect();
        _ = writeln!(text, "| `{}`{also} | {} | {} |", cell(f.signature), cell(f.help), examples.join(", "));
    }
    text.push_str("\n## Refused\n\n| function | why | instead |\n|---|---|---|\n");
    for f in functions {
        if let Some(reason) = f.refused {
            let names: Vec<&str> = std::iter::once(f.name).chain(f.aliases.iter().copied()).collect();
            _ = writeln!(text, "| `{}` | {} | {} |", names.join("`, `"), cell(reason), cell(f.help));
        }
    }
    page("functions.md", &text);
}

#[test]
fn the_page_of_codes_is_that_of_the_register() {
    let mut text = String::from(
        "# Codes of the language\n\nMade from the register of codes (`cdc_core::diagnostic::codes`): 01 syntax, 02 names and structure, 03 types and\nexpressions, 04 options and parameters, 05 what this version does not do yet.\n\n| code | what it stands for |\n|---|---|\n",
    );
    for code in cdc_core::codes::ALL.iter().filter(|c| c.number < 1000) {
        _ = writeln!(text, "| `{code}` | {} |", code.title.replace('|', "\\|"));
    }
    page("codes.md", &text);
}
