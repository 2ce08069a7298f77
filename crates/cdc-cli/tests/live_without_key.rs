//! Tables without a key, from a server to targets: rows are kept as many times as the source holds them
//! (acceptance cases 7 and 15).

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use support::{Job, Run, Said, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// A database with a table `log` that has no key, holding equal rows.
fn log(database: &str) -> Result<&'static Server> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE {database} CHARACTER SET utf8mb4; USE {database};
         CREATE TABLE log (line VARCHAR(50), n INT, x DOUBLE, at TIMESTAMP(3) NULL);
         INSERT INTO log VALUES ('a', 1, 0, '2026-01-01'), ('a', 1, 0, '2026-01-01'), ('A', 1, -0e0, NULL),
           (NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL), ('b', 2, 1.5, '2026-01-02 03:04:05.678')"
    ))?;
    Ok(server)
}

fn equal(server: &Server, job: &Job, database: &str, rows: usize) -> Result<()> {
    let found = job.compare(server, (database, "log"), "log")?;
    ensure!(found == rows, "{found} rows instead of {rows}");
    ensure!(job.verify()? == rows as u64);
    Ok(())
}

/// How often a text is printed.
fn times(said: &Said, text: &str) -> usize {
    said.text().matches(text).count()
}

const WARNING: &str = "has no key: it is copied as a multiset";

