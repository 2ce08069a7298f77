//! Flows bound to tables: shapes, keys, and what a change becomes (acceptance cases 66, 67 and 71).

mod support;

use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::{Change, Op};
use cdc_core::plan::pattern::{NamePattern, TablePattern};
use cdc_core::plan::program::{BoundFlow, RowMeta, check_flow, multiset_warnings, target_name};
use cdc_core::plan::{
    ColumnName, FlowOp, FlowPlan, KeyConflict, NamedExpr, SchemaChangeMode, SelectItem, TargetName,
    TemplatePart,
};
use cdc_core::schema::{Generated, IntWidth};
use cdc_core::{Code, Column, ColumnType, Row, TableId, TableSchema, Value, codes};
use std::sync::Arc;
use support::{bin, origin, parse};

/// orders(id INT PK, status VARCHAR(9), amount DECIMAL(10,2), note VARCHAR(20) INVISIBLE DEFAULT 'x')
fn orders() -> Arc<TableSchema> {
    let mut note = Column::new("note", ColumnType::VarChar { length: 20, charset: bin() });
    note.invisible = true;
    note.default = Some("'x'".into());
    note.comment = "free text".into();
    Arc::new(TableSchema {
        id: TableId::new("shop", "orders"),
        version: 3,
        columns: vec![
            Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }).not_null(),
            Column::new("status", ColumnType::VarChar { length: 9, charset: bin() }),
            Column::new("amount", ColumnType::Decimal { precision: 10, scale: 2, unsigned: false }),
            note,
        ],
        primary_key: vec![0],
        unique_keys: vec![],
        charset: bin(),
        comment: "orders of the shop".into(),
    })
}

fn row(id: i64, status: &str, amount: &str) -> Row {
    Row::pack([Value::Int(id), Value::Text(status.into()), Value::Decimal(amount.into()), Value::Null])
}

fn flow(ops: Vec<FlowOp>) -> FlowPlan {
    FlowPlan {
        name: "orders -> *".into(),
        source: "src".into(),
        tables: TablePattern { database: None, table: NamePattern::exact("orders") },
        ops,
        sink: "dw".into(),
        target: TargetName::SameAsSource,
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
        span: 1000..1010,
    }
}

fn keyed(ops: Vec<FlowOp>, key: &[&str]) -> FlowPlan {
    FlowPlan { key: Some(key.iter().map(ToString::to_string).collect()), ..flow(ops) }
}

fn named(text: &str) -> NamedExpr {
    let (expr, name) = text.rsplit_once(" as ").unwrap_or((text, text));
    NamedExpr { name: name.to_owned(), expr: parse(expr) }
}

fn filter(text: &str) -> FlowOp {
    FlowOp::Where(parse(text))
}

fn columns(names: &[&str]) -> Vec<ColumnName> {
    names.iter().map(|n| ColumnName { name: n.to_string(), span: 5..9 }).collect()
}

fn star(except: &[&str]) -> SelectItem {
    SelectItem::Star { except: columns(except) }
}

fn select(items: &[&str]) -> FlowOp {
    FlowOp::Select(
        items.iter().map(|i| if *i == "*" { star(&[]) } else { SelectItem::Expr(named(i)) }).collect(),
    )
}

fn extend(items: &[&str]) -> FlowOp {
    FlowOp::Extend(items.iter().map(|i| named(i)).collect())
}

fn rename(pairs: &[(&str, &str)]) -> FlowOp {
    FlowOp::Rename(
        pairs.iter().map(|(a, b)| (ColumnName { name: a.to_string(), span: 5..9 }, b.to_string())).collect(),
    )
}

fn bound(flow: &FlowPlan) -> BoundFlow {
    BoundFlow::bind(flow, &orders()).unwrap_or_else(|d| panic!("{d:?}"))
}

fn refused(flow: &FlowPlan) -> Vec<Code> {
    BoundFlow::bind(flow, &orders()).err().unwrap_or_default().iter().map(|d| d.code).collect()
}

fn change(op: Op, before: Option<Row>, after: Option<Row>) -> Change {
    Change { tick: 4, ordinal: 9, op, origin: 0, before, after }
}

