//! The decisions of the snapshot, pure: what is noted, what may be forgotten, when a low watermark is good,
//! what becomes of a chunk's rows. See [`crate::snapshot`] for the proof.
//!
//! Generic over transactions and sets of them, so that the model test drives this very code with a
//! simulated server: the real ones are [`Mark`](super::watermark::Mark) and
//! [`Watermark`](super::watermark::Watermark).

use cdc_core::row::Row;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};

/// A set of transactions: what a watermark is.
pub trait TransactionSet<T>: Clone + Default {
    /// Is the transaction in it?
    fn holds(&self, transaction: &T) -> bool;
    /// Are all of the other's in it?
    fn holds_all(&self, other: &Self) -> bool;
    /// Adds one.
    fn add(&mut self, transaction: &T);
    /// Adds all of the other's.
    fn add_all(&mut self, other: &Self);
}

/// A table, by number.
pub type TableNumber = u32;

/// A chunk in flight. Numbers are never used twice, so a dropped chunk's late answers are known by theirs.
pub type ChunkNumber = u64;

/// What the log has said of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Known<T> {
    /// All of it.
    Whole,
    /// It is gone.
    Deleted,
    /// Some columns: the others are absent in `columns`.
    Partly {
        /// The columns that are known.
        columns: Row,
        /// A transaction whose effect on the row cannot be laid over a row that was read before it: a row moved
        /// here by an image without all its columns, a JSON diff. Until a SELECT that saw it, the row is unknown.
        base: Option<T>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Touch<T> {
    transaction: T,
    known: Known<T>,
}

#[derive(Debug, Clone, Hash)]
struct InFlight<W> {
    table: TableNumber,
    /// For a small chunk: the key it reads.
    key: Option<Row>,
    low: Option<W>,
}

/// What a row event says of a row, by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowEvent {
    /// The row of this key is this, wholly known: an insert, or an update with a full image.
    Whole {
        /// The key.
        key: Row,
    },
    /// Some columns of the key's row changed; the others are absent.
    Partly {
        /// The key.
        key: Row,
        /// The columns.
        columns: Row,
    },
    /// The key's row was changed by a difference that needs the row before (a JSON diff), which the target applies.
    Diff {
        /// The key.
        key: Row,
    },
    /// The key's row has changed in a way that neither we nor the target know: it is read again, whatever the log has
    /// said of it before.
    Lost {
        /// The key.
        key: Row,
    },
    /// The key's row is gone.
    Deleted {
        /// The key.
        key: Row,
    },
    /// The row of one key is now that of another, and the image does not hold all its columns.
    Moved {
        /// The old key.
        from: Row,
        /// The new key.
        to: Row,
    },
}

impl RowEvent {
    fn keys(&self) -> impl Iterator<Item = &Row> {
        let (first, second) = match self {
            RowEvent::Whole { key }
            | RowEvent::Partly { key, .. }
            | RowEvent::Diff { key }
            | RowEvent::Lost { key }
            | RowEvent::Deleted { key } => (key, None),
            RowEvent::Moved { from, to } => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }

    fn columns_len(&self) -> usize {
        match self {
            RowEvent::Partly { columns, .. } => columns.as_bytes().len(),
            _ => 0,
        }
    }
}

/// Why a low watermark is not good yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotYet {
    /// A transaction that was given out and forgotten is not visible yet.
    Forgotten,
    /// The transaction behind a small chunk's unknown key is not visible yet.
    Base,
    /// There is no such chunk any more.
    Dropped,
}

/// A chunk, mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mended {
    /// These rows are to be given out, in order; these keys are to be read as small chunks.
    Rows {
        /// With overlays laid.
        rows: Vec<Row>,
        /// Of rows that are unknown.
        again: Vec<Row>,
    },
    /// Throw it away and read its range again.
    Void,
    /// It was dropped before.
    Dropped,
}

/// The state of the algorithm for all tables that are not whole.
#[derive(Debug, Clone)]
pub struct Reconciler<T, W, S = foldhash::fast::FixedState> {
    touched: HashMap<TableNumber, HashMap<Row, Touch<T>, S>>,
    /// DDL and TRUNCATE, forgotten as the rows are: one may be in the log, read, and not yet in a low watermark,
    /// when a chunk is announced.
    ddl: HashMap<TableNumber, Vec<T>>,
    in_flight: BTreeMap<ChunkNumber, InFlight<W>>,
    next_chunk: ChunkNumber,
    /// A lower bound of all low watermarks to come: the last `gtid_executed` that was read.
    executed: W,
    /// Given out before the start, so not in touched: what every low watermark must hold.
    forgotten: W,
    /// Entries of touched at which the next sweep is worth its time.
    sweep_at: usize,
    /// What touched takes, about.
    bytes: usize,
}

impl<T: Clone + Eq + Hash, W: TransactionSet<T>, S: BuildHasher + Default> Default for Reconciler<T, W, S> {
    fn default() -> Self {
        Self::new(W::default())
    }
}

