//! The contract between the engine and a sink.
//!
//! ```text
//!            inspect ──► check* ──► claim ──► prepare* ─┐
//!  (reads only)      (reads only)  (raises     │        │
//!                                   the epoch) ▼        ▼
//!                                        ┌── open transaction ◄──┐
//!                                        │ write* | apply        │
//!                                        └──► commit(tick) ──────┘
//!                                              or rollback
//! ```
//!
//! One thread, the *committer*, owns a sink and makes all calls, in this order. Ticks are committed in
//! ascending order; one commit may cover several ticks, never half of one. `prepare` comes before the first
//! batch of each shape of a table and again after each `apply`. Between `claim` and the end everything that
//! reaches the target is in the open transaction, where the target has transactions: rows, schema changes
//! where its DDL is transactional, the tick, its binding, the epoch check.
//!
//! Errors: *transient* ones have changed nothing (the transaction is rolled back); the committer replays the
//! same ticks with back-off. *Definite* ones stop the pipeline with the target at the tick before.

use crate::Result;
use crate::event::{Op, Origin};
use crate::plan::pattern::TableSet;
use crate::position::Binding;
use crate::preflight::Check;
use crate::row::Row;
use crate::schema::{Column, ColumnType, TableId, TableSchema};
use crate::tick::Tick;
use crate::value::Value;
use std::sync::Arc;

/// A table at a target, as a flow writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TargetTable {
    /// Its name at the target.
    pub name: String,
    /// The shape of the rows that are written. The target may have more columns (lenient mode); a column
    /// is found there by name. Its id is that of the source's table.
    pub schema: Arc<TableSchema>,
    /// Indexes into the schema's columns that identify a row. Empty: nothing does, the table is a multiset of rows.
    pub key: Vec<usize>,
    /// The column that is 1 in rows that the source has deleted, 0 in the others, where they stay: such a row is none of
    /// those that the source has.
    pub soft_delete: Option<usize>,
    /// The column that says which source table a row comes from. A row must not take the place of one that comes from another: see
    /// [`Sink::other_owner`]. Without it tables are told apart by the key, or the last row of a key stays.
    #[cfg_attr(feature = "serde", serde(default))]
    pub told_by: Option<usize>,
}

impl TargetTable {
    /// True if nothing identifies a row: changes add a row or take an equal one away.
    pub fn is_multiset(&self) -> bool {
        self.key.is_empty()
    }

    /// The same with those of its columns that this keeps, and those that a row is found and told by; `None` if those are all.
    pub fn only(&self, keeps: impl Fn(&Column) -> bool) -> Option<TargetTable> {
        let columns = &self.schema.columns;
        let is_needed =
            |i: usize| self.key.contains(&i) || self.soft_delete == Some(i) || self.told_by == Some(i);
        let kept: Vec<usize> = (0..columns.len()).filter(|&i| is_needed(i) || keeps(&columns[i])).collect();
        if kept.len() == columns.len() {
            return None;
        }
        let place = |i: usize| kept.iter().position(|&k| k == i);
        let key: Vec<usize> = self.key.iter().filter_map(|&i| place(i)).collect();
        Some(TargetTable {
            name: self.name.clone(),
            schema: Arc::new(TableSchema {
                columns: kept.iter().map(|&i| columns[i].clone()).collect(),
                primary_key: key.clone(),
                unique_keys: Vec::new(),
                ..(*self.schema).clone()
            }),
            soft_delete: self.soft_delete.and_then(place),
            told_by: self.told_by.and_then(place),
            key,
        })
    }

    /// Which source table a row comes from, if the table tells ([`TargetTable::told_by`]).
    pub fn owner_of(&self, row: &Row) -> Option<String> {
        match row.get(self.told_by?) {
            Value::Text(owner) => Some(owner.into_owned()),
            _ => None,
        }
    }

    /// Is it the row of a key that the source has, and not one that was deleted and stays?
    pub fn is_there(&self, change: &TargetChange) -> bool {
        let is_kept = |row: &Row| self.soft_delete.is_some_and(|i| row.get(i) == Value::Int(1));
        change.op == TargetOp::Upsert && change.row.as_ref().is_some_and(|row| !is_kept(row))
    }

    /// The packed key columns of a row.
    pub fn key_of(&self, row: &Row) -> Row {
        let values: Vec<_> = row.iter().collect();
        Row::pack(self.key.iter().filter_map(|i| values.get(*i).cloned()))
    }
}

/// What a sink wants to be given of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// At most one change per key and tick, deletes before upserts; of a table without key as many as rows are
    /// to go or to come, none of them of a row that goes and comes.
    Net,
    /// Every change, in the order of the source.
    Log,
}

