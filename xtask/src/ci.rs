//! `cargo xtask test` and `cargo xtask ci`: all that must hold before a change goes in, cheapest first.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::{ServerKind, TEST_SERVER, target_dir};

use crate::args::Args;
use crate::tidy::cargo;
use crate::{say, servers, soak, tidy};

/// `cargo xtask test [--only-tests] [--skip-tests] [-- ARGUMENTS OF THE TEST RUNNER]`
pub fn main(args: &mut Args) -> Result<()> {
    let runner_args = args.after_dashes();
    let only_tests = args.flag("--only-tests");
    let skip_tests = args.flag("--skip-tests");
    args.finish()?;
    let start = Instant::now();
    if !only_tests {
        step("format", cargo().args(["fmt", "--all", "--check"]))?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        step("clippy", cargo().args(clippy))?;
        let mut doc = cargo();
        doc.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
        step("documentation", &mut doc)?;
        timed("tidy", tidy::main)?;
    }
    if !skip_tests {
        timed("servers", servers::ensure_all)?;
        tests(&runner_args)?;
    }
    say!("== all passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Everything, with MySQL; then for each MariaDB the live tests again, but those that are about what only MySQL has, and for the
/// older one those that are about what is behind the source.
/// `CDC_TEST_SERVER` in the environment chooses one of these runs.
fn tests(runner_args: &[String]) -> Result<()> {
    let chosen = std::env::var(TEST_SERVER).ok().filter(|name| !name.is_empty());
    let kinds = match chosen {
        Some(name) => vec![name.parse().context(TEST_SERVER)?],
        None => ServerKind::ALL.to_vec(),
    };
    let has_nextest = cargo().args(["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    // `/tmp` is memory, or small, on many machines
    let temporary = target_dir().join("tmp");
    fs::create_dir_all(&temporary).with_context(|| format!("making {}", temporary.display()))?;
    for kind in kinds {
        let mut command = cargo();
        command.env(TEST_SERVER, kind.name()).env("TMPDIR", &temporary);
        if has_nextest {
            command.args(["nextest", "run", "--workspace", "--locked"]);
            if kind.is_mariadb() {
                let older = kind != ServerKind::MariaDb118 && runner_args.is_empty();
                let profile = if older { "mariadb-older" } else { "mariadb" };
                // what the person asked for may be no live test
                command.args(["--profile", profile, "--no-tests=pass"]);
            }
            command.args(runner_args);
        } else {
            command.args(["test", "--workspace", "--locked"]);
            if kind.is_mariadb() {
                command.args(LIVE.map(|name| format!("--test={name}")));
            }
            let (before, after) = split(runner_args);
            command.args(before).arg("--").args(after);
            if kind.is_mariadb() {
                command.args(["--skip", "mysql_only"]);
            }
        }
        step(&format!("tests on {kind}"), &mut command)?;
        if kind == ServerKind::default() && runner_args.is_empty() {
            timed("soak", || soak::source(&short_soak(20)))?;
            timed("soak of views", || soak::views(&short_soak(15)))?;
        }
    }
    // nextest does not run the examples in the documentation
    if has_nextest && runner_args.is_empty() {
        step("examples in documentation", cargo().args(["test", "--workspace", "--doc", "--locked"]))?;
    }
    Ok(())
}

/// The test programs of nextest's profile `mariadb` (`.config/nextest.toml`), for those who have no nextest.
const LIVE: [&str; 4] = ["source_*[!b]", "live_*[!t]", "init", "values_charset*"];

/// `cargo xtask soak` for a moment, with the program as the tests have built it.
fn short_soak(seconds: u64) -> soak::Soaking {
    soak::Soaking {
        length: Duration::from_secs(seconds),
        seed: cdc_testkit::history::seed(),
        kind: ServerKind::default(),
        target: soak::TargetKind::Sqlite,
        workers: None,
        program: target_dir().join("debug").join("cdc"),
        keep: false,
    }
}

/// What stands before and behind the first `--`.
fn split(args: &[String]) -> (&[String], &[String]) {
    match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &[]),
    }
}

fn step(name: &str, command: &mut Command) -> Result<()> {
    timed(name, || {
        let status = command.status().with_context(|| format!("starting {command:?}"))?;
        ensure!(status.success(), "{name} failed: {command:?}");
        Ok(())
    })
}

fn timed(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    say!("== {name}");
    let start = Instant::now();
    work()?;
    say!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
