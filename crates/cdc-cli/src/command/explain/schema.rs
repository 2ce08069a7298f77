//! `cdc explain --schema`: what flows give out, by source table, beside what the target's table is.
//!
//! ```text
//! sink dw, as of tick 12: 1 table
//!
//! table members, key (id)
//!   shop.members
//!     id int      -> id int not null
//!     age2 double -> age2 double
//!     note text      (not written)
//!                    age int          (kept: nobody writes it)
//! ```
//!
//! Source tables that give the same are shown once. Where a terminal is too narrow for two columns, the target's stands below.

use crate::output::{count, print, print_json, printable, some_of, stdout_style};
use cdc_core::Result;
use cdc_core::schema::{Column, same_name};
use cdc_runtime::schemas::{Evolved, Fed, Feed, SinkSchemas};
use console::measure_text_width;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// How many source tables of one shape are named.
const NAMED: usize = 5;

/// Prints the schemas.
///
/// # Errors
/// As [`print()`].
pub fn show(pipeline: &str, sinks: &[SinkSchemas], is_json: bool) -> Result<()> {
    if is_json {
        return print_json(&to_json(pipeline, sinks));
    }
    print(&to_text(sinks, stdout_style().columns()))
}

fn to_text(sinks: &[SinkSchemas], width: Option<usize>) -> String {
    let mut out = String::new();
    for sink in sinks {
        if !out.is_empty() {
            out.push('\n');
        }
        let as_of = match sink.tick {
            Some(tick) => format!("as of tick {tick}"),
            None => "as the first run will make it".to_owned(),
        };
        _ = writeln!(
            out,
            "sink {}, {as_of}: {}",
            printable(&sink.sink),
            count(sink.tables.len() as u64, "table")
        );
        for table in &sink.tables {
            one_table(&mut out, table, width);
        }
    }
    out
}

fn one_table(out: &mut String, table: &Evolved, width: Option<usize>) {
    let key = match table.key.is_empty() {
        true => "no key".to_owned(),
        false => format!("key ({})", table.key.join(", ")),
    };
    let comment = commented(&table.comment);
    _ = writeln!(out, "\ntable {}, {}{}", printable(&table.name), printable(&key), printable(&comment));
    let shapes = shapes(table);
    if shapes.is_empty() {
        let lines = table.columns.iter().map(|c| Line::target(c, "kept".to_owned())).collect::<Vec<_>>();
        lay_out(out, "no flow writes it any more", &lines, width);
    }
    for (feed, sources) in shapes {
        let names: Vec<String> =
            sources.iter().map(|f| printable(&f.table.to_string()).into_owned()).collect();
        lay_out(out, &some_of(&names, NAMED), &lines(table, feed), width);
    }
}

/// Source tables, together with those that give the same to the same columns.
fn shapes(table: &Evolved) -> Vec<(&Feed, Vec<&Feed>)> {
    let mut shapes: Vec<(&Feed, Vec<&Feed>)> = Vec::new();
    for feed in &table.feeds {
        match shapes.iter_mut().find(|(first, _)| first.columns == feed.columns) {
            Some((_, same)) => same.push(feed),
            None => shapes.push((feed, vec![feed])),
        }
    }
    shapes
}

/// A column of either side.
struct Line {
    original: String,
    arrow: bool,
    evolved: String,
    remark: String,
}

impl Line {
    fn target(column: &Column, remark: String) -> Line {
        Line { original: String::new(), arrow: false, evolved: shown(column), remark }
    }
}

/// In the order of the flow's output; behind it, what the target has beside it.
fn lines(table: &Evolved, feed: &Feed) -> Vec<Line> {
    let goes_to = |fed: &Fed| fed.target.as_ref().and_then(|t| table.column(t));
    let mut lines: Vec<Line> = feed
        .columns
        .iter()
        .map(|fed| {
            let original = printable(&format!("{} {}", fed.output, fed.ty)).into_owned();
            match goes_to(fed) {
                Some(column) => Line { original, arrow: true, evolved: shown(column), remark: String::new() },
                None => {
                    Line { original, arrow: false, evolved: String::new(), remark: "not written".to_owned() }
                }
            }
        })
        .collect();
    let from_here = |c: &&Column| feed.columns.iter().filter_map(goes_to).any(|t| t.name == c.name);
    for column in table.columns.iter().filter(|c| !from_here(c)) {
        let remark = if is_fed(table, column) { "NULL in rows of these" } else { "kept: nobody writes it" };
        lines.push(Line::target(column, remark.to_owned()));
    }
    lines
}

fn is_fed(table: &Evolved, column: &Column) -> bool {
    let feeds = table.feeds.iter().flat_map(|f| &f.columns);
    feeds.filter_map(|f| f.target.as_ref()).any(|t| same_name(t, &column.name))
}

fn shown(column: &Column) -> String {
    let null = if column.nullable { "" } else { " not null" };
    let default = column.default.as_ref().map_or_else(String::new, |text| format!(" default {text}"));
    let comment = commented(&column.comment);
    printable(&format!("{} {}{null}{default}{comment}", column.name, column.ty)).into_owned()
}

/// ` comment '..'`; nothing for none.
fn commented(comment: &str) -> String {
    if comment.is_empty() { String::new() } else { format!(" comment '{}'", comment.replace('\'', "''")) }
}

