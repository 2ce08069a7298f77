//! What `cdc explain` prints: a plan as text, Mermaid, DOT or JSON.
//!
//! Each line is one operator of the dataflow, under the name that it has there, so that what is seen in a
//! log or on the status page can be found in the plan. The output depends on nothing but the plan: same plan,
//! same bytes. Secrets print as `***`.

mod expression;

use super::{FlowOp, FlowPlan, NamedExpr, OptionValue, Options, Plan, SelectItem, TargetName, TemplatePart};
use expression::name;
use std::fmt::Write as _;

/// One operator of a flow.
struct Operator {
    /// `filter[orders -> big_orders]`
    name: String,
    /// What it does.
    text: String,
}

/// The operators between a flow's source and its sink.
fn operators(flow: &FlowPlan) -> Vec<Operator> {
    let operator = |kind: &str, text| Operator { name: format!("{kind}[{}]", flow.name), text };
    let mut out: Vec<Operator> = flow
        .ops
        .iter()
        .map(|op| match op {
            FlowOp::Where(condition) => operator("filter", condition.to_string()),
            FlowOp::Select(items) => operator("map", format!("select {}", comma(items, select_item))),
            FlowOp::Extend(items) => operator("map", format!("extend {}", comma(items, named))),
            FlowOp::Drop(names) => operator("map", format!("drop {}", comma(names, |n| name(&n.name)))),
            FlowOp::Rename(pairs) => operator(
                "map",
                format!(
                    "rename {}",
                    comma(pairs, |(old, new)| format!("{} as {}", name(&old.name), name(new)))
                ),
            ),
        })
        .collect();
    let key = match &flow.key {
        Some(columns) => format!(" key ({})", comma(columns, |c| name(c))),
        None => String::new(),
    };
    out.push(operator("route", format!("{}{key}", target(&flow.target))));
    out
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
    if expr == column { expr } else { format!("{expr} as {column}") }
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

fn tables(flow: &FlowPlan) -> String {
    match &flow.tables.database {
        Some(database) => format!("{database}.{}", flow.tables.table),
        None => flow.tables.table.to_string(),
    }
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
    if parts.is_empty() { String::new() } else { format!(" with {{ {} }}", parts.join(", ")) }
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
    for flow in &plan.flows {
        let _ = writeln!(out, "\nflow {}{}", flow.name, flow_options(flow, plan));
        let _ = writeln!(out, "  source[{}] {}", flow.source, tables(flow));
        for operator in operators(flow) {
            let _ = writeln!(out, "  {} {}", operator.name, operator.text);
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
    for (f, flow) in plan.flows.iter().enumerate() {
        let source = plan.sources.iter().position(|s| s.name == flow.source);
        let sink = plan.sinks.iter().position(|s| s.name == flow.sink);
        let mut from = source.map(|i| format!("source{i}"));
        let mut over = tables(flow);
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
        let _ = writeln!(out, "  {id}[\"{}<br/>{}\"]", label(name), label(text));
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
        let _ = writeln!(out, "  {id} [label = \"{}\\n{}\"]", label(name), label(text));
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
    let flows = plan.flows.iter().map(|flow| {
        let operators = operators(flow)
            .into_iter()
            .map(|operator| object([("name", string(&operator.name)), ("text", string(&operator.text))]));
        let key = flow.key.as_ref().map_or("null".to_owned(), |k| list(k.iter().map(|c| string(c))));
        object([
            ("name", string(&flow.name)),
            ("source", string(&flow.source)),
            ("tables", string(&tables(flow))),
            ("operators", list(operators)),
            ("sink", string(&flow.sink)),
            ("target", string(&target(&flow.target))),
            ("key", key),
            ("on_schema_change", string(flow.on_schema_change.name())),
            ("include", list(flow.include.iter().map(|k| string(k)))),
            ("exclude", list(flow.exclude.iter().map(|k| string(k)))),
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
