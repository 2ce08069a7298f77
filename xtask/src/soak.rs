//! `cargo xtask soak --source`: the whole program against a real server, under everything at once.
//!
//! Clients write to tables of every sort and change them ([`cdc_testkit::history::storm`]). Meanwhile `cdc` copies them
//! into SQLite or another server, through a proxy that cuts, slows and stalls; it is killed at any moment, from its start on, and stopped
//! by Ctrl-C; the server is killed and restarted, its logs rotated and purged. In the end the writers stop, `cdc` catches
//! up, `cdc verify` must find no difference, and neither must a comparison that is not the program's ([`compare`]).
//!
//! What is chosen comes from the seed; what meets what, from the machine.

mod compare;
mod ddl;
mod program;
mod target;
mod views;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::history::storm::{Blowing, SUM, Storm, StormOptions};
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, remove_dir, target_dir};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::args::Args;
use crate::demo::program_or_build;
use crate::{say, servers};
use program::Run;
use target::Target;
pub use target::TargetKind;

/// A run that commits nothing for so long, with nobody in its way, stands still.
const STILL: Duration = Duration::from_secs(60);

/// How long catching up may take in all.
const CATCH_UP: Duration = Duration::from_secs(600);

/// `cargo xtask soak --source|--targets|--ddl|--views [--minutes N] [--seed N] [--server SERVER] [--target TARGET] [--workers N] [--cdc PROGRAM]
/// [--keep]`. With `--targets` each target in turn, for its share of the minutes.
pub fn main(args: &mut Args) -> Result<()> {
    let [of_source, of_targets, of_ddl, of_views] =
        ["--source", "--targets", "--ddl", "--views"].map(|name| args.flag(name));
    ensure!(
        [of_source, of_targets, of_ddl, of_views].into_iter().filter(|is| *is).count() == 1,
        "soak what? there are `cargo xtask soak --source`, `--targets`, `--ddl` and `--views`"
    );
    let minutes =
        args.value("--minutes")?.map_or(Ok(5.0), |text| text.parse::<f64>().context("--minutes"))?;
    let seed = args.number("--seed", cdc_testkit::history::seed())?;
    let kind = args.value("--server")?.map_or(Ok(ServerKind::default()), |name| name.parse())?;
    let target = args.value("--target")?.map(|name| TargetKind::parse(&name)).transpose()?;
    let workers =
        args.value("--workers")?.map(|text| text.parse::<u16>().context("--workers")).transpose()?;
    let program = args.value("--cdc")?;
    let keep = args.flag("--keep");
    args.finish()?;
    let program = program_or_build(program)?;
    let length = Duration::try_from_secs_f64(minutes * 60.0).context("--minutes")?;
    let targets = match target {
        Some(one) => vec![one],
        None if of_targets => TargetKind::ALL.to_vec(),
        None => vec![TargetKind::Sqlite],
    };
    let length = length / u32::try_from(targets.len())?;
    for target in targets {
        let program = program.clone();
        let what = Soaking { length, seed, kind, target, workers, program, keep };
        match (of_ddl, of_views) {
            (true, _) => ddl::soak(&what)?,
            (_, true) => views(&what)?,
            _ => source(&what)?,
        }
    }
    Ok(())
}

/// What is soaked, and how long.
pub struct Soaking {
    /// How long clients write.
    pub length: Duration,
    /// Where the choices come from.
    pub seed: u64,
    /// Against which server.
    pub kind: ServerKind,
    /// Into what.
    pub target: TargetKind,
    /// So many workers; `None`: a few, another number each time.
    pub workers: Option<u16>,
    /// `cdc`.
    pub program: PathBuf,
    /// Whether what it leaves is kept also where all went well.
    pub keep: bool,
}

/// Soaks in the way of `--source`.
pub fn source(what: &Soaking) -> Result<()> {
    kept(what, "source", |folder| {
        let mut soak = Soak::start(what, folder)?;
        let result = soak.all(what.length);
        soak.run = None;
        if result.is_err() {
            say!("{}", soak.status());
        }
        result
    })
}

/// Soaks in the way of `--views`.
pub fn views(what: &Soaking) -> Result<()> {
    views::soak(what)
}

