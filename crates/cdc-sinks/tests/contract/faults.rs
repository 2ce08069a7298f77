//! What goes wrong between us and a target, or with the target itself, and passes.

use super::*;
use cdc_core::codes;
use cdc_core::connector::TargetChange;
use cdc_core::plan::OptionValue;
use cdc_core::value::Value;
use cdc_testkit::proxy::Proxy;
use std::thread;

/// A server that can be taken away.
pub trait Server: Place {
    fn port(&self) -> u16;
    /// Ends it, at once if `crash`.
    fn end(&mut self, crash: bool);
    fn start_again(&mut self);
    /// The target that was made last.
    fn last(&self) -> Box<dyn Case + '_>;
}

pub fn on_the_way(place: &dyn Server) {
    a_connection_cut_at_any_byte_loses_and_doubles_nothing(place);
    a_slow_way_is_only_slow(place);
}

/// A sink that goes by another port.
fn by_way_of(case: &dyn Case, from: u16, to: u16) -> Box<dyn Sink> {
    let (connector, mut options) = case.options();
    for (_, value) in options.iter_mut().filter(|(name, _)| name == "url") {
        *value = value.replace(&format!(":{from}"), &format!(":{to}"));
    }
    let options: Vec<(&str, &str)> = options.iter().map(|(n, v)| (&**n, &**v)).collect();
    let mut sink = cdc_sinks::open(&plan(connector, &options), case.base()).unwrap();
    sink.claim(&job("run 1")).unwrap();
    sink
}

fn line(n: u64) -> Row {
    Row::pack([text("x"), Value::Int(n as i64), Value::Double(1.0)])
}

/// Tick t: order t comes and order t - 1 goes; of the lines one of 0 comes, t - 1 goes, t comes.
fn tick(t: u64) -> [TargetBatch; 2] {
    let gone = delete(t, Row::pack([Value::Int(t as i64 - 1)]));
    let came = upsert(&orders(), t, &order(t as i64, "came"));
    let plus = |n| TargetChange { key: line(n), ..upsert(&log(), t, &line(n)) };
    let mut lines = vec![plus(0), plus(t)];
    if t > 1 {
        lines.insert(0, delete(t, line(t - 1)));
    }
    [batch(&orders(), vec![gone, came]), batch(&log(), lines)]
}

#[track_caller]
fn all_once(case: &dyn Case, t: u64) {
    assert_eq!(case.sql("SELECT id, note FROM orders"), [format!("{t}|came")]);
    assert_eq!(case.counted("SELECT line, n FROM log"), [format!("x|0|{t}"), format!("x|{t}|1")]);
    let doubled = "SELECT id, what FROM writes GROUP BY id, what HAVING COUNT(*) > 1";
    assert!(case.sql(doubled).is_empty(), "written more than once");
    assert_eq!(case.sql("SELECT COUNT(*) FROM writes"), [format!("{}", 2 * t - 1)]);
    assert_eq!(case.sql("SELECT tick, epoch FROM _cdc_progress"), [format!("{t}|1")]);
}

/// The connection is cut behind each byte of the answers to a transaction: before it begins, between its statements, in
/// the answer to COMMIT.
fn a_connection_cut_at_any_byte_loses_and_doubles_nothing(place: &dyn Server) {
    let case = &*place.case();
    let proxy = Proxy::start(place.port()).unwrap();
    let mut sink = by_way_of(case, place.port(), proxy.port());
    sink.prepare(&orders()).unwrap();
    sink.prepare(&log()).unwrap();
    case.count_writes();
    for t in 1..=3 {
        assert_eq!(committed(&mut *sink, t, &tick(t)), 0);
    }
    let before = proxy.bytes_from_server();
    assert_eq!(committed(&mut *sink, 4, &tick(4)), 0);
    let bytes = (proxy.bytes_from_server() - before) as u32;
    let (mut t, mut cuts, mut lost) = (4, 0, 0);
    // the ends of the answers, where COMMIT's is, byte by byte
    let last = bytes.saturating_sub(40);
    for byte in (0..last).step_by(11).chain(last..=bytes) {
        t += 1;
        proxy.cut_after(byte);
        let again = committed(&mut *sink, t, &tick(t));
        cuts += u32::from(again > 0);
        lost += u32::from(again == 0 && byte < bytes);
    }
    assert!(cuts > 20, "only {cuts} of the cuts were felt");
    assert!(lost > 0, "no answer to COMMIT was lost and found out at once");
    proxy.cut_after(u32::MAX >> 1);
    all_once(case, t);
    // it cannot be reached when the answer is lost: the committer replays, and is told that it is done
    let mut lost_later = 0;
    for back in 1..9 {
        t += 1;
        // inside the last answers, of which COMMIT's is one
        proxy.cut_after(bytes.saturating_sub(back));
        let written = tick(t).iter().try_for_each(|b| sink.prepare(&b.table).and_then(|()| sink.write(b)));
        proxy.refuse(true);
        if let Err(error) = written.and_then(|()| sink.commit(t, &binding(t))) {
            assert!(error.is_transient(), "{error}");
            sink.rollback();
            lost_later += u32::from(case.sql("SELECT tick FROM _cdc_progress") == [t.to_string()]);
            proxy.refuse(false);
            proxy.cut_after(u32::MAX >> 1);
            committed(&mut *sink, t, &tick(t));
        }
        proxy.refuse(false);
        proxy.cut_after(u32::MAX >> 1);
        all_once(case, t);
    }
    assert!(lost_later > 0, "no answer to COMMIT was lost and found out later");
    println!(
        "{cuts} cuts were felt; {lost} answers to COMMIT were lost and found out at once, {lost_later} later"
    );
}

