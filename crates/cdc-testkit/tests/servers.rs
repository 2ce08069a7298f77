//! Real servers: started, crashed, restarted, stopped, and never left behind.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, TEST_SERVER, fresh_dir, remove_dir};

/// Runs a test on every server, all at the same time.
fn on_each(test: fn(ServerKind) -> Result<()>) -> Result<()> {
    std::thread::scope(|scope| {
        let tests = ServerKind::ALL.map(|kind| (kind, scope.spawn(move || test(kind))));
        tests.into_iter().try_for_each(|(kind, test)| test.join().expect("no panic").context(kind))
    })
}

#[test]
fn each_server_is_what_it_says_and_logs_rows_in_full() -> Result<()> {
    on_each(|kind| {
        let server = Server::start(ServerOptions::of(kind))?;
        assert_eq!(server.kind(), kind);
        let version = server.sql("SELECT VERSION()")?;
        assert!(kind.accepts(&version), "{kind}: {version}");
        assert!(kind.accepts(&server.installation().version()?));
        let query =
            "SELECT @@server_id, @@log_bin, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata,
                     @@sync_binlog, @@performance_schema, @@port";
        assert_eq!(server.sql(query)?, format!("1\t1\tROW\tFULL\tFULL\t0\t0\t{}\n", server.port()));
        if kind.is_mariadb() {
            let query = "SELECT @@gtid_strict_mode, @@log_slave_updates, @@binlog_annotate_row_events";
            assert_eq!(server.sql(query)?, "1\t1\t1\n");
            // the accounts were made outside of any log
            assert_eq!(server.executed()?, "");
        }
        server.sql("CREATE DATABASE d")?;
        let (file, offset) = server.log_end()?;
        assert!(file.starts_with("binlog.0000") && offset > 200, "{kind}: {file}:{offset}");
        assert!(server.executed()?.ends_with('1'), "{kind}: {}", server.executed()?);
        Ok(())
    })
}

#[test]
fn servers_of_different_kinds_run_side_by_side() -> Result<()> {
    let servers = ServerKind::ALL.map(|kind| Server::start(ServerOptions::of(kind)));
    let servers = servers.into_iter().collect::<Result<Vec<_>>>()?;
    for server in &servers {
        server.sql(&format!("CREATE DATABASE d; CREATE TABLE d.t AS SELECT '{}' AS kind", server.kind()))?;
    }
    for server in &servers {
        let kind = server.sql_as("cdc", "cdc", "SELECT kind FROM d.t")?;
        assert_eq!(kind.trim(), server.kind().to_string());
    }
    Ok(())
}

#[test]
fn two_servers_are_independent_and_configured() -> Result<()> {
    let one = Server::start(ServerOptions::default())?;
    let two = Server::start(ServerOptions::default().with_server_id(7).with("--binlog-row-image=MINIMAL"))?;
    assert_ne!(one.port(), two.port());
    let query = "SELECT @@server_id, @@binlog_format, @@binlog_row_image, @@binlog_row_metadata,
                 @@gtid_mode, @@sync_binlog, @@performance_schema, @@port";
    assert_eq!(one.sql(query)?, format!("1\tROW\tFULL\tFULL\tON\t0\t0\t{}\n", one.port()));
    assert_eq!(two.sql(query)?, format!("7\tROW\tMINIMAL\tFULL\tON\t0\t0\t{}\n", two.port()));
    assert_ne!(one.sql("SELECT @@server_uuid")?, two.sql("SELECT @@server_uuid")?);
    // the accounts were made outside of any log
    assert_eq!(one.sql("SELECT @@gtid_executed")?, "\n");
    Ok(())
}

#[test]
fn accounts_have_the_rights_of_a_reader_and_no_more() -> Result<()> {
    on_each(|kind| {
        let server = Server::start(ServerOptions::of(kind))?;
        server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT)")?;
        server.sql_as("root", "root", "INSERT INTO shop.t VALUES (1, 'grün\tß')")?;
        assert_eq!(server.sql_as("cdc", "cdc", "SELECT * FROM shop.t")?, "1\tgrün\\tß\n");
        server.sql_as("cdc", "cdc", &format!("{}; FLUSH TABLES WITH READ LOCK", kind.show_log_status()))?;
        let error = server.sql_as("cdc", "cdc", "DELETE FROM shop.t").unwrap_err().to_string();
        assert!(error.contains("ERROR 1142"), "{error}");
        assert!(server.sql_as("cdc", "wrong", "SELECT 1").is_err());
        Ok(())
    })
}

