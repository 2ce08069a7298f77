//! The syntax tree to a plan.
//!
//! Everything that can be checked is checked, also behind an error: what an error touches is left out, the
//! rest goes on. A plan comes out only if no error was reported.

mod aggregate;
mod expr;
mod flow;
mod literal;
mod table;
mod test;
mod view;

use crate::ast::{Connection, OptionBlock, OptionValueKind, Span, Statement, StatementKind, TextPart};
use crate::check;
use crate::names::Names;
use crate::options::check_options;
use crate::parser::Parse;
use crate::resolve::Scope;
use crate::suggest::help_for;
use crate::values::offset_minutes;
pub(crate) use aggregate::{is_aggregate, same_expr};
use cdc_core::catalog::{Catalog, ConnectorRole, OptionDescriptor, OptionKind};
use cdc_core::diagnostic::{Diagnostic, Severity, codes};
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::{CheckpointPlan, Options, Plan, SchemaChangeMode, SinkPlan, SourcePlan};
use cdc_core::schema::TableSchema;
pub(crate) use flow::LoweredFlow;
use std::sync::Arc;
pub(crate) use table::exact_table;
pub(crate) use view::{LoweredView, Read, ReadOf};

/// A source, and what is known of its tables.
pub(crate) struct SourceInfo {
    pub plan: SourcePlan,
    /// The `tables` option, if it has a well-formed one.
    pub tables: Option<TableSet>,
    /// The tables of its `schema` file that `tables` covers, if it has one that could be read.
    pub schemas: Option<Vec<Arc<TableSchema>>>,
}

/// Checks and lowers a file that was read.
pub(crate) fn lower(text: &str, parse: &Parse, catalog: &Catalog<'_>) -> (Option<Plan>, Vec<Diagnostic>) {
    let mut scope = Scope::new(catalog);
    let statements = &parse.file.statements;
    scope.zone_minutes = written_zone(statements).as_deref().map_or(Some(0), offset_minutes);
    declare_params(statements, &mut scope);
    let names = Names::collect(parse, &mut scope);
    let pipeline = pipeline(statements, &mut scope);

    let mut sources = Vec::new();
    let mut sinks = Vec::new();
    for statement in statements {
        match &statement.kind {
            StatementKind::Source(c) => sources.push(source(c, statement.span, &mut scope)),
            StatementKind::Sink(c) => {
                let options = connection(c, ConnectorRole::Sink, &mut scope);
                let (name, connector) = (c.name.text.clone(), c.connector.text.clone());
                sinks.push(SinkPlan { name, connector, options, span: statement.span.range() });
            }
            _ => {}
        }
    }

    let context = flow::Context { text, names: &names, sources: &sources, mode: pipeline.on_schema_change };
    let views = context.views(statements, &mut scope);
    let known = check::views(&views, &sources, &mut scope);
    let mut flows: Vec<LoweredFlow<'_>> = Vec::new();
    for statement in statements {
        if let StatementKind::Flow(flow) = &statement.kind {
            flows.extend(context.flow(flow, statement.span, &known, &mut scope));
        }
    }
    flow::make_names_unique(&mut flows);
    let tests = context.tests(statements, &mut scope);

    for flow in &flows {
        check::flow(flow, &sources, &known, &mut scope);
    }
    check::targets(&flows, &sources, &mut scope);
    let may_flow = statements.iter().filter(|s| may_be_flow(s)).count();
    if may_flow == 0 {
        nothing_flows(statements, &mut scope);
    } else if may_flow == flows.len() {
        // a flow that was not understood may be the one that reads a view
        check::unread(&views, &flows, &names, &mut scope);
    }

    let failed = |scope: &Scope<'_>| {
        scope.has_errors() || parse.diagnostics.iter().any(|d| d.severity == Severity::Error)
    };
    if failed(&scope) {
        return (None, scope.finish());
    }
    check::never_in_conflict(&views, &flows, &mut scope);
    let plan = Plan {
        name: pipeline.name,
        checkpoint: pipeline.checkpoint,
        on_schema_change: pipeline.on_schema_change,
        time_zone: pipeline.time_zone,
        sources: sources.iter().map(|s| s.plan.clone()).collect(),
        sinks,
        views: views.into_iter().filter_map(|v| v.plan).collect(),
        flows: flows.iter().filter_map(|f| f.plan.clone()).collect(),
        tests,
    };
    let schemas: Vec<Arc<TableSchema>> =
        sources.iter().flat_map(|source| check::as_given(source, |_| true)).collect();
    scope.diagnostics.extend(check::types(&plan, &flows, &schemas));
    ((!failed(&scope)).then_some(plan), scope.finish())
}

