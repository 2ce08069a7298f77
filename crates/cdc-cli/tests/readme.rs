//! What README shows is true: its pipeline is one, and its commands run, on a real server.

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions, workspace_dir};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn readme() -> Result<String> {
    fs::read_to_string(workspace_dir().join("README.md")).context("README.md")
}

fn block<'t>(text: &'t str, fence: &str) -> Vec<&'t str> {
    text.split(&format!("```{fence}\n")).skip(1).filter_map(|rest| rest.split("\n```").next()).collect()
}

fn cdc(folder: &Path, arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_cdc"))
        .current_dir(folder)
        .args(arguments)
        .env("CDC_PASSWORD", "cdc")
        .env("NO_COLOR", "1")
        .output()?)
}

#[test]
fn the_pipeline_is_one() -> Result<()> {
    let text = readme()?;
    let blocks = block(&text, "text");
    let pipeline = blocks.first().context("README has no pipeline")?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("readme.cdc"), pipeline)?;
    let output = cdc(folder.path(), &["check", "readme.cdc"])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[test]
fn every_example_is_laid_out() -> Result<()> {
    let folder = workspace_dir().join("examples");
    let mut files = 0;
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "cdc") {
            let output = cdc(&folder, &["fmt", "--check", &path.to_string_lossy()])?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            files += 1;
        }
    }
    ensure!(files > 0, "no example was looked at");
    Ok(())
}

#[test]
fn the_tests_of_every_example_pass() -> Result<()> {
    let folder = workspace_dir().join("examples");
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "cdc") {
            let output = cdc(&folder, &["test", &path.to_string_lossy()])?;
            let printed = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success() && errors.is_empty(), "{}: {printed}{errors}", path.display());
            let (tests, words) = (fs::read_to_string(&path)?, path.display());
            let blocks = tests.lines().filter(|line| line.starts_with("test ")).count();
            let passed = printed.lines().filter(|line| line.starts_with("ok ")).count();
            ensure!(blocks > 0 && passed == blocks, "{words} has {blocks} tests: {printed}");
        }
    }
    Ok(())
}

/// The lines of README that run the program, in order, against a shop; what runs until it is stopped is given an end.
#[test]
fn the_commands_run() -> Result<()> {
    let server = Server::start(ServerOptions::default())?;
    server.sql(
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT, quantity INT, amount DECIMAL(10,2), message VARCHAR(60));
         INSERT INTO orders VALUES (1, 1, 2, 150.00, 'soon'), (2, 1, 1, 20.00, NULL);",
    )?;
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("examples"))?;
    for file in ["examples/shop.cdc", "examples/shop.sql"] {
        fs::copy(workspace_dir().join(file), folder.path().join(file))?;
    }
    let url = format!("url=mysql://127.0.0.1:{}", server.port());
    let text = readme()?;
    let mut run = 0;
    for line in block(&text, "sh").join("\n").lines() {
        let Some(command) = line.strip_prefix("cargo run --release -- ") else { continue };
        let command = command.split('#').next().unwrap_or_default();
        let mut arguments: Vec<&str> = command.split_whitespace().collect();
        arguments.extend(["--set", &url]);
        if arguments[0] == "run" && !arguments.contains(&"--until") {
            arguments.extend(["--until", "caught-up"]);
        }
        let output = cdc(folder.path(), &arguments)?;
        let printed =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{command}: {printed}");
        if arguments[0] == "verify" {
            ensure!(printed.contains("verified 2 tables, 3 rows: 0 differences"), "{printed}");
        }
        run += 1;
    }
    ensure!(run >= 4, "README shows {run} commands");
    Ok(())
}
