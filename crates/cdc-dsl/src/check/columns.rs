//! Which columns there are, operator by operator.
//!
//! Without a schema a flow begins *open*: any column may be there, but what was dropped or renamed is not,
//! and behind a `select` without `*` all columns are known. With a schema the same walk begins with the
//! columns of the table. In a view the columns are those of several inputs until a `select` or an `aggregate`
//! makes them one table's.

use crate::ast::{BinaryOp, Expr, ExprKind, JoinKind, Name, Named, Op, OpKind, SelectItem, Span};
use crate::lower::{is_aggregate, same_expr};
use crate::suggest::help_for;
use cdc_core::diagnostic::{Diagnostic, Label, codes};
use cdc_core::plan::ColumnName;
use cdc_core::schema::same_name;

/// The columns at one point of a flow.
#[derive(Debug, Clone)]
pub(super) enum Columns {
    /// Any but `gone`; `added` are there for sure.
    Open { gone: Vec<String>, added: Vec<String> },
    /// These and no others.
    Known(Vec<String>),
}

impl Columns {
    /// Of a table that nothing is known of.
    pub fn open() -> Columns {
        Columns::Open { gone: Vec::new(), added: Vec::new() }
    }

    /// The columns that are there for sure.
    fn sure(&self) -> &[String] {
        match self {
            Columns::Open { added, .. } => added,
            Columns::Known(all) => all,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.sure().iter().any(|c| same_name(c, name))
    }

    /// May it be there, though that is not sure?
    fn may_have(&self, name: &str) -> bool {
        matches!(self, Columns::Open { gone, .. } if !gone.iter().any(|c| same_name(c, name)))
    }

    fn add(&mut self, name: &str) {
        match self {
            Columns::Open { gone, added } => {
                gone.retain(|c| !same_name(c, name));
                added.push(name.to_owned());
            }
            Columns::Known(all) => all.push(name.to_owned()),
        }
    }

    fn remove(&mut self, name: &str) {
        match self {
            Columns::Open { gone, added } => {
                added.retain(|c| !same_name(c, name));
                gone.push(name.to_owned());
            }
            Columns::Known(all) => all.retain(|c| !same_name(c, name)),
        }
    }
}

/// Columns that may be qualified by the same name.
#[derive(Debug)]
struct Part {
    /// `None`: they stand alone.
    alias: Option<String>,
    columns: Columns,
}

/// Where a column was found.
enum Found {
    /// In this part.
    In(usize),
    /// In both.
    Twice(usize, usize),
    /// In this part if anywhere; `None` where there are several such.
    Perhaps(Option<usize>),
    /// Nowhere.
    Missing,
    /// Its qualifier is none, which was reported.
    Reported,
}

/// A walk through the operators of a flow or a view.
pub(super) struct Walk {
    parts: Vec<Part>,
    of_view: bool,
    pub diagnostics: Vec<Diagnostic>,
}

impl Walk {
    /// Of a flow.
    pub fn new(columns: Columns) -> Walk {
        Walk { parts: vec![Part { alias: None, columns }], of_view: false, diagnostics: Vec::new() }
    }

    /// Of a view whose first input this is.
    pub fn of_view(alias: Option<&str>, columns: Columns) -> Walk {
        let mut walk = Walk { parts: Vec::new(), of_view: true, diagnostics: Vec::new() };
        walk.input(alias, columns);
        walk
    }

    /// False if its name is that of another input, which was reported: it is not told whose columns are meant.
    fn input(&mut self, alias: Option<&str>, columns: Columns) -> bool {
        let is_there = |a: &&str| self.parts.iter().filter_map(|p| p.alias.as_ref()).any(|p| same_name(p, a));
        let twice = alias.as_ref().is_some_and(is_there);
        self.parts.push(if twice {
            Part { alias: None, columns: Columns::open() }
        } else {
            Part { alias: alias.map(str::to_owned), columns }
        });
        !twice
    }

