//! Views together: which reads which, of what source they are, who reads them, and which columns they have.

use super::columns::{Columns, Walk};
use super::nulls;
use super::tables::unknown_table;
use crate::ast::{OpKind, OptionBlock, OptionEntry};
use crate::lower::{LoweredFlow, LoweredView, Read, ReadOf, SourceInfo, exact_table};
use crate::names::{Kind, Names};
use crate::resolve::Scope;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::program::{BoundFlow, Stage};
use cdc_core::plan::view::bind::{BoundView, bind};
use cdc_core::plan::view::{InputOf, OnConflict, Upsert, ViewInput, ViewOp, ViewPlan};
use cdc_core::plan::{FlowPlan, Plan};
use cdc_core::schema::TableSchema;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of the views of a file.
pub(crate) struct Views {
    /// The source that each is of, in the order of the file; `None` where that was reported.
    pub sources: Vec<Option<usize>>,
    /// What flows of each do about conflicts that do not say otherwise.
    pub on_conflict: Vec<OnConflict>,
    /// The columns of each.
    pub(super) columns: Vec<Columns>,
}

/// Checks views against each other and against the tables that are known.
pub(crate) fn views(views: &[LoweredView<'_>], sources: &[SourceInfo], scope: &mut Scope<'_>) -> Views {
    let order = order(views);
    cycles(views, &order, scope);
    let policy = |view: &LoweredView<'_>| view.plan.as_ref().map(|plan| plan.on_conflict.clone());
    let mut known = Views {
        sources: vec![None; views.len()],
        on_conflict: views.iter().map(|view| policy(view).unwrap_or_default()).collect(),
        columns: vec![Columns::open(); views.len()],
    };
    for index in order {
        let Some(view) = views.get(index) else { continue };
        known.sources[index] = source_of(view, &known.sources, sources, scope);
        let mut walk = walk(view, &known.columns, sources);
        let columns = walk.end(&view.view.name);
        // behind a mistake the columns are not sure any more
        if let Some(by) = known.on_conflict[index].by()
            && walk.diagnostics.is_empty()
        {
            walk.last_by(by, None);
        }
        // what is wrong with a view is not wrong with those who read it too
        if view.plan.is_some() && walk.diagnostics.is_empty() {
            known.columns[index] = columns;
        }
        scope.diagnostics.extend(walk.diagnostics);
    }
    known
}

/// The views that a view reads.
fn read_by<'v>(view: &'v LoweredView<'_>) -> impl Iterator<Item = (usize, &'v Read<'v>)> {
    view.reads.iter().filter_map(|read| match read.of {
        Some(ReadOf::View(index)) => Some((index, read)),
        _ => None,
    })
}

