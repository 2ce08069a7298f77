//! What every target promises that commits exactly once: one suite. `sqlite_contract`, `live_mysql_contract` (MySQL and
//! MariaDB) and `postgres_contract` run it, each saying how such a target is opened and how its user speaks to it ([`Case`]). What
//! only one of them has is in files of its own.
#![allow(dead_code, unused_imports, reason = "each target runs what it has")]

mod faults;
mod full;
mod keyed;
mod multiset;
mod part;
mod told;

use crate::common::*;
use cdc_core::connector::{Comparison, Sink, TargetBatch, TargetReader, TargetSchemaChange, TargetTable};
use cdc_core::plan::SinkPlan;
use cdc_core::schema::{Column, ColumnType};
use cdc_core::tick::Tick;
use cdc_core::{Error, Row};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where targets are made.
pub trait Place {
    /// An empty target.
    fn case(&self) -> Box<dyn Case + '_>;
}

/// Which target it is, where the words of a test differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    Sqlite,
    Mysql,
    MariaDb,
    Postgres,
}

/// A target, and its user.
pub trait Case: Sync {
    fn flavor(&self) -> Flavor;
    /// Connector and options, all of them texts.
    fn options(&self) -> (&'static str, Vec<(String, String)>);
    /// The folder that paths are relative to.
    fn base(&self) -> &Path;
    /// Runs statements of the user, who may do anything; all rows, each as its values with `|` between them.
    fn sql(&self, sql: &str) -> Vec<String>;

    /// Holds the rows of `orders` for so long, in a transaction of the user.
    fn hold_orders(&self, seconds: u32);
    /// Lets nobody write any more, or everybody again.
    fn read_only(&self, on: bool) {
        let _ = on;
    }

    fn plan(&self) -> SinkPlan {
        self.plan_with(&[])
    }

    fn plan_with(&self, more: &[(&str, &str)]) -> SinkPlan {
        let (connector, options) = self.options();
        let all: Vec<(&str, &str)> =
            options.iter().map(|(n, v)| (&**n, &**v)).chain(more.iter().copied()).collect();
        plan(connector, &all)
    }
}

impl dyn Case + '_ {
    pub fn sink(&self) -> Box<dyn Sink> {
        cdc_sinks::open(&self.plan(), self.base()).unwrap()
    }

    pub fn claimed(&self) -> Box<dyn Sink> {
        let mut sink = self.sink();
        sink.inspect(&job("run 1")).unwrap();
        sink.claim(&job("run 1")).unwrap();
        sink
    }

    /// A sink with these rows, committed at tick 1.
    pub fn filled(&self, table: &Arc<TargetTable>, rows: &[Row]) -> Box<dyn Sink> {
        let mut sink = self.claimed();
        done(&mut *sink, 1, &[upserts(table, 1, rows)]).unwrap();
        sink
    }

    pub fn reader(&self) -> Box<dyn TargetReader> {
        cdc_sinks::reader(&self.plan(), self.base()).unwrap().unwrap()
    }

