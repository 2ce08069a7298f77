//! Views as a dataflow.
//!
//! ```text
//! source[src] ─► spread[src] ─► upsert[src.orders] ──► join[..] ─► aggregate[..] ─► view[revenue] ─► filter[..] ─► route[..] ─► sink
//!        │                            ▲
//!        └──► told[src] ──────────────┘   tables that are emptied, and where ticks come from
//! ```
//!
//! # One time, closed once
//! All operators carry the tick in the data, under the least capability of what a message holds, as flows do. What
//! a view says at a tick is what its query would have said of the source at that tick, because no operator gives out anything
//! of a tick that depends on what is still to come: those that keep a state ([`keyed`], [`table`]) wait until their frontier has passed
//! it, and differential's joins are the same function of their inputs whatever came first. A tick holds whole transactions, so no
//! half of one is ever seen: neither of a source transaction nor of a join.
//!
//! # Silent until whole
//! While a view's tables are being copied the view would say what no moment of the source was: half a table. And a restart in the middle
//! could not take it back: rows of chunks come at other ticks in a replay than they did, so what a target was told of them by the run before could not be
//! told from what is still to come, and a group that has gone meanwhile would stay for ever. So views are silent until all tables are whole *and a checkpoint says
//! so*: the first tick at which they speak ([`Voice`]) is written into that checkpoint before it is opened. At it a view says
//! all that it holds; from then on it says what changes. Every replay from then on begins behind the last chunk, so it says the same at the
//! same ticks.
//!
//! A table that is copied anew after that (a statement moved rows in ways that the log does not show, or another table took its name) makes all views of the source
//! silent again, from the tick of the statement on: targets keep what the views said of the state in front of it. Meanwhile each view sums up what it would have said
//! ([`end`]). Once all tables are whole again and a checkpoint says so, views speak, and what has been summed up is one change. The argument for replays is the same
//! as at first, with one thing more: a start in between must know what targets have been told. So the rows of the tables as they were in front of the
//! statement are kept in the state folder until a checkpoint stands behind the tick at which views spoke again; they enter first, and what has changed
//! since then enters behind them, unsaid ([`crate::inputs`]). All views are silent then, also those that do not read the table: what targets hold of one state
//! of the source stays together.
//!
//! # What is differential's, and what is not
//! Joins are differential dataflow's, on arrangements that are shared by all who look up the same rows by the same key; what they say is added up at each
//! closed tick before anything is asked of it ([`closed`]). Groups,
//! `distinct`, `top` and what watches keys keep a state per key of their own ([`keyed`]): since ticks are totally ordered and
//! each is looked at once, when it is closed, the state *now* is all there is to know. An ordered map answers min, max and the first rows of a group
//! in the logarithm of its size; differential's `reduce` reads the whole group for each change of it.
//!
//! # Memory
//! A row that is held in several places is one allocation (see [`cdc_core::row`]).

mod closed;
mod end;
mod keyed;
mod table;

use crate::inputs::Inputs;
use crate::metrics::Seen;
use crate::record::Guard;
use crate::render::{Counters, Failure, Records};
use crate::voice::Voice;
use cdc_core::diagnostic::Diagnostic;
use cdc_core::plan::view::bind::{Graph, NodeKind, RowMap, key_of};
use cdc_core::plan::view::key::KeyProgram;
use cdc_core::plan::view::{JoinKind, Upsert};
use cdc_core::plan::{FlowPlan, Plan};
use cdc_core::schema::TableId;
use cdc_core::tick::Tick;
use cdc_core::{Error, Row, RowBuilder};
use differential_dataflow::VecCollection;
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::trace::implementations::ValSpine;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use timely::dataflow::Stream;

use closed::closed;
pub(crate) use end::upserts;
pub use table::copied_by;
pub(crate) use table::{Told, told};

/// Rows, each with a tick and how often it comes or goes then.
pub(crate) type Rows<'scope> = VecCollection<'scope, Tick, Row, isize>;

/// The bytes by which rows are told apart.
pub(crate) type Key = Vec<u8>;

type ByKey<'scope> = Arranged<'scope, TraceAgent<ValSpine<Key, Row, Tick, isize>>>;

/// What of a source's rows went into views, by tick, until sinks have it: it slows a source down whose targets are slow. (A source
/// does not wait within a tick for a tick's own rows where there are views.)
#[derive(Clone, Default)]
pub struct Held(Rc<RefCell<BTreeMap<Tick, Vec<Guard>>>>);

impl Held {
    fn hold(&self, tick: Tick, guard: &Guard) {
        self.0.borrow_mut().entry(tick).or_default().push(guard.clone());
    }

    /// All sinks have what is in front of this tick.
    pub fn passed(&self, next: Option<Tick>) {
        let mut held = self.0.borrow_mut();
        match next {
            Some(next) => {
                if held.first_key_value().is_some_and(|(tick, _)| *tick < next) {
                    *held = held.split_off(&next);
                }
            }
            None => held.clear(),
        }
    }
}

