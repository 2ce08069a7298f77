//! The log against a real server: positions inside a transaction (acceptance cases 19, 20), start modes (21),
//! and connections that break in the middle of a transaction.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::position::Position;
use cdc_core::{TableId, Value, codes};
use cdc_mysql::binlog::{LogItem, LogReader, RowChange};
use cdc_mysql::capture::{Capture, discover};
use cdc_mysql::config::{Config, StartMode};
use cdc_mysql::gtid::GtidSet;
use cdc_mysql::structure::TableStructures;
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::Server;
use common::{Copy, Writer, assert_all_equal, config, config_at, initial, refusal, server};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The changes of the log up to the end of the last of these transactions, and the position after each item.
async fn read_to(
    reader: &mut LogReader,
    end: &GtidSet,
    mut after: impl FnMut(&LogReader, usize),
) -> Result<Vec<(TableId, RowChange)>> {
    let mut all = Vec::new();
    while !reader.gtids().contains_set(end) {
        let item =
            tokio::time::timeout(Duration::from_secs(20), reader.next()).await.context("the log hangs")?;
        match item {
            Ok(LogItem::Rows { schema, changes, .. }) => {
                all.extend(changes.into_iter().map(|change| (schema.id.clone(), change)));
                ensure!(!reader.at_boundary(), "a boundary inside a transaction");
            }
            Ok(LogItem::Commit { .. }) => ensure!(reader.at_boundary(), "a commit is no boundary"),
            Ok(_) => {}
            Err(error) if error.is_transient() => {
                let inside = reader.position().rows > 0;
                reader.disconnect();
                ensure!(reader.at_boundary() != inside, "a lost connection makes a boundary");
            }
            Err(error) => return Err(error.into()),
        }
        after(reader, all.len());
    }
    Ok(all)
}

async fn structures(config: &Config) -> Result<TableStructures> {
    let mut conn = cdc_mysql::conn::connect(config).await?;
    Ok(discover(&mut conn, config).await?.0)
}

fn executed(server: &Server) -> Result<GtidSet> {
    Ok(GtidSet::parse(&server.executed()?)?)
}

/// One transaction of several statements and tables, some of them not captured, between two others.
fn transactions(database: &str) -> String {
    let pad = "x".repeat(3000);
    format!(
        "USE {database};
         INSERT INTO a VALUES (1, '1', 0), (2, '2', 0), (3, '3', 0), (4, '4', 0), (5, '5', 0);
         BEGIN;
         INSERT INTO a VALUES (11, '{pad}', 0), (12, '{pad}', 0), (13, '{pad}', 0), (14, '{pad}', 0);
         UPDATE a SET v = v + 1 WHERE id IN (1, 2, 3);
         INSERT INTO other VALUES (1), (2), (3);
         SAVEPOINT s; DELETE FROM a WHERE id = 5; ROLLBACK TO SAVEPOINT s;
         INSERT INTO b VALUES (7, 7);
         UPDATE a JOIN b ON b.id = 7 SET a.v = 70, b.v = 71 WHERE a.id <= 2;
         DELETE FROM a WHERE id IN (3, 4);
         UPDATE b SET id = 8 WHERE id = 7;
         COMMIT;
         INSERT INTO b VALUES (99, 1);
         DELETE FROM a;"
    )
}

async fn check_every_position(database: &str, settings: &str) -> Result<()> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database}; CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(4000), v INT); \
         CREATE TABLE b (id INT PRIMARY KEY, v INT); CREATE TABLE other (id INT PRIMARY KEY)"
    ))?;
    let config = config(server, &[&format!("{database}.*"), &format!("!{database}.other")]);
    let structures = structures(&config).await?;
    let reader = |position: &Position| LogReader::new(config.clone(), position, structures.clone());
    let start = Position { gtids: executed(server)?.to_string().into(), ..Position::default() };
    server.sql(&format!("{settings}; {}", transactions(database)))?;
    let end = executed(server)?;
    let mut positions = Vec::new();
    let changes =
        read_to(&mut reader(&start)?, &end, |reader, given| positions.push((reader.position(), given)))
            .await?;
    let expected = 5 + 4 + 3 + 1 + 3 + 2 + 1 + 1 + 7;
    ensure!(changes.len() == expected, "{} changes: {changes:?}", changes.len());
    // the reader's own positions, and those between two rows of one event
    let mut checked = 0;
    for (at, (position, given)) in positions.iter().enumerate() {
        let next = positions.get(at + 1).map_or(*given, |(_, next)| *next);
        for more in 0..(next - given).max(1) {
            let position = Position { rows: position.rows + more as u64, ..position.clone() };
            let position: Position = serde_json::from_str(&serde_json::to_string(&position)?)?;
            let rest = read_to(&mut reader(&position)?, &end, |_, _| {}).await?;
            ensure!(
                rest == changes[given + more..],
                "from {position}: {} of {} changes",
                rest.len(),
                changes.len() - given - more
            );
            checked += 1;
        }
    }
    eprintln!("{database}: {checked} positions, {expected} changes each read on right");
    // more rows than the transaction has: not the run that left this position
    let (inside, _) =
        positions.iter().find(|(position, _)| position.rows > 0).context("a position inside")?;
    let beyond = Position { rows: 1000, ..inside.clone() };
    let error = read_to(&mut reader(&beyond)?, &end, |_, _| {}).await.err().context("no error")?;
    ensure!(error.to_string().contains("row changes"), "{error}");
    Ok(())
}

