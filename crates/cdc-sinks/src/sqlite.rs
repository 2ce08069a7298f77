//! SQLite as a target: exactly once, a transaction of the target per commit.
//!
//! # What is in the database
//!
//! The tables of the flows, and two of ours:
//!
//! ```text
//! _cdc_progress (pipeline, sink, job_id, epoch, tick, binding, run, updated_at; key pipeline, sink)
//! _cdc_tables   (pipeline, sink, name; key all three): the tables that this pipeline and sink write
//! ```
//!
//! How column types are stored and why: `sqlite/types.rs`. Writing rows: `sqlite/write.rs`. Schema changes:
//! `sqlite/ddl.rs`.
//!
//! # The commit protocol
//!
//! *claim*: in one transaction that begins IMMEDIATE (so that it holds the write lock), read the row of
//! (pipeline, sink), write it back with `epoch + 1` and our name in `run`, remember `epoch` and `tick`.
//!
//! *begin* (before the first write after a commit): BEGIN IMMEDIATE, read the row; another epoch than ours
//! ends it there.
//!
//! *commit(t, binding)*: in the same transaction as all rows and schema changes of the ticks up to t,
//! `UPDATE _cdc_progress SET tick = t, binding = .. WHERE pipeline = .. AND sink = .. AND epoch = ours AND
//! tick = previous`; one row must change; then COMMIT.
//!
//! Why this is exactly once:
//!
//! 1. *All or nothing.* Rows, DDL, tick and binding are one SQLite transaction, so at every instant, a power
//!    cut included (`synchronous = full`), the database holds all changes of the ticks up to `tick` and
//!    nothing of a later one. A restart reads `tick` and `binding` and goes on behind them: nothing is lost
//!    (what was not committed comes again) and nothing is doubled (what was committed does not).
//! 2. *One writer.* Epochs only grow, and each is handed out under the write lock, so no two runs hold the
//!    same one. Let an old run try to commit after a new one has claimed: its UPDATE looks for its own epoch
//!    and finds none, since the row holds a greater one; 0 rows change and it rolls back. Let it have begun
//!    before: then it holds the write lock, the claim waits for it, and reads the tick that it committed. So
//!    between a claim and the next one only the claimer's commits can take effect, however long an old
//!    process slept, on whatever host.
//! 3. *A lost answer.* If COMMIT reports an error, the transaction may have become durable all the same. The
//!    committer replays the ticks; the UPDATE then finds our epoch with another tick than `previous`. As no
//!    one else can hold our epoch, that tick is our own lost commit: if it covers t, the transaction is
//!    rolled back and the commit reported as done; if not, the row is set from there. Writing the ticks in
//!    between a second time changes nothing: an upsert or delete by key leaves what it leaves the first time,
//!    and the whole of it becomes visible at once, at t. Rows of a table without key would be there twice: so what
//!    the lost commit covers is known when the transaction begins, and they are passed over. (A table emptied or
//!    dropped in between cannot be told to lie before or behind it: then a longer commit is refused. The
//!    committer tries the very commit that was lost, so it does not happen.)
//!
//! With `synchronous = normal` point 1 holds for a crash of the process, not of the machine: the last commits
//! may then be gone, while the state folder says they were made. The start refuses that as it refuses any
//! target that is behind its checkpoint.
//!
//! *prepare* makes a table in a small transaction of its own where none is open, epoch checked: an empty
//! table in front of its first tick harms nothing, and the write lock is not held while the first rows are
//! still being read.
//!
//! # Rows that nobody accounts for
//!
//! A row at the target that the pipeline did not write would stay there for ever. So a table that is there
//! already must be empty or be listed in `_cdc_tables` for this pipeline and sink; a new progress row (another
//! job) clears the list. Nothing is emptied by itself.

mod convert;
mod ddl;
mod default;
mod error;
mod look;
mod reader;
mod sql;
mod types;
mod write;

pub use reader::SqliteReader;

use crate::default::no_comment;
use crate::registry::{path_option, word_option};
use crate::standing::stands_as_seen;
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind};
use cdc_core::connector::{
    Delivery, JobIdentity, Resume, Sink, TargetBatch, TargetSchemaChange, TargetTable,
};
use cdc_core::plan::SinkPlan;
use cdc_core::position::Binding;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, codes};
use error::{BUSY_SECONDS, Errors, needs_recovery};
use look::{Found, create_table, owners};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::cell::Cell;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use write::Writer;

