//! The option `zero_dates`: dates that no calendar has, from the snapshot, from the log and from ALTER TABLE, into
//! SQLite, under each of its words.

mod support;

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::Server;
use support::{Job, Said, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// Under this the server takes any day up to the 31st, and zeros.
const SETTINGS: &str = "SET sql_mode = 'ALLOW_INVALID_DATES'; SET time_zone = '+00:00';";

const COLUMNS: &str = "id INT PRIMARY KEY, d DATE, dn DATE NOT NULL, dt DATETIME, dt1 DATETIME(1) NOT NULL, dt3 DATETIME(3) NOT NULL, \
     dt6 DATETIME(6), ts TIMESTAMP NULL, ts4 TIMESTAMP(4) NOT NULL DEFAULT '0000-00-00 00:00:00.0000', v VARCHAR(20)";

/// Rows as the server prints them.
const ROWS: [&str; 5] = [
    "1|2024-02-29|0001-01-01|2024-02-29 10:00:00|2024-02-29 10:00:00.5|2024-02-29 23:59:59.999|9999-12-31 23:59:59.999999|2024-03-31 02:30:00|2038-01-19 03:14:07.1234|real",
    "2|0000-00-00|0000-00-00|0000-00-00 00:00:00|0000-00-00 00:00:00.0|0000-00-00 00:00:00.000|0000-00-00 00:00:00.000000|0000-00-00 00:00:00|0000-00-00 00:00:00.0000|0000-00-00",
    "3|2024-00-15|2024-02-00|2024-00-15 10:00:00|2024-02-00 10:00:00.1|2024-02-00 10:00:00.123|2024-02-30 10:00:00.000001|1970-01-01 00:00:01|1970-01-01 00:00:01.0001|partly",
    "4|2024-02-30|2023-02-29|2024-04-31 00:00:00|2024-01-01 00:00:00.0|2024-06-31 00:00:00.000|NULL|NULL|2024-01-01 00:00:00.0000|days",
    "5|NULL|1969-12-31|NULL|0000-01-01 00:00:00.0|2024-00-00 00:00:00.000|2000-02-29 00:00:00.000000|NULL|2024-01-01 00:00:00.0000|NULL",
];

/// Which of them are dates of no calendar: what `null` makes of the rows.
const NULLED: [&str; 5] = [
    ROWS[0],
    "2|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|0000-00-00",
    "3|NULL|NULL|NULL|NULL|NULL|NULL|1970-01-01 00:00:01|1970-01-01 00:00:01.0001|partly",
    "4|NULL|NULL|NULL|2024-01-01 00:00:00.0|NULL|NULL|NULL|2024-01-01 00:00:00.0000|days",
    "5|NULL|1969-12-31|NULL|0000-01-01 00:00:00.0|NULL|2000-02-29 00:00:00.000000|NULL|2024-01-01 00:00:00.0000|NULL",
];

fn insert(table: &str) -> String {
    let row = |row: &&str| -> String {
        let values: Vec<String> =
            row.split('|').map(|v| if v == "NULL" { v.to_owned() } else { format!("'{v}'") }).collect();
        format!("INSERT INTO {table} VALUES ({});", values.join(", "))
    };
    ROWS.iter().map(row).collect()
}

/// A database with a full table `snap` and an empty one `log`.
fn database(name: &str) -> Result<&'static Server> {
    let server = server();
    server.sql(&format!(
        "{SETTINGS} CREATE DATABASE {name}; USE {name}; CREATE TABLE snap ({COLUMNS}); CREATE TABLE log ({COLUMNS}); {}",
        insert("snap")
    ))?;
    Ok(server)
}

fn job(server: &Server, database: &str, mode: &str, word: &str) -> Job {
    Job::with(
        server,
        &format!("[\"{database}.*\"]"),
        &format!("on_schema_change = {mode}"),
        &format!("zero_dates = {word}\n  chunk_rows = 2"),
        COPY,
    )
}

fn all(job: &Job, table: &str) -> Result<Vec<String>> {
    job.rows(&format!("SELECT * FROM \"{table}\" ORDER BY id"))
}