/// MySQL compresses a transaction as a whole, MariaDB the rows of each event.
fn compression(server: &Server, on: bool) -> &'static str {
    match (server.kind().is_mariadb(), on) {
        (false, false) => "SET SESSION binlog_transaction_compression = OFF",
        (false, true) => "SET SESSION binlog_transaction_compression = ON",
        (true, false) => "SET GLOBAL log_bin_compress = OFF",
        (true, true) => "SET GLOBAL log_bin_compress_min_len = 10, GLOBAL log_bin_compress = ON",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_19_20_from_every_position_inside_a_transaction() -> Result<()> {
    check_every_position("c19", compression(server(), false)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_20_28_from_every_position_inside_a_compressed_transaction() -> Result<()> {
    check_every_position("c20", compression(server(), true)).await
}

/// The connection breaks behind every so many bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_19_a_log_that_breaks_anywhere_loses_and_doubles_nothing() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE c19b; USE c19b; CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(4000), v INT); \
         CREATE TABLE b (id INT PRIMARY KEY, v INT); CREATE TABLE other (id INT PRIMARY KEY)",
    )?;
    let proxy = Proxy::start(server.port())?;
    let config = config_at(proxy.port(), &["c19b.*", "!c19b.other"]);
    let structures = structures(&config).await?;
    let start = Position { gtids: executed(server)?.to_string().into(), ..Position::default() };
    server.sql(&transactions("c19b"))?;
    let end = executed(server)?;
    let reader = || LogReader::new(config.clone(), &start, structures.clone());
    let expected = read_to(&mut reader()?, &end, |_, _| {}).await?;
    let mut cuts = 0;
    for after in (0..24_000).step_by(600) {
        let mut reader = reader()?;
        reader.ensure_connected().await?;
        proxy.cut_after(after);
        let accepted = proxy.accepted();
        let changes = read_to(&mut reader, &end, |_, _| {}).await?;
        ensure!(
            changes == expected,
            "cut after {after} bytes: {} of {} changes",
            changes.len(),
            expected.len()
        );
        cuts += proxy.accepted() - accepted;
        // what is left of the stroke must not hit the next round
        proxy.cut_after(u32::MAX);
    }
    ensure!(cuts >= 10, "{cuts} connections were cut");
    eprintln!("c19b: {cuts} cuts, {} changes each time", expected.len());
    Ok(())
}

/// Snapshot and log with large transactions, while every connection is cut again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_19_a_capture_whose_connections_break_ends_equal() -> Result<()> {
    let server = server();
    let rows: Vec<String> = (0..500).map(|id| format!("({id}, REPEAT('x', 30), 0)")).collect();
    server.sql(&format!(
        "CREATE DATABASE c19c; USE c19c; CREATE TABLE t (id INT PRIMARY KEY, t VARCHAR(400), v INT); INSERT INTO t VALUES {}",
        rows.join(", ")
    ))?;
    let proxy = Proxy::start(server.port())?;
    let mut config = config_at(proxy.port(), &["c19c.t"]);
    config.chunk_rows = 10;
    common::dawdle(&mut config, Duration::from_millis(2));
    // One write between two cuts, and then slowly: what is written faster than it can be read is never caught up with.
    let (cuts, written) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let writer = Writer::start(server, {
        let cuts = cuts.clone();
        move |turn| {
            if turn % 2 == 0 && written.load(Ordering::Relaxed) > cuts.load(Ordering::Relaxed) {
                return "DO SLEEP(0.05)".to_owned();
            }
            let n = written.fetch_add(1, Ordering::Relaxed);
            match n % 3 {
                0 => format!("UPDATE c19c.t SET v = {n} WHERE id % 2 = 0"),
                1 => format!(
                    "BEGIN; UPDATE c19c.t SET v = {n}; UPDATE c19c.t SET v = -v; COMMIT; DO SLEEP(0.01)"
                ),
                _ => format!(
                    "INSERT INTO c19c.t VALUES ({}, 'new', {n}); DELETE FROM c19c.t WHERE id = {}",
                    1000 + n,
                    n
                ),
            }
        }
    })
    .await?;
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    let mut cut = 0;
    // a different number of bytes each time, so that it hits chunks, watermarks and the middle of transactions
    while cut < 20 || !capture.is_whole() {
        proxy.cut_after(20_000 + 37_813 * cut % 600_000);
        cut += 1;
        cuts.fetch_add(1, Ordering::Relaxed);
        let told = copy.notices.len();
        copy.run(&mut capture, |capture, copy| {
            copy.notices.len() > told || (capture.is_whole() && cut >= 20)
        })
        .await?;
        ensure!(cut < 300, "no progress");
    }
    proxy.cut_after(u32::MAX);
    let written = writer.end().await?;
    copy.catch_up(&mut capture).await?;
    eprintln!(
        "c19c: {cut} cuts, {written} writes, {} changes, {} notices",
        copy.log.len(),
        copy.notices.len()
    );
    assert_all_equal(server, &copy).await
}

