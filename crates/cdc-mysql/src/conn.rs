//! Connections: opening them, the session they run in, and what their errors mean.
//!
//! Every session reads with `character_set_results = NULL` (text comes in the column's own character set, as
//! it is in the log), in UTC, and under our own `sql_mode`, so that nothing of the server's or account's
//! defaults changes a value.

mod tls;

use crate::config::{Config, Tls};
use cdc_core::panics::caught_async;
use cdc_core::{Error, Result, codes, greeting};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, IoError, OptsBuilder};
use std::any::Any;
use std::io::ErrorKind;
use std::time::Duration;

/// What every session begins with. The time-outs let a server wait for us while our targets are slow. Keys may hold dates that
/// are none; a limit of rows that an account or a server sets would cut a copy short in silence.
const SESSION: &[&str] = &["SET SESSION character_set_results = NULL, time_zone = '+00:00', \
     sql_mode = 'ALLOW_INVALID_DATES', sql_select_limit = 18446744073709551615, \
     net_write_timeout = 3600, net_read_timeout = 3600"];

/// Opens a connection, the same way for every use: over TCP or the socket, secured as `tls` says.
///
/// # Errors
/// Definite: `ACCESS_DENIED`, `TLS_FAILED`, `FILE_UNREADABLE`, `OPTION_VALUE`. Transient: `CONNECT_FAILED`, also
/// when it takes longer than `connect_timeout`, at whatever step.
pub async fn connect(config: &Config) -> Result<Conn> {
    connect_once(config, true).await
}

/// `again`: the server is one that was there.
async fn connect_once(config: &Config, again: bool) -> Result<Conn> {
    config.ensure_connectable()?;
    let secure = tls::options(config)?;
    let password = password(config)?;
    let mut opts = OptsBuilder::default()
        .ip_or_hostname(config.host.clone())
        .tcp_port(config.port)
        .user(Some(config.user.clone()))
        .pass(password.clone())
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        // events are larger than the server's own limit of a statement: two images of a row
        .max_allowed_packet(Some(1 << 30))
        // Each chunk has a statement of its own. The library closes statements only when they leave its cache: with
        // none they would pile up at the server, up to its limit for all clients.
        .stmt_cache_size(1)
        .setup(SESSION.iter().map(ToString::to_string).collect::<Vec<_>>());
    if let Some(socket) = &config.socket {
        opts = opts.socket(Some(socket.path.to_string_lossy().into_owned()));
    }
    let place = config.place();
    let fits = config.socket.is_some() || password.is_none_or(|p| p.len() <= LONGEST_WITHOUT_TLS);
    let opening = async {
        let mut is_secure = secure.is_some();
        if !is_secure && !fits {
            return Err(not_sendable(&place));
        }
        let mut opened = open(opts.clone().ssl_opts(secure), config).await;
        // said before anything secret was sent
        if config.tls == Tls::Preferred
            && matches!(opened, Ok(Err(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer))))
        {
            if !fits {
                return Err(not_sendable(&place));
            }
            is_secure = false;
            opened = open(opts, config).await;
        }
        match opened {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => {
                let shown = connect_error(&error, config, &place, is_secure);
                Err(if !again && is_no_host(&error) { shown.into_definite() } else { shown })
            }
            Err(panic) if says(&*panic, PARSEC) => Err(method_not_built("parsec", &place, config.account())),
            Err(_panic) => Err(not_sendable(&place)),
        }
    };
    tokio::time::timeout(config.connect_timeout, opening).await.unwrap_or_else(|_| {
        Err(Error::transient(
            codes::CONNECT_FAILED,
            format!("server at {place} did not answer within {:?}", config.connect_timeout),
        )
        .help("check that the server runs and that url names its host and port, or raise connect_timeout"))
    })
}

/// As [`connect`], for the first connection of a run or a look: a host that no name server knows is named wrong, and not away.
///
/// # Errors
/// As [`connect`]; such a host is a definite `CONNECT_FAILED`.
pub async fn connect_first(config: &Config) -> Result<Conn> {
    connect_once(config, false).await
}

