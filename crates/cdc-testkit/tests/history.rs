//! Histories are repeatable, and do to a real server what they say.

use std::time::Duration;

use anyhow::Result;
use cdc_testkit::history::storm::{SUM, Storm, StormOptions};
use cdc_testkit::history::{History, HistoryOptions, Length};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};

fn options(seed: u64, database: &str) -> HistoryOptions {
    HistoryOptions { seed, database: database.into(), tables: 4, ..HistoryOptions::default() }
}

#[test]
fn the_same_seed_gives_the_same_tables() -> Result<()> {
    let server = Server::start(ServerOptions::default())?;
    let mut contents = Vec::new();
    for database in ["one", "two"] {
        let options = HistoryOptions { ddl: true, ..options(4711, database) };
        let mut history = History::create(&server, options)?;
        history.run(&server, Length::Transactions(100))?;
        history.run(&server, Length::Transactions(50))?;
        assert_eq!(history.transactions(), 450);
        assert_eq!(history.expected_rows(), history.actual_rows(&server)?);
        let mut content = Vec::new();
        for table in history.tables() {
            let order = if table.ends_with('1') { "a, b" } else { "id" };
            content.extend(
                server.sql_bytes(&format!("USE {database}; SELECT * FROM {table} ORDER BY {order}"))?,
            );
            content.extend(server.sql_bytes(&format!("USE {database}; SHOW CREATE TABLE {table}"))?);
        }
        contents.push(content);
    }
    assert!(contents[0] == contents[1], "the tables differ");
    Ok(())
}

fn seeds_run(kind: ServerKind) -> Result<()> {
    let server = Server::start(ServerOptions::of(kind))?;
    for seed in 0..6 {
        let options = HistoryOptions { ddl: seed % 2 == 0, ..options(seed, &format!("s{seed}")) };
        let history = History::create(&server, options)?;
        let history = history.start(&server, Length::Time(Duration::from_millis(500)))?.wait()?;
        assert_eq!(history.expected_rows(), history.actual_rows(&server)?);
        assert!(history.transactions() > 50, "{}", history.transactions());
    }
    Ok(())
}

#[test]
fn seeds_run_without_errors_on_mysql() -> Result<()> {
    seeds_run(ServerKind::MySql)
}

#[test]
fn seeds_run_without_errors_on_mariadb_10_11() -> Result<()> {
    seeds_run(ServerKind::MariaDb1011)
}

#[test]
fn seeds_run_without_errors_on_mariadb_11_8() -> Result<()> {
    seeds_run(ServerKind::MariaDb118)
}

#[test]
fn a_rate_is_kept_and_a_stop_is_heard() -> Result<()> {
    let server = Server::start(ServerOptions::default())?;
    let options = HistoryOptions { rate: Some(20), ..options(5, "slow") };
    let running = History::create(&server, options)?.start(&server, Length::Transactions(1_000_000))?;
    std::thread::sleep(Duration::from_millis(1000));
    assert!(running.is_running());
    running.stop();
    let history = running.wait()?;
    assert!((30..=90).contains(&history.transactions()), "{}", history.transactions());
    assert_eq!(history.expected_rows(), history.actual_rows(&server)?);
    Ok(())
}

/// Clients go on over a crash, give no statement that no server takes, and leave no transaction prepared.
fn a_storm_blows(kind: ServerKind) -> Result<()> {
    let mut server = Server::start(ServerOptions::of(kind))?;
    let options = StormOptions { seed: 75, rate: 60, initial_rows: 100, large: 500 };
    let blowing = Storm::create(&server, options)?.start(&server)?;
    std::thread::sleep(Duration::from_millis(1500));
    blowing.while_robust(|| server.kill())?;
    server.restart()?;
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!blowing.has_failed());
    let counts = blowing.end(&server)?;
    println!("{kind}: {counts:?}");
    assert!(counts.transactions > 50 && counts.ddl > 0 && counts.large > 0 && counts.prepared > 0);
    assert!(counts.lost > 0, "nobody noticed the crash");
    let sum =
        server.sql("SELECT (SELECT SUM(n) FROM soak_w.accounts) + (SELECT SUM(n) FROM soak_w.accounts2)")?;
    assert_eq!(sum.trim(), SUM.to_string());
    assert_eq!(server.sql("XA RECOVER")?, "");
    Ok(())
}

#[test]
fn a_storm_blows_on_mysql() -> Result<()> {
    a_storm_blows(ServerKind::MySql)
}

#[test]
fn a_storm_blows_on_mariadb_10_11() -> Result<()> {
    a_storm_blows(ServerKind::MariaDb1011)
}

#[test]
fn a_storm_blows_on_mariadb_11_8() -> Result<()> {
    a_storm_blows(ServerKind::MariaDb118)
}
