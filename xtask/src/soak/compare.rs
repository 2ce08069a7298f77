//! Source and target side by side, without the program: read by the servers' own clients and by SQLite, as hexadecimal
//! text; each table as a multiset of rows.
//!
//! The program's own comparison (`cdc verify`) shares its readers and its mapping of types with what writes. Here every value is
//! what a plain SELECT gives at either side. Where the documented mapping has another text for the same value, both sides are brought
//! into one, by the type at the source, and nothing else is forgiven:
//!
//! | at the source | MySQL, MariaDB | PostgreSQL | SQLite |
//! |---|---|---|---|
//! | FLOAT, DOUBLE | the bits; the two zeros are one | the bits; the two zeros are one | the same |
//! | BIT | the number | the digits of base 2 as a number | the number |
//! | ENUM | number and label: two values may have the label '' | the label | the label |
//! | DATE, TIME, DATETIME, TIMESTAMP | the same text | without zeros at the end of a fraction; a year BC | the same text |
//! | INET4, INET6 | the same text | the address | the same text |

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::servers::Server;
use rusqlite::types::Value;

use super::target::Target;

/// What was compared.
pub struct Compared {
    pub tables: usize,
    /// Rows at the target.
    pub rows: usize,
    /// Rows of the source that the target has not as often, or rows of the target that the source has not as often, whichever
    /// are more; by table.
    pub differing: usize,
    /// Some of them.
    told: Vec<String>,
}

impl Compared {
    /// The words for a summary; an error if anything differs.
    pub fn summary(&self) -> Result<String> {
        let Compared { tables, rows, differing, told } = self;
        let line = format!("compared directly: {tables} tables, {rows} rows, {differing} differences");
        ensure!(*differing == 0, "{line}\n{}", told.join("\n"));
        Ok(line)
    }
}

/// Compares every table whose name, as `database.table`, begins so, and which tables there are.
pub fn all(server: &Server, target: &Target, prefix: &str) -> Result<Compared> {
    let at_source: BTreeSet<String> = server
        .sql(
            "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES \
             WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_NAME NOT LIKE 'hidden\\_%'",
        )?
        .lines()
        .filter(|name| name.starts_with(prefix))
        .map(ToOwned::to_owned)
        .collect();
    let columns = target.columns(prefix)?;
    let at_target: BTreeSet<String> = columns.keys().cloned().collect();
    ensure!(
        at_source == at_target,
        "tables only at the source: {:?}, only at the target: {:?}",
        at_source.difference(&at_target).collect::<Vec<_>>(),
        at_target.difference(&at_source).collect::<Vec<_>>()
    );
    let mut all = Compared { tables: at_source.len(), rows: 0, differing: 0, told: Vec::new() };
    for (name, there) in &columns {
        one(server, name, target, there, &mut all).with_context(|| format!("comparing {name}"))?;
    }
    Ok(all)
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Number,
    Bit,
    Real,
    Bytes,
    Text,
    Member,
    Moment,
    Instant,
    Address,
}

impl Way {
    fn of(ty: &str) -> Result<Way> {
        Ok(match ty {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => Way::Number,
            "bit" => Way::Bit,
            "float" | "double" => Way::Real,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Way::Bytes,
            "enum" => Way::Member,
            "date" | "time" | "datetime" => Way::Moment,
            "timestamp" => Way::Instant,
            "inet4" | "inet6" => Way::Address,
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "decimal" | "set"
            | "json" | "uuid" => Way::Text,
            other => bail!("no comparison is written for columns of type {other}"),
        })
    }

    /// What a MySQL or MariaDB is asked for; `by_number`: of an ENUM its number too.
    fn of_server(self, name: &str, by_number: bool) -> String {
        let column = backticked(name);
        let text = match self {
            Way::Number | Way::Bit => format!("CONVERT({column} + 0 USING utf8mb4)"),
            // text has not all its digits; a point holds its bits
            Way::Real => format!("ST_AsBinary(POINT({column}, 0))"),
            Way::Bytes => column,
            Way::Member if by_number => format!("CONVERT(CONCAT({column} + 0, ' ', {column}) USING utf8mb4)"),
            Way::Text | Way::Member | Way::Moment | Way::Instant | Way::Address => {
                format!("CONVERT({column} USING utf8mb4)")
            }
        };
        format!("IFNULL(HEX({text}), '-')")
    }

