//! Statements as lines.

use super::{Formatter, WIDTH, rows};
use crate::ast::{Change, Connection, Flow, Op, Span, Statement, StatementKind, Step, StepKind, Test, View};
use std::ops::Range;

/// What single lines of this kind are aligned by, where they stand next to each other.
pub(super) fn align(kind: &StatementKind) -> Option<(&'static str, &'static str)> {
    match kind {
        StatementKind::Source(_) => Some(("source", " = ")),
        StatementKind::Sink(_) => Some(("sink", " = ")),
        StatementKind::Flow(_) => Some(("flow", " => ")),
        _ => None,
    }
}

impl Formatter<'_> {
    pub(super) fn statement(&mut self, statement: &Statement) {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Pipeline(block) => {
                self.comments_before(block.span.start, 0);
                self.block(0, false, "pipeline ", block, "", span.end);
            }
            StatementKind::Source(c) => self.connection("source", c, span),
            StatementKind::Sink(c) => self.connection("sink", c, span),
            StatementKind::Flow(flow) => self.flow(flow, span),
            StatementKind::View(view) => self.view(view, span),
            StatementKind::Test(test) => self.test(test, span),
            StatementKind::Param(_) | StatementKind::Broken { .. } => {
                let tokens = self.tokens(span);
                self.wrapped(0, false, "", tokens);
            }
        }
    }

    /// The tokens from one place up to another.
    fn between(&self, from: usize, to: usize) -> Range<usize> {
        self.tokens(Span { start: from, end: to })
    }

    fn connection(&mut self, word: &str, c: &Connection, span: Span) {
        let Some(block) = &c.options else {
            let tokens = self.tokens(span);
            return self.wrapped(0, false, "", tokens);
        };
        // a comment before the brace has no place on the line
        self.comments_before(block.span.start, 0);
        let name = &self.text[c.name.span.range()];
        let connector = &self.text[c.connector.span.range()];
        let prefix = format!("{word} {name} = {connector} ");
        self.block(0, false, &prefix, block, "", span.end);
    }

    fn flow(&mut self, flow: &Flow, span: Span) {
        let head_end = flow.head.alias.as_ref().map_or(flow.head.span.end, |a| a.span.end);
        let body_end = flow.with.as_ref().map_or(span.end, |w| w.span.start);
        let whole = Span { start: span.start, end: body_end };
        let one_line = flow.ops.is_empty() && !self.has_comment(whole);
        if one_line {
            return self.target(0, span.start, flow, span);
        }
        let head = self.between(span.start, head_end);
        self.wrapped(0, false, "", head);
        self.ops(&flow.ops);
        let arrow = self.arrow(flow);
        self.comments_before(arrow, 2);
        self.target(2, arrow, flow, span);
    }

    /// Where the `=>` of a flow stands: the last token before its target.
    fn arrow(&self, flow: &Flow) -> usize {
        let target = self.tokens(flow.target.span).start;
        target.checked_sub(1).map_or(flow.target.span.start, |i| self.token(i).start)
    }

    /// From a place of the flow to its end.
    fn target(&mut self, indent: usize, from: usize, flow: &Flow, span: Span) {
        match &flow.with {
            Some(block) if !self.has_comment(Span { start: from, end: block.span.start }) => {
                let prefix = self.flat(self.between(from, block.span.start));
                self.block(indent, false, &format!("{prefix} "), block, "", span.end);
            }
            _ => {
                let tokens = self.between(from, span.end);
                self.wrapped(indent, false, "", tokens);
            }
        }
    }

    fn ops(&mut self, ops: &[Op]) {
        for op in ops {
            let tokens = self.tokens(op.span);
            let pipe = tokens.start.checked_sub(1).map_or(op.span.start, |i| self.token(i).start);
            self.comments_before(pipe, 2);
            self.comments_before(op.span.start, 2);
            self.wrapped(2, false, "|> ", tokens);
        }
    }

    fn view(&mut self, view: &View, span: Span) {
        let from = self.tokens(view.from.span).start.saturating_sub(1);
        let from_start = self.token(from).start;
        let equal_end = from.checked_sub(1).map_or(from_start, |i| self.token(i).end);
        match &view.with {
            Some(block)
                if !self.has_comment(Span { start: span.start, end: block.span.start })
                    && !self.has_comment(Span { start: block.span.end, end: equal_end }) =>
            {
                let prefix = self.flat(self.between(span.start, block.span.start));
                self.block(0, false, &format!("{prefix} "), block, " =", equal_end);
            }
            _ => {
                let tokens = self.between(span.start, equal_end);
                self.wrapped(0, false, "", tokens);
            }
        }
        self.comments_before(from_start, 2);
        let from_end = view.from.alias.as_ref().map_or(view.from.span.end, |a| a.span.end);
        let tokens = self.between(from_start, from_end);
        self.wrapped(2, false, "", tokens);
        self.ops(&view.ops);
    }

    fn test(&mut self, test: &Test, span: Span) {
        let open = self.tokens(test.name.span).end;
        let brace_end = self.token(open).end;
        let tokens = self.between(span.start, brace_end);
        self.wrapped(0, false, "", tokens);
        let tables = test.steps.iter().flat_map(|s| match &s.kind {
            StepKind::Given(changes) | StepKind::When(changes) => changes.as_slice(),
            _ => &[],
        });
        let column = tables.map(|c| self.table_width(c)).max().unwrap_or(0);
        for (i, step) in test.steps.iter().enumerate() {
            self.comments_before(step.span.start, 2);
            let blank = i > 0 && self.blank_before(step.span.start);
            self.step(step, column, blank);
        }
        self.comments_before(span.end.saturating_sub(1), 2);
        self.row(0, false, "}".to_owned(), span.end);
    }

    fn table_width(&self, change: &Change) -> usize {
        rows::width(&self.flat(self.tokens(change.table.span)))
    }

    fn step(&mut self, step: &Step, column: usize, blank: bool) {
        let tokens = self.tokens(step.span);
        let body = tokens.start + 1..tokens.end;
        match &step.kind {
            StepKind::Given(changes) | StepKind::When(changes) => {
                let word = if matches!(step.kind, StepKind::Given(_)) { "given" } else { "when " };
                let Some(first) = changes.first() else { return };
                let table = self.tokens(first.table.span);
                let lead = Span { start: step.span.start, end: self.token(table.end).end };
                if self.has_comment(lead) {
                    return self.wrapped(2, blank, "", tokens);
                }
                let padding = " ".repeat(column.saturating_sub(self.table_width(first)) + 2);
                let prefix = format!("{word} {}{padding}", self.flat(table.clone()));
                self.wrapped(2, blank, &prefix, table.end..tokens.end);
            }
            StepKind::Ddl(_) => self.wrapped(2, blank, "ddl   ", body),
            StepKind::ExpectRows { rows: records, .. } => {
                let flat = self.flat(tokens.clone());
                if self.has_comment(step.span) || rows::width(&flat) + 2 <= WIDTH || records.is_empty() {
                    return self.wrapped(2, blank, "", tokens);
                }
                let first = self.tokens(records[0].span).start;
                let open_end = self.token(first - 1).end;
                let text = self.flat(tokens.start..first);
                self.row(2, blank, text, open_end);
                for (i, record) in records.iter().enumerate() {
                    let comma = if i + 1 < records.len() { "," } else { "" };
                    let text = self.flat(self.tokens(record.span));
                    self.row(4, false, format!("{text}{comma}"), record.span.end);
                }
                self.row(2, false, "]".to_owned(), step.span.end);
            }
            StepKind::ExpectColumns { .. } => self.wrapped(2, blank, "", tokens),
        }
    }
}
