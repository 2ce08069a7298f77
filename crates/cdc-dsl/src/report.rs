//! Diagnostics for people and for programs. A diagnostic is data; what it looks like is decided here.

use cdc_core::diagnostic::{Diagnostic, Label, Severity};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// How reports look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// With the colours of a terminal.
    pub color: bool,
    /// Columns of the terminal; longer lines of the file are cut around what is meant.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style { color: false, width: 100 }
    }
}

/// Columns of a tab.
const TAB: usize = 4;

/// Diagnostics as text: for each its code and headline, the place, the lines with carets below what is
/// meant, notes and help.
pub fn render(diagnostics: &[Diagnostic], file: &str, text: &str, style: Style) -> String {
    let lines = Lines::new(text);
    let mut out = String::new();
    for (i, diagnostic) in diagnostics.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        Renderer { file, lines: &lines, style, out: &mut out }.diagnostic(diagnostic);
    }
    out
}

/// Diagnostics as JSON: an array of objects with `code`, `severity`, `message`, `file`, `line`, `column`,
/// `end_line`, `end_column` (from 1, in characters, the end behind the last; null without a place),
/// `labels`, `notes`, `help`.
pub fn to_json(diagnostics: &[Diagnostic], file: &str, text: &str) -> Value {
    let lines = Lines::new(text);
    let place = |span: &Range<usize>| {
        let (line, column) = lines.position(span.start);
        let (end_line, end_column) = lines.position(span.end.max(span.start));
        (line, column, end_line, end_column)
    };
    let label = |l: &Label| {
        let (line, column, end_line, end_column) = place(&l.span);
        json!({
            "line": line, "column": column, "end_line": end_line, "end_column": end_column,
            "message": l.message,
        })
    };
    diagnostics
        .iter()
        .map(|d| {
            let main = d.labels.first().map(|l| place(&l.span));
            json!({
                "code": d.code.to_string(),
                "severity": d.severity.to_string(),
                "message": d.headline,
                "file": file,
                "line": main.map(|p| p.0),
                "column": main.map(|p| p.1),
                "end_line": main.map(|p| p.2),
                "end_column": main.map(|p| p.3),
                "labels": d.labels.iter().map(label).collect::<Vec<_>>(),
                "notes": d.notes,
                "help": d.help,
            })
        })
        .collect()
}

/// The lines of a text, by byte.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Lines<'a> {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Lines { text, starts: std::iter::once(0).chain(breaks).collect() }
    }

    /// The line of a byte, from 0.
    fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|s| *s <= at).saturating_sub(1)
    }

    /// The line's bytes, without its end.
    fn range(&self, line: usize) -> Range<usize> {
        let start = self.starts.get(line).copied().unwrap_or(self.text.len());
        let end = self.starts.get(line + 1).map_or(self.text.len(), |next| next - 1);
        let trimmed = self.text[start..end].trim_end_matches('\r').len();
        start..start + trimmed
    }

    /// A byte that is in the text and begins a character.
    fn clamp(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Line and column of a byte, from 1; the column in characters.
    fn position(&self, at: usize) -> (usize, usize) {
        let at = self.clamp(at);
        let line = self.line(at);
        let start = self.starts[line];
        (line + 1, self.text[start..at].chars().filter(|c| *c != '\u{feff}').count() + 1)
    }
}

/// A character as it is shown: nothing that moves the cursor or hides text gets through.
fn shown(c: char) -> (char, usize) {
    match c {
        '\u{feff}' => ('\u{feff}', 0),
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ('\u{fffd}', 1),
        c => match c.width() {
            Some(width) => (c, width),
            None => ('\u{fffd}', 1),
        },
    }
}

struct Renderer<'a> {
    file: &'a str,
    lines: &'a Lines<'a>,
    style: Style,
    out: &'a mut String,
}

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const BOLD: &str = "\x1b[1m";