/// `- key`, `+ key = row`, `~ key = row was row`
fn shown(changes: &[TargetChange]) -> Vec<String> {
    changes
        .iter()
        .map(|c| {
            assert_eq!((c.tick, c.ordinal, c.origin), (4, 9, 2));
            match (c.op, &c.row, &c.before) {
                (TargetOp::Delete, None, Some(before)) => format!("- {:?} was {before:?}", c.key),
                (TargetOp::Upsert, Some(row), None) => format!("+ {:?} = {row:?}", c.key),
                (TargetOp::Upsert, Some(row), Some(before)) => {
                    format!("~ {:?} = {row:?} was {before:?}", c.key)
                }
                other => panic!("{other:?}"),
            }
        })
        .collect()
}

fn changes(flow: &BoundFlow, op: Op, before: Option<Row>, after: Option<Row>) -> Vec<String> {
    let mut out = Vec::new();
    flow.changes(&change(op, before, after), &origin(), 2, &mut out).unwrap();
    let of_row = |c: &TargetChange| match (op, c.op, &c.before) {
        (Op::Update, TargetOp::Delete, _) => Op::Delete,
        (Op::Update, TargetOp::Upsert, None) => Op::Insert,
        _ => op,
    };
    assert!(out.iter().all(|c| c.source_op == of_row(c)));
    shown(&out)
}

#[test]
fn case_66_updates_enter_leave_stay_in_and_stay_out() {
    let flow = bound(&flow(vec![filter("amount > 10")]));
    let (low, high, higher) = (row(1, "a", "5.00"), row(1, "a", "20.00"), row(1, "a", "30.00"));
    let update =
        |before: &Row, after: &Row| changes(&flow, Op::Update, Some(before.clone()), Some(after.clone()));
    assert_eq!(update(&low, &high), ["+ (1) = (1, \"a\", 20.00, NULL)"]);
    assert_eq!(update(&high, &low), ["- (1) was (1, \"a\", 20.00, NULL)"]);
    assert_eq!(update(&high, &higher), ["~ (1) = (1, \"a\", 30.00, NULL) was (1, \"a\", 20.00, NULL)"]);
    assert!(update(&low, &row(1, "b", "5.00")).is_empty());
    assert!(changes(&flow, Op::Insert, None, Some(low.clone())).is_empty());
    assert!(changes(&flow, Op::Read, None, Some(low.clone())).is_empty());
    assert!(changes(&flow, Op::Delete, Some(low), None).is_empty());
    assert_eq!(changes(&flow, Op::Insert, None, Some(high.clone())), ["+ (1) = (1, \"a\", 20.00, NULL)"]);
    assert_eq!(changes(&flow, Op::Read, None, Some(high.clone())), ["+ (1) = (1, \"a\", 20.00, NULL)"]);
    assert_eq!(changes(&flow, Op::Delete, Some(high), None), ["- (1) was (1, \"a\", 20.00, NULL)"]);
}

#[test]
fn case_66_a_condition_that_is_null_keeps_nothing() {
    let flow = bound(&flow(vec![filter("note = 'x'")]));
    assert!(changes(&flow, Op::Insert, None, Some(row(1, "a", "1.00"))).is_empty());
    let negated = bound(&FlowPlan { ops: vec![filter("not note = 'x'")], ..self::flow(vec![]) });
    assert!(changes(&negated, Op::Insert, None, Some(row(1, "a", "1.00"))).is_empty());
}

#[test]
fn case_67_an_update_of_the_key_deletes_the_old_row_and_writes_the_new() {
    let flow = bound(&flow(vec![]));
    let moved = changes(&flow, Op::Update, Some(row(1, "a", "1.00")), Some(row(2, "a", "1.00")));
    assert_eq!(moved, ["- (1) was (1, \"a\", 1.00, NULL)", "+ (2) = (2, \"a\", 1.00, NULL)"]);
}

#[test]
fn case_67_a_derived_key_moves_when_what_it_is_made_of_does() {
    let ops = vec![select(&["upper(status) as code", "amount"])];
    let flow = bound(&keyed(ops, &["code"]));
    assert_eq!(
        changes(&flow, Op::Update, Some(row(1, "new", "1.00")), Some(row(1, "paid", "1.00"))),
        ["- (\"NEW\") was (\"NEW\", 1.00)", "+ (\"PAID\") = (\"PAID\", 1.00)"]
    );
    // the key is the same in upper case
    assert_eq!(
        changes(&flow, Op::Update, Some(row(1, "new", "1.00")), Some(row(1, "New", "2.00"))),
        ["~ (\"NEW\") = (\"NEW\", 2.00) was (\"NEW\", 1.00)"]
    );
    assert_eq!(
        changes(&flow, Op::Delete, Some(row(1, "new", "1.00")), None),
        ["- (\"NEW\") was (\"NEW\", 1.00)"]
    );
}

