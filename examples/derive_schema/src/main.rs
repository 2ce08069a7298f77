//! Schema changes from a source to a target with cdc-schema alone: no server, no thread, no clock. Two writers, a target that is
//! a list of what it was told, and the [`Registry`] between them, which says when the target may be changed and when rows
//! may go on.
//!
//! ```text
//! cargo run -p example-derive-schema
//! ```
//!
//! A table is created, gets a column, and has one renamed, which mode lenient makes a new column beside the old one. Then
//! the target refuses a change, all goes back to the checkpoint, and the same changes come again.

use cdc_core::connector::TargetSchemaChange;
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::program::BoundFlow;
use cdc_core::plan::{FlowPlan, KeyConflict, SchemaChangeMode, TargetName};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema};
use cdc_core::schema_change::{ColumnPosition, SchemaChange};
use cdc_core::tick::Tick;
use cdc_core::{Error, Result};
use cdc_schema::derivator::{Question, Share, derive};
use cdc_schema::evolved::Evolved;
use cdc_schema::registry::{Action, Registry};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

/// The changes of the source, each alone at its tick: rows before it have a lesser tick, rows behind it a greater one.
fn changes() -> Vec<(Tick, &'static str, SchemaChange)> {
    let table = members().id;
    let tiny = ColumnType::Int { width: IntWidth::Tiny, unsigned: false };
    let add = SchemaChange::AddColumn {
        table: table.clone(),
        column: Column::new("gender", tiny),
        position: ColumnPosition::Last,
    };
    let rename =
        SchemaChange::RenameColumn { table: table.clone(), column: "age".into(), to: "years".into() };
    let widen = SchemaChange::AlterColumnType { table, column: "gender".into(), ty: int(), position: None };
    vec![
        (
            10,
            "CREATE TABLE members (id INT PRIMARY KEY, age INT)",
            SchemaChange::CreateTable { schema: Arc::new(members()) },
        ),
        (20, "ALTER TABLE members ADD gender TINYINT", add),
        (30, "ALTER TABLE members RENAME COLUMN age TO years", rename),
        (40, "ALTER TABLE members MODIFY gender INT", widen),
    ]
}

fn int() -> ColumnType {
    ColumnType::Int { width: IntWidth::Int, unsigned: false }
}

fn members() -> TableSchema {
    TableSchema {
        id: TableId::new("shop", "members"),
        version: 1,
        columns: vec![Column::new("id", int()).not_null(), Column::new("age", int())],
        primary_key: vec![0],
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    }
}

/// `src.* => dw.*` with on_schema_change = lenient.
fn flow() -> FlowPlan {
    FlowPlan {
        name: "members".into(),
        source: "src".into(),
        tables: TablePattern { database: None, table: NamePattern::glob("*") },
        ops: Vec::new(),
        sink: "dw".into(),
        target: TargetName::SameAsSource,
        key: None,
        on_schema_change: SchemaChangeMode::Lenient,
        include: Vec::new(),
        exclude: Vec::new(),
        backfill: true,
        soft_delete: None,
        view: None,
        upsert: Default::default(),
        on_conflict: Default::default(),
        key_conflict: KeyConflict::Refuse,
        span: 0..0,
    }
}

/// Everything at one place. In a program writers, registry and target may be threads or machines: what is a call here is a
/// message there.
struct Pipeline {
    flow: FlowPlan,
    registry: Registry,
    /// The source's table behind the last change.
    original: Option<Arc<TableSchema>>,
    /// Of the next change: what a target that is out of room says.
    refuses: bool,
    out: io::Stdout,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::default();
    for writer in [0, 1] {
        registry.register(writer);
    }
    let mut all = Pipeline { flow: flow(), registry, original: None, refuses: false, out: io::stdout() };

    let changes = changes();
    for (tick, statement, change) in &changes[..2] {
        all.change(*tick, statement, change)?;
    }
    // every row and change up to here is at the target: what is needed to go on from here is kept, and no more
    writeln!(all.out, "\ncheckpoint at tick 20")?;
    all.registry.forget(20);
    let checkpoint = all.original.clone();

    all.change(changes[2].0, changes[2].1, &changes[2].2)?;
    all.refuses = true;
    all.change(changes[3].0, changes[3].1, &changes[3].2)?;

    // what asked in the old generation is cancelled, and a late answer to it is not taken for one to what is asked now
    let generation = all.registry.generation();
    writeln!(all.out, "\nback to tick 20")?;
    all.registry.reset(20);
    all.original = checkpoint;
    all.show("  as of then")?;
    let late = all.registry.applied(4, generation);
    writeln!(all.out, "  a late answer of generation {generation}: {late:?}")?;
    // a writer may be far ahead of the other: nobody waits for a question
    all.flush(1, 50)?;
    for (tick, statement, change) in &changes[2..] {
        all.change(*tick, statement, change)?;
    }
    Ok(())
}