/// Bytes of a password that go into the RSA key of 2048 bits that servers make for themselves: 256 less OAEP's 42
/// and the final zero. A longer one would do while the server's cache is warm, and no more after its next start.
const LONGEST_WITHOUT_TLS: usize = 213;

fn not_sendable(place: &str) -> Error {
    Error::definite(
        codes::TLS_FAILED,
        format!("the password cannot be sent to server at {place} without TLS: the server's RSA key cannot hold it"),
    )
    .help(format!("write tls = required, or give the account a password of at most {LONGEST_WITHOUT_TLS} bytes"))
}

/// What the library panics with where a MariaDB asks for `parsec`, which it is built without.
const PARSEC: &str = "response for `parsec`";

fn says(panic: &(dyn Any + Send), part: &str) -> bool {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).is_some_and(|text| text.contains(part))
}

/// The library panics on an RSA key that is none, or into which the password does not fit, and where it is asked for
/// `parsec`: here that is a result. And it may spoil a login: see [`greeting`].
async fn open(opts: OptsBuilder, config: &Config) -> std::thread::Result<mysql_async::Result<Conn>> {
    let mut opened = caught_async(Conn::new(opts.clone())).await;
    for _ in 1..greeting::LOGINS {
        if !matches!(&opened, Ok(Err(mysql_async::Error::Server(e))) if e.code == 1045)
            || !is_mariadb(config).await
        {
            break;
        }
        opened = caught_async(Conn::new(opts.clone())).await;
    }
    opened
}

async fn is_mariadb(config: &Config) -> bool {
    let socket = config.socket.as_ref().map(|socket| socket.path.clone());
    let (host, port, wait) = (config.host.clone(), config.port, config.connect_timeout);
    let asking =
        tokio::task::spawn_blocking(move || greeting::is_mariadb(socket.as_deref(), &host, port, wait));
    asking.await.unwrap_or(false)
}

fn password(config: &Config) -> Result<Option<String>> {
    let Some(file) = &config.password_file else { return Ok(config.password.clone()) };
    let text = String::from_utf8(tls::read(file, "password_file")?).map_err(|_| {
        Error::definite(
            codes::FILE_NOT_TEXT,
            format!("file {file} of option \"password_file\" is not UTF-8 text"),
        )
        .help("it holds the password, and at most a newline after it")
    })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

fn connect_error(error: &mysql_async::Error, config: &Config, place: &str, is_secure: bool) -> Error {
    if let Some(error) = tls::failed(error, config, place) {
        return error;
    }
    let account = config.account();
    match error {
        mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => {
            tls::not_offered(place, config.tls)
        }
        mysql_async::Error::Server(e) => match e.code {
            // require_secure_transport
            3159 => tls::needed(place, config.tls),
            // account or password wrong, locked, expired; its host not allowed, blocked; the last two are MariaDB's
            1044 | 1045 | 1129 | 1130 | 1251 | 1698 | 1820 | 1862 | 3118 | 3955 | 4150 | 4151 => {
                // the server's message names account and host
                let said = if config.secret_user { String::new() } else { format!(": {}", e.message) };
                let headline = format!("server at {place} refuses account \"{account}\"{said}");
                let error = Error::definite(codes::ACCESS_DENIED, headline).help(account_help(account));
                // the server says the same of an account whose REQUIRE is not met
                if config.socket.is_some() || is_secure && config.tls_cert.is_some() {
                    error
                } else if is_secure {
                    error.help("an account that REQUIREs X509 needs tls_cert and tls_key")
                } else if config.tls == Tls::Disabled {
                    // MariaDB 10.11 says the same where require_secure_transport is on
                    error.help("an account or a server that REQUIREs SSL needs tls = required")
                } else {
                    error.help("an account that REQUIREs SSL needs TLS, which the server does not offer")
                }
            }
            _ => server_error(e, "connecting"),
        },
        // also what a server says of an account that it does not have: it draws a method for it by its name, so
        // that accounts cannot be guessed (sql/auth/sql_authentication.cc, decoy_user)
        mysql_async::Error::Driver(DriverError::UnknownAuthPlugin { name }) => {
            method_not_built(name, place, account)
        }
        mysql_async::Error::Driver(DriverError::CleartextPluginDisabled) => {
            method_not_built("mysql_clear_password", place, account)
        }
        mysql_async::Error::Driver(DriverError::MysqlOldPasswordDisabled) => {
            method_not_built("mysql_old_password", place, account)
        }
        mysql_async::Error::Driver(DriverError::UnexpectedPacket { payload })
            if next_method(payload).is_some() =>
        {
            let next = next_method(payload).unwrap_or_default();
            let headline = format!(
                "server at {place} refuses account \"{account}\" by its first method of several, and asks for {next}"
            );
            Error::definite(codes::ACCESS_DENIED, headline)
                .note("only the first method that the server asks for is built")
                .help(account_help(account))
        }
        other => {
            let headline = format!("no connection to {place}{}", why(other, config));
            let error = if comes_again(other) {
                Error::definite(codes::CONNECT_FAILED, headline)
            } else {
                Error::transient(codes::CONNECT_FAILED, headline)
            };
            let error = if is_gibberish(other) {
                error.note("what answers there may not be a MySQL server")
            } else {
                error
            };
            error.help(match &config.socket {
                Some(_) => "check that the server runs on this machine and that socket is its @@socket",
                None => "check that the server runs and that url names its host and port",
            })
        }
    }
}

/// A socket that we may not use, or whose path is too long.
fn comes_again(error: &mysql_async::Error) -> bool {
    let mysql_async::Error::Io(IoError::Io(io)) = error else { return false };
    matches!(io.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput)
}

fn is_no_host(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Io(IoError::Io(io)) if greeting::is_no_host(&io.to_string()))
}

