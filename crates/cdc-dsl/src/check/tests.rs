//! Tests: not run yet. A pipeline with tests runs all the same, so they are a warning, and what they name
//! is checked.

use crate::ast::{Statement, StatementKind, StepKind};
use crate::names::{Kind, Names};
use crate::resolve::Scope;
use cdc_core::diagnostic::{Diagnostic, codes};

/// Checks all tests.
pub(crate) fn tests(statements: &[Statement], names: &Names<'_>, scope: &mut Scope<'_>) {
    let tests = statements.iter().filter_map(|s| match &s.kind {
        StatementKind::Test(test) => Some(test),
        _ => None,
    });
    let mut warning: Option<Diagnostic> = None;
    for test in tests {
        for step in &test.steps {
            match &step.kind {
                StepKind::Given(changes) | StepKind::When(changes) => {
                    for change in changes {
                        let is_source = |k| matches!(k, Kind::Source(_));
                        names.resolve(&change.table.root, "source", is_source, scope);
                    }
                }
                StepKind::ExpectRows { table, .. } | StepKind::ExpectColumns { table, .. } => {
                    let is_result = |k| matches!(k, Kind::Sink(_) | Kind::View(_));
                    names.resolve(&table.root, "sink or view", is_result, scope);
                }
                StepKind::Ddl(_) => {}
            }
        }
        let span = test.name.span.range();
        warning = Some(match warning {
            None => Diagnostic::warning(codes::TESTS_NOT_YET, "tests are not run yet").at(span, ""),
            Some(d) => d.at(span, "this one too"),
        });
    }
    scope.diagnostics.extend(warning);
}
