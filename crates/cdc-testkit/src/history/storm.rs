//! Everything at once: clients that write to tables of every sort, change them, and go on when the server is
//! killed under them.
//!
//! ```no_run
//! use cdc_testkit::history::storm::{Storm, StormOptions};
//! use cdc_testkit::servers::{Server, ServerOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut server = Server::start(ServerOptions::default())?;
//! let storm = Storm::create(&server, StormOptions::default())?;
//! let blowing = storm.start(&server)?;
//! server.kill()?; // the clients wait for it
//! server.restart()?;
//! let counts = blowing.end(&server)?; // ends what is prepared, too
//! # Ok(())
//! # }
//! ```
//!
//! A [history](super) knows what each table must hold; a storm does not: its clients meet in the same rows, are
//! refused by keys and locks, and lose what they had begun. What must hold is only that whoever copies the tables
//! has in the end what the server has. The choices of each client are drawn from its own generator, so they are the
//! same for the same seed; which of them meet is not.
//!
//! # What there is
//! | database | tables |
//! |---|---|
//! | `soak_h` | those of a history, of every type, with columns that come and go |
//! | `soak_w` | without a key; keys of text in collations with and without case, padding and accents; keys that are swapped and shifted; partitions; generated columns; triggers; foreign keys; large transactions; tables that are rebuilt and swapped; `hidden_*`, which nobody is to copy |
//! | `soak_x` | those of XA transactions, prepared by one session and ended by another |
//! | `soak_d` | tables that come, go, change their names and come again with another structure |
//!
//! In `soak_w.accounts` and `accounts2` the sum of `n` over both is always [`SUM`].

mod change;
mod prepared;
mod write;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::session::{Door, Lost, Refusals, Session};
use super::{Client, Table};
use crate::servers::{Server, ServerKind};

/// What the accounts hold together, at every moment.
pub const SUM: i64 = 200_000;

/// How a storm is drawn.
#[derive(Clone, Debug)]
pub struct StormOptions {
    /// The same seed gives the same choices.
    pub seed: u64,
    /// The most transactions a second of each client.
    pub rate: u32,
    /// Rows in each of the larger tables before it begins.
    pub initial_rows: usize,
    /// Rows of a large transaction.
    pub large: u64,
}

impl Default for StormOptions {
    fn default() -> Self {
        StormOptions { seed: super::seed(), rate: 20, initial_rows: 1000, large: 20_000 }
    }
}

/// Tables, and nobody who writes yet.
#[derive(Debug)]
pub struct Storm {
    options: StormOptions,
    kind: ServerKind,
    tables: Arc<Vec<Table>>,
    clients: Vec<Client>,
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Transactions, refused and rolled back ones included.
    pub transactions: u64,
    /// Statements that change a table's structure, or its rows without row events.
    pub ddl: u64,
    /// Transactions of very many rows.
    pub large: u64,
    /// XA transactions that were prepared.
    pub prepared: u64,
    /// How often a client lost its session.
    pub lost: u64,
    /// What the server refused: how often, and the first of its kind, by its error number.
    pub refused: BTreeMap<u16, (u64, String)>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    transactions: AtomicU64,
    ddl: AtomicU64,
    large: AtomicU64,
    prepared: AtomicU64,
    lost: AtomicU64,
    refusals: Refusals,
    /// The log in which each XA transaction was prepared, by its name.
    logs: Mutex<BTreeMap<String, String>>,
    /// Held for reading where a crash would leave a server's own files half changed.
    fragile: RwLock<()>,
}

/// Clients that are writing.
#[derive(Debug)]
pub struct Blowing {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// The tables of the typed clients.
const TYPED_TABLES: usize = 4;
const TYPED_CLIENTS: usize = 2;
const WILD_CLIENTS: u64 = 2;

impl Storm {
    /// What a pipeline is to copy: patterns over `database.table`.
    pub const PATTERNS: [&str; 2] = ["soak_*.*", "!*.hidden_*"];

