//! The set of tables changes (acceptance cases 34 to 36, 44): between two runs, by tables that get a name while running,
//! and by statements that move rows without row events.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::codes;
use cdc_mysql::capture::{Capture, CaptureState};
use common::{Copy, Writer, assert_all_equal, config, initial, server};
use std::time::Duration;

async fn resumed(tables: &[&str], state: &CaptureState, copy: &mut Copy) -> Result<Capture> {
    let state: CaptureState = serde_json::from_str(&serde_json::to_string(state)?)?;
    let mut config = config(server(), tables);
    config.chunk_rows = 100;
    let capture = Capture::resume(config, &state).await?;
    copy.tables.retain(|id, _| capture.schemas().any(|s| s.id == *id));
    copy.resume(&capture);
    Ok(capture)
}

fn filled(table: &str, rows: u32) -> String {
    let rows: Vec<String> = (0..rows).map(|id| format!("({id}, 0)")).collect();
    format!(
        "CREATE TABLE {table} (id INT PRIMARY KEY, v INT); INSERT INTO {table} VALUES {};",
        rows.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_35_a_table_comes_and_another_goes_between_two_runs() -> Result<()> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE s35; USE s35; {} {} {}",
        filled("old", 500),
        filled("fresh", 1000),
        filled("goes", 10)
    ))?;
    let (mut capture, mut copy) = initial(config(server, &["s35.old", "s35.goes"])).await?;
    copy.catch_up(&mut capture).await?;
    let state = capture.state();
    drop(capture);
    // what happens to the new table while nobody reads is in its snapshot, its statements too
    server.sql(
        "USE s35; UPDATE old SET v = 1 WHERE id < 10; DELETE FROM fresh WHERE id < 10; ALTER TABLE fresh ADD COLUMN n INT DEFAULT 5;
         INSERT INTO fresh VALUES (5000, 1, 1); ALTER TABLE fresh DROP COLUMN v; UPDATE old SET v = 2 WHERE id < 5",
    )?;
    let chunks = copy.chunks.len();
    let writer = Writer::start(server, |n| {
        format!(
            "UPDATE s35.fresh SET n = {n} WHERE id % 7 = {}; UPDATE s35.old SET v = v + 1 WHERE id = {}",
            n % 7,
            n % 500
        )
    })
    .await?;
    let mut capture = resumed(&["s35.old", "s35.fresh"], &state, &mut copy).await?;
    copy.run(&mut capture, |capture, copy| capture.is_whole() && copy.schemas.len() == 2).await?;
    // restarted once more, with the table that came in
    let state = capture.state();
    ensure!(state.ahead.is_empty(), "{:?}", state.ahead);
    drop(capture);
    let mut capture = resumed(&["s35.old", "s35.fresh"], &state, &mut copy).await?;
    writer.end().await?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    let of_old = copy.chunks[chunks..].iter().filter(|(id, _)| *id.table == *"old").count();
    ensure!(of_old == 0, "the old table was copied again");
    ensure!(!copy.schemas.keys().any(|id| *id.table == *"goes"), "{:?}", copy.schemas.keys());
    Ok(())
}

