//! How long a commit takes from the source to the target, while a hundred transactions of ten rows come each second.
//!
//! Each row holds the source's clock, which is this machine's, as it was when its statement began. The target is looked at without a
//! pause, and a row counts as committed there when it is seen first, so the figures hold the commit at the source and the look.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

use super::{Bench, PATIENCE};
use crate::bench::report::Entry;
use crate::child::Guarded;
use crate::say;

const NAME: &str = "latency_sqlite_1000";

/// A transaction every ten milliseconds, by the clock and not by pauses.
const STEADY: &str = "
CREATE DATABASE latency;
USE latency;
CREATE TABLE steady (id BIGINT NOT NULL PRIMARY KEY, at DATETIME(6) NOT NULL);
delimiter //
CREATE PROCEDURE steady(IN transactions BIGINT)
BEGIN
  DECLARE n BIGINT DEFAULT 0;
  DECLARE begun DATETIME(6) DEFAULT SYSDATE(6);
  WHILE n < transactions DO
    DO SLEEP(GREATEST(0, n / 100 - TIMESTAMPDIFF(MICROSECOND, begun, SYSDATE(6)) / 1000000));
    INSERT INTO steady WITH RECURSIVE s (d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM s WHERE d < 9)
      SELECT n * 10 + d, SYSDATE(6) FROM s;
    SET n = n + 1;
  END WHILE;
END//
delimiter ;
";

/// What is not counted: the first second.
const WARM_UP: i64 = 1000;

impl Bench {
    /// Row changes at a steady rate into SQLite.
    pub fn latency(&mut self, quick: bool, failures: &mut Vec<String>) -> Result<()> {
        let seconds: i64 = if quick { 10 } else { 30 };
        say!("== {NAME}: {seconds} s");
        self.server.sql(STEADY)?;
        let target = self.folder.join("latency.db");
        remove_database(&target)?;
        let sink = "sqlite { path = \"latency.db\" }";
        let pipeline = self.pipeline_into(NAME, "[\"latency.steady\"]", "initial", sink, "")?;
        let mut run = Guarded::spawn(&mut self.command(NAME, &pipeline)?)?;
        let db = opened(&target, &mut run)?;
        let rows = seconds * 1000;
        let mut client = self.server.socket_command("mysql")?;
        client.args([
            "--execute",
            &format!("SET time_zone = '+00:00'; CALL latency.steady({})", seconds * 100),
        ]);
        let mut writer = Guarded::spawn(client.stdout(Stdio::null()))?;
        let seen = watched(&db, rows - 1, &mut run)?;
        ensure!(writer.wait(PATIENCE)?.success(), "the writer failed");
        let sent = self.sent()?;
        drop(db);
        run.interrupt()?;
        let ended = run.wait(PATIENCE)?;
        if !ended.success() {
            failures.push(format!("{NAME}: the run ended with {ended}"));
        }
        self.server.sql("DROP DATABASE latency")?;
        remove_database(&target)?;
        let mut delays = delays(&sent, &seen);
        delays.sort_by(f64::total_cmp);
        let entry = Entry::Latency {
            name: NAME.into(),
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

/// The target, when its table is there.
fn opened(path: &Path, run: &mut Guarded) -> Result<Connection> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        ensure!(run.ended()?.is_none(), "the run ended");
        ensure!(Instant::now() < deadline, "the target is not there");
        std::thread::sleep(Duration::from_millis(10));
        let Ok(db) = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE) else { continue };
        db.busy_timeout(Duration::from_secs(2))?;
        if db.query_row("SELECT COUNT(*) FROM steady", [], |row| row.get::<_, i64>(0)).is_ok() {
            // the first checkpoint and all that a start does is behind it
            std::thread::sleep(Duration::from_secs(1));
            return Ok(db);
        }
    }
}

/// The greatest number that was there at each time at which it had become another one.
fn watched(db: &Connection, last: i64, run: &mut Guarded) -> Result<Vec<(i64, i64)>> {
    let mut seen: Vec<(i64, i64)> = Vec::new();
    let mut look = db.prepare("SELECT MAX(id) FROM steady")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let greatest: Option<i64> = look.query_row([], |row| row.get(0))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as i64;
        if let Some(greatest) = greatest.filter(|g| seen.last().is_none_or(|(last, _)| g > last)) {
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

/// Milliseconds from sent to seen, of each row behind the warm-up.
fn delays(sent: &[(i64, i64)], seen: &[(i64, i64)]) -> Vec<f64> {
    let when = |id: i64| seen.get(seen.partition_point(|(greatest, _)| *greatest < id)).map(|(_, at)| *at);
    let counted = sent.iter().filter(|(id, _)| *id >= WARM_UP);
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
        assert_eq!(delays(&sent, &seen), [2.0, 1.0, 5.0]);
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&sorted, 50), percentile(&sorted, 99)), (51.0, 100.0));
        assert!(percentile(&[], 50).is_nan());
    }
}
