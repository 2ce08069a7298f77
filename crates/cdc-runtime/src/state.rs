//! The state folder: one run at a time, checkpoints, and the log of bindings.
//!
//! ```text
//! state/
//!   lock                 held (flock) for the whole run; holds host and process id for people
//!   checkpoint-00000042  the last few; a line of header, then JSON
//!   bindings             ticks given since to sinks without progress of their own, noted before they are written
//!   refusals             steps of schema changes that targets have refused since, noted before the rest is committed
//! ```
//!
//! *A checkpoint is whole or not there.* It is written to a new file, fsynced, renamed, and the folder fsynced.
//! Its header holds format version, length and CRC-32 of the body. On start the newest that is whole counts; a
//! torn one is told and the one before is used; if there are files and none is whole, the start is refused:
//! starting over would leave ghost rows at the target.
//!
//! *The checkpoint invariant.* A checkpoint at tick T is written only when every sink has committed T
//! ([`crate::job`] waits for the probe), so what it calls finished is at every target.

use cdc_core::faults;
use cdc_core::position::Binding;
use cdc_core::schema::TableSchema;
use cdc_core::tick::Tick;
use cdc_core::{Diagnostic, Error, Result, codes};
use cdc_mysql::capture::CaptureState;
use cdc_schema::evolved::Evolved;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the format; another one is refused.
const FORMAT: u32 = 1;

/// How many checkpoints are kept.
const KEPT: usize = 3;

const MAGIC: &str = "cdc-checkpoint";

/// Everything a run goes on from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The pipeline's name.
    pub pipeline: String,
    /// What the pipeline's sources read: another one cannot go on from here.
    pub fingerprint: BTreeMap<String, String>,
    /// Made with the first checkpoint; targets hold it beside their progress.
    pub job_id: String,
    /// Every sink has committed this tick. 0: the checkpoint before the first commit.
    pub tick: Tick,
    /// By source.
    pub sources: BTreeMap<String, CaptureState>,
    /// By sink: its tables as of the tick, and who feeds them.
    #[serde(default)]
    pub evolved: BTreeMap<String, Vec<Evolved>>,
    /// The tables that views read, as they were when the pipeline started first, with the columns that are held of them: views are
    /// bound to these.
    #[serde(default)]
    pub view_tables: Vec<Arc<TableSchema>>,
    /// The first tick at which views speak, once all tables are whole.
    #[serde(default)]
    pub views_from: Option<Tick>,
    /// The tick at which they fell silent, while a table that they read is copied anew.
    #[serde(default)]
    pub views_until: Option<Tick>,
}

/// A step of a schema change that a target has refused, in mode try_evolve. Noted before the tick that goes on without it is
/// committed: a replay must go on in the same way, without asking the target again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The tick that went on without it.
    pub tick: Tick,
    /// Which schema change: sink, flow, and the statement's place in the source's log.
    pub change: String,
    /// Which of its steps.
    pub step: String,
}

/// The folder, locked.
pub struct StateDir {
    dir: PathBuf,
    /// Held for the lock.
    _lock: File,
    next: u64,
    bindings: Option<File>,
}

fn unusable(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::definite(codes::STATE_UNREADABLE, format!("state folder: {what} \"{}\" failed: {error}", path.display()))
        .help("the state folder must be a folder on a local disk that this account may write; choose another with --state")
}

/// Host and process id, for people.
pub fn this_run() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|h| h.trim().to_owned())
        .or_else(|| std::env::var("HOSTNAME").ok())
        .filter(|h| !h.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    format!("process {} on {host}", std::process::id())
}

