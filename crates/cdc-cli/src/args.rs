//! The command line.

use crate::exit;
use cdc_runtime::{StopAt, Until};
use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Copies MySQL databases into other systems and keeps them equal, from one readable file.
#[derive(Debug, Parser)]
#[command(
    name = "cdc",
    version,
    after_help = exit::HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    infer_long_args = false
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look at a server and write a first pipeline file for it
    Init(InitArgs),
    /// Run a pipeline: copy its tables, then follow every change
    Run(RunArgs),
    /// Say what is wrong with pipeline files, with no server; --live looks at the server too
    Check(CheckArgs),
    /// Run the tests that pipeline files hold, with no server
    Test(TestArgs),
    /// Show what a pipeline does: its operators, from the source to the targets
    Explain(ExplainArgs),
    /// Lay pipeline files out in the one canonical form
    Fmt(FmtArgs),
    /// Compare targets with their source, row by row
    Verify(VerifyArgs),
    /// Explain the code of an error, with an example and what mends it
    Error(ErrorArgs),
    /// Print what makes a shell complete the command line of cdc
    Completions(CompletionsArgs),
}

const INIT_EXAMPLES: &str = "\
Examples:
  export CDC_PASSWORD=..
  cdc init mysql://127.0.0.1:3306                              every table that the account sees
  cdc init mysql://127.0.0.1:3306 --tables 'shop.*' --tables '!shop.tmp_*'
  cdc init mysql://db:3306 --user copy --output conf/shop.cdc

Writes FILE and, beside it, the structures of its tables (.sql); the first target is a SQLite file beside them.
Looks only: nothing is changed at the server. Tables that cannot be copied are left out, with the reason.";

/// Of `cdc init`.
#[derive(Debug, Group)]
#[command(after_help = INIT_EXAMPLES)]
pub struct InitArgs {
    /// The server: mysql://host:port
    #[arg(value_name = "URL")]
    pub url: String,
    /// The account
    #[arg(long, value_name = "NAME", default_value = "cdc")]
    pub user: String,
    /// The variable of the environment that holds the account's password
    #[arg(long, value_name = "NAME", default_value = "CDC_PASSWORD")]
    pub password_env: String,
    /// Which tables, as `database.table` with * and ?, `!` in front to leave out; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub tables: Vec<String>,
    /// The file to write [default: named after the database, in the current folder]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over files that are there
    #[arg(long)]
    pub force: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  cdc run shop.cdc                            copy, then follow until Ctrl-C
  cdc run shop.cdc --until caught-up          end when the targets are up to date
  cdc run shop.cdc --set since=2026-06-01     give the file's parameter `since` a value
  cdc run shop.cdc --log-format json 2>log    one JSON object per line

Ctrl-C stops at the end of a transaction, with a checkpoint; the next run goes on from there.
A second Ctrl-C ends at once, and the next run goes on from the last commit.";

/// Of `cdc run`.
#[derive(Debug, Group)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// When to end by itself: caught-up (all that the source had committed at the start is committed at every target),
    /// a time in UTC ("2026-01-31 12:00:00"), a place of the log (binlog.000042:1234), or a GTID set
    #[arg(long, value_name = "WHEN", value_parser = until)]
    pub until: Option<Until>,
    /// How long a source or a target that cannot be reached when the run starts is waited for; later it is waited for without limit
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    pub wait: u64,
    /// Workers to spread rows over, by key
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// The state folder, relative to the current folder [default: checkpoint.dir, relative to FILE]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
    /// How to show the run on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,
}

fn until(text: &str) -> Result<Until, String> {
    if text == "caught-up" {
        return Ok(Until::CaughtUp);
    }
    let place = StopAt::parse(text).map_err(|e| {
        let said = e.diagnostic();
        [std::slice::from_ref(&said.headline), &said.help].concat().join("; ")
    })?;
    Ok(Until::At(place))
}

/// How a run shows itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A live view on a terminal, lines elsewhere
    Auto,
    /// Lines
    Plain,
    /// A JSON object per line
    Json,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  cdc check shop.cdc                   what is wrong, each mistake at its place
  cdc check *.cdc --format json        for editors and CI
  cdc check shop.cdc --live            also what servers, targets and accounts lack, and how to mend it";

