//! Views for tests of the whole program: tables with what is hard for views, random changes of them, and each view as the source
//! answers it.

use anyhow::{Context, Result, bail, ensure};

use crate::servers::Server;

/// Views of the tables and flows of them into the sink `dw`.
pub const VIEWS: &str = r#"
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

/// A view, its columns, and the query that the source answers with the same rows.
pub struct Question {
    /// The view, and its table at the target.
    pub view: &'static str,
    /// Columns that read the same at every kind of target.
    pub columns: &'static str,
    /// Asked of the source.
    pub query: &'static str,
}

/// What is asked at both sides. (`weight` is left out: how many digits of a DOUBLE are printed differs.)
pub const QUESTIONS: &[Question] = &[
    Question {
        view: "order_lines",
        columns: "id, name, region, amount",
        query: "SELECT o.id, c.name, c.region, o.amount FROM orders o JOIN customers c ON o.customer = c.id",
    },
    Question {
        view: "by_region",
        columns: "region, total, orders, least, most, mean, names",
        query: "SELECT c.region, SUM(o.amount), COUNT(*), MIN(o.amount), MAX(o.amount), AVG(o.amount), COUNT(DISTINCT c.name) \
                FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.region",
    },
    Question {
        view: "with_coupons",
        columns: "id, percent",
        query: "SELECT o.id, COALESCE(k.percent, -1) FROM orders o LEFT JOIN coupons k ON o.coupon = k.code",
    },
    Question {
        view: "lost",
        columns: "id, customer",
        query: "SELECT o.id, o.customer FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)",
    },
    Question {
        view: "best",
        columns: "id, amount",
        query: "SELECT * FROM (SELECT id, amount FROM orders WHERE amount IS NOT NULL ORDER BY amount DESC, id LIMIT 3) b",
    },
    Question { view: "names", columns: "name", query: "SELECT DISTINCT name FROM customers" },
    Question {
        view: "everything",
        columns: "total, entries",
        query: "SELECT SUM(balance), COUNT(*) FROM (SELECT balance FROM accounts UNION ALL SELECT balance FROM ledgers) e",
    },
];

impl Question {
    /// Asked of the target.
    pub fn at_target(&self) -> String {
        format!("SELECT {} FROM {}", self.columns, self.view)
    }

    /// The source's rows: a bar between columns, NULL as that word, sorted.
    pub fn at_source(&self, server: &Server, database: &str) -> Result<Vec<String>> {
        let printed = server.sql(&format!("USE {database}; {}", self.query))?;
        let mut rows: Vec<String> = printed.lines().map(|line| line.replace('\t', "|")).collect();
        rows.sort();
        Ok(rows)
    }
}

/// What is in all accounts and ledgers together, and how many they are: no transaction changes it.
pub const TOTAL: &str = "4000.00|80";

/// One row, if views have spoken: [`TOTAL`]; and pairs of numbers that are equal at each moment of the source: of lines and of the groups of
/// them, their number and their sum; the number of orders, and of those that a view names. One statement, so that it reads one moment.
pub const MOMENT: &str = "SELECT e.total, e.entries, (SELECT COUNT(*) FROM order_lines), (SELECT COALESCE(SUM(orders), 0) FROM by_region), \
    (SELECT COALESCE(SUM(ROUND(amount * 100)), 0) FROM order_lines), (SELECT COALESCE(SUM(ROUND(total * 100)), 0) FROM by_region), \
    (SELECT COUNT(*) FROM orders), (SELECT COUNT(DISTINCT id) FROM with_coupons) FROM everything e";

/// Whether what [`MOMENT`] read, with bars between columns, is of one moment of the source; what is not is said. `with_orders`: false where the
/// target empties a table outside of the transaction of the tick.
pub fn is_one_moment(row: &str, with_orders: bool) -> Result<()> {
    let columns: Vec<&str> = row.split('|').collect();
    let [total, entries, lines, grouped, amounts, totals, orders, named] = columns[..] else {
        bail!("not what was asked for: {row}")
    };
    ensure!(format!("{total}|{entries}") == TOTAL, "half of a transfer: {row}");
    let number = |text: &str| text.parse::<f64>().with_context(|| format!("no number: {row}"));
    ensure!(
        lines == grouped && number(amounts)? == number(totals)?,
        "the lines and their sums are of two moments: {row}"
    );
    ensure!(!with_orders || orders == named, "a table and a view of it are of two moments: {row}");
    Ok(())
}

/// The tables, with their first rows.
pub fn tables(server: &Server, database: &str) -> Result<()> {
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
         INSERT INTO coupons (code, percent) VALUES ('c0', 5), ('c0', 5), ('c1', 10), (NULL, 99)",
        server.kind().recursion(1000)
    ))?;
    Ok(())
}

