//! Acceptance case 63: text of every character set, with every code that the server has a character for, is the
//! same by SELECT, in the log, and in the server's own UTF-8.

mod common;

use anyhow::{Context, Result, bail, ensure};
use cdc_core::{Error, TableId, Value, codes};
use cdc_mysql::binlog::rows::KeyExtractor;
use cdc_mysql::capture::Capture;
use common::{Copy, assert_equal, config, initial, root, server, snapshot};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::collections::BTreeMap;
use std::fmt::Write;

/// `SHOW CHARACTER SET`, by the longest code; less `binary`, and with Unicode's own under 0.
const SETS: &[(&str, u8)] = &[
    ("armscii8", 1),
    ("ascii", 1),
    ("big5", 2),
    ("cp1250", 1),
    ("cp1251", 1),
    ("cp1256", 1),
    ("cp1257", 1),
    ("cp850", 1),
    ("cp852", 1),
    ("cp866", 1),
    ("cp932", 2),
    ("dec8", 1),
    ("eucjpms", 3),
    ("euckr", 2),
    ("gb18030", 4),
    ("gb2312", 2),
    ("gbk", 2),
    ("geostd8", 1),
    ("greek", 1),
    ("hebrew", 1),
    ("hp8", 1),
    ("keybcs2", 1),
    ("koi8r", 1),
    ("koi8u", 1),
    ("latin1", 1),
    ("latin2", 1),
    ("latin5", 1),
    ("latin7", 1),
    ("macce", 1),
    ("macroman", 1),
    ("sjis", 2),
    ("swe7", 1),
    ("tis620", 1),
    ("ucs2", 0),
    ("ujis", 3),
    ("utf16", 0),
    ("utf16le", 0),
    ("utf32", 0),
    ("utf8mb3", 0),
    ("utf8mb4", 0),
];

/// Those that the server has: MariaDB lacks one.
fn sets() -> impl Iterator<Item = (&'static str, u8)> {
    let lacks = server().kind().is_mariadb().then_some("gb18030");
    SETS.iter().copied().filter(move |(set, _)| lacks != Some(*set))
}

/// The row of the log that a row of the snapshot is copied to.
const LOGGED: i64 = 1_000_000;

async fn run(conn: &mut Conn, sql: impl AsRef<str>) -> Result<()> {
    let sql = sql.as_ref();
    conn.query_drop(sql).await.with_context(|| sql.chars().take(300).collect::<String>())
}

async fn session() -> Result<Conn> {
    let mut conn = root(server()).await?;
    run(&mut conn, "SET sql_mode = '', group_concat_max_len = 16777216, time_zone = '+00:00'").await?;
    Ok(conn)
}

/// A query of group and code for all codes of so many bytes (5: gb18030's four bytes beyond U+FFFF).
fn all_codes(bytes: u8) -> &'static str {
    match bytes {
        1 => "SELECT 1 g, UNHEX(LPAD(HEX(a.i), 2, '0')) code FROM n a",
        2 => {
            "SELECT 1000 + a.i g, UNHEX(CONCAT(HEX(a.i), LPAD(HEX(b.i), 2, '0'))) code \
             FROM n a, n b WHERE a.i >= 128"
        }
        3 => {
            "SELECT 2000 + a.i g, UNHEX(CONCAT('8F', HEX(a.i), LPAD(HEX(b.i), 2, '0'))) code \
             FROM n a, n b WHERE a.i >= 128"
        }
        4 => {
            "SELECT 3000 + a.i * 10 + b.i g, UNHEX(CONCAT(HEX(a.i), 3, b.i, HEX(c.i), 3, d.i)) code \
             FROM n a, n b, n c, n d WHERE a.i BETWEEN 129 AND 132 AND b.i < 10 \
             AND c.i BETWEEN 129 AND 254 AND d.i < 10"
        }
        _ => {
            "SELECT 6000 + a.i g, UNHEX(CONCAT(HEX(a.i), 3, b.i, HEX(c.i), 3, (a.i + b.i + c.i) % 10)) code \
             FROM n a, n b, n c WHERE a.i BETWEEN 144 AND 227 AND b.i < 10 \
             AND c.i BETWEEN 129 AND 254"
        }
    }
}

const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 255)";

