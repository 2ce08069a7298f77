//! What a test's row stores is what a strict INSERT of the same literal stores: a MySQL is asked (a MariaDB takes zero dates, too).

mod support;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use support::server;

/// A column's type, and literals that SQL and a test write in one way.
const CASES: &[(&str, &[&str])] = &[
    ("INT", &["5", "5.5", "-5.5", "'7'", "'7.5'", "2147483647", "2147483648", "'x'", "'7x'", "NULL", "1e3"]),
    ("INT UNSIGNED", &["-1", "0", "4294967295", "4294967296"]),
    ("TINYINT", &["127", "128", "-128", "-128.4"]),
    ("DECIMAL(6,2)", &["1.005", "-1.005", "9999.99", "9999.995", "10000", "'1.5'", "'1.5x'", "3"]),
    ("DOUBLE", &["1", "0.5", "1.5e10", "'2.25'", "'much'"]),
    ("FLOAT", &["0.5", "-3", "1e39"]),
    ("VARCHAR(3)", &["'abc'", "'abcd'", "5", "1.5", "''", "'ä☕ü'"]),
    ("CHAR(3)", &["'a  '", "'abc'", "'abcd'"]),
    ("TEXT", &["'a text'", "12"]),
    ("DATE", &["'2026-02-28'", "'2026-02-30'", "'0000-00-00'", "'2026-1-2'", "'soon'"]),
    ("DATETIME(3)", &["'2026-01-01 10:00:00.1239'", "'2026-01-01'", "'2026-01-01 25:00:00'"]),
    ("DATETIME", &["'2026-01-01 10:00:59.5'"]),
    (
        "TIMESTAMP",
        &["'2026-01-01 00:00:00'", "'1969-12-31 00:00:00'", "'2038-01-19 03:14:07'", "'2040-01-01'"],
    ),
    ("TIME", &["'10:11:12'", "'-01:00:00'", "'839:00:00'", "'late'"]),
    ("YEAR", &["2026", "'2026'", "1900", "0"]),
    ("ENUM('a', 'B')", &["'a'", "'b'", "'c'", "NULL"]),
    ("SET('a', 'b', 'c')", &["'c,a'", "'d'", "''"]),
    // approximate numbers are rounded half to even, bytes are a number
    (
        "INT",
        &[
            "2.5e0",
            "3.5e0",
            "-2.5e0",
            "2.5",
            "'25e-1'",
            "'2.5'",
            "x'41'",
            "b'101'",
            "x'ffffffff'",
            "date '2026-01-31'",
        ],
    ),
    ("BIGINT", &["timestamp '2026-01-31 23:59:59.9996'", "timestamp '2026-01-31 23:59:59.4'", "x'010203'"]),
    ("DECIMAL(10,1)", &["x'41'", "2.25e0", "timestamp '2026-01-31 23:59:59.9996'"]),
    ("DOUBLE", &["x'41'", "'-1e-300'", "'2.2250738585072014e-308'", "'1e400'"]),
    ("FLOAT", &["3.4028235e38", "-3.4028235e38", "x'41'"]),
    ("BIT(9)", &["49.5e0", "50.5e0", "50.5", "'1'", "'3'", "'12'", "x'41'", "513", "b'1000001'"]),
    ("BIT(16)", &["'12'", "'123'", "x'4142'"]),
    ("BIT(1)", &["'1'", "2"]),
    ("YEAR", &["'0'", "'00'", "'0000'", "'000'", "'69'", "'70'", "x'41'", "69", "'1900'"]),
    (
        "DATE",
        &[
            "'2026-01-31 23:59:59.9996'",
            "timestamp '2026-01-31 23:59:59.9996'",
            "'2026-01-31 23:59:59.4'",
            "'2026-01-31 12:00:00.6'",
        ],
    ),
    ("TIME", &["'2026-01-31T10:11:12'", "'2026-01-31 10:11:12'"]),
    ("DATETIME", &["'2026-01-31T10:11:12'"]),
    ("VARCHAR(20) CHARACTER SET latin1", &["'😀'", "'é'", "'€'", "'Š'", "'ā'"]),
    ("CHAR(5) CHARACTER SET ascii", &["'é'", "'e'"]),
    ("SET('x', 'y')", &["'x,'", "',x'", "','", "'x,x'", "''"]),
    ("VARCHAR(5)", &["'abcde   '", "'abcdef '", "'abc  '", "x'41'", "x'ff'", "b'1000001'", "1.5e0"]),
    ("CHAR(5)", &["'abcde   '", "x'4120'"]),
    ("TEXT", &["x'c3a9'", "b'1000001'"]),
    ("BINARY(3)", &["'abc   '", "'abcd'"]),
    ("VARBINARY(5)", &["'abcde   '", "5", "1.5", "date '2026-01-31'", "x'4142'", "b'1000001'"]),
    ("BLOB", &["date '2026-01-31'", "'text'"]),
    ("JSON", &["'{\"b\": 1, \"a\": [1, 2]}'", "'{'", "'\"x\"'"]),
];

