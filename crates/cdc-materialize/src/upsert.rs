//! Changelogs to rows, whatever the order in which they come.
//!
//! # The problem
//! A changelog (+I insert, -U update-before, +U update-after, -D delete) that went through a join or was spread over workers
//! reaches a writer out of order. Written by key in the order of arrival it loses rows: of `+I(10) +U(11) -U(10)` the row goes.
//!
//! # Why this is right
//! A changelog is a multiset of `(key, row, time, +n | -n)`. Addition commutes, so what is there at a *closed* time, one of which nothing more
//! can come, is the same for every order of arrival and every division over workers. [`Upserts`] holds what is alive per key and looks at
//! a key when its time is closed: none is alive: the key is gone; one, once: that is the row; anything else (more than one
//! row, one more than once, one less than never) is a *conflict*, and the [`Policy`] says what becomes of it: by what the rows
//! are, never by which came first. What goes out is the difference to what went out before: one change per key and time at most, none where
//! nothing changed.
//!
//! Nothing of the past is kept: a row that is gone has no entry. The example `upsert_materializer` uses it by itself.
//!
//! ```
//! use cdc_materialize::upsert::{Policy, Upserts};
//!
//! let mut upserts = Upserts::new(Policy::Error);
//! // +I(10) +U(11) -U(10): the order that loses the row
//! for (row, times) in [(10, 1), (11, 1), (10, -1)] {
//!     upserts.change("key", row, 1, times);
//! }
//! let changes = upserts.close(1).unwrap();
//! assert_eq!(changes.len(), 1);
//! assert_eq!((changes[0].before, changes[0].after), (None, Some(11)));
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};

/// What to do about a key of which not exactly one row is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// It is an error.
    #[default]
    Error,
    /// The greatest of the rows that are alive stands for them: by their own order, or by what is named beside them ([`Ranked`]).
    Last,
    /// As `Last`, and the conflict is told.
    Log,
}

/// A row with what tells which of several of a key is the last one: a time of change, a pair of a log's position and an ordinal. Rows that are equal in that are
/// told apart by themselves, so the choice hangs on nothing but what is there.
///
/// ```
/// use cdc_materialize::upsert::{Policy, Ranked, Upserts};
///
/// let mut upserts = Upserts::new(Policy::Last);
/// upserts.change("key", Ranked { by: 2, row: "a" }, 1, 1);
/// upserts.change("key", Ranked { by: 1, row: "b" }, 1, 1);
/// let changes = upserts.close(1).unwrap();
/// assert_eq!(changes[0].after.as_ref().map(|ranked| ranked.row), Some("a"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranked<O, R> {
    /// What is asked first.
    pub by: O,
    /// The row.
    pub row: R,
}

/// The rows of one key that are alive. Nearly always it is one, once, which takes no map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Alive<R> {
    #[default]
    None,
    One(R),
    /// Anything else: a conflict, or what is half said within a time.
    Many(BTreeMap<R, i64>),
}

/// Rows that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict<K, R> {
    /// The key.
    pub key: K,
    /// What is alive of it, with how often.
    pub rows: Vec<(R, i64)>,
}

impl<R: Ord + Clone> Alive<R> {
    /// A row comes (or goes) so many times.
    fn change(&mut self, row: R, times: i64) {
        *self = match (std::mem::take(self), times) {
            (unchanged, 0) => unchanged,
            (Alive::None, 1) => Alive::One(row),
            (Alive::One(one), -1) if one == row => Alive::None,
            (Alive::None, _) => Alive::Many(BTreeMap::from([(row, times)])),
            (Alive::One(one), _) => {
                let mut rows = BTreeMap::from([(one, 1)]);
                *rows.entry(row).or_default() += times;
                Alive::of(rows)
            }
            (Alive::Many(mut rows), _) => {
                *rows.entry(row).or_default() += times;
                Alive::of(rows)
            }
        };
    }

