//! Errors of SQLite as errors of cdc: which come again, and what to do.

use cdc_core::{Code, Error, codes};
use rusqlite::{Error as Sqlite, ErrorCode, ffi};
use std::path::Path;

/// Seconds that SQLite itself waits for a lock before it says that the database is busy.
pub(crate) const BUSY_SECONDS: u64 = 5;

/// Makes errors that name the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Errors<'a>(pub(crate) &'a Path);

impl Errors<'_> {
    /// The error of something that was done; `code` where the error is about what was done and not about the
    /// database as a whole.
    pub(crate) fn of(self, code: Code, doing: &str, e: &Sqlite) -> Error {
        let path = self.0.display();
        let message = message(e);
        match e.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed,
            ) => Error::transient(
                codes::TARGET_BUSY,
                format!("sqlite \"{path}\" is locked by another program"),
            )
            .note(format!("{doing}: waited {BUSY_SECONDS} s: {message}"))
            .help("end the other program's transaction, or the program"),
            Some(ErrorCode::NotADatabase) => self.not_a_database(),
            Some(ErrorCode::DatabaseCorrupt) => Error::definite(
                codes::TARGET_NOT_OURS,
                format!("sqlite \"{path}\" is damaged: {message}"),
            )
            .note(doing.to_owned())
            .help(
                "run PRAGMA integrity_check; give another path, or move the file away with its -wal and -shm",
            ),
            Some(ErrorCode::DiskFull) => {
                Error::transient(codes::TARGET_WRITE, format!("sqlite \"{path}\": the disk is full"))
                    .note(format!("{doing}: {message}"))
                    .help("make room; nothing was written")
            }
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::AuthorizationForStatementDenied,
            ) => Error::definite(
                codes::TARGET_WRITE,
                format!("sqlite \"{path}\" cannot be written: {message}"),
            )
            .note(doing.to_owned())
            .help("make the file and its folder writable for this user"),
            Some(ErrorCode::CannotOpen) => self.cannot_open(&message),
            Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted) => {
                Error::transient(codes::TARGET_WRITE, format!("sqlite \"{path}\": {message}"))
                    .note(doing.to_owned())
            }
            Some(ErrorCode::SchemaChanged) => {
                Error::transient(codes::TARGET_WRITE, format!("sqlite \"{path}\": {message}"))
                    .note(doing.to_owned())
            }
            Some(ErrorCode::TooBig) => Error::definite(
                codes::TARGET_VALUE,
                format!("sqlite \"{path}\" cannot hold a value: {message}"),
            )
            .note(doing.to_owned())
            .help("SQLite's limit is 1,000,000,000 bytes a row; leave the column out of the flow"),
            Some(ErrorCode::ConstraintViolation) => {
                Error::definite(code, format!("sqlite \"{path}\": {message}")).note(doing.to_owned()).help(
                    "the source holds such rows: drop the unique index, the trigger or the rule of the target's table that \
                     refuses them (SELECT sql FROM sqlite_schema shows it)",
                )
            }
            _ => Error::definite(code, format!("sqlite \"{path}\": {message}")).note(doing.to_owned()),
        }
    }

    pub(crate) fn cannot_open(self, message: &str) -> Error {
        Error::definite(
            codes::TARGET_OPEN,
            format!("sqlite \"{}\" cannot be opened: {message}", self.0.display()),
        )
    }

    pub(crate) fn not_a_database(self) -> Error {
        Error::definite(
            codes::TARGET_NOT_OURS,
            format!("file \"{}\" is not a SQLite database", self.0.display()),
        )
        .help("give another path, or move the file away; it is left as it is")
    }
}

/// SQLite's message, without the text that rusqlite adds for programmers.
pub(crate) fn message(e: &Sqlite) -> String {
    match e {
        Sqlite::SqliteFailure(code, None) => code.to_string(),
        Sqlite::SqliteFailure(_, Some(message)) => message.clone(),
        Sqlite::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// True where a database cannot be read without writing: an interrupted transaction has to be rolled back.
pub(crate) fn needs_recovery(e: &Sqlite) -> bool {
    matches!(e, Sqlite::SqliteFailure(code, _) if code.code == ErrorCode::ReadOnly
        || code.extended_code == ffi::SQLITE_CANTOPEN)
}
