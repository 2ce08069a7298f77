//! From a table and its final shape to the schema changes that tell the difference.

use super::super::alter::{Action, Alter, Place};
use super::super::cursor::{Failure, Parsed};
use super::super::index::{self, same};
use super::{Final, Shape};
use cdc_core::codes;
use cdc_core::schema::{Column, TableSchema};
use cdc_core::schema_change::{ASIDE, ColumnPosition, SchemaChange};
use std::sync::Arc;

/// A change does not fit the running copy.
struct Misfit;

/// Makes changes and applies each to a running copy.
struct Telling<'s> {
    shape: &'s Shape,
    copy: TableSchema,
    /// The current name of each column by number, while it is there.
    names: Vec<Option<Arc<str>>>,
    changes: Vec<SchemaChange>,
}

impl<'s> Telling<'s> {
    fn new(old: &TableSchema, shape: &'s Shape) -> Telling<'s> {
        let numbers = shape.columns.iter().map(|f| f.number + 1).max().unwrap_or(0).max(old.columns.len());
        let mut names: Vec<_> = old.columns.iter().map(|c| Some(c.name.clone())).collect();
        names.resize(numbers, None);
        Telling { shape, copy: old.clone(), names, changes: Vec::new() }
    }

    fn push(&mut self, change: SchemaChange) -> Result<(), Misfit> {
        self.copy = change.apply_to(&self.copy).map_err(|_| Misfit)?;
        self.changes.push(change);
        Ok(())
    }

    fn name(&self, number: usize) -> Result<Arc<str>, Misfit> {
        self.names.get(number).cloned().flatten().ok_or(Misfit)
    }

    fn drop_column(&mut self, number: usize) -> Result<(), Misfit> {
        let column = self.name(number)?;
        self.names[number] = None;
        self.push(SchemaChange::DropColumn { table: self.copy.id.clone(), column })
    }

    fn add(&mut self, number: usize, position: ColumnPosition) -> Result<(), Misfit> {
        let column = self.shape.by_number(number).ok_or(Misfit)?.clone();
        self.names[number] = Some(column.name.clone());
        self.push(SchemaChange::AddColumn { table: self.copy.id.clone(), column, position })
    }

    fn rename(&mut self, number: usize, to: &Arc<str>) -> Result<(), Misfit> {
        let column = self.name(number)?;
        if column == *to {
            return Ok(());
        }
        let taken = index::find(&self.copy.columns, to);
        if taken.is_some() && taken != index::find(&self.copy.columns, &column) {
            return Err(Misfit);
        }
        self.names[number] = Some(to.clone());
        let table = self.copy.id.clone();
        self.push(SchemaChange::RenameColumn { table, column, to: to.clone() })
    }

    fn position(&self, place: &Place) -> Result<ColumnPosition, Misfit> {
        Ok(match place {
            Place::First => ColumnPosition::First,
            Place::After(name) => {
                let behind = self.shape.columns.iter().find(|f| same(&f.column.name, name)).ok_or(Misfit)?;
                ColumnPosition::After(self.name(behind.number)?)
            }
        })
    }

    /// Type and place, only if one of them changes.
    fn alter_type(&mut self, number: usize, position: Option<ColumnPosition>) -> Result<(), Misfit> {
        let column = self.name(number)?;
        let at = index::find(&self.copy.columns, &column).ok_or(Misfit)?;
        let ty = self.shape.by_number(number).ok_or(Misfit)?.ty.clone();
        let table = self.copy.id.clone();
        let mut change = SchemaChange::AlterColumnType { table, column, ty, position };
        let next = change.apply_to(&self.copy).map_err(|_| Misfit)?;
        let moves = next.columns.iter().zip(&self.copy.columns).any(|(a, b)| a.name != b.name);
        let SchemaChange::AlterColumnType { ty, position, .. } = &mut change else { return Err(Misfit) };
        if !moves {
            *position = None;
        }
        if !moves && *ty == self.copy.columns[at].ty {
            return Ok(());
        }
        self.push(change)
    }

    /// What else of a column is not as it is to be, but for its name.
    fn alter_rest(&mut self, number: usize) -> Result<(), Misfit> {
        let column = self.name(number)?;
        let at = index::find(&self.copy.columns, &column).ok_or(Misfit)?;
        let wanted = self.shape.by_number(number).ok_or(Misfit)?;
        let table = self.copy.id.clone();
        if self.copy.columns[at].nullable != wanted.nullable {
            let (table, column, nullable) = (table.clone(), column.clone(), wanted.nullable);
            self.push(SchemaChange::AlterNullability { table, column, nullable })?;
        }
        if self.copy.columns[at].default != wanted.default {
            let (table, default) = (table.clone(), wanted.default.clone());
            self.push(SchemaChange::AlterColumnDefault { table, column: column.clone(), default })?;
        }
        let wanted = Column { name: column, ..wanted.clone() };
        if self.copy.columns[at] != wanted {
            self.push(SchemaChange::AlterColumnAttributes { table, column: wanted })?;
        }
        Ok(())
    }

    /// The keys, if they are not as they are to be; last of all, under final names.
    fn keys(&mut self, old: &TableSchema) -> Result<(), Misfit> {
        let table = self.copy.id.clone();
        // A column that leaves the primary key changes the key, though DropColumn alone says it too.
        if old.primary_key != self.shape.primary {
            let columns = self.shape.names(&self.shape.primary);
            self.push(SchemaChange::ChangePrimaryKey { table: table.clone(), columns })?;
        }
        let wanted: Vec<_> = self.shape.unique.iter().map(|key| self.shape.places(key)).collect();
        if self.copy.unique_keys != wanted {
            let keys = self.shape.unique.iter().map(|key| self.shape.names(key)).collect();
            self.push(SchemaChange::ChangeUniqueKeys { table, keys })?;
        }
        Ok(())
    }

    /// The changes, if the running copy is the final table.
    fn finish(self) -> Result<Vec<SchemaChange>, Misfit> {
        let same_columns = self.copy.columns.len() == self.shape.columns.len()
            && self.copy.columns.iter().zip(&self.shape.columns).all(|(a, b)| *a == b.column);
        let same_keys = self.copy.primary_key == self.shape.places(&self.shape.primary);
        if same_columns && same_keys { Ok(self.changes) } else { Err(Misfit) }
    }
}

/// The changes from the old table to the final shape.
pub(super) fn changes(old: &TableSchema, shape: &Shape, alter: Option<&Alter>) -> Parsed<Vec<SchemaChange>> {
    let ordered = alter.map_or(Err(Misfit), |alter| in_order(old, shape, alter));
    ordered.or_else(|_| from_scratch(old, shape)).map_err(|_| {
        let message = format!("the columns of \"{}\" do not come out as the statement says", old.id);
        Failure::new(codes::DDL_UNSUPPORTED, message)
    })
}

/// In the order of the statement.
fn in_order(old: &TableSchema, shape: &Shape, alter: &Alter) -> Result<Vec<SchemaChange>, Misfit> {
    let mut telling = Telling::new(old, shape);
    let mut next = old.columns.len();
    let number = |column: &str| index::find(&old.columns, column);
    for action in &alter.actions {
        match action {
            Action::Add { def, place, .. } => {
                // Left out by IF NOT EXISTS: then it has no number either.
                let is_next = shape.by_number(next).is_some_and(|c| c.name == def.name);
                if is_next {
                    let position = place.as_ref().map(|p| telling.position(p)).transpose()?;
                    telling.add(next, position.unwrap_or(ColumnPosition::Last))?;
                    next += 1;
                }
            }
            Action::Drop { column, .. } => {
                if let Some(number) = number(column) {
                    telling.drop_column(number)?;
                }
            }
            Action::Change { column, place, .. } => {
                if let Some(number) = number(column) {
                    let position = place.as_ref().map(|p| telling.position(p)).transpose()?;
                    telling.alter_type(number, position)?;
                    telling.alter_rest(number)?;
                    let to = shape.by_number(number).ok_or(Misfit)?.name.clone();
                    telling.rename(number, &to)?;
                }
            }
            Action::Rename { column, to, .. } => {
                if let Some(number) = number(column) {
                    telling.rename(number, to)?;
                }
            }
            Action::Default { column, .. } | Action::Visible { column, .. } => {
                if let Some(number) = number(column) {
                    telling.alter_rest(number)?;
                }
            }
            Action::Convert { .. } => {
                for f in &shape.columns {
                    if telling.name(f.number).is_ok() {
                        telling.alter_type(f.number, None)?;
                    }
                }
            }
            Action::AddPeriod { .. } => {
                for f in shape.columns.iter().filter(|f| !f.column.nullable) {
                    if telling.name(f.number).is_ok_and(|name| name == f.column.name) {
                        telling.alter_rest(f.number)?;
                    }
                }
            }
            Action::AddKey(_)
            | Action::DropPeriod
            | Action::DropPrimary
            | Action::DropIndex { .. }
            | Action::RenameIndex { .. } => {}
        }
    }
    telling.keys(old)?;
    telling.finish()
}

/// From the final shape alone.
fn from_scratch(old: &TableSchema, shape: &Shape) -> Result<Vec<SchemaChange>, Misfit> {
    let mut telling = Telling::new(old, shape);
    let is_old = |number: usize| number < old.columns.len();
    for number in 0..old.columns.len() {
        if shape.by_number(number).is_none() {
            telling.drop_column(number)?;
        }
    }
    let mut waiting: Vec<&Final> = shape.columns.iter().filter(|f| is_old(f.number)).collect();
    waiting.retain(|f| telling.names[f.number].as_ref() != Some(&f.column.name));
    let mut spare = 0;
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut blocked = Vec::new();
        for f in waiting {
            if telling.rename(f.number, &f.column.name).is_err() {
                blocked.push(f);
            }
        }
        // Every name wanted is taken by another that waits: a ring. One of them steps aside.
        if blocked.len() == before {
            spare += 1;
            telling.rename(blocked[0].number, &Arc::from(format!("{ASIDE}{spare}")))?;
            if spare > before {
                return Err(Misfit);
            }
        }
        waiting = blocked;
    }
    for (i, f) in shape.columns.iter().enumerate() {
        let position = match i.checked_sub(1).map(|before| &shape.columns[before]) {
            None => ColumnPosition::First,
            Some(before) => ColumnPosition::After(before.column.name.clone()),
        };
        if is_old(f.number) {
            telling.alter_type(f.number, Some(position))?;
            telling.alter_rest(f.number)?;
        } else {
            let last = i + 1 == shape.columns.len() && i == telling.copy.columns.len();
            telling.add(f.number, if last { ColumnPosition::Last } else { position })?;
        }
    }
    telling.keys(old)?;
    telling.finish()
}
