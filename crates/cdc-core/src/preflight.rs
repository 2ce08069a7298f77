//! What a server and an account must have, looked at before anything starts.
//!
//! Every check answers with setting, expected, actual, and the statement that mends it. What is only advised stops nothing.

use crate::diagnostic::{Code, Diagnostic};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The setting or privilege.
    pub setting: String,
    /// What it must be.
    pub expected: String,
    /// What it is.
    pub actual: String,
    /// The statement that mends it.
    pub mend: String,
    /// Does it do?
    pub ok: bool,
    /// Nothing is lost without it, for now.
    pub advised: bool,
    /// The code of an error about it.
    pub code: Code,
}

impl Check {
    /// As a diagnostic, if it does not do: an error, or a warning where it is only advised.
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        if self.ok {
            return None;
        }
        let diagnostic = if self.advised {
            let headline = format!("{} is {}, {} is advised", self.setting, self.actual, self.expected);
            Diagnostic::warning(self.code, headline)
        } else {
            let headline = format!("{} is {}, {} is needed", self.setting, self.actual, self.expected);
            Diagnostic::error(self.code, headline)
        };
        Some(diagnostic.help(self.mend.clone()))
    }
}
