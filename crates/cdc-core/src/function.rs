//! The register of functions (MySQL manual chapter 14).
//!
//! One [`Function`] per function: what it is called, how it is written, what it does, and how it is bound.
//! A function is added by writing it in the file of its kind and naming it in that file's list; its page
//! in the reference, its completion and its suggestions follow from here.
//!
//! All functions here give the same result for the same arguments: a row is computed again when it is
//! deleted, and must come out as it did. Those of MySQL's that do not are in the register too, with the
//! reason why they are refused.

mod calendar;
mod conditional;
mod encode;
mod format;
mod json;
mod math;
mod number;
mod refused;
mod regex;
mod search;
mod temporal;
mod text;

pub(crate) use calendar::shifted;
pub(crate) use json::{extracted, parsed};
pub(crate) use regex::Regex;

use crate::expr::eval::{Args, Binder, BoundExpr};

/// A function.
#[derive(Debug)]
pub struct Function {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// How it is called, e.g. `round(x[, digits])`.
    pub signature: &'static str,
    /// What it does, in a line; of a refused one, what to write instead.
    pub help: &'static str,
    /// Calls over constants and what they give, as the page of functions shows them: values as they are written
    /// in an expression. A test computes them, another asks the servers.
    pub examples: &'static [(&'static str, &'static str)],
    /// `Some(reason)` where it is known and refused.
    pub refused: Option<&'static str>,
    /// The fewest and the most arguments.
    arity: (usize, Option<usize>),
    /// Types of arguments and result.
    pub(crate) bind: fn(&mut Binder<'_>, Args) -> Option<BoundExpr>,
}

impl Function {
    /// Is its second argument an interval, as in `date_add(x, interval 1 day)`?
    pub(crate) fn takes_interval(&self) -> bool {
        matches!(self.name, "date_add" | "date_sub")
    }

    /// Is its first argument a unit, as in `extract(year from x)`?
    pub(crate) fn takes_unit(&self) -> bool {
        matches!(self.name, "extract" | "timestampadd" | "timestampdiff")
    }

    /// Can it be called with so many arguments?
    pub fn takes(&self, arguments: usize) -> bool {
        arguments >= self.arity.0 && self.arity.1.is_none_or(|most| arguments <= most)
    }
}

/// All functions, by kind.
pub fn all() -> impl Iterator<Item = &'static Function> + Clone {
    [
        text::FUNCTIONS,
        search::FUNCTIONS,
        regex::FUNCTIONS,
        encode::FUNCTIONS,
        number::FUNCTIONS,
        math::FUNCTIONS,
        conditional::FUNCTIONS,
        temporal::FUNCTIONS,
        calendar::FUNCTIONS,
        format::FUNCTIONS,
        json::FUNCTIONS,
        refused::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
}

/// The function of this name, without regard to letter case.
pub fn find(name: &str) -> Option<&'static Function> {
    let is = |n: &str| n.eq_ignore_ascii_case(name);
    all().find(|f| is(f.name) || f.aliases.iter().any(|a| is(a)))
}

/// The names of all functions that can be called, other names too.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    all()
        .filter(|f| f.refused.is_none())
        .flat_map(|f| std::iter::once(f.name).chain(f.aliases.iter().copied()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_signatures_begin_with_them() {
        let mut seen = BTreeSet::new();
        for function in super::all() {
            for name in std::iter::once(&function.name).chain(function.aliases) {
                assert!(seen.insert(*name), "{name} is there twice");
                assert_eq!(*name, name.to_ascii_lowercase());
            }
            assert!(function.signature.starts_with(&format!("{}(", function.name)), "{}", function.signature);
            assert!(!function.help.is_empty());
            assert_eq!(function.examples.is_empty(), function.refused.is_some(), "{}", function.name);
        }
    }
}
