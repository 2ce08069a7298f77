//! (source changes, mode, target table before and after) -> changes for the target.
//!
//! | mode | create | add column | rename column | drop column | alter type | rename table | truncate, drop | copied again |
//! |---|---|---|---|---|---|---|---|---|
//! | exception | apply | stop | stop | stop | stop | stop | stop | rows go |
//! | evolve | apply | apply | apply | apply | apply | apply | apply | rows go |
//! | lenient | apply | appended, nullable | new column, filled from the old one, which stays | stays | apply | apply | left alone | rows go |
//!
//! *A table that is copied again* ([`SchemaChange::ResnapshotTable`]) loses its rows in every mode: they come anew,
//! and one that did not go would stay beside them. It is no change of shape, so no mode stops at it and `exclude` does
//! not know it. Where several source tables fill one target table only rows of the one may go ([`Share`]); so it is
//! with TRUNCATE and DROP.
//!
//! *Names that change hands* in one statement (a column is dropped or renamed, and another one gets its name) are followed column by
//! column in every mode that makes changes: what is compared by name alone would take the new column for the old one.
//!
//! *Another key* ([`TargetSchemaChange::ChangeKey`]): the target's table is keyed anew in every mode that makes changes at all.
//! Behind the barrier its rows are those of the source at this place of the log, so the new key tells them apart.
//!
//! Only what a flow's rows show counts: a column that a `select` leaves out changes nothing at its target.
//! `include` and `exclude` name kinds of changes; one that is kept out is treated as if the flow did not have it.

use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::plan::{FlowPlan, SchemaChangeMode};
use cdc_core::schema::{Column, TableId, same_name};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Error, Result, Row, codes};
use std::sync::Arc;

/// Which rows of a target table are those of one source table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// All: no other table flows into it.
    Alone,
    /// Those that have these values in these columns.
    Told(Vec<(Column, Row)>),
    /// It cannot be told: these flow into it too.
    Untold(Vec<TableId>),
}

