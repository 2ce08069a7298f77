//! MySQL and MariaDB as a target: exactly once, a transaction of the target per commit.
//!
//! # What is in the database
//!
//! The tables of the flows, and two of ours:
//!
//! ```text
//! _cdc_progress (pipeline, sink, job_id, epoch, tick, binding, changes, run, updated_at; key pipeline, sink)
//! _cdc_tables   (pipeline, sink, name, changing; key the first three): the tables that this pipeline and sink write
//! ```
//!
//! How column types are mapped, keys and character sets among them: `mysql/types.rs`. Writing rows: `mysql/write.rs`.
//! Schema changes: `mysql/ddl.rs`. What a session is set to: `mysql/conn.rs`.
//!
//! # The commit protocol
//!
//! *lock*: each connection of a run takes the named lock of its pipeline and sink (`GET_LOCK`) and keeps it until the
//! server has ended the session.
//!
//! *claim*: take the lock, from another run by ending its session (`KILL`); in one transaction read the row of
//! (pipeline, sink) `FOR UPDATE`, write it back with `epoch + 1` and our name in `run`; remember `epoch` and `tick`.
//!
//! *begin* (before the first write after a commit): START TRANSACTION, read the row `FOR UPDATE`; another epoch than ours
//! ends it there.
//!
//! *commit(t, binding)*: in the same transaction as all rows of the ticks up to t, `UPDATE _cdc_progress SET tick = t,
//! binding = .. WHERE pipeline = .. AND sink = .. AND epoch = ours AND tick = previous`; one row must be found; then
//! COMMIT.
//!
//! Why this is exactly once:
//!
//! 1. *All or nothing.* Rows, tick and binding are one InnoDB transaction (a table of another engine is refused), so
//!    at every instant the database holds all rows of the ticks up to `tick` and none of a later one. A restart
//!    reads `tick` and `binding` and goes on behind them.
//! 2. *One writer.* Epochs only grow, each handed out under the lock of the row. Let an old run try to commit after a
//!    new one has claimed: it reads a greater epoch, or its UPDATE finds no row, and it rolls back. Let it have
//!    begun before: then it holds the row's lock; the claim ends its session, which rolls it back, or waits for its
//!    COMMIT, and reads the tick that it left. So between a claim and the next one only the claimer's commits
//!    take effect, however long an old process slept, on whatever host. An old run that finds its session ended
//!    comes back, reads the epoch, and stops; it ends no session but one of its own.
//! 3. *A lost answer.* If the connection breaks after COMMIT was sent, the transaction may have become durable all the
//!    same, or may do so while we come back. The new connection reads the progress row `FOR UPDATE`: that waits
//!    for the lost transaction, whose lock it is, to end either way, and the old session is ended first if it still
//!    has our named lock, since a server may take hours to notice that a client is gone. (That we do not wait as long
//!    for a server that is gone: `mysql/silence.rs`.) If the row says t, the
//!    commit is done. If not, nothing of it is there, and the committer writes the ticks again. (A lost commit that
//!    is found only when the next transaction begins is passed over: what it covers, rows and schema changes, is not
//!    written again, and its commit is reported as done.)
//!
//! # Schema changes
//!
//! A definition (ALTER, CREATE, DROP, ..) commits the open transaction and cannot be rolled back. So:
//!
//! * *Nothing of an earlier tick is open.* The sink says so ([`Sink::commits_by_itself`]), and the committer commits
//!   what it has before a tick with a schema change. The change is the first of its tick: rows of the tick
//!   before are visible with their progress, rows of its own tick come behind it. (Rows in front of it within one
//!   source transaction, which only a temporary change of a session's log can make, are made durable with it: a
//!   table with a key takes them again, one without is refused.)
//! * *The target knows that it is between two shapes.* Before the statement runs, a transaction of its own, which
//!   checks the epoch, writes into the progress row which changes of this tick are made (`changes`: a hash of
//!   each), and marks the table (`changing`); the commit of the tick takes both back. After a crash in between, the
//!   tick has not moved, so the source gives out the same change first. Those that are noted are passed over; the
//!   next one may have been made or not, and looks: each is one statement, and *a change that the target already
//!   shows is no error*. (The note is needed because "rename a to b, add a" looks done in part and is not: the second
//!   statement made what the first one looks for.)
//! * A table that is taken in, with the structure of now, gets a tick that the log has no place for (`DROP`, `CREATE`, all of
//!   its rows again). After a crash it may come in front of the tick that is half made. It is about tables of its own,
//!   so it is made *beside*: what is noted stays, and comes behind it. (`changing = 3`. If it is not made to its end, it
//!   comes again; each of its changes may be made twice, since they end with a new table without rows.)
//! * A table that was made in a tick which never came again (the source has dropped or renamed it meanwhile, and it was taken
//!   in with the structure of a moment that is over) would stay: so it is marked as made (`changing = 2`). Behind the next tick
//!   whose changes have all come it goes, empty as it is, unless that tick has made it anew; if it cannot go then, behind a later
//!   one. One that is still to come is then made when it comes.
//! * Until it has come again, a marked table is not checked and not made anew: its old shape is not to be had. No row of
//!   it can come in front of the change.
//! * Names change hands (`RENAME TABLE a TO tmp, b TO a, tmp TO b`; rings and chains of any length; `DROP TABLE a, b`), so which of
//!   the steps are done cannot be told from the tables: behind the first and the last of `a TO tmp, tmp TO a` they are called the
//!   same. It is told from the notes. Those of the steps before are durable when a step is sent, so at any moment the
//!   target is in one of two states: behind the last noted step, or behind the one after it. These differ in that step alone,
//!   of which one is sure: in front of it *from* is there and *to* is not (it is refused else), behind it the other
//!   way round; a table that is dropped or made is there, or not. So the look of the one step in doubt is exact, whatever the names
//!   mean in front of it and behind it.
//!
//!   *That holds as long as nothing else makes or takes a table.* A step that is passed over says nothing of what is there: a later
//!   one, noted or in doubt, may have given its table another name, and its name another table. So what is behind it is not
//!   made where it is not there, and is not refused where it has another shape: an empty `tmp` that was made for the first step
//!   would be in the way of the third, and be left. (The steps of a commit that was lost and is durable are such ones
//!   too.) A step that was looked at leaves the target exactly behind it, as without a crash.
//!
//!   And a name that nothing has any more stays marked until the tick is committed (`changing = 4`, which lists nothing): the
//!   checkpoint knows a table of that name, and a start would make it.
//! * *No other run's definition.* Definitions run in a session that holds the named lock, after the epoch was read in
//!   it. A claim needs that lock, and gets it only when the session has ended, its statement with it. So no definition
//!   of an old run takes effect behind a claim.
//!
//! Readers of the target see a schema change some milliseconds before the tick it belongs to: MySQL has no way around
//! it. Rows are never seen half a tick.
//!
//! *prepare* makes a table by itself; if a transaction is open, on a second connection, so as not to commit it: an empty
//! table in front of its first tick harms nothing.
//!
//! # Rows that nobody accounts for
//!
//! A row at the target that the pipeline did not write would stay there for ever. So a table that is there already must
//! be empty or be listed in `_cdc_tables` for this pipeline and sink; a new progress row (another job) clears the
//! list. Nothing is emptied by itself.

mod conn;
mod ddl;
mod default;
mod json;
mod look;
mod options;
mod preflight;
mod reader;
mod silence;
mod sql;
mod types;
mod write;

pub use options::MysqlOptions;
pub use reader::MysqlReader;

