//! What the soak is copied into: a file of SQLite, or a database of another server, which is disturbed too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::postgres::{self, Postgres, PostgresOptions};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use rand::Rng;
use rand::rngs::StdRng;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use crate::{say, servers};

/// What the soak is to be copied into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    Sqlite,
    Postgres,
    Server(ServerKind),
}

impl TargetKind {
    /// What `--targets` goes through.
    pub const ALL: [TargetKind; 4] = [
        TargetKind::Server(ServerKind::MySql),
        TargetKind::Server(ServerKind::MariaDb118),
        TargetKind::Postgres,
        TargetKind::Sqlite,
    ];

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            TargetKind::Sqlite => "sqlite",
            TargetKind::Postgres => postgres::NAME,
            TargetKind::Server(kind) => kind.name(),
        }
    }

    /// The one of this word.
    pub fn parse(name: &str) -> Result<TargetKind> {
        match name {
            "sqlite" => Ok(TargetKind::Sqlite),
            postgres::NAME => Ok(TargetKind::Postgres),
            _ => Ok(TargetKind::Server(name.parse().context("--target: sqlite, postgres, or a server")?)),
        }
    }
}

fn pairs(text: &str, between: char) -> Vec<(String, String)> {
    let pair = |line: &str| line.split_once(between).map(|(a, b)| (a.to_owned(), b.to_owned()));
    text.lines().filter_map(pair).collect()
}

pub enum Target {
    Sqlite(PathBuf),
    Server {
        server: Box<Server>,
        /// The way to it.
        proxy: Proxy,
    },
    Postgres {
        server: Box<Postgres>,
        proxy: Proxy,
    },
}

impl Target {
    pub fn start(kind: TargetKind, folder: &Path) -> Result<Target> {
        let target = match kind {
            TargetKind::Sqlite => return Ok(Target::Sqlite(folder.join("target.db"))),
            TargetKind::Postgres => {
                servers::ensure_postgres()?;
                let server = Postgres::start(PostgresOptions::default())?;
                let proxy = Proxy::start(server.port())?;
                Target::Postgres { server: Box::new(server), proxy }
            }
            TargetKind::Server(kind) => {
                servers::ensure(kind)?;
                let server = Server::start(ServerOptions::of(kind).with_datadir(folder.join("target")))?;
                let proxy = Proxy::start(server.port())?;
                Target::Server { server: Box::new(server), proxy }
            }
        };
        target.remove()?;
        Ok(target)
    }

    /// The sink of the pipeline.
    pub fn sink(&self) -> String {
        match self {
            Target::Sqlite(_) => "sqlite { path = \"target.db\", synchronous = normal }".into(),
            Target::Server { proxy, .. } => format!(
                "mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", password = \"${{CDC_PASSWORD}}\" }}",
                proxy.port()
            ),
            Target::Postgres { proxy, .. } => format!(
                "postgres {{ url = \"postgres://127.0.0.1:{}/dw\", user = \"cdc\", password = \"${{CDC_PASSWORD}}\" }}",
                proxy.port()
            ),
        }
    }

    /// The file, to look at it.
    pub fn open(&self) -> Result<Option<Connection>> {
        let Target::Sqlite(path) = self else { return Ok(None) };
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        db.busy_timeout(Duration::from_secs(2))?;
        Ok(Some(db))
    }

    /// Takes away all that is there.
    pub fn remove(&self) -> Result<()> {
        match self {
            Target::Sqlite(path) => {
                for end in ["", "-wal", "-shm"] {
                    let path = PathBuf::from(format!("{}{end}", path.display()));
                    if path.exists() {
                        fs::remove_file(path)?;
                    }
                }
                Ok(())
            }
            Target::Server { server, .. } => server
                .sql("DROP DATABASE IF EXISTS dw; CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")
                .map(drop),
            Target::Postgres { server, .. } => {
                server.admin("DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION cdc").map(drop)
            }
        }
    }

    fn number(&self, sql: &str) -> Option<i64> {
        match self {
            Target::Sqlite(_) => self.open().ok()??.query_row(sql, [], |row| row.get(0)).ok()?,
            Target::Server { server, .. } => {
                server.sql(&format!("SET sql_mode = 'ANSI_QUOTES'; USE dw; {sql}")).ok()?.trim().parse().ok()
            }
            Target::Postgres { server, .. } => server.sql(sql).ok()?.trim().parse().ok(),
        }
    }