/// What is to become of a key; in a table without key, of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TargetOp {
    /// The key's row goes, if it is there. Without key: one of the rows equal to `key` goes; there must be one.
    Delete,
    /// The key's row is `row`, whatever was there. Without key: there is one more row equal to `row`.
    ///
    /// Where columns of `row` are absent (an *update in part*: the source's log does not hold them) the row is there and
    /// keeps them. It is the row that had the key of `before`, which may be another one than `key`, in front of the batch;
    /// if that is not there, it is an error. Without `before` it is the row of `key`, or none: then a snapshot, which
    /// is under way, has not brought it yet, and nothing is done.
    Upsert,
}

/// A change of one row of a target table.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TargetChange {
    /// The tick it belongs to.
    pub tick: Tick,
    /// Its place in the tick.
    pub ordinal: u64,
    /// Delete or upsert.
    pub op: TargetOp,
    /// What happened at the source to the row of this key: an update that moves a row to another key is the
    /// delete of one and the insert of the other, one that takes it through a filter an insert or a delete.
    pub source_op: Op,
    /// The key: the packed key columns; the whole row where the table has no key.
    pub key: Row,
    /// The row of an upsert: whole, or what is known of it.
    pub row: Option<Row>,
    /// The row before, where the source gave it; of an image without all columns what it has, the key at least.
    pub before: Option<Row>,
    /// Index into the batch's origins.
    pub origin: u32,
}

impl TargetChange {
    /// An update of which not all columns are known: see [`TargetOp::Upsert`].
    pub fn is_in_part(&self) -> bool {
        self.op == TargetOp::Upsert
            && self.source_op == Op::Update
            && self.row.as_ref().is_some_and(Row::has_absent)
    }
}

/// Changes of one table under one schema.
#[derive(Debug, Clone)]
pub struct TargetBatch {
    /// The table.
    pub table: Arc<TargetTable>,
    /// Where the changes come from.
    pub origins: Arc<[Origin]>,
    /// The changes, in the order that [`Delivery`] says.
    pub changes: Vec<TargetChange>,
}

/// A schema change to be made at a target, with the table as flows write it from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSchemaChange {
    /// Make the table.
    CreateTable {
        /// The table.
        table: Arc<TargetTable>,
    },
    /// Append or insert a column, with its comment; rows that are there read its default.
    AddColumn {
        /// The table's name.
        table: String,
        /// The column as the target is to have it.
        column: Column,
        /// It is NOT NULL at the source: without a default, rows that are there read its type's implicit one,
        /// although the target's column may hold NULL.
        implicit: bool,
        /// Its default is one at the target from then on too, as far as the target has it; else it has none there.
        keeps_default: bool,
    },
    /// Rename a column.
    RenameColumn {
        /// The table's name.
        table: String,
        /// Until now.
        from: String,
        /// From now on.
        to: String,
    },
    /// Give one column the values of another, in every row.
    FillColumn {
        /// The table's name.
        table: String,
        /// The column that has them.
        from: String,
        /// The column that gets them.
        to: String,
        /// The type that the column which has them was declared with, where it is known: of some types a target's own tells less.
        was: Option<ColumnType>,
        /// Which rows, as of [`TargetSchemaChange::RemoveRows`]; empty: all.
        only: Vec<(Column, Row)>,
    },
    /// Rows read in a column that is there what they would read in it if it had just been added.
    ResetColumn {
        /// The table's name.
        table: String,
        /// The column, with its default.
        column: Column,
        /// As of [`TargetSchemaChange::AddColumn`].
        implicit: bool,
        /// Which rows, as of [`TargetSchemaChange::RemoveRows`]; empty: all.
        only: Vec<(Column, Row)>,
    },
    /// Drop a column.
    DropColumn {
        /// The table's name.
        table: String,
        /// Which.
        column: String,
    },
    /// Change a column's type. Its default may go along; where there was one, [`TargetSchemaChange::AlterColumnDefault`] is
    /// right behind.
    AlterColumnType {
        /// The table's name.
        table: String,
        /// Which.
        column: String,
        /// Its new type.
        ty: ColumnType,
        /// Its type until now, as of [`TargetSchemaChange::FillColumn`].
        was: Option<ColumnType>,
    },
    /// Change whether a column may hold NULL.
    AlterNullability {
        /// The table's name.
        table: String,
        /// Which.
        column: String,
        /// May it hold NULL?
        nullable: bool,
    },
    /// What a column reads in rows that somebody else inserts without it; rows that are there stay as they are. What the target
    /// cannot have as a default with the same meaning is no default there, and no error: see [`Sink::leaves_out`].
    AlterColumnDefault {
        /// The table's name.
        table: String,
        /// The column as the target has it, with its default from now on, in the source's words.
        column: Column,
    },
    /// Another comment of the table, or of one of its columns.
    AlterComment {
        /// The table's name.
        table: String,
        /// Which column; `None`: the table's own.
        column: Option<String>,
        /// From now on; empty: none.
        comment: String,
    },
    /// Rows are told apart by other columns, or by none; the columns are those that are there. The rows are as they were,
    /// and the new key tells them apart.
    ChangeKey {
        /// The table, with its new key.
        table: Arc<TargetTable>,
    },
    /// Delete all rows.
    TruncateTable {
        /// The table's name.
        table: String,
    },
    /// Delete the rows that came from one source table.
    RemoveRows {
        /// The table's name.
        table: String,
        /// Whose rows.
        source: TableId,
        /// What tells them from rows of other source tables, each a column and its value (a row of one); empty: all
        /// of the table's rows are its.
        only: Vec<(Column, Row)>,
        /// They come again: the source table is copied anew.
        again: bool,
    },
    /// Drop the table.
    DropTable {
        /// The table's name.
        table: String,
    },
    /// Rename the table.
    RenameTable {
        /// Until now.
        from: String,
        /// From now on.
        to: String,
    },
}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobIdentity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The sink's name in the pipeline.
    pub sink: String,
    /// Made once, with the first checkpoint; ties a target's progress to the state folder.
    pub job_id: String,
    /// This run, for people: host and process id.
    pub run: String,
}

