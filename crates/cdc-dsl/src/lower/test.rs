//! Tests.

use super::SourceInfo;
use super::expr::{Place, Qualifiers, lower_expr};
use super::flow::{Context, column};
use super::table::{self, exact_table};
use super::view::no_parts;
use crate::ast::{
    Change, ChangeKind, Expr, ExprKind, Name, Record, Statement, StatementKind, Step, StepKind,
    TablePartKind, TableRef, Test,
};
use crate::names::Kind;
use crate::resolve::Scope;
use crate::suggest::help_for;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::test::{
    TestChange, TestChangeKind, TestPlan, TestRow, TestStep, TestStepKind, TestTarget,
};
use cdc_core::schema::{TableSchema, same_name};
use std::sync::Arc;

impl Context<'_> {
    /// Lowers all tests; those in which something was reported are left out.
    pub fn tests(&self, statements: &[Statement], scope: &mut Scope<'_>) -> Vec<TestPlan> {
        let tests = statements.iter().filter_map(|s| match &s.kind {
            StatementKind::Test(test) => Some(test),
            _ => None,
        });
        tests.filter_map(|test| self.test(test, scope)).collect()
    }

    fn test(&self, test: &Test, scope: &mut Scope<'_>) -> Option<TestPlan> {
        let mut changed = false;
        let mut steps = Vec::new();
        for step in &test.steps {
            // a statement may have changed the columns of any table
            changed |= matches!(step.kind, StepKind::Ddl(_));
            let kind = self.step(step, changed, scope);
            steps.push(kind.map(|kind| TestStep { kind, span: step.span.range() }));
        }
        Some(TestPlan {
            name: scope.resolve_text(&test.name, &|s| s.to_owned()).text,
            steps: steps.into_iter().collect::<Option<_>>()?,
            span: test.name.span.range(),
        })
    }

    fn step(&self, step: &Step, changed: bool, scope: &mut Scope<'_>) -> Option<TestStepKind> {
        match &step.kind {
            StepKind::Given(changes) => self.changes(changes, changed, scope).map(TestStepKind::Given),
            StepKind::When(changes) => self.changes(changes, changed, scope).map(TestStepKind::When),
            StepKind::Ddl(text) => Some(TestStepKind::Ddl(scope.resolve_text(text, &|s| s.to_owned()).text)),
            StepKind::ExpectRows { table, rows } => {
                let target = self.target(table, scope);
                let rows = all(rows, |row| self.row(row, None, scope));
                Some(TestStepKind::ExpectRows { target: target?, rows: rows? })
            }
            StepKind::ExpectColumns { table, columns } => {
                let target = self.target(table, scope)?;
                Some(TestStepKind::ExpectColumns { target, columns: columns.iter().map(column).collect() })
            }
        }
    }

    fn changes(&self, changes: &[Change], changed: bool, scope: &mut Scope<'_>) -> Option<Vec<TestChange>> {
        all(changes, |change| {
            let is_source = |k| matches!(k, Kind::Source(_));
            let kind = self.names.resolve(&change.table.root, "source", is_source, scope);
            let source = match kind {
                Some(Kind::Source(index)) => self.sources.get(index),
                _ => None,
            };
            let table = source.and_then(|source| one_table(&change.table, source, changed, scope));
            let schema = match (source, &table) {
                (Some(source), Some(table)) if !changed => {
                    source.schemas.iter().flatten().find(|schema| schema.id == *table)
                }
                _ => None,
            };
            let rows = all(&change.rows, |row| self.row(row, schema, scope));
            Some(TestChange {
                source: source?.plan.name.clone(),
                table: table?,
                kind: match change.kind {
                    ChangeKind::Insert => TestChangeKind::Insert,
                    ChangeKind::Delete => TestChangeKind::Delete,
                    ChangeKind::Update => TestChangeKind::Update,
                },
                rows: rows?,
                span: change.table.span.range(),
            })
        })
    }

    /// A row; its columns are those of `schema`, where there is one.
    fn row(&self, row: &Record, schema: Option<&Arc<TableSchema>>, scope: &mut Scope<'_>) -> Option<TestRow> {
        let mut values = Vec::new();
        for (i, (name, value)) in row.fields.iter().enumerate() {
            let known = match schema {
                Some(schema) => known_column(name, schema, scope),
                None => Some(()),
            };
            let twice = row.fields[..i].iter().any(|(n, _)| same_name(&n.text, &name.text));
            if twice {
                let headline = format!("column \"{}\" is twice in this row", name.text);
                scope.report(Diagnostic::error(codes::DUPLICATE_COLUMN, headline).at(name.span.range(), ""));
            }
            let value = constant(value, scope);
            values.push(known.and(value).filter(|_| !twice).map(|value| (column(name), value)));
        }
        let values = values.into_iter().collect::<Option<_>>()?;
        Some(TestRow { values, span: row.span.range() })
    }

    /// What is looked at: a table of a sink, or a view.
    fn target(&self, table: &TableRef, scope: &mut Scope<'_>) -> Option<TestTarget> {
        let is_result = |k| matches!(k, Kind::Sink(_) | Kind::View(_));
        let kind = self.names.resolve(&table.root, "sink or view", is_result, scope)?;
        let (name, span) = (table.root.text.clone(), table.span.range());
        if matches!(kind, Kind::View(_)) {
            no_parts(table, scope)?;
            return Some(TestTarget::View { name, span });
        }
        match table.parts.as_slice() {
            [part] => match &part.kind {
                TablePartKind::Name(table) => {
                    Some(TestTarget::Table { sink: name, table: table.clone(), span })
                }
                _ => pattern(part.span.range(), scope),
            },
            parts => {
                let headline = match parts {
                    [] => format!("which table of \"{name}\" is not said"),
                    _ => "a target has two parts: sink.table".to_owned(),
                };
                scope.report(
                    Diagnostic::error(codes::UNKNOWN_TABLE, headline)
                        .at(span, "")
                        .help(format!("write {name}.table")),
                );
                None
            }
        }
    }
}

