//! What a run shows of itself: a snapshot for whoever asks, and messages in order.

use crate::sink_driver::clipped;
use cdc_core::Diagnostic;
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use cdc_mysql::capture::TableProgress;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use cdc_materialize::metrics::Seen;
use cdc_materialize::render::Counters;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Looking at source and targets.
    #[default]
    Starting,
    /// Tables are being copied; targets are not consistent yet.
    Snapshot,
    /// All tables are whole; targets do not have yet what views say of them.
    Views,
    /// Following the log.
    Streaming,
    /// Finishing.
    Stopping,
}

impl Phase {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Snapshot => "snapshot",
            Phase::Views => "computing views",
            Phase::Streaming => "streaming",
            Phase::Stopping => "stopping",
        }
    }
}

/// A run at one moment.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Where it is.
    pub phase: Phase,
    /// Tables by source.
    pub tables: BTreeMap<String, Vec<TableProgress>>,
    /// Row changes of the log given out, since the start of this run.
    pub log_rows: u64,
    /// Rows of the snapshot given out, since the start of this run.
    pub snapshot_rows: u64,
    /// Transactions of the log given out, since the start of this run.
    pub transactions: u64,
    /// The log position given out, by source, for people.
    pub positions: BTreeMap<String, String>,
    /// Commit time at the source of the last transaction given out: microseconds since 1970 UTC; 0: none yet.
    pub last_commit_micros: i64,
    /// True when everything that the source has told of has been committed at every sink.
    pub caught_up: bool,
    /// The last tick that every sink has committed.
    pub committed: Tick,
    /// Changes into sinks by worker, since the start of this run.
    pub worker_rows: Vec<u64>,
    /// What the operators of views have seen and hold, by name.
    pub operators: BTreeMap<String, Seen>,
    /// Bytes of rows under way.
    pub in_flight_bytes: u64,
}

/// Something to be told once.
#[derive(Debug, Clone)]
pub enum Message {
    /// A warning, or an error that is tried again.
    Notice(Diagnostic),
    /// Something that happened.
    Info(Info),
}

/// Something that happened: a line for people by `Display`, fields for programs.
#[derive(Debug, Clone, PartialEq)]
pub enum Info {
    /// The run goes on from what an earlier one has left.
    GoingOn {
        /// The checkpoint's tick.
        tick: Tick,
        /// Where it reads on.
        position: String,
    },
    /// What the views' tables held is there again.
    ViewsLoaded {
        /// Rows of all tables.
        rows: usize,
        /// How long that took.
        seconds: f64,
    },
    /// A table has been made at a target for the first start, and not all of it.
    TableMade {
        /// The sink.
        sink: String,
        /// The table there.
        table: String,
        /// What was left out, with why.
        left: Vec<String>,
    },
    /// A table has been copied.
    TableWhole {
        /// Which.
        table: TableId,
    },
    /// All tables have been copied.
    SnapshotComplete,
    /// All tables are whole, and targets are about to get what views say of them.
    ViewsComputing,
    /// Targets have what views say of their tables.
    ViewsSpeak {
        /// The first tick of which it is so.
        tick: Tick,
    },
    /// A table is copied again, and targets keep meanwhile what views have said.
    ViewsSilent {
        /// Which.
        table: TableId,
        /// The tick of the statement that made it necessary.
        tick: Tick,
    },
    /// All tables are whole again.
    ViewsSpeakAgain {
        /// The first tick of which views say something.
        tick: Tick,
    },
    /// A schema change of the source has been dealt with at a target.
    SchemaChange {
        /// Its tick.
        tick: Tick,
        /// The sink.
        sink: String,
        /// The table there.
        table: String,
        /// What has changed at the source.
        changes: Vec<String>,
        /// The source's statement; empty where it is none.
        statement: String,
        /// What was done.
        made: Vec<String>,
        /// What was left out, with why.
        left: Vec<String>,
        /// For how long rows had to wait, in milliseconds.
        held_ms: f64,
        /// And how much of that at the target.
        target_ms: f64,
    },
}