/// CREATE TABLE .. SELECT is one transaction with its rows: sent again, it must not be told again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_42_a_table_created_with_rows_survives_a_broken_connection() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE c42; USE c42; CREATE TABLE t (id INT PRIMARY KEY, t VARCHAR(4000)); INSERT INTO t
         WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 50) SELECT n, REPEAT('x', 3000) FROM s",
    )?;
    let proxy = Proxy::start(server.port())?;
    let (mut capture, mut copy) = initial(config_at(proxy.port(), &["c42.*"])).await?;
    for (n, after) in [3_000, 30_000, 60_000, 100_000, 140_000].into_iter().enumerate() {
        proxy.cut_after(after);
        let told = copy.notices.len();
        server.sql(&format!("CREATE TABLE c42.n{n} (PRIMARY KEY (id)) AS SELECT * FROM c42.t; INSERT INTO c42.n{n} VALUES (99, '')"))?;
        let end = executed(server)?.to_string();
        let end = Position { gtids: end.into(), ..Position::default() };
        copy.run_to(&mut capture, &end).await?;
        ensure!(copy.notices.len() > told, "{after}: nothing was cut");
        ensure!(copy.schemas_told == n + 1, "told {} times", copy.schemas_told);
    }
    assert_all_equal(server, &copy).await
}

/// The statement that asks for it, and its columns, are others on each server.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_33_the_end_of_the_log_is_asked_for_in_the_servers_words() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE c33; CREATE TABLE c33.t (id INT PRIMARY KEY)")?;
    let (capture, _) = initial(config(server, &["c33.t"])).await?;
    let words = if server.kind().is_mariadb() { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
    for n in 0..3 {
        server.sql(&format!("FLUSH BINARY LOGS; INSERT INTO c33.t VALUES ({n})"))?;
        let theirs = |text: String| text.split('\t').take(2).collect::<Vec<_>>().join(":");
        let mut asked = Vec::new();
        // other tests may write in between
        for _ in 0..50 {
            let before = theirs(server.sql(words)?);
            let position = capture.server_position().await?;
            let ours = format!("{}:{}", position.file, position.offset);
            let is_equal = ours == before;
            asked.push((before, ours));
            if is_equal {
                break;
            }
        }
        ensure!(asked.last().is_some_and(|(theirs, ours)| theirs == ours), "{asked:?}");
    }
    Ok(())
}

/// The ids that a start mode gives out, as copied from a table of ids to which one is added each time.
async fn ids_from(start: StartMode, write: impl FnOnce() -> Result<()>) -> Result<Vec<i64>> {
    let mut config = config(server(), &["c21.t"]);
    config.start = start;
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    write()?;
    copy.catch_up(&mut capture).await?;
    ensure!(copy.chunks.is_empty(), "chunks were read");
    let id = |change: &RowChange| match change.after.as_ref().map(|row| row.get(0).into_owned()) {
        Some(Value::Int(id)) => id,
        other => panic!("{other:?}"),
    };
    Ok(copy.log.iter().map(|(_, change)| id(change)).collect())
}

/// Where the transaction begins that holds this change of `c21.t`.
async fn begin_of_change(number: usize, from: &Position) -> Result<(String, u64)> {
    let config = config(server(), &["c21.t"]);
    let mut reader = LogReader::new(config.clone(), from, structures(&config).await?)?;
    let mut seen = 0;
    loop {
        if let LogItem::Rows { origin, changes, .. } = reader.next().await? {
            if seen + changes.len() > number {
                return Ok((origin.file.to_string(), origin.offset));
            }
            seen += changes.len();
        }
    }
}

