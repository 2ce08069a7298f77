//! (source changes, mode, what the flow gives out before and after, evolved schema) -> changes for the target.
//!
//! | mode | create | add column | rename column | drop column | alter type | rename table | change key | truncate, drop | copied again |
//! |---|---|---|---|---|---|---|---|---|---|
//! | exception | apply | stop | stop | stop | stop | stop | stop | stop | rows go |
//! | ignore | apply | left out | left out | left out | left out | left out | stop | left out | rows go |
//! | try_evolve | apply | apply | apply | apply | apply | apply | apply | apply | rows go |
//! | evolve | apply | apply | apply | apply | apply | apply | apply | apply | rows go |
//! | lenient | apply | appended, nullable | new column, filled from the old one, which stays | stays | widened, else a new column | apply | apply | left out | rows go |
//!
//! *Left out* means: the target stays as it is, and rows are made to fit it ([`crate::coerce`]). What try_evolve's target
//! refuses is left out too ([`Question::refused`]), and so is a kind of change that `include` and `exclude` keep out.
//!
//! A table that try_evolve's target refuses to let go stays, in the shape that it has: one that comes under its name later is written
//! into it, by name, its rows in place of those that were kept. Where nothing is known of the one that was kept (a start went
//! back to a checkpoint from before it was made), the target is asked which columns it takes, and the others are noted as refused.
//!
//! # By lineage, not by name
//!
//! What a flow gives out before and after a statement is compared column by column, and which column is which is told by
//! where it comes from: a column of the source under whatever name (the statement's own steps tell its new one), an
//! expression by its name. So a column that takes another one's name in one statement, or is renamed by the flow's
//! operators, is followed as what it is. Only what a flow's rows show counts: a column that a `select` leaves out changes
//! nothing at its target.
//!
//! The changes come in an order in which each holds behind those before it: rows that go, the table's name, columns whose
//! names are wanted by others, types, renames (by way of names of their own where columns swap theirs), new columns, the key, and
//! columns that go. The target's key columns can only go behind the change of the key.
//!
//! # Names that are taken
//!
//! Where a new column, or one under a new name, wants the name of one that stays at the target and that nobody feeds, that one goes, in
//! every mode that makes the change: the target's column of that name would not hold the source's values, and this is what
//! a mode is measured by. So does a table that nobody feeds where another one is renamed to its name, unless the flow keeps out
//! drop_table: then the target's refusal stops the run.
//!
//! # A table that is copied again
//!
//! [`SchemaChange::ResnapshotTable`]: its rows go in every mode; they come anew, and one that did not go would stay beside
//! them. It is no change of shape, so no mode stops at it and `exclude` does not know it. All its columns that the target has
//! are fed again; not one that only has the name of a column of the target, and whose values it could not hold. Who asks for it: the
//! source, for rows that a statement changes unseen, and [`crate::copied`], for rows that a flow makes other ones of.
//!
//! # Several source tables in one target table
//!
//! Columns are united by name and types widened ([`crate::merge`]). A change of one source table must not touch rows of
//! the others: rows are changed where [`Share`] tells them, a column goes only if nobody else feeds it, and what the target
//! covers already is nothing to do. In mode lenient no type becomes narrower than the target's: rows of others may have been kept in it.
//! A column whose values go over to one that others feed, under its new name, goes if they were the last ones (lenient keeps it), and so
//! do those of a table that goes, with its rows.
//! Where columns of one source table give their names to each other, those of the target stay, and the values of its rows change places.

use crate::evolved::{Evolved, Fed, Feed, Widened, common_or_text, keeps, no_common};
use crate::merge::{any_text, common, same_type};
use cdc_core::connector::{TargetSchemaChange, TargetTable};
use cdc_core::plan::program::{BoundFlow, collision, not_told_from};
use cdc_core::plan::{FlowPlan, SchemaChangeMode};
use cdc_core::schema::{Column, ColumnType, IntWidth, TableId, TableSchema, same_name};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Error, Result, Row, codes};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Which rows of a target table are those of one source table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// All: no other table flows into it.
    Alone,
    /// Those that have these values in these columns.
    Told(Vec<(Column, Row)>),
    /// It cannot be told: these flow into it too.
    Untold(Vec<TableId>),
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The flow.
    pub flow: &'a FlowPlan,
    /// What the statement did to the source table.
    pub changes: &'a [SchemaChange],
    /// What the flow made of the table before it; `None` if the flow did not take it.
    pub before: Option<&'a BoundFlow>,
    /// What it makes of it from now on.
    pub after: Option<&'a BoundFlow>,
    /// About the target table before the changes, or after them where there is none before.
    pub share: &'a Share,
    /// The target table that `before` is written to; where there is none before, the one that `after` comes into.
    pub evolved: Option<&'a Evolved>,
    /// The target table that has the name which `after` gives, where that is another one than `before`'s.
    pub taken: Option<&'a Evolved>,
    /// The target table of a source table that is not there any more and of which nothing is known here; `evolved` is what has this
    /// name, if anything has.
    pub gone: Option<&'a str>,
    /// The names of steps that the target has refused, in mode try_evolve.
    pub refused: &'a BTreeSet<String>,
}

/// What a target has to do, and what it is then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derived {
    /// In order.
    pub steps: Vec<Step>,
    /// The target table from now on; `None` if it is gone.
    pub evolved: Option<Evolved>,
    /// What of the statement was left out, for people.
    pub left: Vec<String>,
}

/// One change of the target, and the name by which it is known if it is refused: the same each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// `add_column note`.
    pub name: String,
    /// The change.
    pub change: TargetSchemaChange,
}

/// What a target has to do.
///
/// # Errors
/// `SCHEMA_CHANGE_REFUSED` in mode exception; `KEY_CHANGED` if the rows would have another key and the target's cannot be
/// changed (other tables flow into it, or the flow or the mode keeps it out);
/// `TARGET_COLLISION` if rows are to change that cannot be told from those of another source table, or if columns of two tables
/// have no common type.
pub fn derive(question: &Question<'_>) -> Result<Derived> {
    let Question { flow, changes, share, .. } = *question;
    match (question.before, question.after) {
        (None, None) => Ok(gone(question)),
        (None, Some(after)) => arrived(question, after),
        (Some(before), None) => departed(question, before),
        (Some(before), Some(after)) => {
            if changes.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. })) {
                return made_anew(question, before, after);
            }
            let mut work = Work::new(question, before)?;
            let again = changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }));
            if again {
                // first: rows that go anyway need not fit what the other changes make of their columns
                let name = work.evolved.name.clone();
                work.push("resnapshot_table", remove_rows(flow, &name, &before.source().id, share, true)?);
            }
            work.rename_table(before, after)?;
            work.columns(before, after, again)?;
            work.truncate(before)?;
            if again {
                work.left.extend(gone_with_rows(flow, &work.evolved));
            }
            Ok(Derived { steps: work.steps, evolved: Some(work.evolved), left: work.left })
        }
    }
}

/// What goes with the rows of a table that is copied again, although the mode has kept it: for people. (They are made anew, rather than
/// written over, because nobody could tell which of them the source does not have.)
fn gone_with_rows(flow: &FlowPlan, evolved: &Evolved) -> Vec<String> {
    if flow.soft_delete.is_some() {
        return Vec::new();
    }
    let told = |c: &Column| {
        format!("column \"{}\" of the target loses what it had: its rows are copied again", c.name)
    };
    evolved.columns.iter().filter(|c| !evolved.is_fed(&c.name)).map(told).collect()
}

/// A table is not there any more of which nothing is known: a target that is ahead of the log may have it from the run before. What
/// is known of by its name is another table's, or was left behind knowingly.
fn gone(question: &Question<'_>) -> Derived {
    let flow = question.flow;
    let follows = match flow.on_schema_change {
        SchemaChangeMode::Evolve | SchemaChangeMode::TryEvolve => true,
        SchemaChangeMode::Lenient => is_wanted(flow, "drop_table"),
        // what has come there stays, as whatever the source drops
        SchemaChangeMode::Ignore | SchemaChangeMode::Exception => false,
    };
    let may = follows && flow.lets_through("drop_table") && !question.refused.contains("drop_table");
    let steps = match question.gone {
        Some(name) if may && question.evolved.is_none() && flow.soft_delete.is_none() => {
            vec![step("drop_table", TargetSchemaChange::DropTable { table: name.to_owned() })]
        }
        _ => Vec::new(),
    };
    Derived { steps, evolved: question.evolved.cloned(), left: Vec::new() }
}

/// A table that was not there comes.
fn arrived(question: &Question<'_>, after: &BoundFlow) -> Result<Derived> {
    let Question { flow, changes, share, .. } = *question;
    let table = after.target();
    let replaces = changes.iter().any(|c| matches!(c, SchemaChange::DropTable { .. }));
    let again = changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }));
    // a target that refuses to let the old one go keeps it, and so does one whose deleted rows are to stay
    let stays = question.refused.contains("drop_table");
    let keeps = flow.soft_delete.is_some();
    let joined = question.evolved.filter(|_| stays || keeps || !(replaces && *share == Share::Alone));
    let Some(there) = joined else {
        let mut steps = Vec::new();
        // One of an older shape may be there, from before a restart: of a table that is taken in, a target may be ahead of what
        // the log says of it. Nobody feeds it; somebody else's is not taken for it by the target.
        if *share == Share::Alone && !stays {
            steps.push(step("drop_table", TargetSchemaChange::DropTable { table: table.name.clone() }));
        }
        // of the one that is kept, which nothing is known of, those columns that it takes
        let written = table
            .only(|c| !(stays && question.refused.contains(&format!("add_column {}", c.name))))
            .map_or_else(|| table.clone(), Arc::new);
        let mut evolved = Evolved::of(&written);
        evolved.feeds = Evolved::of(table).feeds;
        for fed in evolved.feeds.iter_mut().flat_map(|f| &mut f.columns) {
            fed.target = fed.target.take().filter(|t| written.schema.column_index(t).is_some());
        }
        let left = evolved.feeds.iter().flat_map(|f| evolved.left(f)).collect();
        steps.push(step("create_table", TargetSchemaChange::CreateTable { table: written }));
        if again || stays {
            // (the source's table is another one than whose rows were kept)
            steps.push(step(
                "resnapshot_table",
                remove_rows(flow, &table.name, &table.schema.id, share, true)?,
            ));
        }
        return Ok(Derived { steps, evolved: Some(evolved), left });
    };
    let mut evolved = there.clone();
    // one that comes back has its place there still
    evolved.feeds.retain(|f| !(f.name == table.name && f.table == table.schema.id));
    let mut steps = Vec::new();
    let mut left = Vec::new();
    let merges = matches!(flow.on_schema_change, SchemaChangeMode::Lenient | SchemaChangeMode::Ignore);
    let now = Evolved::of(table);
    let same_key =
        now.key.len() == evolved.key.len() && now.key.iter().zip(&evolved.key).all(|(a, b)| same_name(a, b));
    if evolved.feeds.is_empty() && !keeps && !(stays && same_key) && (!merges || (again && !same_key)) {
        // nobody's any more: it becomes what the flow writes, if its rows go
        // one that the target has refused to let go when the source did may go by now
        let was_to_go =
            flow.on_schema_change == SchemaChangeMode::TryEvolve && flow.lets_through("drop_table") && !stays;
        if was_to_go || (again && (now.columns != evolved.columns || !same_key)) {
            steps.push(step("drop_table", TargetSchemaChange::DropTable { table: evolved.name.clone() }));
        }
        steps.push(step("create_table", TargetSchemaChange::CreateTable { table: table.clone() }));
        if again {
            steps.push(step(
                "resnapshot_table",
                remove_rows(flow, &table.name, &table.schema.id, share, true)?,
            ));
        }
        return Ok(Derived { steps, evolved: Some(now), left });
    }
    if again || (stays && evolved.feeds.is_empty() && !keeps) {
        steps
            .push(step("resnapshot_table", remove_rows(flow, &evolved.name, &table.schema.id, share, true)?));
        let mut then = evolved.clone();
        then.feeds.push(by_name(&evolved, table));
        left.extend(gone_with_rows(flow, &then));
    }
    if let Some(other) = not_told_from(flow, after.source(), evolved.feeds.iter().map(|f| &f.table)) {
        let error = collision(other, &table.schema.id, &evolved.name);
        let stayed = evolved.feeds.iter().find(|f| f.table == *other && f.name != evolved.name);
        return Err(match stayed {
            Some(feed) => error
                .note(format!(
                    "\"{other}\" was renamed, and its target table was not: the flow leaves out rename_table, or the target has refused it"
                ))
                .help(format!(
                    "where a table of somebody else's has the name \"{}\" at the target: move that one away there, then copy anew",
                    feed.name
                )),
            None => error,
        });
    }
    if flow.on_schema_change == SchemaChangeMode::Ignore || stays {
        // what the target has is fed by name
        evolved.feeds.push(by_name(&evolved, table));
        steps.extend(defaults_that_go(question, &mut evolved));
        left.extend(evolved.feeds.last().map(|f| evolved.left(f)).unwrap_or_default());
        return Ok(Derived { steps, evolved: Some(evolved), left });
    }
    let mut joined = evolved.clone();
    if !joined.feeds.is_empty() {
        for column in joined.lose_defaults() {
            steps.extend(default_step(question, &evolved.name, column));
        }
    }
    let widened = joined.join(table, flow.on_schema_change)?;
    for change in widened {
        let (kind, column) = match &change {
            Widened::New(column) => ("add_column", column.clone()),
            Widened::Type(column) => ("alter_column_type", column.clone()),
        };
        let name = format!("{kind} {}", column.name);
        if !act(question, kind, &name, &evolved.name)? {
            return Err(Error::definite(
                codes::SCHEMA_CHANGE_REFUSED,
                format!(
                    "target table \"{}\" would have to change for table \"{}\", and {kind} is kept out",
                    evolved.name, table.schema.id
                ),
            )
            .help(
                "let the flow take this kind of change, or give the table a name of its own at the target",
            ));
        }
        let table = evolved.name.clone();
        steps.push(step(
            &name,
            match change {
                Widened::New(_) => TargetSchemaChange::AddColumn {
                    table,
                    column: Column { default: None, nullable: true, ..column },
                    implicit: false,
                    keeps_default: false,
                },
                Widened::Type(_) => TargetSchemaChange::AlterColumnType {
                    table,
                    was: evolved.column(&column.name).map(|c| c.ty.clone()),
                    column: column.name.to_string(),
                    ty: column.ty,
                },
            },
        ));
    }
    if joined.feeds.len() == 1 {
        if joined.feeds[0].columns.iter().any(|f| f.target.as_ref().is_some_and(|t| !same_name(t, &f.output)))
        {
            left.extend(joined.left(&joined.feeds[0]).into_iter().filter(|_| !again));
        }
        // nobody's until now: its own defaults take the place of those that were there
        let fed = &joined.feeds[0].columns;
        let wanted: Vec<Column> = joined
            .columns
            .iter()
            .map(|there| {
                let own = fed.iter().find(|f| f.target.as_ref().is_some_and(|t| same_name(t, &there.name)));
                let own = own.and_then(|f| table.schema.columns.iter().find(|c| c.name == f.output));
                Column { default: own.and_then(|c| c.default.clone()), ..there.clone() }
            })
            .collect();
        for (there, wanted) in joined.columns.iter_mut().zip(wanted) {
            if there.default != wanted.default {
                there.default.clone_from(&wanted.default);
                steps.extend(default_step(question, &evolved.name, wanted));
            }
        }
    }
    Ok(Derived { steps, evolved: Some(joined), left })
}

/// A column has another default, or none, because of what becomes of its table: no change of the source's that a mode would
/// stop at. None where the target has refused it.
fn default_step(question: &Question<'_>, table: &str, column: Column) -> Option<Step> {
    let name = format!("alter_column_default {}", column.name);
    if question.refused.contains(&name) {
        return None;
    }
    Some(step(&name, TargetSchemaChange::AlterColumnDefault { table: table.to_owned(), column }))
}