/// Soaks in a folder, prints the summary, and says in any case which seed it was and where what is left of it lies.
fn kept(what: &Soaking, way: &str, soak: impl FnOnce(&Path) -> Result<String>) -> Result<()> {
    let (kind, seed) = (what.kind, what.seed);
    let target = what.target.name();
    say!("== soak --{way}: {kind} into {target}, seed {seed}, {:.0} s", what.length.as_secs_f64());
    servers::ensure(kind)?;
    let folder = target_dir().join("soak").join(format!("{way}-{}-{target}-{seed}", kind.name()));
    remove_dir(&folder)?;
    fs::create_dir_all(&folder)?;
    match soak(&folder) {
        Ok(summary) => {
            if what.keep {
                say!("kept in {}", folder.display());
            } else {
                remove_dir(&folder)?;
            }
            say!("soak: {summary}");
            Ok(())
        }
        Err(error) => Err(error.context(format!(
            "the soak --{way} with seed {seed} of {kind} into {target} failed; pipeline file, logs, state, target and the server's data are in {}",
            folder.display()
        ))),
    }
}

#[derive(Default)]
struct Counts {
    starts: u64,
    kills: u64,
    stops: u64,
    unreachable: u64,
    server_kills: u64,
    server_restarts: u64,
    server_defects: u64,
    cuts: u64,
    slow: u64,
    rotations: u64,
    purges: u64,
    fresh: u64,
    sums: u64,
}

struct Soak {
    rng: StdRng,
    program: PathBuf,
    workers: Option<u16>,
    folder: PathBuf,
    // in this order: the clients end before their server does
    run: Option<Run>,
    storm: Option<Blowing>,
    proxy: Proxy,
    target: Target,
    server: Server,
    counts: Counts,
    begun: Instant,
    said: Instant,
    looked: Instant,
    /// The last tick that was seen at the target, and since when.
    tick: (i64, Instant),
    /// When the way to the server was last disturbed.
    disturbed: Instant,
    /// The accounts have been copied as a whole.
    is_whole: bool,
}

impl Soak {
    fn start(what: &Soaking, folder: &Path) -> Result<Soak> {
        let mut rng = StdRng::seed_from_u64(what.seed);
        // a log that is rotated by itself too
        let options =
            ServerOptions::of(what.kind).with_datadir(folder.join("server")).with("--max-binlog-size=4M");
        let server = Server::start(options)?;
        let is_short = what.length < Duration::from_secs(60);
        let options = StormOptions {
            seed: what.seed,
            rate: if is_short { 15 } else { 20 },
            initial_rows: if is_short { 500 } else { 2000 },
            large: if is_short { 5000 } else { 20_000 },
        };
        let storm = Storm::create(&server, options)?;
        let proxy = Proxy::start(server.port())?;
        let target = Target::start(what.target, folder)?;
        let pipeline = program::pipeline(
            proxy.port(),
            &Storm::PATTERNS,
            rng.random_range(20..300),
            rng.random_range(1..5),
            &target.sink(),
        );
        fs::write(folder.join("soak.cdc"), pipeline)?;
        let now = Instant::now();
        Ok(Soak {
            program: what.program.clone(),
            workers: what.workers,
            folder: folder.to_path_buf(),
            run: None,
            storm: Some(storm.start(&server)?),
            proxy,
            target,
            server,
            counts: Counts::default(),
            begun: now,
            said: now,
            looked: now,
            tick: (0, now),
            disturbed: now,
            is_whole: false,
            rng,
        })
    }

    fn all(&mut self, length: Duration) -> Result<String> {
        // first of all it is killed within its snapshot, again and again
        for _ in 0..self.rng.random_range(3..7) {
            self.start_run()?;
            let time = self.rng.random_range(5..1500);
            self.live(Duration::from_millis(time))?;
            self.kill_run();
        }
        while self.begun.elapsed() < length {
            self.act(length)?;
        }
        self.end()
    }