#[test]
fn case_67_a_key_that_moves_out_of_the_filter_is_only_deleted() {
    let flow = bound(&flow(vec![filter("id < 10")]));
    assert_eq!(
        changes(&flow, Op::Update, Some(row(1, "a", "1.00")), Some(row(11, "a", "1.00"))),
        ["- (1) was (1, \"a\", 1.00, NULL)"]
    );
}

#[test]
fn an_update_that_changes_nothing_of_the_output_is_written_all_the_same() {
    let flow = bound(&flow(vec![select(&["id", "status"])]));
    let same = changes(&flow, Op::Update, Some(row(1, "a", "1.00")), Some(row(1, "a", "2.00")));
    assert_eq!(same, ["~ (1) = (1, \"a\") was (1, \"a\")"]);
}

#[test]
fn rows_that_are_not_changed_are_not_copied() {
    let identity = bound(&flow(vec![]));
    assert!(identity.is_identity() && !identity.filters());
    assert_eq!(identity.passthrough(), [Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(identity.target().schema.columns, orders().columns);
    let (table, origin) = (orders().id.clone(), origin());
    let meta = RowMeta { op: Op::Read, table: &table, origin: &origin };
    let row = row(1, "a", "1.00");
    let out = identity.apply(&row, &meta).unwrap().unwrap();
    assert_eq!(out.as_bytes().as_ptr(), row.as_bytes().as_ptr());
    // filtered only
    let filtered = bound(&flow(vec![filter("id = 1")]));
    assert!(!filtered.is_identity() && filtered.filters());
    let out = filtered.apply(&row, &meta).unwrap().unwrap();
    assert_eq!(out.as_bytes().as_ptr(), row.as_bytes().as_ptr());
    // renamed only
    assert!(bound(&flow(vec![rename(&[("status", "state")])])).is_identity());
    assert!(bound(&flow(vec![select(&["*"])])).is_identity());
    assert!(!bound(&flow(vec![select(&["id", "amount", "status", "note"])])).is_identity());
}

#[test]
fn the_output_schema_keeps_what_is_known_of_plain_columns() {
    let flow = FlowPlan {
        target: TargetName::Fixed("big_orders".into()),
        ..flow(vec![
            FlowOp::Select(vec![
                star(&["status"]),
                SelectItem::Expr(named("amount * 1.19 as gross")),
                SelectItem::Expr(named("upper(status) as status_text")),
                SelectItem::Expr(named("id as same")),
            ]),
            extend(&["meta.table as shard"]),
            FlowOp::Drop(columns(&["amount"])),
            rename(&[("id", "order_id")]),
        ])
    };
    let bound = bound(&flow);
    let target = bound.target();
    assert_eq!((target.name.as_str(), &target.key), ("big_orders", &vec![0]));
    let schema = &target.schema;
    assert_eq!((&schema.id, schema.version), (&TableId::new("shop", "orders"), 3));
    assert_eq!((&schema.primary_key, schema.comment.as_str()), (&vec![0], "orders of the shop"));
    let shape: Vec<_> = schema.columns.iter().map(|c| (&*c.name, c.ty.to_string(), c.nullable)).collect();
    assert_eq!(
        shape,
        [
            ("order_id", "int".to_owned(), false),
            ("note", "varchar(20)".to_owned(), true),
            ("gross", "decimal(13,4)".to_owned(), true),
            ("status_text", "varchar(9)".to_owned(), true),
            ("same", "int".to_owned(), false),
            ("shard", "varchar(64)".to_owned(), false),
        ]
    );
    let note = &schema.columns[1];
    assert_eq!((note.default.as_deref(), note.comment.as_str()), (Some("'x'"), "free text"));
    assert!(note.invisible);
    assert_eq!(bound.passthrough(), [Some(0), Some(3), None, None, Some(0), None]);
    assert_eq!(
        changes(&bound, Op::Insert, None, Some(row(1, "a", "2.00"))),
        ["+ (1) = (1, NULL, 2.3800, \"A\", 1, \"orders\")"]
    );
}

#[test]
fn operators_see_the_columns_of_the_ones_before() {
    let ops = vec![
        extend(&["amount * 2 as amount2", "amount + 1 as amount1"]),
        filter("amount2 > amount1"),
        select(&["id", "amount2 + amount1 as total"]),
        filter("total < 100"),
    ];
    let flow = bound(&flow(ops));
    assert_eq!(changes(&flow, Op::Insert, None, Some(row(1, "a", "2.00"))), ["+ (1) = (1, 7.00)"]);
    assert!(changes(&flow, Op::Insert, None, Some(row(1, "a", "0.50"))).is_empty());
    assert!(changes(&flow, Op::Insert, None, Some(row(1, "a", "50.00"))).is_empty());
}

#[test]
fn two_columns_can_change_names() {
    let flow = bound(&flow(vec![rename(&[("status", "note"), ("note", "status")])]));
    let names: Vec<_> = flow.target().schema.columns.iter().map(|c| c.name.to_string()).collect();
    assert_eq!(names, ["id", "note", "amount", "status"]);
}

#[test]
fn keys_are_stated_or_inherited() {
    assert_eq!(bound(&keyed(vec![], &["status", "ID"])).target().key, [1, 0]);
    assert_eq!(bound(&flow(vec![select(&["status", "id as order_id"])])).target().key, [1]);
    assert_eq!(refused(&keyed(vec![], &["stauts"])), [codes::UNKNOWN_COLUMN]);
    assert_eq!(refused(&keyed(vec![], &["id", "Id"])), [codes::DUPLICATE_COLUMN]);
    // of no column: a multiset, whatever the key
    assert!(bound(&keyed(vec![], &[])).target().is_multiset());
    assert_eq!(refused(&flow(vec![select(&["status"])])), [codes::NO_KEY]);
    // a computed column is no copy of the key, whatever its name
    assert_eq!(refused(&flow(vec![select(&["id + 0 as id"])])), [codes::NO_KEY]);
    let mut keyless = (*orders()).clone();
    keyless.primary_key.clear();
    let keyless = Arc::new(keyless);
    assert!(BoundFlow::bind(&flow(vec![]), &keyless).unwrap().target().is_multiset());
    assert_eq!(BoundFlow::bind(&keyed(vec![], &["status"]), &keyless).unwrap().target().key, [1]);
    let wrong = BoundFlow::bind(&keyed(vec![], &["stauts"]), &keyless).unwrap_err();
    let wrong = wrong[0].help.join("; ");
    assert!(
        wrong.contains("\"status\"") && wrong.contains("the columns are id, status, amount, note"),
        "{wrong}"
    );
    let wrong = BoundFlow::bind(&keyed(vec![], &["zzzz"]), &keyless).unwrap_err();
    assert_eq!(wrong[0].help, ["the columns are id, status, amount, note"]);
    assert!(BoundFlow::bind(&keyed(vec![], &["status"]), &keyless).is_ok());
    // a unique key of columns that cannot be NULL does as well
    let mut unique = (*keyless).clone();
    unique.unique_keys = vec![vec![1], vec![0]];
    assert_eq!(BoundFlow::bind(&flow(vec![]), &Arc::new(unique)).unwrap().target().key, [0]);
}

#[test]
fn mistakes_are_found_together_and_once_each() {
    let ops = vec![
        filter("amuont > 1"),
        select(&["id", "uper(status) as status_text", "id as ID", "amount"]),
        // uses a column that has been refused
        filter("status_text = 'PAID'"),
        FlowOp::Drop(columns(&["nothing"])),
        rename(&[("amount", "id")]),
    ];
    assert_eq!(
        refused(&flow(ops)),
        [
            codes::UNKNOWN_COLUMN,
            codes::UNKNOWN_FUNCTION,
            codes::DUPLICATE_COLUMN,
            codes::UNKNOWN_COLUMN,
            codes::DUPLICATE_COLUMN,
        ]
    );
    assert_eq!(refused(&flow(vec![extend(&["1 as status"])])), [codes::DUPLICATE_COLUMN]);
    let star = FlowOp::Select(vec![SelectItem::Expr(named("id")), star(&[])]);
    let diagnostics = BoundFlow::bind(&flow(vec![star]), &orders()).unwrap_err();
    assert_eq!(diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), [codes::DUPLICATE_COLUMN]);
    assert!(!diagnostics[0].labels[0].span.is_empty());
}

#[test]
fn a_mistake_that_many_tables_show_is_reported_once() {
    let table = |n: u32| {
        let mut schema = (*orders()).clone();
        schema.id = TableId::new("shop", format!("orders_{n}"));
        Arc::new(schema)
    };
    let tables: Vec<_> = (0..3).map(table).chain([orders()]).collect();
    let mut flow = flow(vec![filter("amuont > 1")]);
    flow.tables.table = NamePattern::regex("orders_[0-9]+").unwrap();
    let found = check_flow(&flow, &tables);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].notes, ["the same holds for 2 other tables"]);
    flow.ops.clear();
    assert!(check_flow(&flow, &tables).is_empty());
}