/// A time, and what makes the transaction that follows one of it or later. The log of MySQL tells microseconds; that
/// of MariaDB seconds, and a transaction of the second in which a start lies may be behind it.
fn moment(server: &Server, number: i64) -> Result<(i64, String)> {
    if server.kind().is_mariadb() {
        let second = 1_700_000_000 + number;
        return Ok((second * 1_000_000 + 900_000, format!("SET timestamp = {second}")));
    }
    let now = server.sql("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")?;
    Ok((now.trim().parse()?, "DO 0".to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_21_start_modes_give_what_is_at_or_after_them() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE c21; CREATE TABLE c21.t (id BIGINT PRIMARY KEY)")?;
    // before each: file and byte, GTID set, time
    let mut points = Vec::new();
    for id in 0..6 {
        let (file, offset) = server.log_end()?;
        let (micros, clock) = moment(server, id)?;
        points.push((file, offset, executed(server)?, micros));
        server.sql(&format!("{clock}; INSERT INTO c21.t VALUES ({id})"))?;
        if id % 2 == 1 {
            server.sql("FLUSH BINARY LOGS")?;
        }
    }
    let nothing = || Ok(());
    let all: Vec<i64> = (0..6).collect();
    for (n, (file, offset, gtids, micros)) in points.iter().enumerate() {
        let rest = &all[n..];
        let modes = [
            StartMode::File(file.clone(), *offset),
            StartMode::Gtids(gtids.clone()),
            StartMode::Timestamp(*micros),
        ];
        for mode in modes {
            let given = ids_from(mode.clone(), nothing).await?;
            ensure!(given == rest, "{mode:?}: {given:?}, not {rest:?}");
        }
    }
    // a byte inside a transaction is behind its begin
    let (file, offset) =
        begin_of_change(2, &Position { gtids: points[0].2.to_string().into(), ..Position::default() })
            .await?;
    let exact = ids_from(StartMode::File(file.clone(), offset), nothing).await?;
    ensure!(exact == all[2..], "{exact:?}");
    let inside = ids_from(StartMode::File(file, offset + 1), nothing).await?;
    ensure!(inside == all[3..], "{inside:?}");
    ensure!(ids_from(StartMode::Earliest, nothing).await? == all);
    ensure!(ids_from(StartMode::Gtids(GtidSet::new()), nothing).await? == all);
    ensure!(ids_from(StartMode::Latest, nothing).await?.is_empty());
    let later = ids_from(StartMode::Latest, || server.sql("INSERT INTO c21.t VALUES (77)").map(drop)).await?;
    ensure!(later == [77], "{later:?}");
    // in the future: what is written now is before it
    let now: i64 = server.sql("SELECT CAST(UNIX_TIMESTAMP() AS SIGNED)")?.trim().parse()?;
    let future = StartMode::Timestamp((now + 3600) * 1_000_000);
    let none = ids_from(future, || server.sql("INSERT INTO c21.t VALUES (78)").map(drop)).await?;
    ensure!(none.is_empty(), "{none:?}");
    // resumed: goes on from there, whatever the start was
    let mut config = config(server, &["c21.t"]);
    config.start = StartMode::Timestamp(points[3].3);
    let mut capture = Capture::start(config.clone()).await?;
    let mut copy = Copy::of(&capture);
    copy.catch_up(&mut capture).await?;
    let state = capture.state();
    drop(capture);
    server.sql("INSERT INTO c21.t VALUES (80), (81)")?;
    let mut capture = Capture::resume(config, &state).await?;
    copy.resume(&capture);
    let before = copy.log.len();
    copy.catch_up(&mut capture).await?;
    ensure!(copy.log.len() == before + 2, "{:?}", &copy.log[before..]);
    // and all of it together is the table
    let (_, copy) = initial(common::config(server, &["c21.t"])).await?;
    assert_all_equal(server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_21_a_start_that_the_server_does_not_have_is_refused() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE c21b; CREATE TABLE c21b.t (id BIGINT PRIMARY KEY)")?;
    let mut config = config(server, &["c21b.t"]);
    config.start = StartMode::File("binlog.999999".into(), 4);
    let error = Capture::start(config.clone()).await.err().context("no error")?;
    ensure!(error.code() == codes::LOG_PURGED && error.to_string().contains("binlog.999999"), "{error}");
    let own = if server.kind().is_mariadb() {
        ["0-1-1000000", "0-4711-1"]
    } else {
        ["3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "3e11fa47-71ca-11e1-9e33-c80aa9429562:5"]
    };
    for gtids in own {
        config.start = StartMode::Gtids(GtidSet::parse(gtids)?);
        let error = refusal(Capture::start(config.clone()).await).await?;
        ensure!(error.code() == codes::SERVER_CHANGED && !error.is_transient(), "{gtids}: {error}");
    }
    // a set of the other kind of server
    let other = if server.kind().is_mariadb() { "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5" } else { "0-1-1" };
    config.start = StartMode::Gtids(GtidSet::parse(other)?);
    let error = refusal(Capture::start(config).await).await?;
    ensure!(error.code() == codes::SERVER_CHANGED && !error.diagnostic().help.is_empty(), "{error}");
    Ok(())
}
