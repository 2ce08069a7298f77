//! The sink: who writes, what is open, what waits. The protocol is argued in the [module above](super).

use super::conn::Conn;
use super::ddl;
use super::error::{Errors, Pg, is_answer};
use super::look::{Found, carried, make_table, odd_comment};
use super::options::NulPolicy;
use super::options::PostgresOptions;
use super::preflight;
use super::sql::{check_column_name, check_table_name, fnv, literal, quote};
use super::types::{declared, parts};
use super::write::Writer;
use super::{PROGRESS, TABLES};
use crate::default::{brought, no_comment, no_default};
use crate::pending::Pending;
use crate::standing::stands_as_seen;
use cdc_core::connector::{
    Delivery, JobIdentity, Resume, Sink, TargetBatch, TargetChange, TargetOp, TargetSchemaChange, TargetTable,
};
use cdc_core::position::Binding;
use cdc_core::preflight::Check;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, codes};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Changes that wait at most, and their bytes.
const WAITING: usize = 50_000;
const WAITING_BYTES: usize = 16 << 20;

/// How long a session that was told to end may take.
const ENDING: Duration = Duration::from_secs(10);

/// SQL for the present moment in UTC.
const NOW: &str = "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')";

/// The sink.
pub struct PostgresSink {
    options: PostgresOptions,
    conn: Option<Conn>,
    /// The connection holds the seat.
    seated: bool,
    /// A transaction is open on the connection.
    open: bool,
    claim: Option<Claim>,
    /// Whose progress `inspect` has looked for, and the tick that it found: for `check` and `claim`.
    inspected: Option<(JobIdentity, Option<Tick>)>,
    /// In the order in which they came.
    tables: Vec<Written>,
    /// The tick of a commit of ours whose answer was lost, if the open transaction began behind one; else 0.
    covered: i64,
    /// The answer to a commit was lost, and none has been made since.
    in_doubt: bool,
    /// Rows went as a whole in the open transaction.
    emptied: bool,
}

/// A table that is written, and what waits for it.
struct Written {
    writer: Writer,
    pending: Pending,
}

#[derive(Debug, Clone)]
struct Claim {
    job: JobIdentity,
    epoch: i64,
    /// The last tick that is committed.
    previous: i64,
}

impl PostgresSink {
    /// A sink; opens nothing yet.
    pub fn new(options: PostgresOptions) -> PostgresSink {
        PostgresSink {
            options,
            conn: None,
            seated: false,
            open: false,
            claim: None,
            inspected: None,
            tables: Vec::new(),
            covered: 0,
            in_doubt: false,
            emptied: false,
        }
    }