    /// The target holds these rows and no others.
    #[track_caller]
    pub fn equal(&self, table: &TargetTable, rows: &[Row]) {
        let mut reader = self.reader();
        let answers = reader.compare(table, rows).unwrap();
        assert!(answers.iter().all(|a| *a == Comparison::Equal), "{answers:#?}");
        assert_eq!(reader.count(table).unwrap(), rows.len() as u64);
        let mut wanted: Vec<Vec<u8>> = rows.iter().map(|r| reader.encode_key(table, r)).collect();
        let mut found = Vec::new();
        reader
            .scan_keys(table, &mut |key, _| {
                found.push(key);
                true
            })
            .unwrap();
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted);
    }

    /// The rows of a statement, each once, with how many there are of it behind it.
    pub fn counted(&self, sql: &str) -> Vec<String> {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        self.sql(sql).into_iter().for_each(|row| *counts.entry(row).or_default() += 1);
        counts.into_iter().map(|(row, n)| format!("{row}|{n}")).collect()
    }

    /// Notes each write to `orders` in `writes`, in the words of [`wrote`].
    pub fn count_writes(&self) {
        self.sql(match self.flavor() {
            Flavor::Sqlite => {
                "CREATE TABLE writes (id INT, what TEXT);
                 CREATE TRIGGER i AFTER INSERT ON orders BEGIN INSERT INTO writes VALUES (new.id, 'INSERT'); END;
                 CREATE TRIGGER u AFTER UPDATE ON orders BEGIN INSERT INTO writes VALUES (new.id, 'UPDATE'); END;
                 CREATE TRIGGER d AFTER DELETE ON orders BEGIN INSERT INTO writes VALUES (old.id, 'DELETE'); END;"
            }
            Flavor::Mysql | Flavor::MariaDb => {
                "CREATE TABLE writes (id INT, what VARCHAR(9));
                 CREATE TRIGGER i AFTER INSERT ON orders FOR EACH ROW INSERT INTO writes VALUES (NEW.id, 'INSERT');
                 CREATE TRIGGER u AFTER UPDATE ON orders FOR EACH ROW INSERT INTO writes VALUES (NEW.id, 'UPDATE');
                 CREATE TRIGGER d AFTER DELETE ON orders FOR EACH ROW INSERT INTO writes VALUES (OLD.id, 'DELETE');"
            }
            Flavor::Postgres => {
                "CREATE TABLE writes (id int, what text);
                 CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     INSERT INTO writes VALUES (coalesce(new.id, old.id), tg_op); RETURN NULL; END $$;
                 ALTER FUNCTION note() SET search_path FROM CURRENT;
                 CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW EXECUTE FUNCTION note()"
            }
        });
    }
}

/// What the committer does: after a transient error all of it again. How often.
#[track_caller]
pub fn committed(sink: &mut dyn Sink, tick: Tick, batches: &[TargetBatch]) -> u32 {
    let mut again = 0;
    while let Err(error) = done(sink, tick, batches) {
        assert!(error.is_transient() && again < 50, "{error}");
        sink.rollback();
        again += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    again
}

fn double() -> ColumnType {
    ColumnType::Double { unsigned: false }
}

/// `log (line VARCHAR, n INT, x DOUBLE)`, nothing of it NOT NULL or unique.
pub fn log() -> Arc<TargetTable> {
    let columns = vec![Column::new("line", varchar()), Column::new("n", int()), Column::new("x", double())];
    table("log", columns, &[])
}

/// `(k, v)` by k.
fn pairs(ty: ColumnType) -> Arc<TargetTable> {
    table("t", vec![Column::new("k", ty).not_null(), Column::new("v", int())], &[0])
}

fn drop_orders() -> TargetSchemaChange {
    TargetSchemaChange::DropTable { table: "orders".into() }
}

/// The tests of the suite, for a target: `$place` makes a [`Place`]. Several promises share one, since a server takes its time to start.
#[macro_export]
macro_rules! contract {
    ($place:expr) => {
        #[test]
        fn commits_fencing_and_rows_by_their_keys() {
            let place = $place;
            $crate::contract::commits(&place);
            $crate::contract::keys(&place);
        }

        #[test]
        fn tables_that_are_there_and_rows_of_several_sources() {
            let place = $place;
            $crate::contract::tables(&place);
            $crate::contract::several_sources(&place);
        }

        #[test]
        fn case_29_updates_in_part_and_rows_without_a_key() {
            let place = $place;
            $crate::contract::parts(&place);
            $crate::contract::multisets(&place);
        }

        #[test]
        fn a_target_that_is_locked_or_read_only_is_tried_again() {
            $crate::contract::a_target_that_is_locked_or_read_only_is_tried_again(&$place);
        }

        /// Run as a process of its own, to be killed.
        #[test]
        #[ignore = "run by a_process_killed_at_any_instant_leaves_whole_ticks"]
        fn victim() {
            $crate::contract::run_victim();
        }

        #[test]
        fn a_process_killed_at_any_instant_leaves_whole_ticks() {
            $crate::contract::killed_at_any_instant(&$place);
        }
    };
}

pub use faults::{
    Server, a_server_that_goes_away_is_waited_for, a_target_that_is_locked_or_read_only_is_tried_again,
    on_the_way,
};
pub use full::{a_full_target_is_waited_for, small_room};
pub use keyed::{commits, keys, killed_at_any_instant, run_victim, tables};
pub use multiset::{multisets, the_two_zeros_are_two};
pub use part::parts;
pub use told::several_sources;
