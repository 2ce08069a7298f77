//! Modes that keep a target from following its source, and many tables in one: what the target has, and rows that are made to
//! fit it, through restarts, into SQLite, MySQL and PostgreSQL.

mod support;

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use support::{Job, server};

const MEMBERS: &str = "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(17), age INT);
                       INSERT INTO members VALUES (1001, 'Ann', 20), (1002, 'Bob', NULL)";

/// The statements of section F of the cases up to TRUNCATE, with rows between them.
const CHANGES: [&str; 5] = [
    "ALTER TABLE members ADD gender TINYINT AFTER age; INSERT INTO members VALUES (1012, 'Eve', 17, 0)",
    "ALTER TABLE members CHANGE age precise_age DOUBLE; UPDATE members SET name = 'Anna' WHERE id = 1001",
    "ALTER TABLE members RENAME COLUMN gender TO biological_sex",
    "ALTER TABLE members DROP biological_sex; INSERT INTO members VALUES (1013, 'Fiona', 16)",
    "UPDATE members SET name = 'Rob' WHERE id = 1002",
];

const SQLITE: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// A database at the source, and a pipeline that has copied it.
fn begin(server: &Server, database: &str, sql: &str, pipeline: &str, body: &str) -> Result<Job> {
    server.sql(&format!("CREATE DATABASE {database}; USE {database}; {sql}"))?;
    let job = Job::with(server, &format!("[\"{database}.*\"]"), pipeline, "", body);
    job.catch_up(&[])?;
    Ok(job)
}

/// Makes changes, each followed in a run of its own if `restarts`: the evolved schema has to be in the checkpoint.
fn follow(job: &Job, server: &Server, database: &str, changes: &[&str], restarts: bool) -> Result<String> {
    let mut said = String::new();
    for change in changes {
        server.sql(&format!("USE {database}; {change}"))?;
        if restarts {
            said.push_str(&job.catch_up(&["--workers", "2"])?.err);
        }
    }
    said.push_str(&job.catch_up(&[])?.err);
    Ok(said)
}

/// What verify says the mode leaves different.
fn left(job: &Job) -> Result<String> {
    let said = support::Run::start(&mut job.command("verify", &[]))?.wait()?;
    ensure!(said.code == Some(0), "{}", said.text());
    Ok(said.out)
}

fn ignore(database: &str, restarts: bool) -> Result<()> {
    let server = server();
    let job = begin(server, database, MEMBERS, "on_schema_change = ignore", SQLITE)?;
    follow(&job, server, database, &CHANGES, restarts)?;
    let rows = || job.rows("SELECT id, name, age FROM members ORDER BY id");
    // Anna's and Rob's ages are what they were when the column was last written
    let wanted = ["1001|Anna|20", "1002|Rob|NULL", "1012|Eve|17", "1013|Fiona|NULL"];
    ensure!(rows()? == wanted, "{:?}", rows()?);
    ensure!(job.rows("SELECT group_concat(name, ' ') FROM pragma_table_info('members')")? == ["id name age"]);
    ensure!(job.verify()? == 4);
    let left = left(&job)?;
    ensure!(left.contains("\"precise_age\" of") && left.contains("is not written"), "{left}");
    ensure!(left.contains("\"age\" of the target keeps what it has"), "{left}");
    server.sql(&format!("USE {database}; TRUNCATE members; INSERT INTO members VALUES (1014, 'Gem', 17)"))?;
    job.catch_up(&[])?;
    server
        .sql(&format!("DROP TABLE {database}.members; CREATE TABLE {database}.other (id INT PRIMARY KEY)"))?;
    job.catch_up(&[])?;
    let wanted = [&wanted[..], &["1014|Gem|NULL"]].concat();
    ensure!(rows()? == wanted, "{:?}", rows()?);
    Ok(())
}

#[test]
fn case_49_ignore_keeps_the_target_and_makes_rows_fit() -> Result<()> {
    ignore("ignore1", false)
}

#[test]
fn case_49_ignore_keeps_the_target_through_restarts() -> Result<()> {
    ignore("ignore2", true)
}

/// A value that does not fit is an error with its key, and nothing behind it is written.
#[test]
fn ignore_converts_without_loss_or_stops() -> Result<()> {
    let server = server();
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(5), d DATETIME(3));
               INSERT INTO t VALUES (1, 1, 'a', '2026-01-31 10:00:00.125')";
    let job = begin(server, "fits", sql, "on_schema_change = ignore", SQLITE)?;
    server.sql(
        "USE fits; ALTER TABLE t MODIFY n DECIMAL(12,2), MODIFY s VARCHAR(50), MODIFY d DATETIME(6);
         INSERT INTO t VALUES (2, -17.00, 'abcde', '2026-01-31 10:00:00.250000'), (3, NULL, NULL, NULL)",
    )?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT id, n, s FROM t ORDER BY id")? == ["1|1|a", "2|-17|abcde", "3|NULL|NULL"]);
    ensure!(job.verify()? == 3);
    server.sql("INSERT INTO fits.t VALUES (4, 1.5, 'x', NULL); UPDATE fits.t SET s = 'y' WHERE id = 1")?;
    let said = job.fails(2007)?;
    for word in ["table \"t\"", "column \"n\"", "1.50", "id = 4", "digits of its fraction"] {
        ensure!(said.text().contains(word), "{word} in\n{}", said.text());
    }
    ensure!(job.rows("SELECT s FROM t WHERE id = 1")? == ["a"], "something behind the row was written");
    // the user decides otherwise
    server.sql("UPDATE fits.t SET n = 2 WHERE id = 4")?;
    let file = std::fs::read_to_string(job.path("p.cdc"))?;
    ensure!(file.contains("on_schema_change = ignore"));
    Ok(())
}

/// The target refuses each change: what it had stays, rows are made to fit, and each refusal is told.
#[test]
fn case_49_try_evolve_passes_over_what_a_mysql_target_refuses() -> Result<()> {
    let server = server();
    let target = Server::start(ServerOptions::of_this_run())?;
    // everything but what changes a table
    target.sql("CREATE DATABASE dw; REVOKE ALL PRIVILEGES, GRANT OPTION FROM cdc@'%'; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX ON dw.* TO cdc@'%'")?;
    let body = format!(
        "sink dw = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*",
        target.port()
    );
    let job = begin(server, "refused", MEMBERS, "on_schema_change = try_evolve", &body)?;
    let said = follow(&job, server, "refused", &CHANGES, true)?;
    for word in ["refuses add_column gender", "refuses rename_column age", "passed over", "try_evolve"] {
        ensure!(said.contains(word), "{word} in\n{said}");
    }
    let rows = target.sql("SELECT id, name, age FROM dw.members ORDER BY id")?;
    ensure!(rows == "1001\tAnna\t20\n1002\tRob\tNULL\n1012\tEve\t17\n1013\tFiona\tNULL\n", "{rows}");
    ensure!(job.verify()? == 4);
    Ok(())
}

