//! Flows against the tables that are known: those of the source's `schema` file.
//!
//! Every table that a flow meets is checked by itself. What is wrong with several of them for the same
//! reason, at the same place, is reported once, for the first.

use super::columns::{Columns, Walk};
use super::nulls;
use super::views::Views;
use crate::ast::{Op, OpKind, OptionValue, OptionValueKind, Span};
use crate::lower::{LoweredFlow, SourceInfo, exact_table};
use crate::resolve::Scope;
use crate::suggest::help_for;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::program::{BoundFlow, multiset_warning};
use cdc_core::schema::{TableId, TableSchema};
use cdc_core::zero_dates::ZeroDates;
use std::sync::Arc;

/// The tables of a schema file that a source covers; says which of its patterns cover none.
pub(crate) fn covered(
    source: &str,
    all: Vec<TableSchema>,
    set: Option<&TableSet>,
    written: Option<&OptionValue>,
    scope: &mut Scope<'_>,
) -> Vec<Arc<TableSchema>> {
    let covers = |t: &TableSchema| set.is_none_or(|s| s.contains(&t.id));
    let tables: Vec<Arc<TableSchema>> = all.into_iter().filter(covers).map(Arc::new).collect();
    let Some(set) = set else { return tables };
    let span = written.map_or(0..0, |v| v.span.range());
    if tables.is_empty() {
        scope.report(
            Diagnostic::error(
                codes::NO_TABLES,
                format!("\"tables\" of \"{source}\" covers no table of its schema file"),
            )
            .at(span, "")
            .help("write \"database.table\" with * and ?; names compare with their letter case"),
        );
        return tables;
    }
    for pattern in set.unmatched(tables.iter().map(|t| &t.id)) {
        let place = written.and_then(|v| match &v.kind {
            OptionValueKind::List(items) => {
                items.iter().find(|i| is_text(i, &pattern)).map(|i| i.span.range())
            }
            _ => None,
        });
        scope.report(
            Diagnostic::warning(
                codes::PATTERN_MATCHES_NOTHING,
                format!("pattern \"{pattern}\" matches no table of the schema file"),
            )
            .at(place.unwrap_or(span.clone()), ""),
        );
    }
    tables
}

fn is_text(value: &OptionValue, text: &str) -> bool {
    matches!(&value.kind, OptionValueKind::Text(t)
        if matches!(t.parts.as_slice(), [crate::ast::TextPart::Literal(l)] if l == text))
}

/// Checks the columns, types and keys of a flow, for each table that it may meet.
pub(crate) fn flow(lowered: &LoweredFlow<'_>, sources: &[SourceInfo], views: &Views, scope: &mut Scope<'_>) {
    // an operator of views was reported, and the columns behind it are those of no flow
    if lowered.flow.ops.iter().any(|op| !is_of_flows(op)) {
        return;
    }
    if let Some(columns) = lowered.view.and_then(|index| views.columns.get(index)) {
        scope.diagnostics.extend(walk(lowered, columns.clone()).diagnostics);
        return;
    }
    let Some(source) = lowered.source.and_then(|index| sources.get(index)) else { return };
    let Some(schemas) = &source.schemas else {
        scope.diagnostics.extend(walk(lowered, Columns::open()).diagnostics);
        return;
    };
    let tables: Vec<Arc<TableSchema>> = as_given(source, |t| lowered.tables.matches(&t.id));
    if tables.is_empty() {
        return matches_nothing(lowered, source, schemas, scope);
    }
    // each with the first table that shows it, and how many more do
    let mut found: Vec<(Diagnostic, &TableSchema, usize)> = Vec::new();
    for table in &tables {
        for d in of_table(lowered, table) {
            let same = |f: &Diagnostic| f.code == d.code && f.labels.first() == d.labels.first();
            match found.iter_mut().find(|(f, _, _)| same(f)) {
                Some((_, _, more)) => *more += 1,
                None => found.push((d, table, 0)),
            }
        }
    }
    for (d, table, more) in found {
        let of = |more: usize| match more {
            0 => format!("for table \"{}\"", table.id),
            1 => format!("for table \"{}\" and another one", table.id),
            n => format!("for table \"{}\" and {n} others", table.id),
        };
        let several = tables.len() > 1 && d.code != codes::NO_KEY;
        scope.report(if several { d.note(of(more)) } else { d });
    }
    if lowered.flow.key.is_none() {
        for table in tables.iter().filter(|t| t.key().is_none()) {
            let warning = copied_as_multiset(lowered, table);
            // once for a table, whatever takes it
            if !scope.diagnostics.iter().any(|d| d.code == warning.code && d.headline == warning.headline) {
                scope.report(warning);
            }
        }
    }
}

