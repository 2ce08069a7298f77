//! Clients that write to tables of every sort, and meet in them.

use std::fmt::Write as _;

use rand::Rng;
use rand::rngs::StdRng;

use super::{Act, Step, StepKind, numbers, pick};
use crate::history::{hex, quoted, text};
use crate::servers::ServerKind;

/// The tables of `soak_w`.
pub(super) fn create(kind: ServerKind, rows: u64) -> String {
    // MariaDB does not log what a foreign key does
    let cascade = if kind.is_mariadb() { "RESTRICT" } else { "CASCADE" };
    format!(
        "
CREATE DATABASE soak_w CHARSET utf8mb4;
USE soak_w;
{recursion};
CREATE TABLE bag (v INT, w VARCHAR(40), b VARBINARY(12));
CREATE TABLE bag_typed (t TIMESTAMP(3) NULL, d DECIMAL(12,3), x DOUBLE, f FLOAT, s CHAR(6), y YEAR, at DATETIME(6), j JSON, e ENUM('a','b'));
CREATE TABLE words (a VARCHAR(24) NOT NULL, b CHAR(6) NOT NULL, n INT NOT NULL, note VARCHAR(100), PRIMARY KEY (a, b)) COLLATE utf8mb4_0900_ai_ci;
CREATE TABLE padded (k VARCHAR(20) NOT NULL PRIMARY KEY, n INT NOT NULL) CHARSET latin1 COLLATE latin1_swedish_ci;
CREATE TABLE general (k VARCHAR(20) NOT NULL, l CHAR(4) NOT NULL, n INT NOT NULL, PRIMARY KEY (k, l)) COLLATE utf8mb4_general_ci;
CREATE TABLE seats (id INT NOT NULL PRIMARY KEY, who VARCHAR(20) NOT NULL, n INT);
CREATE TABLE uniq (n INT, u VARBINARY(20) NOT NULL, w VARCHAR(20), UNIQUE KEY (u));
CREATE TABLE fixed (k BINARY(4) NOT NULL PRIMARY KEY, n INT);
CREATE TABLE prices (d DECIMAL(20,4) NOT NULL, at DATETIME(3) NOT NULL, e ENUM('x','y','z') NOT NULL, n INT, PRIMARY KEY (d, at, e));
CREATE TABLE tops (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, n INT);
CREATE TABLE parts (id INT NOT NULL PRIMARY KEY, n INT, w VARCHAR(30)) PARTITION BY RANGE (id)
  (PARTITION p0 VALUES LESS THAN (1000), PARTITION p1 VALUES LESS THAN (2000), PARTITION p2 VALUES LESS THAN (3000),
   PARTITION p3 VALUES LESS THAN (4000), PARTITION pmax VALUES LESS THAN MAXVALUE);
CREATE TABLE large (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, grp INT NOT NULL, w VARCHAR(60), n INT, KEY (grp));
CREATE TABLE nightly (id INT NOT NULL PRIMARY KEY, n INT, w VARCHAR(40));
CREATE TABLE audited (id INT NOT NULL PRIMARY KEY, n INT);
CREATE TABLE audit (seen INT, before_n INT, after_n INT);
CREATE TRIGGER audited_update AFTER UPDATE ON audited FOR EACH ROW INSERT INTO audit VALUES (NEW.id, OLD.n, NEW.n);
CREATE TABLE computed (id INT NOT NULL PRIMARY KEY, n INT, w VARCHAR(20), twice BIGINT AS (n * 2) STORED, low VARCHAR(20) AS (LOWER(w)) VIRTUAL);
CREATE TABLE parents (id INT NOT NULL PRIMARY KEY, n INT);
CREATE TABLE children (id INT NOT NULL PRIMARY KEY, parent INT, n INT, FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE {cascade});
CREATE TABLE accounts (id INT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
CREATE TABLE accounts2 (id INT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
CREATE TABLE hidden_first (id INT NOT NULL PRIMARY KEY, n INT);
INSERT INTO accounts {a_hundred} SELECT n, 1000 FROM s;
INSERT INTO accounts2 {a_hundred} SELECT n, 1000 FROM s;
INSERT INTO nightly {many} SELECT n, n % 7, CONCAT('night ', n) FROM s;
INSERT INTO large (grp, w, n) {many} SELECT 0, CONCAT('first ', n), n FROM s;
INSERT INTO parts {many} SELECT n * 4, n, CONCAT('part ', n) FROM s;
INSERT INTO bag {a_hundred} SELECT n % 20, CONCAT('w', n % 3), NULL FROM s;
INSERT INTO seats {a_hundred} SELECT n, CONCAT('guest ', n), n FROM s;
INSERT INTO audited {a_hundred} SELECT n, n FROM s;
",
        recursion = kind.recursion(1_000_000),
        a_hundred = numbers(100),
        many = numbers(rows.max(10)),
    )
}

/// Texts that are equal, or not, as the collation has it.
const WORDS: &[&str] = &[
    "Straße", "strasse", "STRASSE", "é", "E", "e", "a", "A", "ä", "Ä", "B", "b", "ab", "aB", "a b", "ø", "o",
    "O", "n", "ñ", "10", "9", "09", "", "zz", "ZZ", "it''s", "ﬁ", "fi", "ǅ", "İ", "i", "I", "ı", "가", "か",
    "カ", "が", "🦀", "👍",
];
const LATIN: &[&str] = &[
    "a", "A", "a ", "A  ", "ä", "Ä", "e", "é", "€", "ß", "ss", "s", "", " ", "z", "Z", "ÿ", "y", "ab", "AB ",
    "æ", "ae",
];

pub(super) struct Wild {
    rng: StdRng,
    kind: ServerKind,
}

impl Wild {
    pub(super) fn new(rng: StdRng, kind: ServerKind) -> Wild {
        Wild { rng, kind }
    }
}

impl Act for Wild {
    fn database(&self) -> &'static str {
        "soak_w"
    }

    fn next(&mut self) -> Step {
        let rng = &mut self.rng;
        let mut sql = String::new();
        if rng.random_ratio(1, 5) {
            transfer(rng, &mut sql);
            return Step { sql, kind: StepKind::Write };
        }
        if rng.random_ratio(1, 4) {
            // by itself, a transaction each
            statement(rng, self.kind, &mut sql);
            return Step { sql, kind: StepKind::Write };
        }
        sql += pick(rng, &["BEGIN;\n", "START TRANSACTION;\n", "SET autocommit = 0;\n"]);
        let count = if rng.random_ratio(1, 15) { rng.random_range(30..120) } else { rng.random_range(1..9) };
        let mut open = 0;
        for _ in 0..count {
            statement(rng, self.kind, &mut sql);
            match rng.random_range(0..20) {
                0 => {
                    open += 1;
                    _ = writeln!(sql, "SAVEPOINT s{open};");
                }
                1 if open > 0 => {
                    open = rng.random_range(1..=open);
                    _ = writeln!(sql, "ROLLBACK TO SAVEPOINT s{open};");
                }
                2 if open > 0 => {
                    _ = writeln!(sql, "RELEASE SAVEPOINT s{open};");
                    open -= 1;
                }
                _ => {}
            }
        }
        sql += if rng.random_ratio(1, 8) { "ROLLBACK;\n" } else { "COMMIT;\n" };
        sql += "SET autocommit = 1;\n";
        Step { sql, kind: StepKind::Write }
    }
}

/// Money goes from one account to another, or to one of another table; each in one statement, since a deadlock
/// ends the transaction and not the client.
fn transfer(rng: &mut StdRng, sql: &mut String) {
    let (from, to, n) = (rng.random_range(1..=100), rng.random_range(1..=100), rng.random_range(1..50));
    *sql += "BEGIN;\n";
    for _ in 0..rng.random_range(1..4) {
        if rng.random_ratio(1, 2) && from != to {
            _ = writeln!(
                sql,
                "UPDATE accounts SET n = n + CASE id WHEN {from} THEN -{n} ELSE {n} END WHERE id IN ({from}, {to});"
            );
        } else {
            _ = writeln!(
                sql,
                "UPDATE accounts a JOIN accounts2 b SET a.n = a.n - {n}, b.n = b.n + {n} WHERE a.id = {from} AND b.id = {to};"
            );
        }
    }
    *sql += if rng.random_ratio(1, 10) { "ROLLBACK;\n" } else { "COMMIT;\n" };
}

fn statement(rng: &mut StdRng, kind: ServerKind, sql: &mut String) {
    match rng.random_range(0..100) {
        0..18 => bag(rng, sql),
        18..24 => bag_typed(rng, sql),
        24..36 => words(rng, "words", ["a", "b"], WORDS, sql),
        36..44 => padded(rng, sql),
        44..50 => words(rng, "general", ["k", "l"], WORDS, sql),
        50..62 => seats(rng, sql),
        62..67 => uniq(rng, sql),
        67..72 => prices(rng, sql),
        72..75 => tops(rng, sql),
        75..83 => parts(rng, sql),
        83..88 => nightly(rng, sql),
        88..92 => audited(rng, sql),
        92..95 => computed(rng, sql),
        95..99 => family(rng, kind, sql),
        _ => {
            let n = rng.random_range(0..1000);
            _ = writeln!(sql, "INSERT INTO hidden_first VALUES ({n}, 1) ON DUPLICATE KEY UPDATE n = n + 1;");
        }
    }
}

fn bag(rng: &mut StdRng, sql: &mut String) {
    let (v, to) = (rng.random_range(0..20), rng.random_range(0..20));
    let w = pick(rng, &["NULL", "''", "'w1'", "'W1'", "'w1 '", "'ünïcödé 🦀'", "'a rather long text, 30'"]);
    _ = match rng.random_range(0..20) {
        0..8 => {
            let b = if rng.random_ratio(1, 2) { "NULL".into() } else { hex(rng, 2) };
            let row = format!("({v}, {w}, {b})");
            writeln!(
                sql,
                "INSERT INTO bag (v, w, b) VALUES {};",
                vec![row; rng.random_range(1..5)].join(", ")
            )
        }
        8..14 => writeln!(sql, "DELETE FROM bag WHERE v = {v} LIMIT {};", rng.random_range(1..4)),
        14..17 => writeln!(sql, "UPDATE bag SET v = {to} WHERE v = {v} LIMIT {};", rng.random_range(1..6)),
        17 => writeln!(sql, "UPDATE bag SET w = {w}, v = IF(v = 3, NULL, v) WHERE v = {v};"),
        18 => writeln!(sql, "DELETE FROM bag WHERE v = {v} OR v IS NULL;"),
        _ => writeln!(sql, "INSERT INTO bag (v, w, b) SELECT v, w, b FROM bag WHERE v = {v} LIMIT 5;"),
    };
}

fn bag_typed(rng: &mut StdRng, sql: &mut String) {
    let x = pick(rng, &["NULL", "0", "-0e0", "0.1", "1e300", "-1.5"]);
    let j = pick(rng, &["NULL", "'{}'", "'[1, 2.50, null]'", "'\"ä\"'"]);
    let n = rng.random_range(0..5);
    // to a FLOAT it is -0, which MariaDB shows as 0 to a SELECT, and as it is in the log
    let f = "-1.5e0 / 1e290";
    _ = match rng.random_range(0..10) {
        0..5 => writeln!(
            sql,
            "INSERT INTO bag_typed (t, d, x, f, s, y, at, j, e) VALUES ('2024-03-31 01:30:0{n}.5', {n}.125, {x}, {f}, 's{n}', 200{n}, '2024-02-29 00:00:00.00000{n}', {j}, 'a');"
        ),
        5..8 => writeln!(sql, "DELETE FROM bag_typed WHERE s = 's{n}' LIMIT 2;"),
        8 => writeln!(sql, "UPDATE bag_typed SET x = {x}, j = {j} WHERE s = 's{n}' LIMIT 2;"),
        _ => writeln!(sql, "UPDATE bag_typed SET s = 's1' WHERE s = 's{n}' LIMIT 1;"),
    };
}

/// Rows under keys that are equal in ways that bytes do not show.
fn words(rng: &mut StdRng, table: &str, [a, b]: [&str; 2], from: &[&str], sql: &mut String) {
    let (x, y) = (pick(rng, from), pick(rng, from));
    let (z, n) = (pick(rng, &["", "x", "X", "y", "ÿ"]), rng.random_range(0..1000));
    let other = if b == "b" { pick(rng, &["x", "Y", ""]) } else { z };
    _ = match rng.random_range(0..20) {
        0..5 => writeln!(
            sql,
            "INSERT IGNORE INTO {table} ({a}, {b}, n) VALUES ('{x}', '{z}', {n}), ('{y}', '{z}', {n});"
        ),
        5..8 => writeln!(sql, "REPLACE INTO {table} ({a}, {b}, n) VALUES ('{x}', '{z}', {n});"),
        8..10 => writeln!(
            sql,
            "INSERT INTO {table} ({a}, {b}, n) VALUES ('{x}', '{z}', {n}) ON DUPLICATE KEY UPDATE {a} = '{x}', n = n + 1;"
        ),
        10 => writeln!(sql, "UPDATE {table} SET {a} = UPPER({a}) WHERE {a} = '{x}';"),
        11 => writeln!(sql, "UPDATE {table} SET {a} = LOWER({a}), {b} = LOWER({b}) WHERE {a} = '{x}';"),
        12..14 => writeln!(sql, "UPDATE IGNORE {table} SET {a} = '{y}' WHERE {a} = '{x}' AND {b} = '{z}';"),
        14 => writeln!(sql, "UPDATE IGNORE {table} SET {b} = '{other}', n = {n} WHERE {a} = '{x}';"),
        15..17 => writeln!(sql, "DELETE FROM {table} WHERE {a} = '{x}';"),
        _ => {
            // two rows change places
            let aside = format!("~{n}");
            writeln!(
                sql,
                "UPDATE {table} SET {a} = '{aside}' WHERE {a} = '{x}' AND {b} = '{z}';\n\
                 UPDATE {table} SET {a} = '{x}' WHERE {a} = '{y}' AND {b} = '{z}';\n\
                 UPDATE {table} SET {a} = '{y}' WHERE {a} = '{aside}' AND {b} = '{z}';"
            )
        }
    };
}

fn padded(rng: &mut StdRng, sql: &mut String) {
    let (x, y, n) = (pick(rng, LATIN), pick(rng, LATIN), rng.random_range(0..1000));
    _ = match rng.random_range(0..12) {
        0..3 => writeln!(sql, "INSERT IGNORE INTO padded (k, n) VALUES ('{x}', {n}), ('{y}', {n});"),
        3..5 => writeln!(sql, "REPLACE INTO padded (k, n) VALUES ('{x}', {n});"),
        5 => writeln!(sql, "UPDATE padded SET k = CONCAT(k, ' ') WHERE k = '{x}' AND LENGTH(k) < 10;"),
        6 => writeln!(sql, "UPDATE padded SET k = UPPER(k) WHERE k = '{x}';"),
        7..9 => writeln!(sql, "UPDATE IGNORE padded SET k = '{y}' WHERE k = '{x}';"),
        9 => {
            writeln!(sql, "INSERT INTO padded (k, n) VALUES ('{x}', {n}) ON DUPLICATE KEY UPDATE k = '{x}';")
        }
        _ => writeln!(sql, "DELETE FROM padded WHERE k = '{x}';"),
    };
}

fn seats(rng: &mut StdRng, sql: &mut String) {
    let (a, b, n) = (rng.random_range(1..120), rng.random_range(1..120), rng.random_range(0..1000));
    _ = match rng.random_range(0..20) {
        0..4 => writeln!(
            sql,
            "INSERT IGNORE INTO seats (id, who, n) VALUES ({a}, 'new {n}', {n}), ({b}, 'new', NULL);"
        ),
        4..6 => writeln!(sql, "DELETE FROM seats WHERE id IN ({a}, {b}, -{a}) OR id > 300 OR id < -300;"),
        6..11 => writeln!(
            sql,
            "UPDATE seats SET id = 100000 + {n} WHERE id = {a};\nUPDATE seats SET id = {a} WHERE id = {b};\n\
             UPDATE seats SET id = {b}, n = {n} WHERE id = 100000 + {n};"
        ),
        11..13 => writeln!(sql, "UPDATE seats SET id = id + 1 WHERE id >= {a} ORDER BY id DESC;"),
        13..15 => writeln!(sql, "UPDATE seats SET id = id - 1 WHERE id <= {a} ORDER BY id;"),
        15..17 => {
            writeln!(sql, "UPDATE IGNORE seats SET id = -id WHERE id BETWEEN {} AND {};", a.min(b), a.max(b))
        }
        17 => writeln!(sql, "UPDATE IGNORE seats SET id = -id WHERE id < 0;"),
        18 => writeln!(
            sql,
            "DELETE FROM seats WHERE id = {a};\nINSERT IGNORE INTO seats (id, who, n) VALUES ({a}, 'again', {n});"
        ),
        _ => writeln!(
            sql,
            "UPDATE seats SET who = CONCAT('moved ', {n}), n = n + 1 WHERE id % 10 = {};",
            n % 10
        ),
    };
}

fn uniq(rng: &mut StdRng, sql: &mut String) {
    let keys = ["x'00'", "x'0000'", "x'61'", "x'41'", "x'ff'", "x''", "x'6120'", "x'7f'", "x'80'"];
    let (x, y, n) = (pick(rng, &keys), pick(rng, &keys), rng.random_range(0..1000));
    _ = match rng.random_range(0..6) {
        0..2 => writeln!(sql, "REPLACE INTO uniq (n, u, w) VALUES ({n}, {x}, 'u');"),
        2 => writeln!(sql, "UPDATE IGNORE uniq SET u = {y}, n = n + 1 WHERE u = {x};"),
        3 => writeln!(sql, "REPLACE INTO fixed (k, n) VALUES (LEFT(CONCAT({x}, {y}), 4), {n});"),
        4 => writeln!(sql, "UPDATE IGNORE fixed SET k = {y} WHERE k > {x} LIMIT 1;"),
        _ => writeln!(sql, "DELETE FROM uniq WHERE u = {x};\nDELETE FROM fixed WHERE k = {y};"),
    };
}

fn prices(rng: &mut StdRng, sql: &mut String) {
    let d = pick(rng, &["0", "-0.0001", "0.0001", "1.5", "1.5000", "9999999999999999.9999", "-12.3456"]);
    let at = pick(rng, &["2024-01-01", "2024-01-01 00:00:00.001", "1000-01-01", "9999-12-31 23:59:59.999"]);
    let (e, n) = (pick(rng, &["x", "y", "z"]), rng.random_range(0..1000));
    _ = match rng.random_range(0..6) {
        0..3 => writeln!(sql, "REPLACE INTO prices (d, at, e, n) VALUES ({d}, '{at}', '{e}', {n});"),
        3 => writeln!(sql, "UPDATE IGNORE prices SET d = -d, n = {n} WHERE e = '{e}';"),
        4 => writeln!(sql, "UPDATE IGNORE prices SET at = '{at}' WHERE d = {d};"),
        _ => writeln!(sql, "DELETE FROM prices WHERE d = {d} AND e = '{e}';"),
    };
}

fn tops(rng: &mut StdRng, sql: &mut String) {
    let near = pick(rng, &["18446744073709551600", "9223372036854775800", "0"]);
    let (k, n) = (rng.random_range(0..16), rng.random_range(0..1000));
    _ = match rng.random_range(0..4) {
        0..2 => writeln!(sql, "REPLACE INTO tops (id, n) VALUES ({near} + {k} - 1, {n});"),
        2 => writeln!(sql, "UPDATE IGNORE tops SET id = 18446744073709551615 - id WHERE id = {near} + {k};"),
        _ => writeln!(sql, "DELETE FROM tops WHERE id = {near} + {k};"),
    };
}

fn parts(rng: &mut StdRng, sql: &mut String) {
    let (id, n) = (rng.random_range(0..9000), rng.random_range(0..1000));
    _ = match rng.random_range(0..8) {
        0..4 => {
            writeln!(sql, "REPLACE INTO parts (id, n, w) VALUES ({id}, {n}, 'p'), ({}, {n}, NULL);", id + 1)
        }
        4 => writeln!(
            sql,
            "UPDATE IGNORE parts SET id = {} WHERE id BETWEEN {id} AND {id} + 20 LIMIT 1;",
            9000 - id
        ),
        5 | 6 => writeln!(sql, "UPDATE parts SET n = {n} WHERE id BETWEEN {id} AND {id} + 50;"),
        _ => writeln!(sql, "DELETE FROM parts WHERE id BETWEEN {id} AND {id} + 10;"),
    };
}

fn nightly(rng: &mut StdRng, sql: &mut String) {
    let (id, n) = (rng.random_range(0..1500), rng.random_range(0..1000));
    _ = match rng.random_range(0..5) {
        0..2 => {
            writeln!(sql, "REPLACE INTO nightly (id, n, w) VALUES ({id}, {n}, {});", quoted(&text(rng, 8)))
        }
        2..4 => writeln!(sql, "UPDATE nightly SET n = n + 1 WHERE id BETWEEN {id} AND {id} + 5;"),
        _ => writeln!(sql, "DELETE FROM nightly WHERE id = {id};"),
    };
}

fn audited(rng: &mut StdRng, sql: &mut String) {
    let id = rng.random_range(1..=100);
    _ = match rng.random_range(0..5) {
        0..4 => writeln!(sql, "UPDATE audited SET n = n + 1 WHERE id IN ({id}, {id} + 1);"),
        _ => writeln!(sql, "DELETE FROM audit WHERE seen IN ({id}, {id} + 1, {id} + 2, {id} + 3);"),
    };
}

fn computed(rng: &mut StdRng, sql: &mut String) {
    let (id, n) = (rng.random_range(1..60), rng.random_range(-1000..1000));
    _ = match rng.random_range(0..4) {
        0..2 => writeln!(sql, "REPLACE INTO computed (id, n, w) VALUES ({id}, {n}, 'Wört {n}');"),
        2 => writeln!(sql, "UPDATE computed SET n = n + {n}, w = UPPER(w) WHERE id > {id} LIMIT 5;"),
        _ => writeln!(sql, "DELETE FROM computed WHERE id = {id};"),
    };
}

fn family(rng: &mut StdRng, kind: ServerKind, sql: &mut String) {
    let (parent, child) = (rng.random_range(1..20), rng.random_range(1..200));
    _ = match rng.random_range(0..6) {
        0..2 => writeln!(sql, "INSERT IGNORE INTO parents (id, n) VALUES ({parent}, {child});"),
        2..5 => writeln!(
            sql,
            "INSERT INTO children (id, parent, n) VALUES ({child}, {parent}, 0) ON DUPLICATE KEY UPDATE parent = {parent}, n = n + 1;"
        ),
        _ if kind.is_mariadb() => {
            writeln!(
                sql,
                "DELETE FROM children WHERE parent = {parent};\nDELETE FROM parents WHERE id = {parent};"
            )
        }
        _ => writeln!(sql, "DELETE FROM parents WHERE id = {parent};"),
    };
}

/// A client whose transactions hold very many rows.
pub(super) struct Large {
    rng: StdRng,
    rows: u64,
}

impl Large {
    pub(super) fn new(rng: StdRng, rows: u64) -> Large {
        Large { rng, rows }
    }
}

impl Act for Large {
    fn database(&self) -> &'static str {
        "soak_w"
    }

    fn next(&mut self) -> Step {
        let (rng, rows) = (&mut self.rng, self.rows);
        let (grp, n) = (rng.random_range(0..3), rng.random_range(0..1000));
        let fill = format!(
            "INSERT INTO large (grp, w, n) {} SELECT {grp}, CONCAT('row ', n, ' of {n}'), n FROM s;\n",
            numbers(rows)
        );
        let mut sql = String::from("BEGIN;\n");
        // a group has the rows of one filling, so the table stays as large as that
        _ = match rng.random_range(0..6) {
            0..2 => writeln!(sql, "DELETE FROM large WHERE grp = {grp};\n{fill}"),
            2 => writeln!(sql, "UPDATE large SET n = n + 1, w = CONCAT(LEFT(w, 30), {n}) WHERE grp = {grp};"),
            3 => writeln!(sql, "DELETE FROM large WHERE grp = {grp};"),
            4 => writeln!(
                sql,
                "UPDATE large SET id = id + 3 WHERE grp = {grp} ORDER BY id DESC;\nDELETE FROM bag WHERE v = 1;"
            ),
            _ => writeln!(
                sql,
                "SAVEPOINT a;\nDELETE FROM large WHERE grp = {grp};\n{fill}ROLLBACK TO SAVEPOINT a;\n\
                 UPDATE large SET n = {n} WHERE grp = {grp} AND n % 10 = 1;"
            ),
        };
        sql += if rng.random_ratio(1, 8) { "ROLLBACK;\n" } else { "COMMIT;\n" };
        Step { sql, kind: StepKind::Large }
    }
}
