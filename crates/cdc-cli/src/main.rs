//! The program `cdc`: reads a pipeline file, hands it to the language or the engine, and shows what they say.
//!
//! ```text
//! args ─► command ─► surroundings (files, environment) ─► cdc-dsl ─► plan ─► cdc-runtime
//!            │                                               │                  │
//!            └──────────► logging, output ◄──── diagnostics ─┴─ status, report ─┘ ──► exit
//! ```
//!
//! Nothing is decided here about pipelines: what is wrong with a file is the language's to say, what becomes of
//! a run the engine's. The program reads files, prints, and turns outcomes into exit codes ([`exit`]).
//!
//! What goes where: standard output has what was asked for (a plan, a formatted file, the result of a check or
//! of a comparison, rows of a `stdout` sink), standard error has everything else.

// what is printed goes through `output`, which knows of closed pipes and of where data goes
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod command;
mod exit;
mod logging;
mod output;
mod pages;
mod screen;
mod surroundings;

use args::{Args, Command};
use cdc_core::codes;
use clap::Parser;
use exit::Exit;
use logging::Told;
use std::process::ExitCode;

// Rows are made by the thread that reads the log and dropped by those that write them: the system's allocator takes a
// sixth of the time for that, this one less than half of it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cdc_runtime::supervise::exit_on_panic();
    let _faults = cdc_core::faults::from_environment();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error).into(),
    };
    let told = Told::default();
    let exit = match &args.command {
        Command::Init(args) => command::init::init(args, &told),
        Command::Run(args) => command::run::run(args, &told),
        Command::Check(args) => command::check::check(args, &told),
        Command::Test(args) => command::test::test(args, &told),
        Command::Explain(args) => command::explain::explain(args, &told),
        Command::Fmt(args) => command::fmt::fmt(args, &told),
        Command::Verify(args) => command::verify::verify(args, &told),
        Command::Error(args) => command::error::error(args),
        Command::Completions(args) => command::completions::completions(args, &told),
    };
    if exit >= Exit::Refused {
        told.hint();
    }
    exit.into()
}

/// What clap has to say: help and version are answers, the rest is an error like all others.
fn usage(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // a reader that went away has what it wanted
        let _ = error.print();
        return Exit::Done;
    }
    let text = error.to_string();
    let text =
        text.strip_prefix("error: ").map_or(text.clone(), |rest| format!("error[{}]: {rest}", codes::USAGE));
    output::eprint(&text);
    Exit::Refused
}
