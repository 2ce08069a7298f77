//! Tables without a key are multisets (acceptance cases 7 and 15): copied exactly under writers, followed, begun anew
//! after a restart and after statements that change them.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Row, RowBuilder, TableId, TableSchema};
use cdc_mysql::capture::{Capture, CaptureItem, CaptureState};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_testkit::servers::Server;
use common::{Writer, config, server};
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Rows and how often they are there.
type Multiset = BTreeMap<Row, i64>;

#[derive(Default)]
struct Bag {
    tables: BTreeMap<TableId, Multiset>,
    schemas: BTreeMap<TableId, Arc<TableSchema>>,
    copies: usize,
    notices: usize,
}

impl Bag {
    fn add(&mut self, table: &TableId, row: Row, count: i64) -> Result<()> {
        let rows = self.tables.entry(table.clone()).or_default();
        let left = rows.entry(row.clone()).or_default();
        *left += count;
        ensure!(*left >= 0, "\"{table}\": {row:?} is taken away and is not there");
        if *left == 0 {
            rows.remove(&row);
        }
        Ok(())
    }

    fn apply(&mut self, item: CaptureItem) -> Result<()> {
        match item {
            CaptureItem::Chunk { schema, rows, .. } => {
                rows.into_iter().try_for_each(|row| self.add(&schema.id, row, 1))
            }
            CaptureItem::Changes { schema, changes, .. } => {
                for change in changes {
                    if let Some(row) = change.before {
                        self.add(&schema.id, row, -1)?;
                    }
                    if let Some(row) = change.after {
                        self.add(&schema.id, row, 1)?;
                    }
                }
                Ok(())
            }
            CaptureItem::Schema { changes, before, after, .. } => {
                let rows = before.and_then(|b| {
                    self.schemas.remove(&b.id);
                    self.tables.remove(&b.id)
                });
                let empties = |c: &SchemaChange| {
                    matches!(c, SchemaChange::ResnapshotTable { .. } | SchemaChange::TruncateTable { .. })
                };
                self.copies +=
                    changes.iter().filter(|c| matches!(c, SchemaChange::ResnapshotTable { .. })).count();
                if let Some(after) = after {
                    let kept = rows.filter(|_| !changes.iter().any(empties));
                    self.tables.insert(after.id.clone(), kept.unwrap_or_default());
                    self.schemas.insert(after.id.clone(), after);
                }
                Ok(())
            }
            CaptureItem::Notice(notice) => {
                eprintln!("{notice:?}");
                self.notices += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn run(
        &mut self,
        capture: &mut Capture,
        mut until: impl FnMut(&Capture, &Bag) -> bool,
    ) -> Result<()> {
        for schema in capture.schemas() {
            self.schemas.entry(schema.id.clone()).or_insert(schema);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while !(capture.at_boundary() && until(capture, self)) {
            let item = tokio::time::timeout_at(deadline, capture.next()).await;
            let item = item.with_context(|| format!("no end: {:?}", capture.progress()))??;
            self.apply(item)?;
        }
        Ok(())
    }

    async fn catch_up(&mut self, capture: &mut Capture) -> Result<()> {
        let end = capture.server_position().await?;
        self.run(capture, |capture, _| capture.is_whole() && capture.has_reached(&end).unwrap_or(false)).await
    }

    async fn assert_equal(&self, server: &Server) -> Result<()> {
        let mut conn = cdc_mysql::conn::connect(&config(server, &["*.*"])).await?;
        for (id, schema) in &self.schemas {
            let decoder = ResultDecoder::new(schema)?;
            let sql = format!("SELECT {} FROM `{}`.`{}`", decoder.select_list(), id.database, id.table);
            let mut builder = RowBuilder::new();
            let mut there = Multiset::new();
            let rows: Vec<mysql_async::Row> = conn.exec(sql, ()).await?;
            let count = rows.len();
            for row in rows {
                *there.entry(decoder.decode(&mut builder, &row.unwrap())?).or_default() += 1;
            }
            let ours = &self.tables[id];
            if *ours != there {
                let differs = there.keys().chain(ours.keys()).find(|r| there.get(*r) != ours.get(*r));
                let row = differs.context("they differ")?;
                anyhow::bail!(
                    "\"{id}\": {row:?} is there {:?} times, copied {:?} times",
                    there.get(row),
                    ours.get(row)
                );
            }
            eprintln!("{id}: {count} rows equal, {} copies", self.copies);
        }
        conn.disconnect().await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_15_equal_rows_are_kept_as_often() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE k15; USE k15; CREATE TABLE t (a INT, b VARCHAR(9));
         INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, NULL), (NULL, NULL), (NULL, NULL), (2, 'y');
         CREATE TABLE none (a INT); CREATE TABLE keyed (id INT PRIMARY KEY); INSERT INTO keyed VALUES (1), (2)",
    )?;
    let mut capture = Capture::start(config(server, &["k15.*"])).await?;
    let mut bag = Bag::default();
    bag.catch_up(&mut capture).await?;
    bag.assert_equal(server).await?;
    ensure!(bag.copies == 2, "{} copies of two tables", bag.copies);
    server.sql("USE k15; DELETE FROM t WHERE a = 1 AND b = 'x' LIMIT 1; UPDATE t SET b = 'z' WHERE a IS NULL LIMIT 1; INSERT INTO none VALUES (1), (1)")?;
    bag.catch_up(&mut capture).await?;
    bag.assert_equal(server).await?;
    server.sql(
        "USE k15; TRUNCATE t; INSERT INTO t VALUES (5, 'v'), (5, 'v'); ALTER TABLE keyed ADD COLUMN c INT",
    )?;
    bag.catch_up(&mut capture).await?;
    let copied = &bag.tables[&TableId::new("k15", "t")];
    ensure!(copied.len() == 1 && copied.values().all(|n| *n == 2), "{copied:?}");
    Ok(())
}

/// The table is another one, and the log holds no statement that says so: no copy of it will ever fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_value_that_the_log_does_not_explain_is_no_reason_to_copy_for_ever() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE k_unseen; USE k_unseen; CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1), (2, 2)")?;
    let mut capture = Capture::start(config(server, &["k_unseen.*"])).await?;
    let mut bag = Bag::default();
    bag.catch_up(&mut capture).await?;
    // the narrower type is logged, and has the table copied again
    server.sql(
        "USE k_unseen; SET sql_log_bin = 0; ALTER TABLE t MODIFY a VARCHAR(9); UPDATE t SET a = 'x';
         SET sql_log_bin = 1; ALTER TABLE t MODIFY b SMALLINT",
    )?;
    let error = bag.catch_up(&mut capture).await.expect_err("the value is no INT").to_string();
    ensure!(error.contains("E1305"), "{error}");
    ensure!(bag.notices == 0, "{} notices", bag.notices);
    Ok(())
}

/// Under writers with several statements in a transaction, DDL and restarts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_07_a_table_without_a_key_is_copied_while_it_is_written() -> Result<()> {
    let server = server();
    let rows: Vec<String> = (0..3000).map(|n| format!("({}, {n})", n % 50)).collect();
    server.sql(&format!(
        "CREATE DATABASE k7; USE k7; CREATE TABLE t (a INT, b INT, KEY (a)); INSERT INTO t VALUES {};
         CREATE TABLE other (id INT PRIMARY KEY, v INT); INSERT INTO other VALUES (1, 0)",
        rows.join(", ")
    ))?;
    let mut config = config(server, &["k7.t"]);
    config.chunk_rows = 200;
    config.lock_briefly = true;
    if !server.kind().is_mariadb() {
        server.sql("GRANT LOCK TABLES ON *.* TO cdc")?;
    }
    let writer = Writer::start(server, |n| match n % 7 {
        0 => format!("INSERT INTO k7.t VALUES ({}, {n}), (1, 1), (1, 1)", n % 50),
        1 => format!("DELETE FROM k7.t WHERE a = {} LIMIT 3", n % 50),
        2 => "START TRANSACTION".to_owned(),
        3 => format!("UPDATE k7.t SET b = b + 1 WHERE a = {}", n % 50),
        4 => "UPDATE k7.other SET v = v + 1".to_owned(),
        5 => "COMMIT".to_owned(),
        _ => "DO SLEEP(0.002)".to_owned(),
    })
    .await?;
    let mut capture = Capture::start(config.clone()).await?;
    let mut bag = Bag::default();
    // restarted in the middle of the copy
    bag.run(&mut capture, |_, bag| bag.tables.values().any(|rows| rows.len() > 400)).await?;
    let state: CaptureState = serde_json::from_str(&serde_json::to_string(&capture.state())?)?;
    ensure!(!capture.is_whole(), "the copy was complete before the restart");
    drop(capture);
    let mut capture = Capture::resume(config.clone(), &state).await?;
    bag.run(&mut capture, |capture, _| capture.is_whole()).await?;
    // and while it is followed
    let state: CaptureState = serde_json::from_str(&serde_json::to_string(&capture.state())?)?;
    drop(capture);
    let mut capture = Capture::resume(config, &state).await?;
    ensure!(capture.is_whole(), "a whole table is copied again");
    let written = writer.end().await?;
    server.sql("COMMIT")?;
    bag.catch_up(&mut capture).await?;
    eprintln!("{written} statements");
    bag.assert_equal(server).await
}