#[test]
fn what_rows_show_at_run_time_has_table_and_row() {
    let at = |flow: &BoundFlow, before, after, op| {
        let mut out = Vec::new();
        let error = flow.changes(&change(op, before, after), &origin(), 2, &mut out).unwrap_err();
        assert!(out.is_empty());
        assert!(!error.is_transient());
        error
    };
    let flow = bound(&keyed(vec![], &["id", "note"]));
    let error = at(&flow, None, Some(row(1, "a", "1.00")), Op::Insert);
    assert_eq!(error.code(), codes::KEY_COLUMN_NULL);
    let text = error.to_string();
    assert!(text.contains("the key column \"note\" of target table \"orders\" is NULL"), "{text}");
    assert!(text.contains("table \"shop.orders\", at binlog.000007:154, GTID 3e11fa47"), "{text}");
    assert!(text.contains("row (1, \"a\", 1.00, NULL)"), "{text}");
    assert!(
        text.contains("|> where note is not null;") && text.contains("coalesce(note, ..) as note"),
        "{text}"
    );

    let overflow = bound(&self::flow(vec![extend(&["id * 9223372036854775807 as big"])]));
    let error = at(&overflow, None, Some(row(2, "a", "1.00")), Op::Insert);
    assert_eq!(error.code(), codes::OUT_OF_RANGE);
    assert_eq!(error.diagnostic().labels[0].span, 0.."id * 9223372036854775807".len());
    assert!(error.to_string().contains("row (2"));

    let identity = bound(&self::flow(vec![]));
    let partial = || Row::pack([Value::Int(1), Value::Absent, Value::Absent, Value::Absent]);
    let no_key = || Row::pack([Value::Absent, Value::Text("a".into()), Value::Absent, Value::Absent]);
    for (before, after, op) in [
        (None, Some(partial()), Op::Insert),
        (None, Some(partial()), Op::Read),
        (Some(no_key()), Some(row(1, "a", "1.00")), Op::Update),
        (Some(partial()), Some(no_key()), Op::Update),
        (Some(no_key()), None, Op::Delete),
        (None, Some(row(1, "a", "1.00")), Op::Update),
        (None, None, Op::Delete),
        (None, None, Op::Insert),
    ] {
        let error = at(&identity, before, after, op);
        assert_eq!(error.code(), codes::PARTIAL_IMAGE);
        assert!(error.to_string().contains("binlog_row_image = MINIMAL or NOBLOB"), "{error}");
    }
    let short = Row::pack([Value::Int(1)]);
    assert_eq!(at(&identity, None, Some(short), Op::Insert).code(), codes::STRUCTURE_DIFFERS);
}