/// Columns that nobody feeds lose their defaults: rows to come have no value for them, and are to read NULL there. (Not in mode
/// ignore, which alters nothing and makes none.)
fn defaults_that_go(question: &Question<'_>, evolved: &mut Evolved) -> Vec<Step> {
    if question.flow.on_schema_change == SchemaChangeMode::Ignore {
        return Vec::new();
    }
    let fed: Vec<bool> = evolved.columns.iter().map(|c| evolved.is_fed(&c.name)).collect();
    let mut steps = Vec::new();
    for (column, _) in evolved.columns.iter_mut().zip(fed).filter(|(c, fed)| !fed && c.default.is_some()) {
        let without = Column { default: None, ..column.clone() };
        if let Some(step) = default_step(question, &evolved.name, without) {
            column.default = None;
            steps.push(step);
        }
    }
    steps
}

/// A table goes, or is renamed to where the flow does not look.
fn departed(question: &Question<'_>, before: &BoundFlow) -> Result<Derived> {
    let Question { flow, changes, share, .. } = *question;
    let work = Work::new(question, before)?;
    let mut evolved = work.evolved;
    let name = evolved.name.clone();
    let had = (work.feed < evolved.feeds.len()).then(|| evolved.feeds.remove(work.feed));
    let source = &before.source().id;
    let kept = |why: &str, evolved| {
        Ok(Derived {
            steps: Vec::new(),
            evolved: Some(evolved),
            left: vec![format!("rows of {source} stay at the target: {why}")],
        })
    };
    // one that is renamed to where the flow does not look is gone for it
    let renamed = changes.iter().any(|c| matches!(c, SchemaChange::RenameTable { .. }));
    let kind = if renamed { "rename_table" } else { "drop_table" };
    if !act(question, kind, kind, &name)? || !is_wanted(flow, kind) {
        return kept(
            if question.refused.contains(kind) {
                "the target does not let go of them"
            } else if renamed {
                "it was renamed to where the flow does not look"
            } else {
                "the flow keeps out drop_table"
            },
            evolved,
        );
    }
    Ok(match share {
        Share::Alone if flow.soft_delete.is_none() => Derived {
            steps: vec![step(kind, TargetSchemaChange::DropTable { table: name })],
            evolved: None,
            left: Vec::new(),
        },
        _ => {
            let mut steps = vec![step(kind, remove_rows(flow, &name, source, share, false)?)];
            steps.extend(columns_that_go(question, &mut evolved, had.as_ref(), |_| false)?);
            Derived { steps, evolved: Some(evolved), left: Vec::new() }
        }
    })
}

/// Columns that a table was the last one to have go with its rows, but for those that are to stay: others' rows have nothing in them, and one
/// that comes later under such a name is another one.
fn columns_that_go(
    question: &Question<'_>,
    evolved: &mut Evolved,
    had: Option<&Feed>,
    stays: impl Fn(&Column) -> bool,
) -> Result<Vec<Step>> {
    let follows =
        matches!(question.flow.on_schema_change, SchemaChangeMode::Evolve | SchemaChangeMode::TryEvolve);
    // (of a table that nobody feeds all is kept, or nothing; and rows that are only marked as deleted keep what they have)
    if !follows || evolved.feeds.is_empty() || question.flow.soft_delete.is_some() {
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    for there in had.iter().flat_map(|had| &had.columns).filter_map(|f| f.target.as_ref()) {
        let name = format!("drop_column {there}");
        let goes = evolved.column(there).is_some_and(|c| !stays(c))
            && !evolved.is_fed(there)
            && !evolved.is_key(there);
        if goes && act(question, "drop_column", &name, &evolved.name)? {
            evolved.columns.retain(|c| !same_name(&c.name, there));
            let table = evolved.name.clone();
            steps.push(step(&name, TargetSchemaChange::DropColumn { table, column: there.to_string() }));
        }
    }
    Ok(steps)
}

/// Dropped and made again in one statement (CREATE OR REPLACE), or told to be another by a table map.
fn made_anew(question: &Question<'_>, before: &BoundFlow, after: &BoundFlow) -> Result<Derived> {
    let Question { changes, share, .. } = *question;
    let again = changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }));
    let dropped = changes.iter().any(|c| matches!(c, SchemaChange::DropTable { .. }));
    let table = after.target();
    let work = Work::new(question, before)?;
    let mut evolved = work.evolved;
    let name = evolved.name.clone();
    let replace = if dropped && !again {
        act(question, "drop_table", "drop_table", &name)?
    } else {
        // a target that refuses to let the old one go keeps it
        !question.refused.contains("drop_table")
    };
    let ignore = question.flow.on_schema_change == SchemaChangeMode::Ignore || !replace;
    let keeps = question.flow.soft_delete.is_some();
    if ignore || keeps || *share != Share::Alone {
        let mut steps = Vec::new();
        let goes = dropped && replace && !ignore && is_wanted(question.flow, "drop_table");
        if goes && !again && !keeps {
            // others' rows are there too: its own go, and those that come are told by the log
            steps.push(step(
                "drop_table",
                remove_rows(question.flow, &name, &before.source().id, share, false)?,
            ));
        }
        let left = match dropped && !again && !goes && !keeps {
            true => Some(format!(
                "rows of {} from before it was made anew stay at the target",
                before.source().id
            )),
            false => None,
        };
        if again || (keeps && replace && !ignore) {
            steps.push(step(
                "resnapshot_table",
                remove_rows(question.flow, &name, &before.source().id, share, true)?,
            ));
        }
        let had = (work.feed < evolved.feeds.len()).then(|| evolved.feeds.remove(work.feed));
        if ignore {
            evolved.feeds.push(by_name(&evolved, table));
            steps.extend(defaults_that_go(question, &mut evolved));
            let left_out = evolved.feeds.last().map(|f| evolved.left(f)).unwrap_or_default();
            let left = left.into_iter().chain(left_out).collect();
            return Ok(Derived { steps, evolved: Some(evolved), left });
        }
        let comes = |there: &Column| {
            let column = table.schema.columns.iter().find(|c| same_name(&c.name, &there.name));
            column.is_some_and(|c| common(&there.ty, &c.ty).is_some())
        };
        steps.extend(columns_that_go(question, &mut evolved, had.as_ref(), comes)?);
        let joined = arrived(&Question { before: None, evolved: Some(&evolved), ..*question }, after)?;
        steps.extend(joined.steps.into_iter().filter(|s| s.name != "resnapshot_table"));
        let left = left.into_iter().chain(joined.left).collect();
        return Ok(Derived { steps, evolved: joined.evolved, left });
    }
    let mut steps = vec![
        step("drop_table", TargetSchemaChange::DropTable { table: name.clone() }),
        step("create_table", TargetSchemaChange::CreateTable { table: table.clone() }),
    ];
    if again {
        steps.push(step(
            "resnapshot_table",
            remove_rows(question.flow, &table.name, &table.schema.id, share, true)?,
        ));
    }
    Ok(Derived { steps, evolved: Some(Evolved::of(table)), left: Vec::new() })
}

/// A source table whose rows all come anew feeds what the target has of its columns.
fn by_name(evolved: &Evolved, table: &TargetTable) -> Feed {
    let columns = table
        .schema
        .columns
        .iter()
        .map(|c| Fed {
            output: c.name.clone(),
            ty: c.ty.clone(),
            target: evolved.column(&c.name).filter(|t| is_fed_again(t, c)).map(|t| t.name.clone()),
        })
        .collect();
    Feed { table: table.schema.id.clone(), name: table.name.clone(), columns }
}

/// A column of the target may have the name of this one from a column that is long gone: then its type may have nothing in
/// common with this one's, and each row would be an error.
fn is_fed_again(there: &Column, column: &Column) -> bool {
    common(&there.ty, &column.ty).is_some()
}

fn step(name: &str, change: TargetSchemaChange) -> Step {
    Step { name: name.to_owned(), change }
}

/// Is this kind of change to be made? Stops in mode exception.
fn act(question: &Question<'_>, kind: &str, name: &str, table: &str) -> Result<bool> {
    let flow = question.flow;
    if !flow.lets_through(kind) {
        return Ok(false);
    }
    match flow.on_schema_change {
        SchemaChangeMode::Exception => Err(Error::definite(
            codes::SCHEMA_CHANGE_REFUSED,
            format!(
                "schema change {kind} of target table \"{table}\" is refused: on_schema_change = exception"
            ),
        )
        .help("set on_schema_change = lenient or evolve, or exclude = [..] this kind of change")),
        SchemaChangeMode::Ignore => Ok(false),
        SchemaChangeMode::TryEvolve => Ok(!question.refused.contains(name)),
        SchemaChangeMode::Evolve | SchemaChangeMode::Lenient => Ok(true),
    }
}

/// Of what lenient keeps out unless it is asked for.
fn is_wanted(flow: &FlowPlan, kind: &str) -> bool {
    flow.on_schema_change != SchemaChangeMode::Lenient || flow.include.iter().any(|k| k == kind)
}

/// All rows of a source table go; with `soft_delete` they stay, as deleted ones.
fn remove_rows(
    flow: &FlowPlan,
    table: &str,
    source: &TableId,
    share: &Share,
    again: bool,
) -> Result<TargetSchemaChange> {
    let only = only_of(table, source, share)?;
    if let Some(name) = &flow.soft_delete {
        let ty = ColumnType::Int { width: IntWidth::Tiny, unsigned: false };
        let column = Column { default: Some("1".to_owned()), ..Column::new(name.as_str(), ty).not_null() };
        return Ok(TargetSchemaChange::ResetColumn {
            table: table.to_owned(),
            column,
            implicit: false,
            only,
        });
    }
    Ok(TargetSchemaChange::RemoveRows { table: table.to_owned(), source: source.clone(), only, again })
}

/// What tells the rows of a source table.
fn only_of(table: &str, source: &TableId, share: &Share) -> Result<Vec<(Column, Row)>> {
    match share {
        Share::Alone => Ok(Vec::new()),
        Share::Told(only) => Ok(only.clone()),
        Share::Untold(others) => {
            let others: Vec<String> = others.iter().map(|t| format!("\"{t}\"")).collect();
            Err(Error::definite(
                codes::TARGET_COLLISION,
                format!("rows of \"{source}\" in target table \"{table}\" cannot be told from those of other tables"),
            )
            .note(format!("all rows of \"{source}\" are to change there; {} flow into it too", others.join(", ")))
            .help("let a column tell where a row comes from: extend meta.table as shard (and meta.database, where table names repeat); then copy anew"))
        }
    }
}

/// One statement on its way into the target.
struct Work<'q> {
    question: &'q Question<'q>,
    mode: SchemaChangeMode,
    evolved: Evolved,
    /// The place of the source table's feed.
    feed: usize,
    steps: Vec<Step>,
    left: Vec<String>,
}

