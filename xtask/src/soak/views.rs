//! `cargo xtask soak --views`: joins, groups and what else views are made of, over tables that change at random, while `cdc` is killed.
//!
//! One client changes customers, orders and coupons ([`cdc_testkit::views`]): keys move and change places, rows go, a key changes several times
//! in one transaction, tables are emptied, columns that no view reads come and go. Another one moves money between accounts, in two tables.
//! `cdc` is killed at any moment, stopped, and, where the program has the feature `failpoints` (`--cdc target/debug/cdc` as the tests have built
//! it), killed at named steps. All the time the target must hold the sum that the accounts have, and what belongs together of one moment. In
//! the end each view must be what the source answers to the same query, and `cdc verify` must find no difference.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use cdc_testkit::views::{self, MOMENT, QUESTIONS, Random, VIEWS};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::program::{self, Run};
use super::target::Target;
use super::{STILL, Soaking, kept};
use crate::say;

const DATABASE: &str = "soak_views";

/// Where a program with the feature `failpoints` is killed (`cdc_core::faults`).
const STEPS: [&str; 12] = [
    "snapshot.chunk-read",
    "snapshot.chunk-given",
    "tick.closed",
    "sink.written",
    "sink.commit",
    "sink.committed",
    "schema.apply",
    "schema.applied",
    "views.saved",
    "views.speak",
    "checkpoint.partial",
    "checkpoint.renamed",
];

/// Soaks, prints the summary, and keeps what is left of one that failed.
pub fn soak(what: &Soaking) -> Result<()> {
    kept(what, "views", |folder| {
        let mut soak = Soak::start(what, folder)?;
        let result = soak.all(what.length);
        soak.run = None;
        result
    })
}

/// A client; it ends with its owner.
struct Client {
    stop: Arc<AtomicBool>,
    statements: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Client {
    /// Runs what it is given, again and again.
    fn start(server: &Arc<Server>, mut next: impl FnMut() -> String + Send + 'static) -> Client {
        let (stop, statements) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = {
            let (stop, statements, server) = (stop.clone(), statements.clone(), server.clone());
            thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let sql = next();
                    match server.sql(&format!("USE {DATABASE}; {sql}")) {
                        Ok(_) => {}
                        // two clients had waited for each other: the transaction never was, and what follows it is not sent
                        Err(error) if format!("{error:#}").contains("ERROR 1213") => {}
                        Err(error) => return Err(error),
                    }
                    statements.fetch_add(sql.matches(';').count() as u64, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            })
        };
        Client { stop, statements, thread: Some(thread) }
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Stops it; how many statements it had executed.
    fn end(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        Ok(self.statements.load(Ordering::SeqCst))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Default)]
struct Counts {
    starts: u64,
    kills: u64,
    at_steps: u64,
    stops: u64,
    moments: u64,
}

struct Soak {
    rng: StdRng,
    seed: u64,
    program: PathBuf,
    workers: Option<u16>,
    folder: PathBuf,
    // in this order: the clients end before their server does
    run: Option<Run>,
    clients: Vec<Client>,
    target: Target,
    server: Arc<Server>,
    counts: Counts,
    begun: Instant,
    said: Instant,
    looked: Instant,
    /// The last tick that was seen at the target, and since when.
    tick: (i64, Instant),
    /// When the target was last disturbed.
    disturbed: Instant,
}

/// Mode `evolve`: what is emptied at the source is emptied at the target.
fn pipeline(port: u16, chunk_rows: u32, sink: &str) -> String {
    format!(
        "pipeline {{\n  name             = \"soak\"\n  checkpoint       = {{ dir = \"state\", every = \"300ms\" }}\n  \
         on_schema_change = evolve\n}}\n\n\
         source src = mysql {{\n  url        = \"mysql://127.0.0.1:{port}\"\n  user       = \"cdc\"\n  \
         password   = \"${{CDC_PASSWORD}}\"\n  tables     = [\"{DATABASE}.*\"]\n  server_id  = 5500\n  \
         chunk_rows = {chunk_rows}\n}}\n\nsink dw = {sink}\n\n{VIEWS}"
    )
}

impl Soak {
    fn start(what: &Soaking, folder: &Path) -> Result<Soak> {
        let mut rng = StdRng::seed_from_u64(what.seed);
        let server = Server::start(ServerOptions::of(what.kind).with_datadir(folder.join("server")))?;
        views::tables(&server, DATABASE)?;
        let target = Target::start(what.target, folder)?;
        let chunk_rows = rng.random_range(20..300);
        fs::write(folder.join("soak.cdc"), pipeline(server.port(), chunk_rows, &target.sink()))?;
        let server = Arc::new(server);
        let (mut all, mut money) = (Random::new(what.seed), Random::new(what.seed ^ 1));
        let clients = vec![
            Client::start(&server, move || {
                let mut sql = all.changes(12);
                if all.below(3) == 0 {
                    sql += &all.rarer();
                }
                sql
            }),
            Client::start(&server, move || money.transfers(20)),
        ];
        let now = Instant::now();
        Ok(Soak {
            rng,
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
            looked: now,
            tick: (0, now),
            disturbed: now,
        })
    }