    /// One thing that happens, and a while in which it has its effect.
    fn act(&mut self, length: Duration) -> Result<()> {
        if self.run.is_none() {
            self.start_run()?;
        }
        if self.target.disturb(&mut self.rng)? {
            self.disturbed = Instant::now();
        }
        match self.rng.random_range(0..100) {
            0..16 => {
                // at any moment, also right after its start
                for _ in 0..self.rng.random_range(1..4) {
                    self.kill_run();
                    if self.rng.random_ratio(1, 3) {
                        let pause = self.rng.random_range(0..800);
                        self.live(Duration::from_millis(pause))?;
                    }
                    self.start_run()?;
                    let most = if self.rng.random_ratio(1, 2) { 300 } else { 2500 };
                    let time = self.rng.random_range(1..most);
                    self.live(Duration::from_millis(time))?;
                }
            }
            16..24 => self.stop_run()?,
            24..29 => self.crash_server()?,
            29..31 => {
                if let Some(storm) = &self.storm {
                    storm.while_robust(|| self.server.restart())?;
                }
                self.disturbed = Instant::now();
                self.counts.server_restarts += 1;
            }
            31..42 => {
                if self.rng.random_ratio(1, 3) {
                    self.proxy.cut_all();
                } else {
                    let bytes = [500, 20_000, 1_000_000][self.rng.random_range(0..3)];
                    let bytes = self.rng.random_range(1..bytes);
                    self.proxy.cut_after(bytes);
                }
                self.disturbed = Instant::now();
                self.counts.cuts += 1;
            }
            42..50 => {
                let time = Duration::from_millis(self.rng.random_range(200..2500));
                self.counts.slow += 1;
                match self.rng.random_range(0..3) {
                    0 => self.proxy.slow_down(Some(self.rng.random_range(2_000..200_000))),
                    1 => self.proxy.stall(true),
                    _ => self.proxy.refuse(true),
                }
                let lived = self.disturbed_for(time);
                self.proxy.slow_down(None);
                self.proxy.stall(false);
                self.proxy.refuse(false);
                self.disturbed = Instant::now();
                lived?;
            }
            50..60 => {
                self.tell("FLUSH BINARY LOGS")?;
                self.counts.rotations += 1;
            }
            60..66 => self.purge()?,
            66..74 => self.set_server()?,
            74..76 if self.begun.elapsed() < length.mul_f64(0.7) => self.fresh()?,
            _ => self.breathe()?,
        }
        let pause = self.rng.random_range(10..900);
        self.live(Duration::from_millis(pause))
    }

    fn start_run(&mut self) -> Result<()> {
        let workers = self.workers.unwrap_or_else(|| self.rng.random_range(1..4));
        self.counts.starts += 1;
        let run = Run::start(&self.program, &self.folder, self.counts.starts, workers, &[], None)?;
        self.run = Some(run);
        self.tick.1 = Instant::now();
        Ok(())
    }

    fn kill_run(&mut self) {
        // it may have ended in the moment before
        if let Some(run) = self.run.take() {
            self.is_whole |= run.was_whole();
            drop(run);
            self.counts.kills += 1;
        }
    }

    /// Ctrl-C, which must be a good end.
    fn stop_run(&mut self) -> Result<()> {
        let Some(mut run) = self.run.take() else { return Ok(()) };
        run.interrupt()?;
        let status = run.wait(STILL).with_context(|| format!("after Ctrl-C\n{}", run.last_words()))?;
        self.is_whole |= run.was_whole();
        // as a signal ends a program that has not yet said how it takes it
        let was_early = status.code().is_none() && run.said_nothing();
        if !status.success() && !was_early && !self.is_forgiven(&run) {
            bail!("cdc after Ctrl-C: {status}\n{}", run.last_words());
        }
        self.counts.stops += 1;
        Ok(())
    }

    fn crash_server(&mut self) -> Result<()> {
        let Some(storm) = &self.storm else { return Ok(()) };
        storm.while_robust(|| self.server.kill())?;
        self.counts.server_kills += 1;
        let time = self.rng.random_range(0..1500);
        self.disturbed_for(Duration::from_millis(time))?;
        self.server.restart()?;
        self.disturbed = Instant::now();
        Ok(())
    }

    /// Purges the logs that no checkpoint needs.
    fn purge(&mut self) -> Result<()> {
        let Some(storm) = &self.storm else { return Ok(()) };
        let Some((mut logs, branches)) = program::needed(&self.folder)? else { return Ok(()) };
        for branch in branches {
            // one whose log is not known is not purged for
            let Some(log) = storm.log_of(&branch) else { return Ok(()) };
            logs.push(log);
        }
        if let Some(oldest) = logs.iter().min() {
            self.tell(&format!("PURGE BINARY LOGS TO '{oldest}'"))?;
            self.counts.purges += 1;
        }
        Ok(())
    }

