//! Schema changes at the target, inside the open transaction.
//!
//! Each looks at the table first and does nothing where the change is there already, so a change that comes
//! again after a restart is no error; what is there in another way is an error that shows both.
//!
//! SQLite changes a column's type only by a new table: made beside the old one, filled row by row through
//! [`convert`](super::convert), put in its place, its indexes and triggers made again
//! (<https://www.sqlite.org/lang_altertable.html>, section 7). `legacy_alter_table` is on for that moment,
//! or the last rename would rewrite, or stumble over, views and triggers that name the table. Where a table
//! uses what the new statement would lose (CHECK, COLLATE, REFERENCES, generated columns, STRICT, ..), it
//! was not made by us and is left to its owner.

use super::convert::{convert, is_identity};
use super::default::{FromRef, as_literal, default_value};
use super::error::{Errors, message};
use super::look::{Found, FoundColumn, NewColumn, create, create_table};
use super::sql::{bare_words, quote, quote_all};
use super::types::{Form, Kind, column_type, declared, encode, show};
use super::write::clipped;
use crate::default::{as_source, cannot_tell, not_empty, other_values};
use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::schema::{Column, ColumnType};
use cdc_core::{Error, Result, Row, codes};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value as Stored;
use rusqlite::{Connection, OptionalExtension, params};

/// Where a change is made, and how its errors read.
pub(crate) struct Change<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) errors: Errors<'a>,
    /// `on_existing = evolve`.
    pub(crate) evolve: bool,
}

