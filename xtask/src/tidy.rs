//! `cargo xtask tidy`: what the compiler does not check.
//!
//! - which crate of the workspace may depend on which;
//! - what must not be in the tree of a crate, so that it stays usable by itself;
//! - no large file, no path of somebody's machine, no unfinished code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cdc_testkit::servers::{run, workspace_dir};
use serde_json::Value;

use crate::{cases, say};

/// Which crate may depend on which others of the workspace. Siblings have no arrow between them, and
/// language and engine do not know each other: they meet in `cdc-core` and in the program.
const ARROWS: &[(&str, &[&str])] = &[
    ("cdc-core", &[]),
    ("cdc-mysql", &["cdc-core"]),
    ("cdc-schema", &["cdc-core"]),
    ("cdc-materialize", &["cdc-core"]),
    ("cdc-sinks", &["cdc-core"]),
    ("cdc-runtime", &["cdc-core", "cdc-mysql", "cdc-schema", "cdc-materialize", "cdc-sinks"]),
    ("cdc-dsl", &["cdc-core"]),
    (
        "cdc-cli",
        &["cdc-core", "cdc-dsl", "cdc-runtime", "cdc-mysql", "cdc-schema", "cdc-materialize", "cdc-sinks"],
    ),
    ("cdc-testkit", &["cdc-core"]),
];

/// Arrows that exist only behind a feature that is off by default.
const OPTIONAL_ARROWS: &[(&str, &str)] = &[
    // compile and render in one call, for those who embed the language
    ("cdc-dsl", "cdc-materialize"),
];

const ASYNC: &[&str] = &["tokio"];
const DATAFLOW: &[&str] = &["timely", "differential-dataflow"];
const DRIVERS: &[&str] =
    &["mysql_async", "mysql_common", "mysql", "rusqlite", "postgres", "tokio-postgres", "sqlx"];

/// What must not be in a crate's tree, with default features and without what only its tests use.
const FORBIDDEN: &[(&str, &[&[&str]])] = &[
    ("crates/cdc-core", &[ASYNC, DATAFLOW, DRIVERS]),
    ("crates/cdc-mysql", &[DATAFLOW]),
    ("crates/cdc-schema", &[ASYNC, DATAFLOW]),
    ("crates/cdc-materialize", &[ASYNC, DRIVERS]),
    ("crates/cdc-dsl", &[ASYNC, DATAFLOW, DRIVERS]),
    // the programs that show a crate used by itself
    ("examples/tail_binlog", &[DATAFLOW]),
    ("examples/snapshot_table", &[DATAFLOW]),
    ("examples/derive_schema", &[ASYNC, DATAFLOW, DRIVERS]),
    ("examples/upsert_materializer", &[ASYNC, DRIVERS]),
];

const LARGEST_FILE: u64 = 1 << 20;

/// Folders under which people and machines keep their own files. In two parts, so that this file
/// passes its own check.
const MACHINE_PATHS: &[&str] = &[
    concat!("/", "root/"),
    concat!("/", "work/"),
    concat!("/", "home/"),
    concat!("/", "Users/"),
    concat!("/", "tmp/"),
];

const UNFINISHED: &[&str] =
    &[concat!("todo", "!("), concat!("unimplemented", "!("), concat!("TO", "DO"), concat!("FIX", "ME")];

/// Runs all checks and reports every finding.
pub fn main() -> Result<()> {
    let metadata = run(cargo().args(["metadata", "--format-version=1", "--no-deps", "--locked"]))?;
    let packages = Package::all(&serde_json::from_str(&metadata)?)?;
    let mut findings = Vec::new();
    check_arrows(&packages, &mut findings);
    check_trees(&packages, &mut findings)?;
    if fs::read_to_string(workspace_dir().join(cases::FILE)).unwrap_or_default() != cases::text()? {
        findings.push(format!("{} is out of date: run `cargo xtask cases`", cases::FILE));
    }
    let files = files()?;
    check_files(&files, &mut findings);
    if findings.is_empty() {
        say!("tidy: {} crates, {} files", packages.len(), files.len());
        return Ok(());
    }
    for finding in &findings {
        say!("tidy: {finding}");
    }
    bail!("{} findings", findings.len())
}

/// The cargo that runs us, in the workspace's folder.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace_dir());
    // What cargo told us of ourselves is not for the packages that are built: build scripts that look at it would
    // run again at every change between `cargo xtask` and `cargo`.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|p| name.starts_with(p))
        {
            command.env_remove(&*name);
        }
    }
    command
}

struct Package {
    name: String,
    /// Relative to the workspace.
    folder: String,
    /// Dependencies on others of the workspace.
    arrows: Vec<Arrow>,
}

