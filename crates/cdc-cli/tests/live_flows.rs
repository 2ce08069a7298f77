//! What flows do to rows, from a server's table to a target's: filters, keys, names, routes.

mod support;

use anyhow::{Result, ensure};
use cdc_testkit::servers::Server;
use support::{Job, Run, server};

/// A pipeline that runs, to be looked at after each change of its source.
struct Live {
    server: &'static Server,
    job: Job,
    run: Run,
}

impl Live {
    /// Makes a database, and starts a pipeline that copies it.
    fn start(database: &str, sql: &str, flows: &str, workers: &str) -> Result<Live> {
        let server = server();
        let sql = server.kind().with_collations(sql);
        server.sql(&format!("CREATE DATABASE {database} CHARACTER SET utf8mb4; USE {database}; {sql}"))?;
        Live::of(server, &format!("{database}.*"), flows, workers)
    }

    /// Copies tables, and starts a pipeline that follows them.
    fn of(server: &'static Server, tables: &str, flows: &str, workers: &str) -> Result<Live> {
        let body = format!("sink dw = sqlite {{ path = \"target.db\" }}\n{flows}");
        let job = Job::with(server, &format!("[\"{tables}\"]"), "", "", &body);
        let copied = job.catch_up(&["--workers", workers])?;
        // once, however many tables become whole
        ensure!(copied.err.matches("snapshot complete").count() == 1, "{}", copied.text());
        ensure!(!copied.err.split("snapshot complete").nth(1).unwrap_or_default().contains("is whole\n"));
        let mut run = job.start(&["--workers", workers])?;
        run.says("going on from tick")?;
        Ok(Live { server, job, run })
    }

    /// Changes the source, and waits until the target has taken up all of it.
    fn change(&mut self, sql: &str) -> Result<()> {
        self.server.sql(&format!("SET NAMES utf8mb4; {sql}"))?;
        let executed = self.server.executed()?;
        let last = executed.rsplit([':', '-']).next().unwrap_or_default().parse::<u64>()?;
        self.run.until("the change is at the target", |_| {
            let binding = self.job.rows("SELECT binding FROM _cdc_progress")?;
            let binding: serde_json::Value = serde_json::from_str(&binding[0])?;
            let gtids = binding["positions"]["src"]["gtids"].as_str().unwrap_or_default().to_owned();
            Ok(gtids.rsplit([':', '-']).next().and_then(|n| n.parse::<u64>().ok()) >= Some(last))
        })
    }

    /// A query of the target gives the rows that a query of the server gives, in any order.
    fn same(&self, target: &str, source: &str) -> Result<usize> {
        let mut found = self.job.rows(target)?;
        let printed = self.server.sql(&format!("SET NAMES utf8mb4; {source}"))?;
        let mut expected: Vec<String> = printed.lines().map(|line| line.replace('\t', "|")).collect();
        found.sort();
        expected.sort();
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|row| b.binary_search(row).is_err()).cloned().collect()
        };
        ensure!(
            found == expected,
            "only the target has {:?}, only the server {:?}, by {target}",
            only(&found, &expected),
            only(&expected, &found)
        );
        Ok(found.len())
    }

    /// The target's rows, in any order.
    fn holds(&self, target: &str, expected: &[&str]) -> Result<()> {
        let mut found = self.job.rows(target)?;
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        ensure!(found == expected, "target {found:?}, expected {expected:?}, by {target}");
        Ok(())
    }

    /// Stops, verifies, and starts again for nothing.
    fn end(self) -> Result<Job> {
        self.run.stop()?;
        self.job.verify()?;
        let again = self.job.catch_up(&[])?;
        ensure!(again.err.contains("nothing new"), "{}", again.text());
        Ok(self.job)
    }
}

