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

impl contract::Server for Target {
    fn port(&self) -> u16 {
        self.server.port()
    }

    fn end(&mut self, crash: bool) {
        if crash { self.server.kill() } else { self.server.stop() }.unwrap();
    }

    fn start_again(&mut self) {
        self.server.restart().unwrap();
    }

    fn last(&self) -> Box<dyn Case + '_> {
        Box::new(Target::last(self))
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

    fn hold_orders(&self, seconds: u32) {
        Schema::sql(self, &format!("BEGIN; LOCK TABLE orders; SELECT pg_sleep({seconds}); COMMIT"));
    }

    fn read_only(&self, on: bool) {
        let on = if on { "on" } else { "off" };
        let sql = format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
        self.server
            .sql_as("postgres", "template1", &format!("SET default_transaction_read_only = off; {sql}"))
            .unwrap();
        self.server.sql_as("postgres", "template1", "SELECT pg_reload_conf()").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
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

#[test]
fn connections_that_are_cut_and_slow() {
    contract::on_the_way(&Target::start());
}

#[test]
fn a_server_that_goes_away_is_waited_for() {
    contract::a_server_that_goes_away_is_waited_for(&mut Target::start());
}
