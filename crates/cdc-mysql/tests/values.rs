//! Snapshot value = log value = the server's own text, for every type (acceptance cases 58 to 62, 64, 65).
//!
//! Each case is a table of one column and a list of SQL literals: the extremes by hand, and random ones by
//! seed. The rows are read on three ways: by SELECT in the binary protocol, from the log (as WRITE, and as
//! the images of an UPDATE and a DELETE), and as text that the server itself makes. All must agree.

use anyhow::{Context, Result, ensure};
use cdc_core::row::{Row, RowBuilder};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, LobSize, TableId, TableSchema};
use cdc_core::value::Value;
use cdc_mysql::binlog::rows::{Change, KeyExtractor, RowDecoder, RowsEvent};
use cdc_mysql::binlog::table_map::TableMap;
use cdc_mysql::decode::result::ResultDecoder;
use cdc_testkit::servers::{Server, ServerOptions};
use futures_util::StreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{BinlogStreamRequest, Conn, Opts};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

const SEED: u64 = 20_240_229;
const RANDOM_VALUES: usize = 200;

/// A table of one column.
struct Case {
    sql: String,
    ty: ColumnType,
    literals: Vec<String>,
}

/// Zero and impossible dates and invalid ENUM members are wanted here.
const SESSION: &str = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'";
const SNAPSHOT_SESSION: &str = "SET sql_mode = '', time_zone = '+00:00', character_set_results = NULL";

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// No value may depend on the server's own time zone.
fn start_server() -> Result<Server> {
    Server::start(ServerOptions::default().with("--default-time-zone=-03:30"))
}

async fn connect(server: &Server, session: &str) -> Result<Conn> {
    let mut conn = Conn::new(Opts::from_url(&server.url("root"))?).await?;
    conn.query_drop(session).await?;
    Ok(conn)
}

#[test]
fn case_58_59_60_62_64_snapshot_log_and_server_agree_on_every_type() -> Result<()> {
    let server = start_server()?;
    runtime()?.block_on(async {
        let mut conn = connect(&server, SESSION).await?;
        let mut snapshot = connect(&server, SNAPSHOT_SESSION).await?;
        conn.query_drop("CREATE DATABASE v").await?;
        let mut tables = HashMap::new();
        let mut expected = Vec::new();
        for (n, case) in cases().into_iter().enumerate() {
            let schema = Arc::new(one_column(&format!("t{n}"), case.ty.clone()));
            tables.insert(schema.id.table.to_string(), Arc::clone(&schema));
            let rows = write_and_select(&mut conn, &mut snapshot, &schema, &case)
                .await
                .with_context(|| format!("column {}", case.sql))?;
            expected.push((schema, case.sql, rows));
        }
        let mut log = read_log(&server, &tables).await?;
        for (schema, sql, rows) in expected {
            let changes = log.remove(&*schema.id.table).unwrap_or_default();
            compare_with_log(&rows, &changes).with_context(|| format!("column {sql}"))?;
        }
        Ok(())
    })
}

