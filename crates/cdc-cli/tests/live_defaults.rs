//! Defaults and comments, which no row shows: what information_schema of each kind of target says of them behind a copy and
//! behind each change, by mode and by `include` and `exclude`, through restarts and crashes.

mod support;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use support::{Job, Run, Said, server};

/// A target that has defaults and comments.
#[derive(Clone, Copy)]
enum Target {
    Server(&'static Server),
    Postgres(&'static Postgres),
}

/// MySQL, MariaDB and PostgreSQL, whatever the source is.
fn targets() -> [Target; 3] {
    static MYSQL: OnceLock<Server> = OnceLock::new();
    static MARIADB: OnceLock<Server> = OnceLock::new();
    static POSTGRES: OnceLock<Postgres> = OnceLock::new();
    let server = |kind| Server::start(ServerOptions::of(kind)).expect("a target");
    [
        Target::Server(MYSQL.get_or_init(|| server(ServerKind::MySql))),
        Target::Server(MARIADB.get_or_init(|| server(ServerKind::MariaDb118))),
        Target::Postgres(
            POSTGRES.get_or_init(|| Postgres::start(PostgresOptions::default()).expect("a target")),
        ),
    ]
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Server(server) => server.kind().name(),
            Target::Postgres(_) => "postgres",
        }
    }

    fn is_mariadb(self) -> bool {
        matches!(self, Target::Server(server) if server.kind().is_mariadb())
    }
}

/// A database of the source that is copied into one of the same name.
struct Copied {
    target: Target,
    database: String,
    job: Job,
    /// What the first start said.
    first: Option<Said>,
}

impl Copied {
    fn start(target: Target, database: &str, options: &str, sql: &str) -> Result<Copied> {
        Copied::with(target, database, &format!("src.* => dw.* with {{ {options} }}"), sql)
    }

    fn with(target: Target, database: &str, flow: &str, sql: &str) -> Result<Copied> {
        let mut copied = Copied::not_yet(target, database, flow, sql)?;
        copied.first = Some(copied.job.catch_up(&[])?);
        Ok(copied)
    }

    /// The same in front of the first start.
    fn not_yet(target: Target, database: &str, flow: &str, sql: &str) -> Result<Copied> {
        let kind = if target.is_mariadb() { "mariadb" } else { target.name() };
        let database = format!("{database}_{kind}");
        server().sql(&format!("CREATE DATABASE {database}; USE {database}; {sql}"))?;
        let sink = match target {
            Target::Server(there) => {
                there.sql(&format!("CREATE DATABASE {database}; GRANT ALL ON {database}.* TO cdc@'%'"))?;
                format!(
                    "mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"{database}\", user = \"cdc\", \
                     password = \"${{CDC_LIVE_PASSWORD}}\" }}",
                    there.port()
                )
            }
            Target::Postgres(there) => {
                there.sql(&format!("CREATE SCHEMA {database}"))?;
                format!(
                    "postgres {{ url = \"postgres://127.0.0.1:{}/dw\", schema = \"{database}\", user = \"cdc\", \
                     password = \"${{CDC_LIVE_PASSWORD}}\" }}",
                    there.port()
                )
            }
        };
        let body = format!("sink dw = {sink}\n{flow}");
        let job = Job::with(server(), &format!("[\"{database}.*\"]"), "", "", &body);
        Ok(Copied { target, database, job, first: None })
    }

    fn source(&self, sql: &str) -> Result<String> {
        server().sql(&format!("USE {}; {sql}", self.database))
    }

    /// Lets this happen at the source, and takes it over.
    fn follow(&self, sql: &str) -> Result<Said> {
        self.source(sql)?;
        self.job.catch_up(&[])
    }

    fn there(&self, sql: &str) -> Result<String> {
        match self.target {
            Target::Server(there) => {
                Ok(there.sql(&format!("USE {}; {sql}", self.database))?.replace('\t', "|"))
            }
            Target::Postgres(there) => there.sql(&format!("SET search_path TO {}; {sql}", self.database)),
        }
    }

