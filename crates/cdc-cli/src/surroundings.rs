//! The world around a pipeline file: the file itself, its folder, the environment.

use cdc_core::catalog::{Catalog, Surroundings};
use cdc_core::diagnostic::Diagnostic;
use cdc_core::schema::TableSchema;
use cdc_core::{Error, Result, codes};
use cdc_dsl::Compiled;
use cdc_mysql::ddl::{Context, parse_schema_text};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// More than any pipeline file or schema file has; a device that never ends is not read for ever.
const LARGEST_FILE: u64 = 64 << 20;

/// The MySQL version whose DDL a schema file is read as; version comments above it are passed over.
const SCHEMA_FILE_VERSION: u32 = 90_700;

/// A pipeline file.
#[derive(Debug, Clone)]
pub struct PipelineFile {
    /// As it was named on the command line.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its folder: what its paths are relative to.
    pub base: PathBuf,
}

impl PipelineFile {
    /// Reads a pipeline file.
    ///
    /// # Errors
    /// `FILE_UNREADABLE`, `FILE_NOT_TEXT`.
    pub fn read(path: &Path) -> Result<PipelineFile> {
        let text = read_text(path).map_err(|error| match with_extension(path) {
            Some(near) => error.help(format!("did you mean \"{}\"?", near.display())),
            None => error,
        })?;
        Ok(PipelineFile { name: path.display().to_string(), text, base: folder_of(path) })
    }

    /// What is read from standard input.
    ///
    /// # Errors
    /// As [`PipelineFile::read`].
    pub fn read_stdin() -> Result<PipelineFile> {
        let text = read_all(io::stdin().lock(), "standard input")?;
        Ok(PipelineFile { name: "standard input".to_owned(), text, base: PathBuf::from(".") })
    }

    /// Checks and lowers it. `lenient`: what is missing in the environment is a warning, not an error.
    pub fn compile(&self, parameters: &BTreeMap<String, String>, lenient: bool) -> Compiled {
        let connectors = cdc_runtime::connectors();
        let catalog =
            Catalog { connectors: &connectors, parameters, surroundings: self, lenient_environment: lenient };
        cdc_dsl::compile(&self.text, &catalog)
    }
}

impl Surroundings for PipelineFile {
    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn schema_file(&self, path: &str, database: Option<&str>) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
        let text = read_text(&self.base.join(path)).map_err(|e| vec![e.diagnostic().clone()])?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        parse_schema_text(text, database, &Context::mysql(SCHEMA_FILE_VERSION)).map_err(|diagnostics| {
            let in_file = |mut d: Diagnostic| {
                // places in that file are none in the pipeline file
                d.labels.clear();
                d.note(format!("in schema file \"{path}\""))
            };
            diagnostics.into_iter().map(in_file).collect()
        })
    }
}

/// The folder a file is in.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// `shop.cdc` for a `shop` that is not there.
fn with_extension(path: &Path) -> Option<PathBuf> {
    let mut name = path.file_name()?.to_owned();
    name.push(".cdc");
    let near = path.with_file_name(name);
    (!path.exists() && near.is_file()).then_some(near)
}

fn read_text(path: &Path) -> Result<String> {
    let shown = format!("file \"{}\"", path.display());
    if path.is_dir() {
        return Err(Error::definite(
            codes::FILE_UNREADABLE,
            format!("\"{}\" is a folder, not a file", path.display()),
        ));
    }
    let file = File::open(path).map_err(|e| unreadable(&shown, &e))?;
    read_all(file, &shown)
}

fn read_all(from: impl Read, shown: &str) -> Result<String> {
    let mut bytes = Vec::new();
    from.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(|e| unreadable(shown, &e))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(Error::definite(
            codes::FILE_UNREADABLE,
            format!("{shown} has more than {} MB, which no file of this kind has", LARGEST_FILE >> 20),
        ));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
        Error::definite(codes::FILE_NOT_TEXT, format!("{shown} is not UTF-8 text"))
            .note(format!("line {line}, byte {at} of the file is not"))
            .help("save it as UTF-8")
    })
}

fn unreadable(shown: &str, error: &io::Error) -> Error {
    Error::definite(codes::FILE_UNREADABLE, format!("{shown} cannot be read: {error}"))
}
