//! The whole way into a MySQL or MariaDB target: copied, followed through schema changes, killed at any instant, and
//! in the end equal.

mod support;

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use cdc_testkit::history::{History, HistoryOptions, Length};
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use nix::sys::signal::Signal;
use support::{Job, names_change_hands, server};

/// A database for the target, which account `cdc` of the pipelines may write.
fn make(target: &Server, database: &str) -> Result<()> {
    target.sql(&format!("CREATE DATABASE {database}; GRANT ALL ON {database}.* TO cdc@'%'"))?;
    Ok(())
}

fn copy(port: u16, database: &str) -> String {
    format!(
        "sink dw = mysql {{ url = \"mysql://127.0.0.1:{port}\", database = \"{database}\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*"
    )
}

/// A server that is not of this run's kind: what one has and the other has not is on the way.
fn another() -> Result<Server> {
    let kind =
        if ServerKind::of_this_run().is_mariadb() { ServerKind::MySql } else { ServerKind::MariaDb118 };
    Server::start(ServerOptions::of(kind))
}

fn count(target: &Server, sql: &str) -> u64 {
    target.sql(sql).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn random_changes_of_rows_and_tables_through_kills_end_equal() -> Result<()> {
    let server = server();
    let target = Server::start(ServerOptions::of_this_run())?;
    make(&target, "dw")?;
    let options =
        HistoryOptions { database: "killed".into(), ddl: true, rate: Some(60), ..HistoryOptions::default() };
    let history = History::create(server, options)?;
    // a table without key would show a row that was written twice
    server.sql(
        "CREATE TABLE killed.log (line VARCHAR(40), n INT); INSERT INTO killed.log VALUES ('a', 1), ('a', 1)",
    )?;
    let job = Job::new(server, "killed", &copy(target.port(), "dw"));
    let writers = history.start(server, Length::Time(Duration::from_secs(60)))?;
    let mut kills = 0;
    for round in 0..6u64 {
        let mut run = job.start(&["--workers", if round % 2 == 0 { "1" } else { "2" }])?;
        let from = count(&target, "SELECT MAX(tick) FROM dw._cdc_progress");
        run.until("ticks are committed", |_| {
            Ok(count(&target, "SELECT MAX(tick) FROM dw._cdc_progress") > from + 5)
        })?;
        server.sql("INSERT INTO killed.log VALUES ('a', 1), ('b', 2), ('b', 2); DELETE FROM killed.log WHERE line = 'b' LIMIT 1")?;
        thread::sleep(Duration::from_millis(round * 83 % 300));
        run.kill()?;
        kills += 1;
    }
    writers.stop();
    writers.wait()?;
    job.catch_up(&[])?;
    let rows = job.verify()?;
    println!("{kills} kills, {rows} rows compared");
    ensure!(rows > 100);
    let logged = |of: &Server, database: &str| {
        of.sql(&format!("SELECT line, n, COUNT(*) FROM {database}.log GROUP BY 1, 2 ORDER BY 1, 2"))
    };
    ensure!(logged(server, "killed")? == logged(&target, "dw")?);
    Ok(())
}

#[test]
fn types_of_one_server_arrive_at_the_other() -> Result<()> {
    let server = server();
    let target = another()?;
    make(&target, "dw")?;
    let own = if server.kind().is_mariadb() {
        "u UUID, i4 INET4, i6 INET6, j JSON"
    } else {
        "u BINARY(16), i4 BIT(33), i6 GEOMETRY SRID 4326, j JSON"
    };
    let values = if server.kind().is_mariadb() {
        "UUID(), '10.1.0.0', '2001:db8::1', '{\"a\":  1.10}'"
    } else {
        "0x00112233445566778899AABBCCDDEEFF, b'1', ST_GeomFromText('POINT(52.5 13.4)', 4326), '{\"a\": 1.10, \"b\": [1e22]}'"
    };
    server.sql(&format!(
        "CREATE DATABASE both_ways; USE both_ways; SET sql_mode = 'ALLOW_INVALID_DATES';
         CREATE TABLE t (k VARCHAR(40) CHARACTER SET latin1 PRIMARY KEY, d DATE, f FLOAT, e ENUM('x', 'X ') COLLATE utf8mb4_bin, {own});
         INSERT INTO t VALUES ('ä', '0000-00-00', 0.1, 'x', {values}), ('o', '2024-02-31', -3.4e38, 'X', {values})"
    ))?;
    let job = Job::new(server, "both_ways", &copy(target.port(), "dw"));
    job.catch_up(&[])?;
    server.sql(&format!("INSERT INTO both_ways.t VALUES ('€', '1000-01-01', 1e-38, NULL, {values}); DELETE FROM both_ways.t WHERE k = 'o'"))?;
    server.sql(
        "ALTER TABLE both_ways.t ADD COLUMN late VARCHAR(20) NOT NULL DEFAULT 'yes' AFTER d, DROP COLUMN f",
    )?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 2);
    ensure!(
        target.sql("SELECT k, d, late FROM dw.t ORDER BY d")? == "ä\t0000-00-00\tyes\n€\t1000-01-01\tyes\n"
    );
    Ok(())
}

