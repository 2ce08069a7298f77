//! Views: not built yet, but read and checked as far as names go, so that a file that is written ahead of
//! its time is told all that is wrong with it, and each view is refused once.

use crate::ast::{OpKind, Statement, StatementKind, TablePartKind, TableRef, View};
use crate::lower::{Context, option};
use crate::names::Kind;
use crate::options::check_options;
use crate::resolve::Scope;
use cdc_core::catalog::{OptionDescriptor, OptionKind};
use cdc_core::diagnostic::{Diagnostic, codes};

/// Checks all views.
pub(crate) fn views(statements: &[Statement], context: &Context<'_>, scope: &mut Scope<'_>) {
    for statement in statements {
        if let StatementKind::View(view) = &statement.kind {
            let before = scope.diagnostics.len();
            for table in tables_of(view) {
                check_table(table, context, scope);
            }
            check_options(scope, view.with.as_ref(), &view_options(), "a view", view.name.span);
            // a view that is wrong is not also "not yet"
            if scope.diagnostics.len() == before {
                not_yet(view, statements, scope);
            }
        }
    }
}

fn view_options() -> Vec<OptionDescriptor> {
    vec![
        option("ttl", OptionKind::Duration, "how long state is kept, in source time"),
        option(
            "on_conflict",
            OptionKind::Choice(&["error", "last", "log"]),
            "what to do about two rows of a key",
        ),
    ]
}

fn tables_of(view: &View) -> impl Iterator<Item = &TableRef> {
    std::iter::once(&view.from).chain(view.ops.iter().filter_map(|op| match &op.kind {
        OpKind::Join { table, .. } | OpKind::Union { table, .. } => Some(table),
        _ => None,
    }))
}

fn check_table(table: &TableRef, context: &Context<'_>, scope: &mut Scope<'_>) {
    let is_table = |k| matches!(k, Kind::Source(_) | Kind::View(_));
    let Some(kind) = context.names.resolve(&table.root, "source or view", is_table, scope) else { return };
    for part in &table.parts {
        if !matches!(part.kind, TablePartKind::Name(_)) {
            scope.report(
                Diagnostic::error(codes::PATTERN_NOT_ALLOWED, "a view reads single tables, not patterns")
                    .at(part.span.range(), "")
                    .help("name one table; copy a pattern's tables into one with a flow"),
            );
            return;
        }
    }
    if let Kind::Source(index) = kind
        && table.parts.is_empty()
        && let Some(source) = context.sources.get(index)
    {
        let name = &source.plan.name;
        scope.report(
            Diagnostic::error(codes::UNKNOWN_TABLE, format!("which table of \"{name}\" is not said"))
                .at(table.span.range(), "")
                .help(format!("write {name}.table")),
        );
    }
}

fn not_yet(view: &View, statements: &[Statement], scope: &mut Scope<'_>) {
    let name = &view.name.text;
    let mut d = Diagnostic::error(codes::VIEWS_NOT_YET, format!("view \"{name}\": views are not built yet"))
        .at(view.name.span.range(), "");
    for statement in statements {
        if let StatementKind::Flow(flow) = &statement.kind
            && flow.head.root.text == *name
        {
            d = d.at(flow.head.span.range(), "read here");
        }
    }
    scope.report(d.help("copy the tables with flows; filters and computed columns work there"));
}
