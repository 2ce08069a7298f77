//! Runs a plan: source driver, dataflow, committers, checkpoints.
//!
//! ```text
//!  MySQL ──► Capture ──► source driver ──► Timely workers ──► committer ──► target
//!            (cdc-mysql)  ticks, permits    filter, map,       one thread     rows, tick and binding
//!                         checkpoints ◄──── route, sink ◄───── per sink       in one transaction
//!                                   frontier (probe)      acknowledged
//! ```
//!
//! The whole surface: [`run`], which takes a plan and gives a report; [`StatusHandle`] to look at it meanwhile,
//! [`Stop`] to end it; [`verify`](verify::verify) to compare a target with its source,
//! [`schemas`] to see what target tables are made of.

pub mod job;
pub mod rehearsal;
pub mod schemas;
mod sink_driver;
mod source_driver;
pub mod state;
pub mod status;
pub mod supervise;
pub mod verify;
mod view_store;

pub use cdc_materialize::metrics::Seen;
pub use cdc_mysql::config::StopAt;
pub use job::{Report, RunOptions, Stop, run};
pub use source_driver::{Ended, Until};
pub use status::{Info, Message, Phase, Status, StatusHandle};

use cdc_core::catalog::ConnectorDescriptor;

/// The connectors of this build, for the language.
pub fn connectors() -> Vec<ConnectorDescriptor> {
    let mut all = vec![cdc_mysql::descriptor::descriptor()];
    all.extend(cdc_sinks::registry::descriptors());
    all
}
