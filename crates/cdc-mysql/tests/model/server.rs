//! The simulated server: a log of transactions over a table of three keys and two columns, and what a SELECT
//! sees when some of them are committed.

use cdc_core::{Row, Value};
use std::fmt;

/// The columns `a` and `b`; every value is unique to its transaction.
pub type Columns = [u8; 2];

pub const KEYS: u8 = 3;

/// A table: per key 17 bits, one that says that the row is there and two columns.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Table(pub u64);

impl Table {
    pub fn of(rows: [Option<Columns>; KEYS as usize]) -> Table {
        let mut table = Table::default();
        for (key, row) in (0..KEYS).zip(rows) {
            table.set(key, row);
        }
        table
    }
    pub fn get(self, key: u8) -> Option<Columns> {
        let bits = self.0 >> (17 * u32::from(key));
        (bits & 1 == 1).then_some([(bits >> 1) as u8, (bits >> 9) as u8])
    }
    pub fn set(&mut self, key: u8, row: Option<Columns>) {
        let shift = 17 * u32::from(key);
        self.0 &= !(0x1_ffff << shift);
        if let Some([a, b]) = row {
            self.0 |= (1 | u64::from(a) << 1 | u64::from(b) << 9) << shift;
        }
    }
    /// The rows of some keys only.
    pub fn only(self, keys: u8) -> Table {
        let mut table = self;
        for key in (0..KEYS).filter(|k| keys >> k & 1 == 0) {
            table.set(key, None);
        }
        table
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for key in 0..KEYS {
            if let Some([a, b]) = self.get(key) {
                write!(f, " k{key}=({a},{b})")?;
            }
        }
        f.write_str(" }")
    }
}

/// A row event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The row of this key is this: an insert, or an update with a full image.
    Put(u8, Columns),
    /// One column of the key's row is this (MINIMAL).
    Set(u8, u8, u8),
    Delete(u8),
    /// The row of the first key is now that of the second; the image has the keys only (MINIMAL).
    Move(u8, u8),
    /// `a = 3 a + value`: as little idempotent as a JSON diff of an array.
    Diff(u8, u8),
}

impl Event {
    pub fn keys(self) -> u8 {
        match self {
            Event::Put(k, _) | Event::Set(k, _, _) | Event::Delete(k) | Event::Diff(k, _) => 1 << k,
            Event::Move(from, to) => 1 << from | 1 << to,
        }
    }
    pub fn apply(self, table: &mut Table) {
        match self {
            Event::Put(key, row) => table.set(key, Some(row)),
            Event::Set(key, column, value) => {
                if let Some(mut row) = table.get(key) {
                    row[usize::from(column)] = value;
                    table.set(key, Some(row));
                }
            }
            Event::Delete(key) => table.set(key, None),
            Event::Diff(key, value) => {
                if let Some([a, b]) = table.get(key) {
                    table.set(key, Some([((u32::from(a) * 3 + u32::from(value)) % 251) as u8, b]));
                }
            }
            Event::Move(from, to) => {
                if let row @ Some(_) = table.get(from) {
                    table.set(from, None);
                    table.set(to, row);
                }
            }
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Event::Put(k, [a, b]) => write!(f, "put k{k}=({a},{b})"),
            Event::Set(k, c, v) => write!(f, "set k{k}.{}={v}", if c == 0 { 'a' } else { 'b' }),
            Event::Delete(k) => write!(f, "delete k{k}"),
            Event::Move(from, to) => write!(f, "move k{from} to k{to} (image: keys only)"),
            Event::Diff(k, v) => write!(f, "diff k{k}.a=3a+{v}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plain,
    XaPrepare,
    /// With the place in the log of the PREPARE.
    XaCommit(u8),
    XaRollback(u8),
    Truncate,
}

/// What the log holds of one transaction.
#[derive(Clone)]
pub struct Transaction {
    pub kind: Kind,
    pub events: Vec<Event>,
    /// Locked from its append (XA: from its PREPARE) to its engine commit.
    pub keys: u8,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Plain => write!(f, "{:?}", self.events),
            Kind::XaPrepare => write!(f, "[XA PREPARE {:?}]", self.events),
            Kind::XaCommit(p) => write!(f, "[XA COMMIT of t{p}]"),
            Kind::XaRollback(p) => write!(f, "[XA ROLLBACK of t{p}]"),
            Kind::Truncate => write!(f, "[TRUNCATE]"),
        }
    }
}

impl Transaction {
    fn new(kind: Kind, events: Vec<Event>) -> Transaction {
        let keys = events.iter().fold(0, |all, event| all | event.keys());
        Transaction { kind, events, keys: if kind == Kind::Truncate { (1 << KEYS) - 1 } else { keys } }
    }
    fn apply(&self, table: &mut Table) {
        match self.kind {
            Kind::Plain | Kind::XaCommit(_) => self.events.iter().for_each(|event| event.apply(table)),
            Kind::Truncate => *table = Table::default(),
            Kind::XaPrepare | Kind::XaRollback(_) => {}
        }
    }
}

/// What the table holds at first, and all that will ever be in the log.
#[derive(Clone)]
pub struct History {
    pub first: Table,
    pub log: Vec<Transaction>,
    /// The source at each position of the log.
    pub at: Vec<Table>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source at first {:?}; log:", self.first)?;
        self.log.iter().enumerate().try_for_each(|(i, t)| write!(f, " t{i}{t:?}"))
    }
}

