//! `cdc check --live` looks at targets too, and a run says at its start what a schema change would stumble over.

mod support;

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use cdc_testkit::servers::{ReservedPort, Server, ServerOptions};
use support::{Job, Run, Said, server};

fn check(job: &Job, args: &[&str]) -> Result<Said> {
    Run::start(&mut job.command("check", &[&["--live"], args].concat()))?.wait()
}

/// A line of a check says this, in any columns.
fn says(said: &Said, words: &[&str]) -> Result<()> {
    let line = said.out.lines().any(|line| words.iter().all(|w| line.contains(w)));
    ensure!(line, "no line with {words:?}\n{}", said.text());
    Ok(())
}

#[test]
fn rights_at_a_mysql_target_are_told_one_by_one() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE rights_my; CREATE TABLE rights_my.t (id INT PRIMARY KEY, v INT); INSERT INTO rights_my.t VALUES (1, 1)")?;
    let target = Server::start(ServerOptions::of_this_run())?;
    target.sql("CREATE DATABASE dw; CREATE USER few@'%' IDENTIFIED BY 'cdc'; GRANT SELECT, INSERT, UPDATE, CREATE ON dw.* TO few@'%'")?;
    let body = format!(
        "sink dw = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"few\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*",
        target.port()
    );
    let job = Job::new(server, "rights_my", &body);
    let end = || {
        target.sql(if target.kind().is_mariadb() {
            "SELECT @@gtid_binlog_pos"
        } else {
            "SELECT @@gtid_executed"
        })
    };
    let before = end()?;
    let said = check(&job, &[])?;
    said.failed(1004)?;
    says(&said, &["sink dw at mysql 127.0.0.1:", "\"dw\""])?;
    for granted in ["SELECT", "INSERT", "UPDATE", "CREATE"] {
        says(
            &said,
            &["ok", &format!("privilege {granted} of account \"few\""), "expected granted", "actual granted"],
        )?;
    }
    says(&said, &["wrong", "privilege DELETE of account \"few\"", "actual missing"])?;
    says(&said, &["mend it: GRANT DELETE ON `dw`.* TO 'few'@'%'"])?;
    for later in ["ALTER", "DROP", "INDEX"] {
        says(&said, &["weak", &format!("privilege {later} of account"), "missing"])?;
    }
    says(&said, &["1 table: t"])?;
    ensure!(target.sql("SHOW TABLES IN dw")?.is_empty() && end()? == before, "something was made or logged");

    // the run says so at its start, and goes on
    target.sql("GRANT DELETE ON dw.* TO few@'%'")?;
    let said = job.catch_up(&[])?;
    for later in ["ALTER", "DROP"] {
        let warned = said.err.contains(&format!("privilege {later} of account \"few\" is missing"))
            && said.err.contains(&format!("GRANT {later} ON `dw`.* TO 'few'@'%'"));
        ensure!(warned, "{}", said.text());
    }
    target.sql("GRANT ALTER, DROP, INDEX ON dw.* TO few@'%'")?;
    let said = check(&job, &["--format", "json"])?;
    let json: serde_json::Value = serde_json::from_str(&said.out).with_context(|| said.text())?;
    let sink = &json["files"][0]["targets"][0];
    ensure!(json["ok"] == true && sink["sink"] == "dw" && sink["tick"].as_u64() > Some(0), "{}", said.text());
    ensure!(
        sink["checks"].as_array().is_some_and(|c| c.len() == 9 && c.iter().all(|c| c["ok"] == true)),
        "{}",
        said.text()
    );
    ensure!(!job.catch_up(&[])?.err.contains("privilege"));

    // what is there, and does not fit
    target.sql("ALTER TABLE dw.t ADD UNIQUE INDEX theirs (v)")?;
    let said = check(&job, &[])?;
    said.failed(2003)?;
    ensure!(said.err.contains("DROP INDEX `theirs`"), "{}", said.text());
    Ok(())
}

#[test]
fn rights_at_a_postgres_target_are_told_one_by_one() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE rights_pg; CREATE TABLE rights_pg.t (id INT PRIMARY KEY, v INT); INSERT INTO rights_pg.t VALUES (1, 1)")?;
    let target = Postgres::start(PostgresOptions::default())?;
    target.admin("CREATE ROLE few LOGIN PASSWORD 'cdc'")?;
    target.sql("CREATE SCHEMA lake; GRANT USAGE ON SCHEMA lake TO few; CREATE TABLE lake.t (id INT PRIMARY KEY, v INT); GRANT SELECT, INSERT ON lake.t TO few")?;
    let body = format!(
        "sink dw = postgres {{ url = \"postgres://127.0.0.1:{}/dw\", schema = \"lake\", user = \"few\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*",
        target.port()
    );
    let job = Job::new(server, "rights_pg", &body);
    let said = check(&job, &[])?;
    said.failed(1004)?;
    says(&said, &["sink dw at postgres 127.0.0.1:"])?;
    says(&said, &["wrong", "privilege CREATE of account \"few\" on schema \"lake\"", "missing"])?;
    says(&said, &["mend it: GRANT USAGE, CREATE ON SCHEMA \"lake\" TO \"few\";"])?;
    for right in ["UPDATE", "DELETE"] {
        says(
            &said,
            &["wrong", &format!("privilege {right} of account \"few\" on \"lake\".\"t\""), "missing"],
        )?;
    }
    says(&said, &["weak", "owner of table \"lake\".\"t\"", "another role"])?;
    ensure!(target.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'lake'")?.trim() == "1");
    target.sql("GRANT CREATE ON SCHEMA lake TO few; GRANT ALL ON lake.t TO few")?;
    let said = job.catch_up(&[])?;
    ensure!(said.err.contains("ALTER TABLE \"lake\".\"t\" OWNER TO \"few\""), "{}", said.text());
    target.admin("ALTER DATABASE dw SET default_transaction_read_only = on")?;
    let said = check(&job, &[])?;
    said.failed(1003)?;
    says(&said, &["wrong", "transaction_read_only", "expected off", "actual on"])?;
    Ok(())
}

