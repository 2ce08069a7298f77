//! Columns that a server does not log are not given out.
//!
//! MariaDB 11.8 leaves generated columns out of the images of UPDATE, DELETE and REPLACE, whatever `binlog_row_image`
//! says ([`Server::leaves_out_generated`]): after an UPDATE nobody but the server knows what they are. A copy that showed
//! them as they were before would be wrong in silence. So of such a server they are no columns of the copy, and that is
//! told at the start. They can be computed from the others, at the target too.
//!
//! It is applied at the very end of a source, to what it gives out: structures by position, the SELECTs of chunks and the
//! layout of the log's images are the server's own. The two times of a system-versioned table that its definition
//! names (GENERATED ALWAYS AS ROW START, ROW END) are no such columns: images of these tables are whole (measured).

use crate::capture::CaptureItem;
use crate::server::Server;
use cdc_core::schema::{Column, same_name};
use cdc_core::schema_change::{ColumnPosition, SchemaChange};
use cdc_core::{Error, Result, Row, RowBuilder, TableSchema, codes};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The tables of a source without the columns that are not logged.
#[derive(Debug, Default)]
pub struct Narrow {
    active: bool,
    /// By the address of the whole schema, which is held, so the address stays its own.
    tables: Mutex<HashMap<usize, Pair>>,
}

/// The whole schema and the narrow one.
type Pair = (Arc<TableSchema>, Arc<TableSchema>);

const MOST_TABLES: usize = 1 << 16;

/// Is it a column that such a server does not log?
fn is_unlogged(column: &Column) -> bool {
    column.generated.as_ref().is_some_and(|g| !matches!(&*g.expression, "ROW START" | "ROW END"))
}

impl Narrow {
    /// For this server.
    pub fn new(server: &Server) -> Narrow {
        Narrow { active: server.leaves_out_generated(), tables: Mutex::default() }
    }

    /// True if everything goes on as it is.
    pub fn is_identity(&self) -> bool {
        !self.active
    }

    /// The names of a table's columns that are left out.
    pub fn left_out(&self, schema: &TableSchema) -> Vec<Arc<str>> {
        let columns = schema.columns.iter().filter(|c| self.active && is_unlogged(c));
        columns.map(|c| c.name.clone()).collect()
    }

    /// A table without them; the same `Arc` for the same `Arc`.
    pub fn schema(&self, schema: &Arc<TableSchema>) -> Arc<TableSchema> {
        if !self.active || !schema.columns.iter().any(is_unlogged) {
            return schema.clone();
        }
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.len() >= MOST_TABLES {
            tables.clear();
        }
        let entry = tables.entry(Arc::as_ptr(schema).addr());
        entry.or_insert_with(|| (schema.clone(), Arc::new(narrowed(schema)))).1.clone()
    }

    /// A row without them.
    pub fn row(&self, schema: &TableSchema, row: Row, builder: &mut RowBuilder) -> Row {
        if !self.active || !schema.columns.iter().any(is_unlogged) {
            return row;
        }
        builder.clear();
        let mut values = row.iter();
        for column in &schema.columns {
            let Some(value) = values.next_encoded() else { break };
            if !is_unlogged(column) {
                builder.push_encoded(value);
            }
        }
        builder.finish()
    }

    /// An item without them.
    ///
    /// # Errors
    /// `DDL_UNSUPPORTED` for a statement that cannot be told without them.
    pub fn item(&self, item: CaptureItem) -> Result<CaptureItem> {
        if !self.active {
            return Ok(item);
        }
        let mut builder = RowBuilder::new();
        Ok(match item {
            CaptureItem::Changes { schema, origin, mut changes } => {
                for change in &mut changes {
                    change.before = change.before.take().map(|row| self.row(&schema, row, &mut builder));
                    change.after = change.after.take().map(|row| self.row(&schema, row, &mut builder));
                }
                CaptureItem::Changes { schema: self.schema(&schema), origin, changes }
            }
            CaptureItem::Chunk { schema, origin, rows } => {
                let rows = rows.into_iter().map(|row| self.row(&schema, row, &mut builder)).collect();
                CaptureItem::Chunk { schema: self.schema(&schema), origin, rows }
            }
            CaptureItem::Schema { origin, statement, changes, before, after } => {
                let changes = self
                    .changes(changes, before.as_ref(), after.as_ref())
                    .map_err(|e| e.note(format!("statement: {statement}")))?;
                let (before, after) = (before.map(|s| self.schema(&s)), after.map(|s| self.schema(&s)));
                CaptureItem::Schema { origin, statement, changes, before, after }
            }
            other => other,
        })
    }