/// What SELECT gives, after a look at what the server says in text.
async fn write_and_select(
    conn: &mut Conn,
    snapshot: &mut Conn,
    schema: &Arc<TableSchema>,
    case: &Case,
) -> Result<Vec<Row>> {
    let table = &schema.id;
    conn.query_drop(format!("CREATE TABLE {table} (id INT NOT NULL PRIMARY KEY, v {} NULL)", case.sql))
        .await?;
    let literals = case.literals.iter().map(String::as_str).chain(["NULL"]);
    let values: Vec<_> = literals.enumerate().map(|(id, v)| format!("({id}, {v})")).collect();
    for chunk in values.chunks(100) {
        conn.query_drop(format!("INSERT INTO {table} VALUES {}", chunk.join(", "))).await?;
    }

    let decoder = ResultDecoder::new(schema)?;
    let select = format!("SELECT {} FROM {table} ORDER BY id", decoder.select_list());
    let mut builder = RowBuilder::new();
    let result: Vec<mysql_async::Row> = snapshot.exec(&select, ()).await?;
    let rows = result
        .into_iter()
        .map(|row| Ok(decoder.decode(&mut builder, &row.unwrap())?))
        .collect::<Result<Vec<_>>>()?;
    ensure!(rows.len() == values.len(), "{} rows of {}", rows.len(), values.len());

    let texts: Vec<Option<String>> =
        conn.query(format!("SELECT {} FROM {table} ORDER BY id", text_expression(&case.ty))).await?;
    for ((row, text), literal) in rows.iter().zip(texts).zip(&values) {
        let ours = our_text(&row.get(1), &case.ty);
        let text = text.map(|text| match case.ty {
            // digits may differ, the number may not
            ColumnType::Float { .. } | ColumnType::Double { .. } => {
                text.parse::<f64>().map_or(text, |v| format!("{:016x}", v.to_bits()))
            }
            _ => text,
        });
        ensure!(ours == text, "{literal}: we read {ours:?}, the server says {text:?}");
    }

    // JSON's binary form after a change in place has gaps
    if matches!(case.ty, ColumnType::Json) {
        return Ok(rows);
    }
    conn.query_drop(format!("UPDATE {table} SET id = id + 1000000")).await?;
    conn.query_drop(format!("DELETE FROM {table}")).await?;
    Ok(rows)
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
        ensure!(rows.contains(before), "an UPDATE's row before is {before:?}");
        ensure!(value(before) == value(after), "an UPDATE changed {before:?} to {after:?}");
    }
    let deleted = changes.iter().filter(|(_, after)| after.is_none()).count();
    ensure!(deleted == 0 || deleted == rows.len(), "{deleted} rows deleted");
    Ok(())
}

/// Both texts from a little before the first difference: a JSON value can be long.
fn where_they_differ(a: &Row, b: &Row) -> String {
    let (a, b) = (format!("{a:?}"), format!("{b:?}"));
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let shown = |text: &str| text.chars().skip(same.saturating_sub(30)).take(80).collect::<String>();
    format!("{} | {}", shown(&a), shown(&b))
}

