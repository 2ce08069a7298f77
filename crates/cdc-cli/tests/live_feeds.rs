//! Feeds: lines of JSON in a file and on standard output, and the sink that only counts.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cdc_mysql::capture::discover;
use cdc_mysql::config::Config;
use cdc_mysql::conn::connect;
use cdc_testkit::history::{History, HistoryOptions, Length, seed};
use cdc_testkit::servers::Server;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use support::{Job, Run, server, until};

/// The lines of a feed, each of which must be a JSON object with a tick.
fn lines(text: &str) -> Result<Vec<Value>> {
    ensure!(
        text.is_empty() || text.ends_with('\n'),
        "the last line is torn: {:?}",
        &text[text.len().saturating_sub(80)..]
    );
    let parse = |line: &str| -> Result<Value> {
        let value: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        ensure!(value["tick"].as_u64().is_some(), "no tick: {line}");
        Ok(value)
    };
    text.lines().map(parse).collect()
}

/// What a reader that wants each change once takes of a plain feed: a tick that begins again, after it or later
/// ones had come, is passed over as far as it had ended; one that had not ended begins anew.
fn once(lines: Vec<Value>) -> Vec<Value> {
    let mut ticks: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    let (mut last, mut ended) = (0, 0);
    let mut skipping = false;
    for line in lines {
        let tick = line["tick"].as_u64().unwrap_or_default();
        if tick != last {
            if tick > last {
                ended = ended.max(last);
                skipping = false;
            } else {
                // it goes back: a replay
                skipping = false;
            }
            if tick <= ended {
                skipping = true;
            } else {
                ticks.remove(&tick);
            }
            last = tick;
        }
        if !skipping {
            ticks.entry(tick).or_default().push(line);
        }
    }
    ticks.into_values().flatten().collect()
}

/// Applies the lines of a plain feed to empty tables: rows by table and key.
fn apply(lines: &[Value]) -> Result<BTreeMap<String, BTreeMap<String, Value>>> {
    let mut tables: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for line in lines {
        let table = tables.entry(line["table"].as_str().context("no table")?.to_owned()).or_default();
        let key = line["key"].to_string();
        match line["op"].as_str() {
            Some("upsert") => _ = table.insert(key, line["row"].clone()),
            Some("delete") => _ = table.remove(&key),
            other => bail!("op {other:?} in {line}"),
        }
    }
    Ok(tables)
}

/// The feed's rows are the server's: number, and the value of `v` by key.
fn same_rows(
    server: &Server,
    database: &str,
    tables: &BTreeMap<String, BTreeMap<String, Value>>,
) -> Result<usize> {
    let mut compared = 0;
    for (name, rows) in tables {
        let key = server.sql(&format!(
            "SELECT GROUP_CONCAT(COLUMN_NAME ORDER BY ORDINAL_POSITION) FROM information_schema.KEY_COLUMN_USAGE
             WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = '{name}' AND CONSTRAINT_NAME = 'PRIMARY'"
        ))?;
        let key: Vec<&str> = key.trim().split(',').collect();
        let listed =
            server.sql(&format!("SELECT CONCAT_WS('|', {}, v) FROM {database}.{name}", key.join(", ")))?;
        let expected: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let found: BTreeSet<String> = rows
            .values()
            .map(|row| {
                key.iter().chain(&["v"]).map(|column| text(&row[*column])).collect::<Vec<_>>().join("|")
            })
            .collect();
        ensure!(
            found == expected,
            "{name}: only in the feed {:?}, only at the server {:?}",
            found.difference(&expected).take(5).collect::<Vec<_>>(),
            expected.difference(&found).take(5).collect::<Vec<_>>()
        );
        compared += found.len();
    }
    println!("compared directly: {} tables of {database}, {compared} rows equal", tables.len());
    Ok(compared)
}

fn feed(job: &Job, name: &str) -> String {
    String::from_utf8_lossy(&fs::read(job.path(name)).unwrap_or_default()).into_owned()
}

