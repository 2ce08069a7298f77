//! How a source's schema changes become changes of the target.
//!
//! [`derivator::derive`] is pure: from what a statement did to the source table, the mode of the flow, and what
//! the flow wrote before and writes after, to the list of changes for the target. It is asked once per flow and
//! statement, in the order of the log, by the one committer of the sink.

pub mod coerce;
pub mod derivator;
pub mod evolved;
pub mod merge;
pub mod registry;
