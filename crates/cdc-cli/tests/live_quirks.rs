//! What only MariaDB does: columns that nothing shows, rows that are taken back, numbers that begin anew, tables that are
//! made in the place of others.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use support::{Job, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

fn job(server: &Server, database: &str) -> Job {
    Job::with(server, &format!("[\"{database}.*\"]"), "on_schema_change = evolve", "", COPY)
}

fn follows(database: &str, before: &str, after: &[&str], rows: u64) -> Result<()> {
    let server = server();
    if !server.kind().is_mariadb() {
        return Ok(());
    }
    server.sql(&format!("CREATE DATABASE {database}; USE {database}; {before}"))?;
    let job = job(server, database);
    job.catch_up(&[])?;
    for sql in after {
        server.sql(&format!("USE {database}; {sql}"))?;
        job.catch_up(&[])?;
    }
    let verified = job.verify()?;
    ensure!(verified == rows, "{verified} rows instead of {rows}");
    Ok(())
}

#[test]
fn hashes_behind_unique_keys_over_long_texts_are_not_shown() -> Result<()> {
    follows(
        "q_hash",
        "CREATE TABLE t (id INT PRIMARY KEY, b TEXT UNIQUE, c INT, d TEXT, UNIQUE (d, b)); INSERT INTO t VALUES (1, 'a', 3, 'q');
         CREATE TABLE v (id INT PRIMARY KEY, b TEXT UNIQUE) WITH SYSTEM VERSIONING; INSERT INTO v VALUES (1, 'a');
         CREATE TABLE k (b TEXT NOT NULL UNIQUE); INSERT INTO k VALUES ('x');
         CREATE TABLE g (id INT PRIMARY KEY, b TEXT UNIQUE, i INT INVISIBLE DEFAULT 4); INSERT INTO g (id, b) VALUES (1, 'r');
         CREATE TABLE u (a VARCHAR(20), UNIQUE (a) USING HASH); INSERT INTO u VALUES ('z')",
        &["UPDATE t SET b = 'yy'; UPDATE v SET b = 'k'; ALTER TABLE t ADD e INT; INSERT INTO t VALUES (2, 'b', 4, 'z', 9);
           UPDATE k SET b = 'y'; UPDATE g SET b = 's', i = 5; DELETE FROM v WHERE id = 1; INSERT INTO v VALUES (3, 'u');
           INSERT INTO u VALUES ('zz'); UPDATE u SET a = 'q' WHERE a = 'z'; DELETE FROM t WHERE id = 1;
           INSERT INTO t VALUES (5, 'p', 1, NULL, NULL); CREATE TABLE l (id INT PRIMARY KEY, x BLOB, UNIQUE (x));
           INSERT INTO l VALUES (1, 'r'); UPDATE l SET x = 'p'; REPLACE INTO t VALUES (5, 'o', 2, 'n', 3)"],
        8,
    )
}

/// The log holds what was rolled back, with its rows, where a temporary table was made in the transaction.
#[test]
fn rows_that_are_taken_back_are_not_given_out() -> Result<()> {
    follows(
        "q_back",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT); CREATE TABLE my (id INT PRIMARY KEY) ENGINE = MyISAM",
        &["BEGIN; INSERT INTO b VALUES (70, 1); CREATE TEMPORARY TABLE z (id INT); ROLLBACK; INSERT INTO b VALUES (1, 1);
           BEGIN; INSERT INTO b VALUES (71, 1); SAVEPOINT s; INSERT INTO b VALUES (72, 1); DROP TEMPORARY TABLE z;
           ROLLBACK TO s; COMMIT;
           BEGIN; INSERT INTO b VALUES (73, 1); INSERT INTO my VALUES (1); CREATE TEMPORARY TABLE y (id INT);
           INSERT INTO my VALUES (2); ROLLBACK;
           BEGIN; INSERT INTO b VALUES (9, 9); INSERT INTO my VALUES (3); ROLLBACK;
           BEGIN; INSERT INTO b VALUES (10, 9); INSERT INTO my VALUES (4); COMMIT;
           BEGIN; INSERT INTO b VALUES (11, 9); SAVEPOINT `A b`; INSERT INTO b VALUES (12, 9); DROP TEMPORARY TABLE y;
           SAVEPOINT c; INSERT INTO b VALUES (13, 1); ROLLBACK TO `a B`; INSERT INTO b VALUES (14, 1); COMMIT"],
        9,
    )
}

#[test]
fn a_table_made_in_the_place_of_another_has_its_rows_alone() -> Result<()> {
    follows(
        "q_place",
        "CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1), (2);
         CREATE TABLE b (id INT PRIMARY KEY, x INT); INSERT INTO b VALUES (1, 1);
         CREATE TABLE k (a INT); INSERT INTO k VALUES (1), (2);
         CREATE TABLE base (id INT PRIMARY KEY, z TEXT); INSERT INTO base VALUES (1, 'q')",
        &[
            "CREATE OR REPLACE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (9);
             CREATE OR REPLACE TABLE b AS SELECT 7 AS id, 8 AS v; CREATE OR REPLACE TABLE k (a INT); INSERT INTO k VALUES (5), (5)",
            "CREATE OR REPLACE TABLE b LIKE base; INSERT INTO b SELECT * FROM base;
             CREATE OR REPLACE TABLE k AS SELECT 3 AS a, 'x' AS b",
        ],
        4,
    )
}

/// RESET MASTER gives the numbers of transactions out again, for others.
#[test]
fn a_log_that_was_reset_is_another_one() -> Result<()> {
    if !server().kind().is_mariadb() {
        return Ok(());
    }
    let server = Server::start(ServerOptions::of(server().kind()))?;
    server.sql("CREATE DATABASE q_reset; CREATE TABLE q_reset.t (id INT PRIMARY KEY)")?;
    let job = job(&server, "q_reset");
    server.sql("INSERT INTO q_reset.t VALUES (1); INSERT INTO q_reset.t VALUES (2)")?;
    job.catch_up(&[])?;
    server.sql("FLUSH BINARY LOGS; INSERT INTO q_reset.t VALUES (3)")?;
    job.catch_up(&[])?;
    server.sql("RESET MASTER; INSERT INTO q_reset.t VALUES (4)")?;
    job.fails(1009)?;
    // now it has the number that we stand at, and a file of that name
    server.sql("FLUSH BINARY LOGS")?;
    for id in 5..20 {
        server.sql(&format!("INSERT INTO q_reset.t VALUES ({id})"))?;
    }
    job.fails(1009)?;
    ensure!(job.number("SELECT COUNT(*) FROM t")? == 3);
    Ok(())
}