    /// An operator on the columns that are there.
    pub fn op(&mut self, op: &Op) {
        match &op.kind {
            OpKind::Where(condition) => self.expr(condition),
            OpKind::Select(items) => self.select(items),
            OpKind::Extend(items) => {
                items.iter().for_each(|item| self.expr(&item.expr));
                for item in items {
                    self.add_named(item);
                }
            }
            OpKind::Drop(names) => {
                for name in self.each_once(names.iter()) {
                    let part = self.column(name);
                    self.remove(part, name);
                }
            }
            OpKind::Rename(pairs) => {
                if self.each_once(pairs.iter().map(|(from, _)| from)).len() < pairs.len() {
                    return;
                }
                // all at once, so that two columns can swap their names
                let parts: Vec<_> = pairs.iter().map(|(from, _)| self.column(from)).collect();
                for ((from, _), part) in pairs.iter().zip(&parts) {
                    self.remove(*part, from);
                }
                for ((_, to), part) in pairs.iter().zip(&parts) {
                    self.add(to, *part);
                }
            }
            OpKind::Aggregate { items, group_by } => self.aggregate(items, group_by),
            OpKind::Top { by, per, .. } => {
                by.iter().map(|key| &key.expr).chain(per).for_each(|expr| self.expr(expr));
            }
            // the columns are those of its left side, under its names
            OpKind::Union { .. } => self.parts.iter_mut().for_each(|part| part.alias = None),
            // a join with its other side in `join`
            OpKind::Join { .. } | OpKind::Distinct => {}
        }
    }

