//! Row images without all columns (`binlog_row_image` MINIMAL and NOBLOB, PARTIAL_JSON), while tables are copied and
//! behind that: the copy must equal the source, or the capture must stop and say why.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::codes;
use cdc_mysql::capture::{Capture, CaptureState};
use cdc_mysql::config::Point;
use cdc_testkit::history::{History, HistoryOptions, Length};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use common::{Copy, assert_all_equal, at, config, initial, root};
use mysql_async::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use std::time::Duration;

fn server_with(image: &str) -> Result<Server> {
    Server::start(ServerOptions::of_this_run().with(format!("--binlog-row-image={image}")))
}

fn seeds(default: &[u64]) -> Result<Vec<u64>> {
    match std::env::var("CDC_SEED") {
        Ok(seed) => Ok(vec![seed.parse()?]),
        Err(_) => Ok(default.to_vec()),
    }
}

const KILLS: usize = 6;

/// As `source_random`: copied and followed under writers, killed and resumed from states that are older than what the
/// target has.
async fn check_history(server: &Server, seed: u64) -> Result<()> {
    let database = format!("random_{seed}");
    let options = HistoryOptions {
        seed,
        database: database.clone(),
        initial_rows: 250,
        rate: Some(150),
        ..HistoryOptions::default()
    };
    let mut rng = StdRng::seed_from_u64(seed);
    let writers = History::create(server, options)?.start(server, Length::Transactions(250))?;
    let mut config = config(server, &[&format!("{database}.*")]);
    config.chunk_rows = rng.random_range(3..12);
    config.chunk_readers = rng.random_range(1..4);
    common::dawdle(&mut config, Duration::from_millis(rng.random_range(0..4)));
    let mut capture = Capture::start(config.clone()).await?;
    let mut copy = Copy::of(&capture);
    for _ in 0..KILLS {
        let mut states: Vec<String> = Vec::new();
        for _ in 0..rng.random_range(2..5) {
            let mut left: u32 = rng.random_range(2..60);
            copy.run(&mut capture, |capture, _| {
                left = left.saturating_sub(1);
                left == 0 && capture.is_past_hold()
            })
            .await?;
            states.push(serde_json::to_string(&capture.state())?);
        }
        let target = capture.position();
        drop(capture);
        let state: CaptureState = serde_json::from_str(&states[rng.random_range(0..states.len() - 1)])?;
        capture = Capture::resume(config.clone(), &state).await?;
        capture.hold_chunks_until(&target)?;
        copy.resume(&capture);
    }
    copy.run(&mut capture, |capture, _| capture.is_whole()).await?;
    let under_writers = writers.is_running();
    let mut history = writers.wait()?;
    copy.catch_up(&mut capture).await?;
    // of whole tables, rows that move to other keys too
    history.run(server, Length::Transactions(60))?;
    copy.catch_up(&mut capture).await?;
    ensure!(history.expected_rows() == history.actual_rows(server)?);
    let partial = |row: &Option<cdc_core::Row>| row.as_ref().is_some_and(cdc_core::Row::has_absent);
    let partly = copy.log.iter().filter(|(_, c)| partial(&c.before) || partial(&c.after)).count();
    let moved = copy.log.iter().filter(|(_, c)| c.before.is_some() && partial(&c.after)).count();
    eprintln!(
        "seed {seed}: {} transactions, {} chunks, {} changes, {partly} of them partial, {moved} with the key before; \
         whole under writers: {under_writers}",
        history.transactions(),
        copy.chunks.len(),
        copy.log.len(),
    );
    ensure!(partly > 100 && moved > 0, "{partly} changes were partial, {moved} of them with the key before");
    assert_all_equal(server, &copy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_random_histories_under_minimal() -> Result<()> {
    let server = server_with("MINIMAL")?;
    for seed in seeds(&[2, 29])? {
        check_history(&server, seed).await.with_context(|| format!("CDC_SEED={seed}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_random_histories_under_noblob() -> Result<()> {
    let server = server_with("NOBLOB")?;
    for seed in seeds(&[3, 292])? {
        check_history(&server, seed).await.with_context(|| format!("CDC_SEED={seed}"))?;
    }
    Ok(())
}

/// Each kind of statement, one after the other, of tables that are whole: after each the copy is the source.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_every_statement() -> Result<()> {
    for image in ["MINIMAL", "NOBLOB"] {
        let server = server_with(image)?;
        let mysql = server.kind() == ServerKind::MySql;
        let by_expression = "x INT DEFAULT (1 + FLOOR(RAND() * 1000000))";
        // MariaDB leaves VIRTUAL columns out, and 11.8 STORED ones too
        let generated = if mysql { ", g INT AS (a + 1) VIRTUAL, h INT AS (a + 2) STORED" } else { "" };
        server.sql(&format!(
            "CREATE DATABASE s; USE s;
             CREATE TABLE plain (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20) DEFAULT 'x', c TEXT,
               d INT NOT NULL DEFAULT 7, e DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3),
               f DATETIME NULL ON UPDATE CURRENT_TIMESTAMP, {by_expression}, bl BLOB, n INT NOT NULL{generated});
             CREATE TABLE constants (id INT PRIMARY KEY, i1 TINYINT UNSIGNED NOT NULL DEFAULT 200, i2 BIGINT DEFAULT -9223372036854775808,
               d1 DECIMAL(9,3) DEFAULT 1.5, d2 DECIMAL(5,0) NOT NULL DEFAULT -7, f1 FLOAT DEFAULT 0.1, f2 DOUBLE DEFAULT -1e100,
               y YEAR DEFAULT 2020, b BIT(9) DEFAULT b'100000001', da DATE DEFAULT '2020-02-29', t1 TIME(2) DEFAULT '-12:13:14.15',
               dt DATETIME(6) DEFAULT '2020-02-29 01:02:03.000004', c CHAR(10) DEFAULT 'it''s', v VARCHAR(10) NOT NULL DEFAULT '',
               bi BINARY(4) DEFAULT 'ab', vb VARBINARY(9) DEFAULT 'cd', en ENUM('p','q','r') DEFAULT 'q',
               se SET('p','q','r') DEFAULT 'r,p', nothing TEXT, w VARCHAR(10) CHARACTER SET latin1 DEFAULT 'é');
             CREATE TABLE implicit (id INT PRIMARY KEY, i INT NOT NULL, d DECIMAL(9,3) NOT NULL, f DOUBLE NOT NULL, y YEAR NOT NULL,
               b BIT(9) NOT NULL, t TIME(2) NOT NULL, c CHAR(10) NOT NULL, v VARCHAR(10) NOT NULL, te TEXT NOT NULL,
               bi BINARY(4) NOT NULL, bl BLOB NOT NULL, en ENUM('p','q') NOT NULL, se SET('p','q') NOT NULL);
             CREATE TABLE uniq (a INT, u INT NOT NULL UNIQUE, b TEXT, c INT DEFAULT 3);
             CREATE TABLE two (id INT PRIMARY KEY, u INT UNIQUE, c TEXT, d INT DEFAULT 7);
             CREATE TABLE composite (a VARCHAR(9), b INT, c TEXT, d INT, PRIMARY KEY (b, a));
             CREATE TABLE zero (id INT DEFAULT 0 PRIMARY KEY, a INT, c TEXT);
             CREATE TABLE trig (id INT PRIMARY KEY, a INT, c TEXT, x INT);
             CREATE TRIGGER before_insert BEFORE INSERT ON trig FOR EACH ROW SET NEW.x = IF(NEW.a = 1, 5, NEW.x);
             CREATE TRIGGER before_update BEFORE UPDATE ON trig FOR EACH ROW SET NEW.c = IF(NEW.a = 2, 'two', NEW.c)"
        ))?;
        let mut config = config(&server, &["s.*"]);
        config.chunk_rows = 2;
        let (mut capture, mut copy) = initial(config).await?;
        let mut conn = root(&server).await?;
        conn.query_drop("USE s").await?;
        conn.query_drop("SET sql_mode = ''").await?;
        let statements = [
            "INSERT INTO plain (a) VALUES (1)",
            "INSERT INTO plain (id, a, b, c, d, e, f, x, n, bl) VALUES (2, 2, 'y', 'c', 3, '2020-01-01', '2020-01-01', 4, 5, 'bb')",
            "INSERT INTO plain (id, a, b, d, n) VALUES (3, DEFAULT, DEFAULT, DEFAULT, 9), (4, 4, 'k', 4, 4)",
            "INSERT INTO plain () VALUES ()",
            "INSERT INTO plain (b) SELECT b FROM plain",
            "UPDATE plain SET b = 'z' WHERE id = 1",
            "UPDATE plain SET b = 'z' WHERE id = 1",
            "UPDATE plain SET b = NULL, c = NULL",
            "UPDATE plain SET a = 5, c = 'new' WHERE id = 2",
            "UPDATE plain SET id = 30 WHERE id = 3",
            "UPDATE plain SET id = 31, b = 'm' WHERE id = 30",
            "UPDATE plain SET id = id + 1000 ORDER BY id DESC",
            "UPDATE plain SET id = id - 1000, c = 'moved' ORDER BY id",
            "INSERT INTO plain (id, a) VALUES (2, 9) ON DUPLICATE KEY UPDATE d = 99",
            "INSERT INTO plain (id, a) VALUES (2, 9), (77, 7) ON DUPLICATE KEY UPDATE d = VALUES(a), c = 'dup'",
            "REPLACE INTO plain (id, a) VALUES (2, 9)",
            "REPLACE INTO plain (id, a) VALUES (200, 9), (4, 2)",
            "DELETE FROM plain WHERE id IN (1, 77)",
            "INSERT INTO constants (id) VALUES (1)",
            "UPDATE constants SET v = 'v' WHERE id = 1",
            "INSERT INTO implicit (id) VALUES (1)",
            "UPDATE implicit SET en = 'q', te = 'x' WHERE id = 1",
            "INSERT INTO uniq VALUES (1, 1, 'b', 2)",
            "INSERT INTO uniq (u) VALUES (2)",
            "UPDATE uniq SET c = 5 WHERE u = 1",
            "UPDATE uniq SET u = 10 WHERE u = 1",
            "UPDATE uniq SET b = 'text' WHERE u = 10",
            "REPLACE INTO uniq (u, a) VALUES (10, 4)",
            "DELETE FROM uniq WHERE u = 2",
            "INSERT INTO two VALUES (1, 1, 'one', 1), (2, 2, 'two', 2), (3, 3, 'three', 3), (4, 4, 'four', 4)",
            "REPLACE INTO two (id) VALUES (1)",
            "REPLACE INTO two (id, u) VALUES (20, 2)",
            "REPLACE INTO two (id, u, c) VALUES (3, 3, 'x')",
            "REPLACE INTO two (id, u) VALUES (3, 4)",
            "UPDATE two SET u = 9 WHERE id = 20",
            "UPDATE two SET d = 9, id = 20 WHERE id = 20",
            "UPDATE s.two AS a JOIN uniq ON TRUE SET a.c = 'joined', uniq.c = 8",
            "INSERT INTO composite VALUES ('a', 1, 'one', 1), ('B', 2, 'two', 2)",
            "UPDATE composite SET d = 5 WHERE b = 1",
            "UPDATE composite SET b = 7 WHERE b = 1",
            "UPDATE composite SET a = 'A' WHERE b = 7",
            "UPDATE composite SET a = 'a', c = 'x' WHERE b = 7",
            "DELETE FROM composite WHERE b = 7",
            "INSERT INTO zero VALUES (0, 1, 'c')",
            "UPDATE zero SET a = 2",
            "REPLACE INTO zero (a) VALUES (3)",
            "INSERT INTO trig (id) VALUES (1)",
            "INSERT INTO trig (id, a) VALUES (2, 1), (3, 2)",
            "UPDATE trig SET a = 2 WHERE id = 2",
            "UPDATE trig SET x = 2 WHERE id = 1",
            // other defaults, and what a statement in front of them left out
            "ALTER TABLE two ALTER d SET DEFAULT 8",
            "INSERT INTO two (id) VALUES (100)",
            "REPLACE INTO two (id) VALUES (100), (20)",
            "ALTER TABLE two MODIFY d INT DEFAULT 9",
            "INSERT INTO two (id, u) VALUES (101, 101)",
            "ALTER TABLE two CHANGE d e INT NOT NULL DEFAULT 10 AFTER id",
            "INSERT INTO two (id, u) VALUES (102, 102)",
            "ALTER TABLE two ALTER e DROP DEFAULT",
            "INSERT IGNORE INTO two (id, u) VALUES (103, 103)",
            "ALTER TABLE two ALTER e SET DEFAULT (1 + 1)",
            "INSERT INTO two (id, c) VALUES (104, 'y')",
            "UPDATE two SET e = 5 WHERE id > 100",
            "ALTER TABLE constants ALTER v SET DEFAULT 'other', ALTER da DROP DEFAULT, ALTER en SET DEFAULT 'r'",
            "INSERT INTO constants (id) VALUES (2)",
            "CREATE TABLE fresh (id INT PRIMARY KEY, a INT DEFAULT 5, b CHAR(5) NOT NULL DEFAULT 'x')",
            "INSERT INTO fresh (id) VALUES (1)",
            "ALTER TABLE fresh ALTER a SET DEFAULT 6",
            "INSERT INTO fresh (id) VALUES (2)",
        ];
        for statement in statements {
            conn.query_drop(statement).await.context(statement)?;
            copy.catch_up(&mut capture).await.with_context(|| format!("{image}: {statement}"))?;
            assert_all_equal(&server, &copy).await.with_context(|| format!("{image}: {statement}"))?;
        }
        // several in one transaction
        conn.query_drop("BEGIN").await?;
        for statement in [
            "INSERT INTO plain (id, a) VALUES (500, 1)",
            "UPDATE plain SET b = 'in' WHERE id = 500",
            "UPDATE plain SET id = 501 WHERE id = 500",
            "UPDATE plain SET c = 'out' WHERE id = 501",
            "DELETE FROM plain WHERE id = 501",
            "INSERT INTO plain (id, a) VALUES (501, 2)",
            "COMMIT",
        ] {
            conn.query_drop(statement).await.context(statement)?;
        }
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
    }
    Ok(())
}

/// A table without a key has whole rows before a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_rows_of_a_table_without_a_key_are_whole() -> Result<()> {
    for image in ["MINIMAL", "NOBLOB"] {
        let server = server_with(image)?;
        server.sql("CREATE DATABASE s; CREATE TABLE s.t (a INT, b TEXT, c INT DEFAULT 4); INSERT INTO s.t VALUES (1, 'b', 1)")?;
        let mut capture = Capture::start(config(&server, &["s.t"])).await?;
        let mut whole = false;
        let mut seen = Vec::new();
        server.sql("USE s; INSERT INTO t (a) VALUES (2); UPDATE t SET c = 5; UPDATE t SET b = 'x' WHERE a = 1; DELETE FROM t WHERE a = 2")?;
        let end = capture.server_position().await?;
        while !(whole && capture.has_reached(&end)? && capture.at_boundary()) {
            match tokio::time::timeout(Duration::from_secs(20), capture.next()).await?? {
                cdc_mysql::capture::CaptureItem::TableWhole(_) => whole = true,
                cdc_mysql::capture::CaptureItem::Changes { changes, .. } => seen.extend(changes),
                _ => {}
            }
        }
        ensure!(
            seen.iter().all(|c| c.before.iter().chain(&c.after).all(|row| !row.has_absent())),
            "{seen:?}"
        );
    }
    Ok(())
}

/// The changes come between a chunk's low watermark and its SELECT, or before its rows are mended, or before it is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_while_a_chunk_is_read() -> Result<()> {
    let server = server_with("MINIMAL")?;
    let statements = "UPDATE t SET b = 'changed' WHERE id IN (2, 30); UPDATE t SET id = 100 WHERE id = 3; UPDATE t SET c = 'behind' WHERE id = 100;
        UPDATE t SET id = 101, b = 'moved' WHERE id = 31; DELETE FROM t WHERE id = 32; UPDATE t SET c = 'x' WHERE id = 33;
        DELETE FROM t WHERE id = 33; INSERT INTO t (id, b) VALUES (33, 'again'); UPDATE t SET c = 'y' WHERE id = 33;
        UPDATE t SET id = 34 WHERE id = 1; UPDATE t SET id = 1 WHERE id = 34; REPLACE INTO t (id, c) VALUES (4, 'replaced')";
    for (n, point) in [Point::AfterLow, Point::BeforeHigh, Point::AfterHigh].into_iter().enumerate() {
        for nth in [1, 3, 6] {
            let database = format!("chunk_{n}_{nth}");
            let values: Vec<String> = (1..34).map(|i| format!("({i}, 'b{i}', 'c{i}', {i})")).collect();
            server.sql(&format!(
                "CREATE DATABASE {database}; USE {database}; CREATE TABLE t (id INT PRIMARY KEY, b VARCHAR(20), c TEXT, d INT);
                 INSERT INTO t VALUES {}",
                values.join(",")
            ))?;
            let mut config = config(&server, &[&format!("{database}.t")]);
            config.chunk_rows = 3;
            config.chunk_readers = 1;
            let sql = format!("USE {database}; {statements}");
            let socket = server.url("root");
            at(&mut config, point, "t", nth, move || {
                // on a connection of its own, since the hook is called inside the runtime
                let (sql, url) = (sql.clone(), socket.clone());
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .expect("a runtime");
                    runtime.block_on(async {
                        let opts = mysql_async::Opts::from_url(&url).expect("a url");
                        let mut conn = mysql_async::Conn::new(opts).await.expect("a connection");
                        for statement in sql.split(';') {
                            conn.query_drop(statement.trim()).await.expect(statement);
                        }
                    });
                })
                .join()
                .expect("the statements");
            });
            let (mut capture, mut copy) = initial(config).await?;
            assert_all_equal(&server, &copy).await.with_context(|| format!("{point:?}, chunk {nth}"))?;
            server.sql(&format!(
                "USE {database}; UPDATE t SET id = 35, d = NULL WHERE id = 1; UPDATE t SET b = 'end'"
            ))?;
            copy.catch_up(&mut capture).await?;
            assert_all_equal(&server, &copy).await.with_context(|| format!("{point:?}, chunk {nth}"))?;
        }
    }
    Ok(())
}

