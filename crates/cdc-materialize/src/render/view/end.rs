//! `view[name]`: what a view's rows are at the end of each tick, as changes of the table that the view is to flows. `upsert[flow]`: the same
//! by the key that a flow states, watched.
//!
//! A view whose key is known ([`cdc_core::plan::view::bind`]) holds at most one row of each key at each tick, so the rows that come and go at a tick
//! are a key's row before it and behind it; no state is needed to say what has changed. By another key nobody knows that: then
//! [`Upserts`] keeps the rows that are alive, and tells a key of which not exactly one is.

use super::{Rows, Shared, Told, failed};
use crate::metrics::Seen;
use crate::record::{Guard, Record};
use crate::render::{Records, first};
use crate::upsert::{self, Policy, Upserts};
use cdc_core::diagnostic::Diagnostic;
use cdc_core::event::{Batch, Change, Op, Origin};
use cdc_core::plan::FlowPlan;
use cdc_core::plan::program::Stage;
use cdc_core::plan::view::bind::BoundView;
use cdc_core::plan::view::rank::Ranking;
use cdc_core::plan::view::{OnConflict, Upsert};
use cdc_core::schema::{TableSchema, same_name};
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, codes};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;

/// A key's row before a tick and behind it.
type Changed = (Option<Row>, Option<Row>);

/// What is kept between ticks, if anything.
trait Closing: 'static {
    /// Must it be told of rows that nothing is said of?
    const HOLDS: bool;

    fn close(&mut self, tick: Tick, rows: Vec<(Row, isize)>) -> Result<Vec<Changed>>;

    /// What is held more, or less, since this was asked last, and the conflicts since then; of a key with a conflict the row that stands for it.
    fn seen(&mut self) -> Seen {
        Seen::default()
    }
}

/// The stream of a view's changes.
pub(super) fn view<'scope>(
    rows: Rows<'scope>,
    told: Stream<'scope, Tick, Vec<Told>>,
    view: &BoundView,
    is_watched: bool,
    shared: Shared,
) -> Records<'scope> {
    let name = format!("view[{}]", view.name);
    let closing = Proven { schema: view.schema.clone(), name: view.name.clone() };
    let key = view.schema.primary_key.clone();
    closed(rows, told, &name, (view.schema.clone(), key), closing, is_watched, shared)
}

/// The same by a flow's key; the stream as it is where nothing need be watched.
pub(crate) fn upserts<'scope>(
    records: Records<'scope>,
    told: Stream<'scope, Tick, Vec<Told>>,
    flow: &FlowPlan,
    view: &BoundView,
    shared: Shared,
) -> Records<'scope> {
    let mut schema = view.schema.clone();
    for op in &flow.ops {
        match Stage::bind(op, &schema) {
            Ok(stage) => schema = stage.output().clone(),
            Err(diagnostics) => {
                shared.failure.set(first(diagnostics));
                return records;
            }
        }
    }
    let stated: Option<Vec<usize>> = match &flow.key {
        Some(names) => {
            let place = |name: &String| schema.columns.iter().position(|c| same_name(&c.name, name));
            names.iter().map(place).collect()
        }
        // told to watch what is proved
        None => {
            Some(schema.primary_key.clone()).filter(|key| !key.is_empty() && flow.upsert == Upsert::Force)
        }
    };
    let Some(key) = stated.filter(|key| flow.is_watched(&schema, key)) else { return records };
    let name = format!("upsert[{}]", flow.name);
    let policy = match &flow.on_conflict {
        OnConflict::Error => Policy::Error,
        OnConflict::Last(_) => Policy::Last,
        OnConflict::Log(_) => Policy::Log,
    };
    let ranking = match Ranking::bind(&flow.on_conflict, &schema, &format!("flow \"{}\"", flow.name)) {
        Ok(ranking) => (policy != Policy::Error).then_some(ranking),
        Err(diagnostics) => {
            shared.failure.set(first(diagnostics));
            return records;
        }
    };
    let rows = {
        let stream = records.unary::<CapacityContainerBuilder<Vec<(Row, Tick, isize)>>, _, _, _>(
            Pipeline,
            &format!("rows of {name}"),
            |_, _| {
                move |input, output| {
                    input.for_each(|cap, data| {
                        let mut session = output.session(&cap);
                        for record in data.drain(..) {
                            let Record::Rows { batch, .. } = record else { continue };
                            for change in &batch.changes {
                                for (row, times) in [(&change.before, -1), (&change.after, 1)] {
                                    if let Some(row) = row {
                                        session.give((row.clone(), change.tick, times));
                                    }
                                }
                            }
                        }
                    });
                }
            },
        );
        Rows::new(stream)
    };
    let watched = Watched {
        upserts: Upserts::new(policy),
        ranking,
        schema: schema.clone(),
        key: key.clone(),
        flow: flow.name.clone(),
        shared: shared.clone(),
        seen: Seen::default(),
        conflicts: 0,
    };
    closed(rows, told, &name, (schema, key), watched, false, shared)
}