fn filters(database: &str, workers: &str) -> Result<()> {
    let mut live = Live::start(
        database,
        "CREATE TABLE t (id INT PRIMARY KEY, amount INT, note VARCHAR(20));
         INSERT INTO t VALUES (1, 50, 'a'), (2, 150, 'b'), (3, NULL, 'c'), (4, 150, NULL), (5, 200, 'no')",
        "src.t
           |> where amount > 100 and note collate utf8mb4_bin <> 'no'
           |> select id, amount * 2 as twice, note
           => dw.filtered
         src.t |> where amount is null => dw.unknown",
        workers,
    )?;
    let filtered = format!(
        "SELECT id, amount * 2, note FROM {database}.t WHERE amount > 100 AND note COLLATE utf8mb4_bin <> 'no'"
    );
    let same = |live: &Live| -> Result<usize> {
        live.same(
            "SELECT id, amount, note FROM unknown",
            &format!("SELECT * FROM {database}.t WHERE amount IS NULL"),
        )?;
        live.same("SELECT id, twice, note FROM filtered", &filtered)
    };
    ensure!(same(&live)? == 1);
    // in, out, and out again; through NULL; in and changed; of a row that never was in
    for (sql, rows) in [
        ("UPDATE t SET amount = 101 WHERE id = 1", 2),
        ("UPDATE t SET amount = 100 WHERE id = 1", 1),
        ("UPDATE t SET amount = NULL WHERE id = 2", 0),
        ("UPDATE t SET amount = 500 WHERE id = 2", 1),
        ("UPDATE t SET note = 'x' WHERE id = 4", 2),
        ("UPDATE t SET note = 'no' WHERE id = 4", 1),
        ("UPDATE t SET note = 'No' WHERE id IN (4, 5)", 3),
        ("DELETE FROM t WHERE id = 3; DELETE FROM t WHERE id = 5", 2),
        ("BEGIN; INSERT INTO t VALUES (6, 1, 'n'); UPDATE t SET amount = 999 WHERE id = 6; COMMIT", 3),
        ("BEGIN; UPDATE t SET amount = 1 WHERE id = 6; UPDATE t SET amount = 2000 WHERE id = 6; COMMIT", 3),
        ("BEGIN; UPDATE t SET amount = 1 WHERE id = 6; DELETE FROM t WHERE id = 6; COMMIT", 2),
        ("BEGIN; INSERT INTO t VALUES (7, 500, 'n'); DELETE FROM t WHERE id = 7; COMMIT", 2),
        ("UPDATE t SET id = 70, amount = 1 WHERE id = 2", 1),
        ("UPDATE t SET id = 71, amount = 700 WHERE id = 70", 2),
        ("UPDATE t SET amount = amount + 1", 3),
        ("UPDATE t SET amount = 5 WHERE id = 1", 2),
    ] {
        live.change(&format!("USE {database}; {sql}"))?;
        let found = same(&live)?;
        ensure!(found == rows, "{found} rows after {sql}");
    }
    // it does nothing with one that stays out
    live.change(&format!("UPDATE {database}.t SET note = 'still out' WHERE id = 1"))?;
    same(&live)?;
    live.end()?;
    Ok(())
}

#[test]
fn case_66_rows_enter_and_leave_a_filter() -> Result<()> {
    filters("c66", "1")?;
    filters("c66b", "2")
}

