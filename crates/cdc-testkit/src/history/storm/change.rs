//! The client that changes tables: their columns, their partitions, their names, and whether they are there.
//!
//! What a step needs is made in the step, with IF EXISTS where a crash may have come between: so no step depends on
//! how the one before it ended.

use std::fmt::Write as _;

use rand::Rng;
use rand::rngs::StdRng;

use super::{Act, Step, StepKind, numbers, pick};
use crate::servers::ServerKind;

pub(super) const CREATE: &str = "
CREATE DATABASE soak_d CHARSET utf8mb4;
USE soak_d;
CREATE TABLE d0 (id INT NOT NULL PRIMARY KEY, v VARCHAR(40));
INSERT INTO d0 VALUES (1, 'first'), (2, NULL);
";

/// The tables that are given columns, and columns of theirs behind which these may stand.
const GROWING: &[(&str, &str)] = &[
    ("soak_w.bag", "v"),
    ("soak_w.bag_typed", "d"),
    ("soak_w.words", "n"),
    ("soak_w.general", "k"),
    ("soak_w.padded", "k"),
    ("soak_w.seats", "who"),
    ("soak_w.uniq", "u"),
    ("soak_w.prices", "e"),
    ("soak_w.parts", "n"),
    ("soak_w.nightly", "n"),
    ("soak_w.large", "w"),
    ("soak_w.audited", "n"),
    ("soak_w.computed", "w"),
    ("soak_x.xk", "n"),
    ("soak_x.xn", "n"),
];

pub(super) struct Changer {
    rng: StdRng,
    kind: ServerKind,
    step: u64,
    /// Columns that were added to each of the growing tables: name and type.
    extra: Vec<Vec<(String, &'static str)>>,
    /// The lowest and the highest partition of `parts` between 0 and the open one.
    partitions: (u64, u64),
}

impl Changer {
    pub(super) fn new(rng: StdRng, kind: ServerKind) -> Changer {
        let extra = GROWING.iter().map(|_| Vec::new()).collect();
        Changer { rng, kind, step: 0, extra, partitions: (0, 3) }
    }
}

/// Types of added columns, with what an UPDATE gives them.
const TYPES: &[(&str, &str)] = &[
    ("VARCHAR(20)", "'grün'"),
    ("VARCHAR(20) NOT NULL DEFAULT ''", "'x'"),
    ("VARCHAR(30) CHARACTER SET latin1 DEFAULT 'é'", "'€'"),
    ("INT", "-7"),
    ("INT NOT NULL DEFAULT 7", "8"),
    ("BIGINT UNSIGNED DEFAULT 18446744073709551615", "1"),
    ("DECIMAL(12,3) DEFAULT 1.500", "-2.125"),
    ("DOUBLE DEFAULT 0.1", "1e10"),
    ("DATETIME(6) DEFAULT '2024-02-29 12:00:00.654321'", "'2025-01-01 00:00:00.999999'"),
    ("TIMESTAMP(3) NULL DEFAULT NULL", "'2024-03-31 01:30:00.5'"),
    ("DATE", "'2024-02-29'"),
    ("TIME(2) DEFAULT '-00:00:00.01'", "'100:00:00'"),
    ("JSON", "'{\"a\": [1, 2.50]}'"),
    ("ENUM('a','b','ç') DEFAULT 'b'", "'ç'"),
    ("SET('a','b') NOT NULL DEFAULT 'a,b'", "''"),
    ("BIT(9) DEFAULT b'101'", "b'111'"),
    ("BINARY(5) DEFAULT 'ab'", "'c'"),
    ("TEXT", "REPEAT('text ', 30)"),
];

/// What changes rows, and leaves no row events.
const UNSEEN: &[&str] = &[
    "ALTER TABLE bag MODIFY w VARCHAR(12);\nALTER TABLE bag MODIFY w VARCHAR(40);\n",
    "ALTER TABLE bag_typed MODIFY d DECIMAL(12,3);\n",
    "UPDATE nightly SET w = NULL WHERE id % 9 = 1;\nALTER TABLE nightly MODIFY w VARCHAR(40) NOT NULL;\nALTER TABLE nightly MODIFY w VARCHAR(40) NULL;\n",
    "ALTER TABLE nightly CONVERT TO CHARACTER SET latin1;\nALTER TABLE nightly CONVERT TO CHARACTER SET utf8mb4;\n",
    "ALTER TABLE bag MODIFY v TINYINT;\n",
    "ALTER TABLE bag MODIFY v INT;\n",
    "ALTER TABLE bag CONVERT TO CHARACTER SET latin1;\nALTER TABLE bag CONVERT TO CHARACTER SET utf8mb4;\n",
    "ALTER TABLE computed DROP COLUMN twice, ADD COLUMN twice BIGINT AS (n * 3) STORED;\n",
    "ALTER TABLE bag_typed MODIFY d DECIMAL(12,1);\n",
    "ALTER TABLE bag_typed MODIFY at DATETIME;\nALTER TABLE bag_typed MODIFY at DATETIME(6);\n",
    "ALTER TABLE seats ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP;\nALTER TABLE seats DROP COLUMN made;\n",
];

impl Act for Changer {
    fn database(&self) -> &'static str {
        "soak_w"
    }

