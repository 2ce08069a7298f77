//! Snapshot value = log value = the server's own text, for every type of MariaDB 10.11 and 11.8.
//!
//! As `values.rs` does it for MySQL: each case is a table of one column and a list of SQL literals, extremes by
//! hand and random ones by seed (`CDC_SEED` runs one again), which are read on three ways: by SELECT in the
//! binary protocol, from the log (as WRITE, and as the images of an UPDATE and a DELETE), and as text that the
//! server itself makes. All must agree, and the type that we read off SHOW CREATE TABLE must be the one that
//! the case names.
//!
//! The events are taken from the plain dump of a log file and given to the table map, the row decoder and the
//! decompression, so that nothing else of the log reader is needed to trust a value.

use anyhow::{Context as _, Result, ensure};
use cdc_core::expr::eval::Collator;
use cdc_core::row::{Row, RowBuilder};
use cdc_core::schema::{Charset, Column, ColumnType, Generated, IntWidth, LobSize, TableId, TableSchema};
use cdc_core::value::{Timestamp, Value};
use cdc_mysql::binlog::rows::{Change, RowDecoder, RowsEvent, decompress};
use cdc_mysql::binlog::table_map::{TableMap, WireType};
use cdc_mysql::charsets;
use cdc_mysql::ddl::{Context, parse_schema_text};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use futures_util::StreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{BinlogStreamRequest, Conn, Opts};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::net::Ipv6Addr;
use std::sync::Arc;

const RANDOM_VALUES: usize = 200;

/// Zero and impossible dates and invalid ENUM members are wanted here.
const SESSION: &str = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'";
const SNAPSHOT_SESSION: &str = "SET sql_mode = '', time_zone = '+00:00', character_set_results = NULL";

/// A table of one column.
struct Case {
    sql: String,
    ty: ColumnType,
    literals: Vec<String>,
}

/// The events of a table in the log.
#[derive(Default)]
struct Logged {
    changes: Vec<Change>,
    /// The layout of the last column, by the last table map.
    wire: Option<WireType>,
    /// How many events of each type code.
    events: BTreeMap<u8, usize>,
    /// Were the rows of all events whole?
    partial: usize,
    /// Events whose images lack nothing but generated columns.
    without_generated: usize,
}

