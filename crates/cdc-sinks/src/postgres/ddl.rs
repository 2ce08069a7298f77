//! Schema changes at the target, inside the open transaction.
//!
//! Each looks at the table first and does nothing where the change is there already, so a change that comes again after
//! a restart is no error; what is there in another way is an error that shows both. The server's DDL is part of the
//! transaction: a change, the rows behind it and their tick become visible at once.
//!
//! **A column's type.** The source's server converts its rows in place and logs none of them, so the rows here have to
//! arrive at the same values: `ALTER COLUMN .. TYPE .. USING` with an expression that is certain to ([`conversion`]),
//! and a look before it for values that it would change or lose; one is enough to stop, and is shown. What the type at
//! the target does not tell (the number of an ENUM's label, the time zone of a session) is not guessed. A type that
//! holds its values as they are, under whatever name, needs no change: `text` is the type of all lengths.

use super::conn::Conn;
use super::error::{Errors, Pg, message};
use super::look::{Found, FoundColumn, carried, comment_on, make_table, value_sql};
use super::options::NulPolicy;
use super::sql::{literal, quote, quote_all};
use super::types::{Unfit, declared, parts};
use super::write::{DATES, clipped};
use crate::default::{as_source, cannot_tell, default_value, not_empty, other_values};
use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::schema::{Column, ColumnType, IntWidth};
use cdc_core::{Error, Result, Row, Value, codes};

/// Where a change is made, and how its errors read.
pub(crate) struct Change<'a> {
    pub(crate) conn: &'a Conn,
    pub(crate) errors: Errors<'a>,
    pub(crate) schema: &'a str,
    pub(crate) nul: NulPolicy,
    /// `on_existing = evolve`.
    pub(crate) evolve: bool,
}