use crate::default::{brought, no_default, part_of_comment};
use crate::pending::Pending;
use crate::standing::stands_as_seen;
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind};
use cdc_core::connector::{
    Delivery, JobIdentity, Resume, SERVER_NAME_MARIADB, SERVER_NAME_MYSQL, Sink, TargetBatch, TargetChange,
    TargetOp, TargetSchemaChange, TargetTable, Upstream,
};
use cdc_core::plan::pattern::TableSet;
use cdc_core::position::Binding;
use cdc_core::preflight::Check;
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, codes};
use conn::{Errors, LOCK_SECONDS, Link};
use ddl::Step;
use look::{Found, ROW_NUMBER, create_table};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use types::Dialect;
use write::{Way, Writer};

/// Where each pipeline and sink stands.
const PROGRESS: &str = "_cdc_progress";
/// Which tables they write.
const TABLES: &str = "_cdc_tables";

/// `changing` of a table that is made.
const MADE: u32 = 2;

/// `changing` of a table that is changed beside what is noted.
const BESIDE: u32 = 3;

/// `changing` of a table that has gone, or has another name, in a tick that is not committed: it is not listed any more.
const GONE: u32 = 4;

/// Changes that wait at most, and their bytes.
const WAITING: usize = 20_000;
const WAITING_BYTES: usize = 8 << 20;

/// What each of our tables has, in order.
const OURS: [(&str, &[&str]); 2] = [
    (PROGRESS, &["pipeline", "sink", "job_id", "epoch", "tick", "binding", "changes", "run", "updated_at"]),
    (TABLES, &["pipeline", "sink", "name", "changing"]),
];

fn create_ours(dialect: &Dialect) -> [String; 2] {
    let text = format!("CHARACTER SET utf8mb4 COLLATE {}", dialect.exact());
    let options = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4";
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {PROGRESS} (
                pipeline VARCHAR(255) {text} NOT NULL, sink VARCHAR(255) {text} NOT NULL,
                job_id VARCHAR(255) {text} NOT NULL, epoch BIGINT NOT NULL, tick BIGINT NOT NULL,
                binding LONGTEXT {text} NOT NULL, changes LONGTEXT {text} NOT NULL, run VARCHAR(1000) {text} NOT NULL,
                updated_at VARCHAR(40) {text} NOT NULL, PRIMARY KEY (pipeline, sink)) {options}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {TABLES} (
                pipeline VARCHAR(255) {text} NOT NULL, sink VARCHAR(255) {text} NOT NULL,
                name VARCHAR(64) {text} NOT NULL, changing INT NOT NULL, PRIMARY KEY (pipeline, sink, name)) {options}"
        ),
    ]
}

/// SQL for the present moment in UTC.
const NOW: &str = "DATE_FORMAT(UTC_TIMESTAMP(3), '%Y-%m-%dT%H:%i:%s.%fZ')";

fn option(name: &'static str, kind: OptionKind, help: &'static str) -> OptionDescriptor {
    OptionDescriptor { name, kind, required: false, default: None, help, not_yet: None }
}

/// The connector, for the language.
pub fn descriptor() -> ConnectorDescriptor {
    let needed = |name, kind, help| OptionDescriptor { required: true, ..option(name, kind, help) };
    let by_default = |default, o: OptionDescriptor| OptionDescriptor { default: Some(default), ..o };
    ConnectorDescriptor {
        name: "mysql",
        role: ConnectorRole::Sink,
        help: "writes to a database of a MySQL or MariaDB server; exactly once",
        options: vec![
            needed("url", OptionKind::Url, "mysql://host:port"),
            needed("database", OptionKind::Text, "the database whose tables are written; it must be there"),
            needed("user", OptionKind::Text, "the account's name"),
            option("password", OptionKind::Secret, "the account's password; take it from the environment"),
            option(
                "password_file",
                OptionKind::Path,
                "a file that holds the password instead (a newline at its end does not count); read for every connection",
            ),
            option(
                "socket",
                OptionKind::Path,
                "the server's Unix socket, on this machine; host and port of url are then only a name",
            ),
            by_default(
                "preferred",
                option(
                    "tls",
                    OptionKind::Choice(options::TLS),
                    "disabled: never; preferred: encrypted if the server offers it; required: encrypted or not at all; \
                     verify-ca: and signed by tls_ca; verify-identity: and of the host in url",
                ),
            ),
            option(
                "tls_ca",
                OptionKind::Path,
                "PEM file of the authorities that verify-ca and verify-identity trust; without it verify-identity \
                 trusts the public ones",
            ),
            option(
                "tls_cert",
                OptionKind::Path,
                "PEM file of a client certificate, for accounts that REQUIRE X509",
            ),
            option("tls_key", OptionKind::Path, "PEM file of its private key"),
            by_default(
                "check",
                option(
                    "on_existing",
                    OptionKind::Choice(options::ON_EXISTING),
                    "a table that is there already: check it and refuse what does not fit; evolve: where it is empty add columns and widen types first",
                ),
            ),
            by_default(
                "10s",
                option("connect_timeout", OptionKind::Duration, "how long a connection may take to open"),
            ),
            by_default(
                "30s",
                option(
                    "answer_timeout",
                    OptionKind::Duration,
                    "how long the server may be silent before another connection asks whether it is at work; if it is not, \
                     the connection is given up and what was open is written again",
                ),
            ),
        ],
        example: "sink dw = mysql {\n  url      = \"mysql://127.0.0.1:3306\"\n  database = \"dw\"\n  user     = \"cdc\"\n  password = \"${DW_PASSWORD}\"\n}",
    }
}

/// The sink.
pub struct MysqlSink {
    options: MysqlOptions,
    link: Option<Link>,
    claim: Option<Claim>,
    /// Whose progress `inspect` has looked for, and the tick that it found: for `check` and `claim`.
    inspected: Option<(JobIdentity, Option<Tick>)>,
    /// By table name; made by `prepare`.
    writers: HashMap<String, Writer>,
    /// Changes that the open transaction is to make, by table: see [`crate::pending`].
    waiting: BTreeMap<String, Pending>,
    /// The number of our last session at the server.
    session: u32,
    open: Open,
    /// Changes of the present tick that were made, as the target says; some of them by an earlier run.
    made: Vec<u64>,
    /// Schema changes since the last commit that have come.
    seen: Vec<u64>,
    /// Tables that a change of this run has touched since the last commit.
    changed: HashSet<String>,
    /// Tables that an earlier run has left between two shapes.
    between: HashSet<String>,
    /// Those of them that it has made.
    made_before: HashSet<String>,
    /// Those that the changes are about which the target has noted (`made`).
    noted: HashSet<String>,
    /// The present tick is beside what is noted.
    beside: bool,
    /// The last change that has come was passed over: later ones may be made too.
    passed: bool,
    /// Those of them that should have gone behind a commit, and are still there.
    left: HashSet<String>,
    /// What the source captures, if this is its server; and whether that tells no letter case apart in names.
    captured: Option<(TableSet, bool)>,
}

/// The open transaction.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    is: bool,
    /// The tick of a commit of ours whose answer was lost, if it began behind one; else 0.
    covered: i64,
    /// It holds rows of a table without key.
    counted: bool,
    /// A schema change has come that the lost commit may not cover.
    beyond: bool,
}

#[derive(Debug, Clone)]
struct Claim {
    job: JobIdentity,
    epoch: i64,
    /// The last tick that is committed.
    previous: i64,
}