impl Renderer<'_> {
    fn paint(&self, color: &str, text: &str) -> String {
        if self.style.color && !text.is_empty() { format!("{color}{text}\x1b[0m") } else { text.to_owned() }
    }

    fn diagnostic(&mut self, d: &Diagnostic) {
        let main_color = if d.severity == Severity::Error { RED } else { YELLOW };
        let head = self.paint(main_color, &format!("{}[{}]", d.severity, d.code));
        let headline = self.paint(BOLD, &format!(": {}", one_line(&d.headline)));
        _ = writeln!(self.out, "{head}{headline}");
        match d.labels.first() {
            Some(main) => {
                let (line, column) = self.lines.position(main.span.start);
                let last = d.labels.iter().map(|l| self.lines.position(l.span.start).0).max().unwrap_or(line);
                let gutter = last.to_string().len();
                let arrow = self.paint(BLUE, "-->");
                _ = writeln!(self.out, "{:gutter$}{arrow} {}:{line}:{column}", "", self.file);
                self.labels(&d.labels, gutter, main_color);
            }
            None => {
                let arrow = self.paint(BLUE, "-->");
                _ = writeln!(self.out, " {arrow} {}", self.file);
            }
        }
        for note in &d.notes {
            let word = self.paint(BOLD, "note:");
            _ = writeln!(self.out, "{word} {note}");
        }
        for help in &d.help {
            let word = self.paint(BOLD, "help:");
            _ = writeln!(self.out, "{word} {help}");
        }
    }

    fn bar(&mut self, gutter: usize, number: Option<usize>) {
        let number = number.map_or(String::new(), |n| n.to_string());
        let bar = self.paint(BLUE, &format!("{number:>gutter$} |"));
        self.out.push_str(&bar);
    }

    /// The lines meant, in the order of the file; a gap between them shows as `...`.
    fn labels(&mut self, labels: &[Label], gutter: usize, main_color: &str) {
        let mut by_line: Vec<(usize, usize)> = labels
            .iter()
            .enumerate()
            .map(|(i, l)| (self.lines.line(self.lines.clamp(l.span.start)), i))
            .collect();
        by_line.sort_unstable();
        self.bar(gutter, None);
        self.out.push('\n');
        let mut previous: Option<usize> = None;
        for (line, index) in by_line {
            let label = &labels[index];
            let window = self.window(line, label, gutter);
            if previous != Some(line) || window.start > self.lines.range(line).start {
                if previous.is_some_and(|p| line > p + 1) {
                    let dots = self.paint(BLUE, "...");
                    _ = writeln!(self.out, "{dots}");
                }
                self.source_line(line, &window, gutter);
            }
            previous = Some(line);
            let (mark, color) = if index == 0 { ('^', main_color) } else { ('-', BLUE) };
            self.carets(label, &window, gutter, mark, color);
        }
        self.bar(gutter, None);
        self.out.push('\n');
    }

    /// The part of a line that is shown: all of it if it fits, else what is around the label.
    fn window(&self, line: usize, label: &Label, gutter: usize) -> Range<usize> {
        let range = self.lines.range(line);
        let room = self.style.width.saturating_sub(gutter + 6).max(40);
        let text = &self.lines.text[range.clone()];
        if text.chars().map(|c| if c == '\t' { TAB } else { shown(c).1 }).sum::<usize>() <= room {
            return range;
        }
        let at = self.lines.clamp(label.span.start).clamp(range.start, range.end);
        let before = &self.lines.text[range.start..at];
        let lead = before.chars().rev().take(room / 3).map(char::len_utf8).sum::<usize>();
        let start = at - lead;
        let length = self.lines.text[start..range.end].chars().take(room).map(char::len_utf8).sum::<usize>();
        start..start + length
    }

    fn source_line(&mut self, line: usize, window: &Range<usize>, gutter: usize) {
        self.bar(gutter, Some(line + 1));
        let range = self.lines.range(line);
        let mut text = String::new();
        if window.start > range.start {
            text.push('…');
        }
        for c in self.lines.text[window.clone()].chars() {
            match c {
                '\t' => text.push_str(&" ".repeat(TAB)),
                '\u{feff}' => {}
                c => text.push(shown(c).0),
            }
        }
        if window.end < range.end {
            text.push('…');
        }
        if !text.is_empty() {
            _ = write!(self.out, " {}", text.trim_end());
        }
        self.out.push('\n');
    }

    fn carets(&mut self, label: &Label, window: &Range<usize>, gutter: usize, mark: char, color: &str) {
        let width = |from: usize, to: usize| {
            self.lines.text[from..to].chars().map(|c| if c == '\t' { TAB } else { shown(c).1 }).sum::<usize>()
        };
        let line_start = self.lines.range(self.lines.line(window.start)).start;
        let start = self.lines.clamp(label.span.start).clamp(window.start, window.end);
        let end = self.lines.clamp(label.span.end).clamp(start, window.end);
        let cut = usize::from(window.start > line_start);
        let indent = " ".repeat(cut + width(window.start, start));
        let marks = mark.to_string().repeat(width(start, end).max(1));
        let message =
            if label.message.is_empty() { String::new() } else { format!(" {}", one_line(&label.message)) };
        let painted = self.paint(color, &format!("{marks}{message}"));
        self.bar(gutter, None);
        _ = writeln!(self.out, " {indent}{painted}");
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
