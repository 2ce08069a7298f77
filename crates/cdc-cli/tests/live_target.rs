//! Targets and state folders that are locked, gone, somebody else's, torn, or wanted by two runs at once.

mod support;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use cdc_testkit::servers::Server;
use nix::sys::signal::Signal;
use rusqlite::Connection;
use support::{Job, Run, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// A database with a table of some rows, and a pipeline for it.
fn job(database: &str) -> Result<(&'static Server, Job)> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL);
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 300) SELECT n, 'a' FROM s"
    ))?;
    Ok((server, Job::new(server, database, COPY)))
}

/// Everything in a folder, and what it holds.
fn content(folder: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            files.push((
                path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                fs::read(&path)?,
            ));
        }
    }
    files.sort();
    Ok(files)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[test]
fn a_locked_target_is_waited_for() -> Result<()> {
    let (server, job) = job("locked")?;
    let mut run = job.start(&[])?;
    run.says("snapshot complete")?;
    let other = Connection::open(job.path("target.db"))?;
    other.execute_batch("BEGIN IMMEDIATE")?;
    server.sql("UPDATE locked.t SET v = 'b' WHERE id % 3 = 0; DELETE FROM locked.t WHERE id % 10 = 1")?;
    // longer than SQLite itself waits
    run.says("warning[E2009]")?;
    server.sql("INSERT INTO locked.t VALUES (1000, 'late')")?;
    other.execute_batch("COMMIT")?;
    run.until("the rows are there", |_| Ok(job.number("SELECT COUNT(*) FROM t WHERE v = 'late'")? == 1))?;
    run.stop()?;
    ensure!(job.verify()? == 271);
    job.compare(server, ("locked", "t"), "t")?;
    Ok(())
}

#[test]
fn a_target_that_was_deleted_between_runs_is_refused() -> Result<()> {
    let (server, job) = job("deleted")?;
    job.catch_up(&[])?;
    for file in ["target.db", "target.db-wal", "target.db-shm"] {
        let _ = fs::remove_file(job.path(file));
    }
    server.sql("UPDATE deleted.t SET v = 'b'")?;
    job.fails(2005)?;
    ensure!(!job.path("target.db").exists(), "the target was made anew");
    // what the help says: everything anew
    fs::remove_dir_all(job.path("state"))?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 300);
    Ok(())
}

#[test]
fn a_target_that_is_deleted_under_a_run_ends_it() -> Result<()> {
    let (server, job) = job("pulled")?;
    let mut run = job.start(&[])?;
    run.says("snapshot complete")?;
    for file in ["target.db", "target.db-wal", "target.db-shm"] {
        let _ = fs::remove_file(job.path(file));
    }
    server.sql("UPDATE pulled.t SET v = 'b'")?;
    run.wait()?.failed(2001)?;
    ensure!(!job.path("target.db").exists(), "the target was made anew");
    Ok(())
}

#[test]
fn what_is_no_database_of_ours_is_refused_untouched() -> Result<()> {
    let (_, job) = job("strange")?;
    let target = job.path("target.db");
    let text = "a text file, and none of ours\n".repeat(200);
    fs::write(&target, &text)?;
    job.fails(2002)?;
    ensure!(fs::read_to_string(&target)? == text, "the file was written to");

    fs::remove_file(&target)?;
    fs::create_dir(&target)?;
    job.fails(2001)?;
    ensure!(fs::read_dir(&target)?.count() == 0, "the folder was written to");
    fs::remove_dir(&target)?;

    // tables of another shape: a column less, another type, another key; rows that nobody accounts for
    for (table, code) in [
        ("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY)", 2003),
        ("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, v BLOB, w TEXT NOT NULL)", 2003),
        ("CREATE TABLE t (id INTEGER, v TEXT PRIMARY KEY)", 2003),
        ("CREATE TABLE t (id TEXT NOT NULL PRIMARY KEY, v TEXT)", 2003),
        (
            "CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, v TEXT); INSERT INTO t VALUES (7, 'not ours')",
            2005,
        ),
    ] {
        let _ = fs::remove_file(&target);
        Connection::open(&target)?.execute_batch(table)?;
        let before = fs::read(&target)?;
        let said = job.fails(code)?;
        ensure!(said.err.contains("\"t\""), "{}", said.text());
        ensure!(fs::read(&target)? == before, "the target was written to: {table}");
        ensure!(job.checkpoints().unwrap_or_default().is_empty(), "a checkpoint was written: {table}");
    }

    // an empty table of the right shape is taken
    fs::remove_file(&target)?;
    Connection::open(&target)?
        .execute_batch("CREATE TABLE t (id INTEGER NOT NULL PRIMARY KEY, v TEXT NOT NULL)")?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 300);
    Ok(())
}

