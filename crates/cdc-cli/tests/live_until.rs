//! Where a run ends by itself, and a file whose tables change between two runs.

mod support;

use std::fs;

use anyhow::{Result, ensure};
use cdc_testkit::servers::Server;
use support::{Job, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

fn now(server: &Server) -> Result<String> {
    Ok(server.sql("SET time_zone = '+00:00'; SELECT NOW(6)")?.trim().to_owned())
}

/// A run that must end well, and by itself.
fn until(job: &Job, place: &str) -> Result<()> {
    let said = job.start(&["--until", place])?.wait()?;
    ensure!(said.code == Some(0), "{place}: {}", said.text());
    Ok(())
}

fn most(job: &Job) -> Result<i64> {
    job.number("SELECT MAX(id) FROM t")
}

#[test]
fn a_run_ends_at_a_time_a_byte_or_a_set() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE ends; CREATE TABLE ends.t (id INT PRIMARY KEY); INSERT INTO ends.t VALUES (1)",
    )?;
    let job = Job::new(server, "ends", COPY);
    job.catch_up(&[])?;
    let insert = |id: u32| server.sql(&format!("INSERT INTO ends.t VALUES ({id})"));
    // MariaDB's log tells seconds
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let time = now(server)?;
    std::thread::sleep(std::time::Duration::from_millis(1100));
    insert(2)?;
    let set = server.executed()?;
    insert(3)?;
    let (file, offset) = server.log_end()?;
    insert(4)?;
    // in front of all of them; asked again it is the same
    for _ in 0..2 {
        until(&job, &time)?;
        ensure!(most(&job)? == 1, "{time}: {}", most(&job)?);
    }
    until(&job, &set.to_string())?;
    ensure!(most(&job)? == 2, "{set}: {}", most(&job)?);
    until(&job, &format!("{file}:{offset}"))?;
    ensure!(most(&job)? == 3, "{file}:{offset}: {}", most(&job)?);
    // a quiet server: nothing comes any more that was committed before
    until(&job, &now(server)?)?;
    ensure!(most(&job)? == 4, "{}", most(&job)?);
    job.catch_up(&[])?;
    ensure!(job.verify()? == 4);
    for bad in ["caught_up", "yesterday", "2026-13-01 10:00:00", "binlog.000001", ""] {
        let said = job.start(&["--until", bad])?.wait()?;
        ensure!(said.code == Some(2) && said.err.contains("no place to end"), "{bad}: {}", said.text());
    }
    Ok(())
}

#[test]
fn case_35_tables_and_flows_come_and_go_between_two_runs() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE sets; USE sets; CREATE TABLE old (id INT PRIMARY KEY, v INT); INSERT INTO old VALUES (1, 1), (2, 2);
         CREATE TABLE goes (id INT PRIMARY KEY); INSERT INTO goes VALUES (1);
         CREATE TABLE fresh (id INT PRIMARY KEY, v INT); INSERT INTO fresh VALUES (7, 7), (8, 8), (9, 9)",
    )?;
    let sink = "sink dw = sqlite { path = \"target.db\" }";
    let old = "src.old => dw.old";
    let job = Job::with(
        server,
        "[\"sets.old\", \"sets.goes\"]",
        "",
        "",
        &format!("{sink}\n{old}\nsrc.goes => dw.goes"),
    );
    job.catch_up(&[])?;
    let text = fs::read_to_string(job.path("p.cdc"))?;
    server.sql("USE sets; UPDATE old SET v = 5; DELETE FROM fresh WHERE id = 8; ALTER TABLE fresh ADD w INT DEFAULT 3; DROP TABLE goes")?;
    // another key for a flow that stays, and a new flow over an old table: refused, nothing is lost by trying
    for bad in [
        text.replace(old, "src.old => dw.old key (v)"),
        text.replace(old, &format!("{old}\nsrc.old => dw.again")),
    ] {
        fs::write(job.path("p.cdc"), bad)?;
        let said = job.start(&["--until", "caught-up"])?.wait()?;
        ensure!(said.code == Some(3) && said.err.contains("E3006"), "{}", said.text());
    }
    let next = text
        .replace("\"sets.goes\"", "\"sets.fresh\"")
        .replace("src.goes => dw.goes", "src.fresh => dw.fresh");
    ensure!(next != text);
    fs::write(job.path("p.cdc"), next)?;
    let said = job.catch_up(&[])?;
    ensure!(said.done("snapshot") == Some(2), "the old table was copied again: {}", said.text());
    ensure!(job.verify()? == 4);
    ensure!(job.number("SELECT SUM(v) FROM old")? == 10 && job.number("SELECT SUM(w) FROM fresh")? == 6);
    server.sql("USE sets; INSERT INTO fresh VALUES (10, 1, 1); DELETE FROM old WHERE id = 1")?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 4);
    Ok(())
}
