//! `cargo xtask soak --ddl`: tables change their structure at random, in each mode, while `cdc` is killed.
//!
//! A database for each mode is changed by a client of its own ([`cdc_testkit::history::shapes`]), with statements of all four
//! classes: shape only, shape with computed values, rows that change unseen, no effect. One pipeline copies all of them;
//! it is killed at any moment, stopped, and, where the program has the feature `failpoints` (`--cdc
//! target/debug/cdc` as the tests have built it), killed at the named steps of schema changes, commits and checkpoints.
//! Of the tables of mode try_evolve the target refuses some: something there needs a column. In the end `cdc verify`
//! must find no difference, and each mode must have kept its promise of which columns the target has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::history::shapes::{Changing, Shapes, ShapesOptions};
use cdc_testkit::servers::{Server, ServerOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::program::{self, Run};
use super::target::{self, Target};
use super::{STILL, Soaking, compare, kept};
use crate::say;

const MODES: [&str; 4] = ["evolve", "lenient", "ignore", "try_evolve"];

/// Where a program with the feature `failpoints` is killed (`cdc_core::faults`).
const STEPS: [&str; 8] = [
    "schema.apply",
    "schema.applied",
    "refusal.noted",
    "sink.written",
    "sink.commit",
    "sink.committed",
    "checkpoint.partial",
    "checkpoint.renamed",
];

/// Columns that something at the target needs, at most.
const PROTECTED: u64 = 8;

/// Soaks, prints the summary, and keeps what is left of one that failed.
pub fn soak(what: &Soaking) -> Result<()> {
    kept(what, "ddl", |folder| {
        let mut soak = Soak::start(what, folder)?;
        let result = soak.all(what.length);
        soak.run = None;
        result
    })
}

#[derive(Default)]
struct Counts {
    starts: u64,
    kills: u64,
    at_steps: u64,
    stops: u64,
    protected: u64,
}

struct Soak {
    rng: StdRng,
    seed: u64,
    program: PathBuf,
    workers: Option<u16>,
    folder: PathBuf,
    // in this order: the clients end before their server does
    run: Option<Run>,
    clients: Vec<Changing>,
    target: Target,
    server: Server,
    counts: Counts,
    begun: Instant,
    said: Instant,
    /// The last tick that was seen at the target, and since when.
    tick: (i64, Instant),
    /// When the target was last disturbed.
    disturbed: Instant,
}

fn pipeline(port: u16, sink: &str) -> String {
    let mut text = format!(
        "pipeline {{\n  name       = \"soak\"\n  checkpoint = {{ dir = \"state\", every = \"300ms\" }}\n}}\n\n\
         source src = mysql {{\n  url        = \"mysql://127.0.0.1:{port}\"\n  user       = \"cdc\"\n  \
         password   = \"${{CDC_PASSWORD}}\"\n  tables     = [\"soak_*.*\", \"!*.hidden_*\"]\n  server_id  = 5500\n  \
         chunk_rows = 50\n}}\n\nsink dw = {sink}\n\n"
    );
    for mode in MODES {
        text += &format!(
            "src.soak_{mode}.* => dw.\"{{database}}.{{table}}\" with {{ on_schema_change = {mode} }}\n"
        );
    }
    text
}

impl Soak {
    fn start(what: &Soaking, folder: &Path) -> Result<Soak> {
        let server = Server::start(ServerOptions::of(what.kind).with_datadir(folder.join("server")))?;
        let target = Target::start(what.target, folder)?;
        fs::write(folder.join("soak.cdc"), pipeline(server.port(), &target.sink()))?;
        let mut clients = Vec::new();
        for mode in MODES {
            let options = ShapesOptions {
                seed: what.seed,
                database: format!("soak_{mode}"),
                tables: 5,
                removes: mode == "evolve",
                renames: mode == "evolve" || mode == "lenient",
                // What needs a column at the target keeps the whole table from going there. If that is one that a run in front of
                // the last checkpoint has taken in, nobody knows its shape any more: the run stops, and says so.
                rebuilds: mode != "try_evolve",
                crosses: mode == "evolve" || mode == "lenient",
                pause: Duration::from_millis(150),
            };
            clients.push(Shapes::create(&server, options)?.start(&server)?);
        }
        let now = Instant::now();
        Ok(Soak {
            rng: StdRng::seed_from_u64(what.seed),
            seed: what.seed,
            program: what.program.clone(),
            workers: what.workers,
            folder: folder.to_path_buf(),
            run: None,
            clients,
            target,
            server,
            counts: Counts::default(),
            begun: now,
            said: now,
            tick: (0, now),
            disturbed: now,
        })
    }

    fn all(&mut self, length: Duration) -> Result<String> {
        while self.begun.elapsed() < length {
            if self.run.is_none() {
                self.start_run()?;
            }
            if self.rng.random_ratio(1, 4) && self.counts.protected < PROTECTED {
                self.protect()?;
            }
            if self.target.disturb(&mut self.rng)? {
                self.disturbed = Instant::now();
            }
            let most = [100, 1000, 6000][self.rng.random_range(0..3)];
            let time = self.rng.random_range(1..most);
            self.live(Duration::from_millis(time))?;
            if self.rng.random_ratio(1, 6) {
                self.stop_run()?;
            } else if self.run.take().is_some() {
                self.counts.kills += 1;
            }
        }
        self.end()
    }

    fn start_run(&mut self) -> Result<()> {
        let workers = self.workers.unwrap_or(4);
        self.counts.starts += 1;
        let step = STEPS[self.rng.random_range(0..STEPS.len())];
        let fault = format!("{step}={}*off->return", self.rng.random_range(0..12));
        let fault = self.rng.random_ratio(1, 2).then_some(&*fault);
        self.run = Some(Run::start(&self.program, &self.folder, self.counts.starts, workers, &[], fault)?);
        Ok(())
    }

    /// Ctrl-C, which must be a good end.
    fn stop_run(&mut self) -> Result<()> {
        let Some(mut run) = self.run.take() else { return Ok(()) };
        run.interrupt()?;
        let status = run.wait(STILL).with_context(|| format!("after Ctrl-C\n{}", run.last_words()))?;
        // by a signal: at a named step, or before it has said how it takes Ctrl-C
        if !status.success() && status.code().is_some() && !self.is_forgiven(&run) {
            bail!("cdc after Ctrl-C: {status}\n{}", run.last_words());
        }
        self.counts.stops += 1;
        Ok(())
    }

    /// Time goes by, and is watched.
    fn live(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until && self.run.is_some() {
            self.look()?;
            thread::sleep(Duration::from_millis(20));
        }
        self.clients.iter_mut().try_for_each(Changing::check).context("a client has given up")?;
        let tick = self.target.tick().unwrap_or(self.tick.0);
        if tick != self.tick.0 || self.disturbed.elapsed() < Duration::from_secs(1) {
            self.tick = (tick, Instant::now());
        }
        ensure!(
            self.tick.1.elapsed() < STILL,
            "nothing was committed for {STILL:?}, the last tick is {tick}\n{}",
            self.run.as_ref().map(Run::last_words).unwrap_or_default()
        );
        if self.said.elapsed() > Duration::from_secs(5) {
            self.said = Instant::now();
            let c = &self.counts;
            let made: Vec<String> = self.clients.iter().map(|c| c.statements().to_string()).collect();
            say!(
                "{:4.0} s: tick {tick}, {} kills, {} at steps, {} stops, {} protected; {} DDL",
                self.begun.elapsed().as_secs_f64(),
                c.kills,
                c.at_steps,
                c.stops,
                c.protected,
                made.join(" + ")
            );
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        if let Some(run) = &mut self.run
            && let Some(status) = run.ended()?
            && let Some(run) = self.run.take()
        {
            if status.code().is_none() {
                self.counts.at_steps += 1;
            } else {
                // (who is away is waited for, from the start on)
                bail!("cdc ended by itself ({status}), run {}\n{}", run.number(), run.last_words());
            }
        }
        Ok(())
    }

    /// Whether a run that was told to stop was waiting for a target: then it says so.
    fn is_forgiven(&self, run: &Run) -> bool {
        self.disturbed.elapsed() < Duration::from_secs(30) && run.found_no_server()
    }

    /// Something at the target needs a column from now on.
    fn protect(&mut self) -> Result<()> {
        // there may be no target yet, or none for a moment
        let Ok(columns) = self.target.columns("soak_try_evolve.") else { return Ok(()) };
        let all: Vec<(&String, &String)> = columns
            .iter()
            .flat_map(|(table, columns)| columns.iter().map(move |c| (table, c)))
            .filter(|(_, c)| !["id", "n", "_cdc_row"].contains(&c.as_str()))
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        let (table, column) = all[self.rng.random_range(0..all.len())];
        // the column may just be going
        if self.target.protect(self.counts.protected, table, column).is_ok() {
            self.counts.protected += 1;
        }
        Ok(())
    }

    /// The clients stop, the program catches up, and both sides are compared.
    fn end(&mut self) -> Result<String> {
        let mut done = Vec::new();
        for (client, mode) in self.clients.drain(..).zip(MODES) {
            done.push(format!("{mode}: {}", client.end()?));
        }
        self.run = None;
        self.target.leave_alone();
        say!("== the clients have ended; cdc run --until caught-up");
        let begun = Instant::now();
        self.catch_up()?;
        let caught_up = begun.elapsed().as_secs_f64();
        say!("== caught up in {caught_up:.1} s; cdc verify");
        let verified = program::verify(&self.program, &self.folder)?;
        let tables = self.promises()?;
        let compared = compare::all(&self.server, &self.target, "soak_evolve.")?.summary()?;
        let c = &self.counts;
        Ok(format!(
            "ddl, {} seed {}: {} starts, {} kills, {} at named steps, {} stops, {} columns protected; {}; \
             verify: {} tables, {} rows, {} differences; columns of {tables} tables as the modes promise; {compared}",
            self.server.kind().name(),
            self.seed,
            c.starts,
            c.kills,
            c.at_steps,
            c.stops,
            c.protected,
            done.join("; "),
            verified.tables,
            verified.rows,
            verified.differing,
        ))
    }

    fn catch_up(&mut self) -> Result<()> {
        let (workers, mut starts) = (self.workers.unwrap_or(4), self.counts.starts);
        let done = program::catch_up(&self.program, &self.folder, &self.target, workers, &mut starts);
        self.counts.starts = starts;
        done
    }

    /// Which columns the target has, by mode: in evolve those of the source, in lenient those at least; what the other
    /// two have is compared by `cdc verify`. In evolve its defaults and comments too.
    fn promises(&self) -> Result<usize> {
        let mut tables = 0;
        for mode in ["evolve", "lenient"] {
            let listed = self.server.sql(&format!(
                "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'soak_{mode}'"
            ))?;
            let mut source: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (table, column) in listed.lines().filter_map(|line| line.split_once('\t')) {
                source.entry(table.to_owned()).or_default().insert(column.to_owned());
            }
            let there = self.target.columns(&format!("soak_{mode}."))?;
            for (table, columns) in &source {
                let found = there.get(table).with_context(|| format!("{table} is not at the target"))?;
                let is_right = if mode == "evolve" { found == columns } else { found.is_superset(columns) };
                ensure!(is_right, "{table}: columns at the target {found:?}, at the source {columns:?}");
                tables += 1;
            }
            if mode == "evolve"
                && let Some(there) = self.target.said("soak_evolve.")?
            {
                let here = target::said_of(&self.server, "soak_evolve", "")?;
                let differing: Vec<_> = here
                    .iter()
                    .filter(|(name, said)| there.get(*name) != Some(said))
                    .map(|(name, said)| format!("{name}: {said:?} at the source, {:?}", there.get(name)))
                    .take(6)
                    .collect();
                ensure!(differing.is_empty(), "defaults and comments differ: {differing:#?}");
            }
            ensure!(
                mode != "evolve" || there.len() == source.len(),
                "tables at the target {:?}, at the source {:?}",
                there.keys(),
                source.keys()
            );
        }
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_a_flow() {
        let text = pipeline(3306, "null");
        for mode in MODES {
            assert!(text.contains(&format!("on_schema_change = {mode} }}")), "{text}");
        }
    }
}
