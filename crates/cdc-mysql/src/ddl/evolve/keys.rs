//! Keys and indexes of a table that is altered.
//!
//! Indexes are followed whole, names and prefixes too: DROP INDEX says nothing but a name, and an index over a
//! prefix becomes one over a whole column, which tells rows apart, when the column's type changes.

use super::super::alter::{Action, Alter};
use super::super::context::Index;
use super::super::cursor::{Failure, Parsed};
use super::super::index::same;
use super::super::index::{self, KeyDef, KeyKind, NumberedPart};
use super::super::versioning;
use super::{Final, Shape};
use cdc_core::codes;
use cdc_core::schema::{Column, ColumnType, TableSchema};
use std::sync::Arc;

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
pub(super) fn final_keys(
    old: &TableSchema,
    known: Option<Arc<[Index]>>,
    alter: &Alter,
    shape: &mut Shape,
) -> Parsed<Option<Arc<[Index]>>> {
    let named = known.and_then(|known| by_name(old, &known));
    let names_known = named.is_some();
    let mut work = named.unwrap_or_else(|| nameless(old));
    // IF NOT EXISTS looks at the table as it was.
    let before: Vec<Arc<str>> = work.iter().filter_map(|i| i.name.clone()).collect();
    let had_primary = !old.primary_key.is_empty();
    let mut primary = old.primary_key.clone();
    for action in &alter.actions {
        match action {
            Action::DropPrimary => primary.clear(),
            Action::DropIndex { name } if same(name, "PRIMARY") => primary.clear(),
            Action::DropIndex { name } => drop_index(old, &mut work, name, names_known)?,
            _ => {}
        }
    }
    for index in &mut work {
        // Whatever is dropped or renamed is called what it was called before the statement.
        let renamed = alter.actions.iter().find_map(|action| match action {
            Action::RenameIndex { name, to } if index.is_named(name) => Some(to.clone()),
            _ => None,
        });
        index.name = renamed.or(index.name.take());
    }
    primary = primary.iter().filter_map(|&n| successor(old, shape, n)).collect();
    for index in &mut work {
        index.parts.retain_mut(|part| keep_part(old, shape, part));
    }
    work.retain(|index| !index.parts.is_empty());
    let was_there = |def: &KeyDef| match def.kind {
        KeyKind::Primary => had_primary,
        _ => def.looked_for().is_some_and(|name| before.iter().any(|known| same(known, name))),
    };
    add_keys(alter, shape, &mut primary, &mut work, was_there)?;
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
    was_there: impl Fn(&KeyDef) -> bool,
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
        let is_there = || match def.kind {
            KeyKind::Primary => !primary.is_empty(),
            _ => def.looked_for().is_some_and(|name| taken.iter().any(|i| same(&i.name, name))),
        };
        if def.if_not_exists && (was_there(def) || is_there()) {
            continue;
        }
        let mut parts = def.numbered(&columns)?;
        if def.kind != KeyKind::Plain {
            versioning::without_row_end(&mut parts, |at| columns.get(at));
        }
        for part in &mut parts {
            part.column = part.column.and_then(|at| shape.columns.get(at)).map(|f| f.number);
        }
        if def.kind == KeyKind::Primary {
            *primary = parts.iter().filter_map(|part| part.column).collect();
            continue;
        }
        let name = def.name_among(&taken, &columns);
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
    let index =
        |key: &Vec<usize>| WorkIndex { name: None, unique: true, parts: key.iter().map(part).collect() };
    old.unique_keys.iter().map(index).collect()
}

/// Brings a part of an old index to the final columns; false if its column is gone.
fn keep_part(old: &TableSchema, shape: &Shape, part: &mut NumberedPart) -> bool {
    let Some(number) = part.column else { return true };
    let Some(next) = successor(old, shape, number) else { return false };
    part.column = Some(next);
    if next != number {
        // The server takes the old column's length for a prefix of the new one, if it has one (MariaDB has unique
        // keys over whole texts).
        let was = old.columns.get(number).map(|c| &c.ty);
        let was = was.and_then(|ty| index::length(ty).or_else(|| index::key_bytes(ty)));
        part.prefix = part.prefix.or(was.filter(|&length| length > 0));
        if let (Some(prefix), Some(is)) = (part.prefix, shape.by_number(next)) {
            part.prefix = index::prefix_after(prefix, &is.ty, &is.ty);
        }
        return true;
    }
    let (was, is) = (old.columns.get(next), shape.by_number(next));
    let is_geometry = |c: Option<&Column>| c.is_some_and(|c| matches!(c.ty, ColumnType::Geometry { .. }));
    if part.prefix.is_none() && is_geometry(was) && !is_geometry(is) {
        // MariaDB: it was one over the bytes of a point (measured), and now that is told.
        part.prefix = Some(25);
    }
    // The bytes of an ENUM or SET become a prefix of the text that it is made (measured on MySQL 9.7).
    if let (None, Some(was), Some(is)) = (part.prefix, was, is)
        && matches!(was.ty, ColumnType::Enum { .. } | ColumnType::Set { .. })
        && matches!(is.ty, ColumnType::Text { .. } | ColumnType::Blob { .. })
    {
        part.prefix = index::key_bytes(&was.ty).filter(|&bytes| bytes > 0);
        return true;
    }
    if let (Some(prefix), Some(was), Some(is)) = (part.prefix, was, is) {
        part.prefix = index::prefix_after(prefix, &was.ty, &is.ty);
    }
    true
}

/// Which column an old key's part means from now on: the server goes through the final columns for the first
/// that was changed from that name, or has it. So a key survives DROP and ADD of its column in one statement.
fn successor(old: &TableSchema, shape: &Shape, number: usize) -> Option<usize> {
    let name = &old.columns.get(number)?.name;
    let fits =
        |f: &&Final| f.number == number || (f.number >= old.columns.len() && same(&f.column.name, name));
    shape.columns.iter().find(fits).map(|f| f.number)
}

/// Where the names are not known, a wrong guess matters only if rows are told apart by a unique key: then
/// it is not made.
fn drop_index(old: &TableSchema, work: &mut Vec<WorkIndex>, name: &str, names_known: bool) -> Parsed<()> {
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
