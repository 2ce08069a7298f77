//! What a table at the target looks like, and whether it takes the rows of a flow.
//!
//! A table that is there before us may be anything. It is taken if every value would come out as it went in
//! and every key would be one row: a column for each of ours, under an affinity that keeps our storage
//! classes; no column that insists on a value that we do not have; one uniqueness rule, and that over our
//! key. A second unique index is refused, because an upsert could then fail on, or be turned into a change
//! of, another row than the one with our key. Triggers, other indexes and CHECKs are the user's business:
//! they run, and a CHECK that refuses a row stops the pipeline with that row.

use super::convert::is_identity;
use super::sql::{quote, quote_all};
use super::types::{Affinity, Form, Kind, declared};
use crate::default::not_widened;
use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::schema::{Column, ColumnType, same_name};
use cdc_core::{Error, codes};
use rusqlite::{Connection, OptionalExtension, Result as Sqlite, params};

/// A table as SQLite has it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// As it is spelled there.
    pub(crate) name: String,
    /// `table`, `view`, `virtual`, `shadow`.
    pub(crate) kind: String,
    pub(crate) without_rowid: bool,
    pub(crate) strict: bool,
    pub(crate) columns: Vec<FoundColumn>,
    uniques: Vec<Unique>,
    /// The statement that made it.
    pub(crate) sql: String,
}

#[derive(Debug, Clone)]
pub(crate) struct FoundColumn {
    pub(crate) name: String,
    pub(crate) declared: String,
    pub(crate) not_null: bool,
    pub(crate) default: Option<String>,
    /// Its place in the primary key, from 1; 0: none.
    pub(crate) key_place: i64,
    pub(crate) generated: bool,
}

#[derive(Debug, Clone)]
struct Unique {
    index: String,
    /// Column and collation; `None` for an expression.
    columns: Vec<(Option<String>, String)>,
    partial: bool,
    /// True for an index made by CREATE INDEX, which can be dropped.
    droppable: bool,
}

