//! `source[name]`: gives out what a source driver sends; `spread[name]`: rows to workers by the source's key, or by the
//! whole row where there is none.

use crate::record::{Guard, Record, worker_of};
use crate::render::flow::moved_in_part;
use crate::render::{Failure, Records, activator};
use cdc_core::event::{Batch, Change, Op};
use cdc_core::tick::Tick;
use cdc_core::{Result, Row, Value};
use std::sync::Arc;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::{Exchange, Pipeline};
use timely::dataflow::operators::generic::operator::{Operator, source as source_operator};
use timely::scheduling::SyncActivator;

/// Where a source operator gets its records. Lives on worker 0.
pub trait SourcePort: 'static {
    /// Called once, with what wakes the operator.
    fn connect(&mut self, activator: SyncActivator);

    /// The first tick that will be given out: nothing of an earlier one will come.
    fn first(&self) -> Tick;

    /// The next record; `Ok(None)` if there is none now, `Err(())` if there will never be one again.
    ///
    /// # Errors
    /// The end of the source.
    #[allow(clippy::result_unit_err)]
    fn poll(&mut self) -> std::result::Result<Option<Record>, ()>;
}

/// Records before the operator gives the others a turn.
const TURN: usize = 64;

pub(crate) fn source<'scope>(
    scope: &Scope<'scope, Tick>,
    name: &str,
    port: Option<Box<dyn SourcePort>>,
) -> Records<'scope> {
    let for_wake = *scope;
    source_operator::<_, CapacityContainerBuilder<Vec<Record>>, _, _>(
        *scope,
        &format!("source[{name}]"),
        move |capability, info| {
            let mut port = port;
            if let Some(port) = &mut port {
                port.connect(activator(&for_wake, &info.address));
            }
            // other workers give out nothing: without a capability they hold no frontier back
            let mut capability = port.is_some().then_some(capability);
            // so that everybody knows at once which tick is the lowest one open, before any has ended
            if let (Some(cap), Some(port)) = (&mut capability, &port) {
                cap.downgrade(&port.first());
            }
            let again = for_wake.activator_for(info.address.clone());
            move |output| {
                let (Some(cap), Some(port)) = (&mut capability, &mut port) else { return };
                let mut ended = false;
                for _ in 0..TURN {
                    match port.poll() {
                        Ok(None) => return,
                        Ok(Some(record)) => {
                            // Ticks ascend, and the first one of a run is not 0: that nothing comes for those
                            // before it must be known while it is open, or it could not be written in parts.
                            let tick = record.tick();
                            if let Some(tick) = tick.filter(|t| t > cap.time()) {
                                cap.downgrade(&tick);
                            }
                            let ends = matches!(record, Record::End { .. });
                            output.session(&*cap).give(record);
                            if let Some(tick) = tick.filter(|_| ends) {
                                cap.downgrade(&(tick + 1));
                            }
                        }
                        Err(()) => {
                            ended = true;
                            break;
                        }
                    }
                }
                if ended {
                    capability = None;
                } else {
                    again.activate();
                }
            }
        },
    )
}

/// Each worker gets the rows whose source key is its own. With one worker this is nothing.
///
/// `by_table`: all rows of a table go to one worker. So it is where the log's images need not hold all columns: a row that
/// moves to another key takes what its image lacks from what is known of the old one.
pub(crate) fn spread<'scope>(
    records: Records<'scope>,
    name: &str,
    peers: usize,
    by_table: bool,
    failure: &Arc<Failure>,
) -> Records<'scope> {
    if peers == 1 {
        return records;
    }
    let failure = failure.clone();
    records
        .unary::<CapacityContainerBuilder<Vec<Record>>, _, _, _>(
            Pipeline,
            &format!("spread[{name}]"),
            move |_, _| {
                move |input, output| {
                    input.for_each(|cap, data| {
                        let mut session = output.session(&cap);
                        for record in data.drain(..) {
                            match record {
                                Record::Rows { batch, guard, .. } if by_table => {
                                    let table = batch.schema.id.to_string();
                                    let worker = worker_of(&Row::pack([Value::Text(table.into())]), peers);
                                    session.give(Record::Rows { worker, batch, guard });
                                }
                                Record::Rows { batch, guard, .. } => match split(&batch, &guard, peers) {
                                    Ok(parts) => parts.into_iter().for_each(|part| session.give(part)),
                                    Err(error) => failure.set(error),
                                },
                                other => session.give(other),
                            }
                        }
                    });
                }
            },
        )
        .unary::<CapacityContainerBuilder<Vec<Record>>, _, _, _>(
            Exchange::new(|record: &Record| match record {
                Record::Rows { worker, .. } => *worker,
                _ => 0,
            }),
            &format!("exchange[{name}]"),
            |_, _| {
                move |input, output| {
                    input.for_each(|cap, data| output.session(&cap).give_container(data));
                }
            },
        )
}

/// A batch by workers. A change that moves a row to another key becomes a delete and an insert, each with the
/// worker of its key. Where nothing identifies a row the whole row stands for the key: equal rows are with one
/// worker, so it sees each of them come before one of them goes.
fn split(batch: &Arc<Batch>, guard: &Guard, peers: usize) -> Result<Vec<Record>> {
    let key = batch.schema.key();
    let worker_of = |row: &Row| match key {
        Some(key) => worker_of(&Row::pack(key.iter().map(|&i| row.get(i))), peers),
        None => worker_of(row, peers),
    };
    let mut parts: Vec<Vec<Change>> = vec![Vec::new(); peers];
    for change in &batch.changes {
        let before = change.before.as_ref().map(worker_of);
        let after = change.after.as_ref().map(worker_of);
        match (before, after) {
            (Some(b), Some(a)) if a != b => {
                if change.after.as_ref().is_some_and(Row::has_absent) {
                    let origin = &batch.origins[change.origin as usize];
                    return Err(moved_in_part(&batch.schema.id, origin));
                }
                parts[b as usize].push(Change { op: Op::Delete, after: None, ..change.clone() });
                parts[a as usize].push(Change { op: Op::Insert, before: None, ..change.clone() });
            }
            (Some(w), _) | (None, Some(w)) => parts[w as usize].push(change.clone()),
            (None, None) => {}
        }
    }
    Ok(parts
        .into_iter()
        .enumerate()
        .filter(|(_, changes)| !changes.is_empty())
        .map(|(worker, changes)| Record::Rows {
            worker: worker as u64,
            batch: Arc::new(Batch { schema: batch.schema.clone(), origins: batch.origins.clone(), changes }),
            guard: guard.clone(),
        })
        .collect())
}
