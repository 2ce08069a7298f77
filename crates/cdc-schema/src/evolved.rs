//! The evolved schema: a target table as its flows have left it, and which of its columns each source table feeds.
//!
//! The *original* schema is the source's, as the flow's operators show it; it changes with each statement. The *evolved*
//! one is the target's. Modes keep the two apart: a column that lenient keeps, or that ignore does not add, is in one and not in
//! the other. What ties them together is the [`Feed`]: for each output column of a flow the target's column that its
//! values go to, or none.
//!
//! *The invariant.* A column that is fed holds, in each row of that source table, the source's value as of the target's tick. So
//! a feed that is cut stays cut: the rows have missed values meanwhile. It is tied again by name only where all rows
//! come anew (the table is created or copied again). A column that nobody feeds holds what it held; inserted rows
//! have NULL there.

use crate::coerce::Coercion;
use crate::merge::{any_text, common, same_type};
use cdc_core::connector::TargetTable;
use cdc_core::plan::SchemaChangeMode;
use cdc_core::schema::{Charset, Column, ColumnType, TableId, TableSchema, same_name};
use cdc_core::{Error, Result, codes};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A target table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evolved {
    /// Its name at the target.
    pub name: String,
    /// The columns that it is known to have.
    pub columns: Vec<Column>,
    /// The names of its key's columns, in key order; empty: a multiset.
    pub key: Vec<Arc<str>>,
    /// Its comment.
    #[serde(default)]
    pub comment: String,
    /// The source tables that flow into it. None: it was left behind, with its rows.
    pub feeds: Vec<Feed>,
}

/// What one source table feeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feed {
    /// The source table.
    pub table: TableId,
    /// The name that its flow gives to the target table.
    pub name: String,
    /// The columns that the flow gives out.
    pub columns: Vec<Fed>,
}

/// An output column of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fed {
    /// Its name in the flow's output.
    pub output: Arc<str>,
    /// Its type there.
    pub ty: ColumnType,
    /// The target's column that gets its values.
    pub target: Option<Arc<str>>,
}

impl Evolved {
    /// A table that is made as a flow writes it.
    pub fn of(table: &TargetTable) -> Evolved {
        let feed = Feed {
            table: table.schema.id.clone(),
            name: table.name.clone(),
            columns: table
                .schema
                .columns
                .iter()
                .map(|c| Fed { output: c.name.clone(), ty: c.ty.clone(), target: Some(c.name.clone()) })
                .collect(),
        };
        Evolved {
            name: table.name.clone(),
            columns: table.schema.columns.clone(),
            key: table.key.iter().map(|&i| table.schema.columns[i].name.clone()).collect(),
            comment: table.schema.comment.clone(),
            feeds: vec![feed],
        }
    }