/// More rows in front of the statement than are held for being written again: they are committed first.
#[test]
fn a_refusal_behind_many_rows_is_passed_over_too() -> Result<()> {
    let server = server();
    let sql =
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, pad VARCHAR(2000)); INSERT INTO t VALUES (0, 0, 'x')";
    let job = begin(server, "many_rows", sql, "on_schema_change = try_evolve", SQLITE)?;
    rusqlite::Connection::open(job.path("target.db"))?.execute_batch("CREATE INDEX on_a ON t (a)")?;
    server.sql(&format!(
        "USE many_rows; {};
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 15000) SELECT n, n, REPEAT('x', 1000) FROM s;
         UPDATE t SET pad = REPEAT('y', 1500); UPDATE t SET pad = REPEAT('z', 1000);
         ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES (20000, 'behind')",
        server.kind().recursion(20_000)
    ))?;
    let said = job.catch_up(&[])?.err;
    ensure!(said.contains("refuses drop_column a"), "{said}");
    ensure!(job.verify()? == 15_002);
    ensure!(job.rows("SELECT COUNT(*), COUNT(a) FROM t")? == ["15002|15001"]);
    Ok(())
}

/// A view over a column keeps PostgreSQL from changing its type and from dropping it; the rest is followed.
#[test]
fn case_49_try_evolve_follows_what_a_postgres_target_does_not_refuse() -> Result<()> {
    let server = server();
    let target = Postgres::start(PostgresOptions::default())?;
    let body = format!(
        "sink dw = postgres {{ url = \"postgres://127.0.0.1:{}/dw\", user = \"cdc\", \
         password = \"${{CDC_LIVE_PASSWORD}}\" }}\nsrc.* => dw.*",
        target.port()
    );
    let job = begin(server, "viewed", MEMBERS, "on_schema_change = try_evolve", &body)?;
    target.sql("CREATE VIEW ages AS SELECT id, age FROM members")?;
    let said = follow(&job, server, "viewed", &CHANGES, true)?;
    ensure!(said.contains("refuses alter_column_type precise_age"), "{said}");
    ensure!(!said.contains("refuses add_column"), "{said}");
    let rows = target.sql("SELECT id, name, precise_age FROM members ORDER BY id")?;
    ensure!(rows == "1001|Anna|20\n1002|Rob|NULL\n1012|Eve|17\n1013|Fiona|16\n", "{rows}");
    ensure!(job.verify()? == 4);
    // half an age does not fit the column that the target kept
    server.sql("INSERT INTO viewed.members VALUES (1014, 'Gem', 17.5)")?;
    job.fails(2007)?;
    Ok(())
}

/// A target of each kind, and what writes to all of them.
fn three_targets() -> Result<(Server, Postgres, String)> {
    let postgres = Postgres::start(PostgresOptions::default())?;
    let mysql = Server::start(ServerOptions::of_this_run())?;
    mysql.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
    let body = format!(
        "sink dw = sqlite {{ path = \"target.db\" }}\n\
         sink my = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\n\
         sink pg = postgres {{ url = \"postgres://127.0.0.1:{}/dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\n\
         src.* => dw.*\nsrc.* => my.*\nsrc.* => pg.*",
        mysql.port(),
        postgres.port()
    );
    Ok((mysql, postgres, body))
}

/// A column whose name another one takes can keep neither its name nor, where the new values are of another kind, its type.
#[test]
fn case_51_lenient_columns_that_change_names_and_types_at_once() -> Result<()> {
    let server = server();
    let (mysql, postgres, body) = three_targets()?;
    let statements = [
        ("CHANGE d f VARBINARY(10), CHANGE f d VARCHAR(20)", "d"),
        ("RENAME COLUMN f TO d, CHANGE d e TIMESTAMP(3) NULL", "d"),
        ("RENAME COLUMN f TO d, CHANGE d e VARCHAR(20)", "d, e"),
        ("CHANGE d e BIGINT, CHANGE f d BIGINT", "d, e"),
        ("CHANGE d f DATETIME, CHANGE f d INT", "d"),
    ];
    let tables: Vec<String> = (0..statements.len())
        .map(|n| {
            format!(
                "CREATE TABLE t{n} (id INT PRIMARY KEY, f INT DEFAULT 5, d BIGINT DEFAULT 6); INSERT INTO t{n} VALUES (1, 2, 20200101), (2, NULL, NULL)"
            )
        })
        .collect();
    let job = begin(server, "crossed", &tables.join(";"), "on_schema_change = lenient", &body)?;
    for (n, (statement, columns)) in statements.iter().enumerate() {
        server.sql(&format!(
            "USE crossed; SET sql_mode = ''; ALTER TABLE t{n} {statement}; INSERT INTO t{n} (id) VALUES (3); INSERT INTO t{n} VALUES (4, NULL, NULL)"
        ))?;
        let said = job.catch_up(&[]).context(*statement)?;
        job.verify().with_context(|| format!("{statement}\n{}", said.text()))?;
        let wanted = server.sql(&format!("SELECT id, {columns} FROM crossed.t{n} ORDER BY id"))?;
        let there = mysql.sql(&format!("SELECT id, {columns} FROM dw.t{n} ORDER BY id"))?;
        ensure!(there == wanted, "{statement}: {there}\n{wanted}\n{}", said.text());
        let text = |column: &str| format!("coalesce({column}::text, 'NULL')");
        let texts = columns.split(", ").map(text).collect::<Vec<_>>().join(", ");
        let there = postgres.sql(&format!("SELECT id, {texts} FROM t{n} ORDER BY id"))?.replace('|', "\t");
        ensure!(there == wanted, "{statement}: {there}\n{wanted}\n{}", said.text());
    }
    Ok(())
}

/// A statement that changes rows unseen has the table copied again, and what a kept column held goes with its rows: the run says so.
#[test]
fn case_51_lenient_says_what_goes_when_a_table_is_copied_again() -> Result<()> {
    let server = server();
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, a INT, d VARCHAR(9)); INSERT INTO t VALUES (1, 1, 'keep'), (2, 2, 'me')";
    let job = begin(server, "copied_again", sql, "on_schema_change = lenient", SQLITE)?;
    let said = follow(&job, server, "copied_again", &["ALTER TABLE t DROP COLUMN d"], false)?;
    ensure!(said.contains("\"d\" of the target keeps what it has until its rows are copied again"), "{said}");
    ensure!(job.rows("SELECT d FROM t ORDER BY id")? == ["keep", "me"]);
    let said = follow(&job, server, "copied_again", &["ALTER TABLE t MODIFY a TINYINT"], false)?;
    ensure!(
        said.contains("column \"d\" of the target loses what it had: its rows are copied again"),
        "{said}"
    );
    ensure!(job.rows("SELECT id, a, d FROM t ORDER BY id")? == ["1|1|NULL", "2|2|NULL"]);
    let left = left(&job)?;
    ensure!(left.contains("keeps what it has until its rows are copied again"), "{left}");
    Ok(())
}