#[test]
fn a_target_that_is_not_there_or_is_the_source_is_told() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE told; CREATE TABLE told.t (id INT PRIMARY KEY); GRANT ALL ON told.* TO cdc@'%'",
    )?;
    let nobody = ReservedPort::find()?;
    let sink = |port: u16| {
        format!(
            "sink dw = mysql {{ url = \"mysql://127.0.0.1:{port}\", database = \"told\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*"
        )
    };
    check(&Job::new(server, "told", &sink(nobody.port)), &[])?.failed(2001)?;
    check(&Job::new(server, "told", &sink(server.port())), &[])?.failed(2011)?;
    let files = "sink dw = sqlite { path = \"target.db\" }\nsink feed = jsonl { path = \"feed.jsonl\" }\nsrc.* => dw.*\nsrc.* => feed.*";
    let job = Job::new(server, "told", files);
    let said = check(&job, &[])?;
    ensure!(said.code == Some(0), "{}", said.text());
    says(&said, &["sink dw at", "target.db"])?;
    says(&said, &["sink feed"])?;
    ensure!(!job.path("target.db").exists() && !job.path("feed.jsonl").exists(), "something was made");
    Ok(())
}

/// What a mode has left apart is as it should be: the run does not stumble over it, and what would mend it would undo the mode.
#[test]
fn tables_are_compared_with_what_a_run_writes() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE apart; CREATE TABLE apart.t (id INT PRIMARY KEY, v INT); INSERT INTO apart.t VALUES (1, 1)")?;
    let sqlite = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";
    let job = Job::with(server, "[\"apart.*\"]", "on_schema_change = ignore", "", sqlite);
    let content = |args: &[&str]| {
        let said = check(&job, args)?;
        ensure!(said.code == Some(0), "{}", said.text());
        Ok(said)
    };
    let not_compared = "not compared, the state is of another moment: t";
    job.catch_up(&["--state", "elsewhere"])?;
    let state = ["--state", "elsewhere"];
    ensure!(!content(&state)?.out.contains(not_compared));
    // a run is still to meet the statement
    server.sql("ALTER TABLE apart.t ADD COLUMN w INT NOT NULL; INSERT INTO apart.t VALUES (2, 2, 2)")?;
    ensure!(content(&state)?.out.contains(not_compared));
    job.catch_up(&state)?;
    ensure!(job.rows("SELECT group_concat(name, ' ') FROM pragma_table_info('t')")? == ["id v"]);
    ensure!(!content(&state)?.out.contains(not_compared));
    // the target is at a tick of which this folder knows nothing
    ensure!(content(&[])?.out.contains(not_compared));
    // what does not fit what is written is told as before
    job_sql(&job, "ALTER TABLE t RENAME COLUMN v TO other")?;
    check(&job, &state)?.failed(2003)?;
    Ok(())
}

/// Where a run has been, it goes on without any table; where none has, there is nothing to copy.
#[test]
fn a_source_whose_tables_were_all_dropped_is_gone_on_with() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE bare; CREATE TABLE bare.t (id INT PRIMARY KEY, v INT); INSERT INTO bare.t VALUES (1, 1)")?;
    let job = Job::new(server, "bare", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    job.catch_up(&[])?;
    server.sql("DROP TABLE bare.t")?;
    // a run is still to read of it; then it has
    for note in ["which follows 1 table: bare.t", "takes tables in as they are made"] {
        let said = check(&job, &[])?;
        let told = said.err.contains("warning[E0216]") && said.err.contains(note);
        ensure!(said.code == Some(0) && told, "{}", said.text());
        let json = check(&job, &["--format", "json"])?;
        let json: serde_json::Value = serde_json::from_str(&json.out).with_context(|| json.text())?;
        ensure!(json["ok"] == true && json["files"][0]["errors"] == 0, "{json}");
        job.catch_up(&[])?;
    }
    check(&job, &["--state", "another"])?.failed(216)?;
    server.sql("CREATE TABLE bare.u (id INT PRIMARY KEY); INSERT INTO bare.u VALUES (1)")?;
    ensure!(check(&job, &[])?.code == Some(0));
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT id FROM u")? == ["1"]);
    Ok(())
}

/// Changes the SQLite target behind the program's back.
fn job_sql(job: &Job, sql: &str) -> Result<()> {
    Ok(rusqlite::Connection::open(job.path("target.db"))?.execute_batch(sql)?)
}

#[test]
fn what_a_first_run_would_refuse_is_told_of_every_table() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE firsts; USE firsts; CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b (id INT PRIMARY KEY, v INT, w INT)",
    )?;
    let job = Job::new(server, "firsts", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.one");
    // the keys of both would be one another's
    check(&job, &[])?.failed(211)?;
    let job = Job::new(
        server,
        "firsts",
        "sink dw = sqlite { path = \"target.db\" }\nsrc.* |> extend meta.table as shard => dw.one key (shard, id)",
    );
    let said = check(&job, &[])?;
    ensure!(said.code == Some(0), "{}", said.text());
    // without the column that only the second one has
    job_sql(
        &job,
        "CREATE TABLE one (shard TEXT NOT NULL, id INTEGER NOT NULL, v INTEGER, PRIMARY KEY (shard, id)) WITHOUT ROWID",
    )?;
    let said = check(&job, &[])?;
    said.failed(2003)?;
    ensure!(said.err.contains("\"w\""), "{}", said.text());
    Ok(())
}
