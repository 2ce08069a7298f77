//! Views of live servers: what the target holds is what the source answers to the same query, at every moment, through deletions, moved keys,
//! kills and restarts.

mod support;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::Server;
use support::{Job, Run, server};

const VIEWS: &str = r#"
sink dw = sqlite { path = "target.db" }

view order_lines =
  from src.orders as o
  |> join src.customers as c on o.customer = c.id
  |> select o.id, c.name, c.region, o.amount, o.weight

view by_region =
  from order_lines
  |> aggregate sum(amount) as total, count(*) as orders, min(amount) as least, max(amount) as most,
     avg(amount) as mean, count(distinct name) as names, sum(weight) as weight
     group by region

view with_coupons =
  from src.orders as o
  |> left join src.coupons as k on o.coupon = k.code
  |> select o.id, coalesce(k.percent, -1) as percent

view lost =
  from src.orders as o
  |> anti join src.customers as c on o.customer = c.id
  |> select o.id, o.customer

view best =
  from src.orders
  |> where amount is not null
  |> top 3 by amount desc, id
  |> select id, amount

view names =
  from src.customers
  |> select name
  |> distinct

view everything =
  from src.accounts
  |> select balance
  |> union all of_ledgers
  |> aggregate sum(balance) as total, count(*) as entries

view of_ledgers =
  from src.ledgers
  |> select balance

order_lines  => dw.order_lines
by_region    => dw.by_region
with_coupons => dw.with_coupons
lost         => dw.lost
best         => dw.best
names        => dw.names
everything   => dw.everything
src.orders   => dw.orders
"#;

/// Each view as the source says it, and as it stands at the target.
const QUERIES: &[(&str, &str, &str)] = &[
    (
        "order_lines",
        "SELECT CONCAT_WS('|', o.id, c.name, c.region, COALESCE(o.amount, '')) FROM orders o JOIN customers c ON o.customer = c.id",
        "SELECT id || '|' || name || '|' || region || '|' || coalesce(amount, '') FROM order_lines",
    ),
    (
        "by_region",
        "SELECT CONCAT_WS('|', c.region, COALESCE(SUM(o.amount), ''), COUNT(*), COALESCE(MIN(o.amount), ''), COALESCE(MAX(o.amount), ''), \
         COALESCE(AVG(o.amount), ''), COUNT(DISTINCT c.name)) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region",
        "SELECT region || '|' || coalesce(total, '') || '|' || orders || '|' || coalesce(least, '') || '|' || coalesce(most, '') || '|' \
         || coalesce(mean, '') || '|' || names FROM by_region",
    ),
    (
        "with_coupons",
        "SELECT CONCAT_WS('|', o.id, COALESCE(k.percent, -1)) FROM orders o LEFT JOIN coupons k ON o.coupon = k.code",
        "SELECT id || '|' || percent FROM with_coupons",
    ),
    (
        "lost",
        "SELECT CONCAT_WS('|', o.id, COALESCE(o.customer, '')) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)",
        "SELECT id || '|' || coalesce(customer, '') FROM lost",
    ),
    (
        "best",
        "SELECT * FROM (SELECT CONCAT_WS('|', id, amount) FROM orders WHERE amount IS NOT NULL ORDER BY amount DESC, id LIMIT 3) b",
        "SELECT id || '|' || amount FROM best",
    ),
    ("names", "SELECT DISTINCT name FROM customers", "SELECT name FROM names"),
    (
        "everything",
        "SELECT CONCAT_WS('|', SUM(balance), COUNT(*)) FROM (SELECT balance FROM accounts UNION ALL SELECT balance FROM ledgers) e",
        "SELECT total || '|' || entries FROM everything",
    ),
];

/// What is in all accounts and ledgers together.
const TOTAL: &str = "4000.00|80";