    fn errors(&self) -> Errors<'_> {
        Errors(&self.options)
    }

    fn claimed(&self) -> Result<&Claim> {
        self.claim.as_ref().ok_or_else(|| {
            Error::definite(codes::INTERNAL, "the postgres sink was written to before it was claimed")
        })
    }

    /// The open connection, which it is after [`PostgresSink::connect`].
    fn conn(&self) -> Result<&Conn> {
        self.conn
            .as_ref()
            .ok_or_else(|| Error::definite(codes::INTERNAL, "the postgres sink has no connection"))
    }

    /// Opens a connection if there is none that lives.
    fn connect(&mut self) -> Result<()> {
        if self.conn.as_ref().is_none_or(Conn::is_closed) {
            self.forget();
            let again = self.claim.is_some() || self.inspected.is_some();
            self.conn = Some(Conn::open(&self.options, again)?);
        }
        Ok(())
    }

    /// The connection is gone, and what was open on it.
    fn forget(&mut self) {
        self.conn = None;
        self.seated = false;
        self.open = false;
        self.tables.clear();
    }

    /// Takes the seat of our pipeline and sink, if we do not have it.
    fn take_seat(&mut self, job: &JobIdentity) -> Result<()> {
        if self.seated {
            return Ok(());
        }
        let errors = self.errors();
        let conn = self.conn()?;
        let failed = |e: &Pg| errors.of(codes::TARGET_WRITE, "taking the seat", e);
        let (high, low) = seat(&self.options.schema, job);
        let end = format!(
            "SELECT l.pid, a.application_name || ' (' || coalesce(a.client_addr::text, 'socket') || ')', pg_terminate_backend(l.pid)
             FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
             WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND l.classid::int8 = {} AND l.objid::int8 = {} AND l.objsubid = 2 AND l.granted AND l.pid <> pg_backend_pid()",
            high.cast_unsigned(),
            low.cast_unsigned()
        );
        let deadline = Instant::now() + ENDING;
        loop {
            let taken =
                conn.rows(&format!("SELECT pg_try_advisory_lock({high}, {low})")).map_err(|e| failed(&e))?;
            if taken.first().and_then(|r| r.first()?.as_deref()) == Some("t") {
                self.seated = true;
                return Ok(());
            }
            let held = conn.rows(&end);
            if Instant::now() > deadline || held.is_err() {
                let error = Error::transient(
                    codes::TARGET_BUSY,
                    format!("{}: another session of this pipeline and sink cannot be ended", errors.target()),
                );
                return Err(match held {
                    Ok(rows) => rows.iter().fold(error, |error, row| {
                        let field = |i: usize| row.get(i).and_then(Option::as_deref).unwrap_or("?");
                        error.note(format!("session {}: {}", field(0), field(1)))
                    }),
                    Err(e) => error.note(super::error::message(&e)),
                }
                .help("SELECT pg_terminate_backend(..); as its account or as a superuser"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sees to a connection that has the seat; stops if another run has claimed the target.
    fn sit_down(&mut self) -> Result<()> {
        let claim = self.claimed()?.clone();
        self.connect()?;
        if self.seated {
            return Ok(());
        }
        // not before we know that nobody else has taken over
        let held = read_progress(self.conn()?, &claim.job, "", self.errors())?;
        if held.as_ref().is_none_or(|h| h.epoch != claim.epoch) {
            return Err(self.fenced(held.as_ref()));
        }
        self.take_seat(&claim.job)
    }

    /// Opens a transaction if none is open; true if it did. Stops if another run has claimed the target.
    fn begin(&mut self) -> Result<bool> {
        if self.open && !self.conn()?.is_closed() {
            return Ok(false);
        }
        let claim = self.claimed()?.clone();
        if self.open {
            self.forget();
            return Err(Error::transient(
                codes::TARGET_WRITE,
                format!("{}: the connection was lost", self.errors().target()),
            ));
        }
        self.sit_down()?;
        let begun =
            read_progress(self.conn()?, &claim.job, "BEGIN; SET CONSTRAINTS ALL DEFERRED; ", self.errors());
        let held = match begun {
            Ok(held) => held,
            Err(error) => {
                self.rollback();
                return Err(error);
            }
        };
        self.open = true;
        match held {
            Some(held) if held.epoch == claim.epoch => {
                self.covered = if held.tick > claim.previous { held.tick } else { 0 };
                Ok(true)
            }
            held => {
                self.rollback();
                Err(self.fenced(held.as_ref()))
            }
        }
    }

    fn fenced(&self, held: Option<&Progress>) -> Error {
        let target = self.errors().target();
        let help = "stop one of the two; the other goes on";
        match held {
            Some(held) => Error::definite(
                codes::TARGET_FENCED,
                format!("another run has taken over {target}: \"{}\"", held.run),
            )
            .note(format!(
                "its epoch is {}, it has committed tick {} ({})",
                held.epoch, held.tick, held.updated_at
            ))
            .help(help),
            None => Error::definite(
                codes::TARGET_FENCED,
                format!("our row in {PROGRESS} of {target} was deleted"),
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
                self.open = false;
                let committed = self.conn()?.run("COMMIT");
                committed.map_err(|e| self.errors().of(codes::TARGET_WRITE, "committing", &e))?;
            }
            Ok(())
        });
        result.inspect_err(|_| self.rollback())
    }

    fn look(&self, table: &str) -> Result<Option<Found>> {
        Found::look(self.conn()?, &self.options.schema, table)
            .map_err(|e| self.errors().of(codes::TARGET_OPEN, &format!("looking at table \"{table}\""), &e))
    }

    fn change(&self) -> Result<ddl::Change<'_>> {
        Ok(ddl::Change {
            conn: self.conn()?,
            errors: self.errors(),
            schema: &self.options.schema,
            nul: self.options.nul,
            evolve: self.options.evolve,
        })
    }

    /// Makes the table if it is not there, or fit, and lists it as ours.
    fn establish(&mut self, table: &TargetTable) -> Result<()> {
        let errors = self.errors();
        let conn = self.conn()?;
        let failed = |doing: &str, e: &Pg| errors.of(codes::TARGET_DDL, doing, e);
        match self.look(&table.name)? {
            Some(found) => self.change()?.fit(&found, table)?,
            None => {
                let sql = make_table(&self.options.schema, table);
                conn.run(&sql).map_err(|e| failed(&format!("statement: {sql}"), &e))?;
            }
        }
        let job = &self.claimed()?.job;
        conn.run(&list(&self.options.schema, job, &table.name))
            .map_err(|e| failed("listing the table", &e))?;
        Ok(())
    }

    /// Refuses rows that this pipeline and sink did not write. `job` is `None` where it has no progress there.
    fn check_rows(&self, found: &Found, job: Option<&JobIdentity>) -> Result<()> {
        let conn = self.conn()?;
        let failed =
            |e: Pg| self.errors().of(codes::TARGET_OPEN, &format!("looking at table \"{}\"", found.name), &e);
        let owners = self.owners(&found.name)?;
        let is_ours = |(pipeline, sink): &(String, String)| {
            job.is_some_and(|j| j.pipeline == *pipeline && j.sink == *sink)
        };
        if owners.iter().any(is_ours) || !found.has_rows(conn).map_err(failed)? {
            return Ok(());
        }
        let count = found.count(conn, "").map_err(failed)?;
        let mut error = Error::definite(
            codes::TARGET_PROGRESS,
            format!("table \"{}\" already holds {count} rows that this pipeline did not write", found.name),
        );
        for (pipeline, sink) in &owners {
            error = error.note(format!("it is written by pipeline \"{pipeline}\", sink \"{sink}\""));
        }
        Err(error
            .note("rows that the source does not have would stay there for ever")
            .help(format!("DROP TABLE {}; or send the flow to another table or schema", found.full)))
    }

    /// The pipelines and sinks that write a table.
    fn owners(&self, table: &str) -> Result<Vec<(String, String)>> {
        if self.look(TABLES)?.is_none() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT pipeline, sink FROM {} WHERE name = {} ORDER BY 1, 2",
            ours(&self.options.schema, TABLES),
            literal(table)
        );
        let rows = self
            .conn()?
            .rows(&sql)
            .map_err(|e| self.errors().of(codes::TARGET_OPEN, "reading which tables are ours", &e))?;
        let field = |row: &[Option<String>], i: usize| row.get(i).cloned().flatten().unwrap_or_default();
        Ok(rows.iter().map(|row| (field(row, 0), field(row, 1))).collect())
    }

    /// Refuses tables of our names that are not ours.
    fn check_ours(&self) -> Result<()> {
        let ours: [(&str, &[&str]); 2] = [
            (PROGRESS, &["pipeline", "sink", "job_id", "epoch", "tick", "binding", "run", "updated_at"]),
            (TABLES, &["pipeline", "sink", "name"]),
        ];
        for (name, columns) in ours {
            let Some(found) = self.look(name)? else { continue };
            if !found.columns.iter().map(|c| &*c.name).eq(columns.iter().copied()) {
                return Err(Error::definite(
                    codes::TARGET_PROGRESS,
                    format!("table \"{name}\" of {} is not the one that cdc makes", self.errors().target()),
                )
                .note(format!("wanted: columns {}", columns.join(", ")))
                .note(format!("found:  {}", found.shown()))
                .help("write another schema in the sink, or rename that table"));
            }
        }
        Ok(())
    }

    fn written(&mut self, table: &TargetTable) -> Option<&mut Written> {
        self.tables.iter_mut().find(|w| w.writer.table.name == table.name)
    }

    /// Writes all that waits, or all that waits for one table.
    fn flush(&mut self, only: Option<&str>) -> Result<()> {
        let errors = Errors(&self.options);
        let Some(conn) = &self.conn else { return Ok(()) };
        for written in self.tables.iter_mut().filter(|w| only.is_none_or(|name| w.writer.table.name == name))
        {
            if !written.pending.is_empty() {
                written.writer.flush(conn, written.pending.take(), errors)?;
            }
        }
        Ok(())
    }

    /// Lets changes of a table wait, the open transaction's to be.
    fn take(&mut self, table: &TargetTable, changes: &[&TargetChange]) -> Result<()> {
        let is_multiset = table.is_multiset();
        let Some(written) = self.written(table) else {
            return Err(Error::definite(codes::INTERNAL, "a table was not prepared"));
        };
        for change in changes {
            written.writer.check(change)?;
            if change.op == TargetOp::Upsert && change.row.is_none() {
                return Err(Error::definite(
                    codes::INTERNAL,
                    format!("table \"{}\": an upsert of {:?} came without its row", table.name, change.key),
                ));
            }
            match (&change.row, change.op) {
                (_, TargetOp::Delete) if is_multiset => written.pending.count(&change.key, -1),
                (Some(row), TargetOp::Upsert) if is_multiset => written.pending.count(row, 1),
                _ => written.pending.push(change),
            }
        }
        let (rows, bytes) = self
            .tables
            .iter()
            .fold((0, 0), |(rows, bytes), w| (rows + w.pending.len(), bytes + w.pending.bytes));
        if rows >= WAITING || bytes >= WAITING_BYTES { self.flush(None) } else { Ok(()) }
    }

    /// Changes of one tick among which are updates in part. Those are made at once, what else is in the tick waits: so
    /// where a key comes twice, what came first goes first.
    fn take_in_part(&mut self, table: &TargetTable, changes: &[TargetChange]) -> Result<()> {
        self.flush(Some(&table.name))?;
        let errors = Errors(&self.options);
        let (conn, written) = tables_of(&self.conn, &mut self.tables, table)?;
        for change in changes {
            written.writer.check(change)?;
        }
        let moved = written.writer.read_moving(conn, changes, errors)?;
        let (mut part, mut keys) = (Vec::new(), HashSet::new());
        for change in changes {
            if keys.contains(&change.key) {
                self.update(table, &std::mem::take(&mut part))?;
                keys.clear();
            }
            let moved = moved.get(&change.key).filter(|_| change.is_in_part());
            if moved.is_none() && change.is_in_part() {
                if self.written(table).is_some_and(|w| w.pending.contains(&change.key)) {
                    self.flush(Some(&table.name))?;
                }
                part.push(change);
                keys.insert(&change.key);
                continue;
            }
            let row = moved.cloned().or_else(|| change.row.clone());
            self.take(table, &[&TargetChange { row, ..change.clone() }])?;
        }
        self.update(table, &part)
    }

    fn update(&mut self, table: &TargetTable, part: &[&TargetChange]) -> Result<()> {
        let errors = Errors(&self.options);
        let (conn, written) = tables_of(&self.conn, &mut self.tables, table)?;
        written.writer.update(conn, part, errors)
    }

    /// Is a commit of ours, whose answer was lost, found made by what is open, or would be opened now?
    fn is_covered(&mut self) -> Result<bool> {
        if !self.in_doubt {
            return Ok(false);
        }
        let opened = self.begin()?;
        if opened {
            self.open = false;
            if self.conn()?.run("ROLLBACK").is_err() {
                self.forget();
            }
        }
        Ok(self.covered > 0)
    }

    /// Looks whether a COMMIT whose answer was lost has been made.
    fn is_made(&mut self, next: i64) -> Result<bool> {
        self.forget();
        self.begin()?;
        let made = self.covered >= next;
        self.rollback();
        Ok(made)
    }

    fn commit_open(&mut self, tick: Tick, binding: &Binding) -> Result<i64> {
        let next = i64::try_from(tick).unwrap_or(i64::MAX);
        let claim = self.claimed()?.clone();
        if next < claim.previous {
            let headline = format!("tick {tick} was committed after tick {}", claim.previous);
            return Err(Error::definite(codes::INTERNAL, headline));
        }
        // our own commit, whose answer was lost (3. above)
        if self.covered >= next {
            self.rollback();
            return Ok(next);
        }
        if self.covered > 0 && self.emptied {
            let headline = format!(
                "the commit of tick {} reported an error and was made; tick {tick} cannot be added to it",
                self.covered
            );
            return Err(Error::definite(codes::INTERNAL, headline)
                .note("in between a table is emptied")
                .help("start again: it goes on from where the target stands"));
        }
        self.flush(None)?;
        let errors = self.errors();
        let failed = |e: &Pg| errors.of(codes::TARGET_WRITE, &format!("committing tick {tick}"), e);
        let binding = serde_json::to_string(binding)
            .map_err(|e| Error::definite(codes::INTERNAL, format!("a binding cannot be written: {e}")))?;
        let from = if self.covered > 0 { self.covered } else { claim.previous };
        let sql = format!(
            "UPDATE {} SET tick = {next}, binding = {}, updated_at = {NOW}
             WHERE pipeline = {} AND sink = {} AND epoch = {} AND tick = {from}",
            ours(&self.options.schema, PROGRESS),
            literal(&binding),
            literal(&claim.job.pipeline),
            literal(&claim.job.sink),
            claim.epoch
        );
        if self.conn()?.run(&sql).map_err(|e| failed(&e))? == 0 {
            let held = read_progress(self.conn()?, &claim.job, "ROLLBACK; ", errors)?;
            return Err(match held {
                Some(held) if held.epoch == claim.epoch => Error::definite(
                    codes::TARGET_PROGRESS,
                    format!("{PROGRESS} of {} says tick {} and not {from}", errors.target(), held.tick),
                )
                .note("somebody else has changed our row there")
                .help("start again: it goes on from where the target says it stands, if the state folder has it"),
                held => self.fenced(held.as_ref()),
            });
        }
        self.open = false;
        let Err(e) = self.conn()?.run("COMMIT") else { return Ok(next) };
        let error = self.errors().of(codes::TARGET_WRITE, &format!("committing tick {tick}"), &e);
        if is_answer(&e) {
            return Err(error);
        }
        self.in_doubt = true;
        match self.is_made(next) {
            Ok(true) => Ok(next),
            // fenced, and whoever it was knows what was committed
            Err(other) if !other.is_transient() => Err(other),
            _ => Err(error),
        }
    }
}

impl Sink for PostgresSink {
    fn delivery(&self) -> Delivery {
        Delivery::Net
    }

    fn holds_progress(&self) -> bool {
        true
    }

    fn inspect(&mut self, job: &JobIdentity) -> Result<Option<Resume>> {
        self.connect()?;
        self.check_ours()?;
        let resume = match self.look(PROGRESS)? {
            None => None,
            Some(_) => {
                let held = read_progress(self.conn()?, job, "", self.errors())?;
                held.map(|held| held.resume(self.errors())).transpose()?
            }
        };
        self.inspected = Some((job.clone(), resume.as_ref().map(|r| r.tick)));
        Ok(resume)
    }

    fn place(&self) -> String {
        self.errors().target()
    }

    fn preflight(&mut self, tables: &[Arc<TargetTable>]) -> Result<Vec<Check>> {
        self.connect()?;
        let names: Vec<&str> = tables.iter().map(|t| &*t.name).collect();
        preflight::check(self.conn()?, self.errors(), &names)
    }

    fn check(&mut self, table: &TargetTable) -> Result<()> {
        check_names(table)?;
        self.connect()?;
        let Some(found) = self.look(&table.name)? else { return Ok(()) };
        self.change()?.widening(&found, table)?;
        let job = match (&self.claim, &self.inspected) {
            (Some(claim), _) => Some(&claim.job),
            (None, Some((job, Some(_)))) => Some(job),
            _ => None,
        };
        self.check_rows(&found, job)
    }

    fn claim(&mut self, job: &JobIdentity) -> Result<()> {
        self.rollback();
        self.claim = None;
        self.tables.clear();
        self.connect()?;
        self.check_ours()?;
        let progress = self.look(PROGRESS)?.is_some();
        if progress {
            // of a job that is not ours nothing is ended
            let held = read_progress(self.conn()?, job, "", self.errors())?;
            if let Some(held) = held.filter(|h| h.job_id != job.job_id && h.tick > 0) {
                return Err(foreign_progress(self.errors(), &held, job));
            }
        }
        self.take_seat(job)?;
        let errors = Errors(&self.options);
        let failed = |e: Pg| errors.of(codes::TARGET_WRITE, "claiming the target", &e);
        let conn = self.conn()?;
        if !progress || self.look(TABLES)?.is_none() {
            conn.run(&create_ours(&self.options.schema)).map_err(|e| {
                let error = failed(e);
                drop(conn.run("ROLLBACK"));
                error
            })?;
        }
        let begun = read_progress(conn, job, "BEGIN; ", errors);
        let taken = begun.and_then(|held| {
            if let Some(held) = held.as_ref().filter(|h| h.job_id != job.job_id && h.tick > 0) {
                return Err(foreign_progress(errors, held, job));
            }
            stands_as_seen(&errors.target(), self.inspected.as_ref(), job, held.as_ref().map_or(0, |h| h.tick))?;
            let (pipeline, sink) = (literal(&job.pipeline), literal(&job.sink));
            let mut sql = String::new();
            // What another job listed as its own, this one has not written.
            if held.as_ref().is_none_or(|h| h.job_id != job.job_id) {
                let tables = ours(&self.options.schema, TABLES);
                sql.push_str(&format!("DELETE FROM {tables} WHERE pipeline = {pipeline} AND sink = {sink}; "));
            }
            // The row is locked by this, and shows what was committed when its lock was to be had.
            sql.push_str(&format!(
                "INSERT INTO {} AS p (pipeline, sink, job_id, epoch, tick, binding, run, updated_at)
                 VALUES ({pipeline}, {sink}, {}, 1, 0, '{{\"positions\":{{}}}}', {}, {NOW})
                 ON CONFLICT (pipeline, sink) DO UPDATE
                 SET job_id = excluded.job_id, epoch = p.epoch + 1, run = excluded.run, updated_at = excluded.updated_at
                 WHERE p.job_id = excluded.job_id OR p.tick = 0
                 RETURNING epoch, tick; COMMIT",
                ours(&self.options.schema, PROGRESS),
                literal(&job.job_id),
                literal(&job.run)
            ));
            let rows = conn.rows(&sql).map_err(failed)?;
            let number = |i: usize| rows.last().and_then(|r| r.get(i)?.as_deref()?.parse::<i64>().ok());
            match (number(0), number(1)) {
                (Some(epoch), Some(previous)) => Ok((epoch, previous)),
                _ => match held {
                    Some(held) => Err(foreign_progress(errors, &held, job)),
                    None => Err(Error::transient(
                        codes::TARGET_BUSY,
                        format!("{}: another job has claimed the target just now", errors.target()),
                    )),
                },
            }
        });
        match taken {
            Ok((epoch, previous)) => {
                self.claim = Some(Claim { job: job.clone(), epoch, previous });
                self.inspected = None;
                Ok(())
            }
            Err(error) => {
                drop(conn.run("ROLLBACK"));
                Err(error)
            }
        }
    }

    fn has_table(&mut self, name: &str) -> Result<bool> {
        Ok(self.look(name)?.is_some())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        if self
            .written(table)
            .is_some_and(|w| Arc::ptr_eq(&w.writer.table, table) || w.writer.table == *table)
        {
            return Ok(());
        }
        check_names(table)?;
        check_key(table)?;
        // rows of the shape before
        let flushed = self.flush(Some(&table.name));
        flushed.inspect_err(|_| self.rollback())?;
        self.tables.retain(|w| w.writer.table.name != table.name);
        let job = self.claimed()?.job.clone();
        if !self.open {
            self.sit_down()?;
        }
        let looked = self.look(&table.name).and_then(|found| {
            let mut fits = true;
            if let Some(found) = &found {
                fits = self.change()?.widening(found, table)?.is_empty();
                self.check_rows(found, Some(&job))?;
            }
            let owners = self.owners(&table.name)?;
            Ok((found, fits && owners.contains(&(job.pipeline.clone(), job.sink.clone()))))
        });
        // (What the lost commit has made of the name since: another table's, or nothing. No row for it is written any more.)
        let (mut found, ready) = match looked {
            Ok((None, _)) if self.is_covered()? => return Ok(()),
            Err(error) if error.code() == codes::TARGET_SHAPE && self.is_covered()? => return Ok(()),
            looked => looked.inspect_err(|_| self.rollback())?,
        };
        if found.is_none() || !ready {
            self.within(|sink| sink.establish(table))?;
            found = self.look(&table.name)?;
        }
        let Some(found) = found else {
            return Err(Error::transient(
                codes::TARGET_DDL,
                format!("table \"{}\" was dropped just now", table.name),
            ));
        };
        let writer = Writer::new(table, &found, self.options.nul);
        self.tables.push(Written { writer, pending: Pending::default() });
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        let result = self.begin().and_then(|_| {
            let covered = u64::try_from(self.covered).unwrap_or(0);
            if batch.changes.iter().all(|c| c.tick <= covered) {
                return Ok(());
            }
            // After a rollback the table may have to be made again.
            self.prepare(&batch.table)?;
            let table = batch.table.clone();
            for tick in batch.changes.chunk_by(|a, b| a.tick == b.tick) {
                if tick.first().is_some_and(|c| c.tick <= covered) {
                    continue;
                }
                if !table.is_multiset() && tick.iter().any(TargetChange::is_in_part) {
                    self.take_in_part(&table, tick)?;
                } else {
                    self.take(&table, &tick.iter().collect::<Vec<_>>())?;
                }
            }
            Ok(())
        });
        result.inspect_err(|_| self.rollback())
    }

    fn other_owner(
        &mut self,
        table: &Arc<TargetTable>,
        tick: Tick,
        keys: &[Row],
        owners: &[&str],
    ) -> Result<Option<(usize, String)>> {
        let result = self.begin().and_then(|_| {
            if tick <= u64::try_from(self.covered).unwrap_or(0) {
                return Ok(None);
            }
            self.prepare(table)?;
            // what waits may be one of them
            self.flush(Some(&table.name))?;
            let errors = Errors(&self.options);
            let (conn, written) = tables_of(&self.conn, &mut self.tables, table)?;
            written.writer.other_owner(conn, keys, owners, errors)
        });
        result.inspect_err(|_| self.rollback())
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        for name in names(change) {
            check_table_name(name)?;
        }
        if let TargetSchemaChange::CreateTable { table } | TargetSchemaChange::ChangeKey { table } = change {
            check_names(table)?;
            check_key(table)?;
        }
        if let TargetSchemaChange::AddColumn { table, column, .. } = change {
            check_column_name(table, &column.name)?;
        }
        if let TargetSchemaChange::RenameColumn { table, to, .. } = change {
            check_column_name(table, to)?;
        }
        let made = self.begin().and_then(|_| {
            if self.covered > 0 {
                // The lost commit has it: the committer tries that very commit again. What later ones of it have made of the names is not
                // what this one looks for.
                return Ok(());
            }
            self.flush(None)?;
            let named = names(change);
            self.tables.retain(|w| !named.contains(&w.writer.table.name.as_str()));
            let job = self.claimed()?.job.clone();
            if let TargetSchemaChange::CreateTable { table } = change
                && let Some(found) = self.look(&table.name)?
            {
                self.check_rows(&found, Some(&job))?;
            }
            if let TargetSchemaChange::DropTable { table } = change
                && let Some(found) = self.look(table)?
            {
                // somebody else's is not ours to drop: with rows it is refused, without it is taken as it is
                self.check_rows(&found, Some(&job))?;
                if !self.owners(table)?.contains(&(job.pipeline.clone(), job.sink.clone())) {
                    return Ok(());
                }
            }
            let (conn, errors) = (self.conn()?, self.errors());
            let schema = &self.options.schema;
            self.change()?.apply(change)?;
            let relisted = relist(schema, &job, change);
            if !relisted.is_empty() {
                conn.run(&relisted).map_err(|e| errors.of(codes::TARGET_DDL, "listing the table", &e))?;
            }
            Ok(())
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
        let (columns, comments) = brought(change);
        let defaults = columns.into_iter().filter_map(|column| {
            let declared = declared(&column.ty, false);
            let why = carried(column, &parts(&declared).0, NulPolicy::Error).err()?;
            Some(no_default(column, &why))
        });
        let comments = comments
            .into_iter()
            .filter_map(|(column, comment)| Some(no_comment(column, odd_comment(comment)?)));
        defaults.chain(comments).collect()
    }

    fn commit(&mut self, tick: Tick, binding: &Binding) -> Result<()> {
        let committed = self.begin().and_then(|_| self.commit_open(tick, binding));
        match committed {
            Ok(committed) => {
                self.emptied = false;
                self.covered = 0;
                self.in_doubt = false;
                if let Some(claim) = &mut self.claim {
                    claim.previous = committed;
                }
                Ok(())
            }
            Err(error) => {
                self.rollback();
                Err(error)
            }
        }
    }

    fn rollback(&mut self) {
        if let Some(conn) = &self.conn {
            // One that cannot be rolled back is of no more use; the server gives up what it was told.
            let failed = conn.is_closed() || (self.open && conn.run("ROLLBACK").is_err());
            if failed {
                self.forget();
            }
        }
        self.open = false;
        // A table may have been made in what is gone now.
        self.tables.clear();
        self.emptied = false;
    }
}

/// The connection, and what is known of a table.
fn tables_of<'a>(
    conn: &'a Option<Conn>,
    tables: &'a mut [Written],
    table: &TargetTable,
) -> Result<(&'a Conn, &'a mut Written)> {
    let written = tables.iter_mut().find(|w| w.writer.table.name == table.name);
    conn.as_ref().zip(written).ok_or_else(|| Error::definite(codes::INTERNAL, "a table was not prepared"))
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
    fn resume(self, errors: Errors<'_>) -> Result<Resume> {
        let unreadable = |what: String| {
            Error::definite(
                codes::TARGET_PROGRESS,
                format!("{PROGRESS} of {} does not say where the target stands: {what}", errors.target()),
            )
            .help("write another schema in the sink")
        };
        let binding = serde_json::from_str(&self.binding).map_err(|e| unreadable(e.to_string()))?;
        let tick = u64::try_from(self.tick).map_err(|_| unreadable(format!("tick {}", self.tick)))?;
        Ok(Resume { job_id: self.job_id, tick, binding })
    }
}

/// Reads our row of the progress table, which is there; statements in front of it go with it.
fn read_progress(
    conn: &Conn,
    job: &JobIdentity,
    before: &str,
    errors: Errors<'_>,
) -> Result<Option<Progress>> {
    let sql = format!(
        "{before}SELECT job_id, epoch, tick, binding, run, updated_at FROM {} WHERE pipeline = {} AND sink = {}",
        ours(&errors.0.schema, PROGRESS),
        literal(&job.pipeline),
        literal(&job.sink)
    );
    let rows = conn.rows(&sql).map_err(|e| errors.of(codes::TARGET_OPEN, "reading our progress", &e))?;
    Ok(rows.first().map(|row| {
        let text = |i: usize| row.get(i).cloned().flatten().unwrap_or_default();
        let number = |i: usize| text(i).parse().unwrap_or(-1);
        Progress {
            job_id: text(0),
            epoch: number(1),
            tick: number(2),
            binding: text(3),
            run: text(4),
            updated_at: text(5),
        }
    }))
}

/// A table of ours, with its schema.
fn ours(schema: &str, table: &str) -> String {
    format!("{}.{table}", quote(schema))
}

/// Makes our two tables. The lock keeps pipelines that start side by side from making them twice.
fn create_ours(schema: &str) -> String {
    let (high, low) = halves(fnv(&["_cdc", schema]));
    format!(
        "BEGIN; SELECT pg_advisory_xact_lock({high}, {low});
         CREATE TABLE IF NOT EXISTS {} (
             pipeline text NOT NULL, sink text NOT NULL, job_id text NOT NULL, epoch bigint NOT NULL,
             tick bigint NOT NULL, binding text NOT NULL, run text NOT NULL, updated_at text NOT NULL,
             PRIMARY KEY (pipeline, sink));
         CREATE TABLE IF NOT EXISTS {} (
             pipeline text NOT NULL, sink text NOT NULL, name text NOT NULL, PRIMARY KEY (pipeline, sink, name));
         COMMIT",
        ours(schema, PROGRESS),
        ours(schema, TABLES)
    )
}

/// The two numbers of a pipeline's and sink's seat.
fn seat(schema: &str, job: &JobIdentity) -> (i32, i32) {
    halves(fnv(&["seat", schema, &job.pipeline, &job.sink]))
}

fn halves(hash: u64) -> (i32, i32) {
    (((hash >> 32) as u32).cast_signed(), (hash as u32).cast_signed())
}

fn foreign_progress(errors: Errors<'_>, held: &Progress, job: &JobIdentity) -> Error {
    Error::definite(
        codes::TARGET_PROGRESS,
        format!(
            "{} holds progress of pipeline \"{}\", sink \"{}\" that belongs to another state folder",
            errors.target(),
            job.pipeline,
            job.sink
        ),
    )
    .note(format!(
        "there: job {}, tick {}, last written by \"{}\" at {}",
        held.job_id, held.tick, held.run, held.updated_at
    ))
    .note(format!("here:  job {}", job.job_id))
    .help(format!(
        "start with the state folder of that job; or, to copy anew, write another schema in the sink, or DELETE FROM {} WHERE pipeline = {} AND sink = {}; and drop its tables",
        ours(&errors.0.schema, PROGRESS),
        literal(&job.pipeline),
        literal(&job.sink)
    ))
}

/// The statement that lists a table as written by us.
fn list(schema: &str, job: &JobIdentity, table: &str) -> String {
    format!(
        "INSERT INTO {} (pipeline, sink, name) VALUES ({}, {}, {}) ON CONFLICT DO NOTHING",
        ours(schema, TABLES),
        literal(&job.pipeline),
        literal(&job.sink),
        literal(table)
    )
}

/// The statements that keep the list in step with a schema change.
fn relist(schema: &str, job: &JobIdentity, change: &TargetSchemaChange) -> String {
    let tables = ours(schema, TABLES);
    let of_us = format!("pipeline = {} AND sink = {}", literal(&job.pipeline), literal(&job.sink));
    match change {
        TargetSchemaChange::CreateTable { table } => list(schema, job, &table.name),
        TargetSchemaChange::DropTable { table } => {
            format!("DELETE FROM {tables} WHERE {of_us} AND name = {}", literal(table))
        }
        TargetSchemaChange::RenameTable { from, to } => format!(
            "WITH gone AS (DELETE FROM {tables} WHERE {of_us} AND name = {} RETURNING pipeline, sink)
             INSERT INTO {tables} (pipeline, sink, name) SELECT pipeline, sink, {} FROM gone ON CONFLICT DO NOTHING",
            literal(from),
            literal(to)
        ),
        _ => String::new(),
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

fn check_names(table: &TargetTable) -> Result<()> {
    check_table_name(&table.name)?;
    table.schema.columns.iter().try_for_each(|c| check_column_name(&table.name, &c.name))
}

fn check_key(table: &TargetTable) -> Result<()> {
    if table.key.iter().any(|i| *i >= table.schema.columns.len()) {
        return Err(Error::definite(
            codes::INTERNAL,
            format!("table \"{}\" has a key of columns that it does not have", table.name),
        ));
    }
    Ok(())
}