impl Found {
    /// Looks at a table; `None` if there is none of this name.
    pub(crate) fn look(db: &Connection, name: &str) -> Sqlite<Option<Found>> {
        let list = "SELECT name, type, wr, strict FROM pragma_table_list(?1) WHERE schema = 'main'";
        let row = db.prepare_cached(list)?.query_row([name], |r| {
            Ok((r.get::<_, String>(0)?, r.get(1)?, r.get::<_, i64>(2)? != 0, r.get::<_, i64>(3)? != 0))
        });
        let Some((name, kind, without_rowid, strict)) = row.optional()? else { return Ok(None) };
        let info = "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1)";
        let columns = db
            .prepare_cached(info)?
            .query_map([&name], |r| {
                Ok(FoundColumn {
                    name: r.get(0)?,
                    declared: r.get::<_, Option<String>>(1)?.unwrap_or_default(),
                    not_null: r.get::<_, i64>(2)? != 0,
                    default: r.get(3)?,
                    key_place: r.get(4)?,
                    generated: r.get::<_, i64>(5)? > 1,
                })
            })?
            .collect::<Sqlite<Vec<_>>>()?;
        let indexes = db
            .prepare_cached(
                "SELECT name, origin, partial FROM pragma_index_list(?1) WHERE \"unique\" ORDER BY seq",
            )?
            .query_map([&name], |r| {
                Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?, r.get::<_, i64>(2)? != 0))
            })?
            .collect::<Sqlite<Vec<_>>>()?;
        let mut uniques = Vec::new();
        for (index, origin, partial) in indexes {
            let columns = db
                .prepare_cached("SELECT name, coll FROM pragma_index_xinfo(?1) WHERE key ORDER BY seqno")?
                .query_map([&index], |r| {
                    Ok((r.get(0)?, r.get::<_, Option<String>>(1)?.unwrap_or_else(|| "BINARY".to_owned())))
                })?
                .collect::<Sqlite<Vec<_>>>()?;
            uniques.push(Unique { index, columns, partial, droppable: origin == "c" });
        }
        let sql = db
            .prepare_cached("SELECT sql FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1")?
            .query_row([&name], |r| r.get::<_, Option<String>>(0))
            .optional()?
            .flatten()
            .unwrap_or_default();
        Ok(Some(Found { name, kind, without_rowid, strict, columns, uniques, sql }))
    }

    /// A column of this name, in the spelling of the table.
    pub(crate) fn column(&self, name: &str) -> Option<&FoundColumn> {
        let exact = self.columns.iter().find(|c| c.name == name);
        exact.or_else(|| self.columns.iter().find(|c| same_name(&c.name, name)))
    }

    /// The columns of the primary key, in key order.
    pub(crate) fn primary_key(&self) -> Vec<&FoundColumn> {
        let mut key: Vec<&FoundColumn> = self.columns.iter().filter(|c| c.key_place > 0).collect();
        key.sort_by_key(|c| c.key_place);
        key
    }

    /// True if a key column compares by another collation than by its bytes, so that an upsert may meet a
    /// row whose key is spelled in another way.
    pub(crate) fn folds_keys(&self) -> bool {
        self.uniques.iter().flat_map(|u| &u.columns).any(|(_, c)| !c.eq_ignore_ascii_case("BINARY"))
    }

    /// True if there is a row in it.
    pub(crate) fn has_rows(&self, db: &Connection) -> Sqlite<bool> {
        db.query_row(&format!("SELECT EXISTS (SELECT 1 FROM {})", quote(&self.name)), [], |r| r.get(0))
    }

    pub(crate) fn count(&self, db: &Connection) -> Sqlite<i64> {
        db.query_row(&format!("SELECT COUNT(*) FROM {}", quote(&self.name)), [], |r| r.get(0))
    }

    /// What makes an empty table take the rows of this one, each so that it can hold all that it could before.
    ///
    /// # Errors
    /// `TARGET_SHAPE` if that is not enough, and nothing is to be done then.
    pub(crate) fn widening(&self, table: &TargetTable) -> Result<Vec<TargetSchemaChange>, Error> {
        let misfits = self.misfits(table);
        let left: Vec<String> =
            misfits.iter().filter(|m| m.widens.is_none()).map(|m| m.what.clone()).collect();
        if left.is_empty() {
            return Ok(misfits.into_iter().filter_map(|m| m.widens).collect());
        }
        self.check(table).map(|()| Vec::new()).map_err(|e| not_widened(e, &left))
    }

    /// Does it take the rows of this table?
    pub(crate) fn check(&self, table: &TargetTable) -> Result<(), Error> {
        let misfits = self.misfits(table);
        if misfits.is_empty() {
            return Ok(());
        }
        let more =
            if misfits.len() > 1 { format!(" (and {} more)", misfits.len() - 1) } else { String::new() };
        let mut error = Error::definite(
            codes::TARGET_SHAPE,
            format!("table \"{}\" at the target has another shape: {}{more}", table.name, misfits[0].what),
        );
        for misfit in &misfits[1..] {
            error = error.note(misfit.what.clone());
        }
        error = error.note(format!("wanted: {}", create_table(&table.name, table)));
        error = error.note(format!("found:  {}", self.sql));
        for misfit in misfits {
            error = error.help(misfit.mend);
        }
        Err(error)
    }

    fn misfits(&self, table: &TargetTable) -> Vec<Misfit> {
        let here = quote(&self.name);
        let away = format!(
            "ALTER TABLE {here} RENAME TO {}; -- then it is made anew",
            quote(&format!("{}_before", self.name))
        );
        let misfit = |what: String, mend: String| Misfit { what, mend, widens: None };
        if self.kind != "table" {
            let mend = format!("send the flow to another name than \"{}\"", self.name);
            return vec![misfit(format!("it is a {}, not a table of rows", self.kind), mend)];
        }
        if self.name != table.name {
            return vec![misfit(
                format!("it is spelled \"{}\", and SQLite tells no letter case apart in names", self.name),
                format!(
                    "send the flow to \"{}\", or to a name that differs in more than letter case",
                    self.name
                ),
            )];
        }
        let mut misfits = Vec::new();
        for column in &table.schema.columns {
            match self.column(&column.name) {
                None => misfits.push(Misfit {
                    widens: Some(TargetSchemaChange::AddColumn {
                        table: self.name.clone(),
                        column: column.clone(),
                        implicit: false,
                        keeps_default: true,
                    }),
                    ..misfit(
                        format!("column \"{}\" {} is not there", column.name, declared(&column.ty)),
                        format!(
                            "ALTER TABLE {here} ADD COLUMN {} {};",
                            quote(&column.name),
                            declared(&column.ty)
                        ),
                    )
                }),
                Some(found) if found.generated => misfits.push(misfit(
                    format!("column \"{}\" is generated there", found.name),
                    format!("ALTER TABLE {here} DROP COLUMN {};", quote(&found.name)),
                )),
                Some(found) if !self.takes(found, &column.ty) => misfits.push(Misfit {
                    widens: widens(Kind::of(&found.declared), &column.ty).then(|| {
                        TargetSchemaChange::AlterColumnType {
                            table: self.name.clone(),
                            column: found.name.clone(),
                            ty: column.ty.clone(),
                            was: None,
                        }
                    }),
                    ..misfit(
                        format!(
                            "column \"{}\" is {} there; values of {} need {}",
                            found.name,
                            if found.declared.is_empty() { "of no type" } else { &found.declared },
                            column.ty,
                            declared(&column.ty)
                        ),
                        away.clone(),
                    )
                }),
                Some(found) if found.not_null && column.nullable && found.key_place == 0 => {
                    misfits.push(misfit(
                        format!("column \"{}\" is NOT NULL there; the source may hold NULL", found.name),
                        away.clone(),
                    ));
                }
                Some(_) => {}
            }
        }
        for found in &self.columns {
            let ours = table.schema.column_index(&found.name).is_some();
            if !ours && found.not_null && found.default.is_none() && !found.generated {
                misfits.push(misfit(
                    format!("column \"{}\" is not ours, NOT NULL and has no default", found.name),
                    format!("ALTER TABLE {here} DROP COLUMN {};", quote(&found.name)),
                ));
            }
        }
        misfits.extend(self.key_misfits(table, &away));
        misfits
    }

    /// A name under which the table shows its row numbers; `None` if columns hide all three, or it has none.
    pub(crate) fn row_number(&self) -> Option<&'static str> {
        let hidden = |name: &str| self.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
        ROW_NUMBERS.into_iter().find(|name| !self.without_rowid && !hidden(name))
    }

    /// What keeps a table from holding equal rows, or from giving one of them back.
    fn multiset_misfits(&self, away: &str) -> Vec<Misfit> {
        let mut misfits = Vec::new();
        let primary = quote_all(self.primary_key().iter().map(|c| &*c.name));
        if !primary.is_empty() {
            let what = format!("its key is ({primary}), ours has none: equal rows are to be kept");
            misfits.push(Misfit { what, mend: away.to_owned(), widens: None });
        }
        for unique in self.uniques.iter().filter(|u| u.droppable || primary.is_empty()) {
            let columns: Vec<&str> = unique.columns.iter().filter_map(|(c, _)| c.as_deref()).collect();
            let what = format!(
                "({}) is unique there; ours has no key: equal rows are to be kept",
                quote_all(columns)
            );
            let mend = if unique.droppable {
                format!("DROP INDEX {};", quote(&unique.index))
            } else {
                away.to_owned()
            };
            misfits.push(Misfit { what, mend, widens: None });
        }
        if misfits.is_empty() && self.row_number().is_none() {
            let what =
                format!("its columns hide the row number under all of its names: {}", ROW_NUMBERS.join(", "));
            misfits.push(Misfit {
                what,
                mend: "give one of them another name in the flow: rename (..)".to_owned(),
                widens: None,
            });
        }
        misfits
    }

    fn key_misfits(&self, table: &TargetTable, away: &str) -> Vec<Misfit> {
        if table.is_multiset() {
            return self.multiset_misfits(away);
        }
        let key: Vec<&Column> = table.key.iter().filter_map(|i| table.schema.columns.get(*i)).collect();
        let wanted = quote_all(key.iter().map(|c| &*c.name));
        let is_key = |columns: &[&str]| {
            columns.len() == key.len() && key.iter().all(|k| columns.iter().any(|c| same_name(c, &k.name)))
        };
        let mut misfits = Vec::new();
        let mut found = false;
        // An INTEGER PRIMARY KEY is the row's number and has no index of its own.
        let primary: Vec<&str> = self.primary_key().iter().map(|c| &*c.name).collect();
        let listed = self.uniques.iter().any(|u| !u.partial && same_columns(u, &primary));
        if !primary.is_empty() && !listed {
            if is_key(&primary) {
                found = true;
            } else {
                let what = format!("its key is ({}), ours is ({wanted})", quote_all(primary));
                misfits.push(Misfit { what, mend: away.to_owned(), widens: None });
            }
        }
        for unique in &self.uniques {
            let columns: Option<Vec<&str>> = unique.columns.iter().map(|(c, _)| c.as_deref()).collect();
            let text = match &columns {
                Some(columns) => quote_all(columns.iter().copied()),
                None => "an expression".to_owned(),
            };
            let mend = if unique.droppable {
                format!("DROP INDEX {};", quote(&unique.index))
            } else {
                away.to_owned()
            };
            if unique.partial || !columns.is_some_and(|c| is_key(&c)) {
                let what = format!("({text}) is unique there, ours is the key ({wanted})");
                misfits.push(Misfit { what, mend, widens: None });
                continue;
            }
            found = true;
            for (name, collation) in &unique.columns {
                let column = key.iter().find(|k| name.as_deref().is_some_and(|n| same_name(n, &k.name)));
                if !column.is_some_and(|c| folds_no_more(collation, &c.ty)) {
                    let name = name.as_deref().unwrap_or_default();
                    let what = format!(
                        "key column \"{name}\" compares by {collation}, which makes one key of several"
                    );
                    misfits.push(Misfit { what, mend: mend.clone(), widens: None });
                }
            }
        }
        if !found && misfits.is_empty() {
            misfits.push(Misfit {
                what: format!("it has no key, ours is ({wanted})"),
                mend: format!(
                    "CREATE UNIQUE INDEX {} ON {} ({wanted});",
                    quote(&format!("{}_key", self.name)),
                    quote(&self.name)
                ),
                widens: None,
            });
        }
        misfits
    }

    /// Does a column keep values of this type as they are?
    pub(crate) fn takes(&self, found: &FoundColumn, ty: &ColumnType) -> bool {
        let form = Form::of(ty);
        if self.strict {
            return form.fits_strict(&found.declared);
        }
        let (there, ours) = (Kind::of(&found.declared), Kind::of(&declared(ty)));
        there == ours || (!there.is_exact() && form.survives(Affinity::of(&found.declared)))
    }
}

