//! What only MariaDB has in its log, against 10.11 and 11.8: sequences, system-versioned tables, domains, compressed
//! events, ALTERs in two steps, and statements that failed halfway.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::{Row, Value, codes};
use cdc_mysql::capture::Capture;
use cdc_mysql::config::StartMode;
use cdc_mysql::gtid::GtidSet;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use common::{Copy, Writer, assert_all_equal, config, initial};
use std::time::{Duration, Instant};

const BOTH: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

fn start(kind: ServerKind) -> Result<Server> {
    Server::start(ServerOptions::of(kind))
}

/// The ids of a table's rows in the copy.
fn ids(copy: &Copy, table: &str) -> Vec<i64> {
    let id = |row: &Row| match row.get(0) {
        Value::Int(id) => id,
        other => panic!("{other:?}"),
    };
    copy.rows(table).values().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sequences_are_no_tables() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql(
            "CREATE DATABASE d; USE d; CREATE SEQUENCE s; CREATE TABLE t (id INT PRIMARY KEY DEFAULT NEXTVAL(s), v INT);
             INSERT INTO t (v) VALUES (1), (2)",
        )?;
        let (mut capture, mut copy) = initial(config(&server, &["d.*"])).await?;
        server.sql(
            "USE d; INSERT INTO t (v) VALUES (3); SELECT NEXTVAL(s); SELECT SETVAL(s, 5000);
             CREATE SEQUENCE s2; SELECT NEXTVAL(s2); RENAME TABLE s2 TO s3; SELECT NEXTVAL(s3), NEXTVAL(s3);
             ALTER SEQUENCE s3 INCREMENT BY 7; BEGIN; INSERT INTO t (v) VALUES (4); SELECT NEXTVAL(s3);
             INSERT INTO t VALUES (NEXTVAL(s3), 5); COMMIT; DROP SEQUENCE s; CREATE TABLE s (id INT PRIMARY KEY);
             INSERT INTO s VALUES (1)",
        )?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        ensure!(copy.rows("t").len() == 5 && copy.rows("s").len() == 1, "{kind}: {:?}", copy.tables);
        // what is known of them comes back with the state
        let state = serde_json::from_str(&serde_json::to_string(&capture.state())?)?;
        let mut capture = Capture::resume(config(&server, &["d.*"]), &state).await?;
        copy.resume(&capture);
        server.sql("USE d; SELECT SETVAL(s3, 90000); INSERT INTO t VALUES (NEXTVAL(s3), 6)")?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        drop(server);
    }
    Ok(())
}