    fn of(mut rows: BTreeMap<R, i64>) -> Alive<R> {
        rows.retain(|_, times| *times != 0);
        match rows.first_key_value() {
            None => Alive::None,
            Some((_, 1)) if rows.len() == 1 => {
                rows.pop_first().map_or(Alive::None, |(row, _)| Alive::One(row))
            }
            Some(_) => Alive::Many(rows),
        }
    }

    /// The row: the greatest that is there.
    fn row(&self) -> Option<&R> {
        match self {
            Alive::None => None,
            Alive::One(row) => Some(row),
            Alive::Many(rows) => rows.iter().rev().find(|(_, times)| **times > 0).map(|(row, _)| row),
        }
    }

    /// All, with how often.
    fn all(&self) -> Vec<(R, i64)> {
        match self {
            Alive::None => Vec::new(),
            Alive::One(row) => vec![(row.clone(), 1)],
            Alive::Many(rows) => rows.iter().map(|(row, times)| (row.clone(), *times)).collect(),
        }
    }
}

/// What has become of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<K, R, T> {
    /// The key.
    pub key: K,
    /// When.
    pub time: T,
    /// Its row before; none: it was not there.
    pub before: Option<R>,
    /// Its row after; none: it is gone.
    pub after: Option<R>,
}

/// What a time has changed, or what it could not.
type Closed<K, R, T> = Result<Vec<Change<K, R, T>>, Conflict<K, R>>;

/// What comes per time, each with its key's hash.
type Open<K, R, T> = BTreeMap<T, Vec<(u64, K, R, i64)>>;

/// Rows by key, from a changelog.
#[derive(Debug)]
pub struct Upserts<K, R, T> {
    policy: Policy,
    keys: HashMap<K, Alive<R>, foldhash::fast::FixedState>,
    open: Open<K, R, T>,
    metrics: Metrics,
    told: Vec<Conflict<K, R>>,
}

/// What an operator has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Entries of the changelog.
    pub records_in: u64,
    /// Changes given out.
    pub records_out: u64,
    /// Keys that hold a row.
    pub state_rows: u64,
    /// Keys with a conflict, each time they were looked at.
    pub conflicts: u64,
}

impl<K: Hash + Eq + Ord + Clone + Debug, R: Ord + Clone + Debug, T: Ord + Copy> Upserts<K, R, T> {
    /// With nothing in it.
    pub fn new(policy: Policy) -> Self {
        Upserts {
            policy,
            keys: HashMap::default(),
            open: BTreeMap::new(),
            metrics: Metrics::default(),
            told: Vec::new(),
        }
    }

    /// An entry of the changelog: `times` is +1 for +I and +U, -1 for -U and -D.
    pub fn change(&mut self, key: K, row: R, time: T, times: i64) {
        self.metrics.records_in += 1;
        let hash = self.keys.hasher().hash_one(&key);
        self.open.entry(time).or_default().push((hash, key, row, times));
    }

