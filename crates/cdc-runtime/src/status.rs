//! What a run shows of itself: a snapshot for whoever asks, and messages in order.

use cdc_core::Diagnostic;
use cdc_core::tick::Tick;
use cdc_mysql::capture::TableProgress;
use std::collections::BTreeMap;
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
    /// Something that happened, for people.
    Info(String),
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

    pub(crate) fn info(&self, text: impl Into<String>) {
        let _ = self.messages.send(Message::Info(text.into()));
    }
}
