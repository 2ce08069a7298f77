//! Checks that need more than one statement: columns against tables, keys, targets, views.

mod columns;
mod nulls;
mod tables;
mod targets;
mod views;

pub(crate) use tables::{as_given, covered, flow, unknown_table};
pub(crate) use targets::targets;
pub(crate) use views::{Views, never_in_conflict, types, unread, views};
