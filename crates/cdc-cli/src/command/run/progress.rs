//! A run in numbers for people: what the engine's status says, and how fast it changes.

use cdc_core::schema::TableId;
use cdc_runtime::{Phase, Status};
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A run at one moment, with its speed.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// What the engine says.
    pub status: Status,
    /// In the order of their names.
    pub tables: Vec<TableView>,
    /// Of the snapshot.
    pub rows_per_s: f64,
    /// Row changes of the log.
    pub events_per_s: f64,
    /// How long ago what was given out last was committed at the source; `None` before the first.
    pub lag: Option<Duration>,
}

/// A table in a [`Progress`].
#[derive(Debug, Clone, Default)]
pub struct TableView {
    /// `database.table`
    pub name: String,
    /// It is an exact copy.
    pub whole: bool,
    /// Rows copied.
    pub rows: u64,
    /// Rows that the server reckons with; 0: not known.
    pub estimate: u64,
    /// Chunks finished.
    pub chunks: u64,
    /// Rows copied per second.
    pub rows_per_s: f64,
}

impl Progress {
    /// Tables that are exact copies.
    pub fn whole(&self) -> usize {
        self.tables.iter().filter(|t| t.whole).count()
    }

    /// Chunks finished, of all tables.
    pub fn chunks(&self) -> u64 {
        self.tables.iter().map(|t| t.chunks).sum()
    }

    /// Rows copied and rows reckoned with, of the tables that are being copied. The reckoned number is never less
    /// than what has come: the server only guesses.
    pub fn copying(&self) -> (u64, u64) {
        let copying = self.tables.iter().filter(|t| !t.whole);
        copying.fold((0, 0), |(rows, estimate), t| (rows + t.rows, estimate + t.estimate.max(t.rows)))
    }

    /// Where the log has been read to: with more than one source, the source's name in front.
    pub fn position(&self) -> String {
        let positions = &self.status.positions;
        let one = positions.len() == 1;
        let shown =
            positions.iter().map(|(source, at)| if one { at.clone() } else { format!("{source} {at}") });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// What is to be said of the distance to the source; empty while that means nothing, as before every table is
    /// whole.
    pub fn distance(&self) -> String {
        match self.lag {
            _ if matches!(self.status.phase, Phase::Starting | Phase::Snapshot) => String::new(),
            // a run that is stopped in its snapshot
            _ if self.whole() < self.tables.len() => String::new(),
            _ if self.status.caught_up => "caught up".to_owned(),
            Some(lag) => format!("lag {}", duration(lag)),
            None => String::new(),
        }
    }
}

/// Follows the numbers of a run from one look to the next.
#[derive(Debug)]
pub struct Tracker {
    rows: Meter,
    events: Meter,
    tables: HashMap<TableId, Meter>,
    smoothing: Duration,
}

impl Tracker {
    /// A tracker of a run that begins now. Speeds are means over about this time; zero: from one look to the next.
    pub fn new(smoothing: Duration, now: Instant) -> Tracker {
        // these count from the run's start; a table's rows may be those of earlier runs too
        let from_zero = Meter { last: Some((now, 0)), rate: 0.0 };
        Tracker { rows: from_zero, events: from_zero, tables: HashMap::new(), smoothing }
    }