struct Proven {
    schema: Arc<TableSchema>,
    name: String,
}

/// So many changes of one tick are handed on in the order of their keys: a first load, mostly, and targets keep their rows in that order.
const LARGE: usize = 4096;

impl Proven {
    /// What has become of the keys of these rows, which are all that there is of them.
    fn sum(&self, rows: &mut Vec<(Row, isize)>, out: &mut Vec<Changed>) -> Result<()> {
        let key = &self.schema.primary_key;
        rows.sort_unstable_by(|(row, _), (other, _)| {
            row.picked(key).cmp(&other.picked(key)).then_with(|| row.cmp(other))
        });
        let mut rows = rows.drain(..).peekable();
        while let Some((mut row, mut times)) = rows.next() {
            let (mut before, mut after): Changed = (None, None);
            loop {
                // the same row, once more
                while let Some((_, more)) = rows.next_if(|(other, _)| *other == row) {
                    times += more;
                }
                let next = rows.next_if(|(other, _)| other.agrees(&row, key));
                if times != 0 {
                    let side = if times > 0 { &mut after } else { &mut before };
                    if times.abs() > 1 || side.is_some() {
                        let rows = side.iter().map(|r| (r.clone(), 1)).chain([(row, times as i64)]).collect();
                        return Err(conflict(&format!("view \"{}\"", self.name), &self.schema, key, rows)
                            .help("this must not be: the view's key tells its rows apart. Report it, with the view"));
                    }
                    *side = Some(row);
                }
                let Some((next_row, next_times)) = next else { break };
                (row, times) = (next_row, next_times);
            }
            if before.is_some() || after.is_some() {
                out.push((before, after));
            }
        }
        Ok(())
    }
}

impl Closing for Proven {
    const HOLDS: bool = false;

    fn close(&mut self, _: Tick, rows: Vec<(Row, isize)>) -> Result<Vec<Changed>> {
        let key = &self.schema.primary_key;
        if key.is_empty() {
            let mut net: BTreeMap<Row, isize> = BTreeMap::new();
            for (row, times) in rows {
                *net.entry(row).or_default() += times;
            }
            let mut out = Vec::with_capacity(net.len());
            for (row, times) in net {
                for _ in 0..times.unsigned_abs() {
                    out.push(if times > 0 { (None, Some(row.clone())) } else { (Some(row.clone()), None) });
                }
            }
            out.sort_by_key(|(_, after)| after.is_some());
            return Ok(out);
        }
        // What is of one key together: by hash, because numbers are compared and moved faster than keys and rows.
        let mut places: Vec<(u64, usize)> =
            rows.iter().enumerate().map(|(place, (row, _))| (hash_of(key, row), place)).collect();
        places.sort_unstable();
        let mut rows: Vec<Option<(Row, isize)>> = rows.into_iter().map(Some).collect();
        let mut out: Vec<Changed> = Vec::with_capacity(rows.len());
        let mut same_hash: Vec<(Row, isize)> = Vec::new();
        for of_hash in places.chunk_by(|(hash, _), (other, _)| hash == other) {
            same_hash.extend(of_hash.iter().filter_map(|(_, place)| rows[*place].take()));
            // a row that comes or goes, or one in the place of another: nearly always it is that
            match &same_hash[..] {
                [(_, times)] if times.abs() == 1 => {
                    out.extend(
                        same_hash.pop().map(
                            |(row, times)| {
                                if times > 0 { (None, Some(row)) } else { (Some(row), None) }
                            },
                        ),
                    );
                    continue;
                }
                [(row, times), (other, others)]
                    if times.abs() == 1 && times + others == 0 && row.agrees(other, key) =>
                {
                    if row == other {
                        same_hash.clear();
                    } else if let (Some((b, _)), Some((a, times))) = (same_hash.pop(), same_hash.pop()) {
                        out.push(if times > 0 { (Some(b), Some(a)) } else { (Some(a), Some(b)) });
                    }
                    continue;
                }
                _ => self.sum(&mut same_hash, &mut out)?,
            }
        }
        if out.len() >= LARGE {
            let row =
                |(before, after): &Changed| after.as_ref().or(before.as_ref()).map(|row| row.picked(key));
            out.sort_by_cached_key(row);
        }
        out.sort_by_key(|(_, after)| after.is_some());
        Ok(out)
    }
}

