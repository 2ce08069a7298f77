//! Random DDL is run at real servers; after each statement the structures that follow the log must equal what the
//! server says of its tables.
//!
//! Nothing is read again on the way: each statement is taken from the log as the server wrote it, parsed, applied and
//! learned. Then every table's SHOW CREATE TABLE, read by the same parser into structures of their own, and
//! `information_schema` (which tables, sequences and versioned tables there are; names, order, types, nullability of
//! all columns) are compared with what was followed. What the server refuses is passed over, so statements need
//! not make sense. A difference is made small, by leaving out statements and parts of statements, and shown
//! with its seed.
//!
//! The first seed is 1, `CDC_SEED=random` begins elsewhere, a number runs that one. `CDC_DDL_SECONDS` sets the time for
//! each server, `CDC_DDL_REFUSED=1` shows what the servers refuse, and why.

use anyhow::{Context as _, Result, bail, ensure};
use cdc_core::schema::{Charset, Column, ColumnType};
use cdc_core::{TableId, TableSchema, codes};
use cdc_mysql::ddl::{self, Context, Index, Outcome, SqlMode, Structures};
use cdc_mysql::structure::TableStructures;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, fresh_dir, remove_dir};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Row};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The database of all histories; it is made anew for each.
const DATABASE: &str = "oracle";
/// Statements in one history.
const LENGTH: usize = 40;
/// Refusals that say why: the program stops there too, and so does a history.
const KNOWN_REFUSALS: &[&str] = &[
    "is dropped or changed twice",
    "a size of its own choice",
    "WITHOUT OVERLAPS",
    "a sequence is made a table",
    "the server leaves the members of",
    "come out of hiding",
    UNSHOWN,
    "are hidden where they stand",
    "names another for columns of the same statement",
];

const UNSHOWN: &str = "the server cannot show its tables";

/// A statement in pieces, so that it can be made smaller: `head part, part, .. tail`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Statement {
    head: String,
    parts: Vec<String>,
    tail: String,
}

impl Statement {
    fn plain(text: impl Into<String>) -> Statement {
        Statement { head: text.into(), ..Statement::default() }
    }

    fn text(&self) -> String {
        format!("{}{}{}", self.head, self.parts.join(", "), self.tail)
    }
}

/// A server, a connection to it, and where its log is.
struct Source {
    kind: ServerKind,
    conn: Conn,
    context: Context<'static>,
    sql_mode: String,
    /// The session is in strict mode.
    strict: bool,
    server: Server,
    /// Dropped behind the server.
    _temporary: Temporary,
}

struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = remove_dir(&self.0);
    }
}

/// What one statement came to.
#[derive(Debug)]
enum Step {
    /// The server did not take it.
    Refused,
    /// Followed, and equal.
    Equal,
    /// The parser says that it does not follow this, for a reason that is known.
    Unfollowed(String),
    Different(String),
    /// The server ended.
    Failed,
}

