//! Schema changes at the target: what is to be done, found out by looking first.
//!
//! Each change looks at the table and does nothing where the target already shows it, so that one that comes
//! again after a crash is no error; what is there in another way is an error that shows both. A change is at
//! most one statement, so it is made or not made, never half. How that and a tick's rows hold together, although a
//! definition commits by itself: see `mysql.rs`.
//!
//! A comment of a column can only be changed with all of its definition, so that is read as the target prints it and written
//! back with the other comment.
//!
//! Stored values are converted by the target's own MODIFY, in a strict session: it is a server of the same
//! family, and what would lose something is an error. Where the two would not agree all the same (a TIMESTAMP
//! made a DATETIME in the session's time zone; bytes that mean another text in another character set), a
//! table with rows is refused.

use super::conn::{Errors, Link};
use super::default::{carried, clauses, comment_clause, default_literal, held_comment, needs_parentheses};
use super::look::{Found, FoundColumn, ROW_NUMBER, column_sql, create_table, row_number_sql};
use super::sql::{clipped, quote, quote_all, text};
use super::types::{Declared, Dialect, Pushed, Slot, declared, hides_labels, layout, normal, takes};
use crate::default::{Literal, as_source, cannot_tell, literal, not_empty, other_values};
use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::schema::{Column, ColumnType};
use cdc_core::{Error, Result, Row, Value, codes};

/// Rows of a table up to which it is emptied by DELETE, together with its tick. Beyond that the undo log of a
/// DELETE costs more than a moment in which readers see the table empty and the tick not yet there.
const FEW_ROWS: usize = 10_000;

/// What a change takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The target shows it already.
    Nothing,
    /// A statement that is part of the open transaction.
    Rows(Vec<u8>),
    /// A statement that commits by itself; the other one where a row would be too wide.
    Definition {
        /// The statement.
        sql: String,
        /// The same, with a type that takes less of a row.
        narrow: Option<String>,
        /// A second one behind it, and the same where that is one of a text. If it is not made because of a crash, the next
        /// look finds that.
        then: Option<(String, String)>,
    },
}

impl Step {
    fn definition(sql: String) -> Step {
        Step::Definition { sql, narrow: None, then: None }
    }
}

/// Looks what a change takes.
pub(crate) struct Change<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) errors: Errors<'a>,
    /// `on_existing = evolve`.
    pub(crate) evolve: bool,
    /// A run before a crash may have made this very change.
    pub(crate) in_doubt: bool,
}