fn declare_params(statements: &[Statement], scope: &mut Scope<'_>) {
    let mut seen: Vec<&crate::ast::Name> = Vec::new();
    for statement in statements {
        match &statement.kind {
            StatementKind::Param(param) => {
                if let Some(first) = seen.iter().find(|n| n.text == param.name.text) {
                    let headline = format!("parameter \"{}\" is defined twice", param.name.text);
                    scope.report(
                        Diagnostic::error(codes::DUPLICATE_NAME, headline)
                            .at(param.name.span.range(), "again here")
                            .at(first.span.range(), "first here"),
                    );
                    continue;
                }
                seen.push(&param.name);
                scope.declare(param);
            }
            StatementKind::Broken { keyword, name: Some(name) } if keyword == "param" => {
                scope.declare_broken(name);
            }
            _ => {}
        }
    }
    scope.check_set();
}

/// The time zone as it is written, which parameters of type timestamp need before options are checked.
fn written_zone(statements: &[Statement]) -> Option<String> {
    statements.iter().find_map(|s| match &s.kind {
        StatementKind::Pipeline(block) => {
            let entry = block.entries.iter().find(|e| e.name.text == "time_zone")?;
            match &entry.value.kind {
                OptionValueKind::Text(text) => match text.parts.as_slice() {
                    [TextPart::Literal(literal)] => Some(literal.clone()),
                    _ => None,
                },
                OptionValueKind::Word(word) => Some(word.clone()),
                _ => None,
            }
        }
        _ => None,
    })
}

/// What the `pipeline` statement says.
struct Pipeline {
    name: String,
    checkpoint: CheckpointPlan,
    on_schema_change: SchemaChangeMode,
    time_zone: String,
}

pub(crate) fn option(name: &'static str, kind: OptionKind, help: &'static str) -> OptionDescriptor {
    OptionDescriptor { name, kind, required: false, default: None, help, not_yet: None }
}

/// The words of `on_schema_change`, in the order of the modes.
pub(crate) const MODES: &[&str] = &["exception", "ignore", "try_evolve", "evolve", "lenient"];

/// The options of `pipeline`, but `checkpoint`.
fn pipeline_options() -> Vec<OptionDescriptor> {
    vec![
        OptionDescriptor {
            required: true,
            ..option("name", OptionKind::Text, "names the pipeline at its targets and in its state folder")
        },
        // stands here for its name; it is a map and is taken apart below
        option("checkpoint", OptionKind::Text, "where and how often to write state"),
        OptionDescriptor {
            default: Some("lenient"),
            ..option("on_schema_change", OptionKind::Choice(MODES), "what flows do that do not say otherwise")
        },
        OptionDescriptor {
            default: Some("UTC"),
            ..option("time_zone", OptionKind::Text, "of date and time functions")
        },
    ]
}

fn checkpoint_options() -> Vec<OptionDescriptor> {
    vec![
        OptionDescriptor {
            default: Some("\"./state\""),
            ..option("dir", OptionKind::Path, "the state folder, relative to the file")
        },
        OptionDescriptor {
            default: Some("10s"),
            ..option("every", OptionKind::Duration, "the time between checkpoints")
        },
    ]
}

