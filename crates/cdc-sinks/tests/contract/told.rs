//! Rows of several source tables in one table of the target.

use super::*;
use cdc_core::codes;
use cdc_core::schema::TableId;
use cdc_core::value::Value;

pub fn several_sources(place: &dyn Place) {
    what_is_about_the_rows_of_one_source_leaves_the_others(place);
    of_a_shared_table_only_the_rows_of_one_source_go(place);
    a_row_is_told_from_that_of_another_table(place);
}

fn what_is_about_the_rows_of_one_source_leaves_the_others(place: &dyn Place) {
    let case = &*place.case();
    let mut sink = case.filled(&shards(), &shard_rows());
    changes_of_one_shard(&mut *sink);
    assert_eq!(case.sql("SELECT shard, id, note, copy, n FROM shards ORDER BY n, id"), SHARDS_AFTER);
}

fn of_a_shared_table_only_the_rows_of_one_source_go(place: &dyn Place) {
    let case = &*place.case();
    let shard = Column::new("shard", varchar());
    let columns = vec![shard.clone().not_null(), Column::new("id", int()).not_null()];
    let table = table("log", columns, &[0, 1]);
    let row = |shard: &'static str, id| Row::pack([text(shard), Value::Int(id)]);
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    let again = |only| TargetSchemaChange::RemoveRows {
        table: "log".into(),
        source: TableId::new("shop", "log"),
        only,
        again: true,
    };
    let rows = [row("a", 1), row("A", 1), row("a", 2), row("b", 1)];
    done(&mut *sink, 1, &[upserts(&table, 1, &rows)]).unwrap();
    sink.apply(&again(vec![(shard, Row::pack([text("a")]))])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    assert_eq!(case.counted("SELECT shard, id FROM log"), ["A|1|1", "b|1|1"]);
    let unknown = Column::new("nothing", varchar());
    refused(sink.apply(&again(vec![(unknown, Row::pack([text("a")]))])), codes::TARGET_DDL, &["nothing"]);
}

/// [`Sink::other_owner`]: by any key, of rows that are committed, that are open and that wait, and in no tick that is there already.
fn a_row_is_told_from_that_of_another_table(place: &dyn Place) {
    for key in [&[0][..], &[1, 0]] {
        let case = &*place.case();
        let columns = vec![
            Column::new("id", int()).not_null(),
            Column::new("k", binary_varchar()).not_null(),
            Column::new("gone", int()),
            Column::new("_cdc_source", varchar()),
        ];
        let table =
            TargetTable { told_by: Some(3), soft_delete: Some(2), ..(*table("t", columns, key)).clone() };
        let table = Arc::new(table);
        let row = |id: i64, gone: i64, owner: &str| {
            Row::pack([Value::Int(id), text("it's"), Value::Int(gone), text(owner)])
        };
        let keys =
            |ids: std::ops::Range<i64>| ids.map(|id| table.key_of(&row(id, 0, ""))).collect::<Vec<_>>();
        let mut sink = case.claimed();
        sink.prepare(&table).unwrap();
        let ask = |sink: &mut dyn Sink, tick, ids, owners: &[&str]| {
            sink.other_owner(&table, tick, &keys(ids), owners).unwrap()
        };
        assert_eq!(ask(&mut *sink, 1, 1..4, &["shop.a"]), None);
        let rows = [row(1, 0, "shop.a"), row(2, 0, "shop.A"), row(3, 1, "shop.b"), row(900, 0, "it's.x")];
        sink.write(&upserts(&table, 1, &rows)).unwrap();
        for committed in [false, true] {
            assert_eq!(ask(&mut *sink, 1, 1..4, &["shop.a"]), Some((1, "shop.A".into())), "{committed}");
            assert_eq!(ask(&mut *sink, 1, 1..4, &["shop.a", "shop.A"]), None, "3 is deleted, and nobody's");
            assert_eq!(ask(&mut *sink, 1, 3..4, &["shop.a"]), None);
            assert_eq!(ask(&mut *sink, 1, 1..2, &["it's"]), Some((0, "shop.a".into())));
            // behind more than a statement's keys
            assert_eq!(ask(&mut *sink, 1, 100..1400, &["shop.a"]), Some((800, "it's.x".into())));
            assert_eq!(ask(&mut *sink, 1, 100..1400, &["it's.x"]), None);
            sink.commit(1, &binding(1)).unwrap();
        }
        // a tick that is there already shows what came later
        case.sql("UPDATE _cdc_progress SET tick = 3");
        assert_eq!(ask(&mut *sink, 2, 1..4, &["shop.a"]), None);
        sink.rollback();
        assert_eq!(ask(&mut *sink, 4, 1..4, &["shop.a"]), Some((1, "shop.A".into())));
        sink.rollback();
        case.sql("UPDATE _cdc_progress SET epoch = epoch + 1");
        refused(sink.other_owner(&table, 4, &keys(1..4), &["shop.a"]), codes::TARGET_FENCED, &["taken over"]);
    }
}
