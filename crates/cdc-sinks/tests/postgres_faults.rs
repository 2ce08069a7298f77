//! What becomes of a PostgreSQL target when something on the way to it, or it itself, goes wrong.

mod common;

use cdc_core::connector::{Sink, TargetBatch, TargetChange, TargetOp, TargetSchemaChange, TargetTable};
use cdc_core::event::Op;
use cdc_core::schema::Column;
use cdc_core::value::Value;
use cdc_core::{Error, Row, codes};
use cdc_testkit::certs;
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use common::postgres::{Case, Target};
use common::*;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tempfile::tempdir;

/// Writes a tick as the committer does: after a transient error all of it again. The errors on the way.
#[track_caller]
fn commit(sink: &mut dyn Sink, tick: u64, batches: &[TargetBatch]) -> Vec<Error> {
    let mut errors = Vec::new();
    loop {
        let written = batches
            .iter()
            .try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b)))
            .and_then(|()| sink.commit(tick, &binding(tick)));
        match written {
            Ok(()) => return errors,
            Err(error) if error.is_transient() && errors.len() < 200 => {
                sink.rollback();
                errors.push(error);
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn log() -> Arc<TargetTable> {
    table("log", vec![Column::new("line", varchar())], &[])
}

/// Of a table without key: this row more or less.
fn line(tick: u64, op: TargetOp, text_: &str) -> TargetChange {
    let row = Row::pack([text(text_)]);
    TargetChange {
        tick,
        ordinal: 0,
        op,
        source_op: if op == TargetOp::Delete { Op::Delete } else { Op::Insert },
        key: row.clone(),
        row: (op == TargetOp::Upsert).then(|| row.clone()),
        before: None,
        origin: 0,
    }
}

/// Counts what is written to `orders`.
const COUNTING: &str = "
    CREATE TABLE writes (id int, what text);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO writes VALUES (coalesce(new.id, old.id), tg_op); RETURN NULL; END $$;
    ALTER FUNCTION note() SET search_path FROM CURRENT;
    CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION note()";

/// Tick t: order t comes, order t - 1 goes, and the line "x" is there once more, t - 1 goes, t comes.
fn tick(t: u64) -> Vec<TargetBatch> {
    let gone = delete(t, Row::pack([Value::Int(t as i64 - 1)]));
    let came = upsert(&orders(), t, &order(t as i64, "came"));
    let (before, now) = (format!("{}", t - 1), format!("{t}"));
    let mut lines = vec![line(t, TargetOp::Upsert, "x"), line(t, TargetOp::Upsert, &now)];
    if t > 1 {
        lines.insert(0, line(t, TargetOp::Delete, &before));
    }
    vec![batch(&orders(), vec![gone, came]), batch(&log(), lines)]
}

#[track_caller]
fn all_once(case: &Case<'_>, t: u64) {
    assert_eq!(case.sql("SELECT id, note FROM orders"), [format!("{t}|came")]);
    let lines = case.sql("SELECT line, count(*) FROM log GROUP BY 1 ORDER BY 2, 1 DESC");
    assert_eq!(
        lines,
        if t == 1 { vec!["x|1".to_owned(), "1|1".into()] } else { vec![format!("{t}|1"), format!("x|{t}")] }
    );
    let wrong = case.sql("SELECT id, what, count(*) FROM writes GROUP BY 1, 2 HAVING count(*) > 1");
    assert!(wrong.is_empty(), "written more than once: {wrong:?}");
    assert_eq!(case.sql("SELECT count(*) FROM writes"), [format!("{}", 2 * t - 1)]);
    assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), [t.to_string()]);
}

