//! What only MariaDB leaves out of its row images under MINIMAL and NOBLOB: what a REPLACE sets to its default, and VIRTUAL
//! columns. Of a table that is whole it stops the capture where nothing tells it; while the table is copied the row is
//! read again.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::codes;
use cdc_mysql::config::Point;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use common::{assert_all_equal, at, config, initial};

const ROWS: &str = "INSERT INTO t (id, a, b, c) VALUES (1, 1, 'b1', 'c1'), (2, 2, 'b2', 'c2'), (3, 3, 'b3', 'c3'), (4, 4, 'b4', 'c4'),
    (5, 5, 'b5', 'c5'), (6, 6, 'b6', 'c6'), (7, 7, 'b7', 'c7'), (8, 8, 'b8', 'c8')";

/// Each of these changes, which the log does not tell.
async fn check(
    kind: ServerKind,
    image: &str,
    options: &[&str],
    setup: &str,
    changes: &[&str],
    says: &[&str],
) -> Result<()> {
    let start = ServerOptions::of(kind).with(format!("--binlog-row-image={image}"));
    let server = Server::start(options.iter().fold(start, |o, option| o.with(*option)))?;
    server.sql(&format!("CREATE DATABASE s; USE s; {setup}"))?;
    for change in changes {
        let (mut capture, mut copy) = initial(config(&server, &["s.t"])).await?;
        server.sql(&format!("USE s; {change}"))?;
        let place = || format!("{kind}, {image}: {change}");
        let error = copy.catch_up(&mut capture).await.err().with_context(place)?;
        let error = error.downcast::<cdc_core::Error>()?;
        let text = error.to_string();
        ensure!(
            error.code() == codes::PARTIAL_IMAGE && says.iter().all(|s| text.contains(s)),
            "{}: {text}",
            place()
        );
    }
    let mut config = config(&server, &["s.t"]);
    (config.chunk_rows, config.chunk_readers) = (2, 1);
    let server = std::sync::Arc::new(server);
    for (n, change) in changes.iter().enumerate() {
        let (server, sql) = (server.clone(), format!("USE s; {change}"));
        at(&mut config, Point::BeforeHigh, "t", n + 1, move || drop(server.sql(&sql).expect("a statement")));
    }
    let (_, copy) = initial(config).await?;
    assert_all_equal(&server, &copy).await.with_context(|| format!("{kind}, {image}"))
}

const KINDS: [ServerKind; 2] = [ServerKind::MariaDb1011, ServerKind::MariaDb118];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_a_replace_that_no_text_tells() -> Result<()> {
    let setup =
        format!("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9) DEFAULT 'b', c TEXT); {ROWS}");
    let says = ["may come of a REPLACE", "binlog_annotate_row_events"];
    for kind in KINDS {
        for image in ["MINIMAL", "NOBLOB"] {
            let changes =
                ["REPLACE INTO t (id, a) VALUES (2, 20)", "UPDATE t SET id = 5, a = 7 WHERE id = 5"];
            check(kind, image, &["--binlog-annotate-row-events=OFF"], &setup, &changes, &says).await?;
            // the text is that of the statement that fires the trigger
            let fired = format!(
                "{setup}; CREATE TABLE other (id INT PRIMARY KEY); CREATE TRIGGER f AFTER INSERT ON other FOR EACH ROW REPLACE INTO t (id, a) VALUES (NEW.id, 9)"
            );
            let changes = [
                "DELETE FROM other; INSERT INTO other VALUES (2)",
                "DELETE FROM other; INSERT INTO other VALUES (7)",
            ];
            check(kind, image, &[], &fired, &changes, &says[..1]).await?;
        }
    }
    Ok(())
}

/// 11.8 has no generated column in the images of an UPDATE whatever the setting: they are not copied at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_29_virtual_columns() -> Result<()> {
    let setup = format!(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), c TEXT, v INT AS (a + 1) VIRTUAL, p INT AS (a + 2) PERSISTENT); {ROWS}"
    );
    let changes = [
        "UPDATE t SET a = 20 WHERE id = 2",
        "DELETE FROM t WHERE id = 20; INSERT INTO t (id, a) VALUES (20, 1)",
        "UPDATE t SET b = 'x'",
    ];
    check(ServerKind::MariaDb1011, "MINIMAL", &[], &setup, &changes, &["\"v\"", "VIRTUAL"]).await?;
    for (kind, image) in [
        (ServerKind::MariaDb1011, "NOBLOB"),
        (ServerKind::MariaDb118, "MINIMAL"),
        (ServerKind::MariaDb118, "NOBLOB"),
    ] {
        let server = Server::start(ServerOptions::of(kind).with(format!("--binlog-row-image={image}")))?;
        server.sql(&format!("CREATE DATABASE s; USE s; {setup}"))?;
        let (mut capture, mut copy) = initial(config(&server, &["s.t"])).await?;
        for change in changes {
            server.sql(&format!("USE s; {change}"))?;
            copy.catch_up(&mut capture).await.with_context(|| format!("{kind}, {image}: {change}"))?;
        }
        assert_all_equal(&server, &copy).await.with_context(|| format!("{kind}, {image}"))?;
    }
    Ok(())
}
