//! The `.cdc` language: parser, formatter, checker, and lowering to a plan.
//!
//! ```text
//! text ─ lexer ─► tokens ─ parser ─► syntax tree ─┬─ format ─► text in its canonical layout
//!                                                 └─ resolve, lower, check ─► plan, diagnostics ─ report ─► text, JSON
//! ```
//!
//! [`compile`] has no other input than the text and a [`Catalog`]: connectors, schemas, parameters and the
//! environment come in as data, so checking a file needs no server, no driver and no engine. It never
//! panics, on any text, and says all that is wrong in one go, each mistake once, at its place.
//!
//! ```
//! use cdc_core::catalog::{Catalog, ConnectorDescriptor, ConnectorRole, Surroundings};
//! use cdc_core::{Diagnostic, TableSchema};
//! use cdc_dsl::report::{Style, render};
//!
//! struct Nowhere;
//! impl Surroundings for Nowhere {
//!     fn environment(&self, _: &str) -> Option<String> {
//!         None
//!     }
//!     fn schema_file(&self, _: &str, _: Option<&str>) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
//!         Ok(Vec::new())
//!     }
//! }
//!
//! // each connector's crate has its own
//! let connector = |name, role| ConnectorDescriptor { name, role, help: "", options: vec![], example: "" };
//! let connectors = [connector("nothing", ConnectorRole::Source), connector("null", ConnectorRole::Sink)];
//! let catalog = Catalog {
//!     connectors: &connectors,
//!     parameters: &Default::default(),
//!     surroundings: &Nowhere,
//!     lenient_environment: false,
//! };
//! let text = "pipeline { name = \"shop\" }\nsource src = nothing\nsink dw = null\nscr.* => dw.*\n";
//! let compiled = cdc_dsl::compile(text, &catalog);
//! assert!(compiled.plan.is_none());
//! let shown = render(&compiled.diagnostics, "shop.cdc", text, Style::default());
//! assert!(shown.starts_with("error[E0201]: unknown source or view \"scr\"\n --> shop.cdc:4:1\n"));
//! assert!(shown.contains("help: did you mean \"src\"?"));
//!
//! let compiled = cdc_dsl::compile(&text.replace("scr", "src"), &catalog);
//! assert_eq!(compiled.plan.unwrap().flows[0].name, "src.* => dw.*");
//! ```
//!
//! Absent on purpose: IO (the caller reads files and prints reports) and everything about running.

pub mod ast;
mod check;
mod format;
mod lexer;
mod lower;
mod names;
mod options;
mod parser;
pub mod report;
mod resolve;
mod suggest;
mod token;
mod values;

pub use format::format;

use cdc_core::catalog::Catalog;
use cdc_core::diagnostic::Diagnostic;
use cdc_core::plan::Plan;

/// What [`compile`] gives.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// The plan; `None` if there is an error among the diagnostics.
    pub plan: Option<Plan>,
    /// All that is to be said, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads, checks and lowers a pipeline file.
pub fn compile(text: &str, catalog: &Catalog<'_>) -> Compiled {
    let parse = parser::parse(text);
    let (plan, checked) = lower::lower(text, &parse, catalog);
    let mut diagnostics = parse.diagnostics;
    diagnostics.extend(checked);
    // what has no place in the file comes first
    diagnostics.sort_by_key(|d| d.labels.first().map_or(0, |l| l.span.start));
    Compiled { plan, diagnostics }
}

/// Reads a text into its syntax tree, without checking any name in it.
///
/// # Errors
/// What is wrong with the text's syntax.
pub fn parse(text: &str) -> Result<ast::File, Vec<Diagnostic>> {
    let parse = parser::parse(text);
    if parse.diagnostics.is_empty() { Ok(parse.file) } else { Err(parse.diagnostics) }
}