/// What came makes no sense as packets of a server.
fn is_gibberish(error: &mysql_async::Error) -> bool {
    match error {
        mysql_async::Error::Driver(e) => !matches!(e, DriverError::ConnectionClosed),
        mysql_async::Error::Io(IoError::Io(io)) => {
            matches!(io.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::Other)
        }
        _ => false,
    }
}

/// What the operating system says holds no address; what else is said may.
fn why(error: &mysql_async::Error, config: &Config) -> String {
    match error {
        mysql_async::Error::Io(IoError::Io(io)) if io.raw_os_error().is_some() => format!(": {io}"),
        mysql_async::Error::Driver(e) => format!(": {e}"),
        mysql_async::Error::Io(IoError::Io(io)) if !config.secret_place => format!(": {io}"),
        other if !config.secret_place => format!(": {other}"),
        _ => String::new(),
    }
}

/// Methods that only a MariaDB asks for.
const OF_MARIADB: &[&str] = &["parsec", "dialog", "auth_gssapi_client"];

/// An account of MariaDB may have several methods, of which the server asks for one after the other: the name of the
/// next, if this is the packet that asks for it.
fn next_method(payload: &[u8]) -> Option<&str> {
    let name = payload.strip_prefix(&[0xfe])?.split(|&b| b == 0).next()?;
    std::str::from_utf8(name)
        .ok()
        .filter(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

fn method_not_built(name: &str, place: &str, account: &str) -> Error {
    let error = Error::definite(
        codes::ACCESS_DENIED,
        format!(
            "server at {place} does not let account \"{account}\" in by a method that is built: it asks for {name}"
        ),
    );
    if OF_MARIADB.contains(&name) {
        return error.help(format!("ALTER USER '{account}'@'%' IDENTIFIED VIA ed25519 USING PASSWORD('..')"));
    }
    error
        .note("a server answers so for an account that it does not have, too")
        .help(format!("ALTER USER '{account}'@'%' IDENTIFIED WITH caching_sha2_password BY '..'"))
        .help(account_help(account))
}

fn account_help(account: &str) -> String {
    format!(
        "check user and password of the source, or: CREATE USER '{account}'@'%' IDENTIFIED BY '..'; \
         GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{account}'@'%'"
    )
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
        1040 | 1053 | 1205 | 1213 | 1317 | 1927 | 2006 | 2013 | 3169 | 3024 | 4031 => {
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