fn tables(server: &Server, database: &str) -> Result<()> {
    server.sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, region INT NOT NULL,
           unread VARCHAR(20));
         CREATE TABLE orders (id INT PRIMARY KEY, customer INT, amount DECIMAL(10,2), weight DOUBLE,
           coupon VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, unread TEXT);
         CREATE TABLE coupons (code VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, percent INT);
         CREATE TABLE accounts (id INT PRIMARY KEY, balance DECIMAL(12,2) NOT NULL);
         CREATE TABLE ledgers (id INT PRIMARY KEY, balance DECIMAL(12,2) NOT NULL);
         {};
         INSERT INTO accounts WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 40) SELECT n, 50 FROM s;
         INSERT INTO ledgers SELECT * FROM accounts;
         INSERT INTO customers SELECT id, CONCAT('name ', id % 9), id % 5, 'x' FROM accounts WHERE id <= 30;
         INSERT INTO orders WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 600)
           SELECT n, n % 34, n * 7 % 101 + 0.25, n / 3, CONCAT('c', n % 6), 'y' FROM s;
         INSERT INTO coupons VALUES ('c0', 5), ('c0', 5), ('c1', 10), (NULL, 99)",
        server.kind().recursion(1000)
    ))?;
    Ok(())
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Some transactions.
    fn changes(&mut self, count: usize) -> String {
        let mut all = String::new();
        for _ in 0..count {
            let (order, customer) = (1 + self.below(640), 1 + self.below(36));
            let (one, other, cents) =
                (1 + self.below(40), 1 + self.below(40), self.below(900) as f64 / 100.0);
            all += &match self.below(11) {
                0 => format!(
                    "REPLACE INTO orders VALUES ({order}, {customer}, {cents}, {cents} / 7, 'c{}', 'z');",
                    cents as u64
                ),
                1 => format!("DELETE FROM orders WHERE id BETWEEN {order} AND {order} + 3;"),
                2 => format!(
                    "UPDATE orders SET customer = NULLIF({customer}, 5), amount = NULLIF(amount + {cents}, 30) WHERE id % 50 = {};",
                    order % 50
                ),
                3 => format!("UPDATE IGNORE orders SET id = id + 700 WHERE id = {order};"),
                4 => format!("UPDATE IGNORE orders SET id = id - 700 WHERE id > 700 LIMIT 2;"),
                5 => format!(
                    "REPLACE INTO customers VALUES ({customer}, 'name {}', {}, 'x');",
                    self.below(12),
                    self.below(6)
                ),
                6 => format!("DELETE FROM customers WHERE id = {customer};"),
                7 => format!("INSERT INTO coupons VALUES ('c{}', {});", self.below(6), self.below(50)),
                8 => format!("DELETE FROM coupons WHERE code = 'c{}' LIMIT 1;", self.below(6)),
                // what is taken from one is given to another, in one transaction: sometimes over two tables
                9 => format!(
                    "BEGIN; UPDATE accounts SET balance = balance - {cents} WHERE id = {one}; \
                     UPDATE ledgers SET balance = balance + {cents} WHERE id = {other}; COMMIT;"
                ),
                _ => format!(
                    "BEGIN; UPDATE ledgers SET balance = balance - {cents} WHERE id = {one}; DO SLEEP(0.001); \
                     UPDATE ledgers SET balance = balance + {cents} WHERE id = {other}; COMMIT;"
                ),
            };
        }
        all
    }
}

/// The source's own answers, and the target's.
fn compare(job: &Job, database: &str) -> Result<()> {
    for (view, at_source, at_target) in QUERIES {
        let mut expected: Vec<String> =
            server().sql(&format!("USE {database}; {at_source}"))?.lines().map(str::to_owned).collect();
        let mut found = job.rows(at_target)?;
        expected.sort();
        found.sort();
        ensure!(!expected.is_empty(), "view {view}: nothing to compare");
        ensure!(found == expected, "view {view}: the source says\n{expected:#?}\nthe target has\n{found:#?}");
    }
    Ok(())
}

fn job(database: &str) -> Result<Job> {
    tables(server(), database)?;
    let more = "chunk_rows = 100\n  chunk_readers = 2";
    Ok(Job::with(server(), &format!("[\"{database}.*\"]"), "", more, VIEWS))
}