    fn next(&mut self) -> Step {
        self.step += 1;
        let mut sql = String::new();
        match self.rng.random_range(0..100) {
            0..40 => self.columns(&mut sql),
            40..48 => self.unseen(&mut sql),
            48..56 => self.partitions(&mut sql),
            56..62 => self.rebuild(&mut sql),
            62..66 => {
                let table = pick(
                    &mut self.rng,
                    &[
                        "soak_w.bag",
                        "soak_w.nightly",
                        "soak_w.words",
                        "soak_w.audit",
                        "soak_x.xn",
                        "soak_w.prices",
                    ],
                );
                _ = writeln!(sql, "TRUNCATE TABLE {table};");
            }
            66..92 => self.tables(&mut sql),
            92..97 => self.without_effect(&mut sql),
            _ => self.database_of_a_moment(&mut sql),
        }
        Step { sql, kind: StepKind::Ddl }
    }
}

impl Changer {
    /// A column comes, goes, changes its name or its type.
    fn columns(&mut self, sql: &mut String) {
        let rng = &mut self.rng;
        let at = rng.random_range(0..GROWING.len());
        let ((table, behind), extra) = (GROWING[at], &mut self.extra[at]);
        let name = format!("e{}", self.step);
        let old = (!extra.is_empty()).then(|| rng.random_range(0..extra.len()));
        match (rng.random_range(0..12), old) {
            (0..2, Some(old)) => {
                _ = writeln!(sql, "ALTER TABLE {table} DROP COLUMN {};", extra.swap_remove(old).0);
            }
            (2..4, Some(old)) => {
                let old = std::mem::replace(&mut extra[old].0, name.clone());
                _ = writeln!(sql, "ALTER TABLE {table} RENAME COLUMN {old} TO {name};");
            }
            (4, Some(old)) => {
                let (old, _) = extra.swap_remove(old);
                _ = writeln!(
                    sql,
                    "ALTER TABLE {table} DROP COLUMN {old}, ADD COLUMN {name} INT DEFAULT 5 AFTER {behind}, ADD COLUMN {name}b VARCHAR(9) FIRST;"
                );
                extra.push((name.clone(), "INT"));
                extra.push((format!("{name}b"), "VARCHAR(9)"));
            }
            (5, Some(old)) => {
                let (column, ty) = extra[old].clone();
                if let Some(length) = ty.strip_prefix("VARCHAR(").and_then(|rest| rest.split(')').next()) {
                    let more = length.parse::<u32>().unwrap_or(20) + rng.random_range(1..200);
                    _ = writeln!(sql, "ALTER TABLE {table} CHANGE {column} {name} VARCHAR({more});");
                    extra[old].0.clone_from(&name);
                } else if ty.starts_with("INT") {
                    _ = writeln!(sql, "ALTER TABLE {table} MODIFY {column} BIGINT AFTER {behind};");
                }
            }
            (6, Some(old)) => {
                // back under the same name, as another
                let (column, _) = extra[old].clone();
                _ = writeln!(
                    sql,
                    "ALTER TABLE {table} DROP COLUMN {column};\nALTER TABLE {table} ADD COLUMN {column} DATETIME(2) DEFAULT '1000-01-01';"
                );
                extra[old].1 = "DATETIME(2)";
            }
            _ if extra.len() < 6 => {
                let (ty, value) = TYPES[rng.random_range(0..TYPES.len())];
                let place = [String::new(), " FIRST".into(), format!(" AFTER {behind}")];
                let place = &place[rng.random_range(0..3)];
                _ = writeln!(sql, "ALTER TABLE {table} ADD COLUMN {name} {ty}{place};");
                if rng.random_ratio(2, 3) {
                    _ = writeln!(
                        sql,
                        "UPDATE {table} SET {name} = {value} LIMIT {};",
                        rng.random_range(1..30)
                    );
                }
                extra.push((name, ty));
            }
            _ => {
                let (column, _) = extra.swap_remove(0);
                _ = writeln!(sql, "ALTER TABLE {table} DROP COLUMN {column};");
            }
        }
    }