    /// A column, by name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| same_name(&c.name, name))
    }

    pub(crate) fn column_mut(&mut self, name: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|c| same_name(&c.name, name))
    }

    /// Is it a column of the key?
    pub fn is_key(&self, name: &str) -> bool {
        self.key.iter().any(|k| same_name(k, name))
    }

    /// What a source table feeds.
    pub fn feed(&self, name: &str, table: &TableId) -> Option<&Feed> {
        self.feeds.iter().find(|f| f.name == name && f.table == *table)
    }

    /// A table that several source tables flow into has no defaults: rows of one read NULL in the columns of another. Gives
    /// back the columns that had one.
    pub(crate) fn lose_defaults(&mut self) -> Vec<Column> {
        let of = self.columns.iter_mut().filter(|c| c.default.is_some());
        of.map(|column| {
            column.default = None;
            column.clone()
        })
        .collect()
    }

    /// Takes a source table in whose rows are all still to come: columns united by name, types widened, nullable where one of them lacks
    /// a column. Gives back the changes of columns that this takes at a target that is there: new ones, and those of another type.
    ///
    /// # Errors
    /// `TARGET_COLLISION` where two columns have no common type, and the mode does not allow text; where the keys differ.
    pub fn join(&mut self, table: &TargetTable, mode: SchemaChangeMode) -> Result<Vec<Widened>> {
        let alone = self.feeds.is_empty();
        let columns = &table.schema.columns;
        let key: Vec<Arc<str>> = table.key.iter().map(|&i| columns[i].name.clone()).collect();
        let same_key = key.len() == self.key.len() && key.iter().zip(&self.key).all(|(a, b)| same_name(a, b));
        if !same_key {
            return Err(Error::definite(
                codes::TARGET_COLLISION,
                format!(
                    "table \"{}\" would come into target table \"{}\" with another key",
                    table.schema.id, self.name
                ),
            )
            .note(format!("the target's: ({})", self.key.join(", ")))
            .note(format!("its own: ({})", key.join(", ")))
            .help("state one key for the flow: => target key (..)"));
        }
        if !alone {
            self.lose_defaults();
        }
        let mut widened = Vec::new();
        let mut fed = Vec::with_capacity(columns.len());
        for column in columns {
            let is_key = key.iter().any(|k| same_name(k, &column.name));
            let name = if mode == SchemaChangeMode::Lenient && alone && !is_key {
                self.place_of(column, columns)
            } else {
                column.name.clone()
            };
            let Some(there) = self.column_mut(&name) else {
                let mut new = Column { name: name.clone(), ..column.clone() };
                new.nullable = new.nullable || !alone || name != column.name;
                new.default = None;
                widened.push(Widened::New(new.clone()));
                self.columns.push(new);
                fed.push(Fed { output: column.name.clone(), ty: column.ty.clone(), target: Some(name) });
                continue;
            };
            let Some(ty) = common_or_text(&there.ty, &column.ty, mode) else {
                let there = there.clone();
                return Err(no_common(&self.name, &there, &table.schema.id, column));
            };
            there.nullable |= column.nullable;
            if !same_type(&there.ty, &ty) {
                there.ty = ty;
                widened.push(Widened::Type(there.clone()));
            }
            fed.push(Fed {
                output: column.name.clone(),
                ty: column.ty.clone(),
                target: Some(there.name.clone()),
            });
        }
        let is_key = |name: &str| key.iter().any(|k| same_name(k, name));
        for lacking in self.columns.iter_mut().filter(|c| !is_key(&c.name)) {
            let is_fed = |f: &Fed| f.target.as_ref().is_some_and(|t| same_name(t, &lacking.name));
            lacking.nullable |= !fed.iter().any(is_fed);
        }
        self.feeds.push(Feed { table: table.schema.id.clone(), name: table.name.clone(), columns: fed });
        Ok(widened)
    }

    /// Where a column goes of a table that comes back and whose rows from before are kept: as a column that is altered in mode lenient, to one
    /// that its values and those that are there have a type in common with, under its own name or one behind it; else to a new one.
    /// (One that is there is taken again, or a table that is made anew every night would have one more each time.)
    fn place_of(&self, column: &Column, of: &[Column]) -> Arc<str> {
        let takes =
            |name: &str| self.column(name).is_none_or(|there| common(&there.ty, &column.ty).is_some());
        if takes(&column.name) {
            return column.name.clone();
        }
        let is_free = |name: &String| !of.iter().any(|c| same_name(&c.name, name)) && takes(name);
        let mut names = (2..).map(|n| format!("{}_{n}", column.name));
        names.find(is_free).map_or_else(|| column.name.clone(), Arc::from)
    }

    /// All of its columns, as one of its source tables would write them.
    pub fn table(&self, id: &TableId, version: u32) -> Arc<TargetTable> {
        let key: Vec<usize> =
            self.key.iter().filter_map(|k| self.columns.iter().position(|c| same_name(&c.name, k))).collect();
        Arc::new(TargetTable {
            name: self.name.clone(),
            schema: Arc::new(TableSchema {
                id: id.clone(),
                version,
                columns: self.columns.clone(),
                primary_key: key.clone(),
                unique_keys: Vec::new(),
                charset: Charset::utf8mb4(),
                comment: self.comment.clone(),
            }),
            key,
            soft_delete: None,
            told_by: None,
        })
    }

    /// How rows of this shape, as the flow gives them out, are written. `None`: as they are.
    ///
    /// # Errors
    /// `KEY_CHANGED` if a column of the key is not fed; `INTERNAL` if a column is none that the feed knows.
    pub fn coercion(&self, bound: &Arc<TargetTable>) -> Result<Option<Coercion>> {
        let Some(feed) = self.feed(&bound.name, &bound.schema.id) else { return Ok(None) };
        let mut from = Vec::new();
        let mut columns = Vec::new();
        let mut place = vec![None; bound.schema.columns.len()];
        for (i, column) in bound.schema.columns.iter().enumerate() {
            // what is left out is left out knowingly
            let fed = feed.columns.iter().find(|f| same_name(&f.output, &column.name)).ok_or_else(|| {
                Error::definite(
                    codes::INTERNAL,
                    format!(
                        "column \"{}\" of \"{}\" came without its schema change into target table \"{}\"",
                        column.name, feed.table, self.name
                    ),
                )
            })?;
            let Some(there) = fed.target.as_ref().and_then(|t| self.column(t)) else { continue };
            place[i] = Some(from.len());
            from.push(i);
            columns.push(Column { name: there.name.clone(), ty: there.ty.clone(), ..column.clone() });
        }
        let same = self.name == bound.name
            && columns.len() == bound.schema.columns.len()
            && columns
                .iter()
                .zip(&bound.schema.columns)
                .all(|(a, b)| a.name == b.name && same_type(&a.ty, &b.ty));
        if same {
            return Ok(None);
        }
        let key = bound.key.iter().map(|&i| {
            place[i].ok_or_else(|| {
                Error::definite(
                    codes::KEY_CHANGED,
                    format!(
                        "column \"{}\" of the key of target table \"{}\" is not written any more",
                        bound.schema.columns[i].name, self.name
                    ),
                )
                .help("let the flow take changes of the key: on_schema_change = lenient or evolve; then copy the table anew")
            })
        });
        let key = key.collect::<Result<Vec<usize>>>()?;
        let schema = TableSchema { columns, primary_key: key.clone(), ..(*bound.schema).clone() };
        let soft_delete = bound.soft_delete.and_then(|i| place[i]);
        let told_by = bound.told_by.and_then(|i| place[i]);
        let name = self.name.clone();
        let to = Arc::new(TargetTable { name, schema: Arc::new(schema), key, soft_delete, told_by });
        Ok(Some(Coercion::new(bound.clone(), to, from)))
    }

    /// What of a source table's output is not at the target, and what of the target's columns nobody writes: for people.
    pub fn left(&self, feed: &Feed) -> Vec<String> {
        let mut out: Vec<String> = feed
            .columns
            .iter()
            .filter(|f| f.target.is_none())
            .map(|f| format!("column \"{}\" of {} is not written", f.output, feed.table))
            .collect();
        out.extend(self.columns.iter().filter(|c| !self.is_fed(&c.name)).map(|c| keeps(&c.name)));
        out
    }

    /// Does any source table feed this column?
    pub(crate) fn is_fed(&self, name: &str) -> bool {
        let mut fed = self.feeds.iter().flat_map(|f| &f.columns);
        fed.any(|f| f.target.as_ref().is_some_and(|t| same_name(t, name)))
    }
}

