//! Row images without all columns: what is known of the row all the same.
//!
//! Under `binlog_row_image = FULL` an image has every column. What the servers write under the other settings was measured
//! on MySQL 9.7.4, MariaDB 10.11.19 and 11.8.9 ("key": the primary key, else the first unique not null one):
//!
//! | image | MySQL | MariaDB |
//! |---|---|---|
//! | MINIMAL, INSERT | the columns that the statement or a trigger names, and those whose default is no constant (CURRENT_TIMESTAMP, an expression, AUTO_INCREMENT), and generated ones | the same, but of generated columns only STORED ones |
//! | MINIMAL, before an UPDATE or DELETE | the key; without a key all columns | the same |
//! | MINIMAL, after an UPDATE | what the statement or the server (ON UPDATE) has *changed*, generated columns among them | what the statement *names*; STORED columns all (11.8: no generated column at all) |
//! | NOBLOB, INSERT | as MINIMAL of BLOB and TEXT columns, all others | the same |
//! | NOBLOB, before | all but BLOB and TEXT columns, those of the key and JSON there too; without a key all | the same, but (11.8) no generated column |
//! | NOBLOB, after an UPDATE | all but the BLOB and TEXT columns that have not changed | all but the BLOB and TEXT columns that the statement does not name; 11.8: no generated one |
//! | a table with BEFORE INSERT triggers | INSERT: all columns | the same |
//! | a system-versioned table | | images after have all columns, those before the key and the end of the row's time |
//! | INSERT .. ON DUPLICATE KEY UPDATE | the UPDATE has all columns after | what both parts name; a column that is left out has not changed |
//! | REPLACE, where it changes a row in its place | the UPDATE has all columns after | *what the statement names: a column that is left out has got its default* |
//! | PARTIAL_JSON | differences in place of a JSON value after, see [`crate::decode::json::diff`] | |
//!
//! So a column that is absent
//! - in an INSERT has its default, which is a constant ([`default_value`]) or cannot be told;
//! - after an UPDATE is what it was: the value of the image before if that has it, else it stays [`Value::Absent`];
//! - before a DELETE or UPDATE is not known, and stays absent.
//!
//! The exceptions are [`Unknown`]: a column that has, or may have, another value which the log does not tell. While its
//! table is copied the row is read again (as `snapshot::reconcile` tells); of a table that is whole there is nothing to do
//! but stop. *MariaDB's REPLACE* is the bad one: nothing in an image says that it comes of a REPLACE (its own replicas
//! differ from it then). It can only come of one if it conflicts in a unique key, with the values that it names or
//! with defaults; where no key of the table can (`Completion::may_replace`), a column that is left out has not changed.
//! Else the text of the statement is looked at (`binlog::statements`): what a REPLACE leaves out has its default.
//!
//! [`Value::Absent`]: cdc_core::Value::Absent

use super::rows::{Change, RowsKind};
use crate::ddl::Index;
use crate::decode::default::default_value;
use cdc_core::diagnostic::codes;
use cdc_core::schema::{ColumnType, TableSchema, same_name};
use cdc_core::{Error, Result, Row, RowBuilder, Value};
use std::sync::Arc;

/// A column of a row has, or may have, got another value that the log does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    /// The column, by index.
    pub column: u16,
    /// Why.
    pub why: Why,
}

/// Why the log does not tell a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It holds the difference to a document that it does not hold.
    Difference,
    /// It is left out, and may have got its default by a REPLACE (MariaDB).
    Replace,
    /// It is computed from others, and left out (MariaDB).
    Generated,
    /// It is left out of an INSERT, and its default is no constant, or not known.
    Default,
    /// It is left out, and may be generated: what is known of the table is what the log's metadata tells (MariaDB).
    Past,
}

