//! `upsert[source.table]`: a table's changes as rows that come and go. `told[source]`: what every worker must know of a source's ticks.
//!
//! # Upserts in
//! A source says of a key what its row is from now on, or that it is gone: whole rows, or, where the log's images leave columns
//! out, some of them; a snapshot that is under way says it of rows that the log has said it of, and a replay says it again. Differential
//! collections want to be told what comes *and what goes*. So this operator keeps the row of each key, and turns what a tick
//! says of it into the row that goes and the one that comes.
//!
//! *Several changes of one key in one tick* are taken in the order of the source (their ordinals) before anything forgets it: a closed
//! tick is sorted, run through, and what each key was before it is compared with what it is behind it.
//!
//! *A table without key* is a multiset: rows come and go as the log says, and nothing need be known of them but their number, which a restart
//! and a TRUNCATE must know.
//!
//! *A table that is emptied* (TRUNCATE, DROP, a name that goes to another table, a copy that begins anew) loses all its rows at the statement's
//! place in its tick, at every worker: `told` brings it there.
//!
//! *A table of another shape*: columns are found by their names, so those that no view reads may come, go and change. One that a view reads
//! and that is gone, or whose values are of another kind, is an error: what the view's rows would be then is not what they were.

use super::{Rows, Shared, failed};
use crate::inputs::{InputChange, InputRow};
use crate::metrics::{self, Seen};
use crate::record::{Record, worker_of};
use crate::render::Records;
use cdc_core::event::{Batch, Op, Origin, SchemaEvent};
use cdc_core::plan::explain::as_written;
use cdc_core::plan::view::bind::TableInput;
use cdc_core::schema::{Column, ColumnType, TableId, TableSchema, same_name};
use cdc_core::schema_change::{self, SchemaChange};
use cdc_core::tick::Tick;
use cdc_core::{Error, Result, Row, Value, codes};
use differential_dataflow::VecCollection;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Stream;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::operator::Operator;

/// What every worker must know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Told {
    /// A table loses all its rows.
    Emptied {
        /// The worker that is told.
        worker: u64,
        /// When.
        tick: Tick,
        /// At which place.
        ordinal: u64,
        /// Which.
        table: TableId,
        /// Its rows come anew, by a copy.
        copied: bool,
    },
    /// Where a tick comes from: the last of its transactions.
    Origin {
        /// The worker that is told.
        worker: u64,
        /// The tick.
        tick: Tick,
        /// Its last origin.
        origin: Origin,
    },
}

impl Told {
    fn worker(&self) -> u64 {
        match self {
            Told::Emptied { worker, .. } | Told::Origin { worker, .. } => *worker,
        }
    }
}

/// Tells every worker which tables are emptied and where ticks come from.
pub(crate) fn told<'scope>(
    records: Records<'scope>,
    source: &str,
    peers: usize,
) -> Stream<'scope, Tick, Vec<Told>> {
    records
        .unary::<CapacityContainerBuilder<Vec<Told>>, _, _, _>(
            Pipeline,
            &format!("told[{source}]"),
            move |_, _| {
                move |input, output| {
                    input.for_each(|cap, data| {
                        let mut session = output.session(&cap);
                        for record in data.drain(..) {
                            match record {
                                Record::Rows { batch, .. } => {
                                    for (tick, origin) in last_origins(&batch) {
                                        for worker in 0..peers as u64 {
                                            let origin = origin.clone();
                                            session.give(Told::Origin { worker, tick, origin });
                                        }
                                    }
                                }
                                Record::Schema { ordinal, event } => {
                                    for (table, copied) in emptied_by(&event) {
                                        for worker in 0..peers as u64 {
                                            session.give(Told::Emptied {
                                                worker,
                                                tick: event.tick,
                                                ordinal,
                                                table: table.clone(),
                                                copied,
                                            });
                                        }
                                    }
                                }
                                Record::End { .. } => {}
                            }
                        }
                    });
                }
            },
        )
        .unary::<CapacityContainerBuilder<Vec<Told>>, _, _, _>(
            Exchange::new(Told::worker),
            &format!("tell[{source}]"),
            |_, _| move |input, output| input.for_each(|cap, data| output.session(&cap).give_container(data)),
        )
}

