//! A PostgreSQL server for tests of the sink: a schema for each case.

use super::{job, plan};
use cdc_core::connector::{Comparison, Sink, TargetReader, TargetTable};
use cdc_core::plan::{OptionValue, SinkPlan};
use cdc_core::{Error, Row};
use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
use std::cell::Cell;
use std::path::Path;

/// A server of this test.
pub struct Target {
    pub server: Postgres,
    cases: Cell<u32>,
}

/// A schema of it.
pub struct Case<'a> {
    pub server: &'a Postgres,
    pub schema: String,
    pub port: u16,
    more: Vec<(&'static str, String)>,
}

impl Target {
    pub fn start() -> Target {
        Target::with(PostgresOptions::default())
    }

    pub fn with(options: PostgresOptions) -> Target {
        Target { server: Postgres::start(options).unwrap(), cases: Cell::new(0) }
    }

    /// The schema that was made last.
    pub fn last(&self) -> Case<'_> {
        Case::of(&self.server, &format!("case {}", self.cases.get()))
    }

    /// A fresh schema.
    pub fn case(&self) -> Case<'_> {
        self.cases.set(self.cases.get() + 1);
        let schema = format!("case {}", self.cases.get());
        self.server.sql(&format!("CREATE SCHEMA \"{schema}\"")).unwrap();
        Case { server: &self.server, schema, port: self.server.port(), more: Vec::new() }
    }
}

impl<'a> Case<'a> {
    /// A schema that is there.
    pub fn of(server: &'a Postgres, schema: &str) -> Case<'a> {
        Case { server, schema: schema.to_owned(), port: server.port(), more: Vec::new() }
    }
}

impl Case<'_> {
    /// The same with another option.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.more.push((name, value.to_owned()));
        self
    }

    /// The same by another port: a proxy's.
    pub fn through(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    pub fn plan(&self) -> SinkPlan {
        let url = format!("postgres://127.0.0.1:{}/dw", self.port);
        let mut options = vec![("url", &*url), ("user", "cdc"), ("schema", &*self.schema)];
        options.retain(|(name, _)| self.more.iter().all(|(other, _)| other != name));
        options.extend(self.more.iter().map(|(name, value)| (*name, &**value)));
        let mut plan = plan("postgres", &options);
        let password = self.more.iter().any(|(name, _)| *name == "password" || *name == "password_file");
        if !password {
            plan.options.0.insert("password".into(), OptionValue::Secret("cdc".into()));
        }
        plan
    }

    pub fn try_sink(&self) -> Result<Box<dyn Sink>, Error> {
        cdc_sinks::open(&self.plan(), Path::new("."))
    }

    pub fn sink(&self) -> Box<dyn Sink> {
        self.try_sink().unwrap()
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

    /// Runs statements of the user; all rows, each as its values with `|` between them.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> Vec<String> {
        let sql = format!("SET search_path = \"{}\", public; {sql}", self.schema);
        rows(self.server, &sql).unwrap()
    }

    /// The columns of a table, each with its type.
    #[track_caller]
    pub fn shape(&self, table: &str) -> Vec<String> {
        self.sql(&format!(
            "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
             WHERE attrelid = '\"{table}\"'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        ))
    }

    /// The target holds these rows and no others.
    #[track_caller]
    pub fn equal(&self, table: &TargetTable, rows: &[Row]) {
        let mut reader = self.reader();
        let answers = reader.compare(table, rows).unwrap();
        assert!(answers.iter().all(|a| *a == Comparison::Equal), "{answers:?}");
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
}

/// By a connection of its own over the socket: some milliseconds, where psql takes fifty.
fn rows(server: &Postgres, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut config = tokio_postgres::Config::new();
        config.host_path(server.sockets()).port(server.port()).user("cdc").dbname("dw");
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        let mut rows = Vec::new();
        for message in client.simple_query(sql).await? {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                let values: Vec<&str> = (0..row.len()).map(|i| row.get(i).unwrap_or("NULL")).collect();
                rows.push(values.join("|"));
            }
        }
        Ok(rows)
    })
}