/// The hash of a row's key, of the whole row where there is none.
fn hash_of(key: &[usize], row: &Row) -> u64 {
    let mut hasher = foldhash::fast::FixedState::with_seed(0).build_hasher();
    if key.is_empty() {
        row.hash(&mut hasher);
    } else {
        row.hash_of(key, &mut hasher);
    }
    hasher.finish()
}

/// Of several rows of a key the greatest stands, where one is to.
type Ranked = upsert::Ranked<Vec<u8>, Row>;

struct Watched {
    upserts: Upserts<Row, Ranked, Tick>,
    /// Which is greater; none: there is nothing to choose.
    ranking: Option<Ranking>,
    schema: Arc<TableSchema>,
    key: Vec<usize>,
    flow: String,
    shared: Shared,
    /// What has not been told yet.
    seen: Seen,
    conflicts: u64,
}

impl Closing for Watched {
    const HOLDS: bool = true;

    fn seen(&mut self) -> Seen {
        std::mem::take(&mut self.seen)
    }

    fn close(&mut self, tick: Tick, rows: Vec<(Row, isize)>) -> Result<Vec<Changed>> {
        for (row, times) in rows {
            let by = match &self.ranking {
                Some(ranking) => ranking.order_of(&row)?,
                None => Vec::new(),
            };
            self.upserts.change(key_of(&self.key, &row), Ranked { by, row }, tick, times as i64);
        }
        let owner = format!("flow \"{}\"", self.flow);
        let changes = self.upserts.close(tick).map_err(|found| {
            conflict(&owner, &self.schema, &self.key, plain(found.rows))
                .help("state a key that tells the rows apart: => target key (..), or with { on_conflict = last } or log, or { last = column }")
        })?;
        for found in self.upserts.told() {
            let error = conflict(&owner, &self.schema, &self.key, plain(found.rows));
            let told = error.diagnostic().clone();
            self.shared.tell(Diagnostic { severity: cdc_core::diagnostic::Severity::Warning, ..told });
        }
        for change in &changes {
            let size = |row: &Option<Ranked>| row.as_ref().map_or(0, |r| r.row.as_bytes().len() as i64);
            let step = i64::from(change.after.is_some()) - i64::from(change.before.is_some());
            self.seen.state_rows += step;
            self.seen.state_bytes += step * change.key.as_bytes().len() as i64;
            self.seen.state_bytes += size(&change.after) - size(&change.before);
        }
        let conflicts = self.upserts.metrics().conflicts;
        self.seen.conflicts += (conflicts - std::mem::replace(&mut self.conflicts, conflicts)) as i64;
        let row = |ranked: Option<Ranked>| ranked.map(|ranked| ranked.row);
        Ok(changes.into_iter().map(|change| (row(change.before), row(change.after))).collect())
    }
}

