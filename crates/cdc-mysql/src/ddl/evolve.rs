//! What an ALTER TABLE's actions make of a table, and the schema changes that tell it.
//!
//! The server does not carry out the actions one after the other. All of them name columns of the table as
//! it *was* (only AFTER and key parts name columns as they *will be*): it goes through the old columns,
//! leaves the dropped ones out and puts changed ones in their old place, then goes through the actions for
//! the columns that are added or move (`mysql_prepare_alter_table`). [`evolve`] does the same and knows the
//! final shape first. (Measured on both servers: a column that moves is in its old place until its own action
//! is due, so `ADD x AFTER c, MODIFY c FIRST` puts x where c was.)
//!
//! Schema changes, however, are applied one after the other. So they are made in two ways. [`in_order`] keeps
//! the order of the statement, which is what a reader expects; each change is applied to a running copy, and
//! if one does not fit (a swap of two names, an ADD of a name that a later DROP frees) or the copy does not
//! end as the final shape, [`from_scratch`] makes them anew: drops, renames (over a name nobody has where
//! they form a ring), types, then places from first to last. Why that is right: after its step for place i
//! the first i + 1 columns are the final ones. Either way, what is given out was applied and compared.

use super::alter::{Action, Alter, Place};
use super::column::ColumnDef;
use super::context::{Context, Index, Structures};
use super::cursor::{Failure, Parsed};
use super::default;
use super::index::{self, KeyKind, NumberedPart};
use super::{Definition, types, values};
use cdc_core::schema::{Charset, Column, TableSchema, same_name};
use cdc_core::schema_change::{ColumnPosition, SchemaChange};
use cdc_core::codes;
use std::sync::Arc;

/// The outcome of an ALTER TABLE.
pub(super) struct Evolution {
    pub(super) changes: Vec<SchemaChange>,
    /// Why rows may have changed unseen.
    pub(super) reasons: Vec<String>,
    /// The table as it is from now on.
    pub(super) definition: Definition,
}

/// A column of the final table. Columns are known by number: the old ones by their old place, new ones on
/// from there in the order of their actions.
struct Final {
    number: usize,
    column: Column,
    /// Comes from the table, not from a definition in this statement.
    is_old: bool,
}

struct Shape {
    columns: Vec<Final>,
    primary: Vec<usize>,
    unique: Vec<Vec<usize>>,
}

impl Shape {
    fn by_number(&self, number: usize) -> Option<&Column> {
        self.columns.iter().find(|f| f.number == number).map(|f| &f.column)
    }

    fn names(&self, numbers: &[usize]) -> Vec<Arc<str>> {
        numbers.iter().filter_map(|&n| self.by_number(n)).map(|c| c.name.clone()).collect()
    }

    fn places(&self, numbers: &[usize]) -> Vec<usize> {
        numbers.iter().filter_map(|&n| self.columns.iter().position(|f| f.number == n)).collect()
    }
}

pub(super) fn evolve(
    old: &TableSchema,
    indexes: Option<Arc<[Index]>>,
    alter: &Alter,
    context: &Context<'_>,
    structures: &dyn Structures,
) -> Parsed<Evolution> {
    let mut table_charset = alter.options.resolve(&old.charset, context)?;
    let convert = alter.actions.iter().find_map(|action| match action {
        Action::Convert { charset, collation } => Some((charset, collation)),
        _ => None,
    });
    if let Some((charset, collation)) = convert {
        let database = structures.database_charset(&old.id.database);
        let inherited = database.unwrap_or_else(|| context.server_charset.clone());
        let options = super::create::Options {
            charset: charset.clone(),
            collation: collation.clone(),
            ..Default::default()
        };
        table_charset = options.resolve(&inherited, context)?;
    }
    let mut columns = final_columns(old, alter, &table_charset, context)?;
    if convert.is_some() {
        for f in columns.iter_mut().filter(|f| f.is_old) {
            if f.column.ty.charset().is_some_and(|c| &*c.name != "binary") {
                f.column.ty = types::convert(&f.column.ty, &table_charset, context);
            }
        }
    }
    let mut shape = Shape { columns, primary: Vec::new(), unique: Vec::new() };
    let new_indexes = final_keys(old, indexes, alter, &mut shape)?;
    let changes = changes(old, &shape, Some(alter))?;
    if convert.is_some() && context.mariadb && alter.options.charset.is_some() {
        // MySQL refuses both at once; MariaDB converts to the one and notes the other for later columns.
        table_charset = alter.options.resolve(&old.charset, context)?;
    }
    let schema = TableSchema {
        id: old.id.clone(),
        version: old.version,
        primary_key: shape.places(&shape.primary),
        unique_keys: shape.unique.iter().map(|key| shape.places(key)).collect(),
        charset: table_charset,
        comment: alter.options.comment.clone().unwrap_or_else(|| old.comment.clone()),
        columns: shape.columns.iter().map(|f| f.column.clone()).collect(),
    };
    let reasons = reasons(old, &shape);
    Ok(Evolution { changes, reasons, definition: Definition { schema, indexes: new_indexes } })
}