fn a_slow_way_is_only_slow(place: &dyn Server) {
    let case = &*place.case();
    let proxy = Proxy::start(place.port()).unwrap();
    let mut sink = by_way_of(case, place.port(), proxy.port());
    proxy.slow_down(Some(200_000));
    let rows: Vec<Row> = (1..3000).map(|i| order(i, &"x".repeat(90))).collect();
    assert_eq!(committed(&mut *sink, 1, &[upserts(&orders(), 1, &rows)]), 0);
    case.equal(&orders(), &rows);
}

/// The server is shut down, and the next time it crashes, with a tick half written.
pub fn a_server_that_goes_away_is_waited_for(place: &mut dyn Server) {
    let rows = |to: i64| (1..=to).map(|i| order(i, "a")).collect::<Vec<_>>();
    let mut sink = {
        let case = &*place.case();
        case.filled(&orders(), &rows(1))
    };
    for (t, crash) in [(2, false), (3, true)] {
        let batches = [upserts(&orders(), t as u64, &[order(t, "a")])];
        sink.prepare(&orders()).unwrap();
        sink.write(&batches[0]).unwrap();
        place.end(crash);
        let lost = sink.commit(t as u64, &binding(t as u64)).unwrap_err();
        assert!(lost.is_transient(), "{lost}");
        sink.rollback();
        let away = done(&mut *sink, t as u64, &batches);
        let away = refused(away, codes::TARGET_OPEN, &[&place.port().to_string(), "help:"]);
        assert!(away.is_transient() && !away.to_string().contains("secret"), "{away}");
        sink.rollback();
        place.start_again();
        committed(&mut *sink, t as u64, &batches);
        place.last().equal(&orders(), &rows(t));
    }
}

/// Somebody holds the rows for longer than we wait; then nobody may write.
pub fn a_target_that_is_locked_or_read_only_is_tried_again(place: &dyn Place) {
    let case = &*place.case();
    drop(case.filled(&orders(), &[order(1, "a")]));
    let mut patience = case.plan();
    if case.flavor() == Flavor::Postgres {
        patience.options.0.insert("lock_timeout".into(), OptionValue::Duration(1000));
    }
    let mut sink = cdc_sinks::open(&patience, case.base()).unwrap();
    sink.claim(&job("run 2")).unwrap();
    let ours = |tick| [upserts(&orders(), tick, &[order(1, "ours")])];
    let seconds = if case.flavor() == Flavor::Postgres { 3 } else { 7 };
    thread::scope(|scope| {
        let theirs = scope.spawn(|| case.hold_orders(seconds));
        thread::sleep(Duration::from_millis(800));
        let held = refused(done(&mut *sink, 2, &ours(2)), codes::TARGET_BUSY, &["lock", "help:"]);
        assert!(held.is_transient(), "{held}");
        sink.rollback();
        theirs.join().unwrap();
    });
    committed(&mut *sink, 2, &ours(2));
    // a file is read-only for good, and that is no fault that passes
    if case.flavor() != Flavor::Sqlite {
        case.read_only(true);
        let refusal = refused(done(&mut *sink, 3, &ours(3)), codes::TARGET_WRITE, &["read-only"]);
        assert!(refusal.is_transient(), "{refusal}");
        sink.rollback();
        case.read_only(false);
        committed(&mut *sink, 3, &ours(3));
    }
    case.equal(&orders(), &[order(1, "ours")]);
}
