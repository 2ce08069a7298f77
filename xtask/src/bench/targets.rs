//! Copies into real targets, against what the target's own bulk load takes for the same rows.
//!
//! The reference is given the rows in a file, in the form that its loader likes best, and an empty table with the same key; writing
//! the file is not measured. For the log it is as many rows as the log has row events, of the same two tables.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, remove_dir};

use rusqlite::Connection;

use super::latency::remove_database;
use super::{Bench, PATIENCE, PLAIN, Work};
use crate::args::Args;
use crate::child::{Cost, measure};
use crate::{say, servers};

/// A target with its server, which is ended with it.
pub enum Target {
    /// Of the same kind as the source.
    MySql(Box<Server>),
    /// PostgreSQL.
    Postgres(Box<Postgres>),
    /// A file.
    Sqlite(PathBuf),
}

/// The targets by their names.
pub const KINDS: [&str; 3] = ["sqlite", "mysql", "postgres"];

/// Columns of the two tables, as the loader's file has them and as the reference's table has them.
const NARROW: &str =
    "id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL";
const WIDE_MYSQL: &str = "id BIGINT NOT NULL PRIMARY KEY, amount INT UNSIGNED NOT NULL, name VARCHAR(100) NOT NULL,
  price DECIMAL(20,6) NULL, made DATETIME(6) NOT NULL, seen TIMESTAMP NULL, doc JSON NOT NULL, ratio DOUBLE NULL,
  digest BLOB NOT NULL, state ENUM('new', 'open', 'paid', 'sent', 'done') NOT NULL";
const WIDE_LOADED: &str =
    "(id, amount, name, price, made, seen, doc, ratio, @digest, state) SET digest = UNHEX(@digest)";
const WIDE_POSTGRES: &str = "id BIGINT NOT NULL PRIMARY KEY, amount BIGINT NOT NULL, name TEXT NOT NULL,
  price NUMERIC(20,6) NULL, made TIMESTAMP(6) NOT NULL, seen TIMESTAMPTZ NULL, doc TEXT NOT NULL, ratio DOUBLE PRECISION NULL,
  digest BYTEA NOT NULL, state TEXT NOT NULL";

const WIDE_SQLITE: &str =
    "id BIGINT NOT NULL PRIMARY KEY, amount INTEGER NOT NULL, name TEXT NOT NULL, price TEXT,
  made TEXT NOT NULL, seen TEXT, doc TEXT NOT NULL, ratio, digest BLOB NOT NULL, state TEXT NOT NULL";

impl Target {
    /// Starts a server for it, empty.
    pub fn start(name: &str, folder: &Path) -> Result<Target> {
        if name == "postgres" {
            servers::ensure_postgres()?;
            return Ok(Target::Postgres(Box::new(Postgres::start(PostgresOptions::default())?)));
        }
        if name == "sqlite" {
            return Ok(Target::Sqlite(folder.join("target.db")));
        }
        let datadir = folder.join("target");
        remove_dir(&datadir)?;
        let options = ServerOptions::of(ServerKind::MySql)
            .with_datadir(&datadir)
            .with("--innodb-buffer-pool-size=1G")
            .with("--local-infile=1");
        Ok(Target::MySql(Box::new(Server::start(options)?)))
    }

    /// Takes away what is there.
    pub fn empty(&self) -> Result<()> {
        match self {
            Target::Sqlite(path) => remove_database(path)?,
            Target::MySql(server) => {
                server.sql("DROP DATABASE IF EXISTS dw; CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
            }
            Target::Postgres(server) => {
                server.admin("DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION cdc")?;
            }
        }
        Ok(())
    }

    pub fn sink(&self) -> String {
        match self {
            Target::Sqlite(_) => "sqlite { path = \"target.db\" }".to_owned(),
            Target::MySql(server) => format!(
                "mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", password = \"${{CDC_PASSWORD}}\" }}",
                server.port()
            ),
            Target::Postgres(server) => format!(
                "postgres {{ url = \"{}\", user = \"cdc\", password = \"${{CDC_PASSWORD}}\" }}",
                server.url()
            ),
        }
    }

    fn loader(&self) -> &'static str {
        match self {
            Target::MySql(_) => "LOAD DATA LOCAL INFILE",
            Target::Postgres(_) => "\\copy .. FROM",
            Target::Sqlite(_) => "a prepared INSERT in one transaction",
        }
    }

