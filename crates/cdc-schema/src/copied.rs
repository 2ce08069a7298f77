//! When a statement that moves names of columns makes the rows of a flow other ones.
//!
//! A flow reads columns by name: its filter, its computed columns and its stated key ask whatever column has the name. What is
//! written without being read is followed by lineage ([`crate::derivator`]), and needs no new rows. So where one statement gives
//! such a name to another column (names that cross, a name that a dropped column has left, a column dropped and added again), the
//! flow means other rows, or other values of them, and neither the log nor the changes hold them. The same holds for a column
//! that the flow left out and that comes in under a name which it keeps: its values have never been at the target. In both cases the
//! table is copied again.
//!
//! It is told from the flow, the shapes and the changes alone: a log that is read again says the same again.

use crate::derivator::lineage;
use cdc_core::plan::FlowPlan;
use cdc_core::plan::program::BoundFlow;
use cdc_core::schema::{TableSchema, same_name};
use cdc_core::schema_change::SchemaChange;
use std::sync::Arc;

/// Why the rows of a table are other ones for these flows behind a statement that changes its columns, so that they must come anew.
///
/// `None` where a flow does not take the table on both sides of it: then its rows come or go as a whole; or does not fit it behind it,
/// which is told elsewhere.
pub fn other_rows_when_altered<'f>(
    flows: impl IntoIterator<Item = &'f FlowPlan>,
    changes: &[SchemaChange],
    before: &Arc<TableSchema>,
    after: &Arc<TableSchema>,
) -> Option<String> {
    let moves_names =
        |c: &SchemaChange| matches!(c, SchemaChange::RenameColumn { .. } | SchemaChange::DropColumn { .. });
    if !changes.iter().any(moves_names) {
        return None;
    }
    let from = lineage(changes, before, after);
    let takes = |flow: &&FlowPlan| flow.view.is_none() && flow.takes(&before.id) && flow.takes(&after.id);
    flows.into_iter().filter(takes).find_map(|flow| {
        let (then, now) = (BoundFlow::bind(flow, before).ok()?, BoundFlow::bind(flow, after).ok()?);
        why(flow, &from, &then, &now)
    })
}

