//! What schema changes cost: the same rows into SQLite with a thousand of them and without, and how long rows are held by each
//! where nothing else is to be done.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::latency::{percentile, remove_database};
use super::{Bench, PATIENCE};
use crate::bench::report::Entry;
use crate::child::Guarded;
use crate::say;

const NAME: &str = "ddl_sqlite";

/// Changes of schema, half of them ADD COLUMN, half RENAME COLUMN, over this many tables.
const CHANGES: u64 = 1000;
const TABLES: u64 = 10;

/// Rows between two of them.
const ROWS: u64 = 100;

/// Changes while nothing else happens.
const IDLE: usize = 50;

/// What a thousand may cost, in seconds, and what rows may be held beyond the target's own time, in milliseconds.
const MOST_S: f64 = 10.0;
const MOST_HELD_MS: f64 = 5.0;

/// What a program printed of one schema change.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    held_ms: f64,
    target_ms: f64,
}

impl Bench {
    /// A thousand schema changes in a stream of rows.
    pub fn ddl(&mut self, failures: &mut Vec<String>) -> Result<()> {
        say!("== {NAME}: {CHANGES} schema changes in {} rows", CHANGES * ROWS);
        let mut runs = Vec::new();
        for (database, changes) in [("ddl_plain", false), ("ddl_changes", true)] {
            self.server.sql("FLUSH BINARY LOGS")?;
            let file = self.log_files()?.pop().context("the server has no log")?;
            self.server.sql(&stream(database, changes))?;
            remove_database(&self.folder.join("ddl.db"))?;
            let start = format!("{{ offset = \"{file}:4\" }}");
            let sink = "sqlite { path = \"ddl.db\" }";
            let name = format!("{NAME}_{database}");
            let tables = format!("[\"{database}.*\"]");
            let pipeline = self.pipeline_into(&name, &tables, &start, sink, "on_schema_change = evolve")?;
            let mut costs = Vec::new();
            for _ in 0..self.runs {
                remove_database(&self.folder.join("ddl.db"))?;
                costs.push(self.run(&name, &pipeline)?);
            }
            let printed = fs::read_to_string(self.printed(&name))?;
            let told = printed.lines().filter_map(held).count() as u64;
            // the tables themselves come by statements too
            ensure!(
                told == TABLES + if changes { CHANGES } else { 0 },
                "{told} schema changes were told, see {}",
                self.printed(&name).display()
            );
            runs.push(super::median(costs).context("no run")?);
            self.server.sql(&format!("DROP DATABASE {database}"))?;
        }
        let [plain, changed] = runs[..] else { return Ok(()) };
        let mut beyond = self.idle()?;
        beyond.sort_by(f64::total_cmp);
        let extra_s = changed.wall_s - plain.wall_s;
        let entry = Entry::Ddl {
            name: NAME.into(),
            rows: CHANGES * ROWS,
            changes: CHANGES,
            ours: changed,
            plain,
            p50_ms: percentile(&beyond, 50),
            p99_ms: percentile(&beyond, 99),
        };
        say!("   {}", entry.line());
        self.entries.push(entry);
        if extra_s > MOST_S {
            failures.push(format!("{NAME}: {CHANGES} schema changes cost {extra_s:.1} s, wanted {MOST_S} s"));
        }
        let median = percentile(&beyond, 50);
        if median > MOST_HELD_MS {
            failures.push(format!("{NAME}: a barrier takes {median:.1} ms, wanted {MOST_HELD_MS} ms"));
        }
        remove_database(&self.folder.join("ddl.db"))
    }

    /// Schema changes that come one by one while no row comes: for each, how long rows would have been held beyond the target's own time.
    fn idle(&self) -> Result<Vec<f64>> {
        let name = format!("{NAME}_idle");
        self.server.sql("CREATE DATABASE ddl_idle; CREATE TABLE ddl_idle.t (id INT PRIMARY KEY, c INT)")?;
        remove_database(&self.folder.join("ddl.db"))?;
        let sink = "sqlite { path = \"ddl.db\" }";
        let pipeline =
            self.pipeline_into(&name, "[\"ddl_idle.t\"]", "initial", sink, "on_schema_change = evolve")?;
        let mut run = Guarded::spawn(&mut self.command(&name, &pipeline)?)?;
        let told = |run: &mut Guarded, number: usize, word: &str| -> Result<String> {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let printed = fs::read_to_string(self.printed(&name)).unwrap_or_default();
                if printed.lines().filter(|l| l.contains(word)).count() >= number {
                    return Ok(printed);
                }
                ensure!(run.ended()?.is_none(), "the run ended, see {}", self.printed(&name).display());
                ensure!(Instant::now() < deadline, "not told: {word}");
                thread::sleep(Duration::from_millis(5));
            }
        };
        told(&mut run, 1, "snapshot complete")?;
        let mut printed = String::new();
        for n in 0..IDLE {
            let statement = match n % 2 {
                0 => format!("ADD COLUMN c{n} INT"),
                _ => format!("RENAME COLUMN c{} TO d{n}", n - 1),
            };
            self.server.sql(&format!("ALTER TABLE ddl_idle.t {statement}"))?;
            printed = told(&mut run, n + 1, "schema change: ")?;
        }
        run.interrupt()?;
        ensure!(run.wait(PATIENCE)?.success(), "the run did not end well");
        self.server.sql("DROP DATABASE ddl_idle")?;
        let held: Vec<Held> = printed.lines().filter_map(held).collect();
        ensure!(held.len() == IDLE, "of {IDLE} schema changes {} tell how long they took", held.len());
        Ok(held.iter().map(|h| h.held_ms - h.target_ms).collect())
    }
}

/// The statements: rows of ten tables in turn, with or without a change of schema in front of each hundred.
fn stream(database: &str, changes: bool) -> String {
    let mut sql = format!("CREATE DATABASE {database}; USE {database};\n");
    for table in 0..TABLES {
        sql += &format!("CREATE TABLE t{table} (id BIGINT NOT NULL PRIMARY KEY, v INT NOT NULL);\n");
    }
    for n in 0..CHANGES {
        let (table, round) = (n % TABLES, n / TABLES);
        if changes {
            let statement = match round % 2 {
                0 => format!("ADD COLUMN c{round} INT"),
                _ => format!("RENAME COLUMN c{} TO d{}", round - 1, round - 1),
            };
            sql += &format!("ALTER TABLE t{table} {statement};\n");
        }
        sql += &format!(
            "INSERT INTO t{table} (id, v) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {ROWS}) \
             SELECT {n} * {ROWS} + i, i FROM s;\n"
        );
    }
    sql
}

/// `..; rows held 1.5 ms, 0.9 ms of them at the target`
fn held(line: &str) -> Option<Held> {
    let (_, figures) = line.split_once("schema change: ")?.1.rsplit_once("; rows held ")?;
    let (held, target) = figures.split_once(" ms, ")?;
    let (target, _) = target.split_once(" ms")?;
    Some(Held { held_ms: held.parse().ok()?, target_ms: target.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_line_are_read() {
        let line = "schema change: add column to d.t: c int (ALTER TABLE t ADD c INT); dw.t: add_column c; rows held 1.52 ms, 0.91 ms of them at the target";
        assert_eq!(held(line), Some(Held { held_ms: 1.52, target_ms: 0.91 }));
        assert_eq!(held("table d.t is whole"), None);
    }
}