impl Claim {
    /// The condition for our rows.
    fn ours(&self) -> String {
        ours(&self.job)
    }
}

fn ours(job: &JobIdentity) -> String {
    format!("pipeline = {} AND sink = {}", sql::text(&job.pipeline), sql::text(&job.sink))
}

fn not_claimed() -> Error {
    Error::definite(codes::INTERNAL, "the mysql sink was written to before it was claimed")
}

/// The named lock of a pipeline and sink in a database: names of locks are the server's, and short.
fn lock_name(job: &JobIdentity) -> String {
    format!(
        "CONCAT('cdc:', SHA2(CONCAT_WS(CHAR(0), DATABASE(), {}, {}), 224))",
        sql::text(&job.pipeline),
        sql::text(&job.sink)
    )
}

impl MysqlSink {
    /// A sink; opens nothing yet.
    pub fn new(options: MysqlOptions) -> MysqlSink {
        MysqlSink {
            options,
            link: None,
            claim: None,
            inspected: None,
            writers: HashMap::new(),
            waiting: BTreeMap::new(),
            session: 0,
            open: Open::default(),
            made: Vec::new(),
            seen: Vec::new(),
            changed: HashSet::new(),
            between: HashSet::new(),
            made_before: HashSet::new(),
            noted: HashSet::new(),
            beside: false,
            passed: false,
            left: HashSet::new(),
            captured: None,
        }
    }

    /// The connection, opened again if it was lost.
    fn link(&mut self) -> Result<(&mut Link, Errors<'_>)> {
        if self.link.as_ref().is_none_or(Link::is_lost) {
            if self.open.is {
                return Err(self.lost());
            }
            self.link = None;
            let again = self.claim.is_some() || self.inspected.is_some();
            let mut link = Link::open(&self.options, again)?;
            if let Some(claim) = &self.claim {
                self.session = lock_again(&mut link, &self.options, claim, self.session)?;
            }
            self.link = Some(link);
        }
        let errors = Errors(&self.options);
        self.link
            .as_mut()
            .map(|link| (link, errors))
            .ok_or_else(|| Error::definite(codes::INTERNAL, "a connection was not kept"))
    }

    fn lost(&self) -> Error {
        Error::transient(
            codes::TARGET_OPEN,
            format!("{}: the connection was lost in the middle of a transaction", self.options.place()),
        )
    }

    /// Opens a transaction if none is open. Stops if another run has claimed the target.
    fn begin(&mut self) -> Result<()> {
        if self.open.is {
            // what is behind a lost connection must not be taken for the rest of a transaction
            return if self.link.as_ref().is_some_and(|l| !l.is_lost()) { Ok(()) } else { Err(self.lost()) };
        }
        let claim = self.claim.clone().ok_or_else(not_claimed)?;
        let (link, errors) = self.link()?;
        let failed = |e: &mysql_async::Error| errors.of(codes::TARGET_WRITE, "beginning a transaction", e);
        link.run("START TRANSACTION").map_err(|e| failed(&e))?;
        let held = read_progress(link, &claim.job, true).map_err(|e| failed(&e))?;
        match held {
            Some(held) if held.epoch == claim.epoch => {
                let covered = if held.tick > claim.previous { held.tick } else { 0 };
                self.open = Open { is: true, covered, counted: false, beyond: false };
                self.made = held.changes;
                Ok(())
            }
            held => {
                roll_back(link);
                Err(fenced(&self.options, held.as_ref()))
            }
        }
    }

    /// Lets a tick's changes of a table with a key wait. Where there are updates in part among them, which are no rows, they are made at
    /// once.
    fn take(&mut self, table: &str, tick: &[TargetChange]) -> Result<()> {
        if tick.iter().any(|c| c.is_in_part() || (c.op == TargetOp::Upsert && c.row.is_none())) {
            self.flush(Some(table))?;
            let errors = Errors(&self.options);
            let (Some(link), Some(writer)) = (&mut self.link, self.writers.get(table)) else {
                return Err(not_claimed());
            };
            return writer.write(&mut Way { link, errors }, tick);
        }
        let pending = self.waiting.entry(table.to_owned()).or_default();
        tick.iter().for_each(|change| pending.push(change));
        let (rows, bytes) =
            self.waiting.values().fold((0, 0), |(rows, bytes), p| (rows + p.len(), bytes + p.bytes));
        if rows >= WAITING || bytes >= WAITING_BYTES { self.flush(None) } else { Ok(()) }
    }

    /// Writes all that waits, or all that waits for one table.
    fn flush(&mut self, only: Option<&str>) -> Result<()> {
        let errors = Errors(&self.options);
        for (table, pending) in self.waiting.iter_mut().filter(|(t, _)| only.is_none_or(|only| only == *t)) {
            if pending.is_empty() {
                continue;
            }
            let (Some(link), Some(writer)) = (&mut self.link, self.writers.get(table)) else {
                return Err(not_claimed());
            };
            writer.write_last(&mut Way { link, errors }, pending.take())?;
        }
        Ok(())
    }

    /// Runs `work` in the open transaction, or in one of its own. Any error rolls back what is open.
    fn within(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let was_open = self.open.is;
        let result = self.begin().and_then(|()| {
            work(self)?;
            if !was_open {
                self.run("COMMIT", codes::TARGET_WRITE, "committing")?;
                self.open = Open::default();
            }
            Ok(())
        });
        result.inspect_err(|_| self.rollback())
    }

    /// Runs a statement on the connection that is there: a new one would not have the transaction.
    fn run(&mut self, sql: impl AsRef<[u8]>, code: cdc_core::Code, doing: &str) -> Result<u64> {
        let errors = Errors(&self.options);
        let Some(link) = &mut self.link else {
            return Err(self.lost());
        };
        link.run(sql).map_err(|e| errors.of(code, doing, &e))
    }

    fn look(&mut self, table: &str) -> Result<Option<Found>> {
        let (link, errors) = self.link()?;
        look(link, errors, table)
    }

    /// The job as which we look: the one that has claimed, or the one that was found.
    fn job(&self) -> Option<JobIdentity> {
        match (&self.claim, &self.inspected) {
            (Some(claim), _) => Some(claim.job.clone()),
            (None, Some((job, Some(_)))) => Some(job.clone()),
            _ => None,
        }
    }

    /// Refuses table names that the server cannot have, that we keep for ourselves, or that the source would read again.
    fn check_name(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.check_captured(name)
    }

    fn check_captured(&self, name: &str) -> Result<()> {
        let Some((captured, folds)) = &self.captured else { return Ok(()) };
        let database = &self.options.database;
        let spelled = |name: &str| if *folds { name.to_lowercase() } else { name.to_owned() };
        // such a server writes names in lower case, or as they came when they were made
        let here = [TableId::new(&**database, name), TableId::new(spelled(database), spelled(name))];
        if !here.iter().any(|table| captured.contains(table)) {
            return Ok(());
        }
        Err(Error::definite(
            codes::TARGET_CAPTURED,
            format!("table \"{database}.{name}\" is written by the sink and read by the source: both are on one server"),
        )
        .note(format!("{} is the source's server, or one that it replicates", self.options.place()))
        .note("what is written there would come back as a change of the source, without end")
        .help(format!(
            "leave the sink's database out of the source: tables = [.., \"!{database}.*\"]; or give another database in the sink"
        )))
    }

    /// Is a table between two shapes, and has the change not come again, or has it and is not the last one?
    fn is_between(&self, table: &str) -> bool {
        if self.changed.contains(table) { self.passed } else { self.between.contains(table) }
    }