/// What a target has to do; `share` is about the target table before the changes, or after them where there is none
/// before.
///
/// # Errors
/// `SCHEMA_CHANGE_REFUSED` in mode exception; `KEY_CHANGED` if the rows would have another key and the target's cannot be
/// changed (other tables flow into it, or the flow keeps it out);
/// `TARGET_COLLISION` if rows are to go that cannot be told from those of another source table;
/// `FEATURE_NOT_YET` for modes that are not built.
pub fn derive(
    flow: &FlowPlan,
    changes: &[SchemaChange],
    before: Option<&Arc<TargetTable>>,
    after: Option<&Arc<TargetTable>>,
    share: &Share,
) -> Result<Vec<TargetSchemaChange>> {
    let mode = flow.on_schema_change;
    let (before, after) = match (before, after) {
        (None, None) => return Ok(Vec::new()),
        (None, Some(after)) => return created(changes, after, share),
        (Some(before), None) => {
            if changes.iter().any(|c| matches!(c, SchemaChange::RenameTable { .. })) {
                // renamed to where this flow does not look
                refuse(flow, "rename_table", &before.name)?;
                return Ok(Vec::new());
            }
            refuse(flow, "drop_table", &before.name)?;
            let wanted = mode == SchemaChangeMode::Evolve || flow.include.iter().any(|k| k == "drop_table");
            if !wanted || !applies(flow, "drop_table") {
                return Ok(Vec::new());
            }
            return Ok(vec![match share {
                Share::Alone => TargetSchemaChange::DropTable { table: before.name.clone() },
                _ => remove_rows(&before.name, &before.schema.id, share, false)?,
            }]);
        }
        (Some(before), Some(after)) => (before, after),
    };
    if changes.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. })) {
        // dropped and made again in one statement (CREATE OR REPLACE)
        if changes.iter().any(|c| matches!(c, SchemaChange::DropTable { .. }))
            && !changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }))
        {
            refuse(flow, "drop_table", &before.name)?;
        }
        let mut out = created(changes, after, share)?;
        if matches!(share, Share::Alone)
            && !out.iter().any(|c| matches!(c, TargetSchemaChange::DropTable { .. }))
        {
            out.insert(0, TargetSchemaChange::DropTable { table: before.name.clone() });
        }
        return Ok(out);
    }
    let rekeyed = change_of_key(flow, (before, after), changes, share)?;
    let mut out = Vec::new();
    let mut name = before.name.clone();
    if changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. })) {
        // first: rows that go anyway need not fit what the other changes make of their columns
        out.push(remove_rows(&name, &before.schema.id, share, true)?);
    }
    if name != after.name {
        refuse(flow, "rename_table", &name)?;
        if applies(flow, "rename_table") {
            out.push(TargetSchemaChange::RenameTable { from: name, to: after.name.clone() });
        }
        name = after.name.clone();
    }
    let had = |column: &str| find(before, column);
    let has = |column: &str| find(after, column);
    let crossed = names_change_hands(changes);
    if crossed {
        out.extend(hand_over(flow, changes, (before, after), &name)?);
    }
    for change in changes {
        match change {
            SchemaChange::AddColumn { .. }
            | SchemaChange::RenameColumn { .. }
            | SchemaChange::DropColumn { .. }
            | SchemaChange::AlterColumnType { .. }
            | SchemaChange::AlterNullability { .. }
                if crossed => {}
            SchemaChange::TruncateTable { .. } => {
                refuse(flow, "truncate_table", &name)?;
                let wanted =
                    mode == SchemaChangeMode::Evolve || flow.include.iter().any(|k| k == "truncate_table");
                if wanted && applies(flow, "truncate_table") {
                    out.push(match share {
                        Share::Alone => TargetSchemaChange::TruncateTable { table: name.clone() },
                        _ => remove_rows(&name, &before.schema.id, share, false)?,
                    });
                }
            }
            SchemaChange::AddColumn { column, .. } => {
                let Some(new) = has(&column.name) else { continue };
                if had(&column.name).is_some() {
                    continue;
                }
                refuse(flow, "add_column", &name)?;
                if applies(flow, "add_column") {
                    out.push(TargetSchemaChange::AddColumn {
                        table: name.clone(),
                        implicit: !new.nullable,
                        column: for_target(mode, new),
                    });
                }
            }
            SchemaChange::RenameColumn { column, to, .. } => {
                let (Some(old), Some(new)) = (had(column), has(to)) else { continue };
                if same_name(&old.name, &new.name) && old.name == new.name {
                    continue;
                }
                refuse(flow, "rename_column", &name)?;
                if !applies(flow, "rename_column") {
                    continue;
                }
                if mode == SchemaChangeMode::Lenient && !is_key(before, &old.name) {
                    let mut column = for_target(mode, new);
                    column.default = None;
                    // filled from the old one right behind
                    out.push(TargetSchemaChange::AddColumn { table: name.clone(), column, implicit: false });
                    out.push(TargetSchemaChange::FillColumn {
                        table: name.clone(),
                        from: old.name.to_string(),
                        to: new.name.to_string(),
                    });
                } else {
                    out.push(TargetSchemaChange::RenameColumn {
                        table: name.clone(),
                        from: old.name.to_string(),
                        to: new.name.to_string(),
                    });
                }
            }
            SchemaChange::DropColumn { column, .. } => {
                if had(column).is_none() || has(column).is_some() {
                    continue;
                }
                refuse(flow, "drop_column", &name)?;
                let kept =
                    mode == SchemaChangeMode::Lenient && !flow.include.iter().any(|k| k == "drop_column");
                if !kept && applies(flow, "drop_column") {
                    out.push(TargetSchemaChange::DropColumn {
                        table: name.clone(),
                        column: column.to_string(),
                    });
                }
            }
            SchemaChange::AlterColumnType { column, .. } => {
                // a later rename in the same statement gives it another name
                let Some(old) = had(column) else { continue };
                let Some(new) = has(&renamed(changes, column)) else { continue };
                if old.ty == new.ty {
                    continue;
                }
                refuse(flow, "alter_column_type", &name)?;
                if applies(flow, "alter_column_type") {
                    out.push(TargetSchemaChange::AlterColumnType {
                        table: name.clone(),
                        column: old.name.to_string(),
                        ty: new.ty.clone(),
                    });
                }
            }
            SchemaChange::AlterNullability { column, nullable, .. } => {
                let Some(old) = had(column) else { continue };
                if has(&renamed(changes, column)).is_none() {
                    continue;
                }
                refuse(flow, "alter_nullability", &name)?;
                if applies(flow, "alter_nullability") {
                    out.push(TargetSchemaChange::AlterNullability {
                        table: name.clone(),
                        column: old.name.to_string(),
                        nullable: *nullable || mode == SchemaChangeMode::Lenient,
                    });
                }
            }
            SchemaChange::CreateTable { .. }
            | SchemaChange::DropTable { .. }
            | SchemaChange::RenameTable { .. }
            | SchemaChange::AlterColumnDefault { .. }
            | SchemaChange::AlterColumnAttributes { .. }
            | SchemaChange::ChangePrimaryKey { .. }
            | SchemaChange::ChangeUniqueKeys { .. }
            | SchemaChange::ResnapshotTable { .. } => {}
        }
    }
    // its new columns are there by now, rows that go are gone, and a column of the old key may go behind it
    if let Some(rekeyed) = rekeyed {
        let is_drop = |c: &TargetSchemaChange| matches!(c, TargetSchemaChange::DropColumn { .. });
        let at = out.iter().position(is_drop).filter(|_| !crossed).unwrap_or(out.len());
        out.insert(at, rekeyed);
    }
    Ok(out)
}

