//! Lines of JSON, appended to a file. What a line looks like: `format.rs`.
//!
//! At least once. A commit is: all lines of its ticks written, then `fsync`; the committer keeps the binding
//! in the state folder afterwards. A crash between the two leaves whole ticks in the file that come again
//! after the restart; a crash before the `fsync` may leave part of a tick, which comes again whole. A reader
//! that wants each change once drops the lines whose tick is not greater than the last tick that it took up
//! to its end (a tick has ended when a greater one begins).
//!
//! A line that a crash tore is cut off when the file is opened again: it has no newline, and every line is
//! written with its own. The file must be ours: it begins as lines of this sink do, else it is refused before
//! a byte of it is cut. (After a crash of the machine, not of the process, a file system may also bring back
//! zeros behind the last `fsync`: those belong to ticks that come again.)
//!
//! `rollback` cuts the file back to the last commit, so a tick that failed halfway and is tried again is not
//! in the file twice. Two runs on one file: the second does not get the file's lock.

use crate::format::{FORMATS, Formatter};
use crate::registry::{path_option, word_option};
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind};
use cdc_core::connector::{
    Delivery, JobIdentity, Resume, Sink, TargetBatch, TargetSchemaChange, TargetTable,
};
use cdc_core::plan::SinkPlan;
use cdc_core::position::Binding;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, codes};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines are written to the file in pieces of at least this many bytes.
const PIECE: usize = 256 * 1024;

/// The connector, for the language.
pub fn descriptor() -> ConnectorDescriptor {
    ConnectorDescriptor {
        name: "jsonl",
        role: ConnectorRole::Sink,
        help: "appends every change to a file, a line of JSON each; at least once",
        options: vec![
            OptionDescriptor {
                name: "path",
                kind: OptionKind::Path,
                required: true,
                default: None,
                help: "the file, relative to the pipeline file; it is appended to",
                not_yet: None,
            },
            format_option(),
        ],
        example: "sink feed = jsonl { path = \"feed.jsonl\", format = \"plain\" }",
    }
}

fn format_option() -> OptionDescriptor {
    OptionDescriptor {
        name: "format",
        kind: OptionKind::Choice(FORMATS),
        required: false,
        default: Some("debezium-json"),
        help: "what a line looks like: Debezium's envelope, Canal's flat message, or tick, table, key and row",
        not_yet: None,
    }
}

/// The sink.
pub struct JsonlSink {
    path: PathBuf,
    formatter: Formatter,
    buffer: Vec<u8>,
    file: Option<File>,
    /// The file's length at the last commit.
    committed: u64,
    /// Bytes written to the file since.
    written: u64,
}

impl JsonlSink {
    /// The sink of a plan; opens nothing yet.
    ///
    /// # Errors
    /// `MISSING_OPTION`, `OPTION_VALUE`.
    pub fn from_plan(plan: &SinkPlan, base: &Path) -> Result<JsonlSink> {
        let path = path_option(plan, base)?;
        Ok(JsonlSink::new(path, word_option(plan, "format", FORMATS)?))
    }

    fn new(path: PathBuf, format: &str) -> JsonlSink {
        JsonlSink {
            path,
            formatter: Formatter::new(format),
            buffer: Vec::new(),
            file: None,
            committed: 0,
            written: 0,
        }
    }