impl Change<'_> {
    /// Makes a change.
    pub(crate) fn apply(&self, change: &TargetSchemaChange) -> Result<()> {
        match change {
            TargetSchemaChange::CreateTable { table } => match self.look(&table.name)? {
                Some(found) => self.fit(&found, table),
                None => self.run(&create_table(&table.name, table)),
            },
            TargetSchemaChange::AddColumn { table, column, implicit, .. } => {
                self.add_column(table, column, *implicit)
            }
            TargetSchemaChange::RenameColumn { table, from, to } => self.rename_column(table, from, to),
            TargetSchemaChange::FillColumn { table, from, to, only, .. } => {
                self.fill_column(table, from, to, only)
            }
            TargetSchemaChange::ResetColumn { table, column, implicit, only } => {
                self.reset_column(table, column, *implicit, only)
            }
            TargetSchemaChange::DropColumn { table, column } => self.drop_column(table, column),
            TargetSchemaChange::AlterColumnType { table, column, ty, .. } => {
                self.alter_type(table, column, ty)
            }
            // SQLite has no comments, and a default is altered by nothing but a new table: what others' rows read is not
            // worth copying all rows. So a table is made without, and its columns keep the one that they were added with.
            TargetSchemaChange::AlterColumnDefault { .. } | TargetSchemaChange::AlterComment { .. } => Ok(()),
            TargetSchemaChange::ChangeKey { table } => self.change_key(table),
            // NOT NULL is only declared for keys: see the types module.
            TargetSchemaChange::AlterNullability { .. } => Ok(()),
            TargetSchemaChange::TruncateTable { table } => match self.exactly(table)? {
                Some(found) => self.run(&format!("DELETE FROM {}", quote(&found.name))),
                None => Ok(()),
            },
            TargetSchemaChange::RemoveRows { table, only, .. } => self.remove_rows(table, only),
            TargetSchemaChange::DropTable { table } => match self.exactly(table)? {
                Some(found) => self.run(&format!("DROP TABLE {}", quote(&found.name))),
                None => Ok(()),
            },
            TargetSchemaChange::RenameTable { from, to } => self.rename_table(from, to),
        }
    }

    /// Does a table that is there take the rows of this one, or is it made to by what loses nothing? Gives the changes that it takes.
    pub(crate) fn widening(&self, found: &Found, table: &TargetTable) -> Result<Vec<TargetSchemaChange>> {
        let Err(error) = found.check(table) else { return Ok(Vec::new()) };
        if !self.evolve {
            return Err(error);
        }
        let changes = found.widening(table)?;
        let rows = found.has_rows(self.db);
        let rows = rows.map_err(|e| {
            self.errors.of(codes::TARGET_DDL, &format!("looking at table \"{}\"", found.name), &e)
        })?;
        if rows { Err(not_empty(error)) } else { Ok(changes) }
    }

    /// Makes a table that is there take the rows of this one.
    pub(crate) fn fit(&self, found: &Found, table: &TargetTable) -> Result<()> {
        let changes = self.widening(found, table)?;
        changes.iter().try_for_each(|change| self.apply(change))
    }

    fn look(&self, table: &str) -> Result<Option<Found>> {
        Found::look(self.db, table)
            .map_err(|e| self.errors.of(codes::TARGET_DDL, &format!("looking at table \"{table}\""), &e))
    }

    /// The table of this very spelling: one that differs in letter case is another to the source.
    fn exactly(&self, table: &str) -> Result<Option<Found>> {
        Ok(self.look(table)?.filter(|f| f.name == table))
    }

    fn there(&self, table: &str) -> Result<Found> {
        self.exactly(table)?.ok_or_else(|| {
            Error::definite(codes::TARGET_DDL, format!("table \"{table}\" is not at the target"))
                .help("the table was dropped or renamed there by somebody else; put it back")
        })
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.db.execute_batch(sql).map_err(|e| self.refused(sql, &e))
    }

    fn refused(&self, sql: &str, e: &rusqlite::Error) -> Error {
        self.errors.of(codes::TARGET_DDL, &format!("statement: {}", clipped(sql)), e)
    }

    /// Deletes all rows, or those with these values.
    fn remove_rows(&self, table: &str, only: &[(Column, Row)]) -> Result<()> {
        let Some(found) = self.exactly(table)? else { return Ok(()) };
        let condition = self.where_only(&found, only)?;
        self.run(&format!("DELETE FROM {}{condition}", quote(&found.name)))
    }

    fn add_column(&self, table: &str, column: &Column, implicit: bool) -> Result<()> {
        let found = self.there(table)?;
        let wanted = declared(&column.ty);
        if let Some(there) = found.column(&column.name) {
            let same = there.declared.eq_ignore_ascii_case(&wanted)
                || (Kind::of(&there.declared) == Kind::Foreign && found.takes(there, &column.ty));
            if !same {
                return Err(differs(&found, there, &column.name, &wanted));
            }
            return self.check_values(&found, there, column, implicit);
        }
        let (name, here) = (quote(&column.name), quote(&found.name));
        let mut add = format!("ALTER TABLE {here} ADD COLUMN {name} {wanted}");
        let rows = found.has_rows(self.db).map_err(|e| self.refused(&add, &e))?;
        if !rows {
            return self.run(&add);
        }
        let value = default_value(&as_source(column, implicit))
            .map_err(|why| cannot_tell(table, column, why).note(format!("statement: {add}")))?;
        match as_literal(&value) {
            Some(_) if value == Stored::Null => self.run(&add),
            Some(literal) => {
                add.push_str(&format!(" DEFAULT {literal}"));
                self.run(&add)
            }
            None => {
                self.run(&add)?;
                let fill = format!("UPDATE {here} SET {name} = ?1");
                self.db.execute(&fill, params![value]).map(|_| ()).map_err(|e| self.refused(&fill, &e))
            }
        }
    }

    /// Do rows read in a column that is there what they would read if it were added now?
    fn check_values(
        &self,
        found: &Found,
        there: &FoundColumn,
        column: &Column,
        implicit: bool,
    ) -> Result<()> {
        let (name, here) = (quote(&there.name), quote(&found.name));
        let look = format!("SELECT quote({name}) FROM {here} WHERE {name} IS NOT ?1 LIMIT 1");
        if !found.has_rows(self.db).map_err(|e| self.refused(&look, &e))? {
            return Ok(());
        }
        let value = default_value(&as_source(column, implicit))
            .map_err(|why| cannot_tell(&found.name, column, why))?;
        let other = self.db.query_row(&look, params![value], |row| row.get::<_, String>(0)).optional();
        let Some(other) = other.map_err(|e| self.refused(&look, &e))? else { return Ok(()) };
        let reads = self
            .db
            .query_row("SELECT quote(?1)", params![value], |row| row.get::<_, String>(0))
            .map_err(|e| self.refused(&look, &e))?;
        Err(other_values(&found.name, column, &clipped(&other), &clipped(&reads), rename_away(found, there)))
    }

    fn rename_column(&self, table: &str, from: &str, to: &str) -> Result<()> {
        let found = self.there(table)?;
        let (old, new) = (found.column(from), found.column(to));
        match (old, new) {
            (_, Some(new)) if new.name == to && old.is_none_or(|o| o.name == new.name) => Ok(()),
            (Some(old), new) if new.is_none_or(|n| n.name == old.name) => self.run(&format!(
                "ALTER TABLE {} RENAME COLUMN {} TO {}",
                quote(&found.name),
                quote(&old.name),
                quote(to)
            )),
            (None, Some(_)) => Ok(()),
            (Some(old), Some(new)) => Err(differs(&found, new, to, &old.declared)),
            (None, None) => Err(no_column(&found, from)),
            (Some(_), None) => Ok(()),
        }
    }

    fn drop_column(&self, table: &str, column: &str) -> Result<()> {
        let found = self.there(table)?;
        match found.column(column) {
            None => Ok(()),
            Some(there) => {
                let sql = format!("ALTER TABLE {} DROP COLUMN {}", quote(&found.name), quote(&there.name));
                let help =
                    "an index, trigger, view, CHECK or key of the target names the column; drop that first";
                self.run(&sql).map_err(|e| if e.is_transient() { e } else { e.help(help) })
            }
        }
    }

    fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let old = self.exactly(from)?;
        let new = self.exactly(to)?;
        match (old, new) {
            (None, Some(_)) => Ok(()),
            (Some(old), Some(new)) => Err(Error::definite(
                codes::TARGET_SHAPE,
                format!("table \"{from}\" cannot be renamed: there is a \"{to}\" already"),
            )
            .note(format!("\"{from}\": {}", clipped(&old.sql)))
            .note(format!("\"{to}\": {}", clipped(&new.sql)))
            .help(format!("move one of them away: ALTER TABLE {} RENAME TO ..", quote(to)))),
            (None, None) => self.there(from).map(|_| ()),
            (Some(_), None) if from.eq_ignore_ascii_case(to) => {
                // SQLite takes the two for one name; so by way of a third.
                self.run(&format!("ALTER TABLE {} RENAME TO {}", quote(from), quote(REBUILT)))?;
                self.run(&format!("ALTER TABLE {} RENAME TO {}", quote(REBUILT), quote(to)))
            }
            (Some(_), None) => self.run(&format!("ALTER TABLE {} RENAME TO {}", quote(from), quote(to))),
        }
    }

    fn alter_type(&self, table: &str, column: &str, ty: &ColumnType) -> Result<()> {
        let found = self.there(table)?;
        let Some(there) = found.column(column) else { return Err(no_column(&found, column)) };
        let wanted = declared(ty);
        // A foreign type that keeps the values as they are has room for them too: SQLite checks no lengths.
        let as_is = Kind::of(&there.declared) == Kind::Foreign && found.takes(there, ty) && !found.strict;
        if there.declared.eq_ignore_ascii_case(&wanted) || as_is {
            return Ok(());
        }
        self.rebuild(&found, there, ty)
    }

    /// Makes the table anew with another type of one column.
    fn rebuild(&self, found: &Found, column: &FoundColumn, ty: &ColumnType) -> Result<()> {
        let doing = format!("the type of column \"{}\" cannot be changed here", column.name);
        check_ours(found, doing, format!("from {} to {}", column.declared, declared(ty)))?;
        let columns: Vec<NewColumn> = found
            .columns
            .iter()
            .map(|c| NewColumn {
                name: c.name.clone(),
                declared: if c.name == column.name { declared(ty) } else { c.declared.clone() },
                not_null: c.not_null || c.key_place > 0,
                // The changed column's rows are whole by now, and its default has the old form.
                default: c.default.clone().filter(|_| c.name != column.name),
            })
            .collect();
        let primary: Vec<usize> = found
            .primary_key()
            .iter()
            .filter_map(|k| found.columns.iter().position(|c| c.name == k.name))
            .collect();
        let from = Kind::of(&column.declared);
        self.replace(found, &columns, &primary, || {
            if is_identity(from, ty) {
                self.copy(found, &columns)
            } else {
                self.fill(found, column, from, ty, &columns, &primary)
            }
        })
    }

    /// Makes the table anew with another key.
    fn change_key(&self, table: &TargetTable) -> Result<()> {
        let found = self.there(&table.name)?;
        let mut primary = Vec::with_capacity(table.key.len());
        for &i in &table.key {
            let name = &table.schema.columns[i].name;
            let place = found.columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
            primary.push(place.ok_or_else(|| no_column(&found, name))?);
        }
        let now: Vec<&str> = found.primary_key().iter().map(|c| &*c.name).collect();
        let wanted: Vec<&str> = primary.iter().map(|&i| &*found.columns[i].name).collect();
        if now == wanted {
            return Ok(());
        }
        let shown = |key: &[&str]| if key.is_empty() { "none".to_owned() } else { key.join(", ") };
        let from_to = format!("from {} to {}", shown(&now), shown(&wanted));
        check_ours(&found, "its key cannot be changed here".to_owned(), from_to)?;
        let columns: Vec<NewColumn> = found
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| NewColumn {
                name: c.name.clone(),
                declared: c.declared.clone(),
                // of a key until now: a row without it may come from here on
                not_null: primary.contains(&i) || (c.not_null && c.key_place == 0),
                default: c.default.clone(),
            })
            .collect();
        self.replace(&found, &columns, &primary, || self.copy(&found, &columns))
    }

    /// The statements of the table's indexes and triggers.
    fn dependents(&self, found: &Found) -> Result<Vec<String>> {
        let sql = "SELECT sql FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL \
                   AND tbl_name = ?1 COLLATE NOCASE ORDER BY rowid";
        let read = || -> rusqlite::Result<Vec<String>> {
            self.db.prepare(sql)?.query_map([&found.name], |r| r.get(0))?.collect()
        };
        read().map_err(|e| self.refused(sql, &e))
    }

    /// Puts a table with these columns and this key in the place of the one that is there; `fill` fills it.
    fn replace(
        &self,
        found: &Found,
        columns: &[NewColumn],
        primary: &[usize],
        fill: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let here = quote(&found.name);
        let also = self.dependents(found)?;
        self.run("PRAGMA legacy_alter_table = ON")?;
        let replace = || {
            self.run(&format!("DROP TABLE IF EXISTS {}", quote(REBUILT)))?;
            self.run(&create(REBUILT, columns, primary, found.without_rowid && !primary.is_empty()))?;
            fill()?;
            self.run(&format!("DROP TABLE {here}"))?;
            self.run(&format!("ALTER TABLE {} RENAME TO {here}", quote(REBUILT)))?;
            also.iter().try_for_each(|sql| self.run(sql))
        };
        let result = replace();
        self.run("PRAGMA legacy_alter_table = OFF")?;
        result
    }

    /// Fills the new table with the rows as they are.
    fn copy(&self, found: &Found, columns: &[NewColumn]) -> Result<()> {
        let names = quote_all(columns.iter().map(|c| &*c.name));
        self.run(&format!(
            "INSERT INTO {} ({names}) SELECT {names} FROM {}",
            quote(REBUILT),
            quote(&found.name)
        ))
    }

    /// Fills the new table, the column converted.
    fn fill(
        &self,
        found: &Found,
        column: &FoundColumn,
        from: Kind,
        ty: &ColumnType,
        columns: &[NewColumn],
        primary: &[usize],
    ) -> Result<()> {
        let key = primary.iter().filter_map(|i| columns.get(*i)).map(|c| &*c.name);
        let call = conversion(&column.name, key);
        let values: Vec<String> = columns
            .iter()
            .map(|c| if c.name == column.name { call.clone() } else { quote(&c.name) })
            .collect();
        let sql = format!(
            "INSERT INTO {} ({}) SELECT {} FROM {}",
            quote(REBUILT),
            quote_all(columns.iter().map(|c| &*c.name)),
            values.join(", "),
            quote(&found.name)
        );
        self.converting(found, column, from, ty, &sql)
    }

    /// What tells the rows of a source table, behind a statement; nothing where all rows are its.
    fn where_only(&self, found: &Found, only: &[(Column, Row)]) -> Result<String> {
        let mut scratch = Vec::new();
        let mut conditions = Vec::with_capacity(only.len());
        for (column, value) in only {
            let there = found.column(&column.name).ok_or_else(|| no_column(found, &column.name))?;
            let value = value.get(0);
            let Some(stored) = encode(&value, Form::of(&column.ty), &mut scratch) else {
                return Err(Error::definite(
                    codes::TARGET_VALUE,
                    format!("table \"{}\", column \"{}\": {value} cannot be there", found.name, column.name),
                ));
            };
            let literal = match Stored::from_ref(stored) {
                Stored::Null => "NULL".to_owned(),
                Stored::Integer(v) => v.to_string(),
                Stored::Real(v) => format!("{v:?}"),
                Stored::Text(v) => format!("'{}'", v.replace('\'', "''")),
                Stored::Blob(v) => {
                    let hex: String = v.iter().map(|b| format!("{b:02X}")).collect();
                    format!("X'{hex}'")
                }
            };
            // texts are equal by their bytes, whatever collation the column has
            conditions.push(format!("{} IS {literal} COLLATE BINARY", quote(&there.name)));
        }
        Ok(if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) })
    }

    /// Rows read what a new column would read.
    fn reset_column(
        &self,
        table: &str,
        column: &Column,
        implicit: bool,
        only: &[(Column, Row)],
    ) -> Result<()> {
        let found = self.there(table)?;
        let Some(there) = found.column(&column.name) else { return Err(no_column(&found, &column.name)) };
        let value =
            default_value(&as_source(column, implicit)).map_err(|why| cannot_tell(table, column, why))?;
        let condition = self.where_only(&found, only)?;
        let sql = format!("UPDATE {} SET {} = ?1{condition}", quote(&found.name), quote(&there.name));
        self.db.execute(&sql, params![value]).map(|_| ()).map_err(|e| self.refused(&sql, &e))
    }

    /// Gives one column the values of another.
    fn fill_column(&self, table: &str, from: &str, to: &str, only: &[(Column, Row)]) -> Result<()> {
        let found = self.there(table)?;
        let Some(source) = found.column(from) else { return Err(no_column(&found, from)) };
        let Some(target) = found.column(to) else { return Err(no_column(&found, to)) };
        if source.name == target.name {
            return Ok(());
        }
        let (here, to) = (quote(&found.name), quote(&target.name));
        let condition = self.where_only(&found, only)?;
        let kind = Kind::of(&source.declared);
        match column_type(&target.declared).filter(|ty| !is_identity(kind, ty)) {
            None => self.run(&format!("UPDATE {here} SET {to} = {}{condition}", quote(&source.name))),
            Some(ty) => {
                let key = found.primary_key();
                let call = conversion(&source.name, key.iter().map(|c| &*c.name));
                let sql = format!("UPDATE {here} SET {to} = {call}{condition}");
                self.converting(&found, source, kind, &ty, &sql)
            }
        }
    }

    /// Runs a statement in which a function converts a column's values to another type; the function's other
    /// arguments are the key, to be shown where a value does not convert.
    fn converting(
        &self,
        found: &Found,
        column: &FoundColumn,
        from: Kind,
        ty: &ColumnType,
        sql: &str,
    ) -> Result<()> {
        let target = ty.clone();
        let make = move |c: &rusqlite::functions::Context<'_>| {
            let value = c.get_raw(0);
            convert(value, from, &target).map_err(|why| {
                let key: Vec<String> = (1..c.len()).map(|i| show(c.get_raw(i))).collect();
                let text = format!("key ({}), value {}: {why}", key.join(", "), show(value));
                rusqlite::Error::UserFunctionError(text.into())
            })
        };
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        let known = self.db.create_scalar_function(CONVERT, -1, flags, make);
        known.map_err(|e| self.refused(CONVERT, &e))?;
        let result = self.db.execute_batch(sql);
        drop(self.db.remove_function(CONVERT, -1));
        result.map_err(|e| match e.sqlite_error_code() {
            Some(rusqlite::ErrorCode::Unknown) | None => Error::definite(
                codes::TARGET_DDL,
                format!(
                    "table \"{}\": a value of column \"{}\" cannot be converted from {} to {}",
                    found.name,
                    column.name,
                    column.declared,
                    declared(ty)
                ),
            )
            .note(message(&e))
            .help("copy the table anew, or exclude alter_column_type from the flow's schema changes"),
            _ => self.refused(sql, &e),
        })
    }
}

