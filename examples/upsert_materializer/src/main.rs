//! Changelogs to rows with cdc-materialize alone: no server, no dataflow, no thread. What a writer by key loses where a changelog
//! comes out of order, [`Upserts`] does not, since it looks at a key when its time is closed and not when something comes.
//!
//! ```text
//! cargo run -p example-upsert-materializer [FILE]
//! ```
//!
//! First the three orders in which `+I(10) -U(10) +U(11)` can come, then a changelog from a file, `changes.txt` if none is named.

use cdc_materialize::upsert::{Change, Conflict, Policy, Upserts};
use std::collections::BTreeMap;
use std::io::{self, Write};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An entry of a changelog: its kind, its key, its row.
type Entry = (String, u32, u32);

fn entry(line: &str) -> Result<Entry> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [kind @ ("+I" | "-U" | "+U" | "-D"), key, row] => Ok((kind.into(), key.parse()?, row.parse()?)),
        _ => Err(format!("not \"+I KEY ROW\", nor -U, +U or -D: {line}").into()),
    }
}

/// How often the row is there more than before.
fn times(kind: &str) -> i64 {
    if kind.starts_with('+') { 1 } else { -1 }
}

/// What is there if each entry is written as it comes, as a table with a key would take it.
fn in_order_of_arrival(entries: &[Entry]) -> BTreeMap<u32, u32> {
    let mut rows = BTreeMap::new();
    for (kind, key, row) in entries {
        match times(kind) {
            1 => rows.insert(*key, *row),
            _ => rows.remove(key),
        };
    }
    rows
}

fn told(change: &Change<u32, u32, u32>) -> String {
    match (change.before, change.after) {
        (None, Some(row)) => format!("{}: {row}", change.key),
        (Some(before), Some(row)) => format!("{}: {row}, was {before}", change.key),
        (Some(before), None) => format!("{}: gone, was {before}", change.key),
        (None, None) => format!("{}: nothing, and that is never told", change.key),
    }
}

fn orders(out: &mut impl Write) -> Result<()> {
    writeln!(out, "three orders of one changelog")?;
    for order in ["+I 1 10, -U 1 10, +U 1 11", "+I 1 10, +U 1 11, -U 1 10", "+U 1 11, +I 1 10, -U 1 10"] {
        let entries = order.split(", ").map(entry).collect::<Result<Vec<_>>>()?;
        let mut upserts = Upserts::new(Policy::Error);
        for (kind, key, row) in &entries {
            upserts.change(*key, *row, 1, times(kind));
        }
        let changes = upserts.close(1).map_err(conflict)?;
        let written: Vec<String> = changes.iter().map(told).collect();
        let naive = in_order_of_arrival(&entries);
        writeln!(out, "  {order}   by arrival {naive:?}, ours [{}]", written.join("; "))?;
    }
    Ok(())
}

fn conflict(conflict: Conflict<u32, u32>) -> String {
    format!("key {}: {:?}", conflict.key, conflict.rows)
}

fn file(text: &str, out: &mut impl Write) -> Result<()> {
    // a conflict is told, and the greatest row stands
    let (mut upserts, mut time) = (Upserts::new(Policy::Log), 1);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line != "close" {
            let (kind, key, row) = entry(line)?;
            upserts.change(key, row, time, times(&kind));
            continue;
        }
        writeln!(out, "time {time} is closed")?;
        let mut changes = upserts.close(time).map_err(conflict)?;
        // what goes first, and for readers by key
        changes.sort_by_key(|change| (change.after.is_some(), change.key));
        for change in changes {
            writeln!(out, "  {}", told(&change))?;
        }
        for told in upserts.told() {
            writeln!(out, "  conflict of {}", conflict(told))?;
        }
        time += 1;
    }
    let seen = upserts.metrics();
    writeln!(
        out,
        "{} records in, {} out, {} rows held, {} conflicts",
        seen.records_in, seen.records_out, seen.state_rows, seen.conflicts
    )?;
    Ok(())
}

fn main() -> Result<()> {
    let mut out = io::stdout();
    orders(&mut out)?;
    let (name, text) = match std::env::args().nth(1) {
        Some(path) => (path.clone(), std::fs::read_to_string(path)?),
        None => ("changes.txt".to_owned(), include_str!("../changes.txt").to_owned()),
    };
    writeln!(out, "\n{name}")?;
    file(&text, &mut out)
}
