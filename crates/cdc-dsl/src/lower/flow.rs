//! Flows.

use super::expr::{Place, Qualifiers, lower_expr};
use super::view::{POLICIES, no_parts, on_conflict};
use super::{MODES, SourceInfo, option, table};
use crate::ast::{
    Expr, Flow, Name, Named, Op, OpKind, OptionValueKind, SelectItem, Span, TablePartKind, TableRef,
};
use crate::check::Views;
use crate::names::{Kind, Names};
use crate::options::check_options;
use crate::resolve::Scope;
use crate::suggest::nearest;
use cdc_core::catalog::{OptionDescriptor, OptionKind};
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::pattern::TablePattern;
use cdc_core::plan::view::Upsert;
use cdc_core::plan::{
    ColumnName, FlowOp, FlowPlan, KeyConflict, NamedExpr, Options, SCHEMA_CHANGE_KINDS, SchemaChangeMode,
    SelectItem as Item,
};
use std::collections::BTreeMap;

/// What flows are lowered against.
pub(crate) struct Context<'f> {
    pub text: &'f str,
    pub names: &'f Names<'f>,
    pub sources: &'f [SourceInfo],
    pub mode: SchemaChangeMode,
}

/// A flow whose head is known, with what later checks need of it.
pub(crate) struct LoweredFlow<'f> {
    /// `None` if something in it was reported; its columns are checked all the same.
    pub plan: Option<FlowPlan>,
    pub tables: TablePattern,
    pub flow: &'f Flow,
    /// The source, by its place in the file; `None` where the view that is read has none, which was reported.
    pub source: Option<usize>,
    /// The view that is read, by its place in the file.
    pub view: Option<usize>,
}

/// What may become of equal keys of several tables.
const KEY_CONFLICTS: &[&str] = &["last", "error"];

/// What a commit is. (`row` would be writers that commit side by side.)
const CONSISTENCIES: &[&str] = &["tick", "row"];

/// The words of `upsert`.
const STRATEGIES: &[&str] = &["auto", "force", "none"];

/// Options that say nothing of a flow that reads a view, and why.
const NOT_OF_VIEWS: &[(&str, &str)] = &[
    ("on_schema_change", COLUMNS_OF_VIEWS),
    ("include", COLUMNS_OF_VIEWS),
    ("exclude", COLUMNS_OF_VIEWS),
    ("backfill", COLUMNS_OF_VIEWS),
    ("key_conflict", "a view is one table; on_conflict says what becomes of two rows that agree in the key"),
];

const COLUMNS_OF_VIEWS: &str = "the columns of a view are those that the file gives it, whatever happens to the source's tables; a change of a column that it reads stops the run";

/// The options of a flow.
pub(crate) fn flow_options() -> Vec<OptionDescriptor> {
    vec![
        option("on_schema_change", OptionKind::Choice(MODES), "what to do about a schema change"),
        option("include", OptionKind::List, "kinds of schema changes to apply"),
        option("exclude", OptionKind::List, "kinds of schema changes to pass over"),
        option("soft_delete", OptionKind::Name, "the target's column that says of a row that it was deleted"),
        option(
            "key_conflict",
            OptionKind::Choice(KEY_CONFLICTS),
            "of rows of several tables that agree in the key the last one written stays (last), or they stop the run (error)",
        ),
        OptionDescriptor {
            default: Some("true"),
            ..option(
                "backfill",
                OptionKind::Bool,
                "mode lenient: the new column of one that was renamed is filled from the old one",
            )
        },
        option(
            "upsert",
            OptionKind::Choice(STRATEGIES),
            "of a view: is there an operator that nets changes by the flow's key and tells conflicts",
        ),
        option("on_conflict", POLICIES, "of a view: what to do about two rows that agree in the flow's key"),
        OptionDescriptor {
            default: Some("tick"),
            ..option(
                "consistency",
                OptionKind::Choice(CONSISTENCIES),
                "tick: every commit is a state that the source had",
            )
        },
    ]
}

