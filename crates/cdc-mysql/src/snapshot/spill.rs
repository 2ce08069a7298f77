//! Changes of a table that wait for its copy: in memory while they are few, in a temporary file when they are many.
//!
//! The file has no name (it is gone with the process, however that ends) and is only ever appended to and read once,
//! so it needs no format that outlives a build: rows are the packed bytes that they are in memory.

use crate::binlog::{LogPoint, RowChange};
use crate::snapshot::watermark::Mark;
use cdc_core::event::{Op, Origin};
use cdc_core::{Error, Result, Row, TableSchema, codes};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Bytes of rows that stay in memory.
const IN_MEMORY: usize = 8 << 20;

/// Changes of one event.
#[derive(Debug)]
pub struct Waiting {
    /// Their transaction, for watermarks.
    pub mark: Mark,
    /// Where it begins.
    pub begin: LogPoint,
    /// The table's shape.
    pub schema: Arc<TableSchema>,
    /// The transaction, for people.
    pub origin: Arc<Origin>,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    Held(Vec<RowChange>),
    Written { offset: u64, bytes: usize },
}

/// The changes, in the order of the log.
#[derive(Debug, Default)]
pub struct Spill {
    waiting: VecDeque<Waiting>,
    held: usize,
    file: Option<File>,
    end: u64,
}

impl Spill {
    /// Adds the changes of an event.
    ///
    /// # Errors
    /// `FILE_UNREADABLE` if the temporary file cannot be written.
    pub fn push(
        &mut self,
        mark: Mark,
        schema: Arc<TableSchema>,
        origin: Arc<Origin>,
        changes: Vec<RowChange>,
    ) -> Result<()> {
        let begin = LogPoint::new(origin.file.clone(), origin.offset);
        let bytes: usize = changes.iter().map(bytes_of).sum();
        let rows = if self.held + bytes <= IN_MEMORY {
            self.held += bytes;
            Rows::Held(changes)
        } else {
            self.write(&changes).map_err(|e| failed(&e))?
        };
        self.waiting.push_back(Waiting { mark, begin, schema, origin, rows });
        Ok(())
    }

    fn write(&mut self, changes: &[RowChange]) -> std::io::Result<Rows> {
        let mut out = Vec::new();
        for change in changes {
            out.push(change.op as u8);
            for row in [&change.before, &change.after] {
                let bytes = row.as_ref().map(Row::as_bytes);
                // one more than the length, 0 for none
                out.extend((bytes.map_or(0, |b| b.len() as u64 + 1)).to_le_bytes());
                out.extend(bytes.unwrap_or_default());
            }
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.seek(SeekFrom::Start(self.end))?;
        file.write_all(&out)?;
        let offset = self.end;
        self.end += out.len() as u64;
        Ok(Rows::Written { offset, bytes: out.len() })
    }

    /// Drops what is not wanted any more.
    pub fn retain(&mut self, mut wanted: impl FnMut(&Waiting) -> bool) {
        self.waiting.retain(|w| wanted(w));
        let held = |w: &Waiting| match &w.rows {
            Rows::Held(changes) => changes.iter().map(bytes_of).sum(),
            Rows::Written { .. } => 0,
        };
        self.held = self.waiting.iter().map(held).sum();
        if self.waiting.is_empty() {
            self.clear();
        }
    }

    /// Is there one for which this holds?
    pub fn any(&self, holds: impl FnMut(&Waiting) -> bool) -> bool {
        self.waiting.iter().any(holds)
    }

    /// Drops everything, the file too.
    pub fn clear(&mut self) {
        *self = Spill::default();
    }

    /// The first of the changes, taken out.
    ///
    /// # Errors
    /// `FILE_UNREADABLE` if the temporary file cannot be read.
    pub fn pop(&mut self) -> Result<Option<(Waiting, Vec<RowChange>)>> {
        let Some(mut first) = self.waiting.pop_front() else {
            self.clear();
            return Ok(None);
        };
        let changes = match std::mem::replace(&mut first.rows, Rows::Held(Vec::new())) {
            Rows::Held(changes) => {
                self.held = self.held.saturating_sub(changes.iter().map(bytes_of).sum());
                changes
            }
            Rows::Written { offset, bytes } => self.read(offset, bytes)?,
        };
        Ok(Some((first, changes)))
    }

    fn read(&mut self, offset: u64, bytes: usize) -> Result<Vec<RowChange>> {
        let mut buffer = vec![0; bytes];
        let file = self.file.as_mut().ok_or_else(damaged)?;
        file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut buffer)).map_err(|e| {
            Error::definite(codes::FILE_UNREADABLE, format!("a temporary file cannot be read: {e}"))
        })?;
        let mut rest = &buffer[..];
        let mut changes = Vec::new();
        while let Some((op, tail)) = rest.split_first() {
            rest = tail;
            let op = [Op::Insert, Op::Update, Op::Delete]
                .into_iter()
                .find(|known| *known as u8 == *op)
                .ok_or_else(damaged)?;
            let (before, after) = (read_row(&mut rest)?, read_row(&mut rest)?);
            changes.push(RowChange::new(op, before, after));
        }
        Ok(changes)
    }
}

