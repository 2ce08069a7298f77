//! Plans as Timely dataflows.
//!
//! [`render`](render::render) builds one dataflow from a plan: a source, and per flow a chain of operators named
//! as `cdc explain` names them, into one sink operator per sink.
//!
//! ```text
//! source[src] ─► spread[src] ─► filter[..] ─► map[..] ─► route[..] ─┐
//!        │          └─────────► filter[..] ─► route[..] ────────────┴─► sink[dw] ─► (probe)
//!        └──────────── ends of ticks ────────────────────────────────────┘
//! ```
//!
//! Time is the tick, carried *in the data*: a message holds changes of several ticks and travels under the
//! least of them, since a capability per transaction costs four times the CPU. The frontier alone says what is
//! done: a sink operator keeps its capability until its ticks are committed, so the probe behind the sinks
//! passes a tick exactly when every sink has it.
//!
//! Nothing waits inside an operator: the worker's thread is the scheduler.

pub mod inputs;
pub mod metrics;
pub mod net;
pub mod record;
pub mod reference;
pub mod render;
pub mod upsert;
pub mod voice;