    /// Nothing more comes of this time and those before it. Gives what has changed, in the order of the times, of each first what goes;
    /// of one time the same order whatever order it came in, but not that of the keys.
    ///
    /// # Errors
    /// Under [`Policy::Error`] the first conflict; what was closed with it has not changed anything then but is lost.
    pub fn close(&mut self, time: T) -> Closed<K, R, T> {
        let mut out = Vec::new();
        while let Some(entry) = self.open.first_entry()
            && *entry.key() <= time
        {
            let (time, changes) = entry.remove_entry();
            // What is of one key together, and of it first what goes: then there is hardly ever more than one row. By hash, and with their
            // places instead of themselves, because numbers are compared and moved faster than keys and rows.
            let mut places: Vec<(u64, i64, usize)> =
                changes.iter().enumerate().map(|(place, (hash, .., times))| (*hash, *times, place)).collect();
            places.sort_unstable();
            let first = out.len();
            // Room for those that are new, which also has what is held of the others fetched: in a loop that does nothing else a processor waits
            // for several of them at a time, and memory is what this operator waits for.
            let same_hash = |(hash, ..): &(u64, i64, usize), (other, ..): &(u64, i64, usize)| hash == other;
            let (hashes, held) = places.chunk_by(same_hash).fold((0, 0), |(hashes, held), of_hash| {
                (hashes + 1, held + usize::from(self.keys.contains_key(&changes[of_hash[0].2].1)))
            });
            self.keys.reserve(hashes - held);
            out.reserve(hashes);
            let mut changes: Vec<Option<(u64, K, R, i64)>> = changes.into_iter().map(Some).collect();
            for of_hash in places.chunk_by_mut(same_hash) {
                let key_at = |place: usize| changes[place].as_ref().map(|(_, key, ..)| key);
                // two keys of one hash are in their own order
                if of_hash.iter().any(|(.., place)| key_at(*place) != key_at(of_hash[0].2)) {
                    of_hash.sort_unstable_by(|(_, times, place), (_, other_times, other)| {
                        (key_at(*place), times).cmp(&(key_at(*other), other_times))
                    });
                }
                for (n, (.., place)) in of_hash.iter().enumerate() {
                    // with one of its key in front of it, else
                    let Some((_, key, row, times)) = changes[*place].take() else { continue };
                    let mut fresh = Alive::None;
                    let held = self.keys.get_mut(&key);
                    let is_held = held.is_some();
                    let alive = held.unwrap_or(&mut fresh);
                    // what was given out is what was alive when it was looked at last
                    let before = alive.row().cloned();
                    alive.change(row, times);
                    for (.., later) in &of_hash[n + 1..] {
                        if let Some((.., row, times)) =
                            changes[*later].take_if(|(_, other, ..)| *other == key)
                        {
                            alive.change(row, times);
                        }
                    }
                    if let Alive::Many(_) = alive {
                        self.metrics.conflicts += 1;
                        let conflict = || Conflict { key: key.clone(), rows: alive.all() };
                        match self.policy {
                            Policy::Error => return Err(conflict()),
                            Policy::Last => {}
                            Policy::Log => self.told.push(conflict()),
                        }
                    }
                    let after = alive.row().cloned();
                    match (is_held, matches!(alive, Alive::None)) {
                        (true, true) => drop(self.keys.remove(&key)),
                        (false, false) => drop(self.keys.insert(key.clone(), fresh)),
                        _ => {}
                    }
                    if after != before {
                        out.push(Change { key, time, before, after });
                    }
                }
            }
            // a key that the target takes for another one's is deleted and written, never the other way round
            out[first..].sort_by_key(|change| change.after.is_some());
        }
        self.metrics.records_out += out.len() as u64;
        self.metrics.state_rows = self.keys.len() as u64;
        Ok(out)
    }

    /// Conflicts that are to be told, since the last time.
    pub fn told(&mut self) -> Vec<Conflict<K, R>> {
        std::mem::take(&mut self.told)
    }

    /// What it has seen.
    pub fn metrics(&self) -> Metrics {
        self.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of a changelog: key, row, time, times.
    type Log = Vec<(u8, u8, u8, i64)>;

    fn closed(log: &[(u8, u8, u8, i64)], policy: Policy) -> Closed<u8, u8, u8> {
        let mut upserts = Upserts::new(policy);
        for (key, row, time, times) in log {
            upserts.change(*key, *row, *time, *times);
        }
        upserts.close(u8::MAX)
    }

    /// All orders of a list.
    fn permutations(log: &Log) -> Vec<Log> {
        let Some((last, rest)) = log.split_last() else { return vec![Vec::new()] };
        let mut out = Vec::new();
        for shorter in permutations(&rest.to_vec()) {
            for place in 0..=shorter.len() {
                let mut longer = shorter.clone();
                longer.insert(place, *last);
                out.push(longer);
            }
        }
        out
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }
    }