    /// Makes the tables and their first rows.
    pub fn create(server: &Server, options: StormOptions) -> Result<Storm> {
        let kind = server.kind();
        let mut rng = StdRng::seed_from_u64(options.seed);
        let tables: Vec<Table> = (0..TYPED_TABLES).map(|number| Table::draw(number, &mut rng)).collect();
        let mut clients: Vec<Client> =
            (0..TYPED_CLIENTS).map(|number| Client::new(number, options.seed, tables.len())).collect();
        let mut sql = String::from("CREATE DATABASE soak_h CHARSET utf8mb4;\nUSE soak_h;\n");
        tables.iter().for_each(|table| sql += &table.create());
        sql += "SET time_zone = '+00:00';\nBEGIN;\n";
        for number in 0..options.initial_rows {
            let client = &mut clients[number % TYPED_CLIENTS];
            (0..tables.len()).for_each(|table| client.insert(&tables, table, 1, &mut sql));
        }
        sql += "COMMIT;\n";
        sql += &write::create(kind, options.initial_rows as u64);
        sql += prepared::CREATE;
        sql += change::CREATE;
        server.sql(&kind.with_collations(&sql))?;
        if !kind.is_mariadb() {
            server.sql("GRANT XA_RECOVER_ADMIN ON *.* TO 'cdc'@'%'")?;
        }
        Ok(Storm { options, kind, tables: Arc::new(tables), clients })
    }

    /// Begins to write.
    pub fn start(self, server: &Server) -> Result<Blowing> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            transactions: AtomicU64::new(0),
            ddl: AtomicU64::new(0),
            large: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            refusals: Refusals::default(),
            logs: Mutex::default(),
            fragile: RwLock::new(()),
        });
        let (seed, kind, rate) = (self.options.seed, self.kind, f64::from(self.options.rate.max(1)));
        let rng = |number: u64| StdRng::seed_from_u64(seed ^ ((number + 1) << 40));
        let mut acts: Vec<(Box<dyn Act>, f64)> = Vec::new();
        for client in self.clients {
            acts.push((Box::new(Typed { client, tables: self.tables.clone() }), rate));
        }
        for number in 0..WILD_CLIENTS {
            acts.push((Box::new(write::Wild::new(rng(10 + number), kind)), rate));
        }
        acts.push((Box::new(write::Large::new(rng(20), self.options.large)), 0.15));
        acts.push((Box::new(change::Changer::new(rng(30), kind)), 2.0));
        let door = Door::of(server)?;
        let mut threads = Vec::new();
        for (act, rate) in acts {
            let (door, shared) = (door.clone(), shared.clone());
            threads.push(thread::spawn(move || client(act, rate, kind, &door, &shared)));
        }
        let (rng, own) = (rng(40), shared.clone());
        threads.push(thread::spawn(move || prepared::client(rng, kind, &door, &own)));
        Ok(Blowing { shared, threads })
    }
}

impl Blowing {
    /// What was done so far.
    pub fn counts(&self) -> Counts {
        let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
        Counts {
            transactions: count(&self.shared.transactions),
            ddl: count(&self.shared.ddl),
            large: count(&self.shared.large),
            prepared: count(&self.shared.prepared),
            lost: count(&self.shared.lost),
            refused: self.shared.refusals.all(),
        }
    }

    /// The log in which this XA transaction was prepared, or one before it.
    pub fn log_of(&self, branch: &str) -> Option<String> {
        self.shared.logs.lock().unwrap_or_else(PoisonError::into_inner).get(branch).cloned()
    }

    /// Runs this, such as the server's end, while no statement is under way that a crash would leave half done.
    /// (MariaDB's RENAME of several tables, and what it does to partitions, are not atomic.)
    pub fn while_robust<T>(&self, work: impl FnOnce() -> T) -> T {
        let _held = self.shared.fragile.write();
        work()
    }

