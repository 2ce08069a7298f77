//! Commits, and tables with a key.

use super::*;
use cdc_core::codes;
use cdc_core::connector::{TargetChange, TargetOp};
use cdc_core::event::Op;
use cdc_core::schema::Charset;
use cdc_core::value::Value;
use std::process::{Command, Stdio};
use std::time::Instant;

pub fn commits(place: &dyn Place) {
    rows_tick_and_binding_are_committed_together_and_found_again(place);
    a_second_claim_fences_off_the_first_run(place);
    an_epoch_fences_off_a_session_that_lives(place);
    a_target_that_has_moved_since_it_was_looked_at_is_looked_at_again(place);
    progress_of_another_job_is_not_taken_over(place);
    a_commit_whose_answer_was_lost_is_recognised(place);
    a_replay_writes_nothing_twice(place);
}

pub fn keys(place: &dyn Place) {
    keys_that_swap_and_keys_that_are_close(place);
    a_case_insensitive_key_of_the_target_keeps_one_row_in_the_new_spelling(place);
    hostile_names_and_values_are_only_that(place);
    triggers_of_the_target_count_each_write_once(place);
    a_row_that_the_target_refuses_is_shown(place);
}

pub fn tables(place: &dyn Place) {
    rows_that_the_pipeline_did_not_write_are_refused(place);
    a_unique_index_that_is_added_while_we_write_costs_no_row(place);
    what_is_the_users_in_a_table_stays(place);
    an_empty_table_of_another_shape_is_made_to_fit_where_that_is_asked_for(place);
}

fn rows_tick_and_binding_are_committed_together_and_found_again(place: &dyn Place) {
    let case = &*place.case();
    let (table, rows) = (orders(), [order(1, "a"), order(2, "b")]);
    {
        let mut sink = case.sink();
        assert_eq!(sink.inspect(&job("run 1")).unwrap(), None);
        sink.check(&table).unwrap();
        let mut reader = case.reader();
        assert_eq!(reader.count(&table).unwrap(), 0, "looking makes nothing");
        assert_eq!(reader.compare(&table, &rows[..1]).unwrap(), [Comparison::Missing]);
        sink.claim(&job("run 1")).unwrap();
        sink.prepare(&table).unwrap();
        sink.write(&upserts(&table, 1, &rows)).unwrap();
        assert_eq!(case.sql("SELECT COUNT(*) FROM orders"), ["0"]);
        sink.commit(1, &binding(100)).unwrap();
        assert_eq!(case.sql("SELECT COUNT(*) FROM orders"), ["2"]);
        // ended with a tick half written
        sink.write(&upserts(&table, 2, &[order(3, "c")])).unwrap();
    }
    case.equal(&table, &rows);
    let mut sink = case.sink();
    let resume = sink.inspect(&job("run 2")).unwrap().unwrap();
    assert_eq!((resume.tick, &*resume.job_id, resume.binding), (1, "job-1", binding(100)));
    sink.check(&table).unwrap();
    // the tick comes again, and a tick without changes moves the binding
    sink.claim(&job("run 2")).unwrap();
    sink.prepare(&table).unwrap();
    sink.write(&upserts(&table, 2, &[order(3, "c")])).unwrap();
    sink.commit(2, &binding(200)).unwrap();
    sink.commit(7, &binding(300)).unwrap();
    // given up, and written in another way; and once more, which changes nothing
    sink.write(&upserts(&table, 8, &[order(9, "wrong")])).unwrap();
    sink.rollback();
    for tick in [8, 9] {
        sink.write(&upserts(&table, tick, &[order(4, "d")])).unwrap();
        sink.commit(tick, &binding(tick)).unwrap();
    }
    case.equal(&table, &[order(1, "a"), order(2, "b"), order(3, "c"), order(4, "d")]);
    assert_eq!(
        case.sql("SELECT pipeline, sink, job_id, epoch, tick, run FROM _cdc_progress"),
        ["shop|dw|job-1|2|9|run 2"]
    );
    assert_eq!(case.sql("SELECT pipeline, sink, name FROM _cdc_tables"), ["shop|dw|orders"]);
}