    /// Makes a table that is not there.
    fn make(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        let aside = if self.open.is { Some(Link::open(&self.options, true)?) } else { None };
        let (link, errors) = self.link()?;
        let sql = create_table(table, &link.dialect)?;
        let made = |link: &mut Link| match link.run(&sql) {
            // somebody was faster, or it is our own of before the connection was lost
            Err(mysql_async::Error::Server(e)) if e.code == 1050 => Ok(()),
            other => other.map(|_| ()),
        };
        let result = match aside {
            Some(mut aside) => made(&mut aside),
            None => made(link),
        };
        result.map_err(|e| errors.of(codes::TARGET_DDL, &format!("statement: {}", sql::clipped(&sql)), &e))
    }

    /// Makes a definition that commits by itself.
    fn define(&mut self, change: &TargetSchemaChange, sql: &str, narrow: Option<&str>) -> Result<()> {
        if self.open.counted {
            return Err(Error::definite(
                codes::TARGET_DDL,
                "a schema change stands behind rows of a table without key in one transaction",
            )
            .note("MySQL commits at a schema change, and such rows cannot be written again")
            .help("give the table a key in the flow: key (..)"));
        }
        let claim = self.claim.clone().ok_or_else(not_claimed)?;
        let mut marks = vec![format!(
            "UPDATE {PROGRESS} SET changes = '{}' WHERE {} AND epoch = {}",
            written(if self.beside { &self.made } else { &self.seen }),
            claim.ours(),
            claim.epoch
        )];
        // one that was there and is made to fit is not ours to take away again
        let is_made =
            matches!(change, TargetSchemaChange::CreateTable { .. }) && !sql.starts_with("ALTER TABLE ");
        let mark = match change {
            _ if self.beside => BESIDE,
            _ if is_made => MADE,
            _ => 1,
        };
        for name in names(change) {
            marks.push(format!(
                "INSERT INTO {TABLES} (pipeline, sink, name, changing) VALUES ({}, {}, {}, {mark}) \
                 ON DUPLICATE KEY UPDATE changing = {mark}",
                sql::text(&claim.job.pipeline),
                sql::text(&claim.job.sink),
                sql::text(name)
            ));
        }
        for mark in marks {
            self.run(&mark, codes::TARGET_DDL, "noting a schema change")?;
        }
        self.run("COMMIT", codes::TARGET_DDL, "noting a schema change")?;
        self.open = Open::default();
        if !self.beside {
            self.made.clone_from(&self.seen);
        }
        let errors = Errors(&self.options);
        let Some(link) = &mut self.link else { return Err(not_claimed()) };
        let done = match (link.run(sql), narrow) {
            // the row would be too wide, or the column too long; or it has become a text because of that
            (Err(mysql_async::Error::Server(e)), Some(narrow)) if [1118, 1074, 1101].contains(&e.code) => {
                link.run(narrow).map(|_| ())
            }
            (done, _) => done.map(|_| ()),
        };
        done.map_err(|e| errors.of(codes::TARGET_DDL, &format!("statement: {}", sql::clipped(sql)), &e))
    }

    fn apply_open(&mut self, change: &TargetSchemaChange) -> Result<()> {
        self.begin()?;
        let claim = self.claim.clone().ok_or_else(not_claimed)?;
        if self.open.covered > 0 {
            // the lost commit has it: the committer tries that very commit again
            self.open.beyond = true;
            self.passed = true;
            return Ok(());
        }
        self.beside = if self.seen.is_empty() { self.is_beside(change) } else { self.beside };
        let made = [&self.seen[..], &[fingerprint(change)]].concat();
        if !self.beside && self.made.starts_with(&made) {
            // By a run before a crash; that is noted together with what it did to the list. Later ones may have changed that again.
            self.passed = true;
            return Ok(());
        }
        self.passed = false;
        if let TargetSchemaChange::CreateTable { table } = change
            && let Some(found) = self.look(&table.name)?
        {
            self.check_rows(&found, Some(&claim.job))?;
        }
        if let TargetSchemaChange::CreateTable { table } = change
            && self.between.contains(&table.name)
            && self.seen.contains(&fingerprint(&dropped(&table.name)))
            && let Some(found) = self.look(&table.name)?
        {
            // A run before a crash has dropped one in this tick and made another, and the source has changed that
            // since (a table that is taken in anew has the structure of now): it goes again, without rows.
            let (link, _) = self.link()?;
            let dialect = link.dialect.clone();
            if found.check(table, &dialect).is_err() {
                self.define(change, &format!("DROP TABLE {}", sql::quote(&found.name)), None)?;
                self.begin()?;
            }
        }
        if let TargetSchemaChange::DropTable { table } = change
            && let Some(found) = self.look(table)?
        {
            // somebody else's is not ours to drop: with rows it is refused, without it is taken as it is
            self.check_rows(&found, Some(&claim.job))?;
            if !self.is_listed(&claim.job, table)? {
                return Ok(());
            }
        }
        let evolve = self.options.evolve;
        let in_doubt = names(change).iter().any(|name| self.between.contains(*name));
        let (link, errors) = self.link()?;
        let step = ddl::Change { link, errors, evolve, in_doubt }.plan(change)?;
        match step {
            Step::Nothing => {}
            Step::Rows(sql) => {
                let doing = format!("statement: {}", sql::clipped(&String::from_utf8_lossy(&sql)));
                self.run(&sql, codes::TARGET_DDL, &doing)?;
            }
            Step::Definition { sql, narrow, then } => {
                self.define(change, &sql, narrow.as_deref())?;
                self.begin()?;
                if let Some((then, of_text)) = then {
                    self.define(change, &then, Some(&of_text))?;
                    self.begin()?;
                }
            }
        }
        if self.beside {
            return self.relist(&claim, change);
        }
        // with what is open: rows of this step and that it is made are one
        let noted = format!(
            "UPDATE {PROGRESS} SET changes = '{}' WHERE {} AND epoch = {}",
            written(&made),
            claim.ours(),
            claim.epoch
        );
        self.run(&noted, codes::TARGET_DDL, "noting a schema change")?;
        self.made = made;
        self.relist(&claim, change)
    }

    /// Have all changes come that are noted?
    fn are_all_seen(&self) -> bool {
        !self.beside && self.seen.len() >= self.made.len()
    }

    /// Is this, the first change of its tick, one of a table that is taken in, in front of a tick that is half made?
    fn is_beside(&self, change: &TargetSchemaChange) -> bool {
        let takes_in = matches!(
            change,
            TargetSchemaChange::DropTable { .. }
                | TargetSchemaChange::CreateTable { .. }
                | TargetSchemaChange::RemoveRows { again: true, .. }
        );
        takes_in
            && !self.noted.is_empty()
            && self.made_before.is_empty()
            && !names(change).iter().any(|name| self.noted.contains(*name))
    }