    /// How the server commits and what it compresses.
    fn set_server(&mut self) -> Result<()> {
        let delay = [0, 0, 3_000, 50_000, 200_000][self.rng.random_range(0..5)];
        let bin_compress = self.rng.random_range(0..2);
        let sql = if self.server.kind().is_mariadb() {
            format!(
                "SET GLOBAL binlog_commit_wait_count = {}; SET GLOBAL binlog_commit_wait_usec = {delay};
                 SET GLOBAL log_bin_compress_min_len = 20; SET GLOBAL log_bin_compress = {bin_compress}",
                if delay > 0 { 5 } else { 0 },
            )
        } else {
            format!("SET GLOBAL binlog_group_commit_sync_delay = {delay}")
        };
        self.tell(&sql)
    }

    /// Tells the server something.
    fn tell(&mut self, sql: &str) -> Result<()> {
        let Err(error) = self.server.sql(sql) else { return Ok(()) };
        // if it is there, it did not like it
        if self.revive()? { Ok(()) } else { Err(error) }
    }

    /// Starts the server again if it has ended by itself, as one does that meets a defect of its own; true if it had.
    fn revive(&mut self) -> Result<bool> {
        if self.server.sql("SELECT 1").is_ok() {
            return Ok(false);
        }
        self.counts.server_defects += 1;
        let log = self.server.error_log();
        let words: Vec<&str> =
            log.lines().filter(|line| line.contains("got signal") || line.starts_with("Query (")).collect();
        say!("== the server ended by itself: {}", words.join(" "));
        self.server.restart()?;
        self.disturbed = Instant::now();
        Ok(true)
    }

    /// Begins again from nothing.
    fn fresh(&mut self) -> Result<()> {
        self.kill_run();
        remove_dir(&self.folder.join("state"))?;
        self.target.remove()?;
        self.counts.fresh += 1;
        self.is_whole = false;
        self.tick = (0, Instant::now());
        for _ in 0..self.rng.random_range(1..4) {
            self.start_run()?;
            let time = self.rng.random_range(5..1200);
            self.live(Duration::from_millis(time))?;
            self.kill_run();
        }
        Ok(())
    }

    /// Leaves the run alone until it commits.
    fn breathe(&mut self) -> Result<()> {
        if self.run.is_none() {
            self.start_run()?;
        }
        let before = self.target.tick().unwrap_or(0);
        while self.target.tick().unwrap_or(0) <= before {
            self.live(Duration::from_millis(100))?;
            if self.run.is_none() {
                self.start_run()?;
            }
        }
        Ok(())
    }

