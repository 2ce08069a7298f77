//! A source that is played: its tables, what a test changes in them, and what a capture would have given of that.

use super::rows::Rows;
use super::target::Values;
use super::values::{fitted, placed, stored};
use crate::job::other_rows;
use cdc_core::diagnostic::{Diagnostic, Span};
use cdc_core::event::{Batch, Change, Op, Origin, SchemaEvent};
use cdc_core::expr::eval::nearest;
use cdc_core::plan::FlowPlan;
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::test::{TestChange, TestChangeKind, TestRow};
use cdc_core::position::{Binding, Position};
use cdc_core::schema::{Column, ColumnType, TableId, TableSchema, same_name};
use cdc_core::schema_change::SchemaChange;
use cdc_core::tick::Tick;
use cdc_core::value::Value;
use cdc_core::{Error, Row, codes};
use cdc_materialize::record::{Guard, Record};
use cdc_mysql::ddl::{Context, Fact, Outcome, parse};
use cdc_mysql::decode::default::default_value;
use cdc_mysql::structure::TableStructures;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The MySQL version whose DDL a test's statements are read as.
const VERSION: u32 = 90_700;

/// When a test's first step happens: 2026-01-01 00:00:00 UTC; each step is a second after the one before it, so that every run is
/// the same.
const BEGIN_MICROS: i64 = 1_767_225_600_000_000;

/// The source.
pub(super) struct Source {
    name: String,
    captured: TableSet,
    flows: Vec<FlowPlan>,
    /// Tables that views read.
    read: BTreeSet<TableId>,
    structures: TableStructures,
    rows: BTreeMap<TableId, Rows>,
    /// The last tick given out.
    tick: Tick,
    ordinal: u64,
}

impl Source {
    pub(super) fn new(
        name: &str,
        captured: TableSet,
        tables: &[TableSchema],
        flows: Vec<FlowPlan>,
    ) -> Source {
        let mut structures = TableStructures::new();
        for table in tables.iter().filter(|table| captured.contains(&table.id)) {
            structures.insert(table.clone(), None);
        }
        Source {
            name: name.to_owned(),
            captured,
            flows,
            read: BTreeSet::new(),
            structures,
            rows: BTreeMap::new(),
            tick: 0,
            ordinal: 0,
        }
    }