/// The names of SQLite's row number; a column of such a name hides it.
pub(crate) const ROW_NUMBERS: [&str; 3] = ["rowid", "oid", "_rowid_"];

struct Misfit {
    what: String,
    mend: String,
    /// What mends it so that the table can hold all that it could before.
    widens: Option<TargetSchemaChange>,
}

fn same_columns(unique: &Unique, columns: &[&str]) -> bool {
    unique.columns.len() == columns.len()
        && columns.iter().all(|c| unique.columns.iter().any(|(u, _)| u.as_deref() == Some(c)))
}

/// Does a column of the type that we declare for `ty` hold all that one of this kind could?
fn widens(found: Kind, ty: &ColumnType) -> bool {
    match (found, Kind::of(&declared(ty))) {
        (Kind::Foreign, _) => false,
        // a BIGINT has 19 digits
        (Kind::Int | Kind::Year, Kind::Decimal(_)) => {
            matches!(ty, ColumnType::Decimal { precision, scale, .. } if precision - scale >= 19)
        }
        _ => is_identity(found, ty),
    }
}

/// Does the target's collation hold for equal only what the source's holds for equal? NOCASE folds the 26
/// ASCII letters, as every case-insensitive collation of the source does except those for Turkish.
fn folds_no_more(collation: &str, ty: &ColumnType) -> bool {
    if collation.eq_ignore_ascii_case("BINARY") {
        return true;
    }
    let source = ty.charset().map(|c| c.collation.to_ascii_lowercase()).unwrap_or_default();
    let ignores_case = source.ends_with("_ci") && !source.contains("_tr_") && !source.contains("turkish");
    collation.eq_ignore_ascii_case("NOCASE") && ignores_case
}

