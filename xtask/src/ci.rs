//! `cargo xtask test` and `cargo xtask ci`: all that must hold before a change goes in, cheapest first.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::args::Args;
use crate::tidy::cargo;
use crate::{say, servers, tidy};

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

fn tests(runner_args: &[String]) -> Result<()> {
    let has_nextest = cargo().args(["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    if !has_nextest {
        return step("tests", cargo().args(["test", "--workspace", "--locked"]).args(runner_args));
    }
    step("tests", cargo().args(["nextest", "run", "--workspace", "--locked"]).args(runner_args))?;
    // nextest does not run the examples in the documentation
    if runner_args.is_empty() {
        step("examples in documentation", cargo().args(["test", "--workspace", "--doc", "--locked"]))?;
    }
    Ok(())
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
