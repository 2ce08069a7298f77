//! What an ALTER TABLE's actions make of a table, and the schema changes that tell it.
//!
//! The server does not carry out the actions one after the other. All of them name columns of the table as
//! it *was* (only AFTER and key parts name columns as they *will be*): it goes through the old columns,
//! leaves the dropped ones out and puts changed ones in their old place, then goes through the actions for
//! the columns that are added or move (`mysql_prepare_alter_table`). [`evolve`] does the same and knows the
//! final shape first. (Measured on both servers: a column that moves is in its old place until its own action
//! is due, so `ADD x AFTER c, MODIFY c FIRST` puts x where c was.)
//!
//! Schema changes, however, are applied one after the other. So they are made in two ways. `telling::in_order` keeps
//! the order of the statement, which is what a reader expects; each change is applied to a running copy, and
//! if one does not fit (a swap of two names, an ADD of a name that a later DROP frees) or the copy does not
//! end as the final shape, `telling::from_scratch` makes them anew: drops, renames (over a name nobody has where
//! they form a ring), then types and places from first to last. Why that is right: after its step for place i
//! the first i + 1 columns are the final ones. Either way, what is given out was applied and compared.

mod keys;
mod telling;

use super::alter::Partitions;
use super::alter::{Action, Alter, Place};
use super::column::ColumnDef;
use super::context::{Context, Index, Structures};
use super::cursor::{Failure, Parsed};
use super::default;
use super::index::{self, same};
use super::versioning::{self, HistoryPartitions, Period, RowTime, Versioning};
use super::{Definition, types, values};
use cdc_core::codes;
use cdc_core::schema::{Charset, Column, ColumnType, TableSchema};
use cdc_core::schema_change::SchemaChange;
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
    /// FLOAT(m, d): rounded and cut, and nothing in the type says how it was before.
    rounds: bool,
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
    let database = super::create::inherited(structures, &old.id.database, context);
    let mut table_charset = alter.options.resolve(&old.charset, &database, context)?;
    let convert = alter.actions.iter().find_map(|action| match action {
        Action::Convert { charset, collation } => Some((charset, collation)),
        _ => None,
    });
    if let Some((charset, collation)) = convert {
        let options = super::create::Options {
            charset: charset.clone(),
            charset_of_database: charset.is_none() && context.mariadb,
            collation: collation.clone(),
            ..Default::default()
        };
        table_charset = options.resolve(&database, &database, context)?;
    }
    let known = structures.versioning(&old.id);
    let is_hidden = known == Some(Versioning::Hidden);
    let versioned = match alter.versioning {
        Some(versioned) => versioned,
        None => alter.options.versioned || known.is_some(),
    };
    let mut columns = final_columns(old, alter, &table_charset, context, is_hidden)?;
    // Measured on MariaDB 11.8: `MODIFY c VARCHAR(9), DEFAULT COLLATE binary, CONVERT TO CHARSET latin1` leaves VARBINARY.
    if convert.is_some() && context.mariadb && alter.options.names_charset() {
        let named = alter.options.resolve(&old.charset, &database, context)?;
        let is_text =
            |f: &Final| f.column.ty.charset().is_some() || matches!(f.column.ty, ColumnType::Binary { .. });
        if (&*named.name == "binary") != (&*table_charset.name == "binary")
            && columns.iter().any(|f| !f.is_old && is_text(f))
        {
            return Err(Failure::new(
                codes::DDL_UNSUPPORTED,
                "it converts the table to one character set and names another for columns of the same statement".to_owned(),
            ));
        }
    }
    if !versioned {
        columns.iter_mut().for_each(|f| versioning::make_plain(&mut f.column));
    }
    if convert.is_some() {
        for f in columns.iter_mut().filter(|f| f.is_old) {
            if f.column.ty.charset().is_some_and(|c| &*c.name != "binary") {
                if !keeps_members(&f.column.ty, &table_charset) {
                    return Err(Failure::new(
                        codes::DDL_UNSUPPORTED,
                        format!(
                            "the server leaves the members of \"{}\" the bytes that they were in the character set before",
                            f.column.name
                        ),
                    ));
                }
                let from = f.column.ty.charset().map(|c| c.name.clone());
                f.column.ty = types::convert(&f.column.ty, &table_charset, context);
                if matches!(f.column.ty, ColumnType::Binary { .. }) {
                    let value = f.column.default.as_deref().and_then(default::read_default);
                    let value =
                        value.map(|value| default::in_wide_bytes(value, from.as_deref().unwrap_or_default()));
                    f.column.default = value.map(|value| default::write(&value, &f.column.ty));
                }
            }
        }
    }
    let period = final_period(old, structures.period(&old.id), alter, &columns);
    for f in columns.iter_mut().filter(|f| period.as_ref().is_some_and(|p| p.has(&f.column.name))) {
        f.column.nullable = false;
    }
    let mut shape = Shape { columns, primary: Vec::new(), unique: Vec::new() };
    let new_indexes = keys::final_keys(old, indexes, alter, &mut shape)?;
    let mut changes = telling::changes(old, &shape, Some(alter))?;
    if let Some(comment) = alter.options.comment.as_ref().filter(|comment| **comment != old.comment) {
        changes.push(SchemaChange::AlterTableComment { table: old.id.clone(), comment: comment.clone() });
    }
    let named = alter.options.names_charset() && (context.mariadb || alter.charset_behind_convert);
    if convert.is_some() && named {
        // Both convert to the one and note the other for later columns; MySQL only if it comes behind, and is a
        // collation of the same set.
        table_charset = alter.options.resolve(&old.charset, &database, context)?;
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
    let versioning = Versioning::of(&schema, versioned);
    if let (Some(Versioning::Columns { start, end }), Some(Versioning::Hidden)) = (&known, &versioning)
        && !hides_at_the_end(old, alter, start, end)
    {
        return Err(Failure::new(
            codes::DDL_UNSUPPORTED,
            format!(
                "the columns of the rows' times of \"{}\" are hidden where they stand, not at the rows' end",
                old.id
            ),
        ));
    }
    let history = match &alter.partitions {
        Partitions::AsTheyWere => structures.history(&old.id),
        Partitions::Renamed => structures.history(&old.id).map(|_| HistoryPartitions { current: None }),
        Partitions::Are(history) => history.clone(),
    };
    let history = history.filter(|_| versioning.is_some());
    let definition = Definition { schema, indexes: new_indexes, versioning, history, period };
    Ok(Evolution { changes, reasons, definition })
}

