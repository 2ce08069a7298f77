//! What the operators of views have seen and hold, by the names that `cdc explain` shows, for status lines and whoever asks.
//!
//! Workers write, whoever shows a run reads; what is read is a moment that never was as a whole, and every number of it is right
//! once the workers are idle. Workers add what they have seen once per turn, not per record.
//!
//! *Bytes* are those of packed rows and of keys that an operator holds. A row that several operators hold lies in memory once and
//! counts in each of them; what maps and arrangements need beside their rows is not counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What an operator has seen, on all workers, since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Changes that came in; of a join those of both sides.
    pub records_in: i64,
    /// Changes that went out.
    pub records_out: i64,
    /// Rows held; of an aggregate its groups. Of a table without key each row as often as it is there.
    pub state_rows: i64,
    /// Bytes of rows and keys held.
    pub state_bytes: i64,
    /// Keys of which not exactly one row was there, each time they were looked at.
    pub conflicts: i64,
}

/// One operator's numbers.
#[derive(Debug, Default)]
pub struct Operator([AtomicI64; 5]);

impl Operator {
    /// Adds what a worker has seen since it said so last; what is held may have become less.
    pub fn add(&self, seen: Seen) {
        let Seen { records_in, records_out, state_rows, state_bytes, conflicts } = seen;
        for (number, more) in self.0.iter().zip([records_in, records_out, state_rows, state_bytes, conflicts])
        {
            if more != 0 {
                number.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    fn seen(&self) -> Seen {
        let [records_in, records_out, state_rows, state_bytes, conflicts] =
            [0, 1, 2, 3, 4].map(|i| self.0[i].load(Ordering::Relaxed));
        Seen { records_in, records_out, state_rows, state_bytes, conflicts }
    }
}

/// All operators that count, by name.
#[derive(Debug, Default)]
pub struct Operators(Mutex<BTreeMap<String, Arc<Operator>>>);

impl Operators {
    /// The numbers of one; the same ones for every worker that asks.
    pub fn of(&self, name: &str) -> Arc<Operator> {
        let mut operators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        operators.entry(name.to_owned()).or_default().clone()
    }

    /// What each has seen.
    pub fn seen(&self) -> BTreeMap<String, Seen> {
        let operators = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        operators.iter().map(|(name, operator)| (name.clone(), operator.seen())).collect()
    }
}