/// The connection is cut behind each byte of the answers to a transaction: before it begins, between its statements, in
/// the answer to COMMIT.
#[test]
fn a_connection_cut_at_any_byte_loses_and_doubles_nothing() {
    let target = Target::start();
    let proxy = Proxy::start(target.server.port()).unwrap();
    let case = target.case().through(proxy.port());
    let mut sink = case.claimed();
    commit(&mut *sink, 1, &[batch(&orders(), vec![]), batch(&log(), vec![])]);
    case.sql(COUNTING);
    commit(&mut *sink, 2, &[batch(&log(), vec![line(2, TargetOp::Upsert, "2")])]);
    for t in 3..=4 {
        assert!(commit(&mut *sink, t, &tick(t)).is_empty());
    }
    let before = proxy.bytes_from_server();
    assert!(commit(&mut *sink, 5, &tick(5)).is_empty());
    let bytes = (proxy.bytes_from_server() - before) as u32;
    let (mut t, mut cuts, mut lost) = (5, 0, 0);
    // the ends of the answers, where COMMIT's is, byte by byte
    let steps = (0..bytes - 40).step_by(11).chain(bytes - 40..=bytes);
    for byte in steps {
        t += 1;
        proxy.cut_after(byte);
        let errors = commit(&mut *sink, t, &tick(t));
        cuts += usize::from(!errors.is_empty());
        lost += usize::from(errors.is_empty() && byte < bytes);
    }
    assert!(cuts > 20, "only {cuts} of the cuts were felt");
    // the answer to COMMIT was lost, and it was found out at once
    assert!(lost > 0, "no answer to COMMIT was lost");
    proxy.cut_after(u32::MAX);
    let ids = case.sql("SELECT id, note FROM orders");
    assert_eq!(ids, [format!("{t}|came")]);
    let wrong = case.sql("SELECT id, what, count(*) FROM writes GROUP BY 1, 2 HAVING count(*) > 1");
    assert!(wrong.is_empty(), "written more than once: {wrong:?}");
    assert_eq!(
        case.sql("SELECT line, count(*) FROM log GROUP BY 1 ORDER BY 2, 1"),
        [format!("{t}|1"), format!("x|{}", t - 2)]
    );
    assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), [t.to_string()]);
}

/// The server cannot be reached when the answer is lost: the committer replays, and is told that it is done.
#[test]
fn a_lost_answer_to_commit_is_found_out_later_too() {
    let target = Target::start();
    let proxy = Proxy::start(target.server.port()).unwrap();
    let case = target.case().through(proxy.port());
    let mut sink = case.claimed();
    commit(&mut *sink, 1, &tick(1));
    case.sql(COUNTING);
    case.sql("INSERT INTO writes VALUES (1, 'INSERT')");
    commit(&mut *sink, 2, &tick(2));
    let before = proxy.bytes_from_server();
    commit(&mut *sink, 3, &tick(3));
    let bytes = (proxy.bytes_from_server() - before) as u32;
    // inside the last message, which says that the transaction has ended
    proxy.cut_after(bytes - 3);
    let batches = tick(4);
    batches.iter().for_each(|b| {
        sink.prepare(&b.table).unwrap();
        sink.write(b).unwrap();
    });
    proxy.refuse(true);
    let error = sink.commit(4, &binding(4)).unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(case.sql("SELECT tick FROM _cdc_progress"), ["4"]);
    sink.rollback();
    refused(sink.commit(4, &binding(4)), codes::TARGET_OPEN, &["cannot be reached"]);
    proxy.refuse(false);
    assert!(commit(&mut *sink, 4, &batches).is_empty());
    all_once(&case, 4);
    assert!(commit(&mut *sink, 5, &tick(5)).is_empty());
    all_once(&case, 5);
}

/// A session that nobody drives any more is ended: its locks are not waited for.
#[test]
fn what_is_left_of_a_session_does_not_stand_in_the_way() {
    let target = Target::start();
    let proxy = Proxy::start(target.server.port()).unwrap();
    let case = target.case().through(proxy.port());
    let mut sink = case.claimed();
    commit(&mut *sink, 1, &[batch(&orders(), vec![upsert(&orders(), 1, &order(1, "a"))])]);
    // rows are written and locked, and the network goes silent: the server knows nothing of it
    let many: Vec<Row> = (1..25_000).map(|i| order(i, "b")).collect();
    sink.write(&upserts(&orders(), 2, &many)).unwrap();
    proxy.stall(true);
    let mut next = target_case_direct(&case).sink();
    next.claim(&job("after")).unwrap();
    commit(&mut *next, 2, &[upserts(&orders(), 2, &[order(1, "c")])]);
    proxy.stall(false);
    assert_eq!(case.sql("SELECT * FROM orders"), ["1|c"]);
    assert_eq!(
        case.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'cdc' AND datname = 'dw'"),
        ["1"]
    );
    let error = commit_once(&mut *sink, 2);
    assert!(error.is_transient() || error.code() == codes::TARGET_FENCED, "{error}");
    sink.rollback();
    refused(sink.commit(2, &binding(2)), codes::TARGET_FENCED, &["after"]);
}