    /// Takes a look.
    pub fn look(&mut self, status: Status, now: Instant, time: SystemTime) -> Progress {
        let smoothing = self.smoothing;
        let mut tables: Vec<TableView> = Vec::new();
        for table in status.tables.values().flatten() {
            // a whole table has no speed, and need not be followed
            let rows_per_s = if table.whole {
                self.tables.remove(&table.table);
                0.0
            } else {
                self.tables.entry(table.table.clone()).or_default().take(table.rows, now, smoothing)
            };
            tables.push(TableView {
                name: table.table.to_string(),
                whole: table.whole,
                rows: table.rows,
                estimate: table.estimate,
                chunks: table.chunks,
                rows_per_s,
            });
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        let lag = u64::try_from(status.last_commit_micros).ok().filter(|m| *m > 0).map(|micros| {
            // clocks of two machines: what seems to come from the future is from now
            time.duration_since(UNIX_EPOCH + Duration::from_micros(micros)).unwrap_or_default()
        });
        Progress {
            rows_per_s: self.rows.take(status.snapshot_rows, now, smoothing),
            events_per_s: self.events.take(status.log_rows, now, smoothing),
            tables,
            lag,
            status,
        }
    }
}

/// The speed of a number that grows.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    last: Option<(Instant, u64)>,
    rate: f64,
}

impl Meter {
    fn take(&mut self, value: u64, now: Instant, smoothing: Duration) -> f64 {
        if let Some((then, before)) = self.last {
            let seconds = now.saturating_duration_since(then).as_secs_f64();
            if seconds <= 0.0 {
                return self.rate;
            }
            let rate = value.saturating_sub(before) as f64 / seconds;
            let weight =
                if smoothing.is_zero() { 1.0 } else { 1.0 - (-seconds / smoothing.as_secs_f64()).exp() };
            self.rate += (rate - self.rate) * weight;
        }
        self.last = Some((now, value));
        self.rate
    }
}

/// `35 ms`, `1.3 s`, `42 s`, `7 min`, `5 h`, `3 d`.
pub fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        s @ 10..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use cdc_mysql::capture::TableProgress;

    /// A table in a status.
    pub fn table(name: &str, whole: bool, rows: u64, estimate: u64) -> TableProgress {
        TableProgress { table: TableId::new("shop", name), whole, rows, estimate, chunks: rows / 100 }
    }

    #[test]
    fn speeds_are_differences_over_time() {
        let start = Instant::now();
        let mut tracker = Tracker::new(Duration::ZERO, start);
        let mut status = Status { snapshot_rows: 100, ..Status::default() };
        status.tables.insert("src".into(), vec![table("b", false, 100, 1000), table("a", true, 7, 5)]);
        let first = tracker.look(status.clone(), start + Duration::from_secs(1), SystemTime::now());
        assert_eq!((first.rows_per_s, first.tables[1].rows_per_s), (100.0, 0.0));
        assert_eq!(first.tables[0].name, "shop.a");
        assert_eq!((first.whole(), first.chunks(), first.copying()), (1, 1, (100, 1000)));
        status.snapshot_rows = 500;
        status.tables.insert("src".into(), vec![table("b", false, 1500, 1000)]);
        let second = tracker.look(status, start + Duration::from_secs(3), SystemTime::now());
        assert_eq!((second.rows_per_s, second.tables[0].rows_per_s), (200.0, 700.0));
        // more rows than the server reckoned with
        assert_eq!(second.copying(), (1500, 1500));
    }

    #[test]
    fn lag_is_told_until_caught_up() {
        let mut tracker = Tracker::new(Duration::ZERO, Instant::now());
        let at = UNIX_EPOCH + Duration::from_secs(1000);
        let mut status = Status { phase: Phase::Streaming, ..Status::default() };
        assert_eq!(tracker.look(status.clone(), Instant::now(), at).distance(), "");
        status.last_commit_micros = 995_000_000;
        assert_eq!(tracker.look(status.clone(), Instant::now(), at).distance(), "lag 5.0 s");
        status.last_commit_micros = 1_005_000_000;
        assert_eq!(tracker.look(status.clone(), Instant::now(), at).distance(), "lag 0 ms");
        status.caught_up = true;
        assert_eq!(tracker.look(status, Instant::now(), at).distance(), "caught up");
    }

    #[test]
    fn durations() {
        let cases = [
            (300, "300 ms"),
            (1300, "1.3 s"),
            (42_900, "42 s"),
            (150_000, "2 min"),
            (7_200_000, "2 h"),
            (400_000_000, "4 d"),
        ];
        for (ms, text) in cases {
            assert_eq!(duration(Duration::from_millis(ms)), text);
        }
    }
}