impl<'q> Work<'q> {
    fn new(question: &'q Question<'q>, before: &BoundFlow) -> Result<Work<'q>> {
        let table = before.target();
        let mut evolved = question.evolved.cloned().unwrap_or_else(|| Evolved::of(table));
        let is_its = |f: &Feed| f.name == table.name && f.table == table.schema.id;
        let feed = match evolved.feeds.iter().position(is_its) {
            Some(feed) => feed,
            // not heard of before: it feeds what is there
            None => {
                let feed = by_name(&evolved, table);
                evolved.feeds.push(feed);
                evolved.feeds.len() - 1
            }
        };
        let mode = question.flow.on_schema_change;
        Ok(Work { question, mode, evolved, feed, steps: Vec::new(), left: Vec::new() })
    }

    fn push(&mut self, name: &str, change: TargetSchemaChange) {
        self.steps.push(step(name, change));
    }

    fn act(&self, kind: &str, name: &str) -> Result<bool> {
        act(self.question, kind, name, &self.evolved.name)
    }

    fn source(&self) -> TableId {
        self.evolved.feeds[self.feed].table.clone()
    }

    /// Does another source table feed this column of the target?
    fn is_shared(&self, column: &str) -> bool {
        self.others(column).next().is_some()
    }

    /// The types of what other source tables feed it with.
    fn others<'w>(&'w self, column: &'w str) -> impl Iterator<Item = &'w ColumnType> + 'w {
        self.evolved
            .feeds
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != self.feed)
            .flat_map(|(_, f)| &f.columns)
            .filter(move |f| f.target.as_ref().is_some_and(|t| same_name(t, column)))
            .map(|f| &f.ty)
    }

    fn has_others(&self) -> bool {
        self.evolved.feeds.len() > 1
    }

    fn only(&self) -> Result<Vec<(Column, Row)>> {
        only_of(&self.evolved.name, &self.source(), self.question.share)
    }

    fn rename_table(&mut self, before: &BoundFlow, after: &BoundFlow) -> Result<()> {
        let (old, new) = (&before.target().name, &after.target().name);
        if old == new {
            return Ok(());
        }
        if !self.act("rename_table", "rename_table")? {
            self.left.push(format!("the target's table stays \"{}\"", self.evolved.name));
            return Ok(());
        }
        if self.has_others() {
            return Err(Error::definite(
                codes::TARGET_COLLISION,
                format!(
                    "rows of \"{}\" would have to move from target table \"{}\" to \"{new}\"",
                    self.source(),
                    self.evolved.name
                ),
            )
            .note("other tables flow into the one that they are in")
            .help("exclude = [rename_table] leaves them where they are; or copy the table anew"));
        }
        let left_behind = self.question.taken.is_some_and(|t| t.feeds.is_empty());
        let flow = self.question.flow;
        if left_behind && flow.soft_delete.is_none() && flow.lets_through("drop_table") {
            // as a column that was kept, a table that nobody feeds gives way to one that takes its name
            self.push("rename_table", TargetSchemaChange::DropTable { table: new.clone() });
        }
        let from = std::mem::replace(&mut self.evolved.name, new.clone());
        if from != *new {
            self.push("rename_table", TargetSchemaChange::RenameTable { from, to: new.clone() });
        }
        Ok(())
    }

    fn truncate(&mut self, before: &BoundFlow) -> Result<()> {
        for change in self.question.changes {
            if !matches!(change, SchemaChange::TruncateTable { .. }) {
                continue;
            }
            if !self.act("truncate_table", "truncate_table")?
                || !is_wanted(self.question.flow, "truncate_table")
            {
                self.left
                    .push(format!("rows of {} from before TRUNCATE stay at the target", before.source().id));
                continue;
            }
            let table = self.evolved.name.clone();
            let change = match self.question.share {
                Share::Alone if self.question.flow.soft_delete.is_none() => {
                    TargetSchemaChange::TruncateTable { table }
                }
                share => remove_rows(self.question.flow, &table, &before.source().id, share, false)?,
            };
            self.push("truncate_table", change);
        }
        Ok(())
    }

    /// Everything about columns and the key.
    fn columns(&mut self, before: &BoundFlow, after: &BoundFlow, again: bool) -> Result<()> {
        let (old, new) = (&before.target().schema.columns, &after.target().schema.columns);
        let pairs = pairs(self.question.changes, before, after);
        // the target's column of each output column of before, as it goes along
        let feed = &self.evolved.feeds[self.feed];
        let mut fed: Vec<Option<Arc<str>>> = old
            .iter()
            .map(|c| {
                feed.columns.iter().find(|f| same_name(&f.output, &c.name)).and_then(|f| f.target.clone())
            })
            .collect();
        if again {
            // all rows come anew: what the target has of these names is fed again
            for (j, (column, fed)) in old.iter().zip(&mut fed).enumerate() {
                let free = |name: &str| {
                    !feed.columns.iter().any(|f| f.target.as_ref().is_some_and(|t| same_name(t, name)))
                };
                let now = pairs.iter().position(|pair| *pair == Some(j)).map_or(column, |k| &new[k]);
                if fed.is_none() {
                    *fed = self
                        .evolved
                        .column(&column.name)
                        .filter(|c| free(&c.name) && is_fed_again(c, now))
                        .map(|c| c.name.clone());
                }
            }
        }
        let fed_before = fed.clone();
        let mut late = self.drops(old, new, &pairs, &mut fed)?;
        let unlike = self.types(old, new, &pairs, &mut fed, again)?;
        self.renames(old, new, &pairs, &mut fed, &unlike, again)?;
        let mut columns: Vec<Fed> = Vec::with_capacity(new.len());
        for (column, pair) in new.iter().zip(&pairs) {
            let target = match pair {
                Some(j) => fed[*j].clone(),
                None => {
                    let taken: Vec<Arc<str>> = fed.iter().flatten().cloned().collect();
                    self.add(column, &after.as_rows_read(column), &taken, again)?
                }
            };
            columns.push(Fed { output: column.name.clone(), ty: column.ty.clone(), target });
        }
        self.evolved.feeds[self.feed] =
            Feed { table: after.source().id.clone(), name: after.target().name.clone(), columns };
        self.nullability(old, new, &pairs)?;
        self.key(before.target(), after.target())?;
        for (column, name) in late.drain(..) {
            self.drop_column(&column, &name);
        }
        self.defaults(old, new, &pairs, &fed_before)?;
        self.comments(before, after, &pairs)
    }

    /// What columns read in rows that somebody else inserts at the target. Last of all, when it is known which of its columns
    /// are fed.
    fn defaults(
        &mut self,
        old: &[Column],
        new: &[Column],
        pairs: &[Option<usize>],
        fed_before: &[Option<Arc<str>>],
    ) -> Result<()> {
        let fed = |this: &Self, k: usize| {
            this.evolved.feeds[this.feed].columns.get(k).and_then(|f| f.target.clone())
        };
        for (k, j) in pairs.iter().enumerate().filter_map(|(k, pair)| pair.map(|j| (k, j))) {
            let Some(there) = fed(self, k) else { continue };
            let changes = old[j].default != new[k].default;
            // a column that has taken over from another one has none yet
            let is_new =
                fed_before[j].as_ref().is_none_or(|b| self.evolved.column(b).is_some() && *b != there);
            let name = format!("alter_column_default {}", new[k].name);
            if !(changes || is_new) || !self.act_if(changes, "alter_column_default", &name)? {
                continue;
            }
            let wanted = new[k].default.clone().filter(|_| !self.has_others());
            if self.evolved.column(&there).is_some_and(|c| c.default != wanted) {
                self.set_default(&there, wanted, &name);
            }
        }
        // rows to come have no value for a column that is not fed any more, and are to read NULL there
        let still: Vec<Arc<str>> = (0..new.len()).filter_map(|k| fed(self, k)).collect();
        for (column, there) in old.iter().zip(fed_before).filter_map(|(c, f)| f.clone().map(|f| (c, f))) {
            let name = format!("alter_column_default {there}");
            let has_one = |c: &Column| c.default.is_some() || column.default.is_some();
            if !still.iter().any(|s| same_name(s, &there))
                && self.evolved.column(&there).is_some_and(has_one)
                && !self.question.refused.contains(&name)
            {
                self.set_default(&there, None, &name);
            }
        }
        Ok(())
    }

    /// As [`Work::act`], where the source's statement says so; what follows from something else no mode stops at.
    fn act_if(&self, changes: bool, kind: &str, name: &str) -> Result<bool> {
        if changes { self.act(kind, name) } else { Ok(!self.question.refused.contains(name)) }
    }

    fn set_default(&mut self, there: &str, default: Option<String>, name: &str) {
        let table = self.evolved.name.clone();
        let Some(at) = self.evolved.column_mut(there) else { return };
        at.default = default;
        let column = at.clone();
        self.push(name, TargetSchemaChange::AlterColumnDefault { table, column });
    }

    /// Comments of the table and of columns that stay.
    fn comments(&mut self, before: &BoundFlow, after: &BoundFlow, pairs: &[Option<usize>]) -> Result<()> {
        let (before, after) = (&before.target().schema, &after.target().schema);
        let mut changed: Vec<(Option<Arc<str>>, String, String)> = Vec::new();
        if before.comment != after.comment {
            changed.push((None, after.comment.clone(), "alter_comment".to_owned()));
        }
        for (k, j) in pairs.iter().enumerate().filter_map(|(k, pair)| pair.map(|j| (k, j))) {
            let (column, old) = (&after.columns[k], &before.columns[j]);
            let fed = self.evolved.feeds[self.feed].columns.get(k).and_then(|f| f.target.clone());
            if let Some(there) = fed.filter(|_| old.comment != column.comment) {
                changed.push((Some(there), column.comment.clone(), format!("alter_comment {}", column.name)));
            }
        }
        for (column, comment, name) in changed {
            // one that has taken over from another has its comment already
            let is = match &column {
                Some(column) => self.evolved.column(column).map(|c| &c.comment),
                None => Some(&self.evolved.comment),
            };
            if is == Some(&comment) || !self.act("alter_comment", &name)? {
                continue;
            }
            match &column {
                Some(column) => {
                    if let Some(there) = self.evolved.column_mut(column) {
                        there.comment.clone_from(&comment);
                    }
                }
                None => self.evolved.comment.clone_from(&comment),
            }
            let table = self.evolved.name.clone();
            let column = column.map(|c| c.to_string());
            self.push(&name, TargetSchemaChange::AlterComment { table, column, comment });
        }
        Ok(())
    }

    /// A column goes. `name`: the step that this is for, which is what is passed over if the target refuses it.
    fn drop_column(&mut self, column: &Arc<str>, name: &str) {
        let table = self.evolved.name.clone();
        self.evolved.columns.retain(|c| !same_name(&c.name, column));
        self.push(name, TargetSchemaChange::DropColumn { table, column: column.to_string() });
    }

    /// Columns that are not there any more; gives back those that can only go behind the change of the key.
    fn drops(
        &mut self,
        old: &[Column],
        new: &[Column],
        pairs: &[Option<usize>],
        fed: &mut [Option<Arc<str>>],
    ) -> Result<Vec<(Arc<str>, String)>> {
        let mut late = Vec::new();
        for (j, column) in old.iter().enumerate().filter(|(j, _)| !pairs.contains(&Some(*j))) {
            let Some(there) = fed[j].take() else { continue };
            let name = format!("drop_column {}", column.name);
            let wanted = self.act("drop_column", &name)?;
            // a column that takes the name
            let taken = new.iter().zip(pairs).any(|(c, pair)| {
                same_name(&c.name, &there) && pair.is_none_or(|j| !same_name(&old[j].name, &c.name))
            });
            let goes = wanted && (is_wanted(self.question.flow, "drop_column") || taken);
            if self.is_shared(&there) {
                // its rows have nothing there any more; those of other tables do
                if goes && !self.evolved.is_key(&there) {
                    self.empty_column(&there, &name)?;
                }
                continue;
            }
            if !goes {
                self.keep(&there);
                continue;
            }
            if !self.evolved.is_key(&there) {
                self.drop_column(&there, &name);
            } else if taken {
                let aside: Arc<str> = self.free(&format!("_cdc_{there}")).into();
                self.rename_column(&there, &aside, &name);
                late.push((aside, name));
            } else {
                late.push((there, name));
            }
        }
        Ok(late)
    }

    /// A column that stays and is not fed any more: rows that come have nothing for it.
    fn keep(&mut self, column: &str) {
        let lenient = self.mode == SchemaChangeMode::Lenient;
        let is_key = self.evolved.is_key(column);
        let table = self.evolved.name.clone();
        let Some(there) = self.evolved.column_mut(column) else { return };
        let (name, was_nullable) = (there.name.to_string(), there.nullable);
        there.nullable |= lenient;
        // one that is copied again loses it: told behind all changes
        let again = self.question.changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. }));
        if !again || self.question.flow.soft_delete.is_some() {
            self.left.push(keeps(&name));
        }
        if lenient && !was_nullable && !is_key {
            self.push(
                &format!("alter_nullability {name}"),
                TargetSchemaChange::AlterNullability { table, column: name, nullable: true },
            );
        }
    }

    /// The rows of this source table read NULL in a column that others feed.
    fn empty_column(&mut self, column: &str, name: &str) -> Result<()> {
        let Some(there) = self.evolved.column_mut(column) else { return Ok(()) };
        there.nullable = true;
        let column = Column { default: None, nullable: true, ..there.clone() };
        if let Share::Untold(_) = self.question.share {
            self.left.push(format!(
                "column \"{}\" of the target keeps the old values in rows of {}",
                column.name,
                self.source()
            ));
            return Ok(());
        }
        let (table, only) = (self.evolved.name.clone(), self.only()?);
        self.push(name, TargetSchemaChange::ResetColumn { table, column, implicit: false, only });
        Ok(())
    }

    /// A name that the target does not have, nor is to get by the same statement.
    fn free(&self, name: &str) -> String {
        let comes =
            |name: &str| self.question.after.is_some_and(|a| a.target().schema.column_index(name).is_some());
        (2..)
            .map(|n| format!("{name}_{n}"))
            .find(|n| self.evolved.column(n).is_none() && !comes(n))
            .unwrap_or_default()
    }

    fn rename_column(&mut self, from: &Arc<str>, to: &Arc<str>, name: &str) {
        let table = self.evolved.name.clone();
        if let Some(there) = self.evolved.column_mut(from) {
            there.name = to.clone();
        }
        for key in self.evolved.key.iter_mut().filter(|k| same_name(k, from)) {
            *key = to.clone();
        }
        self.push(
            name,
            TargetSchemaChange::RenameColumn { table, from: from.to_string(), to: to.to_string() },
        );
    }

    /// Columns of another type; gives back those that have another name as well, and whose column of the target can hold none of the
    /// new values.
    fn types(
        &mut self,
        old: &[Column],
        new: &[Column],
        pairs: &[Option<usize>],
        fed: &mut [Option<Arc<str>>],
        again: bool,
    ) -> Result<Vec<usize>> {
        let mut unlike = Vec::new();
        for (column, j) in new.iter().zip(pairs).filter_map(|(c, pair)| pair.map(|j| (c, j))) {
            let Some(there) = fed[j].clone() else { continue };
            if old[j].ty == column.ty {
                continue;
            }
            let Some(at) = self.evolved.column(&there).cloned() else { continue };
            let name = format!("alter_column_type {}", column.name);
            if !self.act("alter_column_type", &name)? {
                if !same_type(&at.ty, &column.ty) {
                    self.left.push(format!(
                        "column \"{there}\" of the target stays {}; values are converted",
                        at.ty
                    ));
                }
                continue;
            }
            let is_key = self.evolved.is_key(&there);
            let wanted = if self.is_shared(&there) {
                let moves = old[j].name != column.name && !same_name(&there, &column.name);
                if moves && !is_key && self.act("rename_column", &format!("rename_column {}", old[j].name))? {
                    // its values go to another one, which is made as wide as they need: this one is the others' alone
                    continue;
                }
                let others: Vec<ColumnType> = self.others(&there).cloned().collect();
                let all = others
                    .iter()
                    .chain((self.mode == SchemaChangeMode::Lenient).then_some(&at.ty))
                    .try_fold(column.ty.clone(), |ty, other| common_or_text(&ty, other, self.mode));
                Some(all.ok_or_else(|| no_common(&self.evolved.name, &at, &self.source(), column))?)
            } else if self.mode == SchemaChangeMode::Lenient {
                match common(&at.ty, &column.ty) {
                    None if is_key => Some(column.ty.clone()),
                    // a text by what has been there before takes what the source's own types have in common
                    None if at.ty == any_text() && common(&old[j].ty, &column.ty).is_some() => {
                        common_or_text(&at.ty, &column.ty, self.mode)
                    }
                    // narrower: the target covers it
                    wide => wide,
                }
            } else {
                Some(column.ty.clone())
            };
            match wanted {
                Some(ty)
                    if same_type(&ty, &at.ty) && (self.mode == SchemaChangeMode::Lenient || ty == at.ty) => {}
                Some(ty) => {
                    self.alter_type(&there, ty, column, &name);
                }
                // one that is renamed gets a column of its own, where it does not have to give up its name
                None if old[j].name != column.name => unlike.push(j),
                None => {
                    let to: Arc<str> = self.free(&there).into();
                    let column = self.with_room(&there, &old[j], column, !again);
                    self.split(&there, &to, &column, &name, !again)?;
                    fed[j] = Some(to);
                }
            }
        }
        Ok(unlike)
    }

    /// A column of the target gets another type, and with it the default of the source's column.
    fn alter_type(&mut self, there: &Arc<str>, ty: ColumnType, column: &Column, name: &str) {
        let table = self.evolved.name.clone();
        let Some(at) = self.evolved.column_mut(there) else { return };
        let was = Some(std::mem::replace(&mut at.ty, ty.clone()));
        let had_default = at.default.is_some();
        self.push(name, TargetSchemaChange::AlterColumnType { table, column: there.to_string(), ty, was });
        if had_default {
            let wanted = column.default.clone().filter(|_| !self.has_others());
            self.set_default(there, wanted, name);
        }
    }

    /// What takes over from a column in mode lenient. That one may have been the target's for longer than it is this source column's (a table
    /// that was dropped has left its rows there), and hold what the source's type does not: then the new one holds it too.
    fn with_room(&self, from: &str, old: &Column, column: &Column, fill: bool) -> Column {
        let lenient = self.mode == SchemaChangeMode::Lenient;
        let is_filled = lenient && fill && self.question.flow.backfill;
        let Some(at) = self.evolved.column(from).filter(|_| is_filled) else { return column.clone() };
        let covers = common(&old.ty, &at.ty).is_some_and(|both| same_type(&both, &old.ty));
        let ty = if covers { None } else { common_or_text(&at.ty, &column.ty, self.mode) };
        Column { ty: ty.unwrap_or_else(|| column.ty.clone()), ..column.clone() }
    }

    /// A new column takes over from one that stays.
    fn split(
        &mut self,
        from: &Arc<str>,
        to: &Arc<str>,
        column: &Column,
        name: &str,
        fill: bool,
    ) -> Result<()> {
        let fill = fill && (self.question.flow.backfill || self.mode != SchemaChangeMode::Lenient);
        self.fill_from(from, to, column, name, fill)?;
        self.leave(from, name)
    }

    /// A column that this table's rows have nothing in any more.
    fn leave(&mut self, column: &Arc<str>, name: &str) -> Result<()> {
        match (self.is_shared(column), self.mode == SchemaChangeMode::Lenient) {
            (true, true) => {}
            (true, false) => self.empty_column(column, name)?,
            // the last one that had it has another name now
            (false, false) if !self.evolved.is_key(column) => self.drop_column(column, name),
            (false, _) => self.keep(column),
        }
        Ok(())
    }

    /// A column, new or one that others feed, takes the values of this table's rows in another one.
    fn fill_from(
        &mut self,
        from: &Arc<str>,
        to: &Arc<str>,
        column: &Column,
        name: &str,
        fill: bool,
    ) -> Result<()> {
        let table = self.evolved.name.clone();
        match self.evolved.column(to).cloned() {
            // others feed it
            Some(there) => {
                let ty = common_or_text(&there.ty, &column.ty, self.mode)
                    .ok_or_else(|| no_common(&table, &there, &self.source(), column))?;
                if !same_type(&ty, &there.ty) {
                    if let Some(there) = self.evolved.column_mut(to) {
                        there.ty = ty.clone();
                    }
                    let (column, was) = (there.name.to_string(), Some(there.ty));
                    self.push(
                        name,
                        TargetSchemaChange::AlterColumnType { table: table.clone(), column, ty, was },
                    );
                }
            }
            None => {
                // its values are the old one's, however the source makes them
                let new = Column {
                    name: to.clone(),
                    default: None,
                    nullable: true,
                    generated: None,
                    auto_increment: false,
                    ..column.clone()
                };
                self.evolved.columns.push(new.clone());
                self.push(
                    name,
                    TargetSchemaChange::AddColumn {
                        table: table.clone(),
                        column: new,
                        implicit: false,
                        keeps_default: false,
                    },
                );
            }
        }
        if fill {
            // right behind: filled from the old one
            let only = if self.has_others() { self.only()? } else { Vec::new() };
            let was = self.evolved.column(from).map(|c| c.ty.clone());
            self.push(
                name,
                TargetSchemaChange::FillColumn {
                    table,
                    from: from.to_string(),
                    to: to.to_string(),
                    was,
                    only,
                },
            );
        }
        Ok(())
    }

    fn renames(
        &mut self,
        old: &[Column],
        new: &[Column],
        pairs: &[Option<usize>],
        fed: &mut [Option<Arc<str>>],
        unlike: &[usize],
        again: bool,
    ) -> Result<()> {
        // those that rename a column of the target: its place, its name now, its new one
        let mut plain: Vec<(usize, Arc<str>, Arc<str>)> = Vec::new();
        let mut split: Vec<(usize, Arc<str>, usize)> = Vec::new();
        self.back_from_aside(old, new, pairs, fed);
        for (k, j) in pairs.iter().enumerate().filter_map(|(k, pair)| pair.map(|j| (k, j))) {
            let Some(there) = fed[j].clone() else { continue };
            let to = &new[k].name;
            if old[j].name == *to {
                continue;
            }
            let name = format!("rename_column {}", old[j].name);
            let is_key = self.evolved.is_key(&there);
            let wanted = self.act("rename_column", &name)?;
            if is_key && (!wanted || self.is_shared(&there)) {
                // the same column under another name: its values are the key's
                self.left.push(format!("column \"{there}\" of the target keeps its name"));
            } else if !wanted {
                fed[j] = None;
                self.keep(&there);
            } else if there == *to {
                // it has had the name all along
                if unlike.contains(&j) {
                    let to: Arc<str> = self.free(&there).into();
                    let name = format!("alter_column_type {}", new[k].name);
                    let column = self.with_room(&there, &old[j], &new[k], !again);
                    self.split(&there, &to, &column, &name, !again)?;
                    fed[j] = Some(to);
                }
            } else if !is_key && (self.mode == SchemaChangeMode::Lenient || self.is_shared(&there)) {
                split.push((j, there, k));
            } else {
                plain.push((j, there, to.clone()));
            }
        }
        // names that nobody feeds make room
        let step = |j: usize| format!("rename_column {}", old[j].name);
        let wanted: Vec<(Arc<str>, String)> = plain
            .iter()
            .map(|(j, _, to)| (to.clone(), step(*j)))
            .chain(split.iter().map(|(j, _, k)| (new[*k].name.clone(), step(*j))))
            .collect();
        for (column, name) in &wanted {
            self.make_room(column, fed, name);
        }
        self.exchange(old, new, &mut plain, &mut split, fed)?;
        // In mode lenient a column whose name another one takes cannot stay: then it takes its values along.
        let crossed = |there: &Arc<str>| wanted.iter().any(|(w, _)| same_name(w, there));
        let (crossing, apart): (Vec<_>, Vec<_>) = split.into_iter().partition(|(_, there, k)| {
            crossed(there) || fed.iter().flatten().any(|f| same_name(f, &new[*k].name))
        });
        for (j, there, k) in crossing {
            if self.is_shared(&there) {
                // only in letter case: it is the same to every target
                continue;
            }
            if unlike.contains(&j) {
                // nor can it keep its type: it is the only one that the new values can go to; with whatever other rows have kept there
                let name = format!("alter_column_type {}", new[k].name);
                let room = self.with_room(&there, &old[j], &new[k], true).ty;
                let at = self.evolved.column(&there).filter(|_| self.has_others());
                let ty = at.and_then(|at| common_or_text(&at.ty, &room, self.mode)).unwrap_or(room);
                self.alter_type(&there, ty, &new[k], &name);
            }
            plain.push((j, there, new[k].name.clone()));
        }
        while !plain.is_empty() {
            let free = plain
                .iter()
                .position(|(_, there, to)| same_name(there, to) || self.evolved.column(to).is_none());
            match free {
                Some(at) => {
                    let (j, there, to) = plain.remove(at);
                    self.rename_column(&there, &to, &step(j));
                    fed[j] = Some(to);
                }
                None if self
                    .evolved
                    .column(&plain[0].2)
                    .is_some_and(|c| !plain.iter().any(|(_, there, _)| same_name(there, &c.name))) =>
                {
                    // another table's rows have that column: the rows of this one move over
                    let (j, there, to) = plain.remove(0);
                    let column = new.iter().find(|c| c.name == to).cloned().unwrap_or_else(|| old[j].clone());
                    self.split(&there, &to, &column, &step(j), true)?;
                    fed[j] = Some(to);
                }
                None => {
                    // a ring: the first one steps aside
                    let aside: Arc<str> = self.free(&format!("_cdc_{}", plain[0].1)).into();
                    let there = std::mem::replace(&mut plain[0].1, aside.clone());
                    self.rename_column(&there, &aside, &step(plain[0].0));
                    fed[plain[0].0] = Some(aside);
                }
            }
        }
        for (j, there, k) in apart {
            let to = new[k].name.clone();
            let column = self.with_room(&there, &old[j], &new[k], true);
            self.split(&there, &to, &column, &step(j), true)?;
            fed[j] = Some(to);
        }
        Ok(())
    }

    /// Columns whose names cross, where rows of other source tables are in them too: those stay where they are, so no column of the target
    /// gets another name. The values of this table's rows change places instead, each into the column of its new name.
    fn exchange(
        &mut self,
        old: &[Column],
        new: &[Column],
        plain: &mut Vec<(usize, Arc<str>, Arc<str>)>,
        split: &mut Vec<(usize, Arc<str>, usize)>,
        fed: &mut [Option<Arc<str>>],
    ) -> Result<()> {
        if !self.has_others() {
            return Ok(());
        }
        // source column, where its values are, where they go
        let all: Vec<(usize, Arc<str>, Arc<str>)> = plain
            .iter()
            .cloned()
            .chain(split.iter().map(|(j, there, k)| (*j, there.clone(), new[*k].name.clone())))
            .filter(|(_, there, to)| !same_name(there, to))
            .collect();
        let is_fed = |name: &str| fed.iter().flatten().any(|f| same_name(f, name));
        let is_wanted = |name: &str| all.iter().any(|(_, _, to)| same_name(to, name));
        let crosses = |there: &str, to: &str| is_wanted(there) || is_fed(to);
        let mut moves: Vec<(usize, Arc<str>, Arc<str>)> = Vec::new();
        // with those whose names hang together with theirs
        loop {
            let hangs = |(j, there, to): &&(usize, Arc<str>, Arc<str>)| {
                let begins = crosses(there, to) && (self.is_shared(there) || self.is_shared(to));
                let follows = moves.iter().any(|(_, a, b)| same_name(a, to) || same_name(there, b));
                !moves.iter().any(|(known, _, _)| known == j) && (begins || follows)
            };
            match all.iter().find(hangs) {
                Some(found) => moves.push(found.clone()),
                None => break,
            }
        }
        plain.retain(|(j, _, _)| !moves.iter().any(|(known, _, _)| known == j));
        split.retain(|(j, _, _)| !moves.iter().any(|(known, _, _)| known == j));
        let step = |j: usize| format!("rename_column {}", old[j].name);
        for (j, there, to) in &moves {
            // such as one of the key, which keeps its name where other tables have it
            let stays = |f: &&Arc<str>| same_name(f, to) && !moves.iter().any(|(_, from, _)| from == *f);
            if let Some(in_place) = fed.iter().flatten().find(stays) {
                return Err(self.in_place(&old[*j], there, in_place, to));
            }
        }
        let begun = moves.clone();
        let mut asides = Vec::new();
        while !moves.is_empty() {
            let free =
                moves.iter().position(|(_, _, to)| !moves.iter().any(|(_, there, _)| same_name(there, to)));
            let Some(at) = free else {
                // a ring: the values of the first one step aside
                let (j, there) = (moves[0].0, moves[0].1.clone());
                let aside: Arc<str> = self.free(&format!("_cdc_{there}")).into();
                let column = self.evolved.column(&there).cloned().unwrap_or_else(|| old[j].clone());
                self.fill_from(&there, &aside, &column, &step(j), true)?;
                asides.push((aside.clone(), step(j)));
                moves[0].1 = aside;
                continue;
            };
            let (j, there, to) = moves.remove(at);
            let column = new.iter().find(|c| c.name == to).cloned().unwrap_or_else(|| old[j].clone());
            let column = self.with_room(&there, &old[j], &column, true);
            let unlike = |at: &Column| common_or_text(&at.ty, &column.ty, self.mode).is_none();
            if !self.is_shared(&to)
                && !self.evolved.is_key(&to)
                && self.evolved.column(&to).is_some_and(unlike)
            {
                // only this table's values were there, and they have gone on
                self.drop_column(&to, &step(j));
            }
            self.fill_from(&there, &to, &column, &step(j), true)?;
            fed[j] = Some(to);
        }
        for (aside, name) in asides {
            self.drop_column(&aside, &name);
        }
        for (j, there, _) in &begun {
            if !begun.iter().any(|(_, _, to)| same_name(to, there)) {
                self.leave(there, &step(*j))?;
            }
        }
        Ok(())
    }

    /// A column would get the name of one of this table's that stays where it is.
    fn in_place(&self, column: &Column, there: &str, in_place: &str, to: &str) -> Error {
        let shown = |name: &str| {
            self.evolved.column(name).map_or_else(String::new, |c| format!("\"{}\" {}", c.name, c.ty))
        };
        Error::definite(
            codes::TARGET_COLLISION,
            format!(
                "column \"{}\" of {} gets the name \"{to}\", which another column of it keeps in target table \"{}\"",
                column.name,
                self.source(),
                self.evolved.name
            ),
        )
        .note(format!("its values are in: {}", shown(there)))
        .note(format!("the name is that of: {}", shown(in_place)))
        .note("other tables have the same columns there, under the names until now")
        .help("give the table a name of its own at the target, or name the columns in the flow (select .. as ..) as the other tables have them; then copy it anew")
    }

    /// Where a target whose definitions commit by themselves has refused a column's new name, the first one of a ring may have
    /// stepped aside before. It comes back; where it has not, there is nothing to do.
    fn back_from_aside(
        &mut self,
        old: &[Column],
        new: &[Column],
        pairs: &[Option<usize>],
        fed: &[Option<Arc<str>>],
    ) {
        let refused = self.question.refused;
        if !refused.iter().any(|name| name.starts_with("rename_column ")) {
            return;
        }
        for (k, j) in pairs.iter().enumerate().filter_map(|(k, pair)| pair.map(|j| (k, j))) {
            // only one whose new name another column has
            let is_taken = fed.iter().flatten().any(|f| same_name(f, &new[k].name));
            let renamed = is_taken && !same_name(&old[j].name, &new[k].name);
            let Some(there) = fed[j].as_ref().filter(|_| renamed) else { continue };
            let from = self.free(&format!("_cdc_{there}"));
            let name = format!("back_from {from}");
            if !refused.contains(&name) {
                let (table, to) = (self.evolved.name.clone(), there.to_string());
                self.push(&name, TargetSchemaChange::RenameColumn { table, from, to });
            }
        }
    }

    /// A column of this name that nobody feeds goes, for the step that wants the name.
    fn make_room(&mut self, column: &str, fed: &[Option<Arc<str>>], name: &str) {
        let Some(there) = self.evolved.column(column).map(|c| c.name.clone()) else { return };
        if !self.is_shared(&there)
            && !fed.iter().flatten().any(|f| same_name(f, &there))
            && !self.evolved.is_key(&there)
        {
            self.drop_column(&there, name);
        }
    }

    /// A column that was not there; gives back the target's column that it feeds. `reads`: the same, with the default that rows which are
    /// there read at the source.
    fn add(
        &mut self,
        column: &Column,
        reads: &Column,
        taken: &[Arc<str>],
        again: bool,
    ) -> Result<Option<Arc<str>>> {
        let name = format!("add_column {}", column.name);
        let wanted = self.act("add_column", &name)?;
        let is_taken = taken.iter().any(|t| same_name(t, &column.name));
        if !wanted || is_taken {
            if again
                && !is_taken
                && let Some(there) = self.evolved.column(&column.name).filter(|t| is_fed_again(t, column))
            {
                return Ok(Some(there.name.clone()));
            }
            self.left.push(format!("column \"{}\" is not written", column.name));
            return Ok(None);
        }
        let table = self.evolved.name.clone();
        let has_default =
            reads.default.as_ref().is_some_and(|d| !d.eq_ignore_ascii_case("null")) || !column.nullable;
        if self.is_shared(&column.name) {
            let Some(there) = self.evolved.column(&column.name).cloned() else { return Ok(None) };
            let ty = common_or_text(&there.ty, &column.ty, self.mode)
                .ok_or_else(|| no_common(&table, &there, &self.source(), column))?;
            if !same_type(&ty, &there.ty) {
                if let Some(there) = self.evolved.column_mut(&column.name) {
                    there.ty = ty.clone();
                }
                let (column, was) = (there.name.to_string(), Some(there.ty.clone()));
                self.push(
                    &name,
                    TargetSchemaChange::AlterColumnType { table: table.clone(), column, ty: ty.clone(), was },
                );
            }
            // rows of its own that read NULL have had no value there, and are not changed where they cannot be told from others
            let changes = has_default || !matches!(self.question.share, Share::Untold(_));
            if !again && changes {
                let only = self.only()?;
                let column = Column { name: there.name.clone(), ty, ..reads.clone() };
                self.push(
                    &name,
                    TargetSchemaChange::ResetColumn { table, implicit: !column.nullable, column, only },
                );
            }
            return Ok(Some(there.name));
        }
        self.make_room(&column.name, &[], &name);
        let new = for_target(self.mode, column);
        if !self.has_others() {
            let keeps_default = new.default.is_some();
            self.evolved.columns.push(new);
            self.push(
                &name,
                TargetSchemaChange::AddColumn {
                    table,
                    implicit: !column.nullable,
                    column: for_target(self.mode, reads),
                    keeps_default,
                },
            );
            return Ok(Some(column.name.clone()));
        }
        // rows of other tables have nothing there
        let new = Column { nullable: true, default: None, ..new };
        self.evolved.columns.push(new.clone());
        self.push(
            &name,
            TargetSchemaChange::AddColumn {
                table: table.clone(),
                column: new,
                implicit: false,
                keeps_default: false,
            },
        );
        if has_default && !again {
            let only = self.only()?;
            self.push(
                &name,
                TargetSchemaChange::ResetColumn {
                    table,
                    implicit: !column.nullable,
                    column: reads.clone(),
                    only,
                },
            );
        }
        Ok(Some(column.name.clone()))
    }

    fn nullability(&mut self, old: &[Column], new: &[Column], pairs: &[Option<usize>]) -> Result<()> {
        let changes = self.question.changes;
        if !changes.iter().any(|c| matches!(c, SchemaChange::AlterNullability { .. })) {
            return Ok(());
        }
        for (k, j) in pairs.iter().enumerate().filter_map(|(k, pair)| pair.map(|j| (k, j))) {
            if old[j].nullable == new[k].nullable {
                continue;
            }
            let fed = self.evolved.feeds[self.feed].columns.get(k).and_then(|f| f.target.clone());
            let Some(there) = fed else { continue };
            let name = format!("alter_nullability {}", new[k].name);
            if !self.act("alter_nullability", &name)? {
                continue;
            }
            let shared = self.is_shared(&there);
            let table = self.evolved.name.clone();
            let Some(at) = self.evolved.column_mut(&there) else { continue };
            let nullable =
                new[k].nullable || self.mode == SchemaChangeMode::Lenient || (shared && at.nullable);
            at.nullable = nullable;
            self.push(
                &name,
                TargetSchemaChange::AlterNullability { table, column: there.to_string(), nullable },
            );
        }
        Ok(())
    }

    /// The change of the key, if its columns are others; a column that only has another type or name is altered as any
    /// other is.
    fn key(&mut self, before: &TargetTable, after: &TargetTable) -> Result<()> {
        let feed = &self.evolved.feeds[self.feed];
        let wanted: Vec<Option<Arc<str>>> = after
            .key
            .iter()
            .map(|&i| {
                let name = &after.schema.columns[i].name;
                feed.columns.iter().find(|f| same_name(&f.output, name)).and_then(|f| f.target.clone())
            })
            .collect();
        let same = wanted.len() == self.evolved.key.len()
            && wanted.iter().zip(&self.evolved.key).all(|(a, b)| a.as_ref().is_some_and(|a| same_name(a, b)));
        if same {
            return Ok(());
        }
        let applies = self.question.flow.lets_through("change_primary_key");
        let wanted_mode = self.act("change_primary_key", "change_primary_key")?;
        let columns: Option<Vec<Arc<str>>> = wanted.into_iter().collect();
        let why = match columns {
            Some(columns) if wanted_mode && !self.has_others() => {
                self.evolved.key = columns;
                let table = self.evolved.table(&after.schema.id, after.schema.version);
                self.push("change_primary_key", TargetSchemaChange::ChangeKey { table });
                return Ok(());
            }
            None => "a column of the new key is not written to the target",
            _ if !applies => {
                "the flow keeps out change_primary_key, and rows would not be found by the key until now"
            }
            _ if self.mode == SchemaChangeMode::Ignore => {
                "on_schema_change = ignore, and rows would not be found by the key until now"
            }
            _ if self.mode == SchemaChangeMode::TryEvolve && !wanted_mode => {
                "the target has refused the change, and rows would not be found by the key until now"
            }
            _ => "other tables flow into it, whose rows have the key until now",
        };
        Err(Error::definite(
            codes::KEY_CHANGED,
            format!("the key of target table \"{}\" changes", self.evolved.name),
        )
        .note(format!("until now: {}", key_text(before)))
        .note(format!("from now on: {}", key_text(after)))
        .note(why)
        .help(
            "name the columns that tell rows apart in the flow: => target key (..); then copy the table anew",
        ))
    }
}

