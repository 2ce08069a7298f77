//! Every example in `dsl/reference/` is compiled: without errors, or with those that its fence names, such
//! as ```` ```cdc error=E0303,E0301 ````. With `fmt` behind it an example is in its canonical layout too.

mod common;

use cdc_testkit::markdown::parse;
use common::{compile, dsl_dir, rendered, whole};
use std::fmt::Write as _;

#[test]
fn examples_do_what_they_say() {
    let mut failures = String::new();
    let mut count = 0;
    let mut paths: Vec<_> =
        std::fs::read_dir(dsl_dir().join("reference")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "md")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        for case in parse(&text) {
            for block in case.blocks("cdc") {
                count += 1;
                let said = |key: &str| -> Vec<String> {
                    let mut codes: Vec<String> = block
                        .arguments()
                        .filter_map(|a| a.strip_prefix(key))
                        .flat_map(|list| list.split(','))
                        .map(str::to_owned)
                        .collect();
                    codes.sort();
                    codes
                };
                let mut expected = said("error=");
                expected.extend(said("warning="));
                expected.sort();
                let text = whole(&block.text);
                let diagnostics = compile(&text).diagnostics;
                let mut found: Vec<String> = diagnostics.iter().map(|d| d.code.to_string()).collect();
                found.sort();
                if found != expected {
                    _ = writeln!(
                        failures,
                        "{name}:{}: expected {expected:?}\n{}",
                        block.line,
                        rendered(&diagnostics, &text)
                    );
                }
                if block.arguments().any(|a| a == "fmt")
                    && cdc_dsl::format(&block.text).as_deref() != Ok(block.text.as_str())
                {
                    let is = cdc_dsl::format(&block.text).unwrap_or_default();
                    _ = writeln!(failures, "{name}:{}: is laid out as\n{is}", block.line);
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(count > 40, "only {count} examples were found");
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

#[test]
fn the_page_of_functions_is_that_of_the_register() {
    let mut text = String::from(
        "# Functions\n\nMade from the register of functions (`cdc_core::function`).\n\n| call | what it gives |\n|---|---|\n",
    );
    let cell = |s: &str| s.replace('|', "\\|");
    let mut functions: Vec<_> = cdc_core::function::all().collect();
    functions.sort_by_key(|f| f.name);
    for f in functions.iter().filter(|f| f.refused.is_none()) {
        let also = if f.aliases.is_empty() {
            String::new()
        } else {
            format!(" (also `{}`)", f.aliases.join("`, `"))
        };
        _ = writeln!(text, "| `{}`{also} | {} |", cell(f.signature), cell(f.help));
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
