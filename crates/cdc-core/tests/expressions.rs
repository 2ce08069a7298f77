//! Acceptance case 68: expressions as MySQL computes them, and what is refused.

mod support;

use cdc_core::expr::eval::bind;
use cdc_core::{Charset, Column, ColumnType, Diagnostic, Value, codes};
use support::{codes_of, evaluated, parse, result_of, row, table};

fn cases(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).map(|l| l.split(" => ").collect())
}

#[test]
fn case_68_expressions_give_what_mysql_gives() {
    let mut count = 0;
    for case in cases(include_str!("cases/mysql.txt")) {
        let [expr, expect] = case[..] else { panic!("not `expression => result`: {case:?}") };
        assert_eq!(result_of(expr), expect, "{expr}");
        count += 1;
    }
    assert!(count > 400, "only {count} cases");
}

#[test]
fn case_68_where_mysql_guesses_we_refuse() {
    for case in cases(include_str!("cases/stricter.txt")) {
        let [expr, ours, theirs] = case[..] else { panic!("not `expression => ours => theirs`: {case:?}") };
        assert_eq!(result_of(expr), ours, "{expr}");
        assert_ne!(ours, theirs, "{expr} is no difference");
    }
}

fn refusals(text: &str) -> Vec<Diagnostic> {
    bind(&parse(text), &table()).err().unwrap_or_default()
}

/// Calls within each other.
fn within(function: &str, calls: usize, of: &str) -> String {
    format!("{}{of}{}", format!("{function}(").repeat(calls), ")".repeat(calls))
}