/// Where each pipeline and sink stands.
const PROGRESS: &str = "_cdc_progress";
/// Which tables they write.
const TABLES: &str = "_cdc_tables";

const CREATE_OURS: &str = "
    CREATE TABLE IF NOT EXISTS _cdc_progress (
        pipeline TEXT NOT NULL, sink TEXT NOT NULL, job_id TEXT NOT NULL, epoch INTEGER NOT NULL,
        tick INTEGER NOT NULL, binding TEXT NOT NULL, run TEXT NOT NULL, updated_at TEXT NOT NULL,
        PRIMARY KEY (pipeline, sink)
    );
    CREATE TABLE IF NOT EXISTS _cdc_tables (
        pipeline TEXT NOT NULL, sink TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY (pipeline, sink, name)
    ) WITHOUT ROWID;";

/// SQL for the present moment in UTC.
const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// The connector, for the language.
pub fn descriptor() -> ConnectorDescriptor {
    ConnectorDescriptor {
        name: "sqlite",
        role: ConnectorRole::Sink,
        help: "writes to a SQLite database file; exactly once",
        options: vec![
            OptionDescriptor {
                name: "path",
                kind: OptionKind::Path,
                required: true,
                default: None,
                help: "the database file, relative to the pipeline file; made if it is not there",
                not_yet: None,
            },
            OptionDescriptor {
                name: "synchronous",
                kind: OptionKind::Choice(SYNCHRONOUS),
                required: false,
                default: Some("full"),
                help: "full: a commit survives a power cut; normal: faster, survives a crash of the process",
                not_yet: None,
            },
            OptionDescriptor {
                name: "on_existing",
                kind: OptionKind::Choice(ON_EXISTING),
                required: false,
                default: Some("check"),
                help: "a table that is there already: check it and refuse what does not fit; evolve: where it is empty add columns and widen types first",
                not_yet: None,
            },
        ],
        example: "sink dw = sqlite { path = \"dw.db\" }",
    }
}

const SYNCHRONOUS: &[&str] = &["full", "normal"];
const ON_EXISTING: &[&str] = &["check", "evolve"];

/// The options of a sink.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The database file.
    pub path: PathBuf,
    /// True: wait for the disk at each commit.
    pub durable: bool,
    /// A table that is there, of another shape and empty, is changed where that loses nothing.
    pub evolve: bool,
}

impl SqliteOptions {
    /// The options in a plan; `path` relative to `base`.
    ///
    /// # Errors
    /// `MISSING_OPTION`, `OPTION_VALUE`.
    pub fn from_plan(plan: &SinkPlan, base: &Path) -> Result<SqliteOptions> {
        let path = path_option(plan, base)?;
        let durable = word_option(plan, "synchronous", SYNCHRONOUS)? == "full";
        let evolve = word_option(plan, "on_existing", ON_EXISTING)? == "evolve";
        Ok(SqliteOptions { path, durable, evolve })
    }
}

/// The sink.
pub struct SqliteSink {
    options: SqliteOptions,
    /// Open from `claim` on.
    db: Option<Connection>,
    /// Where the file was when it was opened.
    file: Option<FileId>,
    claim: Option<Claim>,
    /// Whose progress `inspect` has looked for, and the tick that it found: for `check` and `claim`.
    inspected: Option<(JobIdentity, Option<Tick>)>,
    /// By table name; made by `prepare`.
    writers: HashMap<String, Writer>,
    scratch: Vec<u8>,
    /// The tick of a commit of ours whose answer was lost, if the open transaction began behind one; else 0.
    covered: Cell<i64>,
    /// Rows went as a whole in the open transaction.
    emptied: bool,
}

#[derive(Debug, Clone)]
struct Claim {
    job: JobIdentity,
    epoch: i64,
    /// The last tick that is committed.
    previous: i64,
}

impl SqliteSink {
    /// A sink; opens nothing yet.
    pub fn new(options: SqliteOptions) -> SqliteSink {
        SqliteSink {
            options,
            db: None,
            file: None,
            claim: None,
            inspected: None,
            writers: HashMap::new(),
            scratch: Vec::new(),
            covered: Cell::new(0),
            emptied: false,
        }
    }

    fn claimed(&self) -> Result<(&Connection, &Claim)> {
        self.db.as_ref().zip(self.claim.as_ref()).ok_or_else(|| {
            Error::definite(codes::INTERNAL, "the sqlite sink was written to before it was claimed")
        })
    }

