//! The live view: a few lines on a terminal that always show the run as it is now.

use super::progress::{Progress, TableView};
use cdc_runtime::Phase;
use console::{measure_text_width, truncate_str};
use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cmp::Reverse;

/// Tables shown at a time, at most.
const TABLES: usize = 10;

/// Lines of a terminal that are left to the words above the view.
const SPARE: usize = 4;

/// Columns of a bar.
const BAR: usize = 16;

/// The lines on the screen: one message, so that a frame is drawn whole or not at all.
pub struct Live {
    screen: MultiProgress,
    lines: ProgressBar,
    pipeline: String,
}

impl Live {
    /// An empty view on standard error; `None` where the terminal cannot show one.
    pub fn new(pipeline: &str) -> Option<Live> {
        let target = ProgressDrawTarget::stderr_with_hz(20);
        if target.is_hidden() {
            return None;
        }
        let style = ProgressStyle::with_template("{msg}").ok()?;
        let screen = MultiProgress::with_draw_target(target);
        let lines = screen.add(ProgressBar::no_length());
        lines.set_style(style);
        Some(Live { screen, lines, pipeline: pipeline.to_owned() })
    }

    /// What other words have to be written above.
    pub fn screen(&self) -> MultiProgress {
        self.screen.clone()
    }

    /// Shows the run.
    pub fn show(&self, progress: &Progress) {
        let (rows, columns) = console::Term::stderr().size();
        self.lines.set_message(frame(&self.pipeline, progress, rows.into(), columns.into()).join("\n"));
    }

    /// Takes the view off the screen.
    pub fn clear(&self) {
        self.lines.finish_and_clear();
    }
}

/// The view as lines, for a terminal of this many rows and columns; 0: one that does not say.
fn frame(pipeline: &str, progress: &Progress, rows: usize, columns: usize) -> Vec<String> {
    let mut lines = vec![headline(pipeline, progress)];
    let workers = &progress.status.worker_rows;
    let with_workers = workers.len() > 1 && workers.iter().any(|rows| *rows > 0);
    let room = rows.saturating_sub(SPARE + 1 + usize::from(with_workers)).clamp(1, TABLES);
    let (shown, hidden) = busiest(&progress.tables, room);
    let width =
        shown.iter().map(|t| measure_text_width(&t.name)).max().unwrap_or(0).min((columns / 3).max(12));
    lines.extend(shown.iter().map(|t| table_line(t, width)));
    if hidden > 0 {
        lines.push(format!("  and {hidden} more to copy"));
    }
    if with_workers {
        let rows: Vec<String> = workers.iter().map(|rows| HumanCount(*rows).to_string()).collect();
        lines.push(format!("  rows per worker  {}", rows.join("  ")));
    }
    let most = if columns == 0 { usize::MAX } else { columns };
    lines.iter().map(|line| truncate_str(line, most, "…").into_owned()).collect()
}

/// What matters most comes first: a narrow terminal shows only the beginning.
fn headline(pipeline: &str, progress: &Progress) -> String {
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
    parts.join("  ")
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

fn table_line(table: &TableView, width: usize) -> String {
    let name = truncate_str(&table.name, width, "…");
    let pad = " ".repeat(width.saturating_sub(measure_text_width(&name)));
    let rows = HumanCount(table.rows);
    let mut line = format!("  {name}{pad}  ");
    if table.rows == 0 && table.chunks == 0 {
        line.push_str("waiting");
        if table.estimate > 0 {
            line.push_str(&format!("  about {} rows", HumanCount(table.estimate)));
        }
        return line;
    }
    if table.estimate > 0 {
        // the server only guesses: what is not whole is not at 100 %
        let part = (table.rows as f64 / table.estimate as f64).min(0.99);
        let full = (part * BAR as f64).round() as usize;
        line.push_str(&format!(
            "{}{} {:2.0}%  ",
            "█".repeat(full),
            "░".repeat(BAR - full),
            (part * 100.0).floor()
        ));
        line.push_str(&format!("{rows} of about {}", HumanCount(table.estimate.max(table.rows))));
    } else {
        line.push_str(&format!("{rows} rows"));
    }
    line.push_str(&format!(
        "  {} rows/s  {} chunks",
        HumanCount(table.rows_per_s as u64),
        HumanCount(table.chunks)
    ));
    line
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
    fn one_line_while_following() {
        let mut status =
            Status { phase: Phase::Streaming, log_rows: 37, caught_up: true, ..Status::default() };
        status.tables.insert("src".into(), vec![table("orders", true, 5, 5)]);
        status.positions.insert("src".into(), "binlog.000003:4711".into());
        let lines = frame("shop", &progress(status), 24, 80);
        assert_eq!(lines, ["shop: streaming  caught up  37 changes  0 events/s  binlog.000003:4711"]);
    }
}