    fn all(&mut self, length: Duration) -> Result<String> {
        while self.begun.elapsed() < length {
            if self.run.is_none() {
                self.start_run()?;
            }
            if self.target.disturb(&mut self.rng)? {
                self.disturbed = Instant::now();
            }
            // most live long enough for views to speak, or to say something new
            let most = [300, 3000, 8000][self.rng.random_range(0..3)];
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

    fn workers(&mut self) -> u16 {
        self.workers.unwrap_or_else(|| self.rng.random_range(1..5))
    }

    fn start_run(&mut self) -> Result<()> {
        let workers = self.workers();
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
            thread::sleep(Duration::from_millis(5));
        }
        for client in &mut self.clients {
            if client.has_ended()
                && let Some(thread) = client.thread.take()
            {
                let ended = thread.join().map_err(|_| anyhow!("a client panicked"))?;
                return ended.context("a client has given up");
            }
        }
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
            let done: u64 = self.clients.iter().map(|client| client.statements.load(Ordering::SeqCst)).sum();
            say!(
                "{:4.0} s: tick {tick}, {} kills, {} at steps, {} stops, {} moments; {done} statements",
                self.begun.elapsed().as_secs_f64(),
                c.kills,
                c.at_steps,
                c.stops,
                c.moments
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
        // a server is asked by a program of its own
        let pause = if matches!(self.target, Target::Sqlite(_)) { 5 } else { 200 };
        if self.looked.elapsed() >= Duration::from_millis(pause) {
            self.looked = Instant::now();
            self.moment()?;
        }
        Ok(())
    }

    /// What the target holds now is of one moment of the source.
    fn moment(&mut self) -> Result<()> {
        // the target may be down, there may be no table, or views have not spoken
        if let Ok(rows) = self.target.rows(MOMENT)
            && let [row] = &rows[..]
        {
            // MySQL and MariaDB empty a table outside of the tick's transaction
            views::is_one_moment(row, !matches!(self.target, Target::Server { .. }))?;
            self.counts.moments += 1;
        }
        Ok(())
    }

    /// Whether a run that was told to stop was waiting for a target: then it says so.
    fn is_forgiven(&self, run: &Run) -> bool {
        self.disturbed.elapsed() < Duration::from_secs(30) && run.found_no_server()
    }

    /// The clients stop, the program catches up, and both sides are compared.
    fn end(&mut self) -> Result<String> {
        let mut statements = 0;
        for client in self.clients.drain(..) {
            statements += client.end()?;
        }
        self.run = None;
        self.target.leave_alone();
        say!("== the clients have ended; cdc run --until caught-up");
        let begun = Instant::now();
        let (workers, mut starts) = (self.workers(), self.counts.starts);
        let done = program::catch_up(&self.program, &self.folder, &self.target, workers, &mut starts);
        self.counts.starts = starts;
        done?;
        say!("== caught up in {:.1} s; cdc verify", begun.elapsed().as_secs_f64());
        self.moment()?;
        ensure!(self.counts.moments > 0, "views have caught up, and nothing of them is there");
        let verified = program::verify(&self.program, &self.folder)?;
        let mut rows = 0;
        for question in QUESTIONS {
            let expected = question.at_source(&self.server, DATABASE)?;
            let mut found = self.target.rows(&question.at_target())?;
            found.sort();
            if found != expected {
                for (name, rows) in [("source", &expected), ("target", &found)] {
                    fs::write(self.folder.join(format!("{}.{name}", question.view)), rows.join("\n"))?;
                }
                bail!(
                    "view {0}: the target's rows ({0}.target) are not the source's ({0}.source)",
                    question.view
                );
            }
            rows += found.len();
        }
        // the accounts are there in any case
        ensure!(rows > 0, "nothing to compare");
        let c = &self.counts;
        Ok(format!(
            "views, {} seed {}: {} starts, {} kills, {} at named steps, {} stops; {statements} statements; {} moments seen, each of one moment \
             of the source; verify: {} tables, {} rows, {} differences; {} views as the source answers, {rows} rows",
            self.server.kind().name(),
            self.seed,
            c.starts,
            c.kills,
            c.at_steps,
            c.stops,
            c.moments,
            verified.tables,
            verified.rows,
            verified.differing,
            QUESTIONS.len(),
        ))
    }
}