#[test]
fn what_has_no_clear_meaning_is_refused_when_it_is_bound() {
    for (expr, code) in [
        // text is no number
        ("v + 1", codes::TYPE_MISMATCH),
        ("-v", codes::TYPE_MISMATCH),
        ("v * 2", codes::TYPE_MISMATCH),
        ("v = 1", codes::TYPE_MISMATCH),
        ("i = v", codes::TYPE_MISMATCH),
        ("i = 'seven'", codes::TYPE_MISMATCH),
        ("i in (1, 'x')", codes::TYPE_MISMATCH),
        ("v and 1", codes::TYPE_MISMATCH),
        ("e + 1", codes::TYPE_MISMATCH),
        // of one ENUM alone it is a text too
        ("coalesce(e) = 2", codes::TYPE_MISMATCH),
        ("coalesce(e, null) = 2", codes::TYPE_MISMATCH),
        ("round(v)", codes::TYPE_MISMATCH),
        ("left(v, 'a')", codes::TYPE_MISMATCH),
        // dates and times are none either
        ("dt + 1", codes::TYPE_MISMATCH),
        ("dt > 20260101", codes::TYPE_MISMATCH),
        ("dt = v", codes::TYPE_MISMATCH),
        ("dt = 'yesterday'", codes::TYPE_MISMATCH),
        ("dt = tm", codes::TYPE_MISMATCH),
        ("tm = 'noon'", codes::TYPE_MISMATCH),
        ("year(i)", codes::TYPE_MISMATCH),
        ("coalesce(dt, 1)", codes::TYPE_MISMATCH),
        ("coalesce(dt, tm)", codes::TYPE_MISMATCH),
        // what depends on today, on a session, or on what a text does not say
        ("'2026-01-31' + interval 1 day", codes::TYPE_MISMATCH),
        ("tm + interval 1 day", codes::TYPE_MISMATCH),
        ("i + interval 1 day", codes::TYPE_MISMATCH),
        ("interval 1 day", codes::TYPE_MISMATCH),
        ("date_add(dt, 1)", codes::TYPE_MISMATCH),
        ("hour('2026-01-31')", codes::TYPE_MISMATCH),
        ("week(dt, n)", codes::TYPE_MISMATCH),
        ("convert_tz(dt, 'Europe/Berlin', '+00:00')", codes::TYPE_MISMATCH),
        ("str_to_date(v, v)", codes::TYPE_MISMATCH),
        ("str_to_date(v, '%X %V')", codes::TYPE_MISMATCH),
        ("time_format(tm, '%Y')", codes::TYPE_MISMATCH),
        ("timediff(tm, dt)", codes::TYPE_MISMATCH),
        ("addtime(da, tm)", codes::TYPE_MISMATCH),
        ("field('a', v)", codes::TYPE_MISMATCH),
        ("field(u, -1)", codes::TYPE_MISMATCH),
        ("if(i, bt, 1)", codes::TYPE_MISMATCH),
        ("greatest(bt, bt)", codes::TYPE_MISMATCH),
        ("json_type(j)", codes::TYPE_MISMATCH),
        ("json_contains(j, '\"2026-01-31\"')", codes::TYPE_MISMATCH),
        ("json_contains(j, v)", codes::TYPE_MISMATCH),
        ("j -> v", codes::TYPE_MISMATCH),
        ("j -> '$**.a'", codes::TYPE_MISMATCH),
        ("i -> '$.a'", codes::TYPE_MISMATCH),
        ("json_length(j, '$[*]')", codes::TYPE_MISMATCH),
        ("regexp_like(v, v)", codes::TYPE_MISMATCH),
        ("regexp_like(v, 'a(?=b)')", codes::TYPE_MISMATCH),
        ("regexp_like(v, 'a', 'm')", codes::TYPE_MISMATCH),
        ("bin_to_uuid(v)", codes::TYPE_MISMATCH),
        // what has no order
        ("j = '1'", codes::TYPE_MISMATCH),
        ("geo = geo", codes::TYPE_MISMATCH),
        ("upper(vb)", codes::TYPE_MISMATCH),
        ("concat(bt, 1)", codes::TYPE_MISMATCH),
        ("cast(i as decimal(5,6))", codes::TYPE_MISMATCH),
        ("cast(i as decimal(66,2))", codes::TYPE_MISMATCH),
        ("cast(dt as datetime(7))", codes::TYPE_MISMATCH),
        ("cast(i as date)", codes::TYPE_MISMATCH),
        ("i collate utf8mb4_bin = '7'", codes::TYPE_MISMATCH),
        // not built
        ("cast(i as json)", codes::FEATURE_NOT_YET),
        ("hex(l1)", codes::CHARSET_UNSUPPORTED),
        ("md5(l1)", codes::CHARSET_UNSUPPORTED),
        ("to_base64(l1)", codes::CHARSET_UNSUPPORTED),
        // found among constants, before anything runs
        ("9223372036854775807 + 1 > i", codes::OUT_OF_RANGE),
        // what doubles a text, over and over: of constants, so it is found here too
        (&*within("hex", 30, "'ab'"), codes::OUT_OF_RANGE),
        (&*within("json_quote", 30, "'\"'"), codes::OUT_OF_RANGE),
        ("concat(repeat('a', 40000000), repeat('b', 40000000))", codes::OUT_OF_RANGE),
        // names
        ("amount = 1", codes::UNKNOWN_COLUMN),
        ("uper(v)", codes::UNKNOWN_FUNCTION),
        ("now()", codes::UNKNOWN_FUNCTION),
        ("rand()", codes::UNKNOWN_FUNCTION),
        ("upper()", codes::ARGUMENT_COUNT),
        ("nullif(i)", codes::ARGUMENT_COUNT),
    ] {
        assert_eq!(codes_of(&refusals(expr)), code.to_string(), "{expr}");
    }
}

#[test]
fn text_compares_under_built_collations_only() {
    for expr in [
        "ci = 'paid'",
        "'paid' = ci",
        "ci < 'x'",
        "ci in ('a', 'b')",
        "ci between 'a' and 'b'",
        "ci like 'p%'",
        "upper(ci) = 'PAID'",
        "concat(ci, 'x') = 'x'",
        "case ci when 'a' then 1 end",
        "nullif(ci, 'a')",
        "greatest(ci, 'a')",
        "locate('a', ci)",
        "find_in_set(ci, 'a,b')",
        "eci = 'new'",
        "ci collate utf8mb4_unicode_520_ci = 'a'",
        "v = nopad",
        "concat(v, nopad) = 'a'",
    ] {
        let refused = refusals(expr);
        assert!(!refused.is_empty(), "{expr}");
        assert!(refused.iter().all(|d| d.code == codes::COLLATION_NOT_BUILT), "{expr}: {refused:?}");
        assert!(refused[0].help[0].contains("collate utf8mb4_bin"), "{expr}");
    }
    for expr in [
        "ci collate utf8mb4_bin = 'paid'",
        "ci collate utf8mb4_bin = v",
        "ci collate utf8mb4_general_ci = 'a'",
        "ci collate utf8mb4_0900_ai_ci = l1",
        "v collate utf8mb4_0900_bin = nopad",
        "v = l1",
        // of one character set, and one of them binary: that one counts (manual 12.8.4)
        "ci <> v",
        "'a' = 'b'",
        "meta.table = 'orders'",
        "meta.table = v",
        "ci is null",
        "concat(ci, v)",
        "upper(ci)",
        "coalesce(ci, '')",
        "if(i = 1, ci, v)",
        "eci = 1",
        "v = e",
        "i like '7%'",
    ] {
        assert_eq!(codes_of(&refusals(expr)), "", "{expr}");
    }
}

