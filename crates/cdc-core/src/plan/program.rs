//! A flow bound to the schema of one of its tables: what happens to each row.
//!
//! # Registers
//! A row is unpacked once into *registers*, the source's columns first. Each `where` reads them, each
//! computed column is appended to them, and the output names those it is made of, so that no operator copies
//! what it does not change. A flow whose output is the source's columns as they are gives out the row itself.
//!
//! # One change in, at most two out
//! The same program is run over a row before and after a change; what it makes of them says what becomes of
//! the target:
//!
//! | before \ after | filtered out | in, same key | in, another key |
//! |---|---|---|---|
//! | filtered out, or none | nothing | upsert | upsert |
//! | in | delete | upsert | delete of the old key, upsert of the new |
//!
//! This is right because a program has no state and no function that gives another value the next time: the
//! row before comes out as it did when it was written, so its key is the key that the target has. The one
//! exception are `meta.op`, `meta.ts`, `meta.position` and `meta.gtid`, which are those of the change at
//! hand; keys and filters made of them speak of changes, not of rows.
//!
//! # Tables without a key
//! Where nothing identifies a row and the flow states no key, the target is a multiset: an insert adds a row,
//! a delete takes an equal one away, an update is a delete and an insert of whole rows (or nothing, if the row
//! comes out as it was). The whole row takes the place of the key. The row to be taken away is known by what
//! the program makes of the row before, so it must come out as it did when it was written: the four fields above
//! are refused in such a flow.
//!
//! An update that leaves the output as it was is an upsert all the same: the target may not have the row yet,
//! since a chunk leaves out rows that the log has touched.
//!
//! # Rows that stay when they are deleted
//! With `soft_delete = column` the output has one more column, 0 in each row; a delete is an update that sets it to 1
//! ([`TargetTable::soft_delete`]), and so is the delete half of a row that moves to another key or leaves through a filter.
//! A row that comes again is written as a whole, with 0.
//!
//! # Whose row it is
//! With `key_conflict = error` the output has one more column ([`SOURCE_COLUMN`]): the source table that the row comes from,
//! by which the target's rows are told apart where their keys do not ([`TargetTable::told_by`]).
//!
//! # Rows of which not all columns are known
//! Where the log's images leave out columns (`binlog_row_image` MINIMAL, NOBLOB) a row after an update has those that may
//! have changed, and its key. A flow that copies, renames and drops columns hands on what is there: an *update in
//! part* ([`TargetOp::Upsert`]), one change also where the row moves to another key. A flow that reads other columns than the
//! source's key, in a filter or an expression, or whose target has another key, needs whole rows
//! ([`BoundFlow::needs_whole_rows`]); it stops at the first row in part.

mod stage;

pub use crate::expr::eval::RowMeta;
pub use stage::Stage;

use super::explain::as_written;
use super::view::rank::Ranking;
use super::{
    ColumnName, FlowOp, FlowPlan, KeyConflict, NamedExpr, SOURCE_COLUMN, SelectItem, TargetName, TemplatePart,
};
use crate::codes;
use crate::connector::{TargetChange, TargetOp, TargetTable};
use crate::diagnostic::{Diagnostic, Span};
use crate::error::{Error, Result};
use crate::event::{Change, Op, Origin};
use crate::expr::eval::{Binder, BoundExpr, ExprType, Scope, ScopeColumn, unknown_column};
use crate::expr::{Expr, ExprKind, MetaField};
use crate::row::{Row, RowBuilder};
use crate::schema::{Column, ColumnType, IntWidth, TableId, TableSchema, same_name};
use crate::value::Value;
use std::cell::RefCell;
use std::sync::Arc;

/// A flow bound to one table under one version of its schema.
#[derive(Debug, Clone)]
pub struct BoundFlow {
    source: Arc<TableSchema>,
    target: Arc<TargetTable>,
    steps: Vec<Step>,
    /// The register of each output column.
    output: Vec<usize>,
    passthrough: Vec<Option<usize>>,
    /// Output columns that hold one value in all rows of the table, and that value.
    constants: Vec<(usize, Row)>,
    /// The output is the source's row.
    same_row: bool,
    /// Why rows in part do not do.
    needs: Option<Arc<str>>,
    /// The source's columns that filters and expressions read.
    reads: Vec<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Only rows for which it is true go on.
    Where(BoundExpr),
    /// Appends a register.
    Compute(BoundExpr),
}

/// The name of the target table of a source table.
///
/// # Errors
/// `TEMPLATE_GROUP` where a template names a group that the head's regular expression does not have, or gives
/// an empty name.
pub fn target_name(flow: &FlowPlan, table: &TableId) -> Result<String, Diagnostic> {
    let parts = match &flow.target {
        TargetName::SameAsSource => return Ok(table.table.to_string()),
        TargetName::Fixed(name) => return Ok(name.clone()),
        TargetName::Template(parts) => parts,
    };
    // a group of the table's pattern hides one of the database's, and both hide the words
    let mut groups = flow.tables.database.as_ref().map(|d| d.captures(&table.database)).unwrap_or_default();
    groups.extend(flow.tables.table.captures(&table.table));
    let mut name = String::new();
    for part in parts {
        match part {
            TemplatePart::Text(text) => name.push_str(text),
            TemplatePart::Group(group) => match (groups.get(group), group.as_str()) {
                (Some(caught), _) => name.push_str(caught),
                (None, "table") => name.push_str(&table.table),
                (None, "database") => name.push_str(&table.database),
                (None, _) => {
                    let mut known: Vec<&str> = groups.keys().map(String::as_str).collect();
                    known.extend(["table", "database"]);
                    let headline = format!("the name template uses the unknown group \"{group}\"");
                    return Err(Diagnostic::error(codes::TEMPLATE_GROUP, headline)
                        .at(flow.span.clone(), "")
                        .help(format!("there are {}", known.join(", "))));
                }
            },
        }
    }
    if name.is_empty() {
        let headline = format!("the name template gives no name for table \"{table}\"");
        return Err(Diagnostic::error(codes::TEMPLATE_GROUP, headline).at(flow.span.clone(), ""));
    }
    Ok(name)
}

