//! `aggregate items group by keys`.
//!
//! An item that is one call of an aggregate function is that aggregate under the item's name. Any other item is computed
//! behind the groups, by a `select`: of the group's columns, and of aggregates under names of their own, `#1`, `#2` and so on,
//! which no other column of that point has and nobody sees behind it.

use super::expr::{AGGREGATES, Qualifiers, lower_expr, lower_item};
use super::flow::named;
use crate::ast::{Expr, ExprKind, Name, Named, Span};
use crate::resolve::Scope;
use crate::suggest::help_for;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::expr::{Expr as Lowered, ExprKind as Kind};
use cdc_core::plan::view::{Aggregate, AggregateItem, ViewOp};
use cdc_core::plan::{FlowOp, NamedExpr, SelectItem};
use cdc_core::schema::same_name;

/// What the items of an `aggregate` are made of.
pub(super) struct Grouping<'e> {
    /// What makes a group, and the name of its column.
    groups: Vec<(&'e Expr, String)>,
    /// The aggregates that were met: as written, and what they are computed as.
    aggregates: Vec<(Expr, AggregateItem)>,
    /// Names that none of those may have.
    taken: Vec<&'e str>,
}

/// Lowers an `aggregate`: the operator, and a `select` behind it where it needs one.
pub(super) fn aggregate(
    items: &[Named],
    group_by: &[Named],
    span: Span,
    qualifiers: &Qualifiers<'_>,
    scope: &mut Scope<'_>,
) -> Option<Vec<ViewOp>> {
    let groups: Vec<Option<NamedExpr>> = group_by.iter().map(|g| named(g, qualifiers, scope)).collect();
    let mut grouping = Grouping {
        groups: group_by.iter().filter_map(|g| Some((&g.expr, name_of(g)?.to_owned()))).collect(),
        aggregates: Vec::new(),
        taken: group_by.iter().chain(items).filter_map(name_of).collect(),
    };
    // those that are one aggregate have their own names, and others may use them
    let direct: Vec<Option<Option<()>>> = items
        .iter()
        .map(|item| match (&item.alias, call(&item.expr)) {
            (Some(alias), Some(function)) => {
                super::flow::not_reserved(alias, "column", scope);
                let name = alias.text.clone();
                Some(grouping.compute(&item.expr, function, name, qualifiers, scope))
            }
            _ => None,
        })
        .collect();
    let mut selected: Vec<Option<NamedExpr>> = Vec::new();
    for (item, direct) in items.iter().zip(&direct) {
        let name = match (&item.alias, &item.expr.kind) {
            (Some(alias), _) => alias,
            (None, ExprKind::Column { name, .. }) => name,
            (None, _) => {
                super::flow::no_name(&item.expr, scope);
                selected.push(None);
                continue;
            }
        };
        let column = |kind| Lowered { kind, span: item.expr.span.range() };
        let expr = match direct {
            Some(done) => done.map(|()| column(Kind::Column(name.text.clone()))),
            None => {
                super::flow::not_reserved(name, "column", scope);
                lower_item(scope, &item.expr, qualifiers, &mut grouping)
            }
        };
        selected.push(expr.map(|expr| NamedExpr { name: name.text.clone(), expr }));
    }
    let groups = groups.into_iter().collect::<Option<Vec<_>>>()?;
    let selected = selected.into_iter().collect::<Option<Vec<_>>>()?;
    let all_direct = direct.iter().all(Option::is_some);
    let select = (!all_direct).then(|| {
        let column = |g: &NamedExpr| {
            let expr = Lowered { kind: Kind::Column(g.name.clone()), span: g.expr.span.clone() };
            NamedExpr { name: g.name.clone(), expr }
        };
        let items = groups.iter().map(column).chain(selected).map(SelectItem::Expr);
        ViewOp::Row(FlowOp::Select(items.collect()))
    });
    let items = grouping.aggregates.into_iter().map(|(_, item)| item).collect();
    let operator = ViewOp::Aggregate { group_by: groups, items, span: span.range() };
    Some(std::iter::once(operator).chain(select).collect())
}

/// The name of a column, where it has one.
fn name_of(item: &Named) -> Option<&str> {
    match (&item.alias, &item.expr.kind) {
        (Some(alias), _) => Some(&alias.text),
        (None, ExprKind::Column { name, .. }) => Some(&name.text),
        (None, _) => None,
    }
}

/// The aggregate function that an expression calls, built or not.
fn call(expr: &Expr) -> Option<&Name> {
    match &expr.kind {
        ExprKind::Call { name, .. } if AGGREGATES.contains(&name.text.as_str()) => Some(name),
        _ => None,
    }
}

/// Is it a call of an aggregate function?
pub(crate) fn is_aggregate(expr: &Expr) -> bool {
    call(expr).is_some()
}

/// Do two expressions say the same? Of a column one may name its input and the other not.
pub(crate) fn same_expr(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Column { qualifier: of_a, name: a }, ExprKind::Column { qualifier: of_b, name: b }) => {
            let same_input = match (of_a, of_b) {
                (Some(a), Some(b)) => a.text == b.text,
                _ => true,
            };
            same_input && same_name(&a.text, &b.text)
        }
        _ => a == b,
    }
}

