//! The live view: a few lines on a terminal that always show the run as it is now.

use super::progress::{Progress, TableView};
use super::view::views;
use crate::screen::Screen;
use cdc_runtime::Phase;
use console::{measure_text_width, truncate_str};
use indicatif::HumanCount;
use std::cmp::Reverse;

/// Tables shown at a time, at most.
const TABLES: usize = 10;

/// Lines of a terminal that are left to the words above the view.
const SPARE: usize = 4;

/// Lines of the headline, at most.
const HEAD: usize = 3;

/// Columns of a bar, by those of the terminal: numbers come before pictures.
fn bar_width(columns: usize) -> usize {
    match columns {
        0..50 => 0,
        50..70 => 8,
        _ => 16,
    }
}

/// The lines on the screen.
pub struct Live {
    screen: Screen,
    pipeline: String,
}

impl Live {
    /// An empty view on standard error.
    pub fn new(pipeline: &str) -> Live {
        Live { screen: Screen::default(), pipeline: pipeline.to_owned() }
    }

    /// What other words have to be written above.
    pub fn screen(&self) -> Screen {
        self.screen.clone()
    }

    /// Shows the run.
    pub fn show(&self, progress: &Progress) {
        let (rows, columns) = Screen::size();
        self.screen.show(frame(&self.pipeline, progress, rows, columns));
    }

    /// Takes the view off the screen.
    pub fn clear(&self) {
        self.screen.clear();
    }
}

/// The view as lines, for a terminal of this many rows and columns; 0: one that does not say. What does not fit is
/// left out as a whole: half a number is a wrong number.
fn frame(pipeline: &str, progress: &Progress, rows: usize, columns: usize) -> Vec<String> {
    let columns = if columns == 0 { usize::MAX } else { columns };
    let mut lines = wrapped(&headline(pipeline, progress), columns, if rows < 10 { 1 } else { HEAD });
    let workers = &progress.status.worker_rows;
    let with_workers = workers.len() > 1 && workers.iter().any(|rows| *rows > 0);
    let room = rows.saturating_sub(SPARE + lines.len() + usize::from(with_workers)).clamp(1, TABLES);
    let (shown, hidden) = busiest(&progress.tables, room);
    let width =
        shown.iter().map(|t| measure_text_width(&t.name)).max().unwrap_or(0).min((columns / 3).max(12));
    lines.extend(shown.iter().map(|t| table_line(t, width, columns)));
    if hidden > 0 {
        lines.push(format!("  and {hidden} more to copy"));
    }
    if with_workers {
        let rows = workers.iter().map(|rows| HumanCount(*rows).to_string());
        lines.push(fitting("  rows per worker".to_owned(), rows, columns));
    }
    lines.iter().map(|line| truncate_str(line, columns, "…").into_owned()).collect()
}

/// Parts on lines of so many columns; those behind the last line are left out.
fn wrapped(parts: &[String], columns: usize, most: usize) -> Vec<String> {
    let Some((first, rest)) = parts.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    let mut line = first.clone();
    for part in rest {
        if measure_text_width(&line) + 2 + measure_text_width(part) > columns {
            if lines.len() + 1 == most {
                break;
            }
            lines.push(std::mem::take(&mut line));
        }
        line.push_str("  ");
        line.push_str(part);
    }
    lines.push(line);
    lines
}

/// A line with as many of these parts as fit into so many columns.
fn fitting(mut line: String, parts: impl IntoIterator<Item = String>, columns: usize) -> String {
    for part in parts {
        if measure_text_width(&line) + 2 + measure_text_width(&part) > columns {
            break;
        }
        line.push_str("  ");
        line.push_str(&part);
    }
    line
}

/// What matters most comes first: a narrow terminal shows only the beginning.
fn headline(pipeline: &str, progress: &Progress) -> Vec<String> {
    let status = &progress.status;
    let mut parts = vec![format!("{pipeline}: {}", status.phase.name())];
    if progress.whole() < progress.tables.len() {
        parts.push(format!("{} of {} tables whole", progress.whole(), progress.tables.len()));
        parts.push(format!("{} rows", HumanCount(status.snapshot_rows)));
        parts.push(format!("{} rows/s", HumanCount(progress.rows_per_s as u64)));
    }
    let distance = progress.distance();
    if !distance.is_empty() {
        parts.push(distance);
    }
    if status.log_rows > 0 || status.phase == Phase::Streaming {
        parts.push(format!("{} changes", HumanCount(status.log_rows)));
        parts.push(format!("{} events/s", HumanCount(progress.events_per_s as u64)));
    }
    let position = progress.position();
    if !position.is_empty() {
        parts.push(position);
    }
    parts.extend(views(&status.operators));
    parts
}

/// The tables that are copied fastest, in the order of their names so that lines do not jump; and how many more are
/// to be copied.
fn busiest(tables: &[TableView], most: usize) -> (Vec<&TableView>, usize) {
    let mut copying: Vec<&TableView> = tables.iter().filter(|t| !t.whole).collect();
    copying.sort_by_key(|t| Reverse((t.rows_per_s as u64, t.rows)));
    let hidden = copying.len().saturating_sub(most);
    copying.truncate(most);
    copying.sort_by(|a, b| a.name.cmp(&b.name));
    (copying, hidden)
}