/// Snapshot, log and a restart under one word; both tables end as `wanted`.
fn copied(database_name: &str, mode: &str, word: &str, wanted: &[&str]) -> Result<(&'static Server, Job)> {
    let server = database(database_name)?;
    let job = job(server, database_name, mode, word);
    let mut run = job.start(&[])?;
    run.says("snapshot complete")?;
    // rows come, move to other keys and back, are mended and broken, and one goes
    server.sql(&format!(
        "{SETTINGS} USE {database_name}; {} UPDATE log SET id = id + 100; UPDATE log SET id = id - 100 ORDER BY id;
         UPDATE log SET d = '2024-01-01', dn = '2024-01-01' WHERE id = 2; UPDATE log SET d = '0000-00-00', dn = '0000-00-00' WHERE id = 2;
         INSERT INTO log SELECT 9, d, dn, dt, dt1, dt3, dt6, ts, ts4, 'last' FROM snap WHERE id = 3",
        insert("log")
    ))?;
    run.until("the log's rows are there", |_| {
        Ok(job.number("SELECT COUNT(*) FROM log WHERE v = 'last'")? == 1)
    })?;
    run.stop()?;
    server.sql(&format!("DELETE FROM {database_name}.log WHERE id = 9"))?;
    job.catch_up(&[])?;
    for table in ["snap", "log"] {
        let rows = all(&job, table)?;
        ensure!(rows == wanted, "{word}, {table}:\n{}\nwanted:\n{}", rows.join("\n"), wanted.join("\n"));
    }
    ensure!(job.verify()? == 2 * ROWS.len() as u64);
    Ok((server, job))
}

fn declared(job: &Job, table: &str) -> Result<String> {
    Ok(job.rows(&format!("SELECT name || ' ' || type FROM pragma_table_info('{table}')"))?.join(", "))
}

/// ALTER TABLE while there are rows: what they read in new columns, and rows behind it.
fn altered(server: &Server, job: &Job, database: &str, wanted: &[(&str, &str)]) -> Result<()> {
    server.sql(&format!(
        "{SETTINGS} USE {database}; ALTER TABLE snap ADD a1 DATE NOT NULL, ADD a2 DATETIME(2) NOT NULL DEFAULT '2024-02-00 01:02:03.45', ADD a3 DATE DEFAULT '2024-01-02';
         INSERT INTO snap (id, dn, dt1, dt3, a1, a3) VALUES (20, '2024-01-01', 0, 0, '2024-00-01', '0000-00-00');
         ALTER TABLE snap ADD a4 TIMESTAMP(1) NOT NULL DEFAULT '0000-00-00 00:00:00.0' AFTER id, MODIFY dn DATE NULL, MODIFY d DATE NULL AFTER a1;
         ALTER TABLE snap RENAME COLUMN a3 TO a5, MODIFY a2 DATETIME(2) NULL DEFAULT NULL;
         INSERT INTO snap (id, dn, dt1, dt3, a1, a2) VALUES (21, NULL, 0, 0, 0, NULL); UPDATE snap SET a1 = '2024-05-05', a4 = '2024-05-05 01:02:03.4' WHERE id = 1"
    ))?;
    job.catch_up(&[])?;
    for (sql, rows) in wanted {
        ensure!(job.rows(sql)?.join(" ") == *rows, "{sql}: {:?}, wanted {rows}", job.rows(sql)?);
    }
    ensure!(job.verify()? == 2 * ROWS.len() as u64 + 2);
    Ok(())
}

const NEW: &str = "SELECT id, a1, a2, a5, a4 FROM snap WHERE id IN (1, 2, 20, 21) ORDER BY id";

#[test]
fn case_61_keep_lets_them_through() -> Result<()> {
    let (server, job) = copied("zd_keep", "evolve", "keep", &ROWS)?;
    ensure!(declared(&job, "snap")?.contains("d DATE_TEXT, dn DATE_TEXT, dt DATETIME_TEXT(0)"));
    job.compare(server, ("zd_keep", "snap"), "snap")?;
    altered(
        server,
        &job,
        "zd_keep",
        &[(
            NEW,
            "1|2024-05-05|2024-02-00 01:02:03.45|2024-01-02|2024-05-05 01:02:03.4 2|0000-00-00|2024-02-00 01:02:03.45|2024-01-02|0000-00-00 00:00:00.0 \
             20|2024-00-01|2024-02-00 01:02:03.45|0000-00-00|0000-00-00 00:00:00.0 21|0000-00-00|NULL|2024-01-02|0000-00-00 00:00:00.0",
        )],
    )?;
    job.compare(server, ("zd_keep", "snap"), "snap")?;
    Ok(())
}