impl History {
    fn new(first: Table, log: Vec<Transaction>) -> History {
        let mut at = vec![first];
        let mut table = first;
        for transaction in &log {
            transaction.apply(&mut table);
            at.push(table);
        }
        History { first, log, at }
    }
    /// What a SELECT sees when these are committed in the engine. Row locks order those that share keys.
    pub fn visible(&self, committed: u16) -> Table {
        let mut table = self.first;
        for (i, transaction) in self.log.iter().enumerate() {
            if committed >> i & 1 == 1 {
                transaction.apply(&mut table);
            }
        }
        table
    }
    /// The oldest XA branch that is prepared but not ended within these transactions.
    pub fn open_branch(&self, within: u16) -> Option<u8> {
        let held = |i: usize| within >> i & 1 == 1;
        (0..self.log.len()).find_map(|i| {
            let ends = |kind| matches!(kind, Kind::XaCommit(p) | Kind::XaRollback(p) if usize::from(p) == i);
            let open = self.log[i].kind == Kind::XaPrepare
                && held(i)
                && !self.log.iter().position(|t| ends(t.kind)).is_some_and(held);
            open.then_some(i as u8)
        })
    }
}

/// What histories are made of.
#[derive(Clone, Copy)]
pub struct Features {
    /// The keys that change, as a mask.
    pub keys: u8,
    /// Partial images.
    pub minimal: bool,
    pub diff: bool,
    pub xa: bool,
    pub truncate: bool,
    /// Transactions of two events.
    pub pairs: bool,
    /// Delete and insert again, the second column, XA ROLLBACK.
    pub more: bool,
    pub no_moves: bool,
}

fn single_events(table: Table, i: usize, f: Features, locked: u8) -> Vec<Vec<Event>> {
    let new = [(10 * (i + 1)) as u8, (10 * (i + 1) + 1) as u8];
    let mut all = Vec::new();
    let may = |k: &u8| f.keys >> k & 1 == 1 && locked >> k & 1 == 0;
    for k in (0..KEYS).filter(may) {
        let Some(row) = table.get(k) else {
            all.push(vec![Event::Put(k, new)]);
            continue;
        };
        if f.minimal {
            all.push(vec![Event::Set(k, 0, new[0])]);
            if f.more {
                all.push(vec![Event::Set(k, 1, new[1])]);
            }
        } else {
            all.push(vec![Event::Put(k, [new[0], row[1]])]);
        }
        if f.diff {
            all.push(vec![Event::Diff(k, (i + 1) as u8)]);
        }
        all.push(vec![Event::Delete(k)]);
        if f.more {
            all.push(vec![Event::Delete(k), Event::Put(k, new)]);
        }
        let free = |to: &u8| *to != k && table.get(*to).is_none() && may(to);
        for to in (0..KEYS).filter(free).filter(|_| !f.no_moves) {
            all.push(if f.minimal {
                vec![Event::Move(k, to)]
            } else {
                vec![Event::Delete(k), Event::Put(to, [new[0], row[1]])]
            });
        }
    }
    all
}

fn events(table: Table, i: usize, f: Features, locked: u8) -> Vec<Vec<Event>> {
    let mut all = single_events(table, i, f, locked);
    if f.pairs {
        for first in all.clone().iter().filter(|e| e.len() == 1) {
            let mut after = table;
            first[0].apply(&mut after);
            for second in single_events(after, i, f, locked).iter().filter(|e| e.len() == 1) {
                // twice the same: its values would not be unique
                if std::mem::discriminant(&first[0]) != std::mem::discriminant(&second[0])
                    || first[0].keys() != second[0].keys()
                {
                    all.push(vec![first[0], second[0]]);
                }
            }
        }
    }
    all
}

