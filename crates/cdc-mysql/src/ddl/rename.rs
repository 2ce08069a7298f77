//! RENAME TABLE: pairs, carried out from left to right, so that names can be swapped.

use super::Work;
use super::cursor::{Cursor, Parsed};
use cdc_core::TableId;
use cdc_core::schema_change::SchemaChange;
use std::collections::BTreeMap;

/// What a name stands for while the pairs are gone through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    Known,
    /// A table whose rows were not followed.
    Unknown,
    /// A sequence, which is no table.
    Sequence,
}

/// Behind RENAME {TABLE | TABLES}.
///
/// A table that is not known is renamed all the same (MariaDB logs the RENAME of temporary tables that
/// nobody else has); what it becomes holds rows that were never followed, so it is to be copied.
pub(super) fn table(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "RENAME TABLE".into();
    cursor.if_exists();
    let mut names: BTreeMap<TableId, Holds> = BTreeMap::new();
    loop {
        let from = cursor.table(work.structures)?;
        work.tables.push(from.clone());
        cursor.skip_wait()?;
        cursor.expect("TO")?;
        let to = cursor.table(work.structures)?;
        work.tables.push(to.clone());
        let holds = match names.get(&from) {
            Some(holds) => *holds,
            None if work.structures.table(&from).is_some() => Holds::Known,
            None if work.structures.is_sequence(&from) => Holds::Sequence,
            None => Holds::Unknown,
        };
        names.insert(from.clone(), Holds::Nothing);
        names.insert(to.clone(), holds);
        if holds != Holds::Sequence {
            work.changes.push(SchemaChange::RenameTable { table: from, to });
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_end()?;
    work.tables.sort();
    work.tables.dedup();
    for (table, holds) in names {
        let was_sequence = work.structures.is_sequence(&table);
        if was_sequence != (holds == Holds::Sequence) {
            work.sequence(table.clone(), !was_sequence);
        }
        if holds == Holds::Unknown {
            let reason = "renamed from a table that is not followed".to_owned();
            work.changes.push(SchemaChange::ResnapshotTable { table, reason });
        }
    }
    Ok(())
}
