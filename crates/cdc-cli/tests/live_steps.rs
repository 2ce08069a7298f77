//! Killed at each named step of a snapshot, a commit, a schema change and a checkpoint (`cdc_core::faults`), at its first
//! time and at a later one: the next start goes on, and the target ends equal.

mod support;

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use cdc_core::faults::STEPS;
use cdc_testkit::servers::Server;
use support::{Job, Run, server};

const ROWS: usize = 600;

/// Two tables of rows, one without a key, and a feed, which cannot hold its progress.
const FLOWS: &str = "sink dw = sqlite { path = \"target.db\" }\n\
                     sink feed = jsonl { path = \"feed.jsonl\", format = \"plain\" }\n\
                     src.t => dw.t with { on_schema_change = evolve }\n\
                     src.log => dw.log\n\
                     src.t => feed.t\n\
                     src.log => feed.log";

fn tables(server: &Server, database: &str) -> Result<()> {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, w VARCHAR(100) NOT NULL);
         CREATE TABLE log (line VARCHAR(20));
         {};
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {ROWS})
           SELECT n, 0, CONCAT('w', n) FROM s;
         INSERT INTO log SELECT id % 7 FROM t WHERE id <= 100",
        server.kind().recursion(1000)
    ))?;
    Ok(())
}

/// Changes that follow a copy: rows before, between and behind statements, in transactions of their own, so that there
/// are many commits and more than one checkpoint.
fn changes(round: usize) -> Vec<String> {
    let mut all = Vec::new();
    for n in 0..6 {
        let id = 10_000 + 100 * round + n;
        all.push(format!(
            "BEGIN; INSERT INTO t (id, v, w) VALUES ({id}, {n}, 'new'); UPDATE t SET v = v + 1 WHERE id % 50 = {n}; \
             DELETE FROM t WHERE id = {}; INSERT INTO log VALUES ('a'), ('a'), ('{n}'); DELETE FROM log LIMIT 1; COMMIT",
            50 * (round + 1) + n
        ));
        all.push(match n {
            1 => format!(
                "ALTER TABLE t ADD COLUMN c{round} INT NOT NULL DEFAULT 7, ADD COLUMN d{round} VARCHAR(9)"
            ),
            2 => format!("ALTER TABLE t RENAME COLUMN d{round} TO e{round}"),
            4 => format!("ALTER TABLE t DROP COLUMN c{round}"),
            _ => "DO SLEEP(0.06)".to_owned(),
        });
    }
    all
}

/// What the feed says that table `t` holds: its lines, folded by key.
fn folded(job: &Job) -> Result<BTreeMap<u64, serde_json::Value>> {
    let mut rows = BTreeMap::new();
    for line in fs::read_to_string(job.path("feed.jsonl"))?.lines() {
        let line: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let Some(op) = line["op"].as_str().filter(|_| line["table"] == "t") else { continue };
        let id = line["key"]["id"].as_u64().context("a line without a key")?;
        if op == "delete" {
            rows.remove(&id);
        } else {
            rows.insert(id, line["row"]["v"].clone());
        }
    }
    Ok(rows)
}

/// Runs into a step for the `nth` time, dies there, and goes on.
fn dies_at(server: &Server, step: &str, nth: usize, database: &str) -> Result<()> {
    tables(server, database)?;
    let job =
        Job::with(server, &format!("[\"{database}.*\"]"), "", "chunk_rows = 100\n  chunk_readers = 2", FLOWS);
    let mut command = job.command("run", &[]);
    command.env("FAILPOINTS", format!("{step}={}*off->return", nth - 1));
    let mut run = Run::start(&mut command)?;
    let mut round = 0;
    let said = loop {
        if run.has_ended()? {
            break run.wait()?;
        }
        ensure!(round < 20, "it never gets to {step} for the {nth}. time\n{}", run.err());
        server.sql(&format!("USE {database}; {}", changes(round).join("; ")))?;
        round += 1;
    };
    ensure!(said.code.is_none(), "it was to be killed at {step}\n{}", said.text());
    server.sql(&format!("USE {database}; {}", changes(round).join("; ")))?;
    let again = job.catch_up(&["--workers", if nth.is_multiple_of(2) { "1" } else { "2" }])?;
    let runs = || format!("it was killed:\n{}\nand went on:\n{}", said.text(), again.text());
    let rows = job.verify().with_context(runs)?;
    let compared =
        job.compare(server, (database, "t"), "t")? + job.compare(server, (database, "log"), "log")?;
    ensure!(rows == compared as u64, "verify: {rows} rows, compared: {compared}");
    let there = server.sql(&format!("SELECT id, v FROM {database}.t ORDER BY id"))?;
    let fed: String = folded(&job)?.iter().map(|(id, v)| format!("{id}\t{v}\n")).collect();
    ensure!(fed == there, "{step}: the feed folds to other rows than there are");
    println!("{step}, {nth}. time: died in round {round}; {rows} rows compared, 0 differences");
    Ok(())
}

fn all(which: &[&str], nth: &[usize]) -> Result<()> {
    let server = server();
    for (i, step) in which.iter().enumerate() {
        for n in nth {
            let database = format!("s{i}_{n}_{}", step.replace(['.', '-'], "_"));
            dies_at(server, step, *n, &database).with_context(|| format!("{step}, {n}. time"))?;
        }
    }
    Ok(())
}

/// The steps whose names begin so.
fn steps(prefix: &str) -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn case_75_killed_at_each_step_of_a_snapshot_and_a_tick() -> Result<()> {
    let named = [steps("snapshot."), steps("tick."), steps("bindings.")].concat();
    ensure!(named.len() == 4, "{named:?}");
    all(&named, &[1, 5])
}

#[test]
fn case_75_killed_at_each_step_of_a_commit() -> Result<()> {
    all(&steps("sink."), &[1, 4, 9])
}

#[test]
fn case_55_killed_at_each_step_of_a_schema_change() -> Result<()> {
    all(&steps("schema."), &[1, 2, 5])
}

#[test]
fn case_75_killed_at_each_step_of_a_checkpoint() -> Result<()> {
    all(&steps("checkpoint."), &[1, 2, 4])
}

#[test]
fn every_step_is_gone_through() {
    // what a target refuses: live_ddl_crash.rs; views: live_views.rs
    let known = ["snapshot.", "tick.", "bindings.", "sink.", "schema.", "refusal.", "views.", "checkpoint."];
    for (step, meaning) in STEPS {
        assert!(known.iter().any(|prefix| step.starts_with(prefix)), "{step} is in no test");
        assert!(!meaning.is_empty());
    }
}
