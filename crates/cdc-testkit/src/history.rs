//! Random histories: transactions from several clients at once on tables of mixed types, repeatable by
//! their seed.
//!
//! ```no_run
//! use cdc_testkit::history::{History, HistoryOptions, Length};
//! use cdc_testkit::servers::{Server, ServerOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let server = Server::start(ServerOptions::default())?;
//! let mut history = History::create(&server, HistoryOptions::default())?; // prints its seed
//! history.run(&server, Length::Transactions(200))?;
//! assert_eq!(history.expected_rows(), history.actual_rows(&server)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Why the outcome is repeatable although clients run at once
//! Each client draws from a generator of its own and writes only rows of its own: a client's number is
//! part of every key. So no statement's effect depends on the order in which clients take turns, and
//! after [`Length::Transactions`] the tables hold the same rows for the same seed. What the turns do
//! change is the order in the log, which is what the tests are after. `READ COMMITTED` keeps the clients
//! from waiting for each other's gaps between keys.
//!
//! # What is drawn
//! Inserts (single and many rows), updates, updates that set what is there already, key moves, moves
//! back and forth within a transaction, deletes, deletes followed by inserts of the same key, and
//! transactions that end in `ROLLBACK` or `ROLLBACK TO SAVEPOINT`. With `ddl`, one client also adds,
//! widens, renames and drops columns that the others never name.

mod session;
pub mod shapes;
pub mod storm;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::servers::Server;

/// How a history is drawn.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// The same seed gives the same statements.
    pub seed: u64,
    /// The database, made if it is missing. The tables are `h0`, `h1`, …
    pub database: String,
    /// How many tables. Their primary keys are, in turn, a bigint, two columns and a varchar.
    pub tables: usize,
    /// How many clients write at once.
    pub clients: usize,
    /// Rows in each table before the history begins.
    pub initial_rows: usize,
    /// Whether columns are added, changed, renamed and dropped on the way.
    pub ddl: bool,
    /// The most transactions a second of each client; `None`: as fast as it goes.
    pub rate: Option<u32>,
}

impl Default for HistoryOptions {
    fn default() -> Self {
        HistoryOptions {
            seed: seed(),
            database: "history".into(),
            tables: 3,
            clients: 3,
            initial_rows: 100,
            ddl: false,
            rate: None,
        }
    }
}

/// How long a history goes on.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// So many transactions of each client: the outcome depends on the seed alone.
    Transactions(u64),
    /// For so long: the statements depend on the seed, their number on the machine.
    Time(Duration),
}

/// The seed in the environment variable `CDC_SEED`, else one from the clock.
pub fn seed() -> u64 {
    let given = std::env::var("CDC_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // short enough to be typed
        now.as_nanos() as u64 % 1_000_000_007
    })
}

/// Tables, and the clients that write to them.
#[derive(Debug)]
pub struct History {
    options: HistoryOptions,
    tables: Arc<Vec<Table>>,
    clients: Vec<Client>,
}

/// A history that is being written in the background.
#[derive(Debug)]
pub struct Running {
    options: HistoryOptions,
    tables: Arc<Vec<Table>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<(Client, Result<()>)>>,
}