/// What all parts of the views on one worker share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) failure: Arc<Failure>,
    pub(crate) inputs: Arc<Inputs>,
    pub(crate) voice: Arc<Voice>,
    pub(crate) held: Held,
    pub(crate) notices: Arc<Mutex<Vec<Diagnostic>>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) index: usize,
    pub(crate) peers: usize,
    /// Rows are spread over workers by table instead of by key.
    pub(crate) by_table: bool,
}

impl Shared {
    /// The tick at which what is there from the beginning comes.
    pub(crate) fn start(&self) -> Tick {
        self.inputs.enter()
    }

    fn tell(&self, notice: Diagnostic) {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }
}

/// The streams of the views of one source, as rows of the table that each view is.
pub(crate) fn views<'scope>(
    spread: &Records<'scope>,
    told: &Stream<'scope, Tick, Vec<Told>>,
    plan: &Plan,
    graph: &Graph,
    shared: &Shared,
) -> BTreeMap<String, Records<'scope>> {
    let mut renderer = Renderer {
        nodes: Vec::with_capacity(graph.nodes.len()),
        arranged: BTreeMap::new(),
        shared: shared.clone(),
    };
    for node in &graph.nodes {
        let rows = match &node.kind {
            NodeKind::Table(input) => {
                table::table(spread.clone(), told.clone(), &node.name, input.clone(), shared.clone())
            }
            NodeKind::Map { input, map } => renderer.map(*input, &node.name, map.clone()),
            NodeKind::Join { kind, inputs, keys, widths, pairs } => {
                renderer.join(*kind, *inputs, keys, (*widths, pairs.clone()), &node.name)
            }
            NodeKind::Group { input, group } => {
                keyed::group(renderer.nodes[*input].clone(), &node.name, group.clone(), shared.clone())
            }
            NodeKind::Union { inputs } => {
                let mut all = inputs.iter().map(|i| renderer.nodes[*i].clone());
                match all.next() {
                    Some(first) => first.concatenate(all),
                    None => continue,
                }
            }
            NodeKind::Top { input, count, per, by } => keyed::top(
                renderer.nodes[*input].clone(),
                &node.name,
                (*count, per.clone(), by.clone()),
                shared.clone(),
            ),
        };
        renderer.nodes.push(rows);
    }
    let read = |name: &String| plan.flows.iter().any(|f| f.view.as_ref() == Some(name));
    graph
        .views
        .iter()
        .filter(|view| read(&view.name))
        .map(|view| {
            let rows = renderer.nodes[view.node].clone();
            // a flow that states a key may be watched by a state of its own
            let may_be_watched = |f: &FlowPlan| f.key.is_some() || f.upsert == Upsert::Force;
            let is_watched =
                plan.flows.iter().any(|f| f.view.as_ref() == Some(&view.name) && may_be_watched(f));
            (view.name.clone(), end::view(rows, told.clone(), view, is_watched, shared.clone()))
        })
        .collect()
}

struct Renderer<'scope> {
    nodes: Vec<Rows<'scope>>,
    /// By node and what its rows are looked up by.
    arranged: BTreeMap<(usize, String), ByKey<'scope>>,
    shared: Shared,
}