/// A table that is dropped and made anew with other types: lenient keeps its rows, so a column whose values are of another kind gets one
/// of its own, the same one each time; and what takes over from a column takes what its rows of before hold.
#[test]
fn case_51_lenient_a_table_that_is_made_anew_with_other_types() -> Result<()> {
    let server = server();
    let (mysql, postgres, body) = three_targets()?;
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(60) DEFAULT 'x', b TIMESTAMP(3) NULL, c VARBINARY(9), n BIGINT);
        INSERT INTO t VALUES (66, 'b', '2026-01-31 10:00:00', 'bytes', 1000000000000)";
    let job = begin(server, "made_anew", sql, "on_schema_change = lenient", &body)?;
    let anew = "DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(12,3) DEFAULT 7, b DOUBLE, c SET('x', 'y'), n TINYINT);
        INSERT INTO t VALUES (1, 5, 1.5, 'x,y', 3)";
    let mut said = String::new();
    for _ in 0..2 {
        said = follow(&job, server, "made_anew", &[anew], true)?;
    }
    ensure!(said.contains("column \"a\" of the target keeps what it has"), "{said}");
    let listed = "SELECT group_concat(name, ' ') FROM pragma_table_info('t')";
    ensure!(job.rows(listed)? == ["id a b c n a_2 b_2 c_2"], "{:?}", job.rows(listed)?);
    let changes = [
        "ALTER TABLE t RENAME COLUMN a TO e, RENAME COLUMN n TO m, RENAME COLUMN b TO g",
        "INSERT INTO t VALUES (2, 6, 2.5, 'y', 4)",
        "ALTER TABLE t MODIFY m SMALLINT, MODIFY e DECIMAL(14,3) DEFAULT 7",
        "UPDATE t SET e = 99999999999.5, m = 300 WHERE id = 2",
    ];
    follow(&job, server, "made_anew", &changes, true)?;
    // (the number of SQLite is a text as the server prints it)
    let rows = job.rows("SELECT id, a, n, a_2, e, g, c_2, m FROM t ORDER BY id")?;
    let wanted = [
        "1|NULL|3|5.000|5.000|1.5|x,y|3",
        "2|NULL|NULL|NULL|99999999999.500|2.5|y|300",
        "66|b|1000000000000|NULL|NULL|NULL|NULL|1000000000000",
    ];
    ensure!(rows == wanted, "{rows:?}");
    let there = mysql.sql("SELECT id, a, n, a_2, e, g, c_2, m FROM dw.t ORDER BY id")?;
    ensure!(there.replace('\t', "|").lines().eq(wanted), "{there}");
    let there = postgres.sql("SELECT id, coalesce(a, 'NULL'), coalesce(n::text, 'NULL'), coalesce(a_2::text, 'NULL'), coalesce(e::text, 'NULL'), coalesce(g::text, 'NULL'), coalesce(c_2::text, 'NULL'), m FROM t ORDER BY id")?;
    ensure!(there.replace("{x,y}", "x,y").replace("{y}", "y").lines().eq(wanted), "{there}");
    // what others insert reads the defaults of what is written now
    mysql.sql("INSERT INTO dw.t (id) VALUES (9)")?;
    let there = mysql.sql("SELECT a, a_2, e FROM dw.t WHERE id = 9")?;
    ensure!(there == "NULL\tNULL\t7.000\n", "{there}");
    Ok(())
}

/// A column that lenient has kept gives way to another one of its name, in a later statement.
#[test]
fn a_name_that_comes_back_holds_the_new_columns_values() -> Result<()> {
    let server = server();
    let (mysql, postgres, body) = three_targets()?;
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT);
               INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)";
    let job = begin(server, "names_again", sql, "on_schema_change = lenient", &body)?;
    for change in [
        "ALTER TABLE t DROP a; UPDATE t SET b = 20 WHERE id = 2",
        "ALTER TABLE t ADD a VARCHAR(9) DEFAULT 'new'; UPDATE t SET a = 'set' WHERE id = 3",
        "ALTER TABLE t RENAME COLUMN b TO c; INSERT INTO t VALUES (4, 40, 'four')",
        "ALTER TABLE t ADD b DATE; UPDATE t SET b = '2026-01-31' WHERE id = 1",
    ] {
        server.sql(&format!("USE names_again; {change}"))?;
        job.catch_up(&[])?;
        job.verify().context(change)?;
    }
    job.compare(server, ("names_again", "t"), "t")?;
    let wanted = server.sql("SELECT id, a, b, c FROM names_again.t ORDER BY id")?;
    ensure!(mysql.sql("SELECT id, a, b, c FROM dw.t ORDER BY id")? == wanted);
    let postgres = postgres.sql("SELECT id, a, coalesce(b::text, 'NULL'), c FROM t ORDER BY id")?;
    ensure!(postgres.replace('|', "\t") == wanted, "{postgres}");
    Ok(())
}

/// Two tables in one: the columns of both, each of the common type, and rows of the one padded with NULL. What happens to
/// one of them touches rows of its own only.
#[test]
fn case_52_two_tables_in_one_widen_it_and_keep_to_their_own_rows() -> Result<()> {
    let server = server();
    let postgres = Postgres::start(PostgresOptions::default())?;
    let mysql = Server::start(ServerOptions::of_this_run())?;
    mysql.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
    let flow = |sink: &str| {
        format!(
            "src./t\\d/ |> extend meta.table as shard => {sink}.\"all\" key (shard, id) with {{ on_schema_change = evolve }}\n"
        )
    };
    let body = format!(
        "sink dw = sqlite {{ path = \"target.db\" }}\n\
         sink my = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\n\
         sink pg = postgres {{ url = \"postgres://127.0.0.1:{}/dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\n\
         {}{}{}",
        mysql.port(),
        postgres.port(),
        flow("dw"),
        flow("my"),
        flow("pg")
    );
    let sql = "CREATE TABLE t1 (id INT PRIMARY KEY, n TINYINT);
               CREATE TABLE t2 (id BIGINT PRIMARY KEY, description VARCHAR(20), n DECIMAL(10,5));
               INSERT INTO t1 VALUES (1, 127), (2, NULL);
               INSERT INTO t2 VALUES (1, 'one', 12345.12345), (9223372036854775807, NULL, -0.00001)";
    let job = begin(server, "shards", sql, "", &body)?;
    ensure!(job.verify()? == 12);
    let rows = |sql: &str| mysql.sql(&format!("SELECT {sql} FROM dw.`all` ORDER BY shard, id"));
    let found = rows("shard, id, description, n")?;
    ensure!(
        found
            == "t1\t1\tNULL\t127.00000\nt1\t2\tNULL\tNULL\nt2\t1\tone\t12345.12345\nt2\t9223372036854775807\tNULL\t-0.00001\n",
        "{found}"
    );
    for change in [
        // the target covers it already
        "ALTER TABLE t1 MODIFY n SMALLINT; UPDATE t1 SET n = 30000 WHERE id = 2",
        // wider than both
        "ALTER TABLE t1 MODIFY n DECIMAL(38,19); INSERT INTO t1 VALUES (3, 1234567890123456789.1234567890123456789)",
        // a new column of one: its rows read the default, the others nothing
        "ALTER TABLE t2 ADD flag INT NOT NULL DEFAULT 7; UPDATE t2 SET description = 'uno' WHERE id = 1",
        "ALTER TABLE t1 ADD flag BIGINT NOT NULL DEFAULT 8, ADD own VARCHAR(5) DEFAULT 'x'; DELETE FROM t1 WHERE id = 2",
        "ALTER TABLE t2 RENAME COLUMN description TO words; INSERT INTO t2 VALUES (5, 'five', 1, 2)",
        "ALTER TABLE t2 DROP flag; UPDATE t2 SET n = 2 WHERE id = 5",
        "TRUNCATE t2; INSERT INTO t2 VALUES (6, 'six', 6)",
    ] {
        server.sql(&format!("USE shards; {change}"))?;
        job.catch_up(&[])?;
        job.verify().context(change)?;
    }
    let found = rows("shard, id, words, n, flag, own")?;
    ensure!(
        found
            == "t1\t1\tNULL\t127.0000000000000000000\t8\tx\n\
                t1\t3\tNULL\t1234567890123456789.1234567890123456789\t8\tx\n\
                t2\t6\tsix\t6.0000000000000000000\tNULL\tNULL\n",
        "{found}"
    );
    let pg = postgres.sql("SELECT shard, id, words, n, flag, own FROM \"all\" ORDER BY shard, id")?;
    ensure!(pg == found.replace('\t', "|"), "{pg}");
    // types with nothing in common
    server.sql("ALTER TABLE shards.t2 ADD own DATE")?;
    let said = job.fails(211)?;
    for word in ["\"own\" varchar(5)", "\"own\" date", "ADD own DATE"] {
        ensure!(said.text().contains(word), "{word} in\n{}", said.text());
    }
    Ok(())
}

