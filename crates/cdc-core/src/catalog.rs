//! What the language must know of the world, as data: connectors and their options, table schemas,
//! parameters, the environment.
//!
//! `compile(text, &Catalog) -> plan and diagnostics` has no other input, so `cdc check` needs no server, no
//! driver and no engine. Each connector exports its [`ConnectorDescriptor`]; its options are parsed,
//! documented and suggested from that one declaration.

use crate::diagnostic::Diagnostic;
use crate::schema::TableSchema;
use std::collections::BTreeMap;

/// Source or sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectorRole {
    /// Gives out changes.
    Source,
    /// Takes them.
    Sink,
}

/// A connector, as declared by its crate.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectorDescriptor {
    /// Its word in the language, e.g. `mysql`.
    pub name: &'static str,
    /// Source or sink.
    pub role: ConnectorRole,
    /// What it is, in a line.
    pub help: &'static str,
    /// Its options, in the order in which they are documented.
    pub options: Vec<OptionDescriptor>,
    /// A statement that uses it.
    pub example: &'static str,
}

/// An option of a connector.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionDescriptor {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// Must it be written?
    pub required: bool,
    /// What holds where it is not written, as it would be written.
    pub default: Option<&'static str>,
    /// What it means, in a line, with unit and range.
    pub help: &'static str,
    /// `Some(reason)` for an option that parses and is refused as not built yet.
    pub not_yet: Option<&'static str>,
}

/// What an option takes.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionKind {
    /// A text.
    Text,
    /// A name, such as a column's: a bare word, or a text in quotes.
    Name,
    /// A text that is never shown.
    Secret,
    /// A file or folder, relative to the pipeline file.
    Path,
    /// A url; `${..}` in it is percent-encoded.
    Url,
    /// A whole number in this range.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// `true` or `false`.
    Bool,
    /// A duration such as `"10s"`.
    Duration,
    /// A size such as `"16MB"`, in bytes; parsed to an integer.
    Bytes,
    /// A list of texts.
    List,
    /// One of these words, bare or quoted.
    Choice(&'static [&'static str]),
    /// One of these words, or `{ word = "text" }`, such as `start = { timestamp = ".." }`; parsed to a text
    /// or a map with one entry.
    ChoiceOrMap {
        /// The words that stand alone.
        words: &'static [&'static str],
        /// The keys of the map form, each with a text.
        keys: &'static [&'static str],
    },
    /// One of these words, or `{ word = column }`, such as `on_conflict = { last = changed_at }`; parsed to a text or a map with
    /// one entry.
    ChoiceOrColumn {
        /// The words that stand alone.
        words: &'static [&'static str],
        /// Those that may name a column.
        keys: &'static [&'static str],
    },
}

/// The world around a pipeline file.
pub trait Surroundings {
    /// A variable of the environment.
    fn environment(&self, name: &str) -> Option<String>;

    /// The tables of the CREATE TABLE statements in a file named by a source's `schema` option. A table named
    /// without a database is of `database`, the only one that the source's `tables` cover, if there is one.
    ///
    /// # Errors
    /// Diagnostics of the file, without places in the pipeline file.
    fn schema_file(&self, path: &str, database: Option<&str>) -> Result<Vec<TableSchema>, Vec<Diagnostic>>;
}

/// All that `compile` knows beside the text.
pub struct Catalog<'a> {
    /// The connectors of this build.
    pub connectors: &'a [ConnectorDescriptor],
    /// `--set name=value`.
    pub parameters: &'a BTreeMap<String, String>,
    /// The rest.
    pub surroundings: &'a dyn Surroundings,
    /// True for `check` without `--live` and for `explain`: a missing environment variable is a warning and
    /// a placeholder, not an error.
    pub lenient_environment: bool,
}