/// Where a target says it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The job that wrote it.
    pub job_id: String,
    /// The last tick committed; 0: none yet.
    pub tick: Tick,
    /// That tick's binding.
    pub binding: Binding,
}

/// Where rows come from, as far as a target can meet it: what a target writes must not be read again.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The servers whose changes are read, by names of which no two servers have the same. Of a MySQL or MariaDB server they are what
    /// [`SERVER_NAME_MYSQL`] or [`SERVER_NAME_MARIADB`] gives; of a server that a MySQL follows as a replica, its `server_uuid`.
    /// None where no server is asked (a log in files).
    pub servers: Vec<String>,
    /// The tables that are captured.
    pub tables: TableSet,
}

/// What a MySQL server gives as its name. Not its `server_uuid` alone: copies of one data folder have the same.
pub const SERVER_NAME_MYSQL: &str =
    "SELECT CONCAT_WS('|', @@global.server_uuid, @@global.hostname, @@global.port, @@global.datadir)";

/// What a MariaDB server gives as its name. Its `server_id` is 1 on many.
pub const SERVER_NAME_MARIADB: &str = "SELECT CONCAT_WS('|', @@global.server_id, @@global.hostname, @@global.port, \
     @@global.datadir, @@global.pid_file)";

/// A target.
pub trait Sink: Send {
    /// What it wants to be given.
    fn delivery(&self) -> Delivery;

    /// Where it stands, without changing anything. `None` if it holds no progress of this pipeline and sink,
    /// or cannot hold any (then the state folder's own progress counts, and it delivers at least once).
    ///
    /// # Errors
    /// `TARGET_OPEN`, `TARGET_NOT_OURS`.
    fn inspect(&mut self, job: &JobIdentity) -> Result<Option<Resume>>;

    /// True if `commit` makes rows, tick and binding durable at once, so that `inspect` tells where it stands.
    fn holds_progress(&self) -> bool;

    /// True if a schema change of the target commits by itself, what is open along with it. Then the committer
    /// commits what it has before a tick with one, so that the change is the first of what is open.
    fn commits_by_itself(&self) -> bool {
        false
    }

    /// Server and database, or file, for messages; empty where there is neither.
    fn place(&self) -> String {
        String::new()
    }

    /// What the target and the account must have to write these tables, and have or not. Asked behind `inspect`; changes
    /// nothing.
    ///
    /// # Errors
    /// `TARGET_OPEN`. What does not do is in the checks.
    fn preflight(&mut self, tables: &[Arc<TargetTable>]) -> Result<Vec<Check>> {
        let _ = tables;
        Ok(Vec::new())
    }

    /// Where the rows come from; said behind `inspect`, in front of `check`. A sink that writes to that very server refuses, here
    /// or when such a table comes, to write a table that is captured: its rows would come back without end.
    ///
    /// # Errors
    /// `TARGET_CAPTURED`; `TARGET_OPEN`.
    fn fed_by(&mut self, upstream: &Upstream) -> Result<()> {
        let _ = upstream;
        Ok(())
    }

