//! (source changes, mode, target table before and after) -> changes for the target.
//!
//! | mode | create | add column | rename column | drop column | alter type | rename table | truncate, drop |
//! |---|---|---|---|---|---|---|---|
//! | exception | apply | stop | stop | stop | stop | stop | stop |
//! | evolve | apply | apply | apply | apply | apply | apply | apply |
//! | lenient | apply | appended, nullable | new column, filled from the old one, which stays | stays | apply | apply | left alone |
//!
//! Only what a flow's rows show counts: a column that a `select` leaves out changes nothing at its target.
//! `include` and `exclude` name kinds of changes; one that is kept out is treated as if the flow did not have it.

use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::plan::{FlowPlan, SchemaChangeMode};
use cdc_core::schema::{Column, same_name};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Error, Result, codes};
use std::sync::Arc;

/// What a target has to do.
///
/// # Errors
/// `SCHEMA_CHANGE_REFUSED` in mode exception; `KEY_CHANGED` if the rows would have another key;
/// `FEATURE_NOT_YET` for modes that are not built.
pub fn derive(
    flow: &FlowPlan,
    changes: &[SchemaChange],
    before: Option<&Arc<TargetTable>>,
    after: Option<&Arc<TargetTable>>,
) -> Result<Vec<TargetSchemaChange>> {
    let mode = flow.on_schema_change;
    let (before, after) = match (before, after) {
        (None, None) => return Ok(Vec::new()),
        (None, Some(after)) => return Ok(vec![TargetSchemaChange::CreateTable { table: after.clone() }]),
        (Some(before), None) => {
            if changes.iter().any(|c| matches!(c, SchemaChange::RenameTable { .. })) {
                // renamed to where this flow does not look
                refuse(flow, "rename_table", &before.name)?;
                return Ok(Vec::new());
            }
            refuse(flow, "drop_table", &before.name)?;
            let wanted = mode == SchemaChangeMode::Evolve || flow.include.iter().any(|k| k == "drop_table");
            return Ok(if wanted && applies(flow, "drop_table") {
                vec![TargetSchemaChange::DropTable { table: before.name.clone() }]
            } else {
                Vec::new()
            });
        }
        (Some(before), Some(after)) => (before, after),
    };
    if changes.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. })) {
        // dropped and made again in one statement (CREATE OR REPLACE)
        return Ok(vec![TargetSchemaChange::CreateTable { table: after.clone() }]);
    }
    check_key(before, after, changes)?;
    let mut out = Vec::new();
    let mut name = before.name.clone();
    if name != after.name {
        refuse(flow, "rename_table", &name)?;
        if applies(flow, "rename_table") {
            out.push(TargetSchemaChange::RenameTable { from: name, to: after.name.clone() });
        }
        name = after.name.clone();
    }
    let had = |column: &str| find(before, column);
    let has = |column: &str| find(after, column);
    for change in changes {
        match change {
            SchemaChange::TruncateTable { .. } => {
                refuse(flow, "truncate_table", &name)?;
                let wanted =
                    mode == SchemaChangeMode::Evolve || flow.include.iter().any(|k| k == "truncate_table");
                if wanted && applies(flow, "truncate_table") {
                    out.push(TargetSchemaChange::TruncateTable { table: name.clone() });
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
                    out.push(TargetSchemaChange::AddColumn { table: name.clone(), column });
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
    Ok(out)
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

fn check_key(before: &TargetTable, after: &TargetTable, changes: &[SchemaChange]) -> Result<()> {
    let columns = |t: &TargetTable| -> Vec<_> {
        t.key.iter().map(|&i| (t.schema.columns[i].name.clone(), t.schema.columns[i].ty.clone())).collect()
    };
    let (old, new) = (columns(before), columns(after));
    // renamed by the flow or by the source, a column is the same; another column is not
    let same = |a: &str, b: &str| same_name(a, b) || same_name(&renamed(changes, a), b);
    if old.len() == new.len() && old.iter().zip(&new).all(|((n, t), (m, u))| same(n, m) && t == u) {
        return Ok(());
    }
    Err(Error::definite(codes::KEY_CHANGED, format!("the key of target table \"{}\" changes", before.name))
        .note(format!("until now: {}", key_text(before)))
        .note(format!("from now on: {}", key_text(after)))
        .help("copy the table anew: stop, remove the state folder and the target's tables, start again"))
}

fn key_text(table: &TargetTable) -> String {
    let columns: Vec<String> = table
        .key
        .iter()
        .map(|&i| format!("{} {}", table.schema.columns[i].name, table.schema.columns[i].ty))
        .collect();
    columns.join(", ")
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
        derive(flow, changes, Some(&target(&before)), Some(&target(&after)))
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
            let [TargetSchemaChange::AddColumn { column, .. }] = &out[..] else { panic!("{out:?}") };
            assert_eq!(column.nullable, nullable);
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
    fn excluded_kinds_are_left_alone_and_a_changed_key_stops() {
        let mut f = flow(SchemaChangeMode::Evolve);
        f.exclude = vec!["drop_column".into()];
        let drop = SchemaChange::DropColumn { table: id(), column: "amount".into() };
        assert_eq!(run(&f, &[drop]).unwrap(), []);
        let alter = SchemaChange::AlterColumnType {
            table: id(),
            column: "id".into(),
            ty: ColumnType::Int { width: IntWidth::Big, unsigned: false },
            position: None,
        };
        assert_eq!(run(&f, &[alter]).unwrap_err().code(), codes::KEY_CHANGED);
    }
}
