//! Errors of PostgreSQL as errors of cdc: which come again, and what to do.
//!
//! By SQLSTATE (<https://www.postgresql.org/docs/current/errcodes-appendix.html>). What lies in the server's present
//! state passes, and is tried again: a connection that broke, a lock, a deadlock, a restart, no connection left, no
//! room, read-only. What lies in the data, the account or the tables does not.

use super::options::PostgresOptions;
use super::sql::quote;
use cdc_core::{Code, Error, codes};
use std::error::Error as _;
use tokio_postgres::error::DbError;

/// An error of the client library.
pub(crate) type Pg = tokio_postgres::Error;

/// Makes errors that name the target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Errors<'a>(pub(crate) &'a PostgresOptions);

impl Errors<'_> {
    /// The target, for the beginning of a headline.
    pub(crate) fn target(self) -> String {
        format!("postgres {}", self.0.place())
    }

    /// The error of something that was done; `code` where the error is about what was done and not about the server as
    /// a whole.
    pub(crate) fn of(self, code: Code, doing: &str, e: &Pg) -> Error {
        let target = self.target();
        let Some(db) = e.as_db_error() else { return self.lost(e).note(doing.to_owned()) };
        let message = message(e);
        let transient = |code: Code, what: &str| {
            Error::transient(code, format!("{target}: {what}")).note(format!("{doing}: {message}"))
        };
        let state = db.code().code();
        match (&state[..2], state) {
            (_, "55P03") => Error::transient(codes::TARGET_BUSY, format!("{target}: a lock is held by another session"))
                .note(format!("{doing}: waited {:?}: {message}", self.0.lock_timeout))
                .help("who holds it: SELECT pid, application_name, state, query FROM pg_stat_activity WHERE pid = ANY (SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity);"),
            (_, "40001" | "40P01") => transient(codes::TARGET_BUSY, "a deadlock with another session")
                .help("nothing was written; it is tried again"),
            ("57", "57014") => transient(codes::TARGET_BUSY, "the statement was cancelled there"),
            ("57" | "08", _) => transient(codes::TARGET_WRITE, "the server ended the connection"),
            (_, "25006") => transient(codes::TARGET_WRITE, "the server is read-only")
                .help("it is a standby, or default_transaction_read_only is on: name the primary in url, or turn it off"),
            (_, "53100") => transient(codes::TARGET_WRITE, "the disk is full").help("make room; nothing was written"),
            (_, "53300") => self.no_connection_left(&message).note(doing.to_owned()),
            ("53", _) => transient(codes::TARGET_WRITE, "the server is out of resources"),
            ("58", "58030") => transient(codes::TARGET_WRITE, "the server cannot read or write its files"),
            (_, "42501") => Error::definite(code, format!("{target}: account \"{}\" lacks a right: {message}", self.0.account()))
                .note(doing.to_owned())
                .help(self.grant(db)),
            ("23", _) => Error::definite(code, format!("{target}: {message}")).note(doing.to_owned()).help(self.unruled(db)),
            ("22" | "54", _) if code == codes::TARGET_WRITE => {
                Error::definite(codes::TARGET_VALUE, format!("{target} cannot hold a value: {message}")).note(doing.to_owned())
            }
            _ => Error::definite(code, format!("{target}: {message}")).note(doing.to_owned()),
        }
    }

    fn grant(self, db: &DbError) -> String {
        let (schema, account) = (quote(&self.0.schema), self.0.account());
        if db.message().contains("schema") {
            format!("GRANT USAGE, CREATE ON SCHEMA {schema} TO \"{account}\";")
        } else if db.message().contains("must be owner") {
            format!("ALTER TABLE .. OWNER TO \"{account}\"; only the owner of a table may change its shape")
        } else {
            format!(
                "GRANT USAGE, CREATE ON SCHEMA {schema} TO \"{account}\"; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO \"{account}\";"
            )
        }
    }

    /// A rule of the target's table refuses what the source holds.
    fn unruled(self, db: &DbError) -> String {
        let schema = quote(db.schema().unwrap_or(&self.0.schema));
        match (db.table(), db.column(), db.constraint()) {
            (Some(table), _, Some(name)) => {
                let (table, name) = (quote(table), quote(name));
                format!(
                    "the source holds such rows: ALTER TABLE {schema}.{table} DROP CONSTRAINT {name}; or, where it is an index \
                     only, DROP INDEX {schema}.{name};"
                )
            }
            (Some(table), Some(column), None) => format!(
                "the source holds such rows: ALTER TABLE {schema}.{} ALTER COLUMN {} DROP NOT NULL;",
                quote(table),
                quote(column)
            ),
            _ => {
                "the source holds such rows: drop the target's constraint, index or trigger that refuses them"
                    .to_owned()
            }
        }
    }

    /// The connection broke, or says what no server says.
    fn lost(self, e: &Pg) -> Error {
        Error::transient(codes::TARGET_WRITE, format!("{}: the connection was lost", self.target()))
            .note(message(e))
    }

    fn no_connection_left(self, message: &str) -> Error {
        Error::transient(codes::TARGET_BUSY, format!("{} has no connection left", self.target()))
            .note(message.to_owned())
            .help("end sessions that nobody needs, or raise max_connections (ALTER ROLE .. CONNECTION LIMIT for the account)")
    }

    /// No connection came about.
    pub(crate) fn connecting(self, e: &Pg) -> Error {
        let target = self.target();
        let message = message(e);
        let tls = e.source().and_then(|s| s.downcast_ref::<std::io::Error>());
        let tls = tls
            .and_then(|io| io.get_ref())
            .and_then(|inner| inner.downcast_ref::<tokio_rustls::rustls::Error>());
        if let Some(why) = tls {
            let error =
                Error::definite(codes::TLS_FAILED, format!("secure connection to {target} failed: {why}"));
            // an alert is what the server says of us
            if self.0.tls_cert.is_some() && matches!(why, tokio_rustls::rustls::Error::AlertReceived(_)) {
                return error.help("the authority that signed tls_cert must be in the server's ssl_ca_file, and the certificate must be valid today");
            }
            return error.help("tls_ca names the authority that signed the server's certificate, and url a host that stands in it");
        }
        let Some(db) = e.as_db_error() else {
            let text = e.to_string();
            if text.contains("TLS") {
                return Error::definite(
                    codes::TLS_FAILED,
                    format!("{target} offers no TLS, and tls = {} needs it", self.0.tls),
                )
                .help("turn ssl on in its postgresql.conf, or write tls = preferred where nobody else is on the way");
            }
            if text.contains("authentication") || text.contains("configuration") {
                return self
                    .refused(&message)
                    .help("give the sink a password: password = \"${PG_PASSWORD}\"");
            }
            return Error::transient(codes::TARGET_OPEN, format!("{target} cannot be reached: {message}"))
                .help("check that the server runs and that url names its host and port");
        };
        let account = self.0.account();
        match db.code().code() {
            "28P01" | "28000" if message.contains("encryption") || message.contains("SSL") => self
                .refused(&message)
                .help("pg_hba.conf lets this account in under another tls only, or not at all"),
            "28P01" | "28000" if message.contains("certificate") => self
                .refused(&message)
                .help("pg_hba.conf asks this account for a certificate: tls_cert and tls_key; with the method cert its common name is the account's"),
            "28P01" => self
                .refused(&message)
                .help(format!("check user and password, or: ALTER ROLE \"{account}\" PASSWORD '..';")),
            "28000" => self
                .refused(&message)
                .help(format!("CREATE ROLE \"{account}\" LOGIN PASSWORD '..'; and let it in by pg_hba.conf")),
            "3D000" => Error::definite(codes::TARGET_OPEN, format!("{target} cannot be opened: {message}"))
                .help(format!("CREATE DATABASE {} OWNER \"{account}\";", quote(&self.0.database))),
            "42501" => self
                .refused(&message)
                .help(format!("GRANT CONNECT ON DATABASE {} TO \"{account}\";", quote(&self.0.database))),
            "53300" => self.no_connection_left(&message),
            // it starts, it stops, it recovers
            state if state.starts_with("57") || state.starts_with("08") || state.starts_with("53") => {
                Error::transient(codes::TARGET_OPEN, format!("{target} takes no connections now: {message}"))
            }
            _ => self.cannot_open(&message),
        }
    }

    fn refused(self, message: &str) -> Error {
        // the server's message names the account
        let said = if self.0.secret_user { String::new() } else { format!(": {message}") };
        Error::definite(
            codes::ACCESS_DENIED,
            format!("{} refuses account \"{}\"{said}", self.target(), self.0.account()),
        )
    }

    pub(crate) fn no_answer(self) -> Error {
        Error::transient(
            codes::TARGET_OPEN,
            format!("{} did not answer within {:?}", self.target(), self.0.connect_timeout),
        )
        .help("check that the server runs and that url names its host and port, or raise connect_timeout")
    }

    pub(crate) fn cannot_open(self, message: &str) -> Error {
        Error::definite(codes::TARGET_OPEN, format!("{} cannot be opened: {message}", self.target()))
    }
}

/// The server's message with its detail; else what the library and the system say.
pub(crate) fn message(e: &Pg) -> String {
    match e.as_db_error() {
        Some(db) => match db.detail() {
            Some(detail) => format!("{} ({detail})", db.message()),
            None => db.message().to_owned(),
        },
        None => match e.source() {
            Some(source) => format!("{e}: {source}"),
            None => e.to_string(),
        },
    }
}

/// Is this the error of that SQLSTATE?
pub(crate) fn is_state(e: &Pg, state: &str) -> bool {
    e.code().is_some_and(|code| code.code() == state)
}

/// True if the server has answered, so that the connection lives on.
pub(crate) fn is_answer(e: &Pg) -> bool {
    // the severities FATAL and PANIC end the session
    e.as_db_error().is_some_and(|db| db.severity() == "ERROR" || !matches!(db.severity(), "FATAL" | "PANIC"))
}
