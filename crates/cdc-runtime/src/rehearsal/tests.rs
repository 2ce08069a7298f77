//! The target in memory, change by change.

use super::target::{Table, Target};
use cdc_core::connector::{Sink, TargetBatch, TargetChange, TargetOp, TargetSchemaChange, TargetTable};
use cdc_core::event::Op;
use cdc_core::position::Binding;
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema};
use cdc_core::{Row, Value, codes};
use std::sync::Arc;
use std::time::Duration;

fn int() -> ColumnType {
    ColumnType::Int { width: IntWidth::Int, unsigned: false }
}

fn table(columns: &[(&str, ColumnType)], key: &[usize]) -> Arc<TargetTable> {
    let columns = columns.iter().map(|(name, ty)| Column::new(*name, ty.clone())).collect();
    let schema = TableSchema {
        id: TableId::new("shop", "t"),
        version: 1,
        columns,
        primary_key: key.to_vec(),
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    };
    Arc::new(TargetTable {
        name: "t".into(),
        schema: Arc::new(schema),
        key: key.to_vec(),
        soft_delete: None,
        told_by: None,
    })
}

fn write(target: &mut Target, table: &Arc<TargetTable>, op: TargetOp, row: &[Value<'static>]) {
    let row = Row::pack(row.iter().cloned());
    let key = if table.is_multiset() { row.clone() } else { table.key_of(&row) };
    let source_op = if op == TargetOp::Delete { Op::Delete } else { Op::Insert };
    let change =
        TargetChange { tick: 1, ordinal: 1, op, source_op, key, row: Some(row), before: None, origin: 0 };
    let batch = TargetBatch { table: table.clone(), origins: Vec::new().into(), changes: vec![change] };
    target.write(&batch).unwrap();
}

fn held(target: &mut Target, shown: &super::Shown) -> Table {
    target.commit(1, &Binding::default()).unwrap();
    shown.at(1, Duration::ZERO).unwrap()["t"].clone()
}

#[test]
fn rows_keep_what_is_not_written() {
    let (mut target, shown) = Target::new();
    let wide = table(&[("id", int()), ("a", int()), ("b", int())], &[0]);
    let narrow = table(&[("b", int()), ("id", int())], &[1]);
    target.prepare(&wide).unwrap();
    write(&mut target, &wide, TargetOp::Upsert, &[Value::Int(1), Value::Int(10), Value::Int(100)]);
    target.prepare(&narrow).unwrap();
    write(&mut target, &narrow, TargetOp::Upsert, &[Value::Int(101), Value::Int(1)]);
    write(&mut target, &narrow, TargetOp::Upsert, &[Value::Int(102), Value::Int(2)]);
    let there = held(&mut target, &shown);
    assert_eq!(
        there.rows,
        [
            vec![Value::Int(1), Value::Int(10), Value::Int(101)],
            vec![Value::Int(2), Value::Null, Value::Int(102)],
        ]
    );
    write(&mut target, &narrow, TargetOp::Delete, &[Value::Null, Value::Int(1)]);
    target.rollback();
    assert_eq!(held(&mut target, &shown).rows.len(), 2, "what was not committed is given up");
    let other = table(&[("id", int()), ("c", int())], &[0]);
    assert_eq!(target.prepare(&other).unwrap_err().code(), codes::TARGET_SHAPE);
}

#[test]
fn schema_changes_are_made_in_every_row() {
    let (mut target, shown) = Target::new();
    let t = table(&[("id", int()), ("a", int())], &[0]);
    target.prepare(&t).unwrap();
    for id in 1..=3 {
        write(&mut target, &t, TargetOp::Upsert, &[Value::Int(id), Value::Int(id % 2)]);
    }
    let name = || "t".to_owned();
    let only = vec![(Column::new("a", int()), Row::pack([Value::Int(1)]))];
    let decimal = ColumnType::Decimal { precision: 5, scale: 1, unsigned: false };
    let seven = Column { default: Some("7".into()), ..Column::new("b", int()) };
    for change in [
        TargetSchemaChange::AddColumn { table: name(), column: seven, implicit: false, keeps_default: false },
        TargetSchemaChange::FillColumn {
            table: name(),
            from: "id".into(),
            to: "b".into(),
            was: None,
            only: only.clone(),
        },
        TargetSchemaChange::AlterColumnType { table: name(), column: "b".into(), ty: decimal, was: None },
        TargetSchemaChange::RenameColumn { table: name(), from: "id".into(), to: "number".into() },
        TargetSchemaChange::DropColumn { table: name(), column: "none".into() },
    ] {
        target.apply(&change).unwrap();
    }
    let there = held(&mut target, &shown);
    let names: Vec<&str> = there.columns.iter().map(|c| &*c.name).collect();
    assert_eq!((names.as_slice(), there.key()), (&["number", "a", "b"][..], vec![0]));
    let last: Vec<String> = there.rows.iter().map(|row| row[2].to_string()).collect();
    assert_eq!(last, ["1.0", "7.0", "3.0"]);
    let remove =
        TargetSchemaChange::RemoveRows { table: name(), source: t.schema.id.clone(), only, again: true };
    target.apply(&remove).unwrap();
    assert_eq!(held(&mut target, &shown).rows.len(), 1);
    let text = ColumnType::Bit { width: 1 };
    let refused =
        TargetSchemaChange::AlterColumnType { table: name(), column: "b".into(), ty: text, was: None };
    assert_eq!(target.apply(&refused).unwrap_err().code(), codes::TARGET_DDL);
}