    /// Does a table that is already there take these rows? Changes nothing.
    ///
    /// # Errors
    /// `TARGET_SHAPE`, with both shapes.
    fn check(&mut self, table: &TargetTable) -> Result<()>;

    /// The same of the table as it is at this moment, within a schema change: also where [`Sink::check`] does not look, since the table is
    /// known to be between two shapes.
    ///
    /// # Errors
    /// As [`Sink::check`].
    fn check_now(&mut self, table: &TargetTable) -> Result<()> {
        self.check(table)
    }

    /// Takes the target over: raises the epoch, so that no other run can commit from now on.
    ///
    /// # Errors
    /// `TARGET_BUSY`, `TARGET_WRITE`.
    fn claim(&mut self, job: &JobIdentity) -> Result<()>;

    /// Is there a table of this name? A sink that leaves nothing out of those that it creates ([`Sink::leaves_out`]) need not look.
    ///
    /// # Errors
    /// `TARGET_OPEN`.
    fn has_table(&mut self, name: &str) -> Result<bool> {
        let _ = name;
        Ok(true)
    }

    /// Makes ready to write rows of this shape; creates the table if it is not there.
    ///
    /// # Errors
    /// `TARGET_SHAPE`, `TARGET_DDL`.
    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()>;

    /// Writes changes into the open transaction, opening one if there is none.
    ///
    /// # Errors
    /// `TARGET_WRITE` with table, key and the target's message; `TARGET_VALUE`.
    fn write(&mut self, batch: &TargetBatch) -> Result<()>;

    /// The first of these keys whose row in the open transaction comes from another source table than `owners`, by its place, and which
    /// that is: for tables with [`TargetTable::told_by`]. A row that the source has deleted and the target keeps is nobody's. Where the
    /// target has the tick already (its commit's answer was lost) what it shows may be of a later one, and nothing is said.
    ///
    /// # Errors
    /// Those of [`Sink::prepare`] and [`Sink::write`].
    fn other_owner(
        &mut self,
        table: &Arc<TargetTable>,
        tick: Tick,
        keys: &[Row],
        owners: &[&str],
    ) -> Result<Option<(usize, String)>> {
        let _ = (table, tick, keys, owners);
        Ok(None)
    }

    /// Makes a schema change; a change that the target already shows is no error.
    ///
    /// # Errors
    /// `TARGET_DDL`, with both shapes and the statement.
    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()>;

    /// What of a schema change the target has no room for, and which is therefore not there although the change is made: a
    /// default that would mean something else there, a comment. Lines for people.
    fn leaves_out(&self, change: &TargetSchemaChange) -> Vec<String> {
        let _ = change;
        Vec::new()
    }

    /// Makes everything up to and including `tick` visible, at once, with its binding.
    ///
    /// # Errors
    /// `TARGET_FENCED` if another run has claimed the target since: nothing is committed then.
    fn commit(&mut self, tick: Tick, binding: &Binding) -> Result<()>;

    /// Gives up what was written since the last commit.
    fn rollback(&mut self);

    /// What it has to tell at the end (the null sink's counts and checksums); lines for people.
    fn summary(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a row of a target differs from what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// It is equal.
    Equal,
    /// It is not there.
    Missing,
    /// These columns differ.
    Differs(Vec<ColumnDifference>),
}

/// A value that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDifference {
    /// The column.
    pub column: String,
    /// What it should be, as the target would show it.
    pub expected: String,
    /// What it is.
    pub actual: String,
}

/// Reads a target back, for `cdc verify`. Never writes.
pub trait TargetReader: Send {
    /// The rows of a table; 0 if it is not there.
    ///
    /// # Errors
    /// If the target cannot be read.
    fn count(&mut self, table: &TargetTable) -> Result<u64>;

    /// Compares rows with the target's rows of the same keys, one answer per row. Values are compared as
    /// this sink writes them. Not for a table without key.
    ///
    /// # Errors
    /// If the target cannot be read.
    fn compare(&mut self, table: &TargetTable, rows: &[Row]) -> Result<Vec<Comparison>>;

    /// Gives every key of the target's table as `encode_key` would encode it, and as text for people;
    /// stops when told `false`. Without key: every row.
    ///
    /// # Errors
    /// If the target cannot be read.
    fn scan_keys(&mut self, table: &TargetTable, each: &mut dyn FnMut(Vec<u8>, String) -> bool)
    -> Result<()>;

    /// The key of a row, encoded as the target stores it; without key, the whole row.
    fn encode_key(&mut self, table: &TargetTable, row: &Row) -> Vec<u8>;
}