/// The changes of the tables named, in the order of the log.
async fn read_log(
    server: &Server,
    tables: &HashMap<String, Arc<TableSchema>>,
) -> Result<HashMap<String, Vec<Change>>> {
    let conn = connect(server, "DO 1").await?;
    let request =
        BinlogStreamRequest::new(4711).with_non_blocking().with_filename(b"binlog.000001").with_pos(4);
    let mut stream = conn.get_binlog_stream(request).await?;
    let mut decoders: HashMap<u64, (String, RowDecoder)> = HashMap::new();
    let mut log: HashMap<String, Vec<Change>> = HashMap::new();
    while let Some(event) = stream.next().await {
        let event = event?;
        match event.header().event_type_raw() {
            19 => {
                let map = TableMap::parse(event.data())?;
                if let Some(schema) = tables.get(&*map.table) {
                    let decoder = RowDecoder::new(&map, schema)?;
                    decoders.insert(map.table_id, (map.table.to_string(), decoder));
                }
            }
            kind @ (30..=32) => {
                let event = RowsEvent::parse(kind, event.data())?;
                if let Some((table, decoder)) = decoders.get(&event.table_id()) {
                    let changes = log.entry(table.clone()).or_default();
                    for change in decoder.rows(&event) {
                        changes.push(change?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(log)
}

/// How the server is asked for a text that [`our_text`] can match.
fn text_expression(ty: &ColumnType) -> &'static str {
    match ty {
        ColumnType::Float { .. } => "CAST(v AS DOUBLE)",
        // the sum has the same digits of fraction, and no ZEROFILL
        ColumnType::Decimal { .. } => "v + 0",
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => {
            "HEX(CONVERT(v USING utf8mb4))"
        }
        ColumnType::Binary { .. }
        | ColumnType::VarBinary { .. }
        | ColumnType::Blob { .. }
        | ColumnType::Geometry { .. }
        | ColumnType::Vector { .. } => "HEX(v)",
        ColumnType::Enum { .. } | ColumnType::Set { .. } => {
            "CONCAT(CAST(v AS UNSIGNED), ':', HEX(CONVERT(v USING utf8mb4)))"
        }
        ColumnType::Bit { .. } => "CAST(v AS UNSIGNED)",
        ColumnType::Json => "HEX(CAST(v AS CHAR CHARACTER SET utf8mb4))",
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
        (Value::Text(v) | Value::Json(v), _) => hex(v.as_bytes()),
        (Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v), _) => hex(v),
        (Value::Enum { index, label }, _) => format!("{index}:{}", hex(label.as_bytes())),
        (Value::Set { bits, labels }, _) => format!("{bits}:{}", hex(labels.as_bytes())),
        (Value::Bit(v), _) => v.to_string(),
        (other, _) => other.to_string(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
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

fn one_column(name: &str, ty: ColumnType) -> TableSchema {
    table(name, vec![id_column(), Column::new("v", ty)])
}

// The cases.

fn cases() -> Vec<Case> {
    let rng = &mut StdRng::seed_from_u64(SEED);
    let mut cases = Vec::new();
    integers(rng, &mut cases);
    decimals(rng, &mut cases);
    floats(rng, &mut cases);
    texts(rng, &mut cases);
    binaries(rng, &mut cases);
    temporals(rng, &mut cases);
    enums_and_sets(rng, &mut cases);
    bits(rng, &mut cases);
    jsons(rng, &mut cases);
    spatial(rng, &mut cases);
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
    }
}

fn digits(rng: &mut StdRng, n: usize) -> String {
    (0..n).map(|_| char::from(b'0' + rng.random_range(0..10u8))).collect()
}

fn decimals(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for (precision, scale) in
        [(65, 30), (10, 2), (1, 0), (5, 5), (18, 9), (38, 0), (65, 0), (30, 30), (20, 11), (9, 1), (64, 19)]
    {
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

/// A literal of these bytes in this character set.
fn introduced(charset: &str, bytes: &[u8]) -> String {
    if bytes.is_empty() { "''".to_owned() } else { format!("_{charset} 0x{}", hex(bytes)) }
}

fn random_text(rng: &mut StdRng, most: usize, ceiling: u32) -> String {
    let n = rng.random_range(0..=most);
    (0..n)
        .map(|_| {
            loop {
                let top = match rng.random_range(0..4) {
                    0 => ceiling,
                    1 => ceiling.min(0xffff),
                    2 => ceiling.min(0x7ff),
                    _ => 0x7f,
                };
                if let Some(c) = char::from_u32(rng.random_range(0..=top)) {
                    return c;
                }
            }
        })
        .collect()
}

fn texts(rng: &mut StdRng, cases: &mut Vec<Case>) {
    for (name, ceiling) in [("utf8mb4", 0x10_ffff), ("utf8mb3", 0xffff), ("ascii", 0x7f), ("latin1", 0xff)] {
        let charset = Charset::new(name, "");
        let encode = |text: &str| match name {
            "latin1" => text.chars().map(|c| c as u8).collect::<Vec<_>>(),
            _ => text.as_bytes().to_vec(),
        };
        let mut list = |most: usize| {
            let mut literals: Vec<_> = ["", "a", " ", "a ", " a", "a b  "]
                .into_iter()
                .filter(|text| text.len() <= most)
                .map(|text| introduced(name, &encode(text)))
                .collect();
            literals.push(introduced(name, &vec![b'x'; most]));
            literals.extend((0..60).map(|_| {
                let text = random_text(rng, most.min(40), ceiling);
                introduced(name, &encode(&text))
            }));
            if name == "latin1" && most >= 256 {
                literals.push(introduced(name, &(0..=255).collect::<Vec<u8>>()));
            }
            literals
        };
        for length in [1, 10, 63, 64, 255] {
            let ty = ColumnType::Char { length, charset: charset.clone() };
            let literals = list(length as usize);
            cases.push(case(format!("CHAR({length}) CHARACTER SET {name}"), ty, literals));
        }
        for length in [1, 10, 63, 64, 255, 256, 3000] {
            let ty = ColumnType::VarChar { length, charset: charset.clone() };
            let literals = list(length as usize);
            cases.push(case(format!("VARCHAR({length}) CHARACTER SET {name}"), ty, literals));
        }
        for (word, size, most) in [
            ("TINYTEXT", LobSize::Tiny, 40),
            ("TEXT", LobSize::Normal, 4000),
            ("MEDIUMTEXT", LobSize::Medium, 70_000),
            ("LONGTEXT", LobSize::Long, 70_000),
        ] {
            let ty = ColumnType::Text { size, charset: charset.clone() };
            let literals = list(most);
            cases.push(case(format!("{word} CHARACTER SET {name}"), ty, literals));
        }
    }
    let emoji = ColumnType::VarChar { length: 4, charset: Charset::utf8mb4() };
    cases.push(case("VARCHAR(4) CHARACTER SET utf8mb4", emoji, strings(&["'🙂🙂'", "'hé🙂'"])));
}

fn binaries(rng: &mut StdRng, cases: &mut Vec<Case>) {
    let mut list = |most: usize| {
        let mut literals = strings(&["''", "0x00", "0xAA", "0x20"]);
        literals.push(format!("0x{}", hex(&vec![0xff; most])));
        if most >= 4 {
            literals.extend(strings(&["0xAA000000", "0x00AA0020", "0xAA0000AA"]));
        }
        for _ in 0..60 {
            let bytes: Vec<u8> = (0..rng.random_range(1..=most.min(50)))
                .map(|_| if rng.random() { 0 } else { rng.random() })
                .collect();
            literals.push(format!("0x{}", hex(&bytes)));
        }
        literals
    };
    for length in [1, 4, 16, 255] {
        let literals = list(length as usize);
        cases.push(case(format!("BINARY({length})"), ColumnType::Binary { length }, literals));
    }
    for length in [1, 10, 255, 256, 3000] {
        let literals = list(length as usize);
        cases.push(case(format!("VARBINARY({length})"), ColumnType::VarBinary { length }, literals));
    }
    for (word, size, most) in [
        ("TINYBLOB", LobSize::Tiny, 255),
        ("BLOB", LobSize::Normal, 4000),
        ("MEDIUMBLOB", LobSize::Medium, 70_000),
        ("LONGBLOB", LobSize::Long, 70_000),
    ] {
        let literals = list(most);
        cases.push(case(word, ColumnType::Blob { size }, literals));
    }
}

fn random_fraction(rng: &mut StdRng, fsp: u8) -> String {
    if fsp == 0 { String::new() } else { format!(".{}", digits(rng, fsp.into())) }
}

fn temporals(rng: &mut StdRng, cases: &mut Vec<Case>) {
    cases.push(case("YEAR", ColumnType::Year, strings(&["0", "1901", "1999", "2000", "2155"])));

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

    for fsp in 0..=6 {
        let mut literals = strings(&["'00:00:00'", "'-00:00:01'", "'-838:59:59'", "'838:59:59'"]);
        literals.extend(strings(&["'100:00:00'", "'-00:00:00.01'", "'-00:00:00.000001'", "'-01:02:03.456'"]));
        literals.extend((0..RANDOM_VALUES).map(|_| {
            let sign = if rng.random() { "-" } else { "" };
            let (h, m, s) = (rng.random_range(0..838), rng.random_range(0..60), rng.random_range(0..60));
            format!("'{sign}{h:02}:{m:02}:{s:02}{}'", random_fraction(rng, fsp))
        }));
        cases.push(case(format!("TIME({fsp})"), ColumnType::Time { fsp }, literals));

        let mut literals =
            strings(&["'0000-00-00 00:00:00'", "'0001-01-01 00:00:00'", "'2024-00-00 00:00:00'"]);
        literals.extend(strings(&["'9999-12-31 23:59:59'", "'1969-12-31 23:59:59'"]));
        literals.extend((0..RANDOM_VALUES).map(|_| {
            let (y, m, d) = (rng.random_range(1..=9999), rng.random_range(1..=12), rng.random_range(1..=31));
            let (h, i, s) = (rng.random_range(0..24), rng.random_range(0..60), rng.random_range(0..60));
            format!("'{y:04}-{m:02}-{d:02} {h:02}:{i:02}:{s:02}{}'", random_fraction(rng, fsp))
        }));
        cases.push(case(format!("DATETIME({fsp})"), ColumnType::DateTime { fsp }, literals));

        let mut literals =
            strings(&["'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"]);
        if fsp > 0 {
            literals.push(format!("'2038-01-19 03:14:07.{}'", "9".repeat(fsp.into())));
        }
        literals.extend((0..RANDOM_VALUES).map(|_| {
            let micros = rng.random_range(1i64..2_147_483_647) * 1_000_000;
            let text = cdc_core::value::Timestamp { micros }.to_text(0);
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
        if width == 3 {
            literals.push("b'011'".to_owned());
        }
        cases.push(case(format!("BIT({width})"), ColumnType::Bit { width: width as u8 }, literals));
    }
}

fn jsons(rng: &mut StdRng, cases: &mut Vec<Case>) {
    let mut literals = strings(&[
        r#"'{"x": 0.1e22}'"#,
        r#"'{"x": 10000000000}'"#,
        r#"'{"a": 1, "b": [1, 2.5, "x", null, true, {"c": -9223372036854775808}], "big": 18446744073709551615}'"#,
        "'null'",
        "'true'",
        "'false'",
        "'\"a string\"'",
        "'[]'",
        "'{}'",
        "'[[], {}, [{}]]'",
        "'18446744073709551616'",
        "JSON_ARRAY(32767, 32768, 65535, 65536, -32768, -32769, 2147483647, 2147483648, 4294967295, 4294967296)",
        "JSON_ARRAY(-0e0, 1e14, 1e15, 1e16, 1e-5, 1e-14, 1e-15, 1e-16, 1e22, 5e-324, 1.7976931348623157e308)",
        "JSON_ARRAY(1234567890123456e0, 1234567890123456.5e0, 12345678901234567e0, 123456789012345e0)",
        "CAST(CAST('-12345.6700' AS DECIMAL(20,4)) AS JSON)",
        "JSON_OBJECT('d', CAST(0.5 AS DECIMAL(2,1)), 'z', CAST(0 AS DECIMAL(65,30)), 'n', -0.00)",
        "JSON_ARRAY(12345678901234567890123456789012345.123456789012345678901234567890)",
        "CAST(CAST('2024-02-29 12:34:56.789012' AS DATETIME(6)) AS JSON)",
        "CAST(CAST('2024-02-29 12:34:56' AS DATETIME) AS JSON)",
        "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
        "JSON_ARRAY(CAST('-838:59:59' AS TIME), CAST('00:00:00.000001' AS TIME(6)), CAST('-00:00:00.5' AS TIME(1)))",
        "JSON_ARRAY(TIMESTAMP('2024-02-29 12:34:56'), FROM_UNIXTIME(1.5), CAST('0000-00-00' AS DATE))",
        "JSON_OBJECT('bit', b'101', 'bin', x'00FF', 'blob', CAST('abc' AS BINARY), 'year', CAST(2024 AS YEAR))",
        "JSON_ARRAY(REPEAT(x'00FF', 28), REPEAT(x'00FF', 29), REPEAT(x'AB', 57), REPEAT(x'AB', 58), REPEAT(x'CD', 300))",
        "JSON_ARRAY('emoji 🙂', '\u{7f} / \\\\ \\\" \\n \\r \\t \\b', CHAR(0 USING utf8mb4), CHAR(31, 12 USING utf8mb4))",
        "JSON_OBJECT('', '', 'k\\\"ey', 1, '🙂', 2, 'aa', 3, 'b', 4)",
        "JSON_ARRAY(ST_GeomFromText('POINT(1 2)'))",
        "JSON_OBJECT('long', REPEAT('x', 70000), 'a', 1, 'i', 70000, 'u', 4000000000)",
        "JSON_ARRAY(REPEAT('y', 127), REPEAT('y', 128), REPEAT('y', 16383), REPEAT('y', 16384))",
    ]);
    literals.push(format!("'{}1{}'", "[".repeat(100), "]".repeat(100)));
    literals.push(format!("'{}1{}'", r#"{"k": "#.repeat(100), "}".repeat(100)));
    literals.push(format!("'[{}]'", (0..40_000).map(|i| i.to_string()).collect::<Vec<_>>().join(", ")));
    let members: Vec<_> = (0..10_000).map(|i| format!("\"key{i}\": {i}")).collect();
    literals.push(format!("'{{{}}}'", members.join(", ")));
    for _ in 0..50 {
        let numbers: Vec<_> = (0..200)
            .map(|_| match rng.random_range(0..6) {
                0 => f64::from_bits(rng.random()),
                1 => rng.random::<f64>() * 10f64.powi(rng.random_range(-20..25)),
                2 => (rng.random::<u64>() >> rng.random_range(0..64)) as f64,
                // around a power of two, where the neighbours are not equally far
                3 => f64::from_bits((rng.random_range(1..2047) << 52) + rng.random_range(0..4) - 2),
                // ties between two shortest texts
                4 => (rng.random::<u64>() >> 10) as f64 / (1u64 << rng.random_range(0..40)) as f64,
                _ => rng.random_range(-100_000i64..100_000) as f64 / 100.0,
            })
            .filter(|v| v.is_finite())
            .map(|v| format!("{v:e}"))
            .collect();
        literals.push(format!("JSON_ARRAY({})", numbers.join(", ")));
    }
    for _ in 0..RANDOM_VALUES {
        let text = random_json(rng, 0);
        literals.push(format!("CAST(CONVERT(x'{}' USING utf8mb4) AS JSON)", hex(text.as_bytes())));
    }
    cases.push(case("JSON", ColumnType::Json, literals));
}

fn random_json(rng: &mut StdRng, depth: usize) -> String {
    let kinds = if depth > 4 { 5 } else { 8 };
    match rng.random_range(0..kinds) {
        0 => ["null", "true", "false"][rng.random_range(0..3)].to_owned(),
        1 => (rng.random::<i64>() >> rng.random_range(0..64)).to_string(),
        2 => (rng.random::<u64>() >> rng.random_range(0..64)).to_string(),
        3 => format!("{:e}", rng.random::<f64>() * 10f64.powi(rng.random_range(-10..20))),
        4 => json_string(&random_text(rng, 12, 0x10_ffff)),
        5 | 6 => {
            let items: Vec<_> = (0..rng.random_range(0..6)).map(|_| random_json(rng, depth + 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let items: Vec<_> = (0..rng.random_range(0..6))
                .map(|_| {
                    let key = json_string(&random_text(rng, 6, 0x10_ffff));
                    format!("{key}:{}", random_json(rng, depth + 1))
                })
                .collect();
            format!("{{{}}}", items.join(","))
        }
    }
}

fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

fn spatial(rng: &mut StdRng, cases: &mut Vec<Case>) {
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
    let srid = ColumnType::Geometry { kind: "point".into(), srid: Some(4326) };
    cases.push(case("POINT SRID 4326", srid, strings(&["ST_GeomFromText('POINT(10 20)', 4326)"])));

    let mut literals = strings(&["STRING_TO_VECTOR('[1.5,-2,3]')", "STRING_TO_VECTOR('[0]')"]);
    literals.extend((0..30).map(|_| {
        let v: Vec<_> = (0..rng.random_range(1..20)).map(|_| rng.random::<f32>().to_string()).collect();
        format!("STRING_TO_VECTOR('[{}]')", v.join(","))
    }));
    cases.push(case("VECTOR(20)", ColumnType::Vector { dimensions: 20 }, literals));
}

/// One column of each type in one table: the log's metadata lists some things only for the columns that have
/// them (signedness, character sets, labels, geometry types), and NULLs share bytes.
#[test]
fn a_table_of_all_types_agrees() -> Result<()> {
    let server = start_server()?;
    runtime()?.block_on(async {
        let mut conn = connect(&server, SESSION).await?;
        let mut snapshot = connect(&server, SNAPSHOT_SESSION).await?;
        let long = |ty: &ColumnType| match ty {
            ColumnType::VarChar { length, .. } | ColumnType::VarBinary { length } => *length > 255,
            _ => false,
        };
        let cases: Vec<Case> = cases().into_iter().filter(|case| !long(&case.ty)).collect();
        let mut columns = vec![id_column()];
        columns.extend(cases.iter().enumerate().map(|(i, c)| Column::new(format!("c{i}"), c.ty.clone())));
        let schema = Arc::new(table("wide", columns));
        let definitions: Vec<_> =
            cases.iter().enumerate().map(|(i, c)| format!("c{i} {} NULL", c.sql)).collect();
        conn.query_drop("CREATE DATABASE v").await?;
        conn.query_drop(format!(
            "CREATE TABLE v.wide (id INT NOT NULL PRIMARY KEY, {})",
            definitions.join(", ")
        ))
        .await?;
        let rng = &mut StdRng::seed_from_u64(SEED);
        for id in 0..100 {
            let values: Vec<_> = cases
                .iter()
                .map(|c| match rng.random_range(0..3) {
                    0 => "NULL",
                    // the long ones come last, and would make a row of more than the server takes
                    _ => &c.literals[rng.random_range(0..c.literals.len().min(6))],
                })
                .collect();
            conn.query_drop(format!("INSERT INTO v.wide VALUES ({id}, {})", values.join(", "))).await?;
        }
        let decoder = ResultDecoder::new(&schema)?;
        let select = format!("SELECT {} FROM v.wide ORDER BY id", decoder.select_list());
        let result: Vec<mysql_async::Row> = snapshot.exec(&select, ()).await?;
        let mut builder = RowBuilder::new();
        let rows = result
            .into_iter()
            .map(|row| Ok(decoder.decode(&mut builder, &row.unwrap())?))
            .collect::<Result<Vec<_>>>()?;
        let tables = HashMap::from([("wide".to_owned(), schema)]);
        let changes = read_log(&server, &tables).await?.remove("wide").unwrap_or_default();
        compare_with_log(&rows, &changes)
    })
}

/// Case 65, and what only a table of several columns shows: NULLs beside defaults, generated and invisible
/// columns, keys of several columns, images that do not hold all columns, JSON changed in place.
#[test]
fn images_hold_what_the_table_holds() -> Result<()> {
    let server = start_server()?;
    runtime()?.block_on(async {
        let mut conn = connect(&server, SESSION).await?;
        let mut snapshot = connect(&server, SNAPSHOT_SESSION).await?;
        let int = ColumnType::Int { width: IntWidth::Int, unsigned: false };
        let text = ColumnType::VarChar { length: 10, charset: Charset::utf8mb4() };
        let schema = Arc::new(TableSchema {
            primary_key: vec![3, 0],
            ..table(
                "several",
                vec![
                    id_column(),
                    Column::new("d", int.clone()),
                    Column::new("gv", int.clone()),
                    Column::new("name", ColumnType::Char { length: 10, charset: Charset::utf8mb4() })
                        .not_null(),
                    Column::new("gs", int.clone()),
                    Column::new("hidden", text),
                    Column::new("j", ColumnType::Json),
                ],
            )
        });
        conn.query_drop("CREATE DATABASE v").await?;
        conn.query_drop(
            "CREATE TABLE v.several (
               id INT NOT NULL, d INT DEFAULT 100, gv INT AS (id + 1) VIRTUAL, name CHAR(10) NOT NULL,
               gs INT AS (id + 2) STORED, hidden VARCHAR(10) DEFAULT 'h' INVISIBLE, j JSON,
               PRIMARY KEY (name, id))",
        )
        .await?;
        conn.query_drop(
            r#"INSERT INTO v.several (id, d, name, j) VALUES
               (1, NULL, 'a ', '{"a": "long enough", "b": [1, 2, 3]}'), (2, DEFAULT, '', NULL)"#,
        )
        .await?;
        let decoder = ResultDecoder::new(&schema)?;
        let select = format!("SELECT {} FROM v.several ORDER BY id", decoder.select_list());
        let mut builder = RowBuilder::new();
        let mut read = async |conn: &mut Conn| -> Result<Vec<Row>> {
            let rows: Vec<mysql_async::Row> = conn.exec(&select, ()).await?;
            rows.into_iter().map(|row| Ok(decoder.decode(&mut builder, &row.unwrap())?)).collect()
        };
        let inserted = read(&mut snapshot).await?;
        conn.query_drop("UPDATE v.several SET j = JSON_SET(j, '$.a', 'x', '$.b[1]', NULL) WHERE id = 1")
            .await?;
        let updated = read(&mut snapshot).await?;
        conn.query_drop("SET binlog_row_image = MINIMAL").await?;
        conn.query_drop("UPDATE v.several SET d = 7 WHERE id = 2").await?;
        conn.query_drop("DELETE FROM v.several WHERE id = 1").await?;

        let tables = HashMap::from([("several".to_owned(), Arc::clone(&schema))]);
        let changes = read_log(&server, &tables).await?.remove("several").unwrap_or_default();
        ensure!(changes.len() == 5, "{changes:?}");
        ensure!(changes[0] == (None, Some(inserted[0].clone())), "{:?}", changes[0]);
        ensure!(changes[1] == (None, Some(inserted[1].clone())), "{:?}", changes[1]);
        ensure!(changes[2] == (Some(inserted[0].clone()), Some(updated[0].clone())), "{:?}", changes[2]);
        ensure!(inserted[0].get(1).is_null(), "an explicit NULL is not the default");
        ensure!(inserted[1].get(1) == Value::Int(100));
        ensure!(inserted[0].get(5) == Value::Text("h".into()), "invisible");
        ensure!((inserted[0].get(2), inserted[0].get(4)) == (Value::Int(2), Value::Int(3)), "generated");
        ensure!(updated[0].get(6) == Value::Json(r#"{"a": "x", "b": [1, null, 3]}"#.into()));

        let mut keys = KeyExtractor::new(&schema, &schema.primary_key);
        let key = |id, name: &'static str| Row::pack([Value::Text(name.into()), Value::Int(id)]);
        ensure!(keys.key(&inserted[0]) == key(1, "a"));
        let (before, after) = &changes[3];
        let (Some(before), Some(after)) = (before, after) else { anyhow::bail!("{:?}", changes[3]) };
        ensure!(before.has_absent() && after.has_absent());
        ensure!(keys.key(before) == key(2, ""), "{before:?}");
        ensure!(after.get(1) == Value::Int(7) && after.get(0) == Value::Absent, "{after:?}");
        let (Some(gone), None) = &changes[4] else { anyhow::bail!("{:?}", changes[4]) };
        ensure!(keys.key(gone) == key(1, "a"), "{gone:?}");
        Ok(())
    })
}
