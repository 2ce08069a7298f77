//! Pipelines that begin in the past, and pipelines that read log files: structures come out of the log.

mod support;

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use std::fs;
use std::path::Path;
use support::Job;

const BODY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

fn log_of(database: &str) -> String {
    format!(
        "CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT PRIMARY KEY, old VARCHAR(9));
         CREATE TABLE u (id INT PRIMARY KEY); CREATE TABLE never (id INT PRIMARY KEY);
         BEGIN; INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO u VALUES (1); INSERT INTO t VALUES (3, 'c'); COMMIT;
         ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 5 FIRST; UPDATE t SET n = 6 WHERE id = 1;
         ALTER TABLE t RENAME COLUMN old TO new, MODIFY n BIGINT NOT NULL; INSERT INTO t VALUES (7, 4, 'd');
         ALTER TABLE u ADD COLUMN w VARCHAR(20); INSERT INTO u VALUES (2, 'ü'); DELETE FROM t WHERE id = 2"
    )
}

/// Copies a server's log files into a folder.
fn copy_log(server: &Server, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(server.datadir())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("binlog.") {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[test]
fn case_22_from_the_earliest_log_on_targets_follow_the_old_structures() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    server.sql(&log_of("e"))?;
    for workers in ["1", "2"] {
        let job = Job::with(&server, "[\"e.*\"]", "on_schema_change = evolve", "start = earliest", BODY);
        job.catch_up(&["--workers", workers])?;
        for table in ["t", "u"] {
            let rows = job.compare(&server, ("e", table), table)?;
            ensure!(rows > 0, "nothing in {table}");
        }
        // and on
        server.sql("INSERT INTO e.t VALUES (1, 99, 'z'); DELETE FROM e.t WHERE id = 99")?;
        job.catch_up(&["--workers", workers])?;
        job.compare(&server, ("e", "t"), "t")?;
    }
    Ok(())
}

/// The tables are there before the start, and met in the middle of one transaction.
#[test]
fn case_22_structures_are_learned_inside_a_transaction() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    server.sql("CREATE DATABASE g; USE g; CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b (id INT PRIMARY KEY, v INT)")?;
    let start = server.executed()?;
    server.sql(
        "USE g; BEGIN; INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (1, 1); UPDATE a SET v = 2; COMMIT;
         ALTER TABLE a ADD COLUMN w INT; BEGIN; INSERT INTO a VALUES (2, 2, 2); UPDATE b SET v = 3; COMMIT",
    )?;
    let offset = format!("start = {{ offset = \"{}\" }}", start.trim().replace('\n', ""));
    let job = Job::with(&server, "[\"g.*\"]", "on_schema_change = evolve", &offset, BODY);
    let said = job.catch_up(&[])?;
    for table in ["a", "b"] {
        job.compare(&server, ("g", table), table).with_context(|| said.text())?;
    }
    Ok(())
}

#[test]
fn case_22_without_full_metadata_a_run_is_refused() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run().with("--binlog-row-metadata=MINIMAL"))?;
    server.sql("CREATE DATABASE m; CREATE TABLE m.t (id INT PRIMARY KEY)")?;
    let start = server.executed()?;
    server.sql("INSERT INTO m.t VALUES (1)")?;
    let offset = format!("start = {{ offset = \"{}\" }}", start.trim().replace('\n', ""));
    let job = Job::with(&server, "[\"m.*\"]", "", &offset, BODY);
    let said = job.fails(1303)?;
    ensure!(said.text().contains("start = initial"), "{}", said.text());
    Ok(())
}

#[test]
fn log_files_fill_a_target_without_a_server() -> Result<()> {
    let mut server = Server::start(ServerOptions::of_this_run())?;
    server.sql(&log_of("f"))?;
    server.sql("FLUSH BINARY LOGS; INSERT INTO f.t VALUES (8, 8, 'h')")?;
    let job = Job::with(&server, "[\"f.*\"]", "", "", BODY);
    copy_log(&server, &job.path("log"))?;
    // no url, no account
    let pipeline = |files: &str, more: &str| {
        format!(
            "pipeline {{\n  name = \"live\"\n  checkpoint = {{ dir = \"state\", every = \"200ms\" }}\n  on_schema_change = evolve\n}}\n\
             source src = mysql {{\n  files = \"{files}\"\n  tables = [\"f.*\"]\n  {more}\n}}\n{BODY}\n"
        )
    };
    let write = |files: &str, more: &str| fs::write(job.path("p.cdc"), pipeline(files, more));
    write("log/binlog.*", "start = earliest")?;
    server.sql("INSERT INTO f.u VALUES (50, 'later')")?;
    // ends by itself, with and without being asked to
    let said = job.start(&[])?.wait()?;
    ensure!(said.code == Some(0), "{}", said.text());
    ensure!(job.number("SELECT count(*) FROM u WHERE id = 50")? == 0, "rows that are in no file");
    server.sql("DELETE FROM f.u WHERE id = 50")?;
    for table in ["t", "u"] {
        ensure!(job.compare(&server, ("f", table), table)? > 0);
    }
    // again: nothing to do; and with what was written since
    job.catch_up(&[])?;
    server.sql("UPDATE f.u SET w = 'more'; FLUSH BINARY LOGS; INSERT INTO f.u VALUES (60, 'new')")?;
    copy_log(&server, &job.path("log"))?;
    job.catch_up(&[])?;
    for table in ["t", "u"] {
        job.compare(&server, ("f", table), table)?;
    }
    server.stop()?;
    // check and verify
    let check = |live: &[&str]| -> Result<String> {
        let output = job.command("check", live).output()?;
        Ok(format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
    };
    let text = check(&["--live"])?;
    ensure!(text.contains("log/binlog.*") && text.contains(": ok"), "{text}");
    let verify = job.command("verify", &[]).output()?;
    let text = String::from_utf8_lossy(&verify.stderr).into_owned();
    ensure!(!verify.status.success() && text.contains("E0404"), "{text}");
    write("log/binlog.*", "")?;
    let text = check(&[])?;
    ensure!(
        text.contains("E0404") && text.contains("start = earliest") && text.contains("in this source"),
        "{text}"
    );
    write("nothing/binlog.*", "start = earliest")?;
    let text = check(&["--live"])?;
    ensure!(text.contains("E4001"), "{text}");
    // a source needs one or the other
    let text = pipeline("x", "start = earliest").replace("  files = \"x\"\n", "");
    fs::write(job.path("p.cdc"), text)?;
    let text = check(&[])?;
    ensure!(text.contains("E0402") && text.contains("\"url\""), "{text}");
    Ok(())
}

#[test]
fn a_damaged_file_stops_a_run_behind_what_is_whole() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    server.sql("CREATE DATABASE h; CREATE TABLE h.t (id INT PRIMARY KEY); INSERT INTO h.t VALUES (1); FLUSH BINARY LOGS; INSERT INTO h.t VALUES (2)")?;
    let job = Job::with(&server, "[\"h.*\"]", "", "files = \"log/binlog.*\"\n  start = earliest", BODY);
    copy_log(&server, &job.path("log"))?;
    let last = job.path("log/binlog.000002");
    let whole = fs::read(&last)?;
    let mut bytes = whole.clone();
    let at = bytes.len() - 60;
    bytes[at] ^= 4;
    fs::write(&last, &bytes)?;
    let said = job.fails(1202)?;
    ensure!(said.text().contains("binlog.000002"), "{}", said.text());
    fs::write(&last, &whole)?;
    job.catch_up(&[])?;
    ensure!(job.compare(&server, ("h", "t"), "t")? == 2);
    Ok(())
}