/// Expected values are those of a 9.7 server.
#[test]
fn collations_hold_letters_of_other_case_and_accent_for_equal() {
    let mut table = table();
    for (name, charset, collation) in [
        ("ai", "utf8mb4", "utf8mb4_0900_ai_ci"),
        ("ge", "utf8mb4", "utf8mb4_general_ci"),
        ("sw", "latin1", "latin1_swedish_ci"),
    ] {
        let charset = Charset::new(charset, collation);
        table.columns.push(Column::new(name, ColumnType::VarChar { length: 20, charset }));
    }
    let mut row = row();
    row.extend(["Résumé ", "Résumé ", "Résumé "].map(|text| Value::Text(text.into())));
    let result = |expr: &str| match bind(&parse(expr), &table) {
        Ok(bound) => evaluated(&bound, &row),
        Err(diagnostics) => codes_of(&diagnostics),
    };
    for (expr, expected) in [
        ("ai = 'resume'", "0"),
        ("ai = 'RESUME '", "1"),
        ("'RÉSUMÉ' < ai", "1"),
        ("ge = 'resume'", "1"),
        ("sw = 'RESUME'", "1"),
        ("sw = 'RESUMÄ'", "0"),
        ("ai <=> 'RESUME '", "1"),
        ("ai like 'r_SUM%'", "1"),
        ("ge like 'résumé'", "0"),
        ("ge like concat('%SÜ', 'ME_')", "1"),
        ("ge in ('x', 'resume')", "1"),
        ("ai between 'resum' and 'resumf'", "1"),
        ("case ge when 'RÉSUMÉ' then 'x' end", "x"),
        ("nullif(sw, 'resume')", "NULL"),
        ("greatest(ge, 'RESUME')", "RESUME"),
        ("least(ge, 'RESUME')", "Résumé "),
        ("strcmp(ai, 'resume')", "1"),
        ("field(ge, 'a', 'RESUME')", "2"),
        ("upper(ge)", "RÉSUMÉ "),
        // of one character set, and one of them binary: that one counts
        ("ge = v", "0"),
    ] {
        assert_eq!(result(expr), expected, "{expr}");
    }
    for expr in ["locate('R', ge)", "instr(ai, 'R')", "find_in_set(sw, 'a,b')", "ai = ge"] {
        assert_eq!(result(expr), codes::COLLATION_NOT_BUILT.to_string(), "{expr}");
    }
}

