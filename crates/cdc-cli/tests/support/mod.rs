//! What the live tests of the program share: a server, a pipeline in a folder of its own, the program as a
//! child that is watched, and a comparison of source and target that is not the program's.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

/// What takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at something that is waited for.
const GLANCE: Duration = Duration::from_millis(5);

/// The password of account `cdc`, as the pipelines find it in their environment.
const PASSWORD_VARIABLE: &str = "CDC_LIVE_PASSWORD";

/// The server of this test file; its watchdog ends it with the process.
pub fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(ServerOptions::of_this_run()).expect("a server"))
}

/// A pipeline file in a folder of its own, with its targets and its state.
pub struct Job {
    folder: TempDir,
    port: u16,
    server_id: u32,
    password: String,
    user: String,
}

impl Job {
    /// A pipeline of this database: `body` is what follows pipeline and source.
    pub fn new(server: &Server, database: &str, body: &str) -> Job {
        Job::with(server, &format!("[\"{database}.*\"]"), "", "", body)
    }

    /// A pipeline with its `tables`, and further options of the pipeline and of the source.
    pub fn with(server: &Server, tables: &str, pipeline: &str, source: &str, body: &str) -> Job {
        let job = Job {
            folder: tempfile::tempdir().expect("a folder"),
            port: server.port(),
            server_id: next_server_id(),
            password: "cdc".into(),
            user: "cdc".into(),
        };
        job.write(tables, pipeline, source, body);
        job
    }

    /// Writes the pipeline file anew.
    pub fn write(&self, tables: &str, pipeline: &str, source: &str, body: &str) {
        let text = format!(
            "pipeline {{\n  name = \"live\"\n  checkpoint = {{ dir = \"state\", every = \"200ms\" }}\n  {pipeline}\n}}\n\
             source src = mysql {{\n  url = \"mysql://127.0.0.1:{}\"\n  user = \"{}\"\n  \
             password = \"${{{PASSWORD_VARIABLE}}}\"\n  tables = {tables}\n  server_id = {}\n  {source}\n}}\n{body}\n",
            self.port, self.user, self.server_id
        );
        fs::write(self.path("p.cdc"), text).expect("a pipeline file");
    }

    /// The same under another name: progress of its own.
    pub fn rename(&self, name: &str) -> Result<()> {
        let text = fs::read_to_string(self.path("p.cdc"))?;
        fs::write(self.path("p.cdc"), text.replace("name = \"live\"", &format!("name = \"{name}\"")))?;
        Ok(())
    }

    /// The same with another account.
    pub fn account(mut self, user: &str, password: &str) -> Job {
        let text = fs::read_to_string(self.path("p.cdc")).expect("a pipeline file");
        let text = text.replace(&format!("user = \"{}\"", self.user), &format!("user = \"{user}\""));
        fs::write(self.path("p.cdc"), text).expect("a pipeline file");
        self.user = user.into();
        self.password = password.into();
        self
    }

    /// From now on the source is at this port, such as a proxy's.
    pub fn connect_to(&mut self, port: u16) {
        let text = fs::read_to_string(self.path("p.cdc")).expect("a pipeline file");
        let text = text.replace(&format!("127.0.0.1:{}", self.port), &format!("127.0.0.1:{port}"));
        fs::write(self.path("p.cdc"), text).expect("a pipeline file");
        self.port = port;
    }

    /// A file in the pipeline's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `cdc COMMAND p.cdc ..`, in the pipeline's folder.
    pub fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cdc"));
        command
            .arg(name)
            .arg("p.cdc")
            .args(args)
            .current_dir(self.folder.path())
            .env(PASSWORD_VARIABLE, &self.password)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// Starts `cdc run`.
    pub fn start(&self, args: &[&str]) -> Result<Run> {
        Run::start(&mut self.command("run", args))
    }

    /// `cdc run --until caught-up` to its end, which must be a good one.
    pub fn catch_up(&self, args: &[&str]) -> Result<Said> {
        let said = self.start(&[&["--until", "caught-up"], args].concat())?.wait()?;
        ensure!(said.code == Some(0), "the run failed\n{}", said.text());
        Ok(said)
    }

    /// `cdc run --until caught-up`, which must fail with this code, a help, and no panic.
    pub fn fails(&self, code: u16) -> Result<Said> {
        let said = self.start(&["--until", "caught-up"])?.wait()?;
        said.failed(code)?;
        for secret in [self.password.as_str()].iter().filter(|s| s.len() > 3) {
            ensure!(!said.text().contains(secret), "a secret was printed\n{}", said.text());
        }
        Ok(said)
    }

