//! `cargo xtask bench`: how fast, against what the server's own programs do with the same data.
//!
//! | name | ours | reference |
//! |---|---|---|
//! | `snapshot_null` | copy of the narrow table into a null sink | `mysql --quick` reading the table |
//! | `snapshot_wide_null` | the same of the wide table | the same |
//! | `log_null` | the whole log into a null sink | `mysqlbinlog --raw` from the server into a file |
//! | `memory` | the most memory that copies of a hundredth, a tenth and all of the narrow table's rows take | |
//! | `snapshot_sqlite`, `snapshot_mysql`, `snapshot_postgres` | copy of the narrow table into such a target | the target's own bulk load of the same rows |
//! | `log_sqlite`, `log_mysql`, `log_postgres` | the whole log into one | its bulk load of as many rows |
//! | `verify` | `cdc verify` of the narrow table in SQLite | `mysql --quick` reading the table |
//! | `latency_sqlite_10`, .. `_1000`, .. `_10000` | from commit at the source to commit at the target, at so many row changes a second | |
//! | `latency_mysql_1000`, `latency_postgres_1000` | the same at other targets | |
//! | `ddl_sqlite` | 1,000 schema changes in a stream of rows into SQLite | the same rows without them |
//! | `upsert` | changes of 200,000 keys through a view's table into a sink that counts | a map in one thread; `Upserts` alone |
//! | `extremes` | changes of a group of a million rows whose least, greatest and first ten are asked | a millisecond each |
//! | `join_aggregate` | two tables through a join and a group-by into a null sink | the same query asked of the source |
//! | `workers_1`, `workers_2` | the same with so many workers | one worker |
//! | `join_aggregate_updates` | going on with updates of the orders | the same; a start without updates |
//! | `resume` | from `kill -9` until caught up again, with so many rows of views' tables | |
//! | `binary` | size of the program, time of `cdc check` | |
//!
//! Reference and ours take turns, after one reference run that warms the caches, and of each the run with
//! the median time counts. On a shared machine look at `cpu_s`: it is steadier than the clock.
//!
//! The results are `target/bench/latest.json`, `latest.md` and `latest.svg`; what the program printed is
//! beside them.

mod data;
mod ddl;
mod latency;
mod report;
mod targets;
mod views;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, remove_dir, target_dir, workspace_dir};

use crate::args::Args;
use crate::child::{Cost, measure};
use crate::{demo, say, servers};
use report::{Entry, Reference};
pub use targets::{LOAD_SQLITE, load_sqlite};

/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(900);

/// A log that the server's own program reads faster than this is too short to measure on.
const SHORTEST_LOG: f64 = 3.0;

/// Neither side pays for encryption.
const PLAIN: [&str; 2] = ["--ssl-mode=DISABLED", "--get-server-public-key"];