/// The views such that each stands behind those that it reads; those that are in a cycle, or read one that is, are left out.
fn order(views: &[LoweredView<'_>]) -> Vec<usize> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); views.len()];
    let mut waits_for: Vec<usize> = vec![0; views.len()];
    for (reader, view) in views.iter().enumerate() {
        for (index, _) in read_by(view) {
            if let Some(readers) = readers.get_mut(index) {
                readers.push(reader);
                waits_for[reader] += 1;
            }
        }
    }
    let mut order: Vec<usize> = (0..views.len()).filter(|i| waits_for[*i] == 0).collect();
    let mut next = 0;
    while let Some(&index) = order.get(next) {
        next += 1;
        for reader in std::mem::take(&mut readers[index]) {
            waits_for[reader] -= 1;
            if waits_for[reader] == 0 {
                order.push(reader);
            }
        }
    }
    order
}

/// Reports each cycle once, at all of its views.
fn cycles(views: &[LoweredView<'_>], order: &[usize], scope: &mut Scope<'_>) {
    let mut done = vec![false; views.len()];
    order.iter().for_each(|&i| done[i] = true);
    for start in 0..views.len() {
        // every view that is left reads another one that is: going on, one comes by a second time
        let mut path: Vec<(usize, &Read<'_>)> = Vec::new();
        let mut at = start;
        while !done[at] && !path.iter().any(|(index, _)| *index == at) {
            let left = read_by(&views[at]).find(|(index, _)| done.get(*index) == Some(&false));
            let Some((index, read)) = left else { break };
            path.push((at, read));
            at = index;
        }
        if let Some(first) = path.iter().position(|(index, _)| *index == at) {
            report_cycle(views, &path[first..], scope);
        }
        // those in front of a cycle read it, and nothing is wrong with them
        path.iter().for_each(|(index, _)| done[*index] = true);
    }
}

fn report_cycle(views: &[LoweredView<'_>], cycle: &[(usize, &Read<'_>)], scope: &mut Scope<'_>) {
    let name = |index: usize| &views[index].view.name.text;
    let Some((first, _)) = cycle.first() else { return };
    let headline = match cycle {
        [_] => format!("view \"{}\" reads itself", name(*first)),
        _ => {
            let names: Vec<String> = cycle.iter().map(|(index, _)| format!("\"{}\"", name(*index))).collect();
            format!("views read each other in a circle: {}, \"{}\"", names.join(", "), name(*first))
        }
    };
    let mut d = Diagnostic::error(codes::VIEW_CYCLE, headline);
    for (index, read) in cycle {
        let label = if cycle.len() == 1 { String::new() } else { format!("read by \"{}\"", name(*index)) };
        d = d.at(read.table.span.range(), label);
    }
    scope.report(d.help("let one of them read the tables instead"));
}

/// The source that all tables of a view are of.
fn source_of(
    view: &LoweredView<'_>,
    known: &[Option<usize>],
    sources: &[SourceInfo],
    scope: &mut Scope<'_>,
) -> Option<usize> {
    let mut first: Option<(usize, &Read<'_>)> = None;
    for read in &view.reads {
        let source = match read.of.as_ref()? {
            ReadOf::Table { source, .. } => *source,
            ReadOf::View(index) => (*known.get(*index)?)?,
        };
        match first {
            None => first = Some((source, read)),
            Some((other, at)) if other != source => {
                let name = |i: usize| sources.get(i).map_or("", |s| &s.plan.name);
                let headline = format!("view \"{}\" is of two sources", view.view.name.text);
                scope.report(
                    Diagnostic::error(codes::FEATURE_NOT_YET, headline)
                        .at(read.table.span.range(), format!("of \"{}\"", name(source)))
                        .at(at.table.span.range(), format!("of \"{}\"", name(other)))
                        .note("a state that two servers had at one time is not known"),
                );
                return None;
            }
            Some(_) => {}
        }
    }
    first.map(|(source, _)| source)
}

/// The walk through the operators of a view.
fn walk(view: &LoweredView<'_>, columns: &[Columns], sources: &[SourceInfo]) -> Walk {
    let mut reported = Vec::new();
    let mut reads = view.reads.iter().map(|read| {
        let columns = match &read.of {
            Some(ReadOf::View(index)) => columns.get(*index).cloned(),
            Some(ReadOf::Table { source, .. }) => {
                sources.get(*source).and_then(|source| columns_of(read, source, &mut reported))
            }
            None => None,
        };
        (read.alias, columns.unwrap_or_else(Columns::open))
    });
    let (alias, columns) = reads.next().unwrap_or((None, Columns::open()));
    let mut walk = Walk::of_view(alias, columns);
    for op in &view.view.ops {
        match &op.kind {
            OpKind::Join { kind, on, .. } => {
                let (alias, columns) = reads.next().unwrap_or((None, Columns::open()));
                walk.join(*kind, alias, columns, on);
            }
            OpKind::Union { .. } => {
                reads.next();
                walk.op(op);
            }
            _ => walk.op(op),
        }
    }
    drop(reads);
    walk.diagnostics.extend(reported);
    walk
}

/// The columns of a table, if its source's schema text has it.
fn columns_of(read: &Read<'_>, source: &SourceInfo, reported: &mut Vec<Diagnostic>) -> Option<Columns> {
    let Some(ReadOf::Table { table, .. }) = &read.of else { return None };
    // a file that covers no table was reported
    let schemas = source.schemas.as_ref().filter(|all| !all.is_empty())?;
    let id = exact_table(table, source)?;
    match schemas.iter().find(|schema| schema.id == id) {
        Some(schema) => Some(Columns::Known(schema.columns.iter().map(|c| c.name.to_string()).collect())),
        None => {
            reported.push(unknown_table(&id, schemas, read.table.span));
            None
        }
    }
}

/// Warns of views that no flow reads, neither itself nor through other views.
pub(crate) fn unread(
    views: &[LoweredView<'_>],
    flows: &[LoweredFlow<'_>],
    names: &Names<'_>,
    scope: &mut Scope<'_>,
) {
    let mut is_read = vec![false; views.len()];
    let mut open: Vec<usize> = flows.iter().filter_map(|flow| flow.view).collect();
    while let Some(index) = open.pop() {
        if let Some(seen) = is_read.get_mut(index)
            && !std::mem::replace(seen, true)
        {
            open.extend(read_by(&views[index]).map(|(index, _)| index));
        }
    }
    for (index, (view, is_read)) in views.iter().zip(is_read).enumerate() {
        let name = &view.view.name;
        // of one that is wrong, or has another one's name, enough was said
        let has_name = names.find(&name.text) == Some(Kind::View(index));
        if is_read || view.plan.is_none() || !has_name {
            continue;
        }
        scope.report(
            Diagnostic::warning(codes::NO_FLOW, format!("view \"{}\" is read by no flow", name.text))
                .at(name.span.range(), "")
                .help(format!("write one such as: {0} => sink.{0}", name.text)),
        );
    }
}

/// Warns where it is said what becomes of rows that agree in the key, and no key is stated in which they could: by a flow, or by a view for flows that
/// all are so.
pub(crate) fn never_in_conflict(views: &[LoweredView<'_>], flows: &[LoweredFlow<'_>], scope: &mut Scope<'_>) {
    fn said(block: Option<&OptionBlock>) -> Option<&OptionEntry> {
        block?.entries.iter().find(|entry| entry.name.text == "on_conflict")
    }
    let warning = |entry: &OptionEntry, headline: String| {
        Diagnostic::warning(codes::VIEW_CONFLICT, headline)
            .at(entry.name.span.range(), "")
            .note("rows are in conflict that agree in a key which a flow states; without one they are told apart by the view's key, or, where it has none, written as they are")
    };
    for flow in flows.iter().filter(|flow| flow.view.is_some()) {
        if let (Some(entry), Some(plan)) = (said(flow.flow.with.as_ref()), &flow.plan)
            && plan.on_conflict != OnConflict::Error
            && !plan.may_be_watched()
        {
            let headline = format!("no rows of flow \"{}\" can be in conflict", plan.name);
            scope.report(warning(entry, headline).help(
                "state the key that it is meant for: => target key (..); or leave \"on_conflict\" out",
            ));
        }
    }
    for (index, view) in views.iter().enumerate() {
        let says_more = view.plan.as_ref().is_some_and(|plan| plan.on_conflict != OnConflict::Error);
        let Some(entry) = said(view.view.with.as_ref()).filter(|_| says_more) else { continue };
        let asks = |flow: &LoweredFlow<'_>| {
            said(flow.flow.with.as_ref()).is_none()
                && flow.plan.as_ref().is_some_and(FlowPlan::may_be_watched)
        };
        let mut of_it = flows.iter().filter(|flow| flow.view == Some(index)).peekable();
        if of_it.peek().is_some() && !of_it.any(asks) {
            let headline =
                format!("no flow of view \"{}\" asks what it says of conflicts", view.view.name.text);
            scope.report(warning(entry, headline).help(
                "state the key that it is meant for in the flow: => target key (..); or leave \"on_conflict\" out",
            ));
        }
    }
}

/// Types, keys and collations of views and of the flows that read them, with the tables that are known: what the engine says
/// of a plan in which nothing else is wrong. This is the one place where it is asked.
pub(crate) fn types(plan: &Plan, flows: &[LoweredFlow<'_>], schemas: &[Arc<TableSchema>]) -> Vec<Diagnostic> {
    let wanted = with_known_tables(plan, schemas);
    let graph = match bind(&plan.views, &wanted, schemas) {
        Ok(graph) => graph,
        Err(found) => return found,
    };
    let not_null = nulls::of_views(&plan.views, &graph);
    let bound: BTreeMap<&str, &BoundView> = graph.views.iter().map(|v| (v.name.as_str(), v)).collect();
    let plans: BTreeMap<&str, &ViewPlan> = plan.views.iter().map(|v| (v.name.as_str(), v)).collect();
    let mut found = Vec::new();
    for (flow, lowered) in plan.flows.iter().zip(flows) {
        let Some(view) = flow.view.as_ref().and_then(|name| bound.get(name.as_str())) else { continue };
        let mut of_flow = match BoundFlow::bind(flow, &view.schema) {
            Ok(bound) => {
                let multiset = multiset(plans.get(view.name.as_str()), &bound, lowered);
                let mut columns = not_null.get(&view.name).cloned().unwrap_or_default();
                flow.ops.iter().for_each(|op| nulls::behind(&mut columns, op));
                let null = nulls::in_key(&bound, &columns, lowered);
                multiset.into_iter().chain(null).chain(unwatched(flow, view, lowered)).collect()
            }
            Err(found) => found,
        };
        for label in of_flow.iter_mut().flat_map(|d| &mut d.labels) {
            // what is wrong with a whole flow is wrong with what it makes
            if label.span == flow.span {
                label.span = lowered.flow.target.span.range();
            }
        }
        found.extend(of_flow);
    }
    found
}

/// A warning where nothing is known to identify the rows that a flow writes.
fn multiset(view: Option<&&ViewPlan>, bound: &BoundFlow, lowered: &LoweredFlow<'_>) -> Option<Diagnostic> {
    let one_row = view.is_some_and(|view| {
        let of_groups = view.ops.iter().rfind(|op| !matches!(op, ViewOp::Row(_)));
        matches!(of_groups, Some(ViewOp::Aggregate { group_by, .. }) if group_by.is_empty())
    });
    if one_row || !bound.target().key.is_empty() {
        return None;
    }
    let name = &lowered.flow.head.root.text;
    let headline = format!("view \"{name}\" has no key: it is written as a multiset");
    Some(
        Diagnostic::warning(codes::NO_KEY, headline)
            .at(lowered.flow.head.span.range(), "")
            .note("each update and delete looks through the target's table for an equal row")
            .help("if some columns identify a row, name them in the flow: => target key (..)"),
    )
}

/// A warning where a flow says that nobody is to watch a key of which nothing proves that it tells the rows apart.
fn unwatched(flow: &FlowPlan, view: &BoundView, lowered: &LoweredFlow<'_>) -> Option<Diagnostic> {
    if flow.upsert != Upsert::None {
        return None;
    }
    let mut rows = view.schema.clone();
    for op in &flow.ops {
        rows = Stage::bind(op, &rows).ok()?.output().clone();
    }
    let stated: Option<Vec<usize>> = flow.key.as_ref()?.iter().map(|name| rows.column_index(name)).collect();
    let auto = FlowPlan { upsert: Upsert::Auto, ..flow.clone() };
    if !auto.is_watched(&rows, &stated?) {
        return None;
    }
    let entry = lowered.flow.with.iter().flat_map(|b| &b.entries).find(|e| e.name.text == "upsert")?;
    let headline = format!("nothing watches the key of flow \"{}\"", flow.name);
    Some(
        Diagnostic::warning(codes::VIEW_CONFLICT, headline)
            .at(entry.value.span.range(), "")
            .note(format!(
                "nothing proves that the key tells the rows of view \"{}\" apart: of two that agree in it one would be lost, and which one is not said",
                view.name
            ))
            .help("leave \"upsert\" out, or add the columns of the view's key"),
    )
}

/// The views all of whose tables are known, and those of the views that they read.
fn with_known_tables(plan: &Plan, schemas: &[Arc<TableSchema>]) -> BTreeSet<String> {
    let mut known: BTreeSet<String> = plan.views.iter().map(|v| v.name.clone()).collect();
    let is_unknown = |input: &ViewInput| match &input.of {
        InputOf::Table { table, .. } => !schemas.iter().any(|schema| table.matches(&schema.id)),
        InputOf::View(name) => !known.contains(name),
    };
    let mut readers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for view in &plan.views {
        for input in view.inputs() {
            if let InputOf::View(name) = &input.of {
                readers.entry(name).or_default().push(&view.name);
            }
        }
    }
    let mut open: Vec<&str> =
        plan.views.iter().filter(|v| v.inputs().any(is_unknown)).map(|v| v.name.as_str()).collect();
    while let Some(name) = open.pop() {
        if known.remove(name) {
            open.extend(readers.get(name).into_iter().flatten());
        }
    }
    known
}
