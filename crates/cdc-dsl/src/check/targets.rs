//! Who writes which target table.
//!
//! Known tables are those of the schema files and those that a flow names exactly. Each flow is asked what
//! each of them would be called at its sink; two tables that meet under one name are a mistake, unless every
//! flow that leads there names that target itself. Flows that name one target must agree on its key. A view has its target
//! to itself: its rows may change all at once, and nothing would tell them from others.

use crate::ast::{Flow, Span};
use crate::lower::{LoweredFlow, SourceInfo, exact_table};
use crate::resolve::Scope;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::program::target_name;
use cdc_core::plan::{FlowPlan, TargetName};
use cdc_core::schema::{TableId, same_name};
use std::collections::{BTreeMap, BTreeSet};

/// A flow that was lowered.
#[derive(Clone, Copy)]
struct Whole<'f> {
    plan: &'f FlowPlan,
    flow: &'f Flow,
    source: usize,
}

struct Arrival<'f> {
    flow: Whole<'f>,
    table: TableId,
    /// The columns of the key, where they are known.
    key: Option<Vec<String>>,
}

/// Checks all flows together.
pub(crate) fn targets(flows: &[LoweredFlow<'_>], sources: &[SourceInfo], scope: &mut Scope<'_>) {
    let flows: Vec<Whole<'_>> = flows
        .iter()
        .filter_map(|f| Some(Whole { plan: f.plan.as_ref()?, flow: f.flow, source: f.source? }))
        .collect();
    let named = named_tables(&flows, sources);
    let mut arrivals: BTreeMap<(&str, String), Vec<Arrival<'_>>> = BTreeMap::new();
    for &flow in &flows {
        for table in known_tables(flow, &named, sources) {
            // a template that gives no name is reported where the flow is bound
            if let Ok(name) = target_name(flow.plan, &table) {
                let key = key_of(flow, &table, sources);
                let arrival = Arrival { flow, table, key };
                arrivals.entry((&flow.plan.sink, name)).or_default().push(arrival);
            }
        }
    }
    // the first of each two flows, and how many more there are
    let mut found: Vec<(Diagnostic, usize)> = Vec::new();
    for ((sink, name), here) in &arrivals {
        let Some(d) = collision(sink, name, here) else { continue };
        match found.iter_mut().find(|(f, _)| f.labels == d.labels) {
            Some((_, more)) => *more += 1,
            None => found.push((d, 0)),
        }
    }
    for (d, more) in found {
        scope.report(match more {
            0 => d,
            1 => d.note("so do tables of another name"),
            n => d.note(format!("so do tables of {n} other names")),
        });
    }
    keys(&flows, &arrivals, scope);
}

/// The tables of each source that are known: those of its schema file, and behind them those that a flow names.
fn named_tables(flows: &[Whole<'_>], sources: &[SourceInfo]) -> Vec<Vec<TableId>> {
    let mut tables: Vec<Vec<TableId>> =
        sources.iter().map(|s| s.schemas.iter().flatten().map(|t| t.id.clone()).collect()).collect();
    let mut seen: Vec<BTreeSet<TableId>> = tables.iter().map(|all| all.iter().cloned().collect()).collect();
    for flow in flows {
        let table = sources.get(flow.source).and_then(|source| exact_table(&flow.plan.tables, source));
        if let Some(table) = table
            && seen[flow.source].insert(table.clone())
        {
            tables[flow.source].push(table);
        }
    }
    tables
}

/// The tables that a flow is known to meet.
fn known_tables(flow: Whole<'_>, named: &[Vec<TableId>], sources: &[SourceInfo]) -> Vec<TableId> {
    let takes = |table: &&TableId| flow.plan.takes(table);
    match sources.get(flow.source).and_then(|source| exact_table(&flow.plan.tables, source)) {
        Some(table) => Some(&table).into_iter().filter(takes).cloned().collect(),
        None => named.get(flow.source).into_iter().flatten().filter(takes).cloned().collect(),
    }
}

/// The key that rows of this table have at the target, as far as it can be seen.
fn key_of(flow: Whole<'_>, table: &TableId, sources: &[SourceInfo]) -> Option<Vec<String>> {
    if let Some(key) = &flow.plan.key {
        return Some(key.clone());
    }
    // an operator may rename a column of the key
    if !flow.plan.ops.is_empty() {
        return None;
    }
    let schema = sources.get(flow.source)?.schemas.iter().flatten().find(|t| t.id == *table)?;
    Some(schema.key()?.iter().map(|i| schema.columns[*i].name.to_string()).collect())
}

fn target_span(flow: Whole<'_>) -> Span {
    flow.flow.target.span
}

fn collision(sink: &str, name: &str, here: &[Arrival<'_>]) -> Option<Diagnostic> {
    let is_named = |a: &Arrival<'_>| matches!(a.flow.plan.target, TargetName::Fixed(_));
    let first = here.first()?;
    let same_flow = |a: &Arrival<'_>| std::ptr::eq(a.flow.plan, first.flow.plan);
    let is_alone = |a: &Arrival<'_>| !is_named(a) || a.flow.plan.view.is_some();
    // the first other arrival such that one of both is not by name, or a view
    let other = here.iter().skip(1).find(|a| is_alone(a) || is_alone(first))?;
    let table = |a: &Arrival<'_>| match &a.flow.plan.view {
        Some(view) => format!("view \"{view}\""),
        None => format!("table \"{}\"", a.table),
    };
    let of_view = [first, other].into_iter().any(|a| a.flow.plan.view.is_some());
    let same_table = first.flow.source == other.flow.source && first.table == other.table;
    let headline = if same_table {
        format!("two flows write {} to \"{sink}.{name}\"", table(first))
    } else if of_view {
        format!("{} and {} meet in \"{sink}.{name}\"", table(first), table(other))
    } else {
        format!("tables \"{}\" and \"{}\" meet in \"{sink}.{name}\"", first.table, other.table)
    };
    let mut d = Diagnostic::error(codes::TARGET_COLLISION, headline).at(target_span(other.flow).range(), "");
    if !same_flow(other) {
        d = d.at(target_span(first.flow).range(), "and here");
    }
    let help = if of_view && !same_table {
        "write them to different targets; to put rows of several into one, write a view: from .. |> union all .."
            .to_owned()
    } else if of_view {
        "leave one of them out, or write to another target".to_owned()
    } else if same_table {
        "leave the table out of one of them, or write to another target".to_owned()
    } else {
        format!(
            "to put them into one table, name it in each flow: => {sink}.{name}; else put the database in: \
             => {sink}.\"{{database}}_{{table}}\""
        )
    };
    Some(d.help(help))
}

/// Two flows that name one target, with keys that are known to differ.
fn keys(flows: &[Whole<'_>], arrivals: &BTreeMap<(&str, String), Vec<Arrival<'_>>>, scope: &mut Scope<'_>) {
    let key_by_flow = |flow: &Whole<'_>| -> Option<Vec<String>> {
        flow.plan.key.clone().or_else(|| {
            let mut all = arrivals.values().flatten();
            all.find(|a| std::ptr::eq(a.flow.plan, flow.plan)).and_then(|a| a.key.clone())
        })
    };
    let mut first: BTreeMap<(&str, &str), &Whole<'_>> = BTreeMap::new();
    for flow in flows {
        let TargetName::Fixed(name) = &flow.plan.target else { continue };
        let earlier = *first.entry((&flow.plan.sink, name)).or_insert(flow);
        if std::ptr::eq(earlier, flow) {
            continue;
        }
        let (Some(a), Some(b)) = (key_by_flow(earlier), key_by_flow(flow)) else { continue };
        // the order of a key's columns does not matter to what it identifies
        let within = |x: &[String], y: &[String]| x.iter().all(|c| y.iter().any(|d| same_name(c, d)));
        if a.len() == b.len() && within(&a, &b) {
            continue;
        }
        let place = |f: &Whole<'_>| {
            let names = f.flow.key.as_deref().unwrap_or_default();
            match (names.first(), names.last()) {
                (Some(first), Some(last)) => first.span.to(last.span).range(),
                _ => f.flow.target.span.range(),
            }
        };
        let sink = &flow.plan.sink;
        scope.report(
            Diagnostic::error(
                codes::KEY_CONFLICT,
                format!("two flows write \"{sink}.{name}\" with different keys"),
            )
            .at(place(flow), format!("here ({})", b.join(", ")))
            .at(place(earlier), format!("here ({})", a.join(", ")))
            .help("write the same key (..) in both flows, or another target in one of them"),
        );
    }
}