    /// Changes that lead from the narrow shape before to the narrow shape after.
    fn changes(
        &self,
        changes: Vec<SchemaChange>,
        before: Option<&Arc<TableSchema>>,
        after: Option<&Arc<TableSchema>>,
    ) -> Result<Vec<SchemaChange>> {
        let mut shape = before.map(|s| TableSchema::clone(s));
        let mut out = Vec::new();
        for change in changes {
            if let SchemaChange::CreateTable { schema } = &change {
                shape = Some(TableSchema::clone(schema));
                out.push(SchemaChange::CreateTable { schema: self.schema(schema) });
                continue;
            }
            let Some(old) = shape.take() else {
                out.push(change);
                continue;
            };
            let new = change.apply_to(&old)?;
            out.extend(narrow_change(change, &old, &new)?);
            shape = Some(new);
        }
        if let (Some(before), Some(after)) = (before, after)
            && !out.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. }))
        {
            let mut shown = TableSchema::clone(&self.schema(before));
            for change in &out {
                shown = change.apply_to(&shown)?;
            }
            let wanted = self.schema(after);
            if shown.columns != wanted.columns || shown.key() != wanted.key() {
                return Err(unsupported(after, "it cannot be told without the generated columns"));
            }
        }
        Ok(out)
    }
}

fn narrowed(schema: &TableSchema) -> TableSchema {
    let kept: Vec<usize> = (0..schema.columns.len()).filter(|&i| !is_unlogged(&schema.columns[i])).collect();
    let at = |i: &usize| kept.iter().position(|k| k == i);
    // a key over one of them tells rows apart by what is not there
    let key = |columns: &[usize]| columns.iter().map(at).collect::<Option<Vec<usize>>>();
    TableSchema {
        columns: kept.iter().map(|&i| schema.columns[i].clone()).collect(),
        primary_key: key(&schema.primary_key).unwrap_or_default(),
        unique_keys: schema.unique_keys.iter().filter_map(|columns| key(columns)).collect(),
        id: schema.id.clone(),
        version: schema.version,
        charset: schema.charset.clone(),
        comment: schema.comment.clone(),
    }
}

/// What is left of a change of a table that was `old` and is `new`.
fn narrow_change(change: SchemaChange, old: &TableSchema, new: &TableSchema) -> Result<Option<SchemaChange>> {
    let unlogged = |schema: &TableSchema, name: &str| {
        schema.column_index(name).is_some_and(|i| is_unlogged(&schema.columns[i]))
    };
    // the column behind which it is seen to stand
    let place = |position: ColumnPosition, name: &str| match position {
        ColumnPosition::After(behind) if unlogged(new, &behind) => {
            let at = new.column_index(name).unwrap_or(0);
            match new.columns[..at].iter().rev().find(|c| !is_unlogged(c)) {
                Some(column) => ColumnPosition::After(column.name.clone()),
                None => ColumnPosition::First,
            }
        }
        other => other,
    };
    Ok(match change {
        SchemaChange::AddColumn { column, .. } if is_unlogged(&column) => None,
        SchemaChange::AddColumn { table, column, position } => {
            let position = place(position, &column.name);
            Some(SchemaChange::AddColumn { table, column, position })
        }
        SchemaChange::AlterColumnType { column, .. } if unlogged(old, &column) && unlogged(new, &column) => {
            None
        }
        SchemaChange::AlterColumnType { table, column, ty, position } => {
            let position = position.map(|p| place(p, &column));
            Some(SchemaChange::AlterColumnType { table, column, ty, position })
        }
        SchemaChange::DropColumn { column, .. }
        | SchemaChange::RenameColumn { column, .. }
        | SchemaChange::AlterNullability { column, .. }
        | SchemaChange::AlterColumnDefault { column, .. }
            if unlogged(old, &column) =>
        {
            None
        }
        SchemaChange::AlterColumnAttributes { table, column } => {
            match (unlogged(old, &column.name), is_unlogged(&column)) {
                (false, false) => Some(SchemaChange::AlterColumnAttributes { table, column }),
                (true, true) => None,
                _ => return Err(unsupported(new, "a column becomes a generated one, or stops being one")),
            }
        }
        SchemaChange::ChangeUniqueKeys { table, keys } => {
            let keys = keys.into_iter().filter(|key| !key.iter().any(|name| unlogged(new, name))).collect();
            Some(SchemaChange::ChangeUniqueKeys { table, keys })
        }
        SchemaChange::ChangePrimaryKey { ref columns, .. }
            if columns
                .iter()
                .any(|name| new.columns.iter().any(|c| same_name(&c.name, name) && is_unlogged(c))) =>
        {
            return Err(unsupported(new, "a generated column becomes a part of the key"));
        }
        other => Some(other),
    })
}

