//! The vocabulary of cdc: values, rows, schemas, events, positions, plans, connectors, diagnostics.
//!
//! What the words mean together: a *source* gives out whole source *transactions* of row *changes* and
//! *schema changes*, each at a *position*. The runtime cuts them into *ticks*, the job's own logical time,
//! and binds each tick to the positions it covers. *Flows* of a *plan* turn rows of source tables into rows of
//! target tables. A *sink* makes ticks visible, whole.
//!
//! Absent on purpose: IO, async, timely, drivers. Everything here is plain data and pure functions, so the
//! language, the engine and each connector meet here and nowhere else.
//!
//! Feature `serde`: the event types, positions and schemas can be serialised.

pub mod address;
pub mod catalog;
pub mod connector;
pub mod diagnostic;
pub mod error;
pub mod event;
pub mod expr;
pub mod faults;
pub mod function;
pub mod greeting;
pub mod panics;
pub mod plan;
pub mod position;
pub mod preflight;
pub mod row;
pub mod schema;
pub mod schema_change;
pub mod tick;
pub mod value;
pub mod zero_dates;

pub use diagnostic::{Code, Diagnostic, Severity, codes};
pub use error::{Error, Result};
pub use row::{Row, RowBuilder};
pub use schema::{Charset, Column, ColumnType, TableId, TableSchema};
pub use value::Value;
pub use zero_dates::ZeroDates;