#[test]
fn a_target_that_goes_away_is_waited_for_and_ends_equal() -> Result<()> {
    let server = server();
    let mut target = Server::start(ServerOptions::of_this_run())?;
    make(&target, "dw")?;
    server.sql(
        "CREATE DATABASE away; CREATE TABLE away.t (id INT PRIMARY KEY, v INT);
         INSERT INTO away.t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT n, n FROM s",
    )?;
    let proxy = Proxy::start(target.port())?;
    let job = Job::new(server, "away", &copy(proxy.port(), "dw"));
    let mut run = job.start(&[])?;
    run.says("snapshot complete")?;
    target.kill()?;
    server.sql("UPDATE away.t SET v = -v; ALTER TABLE away.t ADD COLUMN w INT NOT NULL DEFAULT 7; DELETE FROM away.t WHERE id % 3 = 0")?;
    run.says("warning[E2001]")?;
    target.restart()?;
    run.until("the rows are there", |_| Ok(count(&target, "SELECT COUNT(*) FROM dw.t WHERE w = 7") == 600))?;
    for _ in 0..5 {
        proxy.cut_all();
        server.sql("UPDATE away.t SET v = v + 1")?;
        thread::sleep(Duration::from_millis(150));
    }
    run.signal(Signal::SIGTERM)?;
    run.wait()?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 600);
    Ok(())
}

#[test]
fn a_second_run_on_another_host_fences_off_the_first() -> Result<()> {
    let server = server();
    let target = Server::start(ServerOptions::of_this_run())?;
    make(&target, "dw")?;
    server.sql(
        "CREATE DATABASE hosts; CREATE TABLE hosts.t (id INT PRIMARY KEY); INSERT INTO hosts.t VALUES (1)",
    )?;
    let job = Job::new(server, "hosts", &copy(target.port(), "dw"));
    let mut first = job.start(&[])?;
    first.says("snapshot complete")?;
    // the same state in another folder, as on another host, with a replica id of its own
    let copied = std::process::Command::new("cp")
        .args(["-r", "state", "elsewhere"])
        .current_dir(job.path(""))
        .status()?;
    ensure!(copied.success());
    let file = std::fs::read_to_string(job.path("p.cdc"))?;
    std::fs::write(job.path("p.cdc"), file.replace("server_id = 8", "server_id = 9"))?;
    let mut second = job.command("run", &["--state", "elsewhere"]);
    let mut second = support::Run::start(&mut second)?;
    // until then the first may write, and one that has nothing to write does not notice
    let process = format!("process {} ", second.pid());
    second.until("the target is taken over", |_| {
        Ok(target.sql("SELECT run FROM dw._cdc_progress")?.contains(&process))
    })?;
    server.sql("INSERT INTO hosts.t VALUES (2)")?;
    first.wait()?.failed(2004)?;
    second.until("the row is there", |_| Ok(count(&target, "SELECT COUNT(*) FROM dw.t") == 2))?;
    second.signal(Signal::SIGTERM)?;
    second.wait()?;
    Ok(())
}

#[test]
fn case_40_names_that_change_hands_in_one_statement() -> Result<()> {
    let target = Server::start(ServerOptions::of_this_run())?;
    let sink = |database: &str| {
        make(&target, database)?;
        let text = copy(target.port(), database);
        Ok(text.lines().next().unwrap_or_default().trim_start_matches("sink dw = ").to_owned())
    };
    names_change_hands(server(), "hands_my", sink, |_, database, table, columns| {
        let sql = format!("SELECT {} FROM {database}.{table} ORDER BY id", columns.join(", "));
        let (theirs, ours) = (server().sql(&sql)?, target.sql(&sql)?);
        ensure!(theirs == ours && theirs.lines().count() == 3, "source:\n{theirs}target:\n{ours}");
        Ok(())
    })
}