/// A table whose rows must not come into a target table together with this one's, of those that flow into it by the same flow. They may if the
/// key tells them apart, or if the flow says that the last one of a key stays.
pub fn not_told_from<'t>(
    flow: &FlowPlan,
    schema: &Arc<TableSchema>,
    others: impl IntoIterator<Item = &'t TableId>,
) -> Option<&'t TableId> {
    if flow.key_conflict != KeyConflict::Refuse {
        return None;
    }
    // what is constant is made of the table's name and of literals, so another table of that shape shows it
    let constants = |id: &TableId| {
        let schema = Arc::new(TableSchema { id: id.clone(), ..TableSchema::clone(schema) });
        BoundFlow::bind(flow, &schema).map(|b| b.key_constants()).unwrap_or_default()
    };
    let ours = constants(&schema.id);
    others.into_iter().find(|other| **other != schema.id && constants(other) == ours)
}

/// The error of rows of two tables that would come into one target table under keys that do not tell them apart.
pub fn collision(one: &TableId, other: &TableId, target: &str) -> Error {
    Error::definite(
        codes::TARGET_COLLISION,
        format!("tables \"{one}\" and \"{other}\" meet in target table \"{target}\""),
    )
    .help("give them names of their own (=> sink.\"{database}_{table}\"), or state a key that tells them apart: extend meta.table as shard => .. key (shard, id)")
    .help("where equal keys do not occur, or the last row of a key is to stay: with { key_conflict = last }; where they must not occur: with { key_conflict = error }, which stops the run at the first")
}

/// Why the rows of a table are other ones for these flows once it has another name, so that they must come anew: they are
/// given to a flow that did not take them, or hold the name.
pub fn other_rows_when_renamed<'f>(
    flows: impl IntoIterator<Item = &'f FlowPlan>,
    before: &TableId,
    after: &TableId,
) -> Option<String> {
    flows.into_iter().filter(|flow| flow.takes(after)).find_map(|flow| {
        if !flow.takes(before) {
            return Some(format!("renamed to where flow \"{}\" takes it", flow.name));
        }
        let mut reads = flow.key_conflict == KeyConflict::Error;
        for expr in flow.ops.iter().flat_map(expressions) {
            walk(expr, &mut |e| {
                reads |= matches!(e.kind, ExprKind::Meta(MetaField::Table | MetaField::Database));
            });
        }
        reads.then(|| format!("renamed, and flow \"{}\" writes the name into its rows", flow.name))
    })
}

/// Binds a flow to every one of these tables that it catches, and says what is wrong with it: each mistake
/// once, however many tables show it.
pub fn check_flow(flow: &FlowPlan, schemas: &[Arc<TableSchema>]) -> Vec<Diagnostic> {
    let mut found: Vec<(Diagnostic, usize)> = Vec::new();
    for schema in schemas.iter().filter(|s| flow.takes(&s.id)) {
        let Err(diagnostics) = BoundFlow::bind(flow, schema) else { continue };
        for diagnostic in diagnostics {
            let place = |d: &Diagnostic| (d.code, d.labels.first().map(|l| l.span.clone()));
            match found.iter_mut().find(|(f, _)| place(f) == place(&diagnostic)) {
                Some((_, more)) => *more += 1,
                None => found.push((diagnostic, 0)),
            }
        }
    }
    found
        .into_iter()
        .map(|(diagnostic, more)| match more {
            0 => diagnostic,
            1 => diagnostic.note("the same holds for another table"),
            n => diagnostic.note(format!("the same holds for {n} other tables")),
        })
        .collect()
}

/// An error for each flow that needs whole rows of a table where the server's log does not have them: `setting` is what the
/// server has, `binlog_row_image = MINIMAL`. Once a flow, however many tables show it.
pub fn whole_rows_missing<'f>(
    flows: impl IntoIterator<Item = &'f FlowPlan>,
    schemas: &[Arc<TableSchema>],
    setting: &str,
) -> Vec<Diagnostic> {
    let needs = |flow: &FlowPlan| {
        schemas.iter().filter(|s| flow.takes(&s.id)).find_map(|schema| {
            let bound = BoundFlow::bind(flow, schema).ok()?;
            Some((schema.id.clone(), bound.needs_whole_rows()?.to_owned()))
        })
    };
    let diagnostic = |flow: &FlowPlan, (table, why): (TableId, String)| {
        let headline = format!(
            "flow \"{}\" needs whole rows of table \"{table}\", and the server has {setting}",
            flow.name
        );
        Diagnostic::error(codes::PARTIAL_IMAGE, headline)
            .at(flow.span.clone(), "")
            .note(why)
            .note("an update would come with its key and the columns that have changed, and nothing else")
            .help("SET GLOBAL binlog_row_image = FULL (SET PERSIST on MySQL; on MariaDB in the server's option file too), and in every session that sets its own")
            .help("or let the flow read the source's key only, and compute the rest at the target")
    };
    // rows of views are whole, whatever the images of their tables are
    let of_tables = flows.into_iter().filter(|flow| flow.view.is_none());
    of_tables.filter_map(|flow| needs(flow).map(|found| diagnostic(flow, found))).collect()
}

/// A warning for each table that these flows copy as a multiset, once however many flows take it.
pub fn multiset_warnings<'f>(
    flows: impl IntoIterator<Item = &'f FlowPlan>,
    schemas: &[Arc<TableSchema>],
) -> Vec<Diagnostic> {
    let mut found: Vec<(&TableId, Diagnostic)> = Vec::new();
    for flow in flows.into_iter().filter(|f| f.key.is_none()) {
        for schema in schemas.iter().filter(|s| s.key().is_none() && flow.takes(&s.id)) {
            if !found.iter().any(|(id, _)| **id == schema.id) {
                found.push((&schema.id, multiset_warning(&schema.id)));
            }
        }
    }
    found.into_iter().map(|(_, diagnostic)| diagnostic).collect()
}