impl<'scope> Renderer<'scope> {
    fn map(&self, input: usize, name: &str, map: Arc<RowMap>) -> Rows<'scope> {
        let failure = self.shared.failure.clone();
        let name = name.to_owned();
        self.nodes[input].clone().flat_map(move |row| match map.apply(&row) {
            Ok(made) => made,
            Err(error) => {
                failure.set(error.note(format!("operator {name}")));
                None
            }
        })
    }

    /// Rows with their keys; those that nothing is equal to are left out.
    fn keyed(
        &self,
        input: usize,
        name: &str,
        key: Arc<KeyProgram>,
    ) -> VecCollection<'scope, Tick, (Key, Row), isize> {
        let failure = self.shared.failure.clone();
        let view = TableId::new("", name);
        self.nodes[input].clone().flat_map(move |row| match key_of(&key, &view, &row) {
            Ok(key) => key.map(|key| (key, row)),
            Err(error) => {
                failure.set(error);
                None
            }
        })
    }

    /// The rows that are left out there.
    fn unkeyed(&self, input: usize, name: &str, key: Arc<KeyProgram>) -> Rows<'scope> {
        let view = TableId::new("", name);
        // what it fails at fails there
        self.nodes[input].clone().filter(move |row| matches!(key_of(&key, &view, row), Ok(None)))
    }

    fn arranged(&mut self, input: usize, name: &str, key: &Arc<KeyProgram>) -> ByKey<'scope> {
        let by = key.name().unwrap_or_else(|| format!("{name} {:p}", Arc::as_ptr(key)));
        if let Some(arranged) = self.arranged.get(&(input, by.clone())) {
            return arranged.clone();
        }
        // what comes and goes adds up to what is held
        let counter = self.shared.counters.operators.of(name);
        let keyed = self.keyed(input, name, key.clone());
        let keyed = keyed.inspect_core(move |event| {
            let Ok((_, changes)) = event else { return };
            let mut seen = Seen { records_in: changes.len() as i64, ..Seen::default() };
            for ((key, row), _, times) in changes {
                seen.state_rows += *times as i64;
                seen.state_bytes += *times as i64 * (key.len() + row.as_bytes().len()) as i64;
            }
            counter.add(seen);
        });
        let arranged = keyed.arrange_by_key_named(&format!("arrange[{name}]"));
        self.arranged.insert((input, by), arranged.clone());
        arranged
    }

    fn join(
        &mut self,
        kind: JoinKind,
        inputs: [usize; 2],
        keys: &[Arc<KeyProgram>; 2],
        (widths, pairs): ([usize; 2], Option<Arc<RowMap>>),
        name: &str,
    ) -> Rows<'scope> {
        let [left, right] = [0, 1].map(|side| self.arranged(inputs[side], name, &keys[side]));
        // where more than equality is asked of pairs, each side's rows are wanted as they are
        let asked = pairs.map(|pairs| {
            let failure = self.shared.failure.clone();
            let operator = name.to_owned();
            let both = |_: &Key, left: &Row, right: &Row| Some((left.clone(), right.clone()));
            let all = closed(left.clone().join_core(right.clone(), both), name);
            all.filter(move |(left, right)| match pairs.apply(&concatenated(left, right)) {
                Ok(row) => row.is_some(),
                Err(error) => {
                    failed(&failure, error, &operator);
                    false
                }
            })
        });
        let matching = || match &asked {
            Some(asked) => asked.clone().map(|(left, right)| concatenated(&left, &right)),
            None => {
                let both = |_: &Key, left: &Row, right: &Row| Some(concatenated(left, right));
                closed(left.clone().join_core(right.clone(), both), name)
            }
        };
        // a side's rows by what tells which of them have a match; and those that have one
        let sides = |this: &Self, side: usize| {
            if let Some(asked) = &asked {
                // of equal rows, which only a table without key has, all or none have a match
                let found = asked.clone().map(move |(left, right)| if side == 0 { left } else { right });
                let all = this.nodes[inputs[side]].clone().map(|row| (row, ())).arrange_by_key();
                let found = found.distinct().map(|row| (row, ())).arrange_by_key();
                let with_match = all.clone().join_core(found, |row, (), ()| Some(row.clone()));
                return (all.as_collection(|row, ()| row.clone()), with_match);
            }
            let (here, there) = if side == 0 { (&left, 1) } else { (&right, 0) };
            let keys = this.keyed(inputs[there], name, keys[there].clone()).map(|(key, _)| key).distinct();
            let keys = keys.map(|key| (key, ())).arrange_by_key();
            let with_match = here.clone().join_core(keys, |_, row, ()| Some(row.clone()));
            (here.clone().as_collection(|_, row| row.clone()), with_match)
        };
        let with_match = |this: &Self, side: usize| closed(sides(this, side).1, name);
        // those that have none, among them those that nothing is equal to
        let without = |this: &Self, side: usize| {
            let (all, with_match) = sides(this, side);
            let rest = closed(all.concat(with_match.negate()), name);
            match asked {
                Some(_) => rest,
                None => rest.concat(this.unkeyed(inputs[side], name, keys[side].clone())),
            }
        };
        let joined = match kind {
            JoinKind::Inner => matching(),
            JoinKind::Semi => with_match(self, 0),
            JoinKind::Anti => without(self, 0),
            JoinKind::Left => matching().concat(without(self, 0).map(move |row| padded(&row, 0, widths[1]))),
            JoinKind::Right => matching().concat(without(self, 1).map(move |row| padded(&row, widths[0], 0))),
            JoinKind::Full => matching()
                .concat(without(self, 0).map(move |row| padded(&row, 0, widths[1])))
                .concat(without(self, 1).map(move |row| padded(&row, widths[0], 0))),
        };
        let counter = self.shared.counters.operators.of(name);
        joined.inspect_core(move |event| {
            if let Ok((_, changes)) = event {
                counter.add(Seen { records_out: changes.len() as i64, ..Seen::default() });
            }
        })
    }
}

fn concatenated(left: &Row, right: &Row) -> Row {
    let mut builder = RowBuilder::with_capacity(left.as_bytes().len() + right.as_bytes().len());
    for row in [left, right] {
        let mut values = row.iter();
        while let Some(value) = values.next_encoded() {
            builder.push_encoded(value);
        }
    }
    builder.finish()
}

/// A row with NULLs on both sides.
fn padded(row: &Row, before: usize, behind: usize) -> Row {
    let mut builder = RowBuilder::with_capacity(row.as_bytes().len() + before + behind);
    (0..before).for_each(|_| builder.push_null());
    let mut values = row.iter();
    while let Some(value) = values.next_encoded() {
        builder.push_encoded(value);
    }
    (0..behind).for_each(|_| builder.push_null());
    builder.finish()
}

/// An error of a part, with the operator that met it.
fn failed(failure: &Failure, error: Error, name: &str) {
    failure.set(error.note(format!("operator {name}")));
}

/// The worker that keeps a key.
fn worker_of_key(key: &[u8]) -> u64 {
    use std::hash::BuildHasher;
    foldhash::fast::FixedState::with_seed(0).hash_one(key)
}
