//! What a run shows: words as they come, and between them a live view or a line now and then.

use super::live::Live;
use super::progress::{Progress, Tracker, duration};
use crate::exit::Exit;
use crate::logging::Log;
use crate::output::count;
use crate::surroundings::PipelineFile;
use cdc_core::plan::Plan;
use cdc_core::{Error, Result};
use cdc_runtime::{Ended, Info, Message, Phase, Report, RunOptions, Seen, Status, StatusHandle};
use indicatif::BinaryBytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// Between two frames of the live view.
const FRAME: Duration = Duration::from_millis(100);
/// Between two progress lines.
const LINE: Duration = Duration::from_secs(2);
/// Speeds on the screen are means over this time, so that they can be read.
const SMOOTHING: Duration = Duration::from_secs(3);

/// Shows a run.
pub struct View {
    log: Log,
    file: PipelineFile,
    live: Option<Live>,
    tracker: Tracker,
    begun: Instant,
    next: Instant,
    shown: Option<Moved>,
}

/// What makes a new progress line worth reading. Not the position: it moves with every transaction of the server,
/// also those that are not ours.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    phase: Phase,
    rows: u64,
    changes: u64,
    whole: usize,
    tables: usize,
    chunks: u64,
    caught_up: bool,
}

impl View {
    /// A view; a live one if wanted.
    pub fn new(log: Log, file: PipelineFile, plan: &Plan, live: bool) -> View {
        let live = live.then(|| Live::new(&plan.name));
        let begun = Instant::now();
        View {
            log: live.as_ref().map_or(log.clone(), |l| log.above(l.screen())),
            file,
            tracker: Tracker::new(if live.is_some() { SMOOTHING } else { Duration::ZERO }, begun),
            next: if live.is_some() { begun } else { begun + LINE },
            live,
            begun,
            shown: None,
        }
    }

    /// The run begins.
    pub fn started(&self, plan: &Plan, options: &RunOptions) {
        let used = |name: &str| plan.flows.iter().any(|f| f.source == name || f.sink == name);
        let connectors = |all: Vec<(&String, &String)>| -> Vec<(String, String)> {
            all.into_iter().filter(|(name, _)| used(name)).map(|(n, c)| (n.clone(), c.clone())).collect()
        };
        let sources = connectors(plan.sources.iter().map(|s| (&s.name, &s.connector)).collect());
        let sinks = connectors(plan.sinks.iter().map(|s| (&s.name, &s.connector)).collect());
        let text = |all: &[(String, String)]| {
            all.iter().map(|(n, c)| format!("{n} ({c})")).collect::<Vec<_>>().join(", ")
        };
        let fields = |all: &[(String, String)]| -> Vec<Value> {
            all.iter().map(|(n, c)| json!({ "name": n, "connector": c })).collect()
        };
        self.log.event(
            "started",
            &format!(
                "pipeline \"{}\": {} => {}, {}",
                plan.name,
                text(&sources),
                text(&sinks),
                count(options.workers as u64, "worker")
            ),
            json!({
                "pipeline": plan.name,
                "sources": fields(&sources),
                "sinks": fields(&sinks),
                "workers": options.workers,
                "state": options.state.display().to_string(),
            }),
        );
    }

    /// Something to be told.
    pub fn message(&self, message: &Message) {
        match message {
            Message::Info(info) => self.log.event(info.name(), &info.to_string(), fields_of(info)),
            Message::Notice(diagnostic) => {
                let file = Some(&self.file).filter(|_| !diagnostic.labels.is_empty());
                self.log.diagnostics(std::slice::from_ref(diagnostic), file);
            }
        }
    }

    /// The run was told to stop.
    pub fn stopping(&self) {
        self.log.event("stopping", "stopping with a checkpoint; Ctrl-C again ends at once", json!({}));
    }