    /// Keeps the list of tables in step with a schema change.
    fn relist(&mut self, claim: &Claim, change: &TargetSchemaChange) -> Result<()> {
        let doing = "listing a table";
        let beside = self.beside;
        let unlist = |table: &str| {
            let its = format!("WHERE {} AND name = {}", claim.ours(), sql::text(table));
            if beside {
                format!("DELETE FROM {TABLES} {its}")
            } else {
                format!("UPDATE {TABLES} SET changing = {GONE} {its} AND changing <> {GONE}")
            }
        };
        match change {
            TargetSchemaChange::CreateTable { table } => {
                self.run(list(&claim.job, &table.name), codes::TARGET_DDL, doing).map(|_| ())
            }
            TargetSchemaChange::DropTable { table } => {
                self.run(unlist(table), codes::TARGET_DDL, doing).map(|_| ())
            }
            TargetSchemaChange::RenameTable { from, to } if from != to => {
                if self.run(unlist(from), codes::TARGET_DDL, doing)? > 0 {
                    self.run(list(&claim.job, to), codes::TARGET_DDL, doing)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Tables that an earlier run has made in a tick of its own, and no change has spoken of since.
    fn strays(&self) -> impl Iterator<Item = &String> {
        let new = self.made_before.iter().filter(|_| !self.seen.is_empty());
        self.left.iter().chain(new).filter(|table| !self.changed.contains(*table))
    }

    /// They go, behind a commit. That is done: what cannot go now (the account may lack the right) is no error of it, and is tried
    /// again behind the next one. What is not done because of a crash is found again.
    fn remove_strays(&mut self) {
        let strays: HashSet<String> = self.strays().cloned().collect();
        if !self.seen.is_empty() {
            self.made_before.clear();
        }
        self.left = strays.into_iter().filter(|table| self.remove_stray(table).is_err()).collect();
    }

    fn remove_stray(&mut self, table: &str) -> Result<()> {
        let claim = self.claim.clone().ok_or_else(not_claimed)?;
        self.writers.remove(table);
        let (link, errors) = self.link()?;
        let failed =
            |e: &mysql_async::Error| errors.of(codes::TARGET_DDL, &format!("removing \"{table}\""), e);
        if let Some(found) = look(link, errors, table)?
            && !found.has_rows(link).map_err(|e| failed(&e))?
        {
            link.run(format!("DROP TABLE {}", sql::quote(&found.name))).map_err(|e| failed(&e))?;
        }
        link.run(format!("DELETE FROM {TABLES} WHERE {} AND name = {}", claim.ours(), sql::text(table)))
            .map(|_| ())
            .map_err(|e| failed(&e))
    }

    fn is_listed(&mut self, job: &JobIdentity, table: &str) -> Result<bool> {
        Ok(self.owners(table)?.iter().any(|(p, s)| *p == job.pipeline && *s == job.sink))
    }

    /// The pipelines and sinks that write a table.
    fn owners(&mut self, table: &str) -> Result<Vec<(String, String)>> {
        let (link, errors) = self.link()?;
        let read = |link: &mut Link| -> mysql_async::Result<Vec<(String, String)>> {
            if Found::look(link, TABLES)?.is_none() {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT pipeline, sink FROM {TABLES} WHERE name = {} AND changing <> {GONE} ORDER BY 1, 2",
                sql::text(table)
            );
            Ok(link.texts(sql)?.into_iter().map(|r| (r[0].clone(), r[1].clone())).collect())
        };
        read(link).map_err(|e| errors.of(codes::TARGET_OPEN, "reading which tables are ours", &e))
    }

    /// Refuses rows that this pipeline and sink did not write. `job` is `None` where it has no progress there.
    fn check_rows(&mut self, found: &Found, job: Option<&JobIdentity>) -> Result<()> {
        let owners = self.owners(&found.name)?;
        let is_ours = |(p, s): &(String, String)| job.is_some_and(|j| j.pipeline == *p && j.sink == *s);
        if owners.iter().any(is_ours) {
            return Ok(());
        }
        let (link, errors) = self.link()?;
        let failed = |e: &mysql_async::Error| {
            errors.of(codes::TARGET_OPEN, &format!("looking at table \"{}\"", found.name), e)
        };
        if !found.has_rows(link).map_err(|e| failed(&e))? {
            return Ok(());
        }
        let count = found.count(link).map_err(|e| failed(&e))?;
        let headline =
            format!("table \"{}\" already holds {count} rows that this pipeline did not write", found.name);
        let mut error = Error::definite(codes::TARGET_PROGRESS, headline);
        for (pipeline, sink) in &owners {
            error = error.note(format!("it is written by pipeline \"{pipeline}\", sink \"{sink}\""));
        }
        Err(error.note("rows that the source does not have would stay there for ever").help(format!(
            "DROP TABLE {}; or send the flow to another table or database",
            sql::quote(&found.name)
        )))
    }

    fn try_commit(&mut self, tick: Tick, binding: &Binding) -> Result<i64> {
        self.begin()?;
        let claim = self.claim.clone().ok_or_else(not_claimed)?;
        let doing = format!("committing tick {tick}");
        let next = i64::try_from(tick).unwrap_or(i64::MAX);
        if next < claim.previous {
            let headline = format!("tick {tick} was committed after tick {}", claim.previous);
            return Err(Error::definite(codes::INTERNAL, headline));
        }
        let covered = self.open.covered;
        if covered >= next {
            // our own commit, whose answer was lost (3. above)
            self.rollback();
            return Ok(covered);
        }
        if covered > 0 && self.open.beyond {
            let headline = format!(
                "the commit of tick {covered} reported an error and was made; tick {tick} cannot be added to it"
            );
            return Err(Error::definite(codes::INTERNAL, headline)
                .note("in between a table is changed")
                .help("start again: it goes on from where the target stands"));
        }
        self.flush(None)?;
        let binding = serde_json::to_string(binding)
            .map_err(|e| Error::definite(codes::INTERNAL, format!("a binding cannot be written: {e}")))?;
        // what an earlier run has begun may still have to come again
        let all_seen = self.are_all_seen();
        let from = if covered > 0 { covered } else { claim.previous };
        let advanced = self.run(
            format!(
                "UPDATE {PROGRESS} SET tick = {next}, binding = {}, updated_at = {NOW}{} \
                 WHERE {} AND epoch = {} AND tick = {from}",
                sql::text(&binding),
                if all_seen { ", changes = ''" } else { "" },
                claim.ours(),
                claim.epoch
            ),
            codes::TARGET_WRITE,
            &doing,
        )?;
        if advanced == 0 {
            let (link, errors) = self.link()?;
            let held = read_progress(link, &claim.job, false)
                .map_err(|e| errors.of(codes::TARGET_WRITE, &doing, &e))?;
            return Err(fenced(&self.options, held.as_ref()));
        }
        if all_seen && (!self.changed.is_empty() || !self.between.is_empty()) {
            let strays: Vec<String> = self.strays().map(|t| sql::text(t)).collect();
            let but = if strays.is_empty() {
                String::new()
            } else {
                format!(" AND name NOT IN ({})", strays.join(", "))
            };
            for unmark in [
                format!("DELETE FROM {TABLES} WHERE {} AND changing = {GONE}", claim.ours()),
                format!("UPDATE {TABLES} SET changing = 0 WHERE {} AND changing <> 0{but}", claim.ours()),
            ] {
                self.run(&unmark, codes::TARGET_WRITE, &doing)?;
            }
        }
        if self.beside && !self.changed.is_empty() {
            let changed: Vec<String> = self.changed.iter().map(|t| sql::text(t)).collect();
            let unmark = format!(
                "UPDATE {TABLES} SET changing = 0 WHERE {} AND changing = {BESIDE} AND name IN ({})",
                claim.ours(),
                changed.join(", ")
            );
            self.run(&unmark, codes::TARGET_WRITE, &doing)?;
        }
        let answer = self.run("COMMIT", codes::TARGET_WRITE, &doing);
        self.open = Open::default();
        let Err(error) = answer else { return Ok(next) };
        if self.link.as_ref().is_some_and(|l| !l.is_lost()) {
            return Err(error);
        }
        // lost: was it made? A new connection says so.
        match self.begin() {
            Ok(()) if self.open.covered >= next => {
                let covered = self.open.covered;
                self.rollback();
                Ok(covered)
            }
            Ok(()) => Err(error),
            // fenced, or not to be reached: the committer tries again
            Err(other) => Err(other),
        }
    }
}

impl Sink for MysqlSink {
    fn delivery(&self) -> Delivery {
        Delivery::Net
    }

    fn holds_progress(&self) -> bool {
        true
    }

    fn commits_by_itself(&self) -> bool {
        true
    }

    fn inspect(&mut self, job: &JobIdentity) -> Result<Option<Resume>> {
        self.link = None;
        let (link, errors) = self.link()?;
        check_ours(link, errors)?;
        let held = read_progress(link, job, false)
            .map_err(|e| errors.of(codes::TARGET_OPEN, "reading our progress", &e))?;
        let between = read_between(link, job)
            .map_err(|e| errors.of(codes::TARGET_OPEN, "reading which tables are ours", &e))?;
        let resume = held.map(|held| held.resume(&self.options)).transpose()?;
        (self.between, self.made_before, self.noted) = between;
        self.inspected = Some((job.clone(), resume.as_ref().map(|r| r.tick)));
        Ok(resume)
    }

    fn place(&self) -> String {
        self.options.place()
    }

    fn preflight(&mut self, _: &[Arc<TargetTable>]) -> Result<Vec<Check>> {
        let (link, errors) = self.link()?;
        preflight::check(link, errors)
    }

    fn fed_by(&mut self, upstream: &Upstream) -> Result<()> {
        let (link, errors) = self.link()?;
        let ask = |link: &mut Link| -> mysql_async::Result<(Vec<String>, bool)> {
            let folds = link.texts("SELECT @@global.lower_case_table_names")?.concat().concat() != "0";
            if link.dialect.mariadb {
                return Ok((link.texts(SERVER_NAME_MARIADB)?.concat(), folds));
            }
            let mut names = link.texts(SERVER_NAME_MYSQL)?.concat();
            // by this one a replica of it knows it
            names.extend(link.texts("SELECT @@global.server_uuid")?.concat());
            Ok((names, folds))
        };
        let (names, folds) =
            ask(link).map_err(|e| errors.of(codes::TARGET_OPEN, "asking which server it is", &e))?;
        let is_source = names.iter().any(|name| upstream.servers.contains(name));
        self.captured = is_source.then(|| (upstream.tables.clone(), folds));
        OURS.iter().try_for_each(|(name, _)| self.check_captured(name))
    }

    fn check(&mut self, table: &TargetTable) -> Result<()> {
        self.check_name(&table.name)?;
        check_key(table)?;
        if self.is_between(&table.name) { Ok(()) } else { self.check_now(table) }
    }

    fn check_now(&mut self, table: &TargetTable) -> Result<()> {
        let (link, errors) = self.link()?;
        let dialect = link.dialect.clone();
        let Some(found) = look(link, errors, &table.name)? else {
            // a key that no index can hold is told before anything is written
            return create_table(table, &dialect).map(|_| ());
        };
        let evolve = self.options.evolve;
        let (link, errors) = self.link()?;
        ddl::Change { link, errors, evolve, in_doubt: false }.widening(&found, table)?;
        let job = self.job();
        self.check_rows(&found, job.as_ref())
    }

    fn claim(&mut self, job: &JobIdentity) -> Result<()> {
        // the one that has looked will do; one that has claimed may have anything open
        let looked = self.link.take().filter(|link| self.claim.is_none() && !link.is_lost());
        self.claim = None;
        self.open = Open::default();
        self.made.clear();
        self.seen.clear();
        self.changed.clear();
        self.writers.clear();
        self.waiting.clear();
        let mut link = match looked {
            Some(link) => link,
            None => Link::open(&self.options, self.inspected.is_some())?,
        };
        let errors = Errors(&self.options);
        check_ours(&mut link, errors)?;
        take_lock(&mut link, &self.options, job)?;
        self.session = link.id;
        let failed = |e: &mysql_async::Error| errors.of(codes::TARGET_WRITE, "claiming the target", e);
        for create in create_ours(&link.dialect) {
            link.run(&create).map_err(|e| failed(&e))?;
        }
        link.run("START TRANSACTION").map_err(|e| failed(&e))?;
        let held = read_progress(&mut link, job, true).map_err(|e| failed(&e))?;
        if let Some(held) = held.as_ref().filter(|h| h.job_id != job.job_id && h.tick > 0) {
            return Err(foreign_progress(&self.options, held, job));
        }
        let (epoch, previous) = held.as_ref().map_or((1, 0), |h| (h.epoch + 1, h.tick));
        stands_as_seen(&self.options.place(), self.inspected.as_ref(), job, previous)?;
        let another = held.as_ref().is_none_or(|h| h.job_id != job.job_id);
        let mut statements = Vec::new();
        if another {
            // what another job listed as its own, this one has not written
            statements.push(format!("DELETE FROM {TABLES} WHERE {}", ours(job)));
        }
        let (job_id, run) = (sql::text(&job.job_id), sql::text(&job.run));
        let changes = if another { ", changes = ''" } else { "" };
        statements.push(format!(
            "INSERT INTO {PROGRESS} (pipeline, sink, job_id, epoch, tick, binding, changes, run, updated_at) \
             VALUES ({}, {}, {job_id}, {epoch}, 0, '{{\"positions\":{{}}}}', '', {run}, {NOW}) \
             ON DUPLICATE KEY UPDATE job_id = {job_id}, epoch = {epoch}, run = {run}, updated_at = {NOW}{changes}",
            sql::text(&job.pipeline),
            sql::text(&job.sink)
        ));
        statements.push("COMMIT".to_owned());
        for statement in statements {
            link.run(&statement).map_err(|e| failed(&e))?;
        }
        self.beside = false;
        self.passed = false;
        (self.between, self.made_before, self.noted) =
            read_between(&mut link, job).map_err(|e| failed(&e))?;
        self.left.clear();
        self.claim = Some(Claim { job: job.clone(), epoch, previous });
        self.inspected = None;
        self.link = Some(link);
        Ok(())
    }

    fn has_table(&mut self, name: &str) -> Result<bool> {
        Ok(self.look(name)?.is_some())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        if self.writers.get(&table.name).is_some_and(|w| Arc::ptr_eq(&w.table, table) || w.table == *table) {
            return Ok(());
        }
        self.check_name(&table.name)?;
        check_key(table)?;
        let claim = self.claim.clone().ok_or_else(not_claimed)?;
        // in the shape that they came in
        self.flush(Some(&table.name)).inspect_err(|_| self.rollback())?;
        let mut found = self.look(&table.name)?;
        let between = self.is_between(&table.name);
        if between && found.is_none() {
            return Ok(());
        }
        if let Some(there) = &found {
            // an ALTER would commit what is open: then what is there is only looked at
            let evolve = self.options.evolve && !self.open.is && !between;
            let (link, errors) = self.link()?;
            let widening =
                match (ddl::Change { link, errors, evolve, in_doubt: false }).widening(there, table) {
                    // it has the shape behind the change that is to come again
                    Err(_) if between => return Ok(()),
                    widening => widening?,
                };
            self.check_rows(there, Some(&claim.job))?;
            if let Some(sql) = widening {
                let doing = format!("statement: {}", sql::clipped(&sql));
                self.run(&sql, codes::TARGET_DDL, &doing)?;
                found = self.look(&table.name)?;
            }
        } else {
            self.make(table)?;
            found = self.look(&table.name)?;
        }
        if !self.is_listed(&claim.job, &table.name)? {
            self.within(|sink| {
                sink.run(list(&claim.job, &table.name), codes::TARGET_DDL, "listing a table").map(|_| ())
            })?;
        }
        let Some(found) = found else {
            return Err(Error::transient(
                codes::TARGET_DDL,
                format!("table \"{}\" was dropped just now", table.name),
            ));
        };
        let (link, _) = self.link()?;
        let writer = Writer::new(table, &found, &link.dialect);
        self.writers.insert(table.name.clone(), writer);
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        // after a rollback the table may have to be made again
        self.prepare(&batch.table)?;
        let result = self.begin().and_then(|()| {
            let covered = u64::try_from(self.open.covered).unwrap_or(0);
            let left;
            let changes = if covered > 0 {
                left = batch.changes.iter().filter(|c| c.tick > covered).cloned().collect::<Vec<_>>();
                &left[..]
            } else {
                &batch.changes[..]
            };
            let Some(writer) = self.writers.get(&batch.table.name) else {
                return Err(Error::definite(
                    codes::TARGET_SHAPE,
                    format!("table \"{}\" at the target is between two shapes", batch.table.name),
                )
                .note("a schema change was made there, and the source has not given it out again in front of these rows")
                .help("start with the pipeline file that it began with; or copy the table anew"));
            };
            if batch.table.is_multiset() {
                self.open.counted |= !changes.is_empty();
                let errors = Errors(&self.options);
                let Some(link) = &mut self.link else { return Err(not_claimed()) };
                return writer.write(&mut Way { link, errors }, changes);
            }
            for tick in changes.chunk_by(|a, b| a.tick == b.tick) {
                self.take(&batch.table.name, tick)?;
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
        self.prepare(table)?;
        let result = self.begin().and_then(|()| {
            if tick <= u64::try_from(self.open.covered).unwrap_or(0) {
                return Ok(None);
            }
            // what waits may be one of them
            self.flush(Some(&table.name))?;
            // between two shapes: the write says so
            let Some(writer) = self.writers.get(&table.name) else { return Ok(None) };
            let errors = Errors(&self.options);
            let Some(link) = &mut self.link else { return Err(not_claimed()) };
            writer.other_owner(&mut Way { link, errors }, keys, owners)
        });
        result.inspect_err(|_| self.rollback())
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        self.flush(None).inspect_err(|_| self.rollback())?;
        for name in names(change) {
            self.check_name(name)?;
            self.writers.remove(name);
        }
        if let TargetSchemaChange::CreateTable { table } | TargetSchemaChange::ChangeKey { table } = change {
            check_key(table)?;
        }
        let result = self.apply_open(change);
        if result.is_ok() {
            self.seen.push(fingerprint(change));
            self.changed.extend(names(change).into_iter().map(str::to_owned));
        }
        result.inspect_err(|_| self.rollback())
    }

    fn leaves_out(&self, change: &TargetSchemaChange) -> Vec<String> {
        let Some(dialect) = self.link.as_ref().map(|l| &l.dialect) else { return Vec::new() };
        let (columns, comments) = brought(change);
        let defaults = columns.into_iter().filter_map(|column| {
            let declared = types::declared(&column.ty, dialect, false);
            let why = default::carried(column, &declared.ty, dialect).err()?;
            Some(no_default(column, &why))
        });
        let comments = comments
            .into_iter()
            .filter_map(|(column, comment)| Some(part_of_comment(column, default::odd_comment(comment)?)));
        defaults.chain(comments).collect()
    }

    fn commit(&mut self, tick: Tick, binding: &Binding) -> Result<()> {
        match self.try_commit(tick, binding) {
            Ok(committed) => {
                if self.are_all_seen() {
                    self.remove_strays();
                    self.between.clear();
                    self.noted.clear();
                    self.made.clear();
                } else if self.beside {
                    self.between.retain(|table| !self.changed.contains(table));
                }
                self.beside = false;
                self.passed = false;
                self.seen.clear();
                self.changed.clear();
                if let Some(claim) = &mut self.claim {
                    // a lost commit may cover later ticks: those come again, and are then found done
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
        if let Some(link) = self.link.as_mut().filter(|_| self.open.is) {
            roll_back(link);
        }
        self.open = Open::default();
        self.seen.clear();
        self.beside = false;
        self.passed = false;
        // what was changed is between two shapes until it has come again
        let changed = std::mem::take(&mut self.changed);
        self.between.extend(changed);
        // a table may have another shape than the one it is written in
        self.writers.clear();
        self.waiting.clear();
    }
}

fn dropped(table: &str) -> TargetSchemaChange {
    TargetSchemaChange::DropTable { table: table.to_owned() }
}

/// Tells changes apart (FNV-1a over all that they say). Of another version of this program they may differ: then the target
/// is looked at.
fn fingerprint(change: &TargetSchemaChange) -> u64 {
    let text = format!("{change:?}");
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// As they stand in the progress row.
fn written(changes: &[u64]) -> String {
    changes.iter().map(|h| format!("{h:016x}")).collect::<Vec<_>>().join(" ")
}

/// Ends a transaction; a connection that cannot do that is ended itself.
fn roll_back(link: &mut Link) {
    if !link.is_lost() && link.run("ROLLBACK").is_err() {
        link.abandon();
    }
}

/// Takes the named lock from whoever has it.
fn take_lock(link: &mut Link, options: &MysqlOptions, job: &JobIdentity) -> Result<()> {
    let errors = Errors(options);
    let failed = |e: &mysql_async::Error| {
        errors.of(codes::TARGET_WRITE, "taking the lock of this pipeline and sink", e)
    };
    let name = lock_name(job);
    if get_lock(link, &name, 0).map_err(|e| failed(&e))? {
        return Ok(());
    }
    if let Some(holder) = holder(link, &name).map_err(|e| failed(&e))? {
        end_session(link, holder).map_err(|e| failed(&e))?;
    }
    if get_lock(link, &name, LOCK_SECONDS).map_err(|e| failed(&e))? {
        return Ok(());
    }
    Err(Error::transient(
        codes::TARGET_BUSY,
        format!("{}: another run's session does not end", options.place()),
    )
    .note("it may be in the middle of a schema change")
    .help("see SHOW PROCESSLIST at the target"))
}

/// Takes the named lock for another connection of the same run, whose last session was `session`.
fn lock_again(link: &mut Link, options: &MysqlOptions, claim: &Claim, session: u32) -> Result<u32> {
    let errors = Errors(options);
    let failed = |e: &mysql_async::Error| {
        errors.of(codes::TARGET_WRITE, "taking the lock of this pipeline and sink", e)
    };
    let name = lock_name(&claim.job);
    if !get_lock(link, &name, 0).map_err(|e| failed(&e))? {
        let held = read_progress(link, &claim.job, false).map_err(|e| failed(&e))?;
        if held.as_ref().is_none_or(|h| h.epoch != claim.epoch) {
            return Err(fenced(options, held.as_ref()));
        }
        // our own session, whose end the server has not noticed
        if holder(link, &name).map_err(|e| failed(&e))? == Some(session) {
            end_session(link, session).map_err(|e| failed(&e))?;
        }
        if !get_lock(link, &name, LOCK_SECONDS).map_err(|e| failed(&e))? {
            return Err(Error::transient(
                codes::TARGET_BUSY,
                format!("{}: our session of before does not end", options.place()),
            )
            .note("it may be in the middle of a schema change")
            .help("see SHOW PROCESSLIST at the target"));
        }
    }
    Ok(link.id)
}

fn get_lock(link: &mut Link, name: &str, seconds: u32) -> mysql_async::Result<bool> {
    let rows = link.texts(format!("SELECT GET_LOCK({name}, {seconds})"))?;
    Ok(rows.first().is_some_and(|r| r.concat() == "1"))
}

fn holder(link: &mut Link, name: &str) -> mysql_async::Result<Option<u32>> {
    let rows = link.texts(format!("SELECT IS_USED_LOCK({name})"))?;
    Ok(rows.first().and_then(|r| r.concat().parse().ok()))
}

fn end_session(link: &mut Link, session: u32) -> mysql_async::Result<()> {
    match link.run(format!("KILL {session}")) {
        // it has ended by itself
        Err(mysql_async::Error::Server(e)) if e.code == 1094 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// A row of `_cdc_progress`.
#[derive(Debug, Clone)]
struct Progress {
    job_id: String,
    epoch: i64,
    tick: i64,
    binding: String,
    changes: Vec<u64>,
    run: String,
    updated_at: String,
}

impl Progress {
    fn resume(self, options: &MysqlOptions) -> Result<Resume> {
        let unreadable = |what: String| {
            Error::definite(
                codes::TARGET_PROGRESS,
                format!("{PROGRESS} of {} does not say where the target stands: {what}", options.place()),
            )
            .help("give another database, or drop its tables")
        };
        let binding = serde_json::from_str(&self.binding).map_err(|e| unreadable(e.to_string()))?;
        let tick = u64::try_from(self.tick).map_err(|_| unreadable(format!("tick {}", self.tick)))?;
        Ok(Resume { job_id: self.job_id, tick, binding })
    }
}

fn read_progress(link: &mut Link, job: &JobIdentity, lock: bool) -> mysql_async::Result<Option<Progress>> {
    let sql = format!(
        "SELECT job_id, epoch, tick, changes, run, updated_at, {} FROM {PROGRESS} WHERE {}{}",
        // not needed where it is about to be written
        if lock { "''" } else { "binding" },
        ours(job),
        if lock { " FOR UPDATE" } else { "" }
    );
    let rows = match link.texts(sql) {
        // no such table
        Err(mysql_async::Error::Server(e)) if e.code == 1146 => return Ok(None),
        rows => rows?,
    };
    Ok(rows.into_iter().next().map(|row| {
        let mut values = row.into_iter();
        let mut next = || values.next().unwrap_or_default();
        let job_id = next();
        let number = |text: String| text.parse::<i64>().unwrap_or(-1);
        let (epoch, tick, changes) = (number(next()), number(next()), next());
        Progress {
            job_id,
            epoch,
            tick,
            changes: changes.split(' ').filter_map(|h| u64::from_str_radix(h, 16).ok()).collect(),
            run: next(),
            updated_at: next(),
            binding: next(),
        }
    }))
}

/// The tables that a schema change has begun to change, and whose tick is not committed; those of them that it has made; and
/// those that are not beside what is noted.
fn read_between(
    link: &mut Link,
    job: &JobIdentity,
) -> mysql_async::Result<(HashSet<String>, HashSet<String>, HashSet<String>)> {
    let sql = format!("SELECT name, changing FROM {TABLES} WHERE {} AND changing <> 0", ours(job));
    let rows = match link.texts(sql) {
        Err(mysql_async::Error::Server(e)) if e.code == 1146 => Vec::new(),
        rows => rows?,
    };
    let of = |is: &dyn Fn(&str) -> bool| rows.iter().filter(|r| is(&r[1])).map(|r| r[0].clone()).collect();
    let (made, beside) = (MADE.to_string(), BESIDE.to_string());
    Ok((of(&|_| true), of(&|mark| *mark == made), of(&|mark| *mark != beside)))
}

/// Lists a table as written by us.
fn list(job: &JobIdentity, table: &str) -> String {
    format!(
        "INSERT INTO {TABLES} (pipeline, sink, name, changing) VALUES ({}, {}, {}, 0) \
         ON DUPLICATE KEY UPDATE changing = IF(changing = {GONE}, 1, changing)",
        sql::text(&job.pipeline),
        sql::text(&job.sink),
        sql::text(table)
    )
}

/// Refuses tables of our names that are not ours.
fn check_ours(link: &mut Link, errors: Errors<'_>) -> Result<()> {
    for (name, columns) in OURS {
        let Some(found) = look(link, errors, name)? else { continue };
        if !found.columns.iter().map(|c| &*c.name).eq(columns.iter().copied()) {
            return Err(Error::definite(
                codes::TARGET_PROGRESS,
                format!("table \"{name}\" of {} is not the one that cdc makes", errors.0.place()),
            )
            .note(format!("wanted: columns {}", columns.join(", ")))
            .note(format!("found:  {}", found.shown()))
            .help("give another database, or rename that table"));
        }
    }
    Ok(())
}

fn look(link: &mut Link, errors: Errors<'_>, table: &str) -> Result<Option<Found>> {
    Found::look(link, table)
        .map_err(|e| errors.of(codes::TARGET_OPEN, &format!("looking at table \"{table}\""), &e))
}

fn fenced(options: &MysqlOptions, held: Option<&Progress>) -> Error {
    let place = options.place();
    let help = "stop one of the two; the other goes on";
    match held {
        Some(held) => Error::definite(
            codes::TARGET_FENCED,
            format!("another run has taken over {place}: \"{}\"", held.run),
        )
        .note(format!(
            "its epoch is {}, it has committed tick {} ({})",
            held.epoch, held.tick, held.updated_at
        ))
        .help(help),
        None => {
            Error::definite(codes::TARGET_FENCED, format!("our row in {PROGRESS} of {place} was deleted"))
                .note("whoever did it took over the target")
                .help(help)
        }
    }
}

fn foreign_progress(options: &MysqlOptions, held: &Progress, job: &JobIdentity) -> Error {
    Error::definite(
        codes::TARGET_PROGRESS,
        format!(
            "{} holds progress of pipeline \"{}\", sink \"{}\" that belongs to another state folder",
            options.place(),
            job.pipeline,
            job.sink
        ),
    )
    .note(format!(
        "there: job {}, tick {}, last written by \"{}\" at {}",
        held.job_id, held.tick, held.run, held.updated_at
    ))
    .note(format!("here:  job {}", job.job_id))
    .help(
        "start with the state folder of that job; or give another database, or drop its tables, to copy anew",
    )
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

/// Refuses table names that the server cannot have or we keep for ourselves.
fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.contains('\0') {
        "it holds a NUL"
    } else if name.chars().any(|c| c > '\u{ffff}') {
        "MySQL takes no character beyond U+FFFF in names"
    } else if name.chars().count() > 64 {
        "MySQL takes 64 characters"
    } else if name.ends_with(' ') {
        "MySQL takes no space at the end of a name"
    } else if name.get(..5).is_some_and(|p| p.eq_ignore_ascii_case("_cdc_")) {
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
    if table.schema.column_index(ROW_NUMBER).is_some() {
        return Err(Error::definite(
            codes::TARGET_SHAPE,
            format!(
                "table \"{}\" has a column \"{ROW_NUMBER}\", a name that cdc keeps for itself",
                table.name
            ),
        )
        .help("give it another name in the flow: rename (..)"));
    }
    Ok(())
}
