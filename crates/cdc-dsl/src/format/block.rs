//! Blocks of options, on one line or over several, their names aligned.

use super::{Formatter, WIDTH, rows};
use crate::ast::{OptionBlock, OptionValue, OptionValueKind};
use unicode_width::UnicodeWidthStr;

/// Longer names do not push the others' values to the right.
const LONGEST_ALIGNED: usize = 12;

impl Formatter<'_> {
    /// A block behind `prefix`, with `suffix` behind its closing brace; `end` is where all that ends.
    pub(super) fn block(
        &mut self,
        indent: usize,
        blank: bool,
        prefix: &str,
        block: &OptionBlock,
        suffix: &str,
        end: usize,
    ) {
        if let Some(inline) = self.inline_block(block)
            && indent + rows::width(prefix) + inline.width() + suffix.len() <= WIDTH
        {
            return self.row(indent, blank, format!("{prefix}{inline}{suffix}"), end);
        }
        self.row(indent, blank, format!("{prefix}{{"), block.span.start + 1);
        let written = |e: &crate::ast::OptionEntry| self.text[e.name.span.range()].width();
        let names: Vec<usize> = block.entries.iter().map(written).collect();
        let column = names.iter().copied().filter(|w| *w <= LONGEST_ALIGNED).max().unwrap_or(0);
        for (i, (entry, name_width)) in block.entries.iter().zip(names).enumerate() {
            let start = entry.name.span.start;
            self.comments_before(start, indent + 2);
            let blank = i > 0 && self.blank_before(start);
            let name = &self.text[entry.name.span.range()];
            let padding = " ".repeat(column.saturating_sub(name_width));
            let prefix = format!("{name}{padding} = ");
            // between name and value no comment has a place of its own
            self.comments_before(entry.value.span.start, indent + 2);
            self.value(indent + 2, blank, &prefix, &entry.value);
        }
        let close = block.span.end.saturating_sub(1);
        self.comments_before(close, indent + 2);
        self.row(indent, false, format!("}}{suffix}"), end);
    }

    fn value(&mut self, indent: usize, blank: bool, prefix: &str, value: &OptionValue) {
        let end = value.span.end;
        match &value.kind {
            OptionValueKind::Map(map) => self.block(indent, blank, prefix, map, "", end),
            OptionValueKind::List(items) => {
                let inline = self.inline_value(value);
                if let Some(inline) = inline
                    && indent + rows::width(prefix) + inline.width() <= WIDTH
                {
                    return self.row(indent, blank, format!("{prefix}{inline}"), end);
                }
                self.row(indent, blank, format!("{prefix}["), value.span.start + 1);
                for (i, item) in items.iter().enumerate() {
                    self.comments_before(item.span.start, indent + 2);
                    let comma = if i + 1 < items.len() { "," } else { "" };
                    match self.inline_value(item) {
                        Some(text) => self.row(indent + 2, false, format!("{text}{comma}"), item.span.end),
                        None => {
                            self.value(indent + 2, false, "", item);
                            if let Some(row) = self.rows.last_mut() {
                                row.text.push_str(comma);
                            }
                        }
                    }
                }
                self.comments_before(end.saturating_sub(1), indent + 2);
                self.row(indent, false, "]".to_owned(), end);
            }
            _ => {
                let text = self.flat(self.tokens(value.span));
                self.row(indent, blank, format!("{prefix}{text}"), end);
            }
        }
    }

    /// A block on one line; `None` if a comment is in it or its first option stands on a line of its own.
    pub(super) fn inline_block(&self, block: &OptionBlock) -> Option<String> {
        if self.has_comment(block.span) {
            return None;
        }
        let Some(first) = block.entries.first() else { return Some("{}".to_owned()) };
        if self.text[block.span.start..first.name.span.start].contains('\n') {
            return None;
        }
        let entries: Option<Vec<String>> = block
            .entries
            .iter()
            .map(|e| Some(format!("{} = {}", &self.text[e.name.span.range()], self.inline_value(&e.value)?)))
            .collect();
        Some(format!("{{ {} }}", entries?.join(", ")))
    }

    fn inline_value(&self, value: &OptionValue) -> Option<String> {
        if self.has_comment(value.span) {
            return None;
        }
        match &value.kind {
            OptionValueKind::Map(map) => self.inline_block(map),
            OptionValueKind::List(items) => {
                let items: Option<Vec<String>> = items.iter().map(|i| self.inline_value(i)).collect();
                Some(format!("[{}]", items?.join(", ")))
            }
            _ => Some(self.flat(self.tokens(value.span))),
        }
    }
}
