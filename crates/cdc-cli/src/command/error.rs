//! `cdc error`: the page of a code, or all codes.

use crate::args::ErrorArgs;
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::{self, Style, print, printable};
use crate::pages;
use cdc_core::diagnostic::Code;
use cdc_core::diagnostic::codes::{self, by_number};
use cdc_core::{Error, Result};
use std::fmt::Write as _;

/// Codes that are suggested, at most.
const MOST: usize = 4;

/// What the first two digits of a code say.
const RANGES: &[(u16, &str)] = &[
    (1, "syntax"),
    (2, "names and structure of a pipeline"),
    (3, "types and expressions"),
    (4, "options and parameters"),
    (5, "what this version does not do yet"),
    (10, "connection and preflight"),
    (11, "snapshot"),
    (12, "log"),
    (13, "DDL and decoding"),
    (20, "targets"),
    (30, "runtime and state"),
    (40, "command line"),
];

/// Explains a code.
pub fn error(args: &ErrorArgs) -> Exit {
    let style = output::stdout_style();
    let text = match &args.code {
        None => Ok(list(style)),
        Some(written) => page(written, style),
    };
    match text.and_then(|text| print(&text)) {
        Ok(()) => Exit::Done,
        // what it would be explained by is what was just misspelt
        Err(error) => Log::new(Form::Lines, &Told::default()).failed(&error, None),
    }
}

fn list(style: Style) -> String {
    let mut out = String::new();
    for (range, about) in RANGES {
        _ = writeln!(out, "{}", style.bold(&format!("{range:02}  {about}")));
        for code in codes::ALL.iter().filter(|code| code.number / 100 == *range) {
            _ = writeln!(out, "  {code}  {}", code.title);
        }
    }
    out.push_str("\ncdc error CODE explains one of them.\n");
    out
}

fn page(written: &str, style: Style) -> Result<String> {
    let Some(code) = read(written) else {
        // a word: what has to do with it
        let found = if written.contains(|c: char| c.is_ascii_digit()) { Vec::new() } else { near(written) };
        if found.is_empty() {
            return Err(unknown(written));
        }
        return Ok(found.iter().map(|code| format!("{code}  {}\n", code.title)).collect());
    };
    Ok(match pages::of(code) {
        Some(page) => plain(page, style),
        None => format!("{code}: {}\n", code.title),
    })
}

/// `E1004`, `e1004`, `1004`, `error[E1004]`, `E101` for `E0101`.
fn read(written: &str) -> Option<Code> {
    let inner = written.split_once('[').map_or(written, |(_, rest)| rest.trim_end_matches([']', ':']));
    let digits = inner.trim().trim_start_matches(['E', 'e']);
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    by_number(digits.parse().ok()?)
}

fn unknown(written: &str) -> Error {
    let error = Error::definite(codes::USAGE, format!("there is no code \"{}\"", printable(written)));
    let near = near(written);
    let error = if near.is_empty() {
        error
    } else {
        let names: Vec<String> = near.iter().map(|code| format!("{code} ({})", code.title)).collect();
        error.help(format!("did you mean {}?", names.join(", ")))
    };
    error.help("cdc error lists all codes")
}

/// Codes that may be meant: written almost like this, else of the same range, else with this word in their title.
fn near(written: &str) -> Vec<Code> {
    let digits: String = written.chars().filter(char::is_ascii_digit).collect();
    let number = digits.parse::<u16>().unwrap_or(0);
    let choose = |fits: &dyn Fn(&Code) -> bool| -> Vec<Code> {
        let mut fitting: Vec<Code> = codes::ALL.iter().copied().filter(|code| fits(code)).collect();
        fitting.sort_by_key(|code| code.number.abs_diff(number));
        fitting.truncate(MOST);
        fitting
    };
    if digits.is_empty() {
        let word = written.trim().to_lowercase();
        return if word.len() < 3 { Vec::new() } else { choose(&|c| c.title.to_lowercase().contains(&word)) };
    }
    let slips = choose(&|code| is_slip(&digits, &format!("{:04}", code.number)));
    if !slips.is_empty() {
        return slips;
    }
    choose(&|code| code.number / 100 == number / 100)
}

/// One digit is wrong, missing or too many, or two neighbours are swapped.
fn is_slip(written: &str, code: &str) -> bool {
    let (a, b) = (written.as_bytes(), code.as_bytes());
    let without = |long: &[u8], short: &[u8]| {
        (0..long.len()).any(|i| long[..i] == short[..i] && long[i + 1..] == short[i..])
    };
    if a.len() == b.len() {
        let wrong: Vec<usize> = (0..a.len()).filter(|i| a[*i] != b[*i]).collect();
        return match wrong[..] {
            [_] => true,
            [i, j] => j == i + 1 && a[i] == b[j] && a[j] == b[i],
            _ => false,
        };
    }
    (a.len() == b.len() + 1 && without(a, b)) || (b.len() == a.len() + 1 && without(b, a))
}

/// A page for a terminal: headings stand out, examples are indented.
fn plain(page: &str, style: Style) -> String {
    let mut out = String::new();
    let mut in_example = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_example = !in_example;
        } else if in_example {
            _ = writeln!(out, "{}", if line.is_empty() { String::new() } else { format!("    {line}") });
        } else if let Some(heading) = line.strip_prefix("## ").or(line.strip_prefix("# ")) {
            _ = writeln!(out, "{}", style.bold(heading));
        } else {
            _ = writeln!(out, "{line}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_people_write_them() {
        for written in ["E1004", "e1004", "1004", "error[E1004]", "error[E1004]:", "[E1004]"] {
            assert_eq!(read(written), Some(codes::GRANT_MISSING), "{written}");
        }
        assert_eq!(read("E101"), Some(codes::UNEXPECTED_TOKEN));
        assert_eq!(read("101"), Some(codes::UNEXPECTED_TOKEN));
        for written in ["", "E", "E9999", "10041", "privilege", "E10x4", "-1"] {
            assert_eq!(read(written), None, "{written}");
        }
    }

    #[test]
    fn what_is_almost_a_code_leads_to_it() {
        let near = |written| near(written).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(near("E1040").contains(&"E1004".to_owned()));
        assert!(near("10004").contains(&"E1004".to_owned()));
        assert!(near("E0213").contains(&"E0214".to_owned()));
        assert_eq!(near("privilege"), ["E1004"]);
        assert_eq!(near("E1155"), ["E1104", "E1103", "E1102", "E1101"], "those of its range");
        assert!(near("E9999").is_empty() && near("x").is_empty());
    }

    #[test]
    fn every_code_is_in_a_range() {
        for code in codes::ALL {
            assert!(RANGES.iter().any(|(range, _)| code.number / 100 == *range), "{code}");
        }
    }

    #[test]
    fn a_page_reads_well_without_its_fences() {
        let page = "# E1: x\n\nText.\n\n## Example\n\n```cdc error=E1\na\n\n  b\n```\n";
        assert_eq!(plain(page, Style::default()), "E1: x\n\nText.\n\nExample\n\n    a\n\n      b\n");
    }
}