/// The tables of a source that are known, as a run gives them to flows and views.
pub(crate) fn as_given(
    source: &SourceInfo,
    is_wanted: impl Fn(&TableSchema) -> bool,
) -> Vec<Arc<TableSchema>> {
    let dates = source.plan.options.text("zero_dates").and_then(ZeroDates::parse).unwrap_or_default();
    source.schemas.iter().flatten().filter(|t| is_wanted(t)).map(|t| dates.schema(t)).collect()
}

fn of_table(lowered: &LoweredFlow<'_>, table: &Arc<TableSchema>) -> Vec<Diagnostic> {
    let names = table.columns.iter().map(|c| c.name.to_string()).collect();
    let found = walk(lowered, Columns::Known(names)).diagnostics;
    if !found.is_empty() {
        return found;
    }
    // names are right: types, and what the engine itself would say
    let Some(plan) = &lowered.plan else { return Vec::new() };
    let mut found = match BoundFlow::bind(plan, table) {
        Ok(bound) => {
            let mut columns = nulls::NotNull::new();
            plan.ops.iter().for_each(|op| nulls::behind(&mut columns, op));
            nulls::in_key(&bound, &columns, lowered).into_iter().collect()
        }
        Err(found) => found,
    };
    for label in found.iter_mut().flat_map(|d| &mut d.labels) {
        // what is wrong with a whole flow is wrong with what it makes
        if label.span == plan.span {
            label.span = lowered.flow.target.span.range();
        }
    }
    found
}

fn is_of_flows(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::Where(_) | OpKind::Select(_) | OpKind::Extend(_) | OpKind::Drop(_) | OpKind::Rename(_)
    )
}

fn walk(lowered: &LoweredFlow<'_>, columns: Columns) -> Walk {
    let mut walk = Walk::new(columns);
    for op in &lowered.flow.ops {
        walk.op(op);
    }
    // behind a mistake the columns are not sure any more
    if walk.diagnostics.is_empty() {
        for name in lowered.flow.key.iter().flatten() {
            let known = walk.diagnostics.len();
            walk.column(name);
            // a key is chosen from all of them
            let list = walk.known().map(|all| format!("the columns are {}", all.join(", ")));
            if let (Some(d), Some(list)) = (walk.diagnostics.get_mut(known), list) {
                d.help.retain(|help| !help.starts_with("there is"));
                d.help.push(list);
            }
        }
        if let Some(plan) = lowered.plan.as_ref()
            && let Some(by) = plan.on_conflict.by()
        {
            let is_own =
                lowered.flow.with.as_ref().is_some_and(|block| block.span.range().contains(&by.span.start));
            // what the view says is asked of a flow that it can matter to
            if is_own {
                walk.last_by(by, None);
            } else if plan.may_be_watched() {
                walk.last_by(by, Some(lowered.flow.target.span));
            }
        }
    }
    walk
}

fn matches_nothing(
    lowered: &LoweredFlow<'_>,
    source: &SourceInfo,
    schemas: &[Arc<TableSchema>],
    scope: &mut Scope<'_>,
) {
    let place = lowered.flow.head.span.range();
    // a file that covers no table was reported
    if schemas.is_empty() {
        return;
    }
    let Some(table) = exact_table(&lowered.tables, source) else {
        let headline = format!("this matches no table of \"{}\"", source.plan.name);
        scope.report(Diagnostic::warning(codes::PATTERN_MATCHES_NOTHING, headline).at(place, ""));
        return;
    };
    scope.report(unknown_table(&table, schemas, lowered.flow.head.span));
}

/// A table that the schema file does not have.
pub(crate) fn unknown_table(table: &TableId, schemas: &[Arc<TableSchema>], place: Span) -> Diagnostic {
    let names: Vec<&str> =
        schemas.iter().filter(|t| t.id.database == table.database).map(|t| &*t.id.table).collect();
    let mut d =
        Diagnostic::error(codes::UNKNOWN_TABLE, format!("unknown table \"{table}\"")).at(place.range(), "");
    d.help.extend(help_for(&table.table, "the schema file has", &names));
    d
}

fn copied_as_multiset(lowered: &LoweredFlow<'_>, table: &TableSchema) -> Diagnostic {
    let head = &lowered.flow.head;
    let source = &head.root.text;
    let mut d = multiset_warning(&table.id).at(head.span.range(), "");
    if !lowered.tables.table.is_exact() {
        d.help = vec![format!(
            "leave it out of {source}: tables = [.., \"!{}\"]; or, if some columns identify a row, copy it by a flow of its own with key (..)",
            table.id
        )];
    }
    d
}
