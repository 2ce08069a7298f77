//! The results, as JSON for programs, a table for people, and a plot.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::child::Cost;
use crate::say;

/// What another program took for the same work.
pub struct Reference {
    /// The program.
    pub name: &'static str,
    /// What it took.
    pub cost: Cost,
}

/// One line of the report.
pub enum Entry {
    /// The program file.
    Binary {
        /// Its size.
        size_mb: f64,
        /// From start to end of a run that only checks a file.
        start_ms: f64,
    },
    /// From commit to commit.
    Latency {
        /// The bench's name.
        name: String,
        /// How many rows.
        rows: u64,
        /// Half of them took no longer.
        p50_ms: f64,
        /// One in a hundred took longer.
        p99_ms: f64,
    },
    /// The most memory that a copy took, against the table's size.
    Memory {
        /// The bench's name.
        name: String,
        /// Rows, and megabytes.
        points: Vec<(u64, f64)>,
    },
    /// Schema changes in a stream of rows.
    Ddl {
        /// The bench's name.
        name: String,
        /// How many rows.
        rows: u64,
        /// How many changes.
        changes: u64,
        /// Rows and changes.
        ours: Cost,
        /// The rows alone.
        plain: Cost,
        /// How long rows are held by a change beyond the target's own time, where nothing else is to be done: half of them.
        p50_ms: f64,
        /// One in a hundred.
        p99_ms: f64,
    },
    /// From `kill -9` to where it was.
    Resume {
        /// The bench's name.
        name: String,
        /// How many rows views hold.
        rows: u64,
        /// The run that goes on, until it has caught up.
        ours: Cost,
        /// Of it, reading the rows from the state folder.
        load_s: f64,
    },
    /// Work over rows.
    Work {
        /// The bench's name.
        name: String,
        /// How many rows.
        rows: u64,
        /// What we took; nothing if we failed.
        ours: Option<Cost>,
        /// What we are compared with.
        reference: Reference,
        /// Others that were measured beside it.
        also: Vec<Reference>,
    },
}

impl Entry {
    /// For the terminal.
    pub fn line(&self) -> String {
        match self {
            Entry::Binary { size_mb, start_ms } => format!("{size_mb:.1} MB, {start_ms:.1} ms"),
            Entry::Latency { rows, p50_ms, p99_ms, .. } => {
                format!("{rows} rows, p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms")
            }
            Entry::Memory { points, .. } => {
                let points = points.iter().map(|(rows, peak)| format!("{rows} rows {peak:.0} MB"));
                points.collect::<Vec<_>>().join(", ")
            }
            Entry::Ddl { rows, changes, ours, plain, p50_ms, p99_ms, .. } => format!(
                "{}; without changes {}; {:.2} s beyond for {changes}; barrier p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms",
                speed(*rows, ours),
                speed(*rows, plain),
                ours.wall_s - plain.wall_s
            ),
            Entry::Resume { rows, ours, load_s, .. } => {
                format!("{}; load {load_s:.2} s, the rest {:.2} s", speed(*rows, ours), ours.wall_s - load_s)
            }
            Entry::Work { rows, ours: None, reference, .. } => {
                format!("failed; {}: {}", reference.name, speed(*rows, &reference.cost))
            }
            Entry::Work { rows, ours: Some(ours), reference, also, .. } => {
                let mut line = format!("ours {}", speed(*rows, ours));
                for Reference { name, cost } in [reference].into_iter().chain(also) {
                    _ = write!(line, "; {name} {}", speed(*rows, cost));
                }
                _ = write!(line, "; ratio {:.2}", ratio(ours, reference));
                line
            }
        }
    }