    /// Looks whether the file can be appended to, and how much of it is whole lines. `None`: not there yet.
    fn look(&self) -> Result<Option<u64>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let folder = self.path.parent().filter(|p| !p.as_os_str().is_empty());
                return match folder {
                    Some(folder) if !folder.is_dir() => {
                        Err(self.cannot_open(&e).help(format!("make the folder \"{}\"", folder.display())))
                    }
                    _ => Ok(None),
                };
            }
            Err(e) => return Err(self.cannot_open(&e)),
        };
        let length = match file.metadata() {
            Ok(m) if m.is_file() => m.len(),
            Ok(_) => return Err(self.cannot_open(&io::Error::other("it is not a file"))),
            Err(e) => return Err(self.cannot_open(&e)),
        };
        let whole = whole_lines(&mut file, length).map_err(|e| self.cannot_open(&e))?;
        let ours = is_ours(&mut file).map_err(|e| self.cannot_open(&e))?;
        if !ours {
            return Err(Error::definite(
                codes::TARGET_NOT_OURS,
                format!("file \"{}\" holds something else than lines of this sink", self.path.display()),
            )
            .note("its first line is not one that cdc wrote, so nothing is appended and nothing cut off")
            .help("give another path, or move the file away"));
        }
        Ok(Some(whole))
    }

    fn cannot_open(&self, e: &io::Error) -> Error {
        Error::definite(codes::TARGET_OPEN, format!("file \"{}\" cannot be opened: {e}", self.path.display()))
    }

    fn write_error(&self, doing: &str, e: &io::Error) -> Error {
        let headline = format!("file \"{}\": {doing} failed: {e}", self.path.display());
        match e.kind() {
            // Room can be made, a network file system can come back.
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Error::transient(codes::TARGET_WRITE, headline).help("make room on the disk")
            }
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied | ErrorKind::FileTooLarge => {
                Error::definite(codes::TARGET_WRITE, headline)
            }
            _ => Error::transient(codes::TARGET_WRITE, headline),
        }
    }

    fn not_claimed() -> Error {
        Error::definite(codes::INTERNAL, "the jsonl sink was written to before it was claimed")
    }

    /// Writes the buffer to the file.
    fn drain(&mut self) -> Result<()> {
        let Some(file) = self.file.as_mut() else { return Err(Self::not_claimed()) };
        let result = file.write_all(&self.buffer);
        match result {
            Ok(()) => {
                self.written += self.buffer.len() as u64;
                self.buffer.clear();
                Ok(())
            }
            Err(e) => {
                let error = self.write_error("writing", &e);
                self.rollback();
                Err(error)
            }
        }
    }
}

/// The length of the file up to its last newline.
fn whole_lines(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut piece = vec![0; 64 * 1024];
    while end > 0 {
        let start = end.saturating_sub(piece.len() as u64);
        let part = &mut piece[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(i) = part.iter().rposition(|b| *b == b'\n') {
            return Ok(start + i as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// True if the file is empty or begins as lines of this sink do, as far as it goes.
fn is_ours(file: &mut File) -> io::Result<bool> {
    const STARTS: [&[u8]; 4] = [b"{\"before\":", b"{\"tick\":", b"{\"schema_change\":", b"{\"data\":"];
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(20).read_to_end(&mut head)?;
    Ok(STARTS.iter().any(|start| start.iter().zip(&head).all(|(a, b)| a == b)))
}

impl Sink for JsonlSink {
    fn delivery(&self) -> Delivery {
        Delivery::Log
    }

    fn inspect(&mut self, _job: &JobIdentity) -> Result<Option<Resume>> {
        self.look().map(|_| None)
    }

    fn holds_progress(&self) -> bool {
        false
    }

    fn check(&mut self, _table: &TargetTable) -> Result<()> {
        Ok(())
    }

    fn claim(&mut self, job: &JobIdentity) -> Result<()> {
        self.formatter.pipeline = job.pipeline.clone();
        self.file = None;
        self.look()?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)
            .map_err(|e| self.cannot_open(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::transient(
                    codes::TARGET_BUSY,
                    format!("file \"{}\" is being written by another run", self.path.display()),
                )
                .help("stop the other run, or give another path"));
            }
            // A file system without locks: the lock of the state folder has to do.
            Err(TryLockError::Error(_)) => {}
        }
        // Once more, under the lock.
        let whole = self.look()?.unwrap_or(0);
        let cut = file.set_len(whole).and_then(|()| file.sync_all());
        cut.map_err(|e| self.write_error("cutting off a torn line", &e))?;
        sync_folder(&self.path);
        self.file = Some(file);
        self.committed = whole;
        self.written = 0;
        self.buffer.clear();
        self.formatter.rollback();
        Ok(())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        self.formatter.prepare(table);
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        self.formatter.batch(&mut self.buffer, batch);
        if self.buffer.len() >= PIECE { self.drain() } else { Ok(()) }
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        self.formatter.schema_change(change);
        Ok(())
    }

    fn commit(&mut self, tick: Tick, _binding: &Binding) -> Result<()> {
        self.formatter.schema_changes(&mut self.buffer, tick);
        if self.buffer.is_empty() && self.written == 0 {
            return Ok(());
        }
        self.drain()?;
        let Some(file) = self.file.as_ref() else { return Err(Self::not_claimed()) };
        if let Err(e) = file.sync_data() {
            let error = self.write_error("fsync", &e);
            self.rollback();
            return Err(error);
        }
        self.committed += self.written;
        self.written = 0;
        Ok(())
    }

    fn rollback(&mut self) {
        self.buffer.clear();
        self.formatter.rollback();
        self.written = 0;
        if let Some(file) = &self.file {
            // If it fails, the tick is in the file twice: at least once.
            drop(file.set_len(self.committed));
        }
    }
}

/// Makes the file's name durable, where folders can be synced.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        drop(folder.sync_all());
    }
}
