//! What is written, and how it looks.

use crate::surroundings::PipelineFile;
use cdc_core::diagnostic::{Diagnostic, Severity};
use cdc_core::{Error, Result, codes};
use cdc_dsl::report;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Writes to standard output. A reader that went away has what it wanted: no error.
///
/// # Errors
/// `TARGET_WRITE` if the output takes no more, such as a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Error::definite(codes::TARGET_WRITE, format!("writing to standard output failed: {e}")))
        }
        _ => Ok(()),
    }
}

/// Writes a JSON document to standard output, for programs: indented, with a line end.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &Value) -> Result<()> {
    print(&format!("{value:#}\n"))
}

/// Writes to standard error. There is nobody to tell that it failed.
pub fn eprint(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// How words look.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    color: bool,
    /// Columns of the terminal, or those of a page where there is none.
    width: Option<usize>,
}

impl Style {
    fn of(is_terminal: bool, terminal: impl FnOnce() -> console::Term) -> Style {
        if !is_terminal {
            return Style::default();
        }
        let (_, columns) = terminal().size();
        let color = !is_set("NO_COLOR") && !is_dumb(std::env::var_os("TERM").as_deref());
        Style { color, width: Some(usize::from(columns).max(40)) }
    }

    /// Columns of the terminal, if it is one.
    pub fn columns(self) -> Option<usize> {
        self.width
    }

    /// The same for diagnostics.
    pub fn report(self) -> report::Style {
        let Some(width) = self.width else { return report::Style::default() };
        report::Style { color: self.color, width }
    }

    /// A word that is to be seen.
    pub fn bold(self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How words on standard error look.
pub fn stderr_style() -> Style {
    Style::of(io::stderr().is_terminal(), console::Term::stderr)
}

/// How words on standard output look.
pub fn stdout_style() -> Style {
    Style::of(io::stdout().is_terminal(), console::Term::stdout)
}

/// Can lines on standard error be drawn over? Not in a pipe, not on a terminal without a cursor, and not in what
/// keeps a log of a terminal.
pub fn takes_a_view() -> bool {
    io::stderr().is_terminal() && !is_dumb(std::env::var_os("TERM").as_deref()) && !is_set("CI")
}

/// A terminal that only takes text.
fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|t| t == "dumb")
}

/// As no-color.org has it, and CI services too: there, and not empty.
fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|v| !v.is_empty())
}

/// Diagnostics as text. Those that have a place in the file are shown with its lines; `file` is `None` for what
/// the engine says without one.
pub fn render(diagnostics: &[Diagnostic], file: Option<&PipelineFile>, style: report::Style) -> String {
    if let Some(file) = file {
        return report::render(diagnostics, &file.name, &file.text, style);
    }
    let paint = |color: &str, text: &str| {
        if style.color { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
    };
    let mut out = String::new();
    for d in diagnostics {
        let head = paint(
            if d.severity == Severity::Error { "1;31" } else { "1;33" },
            &format!("{}[{}]", d.severity, d.code),
        );
        _ = writeln!(out, "{head}{}", paint("1", &format!(": {}", printable(&d.headline))));
        for (word, lines) in [("note:", &d.notes), ("help:", &d.help)] {
            for line in lines {
                _ = writeln!(out, "  {} {}", paint("1", word), printable(line));
            }
        }
    }
    out
}

/// Diagnostics as JSON.
pub fn to_json(diagnostics: &[Diagnostic], file: Option<&PipelineFile>) -> Vec<Value> {
    let (name, text) = file.map_or(("", ""), |f| (f.name.as_str(), f.text.as_str()));
    let mut found = match report::to_json(diagnostics, name, text) {
        Value::Array(found) => found,
        other => vec![other],
    };
    if file.is_none() {
        found.iter_mut().filter_map(Value::as_object_mut).for_each(|d| {
            d.insert("file".to_owned(), Value::Null);
        });
    }
    found
}

/// The document that says why there is no other one.
pub fn refusal(diagnostics: &[Diagnostic], file: Option<&PipelineFile>) -> Value {
    json!({ "ok": false, "diagnostics": to_json(diagnostics, file) })
}

/// Text of servers, rows and file names on one line, without characters that move the cursor.
pub fn printable(text: &str) -> Cow<'_, str> {
    let moves = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(moves) {
        Cow::Owned(
            text.chars()
                .map(|c| {
                    if c == '\n' || c == '\t' {
                        ' '
                    } else if moves(c) {
                        '\u{fffd}'
                    } else {
                        c
                    }
                })
                .collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
}

/// `1 row`, `2 rows`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The first few of many, and how many more there are.
pub fn some_of(names: &[String], most: usize) -> String {
    let mut text = names[..names.len().min(most)].join(", ");
    if names.len() > most {
        _ = write!(text, " and {} more", names.len() - most);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_server_moves_the_cursor() {
        assert_eq!(printable("a\nb\x1b[2J"), "a b\u{fffd}[2J");
        let error = Diagnostic::error(codes::SERVER_ERROR, "x\nerror[E1]: y").note("n").help("h");
        let text = render(&[error], None, report::Style::default());
        assert_eq!(text, "error[E1007]: x error[E1]: y\n  note: n\n  help: h\n");
    }

    #[test]
    fn few_of_many() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(some_of(&names, 3), "a, b, c");
        assert_eq!(some_of(&names, 2), "a, b and 1 more");
        assert_eq!(count(1, "row"), "1 row");
        assert_eq!(count(0, "row"), "0 rows");
    }
}