/// A restart while the new table's start is looked for, and before the log has come to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_35_restarts_while_a_table_comes_in() -> Result<()> {
    let server = server();
    server.sql(&format!("CREATE DATABASE s35b; USE s35b; {} {}", filled("old", 50), filled("fresh", 300)))?;
    let (mut capture, mut copy) = initial(config(server, &["s35b.old"])).await?;
    copy.catch_up(&mut capture).await?;
    let mut state = capture.state();
    drop(capture);
    for n in 0..200 {
        server.sql(&format!(
            "UPDATE s35b.old SET v = {n} WHERE id = {}; UPDATE s35b.fresh SET v = {n}",
            n % 50
        ))?;
    }
    for wait in [0, 5, 20, 60] {
        let mut capture = resumed(&["s35b.*"], &state, &mut copy).await?;
        let until = tokio::time::Instant::now() + Duration::from_millis(wait);
        copy.run(&mut capture, |_, _| tokio::time::Instant::now() > until).await?;
        state = capture.state();
    }
    let mut capture = resumed(&["s35b.*"], &state, &mut copy).await?;
    copy.run(&mut capture, |capture, copy| capture.is_whole() && copy.schemas.len() == 2).await?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_36_44_tables_that_get_a_name_while_running() -> Result<()> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE s36; CREATE DATABASE s36x; USE s36; {} {}",
        filled("t", 500),
        filled("s36x.rebuilt", 700)
    ))?;
    let mut config = config(server, &["s36.*"]);
    config.chunk_rows = 100;
    let (mut capture, mut copy) = initial(config).await?;
    server.sql("CREATE TABLE s36.made (id INT PRIMARY KEY); INSERT INTO s36.made VALUES (1), (2)")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    // a nightly rebuild
    for round in 0..3 {
        server.sql(&format!(
            "USE s36x; INSERT INTO rebuilt VALUES ({}, 1); RENAME TABLE s36.t TO s36x.old, rebuilt TO s36.t; RENAME TABLE old TO rebuilt;
             UPDATE s36.t SET v = 5 WHERE id < 3; DELETE FROM s36.t WHERE id = {round}",
            9000 + round
        ))?;
        copy.run(&mut capture, |capture, copy| capture.is_whole() && copy.schemas.len() == 2).await?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(server, &copy).await?;
    }
    // gone before its start is found
    server.sql("CREATE TABLE s36x.short (id INT PRIMARY KEY); RENAME TABLE s36x.short TO s36.short; DROP TABLE s36.short")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.schemas.len() == 2, "{:?}", copy.schemas.keys());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_44_statements_that_move_rows_unseen_copy_the_table_again() -> Result<()> {
    let server = server();
    let rows: Vec<String> = (0..1000).map(|id| format!("({id}, {id}, 'text {id}')")).collect();
    server.sql(&format!(
        "CREATE DATABASE s44; USE s44; CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(20))
           PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (300), PARTITION b VALUES LESS THAN (600), PARTITION c VALUES LESS THAN MAXVALUE);
         INSERT INTO t VALUES {}; CREATE TABLE narrow (id INT PRIMARY KEY, s VARCHAR(20)); INSERT INTO narrow VALUES (1, 'long enough'), (2, 'x')",
        rows.join(", ")
    ))?;
    let mut config = config(server, &["s44.*"]);
    config.chunk_rows = 100;
    let (mut capture, mut copy) = initial(config).await?;
    server.sql("ALTER TABLE s44.t DROP PARTITION a")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    server.sql("ALTER TABLE s44.t TRUNCATE PARTITION b; INSERT INTO s44.t VALUES (350, 1, 'y'); SET sql_mode = ''; ALTER TABLE s44.narrow MODIFY s VARCHAR(4)")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    server.sql(
        "USE s44; CREATE TABLE o LIKE t; ALTER TABLE o REMOVE PARTITIONING; INSERT INTO o VALUES (610, 1, 'z'), (611, 1, 'z');
         ALTER TABLE t EXCHANGE PARTITION c WITH TABLE o",
    )?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await?;
    ensure!(copy.rows("t").len() == 3 && copy.rows("o").len() == 400, "{}", copy.rows("t").len());
    Ok(())
}

/// The key changes while the table is copied: ranges of the old one say nothing any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_14_another_key_while_chunks_are_read() -> Result<()> {
    let server = server();
    let rows: Vec<String> = (0..2000).map(|id| format!("({id}, {})", 5000 - id)).collect();
    server.sql(&format!(
        "CREATE DATABASE s14; USE s14; CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT NOT NULL); INSERT INTO t VALUES {}",
        rows.join(", ")
    ))?;
    let mut config = config(server, &["s14.t"]);
    config.chunk_rows = 100;
    common::at(&mut config, cdc_mysql::config::Point::AfterLow, "t", 5, move || {
        let sql = "ALTER TABLE s14.t DROP PRIMARY KEY, ADD PRIMARY KEY (b); DELETE FROM s14.t WHERE b % 10 = 3; UPDATE s14.t SET b = -b WHERE b % 10 = 4";
        _ = common::server().sql(sql).unwrap_or_else(|error| panic!("{error}"));
    });
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await
}

/// Behind the SELECT's low watermark a column goes and another one comes under its name: what the SELECT reads is no
/// number any more, which is no error of the value.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_14_another_column_of_the_same_name_while_chunks_are_read() -> Result<()> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE s14n; USE s14n; CREATE TABLE t (id INT PRIMARY KEY, v SMALLINT); {};
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n, n FROM s",
        server.kind().recursion(1000)
    ))?;
    let mut config = config(server, &["s14n.t"]);
    config.chunk_rows = 100;
    common::at(&mut config, cdc_mysql::config::Point::AfterLow, "t", 5, move || {
        let sql = "ALTER TABLE s14n.t DROP COLUMN v; ALTER TABLE s14n.t ADD COLUMN v VARCHAR(10) NOT NULL DEFAULT 'text'; UPDATE s14n.t SET v = 'row'";
        _ = common::server().sql(sql).unwrap_or_else(|error| panic!("{error}"));
    });
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_34_patterns_that_match_nothing() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE s34; CREATE TABLE s34.a1 (id INT PRIMARY KEY); CREATE TABLE s34.a2 (id INT PRIMARY KEY); CREATE TABLE s34.b (id INT PRIMARY KEY)")?;
    let (_, copy) = initial(config(server, &["s34.a?", "s34.nothing*", "/^s34\\.b$/", "!s34.a2"])).await?;
    let tables: Vec<&str> = copy.tables.keys().map(|id| &*id.table).collect();
    ensure!(tables == ["a1", "b"], "{tables:?}");
    let told = copy
        .notices
        .iter()
        .any(|n| n.code == codes::PATTERN_MATCHES_NOTHING && n.headline.contains("nothing*"));
    ensure!(told, "{:?}", copy.notices);
    let none = Capture::start(config(server, &["s34.nothing*"])).await.err().context("no error")?;
    ensure!(none.code() == codes::NO_TABLES, "{none}");
    Ok(())
}