/// The statement that makes a table. A single integer key becomes the row's number, SQLite's fastest key.
/// Other keys have an index beside the rows, not WITHOUT ROWID: with rows of 200 bytes under scattered text
/// keys that measured 341,000 inserts a second against 73,000, since the rows themselves are appended.
pub(crate) fn create_table(name: &str, table: &TargetTable) -> String {
    let columns: Vec<NewColumn> = table
        .schema
        .columns
        .iter()
        .enumerate()
        .map(|(i, c)| NewColumn {
            name: c.name.to_string(),
            declared: declared(&c.ty),
            not_null: table.key.contains(&i),
            default: None,
        })
        .collect();
    create(name, &columns, &table.key, false)
}

/// A column of a table to be made.
pub(crate) struct NewColumn {
    pub(crate) name: String,
    pub(crate) declared: String,
    pub(crate) not_null: bool,
    pub(crate) default: Option<String>,
}

pub(crate) fn create(name: &str, columns: &[NewColumn], key: &[usize], without_rowid: bool) -> String {
    let row_number = match key {
        [i] if !without_rowid => columns.get(*i).filter(|c| c.declared == "INTEGER").map(|_| *i),
        _ => None,
    };
    let mut parts: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(i, c)| {
            let mut part = format!("{} {}", quote(&c.name), c.declared);
            if let Some(default) = &c.default {
                part.push_str(&format!(" DEFAULT ({default})"));
            }
            if row_number == Some(i) {
                part.push_str(" PRIMARY KEY");
            } else if c.not_null {
                part.push_str(" NOT NULL");
            }
            part
        })
        .collect();
    if row_number.is_none() && !key.is_empty() {
        let names = key.iter().filter_map(|i| columns.get(*i)).map(|c| &*c.name);
        parts.push(format!("PRIMARY KEY ({})", quote_all(names)));
    }
    let suffix = if without_rowid { " WITHOUT ROWID" } else { "" };
    format!("CREATE TABLE {} ({}){suffix}", quote(name), parts.join(", "))
}

/// The pipelines and sinks that write a table, as `_cdc_tables` says.
pub(crate) fn owners(db: &Connection, table: &str) -> Sqlite<Vec<(String, String)>> {
    if Found::look(db, super::TABLES)?.is_none() {
        return Ok(Vec::new());
    }
    db.prepare_cached("SELECT pipeline, sink FROM _cdc_tables WHERE name = ?1 ORDER BY 1, 2")?
        .query_map(params![table], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect()
}