impl<'f> Context<'f> {
    /// Lowers a flow; `None` if its head was reported. `views` is what is known of those of the file.
    pub fn flow(
        &self,
        flow: &'f Flow,
        span: Span,
        views: &Views,
        scope: &mut Scope<'_>,
    ) -> Option<LoweredFlow<'f>> {
        let is_head = |k| matches!(k, Kind::Source(_) | Kind::View(_));
        let kind = self.names.resolve(&flow.head.root, "source or view", is_head, scope);
        let sink = self.names.resolve(&flow.target.root, "sink", |k| matches!(k, Kind::Sink(_)), scope);
        let (tables, source, view) = match kind {
            Some(Kind::Source(index)) => {
                let source = self.sources.get(index);
                (source.and_then(|source| table::head(&flow.head, source, scope)), Some(index), None)
            }
            Some(Kind::View(index)) => {
                let whole = no_parts(&flow.head, scope);
                let tables = whole.map(|()| TablePattern::of_view(&flow.head.root.text));
                (tables, views.sources.get(index).copied().flatten(), Some(index))
            }
            _ => (None, None, None),
        };
        let target = table::target(&flow.target, tables.as_ref(), scope);
        let table_name = match (&flow.head.alias, flow.head.parts.last().map(|p| &p.kind)) {
            (Some(alias), _) => Some(alias.text.as_str()),
            (None, Some(TablePartKind::Name(name))) => Some(name.as_str()),
            (None, None) if view.is_some() => Some(flow.head.root.text.as_str()),
            _ => None,
        };
        let place = if view.is_some() { Place::FlowOfView } else { Place::Flow };
        let qualifiers = Qualifiers::new(place, table_name);
        let ops = self.ops(&flow.ops, &qualifiers, scope);
        // the outer one: is there a key at all
        let key = flow.key.as_ref().map(|names| key(names, scope));
        let owner = "a flow";
        let options = check_options(scope, flow.with.as_ref(), &flow_options(), owner, flow.target.span);
        for name in ["include", "exclude"] {
            change_kinds(flow, name, scope);
        }
        match kind {
            Some(Kind::View(_)) => options_of_view(flow, scope),
            Some(Kind::Source(_)) => options_of_tables(flow, &options, scope),
            _ => {}
        }
        if options.text("consistency") == Some("row") {
            refuse_row(flow, scope);
        }
        let tables = tables?;
        let name = format!("{} => {}", self.spelled(&flow.head), self.spelled(&flow.target));
        let list = |name| options.list(name).map(<[String]>::to_vec).unwrap_or_default();
        let plan = |source: &SourceInfo, ops, target, key| FlowPlan {
            name,
            source: source.plan.name.clone(),
            tables: tables.clone(),
            view: view.map(|_| flow.head.root.text.clone()),
            ops,
            sink: flow.target.root.text.clone(),
            target,
            key,
            on_schema_change: options
                .text("on_schema_change")
                .and_then(SchemaChangeMode::from_name)
                .unwrap_or(self.mode),
            include: list("include"),
            exclude: list("exclude"),
            backfill: options.bool("backfill").unwrap_or(true),
            soft_delete: options.text("soft_delete").map(str::to_owned),
            upsert: options.text("upsert").and_then(Upsert::from_name).unwrap_or_default(),
            on_conflict: on_conflict(&options, flow.with.as_ref())
                .or_else(|| views.on_conflict.get(view?).cloned())
                .unwrap_or_default(),
            key_conflict: match options.text("key_conflict") {
                Some("last") => KeyConflict::Last,
                Some("error") => KeyConflict::Error,
                _ => KeyConflict::Refuse,
            },
            span: span.range(),
        };
        let of = source.and_then(|index| self.sources.get(index));
        let plan = match (of, ops, target, key, sink) {
            (Some(of), Some(ops), Some(target), None, Some(_)) => Some(plan(of, ops, target, None)),
            (Some(of), Some(ops), Some(target), Some(Some(key)), Some(_)) => {
                Some(plan(of, ops, target, Some(key)))
            }
            _ => None,
        };
        Some(LoweredFlow { plan, tables, flow, source, view })
    }

    /// A table as it is written, without the white space and the comments between its parts: a flow is known by it
    /// from one run to the next, whatever the file's layout.
    fn spelled(&self, table: &TableRef) -> String {
        let spans = std::iter::once(table.root.span).chain(table.parts.iter().map(|part| part.span));
        let parts: Vec<&str> = spans.map(|span| self.text.get(span.range()).unwrap_or_default()).collect();
        parts.join(".")
    }

    fn ops(&self, ops: &[Op], qualifiers: &Qualifiers<'_>, scope: &mut Scope<'_>) -> Option<Vec<FlowOp>> {
        let lowered: Vec<Option<FlowOp>> = ops.iter().map(|op| self.op(op, qualifiers, scope)).collect();
        lowered.into_iter().collect()
    }

    /// An operator on rows one by one; others are of views.
    pub(super) fn op(&self, op: &Op, qualifiers: &Qualifiers<'_>, scope: &mut Scope<'_>) -> Option<FlowOp> {
        match &op.kind {
            OpKind::Where(condition) => lower_expr(scope, condition, qualifiers).map(FlowOp::Where),
            OpKind::Select(items) => {
                let items: Vec<Option<Item>> = items
                    .iter()
                    .map(|item| match item {
                        SelectItem::Star { except, .. } => {
                            Some(Item::Star { except: except.iter().map(column).collect() })
                        }
                        SelectItem::Expr(item) => named(item, qualifiers, scope).map(Item::Expr),
                    })
                    .collect();
                items.into_iter().collect::<Option<Vec<_>>>().map(FlowOp::Select)
            }
            OpKind::Extend(items) => {
                let items: Vec<Option<NamedExpr>> =
                    items.iter().map(|item| named(item, qualifiers, scope)).collect();
                items.into_iter().collect::<Option<Vec<_>>>().map(FlowOp::Extend)
            }
            OpKind::Drop(names) => Some(FlowOp::Drop(names.iter().map(column).collect())),
            OpKind::Rename(pairs) => {
                for (_, to) in pairs {
                    not_reserved(to, "column", scope);
                }
                Some(FlowOp::Rename(pairs.iter().map(|(from, to)| (column(from), to.text.clone())).collect()))
            }
            other => {
                let word = other.word();
                if let OpKind::Join { table, .. } | OpKind::Union { table, .. } = other {
                    let is_table = |k| matches!(k, Kind::Source(_) | Kind::View(_));
                    self.names.resolve(&table.root, "source or view", is_table, scope)?;
                }
                scope.report(
                    Diagnostic::error(codes::FEATURE_NOT_YET, format!("\"{word}\" is built in views only"))
                        .at(op.span.start..op.span.start + first_words(self.text, op.span, word), "")
                        .note("flows have where, select, extend, drop and rename")
                        .help(format!("write a view and a flow of it: view name = from .. |> {word} ..")),
                );
                None
            }
        }
    }
}