impl StateDir {
    /// Opens and locks the folder, making it if it is not there.
    ///
    /// # Errors
    /// `STATE_LOCKED` if another run has it, `STATE_UNREADABLE`.
    pub fn open(dir: &Path) -> Result<StateDir> {
        fs::create_dir_all(dir).map_err(|e| unusable(dir, "making", &e))?;
        let path = dir.join("lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| unusable(&path, "opening", &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                return Err(Error::definite(
                    codes::STATE_LOCKED,
                    "another run of this pipeline has the state folder",
                )
                .note(format!("folder: {}", dir.display()))
                .note(format!("held by: {}", holder.trim()))
                .help("stop that run first, or give this one a state folder and a target of its own"));
            }
            Err(fs::TryLockError::Error(e)) => return Err(unusable(&path, "locking", &e)),
        }
        lock.set_len(0)
            .and_then(|()| lock.write_all(this_run().as_bytes()))
            .map_err(|e| unusable(&path, "writing", &e))?;
        Ok(StateDir { dir: dir.to_owned(), _lock: lock, next: 1, bindings: None })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The newest checkpoint that is whole, and what is to be told about others. `None` if there is no file.
    ///
    /// # Errors
    /// `STATE_CORRUPT` if there are files and none is whole, `STATE_VERSION`.
    pub fn load(&mut self) -> Result<(Option<Checkpoint>, Vec<Diagnostic>)> {
        let mut found = self.files()?;
        found.sort_unstable();
        self.next = found.last().map_or(1, |(n, _)| n + 1);
        let mut notices = Vec::new();
        let any = !found.is_empty();
        for (_, path) in found.iter().rev() {
            match read_checkpoint(path) {
                Ok(checkpoint) => return Ok((Some(checkpoint), notices)),
                Err(error) if error.code() == codes::STATE_VERSION => return Err(error),
                Err(error) => {
                    notices.push(
                        Diagnostic::warning(codes::STATE_CORRUPT, error.diagnostic().headline.clone())
                            .note("the checkpoint before it is used"),
                    );
                }
            }
        }
        if any {
            let mut error =
                Error::definite(codes::STATE_CORRUPT, "no checkpoint in the state folder is whole")
                    .note(format!("folder: {}", self.dir.display()));
            for notice in notices {
                error = error.note(notice.headline);
            }
            return Err(error.help(
                "to copy everything anew: remove the state folder and the target's tables and progress; nothing was changed now",
            ));
        }
        Ok((None, notices))
    }

    /// The newest whole checkpoint of a folder that a run may have; changes nothing.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`, `STATE_VERSION`.
    pub fn peek(dir: &Path) -> Result<Option<Checkpoint>> {
        if !dir.is_dir() {
            return Ok(None);
        }
        let mut found = files(dir)?;
        found.sort_unstable();
        for (_, path) in found.iter().rev() {
            match read_checkpoint(path) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(error) if error.code() == codes::STATE_VERSION => return Err(error),
                // torn, or gone since
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Notes a refusal.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`.
    pub fn note_refusal(&mut self, refusal: &Refusal) -> Result<()> {
        let path = self.dir.join("refusals");
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            // a line of its own behind one that was torn
            file.write_all(format!("\n{}", with_checksum(refusal)?).as_bytes())?;
            file.sync_data()?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|e| unusable(&path, "writing", &e))
    }

    /// The refusals noted since the last checkpoint.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`.
    pub fn refusals(&self) -> Result<Vec<Refusal>> {
        self.noted("refusals")
    }

    /// The lines of a log of ours that are whole. A torn one counts as not written.
    fn noted<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Vec<T>> {
        let path = self.dir.join(name);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(unusable(&path, "reading", &e)),
        };
        Ok(text.lines().filter_map(checked_line).collect())
    }

    /// Puts a log with these lines in the place of the one that is there.
    fn put<T: Serialize>(&self, name: &str, lines: &[T]) -> Result<()> {
        let path = self.dir.join(name);
        let partial = self.dir.join(format!("{name}.partial"));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&partial)?;
            for line in lines {
                file.write_all(with_checksum(line)?.as_bytes())?;
            }
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|e| unusable(&path, "writing", &e))
    }

    /// Refusals up to a checkpoint's tick are in it.
    fn trim_refusals(&self, checkpoint: Tick) -> Result<()> {
        if !self.dir.join("refusals").exists() {
            return Ok(());
        }
        let left: Vec<Refusal> = self.refusals()?.into_iter().filter(|r| r.tick > checkpoint).collect();
        self.put("refusals", &left)
    }

    fn files(&self) -> Result<Vec<(u64, PathBuf)>> {
        files(&self.dir)
    }

    /// Makes a checkpoint durable, and removes the oldest.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`: the checkpoint before still counts.
    pub fn save(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.write(checkpoint)?;
        self.trim_refusals(checkpoint.tick)
    }

    fn write(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let body = serde_json::to_vec(checkpoint).map_err(|e| {
            Error::definite(codes::INTERNAL, format!("a checkpoint could not be encoded: {e}"))
        })?;
        let path = self.dir.join(format!("checkpoint-{:08}", self.next));
        let partial = self.dir.join("checkpoint.partial");
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&partial)?;
            writeln!(file, "{MAGIC} {FORMAT} {} {:08x}", body.len(), crc32fast::hash(&body))?;
            file.write_all(&body)?;
            file.sync_all()?;
            faults::at("checkpoint.partial");
            fs::rename(&partial, &path)?;
            faults::at("checkpoint.renamed");
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|e| unusable(&path, "writing", &e))?;
        faults::at("checkpoint.saved");
        self.next += 1;
        let mut found = self.files()?;
        found.sort_unstable();
        let old = found.len().saturating_sub(KEPT);
        for (_, path) in &found[..old] {
            // one that stays is only in the way
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// Notes what ticks cover, before a sink that cannot hold it is given any of them.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`.
    pub fn note_bindings(&mut self, ticks: &[(Tick, &Binding)]) -> Result<()> {
        let path = self.dir.join("bindings");
        let write = |slot: &mut Option<File>| -> std::io::Result<()> {
            let file = match slot {
                Some(file) => file,
                // a line of its own behind one that was torn
                None => {
                    let file = slot.insert(OpenOptions::new().create(true).append(true).open(&path)?);
                    if file.metadata()?.len() > 0 {
                        writeln!(file)?;
                    }
                    file
                }
            };
            let mut lines = String::new();
            for tick in ticks {
                lines.push_str(&with_checksum(tick)?);
            }
            file.write_all(lines.as_bytes())?;
            file.sync_data()
        };
        write(&mut self.bindings).map_err(|e| unusable(&path, "writing", &e))
    }

    /// The ticks noted since the last checkpoint, with their bindings, ascending. A torn line counts as not written.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`.
    pub fn bindings(&self) -> Result<BTreeMap<Tick, Binding>> {
        Ok(self.noted::<(Tick, Binding)>("bindings")?.into_iter().collect())
    }

    /// Bindings up to a checkpoint's tick are not needed any more.
    ///
    /// # Errors
    /// `STATE_UNREADABLE`.
    pub fn trim_bindings(&mut self, checkpoint: Tick) -> Result<()> {
        if !self.dir.join("bindings").exists() {
            return Ok(());
        }
        let left: Vec<(Tick, Binding)> =
            self.noted("bindings")?.into_iter().filter(|(tick, _)| *tick > checkpoint).collect();
        self.bindings = None;
        self.put("bindings", &left)
    }
}

