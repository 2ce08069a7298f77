//! The commands, one a file. Each reports what it has to say and gives the exit code.

pub mod check;
pub mod completions;
pub mod error;
pub mod explain;
pub mod fmt;
pub mod init;
pub mod run;
pub mod test;
pub mod verify;

use crate::exit::Exit;
use crate::logging::Log;
use crate::surroundings::PipelineFile;
use cdc_core::plan::Plan;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `--state` belongs to the command line, so to the current folder; `checkpoint.dir` to the file.
fn state_folder(given: Option<&Path>, plan: &Plan, base: &Path) -> PathBuf {
    // collected again: without the dots in its midst
    given.map_or_else(|| base.join(&plan.checkpoint.dir).components().collect(), Path::to_owned)
}

/// Reads and compiles the file of a command that needs its plan; reports what is to be said of it.
fn load(
    path: &Path,
    parameters: &BTreeMap<String, String>,
    lenient: bool,
    log: &Log,
) -> Result<(PipelineFile, Plan), Exit> {
    let file = PipelineFile::read(path).map_err(|error| log.failed(&error, None))?;
    let compiled = file.compile(parameters, lenient);
    match compiled.plan {
        Some(plan) => {
            log.diagnostics(&compiled.diagnostics, Some(&file));
            Ok((file, plan))
        }
        None => {
            log.refused(&compiled.diagnostics, Some(&file));
            Err(Exit::Refused)
        }
    }
}