/// Does one statement give a name that a column gives up (it is dropped, or gets another name) to another column?
fn names_change_hands(changes: &[SchemaChange]) -> bool {
    let gives_up = |name: &str| {
        changes.iter().any(|change| match change {
            SchemaChange::DropColumn { column, .. } => same_name(column, name),
            SchemaChange::RenameColumn { column, to, .. } => same_name(column, name) && !same_name(to, name),
            _ => false,
        })
    };
    changes.iter().any(|change| match change {
        SchemaChange::AddColumn { column, .. } => gives_up(&column.name),
        SchemaChange::RenameColumn { column, to, .. } => !same_name(column, to) && gives_up(to),
        _ => false,
    })
}

/// A statement in which names change hands, step by step as the source tells it: each step holds behind those before it, with
/// names of their own in between where two columns swap theirs. So in mode lenient too: the old column cannot stay under a
/// name that another one has.
fn hand_over(
    flow: &FlowPlan,
    changes: &[SchemaChange],
    (before, after): (&Arc<TargetTable>, &Arc<TargetTable>),
    table: &str,
) -> Result<Vec<TargetSchemaChange>> {
    let mode = flow.on_schema_change;
    // the names that the target's columns have at this step
    let mut names: Vec<String> = before.schema.columns.iter().map(|c| c.name.to_string()).collect();
    let mut out = Vec::new();
    for (at, change) in changes.iter().enumerate() {
        let place = |names: &[String], column: &str| names.iter().position(|name| same_name(name, column));
        // the column as it is in the end
        let last = |column: &Arc<str>| {
            let name = changes[at + 1..].iter().fold(column.clone(), |name, change| match change {
                SchemaChange::RenameColumn { column, to, .. } if same_name(column, &name) => to.clone(),
                _ => name,
            });
            find(after, &name)
        };
        let table = table.to_owned();
        let (kind, next) = match change {
            SchemaChange::DropColumn { column, .. } => {
                let Some(place) = place(&names, column) else { continue };
                let column = names.remove(place);
                ("drop_column", TargetSchemaChange::DropColumn { table, column })
            }
            SchemaChange::RenameColumn { column, to, .. } => {
                let Some(place) = place(&names, column) else { continue };
                let from = std::mem::replace(&mut names[place], to.to_string());
                ("rename_column", TargetSchemaChange::RenameColumn { table, from, to: to.to_string() })
            }
            SchemaChange::AddColumn { column, .. } => {
                let Some(new) = last(&column.name) else { continue };
                names.push(column.name.to_string());
                let implicit = !new.nullable;
                let column = Column { name: column.name.clone(), ..for_target(mode, new) };
                ("add_column", TargetSchemaChange::AddColumn { table, column, implicit })
            }
            SchemaChange::AlterColumnType { column, .. } => {
                let (Some(place), Some(new)) = (place(&names, column), last(column)) else { continue };
                let (column, ty) = (names[place].clone(), new.ty.clone());
                ("alter_column_type", TargetSchemaChange::AlterColumnType { table, column, ty })
            }
            SchemaChange::AlterNullability { column, nullable, .. } => {
                let Some(place) = place(&names, column) else { continue };
                let nullable = *nullable || mode == SchemaChangeMode::Lenient;
                let column = names[place].clone();
                ("alter_nullability", TargetSchemaChange::AlterNullability { table, column, nullable })
            }
            _ => continue,
        };
        refuse(flow, kind, &before.name)?;
        if !applies(flow, kind) {
            return Err(Error::definite(
                codes::SCHEMA_CHANGE_REFUSED,
                format!(
                    "the flow keeps out {kind}, and columns of target table \"{}\" take each other's names in one statement",
                    before.name
                ),
            )
            .help("let the flow take this kind of change, or copy the table anew"));
        }
        out.push(next);
    }
    Ok(out)
}