/// The changes that make one shape of a table into another, columns told by their names.
pub(super) fn between(old: &TableSchema, new: &TableSchema) -> Parsed<(Vec<SchemaChange>, Vec<String>)> {
    let mut next = old.columns.len();
    let mut columns = Vec::with_capacity(new.columns.len());
    for column in &new.columns {
        let number = old.column_index(&column.name).unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        columns.push(Final { number, column: column.clone(), is_old: true });
    }
    let numbers = |key: &Vec<usize>| key.iter().filter_map(|&i| columns.get(i)).map(|f| f.number).collect();
    let primary = numbers(&new.primary_key);
    let unique = new.unique_keys.iter().map(numbers).collect();
    let shape = Shape { columns, primary, unique };
    let changes = changes(old, &shape, None)?;
    let reasons = reasons(old, &shape);
    Ok((changes, reasons))
}

fn missing(old: &TableSchema, column: &str) -> Failure {
    Failure::new(
        codes::DDL_UNSUPPORTED,
        format!("the column \"{column}\" is not in the structure of \"{}\" known here", old.id),
    )
}

/// What becomes of each old column, by its place.
#[derive(Default)]
struct Fate<'p> {
    dropped: bool,
    change: Option<&'p ColumnDef>,
    rename: Option<Arc<str>>,
    default: Option<Option<&'p default::DefaultValue>>,
    visible: Option<bool>,
}

fn fates<'p>(old: &TableSchema, alter: &'p Alter) -> Parsed<Vec<Fate<'p>>> {
    let mut fates: Vec<Fate<'p>> = Vec::new();
    fates.resize_with(old.columns.len(), Fate::default);
    for action in &alter.actions {
        let (column, if_exists) = match action {
            Action::Drop { column, if_exists }
            | Action::Change { column, if_exists, .. }
            | Action::Rename { column, if_exists, .. }
            | Action::Default { column, if_exists, .. }
            | Action::Visible { column, if_exists, .. } => (column, *if_exists),
            _ => continue,
        };
        let Some(fate) = index::find(&old.columns, column).and_then(|at| fates.get_mut(at)) else {
            if if_exists || default_of_new(alter, action) {
                continue;
            }
            return Err(missing(old, column));
        };
        match action {
            Action::Drop { .. } => fate.dropped = true,
            Action::Change { def, .. } => fate.change = Some(def),
            Action::Rename { to, .. } => fate.rename = Some(to.clone()),
            Action::Default { default, .. } => fate.default = Some(default.as_ref()),
            Action::Visible { visible, .. } => fate.visible = Some(*visible),
            _ => {}
        }
    }
    Ok(fates)
}

/// MariaDB takes SET DEFAULT of a column that the same statement adds.
fn default_of_new(alter: &Alter, action: &Action) -> bool {
    let Action::Default { column, .. } = action else { return false };
    alter.actions.iter().any(|other| matches!(other, Action::Add { def, .. } if same(&def.name, column)))
}

/// ... and of one that it moves.
fn set_defaults(alter: &Alter, columns: &mut [Final]) {
    for action in &alter.actions {
        let Action::Default { column, default, .. } = action else { continue };
        let defined = columns.iter_mut().find(|f| !f.is_old && same(&f.column.name, column));
        if let Some(f) = defined.filter(|f| f.column.generated.is_none()) {
            f.column.default = default.as_ref().map(|value| default::write(value, &f.column.ty));
        }
    }
}

