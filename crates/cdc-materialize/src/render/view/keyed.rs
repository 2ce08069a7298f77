//! Operators that keep a state per key: groups, `distinct`, the first rows of an order.
//!
//! Rows go to the worker of their key and wait there until their tick is closed. Then, tick by tick, the states of the keys
//! that they touch are changed, and what each key said before and says now is compared: what goes out is the difference, at that tick. What
//! came first within a tick does not matter, since a state is a function of the multiset of rows (see [`Logic`]).

use super::{Key, Rows, Shared, failed, worker_of_key};
use crate::metrics::Seen;
use cdc_core::plan::view::bind::{key_of, with_values};
use cdc_core::plan::view::group::{GroupProgram, GroupState};
use cdc_core::plan::view::key::KeyProgram;
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use cdc_core::{Result, Row};
use differential_dataflow::VecCollection;
use std::cmp::Ordering;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;

/// What is kept of a key's rows, and what is said of them.
pub(super) trait Logic: 'static {
    /// What is kept.
    type State: 'static;

    /// Of no rows.
    fn empty(&self) -> Self::State;

    /// The key of a row.
    fn key_of(&self, row: &Row) -> Result<Key>;

    /// A row comes or goes. The order of changes must not matter to what [`Logic::output`] says.
    fn change(&self, state: &mut Self::State, row: &Row, times: isize) -> Result<()>;

    /// What is said of them: each row with how often.
    fn output(&self, state: &Self::State) -> Result<Vec<(Row, isize)>>;

    /// Is nothing worth keeping?
    fn is_empty(&self, state: &Self::State) -> bool;

    /// How many rows count as held, and their bytes, besides the key and what is said.
    fn held(&self, state: &Self::State) -> (i64, i64);

    /// Is there something to say of no rows?
    fn has_key_of_nothing(&self) -> bool {
        false
    }
}

type Keyed = (Key, Row, Tick, isize);

/// What is kept of each key, and what was said of it.
type States<S> = HashMap<Key, (S, Vec<(Row, isize)>), foldhash::fast::FixedState>;

