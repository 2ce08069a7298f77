//! What `cdc explain` prints.

mod support;

use cdc_core::expr::{Expr, ExprKind};
use cdc_core::plan::explain::{to_dot, to_json, to_mermaid, to_text};
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::{
    CheckpointPlan, ColumnName, FlowOp, FlowPlan, KeyConflict, NamedExpr, OptionValue, Options, Plan,
    SchemaChangeMode, SelectItem, SinkPlan, SourcePlan, TargetName, TemplatePart,
};
use support::parse;

fn options(values: &[(&str, OptionValue)]) -> Options {
    Options(values.iter().map(|(n, v)| (n.to_string(), v.clone())).collect())
}

fn plan() -> Plan {
    let text = |t: &str| OptionValue::Text(t.into());
    let flow = |name: &str| FlowPlan {
        name: name.into(),
        source: "src".into(),
        tables: TablePattern {
            database: Some(NamePattern::exact("shop")),
            table: NamePattern::regex("(?<t>.*)_v2").unwrap(),
        },
        ops: vec![],
        sink: "dw".into(),
        target: TargetName::Template(vec![
            TemplatePart::Text("ods_".into()),
            TemplatePart::Group("t".into()),
        ]),
        key: None,
        on_schema_change: SchemaChangeMode::Lenient,
        include: vec![],
        exclude: vec![],
        backfill: true,
        soft_delete: None,
        key_conflict: KeyConflict::Refuse,
        span: 0..0,
    };
    let column = |n: &str| ColumnName { name: n.into(), span: 0..0 };
    let named = |e: &str, n: &str| NamedExpr { name: n.into(), expr: parse(e) };
    let orders = FlowPlan {
        tables: TablePattern { database: None, table: NamePattern::exact("orders") },
        ops: vec![
            FlowOp::Where(parse("amount > 0 and status <> 'it''s \"x\"'")),
            FlowOp::Select(vec![
                SelectItem::Star { except: vec![column("note")] },
                SelectItem::Expr(named("amount * 1.19", "gross")),
                SelectItem::Expr(named("id", "id")),
            ]),
            FlowOp::Extend(vec![named("meta.table", "shard")]),
            FlowOp::Drop(vec![column("a-b")]),
            FlowOp::Rename(vec![(column("select"), "sel".into())]),
        ],
        target: TargetName::Fixed("big_orders".into()),
        key: Some(vec!["shard".into(), "id".into()]),
        on_schema_change: SchemaChangeMode::Evolve,
        exclude: vec!["drop_column".into()],
        ..flow("orders -> big_orders")
    };
    Plan {
        name: "shop".into(),
        checkpoint: CheckpointPlan { dir: "./state".into(), every_ms: 10_000 },
        on_schema_change: SchemaChangeMode::Lenient,
        time_zone: "UTC".into(),
        sources: vec![SourcePlan {
            name: "src".into(),
            connector: "mysql".into(),
            options: options(&[
                ("url", text("mysql://127.0.0.1:3306")),
                ("password", OptionValue::Secret("hunter2".into())),
                ("server_id", OptionValue::Integer(5400)),
                ("heartbeat", OptionValue::Duration(90_000)),
                ("tables", OptionValue::List(vec!["shop.*".into(), "!shop.tmp_*".into()])),
                ("start", OptionValue::Map(options(&[("token", OptionValue::Secret("hunter2".into()))]))),
            ]),
            span: 0..0,
        }],
        sinks: vec![SinkPlan {
            name: "dw".into(),
            connector: "sqlite".into(),
            options: options(&[("path", text("d\"w.db"))]),
            span: 0..0,
        }],
        flows: vec![flow("/(?<t>.*)_v2/ -> ods_{t}"), orders],
    }
}

#[test]
fn text_has_one_line_per_operator() {
    let expect = r#"pipeline shop
  checkpoint "./state" every "10s"
  on_schema_change lenient
  time_zone "UTC"

source[src] mysql { heartbeat = "90s", password = ***, server_id = 5400, start = { token = *** }, tables = ["shop.*", "!shop.tmp_*"], url = "mysql://127.0.0.1:3306" }
sink[dw] sqlite { path = "d\"w.db" }

flow /(?<t>.*)_v2/ -> ods_{t}
  source[src] shop./(?<t>.*)_v2/
  route[/(?<t>.*)_v2/ -> ods_{t}] "ods_{t}"
  sink[dw]

flow orders -> big_orders with { on_schema_change = evolve, exclude = [drop_column] }
  source[src] orders
  filter[orders -> big_orders] amount > 0 and status <> 'it''s "x"'
  map[orders -> big_orders] select * except (note), amount * 1.19 as gross, id
  map[orders -> big_orders] extend meta.table as shard
  map[orders -> big_orders] drop `a-b`
  map[orders -> big_orders] rename `select` as sel
  route[orders -> big_orders] big_orders key (shard, id)
  sink[dw]
"#;
    assert_eq!(to_text(&plan()), expect);
}

