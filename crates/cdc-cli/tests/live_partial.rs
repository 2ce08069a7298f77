//! Row images without all columns, from a server to targets (acceptance cases 28 and 29).

mod support;

use anyhow::{Context, Result, ensure};
use cdc_testkit::history::{History, HistoryOptions, Length};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use std::fs;
use support::{Job, Run};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

fn server_with(options: &[&str]) -> Result<Server> {
    Server::start(options.iter().fold(ServerOptions::of_this_run(), |o, option| o.with(*option)))
}

#[test]
fn case_29_the_other_columns_keep_their_values() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL"])?;
    server.sql(
        "CREATE DATABASE c29 CHARACTER SET utf8mb4;
         CREATE TABLE c29.t (id INT PRIMARY KEY, c1 VARCHAR(20), c2 TEXT, c3 INT DEFAULT 7, c4 DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3));
         INSERT INTO c29.t (id, c1, c2) VALUES (1, 'one', 'text'), (2, 'two', NULL), (3, 'three', 'drei')",
    )?;
    for workers in ["1", "3"] {
        let job = Job::new(&server, "c29", COPY);
        let step = |sql: &str| -> Result<()> {
            server.sql(&format!("USE c29; {sql}"))?;
            job.catch_up(&["--workers", workers])?;
            job.compare(&server, ("c29", "t"), "t").with_context(|| sql.to_owned())?;
            Ok(())
        };
        step("SELECT 1")?;
        step("UPDATE t SET c3 = 1 WHERE id = 1")?;
        ensure!(job.rows("SELECT c1, c2, c3 FROM t WHERE id = 1")? == ["one|text|1"]);
        step(
            "INSERT INTO t (id) VALUES (4); UPDATE t SET c1 = 'vier' WHERE id = 4; UPDATE t SET c2 = 'v' WHERE id = 4",
        )?;
        step("UPDATE t SET id = 20, c3 = 5 WHERE id = 2; UPDATE t SET c1 = 'zwanzig' WHERE id = 20")?;
        step(
            "BEGIN; UPDATE t SET id = 99 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 3; UPDATE t SET id = 3, c2 = 'swapped' WHERE id = 99; COMMIT",
        )?;
        step(
            "BEGIN; DELETE FROM t WHERE id = 3; INSERT INTO t (id, c2) VALUES (3, 'again'); UPDATE t SET c3 = 8 WHERE id = 3; COMMIT",
        )?;
        step("BEGIN; UPDATE t SET c1 = 'gone' WHERE id = 3; DELETE FROM t WHERE id = 3; COMMIT")?;
        step("REPLACE INTO t (id, c1) VALUES (4, 'replaced'); REPLACE INTO t (id) VALUES (5)")?;
        step("UPDATE t SET id = id + 1000 ORDER BY id DESC")?;
        ensure!(job.verify()? >= 4);
        server.sql("USE c29; DELETE FROM t; INSERT INTO t (id, c1, c2) VALUES (1, 'one', 'text'), (2, 'two', NULL), (3, 'three', 'drei')")?;
    }
    Ok(())
}

/// Columns renamed and dropped, and what the feeds say.
#[test]
fn case_29_plain_flows_and_feeds() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL"])?;
    server.sql(
        "CREATE DATABASE c29f CHARACTER SET utf8mb4;
         CREATE TABLE c29f.t (id INT PRIMARY KEY, a VARCHAR(20), b INT, c TEXT);
         INSERT INTO c29f.t VALUES (1, 'one', 1, 'c'), (2, 'two', 2, 'c')",
    )?;
    let body = "sink dw = sqlite { path = \"target.db\" }