/// What becomes of a column that nobody feeds, for people.
pub(crate) fn keeps(column: &str) -> String {
    format!(
        "column \"{column}\" of the target keeps what it has until its rows are copied again; new rows have no value for it"
    )
}

/// What joining a table takes of the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Widened {
    /// A column that was not there.
    New(Column),
    /// One that has a wider type now.
    Type(Column),
}

/// The common type, or text where the mode allows it.
pub(crate) fn common_or_text(a: &ColumnType, b: &ColumnType, mode: SchemaChangeMode) -> Option<ColumnType> {
    common(a, b).or_else(|| {
        let has_text = |ty: &ColumnType| {
            !matches!(
                ty,
                ColumnType::Bit { .. }
                    | ColumnType::Binary { .. }
                    | ColumnType::VarBinary { .. }
                    | ColumnType::Blob { .. }
                    | ColumnType::Geometry { .. }
                    | ColumnType::Vector { .. }
            )
        };
        (mode == SchemaChangeMode::Lenient && has_text(a) && has_text(b)).then(any_text)
    })
}

pub(crate) fn no_common(name: &str, there: &Column, table: &TableId, column: &Column) -> Error {
    Error::definite(
        codes::TARGET_COLLISION,
        format!("target table \"{name}\": columns of two tables have no common type"),
    )
    .note(format!("the target's: \"{}\" {}", there.name, there.ty))
    .note(format!("of {table}: \"{}\" {}", column.name, column.ty))
    .help("cast it in the flow: select *, cast(.. as ..) as ..; or give the tables names of their own at the target")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::IntWidth;
    use cdc_core::value::Value;
    use cdc_core::{Row, connector::TargetBatch};

    fn int(width: IntWidth) -> ColumnType {
        ColumnType::Int { width, unsigned: false }
    }

    fn table(source: &str, columns: Vec<Column>) -> Arc<TargetTable> {
        Arc::new(TargetTable {
            name: "all".into(),
            schema: Arc::new(TableSchema {
                id: TableId::new("shop", source),
                version: 1,
                columns,
                primary_key: vec![0],
                unique_keys: vec![],
                charset: Charset::utf8mb4(),
                comment: String::new(),
            }),
            key: vec![0],
            soft_delete: None,
            told_by: None,
        })
    }

    #[test]
    fn case_52_two_sources_to_one_target_have_the_columns_of_both() {
        let varchar = ColumnType::VarChar { length: 20, charset: Charset::utf8mb4() };
        let t1 = table("t1", vec![Column::new("id", int(IntWidth::Int)).not_null()]);
        let t2 = table(
            "t2",
            vec![
                Column::new("id", int(IntWidth::Big)).not_null(),
                Column::new("description", varchar.clone()).not_null(),
            ],
        );
        let mut all = Evolved::of(&t1);
        let changes = all.join(&t2, SchemaChangeMode::Evolve).unwrap();
        assert!(
            matches!(&changes[..], [Widened::Type(id), Widened::New(d)] if id.ty == int(IntWidth::Big) && d.nullable)
        );
        assert_eq!(all.columns.len(), 2);
        // rows of the narrower table: the id under the wider type, and nothing of the other column
        let coercion = all.coercion(&t1).unwrap().unwrap();
        assert_eq!(coercion.to().schema.columns.len(), 1);
        let row = Row::pack([Value::Int(7)]);
        assert_eq!(coercion.row(&row).unwrap(), row);
        assert!(all.coercion(&t2).unwrap().is_none());
        let text = table("t3", vec![Column::new("id", varchar).not_null()]);
        let error = all.clone().join(&text, SchemaChangeMode::Evolve).unwrap_err();
        assert_eq!(error.code(), codes::TARGET_COLLISION);
        assert!(error.to_string().contains("varchar(20)") && error.to_string().contains("bigint"), "{error}");
        all.join(&text, SchemaChangeMode::Lenient).unwrap();
        let coercion = all.coercion(&t1).unwrap().unwrap();
        assert_eq!(coercion.row(&row).unwrap(), Row::pack([Value::Text("7".into())]));
        let batch = TargetBatch { table: t1, origins: Arc::new([]), changes: vec![] };
        assert_eq!(coercion.batch(&batch).unwrap().table.name, "all");
    }
}