    /// Its tables.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.structures.tables()
    }

    /// Which of them views read.
    pub(super) fn read_by_views(&mut self, tables: BTreeSet<TableId>) {
        self.read = tables;
    }

    /// The last tick given out.
    pub(super) fn tick(&self) -> Tick {
        self.tick
    }

    fn begin(&mut self) -> Origin {
        self.tick += 1;
        self.ordinal = 0;
        Origin {
            timestamp_micros: BEGIN_MICROS + (self.tick as i64 - 1) * 1_000_000,
            gtid: format!("00000000-0000-0000-0000-000000000000:{}", self.tick).into(),
            file: "test".into(),
            offset: self.tick,
            snapshot: false,
        }
    }

    fn end(&self) -> Record {
        let gtids = format!("00000000-0000-0000-0000-000000000000:1-{}", self.tick).into();
        let position = Position { gtids, file: "test".into(), offset: self.tick, rows: 0 };
        let binding = Binding { positions: [(self.name.clone(), position)].into() };
        Record::End { tick: self.tick, binding: Arc::new(binding) }
    }

    /// What a transaction gives.
    pub(super) fn transaction(&mut self, changes: &[TestChange]) -> Result<Vec<Record>, Diagnostic> {
        let origin = self.begin();
        let mut records = Vec::new();
        for change in changes {
            let schema = self.table(change)?;
            let mut made = Vec::with_capacity(change.rows.len());
            for row in &change.rows {
                let (op, before, after) = match change.kind {
                    TestChangeKind::Insert => self.insert(&schema, row)?,
                    TestChangeKind::Delete => self.delete(&schema, row)?,
                    TestChangeKind::Update => self.update(&schema, row)?,
                };
                made.push((op, before, after));
            }
            records.push(self.batch(schema, &origin, made));
        }
        records.push(self.end());
        Ok(records)
    }

    fn batch(
        &mut self,
        schema: Arc<TableSchema>,
        origin: &Origin,
        made: Vec<(Op, Option<Values>, Option<Values>)>,
    ) -> Record {
        let packed = |values: Option<Values>| values.map(Row::pack);
        let mut changes = Vec::with_capacity(made.len());
        for (op, before, after) in made {
            self.ordinal += 1;
            let (before, after) = (packed(before), packed(after));
            changes.push(Change { tick: self.tick, ordinal: self.ordinal, op, origin: 0, before, after });
        }
        let batch = Batch { schema, origins: vec![origin.clone()], changes };
        Record::Rows { worker: 0, batch: Arc::new(batch), guard: Guard::default() }
    }

    fn table(&self, change: &TestChange) -> Result<Arc<TableSchema>, Diagnostic> {
        self.structures.get(&change.table).cloned().ok_or_else(|| {
            let mut d =
                Diagnostic::error(codes::UNKNOWN_TABLE, format!("unknown table \"{}\"", change.table))
                    .at(change.span.clone(), "the source does not have it now");
            let names: Vec<String> = self.structures.tables().map(|t| t.id.to_string()).collect();
            if let Some(near) = nearest(&change.table.to_string(), names.iter().map(String::as_str)) {
                d = d.help(format!("did you mean \"{near}\"?"));
            }
            d
        })
    }

    fn insert(&mut self, schema: &Arc<TableSchema>, row: &TestRow) -> Result<Made, Diagnostic> {
        let given = values(schema, row)?;
        let rows = self.rows.entry(schema.id.clone()).or_default();
        let mut made = Vec::with_capacity(schema.columns.len());
        for (i, column) in schema.columns.iter().enumerate() {
            let value = match given.iter().find(|(at, _)| *at == i) {
                // NULL and 0 ask for the next number
                Some((_, value))
                    if !column.auto_increment || !(value.is_null() || number_of(value) == Some(0)) =>
                {
                    value.clone()
                }
                _ => default(schema, i, rows.last_number, row)?,
            };
            let value = checked(value, column, schema, row)?;
            if column.auto_increment {
                rows.last_number = rows.last_number.max(number_of(&value).unwrap_or(0));
            }
            made.push(value);
        }
        if let Some(there) = rows.of_any_key(schema, &made).and_then(|id| rows.get(id)) {
            return Err(step(row, format!("table \"{}\" has a row of this key already", schema.id))
                .note(format!("the row that is there: {}", shown(schema, there)))
                .help("~ updates a row, - deletes it"));
        }
        rows.insert(schema, made.clone());
        Ok((Op::Insert, None, Some(made)))
    }

    fn delete(&mut self, schema: &Arc<TableSchema>, row: &TestRow) -> Result<Made, Diagnostic> {
        let given = values(schema, row)?;
        let at = match schema.key() {
            Some(_) => self.of_key(schema, &given, row)?,
            None => {
                let same = |have: &Values| given.iter().all(|(i, value)| have.get(*i) == Some(value));
                let mut rows = self.rows.get(&schema.id).into_iter().flat_map(Rows::iter);
                let found = rows.find(|(_, have)| same(have)).map(|(id, _)| id);
                found.ok_or_else(|| self.missing(schema, &given, row))?
            }
        };
        let rows = self.rows.entry(schema.id.clone()).or_default();
        // what is named beside the key is to be so; the key itself has been compared, by its collation
        let key = schema.key().unwrap_or_default();
        let gone = rows.remove(schema, at).ok_or_else(|| step(row, "a row is lost"))?;
        let is_so = |i: &usize, value: &Value<'_>| key.contains(i) || gone.get(*i) == Some(value);
        if let Some((i, _)) = given.iter().find(|(i, value)| !is_so(i, value)) {
            let column = &schema.columns[*i].name;
            return Err(step(row, format!("the row of this key has another value in column \"{column}\""))
                .note(format!("the row that is there: {}", shown(schema, &gone)))
                .help("the key is enough to delete a row"));
        }
        Ok((Op::Delete, Some(gone), None))
    }

    fn update(&mut self, schema: &Arc<TableSchema>, row: &TestRow) -> Result<Made, Diagnostic> {
        if schema.key().is_none() {
            return Err(step(row, format!("table \"{}\" has no key, so ~ finds no row in it", schema.id))
                .help("delete the row with - and insert it with +"));
        }
        let given = values(schema, row)?;
        let at = self.of_key(schema, &given, row)?;
        let key = schema.key().unwrap_or_default();
        let rows = self.rows.entry(schema.id.clone()).or_default();
        let before = rows.get(at).cloned().unwrap_or_default();
        let mut after = before.clone();
        let named: Vec<usize> = given.iter().map(|(i, _)| *i).collect();
        for (i, value) in given.into_iter().filter(|(i, _)| !key.contains(i)) {
            after[i] = checked(value, &schema.columns[i], schema, row)?;
        }
        if let Some((i, of)) = stale(schema, &before, &after, &named) {
            let (column, of) = (&schema.columns[i].name, &schema.columns[of].name);
            return Err(step(
                row,
                format!(
                    "column \"{column}\" of \"{}\" is not named, and the server computes it from \"{of}\", which changes",
                    schema.id
                ),
            )
            .help(format!("name it: {column}: ..")));
        }
        for number in 1..=schema.unique_keys.len() {
            if rows.of_key(schema, number, &after).is_some_and(|other| other != at) {
                return Err(step(row, format!("another row of table \"{}\" has this unique key", schema.id)));
            }
        }
        rows.replace(schema, at, after.clone());
        Ok((Op::Update, Some(before), Some(after)))
    }

    /// The row that has the key that is given.
    fn of_key(&mut self, schema: &TableSchema, given: &Given, row: &TestRow) -> Result<u64, Diagnostic> {
        let key = schema.key().unwrap_or_default();
        let mut wanted: Values = vec![Value::Null; schema.columns.len()];
        for &i in key {
            let Some((_, value)) = given.iter().find(|(at, _)| *at == i) else {
                let names: Vec<&str> = key.iter().map(|&i| &*schema.columns[i].name).collect();
                let names = names.join(", ");
                let name = &schema.columns[i].name;
                return Err(step(row, format!("the key's column \"{name}\" is not named"))
                    .help(format!("rows of \"{}\" are found by their key: {names}", schema.id)));
            };
            wanted[i] = value.clone();
        }
        let found = self.rows.get_mut(&schema.id).and_then(|rows| rows.of_key(schema, 0, &wanted));
        found.ok_or_else(|| self.missing(schema, given, row))
    }

    fn missing(&self, schema: &TableSchema, given: &Given, row: &TestRow) -> Diagnostic {
        let d = step(row, format!("table \"{}\" has no such row", schema.id));
        let rows: Vec<&Values> =
            self.rows.get(&schema.id).into_iter().flat_map(Rows::iter).map(|(_, row)| row).collect();
        // the one that agrees in most, then the one whose key's text is nearest
        let agrees = |there: &Values| given.iter().filter(|(i, v)| there.get(*i) == Some(v)).count();
        let key = schema.key().unwrap_or_default();
        let text = |value: &dyn Fn(usize) -> Option<String>| -> String {
            key.iter().filter_map(|&i| value(i)).collect::<Vec<_>>().join(" ")
        };
        let of_row = |there: &Values| text(&|i| there.get(i).map(ToString::to_string));
        let wanted = text(&|i| given.iter().find(|(at, _)| *at == i).map(|(_, v)| v.to_string()));
        let texts: Vec<String> = rows.iter().map(|there| of_row(there)).collect();
        let near = nearest(&wanted, texts.iter().map(String::as_str))
            .and_then(|near| texts.iter().position(|text| text == near))
            .and_then(|at| rows.get(at));
        match near.or_else(|| rows.iter().max_by_key(|there| agrees(there))) {
            Some(near) => d.note(format!("the nearest that it has: {}", shown(schema, near))),
            None => d.note("the table is empty"),
        }
    }

    /// What a statement gives: its events, alone at a tick, and behind it the rows of tables that are copied anew.
    pub(super) fn statement(&mut self, text: &str, span: &Span) -> Result<Vec<Record>, Diagnostic> {
        let context = Context { database: self.captured.only_database(), ..Context::mysql(VERSION) };
        let wrong = |headline: String| Diagnostic::error(codes::TEST_STEP, headline).at(span.clone(), "");
        let (changes, facts) = match parse(text, &context, &self.structures) {
            Outcome::Changes { changes, facts } => (changes, facts),
            Outcome::NoEffect { facts, tables, .. }
                if tables.iter().any(|table| self.captured.contains(table))
                    || facts.iter().any(|fact| matches!(fact, Fact::Database { .. })) =>
            {
                (Vec::new(), facts)
            }
            // a word that is misspelt reads as a statement about something else
            Outcome::NoEffect { what, tables, .. } => return Err(self.changes_nothing(&what, &tables, span)),
            Outcome::Dml { what: "a call", .. } => {
                return Err(wrong("the statement reads or calls, and changes no table".to_owned())
                    .help("write what it does to tables: ALTER TABLE .., or when src.table + { .. }"));
            }
            Outcome::Dml { what, .. } => {
                return Err(wrong(format!("{what} changes rows: ddl is for statements that change tables"))
                    .help("write rows as when src.table + { .. }, - { .. } or ~ { .. }"));
            }
            Outcome::Transaction(_) => {
                return Err(wrong("a statement of a transaction changes no table".to_owned())
                    .help("one given or when is one transaction"));
            }
            Outcome::NotUnderstood { mut diagnostic, .. } => {
                // what helps a run has no place in a test
                diagnostic.help = vec!["correct the statement, or leave it out of the test".to_owned()];
                return Err(placed(*diagnostic, span));
            }
        };
        let of_error = |error: Error| placed(error.diagnostic().clone(), span);
        let about: Vec<TableId> = changes.iter().map(|change| change.table().clone()).collect();
        let groups = self.grouped(changes, span)?;
        if groups.is_empty() && !about.is_empty() {
            return Err(self.changes_nothing("", &about, span));
        }
        let origin = self.begin();
        let mut records = Vec::new();
        let mut again = Vec::new();
        for (table, mut changes) in groups {
            let before = self.structures.get(&table).cloned();
            for change in &changes {
                self.follow(change, span)?;
                self.structures.apply(std::slice::from_ref(change)).map_err(of_error)?;
            }
            let to = |c: &SchemaChange| match c {
                SchemaChange::RenameTable { to, .. } => Some(to.clone()),
                _ => None,
            };
            let now = changes.iter().rev().find_map(to).unwrap_or(table);
            let after = self.structures.get(&now).cloned();
            if let (Some(before), Some(after)) = (&before, &after)
                && let Some(reason) = self.copied_where_other(&changes, before, after)
            {
                changes.push(SchemaChange::ResnapshotTable { table: after.id.clone(), reason });
            }
            if let Some(after) = &after
                && changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }))
            {
                again.push(after.clone());
            }
            self.ordinal += 1;
            let event = SchemaEvent {
                tick: self.tick,
                origin: origin.clone(),
                statement: text.into(),
                changes,
                before,
                after,
            };
            records.push(Record::Schema { ordinal: self.ordinal, event: Arc::new(event) });
        }
        self.structures.learn(&facts);
        records.push(self.end());
        for schema in again {
            let origin = Origin { gtid: "".into(), snapshot: true, ..self.begin() };
            let rows = self.rows.get(&schema.id).into_iter().flat_map(Rows::iter);
            let read = rows.map(|(_, row)| (Op::Read, None, Some(row.clone()))).collect();
            records.push(self.batch(schema, &origin, read));
            records.push(self.end());
        }
        Ok(records)
    }

    /// The error of a statement that a run would pass over.
    fn changes_nothing(&self, what: &str, tables: &[TableId], span: &Span) -> Diagnostic {
        let headline = format!("the statement changes no table that source \"{}\" captures", self.name);
        let d = Diagnostic::error(codes::TEST_STEP, headline).at(span.clone(), "");
        match (tables, what) {
            ([], "") => d,
            ([], what) => d.note(format!("it reads as {what}")),
            (tables, _) => {
                let names: BTreeSet<String> = tables.iter().map(|t| format!("\"{t}\"")).collect();
                let names: Vec<String> = names.into_iter().collect();
                d.note(format!("it is about {}", names.join(", ")))
            }
        }
        .help("ddl is for statements such as ALTER TABLE, CREATE TABLE, RENAME TABLE, TRUNCATE of captured tables")
    }

    /// The changes of a statement by table, as the reader of the log gives them out: those of tables that are captured, and a table
    /// that is renamed out of sight is dropped.
    fn grouped(
        &self,
        changes: Vec<SchemaChange>,
        span: &Span,
    ) -> Result<Vec<(TableId, Vec<SchemaChange>)>, Diagnostic> {
        let mut groups: Vec<(TableId, Vec<SchemaChange>)> = Vec::new();
        // which names stand for a known table behind the changes so far
        let mut names: BTreeMap<TableId, bool> = BTreeMap::new();
        for change in changes {
            let table = change.table().clone();
            let mut is_captured = self.captured.contains(&table);
            let is_there = |names: &BTreeMap<TableId, bool>, table: &TableId| {
                names.get(table).copied().unwrap_or_else(|| self.structures.get(table).is_some())
            };
            let there = is_there(&names, &table);
            let refused = match &change {
                SchemaChange::CreateTable { .. } => there.then_some((&table, "is there already")),
                SchemaChange::RenameTable { to, .. } if is_there(&names, to) => {
                    Some((to, "is there already"))
                }
                _ => (is_captured && !there).then_some((&table, "is not there")),
            };
            if let Some((table, is)) = refused {
                let headline = format!("table \"{table}\" {is}: the server would refuse the statement");
                return Err(Diagnostic::error(codes::TEST_STEP, headline).at(span.clone(), ""));
            }
            let change = match change {
                SchemaChange::RenameTable { table, to } => {
                    is_captured &= there;
                    names.insert(table.clone(), false);
                    names.insert(to.clone(), is_captured);
                    let to_captured = self.captured.contains(&to);
                    if !is_captured && to_captured {
                        let headline =
                            format!("table \"{to}\" comes by a rename from where nothing is captured");
                        return Err(Diagnostic::error(codes::FEATURE_NOT_YET, headline)
                            .at(span.clone(), "")
                            .note("a test knows only the rows of captured tables"));
                    }
                    if to_captured {
                        SchemaChange::RenameTable { table, to }
                    } else {
                        SchemaChange::DropTable { table }
                    }
                }
                other => other,
            };
            match &change {
                SchemaChange::CreateTable { .. } => drop(names.insert(table.clone(), is_captured)),
                SchemaChange::DropTable { .. } => drop(names.insert(table.clone(), false)),
                _ => {}
            }
            if !is_captured {
                continue;
            }
            match groups.iter_mut().find(|(t, _)| *t == table) {
                Some((_, group)) => group.push(change),
                None => groups.push((table, vec![change])),
            }
        }
        Ok(groups)
    }

    fn copied_where_other(
        &self,
        changes: &[SchemaChange],
        before: &Arc<TableSchema>,
        after: &Arc<TableSchema>,
    ) -> Option<String> {
        let comes_anyway = |c: &SchemaChange| {
            matches!(c, SchemaChange::CreateTable { .. } | SchemaChange::ResnapshotTable { .. })
        };
        if changes.iter().any(comes_anyway) {
            return None;
        }
        other_rows(&self.flows, &self.read, changes, before, after)
    }

    /// The rows of a table behind a change that is not made yet.
    fn follow(&mut self, change: &SchemaChange, span: &Span) -> Result<(), Diagnostic> {
        let table = change.table();
        match change {
            SchemaChange::CreateTable { .. }
            | SchemaChange::DropTable { .. }
            | SchemaChange::TruncateTable { .. } => {
                self.rows.remove(table);
                return Ok(());
            }
            SchemaChange::RenameTable { to, .. } => {
                if let Some(rows) = self.rows.remove(table) {
                    self.rows.insert(to.clone(), rows);
                }
                return Ok(());
            }
            _ => {}
        }
        if let Some(rows) = self.rows.get_mut(table) {
            rows.keys_change();
        }
        let (Some(before), Some(rows)) = (self.structures.get(table), self.rows.get_mut(table)) else {
            return Ok(());
        };
        let after = change.apply_to(before).map_err(|e| placed(e.diagnostic().clone(), span))?;
        if after.columns == before.columns {
            return Ok(());
        }
        let cannot = |column: &Column, why: String| {
            let headline =
                format!("what the rows of \"{table}\" hold in column \"{}\" cannot be told", column.name);
            Diagnostic::error(codes::TEST_STEP, headline).at(span.clone(), "").note(why)
        };
        let mut next: Vec<Values> = vec![Vec::with_capacity(after.columns.len()); rows.len()];
        for (place, column) in after.columns.iter().enumerate() {
            let was = match change {
                SchemaChange::RenameColumn { column: was, to, .. } if same_name(to, &column.name) => was,
                _ => &column.name,
            };
            let is_new = matches!(change, SchemaChange::AddColumn { column: new, .. } if same_name(&new.name, &column.name));
            match before.column_index(was).filter(|_| !is_new) {
                Some(at) => {
                    let from = &before.columns[at].ty;
                    for ((_, row), next) in rows.iter().zip(&mut next) {
                        next.push(if *from == column.ty {
                            row[at].clone()
                        } else {
                            retyped(&row[at], from, &column.ty).map_err(|why| cannot(column, why))?
                        });
                    }
                }
                None => {
                    let value = default_value(&after, place).map(|row| row.get(0).into_owned());
                    if column.auto_increment {
                        rows.last_number = next.len() as u64;
                    }
                    for (number, next) in next.iter_mut().enumerate() {
                        next.push(match &value {
                            Some(value) => value.clone(),
                            None if column.auto_increment => counted(column, number as u64 + 1),
                            None => {
                                let why =
                                    "its default is none that can be told from the statement".to_owned();
                                return Err(cannot(column, why));
                            }
                        });
                    }
                }
            }
        }
        rows.rewrite(next);
        Ok(())
    }
}

