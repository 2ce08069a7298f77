//! Rows into a table: many in a statement, one round trip for all of them.
//!
//! **Changes by key.** An upsert is `INSERT .. SELECT .. ON CONFLICT (key) DO UPDATE`, a delete `DELETE .. USING`. The
//! rows of a statement travel as one array a column (`unnest($1, $2, ..)`) and are cast to the columns' types by the
//! server: one prepared statement for any number of rows, and a tick of one row costs one round trip. Key columns are set too where
//! the target compares keys by another rule than by their bytes: else the old spelling would stay.
//!
//! **Many upserts** ([`STAGED_ROWS`]) go by COPY into a temporary table of the session. From there `UPDATE .. FROM .. RETURNING` changes
//! the rows that are there and says which these are; the others are new, whatever the source says, and go as such. That is right because
//! nobody else writes: which rows are there does not change in between. `ON CONFLICT` from the temporary table would do it in one statement,
//! but locks each row and says so in the log of the server in front of each update, and inserts one by one what COPY inserts by the page.
//! Measured at PostgreSQL 17, 20,000 rows of 200 bytes all over a million: 234 to 318 ms instead of 300 to 485 where all are there, and
//! 47 instead of 61 ms where none is. `ON CONFLICT` it is still where keys are compared by another rule, where a table has nothing but its key, and
//! where the key refuses a row although it was new.
//!
//! **Rows nobody has seen before** (of a snapshot, or inserted) go by COPY straight into the table, which is faster by
//! far than any statement. That they are new is what the source says; the target may know better (a chunk of a snapshot
//! may bring a row that the log has brought already). So COPY stands behind a savepoint: if the key refuses a row, it
//! is taken back and all of them are merged as above; after that the table is merged into for a while before COPY is
//! tried again.
//!
//! **Updates in part.** Where columns of a row are absent, the row is there and keeps them: `UPDATE .. FROM unnest`,
//! the rows grouped by the columns that they have. Rows that move to another key are read in front of the tick's
//! changes, since others of them may take their place, and are written as a whole under the new one.
//!
//! **A table without key.** New rows go by COPY. A row that goes is found by the text of all its columns, as the server
//! prints them (-0 is not 0 then, and a text is no other spelling of it); its place (`ctid`) is deleted. The columns
//! themselves are compared too, which changes nothing but lets an index help. As many rows go as are to go, and no row
//! less: one that is not there is an error, the target is not what we left there.
//!
//! **A row that the target refuses** fails the statement of thousands that it was in. The statement is then tried
//! again in a transaction that is given up in any case, in halves, until the row is found.

use super::array::Array;
use super::conn::{Conn, Raw};
use super::error::{Errors, Pg, is_answer, is_state};
use super::look::Found;
use super::options::NulPolicy;
use super::sql::quote;
use super::types::{Form, Unfit, push_hex};
use crate::pending::Change;
use cdc_core::connector::{TargetChange, TargetTable};
use cdc_core::{Error, Row, Value, codes};
use std::collections::HashMap;
use std::sync::Arc;
use tokio_postgres::Statement;
use tokio_postgres::types::Type;

/// Rows of a statement.
const MOST_ROWS: usize = 20_000;
/// Bytes of a statement's rows; one larger row goes alone.
const MOST_BYTES: usize = 8 << 20;
/// A message to the server or from it has a gigabyte at most, and bytes are written as two digits each.
const LARGEST_ROW: usize = 500_000_000;
/// Rows from which COPY pays for its savepoint.
const COPY_ROWS: usize = 50;
/// Upserts from which a staging table pays for its statements.
const STAGED_ROWS: usize = 500;
/// Prepared statements by the columns that are there.
const MASKS: usize = 200;
/// Batches that are merged after a COPY that met a row that was there.
const PAUSE: u32 = 16;

/// How rows of a table are written under one schema.
pub(crate) struct Writer {
    pub(crate) table: Arc<TargetTable>,
    full: String,
    columns: Vec<Column>,
    folds: bool,
    nul: NulPolicy,
    upsert: Option<Statement>,
    delete: Option<Statement>,
    /// Selects keys whose row comes from another source table.
    whose: Option<Statement>,
    /// The staging table is there.
    staged: bool,
    /// By the columns that are there, as a row of a table without key has them, or an update in part.
    by_mask: HashMap<Vec<bool>, Statement>,
    /// Batches until COPY is tried again.
    pause: u32,
}

#[derive(Debug, Clone)]
struct Column {
    /// In quotes.
    name: String,
    form: Form,
    /// The type that a text is cast to.
    cast: String,
    in_key: bool,
}

/// What keeps rows from being written.
pub(crate) enum Refusal {
    /// What the server said to a statement.
    Said(Pg),
    /// A value has no place.
    Value(Error),
}

impl From<Pg> for Refusal {
    fn from(e: Pg) -> Refusal {
        Refusal::Said(e)
    }
}

/// What a statement does, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Deleting,
    Writing,
}

impl Column {
    fn element(&self) -> Type {
        if self.form == Form::Bytes { Type::BYTEA } else { Type::TEXT }
    }

    fn array_type(&self) -> Type {
        if self.form == Form::Bytes { Type::BYTEA_ARRAY } else { Type::TEXT_ARRAY }
    }