fn final_columns(
    old: &TableSchema,
    alter: &Alter,
    charset: &Charset,
    context: &Context<'_>,
) -> Parsed<Vec<Final>> {
    let fates = fates(old, alter)?;
    let converts = alter.actions.iter().any(|action| matches!(action, Action::Convert { .. }));
    let define = |def: &ColumnDef| def.clone().finish_in_alter(charset, converts, context);
    let mut columns: Vec<Final> = Vec::with_capacity(old.columns.len() + alter.actions.len());
    for (number, (was, fate)) in old.columns.iter().zip(&fates).enumerate() {
        if fate.dropped {
            continue;
        }
        if let Some(def) = fate.change {
            let column = define(def)?;
            columns.push(Final { number, column, is_old: false });
            continue;
        }
        let mut column = was.clone();
        if let Some(to) = &fate.rename {
            column.name = to.clone();
        }
        // MariaDB takes SET DEFAULT of a generated column and does nothing.
        if let Some(default) = fate.default.filter(|_| was.generated.is_none()) {
            column.default = default.map(|value| default::write(value, &column.ty));
        }
        if let Some(visible) = fate.visible {
            column.invisible = !visible;
        }
        columns.push(Final { number, column, is_old: true });
    }
    let mut next = old.columns.len();
    for action in &alter.actions {
        let (added, place) = match action {
            Action::Add { def, place, if_not_exists } => {
                if *if_not_exists && is_there(old, &columns, &def.name) {
                    continue;
                }
                next += 1;
                let column = define(def)?;
                (Final { number: next - 1, column, is_old: false }, place.as_ref())
            }
            Action::Change { column, place: Some(place), .. } => {
                let number = index::find(&old.columns, column);
                let Some(at) = columns.iter().position(|f| Some(f.number) == number) else { continue };
                (columns.remove(at), Some(place))
            }
            _ => continue,
        };
        let at = match place {
            None => columns.len(),
            Some(Place::First) => 0,
            Some(Place::After(name)) => match columns.iter().position(|f| same(&f.column.name, name)) {
                Some(at) => at + 1,
                None => return Err(missing(old, name)),
            },
        };
        if columns.iter().any(|f| same(&f.column.name, &added.column.name)) {
            return Err(Failure::new(
                codes::DDL_UNSUPPORTED,
                format!(
                    "the column \"{}\" is in the structure of \"{}\" known here already",
                    added.column.name, old.id
                ),
            ));
        }
        columns.insert(at, added);
        if columns.len() > super::MAX_COLUMNS {
            return Err(Failure::new(codes::DDL_NOT_UNDERSTOOD, "more columns than a table can have"));
        }
    }
    set_defaults(alter, &mut columns);
    Ok(columns)
}

fn is_there(old: &TableSchema, columns: &[Final], name: &str) -> bool {
    index::find(&old.columns, name).is_some() || columns.iter().any(|f| same(&f.column.name, name))
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!(a.is_ascii() && b.is_ascii()) && same_name(a, b))
}

/// An index while its table is altered.
struct WorkIndex {
    /// `None` where the name is not known.
    name: Option<Arc<str>>,
    unique: bool,
    parts: Vec<NumberedPart>,
}

impl WorkIndex {
    fn is_named(&self, name: &str) -> bool {
        self.name.as_ref().is_some_and(|n| same(n, name))
    }
}

/// Sets the shape's keys; gives the indexes by name if they were known.
fn final_keys(
    old: &TableSchema,
    known: Option<Arc<[Index]>>,
    alter: &Alter,
    shape: &mut Shape,
) -> Parsed<Option<Arc<[Index]>>> {
    let named = known.and_then(|known| by_name(old, &known));
    let names_known = named.is_some();
    let mut work = named.unwrap_or_else(|| nameless(old));
    let mut primary = old.primary_key.clone();
    for action in &alter.actions {
        match action {
            Action::DropPrimary => primary.clear(),
            Action::DropIndex { name } if same(name, "PRIMARY") => primary.clear(),
            Action::DropIndex { name } => drop_index(old, &mut work, name, names_known)?,
            Action::RenameIndex { name, to } => {
                if let Some(index) = work.iter_mut().find(|i| i.is_named(name)) {
                    index.name = Some(to.clone());
                }
            }
            _ => {}
        }
    }
    primary = primary.iter().filter_map(|&n| successor(old, shape, n)).collect();
    for index in &mut work {
        index.parts.retain_mut(|part| keep_part(old, shape, part));
    }
    work.retain(|index| !index.parts.is_empty());
    add_keys(alter, shape, &mut primary, &mut work)?;
    for f in &mut shape.columns {
        if primary.contains(&f.number) {
            f.column.nullable = false;
        }
    }
    shape.primary = primary;
    let ty = |number: usize| shape.by_number(number).map(|c| &c.ty);
    shape.unique = work.iter().filter_map(|i| index::identifies(i.unique, &i.parts, ty)).collect();
    let by_name = |index: WorkIndex| {
        let parts = index.parts.iter().map(|part| index::named(part, |n| shape.by_number(n))).collect();
        Some(Index { name: index.name?, unique: index.unique, parts })
    };
    Ok(names_known.then(|| work.into_iter().filter_map(by_name).collect()))
}