/// A table whose times are hidden, one that names them, and one that becomes versioned and stops being so.
const VERSIONED: &str = "CREATE DATABASE v; USE v;
    CREATE TABLE hidden (id INT PRIMARY KEY, v INT, x INT WITHOUT SYSTEM VERSIONING) WITH SYSTEM VERSIONING;
    CREATE TABLE named (id INT PRIMARY KEY, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START,
        e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, v INT, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING;
    CREATE TABLE later (id INT PRIMARY KEY, v INT);";

/// Changes rows of all three in all ways.
const CHANGES: &str = "USE v; SET timestamp = DEFAULT;
    INSERT INTO hidden VALUES (10, 1, 0), (11, 1, 0), (12, 1, 0), (13, 1, 0);
    INSERT INTO named (id, v) VALUES (10, 1), (11, 1), (12, 1);
    INSERT INTO later VALUES (10, 1), (11, 1), (12, 1);
    UPDATE hidden SET v = v + 1 WHERE id < 12; UPDATE named SET v = v + 1 WHERE id < 12; UPDATE later SET v = v + 1;
    UPDATE hidden SET x = 5 WHERE id = 12; UPDATE hidden SET id = 20 WHERE id = 10;
    DELETE FROM hidden WHERE id = 11; DELETE FROM named WHERE id = 11; DELETE FROM later WHERE id = 11;
    REPLACE INTO hidden VALUES (12, 7, 7); INSERT INTO hidden VALUES (13, 0, 0) ON DUPLICATE KEY UPDATE v = 9;
    BEGIN; DELETE FROM hidden WHERE id = 13; INSERT INTO hidden VALUES (13, 3, 3); UPDATE hidden SET v = 4; COMMIT;
    DELETE HISTORY FROM hidden;";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_versioned_tables_the_rows_of_now_are_copied() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql(VERSIONED)?;
        server.sql(CHANGES)?;
        let (mut capture, mut copy) = initial(config(&server, &["v.*"])).await?;
        assert_all_equal(&server, &copy).await?;
        ensure!(ids(&copy, "hidden") == [12, 13, 20], "{kind}: {:?}", copy.rows("hidden"));
        server.sql("DELETE FROM v.hidden; DELETE FROM v.named; DELETE FROM v.later")?;
        copy.catch_up(&mut capture).await?;
        ensure!(copy.tables.values().all(|rows| rows.is_empty()), "{kind}: {:?}", copy.tables);
        server.sql(CHANGES)?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        // structures change, of tables without rows: this copy does not fill new columns
        server.sql(
            "USE v; SET system_versioning_alter_history = KEEP; ALTER TABLE later ADD SYSTEM VERSIONING;
             DELETE FROM later; INSERT INTO later VALUES (1, 1), (2, 2); UPDATE later SET v = 3;
             DELETE FROM hidden; ALTER TABLE hidden ADD COLUMN n INT DEFAULT 5 AFTER id;
             INSERT INTO hidden (id, v) VALUES (12, 1), (13, 1), (14, 1); UPDATE hidden SET n = 6; DELETE FROM hidden WHERE id = 12;
             ALTER TABLE hidden DROP SYSTEM VERSIONING; UPDATE hidden SET n = 7; DELETE FROM hidden WHERE id = 13;
             DELETE FROM later; ALTER TABLE later DROP COLUMN v; INSERT INTO later VALUES (1), (2); DELETE FROM later WHERE id = 1;
             RENAME TABLE later TO latest; INSERT INTO latest VALUES (5); DELETE FROM latest WHERE id = 2",
        )?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        ensure!(ids(&copy, "latest") == [5] && ids(&copy, "hidden") == [14], "{kind}: {:?}", copy.tables);
        // in the middle of a transaction of which history is a part
        let state = serde_json::from_str(&serde_json::to_string(&capture.state())?)?;
        let mut capture = Capture::resume(config(&server, &["v.*"]), &state).await?;
        copy.resume(&capture);
        server.sql("USE v; INSERT INTO latest VALUES (6), (7); UPDATE latest SET id = id + 10; DELETE FROM latest WHERE id = 16")?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_versioned_table_is_copied_while_it_is_written() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql(
            "CREATE DATABASE w; USE w; CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING;
             INSERT INTO t SELECT seq, 0 FROM seq_1_to_2000",
        )?;
        let writer = Writer::start(&server, |n| match n % 4 {
            0 => format!("UPDATE w.t SET v = {n} WHERE id % 17 = {}", n % 17),
            1 => format!("DELETE FROM w.t WHERE id = {}", n % 2000),
            2 => format!("REPLACE INTO w.t VALUES ({}, {n})", (n - 1) % 2000),
            _ => format!("UPDATE IGNORE w.t SET id = {} WHERE id = {}", 3000 + n, n % 2000),
        })
        .await?;
        let mut config = config(&server, &["w.t"]);
        config.chunk_rows = 100;
        common::dawdle(&mut config, Duration::from_millis(1));
        let (mut capture, mut copy) = initial(config).await?;
        let written = writer.end().await?;
        copy.catch_up(&mut capture).await?;
        eprintln!("{kind}: {written} writes");
        assert_all_equal(&server, &copy).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn domains_are_followed_each_from_its_own_position() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")?;
        let insert = |domain: u32, id: u32| {
            server.sql(&format!(
                "SET SESSION gtid_domain_id = {domain}, server_id = 9; INSERT INTO d.t VALUES ({id})"
            ))
        };
        insert(7, 1)?;
        let (mut capture, mut copy) = initial(config(&server, &["d.t"])).await?;
        for (domain, id) in [(0, 2), (7, 3), (8, 4), (7, 5), (0, 6)] {
            insert(domain, id)?;
        }
        copy.catch_up(&mut capture).await?;
        let position = capture.position();
        let told = server.sql("SELECT @@gtid_binlog_pos")?;
        ensure!(GtidSet::parse(&position.gtids)? == GtidSet::parse(told.trim())?, "{position}, {told}");
        let state = capture.state();
        drop(capture);
        server.sql("FLUSH BINARY LOGS")?;
        for (domain, id) in [(8, 10), (0, 11), (9, 12)] {
            insert(domain, id)?;
        }
        let mut capture = Capture::resume(config(&server, &["d.t"]), &state).await?;
        copy.resume(&capture);
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        ensure!(ids(&copy, "t") == [1, 2, 3, 4, 5, 6, 10, 11, 12], "{kind}: {:?}", copy.rows("t"));
        // a GTID set as a start: what is in it is passed over
        let mut from = config(&server, &["d.t"]);
        from.start = StartMode::Gtids(GtidSet::parse(&position.gtids)?);
        let mut capture = Capture::start(from).await?;
        let mut rest = Copy::of(&capture);
        rest.catch_up(&mut capture).await?;
        ensure!(rest.log.len() == 3, "{kind}: {:?}", rest.log);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn numbers_of_a_domain_that_do_not_rise_are_refused() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql(
            "SET GLOBAL gtid_strict_mode = OFF; CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)",
        )?;
        let (mut capture, mut copy) = initial(config(&server, &["d.t"])).await?;
        server.sql("SET SESSION gtid_seq_no = 500; INSERT INTO d.t VALUES (1)")?;
        copy.catch_up(&mut capture).await?;
        server.sql("SET SESSION server_id = 5, gtid_seq_no = 400; INSERT INTO d.t VALUES (2)")?;
        let error =
            copy.run(&mut capture, |_, copy| copy.rows("t").len() == 2).await.err().context("no error")?;
        let error = error.downcast::<cdc_core::Error>()?;
        ensure!(error.code() == codes::LOG_POSITION, "{error}");
        ensure!(error.to_string().contains("0-5-400 stands behind 0-1-500"), "{error}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compressed_events_and_logs_without_checksums() -> Result<()> {
    for kind in BOTH {
        let options = ServerOptions::of(kind)
            .with("--log-bin-compress=ON")
            .with("--log-bin-compress-min-len=10")
            .with("--binlog-checksum=NONE");
        let server = Server::start(options)?;
        server.sql("CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(500) CHARACTER SET utf8mb4)")?;
        let (mut capture, mut copy) = initial(config(&server, &["d.*"])).await?;
        server.sql(
            "USE d; INSERT INTO t SELECT seq, REPEAT(seq, 50) FROM seq_1_to_1000; UPDATE t SET v = CONCAT('ü', v);
             DELETE FROM t; ALTER TABLE t ADD COLUMN a_column_with_a_name_that_is_long_enough INT DEFAULT 7;
             INSERT INTO t (id) SELECT seq FROM seq_1_to_100;
             UPDATE t SET a_column_with_a_name_that_is_long_enough = id WHERE id % 2 = 0;
             SET GLOBAL binlog_checksum = CRC32; INSERT INTO t VALUES (5000, 'x', 1); UPDATE t SET v = REPEAT('y', 400);
             SET GLOBAL log_bin_compress = OFF; UPDATE t SET v = REPEAT('z', 400)",
        )?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        let events = server.sql("SHOW BINLOG EVENTS IN 'binlog.000001'")?;
        for kind in
            ["Query_compressed", "Write_rows_compressed", "Update_rows_compressed", "Delete_rows_compressed"]
        {
            ensure!(events.to_lowercase().contains(&kind.to_lowercase()), "the log holds no {kind}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_in_two_steps_and_statements_that_fail_halfway() -> Result<()> {
    for kind in BOTH {
        let server = Server::start(ServerOptions::of(kind).with("--binlog-alter-two-phase=ON"))?;
        server.sql(
            "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20));
             CREATE TABLE gone (id INT PRIMARY KEY); INSERT INTO gone VALUES (1);
             CREATE TABLE too (id INT PRIMARY KEY); INSERT INTO too VALUES (1); CREATE TABLE src (id INT PRIMARY KEY);
             INSERT INTO src VALUES (3), (4)",
        )?;
        let (mut capture, mut copy) = initial(config(&server, &["d.*"])).await?;
        server.sql("USE d; ALTER TABLE t ADD c INT DEFAULT 7; INSERT INTO t VALUES (2, 'y', 8)")?;
        let refused = server.sql("ALTER TABLE d.t MODIFY v INT NOT NULL, ADD d DATE DEFAULT '2020-02-30'");
        ensure!(refused.is_err(), "{kind}: the ALTER succeeded");
        let refused = server.sql("SET sql_mode = 'STRICT_ALL_TABLES'; ALTER TABLE d.t MODIFY v INT NOT NULL");
        ensure!(refused.is_err(), "{kind}: the ALTER succeeded");
        let refused = server.sql("USE d; CREATE OR REPLACE TABLE gone (a INT, a INT)");
        ensure!(refused.is_err(), "{kind}: the CREATE succeeded");
        let refused = server.sql(
            "USE d; CREATE OR REPLACE TABLE too (id TINYINT PRIMARY KEY) AS SELECT id * 1000 id FROM src",
        );
        ensure!(refused.is_err(), "{kind}: the CREATE .. SELECT succeeded");
        server.sql(
            "USE d; INSERT INTO t VALUES (3, 'z', 9); CREATE INDEX i ON t (v);
             CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id FROM src; CREATE OR REPLACE TABLE made (PRIMARY KEY (id)) AS SELECT id + 1 id FROM src;
             CREATE TABLE empty (PRIMARY KEY (id)) AS SELECT id FROM src WHERE id > 100",
        )?;
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&server, &copy).await?;
        let tables: Vec<&str> = copy.tables.keys().map(|id| &*id.table).collect();
        let there = server.sql("SHOW TABLES FROM d")?;
        ensure!(tables == there.lines().collect::<Vec<_>>(), "{kind}: {tables:?}, the server has {there}");
        ensure!(!tables.contains(&"gone"), "{kind}: {tables:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_23_26_positions_that_the_server_does_not_have_are_refused() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")?;
        let (mut capture, mut copy) = initial(config(&server, &["d.t"])).await?;
        copy.catch_up(&mut capture).await?;
        let state = capture.state();
        // another server, which has written other transactions of the same numbers, and one that has not got so far
        let other = Server::start(ServerOptions::of(kind).with_server_id(2))?;
        other.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")?;
        for more in ["DO 1", "INSERT INTO d.t VALUES (5), (6); INSERT INTO d.t VALUES (7)"] {
            other.sql(more)?;
            // the first is told before the log is asked for, the second by the server
            let error = match Capture::resume(config(&other, &["d.t"]), &state).await {
                Err(error) => error,
                Ok(mut elsewhere) => {
                    let found = copy.run(&mut elsewhere, |_, _| false).await.err().context("no error")?;
                    found.downcast::<cdc_core::Error>()?
                }
            };
            ensure!(error.code() == codes::SERVER_CHANGED, "{kind}, {more}: {error}");
        }
        // purged, once the server has seen that nobody reads its first file any more
        drop(capture);
        server.sql(
            "INSERT INTO d.t VALUES (2); FLUSH BINARY LOGS; INSERT INTO d.t VALUES (3); FLUSH BINARY LOGS",
        )?;
        let last = server.sql("SHOW MASTER STATUS")?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while server.sql("SHOW BINARY LOGS")?.lines().count() > 1 {
            ensure!(Instant::now() < deadline, "{kind}: the server does not purge its log");
            server.sql(&format!("PURGE BINARY LOGS TO '{}'", last.split('\t').next().unwrap_or_default()))?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let mut resumed = Capture::resume(config(&server, &["d.t"]), &state).await?;
        let found = copy.run(&mut resumed, |_, _| false).await.err().context("no error")?;
        let error = found.downcast::<cdc_core::Error>()?;
        ensure!(error.code() == codes::LOG_PURGED, "{kind}: {error}");
    }
    Ok(())
}

/// Case 26: a replica that has all of it takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_26_a_replica_takes_over() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        let replica = Server::start(ServerOptions::of(kind).with_server_id(2))?;
        replica.sql(&format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='root', MASTER_PASSWORD='root', \
             MASTER_USE_GTID=slave_pos; START SLAVE",
            server.port()
        ))?;
        server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1, 1), (2, 2)")?;
        let (mut capture, mut copy) = initial(config(&server, &["d.t"])).await?;
        server.sql("UPDATE d.t SET v = 5; INSERT INTO d.t VALUES (3, 3)")?;
        copy.catch_up(&mut capture).await?;
        let state = capture.state();
        server.sql("DELETE FROM d.t WHERE id = 1; INSERT INTO d.t VALUES (4, 4)")?;
        let position = server.sql("SELECT @@gtid_binlog_pos")?;
        let waited = replica.sql(&format!("SELECT MASTER_GTID_WAIT('{}', 20)", position.trim()))?;
        ensure!(waited.trim() == "0", "{kind}: the replica does not catch up: {waited}");
        replica.sql("STOP SLAVE; INSERT INTO d.t VALUES (9, 9); UPDATE d.t SET v = v + 1")?;
        let mut capture = Capture::resume(config(&replica, &["d.t"]), &state).await?;
        copy.resume(&capture);
        copy.catch_up(&mut capture).await?;
        assert_all_equal(&replica, &copy).await?;
        ensure!(ids(&copy, "t") == [2, 3, 4, 9], "{kind}: {:?}", copy.rows("t"));
    }
    Ok(())
}

