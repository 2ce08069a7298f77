//! Large transactions and slow targets: all or nothing at the target, and bounded memory.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use support::{Job, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// What a run may hold, in MB.
const MOST_MB: u64 = 150;

/// Rows by a recursive query, each about 100 bytes.
fn insert(from: u64, rows: u64) -> String {
    format!(
        "{};
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM s WHERE n < {from} + {rows} - 1)
           SELECT n, n, CONCAT(REPEAT('x', 50), n) FROM s;",
        server().kind().recursion(rows)
    )
}

fn one_transaction(database: &str, workers: &str, rows: u64) -> Result<()> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, w VARCHAR(80) NOT NULL)"
    ))?;
    let job = Job::new(server, database, COPY);
    job.catch_up(&[])?;
    let mut run = job.start(&["--workers", workers])?;
    run.says("going on from tick")?;
    let third = rows / 3;
    let inserts: String = (0..3).map(|part| insert(1 + part * third, third)).collect();
    let all = format!("{}|{}", 3 * third, third * 3 * (third * 3 + 1) / 2);
    let changed = format!("{}|{}", 2 * third, 2 * third);
    let mut peak = 0;
    for (sql, before, after) in [
        (inserts, "0|NULL".to_owned(), all.clone()),
        // every row once more, and a third of them gone
        (format!("UPDATE t SET v = 1; DELETE FROM t WHERE id <= {third};"), all, changed),
    ] {
        let begun = Instant::now();
        server.sql(&format!("USE {database}; BEGIN; {sql} COMMIT"))?;
        let wrote = begun.elapsed();
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        run.until("the transaction is at the target", |run| {
            peak = run.peak_mb().unwrap_or(0).max(peak);
            let row = job.rows("SELECT COUNT(*), SUM(v) FROM t")?.pop().context("no row")?;
            *seen.entry(row.clone()).or_default() += 1;
            Ok(row == after)
        })?;
        println!(
            "written in {wrote:?}, at the target after {:?}, seen {seen:?}, peak {peak} MB",
            begun.elapsed()
        );
        let others: Vec<&String> = seen.keys().filter(|row| **row != before && **row != after).collect();
        ensure!(others.is_empty(), "half a transaction was seen: {others:?}");
    }
    println!("{workers} workers: peak {peak} MB");
    ensure!(peak < MOST_MB, "{peak} MB");
    run.stop()?;
    ensure!(job.verify()? == 2 * third);
    Ok(())
}

#[test]
fn case_31_a_large_transaction_is_seen_whole_and_takes_little_memory() -> Result<()> {
    one_transaction("big1", "1", 300_000)
}

#[test]
fn case_31_a_large_transaction_is_seen_whole_with_two_workers() -> Result<()> {
    one_transaction("big2", "2", 150_000)
}

#[test]
fn a_slow_target_slows_the_source_down() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE slow; USE slow; CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, w VARCHAR(3000) NOT NULL)",
    )?;
    server.sql(&format!("USE slow; {}", insert(1, 20_000)))?;
    let job = Job::with(server, "[\"slow.*\"]", "", "chunk_rows = 1000", COPY);
    let mut run = job.start(&["--workers", "2"])?;
    run.until("the target is there", |_| Ok(job.number("SELECT COUNT(*) FROM t").is_ok()))?;
    let over = AtomicBool::new(false);
    let peak = thread::scope(|scope| -> Result<u64> {
        // most of the time another program has the write lock
        let holder = scope.spawn(|| -> Result<u32> {
            let other = Connection::open(job.path("target.db"))?;
            other.busy_timeout(Duration::from_secs(20))?;
            let mut bursts = 0;
            while !over.load(Ordering::SeqCst) {
                other.execute_batch("BEGIN IMMEDIATE")?;
                thread::sleep(Duration::from_millis(700));
                other.execute_batch("COMMIT")?;
                thread::sleep(Duration::from_millis(60));
                bursts += 1;
            }
            Ok(bursts)
        });
        let mut work = || -> Result<u64> {
            // some 150 MB of changes, in transactions of 200 rows
            for part in 0..100 {
                let (from, to) = (part * 200 + 1, part * 200 + 200);
                server.sql(&format!(
                    "USE slow; UPDATE t SET v = v + 1, w = REPEAT('y', 3000) WHERE id BETWEEN {from} AND {to};
                     UPDATE t SET w = REPEAT('z', 2000) WHERE id BETWEEN {from} AND {to}"
                ))?;
            }
            run.until("the changes are at the target", |_| {
                Ok(job.number("SELECT COUNT(*) FROM t WHERE w LIKE 'zz%'")? == 20_000)
            })?;
            run.peak_mb().context("no peak memory")
        };
        let peak = work();
        over.store(true, Ordering::SeqCst);
        println!("the lock was held {} times", holder.join().expect("the holder")?);
        peak
    })?;
    println!("peak {peak} MB");
    ensure!(peak < MOST_MB, "{peak} MB");
    run.stop()?;
    ensure!(job.verify()? == 20_000);
    job.compare(server, ("slow", "t"), "t")?;
    Ok(())
}