    /// What a PostgreSQL is asked for.
    fn of_postgres(self, name: &str) -> String {
        let column = quoted(name);
        let bytes = match self {
            Way::Real => format!("float8send({column}::float8)"),
            Way::Bytes => column,
            Way::Instant => format!("convert_to(({column} AT TIME ZONE 'UTC')::text, 'UTF8')"),
            Way::Address => format!("convert_to(host({column}), 'UTF8')"),
            Way::Number | Way::Bit | Way::Text | Way::Member | Way::Moment => {
                format!("convert_to({column}::text, 'UTF8')")
            }
        };
        format!("coalesce(upper(encode({bytes}, 'hex')), '-')")
    }

    /// A field of a MySQL or MariaDB in the form in which all sides have it.
    fn read_server(self, field: &str, beside_postgres: bool) -> Result<String> {
        if field == "-" {
            return Ok(field.to_owned());
        }
        match self {
            // the second field of a point's bytes is 0, the first one behind order and type is ours
            Way::Real => Ok(real(f64::from_le_bytes(eight(&unhex(field)?, 5)?))),
            Way::Moment | Way::Instant | Way::Address if beside_postgres => self.one_text(field),
            _ => Ok(field.to_owned()),
        }
    }

    fn read_postgres(self, field: &str) -> Result<String> {
        if field == "-" {
            return Ok(field.to_owned());
        }
        match self {
            Way::Real => Ok(real(f64::from_be_bytes(eight(&unhex(field)?, 0)?))),
            Way::Bit => {
                let number = u64::from_str_radix(&String::from_utf8(unhex(field)?)?, 2)?;
                Ok(hex(number.to_string().as_bytes()))
            }
            Way::Moment | Way::Instant | Way::Address => self.one_text(field),
            _ => Ok(field.to_owned()),
        }
    }

    /// The text that a value has which PostgreSQL prints in another way.
    fn one_text(self, field: &str) -> Result<String> {
        let text = String::from_utf8(unhex(field)?)?;
        let text = match self {
            Way::Address => text.parse::<IpAddr>()?.to_string(),
            _ => {
                let text = match text.strip_suffix(" BC") {
                    // the year before 1, as the source counts
                    Some(rest) => format!("0000{}", rest.get(4..).unwrap_or_default()),
                    None => text,
                };
                match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                    false => text,
                }
            }
        };
        Ok(hex(text.as_bytes()))
    }

    fn read_sqlite(self, value: &Value) -> String {
        match value {
            Value::Null => "-".into(),
            Value::Integer(v) if self == Way::Real => real(*v as f64),
            Value::Integer(v) => hex(v.to_string().as_bytes()),
            Value::Real(v) => real(*v),
            // 64 bits beyond SQLite's integers are kept as 20 digits
            Value::Text(v) if matches!(self, Way::Number | Way::Bit) => {
                hex(v.trim_start_matches('0').as_bytes())
            }
            Value::Text(v) => hex(v.as_bytes()),
            Value::Blob(v) => hex(v),
        }
    }
}