/// Of `cdc check`.
#[derive(Debug, Group)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// The pipeline files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Connect to sources and targets: settings, privileges, tables
    #[arg(long)]
    pub live: bool,
    /// The state folder of `cdc run`, which says what modes have made of the targets [default: checkpoint.dir]
    #[arg(long, value_name = "DIR", requires = "live")]
    pub state: Option<PathBuf>,
    /// For people or for programs
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    #[command(flatten)]
    pub settings: Settings,
}

/// What a report looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for people
    Text,
    /// One JSON document on standard output
    Json,
}

const TEST_EXAMPLES: &str = "\
Examples:
  cdc test shop.cdc                           every test of the file; exit code 1 if one fails
  cdc test *.cdc --filter renamed             those with this text in their names
  cdc test shop.cdc --format json | jq .ok

The tables are those of the source's schema text, a file of CREATE TABLE statements. Nothing is connected.";

/// Of `cdc test`.
#[derive(Debug, Group)]
#[command(after_help = TEST_EXAMPLES)]
pub struct TestArgs {
    /// The pipeline files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only tests that have this in their names
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// For people or for programs
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    #[command(flatten)]
    pub settings: Settings,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  cdc explain shop.cdc
  cdc explain shop.cdc --format dot | dot -Tsvg > shop.svg
  cdc explain shop.cdc --schema           each target table beside what its source tables give";

/// Of `cdc explain`.
#[derive(Debug, Group)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What to show it as
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = PlanFormat::Text)]
    pub format: PlanFormat,
    /// Show the target tables instead: which column comes from where, what is not written, what is kept
    #[arg(long)]
    pub schema: bool,
    /// The state folder of `cdc run`, which says what modes have made of the targets [default: checkpoint.dir]
    #[arg(long, value_name = "DIR", requires = "schema")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
}

/// What a plan is shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// Text for people
    Text,
    /// A Mermaid flowchart
    Mermaid,
    /// A Graphviz graph
    Dot,
    /// JSON
    Json,
}

const FMT_EXAMPLES: &str = "\
Examples:
  cdc fmt shop.cdc                rewrites the file
  cdc fmt --check *.cdc           for CI: exit code 1 if one is not formatted
  cdc fmt - < shop.cdc            from standard input to standard output";

/// Of `cdc fmt`.
#[derive(Debug, Group)]
#[command(after_help = FMT_EXAMPLES)]
pub struct FmtArgs {
    /// The pipeline files; - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Change nothing; say which files are not formatted
    #[arg(long)]
    pub check: bool,
}

const VERIFY_EXAMPLES: &str = "\
Examples:
  cdc verify shop.cdc                  counts, keys and columns that differ; exit code 1 if any do
  cdc verify shop.cdc --wait 60        while the pipeline runs behind a busy source";

/// Of `cdc verify`.
#[derive(Debug, Group)]
#[command(after_help = VERIFY_EXAMPLES)]
pub struct VerifyArgs {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// For people or for programs
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// How long rows that differ are looked at again, for tables that move meanwhile
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub wait: u64,
    /// Differences listed per table
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: usize,
    /// The state folder of `cdc run`, which says what modes have made of the targets [default: checkpoint.dir]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub settings: Settings,
}

const ERROR_EXAMPLES: &str = "\
Examples:
  cdc error E1004              also 1004, e1004
  cdc error                    all codes, by range
  cdc error privilege          the codes whose titles have this word";

/// Of `cdc error`.
#[derive(Debug, Group)]
#[command(after_help = ERROR_EXAMPLES)]
pub struct ErrorArgs {
    /// The code, such as E1004
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  cdc completions bash > ~/.local/share/bash-completion/completions/cdc
  cdc completions zsh > ~/.zfunc/_cdc                with fpath+=~/.zfunc in front of compinit
  cdc completions fish > ~/.config/fish/completions/cdc.fish";

/// Of `cdc completions`.
#[derive(Debug, Group)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Values for the parameters of a pipeline file.
#[derive(Debug, Group)]
pub struct Settings {
    /// Give a parameter of the file a value; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
}

impl Settings {
    /// By name; of two values the last one counts.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        self.set.iter().cloned().collect()
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("a parameter is given as name=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn settings_are_split_at_the_first_equals_sign() {
        assert_eq!(parse_setting("url=mysql://h?a=b"), Ok(("url".into(), "mysql://h?a=b".into())));
        assert_eq!(parse_setting("empty="), Ok(("empty".into(), String::new())));
        assert!(parse_setting("since").is_err());
        assert!(parse_setting("=1").is_err());
    }
}
