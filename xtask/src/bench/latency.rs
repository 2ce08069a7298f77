//! How long a commit takes from the source to the target, while rows come at a steady rate.
//!
//! Each row holds the source's clock, which is this machine's, as it was when its statement began. The target is looked at without a
//! pause, and a row counts as committed there when it is seen first, so the figures hold the commit at the source and the look.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

use super::targets::Target;
use super::{Bench, PATIENCE};
use crate::bench::report::Entry;
use crate::child::Guarded;
use crate::say;

/// What is measured.
pub struct Rate {
    /// The bench's name.
    pub name: &'static str,
    target: &'static str,
    /// Transactions in a second.
    transactions: u32,
    /// Rows of each.
    rows: u32,
}

/// All of them.
pub const RATES: [Rate; 5] = [
    Rate { name: "latency_sqlite_10", target: "sqlite", transactions: 10, rows: 1 },
    Rate { name: "latency_sqlite_1000", target: "sqlite", transactions: 100, rows: 10 },
    Rate { name: "latency_sqlite_10000", target: "sqlite", transactions: 100, rows: 100 },
    Rate { name: "latency_mysql_1000", target: "mysql", transactions: 100, rows: 10 },
    Rate { name: "latency_postgres_1000", target: "postgres", transactions: 100, rows: 10 },
];

/// So many transactions a second, by the clock and not by pauses.
fn steady(rate: &Rate) -> String {
    let Rate { transactions, rows, .. } = rate;
    format!(
        "
CREATE DATABASE latency;
USE latency;
CREATE TABLE steady (id BIGINT NOT NULL PRIMARY KEY, at DATETIME(6) NOT NULL);
delimiter //
CREATE PROCEDURE steady(IN transactions BIGINT)
BEGIN
  DECLARE n BIGINT DEFAULT 0;
  DECLARE begun DATETIME(6) DEFAULT SYSDATE(6);
  WHILE n < transactions DO
    DO SLEEP(GREATEST(0, n / {transactions} - TIMESTAMPDIFF(MICROSECOND, begun, SYSDATE(6)) / 1000000));
    INSERT INTO steady WITH RECURSIVE s (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM s WHERE d < {rows} - 1)
      SELECT n * {rows} + d, SYSDATE(6) FROM s;
    SET n = n + 1;
  END WHILE;
END//
delimiter ;
"
    )
}

impl Bench {
    /// Row changes at a steady rate.
    pub fn latency(&mut self, rate: &Rate, quick: bool, failures: &mut Vec<String>) -> Result<()> {
        let seconds: u32 = if quick { 10 } else { 30 };
        let name = rate.name;
        say!("== {name}: {seconds} s");
        self.server.sql(&steady(rate))?;
        let target = Target::start(rate.target, &self.folder)?;
        target.empty()?;
        let pipeline = self.pipeline_into(name, "[\"latency.steady\"]", "initial", &target.sink(), "")?;
        let mut run = Guarded::spawn(&mut self.command(name, &pipeline)?)?;
        let mut look = Look::begun(&target, &mut run)?;
        let per_second = i64::from(rate.transactions * rate.rows);
        let last = i64::from(seconds) * per_second - 1;
        let mut client = self.server.socket_command("mysql")?;
        let call = format!("SET time_zone = '+00:00'; CALL latency.steady({})", seconds * rate.transactions);
        client.args(["--execute", &call]);
        let mut writer = Guarded::spawn(client.stdout(Stdio::null()))?;
        let seen = watched(&mut look, last, &mut run)?;
        ensure!(writer.wait(PATIENCE)?.success(), "the writer failed");
        let sent = self.sent()?;
        drop(look);
        run.interrupt()?;
        let ended = run.wait(PATIENCE)?;
        if !ended.success() {
            failures.push(format!("{name}: the run ended with {ended}"));
        }
        self.server.sql("DROP DATABASE latency")?;
        target.empty()?;
        // the first second warms everything up
        let mut delays = delays(&sent, &seen, per_second);
        delays.sort_by(f64::total_cmp);
        let entry = Entry::Latency {
            name: name.into(),
            rows: delays.len() as u64,
            p50_ms: percentile(&delays, 50),
            p99_ms: percentile(&delays, 99),
        };
        say!("   {}", entry.line());
        self.entries.push(entry);
        Ok(())
    }

