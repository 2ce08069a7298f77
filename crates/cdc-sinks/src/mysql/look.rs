//! What is at the target: the shape of a table, and whether it takes our rows.

use super::conn::Link;
use super::default::{clauses, comment_clause};
use super::sql::{self, clipped, quote, quote_all};
use super::types::{Declared, Dialect, layout, normal, takes, widens};
use crate::default::not_widened;
use cdc_core::connector::TargetTable;
use cdc_core::schema::{Column, ColumnType, same_name};
use cdc_core::{Error, Result, codes};

/// The column that numbers the rows of a table without key that we make; left out by `SELECT *`. Without it a
/// row that is to go can only be found by reading the table, for each of them anew.
pub(crate) const ROW_NUMBER: &str = "_cdc_row";

type Answer<T> = mysql_async::Result<T>;

/// A table at the target.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) name: String,
    /// `BASE TABLE`, `VIEW`, `SEQUENCE`, ..
    kind: String,
    engine: String,
    pub(crate) comment: String,
    pub(crate) columns: Vec<FoundColumn>,
    uniques: Vec<Unique>,
}

/// A column of it.
#[derive(Debug, Clone)]
pub(crate) struct FoundColumn {
    pub(crate) name: String,
    /// `COLUMN_TYPE`.
    pub(crate) ty: String,
    pub(crate) charset: Option<String>,
    pub(crate) collation: Option<String>,
    pub(crate) not_null: bool,
    has_default: bool,
    /// A default of its own; not a NULL that the server shows for none.
    pub(crate) default: bool,
    pub(crate) comment: String,
    generated: bool,
    /// Nothing but a type, NULL or NOT NULL and a comment: what MODIFY COLUMN of a type and a comment keeps.
    plain: bool,
}

/// A unique index.
#[derive(Debug, Clone)]
struct Unique {
    index: String,
    /// `None` for an expression or a part of a column.
    columns: Vec<Option<String>>,
}

impl Found {
    /// Looks for a table by its very name.
    pub(crate) fn look(link: &mut Link, table: &str) -> Answer<Option<Found>> {
        let named = sql::text(table);
        let tables = link.texts(format!(
            "SELECT TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COMMENT FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {named}"
        ))?;
        // servers on some file systems compare names without regard to letter case
        let Some(row) = tables.iter().find(|r| r[0] == table).or(tables.first()) else { return Ok(None) };
        let [name, kind, engine, comment] = [0, 1, 2, 3].map(|i| row[i].clone());
        let named = sql::text(&name);
        let columns = link
            .rows(format!(
                "SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT, \
                 EXTRA, COLUMN_COMMENT FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {named} ORDER BY ORDINAL_POSITION"
            ))?
            .into_iter()
            .map(|row| {
                let mut values =
                    row.into_iter().map(|v| v.map(|v| String::from_utf8_lossy(&v).into_owned()));
                let mut next = || values.next().flatten();
                let (name, ty) = (next().unwrap_or_default(), next().unwrap_or_default());
                let (charset, collation) = (next(), next());
                let not_null = next().as_deref() == Some("NO");
                let default = next();
                let extra = next().unwrap_or_default().to_ascii_lowercase();
                let comment = next().unwrap_or_default();
                // MariaDB prints literals in quotes, so this is none of them
                let is_null = link.dialect.mariadb && default.as_deref() == Some("NULL");
                FoundColumn {
                    // MariaDB says of a column without default that NULL is it
                    plain: extra.is_empty() && default.as_deref().is_none_or(|d| d == "NULL"),
                    name,
                    ty,
                    charset: charset.map(|c| if c == "utf8" { "utf8mb3".to_owned() } else { c }),
                    collation,
                    not_null,
                    has_default: default.is_some() || extra.contains("auto_increment"),
                    default: default.is_some() && !is_null,
                    comment,
                    generated: extra.contains("generated") && !extra.contains("default_generated"),
                }
            })
            .collect();
        // an expression has no column's name
        let mut uniques: Vec<Unique> = Vec::new();
        for row in link.rows(format!(
            "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = {named} AND NON_UNIQUE = 0 \
             ORDER BY INDEX_NAME, SEQ_IN_INDEX"
        ))? {
            let text = |i: usize| {
                row.get(i).and_then(Option::as_ref).map(|v| String::from_utf8_lossy(v).into_owned())
            };
            let index = text(0).unwrap_or_default();
            let column = if text(2).is_some() { None } else { text(1) };
            match uniques.last_mut().filter(|u| u.index == index) {
                Some(unique) => unique.columns.push(column),
                None => uniques.push(Unique { index, columns: vec![column] }),
            }
        }
        Ok(Some(Found { name, kind, engine, comment, columns, uniques }))
    }

