//! What becomes of dates that no calendar has: the source's option `zero_dates`.
//!
//! `0000-00-00`, `2024-00-15`, `2024-02-00` and, stored under ALLOW_INVALID_DATES, `2024-02-30`, in DATE and
//! DATETIME; the zero timestamp in TIMESTAMP. (The year 0 is a year: `0000-01-01` is a date like any other.)
//!
//! | word | a value of these | the column, as flows and targets see it |
//! |---|---|---|
//! | `keep` | goes on as it is | as it is |
//! | `null` | becomes NULL | nullable |
//! | `text` | goes on as text, as all values of the column do | VARCHAR, ascii |
//! | `error` | stops the run, `ZERO_DATE` | as it is |
//!
//! # Where it is applied
//! At the very end of a source, to what it gives out, and to nothing inside it: structures by position,
//! checkpoints, bounds of chunks and keys of touched rows are the server's own. Everything behind (flows,
//! expressions, targets, `verify`, `check`) sees the mapped schema and never the other. One table under one
//! version has one mapped schema, by `Arc` ([`DateView::table`]): what is bound to a schema is found again by its address.
//! Under `keep` nothing is looked at.
//!
//! # Columns of the key
//! They stay as they are, whatever the word, and under `null`, `text` and `error` a row with such a date in its key is an error.
//! NULL equals nothing, so it identifies no row. As text the key would be another one than the server's: what is
//! compared with the server's by `verify`, and what a change of the key is told by, is a DATE.
//! [`TableSchema::key`] gives the same columns before and after, since its columns are left alone and columns only
//! ever *become* nullable: a unique key that was not chosen because of a nullable column is not chosen afterwards either,
//! and those behind the chosen one are not asked.
//!
//! # Rows before a change
//! A row is refused for what it is, not for what it was: an update that mends a date, and a delete, carry the
//! date in their row before, and are the way out. It goes on as it is (under `null` and `text` mapped like all
//! others, but for the key).
//!
//! # Schema changes
//! Changes are mapped so that they lead from the mapped shape before to the mapped shape after
//! ([`DateView::changes`]; the tests hold this for random statements). What the source changes in its rows without
//! row events has to come out mapped too:
//!
//! - ADD COLUMN: rows that are there read the default, for a NOT NULL column without one the zero date. Under `null`
//!   that is NULL, under `text` the default is that text; under `error` the statement is refused. (If the table had no rows
//!   nothing was wrong with it, but the log does not say so.)
//! - Another type, under `text`: a target sees one VARCHAR become another and leaves the values as they are. Where the
//!   server writes them in another form (DATE to DATETIME, more digits, TIMESTAMP in a session's time zone) the
//!   table is copied again ([`DateView::copied_again`]), as it is where the DDL alone says that values change.
//! - Another type, under `null`, that is no date: rows whose date became NULL hold something else now: the same.
//! - Under `null`, a column that joins the key: the same.
//!
//! A default that is no plain constant (a TIMESTAMP's is in the session's time zone) is put in CAST, under `text`:
//! a target that has rows refuses to guess at it as it does now.

