//! Checks that need more than one statement: columns against tables, keys, targets, views, tests.

mod columns;
mod tables;
mod targets;
mod tests;
mod views;

pub(crate) use tables::{covered, flow};
pub(crate) use targets::targets;
pub(crate) use tests::tests;
pub(crate) use views::views;
