//! Sequences (MariaDB). For the server one is a table of one row, for us it is a name that is no table: no statement
//! about it is a change, and what becomes of the name is a fact.
//!
//! Two things a guess could cost: a table taken for a sequence loses its rows without a word, a sequence taken for a
//! table stops a reader. So a name known as a table is made a sequence only where the statement surely did that.

use super::Work;
use super::cursor::{Cursor, Parsed};
use cdc_core::schema_change::SchemaChange;

/// Behind CREATE [OR REPLACE] SEQUENCE.
pub(super) fn create(cursor: &mut Cursor<'_>, work: &mut Work<'_>, replace: bool) -> Parsed<()> {
    work.what = "CREATE SEQUENCE".into();
    let if_not_exists = cursor.if_not_exists();
    let id = cursor.table(work.structures)?;
    work.tables.push(id.clone());
    if work.structures.table(&id).is_some() {
        if if_not_exists {
            // The server did nothing.
            return Ok(());
        }
        if replace {
            work.changes.push(SchemaChange::DropTable { table: id.clone() });
        }
    }
    work.sequence(id, true);
    Ok(())
}

/// Behind ALTER SEQUENCE.
pub(super) fn alter(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "ALTER SEQUENCE".into();
    let if_exists = cursor.if_exists();
    let id = cursor.table(work.structures)?;
    work.tables.push(id.clone());
    // Of a temporary sequence it may be called like a table.
    if !if_exists && work.structures.table(&id).is_none() {
        work.sequence(id, true);
    }
    Ok(())
}

/// Behind DROP SEQUENCE. Of a table the server says that it is none, and leaves it.
pub(super) fn drop(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "DROP SEQUENCE".into();
    cursor.if_exists();
    loop {
        let id = cursor.table(work.structures)?;
        work.tables.push(id.clone());
        work.sequence(id, false);
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_end()
}