/// The three kinds of targets beside each other.
struct Targets {
    mysql: Server,
    postgres: Postgres,
}

impl Targets {
    fn start() -> Result<Targets> {
        let mysql = Server::start(ServerOptions::of_this_run())?;
        mysql.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
        Ok(Targets { mysql, postgres: Postgres::start(PostgresOptions::default())? })
    }

    /// Three sinks, and a flow into each of them; `{}` in the flow is the sink.
    fn body(&self, flow: &str) -> String {
        let flows: String = ["dw", "my", "pg"].iter().map(|sink| flow.replace("{}", sink) + "\n").collect();
        format!(
            "sink dw = sqlite {{ path = \"target.db\" }}\n\
             sink my = mysql {{ url = \"mysql://127.0.0.1:{}\", database = \"dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\n\
             sink pg = postgres {{ url = \"postgres://127.0.0.1:{}/dw\", user = \"cdc\", password = \"${{CDC_LIVE_PASSWORD}}\" }}\n\
             {flows}",
            self.mysql.port(),
            self.postgres.port()
        )
    }

    /// A sink and a flow into it, for each of them.
    fn bodies(&self, flow: &str) -> Vec<(&'static str, String)> {
        let all = self.body("");
        let sinks = all.lines().filter(|line| line.starts_with("sink "));
        sinks
            .zip(["dw", "my", "pg"])
            .map(|(sink, name)| (name, format!("{sink}\n{}\n", flow.replace("{}", name))))
            .collect()
    }

    /// What a query finds at one of them.
    fn rows_of(&self, sink: &str, job: &Job, query: &str) -> Result<Vec<String>> {
        let text = match sink {
            "my" => self.mysql.sql(&format!("USE dw; {query}"))?.replace('\t', "|"),
            "pg" => self.postgres.sql(query)?,
            _ => return job.rows(query),
        };
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// What a query finds, the same at all of them.
    fn rows(&self, job: &Job, columns: &str, from: &str) -> Result<Vec<String>> {
        let rows = job.rows(&format!("SELECT {columns} FROM {from}"))?;
        let my = self.mysql.sql(&format!("SELECT {columns} FROM dw.{from}"))?.replace('\t', "|");
        let pg = self.postgres.sql(&format!("SELECT {columns} FROM {from}"))?;
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        ensure!(rows == lines(&my) && rows == lines(&pg), "{rows:?}\n{my}\n{pg}");
        Ok(rows)
    }
}

#[test]
fn rows_that_are_deleted_stay_and_are_marked() -> Result<()> {
    let server = server();
    let targets = Targets::start()?;
    let body =
        targets.body("src.* |> where n <> 99 => {}.* with { on_schema_change = evolve, soft_delete = gone }");
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(9));
               INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd'), (5, 5, 'e')";
    let job = begin(server, "soft", sql, "", &body)?;
    let rows = || targets.rows(&job, "id, n, s, gone", "t ORDER BY id");
    ensure!(rows()?.iter().all(|row| row.ends_with("|0")));
    // deleted, moved to another key, out of the filter, and one that goes and comes
    server.sql(
        "USE soft; DELETE FROM t WHERE id = 1; UPDATE t SET id = 20 WHERE id = 2; UPDATE t SET n = 99 WHERE id = 3;
         DELETE FROM t WHERE id = 4; INSERT INTO t VALUES (4, 44, 'again')",
    )?;
    job.catch_up(&["--workers", "2"])?;
    let wanted = ["1|1|a|1", "2|2|b|1", "3|3|c|1", "4|44|again|0", "5|5|e|0", "20|2|b|0"];
    ensure!(rows()? == wanted, "{:?}", rows()?);
    job.verify()?;
    server.sql("USE soft; INSERT INTO t VALUES (1, 11, 'back'); ALTER TABLE t ADD late INT NOT NULL DEFAULT 7; DELETE FROM t WHERE id = 5")?;
    job.catch_up(&[])?;
    job.verify()?;
    ensure!(targets.rows(&job, "id, gone, late", "t WHERE id IN (1, 5) ORDER BY id")? == ["1|0|7", "5|1|7"]);
    server.sql("USE soft; TRUNCATE t; INSERT INTO t VALUES (7, 7, 'new', 1)")?;
    job.catch_up(&[])?;
    job.verify()?;
    ensure!(targets.rows(&job, "id", "t WHERE gone = 0")? == ["7"]);
    ensure!(targets.rows(&job, "COUNT(*)", "t")? == ["7"]);
    // what has gone as a whole stays too, and takes the name when it comes again
    server.sql("USE soft; DROP TABLE t; CREATE TABLE t (id INT PRIMARY KEY, n INT, other DATE); INSERT INTO t VALUES (8, 8, '2026-01-31')")?;
    job.catch_up(&[])?;
    job.verify()?;
    ensure!(targets.rows(&job, "id, n, other", "t WHERE gone = 0")? == ["8|8|2026-01-31"]);
    ensure!(targets.rows(&job, "COUNT(*)", "t")? == ["8"]);
    // a table without key has nothing to find such rows by
    server.sql("CREATE TABLE soft.keyless (n INT)")?;
    ensure!(job.fails(214)?.text().contains("soft_delete in a flow of table \"soft.keyless\""));
    Ok(())
}