    /// `u.c3::integer`
    fn cast_of(&self, name: &str) -> String {
        match self.cast.as_str() {
            "text" | "bytea" => name.to_owned(),
            cast => format!("{name}::{cast}"),
        }
    }
}

impl Writer {
    /// For a table that was checked to take the rows.
    pub(crate) fn new(table: &Arc<TargetTable>, found: &Found, nul: NulPolicy) -> Writer {
        let columns = table.schema.columns.iter().enumerate().map(|(i, c)| {
            let there = found.column(&c.name);
            // A cast to `bit` would cut off all bits but one.
            let cast = match there.map(|f| f.base.as_str()) {
                Some("bit") => "bit varying",
                Some(base) => base,
                None => "text",
            };
            Column {
                name: quote(there.map_or(&c.name, |f| &f.name)),
                form: Form::of(&c.ty),
                cast: cast.to_owned(),
                in_key: table.key.contains(&i),
            }
        });
        Writer {
            columns: columns.collect(),
            table: table.clone(),
            full: found.full.clone(),
            folds: found.folds_keys(),
            nul,
            upsert: None,
            delete: None,
            whose: None,
            staged: false,
            by_mask: HashMap::new(),
            pause: 0,
        }
    }

    /// Looks at a change before it waits: what does not fit is said at once.
    pub(crate) fn check(&self, change: &TargetChange) -> Result<(), Error> {
        let width = if self.table.is_multiset() { self.columns.len() } else { self.table.key.len() };
        if change.key.len() != width {
            return Err(self.broken(&format!("key {:?} has not {width} values", change.key)));
        }
        if let Some(row) = &change.row
            && row.len() != self.columns.len()
        {
            return Err(self.broken(&format!(
                "{row:?} has {} values instead of {}",
                row.len(),
                self.columns.len()
            )));
        }
        let bytes = change.row.as_ref().unwrap_or(&change.key).as_bytes().len();
        if bytes > LARGEST_ROW {
            return Err(Error::definite(
                codes::TARGET_VALUE,
                format!("table \"{}\": a row of {bytes} bytes is too large for PostgreSQL", self.table.name),
            )
            .note(format!("key: {}", clipped(&format!("{:?}", self.shown_key(change)))))
            .help("leave its largest column out of the flow"));
        }
        if !self.table.is_multiset() && change.key.iter().any(|v| v.is_null()) {
            let row = change.row.as_ref().unwrap_or(&change.key);
            return Err(Error::definite(
                codes::KEY_COLUMN_NULL,
                format!("table \"{}\": NULL in a key column", self.table.name),
            )
            .note(format!("row: {}", clipped(&format!("{row:?}"))))
            .help("choose another key for the flow: key (..)"));
        }
        Ok(())
    }

    /// What tells a row from others in a message; of a table without key, its beginning.
    fn shown_key(&self, change: &TargetChange) -> Row {
        if self.table.is_multiset() { Row::pack(change.key.iter().take(1)) } else { change.key.clone() }
    }