fn files(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = fs::read_dir(dir).map_err(|e| unusable(dir, "reading", &e))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| unusable(dir, "reading", &e))?.path();
        let number = path
            .file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| n.strip_prefix("checkpoint-"))
            .and_then(|n| n.parse().ok());
        if let Some(number) = number {
            found.push((number, path));
        }
    }
    Ok(found)
}

/// A line of a log, with its checksum in front.
fn with_checksum<T: Serialize>(line: &T) -> std::io::Result<String> {
    let body = serde_json::to_string(line).map_err(std::io::Error::other)?;
    Ok(format!("{:08x} {body}\n", crc32fast::hash(body.as_bytes())))
}

/// A line behind its checksum; `None` if it is torn.
fn checked_line<T: for<'de> Deserialize<'de>>(line: &str) -> Option<T> {
    let (crc, body) = line.split_once(' ')?;
    (u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(body.as_bytes())).then_some(())?;
    serde_json::from_str(body).ok()
}

fn read_checkpoint(path: &Path) -> Result<Checkpoint> {
    let torn = |why: &str| {
        Error::definite(
            codes::STATE_CORRUPT,
            format!("checkpoint \"{}\" is not whole: {why}", path.display()),
        )
    };
    let bytes = fs::read(path).map_err(|e| unusable(path, "reading", &e))?;
    let end = bytes.iter().position(|&b| b == b'\n').ok_or_else(|| torn("it has no header"))?;
    let header = std::str::from_utf8(&bytes[..end]).map_err(|_| torn("its header is not text"))?;
    let parts: Vec<&str> = header.split(' ').collect();
    let [MAGIC, format, length, crc] = parts[..] else { return Err(torn("its header is another one")) };
    if format.parse() != Ok(FORMAT) {
        return Err(Error::definite(
            codes::STATE_VERSION,
            format!(
                "checkpoint \"{}\" has format {format}, this version reads format {FORMAT}",
                path.display()
            ),
        )
        .help("go on with the version of cdc that wrote it"));
    }
    let body = &bytes[end + 1..];
    if length.parse() != Ok(body.len()) {
        return Err(torn("it is cut off"));
    }
    if u32::from_str_radix(crc, 16) != Ok(crc32fast::hash(body)) {
        return Err(torn("its checksum differs"));
    }
    serde_json::from_slice(body).map_err(|e| torn(&format!("its content is not understood: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(state: &StateDir) -> Vec<Tick> {
        state.bindings().unwrap().into_keys().collect()
    }

    fn checkpoint(tick: Tick) -> Checkpoint {
        Checkpoint {
            pipeline: "p".into(),
            fingerprint: BTreeMap::new(),
            job_id: "j".into(),
            tick,
            sources: BTreeMap::new(),
            evolved: BTreeMap::new(),
            view_tables: Vec::new(),
            views_from: None,
            views_until: None,
        }
    }

    #[test]
    fn the_newest_whole_checkpoint_counts_and_a_torn_one_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(dir.path()).unwrap();
        assert!(state.load().unwrap().0.is_none());
        for tick in 1..=5 {
            state.save(&checkpoint(tick)).unwrap();
        }
        assert_eq!(state.files().unwrap().len(), KEPT);
        let newest = dir.path().join("checkpoint-00000005");
        let bytes = fs::read(&newest).unwrap();
        for cut in [0, 10, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&newest, &bytes[..cut]).unwrap();
            let (loaded, notices) = state.load().unwrap();
            assert_eq!(loaded.unwrap().tick, 4, "cut at {cut}");
            assert_eq!(notices.len(), 1);
        }
        let mut flipped = bytes.clone();
        *flipped.last_mut().unwrap() ^= 1;
        fs::write(&newest, flipped).unwrap();
        assert_eq!(state.load().unwrap().0.unwrap().tick, 4);
        fs::write(&newest, &bytes).unwrap();
        assert_eq!(state.load().unwrap().0.unwrap().tick, 5);
    }

    #[test]
    fn files_that_are_all_torn_are_refused_and_another_version_is_too() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(dir.path()).unwrap();
        fs::write(dir.path().join("checkpoint-00000001"), "rubbish").unwrap();
        assert_eq!(state.load().unwrap_err().code(), codes::STATE_CORRUPT);
        fs::write(dir.path().join("checkpoint-00000002"), "cdc-checkpoint 9 2 00000000\n{}").unwrap();
        assert_eq!(state.load().unwrap_err().code(), codes::STATE_VERSION);
    }

    #[test]
    fn case_78_a_second_run_at_once_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::open(dir.path()).unwrap();
        let Err(error) = StateDir::open(dir.path()) else { panic!("the second run got the folder") };
        assert_eq!(error.code(), codes::STATE_LOCKED);
        assert!(error.to_string().contains(&std::process::id().to_string()));
        drop(first);
        StateDir::open(dir.path()).unwrap();
    }

    #[test]
    fn refusals_survive_a_torn_line_and_go_with_a_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(dir.path()).unwrap();
        assert_eq!(state.refusals().unwrap(), []);
        let refusal = |tick| Refusal { tick, change: "dw f a:1 shop.t".into(), step: "drop_column a".into() };
        state.note_refusal(&refusal(4)).unwrap();
        let path = dir.path().join("refusals");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, [&bytes[..], &bytes[..bytes.len() / 2]].concat()).unwrap();
        state.note_refusal(&refusal(7)).unwrap();
        assert_eq!(state.refusals().unwrap(), [refusal(4), refusal(7)]);
        state.save(&checkpoint(4)).unwrap();
        assert_eq!(state.refusals().unwrap(), [refusal(7)]);
        // what a run that has the folder would go on from, without its lock
        assert_eq!(StateDir::peek(dir.path()).unwrap().map(|c| c.tick), Some(4));
        assert!(StateDir::peek(&dir.path().join("nothing")).unwrap().is_none());
    }

    #[test]
    fn bindings_survive_a_torn_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = StateDir::open(dir.path()).unwrap();
        assert!(state.bindings().unwrap().is_empty());
        let binding = Binding::default();
        state.note_bindings(&[(7, &binding)]).unwrap();
        state.note_bindings(&[(8, &binding)]).unwrap();
        assert_eq!(ticks(&state), [7, 8]);
        let path = dir.path().join("bindings");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(ticks(&state), [7]);
        state.bindings = None;
        state.note_bindings(&[(9, &binding)]).unwrap();
        state.note_bindings(&[(4, &binding)]).unwrap();
        assert_eq!(ticks(&state), [4, 7, 9], "behind a torn line, in any order");
        state.trim_bindings(8).unwrap();
        assert_eq!(ticks(&state), [9]);
        state.trim_bindings(9).unwrap();
        assert!(state.bindings().unwrap().is_empty());
        state.note_bindings(&[(10, &binding)]).unwrap();
        assert_eq!(ticks(&state), [10]);
    }
}