    /// `cdc verify` finds nothing; the rows it compared.
    pub fn verify(&self) -> Result<u64> {
        let said = Run::start(&mut self.command("verify", &["--format", "json"]))?.wait()?;
        let report: serde_json::Value = serde_json::from_str(&said.out)
            .with_context(|| format!("verify printed no JSON\n{}", said.text()))?;
        ensure!(
            said.code == Some(0) && report["ok"] == true && report["differing"] == 0,
            "source and target differ\n{}",
            said.text()
        );
        let rows = report["rows"].as_u64().context("no number of rows")?;
        let tables = report["tables"].as_array().map_or(0, Vec::len);
        println!("verify: {tables} tables, {rows} rows compared, 0 differences");
        Ok(rows)
    }

    /// The SQLite target, to read.
    pub fn target(&self) -> Result<Connection> {
        open(&self.path("target.db"))
    }

    /// Rows of the SQLite target as text: a bar between columns, a line each.
    pub fn rows(&self, sql: &str) -> Result<Vec<String>> {
        let rows = read(&self.target()?, sql)?;
        Ok(rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join("|")).collect())
    }

    /// One number from the SQLite target.
    pub fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.target()?.query_row(sql, [], |row| row.get(0))?)
    }

    /// Compares a table of the server with one of the SQLite target, value by value, without the program; the
    /// number of rows.
    pub fn compare(&self, server: &Server, source: (&str, &str), target: &str) -> Result<usize> {
        compare(server, source, &self.target()?, target)
    }

    /// The files of checkpoints, the newest last.
    pub fn checkpoints(&self) -> Result<Vec<PathBuf>> {
        let mut found: Vec<PathBuf> = fs::read_dir(self.path("state"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("checkpoint-")))
            .collect();
        found.sort();
        Ok(found)
    }

    /// What the newest checkpoint holds; `None` before the first, or while it is being replaced.
    pub fn checkpoint(&self) -> Result<Option<serde_json::Value>> {
        let Some(newest) = self.checkpoints()?.pop() else { return Ok(None) };
        let Ok(text) = fs::read_to_string(newest) else { return Ok(None) };
        let (_, body) = text.split_once('\n').context("a checkpoint without a header")?;
        Ok(Some(serde_json::from_str(body)?))
    }
}

/// A replica id that no other run of this machine's tests has at the same server.
fn next_server_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(8000);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// What a program printed, and how it ended.
#[derive(Debug, Clone)]
pub struct Said {
    /// `None`: by a signal.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Everything, for a message.
    pub fn text(&self) -> String {
        format!("exit code {:?}\n{}{}", self.code, self.out, self.err)
    }

    /// It ended with this error, one that says what to do, and without a panic.
    pub fn failed(&self, code: u16) -> Result<()> {
        ensure!(self.code.is_some_and(|c| c != 0 && c != 101), "not an orderly failure\n{}", self.text());
        let line = self.err.lines().any(|l| l.starts_with(&format!("error[E{code:04}]: ")));
        ensure!(line, "no error {code:04}\n{}", self.text());
        // what is expected at a place of the file stands there
        let says = self.err.contains("help:") || self.err.contains("expected ");
        ensure!(says, "the error says not what to do\n{}", self.text());
        ensure!(!self.text().contains("panicked"), "a panic\n{}", self.text());
        Ok(())
    }

    /// A number of the line that ends a run, such as `log 5 changes`.
    pub fn done(&self, what: &str) -> Option<u64> {
        let line = self.err.lines().find(|l| l.starts_with("done: "))?;
        let at = line.find(&format!("{what} "))? + what.len() + 1;
        line[at..].split(' ').next()?.parse().ok()
    }
}

/// A program that runs; killed if it is dropped before its end.
pub struct Run {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Run {
    /// Starts a program and reads what it prints.
    pub fn start(command: &mut Command) -> Result<Run> {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting the program")?;
        let (out, err) = (Arc::default(), Arc::default());
        let mut readers = Vec::new();
        if let Some(stream) = child.stdout.take() {
            readers.push(collect(stream, &out));
        }
        if let Some(stream) = child.stderr.take() {
            readers.push(collect(stream, &err));
        }
        Ok(Run { child, out, err, readers })
    }

    /// What it printed on standard error so far.
    pub fn err(&self) -> String {
        self.err.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The most memory it has held, in MB.
    pub fn peak_mb(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? / 1024)
    }

    /// Waits until it has printed this on standard error; its end is an error.
    pub fn says(&mut self, text: &str) -> Result<()> {
        self.until(&format!("\"{text}\" is printed"), |run| Ok(run.err().contains(text)))
    }