use crate::codes;
use crate::error::{Error, Result};
use crate::event::Origin;
use crate::row::{Row, RowBuilder};
use crate::schema::{Charset, Column, ColumnType, TableId, TableSchema, same_name};
use crate::schema_change::SchemaChange;
use crate::value::{Date, DateTime, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What becomes of zero dates; the words of the option `zero_dates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroDates {
    /// They go on as they are.
    #[default]
    Keep,
    /// They become NULL.
    Null,
    /// All dates go on as text.
    Text,
    /// The run stops.
    Error,
}

/// As it is written.
impl fmt::Display for ZeroDates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ZeroDates::WORDS[*self as usize])
    }
}

/// What the choices are, for a message.
const CHOICES: &str = "mend the value at the source, or choose by the source's option: zero_dates = keep lets it through as it is; \
     null makes it NULL and text makes it a text, and both copy anew";

impl ZeroDates {
    /// The words of the option, the default first.
    pub const WORDS: &[&str] = &["keep", "null", "text", "error"];

    /// Of a word of the option.
    pub fn parse(word: &str) -> Option<ZeroDates> {
        Some(match word {
            "keep" => ZeroDates::Keep,
            "null" => ZeroDates::Null,
            "text" => ZeroDates::Text,
            "error" => ZeroDates::Error,
            _ => return None,
        })
    }

    /// Does it show schemas otherwise than the source has them? Then a target made under another word does not fit.
    pub fn changes_schemas(self) -> bool {
        matches!(self, ZeroDates::Null | ZeroDates::Text)
    }

    /// A table as flows and targets see it: the same `Arc` where nothing of it changes.
    pub fn schema(self, schema: &Arc<TableSchema>) -> Arc<TableSchema> {
        if !self.changes_schemas() || !has_dates(schema) {
            return schema.clone();
        }
        let key = schema.key().unwrap_or_default();
        let columns: Vec<Column> =
            schema.columns.iter().enumerate().map(|(i, c)| self.column(c, key.contains(&i))).collect();
        if columns == schema.columns {
            return schema.clone();
        }
        Arc::new(TableSchema {
            id: schema.id.clone(),
            version: schema.version,
            columns,
            primary_key: schema.primary_key.clone(),
            unique_keys: schema.unique_keys.clone(),
            charset: schema.charset.clone(),
            comment: schema.comment.clone(),
        })
    }

    /// A column as flows and targets see it; `keyed` if it is one of the table's key.
    fn column(self, column: &Column, keyed: bool) -> Column {
        let mut shown = column.clone();
        match self {
            _ if keyed || !is_date(&column.ty) => {}
            ZeroDates::Keep | ZeroDates::Error => {}
            ZeroDates::Null => {
                shown.nullable = true;
                shown.default = shown.default.filter(|text| !is_zero_literal(text));
            }
            ZeroDates::Text => {
                shown.ty = self.ty(&column.ty, keyed);
                shown.default = match &column.default {
                    Some(text) => Some(text_default(text, &column.ty)),
                    None if column.nullable || column.generated.is_some() => None,
                    None => Some(quoted(&DateTime::default(), &column.ty)),
                };
            }
        }
        shown
    }

    fn ty(self, ty: &ColumnType, keyed: bool) -> ColumnType {
        match text_length(ty) {
            Some(length) if self == ZeroDates::Text && !keyed => {
                ColumnType::VarChar { length, charset: Charset::new("ascii", "ascii_bin") }
            }
            _ => ty.clone(),
        }
    }

    /// Why the rows have to come again when a column's type changes; `None` if they need not.
    fn retype(self, old: &ColumnType, new: &ColumnType) -> Option<&'static str> {
        match (self, is_date(old), is_date(new)) {
            (ZeroDates::Null, true, false) => {
                Some("rows whose date became NULL at the target hold something else from here on")
            }
            (ZeroDates::Text, true, true) => {
                (old != new).then_some("the texts of the rows that are there have another form from here on")
            }
            (ZeroDates::Text, false, true) => {
                Some("what the server made of the values that were there is not in the log")
            }
            (ZeroDates::Text, true, false) => match (old, new) {
                (ColumnType::Timestamp { .. }, _) => {
                    Some("the new values depend on the time zone of the session that changed the column")
                }
                (_, ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. })
                    if text_length(old).is_some_and(|n| n > *length) =>
                {
                    Some("the texts of the rows that are there are cut off")
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn is_date(ty: &ColumnType) -> bool {
    text_length(ty).is_some()
}

fn has_dates(schema: &TableSchema) -> bool {
    schema.columns.iter().any(|c| is_date(&c.ty))
}

/// The characters of a date's text; `None` for other types.
fn text_length(ty: &ColumnType) -> Option<u32> {
    match ty {
        ColumnType::Date => Some(10),
        ColumnType::DateTime { fsp: 0 } | ColumnType::Timestamp { fsp: 0 } => Some(19),
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => Some(20 + u32::from(*fsp)),
        _ => None,
    }
}

/// Is it a date that no calendar has?
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Date(v) => !v.is_real(),
        Value::DateTime(v) => !v.date.is_real(),
        Value::Timestamp(v) => v.micros == 0,
        _ => false,
    }
}

// ---- defaults

/// A constant after DEFAULT, in the form in which the server prints dates; `None` for anything else. A DATE's
/// time is midnight.
fn constant(default: &str) -> Option<DateTime> {
    let text = default.strip_prefix('\'')?.strip_suffix('\'')?;
    let (day, time) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let numbers = |text: &str, sign: char, widths: [usize; 3]| -> Option<[u16; 3]> {
        let mut parts = text.split(sign);
        let mut out = [0; 3];
        for (number, width) in out.iter_mut().zip(widths) {
            let part = parts.next()?;
            let digits = part.len() == width && part.bytes().all(|b| b.is_ascii_digit());
            *number = digits.then(|| part.parse().ok())??;
        }
        parts.next().is_none().then_some(out)
    };
    let [year, month, day] = numbers(day, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let digits = fraction.len() <= 6 && fraction.bytes().all(|b| b.is_ascii_digit());
    let micro = digits.then(|| format!("{fraction:0<6}").parse().ok())??;
    // two digits each
    let small = |n: u16| n as u8;
    let date = Date { year, month: small(month), day: small(day) };
    Some(DateTime { date, hour: small(hour), minute: small(minute), second: small(second), micro })
}

fn is_zero_literal(default: &str) -> bool {
    constant(default).is_some_and(|v| !v.date.is_real())
}

/// The text of a column of this type, in quotes.
fn quoted(value: &DateTime, ty: &ColumnType) -> String {
    match ty {
        ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp } => format!("'{}'", value.to_text(*fsp)),
        _ => format!("'{}'", value.date),
    }
}

/// A date's default as that of its text.
fn text_default(default: &str, ty: &ColumnType) -> String {
    let midnight = |v: &DateTime| DateTime { date: v.date, ..DateTime::default() } == *v;
    let certain = |v: &DateTime| match ty {
        ColumnType::Date => midnight(v),
        // what does not fit is rounded
        ColumnType::DateTime { fsp } => v.micro.is_multiple_of(10u32.pow(6 - u32::from((*fsp).min(6)))),
        _ => v.date.is_zero() && midnight(v),
    };
    match constant(default) {
        Some(value) if certain(&value) => quoted(&value, ty),
        _ if default.starts_with('\'') => format!("(CAST({default} AS {}))", ty.to_string().to_uppercase()),
        _ => default.to_owned(),
    }
}

/// Do rows that are there read a zero date in this new column?
fn fills_with_zero(column: &Column) -> bool {
    is_date(&column.ty)
        && column.generated.is_none()
        && match &column.default {
            None => !column.nullable,
            Some(text) => is_zero_literal(text),
        }
}

// ---- tables

/// What is done with a value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Leave,
    /// A zero date is NULL.
    Null,
    /// A zero date is an error.
    Refuse,
    /// A date is a text with so many digits of fraction.
    Text(u8),
}

/// One table under one version of its schema, as flows and targets see it.
#[derive(Debug)]
pub struct TableView {
    source: Arc<TableSchema>,
    shown: Arc<TableSchema>,
    /// Up to the last column that is looked at.
    actions: Vec<Action>,
}

impl TableView {
    fn new(policy: ZeroDates, source: &Arc<TableSchema>) -> TableView {
        let key = source.key().unwrap_or_default();
        let action = |(i, column): (usize, &Column)| match (policy, &column.ty) {
            (ZeroDates::Keep, _) => Action::Leave,
            (_, ty) if !is_date(ty) => Action::Leave,
            (ZeroDates::Error, _) => Action::Refuse,
            _ if key.contains(&i) => Action::Refuse,
            (ZeroDates::Null, _) => Action::Null,
            (_, ColumnType::DateTime { fsp } | ColumnType::Timestamp { fsp }) => Action::Text(*fsp),
            _ => Action::Text(0),
        };
        let mut actions: Vec<Action> = source.columns.iter().enumerate().map(action).collect();
        while actions.last() == Some(&Action::Leave) {
            actions.pop();
        }
        TableView { source: source.clone(), shown: policy.schema(source), actions }
    }

    /// The schema that flows and targets see.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.shown
    }

    /// True if every row goes on as it is, and no row is refused.
    pub fn is_identity(&self) -> bool {
        self.actions.is_empty()
    }

    /// A row that is there from `origin` on.
    ///
    /// # Errors
    /// `ZERO_DATE`, with table, column, the row's key and the place.
    pub fn row(&self, row: Row, origin: &Origin, builder: &mut RowBuilder) -> Result<Row> {
        let mut mapped = false;
        let mut values = row.iter();
        for (i, action) in self.actions.iter().enumerate() {
            match action {
                Action::Leave => values.skip_value(),
                Action::Text(_) => {
                    mapped = true;
                    values.skip_value();
                }
                Action::Null | Action::Refuse => {
                    let Some(value) = values.next() else { break };
                    if is_zero(&value) {
                        if *action == Action::Refuse {
                            return Err(self.refusal(i, &value, &row, origin));
                        }
                        mapped = true;
                    }
                }
            }
        }
        Ok(if mapped { self.mapped(&row, builder) } else { row })
    }

    /// The row before a change: never refused.
    pub fn before(&self, row: Row, builder: &mut RowBuilder) -> Row {
        if self.actions.iter().all(|a| matches!(a, Action::Leave | Action::Refuse)) {
            return row;
        }
        self.mapped(&row, builder)
    }

    fn mapped(&self, row: &Row, builder: &mut RowBuilder) -> Row {
        builder.clear();
        let mut values = row.iter();
        for action in &self.actions {
            if matches!(action, Action::Leave | Action::Refuse) {
                if let Some(value) = values.next_encoded() {
                    builder.push_encoded(value);
                }
                continue;
            }
            let Some(value) = values.next() else { break };
            match (action, &value) {
                (Action::Text(_), Value::Date(v)) => builder.push_text(&v.to_string()),
                (Action::Text(fsp), Value::DateTime(v)) => builder.push_text(&v.to_text(*fsp)),
                (Action::Text(fsp), Value::Timestamp(v)) => builder.push_text(&v.to_text(*fsp)),
                (Action::Null, value) if is_zero(value) => builder.push_null(),
                // NULL, and what the image does not hold
                (_, value) => builder.push(value),
            }
        }
        while let Some(value) = values.next_encoded() {
            builder.push_encoded(value);
        }
        builder.finish()
    }

    fn refusal(&self, column: usize, value: &Value<'_>, row: &Row, origin: &Origin) -> Error {
        let named = &self.source.columns[column];
        let text = match (value, &named.ty) {
            (Value::DateTime(v), ColumnType::DateTime { fsp }) => v.to_text(*fsp),
            (Value::Timestamp(v), ColumnType::Timestamp { fsp }) => v.to_text(*fsp),
            (value, _) => value.to_string(),
        };
        let key = self.source.key().unwrap_or_default();
        let headline =
            format!("column \"{}\" of table \"{}\" holds the date {text}", named.name, self.source.id);
        let mut error = zero_date(headline).note(format!("row {}", self.key_text(key, row)));
        if let Some(place) = origin.place() {
            error = error.note(place);
        }
        if key.contains(&column) {
            error = error.note("the column is one of the table's key, where no other value can stand for it");
        }
        error.help(CHOICES)
    }

    /// `id = 7, "at" = 2024-00-15`.
    fn key_text(&self, key: &[usize], row: &Row) -> String {
        let values: Vec<Value<'_>> = row.iter().collect();
        let part = |&i: &usize| {
            let mut text = values.get(i).map_or_else(String::new, ToString::to_string);
            if let Some((end, _)) = text.char_indices().nth(100) {
                text.truncate(end);
                text.push_str(" ..");
            }
            format!("{} = {text}", self.source.columns[i].name)
        };
        key.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

fn zero_date(headline: String) -> Error {
    Error::definite(codes::ZERO_DATE, headline)
}

/// The tables of a source, as flows and targets see them.
#[derive(Debug, Default)]
pub struct DateView {
    policy: ZeroDates,
    /// By the address of the source's schema, which is held by the view, so the address stays its own.
    tables: Mutex<HashMap<usize, Arc<TableView>>>,
}

/// Shapes that came and went without a schema change (a comment) are not kept for ever.
const MOST_TABLES: usize = 1 << 16;

impl DateView {
    /// Under this policy.
    pub fn new(policy: ZeroDates) -> DateView {
        DateView { policy, tables: Mutex::default() }
    }

    /// True if everything goes on as it is: nothing need be asked.
    pub fn is_identity(&self) -> bool {
        self.policy == ZeroDates::Keep
    }

    /// A table; the same for the same `Arc`.
    pub fn table(&self, schema: &Arc<TableSchema>) -> Arc<TableView> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Arc::as_ptr(schema).addr();
        if let Some(view) = tables.get(&address) {
            return view.clone();
        }
        if tables.len() >= MOST_TABLES {
            tables.clear();
        }
        let view = Arc::new(TableView::new(self.policy, schema));
        tables.insert(address, view.clone());
        view
    }

    /// The schema of a table, as flows and targets see it; the same `Arc` for the same `Arc`.
    pub fn schema(&self, schema: &Arc<TableSchema>) -> Arc<TableSchema> {
        if self.policy.changes_schemas() { self.table(schema).schema().clone() } else { schema.clone() }
    }

    /// No row comes under this schema any more.
    pub fn forget(&self, schema: &Arc<TableSchema>) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.remove(&Arc::as_ptr(schema).addr());
    }

    /// What is to be put in front of a statement's changes where the rows that are there change under this policy, and
    /// neither the log nor the changes say to what.
    ///
    /// # Errors
    /// If the changes do not fit the table.
    pub fn copied_again(
        &self,
        changes: &[SchemaChange],
        before: Option<&Arc<TableSchema>>,
        after: Option<&Arc<TableSchema>>,
    ) -> Result<Option<SchemaChange>> {
        let (Some(before), Some(after)) = (before, after) else { return Ok(None) };
        let comes_anyway = |c: &SchemaChange| {
            matches!(c, SchemaChange::CreateTable { .. } | SchemaChange::ResnapshotTable { .. })
        };
        if !self.policy.changes_schemas()
            || !(has_dates(before) || has_dates(after))
            || changes.iter().any(comes_anyway)
        {
            return Ok(None);
        }
        let key = key_names(after);
        let keyed = |name: &str| key.iter().any(|k| same_name(k, name));
        let because = |column: &str, why: &str| {
            let reason = format!("zero_dates = {}, column \"{column}\": {why}", self.policy);
            Ok(Some(SchemaChange::ResnapshotTable { table: before.id.clone(), reason }))
        };
        let mut shape = TableSchema::clone(before);
        for (i, change) in changes.iter().enumerate() {
            if let SchemaChange::AlterColumnType { column, ty, .. } = change
                && !keyed(&renamed(column, &changes[i + 1..]))
                && let Some(at) = shape.column_index(column)
                && let Some(why) = self.policy.retype(&shape.columns[at].ty, ty)
            {
                return because(column, why);
            }
            shape = change.apply_to(&shape)?;
        }
        let was_key = before.key().unwrap_or_default();
        let joins = before.columns.iter().enumerate().find(|(i, column)| {
            is_date(&column.ty) && !was_key.contains(i) && keyed(&renamed(&column.name, changes))
        });
        match joins {
            Some((_, column)) if self.policy == ZeroDates::Null => {
                because(&column.name, "it joins the key, and may be NULL at the target")
            }
            _ => Ok(None),
        }
    }

    /// The changes of a statement, from the mapped shape before to the mapped shape after.
    ///
    /// # Errors
    /// `ZERO_DATE` for a column that is added with zero dates where they are not allowed.
    pub fn changes(
        &self,
        changes: Vec<SchemaChange>,
        before: Option<&Arc<TableSchema>>,
        after: Option<&Arc<TableSchema>>,
        origin: &Origin,
    ) -> Result<Vec<SchemaChange>> {
        let created = changes.iter().filter_map(|c| match c {
            SchemaChange::CreateTable { schema } => Some(schema),
            _ => None,
        });
        if self.is_identity() || !before.into_iter().chain(after).chain(created).any(|s| has_dates(s)) {
            return Ok(changes);
        }
        let mut walk = Walk {
            policy: self.policy,
            key: after.map(|s| key_names(s)).unwrap_or_default(),
            source: before.map(|s| TableSchema::clone(s)),
            shown: before.map(|s| TableSchema::clone(&self.schema(s))),
            again: changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. })),
            out: Vec::new(),
        };
        for (i, change) in changes.iter().enumerate() {
            walk.change(change, &changes[i + 1..], origin)?;
        }
        if let (Some(_), Some(after)) = (before, after) {
            walk.mend(&after.id, &self.schema(after))?;
        }
        Ok(walk.out)
    }
}

fn key_names(schema: &TableSchema) -> Vec<Arc<str>> {
    schema.key().unwrap_or_default().iter().map(|&i| schema.columns[i].name.clone()).collect()
}

/// What a column is called behind these changes.
fn renamed(name: &Arc<str>, changes: &[SchemaChange]) -> Arc<str> {
    changes.iter().fold(name.clone(), |name, change| match change {
        SchemaChange::RenameColumn { column, to, .. } if same_name(column, &name) => to.clone(),
        _ => name,
    })
}

/// The way through the changes of a statement, on both sides.
struct Walk {
    policy: ZeroDates,
    /// The key's columns behind the statement.
    key: Vec<Arc<str>>,
    source: Option<TableSchema>,
    shown: Option<TableSchema>,
    /// The rows come again: they are looked at then.
    again: bool,
    out: Vec<SchemaChange>,
}

impl Walk {
    fn change(&mut self, change: &SchemaChange, rest: &[SchemaChange], origin: &Origin) -> Result<()> {
        if let SchemaChange::CreateTable { schema } = change {
            let shown = self.policy.schema(schema);
            self.source = Some(TableSchema::clone(schema));
            self.shown = Some(TableSchema::clone(&shown));
            self.out.push(SchemaChange::CreateTable { schema: shown });
            return Ok(());
        }
        let Some(old) = self.source.take() else {
            self.out.push(change.clone());
            return Ok(());
        };
        let new = change.apply_to(&old)?;
        let mut shown = change.clone();
        let keyed = |name: &Arc<str>| {
            let name = renamed(name, rest);
            self.key.iter().any(|k| same_name(k, &name))
        };
        // the column behind this change, as it is shown
        let now = |name: &Arc<str>| {
            new.column_index(name).map(|i| self.policy.column(&new.columns[i], keyed(name)))
        };
        match &mut shown {
            SchemaChange::AddColumn { column, .. } => {
                let keyed = keyed(&column.name);
                if !self.again && (self.policy == ZeroDates::Error || keyed) && fills_with_zero(column) {
                    return Err(filled(&old.id, column, origin));
                }
                *column = self.policy.column(column, keyed);
            }
            SchemaChange::AlterColumnType { column, ty, .. } => {
                let keyed = keyed(column);
                *ty = self.policy.ty(ty, keyed);
            }
            SchemaChange::AlterNullability { column, nullable, .. } => {
                let is =
                    |schema: &TableSchema| schema.column_index(column).map(|i| schema.columns[i].nullable);
                if let Some(now) = now(column) {
                    let nothing = self.shown.as_ref().and_then(is) == Some(now.nullable);
                    if nothing && is(&old) != Some(*nullable) {
                        self.source = Some(new);
                        return Ok(());
                    }
                    *nullable = now.nullable;
                }
            }
            SchemaChange::AlterColumnDefault { column, default, .. } => {
                if let Some(now) = now(column) {
                    *default = now.default;
                }
            }
            SchemaChange::AlterColumnAttributes { column, .. } => {
                *column = self.policy.column(column, keyed(&column.name));
            }
            _ => {}
        }
        self.source = Some(new);
        self.push(shown)
    }

    fn push(&mut self, change: SchemaChange) -> Result<()> {
        if let Some(shown) = &self.shown {
            self.shown = Some(change.apply_to(shown)?);
        }
        self.out.push(change);
        Ok(())
    }

    /// Columns whose mapping is another one (their type has become a date or has ceased to be one, they have joined the
    /// key or left it) than the changes say.
    fn mend(&mut self, table: &TableId, after: &TableSchema) -> Result<()> {
        let Some(shown) = self.shown.clone() else { return Ok(()) };
        for wanted in &after.columns {
            let Some(is) = shown.column_index(&wanted.name).map(|i| &shown.columns[i]) else { continue };
            let (table, column) = (table.clone(), wanted.name.clone());
            if is.ty != wanted.ty {
                self.push(SchemaChange::AlterColumnType {
                    table: table.clone(),
                    column: column.clone(),
                    ty: wanted.ty.clone(),
                    position: None,
                })?;
            }
            if is.nullable != wanted.nullable {
                let nullable = wanted.nullable;
                self.push(SchemaChange::AlterNullability {
                    table: table.clone(),
                    column: column.clone(),
                    nullable,
                })?;
            }
            if is.default != wanted.default {
                self.push(SchemaChange::AlterColumnDefault {
                    table,
                    column,
                    default: wanted.default.clone(),
                })?;
            }
        }
        Ok(())
    }
}

fn filled(table: &TableId, column: &Column, origin: &Origin) -> Error {
    let zero = quoted(&column.default.as_deref().and_then(constant).unwrap_or_default(), &column.ty);
    let headline = format!(
        "column \"{}\" of table \"{table}\" was added with the date {} for all rows that are there",
        column.name,
        zero.trim_matches('\'')
    );
    let error = zero_date(headline);
    let error = match origin.place() {
        Some(place) => error.note(place),
        None => error,
    };
    error.help(
        "if the table was empty then, or the dates have been mended since: run with zero_dates = keep until the \
         statement is passed, then write error again; null and text copy anew",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::IntWidth;
    use crate::schema_change::ColumnPosition;
    use crate::value::Timestamp;

    const WORDS: [ZeroDates; 4] = [ZeroDates::Keep, ZeroDates::Null, ZeroDates::Text, ZeroDates::Error];

    /// Numbers that look random (splitmix64).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        fn below(&mut self, n: usize) -> usize {
            (self.next() % n as u64) as usize
        }

        fn ty(&mut self) -> ColumnType {
            let fsp = self.below(7) as u8;
            match self.below(7) {
                0 => ColumnType::Int { width: IntWidth::Int, unsigned: false },
                1 => ColumnType::VarChar { length: 30, charset: Charset::utf8mb4() },
                2 => ColumnType::Time { fsp },
                3 => ColumnType::Date,
                4 => ColumnType::Timestamp { fsp },
                _ => ColumnType::DateTime { fsp },
            }
        }

        fn date(&mut self) -> Date {
            let dates =
                [(0, 0, 0), (2024, 0, 15), (2024, 2, 0), (2024, 2, 30), (2024, 2, 29), (1, 1, 1), (0, 1, 1)];
            let (year, month, day) = dates[self.below(dates.len())];
            Date { year, month, day }
        }

        fn value(&mut self, ty: &ColumnType) -> Value<'static> {
            match self.below(12) {
                0 => return Value::Null,
                1 => return Value::Absent,
                _ => {}
            }
            let micro = self.below(3) as u32 * 123_456;
            match ty {
                ColumnType::Int { .. } => Value::Int(self.below(9) as i64),
                ColumnType::Time { .. } => Value::Time(crate::value::Time { micros: -5 }),
                ColumnType::Date => Value::Date(self.date()),
                ColumnType::DateTime { .. } => {
                    Value::DateTime(DateTime { date: self.date(), hour: 10, micro, ..DateTime::default() })
                }
                ColumnType::Timestamp { .. } => {
                    let micros = self.below(3) as i64 * 1_700_000_000_123_456;
                    Value::Timestamp(Timestamp { micros })
                }
                _ => Value::Text("0000-00-00".into()),
            }
        }

        fn default(&mut self, ty: &ColumnType) -> Option<String> {
            if !is_date(ty) {
                return (self.below(2) == 0).then(|| "'0'".to_owned());
            }
            let value = DateTime { date: self.date(), ..DateTime::default() };
            match self.below(4) {
                0 => None,
                1 => Some("CURRENT_TIMESTAMP".to_owned()),
                2 => Some("'2024-1-1'".to_owned()),
                _ => Some(quoted(&value, ty)),
            }
        }

        fn column(&mut self, name: &str) -> Column {
            let ty = self.ty();
            let default = self.default(&ty);
            Column { nullable: self.below(2) == 0, default, ..Column::new(name, ty) }
        }

        fn schema(&mut self) -> TableSchema {
            let columns: Vec<Column> =
                (0..1 + self.below(6)).map(|i| self.column(&format!("c{i}"))).collect();
            let some = |random: &mut Random| -> Vec<usize> {
                (0..columns.len()).filter(|_| random.below(3) == 0).collect()
            };
            let mut schema = TableSchema {
                id: TableId::new("d", "t"),
                version: 1,
                primary_key: if self.below(2) == 0 { some(self) } else { vec![] },
                unique_keys: (0..self.below(3)).map(|_| some(self)).filter(|k| !k.is_empty()).collect(),
                columns,
                charset: Charset::utf8mb4(),
                comment: String::new(),
            };
            for &i in &schema.primary_key {
                schema.columns[i].nullable = false;
            }
            schema
        }

        fn change(&mut self, schema: &TableSchema, n: usize) -> SchemaChange {
            let table = schema.id.clone();
            let picked = schema.columns[self.below(schema.columns.len())].clone();
            let column = picked.name.clone();
            match self.below(9) {
                0 | 1 => {
                    let position =
                        [ColumnPosition::Last, ColumnPosition::First, ColumnPosition::After(column)];
                    let position = position[self.below(3)].clone();
                    SchemaChange::AddColumn { table, column: self.column(&format!("n{n}")), position }
                }
                2 if schema.columns.len() > 1 => SchemaChange::DropColumn { table, column },
                3 => SchemaChange::RenameColumn { table, column, to: format!("r{n}").into() },
                4 => {
                    let position = (self.below(2) == 0).then_some(ColumnPosition::First);
                    SchemaChange::AlterColumnType { table, column, ty: self.ty(), position }
                }
                5 => SchemaChange::AlterNullability { table, column, nullable: self.below(2) == 0 },
                6 => {
                    let default = self.default(&picked.ty);
                    SchemaChange::AlterColumnDefault { table, column, default }
                }
                7 => SchemaChange::AlterColumnAttributes {
                    table,
                    column: Column { comment: "new".into(), ..picked },
                },
                _ => SchemaChange::ChangePrimaryKey { table, columns: vec![column] },
            }
        }
    }

    fn origin() -> Origin {
        Origin { file: "binlog.000003".into(), offset: 4711, gtid: "u:5".into(), ..Origin::default() }
    }

    /// What is said of one value.
    fn expected(
        policy: ZeroDates,
        ty: &ColumnType,
        keyed: bool,
        value: &Value<'static>,
    ) -> Option<Value<'static>> {
        let zero = is_zero(value);
        Some(match policy {
            ZeroDates::Keep => value.clone(),
            ZeroDates::Error if zero => return None,
            ZeroDates::Error => value.clone(),
            _ if keyed && zero => return None,
            _ if keyed => value.clone(),
            ZeroDates::Null if zero => Value::Null,
            ZeroDates::Null => value.clone(),
            ZeroDates::Text => match (value, ty) {
                (Value::Date(v), _) => Value::Text(v.to_string().into()),
                (Value::DateTime(v), ColumnType::DateTime { fsp }) => Value::Text(v.to_text(*fsp).into()),
                (Value::Timestamp(v), ColumnType::Timestamp { fsp }) => Value::Text(v.to_text(*fsp).into()),
                _ => value.clone(),
            },
        })
    }

    #[test]
    fn a_mapped_row_is_the_row_of_its_mapped_values() {
        let mut random = Random(1);
        let mut builder = RowBuilder::new();
        let mut refused = 0;
        for _ in 0..5000 {
            let schema = Arc::new(random.schema());
            let key = schema.key().unwrap_or_default();
            let values: Vec<Value<'static>> = schema.columns.iter().map(|c| random.value(&c.ty)).collect();
            let row = Row::pack(values.iter().cloned());
            for policy in WORDS {
                let view = DateView::new(policy);
                let table = view.table(&schema);
                let each: Option<Vec<_>> = (values.iter().enumerate())
                    .map(|(i, v)| expected(policy, &schema.columns[i].ty, key.contains(&i), v))
                    .collect();
                match (table.row(row.clone(), &origin(), &mut builder), each) {
                    (Ok(mapped), Some(each)) => {
                        assert_eq!(mapped, Row::pack(each), "{policy} {schema:?}");
                        // what a column holds, its type says
                        for (value, column) in mapped.iter().zip(&table.schema().columns) {
                            let text = matches!(column.ty, ColumnType::VarChar { .. });
                            assert!(text || !matches!(value, Value::Text(_)), "{policy} {column:?} {value}");
                            assert!(!text || matches!(value, Value::Text(_) | Value::Null | Value::Absent));
                            if let (ColumnType::VarChar { length, .. }, Value::Text(text)) =
                                (&column.ty, &value)
                            {
                                assert!(text.len() <= *length as usize);
                            }
                        }
                    }
                    (Err(error), None) => {
                        assert_eq!(error.code(), codes::ZERO_DATE);
                        refused += 1;
                    }
                    (is, wanted) => panic!("{policy}: {is:?} for {wanted:?}"),
                }
                // the row before is never refused
                let before = table.before(row.clone(), &mut builder);
                assert_eq!(before.len(), row.len());
                if policy == ZeroDates::Keep || policy == ZeroDates::Error {
                    assert_eq!(before, row);
                }
            }
        }
        assert!(refused > 500, "{refused}");
    }

    #[test]
    fn keep_is_the_identity_and_schemas_are_found_by_their_address() {
        let mut random = Random(2);
        for _ in 0..500 {
            let schema = Arc::new(random.schema());
            for policy in WORDS {
                let view = DateView::new(policy);
                let shown = view.schema(&schema);
                assert!(Arc::ptr_eq(&shown, &view.schema(&schema)));
                assert!(Arc::ptr_eq(&shown, view.table(&schema).schema()));
                assert_eq!(shown.key(), schema.key(), "{policy}");
                if !policy.changes_schemas() || !has_dates(&schema) {
                    assert!(Arc::ptr_eq(&shown, &schema), "{policy}");
                }
                if !has_dates(&schema) {
                    assert!(view.table(&schema).is_identity());
                }
                // a mapped schema has nothing more to map
                if policy == ZeroDates::Text && schema.key().is_none() {
                    assert!(Arc::ptr_eq(&shown, &policy.schema(&shown)));
                }
            }
            assert!(DateView::new(ZeroDates::Keep).table(&schema).is_identity());
        }
    }

    #[test]
    fn mapped_changes_lead_from_mapped_shape_to_mapped_shape() {
        let mut random = Random(3);
        let mut followed = [0; 4];
        for _ in 0..20_000 {
            let before = random.schema();
            let mut after = before.clone();
            let mut changes = Vec::new();
            for n in 0..1 + random.below(4) {
                let change = random.change(&after, n);
                after = change.apply_to(&after).unwrap();
                changes.push(change);
            }
            let (before, after) = (Arc::new(before), Arc::new(after));
            for policy in WORDS {
                let view = DateView::new(policy);
                match view.changes(changes.clone(), Some(&before), Some(&after), &origin()) {
                    Ok(mapped) => {
                        let shown = view.schema(&before);
                        let end = mapped.iter().try_fold(TableSchema::clone(&shown), |s, c| c.apply_to(&s));
                        assert_eq!(end.unwrap(), *view.schema(&after), "{policy} {changes:?}\n{mapped:?}");
                        if !policy.changes_schemas() {
                            assert_eq!(mapped, changes);
                        }
                        followed[policy as usize] += 1;
                    }
                    Err(error) => {
                        assert_ne!(policy, ZeroDates::Keep);
                        assert_eq!(error.code(), codes::ZERO_DATE, "{error}");
                    }
                }
            }
        }
        assert_eq!(followed[0], 20_000);
        assert!(followed.iter().all(|n| *n > 10_000), "{followed:?}");
    }

    fn table(columns: Vec<Column>) -> Arc<TableSchema> {
        Arc::new(TableSchema {
            id: TableId::new("shop", "orders"),
            version: 1,
            columns,
            primary_key: vec![0],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        })
    }

    fn int() -> ColumnType {
        ColumnType::Int { width: IntWidth::Int, unsigned: false }
    }

    #[test]
    fn a_refusal_names_table_column_key_and_place() {
        let schema = table(vec![
            Column::new("id", int()).not_null(),
            Column::new("at", ColumnType::DateTime { fsp: 3 }),
        ]);
        let at =
            DateTime { date: Date { year: 2024, month: 0, day: 15 }, micro: 120_000, ..DateTime::default() };
        let row = Row::pack([Value::Int(7), Value::DateTime(at)]);
        let view = DateView::new(ZeroDates::Error);
        let error = |origin: &Origin| {
            let error = view.table(&schema).row(row.clone(), origin, &mut RowBuilder::new()).unwrap_err();
            let diagnostic = error.diagnostic();
            assert!(diagnostic.help.iter().any(|h| h.contains("zero_dates = keep")), "{diagnostic:?}");
            (diagnostic.headline.clone(), diagnostic.notes.join("; "))
        };
        let headline = "column \"at\" of table \"shop.orders\" holds the date 2024-00-15 00:00:00.120";
        let log = "row id = 7; at binlog.000003:4711, GTID u:5";
        assert_eq!(error(&origin()), (headline.to_owned(), log.to_owned()));
        let chunk = Origin { snapshot: true, gtid: "".into(), ..origin() };
        let read = "row id = 7; read in a chunk of the snapshot, before binlog.000003:4711";
        assert_eq!(error(&chunk), (headline.to_owned(), read.to_owned()));
        assert_eq!(error(&Origin::default()).1, "row id = 7");
    }

    #[test]
    fn added_columns_are_filled_as_the_words_say() {
        let before = table(vec![Column::new("id", int()).not_null()]);
        let added = |policy, ty: ColumnType, nullable, default: Option<&str>| {
            let column = Column { nullable, default: default.map(str::to_owned), ..Column::new("d", ty) };
            let position = ColumnPosition::Last;
            let add = SchemaChange::AddColumn { table: before.id.clone(), column, position };
            let after = Arc::new(add.apply_to(&before).unwrap());
            let changes = DateView::new(policy).changes(vec![add], Some(&before), Some(&after), &origin());
            changes.map(|changes| match &changes[..] {
                [SchemaChange::AddColumn { column, .. }] => {
                    (column.ty.to_string(), column.nullable, column.default.clone().unwrap_or_default())
                }
                other => panic!("{other:?}"),
            })
        };
        let fsp = |fsp| ColumnType::DateTime { fsp };
        let ts = ColumnType::Timestamp { fsp: 0 };
        let is = |ty: &str, nullable, default: &str| (ty.to_owned(), nullable, default.to_owned());
        use ZeroDates::{Error, Null, Text};
        for (policy, ty, nullable, default, wanted) in [
            (Null, ColumnType::Date, false, None, is("date", true, "")),
            (Null, ColumnType::Date, false, Some("'0000-00-00'"), is("date", true, "")),
            (Null, fsp(2), true, Some("'2024-00-01 00:00:00.00'"), is("datetime(2)", true, "")),
            (Null, ColumnType::Date, false, Some("'2024-01-01'"), is("date", true, "'2024-01-01'")),
            (Text, ColumnType::Date, false, None, is("varchar(10)", false, "'0000-00-00'")),
            (Text, fsp(3), false, None, is("varchar(23)", false, "'0000-00-00 00:00:00.000'")),
            (Text, fsp(3), true, None, is("varchar(23)", true, "")),
            (Text, fsp(0), true, Some("'2024-01-01'"), is("varchar(19)", true, "'2024-01-01 00:00:00'")),
            (
                Text,
                ColumnType::Date,
                true,
                Some("'20240101'"),
                is("varchar(10)", true, "(CAST('20240101' AS DATE))"),
            ),
            (Text, fsp(0), true, Some("CURRENT_TIMESTAMP"), is("varchar(19)", true, "CURRENT_TIMESTAMP")),
            (
                Text,
                ts.clone(),
                true,
                Some("'2024-01-01 00:00:00'"),
                is("varchar(19)", true, "(CAST('2024-01-01 00:00:00' AS TIMESTAMP))"),
            ),
            (Text, ts.clone(), false, None, is("varchar(19)", false, "'0000-00-00 00:00:00'")),
            (Error, ColumnType::Date, true, None, is("date", true, "")),
            (Error, ColumnType::Date, false, Some("'2024-01-01'"), is("date", false, "'2024-01-01'")),
        ] {
            assert_eq!(added(policy, ty.clone(), nullable, default).unwrap(), wanted, "{policy} {ty}");
        }
        for (ty, default, text) in [
            (ColumnType::Date, None, "added with the date 0000-00-00 for all rows"),
            (ts, None, "added with the date 0000-00-00 00:00:00 for all rows"),
            (fsp(1), Some("'2024-02-30 00:00:00'"), "added with the date 2024-02-30 00:00:00.0 for all rows"),
        ] {
            let error = added(Error, ty, false, default).unwrap_err();
            assert_eq!(error.code(), codes::ZERO_DATE);
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.to_string().contains("at binlog.000003:4711"), "{error}");
        }
    }

    #[test]
    fn tables_are_copied_again_where_values_change_in_the_mapping_only() {
        let varchar = |length| ColumnType::VarChar { length, charset: Charset::utf8mb4() };
        let fsp = |fsp| ColumnType::DateTime { fsp };
        let ts = || ColumnType::Timestamp { fsp: 0 };
        let again = |policy, old: ColumnType, new: ColumnType| {
            let before = table(vec![Column::new("id", int()).not_null(), Column::new("d", old)]);
            let alter = SchemaChange::AlterColumnType {
                table: before.id.clone(),
                column: "d".into(),
                ty: new,
                position: None,
            };
            let after = Arc::new(alter.apply_to(&before).unwrap());
            let view = DateView::new(policy);
            let found = view.copied_again(&[alter], Some(&before), Some(&after)).unwrap();
            let text = found.map(|change| change.to_string());
            assert!(text.iter().all(|t| t.starts_with("copy table shop.orders again: ")), "{text:?}");
            text.is_some()
        };
        use ZeroDates::{Error, Keep, Null, Text};
        for (old, new, null, text) in [
            (ColumnType::Date, fsp(0), false, true),
            (fsp(0), fsp(3), false, true),
            (fsp(3), fsp(3), false, false),
            (varchar(20), ColumnType::Date, false, true),
            (ColumnType::Date, varchar(20), true, false),
            (ColumnType::Date, varchar(9), true, true),
            (fsp(6), varchar(26), true, false),
            (fsp(6), varchar(25), true, true),
            (ts(), varchar(30), true, true),
            (ts(), fsp(0), false, true),
            (int(), varchar(30), false, false),
        ] {
            for (policy, wanted) in [(Keep, false), (Null, null), (Text, text), (Error, false)] {
                assert_eq!(again(policy, old.clone(), new.clone()), wanted, "{policy}: {old} to {new}");
            }
        }
    }

    #[test]
    fn words_are_written_as_they_are_read() {
        assert_eq!(WORDS.map(|w| w.to_string()), ["keep", "null", "text", "error"]);
        assert!(ZeroDates::WORDS.iter().all(|w| ZeroDates::parse(w).unwrap().to_string() == **w));
        assert_eq!(ZeroDates::parse("on"), None);
        assert_eq!(ZeroDates::default(), ZeroDates::Keep);
    }
}