fn commit_once(sink: &mut dyn Sink, tick: u64) -> Error {
    sink.commit(tick, &binding(tick)).unwrap_err()
}

fn target_case_direct<'a>(case: &Case<'a>) -> Case<'a> {
    Case::of(case.server, &case.schema)
}

#[test]
fn a_server_that_restarts_or_crashes_is_waited_for() {
    let mut target = Target::start();
    let schema = {
        let case = target.case();
        let mut sink = case.claimed();
        commit(&mut *sink, 1, &tick(1));
        case.schema.clone()
    };
    let mut sink = Case::of(&target.server, &schema).sink();
    sink.claim(&job("run 2")).unwrap();
    for (t, crash) in [(2, false), (3, true)] {
        for b in tick(t) {
            sink.prepare(&b.table).unwrap();
            sink.write(&b).unwrap();
        }
        if crash {
            target.server.kill().unwrap();
        } else {
            target.server.stop().unwrap();
        }
        let error = sink.commit(t, &binding(t)).unwrap_err();
        assert!(error.is_transient(), "{error}");
        sink.rollback();
        let error = refused(sink.commit(t, &binding(t)), codes::TARGET_OPEN, &["cannot be reached", "help:"]);
        assert!(error.is_transient());
        let server = &mut target.server;
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                server.restart().unwrap();
            });
            assert!(!commit(&mut *sink, t, &tick(t)).is_empty());
        });
    }
    let case = Case::of(&target.server, &schema);
    assert_eq!(case.sql("SELECT id FROM orders"), ["3"]);
    assert_eq!(case.sql("SELECT line, count(*) FROM log GROUP BY 1 ORDER BY 2"), ["3|1", "x|3"]);
}