#[test]
fn jsonl_holds_every_change_after_kills() -> Result<()> {
    let server = server();
    let options = HistoryOptions {
        database: "feed".into(),
        initial_rows: 300,
        rate: Some(40),
        ..HistoryOptions::default()
    };
    let mut rng = StdRng::seed_from_u64(options.seed);
    let history = History::create(server, options)?;
    let job = Job::with(
        server,
        "[\"feed.*\"]",
        "",
        "chunk_rows = 50",
        "sink plain = jsonl { path = \"plain.jsonl\", format = \"plain\" }
         sink full = jsonl { path = \"full.jsonl\" }
         src.* => plain.*
         src.* => full.*",
    );
    let writers = history.start(server, Length::Time(Duration::from_secs(60)))?;
    for kill in 0..8 {
        let run = job.start(&["--workers", if kill % 2 == 0 { "1" } else { "2" }])?;
        thread::sleep(Duration::from_millis(rng.random_range(50..600)));
        run.kill()?;
        // what a crash of the machine may leave: a torn line
        if kill % 3 == 2 && job.path("plain.jsonl").exists() {
            for (file, torn) in
                [("plain.jsonl", "{\"tick\":99999,\"ta"), ("full.jsonl", "{\"before\":null,\"af")]
            {
                OpenOptions::new().append(true).open(job.path(file))?.write_all(torn.as_bytes())?;
            }
        }
    }
    writers.stop();
    let history = writers.wait()?;
    job.catch_up(&[])?;
    for (file, what) in [("plain.jsonl", "table"), ("full.jsonl", "target")] {
        let all = lines(&feed(&job, file))?;
        let total = all.len();
        // in order, but where a restart begins again
        let back = all.windows(2).filter(|w| w[0]["tick"].as_u64() > w[1]["tick"].as_u64()).count();
        println!("{file}: {total} lines, {back} times back");
        ensure!(back <= 8, "{back} times back");
        ensure!(all.iter().all(|line| line[what].is_string()), "a line without {what}");
        if file == "plain.jsonl" {
            let tables = apply(&once(all))?;
            ensure!(tables.len() == history.tables().len());
            let rows = same_rows(server, "feed", &tables)?;
            ensure!(rows as u64 == history.expected_rows().values().sum::<u64>());
        } else {
            // rows of the snapshot and changes of the log, each with its place
            for line in &all {
                let op = line["op"].as_str().unwrap_or_default();
                let (before, after) = (!line["before"].is_null(), !line["after"].is_null());
                let images = match op {
                    "r" | "c" => (false, true),
                    "u" => (true, true),
                    "d" => (true, false),
                    _ => bail!("op {op}"),
                };
                ensure!((before, after) == images, "op {op}, before {before}, after {after}: {line}");
                ensure!(line["source"]["db"] == "feed" && line["source"]["connector"] == "mysql", "{line}");
                ensure!((op == "r") == (line["source"]["snapshot"] == "true"), "op {op}: {}", line["source"]);
            }
        }
    }
    // nothing is appended when there is nothing new
    let length = feed(&job, "plain.jsonl").len();
    let again = job.catch_up(&[])?;
    ensure!(again.err.contains("nothing new"), "{}", again.text());
    ensure!(feed(&job, "plain.jsonl").len() == length);
    Ok(())
}

#[test]
fn jsonl_refuses_a_file_that_is_not_its_own() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE notours; CREATE TABLE notours.t (id INT PRIMARY KEY)")?;
    let job = Job::new(server, "notours", "sink feed = jsonl { path = \"feed.jsonl\" }\nsrc.* => feed.*");
    let text = "dear diary,\nno newline at the end";
    fs::write(job.path("feed.jsonl"), text)?;
    let said = job.start(&["--until", "caught-up"])?.wait()?;
    ensure!(said.code == Some(3) && said.err.contains("error[E2"), "{}", said.text());
    ensure!(feed(&job, "feed.jsonl") == text, "the file was written to");
    Ok(())
}