    /// These without those that stand there a second time, which are reported.
    fn each_once<'n>(&mut self, names: impl Iterator<Item = &'n Name>) -> Vec<&'n Name> {
        let mut once: Vec<&Name> = Vec::new();
        for name in names {
            match once.iter().find(|n| same_name(&n.text, &name.text)) {
                Some(first) => self.diagnostics.push(
                    Diagnostic::error(
                        codes::DUPLICATE_COLUMN,
                        format!("column \"{}\" is named twice", name.text),
                    )
                    .at(name.span.range(), "again here")
                    .at(first.span.range(), "first here"),
                ),
                None => once.push(name),
            }
        }
        once
    }

    /// A join with an input of these columns.
    pub fn join(&mut self, kind: JoinKind, alias: Option<&str>, columns: Columns, on: &Expr) {
        let known = self.input(alias, columns);
        let before = self.diagnostics.len();
        self.expr(on);
        if known && self.diagnostics.len() == before {
            self.condition(on);
        }
        if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
            self.parts.pop();
        }
    }

    /// The columns at the end of a view.
    pub fn end(&mut self, name: &Name) -> Columns {
        let (columns, twice) = self.merged(&[]);
        // behind a mistake the columns are not sure any more
        if let Some((column, [one, other])) = twice.into_iter().next()
            && self.diagnostics.is_empty()
        {
            let headline = format!("view \"{}\" has two columns \"{column}\"", name.text);
            self.diagnostics.push(
                Diagnostic::error(codes::DUPLICATE_COLUMN, headline)
                    .at(name.span.range(), "")
                    .help(self.select_help(&column, one, other)),
            );
        }
        columns
    }

    /// The columns of all parts as those of one, but these; and those that are there twice, with their parts.
    fn merged(&self, but: &[(Option<usize>, &Name)]) -> (Columns, Vec<(String, [usize; 2])>) {
        let is_left_out = |part: usize, name: &str| {
            but.iter().any(|(p, n)| p.is_none_or(|p| p == part) && same_name(&n.text, name))
        };
        let mut all: Vec<(String, usize)> = Vec::new();
        let mut twice = Vec::new();
        let mut gone = Vec::new();
        for (i, part) in self.parts.iter().enumerate() {
            for name in part.columns.sure().iter().filter(|name| !is_left_out(i, name)) {
                match all.iter().find(|(n, _)| same_name(n, name)) {
                    Some((_, first)) => twice.push((name.clone(), [*first, i])),
                    None => all.push((name.clone(), i)),
                }
            }
            if let Columns::Open { gone: of_part, .. } = &part.columns {
                gone.extend(of_part.iter().cloned());
            }
        }
        let all: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
        if self.parts.iter().all(|p| matches!(p.columns, Columns::Known(_))) {
            return (Columns::Known(all), twice);
        }
        // what is gone from one of several inputs may be in another
        if self.parts.len() > 1 {
            gone.clear();
        } else {
            gone.extend(but.iter().map(|(_, name)| name.text.clone()));
        }
        (Columns::Open { gone, added: all }, twice)
    }

    /// How to get past two columns of one name.
    fn select_help(&self, column: &str, one: usize, other: usize) -> String {
        let of = |part: usize| self.parts.get(part).and_then(|p| p.alias.as_deref());
        match (of(one), of(other)) {
            (Some(one), Some(other)) => {
                format!(
                    "name the columns: |> select {one}.{column}, {other}.{column} as {other}_{column}, .."
                )
            }
            _ => format!("rename one of them before the join: |> rename {column} as .."),
        }
    }

    fn select(&mut self, items: &[SelectItem]) {
        let mut stars = Vec::new();
        let mut left_out: Vec<(Option<usize>, &Name)> = Vec::new();
        for item in items {
            match item {
                SelectItem::Star { except, span } => {
                    stars.push(*span);
                    for name in self.each_once(except.iter()) {
                        left_out.push((self.column(name), name));
                    }
                }
                SelectItem::Expr(item) => self.expr(&item.expr),
            }
        }
        let columns = match stars.as_slice() {
            [] => Columns::Known(Vec::new()),
            // columns come in the order of the items; only their names matter here
            [span] => self.star(*span, &left_out),
            [_, again, ..] => {
                self.diagnostics.push(
                    Diagnostic::error(codes::DUPLICATE_COLUMN, "\"*\" stands twice in one select")
                        .at(again.range(), "again here"),
                );
                return;
            }
        };
        self.parts = vec![Part { alias: None, columns }];
        for item in items {
            if let SelectItem::Expr(item) = item {
                self.add_named(item);
            }
        }
    }

    fn star(&mut self, span: Span, left_out: &[(Option<usize>, &Name)]) -> Columns {
        let (columns, twice) = self.merged(left_out);
        if let Some((column, [one, other])) = twice.first() {
            let names: Vec<String> = twice.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let headline = format!("\"*\" gives two columns {}", names.join(", two "));
            self.diagnostics.push(
                Diagnostic::error(codes::DUPLICATE_COLUMN, headline)
                    .at(span.range(), "")
                    .help(self.select_help(column, *one, *other)),
            );
        }
        columns
    }

    /// A row for each group.
    fn aggregate(&mut self, items: &[Named], group_by: &[Named]) {
        group_by.iter().for_each(|group| self.expr(&group.expr));
        let mut read = Vec::new();
        for item in items {
            arguments(&item.expr, group_by, &mut read);
        }
        read.into_iter().for_each(|expr| self.expr(expr));
        self.parts = vec![Part { alias: None, columns: Columns::Known(Vec::new()) }];
        group_by.iter().chain(items).for_each(|item| self.add_named(item));
    }

    fn add_named(&mut self, item: &Named) {
        match (&item.alias, &item.expr.kind) {
            (Some(alias), _) => self.add(alias, None),
            (None, ExprKind::Column { name, .. }) => self.add(name, None),
            // reported before: it has no name
            (None, _) => {}
        }
    }

    /// A new column, of a part or of none.
    fn add(&mut self, name: &Name, part: Option<usize>) {
        if self.parts.iter().any(|p| p.columns.has(&name.text)) {
            self.diagnostics.push(
                Diagnostic::error(
                    codes::DUPLICATE_COLUMN,
                    format!("there is a column \"{}\" already", name.text),
                )
                .at(name.span.range(), "")
                .help("give one of them another name: .. as name"),
            );
            return;
        }
        let part = part.or_else(|| self.parts.iter().position(|p| p.alias.is_none()));
        match part.and_then(|i| self.parts.get_mut(i)) {
            Some(part) => part.columns.add(&name.text),
            None => {
                let columns = Columns::Known(vec![name.text.clone()]);
                self.parts.push(Part { alias: None, columns });
            }
        }
    }

    fn remove(&mut self, part: Option<usize>, name: &Name) {
        if let Some(part) = part.and_then(|i| self.parts.get_mut(i)) {
            part.columns.remove(&name.text);
        }
    }

    /// The columns that an expression reads.
    pub fn expr(&mut self, expr: &Expr) {
        if let ExprKind::Column { qualifier, name } = &expr.kind
            && !qualifier.as_ref().is_some_and(is_meta)
        {
            self.column_of(qualifier.as_ref(), name);
        }
        for child in expr.children() {
            self.expr(child);
        }
    }

    /// A column that must be there; the part that has it, where that is sure.
    pub fn column(&mut self, name: &Name) -> Option<usize> {
        let known = self.diagnostics.len();
        let part = self.column_of(None, name);
        if let Some(d) = self.diagnostics.get_mut(known)
            && d.code == codes::AMBIGUOUS_COLUMN
        {
            // an alias cannot stand here
            d.help = vec!["name the columns of both inputs: |> select ..".to_owned()];
        }
        part
    }

    /// The column by which the last row of a key is told. `inherited`: the flow that has it from its view.
    pub fn last_by(&mut self, by: &ColumnName, inherited: Option<Span>) {
        let known = self.diagnostics.len();
        self.column(&Name { text: by.name.clone(), span: by.span.clone().into() });
        if let (Some(d), Some(flow)) = (self.diagnostics.get_mut(known), inherited) {
            d.labels.push(Label {
                span: flow.range(),
                message: "this flow of the view has no such column".to_owned(),
            });
            d.help = vec![
                "keep the column in the flow, or say there what is to happen: with { on_conflict = last }"
                    .to_owned(),
            ];
        }
    }

    /// All columns, where they are known.
    pub fn known(&self) -> Option<Vec<&str>> {
        let is_known = |p: &Part| matches!(p.columns, Columns::Known(_));
        let names = self.parts.iter().flat_map(|p| p.columns.sure()).map(String::as_str);
        self.parts.iter().all(is_known).then(|| names.collect())
    }

    fn parts_of(&self, qualifier: Option<&Name>) -> Vec<usize> {
        let is_of = |part: &Part| match (qualifier, &part.alias) {
            (None, _) => true,
            (Some(q), Some(alias)) => q.text == *alias,
            (Some(_), None) => false,
        };
        self.parts.iter().enumerate().filter(|(_, p)| is_of(p)).map(|(i, _)| i).collect()
    }

    fn find(&self, qualifier: Option<&Name>, name: &Name) -> Found {
        // a flow is of one table, and what may stand before the dot was checked
        let parts = self.parts_of(qualifier.filter(|_| self.of_view));
        if parts.is_empty() {
            return Found::Reported;
        }
        let with = |has: fn(&Columns, &str) -> bool| -> Vec<usize> {
            parts.iter().copied().filter(|i| has(&self.parts[*i].columns, &name.text)).collect()
        };
        match (with(Columns::has).as_slice(), with(Columns::may_have).as_slice()) {
            ([one, other, ..], _) => Found::Twice(*one, *other),
            ([one], _) => Found::In(*one),
            ([], []) => Found::Missing,
            ([], [one]) => Found::Perhaps(Some(*one)),
            ([], _) => Found::Perhaps(None),
        }
    }

    fn column_of(&mut self, qualifier: Option<&Name>, name: &Name) -> Option<usize> {
        let mut d = match self.find(qualifier, name) {
            Found::In(part) => return Some(part),
            Found::Perhaps(part) => return part,
            Found::Reported => return None,
            Found::Twice(one, other) => {
                let of = |part: usize| self.parts[part].alias.as_deref();
                let help = match (of(one), of(other)) {
                    (Some(one), Some(other)) => format!("write {one}.{0} or {other}.{0}", name.text),
                    _ => format!("rename one of them before the join: |> rename {} as ..", name.text),
                };
                let headline = format!("column \"{}\" is there more than once", name.text);
                Diagnostic::error(codes::AMBIGUOUS_COLUMN, headline).help(help)
            }
            Found::Missing => {
                let parts = self.parts_of(qualifier.filter(|_| self.of_view));
                let columns = || parts.iter().map(|i| &self.parts[*i].columns);
                let mut d =
                    Diagnostic::error(codes::UNKNOWN_COLUMN, format!("unknown column \"{}\"", name.text));
                if columns().any(|c| matches!(c, Columns::Open { .. })) {
                    d.help.push("it was dropped or renamed before".to_owned());
                } else {
                    let names: Vec<&str> = columns().flat_map(Columns::sure).map(String::as_str).collect();
                    d.help.extend(help_for(&name.text, "there is", &names));
                }
                d
            }
        };
        d = d.at(name.span.range(), "");
        self.diagnostics.push(d);
        None
    }
}