/// Measured on MySQL 9.7 and MariaDB 10.11 and 11.8: CONVERT TO does not convert the members of ENUM and SET columns, it
/// reads their bytes in the other character set ('ä' of latin1 is no text in utf8mb4). Are they the same bytes?
fn keeps_members(ty: &ColumnType, to: &Charset) -> bool {
    let (ColumnType::Enum { labels, charset } | ColumnType::Set { labels, charset }) = ty else {
        return true;
    };
    let is_wide = |c: &Charset| matches!(&*c.name, "ucs2" | "utf16" | "utf16le" | "utf32");
    let in_ascii = !is_wide(charset) && !is_wide(to) && labels.iter().all(|label| label.is_ascii());
    charset.name == to.name || in_ascii || (&*charset.name == "utf8mb3" && &*to.name == "utf8mb4")
}

/// DROP COLUMN of the columns of the rows' times leaves them where they are, hidden (measured: row_start and row_end in
/// the middle of the log's rows, or in the other order, and no SHOW CREATE TABLE tells). Are they the last two, the
/// start first? What is added without a place comes behind them.
fn hides_at_the_end(old: &TableSchema, alter: &Alter, start: &str, end: &str) -> bool {
    let place = |name: &str| index::find(&old.columns, name);
    let (Some(start), Some(end)) = (place(start), place(end)) else { return false };
    let leaves = |at: usize| {
        alter.actions.iter().any(|action| match action {
            Action::Drop { column, .. } | Action::Change { column, place: Some(_), .. } => {
                place(column) == Some(at)
            }
            _ => false,
        })
    };
    let appends = |action: &Action| matches!(action, Action::Add { place: None, .. });
    start < end && (start..old.columns.len()).all(leaves) && !alter.actions.iter().any(appends)
}