#[test]
fn progress_without_its_state_is_refused() -> Result<()> {
    let (server, job) = job("stateless")?;
    job.catch_up(&[])?;
    // the state that belongs to it is elsewhere
    fs::rename(job.path("state"), job.path("kept"))?;
    server.sql("DELETE FROM stateless.t WHERE id < 10")?;
    job.fails(2005)?;
    ensure!(job.number("SELECT COUNT(*) FROM t")? == 300, "the target was written to");
    let said = job.start(&["--until", "caught-up", "--state", "another"])?.wait()?;
    said.failed(2005)?;

    // the state of another run, which filled another target
    let target = job.path("target.db");
    fs::rename(&target, job.path("first.db"))?;
    for file in ["target.db-wal", "target.db-shm"] {
        let _ = fs::remove_file(job.path(file));
    }
    fs::remove_dir_all(job.path("state"))?;
    job.catch_up(&[])?;
    fs::copy(job.path("first.db"), &target)?;
    for file in ["target.db-wal", "target.db-shm"] {
        let _ = fs::remove_file(job.path(file));
    }
    job.fails(2005)?;

    // put together again they go on
    fs::remove_dir_all(job.path("state"))?;
    fs::rename(job.path("kept"), job.path("state"))?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 291);
    Ok(())
}

#[test]
fn a_target_that_was_set_back_is_refused() -> Result<()> {
    let (server, job) = job("setback")?;
    job.catch_up(&[])?;
    fs::copy(job.path("target.db"), job.path("backup.db"))?;
    server.sql("UPDATE setback.t SET v = 'b'")?;
    job.catch_up(&[])?;
    fs::rename(job.path("backup.db"), job.path("target.db"))?;
    for file in ["target.db-wal", "target.db-shm"] {
        let _ = fs::remove_file(job.path(file));
    }
    let said = job.fails(2005)?;
    ensure!(said.err.contains("set back"), "{}", said.text());
    Ok(())
}

#[test]
fn case_78_a_second_run_on_the_same_state_is_refused() -> Result<()> {
    let (server, job) = job("c78")?;
    let mut first = job.start(&[])?;
    first.says("snapshot complete")?;
    let said = job.fails(3001)?;
    ensure!(
        said.err.contains(&format!("process {}", first.pid())),
        "it names not the other\n{}",
        said.text()
    );
    server.sql("UPDATE c78.t SET v = 'b' WHERE id < 100")?;
    first.until("the change is there", |_| Ok(job.number("SELECT COUNT(*) FROM t WHERE v = 'b'")? == 99))?;
    first.stop()?;
    ensure!(job.verify()? == 300);
    Ok(())
}

#[test]
fn case_78_of_two_runs_with_two_state_folders_one_writes() -> Result<()> {
    let (server, job) = job("c78b")?;
    // both at once, on a target that is not there yet
    let start = |state: &str| job.start(&["--state", state, "--until", "caught-up"]);
    let runs = [start("one")?, start("two")?];
    let mut good = Vec::new();
    for (state, run) in ["one", "two"].into_iter().zip(runs) {
        let said = run.wait()?;
        match said.code {
            Some(0) => good.push(state),
            _ => said.failed(2004).or_else(|_| said.failed(2005))?,
        }
        println!("{state}: {:?}", said.code);
    }
    ensure!(good.len() == 1, "well ended: {good:?}");
    server.sql("DELETE FROM c78b.t WHERE id % 2 = 0")?;
    let said = start(good[0])?.wait()?;
    ensure!(said.code == Some(0), "{}", said.text());
    ensure!(job.verify()? == 150);
    job.compare(server, ("c78b", "t"), "t")?;
    Ok(())
}

/// A second run with a copy of the state takes the target over.
fn take_over(job: &Job, copy: &str) -> Result<Run> {
    copy_folder(&job.path("state"), &job.path(copy))?;
    let mut run = job.start(&["--state", copy])?;
    run.says("going on from tick")?;
    let pid = run.pid();
    run.until("the target is taken over", |_| {
        Ok(job.rows("SELECT run FROM _cdc_progress")?[0].contains(&format!("process {pid} ")))
    })?;
    Ok(run)
}

