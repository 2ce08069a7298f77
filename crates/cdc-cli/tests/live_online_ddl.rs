//! The real pt-online-schema-change at work on a table that is written to, and what becomes of the target.

mod support;

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::servers::{Server, percona};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use support::{Job, Run, Said, server, until};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// Sessions that write to table t until they are told to stop.
struct Writers {
    stop: Arc<AtomicBool>,
    threads: Vec<(Arc<AtomicU32>, JoinHandle<Result<()>>)>,
}

impl Writers {
    fn start(server: &'static Server, database: &str) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let write = |n: u32| {
            let (stop, database) = (stop.clone(), database.to_owned());
            let done = Arc::new(AtomicU32::new(0));
            let counter = done.clone();
            let thread = thread::spawn(move || {
                let mut rounds = 0;
                while !stop.load(Ordering::SeqCst) {
                    rounds += 1;
                    let (from, to) = (rounds * 7 % 3000, rounds * 13 % 3000);
                    let sql = format!(
                        "USE {database}; INSERT INTO t (a, b) VALUES ('w{n}', {rounds}), (NULL, {rounds});
                         UPDATE t SET b = b + 1, a = CONCAT('u', {rounds}) WHERE id BETWEEN {from} AND {from} + 9;
                         START TRANSACTION; UPDATE t SET b = b - 1 WHERE id = {to}; DELETE FROM t WHERE id = {to} + 1; COMMIT;
                         DELETE FROM t WHERE a = 'w{n}' AND b < {rounds} - 40"
                    );
                    match server.sql(&sql) {
                        Ok(_) => {}
                        // the tool's triggers lock rows of its copy
                        Err(error) if error.to_string().contains("Deadlock") => {}
                        Err(error) => return Err(error),
                    }
                    counter.store(rounds, Ordering::SeqCst);
                }
                Ok(())
            });
            (done, thread)
        };
        let threads = (0..2).map(write).collect();
        Writers { stop, threads }
    }

    /// Every row that they write is written.
    fn stop(self) -> Result<()> {
        // on a busy machine the change may be over before they have written much
        until("each writer has written", || {
            Ok(self
                .threads
                .iter()
                .all(|(done, thread)| done.load(Ordering::SeqCst) > 3 || thread.is_finished()))
        })?;
        self.stop.store(true, Ordering::SeqCst);
        for (_, thread) in self.threads {
            thread.join().ok().context("a writer panicked")??;
        }
        Ok(())
    }
}

/// Makes a table, and a pipeline that has copied it.
fn start(database: &str, tables: &str, mode: &str, online_ddl: &str) -> Result<(Job, Run)> {
    // without statistics the tool may take the table for a small one, and copy it at once
    server().sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20), b INT NOT NULL);
         INSERT INTO t (a, b) WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 900)
           SELECT CONCAT('a', n), n FROM s; INSERT INTO t (a, b) SELECT a, b FROM t; INSERT INTO t (a, b) SELECT a, b FROM t;
         ANALYZE TABLE t"
    ))?;
    let job = Job::with(
        server(),
        &format!("[\"{database}.{tables}\"]"),
        &format!("on_schema_change = {mode}"),
        &format!("online_ddl = {online_ddl}"),
        COPY,
    );
    job.catch_up(&[])?;
    let mut run = job.start(&[])?;
    run.says("going on from tick")?;
    Ok((job, run))
}

/// Runs the tool to its end.
fn alter(database: &str, alter: &str, more: &[&str]) -> Result<()> {
    let output = tool(database, alter, more)?.output()?;
    let printed =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !printed.contains("Successfully altered") {
        bail!("the tool failed: {alter}\n{printed}");
    }
    Ok(())
}

fn tool(database: &str, alter: &str, more: &[&str]) -> Result<Command> {
    let mut command = percona::alter(server(), database, "t", alter)?;
    command.args(more).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// The tables of the target, as its users name them.
fn tables(job: &Job) -> Result<String> {
    let found = job.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cdc%' ESCAPE '\\'",
    )?;
    Ok(found.join(" "))
}

/// Ends the run; everything is there, and nothing of the tool's.
fn ended(job: &Job, run: Run, database: &str) -> Result<Said> {
    let said = run.stop()?;
    let last = job.catch_up(&[])?;
    ensure!(last.done("snapshot") == Some(0), "{}", last.text());
    job.compare(server(), (database, "t"), "t")?;
    job.verify()?;
    ensure!(tables(job)? == "t", "tables at the target: {}", tables(job)?);
    Ok(said)
}

/// No row was copied again.
fn followed(said: &Said, shape_changes: usize) -> Result<()> {
    ensure!(said.done("snapshot") == Some(0), "copied again\n{}", said.text());
    let told = said.err.lines().filter(|l| l.contains("schema change: ")).count();
    ensure!(told == shape_changes, "{told} changes of shape, not {shape_changes}\n{}", said.text());
    Ok(())
}