fn seed() -> u64 {
    let seed = std::env::var("CDC_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_240_229);
    println!("CDC_SEED={seed}");
    seed
}

/// Runs a test against a server of each series, which has a time zone of its own on which no value may depend.
fn on_both(test: impl AsyncFn(&Server, &mut StdRng) -> Result<()>) -> Result<()> {
    let seed = seed();
    for kind in [ServerKind::MariaDb1011, ServerKind::MariaDb118] {
        let options = ServerOptions::of(kind)
            .with("--default-time-zone=-03:30")
            .with("--max-allowed-packet=256M")
            .with("--innodb-log-file-size=512M");
        let server = Server::start(options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime
            .block_on(async {
                let mut conn = connect(&server, SESSION).await?;
                conn.query_drop("CREATE DATABASE v").await?;
                test(&server, &mut StdRng::seed_from_u64(seed)).await
            })
            .with_context(|| format!("{} with CDC_SEED={seed}", kind.name()))?;
    }
    Ok(())
}

async fn connect(server: &Server, session: &str) -> Result<Conn> {
    let mut conn = Conn::new(Opts::from_url(&server.url("root"))?).await?;
    conn.query_drop(session).await?;
    Ok(conn)
}

async fn run(conn: &mut Conn, sql: impl AsRef<str>) -> Result<()> {
    let sql = sql.as_ref();
    conn.query_drop(sql).await.with_context(|| sql.chars().take(300).collect::<String>())
}

fn is_11_8(server: &Server) -> bool {
    server.kind() == ServerKind::MariaDb118
}

#[test]
fn case_58_59_60_62_64_snapshot_log_and_server_agree_on_every_type() -> Result<()> {
    on_both(async |server, rng| {
        agree(server, SESSION, cases(server, rng)).await?;
        Ok(())
    })
}

/// MariaDB 11.8 has MySQL's names for its own collations. Under this one texts must not be compared by MySQL's weights.
#[test]
fn a_collation_goes_by_the_name_of_its_order() -> Result<()> {
    on_both(async |server, _| {
        let mut conn = connect(server, SESSION).await?;
        run(&mut conn, "CREATE DATABASE named").await?;
        let create = "CREATE TABLE named.t (a VARCHAR(9) COLLATE utf8mb4_0900_ai_ci)";
        if !is_11_8(server) {
            let refused = run(&mut conn, create).await.map_err(|e| format!("{e:#}"));
            ensure!(refused.is_err_and(|e| e.contains("Unknown collation")), "10.11 has MySQL's collation");
            return Ok(());
        }
        run(&mut conn, create).await?;
        ensure!(show_create(&mut conn, "named.t").await?.contains("COLLATE utf8mb4_0900_ai_ci"));
        let types = declared_types(server, &mut conn, "named.t").await?;
        let name = types[0].charset().map(|c| c.collation.to_string());
        ensure!(name.as_deref() == Some("utf8mb4_uca1400_nopad_ai_ci"), "{types:?}");
        // which it is, and is not what MySQL has
        let weight = |name: &str| format!("WEIGHT_STRING(c COLLATE {name})");
        let (mysqls, own) = (weight("utf8mb4_0900_ai_ci"), weight("utf8mb4_uca1400_nopad_ai_ci"));
        let differ: Option<(u64, Option<u64>)> = conn
            .query_first(format!(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 255) \
                 SELECT COUNT(*), SUM({mysqls} <> {own}) FROM (SELECT CONVERT(CONVERT(UNHEX(CONCAT('0000', \
                 LPAD(HEX(h.i), 2, '0'), LPAD(HEX(n.i), 2, '0'))) USING utf32) USING utf8mb4) c \
                 FROM n h, n WHERE h.i NOT BETWEEN 216 AND 223) chars"
            ))
            .await?;
        ensure!(differ == Some((63_488, Some(0))), "{differ:?}");
        // a letter that Unicode 9 does not know, and alef
        let equal: Option<u8> = conn
            .query_first("SELECT _utf8mb4 X'E0A1B0' COLLATE utf8mb4_0900_ai_ci = _utf8mb4 X'D8A7'")
            .await?;
        let of_mysql = Collator::of(&Charset::new("utf8mb4", "utf8mb4_0900_ai_ci")).context("a collation")?;
        ensure!(equal == Some(1) && of_mysql.compare("\u{870}", "\u{627}").is_ne());
        ensure!(types[0].charset().is_some_and(|c| Collator::of(c).is_none()));
        Ok(())
    })
}

/// `mysql56_temporal_format = OFF`: the layouts before MySQL 5.6, with fractions; and what is left of them when
/// the variable is ON again.
#[test]
fn the_old_temporal_layouts_agree() -> Result<()> {
    on_both(async |server, rng| {
        let mut conn = connect(server, SESSION).await?;
        run(&mut conn, "SET GLOBAL mysql56_temporal_format = OFF").await?;
        let mut cases = Vec::new();
        temporals(server, rng, &mut cases);
        let logged = agree(server, SESSION, cases).await?;
        for (sql, logged) in &logged {
            let old = match sql.split('(').next() {
                Some("TIME") => WireType::Time,
                Some("DATETIME") => WireType::DateTime,
                Some("TIMESTAMP") => WireType::Timestamp,
                _ => continue,
            };
            ensure!(logged.wire == Some(old), "{sql} is {:?}", logged.wire);
        }
        let create = show_create(&mut conn, "v.t3").await?;
        ensure!(create.contains("/* mariadb-5.3 */"), "{create}");

        run(&mut conn, "SET GLOBAL mysql56_temporal_format = ON").await?;
        let mut cases = Vec::new();
        temporals(server, rng, &mut cases);
        run(&mut conn, "DROP DATABASE v").await?;
        run(&mut conn, "CREATE DATABASE v").await?;
        run(&mut conn, "FLUSH BINARY LOGS").await?;
        let logged = agree(server, SESSION, cases).await?;
        ensure!(logged.iter().any(|(_, logged)| logged.wire == Some(WireType::Time2 { fsp: 6 })));
        Ok(())
    })
}

/// COMPRESSED columns under every way of compressing, the character set behind it.
#[test]
fn compressed_columns_agree() -> Result<()> {
    on_both(async |server, rng| {
        for (n, setting) in [
            "column_compression_threshold = 100",
            "column_compression_threshold = 1, column_compression_zlib_wrap = ON",
            "column_compression_threshold = 0",
            "column_compression_threshold = 1, column_compression_zlib_level = 0",
            "column_compression_threshold = 10, column_compression_zlib_level = 1, \
             column_compression_zlib_strategy = FIXED",
            "column_compression_threshold = 10, column_compression_zlib_level = 9, \
             column_compression_zlib_strategy = HUFFMAN_ONLY, column_compression_zlib_wrap = ON",
        ]
        .into_iter()
        .enumerate()
        {
            let mut conn = connect(server, SESSION).await?;
            run(&mut conn, "DROP DATABASE v").await?;
            run(&mut conn, "CREATE DATABASE v").await?;
            run(&mut conn, "FLUSH BINARY LOGS").await?;
            let mut cases = compressed(rng);
            if n > 0 {
                let few = ["utf8mb4", "ucs2", "gbk"];
                cases.retain(|case| case.ty.charset().is_none_or(|charset| few.contains(&&*charset.name)));
            }
            let logged = agree(server, &format!("{SESSION}, {setting}"), cases)
                .await
                .with_context(|| setting.to_owned())?;
            for (sql, logged) in logged {
                let compressed = matches!(
                    logged.wire,
                    Some(WireType::VarCharCompressed { .. } | WireType::BlobCompressed { .. })
                );
                ensure!(compressed, "{sql} is {:?}", logged.wire);
            }
        }
        Ok(())
    })
}

/// A value of 16 MiB, compressed and not, and ones that do not get smaller.
#[test]
fn large_compressed_values_agree() -> Result<()> {
    on_both(async |server, _| {
        let blob = ColumnType::Blob { size: LobSize::Long };
        let text = ColumnType::Text { size: LobSize::Long, charset: Charset::new("utf8mb4", "") };
        let literals = strings(&[
            "REPEAT('x', 16777216)",
            "REPEAT('0123456789abcdef', 1048575)",
            "''",
            "REPEAT('y', 16777215)",
            "(SELECT GROUP_CONCAT(RANDOM_BYTES(1024) SEPARATOR '') FROM v.seq_1_to_2000)",
        ]);
        let cases = vec![
            case("LONGBLOB COMPRESSED", blob, literals.clone()),
            case("LONGTEXT COMPRESSED CHARACTER SET utf8mb4", text, literals[..4].to_vec()),
        ];
        let session = format!("{SESSION}, group_concat_max_len = 16777216");
        agree(server, &session, cases).await?;
        Ok(())
    })
}

/// `log_bin_compress`: events are compressed and give the same rows.
#[test]
fn compressed_events_give_the_same_rows() -> Result<()> {
    on_both(async |server, rng| {
        let mut conn = connect(server, SESSION).await?;
        run(&mut conn, "SET GLOBAL log_bin_compress = ON").await?;
        run(&mut conn, "SET GLOBAL log_bin_compress_min_len = 10").await?;
        let mut cases = Vec::new();
        integers(rng, &mut cases);
        texts(rng, &mut cases);
        addresses(rng, &mut cases);
        compressed(rng).into_iter().for_each(|case| cases.push(case));
        let logged = agree(server, SESSION, cases).await?;
        let mut seen = BTreeMap::new();
        for (_, logged) in &logged {
            for (kind, count) in &logged.events {
                *seen.entry(*kind).or_insert(0) += count;
            }
        }
        for kind in [166, 167, 168] {
            ensure!(seen.contains_key(&kind), "no event {kind}: {seen:?}");
        }
        println!("{}: events by type {seen:?}", server.kind().name());
        Ok(())
    })
}

/// Images without all columns: FULL_NODUP of 11.8 is made whole, MINIMAL and NOBLOB stay as they are, and the
/// generated columns that 11.8 leaves out are told.
#[test]
fn images_without_all_columns() -> Result<()> {
    on_both(async |server, _| {
        let mut conn = connect(server, SESSION).await?;
        let mut snapshot = connect(server, SNAPSHOT_SESSION).await?;
        let int = || ColumnType::Int { width: IntWidth::Int, unsigned: false };
        let varchar = |length| ColumnType::VarChar { length, charset: Charset::new("utf8mb4", "") };
        let plain = Arc::new(table(
            "plain",
            vec![
                id_column(),
                Column::new("a", int()),
                Column::new("b", varchar(20)),
                Column::new(
                    "c",
                    ColumnType::Text { size: LobSize::Normal, charset: Charset::new("utf8mb4", "") },
                ),
                Column::new("u", ColumnType::Uuid),
                Column::new("ts", ColumnType::Timestamp { fsp: 3 }).not_null(),
            ],
        ));
        let generated = |name: &'static str, stored| Column {
            generated: Some(Generated { expression: "a + 1".into(), stored }),
            ..Column::new(name, int())
        };
        let derived = Arc::new(table(
            "derived",
            vec![id_column(), Column::new("a", int()), generated("gv", false), generated("gs", true)],
        ));
        run(
            &mut conn,
            "CREATE TABLE v.plain (id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(20) CHARACTER SET utf8mb4, \
             c TEXT CHARACTER SET utf8mb4, u UUID, \
             ts TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3))",
        )
        .await?;
        run(
            &mut conn,
            "CREATE TABLE v.derived (id INT NOT NULL PRIMARY KEY, a INT, gv INT AS (a + 1) VIRTUAL, \
             gs INT AS (a + 1) STORED)",
        )
        .await?;
        let tables = HashMap::from([
            ("plain".to_owned(), Arc::clone(&plain)),
            ("derived".to_owned(), Arc::clone(&derived)),
        ]);
        let rows = "INSERT INTO v.plain (id, a, b, c, u) VALUES (1, 1, 'b', 'c', UUID()), (2, NULL, NULL, NULL, NULL)";
        run(&mut conn, rows).await?;
        run(&mut conn, "INSERT INTO v.derived (id, a) VALUES (1, 1)").await?;
        let image = if is_11_8(server) { "FULL_NODUP" } else { "FULL" };
        run(&mut conn, format!("SET binlog_row_image = {image}")).await?;
        let mut state = select(&mut snapshot, &plain).await?;
        let mut expected: Vec<Change> = state.iter().map(|row| (None, Some(row.clone()))).collect();
        for statement in [
            "UPDATE v.plain SET a = 10 WHERE id = 1",
            "UPDATE v.plain SET b = NULL, c = '' WHERE id = 1",
            "UPDATE v.plain SET u = '00000000-0000-0000-0000-000000000000', a = 3 WHERE id = 2",
            "UPDATE v.plain SET id = 3 WHERE id = 2",
            "INSERT INTO v.plain (id, a) VALUES (3, 4) ON DUPLICATE KEY UPDATE c = 'again'",
        ] {
            run(&mut conn, statement).await?;
            let now = select(&mut snapshot, &plain).await?;
            for (before, after) in state.iter().zip(&now).filter(|(before, after)| before != after) {
                expected.push((Some(before.clone()), Some(after.clone())));
            }
            state = now;
        }
        let logged = read_log(server, &tables).await?.remove("plain").unwrap_or_default();
        ensure!(logged.partial == 0, "{} events are partial", logged.partial);
        ensure!(logged.changes == expected, "{:?}\n{expected:?}", logged.changes);

        run(&mut conn, "SET binlog_row_image = FULL").await?;
        run(&mut conn, "UPDATE v.derived SET a = 2").await?;
        run(&mut conn, "REPLACE INTO v.derived (id, a) VALUES (1, 3)").await?;
        run(&mut conn, "DELETE FROM v.derived").await?;
        let logged = read_log(server, &tables).await?.remove("derived").unwrap_or_default();
        let (partial, without) = (logged.partial, logged.without_generated);
        println!("{}: of the images of generated columns {partial} are partial", server.kind().name());
        ensure!(partial == without);
        ensure!((partial > 0) == is_11_8(server), "{partial} events are partial");

        let before = read_log(server, &tables).await?.remove("plain").unwrap_or_default();
        for image in ["MINIMAL", "NOBLOB"] {
            run(&mut conn, format!("SET binlog_row_image = {image}")).await?;
            run(&mut conn, format!("UPDATE v.plain SET a = a + 1, b = '{image}'")).await?;
        }
        let after = read_log(server, &tables).await?.remove("plain").unwrap_or_default();
        ensure!(after.partial == before.partial + 2, "{} events are partial", after.partial);
        let partial = &after.changes[before.changes.len()..];
        ensure!(partial.iter().all(|(before, after)| {
            before.as_ref().is_some_and(Row::has_absent) && after.as_ref().is_some_and(Row::has_absent)
        }));
        Ok(())
    })
}