#[test]
fn a_target_that_is_locked_deadlocked_read_only_or_full_is_tried_again() {
    // looked for once, so long after a wait has begun: theirs has begun by then
    let target = Target::with(PostgresOptions::default().with("deadlock_timeout=3s"));
    let case = target.case();
    let locked = |mode: &str| {
        let sql = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = 'other'::regclass AND granted AND mode = '{mode}'"
        );
        while case.sql(&sql) == ["0"] {
            thread::sleep(Duration::from_millis(10));
        }
    };
    let mut sink = case.claimed();
    let other =
        table("other", vec![Column::new("id", int()).not_null(), Column::new("note", varchar())], &[0]);
    let both = |t| [upserts(&orders(), t, &[order(1, "x")]), upserts(&other, t, &[order(1, &t.to_string())])];
    assert!(commit(&mut *sink, 1, &both(1)).is_empty());

    // a deadlock, whose victim we are: the other session looks for one later than we do
    let schema = case.schema.clone();
    let errors = thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            target.server.admin(&format!(
                "SET deadlock_timeout = '20s'; SET search_path = \"{schema}\"; BEGIN; UPDATE other SET note = 'theirs';
                 SELECT pg_sleep(1.5); UPDATE orders SET note = 'theirs'; COMMIT"
            ))
        });
        locked("RowExclusiveLock");
        let errors = commit(&mut *sink, 2, &both(2));
        theirs.join().unwrap().unwrap();
        errors
    });
    assert!(!errors.is_empty());
    let error = &errors[0];
    assert_eq!(error.code(), codes::TARGET_BUSY, "{error}");
    assert!(error.to_string().contains("deadlock"), "{error}");
    assert_eq!(case.sql("SELECT note FROM orders UNION ALL SELECT note FROM other"), ["x", "2"]);

    // a lock
    let mut plan = case.plan();
    plan.options.0.insert("lock_timeout".into(), cdc_core::plan::OptionValue::Duration(1000));
    let mut sink = cdc_sinks::open(&plan, std::path::Path::new(".")).unwrap();
    sink.claim(&job("run 2")).unwrap();
    let held = thread::scope(|scope| {
        let theirs = scope.spawn(|| case.sql("BEGIN; LOCK TABLE other; SELECT pg_sleep(3); COMMIT"));
        locked("AccessExclusiveLock");
        let errors = commit(&mut *sink, 3, &both(3));
        theirs.join().unwrap();
        errors
    });
    let error = &held[0];
    assert_eq!(error.code(), codes::TARGET_BUSY, "{error}");
    assert!(error.to_string().contains("pg_blocking_pids"), "{error}");

    // read-only, and again not
    let set = |on: &str| {
        target
            .server
            .sql_as(
                "postgres",
                "template1",
                &format!("ALTER SYSTEM SET default_transaction_read_only = {on}"),
            )
            .unwrap();
        target.server.sql_as("postgres", "template1", "SELECT pg_reload_conf()").unwrap();
        thread::sleep(Duration::from_millis(100));
    };
    set("on");
    let result = both(4).iter().try_for_each(|b| sink.write(b)).and_then(|()| sink.commit(4, &binding(4)));
    let error = refused(result, codes::TARGET_WRITE, &["read-only", "help:"]);
    assert!(error.is_transient());
    sink.rollback();
    target
        .server
        .admin("SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only")
        .unwrap();
    target.server.admin("SELECT pg_reload_conf()").unwrap();
    commit(&mut *sink, 4, &both(4));

    // what the server says when its disk is full, said by a trigger
    case.sql(
        "CREATE TABLE full_now (yes bool); INSERT INTO full_now VALUES (true);
         CREATE FUNCTION full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF (SELECT yes FROM full_now) THEN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF;
             RETURN new; END $$;
         ALTER FUNCTION full() SET search_path FROM CURRENT;
         CREATE TRIGGER t BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION full()",
    );
    let result = both(5).iter().try_for_each(|b| sink.write(b)).and_then(|()| sink.commit(5, &binding(5)));
    let error = refused(result, codes::TARGET_WRITE, &["disk is full", "make room"]);
    assert!(error.is_transient());
    sink.rollback();
    case.sql("UPDATE full_now SET yes = false");
    assert!(commit(&mut *sink, 5, &both(5)).is_empty());
    assert_eq!(case.sql("SELECT note FROM orders UNION ALL SELECT note FROM other"), ["x", "5"]);
}

