//! Views.

use super::aggregate::aggregate;
use super::expr::{Place, Qualifiers, lower_expr};
use super::flow::{Context, not_reserved};
use super::{option, table};
use crate::ast::{
    Expr, ExprKind, Op, OpKind, OptionBlock, OptionValueKind, OrderKey as WrittenKey, Statement,
    StatementKind, TablePartKind, TableRef, View,
};
use crate::names::Kind;
use crate::options::check_options;
use crate::resolve::Scope;
use cdc_core::catalog::{OptionDescriptor, OptionKind};
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::expr::ExprKind as Lowered;
use cdc_core::plan::view::{InputOf, JoinKind, OnConflict, OrderKey, ViewInput, ViewOp, ViewPlan};
use cdc_core::plan::{ColumnName, Options};
use cdc_core::schema::same_name;
use cdc_core::value::Value;

/// A view, with what later checks need of it.
pub(crate) struct LoweredView<'f> {
    /// `None` if something in it was reported; its columns are checked all the same.
    pub plan: Option<ViewPlan>,
    pub view: &'f View,
    /// Whose rows it takes, in the order of the file.
    pub reads: Vec<Read<'f>>,
}

/// An input of a view, and what it was found to be.
pub(crate) struct Read<'f> {
    pub table: &'f TableRef,
    /// What its columns may be qualified with.
    pub alias: Option<&'f str>,
    /// `None` if it was reported.
    pub of: Option<ReadOf>,
}

/// What an input is, by its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReadOf {
    Table { source: usize, table: cdc_core::plan::pattern::TablePattern },
    View(usize),
}

/// What `on_conflict` takes.
pub(super) const POLICIES: OptionKind =
    OptionKind::ChoiceOrColumn { words: OnConflict::WORDS, keys: OnConflict::WITH_COLUMN };

/// What a block says of conflicts, if anything.
pub(super) fn on_conflict(options: &Options, written: Option<&OptionBlock>) -> Option<OnConflict> {
    const NAME: &str = "on_conflict";
    if let Some(word) = options.text(NAME) {
        return OnConflict::from_name(word, None);
    }
    let map = options.map(NAME)?;
    let (word, name) = map.0.keys().find_map(|word| Some((word, map.text(word)?)))?;
    let entry = written?.entries.iter().find(|e| e.name.text == NAME)?;
    let span = match &entry.value.kind {
        OptionValueKind::Map(block) => block.entries.first().map_or(block.span, |e| e.value.span),
        _ => entry.value.span,
    };
    OnConflict::from_name(word, Some(ColumnName { name: name.to_owned(), span: span.range() }))
}

/// The options of a view.
pub(crate) fn view_options() -> Vec<OptionDescriptor> {
    vec![
        OptionDescriptor {
            not_yet: Some("state is kept for ever"),
            ..option("ttl", OptionKind::Duration, "how long state is kept, in source time")
        },
        option(
            "on_conflict",
            POLICIES,
            "what flows of it do about two rows of their key that do not say otherwise",
        ),
    ]
}

