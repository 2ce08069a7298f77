//! The tables and the log on which is measured, made by the server itself from row numbers and a seed.
//!
//! The rows are not in the log: they are loaded with `sql_log_bin` off, so that the log holds the tables'
//! definitions and then nothing but [`churn`].

use anyhow::{Result, ensure};

/// Row events of each transaction of the log.
pub const ROWS_PER_TRANSACTION: u64 = 100;

/// How much data.
pub struct Sizes {
    /// Gives other values, of the same sizes.
    pub seed: u64,
    /// Rows of the narrow table.
    pub narrow: u64,
    /// Rows of the wide table.
    pub wide: u64,
    /// Transactions of the log.
    pub transactions: u64,
}

impl Sizes {
    /// The first transactions delete rows from the end of the narrow table, and updates stay in the
    /// first half of each.
    pub fn check(&self) -> Result<()> {
        ensure!(self.narrow >= 1000 && self.wide >= 1000, "at least 1000 rows of each table");
        Ok(())
    }
}

/// Values of a narrow row with the number `n`. (MD5 is gone from the server since 9.6.)
const NARROW: &str =
    "CRC32(n + @seed) % 1000000, LEFT(SHA2(n + @seed, 512), 119), LEFT(SHA2(n * 3 + @seed, 256), 59)";

/// Values of a wide row with the number `n`; every tenth column is NULL, where it may be.
const WIDE: &str = "CRC32(n + @seed), CONCAT('größe ', LEFT(SHA2(n + @seed, 256), CRC32(n) % 64)),
  IF(n % 10 = 1, NULL, (CAST(CRC32(n * 5 + @seed) AS SIGNED) - 2000000000) / 1000 + n % 997 / 1000000),
  '2024-01-01' + INTERVAL CRC32(n + @seed) % 30000000 SECOND + INTERVAL n % 1000000 MICROSECOND,
  IF(n % 10 = 3, NULL, FROM_UNIXTIME(1600000000 + CRC32(n * 7 + @seed) % 100000000)),
  JSON_OBJECT('id', n, 'name', LEFT(SHA2(n, 256), 32), 'tags', JSON_ARRAY(n % 7, 'x', NULL), 'ratio', n / 8),
  IF(n % 10 = 5, NULL, CRC32(n + @seed) / 8),
  UNHEX(CONCAT(SHA2(n + @seed, 256), SHA2(n * 3 + @seed, 256))), 1 + n % 5";

/// Makes the database `bench` with its tables and rows, and the procedure that churns them.
pub fn tables(sizes: &Sizes) -> String {
    const CHUNK: u64 = 100_000;
    let mut sql = "\
CREATE DATABASE bench CHARACTER SET utf8mb4;
USE bench;
CREATE TABLE narrow (
  id BIGINT NOT NULL PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL, pad CHAR(60) NOT NULL
);
CREATE TABLE wide (
  id BIGINT NOT NULL PRIMARY KEY, amount INT UNSIGNED NOT NULL, name VARCHAR(100) NOT NULL,
  price DECIMAL(20,6) NULL, made DATETIME(6) NOT NULL, seen TIMESTAMP NULL, doc JSON NOT NULL,
  ratio DOUBLE NULL, digest BLOB NOT NULL, state ENUM('new', 'open', 'paid', 'sent', 'done') NOT NULL
);
SET sql_log_bin = 0, time_zone = '+00:00';
"
    .to_string();
    sql += &format!("SET @seed = {}, cte_max_recursion_depth = {CHUNK};\n", sizes.seed);
    for (table, values, rows) in [("narrow", NARROW, sizes.narrow), ("wide", WIDE, sizes.wide)] {
        for from in (0..rows).step_by(CHUNK as usize) {
            let to = rows.min(from + CHUNK);
            sql += &format!(
                "INSERT INTO {table} WITH RECURSIVE s (n) AS \
                 (SELECT {from} + 1 UNION ALL SELECT n + 1 FROM s WHERE n < {to}) SELECT n, {values} FROM s;\n"
            );
        }
    }
    sql + &format!(
        "CREATE TABLE ten (d INT PRIMARY KEY);\n\
         INSERT INTO ten VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);\n\
         delimiter //\n{}//\ndelimiter ;\n",
        procedure(sizes)
    )
}

/// Writes transactions number `from` and following into the log: of each hundred row events 50 inserts in
/// statements of ten rows, 38 updates and 12 deletes of one row; seven of ten in the narrow table.
pub fn churn(sizes: &Sizes, from: u64, transactions: u64) -> String {
    format!(
        "USE bench;\nSET time_zone = '+00:00', @seed = {};\nCALL churn({from}, {transactions});\n",
        sizes.seed
    )
}

/// Every insert statement has a number `g`, five to a transaction; its rows are `1000000000 + g * 10` and
/// the nine after it, in the table that `g` decides. Twenty transactions later, twelve of the fifty rows
/// are deleted; the first twenty transactions delete from the end of the narrow table instead. So every
/// statement finds its rows, and none depends on chance.
fn procedure(sizes: &Sizes) -> String {
    format!(
        "
CREATE PROCEDURE churn(IN first BIGINT, IN transactions BIGINT)
BEGIN
  DECLARE t, g, x BIGINT DEFAULT first;
  DECLARE i INT;
  WHILE t < first + transactions DO
    START TRANSACTION;
    SET i = 0;
    WHILE i < 5 DO
      SET g = t * 5 + i;
      IF g % 10 < 7 THEN
        INSERT INTO narrow SELECT n, {NARROW} FROM (SELECT 1000000000 + g * 10 + d AS n FROM ten) AS s;
      ELSE
        INSERT INTO wide SELECT n, {WIDE} FROM (SELECT 1000000000 + g * 10 + d AS n FROM ten) AS s;
      END IF;
      SET i = i + 1;
    END WHILE;
    SET i = 0;
    WHILE i < 38 DO
      SET x = CRC32(t * 38 + i + @seed);
      IF (t * 38 + i) % 10 < 7 THEN
        UPDATE narrow SET k = k + 1, c = LEFT(SHA2(x, 512), 119) WHERE id = 1 + x % {};
      ELSE
        UPDATE wide SET amount = amount ^ 1, name = LEFT(SHA2(x, 256), 32), price = t + i / 100 WHERE id = 1 + x % {};
      END IF;
      SET i = i + 1;
    END WHILE;
    SET i = 0;
    WHILE i < 12 DO
      SET g = (t - 20) * 5 + i % 5;
      IF t < 20 THEN
        DELETE FROM narrow WHERE id = {} - t * 12 - i;
      ELSEIF g % 10 < 7 THEN
        DELETE FROM narrow WHERE id = 1000000000 + g * 10 + i DIV 5;
      ELSE
        DELETE FROM wide WHERE id = 1000000000 + g * 10 + i DIV 5;
      END IF;
      SET i = i + 1;
    END WHILE;
    COMMIT;
    SET t = t + 1;
  END WHILE;
END",
        sizes.narrow / 2,
        sizes.wide / 2,
        sizes.narrow
    )
}