impl Source {
    async fn start(kind: ServerKind) -> Result<Source> {
        // MariaDB removes what other servers have in the folder for temporary tables.
        let temporary = Temporary(fresh_dir("ddl-oracle")?);
        let options = ServerOptions { kind, ..ServerOptions::default() };
        let server = Server::start(options.with(format!("--tmpdir={}", temporary.0.display())))?;
        let mut conn = Conn::new(Opts::from_url(&server.url("root"))?).await?;
        prepare(&mut conn, kind).await?;
        let (version, collation, lower): (String, String, u8) = conn
            .query_first("SELECT VERSION(), @@collation_server, @@lower_case_table_names")
            .await?
            .context("one row")?;
        let numbers: Vec<u32> =
            version.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).take(3).collect();
        let [major, minor, patch] = numbers[..] else { bail!("version {version}") };
        let number = major * 10_000 + minor * 100 + patch;
        let mut context = if kind.is_mariadb() { Context::mariadb(number) } else { Context::mysql(number) };
        context.server_charset =
            Charset::new(collation.split('_').next().unwrap_or("").to_owned(), collation.clone());
        context.lower_case_table_names = lower;
        context.database = Some(DATABASE);
        let sql_mode = conn.query_first("SELECT @@sql_mode").await?.context("one row")?;
        Ok(Source { kind, conn, context, sql_mode, strict: true, server, _temporary: temporary })
    }

    /// After a statement that ended the server.
    async fn restart(&mut self) -> Result<()> {
        self.server.kill().ok();
        self.server.restart()?;
        self.conn = Conn::new(Opts::from_url(&self.server.url("root"))?).await?;
        prepare(&mut self.conn, self.kind).await
    }

    /// A new history: an empty database, and structures that know of nothing.
    async fn begin(&mut self, create: &str, sql_mode: &str) -> Result<TableStructures> {
        self.sql(&format!("SET SESSION sql_mode = '{sql_mode}'")).await?;
        self.context.sql_mode = SqlMode::from_names(sql_mode);
        self.strict = sql_mode.contains("STRICT");
        self.sql(&format!("DROP DATABASE IF EXISTS {DATABASE}")).await?;
        let mut structures = TableStructures::new();
        let step = self.step(&mut structures, create).await?;
        ensure!(matches!(step, Step::Equal), "{create}: {step:?}");
        self.sql(&format!("USE {DATABASE}")).await?;
        Ok(structures)
    }

    async fn sql(&mut self, sql: &str) -> Result<()> {
        self.conn.query_drop(sql).await.with_context(|| sql.to_owned())
    }

    async fn log_end(&mut self) -> Result<(String, u64)> {
        let status = if self.kind.is_mariadb() { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
        let row: Row = self.conn.query_first(status).await?.context("the log is on")?;
        Ok((row.get(0).context("a file")?, row.get(1).context("a position")?))
    }

    /// The texts of the statements that the log has behind a position.
    async fn logged(&mut self, (file, position): &(String, u64)) -> Result<Vec<String>> {
        let rows: Vec<Row> =
            self.conn.query(format!("SHOW BINLOG EVENTS IN '{file}' FROM {position}")).await?;
        let mut texts = Vec::new();
        for row in rows {
            let kind: String = row.get(2).context("a kind")?;
            let info: Vec<u8> = row.get(5).context("a text")?;
            if kind == "Query" {
                let info = String::from_utf8_lossy(&info).into_owned();
                let text = match info.strip_prefix("use `").and_then(|rest| rest.split_once("`; ")) {
                    Some((_, text)) => text.to_owned(),
                    None => info,
                };
                texts.push(text);
            }
        }
        Ok(texts)
    }

    async fn step(&mut self, structures: &mut TableStructures, statement: &str) -> Result<Step> {
        let begin = self.log_end().await?;
        let mut failed = false;
        if let Err(error) = self.conn.query_drop(statement).await {
            failed = true;
            match error {
                mysql_async::Error::Server(_) => {}
                error => {
                    eprintln!("{}: the server fails on {statement}: {error}", self.kind.name());
                    self.restart().await?;
                    return Ok(Step::Failed);
                }
            }
            if std::env::var_os("CDC_DDL_REFUSED").is_some() {
                eprintln!("refused: {statement}: {error}");
            }
        }
        let texts = self.logged(&begin).await?;
        if texts.is_empty() {
            return Ok(Step::Refused);
        }
        for text in texts {
            let generated = text.contains("/* ") || text.contains("/*G");
            let outcome = if failed && !generated {
                ddl::parse_failed(&text, &self.context, structures)
            } else {
                ddl::parse(&text, &self.context, structures)
            };
            match outcome {
                Outcome::Changes { changes, facts } => {
                    if let Err(error) = structures.apply(&changes) {
                        return Ok(Step::Different(format!("{text}\nis not applied: {error}")));
                    }
                    structures.learn(&facts);
                }
                Outcome::NoEffect { facts, .. } => structures.learn(&facts),
                Outcome::Transaction(_) => {}
                Outcome::Dml { .. } => return Ok(Step::Different(format!("{text}\nis taken for rows"))),
                Outcome::NotUnderstood { diagnostic, .. } => {
                    let known = KNOWN_REFUSALS.iter().any(|known| diagnostic.headline.contains(known));
                    if known && diagnostic.code == codes::DDL_UNSUPPORTED {
                        return Ok(Step::Unfollowed(diagnostic.headline.clone()));
                    }
                    return Ok(Step::Different(format!("{text}\nis not followed: {}", diagnostic.headline)));
                }
            }
        }
        match self.compare(structures).await {
            // Some tables that it has made it cannot open.
            Err(error) if matches!(error.downcast_ref(), Some(mysql_async::Error::Server(_))) => {
                Ok(Step::Unfollowed(format!("{UNSHOWN}: {error}")))
            }
            step => step,
        }
    }

    async fn compare(&mut self, structures: &TableStructures) -> Result<Step> {
        let json = serde_json::to_string(structures)?;
        if serde_json::from_str::<TableStructures>(&json)? != *structures {
            return Ok(Step::Different("a checkpoint does not hold the structures".to_owned()));
        }
        let tables: Vec<(String, String)> = self
            .conn
            .query(format!(
                "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{DATABASE}' ORDER BY 1"
            ))
            .await?;
        let mut difference = String::new();
        let of_kind = |sequence: bool| -> BTreeSet<String> {
            let wanted = |ty: &String| (ty == "SEQUENCE") == sequence;
            tables.iter().filter(|(_, ty)| wanted(ty)).map(|(name, _)| name.clone()).collect()
        };
        let there = of_kind(false);
        let followed: BTreeSet<String> = structures.tables().map(|t| t.id.table.to_string()).collect();
        if there != followed {
            let _ = writeln!(difference, "tables: followed {followed:?}, there are {there:?}");
        }
        let sequences = of_kind(true);
        for name in NAMES {
            if structures.is_sequence(&id(name)) != sequences.contains(*name) {
                let _ = writeln!(difference, "sequences: {name} is one of {sequences:?}?");
            }
        }
        let columns = self.columns().await?;
        for name in there.intersection(&followed) {
            let row: Row = self
                .conn
                .query_first(format!("SHOW CREATE TABLE `{DATABASE}`.`{name}`"))
                .await?
                .context("a table that is there")?;
            let text: String = row.get(1).context("a text")?;
            // It is written in the session's quotes, but never in another mode's types.
            let context = Context {
                sql_mode: SqlMode { ansi_quotes: self.context.sql_mode.ansi_quotes, ..SqlMode::default() },
                ..self.context.clone()
            };
            let mut known = TableStructures::new();
            if let Some(charset) = structures.database_charset(DATABASE) {
                known.set_database(DATABASE, charset);
            }
            let shown = match ddl::parse_definition(&text, &context, &known) {
                Ok(definition) => known.insert_definition(definition),
                Err(error) => {
                    let _ = writeln!(difference, "{text}\nis not read: {error}");
                    continue;
                }
            };
            let id = id(name);
            // Without strict mode any default goes with any type; what becomes of it is not followed that far.
            let strict = self.strict;
            let ours = show(structures, &id, strict);
            let theirs = show(&known, &id, strict);
            if ours != theirs {
                let _ = writeln!(difference, "{name}: {}\nshown as: {text}", differences(&ours, &theirs));
            }
            let versioned = tables.iter().any(|(t, ty)| t == name && ty == "SYSTEM VERSIONED");
            if versioned != structures.versioning(&id).is_some() {
                let _ = writeln!(difference, "{name}: system-versioned {versioned}");
            }
            let ours = structures.get(&id).map(|schema| summary(schema)).unwrap_or_default();
            let theirs = columns.get(name).map(|rows| rows.iter().map(|c| c.summary(&context)).collect());
            let theirs: Vec<String> = theirs.unwrap_or_default();
            if ours != theirs {
                let (ours, theirs) = (ours.join("\n"), theirs.join("\n"));
                let _ = writeln!(difference, "{name}: information_schema: {}", differences(&ours, &theirs));
            }
            drop(shown);
        }
        Ok(if difference.is_empty() { Step::Equal } else { Step::Different(difference) })
    }

    async fn columns(&mut self) -> Result<BTreeMap<String, Vec<ServerColumn>>> {
        let rows: Vec<Row> = self
            .conn
            .query(format!(
                "SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA \
                 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{DATABASE}' ORDER BY TABLE_NAME, ORDINAL_POSITION"
            ))
            .await?;
        let mut columns: BTreeMap<String, Vec<ServerColumn>> = BTreeMap::new();
        for row in rows {
            let text = |at: usize| -> String {
                let bytes: Option<Option<Vec<u8>>> = row.get(at);
                String::from_utf8_lossy(&bytes.flatten().unwrap_or_default()).into_owned()
            };
            columns.entry(text(0)).or_default().push(ServerColumn {
                name: text(1),
                ty: text(2),
                nullable: text(3) == "YES",
                charset: text(4),
                collation: text(5),
                extra: text(6).to_uppercase(),
            });
        }
        Ok(columns)
    }

    /// Runs a history; the first difference, if there is one.
    async fn run(&mut self, history: &History) -> Result<Option<String>> {
        let mut structures = self.begin(&history.create, &history.sql_mode).await?;
        for statement in &history.statements {
            match self.step(&mut structures, &statement.text()).await? {
                Step::Different(difference) => return Ok(Some(difference)),
                Step::Unfollowed(_) | Step::Failed => return Ok(None),
                Step::Refused | Step::Equal => {}
            }
        }
        Ok(None)
    }

    /// A smaller history that still ends in a difference.
    async fn shrink(&mut self, mut history: History) -> Result<(History, String)> {
        let mut difference = self.run(&history).await?.context("the difference does not come again")?;
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let mut smaller = false;
            for at in (0..history.statements.len()).rev() {
                let mut fewer = history.clone();
                fewer.statements.remove(at);
                let mut tries = vec![fewer];
                if history.statements[at].parts.len() > 1 {
                    for part in (0..history.statements[at].parts.len()).rev() {
                        let mut fewer = history.clone();
                        fewer.statements[at].parts.remove(part);
                        tries.push(fewer);
                    }
                }
                for fewer in tries {
                    if Instant::now() > until {
                        return Ok((history, difference));
                    }
                    if let Some(again) = self.run(&fewer).await? {
                        (history, difference) = (fewer, again);
                        smaller = true;
                        break;
                    }
                }
            }
            if !smaller {
                return Ok((history, difference));
            }
        }
    }
}

