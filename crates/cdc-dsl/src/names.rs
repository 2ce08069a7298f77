//! The sources, sinks and views of a file, by name. They share one space of names, since a flow may begin
//! with a source or a view and a reader must know which.

use crate::ast::{Name, StatementKind};
use crate::parser::Parse;
use crate::resolve::Scope;
use crate::suggest::{help_for, nearest};
use cdc_core::diagnostic::{Diagnostic, codes};
use std::collections::BTreeMap;

/// What a name stands for; the number counts the sources, sinks or views of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Source(usize),
    Sink(usize),
    View(usize),
    /// Its statement could not be read, so nothing more is said of it.
    Broken,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Source(_) => "source",
            Kind::Sink(_) => "sink",
            Kind::View(_) => "view",
            Kind::Broken => "name",
        }
    }
}

/// All names of a file.
pub(crate) struct Names<'f> {
    entries: Vec<(&'f Name, Kind)>,
    /// The place of each among them.
    places: BTreeMap<&'f str, usize>,
    /// Those whose name was taken, which was reported.
    again: Vec<(&'f Name, Kind)>,
}

impl<'f> Names<'f> {
    /// Collects them, and reports those that are defined twice.
    pub fn collect(parse: &'f Parse, scope: &mut Scope<'_>) -> Names<'f> {
        let mut names = Names { entries: Vec::new(), places: BTreeMap::new(), again: Vec::new() };
        let (mut sources, mut sinks, mut views) = (0, 0, 0);
        for statement in &parse.file.statements {
            let (name, kind) = match &statement.kind {
                StatementKind::Source(c) => {
                    sources += 1;
                    (&c.name, Kind::Source(sources - 1))
                }
                StatementKind::Sink(c) => {
                    sinks += 1;
                    (&c.name, Kind::Sink(sinks - 1))
                }
                StatementKind::View(v) => {
                    views += 1;
                    (&v.name, Kind::View(views - 1))
                }
                StatementKind::Broken { name: Some(name), keyword } if keyword != "param" => {
                    (name, Kind::Broken)
                }
                _ => continue,
            };
            names.define(name, kind, scope);
        }
        names
    }

    fn define(&mut self, name: &'f Name, kind: Kind, scope: &mut Scope<'_>) {
        if name.text.eq_ignore_ascii_case("meta") {
            scope.report(
                Diagnostic::error(codes::RESERVED_NAME, "\"meta\" is reserved for metadata of rows")
                    .at(name.span.range(), "")
                    .help(format!("give the {} another name", kind.word())),
            );
        }
        if let Some((first, _)) = self.places.get(name.text.as_str()).and_then(|i| self.entries.get(*i)) {
            scope.report(
                Diagnostic::error(codes::DUPLICATE_NAME, format!("\"{}\" is defined twice", name.text))
                    .at(name.span.range(), "again here")
                    .at(first.span.range(), "first here"),
            );
            self.again.push((name, kind));
            return;
        }
        self.places.insert(&name.text, self.entries.len());
        self.entries.push((name, kind));
    }

    /// What a name stands for, without a word about it.
    pub fn find(&self, name: &str) -> Option<Kind> {
        self.places.get(name).and_then(|i| self.entries.get(*i)).map(|(_, kind)| *kind)
    }

    /// A name that must be one of the `wanted` kinds, such as `source or view`; reports what it is instead.
    pub fn resolve(
        &self,
        name: &Name,
        wanted: &str,
        accepts: impl Fn(Kind) -> bool,
        scope: &mut Scope<'_>,
    ) -> Option<Kind> {
        match self.find(&name.text) {
            Some(Kind::Broken) => None,
            Some(kind) if accepts(kind) => Some(kind),
            // the other one of that name is meant
            Some(_) if self.again.iter().any(|(n, k)| n.text == name.text && accepts(*k)) => None,
            Some(kind) => {
                let headline = format!("\"{}\" is a {}, not a {wanted}", name.text, kind.word());
                scope.report(Diagnostic::error(codes::UNKNOWN_NAME, headline).at(name.span.range(), ""));
                None
            }
            None => {
                let fitting: Vec<&str> = self
                    .entries
                    .iter()
                    .filter(|(_, k)| accepts(*k) || *k == Kind::Broken)
                    .map(|(n, _)| n.text.as_str())
                    .collect();
                // the misspelt definition has been reported
                let broken = nearest(&name.text, fitting.iter().copied())
                    .is_some_and(|near| self.find(near) == Some(Kind::Broken));
                if !broken {
                    let headline = format!("unknown {wanted} \"{}\"", name.text);
                    let mut d = Diagnostic::error(codes::UNKNOWN_NAME, headline).at(name.span.range(), "");
                    d.help.extend(help_for(&name.text, "the file has", &fitting));
                    scope.report(d);
                }
                None
            }
        }
    }
}
