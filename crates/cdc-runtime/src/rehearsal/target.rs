//! A target in memory, in the place of a sink's own: it keeps what any keyed database would, and shows what has been committed.

use cdc_core::connector::{
    Delivery, JobIdentity, Resume, Sink, TargetBatch, TargetOp, TargetSchemaChange, TargetTable,
};
use cdc_core::position::Binding;
use cdc_core::schema::{Charset, Column, TableId, TableSchema, same_name};
use cdc_core::tick::Tick;
use cdc_core::value::Value;
use cdc_core::{Error, Result, Row, codes};
use cdc_mysql::decode::default::default_value;
use cdc_schema::coerce::convert;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A row, in the order of its table's columns.
pub(super) type Values = Vec<Value<'static>>;

/// A table as the target has it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    /// The names of the columns that tell rows apart; empty: none do.
    pub(super) key: Vec<Arc<str>>,
    pub(super) rows: Vec<Values>,
}

type Tables = BTreeMap<String, Table>;

/// What is committed.
#[derive(Debug, Default)]
pub(super) struct Shown {
    state: Mutex<(Tick, Tables)>,
    moved: Condvar,
}

impl Shown {
    /// The tables, if the tick is committed or becomes so within this time.
    pub(super) fn at(&self, tick: Tick, wait: Duration) -> Option<Tables> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = |(committed, _): &mut (Tick, Tables)| *committed < tick;
        let (state, _) =
            self.moved.wait_timeout_while(state, wait, behind).unwrap_or_else(PoisonError::into_inner);
        (state.0 >= tick).then(|| state.1.clone())
    }
}

/// The target.
#[derive(Debug, Default)]
pub(super) struct Target {
    tables: Tables,
    shown: Arc<Shown>,
}

impl Target {
    /// One without tables, and where it shows them.
    pub(super) fn new() -> (Target, Arc<Shown>) {
        let target = Target::default();
        let shown = target.shown.clone();
        (target, shown)
    }

    fn table(&mut self, name: &str) -> Result<&mut Table> {
        let missing = || Error::definite(codes::TARGET_DDL, format!("table \"{name}\" is not at the target"));
        self.tables.get_mut(name).ok_or_else(missing)
    }
}

impl Table {
    fn new(table: &TargetTable) -> Table {
        Table { columns: table.schema.columns.clone(), key: key_names(table), rows: Vec::new() }
    }

    pub(super) fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| same_name(&c.name, column))
    }

    fn there(&self, table: &str, column: &str) -> Result<usize> {
        self.place(column).ok_or_else(|| {
            Error::definite(codes::TARGET_DDL, format!("table \"{table}\" has no column \"{column}\""))
        })
    }

    /// The places of the key's columns.
    pub(super) fn key(&self) -> Vec<usize> {
        self.key.iter().filter_map(|name| self.place(name)).collect()
    }

    /// Is it one of the rows that these values tell from others?
    fn is_of(&self, row: &Values, only: &[(Column, Row)]) -> bool {
        only.iter().all(|(column, value)| {
            self.place(&column.name).is_some_and(|at| row.get(at) == Some(&value.get(0).into_owned()))
        })
    }

    fn write(&mut self, batch: &TargetBatch, places: &[usize]) -> Result<()> {
        let table = &batch.table;
        let of_key: Vec<usize> = match table.is_multiset() {
            true => places.to_vec(),
            false => table.key.iter().filter_map(|&i| places.get(i).copied()).collect(),
        };
        let key_of = |row: &Values| Row::pack(of_key.iter().filter_map(|&i| row.get(i).cloned()));
        // those that are deleted leave a hole until the end
        let mut rows: Vec<Option<Values>> = std::mem::take(&mut self.rows).into_iter().map(Some).collect();
        let mut by_key: HashMap<Row, Vec<usize>> = HashMap::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate().rev() {
            by_key.entry(key_of(row.as_ref().unwrap_or(&Vec::new()))).or_default().push(at);
        }
        let missing = || {
            let headline = format!("table \"{}\": the row to be changed is not there", table.name);
            Error::definite(codes::TARGET_ROW_MISSING, headline)
        };
        for change in &batch.changes {
            // of an update in part it is the row that had the key before
            let old = change.before.as_ref().filter(|_| change.is_in_part() && !table.is_multiset());
            let old = old.map(|before| table.key_of(before));
            let key = old.as_ref().unwrap_or(&change.key);
            let found = by_key.get(key).and_then(|all| all.last().copied());
            let adds = table.is_multiset() && change.op == TargetOp::Upsert;
            let row = match (change.op, &change.row, found.filter(|_| !adds)) {
                (TargetOp::Delete, _, None) if table.is_multiset() => return Err(missing()),
                (TargetOp::Upsert, _, None) if adds => self.row(&change.key, places, None),
                (TargetOp::Delete, _, None) | (TargetOp::Upsert, None, _) => continue,
                (TargetOp::Upsert, Some(_), None) if change.is_in_part() => return Err(missing()),
                (TargetOp::Upsert, Some(row), None) => self.row(row, places, None),
                (op, row, Some(at)) => {
                    let was = rows.get_mut(at).and_then(Option::take);
                    if let Some(all) = by_key.get_mut(key) {
                        all.pop();
                    }
                    match row.as_ref().filter(|_| op == TargetOp::Upsert) {
                        None => continue,
                        Some(row) => {
                            let row = self.row(row, places, was.as_ref());
                            by_key.entry(key_of(&row)).or_default().push(at);
                            rows[at] = Some(row);
                            continue;
                        }
                    }
                }
            };
            by_key.entry(key_of(&row)).or_default().push(rows.len());
            rows.push(Some(row));
        }
        self.rows = rows.into_iter().flatten().collect();
        Ok(())
    }

    /// A row as the table has it: what is not written stays as it was, or is NULL.
    fn row(&self, row: &Row, places: &[usize], was: Option<&Values>) -> Values {
        let mut values = was.cloned().unwrap_or_else(|| vec![Value::Null; self.columns.len()]);
        for (value, &at) in row.iter().zip(places) {
            if !value.is_absent()
                && let Some(slot) = values.get_mut(at)
            {
                *slot = value.into_owned();
            }
        }
        values
    }
}

