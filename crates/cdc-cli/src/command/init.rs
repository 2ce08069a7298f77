//! `cdc init`: looks at a server and writes a first pipeline file and the structures of its tables.
//!
//! ```text
//!   server ──► look ──► Found { taken, left out, .. } ──► write ──► shop.cdc, shop.sql
//! ```
//!
//! What is written passes `check --live`, `run` and `verify` as it stands. So a table is taken if the source's own
//! discovery takes it, and left out with the reason that it gives.

mod look;
mod write;

use super::fmt::replace;
use crate::args::InitArgs;
use crate::exit::Exit;
use crate::logging::{Form, Log, Told};
use crate::output::{count, print, printable};
use crate::surroundings::PipelineFile;
use cdc_core::{Diagnostic, Error, Result, codes};
use look::Found;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use write::Names;

/// Writes a first file.
pub fn init(args: &InitArgs, told: &Told) -> Exit {
    let log = Log::new(Form::Lines, told);
    match first_file(args, &log) {
        Ok(exit) => exit,
        Err(error) => log.failed(&error, None),
    }
}

fn first_file(args: &InitArgs, log: &Log) -> Result<Exit> {
    // a file that is in the way is told before a server is asked
    if let Some(given) = &args.output {
        Places::of(given)?.ensure_free(args.force)?;
    }
    let password = std::env::var(&args.password_env).ok().filter(|p| !p.is_empty());
    let found = look::look(&args.url, &args.user, password.as_deref(), &args.tables)
        .map_err(|error| with_password_hint(error, password.is_some(), &args.password_env))?;
    let places = match &args.output {
        Some(given) => Places::of(given)?,
        None => Places::of(&PathBuf::from(format!("{}.cdc", found.name())))?,
    };
    places.ensure_free(args.force)?;
    let names = Names {
        url: &args.url,
        user: &args.user,
        password_env: password.is_some().then_some(&*args.password_env),
        file: &places.file_name(),
        stem: &places.stem(),
    };
    let text = cdc_dsl::format(&write::pipeline(&found, &names)).map_err(|diagnostics| {
        let first = diagnostics.first().map_or(String::new(), |d| d.headline.clone());
        Error::definite(codes::INTERNAL, format!("the file that would be written cannot be read: {first}"))
    })?;
    put(&places.schema, &write::schema(&found, &names), args.force)?;
    put(&places.file, &text, args.force)?;
    // the last word is the language's own
    let file = PipelineFile::read(&places.file)?;
    let compiled = file.compile(&BTreeMap::new(), false);
    if compiled.plan.is_none() {
        log.refused(&compiled.diagnostics, Some(&file));
        return Ok(Exit::Internal);
    }
    let failures: Vec<Diagnostic> = found.failures.iter().map(as_warning).collect();
    log.diagnostics(&failures, None);
    print(&report(&found, &places, failures.len()))?;
    Ok(Exit::Done)
}

/// Where the files go.
struct Places {
    file: PathBuf,
    schema: PathBuf,
}

impl Places {
    fn of(given: &Path) -> Result<Places> {
        let file = match given.extension() {
            None => given.with_extension("cdc"),
            Some(_) => given.to_owned(),
        };
        let schema = file.with_extension("sql");
        if file == schema || file.file_name().is_none() {
            return Err(Error::definite(
                codes::USAGE,
                format!("\"{}\" is no name of a pipeline file", given.display()),
            )
            .help("--output shop.cdc writes shop.cdc, and the structures of its tables to shop.sql"));
        }
        Ok(Places { file, schema })
    }

    fn ensure_free(&self, force: bool) -> Result<()> {
        match [&self.file, &self.schema].into_iter().find(|path| !force && path.exists()) {
            Some(path) => Err(in_the_way(path)),
            None => Ok(()),
        }
    }

    fn file_name(&self) -> String {
        self.file.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn stem(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn in_the_way(path: &Path) -> Error {
    Error::definite(codes::USAGE, format!("file \"{}\" is there already", path.display()))
        .help("--output writes another one, --force writes over it")
}

/// Writes a file: a new one, or with `force` in the place of one that is there.
fn put(path: &Path, text: &str, force: bool) -> Result<()> {
    let failed = |e: io::Error| {
        Error::definite(codes::FILE_UNREADABLE, format!("file \"{}\" cannot be written: {e}", path.display()))
    };
    match File::create_new(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map_err(|e| {
            // half of it is of no use
            let _ = fs::remove_file(path);
            failed(e)
        }),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && force => replace(path, text),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(in_the_way(path)),
        Err(e) => Err(failed(e)),
    }
}

fn with_password_hint(error: Error, given: bool, variable: &str) -> Error {
    if error.code() == codes::ACCESS_DENIED && !given {
        return error
            .help(format!("the password is taken from the environment, and {variable} is not set there"));
    }
    error
}

/// What keeps a run from starting does not keep a file from being written.
fn as_warning(failure: &Diagnostic) -> Diagnostic {
    Diagnostic { severity: cdc_core::diagnostic::Severity::Warning, ..failure.clone() }
}

/// What was written, what was left out, and what to do next.
fn report(found: &Found, places: &Places, failures: usize) -> String {
    let mut out = String::new();
    let file = places.file.display().to_string();
    _ = writeln!(
        out,
        "{file}: {} of {}",
        count(found.taken.len() as u64, "table"),
        printable(&found.version)
    );
    _ = writeln!(out, "{}: their structures", places.schema.display());
    for table in found.taken.iter().filter(|t| t.key.is_empty()) {
        let id = printable(&table.id.to_string()).into_owned();
        _ = writeln!(out, "without a key: {id}: copied as a multiset, unless a flow of its own has key (..)");
    }
    for table in &found.left_out {
        _ = writeln!(out, "left out: {}: {}", printable(&table.id.to_string()), printable(&table.reason));
    }
    let file = if file.contains(char::is_whitespace) { format!("'{file}'") } else { file };
    out.push_str("\nnext:\n");
    if failures > 0 {
        out.push_str("  mend what is warned of above\n");
    }
    _ = writeln!(out, "  cdc check {file} --live");
    _ = writeln!(out, "  cdc run {file} --until caught-up");
    _ = writeln!(out, "  cdc verify {file}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_beside_the_file() {
        let places = Places::of(Path::new("conf/shop.cdc")).expect("a name");
        assert_eq!((places.file_name().as_str(), places.stem().as_str()), ("shop.cdc", "shop"));
        assert_eq!(places.schema, Path::new("conf/shop.sql"));
        assert_eq!(Places::of(Path::new("shop")).expect("a name").file, Path::new("shop.cdc"));
        for none in ["shop.sql", "..", "conf/.."] {
            assert!(Places::of(Path::new(none)).is_err(), "{none}");
        }
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.cdc");
        put(&path, "one", false).expect("it is new");
        assert_eq!(put(&path, "two", false).expect_err("it is there").code(), codes::USAGE);
        assert_eq!(fs::read_to_string(&path).expect("the file"), "one");
        put(&path, "two", true).expect("it was forced");
        assert_eq!(fs::read_to_string(&path).expect("the file"), "two");
        let nowhere = folder.path().join("none/a.cdc");
        assert_eq!(put(&nowhere, "", true).expect_err("no folder").code(), codes::FILE_UNREADABLE);
    }
}