type Made = (Op, Option<Values>, Option<Values>);

/// Columns, by their places, and their values.
type Given = Vec<(usize, Value<'static>)>;

/// A value behind a change of its column's type.
fn retyped(value: &Value<'static>, from: &ColumnType, to: &ColumnType) -> Result<Value<'static>, String> {
    if value.is_null() { Ok(Value::Null) } else { fitted(value, from, to) }
}

fn step(row: &TestRow, headline: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::TEST_STEP, headline).at(row.span.clone(), "")
}

fn values(schema: &TableSchema, row: &TestRow) -> Result<Given, Diagnostic> {
    row.values
        .iter()
        .map(|(name, expr)| {
            let at = schema.column_index(&name.name).ok_or_else(|| {
                unknown_column(&name.name, &name.span, &schema.id.to_string(), &schema.columns)
            })?;
            Ok((at, stored(expr, &schema.columns[at])?))
        })
        .collect()
}

/// The error of a column that is not there.
pub(super) fn unknown_column(name: &str, span: &Span, table: &str, columns: &[Column]) -> Diagnostic {
    let headline = format!("unknown column \"{name}\" of \"{table}\"");
    let d = Diagnostic::error(codes::UNKNOWN_COLUMN, headline).at(span.clone(), "");
    let names: Vec<&str> = columns.iter().map(|c| &*c.name).collect();
    match nearest(name, names.iter().copied()) {
        Some(near) => d.help(format!("did you mean \"{near}\"?")),
        None => d.help(format!("there is {}", names.join(", "))),
    }
}

/// What a column has that an insert does not name.
fn default(
    schema: &TableSchema,
    at: usize,
    last_number: u64,
    row: &TestRow,
) -> Result<Value<'static>, Diagnostic> {
    let column = &schema.columns[at];
    if column.auto_increment {
        return Ok(counted(column, last_number.saturating_add(1)));
    }
    let why = match &column.default {
        _ if column.generated.is_some() => "it is computed by the server, from the row's other columns",
        None if !column.nullable => "it has no default",
        _ => "its default depends on the moment or the row",
    };
    let value = if column.generated.is_none() && (column.default.is_some() || column.nullable) {
        default_value(schema, at)
    } else {
        None
    };
    value.map(|value| value.get(0).into_owned()).ok_or_else(|| {
        step(row, format!("column \"{}\" of \"{}\" is not named, and {why}", column.name, schema.id))
            .help(format!("name it: {}: ..", column.name))
    })
}

