//! `cargo xtask`: the tasks of this workspace. `cargo xtask help` lists them.

mod args;
mod bench;
mod cases;
mod child;
mod ci;
mod demo;
mod servers;
mod soak;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};
use args::Args;

const HELP: &str = "\
usage: cargo xtask TASK

  test                format, lints, documentation, layout, then all tests on real servers
                      [--only-tests] [--skip-tests] [-- ARGUMENTS OF THE TEST RUNNER]
  ci                  the same
  tidy                which crate depends on which, no stray paths, no large files
  cases               write TESTED.md: which tests show which case of the specification
  demo                copy a shop while it is open, and compare every row: [--rows N] [--keep]
                      [--server mysql|mariadb|mariadb-11.8] [--target sqlite|mysql|mariadb-11.8|postgres]
                      [--cdc PROGRAM] [--pipeline FILE]
  demo --views        the same with joins and aggregates of the shop's tables, and its best customers
  bench               speed against the server's own programs, into target/bench: [--quick]
                      [--seed N] [--narrow N] [--wide N] [--transactions N] [--runs N]
                      [--orders N] [--changes N] [--only NAME] [--cdc PROGRAM] [--parts PROGRAM]
  soak --source       copy under everything at once, kills and crashes included, and compare every row:
                      [--minutes N] [--seed N] [--server mysql|mariadb-10.11|mariadb-11.8]
                      [--target sqlite|mysql|mariadb-10.11|mariadb-11.8|postgres]
                      [--workers N] [--cdc PROGRAM] [--keep]
  soak --targets      the same into every kind of target in turn
  soak --ddl          tables change their structure at random, in each mode; with the same arguments
  soak --views        joins and aggregates over tables that change at random; with the same arguments
  servers             fetch MySQL, MariaDB and PostgreSQL servers and Percona Toolkit into target/servers
                      (Debian), or find them: [mysql] [mariadb-10.11] [mariadb-11.8] [postgres]
                      [percona-toolkit]
  servers up          run one until Ctrl-C: [--kind SERVER] [--port N] [--datadir DIR] [--shop]
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
        Some("test" | "ci") => ci::main(args),
        Some("tidy") => {
            args.finish()?;
            tidy::main()
        }
        Some("cases") => {
            args.finish()?;
            cases::main()
        }
        Some("demo") => demo::main(args),
        Some("bench") => bench::main(args),
        // what it compares SQLite with
        Some(bench::LOAD_SQLITE) => bench::load_sqlite(args),
        Some("soak") => soak::main(args),
        Some("servers") => servers::main(args),
        None | Some("help" | "--help" | "-h") => {
            say!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("no task \"{other}\"\n\n{HELP}"),
    }
}