#[test]
fn the_socket_lets_the_same_accounts_in_and_nobody_else() -> Result<()> {
    on_each(|kind| {
        let server = Server::start(ServerOptions::of(kind))?;
        let users = "SELECT DISTINCT user FROM mysql.user WHERE user NOT LIKE '%.%' ORDER BY user";
        assert_eq!(server.sql(users)?.replace("mariadb.sys\n", ""), "cdc\nroot\n");
        let mut client = server.socket_command("mysql")?;
        client.args(["--user=cdc", "--password=cdc", "--batch", "--skip-column-names"]);
        let output = client.args(["--execute", "SELECT CURRENT_USER()"]).output()?;
        assert_eq!(String::from_utf8_lossy(&output.stdout), "cdc@%\n");
        Ok(())
    })
}

#[test]
fn the_log_is_read_by_the_servers_own_program() -> Result<()> {
    on_each(|kind| {
        let server = Server::start(ServerOptions::of(kind))?;
        server
            .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (4711)")?;
        let (file, _) = server.log_end()?;
        let file = &*file;
        // a file that is closed: one that is written to says so in its header
        server.sql("FLUSH BINARY LOGS")?;
        let dump = fresh_dir("dump")?;
        let dumped = server
            .client_command("mysqlbinlog", "cdc", "cdc")?
            .args(["--read-from-remote-server", "--raw", file])
            .arg(format!("--result-file={}/", dump.display()))
            .status()?;
        assert!(dumped.success());
        let original = std::fs::read(server.datadir().join(file))?;
        assert!(std::fs::read(dump.join(file))? == original, "{kind}: the log was not read as it is");
        let mut reader = Command::new(server.client("mysqlbinlog")?);
        reader.args(["--no-defaults", "--base64-output=DECODE-ROWS", "--verbose"]).arg(dump.join(file));
        let text = String::from_utf8_lossy(&reader.output()?.stdout).into_owned();
        assert!(text.contains("### INSERT INTO `d`.`t`\n### SET\n###   @1=4711"), "{kind}: {text}");
        remove_dir(&dump)
    })
}

#[test]
fn the_other_client_programs_are_found_by_their_mysql_names() -> Result<()> {
    on_each(|kind| {
        let server = Server::start(ServerOptions::of(kind))?;
        server
            .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (4711)")?;
        let ping = server.client_command("mysqladmin", "cdc", "cdc")?.arg("ping").output()?;
        assert!(ping.status.success(), "{kind}: {ping:?}");
        let dump = server.client_command("mysqldump", "root", "root")?.args(["d", "t"]).output()?;
        assert!(String::from_utf8_lossy(&dump.stdout).contains("(4711)"), "{kind}: {dump:?}");
        Ok(())
    })
}

#[test]
fn a_crash_and_a_restart_keep_data_and_port() -> Result<()> {
    on_each(|kind| {
        let mut server = Server::start(ServerOptions::of(kind))?;
        let port = server.port();
        server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")?;
        for _ in 0..2 {
            server.kill()?;
            assert_eq!(server.pid(), None);
            assert!(server.sql("SELECT 1").is_err());
            server.restart()?;
        }
        server.sql("INSERT INTO d.t VALUES (2)")?;
        server.options_mut().extra.push("--performance-schema=ON".into());
        server.restart()?;
        // two statements: MariaDB shows a variable that is on as 0 beside COUNT(*)
        assert_eq!(server.sql("SELECT COUNT(*) FROM d.t")?, "2\n");
        assert_eq!(server.sql("SELECT @@port, @@performance_schema")?, format!("{port}\t1\n"));
        server.stop()?;
        server.stop() // a no-op
    })
}

#[test]
fn a_restart_keeps_the_uuid() -> Result<()> {
    let mut server = Server::start(ServerOptions::default())?;
    let uuid = server.sql("SELECT @@server_uuid")?;
    server.kill()?;
    server.restart()?;
    assert_eq!(server.sql("SELECT @@server_uuid")?, uuid);
    Ok(())
}

