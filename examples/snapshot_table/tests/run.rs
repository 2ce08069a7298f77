//! The example, run as its header says, on a real server.

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use std::process::Command;

#[test]
fn prints_every_row_of_the_table() -> Result<()> {
    let server = Server::start(ServerOptions::default())?;
    server.sql(
        "CREATE DATABASE shop; USE shop; CREATE TABLE orders (id INT PRIMARY KEY, customer VARCHAR(20), amount DECIMAL(10,2));
         INSERT INTO orders VALUES (1, 'ann', 5.00), (2, 'bea', 7.25), (-3, NULL, NULL);",
    )?;
    let url = format!("mysql://127.0.0.1:{}", server.port());
    let output = Command::new(env!("CARGO_BIN_EXE_snapshot_table"))
        .args([&url, "cdc", "shop.orders"])
        .env("CDC_PASSWORD", "cdc")
        .output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines, ["(-3, NULL, NULL)", "(1, \"ann\", 5.00)", "(2, \"bea\", 7.25)"]);
    Ok(())
}
