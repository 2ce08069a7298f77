//! What a source refuses, before it starts and while it runs: patterns (acceptance case 34), tables without a
//! key (7), statements in the log (30), partial images (28, 29), and settings and accounts (76, the source's
//! part). One test at a time, on one server, since the settings are the server's.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::diagnostic::Code;
use cdc_core::{Error, codes};
use cdc_mysql::capture::{Capture, CaptureState, discover};
use cdc_mysql::config::Config;
use cdc_testkit::servers::{Server, ServerOptions};
use common::{Copy, assert_all_equal, config, initial, snapshot};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// The server, for one test at a time.
async fn server() -> MutexGuard<'static, Server> {
    static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
    SERVER
        .get_or_init(|| Mutex::new(Server::start(ServerOptions::of_this_run()).expect("a server")))
        .lock()
        .await
}

/// A start must fail with this code, and say these things, one of them as help.
async fn check_refused(config: Config, code: Code, says: &[&str]) -> Result<Error> {
    let error = Capture::start(config).await.err().context("it started")?;
    check_error(&error, code, says)?;
    Ok(error)
}

fn check_error(error: &Error, code: Code, says: &[&str]) -> Result<()> {
    let text = error.to_string();
    ensure!(error.code() == code, "another code: {text}");
    ensure!(!error.diagnostic().help.is_empty(), "no help: {text}");
    for part in says {
        ensure!(text.contains(part), "\"{part}\" is not in: {text}");
    }
    eprintln!("{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_34_patterns() -> Result<()> {
    let server = server().await;
    server.sql(
        "CREATE DATABASE c34; USE c34; CREATE TABLE a1 (id INT PRIMARY KEY); CREATE TABLE a2 LIKE a1; \
         CREATE TABLE b1 LIKE a1; CREATE TABLE tmp_a LIKE a1; INSERT INTO a1 VALUES (1), (2); INSERT INTO b1 VALUES (3); \
         CREATE VIEW v AS SELECT * FROM a1",
    )?;
    let copy =
        snapshot(config(&server, &["c34.a*", "/c34\\.b[0-9]/", "!c34.a2", "c34.zz*", "nowhere.t"])).await?;
    let tables: Vec<&str> = copy.schemas.keys().map(|table| &*table.table).collect();
    ensure!(tables == ["a1", "b1"], "{tables:?}");
    let warned: Vec<&str> = copy.notices.iter().map(|notice| notice.headline.as_str()).collect();
    ensure!(
        warned.len() == 2 && warned[0].contains("\"c34.zz*\"") && warned[1].contains("\"nowhere.t\""),
        "{warned:?}"
    );
    ensure!(copy.notices.iter().all(|n| n.code == codes::PATTERN_MATCHES_NOTHING && !n.help.is_empty()));
    assert_all_equal(&server, &copy).await?;
    check_refused(config(&server, &["c34.zz*"]), codes::NO_TABLES, &["c34", "GRANT SELECT"]).await?;
    check_refused(config(&server, &["c34.*", "!c34.*"]), codes::NO_TABLES, &[]).await?;
    // a view is no table, and the server's own databases are never captured
    check_refused(config(&server, &["c34.v", "mysql.*"]), codes::NO_TABLES, &[]).await?;
    let malformed = Config::new("mysql://h", "u", None, &["c34".into()]).err().context("no error")?;
    check_error(&malformed, codes::MALFORMED_PATTERN, &["\"c34\""])
}

/// A table is found, and has no key: it is copied as a multiset.
async fn check_no_key(server: &Server, good: &str, bad: &str) -> Result<()> {
    let config = config(server, &[good, bad]);
    let mut conn = cdc_mysql::conn::connect(&config).await?;
    let (structures, _) = discover(&mut conn, &config).await?;
    let key = |name: &str| {
        let table = structures.tables().find(|t| t.id.to_string() == name);
        table.map(|t| t.key().map(<[usize]>::to_vec))
    };
    ensure!(key(good) == Some(Some(vec![0])) && key(bad) == Some(None), "{bad}: {:?}", key(bad));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_07_what_is_a_key() -> Result<()> {
    let server = server().await;
    server.sql(
        "CREATE DATABASE c07; USE c07; CREATE TABLE good (id INT PRIMARY KEY); CREATE TABLE heap (a INT, b INT NOT NULL);
         CREATE TABLE nullable (a INT, UNIQUE (a)); CREATE TABLE prefix (a VARCHAR(20) NOT NULL, UNIQUE (a(3)));
         CREATE TABLE unique_key (a INT NOT NULL, b VARCHAR(9) NOT NULL, c INT, UNIQUE (c), UNIQUE (b, a));
         INSERT INTO unique_key VALUES (1, 'x', NULL), (2, 'X', 5), (3, 'y', 7), (4, 'z', 8);",
    )?;
    for table in ["heap", "nullable", "prefix"] {
        check_no_key(&server, "c07.good", &format!("c07.{table}")).await?;
    }
    // a unique key over columns that are not null serves
    let mut config = config(&server, &["c07.unique_key"]);
    config.chunk_rows = 1;
    let copy = snapshot(config).await?;
    ensure!(copy.chunk_rows("unique_key").0 == 4);
    assert_all_equal(&server, &copy).await
}

/// MariaDB has no indexes over expressions.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_07_an_index_over_an_expression_is_no_key_mysql_only() -> Result<()> {
    let server = server().await;
    server.sql(
        "CREATE DATABASE c07e; CREATE TABLE c07e.good (id INT PRIMARY KEY);
         CREATE TABLE c07e.functional (a INT NOT NULL, UNIQUE ((a + 1)))",
    )?;
    check_no_key(&server, "c07e.good", "c07e.functional").await
}

/// Follows a table, writes, and gives the error with which the capture stops.
async fn stops(server: &Server, database: &str, tables: &[&str], sql: &str) -> Result<Error> {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT PRIMARY KEY, v INT, j JSON, x TEXT); \
         CREATE TABLE other LIKE t; INSERT INTO t VALUES (1, 1, '{{\"a\": 1, \"b\": \"a text of some length\"}}', 'x')"
    ))?;
    let (mut capture, mut copy) = initial(config(server, tables)).await?;
    server.sql(&format!("USE {database}; {sql}"))?;
    let end = capture.server_position().await?;
    loop {
        match tokio::time::timeout(Duration::from_secs(20), capture.next()).await? {
            Ok(_) => ensure!(!capture.at_boundary() || !capture.has_reached(&end)?, "it was passed over"),
            Err(error) => {
                ensure!(!error.is_transient(), "transient: {error}");
                // what came before it is there
                copy.notices.clear();
                return Ok(error);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_30_a_statement_in_the_log_stops_with_position_and_statement() -> Result<()> {
    let server = server().await;
    let statements = [
        "INSERT INTO t VALUES (2, 2, NULL, NULL)",
        "UPDATE t SET v = 5 WHERE id = 1",
        "DELETE FROM t",
        "REPLACE INTO t (id) VALUES (1)",
        "INSERT INTO other SELECT id, v, j, x FROM t ON DUPLICATE KEY UPDATE v = 1",
    ];
    let mend = format!("{} binlog_format = ROW", server.kind().set_for_good());
    for (n, statement) in statements.iter().enumerate() {
        let database = format!("c30_{n}");
        let sql = format!("SET SESSION binlog_format = STATEMENT; {statement}");
        let error = stops(&server, &database, &[&format!("{database}.*")], &sql).await?;
        check_error(&error, codes::STATEMENT_FORMAT, &[statement, "binlog.0000", "transaction", &mend])?;
    }
    // of a table that is not captured it does not matter
    server.sql(
        "CREATE DATABASE c30; USE c30; CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other LIKE t",
    )?;
    let (mut capture, mut copy) = initial(config(&server, &["c30.t"])).await?;
    server.sql("USE c30; SET SESSION binlog_format = STATEMENT; INSERT INTO other VALUES (1); SET SESSION binlog_format = ROW; INSERT INTO t VALUES (1)")?;
    copy.catch_up(&mut capture).await?;
    ensure!(copy.log.len() == 1);
    assert_all_equal(&server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_accounts() -> Result<()> {
    let server = server().await;
    server.sql(
        "CREATE DATABASE c76; CREATE TABLE c76.t (id INT PRIMARY KEY, v INT);
         CREATE USER nothing IDENTIFIED BY 'x', client IDENTIFIED BY 'x', slave IDENTIFIED BY 'x', pair IDENTIFIED BY 'x',
           part IDENTIFIED BY 'x';
         GRANT SELECT ON c76.* TO nothing, client, slave; GRANT REPLICATION CLIENT ON *.* TO client, pair, part;
         GRANT REPLICATION SLAVE ON *.* TO slave, pair, part; GRANT SELECT (id) ON c76.t TO part",
    )?;
    let account = |user: &str, password: &str| {
        let mut config = config(&server, &["c76.t"]);
        (config.user, config.password) = (user.to_owned(), Some(password.to_owned()));
        config
    };
    let error =
        check_refused(account("cdc", "wrong"), codes::ACCESS_DENIED, &["\"cdc\"", "CREATE USER"]).await?;
    ensure!(!error.is_transient() && !error.to_string().contains("wrong"), "the password is shown: {error}");
    check_refused(account("nobody", "x"), codes::ACCESS_DENIED, &["\"nobody\""]).await?;
    let grant = |user: &str| format!("GRANT {} ON *.* TO '{user}'@'%'", server.kind().log_privilege());
    check_refused(account("nothing", "x"), codes::GRANT_MISSING, &[&grant("nothing")]).await?;
    check_refused(
        account("client", "x"),
        codes::GRANT_MISSING,
        &["GRANT REPLICATION SLAVE ON *.* TO 'client'@'%'"],
    )
    .await?;
    check_refused(account("slave", "x"), codes::GRANT_MISSING, &[&grant("slave")]).await?;
    check_refused(account("pair", "x"), codes::NO_TABLES, &["\"pair\"", "GRANT SELECT"]).await?;
    // one column is not the table
    check_refused(account("part", "x"), codes::GRANT_MISSING, &["GRANT SELECT"]).await?;
    let config = common::config_at(1, &["c76.t"]);
    let error = check_refused(config, codes::CONNECT_FAILED, &["127.0.0.1:1"]).await?;
    ensure!(error.is_transient());
    let copy = snapshot(account("cdc", "cdc")).await?;
    assert_all_equal(&server, &copy).await
}

/// A setting, what is wrong, what is right, and as what the wrong one is shown.
type Setting = (&'static str, &'static str, &'static str, &'static str);

/// With each of these settings neither a start nor a resumption goes on. Gives a state from which a capture of
/// `DATABASE.t` would go on.
async fn check_settings(server: &Server, database: &str, settings: &[Setting]) -> Result<CaptureState> {
    let table = format!("{database}.t");
    server.sql(&format!("CREATE DATABASE {database}; CREATE TABLE {table} (id INT PRIMARY KEY)"))?;
    let (capture, _) = initial(config(server, &[&table])).await?;
    let state = capture.state();
    drop(capture);
    for (name, wrong, right, actual) in settings {
        server.sql(&format!("SET GLOBAL {name} = {wrong}"))?;
        let mend = match *name {
            "gtid_mode" => "= ON_PERMISSIVE, = ON".to_owned(),
            name => format!("{} {name} = ", server.kind().set_for_good()),
        };
        let says = [&format!("{name} is {actual}")[..], &mend];
        let refused = check_refused(config(server, &[&table]), codes::SETTING_WRONG, &says).await;
        let resumed = Capture::resume(config(server, &[&table]), &state).await.err();
        server.sql(&format!("SET GLOBAL {name} = {right}"))?;
        refused?;
        check_error(&resumed.context("it resumed")?, codes::SETTING_WRONG, &says)?;
    }
    Ok(state)
}

/// MariaDB always writes GTIDs.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_settings_mysql_only() -> Result<()> {
    let server = server().await;
    let settings = [("gtid_mode", "'ON_PERMISSIVE'", "'ON'", "ON_PERMISSIVE")];
    check_settings(&server, "c76m", &settings).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_76_settings() -> Result<()> {
    let mut server = server().await;
    let settings = [
        ("binlog_format", "'STATEMENT'", "'ROW'", "STATEMENT"),
        ("binlog_format", "'MIXED'", "'ROW'", "MIXED"),
    ];
    let state = check_settings(&server, "c76s", &settings).await?;
    for (option, says) in [
        ("--skip-log-bin", ["log_bin is OFF", "--log-bin"]),
        ("--binlog-ignore-db=elsewhere", ["binlog_ignore_db is elsewhere", "--binlog-ignore-db"]),
        ("--binlog-do-db=c76s", ["binlog_do_db is c76s", "--binlog-do-db"]),
    ] {
        server.options_mut().extra.push(option.into());
        server.restart()?;
        check_refused(config(&server, &["c76s.t"]), codes::SETTING_WRONG, &says).await?;
        server.options_mut().extra.pop();
    }
    server.restart()?;
    let mut capture = Capture::resume(config(&server, &["c76s.t"]), &state).await?;
    let mut copy = Copy::of(&capture);
    server.sql("INSERT INTO c76s.t VALUES (1)")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(&server, &copy).await
}
