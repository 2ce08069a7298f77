//! Sources and targets that cannot be reached when a run starts, and accounts that they do not let in.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use cdc_testkit::servers::{ReservedPort, Server, ServerKind, ServerOptions};
use std::time::{Duration, Instant};
use support::{Job, Run, server};

fn mysql(port: u16, more: &str) -> String {
    format!(
        "sink dw = mysql {{ url = \"mysql://127.0.0.1:{port}\", database = \"dw\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" {more} }}\nsrc.* => dw.*"
    )
}

fn postgres(port: u16, more: &str) -> String {
    format!(
        "sink dw = postgres {{ url = \"postgres://127.0.0.1:{port}/dw\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" {more} }}\nsrc.* => dw.*"
    )
}

const SQLITE: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

#[test]
fn a_target_that_is_not_up_yet_is_waited_for_and_that_is_told() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE early; CREATE TABLE early.t (id INT PRIMARY KEY); INSERT INTO early.t VALUES (1), (2)")?;
    let my = Server::start(ServerOptions::of_this_run())?;
    my.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
    let pg = Postgres::start(PostgresOptions::default())?;
    for target in [my.port(), pg.port()] {
        let proxy = Proxy::start(target)?;
        proxy.refuse(true);
        let body = if target == my.port() { mysql(proxy.port(), "") } else { postgres(proxy.port(), "") };
        let job = Job::new(server, "early", &body);
        let mut run = job.start(&["--until", "caught-up"])?;
        run.says("trying again in")?;
        ensure!(run.err().contains("warning[E2001]"), "{}", run.err());
        proxy.refuse(false);
        let said = run.wait()?;
        ensure!(said.code == Some(0), "{}", said.text());
        ensure!(job.verify()? == 2);
        // stopped before it is there again, a run says where the target stands
        proxy.refuse(true);
        let mut run = job.start(&[])?;
        run.says("trying again in")?;
        let (_, stands) = said.err.split_once("done: caught up at tick ").unwrap_or_default();
        let stands = format!("done: stopped at tick {}", stands.split(' ').next().unwrap_or_default());
        let stopped = run.stop()?;
        ensure!(stopped.err.contains(&stands), "not {stands}: {}", stopped.text());
        // and so at once where the target takes the connection and says nothing
        proxy.refuse(false);
        proxy.stall(true);
        let before = proxy.accepted();
        let mut run = job.start(&[])?;
        run.until("it is connected to", |_| Ok(proxy.accepted() > before))?;
        let began = Instant::now();
        let stopped = run.stop()?;
        ensure!(began.elapsed() < Duration::from_secs(1), "{:?}: {}", began.elapsed(), stopped.text());
        ensure!(stopped.err.contains(&stands), "not {stands}: {}", stopped.text());
        println!("stopped in {:?}", began.elapsed());
    }
    // whoever does not want to wait does not
    let nobody = ReservedPort::find()?;
    let mut no_source = Job::new(server, "early", SQLITE);
    no_source.connect_to(nobody.port);
    for job in [&Job::new(server, "early", &mysql(nobody.port, "")), &no_source] {
        let mut run = job.start(&[])?;
        run.says("trying again in 500ms")?;
        let began = Instant::now();
        let said = run.stop()?;
        ensure!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        ensure!(
            said.err.contains("done: stopped at tick 0,") && !said.err.contains("error["),
            "{}",
            said.text()
        );
    }
    Ok(())
}

#[test]
fn a_source_that_is_not_up_yet_is_waited_for_and_that_is_told() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE dawn; CREATE TABLE dawn.t (id INT PRIMARY KEY); INSERT INTO dawn.t VALUES (1), (2), (3)")?;
    let proxy = Proxy::start(server.port())?;
    let mut job = Job::new(server, "dawn", SQLITE);
    job.connect_to(proxy.port());
    // at the first start, and at one that goes on
    for rows in [3, 4] {
        proxy.refuse(true);
        let mut run = job.start(&["--until", "caught-up"])?;
        run.says("source \"src\": trying again in 500ms")?;
        ensure!(run.err().contains("warning[E100"), "{}", run.err());
        // whoever only looks is told at once
        for command in ["check", "verify"] {
            let begun = Instant::now();
            let args: &[&str] = if command == "check" { &["--live"] } else { &[] };
            let looked = Run::start(&mut job.command(command, args))?.wait()?;
            ensure!(looked.code == Some(3) && looked.err.contains("error[E100"), "{}", looked.text());
            ensure!(!looked.err.contains("trying again"), "{}", looked.text());
            ensure!(begun.elapsed() < Duration::from_secs(5), "{command}: {:?}", begun.elapsed());
        }
        proxy.refuse(false);
        let said = run.wait()?;
        ensure!(said.code == Some(0), "{}", said.text());
        ensure!(job.verify()? == rows && job.compare(server, ("dawn", "t"), "t")? as u64 == rows);
        server.sql("INSERT IGNORE INTO dawn.t VALUES (4)")?;
    }
    Ok(())
}