impl Unknown {
    /// What is wrong, for a table that is whole: `place` is where.
    pub fn error(self, table: &TableSchema, place: &str) -> Error {
        let column = table.columns.get(usize::from(self.column)).map_or("", |c| &*c.name);
        let id = &table.id;
        let (headline, note) = match self.why {
            Why::Difference => (
                format!(
                    "the log holds a partial update of the JSON column \"{column}\" of table \"{id}\", and not the document before"
                ),
                "binlog_row_value_options = PARTIAL_JSON needs binlog_row_image = FULL to be followed",
            ),
            Why::Replace => (
                format!(
                    "an update of table \"{id}\" leaves out column \"{column}\", and may come of a REPLACE"
                ),
                "under binlog_row_image = MINIMAL and NOBLOB MariaDB leaves out columns that a REPLACE has set to their default, as it does with columns that have not changed; the log holds no text of the statement that names the table (binlog_annotate_row_events = OFF, a trigger, a function)",
            ),
            Why::Generated => (
                format!("a change of table \"{id}\" leaves out its generated column \"{column}\""),
                "under binlog_row_image = MINIMAL MariaDB leaves out VIRTUAL columns, whatever they have become",
            ),
            Why::Default => (
                format!(
                    "a new row of table \"{id}\" leaves out column \"{column}\", whose default is not known, or no constant"
                ),
                "under binlog_row_image = MINIMAL and NOBLOB an INSERT leaves out columns that it does not name; a log of the past does not tell their defaults",
            ),
            Why::Past => (
                format!(
                    "a change of table \"{id}\" leaves out column \"{column}\", which may be a generated one"
                ),
                "under binlog_row_image = MINIMAL MariaDB leaves out VIRTUAL columns, and a log of the past does not tell which are",
            ),
        };
        let mend = match self.why {
            Why::Difference => "SET PERSIST binlog_row_value_options = '', or binlog_row_image = FULL",
            _ => "SET GLOBAL binlog_row_image = FULL (and in the server's option file)",
        };
        Error::definite(codes::PARTIAL_IMAGE, headline)
            .note(place.to_owned())
            .note(note)
            .help(format!("{mend}, also in every session that sets its own; then copy the table anew"))
    }
}

/// What is added to the images of one table.
#[derive(Debug, Clone)]
pub(super) struct Completion {
    schema: Arc<TableSchema>,
    key: Vec<usize>,
    mariadb: bool,
    /// Generated columns are in no image and count for nothing.
    without_generated: bool,
    /// Rows of one value.
    defaults: Vec<Option<Row>>,
    /// Of MariaDB: the columns of each unique key; `None`: not known.
    unique: Option<Vec<Vec<usize>>>,
    past: bool,
}

impl Completion {
    /// `past`: what is known of the table may be what the log's metadata tells (see [`super::metadata`]), which is
    /// neither defaults nor which columns are generated.
    pub(super) fn new(
        schema: &Arc<TableSchema>,
        indexes: Option<&[Index]>,
        mariadb: bool,
        without_generated: bool,
        past: bool,
    ) -> Completion {
        let columns_of = |index: &Index| -> Option<Vec<usize>> {
            let column = |name: &Arc<str>| schema.columns.iter().position(|c| same_name(&c.name, name));
            index.parts.iter().map(|part| part.column.as_ref().and_then(column)).collect()
        };
        let unique = indexes.and_then(|indexes| {
            let mut keys: Vec<Vec<usize>> =
                indexes.iter().filter(|i| i.unique).map(columns_of).collect::<Option<_>>()?;
            if !schema.primary_key.is_empty() {
                keys.push(schema.primary_key.clone());
            }
            Some(keys)
        });
        Completion {
            key: schema.key().unwrap_or_default().to_vec(),
            mariadb,
            without_generated,
            defaults: (0..schema.columns.len())
                .map(|i| if past { None } else { default_value(schema, i) })
                .collect(),
            unique: unique.filter(|_| !past),
            past,
            schema: schema.clone(),
        }
    }

    /// A change of whose images some lack columns, with all that is known. `differs`: a column of whose value there
    /// is only the difference to one that is not there. `replaces`: the statement is a REPLACE, or is none; `None`: not known.
    ///
    /// # Errors
    /// `PARTIAL_IMAGE` if the key is not in the image before.
    pub(super) fn complete(
        &self,
        kind: RowsKind,
        (before, after): Change,
        differs: Option<usize>,
        replaces: Option<bool>,
    ) -> Result<(Change, Option<Unknown>)> {
        let mut unknown = differs.map(|column| Unknown { column: column as u16, why: Why::Difference });
        if let Some(before) = &before {
            self.ensure_key(before)?;
        }
        let after = match after {
            Some(row) if row.has_absent() => Some(match (kind, &before) {
                // what a REPLACE does not name has its default, as in an INSERT
                (RowsKind::Update, Some(_)) if self.mariadb && replaces == Some(true) => {
                    self.inserted(&row, &mut unknown)
                }
                (RowsKind::Update, Some(before)) => {
                    let may_replace = self.mariadb && replaces.is_none() && self.may_replace(before, &row);
                    self.after_update(before, &row, may_replace, &mut unknown)
                }
                _ => self.inserted(&row, &mut unknown),
            }),
            other => other,
        };
        Ok(((before, after), unknown))
    }

