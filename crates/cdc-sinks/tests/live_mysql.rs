//! What the mysql sink promises, tried on a server: exactly once, one writer, and what is said where it cannot be.

mod common;
#[path = "common/mysql.rs"]
mod target;

use cdc_core::connector::{Sink, TargetBatch, TargetChange, TargetSchemaChange, TargetTable};
use cdc_core::event::Op;
use cdc_core::schema::{Charset, Column, ColumnType};
use cdc_core::tick::Tick;
use cdc_core::value::Value;
use cdc_core::{Result, Row, codes};
use common::*;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use target::{Target, start};

/// A table without key, whose rows are counted.
fn log() -> Arc<TargetTable> {
    table("log", vec![Column::new("line", varchar()), Column::new("n", int())], &[])
}

fn line(text: &str, n: i64) -> Row {
    Row::pack([common::text(text), Value::Int(n)])
}

fn plus(tick: Tick, row: &Row) -> TargetChange {
    TargetChange { key: row.clone(), ..upsert(&log(), tick, row) }
}

/// What the committer does: writes, commits, and after a transient error does all of it again.
fn commit(sink: &mut dyn Sink, tick: Tick, batches: &[TargetBatch]) -> u32 {
    let mut again = 0;
    loop {
        let done: Result<()> = batches
            .iter()
            .try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b)))
            .and_then(|()| sink.commit(tick, &binding(tick)));
        match done {
            Ok(()) => return again,
            Err(e) => {
                assert!(e.is_transient(), "{e}");
                sink.rollback();
                again += 1;
                assert!(again < 50, "{e}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[test]
fn a_schema_change_of_a_lost_commit_is_not_made_again() {
    let server = start();
    let target = Target::new(&server, "lost");
    let mut sink = target.filled(&orders(), &[]);
    // as if a COMMIT had become durable and reported an error all the same: nothing is added behind one with a schema change
    target.run("UPDATE _cdc_progress SET tick = 7");
    let drop = TargetSchemaChange::DropTable { table: "orders".into() };
    sink.apply(&drop).unwrap();
    sink.commit(7, &binding(7)).unwrap();
    assert_eq!(target.run("SELECT COUNT(*) FROM orders"), ["0"]);
    target.run("UPDATE _cdc_progress SET tick = 8");
    sink.apply(&drop).unwrap();
    refused(sink.commit(9, &binding(9)), codes::INTERNAL, &["tick 8", "start again"]);
}

#[test]
fn sessions_that_are_killed_are_met_again() {
    let server = start();
    {
        let target = Target::new(&server, "again");
        let mut sink = target.filled(&orders(), &[order(1, "a")]);
        let kill = || {
            let ids = target.run("SELECT id FROM information_schema.processlist WHERE user = 'dw'");
            assert_eq!(ids.len(), 1, "one connection: {ids:?}");
            target.run(&format!("KILL {}", ids[0]));
        };
        kill();
        commit(&mut *sink, 2, &[upserts(&orders(), 2, &[order(2, "b")])]);
        sink.write(&upserts(&orders(), 3, &[order(3, "c")])).unwrap();
        kill();
        let error = sink.commit(3, &binding(3)).unwrap_err();
        assert!(error.is_transient() && error.code() == codes::TARGET_OPEN, "{error}");
        sink.rollback();
        commit(&mut *sink, 3, &[upserts(&orders(), 3, &[order(3, "c")])]);
        target.equal(&orders(), &[order(1, "a"), order(2, "b"), order(3, "c")]);
    }
}

/// A way to a server whose clients' ends can be lost without the server being told: a cable that was pulled.
struct OneSided {
    port: u16,
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl OneSided {
    fn start(server: u16) -> OneSided {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let clients: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = clients.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let far = TcpStream::connect(("127.0.0.1", server)).unwrap();
                all.lock().unwrap().push(client.try_clone().unwrap());
                // each thread holds the server's end open, whatever becomes of the client's
                let (mut from, mut to) = (client.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                let (mut from, mut to) = (far, client);
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        });
        OneSided { port, clients }
    }

    fn pull(&self) {
        for client in self.clients.lock().unwrap().drain(..) {
            // it may have gone by itself
            drop(client.shutdown(Shutdown::Both));
        }
    }
}

/// Its rows are locked, and so is our progress, until the server notices; which may take hours.
#[test]
fn a_session_of_ours_that_the_server_still_holds_is_ended() {
    let server = start();
    let direct = Target::new(&server, "held");
    let way = OneSided::start(server.port());
    let target = direct.by(way.port);
    let mut sink = target.claimed();
    sink.prepare(&log()).unwrap();
    sink.write(&batch(&log(), vec![plus(1, &line("lost", 1))])).unwrap();
    let sessions = || direct.run("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'dw'");
    assert_eq!(sessions(), ["1"]);
    way.pull();
    let error = sink.write(&batch(&log(), vec![plus(1, &line("lost", 2))])).unwrap_err();
    assert!(error.is_transient() && error.code() == codes::TARGET_OPEN, "{error}");
    sink.rollback();
    assert_eq!(sessions(), ["1"], "the server holds it");
    let began = Instant::now();
    commit(&mut *sink, 1, &[batch(&log(), vec![plus(1, &line("kept", 1))])]);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert_eq!(sessions(), ["1"], "the old one is gone");
    assert_eq!(direct.run("SELECT line FROM log"), ["kept"]);
}

/// What passes by itself is told so, and nothing of it is left behind.
#[test]
fn a_deadlock_and_too_many_connections_are_tried_again() {
    let server = start();
    let target = Target::new(&server, "busy");
    let columns = vec![
        Column::new("id", int()).not_null(),
        Column::new("note", varchar()),
        Column::new("more", varchar()),
    ];
    let table = table("orders", columns, &[0]);
    let row = |id: i64, note, more| Row::pack([Value::Int(id), text(note), more]);
    let in_part =
        |id, note| TargetChange { source_op: Op::Update, ..upsert(&table, 2, &row(id, note, Value::Absent)) };
    let rows: Vec<Row> = (1..=50).map(|i| row(i, "a", Value::Null)).collect();
    let mut sink = target.filled(&table, &rows);
    let transient = |result: Result<()>, code, words: &[&str]| {
        let error = refused(result, code, words);
        assert!(error.is_transient(), "{error}");
    };
    // a deadlock: the other transaction has written more, so ours is the victim
    std::thread::scope(|scope| {
        // with updates in part, which do not wait until a commit
        sink.write(&batch(&table, vec![in_part(1, "ours")])).unwrap();
        let other = scope.spawn(|| {
            target.run(
                "START TRANSACTION; UPDATE orders SET note = 'theirs' WHERE id > 1; \
                 UPDATE orders SET note = 'theirs' WHERE id = 1; COMMIT",
            )
        });
        std::thread::sleep(Duration::from_millis(700));
        transient(sink.write(&batch(&table, vec![in_part(2, "ours")])), codes::TARGET_BUSY, &["deadlock"]);
        other.join().unwrap();
    });
    sink.rollback();
    // no more connections for this account
    target.run("CREATE USER few@'%' IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 1; GRANT ALL ON busy.* TO few@'%'");
    let mut few = target.plan();
    few.options.0.insert("user".into(), cdc_core::plan::OptionValue::Text("few".into()));
    let open = || cdc_sinks::open(&few, std::path::Path::new(".")).unwrap();
    let mut first = open();
    first.inspect(&job("x")).unwrap();
    transient(open().inspect(&job("x")).map(|_| ()), codes::TARGET_OPEN, &["too many connections"]);
    commit(&mut *sink, 2, &[upserts(&table, 2, &[row(1, "ours", Value::Null)])]);
    assert_eq!(target.run("SELECT COUNT(*), SUM(note = 'ours') FROM orders"), ["50|1"]);
}

#[test]
fn values_and_rows_that_do_not_fit_are_shown() {
    let server = start();
    let target = Target::new(&server, "refused");
    let table = orders();
    let mut sink = target.claimed();
    sink.prepare(&table).unwrap();
    // too long, among rows that are not: strict, so nothing is cut
    let long = order(2, &"x".repeat(101));
    let words = ["Data too long", "column 'note'", "key (2)"];
    refused(done(&mut *sink, 2, &[upserts(&table, 2, &[order(1, "a"), long])]), codes::TARGET_VALUE, &words);
    // what a MariaDB has and MySQL has not, or nobody has
    let day = table_of_time();
    let mut sink2 = target.claimed();
    sink2.prepare(&day).unwrap();
    let late = Value::Timestamp(cdc_core::value::Timestamp { micros: 4_300_000_000_000_000 });
    let row = Row::pack([Value::Int(1), late]);
    refused(done(&mut *sink2, 2, &[upserts(&day, 2, &[row])]), codes::TARGET_VALUE, &["key (1)", "times"]);
    // larger than a statement may be
    target.run("SET GLOBAL max_allowed_packet = 1048576");
    let mut sink = target.claimed();
    let blobs = table_of_blobs();
    sink.prepare(&blobs).unwrap();
    let blob = |id, n: usize| Row::pack([Value::Int(id), Value::Bytes(vec![7; n].into())]);
    done(&mut *sink, 2, &[upserts(&blobs, 2, &[blob(1, 900_000), blob(2, 900_000), blob(3, 10)])]).unwrap();
    let words = ["max_allowed_packet", "key (4)"];
    refused(done(&mut *sink, 3, &[upserts(&blobs, 2, &[blob(4, 1_100_000)])]), codes::TARGET_VALUE, &words);
}

/// What is behind the rows of a statement counts too.
#[test]
fn a_statement_of_rows_that_fit_each_fits() {
    let server = start();
    let target = Target::new(&server, "wide");
    target.run("SET GLOBAL max_allowed_packet = 1048576");
    let blob = ColumnType::Blob { size: cdc_core::schema::LobSize::Long };
    let mut columns = vec![Column::new("id", int()).not_null(), Column::new("b", blob)];
    columns.extend((0..200).map(|i| Column::new(format!("c{i:03}_a_name_that_is_long"), int())));
    let table = table("w", columns, &[0]);
    let row = |id, bytes: usize| {
        let mut values = vec![Value::Int(id), Value::Bytes(vec![b'a'; bytes].into())];
        values.resize(202, Value::Null);
        Row::pack(values)
    };
    let mut sink = target.claimed();
    let rows = [row(3, 30_000), row(4, 1_003_000)];
    done(&mut *sink, 1, &[upserts(&table, 1, &rows)]).unwrap();
    assert_eq!(target.run("SELECT id, LENGTH(b) FROM w ORDER BY id"), ["3|30000", "4|1003000"]);
}

/// It has no text of its own, and there may be a member that is the empty one.
#[test]
fn an_enums_invalid_value_is_its_number() {
    let server = start();
    let target = Target::new(&server, "invalid");
    let labels: Arc<[Arc<str>]> = ["a".into(), "".into()].into();
    let ty = ColumnType::Enum { labels, charset: Charset::utf8mb4() };
    let columns = vec![
        Column::new("id", int()).not_null(),
        Column::new("v", int()),
        Column::new("e", ty.clone()),
        Column::new("more", int()),
    ];
    let plain = table("e", columns, &[0]);
    let e = |index: u16| Value::Enum { index, label: ["", "a", ""][index as usize].into() };
    let row = |id, index| Row::pack([Value::Int(id), Value::Int(1), e(index), Value::Int(7)]);
    let mut sink = target.claimed();
    done(&mut *sink, 1, &[upserts(&plain, 1, &[row(1, 0), row(2, 2), row(3, 1), row(4, 0)])]).unwrap();
    let stored = || target.run("SELECT id, v, e + 0, more FROM e ORDER BY id");
    assert_eq!(stored(), ["1|1|0|7", "2|1|2|7", "3|1|1|7", "4|1|0|7"]);
    // rows that move to another key, with an invalid value that is stored, and with one that comes
    let moved = |tick, from, values: [Value<'static>; 4]| TargetChange {
        source_op: Op::Update,
        before: Some(Row::pack([Value::Int(from), Value::Absent, Value::Absent, Value::Absent])),
        ..upsert(&plain, tick, &Row::pack(values))
    };
    let gone = |tick, id| TargetChange {
        op: cdc_core::connector::TargetOp::Delete,
        source_op: Op::Update,
        row: None,
        key: Row::pack([Value::Int(id)]),
        ..upsert(&plain, tick, &row(id, 1))
    };
    let absent = Value::Absent;
    let changes = vec![
        gone(2, 1),
        gone(2, 3),
        moved(2, 1, [Value::Int(11), absent.clone(), absent.clone(), absent.clone()]),
        moved(2, 3, [Value::Int(13), Value::Int(2), e(0), absent]),
    ];
    done(&mut *sink, 2, &[batch(&plain, changes)]).unwrap();
    assert_eq!(stored(), ["2|1|2|7", "4|1|0|7", "11|1|0|7", "13|2|0|7"]);
    // as a key they are two
    let columns = vec![Column::new("e", ty.clone()).not_null(), Column::new("v", int())];
    let keyed = table("k", columns, &[0]);
    let row = |index, v| Row::pack([e(index), Value::Int(v)]);
    done(&mut *sink, 3, &[upserts(&keyed, 3, &[row(0, 1), row(2, 2), row(1, 3)])]).unwrap();
    let stored = || target.run("SELECT e + 0, v FROM k ORDER BY e + 0");
    assert_eq!(stored(), ["0|1", "1|3", "2|2"]);
    // written over each keeps its own, as a key and beside one, and in an update in part
    done(&mut *sink, 4, &[upserts(&keyed, 4, &[row(0, 4), row(2, 5), row(1, 6)])]).unwrap();
    assert_eq!(stored(), ["0|4", "1|6", "2|5"]);
    let [id, more] = ["id", "more"].map(|name| Column::new(name, int()).not_null());
    let columns = vec![id, Column::new("e", ty.clone()).not_null(), Column::new("o", ty), more];
    let (second, first) = (table("k2", columns.clone(), &[0, 1]), table("k1", columns, &[1, 0]));
    for (tick, others) in [(5, [1, 2, 0]), (6, [0, 1, 2]), (7, [2, 0, 1])] {
        let row = |(key, o): (u16, u16)| Row::pack([Value::Int(1), e(key), e(o), Value::Int(tick as i64)]);
        let rows: Vec<Row> = (0..).zip(others).map(row).collect();
        done(&mut *sink, tick, &[upserts(&second, tick, &rows), upserts(&first, tick, &rows)]).unwrap();
        let wanted: Vec<String> =
            (0..).zip(others).map(|(e, o): (u16, _)| format!("{e}|{o}|{tick}")).collect();
        for of in ["k2", "k1"] {
            assert_eq!(
                target.run(&format!("SELECT e + 0, o + 0, more FROM {of} ORDER BY 1")),
                wanted,
                "{of}"
            );
        }
    }
    let (one, absent) = (Value::Int(1), Value::Absent);
    let partly = TargetChange {
        source_op: Op::Update,
        before: Some(Row::pack([one.clone(), e(0), absent.clone(), absent.clone()])),
        ..upsert(&first, 8, &Row::pack([one, e(0), absent, Value::Int(8)]))
    };
    done(&mut *sink, 8, &[batch(&first, vec![partly])]).unwrap();
    assert_eq!(target.run("SELECT e + 0, o + 0, more FROM k1 ORDER BY 1"), ["0|2|8", "1|0|7", "2|1|7"]);
    let gone = TargetChange {
        op: cdc_core::connector::TargetOp::Delete,
        row: None,
        key: Row::pack([e(0)]),
        ..upsert(&keyed, 9, &row(0, 1))
    };
    done(&mut *sink, 9, &[batch(&keyed, vec![gone])]).unwrap();
    assert_eq!(stored(), ["1|6", "2|5"]);
}

fn table_of_time() -> Arc<TargetTable> {
    let at = Column::new("at", ColumnType::Timestamp { fsp: 0 });
    table("times", vec![Column::new("id", int()).not_null(), at], &[0])
}

fn table_of_blobs() -> Arc<TargetTable> {
    let blob = ColumnType::Blob { size: cdc_core::schema::LobSize::Long };
    table("blobs", vec![Column::new("id", int()).not_null(), Column::new("b", blob)], &[0])
}

#[test]
fn what_cannot_be_a_target_is_told_with_what_to_do() {
    let server = start();
    let target = Target::new(&server, "told");
    let told = |change: &dyn Fn(&mut cdc_core::plan::SinkPlan), code, words: &[&str]| {
        let mut plan = target.plan();
        change(&mut plan);
        let error = match cdc_sinks::open(&plan, std::path::Path::new(".")) {
            Err(e) => e,
            Ok(mut sink) => sink.inspect(&job("x")).unwrap_err(),
        };
        let error = refused(Err::<(), _>(error), code, words);
        assert!(!error.is_transient() && !error.to_string().contains("hidden"), "{error}");
    };
    let set = |name: &'static str, value: &'static str| {
        move |plan: &mut cdc_core::plan::SinkPlan| {
            plan.options.0.insert(name.into(), cdc_core::plan::OptionValue::Text(value.into()));
        }
    };
    told(&set("password", "hidden"), codes::ACCESS_DENIED, &["\"dw\"", "GRANT"]);
    told(&set("database", "nowhere"), codes::ACCESS_DENIED, &["nowhere"]);
    told(&set("database", ""), codes::MISSING_OPTION, &["database"]);
    told(&set("url", "mysql://u:hidden@h"), codes::URL_MALFORMED, &["account"]);
    told(&set("on_existing", "mend"), codes::OPTION_VALUE, &["check, evolve"]);
    told(&set("tls", "sometimes"), codes::OPTION_VALUE, &["verify-identity"]);
    told(&set("tls_ca", "ca.pem"), codes::OPTION_VALUE, &["verify-identity"]);
    told(
        &|plan| {
            set("tls", "verify-ca")(plan);
            set("tls_ca", "no.pem")(plan);
        },
        codes::FILE_UNREADABLE,
        &["no.pem"],
    );
    if !server.kind().is_mariadb() {
        told(&set("tls", "verify-identity"), codes::TLS_FAILED, &["tls_ca"]);
    }
    // a right that is missing: to make tables
    target.run("REVOKE CREATE ON told.* FROM dw@'%'");
    let mut sink = target.sink();
    sink.inspect(&job("x")).unwrap();
    refused(sink.claim(&job("x")), codes::GRANT_MISSING, &["CREATE", "GRANT SELECT"]);
    // a name that the server or we keep
    target.run("GRANT CREATE ON told.* TO dw@'%'");
    sink.claim(&job("x")).unwrap();
    let long = "x".repeat(65);
    for name in ["_cdc_progress", "_CDC_x", "", "a\0b", "x ", "🙂", &long] {
        let columns = vec![Column::new("id", int()).not_null()];
        refused(sink.prepare(&table(name, columns, &[0])), codes::TARGET_SHAPE, &["help:"]);
    }
}

#[test]
fn connections_are_secured_as_the_options_say() {
    use cdc_core::plan::OptionValue;
    use cdc_testkit::certs::Certs;
    use cdc_testkit::servers::{Server, ServerOptions};
    let folder = tempfile::tempdir().unwrap();
    let certs = Certs::make(folder.path().join("ours")).unwrap();
    Certs::make(folder.path().join("others")).unwrap();
    let server = Server::start(certs.server_options(ServerOptions::of_this_run())).unwrap();
    let target = Target::new(&server, "secure");
    server
        .sql("CREATE USER shown@'%' IDENTIFIED BY 'secret' REQUIRE X509; GRANT ALL ON secure.* TO shown@'%'")
        .unwrap();
    let inspect = |options: &[(&str, &str)]| {
        let mut plan = target.plan();
        for (name, value) in options {
            plan.options.0.insert((*name).into(), OptionValue::Text((*value).into()));
        }
        cdc_sinks::open(&plan, folder.path()).and_then(|mut sink| sink.inspect(&job("x")))
    };
    let ca = ("tls_ca", "ours/ca.pem");
    let (cert, key) = (("tls_cert", "ours/client-cert.pem"), ("tls_key", "ours/client-key.pem"));
    for options in [
        &[("tls", "required")][..],
        &[("tls", "verify-ca"), ca],
        &[("tls", "verify-identity"), ca],
        &[("tls", "required"), ("user", "shown"), cert, key],
    ] {
        assert_eq!(inspect(options).unwrap(), None, "{options:?}");
    }
    let others = ("tls_ca", "others/ca.pem");
    refused(inspect(&[("tls", "verify-ca"), others]), codes::TLS_FAILED, &["tls_ca"]);
    refused(inspect(&[("tls", "verify-identity")]), codes::TLS_FAILED, &["tls_ca"]);
    refused(inspect(&[("tls", "required"), ("user", "shown")]), codes::ACCESS_DENIED, &["shown"]);
    refused(inspect(&[("tls", "required"), cert]), codes::MISSING_OPTION, &["tls_key"]);
    server.sql("SET GLOBAL require_secure_transport = ON").unwrap();
    let plain = inspect(&[("tls", "disabled")]).unwrap_err();
    assert!([codes::TLS_FAILED, codes::ACCESS_DENIED].contains(&plain.code()), "{plain}");
    // over the machine's own socket, which needs none
    let socket = server.socket().to_string_lossy().into_owned();
    assert_eq!(inspect(&[("socket", &socket)]).unwrap(), None);
}

#[test]
fn tables_of_another_shape_are_refused_with_both_shapes_and_the_way_out() {
    let server = start();
    let target = Target::new(&server, "shapes");
    let mut sink = target.sink();
    sink.inspect(&job("run")).unwrap();
    let text = "VARCHAR(100) CHARACTER SET utf8mb4";
    let mut cases = vec![
        ("(id INT PRIMARY KEY)".to_owned(), vec!["\"note\"", "ADD COLUMN `note` varchar(100)"]),
        (format!("(id INT, note {text})"), vec!["no key", "ADD PRIMARY KEY (`id`)"]),
        (format!("(id INT, note {text} PRIMARY KEY)"), vec!["unique there", "RENAME TABLE"]),
        (format!("(id INT, note {text}, PRIMARY KEY (id, note))"), vec!["unique there"]),
        (format!("(id VARCHAR(20) PRIMARY KEY, note {text})"), vec!["column \"id\" is varchar(20)"]),
        (format!("(id INT UNSIGNED PRIMARY KEY, note {text})"), vec!["column \"id\" is int", "unsigned"]),
        ("(id INT PRIMARY KEY, note VARCHAR(99) CHARACTER SET utf8mb4)".into(), vec!["varchar(99)"]),
        ("(id INT PRIMARY KEY, note VARCHAR(100) CHARACTER SET latin1)".into(), vec!["\"note\""]),
        (format!("(id INT PRIMARY KEY, note {text} NOT NULL)"), vec!["NOT NULL"]),
        (format!("(id INT PRIMARY KEY, note {text}, x INT NOT NULL)"), vec!["\"x\" is not ours"]),
        (format!("(id INT PRIMARY KEY, note {text} UNIQUE)"), vec!["(`note`) is unique there", "DROP INDEX"]),
        (format!("(id INT PRIMARY KEY, note {text}, UNIQUE u (note(5)))"), vec!["a part of a column"]),
        (format!("(id INT PRIMARY KEY, note {text} AS ('x') STORED)"), vec!["generated there"]),
        (format!("(id INT PRIMARY KEY, note {text}) ENGINE = MyISAM"), vec!["MyISAM", "ENGINE = InnoDB"]),
    ];
    if !server.kind().is_mariadb() {
        cases
            .push((format!("(id INT PRIMARY KEY, note {text}, UNIQUE u ((id + 1)))"), vec!["an expression"]));
    }
    for (sql, words) in cases {
        target.run(&format!("DROP TABLE IF EXISTS orders; CREATE TABLE orders {sql}"));
        let mut all = words.clone();
        all.extend(["another shape", "wanted:", "found:", "help:"]);
        assert!(sink.check(&orders()).is_err(), "{sql}");
        refused(sink.check(&orders()), codes::TARGET_SHAPE, &all);
    }
    target.run("DROP TABLE orders; CREATE VIEW orders AS SELECT 1 AS id, 'x' AS note");
    refused(sink.check(&orders()), codes::TARGET_SHAPE, &["it is a VIEW"]);
    target.run("DROP VIEW orders");
    // without a key of ours, nothing may be unique
    target.run(&format!("CREATE TABLE log (line {text}, n INT, UNIQUE u (n))"));
    refused(sink.check(&log()), codes::TARGET_SHAPE, &["equal rows are to be kept", "DROP INDEX `u`"]);
    // what fits is taken, and what is the user's stays
    for sql in [
        format!("(extra VARCHAR(9) DEFAULT 'kept', note {text}, id BIGINT NOT NULL, UNIQUE (id))"),
        "(ID INT PRIMARY KEY, Note LONGTEXT CHARACTER SET utf8mb4, extra VARCHAR(9) NOT NULL DEFAULT 'kept')"
            .into(),
    ] {
        target.run(&format!(
            "DROP TABLE IF EXISTS orders, _cdc_progress, _cdc_tables; CREATE TABLE orders {sql}"
        ));
        let mut sink = target.filled(&orders(), &[order(1, "x"), order(3, "y")]);
        target.run("UPDATE orders SET extra = 'mine'");
        let rows = [order(1, "a"), order(2, "bb\0b")];
        sink.write(&upserts(&orders(), 2, &rows)).unwrap();
        sink.write(&batch(&orders(), vec![delete(2, Row::pack([Value::Int(3)]))])).unwrap();
        sink.commit(2, &binding(2)).unwrap();
        target.equal(&orders(), &rows);
        assert_eq!(target.run("SELECT extra FROM orders ORDER BY id"), ["mine", "kept"]);
    }
}

#[test]
fn keys_as_long_as_an_index_and_rows_as_wide_as_a_table() {
    let server = start();
    let target = Target::new(&server, "limits");
    let latin = |length| ColumnType::VarChar { length, charset: Charset::new("latin1", "latin1_swedish_ci") };
    let mut sink = target.claimed();
    // 3072 bytes of key at the source, which utf8mb4 does not fit into
    let long = table("long", vec![Column::new("k", latin(3072)).not_null(), Column::new("v", int())], &[0]);
    let row = |k: &str, v| Row::pack([text(k), Value::Int(v)]);
    let rows = [row(&"é".repeat(3072), 1), row(&"É".repeat(3072), 2)];
    sink.prepare(&long).unwrap();
    sink.write(&upserts(&long, 1, &rows)).unwrap();
    // a TEXT that the flow names as its key
    let body = ColumnType::Text { size: cdc_core::schema::LobSize::Normal, charset: Charset::utf8mb4() };
    let named = table("named", vec![Column::new("k", body).not_null(), Column::new("v", int())], &[0, 1]);
    sink.prepare(&named).unwrap();
    sink.write(&upserts(&named, 1, &[row(&"x".repeat(700), 1), row(&"x".repeat(700), 2)])).unwrap();
    // a row of 65,535 bytes in latin1
    let columns = std::iter::once(Column::new("id", int()).not_null())
        .chain((0..3).map(|i| Column::new(format!("c{i}"), latin(20_000))))
        .collect();
    let wide = table("wide", columns, &[0]);
    sink.prepare(&wide).unwrap();
    let full = Row::pack([Value::Int(1)].into_iter().chain((0..3).map(|_| text(&"ÿ".repeat(20_000)))));
    sink.write(&upserts(&wide, 1, std::slice::from_ref(&full))).unwrap();
    // as many columns as a table has
    let columns = (0..1017).map(|i| Column::new(format!("c{i}"), int())).collect::<Vec<_>>();
    let many = table("many", columns.into_iter().map(Column::not_null).collect(), &[0]);
    sink.prepare(&many).unwrap();
    let numbers: Vec<Row> =
        (0..20).map(|r| Row::pack((0..1017).map(|i| Value::Int(if i == 0 { r } else { i })))).collect();
    sink.write(&upserts(&many, 1, &numbers)).unwrap();
    sink.commit(1, &binding(1)).unwrap();
    target.equal(&long, &rows);
    target.equal(&wide, &[full]);
    target.equal(&many, &numbers);
    let too_long = table(
        "too_long",
        vec![Column::new("k", ColumnType::VarChar { length: 769, charset: Charset::utf8mb4() }).not_null()],
        &[0],
    );
    let words = ["an index holds 3072", "choose another key"];
    refused(sink.check(&too_long), codes::TARGET_SHAPE, &words);
    refused(sink.prepare(&too_long), codes::TARGET_SHAPE, &words);
}