    /// Shows the run if it is time to.
    pub fn glance(&mut self, status: &StatusHandle) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let progress = self.tracker.look(status.get(), now, SystemTime::now());
        match &self.live {
            Some(live) => {
                live.show(&progress);
                self.next = now + FRAME;
            }
            None => {
                self.line(&progress);
                self.next = now + LINE;
            }
        }
    }

    fn line(&mut self, progress: &Progress) {
        let moved = Moved::of(progress);
        if progress.status.phase == Phase::Starting || self.shown.as_ref() == Some(&moved) {
            return;
        }
        self.shown = Some(moved);
        self.log.event("progress", &line(progress), fields(progress));
    }

    /// The run is over: takes the view away and says how it ended.
    pub fn ended(self, result: &Result<Report>, last: &Status) -> Exit {
        if let Some(live) = &self.live {
            live.clear();
        }
        match result {
            Ok(report) => {
                self.done(report, last);
                Exit::Done
            }
            Err(error) => self.failed(error),
        }
    }

    fn done(&self, report: &Report, last: &Status) {
        let (how, word) = match report.ended {
            Ended::Stopped => ("stopped", "stopped"),
            Ended::CaughtUp => ("caught up", "caught_up"),
            Ended::Complete => ("complete", "complete"),
        };
        // a run that was stopped before it had looked cannot say so
        let nothing_new = report.snapshot_rows == 0
            && report.log_rows == 0
            && (report.ended != Ended::Stopped || last.caught_up);
        let elapsed = self.begun.elapsed();
        let text = format!(
            "done: {how} at tick {}, snapshot {}, log {}, {}",
            report.committed,
            count(report.snapshot_rows, "row"),
            count(report.log_rows, "change"),
            duration(elapsed)
        );
        self.log.event(
            "done",
            &text,
            json!({
                "ended": word,
                "tick": report.committed,
                "snapshot_rows": report.snapshot_rows,
                "log_rows": report.log_rows,
                "nothing_new": nothing_new,
                "worker_rows": last.worker_rows,
                "operators": operators(&last.operators),
                "elapsed_ms": elapsed.as_millis() as u64,
            }),
        );
        if nothing_new {
            self.log.event("nothing_new", "nothing new: already up to date", json!({}));
        }
        if last.worker_rows.len() > 1 && !self.log.is_json() {
            self.log.event("workers", &workers(&last.worker_rows), json!({}));
        }
        if let Some(views) = views(&last.operators).filter(|_| !self.log.is_json()) {
            self.log.event("views", &views, json!({}));
        }
        for summary in &report.summaries {
            self.log.event("summary", summary, json!({}));
        }
    }

    fn failed(&self, error: &Error) -> Exit {
        self.log.failed(error, Some(&self.file))
    }
}

impl Moved {
    fn of(progress: &Progress) -> Moved {
        Moved {
            phase: progress.status.phase,
            rows: progress.status.snapshot_rows,
            changes: progress.status.log_rows,
            whole: progress.whole(),
            tables: progress.tables.len(),
            chunks: progress.chunks(),
            caught_up: progress.status.caught_up,
        }
    }
}

/// A run as one line.
fn line(progress: &Progress) -> String {
    let status = &progress.status;
    let mut parts = Vec::new();
    if progress.whole() < progress.tables.len() {
        let (rows, estimate) = progress.copying();
        parts.push(format!("{} of {} tables whole", progress.whole(), progress.tables.len()));
        parts.push(format!("{rows} of about {estimate} rows"));
        parts.push(format!("{:.0} rows/s", progress.rows_per_s));
        parts.push(count(progress.chunks(), "chunk"));
    }
    if parts.is_empty() || status.log_rows > 0 {
        parts.push(count(status.log_rows, "change"));
        parts.push(format!("{:.0} events/s", progress.events_per_s));
    }
    parts.extend([progress.distance(), progress.position()].into_iter().filter(|p| !p.is_empty()));
    if status.worker_rows.len() > 1 {
        parts.push(workers(&status.worker_rows));
    }
    parts.extend(views(&status.operators));
    format!("{}: {}", status.phase.name(), parts.join(", "))
}

/// What happened, for programs.
fn fields_of(info: &Info) -> Value {
    match info {
        Info::GoingOn { tick, position } => json!({ "tick": tick, "position": position }),
        Info::ViewsLoaded { rows, seconds } => {
            json!({ "rows": rows, "elapsed_ms": (seconds * 1000.0).round() as u64 })
        }
        Info::TableWhole { table } => json!({ "table": table.to_string() }),
        Info::SnapshotComplete | Info::ViewsComputing => json!({}),
        Info::ViewsSpeak { tick } | Info::ViewsSpeakAgain { tick } => json!({ "tick": tick }),
        Info::ViewsSilent { table, tick } => json!({ "table": table.to_string(), "tick": tick }),
        Info::TableMade { sink, table, left } => {
            json!({ "sink": sink, "table": table, "left_out": left })
        }
        Info::SchemaChange { tick, sink, table, changes, statement, made, left, held_ms, target_ms } => {
            json!({
                "tick": tick,
                "sink": sink,
                "table": table,
                "changes": changes,
                "statement": statement,
                "made": made,
                "left_out": left,
                "held_ms": held_ms,
                "target_ms": target_ms,
            })
        }
    }
}

