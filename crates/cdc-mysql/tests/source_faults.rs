//! What servers do to a source: commits that take long (acceptance case 17), restarts and crashes, killed
//! connections, purged logs (23, 24); and what the low watermark rests on. One test at a time, on one server.

mod common;

use anyhow::{Context, Result, bail, ensure};
use cdc_core::codes;
use cdc_core::plan::pattern::TableSet;
use cdc_core::position::Position;
use cdc_mysql::capture::{Capture, CaptureState};
use cdc_mysql::config::{Config, Point, StartMode};
use cdc_mysql::gtid::GtidSet;
use cdc_testkit::servers::{Server, ServerOptions};
use common::{Copy, Writer, assert_all_equal, at, config, initial, refusal, root};
use mysql_async::prelude::Queryable;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

/// The server, for one test at a time.
async fn server() -> MutexGuard<'static, Server> {
    static SERVER: OnceLock<Mutex<Server>> = OnceLock::new();
    SERVER
        .get_or_init(|| Mutex::new(Server::start(ServerOptions::of_this_run()).expect("a server")))
        .lock()
        .await
}

/// `t(id, v)` with ids from 1.
fn numbered(server: &Server, database: &str, rows: u32) -> Result<()> {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database}; {};
         CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL);
         INSERT INTO t WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n, 0 FROM s;
         ANALYZE TABLE t",
        server.kind().recursion(rows.into())
    ))?;
    Ok(())
}

fn small_chunks(server: &Server, database: &str, rows: u64) -> Config {
    let mut config = config(server, &[&format!("{database}.t")]);
    config.chunk_rows = rows;
    config
}

/// While it is there, a commit takes up to this time between the log and its rows' becoming visible. MySQL waits there
/// for others to commit with it. MariaDB waits in front of the log for those, but behind it for a replica that is to
/// confirm: there is none, and every so often the waiting is called off and begun anew.
struct SlowCommits {
    task: Option<JoinHandle<Result<()>>>,
    over: Arc<AtomicBool>,
}

impl SlowCommits {
    async fn start(server: &Server, time: Duration) -> Result<SlowCommits> {
        let over = Arc::new(AtomicBool::new(false));
        let (micros, millis) = (time.as_micros(), time.as_millis());
        if !server.kind().is_mariadb() {
            server.sql(&format!("SET GLOBAL binlog_group_commit_sync_delay = {micros}"))?;
            return Ok(SlowCommits { task: None, over });
        }
        let mut conn = root(server).await?;
        conn.query_drop(format!(
            "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC, GLOBAL rpl_semi_sync_master_timeout = {millis},
               GLOBAL rpl_semi_sync_master_enabled = ON"
        ))
        .await?;
        let ended = over.clone();
        let task = tokio::spawn(async move {
            let mut begun = Instant::now();
            while !ended.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
                if begun.elapsed() >= time {
                    conn.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = OFF").await?;
                    conn.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = ON").await?;
                    begun = Instant::now();
                }
            }
            conn.query_drop("SET GLOBAL rpl_semi_sync_master_enabled = OFF").await?;
            Ok(())
        });
        Ok(SlowCommits { task: Some(task), over })
    }

    async fn end(self, server: &Server) -> Result<()> {
        self.over.store(true, Ordering::SeqCst);
        match self.task {
            Some(task) => task.await?,
            None => server.sql("SET GLOBAL binlog_group_commit_sync_delay = 0").map(drop),
        }
    }
}

