//! What views' tables hold, so that a restart loads it instead of copying the tables anew.
//!
//! The operators that take a table's rows in ([`crate::render`]) note each tick's net changes here. The runtime takes those of all ticks up to
//! a checkpoint's out and makes them durable with it; at a start it hands back what there was, as of the checkpoint's
//! tick, and the rows enter the dataflow once more, at that tick. What views say of it is what they had said then, so no target is told again: each
//! has committed that tick.
//!
//! *While a table is copied anew* views are silent ([`crate::voice`]), and targets have what views said in front of that. A start in the middle of
//! it gets the rows as of then too, as `said`: they enter first, at a tick of which targets have all, and behind them, at the checkpoint's tick, what
//! has changed since. So views hold what they have not said yet, as they did before the start.
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

/// Rows by table.
pub type Held = BTreeMap<TableId, Vec<InputRow>>;

/// The tables of all views, on all workers of this process.
#[derive(Debug, Default)]
pub struct Inputs {
    /// What was loaded is as of this tick.
    tick: Tick,
    /// Targets have what views say of what was loaded up to and at this tick.
    known: Option<Tick>,
    loaded: Mutex<Held>,
    said: Mutex<Held>,
    changes: Mutex<BTreeMap<Tick, TableChanges>>,
}

fn taken(from: &Mutex<Held>, table: &TableId, mut is_ours: impl FnMut(&InputRow) -> bool) -> Vec<InputRow> {
    let mut held = lock(from);
    let Some(rows) = held.get_mut(table) else { return Vec::new() };
    let (ours, others) = std::mem::take(rows).into_iter().partition(|row| is_ours(row));
    *rows = others;
    ours
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inputs {
    /// With what there was at a tick. `are_silent`: views have not spoken then.
    pub fn new(tick: Tick, loaded: Held, are_silent: bool) -> Inputs {
        let known = (!are_silent).then_some(tick);
        Inputs { tick, known, loaded: Mutex::new(loaded), ..Inputs::default() }
    }

    /// With what there was at a tick, from 1 on, at which tables are being copied anew, and what there was in front of that.
    pub fn hushed(tick: Tick, loaded: Held, said: Held) -> Inputs {
        Inputs { said: Mutex::new(said), known: tick.checked_sub(1), ..Inputs::new(tick, loaded, true) }
    }

    /// The tick of what was loaded.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// Targets have what views say up to and at this tick of what was loaded.
    pub fn known(&self) -> Option<Tick> {
        self.known
    }

    /// The tick at which rows enter: all of them, or those that were there when views fell silent.
    pub fn enter(&self) -> Tick {
        match self.known {
            Some(known) if known < self.tick => known,
            _ => self.tick.max(1),
        }
    }

    /// A table's rows that are one worker's; each is given out once.
    pub fn take(&self, table: &TableId, is_ours: impl FnMut(&InputRow) -> bool) -> Vec<InputRow> {
        taken(&self.loaded, table, is_ours)
    }

    /// The same of those that were there when views fell silent; `None`: they are not silent, or have not spoken yet.
    pub fn take_said(
        &self,
        table: &TableId,
        is_ours: impl FnMut(&InputRow) -> bool,
    ) -> Option<Vec<InputRow>> {
        self.known.is_some_and(|known| known < self.tick).then(|| taken(&self.said, table, is_ours))
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