fn table_line(table: &TableView, width: usize, columns: usize) -> String {
    let name = truncate_str(&table.name, width, "…");
    let pad = " ".repeat(width.saturating_sub(measure_text_width(&name)));
    let line = format!("  {name}{pad}");
    let (rows, estimate) = (HumanCount(table.rows), HumanCount(table.estimate.max(table.rows)));
    let mut parts = Vec::new();
    if table.rows == 0 && table.chunks == 0 {
        parts.push("waiting".to_owned());
        if table.estimate > 0 {
            parts.push(format!("about {estimate} rows"));
        }
        return fitting(line, parts, columns);
    }
    if table.estimate > 0 {
        parts.push(done_of(table, bar_width(columns)));
    }
    let of = format!("{rows} of about {estimate}");
    let before = measure_text_width(&fitting(line.clone(), parts.clone(), columns));
    let whole = table.estimate > 0 && before + 2 + measure_text_width(&of) <= columns;
    parts.push(if whole { of } else { format!("{rows} rows") });
    parts.push(format!("{} rows/s", HumanCount(table.rows_per_s as u64)));
    parts.push(format!("{} chunks", HumanCount(table.chunks)));
    fitting(line, parts, columns)
}

/// How much of a table is copied, as a bar of so many columns and in per cent.
fn done_of(table: &TableView, bar: usize) -> String {
    // the server only guesses: what is not whole is not at 100 %
    let part = (table.rows as f64 / table.estimate as f64).min(0.99);
    let full = (part * bar as f64).round() as usize;
    let space = if bar > 0 { " " } else { "" };
    format!("{}{}{space}{:2.0}%", "█".repeat(full), "░".repeat(bar - full), (part * 100.0).floor())
}

#[cfg(test)]
mod tests {
    use super::super::progress::Tracker;
    use super::super::progress::tests::table;
    use super::*;
    use cdc_runtime::Status;
    use std::time::{Duration, Instant, SystemTime};

    fn progress(status: Status) -> Progress {
        // both at one moment, so that nothing has a speed
        let now = Instant::now();
        Tracker::new(Duration::ZERO, now).look(status, now, SystemTime::now())
    }

    #[test]
    fn tables_while_they_are_copied() {
        let mut status = Status { phase: Phase::Snapshot, snapshot_rows: 12_007, ..Status::default() };
        let tables = vec![
            table("orders", false, 5000, 20_000),
            table("customers", true, 7, 7),
            table("guess", false, 7000, 100),
            table("late", false, 0, 50),
            table("unknown", false, 100, 0),
        ];
        status.tables.insert("src".into(), tables);
        let lines = frame("shop", &progress(status), 24, 80);
        assert_eq!(
            lines,
            [
                "shop: snapshot  1 of 5 tables whole  12,007 rows  0 rows/s",
                "  shop.guess    ████████████████ 99%  7,000 of about 7,000  0 rows/s  70 chunks",
                "  shop.late     waiting  about 50 rows",
                "  shop.orders   ████░░░░░░░░░░░░ 25%  5,000 of about 20,000  0 rows/s  50 chunks",
                "  shop.unknown  100 rows  0 rows/s  1 chunks",
            ]
        );
    }

    #[test]
    fn many_tables_on_a_small_terminal() {
        let mut status = Status { phase: Phase::Snapshot, worker_rows: vec![3, 4], ..Status::default() };
        let tables = (0..40).map(|i| table(&format!("a_very_long_table_name_{i:02}"), false, i, 0)).collect();
        status.tables.insert("src".into(), tables);
        let progress = progress(status);
        let lines = frame("shop", &progress, 8, 30);
        assert_eq!(lines.len(), 1 + 2 + 1 + 1, "{lines:?}");
        assert!(lines[1].starts_with("  shop.a_very…  "), "{lines:?}");
        assert_eq!(lines[3], "  and 38 more to copy");
        assert_eq!(lines[4], "  rows per worker  3  4");
        assert_eq!(frame("shop", &progress, 50, 200).len(), 1 + TABLES + 1 + 1);
        // a terminal that says it has no size
        assert_eq!(frame("shop", &progress, 0, 0).len(), 1 + 1 + 1 + 1);
    }

    #[test]
    fn a_narrow_terminal_shows_whole_numbers() {
        let mut status = Status { phase: Phase::Snapshot, snapshot_rows: 12_345_678, ..Status::default() };
        let tables = vec![
            table("orders", false, 5_000_000, 20_000_000),
            table("a_table_with_a_long_name", false, 7000, 100),
            table("late", false, 0, 5_000_000),
        ];
        status.tables.insert("src".into(), tables);
        status.positions.insert("src".into(), "binlog.000003:4711".into());
        let progress = progress(status);
        assert_eq!(
            frame("shop", &progress, 24, 40),
            [
                "shop: snapshot  0 of 3 tables whole",
                "  12,345,678 rows  0 rows/s",
                "  binlog.000003:4711",
                "  shop.a_table…  99%  7,000 rows",
                "  shop.late      waiting",
                "  shop.orders    25%  5,000,000 rows",
            ]
        );
        assert_eq!(frame("shop", &progress, 24, 50)[4], "  shop.orders       ██░░░░░░ 25%  5,000,000 rows");
        // only one line of the head
        let lines = frame("shop", &progress, 8, 32);
        assert_eq!(lines[0], "shop: snapshot");
        assert_eq!(lines[1], "  shop.a_tabl…  99%  7,000 rows");
        for columns in 1..120 {
            for line in frame("shop", &progress, 24, columns) {
                assert!(measure_text_width(&line) <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn one_line_while_following() {
        let mut status =
            Status { phase: Phase::Streaming, log_rows: 37, caught_up: true, ..Status::default() };
        status.tables.insert("src".into(), vec![table("orders", true, 5, 5)]);
        status.positions.insert("src".into(), "binlog.000003:4711".into());
        let lines = frame("shop", &progress(status), 24, 80);
        assert_eq!(lines, ["shop: streaming  caught up  37 changes  0 events/s  binlog.000003:4711"]);
    }
}