/// The bytes that the words of an operator take, with whatever white space is between them.
fn first_words(text: &str, span: Span, word: &str) -> usize {
    let written = text.get(span.range()).unwrap_or_default();
    if written.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word)) {
        return word.len();
    }
    written.find(char::is_whitespace).unwrap_or(written.len())
}

pub(super) fn column(name: &Name) -> ColumnName {
    ColumnName { name: name.text.clone(), span: name.span.range() }
}

pub(super) fn not_reserved(name: &Name, what: &str, scope: &mut Scope<'_>) {
    if name.text.eq_ignore_ascii_case("meta") {
        scope.report(
            Diagnostic::error(codes::RESERVED_NAME, "\"meta\" is reserved for metadata of rows")
                .at(name.span.range(), "")
                .help(format!("give the {what} another name")),
        );
    }
}

pub(super) fn named(item: &Named, qualifiers: &Qualifiers<'_>, scope: &mut Scope<'_>) -> Option<NamedExpr> {
    let expr = lower_expr(scope, &item.expr, qualifiers);
    let name = match (&item.alias, &item.expr.kind) {
        (Some(alias), _) => {
            not_reserved(alias, "column", scope);
            alias.text.clone()
        }
        (None, crate::ast::ExprKind::Column { name, .. }) => name.text.clone(),
        (None, _) => {
            no_name(&item.expr, scope);
            return None;
        }
    };
    Some(NamedExpr { name, expr: expr? })
}

pub(super) fn no_name(expr: &Expr, scope: &mut Scope<'_>) {
    scope.report(
        Diagnostic::error(codes::UNEXPECTED_TOKEN, "this column has no name")
            .at(expr.span.range(), "")
            .help("write \"as\" and a name behind it"),
    );
}

