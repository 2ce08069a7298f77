//! What `cdc explain` prints: a plan as text, Mermaid, DOT or JSON.
//!
//! Each line is one operator of the dataflow, under the name that it has there, so that what is seen in a
//! log or on the status page can be found in the plan. A view's first line and what stands behind `join` and `union` are the
//! operators whose rows it takes: `upsert[source.table]`, one for each table that views read, or another `view[name]`. The output depends on nothing but the plan: same plan,
//! same bytes. Secrets print as `***`.

mod expression;

use super::pattern::{TablePattern, TableSet};
use super::view::{AggregateItem, InputOf, OnConflict, OrderKey, Upsert, ViewInput, ViewOp, ViewPlan};
use super::{FlowOp, FlowPlan, NamedExpr, OptionValue, Options, Plan, SelectItem, TargetName, TemplatePart};
use crate::expr::ExprKind;
use expression::name;
pub use expression::name as as_written;
use std::fmt::Write as _;

/// One operator of a flow or a view.
struct Operator {
    /// `filter[orders -> big_orders]`
    name: String,
    /// What it does.
    text: String,
}

impl Operator {
    /// `name text`
    fn line(&self) -> String {
        if self.text.is_empty() { self.name.clone() } else { format!("{} {}", self.name, self.text) }
    }
}

/// An operator on rows one by one, of a flow or a view.
fn row_operator(op: &FlowOp, of: &str) -> Operator {
    let operator = |kind: &str, text| Operator { name: format!("{kind}[{of}]"), text };
    match op {
        FlowOp::Where(condition) => operator("filter", condition.to_string()),
        FlowOp::Select(items) => operator("map", format!("select {}", comma(items, select_item))),
        FlowOp::Extend(items) => operator("map", format!("extend {}", comma(items, named))),
        FlowOp::Drop(names) => operator("map", format!("drop {}", comma(names, |n| name(&n.name)))),
        FlowOp::Rename(pairs) => operator(
            "map",
            format!("rename {}", comma(pairs, |(old, new)| format!("{} as {}", name(&old.name), name(new)))),
        ),
    }
}

/// The operators between a flow's source and its sink.
fn operators(flow: &FlowPlan) -> Vec<Operator> {
    let mut out: Vec<Operator> = flow.ops.iter().map(|op| row_operator(op, &flow.name)).collect();
    let key = flow.key.as_ref().map(|columns| format!("key ({})", comma(columns, |c| name(c))));
    if let (Some(_), Some(key)) = (&flow.view, &key) {
        let watched = match flow.upsert {
            Upsert::Force => Some(key.clone()),
            // which key a view has is known with its tables
            Upsert::Auto => Some(format!("{key}, left out if the view's own key is part of it")),
            Upsert::None => None,
        };
        let operator = |text| Operator { name: format!("upsert[{}]", flow.name), text };
        out.extend(watched.map(operator));
    }
    let key = key.map(|key| format!(" {key}")).unwrap_or_default();
    let text = format!("{}{key}", target(&flow.target));
    out.push(Operator { name: format!("route[{}]", flow.name), text });
    out
}

/// The operators of a view up to its end, each with the other input that it takes.
fn view_operators<'p>(view: &'p ViewPlan, plan: &Plan) -> Vec<(Operator, Option<&'p ViewInput>)> {
    let operator = |kind: &str, text| Operator { name: format!("{kind}[{}]", view.name), text };
    let operators = view.ops.iter().map(|op| match op {
        ViewOp::Row(op) => (row_operator(op, &view.name), None),
        ViewOp::Join { kind, with, on, .. } => {
            let text = format!("{} {} on {on}", kind.word(), input(with, plan));
            let name = format!("{}[{}: {}]", kind.word().replace(' ', "_"), view.name, with.alias);
            (Operator { name, text }, Some(with))
        }
        ViewOp::Aggregate { group_by, items, .. } => {
            let groups = match group_by[..] {
                [] => String::new(),
                _ => format!("group by {}", comma(group_by, named)),
            };
            let items = comma(items, aggregate);
            let text = [items, groups].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join(" ");
            (operator("aggregate", text), None)
        }
        ViewOp::Distinct { .. } => (operator("distinct", String::new()), None),
        ViewOp::Union { all, with, .. } => {
            let word = if *all { "union all" } else { "union distinct" };
            (operator("union", format!("{word} {}", input(with, plan))), Some(with))
        }
        ViewOp::Top { count, by, per, .. } => {
            let groups = match per[..] {
                [] => String::new(),
                _ => format!(" per {}", comma(per, ToString::to_string)),
            };
            (operator("top", format!("{count} by {}{groups}", comma(by, order))), None)
        }
    });
    operators.collect()
}

