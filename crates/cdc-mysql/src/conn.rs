//! Connections: opening them, the session they run in, and what their errors mean.
//!
//! Every session reads with `character_set_results = NULL` (text comes in the column's own character set, as
//! it is in the log), in UTC, and under our own `sql_mode`, so that nothing of the server's or account's
//! defaults changes a value.

use crate::config::Config;
use cdc_core::{Error, Result, codes};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use std::time::Duration;

/// What every session begins with. The time-outs let a server wait for us while our targets are slow.
const SESSION: &[&str] = &["SET SESSION character_set_results = NULL, time_zone = '+00:00', sql_mode = '', \
     net_write_timeout = 3600, net_read_timeout = 3600"];

/// Opens a connection.
///
/// # Errors
/// `ACCESS_DENIED` (definite), `CONNECT_FAILED` (transient).
pub async fn connect(config: &Config) -> Result<Conn> {
    let opts = OptsBuilder::default()
        .ip_or_hostname(config.host.clone())
        .tcp_port(config.port)
        .user(Some(config.user.clone()))
        .pass(config.password.clone())
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        .stmt_cache_size(0)
        .setup(SESSION.iter().map(ToString::to_string).collect::<Vec<_>>());
    let place = config.place();
    match tokio::time::timeout(config.connect_timeout, Conn::new(opts)).await {
        Err(_) => Err(Error::transient(
            codes::CONNECT_FAILED,
            format!("server at {place} did not answer within {:?}", config.connect_timeout),
        )),
        Ok(Ok(conn)) => Ok(conn),
        Ok(Err(error)) => Err(connect_error(error, config, &place)),
    }
}

fn connect_error(error: mysql_async::Error, config: &Config, place: &str) -> Error {
    match &error {
        mysql_async::Error::Server(e) if matches!(e.code, 1045 | 1044 | 1698 | 1251 | 1862 | 3118) => {
            // the server's message names account and host
            let said = if config.secret_user { String::new() } else { format!(": {}", e.message) };
            let account = config.account();
            Error::definite(
                codes::ACCESS_DENIED,
                format!("server at {place} refuses account \"{account}\"{said}"),
            )
            .help(format!(
                "check user and password of the source, or: CREATE USER '{account}'@'%' IDENTIFIED BY '..'; \
                 GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{account}'@'%'"
            ))
        }
        mysql_async::Error::Server(e) => server_error(e, "connecting"),
        other => {
            let why = if config.secret_place { String::new() } else { format!(": {other}") };
            Error::transient(codes::CONNECT_FAILED, format!("no connection to {place}{why}"))
        }
        .help("check that the server runs and that url names its host and port"),
    }
}

/// What a failed query means. `doing` completes "while ..".
pub fn query_error(error: mysql_async::Error, doing: &str) -> Error {
    match error {
        mysql_async::Error::Server(e) => server_error(&e, doing),
        other => Error::transient(codes::SERVER_LOST, format!("connection lost while {doing}: {other}")),
    }
}

fn server_error(e: &mysql_async::ServerError, doing: &str) -> Error {
    let headline = format!("server error {} while {doing}: {}", e.code, e.message);
    match e.code {
        // too many connections, shutdown, lock wait, deadlock, killed: another try may succeed
        1040 | 1053 | 1205 | 1213 | 1317 | 1927 | 2006 | 2013 | 3159 | 3024 | 4031 => {
            Error::transient(codes::SERVER_ERROR, headline)
        }
        1044 | 1142 | 1143 | 1227 => Error::definite(codes::GRANT_MISSING, headline),
        _ => Error::definite(codes::SERVER_ERROR, headline).note(format!("code {}", e.code)),
    }
}

/// The server's error number, if the error is the server's.
pub fn server_code(error: &mysql_async::Error) -> Option<u16> {
    match error {
        mysql_async::Error::Server(e) => Some(e.code),
        _ => None,
    }
}

/// One value of one row.
pub(crate) async fn query_value<T: mysql_async::prelude::FromValue + Send + 'static>(
    conn: &mut Conn,
    sql: &str,
    doing: &str,
) -> Result<Option<T>> {
    let row: Option<mysql_async::Row> = conn.query_first(sql).await.map_err(|e| query_error(e, doing))?;
    match row.and_then(|mut row| row.take::<mysql_async::Value, _>(0)) {
        None | Some(mysql_async::Value::NULL) => Ok(None),
        Some(value) => mysql_async::from_value_opt(value).map(Some).map_err(|e| {
            Error::definite(
                codes::SERVER_ERROR,
                format!("unexpected answer of the server while {doing}: {e}"),
            )
        }),
    }
}