    /// A column of this name, in the spelling of the table.
    pub(crate) fn column(&self, name: &str) -> Option<&FoundColumn> {
        let exact = self.columns.iter().find(|c| c.name == name);
        exact.or_else(|| self.columns.iter().find(|c| same_name(&c.name, name)))
    }

    /// The columns of the primary key, in key order, but for our row number.
    pub(crate) fn primary_key(&self) -> Vec<&str> {
        let primary = self.uniques.iter().find(|u| u.index == "PRIMARY");
        let columns = primary.into_iter().flat_map(|u| u.columns.iter().flatten());
        columns.map(String::as_str).filter(|c| *c != ROW_NUMBER).collect()
    }

    /// Has it a primary key, be it our row number?
    pub(crate) fn has_primary_key(&self) -> bool {
        self.uniques.iter().any(|u| u.index == "PRIMARY")
    }

    pub(crate) fn has_row_number(&self) -> bool {
        let ours = |u: &Unique| matches!(&u.columns[..], [Some(c)] if c == ROW_NUMBER);
        self.uniques.iter().any(ours)
    }

    /// True if a key column compares by another collation than by its bytes, so that an upsert may meet a row whose
    /// key is spelled in another way.
    pub(crate) fn folds_keys(&self, dialect: &Dialect) -> bool {
        self.uniques.iter().flat_map(|u| u.columns.iter().flatten()).any(|c| {
            let collation = self.column(c).and_then(|c| c.collation.as_deref());
            collation.is_some_and(|c| c != dialect.exact() && c != "ascii_bin")
        })
    }

    pub(crate) fn has_rows(&self, link: &mut Link) -> Answer<bool> {
        let rows = link.rows(format!("SELECT 1 FROM {} LIMIT 1", quote(&self.name)))?;
        Ok(!rows.is_empty())
    }

    pub(crate) fn count(&self, link: &mut Link) -> Answer<u64> {
        let rows = link.texts(format!("SELECT COUNT(*) FROM {}", quote(&self.name)))?;
        Ok(rows.first().and_then(|r| r.first()).and_then(|n| n.parse().ok()).unwrap_or(0))
    }

