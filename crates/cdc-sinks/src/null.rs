//! The null sink: reads every value, keeps a count and a checksum per table, writes nothing.
//!
//! It measures everything in front of a sink. That it really read every value is shown by its checksum,
//! which the source's server can compute too ([`checksum_sql`]):
//!
//! ```text
//! checksum(table) = sum over its rows of CRC32(text of the row), modulo 2^64
//! text of a row   = for each column in the order of the table: a byte 00 for NULL,
//!                   else a byte 01 and the value as the server prints it (crate::text),
//!                   FLOAT and DOUBLE as the 8 bytes of the DOUBLE, little endian
//! ```
//!
//! (Bytes, because the server prints some doubles of 17 digits with 16 in an expression, measured on 9.7:
//! `CAST(-2.2702653935157393e-11 AS DOUBLE)`.)
//!
//! A sum does not depend on the order of rows, and has an inverse: a row that comes adds its CRC, a row that
//! goes subtracts it. So a snapshot ends at the server's value, and so does a log read from an empty table,
//! or from a snapshot, if its changes carry whole images before and after (`binlog_row_image=FULL`). Where
//! they do not, the summary says so. After a schema change rows count as they were written, which is not how
//! the server would print them now; the summary says that as well.
//!
//! CRC32 is the zip polynomial, which is what MySQL's `CRC32()` and the `crc32fast` crate both compute. It is
//! no proof against forgery and need not be: it shows that nothing was skipped and nothing misread.

use crate::text::{fraction_digits, push_value};
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole};
use cdc_core::connector::{
    Delivery, JobIdentity, Resume, Sink, TargetBatch, TargetOp, TargetSchemaChange, TargetTable,
};
use cdc_core::event::Op;
use cdc_core::position::Binding;
use cdc_core::schema::{Column, ColumnType, TableSchema};
use cdc_core::tick::Tick;
use cdc_core::value::Value;
use cdc_core::{Result, Row};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The connector, for the language.
pub fn descriptor() -> ConnectorDescriptor {
    ConnectorDescriptor {
        name: "null",
        role: ConnectorRole::Sink,
        help: "reads every value and prints a count and a checksum per table; writes nothing",
        options: Vec::new(),
        example: "sink nowhere = null {}",
    }
}

/// The sink.
#[derive(Debug, Default)]
pub struct NullSink {
    tables: BTreeMap<String, Sum>,
    /// What the tables touched since the last commit were before; for `rollback`.
    undo: Vec<(String, Option<Sum>)>,
    buffer: Vec<u8>,
}

/// What is known of a table.
#[derive(Debug, Clone)]
struct Sum {
    schema: Arc<TableSchema>,
    fractions: Arc<[u8]>,
    rows: i64,
    checksum: u64,
    changes: u64,
    /// Changes whose image before was not whole.
    without_before: u64,
    reshaped: bool,
    /// Rows of one of several source tables went as a whole: how many is not known.
    unseen: bool,
}

impl NullSink {
    /// A sink that has seen nothing.
    pub fn new() -> NullSink {
        NullSink::default()
    }

    /// Rows and checksum of a target table, as far as its changes told.
    pub fn sum(&self, table: &str) -> Option<(i64, u64)> {
        self.tables.get(table).map(|s| (s.rows, s.checksum))
    }

    /// Remembers a table as it was at the last commit.
    fn touch(&mut self, table: &str) {
        if !self.undo.iter().any(|(name, _)| name == table) {
            self.undo.push((table.to_owned(), self.tables.get(table).cloned()));
        }
    }

    fn table(&mut self, table: &TargetTable) -> &mut Sum {
        self.touch(&table.name);
        let sum = self.tables.entry(table.name.clone()).or_insert_with(|| Sum::new(&table.schema));
        sum.take(&table.schema);
        sum
    }
}

