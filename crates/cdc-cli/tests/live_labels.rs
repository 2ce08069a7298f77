//! ENUM and SET with labels that servers print in another way than they are, or not at all.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use support::{Job, server};

/// Literals of labels; all of a column's as it is declared.
const HOSTILE: &[&str] = &[
    r"'a\nb'", r"'c\rd'", r"'e\\f'", r"'e\\nf'", "'g''h'", r"'i\0j'", r"'k\Zl'", r"'m\tn'", r"'s\bt'",
    "'(u)'", "'v\"w'", "'%_'", "''", "'é'",
];

fn copy(port: u16, database: &str) -> String {
    format!(
        "sink dw = mysql {{ url = \"mysql://127.0.0.1:{port}\", database = \"{database}\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*"
    )
}

fn make(target: &Server, database: &str) -> Result<()> {
    target.sql(&format!("CREATE DATABASE {database}; GRANT ALL ON {database}.* TO cdc@'%'"))?;
    Ok(())
}

/// All rows of a table of labels, in bytes.
fn stored(of: &Server, table: &str) -> Result<String> {
    of.sql(&format!(
        "SELECT id, HEX(CONVERT(e USING utf8mb4)), HEX(CONVERT(s USING utf8mb4)) FROM {table} ORDER BY id"
    ))
}

/// As many rows as there are labels, and one with all members of the SET.
fn insert(table: &str, from: usize, labels: usize) -> String {
    let rows: Vec<String> =
        (0..labels).map(|i| format!("({}, {}, {})", from + i, i + 1, 1u64 << i)).collect();
    let all = (1u64 << labels) - 1;
    format!("INSERT INTO {table} VALUES {}, ({}, 1, {all})", rows.join(", "), from + labels)
}

#[test]
fn labels_with_escapes_arrive_and_a_second_start_finds_them() -> Result<()> {
    let server = server();
    let labels = HOSTILE.join(", ");
    server.sql(&format!(
        "CREATE DATABASE escapes; CREATE TABLE escapes.t (id INT PRIMARY KEY, e ENUM({labels}), s SET({labels})) CHARACTER SET utf8mb3; {}",
        insert("escapes.t", 0, HOSTILE.len())
    ))?;
    for kind in [ServerKind::MySql, ServerKind::MariaDb118] {
        let target = Server::start(ServerOptions::of(kind))?;
        make(&target, "dw")?;
        let job = Job::new(server, "escapes", &copy(target.port(), "dw"));
        job.catch_up(&[])?;
        // a second start checks what the first one made, and goes on
        server.sql("UPDATE escapes.t SET e = e + 1 WHERE e < 14")?;
        job.catch_up(&[])?;
        // and a change of the type from there
        server.sql(&format!("ALTER TABLE escapes.t MODIFY e ENUM({labels}, 'x\\\\y'); UPDATE escapes.t SET e = 15 WHERE id = 3"))?;
        job.catch_up(&[])?;
        job.catch_up(&[])?;
        let (theirs, ours) = (stored(server, "escapes.t")?, stored(&target, "dw.t")?);
        ensure!(theirs == ours, "{kind:?}: source:\n{theirs}target:\n{ours}");
        ensure!(job.verify()? == HOSTILE.len() as u64 + 1);
        server.sql(&format!("UPDATE escapes.t SET e = 1; ALTER TABLE escapes.t MODIFY e ENUM({labels})"))?;
    }
    Ok(())
}

const BEYOND: &str = "'🙂', '😀x', 'a?', 'y', '漢'";

#[test]
fn labels_beyond_the_dictionary_are_read_from_rows_or_by_a_temporary_table() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run().with("--binlog-row-metadata=MINIMAL"))?;
    let table = |database: &str, charset: &str| {
        format!(
            "SET NAMES utf8mb4; CREATE DATABASE {database}; CREATE TABLE {database}.t (id INT PRIMARY KEY, e ENUM({BEYOND}), s SET({BEYOND})) CHARACTER SET {charset};"
        )
    };
    for (database, kind) in [("held", ServerKind::MySql), ("held_too", ServerKind::MariaDb118)] {
        server.sql(&format!("{}{}", table(database, "utf8mb4"), insert(&format!("{database}.t"), 0, 5)))?;
        let target = Server::start(ServerOptions::of(kind))?;
        make(&target, "dw")?;
        let job = Job::new(&server, database, &copy(target.port(), "dw"));
        job.catch_up(&[])?;
        server.sql(&insert(&format!("{database}.t"), 10, 5))?;
        job.catch_up(&[])?;
        // what the server prints is the same before and after
        server.sql(&format!(
            "SET NAMES utf8mb4; USE {database}; DELETE FROM t WHERE e = 2; ALTER TABLE t MODIFY e ENUM('🙂', '😎x', 'a?', 'y', '漢');
             UPDATE t SET e = 2 WHERE e = 4"
        ))?;
        job.catch_up(&[])?;
        job.catch_up(&[])?;
        let (theirs, ours) = (stored(&server, &format!("{database}.t"))?, stored(&target, "dw.t")?);
        ensure!(
            theirs == ours && ours.contains("F09F9982") && ours.contains("F09F988E78"),
            "{kind:?}: source:\n{theirs}target:\n{ours}"
        );
        job.verify()?;
    }

    // no row tells
    server.sql(&table("none", "utf16"))?;
    let job = Job::new(&server, "none", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    let said = job.fails(1307)?;
    for word in [
        "column \"e\" of table \"none.t\"",
        "GRANT CREATE TEMPORARY TABLES ON `none`.*",
        "binlog_row_metadata",
    ] {
        ensure!(said.err.contains(word), "{word}\n{}", said.text());
    }
    server.sql("GRANT CREATE TEMPORARY TABLES ON none.* TO cdc@'%'")?;
    let end = || {
        server.sql(if server.kind().is_mariadb() {
            "SELECT @@gtid_binlog_pos"
        } else {
            "SELECT @@gtid_executed"
        })
    };
    let before = end()?;
    job.catch_up(&[])?;
    ensure!(end()? == before, "something was logged");
    server.sql(&insert("none.t", 0, 5))?;
    job.catch_up(&[])?;
    job.verify()?;
    ensure!(job.rows("SELECT e FROM t ORDER BY id LIMIT 5")? == ["🙂", "😀x", "a?", "y", "漢"]);
    ensure!(job.rows("SELECT s FROM t WHERE id = 5")? == ["🙂,😀x,a?,y,漢"]);
    Ok(())
}

/// With the labels in the log a label that no row holds is taken as it is printed, and compared when one comes.
#[test]
fn labels_of_the_log_are_compared_with_what_is_printed() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run().with("--binlog-row-metadata=FULL"))?;
    server.sql(
        "SET NAMES utf8mb4; CREATE DATABASE full; CREATE TABLE full.true_ones (id INT PRIMARY KEY, e ENUM('y', '?')) CHARACTER SET utf8mb4;
         CREATE TABLE full.smiles (id INT PRIMARY KEY, e ENUM('y', '🙂')) CHARACTER SET utf8mb4",
    )?;
    let job = Job::new(&server, "full", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    job.catch_up(&[])?;
    server.sql("INSERT INTO full.true_ones VALUES (1, 2)")?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT e FROM true_ones")? == ["?"]);
    server.sql("INSERT INTO full.smiles VALUES (1, 2)")?;
    let said = job.fails(1304)?;
    ensure!(said.err.contains("full.smiles"), "{}", said.text());
    ensure!(job.rows("SELECT e FROM smiles")?.is_empty());
    Ok(())
}