#[test]
fn case_46_the_real_tool_changes_a_table_once_and_twice_in_a_row() -> Result<()> {
    for (database, tables, mode) in
        [("pt_one", "t", "evolve"), ("pt_all", "*", "evolve"), ("pt_lenient", "*", "lenient")]
    {
        let (job, mut run) = start(database, tables, mode, "trust")?;
        let writers = Writers::start(server(), database);
        alter(database, "ADD COLUMN c INT NOT NULL DEFAULT 5 AFTER id", &[])?;
        run.says("add_column c")?;
        alter(database, "MODIFY b BIGINT NOT NULL, ADD COLUMN d VARCHAR(10) DEFAULT 'grün'", &[])?;
        alter(database, "DROP COLUMN c, ADD INDEX (b)", &["--no-drop-old-table"])?;
        writers.stop()?;
        let said = ended(&job, run, database).with_context(|| format!("{tables}, {mode}"))?;
        followed(&said, 3)?;
    }
    Ok(())
}

#[test]
fn case_46_a_crash_while_the_real_tool_is_at_work() -> Result<()> {
    let database = "pt_crash";
    let (job, run) = start(database, "*", "evolve", "trust")?;
    let writers = Writers::start(server(), database);
    // some 70 chunks, with a pause behind each
    let slow = ["--chunk-size", "50", "--chunk-time", "0", "--sleep", "0.05"];
    let at_work = tool(database, "ADD COLUMN c INT NOT NULL DEFAULT 5", &slow)?.spawn()?;
    support::until("the checkpoint knows the tool's table", || {
        Ok(job.checkpoint()?.is_some_and(|c| c["sources"]["src"]["shadows"]["tables"].is_array()))
    })?;
    run.kill()?;
    let run = job.start(&[])?;
    let output = at_work.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writers.stop()?;
    job.checkpoint()?.context("a checkpoint")?;
    followed(&ended(&job, run, database)?, 1)
}

#[test]
fn case_46_what_the_swap_does_not_tell_is_copied_again() -> Result<()> {
    let database = "pt_again";
    let (job, mut run) = start(database, "t", "evolve", "trust")?;
    let writers = Writers::start(server(), database);
    // each row has the time at which the tool copied it
    alter(
        database,
        "CHANGE b b INT NOT NULL DEFAULT 0, ADD COLUMN at TIMESTAMP DEFAULT CURRENT_TIMESTAMP",
        &[],
    )?;
    run.says("resnapshot_table")?;
    writers.stop()?;
    run.until("the tables are equal", |_| Ok(job.compare(server(), (database, "t"), "t").is_ok()))?;
    let said = ended(&job, run, database)?;
    ensure!(said.done("snapshot").is_some_and(|rows| rows > 3000), "{}", said.text());

    // by the structures alone one column goes and another comes
    let (job, mut run) = start("pt_renamed", "t", "evolve", "trust")?;
    alter("pt_renamed", "CHANGE a name VARCHAR(20)", &["--no-check-alter"])?;
    run.says("resnapshot_table")?;
    run.until("the tables are equal", |_| Ok(job.compare(server(), ("pt_renamed", "t"), "t").is_ok()))?;
    let said = ended(&job, run, "pt_renamed")?;
    ensure!(said.done("snapshot") == Some(3600), "{}", said.text());
    Ok(())
}

#[test]
fn case_46_a_tool_that_is_not_trusted_has_the_table_copied_again() -> Result<()> {
    let database = "pt_copy";
    let (job, mut run) = start(database, "t", "evolve", "copy")?;
    let writers = Writers::start(server(), database);
    alter(database, "ADD COLUMN c INT NOT NULL DEFAULT 5", &[])?;
    alter(database, "ADD COLUMN d INT NOT NULL DEFAULT 6", &[])?;
    writers.stop()?;
    run.until("the tables are equal", |_| Ok(job.compare(server(), (database, "t"), "t").is_ok()))?;
    let said = ended(&job, run, database)?;
    ensure!(said.done("snapshot").is_some_and(|rows| rows > 3000), "{}", said.text());
    Ok(())
}