fn last_origins(batch: &Batch) -> Vec<(Tick, Origin)> {
    let mut out: Vec<(Tick, Origin)> = Vec::new();
    for same in batch.changes.chunk_by(|a, b| a.tick == b.tick) {
        if let Some(last) = same.last()
            && let Some(origin) = batch.origins.get(last.origin as usize)
        {
            out.push((last.tick, origin.clone()));
        }
    }
    out
}

/// The tables that lose all their rows at this, and whether their rows come anew.
fn emptied_by(event: &SchemaEvent) -> Vec<(TableId, bool)> {
    let mut out = Vec::new();
    for change in &event.changes {
        match change {
            SchemaChange::DropTable { table } | SchemaChange::TruncateTable { table } => {
                out.push((table.clone(), false));
            }
            SchemaChange::ResnapshotTable { table, .. } => out.push((table.clone(), true)),
            // a table that views read and that gets its name from another one is copied
            SchemaChange::RenameTable { table, to } => {
                out.push((table.clone(), false));
                out.push((to.clone(), true));
            }
            _ => {}
        }
    }
    out
}

/// The tables whose rows come anew behind this: views that read one of them are silent from its tick on ([`crate::voice`]).
pub fn copied_by(event: &SchemaEvent) -> Vec<TableId> {
    emptied_by(event).into_iter().filter(|(_, copied)| *copied).map(|(table, _)| table).collect()
}

/// Something that a tick says of a table.
enum Said {
    /// A change: of which key, and what its row is from then on (not all columns of an update in part).
    Row { before: Option<Row>, key: Option<Row>, after: Option<Row> },
    /// Of a table without key: a row comes or goes.
    Count { row: Row, times: i64 },
    /// All rows go.
    Emptied,
}

/// Where the columns of a view's input stand in rows of one version of the table.
struct Places {
    columns: Vec<usize>,
    key: Option<Vec<usize>>,
    /// They are all of them, in their order.
    all: bool,
}

struct State {
    input: TableInput,
    shared: Shared,
    name: String,
    /// By the address of the schema; the schema is held, so the address stays its own.
    places: HashMap<*const TableSchema, (Arc<TableSchema>, Places)>,
    rows: HashMap<Row, Row, foldhash::fast::FixedState>,
    counts: HashMap<Row, i64, foldhash::fast::FixedState>,
    open: BTreeMap<Tick, Vec<(u64, Said)>>,
    counter: Arc<metrics::Operator>,
}