#[test]
fn case_15_equal_rows_are_kept_as_many_times_and_deleting_one_of_two_leaves_one() -> Result<()> {
    for workers in ["1", "2", "3"] {
        let database = format!("c15w{workers}");
        let server = log(&database)?;
        let job = Job::new(server, &database, COPY);
        let said = job.catch_up(&["--workers", workers])?;
        ensure!(times(&said, WARNING) == 1 && times(&said, "key (..)") == 1, "{}", said.text());
        equal(server, &job, &database, 6)?;
        let sql = |sql: &str| server.sql(&format!("USE {database}; SET NAMES utf8mb4; {sql}"));
        sql(
            "DELETE FROM log WHERE line COLLATE utf8mb4_bin = 'a' LIMIT 1; DELETE FROM log WHERE line IS NULL LIMIT 1",
        )?;
        job.catch_up(&["--workers", workers])?;
        equal(server, &job, &database, 4)?;
        sql("UPDATE log SET n = 7; INSERT INTO log SELECT * FROM log; INSERT INTO log SELECT * FROM log;
             BEGIN; UPDATE log SET line = 'c' WHERE line = 'b' LIMIT 3; INSERT INTO log (n) VALUES (8), (8);
             DELETE FROM log WHERE n = 8 LIMIT 1; UPDATE log SET n = 9 WHERE n = 8; COMMIT")?;
        job.catch_up(&["--workers", workers])?;
        equal(server, &job, &database, 17)?;
        sql("DELETE FROM log WHERE n = 7")?;
        job.catch_up(&["--workers", workers])?;
        equal(server, &job, &database, 1)?;
        let again = job.catch_up(&["--workers", workers])?;
        ensure!(again.err.contains("nothing new"), "{}", again.text());
    }
    Ok(())
}

#[test]
fn case_07_the_warning_names_key_and_a_stated_key_needs_none() -> Result<()> {
    let server = log("c07k")?;
    server.sql(
        "DELETE FROM c07k.log LIMIT 100; INSERT INTO c07k.log (line, n) VALUES ('a', 1), ('b', 2), ('c', 3)",
    )?;
    let live = |job: &Job| Run::start(&mut job.command("check", &["--live"]))?.wait();
    let job = Job::new(server, "c07k", &format!("{COPY}\nsrc.log => dw.second"));
    let said = live(&job)?;
    ensure!(said.code == Some(0) && times(&said, WARNING) == 1, "{}", said.text());
    ensure!(
        said.text().contains("warning[E0214]") && said.text().contains("=> target key (..)"),
        "{}",
        said.text()
    );

    let keyed = "sink dw = sqlite { path = \"target.db\" }\nsrc.log => dw.log key (n)";
    let job = Job::new(server, "c07k", keyed);
    let said = live(&job)?;
    ensure!(said.code == Some(0) && times(&said, "warning") == 0, "{}", said.text());
    for workers in ["1", "3"] {
        let said = job.catch_up(&["--workers", workers])?;
        ensure!(times(&said, "warning") == 0, "{}", said.text());
        equal(server, &job, "c07k", 3)?;
        server.sql(
            "UPDATE c07k.log SET line = CONCAT(line, 'x') WHERE n < 3; DELETE FROM c07k.log WHERE n = 3;
                    INSERT INTO c07k.log (line, n) VALUES ('d', 3)",
        )?;
    }
    job.catch_up(&["--workers", "2"])?;
    equal(server, &job, "c07k", 3)?;
    let declared = job.rows("SELECT sql FROM sqlite_schema WHERE name = 'log'")?;
    ensure!(declared[0].contains("\"n\" INTEGER PRIMARY KEY"), "{declared:?}");

    let job = Job::new(server, "c07k", &keyed.replace("key (n)", "key (m)"));
    let said = live(&job)?;
    ensure!(
        said.code != Some(0) && said.text().contains("the columns are line, n, x, at"),
        "{}",
        said.text()
    );
    let said = job.fails(301)?;
    ensure!(said.err.contains("the columns are line, n, x, at"), "{}", said.text());
    Ok(())
}

#[test]
fn case_07_a_table_without_a_key_beside_others_and_through_operators() -> Result<()> {
    let server = log("c07o")?;
    server.sql(
        "CREATE TABLE c07o.keyed (id INT PRIMARY KEY, v INT); INSERT INTO c07o.keyed VALUES (1, 1), (2, 2)",
    )?;
    let job = Job::new(
        server,
        "c07o",
        "sink dw = sqlite { path = \"target.db\" }\nsink feed = jsonl { path = \"feed.jsonl\", format = \"plain\" }\n\
         src.keyed => dw.keyed\n\
         src.log |> where n = 1 |> select upper(line) as line, meta.table as t => dw.some\n\
         src.log => feed.log",
    );
    job.catch_up(&["--workers", "2"])?;
    ensure!(job.rows("SELECT line, t, COUNT(*) FROM some GROUP BY 1, 2")? == ["A|log|3"]);
    server.sql("UPDATE c07o.log SET n = 1 WHERE n = 2; UPDATE c07o.log SET n = 2 WHERE x = 0 LIMIT 2; UPDATE c07o.keyed SET v = 3")?;
    job.catch_up(&["--workers", "2"])?;
    ensure!(
        job.rows("SELECT line, t, COUNT(*) FROM some GROUP BY 1, 2 ORDER BY 1")? == ["A|log|1", "B|log|1"]
    );
    job.verify()?;
    let feed = std::fs::read_to_string(job.path("feed.jsonl"))?;
    let lines: Vec<serde_json::Value> = feed.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(lines[0]["schema_change"] == "resnapshot_table", "{}", lines[0]);
    let count = |op: &str| lines.iter().filter(|l| l["op"] == op && l["key"].is_null()).count();
    ensure!((count("insert"), count("delete")) == (9, 3), "{feed}");
    // what a line speaks of is another in each change: not to be told again when the row goes
    let job = Job::new(
        server,
        "c07o",
        "sink dw = sqlite { path = \"t.db\" }\nsrc.log |> extend meta.ts as ts => dw.log",
    );
    job.fails(214)?;
    Ok(())
}

#[test]
fn case_15_copied_while_writers_write_and_killed_at_any_time() -> Result<()> {
    let server = log("c15k")?;
    server.sql(&format!(
        "USE c15k; {};
         INSERT INTO log WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000)
           SELECT CONCAT('line ', n % 5000), n % 7, n % 3, NULL FROM s",
        server.kind().recursion(20000)
    ))?;
    let job = Job::new(server, "c15k", COPY);
    let over = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<u32> {
            let mut written = 0;
            while !over.load(Ordering::SeqCst) {
                let n = written % 50;
                server.sql(&format!(
                    "USE c15k; INSERT INTO log (line, n) VALUES ('w', {n}), ('w', {n});
                     UPDATE log SET n = n + 1 WHERE line = 'w' LIMIT 2; DELETE FROM log WHERE line = 'line {n}' LIMIT 1"
                ))?;
                written += 1;
            }
            Ok(written)
        });
        let killed = (|| -> Result<()> {
            for (at, workers) in [(150, "1"), (300, "2"), (600, "3"), (900, "1"), (1200, "2"), (80, "3")] {
                let run = job.start(&["--workers", workers])?;
                thread::sleep(Duration::from_millis(at));
                run.kill()?;
            }
            Ok(())
        })();
        over.store(true, Ordering::SeqCst);
        let written = writer.join().map_err(|_| anyhow::anyhow!("the writer failed"))??;
        println!("{written} rounds of the writer");
        killed
    })?;
    job.catch_up(&["--workers", "2"])?;
    let rows = job.compare(server, ("c15k", "log"), "log")?;
    ensure!(job.verify()? == rows as u64);
    Ok(())
}