#[test]
fn what_cannot_succeed_says_what_to_do() {
    let target = Target::start();
    let case = || target.case();
    let open = |case: &Case<'_>| case.sink().inspect(&job("run")).map(|_| ());
    target
        .server
        .admin(
            "CREATE ROLE guest LOGIN PASSWORD 'guest'; CREATE ROLE full LOGIN PASSWORD 'full' CONNECTION LIMIT 0;
             REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        )
        .unwrap();
    target.server.admin("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0").unwrap();
    let url = |rest: &str| format!("postgres://127.0.0.1:{rest}");
    let port = target.server.port();
    refused(
        open(&case().with("password", "wrong")),
        codes::ACCESS_DENIED,
        &["\"cdc\"", "ALTER ROLE", "help:"],
    );
    refused(open(&case().with("user", "nobody")), codes::ACCESS_DENIED, &["\"nobody\"", "help:"]);
    refused(
        open(&case().with("url", &url(&format!("{port}/nowhere")))),
        codes::TARGET_OPEN,
        &["nowhere", "CREATE DATABASE"],
    );
    refused(
        open(&case().with("url", &url(&format!("{port}/latin")))),
        codes::TARGET_OPEN,
        &["LATIN1", "ENCODING 'UTF8'"],
    );
    refused(open(&case().with("schema", "nothing")), codes::TARGET_OPEN, &["CREATE SCHEMA \"nothing\""]);
    let error =
        refused(open(&case().with("url", &url("1/dw"))), codes::TARGET_OPEN, &["127.0.0.1:1", "help:"]);
    assert!(error.is_transient());
    let full = case().with("user", "full").with("password", "full");
    let error = refused(open(&full), codes::TARGET_BUSY, &["no connection left", "CONNECTION LIMIT"]);
    assert!(error.is_transient());
    // a host that never answers
    let quiet = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent = case().with("url", &url(&format!("{}/dw", quiet.local_addr().unwrap().port())));
    let mut plan = silent.plan();
    plan.options.0.insert("connect_timeout".into(), cdc_core::plan::OptionValue::Duration(200));
    let mut sink = cdc_sinks::open(&plan, std::path::Path::new(".")).unwrap();
    assert!(
        refused(sink.inspect(&job("run")), codes::TARGET_OPEN, &["200ms", "connect_timeout"]).is_transient()
    );

    // rights: to make our tables, to make a table, to write, to change
    let guest = case().with("user", "guest").with("password", "guest");
    refused(open(&guest), codes::TARGET_OPEN, &["schema", "GRANT USAGE"]);
    guest.sql(&format!("GRANT USAGE ON SCHEMA \"{}\" TO guest", guest.schema));
    let mut sink = guest.sink();
    let words = ["\"guest\"", "lacks a right", "GRANT USAGE, CREATE ON SCHEMA"];
    refused(sink.claim(&job("run")), codes::TARGET_WRITE, &words);
    guest.sql(&format!("GRANT CREATE ON SCHEMA \"{}\" TO guest", guest.schema));
    sink.claim(&job("run")).unwrap();
    guest.sql("CREATE TABLE orders (id int PRIMARY KEY, note text); GRANT SELECT ON orders TO guest");
    sink.prepare(&orders()).unwrap();
    sink.write(&upserts(&orders(), 1, &[order(1, "a")])).unwrap();
    refused(
        sink.commit(1, &binding(1)),
        codes::TARGET_WRITE,
        &["lacks a right", "table orders", "GRANT ALL"],
    );
    let add = TargetSchemaChange::AddColumn {
        table: "orders".into(),
        column: Column::new("x", int()),
        implicit: false,
        keeps_default: false,
    };
    refused(sink.apply(&add), codes::TARGET_DDL, &["must be owner", "OWNER TO"]);

    // options
    for (name, value, code) in [
        ("tls", "sometimes", codes::OPTION_VALUE),
        ("nul", "perhaps", codes::OPTION_VALUE),
        ("on_existing", "evolve", codes::OPTION_NOT_YET),
        ("tls_ca", "ca.pem", codes::OPTION_VALUE),
        ("tls", "verify-ca", codes::MISSING_OPTION),
        ("schema", "", codes::OPTION_VALUE),
        ("url", "postgres://h", codes::URL_MALFORMED),
    ] {
        refused(case().with(name, value).try_sink().map(|_| ()), code, &[name.split('_').next().unwrap()]);
    }
    refused(open(&case().with("password_file", "no/such/file")), codes::FILE_UNREADABLE, &["password_file"]);
    // what is secret is not shown
    let mut plan = case().plan();
    for name in ["url", "user"] {
        let secret = plan.options.text(name).unwrap().replace("dw", "hidden");
        plan.options.0.insert(name.into(), cdc_core::plan::OptionValue::Secret(secret));
    }
    let mut sink = cdc_sinks::open(&plan, std::path::Path::new(".")).unwrap();
    let error = sink.inspect(&job("run")).unwrap_err().to_string();
    assert!(error.contains("***") && !error.contains("127.0.0.1"), "{error}");
}