/// gh-ost follows the log itself; here each write to the table is made to its copy too.
#[test]
fn case_46_the_statements_of_gh_ost() -> Result<()> {
    let database = "ghost";
    let (job, mut run) = start(database, "*", "evolve", "trust")?;
    for (column, value) in [("c", 5), ("d", 6)] {
        server().sql(&format!(
            "USE {database};
             drop /* gh-ost */ table if exists `{database}`.`_t_gho`;
             create /* gh-ost */ table `{database}`.`_t_ghc` (
               id bigint unsigned auto_increment,
               last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
               hint varchar(64) charset ascii not null,
               value varchar(4096) charset ascii not null,
               primary key(id),
               unique key hint_uidx(hint)
             ) auto_increment=256 comment='{database}';
             create /* gh-ost */ table `{database}`.`_t_gho` like `{database}`.`t`;
             alter /* gh-ost */ table `{database}`.`_t_gho` add column {column} int not null default {value};
             insert into _t_ghc (hint, value) values ('copy', 'begun');
             insert into _t_gho (id, a, b) select id, a, b from t;
             update t set b = b + 1 where id < 100; update _t_gho set b = b + 1 where id < 100;
             create /* gh-ost */ table `{database}`.`_t_del` (id int auto_increment primary key)
               engine=InnoDB comment='ghost-cut-over-sentry';
             drop /* gh-ost */ table if exists `{database}`.`_t_del`;
             rename /* gh-ost */ table `{database}`.`t` to `{database}`.`_t_del`, `{database}`.`_t_gho` to `{database}`.`t`;
             drop /* gh-ost */ table if exists `{database}`.`_t_ghc`;
             drop /* gh-ost */ table if exists `{database}`.`_t_del`;
             update t set a = 'behind' where id = 7"
        ))?;
        run.says(&format!("add_column {column}"))?;
    }
    followed(&ended(&job, run, database)?, 2)
}

