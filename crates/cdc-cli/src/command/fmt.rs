//! `cdc fmt`: the one canonical layout.

use crate::args::FmtArgs;
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::{print, printable};
use crate::surroundings::PipelineFile;
use cdc_core::{Diagnostic, Error, Result, codes};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Formats every file, or says which are not formatted.
pub fn fmt(args: &FmtArgs, told: &Told) -> Exit {
    let log = Log::new(Form::Lines, told);
    args.files.iter().map(|path| fmt_one(path, args.check, &log)).max().unwrap_or(Exit::Done)
}

fn fmt_one(path: &Path, check: bool, log: &Log) -> Exit {
    let is_stdin = path == Path::new("-");
    let file = match if is_stdin { PipelineFile::read_stdin() } else { PipelineFile::read(path) } {
        Ok(file) => file,
        Err(error) => return log.failed(&error, None),
    };
    let formatted = match cdc_dsl::format(&file.text) {
        Ok(formatted) => formatted,
        Err(diagnostics) => {
            log.refused(&diagnostics, Some(&file));
            return Exit::Refused;
        }
    };
    if check {
        return if formatted == file.text {
            Exit::Done
        } else {
            log.diagnostics(&[not_formatted(&file, &formatted, is_stdin)], None);
            Exit::Found
        };
    }
    let written = if is_stdin {
        print(&formatted)
    } else if formatted == file.text {
        Ok(())
    } else {
        replace(path, &formatted)
    };
    match written {
        Ok(()) => Exit::Done,
        Err(error) => log.failed(&error, None),
    }
}

/// Says so, and shows the first line that would be another one.
fn not_formatted(file: &PipelineFile, formatted: &str, is_stdin: bool) -> Diagnostic {
    let headline = if is_stdin {
        "standard input is not formatted".into()
    } else {
        format!("file \"{}\" is not formatted", file.name)
    };
    let diagnostic = Diagnostic::error(codes::NOT_FORMATTED, headline);
    let (mut is, mut should) = (file.text.split('\n'), formatted.split('\n'));
    let mut line = 0;
    let diagnostic = loop {
        line += 1;
        match (is.next(), should.next()) {
            (None, None) => break diagnostic,
            (a, b) if a == b => {}
            (Some(a), Some(b)) if a.trim_end_matches('\r') != b => {
                break diagnostic
                    .note(format!("line {line} is     \"{}\"", printable(a)))
                    .note(format!("formatted \"{}\"", printable(b)));
            }
            (Some(_), Some(_)) => break diagnostic.note(format!("line {line} ends in a carriage return")),
            _ => break diagnostic.note(format!("line {line}: the file ends elsewhere")),
        }
    };
    if is_stdin { diagnostic } else { diagnostic.help(format!("cdc fmt {}", file.name)) }
}

/// Puts a text in a file's place, whole or not at all: another program never reads half of it.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |e: std::io::Error| {
        Error::definite(codes::FILE_UNREADABLE, format!("file \"{}\" cannot be written: {e}", path.display()))
    };
    // a link stays a link
    let path = path.canonicalize().map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = fs::File::create_new(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::set_permissions(&beside, fs::metadata(&path)?.permissions()))
        .and_then(|()| fs::rename(&beside, &path));
    written.map_err(|e| {
        // what is left of it is of no use
        let _ = fs::remove_file(&beside);
        failed(e)
    })
}