/// What is to be told of a table that is copied as a multiset.
pub fn multiset_warning(table: &TableId) -> Diagnostic {
    Diagnostic::warning(codes::NO_KEY, format!("table \"{table}\" has no key: it is copied as a multiset"))
        .note("each update and delete looks through the target's table for an equal row, and a copy that is interrupted begins again")
        .help("if some columns identify a row, name them in the flow: => target key (..)")
}

impl BoundFlow {
    /// Binds a flow to one table under one version of its schema.
    ///
    /// # Errors
    /// All that is wrong with it: unknown columns and functions, types that do not fit, two columns of one
    /// name, a key that is lost on the way.
    pub fn bind(flow: &FlowPlan, schema: &Arc<TableSchema>) -> Result<BoundFlow, Vec<Diagnostic>> {
        let mut shape = Shape::of(schema);
        for op in &flow.ops {
            shape.apply(op);
        }
        let key = shape.key(flow, schema);
        let soft_delete = flow.soft_delete.as_ref().and_then(|name| shape.flag(name, &key, flow));
        let told_by = match flow.key_conflict {
            KeyConflict::Error => shape.source_column(&key, flow),
            KeyConflict::Refuse | KeyConflict::Last => None,
        };
        let name = match target_name(flow, &schema.id) {
            Ok(name) => name,
            Err(diagnostic) => {
                shape.errors.push(diagnostic);
                String::new()
            }
        };
        if shape.errors.is_empty() && shape.columns.is_empty() {
            let headline = format!("no column of \"{}\" is left to flow", schema.id);
            shape.errors.push(Diagnostic::error(codes::NO_FLOW, headline).at(flow.span.clone(), ""));
        }
        if !shape.errors.is_empty() {
            return Err(shape.errors);
        }
        let output: Vec<usize> = shape.columns.iter().map(|c| c.register).collect();
        let mut columns: Vec<Column> = shape.columns.iter().map(|c| c.column.clone()).collect();
        for (column, register) in columns.iter_mut().zip(&output) {
            // what a flow makes by itself keeps its own
            if !flow.carries_defaults() && *register < schema.columns.len() {
                column.default = None;
            }
            if !flow.carries_comments() {
                column.comment.clear();
            }
        }
        let comment = if flow.carries_comments() { schema.comment.clone() } else { String::new() };
        let target = TargetTable {
            schema: Arc::new(TableSchema {
                // feeds name the table that a row comes from
                id: schema.id.clone(),
                version: schema.version,
                columns,
                primary_key: key.clone(),
                unique_keys: Vec::new(),
                charset: schema.charset.clone(),
                comment,
            }),
            name,
            key,
            soft_delete,
            told_by,
        };
        if flow.may_be_watched() {
            Ranking::bind(&flow.on_conflict, &target.schema, &format!("flow \"{}\"", flow.name))?;
        }
        Ok(BoundFlow {
            needs: shape.needs(schema, &target),
            // what a computed column is made of was read by it
            reads: shape.reads.iter().map(|(r, _)| *r).filter(|r| *r < schema.columns.len()).collect(),
            constants: shape.constants(schema),
            same_row: output.len() == schema.columns.len() && output.iter().enumerate().all(|(i, r)| i == *r),
            passthrough: output.iter().map(|r| (*r < schema.columns.len()).then_some(*r)).collect(),
            source: schema.clone(),
            target: Arc::new(target),
            steps: shape.steps,
            output,
        })
    }

    /// The schema that it is bound to.
    pub fn source(&self) -> &Arc<TableSchema> {
        &self.source
    }

    /// The target table: its name, the shape of the rows, the key.
    pub fn target(&self) -> &Arc<TargetTable> {
        &self.target
    }

    /// An output column with the default that its rows read at the source, whether or not the target is to have it too.
    pub fn as_rows_read(&self, column: &Column) -> Column {
        let place = self.target.schema.columns.iter().position(|c| c.name == column.name);
        let from = place.and_then(|i| self.passthrough[i]).and_then(|i| self.source.columns.get(i));
        let default = from.map_or_else(|| column.default.clone(), |source| source.default.clone());
        Column { default, ..column.clone() }
    }

    /// For each output column, the source column that it is a plain copy of.
    pub fn passthrough(&self) -> &[Option<usize>] {
        &self.passthrough
    }

    /// The output columns that hold one value in all rows of the source table, and that value as a row of one: made
    /// of nothing but literals and the table's name. They tell the table's rows from those of another one.
    pub fn constants(&self) -> &[(usize, Row)] {
        &self.constants
    }

    /// The values of those columns of the key that hold one value in all rows of the source table: two tables in which they differ have no
    /// key in common.
    pub fn key_constants(&self) -> Vec<Row> {
        let in_key = |i: &usize| self.target.key.contains(i);
        self.constants.iter().filter(|(i, _)| in_key(i)).map(|(_, value)| value.clone()).collect()
    }

    /// True if every row comes out as it went in: nothing is filtered, computed, dropped or moved. Columns
    /// may have other names.
    pub fn is_identity(&self) -> bool {
        self.same_row && self.steps.is_empty()
    }

    /// Why it cannot take rows of which not all columns are known; `None` if it can: it reads nothing but the source's
    /// key, and the target's key is made of that. (Of a table without a key the log holds whole rows.)
    pub fn needs_whole_rows(&self) -> Option<&str> {
        self.needs.as_deref()
    }

    /// The columns of the source that filters and computed columns read; a plain copy is none. One may come several times.
    pub fn reads(&self) -> &[usize] {
        &self.reads
    }

