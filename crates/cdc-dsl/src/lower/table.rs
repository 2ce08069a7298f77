//! Heads and targets of flows: which tables, and what they are called at the target.

use super::{SourceInfo, last_line};
use crate::ast::{Span, TablePart, TablePartKind, TableRef, Text, TextPart};
use crate::resolve::{Scope, plain_text};
use crate::suggest::help_for;
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::{TargetName, TemplatePart};
use cdc_core::schema::TableId;

/// The tables that the head of a flow means.
pub(super) fn head(head: &TableRef, source: &SourceInfo, scope: &mut Scope<'_>) -> Option<TablePattern> {
    let name = &source.plan.name;
    let (database, table) = match head.parts.as_slice() {
        [] => {
            scope.report(
                Diagnostic::error(codes::UNKNOWN_TABLE, format!("which tables of \"{name}\" is not said"))
                    .at(head.span.range(), "")
                    .help(format!("write {name}.* for all of them, or {name}.table")),
            );
            return None;
        }
        [table] => (None, table),
        [database, table] => (Some(database), table),
        [.., last] => {
            scope.report(
                Diagnostic::error(codes::UNKNOWN_TABLE, "a table's name has at most three parts")
                    .at(last.span.range(), "one too many")
                    .help(format!("write {name}.database.table")),
            );
            return None;
        }
    };
    let all = matches!(&table.kind, TablePartKind::Glob(g) if g == "*");
    if database.is_none() && !all {
        one_database(head, table, source, scope)?;
    }
    let (given, pattern) = (database, pattern(table, scope));
    let database = given.map(|d| self::pattern(d, scope));
    let (database, table_pattern) = (transpose(database)?, pattern?);
    let pattern = TablePattern { database, table: table_pattern };
    is_covered(&pattern, head, source, scope)?;
    Some(pattern)
}

#[allow(clippy::option_option)]
fn transpose<T>(inner: Option<Option<T>>) -> Option<Option<T>> {
    match inner {
        None => Some(None),
        Some(Some(value)) => Some(Some(value)),
        Some(None) => None,
    }
}

/// A table without its database, where the source covers one database only.
fn one_database(head: &TableRef, part: &TablePart, source: &SourceInfo, scope: &mut Scope<'_>) -> Option<()> {
    // without well-formed tables there is nothing to be sure of, and it was reported
    let set = source.tables.as_ref()?;
    if set.only_database().is_some() {
        return Some(());
    }
    let name = &source.plan.name;
    let table = shown(part);
    let mut d = Diagnostic::error(
        codes::AMBIGUOUS_TABLE,
        format!("table \"{table}\" needs its database: \"{name}\" covers several"),
    )
    .at(head.span.range(), "");
    let mut databases = set.databases().unwrap_or_default();
    databases.dedup();
    d.help.push(match databases.as_slice() {
        [] => format!("write {name}.database.{table}"),
        some => {
            let all: Vec<String> = some.iter().take(3).map(|d| format!("{name}.{d}.{table}")).collect();
            format!("write {}", all.join(" or "))
        }
    });
    scope.report(d);
    None
}

fn shown(part: &TablePart) -> String {
    match &part.kind {
        TablePartKind::Name(n) | TablePartKind::Glob(n) => n.clone(),
        TablePartKind::Regex(r) => format!("/{r}/"),
        TablePartKind::Template(_) => "..".to_owned(),
    }
}

fn pattern(part: &TablePart, scope: &mut Scope<'_>) -> Option<NamePattern> {
    match &part.kind {
        TablePartKind::Name(name) => Some(NamePattern::exact(name.clone())),
        TablePartKind::Glob(glob) => Some(NamePattern::glob(glob)),
        TablePartKind::Regex(text) => match NamePattern::regex(text) {
            Ok(pattern) => Some(pattern),
            Err(message) => {
                scope.report(
                    Diagnostic::error(codes::MALFORMED_PATTERN, "malformed regular expression")
                        .at(part.span.range(), last_line(&message))
                        .help("the syntax is that of the Rust crate regex; it must match the whole name"),
                );
                None
            }
        },
        TablePartKind::Template(_) => {
            scope.report(
                Diagnostic::error(
                    codes::PATTERN_NOT_ALLOWED,
                    "a name template stands only in the target of a flow",
                )
                .at(part.span.range(), "")
                .help("write a name, in backticks if need be, or a pattern"),
            );
            None
        }
    }
}

/// A head that names one table must be one that the source covers.
fn is_covered(
    pattern: &TablePattern,
    head: &TableRef,
    source: &SourceInfo,
    scope: &mut Scope<'_>,
) -> Option<()> {
    let Some(table) = exact_table(pattern, source) else { return Some(()) };
    let Some(set) = &source.tables else { return Some(()) };
    if set.contains(&table) {
        return Some(());
    }
    scope.report(
        Diagnostic::error(
            codes::UNKNOWN_TABLE,
            format!("table \"{table}\" is not among the tables of \"{}\"", source.plan.name),
        )
        .at(head.span.range(), "")
        .help(format!("add it: tables = [.., \"{table}\"]")),
    );
    None
}