fn one(
    server: &Server,
    name: &str,
    target: &Target,
    there: &BTreeSet<String>,
    all: &mut Compared,
) -> Result<()> {
    let (database, table) = name.split_once('.').context("a table without a database")?;
    let listed = server.sql(&format!(
        "SELECT COLUMN_NAME, DATA_TYPE, EXTRA LIKE '%GENERATED%' FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    ))?;
    let mut columns: Vec<(&str, Way)> = Vec::new();
    for line in listed.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, ty, generated] = fields[..] else { bail!("a column that cannot be read: {line}") };
        // MariaDB 11 does not log them, so they are not copied
        let is_copied = generated == "0" || !server.kind().is_mariadb() || there.contains(name);
        if is_copied {
            columns.push((name, Way::of(ty)?));
        }
    }
    ensure!(!columns.is_empty(), "{name} is not at the server");
    let by_number = matches!(target, Target::Server { .. });
    let beside_postgres = matches!(target, Target::Postgres { .. });
    let of_server = |from: &str| {
        let select: Vec<String> = columns.iter().map(|(name, way)| way.of_server(name, by_number)).collect();
        format!("SET time_zone = '+00:00'; SELECT {} FROM {from}", select.join(", "))
    };
    let from_server = |line: &str| -> Result<String> {
        let fields = line.split('\t').zip(&columns).map(|(f, (_, way))| way.read_server(f, beside_postgres));
        Ok(fields.collect::<Result<Vec<_>>>()?.join(" "))
    };
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let printed = server.sql(&of_server(&format!("{}.{}", backticked(database), backticked(table))))?;
    for line in printed.lines() {
        *counts.entry(from_server(line)?).or_default() += 1;
    }
    let mut take = |row: String| {
        *counts.entry(row).or_default() -= 1;
        all.rows += 1;
    };
    match target {
        Target::Sqlite(_) => {
            let db = target.open()?.context("no file")?;
            let names: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
            let mut select = db.prepare(&format!("SELECT {} FROM {}", names.join(", "), quoted(name)))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let fields: rusqlite::Result<Vec<String>> = columns
                    .iter()
                    .enumerate()
                    .map(|(at, (_, way))| Ok(way.read_sqlite(&row.get(at)?)))
                    .collect();
                take(fields?.join(" "));
            }
        }
        Target::Server { server, .. } => {
            let printed = server.sql(&of_server(&format!("dw.{}", backticked(name))))?;
            printed.lines().try_for_each(|line| from_server(line).map(&mut take))?;
        }
        Target::Postgres { server, .. } => {
            let select: Vec<String> = columns.iter().map(|(name, way)| way.of_postgres(name)).collect();
            let printed =
                server.sql(&format!("SELECT {} FROM {}", select.join(" || ' ' || "), quoted(name)))?;
            for line in printed.lines() {
                let fields = line.split(' ').zip(&columns).map(|(field, (_, way))| way.read_postgres(field));
                take(fields.collect::<Result<Vec<_>>>()?.join(" "));
            }
        }
    }
    let sum = |of: fn(i64) -> i64| counts.values().map(|n| of(*n).max(0).unsigned_abs()).sum::<u64>();
    let differing = sum(|n| n).max(sum(|n| -n));
    if differing > 0 {
        let some: Vec<_> = counts.iter().filter(|(_, count)| **count != 0).take(6).collect();
        all.told.push(format!(
            "{name}: {differing} rows differ (columns {columns:?}; positive: rows that the target lacks): {some:#?}"
        ));
    }
    all.differing += usize::try_from(differing)?;
    Ok(())
}

/// SQLite and MariaDB may store -0.0 as 0.
fn real(value: f64) -> String {
    if value == 0.0 { "0e0".into() } else { format!("{value:e}") }
}

