//! Stopped, interrupted, killed at any instant: the next start goes on, and the target ends equal.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::history::{History, HistoryOptions, Length, seed};
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::{Server, ServerOptions};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rusqlite::Connection;
use support::{Job, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// A table of so many rows, made in one statement.
fn numbered(server: &Server, database: &str, rows: u64) -> Result<()> {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, w VARCHAR(100) NOT NULL);
         {};
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
           SELECT n, 0, CONCAT(REPEAT('x', 60), n) FROM s",
        server.kind().recursion(rows)
    ))?;
    Ok(())
}

/// How many rows the target's table holds; 0 while it is not there.
fn count(job: &Job) -> i64 {
    job.number("SELECT COUNT(*) FROM t").unwrap_or(0)
}

#[test]
fn a_second_start_does_nothing_and_says_so() -> Result<()> {
    let server = server();
    numbered(server, "twice", 500)?;
    let job = Job::new(server, "twice", COPY);
    let first = job.catch_up(&[])?;
    ensure!(first.done("snapshot") == Some(500), "{}", first.text());
    ensure!(!first.err.contains("nothing new"), "{}", first.text());
    let changes = "SELECT total_changes()";
    let file = fs::read(job.path("target.db"))?.len();
    for workers in ["1", "2"] {
        let second = job.catch_up(&["--workers", workers])?;
        ensure!(second.err.contains("nothing new"), "{}", second.text());
        ensure!(second.done("snapshot") == Some(0) && second.done("log") == Some(0), "{}", second.text());
    }
    ensure!(job.number(changes)? == 0 && fs::read(job.path("target.db"))?.len() == file);
    ensure!(job.verify()? == 500);
    ensure!(job.compare(server, ("twice", "t"), "t")? == 500);
    Ok(())
}

#[test]
fn case_77_ctrl_c_in_mid_snapshot_stops_with_a_checkpoint() -> Result<()> {
    let server = server();
    numbered(server, "c77", 20_000)?;
    let proxy = Proxy::start(server.port())?;
    let mut job = Job::with(server, "[\"c77.*\"]", "", "chunk_rows = 200\n  chunk_readers = 1", COPY);
    job.connect_to(proxy.port());
    let mut copied = 0;
    for (signal, at_least) in [(Signal::SIGINT, 2000), (Signal::SIGTERM, 8000)] {
        // a copy of about two seconds
        proxy.slow_down(Some(1_500_000));
        let mut run = job.start(&[])?;
        run.until("a part is copied", |_| Ok(count(&job) >= at_least))?;
        server.sql("UPDATE c77.t SET v = v + 1 WHERE id % 10 = 0")?;
        let told = Instant::now();
        run.signal(signal)?;
        let said = run.wait()?;
        ensure!(said.code == Some(0) && said.err.contains("done: stopped"), "{}", said.text());
        ensure!(told.elapsed() < Duration::from_secs(5), "stopped after {:?}", told.elapsed());
        copied += said.done("snapshot").context("no rows of the snapshot")?;
        ensure!(copied < 20_000, "it was not stopped in mid-snapshot");
        ensure!(!job.checkpoints()?.is_empty());
    }
    proxy.slow_down(None);
    let said = job.catch_up(&[])?;
    ensure!(said.err.contains("going on from tick"), "{}", said.text());
    copied += said.done("snapshot").context("no rows of the snapshot")?;
    println!("rows read in three runs: {copied}");
    // What was read and not committed when it was stopped comes again; what changed while it was read came with
    // the log, and is not counted here.
    ensure!((16_000..22_000).contains(&copied), "{copied} rows were read in all");
    ensure!(job.verify()? == 20_000);
    job.compare(server, ("c77", "t"), "t")?;
    Ok(())
}

#[test]
fn case_77_ctrl_c_in_mid_stream_stops_with_a_checkpoint() -> Result<()> {
    let server = server();
    let options = HistoryOptions { database: "c77s".into(), rate: Some(100), ..HistoryOptions::default() };
    let history = History::create(server, options)?;
    let job = Job::new(server, "c77s", COPY);
    job.catch_up(&[])?;
    let writers = history.start(server, Length::Time(Duration::from_secs(60)))?;
    for _ in 0..3 {
        let from = job.number("SELECT tick FROM _cdc_progress")?;
        let mut run = job.start(&[])?;
        run.until("ticks are committed", |_| Ok(job.number("SELECT tick FROM _cdc_progress")? > from + 20))?;
        let told = Instant::now();
        let said = run.stop()?;
        ensure!(told.elapsed() < Duration::from_secs(5), "stopped after {:?}", told.elapsed());
        ensure!(said.err.contains("done: stopped") && said.done("snapshot") == Some(0), "{}", said.text());
        // the checkpoint is that of the last commit
        let tick = job.number("SELECT tick FROM _cdc_progress")?;
        ensure!(said.err.contains(&format!("at tick {tick},")), "target at {tick}\n{}", said.text());
    }
    writers.stop();
    let history = writers.wait()?;
    job.catch_up(&[])?;
    job.verify()?;
    for table in history.tables() {
        job.compare(server, ("c77s", &table), &table)?;
    }
    Ok(())
}