/// The one table that a pattern means, if it can only mean one.
pub(crate) fn exact_table(pattern: &TablePattern, source: &SourceInfo) -> Option<TableId> {
    if !pattern.table.is_exact() {
        return None;
    }
    let database = match &pattern.database {
        Some(database) if database.is_exact() => database.as_str(),
        Some(_) => return None,
        None => source.tables.as_ref()?.only_database()?,
    };
    Some(TableId::new(database, pattern.table.as_str()))
}

/// What tables are called at the target. A sink alone is short for `sink.*`.
pub(super) fn target(
    target: &TableRef,
    head: Option<&TablePattern>,
    scope: &mut Scope<'_>,
) -> Option<TargetName> {
    let sink = &target.root.text;
    let part = match target.parts.as_slice() {
        [] => return Some(TargetName::SameAsSource),
        [part] => part,
        [_, second, ..] => {
            scope.report(
                Diagnostic::error(codes::UNKNOWN_TABLE, "a target has two parts: sink.table")
                    .at(second.span.range(), "one too many")
                    .help(format!("a name with a dot in it stands in backticks: {sink}.`a.b`")),
            );
            return None;
        }
    };
    match &part.kind {
        TablePartKind::Name(name) => Some(TargetName::Fixed(name.clone())),
        TablePartKind::Glob(glob) if glob == "*" => Some(TargetName::SameAsSource),
        TablePartKind::Glob(_) | TablePartKind::Regex(_) => {
            let headline = "a target takes a name, \"*\" or a name template, not another pattern";
            scope.report(
                Diagnostic::error(codes::PATTERN_NOT_ALLOWED, headline)
                    .at(part.span.range(), "")
                    .help(format!("write a template, such as {sink}.\"ods_{{table}}\"")),
            );
            None
        }
        TablePartKind::Template(text) => template(text, head, scope),
    }
}

/// `"ods_{t}"`: `t` is a named group of the head's regular expressions, or `table`, or `database`.
fn template(text: &Text, head: Option<&TablePattern>, scope: &mut Scope<'_>) -> Option<TargetName> {
    let mut parts: Vec<TemplatePart> = Vec::new();
    let push_text = |parts: &mut Vec<TemplatePart>, t: &str| match parts.last_mut() {
        _ if t.is_empty() => {}
        Some(TemplatePart::Text(last)) => last.push_str(t),
        _ => parts.push(TemplatePart::Text(t.to_owned())),
    };
    for part in &text.parts {
        let literal = match part {
            TextPart::Literal(literal) => literal,
            TextPart::Param(name) => {
                let value = scope.lookup(name).value;
                push_text(&mut parts, &value.map_or_else(|| name.text.clone(), |v| plain_text(&v)));
                continue;
            }
        };
        let mut rest = literal.as_str();
        while let Some(open) = rest.find('{') {
            push_text(&mut parts, &rest[..open]);
            let Some(length) = rest[open..].find('}') else {
                malformed(text.span, "\"{\" without \"}\"", scope);
                return None;
            };
            let group = &rest[open + 1..open + length];
            known_group(group, text.span, head, scope)?;
            parts.push(TemplatePart::Group(group.to_owned()));
            rest = &rest[open + length + 1..];
        }
        if rest.contains('}') {
            malformed(text.span, "\"}\" without \"{\"", scope);
            return None;
        }
        push_text(&mut parts, rest);
    }
    match parts.as_slice() {
        [] => {
            malformed(text.span, "this name is empty", scope);
            None
        }
        [TemplatePart::Text(name)] => Some(TargetName::Fixed(name.clone())),
        _ => Some(TargetName::Template(parts)),
    }
}

fn malformed(span: Span, label: &str, scope: &mut Scope<'_>) {
    scope.report(
        Diagnostic::error(codes::MALFORMED_PATTERN, "malformed name template")
            .at(span.range(), label)
            .help("write {group}, {table} or {database} where a name is to be put in"),
    );
}

fn known_group(group: &str, span: Span, head: Option<&TablePattern>, scope: &mut Scope<'_>) -> Option<()> {
    // the head was reported, so nothing is known of its groups
    let head = head?;
    let mut known = head.table.groups();
    known.extend(head.database.iter().flat_map(|d| d.groups()));
    known.push("table");
    // a view has none
    if head.database.as_ref().is_none_or(|d| !d.as_str().is_empty()) {
        known.push("database");
    }
    if known.contains(&group) {
        return Some(());
    }
    let mut d =
        Diagnostic::error(codes::TEMPLATE_GROUP, format!("name template uses an unknown group \"{group}\""))
            .at(span.range(), "");
    d.help.extend(help_for(group, "it may use", &known));
    scope.report(d);
    None
}