impl History {
    /// Makes the tables and their initial rows, and prints the seed.
    pub fn create(server: &Server, options: HistoryOptions) -> Result<History> {
        eprintln!("history: CDC_SEED={}", options.seed);
        let mut rng = StdRng::seed_from_u64(options.seed);
        let tables: Vec<Table> = (0..options.tables).map(|number| Table::draw(number, &mut rng)).collect();
        let mut sql = format!("CREATE DATABASE IF NOT EXISTS `{0}`;\nUSE `{0}`;\n", options.database);
        tables.iter().for_each(|table| sql += &table.create());
        let mut clients: Vec<Client> =
            (0..options.clients).map(|number| Client::new(number, options.seed, tables.len())).collect();
        sql += "SET time_zone = '+00:00';\nBEGIN;\n";
        for number in 0..options.initial_rows {
            let client = &mut clients[number % options.clients.max(1)];
            (0..tables.len()).for_each(|table| client.insert(&tables, table, 1, &mut sql));
        }
        sql += "COMMIT;\n";
        server.sql(&sql)?;
        Ok(History { options, tables: Arc::new(tables), clients })
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    /// The tables' names, without the database.
    pub fn tables(&self) -> Vec<String> {
        self.tables.iter().map(|table| table.name.clone()).collect()
    }

    /// How many transactions were written so far, rolled back ones included.
    pub fn transactions(&self) -> u64 {
        self.clients.iter().map(|client| client.transactions).sum()
    }

    /// How many rows each table must hold.
    pub fn expected_rows(&self) -> BTreeMap<String, u64> {
        let count = |at: usize| self.clients.iter().map(|client| client.live[at].len() as u64).sum();
        self.tables.iter().enumerate().map(|(at, table)| (table.name.clone(), count(at))).collect()
    }

    /// How many rows each table holds.
    pub fn actual_rows(&self, server: &Server) -> Result<BTreeMap<String, u64>> {
        let count = |table: &Table| -> Result<(String, u64)> {
            let sql = format!("SELECT COUNT(*) FROM `{}`.`{}`", self.options.database, table.name);
            Ok((table.name.clone(), server.sql(&sql)?.trim().parse()?))
        };
        self.tables.iter().map(count).collect()
    }

    /// Goes on with the history, and returns when it is written.
    pub fn run(&mut self, server: &Server, length: Length) -> Result<()> {
        let own = HistoryOptions { clients: 0, ..self.options.clone() };
        let left = History { options: own, tables: self.tables.clone(), clients: Vec::new() };
        let history = std::mem::replace(self, left);
        *self = history.start(server, length)?.wait()?;
        Ok(())
    }

    /// Goes on with the history in the background.
    pub fn start(self, server: &Server, length: Length) -> Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for mut client in self.clients {
            let mut command = server.socket_command("mysql")?;
            command.args(["--batch", "--default-character-set=utf8mb4", "--database"]);
            command.arg(&self.options.database);
            let (tables, options, stop) = (self.tables.clone(), self.options.clone(), stop.clone());
            threads.push(thread::spawn(move || {
                let result = client.write(command, &tables, &options, length, &stop);
                (client, result)
            }));
        }
        Ok(Running { options: self.options, tables: self.tables, stop, threads })
    }
}

impl Running {
    /// Whether any client is still writing.
    pub fn is_running(&self) -> bool {
        self.threads.iter().any(|thread| !thread.is_finished())
    }