fn next(log: &[Transaction], table: Table, left: usize, f: Features) -> Vec<Transaction> {
    let mut open: Vec<usize> = Vec::new();
    for (j, transaction) in log.iter().enumerate() {
        match transaction.kind {
            Kind::XaPrepare => open.push(j),
            Kind::XaCommit(p) | Kind::XaRollback(p) => open.retain(|j| *j != usize::from(p)),
            Kind::Plain | Kind::Truncate => {}
        }
    }
    let locked = open.iter().fold(0, |all, &j| all | log[j].keys);
    let mut all = Vec::new();
    for &j in &open {
        let keys = log[j].keys;
        all.push(Transaction { kind: Kind::XaCommit(j as u8), events: log[j].events.clone(), keys });
        if f.more {
            all.push(Transaction { kind: Kind::XaRollback(j as u8), events: Vec::new(), keys });
        }
    }
    if left > open.len() {
        for events in events(table, log.len(), f, locked) {
            if f.xa && left > open.len() + 1 {
                all.push(Transaction::new(Kind::XaPrepare, events.clone()));
            }
            all.push(Transaction::new(Kind::Plain, events));
        }
        if f.truncate && open.is_empty() {
            all.push(Transaction::new(Kind::Truncate, Vec::new()));
        }
    }
    all
}

/// All histories of a length, from two first tables; with XA only those that have some.
pub fn histories(length: usize, f: Features) -> Vec<History> {
    let mut all = Vec::new();
    for first in [[Some([1, 2]), None, Some([5, 6])], [None, Some([3, 4]), None]].map(Table::of) {
        let mut stack = vec![(Vec::new(), first)];
        while let Some((log, table)) = stack.pop() {
            if log.len() == length {
                all.push(History::new(first, log));
                continue;
            }
            for transaction in next(&log, table, length - log.len(), f) {
                let mut after = table;
                transaction.apply(&mut after);
                let mut log = log.clone();
                log.push(transaction);
                stack.push((log, after));
            }
        }
    }
    if f.xa && length > 1 {
        all.retain(|h| h.log.iter().any(|t| t.kind == Kind::XaPrepare));
    }
    all
}

/// xorshift64.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as usize
    }
    /// An index, each as often as its weight says.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum());
        weights
            .iter()
            .position(|w| {
                let here = at < *w;
                at = at.wrapping_sub(*w);
                here
            })
            .expect("a sum of weights above the number drawn")
    }
}

pub fn random_history(random: &mut Random, length: usize, f: Features) -> History {
    let mut rows = [None; KEYS as usize];
    for (k, row) in rows.iter_mut().enumerate() {
        if random.below(2) == 0 {
            *row = Some([(1 + 2 * k) as u8, (2 + 2 * k) as u8]);
        }
    }
    let first = Table::of(rows);
    let mut table = first;
    let mut log: Vec<Transaction> = Vec::new();
    while log.len() < length {
        let mut all = next(&log, table, length - log.len(), f);
        let weights: Vec<usize> = all
            .iter()
            .map(|t| match t.kind {
                Kind::Plain => 3,
                Kind::XaPrepare => 1,
                Kind::Truncate => 2 + all.len() / 8,
                Kind::XaCommit(_) | Kind::XaRollback(_) => 1 + all.len() / 3,
            })
            .collect();
        let transaction = all.swap_remove(random.weighted(&weights));
        transaction.apply(&mut table);
        log.push(transaction);
    }
    History::new(first, log)
}

/// The key as a packed row.
pub fn key_row(key: u8) -> Row {
    Row::pack([Value::Int(i64::from(key))])
}

pub fn key_of(row: &Row) -> u8 {
    match row.get(0) {
        Value::Int(key) => key as u8,
        other => panic!("a key of {other}"),
    }
}

/// The row as the chunk's SELECT gives it.
pub fn full_row(key: u8, [a, b]: Columns) -> Row {
    Row::pack([key, a, b].map(|v| Value::Int(i64::from(v))))
}

/// One column's new value, the others absent.
pub fn partial_row(column: u8, value: u8) -> Row {
    let value = Value::Int(i64::from(value));
    Row::pack(if column == 0 {
        [Value::Absent, value, Value::Absent]
    } else {
        [Value::Absent, Value::Absent, value]
    })
}

pub fn columns_of(row: &Row) -> (u8, Columns) {
    assert_eq!(row.len(), 3, "a row of three columns");
    let mut values = row.iter().map(|v| match v {
        Value::Int(v) => v as u8,
        other => panic!("a row was given out with {other}"),
    });
    let mut take = || values.next().expect("three values");
    (take(), [take(), take()])
}