/// Where the columns of the rows' times are hidden: the two that an ADD COLUMN of both names.
///
/// Measured on MariaDB 11.8 (10.11 refuses it): the columns that are there get these names and are shown from now on,
/// at the end of the old columns, the start first, whatever FIRST, AFTER and INVISIBLE say.
fn out_of_hiding(alter: &Alter) -> Option<[&ColumnDef; 2]> {
    let added = |time: RowTime| {
        alter.actions.iter().find_map(|action| match action {
            Action::Add { def, .. } if def.is_row_time(time) => Some(def),
            _ => None,
        })
    };
    Some([added(RowTime::Start)?, added(RowTime::End)?])
}

fn is_row_time(def: &ColumnDef) -> bool {
    def.is_row_time(RowTime::Start) || def.is_row_time(RowTime::End)
}

/// Under the names that they have anyway they stay hidden (measured), unless the statement does certain other things.
fn adds_hidden(alter: &Alter) -> bool {
    out_of_hiding(alter)
        .is_some_and(|[start, end]| same(&start.name, "row_start") && same(&end.name, "row_end"))
}

/// The application-time period behind the statement, under the columns' final names.
fn final_period(
    old: &TableSchema,
    known: Option<Period>,
    alter: &Alter,
    columns: &[Final],
) -> Option<Period> {
    let name = |was: &str| {
        let number = index::find(&old.columns, was)?;
        columns.iter().find(|f| f.number == number).map(|f| f.column.name.clone())
    };
    let mut period = known;
    let drops = |action: &Action| matches!(action, Action::DropPeriod);
    if alter.actions.iter().any(drops) {
        period = None;
    }
    let mut period = period.and_then(|p| Some(Period { start: name(&p.start)?, end: name(&p.end)? }));
    for action in &alter.actions {
        if let Action::AddPeriod { period: added, if_not_exists } = action
            && (period.is_none() || !if_not_exists)
        {
            period = Some(added.clone());
        }
    }
    period
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
        columns.push(Final { number, column: column.clone(), is_old: true, rounds: false });
    }
    let numbers = |key: &Vec<usize>| key.iter().filter_map(|&i| columns.get(i)).map(|f| f.number).collect();
    let primary = numbers(&new.primary_key);
    let unique = new.unique_keys.iter().map(numbers).collect();
    let shape = Shape { columns, primary, unique };
    let mut changes = telling::changes(old, &shape, None)?;
    if old.comment != new.comment {
        let (table, comment) = (old.id.clone(), new.comment.clone());
        changes.push(SchemaChange::AlterTableComment { table, comment });
    }
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
            if if_exists || default_of_new(alter, action) || changes_new(alter, action) {
                continue;
            }
            return Err(missing(old, column));
        };
        if matches!(action, Action::Drop { .. } | Action::Change { .. } | Action::Rename { .. }) {
            // MariaDB lets some of these pass, and what comes of them hangs on more than their order.
            if fate.dropped || fate.change.is_some() || fate.rename.is_some() {
                return Err(Failure::new(
                    codes::DDL_UNSUPPORTED,
                    format!("the column \"{column}\" of \"{}\" is dropped or changed twice", old.id),
                ));
            }
        }
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