/// Adds what ADD PRIMARY KEY, ADD UNIQUE and the like say, under the final names of columns.
fn add_keys(
    alter: &Alter,
    shape: &Shape,
    primary: &mut Vec<usize>,
    work: &mut Vec<WorkIndex>,
) -> Parsed<()> {
    if !alter.actions.iter().any(|action| matches!(action, Action::AddKey(_))) {
        return Ok(());
    }
    let columns: Vec<Column> = shape.columns.iter().map(|f| f.column.clone()).collect();
    let mut taken: Vec<Index> = Vec::new();
    for name in work.iter().filter_map(|i| i.name.clone()) {
        taken.push(Index { name, unique: false, parts: Vec::new() });
    }
    for action in &alter.actions {
        let Action::AddKey(def) = action else { continue };
        let mut parts = def.numbered(&columns)?;
        for part in &mut parts {
            part.column = part.column.and_then(|at| shape.columns.get(at)).map(|f| f.number);
        }
        if def.kind == KeyKind::Primary {
            *primary = parts.iter().filter_map(|part| part.column).collect();
            continue;
        }
        let name = def.name_among(&taken);
        if def.if_not_exists && taken.iter().any(|i| same(&i.name, &name)) {
            continue;
        }
        taken.push(Index { name: name.clone(), unique: false, parts: Vec::new() });
        work.push(WorkIndex { name: Some(name), unique: def.kind == KeyKind::Unique, parts });
    }
    Ok(())
}

/// The indexes, if they speak of the unique keys the table has. If somebody changed one without the other,
/// the names are worth nothing.
fn by_name(old: &TableSchema, known: &[Index]) -> Option<Vec<WorkIndex>> {
    let ty = |at: usize| old.columns.get(at).map(|c| &c.ty);
    let mut work: Vec<(usize, WorkIndex)> = Vec::with_capacity(known.len());
    for index in known {
        let parts = index.parts.iter().map(|part| index::numbered(part, &old.columns));
        let parts = parts.collect::<Parsed<Vec<_>>>().ok()?;
        // In the order of the table's keys, so that an order of names makes no change of keys. Two indexes
        // may be over the same columns.
        let key = index::identifies(index.unique, &parts, ty);
        let is_free = |place: &usize| work.iter().all(|(taken, _)| taken != place);
        let place = key.and_then(|key| {
            let same_key = |(at, k): (usize, &Vec<usize>)| (*k == key).then_some(at);
            old.unique_keys.iter().enumerate().filter_map(same_key).find(is_free)
        });
        let place = place.unwrap_or(usize::MAX);
        work.push((place, WorkIndex { name: Some(index.name.clone()), unique: index.unique, parts }));
    }
    work.sort_by_key(|(place, _)| *place);
    let work: Vec<WorkIndex> = work.into_iter().map(|(_, index)| index).collect();
    let keys: Vec<_> = work.iter().filter_map(|i| index::identifies(i.unique, &i.parts, ty)).collect();
    (keys == old.unique_keys).then_some(work)
}

/// The unique keys as indexes without names.
fn nameless(old: &TableSchema) -> Vec<WorkIndex> {
    let part = |&at: &usize| NumberedPart { column: Some(at), prefix: None };
    let index = |key: &Vec<usize>| WorkIndex { name: None, unique: true, parts: key.iter().map(part).collect() };
    old.unique_keys.iter().map(index).collect()
}

/// Brings a part of an old index to the final columns; false if its column is gone.
fn keep_part(old: &TableSchema, shape: &Shape, part: &mut NumberedPart) -> bool {
    let Some(number) = part.column else { return true };
    let Some(next) = successor(old, shape, number) else { return false };
    part.column = Some(next);
    if next != number {
        // The server takes the old column's length for a prefix of the new one.
        let was = old.columns.get(number).and_then(|c| index::length(&c.ty));
        part.prefix = part.prefix.or(Some(was.unwrap_or(1)));
        if let (Some(prefix), Some(is)) = (part.prefix, shape.by_number(next)) {
            part.prefix = index::prefix_after(prefix, &is.ty, &is.ty);
        }
        return true;
    }
    if let (Some(prefix), Some(was), Some(is)) = (part.prefix, old.columns.get(next), shape.by_number(next)) {
        part.prefix = index::prefix_after(prefix, &was.ty, &is.ty);
    }
    true
}

