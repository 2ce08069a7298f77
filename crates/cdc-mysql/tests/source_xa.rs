//! XA transactions in two phases (acceptance case 27): held from PREPARE to COMMIT, over restarts and broken
//! connections, while tables are copied, and when they were prepared before the first start.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::{Diagnostic, codes};
use cdc_mysql::capture::{Capture, CaptureState};
use cdc_mysql::config::Config;
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::{Server, ServerOptions};
use common::{Copy, Writer, assert_all_equal, config, config_at, initial};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server with a database, whose account may see prepared transactions.
fn database(name: &str, sql: &str) -> Result<&'static Server> {
    // one for each test: what is prepared is seen by all
    let server: &'static Server = Box::leak(Box::new(Server::start(ServerOptions::of_this_run())?));
    if !server.kind().is_mariadb() {
        server.sql("GRANT XA_RECOVER_ADMIN ON *.* TO cdc")?;
    }
    server.sql(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4; USE {name}; {sql}"))?;
    Ok(server)
}

const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);";

/// Prepares a branch in a session that then ends.
fn prepare(server: &Server, database: &str, name: &str, sql: &str) -> Result<()> {
    server.sql(&format!("USE {database}; XA START '{name}'; {sql}; XA END '{name}'; XA PREPARE '{name}'"))?;
    Ok(())
}

async fn resumed(config: Config, state: &CaptureState, copy: &mut Copy) -> Result<Capture> {
    let state: CaptureState = serde_json::from_str(&serde_json::to_string(state)?)?;
    let capture = Capture::resume(config, &state).await?;
    copy.resume(&capture);
    Ok(capture)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_27_a_branch_is_given_out_at_its_commit() -> Result<()> {
    let server = database("x27", TABLE)?;
    let (mut capture, mut copy) = initial(config(server, &["x27.t"])).await?;
    prepare(server, "x27", "gone", "INSERT INTO t VALUES (10, 10); DELETE FROM t WHERE id = 3")?;
    prepare(server, "x27", "comes", "INSERT INTO t VALUES (11, 11); UPDATE t SET id = 22 WHERE id = 2")?;
    server.sql("INSERT INTO x27.t VALUES (50, 50); USE x27; XA START 'one'; INSERT INTO t VALUES (51, 51); XA END 'one'; XA COMMIT 'one' ONE PHASE")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 5, "{:?}", copy.rows("t"));
    server.sql("XA ROLLBACK 'gone'")?;
    copy.catch_up(&mut capture).await?;
    ensure!(copy.rows("t").len() == 5, "{:?}", copy.rows("t"));
    server.sql("XA COMMIT 'comes'")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 6, "{:?}", copy.rows("t"));
    ensure!(capture.state().branches.0.is_empty(), "{:?}", capture.state().branches);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_27_a_branch_outlives_our_restarts() -> Result<()> {
    let server = database("x27b", TABLE)?;
    let config = || config(server, &["x27b.t"]);
    let (mut capture, mut copy) = initial(config()).await?;
    prepare(server, "x27b", "a", "INSERT INTO t VALUES (10, 10), (11, 11); UPDATE t SET v = 7 WHERE id = 1")?;
    prepare(server, "x27b", "b", "DELETE FROM t WHERE id = 2")?;
    prepare(server, "x27b", "other", "SELECT 1")?;
    server
        .sql("INSERT INTO x27b.t VALUES (50, 50); FLUSH BINARY LOGS; INSERT INTO x27b.t VALUES (51, 51)")?;
    for _ in 0..2 {
        copy.catch_up(&mut capture).await?;
        assert_all_equal(server, &copy).await?;
        let state = capture.state();
        ensure!(state.branches.0.len() >= 2, "{:?}", state.branches);
        drop(capture);
        capture = resumed(config(), &state, &mut copy).await?;
    }
    // while nobody reads
    let state = capture.state();
    drop(capture);
    server.sql("XA COMMIT 'a'; INSERT INTO x27b.t VALUES (60, 60); XA ROLLBACK 'b'; DELETE FROM x27b.t WHERE id = 11")?;
    let mut capture = resumed(config(), &state, &mut copy).await?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 7, "{:?}", copy.rows("t"));
    server.sql("XA COMMIT 'other'").ok();
    copy.catch_up(&mut capture).await?;
    Ok(())
}

