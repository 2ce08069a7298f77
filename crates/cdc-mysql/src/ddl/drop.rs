//! DROP TABLE, TRUNCATE, DROP DATABASE.

use super::cursor::{Cursor, Parsed};
use super::{Fact, Work};
use cdc_core::TableId;
use cdc_core::schema_change::SchemaChange;
use std::sync::Arc;

/// Behind DROP {TABLE | TABLES}.
pub(super) fn table(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "DROP TABLE IF EXISTS of tables that are not there".into();
    let if_exists = cursor.if_exists();
    loop {
        let table = cursor.table(work.structures)?;
        work.tables.push(table.clone());
        if work.structures.is_sequence(&table) {
            work.what = "DROP TABLE of sequences".into();
        }
        one(work, table, if_exists);
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.skip_wait()?;
    cursor.accept_any(&["RESTRICT", "CASCADE"]);
    cursor.expect_end()
}

/// The drop of one table, or of a sequence.
pub(super) fn one(work: &mut Work<'_>, table: TableId, if_exists: bool) {
    if work.structures.is_sequence(&table) {
        work.sequence(table, false);
    } else if !if_exists || work.structures.table(&table).is_some() {
        work.changes.push(SchemaChange::DropTable { table });
    }
}

/// Behind TRUNCATE.
pub(super) fn truncate(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "TRUNCATE".into();
    cursor.accept("TABLE");
    let table = cursor.table(work.structures)?;
    work.tables.push(table.clone());
    cursor.skip_wait()?;
    cursor.expect_end()?;
    work.changes.push(SchemaChange::TruncateTable { table });
    Ok(())
}

/// Behind DROP {DATABASE | SCHEMA}: the drop of each of its tables.
pub(super) fn database(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "DROP DATABASE of which no table is known".into();
    cursor.if_exists();
    let name = cursor.database()?;
    cursor.expect_end()?;
    for table in work.structures.tables_of(&name) {
        work.tables.push(table.clone());
        work.changes.push(SchemaChange::DropTable { table });
    }
    // Its sequences go with it.
    work.facts.push(Fact::Database { name: Arc::from(&*name), charset: None });
    Ok(())
}