/// One column of each type in one table: the log's metadata lists some things only for the columns that have
/// them, and NULLs share bytes.
#[test]
fn a_table_of_all_types_agrees() -> Result<()> {
    on_both(async |server, rng| {
        let mut conn = connect(server, SESSION).await?;
        let mut snapshot = connect(server, SNAPSHOT_SESSION).await?;
        let long = |ty: &ColumnType| match ty {
            ColumnType::VarChar { length, .. } | ColumnType::VarBinary { length } => *length > 255,
            ColumnType::Char { length, .. } | ColumnType::Binary { length } => *length > 64,
            ColumnType::Vector { dimensions } => *dimensions > 64,
            _ => false,
        };
        let mut cases: Vec<Case> =
            cases(server, rng).into_iter().chain(compressed(rng)).filter(|case| !long(&case.ty)).collect();
        // what the log lists is found by counting the columns of a kind
        cases.shuffle(rng);
        let mut columns = vec![id_column()];
        columns.extend(cases.iter().enumerate().map(|(i, c)| Column::new(format!("c{i}"), c.ty.clone())));
        let schema = Arc::new(table("wide", columns));
        charsets::ensure(&mut snapshot, [&schema]).await?;
        let definitions: Vec<_> =
            cases.iter().enumerate().map(|(i, c)| format!("c{i} {} NULL", c.sql)).collect();
        run(
            &mut conn,
            // a row of all that is more than InnoDB takes
            format!(
                "CREATE TABLE v.wide (id INT NOT NULL PRIMARY KEY, {}) ENGINE=MyISAM",
                definitions.join(", ")
            ),
        )
        .await?;
        cases.iter_mut().for_each(|case| case.literals.retain(|literal| literal.len() < 900));
        for id in 0..100 {
            let values: Vec<_> = cases
                .iter()
                .map(|c| match rng.random_range(0..3) {
                    0 => "NULL",
                    // the long ones come last, and would make a row of more than the server takes
                    _ => &c.literals[rng.random_range(0..c.literals.len().min(6))],
                })
                .collect();
            run(&mut conn, format!("INSERT INTO v.wide VALUES ({id}, {})", values.join(", "))).await?;
        }
        let rows = select(&mut snapshot, &schema).await?;
        let declared = declared_types(server, &mut conn, "v.wide").await?;
        for (ours, case) in declared[1..].iter().zip(&cases) {
            ensure!(same_type(ours, &case.ty), "{}: SHOW CREATE TABLE is read as {ours}", case.sql);
        }
        let tables = HashMap::from([("wide".to_owned(), schema)]);
        let logged = read_log(server, &tables).await?.remove("wide").unwrap_or_default();
        compare_with_log(&rows, &logged.changes)
    })
}

/// Makes a table of each case, reads it on three ways and compares. Gives what was in the log of each.
async fn agree(server: &Server, session: &str, cases: Vec<Case>) -> Result<Vec<(String, Logged)>> {
    let mut conn = connect(server, session).await?;
    let mut snapshot = connect(server, SNAPSHOT_SESSION).await?;
    let (mut tables, mut expected) = (HashMap::new(), Vec::new());
    let (mut values, count) = (0, cases.len());
    for (n, case) in cases.into_iter().enumerate() {
        let schema = Arc::new(table(&format!("t{n}"), vec![id_column(), Column::new("v", case.ty.clone())]));
        tables.insert(schema.id.table.to_string(), Arc::clone(&schema));
        let rows = write_and_select(server, &mut conn, &mut snapshot, &schema, &case)
            .await
            .with_context(|| format!("column {}", case.sql))?;
        values += rows.len();
        expected.push((schema, case.sql, rows));
    }
    let mut log = read_log(server, &tables).await?;
    let mut all = Vec::new();
    for (schema, sql, rows) in expected {
        let logged = log.remove(&*schema.id.table).unwrap_or_default();
        compare_with_log(&rows, &logged.changes).with_context(|| format!("column {sql}"))?;
        ensure!(logged.partial == 0, "{} events are partial", logged.partial);
        all.push((sql, logged));
    }
    println!("{}: {count} columns, {values} values agree", server.kind().name());
    Ok(all)
}

