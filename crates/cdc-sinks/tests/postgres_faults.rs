//! What becomes of a PostgreSQL target when something on the way to it, or it itself, goes wrong.

mod common;

use cdc_core::connector::{Sink, TargetBatch, TargetChange, TargetSchemaChange, TargetTable};
use cdc_core::schema::Column;
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

/// Of a table without key: one more row.
fn plus(tick: u64, line: &str) -> TargetChange {
    let row = Row::pack([text(line)]);
    TargetChange { key: row.clone(), ..upsert(&log(), tick, &row) }
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
fn a_deadlock_is_tried_again() {
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
        ("on_existing", "mend", codes::OPTION_VALUE),
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
        batch(&log(), vec![plus(tick, &format!("line {tick}"))]),
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

#[test]
fn a_client_shows_its_certificate() {
    let folder = tempdir().unwrap();
    let ours = certs::Certs::make(folder.path().join("ours")).unwrap();
    let others = certs::Certs::make(folder.path().join("others")).unwrap();
    ours.client("late", true).unwrap();
    let mut target = Target::start();
    let schema = target.case().schema;
    target.server.admin("CREATE ROLE client LOGIN; GRANT pg_read_all_data TO client").unwrap();
    for (file, part) in [("s.crt", "server-cert.pem"), ("s.key", "server-key.pem"), ("ca.crt", "ca.pem")] {
        target.server.put(file, &std::fs::read(ours.path(part)).unwrap()).unwrap();
    }
    // one account with password and certificate, one whose certificate names it and is all it needs
    let rules = "local all all trust\n\
                 hostssl all cdc 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n\
                 hostssl all client 127.0.0.1/32 cert\n";
    target.server.put("pg_hba.conf", rules.as_bytes()).unwrap();
    *target.server.options_mut() = PostgresOptions::default()
        .with("ssl=on")
        .with("ssl_cert_file=s.crt")
        .with("ssl_key_file=s.key")
        .with("ssl_ca_file=ca.crt");
    target.server.restart().unwrap();
    let path = |certs: &certs::Certs, file: &str| certs.path(file).to_str().unwrap().to_owned();
    let open = |options: &[(&'static str, &str)]| {
        let case = options
            .iter()
            .fold(Case::of(&target.server, &schema).with("tls", "verify-identity"), |case, (name, value)| {
                case.with(name, value)
            })
            .with("tls_ca", &path(&ours, "ca.pem"));
        case.try_sink().and_then(|mut sink| sink.inspect(&job("run"))).map(|_| ())
    };
    let (cert, key) = (path(&ours, "client-cert.pem"), path(&ours, "client-key.pem"));
    let shown = [("tls_cert", &*cert), ("tls_key", &*key)];
    open(&shown).unwrap();
    open(&[shown[0], shown[1], ("user", "client"), ("password", "")]).unwrap();
    // nothing is shown, and what is shown does not do
    refused(open(&[]), codes::ACCESS_DENIED, &["certificate", "tls_cert"]);
    let theirs = (path(&others, "client-cert.pem"), path(&others, "client-key.pem"));
    let late = (path(&ours, "late-cert.pem"), path(&ours, "late-key.pem"));
    for (cert, key) in [&theirs, &late] {
        let error = open(&[("tls_cert", cert), ("tls_key", key)]).unwrap_err();
        refused(Err::<(), _>(error), codes::TLS_FAILED, &["tls_cert"]);
    }
    // files that are none
    refused(
        open(&[shown[0], ("tls_key", &theirs.1)]),
        codes::TLS_FAILED,
        &["option \"tls_key\"", "not the key"],
    );
    refused(open(&[("tls_cert", &key), ("tls_key", &key)]), codes::TLS_FAILED, &["holds no certificate"]);
    refused(
        open(&[("tls_cert", &cert), ("tls_key", &cert)]),
        codes::TLS_FAILED,
        &["option \"tls_key\"", "private key"],
    );
    refused(open(&[shown[0], ("tls_key", "no such file")]), codes::FILE_UNREADABLE, &["tls_key"]);
    refused(open(&[shown[0]]), codes::MISSING_OPTION, &["tls_key"]);
    let plain = [("tls", "disabled"), shown[0], shown[1]]
        .iter()
        .fold(Case::of(&target.server, &schema), |case, (name, value)| case.with(name, value));
    refused(plain.try_sink().map(|_| ()), codes::OPTION_VALUE, &["tls = disabled"]);
}