/// Random transactions, repeatable by seed.
pub struct Random {
    state: u64,
    /// Columns that no view reads, as they were added.
    added: Vec<String>,
    columns: u64,
    /// Of a column that no view reads.
    width: u64,
}

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed, added: Vec::new(), columns: 0, width: 20 }
    }

    /// A number below another.
    pub fn below(&mut self, n: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % n
    }

    /// Some transactions.
    pub fn changes(&mut self, count: usize) -> String {
        let mut all = String::new();
        for _ in 0..count {
            let (order, customer) = (1 + self.below(640), 1 + self.below(36));
            let (one, other, cents) =
                (1 + self.below(40), 1 + self.below(40), self.below(900) as f64 / 100.0);
            all += &match self.below(11) {
                0 => format!(
                    "REPLACE INTO orders (id, customer, amount, weight, coupon, unread) VALUES ({order}, {customer}, {cents}, {cents} / 7, 'c{}', 'z');",
                    cents as u64
                ),
                1 => format!("DELETE FROM orders WHERE id BETWEEN {order} AND {order} + 3;"),
                2 => format!(
                    "UPDATE orders SET customer = NULLIF({customer}, 5), amount = NULLIF(amount + {cents}, 30) WHERE id % 50 = {};",
                    order % 50
                ),
                3 => format!("UPDATE IGNORE orders SET id = id + 700 WHERE id = {order};"),
                4 => "UPDATE IGNORE orders SET id = id - 700 WHERE id > 700 LIMIT 2;".into(),
                5 => format!(
                    "REPLACE INTO customers (id, name, region, unread) VALUES ({customer}, 'name {}', {}, 'x');",
                    self.below(12),
                    self.below(6)
                ),
                6 => format!("DELETE FROM customers WHERE id = {customer};"),
                7 => format!(
                    "INSERT INTO coupons (code, percent) VALUES ('c{}', {});",
                    self.below(6),
                    self.below(50)
                ),
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

    /// Money moves from one to another, and through a third.
    pub fn transfers(&mut self, count: usize) -> String {
        let mut all = String::new();
        for _ in 0..count {
            let (one, other, third) = (1 + self.below(40), 1 + self.below(40), 1 + self.below(40));
            let cents = self.below(2000) as f64 / 100.0;
            let tables = ["accounts", "ledgers"];
            let (from, to) = (tables[self.below(2) as usize], tables[self.below(2) as usize]);
            let end = if self.below(8) == 0 { "ROLLBACK" } else { "COMMIT" };
            all += &format!(
                "BEGIN; UPDATE {from} SET balance = balance - {cents} WHERE id = {one}; \
                 UPDATE {to} SET balance = balance + {cents} * 2 WHERE id = {third}; \
                 UPDATE {to} SET balance = balance - {cents} WHERE id = {third}; \
                 UPDATE {from} SET id = 100 WHERE id = {other}; UPDATE {from} SET id = {other} WHERE id = 100; {end};"
            );
        }
        all
    }

    /// Some of what is rarer: a key several times in one transaction, keys that change places, a table that is emptied, columns that no view reads.
    pub fn rarer(&mut self) -> String {
        let (order, customer) = (1 + self.below(640), 1 + self.below(36));
        match self.below(8) {
            0 | 1 => format!(
                "BEGIN; DELETE FROM orders WHERE id = {order}; \
                 INSERT INTO orders (id, customer, amount, coupon) VALUES ({order}, 1, 1, 'c1'); \
                 UPDATE orders SET amount = amount + 1, customer = {customer} WHERE id = {order}; \
                 UPDATE orders SET amount = amount + 1, coupon = NULL WHERE id = {order}; COMMIT; \
                 BEGIN; INSERT INTO orders (id, amount) VALUES (5000, 99); UPDATE orders SET amount = 98 WHERE id = 5000; \
                 DELETE FROM orders WHERE id = 5000; COMMIT; \
                 BEGIN; UPDATE customers SET region = 7; ROLLBACK;"
            ),
            // through a third key, in one transaction
            2 => format!(
                "BEGIN; UPDATE customers SET id = 9000 WHERE id = {customer}; \
                 UPDATE customers SET id = {customer} WHERE id = {customer} % 36 + 1; \
                 UPDATE customers SET id = {customer} % 36 + 1 WHERE id = 9000; COMMIT;"
            ),
            3 => "TRUNCATE TABLE coupons; INSERT INTO coupons (code, percent) VALUES ('c3', 1), ('c4', 2), ('c4', 2);".into(),
            4 => {
                "TRUNCATE TABLE customers; INSERT INTO customers (id, name, region) SELECT id, CONCAT('name ', id % 7), id % 4 FROM accounts;"
                    .into()
            }
            5 => {
                "TRUNCATE TABLE orders; INSERT INTO orders (id, customer, amount, weight, coupon) \
                 SELECT a.id * 10 + b.id % 10, b.id, a.id * 7 % 101 + 0.25, b.id / 3, CONCAT('c', b.id % 6) FROM accounts a JOIN ledgers b ON b.id <= 10;"
                    .into()
            }
            6 if self.added.len() < 3 => {
                self.columns += 1;
                let (table, place) =
                    [("orders", "FIRST"), ("customers", "AFTER id"), ("accounts", "")][self.below(3) as usize];
                let column = format!("more_{}", self.columns);
                self.added.push(format!("ALTER TABLE {table} DROP COLUMN {column};"));
                // what the rows have in it is not in the log then: the table is copied anew
                // (not that of the moments, which are looked at in the table itself too)
                let computed = table != "orders" && self.below(2) == 0;
                let default = if computed { "(id % 5)".into() } else { self.below(9).to_string() };
                format!("ALTER TABLE {table} ADD COLUMN {column} INT DEFAULT {default} {place};")
            }
            6 => self.added.remove(0),
            _ => {
                self.width = (self.width + 1).min(200);
                format!(
                    "ALTER TABLE customers MODIFY unread VARCHAR({}); UPDATE customers SET unread = 'other {customer}' WHERE id % 3 = 0;",
                    self.width
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_moments_are_not_one() {
        assert!(is_one_moment("4000.00|80|2|2|17|17.0|3|3", true).is_ok());
        for row in [
            "3999.00|80|2|2|17|17.0|3|3",
            "4000.00|80|2|1|17|17.0|3|3",
            "4000.00|80|2|2|17|16.0|3|3",
            "4000.00|80|2|2|17|17.0|3|4",
        ] {
            assert!(is_one_moment(row, true).is_err(), "{row}");
        }
        assert!(is_one_moment("4000.00|80|2|2|17|17.0|3|4", false).is_ok());
    }
}
