//! What travels between operators.

use cdc_core::connector::{TargetChange, TargetTable};
use cdc_core::event::{Batch, Origin, SchemaEvent};
use cdc_core::position::Binding;
use cdc_core::tick::Tick;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::any::Any;
use std::sync::Arc;

/// Held by everything made from what a source gave out; dropped when the last of it has been written. The source
/// driver counts what is under way by it, so a slow target slows the source down. It does not cross processes.
#[derive(Clone, Default)]
pub struct Guard {
    /// What is dropped in the end.
    pub held: Option<Arc<dyn Any + Send + Sync>>,
    /// The bytes that it stands for: those of the source's rows, whatever a flow makes of them.
    pub bytes: usize,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guard({} bytes)", self.bytes)
    }
}

impl Serialize for Guard {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.bytes.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Guard {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Guard, D::Error> {
        usize::deserialize(d).map(|bytes| Guard { held: None, bytes })
    }
}

/// From a source to the flows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Record {
    /// Changes of one table.
    Rows {
        /// The worker that is to have it.
        worker: u64,
        /// The changes.
        batch: Arc<Batch>,
        /// See [`Guard`].
        guard: Guard,
    },
    /// A schema change, alone at its tick but for rows of its own statement.
    Schema {
        /// Its place in the tick.
        ordinal: u64,
        /// The event.
        event: Arc<SchemaEvent>,
    },
    /// Everything of the tick has been sent.
    End {
        /// The tick.
        tick: Tick,
        /// What it covers.
        binding: Arc<Binding>,
    },
}

impl Record {
    /// The tick that it belongs to; `None` for rows without any.
    pub fn tick(&self) -> Option<Tick> {
        match self {
            Record::Rows { batch, .. } => batch.changes.first().map(|change| change.tick),
            Record::Schema { event, .. } => Some(event.tick),
            Record::End { tick, .. } => Some(*tick),
        }
    }
}

/// From the flows to a sink.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Routed {
    /// Changes of one target table.
    Rows {
        /// The worker that is to have it.
        worker: u64,
        /// The table.
        table: Arc<TargetTable>,
        /// Where the changes come from.
        origins: Arc<[Origin]>,
        /// The changes, in order.
        changes: Vec<TargetChange>,
        /// Changes of one key come in order, so those of an open tick may be handed on before it ends.
        in_order: bool,
        /// See [`Guard`].
        guard: Guard,
    },
    /// A schema change of a table that a flow reads.
    Schema {
        /// Its place in the tick.
        ordinal: u64,
        /// Which flow, by its index in the plan.
        flow: usize,
        /// The event.
        event: Arc<SchemaEvent>,
        /// What the flow wrote until now.
        before: Option<Arc<TargetTable>>,
        /// What it writes from now on.
        after: Option<Arc<TargetTable>>,
    },
    /// Everything of the tick has been sent.
    End {
        /// The tick.
        tick: Tick,
        /// What it covers.
        binding: Arc<Binding>,
    },
}

/// A hash that is the same in every run and process of one build: rows of one key go to one worker.
pub fn worker_of(key: &cdc_core::Row, peers: usize) -> u64 {
    use std::hash::BuildHasher;
    foldhash::fast::FixedState::with_seed(0).hash_one(key.as_bytes()) % peers as u64
}
