//! What a join says of a tick, once that is closed.
//!
//! A join is bilinear: where both sides change at one tick it pairs what came with what went, and takes that back in the same tick; and rows without
//! a match are all rows, less those that have one. So rows pass by that no moment of the source had. They add up to nothing, but an
//! expression that is asked of one may fail: `b.n - a.n`, of two numbers that were never there together. So nothing is asked of what a join says before it has
//! been added up, at the closed tick: what is left then is a difference between two states.

use cdc_core::tick::Tick;
use differential_dataflow::VecCollection;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;

/// The same, added up at each closed tick. What is equal must be on one worker, as the two halves of what a join takes back are.
pub(super) fn closed<'scope, D: Clone + Ord + Hash + 'static>(
    rows: VecCollection<'scope, Tick, D, isize>,
    name: &str,
) -> VecCollection<'scope, Tick, D, isize> {
    let name = format!("closed {name}");
    let out = rows.inner.unary_frontier::<CapacityContainerBuilder<Vec<(D, Tick, isize)>>, _, _, _>(
        Pipeline,
        &name,
        move |_, _| {
            let mut open: BTreeMap<Tick, Vec<(D, isize)>> = BTreeMap::new();
            let mut held: Option<Capability<Tick>> = None;
            move |(input, frontier), output| {
                input.for_each(|cap, data| {
                    if let Some(new) = cap.retain_least(0)
                        && held.as_ref().is_none_or(|h| new.time() < h.time())
                    {
                        held = Some(new);
                    }
                    for (row, tick, times) in data.drain(..) {
                        open.entry(tick).or_default().push((row, times));
                    }
                });
                let next = frontier.frontier().first().copied();
                while let Some(entry) = open.first_entry() {
                    if next.is_some_and(|next| next <= *entry.key()) {
                        break;
                    }
                    let (tick, rows) = entry.remove_entry();
                    let Some(cap) = &held else { continue };
                    let mut session = output.session(cap);
                    for (row, times) in added_up(rows) {
                        session.give((row, tick, times));
                    }
                }
                match (&mut held, open.first_key_value()) {
                    (Some(cap), Some((tick, _))) if tick > cap.time() => {
                        // what is still to come may be of an earlier tick than what waits
                        let least = next.map_or(*tick, |next| next.min(*tick));
                        if least > *cap.time() {
                            cap.downgrade(&least);
                        }
                    }
                    (Some(_), Some(_)) | (None, _) => {}
                    (Some(_), None) => held = None,
                }
            }
        },
    );
    VecCollection::new(out)
}

/// Each row once, without those that come as often as they go.
fn added_up<D: Ord + Hash>(rows: Vec<(D, isize)>) -> Vec<(D, isize)> {
    // what is only added to cannot take anything back: a first load, mostly
    if rows.iter().all(|(_, times)| *times > 0) {
        return rows;
    }
    let hasher = foldhash::fast::FixedState::with_seed(0);
    // by hash, because numbers are compared faster than rows
    let mut rows: Vec<(u64, D, isize)> =
        rows.into_iter().map(|(row, times)| (hasher.hash_one(&row), row, times)).collect();
    rows.sort_unstable_by(|(hash, row, _), (other_hash, other, _)| {
        hash.cmp(other_hash).then_with(|| row.cmp(other))
    });
    let mut out: Vec<(D, isize)> = Vec::with_capacity(rows.len());
    for (_, row, times) in rows {
        match out.last_mut() {
            Some((last, sum)) if *last == row => *sum += times,
            last => {
                if last.is_some_and(|(_, sum)| *sum == 0) {
                    out.pop();
                }
                out.push((row, times));
            }
        }
    }
    if out.last().is_some_and(|(_, sum)| *sum == 0) {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::added_up;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_taken_back_was_never_there() {
        let rows = vec![("a", 1), ("b", 2), ("a", -1), ("c", -1), ("b", -1), ("d", 1), ("d", -1), ("c", -1)];
        let left: BTreeMap<&str, isize> = added_up(rows).into_iter().collect();
        assert_eq!(left, BTreeMap::from([("b", 1), ("c", -2)]));
        assert_eq!(added_up(vec![("a", 1), ("a", 1)]), [("a", 1), ("a", 1)]);
        assert!(added_up(vec![("a", 1), ("a", -1)]).is_empty());
    }
}