fn null(database: &str, mode: &str) -> Result<()> {
    let (server, job) = copied(database, mode, "null", &NULLED)?;
    altered(
        server,
        &job,
        database,
        &[(
            NEW,
            "1|2024-05-05|NULL|2024-01-02|2024-05-05 01:02:03.4 2|NULL|NULL|2024-01-02|NULL 20|NULL|NULL|NULL|NULL 21|NULL|NULL|2024-01-02|NULL",
        )],
    )?;
    // the target has NULL where the server has 0000-00-00 from here on
    server.sql(&format!("{SETTINGS} ALTER TABLE {database}.log MODIFY d VARCHAR(30)"))?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT d FROM log WHERE id IN (2, 4) ORDER BY id")? == ["0000-00-00", "2024-02-30"]);
    ensure!(job.verify()? == 2 * ROWS.len() as u64 + 2);
    Ok(())
}

#[test]
fn case_61_null_makes_them_null() -> Result<()> {
    null("zd_null", "evolve")
}

#[test]
fn case_61_text_makes_all_dates_texts() -> Result<()> {
    let (server, job) = copied("zd_text", "evolve", "text", &ROWS)?;
    ensure!(declared(&job, "snap")?.contains("d TEXT, dn TEXT, dt TEXT"), "{}", declared(&job, "snap")?);
    job.compare(server, ("zd_text", "snap"), "snap")?;
    altered(
        server,
        &job,
        "zd_text",
        &[(
            NEW,
            "1|2024-05-05|2024-02-00 01:02:03.45|2024-01-02|2024-05-05 01:02:03.4 2|0000-00-00|2024-02-00 01:02:03.45|2024-01-02|0000-00-00 00:00:00.0 \
             20|2024-00-01|2024-02-00 01:02:03.45|0000-00-00|0000-00-00 00:00:00.0 21|0000-00-00|NULL|2024-01-02|0000-00-00 00:00:00.0",
        )],
    )?;
    // the texts that are there are of another form behind it; so the table comes again
    for alter in [
        "snap MODIFY a1 VARCHAR(20), MODIFY dt3 VARCHAR(30) NOT NULL",
        "log MODIFY dt DATETIME(3)",
        "log MODIFY d DATETIME(1), MODIFY v TEXT",
        "log ADD made VARCHAR(30) NOT NULL DEFAULT '20240105', MODIFY ts TIMESTAMP(6) NULL FIRST",
        "log MODIFY made DATE NULL",
        "log MODIFY ts DATETIME(2) NULL, RENAME COLUMN dt TO dt0",
    ] {
        server.sql(&format!("{SETTINGS} ALTER TABLE zd_text.{alter}; INSERT INTO zd_text.log (id, dn, dt1, dt3) SELECT MAX(id) + 1, 0, 0, 0 FROM zd_text.log"))?;
        job.catch_up(&[]).context(alter)?;
        job.verify().context(alter)?;
        job.compare(server, ("zd_text", "log"), "log").context(alter)?;
    }
    job.compare(server, ("zd_text", "snap"), "snap")?;
    Ok(())
}

#[test]
fn case_61_null_in_lenient_mode_with_two_workers() -> Result<()> {
    let server = database("zd_lenient")?;
    let job = job(server, "zd_lenient", "lenient", "null");
    job.catch_up(&["--workers", "2"])?;
    server.sql(&format!(
        "{SETTINGS} USE zd_lenient; {} ALTER TABLE snap ADD a1 DATE NOT NULL AFTER id; ALTER TABLE snap RENAME COLUMN d TO d2; ALTER TABLE snap DROP dt6;
         INSERT INTO snap (id, a1, dn, dt1, dt3) VALUES (30, '2024-00-01', 0, 0, 0)",
        insert("log")
    ))?;
    job.catch_up(&["--workers", "2"])?;
    ensure!(all(&job, "log")? == NULLED);
    let rows = job.rows("SELECT id, a1, d2, dn, dt3 FROM snap WHERE id IN (1, 2, 30) ORDER BY id")?;
    ensure!(
        rows == [
            "1|NULL|2024-02-29|0001-01-01|2024-02-29 23:59:59.999",
            "2|NULL|NULL|NULL|NULL",
            "30|NULL|NULL|NULL|NULL"
        ],
        "{rows:?}"
    );
    ensure!(job.verify()? == 2 * ROWS.len() as u64 + 1);
    Ok(())
}

