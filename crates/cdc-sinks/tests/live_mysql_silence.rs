//! A server that does not answer is given up after a while, one that is at work is not, and nothing is lost or doubled.

mod common;
#[path = "common/mysql.rs"]
mod target;

use cdc_core::connector::{Sink, TargetChange, TargetTable};
use cdc_core::plan::OptionValue;
use cdc_core::schema::Column;
use cdc_core::value::Value;
use cdc_core::{Error, Row, codes};
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::Server;
use common::*;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use target::{Target, start};

/// A sink that is patient for less than a second.
fn impatient(target: &Target<'_>) -> Box<dyn Sink> {
    let mut plan = target.plan();
    for name in ["answer_timeout", "connect_timeout"] {
        plan.options.0.insert(name.into(), OptionValue::Duration(400));
    }
    let mut sink = cdc_sinks::open(&plan, Path::new(".")).unwrap();
    sink.inspect(&job("run 1")).unwrap();
    sink.claim(&job("run 1")).unwrap();
    sink
}

/// A table without key would show a row that was written twice.
fn log() -> Arc<TargetTable> {
    table("log", vec![Column::new("line", varchar()), Column::new("n", int())], &[])
}

fn line(tick: u64) -> Row {
    Row::pack([text("line"), Value::Int(tick as i64)])
}

fn counted(tick: u64) -> TargetChange {
    let row = line(tick);
    TargetChange { key: row.clone(), ..upsert(&log(), tick, &row) }
}

fn write(sink: &mut dyn Sink, tick: u64) -> Result<(), Error> {
    let (orders, log) = (orders(), log());
    sink.prepare(&orders)?;
    sink.prepare(&log)?;
    sink.write(&upserts(&orders, tick, &[order(tick as i64, "a")]))?;
    sink.write(&batch(&log, vec![counted(tick)]))
}

/// As the committer does.
fn commit(sink: &mut dyn Sink, tick: u64) -> u32 {
    let mut again = 0;
    loop {
        match write(sink, tick).and_then(|()| sink.commit(tick, &binding(tick))) {
            Ok(()) => return again,
            Err(e) => {
                assert!(e.is_transient() && again < 50, "{e}");
                sink.rollback();
                again += 1;
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn all_once(target: &Target<'_>, ticks: u64) {
    let rows: Vec<Row> = (1..=ticks).map(|t| order(t as i64, "a")).collect();
    target.equal(&orders(), &rows);
    let lines = target.run("SELECT n, COUNT(*) FROM log GROUP BY n ORDER BY n");
    assert_eq!(lines, (1..=ticks).map(|t| format!("{t}|1")).collect::<Vec<_>>());
}

/// It ends within a time, with an error that comes again.
#[track_caller]
fn given_up(began: Instant, done: Result<(), Error>) {
    let error = refused(done, codes::TARGET_OPEN, &["no answer within", "help:"]);
    assert!(error.is_transient(), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn a_network_that_goes_silent_is_given_up_at_any_step() {
    let server = start();
    let target = Target::new(&server, "silent");
    let proxy = Proxy::start(server.port()).unwrap();
    let mut sink = impatient(&target.by(proxy.port()));
    commit(&mut *sink, 1);
    // in front of a transaction, in it, at its end; with nobody there, and with a server that has not got what we sent
    for (tick, step) in (2..).zip(0..6) {
        let silence = |quiet: bool| {
            if step % 2 == 0 {
                proxy.stall(quiet)
            } else if quiet {
                proxy.swallow()
            }
        };
        let began;
        let done = match step / 2 {
            0 => {
                silence(true);
                began = Instant::now();
                write(&mut *sink, tick)
            }
            1 => {
                // of a table without key, which does not wait for the commit
                sink.write(&batch(&log(), vec![counted(tick)])).unwrap();
                silence(true);
                began = Instant::now();
                sink.write(&batch(&log(), vec![counted(99)]))
            }
            _ => {
                write(&mut *sink, tick).unwrap();
                silence(true);
                began = Instant::now();
                sink.commit(tick, &binding(tick))
            }
        };
        // a swallowed COMMIT is met again by itself, on a connection that passes
        if step == 5 {
            assert!(done.is_ok() || done.is_err_and(|e| e.is_transient()));
        } else {
            given_up(began, done);
        }
        sink.rollback();
        silence(false);
        commit(&mut *sink, tick);
        all_once(&target, tick);
    }
}

#[test]
fn a_server_that_hangs_is_given_up_and_met_again() {
    let server = start();
    let target = Target::new(&server, "hangs");
    let mut sink = impatient(&target);
    commit(&mut *sink, 1);
    for tick in 2..4 {
        if tick == 3 {
            sink.write(&upserts(&orders(), tick, &[order(tick as i64, "a")])).unwrap();
        }
        server.freeze(true).unwrap();
        let began = Instant::now();
        let done = write(&mut *sink, tick);
        sink.rollback();
        // nor is one that hangs opened for ever
        let again = write(&mut *sink, tick);
        server.freeze(false).unwrap();
        given_up(began, done);
        assert!(again.is_err_and(|e| e.is_transient()));
        sink.rollback();
        commit(&mut *sink, tick);
        all_once(&target, tick);
    }
}

/// What holds it up there is seen, so it is waited for.
#[test]
fn a_server_that_is_at_work_is_waited_for() {
    let server = start();
    let target = Target::new(&server, "works");
    let mut sink = impatient(&target);
    commit(&mut *sink, 1);
    let held = hold(&server, "works.log", 2);
    let began = Instant::now();
    sink.write(&batch(&log(), vec![counted(2)])).unwrap();
    assert!(began.elapsed() > Duration::from_millis(1200), "{:?}", began.elapsed());
    held.join().unwrap();
    sink.rollback();
    commit(&mut *sink, 2);
    all_once(&target, 2);
}

/// Another session that locks a table for some seconds.
fn hold(server: &Server, table: &str, seconds: u32) -> thread::JoinHandle<()> {
    let sql = format!("LOCK TABLES {table} WRITE; SELECT 'held'; DO SLEEP({seconds})");
    let mut client = server.socket_command("mysql").unwrap();
    let mut child = client.args(["-n", "-e", &sql]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0];
    std::io::Read::read_exact(&mut out, &mut first).unwrap();
    thread::spawn(move || drop(child.wait()))
}