    fn json(&self, server: &str) -> Value {
        match self {
            Entry::Binary { size_mb, start_ms } => {
                json!({ "bench": "binary", "size_mb": rounded(*size_mb), "start_ms": rounded(*start_ms) })
            }
            Entry::Latency { name, rows, p50_ms, p99_ms } => json!({
                "bench": name, "server": server, "rows": rows,
                "p50_ms": rounded(*p50_ms), "p99_ms": rounded(*p99_ms),
            }),
            Entry::Memory { name, points } => json!({
                "bench": name, "server": server,
                "points": points.iter().map(|(rows, peak)| json!({ "rows": rows, "peak_rss_mb": rounded(*peak) }))
                    .collect::<Vec<_>>(),
            }),
            Entry::Ddl { name, rows, changes, ours, plain, p50_ms, p99_ms } => json!({
                "bench": name, "server": server, "rows": rows, "changes": changes, "ours": cost_json(ours),
                "reference": reference_json(&Reference { name: "the same rows without changes", cost: *plain }),
                "rate_ratio": rounded(plain.wall_s / ours.wall_s),
                "extra_s": rounded(ours.wall_s - plain.wall_s),
                "barrier_p50_ms": rounded(*p50_ms), "barrier_p99_ms": rounded(*p99_ms),
            }),
            Entry::Resume { name, rows, ours, load_s } => json!({
                "bench": name, "server": server, "rows": rows, "ours": cost_json(ours),
                "load_s": rounded(*load_s), "dataflow_s": rounded(ours.wall_s - load_s),
            }),
            Entry::Work { name, rows, ours, reference, also } => {
                let mut entry = Map::new();
                entry.insert("bench".into(), json!(name));
                entry.insert("server".into(), json!(server));
                entry.insert("rows".into(), json!(rows));
                entry.insert("ours".into(), ours.as_ref().map_or(Value::Null, cost_json));
                entry.insert("reference".into(), reference_json(reference));
                if let Some(ours) = ours {
                    entry.insert("rate_ratio".into(), json!(rounded(ratio(ours, reference))));
                }
                if !also.is_empty() {
                    entry.insert("also".into(), also.iter().map(reference_json).collect());
                }
                Value::Object(entry)
            }
        }
    }
}

/// Writes `latest.json`, `latest.md` and `latest.svg`, and prints the table.
pub fn write(folder: &Path, server: &str, entries: &[Entry]) -> Result<()> {
    let json: Value = entries.iter().map(|entry| entry.json(server)).collect();
    fs::write(folder.join("latest.json"), serde_json::to_string_pretty(&json)? + "\n")?;
    let table = table(server, entries);
    fs::write(folder.join("latest.md"), &table)?;
    fs::write(folder.join("latest.svg"), plot(entries))?;
    say!("\n{table}");
    Ok(())
}

fn cost_json(cost: &Cost) -> Value {
    let mut value = json!({ "wall_s": rounded(cost.wall_s), "cpu_s": rounded(cost.cpu_s) });
    value["peak_rss_mb"] = cost.peak_rss_mb.map_or(Value::Null, |peak| json!(rounded(peak)));
    value
}

fn reference_json(reference: &Reference) -> Value {
    let Cost { wall_s, cpu_s, .. } = reference.cost;
    json!({ "name": reference.name, "wall_s": rounded(wall_s), "cpu_s": rounded(cpu_s) })
}