/// Is it a table that can be made anew without losing what its owner has added?
fn check_ours(found: &Found, doing: String, from_to: String) -> Result<()> {
    const LOST: [&str; 9] = [
        "CHECK",
        "COLLATE",
        "REFERENCES",
        "GENERATED",
        "AS",
        "AUTOINCREMENT",
        "STRICT",
        "UNIQUE",
        "CONFLICT",
    ];
    let words = bare_words(&found.sql);
    let Some(word) = LOST.iter().find(|w| words.iter().any(|x| x == *w)) else { return Ok(()) };
    Err(Error::definite(codes::TARGET_DDL, format!("table \"{}\": {doing}", found.name))
        .note(format!("the table was not made by cdc and uses {word}: {}", clipped(&found.sql)))
        .note(from_to)
        .help("make the change yourself by the steps of https://www.sqlite.org/lang_altertable.html, section 7, and start again"))
}

/// The call that converts a column.
fn conversion<'a>(column: &'a str, key: impl Iterator<Item = &'a str>) -> String {
    format!("{CONVERT}({})", quote_all([column].into_iter().chain(key)))
}

/// The name of a table while it is made anew, and while its name changes its letter case.
pub(crate) const REBUILT: &str = "_cdc_rebuilt";
const CONVERT: &str = "_cdc_convert";

fn differs(found: &Found, there: &FoundColumn, name: &str, wanted: &str) -> Error {
    Error::definite(
        codes::TARGET_SHAPE,
        format!("table \"{}\" at the target has another column \"{name}\"", found.name),
    )
    .note(format!("wanted: {} {wanted}", quote(name)))
    .note(format!("found:  {} {}", quote(&there.name), there.declared))
    .help(rename_away(found, there))
}

fn rename_away(found: &Found, there: &FoundColumn) -> String {
    format!(
        "ALTER TABLE {} RENAME COLUMN {} TO {};",
        quote(&found.name),
        quote(&there.name),
        quote(&format!("{}_before", there.name))
    )
}

fn no_column(found: &Found, column: &str) -> Error {
    Error::definite(
        codes::TARGET_DDL,
        format!("table \"{}\" at the target has no column \"{column}\"", found.name),
    )
    .note(format!("found: {}", clipped(&found.sql)))
    .help("the column was dropped or renamed there by somebody else; put it back")
}
