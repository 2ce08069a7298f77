//! The closed set of schema change events.
//!
//! One SQL statement becomes zero or more events, in order. Each is about one table as the *source* has it;
//! what a target is to do about it is derived elsewhere. [`SchemaChange::apply_to`] gives the table's next
//! shape, so that everybody who follows a table follows it in the same way.

use crate::error::{Error, Result};
use crate::schema::{Column, ColumnType, TableId, TableSchema};
use crate::{codes, schema::same_name};
use std::fmt;
use std::sync::Arc;

/// Where a column stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ColumnPosition {
    /// Behind all others.
    Last,
    /// In front of all others.
    First,
    /// Behind this column.
    After(Arc<str>),
}

/// A change of a table's shape, or of its rows as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SchemaChange {
    /// CREATE TABLE, LIKE and SELECT forms too.
    CreateTable {
        /// The new table.
        schema: Arc<TableSchema>,
    },
    /// DROP TABLE.
    DropTable {
        /// Which.
        table: TableId,
    },
    /// TRUNCATE.
    TruncateTable {
        /// Which.
        table: TableId,
    },
    /// RENAME TABLE, ALTER TABLE .. RENAME.
    RenameTable {
        /// Its name until now.
        table: TableId,
        /// Its new name.
        to: TableId,
    },
    /// ADD COLUMN.
    AddColumn {
        /// Which table.
        table: TableId,
        /// The new column. Rows that are already there read its default.
        column: Column,
        /// Where it stands.
        position: ColumnPosition,
    },
    /// DROP COLUMN.
    DropColumn {
        /// Which table.
        table: TableId,
        /// Which column.
        column: Arc<str>,
    },
    /// The type part of MODIFY or CHANGE; also a change of place with the type as it was.
    AlterColumnType {
        /// Which table.
        table: TableId,
        /// Which column.
        column: Arc<str>,
        /// Its new type.
        ty: ColumnType,
        /// Where it moves, if it does.
        position: Option<ColumnPosition>,
    },
    /// RENAME COLUMN, or the name part of CHANGE.
    RenameColumn {
        /// Which table.
        table: TableId,
        /// Its name until now.
        column: Arc<str>,
        /// Its new name.
        to: Arc<str>,
    },
    /// NULL or NOT NULL.
    AlterNullability {
        /// Which table.
        table: TableId,
        /// Which column.
        column: Arc<str>,
        /// May it hold NULL from now on?
        nullable: bool,
    },
    /// SET DEFAULT, DROP DEFAULT.
    AlterColumnDefault {
        /// Which table.
        table: TableId,
        /// Which column.
        column: Arc<str>,
        /// The text after DEFAULT, or none.
        default: Option<String>,
    },
    /// What else of a column does not change its stored values: comment, AUTO_INCREMENT, visibility,
    /// the expression of a generated column.
    AlterColumnAttributes {
        /// Which table.
        table: TableId,
        /// The column as it is from now on, under the same name and type.
        column: Column,
    },
    /// The table's comment; a column's is one of its attributes.
    AlterTableComment {
        /// Which table.
        table: TableId,
        /// Its comment from now on; empty: none.
        comment: String,
    },
    /// The primary key is another, or none.
    ChangePrimaryKey {
        /// Which table.
        table: TableId,
        /// Its columns in key order.
        columns: Vec<Arc<str>>,
    },
    /// The set of unique keys is another; by column names.
    ChangeUniqueKeys {
        /// Which table.
        table: TableId,
        /// All of them, each as its columns in key order.
        keys: Vec<Vec<Arc<str>>>,
    },
    /// Rows changed with no row events: the table has to be copied again.
    ResnapshotTable {
        /// Which table.
        table: TableId,
        /// What moved the rows, in a few words.
        reason: String,
    },
}

/// How the name begins that a column has for a while where columns of one statement take each other's: they are told one by one,
/// and each has to fit the shape in front of it.
pub const ASIDE: &str = "_cdc_spare_";

/// The changes as people tell them: a column that steps aside on its way is told once, under the name that it has in the end.
pub fn told(changes: &[SchemaChange]) -> Vec<SchemaChange> {
    let mut told: Vec<SchemaChange> = Vec::with_capacity(changes.len());
    for change in changes {
        let begun = match change {
            SchemaChange::RenameColumn { table, column, .. } if column.starts_with(ASIDE) => {
                told.iter_mut().find(|c| {
                    matches!(c, SchemaChange::RenameColumn { table: of, to, .. } if of == table && to == column)
                })
            }
            _ => None,
        };
        match (begun, change) {
            (Some(SchemaChange::RenameColumn { to, .. }), SchemaChange::RenameColumn { to: end, .. }) => {
                to.clone_from(end);
            }
            _ => told.push(change.clone()),
        }
    }
    told
}