    /// Rows as text: a bar between columns, NULL as that word.
    pub fn rows(&self, sql: &str) -> Result<Vec<String>> {
        match self {
            Target::Sqlite(_) => {
                let Some(db) = self.open()? else { return Ok(Vec::new()) };
                let mut select = db.prepare(sql)?;
                let columns = select.column_count();
                let text = |value: Value| match value {
                    Value::Null => "NULL".to_owned(),
                    Value::Integer(value) => value.to_string(),
                    Value::Real(value) => value.to_string(),
                    Value::Text(value) => value,
                    Value::Blob(value) => format!("{value:?}"),
                };
                let rows = select.query_map([], |row| {
                    let values = (0..columns).map(|at| row.get(at).map(text));
                    Ok(values.collect::<rusqlite::Result<Vec<String>>>()?.join("|"))
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            }
            Target::Server { server, .. } => {
                let printed = server.sql(&format!("USE dw; {sql}"))?;
                Ok(printed.lines().map(|line| line.replace('\t', "|")).collect())
            }
            Target::Postgres { server, .. } => Ok(server.sql(sql)?.lines().map(str::to_owned).collect()),
        }
    }

    /// The last tick that is committed; `None` while it cannot be asked.
    pub fn tick(&self) -> Option<i64> {
        self.number("SELECT MAX(tick) FROM _cdc_progress")
    }

    /// The columns of the tables whose names begin so, but those that no table of a source has.
    pub fn columns(&self, prefix: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let listed =
            "SELECT table_name AS t, column_name AS c FROM information_schema.columns WHERE table_schema =";
        let rows: Vec<(String, String)> = match self {
            Target::Sqlite(_) => {
                let Some(db) = self.open()? else { return Ok(BTreeMap::new()) };
                let mut listed = db.prepare(
                    "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'",
                )?;
                let rows = listed.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect::<rusqlite::Result<_>>()?
            }
            Target::Server { server, .. } => pairs(&server.sql(&format!("{listed} 'dw'"))?, '\t'),
            Target::Postgres { server, .. } => pairs(&server.sql(&format!("{listed} 'public'"))?, '|'),
        };
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (table, column) in rows {
            if table.starts_with(prefix) && !table.starts_with("keeps_") && !column.starts_with("_cdc_") {
                all.entry(table).or_default().insert(column);
            }
        }
        Ok(all)
    }

    /// Default and comment of each column of the tables whose names begin so, by `table.column`, and the tables' comments by name;
    /// `None` for a target that has neither. See [`said_of`].
    pub fn said(&self, prefix: &str) -> Result<Option<BTreeMap<String, String>>> {
        match self {
            Target::Sqlite(_) => Ok(None),
            Target::Server { server, .. } => said_of(server, "dw", prefix).map(Some),
            Target::Postgres { server, .. } => {
                let lines = server.sql(
                    "SELECT c.table_name || '.' || c.column_name || '|' || coalesce(c.column_default, 'NULL') || '|' ||
                            coalesce(col_description(format('public.%I', c.table_name)::regclass, c.ordinal_position), '')
                       FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
                      WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'
                     UNION ALL
                     SELECT table_name || '|NULL|' || coalesce(obj_description(format('public.%I', table_name)::regclass), '')
                       FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
                )?;
                Ok(Some(said_in(&lines, prefix)))
            }
        }
    }

    /// Has the target refuse that this column goes.
    pub fn protect(&self, number: u64, table: &str, column: &str) -> Result<()> {
        match self {
            Target::Sqlite(_) => {
                let Some(db) = self.open()? else { return Ok(()) };
                db.execute_batch(&format!("CREATE INDEX \"keeps_{number}\" ON \"{table}\" (\"{column}\")"))?;
            }
            // (a rule about one column alone would go with it)
            Target::Server { server, .. } => drop(server.sql(&format!(
                "USE dw; SET lock_wait_timeout = 2; ALTER TABLE `{table}` ADD CONSTRAINT keeps_{number} CHECK (`{column}` IS NULL OR id IS NOT NULL)"
            ))?),
            Target::Postgres { server, .. } => drop(server.sql(&format!(
                "SET lock_timeout = '2s'; CREATE VIEW \"keeps_{number}\" AS SELECT \"{column}\" FROM \"{table}\""
            ))?),
        }
        Ok(())
    }

    /// What the accounts hold.
    pub fn sum(&self) -> Option<i64> {
        self.number(
            "SELECT (SELECT SUM(n) FROM \"soak_w.accounts\") + (SELECT SUM(n) FROM \"soak_w.accounts2\")",
        )
    }

    /// Is what the source calls whole there a moment later? A server may be behind it, and by a kill stay so.
    pub fn keeps_up(&self) -> bool {
        matches!(self, Target::Sqlite(_))
    }

    /// Takes back what was to happen to the way to it.
    pub fn leave_alone(&self) {
        if let Target::Server { proxy, .. } | Target::Postgres { proxy, .. } = self {
            proxy.cut_after(u32::MAX >> 1);
        }
    }

    /// Now and then something happens to a server, or to the way to it; true if it did.
    pub fn disturb(&mut self, rng: &mut StdRng) -> Result<bool> {
        let (Target::Server { proxy, .. } | Target::Postgres { proxy, .. }) = self else { return Ok(false) };
        match rng.random_range(0..16) {
            0 => {
                say!("== the target is killed");
                let wait = Duration::from_millis(rng.random_range(0..1000));
                match self {
                    Target::Sqlite(_) => {}
                    Target::Server { server, .. } => {
                        server.kill()?;
                        std::thread::sleep(wait);
                        server.restart()?;
                    }
                    Target::Postgres { server, .. } => {
                        server.kill()?;
                        std::thread::sleep(wait);
                        server.restart()?;
                    }
                }
            }
            1..4 => proxy.cut_after(rng.random_range(1..5000)),
            4 => proxy.cut_all(),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What a server's information_schema says of defaults and comments in a database: as [`Target::said`]. A default that is no constant
/// counts as none: whether it has one there, hangs on the two servers.
pub fn said_of(server: &Server, database: &str, prefix: &str) -> Result<BTreeMap<String, String>> {
    let lines = server.sql(&format!(
        "SELECT CONCAT_WS('|', CONCAT(TABLE_NAME, '.', COLUMN_NAME), IFNULL(COLUMN_DEFAULT, 'NULL'), COLUMN_COMMENT)
           FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{database}' AND COLUMN_NAME <> '_cdc_row'
         UNION ALL
         SELECT CONCAT_WS('|', TABLE_NAME, 'NULL', TABLE_COMMENT)
           FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}'"
    ))?;
    Ok(said_in(&lines, prefix))
}

fn said_in(lines: &str, prefix: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for line in lines.lines().filter_map(|line| line.strip_prefix(prefix)) {
        let fields: Vec<&str> = line.splitn(3, '|').collect();
        if let [name, default, comment] = fields[..] {
            all.insert(name.to_owned(), format!("{} {comment}", constant(default)));
        }
    }
    all
}

/// A constant as no server prints it: without quotes, casts, and zeros at the end of a fraction.
fn constant(default: &str) -> String {
    let text = default.split("::").next().unwrap_or_default();
    let bare = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).unwrap_or(text);
    if bare == "NULL" || bare.contains('(') || bare.to_lowercase().starts_with("current_timestamp") {
        return "-".to_owned();
    }
    if bare.contains('.') {
        return bare.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    bare.to_owned()
}

#[cfg(test)]
mod tests {
    use super::constant;

    #[test]
    fn one_constant_is_printed_in_many_ways() {
        for text in ["3.2500", "'3.25'::numeric", "3.25"] {
            assert_eq!(constant(text), "3.25");
        }
        assert_eq!(constant("'abc'::text"), constant("abc"));
        assert_eq!(
            constant("'2026-01-02 00:00:00'::timestamp(3) without time zone"),
            constant("2026-01-02 00:00:00.000")
        );
        for none in [
            "NULL",
            "NULL::character varying",
            "lower(_utf8mb4'ABC')",
            "current_timestamp()",
            "CURRENT_TIMESTAMP",
        ] {
            assert_eq!(constant(none), "-");
        }
    }
}
