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
