//! Regular expressions.

use super::Function;

/// A regular expression, compiled.
#[derive(Debug)]
pub(crate) struct Regex;

pub(super) const FUNCTIONS: &[Function] = &[];
