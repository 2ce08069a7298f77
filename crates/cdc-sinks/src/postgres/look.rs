//! What a table at the target looks like, and whether it takes the rows of a flow.
//!
//! A table that is there before us may be anything. It is taken if every value would come out as it went in and every
//! key would be one row: a column for each of ours, of a type that keeps our values; no column that insists on a
//! value that we do not have; one uniqueness rule, and that over our key. A second unique index is refused, because
//! an upsert could then fail on, or be turned into a change of, another row than the one with our key. Row security
//! that would hide rows from us is refused, and rules, which would turn our statements into others. Triggers, other
//! indexes, foreign keys and CHECKs are the user's business: they run, and what refuses a row stops the pipeline with
//! that row.

use super::conn::Conn;
use super::error::Pg;
use super::options::NulPolicy;
use super::sql::{literal, quote, quote_all};
use super::types::{Form, Unfit, declared, parts as parts_of, takes, widens};
use crate::default::{default_value, moment_of, not_widened};
use cdc_core::connector::TargetTable;
use cdc_core::schema::{Column, ColumnType, same_name};
use cdc_core::{Error, Value, codes};

/// A table as the server has it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Schema and name, in quotes.
    pub(crate) full: String,
    pub(crate) name: String,
    /// `r` a table, `p` a partitioned one, `v` a view, ..
    kind: char,
    rules: bool,
    row_security: bool,
    pub(crate) columns: Vec<FoundColumn>,
    uniques: Vec<Unique>,
}

#[derive(Debug, Clone)]
pub(crate) struct FoundColumn {
    pub(crate) name: String,
    /// Its type with length, precision, scale.
    pub(crate) declared: String,
    /// Its type without.
    pub(crate) base: String,
    not_null: bool,
    pub(crate) default: bool,
    pub(crate) generated: bool,
    always_identity: bool,
}

/// A unique or exclusion index.
#[derive(Debug, Clone)]
pub(crate) struct Unique {
    pub(crate) index: String,
    /// The constraint that it belongs to; else it is an index by itself.
    pub(crate) constraint: Option<String>,
    pub(crate) primary: bool,
    /// `None` for an expression.
    columns: Vec<Option<String>>,
    /// Checked row by row, and used: not deferrable, not half built.
    usable: bool,
    partial: bool,
    /// Keys of several spellings are one.
    folds: bool,
}

impl Unique {
    /// `ALTER TABLE .. DROP CONSTRAINT ..` or `DROP INDEX ..`.
    pub(crate) fn dropping(&self, table: &str, schema: &str) -> String {
        match &self.constraint {
            Some(name) => format!("ALTER TABLE {table} DROP CONSTRAINT {}", quote(name)),
            None => format!("DROP INDEX {}.{}", quote(schema), quote(&self.index)),
        }
    }
}

fn is_true(field: Option<&Option<String>>) -> bool {
    field.is_some_and(|f| f.as_deref() == Some("t"))
}