/// Of an image without all columns what is there is handed on, by flows that read nothing but the key.
#[test]
fn case_29_updates_in_part() {
    let part = |id: Option<i64>, status: Option<&'static str>| {
        Row::pack([
            id.map_or(Value::Absent, Value::Int),
            status.map_or(Value::Absent, |s| Value::Text(s.into())),
            Value::Absent,
            Value::Absent,
        ])
    };
    let plain = flow(vec![select(&["id as number", "note", "status"])]);
    for (flow, before, after) in [
        (&plain, part(Some(1), None), part(Some(1), Some("paid"))),
        (&plain, part(Some(1), None), part(Some(2), Some("paid"))),
    ] {
        let flow = bound(flow);
        assert_eq!(flow.needs_whole_rows(), None);
        let mut out = Vec::new();
        flow.changes(&change(Op::Update, Some(before.clone()), Some(after.clone())), &origin(), 0, &mut out)
            .unwrap();
        let [update] = &out[..] else { panic!("{out:?}") };
        assert!(update.is_in_part());
        assert_eq!(update.key, Row::pack([after.get(0)]));
        assert_eq!(update.row, Some(Row::pack([after.get(0), Value::Absent, Value::Text("paid".into())])));
        assert_eq!(update.before, Some(Row::pack([before.get(0), Value::Absent, Value::Absent])));
        out.clear();
        // while the table is copied
        flow.changes(&change(Op::Update, None, Some(after)), &origin(), 0, &mut out).unwrap();
        assert!(out[0].is_in_part() && out[0].before.is_none());
        out.clear();
        flow.changes(&change(Op::Delete, Some(before), None), &origin(), 0, &mut out).unwrap();
        assert_eq!((out[0].op, &out[0].key), (TargetOp::Delete, &Row::pack([Value::Int(1)])));
    }
    let needs = |flow: &FlowPlan| bound(flow).needs_whole_rows().map(str::to_owned);
    assert_eq!(needs(&flow(vec![filter("id > 5"), extend(&["id * 2 as twice"])])), None);
    assert_eq!(needs(&keyed(vec![extend(&["id * 2 as twice"])], &["twice"])), None);
    let reads = needs(&flow(vec![select(&["id", "status as s"]), filter("s <> 'x'")])).unwrap();
    assert_eq!(reads, "a filter reads column \"status\"");
    let reads = needs(&flow(vec![extend(&["amount * 2 as twice"])])).unwrap();
    assert_eq!(reads, "a computed column reads column \"amount\"");
    let reads = needs(&keyed(vec![], &["status"])).unwrap();
    assert!(reads.contains("\"status\", which is not of the source's key"), "{reads}");
    let filtered = bound(&flow(vec![filter("status <> 'x'")]));
    let update = change(Op::Update, Some(part(Some(1), None)), Some(part(Some(1), Some("a"))));
    let error = filtered.changes(&update, &origin(), 0, &mut Vec::new()).unwrap_err();
    assert_eq!(error.code(), codes::PARTIAL_IMAGE);
    let text = error.to_string();
    assert!(text.contains("\"status\"") && text.contains("shop.orders"), "{text}");
}