/// The copy was made before anybody looked: its structure is not known, so its swap is a table that comes.
#[test]
fn case_46_a_start_while_the_real_tool_is_at_work() -> Result<()> {
    let database = "pt_late";
    let (job, run) = start(database, "*", "evolve", "trust")?;
    run.stop()?;
    std::fs::remove_dir_all(job.path("state"))?;
    std::fs::remove_file(job.path("target.db"))?;
    let writers = Writers::start(server(), database);
    // time enough for a whole start
    let slow = ["--chunk-size", "50", "--chunk-time", "0", "--sleep", "0.2"];
    let at_work = tool(database, "ADD COLUMN c INT NOT NULL DEFAULT 5", &slow)?.spawn()?;
    support::until("the tool's table is there", || {
        Ok(!server().sql(&format!("SHOW TABLES IN {database} LIKE '\\_t\\_new'"))?.is_empty())
    })?;
    job.catch_up(&[])?;
    ensure!(tables(&job)? == "t", "tables at the target: {}", tables(&job)?);
    let mut run = job.start(&[])?;
    run.says("going on from tick")?;
    let is_at_work = !server().sql(&format!("SHOW TABLES IN {database} LIKE '\\_t\\_new'"))?.is_empty();
    let output = at_work.wait_with_output()?;
    ensure!(
        is_at_work,
        "it was over before: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writers.stop()?;
    run.until("the tables are equal", |_| Ok(job.compare(server(), (database, "t"), "t").is_ok()))?;
    let said = ended(&job, run, database)?;
    ensure!(said.done("snapshot").is_some_and(|rows| rows > 3000), "{}", said.text());
    Ok(())
}

/// The statements of a tool that makes its copy of t, with a column more.
fn copy_of_t(database: &str, name: &str, column: &str) -> String {
    format!(
        "USE {database}; CREATE TABLE {name} LIKE t; ALTER TABLE {name} ADD COLUMN {column} INT NOT NULL DEFAULT 5;
         INSERT INTO {name} (id, a, b) SELECT id, a, b FROM t; "
    )
}

/// `--alter-foreign-keys-method=drop_swap`, gh-ost's `--cut-over=two-step`, and the way back to the former table.
#[test]
fn case_46_a_table_that_goes_before_another_gets_its_name_comes_again() -> Result<()> {
    let database = "pt_drop";
    let (job, mut run) = start(database, "*", "evolve", "trust")?;
    let are_equal = |run: &mut Run, what: &str| {
        run.until(what, |_| Ok(job.compare(server(), (database, "t"), "t").is_ok()))
    };
    // nothing is written behind the swap: nothing but its statements tells of the table
    server()
        .sql(&(copy_of_t(database, "_t_new", "c") + "DROP TABLE IF EXISTS t; RENAME TABLE _t_new TO t"))?;
    are_equal(&mut run, "drop_swap")?;
    server().sql(&format!("UPDATE {database}.t SET b = b + 1, c = 7 WHERE id < 100"))?;
    are_equal(&mut run, "rows behind drop_swap")?;
    server().sql(
        &(copy_of_t(database, "_t_gho", "d")
            + "RENAME TABLE t TO _t_del; RENAME TABLE _t_gho TO t; DROP TABLE _t_del; UPDATE t SET d = 8 WHERE id = 9"),
    )?;
    are_equal(&mut run, "two steps")?;
    server().sql(&(copy_of_t(database, "_t_new", "e") + "RENAME TABLE t TO _t_old, _t_new TO t"))?;
    run.says("add_column e")?;
    server().sql(&format!("USE {database}; DROP TABLE t; RENAME TABLE _t_old TO t"))?;
    are_equal(&mut run, "the way back")?;

    // the run ends, and something is written to what an earlier one has left, while there is no t
    server().sql(
        &(copy_of_t(database, "_t_new", "f")
            + "CREATE TABLE _t_old LIKE t; CREATE TABLE _t_ghc LIKE t; DROP TABLE t"),
    )?;
    run.until("the table is gone", |_| Ok(tables(&job)?.is_empty()))?;
    run.stop()?;
    let mut run = job.start(&[])?;
    run.says("going on from tick")?;
    server().sql(&format!(
        "USE {database}; INSERT INTO _t_old (a, b) VALUES ('x', 1); ALTER TABLE _t_new ADD COLUMN g INT;
         INSERT INTO _t_ghc SELECT * FROM _t_old; RENAME TABLE _t_new TO t; UPDATE t SET g = 9 WHERE id = 10;
         DROP TABLE _t_old, _t_ghc"
    ))?;
    are_equal(&mut run, "drop_swap with a stop in it")?;
    ended(&job, run, database)?;
    Ok(())
}

/// What was left out while the tools were trusted is a table like any other when they are not, and the other way round.
#[test]
fn case_46_the_option_changes_while_a_tool_is_at_work() -> Result<()> {
    let database = "pt_turn";
    let (job, run) = start(database, "*", "evolve", "trust")?;
    server().sql(
        &(copy_of_t(database, "_t_new", "c")
            + "CREATE TABLE _t_old LIKE t; CREATE TABLE _t_ghc LIKE t; INSERT INTO _t_old (a, b) VALUES ('x', 1)"),
    )?;
    support::until("the checkpoint knows the tool's tables", || {
        Ok(job.checkpoint()?.is_some_and(|c| c["sources"]["src"]["shadows"].to_string().contains("_t_ghc")))
    })?;
    run.stop()?;
    let turn = |word: &str| {
        job.write(
            &format!("[\"{database}.*\"]"),
            "on_schema_change = evolve",
            &format!("online_ddl = {word}"),
            COPY,
        );
    };
    turn("copy");
    server().sql(&format!(
        "USE {database}; INSERT INTO _t_old (a, b) VALUES ('y', 2); UPDATE _t_new SET c = 6 WHERE id < 50;
         INSERT INTO _t_ghc (a, b) VALUES ('y', 2); DROP TABLE _t_ghc; UPDATE t SET b = 3 WHERE id = 7"
    ))?;
    job.catch_up(&[])?;
    for table in ["t", "_t_new", "_t_old"] {
        job.compare(server(), (database, table), table).context(table)?;
    }
    ensure!(!tables(&job)?.contains("_t_ghc"), "tables at the target: {}", tables(&job)?);
    job.verify()?;

    turn("trust");
    server().sql(&format!(
        "USE {database}; INSERT INTO _t_old (a, b) VALUES ('z', 3); DROP TABLE _t_old; UPDATE _t_new SET b = 3 WHERE id = 7;
         RENAME TABLE t TO _t_old, _t_new TO t; UPDATE t SET c = 8 WHERE id = 8"
    ))?;
    let said = job.catch_up(&[])?;
    // its beginning was seen by a run to which it was a table like any other
    ensure!(said.done("snapshot").is_some_and(|rows| rows > 3000), "{}", said.text());
    job.compare(server(), (database, "t"), "t")?;
    // nobody told the target that they are gone
    ensure!(job.number("SELECT COUNT(*) FROM _t_new")? > 3000, "{}", said.text());
    ensure!(job.number("SELECT COUNT(*) FROM _t_old")? == 2, "{}", said.text());
    job.verify()?;
    Ok(())
}

/// MariaDB logs that a temporary table gets another name, which nobody else has; it may be a tool's.
#[test]
fn a_temporary_table_that_gets_another_name_is_nobodys() -> Result<()> {
    let database = "pt_temporary";
    let (job, run) = start(database, "*", "evolve", "trust")?;
    let rename = if server().kind().is_mariadb() { "RENAME TABLE _t_new TO x" } else { "DO 1" };
    server().sql(&format!(
        "USE {database}; CREATE TEMPORARY TABLE a (id INT); ALTER TABLE a RENAME TO z; CREATE TEMPORARY TABLE _t_new (id INT);
         {rename}; INSERT INTO t (a, b) VALUES ('behind', 1)"
    ))?;
    followed(&ended(&job, run, database)?, 0)
}
