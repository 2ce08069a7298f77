//! Lines at the bottom of a terminal that are drawn again and again, below words that stay.
//!
//! The cursor always stands at the beginning of the line below them. So what the terminal itself echoes, such as
//! `^C`, stands there too, and goes with the next frame; behind the last line it would wrap, and the frame would be
//! taken to be one line shorter than it is.

use crate::output::eprint;
use console::{Term, measure_text_width};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// The lines, shared by those who write above them.
#[derive(Debug, Clone, Default)]
pub struct Screen(Arc<Mutex<Vec<String>>>);

impl Screen {
    /// Rows and columns; 0: the terminal does not say.
    pub fn size() -> (usize, usize) {
        let (rows, columns) = Term::stderr().size();
        (rows.into(), columns.into())
    }

    /// Draws these lines in the place of those that are there.
    pub fn show(&self, mut lines: Vec<String>) {
        let (rows, columns) = Screen::size();
        if rows > 0 {
            // what has left the screen cannot be drawn over
            lines.truncate(rows.saturating_sub(1).max(1));
        }
        let mut drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        eprint(&frame(rows_of(&drawn, columns), &lines));
        *drawn = lines;
    }

    /// Writes words that stay, above the lines.
    pub fn above(&self, write: impl FnOnce()) {
        let drawn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, columns) = Screen::size();
        eprint(&frame(rows_of(&drawn, columns), &[]));
        write();
        eprint(&frame(0, &drawn));
    }

    /// Takes the lines away.
    pub fn clear(&self) {
        self.show(Vec::new());
    }
}

/// The rows that lines take on a terminal that may have become narrower since they were drawn.
fn rows_of(lines: &[String], columns: usize) -> usize {
    let rows =
        |line: &String| if columns == 0 { 1 } else { measure_text_width(line).div_ceil(columns).max(1) };
    lines.iter().map(rows).sum()
}

/// One text, so that a frame is drawn whole or not at all: up over so many rows, the lines, and nothing below.
fn frame(over: usize, lines: &[String]) -> String {
    let mut out = String::new();
    if over > 0 {
        _ = write!(out, "\r\x1b[{over}A");
    }
    for line in lines {
        _ = write!(out, "\r{line}\x1b[K\r\n");
    }
    if over > 0 {
        out.push_str("\x1b[J");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal of so many columns shows: of the sequences, those that a frame has.
    fn shown(written: &str, columns: usize) -> Vec<String> {
        let mut rows = vec![String::new()];
        let (mut row, mut column) = (0, 0);
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\r' => column = 0,
                '\n' => row += 1,
                '\x1b' => {
                    let at = rest.find(|c: char| c.is_ascii_alphabetic()).expect("a sequence ends");
                    match &rest[at..=at] {
                        "A" => row -= rest[1..at].parse::<usize>().expect("a number").min(row),
                        "K" => rows[row].truncate(column),
                        _ => {
                            rows[row].truncate(column);
                            rows.truncate(row + 1);
                        }
                    }
                    rest = &rest[at + 1..];
                }
                c => {
                    if column == columns {
                        (row, column) = (row + 1, 0);
                        rows.resize(rows.len().max(row + 1), String::new());
                    }
                    let line = &mut rows[row];
                    if column < line.len() {
                        line.remove(column);
                    }
                    line.insert(column, c);
                    column += 1;
                }
            }
            rows.resize(rows.len().max(row + 1), String::new());
        }
        rows
    }

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_frame_takes_the_place_of_the_one_before() {
        let (first, second) = (lines(&["head one", "a long table", "b"]), lines(&["head", "b"]));
        let written = format!("words\r\n{}{}", frame(0, &first), frame(3, &second));
        assert_eq!(shown(&written, 40), ["words", "head", "b", ""]);
        assert_eq!(shown(&format!("{written}{}", frame(2, &[])), 40), ["words", ""]);
    }

    #[test]
    fn what_the_terminal_echoes_goes_with_the_next_frame() {
        let full = lines(&["0123456789"]);
        let written = format!("{}^C{}stopping\r\n", frame(0, &full), frame(rows_of(&full, 10), &[]));
        assert_eq!(shown(&written, 10), ["stopping", ""]);
    }

    #[test]
    fn a_terminal_that_became_narrower_holds_more_rows() {
        let drawn = lines(&["0123456789", "", "01234"]);
        assert_eq!([0, 4, 5, 10].map(|columns| rows_of(&drawn, columns)), [3, 6, 4, 3]);
    }
}