fn unsupported(schema: &TableSchema, why: &str) -> Error {
    Error::definite(
        codes::DDL_UNSUPPORTED,
        format!("statement on \"{}\" that cannot be followed: {why}", schema.id),
    )
    .note("the server leaves generated columns out of its log, so they are left out of the copy")
    .help("copy the table anew: stop, remove the state folder and the target's tables and progress, start again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl::{self, Context};
    use crate::structure::TableStructures;
    use cdc_core::{TableId, Value};

    const TABLE: &str = "CREATE TABLE t (g0 INT AS (b) VIRTUAL, a INT PRIMARY KEY, g1 INT AS (a + 1) STORED, b INT, \
                         g2 INT AS (a + 2), UNIQUE KEY (g1), UNIQUE KEY (b))";

    fn start() -> (TableStructures, Narrow) {
        let context = Context::mariadb(110809).in_database("d");
        let mut structures = TableStructures::new();
        structures.insert_definition(ddl::parse_definition(TABLE, &context, &structures).unwrap());
        (structures, Narrow { active: true, ..Narrow::default() })
    }

    #[test]
    fn tables_and_rows() {
        let (structures, narrow) = start();
        let whole = structures.get(&TableId::new("d", "t")).unwrap();
        let shown = narrow.schema(whole);
        let names: Vec<&str> = shown.columns.iter().map(|c| &*c.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((shown.key(), &*shown.unique_keys), (Some(&[0][..]), &[vec![1]][..]));
        assert!(Arc::ptr_eq(&shown, &narrow.schema(whole)));
        let row = Row::pack([Value::Absent, Value::Int(1), Value::Absent, Value::Null, Value::Int(3)]);
        assert_eq!(narrow.row(whole, row, &mut RowBuilder::new()), Row::pack([Value::Int(1), Value::Null]));
        assert_eq!(narrow.left_out(whole).len(), 3);
    }

    #[test]
    fn changes_lead_from_shown_to_shown() {
        for (sql, told) in [
            ("ALTER TABLE t ADD c INT AFTER g1", 1),
            ("ALTER TABLE t ADD c INT AFTER g0", 1),
            ("ALTER TABLE t ADD g3 INT AS (a) AFTER b, ADD c INT AFTER g3", 1),
            ("ALTER TABLE t DROP g2, DROP g0, RENAME COLUMN b TO bb", 1),
            ("ALTER TABLE t MODIFY b BIGINT AFTER g2", 1),
            ("ALTER TABLE t MODIFY g2 BIGINT AS (a + 3)", 0),
            ("ALTER TABLE t DROP KEY g1", 1),
            ("ALTER TABLE t DROP g2, ADD c INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (c)", 3),
        ] {
            let (mut structures, narrow) = start();
            let context = Context::mariadb(110809).in_database("d");
            let id = TableId::new("d", "t");
            let before = structures.get(&id).cloned();
            let ddl::Outcome::Changes { changes, .. } = ddl::parse(sql, &context, &structures) else {
                panic!("{sql}");
            };
            structures.apply(&changes).unwrap();
            let after = structures.get(&id).cloned();
            let mut out = narrow.changes(changes, before.as_ref(), after.as_ref()).unwrap();
            // for the values of a new generated column the table is copied again
            out.retain(|c| !matches!(c, SchemaChange::ResnapshotTable { .. }));
            assert!(out.len() <= told.max(1) && (told == 0) == out.is_empty(), "{sql}: {out:?}");
        }
    }
}