    /// Its shape, for messages.
    pub(crate) fn shown(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|c| {
                let collation = c.collation.as_ref().map_or(String::new(), |c| format!(" COLLATE {c}"));
                let null = if c.not_null { " NOT NULL" } else { "" };
                format!("{} {}{collation}{null}", quote(&c.name), c.ty)
            })
            .collect();
        clipped(&format!("{} ({})", quote(&self.name), columns.join(", ")))
    }

    /// The statement that makes an empty table take the rows of this one, so that it can hold all that it could before; `None` if it does.
    ///
    /// # Errors
    /// `TARGET_SHAPE` if that is not enough, and nothing is to be done then.
    pub(crate) fn widening(&self, table: &TargetTable, dialect: &Dialect) -> Result<Option<String>> {
        let misfits = self.misfits(table, dialect);
        let left: Vec<String> =
            misfits.iter().filter(|m| m.widens.is_none()).map(|m| m.what.clone()).collect();
        if !left.is_empty() {
            return self.check(table, dialect).map(|()| None).map_err(|e| not_widened(e, &left));
        }
        let parts: Vec<String> = misfits.into_iter().filter_map(|m| m.widens).collect();
        Ok((!parts.is_empty()).then(|| format!("ALTER TABLE {} {}", quote(&self.name), parts.join(", "))))
    }

    fn is_unique(&self, column: &str) -> bool {
        self.uniques.iter().any(|u| u.columns.iter().flatten().any(|c| c == column))
    }

    /// Does it take the rows of this table?
    pub(crate) fn check(&self, table: &TargetTable, dialect: &Dialect) -> Result<()> {
        let misfits = self.misfits(table, dialect);
        let Some(first) = misfits.first() else { return Ok(()) };
        let more =
            if misfits.len() > 1 { format!(" (and {} more)", misfits.len() - 1) } else { String::new() };
        let mut error = Error::definite(
            codes::TARGET_SHAPE,
            format!("table \"{}\" at the target has another shape: {}{more}", table.name, first.what),
        );
        for misfit in &misfits[1..] {
            error = error.note(misfit.what.clone());
        }
        if let Ok(wanted) = create_table(table, dialect) {
            error = error.note(format!("wanted: {}", clipped(&wanted)));
        }
        error = error.note(format!("found:  {}", self.shown()));
        for misfit in misfits {
            error = error.help(misfit.mend);
        }
        Err(error)
    }

    fn misfits(&self, table: &TargetTable, dialect: &Dialect) -> Vec<Misfit> {
        let here = quote(&self.name);
        let away = format!(
            "RENAME TABLE {here} TO {}; -- then it is made anew",
            quote(&format!("{}_before", self.name))
        );
        let misfit = |what: String, mend: String| Misfit { what, mend, widens: None };
        if self.kind != "BASE TABLE" {
            let mend = format!("send the flow to another name than \"{}\"", self.name);
            return vec![misfit(format!("it is a {}, not a table of rows", self.kind), mend)];
        }
        if self.name != table.name {
            return vec![misfit(
                format!(
                    "it is spelled \"{}\", and this server tells no letter case apart in names",
                    self.name
                ),
                format!(
                    "send the flow to \"{}\", or to a name that differs in more than letter case",
                    self.name
                ),
            )];
        }
        let mut misfits = Vec::new();
        if !self.engine.eq_ignore_ascii_case("InnoDB") {
            misfits.push(misfit(
                format!("its engine is {}, which has no transactions", self.engine),
                format!("ALTER TABLE {here} ENGINE = InnoDB;"),
            ));
        }
        for (i, column) in table.schema.columns.iter().enumerate() {
            let wanted = super::types::declared(&column.ty, dialect, table.key.contains(&i));
            match self.column(&column.name) {
                None => misfits.push(Misfit {
                    widens: Some(format!("ADD COLUMN {} {} NULL", quote(&column.name), wanted.sql())),
                    ..misfit(
                        format!("column \"{}\" {} is not there", column.name, wanted.ty),
                        format!(
                            "ALTER TABLE {here} ADD COLUMN {} {} NULL;",
                            quote(&column.name),
                            wanted.sql()
                        ),
                    )
                }),
                Some(found) if found.generated => misfits.push(misfit(
                    format!("column \"{}\" is generated there", found.name),
                    format!("ALTER TABLE {here} DROP COLUMN {};", quote(&found.name)),
                )),
                Some(found) if !self.column_takes(found, i, table, dialect) => {
                    let in_key = table.key.contains(&i);
                    let not_null = in_key || (found.not_null && !column.nullable);
                    let does = found.plain && widens(&found.ty, &column.ty, dialect);
                    misfits.push(Misfit {
                        widens: does.then(|| found.modified(&wanted.sql(), not_null)),
                        ..misfit(
                            format!(
                                "column \"{}\" is {} there; values of {} need {}",
                                found.name,
                                found.ty,
                                column.ty,
                                wanted.sql()
                            ),
                            format!(
                                "ALTER TABLE {here} MODIFY COLUMN {} {}{};",
                                quote(&found.name),
                                wanted.sql(),
                                if not_null { " NOT NULL" } else { " NULL" }
                            ),
                        )
                    });
                }
                Some(found) if found.not_null && column.nullable && !table.key.contains(&i) => {
                    let modified = found.modified(&found.as_it_is(), false);
                    misfits.push(Misfit {
                        widens: (found.plain && !self.is_unique(&found.name)).then(|| modified.clone()),
                        ..misfit(
                            format!("column \"{}\" is NOT NULL there; the source may hold NULL", found.name),
                            format!("ALTER TABLE {here} {modified};"),
                        )
                    });
                }
                Some(_) => {}
            }
        }
        for found in &self.columns {
            let ours = table.schema.column_index(&found.name).is_some();
            if !ours && found.not_null && !found.has_default && !found.generated {
                let may = found.plain && !self.is_unique(&found.name);
                misfits.push(Misfit {
                    widens: may.then(|| found.modified(&found.as_it_is(), false)),
                    ..misfit(
                        format!("column \"{}\" is not ours, NOT NULL and has no default", found.name),
                        format!("ALTER TABLE {here} ALTER COLUMN {} SET DEFAULT ..;", quote(&found.name)),
                    )
                });
            }
        }
        misfits.extend(self.key_misfits(table, dialect, &away));
        misfits
    }

    fn column_takes(&self, found: &FoundColumn, i: usize, table: &TargetTable, dialect: &Dialect) -> bool {
        let ty = &table.schema.columns[i].ty;
        let charset = found.charset.as_deref();
        if takes(&found.ty, charset, ty, dialect) {
            return true;
        }
        // as the layout of a table that we make bends it: a long key, a wide row
        let bent = layout(table, dialect).ok().and_then(|all| all.into_iter().nth(i));
        bent.is_some_and(|d| {
            normal(&d.ty) == normal(&found.ty) && d.charset.as_ref().map(|(name, _)| &**name) == charset
        })
    }

    fn key_misfits(&self, table: &TargetTable, dialect: &Dialect, away: &str) -> Vec<Misfit> {
        let here = quote(&self.name);
        let key: Vec<&Column> = table.key.iter().filter_map(|i| table.schema.columns.get(*i)).collect();
        let wanted = quote_all(key.iter().map(|c| &*c.name));
        let mut misfits = Vec::new();
        let mut found = false;
        for unique in &self.uniques {
            let columns: Option<Vec<&str>> = unique.columns.iter().map(Option::as_deref).collect();
            if columns.as_deref() == Some(&[ROW_NUMBER]) {
                continue;
            }
            let text = match &columns {
                Some(columns) => quote_all(columns.iter().copied()),
                None => "an expression or a part of a column".to_owned(),
            };
            let mend = if unique.index == "PRIMARY" {
                away.to_owned()
            } else {
                format!("ALTER TABLE {here} DROP INDEX {};", quote(&unique.index))
            };
            let is_key = columns.as_ref().is_some_and(|columns| {
                columns.len() == key.len()
                    && !key.is_empty()
                    && key.iter().all(|k| columns.iter().any(|c| same_name(c, &k.name)))
            });
            if !is_key {
                let ours = if key.is_empty() {
                    "ours has no key: equal rows are to be kept".to_owned()
                } else {
                    format!("ours is the key ({wanted})")
                };
                misfits.push(Misfit {
                    what: format!("({text}) is unique there; {ours}"),
                    mend,
                    widens: None,
                });
                continue;
            }
            found = true;
            for column in key.iter() {
                let Some(there) = self.column(&column.name) else { continue };
                if !folds_no_more(there.collation.as_deref(), &column.ty, dialect) {
                    let collation = there.collation.as_deref().unwrap_or_default();
                    let what = format!(
                        "key column \"{}\" compares by {collation}, which makes one key of several",
                        there.name
                    );
                    let mend = format!(
                        "ALTER TABLE {here} MODIFY COLUMN {} {} CHARACTER SET utf8mb4 COLLATE {} NOT NULL;",
                        quote(&there.name),
                        there.ty,
                        dialect.exact()
                    );
                    misfits.push(Misfit { what, mend, widens: None });
                }
            }
        }
        if !key.is_empty() && !found && misfits.is_empty() {
            misfits.push(Misfit {
                what: format!("it has no key, ours is ({wanted})"),
                mend: format!("ALTER TABLE {here} ADD PRIMARY KEY ({wanted});"),
                widens: None,
            });
        }
        misfits
    }
}