impl Pipeline {
    /// A change meets the barrier.
    fn change(
        &mut self,
        tick: Tick,
        statement: &str,
        change: &SchemaChange,
    ) -> Result<(), Box<dyn std::error::Error>> {
        writeln!(self.out, "\ntick {tick}: {statement}")?;
        // a writer may be there before the change is: it does not wait to be asked
        self.flush(0, tick)?;
        let (_, mut actions) = self.registry.requested(tick);
        while let Some(action) = actions.first().cloned() {
            writeln!(self.out, "  {action:?}")?;
            actions = match action {
                Action::Flush { before } => self.flush(1, before)?,
                Action::Apply { request, generation } => match self.apply(tick, change) {
                    Ok(()) => self.registry.applied(request, generation),
                    Err(error) => {
                        writeln!(self.out, "  target: {error}")?;
                        self.registry.failed(request, generation)
                    }
                },
                Action::Release { .. } | Action::Refuse { .. } => actions.split_off(1),
            };
        }
        self.show("  evolved")
    }

    /// A writer has written everything before this tick.
    fn flush(&mut self, writer: usize, before: Tick) -> io::Result<Vec<Action>> {
        let actions = self.registry.flushed(writer, before);
        writeln!(self.out, "  writer {writer} has written all before {before}: {actions:?}")?;
        Ok(actions)
    }

    /// Derives what the target has to do, and does it.
    fn apply(&mut self, tick: Tick, change: &SchemaChange) -> Result<(), Box<dyn std::error::Error>> {
        let after = match (change, &self.original) {
            (SchemaChange::CreateTable { schema }, _) => schema.clone(),
            (_, Some(original)) => Arc::new(change.apply_to(original)?),
            (_, None) => return Err("a change of a table that is not there".into()),
        };
        let before = self.original.as_ref().map(|schema| bind(&self.flow, schema)).transpose()?;
        let after_bound = bind(&self.flow, &after)?;
        let there =
            before.as_ref().and_then(|b| self.registry.find(&b.target().name, &b.source().id)).cloned();
        let derived = derive(&Question {
            flow: &self.flow,
            changes: std::slice::from_ref(change),
            before: before.as_ref(),
            after: Some(&after_bound),
            share: &Share::Alone,
            evolved: there.as_deref(),
            taken: None,
            gone: None,
            refused: &BTreeSet::new(),
        })?;
        for step in &derived.steps {
            writeln!(self.out, "  target: {}", told(&step.change))?;
        }
        if std::mem::take(&mut self.refuses) {
            return Err("no room left".into());
        }
        self.registry.changed(tick, there.as_ref().map(|t| t.name.as_str()), derived.evolved);
        self.original = Some(after);
        Ok(())
    }

    /// The target's columns, each with what feeds it.
    fn show(&mut self, what: &str) -> Result<(), Box<dyn std::error::Error>> {
        for table in self.registry.tables() {
            let columns: Vec<String> = table.columns.iter().map(|c| column(table, c)).collect();
            writeln!(self.out, "{what}: {} ({})", table.name, columns.join(", "))?;
        }
        Ok(())
    }
}

/// In words; a target of SQL would make statements of them.
fn told(change: &TargetSchemaChange) -> String {
    match change {
        TargetSchemaChange::CreateTable { table } => format!("create table {}", table.name),
        TargetSchemaChange::AddColumn { table, column, .. } => {
            format!("add {table}.{} {}", column.name, column.ty)
        }
        TargetSchemaChange::FillColumn { table, from, to, .. } => format!("fill {table}.{to} from {from}"),
        TargetSchemaChange::AlterColumnType { table, column, ty, .. } => {
            format!("make {table}.{column} {ty}")
        }
        TargetSchemaChange::AlterNullability { table, column, .. } => {
            format!("let {table}.{column} be NULL or not")
        }
        other => format!("{other:?}"),
    }
}

fn bind(flow: &FlowPlan, schema: &Arc<TableSchema>) -> Result<BoundFlow> {
    BoundFlow::bind(flow, schema).map_err(|mut refused| Error::from(refused.remove(0)))
}

fn column(table: &Evolved, column: &Column) -> String {
    let fed = table.feeds.iter().flat_map(|f| &f.columns).find(|f| f.target.as_ref() == Some(&column.name));
    let from = match fed {
        Some(fed) if fed.output == column.name => String::new(),
        Some(fed) => format!(" from {}", fed.output),
        None => " kept".to_owned(),
    };
    format!("{} {}{from}", column.name, column.ty)
}
