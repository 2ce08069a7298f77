//! What views' tables hold, so that a restart loads it instead of copying the tables anew.
//!
//! The operators that take a table's rows in ([`crate::render`]) note each tick's net changes here. The runtime takes those of all ticks up to
//! a checkpoint's out and makes them durable with it; at a start it hands back what there was, as of the checkpoint's
//! tick, and the rows enter the dataflow once more, at that tick. What views say of it is what they had said then, so no target is told again: each
//! has committed that tick.
//!
//! Nothing else of a view is kept: joins and groups are made from their inputs again, which costs time and no I/O at the source.

use cdc_core::Row;
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A change of what a table holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputChange {
    /// The key has this row; none: it is gone.
    Keyed {
        /// The packed key.
        key: Row,
        /// What there is of the row.
        row: Option<Row>,
    },
    /// Of a table without key: so many rows like this came (or went).
    Counted {
        /// The row.
        row: Row,
        /// How many.
        times: i64,
    },
}

/// What a table held: rows, with their keys, or with how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputRow {
    /// Of a table with a key.
    Keyed {
        /// The packed key.
        key: Row,
        /// The row.
        row: Row,
    },
    /// Of a table without.
    Counted {
        /// The row.
        row: Row,
        /// How many.
        times: i64,
    },
}

/// What ticks have changed in tables.
pub type TableChanges = Vec<(TableId, Vec<InputChange>)>;

/// The tables of all views, on all workers of this process.
#[derive(Debug, Default)]
pub struct Inputs {
    /// What was loaded is as of this tick.
    tick: Tick,
    loaded: Mutex<BTreeMap<TableId, Vec<InputRow>>>,
    changes: Mutex<BTreeMap<Tick, TableChanges>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inputs {
    /// With what there was at a tick.
    pub fn new(tick: Tick, loaded: BTreeMap<TableId, Vec<InputRow>>) -> Inputs {
        Inputs { tick, loaded: Mutex::new(loaded), changes: Mutex::default() }
    }

    /// The tick of what was loaded.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// A table's rows that are one worker's; each is given out once.
    pub fn take(&self, table: &TableId, mut is_ours: impl FnMut(&InputRow) -> bool) -> Vec<InputRow> {
        let mut loaded = lock(&self.loaded);
        let Some(rows) = loaded.get_mut(table) else { return Vec::new() };
        let (ours, others) = std::mem::take(rows).into_iter().partition(|row| is_ours(row));
        *rows = others;
        ours
    }

    /// Notes what a tick has changed, at one worker.
    pub fn note(&self, tick: Tick, table: &TableId, made: Vec<InputChange>) {
        if !made.is_empty() {
            lock(&self.changes).entry(tick).or_default().push((table.clone(), made));
        }
    }

    /// Takes out what has changed up to and including a tick that all workers are done with, in order.
    pub fn changes_until(&self, tick: Tick) -> TableChanges {
        let mut changes = lock(&self.changes);
        let later = changes.split_off(&(tick + 1));
        std::mem::replace(&mut *changes, later).into_values().flatten().collect()
    }
}