/// For each column that the flow gives out behind the statement: the one that it was in front of it.
fn pairs(changes: &[SchemaChange], before: &BoundFlow, after: &BoundFlow) -> Vec<Option<usize>> {
    let lineage = lineage(changes, before.source(), after.source());
    let (old, new) = (&before.target().schema.columns, &after.target().schema.columns);
    // where it comes from, in terms of the table before
    let from_old: Vec<Option<usize>> = before.passthrough().to_vec();
    let mut used = vec![false; old.len()];
    let mut pairs: Vec<Option<usize>> = vec![None; new.len()];
    let is_same = |k: usize, j: usize| match (after.passthrough()[k], from_old[j]) {
        (Some(now), Some(then)) => lineage.get(now).copied().flatten() == Some(then),
        (None, None) => same_name(&new[k].name, &old[j].name),
        _ => false,
    };
    // several outputs may come from one column: those that keep their names first
    for by_name in [true, false] {
        for k in 0..new.len() {
            if pairs[k].is_some() {
                continue;
            }
            let found = (0..old.len())
                .find(|&j| !used[j] && is_same(k, j) && (!by_name || same_name(&new[k].name, &old[j].name)));
            if let Some(j) = found {
                used[j] = true;
                pairs[k] = Some(j);
            }
        }
    }
    pairs
}