    fn disturbed_for(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.disturbed = Instant::now();
            self.live(Duration::from_millis(50))?;
        }
        self.disturbed = Instant::now();
        Ok(())
    }

    /// Time goes by, and is watched.
    fn live(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            self.look()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    fn look(&mut self) -> Result<()> {
        if let Some(run) = &mut self.run
            && let Some(status) = run.ended()?
            && let Some(run) = self.run.take()
        {
            self.is_whole |= run.was_whole();
            // (who is away is waited for, from the start on; but nobody else starts a server that has ended by itself)
            if !(run.found_no_server() && self.revive()?) {
                bail!("cdc ended by itself ({status}), run {}\n{}", run.number(), run.last_words());
            }
            self.counts.unreachable += 1;
        }
        if self.looked.elapsed() < Duration::from_millis(500) {
            return Ok(());
        }
        self.looked = Instant::now();
        if let Some(storm) = &self.storm {
            ensure!(!storm.has_failed(), "a client gave up");
        }
        self.is_whole |= self.run.as_ref().is_some_and(Run::was_whole);
        let tick = self.target.tick().unwrap_or(self.tick.0);
        let is_disturbed = self.disturbed.elapsed() < Duration::from_secs(1);
        if tick != self.tick.0 || self.run.is_none() || is_disturbed {
            self.tick = (tick, Instant::now());
        }
        ensure!(
            self.tick.1.elapsed() < STILL,
            "nothing was committed for {STILL:?}, the last tick is {tick}"
        );
        if self.is_whole
            && (self.target.keeps_up() || program::is_whole(&self.folder))
            && let Some(sum) = self.target.sum()
        {
            self.counts.sums += 1;
            ensure!(sum == SUM, "the accounts at the target hold {sum}, which they never did at the source");
        }
        if self.said.elapsed() > Duration::from_secs(5) {
            self.said = Instant::now();
            say!("{}", self.line());
        }
        Ok(())
    }

    /// Whether a run that was told to stop was waiting for a server: then it says so.
    fn is_forgiven(&self, run: &Run) -> bool {
        self.disturbed.elapsed() < Duration::from_secs(30) && run.found_no_server()
    }

    /// The writers stop, the program catches up, and both sides are compared.
    fn end(&mut self) -> Result<String> {
        say!("{}", self.line());
        self.revive()?;
        let storm = self.storm.take().context("no clients")?;
        let counts = storm.end(&self.server)?;
        if self.rng.random_ratio(1, 2) {
            self.kill_run();
        } else {
            self.stop_run()?;
        }
        // what was to come and has not come
        self.proxy.cut_after(u32::MAX >> 1);
        self.target.leave_alone();
        say!("== the writers have ended; cdc run --until caught-up");
        let start = Instant::now();
        self.counts.starts += 1;
        let workers = self.workers.unwrap_or_else(|| self.rng.random_range(1..4));
        let until = ["--until", "caught-up"];
        let mut run = Run::start(&self.program, &self.folder, self.counts.starts, workers, &until, None)?;
        let mut tick = (0, Instant::now());
        let status = loop {
            if let Some(status) = run.ended()? {
                break status;
            }
            let now = self.target.tick().unwrap_or(tick.0);
            if now != tick.0 {
                tick = (now, Instant::now());
            }
            if tick.1.elapsed() > STILL || start.elapsed() > CATCH_UP {
                let words = run.last_words();
                self.run = Some(run);
                bail!("it does not catch up; the last tick is {}\n{}\n{words}", tick.0, self.status());
            }
            thread::sleep(Duration::from_millis(20));
        };
        ensure!(status.success(), "cdc failed ({status})\n{}", run.last_words());
        let caught_up = start.elapsed();
        say!("== caught up in {:.1} s; cdc verify", caught_up.as_secs_f64());
        let verified = program::verify(&self.program, &self.folder)?;
        // the program has judged itself
        let compared = compare::all(&self.server, &self.target, "soak_")?.summary()?;
        let c = &self.counts;
        let refused: Vec<String> =
            counts.refused.iter().map(|(code, (count, _))| format!("{code}: {count}")).collect();
        say!("refused to clients by error number: {}", refused.join(", "));
        Ok(format!(
            "{} seed {}: {} starts, {} kills, {} stops, {} begun anew, {} starts without a server; server: {} kills, {} restarts, \
             {} ends of its own, {} rotations, {} purges; network: {} cuts, {} slow; {} transactions, {} large, {} XA prepared, {} DDL; \
             sum right {} times; verify: {} tables, {} rows, {} differences; {compared}",
            self.server.kind().name(),
            self.seed(),
            c.starts,
            c.kills,
            c.stops,
            c.fresh,
            c.unreachable,
            c.server_kills,
            c.server_restarts,
            c.server_defects,
            c.rotations,
            c.purges,
            c.cuts,
            c.slow,
            counts.transactions,
            counts.large,
            counts.prepared,
            counts.ddl,
            c.sums,
            verified.tables,
            verified.rows,
            verified.differing,
        ))
    }

    fn seed(&self) -> &str {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.rsplit('-').next().unwrap_or_default()
    }

    fn line(&self) -> String {
        let c = &self.counts;
        let done = self.storm.as_ref().map(Blowing::counts).unwrap_or_default();
        format!(
            "{:4.0} s: tick {}, {} kills, {} stops, server {} kills, {} cuts; {} transactions, {} large, {} prepared, {} ddl; {} lost",
            self.begun.elapsed().as_secs_f64(),
            self.tick.0,
            c.kills,
            c.stops,
            c.server_kills + c.server_restarts,
            c.cuts,
            done.transactions,
            done.large,
            done.prepared,
            done.ddl,
            done.lost,
        )
    }

    /// All that may tell why.
    fn status(&self) -> String {
        let mut text = format!("-- status\n{}\n", self.line());
        for sql in
            ["SHOW PROCESSLIST", "XA RECOVER", self.server.kind().show_log_status(), "SHOW BINARY LOGS"]
        {
            let answer = self.server.sql(sql).unwrap_or_else(|error| format!("{error:#}\n"));
            text += &format!("{sql}:\n{answer}");
        }
        text += &format!("progress: {:?}\n", self.target.tick());
        text += &program::state(&self.folder);
        text
    }
}

/// `cdc COMMAND soak.cdc`, in the soak's folder.
fn cdc(program: &Path, folder: &Path, name: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).arg(name).arg("soak.cdc").env("CDC_PASSWORD", "cdc").env("NO_COLOR", "1");
    command
}