    /// Whether a client has given up, which none does by itself.
    pub fn has_failed(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Ends the clients, then the XA transactions that are still prepared. The server must be up.
    pub fn end(mut self, server: &Server) -> Result<Counts> {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        prepared::end_all(server)?;
        let counts = self.counts();
        let mistakes: Vec<&String> = counts
            .refused
            .iter()
            .filter(|(code, _)| MISTAKES.contains(code))
            .map(|(_, (_, line))| line)
            .collect();
        ensure!(mistakes.is_empty(), "statements that no server takes: {mistakes:#?}");
        Ok(counts)
    }
}

impl Drop for Blowing {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Refusals that are no fault of the moment: statements that no server takes. (The others come from clients that meet
/// each other, from a crash that left a table or a column where a client believes another, and from values that do not
/// fit any more.)
const MISTAKES: &[u16] = &[1045, 1046, 1052, 1064, 1066, 1107, 1109, 1136, 1149, 1193, 1227, 1231];

/// What a client does next.
struct Step {
    sql: String,
    kind: StepKind,
}

#[derive(Clone, Copy, PartialEq)]
enum StepKind {
    Write,
    Large,
    Ddl,
}

trait Act: Send {
    fn next(&mut self) -> Step;
    fn database(&self) -> &'static str;
}

struct Typed {
    client: Client,
    tables: Arc<Vec<Table>>,
}

impl Act for Typed {
    fn next(&mut self) -> Step {
        let sql = self.client.transaction(&self.tables, true);
        let kind = if sql.starts_with("ALTER") { StepKind::Ddl } else { StepKind::Write };
        Step { sql, kind }
    }

    fn database(&self) -> &'static str {
        "soak_h"
    }
}

/// What each session begins with: nobody waits long for another.
fn greeting(kind: ServerKind, database: &str, rng: &mut StdRng) -> String {
    let mut sql = format!(
        "USE {database};\nSET time_zone = '+00:00', innodb_lock_wait_timeout = 2, lock_wait_timeout = 5;\n\
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\n{};\n",
        kind.recursion(1_000_000)
    );
    if !kind.is_mariadb() && rng.random_ratio(1, 2) {
        sql += "SET SESSION binlog_transaction_compression = ON;\n";
    }
    sql
}

const WAIT_FOR_SERVER: Duration = Duration::from_millis(200);

/// One client, until it is told to stop.
fn client(mut act: Box<dyn Act>, rate: f64, kind: ServerKind, door: &Door, shared: &Shared) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(rate.to_bits());
    let mut session: Option<Session> = None;
    while !shared.stop.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let Some(open) = &mut session else {
            let mut opened = Session::open(door)?;
            match opened.run(&greeting(kind, act.database(), &mut rng), &shared.refusals) {
                Ok(_) => session = Some(opened),
                Err(Lost) => thread::sleep(WAIT_FOR_SERVER),
            }
            continue;
        };
        let step = act.next();
        let fragile = (step.kind == StepKind::Ddl && kind.is_mariadb()).then(|| shared.fragile.read());
        let done = open.run(&step.sql, &shared.refusals);
        drop(fragile);
        let count = match step.kind {
            StepKind::Write => &shared.transactions,
            StepKind::Large => &shared.large,
            StepKind::Ddl => &shared.ddl,
        };
        count.fetch_add(1, Ordering::SeqCst);
        if done.is_err() {
            shared.lost.fetch_add(1, Ordering::SeqCst);
            session = None;
        }
        // a client is no metronome
        let pause = rng.random_range(0.2..1.8) / rate;
        rest(Duration::from_secs_f64(pause).saturating_sub(begun.elapsed()), shared);
    }
    Ok(())
}

/// Sleeps, and wakes up to stop.
fn rest(time: Duration, shared: &Shared) {
    let until = Instant::now() + time;
    while !shared.stop.load(Ordering::SeqCst) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}

/// The rows `1..=rows` as `n`.
fn numbers(rows: u64) -> String {
    let mut sql = String::new();
    _ = write!(sql, "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})");
    sql
}

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}