/// By what is decided on: not the order of entries, nor the numbers of chunks.
impl<T: Hash, W: Hash, S: BuildHasher + Default> Hash for Reconciler<T, W, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let one = S::default();
        let rows = self.touched.iter().flat_map(|(table, rows)| rows.iter().map(move |row| (table, row)));
        let touched = rows.map(|row| one.hash_one(row)).fold(0, u64::wrapping_add);
        let in_flight = self.in_flight.values().map(|c| one.hash_one(c)).fold(0, u64::wrapping_add);
        let ddl = self.ddl.iter().filter(|(_, ddl)| !ddl.is_empty());
        let ddl = ddl.map(|ddl| one.hash_one(ddl)).fold(0, u64::wrapping_add);
        (touched, ddl, in_flight, &self.executed, &self.forgotten).hash(state);
    }
}

const SWEEP_MIN: usize = 4096;

/// What an entry of touched takes beside the bytes of its key: two allocations and a place in the map.
const ENTRY: usize = 160;

impl<T: Clone + Eq + Hash, W: TransactionSet<T>, S: BuildHasher + Default> Reconciler<T, W, S> {
    /// For a start or a restart: `given_out` counts as given out and forgotten.
    pub fn new(given_out: W) -> Self {
        Reconciler {
            touched: HashMap::new(),
            ddl: HashMap::new(),
            in_flight: BTreeMap::new(),
            next_chunk: 0,
            executed: W::default(),
            forgotten: given_out,
            sweep_at: SWEEP_MIN,
            bytes: 0,
        }
    }

    /// Notes what the log says of rows of a table that is not whole. Events must come in log order, and an XA
    /// transaction's at its commit. Gives the key that is to be queued as a small chunk of its own, if one is.
    pub fn touch(&mut self, table: TableNumber, transaction: &T, event: RowEvent) -> Option<Row> {
        // an entry that is there already is counted again: the next sweep puts it right
        self.bytes += event.keys().map(|k| k.as_bytes().len() + ENTRY).sum::<usize>() + event.columns_len();
        let touched = self.touched.entry(table).or_default();
        let mut set = |key: Row, known: Known<T>| {
            touched.insert(key, Touch { transaction: transaction.clone(), known });
        };
        match event {
            RowEvent::Whole { key } => set(key, Known::Whole),
            RowEvent::Deleted { key } => set(key, Known::Deleted),
            RowEvent::Partly { key, columns } => {
                let known = match touched.get(&key).map(|t| &t.known) {
                    Some(Known::Whole) => Known::Whole,
                    Some(Known::Partly { columns: before, base }) => {
                        Known::Partly { columns: overlay(before, &columns), base: base.clone() }
                    }
                    Some(Known::Deleted) | None => Known::Partly { columns, base: None },
                };
                touched.insert(key, Touch { transaction: transaction.clone(), known });
            }
            RowEvent::Diff { key } => {
                // what was known of columns before it is not laid over a row that has seen it: it may be older
                let known = match touched.get(&key).map(|t| &t.known) {
                    Some(Known::Whole) => Known::Whole,
                    Some(Known::Partly { .. } | Known::Deleted) | None => {
                        Known::Partly { columns: Row::pack([]), base: Some(transaction.clone()) }
                    }
                };
                touched.insert(key, Touch { transaction: transaction.clone(), known });
            }
            RowEvent::Lost { key } => {
                let base = Some(transaction.clone());
                set(key.clone(), Known::Partly { columns: Row::pack([]), base });
                // the caller queues it as a small chunk
                return Some(key);
            }
            RowEvent::Moved { from, to } => {
                set(from, Known::Deleted);
                let base = Some(transaction.clone());
                set(to.clone(), Known::Partly { columns: Row::pack([]), base });
                // the caller queues it as a small chunk
                return Some(to);
            }
        }
        None
    }

    /// These too count as given out and forgotten: every low watermark to come must hold them.
    pub fn given_out(&mut self, more: &W) {
        self.forgotten.add_all(more);
    }

    /// Notes a DDL or TRUNCATE of a table.
    pub fn ddl(&mut self, table: TableNumber, transaction: &T) {
        self.ddl.entry(table).or_default().push(transaction.clone());
    }

    /// Announces a chunk; `key` for a small one. From here to its low watermark nothing is forgotten.
    pub fn announce(&mut self, table: TableNumber, key: Option<Row>) -> ChunkNumber {
        let number = self.next_chunk;
        self.next_chunk += 1;
        self.in_flight.insert(number, InFlight { table, key, low: None });
        number
    }

    /// Is this low watermark good for the chunk? If so it is the chunk's, and the SELECT may begin.
    ///
    /// # Errors
    /// Why it is not, yet: ask the server again.
    pub fn low_watermark(&mut self, chunk: ChunkNumber, low: &W) -> Result<(), NotYet> {
        let entry = self.in_flight.get(&chunk).ok_or(NotYet::Dropped)?;
        if !low.holds_all(&self.forgotten) {
            return Err(NotYet::Forgotten);
        }
        if let Some(key) = &entry.key
            && let Some(Touch { known: Known::Partly { base: Some(base), .. }, .. }) =
                self.touched.get(&entry.table).and_then(|t| t.get(key))
            && !low.holds(base)
        {
            return Err(NotYet::Base);
        }
        if let Some(entry) = self.in_flight.get_mut(&chunk) {
            entry.low = Some(low.clone());
        }
        self.executed(low);
        Ok(())
    }