impl Sum {
    fn new(schema: &Arc<TableSchema>) -> Sum {
        Sum {
            schema: schema.clone(),
            fractions: fractions(schema),
            rows: 0,
            checksum: 0,
            changes: 0,
            without_before: 0,
            reshaped: false,
            unseen: false,
        }
    }

    fn take(&mut self, schema: &Arc<TableSchema>) {
        if !Arc::ptr_eq(&self.schema, schema) {
            if self.schema.columns != schema.columns {
                self.reshaped |= self.changes > 0;
                self.fractions = fractions(schema);
            }
            self.schema = schema.clone();
        }
    }
}

fn fractions(schema: &TableSchema) -> Arc<[u8]> {
    schema.columns.iter().map(|c| fraction_digits(&c.ty)).collect()
}

/// The CRC of a row, and whether it was whole.
fn row_crc(buffer: &mut Vec<u8>, row: &Row, fractions: &[u8]) -> (u32, bool) {
    buffer.clear();
    let mut whole = true;
    let mut fractions = fractions.iter();
    for value in row.iter() {
        let fsp = fractions.next().copied().unwrap_or(0);
        match &value {
            Value::Null => buffer.push(0),
            Value::Absent => whole = false,
            value => {
                buffer.push(1);
                match value {
                    Value::Float(v) => buffer.extend_from_slice(&f64::from(*v).to_le_bytes()),
                    Value::Double(v) => buffer.extend_from_slice(&v.to_le_bytes()),
                    value => push_value(buffer, value, fsp),
                }
            }
        }
    }
    (crc32fast::hash(buffer), whole)
}

impl Sink for NullSink {
    fn delivery(&self) -> Delivery {
        Delivery::Log
    }

    fn inspect(&mut self, _job: &JobIdentity) -> Result<Option<Resume>> {
        Ok(None)
    }

    fn holds_progress(&self) -> bool {
        false
    }

    fn check(&mut self, _table: &TargetTable) -> Result<()> {
        Ok(())
    }