/// What SELECT gives, after a look at what the server says in text.
async fn write_and_select(
    server: &Server,
    conn: &mut Conn,
    snapshot: &mut Conn,
    schema: &Arc<TableSchema>,
    case: &Case,
) -> Result<Vec<Row>> {
    let table = &schema.id;
    charsets::ensure(snapshot, [schema]).await?;
    run(conn, format!("CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY, v {} NULL)", case.sql)).await?;
    let declared = declared_types(server, conn, &table.to_string()).await?;
    ensure!(same_type(&declared[1], &case.ty), "SHOW CREATE TABLE is read as {}", declared[1]);
    let literals = case.literals.iter().map(String::as_str).chain(["NULL"]);
    let values: Vec<_> = literals.enumerate().map(|(id, v)| format!("({id}, {v})")).collect();
    for chunk in values.chunks(100) {
        run(conn, format!("INSERT INTO {table} VALUES {}", chunk.join(", "))).await?;
    }
    let rows = select(snapshot, schema).await?;
    ensure!(rows.len() == values.len(), "{} rows of {}", rows.len(), values.len());

    let texts: Vec<Option<String>> =
        conn.query(format!("SELECT {} FROM {table} ORDER BY id", text_expression(case))).await?;
    for ((row, text), literal) in rows.iter().zip(texts).zip(&values) {
        let ours = our_text(&row.get(1), &case.ty);
        let text = text.map(|text| match case.ty {
            // digits may differ, the number may not
            ColumnType::Float { .. } | ColumnType::Double { .. } => {
                text.parse::<f64>().map_or(text, |v| format!("{:016x}", v.to_bits()))
            }
            _ => text,
        });
        ensure!(ours == text, "{}", {
            let shown = |t: &Option<String>| format!("{t:?}").chars().take(300).collect::<String>();
            format!(
                "{}: we read {}, the server says {}",
                shown(&Some(literal.clone())),
                shown(&ours),
                shown(&text)
            )
        });
    }
    run(conn, format!("UPDATE {table} SET id = id + 1000000")).await?;
    run(conn, format!("DELETE FROM {table}")).await?;
    Ok(rows)
}

async fn select(conn: &mut Conn, schema: &Arc<TableSchema>) -> Result<Vec<Row>> {
    let decoder = ResultDecoder::new(schema)?;
    let select = format!("SELECT {} FROM {} ORDER BY id", decoder.select_list(), schema.id);
    let mut builder = RowBuilder::new();
    let result: Vec<mysql_async::Row> = conn.exec(&select, ()).await?;
    result.into_iter().map(|row| Ok(decoder.decode(&mut builder, &row.unwrap())?)).collect()
}

async fn show_create(conn: &mut Conn, table: &str) -> Result<String> {
    let row: Option<(String, String)> = conn.query_first(format!("SHOW CREATE TABLE {table}")).await?;
    Ok(row.context("no such table")?.1)
}

/// The types that our DDL reader finds in SHOW CREATE TABLE.
async fn declared_types(server: &Server, conn: &mut Conn, table: &str) -> Result<Vec<ColumnType>> {
    let create = show_create(conn, table).await?;
    let version = if is_11_8(server) { 110_809 } else { 101_119 };
    let tables = parse_schema_text(&create, Some("v"), &Context::mariadb(version))
        .map_err(|e| anyhow::anyhow!("{create}: {e:?}"))?;
    let table = tables.into_iter().next().with_context(|| create)?;
    Ok(table.columns.into_iter().map(|column| column.ty).collect())
}

/// The cases do not name collations, and a reference system is in no SHOW CREATE TABLE.
fn same_type(declared: &ColumnType, ours: &ColumnType) -> bool {
    declared.to_string() == ours.to_string()
        && match (declared.charset(), ours.charset()) {
            (Some(a), Some(b)) => a.name == b.name,
            (a, b) => a.is_none() && b.is_none(),
        }
}

fn compare_with_log(rows: &[Row], changes: &[Change]) -> Result<()> {
    let mut inserted = changes.iter().filter(|(before, _)| before.is_none());
    for row in rows {
        let logged =
            inserted.next().and_then(|(_, after)| after.as_ref()).context("a row is not in the log")?;
        ensure!(row == logged, "the snapshot and the log differ: {}", where_they_differ(row, logged));
    }
    ensure!(inserted.next().is_none(), "the log has more rows");
    let value = |row: &Row| row.get(1).into_owned();
    for (before, after) in changes {
        let (Some(before), Some(after)) = (before, after) else { continue };
        ensure!(rows.contains(before), "an UPDATE's row before is not one that was inserted");
        ensure!(value(before) == value(after), "an UPDATE changed {}", where_they_differ(before, after));
    }
    let deleted = changes.iter().filter(|(_, after)| after.is_none()).count();
    ensure!(deleted == 0 || deleted == rows.len(), "{deleted} rows deleted");
    Ok(())
}

/// Both texts from a little before the first difference: a value can be long.
fn where_they_differ(a: &Row, b: &Row) -> String {
    let (a, b) = (format!("{a:?}"), format!("{b:?}"));
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let shown = |text: &str| text.chars().skip(same.saturating_sub(30)).take(80).collect::<String>();
    format!("{} | {}", shown(&a), shown(&b))
}

/// The changes of the tables named, in the order of the present log file.
async fn read_log(
    server: &Server,
    tables: &HashMap<String, Arc<TableSchema>>,
) -> Result<HashMap<String, Logged>> {
    let mut conn = connect(server, "SET @mariadb_slave_capability = 4").await?;
    let status: Option<mysql_async::Row> = conn.query_first("SHOW MASTER STATUS").await?;
    let file: String = status.and_then(|row| row.get(0)).context("no log")?;
    let request =
        BinlogStreamRequest::new(4711).with_non_blocking().with_filename(file.as_bytes()).with_pos(4);
    let mut stream = conn.get_binlog_stream(request).await?;
    let mut decoders: HashMap<u64, (String, RowDecoder)> = HashMap::new();
    let mut log: HashMap<String, Logged> = HashMap::new();
    while let Some(event) = stream.next().await {
        let event = event?;
        let kind = event.header().event_type_raw();
        if kind == 19 {
            let map = TableMap::parse(event.data())?;
            if let Some(schema) = tables.get(&*map.table) {
                log.entry(map.table.to_string()).or_default().wire = map.columns.last().map(|c| c.ty);
                let decoder = RowDecoder::new(&map, schema)?;
                decoders.insert(map.table_id, (map.table.to_string(), decoder));
            }
            continue;
        }
        let plain = decompress(kind, event.data())?;
        let (plain_kind, body) = match &plain {
            Some((kind, body)) => (*kind, body.as_slice()),
            None => (kind, event.data()),
        };
        if !matches!(plain_kind, 23..=25 | 30..=32) {
            continue;
        }
        let event = RowsEvent::parse(plain_kind, body)?;
        if let Some((table, decoder)) = decoders.get(&event.table_id()) {
            let logged = log.entry(table.clone()).or_default();
            *logged.events.entry(kind).or_default() += 1;
            logged.partial += usize::from(!decoder.gives_whole_rows(&event));
            logged.without_generated += usize::from(event.lacks_only_generated(decoder.schema()));
            for change in decoder.rows(&event) {
                logged.changes.push(change?);
            }
        }
    }
    Ok(log)
}