    /// Waits until this holds; its end is an error.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Run) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if holds(self)? {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the run ended ({status}) before {what}\n{}", self.err());
            }
            ensure!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}\n{}", self.err());
            thread::sleep(GLANCE);
        }
    }

    /// Ctrl-C.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::SIGINT)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        // not waited for yet, so the number is still its own
        kill(Pid::from_raw(i32::try_from(self.pid())?), signal).context("sending a signal")
    }

    /// `kill -9`, and its end.
    pub fn kill(mut self) -> Result<Said> {
        self.child.kill()?;
        self.wait()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Result<Said> {
        let deadline = Instant::now() + PATIENCE;
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < deadline, "not ended within {PATIENCE:?}\n{}", self.err());
            thread::sleep(GLANCE);
        };
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
        let take = |text: &Mutex<String>| text.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Said { code: status.code(), out: take(&self.out), err: take(&self.err) })
    }

    /// Ctrl-C, and its end, which must be a good one.
    pub fn stop(self) -> Result<Said> {
        self.interrupt()?;
        let said = self.wait()?;
        ensure!(said.code == Some(0), "the run did not stop well\n{}", said.text());
        Ok(said)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads a stream to its end, in the background.
fn collect(stream: impl Read + Send + 'static, into: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let into = into.clone();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(stream.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            into.lock().unwrap_or_else(PoisonError::into_inner).push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}

/// Waits until this holds.
pub fn until(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !holds()? {
        ensure!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(GLANCE);
    }
    Ok(())
}

/// Opens a SQLite file to read, beside whoever writes it.
pub fn open(path: &Path) -> Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .with_context(|| format!("opening {}", path.display()))?;
    db.busy_timeout(Duration::from_secs(10))?;
    Ok(db)
}

/// The rows of a query.
pub fn read(db: &Connection, sql: &str) -> Result<Vec<Vec<Value>>> {
    let mut statement = db.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect())?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(v) => v.to_string(),
        Value::Real(v) => format!("{v:?}"),
        Value::Text(v) => v.clone(),
        Value::Blob(v) => format!("x'{}'", hex(v)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

fn backticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Compares a table of the server with a table of a SQLite database, and counts its rows. Both sides are
/// read as hexadecimal text, column by column as the server names them; the order of rows does not matter.
pub fn compare(server: &Server, source: (&str, &str), db: &Connection, target: &str) -> Result<usize> {
    let (database, table) = source;
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    let listed = server.sql(&format!(
        "SELECT HEX(COLUMN_NAME), DATA_TYPE FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = {} AND TABLE_NAME = {} ORDER BY ORDINAL_POSITION",
        quoted(database),
        quoted(table)
    ))?;
    let mut columns: Vec<(String, String)> = Vec::new();
    for line in listed.lines() {
        let mut parts = line.split('\t');
        let name = String::from_utf8(unhex(parts.next().unwrap_or_default())?)?;
        columns.push((name, parts.next().unwrap_or_default().to_owned()));
    }
    ensure!(!columns.is_empty(), "{database}.{table} is not at the server");
    let expression = |(name, ty): &(String, String)| {
        let column = backticked(name);
        let text = match ty.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "bit" | "year" => {
                format!("CONVERT({column} + 0 USING utf8mb4)")
            }
            // in text the server gives 17 digits only where they fit into 22 characters; a point holds the bits
            "float" | "double" => format!("ST_AsBinary(POINT({column}, 0))"),
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => column,
            _ => format!("CONVERT({column} USING utf8mb4)"),
        };
        format!("IFNULL(HEX({text}), '-')")
    };
    let select = columns.iter().map(expression).collect::<Vec<_>>().join(", ");
    let printed = server.sql(&format!(
        "SET time_zone = '+00:00'; SELECT {select} FROM {}.{}",
        backticked(database),
        backticked(table)
    ))?;
    let mut expected: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for line in printed.lines() {
        let row = line.split('\t').enumerate().map(|(at, field)| {
            if field == "-" || !is_real(&columns[at].1) {
                return Ok(field.to_owned());
            }
            let point = unhex(field)?;
            let bits = point.get(5..13).and_then(|bits| bits.try_into().ok()).context("not a point")?;
            Ok(real(f64::from_le_bytes(bits)))
        });
        *expected.entry(row.collect::<Result<_>>()?).or_default() += 1;
    }
    let names =
        columns.iter().map(|(name, _)| format!("\"{}\"", name.replace('"', "\"\""))).collect::<Vec<_>>();
    let sql = format!("SELECT {} FROM \"{}\"", names.join(", "), target.replace('"', "\"\""));
    let rows = read(db, &sql)?;
    for row in &rows {
        let row: Vec<String> = row.iter().zip(&columns).map(|(value, (_, ty))| stored(value, ty)).collect();
        match expected.get_mut(&row) {
            Some(count) if *count > 0 => *count -= 1,
            _ => bail!("{}", differing(target, &names, &row, expected.keys())),
        }
    }
    let missing: Vec<_> = expected.iter().filter(|(_, count)| **count > 0).take(3).collect();
    ensure!(missing.is_empty(), "the target's {target} has not {missing:?}");
    println!("compared directly: {database}.{table}, {} rows equal", rows.len());
    Ok(rows.len())
}

/// A row that only the target has, beside the server's row that is most like it.
fn differing<'a>(
    target: &str,
    names: &[String],
    row: &[String],
    expected: impl Iterator<Item = &'a Vec<String>>,
) -> String {
    let unlike = |other: &[String]| row.iter().zip(other).filter(|(a, b)| a != b).count();
    let Some(nearest) = expected.min_by_key(|other| unlike(other)) else {
        return format!("only the target's {target} has rows");
    };
    let columns = names.iter().zip(row.iter().zip(nearest)).filter(|(_, (a, b))| a != b);
    let text: Vec<String> = columns.map(|(name, (a, b))| format!("{name}: target {a}, server {b}")).collect();
    format!("{target} differs, at {}: {}", row[0], text.join("; "))
}