pub(super) fn keyed<'scope, L: Logic>(
    rows: Rows<'scope>,
    name: &str,
    logic: L,
    shared: Shared,
) -> Rows<'scope> {
    let logic = Arc::new(logic);
    let (failure, name) = (shared.failure.clone(), name.to_owned());
    let with_key = {
        let (logic, failure, name) = (logic.clone(), failure.clone(), name.clone());
        rows.inner.unary::<CapacityContainerBuilder<Vec<Keyed>>, _, _, _>(
            timely::dataflow::channels::pact::Pipeline,
            &format!("key of {name}"),
            move |_, _| {
                move |input, output| {
                    input.for_each(|cap, data| {
                        let mut session = output.session(&cap);
                        for (row, tick, times) in data.drain(..) {
                            match logic.key_of(&row) {
                                Ok(key) => session.give((key, row, tick, times)),
                                Err(error) => failed(&failure, error, &name),
                            }
                        }
                    });
                }
            },
        )
    };
    let out = with_key.unary_frontier::<CapacityContainerBuilder<Vec<(Row, Tick, isize)>>, _, _, _>(
        Exchange::new(|(key, ..): &Keyed| worker_of_key(key)),
        &name.clone(),
        move |initial, _| {
            let mut open: BTreeMap<Tick, Vec<(Key, Row, isize)>> = BTreeMap::new();
            let mut states: States<L::State> = HashMap::default();
            let counter = shared.counters.operators.of(&name);
            let mut held: Option<Capability<Tick>> = None;
            let owns_nothing = worker_of_key(&[]) % shared.peers as u64 == shared.index as u64;
            if logic.has_key_of_nothing() && owns_nothing {
                held = Some(initial.delayed(&shared.start()));
                open.insert(shared.start(), Vec::new());
            }
            drop(initial);
            let mut begun = false;
            move |(input, frontier), output| {
                input.for_each(|cap, data| {
                    if let Some(new) = cap.retain_least(0)
                        && held.as_ref().is_none_or(|h| new.time() < h.time())
                    {
                        held = Some(new);
                    }
                    for (key, row, tick, times) in data.drain(..) {
                        open.entry(tick).or_default().push((key, row, times));
                    }
                });
                let next = frontier.frontier().first().copied();
                let mut seen = Seen::default();
                while let Some(entry) = open.first_entry() {
                    if next.is_some_and(|next| next <= *entry.key()) {
                        break;
                    }
                    let (tick, mut changes) = entry.remove_entry();
                    if failure.is_set() {
                        continue;
                    }
                    let Some(cap) = &held else { continue };
                    changes.sort_unstable_by(|(a, ..), (b, ..)| a.cmp(b));
                    let mut session = output.session(cap);
                    seen.records_in += changes.len() as i64;
                    let mut out = 0;
                    let mut give = |row: Row, times: isize| {
                        out += 1;
                        session.give((row, tick, times));
                    };
                    if logic.has_key_of_nothing() && owns_nothing && !begun {
                        begun = true;
                        if changes.is_empty() {
                            changes.push((Key::new(), Row::pack([]), 0));
                        }
                    }
                    for same in changes.chunk_by(|(a, ..), (b, ..)| a == b) {
                        match one_key(&*logic, &mut states, same, &mut give) {
                            Ok((rows, bytes)) => {
                                seen.state_rows += rows;
                                seen.state_bytes += bytes;
                            }
                            Err(error) => {
                                failed(&failure, error, &name);
                                break;
                            }
                        }
                    }
                    seen.records_out += out;
                }
                counter.add(seen);
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

/// What a tick has made of a key; how many rows and bytes are held more than before.
fn one_key<L: Logic>(
    logic: &L,
    states: &mut States<L::State>,
    changes: &[(Key, Row, isize)],
    give: &mut impl FnMut(Row, isize),
) -> Result<(i64, i64)> {
    let Some((key, ..)) = changes.first() else { return Ok((0, 0)) };
    let is_new = !states.contains_key(key);
    if is_new {
        states.insert(key.clone(), (logic.empty(), Vec::new()));
    }
    let Some((state, said)) = states.get_mut(key) else { return Ok((0, 0)) };
    let held = |state: &L::State, said: &[(Row, isize)]| {
        let (rows, bytes) = logic.held(state);
        let said = said.iter().map(|(row, _)| row.as_bytes().len() as i64).sum::<i64>();
        (rows, bytes + said + key.len() as i64)
    };
    let before = if is_new { (0, 0) } else { held(state, said) };
    for (_, row, times) in changes {
        if *times != 0 {
            logic.change(state, row, *times)?;
        }
    }
    let says = logic.output(state)?;
    if says != *said {
        difference(said, &says, give);
        *said = says;
    }
    let now = if said.is_empty() && logic.is_empty(state) {
        states.remove(key);
        (0, 0)
    } else {
        held(state, said)
    };
    Ok((now.0 - before.0, now.1 - before.1))
}

/// What comes and what goes, of two lists each of which names a row once.
fn difference(before: &[(Row, isize)], after: &[(Row, isize)], give: &mut impl FnMut(Row, isize)) {
    // a group says one row
    if let ([(a, x)], [(b, y)]) = (before, after)
        && a != b
    {
        give(b.clone(), *y);
        give(a.clone(), -x);
        return;
    }
    // the first rows of an order: those that stay are found by what they are, which takes no longer for many than sorting them
    let sorted = |list: &[(Row, isize)]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    let (before, after) = (sorted(before), sorted(after));
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let gone = if order.is_le() { before.next() } else { None };
        let come = if order.is_ge() { after.next() } else { None };
        let times = |side: &Option<(Row, isize)>| side.as_ref().map_or(0, |(_, times)| *times);
        let net = times(&come) - times(&gone);
        if let Some((row, _)) = come.or(gone).filter(|_| net != 0) {
            give(row, net);
        }
    }
}

struct Group {
    program: Arc<GroupProgram>,
    view: TableId,
}

impl Logic for Group {
    type State = GroupState;

    fn empty(&self) -> GroupState {
        self.program.empty()
    }

    fn key_of(&self, row: &Row) -> Result<Key> {
        with_values(&self.view, row, |values, meta| {
            let mut key = Vec::new();
            self.program.key_of(values, meta, &mut key)?;
            Ok(key)
        })
    }

    fn change(&self, state: &mut GroupState, row: &Row, times: isize) -> Result<()> {
        with_values(&self.view, row, |values, meta| self.program.change(state, values, meta, times as i64))
    }

    fn output(&self, state: &GroupState) -> Result<Vec<(Row, isize)>> {
        Ok(self.program.row(state)?.map(|row| (row, 1)).into_iter().collect())
    }

    fn is_empty(&self, state: &GroupState) -> bool {
        state.is_empty()
    }

    fn held(&self, state: &GroupState) -> (i64, i64) {
        (1, state.bytes())
    }

    fn has_key_of_nothing(&self) -> bool {
        self.program.is_of_all()
    }
}

/// `aggregate`, and `distinct`, which is a group of all columns with nothing computed.
pub(super) fn group<'scope>(
    rows: Rows<'scope>,
    name: &str,
    program: Arc<GroupProgram>,
    shared: Shared,
) -> Rows<'scope> {
    keyed(rows, name, Group { program, view: TableId::new("", name) }, shared)
}