/// ... and a change of one: then the change's definition is the one that counts. (Measured. It looks for the
/// change's *new* name.)
fn changes_new(alter: &Alter, action: &Action) -> bool {
    let Action::Change { def: change, .. } = action else { return false };
    let is_it = |def: &ColumnDef| same(&def.name, &change.name);
    alter.actions.iter().any(|other| matches!(other, Action::Add { def, .. } if is_it(def)))
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
    is_hidden: bool,
) -> Parsed<Vec<Final>> {
    if is_hidden && adds_hidden(alter) {
        return Err(Failure::new(
            codes::DDL_UNSUPPORTED,
            format!(
                "whether \"row_start\" and \"row_end\" of \"{}\" come out of hiding is not known here",
                old.id
            ),
        ));
    }
    let fates = fates(old, alter)?;
    let converts = alter.actions.iter().any(|action| matches!(action, Action::Convert { .. }));
    let define = |def: &ColumnDef| def.clone().finish_in_alter(charset, converts, context);
    let mut columns: Vec<Final> = Vec::with_capacity(old.columns.len() + alter.actions.len());
    for (number, (was, fate)) in old.columns.iter().zip(&fates).enumerate() {
        if fate.dropped {
            continue;
        }
        if let Some(def) = fate.change {
            if converts && !context.mariadb && def.is_unsized_lob() {
                return Err(Failure::new(
                    codes::DDL_UNSUPPORTED,
                    format!(
                        "MySQL gives the column \"{}\" a size of its own choice where one statement changes it \
                         and converts the table",
                        def.name
                    ),
                ));
            }
            let column = define(def)?;
            columns.push(Final { number, column, is_old: false, rounds: def.rounds() });
            continue;
        }
        let mut column = was.clone();
        if let Some(to) = &fate.rename {
            column.name = to.clone();
        }
        // MariaDB takes SET DEFAULT of a generated column, MySQL of one that numbers rows, and it does nothing.
        if let Some(default) = fate.default.filter(|_| was.generated.is_none() && !was.auto_increment) {
            column.default = default.map(|value| default::write(value, &column.ty));
        }
        if let Some(visible) = fate.visible {
            column.invisible = !visible;
        }
        columns.push(Final { number, column, is_old: true, rounds: false });
    }
    let mut next = old.columns.len();
    let out_of_hiding = if is_hidden { out_of_hiding(alter) } else { None };
    for def in out_of_hiding.into_iter().flatten() {
        let column = Column { invisible: false, ..define(def)? };
        columns.push(Final { number: next, column, is_old: false, rounds: false });
        next += 1;
    }
    for action in &alter.actions {
        let (added, place) = match action {
            Action::Add { def, .. } if out_of_hiding.is_some() && is_row_time(def) => continue,
            Action::Add { def, place, if_not_exists } => {
                let is_hidden_name =
                    |name: &str| is_hidden && (same(name, "row_start") || same(name, "row_end"));
                let there = || is_hidden_name(&def.name) || is_there(old, &columns, &def.name);
                if *if_not_exists && there() {
                    continue;
                }
                next += 1;
                let column = define(def)?;
                (Final { number: next - 1, column, is_old: false, rounds: def.rounds() }, place.as_ref())
            }
            Action::Change { column, def, place, if_exists }
                if index::find(&old.columns, column).is_none() =>
            {
                if *if_exists {
                    // It looks at the old table only.
                    continue;
                }
                let is_new = |f: &Final| f.number >= old.columns.len() && same(&f.column.name, &def.name);
                let Some(at) = columns.iter().position(is_new) else { continue };
                columns.remove(at);
                next += 1;
                let column = define(def)?;
                (Final { number: next - 1, column, is_old: false, rounds: def.rounds() }, place.as_ref())
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

/// Why rows that are already there may read otherwise than the changes tell.
fn reasons(old: &TableSchema, shape: &Shape) -> Vec<String> {
    let mut reasons = Vec::new();
    for Final { number, column, rounds, .. } in &shape.columns {
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
        if *rounds || !values::stay(&was.ty, &column.ty) {
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
