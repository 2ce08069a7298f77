//! How fast the sinks are, beside the target's own ways; with few rows, and what is there compared, a test as any other. To measure:
//! `CDC_MEASURE=1 cargo test -p cdc-sinks --release --test speed -- --nocapture --test-threads 1`.
#![allow(clippy::print_stdout)]

mod common;
#[path = "common/mysql.rs"]
mod target;

use cdc_core::Row;
use cdc_core::connector::{Sink, TargetTable};
use cdc_core::schema::{Charset, Column, ColumnType};
use cdc_core::value::Value;
use cdc_testkit::servers::{Server, ServerOptions};
use common::*;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;
use target::Target;

const BATCH: usize = 1000;

/// How many rows: so many where it is measured.
fn rows_of(measured: u64) -> u64 {
    if std::env::var_os("CDC_MEASURE").is_some() { measured } else { measured.min(3 * BATCH as u64) }
}

fn char_type(length: u32) -> ColumnType {
    ColumnType::Char { length, charset: Charset::utf8mb4() }
}

/// The narrow table of the benchmarks: bigint key, int, char(120), char(60).
fn narrow(name: &str, key: ColumnType) -> Arc<TargetTable> {
    let columns = vec![
        Column::new("id", key).not_null(),
        Column::new("k", int()),
        Column::new("c", char_type(120)),
        Column::new("pad", char_type(60)),
    ];
    table(name, columns, &[0])
}

/// Scrambles 0..2^32 without repetition.
fn scramble(i: u64) -> u64 {
    let mut x = i as u32;
    x = x.wrapping_mul(0x9E37_79B1);
    x ^= x >> 16;
    u64::from(x.wrapping_mul(0x85EB_CA6B))
}

fn rows(from: u64, n: u64, key: &dyn Fn(u64) -> Value<'static>) -> Vec<Row> {
    let c = "31451373586-15688153734-79729593694-96509299839-83724898275-86711833539-78981337422-35049690573-51724173961-87474696253";
    let pad = "98996621624-36689827414-04092488557-09587706818-65008859162";
    let row = |i| {
        Row::pack([
            key(i),
            Value::Int((i % 1000) as i64),
            Value::Text(c[..100 + (i % 20) as usize].into()),
            Value::Text(pad.into()),
        ])
    };
    (from..from + n).map(row).collect()
}

fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|t| t.parse().ok())
        .collect();
    ticks.iter().sum::<f64>() / 100.0
}

fn report(name: &str, n: u64, work: impl FnOnce()) {
    let (cpu0, start) = (cpu(), Instant::now());
    work();
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu() - cpu0);
    println!("{name:40} {n:9} rows {wall:7.2} s wall {cpu:7.2} s cpu {:10.0} rows/s", n as f64 / wall);
}

fn write_all(sink: &mut dyn Sink, table: &Arc<TargetTable>, rows: &[Row], per_commit: usize, tick: &mut u64) {
    for (i, part) in rows.chunks(BATCH).enumerate() {
        sink.write(&upserts(table, *tick + 1, part)).unwrap();
        if ((i + 1) * BATCH).is_multiple_of(per_commit) {
            *tick += 1;
            sink.commit(*tick, &binding(*tick)).unwrap();
        }
    }
    *tick += 1;
    sink.commit(*tick, &binding(*tick)).unwrap();
}