/// How the server is asked for a text that [`our_text`] can match.
fn text_expression(case: &Case) -> &'static str {
    match case.ty {
        ColumnType::Float { .. } => "CAST(v AS DOUBLE)",
        // the sum has the same digits of fraction, and no ZEROFILL
        ColumnType::Int { .. } | ColumnType::Decimal { .. } if case.sql.contains("ZEROFILL") => "v + 0",
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => {
            "HEX(CONVERT(v USING utf8mb4))"
        }
        ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6 => "HEX(CAST(v AS CHAR))",
        ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob { .. }
        | ColumnType::Geometry { .. }
        | ColumnType::Vector { .. } => "HEX(v)",
        ColumnType::Enum { .. } | ColumnType::Set { .. } => {
            "CONCAT(CAST(v AS UNSIGNED), ':', HEX(CONVERT(v USING utf8mb4)))"
        }
        ColumnType::Bit { .. } => "CAST(v AS UNSIGNED)",
        _ => "v",
    }
}

fn our_text(value: &Value<'_>, ty: &ColumnType) -> Option<String> {
    Some(match (value, ty) {
        (Value::Null, _) => return None,
        (Value::Float(v), _) => format!("{:016x}", f64::from(*v).to_bits()),
        (Value::Double(v), _) => format!("{:016x}", v.to_bits()),
        (Value::Time(v), ColumnType::Time { fsp }) => v.to_text(*fsp),
        (Value::DateTime(v), ColumnType::DateTime { fsp }) => v.to_text(*fsp),
        (Value::Timestamp(v), ColumnType::Timestamp { fsp }) => v.to_text(*fsp),
        (Value::Text(v), _) => hex(v.as_bytes()),
        (Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v), _) => hex(v),
        (Value::Enum { index, label }, _) => format!("{index}:{}", hex(label.as_bytes())),
        (Value::Set { bits, labels }, _) => format!("{bits}:{}", hex(labels.as_bytes())),
        (Value::Bit(v), _) => v.to_string(),
        (other, _) => other.to_string(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, b| {
        let _ = write!(text, "{b:02X}");
        text
    })
}

fn table(name: &str, columns: Vec<Column>) -> TableSchema {
    TableSchema {
        id: TableId::new("v", name),
        version: 1,
        columns,
        primary_key: vec![0],
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    }
}

fn id_column() -> Column {
    Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }).not_null()
}

// The cases.

fn cases(server: &Server, rng: &mut StdRng) -> Vec<Case> {
    let mut cases = Vec::new();
    integers(rng, &mut cases);
    decimals(rng, &mut cases);
    floats(rng, &mut cases);
    texts(rng, &mut cases);
    binaries(rng, &mut cases);
    temporals(server, rng, &mut cases);
    enums_and_sets(rng, &mut cases);
    bits(rng, &mut cases);
    addresses(rng, &mut cases);
    spatial(&mut cases);
    jsons(&mut cases);
    if is_11_8(server) {
        vectors(rng, &mut cases);
    }
    cases
}

fn case(sql: impl Into<String>, ty: ColumnType, literals: Vec<String>) -> Case {
    Case { sql: sql.into(), ty, literals }
}

fn strings(literals: &[&str]) -> Vec<String> {
    literals.iter().map(|s| s.to_string()).collect()
}

fn integers(rng: &mut StdRng, cases: &mut Vec<Case>) {
    use IntWidth::*;
    for (word, width, bits) in [
        ("TINYINT", Tiny, 8),
        ("SMALLINT", Small, 16),
        ("MEDIUMINT", Medium, 24),
        ("INT", Int, 32),
        ("BIGINT", Big, 64),
    ] {
        let (low, high) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
        let mut values = vec![low, low + 1, -1, 0, 1, high - 1, high];
        values.extend((0..RANDOM_VALUES).map(|_| rng.random_range(low..=high)));
        let literals = values.iter().map(i128::to_string).collect();
        cases.push(case(word, ColumnType::Int { width, unsigned: false }, literals));

        let high = (1i128 << bits) - 1;
        let mut values = vec![0, 1, high / 2, high / 2 + 1, high - 1, high];
        values.extend((0..RANDOM_VALUES).map(|_| rng.random_range(0..=high)));
        let literals: Vec<String> = values.iter().map(i128::to_string).collect();
        let ty = ColumnType::Int { width, unsigned: true };
        cases.push(case(format!("{word} UNSIGNED"), ty.clone(), literals.clone()));
        cases.push(case(format!("{word}(8) ZEROFILL"), ty, literals));
    }
    let tiny = ColumnType::Int { width: Tiny, unsigned: false };
    cases.push(case("BOOLEAN", tiny, strings(&["TRUE", "FALSE"])));
}

fn digits(rng: &mut StdRng, n: usize) -> String {
    (0..n).map(|_| char::from(b'0' + rng.random_range(0..10u8))).collect()
}

fn decimals(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for (precision, scale) in [
        (65, 38),
        (65, 30),
        (38, 38),
        (50, 37),
        (40, 31),
        (10, 2),
        (1, 0),
        (5, 5),
        (18, 9),
        (38, 0),
        (65, 0),
        (20, 11),
        (9, 1),
    ] {
        let whole = usize::from(precision - scale);
        let scale_digits = usize::from(scale);
        let number = |whole: String, fraction: String| match (whole.as_str(), fraction.as_str()) {
            ("", f) => format!("0.{f}"),
            (w, "") => w.to_owned(),
            (w, f) => format!("{w}.{f}"),
        };
        let most = number("9".repeat(whole), "9".repeat(scale_digits));
        let mut literals = vec!["0".to_owned(), "-0".to_owned(), format!("-{most}"), most];
        if scale > 0 {
            literals.push(number(String::new(), format!("{:0>scale_digits$}", 1)));
            literals.push(format!("-{}", literals[literals.len() - 1]));
        }
        for _ in 0..RANDOM_VALUES {
            let (w, f) = (rng.random_range(0..=whole), rng.random_range(0..=scale_digits));
            if w + f > 0 {
                let sign = if rng.random() { "-" } else { "" };
                literals.push(format!("{sign}{}", number(digits(rng, w), digits(rng, f))));
            }
        }
        let ty = ColumnType::Decimal { precision, scale, unsigned: false };
        cases.push(case(format!("DECIMAL({precision},{scale})"), ty, literals));
    }
    let zerofill = ColumnType::Decimal { precision: 9, scale: 2, unsigned: true };
    cases.push(case("DECIMAL(9,2) ZEROFILL", zerofill, strings(&["0", "1.5", "1234567.89"])));
}