fn says(said: &Said, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(said.err.contains(part), "not said: {part}\n{}", said.text());
    }
    Ok(())
}

/// Writes the pipeline with another word.
fn choose(job: &Job, database: &str, word: &str) {
    job.write(
        &format!("[\"{database}.*\"]"),
        "on_schema_change = evolve",
        &format!("zero_dates = {word}"),
        COPY,
    );
}

#[test]
fn case_61_error_stops_at_the_row_and_can_be_got_past() -> Result<()> {
    let server = server();
    server.sql(&format!(
        "{SETTINGS} CREATE DATABASE zd_error; USE zd_error; CREATE TABLE t (a INT, b VARCHAR(20), at DATETIME(2), PRIMARY KEY (a, b));
         INSERT INTO t VALUES (1, 'x', '2024-01-01'), (7, 'größe', '2024-00-15 10:00:00.25')"
    ))?;
    let job = Job::with(server, "[\"zd_error.*\"]", "on_schema_change = evolve", "zero_dates = error", COPY);
    let said = job.fails(1310)?;
    says(
        &said,
        &[
            "column \"at\" of table \"zd_error.t\" holds the date 2024-00-15 10:00:00.25",
            "row a = 7, b = \"größe\"",
            "read in a chunk of the snapshot, before ",
            "zero_dates = keep",
        ],
    )?;
    println!("{}", said.err);
    // it is mended: the row before the update does not stop the run
    server.sql("UPDATE zd_error.t SET at = '2024-01-15' WHERE a = 7")?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 2);
    // from the log
    server.sql(&format!("{SETTINGS} INSERT INTO zd_error.t VALUES (8, 'y', '2024-01-01'), (9, 'z', 0)"))?;
    let said = job.fails(1310)?;
    says(&said, &["holds the date 0000-00-00 00:00:00.00", "row a = 9, b = \"z\"", "note: at ", ", GTID "])?;
    println!("{}", said.err);
    ensure!(job.number("SELECT COUNT(*) FROM t WHERE a >= 8")? == 0, "half a transaction was written");
    // it is still in the log when it has been mended
    server.sql("DELETE FROM zd_error.t WHERE a = 9")?;
    job.fails(1310)?;
    // neither null nor text fit the tables that are there
    for word in ["null", "text"] {
        choose(&job, "zd_error", word);
        says(&job.fails(3006)?, &["zero_dates"])?;
    }
    choose(&job, "zd_error", "keep");
    job.catch_up(&[])?;
    choose(&job, "zd_error", "error");
    job.catch_up(&[])?;
    ensure!(job.verify()? == 3);
    // a column that is added with zero dates for the rows that are there
    server.sql(&format!("{SETTINGS} ALTER TABLE zd_error.t ADD since DATE NOT NULL"))?;
    let said = job.fails(1310)?;
    says(
        &said,
        &[
            "column \"since\" of table \"zd_error.t\" was added with the date 0000-00-00",
            "ADD since DATE NOT NULL",
        ],
    )?;
    println!("{}", said.err);
    choose(&job, "zd_error", "keep");
    job.catch_up(&[])?;
    ensure!(job.number("SELECT COUNT(*) FROM t WHERE since = '0000-00-00'")? == 3);
    job.verify()?;
    // verify says what a run would say
    choose(&job, "zd_error", "error");
    let said = support::Run::start(&mut job.command("verify", &[]))?.wait()?;
    said.failed(1310)?;
    says(&said, &["column \"since\" of table \"zd_error.t\" holds the date 0000-00-00"])
}

