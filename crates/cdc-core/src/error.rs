//! Errors, split by consequence.
//!
//! *Definite*: belongs to the data or the configuration and comes again on every replay; the pipeline stops
//! and says what to do. *Transient*: the other side was away; what failed is tried again with back-off, and
//! the error never enters the data.

use crate::diagnostic::{Code, Diagnostic};
use std::fmt;

/// What follows from an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// Stop.
    Definite,
    /// Try again.
    Transient,
}

/// An error of any crate of cdc: a diagnostic and its consequence.
#[derive(Clone)]
pub struct Error(Box<(Consequence, Diagnostic)>);

/// The result of what can fail with an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error that comes again on every replay.
    pub fn definite(code: Code, headline: impl Into<String>) -> Error {
        Error(Box::new((Consequence::Definite, Diagnostic::error(code, headline))))
    }

    /// An error that another try may not meet.
    pub fn transient(code: Code, headline: impl Into<String>) -> Error {
        Error(Box::new((Consequence::Transient, Diagnostic::error(code, headline))))
    }

    /// Adds a line that says where or why.
    pub fn note(mut self, line: impl Into<String>) -> Error {
        self.0.1.notes.push(line.into());
        self
    }

    /// Adds a line that says what to do.
    pub fn help(mut self, line: impl Into<String>) -> Error {
        self.0.1.help.push(line.into());
        self
    }

    /// May another try succeed?
    pub fn is_transient(&self) -> bool {
        self.0.0 == Consequence::Transient
    }

    /// The same error, never tried again.
    pub fn into_definite(mut self) -> Error {
        self.0.0 = Consequence::Definite;
        self
    }

    /// Its code.
    pub fn code(&self) -> Code {
        self.0.1.code
    }

    /// What to show.
    pub fn diagnostic(&self) -> &Diagnostic {
        &self.0.1
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Error {
        Error(Box::new((Consequence::Definite, diagnostic)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.1)
    }
}

/// As it is shown: what `main` prints of an error that it returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}
