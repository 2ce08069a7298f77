//! One operator of a flow, for a dataflow that shows each operator by itself.

use super::{FlowOp, RowMeta, Shape, Step, located, run};
use crate::diagnostic::Diagnostic;
use crate::error::Result;
use crate::row::{Row, RowBuilder};
use crate::schema::TableSchema;
use std::sync::Arc;

/// One operator bound to the columns in front of it. A chain of them, one per operator of a flow, gives what
/// [`BoundFlow`](super::BoundFlow) gives in one pass: each stage's output is the next one's table, under the source
/// table's name, with the source's key as long as all of its columns are there.
#[derive(Debug, Clone)]
pub struct Stage {
    input: Arc<TableSchema>,
    output: Arc<TableSchema>,
    steps: Vec<Step>,
    registers: Vec<usize>,
    same_row: bool,
}

impl Stage {
    /// Binds an operator.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn bind(op: &FlowOp, input: &Arc<TableSchema>) -> Result<Stage, Vec<Diagnostic>> {
        let mut shape = Shape::of(input);
        shape.apply(op);
        if !shape.errors.is_empty() {
            return Err(shape.errors);
        }
        let registers: Vec<usize> = shape.columns.iter().map(|c| c.register).collect();
        let key: Option<Vec<usize>> =
            input.key().and_then(|key| key.iter().map(|k| registers.iter().position(|r| r == k)).collect());
        let output = TableSchema {
            id: input.id.clone(),
            version: input.version,
            columns: shape.columns.iter().map(|c| c.column.clone()).collect(),
            primary_key: key.unwrap_or_default(),
            unique_keys: Vec::new(),
            charset: input.charset.clone(),
            comment: input.comment.clone(),
        };
        Ok(Stage {
            same_row: registers.len() == input.columns.len()
                && registers.iter().enumerate().all(|(i, r)| i == *r),
            input: input.clone(),
            output: Arc::new(output),
            steps: shape.steps,
            registers,
        })
    }

    /// The columns behind the operator.
    pub fn output(&self) -> &Arc<TableSchema> {
        &self.output
    }

    /// What comes of a row; `None` if it is filtered out.
    ///
    /// # Errors
    /// As [`BoundFlow::apply`](super::BoundFlow::apply).
    pub fn apply(&self, row: &Row, meta: &RowMeta<'_>) -> Result<Option<Row>> {
        self.output_of(row, meta).map_err(|error| located(error, row, meta))
    }

    fn output_of(&self, row: &Row, meta: &RowMeta<'_>) -> Result<Option<Row>> {
        let Some(registers) = run(&self.steps, row, self.input.columns.len(), meta)? else { return Ok(None) };
        if self.same_row {
            return Ok(Some(row.clone()));
        }
        let mut builder = RowBuilder::new();
        for register in &self.registers {
            builder.push(&registers[*register]);
        }
        Ok(Some(builder.finish()))
    }
}