impl<'f> Context<'f> {
    /// Lowers all views, in the order of the file.
    pub fn views(&self, statements: &'f [Statement], scope: &mut Scope<'_>) -> Vec<LoweredView<'f>> {
        let views = statements.iter().filter_map(|s| match &s.kind {
            StatementKind::View(view) => Some(view),
            _ => None,
        });
        views.map(|view| self.view(view, scope)).collect()
    }

    fn view(&self, view: &'f View, scope: &mut Scope<'_>) -> LoweredView<'f> {
        let options = check_options(scope, view.with.as_ref(), &view_options(), "a view", view.name.span);
        let mut body = Body { context: self, reads: Vec::new(), aliases: Vec::new() };
        let from = body.input(&view.from, scope);
        let ops: Vec<Option<Vec<ViewOp>>> = view.ops.iter().map(|op| body.op(op, scope)).collect();
        let ops = ops.into_iter().collect::<Option<Vec<_>>>();
        let plan = match (from, ops) {
            (Some(from), Some(ops)) => Some(ViewPlan {
                name: view.name.text.clone(),
                from,
                ops: ops.into_iter().flatten().collect(),
                ttl_ms: options.duration_ms("ttl"),
                on_conflict: on_conflict(&options, view.with.as_ref()).unwrap_or_default(),
                span: view.name.span.range(),
            }),
            _ => None,
        };
        LoweredView { plan, view, reads: body.reads }
    }

    /// What a table of a view is: one table of a source, or a view.
    fn read(&self, table: &TableRef, scope: &mut Scope<'_>) -> Option<ReadOf> {
        let is_table = |k| matches!(k, Kind::Source(_) | Kind::View(_));
        let kind = self.names.resolve(&table.root, "source or view", is_table, scope)?;
        if let Some(part) = table.parts.iter().find(|p| !matches!(p.kind, TablePartKind::Name(_))) {
            scope.report(
                Diagnostic::error(codes::PATTERN_NOT_ALLOWED, "a view reads single tables, not patterns")
                    .at(part.span.range(), "")
                    .help("name one table; to read several as one, write: from src.a |> union all src.b"),
            );
            return None;
        }
        match kind {
            Kind::Source(index) => {
                let source = self.sources.get(index)?;
                if table.parts.is_empty() {
                    let name = &source.plan.name;
                    let headline = format!("which table of \"{name}\" is not said");
                    scope.report(
                        Diagnostic::error(codes::UNKNOWN_TABLE, headline)
                            .at(table.span.range(), "")
                            .help(format!("write {name}.table")),
                    );
                    return None;
                }
                Some(ReadOf::Table { source: index, table: table::head(table, source, scope)? })
            }
            Kind::View(index) => {
                no_parts(table, scope)?;
                Some(ReadOf::View(index))
            }
            _ => None,
        }
    }
}

/// A view is one table.
pub(super) fn no_parts(table: &TableRef, scope: &mut Scope<'_>) -> Option<()> {
    let Some(part) = table.parts.first() else { return Some(()) };
    let name = &table.root.text;
    scope.report(
        Diagnostic::error(codes::UNKNOWN_TABLE, format!("view \"{name}\" is one table and has no others"))
            .at(part.span.range(), "")
            .help(format!("write {name}")),
    );
    None
}

/// The lowering of one view.
struct Body<'c, 'f> {
    context: &'c Context<'f>,
    reads: Vec<Read<'f>>,
    /// What columns may be qualified with at this point.
    aliases: Vec<&'f str>,
}

