//! What is wrong before anything starts is told with its code and what to do, and nothing is written.

mod support;

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use cdc_testkit::servers::{ReservedPort, Server, ServerOptions};
use support::{Job, Run, Said, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsink feed = jsonl { path = \"feed.jsonl\" }\nsrc.* => dw.*\nsrc.* => feed.*";

/// The words of these tests that must never be printed.
const SECRET: &str = "s3cr3t-n3v3r-to-be-seen";

/// It failed with this code, and neither targets nor a checkpoint were written.
fn refused(job: &Job, code: u16) -> Result<Said> {
    let said = job.fails(code)?;
    for file in ["target.db", "feed.jsonl"] {
        ensure!(!job.path(file).exists(), "{file} was written\n{}", said.text());
    }
    ensure!(job.checkpoints().unwrap_or_default().is_empty(), "a checkpoint was written\n{}", said.text());
    ensure!(!said.text().contains(SECRET), "a secret was printed\n{}", said.text());
    Ok(said)
}

/// The run's help names the statement that mends it.
fn helps(said: &Said, statement: &str) -> Result<()> {
    let help = said.err.lines().any(|line| line.contains("help:") && line.contains(statement));
    ensure!(help, "no help with \"{statement}\"\n{}", said.text());
    Ok(())
}

#[test]
fn case_76_accounts_and_addresses() -> Result<()> {
    let server = server();
    server.sql(&format!(
        "CREATE DATABASE c76; CREATE TABLE c76.t (id INT PRIMARY KEY); INSERT INTO c76.t VALUES (1), (2);
         CREATE USER 'none'@'%' IDENTIFIED BY '{SECRET}';
         CREATE USER 'noslave'@'%' IDENTIFIED BY '{SECRET}';
         GRANT SELECT, REPLICATION CLIENT ON *.* TO 'noslave'@'%';
         CREATE USER 'noclient'@'%' IDENTIFIED BY '{SECRET}';
         GRANT SELECT, REPLICATION SLAVE ON *.* TO 'noclient'@'%';
         CREATE USER 'noselect'@'%' IDENTIFIED BY '{SECRET}';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'noselect'@'%';
         CREATE USER 'insertonly'@'%' IDENTIFIED BY '{SECRET}';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, INSERT ON *.* TO 'insertonly'@'%';
         CREATE USER 'good'@'%' IDENTIFIED BY '{SECRET}';
         GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'good'@'%'; GRANT SELECT ON c76.* TO 'good'@'%'"
    ))?;
    let as_user = |user: &str, password: &str| Job::new(server, "c76", COPY).account(user, password);
    let said = refused(&as_user("cdc", &format!("{SECRET}-wrong")), 1002)?;
    helps(&said, "password")?;
    // the server draws a method of authentication for accounts that are not there, by their names
    for name in ["nobody", "somebody", "anybody", "somebody else"] {
        refused(&as_user(name, SECRET), 1002)?;
    }
    refused(&as_user("none", SECRET), 1004)?;
    helps(&refused(&as_user("noslave", SECRET), 1004)?, "GRANT REPLICATION SLAVE")?;
    helps(
        &refused(&as_user("noclient", SECRET), 1004)?,
        &format!("GRANT {}", server.kind().log_privilege()),
    )?;
    // tables that the account may not see are not there for it
    helps(&refused(&as_user("noselect", SECRET), 216)?, "GRANT SELECT")?;
    helps(&refused(&as_user("insertonly", SECRET), 1004)?, "GRANT SELECT")?;

    let mut away = Job::new(server, "c76", COPY);
    let nobody = ReservedPort::find()?;
    away.connect_to(nobody.port);
    // (it may be on its way: see live_reach.rs)
    away.start(&["--wait", "0"])?.wait()?.failed(1001)?;
    ensure!(!away.path("target.db").exists());

    // the cache of caching_sha2_password cold, then warm; an account with just what is needed
    for statement in ["FLUSH PRIVILEGES", "DO 1"] {
        server.sql(statement)?;
        let good = as_user("good", SECRET);
        good.catch_up(&[])?;
        ensure!(good.verify()? == 2);
    }
    Ok(())
}

/// A setting that does not do, the right one, and what the help says.
type Setting = [&'static str; 3];

fn check_settings(server: &Server, job: &Job, settings: &[Setting]) -> Result<()> {
    for [wrong, right, help] in settings {
        server.sql(&format!("SET GLOBAL binlog_format = ROW; SET GLOBAL {wrong}"))?;
        helps(&refused(job, 1003)?, help)?;
        server.sql(&format!("SET GLOBAL {right}"))?;
    }
    Ok(())
}

#[test]
fn case_76_settings_of_the_log_mysql_only() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    server.sql("CREATE DATABASE c76; CREATE TABLE c76.t (id INT PRIMARY KEY)")?;
    let job = Job::new(&server, "c76", COPY);
    let settings = [["gtid_mode = ON_PERMISSIVE", "gtid_mode = ON", "gtid_mode"]];
    check_settings(&server, &job, &settings)?;
    job.catch_up(&[])?;
    Ok(())
}

#[test]
fn case_76_servers_whose_log_does_not_do() -> Result<()> {
    let mut server = Server::start(ServerOptions::of_this_run().with("--binlog-format=STATEMENT"))?;
    server.sql("CREATE DATABASE c76; CREATE TABLE c76.t (id INT PRIMARY KEY)")?;
    let job = Job::new(&server, "c76", COPY);
    helps(&refused(&job, 1003)?, "binlog_format = ROW")?;
    let settings = [["binlog_format = MIXED", "binlog_format = ROW", "binlog_format = ROW"]];
    check_settings(&server, &job, &settings)?;
    server.sql("SET GLOBAL binlog_format = ROW")?;
    for (option, help) in [("--skip-log-bin", "--log-bin"), ("--binlog-ignore-db=c76", "--binlog-ignore-db")]
    {
        server.options_mut().extra = vec![option.into()];
        server.restart()?;
        helps(&refused(&job, 1003)?, help)?;
    }
    server.options_mut().extra = Vec::new();
    server.restart()?;
    job.catch_up(&[])?;
    Ok(())
}

#[test]
fn tables_that_are_not_there_or_cannot_be_copied() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE missing; CREATE TABLE missing.t (id INT PRIMARY KEY, v INT)")?;
    let job = |tables: &str, flows: &str| {
        Job::with(server, tables, "", "", &format!("sink dw = sqlite {{ path = \"target.db\" }}\n{flows}"))
    };
    let said = refused(&job("[\"missing.nothing\"]", "src.* => dw.*"), 216)?;
    ensure!(
        said.err.contains("missing.nothing") || said.err.contains("patterns match no table"),
        "{}",
        said.text()
    );
    refused(&job("[\"nodatabase.*\"]", "src.* => dw.*"), 216)?;
    // a flow that names one
    refused(&job("[\"missing.t\"]", "src.tt => dw.tt"), 203)?;
    // columns of the server's table, which the file alone does not tell
    refused(&job("[\"missing.t\"]", "src.t |> where vv > 1 => dw.t"), 301)?;
    refused(&job("[\"missing.t\"]", "src.t |> select id, w => dw.t"), 301)?;
    refused(&job("[\"missing.t\"]", "src.t => dw.t key (w)"), 301)?;
    refused(&job("[\"missing.t\"]", "src.t |> drop id => dw.t"), 214)?;
    Ok(())
}

#[test]
fn files_and_options_that_do_not_do() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE options; CREATE TABLE options.t (id INT PRIMARY KEY)")?;
    let with = |source: &str, body: &str| Job::with(server, "[\"options.*\"]", "", source, body);
    let wrong = |job: &Job, code: u16| -> Result<Said> {
        let said = refused(job, code)?;
        ensure!(said.code == Some(2), "{}", said.text());
        ensure!(said.err.contains("p.cdc"), "no place\n{}", said.text());
        Ok(said)
    };
    helps(&wrong(&with("sevrer_id = 1", COPY), 401)?, "server_id")?;
    wrong(&with("chunk_rows = 0", COPY), 404)?;
    helps(
        &wrong(&with("", "sink dw = sqlite { path = \"target.db\", pth = \"x\" }\nsrc.* => dw.*"), 401)?,
        "path",
    )?;
    helps(&wrong(&with("", "sink dw = sqlit { path = \"target.db\" }\nsrc.* => dw.*"), 209)?, "sqlite")?;
    wrong(&with("", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dv.*"), 201)?;
    wrong(&with("", "sink dw = sqlite { path = \"target.db\" }\nsrc.* = dw.*"), 101)?;

    // files that are none, or no text
    let job = with("", COPY);
    let run = |file: &str| -> Result<Said> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cdc"));
        command.arg("run").arg(file).args(["--until", "caught-up"]).current_dir(job.path("."));
        Run::start(command.stdin(Stdio::null()))?.wait()
    };
    fs::write(job.path("bytes.cdc"), b"pipeline \xff\xfe")?;
    fs::create_dir(job.path("folder.cdc"))?;
    for (file, code) in [("nothing.cdc", 4001), ("folder.cdc", 4001), ("bytes.cdc", 4002)] {
        let said = run(file)?;
        ensure!(said.code == Some(2), "{file}: {}", said.text());
        ensure!(said.err.starts_with(&format!("error[E{code}]: ")), "{file}: {}", said.text());
    }
    // the near one is named, and so is a variable that is not set
    fs::copy(job.path("p.cdc"), job.path("near.cdc"))?;
    helps(&run("near")?, "near.cdc")?;
    let said = run("p.cdc")?;
    said.failed(405)?;
    ensure!(said.err.contains("CDC_LIVE_PASSWORD"), "{}", said.text());
    ensure!(!job.path("target.db").exists());
    Ok(())
}

/// MariaDB tells readers apart by this number, ends the older of two and sends it a message; MySQL by a UUID, and each of ours
/// has its own: there both go on.
#[test]
fn case_25_a_server_id_that_two_use_is_a_clear_error() -> Result<()> {
    let server = server();
    server
        .sql("CREATE DATABASE c25; CREATE TABLE c25.t (id INT PRIMARY KEY); INSERT INTO c25.t VALUES (1)")?;
    let [first, second] = [0, 1].map(|_| Job::with(server, "[\"c25.*\"]", "", "", COPY));
    for job in [&first, &second] {
        let text = fs::read_to_string(job.path("p.cdc"))?;
        let at = text.find("server_id = ").map_or(0, |at| at + "server_id = ".len());
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        fs::write(job.path("p.cdc"), format!("{}4711{}", &text[..at], &text[end..]))?;
    }
    let mut older = first.start(&[])?;
    older.says("snapshot complete")?;
    server.sql("INSERT INTO c25.t VALUES (2)")?;
    older.until("the log is read", |_| Ok(first.number("SELECT COUNT(*) FROM t")? == 2))?;
    let mut younger = second.start(&[])?;
    younger.says("snapshot complete")?;
    if server.kind().is_mariadb() {
        let said = older.wait()?;
        said.failed(1206)?;
        ensure!(said.err.contains("server_id 4711"), "{}", said.text());
    } else {
        server.sql("INSERT INTO c25.t VALUES (4)")?;
        older.until("it goes on", |_| Ok(first.number("SELECT COUNT(*) FROM t")? == 3))?;
        older.stop()?;
    }
    server.sql("INSERT INTO c25.t VALUES (3)")?;
    younger
        .until("the other one goes on", |_| Ok(second.number("SELECT COUNT(*) FROM t WHERE id = 3")? == 1))?;
    younger.stop()?;
    Ok(())
}
