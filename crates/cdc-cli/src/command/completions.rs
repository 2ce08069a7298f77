//! `cdc completions`: what makes a shell complete the command line.

use crate::args::{Args, CompletionsArgs};
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::print;
use clap::CommandFactory;

/// Prints the completions for a shell.
pub fn completions(args: &CompletionsArgs, told: &Told) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "cdc", &mut script);
    match print(&String::from_utf8_lossy(&script)) {
        Ok(()) => Exit::Done,
        Err(error) => Log::new(Form::Lines, told).failed(&error, None),
    }
}