/// The end of a view, which flows and other views read.
fn view_end(view: &str) -> String {
    format!("view[{view}]")
}

/// The operator whose rows an input gives.
fn input_operator(input: &ViewInput, plan: &Plan) -> String {
    match &input.of {
        InputOf::Table { source, table } => format!("upsert[{source}.{}]", whole_name(source, table, plan)),
        InputOf::View(view) => view_end(view),
    }
}

/// A table with its database, where that is known: it is left out where the source covers one.
fn whole_name(source: &str, table: &TablePattern, plan: &Plan) -> String {
    let texts = plan.sources.iter().find(|s| s.name == source).and_then(|s| s.options.list("tables"));
    let set = texts.and_then(|texts| TableSet::parse(texts).ok());
    match (&table.database, set.as_ref().and_then(TableSet::only_database)) {
        (None, Some(database)) => format!("{database}.{}", table.table),
        _ => pattern(table),
    }
}

/// `upsert[src.shop.orders] as o`
fn input(input: &ViewInput, plan: &Plan) -> String {
    let own = match &input.of {
        InputOf::Table { table, .. } => table.table.as_str(),
        InputOf::View(view) => view,
    };
    let alias = if own == input.alias { String::new() } else { format!(" as {}", name(&input.alias)) };
    format!("{}{alias}", input_operator(input, plan))
}

/// The inputs of a view.
fn inputs(view: &ViewPlan) -> impl Iterator<Item = &ViewInput> {
    let others = view.ops.iter().filter_map(|op| match op {
        ViewOp::Join { with, .. } | ViewOp::Union { with, .. } => Some(with),
        _ => None,
    });
    std::iter::once(&view.from).chain(others)
}

fn aggregate(item: &AggregateItem) -> String {
    let distinct = if item.distinct { "distinct " } else { "" };
    let arg = item.arg.as_ref().map_or("*".to_owned(), ToString::to_string);
    format!("{}({distinct}{arg}) as {}", item.function.name(), name(&item.name))
}

fn order(key: &OrderKey) -> String {
    format!("{}{}", key.expr, if key.descending { " desc" } else { "" })
}

/// `last`, or `{ last = changed_at }`.
fn conflict(policy: &OnConflict) -> String {
    match policy.by() {
        None => policy.word().to_owned(),
        Some(by) if name(&by.name) == by.name => format!("{{ {} = {} }}", policy.word(), by.name),
        Some(by) => format!("{{ {} = {} }}", policy.word(), quoted(&by.name)),
    }
}

/// The column that a policy names, for other programs.
fn conflict_by(policy: &OnConflict) -> String {
    policy.by().map_or("null".to_owned(), |by| string(&by.name))
}

fn upsert_word(strategy: Upsert) -> &'static str {
    Upsert::ALL.iter().find(|(s, _)| *s == strategy).map_or("", |(_, word)| word)
}

fn comma<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn select_item(item: &SelectItem) -> String {
    match item {
        SelectItem::Star { except } if except.is_empty() => "*".to_owned(),
        SelectItem::Star { except } => format!("* except ({})", comma(except, |n| name(&n.name))),
        SelectItem::Expr(item) => named(item),
    }
}

fn named(item: &NamedExpr) -> String {
    let (expr, column) = (item.expr.to_string(), name(&item.name));
    let is_named_so = match &item.expr.kind {
        ExprKind::Of { column, .. } => *column == item.name,
        _ => expr == column,
    };
    if is_named_so { expr } else { format!("{expr} as {column}") }
}

fn target(target: &TargetName) -> String {
    match target {
        TargetName::SameAsSource => "*".to_owned(),
        TargetName::Fixed(table) => name(table),
        TargetName::Template(parts) => {
            let part = |part: &TemplatePart| match part {
                TemplatePart::Text(text) => text.clone(),
                TemplatePart::Group(group) => format!("{{{group}}}"),
            };
            quoted(&parts.iter().map(part).collect::<String>())
        }
    }
}

fn pattern(tables: &TablePattern) -> String {
    match &tables.database {
        Some(database) => format!("{database}.{}", tables.table),
        None => tables.table.to_string(),
    }
}

/// What a flow reads: some tables, or a view.
fn tables(flow: &FlowPlan) -> String {
    flow.view.clone().unwrap_or_else(|| pattern(&flow.tables))
}