#[test]
fn nobody_is_waited_for_for_ever_at_the_start() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE never; CREATE TABLE never.t (id INT PRIMARY KEY)")?;
    let nobody = ReservedPort::find()?;
    let mut no_source = Job::new(server, "never", SQLITE);
    no_source.connect_to(nobody.port);
    let no_targets =
        [mysql(nobody.port, ""), postgres(nobody.port, "")].map(|b| Job::new(server, "never", &b));
    for (job, code) in no_targets.iter().map(|j| (j, 2001)).chain([(&no_source, 1001)]) {
        for (wait, tries) in [("0", 0), ("1", 2)] {
            let begun = Instant::now();
            let said = job.start(&["--wait", wait])?.wait()?;
            said.failed(code)?;
            ensure!(said.err.matches("trying again in").count() == tries, "{}", said.text());
            ensure!(tries == 0 || said.err.contains("it was tried for 1s"), "{}", said.text());
            ensure!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        }
        only_looks_and_fails(job, code)?;
    }
    Ok(())
}

/// Who only looks says it in the same way.
fn only_looks_and_fails(job: &Job, code: u16) -> Result<()> {
    for (command, args) in [("verify", &[][..]), ("check", &["--live"])] {
        let said = Run::start(&mut job.command(command, args))?.wait()?;
        said.failed(code)?;
        ensure!(said.code == Some(3), "{command}: {}", said.text());
    }
    Ok(())
}

/// Whatever the start is at: source or target are looked at, claimed, tables are made. Each first start goes on and ends equal.
#[test]
fn a_connection_that_is_cut_at_any_byte_of_a_start_is_made_again_mysql_only() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE cuts; CREATE TABLE cuts.t (id INT PRIMARY KEY, v INT) COMMENT 'one';
         CREATE TABLE cuts.log (line INT); INSERT INTO cuts.t VALUES (1, 1), (2, 2); INSERT INTO cuts.log VALUES (7), (7), (8)",
    )?;
    let my = Server::start(ServerOptions::of_this_run())?;
    my.sql("GRANT ALL ON dw.* TO cdc@'%'")?;
    let pg = Postgres::start(PostgresOptions::default())?;
    for of in ["source", "mysql", "postgres"] {
        let proxy = Proxy::start(match of {
            "source" => server.port(),
            "mysql" => my.port(),
            _ => pg.port(),
        })?;
        let (mut after, mut met, mut whole) = (40, 0, 0);
        // until three have ended before so much was sent
        while whole < 3 {
            my.sql("DROP DATABASE IF EXISTS dw; CREATE DATABASE dw")?;
            pg.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public")?;
            let mut job = match of {
                "source" => Job::new(server, "cuts", SQLITE),
                "mysql" => Job::new(server, "cuts", &mysql(proxy.port(), "")),
                _ => Job::new(server, "cuts", &postgres(proxy.port(), "")),
            };
            if of == "source" {
                job.connect_to(proxy.port());
            }
            proxy.cut_after(after);
            let said = job.start(&["--until", "caught-up"])?.wait()?;
            ensure!(said.code == Some(0), "{of}, cut after {after}: {}", said.text());
            proxy.cut_after(u32::MAX);
            ensure!(job.verify()? == 5, "{of}, cut after {after}: {}", said.text());
            if said.err.contains("trying again in") {
                met += 1
            } else {
                whole += 1
            }
            after = after * 7 / 5;
        }
        println!("{of}: {met} starts were cut and tried again, up to {after} bytes");
        ensure!(met > 5, "{of}: {met}");
    }
    Ok(())
}