impl Found {
    /// Looks at a table; `None` if there is none of this name.
    pub(crate) fn look(conn: &Conn, schema: &str, name: &str) -> Result<Option<Found>, Pg> {
        let (schema_text, name_text) = (literal(schema), literal(name));
        let of_table = format!(
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = {schema_text} AND c.relname = {name_text}"
        );
        let rows = conn.rows(&format!(
            "SELECT 't', c.relkind, EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type <> '1'),
                    row_security_active(c.oid)
             {of_table} AND c.relkind NOT IN ('i', 'I', 'S', 't', 'c');
             SELECT 'c', a.attname, format_type(a.atttypid, a.atttypmod), format_type(a.atttypid, NULL), a.attnotnull,
                    a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attidentity = 'a'
             {of_table} JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum;
             SELECT 'u', ic.relname, con.conname, i.indisprimary, i.indisvalid AND i.indimmediate, i.indpred IS NOT NULL,
                    (SELECT bool_or(NOT co.collisdeterministic) FROM unnest(i.indcollation::oid[]) x(o)
                       JOIN pg_collation co ON co.oid = x.o)
                    OR (SELECT bool_or(t.typname = 'citext') FROM unnest(i.indkey::int2[]) k(n)
                       JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n JOIN pg_type t ON t.oid = a.atttypid),
                    (SELECT json_agg(a.attname ORDER BY k.o) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(n, o)
                       LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n WHERE k.o <= i.indnkeyatts)
             {of_table} JOIN pg_index i ON i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)
               JOIN pg_class ic ON ic.oid = i.indexrelid
               LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.contype IN ('p', 'u', 'x')
             ORDER BY NOT i.indisprimary, ic.relname"
        ))?;
        let of = |what: &'static str| {
            rows.iter().filter(move |r| r.first().is_some_and(|f| f.as_deref() == Some(what)))
        };
        let Some(table) = of("t").next() else { return Ok(None) };
        let text = |row: &[Option<String>], i: usize| row.get(i).cloned().flatten().unwrap_or_default();
        let columns = of("c")
            .map(|row| FoundColumn {
                name: text(row, 1),
                declared: text(row, 2),
                base: text(row, 3),
                not_null: is_true(row.get(4)),
                default: is_true(row.get(5)),
                generated: is_true(row.get(6)),
                always_identity: is_true(row.get(7)),
            })
            .collect();
        let uniques = of("u")
            .map(|row| Unique {
                index: text(row, 1),
                constraint: row.get(2).cloned().flatten(),
                primary: is_true(row.get(3)),
                usable: is_true(row.get(4)),
                partial: is_true(row.get(5)),
                folds: is_true(row.get(6)),
                columns: serde_json::from_str(&text(row, 7)).unwrap_or_default(),
            })
            .collect();
        Ok(Some(Found {
            full: format!("{}.{}", quote(schema), quote(name)),
            name: name.to_owned(),
            kind: text(table, 1).chars().next().unwrap_or('?'),
            rules: is_true(table.get(2)),
            row_security: is_true(table.get(3)),
            columns,
            uniques,
        }))
    }

    /// A column of this name, in the spelling of the table.
    pub(crate) fn column(&self, name: &str) -> Option<&FoundColumn> {
        let exact = self.columns.iter().find(|c| c.name == name);
        exact.or_else(|| self.columns.iter().find(|c| same_name(&c.name, name)))
    }

    /// The index of the key, if it has a primary one or just one unique one.
    pub(crate) fn key(&self) -> Option<&Unique> {
        self.uniques.first()
    }

    /// The columns of the key, as the table spells them.
    pub(crate) fn key_columns(&self) -> Vec<&str> {
        let columns = self.key().map(|u| u.columns.iter().flatten());
        columns.into_iter().flatten().map(String::as_str).collect()
    }

    /// True if keys of several spellings are one there, so that an upsert may meet a row whose key is spelled in
    /// another way.
    pub(crate) fn folds_keys(&self) -> bool {
        self.uniques.iter().any(|u| u.folds)
    }

    /// True if there is a row in it.
    pub(crate) fn has_rows(&self, conn: &Conn) -> Result<bool, Pg> {
        Ok(!conn.rows(&format!("SELECT 1 FROM {} LIMIT 1", self.full))?.is_empty())
    }

    pub(crate) fn count(&self, conn: &Conn, condition: &str) -> Result<u64, Pg> {
        let rows = conn.rows(&format!("SELECT count(*) FROM {}{condition}", self.full))?;
        let count = rows.first().and_then(|r| r.first()?.as_deref()?.parse().ok());
        Ok(count.unwrap_or_default())
    }

    /// Its columns and its key, as a statement would make it.
    pub(crate) fn shown(&self) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|c| {
                format!("{} {}{}", quote(&c.name), c.declared, if c.not_null { " NOT NULL" } else { "" })
            })
            .collect();
        for unique in &self.uniques {
            let word = if unique.primary { "PRIMARY KEY" } else { "UNIQUE" };
            parts.push(format!("{word} ({})", unique_text(unique)));
        }
        format!("TABLE {} ({})", self.full, parts.join(", "))
    }

    /// The statements that make an empty table take the rows of this one, each so that it can hold all that it could before.
    ///
    /// # Errors
    /// `TARGET_SHAPE` if that is not enough, and nothing is to be done then.
    pub(crate) fn widening(&self, table: &TargetTable, schema: &str) -> Result<Vec<String>, Error> {
        let misfits = self.misfits(table, schema);
        let left: Vec<String> = misfits.iter().filter(|m| !m.widens).map(|m| m.what.clone()).collect();
        if left.is_empty() {
            return Ok(misfits.into_iter().map(|m| m.mend).collect());
        }
        self.check(table, schema).map(|()| Vec::new()).map_err(|e| not_widened(e, &left))
    }

    /// Does it take the rows of this table?
    pub(crate) fn check(&self, table: &TargetTable, schema: &str) -> Result<(), Error> {
        let misfits = self.misfits(table, schema);
        let Some((first, rest)) = misfits.split_first() else { return Ok(()) };
        let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
        let mut error = Error::definite(
            codes::TARGET_SHAPE,
            format!("table \"{}\" at the target has another shape: {}{more}", table.name, first.what),
        );
        for misfit in rest {
            error = error.note(misfit.what.clone());
        }
        error = error.note(format!("wanted: {}", create_table(schema, table)));
        error = error.note(format!("found:  {}", self.shown()));
        for misfit in misfits {
            error = error.help(misfit.mend);
        }
        Err(error)
    }

    fn misfits(&self, table: &TargetTable, schema: &str) -> Vec<Misfit> {
        let here = &self.full;
        let away = format!(
            "ALTER TABLE {here} RENAME TO {}; -- then it is made anew",
            quote(&shortened(&self.name, "_before"))
        );
        let mut misfits = Vec::new();
        let mut add = |what: String, mend: String, widens: bool| misfits.push(Misfit { what, mend, widens });
        if !matches!(self.kind, 'r' | 'p') {
            let kind = match self.kind {
                'v' => "a view",
                'm' => "a materialized view",
                'f' => "a foreign table",
                _ => "no table of rows",
            };
            add(
                format!("it is {kind}, not a table of rows"),
                format!("send the flow to another name than \"{}\"", self.name),
                false,
            );
            return misfits;
        }
        if self.rules {
            add(
                "it has rules, which turn statements into others".to_owned(),
                format!("DROP RULE .. ON {here};"),
                false,
            );
        }
        if self.row_security {
            add(
                "row security hides rows of it from this account".to_owned(),
                format!("ALTER TABLE {here} DISABLE ROW LEVEL SECURITY; or ALTER ROLE .. BYPASSRLS;"),
                false,
            );
        }
        if table.is_multiset() && self.kind == 'p' {
            add(
                "it is partitioned, and ours has no key: its rows cannot be told apart by their place"
                    .to_owned(),
                away.clone(),
                false,
            );
        }
        for (i, column) in table.schema.columns.iter().enumerate() {
            let wanted = declared(&column.ty, table.key.contains(&i));
            let Some(found) = self.column(&column.name) else {
                add(
                    format!("column \"{}\" {wanted} is not there", column.name),
                    format!("ALTER TABLE {here} ADD COLUMN {} {wanted};", quote(&column.name)),
                    true,
                );
                continue;
            };
            if found.generated {
                add(
                    format!("column \"{}\" is generated there", found.name),
                    format!("ALTER TABLE {here} DROP COLUMN {};", quote(&found.name)),
                    false,
                );
            } else if found.always_identity {
                add(
                    format!("column \"{}\" is an identity that takes no values from us", found.name),
                    format!(
                        "ALTER TABLE {here} ALTER COLUMN {} SET GENERATED BY DEFAULT;",
                        quote(&found.name)
                    ),
                    false,
                );
            } else if !takes(&found.declared, &column.ty) {
                let widens = widens(&found.declared, &column.ty);
                let alter = format!("ALTER TABLE {here} ALTER COLUMN {} TYPE {wanted};", quote(&found.name));
                add(
                    format!(
                        "column \"{}\" is {} there; values of {} need {wanted}",
                        found.name, found.declared, column.ty
                    ),
                    if widens { alter } else { away.clone() },
                    widens,
                );
                // with one statement for each
                if widens && found.not_null && column.nullable && !self.is_in_key(&found.name) {
                    add(
                        format!("column \"{}\" is NOT NULL there; the source may hold NULL", found.name),
                        format!("ALTER TABLE {here} ALTER COLUMN {} DROP NOT NULL;", quote(&found.name)),
                        true,
                    );
                }
            } else if found.not_null && column.nullable && !self.is_in_key(&found.name) {
                add(
                    format!("column \"{}\" is NOT NULL there; the source may hold NULL", found.name),
                    format!("ALTER TABLE {here} ALTER COLUMN {} DROP NOT NULL;", quote(&found.name)),
                    true,
                );
            }
        }
        for found in &self.columns {
            let ours = table.schema.column_index(&found.name).is_some();
            if !ours && found.not_null && !found.default && !found.generated {
                add(
                    format!("column \"{}\" is not ours, NOT NULL and has no default", found.name),
                    format!("ALTER TABLE {here} ALTER COLUMN {} DROP NOT NULL;", quote(&found.name)),
                    !self.is_in_key(&found.name),
                );
            }
        }
        self.key_misfits(table, schema, &mut misfits);
        misfits
    }

    fn is_in_key(&self, column: &str) -> bool {
        self.uniques.iter().any(|u| u.columns.iter().flatten().any(|c| c == column))
    }

    fn key_misfits(&self, table: &TargetTable, schema: &str, misfits: &mut Vec<Misfit>) {
        let key: Vec<&Column> = table.key.iter().filter_map(|i| table.schema.columns.get(*i)).collect();
        let wanted = quote_all(key.iter().map(|c| &*c.name));
        let mut found = false;
        let before = misfits.len();
        for unique in &self.uniques {
            let mend = format!("{};", unique.dropping(&self.full, schema));
            let text = unique_text(unique);
            if table.is_multiset() {
                let what = format!("({text}) is unique there; ours has no key: equal rows are to be kept");
                misfits.push(Misfit { what, mend, widens: false });
                continue;
            }
            let is_key = unique.columns.len() == key.len()
                && key.iter().all(|k| unique.columns.iter().flatten().any(|c| same_name(c, &k.name)));
            if unique.partial || !is_key || found {
                let what = format!("({text}) is unique there, ours is the key ({wanted})");
                misfits.push(Misfit { what, mend, widens: false });
                continue;
            }
            found = true;
            if !unique.usable {
                let what =
                    format!("its key ({text}) is checked at the end of a transaction only, or not whole");
                misfits.push(Misfit { what, mend: mend.clone(), widens: false });
            }
            if unique.folds
                && let Some(column) = key.iter().find(|c| tells_spellings(&c.ty))
            {
                let what = format!(
                    "key column \"{}\" compares without regard to letter case or the like, which makes one key of several",
                    column.name
                );
                misfits.push(Misfit { what, mend, widens: false });
            }
        }
        if !table.is_multiset() && !found && misfits.len() == before {
            misfits.push(Misfit {
                what: format!("it has no key, ours is ({wanted})"),
                mend: format!("ALTER TABLE {} ADD PRIMARY KEY ({wanted});", self.full),
                widens: false,
            });
        }
    }
}