fn with_options(parts: &[String]) -> String {
    if parts.is_empty() { String::new() } else { format!(" with {{ {} }}", parts.join(", ")) }
}

/// Options of a flow that are not the pipeline's.
fn flow_options(flow: &FlowPlan, plan: &Plan) -> String {
    let mut parts = Vec::new();
    if flow.on_schema_change != plan.on_schema_change {
        parts.push(format!("on_schema_change = {}", flow.on_schema_change.name()));
    }
    for (word, kinds) in [("include", &flow.include), ("exclude", &flow.exclude)] {
        if !kinds.is_empty() {
            parts.push(format!("{word} = [{}]", kinds.join(", ")));
        }
    }
    if flow.upsert != Upsert::default() {
        parts.push(format!("upsert = {}", upsert_word(flow.upsert)));
    }
    if flow.on_conflict != OnConflict::default() {
        parts.push(format!("on_conflict = {}", conflict(&flow.on_conflict)));
    }
    with_options(&parts)
}

/// Options of a view.
fn view_options(view: &ViewPlan) -> String {
    let mut parts: Vec<String> = view.ttl_ms.iter().map(|ms| format!("ttl = {}", duration(*ms))).collect();
    if view.on_conflict != OnConflict::default() {
        parts.push(format!("on_conflict = {}", conflict(&view.on_conflict)));
    }
    with_options(&parts)
}

/// In double quotes, with what would end them or break the line escaped.
fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn duration(ms: u64) -> String {
    match ms {
        0 => "\"0s\"".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("\"{}h\"", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("\"{}m\"", ms / 60_000),
        _ if ms.is_multiple_of(1000) => format!("\"{}s\"", ms / 1000),
        _ => format!("\"{ms}ms\""),
    }
}

fn option_text(value: &OptionValue) -> String {
    match value {
        OptionValue::Text(v) => quoted(v),
        OptionValue::Secret(_) => "***".to_owned(),
        OptionValue::Integer(v) => v.to_string(),
        OptionValue::Bool(v) => v.to_string(),
        OptionValue::Duration(ms) => duration(*ms),
        OptionValue::List(v) => format!("[{}]", comma(v, |t| quoted(t))),
        OptionValue::Map(v) => options_text(v),
    }
}

fn options_text(options: &Options) -> String {
    if options.0.is_empty() {
        return "{}".to_owned();
    }
    let parts: Vec<_> = options.0.iter().map(|(n, v)| format!("{n} = {}", option_text(v))).collect();
    format!("{{ {} }}", parts.join(", "))
}

/// One line per operator, in the order in which rows pass them.
pub fn to_text(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "pipeline {}", name(&plan.name));
    let checkpoint = &plan.checkpoint;
    let _ = writeln!(out, "  checkpoint {} every {}", quoted(&checkpoint.dir), duration(checkpoint.every_ms));
    let _ = writeln!(out, "  on_schema_change {}", plan.on_schema_change.name());
    let _ = writeln!(out, "  time_zone {}", quoted(&plan.time_zone));
    let _ = writeln!(out);
    for source in &plan.sources {
        let _ =
            writeln!(out, "source[{}] {} {}", source.name, source.connector, options_text(&source.options));
    }
    for sink in &plan.sinks {
        let _ = writeln!(out, "sink[{}] {} {}", sink.name, sink.connector, options_text(&sink.options));
    }
    for view in &plan.views {
        let _ = writeln!(out, "\nview {}{}", name(&view.name), view_options(view));
        let _ = writeln!(out, "  {}", input(&view.from, plan));
        for (operator, _) in view_operators(view, plan) {
            let _ = writeln!(out, "  {}", operator.line());
        }
        let _ = writeln!(out, "  {}", view_end(&view.name));
    }
    for flow in &plan.flows {
        let _ = writeln!(out, "\nflow {}{}", flow.name, flow_options(flow, plan));
        let _ = match &flow.view {
            Some(view) => writeln!(out, "  {}", view_end(view)),
            None => writeln!(out, "  source[{}] {}", flow.source, tables(flow)),
        };
        for operator in operators(flow) {
            let _ = writeln!(out, "  {}", operator.line());
        }
        let _ = writeln!(out, "  sink[{}]", flow.sink);
    }
    out
}

/// The nodes and edges of the dataflow: an id, its name, what it does.
struct Graph {
    nodes: Vec<(String, String, String)>,
    /// From, to, and what goes over.
    edges: Vec<(String, String, String)>,
}