    /// True if it may leave out rows.
    pub fn filters(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::Where(_)))
    }

    /// What comes of a row of the source; `None` if it is filtered out.
    ///
    /// # Errors
    /// `PARTIAL_IMAGE`, `STRUCTURE_DIFFERS`, and what [`BoundExpr::eval`] meets; with table, row and position.
    pub fn apply(&self, row: &Row, meta: &RowMeta<'_>) -> Result<Option<Row>> {
        self.output_of(row, meta).map_err(|error| located(error, row, meta))
    }

    fn output_of(&self, row: &Row, meta: &RowMeta<'_>) -> Result<Option<Row>> {
        let wanted = self.source.columns.len();
        if row.len() != wanted {
            let headline = format!("a row of {} values where the table has {wanted} columns", row.len());
            return Err(Error::definite(codes::STRUCTURE_DIFFERS, headline));
        }
        if self.is_identity() {
            return Ok(Some(row.clone()));
        }
        let Some(registers) = run(&self.steps, row, wanted, meta)? else { return Ok(None) };
        if self.same_row {
            return Ok(Some(row.clone()));
        }
        Ok(Some(packed(|builder| self.output.iter().for_each(|r| builder.push(&registers[*r])))))
    }

    /// The packed key columns of an output row; the whole row of a multiset.
    pub fn key_of(&self, output: &Row) -> Row {
        if self.target.is_multiset() {
            return output.clone();
        }
        output.picked(&self.target.key)
    }

    fn checked_key_of(&self, output: &Row, source: &Row, meta: &RowMeta<'_>) -> Result<Row> {
        let key = self.key_of(output);
        if self.target.is_multiset() {
            if key.has_absent() {
                let headline = "the row image does not hold all columns, and nothing else identifies the row";
                return Err(located(Error::definite(codes::PARTIAL_IMAGE, headline), source, meta));
            }
            return Ok(key);
        }
        let column = |place: usize| &self.target.schema.columns[self.target.key[place]].name;
        if let Some(place) = key.iter().position(|v| v.is_absent()) {
            let headline = format!(
                "the row image does not hold the key column \"{}\" of target table \"{}\"",
                column(place),
                self.target.name
            );
            return Err(located(Error::definite(codes::PARTIAL_IMAGE, headline), source, meta));
        }
        if let Some(place) = key.iter().position(|v| v.is_null()) {
            let headline = format!(
                "the key column \"{}\" of target table \"{}\" is NULL",
                column(place),
                self.target.name
            );
            let name = as_written(column(place));
            let error = Error::definite(codes::KEY_COLUMN_NULL, headline).help(format!(
                "leave such rows out: |> where {name} is not null; or give them a value: coalesce({name}, ..) as {name}; or name other columns in key (..)"
            ));
            return Err(located(error, source, meta));
        }
        Ok(key)
    }

    /// What a change of the source changes at the target: appends none, one or two changes, of this tick and
    /// ordinal. `origin` is where the change comes from, `origin_index` its place in the batch that `out` is
    /// for.
    ///
    /// # Errors
    /// As [`BoundFlow::apply`]; `KEY_COLUMN_NULL`. Nothing has been appended then.
    pub fn changes(
        &self,
        change: &Change,
        origin: &Origin,
        origin_index: u32,
        out: &mut Vec<TargetChange>,
    ) -> Result<()> {
        let meta = RowMeta { op: change.op, table: &self.source.id, origin };
        let wants = |op: Op| change.op == Op::Update || change.op == op;
        // the row of an update in part need not be there yet: then nothing is said of the one before
        let lacks = change.after.as_ref().is_some_and(Row::has_absent);
        let in_part = lacks && change.op == Op::Update;
        let before = match (&change.before, wants(Op::Delete)) {
            (Some(row), true) => self.keyed(row, None, &meta)?,
            (None, true) if !in_part => return Err(self.image_missing("before", &meta)),
            _ => None,
        };
        let after = match (&change.after, change.op != Op::Delete) {
            (Some(row), true) => self.keyed(row, before.as_ref(), &meta)?,
            (None, true) => return Err(self.image_missing("after", &meta)),
            _ => None,
        };
        let (before, after) = match (before, after, &change.after) {
            // what it lacks may be dropped
            (before, Some((key, row)), Some(source)) if lacks && row.has_absent() => {
                let moves = before.as_ref().is_some_and(|(old, _)| *old != key);
                if self.target.told_by.is_some() {
                    let headline = "the row image does not hold all columns, and rows of several tables are told apart (key_conflict = error)";
                    return Err(located(Error::definite(codes::PARTIAL_IMAGE, headline), source, &meta));
                }
                if moves && self.target.soft_delete.is_some() {
                    let headline = "the row image of a row that moves to another key does not hold all columns, and rows that go are kept (soft_delete)";
                    return Err(located(Error::definite(codes::PARTIAL_IMAGE, headline), source, &meta));
                }
                if !in_part || (before.is_none() && change.before.is_some()) {
                    // one that comes new, or through a filter, must be there as a whole
                    let headline = "the row image of a row that comes new does not hold all columns";
                    return Err(located(Error::definite(codes::PARTIAL_IMAGE, headline), source, &meta));
                }
                out.push(TargetChange {
                    tick: change.tick,
                    ordinal: change.ordinal,
                    op: TargetOp::Upsert,
                    source_op: Op::Update,
                    key,
                    row: Some(row),
                    before: before.map(|(_, row)| row),
                    origin: origin_index,
                });
                return Ok(());
            }
            (before, after, _) => (before, after),
        };
        let target_change = |op, key, row, before: Option<Row>| TargetChange {
            tick: change.tick,
            ordinal: change.ordinal,
            op,
            // an update that moves a row to another key, or through a filter, is a delete and an insert
            source_op: match (change.op, op) {
                (Op::Update, TargetOp::Delete) => Op::Delete,
                (Op::Update, TargetOp::Upsert) if before.is_none() => Op::Insert,
                (source_op, _) => source_op,
            },
            key,
            row,
            before,
            origin: origin_index,
        };
        match (before, after) {
            (None, None) => {}
            (Some((key, row)), None) => out.push(match self.target.soft_delete {
                None => target_change(TargetOp::Delete, key, None, Some(row)),
                Some(flag) => kept(flag, key, &row, target_change),
            }),
            (None, Some((key, row))) => out.push(target_change(TargetOp::Upsert, key, Some(row), None)),
            // equal keys have equal bytes
            (Some((old, _)), Some((new, _))) if old == new && self.target.is_multiset() => {}
            (Some((old, before)), Some((new, row))) if old == new => {
                out.push(target_change(TargetOp::Upsert, new, Some(row), Some(before)));
            }
            (Some((old, before)), Some((new, row))) => {
                out.push(match self.target.soft_delete {
                    None => target_change(TargetOp::Delete, old, None, Some(before)),
                    Some(flag) => kept(flag, old, &before, target_change),
                });
                out.push(target_change(TargetOp::Upsert, new, Some(row), None));
            }
        }
        Ok(())
    }

    /// What comes of a row, with its key; `known`: another such row, which has the same key nearly always.
    fn keyed(&self, row: &Row, known: Option<&(Row, Row)>, meta: &RowMeta<'_>) -> Result<Option<(Row, Row)>> {
        let Some(output) = self.apply(row, meta)? else { return Ok(None) };
        if let Some((key, other)) = known
            && !self.target.is_multiset()
            && other.agrees(&output, &self.target.key)
        {
            return Ok(Some((key.clone(), output)));
        }
        Ok(Some((self.checked_key_of(&output, row, meta)?, output)))
    }

    fn image_missing(&self, which: &str, meta: &RowMeta<'_>) -> Error {
        let headline = format!("a change without the row {which} it");
        explained(Error::definite(codes::PARTIAL_IMAGE, headline).note(place_of(meta)))
    }
}

