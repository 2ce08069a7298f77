//! What `cdc explain` prints.

mod support;

use cdc_core::expr::{Expr, ExprKind};
use cdc_core::plan::explain::{to_dot, to_json, to_mermaid, to_text};
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::view::{
    Aggregate, AggregateItem, InputOf, JoinKind, OnConflict, OrderKey, Upsert, ViewInput, ViewOp, ViewPlan,
};
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
        view: None,
        upsert: Default::default(),
        on_conflict: Default::default(),
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
        views: Vec::new(),
        flows: vec![flow("/(?<t>.*)_v2/ -> ods_{t}"), orders],
        tests: Vec::new(),
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

/// Two views, one of which reads the other, and a flow.
fn plan_of_views() -> Plan {
    let named = |e: &str, n: &str| NamedExpr { name: n.into(), expr: parse(e) };
    let table = |name: &str, alias: &str| ViewInput {
        of: InputOf::Table {
            source: "src".into(),
            table: TablePattern { database: None, table: NamePattern::exact(name) },
        },
        alias: alias.into(),
        span: 0..0,
    };
    let of_view = |name: &str| ViewInput { of: InputOf::View(name.into()), alias: name.into(), span: 0..0 };
    let item = |name: &str, function, distinct, arg: Option<&str>| AggregateItem {
        name: name.into(),
        function,
        distinct,
        arg: arg.map(parse),
        span: 0..0,
    };
    let join = |kind, with, on: &str| ViewOp::Join { kind, with, on: parse(on), span: 0..0 };
    let lines = ViewPlan {
        name: "lines".into(),
        from: table("orders", "o"),
        ops: vec![
            join(JoinKind::Inner, table("customers", "c"), "customer_id = c_id and kind <> 'a\"b'"),
            join(JoinKind::Left, table("orders", "p"), "previous = p_id"),
            ViewOp::Row(FlowOp::Where(parse("amount > 1"))),
            ViewOp::Union { all: false, with: table("old", "old"), span: 0..0 },
            ViewOp::Distinct { span: 0..0 },
        ],
        ttl_ms: Some(86_400_000),
        on_conflict: OnConflict::Last(None),
        span: 0..0,
    };
    let totals = ViewPlan {
        name: "totals".into(),
        from: of_view("lines"),
        ops: vec![
            ViewOp::Aggregate {
                group_by: vec![named("customer", "customer"), named("a + 1", "next")],
                items: vec![
                    item("n", Aggregate::Count, false, None),
                    item("#1", Aggregate::Sum, true, Some("amount")),
                ],
                span: 0..0,
            },
            ViewOp::Top {
                count: 10,
                by: vec![
                    OrderKey { expr: parse("n"), descending: true },
                    OrderKey { expr: parse("next"), descending: false },
                ],
                per: vec![parse("customer")],
                span: 0..0,
            },
        ],
        ttl_ms: None,
        on_conflict: OnConflict::Error,
        span: 0..0,
    };
    let plan = plan();
    let flow = FlowPlan {
        name: "totals => dw".into(),
        tables: TablePattern::of_view("totals"),
        view: Some("totals".into()),
        ops: vec![FlowOp::Where(parse("n > 1"))],
        target: TargetName::SameAsSource,
        key: Some(vec!["customer".into()]),
        upsert: Upsert::Force,
        on_conflict: OnConflict::Log(Some(ColumnName { name: "total".into(), span: 0..0 })),
        ..plan.flows[0].clone()
    };
    let mut sources = plan.sources.clone();
    sources[0].options = options(&[("tables", OptionValue::List(vec!["shop.*".into()]))]);
    Plan { sources, views: vec![totals, lines], flows: vec![flow], ..plan }
}