fn graph(plan: &Plan) -> Graph {
    let mut graph = Graph { nodes: Vec::new(), edges: Vec::new() };
    for (i, source) in plan.sources.iter().enumerate() {
        graph.nodes.push((
            format!("source{i}"),
            format!("source[{}]", source.name),
            source.connector.clone(),
        ));
    }
    for (i, sink) in plan.sinks.iter().enumerate() {
        graph.nodes.push((format!("sink{i}"), format!("sink[{}]", sink.name), sink.connector.clone()));
    }
    graph.views(plan);
    for (f, flow) in plan.flows.iter().enumerate() {
        let sink = plan.sinks.iter().position(|s| s.name == flow.sink);
        let (mut from, mut over) = match &flow.view {
            Some(view) => (view_id(plan, view), String::new()),
            None => (source_id(plan, &flow.source), tables(flow)),
        };
        for (o, operator) in operators(flow).into_iter().enumerate() {
            let id = format!("flow{f}_{o}");
            graph.nodes.push((id.clone(), operator.name, operator.text));
            if let Some(from) = from {
                graph.edges.push((from, id.clone(), std::mem::take(&mut over)));
            }
            from = Some(id);
        }
        if let (Some(from), Some(i)) = (from, sink) {
            graph.edges.push((from, format!("sink{i}"), String::new()));
        }
    }
    graph
}

fn source_id(plan: &Plan, source: &str) -> Option<String> {
    plan.sources.iter().position(|s| s.name == source).map(|i| format!("source{i}"))
}

/// The node at the end of a view.
fn view_id(plan: &Plan, view: &str) -> Option<String> {
    plan.views.iter().position(|v| v.name == view).map(|i| format!("view{i}"))
}

impl Graph {
    /// The tables that views read, each once, then the views.
    fn views(&mut self, plan: &Plan) {
        let mut tables: Vec<String> = Vec::new();
        for of in plan.views.iter().flat_map(inputs) {
            let InputOf::Table { source, table } = &of.of else { continue };
            let node = input_operator(of, plan);
            if tables.contains(&node) {
                continue;
            }
            let id = format!("table{}", tables.len());
            self.nodes.push((id.clone(), node.clone(), String::new()));
            let over = whole_name(source, table, plan);
            self.edges.extend(source_id(plan, source).map(|source| (source, id, over)));
            tables.push(node);
        }
        let from = |of: &ViewInput| match &of.of {
            InputOf::Table { .. } => {
                let node = input_operator(of, plan);
                tables.iter().position(|t| *t == node).map(|i| format!("table{i}"))
            }
            InputOf::View(view) => view_id(plan, view),
        };
        for (v, view) in plan.views.iter().enumerate() {
            let mut before = from(&view.from);
            for (o, (operator, with)) in view_operators(view, plan).into_iter().enumerate() {
                let id = format!("view{v}_{o}");
                self.nodes.push((id.clone(), operator.name, operator.text));
                for from in before.into_iter().chain(with.and_then(from)) {
                    self.edges.push((from, id.clone(), String::new()));
                }
                before = Some(id);
            }
            let id = format!("view{v}");
            self.nodes.push((id.clone(), view_end(&view.name), String::new()));
            self.edges.extend(before.map(|before| (before, id, String::new())));
        }
    }
}

/// A flowchart in Mermaid's language.
pub fn to_mermaid(plan: &Plan) -> String {
    // Mermaid takes `#name;` where HTML has `&name;`
    let label = |text: &str| {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '"' => out.push_str("#quot;"),
                '#' => out.push_str("#35;"),
                '<' => out.push_str("#lt;"),
                '>' => out.push_str("#gt;"),
                '&' => out.push_str("#amp;"),
                '\n' | '\r' => out.push(' '),
                c => out.push(c),
            }
        }
        out
    };
    let graph = graph(plan);
    let mut out = String::from("flowchart TD\n");
    for (id, name, text) in &graph.nodes {
        let _ = match text.as_str() {
            "" => writeln!(out, "  {id}[\"{}\"]", label(name)),
            text => writeln!(out, "  {id}[\"{}<br/>{}\"]", label(name), label(text)),
        };
    }
    for (from, to, over) in &graph.edges {
        let _ = match over.as_str() {
            "" => writeln!(out, "  {from} --> {to}"),
            over => writeln!(out, "  {from} -->|\"{}\"| {to}", label(over)),
        };
    }
    out
}