#[test]
fn equal_keys_of_two_tables_stop_the_run_where_that_is_asked_for() -> Result<()> {
    let server = server();
    let targets = Targets::start()?;
    let flow = "src./[ab]/ => {}.merged_{n} with { on_schema_change = evolve, key_conflict = error }";
    for (n, (sink, body)) in targets.bodies(flow).into_iter().enumerate() {
        let (database, merged) = (format!("taken{n}"), format!("merged_{n}"));
        let body = body.replace("merged_{n}", &merged);
        let sql = "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(9)); CREATE TABLE b LIKE a;
                   INSERT INTO a VALUES (1, 'a1'), (2, 'a2'); INSERT INTO b VALUES (3, 'b3'), (4, 'b4')";
        let job = begin(server, &database, sql, "", &body)?;
        let rows =
            || targets.rows_of(sink, &job, &format!("SELECT id, v, _cdc_source FROM {merged} ORDER BY id"));
        // rows go from one table to the other in one transaction, whichever statement comes first; two swap
        server.sql(&format!(
            "USE {database}; BEGIN; INSERT INTO b SELECT id, 'moved' FROM a WHERE id = 1; DELETE FROM a WHERE id = 1;
             DELETE FROM b WHERE id = 3; DELETE FROM a WHERE id = 2; INSERT INTO a VALUES (3, 'to a'); INSERT INTO b VALUES (2, 'to b'); COMMIT;
             BEGIN; UPDATE b SET id = 5 WHERE id = 4; INSERT INTO a VALUES (4, 'new'); COMMIT"
        ))?;
        job.catch_up(&["--workers", "2"])?;
        let (a, b) = (format!("{database}.a"), format!("{database}.b"));
        let wanted = [
            format!("1|moved|{b}"),
            format!("2|to b|{b}"),
            format!("3|to a|{a}"),
            format!("4|new|{a}"),
            format!("5|b4|{b}"),
        ];
        ensure!(rows()? == wanted, "{sink}: {:?}", rows()?);
        ensure!(job.verify()? == 5);
        // what is done to one table leaves the rows of the other
        server.sql(&format!(
            "USE {database}; TRUNCATE a; INSERT INTO a VALUES (6, 'a6'); ALTER TABLE b ADD c INT"
        ))?;
        job.catch_up(&[])?;
        job.verify()?;
        let before = rows()?;
        ensure!(before.len() == 4 && before[3] == format!("6|a6|{a}"), "{before:?}");
        // the other one's row came runs ago; it stays, and nothing of the transaction is written. It is so again.
        server.sql(&format!(
            "USE {database}; BEGIN; INSERT INTO a VALUES (7, 'a7'); UPDATE b SET v = 'late' WHERE id = 1; INSERT INTO a VALUES (5, 'taken'); COMMIT"
        ))?;
        for _ in 0..2 {
            let said = job.fails(2012)?;
            for word in [&a, &b, "(id) = (5)", &merged, "\"taken\"", "key_conflict = last"] {
                ensure!(said.text().contains(word), "{sink}: {word} in\n{}", said.text());
            }
            ensure!(rows()? == before, "{sink}: {:?}", rows()?);
        }
        // two that meet in one transaction, and two that meet in the copy
        for (meet, sql) in [
            ("tick", "BEGIN; INSERT INTO a VALUES (9, 'a'); INSERT INTO b VALUES (9, 'b'); COMMIT"),
            ("copy", ""),
        ] {
            let (database, merged) = (format!("meet{n}{meet}"), format!("meet_{n}_{meet}"));
            let first = if sql.is_empty() {
                "INSERT INTO a VALUES (9, 'a'); INSERT INTO b VALUES (9, 'b')"
            } else {
                ""
            };
            server.sql(&format!(
                "CREATE DATABASE {database}; USE {database}; CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(9)); CREATE TABLE b LIKE a; {first}"
            ))?;
            let body = body.replace(&format!("merged_{n}"), &merged);
            // the progress of each job is its own
            let job = Job::with(server, &format!("[\"{database}.*\"]"), "", "", &body);
            job.rename(&format!("live_{meet}"))?;
            if !sql.is_empty() {
                job.catch_up(&[])?;
                server.sql(&format!("USE {database}; {sql}"))?;
            }
            let said = job.fails(2012)?;
            ensure!(said.text().contains("(id) = (9)") && said.text().contains(&merged), "{}", said.text());
        }
    }
    // a feed cannot be asked
    let job = Job::new(
        server,
        "taken0",
        "sink out = jsonl { path = \"o.jsonl\" }\nsrc./[ab]/ => out.x with { key_conflict = error }",
    );
    ensure!(job.fails(404)?.text().contains("cannot say which rows it holds"));
    Ok(())
}

#[test]
fn equal_keys_of_two_tables_are_refused_unless_the_last_one_is_to_stay() -> Result<()> {
    let server = server();
    let targets = Targets::start()?;
    let sql =
        "CREATE TABLE a (id INT, region INT, v VARCHAR(9), PRIMARY KEY (id, region)); CREATE TABLE b LIKE a;
               INSERT INTO a VALUES (1, 1, 'a1'), (2, 1, 'a2'); INSERT INTO b VALUES (3, 1, 'b3')";
    server.sql(&format!("CREATE DATABASE equal_keys; USE equal_keys; {sql}"))?;
    // two columns that do not tell the tables apart
    let flow = "src.* => {}.merged key (id, region)";
    let job = Job::new(server, "equal_keys", &targets.body(flow));
    let said = job.fails(211)?;
    ensure!(said.text().contains("key_conflict = last"), "{}", said.text());
    let last = format!("{flow} with {{ key_conflict = last }}");
    job.write("[\"equal_keys.*\"]", "", "", &targets.body(&last));
    job.catch_up(&["--workers", "2"])?;
    let rows = || targets.rows(&job, "id, v", "merged ORDER BY id");
    ensure!(rows()? == ["1|a1", "2|a2", "3|b3"]);
    // whichever table it comes from, in the order of the source
    for n in 0..20 {
        server.sql(&format!(
            "USE equal_keys; BEGIN; REPLACE INTO a VALUES (3, 1, 'a{n}'); REPLACE INTO b VALUES (3, 1, 'b{n}');
             REPLACE INTO b VALUES (1, 1, 'b{n}'); REPLACE INTO a VALUES (1, 1, 'a{n}'); COMMIT"
        ))?;
    }
    job.catch_up(&["--workers", "2"])?;
    ensure!(rows()? == ["1|a19", "2|a2", "3|b19"], "{:?}", rows()?);
    // what is added to one of them, and to the other one later
    for (change, of_a, of_b) in [
        ("ALTER TABLE a ADD c INT; UPDATE a SET c = 1 WHERE id = 1", "1", "NULL"),
        ("ALTER TABLE b ADD c INT; UPDATE b SET c = 2 WHERE id = 3", "1", "2"),
    ] {
        server.sql(&format!("USE equal_keys; {change}"))?;
        job.catch_up(&["--workers", "2"])?;
        let found = targets.rows(&job, "id, v, COALESCE(c, -1)", "merged ORDER BY id")?;
        let or_none = |text: &str| text.replace("NULL", "-1");
        let wanted =
            [format!("1|a19|{}", or_none(of_a)), "2|a2|-1".into(), format!("3|b19|{}", or_none(of_b))];
        ensure!(found == wanted, "{found:?}");
    }
    // a table that comes while it runs is asked as well, by a flow that does not say so
    server.sql("CREATE DATABASE comes; CREATE TABLE comes.a LIKE equal_keys.a")?;
    let job = Job::new(
        server,
        "comes",
        "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.merged key (id, region)",
    );
    job.catch_up(&[])?;
    let run = job.start(&[])?;
    server.sql("CREATE TABLE comes.b LIKE comes.a; INSERT INTO comes.b VALUES (1, 1, 'b', 1)")?;
    let said = run.wait()?;
    said.failed(211)?;
    ensure!(said.text().contains("key_conflict = last") && job.number("SELECT COUNT(*) FROM merged")? == 0);
    // and one whose key tells where a row comes from is not
    let told = "src.* |> extend meta.table as shard => {}.told key (shard, id, region)";
    server.sql("CREATE DATABASE told; CREATE TABLE told.a LIKE equal_keys.a")?;
    let targets = Targets::start()?;
    let job = Job::new(server, "told", &targets.body(told));
    job.catch_up(&[])?;
    server.sql("CREATE TABLE told.b LIKE told.a; INSERT INTO told.b VALUES (1, 1, 'b', 1); INSERT INTO told.a VALUES (1, 1, 'a', 1)")?;
    job.catch_up(&[])?;
    ensure!(targets.rows(&job, "shard, v", "told ORDER BY shard")? == ["a|a", "b|b"]);
    job.verify()?;
    Ok(())
}