#[test]
fn views_are_shown_operator_by_operator() {
    let expect = r#"
view totals
  view[lines]
  aggregate[totals] count(*) as n, sum(distinct amount) as `#1` group by customer, a + 1 as next
  top[totals] 10 by n desc, next per customer
  view[totals]

view lines with { ttl = "24h", on_conflict = last }
  upsert[src.shop.orders] as o
  join[lines: c] join upsert[src.shop.customers] as c on customer_id = c_id and kind <> 'a"b'
  left_join[lines: p] left join upsert[src.shop.orders] as p on previous = p_id
  filter[lines] amount > 1
  union[lines] union distinct upsert[src.shop.old]
  distinct[lines]
  view[lines]

flow totals => dw with { upsert = force, on_conflict = { log = total } }
  view[totals]
  filter[totals => dw] n > 1
  upsert[totals => dw] key (customer)
  route[totals => dw] * key (customer)
  sink[dw]
"#;
    let text = to_text(&plan_of_views());
    assert_eq!(&text[text.find("\nview").unwrap()..], expect);
}

#[test]
fn graphs_have_a_table_once_and_views_between_their_readers() {
    let expect = r##"flowchart TD
  source0["source[src]<br/>mysql"]
  sink0["sink[dw]<br/>sqlite"]
  table0["upsert[src.shop.orders]"]
  table1["upsert[src.shop.customers]"]
  table2["upsert[src.shop.old]"]
  view0_0["aggregate[totals]<br/>count(*) as n, sum(distinct amount) as `#35;1` group by customer, a + 1 as next"]
  view0_1["top[totals]<br/>10 by n desc, next per customer"]
  view0["view[totals]"]
  view1_0["join[lines: c]<br/>join upsert[src.shop.customers] as c on customer_id = c_id and kind #lt;#gt; 'a#quot;b'"]
  view1_1["left_join[lines: p]<br/>left join upsert[src.shop.orders] as p on previous = p_id"]
  view1_2["filter[lines]<br/>amount #gt; 1"]
  view1_3["union[lines]<br/>union distinct upsert[src.shop.old]"]
  view1_4["distinct[lines]"]
  view1["view[lines]"]
  flow0_0["filter[totals =#gt; dw]<br/>n #gt; 1"]
  flow0_1["upsert[totals =#gt; dw]<br/>key (customer)"]
  flow0_2["route[totals =#gt; dw]<br/>* key (customer)"]
  source0 -->|"shop.orders"| table0
  source0 -->|"shop.customers"| table1
  source0 -->|"shop.old"| table2
  view1 --> view0_0
  view0_0 --> view0_1
  view0_1 --> view0
  table0 --> view1_0
  table1 --> view1_0
  view1_0 --> view1_1
  table0 --> view1_1
  view1_1 --> view1_2
  view1_2 --> view1_3
  table2 --> view1_3
  view1_3 --> view1_4
  view1_4 --> view1
  view0 --> flow0_0
  flow0_0 --> flow0_1
  flow0_1 --> flow0_2
  flow0_2 --> sink0
"##;
    assert_eq!(to_mermaid(&plan_of_views()), expect);
    let dot = to_dot(&plan_of_views());
    assert!(dot.contains("  view1_4 [label = \"distinct[lines]\"]\n"), "{dot}");
    assert!(dot.contains("  view1_0 [label = \"join[lines: c]\\njoin upsert[src.shop.customers]"), "{dot}");
    assert!(dot.contains("  table0 -> view1_1\n") && dot.contains("  view0 -> flow0_0\n"), "{dot}");
}

#[test]
fn views_are_in_the_json() {
    let json = to_json(&plan_of_views());
    let lines =
        r#"{"name":"lines","from":"upsert[src.shop.orders] as o","operators":[{"name":"join[lines: c]","#;
    assert!(json.contains(lines), "{json}");
    assert!(
        json.contains(r#"],"ttl_ms":86400000,"on_conflict":"last","conflict_by":null}],"flows":[{"#),
        "{json}"
    );
    assert!(json.contains(r#""ttl_ms":null,"on_conflict":"error","conflict_by":null}"#), "{json}");
    assert!(json.contains(r#""source":"src","tables":"totals","view":"totals","operators":"#), "{json}");
    assert!(json.contains(r#""upsert":"force","on_conflict":"log","conflict_by":"total"}"#), "{json}");
    assert!(to_json(&plan()).contains(r#""view":null"#));
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
            | ExprKind::Of { .. }
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