fn keys(database: &str, workers: &str) -> Result<()> {
    let mut live = Live::start(
        database,
        "CREATE TABLE n (id INT PRIMARY KEY, v VARCHAR(10) NOT NULL);
         CREATE TABLE s (id VARCHAR(10) PRIMARY KEY, v INT NOT NULL) COLLATE utf8mb4_0900_ai_ci;
         CREATE TABLE d (id INT PRIMARY KEY, code VARCHAR(10) NOT NULL, v INT NOT NULL);
         INSERT INTO n VALUES (1, 'one'), (2, 'two'), (3, 'three');
         INSERT INTO s VALUES ('a', 1), ('b', 2), ('c', 3);
         INSERT INTO d VALUES (1, 'x', 1), (2, 'y', 2)",
        "src.n => dw.n
         src.s => dw.s
         src.d |> select concat('k-', code) as k, id, v => dw.derived key (k)",
        workers,
    )?;
    let same = |live: &Live| -> Result<()> {
        live.same("SELECT id, v FROM n", &format!("SELECT * FROM {database}.n"))?;
        live.same("SELECT id, v FROM s", &format!("SELECT * FROM {database}.s"))?;
        live.same(
            "SELECT k, id, v FROM derived",
            &format!("SELECT CONCAT('k-', code), id, v FROM {database}.d"),
        )?;
        Ok(())
    };
    same(&live)?;
    for sql in [
        "UPDATE n SET id = 9 WHERE id = 1",
        "UPDATE d SET code = 'z' WHERE id = 1",
        // a swap and a ring, in one transaction each
        "BEGIN; UPDATE n SET id = -1 WHERE id = 2; UPDATE n SET id = 2 WHERE id = 3; UPDATE n SET id = 3 WHERE id = -1; COMMIT",
        "BEGIN; UPDATE n SET id = 0 WHERE id = 2; UPDATE n SET id = 2 WHERE id = 3; UPDATE n SET id = 3 WHERE id = 9;
         UPDATE n SET id = 9 WHERE id = 0; COMMIT",
        "BEGIN; UPDATE d SET code = 't' WHERE id = 1; UPDATE d SET code = 'z' WHERE id = 2; UPDATE d SET code = 'y' WHERE id = 1; COMMIT",
        // spellings of one key
        "UPDATE s SET id = 'A' WHERE id = 'a'",
        "UPDATE s SET v = 100 WHERE id = 'a'",
        "BEGIN; UPDATE s SET id = 'tmp' WHERE id = 'a'; UPDATE s SET id = 'a' WHERE id = 'b'; UPDATE s SET id = 'b' WHERE id = 'tmp'; COMMIT",
        "BEGIN; DELETE FROM s WHERE id = 'a'; INSERT INTO s VALUES ('Á', 7); COMMIT",
        "UPDATE s SET id = 'å', v = 8 WHERE id = 'a'",
        "REPLACE INTO s VALUES ('B', 9)",
        "BEGIN; UPDATE s SET id = 'C' WHERE id = 'c'; UPDATE s SET id = 'c' WHERE id = 'c'; UPDATE s SET id = 'Ç' WHERE id = 'c'; COMMIT",
        // there and back, and away
        "BEGIN; UPDATE n SET id = 50 WHERE id = 9; UPDATE n SET id = 9, v = 'back' WHERE id = 50; COMMIT",
        "BEGIN; UPDATE n SET id = 51 WHERE id = 9; DELETE FROM n WHERE id = 51; INSERT INTO n VALUES (9, 'anew'); COMMIT",
        "UPDATE n SET id = id + 1000 ORDER BY id DESC",
        "UPDATE n SET id = id - 999 ORDER BY id",
    ] {
        live.change(&format!("USE {database}; {sql}"))?;
        same(&live).map_err(|error| error.context(sql))?;
    }
    live.holds("SELECT id FROM s", &["B", "Ç", "å"])?;
    let job = live.end()?;
    job.compare(server(), (database, "s"), "s")?;
    Ok(())
}

#[test]
fn case_67_keys_move_swap_and_change_their_spelling() -> Result<()> {
    keys("c67", "1")?;
    keys("c67b", "2")
}

#[test]
fn case_67_many_swaps_in_one_transaction_under_two_workers() -> Result<()> {
    let mut live = Live::start(
        "c67m",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, UNIQUE KEY (v));
         INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 500) SELECT n, n FROM s",
        "src.t => dw.t\nsrc.t |> where v % 3 = 0 => dw.third key (v)",
        "2",
    )?;
    for round in 1..6 {
        // every row takes its neighbour's key
        live.change(
            "USE c67m; BEGIN; UPDATE t SET id = -id; UPDATE t SET id = 1 - id WHERE id > -500; UPDATE t SET id = 1 WHERE id = -500; COMMIT",
        )?;
        live.change(&format!(
            "USE c67m; BEGIN; UPDATE t SET v = v + 10000 * {round} WHERE id % 7 = 0; COMMIT"
        ))?;
        live.same("SELECT id, v FROM t", "SELECT * FROM c67m.t")?;
        live.same("SELECT id, v FROM third", "SELECT * FROM c67m.t WHERE v % 3 = 0")?;
    }
    live.end()?;
    Ok(())
}