#[test]
fn case_71_names_come_from_the_source_a_name_or_a_template() {
    let template = |text: &str| {
        // `a{b}c`
        let mut parts = Vec::new();
        for (i, piece) in text.split(['{', '}']).enumerate() {
            parts.push(if i % 2 == 0 {
                TemplatePart::Text(piece.to_owned())
            } else {
                TemplatePart::Group(piece.to_owned())
            });
        }
        TargetName::Template(parts)
    };
    let regex = |text: &str| TablePattern {
        database: Some(NamePattern::regex("(?<region>[a-z]+)_shop").unwrap()),
        table: NamePattern::regex(text).unwrap(),
    };
    let name = |tables: TablePattern, target, table: &str| {
        let flow = FlowPlan { tables, target, ..flow(vec![]) };
        target_name(&flow, &TableId::new("eu_shop", table)).map_err(|d| d.code)
    };
    let any = || TablePattern { database: None, table: NamePattern::glob("*") };
    assert_eq!(name(any(), TargetName::SameAsSource, "orders"), Ok("orders".into()));
    assert_eq!(name(any(), TargetName::Fixed("all".into()), "orders_1"), Ok("all".into()));
    assert_eq!(name(any(), template("ods_{table}"), "orders"), Ok("ods_orders".into()));
    assert_eq!(name(any(), template("{database}__{table}"), "orders"), Ok("eu_shop__orders".into()));
    let v2 = || regex("(?<t>.*)_v2");
    assert_eq!(name(v2(), template("ods_{t}"), "orders_v2"), Ok("ods_orders".into()));
    assert_eq!(name(v2(), template("{region}_{t}"), "orders_v2"), Ok("eu_orders".into()));
    // a swap of two names
    let swap = || regex("(?<a>[a-z]+)_(?<b>[a-z]+)");
    assert_eq!(name(swap(), template("{b}_{a}"), "old_new"), Ok("new_old".into()));
    // a group hides the word
    assert_eq!(name(regex("x_(?<table>.*)"), template("{table}"), "x_orders"), Ok("orders".into()));
    // a group that caught nothing
    assert_eq!(name(regex("(?<t>a)|b"), template("{t}"), "b"), Err(codes::TEMPLATE_GROUP));
    assert_eq!(name(v2(), template("ods_{tt}"), "orders_v2"), Err(codes::TEMPLATE_GROUP));

    let mut unknown = flow(vec![]);
    unknown.target = template("ods_{x}");
    assert_eq!(refused(&unknown), [codes::TEMPLATE_GROUP]);
}