fn is_meta(qualifier: &Name) -> bool {
    qualifier.text.eq_ignore_ascii_case("meta")
}

/// What an item of an `aggregate` reads of the rows: the arguments of its aggregates. What else it reads are columns of the
/// group, or was reported.
fn arguments<'e>(expr: &'e Expr, group_by: &[Named], read: &mut Vec<&'e Expr>) {
    if group_by.iter().any(|group| same_expr(&group.expr, expr)) {
        return;
    }
    if is_aggregate(expr) {
        read.extend(expr.children());
        return;
    }
    for child in expr.children() {
        arguments(child, group_by, read);
    }
}

/// The sides of a join that an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// None: a constant.
    None,
    Left,
    Right,
    Both,
    /// It cannot be seen without a schema.
    Unsure,
}

impl Side {
    fn and(self, other: Side) -> Side {
        match (self, other) {
            (Side::Unsure, _) | (_, Side::Unsure) => Side::Unsure,
            (Side::None, side) | (side, Side::None) => side,
            (a, b) if a == b => a,
            _ => Side::Both,
        }
    }
}

/// What joins are by.
impl Walk {
    /// A join is by equality of something of each side.
    fn condition(&mut self, on: &Expr) {
        let mut parts = Vec::new();
        conjuncts(on, &mut parts);
        if parts.into_iter().any(|part| self.is_equality(part)) {
            return;
        }
        self.diagnostics.push(
            Diagnostic::error(codes::JOIN_CONDITION, "this join has no equality between its sides")
                .at(on.span.range(), "")
                .note("without one every row of one side would meet every row of the other")
                .help("compare a column of one side with one of the other: on a.id = b.a_id; further conditions may stand beside it"),
        );
    }

