//! Rows of MariaDB's system-versioned tables: what of the log is about the rows of now.
//!
//! Such a table holds rows that have ended beside the rows of now; the time at which a row ended tells them apart, and
//! a row of now ends at the last time there is. A SELECT sees the rows of now only, so they are the table that is
//! copied. The log shows the table as it is stored (measured on 10.11 and 11.8):
//!
//! | statement | in the log |
//! |---|---|
//! | INSERT | a row of now is written |
//! | UPDATE | a row of now becomes another one; the old one is written as one that has ended |
//! | DELETE | a row of now becomes one that has ended |
//! | DELETE HISTORY | rows that have ended are deleted |
//!
//! So by the images alone: what becomes a row of now is given out as an insert or an update, what was one and is
//! none any more as a delete, and everything else is history.
//!
//! Where the definition does not name the two columns of time, they are the last two of every image.
//!
//! Behind them, of any table, stands a column for each UNIQUE key that MariaDB keeps by a hash (over TEXT, BLOB, long
//! VARCHAR, or USING HASH): `DB_ROW_HASH_n`, a generated BIGINT UNSIGNED that no definition shows (measured on 10.11 and
//! 11.8; the latter leaves it out of images after an UPDATE, as it does with every generated column).

use super::RowChange;
use super::table_map::{TableMap, WireColumn, WireType};
use crate::ddl::Versioning;
use cdc_core::event::Op;
use cdc_core::schema::{Column, ColumnType, Generated, IntWidth, TableSchema, same_name};
use cdc_core::{Row, RowBuilder, Value};
use std::sync::Arc;

/// How the images of such a table are read.
#[derive(Debug, Clone)]
pub(super) struct RowsOfNow {
    /// The column that says when a row ended.
    end: usize,
    /// The columns that are given out; those behind are not shown by the definition.
    shown: usize,
}

/// The structure with which the log's bytes are read, and how their rows are told apart. `None` if the columns that
/// are named are not there.
pub(super) fn as_stored(
    schema: &Arc<TableSchema>,
    versioning: &Versioning,
) -> Option<(Arc<TableSchema>, RowsOfNow)> {
    let shown = schema.columns.len();
    let mut stored = TableSchema::clone(schema);
    let end = match versioning {
        Versioning::Hidden => {
            let time = |name: &str| Column::new(name, ColumnType::Timestamp { fsp: 6 }).not_null();
            stored.columns.extend([time("row_start"), time("row_end")]);
            shown + 1
        }
        Versioning::Columns { end, .. } => schema.columns.iter().position(|c| same_name(&c.name, end))?,
    };
    // the server puts it behind every key
    if !stored.primary_key.is_empty() && !stored.primary_key.contains(&end) {
        stored.primary_key.push(end);
    }
    Some((Arc::new(stored), RowsOfNow { end, shown }))
}

/// The structure with the hashes that the log's images have behind it.
pub(super) fn with_hashes(map: &TableMap, stored: Arc<TableSchema>) -> Arc<TableSchema> {
    let hidden = map.columns.get(stored.columns.len()..).unwrap_or_default();
    let is_hash = |c: &WireColumn| {
        c.ty == WireType::LongLong && c.name.as_ref().is_none_or(|name| name.starts_with(HASH))
    };
    // Without names in the log the structure has to tell: a hash belongs to a unique key.
    let named = hidden.iter().all(|c| c.name.is_some());
    if hidden.is_empty()
        || !hidden.iter().all(is_hash)
        || !(named || hidden.len() <= stored.unique_keys.len())
    {
        return stored;
    }
    let mut wide = TableSchema::clone(&stored);
    for (n, wire) in hidden.iter().enumerate() {
        let mut column =
            Column::new(format!("{HASH}{}", n + 1), ColumnType::Int { width: IntWidth::Big, unsigned: true });
        column.nullable = wire.nullable;
        column.generated = Some(Generated { expression: "HASH".into(), stored: false });
        wide.columns.push(column);
    }
    Arc::new(wide)
}

/// How many hashes stand at the end of a table map that has names.
pub(super) fn hashes(map: &TableMap) -> usize {
    let is_hash = |c: &&WireColumn| {
        c.ty == WireType::LongLong && c.name.as_ref().is_some_and(|name| name.starts_with(HASH))
    };
    map.columns.iter().rev().take_while(is_hash).count()
}

