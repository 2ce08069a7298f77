//! A MySQL or MariaDB server as a target.
#![allow(dead_code)]

use super::common::{binding, job, plan};
use cdc_core::Row;
use cdc_core::connector::{Comparison, Sink, TargetReader, TargetTable};
use cdc_core::plan::{OptionValue, SinkPlan};
use cdc_testkit::servers::{Server, ServerOptions};
use std::path::Path;

/// The server of this run.
pub fn start() -> Server {
    Server::start(ServerOptions::of_this_run()).unwrap()
}

/// A database of a server, with an account that may do in it what a sink does, and nothing else.
pub struct Target<'s> {
    pub server: &'s Server,
    pub database: String,
    port: u16,
}

impl<'s> Target<'s> {
    pub fn new(server: &'s Server, database: &str) -> Target<'s> {
        let user = if server.kind().is_mariadb() {
            "CREATE USER IF NOT EXISTS dw@'%' IDENTIFIED BY 'secret'"
        } else {
            "CREATE USER IF NOT EXISTS dw@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'"
        };
        let named = database.replace('`', "``");
        server
            .sql(&format!(
                "CREATE DATABASE IF NOT EXISTS `{named}`; {user};
                 GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX ON `{named}`.* TO dw@'%'"
            ))
            .unwrap();
        Target { server, database: database.to_owned(), port: server.port() }
    }

    /// The same, by way of another port.
    pub fn by(&self, port: u16) -> Target<'s> {
        Target { server: self.server, database: self.database.clone(), port }
    }

    pub fn plan(&self) -> SinkPlan {
        let url = format!("mysql://127.0.0.1:{}", self.port);
        let mut plan = plan(
            "mysql",
            &[("url", &url), ("database", &self.database), ("user", "dw"), ("tls", "preferred")],
        );
        plan.options.0.insert("password".into(), OptionValue::Secret("secret".into()));
        plan
    }

    pub fn sink(&self) -> Box<dyn Sink> {
        cdc_sinks::open(&self.plan(), Path::new(".")).unwrap()
    }

    pub fn claimed(&self) -> Box<dyn Sink> {
        let mut sink = self.sink();
        sink.inspect(&job("run 1")).unwrap();
        sink.claim(&job("run 1")).unwrap();
        sink
    }

    pub fn reader(&self) -> Box<dyn TargetReader> {
        cdc_sinks::reader(&self.plan(), Path::new(".")).unwrap().unwrap()
    }

    /// Runs statements as the user, who may do anything.
    pub fn run(&self, sql: &str) -> Vec<String> {
        let before = format!(
            "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'; USE `{}`;\n",
            self.database.replace('`', "``")
        );
        let text = self.server.sql(&format!("{before}{sql}")).unwrap();
        text.lines().map(|line| line.replace('\t', "|")).collect()
    }

    /// Are exactly these rows in a table?
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

    /// A sink with these rows, committed at tick 1.
    pub fn filled(&self, table: &std::sync::Arc<TargetTable>, rows: &[Row]) -> Box<dyn Sink> {
        let mut sink = self.claimed();
        sink.prepare(table).unwrap();
        sink.write(&super::common::upserts(table, 1, rows)).unwrap();
        sink.commit(1, &binding(1)).unwrap();
        sink
    }
}