struct Arrow {
    to: String,
    is_dev: bool,
    is_optional: bool,
}

impl Package {
    fn all(metadata: &Value) -> Result<Vec<Package>> {
        let root = metadata["workspace_root"].as_str().context("cargo metadata has no root")?;
        let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
        let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
        packages
            .iter()
            .map(|package| {
                let manifest = Path::new(package["manifest_path"].as_str().context("no manifest path")?);
                let folder = manifest.parent().context("no folder")?.strip_prefix(root)?;
                let arrow = |dependency: &Value| {
                    let to = dependency["name"].as_str().filter(|to| names.contains(to))?;
                    Some(Arrow {
                        to: to.to_string(),
                        is_dev: dependency["kind"] == "dev",
                        is_optional: dependency["optional"] == true,
                    })
                };
                let dependencies = package["dependencies"].as_array().context("no dependencies")?;
                Ok(Package {
                    name: package["name"].as_str().context("no name")?.to_string(),
                    folder: folder.to_string_lossy().replace('\\', "/"),
                    arrows: dependencies.iter().filter_map(arrow).collect(),
                })
            })
            .collect()
    }
}

fn check_arrows(packages: &[Package], findings: &mut Vec<String>) {
    // what lies beside `crates` stands above everything
    for package in packages.iter().filter(|package| package.folder.starts_with("crates/")) {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            findings
                .push(format!("{} has no entry in the table of arrows (xtask/src/tidy.rs)", package.name));
            continue;
        };
        for Arrow { to, is_dev, is_optional } in &package.arrows {
            let is_allowed = allowed.contains(&to.as_str())
                || (*is_dev && to == "cdc-testkit")
                || (*is_optional && OPTIONAL_ARROWS.contains(&(&package.name, to)));
            if !is_allowed {
                findings.push(format!("{} must not depend on {to}", package.name));
            }
        }
    }
}

fn check_trees(packages: &[Package], findings: &mut Vec<String>) -> Result<()> {
    for (folder, forbidden) in FORBIDDEN {
        let Some(package) = packages.iter().find(|package| package.folder == *folder) else {
            findings.push(format!("{folder} is not there"));
            continue;
        };
        // one package at a time: features that others turn on do not count
        let tree = run(cargo().args([
            "tree",
            "--locked",
            "--package",
            &package.name,
            "--edges=normal",
            "--prefix=none",
            "--format={p}",
        ]))?;
        let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        for name in forbidden.iter().flat_map(|group| group.iter()).filter(|name| names.contains(*name)) {
            findings.push(format!("{} must not have {name} in its tree", package.name));
        }
    }
    Ok(())
}

/// The project's files: tracked ones and those that would be.
fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(workspace_dir()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut files = Vec::new();
    match run(&mut git) {
        Ok(listed) => files.extend(listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from)),
        // an unpacked archive
        Err(_) => walk(&workspace_dir(), Path::new(""), &mut files)?,
    }
    files.retain(|file| workspace_dir().join(file).is_file());
    Ok(files)
}

fn walk(root: &Path, below: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_file() {
            files.push(path);
        } else if entry.file_type()?.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git"
        {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}

fn check_files(files: &[PathBuf], findings: &mut Vec<String>) {
    for file in files {
        let shown = file.display();
        let Ok(bytes) = fs::read(workspace_dir().join(file)) else { continue };
        if bytes.len() as u64 > LARGEST_FILE {
            findings.push(format!("{shown} has {} bytes, more than 1 MiB", bytes.len()));
        }
        // binary test data says what it must
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        let is_rust = file.extension().is_some_and(|end| end == "rs");
        for (number, line) in text.lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| names_path(line, path)) {
                findings.push(format!("{shown}:{}: path of a machine ({path}…)", number + 1));
            }
            if let Some(word) = UNFINISHED.iter().find(|word| is_rust && line.contains(**word)) {
                findings.push(format!("{shown}:{}: {word}", number + 1));
            }
        }
    }
}

/// Whether an absolute path that begins so stands in a line: `a/home/b` is a relative one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "._-/}~*$".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_told_from_relative_ones() {
        let path = MACHINE_PATHS[2];
        assert!(names_path(&format!("open(\"{path}me/x\")"), path));
        assert!(names_path(&format!("{path}me"), path));
        assert!(!names_path(&format!("https://example.com{path}me"), path));
        assert!(!names_path(&format!("./a{path}me"), path));
    }

    #[test]
    fn arrows_point_one_way() {
        for (at, (name, to)) in ARROWS.iter().enumerate() {
            for other in *to {
                let below = ARROWS.iter().position(|(name, _)| name == other);
                assert!(below.is_some_and(|below| below < at || *name == "cdc-cli"), "{name} -> {other}");
            }
        }
    }
}