/// What a flow that reads a view must not say.
fn options_of_view(flow: &Flow, scope: &mut Scope<'_>) {
    for entry in flow.with.iter().flat_map(|b| &b.entries) {
        let name = &entry.name.text;
        if let Some((_, why)) = NOT_OF_VIEWS.iter().find(|(option, _)| option == name) {
            scope.report(
                Diagnostic::error(
                    codes::UNKNOWN_OPTION,
                    format!("a flow of a view has no option \"{name}\""),
                )
                .at(entry.name.span.range(), "")
                .note(*why),
            );
        }
    }
}

/// What a flow of tables must not say.
fn options_of_tables(flow: &Flow, options: &Options, scope: &mut Scope<'_>) {
    for entry in flow.with.iter().flat_map(|b| &b.entries) {
        match entry.name.text.as_str() {
            "upsert" if options.text("upsert") == Some("force") => scope.report(
                Diagnostic::error(codes::OPTION_VALUE, "\"force\" is for flows that read a view")
                    .at(entry.value.span.range(), "")
                    .note("the changes of a table come one by one, each with its key: there is nothing to net and no conflict to tell")
                    .help("leave it out, or put the rows through a view: view name = from src.table"),
            ),
            "on_conflict" => scope.report(
                Diagnostic::error(codes::UNKNOWN_OPTION, "a flow of tables has no option \"on_conflict\"")
                    .at(entry.name.span.range(), "")
                    .help("where rows of several tables agree in the key: key_conflict = last"),
            ),
            _ => {}
        }
    }
}

fn key(names: &[Name], scope: &mut Scope<'_>) -> Option<Vec<String>> {
    for (i, name) in names.iter().enumerate() {
        if names[..i].iter().any(|n| cdc_core::schema::same_name(&n.text, &name.text)) {
            scope.report(
                Diagnostic::error(
                    codes::DUPLICATE_COLUMN,
                    format!("column \"{}\" is twice in the key", name.text),
                )
                .at(name.span.range(), ""),
            );
            return None;
        }
    }
    Some(names.iter().map(|n| n.text.clone()).collect())
}

/// Of the words of `consistency` one is built.
fn refuse_row(flow: &Flow, scope: &mut Scope<'_>) {
    let mut entries = flow.with.iter().flat_map(|b| &b.entries);
    let entry = entries.find(|e| e.name.text == "consistency");
    let d = Diagnostic::error(codes::OPTION_NOT_YET, "consistency = row is not built yet").note(
        "every commit is a state that the source had: consistency = tick, which is so without the option too",
    );
    scope.report(match entry {
        Some(entry) => d.at(entry.value.span.range(), ""),
        None => d.at(flow.target.span.range(), ""),
    });
}

/// The words of `include` and `exclude`.
fn change_kinds(flow: &Flow, option: &str, scope: &mut Scope<'_>) {
    let entries = flow.with.iter().flat_map(|b| &b.entries).filter(|e| e.name.text == option);
    for item in entries.flat_map(|e| match &e.value.kind {
        OptionValueKind::List(items) => items.as_slice(),
        _ => &[],
    }) {
        let text = match &item.kind {
            OptionValueKind::Word(word) => word.clone(),
            OptionValueKind::Text(text) => match text.parts.as_slice() {
                [crate::ast::TextPart::Literal(literal)] => literal.clone(),
                _ => continue,
            },
            _ => continue,
        };
        if SCHEMA_CHANGE_KINDS.contains(&text.as_str()) {
            continue;
        }
        let headline = format!("\"{text}\" is no kind of schema change");
        let d = Diagnostic::error(codes::OPTION_VALUE, headline).at(item.span.range(), "");
        scope.report(match nearest(&text, SCHEMA_CHANGE_KINDS.iter().copied()) {
            Some(near) => d.help(format!("did you mean \"{near}\"?")),
            None => d.help(format!("kinds: {}", SCHEMA_CHANGE_KINDS.join(", "))),
        });
    }
}

/// Flows from the same head to the same target are numbered.
pub(super) fn make_names_unique(flows: &mut [LoweredFlow<'_>]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for plan in flows.iter_mut().filter_map(|f| f.plan.as_mut()) {
        let count = seen.entry(plan.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            plan.name = format!("{} #{count}", plan.name);
        }
    }
}