/// Each of them, so that each gets its reports.
fn all<A, B>(items: &[A], each: impl FnMut(&A) -> Option<B>) -> Option<Vec<B>> {
    let lowered: Vec<Option<B>> = items.iter().map(each).collect();
    lowered.into_iter().collect()
}

fn pattern<T>(place: std::ops::Range<usize>, scope: &mut Scope<'_>) -> Option<T> {
    scope.report(
        Diagnostic::error(codes::PATTERN_NOT_ALLOWED, "a test names single tables, not patterns")
            .at(place, "")
            .help("name one table"),
    );
    None
}

/// The table of a source that a change is of: one that the source has, unless a statement may have made it.
fn one_table(
    table: &TableRef,
    source: &SourceInfo,
    changed: bool,
    scope: &mut Scope<'_>,
) -> Option<cdc_core::schema::TableId> {
    if let Some(part) = table.parts.iter().find(|p| !matches!(p.kind, TablePartKind::Name(_))) {
        return pattern(part.span.range(), scope);
    }
    if table.parts.is_empty() {
        let name = &source.plan.name;
        scope.report(
            Diagnostic::error(codes::UNKNOWN_TABLE, format!("which table of \"{name}\" is not said"))
                .at(table.span.range(), "")
                .help(format!("write {name}.table")),
        );
        return None;
    }
    let id = exact_table(&table::head(table, source, scope)?, source)?;
    // a file that covers no table was reported
    let schemas = source.schemas.as_ref().filter(|all| !all.is_empty() && !changed);
    if let Some(schemas) = schemas
        && !schemas.iter().any(|schema| schema.id == id)
    {
        scope.report(crate::check::unknown_table(&id, schemas, table.span));
        return None;
    }
    Some(id)
}

fn known_column(name: &Name, schema: &TableSchema, scope: &mut Scope<'_>) -> Option<()> {
    if schema.column_index(&name.text).is_some() {
        return Some(());
    }
    let names: Vec<&str> = schema.columns.iter().map(|c| &*c.name).collect();
    let headline = format!("unknown column \"{}\" of \"{}\"", name.text, schema.id);
    let mut d = Diagnostic::error(codes::UNKNOWN_COLUMN, headline).at(name.span.range(), "");
    d.help.extend(help_for(&name.text, "there is", &names));
    scope.report(d);
    None
}

/// A value, which reads no column.
fn constant(value: &Expr, scope: &mut Scope<'_>) -> Option<cdc_core::expr::Expr> {
    if let Some((name, span)) = column_in(value) {
        let headline = "a row of a test holds constants, not columns";
        let mut d = Diagnostic::error(codes::UNKNOWN_COLUMN, headline).at(span.range(), "");
        d.help.extend(name.map(|name| format!("a text stands in quotes: \"{name}\"")));
        scope.report(d);
        return None;
    }
    lower_expr(scope, value, &Qualifiers::new(Place::Flow, []))
}

/// A column that is read, with its name where that may be a text without its quotes.
fn column_in(expr: &Expr) -> Option<(Option<&str>, crate::ast::Span)> {
    match &expr.kind {
        ExprKind::Column { qualifier, name } => {
            let bare = qualifier.is_none().then_some(name.text.as_str());
            Some((bare, expr.span))
        }
        _ => expr.children().into_iter().find_map(column_in),
    }
}