/// Doubled, and in the quotes of a language.
fn quoted(name: &str, quote: char) -> String {
    format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
}

#[test]
fn case_69_and_16_odd_names_and_literals() -> Result<()> {
    let tables = [
        "a.b",
        "with space",
        "hy-phen",
        "back`tick",
        "quo'te\"s",
        "semi;colon",
        "select",
        "группа",
        "%_*?",
        "Ünï",
        "${x}",
    ];
    let columns = [
        "timestamp",
        "a-b",
        "select",
        "größe in m",
        "時刻",
        "quo\"te",
        "ba`ck",
        "a.b",
        "it's",
        "--x",
        "${y}",
    ];
    let mut sql = "SET NAMES utf8mb4;".to_owned();
    let list: String = columns.iter().map(|c| format!(", {} VARCHAR(30)", quoted(c, '`'))).collect();
    let values: String = columns.iter().map(|c| format!(", 'v {}'", c.replace('\'', "''"))).collect();
    for table in tables {
        let table = quoted(table, '`');
        sql += &format!(
            "CREATE TABLE {table} (`order by` INT PRIMARY KEY{list}); INSERT INTO {table} VALUES (1{values}), (2{values});"
        );
    }
    let server = server();
    let database = "c69-sélect中";
    server.sql(&format!(
        "SET NAMES utf8mb4; CREATE DATABASE `{database}` CHARACTER SET utf8mb4; USE `{database}`; {sql}"
    ))?;
    let flows = "src.`c69-sélect中`.* => dw.*
        src.`c69-sélect中`.`группа`
          |> where `größe in m` collate utf8mb4_bin = 'v größe in m' and `select` collate utf8mb4_bin <> '中\\'\"🦀'
          |> select `order by` as `ключ`, `a-b` as `größe in m`, timestamp as 時刻, concat(`it's`, '→🦀') as `--x`, `ba``ck` as `select`
          => dw.`odd-table.x`
        src.`c69-sélect中`.`semi;colon` => dw.\"t_{table}_é\"";
    let mut live = Live::of(server, &format!("`{database}`.*"), flows, "2")?;
    for table in tables {
        let (table, column) = (quoted(table, '`'), quoted(columns[1], '`'));
        live.change(&format!(
            "USE `{database}`; INSERT INTO {table} VALUES (3{values}); UPDATE {table} SET {column} = 'né\\\\w ''' WHERE `order by` = 1; DELETE FROM {table} WHERE `order by` = 2"
        ))?;
    }
    live.change(&format!(
        "USE `{database}`; UPDATE `группа` SET `select` = '中''\"🦀' WHERE `order by` = 3"
    ))?;
    live.holds("SELECT * FROM \"odd-table.x\"", &["1|né\\w '|v timestamp|v it's→🦀|v ba`ck"])?;
    let job = live.end()?;
    for table in tables {
        ensure!(job.compare(server, (database, table), table)? == 2, "{table}");
    }
    ensure!(job.compare(server, (database, "semi;colon"), "t_semi;colon_é")? == 2);
    let made = job.number(
        "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '\\_cdc%' ESCAPE '\\'",
    )?;
    ensure!(made == tables.len() as i64 + 2, "{made} tables at the target");
    Ok(())
}