/// A transaction that is too large to be held is lost at a cut when most of it has been written: the run reads it again.
#[test]
fn a_cut_in_a_transaction_that_is_not_held_goes_back_to_the_checkpoint() -> Result<()> {
    const ROWS: u64 = 120_000;
    let server = server();
    let my = Server::start(ServerOptions::of_this_run())?;
    my.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
    let pg = Postgres::start(PostgresOptions::default())?;
    for (database, port) in [("back_my", my.port()), ("back_pg", pg.port())] {
        server.sql(&format!(
            "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, v VARCHAR(300)); CREATE TABLE {database}.log (line INT);
             INSERT INTO {database}.t VALUES (0, 'first'); INSERT INTO {database}.log VALUES (1), (1)"
        ))?;
        let proxy = Proxy::start(port)?;
        let is_my = port == my.port();
        let job = Job::new(
            server,
            database,
            &if is_my { mysql(proxy.port(), "") } else { postgres(proxy.port(), "") },
        );
        let mut run = job.start(&[])?;
        run.says("snapshot complete")?;
        server.sql(&format!(
            "USE {database}; {}; BEGIN; INSERT INTO log VALUES (1), (2), (2);
             INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {ROWS})
               SELECT n, CONCAT(REPEAT('x', 200), n) FROM s;
             INSERT INTO log VALUES (2), (3); COMMIT",
            server.kind().recursion(ROWS)
        ))?;
        // behind 16 MiB: what is uncommitted is read, or seen by what it takes
        run.until("most of it is written", |_| {
            let sql = if is_my {
                "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT MAX(id) FROM dw.t"
            } else {
                "SELECT pg_relation_size('t') / 300"
            };
            let found = if is_my { my.sql(sql) } else { pg.sql(sql) }?;
            Ok(found.trim().parse::<u64>()? > 85_000)
        })?;
        proxy.cut_all();
        run.says("going back to the last checkpoint in 250ms")?;
        ensure!(run.err().contains("too large to be held"), "{}", run.err());
        run.until("all of it is there", |_| {
            let sql = if is_my { "SELECT COUNT(*) FROM dw.t" } else { "SELECT COUNT(*) FROM t" };
            Ok(if is_my { my.sql(sql) } else { pg.sql(sql) }?.trim() == (ROWS + 1).to_string())
        })?;
        // it follows as before, and no line of a table without key is there twice
        server.sql(&format!(
            "USE {database}; UPDATE t SET v = 'last' WHERE id = 0; INSERT INTO log VALUES (3)"
        ))?;
        run.until("it follows", |_| {
            let sql = format!(
                "SELECT line, COUNT(*) FROM {}log GROUP BY line ORDER BY line",
                if is_my { "dw." } else { "" }
            );
            let found = if is_my { my.sql(&sql) } else { pg.sql(&sql) }?;
            let words: Vec<&str> = found.split(['\t', '|', '\n']).filter(|w| !w.is_empty()).collect();
            Ok(words == ["1", "3", "2", "3", "3", "2"])
        })?;
        run.stop()?;
        job.catch_up(&[])?;
        ensure!(job.verify()? == ROWS + 1 + 8);
    }
    Ok(())
}