/// For each column of the source table behind a statement: which it was in front of it; `None` for a new one.
pub(crate) fn lineage(
    changes: &[SchemaChange],
    before: &TableSchema,
    after: &TableSchema,
) -> Vec<Option<usize>> {
    let mut now: Vec<(Arc<str>, Option<usize>)> =
        before.columns.iter().enumerate().map(|(i, c)| (c.name.clone(), Some(i))).collect();
    for change in changes {
        match change {
            SchemaChange::DropColumn { column, .. } => now.retain(|(name, _)| !same_name(name, column)),
            SchemaChange::RenameColumn { column, to, .. } => {
                for (name, _) in now.iter_mut().filter(|(name, _)| same_name(name, column)) {
                    *name = to.clone();
                }
            }
            // one that is there still is the same: a change told twice
            SchemaChange::AddColumn { column, .. }
                if !now.iter().any(|(name, _)| same_name(name, &column.name)) =>
            {
                now.push((column.name.clone(), None));
            }
            _ => {}
        }
    }
    after
        .columns
        .iter()
        .map(|c| now.iter().find(|(name, _)| same_name(name, &c.name)).and_then(|(_, from)| *from))
        .collect()
}

fn for_target(mode: SchemaChangeMode, column: &Column) -> Column {
    let mut column = column.clone();
    if mode == SchemaChangeMode::Lenient {
        column.nullable = true;
    }
    column
}