    fn errors(&self) -> Errors<'_> {
        Errors(&self.options.path)
    }

    fn change<'a>(&'a self, db: &'a Connection) -> ddl::Change<'a> {
        ddl::Change { db, errors: self.errors(), evolve: self.options.evolve }
    }

    /// Opens a transaction if none is open; true if it did. Stops if another run has claimed the target.
    fn begin(&self) -> Result<bool> {
        let (db, claim) = self.claimed()?;
        if !db.is_autocommit() {
            return Ok(false);
        }
        if self.file.is_some() && self.file != file_id(&self.options.path) {
            return Err(self
                .errors()
                .cannot_open("the file was moved, replaced or deleted while it was open")
                .help("put the file back with its -wal, and start again"));
        }
        let doing = "beginning a transaction";
        db.execute_batch("BEGIN IMMEDIATE").map_err(|e| self.errors().of(codes::TARGET_WRITE, doing, &e))?;
        let held = read_progress(db, &claim.job.pipeline, &claim.job.sink);
        match held.map_err(|e| self.errors().of(codes::TARGET_WRITE, doing, &e))? {
            Some(held) if held.epoch == claim.epoch => {
                self.covered.set(if held.tick > claim.previous { held.tick } else { 0 });
                Ok(true)
            }
            held => {
                roll_back(db);
                Err(self.fenced(held.as_ref()))
            }
        }
    }

    fn fenced(&self, held: Option<&Progress>) -> Error {
        let path = self.options.path.display();
        let help = "stop one of the two; the other goes on";
        match held {
            Some(held) => Error::definite(
                codes::TARGET_FENCED,
                format!("another run has taken over sqlite \"{path}\": \"{}\"", held.run),
            )
            .note(format!(
                "its epoch is {}, it has committed tick {} ({})",
                held.epoch, held.tick, held.updated_at
            ))
            .help(help),
            None => Error::definite(
                codes::TARGET_FENCED,
                format!("our row in {PROGRESS} of sqlite \"{path}\" was deleted"),
            )
            .note("whoever did it took over the target")
            .help(help),
        }
    }

    /// Runs `work` in the open transaction, or in one of its own. Any error rolls back what is open.
    fn within(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let result = self.begin().and_then(|opened| {
            work(self)?;
            if opened {
                let (db, _) = self.claimed()?;
                db.execute_batch("COMMIT")
                    .map_err(|e| self.errors().of(codes::TARGET_WRITE, "committing", &e))?;
            }
            Ok(())
        });
        result.inspect_err(|_| self.rollback())
    }

    /// Makes the table if it is not there, or fit, and lists it as ours.
    fn establish(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        let (db, claim) = self.claimed()?;
        let errors = self.errors();
        match look(db, errors, &table.name)? {
            Some(found) => self.change(db).fit(&found, table)?,
            None => {
                let sql = create_table(&table.name, table);
                db.execute_batch(&sql)
                    .map_err(|e| errors.of(codes::TARGET_DDL, &format!("statement: {sql}"), &e))?;
            }
        }
        list(db, &claim.job, &table.name).map_err(|e| errors.of(codes::TARGET_DDL, "listing the table", &e))
    }
}

impl Sink for SqliteSink {
    fn delivery(&self) -> Delivery {
        Delivery::Net
    }

    fn holds_progress(&self) -> bool {
        true
    }

    fn inspect(&mut self, job: &JobIdentity) -> Result<Option<Resume>> {
        let resume = match open_to_read(&self.options.path)? {
            None => None,
            Some(db) => {
                let errors = self.errors();
                check_ours(&db, errors)?;
                let held = read_progress(&db, &job.pipeline, &job.sink);
                let held = held.map_err(|e| errors.of(codes::TARGET_OPEN, "reading our progress", &e))?;
                held.map(|held| held.resume(&self.options.path)).transpose()?
            }
        };
        self.inspected = Some((job.clone(), resume.as_ref().map(|r| r.tick)));
        Ok(resume)
    }

    fn place(&self) -> String {
        self.options.path.display().to_string()
    }