/// The session's settings.
async fn prepare(conn: &mut Conn, kind: ServerKind) -> Result<()> {
    conn.query_drop("SET SESSION lock_wait_timeout = 10").await?;
    if kind.is_mariadb() {
        conn.query_drop("SET SESSION system_versioning_alter_history = KEEP").await?;
    }
    Ok(())
}

fn id(table: &str) -> TableId {
    TableId::new(DATABASE, table)
}

/// A column as `information_schema` has it.
struct ServerColumn {
    name: String,
    ty: String,
    nullable: bool,
    charset: String,
    collation: String,
    extra: String,
}

impl ServerColumn {
    fn summary(&self, context: &Context<'_>) -> String {
        // The type's own words, read as a definition.
        let charset = match &*self.charset {
            "" if self.ty.starts_with("enum") || self.ty.starts_with("set") => {
                " CHARACTER SET binary".to_owned()
            }
            "" => String::new(),
            charset => format!(" CHARACTER SET {charset} COLLATE {}", self.collation),
        };
        let ty = self.ty.replace("/*M!100301 COMPRESSED*/", "");
        let text = format!("CREATE TABLE t (c {ty}{charset})");
        let ty = match ddl::parse_show_create(&text, context) {
            Ok(schema) => type_name(&schema.columns[0].ty),
            Err(error) => format!("{ty}: {error}"),
        };
        let generated = self.extra.contains("GENERATED") && !self.extra.contains("DEFAULT_GENERATED");
        line(&self.name, &ty, self.nullable, generated, self.extra.contains("INVISIBLE"))
    }
}

fn summary(schema: &TableSchema) -> Vec<String> {
    let column =
        |c: &Column| line(&c.name, &type_name(&c.ty), c.nullable, c.generated.is_some(), c.invisible);
    schema.columns.iter().map(column).collect()
}

fn line(name: &str, ty: &str, nullable: bool, generated: bool, invisible: bool) -> String {
    format!("{name} {ty} nullable={nullable} generated={generated} invisible={invisible}")
}

fn type_name(ty: &ColumnType) -> String {
    match ty.charset() {
        Some(charset) => format!("{ty} {}", charset.collation),
        None => ty.to_string(),
    }
}

/// All that is known of a table, an item on a line.
fn show(structures: &TableStructures, id: &TableId, with_defaults: bool) -> String {
    let mut text = String::new();
    let Some(schema) = structures.get(id) else { return text };
    for column in &schema.columns {
        let _ = writeln!(text, "{}", show_column(column, with_defaults));
    }
    let name = |&at: &usize| schema.columns.get(at).map_or("?", |c| &*c.name);
    let names = |key: &Vec<usize>| key.iter().map(name).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "primary key ({})", names(&schema.primary_key));
    let mut unique: Vec<String> = schema.unique_keys.iter().map(names).collect();
    unique.sort();
    for key in unique {
        let _ = writeln!(text, "unique ({key})");
    }
    let index = |index: &Index| {
        let part = index.parts.iter().map(|p| match (&p.column, p.prefix) {
            (None, _) => "expression".to_owned(),
            // That there is a prefix decides whether rows are told apart; how long the server makes one of its own
            // accord does not.
            (Some(column), Some(_)) if index.unique && !is_geometry(schema, column) => {
                format!("{column}(prefix)")
            }
            (Some(column), _) => column.to_string(),
        });
        let parts: Vec<String> = part.collect();
        format!("index {} unique={} ({})", index.name, index.unique, parts.join(", "))
    };
    let mut indexes: Vec<String> =
        structures.indexes(id).map(|all| all.iter().map(index).collect()).unwrap_or_default();
    indexes.sort();
    let _ = writeln!(text, "{}", indexes.join("\n"));
    let _ = writeln!(text, "charset {} comment {:?}", schema.charset.collation, schema.comment);
    let _ = writeln!(text, "versioning {:?}", structures.versioning(id));
    let _ = writeln!(text, "period {:?}", structures.period(id));
    let history = structures.history(id);
    let _ = writeln!(text, "partitions by system time: {}", history.is_some());
    text
}

