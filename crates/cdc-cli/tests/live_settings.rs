//! Settings of servers and names of tables that would change what our statements mean, and keys that are no dates.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use cdc_testkit::servers::{Server, ServerOptions};
use support::{Job, server};

/// The bounds of chunks are literals of the key: where each is a day that no calendar has, every chunk is read, and none twice.
#[test]
fn keys_that_are_no_dates_are_copied_in_many_chunks() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE nodates; USE nodates; SET sql_mode = 'ALLOW_INVALID_DATES';
         CREATE TABLE days (d DATE PRIMARY KEY, n INT);
         CREATE TABLE moments (at DATETIME(6), k VARCHAR(9), n INT, PRIMARY KEY (at, k));
         CREATE TABLE numbers (n INT PRIMARY KEY);
         INSERT INTO numbers WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 899) SELECT n FROM s;
         INSERT INTO days VALUES ('0000-00-00', -1), ('2024-00-00', -2), ('2024-05-00', -3);
         INSERT INTO days SELECT CONCAT(1000 + n, ELT(1 + n MOD 4, '-02-30', '-02-31', '-04-31', '-11-31')), n FROM numbers;
         INSERT INTO moments SELECT CONCAT(d, ' 23:59:59.999999'), CONCAT('k', n), n FROM days;
         INSERT INTO moments SELECT CONCAT(d, ' 00:00:00'), CONCAT('k', n), n FROM days",
    )?;
    let rows: u64 = server
        .sql("SELECT (SELECT COUNT(*) FROM nodates.days) + (SELECT COUNT(*) FROM nodates.moments)")?
        .trim()
        .parse()?;
    ensure!(rows > 1000, "{rows} rows");
    let body = "sink dw = sqlite { path = \"target.db\" }\nsrc.days => dw.days\nsrc.moments => dw.moments";
    let job = Job::with(server, "[\"nodates.days\", \"nodates.moments\"]", "", "chunk_rows = 50", body);
    let mut run = job.start(&[])?;
    // while it is copied
    server.sql("SET sql_mode = 'ALLOW_INVALID_DATES'; UPDATE nodates.days SET n = n + 1 WHERE d > '1503-02-30'; INSERT INTO nodates.days VALUES ('2024-02-31', 7)")?;
    run.says("snapshot complete")?;
    run.stop()?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == rows + 1);
    ensure!(
        job.rows("SELECT n FROM days WHERE d IN ('0000-00-00', '2024-02-31') ORDER BY n")? == ["-1", "7"]
    );
    Ok(())
}

/// Under RELEASE the server would end our session with each COMMIT.
#[test]
fn a_mysql_target_that_releases_sessions_at_each_commit() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE released; CREATE TABLE released.t (id INT PRIMARY KEY, v INT); INSERT INTO released.t VALUES (1, 1), (2, 2)")?;
    for setting in ["RELEASE", "CHAIN"] {
        let target =
            Server::start(ServerOptions::of_this_run().with(format!("--completion-type={setting}")))?;
        target.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
        let body = format!(
            "sink dw = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*",
            target.port()
        );
        let job = Job::new(server, "released", &body);
        let connections = || target.sql("SHOW GLOBAL STATUS LIKE 'Connections'");
        let mut run = job.start(&[])?;
        run.says("snapshot complete")?;
        for n in 0..5 {
            server.sql(&format!("UPDATE released.t SET v = v + {n} + 1"))?;
            let wanted = server.sql("SELECT v FROM released.t ORDER BY id")?;
            run.until("the rows are there", |_| {
                Ok(target.sql("SELECT v FROM dw.t ORDER BY id").is_ok_and(|found| found == wanted))
            })?;
        }
        server.sql("ALTER TABLE released.t ADD COLUMN w INT NOT NULL DEFAULT 7")?;
        run.until("the column is there", |_| {
            Ok(target.sql("SELECT w FROM dw.t").is_ok_and(|w| w == "7\n7\n"))
        })?;
        let said = run.stop()?;
        ensure!(!said.err.contains("warning"), "{setting}: {} {}", said.text(), connections()?);
        ensure!(job.verify()? == 2);
        server.sql("ALTER TABLE released.t DROP COLUMN w")?;
    }
    Ok(())
}

/// `excluded` is the new row in ON CONFLICT, `t` and `u` are names of our statements; and a server that quotes every name it prints.
#[test]
fn names_of_our_own_statements_at_a_postgres_target() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE own; USE own;
         CREATE TABLE excluded (id INT PRIMARY KEY, excluded INT, t INT, u INT, c0 INT, n INT);
         CREATE TABLE t (c0 INT, c1 INT, excluded VARCHAR(9), n INT, PRIMARY KEY (c0, c1));
         CREATE TABLE u (n INT, u VARCHAR(9));
         INSERT INTO excluded VALUES (1, 1, 1, 1, 1, 1), (2, 2, 2, 2, 2, 2); INSERT INTO t VALUES (1, 1, 'a', 1), (2, 2, 'b', 2);
         INSERT INTO u VALUES (1, 'x'), (1, 'x'), (2, 'y')",
    )?;
    for quoted in ["off", "on"] {
        let target = Postgres::start(PostgresOptions::default())?;
        target.admin(&format!("ALTER DATABASE dw SET quote_all_identifiers = {quoted}"))?;
        let body = format!(
            "sink dw = postgres {{ url = \"postgres://127.0.0.1:{}/dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*",
            target.port()
        );
        let job = Job::new(server, "own", &body);
        job.catch_up(&[])?;
        server.sql(
            "USE own; UPDATE excluded SET excluded = 10 * excluded, t = t + 1, id = id + 1 ORDER BY id DESC; UPDATE t SET excluded = 'c', c0 = c0 + 5;
             INSERT INTO t VALUES (1, 1, 'd', 4); DELETE FROM u WHERE n = 1 LIMIT 1; UPDATE u SET u = 'z' WHERE n = 2;
             ALTER TABLE excluded ADD COLUMN more VARCHAR(9) NOT NULL DEFAULT 'm' AFTER id; ALTER TABLE excluded MODIFY n BIGINT",
        )?;
        job.catch_up(&[])?;
        // many rows go another way than few
        server.sql(
            "USE own; INSERT INTO t (c0, c1, excluded, n) WITH RECURSIVE s (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT n, n, 'e', n FROM s;
             UPDATE t SET excluded = 'f'",
        )?;
        job.catch_up(&[])?;
        ensure!(job.verify()? > 800);
        server.sql("USE own; DELETE FROM t WHERE c0 >= 100; ALTER TABLE excluded DROP COLUMN more; DELETE FROM t WHERE c0 = 1; INSERT INTO u VALUES (1, 'x')")?;
    }
    Ok(())
}