impl Info {
    /// Its word.
    pub fn name(&self) -> &'static str {
        match self {
            Info::GoingOn { .. } => "going_on",
            Info::ViewsLoaded { .. } => "views_loaded",
            Info::TableMade { .. } => "table_made",
            Info::TableWhole { .. } => "table_whole",
            Info::SnapshotComplete => "snapshot_complete",
            Info::ViewsComputing => "views_computing",
            Info::ViewsSpeak { .. } => "views_speak",
            Info::ViewsSilent { .. } => "views_silent",
            Info::ViewsSpeakAgain { .. } => "views_speak_again",
            Info::SchemaChange { .. } => "schema_change",
        }
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Info::GoingOn { tick, position } => write!(f, "going on from tick {tick} at {position}"),
            Info::ViewsLoaded { rows, seconds } => {
                write!(f, "views go on from {rows} rows of their tables, loaded in {seconds:.2} s")
            }
            Info::TableMade { sink, table, left } => {
                write!(f, "{sink}.{table}: create_table; {}", left.join("; "))
            }
            Info::TableWhole { table } => write!(f, "table {table} is whole"),
            Info::SnapshotComplete => {
                f.write_str("snapshot complete: every table is whole, following the log")
            }
            Info::ViewsComputing => f.write_str("computing views: targets get what they say as one change"),
            Info::ViewsSpeak { tick } => write!(f, "views are at the targets, from tick {tick} on"),
            Info::ViewsSilent { table, .. } => write!(
                f,
                "table {table} is copied again: views are silent until it is whole, targets keep what they said"
            ),
            Info::ViewsSpeakAgain { .. } => f.write_str("views speak again"),
            Info::SchemaChange {
                sink, table, changes, statement, made, left, held_ms, target_ms, ..
            } => {
                write!(f, "schema change: {}", changes.join("; "))?;
                if !statement.is_empty() {
                    write!(f, " ({})", clipped(statement))?;
                }
                let made = if made.is_empty() { "nothing to do".to_owned() } else { made.join(", ") };
                write!(f, "; {sink}.{table}: {made}")?;
                for left in left {
                    write!(f, "; {left}")?;
                }
                write!(f, "; rows held {held_ms:.2} ms, {target_ms:.2} ms of them at the target")
            }
        }
    }
}

/// Shared by the parts of a run and whoever shows it.
#[derive(Clone)]
pub struct StatusHandle {
    shared: Arc<Mutex<Status>>,
    counters: Arc<Mutex<Option<Arc<Counters>>>>,
    messages: mpsc::Sender<Message>,
}

impl StatusHandle {
    /// A handle, and where its messages come out.
    pub fn new() -> (StatusHandle, mpsc::Receiver<Message>) {
        let (messages, receiver) = mpsc::channel();
        (StatusHandle { shared: Arc::default(), counters: Arc::default(), messages }, receiver)
    }

    /// The run now.
    pub fn get(&self) -> Status {
        let mut status = self.shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(counters) = &*self.counters.lock().unwrap_or_else(PoisonError::into_inner) {
            status.worker_rows = counters.rows.iter().map(|r| r.load(Ordering::Relaxed)).collect();
            status.operators = counters.operators.seen();
        }
        status
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn set_counters(&self, counters: Arc<Counters>) {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = Some(counters);
    }

    pub(crate) fn notice(&self, notice: Diagnostic) {
        // nobody listens: then it is not to be told
        let _ = self.messages.send(Message::Notice(notice));
    }

    pub(crate) fn info(&self, info: Info) {
        let _ = self.messages.send(Message::Info(info));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people() {
        let orders = || TableId::new("shop", "orders");
        let change = |made: &[&str], left: &[&str], statement: &str| Info::SchemaChange {
            tick: 7,
            sink: "dw".into(),
            table: "orders".into(),
            changes: vec!["add column a".into(), "drop column b".into()],
            statement: statement.into(),
            made: made.iter().map(ToString::to_string).collect(),
            left: left.iter().map(ToString::to_string).collect(),
            held_ms: 1.234,
            target_ms: 0.5,
        };
        for (info, text) in [
            (
                Info::GoingOn { tick: 5, position: "binlog.000003:4711".into() },
                "going on from tick 5 at binlog.000003:4711",
            ),
            (
                Info::ViewsLoaded { rows: 12, seconds: 0.126 },
                "views go on from 12 rows of their tables, loaded in 0.13 s",
            ),
            (Info::TableWhole { table: orders() }, "table shop.orders is whole"),
            (Info::SnapshotComplete, "snapshot complete: every table is whole, following the log"),
            (
                Info::ViewsSilent { table: orders(), tick: 9 },
                "table shop.orders is copied again: views are silent until it is whole, targets keep what they said",
            ),
            (Info::ViewsSpeakAgain { tick: 11 }, "views speak again"),
            (
                change(&["add a"], &["b stays"], "ALTER  TABLE\norders .."),
                "schema change: add column a; drop column b (ALTER TABLE orders ..); dw.orders: add a; b stays; rows held 1.23 ms, 0.50 ms of them at the target",
            ),
            (
                change(&[], &[], ""),
                "schema change: add column a; drop column b; dw.orders: nothing to do; rows held 1.23 ms, 0.50 ms of them at the target",
            ),
        ] {
            assert_eq!(info.to_string(), text);
        }
    }
}