    /// Rows change, and the log does not say how.
    fn unseen(&mut self, sql: &mut String) {
        let rng = &mut self.rng;
        // what does not fit is cut
        *sql += "SET SESSION sql_mode = '';\n";
        *sql += pick(rng, UNSEEN);
        *sql += "SET SESSION sql_mode = DEFAULT;\n";
    }

    fn partitions(&mut self, sql: &mut String) {
        let (first, last) = self.partitions;
        match self.rng.random_range(0..6) {
            0 | 1 if last > first => {
                _ = writeln!(sql, "ALTER TABLE parts DROP PARTITION p{first};");
                self.partitions.0 += 1;
            }
            2 => _ = writeln!(sql, "ALTER TABLE parts TRUNCATE PARTITION p{last}, pmax;"),
            3 => {
                _ = writeln!(
                    sql,
                    "CREATE TABLE hidden_part AS SELECT * FROM parts WHERE 1 = 0;\nDROP TABLE hidden_part;\nALTER TABLE parts REBUILD PARTITION p{last};"
                );
            }
            4 => {
                _ = writeln!(
                    sql,
                    "DROP TABLE IF EXISTS hidden_part;\nCREATE TABLE hidden_part LIKE parts;\nALTER TABLE hidden_part REMOVE PARTITIONING;\n\
                     INSERT INTO hidden_part (id, n, w) {} SELECT {} + n, n, 'exchanged' FROM s;\n\
                     ALTER TABLE parts EXCHANGE PARTITION p{last} WITH TABLE hidden_part;\nDROP TABLE hidden_part;",
                    numbers(50),
                    last * 1000,
                );
            }
            _ => {
                let next = last + 1;
                _ = writeln!(
                    sql,
                    "ALTER TABLE parts REORGANIZE PARTITION pmax INTO (PARTITION p{next} VALUES LESS THAN ({}), PARTITION pmax VALUES LESS THAN MAXVALUE);",
                    (next + 1) * 1000
                );
                self.partitions.1 = next;
            }
        }
    }

    /// A table is made anew beside the old one, and takes its place: seen by whoever copies, or not.
    fn rebuild(&mut self, sql: &mut String) {
        let (rng, step) = (&mut self.rng, self.step);
        let new = pick(rng, &["nightly_new", "hidden_new"]);
        let old = pick(rng, &["nightly_old", "hidden_old"]);
        _ = writeln!(
            sql,
            "DROP TABLE IF EXISTS {new}, {old};\nCREATE TABLE {new} LIKE nightly;\n\
             INSERT INTO {new} (id, n, w) {} SELECT n, {step}, CONCAT('rebuilt ', n % 50) FROM s;\n\
             RENAME TABLE nightly TO {old}, {new} TO nightly;",
            numbers(rng.random_range(1..1200)),
        );
        if rng.random_ratio(2, 3) {
            _ = writeln!(sql, "DROP TABLE IF EXISTS {old};");
        }
    }