fn lay_out(out: &mut String, heading: &str, lines: &[Line], width: Option<usize>) {
    let widest = |of: fn(&Line) -> &str| lines.iter().map(|l| measure_text_width(of(l))).max().unwrap_or(0);
    let (left, right) = (widest(|l| &l.original), widest(|l| &l.evolved));
    let remark = |line: &Line| match line.remark.is_empty() {
        true => String::new(),
        false => format!("({})", line.remark),
    };
    let remarks = lines.iter().map(|l| measure_text_width(&remark(l))).max().unwrap_or(0);
    let is_narrow = width.is_some_and(|width| 2 + left + 4 + right + 2 + remarks > width);
    _ = writeln!(out, "  {heading}");
    for line in lines {
        let arrow = if line.arrow { "-> " } else { "   " };
        let evolved = match (line.evolved.is_empty(), line.remark.is_empty()) {
            (true, _) => remark(line),
            (false, true) => line.evolved.clone(),
            (false, false) if is_narrow => format!("{} {}", line.evolved, remark(line)),
            (false, false) => {
                let gap = " ".repeat(right - measure_text_width(&line.evolved));
                format!("{}{gap}  {}", line.evolved, remark(line))
            }
        };
        if is_narrow {
            if !line.original.is_empty() {
                _ = writeln!(out, "    {}", line.original);
            }
            _ = writeln!(out, "      {arrow}{evolved}");
            continue;
        }
        let gap = " ".repeat(left - measure_text_width(&line.original));
        _ = writeln!(out, "    {}{gap} {arrow}{evolved}", line.original);
    }
}

fn to_json(pipeline: &str, sinks: &[SinkSchemas]) -> Value {
    let source = |feed: &Feed| {
        let column =
            |fed: &Fed| json!({ "column": fed.output, "type": fed.ty.to_string(), "target": fed.target });
        json!({
            "table": feed.table.to_string(),
            "columns": feed.columns.iter().map(column).collect::<Vec<_>>(),
        })
    };
    let table = |t: &Evolved| {
        let column = |c: &Column| {
            json!({
                "column": c.name, "type": c.ty.to_string(), "nullable": c.nullable, "default": c.default,
                "comment": c.comment, "kept": !is_fed(t, c),
            })
        };
        json!({
            "target": t.name,
            "key": t.key,
            "comment": t.comment,
            "columns": t.columns.iter().map(column).collect::<Vec<_>>(),
            "sources": t.feeds.iter().map(source).collect::<Vec<_>>(),
        })
    };
    let sink = |s: &SinkSchemas| {
        json!({
            "sink": s.sink,
            "tick": s.tick,
            "tables": s.tables.iter().map(table).collect::<Vec<_>>(),
        })
    };
    json!({ "pipeline": pipeline, "sinks": sinks.iter().map(sink).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{ColumnType, IntWidth, TableId};

    fn int(name: &str) -> Column {
        Column::new(name, ColumnType::Int { width: IntWidth::Int, unsigned: false })
    }

    fn feed(table: &str, columns: &[(&str, Option<&str>)]) -> Feed {
        let fed = |(output, target): &(&str, Option<&str>)| Fed {
            output: (*output).into(),
            ty: int("x").ty,
            target: target.map(Into::into),
        };
        Feed {
            table: TableId::new("shop", table),
            name: "all".into(),
            columns: columns.iter().map(fed).collect(),
        }
    }

    fn sinks() -> Vec<SinkSchemas> {
        let both = [("id", Some("id")), ("age2", Some("age2")), ("note", None)];
        let table = Evolved {
            name: "all".into(),
            columns: vec![
                int("id").not_null(),
                int("age"),
                Column { default: Some("7".into()), comment: "how old".into(), ..int("age2") },
                int("other"),
            ],
            key: vec!["id".into()],
            comment: "all of 'em".into(),
            feeds: vec![
                feed("a", &both),
                feed("b", &both),
                feed("c", &[("id", Some("id")), ("other", Some("other"))]),
            ],
        };
        let left = Evolved {
            name: "left\x1b".into(),
            columns: vec![int("a")],
            key: vec![],
            comment: String::new(),
            feeds: vec![],
        };
        vec![SinkSchemas { sink: "dw".into(), tick: Some(12), tables: vec![table, left] }]
    }

    #[test]
    fn both_sides_stand_side_by_side() {
        let wanted = "\
sink dw, as of tick 12: 2 tables

table all, key (id) comment 'all of ''em'
  shop.a, shop.b
    id int   -> id int not null
    age2 int -> age2 int default 7 comment 'how old'
    note int    (not written)
                age int                               (kept: nobody writes it)
                other int                             (NULL in rows of these)
  shop.c
    id int    -> id int not null
    other int -> other int
                 age int                               (kept: nobody writes it)
                 age2 int default 7 comment 'how old'  (NULL in rows of these)

table left\u{fffd}, no key
  no flow writes it any more
        a int  (kept)
";
        assert_eq!(to_text(&sinks(), None), wanted);
        assert_eq!(to_text(&sinks(), Some(100)), wanted);
    }

    #[test]
    fn on_a_narrow_terminal_the_target_stands_below() {
        let text = to_text(&sinks(), Some(40));
        assert!(text.contains("    id int\n      -> id int not null\n"), "{text}");
        assert!(text.contains("      \u{20}  age int (kept: nobody writes it)\n"), "{text}");
    }

    #[test]
    fn programs_get_the_same() {
        let json = to_json("shop", &sinks());
        let table = &json["sinks"][0]["tables"][0];
        assert_eq!(table["sources"][0]["columns"][2]["target"], Value::Null);
        assert_eq!(table["sources"][0]["columns"][1]["target"], "age2");
        assert_eq!(
            (&table["columns"][1]["kept"], &table["columns"][2]["kept"]),
            (&json!(true), &json!(false))
        );
    }
}
