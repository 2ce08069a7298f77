//! What an attack on the program found, each as its smallest case.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use support::{Job, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

fn many_rows(database: &str, table: &str, rows: u64) -> Result<()> {
    server().sql(&format!(
        "{}; USE {database};
         INSERT INTO {table} WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
           SELECT n, n, REPEAT('x', 200) FROM s",
        server().kind().recursion(rows)
    ))?;
    Ok(())
}

/// The first transaction behind a restart held all that may be under way, and was never written: no frontier had
/// told the committer yet that its tick is the lowest one open.
#[test]
fn a_transaction_larger_than_what_may_be_under_way_right_behind_a_restart() -> Result<()> {
    for (n, (workers, flow)) in
        [("1", "src.* => dw.*"), ("2", "src.* => dw.*"), ("2", "src.t => dw.t key (v)")]
            .into_iter()
            .enumerate()
    {
        let database = format!("attack_large_{n}");
        server().sql(&format!(
            "CREATE DATABASE {database}; CREATE TABLE {database}.t (id BIGINT PRIMARY KEY, v BIGINT NOT NULL UNIQUE, w VARCHAR(250) NOT NULL)"
        ))?;
        let job =
            Job::new(server(), &database, &format!("sink dw = sqlite {{ path = \"target.db\" }}\n{flow}"));
        job.catch_up(&["--workers", workers])?;
        many_rows(&database, "t", 150_000)?;
        job.catch_up(&["--workers", workers])?;
        ensure!(job.verify()? == 150_000);
    }
    Ok(())
}

/// Every chunk left two prepared statements behind, up to the server's limit for all its clients.
#[test]
fn chunks_leave_no_prepared_statements_behind() -> Result<()> {
    server().sql(
        "CREATE DATABASE attack_statements; CREATE TABLE attack_statements.t (id VARCHAR(20), v BIGINT, w VARCHAR(250), PRIMARY KEY (id, v))",
    )?;
    many_rows("attack_statements", "t", 20_000)?;
    let count = || -> Result<u64> {
        Ok(server()
            .sql("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")?
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .parse()?)
    };
    let job = Job::with(server(), "[\"attack_statements.*\"]", "", "chunk_rows = 20", COPY);
    let mut run = job.start(&[])?;
    let mut most = 0;
    run.until("the copy is whole", |run| {
        most = most.max(count()?);
        Ok(run.err().contains("snapshot complete"))
    })?;
    run.stop()?;
    // other tests use the server meanwhile; a thousand chunks left two thousand
    ensure!(most < 200, "{most} prepared statements");
    ensure!(job.verify()? == 20_000);
    Ok(())
}

/// The server tells a promoted unique key as the primary key in its table maps.
#[test]
fn a_table_whose_key_is_a_unique_index_is_followed() -> Result<()> {
    server().sql(
        "CREATE DATABASE attack_unique; USE attack_unique; CREATE TABLE t (n INT, u INT NOT NULL UNIQUE);
         INSERT INTO t VALUES (1, 1), (2, 2)",
    )?;
    let job = Job::new(server(), "attack_unique", COPY);
    job.catch_up(&[])?;
    server().sql("USE attack_unique; INSERT INTO t VALUES (3, 3); UPDATE t SET n = 9 WHERE u = 1; DELETE FROM t WHERE u = 2")?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 2);
    Ok(())
}

/// XA in two phases held no row of a captured table, and was refused all the same.
#[test]
fn xa_transactions_of_other_databases_are_passed_over() -> Result<()> {
    server().sql(
        "CREATE DATABASE attack_xa; CREATE DATABASE attack_other; CREATE TABLE attack_xa.t (id INT PRIMARY KEY);
         CREATE TABLE attack_other.t (id INT PRIMARY KEY); INSERT INTO attack_xa.t VALUES (1)",
    )?;
    let job = Job::new(server(), "attack_xa", COPY);
    job.catch_up(&[])?;
    let branch = |name: &str, id: u32, database: &str| {
        format!(
            "XA START '{name}'; INSERT INTO {database}.t VALUES ({id}); XA END '{name}'; XA PREPARE '{name}';"
        )
    };
    server().sql(&format!(
        "{} XA ROLLBACK 'a'; {} XA COMMIT 'b'; INSERT INTO attack_xa.t VALUES (2)",
        branch("a", 1, "attack_other"),
        branch("b", 2, "attack_other")
    ))?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 2);
    // and one of ours
    server().sql(&format!("{} XA COMMIT 'c'", branch("c", 3, "attack_xa")))?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 3);
    Ok(())
}

/// A limit of rows that the server gives every session cuts no list of tables and no copy.
#[test]
fn a_limit_of_rows_cuts_nothing() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    let rows: Vec<String> = (0..40).map(|n| format!("({n})")).collect();
    let tables: String = (0..8)
        .map(|n| format!("CREATE TABLE t{n} (v INT); INSERT INTO t{n} VALUES {};", rows.join(", ")))
        .collect();
    server.sql(&format!("CREATE DATABASE few; USE few; {tables} SET GLOBAL sql_select_limit = 3"))?;
    let job = Job::new(&server, "few", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    job.catch_up(&[])?;
    server.sql("DELETE FROM few.t7 WHERE v >= 10")?;
    job.catch_up(&[])?;
    for n in 0..8 {
        let found = job.number(&format!("SELECT COUNT(*) FROM t{n}"))?;
        ensure!(found == if n == 7 { 10 } else { 40 }, "t{n}: {found} rows");
    }
    ensure!(job.verify()? == 290);
    Ok(())
}