    fn check(&mut self, table: &TargetTable) -> Result<()> {
        check_name(&table.name)?;
        let opened;
        let db = match &self.db {
            Some(db) => db,
            None => match open_to_read(&self.options.path)? {
                None => return Ok(()),
                Some(db) => {
                    opened = db;
                    &opened
                }
            },
        };
        let Some(found) = look(db, self.errors(), &table.name)? else { return Ok(()) };
        self.change(db).widening(&found, table)?;
        let job = match (&self.claim, &self.inspected) {
            (Some(claim), _) => Some(&claim.job),
            (None, Some((job, Some(_)))) => Some(job),
            _ => None,
        };
        check_rows(db, self.errors(), &found, job)
    }

    fn claim(&mut self, job: &JobIdentity) -> Result<()> {
        self.db = None;
        self.claim = None;
        self.writers.clear();
        let db = open_to_write(&self.options)?;
        let errors = self.errors();
        check_ours(&db, errors)?;
        let failed = |e: &rusqlite::Error| errors.of(codes::TARGET_WRITE, "claiming the target", e);
        db.execute_batch("BEGIN IMMEDIATE").map_err(|e| failed(&e))?;
        db.execute_batch(CREATE_OURS).map_err(|e| failed(&e))?;
        let held = read_progress(&db, &job.pipeline, &job.sink).map_err(|e| failed(&e))?;
        if let Some(held) = held.as_ref().filter(|h| h.job_id != job.job_id && h.tick > 0) {
            return Err(foreign_progress(&self.options.path, held, job));
        }
        let (epoch, previous) = held.as_ref().map_or((1, 0), |h| (h.epoch + 1, h.tick));
        stands_as_seen(&self.place(), self.inspected.as_ref(), job, previous)?;
        let write = || -> rusqlite::Result<()> {
            // What another job listed as its own, this one has not written.
            if held.as_ref().is_none_or(|h| h.job_id != job.job_id) {
                let forget = "DELETE FROM _cdc_tables WHERE pipeline = ?1 AND sink = ?2";
                db.execute(forget, params![job.pipeline, job.sink])?;
            }
            db.execute(
                &format!(
                    "INSERT INTO _cdc_progress (pipeline, sink, job_id, epoch, tick, binding, run, updated_at)
                     VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, {NOW})
                     ON CONFLICT (pipeline, sink) DO UPDATE
                     SET job_id = excluded.job_id, epoch = excluded.epoch, run = excluded.run,
                         updated_at = excluded.updated_at"
                ),
                params![job.pipeline, job.sink, job.job_id, epoch, "{\"positions\":{}}", job.run],
            )?;
            db.execute_batch("COMMIT")
        };
        write().map_err(|e| failed(&e))?;
        self.file = file_id(&self.options.path);
        self.claim = Some(Claim { job: job.clone(), epoch, previous });
        self.inspected = None;
        self.db = Some(db);
        Ok(())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        if self.writers.get(&table.name).is_some_and(|w| Arc::ptr_eq(&w.table, table) || w.table == *table) {
            return Ok(());
        }
        check_name(&table.name)?;
        check_key(table)?;
        let (db, claim) = self.claimed()?;
        let errors = self.errors();
        let mut found = look(db, errors, &table.name)?;
        let mut widened = false;
        if let Some(found) = &found {
            widened = !self.change(db).widening(found, table)?.is_empty();
            check_rows(db, errors, found, Some(&claim.job))?;
        }
        let listed = owners(db, &table.name)
            .map_err(|e| errors.of(codes::TARGET_DDL, "reading which tables are ours", &e))?
            .contains(&(claim.job.pipeline.clone(), claim.job.sink.clone()));
        if found.is_none() || !listed || widened {
            self.within(|sink| sink.establish(table))?;
            let (db, _) = self.claimed()?;
            found = look(db, self.errors(), &table.name)?;
        }
        let Some(found) = found else {
            return Err(Error::transient(
                codes::TARGET_DDL,
                format!("table \"{}\" was dropped just now", table.name),
            ));
        };
        self.writers.insert(table.name.clone(), Writer::new(table, &found));
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        // After a rollback the table may have to be made again.
        self.prepare(&batch.table)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.begin().and_then(|_| {
            let (db, _) = self.claimed()?;
            let covered = u64::try_from(self.covered.get()).unwrap_or(0);
            match self.writers.get(&batch.table.name) {
                Some(writer) if batch.table.is_multiset() && covered > 0 => {
                    let changes = batch.changes.iter().filter(|c| c.tick > covered).cloned().collect();
                    let left = TargetBatch { changes, ..batch.clone() };
                    writer.write(db, &left, &mut scratch, self.errors())
                }
                Some(writer) => writer.write(db, batch, &mut scratch, self.errors()),
                None => Err(Error::definite(codes::INTERNAL, "a table was not prepared")),
            }
        });
        self.scratch = scratch;
        result.inspect_err(|_| self.rollback())
    }

    fn other_owner(
        &mut self,
        table: &Arc<TargetTable>,
        tick: Tick,
        keys: &[Row],
        owners: &[&str],
    ) -> Result<Option<(usize, String)>> {
        self.prepare(table)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.begin().and_then(|_| {
            if tick <= u64::try_from(self.covered.get()).unwrap_or(0) {
                return Ok(None);
            }
            let (db, _) = self.claimed()?;
            match self.writers.get(&table.name) {
                Some(writer) => writer.other_owner(db, keys, owners, &mut scratch, self.errors()),
                None => Err(Error::definite(codes::INTERNAL, "a table was not prepared")),
            }
        });
        self.scratch = scratch;
        result.inspect_err(|_| self.rollback())
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        for name in names(change) {
            check_name(name)?;
            self.writers.remove(name);
        }
        if let TargetSchemaChange::CreateTable { table } | TargetSchemaChange::ChangeKey { table } = change {
            check_key(table)?;
        }
        let made = self.begin().and_then(|_| {
            let (db, claim) = self.claimed()?;
            if let TargetSchemaChange::CreateTable { table } = change
                && let Some(found) = look(db, self.errors(), &table.name)?
            {
                check_rows(db, self.errors(), &found, Some(&claim.job))?;
            }
            if let TargetSchemaChange::DropTable { table } = change
                && let Some(found) = look(db, self.errors(), table)?
            {
                // somebody else's is not ours to drop: with rows it is refused, without it is taken as it is
                check_rows(db, self.errors(), &found, Some(&claim.job))?;
                let listed = is_listed(db, &claim.job, table)
                    .map_err(|e| self.errors().of(codes::TARGET_DDL, "looking for the table's owner", &e))?;
                if !listed {
                    return Ok(());
                }
            }
            self.change(db).apply(change)?;
            relist(db, &claim.job, change)
                .map_err(|e| self.errors().of(codes::TARGET_DDL, "listing the table", &e))
        });
        self.emptied |= matches!(
            change,
            TargetSchemaChange::RemoveRows { .. }
                | TargetSchemaChange::TruncateTable { .. }
                | TargetSchemaChange::DropTable { .. }
        );
        made.inspect_err(|_| self.rollback())
    }

    fn leaves_out(&self, change: &TargetSchemaChange) -> Vec<String> {
        match change {
            TargetSchemaChange::AlterColumnDefault { column, .. } if column.default.is_some() => {
                vec![format!(
                    "column \"{}\" of the target keeps its default: SQLite cannot alter it",
                    column.name
                )]
            }
            TargetSchemaChange::AlterComment { column, .. } => {
                vec![no_comment(column.as_deref(), "SQLite has none")]
            }
            _ => Vec::new(),
        }
    }

    fn commit(&mut self, tick: Tick, binding: &Binding) -> Result<()> {
        let result = self.begin().and_then(|_| {
            let (db, claim) = self.claimed()?;
            let errors = self.errors();
            let failed =
                |e: &rusqlite::Error| errors.of(codes::TARGET_WRITE, &format!("committing tick {tick}"), e);
            let next = i64::try_from(tick).unwrap_or(i64::MAX);
            if next < claim.previous {
                let headline = format!("tick {tick} was committed after tick {}", claim.previous);
                return Err(Error::definite(codes::INTERNAL, headline));
            }
            let binding = serde_json::to_string(binding)
                .map_err(|e| Error::definite(codes::INTERNAL, format!("a binding cannot be written: {e}")))?;
            let advance = |from: i64| {
                let sql = format!(
                    "UPDATE _cdc_progress SET tick = ?1, binding = ?2, updated_at = {NOW}
                     WHERE pipeline = ?3 AND sink = ?4 AND epoch = ?5 AND tick = ?6"
                );
                let values = params![next, binding, claim.job.pipeline, claim.job.sink, claim.epoch, from];
                db.prepare_cached(&sql)?.execute(values)
            };
            if advance(claim.previous).map_err(|e| failed(&e))? == 0 {
                let held = read_progress(db, &claim.job.pipeline, &claim.job.sink).map_err(|e| failed(&e))?;
                match held {
                    // Our own commit, whose answer was lost (3. above).
                    Some(held) if held.epoch == claim.epoch && held.tick >= next => {
                        roll_back(db);
                        return Ok(held.tick);
                    }
                    Some(held) if held.epoch == claim.epoch && self.emptied => {
                        let headline = format!(
                            "the commit of tick {} reported an error and was made; tick {tick} cannot be added to it",
                            held.tick
                        );
                        return Err(Error::definite(codes::INTERNAL, headline)
                            .note("in between a table is emptied")
                            .help("start again: it goes on from where the target stands"));
                    }
                    Some(held) if held.epoch == claim.epoch => {
                        advance(held.tick).map_err(|e| failed(&e))?;
                    }
                    held => return Err(self.fenced(held.as_ref())),
                }
            }
            db.execute_batch("COMMIT").map_err(|e| failed(&e))?;
            Ok(next)
        });
        match result {
            Ok(committed) => {
                self.emptied = false;
                if let Some(claim) = &mut self.claim {
                    // A lost commit may cover later ticks: those come again, and are then found done.
                    claim.previous = committed.min(i64::try_from(tick).unwrap_or(i64::MAX));
                }
                Ok(())
            }
            Err(e) => {
                self.rollback();
                Err(e)
            }
        }
    }

    fn rollback(&mut self) {
        if let Some(db) = &self.db {
            roll_back(db);
        }
        // A table may have been made in what is gone now.
        self.writers.clear();
        self.emptied = false;
    }
}