fn read_row(rest: &mut &[u8]) -> Result<Option<Row>> {
    let (length, tail) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
    *rest = tail;
    let Some(length) = u64::from_le_bytes(*length).checked_sub(1) else { return Ok(None) };
    let (bytes, tail) = rest.split_at_checked(length as usize).ok_or_else(damaged)?;
    *rest = tail;
    Row::from_bytes(bytes).map(Some).ok_or_else(damaged)
}

fn bytes_of(change: &RowChange) -> usize {
    let rows = change.before.iter().chain(&change.after);
    rows.map(|row| row.as_bytes().len()).sum::<usize>() + 64
}

fn failed(error: &std::io::Error) -> Error {
    Error::definite(codes::FILE_UNREADABLE, format!("a temporary file cannot be written: {error}"))
        .note("changes of a table without a key wait there while it is copied")
        .help("make room in the folder of temporary files, or let TMPDIR name another")
}

fn damaged() -> Error {
    Error::definite(codes::INTERNAL, "a temporary file does not hold what was written into it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::Value;
    use cdc_core::schema::{Charset, TableId};

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let schema = Arc::new(TableSchema {
            id: TableId::new("d", "t"),
            version: 1,
            columns: Vec::new(),
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        });
        let row =
            |n: i64| Some(Row::pack([Value::Int(n), Value::Bytes(vec![7; 100_000].into()), Value::Null]));
        let origin = |offset| {
            Arc::new(Origin {
                timestamp_micros: 0,
                gtid: "".into(),
                file: "b.1".into(),
                offset,
                snapshot: false,
            })
        };
        let mut spill = Spill::default();
        let change = |n: i64| match n % 3 {
            0 => RowChange::new(Op::Insert, None, row(n)),
            1 => RowChange::new(Op::Update, row(n), row(-n)),
            _ => RowChange::new(Op::Delete, row(n), None),
        };
        for n in 0..300_i64 {
            let point = LogPoint::new("b.1", n as u64);
            spill
                .push(Mark::Point(point), schema.clone(), origin(n as u64), vec![change(n), change(n + 1)])
                .unwrap();
        }
        assert!(spill.file.is_some(), "all of it in memory");
        spill.retain(|w| w.begin.offset % 7 != 0);
        assert!(spill.any(|w| w.begin.offset == 8) && !spill.any(|w| w.begin.offset == 7));
        for n in (0..300_i64).filter(|n| n % 7 != 0) {
            let (waiting, changes) = spill.pop().unwrap().unwrap();
            assert_eq!(waiting.origin.offset, n as u64);
            assert_eq!(changes, [change(n), change(n + 1)]);
        }
        assert!(spill.pop().unwrap().is_none());
    }
}