sink plain = jsonl { path = \"plain.jsonl\", format = \"plain\" }
sink feed = jsonl { path = \"feed.jsonl\" }
sink none = null {}
src.t |> select id as number, a as name, b, id * 2 as twice => dw.t
src.t => plain.t
src.t => feed.t
src.t => none.t";
    let job = Job::new(&server, "c29f", body);
    job.catch_up(&["--workers", "2"])?;
    server.sql("USE c29f; UPDATE t SET a = 'uno' WHERE id = 1; UPDATE t SET id = 7, b = 70 WHERE id = 2; DELETE FROM t WHERE id = 1")?;
    job.catch_up(&["--workers", "2"])?;
    ensure!(
        job.rows("SELECT number, name, b, twice FROM t")? == ["7|two|70|14"],
        "{:?}",
        job.rows("SELECT * FROM t")?
    );
    let tail = |name: &str| -> Result<Vec<String>> {
        let text = fs::read_to_string(job.path(name))?;
        Ok(text.lines().skip(2).map(str::to_owned).collect())
    };
    let plain = tail("plain.jsonl")?;
    let says = [
        r#""op":"update","key":{"id":1},"from":{"id":1},"row":{"id":1,"a":"uno"}}"#,
        r#""op":"update","key":{"id":7},"from":{"id":2},"row":{"id":7,"b":70}}"#,
        r#""op":"delete","key":{"id":1},"row":null}"#,
    ];
    ensure!(
        plain.len() == 3 && plain.iter().zip(says).all(|(line, says)| line.ends_with(says)),
        "{plain:#?}"
    );
    let feed = tail("feed.jsonl")?;
    let says = [
        r#"{"before":{"id":1},"after":{"id":1,"a":"uno"},"source""#,
        r#"{"before":{"id":2},"after":{"id":7,"b":70},"source""#,
        r#"{"before":{"id":1},"after":null,"source""#,
    ];
    ensure!(feed.len() == 3 && feed.iter().zip(says).all(|(line, says)| line.starts_with(says)), "{feed:#?}");
    Ok(())
}

/// What needs whole rows says so before anything starts, and at a session's image.
#[test]
fn case_29_flows_that_need_whole_rows() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL"])?;
    server.sql(
        "CREATE DATABASE c29w; CREATE TABLE c29w.t (id INT PRIMARY KEY, a VARCHAR(20), b INT);
         INSERT INTO c29w.t VALUES (1, 'one', 1), (2, 'two', 2)",
    )?;
    let bodies = [
        ("src.t |> where b > 1 => dw.t", "a filter reads column \"b\""),
        ("src.t |> extend upper(a) as up => dw.t", "a computed column reads column \"a\""),
        ("src.t => dw.t key (a)", "the target's key holds column \"a\""),
    ];
    for (flow, why) in bodies {
        let body = format!("sink dw = sqlite {{ path = \"target.db\" }}\n{flow}");
        let job = Job::new(&server, "c29w", &body);
        let said = job.fails(1207)?;
        for part in [why, "c29w.t", "binlog_row_image = MINIMAL", "binlog_row_image = FULL"] {
            ensure!(said.err.contains(part), "no {part:?}\n{}", said.text());
        }
        ensure!(
            !job.path("target.db").exists()
                || job.rows("SELECT name FROM sqlite_master WHERE name = 't'")?.is_empty()
        );
        let said = Run::start(&mut job.command("check", &["--live"]))?.wait()?;
        ensure!(said.code != Some(0) && said.text().contains(why), "{}", said.text());
        // the server's setting does, a session's does not
        server.sql("SET GLOBAL binlog_row_image = FULL")?;
        job.catch_up(&[])?;
        server.sql("SET SESSION binlog_row_image = MINIMAL; UPDATE c29w.t SET b = b + 10 WHERE id = 2")?;
        let said = job.fails(1207)?;
        for part in ["flow \"", "c29w.t", "binlog_row_image"] {
            ensure!(said.err.contains(part), "no {part:?}\n{}", said.text());
        }
        server.sql("SET GLOBAL binlog_row_image = MINIMAL")?;
    }
    // all is well where nothing but the key is read; the setting is told as a weak one
    let job =
        Job::new(&server, "c29w", "sink dw = sqlite { path = \"target.db\" }\nsrc.t |> where id > 1 => dw.t");
    job.catch_up(&[])?;
    server.sql("UPDATE c29w.t SET b = 5")?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT id, b FROM t")? == ["2|5"]);
    let said = Run::start(&mut job.command("check", &["--live"]))?.wait()?;
    ensure!(said.code == Some(0) && said.text().contains("weak   binlog_row_image"), "{}", said.text());
    Ok(())
}