/// Schema changes beside the writers, until it is told to end: of the writers' tables, which they meet as they go,
/// and of one of its own, where values in the new shape follow. (Values for the writers' rows could deadlock.)
fn alter(server: &Server, database: &str, over: &AtomicBool) -> Result<()> {
    server.sql(&format!(
        "USE {database}; CREATE TABLE own (id INT PRIMARY KEY, v INT);
         INSERT INTO own WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 500) SELECT n, n FROM s"
    ))?;
    for number in (0..).take_while(|_| !over.load(Ordering::SeqCst)) {
        let place = ["", " FIRST", " AFTER v"][number % 3];
        let column = format!("x{number}");
        let statements = [
            format!("ADD COLUMN {column} VARCHAR(10) DEFAULT 'grün'{place}"),
            format!("MODIFY {column} VARCHAR(40) DEFAULT 'grün'"),
            format!("RENAME COLUMN {column} TO y{number}"),
            format!("DROP COLUMN y{number}"),
        ];
        let table = if number % 2 == 0 { "own".to_owned() } else { format!("h{}", number / 2 % 4) };
        // every third column stays
        for (at, statement) in statements.iter().take(3 + usize::from(number % 3 > 0)).enumerate() {
            let update = match at {
                0 | 1 if table == "own" => {
                    format!("UPDATE own SET {column} = '{number}' WHERE v % 5 = {at};")
                }
                _ => String::new(),
            };
            server.sql(&format!("USE {database}; ALTER TABLE {table} {statement}; {update}"))?;
            thread::sleep(Duration::from_millis(150));
        }
    }
    Ok(())
}

/// Kills a run again and again while clients write, from its first start on, and compares in the end.
fn kills(database: &str, workers: &str, kills: usize) -> Result<()> {
    let server = server();
    let options = HistoryOptions {
        database: database.into(),
        tables: 4,
        clients: 3,
        initial_rows: 1000,
        rate: Some(40),
        ..HistoryOptions::default()
    };
    let mut rng = StdRng::seed_from_u64(options.seed);
    let history = History::create(server, options)?;
    let job = Job::with(
        server,
        &format!("[\"{database}.*\"]"),
        "on_schema_change = evolve",
        "chunk_rows = 100",
        COPY,
    );
    let writers = history.start(server, Length::Time(Duration::from_secs(90)))?;
    let mut times = Vec::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let altering = scope.spawn(|| alter(server, database, &over));
        let mut all = || -> Result<()> {
            for kill in 0..kills {
                // the first runs are killed in the snapshot, and where they look around
                let most = if kill < kills / 3 { 400 } else { 1200 };
                let time = Duration::from_millis(rng.random_range(10..most));
                let run = job.start(&["--workers", workers])?;
                thread::sleep(time);
                let said = run.kill()?;
                ensure!(said.code.is_none(), "kill {kill}: it had ended by itself\n{}", said.text());
                times.push(time.as_millis());
            }
            Ok(())
        };
        let killed = all();
        over.store(true, Ordering::SeqCst);
        killed.and(altering.join().expect("the thread that alters"))
    })?;
    writers.stop();
    let history = writers.wait()?;
    let said = job.catch_up(&["--workers", workers])?;
    println!("{}killed after {times:?} ms, {} transactions", said.err, history.transactions());
    job.verify()?;
    for table in history.tables().iter().map(String::as_str).chain(["own"]) {
        job.compare(server, (database, table), table)?;
    }
    Ok(())
}

#[test]
fn case_75_killed_at_random_instants_with_one_worker() -> Result<()> {
    kills("k1", "1", 12)
}

#[test]
fn case_75_killed_at_random_instants_with_two_workers() -> Result<()> {
    kills("k2", "2", 12)
}

/// Notes what is written to the target's table; a write of what is there already has a kind of its own.
const TRIGGERS: &str = "
    CREATE TABLE writes (kind TEXT, id INTEGER);
    CREATE TRIGGER inserted AFTER INSERT ON t BEGIN INSERT INTO writes VALUES ('insert', NEW.id); END;
    CREATE TRIGGER updated AFTER UPDATE ON t
    BEGIN INSERT INTO writes VALUES (iif(OLD.v = NEW.v, 'again', 'update'), NEW.id); END;
    CREATE TRIGGER deleted AFTER DELETE ON t BEGIN INSERT INTO writes VALUES ('delete', OLD.id); END;";

