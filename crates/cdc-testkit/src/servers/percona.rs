//! The real pt-online-schema-change, which changes tables while they are written.
//!
//! `PT_ONLINE_SCHEMA_CHANGE=` names it; else it is the one in `target/servers/percona-toolkit`, which `cargo xtask servers`
//! fetches with a Perl and a driver of its own; else the one on `PATH`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Server, ServerKind, is_program, on_path, run, servers_dir};

/// The environment variable that names the program.
pub const VARIABLE: &str = "PT_ONLINE_SCHEMA_CHANGE";
/// The folder under `target/servers` into which `cargo xtask servers` puts it.
pub const FOLDER: &str = "percona-toolkit";
/// The word for it on a command line.
pub const NAME: &str = "percona-toolkit";
/// The program's name.
pub const PROGRAM: &str = "pt-online-schema-change";

/// Finds the program.
///
/// # Errors
/// If there is none.
pub fn online_schema_change() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        ensure!(is_program(&path), "{VARIABLE}={} is not a program", path.display());
        return Ok(path);
    }
    let prefix = servers_dir().join(FOLDER);
    let fetched = prefix.join("bin").join(PROGRAM);
    if prefix.join(".complete").exists() && is_program(&fetched) {
        return Ok(fetched);
    }
    on_path(PROGRAM).with_context(|| {
        format!("no {PROGRAM} found: run `cargo xtask servers {NAME}`, or set {VARIABLE}= to its path")
    })
}

/// What it says of its version.
///
/// # Errors
/// If it does not run.
pub fn version(program: &Path) -> Result<String> {
    Ok(run(Command::new(program).arg("--version"))?.trim().to_owned())
}

/// `pt-online-schema-change --alter .. --execute` on a table of a server, through its socket; to be run or started.
///
/// # Errors
/// If there is none.
pub fn alter(server: &Server, database: &str, table: &str, alter: &str) -> Result<Command> {
    let mut command = Command::new(online_schema_change()?);
    command.arg("--alter").arg(alter).args([
        "--execute",
        "--no-version-check",
        "--no-check-replication-filters",
    ]);
    // there are no replicas to wait for, and the tool would look for them in the server's list of processes
    command.args(["--recursion-method", "none"]);
    // loads of the test itself are no reason to pause
    command.args(["--max-load", "", "--critical-load", ""]);
    if server.kind() == ServerKind::MySql {
        // its default shows plans as a tree, which the tool does not read
        command.args(["--set-vars", "explain_format=TRADITIONAL"]);
    }
    // its arguments are UTF-8, which its driver does not tell every server by itself
    command.arg(format!("D={database},t={table},S={},u=root,A=utf8mb4", server.socket().display()));
    Ok(command)
}