impl<'f> Body<'_, 'f> {
    fn qualifiers(&self) -> Qualifiers<'f> {
        Qualifiers::new(Place::View, self.aliases.iter().copied())
    }

    /// An input; its alias is there from now on.
    fn input(&mut self, table: &'f TableRef, scope: &mut Scope<'_>) -> Option<ViewInput> {
        let of = self.context.read(table, scope);
        let written = match (&table.alias, table.parts.last()) {
            (Some(alias), _) => Some((alias.text.as_str(), alias.span)),
            (None, Some(part)) => match &part.kind {
                TablePartKind::Name(name) => Some((name.as_str(), part.span)),
                _ => None,
            },
            (None, None) => Some((table.root.text.as_str(), table.root.span)),
        };
        if let Some(alias) = &table.alias {
            not_reserved(alias, "input", scope);
        }
        let mut twice = false;
        if let Some((alias, span)) = written {
            if self.aliases.iter().any(|a| same_name(a, alias)) {
                scope.report(
                    Diagnostic::error(
                        codes::DUPLICATE_NAME,
                        format!("two inputs are called \"{alias}\" here"),
                    )
                    .at(span.range(), "")
                    .help(format!("give one of them another name: {} as other", shown(table))),
                );
                twice = true;
            } else {
                self.aliases.push(alias);
            }
        }
        self.reads.push(Read { table, alias: written.map(|(alias, _)| alias), of: of.clone() });
        let (alias, _) = written.filter(|_| !twice)?;
        let of = match of? {
            ReadOf::Table { source, table } => {
                InputOf::Table { source: self.context.sources.get(source)?.plan.name.clone(), table }
            }
            ReadOf::View(_) => InputOf::View(table.root.text.clone()),
        };
        Some(ViewInput { of, alias: alias.to_owned(), span: table.span.range() })
    }

    fn op(&mut self, op: &'f Op, scope: &mut Scope<'_>) -> Option<Vec<ViewOp>> {
        let span = op.span.range();
        let one = |op| Some(vec![op]);
        match &op.kind {
            OpKind::Join { kind, table, on } => {
                let before = self.aliases.clone();
                let with = self.input(table, scope);
                let on = lower_expr(scope, on, &self.qualifiers());
                if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                    // of the right side nothing is there behind it
                    self.aliases = before;
                }
                one(ViewOp::Join { kind: *kind, with: with?, on: on?, span })
            }
            OpKind::Aggregate { items, group_by } => {
                let qualifiers = self.qualifiers();
                self.aliases.clear();
                aggregate(items, group_by, op.span, &qualifiers, scope)
            }
            OpKind::Distinct => one(ViewOp::Distinct { span }),
            OpKind::Union { all, table } => {
                // the columns are of neither side
                self.aliases.clear();
                let with = self.input(table, scope);
                self.aliases.clear();
                one(ViewOp::Union { all: *all, with: with?, span })
            }
            OpKind::Top { count, by, per } => self.top(op, count, by, per, scope).and_then(one),
            OpKind::Where(_)
            | OpKind::Select(_)
            | OpKind::Extend(_)
            | OpKind::Drop(_)
            | OpKind::Rename(_) => {
                let lowered = self.context.op(op, &self.qualifiers(), scope);
                if matches!(op.kind, OpKind::Select(_)) {
                    self.aliases.clear();
                }
                one(ViewOp::Row(lowered?))
            }
        }
    }

    fn top(
        &self,
        op: &Op,
        count: &Expr,
        by: &[WrittenKey],
        per: &[Expr],
        scope: &mut Scope<'_>,
    ) -> Option<ViewOp> {
        let qualifiers = self.qualifiers();
        let count = top_count(count, scope);
        let by: Vec<Option<OrderKey>> = by
            .iter()
            .map(|key| {
                let expr = lower_expr(scope, &key.expr, &qualifiers)?;
                Some(OrderKey { expr, descending: key.descending })
            })
            .collect();
        let per: Vec<_> = per.iter().map(|expr| lower_expr(scope, expr, &qualifiers)).collect();
        let (by, per) = (by.into_iter().collect::<Option<_>>(), per.into_iter().collect::<Option<_>>());
        Some(ViewOp::Top { count: count?, by: by?, per: per?, span: op.span.range() })
    }
}

/// How many rows a `top` keeps: a constant.
fn top_count(count: &Expr, scope: &mut Scope<'_>) -> Option<u64> {
    let is_param = matches!(count.kind, ExprKind::Param(_));
    let constant = matches!(count.kind, ExprKind::Number(_) | ExprKind::Param(_));
    let value = if constant {
        // a number that is none was reported, and a parameter without a value too
        match lower_expr(scope, count, &Qualifiers::new(Place::View, []))?.kind {
            Lowered::Literal(value) => value,
            Lowered::Secret(secret) if secret.0.is_null() => return Some(1),
            _ => Value::Null,
        }
    } else {
        Value::Null
    };
    match value {
        Value::Int(n) if n > 0 => return Some(n.unsigned_abs()),
        Value::UInt(n) if n > 0 => return Some(n),
        Value::Null if is_param => return Some(1),
        _ => {}
    }
    scope.report(
        Diagnostic::error(codes::OUT_OF_RANGE, "\"top\" takes a whole number of rows, from 1")
            .at(count.span.range(), "")
            .help("write a number, or ${NAME} of a parameter of type int"),
    );
    None
}

/// A table as it is written, without its alias.
fn shown(table: &TableRef) -> String {
    let parts = table.parts.iter().map(|part| match &part.kind {
        TablePartKind::Name(name) => name.as_str(),
        _ => "..",
    });
    std::iter::once(table.root.text.as_str()).chain(parts).collect::<Vec<_>>().join(".")
}