fn floats(rng: &mut StdRng, cases: &mut Vec<Case>) {
    let mut literals = strings(&["0", "-0e0", "1.5", "3.4028234663852886e38", "-3.4028234663852886e38"]);
    literals.extend(strings(&["1.17549435e-38", "1.4e-45", "0.1", "16777217", "3.1415927"]));
    for _ in 0..RANDOM_VALUES {
        let v = f32::from_bits(rng.random());
        if v.is_finite() {
            literals.push(format!("{v:e}"));
        }
    }
    cases.push(case("FLOAT", ColumnType::Float { unsigned: false }, literals));
    cases.push(case("FLOAT(7,3)", ColumnType::Float { unsigned: false }, strings(&["1.0005", "-7.25"])));

    let mut literals = strings(&["0", "-0e0", "1.7976931348623157e308", "-1.7976931348623157e308"]);
    literals.extend(strings(&["2.2250738585072014e-308", "5e-324", "0.1", "1e22", "9007199254740993"]));
    for _ in 0..RANDOM_VALUES {
        let v = f64::from_bits(rng.random());
        if v.is_finite() {
            literals.push(format!("{v:e}"));
        }
    }
    cases.push(case("DOUBLE", ColumnType::Double { unsigned: false }, literals.clone()));
    cases.push(case("DOUBLE(10,3)", ColumnType::Double { unsigned: false }, strings(&["1.0005", "-7.25"])));
}

/// A text as a literal of this character set.
fn converted(charset: &str, text: &str) -> String {
    if text.is_empty() {
        return "''".to_owned();
    }
    format!("CONVERT(_utf8mb4 0x{} USING {charset})", hex(text.as_bytes()))
}

/// Character sets, and the ranges of what they hold.
const CHARSETS: &[(&str, &[(u32, u32)])] = &[
    ("utf8mb4", &[(0, 0x10_ffff), (0, 0xffff), (0, 0x7ff), (0, 0x7f)]),
    ("utf8mb3", &[(0, 0xffff), (0, 0x7ff), (0, 0x7f)]),
    ("ascii", &[(0, 0x7f)]),
    ("latin1", &[(0, 0x7f), (0xa0, 0xff)]),
    ("ucs2", &[(0, 0xffff), (0, 0x7f)]),
    ("utf16", &[(0, 0x10_ffff), (0, 0x7f)]),
    ("utf16le", &[(0, 0x10_ffff), (0, 0x7f)]),
    ("utf32", &[(0, 0x10_ffff), (0, 0x7f)]),
    ("gbk", &[(0x4e00, 0x9fa5), (0x20, 0x7e)]),
    ("sjis", &[(0x3041, 0x3093), (0x20, 0x5b)]),
    ("cp1251", &[(0x410, 0x44f), (0x20, 0x7e)]),
];

fn random_text(rng: &mut StdRng, most: usize, ranges: &[(u32, u32)]) -> String {
    (0..rng.random_range(0..=most))
        .map(|_| {
            let (low, high) = ranges[rng.random_range(0..ranges.len())];
            loop {
                if let Some(c) = char::from_u32(rng.random_range(low..=high)) {
                    return c;
                }
            }
        })
        .collect()
}

fn text_literals(rng: &mut StdRng, charset: &str, ranges: &[(u32, u32)], most: usize) -> Vec<String> {
    let mut literals: Vec<_> = ["", "a", " ", "a ", " a", "a b  "]
        .into_iter()
        .filter(|text| text.len() <= most)
        .map(|text| converted(charset, text))
        .collect();
    literals.push(converted(charset, &"x".repeat(most)));
    literals.extend((0..60).map(|_| converted(charset, &random_text(rng, most.min(40), ranges))));
    literals
}

fn texts(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for (name, ranges) in CHARSETS {
        let charset = Charset::new(*name, "");
        for length in [1, 10, 63, 255] {
            let ty = ColumnType::Char { length, charset: charset.clone() };
            let literals = text_literals(rng, name, ranges, length as usize);
            cases.push(case(format!("CHAR({length}) CHARACTER SET {name}"), ty, literals));
        }
        for length in [1, 10, 63, 64, 255, 256, 3000] {
            let ty = ColumnType::VarChar { length, charset: charset.clone() };
            let literals = text_literals(rng, name, ranges, length as usize);
            cases.push(case(format!("VARCHAR({length}) CHARACTER SET {name}"), ty, literals));
        }
        for (word, size, most) in [
            ("TINYTEXT", LobSize::Tiny, 40),
            ("TEXT", LobSize::Normal, 4000),
            ("MEDIUMTEXT", LobSize::Medium, 70_000),
            ("LONGTEXT", LobSize::Long, 70_000),
        ] {
            let ty = ColumnType::Text { size, charset: charset.clone() };
            let literals = text_literals(rng, name, ranges, most);
            cases.push(case(format!("{word} CHARACTER SET {name}"), ty, literals));
        }
    }
    // numbers of collations that MySQL does not have
    for collation in
        ["utf8mb4_croatian_ci", "utf8mb4_nopad_bin", "latin1_swedish_nopad_ci", "ucs2_thai_520_w2"]
    {
        let name = collation.split('_').next().unwrap_or_default();
        let ty = ColumnType::VarChar { length: 9, charset: Charset::new(name, "") };
        let sql = format!("VARCHAR(9) CHARACTER SET {name} COLLATE {collation}");
        cases.push(case(sql, ty, strings(&["'a'", "'b '"])));
    }
    let national = ColumnType::Char { length: 5, charset: Charset::new("utf8mb3", "") };
    cases.push(case("NATIONAL CHAR(5)", national, strings(&["'a'", "_utf8mb4'ç '"])));
}

fn binaries(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for length in [1, 4, 16, 255] {
        let literals = byte_literals(rng, length as usize);
        cases.push(case(format!("BINARY({length})"), ColumnType::Binary { length }, literals));
    }
    for length in [1, 10, 255, 256, 3000] {
        let literals = byte_literals(rng, length as usize);
        cases.push(case(format!("VARBINARY({length})"), ColumnType::VarBinary { length }, literals));
    }
    for (word, size, most) in [
        ("TINYBLOB", LobSize::Tiny, 255),
        ("BLOB", LobSize::Normal, 4000),
        ("MEDIUMBLOB", LobSize::Medium, 70_000),
        ("LONGBLOB", LobSize::Long, 70_000),
    ] {
        let literals = byte_literals(rng, most);
        cases.push(case(word, ColumnType::Blob { size }, literals));
    }
}

fn byte_literals(rng: &mut StdRng, most: usize) -> Vec<String> {
    let mut literals = strings(&["''", "0x00", "0xAA", "0x20"]);
    if most >= 4 {
        literals.extend(strings(&["0xAA000000", "0x00AA0020", "0xAA0000AA"]));
    }
    literals.push(format!("0x{}", hex(&vec![0xff; most])));
    for _ in 0..60 {
        let bytes: Vec<u8> = (0..rng.random_range(1..=most.min(50)))
            .map(|_| if rng.random() { 0 } else { rng.random() })
            .collect();
        literals.push(format!("0x{}", hex(&bytes)));
    }
    literals
}