impl Change<'_> {
    /// Makes a change.
    pub(crate) fn apply(&self, change: &TargetSchemaChange) -> Result<()> {
        match change {
            TargetSchemaChange::CreateTable { table } => match self.look(&table.name)? {
                Some(found) => self.fit(&found, table),
                None => self.run(&make_table(self.schema, table)),
            },
            TargetSchemaChange::AddColumn { table, column, implicit, keeps_default } => {
                self.add_column(table, column, *implicit, *keeps_default)
            }
            TargetSchemaChange::RenameColumn { table, from, to } => self.rename_column(table, from, to),
            TargetSchemaChange::FillColumn { table, from, to, was, only } => {
                self.fill_column(table, from, to, was.as_ref(), only)
            }
            TargetSchemaChange::ResetColumn { table, column, implicit, only } => {
                self.reset_column(table, column, *implicit, only)
            }
            TargetSchemaChange::DropColumn { table, column } => self.drop_column(table, column),
            TargetSchemaChange::AlterColumnType { table, column, ty, was } => {
                self.alter_type(table, column, ty, was.as_ref())
            }
            TargetSchemaChange::AlterColumnDefault { table, column } => self.alter_default(table, column),
            TargetSchemaChange::AlterComment { table, column, comment } => {
                let found = self.there(table)?;
                let column = match column {
                    Some(column) => {
                        Some(&*found.column(column).ok_or_else(|| no_column(&found, column))?.name)
                    }
                    None => None,
                };
                comment_on(&found.full, column, comment).map_or(Ok(()), |sql| self.run(&sql))
            }
            TargetSchemaChange::ChangeKey { table } => self.change_key(table),
            // NOT NULL is only declared for keys: see the types module.
            TargetSchemaChange::AlterNullability { .. } => Ok(()),
            TargetSchemaChange::TruncateTable { table } => match self.look(table)? {
                Some(found) => self.empty(&found),
                None => Ok(()),
            },
            TargetSchemaChange::RemoveRows { table, only, .. } => self.remove_rows(table, only),
            TargetSchemaChange::DropTable { table } => match self.look(table)? {
                Some(found) => self.run(&format!("DROP TABLE {}", found.full)).map_err(|e| {
                    with_help(e, "a view or a foreign key of the target needs the table; drop that first")
                }),
                None => Ok(()),
            },
            TargetSchemaChange::RenameTable { from, to } => self.rename_table(from, to),
        }
    }

    /// Does a table that is there take the rows of this one, or is it made to by what loses nothing? Gives the statements that it takes.
    pub(crate) fn widening(&self, found: &Found, table: &TargetTable) -> Result<Vec<String>> {
        let Err(error) = found.check(table, self.schema) else { return Ok(Vec::new()) };
        if !self.evolve {
            return Err(error);
        }
        let statements = found.widening(table, self.schema)?;
        let rows = found.has_rows(self.conn).map_err(|e| {
            self.errors.of(codes::TARGET_DDL, &format!("looking at table \"{}\"", found.name), &e)
        })?;
        if rows { Err(not_empty(error)) } else { Ok(statements) }
    }

    /// Makes a table that is there take the rows of this one.
    pub(crate) fn fit(&self, found: &Found, table: &TargetTable) -> Result<()> {
        let statements = self.widening(found, table)?;
        statements.iter().try_for_each(|sql| self.run(sql))
    }

    fn look(&self, table: &str) -> Result<Option<Found>> {
        Found::look(self.conn, self.schema, table)
            .map_err(|e| self.errors.of(codes::TARGET_DDL, &format!("looking at table \"{table}\""), &e))
    }

    fn there(&self, table: &str) -> Result<Found> {
        self.look(table)?.ok_or_else(|| {
            Error::definite(codes::TARGET_DDL, format!("table \"{table}\" is not at the target"))
                .help("the table was dropped or renamed there by somebody else; put it back")
        })
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.conn.run(sql).map(|_| ()).map_err(|e| self.refused(sql, &e))
    }

    fn refused(&self, sql: &str, e: &Pg) -> Error {
        self.errors.of(codes::TARGET_DDL, &format!("statement: {}", clipped(sql)), e)
    }

    /// Deletes all rows. TRUNCATE is refused where foreign keys of others name the table, and needs a right of its own.
    fn empty(&self, found: &Found) -> Result<()> {
        self.run("SAVEPOINT _cdc_empty")?;
        match self.conn.run(&format!("TRUNCATE {}", found.full)) {
            Ok(_) => self.run("RELEASE SAVEPOINT _cdc_empty"),
            Err(e) if e.as_db_error().is_some_and(|db| matches!(db.code().code(), "0A000" | "42501")) => {
                self.run("ROLLBACK TO SAVEPOINT _cdc_empty")?;
                self.run(&format!("DELETE FROM {}", found.full))
            }
            Err(e) => Err(self.refused("TRUNCATE", &e)),
        }
    }

    /// Deletes all rows, or those with these values. Not by TRUNCATE: others read the rows before until the new ones
    /// come in their place with the commit, and do not wait for it.
    fn remove_rows(&self, table: &str, only: &[(Column, Row)]) -> Result<()> {
        let Some(found) = self.look(table)? else { return Ok(()) };
        let condition = self.where_only(&found, only)?;
        self.run(&format!("DELETE FROM {}{condition}", found.full))
    }

    /// What tells the rows of a source table, behind a statement; nothing where all rows are its.
    fn where_only(&self, found: &Found, only: &[(Column, Row)]) -> Result<String> {
        let mut conditions = Vec::with_capacity(only.len());
        for (column, value) in only {
            let there = found.column(&column.name).ok_or_else(|| no_column(found, &column.name))?;
            let value = value.get(0);
            let name = quote(&there.name);
            conditions.push(match self.literal(&value, column, &there.base) {
                Ok(Some(text)) => format!("{name}::text COLLATE \"C\" = ({text})::text COLLATE \"C\""),
                Ok(None) => format!("{name} IS NULL"),
                Err(_) => {
                    return Err(Error::definite(
                        codes::TARGET_VALUE,
                        format!(
                            "table \"{}\", column \"{}\": {value} cannot be there",
                            found.name, column.name
                        ),
                    ));
                }
            });
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
        let there = found.column(&column.name).ok_or_else(|| no_column(&found, &column.name))?;
        let literal = self.read_by_rows(table, column, implicit, &there.base)?;
        let condition = self.where_only(&found, only)?;
        self.run(&format!(
            "UPDATE {} SET {} = {}{condition}",
            found.full,
            quote(&there.name),
            literal.as_deref().unwrap_or("NULL")
        ))
    }

    /// What rows that are there read in a column, as SQL; `None` for NULL.
    fn read_by_rows(
        &self,
        table: &str,
        column: &Column,
        implicit: bool,
        base: &str,
    ) -> Result<Option<String>> {
        let value =
            default_value(&as_source(column, implicit)).map_err(|why| cannot_tell(table, column, why))?;
        self.literal(&value, column, base).map_err(|why| match why {
            Unfit::NoSuchDate => {
                let why = format!("they read {value}, a date that PostgreSQL does not hold");
                cannot_tell(table, column, why).help(DATES)
            }
            _ => cannot_tell(table, column, format!("they read {value}, which PostgreSQL does not hold")),
        })
    }

    /// A value as SQL; `None` for NULL.
    fn literal(
        &self,
        value: &Value<'_>,
        column: &Column,
        base: &str,
    ) -> std::result::Result<Option<String>, Unfit> {
        value_sql(value, column, base, self.nul)
    }

    /// What others' rows read in a column.
    fn alter_default(&self, table: &str, column: &Column) -> Result<()> {
        let found = self.there(table)?;
        let there = found.column(&column.name).ok_or_else(|| no_column(&found, &column.name))?;
        let alter = format!("ALTER TABLE {} ALTER COLUMN {}", found.full, quote(&there.name));
        // what it has no default for is told elsewhere
        match carried(column, &there.base, NulPolicy::Error).ok().flatten() {
            Some(text) => self.run(&format!("{alter} SET DEFAULT {text}")),
            None if there.default && !there.generated => self.run(&format!("{alter} DROP DEFAULT")),
            None => Ok(()),
        }
    }

    fn add_column(&self, table: &str, column: &Column, implicit: bool, keeps_default: bool) -> Result<()> {
        let found = self.there(table)?;
        let wanted = declared(&column.ty, false);
        if let Some(there) = found.column(&column.name) {
            if there.declared != wanted {
                return Err(differs(&found, there, &column.name, &wanted));
            }
            return self.take_column(&found, there, column, implicit, keeps_default);
        }
        let (name, here) = (quote(&column.name), &found.full);
        let base = parts(&wanted).0;
        let add = format!("ALTER TABLE {here} ADD COLUMN {name} {wanted}");
        let kept = carried(column, &base, NulPolicy::Error).ok().flatten().filter(|_| keeps_default);
        let mut read = None;
        if found.has_rows(self.conn).map_err(|e| self.refused(&add, &e))? {
            read = self
                .read_by_rows(table, column, implicit, &base)
                .map_err(|e| e.note(format!("statement: {add}")))?;
        }
        let mut statements = vec![match &read {
            Some(text) => format!("{add} DEFAULT {text}"),
            None => add,
        }];
        // the rows that are there keep what they read
        match kept {
            Some(text) if read.as_ref() != Some(&text) => {
                statements.push(format!("ALTER TABLE {here} ALTER COLUMN {name} SET DEFAULT {text}"));
            }
            None if read.is_some() => {
                statements.push(format!("ALTER TABLE {here} ALTER COLUMN {name} DROP DEFAULT"));
            }
            _ => {}
        }
        if !column.comment.is_empty() {
            statements.extend(comment_on(here, Some(&*column.name), &column.comment));
        }
        self.run(&statements.join("; "))
    }

    /// A column that is to be added and is there is taken where rows read in it what they read at the source; its default and its comment
    /// become the source's.
    fn take_column(
        &self,
        found: &Found,
        there: &FoundColumn,
        column: &Column,
        implicit: bool,
        keeps_default: bool,
    ) -> Result<()> {
        let (name, here) = (quote(&there.name), &found.full);
        let base = parts(&there.declared).0;
        let doing = format!("looking at column {name} of {here}");
        if found.has_rows(self.conn).map_err(|e| self.refused(&doing, &e))? {
            let reads = self.read_by_rows(&found.name, column, implicit, &base)?;
            // as texts: not every type can be compared
            let reads =
                reads.map_or_else(|| "NULL".to_owned(), |text| format!("({text})::{}::text", there.declared));
            let look = format!(
                "SELECT coalesce({name}::text, 'NULL'), coalesce({reads}, 'NULL') FROM {here} \
                 WHERE {name}::text IS DISTINCT FROM {reads} LIMIT 1"
            );
            let row = self.conn.rows(&look).map_err(|e| self.refused(&look, &e))?.into_iter().next();
            if let Some([Some(other), Some(reads)]) = row.as_deref() {
                let rename = rename_away(found, there);
                return Err(other_values(&found.name, column, &clipped(other), &clipped(reads), rename));
            }
        }
        let kept = carried(column, &base, NulPolicy::Error).ok().flatten().filter(|_| keeps_default);
        let mut statements = Vec::new();
        match kept {
            Some(text) => {
                statements.push(format!("ALTER TABLE {here} ALTER COLUMN {name} SET DEFAULT {text}"));
            }
            None if there.default => {
                statements.push(format!("ALTER TABLE {here} ALTER COLUMN {name} DROP DEFAULT"));
            }
            None => {}
        }
        statements.extend(comment_on(here, Some(&*there.name), &column.comment));
        self.run(&statements.join("; "))
    }

    fn rename_column(&self, table: &str, from: &str, to: &str) -> Result<()> {
        let found = self.there(table)?;
        let (old, new) = (found.column(from), found.column(to));
        match (old, new) {
            (_, Some(new)) if new.name == to && old.is_none_or(|o| o.name == new.name) => Ok(()),
            (Some(old), new) if new.is_none_or(|n| n.name == old.name) => self.run(&format!(
                "ALTER TABLE {} RENAME COLUMN {} TO {}",
                found.full,
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
        let Some(there) = found.column(column) else { return Ok(()) };
        // The server would drop the key with the column, and nothing would tell the rows apart.
        if found.key_columns().contains(&there.name.as_str()) {
            return Err(Error::definite(
                codes::TARGET_DDL,
                format!(
                    "table \"{table}\": column \"{}\" is part of its PRIMARY KEY and is to be dropped",
                    there.name
                ),
            )
            .note(format!("found: {}", found.shown()))
            .help("give the flow another key: key (..)"));
        }
        self.run(&format!("ALTER TABLE {} DROP COLUMN {}", found.full, quote(&there.name)))
            .map_err(|e| with_help(e, "a view or the like of the target names the column; drop that first"))
    }

    fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        if from == to {
            return Ok(());
        }
        match (self.look(from)?, self.look(to)?) {
            (None, Some(_)) => Ok(()),
            (Some(old), Some(new)) => Err(Error::definite(
                codes::TARGET_SHAPE,
                format!("table \"{from}\" cannot be renamed: there is a \"{to}\" already"),
            )
            .note(format!("\"{from}\": {}", clipped(&old.shown())))
            .note(format!("\"{to}\": {}", clipped(&new.shown())))
            .help(format!("move one of them away: ALTER TABLE {} RENAME TO ..", new.full))),
            (None, None) => self.there(from).map(|_| ()),
            (Some(old), None) => self.run(&format!("ALTER TABLE {} RENAME TO {}", old.full, quote(to))),
        }
    }

    fn alter_type(&self, table: &str, column: &str, ty: &ColumnType, was: Option<&ColumnType>) -> Result<()> {
        let found = self.there(table)?;
        let Some(there) = found.column(column) else { return Err(no_column(&found, column)) };
        let in_key = found.key_columns().contains(&there.name.as_str());
        self.retype(&found, there, (was, ty), &declared(ty, in_key))
    }

    fn retype(
        &self,
        found: &Found,
        column: &FoundColumn,
        (was, ty): (Option<&ColumnType>, &ColumnType),
        wanted: &str,
    ) -> Result<()> {
        let name = quote(&column.name);
        // the server would have to convert the default too, and not by our rules: it is set anew by the change behind this one
        let drops =
            if column.default { format!("ALTER COLUMN {name} DROP DEFAULT, ") } else { String::new() };
        let sql = |using: &str| {
            format!("ALTER TABLE {} {drops}ALTER COLUMN {name} TYPE {wanted} USING {using}", found.full)
        };
        let help = "a view, a generated column or the like of the target needs the column; drop that first";
        let has_values =
            self.conn.rows(&format!("SELECT 1 FROM {} WHERE {name} IS NOT NULL LIMIT 1", found.full));
        if has_values.map_err(|e| self.refused(&sql(&name), &e))?.is_empty() {
            if column.declared == wanted {
                return Ok(());
            }
            let base = parts(wanted).0;
            return self.run(&sql(&format!("NULL::text::{base}"))).map_err(|e| with_help(e, help));
        }
        let cannot = |why: String| {
            Error::definite(
                codes::TARGET_DDL,
                format!(
                    "table \"{}\": a value of column \"{}\" cannot be converted from {} to {ty}",
                    found.name, column.name, column.declared
                ),
            )
            .note(why)
            .help("copy the table anew, or exclude alter_column_type from the flow's schema changes")
        };
        let conversion = conversion(&column.declared, was, ty, &name).map_err(|why| {
            let shown = self.value_where(found, column, "true").unwrap_or_default();
            cannot(format!("{shown}: {why}"))
        })?;
        let Conversion { using, exact } = conversion;
        if let Some(exact) = exact
            && let Some(shown) = self.value_where(found, column, &format!("({exact}) IS NOT TRUE"))
        {
            return Err(cannot(format!("{shown}: it would not stay the same")));
        }
        if using == name && column.declared == wanted {
            return Ok(());
        }
        if column.declared == wanted {
            // the type stays, the values change their form
            return self.run(&format!(
                "UPDATE {} SET {name} = {using} WHERE {name} IS DISTINCT FROM {using}",
                found.full
            ));
        }
        let sql = sql(&using);
        self.conn.run(&sql).map(|_| ()).map_err(|e| match e.as_db_error().map(|db| db.code().code()) {
            Some(state) if state.starts_with("22") => cannot(message(&e)).note(format!("statement: {sql}")),
            _ => with_help(self.refused(&sql, &e), help),
        })
    }

    /// One value of a column for which a condition holds, with its key, for people.
    fn value_where(&self, found: &Found, column: &FoundColumn, condition: &str) -> Option<String> {
        let key = found.key_columns();
        let name = quote(&column.name);
        let selected: Vec<String> =
            key.iter().map(|k| format!("{}::text", quote(k))).chain([format!("{name}::text")]).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {name} IS NOT NULL AND {condition} LIMIT 1",
            selected.join(", "),
            found.full
        );
        let mut row = self.conn.rows(&sql).ok()?.into_iter().next()?;
        let value = row.pop().flatten().unwrap_or_default();
        let key: Vec<String> = row.into_iter().map(Option::unwrap_or_default).collect();
        Some(format!("key ({}), value {}", key.join(", "), clipped(&format!("{value:?}"))))
    }

    /// Gives one column the values of another.
    fn fill_column(
        &self,
        table: &str,
        from: &str,
        to: &str,
        was: Option<&ColumnType>,
        only: &[(Column, Row)],
    ) -> Result<()> {
        let found = self.there(table)?;
        let Some(source) = found.column(from) else { return Err(no_column(&found, from)) };
        let Some(target) = found.column(to) else { return Err(no_column(&found, to)) };
        if source.name == target.name {
            return Ok(());
        }
        let (name, to) = (quote(&source.name), quote(&target.name));
        let cannot = |why: String| {
            Error::definite(
                codes::TARGET_DDL,
                format!(
                    "table \"{table}\": a value of column \"{}\" cannot be converted from {} to {}",
                    source.name, source.declared, target.declared
                ),
            )
            .note(why)
            .help("copy the table anew, or exclude alter_column_type from the flow's schema changes")
        };
        let condition = self.where_only(&found, only)?;
        // (what the column holds in rows of other tables is not asked)
        let its = |what: &str| match condition.strip_prefix(" WHERE ") {
            Some(only) => format!("{what} AND {only}"),
            None => what.to_owned(),
        };
        let mut using = name.clone();
        if source.declared != target.declared {
            let converted = column_type(&target.declared)
                .ok_or_else(|| "it is not known what the type holds".to_owned())
                .and_then(|ty| conversion(&source.declared, was, &ty, &name));
            match converted {
                Ok(Conversion { using: expression, exact }) => {
                    if let Some(exact) = exact
                        && let Some(shown) =
                            self.value_where(&found, source, &its(&format!("({exact}) IS NOT TRUE")))
                    {
                        return Err(cannot(format!("{shown}: it would not stay the same")));
                    }
                    using = expression;
                }
                Err(why) => {
                    if let Some(shown) = self.value_where(&found, source, &its("true")) {
                        return Err(cannot(format!("{shown}: {why}")));
                    }
                    using = "NULL".to_owned();
                }
            }
        }
        self.run(&format!("UPDATE {} SET {to} = {using}{condition}", found.full))
    }

    /// Gives the table another key, or none.
    fn change_key(&self, table: &TargetTable) -> Result<()> {
        let found = self.there(&table.name)?;
        let mut wanted = Vec::with_capacity(table.key.len());
        for &i in &table.key {
            let column = &table.schema.columns[i];
            wanted.push((found.column(&column.name).ok_or_else(|| no_column(&found, &column.name))?, column));
        }
        let names: Vec<&str> = wanted.iter().map(|(there, _)| &*there.name).collect();
        let now = found.key_columns();
        if now == names {
            return Ok(());
        }
        if let Some(unique) = found.key() {
            self.run(&unique.dropping(&found.full, self.schema))
                .map_err(|e| with_help(e, "a foreign key of the target needs the key; drop that first"))?;
        }
        // of a key until now: a row without it may come from here on
        for column in now.iter().filter(|c| !names.contains(c)) {
            self.run(&format!("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL", found.full, quote(column)))?;
        }
        for (there, column) in &wanted {
            if there.declared == "json" {
                // it has no order and no equality
                self.retype(&found, there, (None, &column.ty), &declared(&column.ty, true))?;
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        self.run(&format!(
            "ALTER TABLE {} ADD PRIMARY KEY ({})",
            found.full,
            quote_all(names.iter().copied())
        ))
        .map_err(|e| {
            with_help(e, "rows of the target have the same new key, or none: give the flow a key that tells them apart: key (..)")
        })
    }
}

/// A type in which a column that was declared so holds its values.
fn column_type(declared: &str) -> Option<ColumnType> {
    use cdc_core::schema::{Charset, LobSize};
    let (words, numbers) = parts(declared);
    let digits = |n: usize, or: u8| numbers.get(n).and_then(|n| u8::try_from(*n).ok()).unwrap_or(or);
    Some(match words.as_str() {
        "smallint" => ColumnType::Int { width: IntWidth::Small, unsigned: false },
        "integer" => ColumnType::Int { width: IntWidth::Int, unsigned: false },
        "bigint" => ColumnType::Int { width: IntWidth::Big, unsigned: false },
        "numeric" if numbers.len() == 2 => {
            ColumnType::Decimal { precision: digits(0, 65), scale: digits(1, 0), unsigned: false }
        }
        "real" => ColumnType::Float { unsigned: false },
        "double precision" => ColumnType::Double { unsigned: false },
        "bit" => ColumnType::Bit { width: digits(0, 1) },
        "date" => ColumnType::Date,
        "interval" => ColumnType::Time { fsp: digits(0, 6) },
        "timestamp without time zone" => ColumnType::DateTime { fsp: digits(0, 6) },
        "timestamp with time zone" => ColumnType::Timestamp { fsp: digits(0, 6) },
        "text" => ColumnType::Text { size: LobSize::Long, charset: Charset::utf8mb4() },
        "json" => ColumnType::Json,
        "uuid" => ColumnType::Uuid,
        "bytea" => ColumnType::Blob { size: LobSize::Long },
        _ => return None,
    })
}

/// How values of a column become values of another type.
struct Conversion {
    /// The expression.
    using: String,
    /// A condition that holds for every value that stays the same; none where all do.
    exact: Option<String>,
}

/// The conversion of a column, which is named in quotes, to another type of the source; or why it is not certain. `was`: the type of the
/// source that it was declared for.
fn conversion(
    from: &str,
    was: Option<&ColumnType>,
    to: &ColumnType,
    name: &str,
) -> std::result::Result<Conversion, String> {
    let (words, numbers) = parts(from);
    let words = words.as_str();
    let whole = matches!(words, "smallint" | "integer" | "bigint")
        || (words == "numeric" && numbers.get(1) == Some(&0));
    let number = whole || words == "numeric";
    let digits = numbers.first().copied();
    let all = |using: String| Ok(Conversion { using, exact: None });
    let some = |using: String, exact: String| Ok(Conversion { using, exact: Some(exact) });
    let same = || all(name.to_owned());
    let unknown = || Err(format!("it is not certain what the source's server makes of a {from} as {to}"));
    let time_zone = || Err("it depends on the time zone of the session at the source".to_owned());
    match to {
        ColumnType::Int { width, unsigned } => {
            let (least, most) = range(*width, *unsigned);
            let ty = declared(to, false);
            match words {
                _ if number => some(
                    format!("{name}::{}", parts(&ty).0),
                    format!("{name} = trunc({name}::numeric) AND {name} BETWEEN {least} AND {most}"),
                ),
                _ => unknown(),
            }
        }
        ColumnType::Year if whole => {
            some(format!("{name}::smallint"), format!("{name} = 0 OR {name} BETWEEN 1901 AND 2155"))
        }
        ColumnType::Bit { width } if whole && words != "numeric" && *width <= 63 => some(
            format!("{name}::bigint::bit({width})"),
            format!("{name} >= 0 AND {name}::numeric < {}", 1u64 << width),
        ),
        // shorter ones are filled up at the end by the server's own cast
        ColumnType::Bit { width } if words == "bit" && digits.unwrap_or(1) <= u32::from(*width) => {
            all(format!("lpad({name}::text, {width}, '0')::bit({width})"))
        }
        ColumnType::Decimal { precision, scale, .. } if number => some(
            format!("{name}::numeric({precision},{scale})"),
            format!(
                "{name}::numeric = trunc({name}::numeric, {scale}) AND abs({name}::numeric) < 1e{}",
                precision.saturating_sub(*scale)
            ),
        ),
        ColumnType::Double { .. } => match words {
            _ if number || words == "real" => all(format!("{name}::double precision")),
            "double precision" => same(),
            _ => unknown(),
        },
        ColumnType::Float { .. } => match words {
            _ if number || words == "double precision" => all(format!("{name}::real")),
            "real" => same(),
            _ => unknown(),
        },
        ColumnType::VarChar { .. } | ColumnType::Text { .. } => match words {
            "text" | "json" | "uuid" | "numeric" | "integer" | "bigint" => all(format!("{name}::text")),
            "smallint" if matches!(was, Some(ColumnType::Int { .. })) => all(format!("{name}::text")),
            "smallint" if matches!(was, Some(ColumnType::Year)) => all(format!("lpad({name}::text, 4, '0')")),
            // it may have been a YEAR, which prints as 0000
            "smallint" => some(format!("{name}::text"), format!("{name} <> 0")),
            "date" => some(format!("{name}::text"), format!("{name} >= '0001-01-01'")),
            "timestamp without time zone" => {
                let fsp = digits.unwrap_or(6);
                let cut = if fsp == 0 { 19 } else { 20 + fsp };
                some(
                    format!("left(to_char({name}, 'YYYY-MM-DD HH24:MI:SS.US'), {cut})"),
                    format!("{name} >= '0001-01-01'"),
                )
            }
            "inet" => some(format!("host({name})"), format!("family({name}) = 4")),
            "bytea" => some(
                format!("convert_from({name}, 'UTF8')"),
                // other bytes mean what the column's character set says
                format!("{name}::text ~ '^\\\\x([1-7][0-9a-f]|0[1-9a-f])*$'"),
            ),
            "timestamp with time zone" => time_zone(),
            _ => unknown(),
        },
        ColumnType::Char { .. } => match words {
            "text" => all(format!("rtrim({name}, ' ')")),
            _ => {
                let text = ColumnType::VarChar { length: 0, charset: cdc_core::schema::Charset::utf8mb4() };
                conversion(from, was, &text, name)
            }
        },
        ColumnType::Enum { labels, .. } if words == "text" => {
            let members: Vec<String> = labels.iter().map(|l| literal(l)).chain(["''".to_owned()]).collect();
            some(name.to_owned(), format!("{name} COLLATE \"C\" IN ({})", members.join(", ")))
        }
        ColumnType::Set { labels, .. } if words == "text" => {
            let members: Vec<String> = labels.iter().map(|l| literal(l)).collect();
            some(
                name.to_owned(),
                format!(
                    "{name} = '' OR string_to_array({name} COLLATE \"C\", ',') <@ ARRAY[{}]::text[]",
                    members.join(", ")
                ),
            )
        }
        ColumnType::Date => match words {
            "date" => same(),
            "timestamp without time zone" => {
                some(format!("{name}::date"), format!("{name} = date_trunc('day', {name})"))
            }
            _ => unknown(),
        },
        ColumnType::Time { fsp } if words == "interval" => {
            let using = format!("{name}::interval({fsp})");
            let exact = format!("{name} = {using}");
            some(using, exact)
        }
        ColumnType::DateTime { fsp } => match words {
            "timestamp without time zone" => {
                let using = format!("{name}::timestamp({fsp})");
                let exact = format!("{name} = {using}");
                some(using, exact)
            }
            "date" => all(format!("{name}::timestamp({fsp})")),
            "timestamp with time zone" => time_zone(),
            _ => unknown(),
        },
        ColumnType::Timestamp { fsp } => match words {
            "timestamp with time zone" => {
                let using = format!("{name}::timestamp({fsp}) with time zone");
                let exact = format!("{name} = {using}");
                some(using, exact)
            }
            "timestamp without time zone" | "date" => time_zone(),
            _ => unknown(),
        },
        ColumnType::Binary { length } if words == "bytea" => some(
            format!("{name} || decode(repeat('00', greatest(0, {length} - length({name}))), 'hex')"),
            format!("length({name}) <= {length}"),
        ),
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } if words == "bytea" => same(),
        ColumnType::VarBinary { .. } | ColumnType::Blob { .. } if words == "text" => {
            some(format!("convert_to({name}, 'UTF8')"), format!("octet_length({name}) = char_length({name})"))
        }
        ColumnType::Json if words == "json" => same(),
        ColumnType::Json => Err("the server prints JSON anew".to_owned()),
        ColumnType::Uuid => match words {
            "uuid" => same(),
            "text" => some(
                format!("{name}::uuid"),
                format!("{name} ~* '^([0-9a-f]{{32}}|[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})$'"),
            ),
            _ => unknown(),
        },
        ColumnType::Inet4 if words == "inet" => some(name.to_owned(), format!("family({name}) = 4")),
        ColumnType::Inet6 if words == "inet" => {
            all(format!("CASE family({name}) WHEN 4 THEN ('::ffff:' || host({name}))::inet ELSE {name} END"))
        }
        ColumnType::Geometry { .. } if words == "bytea" => same(),
        ColumnType::Vector { .. } if words == "real[]" => same(),
        _ => unknown(),
    }
}

fn range(width: IntWidth, unsigned: bool) -> (i128, i128) {
    let bits = match width {
        IntWidth::Tiny => 8,
        IntWidth::Small => 16,
        IntWidth::Medium => 24,
        IntWidth::Int => 32,
        IntWidth::Big => 64,
    };
    if unsigned { (0, (1 << bits) - 1) } else { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) }
}

fn with_help(e: Error, help: &str) -> Error {
    if e.is_transient() { e } else { e.help(help) }
}

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
        found.full,
        quote(&there.name),
        quote(&format!("{}_before", there.name))
    )
}

fn no_column(found: &Found, column: &str) -> Error {
    Error::definite(
        codes::TARGET_DDL,
        format!("table \"{}\" at the target has no column \"{column}\"", found.name),
    )
    .note(format!("found: {}", clipped(&found.shown())))
    .help("the column was dropped or renamed there by somebody else; put it back")
}