struct Misfit {
    what: String,
    mend: String,
    /// `mend` is a statement behind which the table can hold all that it could before.
    widens: bool,
}

fn unique_text(unique: &Unique) -> String {
    let names = unique.columns.iter().map(|c| c.as_deref().map_or("an expression".to_owned(), quote));
    names.collect::<Vec<_>>().join(", ")
}

/// Does the source hold two texts for different that a collation of the target may hold for equal?
fn tells_spellings(ty: &ColumnType) -> bool {
    ty.charset().is_some_and(|charset| !charset.collation.to_ascii_lowercase().contains("_ci"))
}

/// A name with an end, within the server's limit.
fn shortened(name: &str, end: &str) -> String {
    let room = super::sql::LONGEST_NAME - end.len();
    let cut = (0..=room.min(name.len())).rev().find(|i| name.is_char_boundary(*i)).unwrap_or(0);
    format!("{}{end}", &name[..cut])
}

/// The statements that make a table with its comments.
pub(crate) fn make_table(schema: &str, table: &TargetTable) -> String {
    let full = format!("{}.{}", quote(schema), quote(&table.name));
    let comments = std::iter::once((None, &table.schema.comment))
        .chain(table.schema.columns.iter().map(|c| (Some(&*c.name), &c.comment)))
        .filter(|(_, comment)| !comment.is_empty())
        .filter_map(|(column, comment)| comment_on(&full, column, comment));
    std::iter::once(create_table(schema, table)).chain(comments).collect::<Vec<_>>().join("; ")
}