fn pipeline(statements: &[Statement], scope: &mut Scope<'_>) -> Pipeline {
    let mut found: Option<(&OptionBlock, Span)> = None;
    for statement in statements {
        if let StatementKind::Pipeline(block) = &statement.kind {
            match found {
                None => found = Some((block, statement.span)),
                Some((_, first)) => {
                    let word = |s: Span| s.start..s.start + "pipeline".len();
                    scope.report(
                        Diagnostic::error(codes::DUPLICATE_NAME, "a file has one pipeline statement")
                            .at(word(statement.span), "again here")
                            .at(word(first), "first here"),
                    );
                }
            }
        }
    }
    let broken = statements
        .iter()
        .any(|s| matches!(&s.kind, StatementKind::Broken { keyword, .. } if keyword == "pipeline"));
    if found.is_none() && !broken {
        scope.report(
            Diagnostic::error(codes::NO_PIPELINE, "the file has no pipeline statement")
                .help("begin it with: pipeline { name = \"shop\" }"),
        );
    }
    let mut checkpoint = Options::default();
    let mut options = Options::default();
    if let Some((block, span)) = found {
        let mut rest = block.clone();
        let maps = block.entries.iter().filter(|e| e.name.text == "checkpoint");
        let mut first = None;
        for entry in maps {
            match &entry.value.kind {
                OptionValueKind::Map(map) if first.is_none() => {
                    first = Some(map);
                    // keep the entry out of the check of plain options; a second one is still seen there
                    rest.entries.retain(|e| e.name.span.start != entry.name.span.start);
                }
                _ if first.is_some() => {
                    let headline = "option \"checkpoint\" is given twice";
                    scope.report(
                        Diagnostic::error(codes::DUPLICATE_OPTION, headline)
                            .at(entry.name.span.range(), "again here"),
                    );
                    rest.entries.retain(|e| e.name.span.start != entry.name.span.start);
                }
                _ => {
                    let headline = "option \"checkpoint\" takes a map";
                    scope.report(
                        Diagnostic::error(codes::OPTION_TYPE, headline)
                            .at(entry.value.span.range(), "")
                            .help("write checkpoint = { dir = \"./state\", every = \"10s\" }"),
                    );
                    rest.entries.retain(|e| e.name.span.start != entry.name.span.start);
                }
            }
        }
        let place = Span { start: span.start, end: span.start + "pipeline".len() };
        options = check_options(scope, Some(&rest), &pipeline_options(), "the pipeline", place);
        checkpoint = check_options(scope, first, &checkpoint_options(), "\"checkpoint\"", place);
        check_pipeline_values(scope, block, &options, &checkpoint);
    }
    Pipeline {
        name: options.text("name").unwrap_or_default().to_owned(),
        checkpoint: CheckpointPlan {
            dir: checkpoint.text("dir").unwrap_or("./state").to_owned(),
            every_ms: checkpoint.duration_ms("every").unwrap_or(10_000),
        },
        on_schema_change: options
            .text("on_schema_change")
            .and_then(SchemaChangeMode::from_name)
            .unwrap_or_default(),
        time_zone: options.text("time_zone").unwrap_or("UTC").to_owned(),
    }
}

fn check_pipeline_values(
    scope: &mut Scope<'_>,
    block: &OptionBlock,
    options: &Options,
    checkpoint: &Options,
) {
    let place = |name: &str| {
        block.entries.iter().find(|e| e.name.text == name).map_or(block.span, |e| e.value.span).range()
    };
    if options.text("name").is_some_and(|n| n.trim().is_empty()) {
        scope.report(
            Diagnostic::error(codes::OPTION_VALUE, "the pipeline's name is empty").at(place("name"), ""),
        );
    }
    if checkpoint.duration_ms("every") == Some(0) {
        scope.report(
            Diagnostic::error(codes::OPTION_VALUE, "\"every\" is no time at all")
                .at(place("checkpoint"), "")
                .help("write a duration such as \"10s\""),
        );
    }
    let Some(zone) = options.text("time_zone") else { return };
    let d = match offset_minutes(zone) {
        // what the evaluator knows
        Some(0) => return,
        Some(_) => Diagnostic::error(codes::OPTION_NOT_YET, "other time zones than UTC are not built yet"),
        None if is_zone_name(zone) => {
            Diagnostic::error(codes::OPTION_NOT_YET, "named time zones are not built yet")
        }
        None => Diagnostic::error(codes::OPTION_VALUE, format!("\"{zone}\" is no time zone")),
    };
    scope.report(d.at(place("time_zone"), "").help("write \"UTC\""));
}

/// `Europe/Berlin` and the like.
fn is_zone_name(zone: &str) -> bool {
    zone.starts_with(|c: char| c.is_ascii_alphabetic())
        && zone.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+'))
}