#[test]
fn a_given_data_folder_is_kept_and_a_fresh_one_removed() -> Result<()> {
    let dir = fresh_dir("given")?;
    // too long for a socket, so the socket must go elsewhere
    let data = dir.join("x".repeat(120));
    {
        let server = Server::start(ServerOptions::default().with_datadir(&data))?;
        server.sql("CREATE DATABASE kept")?;
        let again = Server::start(ServerOptions::default().with_datadir(&data));
        assert!(again.unwrap_err().to_string().contains("runs on"));
    }
    {
        let server = Server::start(ServerOptions::default().with_datadir(&data))?;
        assert_eq!(server.sql("SHOW DATABASES LIKE 'kept'")?, "kept\n");
        assert!(!server.socket().starts_with(&data));
    }
    remove_dir(&dir)?;

    let server = Server::start(ServerOptions::default())?;
    let (data, pid) = (server.datadir().to_path_buf(), server.pid());
    drop(server);
    assert!(!data.exists());
    assert!(!is_running(pid.unwrap_or(0), &data));
    Ok(())
}

#[test]
fn a_refused_option_is_reported_with_the_servers_own_words() {
    for kind in ServerKind::ALL {
        let error = Server::start(ServerOptions::of(kind).with("--no-such-option")).unwrap_err().to_string();
        assert!(error.contains("no-such-option") && error.contains("ended while starting"), "{error}");
    }
}

/// Runs this very test program again, once for each word.
#[test]
fn the_server_of_a_run_is_named_by_the_environment() -> Result<()> {
    let run = |name: &str| {
        Command::new(std::env::current_exe()?)
            .args(["--exact", "helper_that_says_the_server_of_its_run", "--ignored", "--nocapture"])
            .env("CDC_TESTKIT_HELPER", "1")
            .env(TEST_SERVER, name)
            .output()
    };
    for (name, kind) in
        [("", ServerKind::MySql), ("mysql", ServerKind::MySql), ("mariadb-11.8", ServerKind::MariaDb118)]
    {
        let output = run(name)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(&format!("server: {kind}\n")), "{name}: {said}");
    }
    let output = run("oracle")?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let wanted = "CDC_TEST_SERVER: no server \"oracle\": there are mysql, mariadb-10.11, mariadb-11.8";
    assert!(!output.status.success() && said.contains(wanted), "{said}");
    Ok(())
}

#[test]
#[ignore = "run by the_server_of_a_run_is_named_by_the_environment"]
fn helper_that_says_the_server_of_its_run() {
    if std::env::var_os("CDC_TESTKIT_HELPER").is_some() {
        #[allow(clippy::print_stdout)]
        {
            println!("server: {}", ServerOptions::of_this_run().kind);
        }
    }
}

/// Runs this very test program again, for one test that starts a server and is then killed.
#[test]
fn no_server_outlives_a_killed_test() -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "helper_that_waits_to_be_killed", "--ignored", "--nocapture"])
        .env("CDC_TESTKIT_HELPER", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().expect("it is piped");
    let line = std::io::BufRead::lines(std::io::BufReader::new(output))
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server: ").map(|(_, rest)| rest.to_string()))
        .expect("the helper reports its server");
    let (pid, data) = line.split_once(' ').expect("pid and folder");
    let (pid, data) = (pid.parse()?, Path::new(data));
    assert!(is_running(pid, data));
    child.kill()?;
    child.wait()?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_running(pid, data) || data.exists() {
        ensure!(Instant::now() < deadline, "the server outlived its test");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
#[ignore = "run by no_server_outlives_a_killed_test"]
fn helper_that_waits_to_be_killed() -> Result<()> {
    if std::env::var_os("CDC_TESTKIT_HELPER").is_none() {
        return Ok(());
    }
    let server = Server::start(ServerOptions::default())?;
    #[allow(clippy::print_stdout)]
    {
        println!("server: {} {}", server.pid().unwrap_or(0), server.datadir().display());
    }
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}

fn is_running(pid: u32, data: &Path) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.contains(&format!("--datadir={}", data.display())))
}