#[test]
fn case_61_columns_of_the_key_stay_dates() -> Result<()> {
    let server = server();
    let mut rows = String::new();
    for day in 1..=9 {
        rows += &format!("INSERT INTO k VALUES ('2024-01-0{day}', '2024-02-0{day} 00:00:00.123', {day}, 0);");
    }
    for word in ["keep", "null", "text", "error"] {
        let name = format!("zd_key_{word}");
        server.sql(&format!(
            "{SETTINGS} CREATE DATABASE {name}; USE {name};
             CREATE TABLE k (d DATE, at DATETIME(3), n INT, other DATE NOT NULL, PRIMARY KEY (d, at, n)); {rows}
             CREATE TABLE u (n INT, ts TIMESTAMP(2) NOT NULL DEFAULT 0, other DATE NOT NULL, UNIQUE KEY (other, n), UNIQUE KEY (ts))"
        ))?;
        let copy = format!("{COPY}\nsrc.k => dw.by_n key (n)");
        let job = Job::with(
            server,
            &format!("[\"{name}.*\"]"),
            "",
            &format!("zero_dates = {word}\n  chunk_rows = 2"),
            &copy,
        );
        if word == "error" {
            server.sql(&format!("UPDATE {name}.k SET other = d"))?;
        }
        job.catch_up(&[])?;
        let update = if word == "error" { "" } else { "UPDATE k SET other = 0 WHERE n = 5;" };
        server.sql(&format!(
            "{SETTINGS} USE {name}; UPDATE k SET d = '2025-01-01' WHERE n < 4; {update} DELETE FROM k WHERE n = 9; INSERT INTO u VALUES (1, '2024-01-01', '2024-01-01')"
        ))?;
        job.catch_up(&[])?;
        let types = declared(&job, "k")?;
        let wanted = if word == "text" { "other TEXT" } else { "other DATE_TEXT" };
        ensure!(
            types.contains("d DATE_TEXT, at DATETIME_TEXT(3)") && types.contains(wanted),
            "{word}: {types}"
        );
        ensure!(job.verify()? == 17);
        let other = job.rows("SELECT DISTINCT other FROM k WHERE n = 5")?;
        let shown = match word {
            "null" => "NULL",
            "error" => "2024-01-05",
            _ => "0000-00-00",
        };
        ensure!(other == [shown], "{word}: {other:?}");
        // moved to a zero date
        server.sql(&format!("{SETTINGS} UPDATE {name}.k SET d = 0 WHERE n = 5"))?;
        if word == "keep" {
            job.catch_up(&[])?;
            ensure!(job.verify()? == 17);
            continue;
        }
        let said = job.fails(1310)?;
        says(
            &said,
            &[
                &format!("column \"d\" of table \"{name}.k\" holds the date 0000-00-00"),
                "row d = 0000-00-00, at = 2024-02-05",
            ],
        )?;
        let key = said.err.contains("one of the table's key");
        ensure!(key, "{}", said.text());
        // moved on, and passed by keep where that may be
        server.sql(&format!("UPDATE {name}.k SET d = '2024-01-05' WHERE n = 5"))?;
        job.fails(1310)?;
    }
    Ok(())
}

/// Expressions and `check` see the columns as a run does.
#[test]
fn case_61_flows_see_the_mapped_columns() -> Result<()> {
    let server = database("zd_flow")?;
    let sink = "sink dw = sqlite { path = \"target.db\" }\n";
    let schema = format!("CREATE TABLE snap ({COLUMNS}); CREATE TABLE log ({COLUMNS});");
    for (word, flow, types, rows) in [
        (
            "null",
            "src.snap |> where dn is null |> select id, dn, year(dt) as y => dw.out",
            true,
            "2|NULL|NULL 3|NULL|NULL 4|NULL|NULL",
        ),
        (
            "text",
            "src.snap |> where d collate ascii_bin like '%-00' |> select id, concat('<', dt1, '>') as t => dw.out",
            true,
            "2|<0000-00-00 00:00:00.0>",
        ),
        ("keep", "src.snap |> where d collate ascii_bin like '%-00' |> select id => dw.out", false, ""),
        ("keep", "src.snap |> where d = '0000-00-00' |> select id, year(d) as y => dw.out", true, "2|0"),
    ] {
        let source = format!("zero_dates = {word}\n  schema = \"schema.sql\"");
        let job = Job::with(server, "[\"zd_flow.*\"]", "", &source, &format!("{sink}{flow}"));
        std::fs::write(job.path("schema.sql"), &schema)?;
        for args in [&[][..], &["--live"]] {
            let said = support::Run::start(&mut job.command("check", args))?.wait()?;
            ensure!((said.code == Some(0)) == types, "check {args:?} under {word}: {flow}\n{}", said.text());
        }
        if types {
            job.catch_up(&[])?;
            let is = job.rows("SELECT * FROM out ORDER BY id")?.join(" ");
            ensure!(is == rows, "{word}: {flow}: {is}");
            job.verify().context(flow)?;
        }
    }
    Ok(())
}