/// The statement that sets a comment, of the table or of a column; `None` where the server cannot hold it.
pub(crate) fn comment_on(full: &str, column: Option<&str>, comment: &str) -> Option<String> {
    if odd_comment(comment).is_some() {
        return None;
    }
    let text = if comment.is_empty() { "NULL".to_owned() } else { literal(comment) };
    Some(match column {
        Some(column) => format!("COMMENT ON COLUMN {full}.{} IS {text}", quote(column)),
        None => format!("COMMENT ON TABLE {full} IS {text}"),
    })
}

/// Why a comment has no place here.
pub(crate) fn odd_comment(comment: &str) -> Option<&'static str> {
    comment.contains('\0').then_some("PostgreSQL holds no NUL")
}

/// What stands behind DEFAULT, of a column whose type has this name without length; `None` where the source has none.
///
/// A default at the target is for rows that somebody else inserts there. So it must mean there what it means at the
/// source: a constant, or the moment of the statement, cut to the column's digits, in the session's time zone. What PostgreSQL has no
/// value for is left out, and so is an expression, with the reason.
pub(crate) fn carried(column: &Column, base: &str, nul: NulPolicy) -> Result<Option<String>, String> {
    let Some(default) = &column.default else { return Ok(None) };
    if column.generated.is_some() || column.auto_increment {
        return Ok(None);
    }
    if let Some(moment) = moment_of(column) {
        let now = if matches!(column.ty, ColumnType::DateTime { .. }) {
            "statement_timestamp()::timestamp"
        } else {
            "statement_timestamp()"
        };
        return match moment? {
            0 => Ok(Some(format!("date_trunc('second', {now})"))),
            3 => Ok(Some(format!("date_trunc('milliseconds', {now})"))),
            6 => Ok(Some(now.to_owned())),
            _ => Err(format!("PostgreSQL has no moment cut as DEFAULT {default}")),
        };
    }
    let value = default_value(column)?;
    value_sql(&value, column, base, nul)
        .map_err(|_| format!("DEFAULT {default} is a value that PostgreSQL does not hold"))
}