#[test]
fn an_old_run_is_fenced_off_and_told_by_whom() -> Result<()> {
    let (server, job) = job("fenced")?;
    job.catch_up(&[])?;
    let mut old = job.start(&[])?;
    old.says("going on from tick")?;
    thread::sleep(Duration::from_millis(300));
    let mut new = take_over(&job, "copy")?;
    server.sql("UPDATE fenced.t SET v = 'b' WHERE id < 100")?;
    let pid = new.pid();
    let said = old.wait()?;
    said.failed(2004)?;
    ensure!(said.err.contains(&format!("process {pid} ")), "it names not the other\n{}", said.text());
    new.until("the change is there", |_| Ok(job.number("SELECT COUNT(*) FROM t WHERE v = 'b'")? == 99))?;

    // one that sleeps, and wakes up after the target was taken over
    new.signal(Signal::SIGSTOP)?;
    fs::remove_dir_all(job.path("state"))?;
    // it may still write a checkpoint, into its own
    copy_folder(&job.path("copy"), &job.path("state"))?;
    let mut third = take_over(&job, "third")?;
    server.sql("UPDATE fenced.t SET v = 'c' WHERE id < 50")?;
    third.until("the change is there", |_| Ok(job.number("SELECT COUNT(*) FROM t WHERE v = 'c'")? == 49))?;
    new.signal(Signal::SIGCONT)?;
    let said = new.wait()?;
    said.failed(2004)?;
    ensure!(said.err.contains(&format!("process {} ", third.pid())), "{}", said.text());
    server.sql("DELETE FROM fenced.t WHERE id > 290")?;
    third.until("the rows are gone", |_| Ok(job.number("SELECT COUNT(*) FROM t")? == 290))?;
    third.stop()?;
    ensure!(job.verify()? == 290);
    job.compare(server, ("fenced", "t"), "t")?;
    Ok(())
}

#[test]
fn a_state_folder_that_cannot_be_written_is_refused() -> Result<()> {
    let (_, job) = job("unwritable")?;
    fs::write(job.path("file"), "no folder")?;
    let mut states = vec!["file", "file/state"];
    if Path::new("/proc/self").exists() {
        // read-only even for root
        states.push("/proc/cdc-state");
    }
    fs::create_dir(job.path("readonly"))?;
    if !nix::unistd::geteuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(job.path("readonly"), fs::Permissions::from_mode(0o555))?;
        states.push("readonly");
    }
    for state in states {
        let said = job.start(&["--until", "caught-up", "--state", state])?.wait()?;
        said.failed(3002)?;
        ensure!(!job.path("target.db").exists(), "the target was written to");
    }
    ensure!(fs::read_to_string(job.path("file"))? == "no folder");
    Ok(())
}

#[test]
fn torn_checkpoints_are_passed_over_and_when_all_are_torn_the_start_is_refused() -> Result<()> {
    let (server, job) = job("torn")?;
    job.catch_up(&[])?;
    for value in ["b", "c", "d"] {
        server.sql(&format!(
            "UPDATE torn.t SET v = '{value}' WHERE id < 50; DELETE FROM torn.t WHERE v = 'c' AND id < 5"
        ))?;
        job.catch_up(&[])?;
    }
    server.sql("ALTER TABLE torn.t ADD COLUMN w INT; UPDATE torn.t SET w = id")?;
    job.catch_up(&[])?;
    // the target is ahead of the checkpoint that is used then: its ticks come again
    let newest = job.checkpoints()?.pop().expect("a checkpoint");
    let bytes = fs::read(&newest)?;
    fs::write(&newest, &bytes[..bytes.len() / 2])?;
    server.sql("UPDATE torn.t SET v = 'e' WHERE id % 7 = 0")?;
    let said = job.catch_up(&[])?;
    ensure!(said.err.contains("warning[E3003]"), "{}", said.text());
    ensure!(job.verify()? == 296);
    job.compare(server, ("torn", "t"), "t")?;

    let files = job.checkpoints()?;
    ensure!(files.len() >= 2, "{} checkpoints are kept", files.len());
    for file in &files {
        let bytes = fs::read(file)?;
        fs::write(file, &bytes[..bytes.len() - 1])?;
    }
    let before = content(&job.path("state"))?;
    let checkpoints = |files: &[(String, Vec<u8>)]| -> Vec<(String, Vec<u8>)> {
        files.iter().filter(|(name, _)| name.starts_with("checkpoint")).cloned().collect()
    };
    server.sql("DELETE FROM torn.t")?;
    job.fails(3003)?;
    ensure!(checkpoints(&content(&job.path("state"))?) == checkpoints(&before), "the state was changed");
    ensure!(job.number("SELECT COUNT(*) FROM t")? == 296, "the target was written to");
    Ok(())
}