#[test]
fn a_replay_writes_nothing_that_the_target_has() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE once; CREATE TABLE once.t (id INT PRIMARY KEY, v INT NOT NULL)")?;
    let job = Job::new(server, "once", COPY);
    job.catch_up(&[])?;
    Connection::open(job.path("target.db"))?.execute_batch(TRIGGERS)?;
    let seed = seed();
    println!("CDC_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    // each row is inserted once, updated once, and every third one deleted, each in a transaction of its own
    let rows = 900;
    let written = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            for from in (0..rows).step_by(30) {
                let ids = from..from + 30;
                let sql: String = ids
                    .clone()
                    .map(|id| format!("INSERT INTO t VALUES ({id}, 0);"))
                    .chain(ids.clone().map(|id| format!("UPDATE t SET v = 1 WHERE id = {id};")))
                    .chain(ids.step_by(3).map(|id| format!("DELETE FROM t WHERE id = {id};")))
                    .collect();
                server.sql(&format!("USE once; {sql}"))?;
                written.fetch_add(30, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(60));
            }
            over.store(true, Ordering::SeqCst);
            Ok(())
        });
        let (mut kills, mut ahead) = (0, 0);
        while !over.load(Ordering::SeqCst) && !writer.is_finished() {
            let workers = if kills % 2 == 0 { "1" } else { "2" };
            let run = job.start(&["--workers", workers])?;
            thread::sleep(Duration::from_millis(rng.random_range(30..500)));
            run.kill()?;
            kills += 1;
            let state = job.checkpoint()?.and_then(|state| state["tick"].as_i64());
            let target = job.number("SELECT tick FROM _cdc_progress")?;
            ahead += u32::from(state.is_some_and(|tick| tick < target));
        }
        println!("{kills} kills, after {ahead} of them the target was ahead of the checkpoint");
        writer.join().expect("the writer")?;
        ensure!(ahead > 0, "nothing had to be replayed");
        Ok(())
    })?;
    job.catch_up(&[])?;
    job.verify()?;
    // changes of one key that meet in a tick are written as one, so there may be fewer writes than changes
    let doubled = job.rows("SELECT kind, id, COUNT(*) FROM writes GROUP BY kind, id HAVING COUNT(*) > 1")?;
    ensure!(doubled.is_empty(), "written twice: {doubled:?}");
    let again = job.rows("SELECT id FROM writes WHERE kind = 'again'")?;
    ensure!(again.is_empty(), "written although they were there: {again:?}");
    println!("writes: {:?}", job.rows("SELECT kind, COUNT(*) FROM writes GROUP BY kind ORDER BY kind")?);
    let inserted = job.number("SELECT COUNT(*) FROM writes WHERE kind = 'insert' AND id % 3 > 0")?;
    ensure!(inserted == i64::from(rows) * 2 / 3, "{inserted} of the rows that stay were inserted");
    ensure!(count(&job) == i64::from(rows) * 2 / 3);
    job.compare(server, ("once", "t"), "t")?;
    Ok(())
}

/// The statements that read chunks of `c18.t`, in the order of the server's general log.
fn chunk_selects(server: &Server) -> Result<Vec<String>> {
    let log = fs::read_to_string(server.datadir().join("general.log"))?;
    let is_chunk = |line: &&str| {
        line.contains("Execute")
            && line.contains("FROM `c18`.`t`")
            && line.contains("ORDER BY")
            && line.contains("`w`")
    };
    Ok(log
        .lines()
        .filter(is_chunk)
        .filter_map(|line| Some(line.split_once("Execute")?.1.to_owned()))
        .collect())
}

#[test]
fn case_18_finished_chunks_are_not_read_again_after_a_kill() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    numbered(&server, "c18", 20_000)?;
    server.sql(&format!(
        "SET GLOBAL log_output = 'FILE'; SET GLOBAL general_log_file = '{}'; SET GLOBAL general_log = ON",
        server.datadir().join("general.log").display()
    ))?;
    let proxy = Proxy::start(server.port())?;
    let mut job = Job::with(&server, "[\"c18.*\"]", "", "chunk_rows = 200", COPY);
    job.connect_to(proxy.port());
    proxy.slow_down(Some(1_000_000));
    let mut run = job.start(&[])?;
    run.until("half of the rows are copied", |_| Ok(count(&job) >= 10_000))?;
    run.kill()?;
    proxy.slow_down(None);
    let first = chunk_selects(&server)?;
    let state = job.checkpoint()?.context("no checkpoint")?;
    let copying = &state["sources"]["src"]["copying"][0];
    let finished = copying["chunks"].as_u64().context("no number of chunks")?;
    let rows = copying["rows"].as_u64().context("no number of rows")?;
    let said = job.catch_up(&[])?;
    let second = chunk_selects(&server)?.split_off(first.len());
    let all: BTreeSet<&String> = first.iter().chain(&second).collect();
    println!(
        "{} chunks, {finished} finished at the kill; selected: {} before it, {} after it",
        all.len(),
        first.len(),
        second.len()
    );
    ensure!(finished >= 20, "only {finished} chunks were finished");
    ensure!(all.len() as u64 == finished + second.len() as u64, "finished chunks were read again");
    ensure!(said.done("snapshot") == Some(20_000 - rows), "{rows} rows were there\n{}", said.text());
    ensure!(job.verify()? == 20_000);
    job.compare(&server, ("c18", "t"), "t")?;
    Ok(())
}
