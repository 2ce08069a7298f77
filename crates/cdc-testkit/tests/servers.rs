//! Real servers: started, crashed, restarted, stopped, and never left behind.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions, fresh_dir, remove_dir};

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
    let server = Server::start(ServerOptions::default())?;
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT)")?;
    server.sql_as("root", "root", "INSERT INTO shop.t VALUES (1, 'grün\tß')")?;
    assert_eq!(server.sql_as("cdc", "cdc", "SELECT * FROM shop.t")?, "1\tgrün\\tß\n");
    server.sql_as("cdc", "cdc", "SHOW BINARY LOG STATUS; FLUSH TABLES WITH READ LOCK")?;
    let error = server.sql_as("cdc", "cdc", "DELETE FROM shop.t").unwrap_err().to_string();
    assert!(error.contains("ERROR 1142"), "{error}");
    let dump = fresh_dir("dump")?;
    let dumped = server
        .client_command("mysqlbinlog", "cdc", "cdc")?
        .args(["--read-from-remote-server", "--raw", "binlog.000001"])
        .arg(format!("--result-file={}/", dump.display()))
        .status()?;
    assert!(dumped.success());
    assert!(dump.join("binlog.000001").metadata()?.len() > 100);
    remove_dir(&dump)
}

#[test]
fn a_crash_and_a_restart_keep_data_and_port() -> Result<()> {
    let mut server = Server::start(ServerOptions::default())?;
    let (port, uuid) = (server.port(), server.sql("SELECT @@server_uuid")?);
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
    let query = "SELECT COUNT(*), @@port, @@performance_schema FROM d.t";
    assert_eq!(server.sql(query)?, format!("2\t{port}\t1\n"));
    assert_eq!(server.sql("SELECT @@server_uuid")?, uuid);
    server.stop()?;
    server.stop()?; // a no-op
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
    let error = Server::start(ServerOptions::default().with("--no-such-option")).unwrap_err().to_string();
    assert!(error.contains("no-such-option") && error.contains("ended while starting"), "{error}");
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