#[test]
fn sqlite_upserts() {
    type Key = Box<dyn Fn(u64) -> Value<'static>>;
    let kinds: [(&str, ColumnType, Key); 4] = [
        ("bigint, ascending", bigint(false), Box::new(|i| Value::Int(i as i64))),
        ("bigint, scattered", bigint(false), Box::new(|i| Value::Int(scramble(i) as i64))),
        ("bigint unsigned, ascending", bigint(true), Box::new(Value::UInt)),
        ("varchar, scattered", binary_varchar(), Box::new(|i| text(&format!("key-{:08x}", scramble(i))))),
    ];
    let n = rows_of(1_000_000);
    for (name, ty, key) in kinds {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = claimed(folder.path());
        let table = narrow("t", ty);
        sink.prepare(&table).unwrap();
        let all = rows(0, n, &key);
        let mut tick = 0;
        report(&format!("insert {name}"), n, || write_all(&mut *sink, &table, &all, 100_000, &mut tick));
        report(&format!("again  {name}"), n, || write_all(&mut *sink, &table, &all, 100_000, &mut tick));
        let some = &all[..rows_of(200_000) as usize];
        report(&format!("commit each 1000, {name}"), some.len() as u64, || {
            write_all(&mut *sink, &table, some, BATCH, &mut tick);
        });
        let mut reader = reader(folder.path());
        report(&format!("compare {name}"), n, || {
            for part in all.chunks(BATCH) {
                assert!(
                    reader
                        .compare(&table, part)
                        .unwrap()
                        .iter()
                        .all(|c| *c == cdc_core::connector::Comparison::Equal)
                );
            }
        });
        let mut seen = 0;
        report(&format!("scan keys {name}"), n, || {
            reader
                .scan_keys(&table, &mut |_, _| {
                    seen += 1;
                    true
                })
                .unwrap();
        });
        assert_eq!(seen, n);
    }
}

/// Beside the server's own LOAD DATA of the same rows into the same table.
#[test]
fn mysql_upserts() {
    let options =
        ServerOptions::of_this_run().with("--local-infile=1").with("--innodb-buffer-pool-size=512M");
    let server = Server::start(options).unwrap();
    let target = Target::new(&server, "speed");
    let n = rows_of(400_000);
    let all = rows(0, n, &|i| Value::Int(i as i64));
    let mut lines = String::new();
    for row in &all {
        let values: Vec<String> = row.iter().map(|v| v.to_string().replace('"', "")).collect();
        writeln!(lines, "{}", values.join("\t")).unwrap();
    }
    let file = server.datadir().join("rows.tsv");
    std::fs::write(&file, lines).unwrap();
    let table = narrow("t", bigint(false));
    let mut sink = target.claimed();
    sink.prepare(&table).unwrap();
    let mut tick = 0;
    for round in 0..3 {
        target.run("DROP TABLE IF EXISTS loaded; CREATE TABLE loaded LIKE t");
        report(&format!("{round} LOAD DATA LOCAL"), n, || {
            let mut client = server.socket_command("mysql").unwrap();
            let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE speed.loaded", file.display());
            assert!(client.args(["--local-infile=1", "-e", &load]).status().unwrap().success());
        });
        target.run("TRUNCATE t");
        report(&format!("{round} insert"), n, || write_all(&mut *sink, &table, &all, 100_000, &mut tick));
        report(&format!("{round} again"), n, || write_all(&mut *sink, &table, &all, 100_000, &mut tick));
        report(&format!("{round} delete"), n, || {
            tick += 1;
            for part in all.chunks(BATCH) {
                let gone = part.iter().map(|row| delete(tick, key_of(&table, row))).collect();
                sink.write(&batch(&table, gone)).unwrap();
            }
            sink.commit(tick, &binding(tick)).unwrap();
        });
        target.equal(&table, &[]);
        assert_eq!(
            target.run("SELECT COUNT(*) FROM loaded"),
            [n.to_string()],
            "the server's own way has as many"
        );
    }
    write_all(&mut *sink, &table, &all, 100_000, &mut tick);
    report("compare", n, || target.equal(&table, &all));
}

#[test]
fn feeds_and_null() {
    let n = rows_of(1_000_000);
    let table = narrow("t", bigint(false));
    let all = rows(0, n, &|i| Value::Int(i as i64));
    let batches: Vec<_> = all.chunks(BATCH).map(|part| upserts(&table, 1, part)).collect();
    let folder = tempfile::tempdir().unwrap();
    for (connector, format) in [("null", ""), ("jsonl", "plain"), ("jsonl", "debezium-json")] {
        let path = format!("{connector}-{format}");
        let options = [("path", &*path), ("format", format)];
        let options = if connector == "null" { &[][..] } else { &options[..] };
        let mut sink = cdc_sinks::open(&plan(connector, options), folder.path()).unwrap();
        sink.claim(&job("run")).unwrap();
        report(&format!("{connector} {format}"), n, || {
            for batch in &batches {
                sink.write(batch).unwrap();
            }
            sink.commit(1, &binding(1)).unwrap();
        });
        let told = sink.summary();
        println!("{told:?}");
        if connector == "null" {
            assert!(told.iter().any(|line| line.contains(&n.to_string())), "{told:?}");
        } else {
            let lines = std::fs::read_to_string(folder.path().join(&path)).unwrap().lines().count() as u64;
            assert!(lines >= n, "{lines} lines of {n} rows");
        }
    }
}