    fn is_equality(&self, expr: &Expr) -> bool {
        let ExprKind::Binary(BinaryOp::Equal | BinaryOp::NullSafeEqual, a, b) = &expr.kind else {
            return false;
        };
        match (self.side(a), self.side(b)) {
            (Side::Unsure, _) | (_, Side::Unsure) => true,
            sides => matches!(sides, (Side::Left, Side::Right) | (Side::Right, Side::Left)),
        }
    }

    fn side(&self, expr: &Expr) -> Side {
        if let ExprKind::Column { qualifier, name } = &expr.kind {
            return match self.find(qualifier.as_ref(), name) {
                Found::In(part) | Found::Perhaps(Some(part)) if part + 1 == self.parts.len() => Side::Right,
                Found::In(_) | Found::Perhaps(Some(_)) => Side::Left,
                _ => Side::Unsure,
            };
        }
        expr.children().into_iter().map(|child| self.side(child)).fold(Side::None, Side::and)
    }
}

/// The conditions that must all hold.
fn conjuncts<'e>(expr: &'e Expr, parts: &mut Vec<&'e Expr>) {
    match &expr.kind {
        ExprKind::Binary(BinaryOp::And, a, b) => {
            conjuncts(a, parts);
            conjuncts(b, parts);
        }
        _ => parts.push(expr),
    }
}