/// [`three_targets`], and a flow into each of them that makes one table of all tables of a database, told apart by their names.
fn shards_into_three(target: &str, mode: &str) -> Result<(Server, Postgres, String)> {
    let (mysql, postgres, body) = three_targets()?;
    let (sinks, _) = body.split_once("src.* =>").context("flows")?;
    let flow = |sink: &str| {
        format!(
            "src.* |> extend meta.table as shard => {sink}.{target} key (shard, id) with {{ on_schema_change = {mode} }}\n"
        )
    };
    let flows = ["dw", "my", "pg"].map(flow).concat();
    Ok((mysql, postgres, format!("{sinks}{flows}")))
}

/// Columns of one of two shards give their names to each other: its rows follow, those of the other stay.
#[test]
fn case_52_columns_of_a_shard_give_each_other_their_names_mysql_only() -> Result<()> {
    let server = server();
    for (mode, b) in [("evolve", "BIGINT"), ("lenient", "VARCHAR(20)")] {
        let database = format!("crossed_{mode}");
        let (mysql, postgres, body) = shards_into_three(&database, mode)?;
        let sql = format!(
            "CREATE TABLE t1 (id INT PRIMARY KEY, a INT, b {b}, own INT); CREATE TABLE t2 (id INT PRIMARY KEY, a INT, b {b});
             INSERT INTO t1 VALUES (1, 10, '20', 30), (2, 12, NULL, 32); INSERT INTO t2 VALUES (1, 11, '21'), (2, NULL, '23')"
        );
        let job = begin(server, &database, &sql, "", &body)?;
        for (change, extra) in [
            (
                "ALTER TABLE t1 RENAME COLUMN a TO b, RENAME COLUMN b TO a; UPDATE t1 SET b = b + 1 WHERE id = 1;
                 INSERT INTO t1 VALUES (3, 13, '23', 33)",
                "",
            ),
            ("ALTER TABLE t2 RENAME COLUMN a TO b, RENAME COLUMN b TO a; INSERT INTO t2 VALUES (3, 14, '24')", ""),
            // one that only the one has is in the ring
            (
                "ALTER TABLE t1 RENAME COLUMN a TO own, RENAME COLUMN own TO b, RENAME COLUMN b TO a; UPDATE t1 SET own = 5 WHERE id = 3",
                "",
            ),
            // and one that only the other has gets a name that this one gives away
            ("ALTER TABLE t2 RENAME COLUMN a TO own; UPDATE t2 SET own = 6 WHERE id = 2", "no a"),
        ] {
            server.sql(&format!("USE {database}; {change}"))?;
            let said = job.catch_up(&[])?;
            let a = if extra.is_empty() { "a" } else { "NULL" };
            let own = if extra.is_empty() { "NULL" } else { "own" };
            let wanted = server.sql(&format!(
                "USE {database}; SELECT 't1', id, a, b, own FROM t1 UNION ALL SELECT 't2', id, {a}, b, {own} FROM t2 ORDER BY 1, 2"
            ))?;
            // lenient keeps what was under a name that is given away
            let a = if extra.is_empty() || mode == "evolve" { "a" } else { "CASE WHEN shard = 't1' THEN a END" };
            let select = format!("SELECT shard, id, {a}, b, own FROM {database} ORDER BY shard, id");
            let ours = [
                job.rows(&select)?.join("\n") + "\n",
                mysql.sql(&format!("USE dw; {select}"))?.replace('\t', "|"),
                postgres.sql(&select)?,
            ];
            for ours in ours {
                ensure!(ours == wanted.replace('\t', "|"), "{mode}, {change}\n{ours}\n{wanted}\n{}", said.text());
            }
            job.verify().with_context(|| said.text())?;
        }
    }
    // the name of a column of the key, which the other shard has too, cannot move
    let body = "sink dw = sqlite { path = \"target.db\" }\nsrc.* |> extend meta.table as shard => dw.one key (shard, id) with { on_schema_change = evolve }";
    let sql = "CREATE TABLE t1 (id INT PRIMARY KEY, a INT); CREATE TABLE t2 LIKE t1; INSERT INTO t1 VALUES (1, 10); INSERT INTO t2 VALUES (1, 11)";
    let job = begin(server, "crossed_key", sql, "", body)?;
    server.sql("ALTER TABLE crossed_key.t1 RENAME COLUMN id TO a, RENAME COLUMN a TO id")?;
    job.fails(211)?;
    Ok(())
}

/// Columns of shards that get names which others have, under types that the others' values do not fit: what nobody has any more goes,
/// what one shard alone has keeps its own type, and a target's column never becomes narrower than what is in it.
#[test]
fn case_52_a_column_of_a_shard_goes_over_to_another_ones() -> Result<()> {
    let server = server();
    let columns = |database: &str, table: &str| {
        server.sql(&format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = '{database}' AND table_name = '{table}' ORDER BY 1"
        ))
    };
    // (MariaDB has a statement for it; that drops nothing by its own name)
    let replaced = match ServerKind::of_this_run() {
        ServerKind::MySql => "DROP TABLE t3; CREATE TABLE",
        _ => "CREATE OR REPLACE TABLE",
    };
    let replaced = format!(
        "{replaced} t3 (id INT PRIMARY KEY, e VARCHAR(9), d INT); INSERT INTO t3 VALUES (8, 'text', 2)"
    );
    for (mode, sql, changes) in [
        (
            "evolve",
            "CREATE TABLE t1 (id INT PRIMARY KEY, e INT, g BIGINT); CREATE TABLE t2 (id INT PRIMARY KEY, d INT, g INT);
             INSERT INTO t1 VALUES (1, 10, 9000000000000000000), (2, NULL, -1); INSERT INTO t2 VALUES (1, 20, 21), (2, 22, NULL)",
            vec![
                // nobody has e any more
                "ALTER TABLE t1 RENAME COLUMN e TO d; INSERT INTO t1 VALUES (3, 13, 3)",
                // so one that comes later is another one
                "CREATE TABLE t3 (id INT PRIMARY KEY, e VARCHAR(9)); INSERT INTO t3 VALUES (1, 'text')",
                // of a type that the other one's values do not fit
                "ALTER TABLE t2 RENAME COLUMN g TO h; INSERT INTO t2 VALUES (3, 23, 24)",
                "ALTER TABLE t2 CHANGE d own VARCHAR(20); INSERT INTO t2 VALUES (4, 'own', 25)",
                "ALTER TABLE t3 RENAME COLUMN e TO own, ADD e DATE; INSERT INTO t3 VALUES (2, 'two', '2026-01-31')",
                // a table goes, and with it the columns that it was the last one to have
                "DROP TABLE t3; CREATE TABLE t3 (id INT PRIMARY KEY, e INT, d INT, f INT); INSERT INTO t3 VALUES (9, 1, 2, 3)",
                &replaced,
            ],
        ),
        (
            "lenient",
            "CREATE TABLE t1 (id INT PRIMARY KEY, g BIGINT); CREATE TABLE t2 (id INT PRIMARY KEY, g VARCHAR(20), d SMALLINT);
             INSERT INTO t1 VALUES (1, 900), (2, -1); INSERT INTO t2 VALUES (1, 'words', 0), (2, NULL, 6)",
            vec![
                "ALTER TABLE t1 RENAME COLUMN g TO d; INSERT INTO t1 VALUES (3, 13)",
                "ALTER TABLE t2 CHANGE d h INT; INSERT INTO t2 VALUES (3, 'more', 7)",
                "ALTER TABLE t2 CHANGE h d BIGINT; INSERT INTO t2 VALUES (4, 'most', 8)",
                "ALTER TABLE t1 MODIFY d INT; UPDATE t1 SET d = 14 WHERE id = 3",
            ],
        ),
    ] {
        let database = format!("taken_over_{mode}");
        let (mysql, postgres, body) = shards_into_three(&database, mode)?;
        let job = begin(server, &database, sql, "", &body)?;
        for change in changes {
            server.sql(&format!("USE {database}; {change}"))?;
            let said = job.catch_up(&[]).with_context(|| format!("{mode}, {change}"))?;
            // every column of every shard, by its name
            for shard in server.sql(&format!("SHOW TABLES FROM {database}"))?.lines() {
                let names = columns(&database, shard)?;
                let shown = |text: &str| {
                    let all: Vec<String> =
                        names.lines().map(|n| format!("COALESCE(CAST({n} AS {text}), '-')")).collect();
                    all.join(", ")
                };
                let wanted = server.sql(&format!("SELECT {} FROM {database}.{shard} ORDER BY id", shown("CHAR")))?;
                let from = format!("FROM {database} WHERE shard = '{shard}' ORDER BY id");
                let ours = [
                    job.rows(&format!("SELECT {} {from}", shown("TEXT")))?.join("\n") + "\n",
                    mysql.sql(&format!("USE dw; SELECT {} {from}", shown("CHAR")))?.replace('\t', "|"),
                    postgres.sql(&format!("SELECT {} {from}", shown("TEXT")))?,
                ];
                for ours in ours {
                    ensure!(ours == wanted.replace('\t', "|"), "{mode}, {change}\n{ours}\n{wanted}\n{}", said.text());
                }
            }
            job.verify().with_context(|| said.text())?;
        }
        if mode == "evolve" {
            let found = mysql.sql(&format!(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = 'dw' AND table_name = '{database}' ORDER BY 1"
            ))?;
            ensure!(found == "d\ne\ng\nh\nid\nown\nshard\n", "{found}");
        }
    }
    Ok(())
}