    /// A history of rows under keys, as its changelog, and what there is at the end of each time.
    fn history(random: &mut Random, steps: u64) -> (Log, BTreeMap<u8, BTreeMap<u8, u8>>) {
        let (mut log, mut now, mut states) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let mut time = 1;
        for _ in 0..steps {
            let key = random.below(3) as u8;
            let row = random.below(4) as u8;
            if let Some(old) = now.remove(&key) {
                log.push((key, old, time, -1));
            }
            if random.below(4) > 0 {
                now.insert(key, row);
                log.push((key, row, time, 1));
            }
            states.insert(time, now.clone());
            time += u8::from(random.below(3) == 0);
        }
        (log, states)
    }

    fn check(log: &[(u8, u8, u8, i64)], states: &BTreeMap<u8, BTreeMap<u8, u8>>) {
        let changes = closed(log, Policy::Error).unwrap();
        let mut now: BTreeMap<u8, u8> = BTreeMap::new();
        let mut by_time: BTreeMap<u8, Vec<&Change<u8, u8, u8>>> = BTreeMap::new();
        changes.iter().for_each(|c| by_time.entry(c.time).or_default().push(c));
        for (time, state) in states {
            let changes = by_time.remove(time).unwrap_or_default();
            let mut seen = Vec::new();
            let mut upserts = false;
            for change in changes {
                assert_ne!(change.before, change.after, "nothing changed: {log:?}");
                assert_eq!(now.get(&change.key).copied(), change.before, "{log:?}");
                assert!(!seen.contains(&change.key), "two writes of a key: {log:?}");
                seen.push(change.key);
                assert!(change.after.is_some() || !upserts, "a delete behind an upsert: {log:?}");
                upserts |= change.after.is_some();
                match change.after {
                    Some(row) => now.insert(change.key, row),
                    None => now.remove(&change.key),
                };
            }
            assert_eq!(now, *state, "at {time}: {log:?}");
        }
        assert!(by_time.is_empty());
    }

    #[test]
    fn case_74_all_orders_of_small_changelogs_give_one_result() {
        let mut random = Random(74);
        for _ in 0..60 {
            let (log, states) = history(&mut random, 4);
            let log: Log = log.into_iter().take(7).collect();
            // a cut changelog is one of a state of its own
            let mut alive: BTreeMap<u8, BTreeMap<(u8, u8), i64>> = BTreeMap::new();
            for (key, row, time, times) in &log {
                *alive.entry(*time).or_default().entry((*key, *row)).or_default() += times;
            }
            let expected = closed(&log, Policy::Error);
            for permutation in permutations(&log) {
                assert_eq!(closed(&permutation, Policy::Error), expected, "{permutation:?}");
            }
            drop(states);
        }
    }

    #[test]
    fn case_74_shuffled_changelogs_and_any_division_give_one_result() {
        let mut random = Random(75);
        for _ in 0..3000 {
            let (mut log, states) = history(&mut random, 12);
            for i in (1..log.len()).rev() {
                log.swap(i, random.below(i as u64 + 1) as usize);
            }
            check(&log, &states);
            // by two workers: those of even keys and of odd ones
            let (even, odd): (Log, Log) = log.iter().partition(|(key, ..)| key % 2 == 0);
            let mut both = closed(&even, Policy::Error).unwrap();
            both.extend(closed(&odd, Policy::Error).unwrap());
            let mut all = closed(&log, Policy::Error).unwrap();
            let order = |c: &Change<u8, u8, u8>| (c.time, c.key);
            both.sort_by_key(order);
            all.sort_by_key(order);
            assert_eq!(both, all);
        }
    }

    /// A key with the hash of every other one.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    struct Alike(u8);

    impl Hash for Alike {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }

    #[test]
    fn case_74_keys_of_one_hash_are_told_apart() {
        let mut random = Random(76);
        let by_alike = |log: &Log| {
            let mut upserts = Upserts::new(Policy::Error);
            log.iter().for_each(|(key, row, time, times)| upserts.change(Alike(*key), *row, *time, *times));
            upserts.close(u8::MAX).unwrap()
        };
        for _ in 0..500 {
            let (mut log, _) = history(&mut random, 10);
            let first = by_alike(&log);
            for i in (1..log.len()).rev() {
                log.swap(i, random.below(i as u64 + 1) as usize);
            }
            assert_eq!(by_alike(&log), first, "{log:?}");
            let plain = |c: &Change<Alike, u8, u8>| (c.time, c.key.0, c.before, c.after);
            let mut found: Vec<_> = first.iter().map(plain).collect();
            let mut expected: Vec<_> = closed(&log, Policy::Error)
                .unwrap()
                .iter()
                .map(|c| (c.time, c.key, c.before, c.after))
                .collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{log:?}");
        }
    }

    #[test]
    fn what_is_not_one_row_is_a_conflict() {
        let rows = |log: &Log| closed(log, Policy::Error).unwrap_err().rows;
        assert_eq!(rows(&vec![(1, 10, 1, -1)]), [(10, -1)]);
        assert_eq!(rows(&vec![(1, 10, 1, 2)]), [(10, 2)]);
        let two = vec![(1, 11, 1, 1), (1, 10, 1, 1)];
        assert_eq!(rows(&two), [(10, 1), (11, 1)]);
        // the greatest, whatever came first; and the other one when it goes
        for log in permutations(&vec![(1, 11, 1, 1), (1, 10, 1, 1), (1, 11, 2, -1)]) {
            let changes = closed(&log, Policy::Last).unwrap();
            let afters: Vec<_> = changes.iter().map(|c| (c.time, c.before, c.after)).collect();
            assert_eq!(afters, [(1, None, Some(11)), (2, Some(11), Some(10))]);
        }
        let mut upserts = Upserts::new(Policy::Log);
        two.iter().for_each(|(key, row, time, times)| upserts.change(*key, *row, *time, *times));
        assert_eq!(upserts.close(1).unwrap().len(), 1);
        assert_eq!(upserts.told(), [Conflict { key: 1, rows: vec![(10, 1), (11, 1)] }]);
        assert_eq!(upserts.metrics(), Metrics { records_in: 2, records_out: 1, state_rows: 1, conflicts: 1 });
    }

    /// What is named beside the rows decides first, in all orders of arrival; then the rows themselves.
    #[test]
    fn case_74_the_last_one_is_told_by_what_is_named() {
        let ranked = |by: u8, row: u8| Ranked { by, row };
        let log = [
            (ranked(2, 10), 1, 1),
            (ranked(1, 99), 1, 1),
            (ranked(2, 11), 1, 1),
            (ranked(2, 11), 2, -1),
            (ranked(3, 5), 2, 1),
            (ranked(3, 5), 3, -1),
            (ranked(2, 10), 3, -1),
        ];
        let orders = permutations(&(0..log.len() as u8).map(|i| (i, 0, 0, 0)).collect());
        assert_eq!(orders.len(), 5040);
        for order in orders {
            let mut upserts = Upserts::new(Policy::Last);
            for (place, ..) in &order {
                let (row, time, times) = log[usize::from(*place)];
                upserts.change("k", row, time, times);
            }
            let changes = upserts.close(3).unwrap();
            let afters: Vec<_> = changes.iter().map(|c| (c.time, c.after.map(|r| r.row))).collect();
            assert_eq!(afters, [(1, Some(11)), (2, Some(5)), (3, Some(99))], "{order:?}");
        }
    }

    #[test]
    fn nothing_of_the_past_is_kept() {
        let mut upserts = Upserts::new(Policy::Error);
        for time in 0..100_u8 {
            upserts.change("k", time, time, 1);
            if time > 0 {
                upserts.change("k", time - 1, time, -1);
            }
            upserts.close(time).unwrap();
        }
        assert_eq!(upserts.metrics().state_rows, 1);
        assert_eq!(upserts.keys.values().map(|alive| alive.all().len()).sum::<usize>(), 1);
        upserts.change("k", 99, 100, -1);
        assert_eq!(upserts.close(100).unwrap().len(), 1);
        assert!(upserts.keys.is_empty());
    }
}