/// Looks at the target as long as this takes: all that is there must be of one moment of the source.
fn watched(job: &Job, seen: &mut usize, until: Instant) -> Result<()> {
    while Instant::now() < until {
        // SQLite reads one commit's state in one statement
        let found = job.rows(
            "SELECT (SELECT total || '|' || entries FROM everything) || ' ' || \
             (SELECT coalesce(sum(round(amount * 100)), 0) FROM order_lines) || ' ' || (SELECT coalesce(sum(round(total * 100)), 0) FROM by_region) || ' ' || \
             (SELECT count(*) FROM orders) || ' ' || (SELECT count(DISTINCT id) FROM with_coupons)",
        );
        // before views have spoken there is no table, or nothing in it
        if let Ok(rows) = found
            && let [row] = &rows[..]
            && let [total, lines, regions, orders, coupons] = row.split(' ').collect::<Vec<_>>()[..]
        {
            ensure!(total == TOTAL, "half of a transfer: {row}");
            ensure!(lines == regions, "the lines and their sums are of two moments: {row}");
            ensure!(orders == coupons, "a table and a view of it are of two moments: {row}");
            *seen += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[test]
fn case_72_and_73_views_say_what_the_source_says_at_every_moment() -> Result<()> {
    let database = "v_moments";
    let job = job(database)?;
    let mut random = Random(73);
    let mut seen = 0;
    for round in 0..6 {
        let workers = (1 + random.below(3)).to_string();
        let run = job.start(&["--workers", &workers])?;
        let until = Instant::now() + Duration::from_millis(900 + random.below(1500));
        let writing = {
            let sql = format!("USE {database}; {}", random.changes(150));
            std::thread::spawn(move || server().sql(&sql))
        };
        let watching = watched(&job, &mut seen, until);
        let said = run.kill()?;
        watching.with_context(|| format!("round {round}, {workers} workers\n{}", said.text()))?;
        writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    }
    let said = job.catch_up(&["--workers", "2"])?;
    compare(&job, database).with_context(|| said.text())?;
    let rows = job.verify()?;
    ensure!(seen > 50, "looked {seen} times only");
    println!("{seen} moments seen, {rows} rows verified");
    Ok(())
}

#[test]
fn case_75_killed_at_each_step_with_views() -> Result<()> {
    let steps = [
        ("snapshot.chunk-given", 4),
        ("views.speak", 1),
        ("views.saved", 1),
        ("views.saved", 3),
        ("checkpoint.partial", 2),
        ("checkpoint.saved", 3),
        ("sink.commit", 5),
        ("sink.committed", 6),
    ];
    for (n, (step, nth)) in steps.into_iter().enumerate() {
        let database = format!("v_step_{n}");
        let job = job(&database)?;
        let mut random = Random(n as u64);
        let mut command = job.command("run", &["--workers", if n % 2 == 0 { "1" } else { "2" }]);
        command.env("FAILPOINTS", format!("{step}={}*off->return", nth - 1));
        let mut run = Run::start(&mut command)?;
        let mut rounds = 0;
        while !run.has_ended()? {
            ensure!(rounds < 60, "it never gets to {step}\n{}", run.err());
            server().sql(&format!("USE {database}; {} DO SLEEP(0.05)", random.changes(10)))?;
            rounds += 1;
        }
        let said = run.wait()?;
        ensure!(said.code.is_none(), "it was to be killed at {step}\n{}", said.text());
        server().sql(&format!("USE {database}; {}", random.changes(20)))?;
        let again = job.catch_up(&[])?;
        let runs = || {
            format!("{step}, {nth}. time: it was killed:\n{}\nand went on:\n{}", said.text(), again.text())
        };
        compare(&job, &database).with_context(runs)?;
        job.verify().with_context(runs)?;
    }
    Ok(())
}

#[test]
fn a_restart_writes_nothing_again_and_asks_the_source_for_nothing() -> Result<()> {
    let database = "v_again";
    let job = job(database)?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    let db = job.target()?;
    for (view, ..) in QUERIES {
        db.execute_batch(&format!(
            "CREATE TRIGGER i_{view} AFTER INSERT ON {view} BEGIN SELECT RAISE(ABORT, 'written again'); END;
             CREATE TRIGGER u_{view} AFTER UPDATE ON {view} BEGIN SELECT RAISE(ABORT, 'written again'); END;
             CREATE TRIGGER d_{view} AFTER DELETE ON {view} BEGIN SELECT RAISE(ABORT, 'written again'); END"
        ))?;
    }
    // nothing that any view reads
    server().sql(&format!(
        "USE {database}; UPDATE customers SET unread = 'other'; UPDATE orders SET unread = id"
    ))?;
    let said = job.catch_up(&["--workers", "3"])?;
    ensure!(said.done("snapshot") == Some(0), "{}", said.text());
    for (view, ..) in QUERIES {
        db.execute_batch(&format!("DROP TRIGGER i_{view}; DROP TRIGGER u_{view}; DROP TRIGGER d_{view}"))?;
    }
    server().sql(&format!(
        "USE {database}; DELETE FROM orders WHERE id % 3 = 0; UPDATE customers SET region = 9 WHERE id < 5"
    ))?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    job.verify()?;
    Ok(())
}

#[test]
fn tables_of_views_change() -> Result<()> {
    let database = "v_ddl";
    let job = job(database)?;
    job.catch_up(&[])?;
    // what no view reads comes and goes; types grow; all rows go
    server().sql(&format!(
        "USE {database}; ALTER TABLE orders ADD COLUMN more INT FIRST; ALTER TABLE customers DROP COLUMN unread;
         ALTER TABLE orders MODIFY amount DECIMAL(14,2); UPDATE orders SET amount = amount + 1000000000 WHERE id = 7; TRUNCATE TABLE coupons;
         INSERT INTO coupons VALUES ('c3', 1); ALTER TABLE customers MODIFY region BIGINT NOT NULL"
    ))?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    job.verify()?;
    server().sql(&format!(
        "USE {database}; DELETE FROM customers; INSERT INTO customers VALUES (1, 'only', 1)"
    ))?;
    job.catch_up(&[])?;
    job.verify()?;
    // what a view reads is gone
    server().sql(&format!(
        "USE {database}; ALTER TABLE orders DROP COLUMN weight; UPDATE orders SET amount = 1 WHERE id = 8"
    ))?;
    let said = job.fails(1311)?;
    ensure!(
        said.err.contains("\"weight\"") && said.err.contains("remove the state folder"),
        "{}",
        said.text()
    );
    Ok(())
}

#[test]
fn a_key_that_does_not_tell_rows_apart_is_told() -> Result<()> {
    let database = "v_conflict";
    tables(server(), database)?;
    let with = |policy: &str| {
        let body = format!(
            "sink dw = sqlite {{ path = \"target.db\" }}
             view regions = from src.customers |> select region, name
             regions => dw.regions key (region){policy}"
        );
        Job::with(server(), &format!("[\"{database}.*\"]"), "", "", &body)
    };
    let said = with("").fails(314)?;
    ensure!(said.err.contains("(region)") && said.err.contains("name "), "{}", said.text());
    let job = with(" with { on_conflict = log }");
    let said = job.catch_up(&[])?;
    ensure!(said.err.contains("warning[E0314]"), "{}", said.text());
    let last = |job: &Job| -> Result<()> {
        let expected = server().sql(&format!(
            "SELECT region, MAX(name) FROM {database}.customers GROUP BY region ORDER BY region"
        ))?;
        let found = job.rows("SELECT region || char(9) || name FROM regions ORDER BY region")?.join("\n");
        ensure!(found.trim() == expected.trim(), "expected\n{expected}\nfound\n{found}");
        Ok(())
    };
    last(&job)?;
    // the one that stands goes, and another one of its key stands
    server().sql(&format!("USE {database}; DELETE FROM customers WHERE name = 'name 8'; INSERT INTO customers VALUES (99, 'zz', 2, '')"))?;
    job.catch_up(&[])?;
    last(&job)
}