fn plain(rows: Vec<(Ranked, i64)>) -> Vec<(Row, i64)> {
    rows.into_iter().map(|(ranked, times)| (ranked.row, times)).collect()
}

/// Shown of the rows in a message.
const SHOWN: usize = 5;

fn conflict(owner: &str, schema: &TableSchema, key: &[usize], rows: Vec<(Row, i64)>) -> Error {
    let names: Vec<&str> = key.iter().map(|i| &*schema.columns[*i].name).collect();
    let values = rows.first().map(|(row, _)| key_of(key, row));
    let headline = match values {
        Some(values) => {
            format!("{owner}: not exactly one row of key ({}) = {values:?} is there", names.join(", "))
        }
        None => format!("{owner}: not exactly one row of a key ({}) is there", names.join(", ")),
    };
    let mut error = Error::definite(codes::VIEW_CONFLICT, headline);
    for (row, times) in rows.iter().take(SHOWN) {
        let mut text = format!("{row:?}");
        if let Some((end, _)) = text.char_indices().nth(300) {
            text.truncate(end);
            text.push_str(" ..");
        }
        error = error.note(format!("{times} times: {text}"));
    }
    if rows.len() > SHOWN {
        error = error.note(format!("and {} more", rows.len() - SHOWN));
    }
    error
}

fn key_of(key: &[usize], row: &Row) -> Row {
    if key.is_empty() { row.clone() } else { row.picked(key) }
}