/// More than is held in memory, and the connection breaks while it is given out.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_27_a_large_branch_is_read_again_at_its_commit() -> Result<()> {
    let server = database("x27c", "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(2000))")?;
    let proxy = Proxy::start(server.port())?;
    let (mut capture, mut copy) = initial(config_at(proxy.port(), &["x27c.t"])).await?;
    let rows = |from: u32| {
        (from..from + 200).map(|id| format!("({id}, REPEAT('x', 1900))")).collect::<Vec<_>>().join(", ")
    };
    let inserts: Vec<String> = (0..60).map(|n| format!("INSERT INTO t VALUES {}", rows(n * 200))).collect();
    prepare(server, "x27c", "large", &inserts.join("; "))?;
    copy.catch_up(&mut capture).await?;
    ensure!(copy.rows("t").is_empty(), "{} rows", copy.rows("t").len());
    server.sql("XA COMMIT 'large'; INSERT INTO x27c.t VALUES (1000000, '')")?;
    let mut cuts = 0;
    for after in [1_000_000, 9_000_000, 15_000_000] {
        proxy.cut_after(after);
        let told = copy.notices.len();
        copy.run(&mut capture, |capture, copy| {
            copy.notices.len() > told || capture.is_whole() && copy.rows("t").len() == 12_001
        })
        .await?;
        cuts += copy.notices.len() - told;
    }
    proxy.cut_after(u32::MAX);
    ensure!(cuts > 0, "nothing was cut");
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 12_001, "{} rows", copy.rows("t").len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_27_a_branch_prepared_before_the_start_is_waited_for() -> Result<()> {
    let server = database("x27d", TABLE)?;
    prepare(server, "x27d", "early", "INSERT INTO t VALUES (10, 10); UPDATE t SET v = 9 WHERE id = 1")?;
    let told: Arc<Mutex<Vec<Diagnostic>>> = Arc::default();
    let tell = {
        let told = told.clone();
        move |notice| told.lock().expect("not poisoned").push(notice)
    };
    let starting =
        tokio::spawn(async move { Capture::start_telling(config(server, &["x27d.t"]), &tell).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(!starting.is_finished(), "it did not wait");
    // one that is prepared meanwhile is no reason to wait longer
    prepare(server, "x27d", "late", "INSERT INTO t VALUES (11, 11); DELETE FROM t WHERE id = 2")?;
    server.sql("XA COMMIT 'early'; INSERT INTO x27d.t VALUES (12, 12)")?;
    let mut capture =
        tokio::time::timeout(Duration::from_secs(10), starting).await.context("it waits")???;
    {
        let told = told.lock().expect("not poisoned");
        let waiting = told.iter().any(|d| d.code == codes::PREPARED_BRANCH && d.headline.contains("waiting"));
        ensure!(waiting, "{told:?}");
    }
    let mut copy = Copy::of(&capture);
    // restarted before the copy has begun
    let state = capture.state();
    ensure!(state.branches.0.len() == 1, "{:?}", state.branches);
    drop(capture);
    capture = resumed(config(server, &["x27d.t"]), &state, &mut copy).await?;
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 5, "{:?}", copy.rows("t"));
    server.sql("XA COMMIT 'late'")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 5, "{:?}", copy.rows("t"));
    Ok(())
}

/// Branches of several sessions, committed by others, while the table is copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_27_branches_end_while_chunks_are_read() -> Result<()> {
    let rows: Vec<String> = (0..2000).map(|id| format!("({id}, 0)")).collect();
    let server = database(
        "x27e",
        &format!("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES {};", rows.join(", ")),
    )?;
    let writer = Writer::start(server, |n| {
        let own = n % 1000;
        match n % 6 {
            0 => format!("XA START 'w{n}'"),
            1 => format!("UPDATE x27e.t SET v = v + 1 WHERE id % 1000 = {own}"),
            2 => format!("DELETE FROM x27e.t WHERE id = {own}"),
            3 => format!("XA END 'w{}'", n - 3),
            4 => format!("XA PREPARE 'w{}'", n - 4),
            _ if n % 4 == 1 => format!("XA ROLLBACK 'w{}'", n - 5),
            _ => format!("XA COMMIT 'w{}'", n - 5),
        }
    })
    .await?;
    let mut config = config(server, &["x27e.t"]);
    config.chunk_rows = 50;
    common::dawdle(&mut config, Duration::from_millis(2));
    let (mut capture, mut copy) = initial(config).await?;
    let written = writer.end().await?;
    // what the writer's end has left open
    let open = server.sql("XA RECOVER")?;
    for name in open.lines().filter_map(|line| line.split('\t').nth(3)) {
        server.sql(&format!("XA COMMIT '{name}'")).ok();
    }
    copy.catch_up(&mut capture).await?;
    eprintln!("x27e: {written} statements, {} changes", copy.log.len());
    assert_all_equal(server, &copy).await
}