pub(crate) fn table<'scope>(
    records: Records<'scope>,
    told: Stream<'scope, Tick, Vec<Told>>,
    name: &str,
    input: TableInput,
    shared: Shared,
) -> Rows<'scope> {
    let operator = name.to_owned();
    let out = records.binary_frontier::<_, CapacityContainerBuilder<Vec<(Row, Tick, isize)>>, _, _, _, _>(
        told,
        Pipeline,
        Pipeline,
        name,
        move |initial, _| {
            let mut state = State::new(input, shared, operator);
            // rows from before enter once more, at the tick of which they are
            let mut first: Option<Capability<Tick>> = Some(initial.delayed(&state.shared.start()));
            drop(initial);
            let mut held: Option<Capability<Tick>> = None;
            move |(records, records_frontier), (told, told_frontier), output| {
                if let Some(cap) = first.take() {
                    let mut session = output.session(&cap);
                    for (row, tick, times) in state.load() {
                        session.give((row, tick, times));
                    }
                }
                let hold = |held: &mut Option<Capability<Tick>>, new: Option<Capability<Tick>>| {
                    if let Some(new) = new
                        && held.as_ref().is_none_or(|h| new.time() < h.time())
                    {
                        *held = Some(new);
                    }
                };
                records.for_each(|cap, data| {
                    hold(&mut held, cap.retain_least(0));
                    for record in data.drain(..) {
                        if state.shared.failure.is_set() {
                            continue;
                        }
                        let done = match record {
                            Record::Rows { batch, guard, .. } if batch.schema.id == state.input.table => {
                                if let Some(change) = batch.changes.first() {
                                    state.shared.held.hold(change.tick, &guard);
                                }
                                state.take_in(&batch)
                            }
                            Record::Schema { event, .. } => still_reads(&state.input, &event),
                            _ => Ok(()),
                        };
                        if let Err(error) = done {
                            failed(&state.shared.failure, error, &state.name);
                        }
                    }
                });
                told.for_each(|cap, data| {
                    hold(&mut held, cap.retain_least(0));
                    for told in data.drain(..) {
                        if let Told::Emptied { tick, ordinal, table, .. } = told
                            && table == state.input.table
                        {
                            state.open.entry(tick).or_default().push((ordinal, Said::Emptied));
                        }
                    }
                });
                let next = [records_frontier.frontier().first(), told_frontier.frontier().first()]
                    .into_iter()
                    .flatten()
                    .min()
                    .copied();
                while let Some(entry) = state.open.first_entry() {
                    if next.is_some_and(|next| next <= *entry.key()) {
                        break;
                    }
                    let (tick, said) = entry.remove_entry();
                    if state.shared.failure.is_set() {
                        continue;
                    }
                    let Some(cap) = &held else { continue };
                    match state.close(tick, said) {
                        Ok(changes) => {
                            let mut session = output.session(cap);
                            for (row, times) in changes {
                                session.give((row, tick, times));
                            }
                        }
                        Err(error) => failed(&state.shared.failure, error, &state.name),
                    }
                }
                match (&mut held, state.open.first_key_value()) {
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
    );
    VecCollection::new(out)
}

impl State {
    fn new(input: TableInput, shared: Shared, name: String) -> State {
        State {
            counter: shared.counters.operators.of(&name),
            input,
            shared,
            name,
            places: HashMap::new(),
            rows: HashMap::default(),
            counts: HashMap::default(),
            open: BTreeMap::new(),
        }
    }

    /// What there was, as far as it is this worker's: with the tick at which it comes, which is that of all, or, where views are silent again, what was
    /// there when they fell silent, and behind it what has become of that.
    fn load(&mut self) -> Vec<(Row, Tick, isize)> {
        let (peers, index) = (self.shared.peers, self.shared.index as u64);
        let by_table = self
            .shared
            .by_table
            .then(|| worker_of(&Row::pack([Value::Text(self.input.table.to_string().into())]), peers));
        let is_ours = |row: &InputRow| {
            let of_row = |row: &Row| if peers == 1 { 0 } else { worker_of(row, peers) };
            by_table.unwrap_or_else(|| match row {
                InputRow::Keyed { key, .. } => of_row(key),
                InputRow::Counted { row, .. } => of_row(row),
            }) == index
        };
        let inputs = &self.shared.inputs;
        let loaded = inputs.take(&self.input.table, is_ours);
        let said = inputs.take_said(&self.input.table, is_ours);
        let (first, now) = (inputs.enter(), if said.is_some() { inputs.tick() } else { inputs.enter() });
        let row_of = |row: &InputRow| match row {
            InputRow::Keyed { row, .. } => (row.clone(), 1),
            InputRow::Counted { row, times } => (row.clone(), *times as isize),
        };
        // by row: what has not changed is said once, and not taken back
        let mut before: HashMap<Row, isize, foldhash::fast::FixedState> = HashMap::default();
        let mut out = Vec::with_capacity(loaded.len());
        for (row, times) in said.into_iter().flatten().map(|row| row_of(&row)) {
            out.push((row.clone(), first, times));
            *before.entry(row).or_default() += times;
        }
        let mut seen = Seen::default();
        for row in loaded {
            let (packed, times) = row_of(&row);
            if now == first {
                out.push((packed.clone(), now, times));
            } else {
                *before.entry(packed.clone()).or_default() -= times;
            }
            seen.state_rows += times as i64;
            seen.state_bytes += times as i64 * bytes(&packed);
            match row {
                InputRow::Keyed { key, row } => {
                    seen.state_bytes += bytes(&key);
                    self.rows.insert(key, row);
                }
                InputRow::Counted { row, times } => {
                    self.counts.insert(row, times);
                }
            }
        }
        out.extend(
            before.into_iter().filter(|(_, times)| *times != 0).map(|(row, times)| (row, now, -times)),
        );
        seen.records_out = out.len() as i64;
        self.counter.add(seen);
        out
    }

    fn take_in(&mut self, batch: &Arc<Batch>) -> Result<()> {
        let pointer = Arc::as_ptr(&batch.schema);
        if !self.places.contains_key(&pointer) {
            // versions that came and went are not kept for ever
            if self.places.len() > 64 {
                self.places.clear();
            }
            let origin = batch.changes.first().and_then(|c| batch.origins.get(c.origin as usize));
            let places =
                places(&self.input, &batch.schema).map_err(|e| match origin.and_then(Origin::place) {
                    Some(place) => e.note(place),
                    None => e,
                })?;
            self.places.insert(pointer, (batch.schema.clone(), places));
        }
        let Some((_, places)) = self.places.get(&pointer) else { return Ok(()) };
        for change in &batch.changes {
            let before = change.before.as_ref().filter(|_| matches!(change.op, Op::Update | Op::Delete));
            let after = change.after.as_ref().filter(|_| change.op != Op::Delete);
            let open = self.open.entry(change.tick).or_default();
            if places.key.is_none() {
                for (row, times) in [(before, -1), (after, 1)] {
                    if let Some(row) = row {
                        let row = places.row(row);
                        if row.has_absent() {
                            return Err(in_part(&self.input.table, batch, change.origin));
                        }
                        open.push((change.ordinal, Said::Count { row, times }));
                    }
                }
                continue;
            }
            let (before, key) = places.keys_of(before, after);
            open.push((change.ordinal, Said::Row { before, key, after: after.map(|row| places.row(row)) }));
        }
        Ok(())
    }

    /// What a tick has made of the rows: those that go and those that come.
    fn close(&mut self, tick: Tick, mut said: Vec<(u64, Said)>) -> Result<Vec<(Row, isize)>> {
        let seen = Seen { records_in: said.len() as i64, ..Seen::default() };
        // Room for rows that are new, which also has what is held of the others fetched, several at a time: see `Upserts::close`.
        let is_held =
            |said: &Said| matches!(said, Said::Row { key: Some(key), .. } if self.rows.contains_key(key));
        let held = said.iter().filter(|(_, said)| is_held(said)).count();
        if self.input.key.is_some() {
            self.rows.reserve(said.len() - held);
        }
        if said.iter().all(|(_, said)| said.is_simple()) {
            return Ok(self.put(tick, said, seen));
        }
        said.sort_by_key(|(ordinal, _)| *ordinal);
        // of each key the row in front of the tick
        let mut touched: HashMap<Row, Option<Row>, foldhash::fast::FixedState> =
            HashMap::with_capacity_and_hasher(said.len(), foldhash::fast::FixedState::default());
        let mut counted: HashMap<Row, i64, foldhash::fast::FixedState> = HashMap::default();
        for (_, said) in said {
            match said {
                Said::Emptied => {
                    for (key, row) in self.rows.drain() {
                        touched.entry(key).or_insert(Some(row));
                    }
                    for (row, times) in self.counts.drain() {
                        *counted.entry(row).or_default() -= times;
                    }
                }
                Said::Count { row, times } => {
                    *counted.entry(row.clone()).or_default() += times;
                    let count = self.counts.entry(row).or_default();
                    *count += times;
                }
                // the row stays under its key, whole: what most changes are
                Said::Row { before: Some(before), key: Some(key), after: Some(after) }
                    if before == key && !after.has_absent() =>
                {
                    let old = match self.rows.get_mut(&key) {
                        Some(row) => Some(std::mem::replace(row, after)),
                        None => self.rows.insert(key.clone(), after),
                    };
                    touched.entry(key).or_insert(old);
                }
                Said::Row { before, key, after } => {
                    // the row that the change is of, before it
                    let old = match &before {
                        Some(before) => self.rows.remove(before).map(|row| (before.clone(), row)),
                        None => None,
                    };
                    if let Some((old_key, row)) = &old {
                        touched.entry(old_key.clone()).or_insert_with(|| Some(row.clone()));
                    }
                    let (Some(key), Some(after)) = (key, after) else { continue };
                    let under_key = self.rows.get(&key).cloned();
                    let row = if after.has_absent() {
                        // what the image leaves out is as it was; a row that a snapshot has not brought yet comes whole
                        let known = old.map(|(_, row)| row).or_else(|| under_key.clone());
                        match known {
                            Some(known) => known.overlaid(&after),
                            None => continue,
                        }
                    } else {
                        after
                    };
                    touched.entry(key.clone()).or_insert(under_key);
                    self.rows.insert(key, row);
                }
            }
        }
        let mut made = Made { seen, out: Vec::new(), noted: Vec::new() };
        for (key, before) in touched {
            let now = self.rows.get(&key).cloned();
            made.add(key, before, now);
        }
        let Made { mut seen, mut out, mut noted } = made;
        for (row, times) in counted {
            let now = self.counts.get(&row).copied().unwrap_or(0);
            if now == 0 {
                self.counts.remove(&row);
            }
            if times == 0 {
                continue;
            }
            seen.state_rows += times;
            seen.state_bytes += times * bytes(&row);
            out.push((row.clone(), times as isize));
            noted.push(InputChange::Counted { row, times });
        }
        Ok(self.told(tick, Made { seen, out, noted }))
    }

    /// As [`State::close`], of changes that are simple: of each key the last one counts, and what it was before is what is held. So they are
    /// brought together by their keys, by hash, and each key is looked up once.
    fn put(&mut self, tick: Tick, said: Vec<(u64, Said)>, seen: Seen) -> Vec<(Row, isize)> {
        let mut places: Vec<(u64, u64, usize)> = Vec::with_capacity(said.len());
        let mut puts: Vec<Option<(Row, Option<Row>)>> = Vec::with_capacity(said.len());
        for (ordinal, said) in said {
            let Said::Row { before, key, after } = said else { continue };
            let Some(key) = key.or(before) else { continue };
            places.push((self.rows.hasher().hash_one(&key), ordinal, puts.len()));
            puts.push(Some((key, after)));
        }
        places.sort_unstable();
        let mut made =
            Made { seen, out: Vec::with_capacity(2 * puts.len()), noted: Vec::with_capacity(puts.len()) };
        for of_hash in places.chunk_by(|(hash, ..), (other, ..)| hash == other) {
            for (n, (.., place)) in of_hash.iter().enumerate() {
                // with one of its key in front of it, else
                let Some((key, mut row)) = puts[*place].take() else { continue };
                for (.., later) in &of_hash[n + 1..] {
                    if let Some((_, last)) = puts[*later].take_if(|(other, _)| *other == key) {
                        row = last;
                    }
                }
                let before = match &row {
                    Some(row) => match self.rows.get_mut(&key) {
                        Some(held) => Some(std::mem::replace(held, row.clone())),
                        None => self.rows.insert(key.clone(), row.clone()),
                    },
                    None => self.rows.remove(&key),
                };
                made.add(key, before, row);
            }
        }
        self.told(tick, made)
    }

    /// Notes what a tick has made, and gives what goes on.
    fn told(&self, tick: Tick, made: Made) -> Vec<(Row, isize)> {
        self.counter.add(Seen { records_out: made.out.len() as i64, ..made.seen });
        self.shared.inputs.note(tick, &self.input.table, made.noted);
        made.out
    }
}

impl Said {
    /// Does it leave a row under its key, or take it away, and say all of its columns? That is what most changes are.
    fn is_simple(&self) -> bool {
        match self {
            Said::Row { before, key: Some(key), after: Some(after) } => {
                before.as_ref().is_none_or(|before| before == key) && !after.has_absent()
            }
            Said::Row { key: None, after: None, .. } => true,
            _ => false,
        }
    }
}

/// What a tick makes of a table's rows.
struct Made {
    seen: Seen,
    /// Those that go and those that come.
    out: Vec<(Row, isize)>,
    /// For the state folder.
    noted: Vec<InputChange>,
}

impl Made {
    fn add(&mut self, key: Row, before: Option<Row>, now: Option<Row>) {
        if before == now {
            return;
        }
        let size = |row: Option<&Row>| row.map_or(0, |row| bytes(&key) + bytes(row));
        self.seen.state_rows += i64::from(now.is_some()) - i64::from(before.is_some());
        self.seen.state_bytes += size(now.as_ref()) - size(before.as_ref());
        self.out.extend(before.map(|row| (row, -1)));
        self.out.extend(now.iter().map(|row| (row.clone(), 1)));
        self.noted.push(InputChange::Keyed { row: now, key });
    }
}

fn bytes(row: &Row) -> i64 {
    row.as_bytes().len() as i64
}

impl Places {
    fn row(&self, row: &Row) -> Row {
        if self.all { row.clone() } else { row.picked(&self.columns) }
    }

    /// The keys of a row before a change and behind it.
    fn keys_of(&self, before: Option<&Row>, after: Option<&Row>) -> (Option<Row>, Option<Row>) {
        let Some(key) = &self.key else { return (None, None) };
        match (before, after) {
            (Some(before), Some(after)) if before.agrees(after, key) => {
                let same = after.picked(key);
                (Some(same.clone()), Some(same))
            }
            _ => (before.map(|row| row.picked(key)), after.map(|row| row.picked(key))),
        }
    }
}

/// `mend` is what to do about it in the file.
fn changed(what: String, mend: String) -> Error {
    Error::definite(codes::VIEW_COLUMN_CHANGED, what)
        .note("a view's columns are those that its tables had when the pipeline started first")
        .help(format!("{mend}, and begin anew: remove the state folder and the targets' tables and progress"))
}

/// A column is not there any more.
fn gone(input: &TableInput, column: &str, how: &str, mend: impl Fn(&str) -> String) -> Error {
    let (readers, verb) = input.read_by(Some(column));
    let table = &input.table;
    changed(
        format!("column \"{column}\" of table \"{table}\" is {how}, and {readers} {verb} it"),
        mend(&readers),
    )
}

/// Is the table behind a statement one that the view still reads? Columns are found by their names, so one that goes must be noticed when it does:
/// another one may take its name, of a type that is like it, and be something else.
fn still_reads(input: &TableInput, event: &SchemaEvent) -> Result<()> {
    let reads = |column: &str| input.columns.iter().any(|c| same_name(&c.name, column));
    let at = |error: Error| match event.origin.place() {
        Some(place) => error.note(place).note(format!("the statement: {}", event.statement)),
        None => error,
    };
    for change in schema_change::told(&event.changes).iter().filter(|change| *change.table() == input.table) {
        match change {
            SchemaChange::DropColumn { column, .. } if reads(column) => {
                let name = as_written(column);
                return Err(at(gone(input, column, "dropped", |views| {
                    format!("take {name} out of {views}")
                })));
            }
            SchemaChange::RenameColumn { column, to, .. } if reads(column) => {
                let (from, name) = (as_written(column), as_written(to));
                return Err(at(gone(input, column, &format!("renamed to \"{to}\""), |views| {
                    format!(
                        "in {views} write {name} for {from} (or {name} as {from}, where other views and targets are to keep the name)"
                    )
                })));
            }
            _ => {}
        }
    }
    match &event.after {
        Some(after) if after.id == input.table => places(input, after).map(drop).map_err(at),
        _ => Ok(()),
    }
}

/// Where the columns stand now.
fn places(input: &TableInput, schema: &TableSchema) -> Result<Places> {
    let place = |name: &str| schema.columns.iter().position(|c| same_name(&c.name, name));
    let mut columns = Vec::new();
    for column in &input.columns {
        let Some(index) = place(&column.name) else {
            let name = as_written(&column.name);
            return Err(gone(input, &column.name, "gone", |views| format!("take {name} out of {views}")));
        };
        let now = &schema.columns[index];
        if !is_alike(column, now) {
            let (was, is) = (column.ty.to_string(), now.ty.to_string());
            // where the names of the types are the same, what tells texts apart is not
            let collation = |ty: &ColumnType| match ty.charset().filter(|_| was == is) {
                Some(charset) => format!(" collate {}", charset.collation),
                None => String::new(),
            };
            let (readers, verb) = input.read_by(Some(&column.name));
            return Err(changed(
                format!(
                    "column \"{}\" of table \"{}\" was {was}{} and is {is}{}, and {readers} {verb} it",
                    column.name,
                    input.table,
                    collation(&column.ty),
                    collation(&now.ty)
                ),
                format!("see whether the new type is what {readers} should compute with"),
            ));
        }
        columns.push(index);
    }
    let key = match &input.key {
        None => None,
        Some(names) => {
            let key: Option<Vec<usize>> = names.iter().map(|name| place(name)).collect();
            // in its order too: by it rows have their workers
            let is_key = |k: &Vec<usize>| schema.key() == Some(k.as_slice());
            match key.filter(is_key) {
                Some(key) => Some(key),
                None => {
                    let (readers, verb) = input.read_by(None);
                    let table = &input.table;
                    return Err(changed(
                        format!(
                            "the key of table \"{table}\" is another one, and {readers} {verb} its rows by it"
                        ),
                        format!("see that {readers} and its flows have the key that they should"),
                    ));
                }
            }
        }
    };
    let all =
        columns.len() == schema.columns.len() && columns.iter().enumerate().all(|(i, column)| i == *column);
    Ok(Places { columns, key, all })
}

/// Do values of a column mean to views what they meant?
fn is_alike(before: &Column, now: &Column) -> bool {
    use ColumnType::{Binary, Blob, Char, Decimal, Enum, Int, Set, Text, VarBinary, VarChar};
    match (&before.ty, &now.ty) {
        (a, b) if a == b => true,
        (Int { unsigned: a, .. }, Int { unsigned: b, .. }) => a == b,
        (Decimal { scale: a, .. }, Decimal { scale: b, .. }) => a == b,
        (VarChar { .. } | Char { .. } | Text { .. }, VarChar { .. } | Char { .. } | Text { .. }) => {
            before.ty.charset().map(|c| &c.collation) == now.ty.charset().map(|c| &c.collation)
        }
        (VarBinary { .. } | Blob { .. }, VarBinary { .. } | Blob { .. }) => true,
        (Binary { length: a }, Binary { length: b }) => a == b,
        // labels at the end, which the ones before keep their numbers of
        (Enum { labels: a, .. }, Enum { labels: b, .. }) | (Set { labels: a, .. }, Set { labels: b, .. }) => {
            b.starts_with(a)
        }
        _ => false,
    }
}

fn in_part(table: &TableId, batch: &Batch, origin: u32) -> Error {
    let error = Error::definite(
        codes::PARTIAL_IMAGE,
        format!("a row image of table \"{table}\" does not hold all columns, and nothing else identifies the row"),
    )
    .help("set binlog_row_image = FULL at the source, in every session that sets its own too; then copy the table anew");
    match batch.origins.get(origin as usize).and_then(Origin::place) {
        Some(place) => error.note(place),
        None => error,
    }
}