/// Rows to the worker of their key; a tick's changes when it is closed. `again`: what was loaded is given out too, for a state behind this.
fn closed<'scope, C: Closing>(
    rows: Rows<'scope>,
    told: Stream<'scope, Tick, Vec<Told>>,
    name: &str,
    (schema, key): (Arc<TableSchema>, Vec<usize>),
    mut closing: C,
    again: bool,
    shared: Shared,
) -> Records<'scope> {
    let operator = name.to_owned();
    let counter = shared.counters.operators.of(name);
    rows.inner.binary_frontier::<_, CapacityContainerBuilder<Vec<Record>>, _, _, _, _>(
        told,
        Exchange::new(move |(row, ..): &(Row, Tick, isize)| hash_of(&key, row)),
        Pipeline,
        name,
        move |initial, _| {
            // Behind each of these ticks views will begin to speak: what is said then need not be at a tick of which anything comes.
            let mut waits = BTreeSet::from([shared.inputs.known().map_or(0, |known| known + 1)]);
            let mut quiet: Option<Capability<Tick>> = Some(initial);
            let mut open: BTreeMap<Tick, Vec<(Row, isize)>> = BTreeMap::new();
            let mut origins: BTreeMap<Tick, Origin> = BTreeMap::new();
            let mut held: Option<Capability<Tick>> = None;
            // what has changed since something was said of it
            let mut silent: Option<HashMap<Row, isize, foldhash::fast::FixedState>> = None;
            move |(rows, rows_frontier), (told, told_frontier), output| {
                rows.for_each(|cap, data| {
                    if let Some(new) = cap.retain_least(0)
                        && held.as_ref().is_none_or(|h| new.time() < h.time())
                    {
                        held = Some(new);
                    }
                    let mut rows = data.drain(..).peekable();
                    while let Some((row, tick, times)) = rows.next() {
                        let of_tick = open.entry(tick).or_default();
                        of_tick.push((row, times));
                        while let Some((row, _, times)) = rows.next_if(|(_, other, _)| *other == tick) {
                            of_tick.push((row, times));
                        }
                    }
                });
                told.for_each(|cap, data| {
                    for told in data.drain(..) {
                        match told {
                            Told::Origin { tick, origin, .. } => drop(origins.insert(tick, origin)),
                            Told::Emptied { tick, copied: true, .. } => {
                                waits.insert(tick);
                                if quiet.is_none() {
                                    quiet = cap.retain_least(0);
                                }
                            }
                            Told::Emptied { .. } => {}
                        }
                    }
                });
                let next = [rows_frontier.frontier().first(), told_frontier.frontier().first()]
                    .into_iter()
                    .flatten()
                    .min()
                    .copied();
                if let Some(cap) = &mut quiet {
                    let is_closed = |tick: Tick| next.is_none_or(|next| next > tick);
                    waits.retain(|wait| {
                        if is_closed(*wait) && shared.voice.speaks(*wait) {
                            // it was not what makes views silent
                            return false;
                        }
                        let Some(begin) = shared.voice.begins(*wait).filter(|begin| is_closed(*begin)) else {
                            return true;
                        };
                        open.entry(begin).or_default();
                        if held.as_ref().is_none_or(|h| cap.time() < h.time()) {
                            held = Some(cap.clone());
                        }
                        false
                    });
                    match next {
                        _ if waits.is_empty() => quiet = None,
                        Some(next) if next > *cap.time() => cap.downgrade(&next),
                        Some(_) => {}
                        None => quiet = None,
                    }
                }
                while let Some(entry) = open.first_entry() {
                    if next.is_some_and(|next| next <= *entry.key()) {
                        break;
                    }
                    let (tick, mut rows) = entry.remove_entry();
                    if shared.failure.is_set() {
                        continue;
                    }
                    // what was loaded is what every target has
                    let is_known = shared.inputs.known().is_some_and(|known| tick <= known);
                    let speaks = is_known || shared.voice.speaks(tick);
                    if !speaks || silent.is_some() {
                        let there = silent.get_or_insert_default();
                        for (row, times) in rows.drain(..) {
                            add(there, row, times);
                        }
                        if !speaks {
                            continue;
                        }
                        rows = silent.take().into_iter().flatten().collect();
                    }
                    let Some(cap) = &held else { continue };
                    let is_told = is_known && !again;
                    if is_told && !C::HOLDS {
                        continue;
                    }
                    let records_in = rows.len() as i64;
                    let changed = closing.close(tick, rows);
                    let records_out = changed.as_ref().map_or(0, Vec::len) as i64;
                    counter.add(Seen { records_in, records_out, ..closing.seen() });
                    let changed = match changed {
                        Ok(changed) => changed,
                        Err(error) => {
                            failed(&shared.failure, error, &operator);
                            continue;
                        }
                    };
                    if is_told || changed.is_empty() {
                        continue;
                    }
                    let origin = origins.get(&tick).cloned().unwrap_or_default();
                    let batch = batch(&schema, tick, origin, changed);
                    output.session(cap).give(Record::Rows {
                        worker: shared.index as u64,
                        batch: Arc::new(batch),
                        guard: Guard::default(),
                    });
                }
                match next {
                    Some(next) => {
                        if origins.first_key_value().is_some_and(|(tick, _)| *tick < next) {
                            origins = origins.split_off(&next);
                        }
                    }
                    None => origins.clear(),
                }
                match (&mut held, open.first_key_value()) {
                    (Some(cap), Some((tick, _))) => {
                        let least = next.map_or(*tick, |next| next.min(*tick));
                        if least > *cap.time() {
                            cap.downgrade(&least);
                        }
                    }
                    (Some(_), None) => held = None,
                    (None, _) => {}
                }
            }
        },
    )
}

fn add(there: &mut HashMap<Row, isize, foldhash::fast::FixedState>, row: Row, times: isize) {
    use std::collections::hash_map::Entry;
    match there.entry(row) {
        Entry::Vacant(entry) => {
            entry.insert(times);
        }
        Entry::Occupied(mut entry) => {
            *entry.get_mut() += times;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

fn batch(schema: &Arc<TableSchema>, tick: Tick, origin: Origin, changed: Vec<Changed>) -> Batch {
    let changes = changed.into_iter().zip(1..).map(|((before, after), ordinal)| Change {
        tick,
        ordinal,
        op: match (&before, &after) {
            (None, _) => Op::Insert,
            (Some(_), Some(_)) => Op::Update,
            (Some(_), None) => Op::Delete,
        },
        origin: 0,
        before,
        after,
    });
    Batch { schema: schema.clone(), origins: vec![origin], changes: changes.collect() }
}