/// 11.8 does not log generated columns when rows change: there they are no columns of the copy, and that is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_65_generated_columns_that_are_not_logged_are_left_out() -> Result<()> {
    for kind in BOTH {
        let server = start(kind)?;
        server.sql(
            "CREATE DATABASE d; CREATE TABLE d.t (g0 INT AS (v + 1) VIRTUAL, id INT PRIMARY KEY, v INT, g1 INT AS (v * 2) STORED);
             INSERT INTO d.t (id, v) VALUES (1, 1), (2, 2), (3, 3)",
        )?;
        let (mut capture, mut copy) = initial(config(&server, &["d.t"])).await?;
        server.sql(
            "INSERT INTO d.t (id, v) VALUES (4, 4), (5, 5); UPDATE d.t SET v = v + 10 WHERE id > 1; DELETE FROM d.t WHERE id = 3;
             REPLACE INTO d.t (id, v) VALUES (2, 50); UPDATE d.t SET id = 9 WHERE id = 5; DELETE FROM d.t WHERE id = 1;
             DELETE FROM d.t; ALTER TABLE d.t ADD g2 INT AS (v + 3) VIRTUAL AFTER v, ADD w INT DEFAULT 5 AFTER g2, DROP g0;
             INSERT INTO d.t (id, v) VALUES (1, 1), (2, 2); UPDATE d.t SET w = 6 WHERE id = 2",
        )?;
        copy.catch_up(&mut capture).await?;
        let schema = copy.schemas.values().next().context("a table")?;
        let names: Vec<&str> = schema.columns.iter().map(|c| &*c.name).collect();
        let told =
            copy.notices.iter().any(|n| n.code == codes::PARTIAL_IMAGE && n.headline.contains("g0, g1"));
        if kind == ServerKind::MariaDb118 {
            ensure!(names == ["id", "v", "w"] && told, "{names:?}, {:?}", copy.notices);
        } else {
            ensure!(names == ["id", "v", "g2", "w", "g1"] && !told, "{names:?}, {:?}", copy.notices);
        }
        assert_all_equal(&server, &copy).await?;
    }
    Ok(())
}