#[test]
fn a_secure_connection_is_made_as_it_is_asked_for() {
    let folder = tempdir().unwrap();
    let ours = certs::Certs::make(folder.path().join("ours")).unwrap();
    let others = certs::Certs::make(folder.path().join("others")).unwrap();
    ours.server("elsewhere", &["elsewhere.example"]).unwrap();
    let mut target = Target::start();
    let schema = target.case().schema;
    fn open(server: &Postgres, schema: &str, options: &[(&'static str, &str)]) -> Result<(), Error> {
        let case =
            options.iter().fold(Case::of(server, schema), |case, (name, value)| case.with(name, value));
        case.sink().inspect(&job("run")).map(|_| ())
    }
    let encrypted = |server: &Postgres| {
        server.admin("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl").unwrap()
    };
    // a server without
    let server = &target.server;
    refused(open(server, &schema, &[("tls", "required")]), codes::TLS_FAILED, &["offers no TLS", "help:"]);
    open(server, &schema, &[("tls", "preferred")]).unwrap();
    let (ca, other_ca) = (ours.path("ca.pem"), others.path("ca.pem"));
    let (ca, other_ca) = (ca.to_str().unwrap(), other_ca.to_str().unwrap());
    for (name, verifies) in [("server", true), ("elsewhere", false)] {
        for (file, part) in [("s.crt", "cert"), ("s.key", "key")] {
            let content = std::fs::read(ours.path(&format!("{name}-{part}.pem"))).unwrap();
            target.server.put(file, &content).unwrap();
        }
        *target.server.options_mut() =
            PostgresOptions::default().with("ssl=on").with("ssl_cert_file=s.crt").with("ssl_key_file=s.key");
        target.server.restart().unwrap();
        let server = &target.server;
        for tls in ["preferred", "required"] {
            let case = Case::of(server, &schema).with("tls", tls);
            let mut sink = case.sink();
            sink.inspect(&job("run")).unwrap();
            // sessions of before may still be on their way out
            while encrypted(server) != "1\n" {
                assert_ne!(encrypted(server), "0\n", "{tls}");
                thread::sleep(Duration::from_millis(10));
            }
        }
        open(server, &schema, &[("tls", "disabled")]).unwrap();
        open(server, &schema, &[("tls", "verify-ca"), ("tls_ca", ca)]).unwrap();
        let identity = open(server, &schema, &[("tls", "verify-identity"), ("tls_ca", ca)]);
        if verifies {
            identity.unwrap();
        } else {
            refused(identity, codes::TLS_FAILED, &["elsewhere.example", "help:"]);
        }
        for tls in ["verify-ca", "verify-identity"] {
            let result = open(server, &schema, &[("tls", tls), ("tls_ca", other_ca)]);
            refused(result, codes::TLS_FAILED, &["secure connection", "tls_ca"]);
        }
        let key = ours.path("server-key.pem");
        let result = open(server, &schema, &[("tls", "verify-ca"), ("tls_ca", key.to_str().unwrap())]);
        refused(result, codes::TLS_FAILED, &["holds no certificate"]);
    }
}

/// Run as a process of its own, to be killed: tick t is that of [`tick`].
#[test]
#[ignore = "run by a_process_killed_at_any_instant_leaves_whole_ticks"]
fn victim() {
    let Ok(plan) = std::env::var("CDC_SINKS_VICTIM") else { return };
    let (port, schema) = plan.split_once(' ').unwrap();
    let url = format!("postgres://127.0.0.1:{port}/dw");
    let options = [("url", &*url), ("user", "cdc"), ("schema", schema), ("password", "cdc")];
    let mut sink = cdc_sinks::open(&common::plan("postgres", &options), std::path::Path::new(".")).unwrap();
    let resume = sink.inspect(&job("victim")).unwrap();
    sink.claim(&job("victim")).unwrap();
    for t in resume.map_or(0, |r| r.tick) + 1.. {
        commit(&mut *sink, t, &tick(t));
    }
}

#[test]
fn a_process_killed_at_any_instant_leaves_whole_ticks() {
    let target = Target::start();
    let case = target.case();
    case.claimed().prepare(&orders()).unwrap();
    case.sql(COUNTING);
    let mut last = 0;
    for round in 0..10u64 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "victim"])
            .env("CDC_SINKS_VICTIM", format!("{} {}", target.server.port(), case.schema))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(80 + round * 37 % 200));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut next = case.sink();
        // whatever the server still does for the dead one ends before this
        next.claim(&job("next")).unwrap();
        let resume = next.inspect(&job("next")).unwrap().unwrap();
        assert!(resume.tick >= last);
        last = resume.tick;
        if last > 0 {
            all_once(&case, last);
        }
    }
    assert!(last > 20, "the rounds committed {last} ticks only");
}

