//! How a source's schema changes become changes of the target.
//!
//! [`derivator::derive`] is pure: from what a statement did to the source table, the mode of the flow, and what
//! the flow wrote before and writes after, to the list of changes for the target. It is asked once per flow and
//! statement, in the order of the log, by the one committer of the sink. The [`registry`] says when that may be, holds what
//! target tables have become ([`evolved`]), and [`coerce`] makes rows fit them, by the types of [`merge`].
//!
//! No thread, no clock, no driver: the example `derive_schema` uses it without the rest.

pub mod coerce;
pub mod copied;
pub mod derivator;
pub mod evolved;
pub mod merge;
pub mod registry;