    /// Default and comment of each column of a target's table, as its information_schema has them: quotes, casts and what
    /// servers call the same thing by are taken away. `-`: none.
    fn columns(&self, table: &str) -> Result<BTreeMap<String, (String, String)>> {
        let listed = self.there(&match self.target {
            Target::Server(_) => format!(
                "SELECT COLUMN_NAME, IFNULL(COLUMN_DEFAULT, 'NULL'), COLUMN_COMMENT FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
            ),
            Target::Postgres(_) => format!(
                "SELECT column_name, coalesce(column_default, 'NULL'), coalesce(col_description('{table}'::regclass, \
                 ordinal_position), '') FROM information_schema.columns \
                 WHERE table_schema = '{}' AND table_name = '{table}'",
                self.database
            ),
        })?;
        let mut all = BTreeMap::new();
        for line in listed.lines() {
            let fields: Vec<&str> = line.splitn(3, '|').collect();
            let [name, default, comment] = fields[..] else {
                anyhow::bail!("a line that cannot be read: {line}")
            };
            all.insert(name.to_owned(), (plain(default), comment.to_owned()));
        }
        Ok(all)
    }

    /// The table's comment at the target.
    fn comment(&self, table: &str) -> Result<String> {
        let shown = self.there(&match self.target {
            Target::Server(_) => format!(
                "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
            ),
            Target::Postgres(_) => format!("SELECT coalesce(obj_description('{table}'::regclass), '')"),
        })?;
        Ok(shown.trim_end_matches('\n').to_owned())
    }

    /// These columns have this default and comment, and no other has either.
    fn has(&self, table: &str, wanted: &[(&str, &str, &str)]) -> Result<()> {
        let mut found = self.columns(table)?;
        found.retain(|_, (default, comment)| default != "-" || !comment.is_empty());
        let wanted = wanted
            .iter()
            .map(|(name, default, comment)| {
                ((*name).to_owned(), ((*default).to_owned(), (*comment).to_owned()))
            })
            .collect();
        ensure!(found == wanted, "{} {table}: {found:#?}\nwanted {wanted:#?}", self.target.name());
        Ok(())
    }
}

/// A default as information_schema prints it, without its ways of printing.
fn plain(default: &str) -> String {
    let text = default.split("::").next().unwrap_or_default();
    let now = default.to_lowercase();
    if now.contains("statement_timestamp") || now.starts_with("current_timestamp") || now.starts_with("now(")
    {
        return "now".to_owned();
    }
    if text == "NULL" {
        return "-".to_owned();
    }
    let text = text.strip_prefix("_utf8mb4").unwrap_or(text).replace("\\'", "'");
    let text = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).unwrap_or(&text);
    text.replace("''", "'")
}

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY COMMENT 'the key', a INT NOT NULL DEFAULT 7 COMMENT 'how ''many'' \\\\ of them',
      b VARCHAR(20) DEFAULT 'it''s', c DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), d VARCHAR(40) DEFAULT (UPPER('x')),
      m DECIMAL(8,2) DEFAULT 1.5, n INT) COMMENT 'a table, \"quoted\"';
    INSERT INTO t (id, n) VALUES (1, 1), (2, NULL)";