/// On a connection of its own, since hooks are called inside the runtime.
fn run_there(url: &str, sql: &str) {
    let opts = mysql_async::Opts::from_url(url).expect("a url");
    let sql = sql.to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut conn = mysql_async::Conn::new(opts).await.expect("a connection");
            for statement in sql.split(';') {
                conn.query_drop(statement.trim()).await.expect(statement);
            }
        });
    })
    .join()
    .expect("the statements");
}

/// The literal is in some session's time zone, so what an INSERT that leaves the column out has stored is not known.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_a_default_that_cannot_be_told() -> Result<()> {
    let setup = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, at TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00');
        INSERT INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)";
    let server = server_with("MINIMAL")?;
    server.sql(&format!("CREATE DATABASE s; USE s; {setup}"))?;
    let (mut capture, mut copy) = initial(config(&server, &["s.t"])).await?;
    // an update says nothing of it
    server.sql("UPDATE s.t SET a = 9 WHERE id = 1")?;
    copy.catch_up(&mut capture).await?;
    assert_all_equal(&server, &copy).await?;
    server.sql("INSERT INTO s.t (id) VALUES (11)")?;
    let error =
        copy.catch_up(&mut capture).await.err().context("it goes on")?.downcast::<cdc_core::Error>()?;
    ensure!(error.code() == codes::PARTIAL_IMAGE && error.to_string().contains("\"at\""), "{error}");
    drop(capture);
    // while the table is copied the row is read again
    let mut config = config(&server, &["s.t"]);
    (config.chunk_rows, config.chunk_readers) = (2, 1);
    let url = server.url("root");
    at(&mut config, Point::BeforeHigh, "t", 2, move || {
        run_there(
            &url,
            "INSERT INTO s.t (id) VALUES (12), (0); UPDATE s.t SET a = 7 WHERE id = 0; DELETE FROM s.t WHERE id = 12",
        );
    });
    let (_, copy) = initial(config).await?;
    assert_all_equal(&server, &copy).await
}