struct Top {
    count: u64,
    per: Arc<KeyProgram>,
    by: Arc<KeyProgram>,
    view: TableId,
}

/// The rows of one order.
#[derive(Default)]
struct TopState {
    /// By the order, then the row's bytes.
    rows: BTreeMap<(Key, Row), isize>,
    /// Of those.
    bytes: i64,
}

impl Logic for Top {
    type State = TopState;

    fn empty(&self) -> Self::State {
        TopState::default()
    }

    fn key_of(&self, row: &Row) -> Result<Key> {
        key_of(&self.per, &self.view, row).map(Option::unwrap_or_default)
    }

    fn change(&self, state: &mut Self::State, row: &Row, times: isize) -> Result<()> {
        let order = key_of(&self.by, &self.view, row)?.unwrap_or_default();
        let size = (order.len() + row.as_bytes().len()) as i64;
        match state.rows.entry((order, row.clone())) {
            Entry::Vacant(entry) => {
                entry.insert(times);
                state.bytes += size;
            }
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += times;
                if *entry.get() == 0 {
                    entry.remove();
                    state.bytes -= size;
                }
            }
        }
        Ok(())
    }

    fn output(&self, state: &Self::State) -> Result<Vec<(Row, isize)>> {
        let mut left = self.count;
        let mut out: Vec<(Row, isize)> = Vec::new();
        for ((_, row), times) in &state.rows {
            if left == 0 {
                break;
            }
            let taken = left.min(u64::try_from(*times).unwrap_or(0));
            left -= taken;
            if taken > 0 {
                out.push((row.clone(), taken as isize));
            }
        }
        Ok(out)
    }

    fn is_empty(&self, state: &Self::State) -> bool {
        state.rows.is_empty()
    }

    fn held(&self, state: &Self::State) -> (i64, i64) {
        (state.rows.len() as i64, state.bytes)
    }
}

/// `top`.
pub(super) fn top<'scope>(
    rows: Rows<'scope>,
    name: &str,
    (count, per, by): (u64, Arc<KeyProgram>, Arc<KeyProgram>),
    shared: Shared,
) -> Rows<'scope> {
    keyed(rows, name, Top { count, per, by, view: TableId::new("", name) }, shared)
}