fn a_second_claim_fences_off_the_first_run(place: &dyn Place) {
    let case = &*place.case();
    let table = orders();
    let mut first = case.filled(&table, &[order(1, "a")]);
    if case.flavor() != Flavor::Sqlite {
        // an old process that sleeps in the middle of a transaction and holds rows: it is not waited for (in a file it is)
        let open: Vec<Row> = (0..30_000).map(|i| order(i, "open")).collect();
        first.write(&upserts(&table, 2, &open)).unwrap();
    }
    let began = Instant::now();
    let mut second = case.sink();
    second.claim(&job("host b, process 7")).unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    // a session may have been ended: it comes back and sees why
    let words = ["taken over", "host b, process 7", "help:"];
    let late = upserts(&table, 2, &[order(9, "late")]);
    if let Err(error) = done(&mut *first, 2, std::slice::from_ref(&late))
        && error.is_transient()
    {
        first.rollback();
    }
    refused(first.write(&late), codes::TARGET_FENCED, &words);
    refused(first.commit(2, &binding(2)), codes::TARGET_FENCED, &words);
    let error = refused(first.apply(&drop_orders()), codes::TARGET_FENCED, &words);
    assert!(!error.is_transient());
    // and it has not ended the second one's
    done(&mut *second, 2, &[upserts(&table, 2, &[order(2, "b")])]).unwrap();
    case.equal(&table, &[order(1, "a"), order(2, "b")]);
    assert_eq!(case.sql("SELECT tick, epoch FROM _cdc_progress"), ["2|2"]);
}

/// What was looked at is not what is claimed: the commit of the run before came in between.
fn a_target_that_has_moved_since_it_was_looked_at_is_looked_at_again(place: &dyn Place) {
    let case = &*place.case();
    let table = orders();
    let mut before = case.claimed();
    let mut sink = case.sink();
    for tick in [1, 2] {
        let seen = sink.inspect(&job("run 2")).unwrap().map_or(0, |r| r.tick);
        assert_eq!(seen, tick - 1);
        // (its session may have been ended by the claim that was refused)
        committed(&mut *before, tick, &[upserts(&table, tick, &[order(i64::try_from(tick).unwrap(), "a")])]);
        let words = format!("stands at tick {tick} now, and stood at tick {seen}");
        let moved = refused(sink.claim(&job("run 2")), codes::TARGET_BUSY, &[&words, "help:"]);
        assert!(moved.is_transient(), "{moved}");
        assert_eq!(sink.inspect(&job("run 2")).unwrap().map(|r| r.tick), Some(tick));
    }
    sink.claim(&job("run 2")).unwrap();
    done(&mut *sink, 3, &[upserts(&table, 3, &[order(3, "a")])]).unwrap();
    case.equal(&table, &[order(1, "a"), order(2, "a"), order(3, "a")]);
}

/// As fencing by the epoch alone.
fn an_epoch_fences_off_a_session_that_lives(place: &dyn Place) {
    let case = &*place.case();
    let table = orders();
    let mut sink = case.filled(&table, &[order(1, "a")]);
    let words = ["taken over", "the other"];
    if case.flavor() == Flavor::Postgres {
        // our row there is not locked before the commit, which finds out too
        sink.write(&upserts(&table, 2, &[order(2, "b")])).unwrap();
    }
    case.sql("UPDATE _cdc_progress SET epoch = epoch + 1, run = 'the other'");
    if case.flavor() == Flavor::Postgres {
        refused(sink.commit(2, &binding(2)), codes::TARGET_FENCED, &words);
    }
    refused(sink.write(&upserts(&table, 2, &[order(2, "b")])), codes::TARGET_FENCED, &words);
    refused(sink.commit(2, &binding(2)), codes::TARGET_FENCED, &words);
    let change = TargetSchemaChange::DropColumn { table: "orders".into(), column: "note".into() };
    refused(sink.apply(&change), codes::TARGET_FENCED, &words);
    case.sql("DELETE FROM _cdc_progress");
    refused(sink.commit(2, &binding(2)), codes::TARGET_FENCED, &["deleted"]);
    case.equal(&table, &[order(1, "a")]);
}