/// MariaDB's identifiers and addresses have one text for each value and no order that is built.
#[test]
fn identifiers_and_addresses_are_compared_for_equality() {
    let mut table = table();
    let first = table.columns.len();
    for (name, ty) in [("uu", ColumnType::Uuid), ("a4", ColumnType::Inet4), ("a6", ColumnType::Inet6)] {
        table.columns.push(Column::new(name, ty));
    }
    let mut row = row();
    assert_eq!(row.len(), first);
    row.extend(
        ["00112233-4455-6677-8899-aabbccddeeff", "10.1.0.0", "::ffff:10.1.0.0"]
            .map(|text| Value::Text(text.into())),
    );
    let result = |expr: &str| match bind(&parse(expr), &table) {
        Ok(bound) => evaluated(&bound, &row),
        Err(diagnostics) => codes_of(&diagnostics),
    };
    for (expr, expected) in [
        ("uu = '00112233445566778899AABBCCDDEEFF'", "1"),
        ("'00112233-4455-6677-8899-aabbccddeef0' = uu", "0"),
        ("uu <> uu", "0"),
        ("uu in ('00112233-4455-6677-8899-AABBCCDDEEFF')", "1"),
        ("a6 = '0:0:0:0:0:FFFF:0a01:0'", "1"),
        ("case a4 when '10.1.0.0' then 'x' end", "x"),
        ("nullif(a4, '10.1.0.1')", "10.1.0.0"),
        ("coalesce(a4, 'none')", "10.1.0.0"),
        ("concat(a4, '/16')", "10.1.0.0/16"),
        ("cast(a4 as char) < '10.1.0.1'", "1"),
        ("a4 like '10.%'", "1"),
        ("uu is null", "0"),
    ] {
        assert_eq!(result(expr), expected, "{expr}");
    }
    for expr in [
        "uu < '00112233-4455-6677-8899-aabbccddeef0'",
        "a4 between '10.0.0.0' and '10.2.0.0'",
        "'10.1.0.0' between a4 and a4",
        "greatest(a4, '10.0.0.0')",
        "greatest(a4, a4)",
        "uu = 'no uuid'",
        "a4 = a6",
        "a4 = v",
        "a4 = 1",
        "a4 + 1",
        "cast(uu as binary)",
        "cast(a4 as unsigned)",
    ] {
        // once for each pair that is compared
        assert!(result(expr).split(' ').all(|code| code == codes::TYPE_MISMATCH.to_string()), "{expr}");
    }
}

#[test]
fn diagnostics_point_at_the_characters_and_name_the_nearest() {
    let text = "i > 0 and amuont > 1 or uper(v) = 'A' or stauts = 'x' or cash(1)";
    let found = refusals(text);
    assert_eq!(found.len(), 4, "{found:?}");
    let shown: Vec<&str> = found.iter().map(|d| &text[d.labels[0].span.clone()]).collect();
    assert_eq!(shown[0].trim(), "amuont");
    assert!(shown[1].starts_with("uper(v)"));
    assert_eq!(found[0].headline, "unknown column \"amuont\" of \"shop.t\"");
    assert!(found[0].help[0].starts_with("the columns are id, i, n"), "{:?}", found[0].help);
    assert_eq!(found[1].help, ["the nearest name is \"upper\""]);
    assert_eq!(refusals("nopda = 'a'")[0].help, ["the nearest name is \"nopad\""]);
    assert!(refusals("now() = dt")[0].help[0].contains("meta.ts"));
    assert!(refusals("v + 1")[0].help[0].contains("cast("));
    // what is in a literal may have come from the environment
    assert!(!format!("{:?}", refusals("i = 'secret'")).contains("secret"));
}

