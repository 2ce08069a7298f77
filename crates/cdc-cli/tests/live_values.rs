//! Values at the ends of their types, from the snapshot and from the log, into SQLite: as the server has them.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use support::{Job, Run, server};

/// A column for each type, and values for it.
const COLUMNS: &[(&str, &str, &[&str])] = &[
    ("t1", "TINYINT", &["-128", "127", "0", "NULL"]),
    ("t1u", "TINYINT UNSIGNED", &["0", "255"]),
    ("t2", "SMALLINT", &["-32768", "32767"]),
    ("t2u", "SMALLINT UNSIGNED", &["65535", "0"]),
    ("t3", "MEDIUMINT", &["-8388608", "8388607", "-1"]),
    ("t3u", "MEDIUMINT UNSIGNED ZEROFILL", &["16777215", "7"]),
    ("t4", "INT", &["-2147483648", "2147483647"]),
    ("t4u", "INT UNSIGNED", &["4294967295", "2147483648"]),
    ("t8", "BIGINT", &["-9223372036854775808", "9223372036854775807", "NULL"]),
    ("t8u", "BIGINT UNSIGNED", &["18446744073709551615", "9223372036854775808", "9223372036854775807", "0"]),
    ("flag", "BOOL", &["TRUE", "FALSE", "-128"]),
    (
        "d1",
        "DECIMAL(65,30)",
        &[
            "99999999999999999999999999999999999.999999999999999999999999999999",
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "0.000000000000000000000000000001",
            "-0",
        ],
    ),
    ("d2", "DECIMAL(10)", &["-9999999999", "1"]),
    ("d3", "DECIMAL(5,5)", &["0.99999", "-0.00001"]),
    ("d4", "DECIMAL(9,4) UNSIGNED", &["99999.9999", "0.5"]),
    ("f4", "FLOAT", &["3.402823466e38", "-1.175494351e-38", "1.4e-45", "0.1", "-0e0", "16777217"]),
    (
        "f8",
        "DOUBLE",
        &[
            "1.7976931348623157e308",
            "-2.2250738585072014e-308",
            "5e-324",
            "0.1",
            "-0e0",
            "9007199254740993",
            "NULL",
        ],
    ),
    ("c", "CHAR(10)", &["'abc   '", "''", "'🦀é中'", "'  x'"]),
    ("cb", "CHAR(255) CHARACTER SET ascii", &["REPEAT('x', 255)"]),
    (
        "v",
        "VARCHAR(200)",
        &[
            "'trailing   '",
            "CONCAT('NUL', CHAR(0 USING utf8mb4), 'inside')",
            "'\\'\\\"\\\\\\n\\t\\r'",
            "REPEAT('🦀', 200)",
        ],
    ),
    ("l1", "VARCHAR(20) CHARACTER SET latin1", &["'€ÿß'", "X'00FF8180'"]),
    ("u3", "VARCHAR(20) CHARACTER SET utf8mb3", &["'aß中'"]),
    ("tt", "TINYTEXT", &["REPEAT('a', 255)", "''"]),
    ("tx", "TEXT", &["REPEAT('é', 30000)", "'x'"]),
    ("tm", "MEDIUMTEXT", &["REPEAT('m', 70000)"]),
    ("tl", "LONGTEXT", &["REPEAT('l', 300000)", "NULL"]),
    ("bn", "BINARY(8)", &["X'AA00000000000000'", "X''", "X'0102030405060708'", "X'2020'"]),
    ("vb", "VARBINARY(300)", &["X''", "X'00FF000A0D00'", "REPEAT(X'FE', 300)"]),
    ("b1", "TINYBLOB", &["X'00'", "REPEAT(X'00', 255)"]),
    ("b2", "BLOB", &["X'F0288CBC'", "REPEAT(X'C3', 65535)"]),
    ("b4", "LONGBLOB", &["REPEAT(X'0A', 200000)"]),
    (
        "da",
        "DATE",
        &["'0001-01-01'", "'9999-12-31'", "'0000-00-00'", "'2024-00-00'", "'2024-02-29'", "'1969-12-31'"],
    ),
    ("ti", "TIME", &["'-838:59:59'", "'838:59:59'", "'-00:00:01'", "'100:00:00'", "'00:00:00'"]),
    ("ti2", "TIME(2)", &["'-00:00:00.01'", "'12:34:56.78'"]),
    ("ti6", "TIME(6)", &["'-838:59:59'", "'-00:00:00.000001'", "'838:59:58.999999'"]),
    ("dt", "DATETIME", &["'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'"]),
    ("dt3", "DATETIME(3)", &["'2024-02-29 23:59:59.999'", "'0000-00-00 00:00:00.000'"]),
    ("dt6", "DATETIME(6)", &["'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.000001'"]),
    (
        "ts",
        "TIMESTAMP NULL",
        &["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'", "NULL"],
    ),
    ("ts6", "TIMESTAMP(6) NULL", &["'2024-03-31 02:30:00.123456'", "'1970-01-01 00:00:01.000001'"]),
    ("y", "YEAR", &["1901", "2155", "0", "2024"]),
    ("e", "ENUM('a', 'größer', 'it''s', '')", &["'a'", "'größer'", "'it''s'", "''", "'no such'", "4"]),
    (
        "s",
        "SET('m1','m2','m3','m4','m5','m6','m7','m8','m9','m10','m11','m12','m13','m14','m15','m16','m17','m18')",
        &["''", "'m1,m18'", "262143"],
    ),
    ("bi", "BIT(3)", &["b'011'", "b'111'", "0"]),
    ("bi64", "BIT(64)", &["18446744073709551615", "9223372036854775808", "1", "NULL"]),
    (
        "j",
        "JSON",
        &[
            "'{\"x\": 0.1e22, \"y\": 10000000000, \"z\": [1, -1.5, null, true, \"🦀\\\\n\\\\u0001\"]}'",
            "JSON_OBJECT('d', CAST(1.50 AS DECIMAL(10,2)), 't', CAST('2024-02-29 12:00:00.123456' AS DATETIME(6)), 'b', CAST(X'00FF' AS BINARY), 'u', 18446744073709551615)",
            "'\"text\"'",
            "'null'",
            "'{}'",
            "NULL",
        ],
    ),
];