    /// Numbers of rows and their times, in microseconds since 1970.
    fn sent(&self) -> Result<Vec<(i64, i64)>> {
        let printed = self.server.sql(
            "SET time_zone = '+00:00';
             SELECT id, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', at) FROM latency.steady ORDER BY id",
        )?;
        let line = |line: &str| -> Result<(i64, i64)> {
            let (id, at) = line.split_once('\t').context("two columns")?;
            Ok((id.parse()?, at.parse()?))
        };
        printed.lines().map(line).collect()
    }
}

/// Asks a target for the greatest number that is there.
enum Look {
    /// A file.
    Sqlite(Connection),
    /// The target's own client, which is given a query a line and gives an answer a line.
    Client { child: Child, to: ChildStdin, from: BufReader<ChildStdout> },
}

const GREATEST: &str = "SELECT COALESCE(MAX(id), -1) FROM steady";

impl Look {
    /// When the target's table is there.
    fn begun(target: &Target, run: &mut Guarded) -> Result<Look> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            ensure!(run.ended()?.is_none(), "the run ended");
            ensure!(Instant::now() < deadline, "the target is not there");
            std::thread::sleep(Duration::from_millis(10));
            if let Ok(mut look) = Look::at(target)
                && look.greatest().is_ok()
            {
                // the first checkpoint and all that a start does is behind it
                std::thread::sleep(Duration::from_secs(1));
                return Ok(look);
            }
        }
    }

    fn at(target: &Target) -> Result<Look> {
        let client = match target {
            Target::Sqlite(path) => {
                let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
                db.busy_timeout(Duration::from_secs(2))?;
                return Ok(Look::Sqlite(db));
            }
            Target::MySql(server) => {
                let mut client = server.socket_command("mysql")?;
                client.args(["--unbuffered", "--skip-column-names", "--batch", "--database=dw"]);
                client
            }
            Target::Postgres(server) => {
                let mut client = server.psql("cdc", "dw");
                client.args(["--tuples-only", "--no-align"]);
                client
            }
        };
        Look::by(client)
    }

    fn by(mut client: Command) -> Result<Look> {
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = client.spawn().with_context(|| format!("starting {:?}", client.get_program()))?;
        let to = child.stdin.take().context("no way to the client")?;
        let from = BufReader::new(child.stdout.take().context("no way from the client")?);
        Ok(Look::Client { child, to, from })
    }

    /// -1 where there is none.
    fn greatest(&mut self) -> Result<i64> {
        match self {
            Look::Sqlite(db) => Ok(db.prepare_cached(GREATEST)?.query_row([], |row| row.get(0))?),
            Look::Client { to, from, .. } => {
                writeln!(to, "{GREATEST};")?;
                to.flush()?;
                let mut line = String::new();
                ensure!(from.read_line(&mut line)? > 0, "the client has ended");
                Ok(line.trim().parse()?)
            }
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        if let Look::Client { child, .. } = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The greatest number that was there at each time at which it had become another one.
fn watched(look: &mut Look, last: i64, run: &mut Guarded) -> Result<Vec<(i64, i64)>> {
    let mut seen: Vec<(i64, i64)> = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let greatest = look.greatest()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as i64;
        if greatest > seen.last().map_or(-1, |(last, _)| *last) {
            seen.push((greatest, now));
            if greatest >= last {
                return Ok(seen);
            }
        }
        ensure!(run.ended()?.is_none(), "the run ended");
        ensure!(Instant::now() < deadline, "the target has not got all rows");
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Milliseconds from sent to seen, of each row from a number on.
fn delays(sent: &[(i64, i64)], seen: &[(i64, i64)], first: i64) -> Vec<f64> {
    let when = |id: i64| seen.get(seen.partition_point(|(greatest, _)| *greatest < id)).map(|(_, at)| *at);
    let counted = sent.iter().filter(|(id, _)| *id >= first);
    counted.filter_map(|(id, at)| Some((when(*id)? - at) as f64 / 1000.0)).collect()
}

/// Of sorted values.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted
        .get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

/// A database of SQLite with what belongs to it.
pub fn remove_database(path: &Path) -> Result<()> {
    for end in ["", "-wal", "-shm"] {
        match std::fs::remove_file(format!("{}{end}", path.display())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_counts_from_when_it_is_seen_first() {
        let sent = [(5, 0), (1000, 1_000), (1001, 2_000), (1002, 4_000)];
        let seen = [(1001, 3_000), (1002, 9_000)];
        assert_eq!(delays(&sent, &seen, 1000), [2.0, 1.0, 5.0]);
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&sorted, 50), percentile(&sorted, 99)), (51.0, 100.0));
        assert!(percentile(&[], 50).is_nan());
    }
}