#[test]
fn no_form_shows_a_secret() {
    let plan = plan();
    for text in [to_text(&plan), to_mermaid(&plan), to_dot(&plan), to_json(&plan), format!("{plan:?}")] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn mermaid_and_dot_escape_what_would_end_a_label() {
    let mermaid = to_mermaid(&plan());
    assert!(mermaid.starts_with("flowchart TD\n  source0[\"source[src]<br/>mysql\"]\n"), "{mermaid}");
    assert!(
        mermaid.contains(
            "flow1_0[\"filter[orders -#gt; big_orders]<br/>amount #gt; 0 and status #lt;#gt; 'it''s #quot;x#quot;'\"]"
        ),
        "{mermaid}"
    );
    assert!(mermaid.contains("source0 -->|\"orders\"| flow1_0\n"), "{mermaid}");
    assert!(mermaid.contains("flow1_5 --> sink0\n"), "{mermaid}");
    let dot = to_dot(&plan());
    assert!(dot.contains("status <> 'it''s \\\"x\\\"'\"]"), "{dot}");
    assert!(dot.contains("flow0_0 -> sink0\n"), "{dot}");
}

#[test]
fn json_is_json() {
    let json = to_json(&plan());
    assert!(json.contains(r#""options":{"path":"d\"w.db"}"#), "{json}");
    assert!(json.contains(r#""key":["shard","id"]"#) && json.contains(r#""key":null"#), "{json}");
    // balanced outside of strings, and on one line
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for c in json.trim_end().chars() {
        assert!(c >= ' ');
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    assert!(depth == 0 && !in_string);
}

/// Without the places.
fn bare(mut expr: Expr) -> Expr {
    fn clear(e: &mut Expr) {
        e.span = 0..0;
        match &mut e.kind {
            ExprKind::Column(_)
            | ExprKind::Meta(_)
            | ExprKind::Secret(_)
            | ExprKind::Literal(_)
            | ExprKind::Unit(_) => {}
            ExprKind::Unary(_, x)
            | ExprKind::Interval(x, _)
            | ExprKind::Cast(x, _)
            | ExprKind::Collate(x, _)
            | ExprKind::IsNull { operand: x, .. }
            | ExprKind::IsTruth { operand: x, .. } => clear(x),
            ExprKind::Binary(_, a, b) => [a, b].into_iter().for_each(|x| clear(x)),
            ExprKind::Between { operand, low, high, .. } => {
                [operand, low, high].into_iter().for_each(|x| clear(x))
            }
            ExprKind::In { operand, list, .. } => {
                clear(operand);
                list.iter_mut().for_each(clear);
            }
            ExprKind::Like { operand, pattern, .. } => [operand, pattern].into_iter().for_each(|x| clear(x)),
            ExprKind::Case { operand, branches, otherwise } => {
                operand.iter_mut().chain(otherwise.iter_mut()).for_each(|x| clear(x));
                branches.iter_mut().flat_map(|(w, t)| [w, t]).for_each(clear);
            }
            ExprKind::Call(_, args) => args.iter_mut().for_each(clear),
        }
    }
    clear(&mut expr);
    expr
}

#[test]
fn printed_expressions_read_back_as_they_were() {
    for text in [
        "a + b * c - d",
        "(a + b) * c",
        "a - (b - c)",
        "a - b - c",
        "a = b = c",
        "not a and b or c",
        "not (a and b)",
        "(not a) = b",
        "-a * -b",
        "-(-a)",
        "a between b and c and d",
        "a between (b or c) and d",
        "(a between b and c) is null",
        "a in (1, -2, 'x') is not true",
        "a not like 'x\\_%' escape '|'",
        "a like 'it''s \\\\ \\n'",
        "case a when 1 then 'x' else null end",
        "case when a > 1 then b when c then d end + 1",
        "cast(a as decimal(10,2)) + cast(b as char) + cast(c as datetime(3))",
        "a collate utf8mb4_bin = 'x'",
        "(a + b) collate utf8mb4_bin",
        "a | b & c << 1 ^ ~d",
        "(a | b) & c",
        "`a-b` + `select` + `null`",
        "meta.op = 'd'",
        "j -> '$.a'",
        "x'00ff' = a",
        "1e300 + 2.5e0 + 1.50 + 18446744073709551615",
        "a xor b <=> c",
        "a div b % c / d",
        "a + interval b + 1 day - interval 2 month",
        "date_add(a, interval -1 week)",
        "a - interval (b + 1) day",
        "a - interval (abs(b)) day",
        "extract(year from a) + timestampdiff(day, a, b)",
    ] {
        let expr = bare(parse(text));
        let printed = expr.to_string();
        assert_eq!(bare(parse(&printed)), expr, "{text} was printed as {printed}");
    }
    assert_eq!(parse("(a + (b * c)) - (d)").to_string(), "a + b * c - d");
    assert_eq!(parse("((a) and ((b) or (c)))").to_string(), "a and (b or c)");
}