fn random_fraction(rng: &mut StdRng, fsp: u8) -> String {
    if fsp == 0 { String::new() } else { format!(".{}", digits(rng, fsp.into())) }
}

fn temporals(server: &Server, rng: &mut StdRng, cases: &mut Vec<Case>) {
    cases.push(case("YEAR", ColumnType::Year, strings(&["0", "1901", "1999", "2000", "2155", "'00'"])));

    let mut literals = strings(&["'0000-00-00'", "'0001-01-01'", "'0099-12-31'", "'1969-12-31'"]);
    literals.extend(strings(&[
        "'9999-12-31'",
        "'2024-00-00'",
        "'2024-02-00'",
        "'2023-02-31'",
        "'0000-01-01'",
    ]));
    literals.extend((0..RANDOM_VALUES).map(|_| {
        let (y, m, d) = (rng.random_range(1..=9999), rng.random_range(1..=12), rng.random_range(1..=31));
        format!("'{y:04}-{m:02}-{d:02}'")
    }));
    cases.push(case("DATE", ColumnType::Date, literals));

    // unsigned seconds since 11.5
    let (last, last_text) = match is_11_8(server) {
        true => (0xffff_ffff_i64, "2106-02-07 06:28:15"),
        false => (0x7fff_ffff, "2038-01-19 03:14:07"),
    };
    for fsp in 0..=6 {
        let mut literals = strings(&["'00:00:00'", "'-00:00:01'", "'-838:59:59'", "'838:59:59'"]);
        literals.extend(strings(&["'100:00:00'", "'-00:00:00.01'", "'-00:00:00.000001'", "'-01:02:03.456'"]));
        literals.extend(strings(&[
            "'-00:00:00.1'",
            "'838:59:59.999999'",
            "'-838:59:59.999999'",
            "'-00:00:59.99'",
        ]));
        literals.extend((0..RANDOM_VALUES).map(|_| {
            let sign = if rng.random() { "-" } else { "" };
            let (h, m, s) = (rng.random_range(0..=838), rng.random_range(0..60), rng.random_range(0..60));
            format!("'{sign}{h:02}:{m:02}:{s:02}{}'", random_fraction(rng, fsp))
        }));
        cases.push(case(format!("TIME({fsp})"), ColumnType::Time { fsp }, literals));

        let mut literals =
            strings(&["'0000-00-00 00:00:00'", "'0001-01-01 00:00:00'", "'2024-00-00 00:00:00'"]);
        literals.extend(strings(&[
            "'9999-12-31 23:59:59'",
            "'1969-12-31 23:59:59'",
            "'2024-02-00 01:02:03'",
        ]));
        literals.extend((0..RANDOM_VALUES).map(|_| {
            let (y, m, d) = (rng.random_range(1..=9999), rng.random_range(1..=12), rng.random_range(1..=31));
            let (h, i, s) = (rng.random_range(0..24), rng.random_range(0..60), rng.random_range(0..60));
            format!("'{y:04}-{m:02}-{d:02} {h:02}:{i:02}:{s:02}{}'", random_fraction(rng, fsp))
        }));
        cases.push(case(format!("DATETIME({fsp})"), ColumnType::DateTime { fsp }, literals));

        let mut literals =
            strings(&["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"]);
        literals.push(format!("'{last_text}'"));
        if fsp > 0 {
            literals.push(format!("'{last_text}.{}'", "9".repeat(fsp.into())));
            literals.push(format!("'1970-01-01 00:00:01.{}'", "9".repeat(fsp.into())));
        }
        literals.extend((0..RANDOM_VALUES).map(|_| {
            let text = Timestamp { micros: rng.random_range(1..last) * 1_000_000 }.to_text(0);
            format!("'{text}{}'", random_fraction(rng, fsp))
        }));
        cases.push(case(format!("TIMESTAMP({fsp})"), ColumnType::Timestamp { fsp }, literals));
    }
}

fn enums_and_sets(rng: &mut StdRng, cases: &mut Vec<Case>) {
    let words = |labels: &[Arc<str>]| {
        let quoted: Vec<_> = labels.iter().map(|l| format!("'{}'", l.replace('\'', "''"))).collect();
        quoted.join(",")
    };
    for (count, charset) in [(3, "utf8mb4"), (255, "latin1"), (256, "utf8mb4"), (300, "utf8mb3")] {
        let labels: Arc<[Arc<str>]> =
            (1..=count).map(|i| if i == 2 { "it's, ç".into() } else { format!("m{i}").into() }).collect();
        let mut literals = strings(&["1", "2", "3", "'no such member'"]);
        literals.push(count.to_string());
        literals.extend((0..50).map(|_| rng.random_range(1..=count).to_string()));
        let sql = format!("ENUM({}) CHARACTER SET {charset}", words(&labels));
        cases.push(case(sql, ColumnType::Enum { labels, charset: Charset::new(charset, "") }, literals));
    }
    // index 0 beside a member ''
    let labels: Arc<[Arc<str>]> = ["a".into(), "".into()].into();
    let ty = ColumnType::Enum { labels, charset: Charset::new("utf8mb4", "") };
    cases.push(case("ENUM('a','') CHARACTER SET utf8mb4", ty, strings(&["'a'", "''", "'zzz'"])));
    for (count, charset) in [(3, "utf8mb4"), (8, "latin1"), (18, "utf8mb4"), (25, "utf8mb3"), (64, "utf8mb4")]
    {
        let labels: Arc<[Arc<str>]> =
            (1..=count).map(|i| if i == 2 { "é 2".into() } else { format!("m{i}").into() }).collect();
        let all = if count == 64 { u64::MAX } else { (1 << count) - 1 };
        let mut literals = strings(&["''", "'m1'"]);
        literals.extend([format!("'m1,m{count}'"), all.to_string()]);
        literals.extend((0..50).map(|_| (rng.random::<u64>() & all).to_string()));
        let sql = format!("SET({}) CHARACTER SET {charset}", words(&labels));
        cases.push(case(sql, ColumnType::Set { labels, charset: Charset::new(charset, "") }, literals));
    }
}

fn bits(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for width in [1, 3, 8, 9, 33, 63, 64] {
        let all = u64::MAX >> (64 - width);
        let mut literals = strings(&["b'0'", "b'1'"]);
        literals.push(format!("b'{all:b}'"));
        literals.extend((0..30).map(|_| format!("b'{:b}'", rng.random::<u64>() & all)));
        cases.push(case(format!("BIT({width})"), ColumnType::Bit { width: width as u8 }, literals));
    }
}

