//! SQLite keeps the contract of targets that commit exactly once.

mod common;
mod contract;

use contract::{Case, Flavor, Place};
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};

/// Each target is a file in a folder of its own.
struct Files;

struct File(Folder);

enum Folder {
    Own(TempDir),
    Of(PathBuf),
}

impl Place for Files {
    fn case(&self) -> Box<dyn Case + '_> {
        Box::new(File(Folder::Own(tempdir().unwrap())))
    }
}

impl Case for File {
    fn flavor(&self) -> Flavor {
        Flavor::Sqlite
    }

    fn options(&self) -> (&'static str, Vec<(String, String)>) {
        ("sqlite", vec![("path".into(), "dw.db".into())])
    }

    fn base(&self) -> &Path {
        match &self.0 {
            Folder::Own(folder) => folder.path(),
            Folder::Of(path) => path,
        }
    }

    fn hold_orders(&self, seconds: u32) {
        let db = common::user(self.base());
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(seconds.into()));
        db.execute_batch("COMMIT").unwrap();
    }

    fn sql(&self, sql: &str) -> Vec<String> {
        let db = common::user(self.base());
        db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let reads = sql.trim_start().starts_with("SELECT");
        if reads {
            return common::query(self.base(), sql);
        }
        db.execute_batch(sql).unwrap();
        Vec::new()
    }
}

contract!(Files);

#[test]
fn the_two_zeros_are_two() {
    contract::the_two_zeros_are_two(&Files);
}

#[test]
fn a_full_file_system_is_waited_for() {
    let uid = || std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    let Some(room) = contract::small_room("a_full_file_system_is_waited_for", 6, uid) else { return };
    let filler = room.join("filler");
    std::fs::write(&filler, vec![1; 3 << 20]).unwrap();
    contract::a_full_target_is_waited_for(&File(Folder::Of(room)), || std::fs::remove_file(filler).unwrap());
}
