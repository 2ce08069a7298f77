//! Source and target on one server: what is written must not be read again.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use std::thread;
use std::time::Duration;
use support::{Job, server, until};

fn sink(server: &Server, database: &str) -> String {
    format!(
        "sink dw = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"{database}\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" }}",
        server.port()
    )
}

fn make(server: &Server, database: &str) -> Result<()> {
    server.sql(&format!("CREATE DATABASE {database}; GRANT ALL ON {database}.* TO cdc@'%'"))?;
    Ok(())
}

#[test]
fn a_captured_database_is_no_target_and_one_beside_it_is() -> Result<()> {
    let server = server();
    make(server, "loop_dw")?;
    server.sql(
        "CREATE DATABASE loop_a; CREATE TABLE loop_a.t (id INT PRIMARY KEY, v INT); INSERT INTO loop_a.t VALUES (1, 1), (2, 2)",
    )?;
    let body = format!("{}\nsrc.* => dw.\"{{database}}_{{table}}\"", sink(server, "loop_dw"));
    let job = |tables: &str| Job::with(server, tables, "", "", &body);
    // the source's own table as the target, one that a pattern takes in, all of them
    for tables in ["[\"loop_*.*\"]", "[\"/loop_.*/\"]", "[\"loop_a.*\", \"loop_dw.*_t\"]"] {
        let said = job(tables).fails(2011)?;
        ensure!(said.err.contains("loop_dw.loop_a_t") && said.err.contains("!loop_dw.*"), "{}", said.text());
        ensure!(server.sql("SHOW TABLES IN loop_dw")?.is_empty(), "something was made");
    }
    let onto_itself = format!("{}\nsrc.* => dw.*", sink(server, "loop_a"));
    Job::with(server, "[\"loop_a.*\"]", "", "", &onto_itself).fails(2011)?;

    let job = job("[\"loop_*.*\", \"!loop_dw.*\"]");
    let mut run = job.start(&[])?;
    run.says("snapshot complete")?;
    server.sql("UPDATE loop_a.t SET v = v + 10; CREATE TABLE loop_a.u (id INT PRIMARY KEY); INSERT INTO loop_a.u VALUES (7)")?;
    let there = |sql: &str| server.sql(sql).map(|text| text.trim().to_owned()).unwrap_or_default();
    run.until("the rows are there", |_| Ok(there("SELECT id FROM loop_dw.loop_a_u") == "7"))?;
    run.stop()?;
    ensure!(job.verify()? == 3);
    Ok(())
}

/// What targets note at the source's server is captured by no pattern: each commit would be a change of the source.
#[test]
fn what_another_pipeline_notes_is_not_copied() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE noted; CREATE TABLE noted.t (id INT PRIMARY KEY); INSERT INTO noted.t VALUES (1);
         CREATE TABLE noted._cdc_progress (pipeline VARCHAR(9) PRIMARY KEY, tick INT); INSERT INTO noted._cdc_progress VALUES ('x', 1)",
    )?;
    let job = Job::new(server, "noted", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    job.catch_up(&[])?;
    server.sql("UPDATE noted._cdc_progress SET tick = 2; INSERT INTO noted.t VALUES (2); CREATE TABLE noted._cdc_tables (id INT PRIMARY KEY)")?;
    let said = job.catch_up(&[])?;
    ensure!(said.done("log") == Some(1), "{}", said.text());
    ensure!(job.verify()? == 2);
    let tables = job.rows(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cdc%' ESCAPE '\\'",
    )?;
    ensure!(tables == ["t"], "{tables:?}");
    Ok(())
}

/// The source is a replica of the sink's server: what is written there comes here.
#[test]
fn a_replica_of_the_target_is_its_server_too_mysql_only() -> Result<()> {
    let primary = Server::start(ServerOptions::of_this_run())?;
    let replica = Server::start(ServerOptions::of_this_run().with_server_id(77))?;
    primary.sql("RESET BINARY LOGS AND GTIDS")?;
    replica.sql(&format!(
        "RESET BINARY LOGS AND GTIDS; CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = 'root', \
         SOURCE_PASSWORD = 'root', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
        primary.port()
    ))?;
    primary.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY); INSERT INTO shop.t VALUES (1)",
    )?;
    make(&primary, "dw")?;
    until("the replica has the table", || {
        Ok(replica.sql("SELECT * FROM shop.t").is_ok_and(|t| t.trim() == "1"))
    })?;
    thread::sleep(Duration::from_millis(50));
    let body = format!("{}\nsrc.* => dw.*", sink(&primary, "dw"));
    Job::with(&replica, "[\"*.*\"]", "", "", &body).fails(2011)?;
    let job = Job::with(&replica, "[\"shop.*\"]", "", "", &body);
    job.catch_up(&[])?;
    ensure!(job.verify()? == 1);
    Ok(())
}