/// Rows are spread over workers by their key where the server's images are whole. One that a session moves to another key
/// by an image that is not stops the run, which one worker goes on from.
#[test]
fn case_29_a_session_moves_a_row_and_there_are_several_workers() -> Result<()> {
    let server = server_with(&[])?;
    let values: Vec<String> = (1..50).map(|i| format!("({i}, {i}, 'b{i}')")).collect();
    server.sql(&format!("CREATE DATABASE c29s; CREATE TABLE c29s.t (id INT PRIMARY KEY, a INT, b TEXT); INSERT INTO c29s.t VALUES {}", values.join(", ")))?;
    for flow in ["src.* => dw.*", "src.t => dw.t key (id)"] {
        let job = Job::new(&server, "c29s", &format!("sink dw = sqlite {{ path = \"target.db\" }}\n{flow}"));
        job.catch_up(&["--workers", "3"])?;
        // of one key, in one worker
        server.sql("USE c29s; SET SESSION binlog_row_image = MINIMAL; UPDATE t SET a = a + 1; UPDATE t SET b = 'x' WHERE id % 2 = 0; UPDATE t SET a = 0 WHERE id % 3 = 0; DELETE FROM t WHERE id = 7; INSERT INTO t (id) VALUES (7)")?;
        job.catch_up(&["--workers", "3"])?;
        job.compare(&server, ("c29s", "t"), "t")?;
        server.sql("USE c29s; SET SESSION binlog_row_image = MINIMAL; UPDATE t SET id = id + 100; UPDATE t SET id = id - 100")?;
        let said = job.start(&["--until", "caught-up", "--workers", "3"])?.wait()?;
        said.failed(1207)?;
        ensure!(said.err.contains("--workers 1") && said.err.contains("c29s.t"), "{}", said.text());
        job.catch_up(&["--workers", "1"])?;
        job.compare(&server, ("c29s", "t"), "t")?;
        server.sql("USE c29s; DELETE FROM t WHERE id = 7; INSERT INTO t VALUES (7, 7, 'b7')")?;
    }
    Ok(())
}

/// From a log of the past structures are known by what it tells: a default is not.
#[test]
fn case_29_a_log_of_the_past() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL"])?;
    server.sql(
        "CREATE DATABASE c29p; CREATE TABLE c29p.t (id INT PRIMARY KEY, a INT DEFAULT 4, b VARCHAR(9));
         INSERT INTO c29p.t VALUES (1, 1, 'one'), (2, 2, 'two'); DELETE FROM c29p.t WHERE id = 2",
    )?;
    let job = Job::with(&server, "[\"c29p.*\"]", "", "start = earliest", COPY);
    job.catch_up(&[])?;
    job.compare(&server, ("c29p", "t"), "t")?;
    server.sql("USE c29p; INSERT INTO t (id) VALUES (3); ALTER TABLE t ALTER a SET DEFAULT 5")?;
    let said = job.fails(1207)?;
    ensure!(said.err.contains("\"a\"") && said.err.contains("c29p.t"), "{}", said.text());
    Ok(())
}

/// Rows of an XA transaction, and those that are written in two phases over a restart.
#[test]
fn case_29_in_xa_transactions() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL"])?;
    server.sql("CREATE DATABASE c29x; CREATE TABLE c29x.t (id INT PRIMARY KEY, a INT DEFAULT 4, b VARCHAR(9)); INSERT INTO c29x.t VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'drei')")?;
    let job = Job::new(&server, "c29x", COPY);
    job.catch_up(&[])?;
    server.sql(
        "USE c29x; XA START 'x'; UPDATE t SET a = 10 WHERE id = 1; UPDATE t SET id = 20 WHERE id = 2; INSERT INTO t (id) VALUES (4);
         UPDATE t SET b = 'x' WHERE id = 20; REPLACE INTO t (id) VALUES (3); XA END 'x'; XA PREPARE 'x'",
    )?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT id, a, b FROM t ORDER BY id")? == ["1|1|one", "2|2|two", "3|3|drei"]);
    server.sql("XA COMMIT 'x'")?;
    job.catch_up(&[])?;
    job.compare(&server, ("c29x", "t"), "t")?;
    let rows = job.rows("SELECT id, a, COALESCE(b, '-') FROM t ORDER BY id")?;
    ensure!(rows == ["1|10|one", "3|4|-", "4|4|-", "20|2|x"], "{rows:?}");
    Ok(())
}

/// A target that has lost a row does not hide it.
#[test]
fn case_29_a_row_that_is_not_there_is_an_error() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL"])?;
    server.sql("CREATE DATABASE c29m; CREATE TABLE c29m.t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO c29m.t VALUES (1, 1, 1), (2, 2, 2)")?;
    let job = Job::new(&server, "c29m", COPY);
    job.catch_up(&[])?;
    rusqlite::Connection::open(job.path("target.db"))?.execute("DELETE FROM t WHERE id = 2", [])?;
    server.sql("UPDATE c29m.t SET a = 5 WHERE id = 2")?;
    let said = job.fails(2010)?;
    ensure!(said.err.contains("key (2)") && said.err.contains("\"t\""), "{}", said.text());
    Ok(())
}