#[test]
fn stdout_gives_lines_of_json_and_nothing_else() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE printed CHARACTER SET utf8mb4; USE printed; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(40), d DECIMAL(20,5), b VARBINARY(9), j JSON);
         INSERT INTO t VALUES (1, 'a\\n\"\\\\🦀', 1.5, X'00FF', '{\"a\": [1]}'), (2, NULL, NULL, NULL, NULL)",
    )?;
    let job = Job::new(
        server,
        "printed",
        "sink out = stdout { format = \"plain\" }\nsrc.* |> where id < 100 => out.*",
    );
    let said = job.catch_up(&[])?;
    let first = lines(&said.out)?;
    ensure!(first.len() == 2 && first[0]["row"]["v"] == "a\n\"\\🦀", "{}", said.text());
    ensure!(first[0]["row"]["d"] == "1.50000" && first[0]["row"]["b"] == "AP8=", "{}", said.text());
    // MariaDB keeps JSON as text
    let json: Value = serde_json::from_str("{\"a\": [1]}")?;
    let json = if server.kind().is_mariadb() { Value::from("{\"a\": [1]}") } else { json };
    ensure!(first[0]["row"]["j"] == json && first[1]["row"]["v"].is_null(), "{}", said.text());
    server.sql(
        "USE printed; BEGIN; INSERT INTO t (id) VALUES (3); UPDATE t SET v = 'b' WHERE id = 1; UPDATE t SET id = 4 WHERE id = 2; COMMIT;
         DELETE FROM t WHERE id = 3; INSERT INTO t (id) VALUES (200)",
    )?;
    let said = job.catch_up(&["--workers", "2"])?;
    let second = lines(&said.out)?;
    let shown: Vec<String> = second
        .iter()
        .map(|line| format!("{} {}", line["op"].as_str().unwrap_or_default(), line["key"]["id"]))
        .collect();
    ensure!(
        shown == ["upsert 3", "upsert 1", "delete 2", "upsert 4", "delete 3"],
        "{shown:?}\n{}",
        said.text()
    );
    let ticks: Vec<Option<u64>> = second.iter().map(|line| line["tick"].as_u64()).collect();
    ensure!(ticks.is_sorted(), "{ticks:?}");
    // a transaction is in one tick
    ensure!(ticks[0] == ticks[3], "{ticks:?}");
    let third = job.catch_up(&[])?;
    ensure!(third.out.is_empty() && third.err.contains("nothing new"), "{}", third.text());
    Ok(())
}

/// Everything that the server has executed is in a checkpoint: every sink has it.
fn caught_up(job: &Job, server: &Server) -> Result<()> {
    let executed = server.executed()?;
    let number = |gtids: &str| gtids.rsplit([':', '-']).next().and_then(|n| n.parse::<u64>().ok());
    until("the checkpoint holds what the server has executed", || {
        let Some(state) = job.checkpoint()? else { return Ok(false) };
        let gtids = state["sources"]["src"]["position"]["gtids"].as_str().unwrap_or_default().to_owned();
        Ok(number(&gtids) >= number(&executed))
    })
}

#[test]
fn null_counts_what_the_server_counts() -> Result<()> {
    let server = server();
    let seed = seed();
    for (database, workers) in [("null1", "1"), ("null2", "2")] {
        let options = HistoryOptions {
            seed,
            database: database.into(),
            tables: 4,
            initial_rows: 500,
            rate: Some(150),
            ..HistoryOptions::default()
        };
        let history = History::create(server, options)?;
        let job = Job::with(
            server,
            &format!("[\"{database}.*\"]"),
            "",
            "chunk_rows = 100",
            "sink nowhere = null\nsrc.* => nowhere.*",
        );
        // a row that changes while its table is copied may come twice, so the writers wait
        let mut run: Run = job.start(&["--workers", workers])?;
        run.says("snapshot complete")?;
        history.start(server, Length::Transactions(150))?.wait()?;
        caught_up(&job, server)?;
        let said = run.stop()?;
        let config = Config::new(
            &format!("mysql://127.0.0.1:{}", server.port()),
            "cdc",
            Some("cdc"),
            &[format!("{database}.*")],
        )?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let discovery = runtime.block_on(async {
            let mut conn = connect(&config).await?;
            discover(&mut conn, &config).await.map(|(_, discovery)| discovery)
        })?;
        for table in &discovery.tables {
            let sql = cdc_sinks::null::checksum_sql(table);
            let answer = server.sql(&format!("SET time_zone = '+00:00'; {sql}"))?;
            let (rows, checksum) = answer.trim().split_once('\t').context("no checksum")?;
            let line = format!("null: {} {rows} rows checksum {checksum}", table.id);
            ensure!(said.err.lines().any(|l| l == line), "no line \"{line}\"\n{}", said.text());
            println!("{line}: as the server has it");
        }
        ensure!(discovery.tables.len() == 4);
    }
    Ok(())
}