#[test]
fn case_71_routes() -> Result<()> {
    let mut live = Live::start(
        "c71",
        "CREATE TABLE orders_1 (id INT PRIMARY KEY, amount INT NOT NULL);
         CREATE TABLE orders_2 LIKE orders_1; CREATE TABLE orders_x LIKE orders_1;
         -- the same columns in another order
         CREATE TABLE orders_30 (amount INT NOT NULL, id INT PRIMARY KEY);
         CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(10)); CREATE TABLE b LIKE a;
         CREATE TABLE c (id INT PRIMARY KEY, parent INT, v VARCHAR(10));
         INSERT INTO orders_1 VALUES (1, 10), (2, 20); INSERT INTO orders_2 VALUES (1, 100), (2, 200);
         INSERT INTO orders_30 VALUES (3000, 1); INSERT INTO orders_x VALUES (1, 7);
         INSERT INTO a VALUES (1, 'a1'), (2, 'a2'); INSERT INTO b VALUES (1, 'b1'); INSERT INTO c VALUES (1, 0, 'c1')",
        "-- many to one
         src./(?<t>[a-z]+)_[0-9]+/
           |> extend meta.table as shard, meta.database as base
           => dw.\"ods_{t}\" key (shard, id)
         -- one to many
         src.orders_1 => dw.first
         src.orders_1 |> where amount > 15 => dw.large
         src.orders_1 |> select id => dw.ids
         -- two names swapped
         src.a => dw.b
         src.b => dw.a
         -- names from names
         src.c => dw.\"{database}_{table}\"
         src.orders_x => dw.\"{table}_copy\"",
        "2",
    )?;
    let all = "SELECT id, amount, 'orders_1', 'c71' FROM c71.orders_1 UNION ALL \
               SELECT id, amount, 'orders_2', 'c71' FROM c71.orders_2 UNION ALL \
               SELECT id, amount, 'orders_30', 'c71' FROM c71.orders_30";
    let same = |live: &Live| -> Result<usize> {
        live.same("SELECT id, amount FROM first", "SELECT * FROM c71.orders_1")?;
        live.same("SELECT id, amount FROM large", "SELECT * FROM c71.orders_1 WHERE amount > 15")?;
        live.same("SELECT id FROM ids", "SELECT id FROM c71.orders_1")?;
        live.same("SELECT id, v FROM b", "SELECT * FROM c71.a")?;
        live.same("SELECT id, v FROM a", "SELECT * FROM c71.b")?;
        live.same("SELECT id, parent, v FROM c71_c", "SELECT * FROM c71.c")?;
        live.same("SELECT id, amount FROM orders_x_copy", "SELECT * FROM c71.orders_x")?;
        live.same("SELECT id, amount, shard, base FROM ods_orders", all)
    };
    ensure!(same(&live)? == 5);
    for (sql, rows) in [
        ("UPDATE orders_1 SET amount = amount + 1; DELETE FROM orders_2 WHERE id = 1", 4),
        (
            "BEGIN; INSERT INTO orders_1 VALUES (3, 5); INSERT INTO orders_2 VALUES (3, 6); INSERT INTO orders_30 VALUES (7, 3); COMMIT",
            7,
        ),
        ("UPDATE orders_1 SET id = 4 WHERE id = 1; UPDATE orders_30 SET id = 4 WHERE id = 1", 7),
        (
            "BEGIN; DELETE FROM a; INSERT INTO b VALUES (2, 'b2'); UPDATE c SET parent = 1; DELETE FROM orders_x; COMMIT",
            7,
        ),
        ("DELETE FROM orders_30", 5),
    ] {
        live.change(&format!("USE c71; {sql}"))?;
        let found = same(&live)?;
        ensure!(found == rows, "{found} rows after {sql}");
    }
    live.end()?;
    Ok(())
}

#[test]
fn case_71_tables_that_would_meet_are_refused() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE c71one; CREATE DATABASE c71two;
         CREATE TABLE c71one.t (id INT PRIMARY KEY); CREATE TABLE c71two.t (id INT PRIMARY KEY)",
    )?;
    let job = |body: &str| {
        let body = format!("sink dw = sqlite {{ path = \"target.db\" }}\n{body}");
        Job::with(server, "[\"c71one.*\", \"c71two.*\"]", "", "", &body)
    };
    let meeting = job("src.* => dw.*");
    meeting.fails(211)?;
    ensure!(!meeting.path("target.db").exists());
    let apart = job("src.* => dw.\"{database}_{table}\"");
    apart.catch_up(&[])?;
    apart.verify()?;
    Ok(())
}