/// A row of `_cdc_progress`.
#[derive(Debug, Clone)]
struct Progress {
    job_id: String,
    epoch: i64,
    tick: i64,
    binding: String,
    run: String,
    updated_at: String,
}

impl Progress {
    fn resume(self, path: &Path) -> Result<Resume> {
        let unreadable = |what: String| {
            Error::definite(
                codes::TARGET_PROGRESS,
                format!(
                    "{PROGRESS} of sqlite \"{}\" does not say where the target stands: {what}",
                    path.display()
                ),
            )
            .help("give another path, or move the file away")
        };
        let binding = serde_json::from_str(&self.binding).map_err(|e| unreadable(e.to_string()))?;
        let tick = u64::try_from(self.tick).map_err(|_| unreadable(format!("tick {}", self.tick)))?;
        Ok(Resume { job_id: self.job_id, tick, binding })
    }
}

fn read_progress(db: &Connection, pipeline: &str, sink: &str) -> rusqlite::Result<Option<Progress>> {
    if Found::look(db, PROGRESS)?.is_none() {
        return Ok(None);
    }
    db.prepare_cached(
        "SELECT job_id, epoch, tick, binding, run, updated_at FROM _cdc_progress WHERE pipeline = ?1 AND sink = ?2",
    )?
    .query_row(params![pipeline, sink], |r| {
        Ok(Progress {
            job_id: r.get(0)?,
            epoch: r.get(1)?,
            tick: r.get(2)?,
            binding: r.get(3)?,
            run: r.get(4)?,
            updated_at: r.get(5)?,
        })
    })
    .optional()
}

