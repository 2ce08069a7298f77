//! A target that is really full: what holds its rows takes no more.

use super::*;
use cdc_core::codes;
use cdc_core::value::Value;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Says to a process that it is the one inside, and where.
const ROOM: &str = "CDC_SINKS_SMALL_ROOM";

/// A folder on a file system of its own, of so many megabytes, whose owner is this account. It is mounted in a namespace
/// of its own, by a process that runs the test of this name again; there this gives the folder, and `None` to the one that has waited
/// for it. Where the system lets nobody have namespaces there is no such test, and that is printed.
pub fn small_room(test: &str, megabytes: u32, owner: impl FnOnce() -> u32) -> Option<PathBuf> {
    let mount = |folder: &Path, owner: u32| {
        let options = format!("size={megabytes}m,mode=0700,uid={owner}");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder);
        command
    };
    if let Some(folder) = std::env::var_os(ROOM).map(PathBuf::from) {
        assert!(mount(&folder, owner()).status().unwrap().success(), "a file system was not mounted");
        return Some(folder);
    }
    let folder = TempDir::new().unwrap();
    // the server's account must get there
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    let inside = || {
        let mut command = Command::new("unshare");
        let whose: &[&str] =
            if uid == 0 { &["--mount"] } else { &["--user", "--mount", "--map-current-user", "--keep-caps"] };
        command.args(whose);
        command
    };
    let tried = mount(folder.path(), uid);
    let may = inside().arg(tried.get_program()).args(tried.get_args()).output();
    if !may.is_ok_and(|tried| tried.status.success()) {
        println!("{test}: this system lets nobody mount a file system in a namespace of his own");
        return None;
    }
    let ran = inside()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROOM, folder.path())
        .status()
        .unwrap();
    assert!(ran.success(), "{test} failed in its room");
    None
}

/// Ticks are written until there is no room, which is told and changes nothing; then `make_room` is called, and it goes on.
pub fn a_full_target_is_waited_for(case: &dyn Case, make_room: impl FnOnce()) {
    let table = orders();
    let mut sink = case.claimed();
    sink.prepare(&table).unwrap();
    sink.prepare(&log()).unwrap();
    let rows =
        |tick: u64| (1..=200).map(|i| order((tick * 1000 + i) as i64, &"x".repeat(90))).collect::<Vec<_>>();
    let line = Row::pack([text("x"), Value::Int(1), Value::Double(1.0)]);
    let of = |tick| {
        let one = cdc_core::connector::TargetChange { key: line.clone(), ..upsert(&log(), tick, &line) };
        [upserts(&table, tick, &rows(tick)), batch(&log(), vec![one])]
    };
    let mut tick = 1;
    let error = loop {
        assert!(tick < 2000, "it is never full");
        match done(&mut *sink, tick, &of(tick)) {
            Ok(()) => tick += 1,
            Err(error) => break error,
        }
    };
    assert!(tick > 3, "full from the start: {error}");
    for error in [error, {
        sink.rollback();
        done(&mut *sink, tick, &of(tick)).unwrap_err()
    }] {
        let error = refused(Err::<(), _>(error), codes::TARGET_WRITE, &["full", "make room"]);
        assert!(error.is_transient(), "{error}");
    }
    sink.rollback();
    let holds = |ticks: u64| {
        let found = case
            .sql("SELECT COUNT(*), (SELECT COUNT(*) FROM log), (SELECT tick FROM _cdc_progress) FROM orders");
        assert_eq!(found, [format!("{}|{ticks}|{ticks}", ticks * 200)]);
    };
    holds(tick - 1);
    make_room();
    for tick in tick..tick + 3 {
        committed(&mut *sink, tick, &of(tick));
    }
    holds(tick + 2);
    let all: Vec<Row> = (1..tick + 3).flat_map(rows).collect();
    case.equal(&table, &all);
}