/// A flow reads columns by name: where one statement gives a name that it reads to another column, or lets in one that the flow has
/// left out, its rows are other ones, and the log does not hold them.
#[test]
fn case_51_names_that_a_flow_reads_move_to_other_columns_mysql_only() -> Result<()> {
    let sql = "CREATE TABLE t_1 (id INT PRIMARY KEY, a INT, b INT, c INT);
               INSERT INTO t_1 VALUES (1, 1, 100, 1000), (2, 200, 2, 2000), (3, 3, 300, 3);
               CREATE TABLE t_2 LIKE t_1; INSERT INTO t_2 VALUES (1, 7, 700, 7), (2, 800, 8, 8)";
    let swap = "ALTER TABLE t_1 RENAME COLUMN a TO b, RENAME COLUMN b TO a";
    let ring = "ALTER TABLE t_1 RENAME COLUMN a TO b, RENAME COLUMN b TO c, RENAME COLUMN c TO a";
    let onto = "ALTER TABLE t_1 DROP COLUMN a, RENAME COLUMN b TO a";
    let again = "ALTER TABLE t_1 DROP COLUMN a, ADD COLUMN a INT DEFAULT 50";
    let shards = "src./t_[0-9]+/ |> extend meta.table as shard";
    let copied = true;
    let cases = [
        ("src.t_1 |> where a > 10 => dw.o", swap, "id, a", vec!["1|100", "3|300"], copied),
        ("src.t_1 |> extend a * 2 as a2 => dw.o", swap, "a, a2", vec!["100|200", "2|4", "300|600"], copied),
        ("src.t_1 |> drop a => dw.o", swap, "id, b", vec!["1|1", "2|200", "3|3"], copied),
        ("src.t_1 |> where a > 10 => dw.o", again, "id, a", vec!["1|50", "2|50", "3|50"], copied),
        (
            &format!("{shards}, a * 2 as a2 => dw.o key (shard, id)"),
            onto,
            "shard, a, a2",
            vec!["t_1|100|200", "t_2|7|14", "t_1|2|4", "t_2|800|1600", "t_1|300|600"],
            copied,
        ),
        (
            &format!("{shards} |> drop a => dw.o key (shard, id)"),
            ring,
            "shard, b, c",
            vec!["t_1|1|100", "t_2|700|7", "t_1|200|2", "t_2|8|8", "t_1|3|300"],
            copied,
        ),
        ("src.t_1 |> select id, a => dw.o key (id)", swap, "id, a", vec!["1|100", "2|2", "3|300"], copied),
        ("src.t_1 => dw.o", swap, "id, a, b", vec!["1|100|1", "2|2|200", "3|300|3"], !copied),
        ("src.t_1 |> where c > 10 => dw.o", swap, "id, a, b", vec!["1|100|1", "2|2|200"], !copied),
    ];
    let server = server();
    for mode in ["evolve", "lenient"] {
        for (n, (flow, change, columns, wanted, copied)) in cases.iter().enumerate() {
            let database = format!("read_names_{mode}_{n}");
            let body = format!(
                "sink dw = sqlite {{ path = \"target.db\" }}\n{flow} with {{ on_schema_change = {mode} }}"
            );
            let job = begin(server, &database, sql, "", &body)?;
            let said = follow(&job, server, &database, &[change], false)?;
            let order = if flow.contains("shard") { "id, shard" } else { "id" };
            let rows = job.rows(&format!("SELECT {columns} FROM o ORDER BY {order}"))?;
            ensure!(rows == *wanted, "{mode}, {flow}, {change}: {rows:?}\n{said}");
            ensure!(said.contains("copy table") == *copied, "{mode}, {flow}, {change}: {said}");
            job.verify().with_context(|| format!("{mode}, {flow}, {change}"))?;
        }
    }
    Ok(())
}

/// What a table's rows are for a flow depends on its name: whether the flow takes it, and what it writes of the name. A table that
/// gets another one is copied again where that matters.
fn renamed(database: &str, flow: &str, sql: &str, changes: &[&str], wanted: (&str, &[&str])) -> Result<Job> {
    let server = server();
    let body = format!("sink dw = sqlite {{ path = \"target.db\" }}\n{flow}");
    let job = begin(server, database, sql, "", &body)?;
    for change in changes {
        server.sql(&format!("USE {database}; {change}"))?;
        job.catch_up(&["--workers", "2"]).with_context(|| (*change).to_owned())?;
        job.verify().with_context(|| (*change).to_owned())?;
    }
    let rows = job.rows(wanted.0)?;
    ensure!(rows == wanted.1, "{rows:?}");
    Ok(job)
}

const PAIR: &str = "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, 2);
                    CREATE TABLE n (id INT PRIMARY KEY, a INT); INSERT INTO n VALUES (2, 20), (5, 5)";