fn addresses(rng: &mut StdRng, cases: &mut Vec<Case>) {
    let mut literals = strings(&[
        "'123e4567-e89b-12d3-a456-426655440000'",
        "'00000000-0000-0000-0000-000000000000'",
        "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'",
        "'20202020-2020-2020-2020-202020202020'",
        "'00112233-4455-6677-8899-aabbccddee00'",
        "'00112233445566778899aabbccddeeff'",
        "UUID()",
    ]);
    for _ in 0..RANDOM_VALUES {
        // zero bytes at the end are cut off in the log
        let keep = rng.random_range(0..=128);
        let v = rng.random::<u128>() & u128::MAX.checked_shl(keep).unwrap_or(0);
        literals.push(format!("'{v:032x}'"));
    }
    cases.push(case("UUID", ColumnType::Uuid, literals));

    let mut literals =
        strings(&["'0.0.0.0'", "'10.1.0.0'", "'255.255.255.255'", "'0.0.0.32'", "'32.32.32.32'"]);
    literals.extend((0..RANDOM_VALUES).map(|_| {
        let [a, b, c, d] =
            (rng.random::<u32>() & u32::MAX.checked_shl(rng.random_range(0..=32)).unwrap_or(0)).to_be_bytes();
        format!("'{a}.{b}.{c}.{d}'")
    }));
    cases.push(case("INET4", ColumnType::Inet4, literals));

    let mut literals = strings(&[
        "'::'",
        "'::1'",
        "'1::'",
        "'2001:db8::'",
        "'2001:db8:0:1:1:1:1:1'",
        "'::ffff:10.0.0.1'",
        "'::10.0.0.1'",
        "'::0.1.0.0'",
        "'::fffe:0:1'",
        "'::ffff:0:0'",
        "'1:0:0:2:0:0:3:4'",
        "'0:1:2:3:4:5:6:7'",
        "'1:2:3:4:5:6:7:0'",
        "'2020:2020:2020:2020:2020:2020:2020:2020'",
        "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'",
    ]);
    // every pattern of zero groups, with and without the groups that make an INET4 of the end
    for zeros in 0..=255u32 {
        let groups: [u16; 8] = std::array::from_fn(|i| match (zeros >> i & 1, rng.random_range(0..3)) {
            (1, _) => 0,
            (_, 0) => 0xffff,
            (_, 1) => rng.random_range(1..=15),
            _ => rng.random_range(1..=0xffff),
        });
        literals.push(format!("'{}'", Ipv6Addr::from(groups)));
    }
    cases.push(case("INET6", ColumnType::Inet6, literals));
}

fn spatial(cases: &mut Vec<Case>) {
    let shapes = [
        ("POINT", "point", "POINT(1 2)"),
        ("LINESTRING", "linestring", "LINESTRING(0 0, 1 1, 2 3)"),
        ("POLYGON", "polygon", "POLYGON((0 0, 0 1, 1 1, 0 0))"),
        ("MULTIPOINT", "multipoint", "MULTIPOINT(0 0, 1 1)"),
        ("MULTILINESTRING", "multilinestring", "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))"),
        ("MULTIPOLYGON", "multipolygon", "MULTIPOLYGON(((0 0, 0 1, 1 1, 0 0)))"),
        ("GEOMETRYCOLLECTION", "geomcollection", "GEOMETRYCOLLECTION(POINT(1 1), LINESTRING(0 0, 1 1))"),
    ];
    let mut all = strings(&["ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')"]);
    for (word, kind, text) in shapes {
        let literals = vec![format!("ST_GeomFromText('{text}')"), format!("ST_GeomFromText('{text}', 4326)")];
        all.extend(literals.clone());
        cases.push(case(word, ColumnType::Geometry { kind: kind.into(), srid: None }, literals));
    }
    cases.push(case("GEOMETRY", ColumnType::Geometry { kind: "geometry".into(), srid: None }, all));
    let srid = ColumnType::Geometry { kind: "point".into(), srid: Some(101) };
    let literals = strings(&["ST_GeomFromText('POINT(10 20)', 101)", "ST_GeomFromText('POINT(10 20)')"]);
    cases.push(case("POINT REF_SYSTEM_ID=101", srid, literals));
}

/// A LONGTEXT with a CHECK.
fn jsons(cases: &mut Vec<Case>) {
    let ty = ColumnType::Text { size: LobSize::Long, charset: Charset::new("utf8mb4", "") };
    let literals =
        strings(&[r#"'{"a":  1, "b": [1, 2.50, "x", null]}'"#, "'null'", "'[]'", "JSON_OBJECT('k', 1)"]);
    cases.push(case("JSON", ty, literals));
}

fn vectors(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for dimensions in [1, 3, 63, 64, 2000] {
        let literals = (0..20)
            .map(|_| {
                let v: Vec<_> = (0..dimensions).map(|_| (rng.random::<f32>() - 0.5).to_string()).collect();
                format!("VEC_FromText('[{}]')", v.join(","))
            })
            .collect();
        cases.push(case(format!("VECTOR({dimensions})"), ColumnType::Vector { dimensions }, literals));
    }
}

fn compressed(rng: &mut StdRng) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut repeated = |charset: &str, ranges: &[(u32, u32)], most: usize| {
        let mut literals = text_literals(rng, charset, ranges, most);
        for _ in 0..20 {
            let piece = random_text(rng, 10, ranges);
            let times = most / piece.chars().count().max(1);
            if !piece.is_empty() {
                literals.push(converted(charset, &piece.repeat(rng.random_range(0..=times))));
            }
        }
        literals
    };
    for (name, ranges) in CHARSETS {
        let charset = Charset::new(*name, "");
        for length in [10, 63, 254, 255, 500, 3000] {
            let ty = ColumnType::VarChar { length, charset: charset.clone() };
            let literals = repeated(name, ranges, length as usize);
            cases.push(case(format!("VARCHAR({length}) COMPRESSED CHARACTER SET {name}"), ty, literals));
        }
        for (word, size, most) in [
            ("TINYTEXT", LobSize::Tiny, 40),
            ("TEXT", LobSize::Normal, 4000),
            ("MEDIUMTEXT", LobSize::Medium, 17_000),
            ("LONGTEXT", LobSize::Long, 17_000),
        ] {
            let ty = ColumnType::Text { size, charset: charset.clone() };
            let literals = repeated(name, ranges, most);
            cases.push(case(format!("{word} COMPRESSED CHARACTER SET {name}"), ty, literals));
        }
    }
    for length in [10, 254, 255, 3000] {
        let literals = byte_literals(rng, length as usize);
        cases.push(case(
            format!("VARBINARY({length}) COMPRESSED"),
            ColumnType::VarBinary { length },
            literals,
        ));
    }
    for (word, size, most) in [
        ("TINYBLOB", LobSize::Tiny, 254),
        ("BLOB", LobSize::Normal, 4000),
        ("MEDIUMBLOB", LobSize::Medium, 70_000),
        ("LONGBLOB", LobSize::Long, 70_000),
    ] {
        let literals = byte_literals(rng, most);
        cases.push(case(format!("{word} COMPRESSED"), ColumnType::Blob { size }, literals));
    }
    cases
}