#[test]
fn types_and_nullability_are_known_when_bound() {
    for (expr, ty, nullable) in [
        ("id", "int", false),
        ("i", "int", true),
        ("id + id", "bigint", false),
        ("u + 1", "bigint unsigned", true),
        ("i / i", "decimal(14,4)", true),
        ("d / i", "decimal(14,6)", true),
        ("d / d", "decimal(16,6)", true),
        ("i / d", "decimal(16,4)", true),
        ("d + i", "decimal(13,2)", true),
        ("d * d", "decimal(20,4)", true),
        ("d * i", "decimal(20,2)", true),
        ("d * 1.19", "decimal(13,4)", true),
        ("d % i", "decimal(10,2)", true),
        ("d + 1", "decimal(11,2)", true),
        ("d / 3", "decimal(14,6)", true),
        ("1 / d", "decimal(7,4)", true),
        ("d * 1000000000", "decimal(20,2)", true),
        ("coalesce(d, 0)", "decimal(10,2)", false),
        ("if(i, d, 12345678901)", "decimal(13,2)", true),
        ("floor(d + 1)", "bigint", true),
        ("f + 1", "double", true),
        ("id = 1", "int", false),
        ("i = 1", "int", true),
        ("i is null", "int", false),
        ("i <=> 1", "int", false),
        ("upper(v)", "varchar(20)", true),
        ("concat(v, i)", "varchar(31)", true),
        ("left(v, 3)", "varchar(3)", true),
        ("lower(tx)", "longtext", true),
        ("concat_ws(',', v, v)", "varchar(41)", false),
        ("coalesce(i, 0)", "int", false),
        ("coalesce(i, d)", "decimal(12,2)", true),
        ("coalesce(da, dt)", "datetime(3)", true),
        ("coalesce(e, 'none')", "varchar(4)", false),
        ("if(i, 1.25, 2.5)", "decimal(3,2)", false),
        ("case when i then 1 end", "int", true),
        ("nullif(id, 0)", "int", true),
        ("round(d)", "decimal(9,0)", true),
        ("round(d, 1)", "decimal(10,1)", true),
        ("truncate(d, 1)", "decimal(9,1)", true),
        ("floor(d)", "bigint", true),
        ("floor(dd)", "decimal(39,0)", true),
        ("cast(v as char(3))", "varchar(3)", true),
        ("cast(i as decimal(10,2))", "decimal(10,2)", true),
        ("unix_timestamp(dt)", "decimal(14,3)", true),
        ("da + interval 1 day", "date", true),
        ("da + interval 1 hour", "datetime", true),
        ("dt - interval i microsecond", "datetime(6)", true),
        ("tm + interval 1.5 second", "time(1)", true),
        ("from_unixtime(d)", "datetime(2)", true),
        ("str_to_date(v, '%H:%i')", "time", true),
        ("str_to_date(v, '%d.%m.%Y')", "date", true),
        ("str_to_date(v, '%Y-%m-%d %T.%f')", "datetime(6)", true),
        ("timestampdiff(day, da, dt)", "bigint", true),
        ("datediff(da, dt)", "bigint", true),
        ("j -> '$.a'", "json", true),
        ("j ->> '$.a'", "longtext", true),
        ("json_value(j, '$.a')", "varchar(512)", true),
        ("md5(v)", "varchar(32)", true),
        ("sha2(v, 256)", "varchar(64)", true),
        ("unhex(v)", "varbinary(10)", true),
        ("sqrt(i)", "double", true),
        ("coalesce(f, 0)", "float", false),
        ("coalesce(0, f)", "double", false),
        ("regexp_like(v, 'a')", "int", true),
        ("regexp_substr(v, 'a')", "varchar(20)", true),
        ("meta.op", "varchar(1)", false),
        ("meta.ts", "timestamp(6)", false),
        ("meta.gtid", "varchar(90)", true),
        ("'abc'", "varchar(3)", false),
        ("5", "int", false),
        ("5000000000", "bigint", false),
        ("-5", "int", false),
        ("5.50", "decimal(3,2)", false),
    ] {
        let bound = bind(&parse(expr), &table()).unwrap_or_else(|d| panic!("{expr}: {d:?}"));
        assert_eq!((bound.ty().to_string().as_str(), bound.ty().nullable), (ty, nullable), "{expr}");
    }
}

#[test]
fn metadata_is_that_of_the_change() {
    for (expr, expect) in [
        ("meta.op", "u"),
        ("meta.database", "shop"),
        ("meta.table", "t"),
        ("meta.ts", "2026-01-01 10:11:12.500000"),
        ("meta.position", "binlog.000007:154"),
        ("meta.gtid", "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"),
        ("meta.op = 'u' and meta.ts > '2026-01-01'", "1"),
    ] {
        assert_eq!(result_of(expr), expect);
    }
}

#[test]
fn nesting_has_a_bound_and_chains_have_none() {
    let deep = format!("{}1{}", "abs(".repeat(200), ")".repeat(200));
    assert_eq!(codes_of(&refusals(&deep)), codes::TOO_DEEP.to_string());
    let within = format!("{}i{}", "abs(".repeat(110), ")".repeat(110));
    assert_eq!(result_of(&within), "7");
    let chain = vec!["i = 7"; 2000].join(" and ");
    assert_eq!(result_of(&chain), "1");
}

#[test]
fn rows_that_do_not_fit_are_errors_not_panics() {
    use cdc_core::Value;
    let bound = bind(&parse("i + d > 3"), &table()).unwrap();
    assert_eq!(support::evaluated(&bound, &[]), codes::STRUCTURE_DIFFERS.to_string());
    let mut row = support::row();
    row[1] = Value::Absent;
    assert_eq!(support::evaluated(&bound, &row), codes::PARTIAL_IMAGE.to_string());
    row[1] = Value::Text("x".into());
    assert_eq!(support::evaluated(&bound, &row), codes::STRUCTURE_DIFFERS.to_string());
    row[1] = Value::Decimal("no".into());
    assert_eq!(support::evaluated(&bound, &row), codes::STRUCTURE_DIFFERS.to_string());
}