/// Refuses tables of our names that are not ours.
fn check_ours(db: &Connection, errors: Errors<'_>) -> Result<()> {
    let ours: [(&str, &[&str]); 2] = [
        (PROGRESS, &["pipeline", "sink", "job_id", "epoch", "tick", "binding", "run", "updated_at"]),
        (TABLES, &["pipeline", "sink", "name"]),
    ];
    for (name, columns) in ours {
        let Some(found) = look(db, errors, name)? else { continue };
        if found.kind != "table" || !found.columns.iter().map(|c| &*c.name).eq(columns.iter().copied()) {
            return Err(Error::definite(
                codes::TARGET_PROGRESS,
                format!(
                    "table \"{name}\" of sqlite \"{}\" is not the one that cdc makes",
                    errors.0.display()
                ),
            )
            .note(format!("wanted: columns {}", columns.join(", ")))
            .note(format!("found:  {}", found.sql))
            .help("give another path, or rename that table"));
        }
    }
    Ok(())
}

fn foreign_progress(path: &Path, held: &Progress, job: &JobIdentity) -> Error {
    Error::definite(
        codes::TARGET_PROGRESS,
        format!(
            "sqlite \"{}\" holds progress of pipeline \"{}\", sink \"{}\" that belongs to another state folder",
            path.display(),
            job.pipeline,
            job.sink
        ),
    )
    .note(format!("there: job {}, tick {}, last written by \"{}\" at {}", held.job_id, held.tick, held.run, held.updated_at))
    .note(format!("here:  job {}", job.job_id))
    .help("start with the state folder of that job; or give another path, or move the file away, to copy anew")
}