/// A graph in Graphviz' language.
pub fn to_dot(plan: &Plan) -> String {
    let label = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
    let graph = graph(plan);
    let mut out = format!("digraph \"{}\" {{\n  rankdir = TB\n  node [shape = box]\n", label(&plan.name));
    for (id, name, text) in &graph.nodes {
        let _ = match text.as_str() {
            "" => writeln!(out, "  {id} [label = \"{}\"]", label(name)),
            text => writeln!(out, "  {id} [label = \"{}\\n{}\"]", label(name), label(text)),
        };
    }
    for (from, to, over) in &graph.edges {
        let _ = match over.as_str() {
            "" => writeln!(out, "  {from} -> {to}"),
            over => writeln!(out, "  {from} -> {to} [label = \"{}\"]", label(over)),
        };
    }
    out.push_str("}\n");
    out
}

/// The plan as JSON, for other programs; expressions and patterns as text.
pub fn to_json(plan: &Plan) -> String {
    let connectors = |items: Vec<(&String, &String, &Options)>| {
        list(items.into_iter().map(|(name, connector, options)| {
            object([
                ("name", string(name)),
                ("connector", string(connector)),
                ("options", json_options(options)),
            ])
        }))
    };
    let operator =
        |operator: Operator| object([("name", string(&operator.name)), ("text", string(&operator.text))]);
    let views = plan.views.iter().map(|view| {
        object([
            ("name", string(&view.name)),
            ("from", string(&input(&view.from, plan))),
            ("operators", list(view_operators(view, plan).into_iter().map(|(op, _)| operator(op)))),
            ("ttl_ms", view.ttl_ms.map_or("null".to_owned(), |ms| ms.to_string())),
            ("on_conflict", string(view.on_conflict.word())),
            ("conflict_by", conflict_by(&view.on_conflict)),
        ])
    });
    let flows = plan.flows.iter().map(|flow| {
        let operators = operators(flow).into_iter().map(operator);
        let key = flow.key.as_ref().map_or("null".to_owned(), |k| list(k.iter().map(|c| string(c))));
        object([
            ("name", string(&flow.name)),
            ("source", string(&flow.source)),
            ("tables", string(&tables(flow))),
            ("view", flow.view.as_ref().map_or("null".to_owned(), |view| string(view))),
            ("operators", list(operators)),
            ("sink", string(&flow.sink)),
            ("target", string(&target(&flow.target))),
            ("key", key),
            ("on_schema_change", string(flow.on_schema_change.name())),
            ("include", list(flow.include.iter().map(|k| string(k)))),
            ("exclude", list(flow.exclude.iter().map(|k| string(k)))),
            ("upsert", string(upsert_word(flow.upsert))),
            ("on_conflict", string(flow.on_conflict.word())),
            ("conflict_by", conflict_by(&flow.on_conflict)),
        ])
    });
    let mut out = object([
        ("pipeline", string(&plan.name)),
        (
            "checkpoint",
            object([
                ("dir", string(&plan.checkpoint.dir)),
                ("every_ms", plan.checkpoint.every_ms.to_string()),
            ]),
        ),
        ("on_schema_change", string(plan.on_schema_change.name())),
        ("time_zone", string(&plan.time_zone)),
        ("sources", connectors(plan.sources.iter().map(|s| (&s.name, &s.connector, &s.options)).collect())),
        ("sinks", connectors(plan.sinks.iter().map(|s| (&s.name, &s.connector, &s.options)).collect())),
        ("views", list(views)),
        ("flows", list(flows)),
    ]);
    out.push('\n');
    out
}

fn json_options(options: &Options) -> String {
    let value = |value: &OptionValue| match value {
        OptionValue::Text(v) => string(v),
        OptionValue::Secret(_) => string("***"),
        OptionValue::Integer(v) => v.to_string(),
        OptionValue::Bool(v) => v.to_string(),
        OptionValue::Duration(ms) => string(duration(*ms).trim_matches('"')),
        OptionValue::List(v) => list(v.iter().map(|t| string(t))),
        OptionValue::Map(v) => json_options(v),
    };
    object(options.0.iter().map(|(name, v)| (name.as_str(), value(v))))
}

fn object<'n>(members: impl IntoIterator<Item = (&'n str, String)>) -> String {
    let members: Vec<_> = members.into_iter().map(|(n, v)| format!("{}:{v}", string(n))).collect();
    format!("{{{}}}", members.join(","))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// RFC 8259, section 7.
fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