// ---- JSON

/// A document of the text of JSON.
fn document(rng: &mut StdRng, depth: u32) -> String {
    let many = if depth == 0 { 0 } else { rng.random_range(0..8) };
    match rng.random_range(0..if many == 0 { 6 } else { 9 }) {
        0 => "null".into(),
        1 => ["true", "false"][rng.random_range(0..2)].into(),
        2 => rng.random_range(-70_000i64..70_000).to_string(),
        3 => rng.random::<i64>().to_string(),
        4 => format!("{:?}", rng.random_range(-1e10..1e10f64)),
        5 => format!("\"{}\"", text(rng)),
        6 => {
            let cells: Vec<String> = (0..many).map(|_| document(rng, depth - 1)).collect();
            format!("[{}]", cells.join(", "))
        }
        _ => {
            let members: Vec<String> =
                (0..many).map(|_| format!("\"{}\": {}", name(rng), document(rng, depth - 1))).collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}

fn text(rng: &mut StdRng) -> String {
    let letters = ["a", "b", "é", "🙂", " ", "\\\"", "\\n", "longer text of some words"];
    (0..rng.random_range(0..12)).map(|_| letters[rng.random_range(0..letters.len())]).collect()
}

fn name(rng: &mut StdRng) -> &'static str {
    let names = [
        "a",
        "b",
        "c",
        "aa",
        "k1",
        "with blank",
        "é",
        "q\\\"uote",
        "back\\\\slash",
        "",
        "1x",
        "$",
        "a.b",
        "x[0]",
    ];
    names[rng.random_range(0..names.len())]
}

fn path(rng: &mut StdRng) -> String {
    let mut path = String::from("$");
    for _ in 0..rng.random_range(0..4) {
        match rng.random_range(0..3) {
            0 => _ = write!(path, "[{}]", rng.random_range(0..6)),
            _ => _ = write!(path, ".\"{}\"", name(rng)),
        }
    }
    path
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A JSON function of a document, with others inside.
fn changed(rng: &mut StdRng, column: &str, depth: u32) -> String {
    let inner = if depth == 0 || rng.random_ratio(1, 2) {
        column.to_owned()
    } else {
        changed(rng, column, depth - 1)
    };
    let function =
        ["JSON_SET", "JSON_REPLACE", "JSON_INSERT", "JSON_REMOVE", "JSON_ARRAY_INSERT", "JSON_ARRAY_APPEND"]
            [rng.random_range(0..6)];
    let mut out = format!("{function}({inner}");
    for _ in 0..rng.random_range(1..4) {
        let mut place = path(rng);
        if function == "JSON_REMOVE" && place == "$" {
            place = "$[0]".into();
        }
        if function == "JSON_ARRAY_INSERT" {
            _ = write!(place, "[{}]", rng.random_range(0..4));
        }
        out += ", ";
        out += &quoted(&place);
        if function != "JSON_REMOVE" {
            let value = match rng.random_range(0..8) {
                0 => "CAST(1.50 AS DECIMAL(9,2))".into(),
                1 => "CAST('2024-02-29 12:34:56.5' AS DATETIME(6))".into(),
                2 => format!("'{}'", text(rng).replace(['\\', '"'], "")),
                _ => format!("CAST({} AS JSON)", quoted(&document(rng, 2))),
            };
            _ = write!(out, ", {value}");
        }
    }
    out + ")"
}

/// Random functions of random documents, with the row before in the log: every document after is the server's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_28_partial_json_mysql_only() -> Result<()> {
    let seed: u64 = seeds(&[28])?[0];
    eprintln!("CDC_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for options in [&[][..], &["--binlog-transaction-compression=ON"], &["--binlog-row-image=NOBLOB"]] {
        let server = options
            .iter()
            .fold(ServerOptions::default().with("--binlog-row-value-options=PARTIAL_JSON"), |o, option| {
                o.with(*option)
            });
        let server = Server::start(server)?;
        let mut conn = root(&server).await?;
        conn.query_drop("CREATE DATABASE j").await?;
        conn.query_drop(
            "CREATE TABLE j.t (id INT PRIMARY KEY, j JSON, n INT, k JSON, g INT AS (JSON_LENGTH(j)) STORED)",
        )
        .await?;
        let (mut capture, mut copy) = initial(config(&server, &["j.t"])).await?;
        let rows = 30;
        for id in 0..rows {
            let (j, k) = (document(&mut rng, 4), document(&mut rng, 3));
            conn.query_drop(format!(
                "INSERT INTO j.t (id, j, k) VALUES ({id}, {}, {})",
                quoted(&j),
                quoted(&k)
            ))
            .await?;
        }
        let (mut done, mut refused) = (0, 0);
        while done < 1500 {
            let id = rng.random_range(0..rows);
            let mut sets = vec![format!("j = {}", changed(&mut rng, "j", 3))];
            if rng.random_ratio(1, 4) {
                sets.push(format!("k = {}", changed(&mut rng, "k", 2)));
            }
            if rng.random_ratio(1, 4) {
                sets.push("n = COALESCE(n, 0) + 1".into());
            }
            if rng.random_ratio(1, 60) {
                // not by a function: as a whole
                sets = vec![format!("j = {}", quoted(&document(&mut rng, 4)))];
            }
            match conn.query_drop(format!("UPDATE j.t SET {} WHERE id = {id}", sets.join(", "))).await {
                Ok(()) => done += 1,
                // a path that goes through a scalar, a document of too many levels
                Err(mysql_async::Error::Server(_)) => refused += 1,
                Err(e) => return Err(e.into()),
            }
            if done % 300 == 0 {
                copy.catch_up(&mut capture).await?;
            }
        }
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await.with_context(|| format!("CDC_SEED={seed}"))?;
        let events: Vec<mysql_async::Row> = conn.query("SHOW BINLOG EVENTS").await?;
        let partial =
            events.iter().filter(|e| e.get::<String, _>(2).as_deref() == Some("Update_rows_partial")).count();
        eprintln!(
            "{options:?}: {done} updates, {refused} refused by the server, {partial} events of differences"
        );
        ensure!(partial > 300 || !options.is_empty());
    }
    Ok(())
}

/// Differences without the document before: the row is read again while the table is copied; of a whole table they are
/// refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_28_partial_json_without_the_row_before_mysql_only() -> Result<()> {
    let options = ServerOptions::default()
        .with("--binlog-row-value-options=PARTIAL_JSON")
        .with("--binlog-row-image=MINIMAL");
    let server = Server::start(options)?;
    let values: Vec<String> = (1..40)
        .map(|i| {
            format!(
                "({i}, '{{\"a\": {i}, \"b\": [1, 2, \"text of some length\"], \"c\": \"more of it\"}}', {i})"
            )
        })
        .collect();
    for nth in [1, 4, 9] {
        let database = format!("d{nth}");
        server.sql(&format!(
            "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, j JSON, n INT); INSERT INTO {database}.t VALUES {}",
            values.join(",")
        ))?;
        let mut config = config(&server, &[&format!("{database}.t")]);
        config.chunk_rows = 3;
        config.chunk_readers = 1;
        let url = server.url("root");
        let name = database.clone();
        at(&mut config, Point::BeforeHigh, "t", nth, move || {
            let (url, name) = (url.clone(), name.clone());
            std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    let mut conn = mysql_async::Conn::new(mysql_async::Opts::from_url(&url).expect("a url"))
                        .await
                        .expect("a connection");
                    for statement in [
                        "UPDATE t SET j = JSON_SET(j, '$.a', 'set')",
                        "UPDATE t SET j = JSON_ARRAY_INSERT(j, '$.b[0]', 7) WHERE id % 2 = 0",
                        "UPDATE t SET j = JSON_REMOVE(j, '$.c'), n = -n WHERE id % 3 = 0",
                        "UPDATE t SET id = id + 100, j = JSON_SET(j, '$.b[1]', 9) WHERE id % 5 = 0",
                        "DELETE FROM t WHERE id % 7 = 0",
                        "UPDATE t SET n = 5 WHERE id % 4 = 0",
                    ] {
                        conn.query_drop(format!("USE {name}")).await.expect("a database");
                        conn.query_drop(statement).await.expect(statement);
                    }
                });
            })
            .join()
            .expect("the statements");
        });
        let (mut capture, mut copy) = initial(config).await?;
        assert_all_equal(&server, &copy).await.with_context(|| format!("chunk {nth}"))?;
        server.sql(&format!(
            "UPDATE {database}.t SET n = 6; UPDATE {database}.t SET j = JSON_SET(j, '$.a', 1) WHERE id = 1"
        ))?;
        let error = copy.catch_up(&mut capture).await.err().context("it goes on")?;
        let error = error.downcast_ref::<cdc_core::Error>().context("an error of the capture")?;
        ensure!(error.code() == codes::PARTIAL_IMAGE, "{error}");
        let diagnostic = format!("{:?}", error.diagnostic());
        for part in ["\\\"j\\\"", "binlog_row_value_options", "binlog_row_image"] {
            ensure!(diagnostic.contains(part), "{part} is not in {diagnostic}");
        }
    }
    Ok(())
}
