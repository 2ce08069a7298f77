//! MySQL and MariaDB keep the contract of targets that commit exactly once.

mod common;
mod contract;
#[path = "common/mysql.rs"]
mod target;

use cdc_testkit::servers::{Server, ServerOptions};
use contract::{Case, Flavor, Place, Server as _};
use std::cell::Cell;
use std::path::Path;
use target::Target;

/// A server; each target is a database of it.
struct Databases {
    server: Server,
    count: Cell<u32>,
}

impl Databases {
    fn start() -> Databases {
        Databases { server: target::start(), count: Cell::new(0) }
    }
}

struct Database<'s>(Target<'s>);

impl Place for Databases {
    fn case(&self) -> Box<dyn Case + '_> {
        self.count.set(self.count.get() + 1);
        self.last()
    }
}

impl contract::Server for Databases {
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
        // a name that would do harm where names are not quoted
        let name = format!("a`; DROP DATABASE x; --é{}", self.count.get());
        Box::new(Database(Target::new(&self.server, &name)))
    }
}

impl Case for Database<'_> {
    fn flavor(&self) -> Flavor {
        if self.0.server.kind().is_mariadb() { Flavor::MariaDb } else { Flavor::Mysql }
    }

    fn options(&self) -> (&'static str, Vec<(String, String)>) {
        let url = format!("mysql://127.0.0.1:{}", self.0.server.port());
        let options =
            [("url", &*url), ("database", &self.0.database), ("user", "dw"), ("password", "secret")];
        ("mysql", options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    fn base(&self) -> &Path {
        Path::new(".")
    }

    fn hold_orders(&self, seconds: u32) {
        let held = "UPDATE orders SET note = 'held' WHERE id = 1";
        self.0.run(&format!("START TRANSACTION; {held}; DO SLEEP({seconds}); ROLLBACK"));
    }

    fn read_only(&self, on: bool) {
        self.0.run(&format!("SET GLOBAL read_only = {}", if on { "ON" } else { "OFF" }));
    }

    fn sql(&self, sql: &str) -> Vec<String> {
        self.0.run(sql)
    }
}

contract!(Databases::start());

/// All tables are in one tablespace, which has a largest size.
#[test]
fn a_full_tablespace_is_waited_for() {
    let options = ServerOptions::of_this_run()
        .with("--innodb-file-per-table=OFF")
        .with("--innodb-data-file-path=ibdata1:12M:autoextend:max:24M");
    let databases = Databases { server: Server::start(options).unwrap(), count: Cell::new(0) };
    let case = databases.case();
    case.sql("CREATE TABLE filler (id INT AUTO_INCREMENT PRIMARY KEY, x LONGTEXT)");
    case.sql("INSERT INTO filler (x) VALUES (REPEAT('x', 4000000))");
    contract::a_full_target_is_waited_for(&*case, || {
        case.sql("DROP TABLE filler");
    });
}

#[test]
fn connections_that_are_cut_and_slow() {
    contract::on_the_way(&Databases::start());
}

#[test]
fn a_server_that_goes_away_is_waited_for() {
    contract::a_server_that_goes_away_is_waited_for(&mut Databases::start());
}
