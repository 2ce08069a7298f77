//! The behaviour is in `testdata/ddl/*.md`: prose, statements, and what comes of them. With `CDC_BLESS=1` the
//! expected parts are written anew; review the diff.

use super::*;
use crate::structure::TableStructures;
use std::fmt::Write;

/// One line per thing a reader would want to check.
fn show(outcome: &Outcome) -> String {
    let names = |tables: &[TableId]| {
        let names: Vec<String> = tables.iter().map(TableId::to_string).collect();
        if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) }
    };
    let mut text = String::new();
    match outcome {
        Outcome::Changes { changes, .. } => {
            for change in changes {
                show_change(change, &mut text);
            }
            if changes.is_empty() {
                text.push_str("no change\n");
            }
        }
        Outcome::NoEffect { what, tables, .. } => {
            let _ = writeln!(text, "no effect: {what}{}", names(tables));
        }
        Outcome::Dml { what, tables } => {
            let _ = writeln!(text, "rows as text: {what}{}", names(tables));
        }
        Outcome::Transaction(transaction) => {
            let _ = writeln!(text, "transaction: {transaction:?}");
        }
        Outcome::NotUnderstood { diagnostic, tables } => {
            let _ = writeln!(text, "{}: {}{}", diagnostic.code, diagnostic.headline, names(tables));
        }
    }
    text
}

fn show_change(change: &SchemaChange, text: &mut String) {
    let _ = match change {
        SchemaChange::CreateTable { schema } => writeln!(text, "create table {}", show_table(schema)),
        SchemaChange::AddColumn { column, position, .. } => {
            let place = match position {
                cdc_core::schema_change::ColumnPosition::Last => String::new(),
                cdc_core::schema_change::ColumnPosition::First => " first".to_owned(),
                cdc_core::schema_change::ColumnPosition::After(name) => format!(" after {name}"),
            };
            writeln!(text, "add column to {}: {}{place}", change.table(), show_column(column))
        }
        SchemaChange::AlterColumnType { ty, position, .. } => {
            let charset = ty.charset().map_or(String::new(), |c| format!(" {}", c.collation));
            match position {
                None => writeln!(text, "{change}{charset}"),
                Some(position) => writeln!(text, "{change}{charset}, place {position:?}"),
            }
        }
        SchemaChange::AlterColumnAttributes { column, .. } => {
            writeln!(text, "{change}: {}", show_column(column))
        }
        SchemaChange::ChangeUniqueKeys { keys, .. } => writeln!(text, "{change}: {keys:?}"),
        _ => writeln!(text, "{change}"),
    };
}

fn show_column(column: &Column) -> String {
    let mut text = format!("{} {}", column.name, column.ty);
    if let Some(charset) = column.ty.charset() {
        let _ = write!(text, " {}", charset.collation);
    }
    if let cdc_core::ColumnType::Geometry { srid: Some(srid), .. } = column.ty {
        let _ = write!(text, " srid {srid}");
    }
    if !column.nullable {
        text.push_str(" not null");
    }
    if let Some(default) = &column.default {
        let _ = write!(text, " default {default}");
    }
    if column.auto_increment {
        text.push_str(" auto_increment");
    }
    if let Some(generated) = &column.generated {
        let how = if generated.stored { "stored" } else { "virtual" };
        let _ = write!(text, " as ({}) {how}", generated.expression);
    }
    if column.invisible {
        text.push_str(" invisible");
    }
    if !column.comment.is_empty() {
        let _ = write!(text, " comment {:?}", column.comment);
    }
    text
}

fn show_table(schema: &TableSchema) -> String {
    let names = |key: &[usize]| {
        let names: Vec<&str> = key.iter().map(|&i| &*schema.columns[i].name).collect();
        names.join(", ")
    };
    let mut text = format!("{} {}", schema.id, schema.charset.collation);
    if !schema.comment.is_empty() {
        let _ = write!(text, " comment {:?}", schema.comment);
    }
    for column in &schema.columns {
        let _ = write!(text, "\n  {}", show_column(column));
    }
    if !schema.primary_key.is_empty() {
        let _ = write!(text, "\n  primary key ({})", names(&schema.primary_key));
    }
    for key in &schema.unique_keys {
        let _ = write!(text, "\n  unique key ({})", names(key));
    }
    text
}

use cdc_core::Column;