/// `cargo xtask bench [--quick] [--seed N] [--narrow N] [--wide N] [--transactions N] [--runs N]
/// [--orders N] [--changes N] [--only NAME] [--cdc PROGRAM] [--parts PROGRAM]`
pub fn main(args: &mut Args) -> Result<()> {
    let quick = args.flag("--quick");
    let sizes = data::Sizes {
        seed: args.number("--seed", 1)?,
        narrow: args.number("--narrow", if quick { 400_000 } else { 2_000_000 })?,
        wide: args.number("--wide", if quick { 100_000 } else { 500_000 })?,
        transactions: args.number("--transactions", if quick { 3_000 } else { 10_000 })?,
    };
    sizes.check()?;
    let of_views = views::Sizes {
        changes: args.number("--changes", if quick { 400_000 } else { 2_000_000 })?,
        orders: args.number("--orders", if quick { 100_000 } else { 1_000_000 })?,
    };
    let parts = args.value("--parts")?;
    let runs = args.number("--runs", 3)?.max(1);
    let only = args.value("--only")?;
    let program = args.value("--cdc")?;
    args.finish()?;
    let program = demo::program_or_build(program)?;
    servers::ensure(ServerKind::MySql)?;

    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder)?;
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name == only);
    // the log and its copy can be larger than a folder of temporary files likes
    let datadir = folder.join("data");
    remove_dir(&datadir)?;
    let options = ServerOptions::default().with_datadir(&datadir).with("--innodb-buffer-pool-size=1G");
    let server = Server::start(options)?;
    let mut bench = Bench { server, program, folder, runs, churned: 0, entries: Vec::new() };
    let mut failures = Vec::new();

    if wanted("binary") {
        bench.binary(&mut failures)?;
    }
    let of_tables = ["snapshot_null", "snapshot_wide_null", "log_null", "memory", "verify"];
    let of_targets = targets::KINDS.map(|kind| (kind, format!("snapshot_{kind}"), format!("log_{kind}")));
    let any_target = of_targets.iter().any(|(_, snapshot, log)| wanted(snapshot) || wanted(log));
    if of_tables.iter().any(|name| wanted(name)) || any_target {
        bench.load(&sizes)?;
    }
    for (name, table, rows) in
        [("snapshot_null", "narrow", sizes.narrow), ("snapshot_wide_null", "wide", sizes.wide)]
    {
        if wanted(name) {
            bench.snapshot(name, table, rows, &mut failures)?;
        }
    }
    if wanted("memory") {
        bench.memory(sizes.narrow)?;
    }
    // in front of what writes to the tables
    if wanted("verify") {
        bench.verify(sizes.narrow, &mut failures)?;
    }
    for (kind, snapshot, _) in of_targets.iter().filter(|(_, snapshot, _)| wanted(snapshot)) {
        let target = targets::Target::start(kind, &bench.folder)?;
        bench.snapshot_into(&target, snapshot, sizes.narrow, &mut failures)?;
    }
    if wanted("log_null") {
        bench.log(&sizes, quick, &mut failures)?;
    }
    for (kind, _, log) in of_targets.iter().filter(|(_, _, log)| wanted(log)) {
        let target = targets::Target::start(kind, &bench.folder)?;
        let transactions = bench.churn(&sizes)?;
        bench.log_into(&target, log, transactions * data::ROWS_PER_TRANSACTION, &mut failures)?;
    }
    // behind all that reads the log from its beginning
    for rate in latency::RATES.iter().filter(|rate| wanted(rate.name)) {
        bench.latency(rate, quick, &mut failures)?;
    }
    if wanted("ddl_sqlite") {
        bench.ddl(&mut failures)?;
    }
    if wanted("extremes") {
        bench.extremes(parts.clone(), of_views)?;
    }
    if wanted("upsert") {
        bench.upsert(parts, of_views)?;
    }
    let of_workers = ["workers_1", "workers_2"];
    if wanted("join_aggregate") || wanted("resume") || of_workers.iter().any(|name| wanted(name)) {
        bench.load_views(of_views)?;
    }
    if of_workers.iter().any(|name| wanted(name)) {
        bench.workers(of_views, of_workers, &mut failures)?;
    }
    if wanted("join_aggregate") {
        bench.join_aggregate(of_views, &mut failures)?;
    }
    if wanted("resume") {
        bench.resume(of_views)?;
    }
    let version = bench.server.installation().version()?;
    report::write(&bench.folder, &version, &bench.entries)?;
    bench.server.stop()?;
    for dir in [&datadir, &bench.folder.join("target"), &bench.folder.join("state")] {
        remove_dir(dir)?;
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("\n"));
    }
    Ok(())
}

/// Runs a reference once.
type Measured<'a> = &'a dyn Fn(&Bench) -> Result<Cost>;

struct Bench {
    server: Server,
    program: PathBuf,
    folder: PathBuf,
    runs: u64,
    /// Transactions of the log.
    churned: u64,
    entries: Vec<Entry>,
}

/// What is measured against a reference.
struct Work<'w> {
    name: &'w str,
    rows: u64,
    pipeline: &'w Path,
    /// What was measured beside it.
    also: Vec<Reference>,
    /// What is done in front of each run of ours, unmeasured.
    before: &'w dyn Fn() -> Result<()>,
}