    /// Tables come and go in `soak_d`.
    fn tables(&mut self, sql: &mut String) {
        let (rng, step) = (&mut self.rng, self.step);
        let names = ["d0", "d1", "d2", "d3", "`d 4-x`"];
        let (a, b) = (pick(rng, &names), pick(rng, &names));
        *sql += "USE soak_d;\n";
        _ = match rng.random_range(0..12) {
            0..4 => {
                let (create, insert) = [
                    ("(id INT NOT NULL PRIMARY KEY, v VARCHAR(40))", "SELECT n, CONCAT('v', n) FROM s"),
                    ("(v INT, w VARCHAR(20))", "SELECT n % 5, 'same' FROM s"),
                    (
                        "(w VARCHAR(20) NOT NULL, k CHAR(3) NOT NULL, v BIGINT, PRIMARY KEY (w, k))",
                        "SELECT CONCAT('W', n), n % 7, n FROM s",
                    ),
                    (
                        "(x DOUBLE, id BIGINT UNSIGNED NOT NULL PRIMARY KEY, v TEXT, j JSON)",
                        "SELECT n / 7, n * 1000, REPEAT('t', n), NULL FROM s",
                    ),
                ][rng.random_range(0..4)];
                let rows = rng.random_range(1..400);
                writeln!(
                    sql,
                    "DROP TABLE IF EXISTS {a};\nCREATE TABLE {a} {create};\nINSERT INTO {a} {} {insert};",
                    numbers(rows)
                )
            }
            4..6 => writeln!(sql, "DROP TABLE IF EXISTS {a};"),
            6 if a != b => writeln!(sql, "DROP TABLE IF EXISTS {a}, {b};"),
            7 => writeln!(sql, "RENAME TABLE {a} TO {b};\nINSERT INTO {b} (v) VALUES (1);"),
            8 => writeln!(
                sql,
                "CREATE TABLE IF NOT EXISTS {a} AS SELECT id, n, 'copied' AS w FROM soak_w.nightly WHERE id < 100;\nDELETE FROM {a} LIMIT 3;"
            ),
            9 => writeln!(
                sql,
                "CREATE TABLE IF NOT EXISTS {a} LIKE soak_w.words;\nINSERT IGNORE INTO {a} (a, b, n) VALUES ('{step}', 'x', 1), ('Ä', 'x', 2), ('a', 'x', 3);"
            ),
            10 if self.kind.is_mariadb() => writeln!(
                sql,
                "CREATE OR REPLACE TABLE {a} (id INT NOT NULL PRIMARY KEY, z INT DEFAULT 3);\nINSERT INTO {a} (id) VALUES ({step});"
            ),
            10 => writeln!(sql, "TRUNCATE TABLE {a};"),
            _ => writeln!(
                sql,
                "UPDATE {a} SET v = 5 LIMIT 10;\nDELETE FROM {a} LIMIT 1;\nALTER TABLE {a} ADD COLUMN added{step} INT DEFAULT {step};\nUPDATE {a} SET added{step} = 0 LIMIT 5;"
            ),
        };
        *sql += "USE soak_w;\n";
    }

    fn without_effect(&mut self, sql: &mut String) {
        let (rng, step) = (&mut self.rng, self.step);
        *sql += &match rng.random_range(0..8) {
            0 => format!("CREATE INDEX i{step} ON seats (n);\nDROP INDEX i{step} ON seats;\n"),
            1 => format!("ALTER TABLE words COMMENT = 'it''s; step {step}';\n"),
            2 => "ANALYZE TABLE words;\nOPTIMIZE TABLE seats;\n".into(),
            3 => format!("CREATE VIEW v{step} AS SELECT * FROM seats;\nDROP VIEW v{step};\n"),
            4 => format!(
                "CREATE TEMPORARY TABLE t{step} AS SELECT * FROM seats;\nINSERT INTO seats (id, who) SELECT id + 1000, 'temporary' FROM t{step} LIMIT 3;\nDROP TEMPORARY TABLE t{step};\n"
            ),
            5 => "ALTER TABLE large ENGINE = InnoDB;\n".into(),
            6 => format!("CREATE USER u{step};\nGRANT SELECT ON soak_w.* TO u{step};\nDROP USER u{step};\n"),
            _ => "ALTER TABLE uniq FORCE;\n".into(),
        };
    }

    fn database_of_a_moment(&mut self, sql: &mut String) {
        let step = self.step;
        _ = writeln!(
            sql,
            "CREATE DATABASE IF NOT EXISTS soak_m;\nCREATE TABLE IF NOT EXISTS soak_m.m1 (id INT NOT NULL PRIMARY KEY, n INT);\n\
             CREATE TABLE IF NOT EXISTS soak_m.m2 (n INT);\nINSERT IGNORE INTO soak_m.m1 VALUES ({step}, 1);\nINSERT INTO soak_m.m2 VALUES (1), (1);"
        );
        if self.rng.random_ratio(1, 2) {
            _ = writeln!(sql, "DROP DATABASE soak_m;");
        }
    }
}