fn workers(rows: &[u64]) -> String {
    format!("rows per worker {}", rows.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
}

fn fields(progress: &Progress) -> Value {
    let status = &progress.status;
    let (rows, estimate) = progress.copying();
    json!({
        "phase": status.phase.name().replace(' ', "_"),
        "tables": progress.tables.len(),
        "tables_whole": progress.whole(),
        "copying_rows": rows,
        "copying_estimate": estimate,
        "chunks": progress.chunks(),
        "snapshot_rows": status.snapshot_rows,
        "rows_per_s": progress.rows_per_s.round(),
        "log_rows": status.log_rows,
        "events_per_s": progress.events_per_s.round(),
        "transactions": status.transactions,
        "caught_up": status.caught_up,
        "lag_ms": progress.lag.filter(|_| !status.caught_up).map(|l| l.as_millis() as u64),
        "tick": status.committed,
        "positions": status.positions,
        "worker_rows": status.worker_rows,
        "in_flight_bytes": status.in_flight_bytes,
        "operators": operators(&status.operators),
    })
}

/// What the operators of views have seen and hold, by the names that `explain` shows.
fn operators(all: &BTreeMap<String, Seen>) -> Value {
    let fields = |seen: &Seen| {
        json!({
            "records_in": seen.records_in,
            "records_out": seen.records_out,
            "state_rows": seen.state_rows,
            "state_bytes": seen.state_bytes,
            "conflicts": seen.conflicts,
        })
    };
    all.iter().map(|(name, seen)| (name.clone(), fields(seen))).collect::<serde_json::Map<_, _>>().into()
}

/// The same for people, in one part of a line; `None` where there are no views.
pub(super) fn views(all: &BTreeMap<String, Seen>) -> Option<String> {
    let sum = |number: fn(&Seen) -> i64| u64::try_from(all.values().map(number).sum::<i64>()).unwrap_or(0);
    let (rows, bytes, conflicts) = (sum(|s| s.state_rows), sum(|s| s.state_bytes), sum(|s| s.conflicts));
    let mut text = format!("views hold {}, {}", count(rows, "row"), BinaryBytes(bytes));
    if conflicts > 0 {
        text.push_str(&format!(", {}", count(conflicts, "conflict")));
    }
    (!all.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::progress::tests::table;
    use super::*;

    fn progress(status: Status) -> Progress {
        // both at one moment, so that nothing has a speed
        let now = Instant::now();
        Tracker::new(Duration::ZERO, now).look(status, now, SystemTime::now())
    }

    fn snapshot() -> Status {
        let mut status = Status { phase: Phase::Snapshot, snapshot_rows: 5007, ..Status::default() };
        status
            .tables
            .insert("src".into(), vec![table("orders", false, 5000, 20_000), table("c", true, 7, 7)]);
        status.positions.insert("src".into(), "binlog.000003:4711".into());
        status
    }

    #[test]
    fn lines() {
        let text = line(&progress(snapshot()));
        assert_eq!(
            text,
            "snapshot: 1 of 2 tables whole, 5000 of about 20000 rows, 0 rows/s, 50 chunks, binlog.000003:4711"
        );
        let held = Seen { records_in: 9, records_out: 7, state_rows: 1, state_bytes: 2048, conflicts: 0 };
        let twice = BTreeMap::from([("upsert[src.orders]".to_owned(), held), ("view[v]".to_owned(), held)]);
        assert_eq!(views(&twice).as_deref(), Some("views hold 2 rows, 4.00 KiB"));
        assert_eq!(views(&BTreeMap::new()), None);
        assert_eq!(operators(&twice)["view[v]"]["records_in"], 9);
        let computing = progress(Status { phase: Phase::Views, operators: twice, ..Status::default() });
        assert_eq!(line(&computing), "computing views: 0 changes, 0 events/s, views hold 2 rows, 4.00 KiB");
        assert_eq!(fields(&computing)["phase"], "computing_views");
        let mut status = snapshot();
        status.phase = Phase::Streaming;
        status.tables.clear();
        status.log_rows = 37;
        status.caught_up = true;
        status.worker_rows = vec![20, 17];
        assert_eq!(
            line(&progress(status)),
            "streaming: 37 changes, 0 events/s, caught up, binlog.000003:4711, rows per worker 20 17"
        );
    }

    #[test]
    fn a_position_that_moves_alone_is_no_news() {
        let mut status = snapshot();
        let before = Moved::of(&progress(status.clone()));
        status.positions.insert("src".into(), "binlog.000003:9999".into());
        assert_eq!(before, Moved::of(&progress(status.clone())));
        status.log_rows += 1;
        assert_ne!(before, Moved::of(&progress(status)));
    }
}
