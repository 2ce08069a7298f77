//! Executions: all interleavings of a history, the shortest that goes wrong, random ones.

use super::run::{Action, Settings, State};
use super::server::{Features, History, Random, random_history};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

/// Fingerprints are hashes already.
#[derive(Default)]
pub struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 keys")
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

type Seen = HashSet<u64, BuildHasherDefault<AsIs>>;

/// A way to a wrong state.
pub struct Counterexample {
    pub why: &'static str,
    pub history: History,
    pub path: Vec<Action>,
    last: State,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counterexample { why, history, path, last } = self;
        writeln!(f, "{why}, after {} steps", path.len())?;
        writeln!(f, "  {history:?}")?;
        writeln!(f, "  {path:?}")?;
        let there = history.at[usize::from(last.position)];
        write!(f, "  target {:?}, source at log position {} {there:?}", last.target, last.position)
    }
}

/// What came of all interleavings of a history.
pub struct Explored {
    pub states: u64,
    pub wrong: Option<&'static str>,
}

/// Visits every state.
pub fn explore(h: &History, c: &Settings) -> Explored {
    let first = State::new(c);
    let mut seen = Seen::default();
    seen.insert(first.fingerprint());
    let mut stack = vec![first];
    let mut actions = Vec::new();
    while let Some(state) = stack.pop() {
        let here = state.fingerprint();
        state.actions(h, c, &mut actions);
        let mut stuck = true;
        for &action in &actions {
            let mut next = state.clone();
            next.step(h, c, action);
            let wrong = next.violation(h);
            if wrong.is_some() {
                return Explored { states: seen.len() as u64, wrong };
            }
            let fingerprint = next.fingerprint();
            stuck &= action.is_passive() || fingerprint == here;
            if seen.insert(fingerprint) {
                stack.push(next);
            }
        }
        if stuck && !state.is_end(h) {
            return Explored { states: seen.len() as u64, wrong: Some("deadlock") };
        }
    }
    Explored { states: seen.len() as u64, wrong: None }
}

/// The shortest way to a wrong state, breadth first.
pub fn shortest(h: &History, c: &Settings) -> Option<Counterexample> {
    let first = State::new(c);
    let start = first.fingerprint();
    let mut from: HashMap<u64, Option<(u64, Action)>> = HashMap::from([(start, None)]);
    let found = |from: &HashMap<u64, Option<(u64, Action)>>, mut at: u64, why, last: State, action| {
        let mut path = Vec::from_iter(action);
        while let Some((before, action)) = from[&at] {
            path.push(action);
            at = before;
        }
        path.reverse();
        Some(Counterexample { why, history: h.clone(), path, last })
    };
    let mut level = vec![first];
    let mut actions = Vec::new();
    while !level.is_empty() {
        let mut below = Vec::new();
        for state in level {
            let here = state.fingerprint();
            state.actions(h, c, &mut actions);
            let mut stuck = true;
            for &action in &actions {
                let mut next = state.clone();
                next.step(h, c, action);
                if let Some(why) = next.violation(h) {
                    return found(&from, here, why, next, Some(action));
                }
                let fingerprint = next.fingerprint();
                stuck &= action.is_passive() || fingerprint == here;
                from.entry(fingerprint).or_insert_with(|| {
                    below.push(next);
                    Some((here, action))
                });
            }
            if stuck && !state.is_end(h) {
                return found(&from, here, "deadlock", state, None);
            }
        }
        level = below;
    }
    None
}

/// One random execution of a random history; the number of its steps.
pub fn wander(
    random: &mut Random,
    c: &Settings,
    f: Features,
    lengths: std::ops::RangeInclusive<usize>,
) -> Result<u64, Box<Counterexample>> {
    let length = lengths.start() + random.below(lengths.end() - lengths.start() + 1);
    let h = random_history(random, length, f);
    let mut weights = [0; Action::CLASSES];
    for weight in &mut weights {
        *weight = [1, 3, 10, 30][random.below(4)];
    }
    weights[Action::Drop(0).class()] = 1 + random.below(3);
    weights[Action::Crash.class()] = 1;
    let mut state = State::new(c);
    let mut path = Vec::new();
    let mut actions = Vec::new();
    let wrong = |why, path, last| Err(Box::new(Counterexample { why, history: h.clone(), path, last }));
    loop {
        state.actions(&h, c, &mut actions);
        let here = state.fingerprint();
        let end = state.is_end(&h);
        let mut next = None;
        while next.is_none() && actions.iter().any(|a| !a.is_passive()) {
            let choice: Vec<usize> = actions.iter().map(|a| weights[a.class()]).collect();
            let action = actions.swap_remove(random.weighted(&choice));
            let mut after = state.clone();
            after.step(&h, c, action);
            if action.is_passive() || after.fingerprint() != here {
                next = Some((action, after));
            }
        }
        if next.is_none() {
            if !end {
                return wrong("deadlock", path, state);
            }
            // only what may happen at any time is left
            actions.retain(|a| matches!(a, Action::Crash | Action::SinkCommit | Action::Checkpoint));
            if actions.is_empty() || random.below(4) == 0 {
                return Ok(path.len() as u64);
            }
            let action = actions[random.below(actions.len())];
            let mut after = state.clone();
            after.step(&h, c, action);
            next = Some((action, after));
        }
        let Some((action, after)) = next else { continue };
        state = after;
        path.push(action);
        if let Some(why) = state.violation(&h) {
            return wrong(why, path, state);
        }
        if path.len() > 5000 {
            return wrong("no end", path, state);
        }
    }
}