fn why(flow: &FlowPlan, from: &[Option<usize>], then: &BoundFlow, now: &BoundFlow) -> Option<String> {
    let (old, new) = (&then.source().columns, &now.source().columns);
    let came_from = |k: usize| from.get(k).copied().flatten();
    let is_another = |k: &usize| came_from(*k).is_none_or(|j| !same_name(&old[j].name, &new[*k].name));
    let key = flow.key.iter().flat_map(|_| &now.target().key).filter_map(|i| now.passthrough()[*i]);
    if let Some(k) = now.reads().iter().copied().chain(key).find(is_another) {
        return Some(format!("flow \"{}\" reads another column as \"{}\"", flow.name, new[k].name));
    }
    let was_out = |k: &usize| came_from(*k).is_some_and(|j| !then.passthrough().contains(&Some(j)));
    now.passthrough().iter().flatten().copied().find(was_out).map(|k| {
        format!("column \"{}\" holds what flow \"{}\" has left out until now", new[k].name, flow.name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::expr::{BinaryOp, Expr, ExprKind};
    use cdc_core::plan::pattern::{NamePattern, TablePattern};
    use cdc_core::plan::{
        ColumnName, FlowOp, KeyConflict, NamedExpr, SchemaChangeMode, SelectItem, TargetName,
    };
    use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId};
    use cdc_core::schema_change::ColumnPosition;
    use cdc_core::value::Value;

    fn id() -> TableId {
        TableId::new("shop", "t_1")
    }

    fn int(name: &str) -> Column {
        Column::new(name, ColumnType::Int { width: IntWidth::Int, unsigned: false })
    }

    fn flow(ops: Vec<FlowOp>, key: Option<&[&str]>) -> FlowPlan {
        FlowPlan {
            name: "f".into(),
            source: "src".into(),
            tables: TablePattern { database: None, table: NamePattern::glob("t_*") },
            ops,
            sink: "dw".into(),
            target: TargetName::Fixed("o".into()),
            key: key.map(|key| key.iter().map(|k| k.to_string()).collect()),
            on_schema_change: SchemaChangeMode::Evolve,
            include: vec![],
            exclude: vec![],
            backfill: true,
            soft_delete: None,
            view: None,
            upsert: Default::default(),
            on_conflict: Default::default(),
            key_conflict: KeyConflict::Refuse,
            span: 0..0,
        }
    }

    fn expr(kind: ExprKind) -> Expr {
        Expr { kind, span: 0..0 }
    }

    fn column(name: &str) -> Expr {
        expr(ExprKind::Column(name.into()))
    }

    fn with(op: BinaryOp, name: &str) -> Expr {
        let ten = expr(ExprKind::Literal(Value::Int(10)));
        expr(ExprKind::Binary(op, Box::new(column(name)), Box::new(ten)))
    }

    fn filter() -> FlowOp {
        FlowOp::Where(with(BinaryOp::Greater, "a"))
    }

    fn computed() -> FlowOp {
        FlowOp::Extend(vec![NamedExpr { name: "a2".into(), expr: with(BinaryOp::Multiply, "a") }])
    }

    fn without(name: &str) -> FlowOp {
        FlowOp::Drop(vec![ColumnName { name: name.into(), span: 0..0 }])
    }

    fn selected(names: &[&str]) -> FlowOp {
        let item = |n: &&str| SelectItem::Expr(NamedExpr { name: (*n).into(), expr: column(n) });
        FlowOp::Select(names.iter().map(item).collect())
    }

    fn rename(from: &str, to: &str) -> SchemaChange {
        SchemaChange::RenameColumn { table: id(), column: from.into(), to: to.into() }
    }

    fn dropped(name: &str) -> SchemaChange {
        SchemaChange::DropColumn { table: id(), column: name.into() }
    }

    fn added(name: &str) -> SchemaChange {
        SchemaChange::AddColumn { table: id(), column: int(name), position: ColumnPosition::Last }
    }

    /// As the changes of a statement come: by way of names of their own where they cross.
    fn swap() -> Vec<SchemaChange> {
        vec![rename("a", "a~"), rename("b", "a"), rename("a~", "b")]
    }

    fn ring() -> Vec<SchemaChange> {
        vec![rename("a", "a~"), rename("c", "a"), rename("b", "c"), rename("a~", "b")]
    }

    fn told(flow: &FlowPlan, changes: &[SchemaChange]) -> Option<String> {
        let before = TableSchema {
            id: id(),
            version: 1,
            columns: vec![int("id").not_null(), int("a"), int("b"), int("c")],
            primary_key: vec![0],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        let after = changes.iter().try_fold(before.clone(), |s, c| c.apply_to(&s)).unwrap();
        other_rows_when_altered([flow], changes, &Arc::new(before), &Arc::new(after))
    }

    #[test]
    fn a_name_that_is_read_means_another_column() {
        let another = Some("flow \"f\" reads another column as \"a\"".to_owned());
        let onto = || vec![dropped("a"), rename("b", "a")];
        let again = || vec![dropped("a"), added("a")];
        for changes in [swap(), ring(), onto(), again()] {
            for ops in [vec![filter()], vec![computed()], vec![filter(), selected(&["id", "c"])]] {
                assert_eq!(told(&flow(ops, None), &changes), another, "{changes:?}");
            }
            assert_eq!(told(&flow(vec![], Some(&["a"])), &changes), another, "{changes:?}");
        }
    }

    #[test]
    fn what_was_left_out_comes_in() {
        let holds =
            |name: &str| Some(format!("column \"{name}\" holds what flow \"f\" has left out until now"));
        assert_eq!(told(&flow(vec![without("a")], None), &swap()), holds("b"));
        assert_eq!(told(&flow(vec![without("a")], None), &ring()), holds("b"));
        assert_eq!(
            told(&flow(vec![selected(&["id", "b"])], None), &[dropped("b"), rename("a", "b")]),
            holds("b")
        );
        // under a name that is new too: the flow takes what is there
        assert_eq!(told(&flow(vec![without("a")], None), &[rename("a", "z"), rename("b", "a")]), holds("z"));
    }

    #[test]
    fn what_is_only_written_is_followed() {
        for changes in [swap(), ring(), vec![dropped("a"), rename("b", "a")], vec![dropped("a"), added("a")]]
        {
            assert_eq!(told(&flow(vec![], None), &changes), None, "{changes:?}");
            // a key that is read by another name
            assert_eq!(told(&flow(vec![], Some(&["id"])), &changes), None, "{changes:?}");
        }
        // others than those that are read
        let others = [rename("b", "b~"), rename("c", "b"), rename("b~", "c")];
        assert_eq!(told(&flow(vec![filter(), computed()], None), &others), None);
        assert_eq!(told(&flow(vec![without("a")], None), &others), None);
        // what a selection leaves out, on both sides
        assert_eq!(told(&flow(vec![selected(&["id", "c"])], None), &swap()), None);
        // the name is gone: the flow does not fit the table, which is told elsewhere
        assert_eq!(told(&flow(vec![filter()], None), &[rename("a", "z")]), None);
        // a new column has nothing that the target could lack
        assert_eq!(told(&flow(vec![filter()], None), &[added("d"), dropped("c")]), None);
    }

    #[test]
    fn who_does_not_take_it_is_not_asked() {
        let mut flow = flow(vec![filter()], None);
        flow.tables.table = NamePattern::glob("x_*");
        assert_eq!(told(&flow, &swap()), None);
    }
}