/// A row that the source deletes and the target keeps: an update of it. Where its image does not hold all columns nothing is said of the
/// row before, since a snapshot that is under way need not have brought it.
fn kept(
    flag: usize,
    key: Row,
    row: &Row,
    target_change: impl Fn(TargetOp, Row, Option<Row>, Option<Row>) -> TargetChange,
) -> TargetChange {
    let gone = packed(|builder| {
        for (i, value) in row.iter().enumerate() {
            builder.push(if i == flag { &Value::Int(1) } else { &value });
        }
    });
    let before = (!row.has_absent()).then(|| row.clone());
    TargetChange { source_op: Op::Update, ..target_change(TargetOp::Upsert, key, Some(gone), before) }
}

/// What to do about an image without all columns.
fn explained(error: Error) -> Error {
    if error.code() != codes::PARTIAL_IMAGE {
        return error;
    }
    error
        .note("the session that wrote it has binlog_row_image = MINIMAL or NOBLOB, by its own setting or the server's")
        .help("set binlog_row_image = FULL at the source, in every session that sets its own too; then copy the table anew")
        .help("or let the flow read the source's key only: see the reference on flows")
}

/// A row, built in a buffer that each thread keeps: one allocation a row instead of several.
pub(crate) fn packed(push: impl FnOnce(&mut RowBuilder)) -> Row {
    thread_local! {
        static BUILDER: RefCell<RowBuilder> = RefCell::new(RowBuilder::new());
    }
    BUILDER.with_borrow_mut(|builder| {
        builder.clear();
        push(builder);
        builder.finish()
    })
}

/// The registers of a row of `columns` values behind the steps; `None` if one of them leaves the row out.
pub(crate) fn run<'r>(
    steps: &'r [Step],
    row: &'r Row,
    columns: usize,
    meta: &RowMeta<'r>,
) -> Result<Option<Vec<Value<'r>>>> {
    let mut registers: Vec<Value<'r>> = Vec::with_capacity(columns + steps.len());
    registers.extend(row.iter());
    for step in steps {
        match step {
            Step::Where(condition) => {
                if condition.eval_truth(&registers, meta)? != Some(true) {
                    return Ok(None);
                }
            }
            Step::Compute(expr) => {
                let value = expr.eval(&registers, meta)?;
                registers.push(value);
            }
        }
    }
    Ok(Some(registers))
}

fn place_of(meta: &RowMeta<'_>) -> String {
    // a view is a table of no database
    let what = if meta.table.database.is_empty() { "view" } else { "table" };
    match meta.origin.place() {
        Some(place) => format!("{what} \"{}\", {place}", meta.table),
        None => format!("{what} \"{}\"", meta.table),
    }
}

/// The longest picture of a row in a message.
const MAX_ROW_TEXT: usize = 300;

pub(crate) fn located(error: Error, row: &Row, meta: &RowMeta<'_>) -> Error {
    let mut text = format!("{row:?}");
    if let Some((end, _)) = text.char_indices().nth(MAX_ROW_TEXT) {
        text.truncate(end);
        text.push_str(" ..");
    }
    explained(error.note(place_of(meta)).note(format!("row {text}")))
}

/// The columns at one point of a flow.
pub(crate) struct Shape<'s> {
    pub(crate) table: &'s TableId,
    pub(crate) columns: Vec<ShapeColumn>,
    pub(crate) registers: usize,
    pub(crate) steps: Vec<Step>,
    /// Registers that hold one value in all rows of the table.
    constants: Vec<usize>,
    /// Registers that filters and expressions read, with what reads them.
    reads: Vec<(usize, &'static str)>,
    /// A column that is to be left out may not be there any more: it has been left out of what is held.
    pub(crate) may_be_gone: bool,
    pub(crate) errors: Vec<Diagnostic>,
}

#[derive(Clone)]
pub(crate) struct ShapeColumn {
    pub(crate) column: Column,
    /// What it may be qualified with: the alias of an input of a view.
    pub(crate) of: Option<Arc<str>>,
    pub(crate) ty: ExprType,
    pub(crate) register: usize,
}

