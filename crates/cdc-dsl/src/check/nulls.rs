//! Which columns can be seen to hold no NULL where a key is made of them, though their types let them.

use crate::lower::LoweredFlow;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::expr::{BinaryOp, Expr, ExprKind};
use cdc_core::plan::program::BoundFlow;
use cdc_core::plan::view::bind::Graph;
use cdc_core::plan::view::{InputOf, JoinKind, ViewOp, ViewPlan};
use cdc_core::plan::{FlowOp, NamedExpr, SelectItem};
use std::collections::{BTreeMap, BTreeSet};

/// Columns that hold no NULL, by their names in lower case. That of a join does not say of which side one is: too much is taken for
/// known rather than too little, since nothing hangs on it but a warning.
pub(super) type NotNull = BTreeSet<String>;

/// Those of each view that is read, and of the views that it reads.
pub(super) fn of_views(plans: &[ViewPlan], graph: &Graph) -> BTreeMap<String, NotNull> {
    let by_name: BTreeMap<&str, &ViewPlan> = plans.iter().map(|plan| (plan.name.as_str(), plan)).collect();
    let mut known: BTreeMap<String, NotNull> = BTreeMap::new();
    // each behind those that it reads
    for view in &graph.views {
        let Some(plan) = by_name.get(view.name.as_str()) else { continue };
        let of_input = match &plan.from.of {
            InputOf::View(name) => known.get(name).cloned(),
            InputOf::Table { .. } => None,
        };
        let mut columns = of_input.unwrap_or_default();
        plan.ops.iter().for_each(|op| behind_view_op(&mut columns, op));
        known.insert(view.name.clone(), columns);
    }
    known
}

fn behind_view_op(columns: &mut NotNull, op: &ViewOp) {
    match op {
        ViewOp::Row(op) => behind(columns, op),
        ViewOp::Join { kind: JoinKind::Inner | JoinKind::Semi, on, .. } => excluded(on, columns),
        ViewOp::Join { kind: JoinKind::Left | JoinKind::Anti, .. }
        | ViewOp::Distinct { .. }
        | ViewOp::Top { .. } => {}
        ViewOp::Aggregate { group_by, .. } => *columns = named(columns, group_by),
        ViewOp::Join { .. } | ViewOp::Union { .. } => columns.clear(),
    }
}

/// Those behind an operator.
pub(super) fn behind(columns: &mut NotNull, op: &FlowOp) {
    match op {
        FlowOp::Where(condition) => excluded(condition, columns),
        FlowOp::Select(items) => {
            let mut next = NotNull::new();
            for item in items {
                match item {
                    SelectItem::Star { except } => {
                        let left: NotNull = except.iter().map(|c| c.name.to_lowercase()).collect();
                        next.extend(columns.difference(&left).cloned());
                    }
                    SelectItem::Expr(item) => next.extend(named(columns, std::slice::from_ref(item))),
                }
            }
            *columns = next;
        }
        FlowOp::Extend(items) => {
            let made = named(columns, items);
            for item in items {
                columns.remove(&item.name.to_lowercase());
            }
            columns.extend(made);
        }
        FlowOp::Drop(names) => {
            columns.retain(|column| !names.iter().any(|name| name.name.to_lowercase() == *column))
        }
        FlowOp::Rename(pairs) => {
            let renamed: Vec<String> = pairs
                .iter()
                .filter(|(from, _)| columns.remove(&from.name.to_lowercase()))
                .map(|(_, to)| to.to_lowercase())
                .collect();
            columns.extend(renamed);
        }
    }
}

/// Which of these are plain columns that hold no NULL, by their new names.
fn named(columns: &NotNull, items: &[NamedExpr]) -> NotNull {
    let is_known = |expr: &Expr| column(expr).is_some_and(|name| columns.contains(&name));
    items.iter().filter(|item| is_known(&item.expr)).map(|item| item.name.to_lowercase()).collect()
}

fn column(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Column(column) | ExprKind::Of { column, .. } => Some(column.to_lowercase()),
        _ => None,
    }
}

/// The columns of which a condition lets no NULL pass.
fn excluded(condition: &Expr, out: &mut NotNull) {
    let mut open = vec![condition];
    while let Some(condition) = open.pop() {
        match &condition.kind {
            ExprKind::Binary(BinaryOp::And, a, b) => open.extend([&**a, &**b]),
            ExprKind::Binary(
                BinaryOp::Equal
                | BinaryOp::NotEqual
                | BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual,
                a,
                b,
            ) => out.extend([a, b].into_iter().filter_map(|side| column(side))),
            ExprKind::IsNull { operand, negated: true }
            | ExprKind::IsTruth { operand, negated: false, .. }
            | ExprKind::Between { operand, .. }
            | ExprKind::In { operand, .. }
            | ExprKind::Like { operand, .. } => out.extend(column(operand)),
            _ => {}
        }
    }
}

/// A warning where a key may hold NULL.
pub(super) fn in_key(bound: &BoundFlow, columns: &NotNull, lowered: &LoweredFlow<'_>) -> Option<Diagnostic> {
    let target = bound.target();
    let key = target.key.iter().filter_map(|&i| target.schema.columns.get(i));
    let column = key.into_iter().find(|c| c.nullable && !columns.contains(&c.name.to_lowercase()))?;
    let name = &column.name;
    let place = lowered.flow.key.iter().flatten().find(|n| n.text.eq_ignore_ascii_case(name));
    let place = place.map_or(lowered.flow.head.span, |n| n.span);
    let headline = format!("the key column \"{name}\" of target table \"{}\" can be NULL", target.name);
    Some(
        Diagnostic::warning(codes::KEY_COLUMN_NULL, headline)
            .at(place.range(), "")
            .note("a run stops at the first row with NULL in its key: it could not be found again")
            .help(format!(
                "leave such rows out: |> where {name} is not null; or give them a value: coalesce({name}, ..); or name other columns in key (..)"
            )),
    )
}