    /// Tells the clients to end after the transactions in hand.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Waits until all clients have written what they were to write.
    pub fn wait(mut self) -> Result<History> {
        let mut clients = Vec::new();
        let mut errors = String::new();
        for thread in self.threads.drain(..) {
            let (client, result) = thread.join().map_err(|_| anyhow!("a client panicked"))?;
            if let Err(error) = result {
                _ = writeln!(errors, "client {}: {error:#}", client.number);
            }
            clients.push(client);
        }
        if !errors.is_empty() {
            bail!("history {} failed\n{errors}", self.options.seed);
        }
        Ok(History { options: self.options.clone(), tables: self.tables.clone(), clients })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A key of a client: its parts are written out by the table's kind of key.
type Key = u64;

#[derive(Debug)]
struct Client {
    number: usize,
    rng: StdRng,
    /// The keys of the rows that each table holds of this client.
    live: Vec<BTreeSet<Key>>,
    /// The next key that was never used.
    next: Key,
    transactions: u64,
    /// Columns that were added to each table, by the one client that does so: name and default.
    extra: Vec<Vec<(String, &'static str)>>,
}

impl Client {
    fn new(number: usize, seed: u64, tables: usize) -> Client {
        Client {
            number,
            rng: StdRng::seed_from_u64(seed ^ ((number as u64 + 1) << 40)),
            live: vec![BTreeSet::new(); tables],
            next: 0,
            transactions: 0,
            extra: vec![Vec::new(); tables],
        }
    }

    fn write(
        &mut self,
        mut command: Command,
        tables: &[Table],
        options: &HistoryOptions,
        length: Length,
        stop: &AtomicBool,
    ) -> Result<()> {
        let start = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting the mysql client")?;
        let mut input = child.stdin.take().context("the client has no input")?;
        let settings = "SET time_zone = '+00:00';\nSET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\n";
        let mut written = input.write_all(settings.as_bytes());
        let mut count = 0;
        while written.is_ok() && !stop.load(Ordering::SeqCst) {
            let done = match length {
                Length::Transactions(most) => count >= most,
                Length::Time(most) => start.elapsed() >= most,
            };
            if done {
                break;
            }
            let sql = self.transaction(tables, options.ddl);
            written = input.write_all(sql.as_bytes());
            count += 1;
            if let Some(rate) = options.rate.filter(|rate| *rate > 0) {
                let due = Duration::from_secs_f64(count as f64 / f64::from(rate));
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
        }
        drop(input);
        let mut message = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut message)?;
        }
        let status = child.wait()?;
        if !status.success() {
            bail!("the mysql client ended ({status}): {}", message.trim());
        }
        written.context("writing to the mysql client")
    }

    /// The statements of one transaction, and their effect on what is live.
    fn transaction(&mut self, tables: &[Table], ddl: bool) -> String {
        self.transactions += 1;
        let mut sql = String::new();
        // one client only: two that alter the same table would depend on their turns
        if ddl && self.number == 0 && self.rng.random_ratio(1, 25) {
            self.alter(tables, &mut sql);
            return sql;
        }
        let before = self.live.clone();
        sql += "BEGIN;\n";
        let statements = if self.rng.random_ratio(1, 20) {
            self.rng.random_range(20..60)
        } else {
            self.rng.random_range(1..6)
        };
        let savepoint = self.rng.random_ratio(1, 10).then(|| self.rng.random_range(0..statements));
        let mut saved = None;
        for number in 0..statements {
            if savepoint == Some(number) {
                saved = Some(self.live.clone());
                sql += "SAVEPOINT s;\n";
            }
            self.statement(tables, &mut sql);
        }
        if let Some(saved) = saved
            && self.rng.random_ratio(1, 2)
        {
            self.live = saved;
            sql += "ROLLBACK TO SAVEPOINT s;\n";
            self.statement(tables, &mut sql);
        }
        if self.rng.random_ratio(1, 12) {
            self.live = before;
            sql += "ROLLBACK;\n";
        } else {
            sql += "COMMIT;\n";
        }
        sql
    }

    fn statement(&mut self, tables: &[Table], sql: &mut String) {
        let at = self.rng.random_range(0..tables.len());
        let table = &tables[at];
        let Some(key) = self.draw_live(at) else { return self.insert(tables, at, 3, sql) };
        let here = table.condition(self.number, key);
        match self.rng.random_range(0..100) {
            0..25 => self.insert(tables, at, 1, sql),
            25..35 => {
                let count = self.rng.random_range(2..10);
                self.insert(tables, at, count, sql);
            }
            35..65 => {
                let set = table.assignments(&mut self.rng);
                _ = writeln!(sql, "UPDATE {} SET {set} WHERE {here};", table.name);
            }
            65..69 => {
                // many rows at once; values that are the same everywhere
                let column = &table.columns[self.rng.random_range(0..table.columns.len())];
                let value = column.value(&mut self.rng);
                let own = table.own_rows(self.number);
                _ = writeln!(
                    sql,
                    "UPDATE {} SET {} = {value} WHERE {own} LIMIT {};",
                    table.name,
                    column.name,
                    self.own_limit(at, 1000)
                );
            }
            69..72 => _ = writeln!(sql, "UPDATE {} SET v = v WHERE {here};", table.name),
            72..82 => {
                let to = self.fresh_key();
                let moved = table.key_assignment(self.number, to);
                let set = table.assignments(&mut self.rng);
                _ = writeln!(sql, "UPDATE {} SET {moved}, {set} WHERE {here};", table.name);
                if self.rng.random_ratio(1, 4) {
                    let (back, there) =
                        (table.key_assignment(self.number, key), table.condition(self.number, to));
                    _ = writeln!(sql, "UPDATE {} SET {back} WHERE {there};", table.name);
                } else {
                    self.live[at].remove(&key);
                    self.live[at].insert(to);
                }
            }
            82..90 => {
                let row = table.row(self.number, key, &mut self.rng);
                _ = writeln!(sql, "DELETE FROM {} WHERE {here};", table.name);
                _ = writeln!(sql, "INSERT INTO {} ({}) VALUES {row};", table.name, table.column_list());
            }
            90..93 => {
                let row = table.row(self.number, key, &mut self.rng);
                _ = writeln!(sql, "REPLACE INTO {} ({}) VALUES {row};", table.name, table.column_list());
            }
            _ => {
                _ = writeln!(sql, "DELETE FROM {} WHERE {here};", table.name);
                self.live[at].remove(&key);
            }
        }
    }

    fn insert(&mut self, tables: &[Table], at: usize, count: usize, sql: &mut String) {
        let table = &tables[at];
        let mut rows = Vec::new();
        for _ in 0..count {
            let key = self.fresh_key();
            rows.push(table.row(self.number, key, &mut self.rng));
            self.live[at].insert(key);
        }
        _ = writeln!(sql, "INSERT INTO {} ({}) VALUES {};", table.name, table.column_list(), rows.join(", "));
    }

    /// The limit of a statement on all of this client's rows in a table, and no more than this. MariaDB
    /// learns only from the first row behind them that they end there, and waits for the client whose row
    /// that is, which can wait for us in turn; at the limit it looks no further.
    fn own_limit(&self, at: usize, most: usize) -> usize {
        self.live[at].len().min(most)
    }

    fn fresh_key(&mut self) -> Key {
        self.next += 1;
        self.next
    }

    fn draw_live(&mut self, at: usize) -> Option<Key> {
        if self.live[at].is_empty() {
            return None;
        }
        let from = self.rng.random_range(0..=self.next);
        let mut keys = self.live[at].range(from..).chain(self.live[at].iter());
        keys.next().copied()
    }

    fn alter(&mut self, tables: &[Table], sql: &mut String) {
        let at = self.rng.random_range(0..tables.len());
        let table = &tables[at].name;
        let name = format!("x{}", self.transactions);
        let extra = &mut self.extra[at];
        let drawn = (!extra.is_empty()).then(|| self.rng.random_range(0..extra.len()));
        match (self.rng.random_range(0..10), drawn) {
            (0..2, Some(old)) => {
                _ = writeln!(sql, "ALTER TABLE {table} DROP COLUMN {};", extra.swap_remove(old).0);
            }
            (2..4, Some(old)) => {
                let old = std::mem::replace(&mut extra[old].0, name.clone());
                _ = writeln!(sql, "ALTER TABLE {table} RENAME COLUMN {old} TO {name};");
            }
            (4..6, Some(old)) => {
                // With the same default: rows that other clients insert before and after this must not
                // differ, for their turns are not repeatable.
                let (name, default) = &extra[old];
                let length = self.rng.random_range(100..200);
                _ = writeln!(sql, "ALTER TABLE {table} MODIFY {name} VARCHAR({length}){default};");
            }
            _ => {
                let place = ["", " FIRST", " AFTER v"][self.rng.random_range(0..3)];
                let default = ["", " DEFAULT 'grün'", " NOT NULL DEFAULT ''"][self.rng.random_range(0..3)];
                _ = writeln!(sql, "ALTER TABLE {table} ADD COLUMN {name} VARCHAR(40){default}{place};");
                extra.push((name, default));
            }
        }
        // values in the new shape, for rows that are there
        if let Some((column, _)) = self.extra[at].last() {
            let own = tables[at].own_rows(self.number);
            let number = self.transactions;
            let limit = self.own_limit(at, 20);
            _ = writeln!(sql, "UPDATE {table} SET {column} = 'n{number}' WHERE {own} LIMIT {limit};");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum KeyKind {
    Int,
    Composite,
    Text,
}

#[derive(Debug)]
struct Table {
    name: String,
    key: KeyKind,
    columns: Vec<Column>,
}

/// Keys of a client are this far from those of the next, so that they never meet.
const KEYS_PER_CLIENT: u64 = 1_000_000_000;

impl Table {
    fn draw(number: usize, rng: &mut StdRng) -> Table {
        let key = [KeyKind::Int, KeyKind::Composite, KeyKind::Text][number % 3];
        let mut columns = vec![Column { name: "v".into(), kind: Kind::Int, nullable: false }];
        for kind in Kind::ALL {
            // every table differs, and the first one has all
            if number == 0 || rng.random_ratio(1, 2) {
                let name = format!("c_{}", format!("{kind:?}").to_lowercase());
                columns.push(Column { name, kind: *kind, nullable: rng.random_ratio(2, 3) });
            }
        }
        Table { name: format!("h{number}"), key, columns }
    }

    fn create(&self) -> String {
        let key = match self.key {
            KeyKind::Int => "id BIGINT UNSIGNED NOT NULL PRIMARY KEY",
            KeyKind::Composite => "a INT NOT NULL, b VARCHAR(20) NOT NULL, PRIMARY KEY (a, b)",
            KeyKind::Text => "id VARCHAR(60) NOT NULL PRIMARY KEY",
        };
        let columns: String = self.columns.iter().fold(String::new(), |sql, column| {
            let null = if column.nullable { "NULL" } else { "NOT NULL" };
            format!("{sql},\n  {} {} {null}", column.name, column.kind.sql_type())
        });
        format!("CREATE TABLE {} ({key}{columns}) CHARSET=utf8mb4;\n", self.name)
    }

    fn key_parts(&self, client: usize, key: Key) -> Vec<(&'static str, String)> {
        match self.key {
            KeyKind::Int => vec![("id", (client as u64 * KEYS_PER_CLIENT + key).to_string())],
            KeyKind::Composite => {
                vec![("a", client.to_string()), ("b", format!("'b-{}'", key % 97 + key * 100))]
            }
            KeyKind::Text => vec![("id", format!("'k{client}-{key}-ключ'"))],
        }
    }

    fn condition(&self, client: usize, key: Key) -> String {
        let parts = self.key_parts(client, key);
        parts.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(" AND ")
    }

    fn key_assignment(&self, client: usize, key: Key) -> String {
        let parts = self.key_parts(client, key);
        parts.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
    }

    /// Some rows of one client: the same ones each time, as their order is the key's.
    fn own_rows(&self, client: usize) -> String {
        match self.key {
            KeyKind::Int => {
                let first = client as u64 * KEYS_PER_CLIENT;
                format!("id BETWEEN {first} AND {} ORDER BY id", first + KEYS_PER_CLIENT - 1)
            }
            KeyKind::Composite => format!("a = {client} ORDER BY a, b"),
            KeyKind::Text => format!("id LIKE 'k{client}-%' ORDER BY id"),
        }
    }

    fn column_list(&self) -> String {
        let key = self.key_parts(0, 0);
        let names = key.iter().map(|(name, _)| *name);
        names.chain(self.columns.iter().map(|column| column.name.as_str())).collect::<Vec<_>>().join(", ")
    }

    fn row(&self, client: usize, key: Key, rng: &mut StdRng) -> String {
        let parts = self.key_parts(client, key).into_iter().map(|(_, value)| value);
        let values: Vec<String> = parts.chain(self.columns.iter().map(|column| column.value(rng))).collect();
        format!("({})", values.join(", "))
    }

    /// New values for some columns.
    fn assignments(&self, rng: &mut StdRng) -> String {
        let mut result = format!("v = {}", rng.random_range(-1000..1000));
        for column in &self.columns[1..] {
            if rng.random_ratio(1, 3) {
                _ = write!(result, ", {} = {}", column.name, column.value(rng));
            }
        }
        result
    }
}

#[derive(Debug)]
struct Column {
    name: String,
    kind: Kind,
    nullable: bool,
}

impl Column {
    /// A literal of this column's type.
    fn value(&self, rng: &mut StdRng) -> String {
        if self.nullable && rng.random_ratio(1, 8) { "NULL".into() } else { self.kind.value(rng) }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Tiny,
    Int,
    Big,
    Decimal,
    Double,
    Float,
    Char,
    Varchar,
    Text,
    Binary,
    Blob,
    Date,
    Time,
    Datetime,
    Timestamp,
    Year,
    Json,
    Enum,
    Set,
    Bit,
}

impl Kind {
    const ALL: &'static [Kind] = &[
        Kind::Tiny,
        Kind::Int,
        Kind::Big,
        Kind::Decimal,
        Kind::Double,
        Kind::Float,
        Kind::Char,
        Kind::Varchar,
        Kind::Text,
        Kind::Binary,
        Kind::Blob,
        Kind::Date,
        Kind::Time,
        Kind::Datetime,
        Kind::Timestamp,
        Kind::Year,
        Kind::Json,
        Kind::Enum,
        Kind::Set,
        Kind::Bit,
    ];

    fn sql_type(self) -> &'static str {
        match self {
            Kind::Tiny => "TINYINT",
            Kind::Int => "INT",
            Kind::Big => "BIGINT UNSIGNED",
            Kind::Decimal => "DECIMAL(20,6)",
            Kind::Double => "DOUBLE",
            Kind::Float => "FLOAT",
            Kind::Char => "CHAR(12)",
            Kind::Varchar => "VARCHAR(100)",
            Kind::Text => "TEXT",
            Kind::Binary => "BINARY(8)",
            Kind::Blob => "BLOB",
            Kind::Date => "DATE",
            Kind::Time => "TIME(3)",
            Kind::Datetime => "DATETIME(6)",
            Kind::Timestamp => "TIMESTAMP(3)",
            Kind::Year => "YEAR",
            Kind::Json => "JSON",
            Kind::Enum => "ENUM('new','paid','größer','it''s','')",
            Kind::Set => "SET('a','b','c d','ü')",
            Kind::Bit => "BIT(10)",
        }
    }

    fn value(self, rng: &mut StdRng) -> String {
        // the ends of each range more often than chance would have it
        let extreme = rng.random_ratio(1, 10);
        let pick = |rng: &mut StdRng, from: &[&str]| from[rng.random_range(0..from.len())].to_string();
        match self {
            Kind::Tiny if extreme => pick(rng, &["-128", "127", "0"]),
            Kind::Tiny => rng.random_range(-128..=127).to_string(),
            Kind::Int if extreme => pick(rng, &["-2147483648", "2147483647", "0"]),
            Kind::Int => rng.random_range(-100_000..100_000).to_string(),
            Kind::Big if extreme => pick(rng, &["0", "18446744073709551615", "9223372036854775808"]),
            Kind::Big => rng.random::<u64>().to_string(),
            Kind::Decimal if extreme => {
                pick(rng, &["-99999999999999.999999", "99999999999999.999999", "0", "-0.000001"])
            }
            Kind::Decimal => {
                format!("{}.{:06}", rng.random_range(-1_000_000..1_000_000), rng.random_range(0..1_000_000))
            }
            Kind::Double if extreme => {
                pick(rng, &["0", "-0e0", "1.7976931348623157e308", "2.2250738585072014e-308", "0.1"])
            }
            Kind::Double => {
                format!("{:e}", (rng.random::<f64>() - 0.5) * 10f64.powi(rng.random_range(-20..20)))
            }
            // eighths are exact, so that the server and its readers print the same
            Kind::Float => format!("{}", f64::from(rng.random_range(-80_000..80_000)) / 8.0),
            Kind::Char => quoted(&text(rng, 12)),
            Kind::Varchar => quoted(&text(rng, 100)),
            Kind::Text => {
                let most = if extreme { 2000 } else { 60 };
                quoted(&text(rng, most))
            }
            Kind::Binary if extreme => pick(rng, &["x'0102030000000000'", "x'0000000000000000'", "x''"]),
            Kind::Binary => hex(rng, 8),
            Kind::Blob => {
                let length = rng.random_range(0..if extreme { 1000 } else { 40 });
                hex(rng, length)
            }
            Kind::Date if extreme => pick(rng, &["'1000-01-01'", "'9999-12-31'", "'2024-02-29'"]),
            Kind::Date => format!("'{}'", date(rng)),
            Kind::Time if extreme => pick(rng, &["'-838:59:59.000'", "'838:59:59.000'", "'-00:00:00.001'"]),
            Kind::Time => format!("'{}'", clock(rng, 3)),
            Kind::Datetime if extreme => {
                pick(rng, &["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"])
            }
            Kind::Datetime => format!("'{} {}'", date(rng), clock(rng, 6)),
            Kind::Timestamp if extreme => {
                pick(rng, &["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.999'", "'2024-03-31 01:30:00'"])
            }
            Kind::Timestamp => format!("'{} {}'", date(rng), clock(rng, 3)),
            Kind::Year => pick(rng, &["1901", "2155", "2000", "2024", "0"]),
            Kind::Json => quoted(&json(rng, 2)),
            Kind::Enum => pick(rng, &["'new'", "'paid'", "'größer'", "'it''s'", "''"]),
            Kind::Set => pick(rng, &["''", "'a'", "'b,c d'", "'a,b,c d,ü'", "'ü'"]),
            Kind::Bit => format!("b'{:b}'", rng.random_range(0..1024)),
        }
    }
}

/// Text without a final space: CHAR loses it, and so would a comparison.
fn text(rng: &mut StdRng, most: usize) -> String {
    const CHARS: &[char] = &[
        'a', 'b', 'c', 'x', 'y', 'z', 'E', 'N', '0', '7', ' ', '-', '_', '%', '\'', '"', '\\', '\t', '\n',
        ',', ';', 'ä', 'ß', 'é', 'ж', '中', '文', '🦀', '👍',
    ];
    let length = rng.random_range(0..=most);
    let text: String = (0..length).map(|_| CHARS[rng.random_range(0..CHARS.len())]).collect();
    text.trim_end_matches(' ').to_string()
}

fn quoted(text: &str) -> String {
    let mut result = String::from("'");
    for next in text.chars() {
        match next {
            '\'' => result += "''",
            '\\' => result += "\\\\",
            '\n' => result += "\\n",
            '\t' => result += "\\t",
            other => result.push(other),
        }
    }
    result + "'"
}

fn hex(rng: &mut StdRng, length: usize) -> String {
    let digits = (0..length).fold(String::new(), |text, _| format!("{text}{:02x}", rng.random::<u8>()));
    format!("x'{digits}'")
}

fn date(rng: &mut StdRng) -> String {
    format!(
        "{}-{:02}-{:02}",
        rng.random_range(1971..2037),
        rng.random_range(1..=12),
        rng.random_range(1..=28)
    )
}

fn clock(rng: &mut StdRng, digits: usize) -> String {
    let fraction = rng.random_range(0..10_u32.pow(digits as u32));
    let (hour, minute, second) = (rng.random_range(0..24), rng.random_range(0..60), rng.random_range(0..60));
    format!("{hour:02}:{minute:02}:{second:02}.{fraction:0digits$}")
}

fn json(rng: &mut StdRng, depth: usize) -> String {
    match rng.random_range(0..if depth == 0 { 6 } else { 8 }) {
        0 => "null".into(),
        1 => "true".into(),
        2 => rng.random_range(-100_000..100_000).to_string(),
        3 => u64::MAX.to_string(),
        4 => format!("{}", f64::from(rng.random_range(-8000..8000)) / 8.0 + 0.125),
        5 => {
            let plain: String =
                text(rng, 20).chars().filter(|next| !matches!(next, '"' | '\\' | '\n' | '\t')).collect();
            format!("\"{plain}\"")
        }
        6 => {
            let items: Vec<String> = (0..rng.random_range(0..4)).map(|_| json(rng, depth - 1)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => {
            let member = |at: usize, rng: &mut StdRng| format!("\"k{at}\": {}", json(rng, depth - 1));
            let members: Vec<String> = (0..rng.random_range(0..4)).map(|at| member(at, rng)).collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}