    /// The bytes of the wide table as the loader reads them: in hexadecimal digits, since the file is text.
    fn digest(&self) -> &'static str {
        match self {
            Target::MySql(_) | Target::Sqlite(_) => "HEX(digest)",
            Target::Postgres(_) => "CONCAT('\\\\x', HEX(digest))",
        }
    }

    /// Makes the reference's tables anew, and loads the files into them.
    fn load(&self, files: &[(&str, PathBuf)]) -> Result<Cost> {
        self.empty()?;
        let mut command = match self {
            Target::MySql(server) => {
                server.sql(&format!(
                    "USE dw; CREATE TABLE narrow ({NARROW}); CREATE TABLE wide ({WIDE_MYSQL})"
                ))?;
                let mut command = server.client_command("mysql", "cdc", "cdc")?;
                command.args(PLAIN).args(["--local-infile=1", "--database=dw", "--execute"]);
                command
                    .arg(files.iter().fold("SET time_zone = '+00:00';".to_owned(), |sql, (table, file)| {
                    let columns = if *table == "wide" { WIDE_LOADED } else { "" };
                    let file = file.display();
                    sql + &format!(
                        "LOAD DATA LOCAL INFILE '{file}' INTO TABLE {table} CHARACTER SET utf8mb4 {columns};"
                    )
                }));
                command
            }
            Target::Postgres(server) => {
                server
                    .sql(&format!("CREATE TABLE narrow ({NARROW}); CREATE TABLE wide ({WIDE_POSTGRES})"))?;
                let mut command: Command = server.psql("cdc", "dw");
                for (table, file) in files {
                    command.arg("-c").arg(format!("\\copy {table} FROM '{}'", file.display()));
                }
                command
            }
            Target::Sqlite(path) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(LOAD_SQLITE).arg(path);
                for (table, file) in files {
                    command.arg(table).arg(file);
                }
                command
            }
        };
        measure(&mut command, PATIENCE)
    }
}

/// The task by which this program is a reference: see [`load_sqlite`].
pub const LOAD_SQLITE: &str = "load-sqlite";

/// `cargo xtask load-sqlite DATABASE [TABLE FILE]..`: the bulk path of SQLite, which has no program for it that is everywhere. Fields are
/// separated by tabs.
pub fn load_sqlite(args: &mut Args) -> Result<()> {
    let path = args.next().context("no database")?;
    let mut db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = db.transaction()?;
    while let Some(table) = args.next() {
        let file = args.next().context("a table without a file")?;
        let columns = if table == "wide" { WIDE_SQLITE } else { NARROW };
        transaction.execute_batch(&format!("CREATE TABLE {table} ({columns})"))?;
        let mut insert = None;
        for line in BufReader::new(fs::File::open(&file)?).lines() {
            let line = line?;
            let fields: Vec<&str> = line.split('\t').collect();
            let insert = match &mut insert {
                Some(insert) => insert,
                slot => {
                    let places: Vec<&str> = fields
                        .iter()
                        .enumerate()
                        .map(|(i, _)| if table == "wide" && i == 8 { "unhex(?)" } else { "?" })
                        .collect();
                    slot.insert(
                        transaction
                            .prepare(&format!("INSERT INTO {table} VALUES ({})", places.join(", ")))?,
                    )
                }
            };
            let value = |field: &&str| if *field == "\\N" { None } else { Some((*field).to_owned()) };
            insert.execute(rusqlite::params_from_iter(fields.iter().map(value)))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

impl Bench {
    /// The copy of the narrow table.
    pub fn snapshot_into(
        &mut self,
        target: &Target,
        name: &str,
        rows: u64,
        failures: &mut Vec<String>,
    ) -> Result<()> {
        say!("== {name}: {rows} rows");
        let file = self.rows_file(target, "narrow", rows)?;
        let pipeline = self.pipeline_into(name, "[\"bench.narrow\"]", "initial", &target.sink(), "")?;
        self.against(target, name, rows, &[("narrow", file)], &pipeline, failures)
    }

    /// The whole log.
    pub fn log_into(
        &mut self,
        target: &Target,
        name: &str,
        rows: u64,
        failures: &mut Vec<String>,
    ) -> Result<()> {
        say!("== {name}: {rows} rows");
        let narrow = self.rows_file(target, "narrow", rows * 7 / 10)?;
        let wide = self.rows_file(target, "wide", rows - rows * 7 / 10)?;
        let pipeline = self.pipeline_into(name, "[\"bench.*\"]", "earliest", &target.sink(), "")?;
        self.against(target, name, rows, &[("narrow", narrow), ("wide", wide)], &pipeline, failures)
    }

    fn against(
        &mut self,
        target: &Target,
        name: &str,
        rows: u64,
        files: &[(&str, PathBuf)],
        pipeline: &Path,
        failures: &mut Vec<String>,
    ) -> Result<()> {
        let reference = |_: &Bench| target.load(files);
        reference(self)?;
        let before = || target.empty();
        let work = Work { name, rows, pipeline, also: Vec::new(), before: &before };
        self.compare(work, (target.loader(), &reference), failures)?;
        for (_, file) in files {
            fs::remove_file(file)?;
        }
        target.empty()
    }

    /// So many rows of a table, under numbers of their own, as the target's loader reads them.
    fn rows_file(&self, target: &Target, table: &str, rows: u64) -> Result<PathBuf> {
        let file = self.folder.join(format!("{table}.tsv"));
        if file.exists() {
            fs::remove_file(&file)?;
        }
        let columns = match table {
            "narrow" => "k, c, pad".to_owned(),
            _ => format!("amount, name, price, made, seen, doc, ratio, {}, state", target.digest()),
        };
        // tables of fewer rows are gone through several times
        self.server.sql(&format!(
            "USE bench; SET time_zone = '+00:00';
             SELECT ROW_NUMBER() OVER (), {columns} FROM {table} JOIN (SELECT d FROM ten) AS s LIMIT {rows}
             INTO OUTFILE '{}' CHARACTER SET utf8mb4",
            file.display()
        ))?;
        // PostgreSQL's programs do not run as root
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        Ok(file)
    }
}