/// Against the server's own COPY of the same rows, and against a staging table.
#[test]
fn postgres_rates() {
    use cdc_core::event::Op;
    use std::fmt::Write;
    let target = postgres::Target::start();
    let n = rows_of(200_000);
    for (name, key) in [("ascending", false), ("scattered", true)] {
        let case = target.case();
        let table = narrow("t", bigint(false));
        let all = rows(0, n, &|i| Value::Int(if key { scramble(i) as i64 } else { i as i64 }));
        let line = |row: &Row| {
            let mut line = String::new();
            for (i, value) in row.iter().enumerate() {
                let end = if i == 3 { '\n' } else { '\t' };
                match value {
                    Value::Int(v) => write!(line, "{v}{end}").unwrap(),
                    Value::Text(v) => write!(line, "{v}{end}").unwrap(),
                    _ => unreachable!(),
                }
            }
            line
        };
        case.sql("CREATE TABLE own (id bigint PRIMARY KEY, k int, c text, pad text)");
        let schema = &case.schema;
        let script = |before: &str, copy: &str, after: &str| {
            let mut script = format!("SET search_path = \"{schema}\";\n{before}\n");
            for part in all.chunks(8000) {
                write!(script, "BEGIN;\nCOPY {copy} FROM STDIN;\n").unwrap();
                part.iter().for_each(|row| script.push_str(&line(row)));
                write!(script, "\\.\n{after}\nCOMMIT;\n").unwrap();
            }
            script
        };
        let own = script("", "own", "");
        report(&format!("the server's own COPY, {name}"), n, || drop(target.server.sql(&own).unwrap()));
        let staged = script(
            "CREATE TEMP TABLE staging (LIKE own) ON COMMIT DELETE ROWS;",
            "staging",
            "INSERT INTO own SELECT * FROM staging ON CONFLICT (id) DO UPDATE SET k = excluded.k, c = excluded.c, pad = excluded.pad;",
        );
        report(&format!("COPY to staging and merge, {name}"), n, || {
            drop(target.server.sql(&staged).unwrap())
        });
        let mut sink = case.claimed();
        sink.prepare(&table).unwrap();
        let mut tick = 0;
        let mut write = |op: Op, rows: &[Row], per_commit: usize| {
            for part in rows.chunks(per_commit) {
                tick += 1;
                let mut batch = upserts(&table, tick, part);
                batch.changes.iter_mut().for_each(|c| c.source_op = op);
                sink.write(&batch).unwrap();
                sink.commit(tick, &binding(tick)).unwrap();
            }
        };
        report(&format!("new rows, {name}"), n, || write(Op::Read, &all, 8000));
        report(&format!("updates, {name}"), n, || write(Op::Update, &all, 8000));
        report(&format!("rows that are there already, {name}"), n, || write(Op::Read, &all, 8000));
        let some = &all[..rows_of(20_000) as usize];
        report(&format!("updates, a commit each 10, {name}"), some.len() as u64, || {
            write(Op::Update, some, 10)
        });
        let few = &all[..rows_of(2_000) as usize / 10];
        report(&format!("updates, a commit each, {name}"), few.len() as u64, || write(Op::Update, few, 1));
        case.equal(&table, &all);
        assert_eq!(case.sql("SELECT count(*) FROM own"), [n.to_string()], "the server's own way has as many");
        report(&format!("deletes, {name}"), n, || {
            for part in all.chunks(8000) {
                tick += 1;
                let gone = part.iter().map(|row| delete(tick, key_of(&table, row))).collect();
                sink.write(&batch(&table, gone)).unwrap();
                sink.commit(tick, &binding(tick)).unwrap();
            }
        });
        case.equal(&table, &[]);
    }
}