impl SchemaChange {
    /// The table it is about, under its name before the change.
    pub fn table(&self) -> &TableId {
        match self {
            SchemaChange::CreateTable { schema } => &schema.id,
            SchemaChange::DropTable { table }
            | SchemaChange::TruncateTable { table }
            | SchemaChange::RenameTable { table, .. }
            | SchemaChange::AddColumn { table, .. }
            | SchemaChange::DropColumn { table, .. }
            | SchemaChange::AlterColumnType { table, .. }
            | SchemaChange::RenameColumn { table, .. }
            | SchemaChange::AlterNullability { table, .. }
            | SchemaChange::AlterColumnDefault { table, .. }
            | SchemaChange::AlterColumnAttributes { table, .. }
            | SchemaChange::AlterTableComment { table, .. }
            | SchemaChange::ChangePrimaryKey { table, .. }
            | SchemaChange::ChangeUniqueKeys { table, .. }
            | SchemaChange::ResnapshotTable { table, .. } => table,
        }
    }

    /// The shape of a table after this change. Changes of the table as a whole (create, drop, truncate,
    /// resnapshot) leave the shape; a rename changes its name. The version is left to the caller.
    ///
    /// # Errors
    /// `DDL_UNSUPPORTED` if the change does not fit the table: a column it names is not there, or one it
    /// adds is there already. That means the shape was not followed rightly, and nothing may be decoded
    /// with it.
    pub fn apply_to(&self, schema: &TableSchema) -> Result<TableSchema> {
        let mut next = schema.clone();
        let find = |schema: &TableSchema, name: &str| {
            schema.column_index(name).ok_or_else(|| {
                Error::definite(
                    codes::DDL_UNSUPPORTED,
                    format!("table \"{}\" has no column \"{name}\" that a schema change names", schema.id),
                )
                .note(format!("the change: {self}"))
            })
        };
        match self {
            SchemaChange::CreateTable { .. }
            | SchemaChange::DropTable { .. }
            | SchemaChange::TruncateTable { .. }
            | SchemaChange::ResnapshotTable { .. } => {}
            SchemaChange::RenameTable { to, .. } => next.id = to.clone(),
            SchemaChange::AddColumn { column, position, .. } => {
                if schema.column_index(&column.name).is_some() {
                    return Err(Error::definite(
                        codes::DDL_UNSUPPORTED,
                        format!("table \"{}\" already has the column \"{}\"", schema.id, column.name),
                    ));
                }
                let at = place(schema, position)?;
                insert_column(&mut next, at, column.clone());
            }
            SchemaChange::DropColumn { column, .. } => {
                let at = find(schema, column)?;
                remove_column(&mut next, at);
                next.primary_key.retain(|&i| i != usize::MAX);
                for key in &mut next.unique_keys {
                    key.retain(|&i| i != usize::MAX);
                }
                next.unique_keys.retain(|key| !key.is_empty());
            }
            SchemaChange::AlterColumnType { column, ty, position, .. } => {
                let at = find(schema, column)?;
                next.columns[at].ty = ty.clone();
                if let Some(position) = position {
                    let moved = next.columns[at].clone();
                    let key_names = key_names(&next);
                    next.columns.remove(at);
                    let to = place(&next, position)?;
                    next.columns.insert(to, moved);
                    set_keys(&mut next, key_names);
                }
            }
            SchemaChange::RenameColumn { column, to, .. } => {
                let at = find(schema, column)?;
                next.columns[at].name = to.clone();
            }
            SchemaChange::AlterNullability { column, nullable, .. } => {
                let at = find(schema, column)?;
                next.columns[at].nullable = *nullable;
            }
            SchemaChange::AlterColumnDefault { column, default, .. } => {
                let at = find(schema, column)?;
                next.columns[at].default = default.clone();
            }
            SchemaChange::AlterColumnAttributes { column, .. } => {
                let at = find(schema, &column.name)?;
                next.columns[at] = column.clone();
            }
            SchemaChange::AlterTableComment { comment, .. } => next.comment.clone_from(comment),
            SchemaChange::ChangePrimaryKey { columns, .. } => {
                next.primary_key = columns.iter().map(|c| find(schema, c)).collect::<Result<_>>()?;
                for &i in &next.primary_key {
                    next.columns[i].nullable = false;
                }
            }
            SchemaChange::ChangeUniqueKeys { keys, .. } => {
                next.unique_keys = keys
                    .iter()
                    .map(|key| key.iter().map(|c| find(schema, c)).collect::<Result<_>>())
                    .collect::<Result<_>>()?;
            }
        }
        Ok(next)
    }
}

