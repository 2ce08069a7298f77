//! Types: a flow bound to a table, as the engine will bind it.

use crate::lower::{LoweredFlow, Pipeline};
use cdc_core::diagnostic::Diagnostic;
use cdc_core::schema::TableSchema;

/// What the engine would say of the flow for this table.
pub(super) fn bind(_flow: &LoweredFlow<'_>, _table: &TableSchema, _pipeline: &Pipeline) -> Vec<Diagnostic> {
    Vec::new()
}