impl Bench {
    fn binary(&mut self, failures: &mut Vec<String>) -> Result<()> {
        let size_mb = fs::metadata(&self.program)?.len() as f64 / 1e6;
        let mut times = Vec::new();
        for _ in 0..11 {
            let start = Instant::now();
            let status = Command::new(&self.program)
                .current_dir(workspace_dir())
                .args(["check", "examples/shop.cdc"])
                .env("CDC_PASSWORD", "cdc")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if !status.success() {
                failures.push(format!("binary: cdc check failed ({status})"));
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        let start_ms = times[times.len() / 2];
        say!("== binary: {size_mb:.1} MB, check in {start_ms:.1} ms");
        self.entries.push(Entry::Binary { size_mb, start_ms });
        Ok(())
    }

    /// The tables, and a log that begins behind them.
    fn load(&mut self, sizes: &data::Sizes) -> Result<()> {
        let start = Instant::now();
        self.server.sql(&data::tables(sizes))?;
        // clean pages, and a log that begins anew
        self.server.restart()?;
        let elapsed = start.elapsed().as_secs_f64();
        say!("== {} narrow and {} wide rows, {elapsed:.1} s", sizes.narrow, sizes.wide);
        Ok(())
    }

    /// The log's transactions are there; how many they are.
    fn churn(&mut self, sizes: &data::Sizes) -> Result<u64> {
        if self.churned == 0 {
            self.server.sql(&data::churn(sizes, 0, sizes.transactions))?;
            self.churned = sizes.transactions;
        }
        Ok(self.churned)
    }

    fn snapshot(&mut self, name: &str, table: &str, rows: u64, failures: &mut Vec<String>) -> Result<()> {
        say!("== {name}: {rows} rows");
        let pipeline = self.pipeline(name, &format!("[\"bench.{table}\"]"), "initial")?;
        let read = format!("SELECT * FROM bench.{table}");
        let reference = |bench: &Bench| -> Result<Cost> {
            let mut command = bench.server.client_command("mysql", "cdc", "cdc")?;
            command.args(PLAIN).args(["--quick", "--execute", &read]).stdout(Stdio::null());
            measure(&mut command, PATIENCE)
        };
        reference(self)?;
        let work = Work { name, rows, pipeline: &pipeline, also: Vec::new(), before: &|| Ok(()) };
        self.compare(work, ("mysql --quick", &reference), failures)
    }

    /// Copies of tables of several sizes.
    fn memory(&mut self, rows: u64) -> Result<()> {
        say!("== memory");
        let mut points = Vec::new();
        for rows in [rows / 100, rows / 10, rows] {
            self.server.sql(&format!(
                "SET sql_log_bin = 0; CREATE TABLE bench.part LIKE bench.narrow;
                 INSERT INTO bench.part SELECT * FROM bench.narrow WHERE id <= {rows}"
            ))?;
            let pipeline = self.pipeline("memory", "[\"bench.part\"]", "initial")?;
            let cost = self.run("memory", &pipeline)?;
            self.server.sql("SET sql_log_bin = 0; DROP TABLE bench.part")?;
            points.push((
                rows,
                cost.peak_rss_mb.context("the system does not tell how much memory a program takes")?,
            ));
        }
        let entry = Entry::Memory { name: "memory".into(), points };
        say!("   {}", entry.line());
        self.entries.push(entry);
        Ok(())
    }

    /// A target is compared with its source.
    fn verify(&mut self, rows: u64, failures: &mut Vec<String>) -> Result<()> {
        const NAME: &str = "verify";
        say!("== {NAME}: {rows} rows");
        let target = targets::Target::start("sqlite", &self.folder)?;
        target.empty()?;
        let pipeline = self.pipeline_into(NAME, "[\"bench.narrow\"]", "initial", &target.sink(), "")?;
        measure(self.command(NAME, &pipeline)?.args(["--until", "caught-up"]), PATIENCE)?;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            let mut command = self.server.client_command("mysql", "cdc", "cdc")?;
            let read = "SELECT * FROM bench.narrow";
            command.args(PLAIN).args(["--quick", "--execute", read]).stdout(Stdio::null());
            theirs.push(measure(&mut command, PATIENCE)?);
            let output = File::create(self.printed(NAME))?;
            let mut command = Command::new(&self.program);
            command.current_dir(&self.folder).arg("verify").arg(&pipeline).arg("--state");
            command.arg(self.folder.join("state")).env("CDC_PASSWORD", "cdc");
            ours.push(measure(command.stdout(output.try_clone()?).stderr(output), PATIENCE)?);
        }
        let printed = fs::read_to_string(self.printed(NAME))?;
        if !names_number(&printed, rows) || !printed.contains("0 differences") {
            failures.push(format!("{NAME}: not all of {rows} rows were found equal"));
        }
        let reference = Reference { name: "mysql --quick", cost: median(theirs).context("no run")? };
        let entry = Entry::Work { name: NAME.into(), rows, ours: median(ours), reference, also: Vec::new() };
        say!("   {}", entry.line());
        self.entries.push(entry);
        target.empty()?;
        remove_dir(&self.folder.join("state"))
    }

    fn log(&mut self, sizes: &data::Sizes, quick: bool, failures: &mut Vec<String>) -> Result<()> {
        let start = Instant::now();
        let mut transactions = self.churn(sizes)?;
        let raw = self.folder.join("raw");
        let reference = |bench: &Bench| -> Result<Cost> {
            remove_dir(&raw)?;
            fs::create_dir_all(&raw)?;
            let mut command = bench.server.client_command("mysqlbinlog", "cdc", "cdc")?;
            command.args(PLAIN).args(["--read-from-remote-server", "--raw"]);
            command.arg(format!("--result-file={}/", raw.display())).args(bench.log_files()?);
            measure(&mut command, PATIENCE)
        };
        while !quick && transactions < sizes.transactions * 10 {
            // the first read may have to wait for what the server has just written
            let trial = reference(self)?.wall_s.min(reference(self)?.wall_s);
            if trial >= SHORTEST_LOG {
                break;
            }
            // a quarter more than it should take, since times vary
            let more = (transactions as f64 * (1.25 * SHORTEST_LOG / trial - 1.0)) as u64 + 1;
            let more = more.min(sizes.transactions * 10 - transactions);
            self.server.sql(&data::churn(sizes, transactions, more))?;
            transactions += more;
            self.churned = transactions;
        }
        let (rows, elapsed) = (transactions * data::ROWS_PER_TRANSACTION, start.elapsed().as_secs_f64());
        say!("== log_null: {transactions} transactions, {rows} rows; written in {elapsed:.1} s");
        reference(self)?;
        let mut decode = Command::new(self.server.client("mysqlbinlog")?);
        decode.args(["--no-defaults", "-v", "--base64-output=DECODE-ROWS"]);
        decode.args(self.log_files()?.iter().map(|file| raw.join(file))).stdout(Stdio::null());
        let decoded = Reference { name: "mysqlbinlog -v", cost: measure(&mut decode, PATIENCE)? };
        let pipeline = self.pipeline("log_null", "[\"bench.*\"]", "earliest")?;
        let name = "mysqlbinlog --raw --read-from-remote-server";
        let work =
            Work { name: "log_null", rows, pipeline: &pipeline, also: vec![decoded], before: &|| Ok(()) };
        self.compare(work, (name, &reference), failures)?;
        remove_dir(&raw)
    }

    /// Lets reference and ours take turns, and keeps the median run of each.
    fn compare(
        &mut self,
        work: Work<'_>,
        (reference_name, reference): (&'static str, Measured),
        failures: &mut Vec<String>,
    ) -> Result<()> {
        let Work { name, rows, pipeline, also, before } = work;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            theirs.push(reference(self)?);
            before()?;
            match self.run(name, pipeline) {
                Ok(cost) => ours.push(cost),
                Err(error) => {
                    failures.push(format!("{name}: {error:#}"));
                    break;
                }
            }
        }
        let printed = fs::read_to_string(self.printed(name)).unwrap_or_default();
        if !ours.is_empty() && !names_number(&printed, rows) {
            // what was not read was not measured
            failures.push(format!("{name}: of {rows} rows, the run's output names another number"));
        }
        let reference = Reference { name: reference_name, cost: median(theirs).context("no run")? };
        let entry = Entry::Work { name: name.to_string(), rows, ours: median(ours), reference, also };
        say!("   {}", entry.line());
        self.entries.push(entry);
        Ok(())
    }

    /// `cdc run`, with a state folder of its own, that prints into a file.
    fn command(&self, name: &str, pipeline: &Path) -> Result<Command> {
        let state = self.folder.join("state");
        remove_dir(&state)?;
        let output = File::create(self.printed(name))?;
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .arg("run")
            .arg(pipeline)
            .arg("--state")
            .arg(&state)
            .env("CDC_PASSWORD", "cdc")
            .stdout(output.try_clone()?)
            .stderr(output);
        Ok(command)
    }

    fn run(&self, name: &str, pipeline: &Path) -> Result<Cost> {
        let mut command = self.command(name, pipeline)?;
        command.args(["--until", "caught-up"]);
        let cost = measure(&mut command, PATIENCE)
            .with_context(|| format!("see {}", self.printed(name).display()))?;
        remove_dir(&self.folder.join("state"))?;
        Ok(cost)
    }

    fn printed(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn pipeline(&self, name: &str, tables: &str, start: &str) -> Result<PathBuf> {
        self.pipeline_into(name, tables, start, "null {}", "")
    }

    /// The same into a sink; `more` are options of the pipeline.
    fn pipeline_into(
        &self,
        name: &str,
        tables: &str,
        start: &str,
        sink: &str,
        more: &str,
    ) -> Result<PathBuf> {
        let text = format!(
            "pipeline {{\n  name = \"{name}\"\n  {more}\n}}\n\n\
             source src = mysql {{\n  \
               url = \"mysql://127.0.0.1:{}\"\n  \
               user = \"cdc\"\n  \
               password = \"${{CDC_PASSWORD}}\"\n  \
               tables = {tables}\n  \
               server_id = 5401\n  \
               tls = disabled\n  \
               start = {start}\n\
             }}\n\n\
             sink out = {sink}\n\n\
             src.* => out.*\n",
            self.server.port()
        );
        let path = self.folder.join(format!("{name}.cdc"));
        fs::write(&path, text)?;
        Ok(path)
    }

    fn log_files(&self) -> Result<Vec<String>> {
        let listed = self.server.sql("SHOW BINARY LOGS")?;
        Ok(listed.lines().filter_map(|line| line.split('\t').next()).map(str::to_string).collect())
    }
}

/// The run with the median time; its other figures belong to it.
fn median(mut runs: Vec<Cost>) -> Option<Cost> {
    runs.sort_by(|one, two| one.wall_s.total_cmp(&two.wall_s));
    runs.get(runs.len() / 2).copied()
}

/// Whether a text holds this number, or two that add up to it (of two tables), written with or without
/// separators between thousands.
fn names_number(text: &str, number: u64) -> bool {
    let is_part = |next: char| next.is_ascii_digit() || matches!(next, ',' | '_' | '\'');
    let numbers: BTreeSet<u64> = text
        .split(|next| !is_part(next))
        .filter_map(|word| word.replace([',', '_', '\''], "").parse().ok())
        .collect();
    numbers.contains(&number)
        || numbers.iter().any(|one| number.checked_sub(*one).is_some_and(|other| numbers.contains(&other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_with_separators() {
        assert!(names_number("bench.narrow: 2,000,000 rows", 2_000_000));
        assert!(names_number("rows=2000000", 2_000_000));
        assert!(names_number("narrow 1500000, wide 500000", 2_000_000));
        assert!(!names_number("rows=20000001", 2_000_000));
    }

    #[test]
    fn the_median_run_is_one_of_the_runs() {
        let cost = |wall_s: f64| Cost { wall_s, cpu_s: wall_s * 10.0, peak_rss_mb: None };
        let middle = median(vec![cost(3.0), cost(1.0), cost(2.0)]);
        assert!(middle.is_some_and(|cost| cost.wall_s == 2.0 && cost.cpu_s == 20.0));
        assert!(median(Vec::new()).is_none());
    }

    /// The churn writes as many row events as it says, in the mix it says.
    #[test]
    fn the_log_is_as_announced() -> Result<()> {
        let server = Server::start(ServerOptions::default())?;
        let sizes = data::Sizes { seed: 1, narrow: 5000, wide: 2000, transactions: 60 };
        sizes.check()?;
        server.sql(&data::tables(&sizes))?;
        let count = |table: &str| -> Result<i64> {
            Ok(server.sql(&format!("SELECT COUNT(*) FROM bench.{table}"))?.trim().parse()?)
        };
        assert_eq!((count("narrow")?, count("wide")?), (5000, 2000));
        server.sql(&data::churn(&sizes, 0, 40))?;
        server.sql(&data::churn(&sizes, 40, 20))?;
        // 50 inserts and 12 deletes each
        assert_eq!(count("narrow")? + count("wide")?, 7000 + 60 * 38);
        let file = server.datadir().join("binlog.000001");
        let decoded = Command::new(server.client("mysqlbinlog")?)
            .args(["--no-defaults", "-v", "--base64-output=DECODE-ROWS"])
            .arg(file)
            .output()?;
        let text = String::from_utf8_lossy(&decoded.stdout);
        let events = |kind: &str| text.lines().filter(|line| line.starts_with(kind)).count();
        let written = ["### INSERT", "### UPDATE", "### DELETE"].map(events);
        assert_eq!(written, [60 * 50, 60 * 38, 60 * 12]);
        let narrow =
            text.lines().filter(|line| line.starts_with("### ") && line.ends_with("`narrow`")).count();
        assert!((3900..=4500).contains(&narrow), "{narrow} of 6000 are narrow");
        Ok(())
    }
}