/// Random histories under writers, with restarts, over several workers.
#[test]
fn case_29_random_histories_reach_the_target() -> Result<()> {
    for (image, workers, seed) in [("MINIMAL", "1", 41), ("MINIMAL", "3", 42), ("NOBLOB", "2", 43)] {
        let server = server_with(&[&format!("--binlog-row-image={image}")])?;
        let options = HistoryOptions {
            seed,
            database: "h".into(),
            initial_rows: 600,
            rate: Some(100),
            ..HistoryOptions::default()
        };
        let job = Job::with(&server, "[\"h.*\"]", "", "chunk_rows = 100", COPY);
        let mut history = History::create(&server, options)?;
        let writers = history.start(&server, Length::Transactions(150))?;
        for _ in 0..3 {
            job.catch_up(&["--workers", workers])?;
        }
        history = writers.wait()?;
        job.catch_up(&["--workers", workers])?;
        history.run(&server, Length::Transactions(50))?;
        job.catch_up(&["--workers", workers])?;
        let mut rows = 0;
        for table in history.tables() {
            rows += job
                .compare(&server, ("h", &table), &table)
                .with_context(|| format!("{image}, CDC_SEED={seed}"))?;
        }
        println!("{image}, {workers} workers: {rows} rows equal");
    }
    Ok(())
}

#[test]
fn case_28_compressed_transactions() -> Result<()> {
    let mysql = ServerKind::of_this_run() == ServerKind::MySql;
    let options = if mysql {
        vec!["--binlog-transaction-compression=ON", "--binlog-row-value-options=PARTIAL_JSON"]
    } else {
        vec!["--log-bin-compress=ON", "--log-bin-compress-min-len=10"]
    };
    for image in ["FULL", "MINIMAL"] {
        let image = format!("--binlog-row-image={image}");
        // a partial update of a document needs the row before
        let mut options = options.clone();
        if mysql && image.ends_with("MINIMAL") {
            options.pop();
        }
        options.push(&image);
        let server = server_with(&options)?;
        let document = r#"{"a": 1, "b": [1, 2, {"c": "a longer text"}], "d": "text"}"#;
        let values: Vec<String> =
            (1..200).map(|i| format!("({i}, '{document}', REPEAT('x', {i}), {i})")).collect();
        server.sql(&format!(
            "CREATE DATABASE c28; CREATE TABLE c28.t (id INT PRIMARY KEY, j JSON, c TEXT, n INT); INSERT INTO c28.t VALUES {}",
            values.join(", ")
        ))?;
        let job = Job::new(&server, "c28", COPY);
        job.catch_up(&[])?;
        server.sql(
            "USE c28; UPDATE t SET j = JSON_SET(j, '$.a', n, '$.new', 'x'); UPDATE t SET n = -n WHERE id % 2 = 0;
             UPDATE t SET j = JSON_REMOVE(j, '$.b[0]', '$.d'), c = 'both' WHERE id % 3 = 0;
             UPDATE t SET j = JSON_ARRAY_INSERT(j, '$.b[1]', 1.5) WHERE id % 5 = 0; DELETE FROM t WHERE id % 7 = 0;
             UPDATE t SET id = id + 1000, j = JSON_REPLACE(j, '$.b[1]', 'replaced') WHERE id % 11 = 0;
             INSERT INTO t (id, j) VALUES (5000, '[1, 2]'); UPDATE t SET j = JSON_SET(j, '$[1]', 'two') WHERE id = 5000",
        )?;
        job.catch_up(&["--workers", "2"])?;
        let rows = job.compare(&server, ("c28", "t"), "t")?;
        ensure!(rows == 172, "{rows} rows");
        job.verify()?;
    }
    Ok(())
}

/// Without the document before a difference is refused, with what to set.
#[test]
fn case_28_partial_json_under_minimal_mysql_only() -> Result<()> {
    let server = server_with(&["--binlog-row-image=MINIMAL", "--binlog-row-value-options=PARTIAL_JSON"])?;
    server.sql("CREATE DATABASE c28j; CREATE TABLE c28j.t (id INT PRIMARY KEY, j JSON, n INT); INSERT INTO c28j.t VALUES (1, '{\"a\": 1, \"b\": \"some longer text\"}', 1)")?;
    let job = Job::new(&server, "c28j", COPY);
    job.catch_up(&[])?;
    server.sql("UPDATE c28j.t SET n = 2; UPDATE c28j.t SET j = JSON_SET(j, '$.a', 2)")?;
    let said = job.fails(1207)?;
    for part in ["\"j\"", "c28j.t", "binlog_row_value_options"] {
        ensure!(said.err.contains(part), "no {part:?}\n{}", said.text());
    }
    Ok(())
}
