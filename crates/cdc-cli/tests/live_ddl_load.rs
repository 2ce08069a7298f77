//! Very many schema changes under load, with several workers and kills on the way: no hang, and in the end the target
//! is what each mode promises.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::history::seed;
use cdc_testkit::history::shapes::{Changing, Shapes, ShapesOptions};
use support::{Job, server};

/// A target that stands still for so long, while tables change, hangs.
const STILL: Duration = Duration::from_secs(30);

#[test]
fn case_56_two_hundred_changes_of_tables_with_four_workers_under_load() -> Result<()> {
    let (server, seed) = (server(), seed());
    println!("CDC_SEED={seed}");
    let modes = ["evolve", "lenient", "ignore", "try_evolve"];
    let mut all: Vec<Changing> = Vec::new();
    let mut flows = String::from("sink dw = sqlite { path = \"target.db\" }\n");
    for mode in modes {
        let options = ShapesOptions {
            seed,
            database: format!("load_{mode}"),
            removes: mode == "evolve",
            renames: mode == "evolve",
            // as in `cargo xtask soak --ddl`
            rebuilds: mode == "lenient" || mode == "ignore",
            crosses: mode == "evolve" || mode == "lenient",
            ..ShapesOptions::default()
        };
        all.push(Shapes::create(server, options)?.start(server)?);
        flows += &format!(
            "src.load_{mode}.* => dw.\"{{database}}.{{table}}\" with {{ on_schema_change = {mode} }}\n"
        );
    }
    let job = Job::with(server, "[\"load_*.*\", \"!*.hidden_*\"]", "", "chunk_rows = 50", &flows);
    let mut kills = 0;
    let made = |all: &[Changing]| all.iter().map(Changing::statements).sum::<u64>();
    while made(&all) < 200 {
        let mut run = job.start(&["--workers", "4"])?;
        let begun = Instant::now();
        let life = Duration::from_millis(700 + 400 * kills);
        while begun.elapsed() < life {
            ensure!(!run.has_ended()?, "seed {seed}: the run ended\n{}", run.wait()?.text());
            all.iter_mut().try_for_each(Changing::check).with_context(|| format!("seed {seed}"))?;
            thread::sleep(Duration::from_millis(20));
        }
        run.kill()?;
        kills += 1;
    }
    let mut counts = Vec::new();
    for (changing, mode) in all.into_iter().zip(modes) {
        counts.push(format!("{mode}: {}", changing.end()?));
    }
    let begun = Instant::now();
    let said = job.catch_up(&["--workers", "4"]).with_context(|| format!("seed {seed}, {counts:#?}"))?;
    ensure!(begun.elapsed() < STILL, "seed {seed}: it took {:?}\n{}", begun.elapsed(), said.text());
    let rows = job.verify().with_context(|| format!("seed {seed}, {counts:#?}\n{}", said.text()))?;
    let compared = follows(&job).with_context(|| format!("seed {seed}"))?;
    println!(
        "{kills} kills; {}; {rows} rows, 0 differences; compared directly: {compared}",
        counts.join("; ")
    );
    Ok(())
}

/// In mode evolve: the same tables, with the same columns and rows.
fn follows(job: &Job) -> Result<usize> {
    let listed = server().sql(
        "SELECT TABLE_NAME, GROUP_CONCAT(COLUMN_NAME ORDER BY COLUMN_NAME) FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = 'load_evolve' GROUP BY 1 ORDER BY 1",
    )?;
    let there = job.rows(
        "SELECT substr(m.name, 13), (SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info(m.name) ORDER BY name))
         FROM sqlite_schema m WHERE m.type = 'table' AND m.name LIKE 'load\\_evolve.%' ESCAPE '\\' ORDER BY 1",
    )?;
    let source: Vec<String> = listed.lines().map(|line| line.replace('\t', "|")).collect();
    ensure!(source == there, "tables and columns at the source: {source:#?}, at the target: {there:#?}");
    let tables = listed.lines().filter_map(|line| line.split('\t').next());
    tables.map(|t| job.compare(server(), ("load_evolve", t), &format!("load_evolve.{t}"))).sum()
}