/// Rows of all characters: what is in one row was put together by the server, so that it is also seen where one
/// character ends and the next begins.
async fn fill(conn: &mut Conn, table: &str, set: &str, bytes: u8) -> Result<()> {
    let insert = format!("INSERT INTO {table} (id, v)");
    if bytes == 0 {
        let planes = if matches!(set, "ucs2" | "utf8mb3") { "" } else { " OR a.i >= 256" };
        // of the planes beyond the first, every 257th character
        return run(
            conn,
            format!(
                "{insert} {NUMBERS}, high(i) AS (SELECT i FROM n UNION ALL SELECT i + 256 FROM n WHERE i < 16) \
                 SELECT g, GROUP_CONCAT(CONVERT(CONVERT(UNHEX(LPAD(HEX(code), 8, '0')) USING utf32) USING {set}) \
                 ORDER BY code SEPARATOR '') FROM \
                 (SELECT a.i g, IF(a.i < 256, a.i * 256 + b.i, (a.i - 255) * 65536 + b.i * 257) code \
                 FROM high a, n b WHERE a.i < 216 OR a.i BETWEEN 224 AND 255{planes}) codes GROUP BY g"
            ),
        )
        .await;
    }
    for form in (1..=bytes).filter(|form| (bytes, *form) != (4, 3)).chain((bytes == 4).then_some(5)) {
        let codes = all_codes(form);
        run(
            conn,
            format!(
                "{insert} {NUMBERS} SELECT g, GROUP_CONCAT(CONVERT(code USING {set}) ORDER BY code SEPARATOR '') FROM \
                 (SELECT g, code, CONVERT(CONVERT(code USING {set}) USING utf8mb4) u FROM ({codes}) codes) chars \
                 WHERE CHAR_LENGTH(u) = 1 AND (HEX(u) NOT IN ('3F', 'EFBFBD') \
                 OR CAST(CONVERT(u USING {set}) AS BINARY) = code) GROUP BY g"
            ),
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn case_63_every_code_of_every_character_set() -> Result<()> {
    let mut conn = session().await?;
    run(&mut conn, "CREATE DATABASE sets").await?;
    for (set, bytes) in sets() {
        let table = format!("sets.`{set}`");
        run(
            &mut conn,
            format!(
                "CREATE TABLE {table} (id INT PRIMARY KEY, v LONGTEXT CHARACTER SET {set}, \
                 c CHAR(9) CHARACTER SET {set}, s VARCHAR(9) CHARACTER SET {set}, t TINYTEXT CHARACTER SET {set})"
            ),
        )
        .await?;
        fill(&mut conn, &table, set, bytes).await.with_context(|| set.to_string())?;
        // the end of a CHAR: in units of two bytes, U+0120 ends with a space's byte
        run(
            &mut conn,
            format!("UPDATE {table} SET c = _utf8mb4 'aĠ中é  ', s = _utf8mb4 'ж  ', t = LEFT(v, 50)"),
        )
        .await?;
    }
    let (mut capture, mut copy) = initial(config(server(), &["sets.*"])).await?;
    for (set, _) in sets() {
        run(
            &mut conn,
            format!("INSERT INTO sets.`{set}` SELECT id + {LOGGED}, v, c, s, t FROM sets.`{set}`"),
        )
        .await?;
    }
    copy.catch_up(&mut capture).await?;
    for (set, bytes) in sets() {
        let chars = compare(&mut conn, &copy, set).await.with_context(|| set.to_string())?;
        let least = match bytes {
            0 => 63_488,
            1 => 96,
            2 => 7_000,
            3 => 13_000,
            _ => 60_000,
        };
        ensure!(chars >= least, "only {chars} characters of {set}");
    }
    Ok(())
}

/// The rows of a set: of the snapshot and of the log, and the server's own text. Gives the number of characters.
async fn compare(conn: &mut Conn, copy: &Copy, set: &str) -> Result<usize> {
    let texts = "HEX(CONVERT(v USING utf8mb4)), HEX(CONVERT(c USING utf8mb4)), \
                 HEX(CONVERT(s USING utf8mb4)), HEX(CONVERT(t USING utf8mb4))";
    let expected: Vec<(i64, String, String, String, String)> =
        conn.query(format!("SELECT id, {texts} FROM sets.`{set}`")).await?;
    let rows: BTreeMap<i64, _> = copy
        .rows(set)
        .values()
        .map(|row| match row.get(0) {
            Value::Int(id) => Ok((id, row)),
            other => bail!("{other:?} for an id"),
        })
        .collect::<Result<_>>()?;
    ensure!(rows.len() == expected.len() && !rows.is_empty(), "{} rows of {}", rows.len(), expected.len());
    let mut chars = 0;
    for (id, v, c, s, t) in expected {
        let row = rows.get(&id).with_context(|| format!("no row {id}"))?;
        for (i, text) in [v, c, s, t].into_iter().enumerate() {
            let Value::Text(ours) = row.get(i + 1) else { bail!("row {id}: {:?}", row.get(i + 1)) };
            let theirs = text_of(&text)?;
            let same = ours.chars().zip(theirs.chars()).take_while(|(a, b)| a == b).count();
            ensure!(
                *ours == *theirs,
                "row {id}, value {i}: character {same} is {:?}, the server says {:?}",
                ours.chars().nth(same),
                theirs.chars().nth(same)
            );
            chars += if i == 0 && id < LOGGED { ours.chars().count() } else { 0 };
        }
    }
    Ok(chars)
}

fn text_of(hex: &str) -> Result<String> {
    let bytes = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?))
        .collect::<Result<Vec<u8>>>()?;
    Ok(String::from_utf8(bytes)?)
}

/// Keys of every set, in its default collation and in its binary one: cut into small chunks, each row comes
/// exactly once, whatever the order of the collation is.
#[tokio::test]
async fn case_63_keys_of_every_character_set_are_cut_into_chunks() -> Result<()> {
    let mut conn = session().await?;
    run(&mut conn, "CREATE DATABASE keyed").await?;
    let mut counts = Vec::new();
    for (set, bytes) in sets() {
        // texts of three characters, from all over the set; under a collation that takes some for equal, fewer
        run(
            &mut conn,
            format!("CREATE TABLE keyed.source (id INT PRIMARY KEY, v LONGTEXT CHARACTER SET {set})"),
        )
        .await?;
        fill(&mut conn, "keyed.source", set, bytes).await?;
        for collation in ["", "_bin"] {
            let table = format!("{set}{collation}");
            let collate = if collation.is_empty() { String::new() } else { format!("COLLATE {table}") };
            run(
                &mut conn,
                format!(
                    "CREATE TABLE keyed.`{table}` (k VARCHAR(9) CHARACTER SET {set} {collate} NOT NULL PRIMARY KEY)"
                ),
            )
            .await?;
            let places = if bytes == 1 { 96 } else { 12 };
            run(
                &mut conn,
                format!(
                    "INSERT IGNORE INTO keyed.`{table}` {NUMBERS} SELECT k FROM (SELECT CONCAT( \
                     SUBSTRING(v, 1 + MOD(i * 31, CHAR_LENGTH(v)), 1), \
                     SUBSTRING(v, 1 + MOD(i * i + 7, CHAR_LENGTH(v)), IF(i % 5 = 0, 0, 1))) k \
                     FROM keyed.source, n WHERE i < {places} AND (id % 7 = 1 OR id < 2)) made \
                     WHERE CAST(CONVERT(CONVERT(k USING utf8mb4) USING {set}) AS BINARY) = CAST(k AS BINARY)"
                ),
            )
            .await?;
            let rows: usize = conn
                .query_first(format!("SELECT COUNT(*) FROM keyed.`{table}`"))
                .await?
                .context("a count")?;
            counts.push((table, rows));
        }
        run(&mut conn, "DROP TABLE keyed.source").await?;
    }
    let mut config = config(server(), &["keyed.*"]);
    config.chunk_rows = 23;
    let copy = snapshot(config).await?;
    for (table, rows) in counts {
        ensure!(rows > 40, "{rows} keys in {table}");
        let (given, most) = copy.chunk_rows(&table);
        ensure!(given == rows && most <= 23, "{table}: {given} rows of {rows}, {most} in a chunk");
        let id = TableId::new("keyed", table);
        assert_equal(server(), &copy.schemas[&id], &copy.tables[&id]).await?;
    }
    Ok(())
}

async fn refusal(table: &str) -> Result<Error> {
    match snapshot(config(server(), &[table])).await {
        Ok(_) => bail!("{table} was copied"),
        Err(error) => Ok(error.downcast::<Error>()?),
    }
}

/// What has no faithful value: ill-formed bytes as far as the server stores them, and codes without a character.
#[tokio::test]
async fn case_63_what_is_no_text_names_table_and_column() -> Result<()> {
    let mut conn = session().await?;
    run(&mut conn, "CREATE DATABASE wrong").await?;
    let codes_without = [("gbk", "4161FEFE"), ("big5", "A145A1C3"), ("cp1250", "6181"), ("tis620", "41DB")];
    // the server cuts a value off at ill-formed bytes before it stores it, but for this one
    let ill_formed = [("ucs2", "0041D83D")];
    for (set, bytes) in codes_without.iter().chain(&ill_formed) {
        let table = format!("wrong.{set}");
        run(
            &mut conn,
            format!(
                "CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {set}, b VARBINARY(9))"
            ),
        )
        .await?;
        // the same bytes are a value in VARBINARY
        let insert = format!("INSERT INTO {table} VALUES (1, NULL, X'{bytes}')");
        run(&mut conn, insert).await?;
        let (mut capture, mut copy) = initial(config(server(), &[&table])).await?;
        run(&mut conn, format!("INSERT INTO {table} VALUES (2, X'{bytes}', NULL)")).await?;
        let stored: Option<String> =
            conn.query_first(format!("SELECT HEX(v) FROM {table} WHERE id = 2")).await?;
        ensure!(stored.as_deref() == Some(*bytes), "{set} stores {stored:?}");
        let Err(logged) = copy.catch_up(&mut capture).await else { bail!("{set} was read from the log") };
        let logged = logged.downcast::<Error>()?;
        for error in [refusal(&table).await?, logged] {
            ensure!(error.code() == codes::VALUE_UNDECODABLE, "{error}");
            let text = error.to_string();
            ensure!(text.contains(&format!("column \"v\" of table \"{table}\"")), "{text}");
            let why =
                if ill_formed.iter().any(|i| i.0 == *set) { "not well-formed" } else { "is no character" };
            ensure!(text.contains(why) && text.contains(set), "{text}");
        }
    }
    Ok(())
}

/// Two codes of one character are two values to the server. In a text they are that character; in a key they
/// would be one row of two.
#[tokio::test]
async fn case_63_two_codes_of_one_character() -> Result<()> {
    let mut conn = session().await?;
    run(&mut conn, "CREATE DATABASE twice").await?;
    run(&mut conn, "CREATE TABLE twice.texts (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET cp932)").await?;
    run(&mut conn, "INSERT INTO twice.texts VALUES (1, X'81CA'), (2, X'EEF9'), (3, X'FA54')").await?;
    let copy = snapshot(config(server(), &["twice.texts"])).await?;
    let texts: Vec<_> = copy.rows("texts").values().map(|row| row.get(1).into_owned()).collect();
    ensure!(texts.len() == 3 && texts.iter().all(|t| *t == texts[0]), "{texts:?}");

    run(&mut conn, "CREATE TABLE twice.`keys` (k VARCHAR(9) CHARACTER SET cp932 PRIMARY KEY)").await?;
    run(&mut conn, "INSERT INTO twice.`keys` VALUES (X'81CA'), (X'EEF9')").await?;
    let error = refusal("twice.keys").await?;
    ensure!(error.code() == codes::VALUE_UNDECODABLE, "{error}");
    ensure!(error.to_string().contains("0xEEF9 is a second cp932 code"), "{error}");
    Ok(())
}

/// Bytes that are nothing in UTF-8 are text in latin1, all of them.
#[tokio::test]
async fn case_63_latin1_has_no_ill_formed_bytes() -> Result<()> {
    let mut conn = session().await?;
    let bytes = (0..=255u8).fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02X}");
        text
    });
    run(&mut conn, "CREATE DATABASE latin").await?;
    run(
        &mut conn,
        "CREATE TABLE latin.t (id INT PRIMARY KEY, v VARCHAR(300) CHARACTER SET latin1, b VARBINARY(300))",
    )
    .await?;
    run(&mut conn, format!("INSERT INTO latin.t VALUES (1, X'{bytes}', X'{bytes}')")).await?;
    let mut capture = Capture::start(config(server(), &["latin.t"])).await?;
    let mut copy = Copy::of(&capture);
    copy.catch_up(&mut capture).await?;
    run(&mut conn, "INSERT INTO latin.t SELECT 2, v, b FROM latin.t").await?;
    copy.catch_up(&mut capture).await?;
    let server_text: String = conn
        .query_first("SELECT HEX(CONVERT(v USING utf8mb4)) FROM latin.t WHERE id = 1")
        .await?
        .context("a text")?;
    let server_text = text_of(&server_text)?;
    let schema = &copy.schemas[&TableId::new("latin", "t")];
    let mut keys = KeyExtractor::new(schema, &schema.primary_key);
    ensure!(copy.rows("t").len() == 2);
    for (key, row) in copy.rows("t") {
        ensure!(keys.key(row) == *key);
        ensure!(row.get(1) == Value::Text(server_text.as_str().into()), "{row:?}");
        ensure!(row.get(2) == Value::Bytes((0..=255).collect::<Vec<u8>>().into()), "{row:?}");
    }
    Ok(())
}