    fn ensure_key(&self, before: &Row) -> Result<()> {
        // a table without a key has whole rows before
        let whole = self.key.is_empty() && !before.has_absent();
        if whole || (!self.key.is_empty() && self.key.iter().all(|&i| !before.get(i).is_absent())) {
            return Ok(());
        }
        Err(Error::definite(
            codes::PARTIAL_IMAGE,
            format!("the log holds row images of table \"{}\" without the columns of its key", self.schema.id),
        )
        .help("SET PERSIST binlog_row_image = FULL, also in every session that sets its own; then copy the tables anew"))
    }

    fn is_generated(&self, column: usize) -> bool {
        self.schema.columns.get(column).is_some_and(|c| c.generated.is_some())
    }

    fn inserted(&self, row: &Row, unknown: &mut Option<Unknown>) -> Row {
        let mut out = RowBuilder::new();
        let mut values = row.iter();
        for i in 0..self.defaults.len() {
            let Some(value) = values.next_encoded() else { break };
            if !value.is_absent() {
                out.push_encoded(value);
            } else if let Some(default) = self.defaults.get(i).and_then(Option::as_ref) {
                default.iter().next_encoded().into_iter().for_each(|value| out.push_encoded(value));
            } else {
                out.push_absent();
                let why = if self.is_generated(i) { Why::Generated } else { Why::Default };
                if !(self.is_generated(i) && self.without_generated) {
                    unknown.get_or_insert(Unknown { column: i as u16, why });
                }
            }
        }
        out.finish()
    }

    fn after_update(
        &self,
        before: &Row,
        after: &Row,
        may_replace: bool,
        unknown: &mut Option<Unknown>,
    ) -> Row {
        let differs = unknown.map(|u| usize::from(u.column));
        let mut out = RowBuilder::new();
        let (mut olds, mut news) = (before.iter(), after.iter());
        for i in 0..self.defaults.len() {
            let (Some(old), Some(new)) = (olds.next_encoded(), news.next_encoded()) else { break };
            if !new.is_absent() {
                out.push_encoded(new);
            } else if differs == Some(i) {
                out.push_absent();
            } else if self.mariadb && self.is_generated(i) {
                out.push_absent();
                if !self.without_generated {
                    unknown.get_or_insert(Unknown { column: i as u16, why: Why::Generated });
                }
            } else if self.mariadb && self.past {
                out.push_absent();
                unknown.get_or_insert(Unknown { column: i as u16, why: Why::Past });
            } else if may_replace && self.default_differs(i, old) {
                out.push_absent();
                unknown.get_or_insert(Unknown { column: i as u16, why: Why::Replace });
            } else {
                out.push_encoded(old);
            }
        }
        out.finish()
    }

    /// Would a REPLACE that does not name the column have changed it?
    fn default_differs(&self, column: usize, old: cdc_core::row::Encoded<'_>) -> bool {
        let default = self.defaults.get(column).and_then(Option::as_ref);
        default.and_then(|row| row.iter().next_encoded()) != Some(old)
    }

    /// May an UPDATE of MariaDB's log come of a REPLACE? A REPLACE that changes a row in its place has met that row in a
    /// unique key: of each column of the key it had the value, by name (then the column is in the image after) or as its
    /// default. A column with AUTO_INCREMENT is always in the image. So it is none if each unique key has a column that is
    /// left out and whose default the row did not have.
    fn may_replace(&self, before: &Row, after: &Row) -> bool {
        let Some(unique) = &self.unique else { return true };
        let excluded = |&column: &usize| {
            if !after.get(column).is_absent() || self.is_generated(column) {
                return false;
            }
            let of = &self.schema.columns[column];
            if of.auto_increment {
                return true;
            }
            let Some(default) = self.defaults.get(column).and_then(Option::as_ref) else { return false };
            let (default, old) = (default.get(0), before.get(column));
            // NULL meets nothing
            default.is_null() || (!old.is_absent() && certainly_differ(&of.ty, &default, &old))
        };
        !unique.iter().all(|key| key.iter().any(excluded))
    }
}

/// Are the values two to the server, by whatever collation?
fn certainly_differ(ty: &ColumnType, default: &Value<'_>, value: &Value<'_>) -> bool {
    match (default, value) {
        (Value::Text(a), Value::Text(b)) => {
            // letters and digits count in every collation
            a.is_empty() && b.bytes().any(|b| b.is_ascii_alphanumeric())
        }
        (Value::Float(_) | Value::Double(_), _) => false,
        _ => !matches!(ty, ColumnType::Enum { .. } | ColumnType::Set { .. }) && default != value,
    }
}