fn table(server: &str, entries: &[Entry]) -> String {
    let mut text = format!("Server: {server}\n\n");
    text += "| bench | program | rows | s | rows/s | CPU s per million rows | peak MB | ratio |\n";
    text += "|---|---|--:|--:|--:|--:|--:|--:|\n";
    for entry in entries {
        match entry {
            Entry::Binary { size_mb, start_ms } => {
                _ = writeln!(
                    text,
                    "| binary | {size_mb:.1} MB, `cdc check` in {start_ms:.1} ms | | | | | | |"
                );
            }
            Entry::Latency { name, rows, p50_ms, p99_ms } => {
                _ = writeln!(text, "| {name} | p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms | {rows} | | | | | |");
            }
            Entry::Memory { name, points } => {
                for (rows, peak) in points {
                    _ = writeln!(text, "| {name} | **cdc** | {rows} | | | | {peak:.0} | |");
                }
            }
            Entry::Ddl { name, rows, changes, ours, plain, p50_ms, p99_ms } => {
                _ = writeln!(
                    text,
                    "{} {:.2} |",
                    row(name, &format!("**cdc**, {changes} changes"), *rows, ours),
                    plain.wall_s / ours.wall_s
                );
                _ = writeln!(text, "{} |", row("", "the same rows without them", *rows, plain));
                _ = writeln!(
                    text,
                    "| | barrier p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms beyond the target's | | | | | | |"
                );
            }
            Entry::Resume { name, rows, ours, load_s } => {
                _ = writeln!(
                    text,
                    "{} |",
                    row(name, "**cdc** after `kill -9`, until caught up", *rows, ours)
                );
                let rest = ours.wall_s - load_s;
                _ = writeln!(text, "| | load {load_s:.2} s, start and dataflow {rest:.2} s | | | | | | |");
            }
            Entry::Work { name, rows, ours, reference, also } => {
                match ours {
                    Some(ours) => {
                        let row = row(name, "**cdc**", *rows, ours);
                        _ = writeln!(text, "{row} {:.2} |", ratio(ours, reference));
                    }
                    None => _ = writeln!(text, "| {name} | **cdc** failed | {rows} | | | | | |"),
                }
                for Reference { name: program, cost } in [reference].into_iter().chain(also) {
                    _ = writeln!(text, "{} |", row("", &format!("`{program}`"), *rows, cost));
                }
            }
        }
    }
    text + "\nratio: our rows per second over those of the first reference\n"
}

fn row(name: &str, program: &str, rows: u64, cost: &Cost) -> String {
    let Cost { wall_s, cpu_s, peak_rss_mb } = cost;
    let (rate, per_million) = (rows as f64 / wall_s, cpu_s * 1e6 / rows as f64);
    let peak = peak_rss_mb.map_or(String::new(), |peak| format!("{peak:.0}"));
    format!("| {name} | {program} | {rows} | {wall_s:.2} | {rate:.0} | {per_million:.2} | {peak} |")
}

/// Bars of rows per second; the longest bar of each bench fills the width.
fn plot(entries: &[Entry]) -> String {
    const LEFT: f64 = 330.0;
    const WIDTH: f64 = 380.0;
    let mut bars = String::new();
    let mut y = 10.0;
    for entry in entries {
        let Entry::Work { name, rows, ours, reference, also } = entry else { continue };
        let rate = |cost: &Cost| *rows as f64 / cost.wall_s;
        let mut lines: Vec<(&str, f64, &str)> = Vec::new();
        lines.extend(ours.iter().map(|ours| ("cdc", rate(ours), "#2a7ab0")));
        let references = [reference].into_iter().chain(also);
        lines.extend(references.map(|one| (one.name, rate(&one.cost), "#b0b0b0")));
        let longest = lines.iter().map(|line| line.1).fold(1.0, f64::max);
        y += 18.0;
        _ = writeln!(bars, "<text x=\"10\" y=\"{y}\" font-weight=\"bold\">{name}, {rows} rows</text>");
        for (label, rate, colour) in lines {
            y += 20.0;
            let (width, top) = (rate / longest * WIDTH, y - 12.0);
            _ = writeln!(bars, "<text x=\"20\" y=\"{y}\">{label}</text>");
            _ = writeln!(
                bars,
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"15\" fill=\"{colour}\"/>"
            );
            let after = LEFT + width + 6.0;
            _ = writeln!(bars, "<text x=\"{after:.1}\" y=\"{y}\">{rate:.0} rows/s</text>");
        }
        y += 12.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"830\" height=\"{}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{bars}</svg>\n",
        y + 10.0
    )
}

fn speed(rows: u64, cost: &Cost) -> String {
    let rate = rows as f64 / cost.wall_s;
    format!("{:.2} s, {rate:.0} rows/s, {:.2} CPU s", cost.wall_s, cost.cpu_s)
}

/// Our rows per second over the reference's.
fn ratio(ours: &Cost, reference: &Reference) -> f64 {
    reference.cost.wall_s / ours.wall_s
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
