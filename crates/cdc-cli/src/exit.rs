//! What the program's exit code says.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done; also a run that was stopped by Ctrl-C or SIGTERM, with a checkpoint |
//! | 1 | `verify` found differences; a test of `test` failed; `fmt --check` found a file that is not formatted |
//! | 2 | the command line or the pipeline file is wrong; nothing was done |
//! | 3 | the run failed: source, target or state |
//! | 101 | a rule of cdc itself was broken |
//! | 130 | ended at once by a second Ctrl-C; the next start goes on from the last commit |

use cdc_core::{Error, codes};
use std::process::ExitCode;

/// The same for `--help`.
pub const HELP: &str = "\
Exit codes:
  0    done (also: stopped by Ctrl-C, with a checkpoint)
  1    verify: differences; test: a test failed; fmt --check: a file is not formatted
  2    the command line or the pipeline file is wrong
  3    the run failed: source, target or state
  101  internal failure
  130  ended at once by a second Ctrl-C";

/// How the program ends. Ordered by weight: of several files the worst one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything asked for was done.
    Done,
    /// The answer is no: differences, a test that failed, a file that is not formatted.
    Found,
    /// The command line or the pipeline file is wrong.
    Refused,
    /// The run failed.
    Failed,
    /// A rule of cdc itself was broken.
    Internal,
}

/// Of a second Ctrl-C: 128 and the number of SIGINT, as shells have it.
pub const INTERRUPTED: i32 = 130;

impl Exit {
    /// What follows from an error of the engine.
    pub fn of(error: &Error) -> Exit {
        let code = error.code();
        match code.number {
            3007 | 3008 => Exit::Internal,
            // of rows, not of the file
            309 => Exit::Failed,
            0..1000 | 4000.. => Exit::Refused,
            _ if code == codes::URL_MALFORMED => Exit::Refused,
            _ => Exit::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Found => 1,
            Exit::Refused => 2,
            Exit::Failed => 3,
            Exit::Internal => 101,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_whose_they_are() {
        let of = |code| Exit::of(&Error::definite(code, "x"));
        assert_eq!(of(codes::UNKNOWN_COLUMN), Exit::Refused);
        assert_eq!(of(codes::FEATURE_NOT_YET), Exit::Refused);
        assert_eq!(of(codes::URL_MALFORMED), Exit::Refused);
        assert_eq!(of(codes::FILE_UNREADABLE), Exit::Refused);
        assert_eq!(of(codes::KEY_COLUMN_NULL), Exit::Failed);
        assert_eq!(of(codes::ACCESS_DENIED), Exit::Failed);
        assert_eq!(of(codes::TARGET_SHAPE), Exit::Failed);
        assert_eq!(of(codes::STATE_LOCKED), Exit::Failed);
        assert_eq!(of(codes::WORKER_PANIC), Exit::Internal);
        assert_eq!(of(codes::INTERNAL), Exit::Internal);
    }
}
