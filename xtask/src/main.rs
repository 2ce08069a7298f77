//! `cargo xtask`: the tasks of this workspace. `cargo xtask help` lists them.

mod args;
mod servers;

use std::process::ExitCode;

use anyhow::{Result, bail};
use args::Args;

const HELP: &str = "\
usage: cargo xtask TASK

  servers             fetch a MySQL server into target/servers (Debian), or find one
  servers up          run one until Ctrl-C: [--port N] [--datadir DIR]
";

/// Prints a line for the person at the terminal.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {{
        #[allow(clippy::print_stdout)]
        {
            println!($($arg)*);
        }
    }};
}

fn main() -> ExitCode {
    match task(&mut Args::from_env()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(args: &mut Args) -> Result<()> {
    match args.next().as_deref() {
        Some("servers") => servers::main(args),
        None | Some("help" | "--help" | "-h") => {
            say!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("no task \"{other}\"\n\n{HELP}"),
    }
}