fn key_text(table: &TargetTable) -> String {
    let columns: Vec<String> = table
        .key
        .iter()
        .map(|&i| format!("{} {}", table.schema.columns[i].name, table.schema.columns[i].ty))
        .collect();
    if columns.is_empty() { "none".to_owned() } else { columns.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::plan::pattern::{NamePattern, TablePattern};
    use cdc_core::plan::{KeyConflict, TargetName};
    use cdc_core::schema::{Charset, ColumnType, IntWidth, TableId, TableSchema};
    use cdc_core::schema_change::ColumnPosition;
    use std::collections::BTreeMap;

    fn int() -> ColumnType {
        ColumnType::Int { width: IntWidth::Int, unsigned: false }
    }

    fn schema() -> TableSchema {
        TableSchema {
            id: TableId::new("shop", "items"),
            version: 1,
            columns: vec![Column::new("id", int()).not_null(), Column::new("amount", int())],
            primary_key: vec![0],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        }
    }

    fn flow(mode: SchemaChangeMode) -> FlowPlan {
        FlowPlan {
            name: "f".into(),
            source: "src".into(),
            tables: TablePattern { database: None, table: NamePattern::glob("*") },
            ops: vec![],
            sink: "dw".into(),
            target: TargetName::SameAsSource,
            key: None,
            on_schema_change: mode,
            include: vec![],
            exclude: vec![],
            backfill: true,
            soft_delete: None,
            view: None,
            upsert: Default::default(),
            on_conflict: Default::default(),
            key_conflict: KeyConflict::Refuse,
            span: 0..0,
        }
    }

    fn bound(flow: &FlowPlan, schema: &TableSchema) -> BoundFlow {
        BoundFlow::bind(flow, &Arc::new(schema.clone())).unwrap()
    }

    fn ask(
        flow: &FlowPlan,
        changes: &[SchemaChange],
        before: Option<&TableSchema>,
        after: Option<&TableSchema>,
        share: &Share,
        evolved: Option<&Evolved>,
    ) -> Result<Derived> {
        let (before, after) = (before.map(|s| bound(flow, s)), after.map(|s| bound(flow, s)));
        derive(&Question {
            flow,
            changes,
            before: before.as_ref(),
            after: after.as_ref(),
            share,
            evolved,
            taken: None,
            gone: None,
            refused: &BTreeSet::new(),
        })
    }

    /// A table takes the name that another one had, whose target table could not go along.
    #[test]
    fn a_table_that_meets_one_whose_rename_was_left_out_is_told_so() {
        let f = flow(SchemaChangeMode::TryEvolve);
        let renamed = TableSchema { id: TableId::new("shop", "moved"), ..schema() };
        let mut there = Evolved::of(bound(&f, &renamed).target());
        there.name = "items".into();
        let create = [SchemaChange::CreateTable { schema: Arc::new(schema()) }];
        let error = ask(&f, &create, None, Some(&schema()), &Share::Alone, Some(&there)).unwrap_err();
        assert_eq!(error.code(), codes::TARGET_COLLISION);
        for words in ["\"shop.moved\" was renamed", "the target has refused it", "has the name \"moved\""] {
            assert!(error.to_string().contains(words), "{error}");
        }
        // of one that stands under its own name there is nothing of the kind to say
        let mut there = Evolved::of(bound(&f, &schema()).target());
        there.feeds[0].table = TableId::new("other", "items");
        let error = ask(&f, &create, None, Some(&schema()), &Share::Alone, Some(&there)).unwrap_err();
        assert!(!error.to_string().contains("renamed"), "{error}");
    }

    fn made(derived: Derived) -> Vec<TargetSchemaChange> {
        derived.steps.into_iter().map(|s| s.change).collect()
    }

    fn run(flow: &FlowPlan, changes: &[SchemaChange]) -> Result<Vec<TargetSchemaChange>> {
        let before = schema();
        let after = changes.iter().try_fold(before.clone(), |s, c| c.apply_to(&s))?;
        ask(flow, changes, Some(&before), Some(&after), &Share::Alone, None).map(made)
    }

    /// The evolved schema of `schema()` with another table beside it.
    fn shared() -> Evolved {
        let mut other = schema();
        other.id = TableId::new("shop", "others");
        let mut evolved = Evolved::of(bound(&flow(SchemaChangeMode::Evolve), &schema()).target());
        let mut table = TargetTable::clone(bound(&flow(SchemaChangeMode::Evolve), &other).target());
        table.name = "items".into();
        evolved.join(&table, SchemaChangeMode::Evolve).unwrap();
        evolved
    }

    fn id() -> TableId {
        TableId::new("shop", "items")
    }

    #[test]
    fn an_added_column_is_appended_and_nullable_in_lenient_mode_and_as_it_is_in_evolve() {
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("note", int()).not_null(),
            position: ColumnPosition::First,
        };
        for (mode, nullable) in [(SchemaChangeMode::Lenient, true), (SchemaChangeMode::Evolve, false)] {
            let out = run(&flow(mode), std::slice::from_ref(&add)).unwrap();
            let [TargetSchemaChange::AddColumn { column, implicit, .. }] = &out[..] else {
                panic!("{out:?}")
            };
            assert_eq!(column.nullable, nullable);
            // rows that are there read 0, not NULL
            assert!(implicit);
        }
        let error = run(&flow(SchemaChangeMode::Exception), &[add]).unwrap_err();
        assert_eq!(error.code(), codes::SCHEMA_CHANGE_REFUSED);
    }

    #[test]
    fn defaults_and_comments_follow_as_the_mode_and_the_kinds_say() {
        let changes = [
            SchemaChange::AlterColumnDefault {
                table: id(),
                column: "amount".into(),
                default: Some("7".into()),
            },
            SchemaChange::AlterColumnAttributes {
                table: id(),
                column: Column {
                    default: Some("7".into()),
                    comment: "how many".into(),
                    ..Column::new("amount", int())
                },
            },
            SchemaChange::AlterTableComment { table: id(), comment: "of the shop".into() },
        ];
        let told = |out: &[TargetSchemaChange]| -> Vec<String> {
            out.iter()
                .map(|change| match change {
                    TargetSchemaChange::AlterColumnDefault { column, .. } => {
                        format!("{} {:?}", column.name, column.default)
                    }
                    TargetSchemaChange::AlterComment { column, comment, .. } => {
                        format!("{column:?} {comment}")
                    }
                    other => format!("{other:?}"),
                })
                .collect()
        };
        let default = "amount Some(\"7\")";
        let comments = ["None of the shop", "Some(\"amount\") how many"];
        for mode in [SchemaChangeMode::Evolve, SchemaChangeMode::Lenient, SchemaChangeMode::TryEvolve] {
            let out = run(&flow(mode), &changes).unwrap();
            assert_eq!(told(&out), [default, comments[0], comments[1]], "{mode:?}");
        }
        for (kind, wanted) in [("alter_column_default", &comments[..]), ("alter_comment", &[default][..])] {
            let excluded = FlowPlan { exclude: vec![kind.into()], ..flow(SchemaChangeMode::Evolve) };
            assert_eq!(told(&run(&excluded, &changes).unwrap()), wanted, "exclude {kind}");
            let other = if kind == "alter_comment" { "alter_column_default" } else { "alter_comment" };
            let included = FlowPlan { include: vec![other.into()], ..flow(SchemaChangeMode::Evolve) };
            assert_eq!(told(&run(&included, &changes).unwrap()), wanted, "include {other}");
        }
        assert!(run(&flow(SchemaChangeMode::Ignore), &changes).unwrap().is_empty());
        for one in &changes {
            let one = std::slice::from_ref(one);
            let error = run(&flow(SchemaChangeMode::Exception), one).unwrap_err();
            assert_eq!(error.code(), codes::SCHEMA_CHANGE_REFUSED);
        }
        // a target that has refused one of them is not asked again
        let after = changes.iter().try_fold(schema(), |s, c| c.apply_to(&s)).unwrap();
        let f = flow(SchemaChangeMode::TryEvolve);
        let (before, after) = (bound(&f, &schema()), bound(&f, &after));
        let refused = BTreeSet::from(["alter_column_default amount".to_owned()]);
        let derived = derive(&Question {
            flow: &f,
            changes: &changes,
            before: Some(&before),
            after: Some(&after),
            share: &Share::Alone,
            evolved: None,
            taken: None,
            gone: None,
            refused: &refused,
        })
        .unwrap();
        assert_eq!(derived.evolved.as_ref().unwrap().columns[1].default, None);
        assert_eq!(told(&made(derived)), comments);
    }

    #[test]
    fn rows_to_come_read_no_default_of_a_column_that_is_not_fed() {
        let mut before = schema();
        before.columns[1].default = Some("7".into());
        let drop = SchemaChange::DropColumn { table: id(), column: "amount".into() };
        let after = drop.apply_to(&before).unwrap();
        let asked = |f: &FlowPlan, evolved: Option<&Evolved>| {
            ask(f, std::slice::from_ref(&drop), Some(&before), Some(&after), &Share::Alone, evolved).unwrap()
        };
        let none = |out: &[TargetSchemaChange]| {
            matches!(out, [TargetSchemaChange::AlterColumnDefault { column, .. }]
                if &*column.name == "amount" && column.default.is_none())
        };
        let derived = asked(&flow(SchemaChangeMode::Lenient), None);
        assert!(none(&made(derived.clone())), "{derived:?}");
        assert_eq!(derived.evolved.unwrap().columns[1].default, None);
        let excluded = FlowPlan { exclude: vec!["drop_column".into()], ..flow(SchemaChangeMode::Evolve) };
        assert!(none(&made(asked(&excluded, None))));
        // a target that has never had any is not altered
        assert!(made(asked(&flow(SchemaChangeMode::Ignore), None)).is_empty());
        // another table that comes into it has no value for some of the columns
        let evolved = Evolved::of(bound(&flow(SchemaChangeMode::Evolve), &before).target());
        let mut other = schema();
        other.id = TableId::new("shop", "others");
        let f = FlowPlan {
            key_conflict: cdc_core::plan::KeyConflict::Last,
            target: TargetName::Fixed("items".into()),
            ..flow(SchemaChangeMode::Evolve)
        };
        let create = [SchemaChange::CreateTable { schema: Arc::new(other.clone()) }];
        let share = Share::Untold(vec![id()]);
        let derived = ask(&f, &create, None, Some(&other), &share, Some(&evolved)).unwrap();
        assert!(derived.evolved.as_ref().unwrap().columns.iter().all(|c| c.default.is_none()));
        assert!(none(&made(derived.clone())), "{derived:?}");
    }

    #[test]
    fn a_table_that_is_gone_and_was_never_known_goes_where_drops_are_followed() {
        let changes = [SchemaChange::DropTable { table: id() }];
        let asked = |f: &FlowPlan, evolved: Option<&Evolved>, refused: &BTreeSet<String>| {
            let question = Question {
                flow: f,
                changes: &changes,
                before: None,
                after: None,
                share: &Share::Alone,
                evolved,
                taken: None,
                gone: Some("items"),
                refused,
            };
            made(derive(&question).unwrap())
        };
        let none = BTreeSet::new();
        let drop = [TargetSchemaChange::DropTable { table: "items".into() }];
        for (mode, goes) in [
            (SchemaChangeMode::Evolve, true),
            (SchemaChangeMode::TryEvolve, true),
            (SchemaChangeMode::Lenient, false),
            (SchemaChangeMode::Ignore, false),
            (SchemaChangeMode::Exception, false),
        ] {
            let wanted = if goes { &drop[..] } else { &[] };
            assert_eq!(asked(&flow(mode), None, &none), wanted, "{mode:?}");
            // another table's, or left behind knowingly
            assert!(asked(&flow(mode), Some(&shared()), &none).is_empty());
        }
        let asked_for = FlowPlan { include: vec!["drop_table".into()], ..flow(SchemaChangeMode::Lenient) };
        assert_eq!(asked(&asked_for, None, &none), drop);
        let kept = FlowPlan { exclude: vec!["drop_table".into()], ..flow(SchemaChangeMode::Evolve) };
        assert!(asked(&kept, None, &none).is_empty());
        let refused = BTreeSet::from(["drop_table".to_owned()]);
        assert!(asked(&flow(SchemaChangeMode::TryEvolve), None, &refused).is_empty());
    }

    #[test]
    fn a_change_of_the_type_sets_the_default_anew() {
        let mut before = schema();
        before.columns[1].default = Some("7".into());
        let ty = ColumnType::Int { width: IntWidth::Big, unsigned: false };
        let alter =
            SchemaChange::AlterColumnType { table: id(), column: "amount".into(), ty, position: None };
        let after = alter.apply_to(&before).unwrap();
        let f = flow(SchemaChangeMode::Evolve);
        let derived = ask(&f, &[alter], Some(&before), Some(&after), &Share::Alone, None).unwrap();
        let names: Vec<&str> = derived.steps.iter().map(|s| &*s.name).collect();
        assert_eq!(names, ["alter_column_type amount"; 2]);
        let [_, TargetSchemaChange::AlterColumnDefault { column, .. }] = &made(derived)[..] else { panic!() };
        assert_eq!((column.default.as_deref(), column.ty.to_string()), (Some("7"), "bigint".to_owned()));
    }

    #[test]
    fn lenient_keeps_dropped_and_renamed_columns() {
        let lenient = flow(SchemaChangeMode::Lenient);
        let drop = SchemaChange::DropColumn { table: id(), column: "amount".into() };
        assert_eq!(run(&lenient, std::slice::from_ref(&drop)).unwrap(), []);
        let out = run(&flow(SchemaChangeMode::Evolve), &[drop]).unwrap();
        assert_eq!(out, [TargetSchemaChange::DropColumn { table: "items".into(), column: "amount".into() }]);
        let rename = SchemaChange::RenameColumn { table: id(), column: "amount".into(), to: "sum".into() };
        let out = run(&lenient, &[rename]).unwrap();
        assert!(matches!(
            &out[..],
            [TargetSchemaChange::AddColumn { .. }, TargetSchemaChange::FillColumn { from, to, .. }]
                if from == "amount" && to == "sum"
        ));
    }

    #[test]
    fn a_column_of_its_own_leaves_other_new_names_alone() {
        let ty = ColumnType::Date;
        let changes = [
            SchemaChange::AlterColumnType { table: id(), column: "amount".into(), ty, position: None },
            SchemaChange::AddColumn {
                table: id(),
                column: Column::new("amount_2", int()),
                position: ColumnPosition::Last,
            },
        ];
        let out = run(&flow(SchemaChangeMode::Lenient), &changes).unwrap();
        let added: Vec<String> = out
            .iter()
            .filter_map(|change| match change {
                TargetSchemaChange::AddColumn { column, .. } => {
                    Some(format!("{} {}", column.name, column.ty))
                }
                _ => None,
            })
            .collect();
        assert_eq!(added, ["amount_3 date", "amount_2 int"]);
    }

    /// `CHANGE d f .., CHANGE f d ..`: the names cross, and neither type holds the new values.
    #[test]
    fn columns_that_cross_names_get_their_new_types_in_lenient_mode() {
        let mut before = schema();
        before.columns.push(Column::new("d", ColumnType::Date));
        let rename = |column: &str, to: &str| SchemaChange::RenameColumn {
            table: id(),
            column: column.into(),
            to: to.into(),
        };
        let alter = |column: &str, ty: ColumnType| SchemaChange::AlterColumnType {
            table: id(),
            column: column.into(),
            ty,
            position: None,
        };
        let bytes = ColumnType::VarBinary { length: 9 };
        let changes = [
            rename("d", "aside"),
            rename("amount", "d"),
            rename("aside", "amount"),
            alter("amount", bytes.clone()),
            alter("d", ColumnType::Json),
        ];
        let after = changes.iter().try_fold(before.clone(), |s, c| c.apply_to(&s)).unwrap();
        let f = flow(SchemaChangeMode::Lenient);
        let derived = ask(&f, &changes, Some(&before), Some(&after), &Share::Alone, None).unwrap();
        let evolved = derived.evolved.unwrap();
        assert_eq!(evolved.columns.len(), 3);
        assert_eq!(evolved.column("amount").unwrap().ty, bytes);
        assert_eq!(evolved.column("d").unwrap().ty, ColumnType::Json);
    }

    #[test]
    fn excluded_kinds_are_left_alone() {
        let mut f = flow(SchemaChangeMode::Evolve);
        f.exclude = vec!["drop_column".into()];
        let drop = SchemaChange::DropColumn { table: id(), column: "amount".into() };
        assert_eq!(run(&f, &[drop]).unwrap(), []);
    }

    #[test]
    fn a_key_of_another_type_is_altered_and_another_key_is_made_where_it_can_be() {
        let evolve = flow(SchemaChangeMode::Evolve);
        let alter = SchemaChange::AlterColumnType {
            table: id(),
            column: "id".into(),
            ty: ColumnType::Int { width: IntWidth::Big, unsigned: false },
            position: None,
        };
        let out = run(&evolve, std::slice::from_ref(&alter)).unwrap();
        assert!(matches!(&out[..], [TargetSchemaChange::AlterColumnType { column, .. }] if column == "id"));
        let key = SchemaChange::ChangePrimaryKey { table: id(), columns: vec!["amount".into(), "id".into()] };
        for mode in [SchemaChangeMode::Evolve, SchemaChangeMode::Lenient] {
            let out = run(&flow(mode), std::slice::from_ref(&key)).unwrap();
            assert!(matches!(&out[..], [TargetSchemaChange::ChangeKey { table }] if table.key == [1, 0]));
        }
        let refused = run(&flow(SchemaChangeMode::Exception), std::slice::from_ref(&key)).unwrap_err();
        assert_eq!(refused.code(), codes::SCHEMA_CHANGE_REFUSED);
        let mut out = flow(SchemaChangeMode::Evolve);
        out.exclude = vec!["change_primary_key".into()];
        assert_eq!(run(&out, std::slice::from_ref(&key)).unwrap_err().code(), codes::KEY_CHANGED);
        let (before, after) = (schema(), key.apply_to(&schema()).unwrap());
        let untold = Share::Untold(vec![TableId::new("shop", "others")]);
        let beside = ask(&evolve, &[key], Some(&before), Some(&after), &untold, Some(&shared()));
        assert_eq!(beside.unwrap_err().code(), codes::KEY_CHANGED);
    }

    fn again() -> SchemaChange {
        SchemaChange::ResnapshotTable { table: id(), reason: "it has no key".into() }
    }

    fn rows_go(only: Vec<(Column, Row)>, again: bool) -> TargetSchemaChange {
        TargetSchemaChange::RemoveRows { table: "items".into(), source: id(), only, again }
    }

    #[test]
    fn a_table_that_is_copied_again_is_emptied_in_every_mode_at_its_place() {
        for (mode, _) in SchemaChangeMode::ALL {
            let mut f = flow(mode);
            f.include = vec!["add_column".into()];
            f.exclude = vec!["truncate_table".into()];
            assert_eq!(run(&f, &[again()]).unwrap(), [rows_go(vec![], true)], "{mode:?}");
        }
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("note", int()),
            position: ColumnPosition::Last,
        };
        let out = run(&flow(SchemaChangeMode::Lenient), &[add, again()]).unwrap();
        assert!(
            matches!(&out[..], [first, TargetSchemaChange::AddColumn { .. }] if *first == rows_go(vec![], true))
        );
        // and one that comes into the set with rows nobody has seen
        let lenient = flow(SchemaChangeMode::Lenient);
        let out = ask(&lenient, &[again()], None, Some(&schema()), &Share::Alone, None).map(made).unwrap();
        let table = bound(&lenient, &schema()).target().clone();
        // what may be there of a table that nobody feeds goes
        let old = TargetSchemaChange::DropTable { table: table.name.clone() };
        assert_eq!(out, [old, TargetSchemaChange::CreateTable { table }, rows_go(vec![], true)]);
    }

    #[test]
    fn rows_that_are_to_stay_are_marked_where_others_would_go() {
        let mut soft = flow(SchemaChangeMode::Evolve);
        soft.soft_delete = Some("deleted".into());
        let marked = |out: &[TargetSchemaChange]| matches!(out, [TargetSchemaChange::ResetColumn { column, .. }] if &*column.name == "deleted" && column.default.as_deref() == Some("1"));
        let truncate = SchemaChange::TruncateTable { table: id() };
        for change in [truncate, again()] {
            let out = run(&soft, &[change]).unwrap();
            assert!(marked(&out), "{out:?}");
        }
        let drop = SchemaChange::DropTable { table: id() };
        let out = ask(&soft, &[drop], Some(&schema()), None, &Share::Alone, None).unwrap();
        assert!(out.evolved.as_ref().is_some_and(|e| e.feeds.is_empty() && e.column("deleted").is_some()));
        assert!(marked(&made(out)));
    }

    #[test]
    fn of_a_shared_target_only_rows_of_the_source_go() {
        let table = schema();
        let truncate = SchemaChange::TruncateTable { table: id() };
        let drop = SchemaChange::DropTable { table: id() };
        let evolve = flow(SchemaChangeMode::Evolve);
        let only = vec![(Column::new("shard", int()), Row::pack([cdc_core::Value::Int(1)]))];
        let told = Share::Told(only.clone());
        let untold = Share::Untold(vec![TableId::new("shop", "others")]);
        for (change, after, comes) in
            [(again(), Some(&table), true), (truncate, Some(&table), false), (drop, None, false)]
        {
            let changes = std::slice::from_ref(&change);
            let out = ask(&evolve, changes, Some(&table), after, &told, Some(&shared())).map(made).unwrap();
            assert_eq!(out, [rows_go(only.clone(), comes)]);
            let error = ask(&evolve, changes, Some(&table), after, &untold, Some(&shared())).unwrap_err();
            assert_eq!(error.code(), codes::TARGET_COLLISION);
            let text = error.to_string();
            assert!(text.contains("\"shop.items\"") && text.contains("\"shop.others\""), "{text}");
        }
        // what lenient leaves alone it need not tell apart
        let truncate = [SchemaChange::TruncateTable { table: id() }];
        let lenient = flow(SchemaChangeMode::Lenient);
        let out = ask(&lenient, &truncate, Some(&table), Some(&table), &untold, Some(&shared()));
        assert_eq!(out.map(made).unwrap(), []);
    }

    #[test]
    fn a_table_without_key_keeps_its_shape_changes_and_gets_a_key() {
        let mut keyless = schema();
        keyless.primary_key.clear();
        let before = keyless.clone();
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("note", int()),
            position: ColumnPosition::Last,
        };
        let evolve = flow(SchemaChangeMode::Evolve);
        let after = add.apply_to(&keyless).unwrap();
        let out = ask(&evolve, &[add], Some(&before), Some(&after), &Share::Alone, None).map(made).unwrap();
        assert!(matches!(&out[..], [TargetSchemaChange::AddColumn { .. }]));
        let key = SchemaChange::ChangePrimaryKey { table: id(), columns: vec!["id".into()] };
        let out =
            ask(&evolve, &[key], Some(&before), Some(&schema()), &Share::Alone, None).map(made).unwrap();
        assert!(matches!(&out[..], [TargetSchemaChange::ChangeKey { table }] if table.key == [0]));
    }

    fn members() -> TableSchema {
        let name = ColumnType::VarChar { length: 17, charset: Charset::utf8mb4() };
        TableSchema {
            id: id(),
            columns: vec![
                Column::new("id", int()).not_null(),
                Column::new("name", name),
                Column::new("age", int()),
            ],
            ..schema()
        }
    }

    /// The statements of section F of the cases.
    fn statements() -> Vec<Vec<SchemaChange>> {
        let double = ColumnType::Double { unsigned: false };
        let gender = Column::new("gender", ColumnType::Int { width: IntWidth::Tiny, unsigned: false });
        vec![
            vec![SchemaChange::AddColumn {
                table: id(),
                column: gender,
                position: ColumnPosition::After("age".into()),
            }],
            vec![
                SchemaChange::AlterColumnType {
                    table: id(),
                    column: "age".into(),
                    ty: double,
                    position: None,
                },
                SchemaChange::RenameColumn { table: id(), column: "age".into(), to: "precise_age".into() },
            ],
            vec![SchemaChange::RenameColumn {
                table: id(),
                column: "gender".into(),
                to: "biological_sex".into(),
            }],
            vec![SchemaChange::DropColumn { table: id(), column: "biological_sex".into() }],
        ]
    }

    /// A table through statements: what the target has in the end, what it was told to do, and the source's own shape.
    fn follow(
        flow: &FlowPlan,
        start: &TableSchema,
        statements: &[Vec<SchemaChange>],
    ) -> (Evolved, Vec<TargetSchemaChange>, TableSchema) {
        let mut now = start.clone();
        let mut evolved = Evolved::of(bound(flow, &now).target());
        let mut all = Vec::new();
        for changes in statements {
            let after = changes.iter().try_fold(now.clone(), |s, c| c.apply_to(&s)).unwrap();
            let derived =
                ask(flow, changes, Some(&now), Some(&after), &Share::Alone, Some(&evolved)).unwrap();
            evolved = derived.evolved.clone().unwrap();
            all.extend(made(derived));
            now = after;
        }
        (evolved, all, now)
    }

    fn shape(evolved: &Evolved) -> String {
        let columns: Vec<String> = evolved.columns.iter().map(|c| format!("{} {}", c.name, c.ty)).collect();
        columns.join(", ")
    }

    #[test]
    fn case_49_each_mode_and_what_its_target_has() {
        for (mode, has, fed) in [
            (SchemaChangeMode::Evolve, "id int, name varchar(17), precise_age double", "id name precise_age"),
            (
                SchemaChangeMode::TryEvolve,
                "id int, name varchar(17), precise_age double",
                "id name precise_age",
            ),
            (SchemaChangeMode::Ignore, "id int, name varchar(17), age int", "id name -"),
        ] {
            let (evolved, _, now) = follow(&flow(mode), &members(), &statements());
            assert_eq!(shape(&evolved), has, "{mode:?}");
            let feed: Vec<&str> =
                evolved.feeds[0].columns.iter().map(|f| f.target.as_deref().unwrap_or("-")).collect();
            assert_eq!(feed.join(" "), fed, "{mode:?}");
            let coercion = evolved.coercion(bound(&flow(mode), &now).target()).unwrap();
            let row = Row::pack([
                cdc_core::Value::Int(1013),
                cdc_core::Value::Text("Fiona".into()),
                cdc_core::Value::Double(16.0),
            ]);
            match mode {
                // age keeps out of what is written: a new row reads NULL there
                SchemaChangeMode::Ignore => {
                    assert_eq!(coercion.unwrap().row(&row).unwrap().len(), 2);
                }
                _ => assert!(coercion.is_none()),
            }
        }
    }

    #[test]
    fn case_49_what_a_target_refuses_is_left_out_and_rows_are_made_to_fit() {
        let try_evolve = flow(SchemaChangeMode::TryEvolve);
        let (before, changes) = (members(), &statements()[1]);
        let after = changes.iter().try_fold(before.clone(), |s, c| c.apply_to(&s)).unwrap();
        let (b, a) = (bound(&try_evolve, &before), bound(&try_evolve, &after));
        let refused: BTreeSet<String> =
            ["alter_column_type precise_age", "rename_column age"].map(String::from).into();
        let question = Question {
            flow: &try_evolve,
            changes,
            before: Some(&b),
            after: Some(&a),
            share: &Share::Alone,
            evolved: None,
            taken: None,
            gone: None,
            refused: &refused,
        };
        let derived = derive(&question).unwrap();
        assert_eq!(derived.steps, []);
        assert!(!derived.left.is_empty());
        assert_eq!(shape(&derived.evolved.unwrap()), "id int, name varchar(17), age int");
        // the type alone: values go on, converted where they fit
        let refused: BTreeSet<String> = ["alter_column_type precise_age".to_owned()].into();
        let derived = derive(&Question { refused: &refused, ..question }).unwrap();
        let evolved = derived.evolved.unwrap();
        assert_eq!(shape(&evolved), "id int, name varchar(17), precise_age int");
        let coercion = evolved.coercion(a.target()).unwrap().unwrap();
        let row = |age: f64| {
            Row::pack([cdc_core::Value::Int(1), cdc_core::Value::Null, cdc_core::Value::Double(age)])
        };
        assert_eq!(coercion.row(&row(16.0)).unwrap().get(2), cdc_core::Value::Int(16));
        let error = coercion.row(&row(16.5)).unwrap_err().to_string();
        assert!(
            error.contains("precise_age") && error.contains("16.5") && error.contains("id = 1"),
            "{error}"
        );
    }

    #[test]
    fn case_50_lenient_keeps_every_column_and_fills_the_new_ones() {
        let lenient = flow(SchemaChangeMode::Lenient);
        let (evolved, all, _) = follow(&lenient, &members(), &statements());
        assert_eq!(
            shape(&evolved),
            "id int, name varchar(17), age double, gender tinyint, precise_age double, biological_sex tinyint"
        );
        let fills = |all: &[TargetSchemaChange]| {
            all.iter().filter(|c| matches!(c, TargetSchemaChange::FillColumn { .. })).count()
        };
        assert_eq!(fills(&all), 2);
        let without = FlowPlan { backfill: false, ..lenient };
        let (same, all, _) = follow(&without, &members(), &statements());
        assert_eq!((shape(&same), fills(&all)), (shape(&evolved), 0));
    }

    #[test]
    fn case_51_a_not_null_column_that_lenient_keeps_becomes_nullable() {
        let mut table = members();
        table.columns[2].nullable = false;
        let drop = vec![SchemaChange::DropColumn { table: id(), column: "age".into() }];
        let (evolved, all, _) = follow(&flow(SchemaChangeMode::Lenient), &table, &[drop]);
        assert!(
            matches!(&all[..], [TargetSchemaChange::AlterNullability { column, nullable: true, .. }] if column == "age")
        );
        assert!(evolved.column("age").unwrap().nullable);
    }

    /// A name that comes back, in a later statement, is another column: the old one's values are not the source's.
    #[test]
    fn a_column_that_lenient_kept_goes_when_its_name_is_given_to_another() {
        let drop = SchemaChange::DropColumn { table: id(), column: "age".into() };
        let add = SchemaChange::AddColumn {
            table: id(),
            column: Column::new("age", int()),
            position: ColumnPosition::Last,
        };
        let rename = SchemaChange::RenameColumn { table: id(), column: "age".into(), to: "years".into() };
        for first in [drop, rename] {
            let statements = [vec![first], vec![add.clone()]];
            let (evolved, all, _) = follow(&flow(SchemaChangeMode::Lenient), &members(), &statements);
            assert!(
                matches!(
                    &all[all.len() - 2..],
                    [TargetSchemaChange::DropColumn { column, .. }, TargetSchemaChange::AddColumn { column: new, .. }]
                        if column == "age" && &*new.name == "age"
                ),
                "{all:?}"
            );
            assert!(evolved.feeds[0].columns.iter().any(|f| f.target.as_deref() == Some("age")));
            // ignore must not give the new column's values to the old one
            let (evolved, all, _) = follow(&flow(SchemaChangeMode::Ignore), &members(), &statements);
            assert_eq!(all, []);
            assert!(evolved.feeds[0].columns.iter().all(|f| f.target.as_deref() != Some("age")));
        }
    }

    /// Copied again, a table feeds what the target has of its columns, not what only has the name.
    #[test]
    fn a_name_of_before_is_not_fed_again_with_what_it_cannot_hold() {
        let ignore = flow(SchemaChangeMode::Ignore);
        let again = || vec![SchemaChange::ResnapshotTable { table: id(), reason: "a test".into() }];
        for (ty, is_fed) in [(ColumnType::Date, false), (ColumnType::Double { unsigned: false }, true)] {
            let drop = vec![SchemaChange::DropColumn { table: id(), column: "age".into() }];
            let position = ColumnPosition::Last;
            let add = vec![SchemaChange::AddColumn { table: id(), column: Column::new("age", ty), position }];
            let both = [add[0].clone(), again()[0].clone()].to_vec();
            for statements in [vec![drop.clone(), add, again()], vec![drop, both]] {
                let (evolved, _, _) = follow(&ignore, &members(), &statements);
                assert_eq!(shape(&evolved), "id int, name varchar(17), age int");
                let fed = evolved.feeds[0].columns.iter().any(|f| f.target.as_deref() == Some("age"));
                assert_eq!(fed, is_fed, "{evolved:?}");
            }
        }
    }

    #[test]
    fn lenient_gives_a_type_with_nothing_in_common_a_column_of_its_own() {
        let alter = vec![SchemaChange::AlterColumnType {
            table: id(),
            column: "name".into(),
            ty: ColumnType::Date,
            position: None,
        }];
        let (evolved, all, _) =
            follow(&flow(SchemaChangeMode::Lenient), &members(), std::slice::from_ref(&alter));
        assert_eq!(shape(&evolved), "id int, name varchar(17), age int, name_2 date");
        assert!(matches!(
            &all[..],
            [TargetSchemaChange::AddColumn { .. }, TargetSchemaChange::FillColumn { .. }]
        ));
        let (evolved, _, _) = follow(&flow(SchemaChangeMode::Evolve), &members(), &[alter]);
        assert_eq!(shape(&evolved), "id int, name date, age int");
    }

    /// Two columns swap their names: the target goes by way of a third one.
    #[test]
    fn names_that_change_hands_are_followed_by_lineage() {
        let rename = |from: &str, to: &str| SchemaChange::RenameColumn {
            table: id(),
            column: from.into(),
            to: to.into(),
        };
        let swap = vec![rename("name", "x"), rename("age", "name"), rename("x", "age")];
        for mode in [SchemaChangeMode::Evolve, SchemaChangeMode::Lenient] {
            let (evolved, all, now) = follow(&flow(mode), &members(), std::slice::from_ref(&swap));
            assert_eq!(shape(&evolved), "id int, age varchar(17), name int");
            assert!(all.iter().all(|c| matches!(c, TargetSchemaChange::RenameColumn { .. })), "{all:?}");
            assert_eq!(all.len(), 3);
            assert!(evolved.coercion(bound(&flow(mode), &now).target()).unwrap().is_none());
        }
    }

    /// What the flow's operators have renamed is followed too.
    #[test]
    fn a_renamed_output_column_follows_its_type() {
        let mut evolve = flow(SchemaChangeMode::Evolve);
        let name = |name: &str| cdc_core::plan::ColumnName { name: name.into(), span: 0..0 };
        evolve.ops = vec![cdc_core::plan::FlowOp::Rename(vec![(name("age"), "years".into())])];
        let alter = vec![SchemaChange::AlterColumnType {
            table: id(),
            column: "age".into(),
            ty: ColumnType::Double { unsigned: false },
            position: None,
        }];
        let (evolved, _, _) = follow(&evolve, &members(), &[alter]);
        assert_eq!(shape(&evolved), "id int, name varchar(17), years double");
    }

    #[test]
    fn case_52_a_shared_target_widens_and_touches_only_rows_of_its_own() {
        let evolve = flow(SchemaChangeMode::Evolve);
        let only = vec![(Column::new("shard", int()), Row::pack([cdc_core::Value::Int(1)]))];
        let told = Share::Told(only.clone());
        let ask_shared = |changes: &[SchemaChange]| {
            let after = changes.iter().try_fold(schema(), |s, c| c.apply_to(&s)).unwrap();
            ask(&evolve, changes, Some(&schema()), Some(&after), &told, Some(&shared())).unwrap()
        };
        let big = ColumnType::Int { width: IntWidth::Big, unsigned: false };
        let alter = |ty: &ColumnType| {
            vec![SchemaChange::AlterColumnType {
                table: id(),
                column: "amount".into(),
                ty: ty.clone(),
                position: None,
            }]
        };
        let out = made(ask_shared(&alter(&big)));
        assert!(matches!(&out[..], [TargetSchemaChange::AlterColumnType { ty, .. }] if *ty == big));
        // narrower than what the other one has: nothing to apply
        let tiny = ColumnType::Int { width: IntWidth::Tiny, unsigned: false };
        assert_eq!(made(ask_shared(&alter(&tiny))), []);
        // rows that cannot be told from others are refused only where one of them would change
        let untold = Share::Untold(vec![TableId::new("shop", "others")]);
        let ask_untold = |flow: &FlowPlan, evolved: &Evolved, changes: &[SchemaChange]| {
            let after = changes.iter().try_fold(schema(), |s, c| c.apply_to(&s)).unwrap();
            ask(flow, changes, Some(&schema()), Some(&after), &untold, Some(evolved))
        };
        let mut with_note = shared();
        let note = Column::new("note", int());
        with_note.columns.push(note.clone());
        with_note.feeds[1].columns.push(Fed {
            output: "note".into(),
            ty: int(),
            target: Some("note".into()),
        });
        let add_note = |column: Column| {
            [SchemaChange::AddColumn { table: id(), column, position: ColumnPosition::Last }]
        };
        let derived = ask_untold(&evolve, &with_note, &add_note(note.clone())).unwrap();
        let feed = derived.evolved.as_ref().unwrap().feed("items", &id()).unwrap().clone();
        assert_eq!(made(derived), []);
        assert!(feed.columns.iter().any(|f| f.target.as_deref() == Some("note")));
        let refused = ask_untold(&evolve, &with_note, &add_note(note.not_null())).unwrap_err();
        assert_eq!(refused.code(), codes::TARGET_COLLISION);
        // names that cross change values
        let mut two = schema();
        two.columns.push(Column::new("b", int()));
        let swap = [("amount", "x"), ("b", "amount"), ("x", "b")].map(|(column, to)| {
            SchemaChange::RenameColumn { table: id(), column: column.into(), to: to.into() }
        });
        let swapped = swap.iter().try_fold(two.clone(), |s, c| c.apply_to(&s)).unwrap();
        let mut evolved = shared();
        evolved.columns.push(Column::new("b", int()));
        for feed in &mut evolved.feeds {
            feed.columns.push(Fed { output: "b".into(), ty: int(), target: Some("b".into()) });
        }
        let refused = ask(&evolve, &swap, Some(&two), Some(&swapped), &untold, Some(&evolved)).unwrap_err();
        assert_eq!(refused.code(), codes::TARGET_COLLISION);
        let rename = [SchemaChange::RenameColumn { table: id(), column: "amount".into(), to: "sum".into() }];
        let unfilled = FlowPlan { backfill: false, ..flow(SchemaChangeMode::Lenient) };
        let out = made(ask_untold(&unfilled, &shared(), &rename).unwrap());
        assert!(matches!(&out[..], [TargetSchemaChange::AddColumn { .. }]), "{out:?}");
        let mut seven = Column::new("flag", int()).not_null();
        seven.default = Some("7".into());
        let add = [SchemaChange::AddColumn { table: id(), column: seven, position: ColumnPosition::Last }];
        let out = made(ask_shared(&add));
        assert!(
            matches!(
                &out[..],
                [TargetSchemaChange::AddColumn { column, .. }, TargetSchemaChange::ResetColumn { column: reset, only: rows, .. }]
                    if column.nullable && column.default.is_none() && reset.default.as_deref() == Some("7") && *rows == only
            ),
            "{out:?}"
        );
        let drop = [SchemaChange::DropColumn { table: id(), column: "amount".into() }];
        let derived = ask_shared(&drop);
        assert!(derived.evolved.as_ref().unwrap().column("amount").is_some(), "the other table feeds it");
        assert!(
            matches!(&made(derived)[..], [TargetSchemaChange::ResetColumn { only: rows, .. }] if *rows == only)
        );
        let rename = [SchemaChange::RenameColumn { table: id(), column: "amount".into(), to: "sum".into() }];
        let out = made(ask_shared(&rename));
        assert!(
            matches!(
                &out[..],
                [TargetSchemaChange::AddColumn { .. }, TargetSchemaChange::FillColumn { only: rows, .. }, TargetSchemaChange::ResetColumn { .. }]
                    if *rows == only
            ),
            "{out:?}"
        );
    }

    /// Two shards in one table, and random statements to either: what is fed holds the source's column in the rows of each, under its name.
    #[test]
    fn case_52_columns_of_shards_whose_names_cross_keep_their_values() {
        let shards = ["items", "others"];
        // (numbers, of which each holds those before it, and texts: what has nothing in common with them)
        let text = |length| ColumnType::VarChar { length, charset: Charset::utf8mb4() };
        let int = |width| ColumnType::Int { width, unsigned: false };
        let types = [int(IntWidth::Small), int(IntWidth::Int), int(IntWidth::Big), text(9), text(20)];
        let covers = |wide: &ColumnType, ty: &ColumnType| {
            *wide == any_text() || common(wide, ty).is_some_and(|both| same_type(&both, wide))
        };
        let (mut refused, mut altered) = (0, 0);
        'history: for seed in 0..8000u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |n: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state % n as u64) as usize
            };
            let mode = [SchemaChangeMode::Evolve, SchemaChangeMode::Lenient][random(2)];
            // of half of them no column has another type
            let kinds = if seed % 2 == 0 { 1 } else { types.len() };
            let f = FlowPlan {
                target: TargetName::Fixed("all".into()),
                key_conflict: KeyConflict::Last,
                ..flow(mode)
            };
            let mut now: Vec<TableSchema> = shards
                .iter()
                .map(|name| {
                    let mut schema = schema();
                    schema.id = TableId::new("shop", *name);
                    schema.columns.truncate(1);
                    for name in ["amount", "b", "c"].iter().take(1 + random(3)) {
                        schema.columns.push(Column::new(*name, types[random(kinds)].clone()));
                    }
                    schema
                })
                .collect();
            let mut evolved = Evolved::of(bound(&f, &now[0]).target());
            if evolved.join(bound(&f, &now[1]).target(), mode).is_err() {
                continue;
            }
            // by shard: what each column of the source holds, and of the target; 0 is NULL
            let mut next = 0u32;
            let mut source: Vec<BTreeMap<String, u32>> = vec![BTreeMap::new(); 2];
            let mut target: Vec<BTreeMap<String, u32>> =
                vec![evolved.columns.iter().map(|c| (c.name.to_string(), 0)).collect(); 2];
            // and which type it has there
            let mut held: BTreeMap<String, ColumnType> =
                evolved.columns.iter().map(|c| (c.name.to_string(), c.ty.clone())).collect();
            for _ in 0..5 {
                // rows are written
                for shard in 0..2 {
                    let feed = evolved.feed("all", &now[shard].id).unwrap().clone();
                    for column in &now[shard].columns {
                        next += 1;
                        source[shard].insert(column.name.to_string(), next);
                        let fed = feed.columns.iter().find(|f| f.output == column.name).unwrap();
                        target[shard].insert(fed.target.as_ref().unwrap().to_string(), next);
                    }
                }
                let of = random(2);
                let (mut changes, mut after) = (Vec::new(), now[of].clone());
                let is_anew = random(6) == 0;
                if is_anew {
                    after.columns.truncate(1);
                    for name in ["b", "amount", "aside"].iter().take(random(4)) {
                        after.columns.push(Column::new(*name, types[random(kinds)].clone()));
                    }
                    changes.push(SchemaChange::DropTable { table: after.id.clone() });
                    changes.push(SchemaChange::CreateTable { schema: Arc::new(after.clone()) });
                    source[of] = after.columns.iter().map(|c| (c.name.to_string(), 0)).collect();
                }
                for _ in 0..=random(4) {
                    let names = ["amount", "b", "c", "aside"];
                    if after.columns.len() < 2 || is_anew {
                        break;
                    }
                    let place = 1 + random(after.columns.len() - 1);
                    let column = after.columns[place].name.clone();
                    let to: Arc<str> = names[random(names.len())].into();
                    let ty = types[random(kinds)].clone();
                    let table = after.id.clone();
                    let change = match random(if kinds > 1 { 9 } else { 6 }) {
                        0 => SchemaChange::DropColumn { table, column },
                        1 => SchemaChange::AddColumn {
                            table,
                            column: Column::new(to.clone(), ty),
                            position: ColumnPosition::Last,
                        },
                        2..6 => SchemaChange::RenameColumn { table, column, to: to.clone() },
                        _ => SchemaChange::AlterColumnType { table, column, ty, position: None },
                    };
                    let is_free = after.column_index(&to).is_none();
                    let takes =
                        matches!(change, SchemaChange::RenameColumn { .. } | SchemaChange::AddColumn { .. });
                    if !is_free && takes {
                        continue;
                    }
                    let Ok(then) = change.apply_to(&after) else { continue };
                    match &change {
                        SchemaChange::DropColumn { column, .. } => drop(source[of].remove(&**column)),
                        SchemaChange::RenameColumn { column, to, .. } => {
                            let value = source[of].remove(&**column).unwrap();
                            source[of].insert(to.to_string(), value);
                        }
                        SchemaChange::AlterColumnType { ty, .. } if !covers(ty, &after.columns[place].ty) => {
                            changes.push(SchemaChange::ResnapshotTable {
                                table: after.id.clone(),
                                reason: "narrower".into(),
                            });
                        }
                        SchemaChange::AlterColumnType { .. } => {}
                        _ => drop(source[of].insert(to.to_string(), 0)),
                    }
                    after = then;
                    changes.push(change);
                }
                let shard = Column::new("shard", int(IntWidth::Int));
                let told = |n: usize| vec![(shard.clone(), Row::pack([cdc_core::Value::Int(n as i64)]))];
                let share = Share::Told(told(of));
                // (in one statement, or in two)
                let asked = if is_anew && random(2) == 0 {
                    ask(&f, &changes[..1], Some(&now[of]), None, &share, Some(&evolved)).and_then(|gone| {
                        let left = gone.evolved.unwrap();
                        let came = ask(&f, &changes[1..], None, Some(&after), &share, Some(&left))?;
                        let steps = gone.steps.into_iter().chain(came.steps).collect();
                        Ok(Derived { steps, ..came })
                    })
                } else {
                    ask(&f, &changes, Some(&now[of]), Some(&after), &share, Some(&evolved))
                };
                let derived = match asked {
                    Ok(derived) => derived,
                    Err(error) => {
                        // only where one column would have to hold what has no type in common
                        let other =
                            |c: &&Column| now[1 - of].columns.iter().find(|o| o.name == c.name).cloned();
                        let apart = |c: &&Column| other(c).is_some_and(|o| common(&o.ty, &c.ty).is_none());
                        assert!(
                            mode == SchemaChangeMode::Evolve && after.columns.iter().any(|c| apart(&c)),
                            "seed {seed}, {mode:?}, {changes:?}: {error}"
                        );
                        refused += 1;
                        continue 'history;
                    }
                };
                let told_by = |only: &[(Column, Row)]| *only == told(of)[..];
                let all = format!(
                    "seed {seed}, {mode:?}, {:?} beside {:?}, {changes:?}: {:#?}",
                    now[of].columns,
                    now[1 - of].columns,
                    derived.steps
                );
                let is_fed = |shard: usize, name: &str| {
                    let feed = evolved.feed("all", &now[shard].id).unwrap();
                    feed.columns.iter().any(|f| f.target.as_ref().is_some_and(|t| **t == *name))
                };
                for step in &derived.steps {
                    match &step.change {
                        TargetSchemaChange::AddColumn { column, .. } => {
                            let new = |t: &mut BTreeMap<_, _>| t.insert(column.name.to_string(), 0).is_none();
                            assert!(target.iter_mut().all(new), "{all}");
                            held.insert(column.name.to_string(), column.ty.clone());
                        }
                        TargetSchemaChange::DropColumn { column, .. } => {
                            assert!(target.iter_mut().all(|t| t.remove(column).is_some()), "{all}");
                            held.remove(column);
                        }
                        TargetSchemaChange::RenameColumn { from, to, .. } => {
                            for t in &mut target {
                                let value = t.remove(from).unwrap();
                                assert!(t.insert(to.clone(), value).is_none(), "{all}");
                            }
                            let ty = held.remove(from).unwrap();
                            held.insert(to.clone(), ty);
                        }
                        TargetSchemaChange::FillColumn { from, to, only, .. } => {
                            assert!(told_by(only), "{all}");
                            let value = target[of][from];
                            assert!(target[of].insert(to.clone(), value).is_some(), "{all}");
                            // a target turns numbers into texts, or into wider ones; not texts into numbers
                            let is_text = |name: &String| {
                                matches!(held[name], ColumnType::VarChar { .. } | ColumnType::Text { .. })
                            };
                            assert!(is_text(to) || !is_text(from) || value == 0, "{from} to {to}: {all}");
                        }
                        TargetSchemaChange::ResetColumn { column, only, .. } => {
                            assert!(told_by(only), "{all}");
                            assert!(target[of].insert(column.name.to_string(), 0).is_some(), "{all}");
                        }
                        TargetSchemaChange::RemoveRows { only, .. } => {
                            assert!(told_by(only), "{all}");
                            target[of].values_mut().for_each(|value| *value = 0);
                        }
                        TargetSchemaChange::AlterColumnType { column, ty, .. } => {
                            altered += 1;
                            // what is in it fits: rows of the other shard, and in mode lenient whatever has ever been there
                            if is_fed(1 - of, column) {
                                let there = evolved.feed("all", &now[1 - of].id).unwrap();
                                let fed = there
                                    .columns
                                    .iter()
                                    .find(|f| f.target.as_deref() == Some(column))
                                    .unwrap();
                                assert!(covers(ty, &fed.ty), "{column}: {all}");
                            }
                            if mode == SchemaChangeMode::Lenient {
                                assert!(covers(ty, &held[column]), "{column} {}: {all}", held[column]);
                            }
                            held.insert(column.clone(), ty.clone());
                        }
                        TargetSchemaChange::AlterNullability { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                if is_anew {
                    // lenient keeps those that were there, beside the new ones
                    if mode == SchemaChangeMode::Lenient {
                        target[of].values_mut().for_each(|value| *value = 0);
                    }
                } else if changes.iter().any(|c| matches!(c, SchemaChange::ResnapshotTable { .. })) {
                    // its rows come anew
                    let feed = derived.evolved.as_ref().unwrap().feed("all", &after.id).unwrap();
                    target[of].values_mut().for_each(|value| *value = 0);
                    for fed in feed.columns.iter() {
                        let value = source[of][&*fed.output];
                        target[of].insert(fed.target.as_ref().unwrap().to_string(), value);
                    }
                }
                now[of] = after;
                evolved = derived.evolved.unwrap();
                let known: BTreeMap<String, ColumnType> =
                    evolved.columns.iter().map(|c| (c.name.to_string(), c.ty.clone())).collect();
                assert_eq!(known, held, "{all}");
                assert_eq!(known.keys().collect::<Vec<_>>(), target[0].keys().collect::<Vec<_>>(), "{all}");
                for shard in 0..2 {
                    let feed = evolved.feed("all", &now[shard].id).unwrap();
                    for column in &now[shard].columns {
                        let fed = feed.columns.iter().find(|f| f.output == column.name).unwrap();
                        let there = fed.target.as_ref().unwrap();
                        // (mode lenient gives new values a column of their own where they do not fit)
                        assert!(
                            *there == column.name
                                || (mode == SchemaChangeMode::Lenient
                                    && there.starts_with(&format!("{}_", column.name))),
                            "{all}"
                        );
                        assert!(covers(&held[&**there], &column.ty), "{all}");
                        assert_eq!(
                            target[shard][&**there], source[shard][&*column.name],
                            "{}.{}: {all}",
                            shards[shard], column.name
                        );
                    }
                    if mode == SchemaChangeMode::Evolve {
                        // nothing is left of columns that went or got another name
                        let left = |(name, value): (&String, &u32)| {
                            *value != 0 && now[shard].column_index(name).is_none()
                        };
                        assert!(
                            !target[shard].iter().any(left),
                            "{}: {:?}: {all}",
                            shards[shard],
                            target[shard]
                        );
                    }
                }
                if mode == SchemaChangeMode::Evolve {
                    assert!(evolved.columns.iter().all(|c| evolved.is_fed(&c.name)), "{all}");
                }
            }
        }
        assert!(refused > 100 && altered > 1000, "{refused} {altered}");
    }

    /// Random statements: under evolve the target has what the source has; under every mode what is fed holds the source's
    /// column and no other one, and the changes come in an order in which each one fits what is there.
    #[test]
    fn random_statements_leave_the_target_as_the_mode_says() {
        for seed in 0..3000u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |n: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state % n as u64) as usize
            };
            for (mode, _) in
                SchemaChangeMode::ALL.into_iter().filter(|(m, _)| *m != SchemaChangeMode::Exception)
            {
                let f = flow(mode);
                let mut now = members();
                // of each column of the source: which one it is
                let mut source: Vec<(Arc<str>, u32)> =
                    now.columns.iter().zip(0..).map(|(c, i)| (c.name.clone(), i)).collect();
                let mut target = source.clone();
                let mut evolved = Evolved::of(bound(&f, &now).target());
                // what its columns have as their default
                let mut defaults: BTreeMap<String, String> = BTreeMap::new();
                let (mut next, mut is_whole) = (100, true);
                for _ in 0..6 {
                    let known_before = next;
                    let mut changes = Vec::new();
                    let mut after = now.clone();
                    for _ in 0..=random(3) {
                        let names = ["a", "b", "c", "name", "age"];
                        let pick = |random: &mut dyn FnMut(usize) -> usize, s: &TableSchema| {
                            (s.columns.len() > 1)
                                .then(|| s.columns[1 + random(s.columns.len() - 1)].name.clone())
                        };
                        let change = match random(5) {
                            0 => pick(&mut random, &after)
                                .map(|column| SchemaChange::DropColumn { table: id(), column }),
                            1 => pick(&mut random, &after).map(|column| SchemaChange::RenameColumn {
                                table: id(),
                                column,
                                to: names[random(names.len())].into(),
                            }),
                            2 => pick(&mut random, &after).map(|column| SchemaChange::AlterColumnType {
                                table: id(),
                                column,
                                ty: [int(), ColumnType::Double { unsigned: false }, ColumnType::Date]
                                    [random(3)]
                                .clone(),
                                position: None,
                            }),
                            3 => pick(&mut random, &after).map(|column| SchemaChange::AlterColumnDefault {
                                table: id(),
                                column,
                                default: [None, Some("1"), Some("2")][random(3)].map(str::to_owned),
                            }),
                            _ => Some(SchemaChange::AddColumn {
                                table: id(),
                                column: Column {
                                    default: [None, Some("1")][random(2)].map(str::to_owned),
                                    ..Column::new(names[random(names.len())], int())
                                },
                                position: ColumnPosition::Last,
                            }),
                        };
                        let Some(change) = change else { continue };
                        if let SchemaChange::RenameColumn { column, to, .. } = &change
                            && (same_name(column, to) || after.column_index(to).is_some())
                        {
                            continue;
                        }
                        let Ok(then) = change.apply_to(&after) else { continue };
                        match &change {
                            SchemaChange::DropColumn { column, .. } => {
                                source.retain(|(n, _)| !same_name(n, column))
                            }
                            SchemaChange::RenameColumn { column, to, .. } => {
                                source
                                    .iter_mut()
                                    .filter(|(n, _)| same_name(n, column))
                                    .for_each(|(n, _)| *n = to.clone());
                            }
                            SchemaChange::AddColumn { column, .. } => {
                                next += 1;
                                source.push((column.name.clone(), next));
                            }
                            _ => {}
                        }
                        after = then;
                        changes.push(change);
                    }
                    let mut derived =
                        ask(&f, &changes, Some(&now), Some(&after), &Share::Alone, Some(&evolved))
                            .unwrap_or_else(|e| panic!("seed {seed}, {mode:?}: {e}"));
                    // the target refuses some of it: each step once, or it would be refused for ever
                    let mut refused = BTreeSet::new();
                    while mode == SchemaChangeMode::TryEvolve && !derived.steps.is_empty() && random(3) == 0 {
                        is_whole = false;
                        let name = derived.steps[random(derived.steps.len())].name.clone();
                        assert!(refused.insert(name), "seed {seed}, {changes:?}: {refused:?}, {derived:?}");
                        let (before, after) = (bound(&f, &now), bound(&f, &after));
                        derived = derive(&Question {
                            flow: &f,
                            changes: &changes,
                            before: Some(&before),
                            after: Some(&after),
                            share: &Share::Alone,
                            evolved: Some(&evolved),
                            taken: None,
                            gone: None,
                            refused: &refused,
                        })
                        .unwrap_or_else(|e| panic!("seed {seed}, {refused:?}: {e}"));
                        assert!(
                            derived.steps.iter().all(|s| !refused.contains(&s.name)),
                            "seed {seed}, {changes:?}: {refused:?}, {derived:?}"
                        );
                    }
                    evolved = derived.evolved.clone().unwrap();
                    let told = || format!("seed {seed}, {mode:?}, {changes:?}: {:?}", derived.steps);
                    for step in &derived.steps {
                        let at = |name: &str, target: &[(Arc<str>, u32)]| {
                            target.iter().position(|(n, _)| same_name(n, name))
                        };
                        match &step.change {
                            TargetSchemaChange::AddColumn { column, keeps_default, .. } => {
                                let keeps = column.default.clone().filter(|_| *keeps_default);
                                defaults.extend(keeps.map(|d| (column.name.to_string(), d)));
                                assert!(at(&column.name, &target).is_none(), "{}", told());
                                // what it holds: the default of a column that came with this statement, and of another
                                // one nothing, unless it is filled right behind
                                let is = source.iter().find(|(n, i)| *n == column.name && *i > known_before);
                                target.push((column.name.clone(), is.map_or(0, |(_, i)| *i)));
                            }
                            TargetSchemaChange::DropColumn { column, .. } => {
                                defaults.remove(column);
                                target.remove(at(column, &target).unwrap_or_else(|| panic!("{}", told())));
                            }
                            // what has stepped aside; here nothing is made that is refused later
                            TargetSchemaChange::RenameColumn { from, .. }
                                if step.name.starts_with("back_from ") =>
                            {
                                assert!(at(from, &target).is_none(), "{}", told());
                            }
                            TargetSchemaChange::RenameColumn { from, to, .. } => {
                                if let Some(default) = defaults.remove(from) {
                                    defaults.insert(to.clone(), default);
                                }
                                assert!(at(to, &target).is_none() || same_name(from, to), "{}", told());
                                let place = at(from, &target).unwrap_or_else(|| panic!("{}", told()));
                                target[place].0 = to.as_str().into();
                            }
                            TargetSchemaChange::FillColumn { from, to, .. } => {
                                let value =
                                    target[at(from, &target).unwrap_or_else(|| panic!("{}", told()))].1;
                                let place = at(to, &target).unwrap_or_else(|| panic!("{}", told()));
                                target[place].1 = value;
                            }
                            TargetSchemaChange::AlterColumnType { column, .. } => {
                                // as PostgreSQL's and MySQL's does
                                defaults.remove(column);
                                assert!(at(column, &target).is_some(), "{}", told());
                            }
                            TargetSchemaChange::AlterNullability { column, .. } => {
                                assert!(at(column, &target).is_some(), "{}", told());
                            }
                            TargetSchemaChange::AlterColumnDefault { column, .. } => {
                                assert!(at(&column.name, &target).is_some(), "{}", told());
                                defaults.remove(&*column.name);
                                let default = column.default.clone();
                                defaults.extend(default.map(|d| (column.name.to_string(), d)));
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    let mut has: Vec<&str> = target.iter().map(|(n, _)| &**n).collect();
                    let mut known: Vec<&str> = evolved.columns.iter().map(|c| &*c.name).collect();
                    has.sort_unstable();
                    known.sort_unstable();
                    assert_eq!(has, known, "{}", told());
                    let known: BTreeMap<String, String> = evolved
                        .columns
                        .iter()
                        .filter_map(|c| Some((c.name.to_string(), c.default.clone()?)))
                        .collect();
                    // a refused change of a default leaves what a change of the type has taken away
                    if is_whole {
                        assert_eq!(defaults, known, "{}", told());
                    }
                    let is_fed =
                        |c: &str| evolved.feeds[0].columns.iter().any(|f| f.target.as_deref() == Some(c));
                    if is_whole {
                        assert!(defaults.keys().all(|c| is_fed(c)), "{defaults:?}; {}", told());
                    }
                    for fed in &evolved.feeds[0].columns {
                        let Some(to) = &fed.target else { continue };
                        if is_whole && mode != SchemaChangeMode::Ignore {
                            let i = after.column_index(&fed.output).unwrap();
                            assert_eq!(
                                after.columns[i].default.as_ref(),
                                defaults.get(&**to),
                                "{} feeds {to}; {}",
                                fed.output,
                                told()
                            );
                        }
                        let which = source.iter().find(|(n, _)| *n == fed.output).map(|(_, i)| *i);
                        let there = target.iter().find(|(n, _)| n == to).map(|(_, i)| *i);
                        assert_eq!(which, there, "{} feeds {to}; {}", fed.output, told());
                    }
                    if is_whole && matches!(mode, SchemaChangeMode::Evolve | SchemaChangeMode::TryEvolve) {
                        let mut wanted: Vec<(String, String)> =
                            after.columns.iter().map(|c| (c.name.to_string(), c.ty.to_string())).collect();
                        let mut found: Vec<(String, String)> =
                            evolved.columns.iter().map(|c| (c.name.to_string(), c.ty.to_string())).collect();
                        wanted.sort();
                        found.sort();
                        assert_eq!(wanted, found, "{}", told());
                    }
                    if mode == SchemaChangeMode::Lenient {
                        assert!(evolved.feeds[0].columns.iter().all(|f| f.target.is_some()), "{}", told());
                    }
                    now = after;
                }
            }
        }
    }
}
