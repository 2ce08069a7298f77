//! Online schema change tools: gh-ost and pt-online-schema-change.
//!
//! Both make a shadow table like the real one, alter it, fill it while triggers or the log keep it up to
//! date, and swap the names in one RENAME. Seen from the real table that is a change of shape: its rows were
//! written through row events under its own name, so nothing is to be copied again (`online_ddl = trust`).
//! Nothing but names is known here; that the tool did its work is what is trusted.

use super::cursor::Parsed;
use super::evolve;
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Error, Result, TableId, TableSchema};

/// What a tool's own table is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The copy that takes the real table's place: `_t_gho`, `_t_new`.
    Shadow,
    /// The real table after it was swapped out: `_t_del`, `_t_old`.
    Retired,
    /// gh-ost's notes: `_t_ghc`.
    Notes,
}

/// The real table that a tool's table belongs to, by its name. pt-online-schema-change puts more underscores
/// in front while the name is taken: they are left in front of the name given here, for they cannot be told
/// from a table's own.
pub fn belongs_to(table: &TableId) -> Option<(TableId, Role)> {
    const ENDS: &[(&str, Role)] = &[
        ("_gho", Role::Shadow),
        ("_new", Role::Shadow),
        ("_ghc", Role::Notes),
        ("_del", Role::Retired),
        ("_old", Role::Retired),
    ];
    let name = table.table.strip_prefix('_')?;
    let (name, role) = ENDS.iter().find_map(|(end, role)| Some((name.strip_suffix(end)?, *role)))?;
    // gh-ost puts a time stamp in front of `_del` on request: `_t_20240131120000_del`.
    let name = match name.rsplit_once('_') {
        Some((real, stamp)) if stamp.len() == 14 && stamp.bytes().all(|b| b.is_ascii_digit()) => real,
        _ => name,
    };
    if name.is_empty() {
        return None;
    }
    Some((TableId::new(table.database.clone(), name), role))
}

/// Is it a tool's table beside this one? Tools put underscores in front while a name is taken.
pub fn is_of(table: &TableId, real: &TableId) -> bool {
    table.database == real.database
        && belongs_to(table).is_some_and(|(name, _)| name_fits(&name.table, &real.table))
}

/// The two names of a swap: `t -> _t_old, _t_new -> t`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// The table that keeps its name and gets another shape.
    pub real: TableId,
    /// What takes its place.
    pub shadow: TableId,
    /// Where its former self goes.
    pub retired: TableId,
}

/// Is this statement's effect a tool's swap, and nothing else?
pub fn swap(changes: &[SchemaChange]) -> Option<Swap> {
    let mut renames = changes.iter().filter_map(|change| match change {
        SchemaChange::RenameTable { table, to } => Some((table, to)),
        _ => None,
    });
    let (first, second, none) = (renames.next()?, renames.next()?, renames.next());
    let only_renames = changes.iter().all(|change| {
        matches!(change, SchemaChange::RenameTable { .. } | SchemaChange::ResnapshotTable { .. })
    });
    if none.is_some() || !only_renames || first.0 != second.1 {
        return None;
    }
    let (real, retired, shadow) = (first.0, first.1, second.0);
    let is = |table: &TableId, role: Role| {
        ends_of(table).is_some_and(|(name, r)| r == role && name_fits(&name, &real.table))
    };
    (real.database == shadow.database && is(shadow, Role::Shadow) && is(retired, Role::Retired))
        .then(|| Swap { real: real.clone(), shadow: shadow.clone(), retired: retired.clone() })
}

/// The name between the tool's marks, with whatever underscores stand in front.
fn ends_of(table: &TableId) -> Option<(String, Role)> {
    belongs_to(table).map(|(real, role)| (real.table.to_string(), role))
}

/// Is it the real name, but for underscores in front? Tools cut long names at 64 characters.
fn name_fits(name: &str, real: &str) -> bool {
    name == real
        || name.trim_start_matches('_') == real.trim_start_matches('_')
        || (real.len() > 58 && !name.is_empty() && real.starts_with(name.trim_start_matches('_')))
}

/// The changes that make the real table into what its shadow has become, with the reasons why its rows may
/// not be what they tell (a column that went and one that came may be one that was renamed).
///
/// # Errors
/// `DDL_UNSUPPORTED` if one cannot be made into the other.
pub fn shape_changes(real: &TableSchema, shadow: &TableSchema) -> Result<(Vec<SchemaChange>, Vec<String>)> {
    let shadow = TableSchema { id: real.id.clone(), ..shadow.clone() };
    let between: Parsed<_> = evolve::between(real, &shadow);
    let (changes, mut reasons) = between.map_err(|failure| Error::definite(failure.code, failure.message))?;
    let has = |wanted: fn(&SchemaChange) -> bool| changes.iter().any(wanted);
    if has(|c| matches!(c, SchemaChange::DropColumn { .. }))
        && has(|c| matches!(c, SchemaChange::AddColumn { .. }))
    {
        reasons.push("a column may have been renamed".to_owned());
    }
    Ok((changes, reasons))
}