/// A table that was not there, or is another now.
fn created(
    changes: &[SchemaChange],
    after: &Arc<TargetTable>,
    share: &Share,
) -> Result<Vec<TargetSchemaChange>> {
    let mut out = vec![TargetSchemaChange::CreateTable { table: after.clone() }];
    // one of an older shape may be there, from before a restart
    if matches!(share, Share::Alone) && changes.iter().any(|c| matches!(c, SchemaChange::DropTable { .. })) {
        out.insert(0, TargetSchemaChange::DropTable { table: after.name.clone() });
    }
    if changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. })) {
        out.push(remove_rows(&after.name, &after.schema.id, share, true)?);
    }
    Ok(out)
}

fn remove_rows(table: &str, source: &TableId, share: &Share, again: bool) -> Result<TargetSchemaChange> {
    let only = match share {
        Share::Alone => Vec::new(),
        Share::Told(only) => only.clone(),
        Share::Untold(others) => {
            let others: Vec<String> = others.iter().map(|t| format!("\"{t}\"")).collect();
            return Err(Error::definite(
                codes::TARGET_COLLISION,
                format!("rows of \"{source}\" in target table \"{table}\" cannot be told from those of other tables"),
            )
            .note(format!("all rows of \"{source}\" are to go there; {} flow into it too", others.join(", ")))
            .help("let a column tell where a row comes from: extend meta.table as shard (and meta.database, where table names repeat); then copy anew"));
        }
    };
    Ok(TargetSchemaChange::RemoveRows { table: table.to_owned(), source: source.clone(), only, again })
}

fn find<'t>(table: &'t TargetTable, column: &str) -> Option<&'t Column> {
    table.schema.column_index(column).map(|i| &table.schema.columns[i])
}

fn is_key(table: &TargetTable, column: &str) -> bool {
    table.key.iter().any(|&i| same_name(&table.schema.columns[i].name, column))
}

fn renamed(changes: &[SchemaChange], column: &str) -> Arc<str> {
    changes
        .iter()
        .find_map(|c| match c {
            SchemaChange::RenameColumn { column: old, to, .. } if same_name(old, column) => Some(to.clone()),
            _ => None,
        })
        .unwrap_or_else(|| column.into())
}

fn for_target(mode: SchemaChangeMode, column: &Column) -> Column {
    let mut column = column.clone();
    if mode == SchemaChangeMode::Lenient {
        column.nullable = true;
    }
    column
}

fn applies(flow: &FlowPlan, kind: &str) -> bool {
    (flow.include.is_empty() || flow.include.iter().any(|k| k == kind))
        && !flow.exclude.iter().any(|k| k == kind)
}