fn eight(bytes: &[u8], at: usize) -> Result<[u8; 8]> {
    let part = bytes.get(at..at + 8).context("a number of fewer than 8 bytes")?;
    Ok(part.try_into()?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    ensure!(text.len().is_multiple_of(2) && text.is_ascii(), "not hexadecimal: {text}");
    (0..text.len()).step_by(2).map(|at| Ok(u8::from_str_radix(&text[at..at + 2], 16)?)).collect()
}

fn backticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_testkit::proxy::Proxy;
    use cdc_testkit::servers::ServerOptions;
    use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};

    const COLUMNS: &str = "(id INT NOT NULL PRIMARY KEY, big BIGINT UNSIGNED, d DECIMAL(8,3), f FLOAT, x DOUBLE, b BIT(9),
        s VARCHAR(20), raw VARBINARY(9), day DATE, t TIME(3), at DATETIME(6), ts TIMESTAMP(3) NULL, e ENUM('a',''), y YEAR, `a``b` INT)";
    const ROWS: &str = "VALUES
        (1, 18446744073709551615, -1.5, 0.1, -0.0, b'101', 'größer', x'00FF', '2024-02-29', '-800:00:00.5', '1000-01-01 00:00:00.000001',
         '2024-03-31 01:30:00.5', 'a', 2024, 1),
        (2, NULL, NULL, NULL, 1e300, NULL, '', '', NULL, '00:00:00', '2024-01-01', NULL, '', NULL, NULL),
        (3, 0, 0, -3.4e38, 0.1, 0, '-', '-', '0000-01-01', '00:00:01.120', '9999-12-31 23:59:59.9', '1970-01-01 00:00:01', NULL, 1901, -1)";
    /// The same, as the mapping has it.
    const AT_POSTGRES: &str = "CREATE TABLE \"soak_c.t\" (id int PRIMARY KEY, big numeric(20,0), d numeric(8,3), f real, x float8, b bit(9),
          s text, raw bytea, day date, t interval(3), at timestamp(6), ts timestamptz(3), e text, y smallint, \"a`b\" int);
        INSERT INTO \"soak_c.t\" VALUES
        (1, 18446744073709551615, -1.5, 0.1, '-0.0', B'000000101', 'größer', '\\x00FF', '2024-02-29', '-800:00:00.5', '1000-01-01 00:00:00.000001',
         '2024-03-31 01:30:00.5+00', 'a', 2024, 1),
        (2, NULL, NULL, NULL, 1e300, NULL, '', '', NULL, '00:00:00', '2024-01-01', NULL, '', NULL, NULL),
        (3, 0, 0, '-3.4e38', 0.1, B'000000000', '-', '-', '0001-01-01 BC', '00:00:01.120', '9999-12-31 23:59:59.9', '1970-01-01 00:00:01+00', NULL, 1901, -1)";

    fn differing(server: &Server, target: &Target) -> (usize, usize) {
        let all = all(server, target, "soak_c").unwrap();
        assert_eq!(all.summary().is_ok(), all.differing == 0);
        (all.rows, all.differing)
    }

    fn tell(target: &Target, sql: &str) {
        let done = match target {
            Target::Postgres { server, .. } => server.sql(sql),
            Target::Server { server, .. } => {
                server.sql(&format!("SET sql_mode = '', time_zone = '+00:00'; {sql}"))
            }
            Target::Sqlite(_) => panic!("not made here"),
        };
        done.unwrap();
    }

    /// Values that both sides have in another text are equal, and each change of one row by hand is one difference.
    #[test]
    fn a_row_that_is_changed_behind_its_back_is_counted() {
        let server = Server::start(ServerOptions::default()).unwrap();
        server
            .sql(&format!(
                "CREATE DATABASE soak_c; SET sql_mode = '', time_zone = '+00:00';
                 CREATE TABLE soak_c.t {COLUMNS}; INSERT INTO soak_c.t {ROWS}"
            ))
            .unwrap();
        let pg = Postgres::start(PostgresOptions::default()).unwrap();
        pg.sql(AT_POSTGRES).unwrap();
        let twin = Server::start(ServerOptions::default()).unwrap();
        twin.sql(&format!(
            "CREATE DATABASE dw; SET sql_mode = '', time_zone = '+00:00';
             CREATE TABLE dw.`soak_c.t` {COLUMNS}; INSERT INTO dw.`soak_c.t` {ROWS}"
        ))
        .unwrap();
        let to_twin = Proxy::start(twin.port()).unwrap();
        let to_pg = Proxy::start(pg.port()).unwrap();
        let twin = Target::Server { server: Box::new(twin), proxy: to_twin };
        let pg = Target::Postgres { server: Box::new(pg), proxy: to_pg };
        let changes = [
            "big = big - 1",
            "d = d + 0.001",
            "f = 0.2",
            "x = x + 1",
            "s = 'grösser'",
            "day = '2024-03-01'",
            "t = '-800:00:00.501'",
            "at = '1000-01-01 00:00:00.000002'",
            "ts = '2024-03-31 01:30:00.501'",
            "e = ''",
            "y = 2023",
            "s = NULL",
        ];
        for target in [&twin, &pg] {
            assert_eq!(differing(&server, target), (3, 0));
            let (here, kept) = match target {
                Target::Postgres { .. } => ("\"soak_c.t\"", "kept"),
                _ => ("dw.`soak_c.t`", "dw.kept"),
            };
            let run = |sql: &str| tell(target, sql);
            run(&format!("CREATE TABLE {kept} AS SELECT * FROM {here}"));
            for change in changes {
                run(&format!("UPDATE {here} SET {change} WHERE id = 1"));
                assert_eq!(differing(&server, target), (3, 1), "{change}");
                run(&format!("DELETE FROM {here}; INSERT INTO {here} SELECT * FROM {kept}"));
            }
            run(&format!("DELETE FROM {here} WHERE id = 2"));
            assert_eq!(differing(&server, target), (2, 1));
            run(&format!("INSERT INTO {here} (id) VALUES (2), (4)"));
            assert_eq!(differing(&server, target), (4, 2));
        }
        // of an ENUM two values have no characters
        tell(&twin, "DELETE FROM dw.`soak_c.t`; INSERT INTO dw.`soak_c.t` SELECT * FROM dw.kept");
        tell(&twin, "UPDATE dw.`soak_c.t` SET e = 'none' WHERE id = 2");
        assert_eq!(differing(&server, &twin), (3, 1));
    }
}
