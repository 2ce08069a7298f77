//! Acceptance case 63, in a process of its own, which has no conversion table yet: a DDL brings a character set
//! while the log is followed.

mod common;

use anyhow::{Result, ensure};
use cdc_core::{Charset, ColumnType, TableSchema};
use cdc_mysql::charsets;
use common::{assert_all_equal, config, initial, root, server};
use mysql_async::prelude::Queryable;
use std::sync::Arc;
use std::time::Duration;

/// Would a decoder of this set have to ask the server?
fn is_missing(schema: &Arc<TableSchema>, set: &str) -> bool {
    let mut schema = TableSchema::clone(schema);
    schema.columns[0].ty = ColumnType::VarChar { length: 1, charset: Charset::new(set, "") };
    !charsets::missing([&Arc::new(schema)]).is_empty()
}

#[tokio::test]
async fn case_63_a_ddl_brings_a_character_set() -> Result<()> {
    let mut conn = root(server()).await?;
    conn.query_drop("CREATE DATABASE added").await?;
    conn.query_drop("CREATE TABLE added.t (id INT PRIMARY KEY)").await?;
    let (mut capture, mut copy) = initial(config(server(), &["added.*"])).await?;
    let schema = copy.schemas.values().next().cloned().expect("a table");
    ensure!(is_missing(&schema, "koi8r") && is_missing(&schema, "sjis"));
    for statement in [
        "ALTER TABLE added.t ADD v VARCHAR(20) CHARACTER SET koi8r",
        "INSERT INTO added.t VALUES (1, NULL), (2, _utf8mb4 'жук')",
        "CREATE TABLE added.s (k CHAR(9) CHARACTER SET sjis PRIMARY KEY) SELECT _utf8mb4 'ソース表' k",
        "INSERT INTO added.s VALUES (_utf8mb4 'ｱ構')",
        "UPDATE added.t SET v = _utf8mb4 'ёж' WHERE id = 1",
    ] {
        conn.query_drop(statement).await?;
    }
    // dropped and begun again wherever it waits
    let end = capture.server_position().await?;
    for _ in 0..2000 {
        if capture.has_reached(&end)? && capture.at_boundary() {
            break;
        }
        if let Ok(step) = tokio::time::timeout(Duration::from_millis(5), copy.step(&mut capture)).await {
            step?;
        }
    }
    copy.catch_up(&mut capture).await?;
    ensure!(!is_missing(&schema, "koi8r") && !is_missing(&schema, "sjis"));
    ensure!(copy.rows("t").len() == 2 && copy.rows("s").len() == 2);
    assert_all_equal(server(), &copy).await
}
