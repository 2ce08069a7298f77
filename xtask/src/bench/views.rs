//! Views: upserts by key, a join with a group-by, and how long a run takes to be where it was.
//!
//! The reference of the join is the same query asked of the source. Its processor time is the server's, which is no child of ours, so only its
//! seconds by the clock say something.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::{remove_dir, target_dir};

use super::{Bench, PATIENCE, PLAIN, median};
use crate::bench::report::{Entry, Reference};
use crate::child::{Cost, Guarded, measure};
use crate::say;
use crate::tidy::cargo;

/// How much there is to do.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Changes for `upsert`, over [`KEYS`] keys.
    pub changes: u64,
    /// Orders; of ten of them there is a customer.
    pub orders: u64,
}

/// Keys of `upsert`.
const KEYS: u64 = 200_000;

const VIEWS: &str = "view by_region =
  from src.orders as o
  |> join src.customers as c on o.customer = c.id
  |> aggregate sum(o.amount) as total, count(*) as orders group by c.region

by_region => out.by_region
";

const QUERY: &str = "SELECT c.region, SUM(o.amount), COUNT(*) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region";

/// The program that does `upsert` in one process each, built if none is given.
pub fn parts_or_build(given: Option<String>) -> Result<PathBuf> {
    if let Some(program) = given {
        return PathBuf::from(&program).canonicalize().with_context(|| format!("--parts {program}"));
    }
    let status =
        cargo().args(["build", "--release", "--locked", "-p", "cdc-benches", "--bin", "upserts"]).status()?;
    ensure!(status.success(), "the build failed");
    Ok(target_dir().join("release").join("upserts"))
}

