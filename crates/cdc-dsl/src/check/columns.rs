//! Which columns there are, operator by operator.
//!
//! Without a schema a flow begins *open*: any column may be there, but what was dropped or renamed is not,
//! and behind a `select` without `*` all columns are known. With a schema the same walk begins with the
//! columns of the table.

use crate::ast::{Expr, ExprKind, Name, Named, Op, OpKind, SelectItem};
use crate::suggest::help_for;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::schema::same_name;

/// The columns at one point of a flow.
#[derive(Debug, Clone)]
pub(super) enum Columns {
    /// Any but `gone`; `added` are there for sure.
    Open { gone: Vec<String>, added: Vec<String> },
    /// These and no others.
    Known(Vec<String>),
}

/// A walk through the operators of a flow.
pub(super) struct Walk {
    pub columns: Columns,
    pub diagnostics: Vec<Diagnostic>,
}

impl Walk {
    pub fn new(columns: Columns) -> Walk {
        Walk { columns, diagnostics: Vec::new() }
    }

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
                for name in names {
                    self.column(name);
                    self.remove(name);
                }
            }
            OpKind::Rename(pairs) => {
                // all at once, so that two columns can swap their names
                for (from, _) in pairs {
                    self.column(from);
                }
                for (from, _) in pairs {
                    self.remove(from);
                }
                for (_, to) in pairs {
                    self.add(to);
                }
            }
            // of views; refused before
            _ => {}
        }
    }

    fn select(&mut self, items: &[SelectItem]) {
        let star = items.iter().any(|i| matches!(i, SelectItem::Star { .. }));
        for item in items {
            match item {
                SelectItem::Star { except, .. } => except.iter().for_each(|name| self.column(name)),
                SelectItem::Expr(item) => self.expr(&item.expr),
            }
        }
        let before = self.columns.clone();
        if !star {
            self.columns = Columns::Known(Vec::new());
        } else if let Columns::Known(all) = &mut self.columns {
            // columns come in the order of the items; only their names matter here
            let left_out = |c: &String| {
                items.iter().any(|i| match i {
                    SelectItem::Star { except, .. } => except.iter().any(|e| same_name(&e.text, c)),
                    SelectItem::Expr(_) => false,
                })
            };
            all.retain(|c| !left_out(c));
        } else {
            for item in items {
                if let SelectItem::Star { except, .. } = item {
                    except.iter().for_each(|name| self.remove(name));
                }
            }
        }
        let stars = items.iter().filter(|i| matches!(i, SelectItem::Star { .. })).count();
        if stars > 1
            && let Some(SelectItem::Star { span, .. }) =
                items.iter().filter(|i| matches!(i, SelectItem::Star { .. })).nth(1)
        {
            self.diagnostics.push(
                Diagnostic::error(codes::DUPLICATE_COLUMN, "\"*\" stands twice in one select")
                    .at(span.range(), "again here"),
            );
            self.columns = before;
            return;
        }
        for item in items {
            if let SelectItem::Expr(item) = item {
                self.add_named(item);
            }
        }
    }

    fn add_named(&mut self, item: &Named) {
        match (&item.alias, &item.expr.kind) {
            (Some(alias), _) => self.add(alias),
            (None, ExprKind::Column { name, .. }) => self.add(name),
            // reported before: it has no name
            (None, _) => {}
        }
    }

    fn add(&mut self, name: &Name) {
        let there = match &self.columns {
            Columns::Open { added, .. } => added,
            Columns::Known(all) => all,
        };
        if there.iter().any(|c| same_name(c, &name.text)) {
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
        match &mut self.columns {
            Columns::Open { gone, added } => {
                gone.retain(|c| !same_name(c, &name.text));
                added.push(name.text.clone());
            }
            Columns::Known(all) => all.push(name.text.clone()),
        }
    }

    fn remove(&mut self, name: &Name) {
        match &mut self.columns {
            Columns::Open { gone, added } => {
                added.retain(|c| !same_name(c, &name.text));
                gone.push(name.text.clone());
            }
            Columns::Known(all) => all.retain(|c| !same_name(c, &name.text)),
        }
    }

    /// The columns that an expression reads.
    pub fn expr(&mut self, expr: &Expr) {
        if let ExprKind::Column { qualifier, name } = &expr.kind
            && !qualifier.as_ref().is_some_and(|q| q.text.eq_ignore_ascii_case("meta"))
        {
            self.column(name);
        }
        for child in expr.children() {
            self.expr(child);
        }
    }

    /// A column that must be there.
    pub fn column(&mut self, name: &Name) {
        let (missing, help) = match &self.columns {
            Columns::Open { gone, .. } => (
                gone.iter().any(|c| same_name(c, &name.text)),
                Some("it was dropped or renamed before".to_owned()),
            ),
            Columns::Known(all) => {
                let names: Vec<&str> = all.iter().map(String::as_str).collect();
                let missing = !all.iter().any(|c| same_name(c, &name.text));
                (missing, if missing { help_for(&name.text, "there is", &names) } else { None })
            }
        };
        if missing {
            let mut d = Diagnostic::error(codes::UNKNOWN_COLUMN, format!("unknown column \"{}\"", name.text))
                .at(name.span.range(), "");
            d.help.extend(help);
            self.diagnostics.push(d);
        }
    }
}
