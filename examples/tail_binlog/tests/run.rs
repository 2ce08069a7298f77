//! The example, run as its header says, on a real server.

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn prints_changes_as_they_are_committed() -> Result<()> {
    let server = Server::start(ServerOptions::default())?;
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, amount INT)")?;
    let url = format!("mysql://127.0.0.1:{}", server.port());
    let mut child = Command::new(env!("CARGO_BIN_EXE_tail_binlog"))
        .args([&url, "cdc", "shop.*"])
        .env("CDC_PASSWORD", "cdc")
        .stdout(Stdio::piped())
        .spawn()?;
    let Some(output) = child.stdout.take() else { anyhow::bail!("no output") };
    let mut lines = BufReader::new(output).lines();
    // it reads from the position at its start: wait until the server shows its dump
    let mut waited = 0;
    while server
        .sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'")?
        .trim()
        == "0"
    {
        ensure!(waited < 200, "it does not read the log");
        waited += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    server.sql(
        "INSERT INTO shop.orders VALUES (1, 5); UPDATE shop.orders SET amount = 6; DELETE FROM shop.orders",
    )?;
    let mut changes = Vec::new();
    while changes.len() < 3 {
        let Some(line) = lines.next() else { break };
        let line = line?;
        if let Some((_, change)) = line.split_once(" shop.orders ") {
            changes.push(change.to_owned());
        }
    }
    child.kill()?;
    child.wait()?;
    assert_eq!(
        changes,
        ["Insert None -> Some((1, 5))", "Update Some((1, 5)) -> Some((1, 6))", "Delete Some((1, 6)) -> None"]
    );
    Ok(())
}