    /// Writes what has waited into the open transaction.
    pub(crate) fn flush(
        &mut self,
        conn: &Conn,
        changes: Vec<(Row, Change)>,
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let (mut gone, mut fresh, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut fewer = Vec::new();
        for (key, change) in changes {
            match change {
                Change::Delete => gone.push(key),
                Change::Upsert(row, true) => fresh.push(row),
                Change::Upsert(row, false) => rows.push(row),
                Change::Count(n) if n < 0 => fewer.push((key, n.unsigned_abs())),
                Change::Count(n) => fresh.extend((0..n).map(|_| key.clone())),
            }
        }
        if !fewer.is_empty() {
            self.take_away(conn, &fewer, errors)?;
        }
        let deleted = self.delete(conn, &gone);
        self.or_blame(deleted, conn, Doing::Deleting, &gone, errors)?;
        if self.table.is_multiset() {
            let copied = self.copy(conn, &self.full, &self.names(), &fresh, false).map(drop);
            return self.or_blame(copied, conn, Doing::Writing, &fresh, errors);
        }
        if rows.len() >= STAGED_ROWS && conn.can_stage && self.updates_staged() {
            let updated = self.update_staged(conn, &rows);
            let there = self.or_blame(updated, conn, Doing::Writing, &rows, errors)?;
            let new = rows.drain(..).zip(there).filter(|(_, there)| !there);
            fresh.extend(new.map(|(row, _)| row));
        }
        let is_copied = fresh.len() >= COPY_ROWS && self.copies();
        if is_copied {
            let copied = self.copy_if_new(conn, &fresh);
            if self.or_blame(copied, conn, Doing::Writing, &fresh, errors)? {
                fresh.clear();
            }
        }
        rows.append(&mut fresh);
        let merged = if rows.len() >= STAGED_ROWS && conn.can_stage {
            self.merge_staged(conn, &rows)
        } else {
            self.merge(conn, &rows)
        };
        self.or_blame(merged, conn, Doing::Writing, &rows, errors)
    }

    /// Is COPY tried now?
    fn copies(&mut self) -> bool {
        let now = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        now
    }

    /// COPY behind a savepoint; false if a row was there, and nothing is written then.
    fn copy_if_new(&mut self, conn: &Conn, rows: &[Row]) -> Result<bool, Refusal> {
        conn.run("SAVEPOINT _cdc_copy")?;
        match self.copy(conn, &self.full, &self.names(), rows, false) {
            Ok(_) => {
                conn.run("RELEASE SAVEPOINT _cdc_copy")?;
                Ok(true)
            }
            Err(Refusal::Said(e)) if is_state(&e, "23505") => {
                conn.run("ROLLBACK TO SAVEPOINT _cdc_copy; RELEASE SAVEPOINT _cdc_copy")?;
                self.pause = PAUSE;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// COPY into columns of a table; the last one is the number of the row here, if it is asked for.
    fn copy(
        &self,
        conn: &Conn,
        table: &str,
        columns: &str,
        rows: &[Row],
        numbered: bool,
    ) -> Result<u64, Refusal> {
        if rows.is_empty() {
            return Ok(0);
        }
        let sql = format!("COPY {table} ({columns}) FROM STDIN");
        let mut unfit = None;
        let mut rest = rows.iter().enumerate();
        let mut scratch = Vec::new();
        let copied = conn.copy_in(&sql, |out| {
            let Some((n, row)) = rest.next() else { return Some(false) };
            match self.push_line(row, &mut scratch, out) {
                Ok(()) => {
                    if numbered {
                        out.extend_from_slice(format!("\t{n}").as_bytes());
                    }
                    out.push(b'\n');
                    Some(true)
                }
                Err(error) => {
                    unfit = Some(error);
                    None
                }
            }
        });
        match (unfit, copied) {
            (Some(error), _) => Err(Refusal::Value(error)),
            (None, copied) => Ok(copied?),
        }
    }

    /// Appends a row in the text form of COPY, without the line's end.
    fn push_line(&self, row: &Row, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), Error> {
        for (i, (value, column)) in row.iter().zip(&self.columns).enumerate() {
            if i > 0 {
                out.push(b'\t');
            }
            scratch.clear();
            if !self.encode(i, &value, row, scratch)? {
                out.extend_from_slice(b"\\N");
            } else if column.form == Form::Bytes {
                out.extend_from_slice(b"\\\\x");
                push_hex(out, scratch);
            } else {
                push_escaped(out, scratch);
            }
        }
        Ok(())
    }

    /// Can rows be updated from the staging table? There is something to set then, a key is one row there as it is here, and its index
    /// finds it: not where `bit` is compared with `bit varying`.
    fn updates_staged(&self) -> bool {
        !self.folds
            && self.columns.iter().any(|c| !c.in_key)
            && !self.columns.iter().any(|c| c.in_key && c.cast == "bit varying")
    }

    /// Updates those of the rows that are there; says of each whether it is.
    fn update_staged(&mut self, conn: &Conn, rows: &[Row]) -> Result<Vec<bool>, Refusal> {
        let stage = self.stage(conn, rows)?;
        let set: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, c)| !c.in_key)
            .map(|(i, c)| format!("{} = s.c{i}", c.name))
            .collect();
        let key: Vec<String> =
            self.table.key.iter().map(|i| format!("t.{} = s.c{i}", self.columns[*i].name)).collect();
        // Of a table that has just been filled the server knows nothing. By the index of the key each row is found at once, however
        // large the target is; any other way reads all of it.
        let found = conn.rows(&format!(
            "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
             UPDATE {} AS t SET {} FROM {stage} AS s WHERE {} RETURNING s.n;
             SET LOCAL enable_hashjoin = DEFAULT; SET LOCAL enable_mergejoin = DEFAULT",
            self.full,
            set.join(", "),
            key.join(" AND ")
        ))?;
        let mut there = vec![false; rows.len()];
        for n in found.iter().filter_map(|row| row.first()?.as_deref()?.parse::<usize>().ok()) {
            if let Some(there) = there.get_mut(n) {
                *there = true;
            }
        }
        Ok(there)
    }

    /// Upserts rows by way of the staging table.
    fn merge_staged(&mut self, conn: &Conn, rows: &[Row]) -> Result<(), Refusal> {
        let stage = self.stage(conn, rows)?;
        let names: Vec<String> = (0..self.columns.len()).map(|i| format!("c{i}")).collect();
        conn.run(&format!(
            "INSERT INTO {} AS _cdc_target ({}) SELECT {} FROM {stage} {}",
            self.full,
            self.names(),
            names.join(", "),
            self.on_conflict()
        ))?;
        Ok(())
    }

    /// Puts rows, with their numbers, into a table that the session has for itself and that each commit empties; gives its name.
    fn stage(&mut self, conn: &Conn, rows: &[Row]) -> Result<String, Refusal> {
        let stage = format!("pg_temp.{}", quote(&stage_name(&self.table.name)));
        if self.staged {
            // of a part before, in the same transaction
            conn.run(&format!("TRUNCATE {stage}"))?;
        } else {
            // what was made for a shape before, and what was rolled back, may be there or not
            let columns: Vec<String> =
                self.columns.iter().enumerate().map(|(i, c)| format!("c{i} {}", c.cast)).collect();
            conn.run(&format!(
                "DROP TABLE IF EXISTS {stage}; CREATE TEMP TABLE {} ({}, n integer) ON COMMIT DELETE ROWS",
                quote(&stage_name(&self.table.name)),
                columns.join(", ")
            ))?;
            self.staged = true;
        }
        let names: Vec<String> = (0..self.columns.len()).map(|i| format!("c{i}")).collect();
        self.copy(conn, &stage, &format!("{}, n", names.join(", ")), rows, true)?;
        Ok(stage)
    }

    /// Upserts rows.
    fn merge(&mut self, conn: &Conn, rows: &[Row]) -> Result<(), Refusal> {
        if rows.is_empty() {
            return Ok(());
        }
        let statement = match &self.upsert {
            Some(statement) => statement.clone(),
            None => {
                let types: Vec<Type> = self.columns.iter().map(Column::array_type).collect();
                self.upsert.insert(conn.prepare(&self.upsert_sql(), &types)?).clone()
            }
        };
        let all: Vec<usize> = (0..self.columns.len()).collect();
        self.in_chunks(rows, &all, |arrays, _| conn.execute(&statement, arrays).map(drop))
    }

    /// Deletes keys.
    fn delete(&mut self, conn: &Conn, keys: &[Row]) -> Result<(), Refusal> {
        if keys.is_empty() {
            return Ok(());
        }
        let statement = match &self.delete {
            Some(statement) => statement.clone(),
            None => {
                let key = self.table.key.clone();
                let types: Vec<Type> = key.iter().map(|i| self.columns[*i].array_type()).collect();
                let sql = format!(
                    "DELETE FROM {} AS t USING {} WHERE {}",
                    self.full,
                    from_arrays(key.len(), &[]),
                    self.by_key()
                );
                self.delete.insert(conn.prepare(&sql, &types)?).clone()
            }
        };
        let key = self.table.key.clone();
        self.in_chunks(keys, &key, |arrays, _| conn.execute(&statement, arrays).map(drop))
    }

    /// The first of these keys whose row comes from another source table than `owners`, and which. Nothing waits.
    pub(crate) fn other_owner(
        &mut self,
        conn: &Conn,
        keys: &[Row],
        owners: &[&str],
        errors: Errors<'_>,
    ) -> Result<Option<(usize, String)>, Error> {
        let Some(told_by) = self.table.told_by else { return Ok(None) };
        let doing = "looking whose rows are there";
        let key = self.table.key.clone();
        let statement = match &self.whose {
            Some(statement) => statement.clone(),
            None => {
                let mut types: Vec<Type> = key.iter().map(|i| self.columns[*i].array_type()).collect();
                types.extend([Type::INT4_ARRAY, Type::TEXT_ARRAY]);
                let whose = format!("t.{}::text", self.columns[told_by].name);
                let kept =
                    self.table.soft_delete.map(|flag| format!(" AND t.{} = 0", self.columns[flag].name));
                let sql = format!(
                    "SELECT u.n, {whose} FROM {} JOIN {} AS t ON {} WHERE {whose} COLLATE \"C\" <> ALL (${}){} ORDER BY u.n LIMIT 1",
                    from_arrays(key.len(), &["n"]),
                    self.full,
                    self.by_key(),
                    key.len() + 2,
                    kept.unwrap_or_default()
                );
                let prepared = conn.prepare(&sql, &types).map_err(Refusal::Said);
                let prepared = prepared.map_err(|e| self.refused(e, doing, errors))?;
                self.whose.insert(prepared).clone()
            }
        };
        let mut others = Array::of(&Type::TEXT);
        owners.iter().for_each(|owner| others.push(Some(owner.as_bytes())));
        let others = others.finish().to_vec();
        let mut found = None;
        let asked = self.in_chunks(keys, &key, |arrays, range| {
            if found.is_some() {
                return Ok(());
            }
            let numbers = numbered(range);
            let mut values: Vec<Raw<'_>> = arrays.iter().map(|a| Raw(a.0)).collect();
            values.extend([Raw(&numbers), Raw(&others)]);
            for row in conn.query(&statement, &values)? {
                let n = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or_default();
                found = Some((n, row.try_get::<_, String>(1)?));
            }
            Ok(())
        });
        asked.map_err(|e| self.refused(e, doing, errors))?;
        Ok(found)
    }

    /// Sends rows, of which each value is of one of these columns, in statements of bounded size; `send` is also told
    /// which rows they are.
    fn in_chunks(
        &self,
        rows: &[Row],
        columns: &[usize],
        mut send: impl FnMut(&[Raw<'_>], std::ops::Range<usize>) -> Result<(), Pg>,
    ) -> Result<(), Refusal> {
        let fresh =
            || -> Vec<Array> { columns.iter().map(|i| Array::of(&self.columns[*i].element())).collect() };
        let mut scratch = Vec::new();
        let (mut arrays, mut from) = (fresh(), 0);
        for (n, row) in rows.iter().enumerate() {
            for ((value, array), i) in row.iter().zip(&mut arrays).zip(columns) {
                scratch.clear();
                let there = self.encode(*i, &value, row, &mut scratch).map_err(Refusal::Value)?;
                array.push(there.then_some(&scratch));
            }
            let is_full =
                n + 1 - from >= MOST_ROWS || arrays.iter().map(Array::len).sum::<usize>() >= MOST_BYTES;
            if is_full || n + 1 == rows.len() {
                let values: Vec<Raw<'_>> = arrays.iter_mut().map(|a| Raw(a.finish())).collect();
                send(&values, from..n + 1)?;
                drop(values);
                (arrays, from) = (fresh(), n + 1);
            }
        }
        Ok(())
    }

    fn encode(&self, i: usize, value: &Value<'_>, row: &Row, out: &mut Vec<u8>) -> Result<bool, Error> {
        let column = &self.columns[i];
        let nul = if column.in_key { NulPolicy::Error } else { self.nul };
        column.form.encode(value, nul, out).map_err(|why| self.no_place(i, value, row, why))
    }

    fn names(&self) -> String {
        self.columns.iter().map(|c| &*c.name).collect::<Vec<_>>().join(", ")
    }

    /// `t."id" = u.c0::integer AND ..`, the key being what the arrays begin with.
    fn by_key(&self) -> String {
        let conditions = self.table.key.iter().enumerate().map(|(n, i)| {
            let column = &self.columns[*i];
            format!("t.{} = {}", column.name, column.cast_of(&format!("u.c{n}")))
        });
        conditions.collect::<Vec<_>>().join(" AND ")
    }

    fn upsert_sql(&self) -> String {
        let values: Vec<String> =
            self.columns.iter().enumerate().map(|(i, c)| c.cast_of(&format!("u.c{i}"))).collect();
        format!(
            "INSERT INTO {} AS _cdc_target ({}) SELECT {} FROM {} {}",
            self.full,
            self.names(),
            values.join(", "),
            from_arrays(self.columns.len(), &[]),
            self.on_conflict()
        )
    }

    fn on_conflict(&self) -> String {
        let set: Vec<String> = self
            .columns
            .iter()
            .filter(|c| !c.in_key || self.folds)
            .map(|c| format!("{0} = excluded.{0}", c.name))
            .collect();
        let action =
            if set.is_empty() { "NOTHING".to_owned() } else { format!("UPDATE SET {}", set.join(", ")) };
        let key: Vec<&str> = self.table.key.iter().map(|i| &*self.columns[*i].name).collect();
        format!("ON CONFLICT ({}) DO {action}", key.join(", "))
    }

    // ---- updates in part

    /// The rows that updates in part of one tick move to another key, whole, by that key: to be written like any
    /// other. Whatever waited has been written, and nothing of the tick yet.
    pub(crate) fn read_moving(
        &mut self,
        conn: &Conn,
        changes: &[TargetChange],
        errors: Errors<'_>,
    ) -> Result<HashMap<Row, Row>, Error> {
        let moving: Vec<(&TargetChange, Row)> = changes
            .iter()
            .filter(|c| c.is_in_part())
            .filter_map(|c| Some((c, self.key_before(c).filter(|from| *from != c.key)?)))
            .collect();
        if moving.is_empty() {
            return Ok(HashMap::new());
        }
        let keys: Vec<Row> = moving.iter().map(|(_, from)| from.clone()).collect();
        let held = self
            .stored(conn, &keys)
            .map_err(|e| self.refused(e, "reading rows that move to another key", errors))?;
        moving
            .into_iter()
            .zip(held)
            .map(|((change, from), held)| {
                let (Some(held), Some(row)) = (held, &change.row) else {
                    return Err(self.nothing_to_update(&from));
                };
                Ok((change.key.clone(), held.overlaid(row)))
            })
            .collect()
    }

    pub(crate) fn key_before(&self, change: &TargetChange) -> Option<Row> {
        change.before.as_ref().map(|before| self.table.key_of(before))
    }

    /// The rows of these keys, as rows of the source.
    fn stored(&self, conn: &Conn, keys: &[Row]) -> Result<Vec<Option<Row>>, Refusal> {
        let key = &self.table.key;
        let mut types: Vec<Type> = key.iter().map(|i| self.columns[*i].array_type()).collect();
        types.push(Type::INT4_ARRAY);
        let selected: Vec<String> =
            self.columns
                .iter()
                .map(|c| {
                    if c.form == Form::Bytes {
                        format!("t.{}", c.name)
                    } else {
                        format!("t.{}::text", c.name)
                    }
                })
                .collect();
        let sql = format!(
            "SELECT u.n, {} FROM {} JOIN {} AS t ON {}",
            selected.join(", "),
            from_arrays(key.len(), &["n"]),
            self.full,
            self.by_key()
        );
        let statement = conn.prepare(&sql, &types)?;
        let mut rows = vec![None; keys.len()];
        self.in_chunks(keys, key, |arrays, range| {
            let numbers = numbered(range);
            let mut values: Vec<Raw<'_>> = arrays.iter().map(|a| Raw(a.0)).collect();
            values.push(Raw(&numbers));
            for row in conn.query(&statement, &values)? {
                let n = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
                let stored = self.row_of(&row)?;
                if let Some(place) = rows.get_mut(n) {
                    *place = Some(stored);
                }
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// A row of [`Writer::stored`] as a row of the source. Texts stand for all values but bytes, as DECIMALs, which are
    /// written as they are: it is written back and not looked at.
    fn row_of(&self, row: &tokio_postgres::Row) -> Result<Row, Pg> {
        let mut values = Vec::with_capacity(self.columns.len());
        for (i, column) in self.columns.iter().enumerate() {
            values.push(if column.form == Form::Bytes {
                row.try_get::<_, Option<Vec<u8>>>(i + 1)?.map_or(Value::Null, |v| Value::Bytes(v.into()))
            } else {
                row.try_get::<_, Option<String>>(i + 1)?.map_or(Value::Null, |v| Value::Decimal(v.into()))
            });
        }
        Ok(Row::pack(values))
    }

    /// Updates the columns that rows have, by their keys; nothing of what waits is of one of them.
    pub(crate) fn update(
        &mut self,
        conn: &Conn,
        changes: &[&TargetChange],
        errors: Errors<'_>,
    ) -> Result<(), Error> {
        let mut groups: Vec<(Vec<bool>, Vec<&TargetChange>)> = Vec::new();
        let mut places: HashMap<Vec<bool>, usize> = HashMap::new();
        for change in changes {
            let Some(row) = &change.row else { continue };
            let mask: Vec<bool> = row
                .iter()
                .zip(&self.columns)
                .map(|(v, c)| !v.is_absent() && (!c.in_key || self.folds))
                .collect();
            // nothing but the key
            if !mask.contains(&true) {
                continue;
            }
            let place = *places.entry(mask.clone()).or_insert_with(|| {
                groups.push((mask, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(change);
        }
        for (mask, changes) in groups {
            let updated = self.update_like(conn, &mask, &changes);
            let updated = updated.map_err(|e| self.refused(e, "updating rows", errors))?;
            // without the row before it may still be on its way in a snapshot
            let missing = changes.iter().zip(updated).find(|(c, updated)| !updated && c.before.is_some());
            if let Some((change, _)) = missing {
                return Err(self.nothing_to_update(&change.key));
            }
        }
        Ok(())
    }

    /// Updates rows that have the same columns; says of each whether it was there.
    fn update_like(
        &mut self,
        conn: &Conn,
        mask: &[bool],
        changes: &[&TargetChange],
    ) -> Result<Vec<bool>, Refusal> {
        let key = self.table.key.clone();
        let set: Vec<usize> = (0..self.columns.len()).filter(|i| mask[*i]).collect();
        let sent: Vec<usize> = key.iter().chain(&set).copied().collect();
        self.forget_masks();
        let statement = match self.by_mask.get(mask) {
            Some(statement) => statement.clone(),
            None => {
                let assigned = set.iter().zip(key.len()..).map(|(i, n)| {
                    let column = &self.columns[*i];
                    format!("{} = {}", column.name, column.cast_of(&format!("u.c{n}")))
                });
                let sql = format!(
                    "UPDATE {} AS t SET {} FROM {} WHERE {} RETURNING u.n",
                    self.full,
                    assigned.collect::<Vec<_>>().join(", "),
                    from_arrays(sent.len(), &["n"]),
                    self.by_key()
                );
                let mut types: Vec<Type> = sent.iter().map(|i| self.columns[*i].array_type()).collect();
                types.push(Type::INT4_ARRAY);
                let statement = conn.prepare(&sql, &types)?;
                self.by_mask.insert(mask.to_vec(), statement.clone());
                statement
            }
        };
        let rows: Vec<Row> = changes
            .iter()
            .map(|c| {
                let row = c.row.as_ref().unwrap_or(&c.key);
                let there =
                    row.iter().enumerate().filter(|(i, _)| mask.get(*i) == Some(&true)).map(|(_, v)| v);
                Row::pack(c.key.iter().chain(there))
            })
            .collect();
        let mut updated = vec![false; rows.len()];
        self.in_chunks(&rows, &sent, |arrays, range| {
            let numbers = numbered(range);
            let mut values: Vec<Raw<'_>> = arrays.iter().map(|a| Raw(a.0)).collect();
            values.push(Raw(&numbers));
            for row in conn.query(&statement, &values)? {
                let n = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
                if let Some(place) = updated.get_mut(n) {
                    *place = true;
                }
            }
            Ok(())
        })?;
        Ok(updated)
    }

    fn nothing_to_update(&self, key: &Row) -> Error {
        Error::definite(
            codes::TARGET_ROW_MISSING,
            format!("table \"{}\" has no row of key {} to be updated", self.table.name, clipped(&format!("{key:?}"))),
        )
        .note("the log holds some of the row's columns only (binlog_row_image = MINIMAL or NOBLOB): the target does not hold what was written to it")
        .help("cdc verify shows what else differs; copy the table anew: stop, remove the state folder and the target's tables and progress, start again")
    }

    // ---- tables without key

    /// Statements that are not held are closed at the server: of wide tables there may be very many.
    fn forget_masks(&mut self) {
        if self.by_mask.len() > MASKS {
            self.by_mask.clear();
        }
    }

    /// Deletes as many of each row as is said.
    fn take_away(&mut self, conn: &Conn, rows: &[(Row, u64)], errors: Errors<'_>) -> Result<(), Error> {
        // By the columns that are not NULL: with those known a condition can be one that an index serves.
        let mut groups: HashMap<Vec<bool>, Vec<&(Row, u64)>> = HashMap::new();
        for entry in rows {
            let mask = entry.0.iter().map(|v| !v.is_null()).collect();
            groups.entry(mask).or_default().push(entry);
        }
        for (mask, rows) in groups {
            let taken = self.take_like(conn, &mask, &rows);
            let taken = taken.map_err(|e| self.refused(e, "deleting rows", errors))?;
            if let Some((row, _)) =
                rows.iter().zip(taken).find(|((_, wanted), taken)| wanted != taken).map(|(r, _)| r)
            {
                return Err(self.no_row(row));
            }
        }
        Ok(())
    }

    /// Deletes rows that are NULL in the same columns; how many of each went.
    fn take_like(&mut self, conn: &Conn, mask: &[bool], rows: &[&(Row, u64)]) -> Result<Vec<u64>, Refusal> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        self.forget_masks();
        let statement = match self.by_mask.get(mask) {
            Some(statement) => statement.clone(),
            None => {
                let mut types: Vec<Type> = self.columns.iter().map(Column::array_type).collect();
                types.extend([Type::INT4_ARRAY, Type::INT4_ARRAY]);
                let statement = conn.prepare(&self.take_sql(mask), &types)?;
                self.by_mask.insert(mask.to_vec(), statement.clone());
                statement
            }
        };
        let wanted: Vec<Row> = rows.iter().map(|(row, _)| row.clone()).collect();
        let mut taken = vec![0; rows.len()];
        self.in_chunks(&wanted, &all, |arrays, range| {
            let mut counts = Array::of(&Type::INT4);
            rows[range.clone()]
                .iter()
                .for_each(|(_, n)| counts.push_int(i32::try_from(*n).unwrap_or(i32::MAX)));
            let (numbers, counts) = (numbered(range), counts.finish().to_vec());
            let mut values: Vec<Raw<'_>> = arrays.iter().map(|a| Raw(a.0)).collect();
            values.extend([Raw(&numbers), Raw(&counts)]);
            for row in conn.query(&statement, &values)? {
                let n = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
                if let Some(place) = taken.get_mut(n) {
                    *place += 1;
                }
            }
            Ok(())
        })?;
        Ok(taken)
    }

    fn take_sql(&self, mask: &[bool]) -> String {
        let mut conditions = Vec::new();
        for (i, column) in self.columns.iter().enumerate() {
            if !mask[i] {
                conditions.push(format!("t.{} IS NULL", column.name));
            } else if column.form.is_comparable() {
                conditions.push(format!("t.{} = {}", column.name, column.cast_of(&format!("u.c{i}"))));
            }
        }
        let texts = |of: &dyn Fn(usize, &Column) -> String| {
            let texts: Vec<String> =
                self.columns.iter().enumerate().map(|(i, c)| format!("{}::text", of(i, c))).collect();
            format!("ROW({})::text COLLATE \"C\"", texts.join(", "))
        };
        let theirs = texts(&|_, c| format!("t.{}", c.name));
        let ours = texts(&|i, c| c.cast_of(&format!("u.c{i}")));
        conditions.push(format!("{theirs} = {ours}"));
        format!(
            "DELETE FROM {0} AS d USING (SELECT x.place, x.n FROM (
               SELECT t.ctid AS place, u.n, u.wanted, row_number() OVER (PARTITION BY u.n) AS nth FROM {1} JOIN {0} AS t ON {2}
             ) x WHERE x.nth <= x.wanted) y WHERE d.ctid = y.place RETURNING y.n",
            self.full,
            from_arrays(self.columns.len(), &["n", "wanted"]),
            conditions.join(" AND ")
        )
    }

    fn no_row(&self, row: &Row) -> Error {
        Error::definite(
            codes::TARGET_ROW_MISSING,
            format!("table \"{}\" has no row like the one to be deleted", self.table.name),
        )
        .note(format!("row: {}", clipped(&format!("{row:?}"))))
        .note("the table has no key, so the row is found by all its values: the target does not hold what was written to it")
        .help("cdc verify shows what else differs; copy the table anew: stop, remove the state folder and the target's tables and progress, start again")
    }

    // ---- errors

    /// Finds the row that a statement failed for.
    fn or_blame<T>(
        &mut self,
        result: Result<T, Refusal>,
        conn: &Conn,
        doing: Doing,
        rows: &[Row],
        errors: Errors<'_>,
    ) -> Result<T, Error> {
        let e = match result {
            Ok(done) => return Ok(done),
            Err(Refusal::Value(error)) => return Err(error),
            Err(Refusal::Said(e)) => e,
        };
        let word = if doing == Doing::Deleting { "deleting rows" } else { "writing rows" };
        let place = format!("{word} of table \"{}\"", self.table.name);
        let error = errors.of(codes::TARGET_WRITE, &place, &e);
        if error.is_transient() || !is_answer(&e) {
            return Err(error);
        }
        let found = conn.run("ROLLBACK; BEGIN").ok().and_then(|_| self.search(conn, doing, rows));
        drop(conn.run("ROLLBACK"));
        let Some((row, e)) = found else {
            return Err(error.note("no single row of them is refused by itself"));
        };
        let word = if doing == Doing::Deleting { "deleting" } else { "writing" };
        let key = if self.table.is_multiset() || doing == Doing::Deleting {
            row.clone()
        } else {
            self.table.key_of(&row)
        };
        let mut error = errors.of(
            codes::TARGET_WRITE,
            &format!("{word} key {} of table \"{}\"", clipped(&format!("{key:?}")), self.table.name),
            &e,
        );
        if let Some(column) = e.as_db_error().and_then(|db| db.column()) {
            error = error.note(format!("column: \"{column}\""));
        }
        if doing == Doing::Writing {
            error = error.note(format!("row: {}", clipped(&format!("{row:?}"))));
        }
        let statement = match doing {
            Doing::Deleting => "DELETE".to_owned(),
            Doing::Writing if self.table.is_multiset() => "COPY".to_owned(),
            Doing::Writing => self.upsert_sql(),
        };
        Err(error.note(format!("statement: {}", clipped(&statement))))
    }

    /// The first row that is refused, and what is said to it. What is not refused stays in the transaction.
    fn search(&mut self, conn: &Conn, doing: Doing, rows: &[Row]) -> Option<(Row, Pg)> {
        conn.run("SAVEPOINT _cdc_search").ok()?;
        let tried = match doing {
            Doing::Deleting => self.delete(conn, rows),
            Doing::Writing if self.table.is_multiset() => {
                self.copy(conn, &self.full, &self.names(), rows, false).map(drop)
            }
            Doing::Writing => self.merge(conn, rows),
        };
        let e = match tried {
            Ok(()) => return None,
            Err(Refusal::Value(_)) => return None,
            Err(Refusal::Said(e)) => e,
        };
        conn.run("ROLLBACK TO SAVEPOINT _cdc_search").ok()?;
        match rows {
            [row] => Some((row.clone(), e)),
            rows => {
                let (front, back) = rows.split_at(rows.len() / 2);
                self.search(conn, doing, front).or_else(|| self.search(conn, doing, back))
            }
        }
    }

    fn refused(&self, refusal: Refusal, doing: &str, errors: Errors<'_>) -> Error {
        match refusal {
            Refusal::Value(error) => error,
            Refusal::Said(e) => {
                errors.of(codes::TARGET_WRITE, &format!("{doing} of table \"{}\"", self.table.name), &e)
            }
        }
    }

    fn no_place(&self, i: usize, value: &Value<'_>, row: &Row, why: Unfit) -> Error {
        let (name, ty) = self
            .table
            .schema
            .columns
            .get(i)
            .map_or((String::new(), String::new()), |c| (c.name.to_string(), c.ty.to_string()));
        let place = format!("table \"{}\", column \"{name}\"", self.table.name);
        let key = if row.len() == self.columns.len() { self.table.key_of(row) } else { row.clone() };
        let row = format!("row: {}", clipped(&format!("{row:?}")));
        let what = format!("value: {}", clipped(&format!("{value}")));
        let refused = |headline: String| {
            Error::definite(codes::TARGET_VALUE, headline)
                .note(format!("key: {}", clipped(&format!("{key:?}"))))
                .note(what)
                .note(row.clone())
        };
        match why {
            Unfit::Absent => {
                Error::definite(codes::PARTIAL_IMAGE, format!("{place}: the row came without this column"))
                    .note(row)
                    .help("SET GLOBAL binlog_row_image = 'FULL';")
            }
            Unfit::Nul if self.columns[i].in_key => {
                refused(format!("{place}: PostgreSQL holds no NUL character in a text, and this is a key"))
                    .help("choose another key for the flow: key (..)")
            }
            Unfit::Nul => refused(format!("{place}: PostgreSQL holds no NUL character in a text"))
                .help("write nul = remove or nul = replace in the sink, or leave the column out of the flow"),
            Unfit::NoSuchDate => {
                refused(format!("{place}: PostgreSQL holds no date that no calendar has")).help(DATES)
            }
            Unfit::TooLarge => refused(format!("{place}: the value has a gigabyte or more"))
                .help("leave the column out of the flow"),
            Unfit::Kind => {
                refused(format!("{place}: {} cannot be written to a column of {ty}", value.kind()))
            }
        }
    }

    fn broken(&self, what: &str) -> Error {
        Error::definite(codes::INTERNAL, format!("table \"{}\": {}", self.table.name, clipped(what)))
    }
}

/// What helps where a date is none.
pub(crate) const DATES: &str = "choose by the source's option: zero_dates = null makes such a date NULL, zero_dates = text makes \
     the column a text; both copy anew: remove the state folder and the target's tables and progress, then start again";

/// The name of a table's staging table: of any length, and no one else's.
fn stage_name(table: &str) -> String {
    format!("_cdc_stage_{:016x}", super::sql::fnv(&[table]))
}

/// `unnest($1, $2, ..) AS u(c0, c1, ..)`, with more columns behind.
fn from_arrays(columns: usize, more: &[&str]) -> String {
    let places: Vec<String> = (1..=columns + more.len()).map(|i| format!("${i}")).collect();
    let names: Vec<String> =
        (0..columns).map(|i| format!("c{i}")).chain(more.iter().map(|m| (*m).to_owned())).collect();
    format!("unnest({}) AS u({})", places.join(", "), names.join(", "))
}

/// The numbers of a range as an array.
fn numbered(range: std::ops::Range<usize>) -> Vec<u8> {
    let mut numbers = Array::of(&Type::INT4);
    range.for_each(|n| numbers.push_int(i32::try_from(n).unwrap_or(i32::MAX)));
    numbers.finish().to_vec()
}

/// Appends a text so that COPY reads it back as it is.
fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.push(*byte),
        }
    }
}

/// A text short enough for a message.
pub(crate) fn clipped(text: &str) -> String {
    const LIMIT: usize = 400;
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let end = (0..=LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}.. ({} bytes)", &text[..end], text.len())
}