#[test]
fn case_71_many_to_one_keeps_shards_apart_by_their_name() {
    let flow = FlowPlan {
        target: TargetName::Fixed("orders".into()),
        key: Some(vec!["shard".into(), "id".into()]),
        ..flow(vec![extend(&["meta.table as shard"])])
    };
    let mut shard = (*orders()).clone();
    shard.id = TableId::new("shop", "orders_7");
    let bound = BoundFlow::bind(&flow, &Arc::new(shard)).unwrap();
    assert_eq!(bound.target().key, [4, 0]);
    assert_eq!(
        changes(&bound, Op::Delete, Some(row(1, "a", "1.00")), None),
        ["- (\"orders_7\", 1) was (1, \"a\", 1.00, NULL, \"orders_7\")"]
    );
}

#[test]
fn generated_columns_are_copied_like_others() {
    let mut schema = (*orders()).clone();
    schema.columns[2].generated = Some(Generated { expression: "`id` * 2".into(), stored: false });
    let bound = BoundFlow::bind(&flow(vec![]), &Arc::new(schema.clone())).unwrap();
    assert_eq!(bound.target().schema.columns, schema.columns);
}

/// The naive oracle: what the target holds after each change is what the program makes of the source's rows.
#[test]
fn case_66_case_67_the_target_follows_the_source_at_every_step() {
    use std::collections::BTreeMap;
    let flows = [
        flow(vec![filter("amount > 10")]),
        flow(vec![filter("status <> 'gone'"), select(&["amount * 2 as twice", "id"]), filter("twice < 60")]),
        keyed(vec![extend(&["concat(status, '-', id) as code"]), filter("id % 3 > 0")], &["code"]),
    ];
    let (table, origin) = (orders().id.clone(), origin());
    for (n, flow) in flows.iter().enumerate() {
        let flow = bound(flow);
        let mut state = 0x9e37_79b9_7f4a_7c15u64 + n as u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut source: BTreeMap<i64, Row> = BTreeMap::new();
        let mut target: BTreeMap<Row, Row> = BTreeMap::new();
        for step in 0..5_000 {
            let id = random(20) as i64;
            let statuses = ["new", "paid", "gone"];
            let new_id = if random(4) == 0 { random(20) as i64 } else { id };
            let after = |random: &mut dyn FnMut(u64) -> u64, id| {
                row(id, statuses[random(3) as usize], &format!("{}.50", random(40)))
            };
            let change = match (source.remove(&id), random(4)) {
                (None, _) => {
                    let row = after(&mut random, id);
                    source.insert(id, row.clone());
                    change(Op::Insert, None, Some(row))
                }
                (Some(before), 0) => change(Op::Delete, Some(before), None),
                (Some(before), _) => {
                    // a move onto a row that is there would be refused at the source
                    let to = if source.contains_key(&new_id) { id } else { new_id };
                    let row = after(&mut random, to);
                    source.insert(to, row.clone());
                    change(Op::Update, Some(before), Some(row))
                }
            };
            let mut out = Vec::new();
            flow.changes(&change, &origin, 0, &mut out).unwrap();
            assert!(out.len() <= 2);
            for c in out {
                match c.op {
                    TargetOp::Delete => assert_eq!(target.remove(&c.key), c.before, "step {step}"),
                    TargetOp::Upsert => {
                        assert_eq!(target.insert(c.key, c.row.clone().unwrap()), c.before, "step {step}");
                    }
                }
            }
            let meta = RowMeta { op: change.op, table: &table, origin: &origin };
            let expect: BTreeMap<Row, Row> = source
                .values()
                .filter_map(|r| flow.apply(r, &meta).unwrap())
                .map(|r| (flow.key_of(&r), r))
                .collect();
            assert_eq!(target, expect, "flow {n}, step {step}");
        }
    }
}