#[test]
fn defaults_and_comments_follow_into_every_target_that_has_them() -> Result<()> {
    for target in targets() {
        let copied = Copied::start(target, "follows", "on_schema_change = evolve", TABLE)?;
        let many = "how 'many' \\ of them";
        // what the client prints of a backslash
        let printed =
            if matches!(target, Target::Postgres(_)) { many.to_owned() } else { many.replace('\\', "\\\\") };
        let many = printed.as_str();
        let key = ("id", "-", "the key");
        copied.has("t", &[key, ("a", "7", many), ("b", "it's", ""), ("c", "now", ""), ("m", "1.50", "")])?;
        ensure!(copied.comment("t")? == "a table, \"quoted\"", "{}", copied.comment("t")?);

        let said = copied.follow(
            "ALTER TABLE t ALTER COLUMN a SET DEFAULT 8, ALTER COLUMN b DROP DEFAULT; ALTER TABLE t COMMENT 'another; one';
             ALTER TABLE t MODIFY n INT COMMENT 'noted', ALTER COLUMN m SET DEFAULT 2",
        )?;
        for words in
            ["alter_column_default a, alter_column_default b", "dw.t: alter_comment;", "alter_comment n"]
        {
            ensure!(said.err.contains(words), "{words} in\n{}", said.err);
        }
        copied
            .has("t", &[key, ("a", "8", many), ("c", "now", ""), ("m", "2.00", ""), ("n", "-", "noted")])?;
        ensure!(copied.comment("t")? == "another; one");

        // with the type, under another name, with a new column, and in one statement
        copied.follow(
            "ALTER TABLE t ADD COLUMN e INT NOT NULL DEFAULT 5 COMMENT 'five', ADD COLUMN f INT NOT NULL, ADD COLUMN g DATE DEFAULT '2026-01-02';
             ALTER TABLE t MODIFY a BIGINT NOT NULL DEFAULT 8 COMMENT 'wider', MODIFY b VARCHAR(300) DEFAULT 'long';
             ALTER TABLE t RENAME COLUMN e TO e2, DROP COLUMN m, RENAME COLUMN n TO m;
             INSERT INTO t (id, f) VALUES (3, 0)",
        )?;
        let behind = [
            key,
            ("a", "8", "wider"),
            ("b", "long", ""),
            ("c", "now", ""),
            ("e2", "5", "five"),
            ("g", "2026-01-02", ""),
            ("m", "-", "noted"),
        ];
        copied.has("t", &behind)?;
        ensure!(copied.there("SELECT a, e2, f FROM t ORDER BY id")? == "7|5|0\n7|5|0\n8|5|0\n");

        // what means another thing there is none, and that is told
        let said = copied.follow(
            "ALTER TABLE t ALTER COLUMN b SET DEFAULT (LOWER('X')); ALTER TABLE t MODIFY a BIGINT NOT NULL DEFAULT 8; ALTER TABLE t COMMENT ''",
        )?;
        for words in ["column \"b\" of the target has no default: DEFAULT (", "is not a constant"] {
            ensure!(said.err.to_lowercase().contains(&words.to_lowercase()), "{words} in\n{}", said.err);
        }
        let mut behind = behind.to_vec();
        (behind[1], behind[2]) = (("a", "8", ""), ("b", "-", ""));
        behind.remove(2);
        copied.has("t", &behind)?;
        ensure!(copied.comment("t")?.is_empty());

        // somebody else's row reads them
        copied.there("INSERT INTO t (id, f) VALUES (99, 1)")?;
        ensure!(
            copied
                .there("SELECT a, e2, g, c IS NOT NULL FROM t WHERE id = 99")?
                .starts_with("8|5|2026-01-02|")
        );
        copied.there("DELETE FROM t WHERE id = 99")?;
        ensure!(copied.job.verify()? == 3);
    }
    Ok(())
}

/// The tables of the first start too: what they are made without is told, once, and nothing of a table that was there.
#[test]
fn what_the_first_tables_are_made_without_is_told_once() -> Result<()> {
    for target in targets() {
        let copied = Copied::not_yet(
            target,
            "firsts",
            "src.* => dw.*",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 3, b VARCHAR(9) DEFAULT (UPPER('x')), c VARCHAR(9) DEFAULT (UPPER('y')));
             CREATE TABLE plain (id INT PRIMARY KEY, a INT DEFAULT 3 COMMENT 'three');
             CREATE TABLE theirs (id INT PRIMARY KEY, b VARCHAR(9) DEFAULT (UPPER('x')))",
        )?;
        copied.there("CREATE TABLE theirs (id INT PRIMARY KEY, b VARCHAR(9))")?;
        let said = copied.job.catch_up(&[])?;
        let lines: Vec<&str> = said.err.lines().filter(|l| l.contains("has no default")).collect();
        let [line] = lines[..] else { anyhow::bail!("{}", said.text()) };
        let told = line.starts_with("dw.t: create_table; column \"b\" of the target has no default: ");
        ensure!(told && line.contains("; column \"c\" of the target has no default: "), "{line}");
        copied.has("t", &[("a", "3", "")])?;
        let again = copied.follow("INSERT INTO t (id) VALUES (1)")?;
        ensure!(!again.err.contains("has no default"), "{}", again.text());
    }
    // several tables in one have none at all, as the page says
    let flow = "src.* |> extend meta.table as shard => dw.one key (shard, id)";
    let sql = "CREATE TABLE a (id INT PRIMARY KEY, b VARCHAR(9) DEFAULT (UPPER('x'))); CREATE TABLE b LIKE a";
    let copied = Copied::with(targets()[0], "first_of_two", flow, sql)?;
    let said = copied.first.map_or_else(String::new, |said| said.text());
    ensure!(!said.contains("has no default"), "{said}");
    Ok(())
}

