//! Source and target side by side, without the program: read by the server's client and by SQLite, as hexadecimal
//! text; each table as a multiset of rows.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use cdc_testkit::servers::Server;
use rusqlite::Connection;
use rusqlite::types::Value;

/// What was compared.
pub struct Compared {
    pub tables: usize,
    pub rows: usize,
}

/// Compares every table of the databases whose names are like this, and which tables there are.
pub fn all(server: &Server, db: &Connection, databases: &str) -> Result<Compared> {
    let at_source: BTreeSet<String> = server
        .sql(&format!(
            "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA LIKE '{databases}' AND TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME NOT LIKE 'hidden\\_%'",
        ))?
        .lines()
        .map(ToOwned::to_owned)
        .collect();
    let mut names = db.prepare(&format!(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE '{databases}.%' ESCAPE '\\'",
    ))?;
    let at_target: BTreeSet<String> =
        names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    ensure!(
        at_source == at_target,
        "tables only at the source: {:?}, only at the target: {:?}",
        at_source.difference(&at_target).collect::<Vec<_>>(),
        at_target.difference(&at_source).collect::<Vec<_>>()
    );
    let mut rows = 0;
    for name in &at_source {
        let (database, table) = name.split_once('.').unwrap_or_default();
        rows += one(server, database, table, db)?;
    }
    Ok(Compared { tables: at_source.len(), rows })
}

/// How a column is compared.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Number,
    Real,
    Bytes,
    Text,
}

fn one(server: &Server, database: &str, table: &str, db: &Connection) -> Result<usize> {
    let listed = server.sql(&format!(
        "SELECT COLUMN_NAME, DATA_TYPE, EXTRA LIKE '%GENERATED%' FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    ))?;
    let mut columns: Vec<(&str, Way)> = Vec::new();
    for line in listed.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, ty, generated] = fields[..] else { bail!("a column that cannot be read: {line}") };
        let way = match ty {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "bit" | "year" => Way::Number,
            "float" | "double" => Way::Real,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Way::Bytes,
            _ => Way::Text,
        };
        // MariaDB 11 does not log them, so they are not copied
        let is_copied = generated == "0"
            || !server.kind().is_mariadb()
            || db.column_exists(None::<&str>, format!("{database}.{table}").as_str(), name)?;
        if is_copied {
            columns.push((name, way));
        }
    }
    ensure!(!columns.is_empty(), "{database}.{table} is not at the server");
    let select: Vec<String> = columns
        .iter()
        .map(|(name, way)| {
            let column = format!("`{}`", name.replace('`', "``"));
            let text = match way {
                Way::Number => format!("CONVERT({column} + 0 USING utf8mb4)"),
                // text has not all its digits; a point holds its bits
                Way::Real => format!("ST_AsBinary(POINT({column}, 0))"),
                Way::Bytes => column,
                Way::Text => format!("CONVERT({column} USING utf8mb4)"),
            };
            format!("IFNULL(HEX({text}), '-')")
        })
        .collect();
    let printed = server.sql(&format!(
        "SET time_zone = '+00:00'; SELECT {} FROM `{database}`.`{table}`",
        select.join(", ")
    ))?;
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for line in printed.lines() {
        let fields: Vec<String> =
            line.split('\t').zip(&columns).map(|(field, (_, way))| of_server(field, *way)).collect();
        *counts.entry(fields.join(" ")).or_default() += 1;
    }
    let names: Vec<String> =
        columns.iter().map(|(name, _)| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let mut statement = db.prepare(&format!("SELECT {} FROM \"{database}.{table}\"", names.join(", ")))?;
    let mut rows = statement.query([])?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let mut fields = Vec::new();
        for (at, (_, way)) in columns.iter().enumerate() {
            fields.push(of_target(&row.get(at)?, *way));
        }
        *counts.entry(fields.join(" ")).or_default() -= 1;
        count += 1;
    }
    let differing: Vec<_> = counts.iter().filter(|(_, count)| **count != 0).take(6).collect();
    ensure!(
        differing.is_empty(),
        "{database}.{table} differs (columns {names:?}; positive: rows that the target lacks): {differing:#?}"
    );
    Ok(count)
}

/// A number as `1.5e0`, from the second field of a point's bytes.
fn of_server(field: &str, way: Way) -> String {
    if way != Way::Real || field == "-" {
        return field.to_owned();
    }
    let mut bytes = [0; 8];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let digits = field.get(10 + 2 * at..12 + 2 * at).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    real(f64::from_le_bytes(bytes))
}

fn of_target(value: &Value, way: Way) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Integer(v) if way == Way::Real => real(*v as f64),
        Value::Integer(v) => hex(v.to_string().as_bytes()),
        Value::Real(v) => real(*v),
        // 64 bits beyond SQLite's integers are kept as 20 digits
        Value::Text(v) if way == Way::Number => hex(v.trim_start_matches('0').as_bytes()),
        Value::Text(v) => hex(v.as_bytes()),
        Value::Blob(v) => hex(v),
    }
}

/// SQLite may store -0.0 as 0.
fn real(value: f64) -> String {
    if value == 0.0 { "0e0".into() } else { format!("{value:e}") }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