fn progress_of_another_job_is_not_taken_over(place: &dyn Place) {
    let case = &*place.case();
    let mut other = job("run 2");
    other.job_id = "job-2".into();
    let mut first = case.claimed();
    // nothing committed yet: nothing can be lost
    let mut sink = case.sink();
    sink.claim(&other).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    let words = ["another state folder", "job-2", "job-1"];
    refused(case.sink().claim(&job("run 3")), codes::TARGET_PROGRESS, &words);
    let lost = first.commit(1, &binding(1)).unwrap_err();
    assert!(lost.is_transient() || lost.code() == codes::TARGET_FENCED, "{lost}");
    first.rollback();
    refused(first.commit(1, &binding(1)), codes::TARGET_FENCED, &[]);
    // (a run that is fenced off ends, and its session with it)
    drop(first);
    // another pipeline at the same target is nobody's business
    let mut third = job("x");
    third.pipeline = "other".into();
    let mut beside = case.sink();
    assert_eq!(beside.inspect(&third).unwrap(), None);
    beside.claim(&third).unwrap();
    beside.commit(1, &binding(1)).unwrap();
    // (its session may have been ended by the one that was refused)
    committed(&mut *sink, 2, &[]);
    drop((sink, beside));
    // a progress table that is not ours
    case.sql("DROP TABLE _cdc_progress");
    case.sql("CREATE TABLE _cdc_progress (x INT)");
    refused(case.sink().inspect(&job("run")), codes::TARGET_PROGRESS, &["wanted:", "found:"]);
    refused(case.sink().claim(&job("run")), codes::TARGET_PROGRESS, &["wanted:", "found:"]);
    assert_eq!(case.sql("SELECT COUNT(*) FROM _cdc_progress"), ["0"]);
}

fn a_commit_whose_answer_was_lost_is_recognised(place: &dyn Place) {
    let case = &*place.case();
    let (table, log) = (orders(), log());
    let line = |text_: &str| Row::pack([text(text_), Value::Int(1), Value::Double(1.0)]);
    let plus = |tick, text_: &str| TargetChange { key: line(text_), ..upsert(&log, tick, &line(text_)) };
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    sink.prepare(&log).unwrap();
    // as if COMMIT of tick 3 had become durable and reported an error all the same
    case.sql("UPDATE _cdc_progress SET tick = 3");
    for tick in [1, 3] {
        sink.write(&upserts(&table, tick, &[order(tick as i64, "again")])).unwrap();
        sink.write(&batch(&log, vec![plus(tick, "again")])).unwrap();
        sink.commit(tick, &binding(tick)).unwrap();
    }
    assert_eq!(case.sql("SELECT COUNT(*) FROM orders UNION ALL SELECT COUNT(*) FROM log"), ["0", "0"]);
    done(&mut *sink, 4, &[upserts(&table, 4, &[order(4, "new")])]).unwrap();
    case.equal(&table, &[order(4, "new")]);
    // the same, but the next commit covers more than the lost one
    case.sql("UPDATE _cdc_progress SET tick = 5");
    sink.write(&batch(&log, vec![plus(5, "lost"), plus(6, "new")])).unwrap();
    sink.write(&upserts(&table, 6, &[order(6, "new")])).unwrap();
    sink.commit(6, &binding(6)).unwrap();
    assert_eq!(case.sql("SELECT line FROM log"), ["new"]);
    case.equal(&table, &[order(4, "new"), order(6, "new")]);
    assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), ["6"]);
}

/// Each tick is written, given up behind its last write, and written again, by this run and by the next: a table without key and a
/// trigger would show it.
fn a_replay_writes_nothing_twice(place: &dyn Place) {
    let case = &*place.case();
    let mut sink = case.claimed();
    let log = log();
    let line = |n: u64| Row::pack([text("x"), Value::Int(n as i64), Value::Double(1.0)]);
    sink.prepare(&orders()).unwrap();
    sink.prepare(&log).unwrap();
    case.count_writes();
    for tick in 1..=4u64 {
        let gone = delete(tick, Row::pack([Value::Int(tick as i64 - 1)]));
        let came = upsert(&orders(), tick, &order(tick as i64, "came"));
        let mut lines = vec![TargetChange { key: line(tick), ..upsert(&log, tick, &line(tick)) }];
        if tick > 1 {
            lines.insert(0, delete(tick, line(tick - 1)));
        }
        let batches = [batch(&orders(), vec![gone, came]), batch(&log, lines)];
        for b in &batches {
            sink.prepare(&b.table).unwrap();
            sink.write(b).unwrap();
        }
        if tick % 2 == 0 {
            sink.rollback();
        } else {
            sink = case.sink();
            sink.inspect(&job("next")).unwrap();
            sink.claim(&job("next")).unwrap();
        }
        committed(&mut *sink, tick, &batches);
    }
    assert_eq!(case.counted("SELECT line, n FROM log"), ["x|4|1"]);
    let wanted =
        ["1|DELETE|1", "1|INSERT|1", "2|DELETE|1", "2|INSERT|1", "3|DELETE|1", "3|INSERT|1", "4|INSERT|1"];
    assert_eq!(case.counted("SELECT id, what FROM writes"), wanted);
}