fn place(schema: &TableSchema, position: &ColumnPosition) -> Result<usize> {
    match position {
        ColumnPosition::Last => Ok(schema.columns.len()),
        ColumnPosition::First => Ok(0),
        ColumnPosition::After(name) => {
            schema.columns.iter().position(|c| same_name(&c.name, name)).map(|i| i + 1).ok_or_else(|| {
                Error::definite(
                    codes::DDL_UNSUPPORTED,
                    format!("table \"{}\" has no column \"{name}\" to stand behind", schema.id),
                )
            })
        }
    }
}

fn insert_column(schema: &mut TableSchema, at: usize, column: Column) {
    let shift = |i: &mut usize| *i += usize::from(*i >= at);
    schema.primary_key.iter_mut().for_each(shift);
    schema.unique_keys.iter_mut().flatten().for_each(shift);
    schema.columns.insert(at, column);
}

/// Takes a column out; key entries that meant it become `usize::MAX`.
fn remove_column(schema: &mut TableSchema, at: usize) {
    let shift = |i: &mut usize| match (*i).cmp(&at) {
        std::cmp::Ordering::Less => {}
        std::cmp::Ordering::Equal => *i = usize::MAX,
        std::cmp::Ordering::Greater => *i -= 1,
    };
    schema.primary_key.iter_mut().for_each(shift);
    schema.unique_keys.iter_mut().flatten().for_each(shift);
    schema.columns.remove(at);
}

type KeyNames = (Vec<Arc<str>>, Vec<Vec<Arc<str>>>);

fn key_names(schema: &TableSchema) -> KeyNames {
    let name = |&i: &usize| schema.columns[i].name.clone();
    (
        schema.primary_key.iter().map(name).collect(),
        schema.unique_keys.iter().map(|k| k.iter().map(name).collect()).collect(),
    )
}

fn set_keys(schema: &mut TableSchema, (primary, unique): KeyNames) {
    let index = |names: &Vec<Arc<str>>| -> Vec<usize> {
        names.iter().filter_map(|n| schema.column_index(n)).collect()
    };
    let primary = index(&primary);
    let unique = unique.iter().map(index).collect();
    schema.primary_key = primary;
    schema.unique_keys = unique;
}

/// A line for people.
impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table();
        match self {
            SchemaChange::CreateTable { schema } => {
                write!(f, "create table {table} with {} columns", schema.columns.len())
            }
            SchemaChange::DropTable { .. } => write!(f, "drop table {table}"),
            SchemaChange::TruncateTable { .. } => write!(f, "truncate table {table}"),
            SchemaChange::RenameTable { to, .. } => write!(f, "rename table {table} to {to}"),
            SchemaChange::AddColumn { column, position, .. } => {
                write!(f, "add column {table}.{} {}", column.name, column.ty)?;
                match position {
                    ColumnPosition::Last => Ok(()),
                    ColumnPosition::First => f.write_str(" first"),
                    ColumnPosition::After(name) => write!(f, " after {name}"),
                }
            }
            SchemaChange::DropColumn { column, .. } => write!(f, "drop column {table}.{column}"),
            SchemaChange::AlterColumnType { column, ty, .. } => {
                write!(f, "alter column {table}.{column} to {ty}")
            }
            SchemaChange::RenameColumn { column, to, .. } => {
                write!(f, "rename column {table}.{column} to {to}")
            }
            SchemaChange::AlterNullability { column, nullable, .. } => {
                write!(f, "make column {table}.{column} {}", if *nullable { "nullable" } else { "not null" })
            }
            SchemaChange::AlterColumnDefault { column, default, .. } => match default {
                Some(default) => write!(f, "set default of {table}.{column} to {default}"),
                None => write!(f, "drop default of {table}.{column}"),
            },
            SchemaChange::AlterColumnAttributes { column, .. } => {
                write!(f, "alter attributes of {table}.{}", column.name)
            }
            SchemaChange::AlterTableComment { .. } => write!(f, "alter comment of {table}"),
            SchemaChange::ChangePrimaryKey { columns, .. } => {
                write!(f, "change primary key of {table} to ({})", columns.join(", "))
            }
            SchemaChange::ChangeUniqueKeys { .. } => write!(f, "change unique keys of {table}"),
            SchemaChange::ResnapshotTable { reason, .. } => write!(f, "copy table {table} again: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cross_are_told_without_the_one_in_between() {
        let table = TableId::new("shop", "t");
        let rename = |column: &str, to: &str| SchemaChange::RenameColumn {
            table: table.clone(),
            column: column.into(),
            to: to.into(),
        };
        let aside = format!("{ASIDE}1");
        let swap = [rename("a", &aside), rename("b", "a"), rename(&aside, "b")];
        let words: Vec<String> = told(&swap).iter().map(ToString::to_string).collect();
        assert_eq!(words, ["rename column shop.t.a to b", "rename column shop.t.b to a"]);
        let plain = [rename("a", "b"), rename("b", "c")];
        assert_eq!(told(&plain), plain);
    }
}