/// The options of a source or a sink.
fn connection(connection: &Connection, role: ConnectorRole, scope: &mut Scope<'_>) -> Options {
    let word = &connection.connector;
    let role_name = |r| if r == ConnectorRole::Source { "source" } else { "sink" };
    let catalog = scope.catalog;
    let of_role: Vec<&str> = catalog.connectors.iter().filter(|c| c.role == role).map(|c| c.name).collect();
    let found = catalog.connectors.iter().find(|c| c.name == word.text && c.role == role);
    if let Some(descriptor) = found {
        let owner = format!("connector \"{}\"", word.text);
        return check_options(scope, connection.options.as_ref(), &descriptor.options, &owner, word.span);
    }
    let other = catalog.connectors.iter().any(|c| c.name == word.text);
    let mut d = if other {
        let other = if role == ConnectorRole::Source { ConnectorRole::Sink } else { ConnectorRole::Source };
        Diagnostic::error(
            codes::UNKNOWN_CONNECTOR,
            format!("\"{}\" can only be a {}", word.text, role_name(other)),
        )
    } else {
        Diagnostic::error(
            codes::UNKNOWN_CONNECTOR,
            format!("unknown {} connector \"{}\"", role_name(role), word.text),
        )
    };
    d = d.at(word.span.range(), "");
    d.help.extend(help_for(&word.text, "there is", &of_role));
    scope.report(d);
    Options::default()
}

fn source(c: &Connection, span: Span, scope: &mut Scope<'_>) -> SourceInfo {
    let options = connection(c, ConnectorRole::Source, scope);
    let entry = |name: &str| {
        c.options.iter().flat_map(|b| &b.entries).find(|e| e.name.text == name).map(|e| &e.value)
    };
    let mut tables = None;
    if let Some(texts) = options.list("tables") {
        match TableSet::parse(texts) {
            Ok(set) => tables = Some(set),
            Err((index, message)) => {
                let place = match entry("tables").map(|v| (&v.kind, v.span)) {
                    Some((OptionValueKind::List(items), all)) => items.get(index).map_or(all, |i| i.span),
                    _ => c.connector.span,
                };
                let headline = format!("malformed pattern in \"tables\" of \"{}\"", c.name.text);
                scope.report(
                    Diagnostic::error(codes::MALFORMED_PATTERN, headline)
                        .at(place.range(), last_line(&message))
                        .help("write \"database.table\" with * and ?, \"!\" in front to leave out, or \"/regex/\""),
                );
            }
        }
    }
    let schemas = options.text("schema").map(str::to_owned).and_then(|path| {
        let place = entry("schema").map_or(c.connector.span, |v| v.span);
        let database = tables.as_ref().and_then(TableSet::only_database);
        schema_file(&path, database, place, scope)
    });
    let schemas =
        schemas.map(|all| check::covered(&c.name.text, all, tables.as_ref(), entry("tables"), scope));
    let (name, connector) = (c.name.text.clone(), c.connector.text.clone());
    let plan = SourcePlan { name, connector, options, span: span.range() };
    SourceInfo { plan, tables, schemas }
}

/// The tables of a `schema` file. Its own diagnostics have no place in the pipeline file; they get the place
/// of the option that names it.
fn schema_file(
    path: &str,
    database: Option<&str>,
    place: Span,
    scope: &mut Scope<'_>,
) -> Option<Vec<TableSchema>> {
    match scope.catalog.surroundings.schema_file(path, database) {
        Ok(tables) => Some(tables),
        Err(diagnostics) => {
            for d in diagnostics {
                scope.report(d.at(place.range(), "in this file"));
            }
            None
        }
    }
}

/// The regex crate explains itself over several lines; the last one says what is wrong.
fn last_line(message: &str) -> String {
    let line = message.lines().rfind(|l| !l.trim().is_empty()).unwrap_or(message).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Is it a flow, or what was meant as one?
fn may_be_flow(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::Flow(_) => true,
        StatementKind::Broken { keyword, .. } => {
            !["pipeline", "param", "source", "sink", "test"].contains(&keyword.as_str())
        }
        _ => false,
    }
}

fn nothing_flows(statements: &[Statement], scope: &mut Scope<'_>) {
    if !statements.iter().any(|s| matches!(s.kind, StatementKind::Pipeline(_))) {
        return;
    }
    let view = statements.iter().find_map(|s| match &s.kind {
        StatementKind::View(view) => Some(view.name.text.as_str()),
        _ => None,
    });
    let d = Diagnostic::error(codes::NO_FLOW, "nothing flows: the file has no flow");
    scope.report(match view {
        Some(view) => d.help(format!("a view goes where a flow takes it: {view} => sink.{view}")),
        None => d.help("write one such as: src.* => dw.*"),
    });
}