#[test]
fn case_58_59_60_61_62_63_values_at_the_ends_of_their_types() -> Result<()> {
    let columns: String = COLUMNS.iter().map(|(name, ty, _)| format!(", {name} {ty} NULL")).collect();
    let columns = columns.replace("NULL NULL", "NULL");
    let rows = COLUMNS.iter().map(|(_, _, values)| values.len()).max().unwrap_or(1);
    // each row takes the next value of each column; an integer and a text key, so that updates move rows too
    let values = |row: usize| -> String {
        COLUMNS.iter().map(|(_, _, values)| format!(", {}", values[row % values.len()])).collect()
    };
    let settings = "SET NAMES utf8mb4; SET sql_mode = ''; SET time_zone = '+00:00';";
    let server = server();
    let mut sql = format!("{settings} CREATE DATABASE ends; USE ends;");
    for table in ["snap", "log"] {
        sql += &format!("CREATE TABLE {table} (id INT PRIMARY KEY{columns});");
    }
    let insert = |table: &str| -> String {
        (0..rows).map(|row| format!("INSERT INTO {table} VALUES ({row}{});", values(row))).collect()
    };
    server.sql(&(sql + &insert("snap")))?;
    // a server whose zone is another one
    server.sql("SET GLOBAL time_zone = '+09:00'")?;
    let job = Job::new(server, "ends", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    let mut run = job.start(&[])?;
    run.says("snapshot complete")?;
    let moved: String =
        (0..rows).map(|row| format!("UPDATE log SET id = id + 100 WHERE id = {row};")).collect();
    let back = "UPDATE log SET id = id - 100 ORDER BY id;";
    server.sql(&format!("{settings} USE ends; {}{moved}{back}", insert("log")))?;
    // updates of one column leave the others as they are
    server.sql(&format!("{settings} USE ends; UPDATE log SET t4 = 1 - t4 WHERE id = 1; UPDATE log SET t4 = 1 - t4 WHERE id = 1"))?;
    run.until("the log's rows are there", |_| {
        Ok(job.number("SELECT COUNT(*) FROM log WHERE id < 100")? == rows as i64)
    })?;
    run.stop()?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 2 * rows as u64);
    ensure!(job.compare(server, ("ends", "snap"), "snap")? == rows);
    ensure!(job.compare(server, ("ends", "log"), "log")? == rows);
    for (a, b) in [("snap", "log"), ("log", "snap")] {
        let differing = job.rows(&format!("SELECT id FROM (SELECT * FROM {a} EXCEPT SELECT * FROM {b})"))?;
        ensure!(differing.is_empty(), "rows of {a} that {b} has not: {differing:?}");
    }
    // what the server prints, and how it is stored
    ensure!(
        job.rows("SELECT typeof(t8u), t8u, typeof(d1), ti6, typeof(bn), length(bn) FROM snap WHERE id = 0")?
            == ["text|18446744073709551615|text|-838:59:59.000000|blob|8"]
    );
    ensure!(job.rows("SELECT e, ts, y FROM snap WHERE id = 4")? == ["|1970-01-01 00:00:01|1901"]);
    Ok(())
}