struct Misfit {
    what: String,
    mend: String,
    /// The part of an ALTER TABLE behind which the table can hold all that it could before.
    widens: Option<String>,
}

impl FoundColumn {
    /// Its type and character set.
    fn as_it_is(&self) -> String {
        let charset = match (&self.charset, &self.collation) {
            (Some(charset), Some(collation)) => format!(" CHARACTER SET {charset} COLLATE {collation}"),
            _ => String::new(),
        };
        format!("{}{charset}", self.ty)
    }

    /// The part of an ALTER TABLE that gives it another type.
    fn modified(&self, ty: &str, not_null: bool) -> String {
        let null = if not_null { "NOT NULL" } else { "NULL" };
        let comment = match &*self.comment {
            "" => String::new(),
            comment => format!(" COMMENT {}", sql::text(comment)),
        };
        format!("MODIFY COLUMN {} {ty} {null}{comment}", quote(&self.name))
    }
}

/// Does the target's collation hold for equal only what the source's holds for equal?
fn folds_no_more(collation: Option<&str>, ty: &ColumnType, dialect: &Dialect) -> bool {
    let Some(collation) = collation else { return true };
    let source = ty.charset().map(|c| c.collation.to_ascii_lowercase()).unwrap_or_default();
    if collation == dialect.exact() || collation == source {
        return true;
    }
    // by bytes, but for spaces at the end, which a CHAR does not have
    let pads = !source.contains("nopad") && !source.contains("_0900_") && source != "binary";
    let no_spaces = matches!(
        ty,
        ColumnType::Char { .. }
            | ColumnType::Enum { .. }
            | ColumnType::Set { .. }
            | ColumnType::Uuid
            | ColumnType::Inet4
            | ColumnType::Inet6
            | ColumnType::Decimal { .. }
    );
    collation.ends_with("_bin") && (pads || no_spaces || collation.contains("nopad"))
}

/// The statement that makes a table.
pub(crate) fn create_table(table: &TargetTable, dialect: &Dialect) -> Result<String> {
    let declared = layout(table, dialect)?;
    let mut parts: Vec<String> = table
        .schema
        .columns
        .iter()
        .zip(&declared)
        .enumerate()
        .map(|(i, (c, d))| {
            format!("{}{}", column_sql(&c.name, d, table.key.contains(&i)), clauses(c, d, dialect))
        })
        .collect();
    if table.is_multiset() {
        parts.insert(0, row_number_sql());
    } else {
        let names = table.key.iter().filter_map(|i| table.schema.columns.get(*i)).map(|c| &*c.name);
        parts.push(format!("PRIMARY KEY ({})", quote_all(names)));
    }
    Ok(format!(
        "CREATE TABLE {} ({}) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4{}",
        quote(&table.name),
        parts.join(", "),
        comment_clause(&table.schema.comment)
    ))
}

pub(crate) fn row_number_sql() -> String {
    format!("{} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY", quote(ROW_NUMBER))
}

pub(crate) fn column_sql(name: &str, declared: &Declared, in_key: bool) -> String {
    format!("{} {} {}", quote(name), declared.sql(), if in_key { "NOT NULL" } else { "NULL" })
}
