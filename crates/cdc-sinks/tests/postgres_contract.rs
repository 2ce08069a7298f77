//! PostgreSQL keeps the contract of targets that commit exactly once.

mod common;
mod contract;

use common::postgres::{Case as Schema, Target};
use contract::{Case, Flavor, Place};
use std::path::Path;

impl Place for Target {
    fn case(&self) -> Box<dyn Case + '_> {
        Box::new(Target::case(self))
    }
}

impl Case for Schema<'_> {
    fn flavor(&self) -> Flavor {
        Flavor::Postgres
    }

    fn options(&self) -> (&'static str, Vec<(String, String)>) {
        let url = format!("postgres://127.0.0.1:{}/dw", self.port);
        let options = [("url", &*url), ("schema", &self.schema), ("user", "cdc"), ("password", "cdc")];
        ("postgres", options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    fn base(&self) -> &Path {
        Path::new(".")
    }

    fn sql(&self, sql: &str) -> Vec<String> {
        Schema::sql(self, sql)
    }
}

contract!(Target::start());

#[test]
fn the_two_zeros_are_two() {
    contract::the_two_zeros_are_two(&Target::start());
}

/// The table is in a tablespace on a file system that fills up.
#[test]
fn a_full_file_system_is_waited_for() {
    let mut target = None;
    let start = || {
        let started = Target::start();
        let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(started.server.datadir()).unwrap());
        target = Some(started);
        uid
    };
    let Some(room) = contract::small_room("a_full_file_system_is_waited_for", 6, start) else { return };
    let target = target.unwrap();
    let case = Target::case(&target);
    target.server.admin(&format!("CREATE TABLESPACE small LOCATION '{}'", room.display())).unwrap();
    target.server.admin("GRANT CREATE ON TABLESPACE small TO cdc").unwrap();
    case.sql(
        "CREATE TABLE orders (id int PRIMARY KEY USING INDEX TABLESPACE small, note text) TABLESPACE small",
    );
    let filler = room.join("filler");
    std::fs::write(&filler, vec![1; 3 << 20]).unwrap();
    contract::a_full_target_is_waited_for(&case, || std::fs::remove_file(filler).unwrap());
}