/// The session a section asks for: `mariadb`, `ansi_quotes`, `no_backslash_escapes`, `database=x`, ...
fn context_of<'t>(words: &'t str) -> Context<'t> {
    let has = |word: &str| words.split_whitespace().any(|w| w == word);
    let mut context = if has("mariadb") { Context::mariadb(101119) } else { Context::mysql(90704) };
    context.database = Some("shop");
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("database", "")) => context.database = None,
            Some(("database", name)) => context.database = Some(name),
            Some(("server_charset", name)) => {
                context.server_charset = charset::of_name(name, &context).expect("a known character set");
            }
            Some(("lower_case_table_names", n)) => context.lower_case_table_names = n.parse().expect("a number"),
            _ => {}
        }
    }
    context.sql_mode = SqlMode {
        ansi_quotes: has("ansi_quotes"),
        no_backslash_escapes: has("no_backslash_escapes"),
        real_as_float: has("real_as_float"),
        oracle: has("oracle"),
    };
    context.explicit_timestamp = !has("implicit_timestamp");
    context
}

/// Runs statements one after the other, the outcome of each followed.
fn run(sql: &str, context: &Context<'_>, structures: &mut TableStructures) -> String {
    let mut shown = String::new();
    for statement in statements(sql, context) {
        let outcome = parse(statement, context, structures);
        shown.push_str(&show(&outcome));
        match outcome {
            Outcome::Changes { changes, facts } => {
                if let Err(error) = structures.apply(&changes) {
                    let _ = writeln!(shown, "not applied: {error}");
                }
                structures.learn(&facts);
            }
            Outcome::NoEffect { facts, .. } => structures.learn(&facts),
            _ => {}
        }
    }
    shown
}

/// A file: sections that begin with `## `; in each fenced blocks `setup` (run, not shown), `sql` with words of
/// the session behind it, and `changes`, the expected outcome of the `sql` block before.
fn check(name: &str, text: &str) {
    let mut structures = TableStructures::default();
    let mut rest = text;
    let mut written = String::new();
    let mut failures = Vec::new();
    let mut got = String::new();
    let mut title = "";
    while let Some(line_end) = rest.find('\n') {
        let line = &rest[..line_end];
        rest = &rest[line_end + 1..];
        written.push_str(line);
        written.push('\n');
        if let Some(section) = line.strip_prefix("## ") {
            title = section;
            structures = TableStructures::default();
        }
        let Some(fence) = line.strip_prefix("```") else { continue };
        let end = rest.find("```\n").expect("a fence has its end");
        let block = &rest[..end];
        rest = &rest[end + 4..];
        let (kind, words) = fence.split_once(' ').unwrap_or((fence, ""));
        match kind {
            "setup" => {
                run(block, &context_of(words), &mut structures);
                written.push_str(block);
            }
            "sql" => {
                got = run(block, &context_of(words), &mut structures);
                written.push_str(block);
            }
            "changes" => {
                if got != block {
                    failures.push(format!("{name}: {title}\nwanted:\n{block}got:\n{got}"));
                }
                written.push_str(&got);
            }
            other => panic!("{name}: a block of the kind {other:?}"),
        }
        written.push_str("```\n");
    }
    if failures.is_empty() {
        return;
    }
    if std::env::var_os("CDC_BLESS").is_some() {
        let root = std::env::var("CARGO_MANIFEST_DIR").expect("run by cargo");
        std::fs::write(format!("{root}/testdata/ddl/{name}"), written).expect("the file can be written");
        return;
    }
    panic!("{}", failures.join("\n"));
}

macro_rules! cases {
    ($($test:ident = $file:literal;)*) => {
        $(#[test] fn $test() { check($file, include_str!(concat!("../../testdata/ddl/", $file))); })*
    };
}

cases! {
    case_37_change_is_type_then_rename = "case_37.md";
    case_38_adds_in_order = "case_38.md";
    case_39_drop_and_change = "case_39.md";
    case_40_other_actions = "case_40.md";
    case_41_letter_case = "case_41.md";
    case_42_tables = "case_42.md";
    case_43_types = "case_43.md";
    case_44_copied_again_or_passed_over = "case_44.md";
    case_45_character_sets = "case_45.md";
    case_46_online_tools = "case_46.md";
    case_47_not_understood = "case_47.md";
    case_48_sql_mode = "case_48.md";
    outside_tables = "outside_tables.md";
    keys = "keys.md";
    mariadb = "mariadb.md";
}