/// A value as SQL; `None` for NULL.
pub(crate) fn value_sql(
    value: &Value<'_>,
    column: &Column,
    base: &str,
    nul: NulPolicy,
) -> Result<Option<String>, Unfit> {
    let text = Form::of(&column.ty).text(value, nul)?;
    let base = if base == "bit" { "bit varying" } else { base };
    Ok(text.map(|text| format!("{}::{base}", literal(&text))))
}

/// The statement that makes a table.
pub(crate) fn create_table(schema: &str, table: &TargetTable) -> String {
    let columns = &table.schema.columns;
    let mut parts: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| {
            let in_key = table.key.contains(&i);
            let not_null = if in_key { " NOT NULL" } else { "" };
            let declared = declared(&c.ty, in_key);
            // a NUL is refused in rows, or taken out as the sink is told: a default that has one is none
            let default = carried(c, &parts_of(&declared).0, NulPolicy::Error).ok().flatten();
            let default = default.map_or_else(String::new, |text| format!(" DEFAULT {text}"));
            format!("{} {declared}{not_null}{default}", quote(&c.name))
        })
        .collect();
    if !table.is_multiset() {
        let names = table.key.iter().filter_map(|i| columns.get(*i)).map(|c| &*c.name);
        parts.push(format!("PRIMARY KEY ({})", quote_all(names)));
    }
    format!("CREATE TABLE {}.{} ({})", quote(schema), quote(&table.name), parts.join(", "))
}
