//! `cargo xtask cases`: writes `TESTED.md`, which says of each numbered case of the specification by which tests it is
//! shown and on which servers they run. It is made from the tests' names alone; `tidy` refuses one that is out of date.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cdc_testkit::servers::workspace_dir;

use crate::say;

/// Where the table stands.
pub const FILE: &str = "TESTED.md";

/// The sections of the cases, each with its last number.
const SECTIONS: &[(&str, u32)] = &[
    ("Snapshots", 17),
    ("Starts, stops, restarts", 26),
    ("Transactions and events", 33),
    ("The set of tables", 36),
    ("Statements that change structures", 48),
    ("Schema evolution at the target", 57),
    ("Values", 65),
    ("Language, flows, views", 74),
    ("Running it", u32::MAX),
];

/// Writes the table.
pub fn main() -> Result<()> {
    fs::write(workspace_dir().join(FILE), text()?).context(FILE)?;
    say!("{FILE} is written");
    Ok(())
}

/// The table as the tests have it now.
pub fn text() -> Result<String> {
    let mut cases: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "examples"] {
        collect(&workspace_dir().join(folder), &mut files)?;
    }
    files.sort();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        for (numbers, name) in text.lines().filter_map(test_of) {
            let line = describe(file, &name);
            for number in numbers {
                cases.entry(number).or_default().push(line.clone());
            }
        }
    }
    let mut out = String::from(
        "# What is tested\n\nWhich tests show which numbered case, and on which servers `cargo xtask test` runs them. \
         Made from the names of the tests by `cargo xtask cases`.\n",
    );
    let mut first = 1;
    for (section, last) in SECTIONS {
        let of_section: Vec<_> = cases.range(first..=*last).collect();
        first = last.saturating_add(1);
        if of_section.is_empty() {
            continue;
        }
        write!(out, "\n## {section}\n\n| case | shown by | in | on |\n|---|---|---|---|\n")?;
        for (number, lines) in of_section {
            for line in lines {
                writeln!(out, "| {number} | {line} |")?;
            }
        }
    }
    Ok(out)
}

/// The numbers and the rest of the name, if a line is the head of a test that carries numbers of cases.
fn test_of(line: &str) -> Option<(Vec<u32>, String)> {
    let line = line.trim_start();
    let name = line.strip_prefix("async fn case_").or_else(|| line.strip_prefix("fn case_"))?;
    let name = &name[..name.find('(')?];
    let mut numbers = Vec::new();
    let mut rest = name;
    while let Some((head, tail)) = rest.split_once('_') {
        let Ok(number) = head.parse() else { break };
        numbers.push(number);
        rest = tail;
    }
    (!numbers.is_empty()).then(|| (numbers, rest.to_owned()))
}

/// What the test says, where it is, and where it runs: as `.config/nextest.toml` has it.
fn describe(file: &Path, name: &str) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let krate = file
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .skip_while(|part| part != "crates")
        .nth(1)
        .unwrap_or_else(|| "xtask".to_owned());
    let is_test = file.parent().is_some_and(|dir| dir.ends_with("tests"));
    let everywhere = is_test
        && (["source_", "live_", "values_charset"].iter().any(|head| stem.starts_with(head))
            || stem == "init")
        && !stem.contains("mariadb")
        && !stem.starts_with("live_target")
        && !name.contains("mysql_only");
    let behind = [
        "attack",
        "ddl_crash",
        "ddl_load",
        "feeds",
        "large",
        "modes",
        "online_ddl",
        "rehearsal",
        "steps",
        "until",
        "views",
    ];
    let newer_only = stem.strip_prefix("live_").is_some_and(|rest| behind.contains(&rest));
    let on = if stem.contains("mariadb") || stem == "live_quirks" {
        "MariaDB 10.11, 11.8"
    } else if everywhere && newer_only {
        "MySQL 9.7, MariaDB 11.8"
    } else if everywhere {
        "MySQL 9.7, MariaDB 10.11, 11.8"
    } else if is_test && (stem.starts_with("source_") || stem.starts_with("live_")) {
        "MySQL 9.7"
    } else {
        "-"
    };
    let says = name.replace("_mysql_only", "").replace('_', " ");
    format!("{says} | `{krate}`, `{stem}` | {on}")
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(
            test_of("    async fn case_19_20_from_every_position() -> Result<()> {"),
            Some((vec![19, 20], "from_every_position".to_owned()))
        );
        assert_eq!(test_of("fn case_by_name() {"), None);
        assert_eq!(test_of("fn a_case_19_x() {"), None);
    }
}