    /// Takes note of a `gtid_executed` that was read: later ones hold at least as much.
    pub fn executed(&mut self, executed: &W) {
        self.executed.add_all(executed);
        if self.len() >= self.sweep_at {
            // one that had to wait is tried again with the next set
            if self.sweep() {
                self.sweep_at = (2 * self.len()).max(SWEEP_MIN);
            }
        }
    }

    /// Forgets what may be forgotten: entries whose transaction is in the low watermark of every chunk in
    /// flight and in the last `gtid_executed`. Nothing, and false, while a chunk waits for its low watermark.
    pub fn sweep(&mut self) -> bool {
        let mut lows = Vec::with_capacity(self.in_flight.len() + 1);
        for chunk in self.in_flight.values() {
            match &chunk.low {
                Some(low) => lows.push(low),
                None => return false,
            }
        }
        let executed = &self.executed;
        let needed = |t: &T| !(executed.holds(t) && lows.iter().all(|low| low.holds(t)));
        for touched in self.touched.values_mut() {
            touched.retain(|_, touch| needed(&touch.transaction));
        }
        for ddl in self.ddl.values_mut() {
            ddl.retain(needed);
        }
        self.count_bytes();
        // What went is in `executed`, which was read before any chunk to come is announced, so every low
        // watermark to come holds it: it need not be noted in `forgotten`. (`forgotten` itself is never shortened:
        // a low watermark that was read before `executed` may arrive after it.)
        true
    }

    /// Mends a chunk whose high watermark the log reader has reached: `rows` with their keys, as selected.
    /// The chunk is no longer in flight afterwards.
    pub fn mend(&mut self, chunk: ChunkNumber, rows: Vec<(Row, Row)>) -> Mended {
        let Some(entry) = self.in_flight.remove(&chunk) else { return Mended::Dropped };
        let Some(low) = entry.low else { return Mended::Void };
        if self.ddl.get(&entry.table).is_some_and(|ddl| ddl.iter().any(|t| !low.holds(t))) {
            return Mended::Void;
        }
        let empty = HashMap::default();
        let touched = self.touched.get(&entry.table).unwrap_or(&empty);
        let unknown = |touch: &Touch<T>| match &touch.known {
            Known::Partly { base: Some(base), .. } => !low.holds(&touch.transaction) && !low.holds(base),
            _ => false,
        };
        // a small chunk whose key became unknown again since its low watermark
        if let Some(key) = &entry.key
            && touched.get(key).is_some_and(unknown)
        {
            return Mended::Void;
        }
        if touched.is_empty() {
            return Mended::Rows { rows: rows.into_iter().map(|(_, row)| row).collect(), again: Vec::new() };
        }
        let mut out = Vec::with_capacity(rows.len());
        let mut again = Vec::new();
        for (key, row) in rows {
            match touched.get(&key) {
                None => out.push(row),
                Some(touch) if low.holds(&touch.transaction) => out.push(row),
                Some(touch) => match &touch.known {
                    Known::Whole | Known::Deleted => {}
                    Known::Partly { .. } if unknown(touch) => again.push(key),
                    Known::Partly { columns, .. } => out.push(overlay(&row, columns)),
                },
            }
        }
        Mended::Rows { rows: out, again }
    }

    /// Drops a chunk in flight: its answers will find [`NotYet::Dropped`] and [`Mended::Dropped`].
    pub fn drop_chunk(&mut self, chunk: ChunkNumber) {
        self.in_flight.remove(&chunk);
    }

    /// Drops what is known of a table: it is whole, or its copy begins anew.
    pub fn forget_table(&mut self, table: TableNumber) {
        self.touched.remove(&table);
        self.ddl.remove(&table);
        self.in_flight.retain(|_, chunk| chunk.table != table);
        self.count_bytes();
    }

    /// Counts anew what [`Reconciler::bytes`] tells.
    pub fn count_bytes(&mut self) {
        let columns = |touch: &Touch<T>| match &touch.known {
            Known::Partly { columns, .. } => columns.as_bytes().len(),
            Known::Whole | Known::Deleted => 0,
        };
        self.bytes = self
            .touched
            .values()
            .flatten()
            .map(|(key, touch)| key.as_bytes().len() + ENTRY + columns(touch))
            .sum();
    }

    /// The bytes that touched takes, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entries of touched.
    pub fn len(&self) -> usize {
        self.touched.values().map(HashMap::len).sum()
    }

    /// True if touched has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `over` laid over `row`: where `over` has a value it counts. An `over` of no columns says nothing.
fn overlay(row: &Row, over: &Row) -> Row {
    match (row.is_empty(), over.is_empty()) {
        (_, true) => row.clone(),
        (true, false) => over.clone(),
        (false, false) => row.overlaid(over),
    }
}