#[test]
fn schema_changes_of_a_table_without_a_key() -> Result<()> {
    for (database, mode) in [("nokey_ddl", "evolve"), ("nokey_len", "lenient")] {
        let server = log(database)?;
        let job = Job::new(
            server,
            database,
            &format!(
                "sink dw = sqlite {{ path = \"target.db\" }}\nsrc.* => dw.* with {{ on_schema_change = {mode} }}"
            ),
        );
        job.catch_up(&[])?;
        let sql = |sql: &str| server.sql(&format!("USE {database}; {sql}"));
        sql("ALTER TABLE log ADD COLUMN more INT DEFAULT 5; INSERT INTO log (line) VALUES ('new'), ('new');
             UPDATE log SET more = 6 WHERE n = 1 LIMIT 1; ALTER TABLE log RENAME COLUMN n TO number;
             DELETE FROM log WHERE line = 'new' LIMIT 1; ALTER TABLE log MODIFY number BIGINT;
             UPDATE log SET number = 10000000000 WHERE number = 2")?;
        job.catch_up(&["--workers", "2"])?;
        equal(server, &job, database, 7)?;
        sql("ALTER TABLE log DROP COLUMN x; DELETE FROM log WHERE line IS NULL LIMIT 1")?;
        job.catch_up(&["--workers", "2"])?;
        equal(server, &job, database, 6)?;
        if mode == "evolve" {
            sql("TRUNCATE TABLE log; INSERT INTO log (line) VALUES ('last'), ('last')")?;
            job.catch_up(&[])?;
            equal(server, &job, database, 2)?;
            sql("DROP TABLE log; CREATE TABLE keep (id INT PRIMARY KEY);
                 CREATE TABLE late (v INT); INSERT INTO late VALUES (1), (1), (2); DELETE FROM late WHERE v = 1 LIMIT 1")?;
            let said = job.catch_up(&[])?;
            ensure!(times(&said, ".late\" has no key: it is copied as a multiset") == 1, "{}", said.text());
            ensure!(job.rows("SELECT v FROM late ORDER BY 1")? == ["1", "2"]);
            ensure!(job.rows("SELECT name FROM sqlite_schema WHERE name = 'log'")?.is_empty());
        }
    }
    Ok(())
}

#[test]
fn verify_counts_rows_and_a_row_that_is_not_there_stops_the_run() -> Result<()> {
    let server = log("nokey_ver")?;
    let job = Job::new(server, "nokey_ver", COPY);
    job.catch_up(&[])?;
    job.target()?.execute_batch(
        "DELETE FROM log WHERE rowid IN (SELECT rowid FROM log WHERE line = 'a' OR line IS NULL);
         INSERT INTO log (line, n) VALUES ('only here', 1), ('only here', 1), ('only here', 1)",
    )?;
    let said = Run::start(&mut job.command("verify", &["--wait", "1"]))?.wait()?;
    ensure!(said.code == Some(1), "{}", said.text());
    for part in [
        "dw.log: 6 rows at the source, 5 at the target, 7 differences, 4 missing, 3 extra",
        "missing  2 times: line = \"a\", n = 1",
        "missing  2 times: line = NULL",
        "extra    3 times: line = \"only here\", n = 1",
    ] {
        ensure!(said.out.contains(part), "no {part:?} in\n{}", said.text());
    }
    server.sql("DELETE FROM nokey_ver.log WHERE line = 'b'")?;
    job.catch_up(&[])?;
    server.sql("DELETE FROM nokey_ver.log WHERE line IS NULL LIMIT 1")?;
    let said = job.fails(2010)?;
    ensure!(said.err.contains("cdc verify"), "{}", said.text());
    Ok(())
}

/// Two tables that a flow's key tells apart: the copy of the one must not delete rows of the other.
#[test]
fn tables_without_a_key_in_one_target_are_told_apart_or_refused() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE nokey_sh; USE nokey_sh; CREATE TABLE s1 (id INT, v INT); CREATE TABLE s2 LIKE s1;
         INSERT INTO s1 VALUES (1, 1), (2, 1); INSERT INTO s2 VALUES (1, 2), (3, 2), (4, 2)",
    )?;
    let flow = |rest: &str| format!("sink dw = sqlite {{ path = \"target.db\" }}\nsrc./s[0-9]/ {rest}");
    let job = Job::new(server, "nokey_sh", &flow("|> extend meta.table as shard => dw.all key (shard, id)"));
    for workers in ["1", "3"] {
        job.catch_up(&["--workers", workers])?;
        let rows = server.sql(
            "SELECT CONCAT_WS('|', 's1', id, v) FROM nokey_sh.s1 UNION ALL \
             SELECT CONCAT_WS('|', 's2', id, v) FROM nokey_sh.s2 ORDER BY 1",
        )?;
        let found = job.rows("SELECT shard, id, v FROM \"all\" ORDER BY 1, 2, 3")?;
        ensure!(found == rows.lines().collect::<Vec<_>>(), "{found:?}, not\n{rows}");
        job.verify()?;
        server.sql(
            "UPDATE nokey_sh.s1 SET v = v + 10; DELETE FROM nokey_sh.s2 WHERE id = 3; INSERT INTO nokey_sh.s2 VALUES (2, 9)",
        )?;
    }
    let job = Job::new(server, "nokey_sh", &flow("=> dw.all key (id, v) with { key_conflict = last }"));
    let said = job.fails(211)?;
    ensure!(said.err.contains("cannot be told") && said.err.contains("meta.table"), "{}", said.text());
    let job = Job::new(server, "nokey_sh", &flow("=> dw.all"));
    job.fails(211)?;
    Ok(())
}