fn keys_that_swap_and_keys_that_are_close(place: &dyn Place) {
    let case = &*place.case();
    let table = pairs(varchar());
    let row = |k: &str, v| Row::pack([text(k), Value::Int(v)]);
    // two keys that are two at some source are two here (PostgreSQL holds no NUL)
    let mut all = vec!["a", "A", "a ", "ä", "ss", "ß"];
    if case.flavor() != Flavor::Postgres {
        all.push("a\0");
    }
    let rows: Vec<Row> = all.iter().zip(1..).map(|(k, v)| row(k, v)).collect();
    let mut sink = case.filled(&table, &rows);
    case.equal(&table, &rows);
    let key = |k: &str| Row::pack([text(k)]);
    sink.write(&batch(&table, all.iter().map(|k| delete(2, key(k))).collect())).unwrap();
    sink.write(&upserts(&table, 2, &[row("a", 1), row("b", 2), row("A", 3)])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    // a and b swap; A goes: the delete stands behind the upserts and is no one else's
    let changes = vec![upsert(&table, 3, &row("b", 1)), upsert(&table, 3, &row("a", 2)), delete(3, key("A"))];
    sink.write(&batch(&table, changes)).unwrap();
    // a batch of several ticks, and a key that comes twice in one: in their order
    let changes = vec![
        delete(4, key("a")),
        upsert(&table, 5, &row("a", 4)),
        upsert(&table, 6, &row("c", 5)),
        delete(6, key("c")),
        upsert(&table, 6, &row("d", 5)),
        delete(6, key("d")),
        upsert(&table, 6, &row("d", 6)),
    ];
    sink.write(&batch(&table, changes)).unwrap();
    sink.commit(6, &binding(2)).unwrap();
    case.equal(&table, &[row("b", 1), row("a", 4), row("d", 6)]);
}

fn a_case_insensitive_key_of_the_target_keeps_one_row_in_the_new_spelling(place: &dyn Place) {
    let case = &*place.case();
    let of =
        |collation: &str| ColumnType::VarChar { length: 100, charset: Charset::new("utf8mb4", collation) };
    // how the target declares such a key, and the source's column under which it may
    let (declared, ty) = match case.flavor() {
        Flavor::Sqlite => ("k VARCHAR(100) COLLATE NOCASE PRIMARY KEY", varchar()),
        Flavor::Mysql => (
            "k VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY",
            of("utf8mb4_0900_ai_ci"),
        ),
        Flavor::MariaDb => (
            "k VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY",
            of("utf8mb4_general_ci"),
        ),
        Flavor::Postgres => {
            case.sql(
                "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            );
            ("k varchar(200) COLLATE ci PRIMARY KEY", varchar())
        }
    };
    case.sql(&format!("CREATE TABLE t ({declared}, v INT)"));
    let row = |k: &str, v| Row::pack([text(k), Value::Int(v)]);
    let key = |k: &str| Row::pack([text(k)]);
    let mut sink = case.claimed();
    // under a source's key that tells case apart, two rows would become one
    let words = ["one key of several", "help:"];
    refused(sink.check(&pairs(binary_varchar())), codes::TARGET_SHAPE, &words);
    let table = pairs(ty);
    sink.check(&table).unwrap();
    done(&mut *sink, 1, &[upserts(&table, 1, &[row("a", 1)])]).unwrap();
    // the delete stands behind
    let changes = vec![upsert(&table, 2, &row("A", 2)), delete(2, key("a"))];
    done(&mut *sink, 2, &[batch(&table, changes)]).unwrap();
    case.equal(&table, &[row("A", 2)]);
    done(&mut *sink, 3, &[upserts(&table, 3, &[row("a", 3)])]).unwrap();
    case.equal(&table, &[row("a", 3)]);
    // several ticks in one transaction, there and back
    for (tick, from, to) in [(4, "a", "A"), (5, "A", "a"), (6, "a", "A")] {
        sink.write(&batch(
            &table,
            vec![delete(tick, key(from)), upsert(&table, tick, &row(to, tick as i64))],
        ))
        .unwrap();
    }
    sink.commit(6, &binding(6)).unwrap();
    case.equal(&table, &[row("A", 6)]);
}

fn hostile_names_and_values_are_only_that(place: &dyn Place) {
    let case = &*place.case();
    let hostile = [
        "select",
        "a-b",
        "timestamp",
        "rowid",
        "oid",
        "x\"; DROP TABLE victim; --",
        "x`; DROP TABLE victim; --",
        "x'; DROP TABLE victim; --",
        "it's",
        "日本",
        "`tick`",
        "\"q\"",
        "a.b",
        "[c]",
        "c0",
        "T",
        "u",
        "\\",
        "\\N",
        "?",
        "$1",
        "%s",
        "excluded",
        "_cdc_new",
        "_cdc_target",
    ];
    let mut sink = case.claimed();
    case.sql("CREATE TABLE victim (id INT PRIMARY KEY)");
    for (tick, name) in (1..).step_by(2).zip(hostile.iter().filter(|name| !name.starts_with("_cdc"))) {
        let mut columns: Vec<Column> = hostile.iter().map(|n| Column::new(*n, binary_varchar())).collect();
        columns[1] = columns[1].clone().not_null();
        columns[5] = columns[5].clone().not_null();
        let table = table(name, columns, &[1, 5]);
        let row = Row::pack(hostile.iter().map(|n| text(n)));
        let gone = Row::pack(hostile.iter().map(|n| text(&format!("{n}{n}"))));
        done(&mut *sink, tick, &[upserts(&table, tick, &[row.clone(), gone.clone()])]).unwrap();
        sink.write(&upserts(&table, tick + 1, std::slice::from_ref(&row))).unwrap();
        sink.write(&batch(&table, vec![delete(tick + 1, key_of(&table, &gone))])).unwrap();
        sink.commit(tick + 1, &binding(1)).unwrap();
        case.equal(&table, &[row]);
    }
    assert_eq!(case.sql("SELECT COUNT(*) FROM victim"), ["0"]);
    let own = if case.flavor() == Flavor::Sqlite { "sqlite_master" } else { "_cdc_tables" };
    for name in ["_cdc_progress", "_CDC_x", "", "a\0b", own] {
        let columns = vec![Column::new("id", int()).not_null()];
        refused(sink.prepare(&table(name, columns, &[0])), codes::TARGET_SHAPE, &["help:"]);
    }
}

fn triggers_of_the_target_count_each_write_once(place: &dyn Place) {
    let case = &*place.case();
    let table = orders();
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    case.count_writes();
    done(&mut *sink, 1, &[upserts(&table, 1, &[order(1, "a"), order(2, "b")])]).unwrap();
    let changes = vec![delete(2, Row::pack([Value::Int(2)])), upsert(&table, 2, &order(1, "c"))];
    done(&mut *sink, 2, &[batch(&table, changes)]).unwrap();
    let wanted = ["1|INSERT|1", "1|UPDATE|1", "2|DELETE|1", "2|INSERT|1"];
    assert_eq!(case.counted("SELECT id, what FROM writes"), wanted);
    // many rows, of which one is there already: a bulk path that met it has left nothing
    case.sql("DELETE FROM writes");
    let many: Vec<Row> = (1..=200).map(|i| order(i, "many")).collect();
    done(&mut *sink, 3, &[upserts(&table, 3, &many)]).unwrap();
    case.equal(&table, &many);
    assert_eq!(case.counted("SELECT what FROM writes"), ["INSERT|199", "UPDATE|1"]);
}

fn a_row_that_the_target_refuses_is_shown(place: &dyn Place) {
    let case = &*place.case();
    let refuses = match case.flavor() {
        Flavor::MariaDb | Flavor::Mysql => {
            "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(100) CHARACTER SET utf8mb4, CONSTRAINT never CHECK (note <> 'no'))"
        }
        _ => "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT, CONSTRAINT never CHECK (note <> 'no'))",
    };
    case.sql(refuses);
    let table = orders();
    let mut sink = case.claimed();
    let words = ["never", "key (7) of table \"orders\"", "\"no\"", "INSERT INTO"];
    // few by a statement, many by a bulk path
    for more in [0, 500] {
        let mut rows: Vec<Row> = (1000..1000 + more).map(|i| order(i, "yes")).collect();
        rows.extend([order(6, "yes"), order(7, "no"), order(8, "yes")]);
        let error = refused(done(&mut *sink, 1, &[upserts(&table, 1, &rows)]), codes::TARGET_WRITE, &words);
        assert!(!error.is_transient());
        sink.rollback();
    }
    // nothing of it is left behind
    sink.commit(1, &binding(1)).unwrap();
    case.equal(&table, &[]);
    let mut told = |row: Row, code, words: &[&str]| {
        let result = done(&mut *sink, 2, &[upserts(&table, 2, &[row])]);
        refused(result, code, words);
        sink.rollback();
    };
    told(Row::pack([Value::Int(1), Value::Int(2)]), codes::TARGET_VALUE, &["column \"note\"", "an integer"]);
    told(
        Row::pack([Value::Int(1), Value::Absent]),
        codes::PARTIAL_IMAGE,
        &["column \"note\"", "binlog_row_image"],
    );
    told(Row::pack([Value::Int(1)]), codes::INTERNAL, &[]);
    told(Row::pack([Value::Null, text("x")]), codes::KEY_COLUMN_NULL, &["\"orders\"", "key (..)"]);
    let mut lost = upsert(&table, 2, &order(1, "a"));
    lost.row = None;
    refused(done(&mut *sink, 2, &[batch(&table, vec![lost])]), codes::INTERNAL, &["without its row"]);
}

fn rows_that_the_pipeline_did_not_write_are_refused(place: &dyn Place) {
    let case = &*place.case();
    case.sql(plain_orders(case.flavor()));
    case.sql("INSERT INTO orders VALUES (1, 'ghost'), (2, 'x')");
    let words = ["already holds 2 rows", "DROP TABLE", "orders"];
    let mut sink = case.sink();
    assert_eq!(sink.inspect(&job("run")).unwrap(), None);
    refused(sink.check(&orders()), codes::TARGET_PROGRESS, &words);
    sink.claim(&job("run")).unwrap();
    refused(sink.prepare(&orders()), codes::TARGET_PROGRESS, &words);
    case.sql("DELETE FROM orders");
    done(&mut *sink, 1, &[upserts(&orders(), 1, &[order(1, "a")])]).unwrap();
    // another pipeline does not get the table; ours does, also after a restart
    let mut other = job("run");
    other.pipeline = "other".into();
    let mut second = case.sink();
    second.inspect(&other).unwrap();
    refused(second.check(&orders()), codes::TARGET_PROGRESS, &["already holds 1 rows", "pipeline \"shop\""]);
    let mut again = case.sink();
    again.inspect(&job("run")).unwrap();
    again.check(&orders()).unwrap();
    again.claim(&job("run")).unwrap();
    again.prepare(&orders()).unwrap();
    // whoever deletes our progress row makes ghosts of its rows
    case.sql("DELETE FROM _cdc_progress");
    refused(again.commit(2, &binding(2)), codes::TARGET_FENCED, &["deleted"]);
    drop((again, sink, second));
    let mut fresh = case.sink();
    assert_eq!(fresh.inspect(&job("run")).unwrap(), None);
    refused(fresh.check(&orders()), codes::TARGET_PROGRESS, &["already holds 1 rows"]);
    fresh.claim(&job("run")).unwrap();
    refused(fresh.prepare(&orders()), codes::TARGET_PROGRESS, &["already holds 1 rows"]);
}

/// `orders`, as a user would make it.
fn plain_orders(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Sqlite => "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)",
        Flavor::Postgres => "CREATE TABLE orders (id int PRIMARY KEY, note text)",
        Flavor::Mysql | Flavor::MariaDb => {
            "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(100) CHARACTER SET utf8mb4)"
        }
    }
}

/// No other index leads an upsert to another row.
fn a_unique_index_that_is_added_while_we_write_costs_no_row(place: &dyn Place) {
    let case = &*place.case();
    let table = orders();
    let mut sink = case.filled(&table, &[order(1, "a")]);
    case.sql("CREATE UNIQUE INDEX theirs ON orders (note)");
    // few by a statement, many by a bulk path
    for more in [0, 500] {
        let mut rows: Vec<Row> = (1000..1000 + more).map(|i| order(i, &format!("n{i}"))).collect();
        rows.push(order(2, "a"));
        let error = done(&mut *sink, 2, &[upserts(&table, 2, &rows)]).unwrap_err();
        let text = error.to_string();
        // the table is looked at again, or the row is refused: either way it says which index
        assert!(!error.is_transient() && text.contains("note") && text.contains("help: "), "{text}");
        // SQLite's message has the column, and no name of the index
        assert!(
            case.flavor() == Flavor::Sqlite || text.contains("theirs") && text.contains("DROP INDEX"),
            "{text}"
        );
        sink.rollback();
        case.equal(&table, &[order(1, "a")]);
    }
}

/// A column beside ours, and a wider type.
fn what_is_the_users_in_a_table_stays(place: &dyn Place) {
    let case = &*place.case();
    case.sql(match case.flavor() {
        Flavor::Mysql | Flavor::MariaDb => {
            "CREATE TABLE orders (extra VARCHAR(9) DEFAULT 'kept', note LONGTEXT CHARACTER SET utf8mb4, id BIGINT NOT NULL, UNIQUE (id))"
        }
        Flavor::Postgres => {
            "CREATE TABLE orders (extra text DEFAULT 'kept', note varchar(100), id bigint NOT NULL UNIQUE)"
        }
        Flavor::Sqlite => {
            "CREATE TABLE orders (extra TEXT DEFAULT 'kept', note VARCHAR(3), id INT NOT NULL UNIQUE)"
        }
    });
    let (table, rows) = (orders(), [order(1, "a"), order(2, "bb")]);
    let mut sink = case.filled(&table, &[order(1, "x"), order(3, "y")]);
    case.sql("UPDATE orders SET extra = 'mine'");
    sink.write(&upserts(&table, 2, &rows)).unwrap();
    sink.write(&batch(&table, vec![delete(2, Row::pack([Value::Int(3)]))])).unwrap();
    sink.commit(2, &binding(2)).unwrap();
    case.equal(&table, &rows);
    assert_eq!(case.sql("SELECT extra FROM orders ORDER BY id"), ["mine", "kept"]);
}

/// `on_existing = evolve`: columns are added and types widened, and what would lose something is refused with the statement.
fn an_empty_table_of_another_shape_is_made_to_fit_where_that_is_asked_for(place: &dyn Place) {
    let (narrow, wanted): (fn(Flavor) -> &'static str, _) = (
        |flavor| match flavor {
            Flavor::Sqlite => "id INTEGER PRIMARY KEY, n INTEGER, extra TEXT DEFAULT 'kept'",
            Flavor::Postgres => {
                "id smallint PRIMARY KEY, n integer NOT NULL, note varchar(5), extra text DEFAULT 'kept', theirs int NOT NULL"
            }
            Flavor::Mysql | Flavor::MariaDb => {
                "id SMALLINT PRIMARY KEY, n INT NOT NULL COMMENT 'it''s', note VARCHAR(5), extra VARCHAR(9) DEFAULT 'kept', theirs INT NOT NULL"
            }
        },
        vec![
            Column::new("id", int()).not_null(),
            Column::new("n", decimal(22, 2)),
            Column::new("note", varchar()),
        ],
    );
    let wanted = table("orders", wanted, &[0]);
    let row = |id, note: &str| Row::pack([Value::Int(id), Value::Decimal("12.50".into()), text(note)]);
    let evolving = |case: &dyn Case| {
        cdc_sinks::open(&case.plan_with(&[("on_existing", "evolve")]), case.base()).unwrap()
    };
    let case = &*place.case();
    let flavor = case.flavor();
    case.sql(&format!("CREATE TABLE orders ({})", narrow(flavor)));
    refused(case.sink().check(&wanted), codes::TARGET_SHAPE, &["column \"note\"", "help:"]);
    let mut sink = evolving(case);
    sink.inspect(&job("run")).unwrap();
    sink.check(&wanted).unwrap();
    // looking changes nothing
    refused(case.sink().check(&wanted), codes::TARGET_SHAPE, &["column \"note\""]);
    sink.claim(&job("run")).unwrap();
    let rows = [row(1, "longer than five"), row(100_000, "b")];
    done(&mut *sink, 1, &[upserts(&wanted, 1, &rows)]).unwrap();
    case.equal(&wanted, &rows);
    assert_eq!(case.counted("SELECT extra FROM orders"), ["kept|2"]);
    if matches!(flavor, Flavor::Mysql | Flavor::MariaDb) {
        let comment = "SELECT COLUMN_COMMENT FROM information_schema.COLUMNS \
                       WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND COLUMN_NAME = 'n'";
        assert_eq!(case.sql(comment), ["it's"]);
    }
    // with rows in it nothing is added: they would read what the source does not have
    let more =
        table("orders", [wanted.schema.columns.clone(), vec![Column::new("new", int())]].concat(), &[0]);
    let words = ["column \"new\"", "this one holds rows"];
    refused(sink.check(&more), codes::TARGET_SHAPE, &words);
    refused(sink.prepare(&more), codes::TARGET_SHAPE, &words);
    // what the table could hold until now it can hold no more: refused, with what would have to be run
    drop(sink);
    for (declared, what) in match flavor {
        Flavor::Sqlite => [
            ("id INTEGER PRIMARY KEY, n INTEGER, note INTEGER", "\"note\" is INTEGER"),
            ("id INTEGER, n DECIMAL_TEXT, note TEXT", "no key"),
        ],
        _ => [
            ("id INT PRIMARY KEY, n DECIMAL(30,2), note INT", "\"note\" is"),
            ("id INT, n DECIMAL(22,2)", "no key"),
        ],
    } {
        let case = &*place.case();
        case.sql(&format!("CREATE TABLE orders ({declared})"));
        let mut sink = evolving(case);
        let words = [what, "on_existing = evolve", "wanted:", "found:", "help:"];
        refused(sink.check(&wanted), codes::TARGET_SHAPE, &words);
        sink.claim(&job("run")).unwrap();
        refused(sink.prepare(&wanted), codes::TARGET_SHAPE, &words);
        refused(
            sink.apply(&TargetSchemaChange::CreateTable { table: wanted.clone() }),
            codes::TARGET_SHAPE,
            &words,
        );
    }
    // one that comes while it runs
    let case = &*place.case();
    case.sql(&format!("CREATE TABLE orders ({})", narrow(flavor)));
    let mut sink = evolving(case);
    sink.claim(&job("run")).unwrap();
    sink.apply(&TargetSchemaChange::CreateTable { table: wanted.clone() }).unwrap();
    done(&mut *sink, 1, &[upserts(&wanted, 1, &rows)]).unwrap();
    case.equal(&wanted, &rows);
}

/// The variable that says what a victim writes: connector, folder, then options, a line each.
const VICTIM: &str = "CDC_SINKS_VICTIM";

/// Tick t writes ten rows, its number into row 0, and a row without key, in parts, until it is killed.
pub fn run_victim() {
    let Ok(said) = std::env::var(VICTIM) else { return };
    let mut lines = said.lines();
    let (connector, base) = (lines.next().unwrap(), lines.next().unwrap());
    let options: Vec<(&str, &str)> = lines.map(|line| line.split_once('=').unwrap()).collect();
    let mut sink = cdc_sinks::open(&plan(connector, &options), Path::new(base)).unwrap();
    let resume = sink.inspect(&job("victim")).unwrap();
    sink.claim(&job("victim")).unwrap();
    let line = Row::pack([text("x"), Value::Int(1), Value::Double(1.0)]);
    for tick in resume.map_or(0, |r| r.tick) + 1.. {
        let mut rows: Vec<Row> = (1..=10).map(|i| order((tick * 10 + i) as i64, "x")).collect();
        rows.push(order(0, &tick.to_string()));
        let mut batches: Vec<TargetBatch> =
            rows.chunks(3).map(|part| upserts(&orders(), tick, part)).collect();
        let one = TargetChange {
            op: TargetOp::Upsert,
            source_op: Op::Insert,
            key: line.clone(),
            ..upsert(&log(), tick, &line)
        };
        batches.push(batch(&log(), vec![one]));
        committed(&mut *sink, tick, &batches);
    }
}

pub fn killed_at_any_instant(place: &dyn Place) {
    let case = &*place.case();
    let (connector, options) = case.options();
    let mut said = format!("{connector}\n{}\n", case.base().display());
    options.iter().for_each(|(name, value)| said.push_str(&format!("{name}={value}\n")));
    let mut first = case.claimed();
    first.prepare(&orders()).unwrap();
    case.count_writes();
    drop(first);
    let at_least = if case.flavor() == Flavor::Sqlite { 30 } else { 120 };
    let mut last = 0;
    for round in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "victim"])
            .env(VICTIM, &said)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(at_least + round * 37 % 200));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut next = case.sink();
        if next.inspect(&job("next")).unwrap().is_none() {
            continue;
        }
        // whatever the server still does for the dead one ends before this
        next.claim(&job("next")).unwrap();
        let resume = next.inspect(&job("next")).unwrap().unwrap();
        assert!(resume.tick >= last);
        last = resume.tick;
        assert_eq!(resume.binding, if last == 0 { Default::default() } else { binding(last) });
        if last > 0 {
            let found = case.sql(
                "SELECT COUNT(*), MAX(id), (SELECT note FROM orders WHERE id = 0), (SELECT COUNT(*) FROM log) FROM orders",
            );
            assert_eq!(found, [format!("{}|{}|{last}|{last}", last * 10 + 1, last * 10 + 10)]);
            let writes = case.sql("SELECT COUNT(*) FROM writes WHERE id > 0");
            assert_eq!(writes, [format!("{}", last * 10)], "rows were written more than once");
        }
    }
    assert!(last > 0, "no round lived long enough to commit");
}