#[test]
fn a_row_of_a_test_stores_what_a_strict_insert_does_mysql_only() -> Result<()> {
    let server = server();
    let (mut schema, mut tests) = (String::new(), String::new());
    server.sql("CREATE DATABASE rehearsed CHARACTER SET utf8mb4")?;
    let mut takes = Vec::new();
    for (i, (ty, literals)) in CASES.iter().enumerate() {
        let create = format!("CREATE TABLE t{i} (id INT PRIMARY KEY, v {ty} NULL)");
        server.sql(&format!("USE rehearsed; {create}"))?;
        _ = writeln!(schema, "{create};");
        for (id, literal) in literals.iter().enumerate() {
            let insert = format!(
                "USE rehearsed; SET time_zone = '+00:00', sql_mode = DEFAULT; INSERT INTO t{i} VALUES ({id}, {literal}); \
                 SELECT QUOTE(CAST(v AS CHAR)) FROM t{i} WHERE id = {id}"
            );
            let stored = server.sql(&insert).ok();
            // the client doubles the backslashes of what it prints
            let stored = stored.map(|text| text.trim_end_matches('\n').replace("\\\\", "\\"));
            let expected = stored.clone().unwrap_or_else(|| "NULL".into());
            _ = writeln!(
                tests,
                "test \"{i} {id}\" {{\n  given src.t{i} + {{ id: {id}, v: {literal} }}\n  \
                 expect dw.t{i} = [ {{ id: {id}, v: {expected} }} ]\n}}"
            );
            takes.push((format!("{i} {id}"), format!("{literal} into {ty}"), stored));
        }
    }
    let folder = tempfile::tempdir()?;
    let head = "pipeline { name = \"p\" }\nsource src = mysql { url = \"mysql://127.0.0.1:1\", user = \"cdc\", \
                tables = [\"rehearsed.*\"], schema = \"t.sql\" }\nsink dw = null {}\nsrc.* => dw.*\n";
    fs::write(folder.path().join("t.sql"), schema)?;
    fs::write(folder.path().join("t.cdc"), format!("{head}{tests}"))?;
    let output = Command::new(env!("CARGO_BIN_EXE_cdc"))
        .args(["test", "t.cdc", "--format", "json"])
        .current_dir(folder.path())
        .output()?;
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let ran = document["files"][0]["tests"].as_array().context("no tests")?;
    let (all, taken) = (takes.len(), takes.iter().filter(|(_, _, stored)| stored.is_some()).count());
    ensure!(ran.len() == all && taken > 35 && all - taken > 20, "{taken} of {all} were taken by the server");
    let mut wrong = Vec::new();
    for (ran, (name, what, stored)) in ran.iter().zip(&takes) {
        ensure!(ran["name"] == name.as_str(), "{ran:#}");
        if ran["ok"] != stored.is_some() {
            wrong.push(format!("{what}: the server has {stored:?}, the test {ran:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
