//! Tables of online schema change tools, where they are trusted (`online_ddl = trust`; see [`crate::ddl::online`]).
//!
//! A tool's table is never given out: no pattern takes it in while the real table is captured. But its structure is
//! followed, from its CREATE on, beside the captured ones, since the swap makes it the real table's:
//!
//! ```text
//!   CREATE _t_new .. ; ALTER _t_new ..        followed here, told to nobody
//!   rows of _t_new                            passed over: those of t tell the same
//!   RENAME TABLE t TO _t_old, _t_new TO t     told as what makes t's structure into _t_new's
//!   DROP _t_old                               of a table that nobody has
//! ```
//!
//! *Why nothing is to be copied.* Up to the swap every row of the real table has come under its own name. Behind it the table's rows
//! are those of the shadow, which the tool has made equal to them, up to the change of shape: that is what is trusted. Where the change
//! of shape does not tell what rows read (a narrower type, a default that is computed, a column that may have been renamed), the
//! table is copied again behind it, as behind an ALTER of the kind.
//!
//! *A shadow that is not known* (its CREATE was before the start) makes no swap: the real table goes and another one comes,
//! which is taken in as any other that appears. A checkpoint holds the shadows, so a restart in between does not forget them.
//!
//! *Two statements instead of one* make no swap either:
//!
//! ```text
//!   DROP t (or: RENAME TABLE t TO _t_del)     the real table goes
//!   RENAME TABLE _t_new TO t                  another one comes, and is copied
//! ```
//!
//! In between no captured table says that `_t_new` is a tool's: that its structure is followed here does. Of what else is
//! left over (`_t_old`, the tool's notes) nothing was read, so nothing is known: it stays left out, whatever becomes of `t`, until it
//! is renamed to a captured name, or made anew while there is no `t`.

use crate::ddl::{HistoryPartitions, Index, Period, Structures, Versioning, online};
use crate::structure::TableStructures;
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Charset, TableId, TableSchema};
use std::sync::Arc;

/// Is it a tool's table beside one of these?
pub fn is_shadow<'t>(table: &TableId, mut real: impl Iterator<Item = &'t TableId>) -> bool {
    online::belongs_to(table).is_some() && real.any(|real| online::is_of(table, real))
}

/// Follows a change of a tool's table. One that does not fit is of a table that is not known from its beginning.
pub(super) fn follow(shadows: &mut TableStructures, change: &SchemaChange) {
    if let SchemaChange::RenameTable { table, .. } = change {
        // to where it is nobody's shadow, or a second one's
        return shadows.forget([table]);
    }
    if shadows.apply(std::slice::from_ref(change)).is_err() {
        shadows.forget([change.table()]);
    }
}

/// What statements may speak of: the captured tables, and the tools'.
pub(super) struct Both<'s> {
    pub(super) captured: &'s TableStructures,
    pub(super) shadows: &'s TableStructures,
}

impl Both<'_> {
    fn of(&self, id: &TableId) -> &TableStructures {
        if self.captured.get(id).is_none() && self.shadows.get(id).is_some() {
            self.shadows
        } else {
            self.captured
        }
    }
}

impl Structures for Both<'_> {
    fn table(&self, id: &TableId) -> Option<Arc<TableSchema>> {
        self.of(id).table(id)
    }

    fn tables_of(&self, database: &str) -> Vec<TableId> {
        let mut all = self.captured.tables_of(database);
        all.extend(self.shadows.tables_of(database));
        all
    }

    fn database_charset(&self, database: &str) -> Option<Charset> {
        self.captured.database_charset(database)
    }

    fn indexes(&self, id: &TableId) -> Option<Arc<[Index]>> {
        self.of(id).indexes(id)
    }

    fn versioning(&self, id: &TableId) -> Option<Versioning> {
        Structures::versioning(self.of(id), id)
    }

    fn history(&self, id: &TableId) -> Option<HistoryPartitions> {
        self.of(id).history(id)
    }

    fn period(&self, id: &TableId) -> Option<Period> {
        self.of(id).period(id)
    }

    fn is_sequence(&self, id: &TableId) -> bool {
        Structures::is_sequence(self.captured, id)
    }
}