    fn claim(&mut self, _job: &JobIdentity) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, table: &Arc<TargetTable>) -> Result<()> {
        self.table(table);
        Ok(())
    }

    fn write(&mut self, batch: &TargetBatch) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let sum = self.table(&batch.table);
        for change in &batch.changes {
            sum.changes += 1;
            match &change.before {
                Some(before) => {
                    let (crc, whole) = row_crc(&mut buffer, before, &sum.fractions);
                    sum.rows -= 1;
                    sum.checksum = sum.checksum.wrapping_sub(u64::from(crc));
                    sum.without_before += u64::from(!whole);
                }
                None if change.op == TargetOp::Delete || change.source_op == Op::Update => {
                    sum.rows -= 1;
                    sum.without_before += 1;
                }
                None => {}
            }
            if change.op == TargetOp::Upsert
                && let Some(row) = &change.row
            {
                let (crc, whole) = row_crc(&mut buffer, row, &sum.fractions);
                sum.rows += 1;
                sum.checksum = sum.checksum.wrapping_add(u64::from(crc));
                sum.without_before += u64::from(!whole);
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    fn apply(&mut self, change: &TargetSchemaChange) -> Result<()> {
        match change {
            TargetSchemaChange::DropTable { table } => {
                self.touch(table);
                self.tables.remove(table);
            }
            TargetSchemaChange::TruncateTable { table } => {
                self.touch(table);
                if let Some(sum) = self.tables.get_mut(table) {
                    *sum = Sum::new(&sum.schema);
                }
            }
            TargetSchemaChange::RemoveRows { table, only, .. } => {
                self.touch(table);
                if let Some(sum) = self.tables.get_mut(table) {
                    if only.is_empty() {
                        *sum = Sum::new(&sum.schema);
                    } else {
                        sum.unseen = true;
                    }
                }
            }
            TargetSchemaChange::RenameTable { from, to } => {
                self.touch(from);
                self.touch(to);
                if let Some(sum) = self.tables.remove(from) {
                    self.tables.insert(to.clone(), sum);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn commit(&mut self, _tick: Tick, _binding: &Binding) -> Result<()> {
        self.undo.clear();
        Ok(())
    }

    fn rollback(&mut self) {
        for (name, sum) in self.undo.drain(..) {
            match sum {
                Some(sum) => self.tables.insert(name, sum),
                None => self.tables.remove(&name),
            };
        }
    }

    /// One line a table: `null: shop.orders 2000000 rows checksum 0123456789abcdef`.
    fn summary(&self) -> Vec<String> {
        let line = |(name, sum): (&String, &Sum)| {
            let id = &sum.schema.id;
            let mut line = format!("null: {id}");
            if *id.table != **name {
                line.push_str(&format!(" as {name}"));
            }
            line.push_str(&format!(" {} rows checksum {:016x}", sum.rows, sum.checksum));
            if sum.without_before > 0 {
                line.push_str(&format!(
                    " (not the server's: {} changes came without a whole image before)",
                    sum.without_before
                ));
            }
            if sum.reshaped {
                line.push_str(" (not the server's: the table changed its shape)");
            }
            if sum.unseen {
                line.push_str(" (not the server's: rows of one of its source tables were to go, uncounted)");
            }
            line
        };
        self.tables.iter().map(line).collect()
    }
}

/// The statement that has the server compute a table's count and checksum, the checksum as 16 hexadecimal
/// digits. Tried on MySQL 9.7.
///
/// Run it in a session with `time_zone = '+00:00'` (TIMESTAMP columns) and without
/// `PAD_CHAR_TO_FULL_LENGTH`. A row whose text is longer than `max_allowed_packet` is not summed up: `CONCAT`
/// makes it NULL.
pub fn checksum_sql(table: &TableSchema) -> String {
    let parts: Vec<String> =
        table.columns.iter().map(|c| format!("COALESCE(CONCAT(X'01', {}), X'00')", column_text(c))).collect();
    // CONCAT of nothing is an error; a table without columns has no rows that differ.
    let text = if parts.is_empty() { "''".to_owned() } else { format!("CONCAT({})", parts.join(", ")) };
    format!(
        "SELECT COUNT(*), LPAD(LOWER(HEX(CAST(COALESCE(SUM(CRC32({text})), 0) % 18446744073709551616 AS UNSIGNED))), 16, '0') FROM {}.{}",
        backticked(&table.id.database),
        backticked(&table.id.table)
    )
}

/// An expression for the column's value as the module's head says.
fn column_text(column: &Column) -> String {
    let name = backticked(&column.name);
    match &column.ty {
        // `+ 0`: ZEROFILL prints zeros that are not part of the value; BIT prints bytes; YEAR 0 prints 0000.
        ColumnType::Int { .. } | ColumnType::Decimal { .. } | ColumnType::Bit { .. } | ColumnType::Year => {
            format!("CONVERT({name} + 0 USING utf8mb4)")
        }
        // Byte order and type are in front of the first coordinate. The cast gives it the coercibility of a column:
        // else it would be converted to the character set of the texts beside it.
        ColumnType::Float { .. } | ColumnType::Double { .. } => {
            format!("CAST(SUBSTRING(ST_AsBinary(POINT({name}, 0)), 6, 8) AS BINARY)")
        }
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => name,
        // CONCAT refuses a VECTOR.
        ColumnType::Geometry { .. } | ColumnType::Vector { .. } => format!("CAST({name} AS BINARY)"),
        ColumnType::Date
        | ColumnType::Time { .. }
        | ColumnType::DateTime { .. }
        | ColumnType::Timestamp { .. }
        | ColumnType::Char { .. }
        | ColumnType::VarChar { .. }
        | ColumnType::Text { .. }
        | ColumnType::Enum { .. }
        | ColumnType::Set { .. }
        | ColumnType::Json
        | ColumnType::Uuid
        | ColumnType::Inet4
        | ColumnType::Inet6 => format!("CONVERT({name} USING utf8mb4)"),
    }
}

fn backticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