#[test]
fn a_table_that_comes_has_its_defaults_and_comments() -> Result<()> {
    for target in targets() {
        let copied = Copied::start(
            target,
            "comes",
            "on_schema_change = evolve",
            "CREATE TABLE t (id INT PRIMARY KEY)",
        )?;
        let said = copied.follow(
            "CREATE TABLE u (id INT PRIMARY KEY, a INT DEFAULT 3 COMMENT 'three', b VARCHAR(9) DEFAULT (UPPER('x'))) COMMENT 'u';
             INSERT INTO u (id) VALUES (1); CREATE TABLE v LIKE u; CREATE TABLE w (d INT NOT NULL DEFAULT 4)",
        )?;
        ensure!(said.err.contains("column \"b\" of the target has no default"), "{}", said.err);
        for table in ["u", "v"] {
            copied.has(table, &[("a", "3", "three")])?;
        }
        let row_number = copied.columns("w")?.remove("_cdc_row");
        ensure!(row_number.is_none_or(|(default, comment)| default == "-" && comment.is_empty()));
        copied.has("w", &[("d", "4", "")])?;
        ensure!(copied.comment("u")? == "u");
        // another key takes its columns' default and comment along
        copied.follow("ALTER TABLE u DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)")?;
        copied.has("u", &[("a", "3", "three")])?;
        copied.follow("ALTER TABLE u DROP PRIMARY KEY, ADD PRIMARY KEY (id)")?;
        copied.has("u", &[("a", "3", "three")])?;
    }
    Ok(())
}

#[test]
fn modes_and_kinds_say_what_follows() -> Result<()> {
    let changes = "ALTER TABLE t ALTER COLUMN a SET DEFAULT 8; ALTER TABLE t MODIFY n INT COMMENT 'noted'; ALTER TABLE t COMMENT 'another';
                   ALTER TABLE t ADD COLUMN e INT NOT NULL DEFAULT 5 COMMENT 'five'";
    let table = "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7 COMMENT 'many', n INT) COMMENT 'one'; INSERT INTO t VALUES (1, 1, 1)";
    for target in targets() {
        let begin = |name: &str, options: &str| Copied::start(target, name, options, table);
        let ignore = begin("ignores", "on_schema_change = ignore")?;
        ignore.follow(changes)?;
        ignore.has("t", &[("a", "-", "many")])?;
        ensure!(ignore.comment("t")? == "one");

        let defaults = begin("comments", "on_schema_change = evolve, exclude = [alter_column_default]")?;
        defaults.follow(changes)?;
        defaults.has("t", &[("a", "-", "many"), ("n", "-", "noted"), ("e", "-", "five")])?;
        // (the rows that are there read it all the same)
        ensure!(defaults.there("SELECT e FROM t")? == "5\n" && defaults.comment("t")? == "another");

        let comments =
            begin("defaults", "on_schema_change = evolve, include = [alter_column_default, add_column]")?;
        comments.follow(changes)?;
        comments.has("t", &[("a", "8", ""), ("e", "5", "")])?;
        ensure!(comments.comment("t")?.is_empty());

        for (n, (change, kind)) in [
            ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 8", "alter_column_default"),
            ("ALTER TABLE t MODIFY n INT COMMENT 'noted'", "alter_comment"),
            ("ALTER TABLE t COMMENT 'another'", "alter_comment"),
        ]
        .into_iter()
        .enumerate()
        {
            let stops = begin(&format!("stops{n}"), "on_schema_change = exception")?;
            stops.has("t", &[("a", "7", "many")])?;
            stops.source(change)?;
            let said = stops.job.fails(1308)?;
            ensure!(said.err.contains(kind), "{}", said.err);
        }
    }
    Ok(())
}

