//! A diagnostic is data: a code, a headline that stands alone, places, help. Renderers are elsewhere.
//!
//! House shape of a message: `error[E0214]: table "shop.orders" has no primary key`, then where, then
//! `help:` with what to do (the statement to run). Lower case, no full stop, double quotes around names.

pub mod codes;

use std::fmt;
use std::ops::Range;

/// A code of the register: never reused, never changed in meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    /// Its number; shown as `E` and four digits.
    pub number: u16,
    /// What it stands for, in a few words.
    pub title: &'static str,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.number)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How much a diagnostic weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Nothing is refused; it is worth knowing.
    Warning,
    /// What was asked cannot be done.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Bytes of the pipeline file, from and up to.
pub type Span = Range<usize>;

/// A part of the pipeline file, and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The bytes meant.
    pub span: Span,
    /// Shown beside them; may be empty.
    pub message: String,
}

/// Something to be said to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its code.
    pub code: Code,
    /// Its weight.
    pub severity: Severity,
    /// What happened; stands alone.
    pub headline: String,
    /// Where in the pipeline file; the first is the main one. Empty where the file has no part in it.
    pub labels: Vec<Label>,
    /// Where else: table, position, file, statement; each a line.
    pub notes: Vec<String>,
    /// What to do, each a line; the statement to run where there is one.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error.
    pub fn error(code: Code, headline: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            headline: headline.into(),
            labels: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }

    /// A warning.
    pub fn warning(code: Code, headline: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, headline) }
    }

    /// Adds a place in the pipeline file.
    pub fn at(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, message: message.into() });
        self
    }

    /// Adds a line that says where or why.
    pub fn note(mut self, line: impl Into<String>) -> Diagnostic {
        self.notes.push(line.into());
        self
    }

    /// Adds a line that says what to do.
    pub fn help(mut self, line: impl Into<String>) -> Diagnostic {
        self.help.push(line.into());
        self
    }
}

/// Without the pipeline file's text: the headline, then notes and help, a line each.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity, self.code, self.headline)?;
        for note in &self.notes {
            write!(f, "\n  note: {note}")?;
        }
        for help in &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}