#[test]
fn case_44_a_table_that_is_renamed_into_a_flow_is_copied() -> Result<()> {
    for (database, mode) in
        [("into_lenient", "lenient"), ("into_evolve", "evolve"), ("into_ignore", "ignore")]
    {
        let flow = format!("src.t => dw.t with {{ on_schema_change = {mode} }}");
        let changes = [
            "RENAME TABLE t TO o, n TO t; UPDATE t SET a = a + 1 WHERE id = 2",
            "CREATE TABLE n LIKE t; INSERT INTO n VALUES (7, 7); RENAME TABLE t TO o2, n TO t",
        ];
        renamed(database, &flow, PAIR, &changes, ("SELECT * FROM t ORDER BY id", &["7|7"]))?;
    }
    let evolve = "src.t => dw.t with { on_schema_change = evolve }";
    let changes = [
        "DROP TABLE t; RENAME TABLE n TO t",
        "ALTER TABLE t ADD b INT DEFAULT 3; UPDATE t SET a = 6 WHERE id = 5",
    ];
    renamed("into_dropped", evolve, PAIR, &changes, ("SELECT * FROM t ORDER BY id", &["2|20|3", "5|6|3"]))?;
    // one that goes takes its rows along, and another one of its name begins anew
    let changes = [
        "RENAME TABLE t TO zz; CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL); INSERT INTO t VALUES (1, 5)",
        "RENAME TABLE n TO m, t TO n, m TO t; UPDATE t SET a = 21 WHERE id = 2",
    ];
    renamed("out_evolve", evolve, PAIR, &changes, ("SELECT * FROM t ORDER BY id", &["2|21", "5|5"]))?;
    Ok(())
}

#[test]
fn a_name_that_is_in_the_rows_follows_a_rename() -> Result<()> {
    let shards = "CREATE TABLE o_1 (id INT PRIMARY KEY, a INT); CREATE TABLE o_2 LIKE o_1; CREATE TABLE x_5 LIKE o_1;
                  INSERT INTO o_1 VALUES (1, 1), (2, 2); INSERT INTO o_2 VALUES (1, 10); INSERT INTO x_5 VALUES (5, 5), (6, 6)";
    for mode in ["lenient", "evolve"] {
        let flow = format!(
            "src./o_.*/ |> extend meta.table as shard => dw.o key (shard, id) with {{ on_schema_change = {mode} }}"
        );
        let changes = [
            "RENAME TABLE o_1 TO o_9; UPDATE o_9 SET a = 7 WHERE id = 1; DELETE FROM o_9 WHERE id = 2",
            "RENAME TABLE x_5 TO o_5; UPDATE o_5 SET a = 7 WHERE id = 6",
            "CREATE TABLE o_1 LIKE o_9; INSERT INTO o_1 VALUES (1, 100)",
        ];
        let wanted = ["o_1|1|100", "o_2|1|10", "o_5|5|5", "o_5|6|7", "o_9|1|7"];
        let sql = "SELECT shard, id, a FROM o ORDER BY shard, id";
        renamed(&format!("shards_{mode}"), &flow, shards, &changes, (sql, &wanted))?;
    }
    let flow = "src.* |> extend meta.table as origin => dw.*";
    let changes = ["RENAME TABLE t TO t9; UPDATE t9 SET a = 7 WHERE id = 1"];
    let wanted = ["1|7|t9", "2|2|t9"];
    renamed("origins", flow, PAIR, &changes, ("SELECT id, a, origin FROM t9 ORDER BY id", &wanted))?;
    Ok(())
}

/// A target table keeps its name where renames are left out: another source table of that name would fall onto its rows.
#[test]
fn a_table_that_comes_where_another_ones_rows_are_is_refused() -> Result<()> {
    let server = server();
    for (database, option) in [
        ("rotated_ignore", "on_schema_change = ignore"),
        ("rotated_evolve", "on_schema_change = evolve, exclude = [rename_table]"),
    ] {
        let body = format!("sink dw = sqlite {{ path = \"target.db\" }}\nsrc.* => dw.* with {{ {option} }}");
        let job = begin(server, database, PAIR, "", &body)?;
        server.sql(&format!(
            "USE {database}; RENAME TABLE t TO t2; UPDATE t2 SET a = 5 WHERE id = 1; CREATE TABLE t (id INT PRIMARY KEY, a INT); DELETE FROM t2 WHERE id = 2"
        ))?;
        let said = job.fails(211)?;
        ensure!(said.text().contains("rename_table"), "{}", said.text());
        ensure!(job.rows("SELECT * FROM t ORDER BY id")?.len() == 2, "something behind it was written");
    }
    Ok(())
}

/// What lenient has kept gives way where its name is wanted: of a table as of a column.
#[test]
fn a_table_that_lenient_kept_gives_way_to_one_that_takes_its_name() -> Result<()> {
    let swap = "CREATE TABLE t_new LIKE t; INSERT INTO t_new SELECT id + 10, a FROM t; RENAME TABLE t TO t_old, t_new TO t; DROP TABLE t_old";
    let one = "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, 2)";
    let server = server();
    let job = begin(server, "twice_lenient", one, "on_schema_change = lenient", SQLITE)?;
    for _ in 0..3 {
        server.sql(&format!("USE twice_lenient; {swap}"))?;
        job.catch_up(&[])?;
        // t_old was dropped, and is kept
        job.compare(server, ("twice_lenient", "t"), "t")?;
        let said = support::Run::start(&mut job.command("verify", &[]))?.wait()?;
        ensure!(said.code == Some(0) && said.text().contains("t_old"), "{}", said.text());
    }
    ensure!(job.rows("SELECT id, a FROM t ORDER BY id")? == ["31|1", "32|2"]);
    server.sql("USE twice_lenient; RENAME TABLE t TO t2; CREATE TABLE t LIKE t2; DROP TABLE t; RENAME TABLE t2 TO t; INSERT INTO t VALUES (99, 9)")?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT id, a FROM t ORDER BY id")? == ["31|1", "32|2", "99|9"]);
    // one that the flow keeps from going stays, and the run stops
    let kept = "on_schema_change = evolve, exclude = [drop_table]";
    let body = format!("sink dw = sqlite {{ path = \"target.db\" }}\nsrc.* => dw.* with {{ {kept} }}");
    let job = begin(server, "kept_table", one, "", &body)?;
    server.sql("USE kept_table; CREATE TABLE x (id INT PRIMARY KEY, a INT); INSERT INTO x VALUES (7, 7)")?;
    job.catch_up(&[])?;
    server.sql("USE kept_table; DROP TABLE t; RENAME TABLE x TO t")?;
    job.fails(2003)?;
    ensure!(job.rows("SELECT id, a FROM t ORDER BY id")? == ["1|1", "2|2"]);
    // a computed column under another name has the values of the old one
    let job = begin(server, "computed_again", one, "on_schema_change = lenient", SQLITE)?;
    server.sql("ALTER TABLE computed_again.t ADD g INT AS (a * 2) STORED")?;
    job.catch_up(&[])?;
    server.sql("ALTER TABLE computed_again.t RENAME COLUMN g TO h; INSERT INTO computed_again.t (id, a) VALUES (3, 3)")?;
    job.catch_up(&[])?;
    ensure!(job.rows("SELECT id, a FROM t ORDER BY id")? == ["1|1", "2|2", "3|3"]);
    // (MariaDB 11 does not log generated columns: there it is left out of the copy)
    let logs_generated = job.rows("SELECT name FROM pragma_table_info('t')")?.contains(&"h".to_owned());
    ensure!(logs_generated || server.kind() == ServerKind::MariaDb118);
    if logs_generated {
        job.verify()?;
        ensure!(job.rows("SELECT id, h FROM t ORDER BY id")? == ["1|2", "2|4", "3|6"]);
    }
    Ok(())
}