fn key_names(table: &TargetTable) -> Vec<Arc<str>> {
    table.key.iter().filter_map(|&i| table.schema.columns.get(i)).map(|c| c.name.clone()).collect()
}

/// What rows that are there read in a column that comes.
fn default_of(table: &str, column: &Column, implicit: bool) -> Result<Value<'static>> {
    let alone = TableSchema {
        id: TableId::new("", table),
        version: 0,
        columns: vec![Column { nullable: column.nullable && !implicit, ..column.clone() }],
        primary_key: Vec::new(),
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    };
    default_value(&alone, 0).map(|row| row.get(0).into_owned()).ok_or_else(|| {
        let name = &column.name;
        Error::definite(
            codes::TARGET_DDL,
            format!(
                "table \"{table}\": what the rows that are there read in column \"{name}\" cannot be told"
            ),
        )
    })
}

impl Sink for Target {
    fn delivery(&self) -> Delivery {
        Delivery::Net
    }

    fn inspect(&mut self, _: &JobIdentity) -> Result<Option<Resume>> {
        Ok(None)
    }

    fn holds_progress(&self) -> bool {
        true
    }

    fn check(&mut self, _: &TargetTable) -> Result<()> {
        Ok(())
    }

    fn claim(&mut self, _: &JobIdentity) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        let there = self.tables.entry(table.name.clone()).or_insert_with(|| Table::new(table));
        match table.schema.columns.iter().find(|column| there.place(&column.name).is_none()) {
            None => Ok(()),
            Some(column) => Err(Error::definite(
                codes::TARGET_SHAPE,
                format!("table \"{}\" at the target has no column \"{}\"", table.name, column.name),
            )),
        }
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        let table = self.table(&batch.table.name)?;
        let columns = &batch.table.schema.columns;
        let places: Vec<usize> =
            columns.iter().map(|c| table.there(&batch.table.name, &c.name)).collect::<Result<_>>()?;
        table.write(batch, &places)
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        match change {
            TargetSchemaChange::CreateTable { table } => {
                self.tables.entry(table.name.clone()).or_insert_with(|| Table::new(table));
            }
            TargetSchemaChange::AddColumn { table: name, column, implicit, .. } => {
                let table = self.table(name)?;
                if table.place(&column.name).is_none() {
                    if !table.rows.is_empty() {
                        let value = default_of(name, column, *implicit)?;
                        table.rows.iter_mut().for_each(|row| row.push(value.clone()));
                    }
                    table.columns.push(column.clone());
                }
            }
            TargetSchemaChange::RenameColumn { table: name, from, to } => {
                let table = self.table(name)?;
                let at = table.there(name, from)?;
                table.columns[at].name = to.as_str().into();
                table
                    .key
                    .iter_mut()
                    .filter(|key| same_name(key, from))
                    .for_each(|key| *key = to.as_str().into());
            }
            TargetSchemaChange::FillColumn { table: name, from, to, only, .. } => {
                let table = self.table(name)?;
                let (from, to) = (table.there(name, from)?, table.there(name, to)?);
                let (old, new) = (table.columns[from].ty.clone(), table.columns[to].ty.clone());
                for at in 0..table.rows.len() {
                    if table.is_of(&table.rows[at], only) {
                        let value = convert(&table.rows[at][from], &old, &new)
                            .map_err(|why| does_not_fit(name, &table.columns[to], &why))?;
                        table.rows[at][to] = value.into_owned();
                    }
                }
            }
            TargetSchemaChange::ResetColumn { table: name, column, implicit, only } => {
                let value = default_of(name, column, *implicit)?;
                let table = self.table(name)?;
                let to = table.there(name, &column.name)?;
                for at in 0..table.rows.len() {
                    if table.is_of(&table.rows[at], only) {
                        table.rows[at][to] = value.clone();
                    }
                }
            }
            TargetSchemaChange::DropColumn { table: name, column } => {
                let table = self.table(name)?;
                if let Some(at) = table.place(column) {
                    table.columns.remove(at);
                    table.rows.iter_mut().for_each(|row| {
                        row.remove(at);
                    });
                }
            }
            TargetSchemaChange::AlterColumnType { table: name, column, ty, .. } => {
                let table = self.table(name)?;
                let at = table.there(name, column)?;
                let old = std::mem::replace(&mut table.columns[at].ty, ty.clone());
                for row in &mut table.rows {
                    let value = convert(&row[at], &old, ty)
                        .map_err(|why| does_not_fit(name, &table.columns[at], &why))?;
                    row[at] = value.into_owned();
                }
            }
            TargetSchemaChange::AlterNullability { table: name, column, nullable } => {
                let table = self.table(name)?;
                let at = table.there(name, column)?;
                table.columns[at].nullable = *nullable;
            }
            TargetSchemaChange::AlterColumnDefault { table: name, column } => {
                let table = self.table(name)?;
                let at = table.there(name, &column.name)?;
                table.columns[at].default = column.default.clone();
            }
            // nothing asks for comments here
            TargetSchemaChange::AlterComment { .. } => {}
            TargetSchemaChange::ChangeKey { table } => {
                let key = key_names(table);
                self.table(&table.name)?.key = key;
            }
            TargetSchemaChange::TruncateTable { table } => {
                if let Some(table) = self.tables.get_mut(table) {
                    table.rows.clear();
                }
            }
            TargetSchemaChange::RemoveRows { table, only, .. } => {
                if let Some(table) = self.tables.get_mut(table) {
                    let rows = std::mem::take(&mut table.rows);
                    table.rows = rows.into_iter().filter(|row| !table.is_of(row, only)).collect();
                }
            }
            TargetSchemaChange::DropTable { table } => {
                self.tables.remove(table);
            }
            TargetSchemaChange::RenameTable { from, to } => {
                if from != to && self.tables.contains_key(to) {
                    return Err(Error::definite(
                        codes::TARGET_SHAPE,
                        format!("table \"{from}\" cannot be renamed: there is a \"{to}\" already"),
                    ));
                }
                if let Some(table) = self.tables.remove(from) {
                    self.tables.insert(to.clone(), table);
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self, tick: Tick, _: &Binding) -> Result<()> {
        *self.shown.state.lock().unwrap_or_else(PoisonError::into_inner) = (tick, self.tables.clone());
        self.shown.moved.notify_all();
        Ok(())
    }

    fn rollback(&mut self) {
        self.tables = self.shown.state.lock().unwrap_or_else(PoisonError::into_inner).1.clone();
    }
}

fn does_not_fit(table: &str, column: &Column, why: &str) -> Error {
    Error::definite(
        codes::TARGET_DDL,
        format!(
            "table \"{table}\": a value of column \"{}\" is not one of {}: {why}",
            column.name, column.ty
        ),
    )
}