fn look(db: &Connection, errors: Errors<'_>, table: &str) -> Result<Option<Found>> {
    Found::look(db, table)
        .map_err(|e| errors.of(codes::TARGET_OPEN, &format!("looking at table \"{table}\""), &e))
}

/// Refuses rows that this pipeline and sink did not write. `job` is `None` where it has no progress there.
fn check_rows(db: &Connection, errors: Errors<'_>, found: &Found, job: Option<&JobIdentity>) -> Result<()> {
    let failed = |e: &rusqlite::Error| {
        errors.of(codes::TARGET_OPEN, &format!("looking at table \"{}\"", found.name), e)
    };
    let owners = owners(db, &found.name).map_err(|e| failed(&e))?;
    let is_ours =
        |(pipeline, sink): &(String, String)| job.is_some_and(|j| j.pipeline == *pipeline && j.sink == *sink);
    if owners.iter().any(is_ours) || !found.has_rows(db).map_err(|e| failed(&e))? {
        return Ok(());
    }
    let count = found.count(db).map_err(|e| failed(&e))?;
    let headline =
        format!("table \"{}\" already holds {count} rows that this pipeline did not write", found.name);
    let mut error = Error::definite(codes::TARGET_PROGRESS, headline);
    for (pipeline, sink) in &owners {
        error = error.note(format!("it is written by pipeline \"{pipeline}\", sink \"{sink}\""));
    }
    Err(error
        .note("rows that the source does not have would stay there for ever")
        .help(format!("DROP TABLE {}; or send the flow to another table or file", sql::quote(&found.name))))
}

/// Is a table listed as written by us?
fn is_listed(db: &Connection, job: &JobIdentity, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM _cdc_tables WHERE pipeline = ?1 AND sink = ?2 AND name = ?3)";
    db.prepare_cached(sql)?.query_row(params![job.pipeline, job.sink, table], |row| row.get(0))
}

/// Lists a table as written by us.
fn list(db: &Connection, job: &JobIdentity, table: &str) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO _cdc_tables (pipeline, sink, name) VALUES (?1, ?2, ?3)";
    db.prepare_cached(sql)?.execute(params![job.pipeline, job.sink, table]).map(|_| ())
}