fn refuse(flow: &FlowPlan, kind: &str, table: &str) -> Result<()> {
    match flow.on_schema_change {
        SchemaChangeMode::Exception if applies(flow, kind) => Err(Error::definite(
            codes::SCHEMA_CHANGE_REFUSED,
            format!(
                "schema change {kind} of target table \"{table}\" is refused: on_schema_change = exception"
            ),
        )
        .help("set on_schema_change = lenient or evolve, or exclude = [..] this kind of change")),
        mode @ (SchemaChangeMode::Ignore | SchemaChangeMode::TryEvolve) => Err(Error::definite(
            codes::FEATURE_NOT_YET,
            format!(
                "schema change {kind} of target table \"{table}\": on_schema_change = {} is not built yet",
                mode.name()
            ),
        )
        .help("set on_schema_change = lenient or evolve")),
        _ => Ok(()),
    }
}

/// The change of the key, if its columns are others; a column that only has another type is altered as any other is.
fn change_of_key(
    flow: &FlowPlan,
    (before, after): (&TargetTable, &Arc<TargetTable>),
    changes: &[SchemaChange],
    share: &Share,
) -> Result<Option<TargetSchemaChange>> {
    let columns = |t: &TargetTable| -> Vec<Arc<str>> {
        t.key.iter().map(|&i| t.schema.columns[i].name.clone()).collect()
    };
    let (old, new) = (columns(before), columns(after));
    // renamed by the flow or by the source, a column is the same; another column is not
    let same = |a: &str, b: &str| same_name(a, b) || same_name(&renamed(changes, a), b);
    if old.len() == new.len() && old.iter().zip(&new).all(|(n, m)| same(n, m)) {
        return Ok(None);
    }
    refuse(flow, "change_primary_key", &before.name)?;
    let why = match share {
        Share::Alone if applies(flow, "change_primary_key") => {
            return Ok(Some(TargetSchemaChange::ChangeKey { table: after.clone() }));
        }
        Share::Alone => {
            "the flow keeps out change_primary_key, and rows would not be found by the key until now"
        }
        _ => "other tables flow into it, whose rows have the key until now",
    };
    Err(Error::definite(codes::KEY_CHANGED, format!("the key of target table \"{}\" changes", before.name))
        .note(format!("until now: {}", key_text(before)))
        .note(format!("from now on: {}", key_text(after)))
        .note(why)
        .help(
            "name the columns that tell rows apart in the flow: => target key (..); then copy the table anew",
        ))
}