/// Is it a column that [`with_hashes`] has added?
pub(super) fn is_hash(column: &Column) -> bool {
    column.name.starts_with(HASH) && column.generated.as_ref().is_some_and(|g| &*g.expression == "HASH")
}

const HASH: &str = "DB_ROW_HASH_";

/// The first columns of a row.
pub(super) fn first(row: Row, columns: usize) -> Row {
    let mut builder = RowBuilder::new();
    row.iter().take(columns).for_each(|value| builder.push(&value));
    builder.finish()
}

impl RowsOfNow {
    /// What a change of the stored table is to the rows of now; `None` if nothing.
    pub(super) fn change(&self, before: Option<Row>, after: Option<Row>) -> Option<RowChange> {
        let now = |row: Option<Row>| row.filter(|row| self.is_now(row)).map(|row| self.shown(row));
        let (before, after) = (now(before), now(after));
        let op = match (&before, &after) {
            (None, None) => return None,
            (None, Some(_)) => Op::Insert,
            (Some(_), Some(_)) => Op::Update,
            (Some(_), None) => Op::Delete,
        };
        Some(RowChange::new(op, before, after))
    }

    fn is_now(&self, row: &Row) -> bool {
        let is_last =
            |column| matches!(row.get(column), Value::Timestamp(t) if LAST_MICROS.contains(&t.micros));
        match row.get(self.end) {
            // Hidden columns may stand the other way round, if they were named once (measured); no row begins then.
            Value::Timestamp(_) => is_last(self.end) || self.end > self.shown && is_last(self.end - 1),
            // by transactions, not by time
            Value::UInt(transaction) => transaction == u64::MAX,
            _ => false,
        }
    }

    fn shown(&self, row: Row) -> Row {
        if self.end < self.shown { row } else { first(row, self.shown) }
    }
}

/// The last microsecond of a second of 31 bits, and since 11.5 of 32.
const LAST_MICROS: [i64; 2] = [0x7fff_ffff * 1_000_000 + 999_999, 0xffff_ffff * 1_000_000 + 999_999];

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::TableId;
    use cdc_core::schema::Charset;
    use cdc_core::value::Timestamp;

    fn table(columns: Vec<Column>) -> Arc<TableSchema> {
        Arc::new(TableSchema {
            id: TableId::new("shop", "t"),
            version: 1,
            columns,
            primary_key: vec![0],
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        })
    }

    fn id() -> Column {
        Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }).not_null()
    }

    fn row(id: i64, end: i64) -> Option<Row> {
        let time = |micros| Value::Timestamp(Timestamp { micros });
        Some(Row::pack([Value::Int(id), time(5), time(end)]))
    }

    #[test]
    fn by_images() {
        let schema = table(vec![id()]);
        let (stored, rows) = as_stored(&schema, &Versioning::Hidden).unwrap();
        assert_eq!(stored.columns.len(), 3);
        assert_eq!(stored.primary_key, [0, 2]);
        for last in LAST_MICROS {
            let plain = |id| Some(Row::pack([Value::Int(id)]));
            let change = |op, before, after| Some(RowChange::new(op, before, after));
            let cases = [
                (None, row(1, last), change(Op::Insert, None, plain(1))),
                (None, row(1, 7), None),
                (row(1, last), row(2, last), change(Op::Update, plain(1), plain(2))),
                (row(1, last), row(1, 7), change(Op::Delete, plain(1), None)),
                (row(1, 6), row(1, 7), None),
                (row(1, 6), row(1, last), change(Op::Insert, None, plain(1))),
                (row(1, 6), None, None),
                (row(1, last), None, change(Op::Delete, plain(1), None)),
            ];
            for (before, after, expected) in cases {
                assert_eq!(rows.change(before.clone(), after.clone()), expected, "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn named_columns_are_given_out() {
        let time = |name: &str| Column::new(name, ColumnType::Timestamp { fsp: 6 }).not_null();
        let schema = table(vec![id(), time("s"), time("E")]);
        let versioning = Versioning::Columns { start: "s".into(), end: "e".into() };
        let (stored, rows) = as_stored(&schema, &versioning).unwrap();
        assert_eq!((stored.columns.len(), &*stored.primary_key), (3, &[0, 2][..]));
        let change = rows.change(None, row(1, LAST_MICROS[0])).unwrap();
        assert_eq!(change.after, row(1, LAST_MICROS[0]));
        let gone = Versioning::Columns { start: "s".into(), end: "x".into() };
        assert!(as_stored(&schema, &gone).is_none());
    }
}
