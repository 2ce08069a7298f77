//! Which of several rows of one key is the last one.
//!
//! Behind a join or a group a row has no position of its own in the source's log, and one that was loaded at a start has lost it. So the order is
//! by what rows hold: every number of workers, every replay and `cdc verify` choose the same one. A column that is named comes first, compared
//! as its type and collation are everywhere else, with NULL below every value; rows that are equal in it are told apart by all
//! their columns in order, which is the whole order where none is named.

use super::OnConflict;
use super::bind::part_of;
use super::key::{KeyPart, KeyProgram, order_of};
use crate::diagnostic::Diagnostic;
use crate::error::Result;
use crate::event::{Op, Origin};
use crate::expr::eval::{BoundExpr, RowMeta, Scope, unknown_column};
use crate::row::Row;
use crate::schema::{TableId, TableSchema};
use crate::value::Value;

/// The order of the rows of one key.
#[derive(Debug, Clone)]
pub struct Ranking {
    by: KeyProgram,
    table: TableId,
}

impl Ranking {
    /// What a policy says of these rows; `owner`, such as `flow "a => b"`, is whose they are.
    ///
    /// # Errors
    /// A column that is not there, or whose type has no order.
    pub fn bind(policy: &OnConflict, rows: &TableSchema, owner: &str) -> Result<Ranking, Vec<Diagnostic>> {
        let table = rows.id.clone();
        let Some(by) = policy.by() else { return Ok(Ranking { by: KeyProgram::default(), table }) };
        let Some(index) = rows.column_index(&by.name) else {
            let names = rows.columns.iter().map(|c| &*c.name);
            return Err(vec![unknown_column(&by.name, &by.span, owner, names)]);
        };
        let scope = Scope::of_table(rows);
        let column = &scope.columns[index];
        let expr = BoundExpr::of_column(index, &column.name, &column.ty, &by.span);
        let (part, _): (KeyPart, _) = part_of(&scope, expr, false)?;
        Ok(Ranking { by: KeyProgram::of(vec![part]), table })
    }

    /// Bytes that are greater of a row that is the later one; no two rows have the same.
    ///
    /// # Errors
    /// A DECIMAL that is no number.
    pub fn order_of(&self, row: &Row) -> Result<Vec<u8>> {
        let all = order_of(row)?;
        if self.by.is_empty() {
            return Ok(all);
        }
        let origin = Origin::default();
        let meta = RowMeta { op: Op::Read, table: &self.table, origin: &origin };
        let values: Vec<Value<'_>> = row.iter().collect();
        let mut order = Vec::with_capacity(all.len() + 16);
        // no such encoding is the beginning of another one, so what stands behind it counts among equal ones only
        self.by.encode(&values, &meta, &mut order)?;
        order.extend(all);
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ColumnName;
    use crate::schema::{Charset, Column, ColumnType, IntWidth};

    fn rows(column: ColumnType) -> TableSchema {
        TableSchema {
            id: TableId::new("", "v"),
            version: 1,
            columns: vec![
                Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }),
                Column::new("changed", column),
            ],
            primary_key: Vec::new(),
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        }
    }

    fn by(name: &str) -> OnConflict {
        OnConflict::Last(Some(ColumnName { name: name.into(), span: 3..7 }))
    }

    fn text() -> ColumnType {
        ColumnType::VarChar { length: 20, charset: Charset::new("utf8mb4", "utf8mb4_general_ci") }
    }

    #[test]
    fn the_named_column_counts_first_then_all_in_order() {
        let row = |id, text: Option<&'static str>| {
            Row::pack([Value::Int(id), text.map_or(Value::Null, |text| Value::Text(text.into()))])
        };
        let ranking = Ranking::bind(&by("CHANGED"), &rows(text()), "view \"v\"").unwrap();
        let mut all =
            [row(9, Some("a")), row(1, Some("b")), row(2, Some("B")), row(99, None), row(3, Some("a "))];
        all.sort_by_key(|row| ranking.order_of(row).unwrap());
        // equal under the collation, so told by the first column; NULL is the least
        let ids: Vec<_> = all.iter().map(|row| row.get(0)).collect();
        assert_eq!(ids, [99, 3, 9, 1, 2].map(Value::Int));
        let without = Ranking::bind(&OnConflict::Log(None), &rows(text()), "view \"v\"").unwrap();
        all.sort_by_key(|row| without.order_of(row).unwrap());
        let ids: Vec<_> = all.iter().map(|row| row.get(0)).collect();
        assert_eq!(ids, [1, 2, 3, 9, 99].map(Value::Int));
    }

    #[test]
    fn a_column_that_is_not_there_or_has_no_order_is_told_at_its_name() {
        let found = Ranking::bind(&by("chanegd"), &rows(text()), "flow \"v => dw.v\"").unwrap_err();
        assert_eq!(found[0].headline, "unknown column \"chanegd\" of flow \"v => dw.v\"");
        assert_eq!(
            (found[0].labels[0].span.clone(), &*found[0].help[0]),
            (3..7, "the nearest name is \"changed\"")
        );
        let found = Ranking::bind(&by("changed"), &rows(ColumnType::Json), "flow").unwrap_err();
        assert_eq!(found[0].labels[0].span, 3..7, "{found:?}");
    }
}