fn key_text(table: &TargetTable) -> String {
    let columns: Vec<String> = table
        .key
        .iter()
        .map(|&i| format!("{} {}", table.schema.columns[i].name, table.schema.columns[i].ty))
        .collect();
    if columns.is_empty() { "none".to_owned() } else { columns.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::plan::TargetName;
    use cdc_core::plan::pattern::{NamePattern, TablePattern};
    use cdc_core::schema::{Charset, ColumnType, IntWidth, TableId, TableSchema};
    use cdc_core::schema_change::ColumnPosition;

    fn int() -> ColumnType {
        ColumnType::Int { width: IntWidth::Int, unsigned: false }
    }

    fn schema() -> TableSchema {
        TableSchema {
            id: TableId::new("shop", "items"),
            version: 1,
            columns: vec![Column::new("id", int()).not_null(), Column::new("amount", int())],
            primary_key: vec![0],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        }
    }

    fn target(schema: &TableSchema) -> Arc<TargetTable> {
        Arc::new(TargetTable {
            name: schema.id.table.to_string(),
            schema: Arc::new(schema.clone()),
            key: schema.primary_key.clone(),
        })
    }

    fn flow(mode: SchemaChangeMode) -> FlowPlan {
        FlowPlan {
            name: "f".into(),
            source: "src".into(),
            tables: TablePattern { database: None, table: NamePattern::glob("*") },
            ops: vec![],
            sink: "dw".into(),
            target: TargetName::SameAsSource,
            key: None,
            on_schema_change: mode,
            include: vec![],
            exclude: vec![],
            span: 0..0,
        }
    }

    fn run(flow: &FlowPlan, changes: &[SchemaChange]) -> Result<Vec<TargetSchemaChange>> {
        let before = schema();
        let after = changes.iter().try_fold(before.clone(), |s, c| c.apply_to(&s))?;
        derive(flow, changes, Some(&target(&before)), Some(&target(&after)), &Share::Alone)
    }

    fn id() -> TableId {
        TableId::new("shop", "items")
    }

    #[test]
    fn an_added_column_is_appended_and_nullable_in_lenient_mode_and_as_it_is_in_evolve() {
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("note", int()).not_null(),
            position: ColumnPosition::First,
        };
        for (mode, nullable) in [(SchemaChangeMode::Lenient, true), (SchemaChangeMode::Evolve, false)] {
            let out = run(&flow(mode), std::slice::from_ref(&add)).unwrap();
            let [TargetSchemaChange::AddColumn { column, implicit, .. }] = &out[..] else {
                panic!("{out:?}")
            };
            assert_eq!(column.nullable, nullable);
            // rows that are there read 0, not NULL
            assert!(implicit);
        }
        let error = run(&flow(SchemaChangeMode::Exception), &[add]).unwrap_err();
        assert_eq!(error.code(), codes::SCHEMA_CHANGE_REFUSED);
    }

    #[test]
    fn lenient_keeps_dropped_and_renamed_columns() {
        let lenient = flow(SchemaChangeMode::Lenient);
        let drop = SchemaChange::DropColumn { table: id(), column: "amount".into() };
        assert_eq!(run(&lenient, std::slice::from_ref(&drop)).unwrap(), []);
        let out = run(&flow(SchemaChangeMode::Evolve), &[drop]).unwrap();
        assert_eq!(out, [TargetSchemaChange::DropColumn { table: "items".into(), column: "amount".into() }]);
        let rename = SchemaChange::RenameColumn { table: id(), column: "amount".into(), to: "sum".into() };
        let out = run(&lenient, &[rename]).unwrap();
        assert!(matches!(
            &out[..],
            [TargetSchemaChange::AddColumn { .. }, TargetSchemaChange::FillColumn { from, to, .. }]
                if from == "amount" && to == "sum"
        ));
    }

    #[test]
    fn excluded_kinds_are_left_alone() {
        let mut f = flow(SchemaChangeMode::Evolve);
        f.exclude = vec!["drop_column".into()];
        let drop = SchemaChange::DropColumn { table: id(), column: "amount".into() };
        assert_eq!(run(&f, &[drop]).unwrap(), []);
    }

    #[test]
    fn a_key_of_another_type_is_altered_and_another_key_is_made_where_it_can_be() {
        let evolve = flow(SchemaChangeMode::Evolve);
        let alter = SchemaChange::AlterColumnType {
            table: id(),
            column: "id".into(),
            ty: ColumnType::Int { width: IntWidth::Big, unsigned: false },
            position: None,
        };
        let out = run(&evolve, std::slice::from_ref(&alter)).unwrap();
        assert!(matches!(&out[..], [TargetSchemaChange::AlterColumnType { column, .. }] if column == "id"));
        let key = SchemaChange::ChangePrimaryKey { table: id(), columns: vec!["amount".into(), "id".into()] };
        for mode in [SchemaChangeMode::Evolve, SchemaChangeMode::Lenient] {
            let out = run(&flow(mode), std::slice::from_ref(&key)).unwrap();
            assert!(matches!(&out[..], [TargetSchemaChange::ChangeKey { table }] if table.key == [1, 0]));
        }
        let refused = run(&flow(SchemaChangeMode::Exception), std::slice::from_ref(&key)).unwrap_err();
        assert_eq!(refused.code(), codes::SCHEMA_CHANGE_REFUSED);
        let mut out = flow(SchemaChangeMode::Evolve);
        out.exclude = vec!["change_primary_key".into()];
        assert_eq!(run(&out, std::slice::from_ref(&key)).unwrap_err().code(), codes::KEY_CHANGED);
        let (before, after) = (schema(), key.apply_to(&schema()).unwrap());
        let shared = Share::Untold(vec![TableId::new("shop", "others")]);
        let shared = derive(&evolve, &[key], Some(&target(&before)), Some(&target(&after)), &shared);
        assert_eq!(shared.unwrap_err().code(), codes::KEY_CHANGED);
    }

    fn again() -> SchemaChange {
        SchemaChange::ResnapshotTable { table: id(), reason: "it has no key".into() }
    }

    fn rows_go(only: Vec<(Column, Row)>, again: bool) -> TargetSchemaChange {
        TargetSchemaChange::RemoveRows { table: "items".into(), source: id(), only, again }
    }

    #[test]
    fn a_table_that_is_copied_again_is_emptied_in_every_mode_at_its_place() {
        for (mode, _) in SchemaChangeMode::ALL {
            let mut f = flow(mode);
            f.include = vec!["add_column".into()];
            f.exclude = vec!["truncate_table".into()];
            assert_eq!(run(&f, &[again()]).unwrap(), [rows_go(vec![], true)], "{mode:?}");
        }
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("note", int()),
            position: ColumnPosition::Last,
        };
        let out = run(&flow(SchemaChangeMode::Lenient), &[add, again()]).unwrap();
        assert!(
            matches!(&out[..], [first, TargetSchemaChange::AddColumn { .. }] if *first == rows_go(vec![], true))
        );
        // and one that comes into the set with rows nobody has seen
        let after = target(&schema());
        let out = derive(&flow(SchemaChangeMode::Lenient), &[again()], None, Some(&after), &Share::Alone);
        assert_eq!(out.unwrap(), [TargetSchemaChange::CreateTable { table: after }, rows_go(vec![], true)]);
    }

    #[test]
    fn of_a_shared_target_only_rows_of_the_source_go() {
        let table = target(&schema());
        let truncate = SchemaChange::TruncateTable { table: id() };
        let drop = SchemaChange::DropTable { table: id() };
        let evolve = flow(SchemaChangeMode::Evolve);
        let only = vec![(Column::new("shard", int()), Row::pack([cdc_core::Value::Int(1)]))];
        let told = Share::Told(only.clone());
        let untold = Share::Untold(vec![TableId::new("shop", "others")]);
        for (change, after, comes) in
            [(again(), Some(&table), true), (truncate, Some(&table), false), (drop, None, false)]
        {
            let changes = std::slice::from_ref(&change);
            let out = derive(&evolve, changes, Some(&table), after, &told).unwrap();
            assert_eq!(out, [rows_go(only.clone(), comes)]);
            let error = derive(&evolve, changes, Some(&table), after, &untold).unwrap_err();
            assert_eq!(error.code(), codes::TARGET_COLLISION);
            let text = error.to_string();
            assert!(text.contains("\"shop.items\"") && text.contains("\"shop.others\""), "{text}");
        }
        // what lenient leaves alone it need not tell apart
        let truncate = [SchemaChange::TruncateTable { table: id() }];
        let lenient = flow(SchemaChangeMode::Lenient);
        assert_eq!(derive(&lenient, &truncate, Some(&table), Some(&table), &untold).unwrap(), []);
    }

    #[test]
    fn a_table_without_key_keeps_its_shape_changes_and_gets_a_key() {
        let mut keyless = schema();
        keyless.primary_key.clear();
        let before = target(&keyless);
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("note", int()),
            position: ColumnPosition::Last,
        };
        let evolve = flow(SchemaChangeMode::Evolve);
        let after = target(&add.apply_to(&keyless).unwrap());
        let out = derive(&evolve, &[add], Some(&before), Some(&after), &Share::Alone).unwrap();
        assert!(matches!(&out[..], [TargetSchemaChange::AddColumn { .. }]));
        let key = SchemaChange::ChangePrimaryKey { table: id(), columns: vec!["id".into()] };
        let out = derive(&evolve, &[key], Some(&before), Some(&target(&schema())), &Share::Alone).unwrap();
        assert!(matches!(&out[..], [TargetSchemaChange::ChangeKey { table }] if table.key == [0]));
    }
}