#[test]
fn case_65_generated_and_invisible_columns() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE made; USE made;
         CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 100, s INT AS (a + 1) STORED, v VARCHAR(20) AS (CONCAT('v', a)) VIRTUAL,
                         hidden INT INVISIBLE DEFAULT 5, z INT NOT NULL DEFAULT 9);
         INSERT INTO t (id, a) VALUES (1, 1), (2, NULL), (3, DEFAULT)",
    )?;
    let job = Job::new(server, "made", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    job.catch_up(&[])?;
    server.sql(
        "USE made; INSERT INTO t (id, a, hidden) VALUES (4, 4, NULL), (5, NULL, 50); UPDATE t SET a = 7 WHERE id = 2;
         UPDATE t SET hidden = 8 WHERE id = 1",
    )?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 5);
    // MariaDB 11.8 does not log generated columns when rows change: there they are left out
    let left_out = server.kind() == ServerKind::MariaDb118;
    let columns = job.rows("SELECT group_concat(name) FROM pragma_table_info('t')")?;
    let expected = if left_out { "id,a,hidden,z" } else { "id,a,s,v,hidden,z" };
    ensure!(columns == [expected], "{columns:?}");
    let list = format!("SELECT CONCAT_WS('|', {}) FROM made.t ORDER BY id", null_as_text(expected, "IFNULL"));
    let ours =
        job.rows(&format!("SELECT concat_ws('|', {}) FROM t ORDER BY id", null_as_text(expected, "ifnull")))?;
    let theirs = server.sql(&list)?;
    ensure!(ours == theirs.lines().collect::<Vec<_>>(), "{ours:?}, the server has {theirs}");
    Ok(())
}

/// A list of columns in which NULL is told from others.
fn null_as_text(columns: &str, ifnull: &str) -> String {
    let columns = columns.split(',').map(|c| format!("{ifnull}({c}, 'NULL')"));
    columns.collect::<Vec<_>>().join(", ")
}

#[test]
fn case_65_generated_keys_mysql_only() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE keyed; USE keyed; SET SESSION sql_generate_invisible_primary_key = ON;
         CREATE TABLE p (a INT, b INT); INSERT INTO p VALUES (1, 2), (1, 2)",
    )?;
    let job = Job::new(server, "keyed", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    job.catch_up(&[])?;
    server.sql("USE keyed; INSERT INTO p VALUES (1, 2); DELETE FROM p LIMIT 1")?;
    job.catch_up(&[])?;
    ensure!(job.verify()? == 2);
    ensure!(job.compare(server, ("keyed", "p"), "p")? == 2);
    Ok(())
}

/// The zones of the server, of its clients and of this program are other ones, and change on the way.
#[test]
fn case_32_a_timestamp_is_the_same_instant_in_every_zone() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run())?;
    let values = "'1970-01-02 00:00:01.125', '1970-01-02 00:00:01.125'), ({}, '2026-03-29 02:30:00.5', '2026-03-29 02:30:00.5'), \
                  ({}, '2037-12-31 23:59:59.999', '9999-12-31 23:59:59.999'), ({}, NULL, '0001-01-01 00:00:00";
    let rows = |first: usize| {
        let mut text = format!("INSERT INTO z.t VALUES ({first}, {values}')");
        for n in 1..4 {
            text = text.replacen("{}", &(first + n).to_string(), 1);
        }
        text
    };
    server.sql("SET GLOBAL time_zone = '+09:00'")?;
    server.sql(&format!(
        "CREATE DATABASE z; CREATE TABLE z.t (id INT PRIMARY KEY, ts TIMESTAMP(3) NULL, dt DATETIME(3)); {}; \
         SET time_zone = '-12:00'; {}",
        rows(0),
        rows(10)
    ))?;
    let job = Job::new(&server, "z", "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*");
    for (n, (ours, theirs)) in
        [("Asia/Kolkata", "-05:30"), ("America/New_York", "+13:00")].into_iter().enumerate()
    {
        let mut command = job.command("run", &["--until", "caught-up"]);
        command.env("TZ", ours);
        let said = Run::start(&mut command)?.wait()?;
        ensure!(said.code == Some(0), "{}", said.text());
        server.sql(&format!("SET GLOBAL time_zone = '{theirs}'"))?;
        server.sql(&format!(
            "{}; UPDATE z.t SET ts = ts + INTERVAL 1 SECOND WHERE id % 2 = {n}; SET time_zone = '+02:00'; {}",
            rows(100 * (n + 1)),
            rows(100 * (n + 1) + 10)
        ))?;
    }
    job.catch_up(&[])?;
    ensure!(job.verify()? == 24);
    let theirs = server.sql(
        "SET time_zone = '+00:00'; SELECT CONCAT_WS('|', id, IFNULL(ts, 'NULL'), dt) FROM z.t ORDER BY id",
    )?;
    let ours = job.rows("SELECT concat_ws('|', id, ifnull(ts, 'NULL'), dt) FROM t ORDER BY id")?;
    ensure!(ours == theirs.lines().collect::<Vec<_>>(), "{ours:?}, the server has {theirs}");
    ensure!(ours[0] == "0|1970-01-01 15:00:02.125|1970-01-02 00:00:01.125", "{}", ours[0]);
    Ok(())
}