fn keyless() -> Arc<TableSchema> {
    Arc::new(TableSchema { primary_key: vec![], ..(*orders()).clone() })
}

fn of_multiset(flow: &FlowPlan) -> Result<BoundFlow, Vec<Code>> {
    BoundFlow::bind(flow, &keyless()).map_err(|d| d.iter().map(|d| d.code).collect())
}

#[test]
fn case_15_rows_without_a_key_come_and_go_as_a_whole() {
    let (a, b) = (|| Some(row(1, "a", "1.00")), || Some(row(2, "b", "2.00")));
    let target = of_multiset(&flow(vec![])).unwrap();
    assert_eq!(
        changes(&target, Op::Insert, None, a()),
        ["+ (1, \"a\", 1.00, NULL) = (1, \"a\", 1.00, NULL)"]
    );
    assert_eq!(
        changes(&target, Op::Update, a(), b()),
        [
            "- (1, \"a\", 1.00, NULL) was (1, \"a\", 1.00, NULL)",
            "+ (2, \"b\", 2.00, NULL) = (2, \"b\", 2.00, NULL)"
        ]
    );
    // through operators: what comes out equal has not changed; what the filter takes is gone
    let ops = vec![filter("amount < 2"), select(&["status", "note as remark"]), extend(&["meta.table as t"])];
    let target = of_multiset(&flow(ops)).unwrap();
    let remark = row(7, "a", "1.00");
    assert!(changes(&target, Op::Update, a(), Some(remark)).is_empty());
    assert_eq!(
        changes(&target, Op::Update, a(), b()),
        ["- (\"a\", NULL, \"orders\") was (\"a\", NULL, \"orders\")"]
    );
    // with a key of its own it is keyed
    let target = BoundFlow::bind(&keyed(vec![], &["id"]), &keyless()).unwrap();
    assert_eq!(changes(&target, Op::Delete, a(), None), ["- (1) was (1, \"a\", 1.00, NULL)"]);
}

#[test]
fn what_is_another_in_each_change_is_no_part_of_a_row_without_a_key() {
    for field in ["op", "ts", "position", "gtid"] {
        let extended = vec![extend(&[&format!("coalesce(meta.{field}, 'x') as m")])];
        let filtered = vec![filter(&format!("meta.{field} is not null"))];
        for ops in [extended, filtered] {
            assert_eq!(of_multiset(&flow(ops.clone())).unwrap_err(), [codes::NO_KEY], "{field}");
            assert!(BoundFlow::bind(&keyed(ops, &["id"]), &keyless()).is_ok(), "{field}");
        }
    }
    assert!(of_multiset(&flow(vec![extend(&["meta.table as t", "meta.database as d"])])).is_ok());
}

#[test]
fn a_table_copied_as_a_multiset_is_told_once() {
    let star =
        FlowPlan { tables: TablePattern { database: None, table: NamePattern::glob("*") }, ..flow(vec![]) };
    let mut log = (*keyless()).clone();
    log.id = TableId::new("shop", "log");
    let schemas = [orders(), Arc::new(log)];
    let found = multiset_warnings([&star, &star], &schemas);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].headline, "table \"shop.log\" has no key: it is copied as a multiset");
    assert!(found[0].help[0].contains("key (..)"), "{found:?}");
    let vouched = FlowPlan { key: Some(vec!["id".into()]), ..star };
    assert!(multiset_warnings([&vouched], &schemas).is_empty());
}

#[test]
fn columns_that_hold_one_value_are_known() {
    let ops = vec![
        extend(&["meta.table as t", "concat(meta.database, '.', meta.table) as full", "id + 1 as next"]),
        rename(&[("t", "shard")]),
        extend(&["upper(shard) as big", "concat(status, shard) as mixed", "meta.ts as at", "1 as one"]),
        select(&["id", "big", "full", "shard", "next", "mixed", "at", "one"]),
    ];
    let bound = bound(&flow(ops));
    let known: Vec<_> = bound
        .constants()
        .iter()
        .map(|(i, value)| format!("{} {value:?}", bound.target().schema.columns[*i].name))
        .collect();
    assert_eq!(known, ["big (\"ORDERS\")", "full (\"shop.orders\")", "shard (\"orders\")", "one (1)"]);
}
