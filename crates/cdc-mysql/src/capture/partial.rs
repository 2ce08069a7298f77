//! Changes whose images lack columns, while their table is copied and behind that.
//!
//! What the log says is noted for the chunks to come (`snapshot::reconcile`), and given out at once:
//!
//! | the change | noted | given out while the table is copied | given out of a whole table |
//! |---|---|---|---|
//! | all columns are known | whole | as it is | as it is |
//! | an UPDATE, some columns | those columns, to be laid over what a chunk has read | without the row before: the row may not be there yet | as it is |
//! | .. that moves the row to another key | the old key deleted, the new one unknown | a delete of the old key | as it is |
//! | a value is unknown ([`Unknown`](crate::binlog::partial::Unknown)) | the row is unknown | a delete, if there was a row before | an error |
//!
//! So what the target has of the table is what the source had, some rows of it missing. A row that is unknown is read again as a small chunk of its own, which then has all of its columns. The queue of
//! small chunks is part of the state; the table is not whole before it is empty.

use super::Copying;
use crate::binlog::RowChange;
use crate::snapshot::reconcile::{Reconciler, RowEvent, TableNumber};
use crate::snapshot::watermark::{Mark, Watermark};
use cdc_core::event::{Op, Origin};
use cdc_core::{Result, Row, TableSchema};

/// Of a table that is whole every value must be known.
pub(super) fn ensure_known(changes: &[RowChange], schema: &TableSchema, origin: &Origin) -> Result<()> {
    match changes.iter().find_map(|change| change.unknown) {
        None => Ok(()),
        Some(unknown) => {
            let place = format!("at {}:{}, transaction {}", origin.file, origin.offset, origin.gtid);
            Err(unknown.error(schema, &place))
        }
    }
}

/// How changes of a table that is copied are noted.
pub(super) struct Noted<'m> {
    pub(super) number: TableNumber,
    pub(super) mark: &'m Mark,
    /// Generated columns are in no image of the log, and count for nothing.
    pub(super) without_generated: bool,
}

impl Noted<'_> {
    /// Notes changes; gives what is to be given out of them.
    pub(super) fn touch(
        &self,
        reconciler: &mut Reconciler<Mark, Watermark>,
        copying: &mut Copying,
        schema: &TableSchema,
        changes: Vec<RowChange>,
    ) -> Vec<RowChange> {
        let mut given = Vec::with_capacity(changes.len());
        for mut change in changes {
            debug_assert!(change.op != Op::Read);
            let before = change.before.as_ref().map(|r| copying.extractor.key(r));
            let Some(after) = &change.after else {
                if let Some(key) = before {
                    reconciler.touch(self.number, self.mark, RowEvent::Deleted { key });
                }
                given.push(change);
                continue;
            };
            let key = copying.extractor.key(after);
            let moved = before.filter(|from| *from != key);
            let partial = after.has_absent() && self.lacks_some(after, schema);
            if let Some(from) = moved {
                if partial || change.unknown.is_some() {
                    let again = reconciler.touch(self.number, self.mark, RowEvent::Moved { from, to: key });
                    again.into_iter().for_each(|key| copying.read_again(key));
                    given.push(RowChange::new(Op::Delete, change.before.take(), None));
                } else {
                    reconciler.touch(self.number, self.mark, RowEvent::Deleted { key: from });
                    reconciler.touch(self.number, self.mark, RowEvent::Whole { key });
                    given.push(change);
                }
            } else if change.unknown.is_some() {
                let again = reconciler.touch(self.number, self.mark, RowEvent::Lost { key });
                again.into_iter().for_each(|key| copying.read_again(key));
                if change.before.is_some() {
                    given.push(RowChange::new(Op::Delete, change.before.take(), None));
                }
            } else if partial {
                let columns = after.clone();
                reconciler.touch(self.number, self.mark, RowEvent::Partly { key, columns });
                change.before = None;
                given.push(change);
            } else {
                reconciler.touch(self.number, self.mark, RowEvent::Whole { key });
                given.push(change);
            }
        }
        given
    }

    fn lacks_some(&self, row: &Row, schema: &TableSchema) -> bool {
        let mut columns = row.iter().zip(&schema.columns);
        columns.any(|(v, c)| v.is_absent() && !(self.without_generated && c.generated.is_some()))
    }
}