/// What the program prints.
fn cost_of(program: &Path, way: &str, changes: u64, keys: u64) -> Result<Cost> {
    let output = Command::new(program).arg(way).args([changes.to_string(), keys.to_string()]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{way}: {}", String::from_utf8_lossy(&output.stderr));
    let mut numbers = printed.split_whitespace().map(str::parse::<f64>);
    let mut next = || numbers.next().context("three numbers")?.context("a number");
    Ok(Cost { wall_s: next()?, cpu_s: next()?, peak_rss_mb: Some(next()?) })
}

impl Bench {
    /// A map in one thread, a changelog by key, and the operator of views that takes upserts in, into a sink that counts.
    pub fn upsert(&mut self, parts: Option<String>, sizes: Sizes) -> Result<()> {
        let program = parts_or_build(parts)?;
        let rows = sizes.changes;
        say!("== upsert: {rows} changes of {KEYS} keys");
        let mut costs: [Vec<Cost>; 3] = Default::default();
        for _ in 0..self.runs {
            for (way, costs) in ["map", "upserts", "operator"].into_iter().zip(&mut costs) {
                costs.push(cost_of(&program, way, rows, KEYS)?);
            }
        }
        let [map, upserts, operator] = costs.map(median);
        let (map, upserts) = (map.context("no run")?, upserts.context("no run")?);
        let entry = Entry::Work {
            name: "upsert".into(),
            rows,
            ours: operator,
            reference: Reference { name: "a map in one thread", cost: map },
            also: vec![Reference { name: "Upserts, without a dataflow", cost: upserts }],
        };
        say!("   {}", entry.line());
        self.entries.push(entry);
        Ok(())
    }

    /// Changes of one group of a million rows, each in a tick of its own: its least and greatest values and its first ten rows are asked.
    pub fn extremes(&mut self, parts: Option<String>, sizes: Sizes) -> Result<()> {
        let program = parts_or_build(parts)?;
        let (changes, rows) = (sizes.changes / 40, sizes.orders);
        say!("== extremes: {changes} changes of a group of {rows} rows");
        let mut costs = Vec::new();
        for _ in 0..self.runs {
            costs.push(cost_of(&program, "extremes", changes, rows)?);
        }
        let ours = median(costs);
        let a_millisecond_each =
            Cost { wall_s: changes as f64 / 1e3, cpu_s: changes as f64 / 1e3, peak_rss_mb: None };
        self.add(Entry::Work {
            name: "extremes".into(),
            rows: changes,
            ours,
            reference: Reference { name: "a millisecond each", cost: a_millisecond_each },
            also: vec![],
        });
        Ok(())
    }

    /// Orders and customers of theirs, in a database of their own.
    pub fn load_views(&mut self, sizes: Sizes) -> Result<()> {
        let (orders, customers) = (sizes.orders, (sizes.orders / 10).max(1));
        self.server.sql(&format!(
            "CREATE DATABASE views; USE views; SET SESSION cte_max_recursion_depth = {orders};
             CREATE TABLE customers (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(40) NOT NULL, region INT NOT NULL);
             CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, customer BIGINT NOT NULL, amount DECIMAL(10,2) NOT NULL, note VARCHAR(40));
             INSERT INTO customers WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {customers})
               SELECT n, CONCAT('customer ', n), n % 50 FROM s;
             INSERT INTO orders WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {orders})
               SELECT n, 1 + n * 7919 % {customers}, n * 31 % 100000 / 100, 'a note' FROM s;"
        ))?;
        Ok(())
    }

    /// The copy of both tables into a view, then updates of what was copied.
    pub fn join_aggregate(&mut self, sizes: Sizes, failures: &mut Vec<String>) -> Result<()> {
        const NAME: &str = "join_aggregate";
        let rows = sizes.orders + (sizes.orders / 10).max(1);
        say!("== {NAME}: {rows} rows");
        let pipeline = self.views_pipeline(NAME, "null {}")?;
        let query = |bench: &Bench| -> Result<Cost> {
            let mut command = bench.server.client_command("mysql", "cdc", "cdc")?;
            command.args(PLAIN).args(["--execute", QUERY, "views"]).stdout(Stdio::null());
            measure(&mut command, PATIENCE)
        };
        query(self)?;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            theirs.push(query(self)?);
            let mut command = self.command(NAME, &pipeline)?;
            ours.push(measure(command.args(["--workers", "2", "--until", "caught-up"]), PATIENCE)?);
        }
        let groups = format!("by_region {} rows", (sizes.orders / 10).clamp(1, 50));
        if !std::fs::read_to_string(self.printed(NAME))?.contains(&groups) {
            failures.push(format!("{NAME}: the run's output does not say \"{groups}\""));
        }
        let reference = || {
            Result::<_>::Ok(Reference {
                name: "the query at the source",
                cost: median(theirs.clone()).context("no run")?,
            })
        };
        self.add(Entry::Work {
            name: NAME.into(),
            rows,
            ours: median(ours),
            reference: reference()?,
            also: vec![],
        });

        // the last run's state is there: what goes on without a change is beside what goes on with them
        let again = |bench: &Bench| -> Result<Cost> {
            let output = File::create(bench.printed(NAME))?;
            let mut command = bench.going_on(&pipeline);
            command.args(["--workers", "2", "--until", "caught-up"]);
            measure(command.stdout(output.try_clone()?).stderr(output), PATIENCE)
        };
        let idle = again(self)?;
        let updates = sizes.orders / 5;
        self.server.sql(&format!("USE views; {}", updated(sizes.orders, updates)))?;
        let ours = again(self)?;
        let name = "join_aggregate_updates".to_owned();
        if ours.wall_s <= idle.wall_s {
            failures.push(format!("{name}: {updates} updates took no time beside the start: take more"));
        }
        let also = vec![Reference { name: "a start without updates", cost: idle }];
        self.add(Entry::Work { name, rows: updates, ours: Some(ours), reference: reference()?, also });
        Ok(())
    }

    /// The same work with one worker and with two.
    pub fn workers(&mut self, sizes: Sizes, names: [&str; 2], failures: &mut Vec<String>) -> Result<()> {
        let rows = sizes.orders + (sizes.orders / 10).max(1);
        let mut one: Option<Cost> = None;
        for (name, workers) in names.into_iter().zip(["1", "2"]) {
            say!("== {name}: {rows} rows");
            let pipeline = self.views_pipeline(name, "null {}")?;
            let mut costs = Vec::new();
            for _ in 0..self.runs {
                let mut command = self.command(name, &pipeline)?;
                match measure(command.args(["--workers", workers, "--until", "caught-up"]), PATIENCE) {
                    Ok(cost) => costs.push(cost),
                    Err(error) => failures.push(format!("{name}: {error:#}")),
                }
            }
            let Some(ours) = median(costs) else { return Ok(()) };
            let reference = Reference { name: "one worker", cost: *one.get_or_insert(ours) };
            self.add(Entry::Work { name: name.into(), rows, ours: Some(ours), reference, also: vec![] });
        }
        Ok(())
    }

    /// A run is killed when views have spoken, and another one goes on.
    pub fn resume(&mut self, sizes: Sizes) -> Result<()> {
        const NAME: &str = "resume";
        let rows = sizes.orders + (sizes.orders / 10).max(1);
        say!("== {NAME}: {rows} rows of state");
        let target = self.folder.join("resume.db");
        for end in ["", "-wal", "-shm"] {
            let file = PathBuf::from(format!("{}{end}", target.display()));
            if file.exists() {
                std::fs::remove_file(file)?;
            }
        }
        let pipeline = self.views_pipeline(NAME, "sqlite { path = \"resume.db\" }")?;
        let mut run = Guarded::spawn(self.command(NAME, &pipeline)?.args(["--workers", "2"]))?;
        let begun = Instant::now();
        // a checkpoint later, everything is in the state
        loop {
            ensure!(begun.elapsed() < PATIENCE, "views do not speak");
            ensure!(run.ended()?.is_none(), "cdc ended by itself; see {}", self.printed(NAME).display());
            if let Ok(db) = rusqlite::Connection::open(&target)
                && db
                    .query_row("SELECT COUNT(*) FROM by_region", [], |row| row.get::<_, i64>(0))
                    .is_ok_and(|n| n > 0)
            {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        self.server.sql("UPDATE views.orders SET amount = amount + 1 WHERE id <= 100")?;
        thread::sleep(Duration::from_secs(3));
        drop(run);
        self.server.sql("UPDATE views.orders SET amount = amount + 1 WHERE id <= 100")?;
        let output = File::create(self.printed(NAME))?;
        let mut command = self.going_on(&pipeline);
        command.args(["--workers", "2", "--until", "caught-up"]).stdout(output.try_clone()?).stderr(output);
        let ours = measure(&mut command, PATIENCE)?;
        let printed = std::fs::read_to_string(self.printed(NAME))?;
        let said = |end: &str| -> Option<&str> {
            let (before, _) = printed.split_once("views go on from ")?.1.split_once(end)?;
            before.rsplit(' ').next()
        };
        let held: u64 = said(" rows of their tables").context("it says no number of rows")?.parse()?;
        ensure!(held == rows, "views hold {held} rows");
        let load_s = said(" s\n").context("it does not say how long it loaded")?.parse()?;
        self.add(Entry::Resume { name: NAME.into(), rows, ours, load_s });
        Ok(())
    }

    fn add(&mut self, entry: Entry) {
        say!("   {}", entry.line());
        self.entries.push(entry);
    }

    /// `cdc run` with the state that the run before left.
    fn going_on(&self, pipeline: &PathBuf) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .arg("run")
            .arg(pipeline)
            .args(["--log-format", "plain", "--state"])
            .arg(self.folder.join("state"))
            .env("CDC_PASSWORD", "cdc");
        command
    }

    fn views_pipeline(&self, name: &str, sink: &str) -> Result<PathBuf> {
        let path = self.pipeline_into(
            name,
            "[\"views.*\"]",
            "initial",
            sink,
            "checkpoint = { dir = \"state\", every = \"1s\" }",
        )?;
        let text = std::fs::read_to_string(&path)?.replace("src.* => out.*\n", VIEWS);
        std::fs::write(&path, text)?;
        remove_dir(&self.folder.join("state"))?;
        Ok(path)
    }
}

/// Orders that change, a thousand in a transaction.
fn updated(orders: u64, updates: u64) -> String {
    (0..updates.div_ceil(1000))
        .map(|n| {
            let from = n * 1000 % orders;
            format!(
                "UPDATE orders SET amount = amount + 1, customer = customer % 100 + 1 WHERE id > {from} AND id <= {};",
                from + 1000
            )
        })
        .collect()
}