fn number_of(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Int(v) => u64::try_from(*v).ok(),
        Value::UInt(v) => Some(*v),
        _ => None,
    }
}

fn counted(column: &Column, number: u64) -> Value<'static> {
    match column.ty {
        ColumnType::Int { unsigned: true, .. } => Value::UInt(number),
        ColumnType::Double { .. } => Value::Double(number as f64),
        ColumnType::Float { .. } => Value::Float(number as f32),
        _ => Value::Int(i64::try_from(number).unwrap_or(i64::MAX)),
    }
}

/// A generated column that is not named though one that it is computed from changes, and that one.
fn stale(schema: &TableSchema, before: &Values, after: &Values, named: &[usize]) -> Option<(usize, usize)> {
    let mut changed: Vec<usize> =
        (0..schema.columns.len()).filter(|&i| before.get(i) != after.get(i)).collect();
    let generated = schema.columns.iter().enumerate().filter_map(|(i, c)| Some((i, c.generated.as_ref()?)));
    // one may be computed from another one, which stands in front of it
    for (i, generated) in generated {
        let names = |of: &usize| has_word(&generated.expression, &schema.columns[*of].name);
        let Some(of) = changed.iter().copied().filter(|of| *of != i).find(names) else { continue };
        if !named.contains(&i) {
            return Some((i, of));
        }
        changed.push(i);
    }
    None
}