/// A sink that is patient for less than a second.
fn impatient(case: &Case<'_>) -> Box<dyn Sink> {
    let mut plan = case.plan();
    for name in ["answer_timeout", "connect_timeout"] {
        plan.options.0.insert(name.into(), cdc_core::plan::OptionValue::Duration(400));
    }
    let mut sink = cdc_sinks::open(&plan, std::path::Path::new(".")).unwrap();
    sink.inspect(&job("run 1")).unwrap();
    sink.claim(&job("run 1")).unwrap();
    sink
}

/// A row of a table without key, which would show that it was written twice, and one of a table with a key.
fn both(tick: u64) -> [TargetBatch; 2] {
    [
        upserts(&orders(), tick, &[order(tick as i64, "a")]),
        batch(&log(), vec![line(tick, TargetOp::Upsert, &format!("line {tick}"))]),
    ]
}

fn both_once(case: &Case<'_>, ticks: u64) {
    let rows: Vec<Row> = (1..=ticks).map(|t| order(t as i64, "a")).collect();
    case.equal(&orders(), &rows);
    let lines = case.sql("SELECT count(*), count(DISTINCT line) FROM log");
    assert_eq!(lines, [format!("{ticks}|{ticks}")]);
}

#[test]
fn a_network_that_goes_silent_is_given_up_and_nothing_is_lost() {
    let target = Target::start();
    let proxy = Proxy::start(target.server.port()).unwrap();
    let case = target.case().through(proxy.port());
    let mut sink = impatient(&case);
    assert!(commit(&mut *sink, 1, &both(1)).is_empty());
    // with nobody there, and with a server that has not got what we sent; in front of a transaction, and at its end
    for (tick, step) in (2..).zip(0..4) {
        if step >= 2 {
            both(tick).iter().try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b))).unwrap();
        }
        if step % 2 == 0 {
            proxy.stall(true)
        } else {
            proxy.swallow()
        }
        let began = std::time::Instant::now();
        let written = both(tick)
            .iter()
            .try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b)))
            .and_then(|()| sink.commit(tick, &binding(tick)));
        // where new connections pass, the commit may have come about by one
        if let Err(error) = written {
            assert!(error.is_transient(), "{error}");
        } else {
            assert!(step % 2 == 1);
        }
        assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
        sink.rollback();
        proxy.stall(false);
        commit(&mut *sink, tick, &both(tick));
        both_once(&target_case_direct(&case), tick);
    }
}

#[test]
fn a_server_that_hangs_is_given_up_and_one_that_is_at_work_is_waited_for() {
    let target = Target::start();
    let case = target.case();
    let mut sink = impatient(&case);
    assert!(commit(&mut *sink, 1, &both(1)).is_empty());
    target.server.freeze(true).unwrap();
    let began = std::time::Instant::now();
    let errors: Vec<Error> = (0..2)
        .map(|_| {
            let written = both(2)
                .iter()
                .try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b)))
                .and_then(|()| sink.commit(2, &binding(2)));
            sink.rollback();
            written.unwrap_err()
        })
        .collect();
    let waited = began.elapsed();
    target.server.freeze(false).unwrap();
    assert!(errors.iter().all(Error::is_transient), "{errors:?}");
    assert!(waited < Duration::from_secs(6), "{waited:?}");
    commit(&mut *sink, 2, &both(2));
    both_once(&case, 2);
    // a lock that another session holds for a while: what waits for it is seen to be at work
    thread::scope(|scope| {
        scope.spawn(|| case.sql("BEGIN; LOCK TABLE orders; SELECT pg_sleep(2); COMMIT"));
        let held =
            "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'orders'::regclass";
        while case.sql(held).is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        let began = std::time::Instant::now();
        assert!(commit(&mut *sink, 3, &both(3)).is_empty());
        assert!(began.elapsed() > Duration::from_millis(1200), "{:?}", began.elapsed());
    });
    both_once(&case, 3);
}