/// Nothing is cut: bytes are held back, or those of the open connection are swallowed.
#[test]
fn a_target_that_goes_silent_is_given_up_and_ends_equal() -> Result<()> {
    let server = server();
    let my = Server::start(ServerOptions::of_this_run())?;
    my.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
    let pg = Postgres::start(PostgresOptions::default())?;
    let patience = "answer_timeout = \"500ms\"\n connect_timeout = \"500ms\"";
    for (database, port) in [("quiet_my", my.port()), ("quiet_pg", pg.port())] {
        server.sql(&format!(
            "CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT); CREATE TABLE {database}.log (line INT);
             INSERT INTO {database}.t VALUES (1, 1), (2, 2); INSERT INTO {database}.log VALUES (1), (1)"
        ))?;
        let proxy = Proxy::start(port)?;
        let sink = if port == my.port() { mysql } else { postgres };
        let body = sink(proxy.port(), &format!(",\n {patience}"));
        let job = Job::new(server, database, &body);
        let mut run = job.start(&[])?;
        run.says("snapshot complete")?;
        for (n, silence) in [(1, "stall"), (2, "swallow"), (3, "stall")] {
            // of each silence one more than those before it told
            let told = |run: &Run| run.err().matches("trying again in").count();
            let before = told(&run);
            if silence == "stall" {
                proxy.stall(true)
            } else {
                proxy.swallow()
            }
            server.sql(&format!("USE {database}; UPDATE t SET v = v + 10; INSERT INTO log VALUES ({n})"))?;
            run.until("it is told", |run| Ok(told(run) > before))?;
            proxy.stall(false);
            run.until("the row is there", |_| {
                let sql = format!(
                    "SELECT COUNT(*) FROM {}log WHERE line = {n}",
                    if port == my.port() { "dw." } else { "" }
                );
                let found = if port == my.port() { my.sql(&sql) } else { pg.sql(&sql) };
                Ok(found.is_ok_and(|f| f.trim() == if n == 1 { "3" } else { "1" }))
            })?;
        }
        run.stop()?;
        job.catch_up(&[])?;
        ensure!(job.verify()? == 7);
    }
    Ok(())
}

#[test]
fn a_host_that_is_not_there_is_told_at_once() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE nohost; CREATE TABLE nohost.t (id INT PRIMARY KEY)")?;
    for body in [mysql(3306, ""), postgres(5432, "")] {
        let body = body.replace("127.0.0.1", "no-such-host.invalid");
        let said = Job::new(server, "nohost", &body).fails(2001)?;
        // where no name server answers, it may be there
        let waits = said.err.contains("Temporary failure");
        ensure!(waits || !said.err.contains("trying again"), "{}", said.text());
    }
    Ok(())
}

#[test]
fn an_account_that_is_not_let_in_is_told_at_once() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE denied; CREATE TABLE denied.t (id INT PRIMARY KEY)")?;
    let pg = Postgres::start(PostgresOptions::default())?;
    let helps = |body: &str| -> Result<()> {
        let began = Instant::now();
        let job = Job::new(server, "denied", body);
        let said = job.fails(1002)?;
        ensure!(
            said.err.contains("check user and password") || said.err.contains("CREATE ROLE"),
            "{}",
            said.text()
        );
        ensure!(
            !said.err.contains("trying again") && began.elapsed() < Duration::from_secs(5),
            "{}",
            said.text()
        );
        only_looks_and_fails(&job, 1002)
    };
    // a server draws a method of authentication for accounts that are not there, by their names
    for name in ["nobody", "somebody", "anybody", "somebody else"] {
        helps(&mysql(server.port(), "").replace("user = \"cdc\"", &format!("user = \"{name}\"")))?;
        helps(&postgres(pg.port(), "").replace("user = \"cdc\"", &format!("user = \"{name}\"")))?;
    }
    let wrong = |body: String| body.replace("${CDC_LIVE_PASSWORD}", "not this one");
    helps(&wrong(mysql(server.port(), "")))?;
    helps(&wrong(postgres(pg.port(), "")))?;
    Ok(())
}

/// The client library panics where it is asked for this method: in the program that is an error like any other.
#[test]
fn what_a_library_panics_on_does_not_end_the_program_mysql_only() -> Result<()> {
    let maria = Server::start(ServerOptions::of(ServerKind::MariaDb118))?;
    maria.sql(
        "INSTALL SONAME 'auth_parsec'; CREATE USER p IDENTIFIED VIA parsec USING PASSWORD('cdc'); GRANT ALL ON *.* TO p;
         CREATE DATABASE dw; CREATE TABLE dw.t (id INT PRIMARY KEY)",
    )?;
    let server = server();
    server.sql("CREATE DATABASE parsec; CREATE TABLE parsec.t (id INT PRIMARY KEY)")?;
    let as_sink = mysql(maria.port(), "").replace("user = \"cdc\"", "user = \"p\"");
    let as_sink = Job::new(server, "parsec", &as_sink).fails(1002)?;
    let copy = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";
    let as_source = Job::new(&maria, "dw", copy).account("p", "cdc").fails(1002)?;
    for said in [as_sink, as_source] {
        ensure!(said.err.contains("parsec") && said.err.contains("ed25519"), "{}", said.text());
    }
    Ok(())
}