impl<'s> Shape<'s> {
    fn of(schema: &'s TableSchema) -> Shape<'s> {
        let column = |(register, c): (usize, &Column)| ShapeColumn {
            column: c.clone(),
            of: None,
            ty: ExprType::new(c.ty.clone(), c.nullable),
            register,
        };
        Shape::new(&schema.id, schema.columns.iter().enumerate().map(column).collect())
    }

    pub(crate) fn new(table: &'s TableId, columns: Vec<ShapeColumn>) -> Shape<'s> {
        Shape {
            table,
            registers: columns.len(),
            columns,
            steps: Vec::new(),
            constants: Vec::new(),
            reads: Vec::new(),
            may_be_gone: false,
            errors: Vec::new(),
        }
    }

    pub(crate) fn apply(&mut self, op: &FlowOp) {
        match op {
            FlowOp::Where(condition) => {
                if let Some(bound) = self.bound(condition, true) {
                    self.steps.push(Step::Where(bound));
                }
            }
            FlowOp::Select(items) => self.select(items),
            FlowOp::Extend(added) => {
                // all of them see the columns from before
                let added: Vec<_> =
                    added.iter().map(|item| (self.computed(item), item.expr.span.clone())).collect();
                for (column, span) in added {
                    self.push(column, &span);
                }
            }
            FlowOp::Drop(names) => {
                let dropped: Vec<usize> = names.iter().filter_map(|n| self.left_out(n)).collect();
                let mut index = 0;
                self.columns.retain(|_| {
                    index += 1;
                    !dropped.contains(&(index - 1))
                });
            }
            FlowOp::Rename(pairs) => self.rename(pairs),
        }
    }

    pub(crate) fn bound(&mut self, expr: &Expr, as_condition: bool) -> Option<BoundExpr> {
        let reader = if as_condition { "a filter" } else { "a computed column" };
        walk(expr, &mut |e| {
            if let ExprKind::Column(name) = &e.kind
                && let Some(column) = self.columns.iter().find(|c| same_name(&c.column.name, name))
            {
                self.reads.push((column.register, reader));
            }
        });
        let scope = self.scope();
        let mut binder = Binder::new(&scope);
        let bound = if as_condition { binder.condition(expr) } else { binder.bind(expr) };
        match binder.finish(bound) {
            Ok(bound) => Some(bound),
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    pub(crate) fn scope(&self) -> Scope<'s> {
        let column = |c: &ShapeColumn| ScopeColumn {
            name: c.column.name.clone(),
            of: c.of.clone(),
            index: c.register,
            ty: c.ty.clone(),
        };
        Scope { table: self.table, columns: self.columns.iter().map(column).collect() }
    }

    fn find(&mut self, name: &ColumnName) -> Option<usize> {
        if let Err(diagnostic) = self.scope().find(None, &name.name, &name.span) {
            self.errors.push(*diagnostic);
            return None;
        }
        self.columns.iter().position(|c| same_name(&c.column.name, &name.name))
    }

    /// The place of a column that is to be left out.
    fn left_out(&mut self, name: &ColumnName) -> Option<usize> {
        let is_there = || self.columns.iter().any(|c| same_name(&c.column.name, &name.name));
        if self.may_be_gone && !is_there() { None } else { self.find(name) }
    }

    fn select(&mut self, items: &[SelectItem]) {
        let mut selected: Vec<(ShapeColumn, Span)> = Vec::new();
        for item in items {
            match item {
                SelectItem::Star { except } => {
                    let left_out: Vec<usize> = except.iter().filter_map(|n| self.left_out(n)).collect();
                    let span = except.first().map_or(0..0, |n| n.span.clone());
                    for (i, column) in self.columns.iter().enumerate() {
                        if !left_out.contains(&i) {
                            selected.push((ShapeColumn { of: None, ..column.clone() }, span.clone()));
                        }
                    }
                }
                SelectItem::Expr(item) => {
                    let span = item.expr.span.clone();
                    selected.push((self.computed(item), span));
                }
            }
        }
        self.columns.clear();
        let mut spans: Vec<Span> = Vec::new();
        for (column, span) in selected {
            // a `*` has no place of its own: the mistake is then shown at the column that was there before
            let before = self.columns.iter().position(|c| same_name(&c.column.name, &column.column.name));
            let place = match before {
                Some(i) if span.is_empty() => spans[i].clone(),
                _ => span.clone(),
            };
            if self.push(column, &place) {
                spans.push(span);
            }
        }
    }

    /// The column of a named expression: a plain copy keeps all that is known of the column. One that was
    /// refused counts as a NULL, so that what uses it is not refused as well.
    pub(crate) fn computed(&mut self, item: &NamedExpr) -> ShapeColumn {
        let named = match &item.expr.kind {
            ExprKind::Column(name) => Some((None, name)),
            ExprKind::Of { table, column } => Some((Some(table.as_str()), column)),
            _ => None,
        };
        if let Some((of, name)) = named
            && let Ok(found) = self.scope().find(of, name, &item.expr.span)
            && let Some(copied) = self.columns.iter().find(|c| {
                same_name(&c.column.name, &found.name) && c.of == found.of && c.register == found.index
            })
        {
            let mut copy = copied.clone();
            copy.column.name = item.name.as_str().into();
            copy.of = None;
            return copy;
        }
        let (ty, register) = match self.bound(&item.expr, false) {
            Some(bound) => {
                let ty = bound.ty().clone();
                self.steps.push(Step::Compute(bound));
                if self.is_constant(&item.expr) {
                    self.constants.push(self.registers);
                }
                self.registers += 1;
                (ty, self.registers - 1)
            }
            None => (ExprType::null(), usize::MAX),
        };
        let mut column = Column::new(item.name.as_str(), ty.column_type());
        column.nullable = ty.nullable;
        ShapeColumn { column, of: None, ty, register }
    }

    /// The column of which an expression is a plain copy.
    pub(crate) fn computed_plain(&self, item: &NamedExpr) -> Option<Column> {
        let (of, name) = match &item.expr.kind {
            ExprKind::Column(name) => (None, name),
            ExprKind::Of { table, column } => (Some(table.as_str()), column),
            _ => return None,
        };
        let found = self.scope().find(of, name, &item.expr.span).ok().map(|c| c.index)?;
        self.columns.iter().find(|c| c.register == found).map(|c| c.column.clone())
    }

    /// False if there is a column of that name already.
    fn push(&mut self, column: ShapeColumn, span: &Span) -> bool {
        let name = column.column.name.clone();
        if self.columns.iter().any(|c| same_name(&c.column.name, &name)) {
            self.errors.push(duplicate_column(&name, span));
            return false;
        }
        self.columns.push(column);
        true
    }

    /// All renames happen at once, so two columns can change names.
    fn rename(&mut self, pairs: &[(ColumnName, String)]) {
        let found: Vec<_> = pairs.iter().map(|(old, new)| (self.find(old), new, &old.span)).collect();
        for (place, (index, _, span)) in found.iter().enumerate() {
            if index.is_some() && found[..place].iter().any(|(before, _, _)| before == index) {
                self.errors.push(duplicate_column(&pairs[place].0.name, span));
            }
        }
        for (index, new, _) in &found {
            if let Some(index) = index {
                self.columns[*index].column.name = new.as_str().into();
            }
        }
        for (index, new, span) in found {
            let twice = self.columns.iter().filter(|c| same_name(&c.column.name, new)).count() > 1;
            if index.is_some() && twice {
                self.errors.push(duplicate_column(new, span));
            }
        }
    }

    /// The column that tells rows that the source has deleted; its place.
    fn flag(&mut self, name: &str, key: &[usize], flow: &FlowPlan) -> Option<usize> {
        if key.is_empty() {
            self.errors.push(
                Diagnostic::error(
                    codes::NO_KEY,
                    format!("soft_delete in a flow of table \"{}\", which has no key", self.table),
                )
                .at(flow.span.clone(), "")
                .note("rows that stay are found again by their key")
                .help("name the columns that identify a row with `key (...)`"),
            );
            return None;
        }
        let expr = Expr { kind: ExprKind::Literal(Value::Int(0)), span: flow.span.clone() };
        let bound = self.bound(&expr, false)?;
        let ty = bound.ty().clone();
        self.steps.push(Step::Compute(bound));
        self.registers += 1;
        let mut column =
            Column::new(name, ColumnType::Int { width: IntWidth::Tiny, unsigned: false }).not_null();
        column.default = Some("0".to_owned());
        let column = ShapeColumn { column, of: None, ty, register: self.registers - 1 };
        self.push(column, &flow.span).then(|| self.columns.len() - 1)
    }

    /// The column that tells which table a row comes from; its place.
    fn source_column(&mut self, key: &[usize], flow: &FlowPlan) -> Option<usize> {
        if key.is_empty() {
            self.errors.push(
                Diagnostic::error(
                    codes::NO_KEY,
                    format!("key_conflict in a flow of table \"{}\", which has no key", self.table),
                )
                .at(flow.span.clone(), "")
                .note("rows meet under a key")
                .help("name the columns that identify a row with `key (...)`"),
            );
            return None;
        }
        let expr = |kind| Expr { kind, span: flow.span.clone() };
        let database = expr(ExprKind::Meta(MetaField::Database));
        let table = expr(ExprKind::Meta(MetaField::Table));
        let dot = expr(ExprKind::Literal(Value::Text(".".into())));
        let name = expr(ExprKind::Call("concat".to_owned(), vec![database, dot, table]));
        let column = self.computed(&NamedExpr { name: SOURCE_COLUMN.to_owned(), expr: name });
        self.push(column, &flow.span).then(|| self.columns.len() - 1)
    }

    /// The indexes of the key among the columns of the result.
    fn key(&mut self, flow: &FlowPlan, schema: &TableSchema) -> Vec<usize> {
        match &flow.key {
            Some(names) if names.is_empty() => {
                self.check_rows_come_again(flow, schema);
                Vec::new()
            }
            Some(names) => self.stated_key(names, flow),
            None => self.inherited_key(flow, schema),
        }
    }

    fn stated_key(&mut self, names: &[String], flow: &FlowPlan) -> Vec<usize> {
        let mut key = Vec::new();
        for name in names {
            match self.columns.iter().position(|c| same_name(&c.column.name, name)) {
                Some(index) if key.contains(&index) => {
                    self.errors.push(duplicate_column(name, &flow.span));
                }
                Some(index) => key.push(index),
                None => {
                    let columns: Vec<&str> = self.columns.iter().map(|c| &*c.column.name).collect();
                    let of = format!("the result of the flow from \"{}\", in its key", self.table);
                    let diagnostic = unknown_column(name, &flow.span, &of, columns.iter().copied());
                    // a key is chosen from all of them
                    let list = format!("the columns are {}", columns.join(", "));
                    let known = diagnostic.help.contains(&list);
                    self.errors.push(if known { diagnostic } else { diagnostic.help(list) });
                }
            }
        }
        key
    }

    fn inherited_key(&mut self, flow: &FlowPlan, schema: &TableSchema) -> Vec<usize> {
        let help = "name the columns that identify a row of the target with `key (...)`";
        let Some(source_key) = schema.key() else {
            self.check_rows_come_again(flow, schema);
            return Vec::new();
        };
        let mut key = Vec::new();
        for &register in source_key {
            match self.columns.iter().position(|c| c.register == register) {
                Some(index) => key.push(index),
                None => {
                    let name = schema.columns.get(register).map_or("", |c| &c.name);
                    let headline =
                        format!("the key column \"{name}\" of \"{}\" does not reach the target", schema.id);
                    let diagnostic = Diagnostic::error(codes::NO_KEY, headline).at(flow.span.clone(), "");
                    self.errors.push(diagnostic.help(format!("keep the column, or {help}")));
                    return Vec::new();
                }
            }
        }
        key
    }
}

/// Rows that are only told by their values.
impl Shape<'_> {
    /// The row that a delete takes away is told by its values: those of the change at hand are not the row's.
    fn check_rows_come_again(&mut self, flow: &FlowPlan, schema: &TableSchema) {
        let mut found = Vec::new();
        for expr in flow.ops.iter().flat_map(expressions) {
            walk(expr, &mut |e| {
                if let ExprKind::Meta(field) = e.kind
                    && !matches!(field, MetaField::Table | MetaField::Database)
                {
                    found.push((field, e.span.clone()));
                }
            });
        }
        for (field, span) in found {
            let headline = format!("meta.{} in a flow of a table without a key", field.name());
            self.errors.push(
                Diagnostic::error(codes::NO_KEY, headline)
                    .at(span, "")
                    .note(format!("table \"{}\" is copied as a multiset: a row that is deleted is found at the target by all its values, and this one is another in each change", schema.id))
                    .help("leave it out, or name the columns that identify a row with `key (...)`"),
            );
        }
    }

    /// See [`BoundFlow::needs_whole_rows`].
    fn needs(&self, schema: &TableSchema, target: &TargetTable) -> Option<Arc<str>> {
        let key = schema.key()?;
        if target.told_by.is_some() {
            return Some(
                "rows that take each other's place are told from whole rows (key_conflict = error)".into(),
            );
        }
        // what a computed column is made of was read by it
        let is_known = |register: &usize| key.contains(register) || *register >= schema.columns.len();
        let name = |register: usize| schema.columns.get(register).map_or("", |c| &c.name);
        if let Some((register, reader)) = self.reads.iter().find(|(register, _)| !is_known(register)) {
            return Some(format!("{reader} reads column \"{}\"", name(*register)).into());
        }
        let of_key = target.key.iter().map(|i| &self.columns[*i]);
        of_key.into_iter().find(|c| !is_known(&c.register)).map(|c| {
            format!("the target's key holds column \"{}\", which is not of the source's key", c.column.name)
                .into()
        })
    }

    fn is_constant(&self, expr: &Expr) -> bool {
        let mut constant = true;
        walk(expr, &mut |e| match &e.kind {
            ExprKind::Column(name) => {
                let column = self.columns.iter().find(|c| same_name(&c.column.name, name));
                constant &= column.is_some_and(|c| self.constants.contains(&c.register));
            }
            ExprKind::Of { .. } => constant = false,
            ExprKind::Meta(field) => constant &= matches!(field, MetaField::Table | MetaField::Database),
            _ => {}
        });
        constant
    }

    /// The output columns that hold one value in all rows of the table, each with it.
    fn constants(&self, schema: &TableSchema) -> Vec<(usize, Row)> {
        if self.constants.is_empty() {
            return Vec::new();
        }
        let origin = Origin::default();
        let meta = RowMeta { op: Op::Read, table: &schema.id, origin: &origin };
        let mut registers: Vec<Value<'_>> = vec![Value::Null; schema.columns.len()];
        let mut known = vec![false; schema.columns.len()];
        for step in &self.steps {
            let Step::Compute(expr) = step else { continue };
            let value = if self.constants.contains(&registers.len()) {
                expr.eval(&registers, &meta).ok()
            } else {
                None
            };
            known.push(value.is_some());
            registers.push(value.unwrap_or(Value::Null));
        }
        let columns = self.columns.iter().enumerate();
        columns
            .filter(|(_, c)| known.get(c.register).is_some_and(|k| *k))
            .map(|(i, c)| (i, Row::pack([registers[c.register].clone()])))
            .collect()
    }
}

/// The expressions of an operator.
pub(crate) fn expressions(op: &FlowOp) -> Vec<&Expr> {
    match op {
        FlowOp::Where(condition) => vec![condition],
        FlowOp::Select(items) => items
            .iter()
            .filter_map(|item| match item {
                SelectItem::Expr(item) => Some(&item.expr),
                SelectItem::Star { .. } => None,
            })
            .collect(),
        FlowOp::Extend(added) => added.iter().map(|item| &item.expr).collect(),
        FlowOp::Drop(_) | FlowOp::Rename(_) => Vec::new(),
    }
}

/// An expression and all in it.
pub(crate) fn walk<'e>(expr: &'e Expr, each: &mut impl FnMut(&'e Expr)) {
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        each(expr);
        match &expr.kind {
            ExprKind::Column(_)
            | ExprKind::Of { .. }
            | ExprKind::Meta(_)
            | ExprKind::Literal(_)
            | ExprKind::Secret(_)
            | ExprKind::Unit(_) => {}
            ExprKind::Unary(_, a)
            | ExprKind::Interval(a, _)
            | ExprKind::IsNull { operand: a, .. }
            | ExprKind::IsTruth { operand: a, .. }
            | ExprKind::Cast(a, _)
            | ExprKind::Collate(a, _) => open.push(a),
            ExprKind::Binary(_, a, b) | ExprKind::Like { operand: a, pattern: b, .. } => {
                open.extend([&**a, &**b])
            }
            ExprKind::Between { operand, low, high, .. } => open.extend([&**operand, &**low, &**high]),
            ExprKind::In { operand, list, .. } => {
                open.push(operand);
                open.extend(list);
            }
            ExprKind::Case { operand, branches, otherwise } => {
                open.extend(operand.as_deref());
                open.extend(branches.iter().flat_map(|(when, then)| [when, then]));
                open.extend(otherwise.as_deref());
            }
            ExprKind::Call(_, args) => open.extend(args),
        }
    }
}

pub(crate) fn duplicate_column(name: &str, span: &Span) -> Diagnostic {
    Diagnostic::error(codes::DUPLICATE_COLUMN, format!("two columns are named \"{name}\""))
        .at(span.clone(), "")
        .help("give one of them another name with `as`, or leave one out with `* except (...)`")
}