/// The position moves past a transaction long before a SELECT sees it: writers commit while chunks are read.
async fn check_slow_commits(server: &Server, database: &str, sync_binlog: u32) -> Result<()> {
    numbered(server, database, 120)?;
    server.sql(&format!("SET GLOBAL sync_binlog = {sync_binlog}"))?;
    let slow = SlowCommits::start(server, Duration::from_millis(300)).await?;
    let mut writers = Vec::new();
    for writer in 0..4 {
        let table = format!("{database}.t");
        let sql = move |n: u64| {
            format!(
                "BEGIN; UPDATE {table} SET v = v + 1 WHERE id % 4 = {writer} AND id % 3 = {}; DELETE FROM {table} WHERE id = {}; \
                 INSERT INTO {table} VALUES ({}, {n}); COMMIT",
                n % 3,
                4 * (n % 30) + writer,
                1000 + 10 * n + writer
            )
        };
        writers.push(Writer::start(server, sql).await?);
    }
    for _ in 0..2 {
        let mut config = small_chunks(server, database, 20);
        common::dawdle(&mut config, Duration::from_millis(10));
        let mut capture = Capture::start(config).await?;
        let mut copy = Copy::of(&capture);
        copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
        // a while of the log, where each change is checked against the copy
        let given = copy.log.len();
        copy.run(&mut capture, |_, copy| copy.log.len() >= given + 12).await?;
        eprintln!("{database}: {} chunks, {} changes", copy.chunks.len(), copy.log.len());
    }
    // the last one ends with the writers
    let mut capture = Capture::start(small_chunks(server, database, 20)).await?;
    let mut copy = Copy::of(&capture);
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    for writer in writers {
        writer.end().await?;
    }
    slow.end(server).await?;
    server.sql("SET GLOBAL sync_binlog = 0")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_17_snapshot_under_commits_that_take_long() -> Result<()> {
    let server = server().await;
    check_slow_commits(&server, "c17a", 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_17_snapshot_under_commits_that_take_long_without_sync() -> Result<()> {
    let server = server().await;
    check_slow_commits(&server, "c17b", 0).await
}

/// A transaction that is in the log and takes a while to become visible, seen by a capture whose chunks all begin
/// after it: with `restart`, one that goes on from behind the transaction and knows no more of it than its GTID.
async fn check_chunk_behind_log(server: &Server, database: &str, restart: bool) -> Result<()> {
    numbered(server, database, 40)?;
    let slow = SlowCommits::start(server, Duration::from_millis(700)).await?;
    let (visible, selected_early) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (told, early) = (visible.clone(), selected_early.clone());
    let mut config = small_chunks(server, database, 10);
    at(&mut config, Point::AfterLow, "t", 1, move || {
        early.store(!told.load(Ordering::SeqCst), Ordering::SeqCst)
    });
    let mut capture = Capture::start(config.clone()).await?;
    let mut copy = Copy::of(&capture);
    // chunks wait for the transaction that comes next, as behind a target that has it: changes are skipped
    let executed = server.executed()?;
    let last: u64 = executed.rsplit(['-', ':']).next().context("a number")?.parse()?;
    let next = match executed.split_once(':') {
        Some((uuid, _)) => format!("{uuid}:{}", last + 1),
        None => format!("0-1-{}", last + 1),
    };
    capture.hold_chunks_until(&Position { gtids: next.into(), ..Position::default() })?;
    let mut conn = root(server).await?;
    let update = format!("UPDATE {database}.t SET v = v + 1 WHERE id <= 30");
    let writer = tokio::spawn(async move {
        conn.query_drop(update).await?;
        visible.store(true, Ordering::SeqCst);
        anyhow::Ok(())
    });
    copy.run(&mut capture, |capture, _| capture.is_past_hold()).await?;
    ensure!(copy.chunks.is_empty(), "a chunk was read before the hold was passed");
    if restart {
        let state = capture.state();
        drop(capture);
        capture = Capture::resume(config, &state).await?;
    }
    ensure!(!writer.is_finished(), "the commit took no time: nothing is shown");
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    writer.await??;
    slow.end(server).await?;
    // the touched rows are the log's to give in the one case, the chunks' in the other
    ensure!(
        selected_early.load(Ordering::SeqCst) != restart,
        "a chunk's low watermark is not what it should be"
    );
    let schema = copy.schemas.values().next().context("a table")?;
    let mut source = common::read_table(server, schema).await?;
    if !restart {
        source.retain(|_, row| row.get(1) == cdc_core::Value::Int(0));
    }
    ensure!(copy.rows("t") == &source, "{:?} is not {source:?}", copy.rows("t"));
    eprintln!("{database}: {} rows compared", source.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_17_a_chunk_begun_between_the_log_and_the_commit() -> Result<()> {
    let server = server().await;
    check_chunk_behind_log(&server, "c17c", false).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_17_a_restart_between_the_log_and_the_commit() -> Result<()> {
    let server = server().await;
    check_chunk_behind_log(&server, "c17d", true).await
}

/// What makes `gtid_executed` a low watermark also for XA: a branch committed by another session is counted only
/// once it is visible.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn xa_commit_of_another_session_is_visible_before_it_is_counted_mysql_only() -> Result<()> {
    let server = server().await;
    numbered(&server, "xa", 1)?;
    let (mut first, mut second, mut reader) =
        (root(&server).await?, root(&server).await?, root(&server).await?);
    let count = async |reader: &mut mysql_async::Conn| -> Result<u64> {
        let set: String = reader.query_first("SELECT @@global.gtid_executed").await?.context("a set")?;
        Ok(set.rsplit(['-', ':']).next().context("a number")?.parse()?)
    };
    let base = count(&mut reader).await?;
    let rounds = 250;
    let writer = tokio::spawn(async move {
        for n in 2..2 + rounds {
            first
                .query_drop(format!(
                    "XA START 'x{n}'; INSERT INTO xa.t VALUES ({n}, 0); XA END 'x{n}'; XA PREPARE 'x{n}'"
                ))
                .await?;
            // a session keeps its prepared branch attached until it ends or resets
            first.reset().await?;
            second.query_drop(format!("XA COMMIT 'x{n}'")).await?;
        }
        anyhow::Ok(())
    });
    let (mut tries, mut seen) = (0u64, 0);
    while seen < rounds {
        // looked at first: what was committed before is seen by the reading behind it
        let finished = writer.is_finished();
        // each branch counts twice: PREPARE, COMMIT
        let committed = (count(&mut reader).await? - base) / 2;
        let visible: u64 = reader.query_first("SELECT COUNT(*) - 1 FROM xa.t").await?.context("a count")?;
        ensure!(visible >= committed, "{committed} branches are counted, {visible} are visible");
        (tries, seen) = (tries + 1, visible);
        if finished {
            break;
        }
    }
    writer.await??;
    ensure!(seen == rounds, "{seen} branches are visible");
    eprintln!("xa: {tries} tries over {rounds} branches");
    Ok(())
}

/// Lets the server end in order, while the capture goes on. (A server takes ten seconds over the thread that sends
/// the log, to `mysqlbinlog` too.)
async fn shut_down(server: &Server, capture: &mut Capture, copy: &mut Copy) -> Result<()> {
    server.sql("SHUTDOWN")?;
    let told = copy.notices.len();
    copy.run(capture, |_, copy| copy.notices.iter().skip(told).any(|n| n.headline.contains("log"))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_75_the_server_restarts_and_crashes_while_tables_are_copied_and_followed() -> Result<()> {
    let mut server = server().await;
    numbered(&server, "restart", 600)?;
    server.sql(
        "USE restart; CREATE TABLE big (id INT PRIMARY KEY, v INT NOT NULL, pad TEXT);
         INSERT INTO big SELECT id, 1, REPEAT('x', 9000) FROM t WHERE id <= 500",
    )?;
    let mut config = small_chunks(&server, "restart", 10);
    config.tables = TableSet::parse(&["restart.*".into()]).expect("a pattern");
    common::dawdle(&mut config, Duration::from_millis(1));
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    let write = |server: &Server, n: u32| {
        server.sql(&format!(
            "USE restart; UPDATE t SET v = {n} WHERE id % 5 = {}; INSERT INTO t VALUES ({}, {n}); DELETE FROM t WHERE id = {n}",
            n % 5,
            5000 + n
        ))
    };
    copy.run(&mut capture, |_, copy| copy.chunks.len() >= 8).await?;
    write(&server, 1)?;
    shut_down(&server, &mut capture, &mut copy).await?;
    server.restart()?;
    write(&server, 2)?;
    copy.run(&mut capture, |_, copy| copy.chunks.len() >= 20).await?;
    write(&server, 3)?;
    server.kill()?;
    server.restart()?;
    write(&server, 4)?;
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    copy.catch_up(&mut capture).await?;
    // in the middle of a transaction that no buffer of the network holds
    server.sql(
        "USE restart; BEGIN; UPDATE big SET v = v + 1; UPDATE t SET v = v + 1; UPDATE big SET v = -v; COMMIT",
    )?;
    let (given, told) = (copy.log.len(), copy.notices.len());
    while copy.log.len() < given + 100 {
        copy.step(&mut capture).await?;
    }
    server.kill()?;
    while copy.notices.len() == told {
        copy.step(&mut capture).await?;
    }
    ensure!(!capture.at_boundary(), "a boundary inside a transaction");
    eprintln!("restart: cut after {} changes of a transaction", copy.log.len() - given);
    server.restart()?;
    write(&server, 7)?;
    copy.catch_up(&mut capture).await?;
    eprintln!("restart: {} notices", copy.notices.len());
    ensure!(copy.notices.iter().all(|notice| notice.severity == cdc_core::Severity::Warning));
    assert_all_equal(&server, &copy).await
}

/// An administrator ends our connections, all of them, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_connections_are_opened_again() -> Result<()> {
    let server = server().await;
    numbered(&server, "killed", 600)?;
    let mut config = small_chunks(&server, "killed", 10);
    common::dawdle(&mut config, Duration::from_millis(3));
    let writer =
        Writer::start(&server, |n| format!("UPDATE killed.t SET v = {n} WHERE id % 10 = {}", n % 10)).await?;
    let mut capture = Capture::start(config.clone()).await?;
    let mut copy = Copy::of(&capture);
    let mut conn = root(&server).await?;
    let killer = tokio::spawn(async move {
        let mut killed = 0;
        for round in 0..15 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let ids: Vec<u64> =
                conn.query("SELECT id FROM information_schema.processlist WHERE user = 'cdc'").await?;
            for id in ids {
                let what = if round % 3 == 0 { "QUERY" } else { "CONNECTION" };
                killed += u64::from(conn.query_drop(format!("KILL {what} {id}")).await.is_ok());
            }
        }
        anyhow::Ok(killed)
    });
    copy.run(&mut capture, |capture, _| capture.is_whole() && killer.is_finished()).await?;
    writer.end().await?;
    copy.catch_up(&mut capture).await?;
    eprintln!("killed: {} connections, {} notices", killer.await??, copy.notices.len());
    assert_all_equal(&server, &copy).await
}

/// Removes the logs before this one, as soon as nobody reads them: who was read to may be gone, and not noticed yet.
async fn purge_to(server: &Server, newest: &str) -> Result<()> {
    for _ in 0..1000 {
        server.sql(&format!("PURGE BINARY LOGS TO '{newest}'"))?;
        if server.sql("SHOW BINARY LOGS")?.starts_with(newest) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("a log before {newest} is in use")
}

/// A copy of `DATABASE.t`, the state from which its capture would go on, and the oldest log that is left: a log with
/// changes that it has not seen is gone.
async fn purged(server: &Server, database: &str) -> Result<(CaptureState, Copy, String)> {
    numbered(server, database, 10)?;
    let (capture, copy) = initial(small_chunks(server, database, 100)).await?;
    let state = capture.state();
    drop(capture);
    server.sql(&format!("USE {database}; UPDATE t SET v = 1; FLUSH BINARY LOGS; UPDATE t SET v = 2"))?;
    let (newest, _) = server.log_end()?;
    purge_to(server, &newest).await?;
    Ok((state, copy, newest))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_23_a_purged_log_is_an_error_at_once() -> Result<()> {
    let server = server().await;
    let (state, mut copy, newest) = purged(&server, "c23").await?;
    let (file, offset) = (state.position.file.to_string(), state.position.offset);
    let mut config = small_chunks(&server, "c23", 100);
    let begin = Instant::now();
    let resumed = refusal(Capture::resume(config.clone(), &state).await).await?;
    config.start = StartMode::File(file.clone(), offset);
    let from_file = refusal(Capture::start(config.clone()).await).await?;
    config.start = StartMode::Gtids(GtidSet::parse(&state.position.gtids)?);
    let from_set = refusal(Capture::start(config.clone()).await).await?;
    ensure!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    for error in [&resumed, &from_file, &from_set] {
        let text = error.to_string();
        ensure!(error.code() == codes::LOG_PURGED && !error.is_transient(), "{text}");
        ensure!(text.contains("help:"), "{text}");
    }
    ensure!([&file, &newest].iter().all(|name| from_file.to_string().contains(*name)), "{from_file}");
    for error in [resumed, from_set] {
        ensure!(error.to_string().contains(&*state.position.gtids), "it says not where we stand: {error}");
    }
    // the oldest log left can be read
    config.start = StartMode::Earliest;
    let mut capture = Capture::start(config).await?;
    copy.resume(&capture);
    // the copy has missed what is purged
    copy.whole.clear();
    copy.catch_up(&mut capture).await?;
    assert_all_equal(&server, &copy).await
}

/// MySQL keeps a list of what it has purged; MariaDB says only that something is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_23_what_is_missing_is_told_mysql_only() -> Result<()> {
    let server = server().await;
    let (state, _, newest) = purged(&server, "c23b").await?;
    let purged = GtidSet::parse(&server.sql("SELECT @@global.gtid_purged")?.replace("\\n", ""))?;
    let missing = purged.minus(&GtidSet::parse(&state.position.gtids)?).to_string();
    let mut config = small_chunks(&server, "c23b", 100);
    let resumed = refusal(Capture::resume(config.clone(), &state).await).await?;
    config.start = StartMode::Gtids(GtidSet::parse(&state.position.gtids)?);
    let from_set = refusal(Capture::start(config).await).await?;
    for error in [resumed, from_set] {
        let text = error.to_string();
        ensure!(text.contains(&missing) && text.contains(&newest), "{missing}, {newest}: {text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_24_a_quiet_server_rotates_and_purges() -> Result<()> {
    let server = server().await;
    numbered(&server, "c24", 10)?;
    let (mut capture, mut copy) = initial(small_chunks(&server, "c24", 100)).await?;
    server.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS")?;
    let (newest, _) = server.log_end()?;
    copy.run(&mut capture, |capture, _| *capture.position().file == *newest).await?;
    let state = capture.state();
    drop(capture);
    purge_to(&server, &newest).await?;
    server.sql("UPDATE c24.t SET v = 1")?;
    let mut capture = Capture::resume(small_chunks(&server, "c24", 100), &state).await?;
    copy.resume(&capture);
    copy.catch_up(&mut capture).await?;
    ensure!(copy.log.len() == 10);
    assert_all_equal(&server, &copy).await
}