/// Does an expression name a column? In quotes of a text it may be no name: then too much is asked for.
fn has_word(expression: &str, name: &str) -> bool {
    let (expression, name) = (expression.to_lowercase(), name.to_lowercase());
    let goes_on = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$');
    expression.match_indices(&name).any(|(at, _)| {
        !goes_on(expression[..at].chars().next_back())
            && !goes_on(expression[at + name.len()..].chars().next())
    })
}

/// A value that the server would take in strict mode.
fn checked(
    value: Value<'static>,
    column: &Column,
    schema: &TableSchema,
    row: &TestRow,
) -> Result<Value<'static>, Diagnostic> {
    let place = || row.values.iter().find(|(name, _)| same_name(&name.name, &column.name));
    let span = || place().map_or_else(|| row.span.clone(), |(_, expr)| expr.span.clone());
    let date = match &value {
        Value::Null if !column.nullable => {
            let headline = format!("column \"{}\" of \"{}\" is NOT NULL", column.name, schema.id);
            return Err(Diagnostic::error(codes::TEST_STEP, headline).at(span(), ""));
        }
        Value::Date(date) => date,
        Value::DateTime(at) => &at.date,
        _ => return Ok(value),
    };
    if date.is_real() {
        return Ok(value);
    }
    let headline = format!("the value of column \"{}\" is no day of the calendar", column.name);
    Err(Diagnostic::error(codes::OUT_OF_RANGE, headline).at(span(), ""))
}

/// A row for people, as a test writes it.
fn shown(schema: &TableSchema, row: &Values) -> String {
    let values: Vec<String> =
        schema.columns.iter().zip(row).map(|(c, value)| format!("{}: {value}", c.name)).collect();
    format!("{{ {} }}", values.join(", "))
}
