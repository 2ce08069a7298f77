//! Keys that change while a table is followed: of another type, of other columns, gone, made anew (acceptance case 14).

mod support;

use anyhow::{Result, ensure};
use support::{Job, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// Each is followed by rows that only the new key tells apart, or finds.
const STEPS: &[&str] = &[
    "ALTER TABLE d MODIFY id BIGINT; INSERT INTO d VALUES (99999999999, 30, 'c')",
    "ALTER TABLE d DROP PRIMARY KEY, ADD PRIMARY KEY (b); UPDATE d SET b = 21 WHERE id = 2;
     UPDATE d SET id = 5 WHERE b = 30; INSERT INTO d VALUES (5, 99, 'zz')",
    "ALTER TABLE f DROP PRIMARY KEY; INSERT INTO f VALUES (1, 5); DELETE FROM f WHERE y = 6",
    "ALTER TABLE e ADD COLUMN id INT AUTO_INCREMENT PRIMARY KEY FIRST; UPDATE e SET b = 7 WHERE id = 2",
    "ALTER TABLE f ADD k INT AUTO_INCREMENT PRIMARY KEY; DELETE FROM f WHERE x = 1 LIMIT 1",
    "ALTER TABLE d DROP PRIMARY KEY, DROP COLUMN b, ADD PRIMARY KEY (c); UPDATE d SET c = 'q' WHERE c = 'zz'",
    "ALTER TABLE d CHANGE c cc VARCHAR(30); UPDATE d SET cc = 'r' WHERE cc = 'q'; DELETE FROM d WHERE cc = 'a'",
    "ALTER TABLE g DROP PRIMARY KEY, ADD PRIMARY KEY (v, id); UPDATE g SET v = v + 1; DELETE FROM g WHERE v = 3",
];

fn tables(database: &str) -> Result<()> {
    server()
        .sql(&format!(
            "CREATE DATABASE {database}; USE {database};
             CREATE TABLE d (id INT PRIMARY KEY, b INT NOT NULL, c VARCHAR(20) NOT NULL);
             INSERT INTO d VALUES (1, 10, 'a'), (2, 20, 'b');
             CREATE TABLE e (a INT, b INT); INSERT INTO e VALUES (1, 1), (1, 1), (2, 2);
             CREATE TABLE f (x INT NOT NULL, y INT NOT NULL, PRIMARY KEY (x)); INSERT INTO f VALUES (1, 5), (2, 6);
             CREATE TABLE g (id INT PRIMARY KEY, v INT NOT NULL); INSERT INTO g VALUES (1, 1), (2, 2), (3, 2)"
        ))
        .map(|_| ())
}

fn equal(job: &Job, database: &str, mode: &str) -> Result<()> {
    let rows = job.verify()?;
    let mut compared = 0;
    for table in ["e", "f", "g"] {
        compared += job.compare(server(), (database, table), table)?;
    }
    // in lenient mode it keeps columns that the source has no more
    compared += match mode {
        "evolve" => job.compare(server(), (database, "d"), "d")?,
        _ => usize::try_from(job.number("SELECT COUNT(*) FROM d")?)?,
    };
    ensure!(rows == compared as u64, "{rows} rows verified, {compared} compared");
    Ok(())
}

#[test]
fn case_14_keys_change_in_one_run() -> Result<()> {
    for (mode, workers) in [("evolve", "1"), ("lenient", "2")] {
        let database = format!("k_{mode}");
        tables(&database)?;
        let pipeline = format!("on_schema_change = {mode}");
        let job = Job::with(server(), &format!("[\"{database}.*\"]"), &pipeline, "", COPY);
        job.catch_up(&["--workers", workers])?;
        for step in STEPS {
            server().sql(&format!("USE {database}; {step}"))?;
        }
        job.catch_up(&["--workers", workers])?;
        equal(&job, &database, mode)?;
    }
    Ok(())
}

#[test]
fn case_14_keys_change_between_runs_and_under_kills() -> Result<()> {
    tables("k_step")?;
    let job = Job::with(server(), "[\"k_step.*\"]", "on_schema_change = evolve", "", COPY);
    job.catch_up(&[])?;
    for (n, step) in STEPS.iter().enumerate() {
        server().sql(&format!("USE k_step; {step}"))?;
        // one that gets no further than it gets in a moment
        let run = job.start(&[])?;
        std::thread::sleep(std::time::Duration::from_millis(60 + 40 * n as u64));
        run.kill()?;
        job.catch_up(&["--workers", if n % 2 == 0 { "2" } else { "1" }])?;
        equal(&job, "k_step", "evolve")?;
    }
    Ok(())
}

#[test]
fn a_key_that_is_kept_out_or_shared_stops() -> Result<()> {
    server().sql(
        "CREATE DATABASE k_out; USE k_out; CREATE TABLE t (id INT PRIMARY KEY, b INT NOT NULL); INSERT INTO t VALUES (1, 2)",
    )?;
    let keep_out =
        "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.* with { exclude = [change_primary_key] }";
    let job = Job::with(server(), "[\"k_out.*\"]", "on_schema_change = evolve", "", keep_out);
    job.catch_up(&[])?;
    server().sql("ALTER TABLE k_out.t DROP PRIMARY KEY, ADD PRIMARY KEY (b)")?;
    let said = job.fails(1309)?;
    ensure!(said.err.contains("from now on: b int"), "{}", said.text());
    Ok(())
}