impl Grouping<'_> {
    /// The column behind the groups that an expression is: one of the group, or an aggregate. `Some(None)`: it was
    /// reported; `None`: it is neither, and to be looked into.
    #[allow(clippy::option_option)]
    pub fn column(
        &mut self,
        expr: &Expr,
        qualifiers: &Qualifiers<'_>,
        scope: &mut Scope<'_>,
    ) -> Option<Option<String>> {
        if let Some((_, name)) = self.groups.iter().find(|(group, _)| same_expr(group, expr)) {
            return Some(Some(name.clone()));
        }
        if let Some(function) = call(expr) {
            let known = self.aggregates.iter().find(|(written, _)| written == expr);
            if let Some((_, item)) = known {
                return Some(Some(item.name.clone()));
            }
            let name = self.free_name();
            return Some(self.compute(expr, function, name.clone(), qualifiers, scope).map(|()| name));
        }
        let ExprKind::Column { qualifier, name } = &expr.kind else { return None };
        if qualifier.is_none()
            && let Some((_, column)) = self.groups.iter().find(|(_, column)| same_name(column, &name.text))
        {
            return Some(Some(column.clone()));
        }
        // what is wrong with `meta.x` and with an unknown alias is said as everywhere
        let is_column = qualifier.as_ref().is_none_or(|q| qualifiers.tables.contains(&q.text.as_str()));
        if !is_column {
            return None;
        }
        let headline = format!("column \"{}\" is neither grouped nor aggregated", name.text);
        let mut d = Diagnostic::error(codes::AGGREGATE_MISPLACED, headline).at(expr.span.range(), "");
        let columns: Vec<&str> = self.groups.iter().map(|(_, column)| column.as_str()).collect();
        match crate::suggest::nearest(&name.text, columns.iter().copied()) {
            Some(near) => d.help.push(format!("did you mean \"{near}\"?")),
            None => d
                .help
                .push(format!("add it to \"group by\", or write an aggregate such as max({})", name.text)),
        }
        scope.report(d);
        Some(None)
    }

    fn free_name(&self) -> String {
        let is_taken = |name: &String| {
            self.taken.iter().any(|t| same_name(t, name))
                || self.aggregates.iter().any(|(_, item)| item.name == *name)
        };
        (1..).map(|n| format!("#{n}")).find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// Notes an aggregate under a name.
    fn compute(
        &mut self,
        expr: &Expr,
        function: &Name,
        name: String,
        qualifiers: &Qualifiers<'_>,
        scope: &mut Scope<'_>,
    ) -> Option<()> {
        let ExprKind::Call { distinct, star, arguments, .. } = &expr.kind else { return None };
        let word = &function.text;
        if let Some(inner) = arguments.iter().find_map(aggregate_in) {
            let headline = format!("aggregate function \"{}\" within \"{word}\"", inner.text);
            scope.report(
                Diagnostic::error(codes::AGGREGATE_MISPLACED, headline).at(inner.span.range(), "").help(
                    "aggregate twice: name the inner one, and write a second aggregate behind the first",
                ),
            );
            return None;
        }
        let Some(found) = Aggregate::from_name(word) else {
            let names = Aggregate::ALL.map(Aggregate::name);
            let headline = format!("aggregate function \"{word}\" is not built yet");
            let mut d = Diagnostic::error(codes::FEATURE_NOT_YET, headline).at(function.span.range(), "");
            d.help.extend(help_for(word, "there are", &names));
            scope.report(d);
            return None;
        };
        let takes = |scope: &mut Scope<'_>, what: &str, help: String| {
            scope.report(
                Diagnostic::error(codes::ARGUMENT_COUNT, format!("\"{word}\" does not take {what}"))
                    .at(expr.span.range(), "")
                    .help(help),
            );
        };
        let arg = match (arguments.as_slice(), star) {
            ([], true) if found == Aggregate::Count => None,
            ([], true) => {
                takes(scope, "\"*\"", format!("name what it is computed of: {word}(column)"));
                return None;
            }
            ([arg], _) => Some(lower_expr(scope, arg, qualifiers)?),
            (several, _) => {
                let plural = if several.len() == 1 { "" } else { "s" };
                let what = format!("{} argument{plural}", several.len());
                takes(scope, &what, format!("it is called as {word}(x) or {word}(distinct x)"));
                return None;
            }
        };
        let span = expr.span.range();
        let item = AggregateItem { name, function: found, distinct: *distinct, arg, span };
        self.aggregates.push((expr.clone(), item));
        Some(())
    }
}

/// An aggregate function somewhere in an expression.
fn aggregate_in(expr: &Expr) -> Option<&Name> {
    call(expr).or_else(|| expr.children().into_iter().find_map(aggregate_in))
}

/// `f(*)` or `f(distinct x)` of a function that takes one row.
pub(super) fn not_aggregate(name: &Name, star: bool, scope: &mut Scope<'_>) {
    let what = if star { "*" } else { "distinct" };
    let headline = format!("\"{}\" is no aggregate function and does not take \"{what}\"", name.text);
    scope.report(
        Diagnostic::error(codes::ARGUMENT_COUNT, headline)
            .at(name.span.range(), "")
            .help("aggregate functions are count, sum, avg, min and max"),
    );
}