/// A stored value in the form of the server's side; `ty` is the server's type.
fn stored(value: &Value, ty: &str) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Integer(v) if is_real(ty) => real(*v as f64),
        Value::Integer(v) => hex(v.to_string().as_bytes()),
        Value::Real(v) => real(*v),
        // 64 bits beyond SQLite's integers: 20 digits
        Value::Text(v) if matches!(ty, "bigint" | "bit") => hex(v.trim_start_matches('0').as_bytes()),
        Value::Text(v) => hex(v.as_bytes()),
        Value::Blob(v) => hex(v),
    }
}

fn is_real(ty: &str) -> bool {
    matches!(ty, "float" | "double")
}

fn real(value: f64) -> String {
    format!("{value:e}")
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    ensure!(text.len().is_multiple_of(2), "not hexadecimal: {text}");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2).unwrap_or("?"), 16).context("not hexadecimal"))
        .collect()
}

/// One statement gives a name that a column gives up to another column: what is compared by name alone takes one for the
/// other, and the rows that are there keep the wrong values. In both modes, into the sink that `sink` makes for a
/// database of this name; `equal` compares a table without the program: job, database, table, columns.
pub fn names_change_hands(
    server: &Server,
    prefix: &str,
    sink: impl Fn(&str) -> Result<String>,
    equal: impl Fn(&Job, &str, &str, &[String]) -> Result<()>,
) -> Result<()> {
    let statements = [
        "DROP COLUMN a, ADD COLUMN a VARCHAR(10) DEFAULT 'z'",
        "DROP COLUMN a, ADD COLUMN a VARCHAR(20)",
        "DROP COLUMN a, ADD COLUMN a INT DEFAULT 5",
        "RENAME COLUMN a TO old0, ADD COLUMN a VARCHAR(10) DEFAULT 'z'",
        "RENAME COLUMN a TO old0, ADD COLUMN a INT NOT NULL DEFAULT 3 FIRST",
        "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "RENAME COLUMN a TO b, RENAME COLUMN b TO c, RENAME COLUMN c TO a",
        "DROP COLUMN b, RENAME COLUMN a TO b",
        "CHANGE a b VARCHAR(30), CHANGE b a VARCHAR(20)",
    ];
    for mode in ["evolve", "lenient"] {
        let database = format!("{prefix}_{mode}");
        let mut sql = format!("CREATE DATABASE {database}; USE {database};");
        for n in 0..statements.len() {
            sql += &format!(
                "CREATE TABLE t{n} (id INT PRIMARY KEY, a VARCHAR(10), b VARCHAR(10), c VARCHAR(10));
                 INSERT INTO t{n} VALUES (1, 'a1', 'b1', 'c1'), (2, 'a2', 'b2', NULL);"
            );
        }
        server.sql(&sql)?;
        let flows =
            format!("sink dw = {}\nsrc.* => dw.* with {{ on_schema_change = {mode} }}", sink(&database)?);
        let job = Job::new(server, &database, &flows);
        job.catch_up(&[])?;
        for (n, statement) in statements.iter().enumerate() {
            server.sql(&format!(
                "USE {database}; UPDATE t{n} SET a = 'before' WHERE id = 2; ALTER TABLE t{n} {statement}; \
                 INSERT INTO t{n} (id) VALUES (3)"
            ))?;
            job.catch_up(&[]).with_context(|| format!("{mode}: {statement}"))?;
            job.verify().with_context(|| format!("{mode}: {statement}"))?;
            let columns = server.sql(&format!(
                "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{database}' \
                 AND TABLE_NAME = 't{n}' ORDER BY ORDINAL_POSITION"
            ))?;
            let columns: Vec<String> = columns.lines().map(ToOwned::to_owned).collect();
            equal(&job, &database, &format!("t{n}"), &columns)
                .with_context(|| format!("{mode}: {statement}"))?;
        }
    }
    Ok(())
}