impl Change<'_> {
    pub(crate) fn plan(&mut self, change: &TargetSchemaChange) -> Result<Step> {
        match change {
            TargetSchemaChange::CreateTable { table } => match self.look(&table.name)? {
                Some(found) => Ok(self.widening(&found, table)?.map_or(Step::Nothing, Step::definition)),
                None => create_table(table, &self.link.dialect).map(Step::definition),
            },
            TargetSchemaChange::AddColumn { table, column, implicit, keeps_default } => {
                self.add_column(table, column, *implicit, *keeps_default)
            }
            TargetSchemaChange::RenameColumn { table, from, to } => self.rename_column(table, from, to),
            TargetSchemaChange::FillColumn { table, from, to, only, .. } => {
                self.fill_column(table, from, to, only)
            }
            TargetSchemaChange::ResetColumn { table, column, implicit, only } => {
                self.reset_column(table, column, *implicit, only)
            }
            TargetSchemaChange::DropColumn { table, column } => {
                let found = self.there(table)?;
                Ok(match found.column(column) {
                    None => Step::Nothing,
                    Some(there) => Step::definition(format!(
                        "ALTER TABLE {} DROP COLUMN {}",
                        quote(table),
                        quote(&there.name)
                    )),
                })
            }
            TargetSchemaChange::AlterColumnType { table, column, ty, .. } => {
                self.alter_type(table, column, ty)
            }
            TargetSchemaChange::AlterColumnDefault { table, column } => self.alter_default(table, column),
            TargetSchemaChange::AlterComment { table, column: None, comment } => {
                let found = self.there(table)?;
                let comment = &held_comment(comment);
                if found.comment == *comment {
                    return Ok(Step::Nothing);
                }
                Ok(Step::definition(format!("ALTER TABLE {} COMMENT = {}", quote(table), text(comment))))
            }
            TargetSchemaChange::AlterComment { table, column: Some(column), comment } => {
                self.alter_comment(table, column, comment)
            }
            TargetSchemaChange::ChangeKey { table } => self.change_key(table),
            // NOT NULL is only declared for keys: see the types module
            TargetSchemaChange::AlterNullability { .. } => Ok(Step::Nothing),
            TargetSchemaChange::TruncateTable { table } => self.empty(table),
            TargetSchemaChange::RemoveRows { table, only, .. } if only.is_empty() => self.empty(table),
            TargetSchemaChange::RemoveRows { table, only, .. } => self.remove_rows(table, only),
            TargetSchemaChange::DropTable { table } => Ok(match self.exactly(table)? {
                Some(_) => Step::definition(format!("DROP TABLE {}", quote(table))),
                None => Step::Nothing,
            }),
            TargetSchemaChange::RenameTable { from, to } => self.rename_table(from, to),
        }
    }

    /// Does a table that is there take the rows of this one, or is it made to by what loses nothing? Gives the statement that it takes.
    pub(crate) fn widening(&mut self, found: &Found, table: &TargetTable) -> Result<Option<String>> {
        let Err(error) = found.check(table, &self.link.dialect) else { return Ok(None) };
        if !self.evolve {
            return Err(error);
        }
        let statement = found.widening(table, &self.link.dialect)?;
        if self.has_rows(found)? { Err(not_empty(error)) } else { Ok(statement) }
    }

    fn failed(&self, table: &str, e: &mysql_async::Error) -> Error {
        self.errors.of(codes::TARGET_DDL, &format!("looking at table \"{table}\""), e)
    }

    fn look(&mut self, table: &str) -> Result<Option<Found>> {
        Found::look(self.link, table).map_err(|e| self.failed(table, &e))
    }

    /// The table of this very spelling: one that differs in letter case is another to the source.
    fn exactly(&mut self, table: &str) -> Result<Option<Found>> {
        Ok(self.look(table)?.filter(|f| f.name == table))
    }

    fn there(&mut self, table: &str) -> Result<Found> {
        self.exactly(table)?.ok_or_else(|| {
            Error::definite(codes::TARGET_DDL, format!("table \"{table}\" is not at the target"))
                .help("the table was dropped or renamed there by somebody else; put it back")
        })
    }

    fn has_rows(&mut self, found: &Found) -> Result<bool> {
        found.has_rows(self.link).map_err(|e| self.failed(&found.name, &e))
    }

    fn empty(&mut self, table: &str) -> Result<Step> {
        if self.exactly(table)?.is_none() {
            return Ok(Step::Nothing);
        }
        let here = quote(table);
        let probe = format!("SELECT 1 FROM {here} LIMIT {}", FEW_ROWS + 1);
        let rows = self.link.rows(probe).map_err(|e| self.failed(table, &e))?.len();
        Ok(match rows {
            0 => Step::Nothing,
            n if n <= FEW_ROWS => Step::Rows(format!("DELETE FROM {here}").into_bytes()),
            _ => Step::definition(format!("TRUNCATE TABLE {here}")),
        })
    }

    fn remove_rows(&mut self, table: &str, only: &[(Column, Row)]) -> Result<Step> {
        let Some(found) = self.exactly(table)? else { return Ok(Step::Nothing) };
        let mut sql = format!("DELETE FROM {}", quote(table)).into_bytes();
        self.push_only(&found, only, &mut sql)?;
        Ok(Step::Rows(sql))
    }

    /// What tells the rows of a source table, behind a statement; nothing where all rows are its.
    fn push_only(&self, found: &Found, only: &[(Column, Row)], sql: &mut Vec<u8>) -> Result<()> {
        for (i, (column, value)) in only.iter().enumerate() {
            let there = found.column(&column.name).ok_or_else(|| no_column(found, &column.name))?;
            sql.extend_from_slice(if i > 0 { b" AND " } else { b" WHERE " });
            // texts are equal by their bytes, whatever collation the column has
            let name = match value.get(0) {
                Value::Text(_) => {
                    format!("CONVERT({} USING utf8mb4) COLLATE utf8mb4_bin", quote(&there.name))
                }
                _ => quote(&there.name),
            };
            sql.extend_from_slice(format!("{name} <=> ").as_bytes());
            if Slot::new(&column.ty, &there.ty, &self.link.dialect).push(sql, &value.get(0))
                == Pushed::NoPlace
            {
                return Err(Error::definite(
                    codes::TARGET_VALUE,
                    format!(
                        "table \"{}\", column \"{}\": {} cannot be there",
                        found.name,
                        column.name,
                        value.get(0)
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Rows read what a new column would read.
    fn reset_column(
        &mut self,
        table: &str,
        column: &Column,
        implicit: bool,
        only: &[(Column, Row)],
    ) -> Result<Step> {
        let found = self.there(table)?;
        let there = found.column(&column.name).ok_or_else(|| no_column(&found, &column.name))?;
        let literal = default_literal(&as_source(column, implicit), &self.link.dialect)
            .map_err(|why| cannot_tell(table, column, why))?;
        let value = literal.as_deref().unwrap_or("NULL");
        let mut sql = format!("UPDATE {} SET {} = {value}", quote(table), quote(&there.name)).into_bytes();
        self.push_only(&found, only, &mut sql)?;
        Ok(Step::Rows(sql))
    }

    /// What others' rows read in a column.
    fn alter_default(&mut self, table: &str, column: &Column) -> Result<Step> {
        let found = self.there(table)?;
        let there = found.column(&column.name).ok_or_else(|| no_column(&found, &column.name))?;
        Ok(set_default(&found, there, column, &self.link.dialect).map_or(Step::Nothing, Step::definition))
    }

    fn alter_comment(&mut self, table: &str, column: &str, comment: &str) -> Result<Step> {
        let found = self.there(table)?;
        let there = found.column(column).ok_or_else(|| no_column(&found, column))?;
        let comment = &*held_comment(comment);
        if there.comment == comment {
            return Ok(Step::Nothing);
        }
        let shown = self
            .link
            .rows(format!("SHOW CREATE TABLE {}", quote(table)))
            .map_err(|e| self.failed(table, &e))?;
        let shown = shown.into_iter().next().and_then(|row| row.into_iter().nth(1).flatten());
        let shown = &readable(&shown.unwrap_or_default());
        let definition = definition(shown, &there.name, comment).ok_or_else(|| {
            Error::definite(
                codes::TARGET_DDL,
                format!("table \"{table}\": the definition of column \"{column}\" is not understood"),
            )
            .note(format!("there: {}", clipped(shown)))
            .help("exclude alter_comment from the flow's schema changes")
        })?;
        Ok(Step::definition(format!("ALTER TABLE {} MODIFY COLUMN {definition}", quote(table))))
    }

    fn add_column(
        &mut self,
        table: &str,
        column: &Column,
        implicit: bool,
        keeps_default: bool,
    ) -> Result<Step> {
        let found = self.there(table)?;
        let dialect = self.link.dialect.clone();
        let wanted = declared(&column.ty, &dialect, false);
        let kept = Column { default: column.default.clone().filter(|_| keeps_default), ..column.clone() };
        if let Some(there) = found.column(&column.name) {
            let same = normal(&there.ty) == normal(&wanted.ty)
                || takes(&there.ty, there.charset.as_deref(), &column.ty, &dialect);
            if !same {
                return Err(differs(&found, there, &wanted.sql()));
            }
            self.check_values(&found, there, column, implicit)?;
            // A default that it was only to be added with, left by a crash; or what somebody else has made it with. The comment first: it is
            // written with all of the definition that is there now.
            let default = set_default(&found, there, &kept, &dialect);
            return Ok(match (self.alter_comment(table, &column.name, &column.comment)?, default) {
                (Step::Definition { sql, narrow, .. }, Some(default)) => {
                    Step::Definition { sql, narrow, then: Some((default.clone(), default)) }
                }
                (Step::Nothing, Some(default)) => Step::definition(default),
                (comment, _) => comment,
            });
        }
        let (name, here) = (quote(&column.name), quote(table));
        let clause = |literal: String, ty: &str| {
            // in parentheses a default is an expression, which any type takes
            if needs_parentheses(ty, &dialect) && !literal.starts_with('(') {
                format!(" DEFAULT ({literal})")
            } else {
                format!(" DEFAULT {literal}")
            }
        };
        let mut literal = carried(&kept, &wanted.ty, &dialect).ok().flatten();
        let stays = literal.is_some();
        if self.has_rows(&found)? {
            literal = default_literal(&as_source(column, implicit), &dialect).map_err(|why| {
                cannot_tell(table, column, why)
                    .note(format!("statement: ALTER TABLE {here} ADD COLUMN {name} {}", wanted.sql()))
            })?;
        }
        let comment = comment_clause(&column.comment);
        let add = |d: &Declared| {
            let default = literal.clone().map_or_else(String::new, |literal| clause(literal, &d.ty));
            format!("ALTER TABLE {here} ADD COLUMN {name} {} NULL{default}{comment}", d.sql())
        };
        // only for the rows that are there
        let none = |d: &Declared| {
            if needs_parentheses(&d.ty, &dialect) {
                format!("ALTER TABLE {here} MODIFY COLUMN {name} {} NULL{comment}", d.sql())
            } else {
                format!("ALTER TABLE {here} ALTER COLUMN {name} SET DEFAULT NULL")
            }
        };
        let narrow = narrower(&wanted);
        let then =
            (literal.is_some() && !stays).then(|| (none(&wanted), none(narrow.as_ref().unwrap_or(&wanted))));
        Ok(Step::Definition { sql: add(&wanted), narrow: narrow.map(|d| add(&d)), then })
    }

    /// Do rows read in a column that is there what they would read if it were added now? A run before a crash may have made it, or somebody
    /// else, before or behind the crash.
    fn check_values(
        &mut self,
        found: &Found,
        there: &FoundColumn,
        column: &Column,
        implicit: bool,
    ) -> Result<()> {
        if !self.has_rows(found)? {
            return Ok(());
        }
        let dialect = self.link.dialect.clone();
        let source = as_source(column, implicit);
        let literal =
            default_literal(&source, &dialect).map_err(|why| cannot_tell(&found.name, column, why))?;
        let value = literal.as_deref().unwrap_or("NULL");
        let name = quote(&there.name);
        let text = |what: &str| format!("CONVERT({what} USING utf8mb4) COLLATE utf8mb4_bin");
        let same = if there.charset.is_some() {
            format!("{} <=> {}", text(&name), text(value))
        } else {
            // (a FLOAT is none of the numbers that are written as it is; a JSON is no text)
            format!("({name} <=> {value} OR CONCAT({name}) <=> CONCAT({value}))")
        };
        let look = format!(
            "SELECT IFNULL(CONCAT({name}), 'NULL'), IFNULL(CONCAT({value}), 'NULL') FROM {} WHERE NOT ({same}) LIMIT 1",
            quote(&found.name)
        );
        let row = self.link.texts(look).map_err(|e| self.failed(&found.name, &e))?.into_iter().next();
        match row.as_deref() {
            // where the server has made another spelling of it, the one that a run before a crash has made cannot be told
            Some([other, reads]) if !self.in_doubt || is_spelled_as_stored(&source) => {
                let rename = rename_away(found, there);
                Err(other_values(&found.name, column, &clipped(other), &clipped(reads), rename))
            }
            _ => Ok(()),
        }
    }

    fn rename_column(&mut self, table: &str, from: &str, to: &str) -> Result<Step> {
        let found = self.there(table)?;
        let rename = |old: &FoundColumn| {
            Step::definition(format!(
                "ALTER TABLE {} RENAME COLUMN {} TO {}",
                quote(table),
                quote(&old.name),
                quote(to)
            ))
        };
        match (found.column(from), found.column(to)) {
            (old, Some(new)) if new.name == to && old.is_none_or(|o| o.name == new.name) => Ok(Step::Nothing),
            (Some(old), new) if new.is_none_or(|n| n.name == old.name) => Ok(rename(old)),
            (None, Some(_)) => Ok(Step::Nothing),
            (Some(old), Some(new)) => Err(differs(&found, new, &old.ty)),
            (None, None) => Err(no_column(&found, from)),
            (Some(old), None) => Ok(rename(old)),
        }
    }

    fn fill_column(&mut self, table: &str, from: &str, to: &str, only: &[(Column, Row)]) -> Result<Step> {
        let found = self.there(table)?;
        let from = found.column(from).ok_or_else(|| no_column(&found, from))?;
        let to = found.column(to).ok_or_else(|| no_column(&found, to))?;
        let mut sql =
            format!("UPDATE {} SET {} = {}", quote(table), quote(&to.name), quote(&from.name)).into_bytes();
        self.push_only(&found, only, &mut sql)?;
        Ok(Step::Rows(sql))
    }

    fn alter_type(&mut self, table: &str, column: &str, ty: &ColumnType) -> Result<Step> {
        let found = self.there(table)?;
        let there = found.column(column).ok_or_else(|| no_column(&found, column))?.clone();
        let dialect = self.link.dialect.clone();
        let in_key = found.primary_key().contains(&&*there.name);
        let wanted = declared(ty, &dialect, in_key);
        let charset = there.charset.as_deref();
        // where labels are not printed, whether it was made cannot be seen: it is made once more, which changes nothing then
        if normal(&there.ty) == normal(&wanted.ty)
            && ty.charset().is_none_or(|_| charset == Some("utf8mb4"))
            && !hides_labels(ty)
        {
            return Ok(Step::Nothing);
        }
        if self.has_rows(&found)? {
            self.convertible(&found, &there, ty, &wanted)?;
        }
        let (here, name) = (quote(table), quote(&there.name));
        let null = if there.not_null { "NOT NULL" } else { "NULL" };
        // its default is set anew by the change behind this one
        let comment = comment_clause(&there.comment);
        let modify =
            |d: &Declared| format!("ALTER TABLE {here} MODIFY COLUMN {name} {} {null}{comment}", d.sql());
        let narrow = narrower(&wanted).filter(|_| !in_key).map(|d| modify(&d));
        Ok(Step::Definition { sql: modify(&wanted), narrow, then: None })
    }

    /// Does the target arrive at the values that the source has arrived at?
    fn convertible(
        &mut self,
        found: &Found,
        there: &FoundColumn,
        ty: &ColumnType,
        wanted: &Declared,
    ) -> Result<()> {
        let from = normal(&there.ty);
        let from = from.split(['(', ' ']).next().unwrap_or_default();
        let to = wanted.ty.split(['(', ' ']).next().unwrap_or_default();
        let refuse = |why: &str| {
            Err(Error::definite(
                codes::TARGET_DDL,
                format!(
                    "table \"{}\": rows that are there cannot become {ty} in column \"{}\"",
                    found.name, there.name
                ),
            )
            .note(format!("it is {} there", there.ty))
            .note(why.to_owned())
            .help("copy the table anew, or exclude alter_column_type from the flow's schema changes"))
        };
        if (from == "timestamp") != (to == "timestamp")
            && ["timestamp", "datetime", "date", "time"].contains(&from)
        {
            return refuse("it depends on the time zone of the session that changed the column");
        }
        let is_text = |w: &str| w.ends_with("char") || w.ends_with("text") || w == "enum" || w == "set";
        let is_bytes = |w: &str| w.ends_with("binary") || w.ends_with("blob");
        let is_address = matches!(ty, ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6);
        if is_bytes(to) && (["uuid", "inet4", "inet6", "bit", "json", "vector"].contains(&from))
            || is_address && is_bytes(from)
        {
            return refuse("the bytes that the source stores are not known here");
        }
        if is_text(from) && is_bytes(to) || is_bytes(from) && is_text(to) {
            let column = quote(&there.name);
            let odd = self
                .link
                .rows(format!(
                    "SELECT 1 FROM {} WHERE HEX({column}) REGEXP '^(..)*[89A-F]' LIMIT 1",
                    quote(&found.name)
                ))
                .map_err(|e| self.failed(&found.name, &e))?;
            if !odd.is_empty() {
                return refuse("bytes beyond ASCII mean what the source's character set says");
            }
        }
        Ok(())
    }

    fn change_key(&mut self, table: &TargetTable) -> Result<Step> {
        let found = self.there(&table.name)?;
        let dialect = self.link.dialect.clone();
        let all = layout(table, &dialect)?;
        let mut wanted = Vec::with_capacity(table.key.len());
        for &i in &table.key {
            let name = &table.schema.columns[i].name;
            let there = found.column(name).ok_or_else(|| no_column(&found, name))?;
            wanted.push((there, &all[i], &table.schema.columns[i]));
        }
        let now = found.primary_key();
        let names: Vec<&str> = wanted.iter().map(|(c, _, _)| &*c.name).collect();
        if now == names && (!names.is_empty() || !found.has_primary_key() || found.has_row_number()) {
            return Ok(Step::Nothing);
        }
        let mut parts = Vec::new();
        if found.has_primary_key() {
            parts.push("DROP PRIMARY KEY".to_owned());
        }
        if found.column(ROW_NUMBER).is_some() {
            parts.push(format!("DROP COLUMN {}", quote(ROW_NUMBER)));
        }
        // of a key until now: a row without it may come from here on
        for name in now.iter().filter(|n| !names.contains(n)) {
            let Some(i) = table.schema.column_index(name) else { continue };
            let rest = clauses(&table.schema.columns[i], &all[i], &dialect);
            parts.push(format!("MODIFY COLUMN {}{rest}", column_sql(name, &all[i], false)));
        }
        for (there, declared, column) in &wanted {
            let rest = clauses(column, declared, &dialect);
            parts.push(format!("MODIFY COLUMN {}{rest}", column_sql(&there.name, declared, true)));
        }
        if names.is_empty() {
            parts.push(format!("ADD COLUMN {} FIRST", row_number_sql()));
        } else {
            parts.push(format!("ADD PRIMARY KEY ({})", quote_all(names.iter().copied())));
        }
        Ok(Step::definition(format!("ALTER TABLE {} {}", quote(&table.name), parts.join(", "))))
    }

    fn rename_table(&mut self, from: &str, to: &str) -> Result<Step> {
        if from == to {
            return Ok(Step::Nothing);
        }
        match (self.exactly(from)?, self.exactly(to)?) {
            (None, Some(_)) => Ok(Step::Nothing),
            (Some(old), Some(new)) => Err(Error::definite(
                codes::TARGET_SHAPE,
                format!("table \"{from}\" cannot be renamed: there is a \"{to}\" already"),
            )
            .note(format!("\"{from}\": {}", old.shown()))
            .note(format!("\"{to}\": {}", new.shown()))
            .help(format!("move one of them away: RENAME TABLE {} TO ..;", quote(to)))),
            (None, None) => self.there(from).map(|_| Step::Nothing),
            (Some(_), None) => Ok(Step::definition(format!("RENAME TABLE {} TO {}", quote(from), quote(to)))),
        }
    }
}

/// The statement that gives a column of the target the default that the source's has, or none; `None` where there is nothing to do.
fn set_default(found: &Found, there: &FoundColumn, column: &Column, dialect: &Dialect) -> Option<String> {
    // what it has no default for is told elsewhere: see `carried`
    let wanted = carried(column, &there.ty, dialect).ok().flatten();
    if wanted.is_none() && !there.default {
        return None;
    }
    let (here, name) = (quote(&found.name), quote(&there.name));
    if needs_parentheses(&there.ty, dialect) {
        // SET DEFAULT takes none of a text there, not even NULL
        let of = |word: &str, name: &Option<String>| {
            name.as_ref().map_or_else(String::new, |name| format!(" {word} {name}"))
        };
        return Some(format!(
            "ALTER TABLE {here} MODIFY COLUMN {name} {}{}{} {}{}{}",
            there.ty,
            of("CHARACTER SET", &there.charset),
            of("COLLATE", &there.collation),
            if there.not_null { "NOT NULL" } else { "NULL" },
            wanted.map_or_else(String::new, |text| format!(" DEFAULT {text}")),
            comment_clause(&there.comment)
        ));
    }
    let what = match wanted {
        // MySQL takes the moment for an expression here
        Some(moment) if moment.starts_with("CURRENT_TIMESTAMP") && !dialect.mariadb => {
            format!("SET DEFAULT ({moment})")
        }
        Some(literal) => format!("SET DEFAULT {literal}"),
        None if there.not_null => "DROP DEFAULT".to_owned(),
        // a column that has lost its default by DROP takes no row without a value, though it may hold NULL
        None => "SET DEFAULT NULL".to_owned(),
    };
    Some(format!("ALTER TABLE {here} ALTER COLUMN {name} {what}"))
}

/// What SHOW CREATE TABLE prints as text. MariaDB prints the default of a binary column as its bytes: where they are no text they become a
/// hexadecimal literal.
fn readable(shown: &[u8]) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(shown.len());
    let mut at = 0;
    while at < shown.len() {
        let mark = shown[at];
        let end = match mark {
            b'\'' | b'"' | b'`' => behind_quotes(shown, at, mark).unwrap_or(shown.len()),
            _ => at + 1,
        };
        let part = &shown[at..end];
        if mark == b'\'' && std::str::from_utf8(part).is_err() {
            let inside = part.get(1..part.len() - 1).unwrap_or_default();
            out.extend_from_slice(b"x'");
            for byte in unescaped(inside) {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
            out.push(b'\'');
        } else {
            out.extend_from_slice(part);
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The bytes of a literal as servers print it: quotes doubled; backslash, NUL and the ends of lines behind a backslash.
fn unescaped(inside: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'0') => 0,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(other) => *other,
                None => b'\\',
            },
            b'\'' => {
                bytes.next();
                b'\''
            }
            other => *other,
        });
    }
    out
}

/// A column's definition out of what SHOW CREATE TABLE prints, with another comment.
fn definition(shown: &str, column: &str, comment: &str) -> Option<String> {
    // the table's name may hold a parenthesis
    let named = behind_quotes(shown.as_bytes(), shown.find('`')?, b'`')?;
    let body = shown.get(named..)?.trim_start().strip_prefix('(')?;
    let name = format!("{} ", quote(column));
    let bytes = body.as_bytes();
    // parts end at commas that are in no quotes and no parentheses
    let (mut depth, mut start, mut at) = (0_usize, 0, 0);
    // where the comment stands, and where it may if there is none: MariaDB takes none behind a CHECK
    let (mut stands, mut may): (Option<(usize, usize)>, Option<usize>) = (None, None);
    while at < bytes.len() {
        let here = |word: &str| body.get(at..).is_some_and(|rest| rest.starts_with(word));
        match bytes[at] {
            mark @ (b'\'' | b'"' | b'`') => at = behind_quotes(bytes, at, mark)?,
            b' ' if depth == 0 && here(" COMMENT '") => {
                let end = behind_quotes(bytes, at + " COMMENT ".len(), b'\'')?;
                stands = Some((at, end));
                at = end;
            }
            b',' | b')' if depth == 0 => {
                if body.get(start..at)?.trim_start().starts_with(&name) {
                    let place = may.unwrap_or(at);
                    let (from, to) = stands.unwrap_or((place, place));
                    let (before, behind) = (body.get(start..from)?.trim(), body.get(to..at)?.trim());
                    return Some(
                        format!("{before} COMMENT {} {behind}", text(comment)).trim_end().to_owned(),
                    );
                }
                if bytes[at] == b')' {
                    return None;
                }
                at += 1;
                (start, stands, may) = (at, None, None);
            }
            mark => {
                if depth == 0 && may.is_none() && here(" CHECK (") {
                    may = Some(at);
                }
                match mark {
                    b'(' => depth += 1,
                    b')' => depth -= 1,
                    _ => {}
                }
                at += 1;
            }
        }
    }
    None
}

/// The place behind what stands in quotes at `at`.
fn behind_quotes(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    at += 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if quote != b'`' => at += 2,
            b if b == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            b if b == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// A type that takes less of a row.
fn narrower(wanted: &Declared) -> Option<Declared> {
    let (word, rest) = wanted.ty.split_once('(')?;
    let n: usize = rest.trim_end_matches(')').parse().ok()?;
    let ty = match word {
        "varchar" | "char" => {
            if n * 4 <= 65_535 {
                "text"
            } else {
                "mediumtext"
            }
        }
        "varbinary" => "blob",
        _ => return None,
    };
    Some(Declared { ty: ty.to_owned(), ..wanted.clone() })
}

fn differs(found: &Found, there: &FoundColumn, wanted: &str) -> Error {
    Error::definite(
        codes::TARGET_SHAPE,
        format!("table \"{}\" at the target has a column \"{}\" already", found.name, there.name),
    )
    .note(format!("there:  {} {}", quote(&there.name), there.ty))
    .note(format!("wanted: {wanted}"))
    .help(rename_away(found, there))
}

fn rename_away(found: &Found, there: &FoundColumn) -> String {
    format!(
        "give that one another name: ALTER TABLE {} RENAME COLUMN {} TO ..;",
        quote(&found.name),
        quote(&there.name)
    )
}

/// Is a column's default written as its values are compared, whatever the server does to it?
fn is_spelled_as_stored(column: &Column) -> bool {
    let text = match column.default.as_deref().map(literal) {
        None | Some(Some(Literal::Null)) => return true,
        Some(Some(Literal::Number(text) | Literal::Text(text))) => text,
        Some(_) => return false,
    };
    match column.ty {
        ColumnType::Int { .. } => text.parse::<i128>().is_ok(),
        ColumnType::Char { .. } | ColumnType::VarChar { .. } | ColumnType::Text { .. } => true,
        ColumnType::Date => text.len() == 10,
        ColumnType::DateTime { fsp: 0 } => text.len() == 19,
        _ => false,
    }
}

fn no_column(found: &Found, column: &str) -> Error {
    Error::definite(
        codes::TARGET_DDL,
        format!("table \"{}\" at the target has no column \"{}\"", found.name, clipped(column)),
    )
    .note(format!("found: {}", found.shown()))
    .help("the column was dropped or renamed there by somebody else; put it back")
}

#[cfg(test)]
mod tests {
    use super::{definition, readable};

    #[test]
    fn bytes_that_are_no_text_are_shown_as_a_hexadecimal_literal() {
        // a quote is doubled, NUL and backslash stand behind a backslash
        let literal: &[u8] = &[b'\'', b'A', 0xff, b'\\', b'0', b'\\', b'\\', b'\'', b'\'', b'\''];
        let shown =
            [b"`a` varbinary(9) DEFAULT ", literal, " COMMENT 'it''s', `ä` int DEFAULT '7'".as_bytes()]
                .concat();
        let expected = "`a` varbinary(9) DEFAULT x'41ff005c27' COMMENT 'it''s', `ä` int DEFAULT '7'";
        assert_eq!(readable(&shown), expected);
    }

    #[test]
    fn a_definition_gets_another_comment() {
        let shown = "CREATE TABLE `t (1` (
  `id` int NOT NULL COMMENT 'the key, with ) and '' and \\' in it',
  `a``b` varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'x, COMMENT ''y''' COMMENT 'z',
  `g` int GENERATED ALWAYS AS ((`id` + length(_utf8mb4'COMMENT '))) VIRTUAL COMMENT '',
  `n` int DEFAULT NULL /*!80023 INVISIBLE */,
  `j` longtext DEFAULT NULL COMMENT 'json' CHECK (json_valid(`j`)),
  `k` longtext DEFAULT NULL CHECK (json_valid(`k`)),
  `last` datetime(3) DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(3),
  PRIMARY KEY (`id`) COMMENT 'not a column'
) ENGINE=InnoDB COMMENT='a table, (this one)'";
        for (column, wanted) in [
            ("id", "`id` int NOT NULL COMMENT 'c\\'s'"),
            (
                "a`b",
                "`a``b` varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'x, COMMENT ''y''' COMMENT 'c\\'s'",
            ),
            (
                "g",
                "`g` int GENERATED ALWAYS AS ((`id` + length(_utf8mb4'COMMENT '))) VIRTUAL COMMENT 'c\\'s'",
            ),
            ("n", "`n` int DEFAULT NULL /*!80023 INVISIBLE */ COMMENT 'c\\'s'"),
            ("j", "`j` longtext DEFAULT NULL COMMENT 'c\\'s' CHECK (json_valid(`j`))"),
            ("k", "`k` longtext DEFAULT NULL COMMENT 'c\\'s' CHECK (json_valid(`k`))"),
            ("last", "`last` datetime(3) DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP(3) COMMENT 'c\\'s'"),
        ] {
            assert_eq!(definition(shown, column, "c's").as_deref(), Some(wanted));
        }
        assert_eq!(definition(shown, "PRIMARY", ""), None);
        assert_eq!(definition("CREATE TABLE `t` (\n  `a` int COMMENT 'open", "a", ""), None);
    }
}