fn is_time(ty: &ColumnType) -> bool {
    use ColumnType as T;
    matches!(ty, T::Date | T::Time { .. } | T::DateTime { .. } | T::Timestamp { .. } | T::Year)
}

/// MariaDB takes a prefix of one for a unique key, of its own accord.
fn is_geometry(schema: &TableSchema, column: &str) -> bool {
    let column = schema.columns.iter().find(|c| &*c.name == column);
    column.is_some_and(|c| matches!(c.ty, ColumnType::Geometry { .. }))
}

fn show_column(column: &Column, with_default: bool) -> String {
    // Expressions are printed by the server in words of its own.
    let default = match column.default.as_deref() {
        Some(text) if with_default && text.starts_with('(') => "an expression".to_owned(),
        // MariaDB prints a DEFAULT '' of its own for COMPRESSED NOT NULL.
        Some("''") if !column.nullable => String::new(),
        None if !column.nullable => String::new(),
        // Times are written in many ways; the server keeps one.
        other if with_default && !is_time(&column.ty) => format!("{other:?}"),
        other if with_default => other.is_some().to_string(),
        _ => String::new(),
    };
    let generated = column.generated.as_ref().map(|g| match &*g.expression {
        row @ ("ROW START" | "ROW END") => format!("{row} stored={}", g.stored),
        _ => format!("stored={}", g.stored),
    });
    let srid = match &column.ty {
        ColumnType::Geometry { srid, .. } => *srid,
        _ => None,
    };
    format!(
        "{} {} srid={srid:?} null={} default={default} auto={} generated={generated:?} invisible={} comment={:?}",
        column.name,
        type_name(&column.ty),
        column.nullable,
        column.auto_increment,
        column.invisible,
        column.comment,
    )
}

/// The lines that only one side has.
fn differences(ours: &str, theirs: &str) -> String {
    let only = |a: &str, b: &str, mark: &str| -> Vec<String> {
        let other: BTreeSet<&str> = b.lines().collect();
        a.lines().filter(|line| !other.contains(line)).map(|line| format!("  {mark} {line}")).collect()
    };
    let mut lines = only(ours, theirs, "followed:");
    lines.extend(only(theirs, ours, "server:  "));
    if lines.is_empty() {
        return format!("another order\n{ours}\n{theirs}");
    }
    format!("\n{}", lines.join("\n"))
}

/// Statements on an empty database.
#[derive(Debug, Clone)]
struct History {
    create: String,
    sql_mode: String,
    statements: Vec<Statement>,
}

impl std::fmt::Display for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "SET sql_mode = '{}';\n{};", self.sql_mode, self.create)?;
        self.statements.iter().try_for_each(|statement| writeln!(f, "{};", statement.text()))
    }
}

/// What tables and sequences are called. Plain: of a name that is encoded for its file MariaDB leaves the old table after
/// an ALTER TABLE that copies and has RENAME TO (10.11.19 and 11.8.9).
const NAMES: &[&str] = &["t", "u", "v", "Ab", "s", "q"];
const COLUMNS: &[&str] = &["a", "b", "c", "d", "e", "A", "`x y`", "ü", "row_start", "f"];

/// Makes statements at random.
struct Dice<'d> {
    rng: &'d mut StdRng,
    kind: ServerKind,
}