/// Which column an old key's part means from now on: the server goes through the final columns for the first
/// that was changed from that name, or has it. So a key survives DROP and ADD of its column in one statement.
fn successor(old: &TableSchema, shape: &Shape, number: usize) -> Option<usize> {
    let name = &old.columns.get(number)?.name;
    let fits = |f: &&Final| f.number == number || (f.number >= old.columns.len() && same(&f.column.name, name));
    shape.columns.iter().find(fits).map(|f| f.number)
}

/// Where the names are not known, a wrong guess matters only if rows are told apart by a unique key: then
/// it is not made.
fn drop_index(
    old: &TableSchema,
    work: &mut Vec<WorkIndex>,
    name: &str,
    names_known: bool,
) -> Parsed<()> {
    if let Some(at) = work.iter().position(|i| i.is_named(name)) {
        work.remove(at);
        return Ok(());
    }
    let nameless = work.iter().any(|i| i.name.is_none());
    if names_known || !nameless {
        return Ok(());
    }
    if old.primary_key.is_empty() {
        return Err(Failure::new(
            codes::DDL_UNSUPPORTED,
            format!(
                "whether the index \"{name}\" of \"{}\" is the unique key that tells its rows apart is not known here",
                old.id
            ),
        ));
    }
    // An index without a name has its first column's.
    let guess = work.iter().position(|i| {
        let first = i.parts.first().and_then(|part| part.column).and_then(|at| old.columns.get(at));
        i.name.is_none() && first.is_some_and(|c| same(&c.name, name))
    });
    if let Some(at) = guess {
        work.remove(at);
    }
    Ok(())
}

/// Why rows that are already there may read otherwise than the changes tell.
fn reasons(old: &TableSchema, shape: &Shape) -> Vec<String> {
    let mut reasons = Vec::new();
    for Final { number, column, .. } in &shape.columns {
        let name = &column.name;
        let Some(was) = old.columns.get(*number) else {
            if column.auto_increment {
                reasons.push(format!("the new column \"{name}\" numbers the rows"));
            } else if column.generated.is_some() {
                reasons.push(format!("the new column \"{name}\" is computed"));
            } else if column.default.as_deref().is_some_and(default::is_expression) {
                reasons.push(format!("the new column \"{name}\" has an expression for its default"));
            }
            continue;
        };
        if !values::stay(&was.ty, &column.ty) {
            reasons.push(format!("values of \"{name}\" may change with its type"));
        }
        if was.nullable && !column.nullable {
            reasons.push(format!("\"{name}\" may have held NULL"));
        }
        if column.auto_increment && !was.auto_increment {
            reasons.push(format!("rows with 0 in \"{name}\" get numbers"));
        }
        let expression = |c: &Column| c.generated.as_ref().map(|g| values::plain_expression(&g.expression));
        if column.generated.is_some() && expression(was) != expression(column) {
            reasons.push(format!("\"{name}\" is computed anew"));
        }
    }
    reasons
}

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

fn changes(old: &TableSchema, shape: &Shape, alter: Option<&Alter>) -> Parsed<Vec<SchemaChange>> {
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
            Action::AddKey(_)
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
            telling.rename(blocked[0].number, &Arc::from(format!("_cdc_spare_{spare}")))?;
            if spare > before {
                return Err(Misfit);
            }
        }
        waiting = blocked;
    }
    for f in shape.columns.iter().filter(|f| is_old(f.number)) {
        telling.alter_type(f.number, None)?;
        telling.alter_rest(f.number)?;
    }
    for (i, f) in shape.columns.iter().enumerate() {
        let position = match i.checked_sub(1).map(|before| &shape.columns[before]) {
            None => ColumnPosition::First,
            Some(before) => ColumnPosition::After(before.column.name.clone()),
        };
        if is_old(f.number) {
            telling.alter_type(f.number, Some(position))?;
        } else {
            let last = i + 1 == shape.columns.len() && i == telling.copy.columns.len();
            telling.add(f.number, if last { ColumnPosition::Last } else { position })?;
        }
    }
    telling.keys(old)?;
    telling.finish()
}