#[test]
fn a_column_that_is_not_fed_any_more_reads_null_in_new_rows() -> Result<()> {
    let table = "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7, b INT NOT NULL DEFAULT 8); INSERT INTO t VALUES (1, 1, 1)";
    for target in targets() {
        let lenient = Copied::start(target, "cut", "on_schema_change = lenient", table)?;
        lenient.follow("ALTER TABLE t DROP COLUMN a, RENAME COLUMN b TO b2; INSERT INTO t VALUES (2, 2)")?;
        ensure!(lenient.there("SELECT id, a, b, b2 FROM t WHERE a IS NULL AND b IS NULL")?.starts_with("2|"));
        lenient.has("t", &[("b2", "8", "")])?;
        // two tables in one: rows of one have nothing in the columns of the other
        let both = Copied::with(
            target,
            "both",
            "src./[tu]/ => dw.t with { on_schema_change = evolve, key_conflict = last }",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT DEFAULT 7); INSERT INTO t VALUES (1, 1)",
        )?;
        both.follow("INSERT INTO t VALUES (2, 2)")?;
        both.has("t", &[("a", "7", "")])?;
        both.follow("CREATE TABLE u (id INT PRIMARY KEY, k INT DEFAULT 3); INSERT INTO u VALUES (11, 3)")?;
        both.has("t", &[])?;
        ensure!(both.there("SELECT id FROM t WHERE a IS NULL")? == "11\n");
    }
    Ok(())
}

#[test]
fn sqlite_has_neither_and_the_change_is_no_error() -> Result<()> {
    server().sql(&format!("CREATE DATABASE lite; USE lite; {TABLE}"))?;
    let body = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.* with { on_schema_change = evolve }";
    let job = Job::with(server(), "[\"lite.*\"]", "", "", body);
    job.catch_up(&[])?;
    server().sql(
        "USE lite; ALTER TABLE t ALTER COLUMN a SET DEFAULT 8; ALTER TABLE t COMMENT 'another'; ALTER TABLE t MODIFY n INT COMMENT 'noted';
         INSERT INTO t (id) VALUES (3)",
    )?;
    let said = job.catch_up(&[])?;
    for words in [
        "column \"a\" of the target keeps its default: SQLite cannot alter it",
        "the target's table has no comment: SQLite has none",
        "column \"n\" of the target has no comment: SQLite has none",
    ] {
        ensure!(said.err.contains(words), "{words} in\n{}", said.err);
    }
    ensure!(job.rows("SELECT a FROM t ORDER BY id")? == ["7", "7", "8"] && job.verify()? == 3);
    Ok(())
}

#[test]
fn case_55_defaults_and_comments_through_crashes() -> Result<()> {
    for target in targets() {
        let copied = Copied::start(target, "crash", "on_schema_change = evolve", TABLE)?;
        copied.source(
            "ALTER TABLE t ADD COLUMN e INT NOT NULL COMMENT 'e', ALTER COLUMN a SET DEFAULT 9;
             ALTER TABLE t MODIFY a BIGINT NOT NULL DEFAULT 10 COMMENT 'ten', MODIFY n INT DEFAULT 3 COMMENT 'three', COMMENT 'all';
             INSERT INTO t (id, e) VALUES (3, 0)",
        )?;
        let mut kills = 0;
        for step in ["schema.apply", "schema.applied"] {
            for nth in [1, 2, 3, 4] {
                let mut command = copied.job.command("run", &["--until", "caught-up"]);
                command.env("FAILPOINTS", format!("{step}={}*off->return", nth - 1));
                let said = Run::start(&mut command)?.wait()?;
                ensure!(said.code.is_none() || said.code == Some(0), "{}", said.text());
                kills += usize::from(said.code.is_none());
            }
        }
        ensure!(kills >= 3, "{} kills", kills);
        copied.job.catch_up(&[])?;
        copied.has(
            "t",
            &[
                ("id", "-", "the key"),
                ("a", "10", "ten"),
                ("b", "it's", ""),
                ("c", "now", ""),
                ("e", "-", "e"),
                ("m", "1.50", ""),
                ("n", "3", "three"),
            ],
        )?;
        ensure!(copied.comment("t")? == "all" && copied.job.verify()? == 3);
        println!("{}: {kills} kills", target.name());
    }
    Ok(())
}