impl Dice<'_> {
    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n.max(1))
    }

    fn pick<'p>(&mut self, from: &[&'p str]) -> &'p str {
        from[self.below(from.len())]
    }

    fn mariadb(&self) -> bool {
        self.kind.is_mariadb()
    }

    fn quoted(name: &str) -> String {
        format!("`{}`", name.replace('`', "``"))
    }

    fn table(&mut self) -> String {
        let name = self.pick(NAMES);
        if self.one_in(9) { format!("{DATABASE}.{}", Self::quoted(name)) } else { Self::quoted(name) }
    }

    /// A table that is there, mostly.
    fn known_table(&mut self, structures: &TableStructures) -> (String, Option<TableSchema>) {
        let tables: Vec<_> = structures.tables().collect();
        if tables.is_empty() || self.one_in(20) {
            return (self.table(), None);
        }
        let table = tables[self.below(tables.len())];
        (Self::quoted(&table.id.table), Some((**table).clone()))
    }

    /// A column that is there, mostly.
    fn column(&mut self, schema: Option<&TableSchema>) -> String {
        match schema {
            Some(schema) if !self.one_in(8) => {
                let name = schema.columns[self.below(schema.columns.len())].name.to_string();
                if self.one_in(12) { Self::quoted(&name.to_uppercase()) } else { Self::quoted(&name) }
            }
            _ => self.pick(COLUMNS).to_owned(),
        }
    }

    fn charset(&mut self) -> String {
        let sets =
            ["latin1", "utf8mb4", "utf8mb3", "ascii", "ucs2", "utf16", "gbk", "binary", "cp1251", "utf8"];
        let collations: &[&str] = if self.mariadb() {
            &[
                "latin1_bin",
                "utf8mb4_general_ci",
                "utf8mb4_bin",
                "utf8mb3_unicode_ci",
                "utf16_bin",
                "binary",
                "utf8_bin",
                "uca1400_ai_ci",
            ]
        } else {
            &[
                "latin1_bin",
                "utf8mb4_general_ci",
                "utf8mb4_bin",
                "utf8mb3_unicode_ci",
                "utf16_bin",
                "binary",
                "utf8_bin",
            ]
        };
        match self.below(4) {
            0 | 1 => format!("CHARACTER SET {}", self.pick(&sets)),
            2 => format!("COLLATE {}", self.pick(collations)),
            _ => {
                let set = self.pick(&["latin1", "utf8mb4", "utf16"]);
                format!("CHARSET {set} COLLATE {set}_bin")
            }
        }
    }

    fn type_words(&mut self) -> String {
        let n = self.below(7);
        let common: &[&str] = &[
            "INT",
            "INT UNSIGNED",
            "INT(5) ZEROFILL",
            "TINYINT",
            "TINYINT(1)",
            "SMALLINT",
            "MEDIUMINT UNSIGNED",
            "BIGINT",
            "BIGINT UNSIGNED",
            "BOOL",
            "DECIMAL",
            "DECIMAL(9)",
            "DECIMAL(20,6) UNSIGNED",
            "NUMERIC(5,5)",
            "FLOAT",
            "FLOAT(7,2)",
            "FLOAT(30)",
            "DOUBLE",
            "DOUBLE PRECISION",
            "REAL",
            "DOUBLE(9,3)",
            "BIT",
            "BIT(17)",
            "YEAR",
            "DATE",
            "BINARY",
            "BINARY(5)",
            "VARBINARY(20)",
            "TINYTEXT",
            "TEXT",
            "MEDIUMTEXT",
            "LONGTEXT",
            "TINYBLOB",
            "BLOB",
            "MEDIUMBLOB",
            "LONGBLOB",
            "JSON",
            "GEOMETRY",
            "POINT",
            "MULTIPOLYGON",
            "GEOMETRYCOLLECTION",
            "NATIONAL CHAR(3)",
            "NCHAR VARCHAR(5)",
            "NVARCHAR(7)",
            "LONG",
            "LONG VARBINARY",
            "CHAR BYTE",
            "CHARACTER VARYING(9)",
            "DEC(4,1)",
            "FIXED(6,2)",
            "INT8",
            "MIDDLEINT",
        ];
        let more: &[&str] = match self.kind {
            ServerKind::MySql => &["VECTOR(3)", "GEOMCOLLECTION", "INTEGER SIGNED"],
            ServerKind::MariaDb1011 => &["UUID", "INET4", "INET6", "CLOB", "INTEGER SIGNED"],
            _ => &["UUID", "INET4", "INET6", "VECTOR(3)", "NUMBER(5)"],
        };
        match self.below(12) {
            0..5 => self.pick(common).to_owned(),
            5 => self.pick(more).to_owned(),
            6 => format!("{}({n})", self.pick(&["DATETIME", "TIMESTAMP", "TIME"])),
            7 => format!(
                "TEXT({})",
                self.pick(&["1", "63", "64", "255", "256", "16384", "65535", "65536", "5000000"])
            ),
            8 => format!("BLOB({})", self.pick(&["1", "255", "256", "65536"])),
            9 => self.pick(&["ENUM('a','b ','c''d')", "SET('x','y')", "ENUM('e','%')"]).to_owned(),
            10 => format!("CHAR({})", 1 + self.below(40)),
            _ => {
                format!("VARCHAR({})", self.pick(&["1", "10", "50", "255", "256", "1000", "16000", "30000"]))
            }
        }
    }

    /// Type and attributes.
    fn definition(&mut self, schema: Option<&TableSchema>) -> String {
        if self.one_in(25) {
            return "SERIAL".to_owned();
        }
        if self.one_in(25) && self.mariadb() {
            return self
                .pick(&[
                    "TIMESTAMP(6) GENERATED ALWAYS AS ROW START",
                    "TIMESTAMP(6) GENERATED ALWAYS AS ROW END",
                    "TIMESTAMP(6) AS ROW START INVISIBLE",
                ])
                .to_owned();
        }
        let ty = self.type_words();
        let mut text = ty.clone();
        let takes_charset = ["CHAR", "TEXT", "ENUM", "SET"].iter().any(|word| ty.contains(word));
        if takes_charset && !ty.contains("BYTE") && self.one_in(3) {
            let words = if self.one_in(6) {
                self.pick(&["BINARY", "ASCII", "UNICODE", "ASCII BINARY"]).to_owned()
            } else {
                self.charset()
            };
            let _ = write!(text, " {words}");
        }
        if self.one_in(8) {
            let column = self.column(schema);
            let how = self.pick(&["", " VIRTUAL", " STORED"]);
            let expression = match self.below(3) {
                0 => format!("({column})"),
                1 => format!("(concat({column}, 'x'))"),
                _ => "(1 + 2)".to_owned(),
            };
            let words = self.pick(&["AS ", "GENERATED ALWAYS AS "]);
            let _ = write!(text, " {words}{expression}{how}");
            if self.one_in(4) {
                text.push_str(" COMMENT 'made'");
            }
            return text;
        }
        if self.one_in(3) {
            text.push_str(self.pick(&[" NULL", " NOT NULL", " NOT NULL"]));
        }
        // Of a geometry with a default that is none MariaDB makes an index, gives an error and logs nothing.
        let spatial = ["GEOM", "POINT", "POLYGON"].iter().any(|word| ty.contains(word));
        if self.one_in(3) && !spatial {
            let default = match &*ty {
                // Which member another letter means is for the collation to say.
                t if t.starts_with("ENUM") => self.pick(&["NULL", "'a'", "'A'", "1", "'b'"]).to_owned(),
                t if t.contains("TIME") && self.one_in(2) => {
                    let digits: String = t.chars().filter(char::is_ascii_digit).collect();
                    let now = if digits.is_empty() { "NOW()".to_owned() } else { format!("NOW({digits})") };
                    if self.one_in(2) { format!("{now} ON UPDATE {now}") } else { now }
                }
                _ => self
                    .pick(&[
                        "NULL",
                        "0",
                        "1",
                        "'1'",
                        "-1",
                        "1.5",
                        "'a'",
                        "''",
                        "'2020-01-02'",
                        "0x41",
                        "b'1'",
                        "TRUE",
                        "(uuid())",
                        "(1 + 1)",
                        "'it''s'",
                        "'ä'",
                    ])
                    .to_owned(),
            };
            let _ = write!(text, " DEFAULT {default}");
        }
        if self.one_in(10) {
            text.push_str(self.pick(&[
                " UNIQUE",
                " PRIMARY KEY",
                " KEY",
                " UNIQUE KEY",
                " AUTO_INCREMENT PRIMARY KEY",
                " AUTO_INCREMENT UNIQUE",
            ]));
        }
        if self.one_in(10) {
            text.push_str(self.pick(&[
                " COMMENT 'c'",
                " INVISIBLE",
                " COMMENT 'it''s \\\\ ü'",
                " CHECK (1 > 0)",
            ]));
        }
        if self.mariadb() && self.one_in(15) {
            text.push_str(self.pick(&[
                " WITHOUT SYSTEM VERSIONING",
                " WITH SYSTEM VERSIONING",
                " COMPRESSED",
            ]));
        }
        text
    }

    fn key(&mut self, schema: Option<&TableSchema>, names: &[String]) -> String {
        let mut parts = Vec::new();
        for _ in 0..1 + self.below(3) {
            let column =
                if names.is_empty() { self.column(schema) } else { names[self.below(names.len())].clone() };
            let prefix = if self.one_in(4) { format!("({})", 1 + self.below(30)) } else { String::new() };
            parts.push(format!("{column}{prefix}{}", self.pick(&["", "", "", " DESC"])));
        }
        let parts = parts.join(", ");
        let name = self.pick(&["", "", " k", " l", " `a`"]);
        match self.below(8) {
            0 | 1 => format!("PRIMARY KEY ({parts})"),
            2..5 => format!("UNIQUE{name} ({parts})"),
            5 => format!("CONSTRAINT k UNIQUE ({parts})"),
            6 if !self.mariadb() => format!("UNIQUE KEY{name} ((1 + 1), {parts})"),
            _ => format!("{}{name} ({parts})", self.pick(&["KEY", "INDEX", "FULLTEXT"])),
        }
    }

    fn table_option(&mut self) -> String {
        match self.below(7) {
            0 | 1 => format!("DEFAULT {}", self.charset()),
            2 => "COMMENT = 'of ''all'' tables'".to_owned(),
            3 => "ENGINE=MyISAM".to_owned(),
            4 => "ROW_FORMAT=DYNAMIC".to_owned(),
            _ if self.mariadb() => "WITH SYSTEM VERSIONING".to_owned(),
            _ => "STATS_PERSISTENT=DEFAULT".to_owned(),
        }
    }

    fn history_partitions(&mut self) -> &'static str {
        self.pick(&[
            "PARTITION BY SYSTEM_TIME (PARTITION p0 HISTORY, PARTITION `pc` CURRENT)",
            "PARTITION BY SYSTEM_TIME LIMIT 100 PARTITIONS 3",
            "PARTITION BY SYSTEM_TIME INTERVAL 1 DAY AUTO",
            "PARTITION BY SYSTEM_TIME LIMIT 100 (PARTITION p0 HISTORY, PARTITION p1 HISTORY, PARTITION `c c` CURRENT)",
        ])
    }

    const ROW_TIMES: [&'static str; 3] = [
        "rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START",
        "re TIMESTAMP(6) GENERATED ALWAYS AS ROW END",
        "PERIOD FOR SYSTEM_TIME (rs, re)",
    ];

    fn create_table(&mut self) -> Statement {
        let table = self.table();
        let or = if self.mariadb() && self.one_in(4) { " OR REPLACE" } else { "" };
        let if_not = if or.is_empty() && self.one_in(8) { " IF NOT EXISTS" } else { "" };
        let mut names: Vec<String> = Vec::new();
        let mut parts = Vec::new();
        for name in COLUMNS.iter().take(2 + self.below(6)) {
            if self.one_in(7) {
                continue;
            }
            parts.push(format!("{name} {}", self.definition(None)));
            names.push((*name).to_owned());
        }
        let mut tail = ")".to_owned();
        if self.mariadb() && self.one_in(5) {
            names.extend(["rs".to_owned(), "re".to_owned()]);
            for part in Self::ROW_TIMES {
                let at = self.below(parts.len() + 1);
                let invisible = if part.starts_with('r') && self.one_in(4) { " INVISIBLE" } else { "" };
                parts.insert(at, format!("{part}{invisible}"));
            }
            tail.push_str(" WITH SYSTEM VERSIONING");
        }
        if self.mariadb() && self.one_in(7) {
            parts.push("pb DATE".to_owned());
            parts.push(format!("pe DATE{}", self.pick(&["", " NULL", " NOT NULL"])));
            parts.push("PERIOD FOR p (pb, pe)".to_owned());
        }
        for _ in 0..self.below(3) {
            parts.push(self.key(None, &names));
        }
        for _ in 0..self.below(3) {
            let _ = write!(tail, " {}", self.table_option());
        }
        if self.mariadb() && self.one_in(6) {
            let _ = write!(tail, " {}", self.history_partitions());
        }
        Statement { head: format!("CREATE{or} TABLE{if_not} {table} ("), parts, tail }
    }

    fn create_select(&mut self, structures: &TableStructures) -> Statement {
        let (from, _) = self.known_table(structures);
        let or = if self.mariadb() && self.one_in(3) { " OR REPLACE" } else { "" };
        let columns = self.pick(&["*", "1 AS a, 'x' AS b", "1.5 AS a, now(3) AS b, NULL AS c"]);
        let option = self.table_option();
        let option = if self.one_in(3) { option.as_str() } else { "" };
        Statement::plain(format!("CREATE{or} TABLE {} {option} SELECT {columns} FROM {from}", self.table()))
    }

    fn place(&mut self, schema: Option<&TableSchema>) -> String {
        match self.below(4) {
            0 => " FIRST".to_owned(),
            1 => format!(" AFTER {}", self.column(schema)),
            _ => String::new(),
        }
    }

    fn action(&mut self, schema: Option<&TableSchema>) -> Vec<String> {
        let if_exists = if self.mariadb() && self.one_in(5) { " IF EXISTS" } else { "" };
        let if_not = if self.mariadb() && self.one_in(5) { " IF NOT EXISTS" } else { "" };
        let column = self.column(schema);
        let new = self.pick(COLUMNS);
        let plain = |text: String| vec![text];
        match self.below(24) {
            0..4 => {
                plain(format!("ADD COLUMN{if_not} {new} {}{}", self.definition(schema), self.place(schema)))
            }
            4 => plain(format!("ADD ({new} {}, {} INT)", self.definition(schema), self.pick(COLUMNS))),
            5 | 6 => plain(format!("DROP COLUMN{if_exists} {column}")),
            7..10 => {
                plain(format!("MODIFY{if_exists} {column} {}{}", self.definition(schema), self.place(schema)))
            }
            10 | 11 => plain(format!(
                "CHANGE{if_exists} {column} {new} {}{}",
                self.definition(schema),
                self.place(schema)
            )),
            12 => plain(format!("RENAME COLUMN {column} TO {new}")),
            13 => {
                let default = self.pick(&[
                    "SET DEFAULT 5",
                    "SET DEFAULT 'x'",
                    "DROP DEFAULT",
                    "SET DEFAULT NULL",
                    "SET DEFAULT '2021-01-01'",
                ]);
                plain(format!("ALTER COLUMN {column} {default}"))
            }
            14 => plain(format!("ALTER COLUMN {column} {}", self.pick(&["SET VISIBLE", "SET INVISIBLE"]))),
            15 | 16 => plain(format!("ADD {}", self.key(schema, &[]))),
            17 => plain(format!(
                "DROP {} {}",
                self.pick(&["KEY", "INDEX"]),
                self.pick(&["k", "l", "a", "b", "c", "`PRIMARY`"])
            )),
            18 => plain("DROP PRIMARY KEY".to_owned()),
            19 => {
                let charset = self.charset();
                let charset = charset.split(" COLLATE ").next().unwrap_or("").to_owned();
                plain(if charset.starts_with("COLLATE") {
                    format!("DEFAULT {charset}")
                } else {
                    format!("CONVERT TO {charset}")
                })
            }
            20 => plain(self.table_option()),
            21 => plain(format!(
                "RENAME KEY {} TO {}",
                self.pick(&["k", "l", "a"]),
                self.pick(&["k", "l", "m"])
            )),
            22 if self.mariadb() => match self.below(6) {
                0 => plain("ADD SYSTEM VERSIONING".to_owned()),
                1 => plain("DROP SYSTEM VERSIONING".to_owned()),
                2 => vec![
                    "DROP SYSTEM VERSIONING".to_owned(),
                    "DROP COLUMN rs".to_owned(),
                    "DROP COLUMN re".to_owned(),
                ],
                3 => vec!["DROP COLUMN rs".to_owned(), "DROP COLUMN re".to_owned()],
                4 => {
                    let mut parts: Vec<String> = Vec::new();
                    for part in Self::ROW_TIMES {
                        let place = if part.starts_with('P') { String::new() } else { self.place(schema) };
                        parts.push(format!("ADD {part}{place}"));
                    }
                    if self.one_in(2) {
                        parts.push("ADD SYSTEM VERSIONING".to_owned());
                    }
                    parts
                }
                _ => vec![
                    format!("ADD row_start TIMESTAMP(6) AS ROW START{}", self.place(schema)),
                    format!("ADD row_end TIMESTAMP(6) AS ROW END{}", self.place(schema)),
                    "ADD PERIOD FOR SYSTEM_TIME (row_start, row_end)".to_owned(),
                ],
            },
            23 if self.mariadb() => match self.below(3) {
                0 => plain("DROP PERIOD FOR p".to_owned()),
                1 => plain(format!("ADD PERIOD FOR p ({column}, {})", self.column(schema))),
                _ => plain(format!("RENAME COLUMN {} TO {new}", self.pick(&["rs", "re", "pb", "pe"]))),
            },
            _ => plain(format!("COMMENT '{new}'")),
        }
    }

    fn alter_table(&mut self, structures: &TableStructures) -> Statement {
        let (table, schema) = self.known_table(structures);
        let schema = schema.as_ref();
        let mut parts = Vec::new();
        for _ in 0..1 + self.below(3) {
            parts.extend(self.action(schema));
        }
        let mut tail = String::new();
        if self.one_in(12) {
            parts.push(format!("RENAME TO {}", self.table()));
        }
        if self.mariadb() && self.one_in(12) {
            let partitions = self.history_partitions();
            tail = format!(
                " {}",
                self.pick(&[partitions, "REMOVE PARTITIONING", "PARTITION BY KEY () PARTITIONS 2"])
            );
        }
        let words = if self.mariadb() { self.pick(&["", "", "", " IGNORE"]) } else { "" };
        Statement { head: format!("ALTER{words} TABLE {table} "), parts, tail }
    }

    fn partitions(&mut self, structures: &TableStructures) -> Statement {
        let (table, _) = self.known_table(structures);
        let action = self.pick(&[
            "DROP PARTITION p0",
            "TRUNCATE PARTITION p0",
            "TRUNCATE PARTITION ALL",
            "ADD PARTITION (PARTITION p2 HISTORY)",
            "REMOVE PARTITIONING",
            "REORGANIZE PARTITION p0 INTO (PARTITION p9 HISTORY)",
        ]);
        Statement::plain(format!("ALTER TABLE {table} {action}"))
    }

    fn sequence(&mut self) -> Statement {
        let name = self.table();
        Statement::plain(match self.below(10) {
            0..3 => format!("CREATE SEQUENCE {name} START WITH 5 CACHE 10"),
            3 => format!("CREATE OR REPLACE SEQUENCE {name}"),
            4 => format!("CREATE SEQUENCE IF NOT EXISTS {name}"),
            5 => format!("ALTER SEQUENCE {}{name} INCREMENT BY 3", self.pick(&["", "IF EXISTS "])),
            6 => format!("DROP SEQUENCE {name}"),
            7 => format!("DROP SEQUENCE IF EXISTS {name}, {}", self.table()),
            8 => format!("ALTER TABLE {name} SEQUENCE={}", self.below(3).min(1)),
            _ => format!(
                "CREATE TABLE {name} (next_not_cached_value bigint(21) NOT NULL, minimum_value bigint(21) NOT NULL, \
                 maximum_value bigint(21) NOT NULL, start_value bigint(21) NOT NULL, increment bigint(21) NOT NULL, \
                 cache_size bigint(21) unsigned NOT NULL, cycle_option tinyint(1) unsigned NOT NULL, \
                 cycle_count bigint(21) NOT NULL) SEQUENCE=1"
            ),
        })
    }

    fn statement(&mut self, structures: &TableStructures) -> Statement {
        let few = structures.tables().count() < 2;
        match self.below(if few { 9 } else { 40 }) {
            0..5 => self.create_table(),
            5 if self.mariadb() => self.sequence(),
            6 => self.create_select(structures),
            7 => Statement::plain(format!(
                "CREATE TABLE {} LIKE {}",
                self.table(),
                self.known_table(structures).0
            )),
            8 | 9 => {
                let mut parts = Vec::new();
                for _ in 0..1 + self.below(3) {
                    let from = if self.one_in(2) { self.table() } else { self.known_table(structures).0 };
                    parts.push(format!("{from} TO {}", self.table()));
                }
                Statement { head: "RENAME TABLE ".to_owned(), parts, tail: String::new() }
            }
            10 => {
                let if_exists = self.pick(&["", "IF EXISTS "]);
                let parts = (0..1 + self.below(2)).map(|_| self.table()).collect();
                Statement { head: format!("DROP TABLE {if_exists}"), parts, tail: String::new() }
            }
            11 => Statement::plain(format!("TRUNCATE TABLE {}", self.known_table(structures).0)),
            12 => {
                let (table, schema) = self.known_table(structures);
                let unique = self.pick(&["", "UNIQUE "]);
                let name = self.pick(&["k", "l", "m"]);
                let column = self.column(schema.as_ref());
                Statement::plain(format!("CREATE {unique}INDEX {name} ON {table} ({column})"))
            }
            13 => {
                let name = self.pick(&["k", "l", "m", "a", "b"]);
                Statement::plain(format!("DROP INDEX {name} ON {}", self.known_table(structures).0))
            }
            14 => Statement::plain(format!("ALTER DATABASE {DATABASE} {}", self.charset())),
            15 if self.mariadb() => self.partitions(structures),
            16 if self.mariadb() => self.sequence(),
            _ => self.alter_table(structures),
        }
    }
}