/// Keeps the list in step with a schema change.
fn relist(db: &Connection, job: &JobIdentity, change: &TargetSchemaChange) -> rusqlite::Result<()> {
    let unlist = |table: &str| {
        let sql = "DELETE FROM _cdc_tables WHERE pipeline = ?1 AND sink = ?2 AND name = ?3";
        db.execute(sql, params![job.pipeline, job.sink, table]).map(|n| n > 0)
    };
    match change {
        TargetSchemaChange::CreateTable { table } => list(db, job, &table.name),
        TargetSchemaChange::DropTable { table } => unlist(table).map(|_| ()),
        TargetSchemaChange::RenameTable { from, to } => {
            if unlist(from)? {
                list(db, job, to)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn names(change: &TargetSchemaChange) -> Vec<&str> {
    match change {
        TargetSchemaChange::CreateTable { table } | TargetSchemaChange::ChangeKey { table } => {
            vec![&table.name]
        }
        TargetSchemaChange::AddColumn { table, .. }
        | TargetSchemaChange::RenameColumn { table, .. }
        | TargetSchemaChange::FillColumn { table, .. }
        | TargetSchemaChange::ResetColumn { table, .. }
        | TargetSchemaChange::DropColumn { table, .. }
        | TargetSchemaChange::AlterColumnType { table, .. }
        | TargetSchemaChange::AlterNullability { table, .. }
        | TargetSchemaChange::AlterColumnDefault { table, .. }
        | TargetSchemaChange::AlterComment { table, .. }
        | TargetSchemaChange::TruncateTable { table }
        | TargetSchemaChange::RemoveRows { table, .. }
        | TargetSchemaChange::DropTable { table } => vec![table],
        TargetSchemaChange::RenameTable { from, to } => vec![from, to],
    }
}

/// Refuses table names that SQLite or we keep for ourselves.
fn check_name(name: &str) -> Result<()> {
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|p| p.eq_ignore_ascii_case(prefix));
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains('\0') {
        "it holds a NUL"
    } else if begins("sqlite_") {
        "SQLite keeps names with \"sqlite_\" for itself"
    } else if begins("_cdc_") {
        "cdc keeps names with \"_cdc_\" for itself"
    } else {
        return Ok(());
    };
    Err(Error::definite(
        codes::TARGET_SHAPE,
        format!("a table at the target cannot be named \"{name}\": {why}"),
    )
    .help("send the flow to another name"))
}

fn check_key(table: &TargetTable) -> Result<()> {
    if table.key.iter().any(|i| *i >= table.schema.columns.len()) {
        return Err(Error::definite(
            codes::INTERNAL,
            format!("table \"{}\" has a key of columns that it does not have", table.name),
        ));
    }
    let hides = |name: &&str| table.schema.column_index(name).is_some();
    if table.is_multiset() && look::ROW_NUMBERS.iter().all(hides) {
        return Err(Error::definite(
            codes::TARGET_SHAPE,
            format!("columns of table \"{}\" hide the row number under all of its names", table.name),
        )
        .note(format!("without a key a row is found by it: {}", look::ROW_NUMBERS.join(", ")))
        .help("give one of them another name in the flow: rename (..)"));
    }
    Ok(())
}

fn roll_back(db: &Connection) {
    if !db.is_autocommit() {
        // It fails only where SQLite has rolled back by itself.
        drop(db.execute_batch("ROLLBACK"));
    }
}

/// Opens the database to read; `None` if there is no such file.
fn open_to_read(path: &Path) -> Result<Option<Connection>> {
    let errors = Errors(path);
    match std::fs::metadata(path) {
        Ok(m) if m.is_dir() => {
            return Err(errors.cannot_open("it is a folder").help("give the path of a file"));
        }
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            check_folder(path)?;
            return Ok(None);
        }
        Err(e) => return Err(errors.cannot_open(&e.to_string())),
    }
    let open = |flags| {
        let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        settings(&db)?;
        // The first read finds out whether it is a database, and whether it can be read as it is.
        db.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(db)
    };
    let opened = match open(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        // A crash left a transaction to be rolled back, which reading alone cannot do.
        Err(e) if needs_recovery(&e) => open(OpenFlags::SQLITE_OPEN_READ_WRITE),
        opened => opened,
    };
    opened.map(Some).map_err(|e| errors.of(codes::TARGET_OPEN, "opening the database", &e))
}

/// Opens the database to write; makes it if there is none.
fn open_to_write(options: &SqliteOptions) -> Result<Connection> {
    let path = &options.path;
    let errors = Errors(path);
    // Says why better than SQLite does.
    drop(open_to_read(path)?);
    let failed = |e: &rusqlite::Error| errors.of(codes::TARGET_OPEN, "opening the database", e);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|e| failed(&e))?;
    settings(&db).map_err(|e| failed(&e))?;
    if db.is_readonly("main").map_err(|e| failed(&e))? {
        return Err(errors.cannot_open("it can only be read").help("make the file writable for this user"));
    }
    let tune = || -> rusqlite::Result<()> {
        // The answer is the mode that holds; where the file system cannot have a WAL another one is as right.
        db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        let synchronous = if options.durable { "FULL" } else { "NORMAL" };
        // The source has checked its foreign keys; here tables fill side by side. The cache, in KiB, holds the
        // inner pages of an index of some hundred million keys.
        db.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA foreign_keys = OFF; PRAGMA recursive_triggers = OFF;
             PRAGMA cache_size = -32768; PRAGMA wal_autocheckpoint = 4000;"
        ))
    };
    tune().map_err(|e| failed(&e))?;
    Ok(db)
}

/// What holds for every connection.
fn settings(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(BUSY_SECONDS))?;
    // A name in double quotes is a name, never a text.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    db.set_prepared_statement_cache_capacity(256);
    Ok(())
}

fn check_folder(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => Err(Errors(path)
            .cannot_open("its folder is not there")
            .help(format!("make the folder \"{}\"", folder.display()))),
        _ => Ok(()),
    }
}

/// Tells files apart, whatever their names.
type FileId = (u64, u64);

#[cfg(unix)]
fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Elsewhere an open file cannot be moved.
#[cfg(not(unix))]
fn file_id(_path: &Path) -> Option<FileId> {
    None
}