async fn check(kind: ServerKind) -> Result<()> {
    let (first, only) = match std::env::var("CDC_SEED").as_deref() {
        Ok("random") => (rand::rng().random_range(0..1u64 << 40), false),
        Ok(seed) => (seed.parse()?, true),
        Err(_) => (1, false),
    };
    let seconds: u64 = std::env::var("CDC_DDL_SECONDS").map_or(Ok(20), |text| text.parse())?;
    let mut source = Source::start(kind).await?;
    let begin = Instant::now();
    let (mut equal, mut refused, mut histories, mut failed) = (0u32, 0u32, 0u32, 0u32);
    let mut unfollowed: BTreeMap<String, u32> = BTreeMap::new();
    for seed in first.. {
        let enough = if only { seed > first } else { begin.elapsed() > Duration::from_secs(seconds) };
        if enough {
            break;
        }
        histories += 1;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut dice = Dice { rng: &mut rng, kind };
        let create = match dice.below(4) {
            0 => format!(
                "CREATE DATABASE {DATABASE} {}",
                dice.charset().replace("COLLATE uca1400_ai_ci", "CHARSET latin2")
            ),
            _ => format!("CREATE DATABASE {DATABASE}"),
        };
        let sql_mode = match dice.below(6) {
            0 => String::new(),
            1 => "REAL_AS_FLOAT".to_owned(),
            _ => source.sql_mode.clone(),
        };
        let mut history = History { create, sql_mode, statements: Vec::new() };
        let mut structures = source.begin(&history.create, &history.sql_mode).await?;
        for _ in 0..LENGTH {
            let statement = Dice { rng: &mut rng, kind }.statement(&structures);
            let text = statement.text();
            history.statements.push(statement);
            match source.step(&mut structures, &text).await? {
                Step::Refused => {
                    history.statements.pop();
                    refused += 1;
                }
                Step::Equal => equal += 1,
                Step::Failed => {
                    failed += 1;
                    ensure!(failed < 20, "the server fails too often: CDC_SEED={seed}\n{history}");
                    break;
                }
                Step::Unfollowed(headline) => {
                    let known = KNOWN_REFUSALS.iter().find(|known| headline.contains(**known));
                    *unfollowed.entry((*known.unwrap_or(&"")).to_owned()).or_default() += 1;
                    break;
                }
                Step::Different(difference) => {
                    let whole = history.clone();
                    let small = source.shrink(history).await;
                    let (small, difference) = small.unwrap_or_else(|error| {
                        (whole, format!("{difference}\nnot made smaller: {error:#}"))
                    });
                    bail!("{}: CDC_SEED={seed}\n{small}\n{difference}", kind.name());
                }
            }
        }
    }
    eprintln!(
        "{}: {histories} histories from CDC_SEED={first} on, {equal} statements followed, {refused} refused by the server, which failed {failed} \
         times; not followed: {unfollowed:?}",
        kind.name()
    );
    Ok(())
}

#[tokio::test]
async fn mysql_says_the_same() -> Result<()> {
    check(ServerKind::MySql).await
}

#[tokio::test]
async fn mariadb_10_11_says_the_same() -> Result<()> {
    check(ServerKind::MariaDb1011).await
}

#[tokio::test]
async fn mariadb_11_8_says_the_same() -> Result<()> {
    check(ServerKind::MariaDb118).await
}
