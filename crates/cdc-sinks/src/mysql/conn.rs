//! A connection to the target, and the session that it has.
//!
//! The sink is called from one thread and answers when it is done, so the asynchronous client runs on a runtime
//! of its own, on the caller's thread, for as long as a call takes. (Where that thread is a
//! runtime's already, as in `cdc verify`, it waits for another one: a runtime within a runtime is forbidden.)
//!
//! Nothing of the session is left to the server's or the account's defaults:
//!
//! * `sql_mode`: `STRICT_ALL_TABLES`, so that what does not fit is an error and not a shorter value;
//!   `NO_AUTO_VALUE_ON_ZERO`, so that a 0 in a user's AUTO_INCREMENT column stays 0; `ALLOW_INVALID_DATES`, and
//!   neither `NO_ZERO_DATE` nor `NO_ZERO_IN_DATE`, since the source may hold 0000-00-00 and 2024-02-30;
//!   `NO_ENGINE_SUBSTITUTION`; no `ANSI_QUOTES`, no `NO_BACKSLASH_ESCAPES`: see `sql.rs`.
//! * `time_zone = '+00:00'`: a TIMESTAMP is written as its digits in UTC.
//! * `NAMES utf8mb4`; READ COMMITTED, so that no gaps are locked; `foreign_key_checks = 0`, since the source has
//!   checked them and tables fill side by side; `unique_checks` stay on.
//! * time-outs: long for the network (a slow source holds a transaction open), short for locks, which are
//!   reported and tried again.

use super::options::{MysqlOptions, Named, Tls};
use super::silence::{Patience, Watch};
use super::sql;
use super::types::Dialect;
use cdc_core::panics::caught_async;
use cdc_core::{Code, Error, Result, codes, greeting};
use mysql_async::prelude::Queryable;
use mysql_async::{ClientIdentity, Conn, DriverError, IoError, OptsBuilder, ServerError, SslOpts};
use std::any::Any;
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::panic::resume_unwind;
use std::sync::{Once, mpsc};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// How a session is made strict.
pub(crate) const STRICT: &str =
    "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'";

/// The same, not strict: for an ENUM's invalid value, which a strict session refuses.
pub(crate) const NOT_STRICT: &str = "'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION'";

/// What the account needs at the target's database.
pub(crate) const RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX";

/// Seconds that a statement waits for rows or a table that somebody else holds.
pub(crate) const LOCK_SECONDS: u32 = 5;

/// A row of an answer: bytes or NULL.
pub(crate) type Given = Vec<Option<Vec<u8>>>;

/// A connection.
pub(crate) struct Link {
    /// `None` only in its end.
    runtime: Option<Runtime>,
    /// `None` once it is lost.
    conn: Option<Conn>,
    patience: Patience,
    /// Its number at the server.
    pub(crate) id: u32,
    pub(crate) dialect: Dialect,
    /// Bytes of a statement, less some for what is around it.
    pub(crate) packet: usize,
}

impl Link {
    /// Opens a connection and makes its session. `again`: the target is one that was there.
    pub(crate) fn open(options: &MysqlOptions, again: bool) -> Result<Link> {
        let secure = secure(options)?;
        let opts = opts(options)?;
        let errors = Errors(options);
        let timeout = options.connect_timeout;
        let no_runtime =
            |why: &str| Error::transient(codes::TARGET_OPEN, format!("{}: no runtime{why}", options.place()));
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        // from here on it is a link's, which knows where a runtime may end
        let mut link = Link {
            runtime: Some(runtime.map_err(|e| no_runtime(&format!(": {e}")))?),
            id: 0,
            conn: None,
            patience: Patience::Within(timeout),
            dialect: Dialect::default(),
            packet: 1 << 20,
        };
        let runtime = link.runtime.as_ref().ok_or_else(|| no_runtime(""))?;
        // the library panics on an RSA key into which the password does not fit, and on methods it does not know
        let try_once = |opts: OptsBuilder| {
            beside(|| {
                runtime.block_on(caught_async(async { tokio::time::timeout(timeout, Conn::new(opts)).await }))
            })
            .map_err(|panic| errors.panicked(&*panic))
        };
        // and it may spoil a login
        let connect = |opts: OptsBuilder| {
            let mut opened = try_once(opts.clone())?;
            for _ in 1..greeting::LOGINS {
                if !matches!(&opened, Ok(Err(mysql_async::Error::Server(e))) if e.code == 1045)
                    || !is_mariadb(options)
                {
                    break;
                }
                opened = try_once(opts.clone())?;
            }
            Ok::<_, Error>(opened)
        };
        let is_secure = secure.is_some();
        let mut used = opts.clone().ssl_opts(secure);
        let mut opened = connect(used.clone())?;
        if options.tls == Tls::Preferred
            && is_secure
            && matches!(opened, Ok(Err(mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer))))
        {
            used = opts.clone();
            opened = connect(opts)?;
        }
        let conn = opened
            .map_err(|_| {
                Error::transient(
                    codes::TARGET_OPEN,
                    format!("{} did not answer within {timeout:?}", options.place()),
                )
                .help("check that the server runs and that url names its host and port, or raise connect_timeout")
            })?
            .map_err(|e| {
                let error = errors.connecting(&e);
                // it may be away for a moment, but not be named wrong, where it was there before
                if !again && is_no_host(&e) { error.into_definite() } else { error }
            })?;
        link.id = conn.id();
        link.conn = Some(conn);
        link.begin_session(errors)?;
        link.patience = Patience::Watched(Box::new(Watch {
            opts: used,
            id: link.id,
            answer: options.answer_timeout,
            connect: timeout,
        }));
        Ok(link)
    }

    fn begin_session(&mut self, errors: Errors<'_>) -> Result<()> {
        let failed = |e: &mysql_async::Error| errors.of(codes::TARGET_OPEN, "beginning a session", e);
        let row = self
            .rows("SELECT VERSION(), @@version_comment, @@max_allowed_packet, CONNECTION_ID()")
            .map_err(|e| failed(&e))?;
        let texts: Vec<String> = row
            .into_iter()
            .next()
            .unwrap_or_default()
            .into_iter()
            .map(|v| String::from_utf8_lossy(&v.unwrap_or_default()).into_owned())
            .collect();
        let [version, comment, packet, id] = &texts[..] else {
            return Err(errors.not_understood("who it is"));
        };
        let mariadb = version.contains("MariaDB") || comment.to_ascii_lowercase().contains("mariadb");
        self.dialect.mariadb = mariadb;
        self.dialect.number = version_number(version);
        // proxies count connections of their own
        self.id = id.parse().unwrap_or(self.id);
        let packet: usize = packet.parse().unwrap_or(1 << 20);
        self.packet = packet.saturating_sub(1024).max(1024);
        let more = if mariadb {
            // a list of keys is looked up in the index, not made into a table
            ", in_predicate_conversion_threshold = 0, max_statement_time = 0, \
             idle_transaction_timeout = 0, idle_write_transaction_timeout = 0"
        } else {
            ", max_execution_time = 0"
        };
        self.run(format!(
            "SET SESSION sql_mode = {STRICT}, time_zone = '+00:00', sql_select_limit = 18446744073709551615, completion_type = 0, \
             foreign_key_checks = 0, unique_checks = 1, autocommit = 1, wait_timeout = 86400, \
             net_read_timeout = 3600, net_write_timeout = 3600, \
             innodb_lock_wait_timeout = {LOCK_SECONDS}, lock_wait_timeout = {LOCK_SECONDS}{more}"
        ))
        .map_err(|e| failed(&e))?;
        for setting in ["SET NAMES utf8mb4", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"] {
            self.run(setting).map_err(|e| failed(&e))?;
        }
        let collations = if mariadb {
            "SELECT FULL_COLLATION_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY \
             WHERE CHARACTER_SET_NAME = 'utf8mb4'"
        } else {
            "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE CHARACTER_SET_NAME = 'utf8mb4'"
        };
        self.dialect.collations = self
            .texts(collations)
            .map_err(|e| failed(&e))?
            .into_iter()
            .map(|row| row.concat().to_ascii_lowercase())
            .collect::<HashSet<_>>();
        Ok(())
    }

    /// True once nothing more can be asked on it.
    pub(crate) fn is_lost(&self) -> bool {
        self.conn.is_none()
    }

    /// Ends the connection without a word: whatever is open at the server is rolled back there.
    pub(crate) fn abandon(&mut self) {
        if let Some(conn) = self.conn.take() {
            // without a runtime around it the library only closes the socket; within another one it would go on there
            beside(move || drop(conn));
        }
    }

    /// Runs a statement that gives no rows; how many rows it has found, whether it changed them or not.
    pub(crate) fn run(&mut self, sql: impl AsRef<[u8]>) -> mysql_async::Result<u64> {
        self.run_warned(sql).map(|(rows, _)| rows)
    }

    /// The same, with the number of warnings.
    pub(crate) fn run_warned(&mut self, sql: impl AsRef<[u8]>) -> mysql_async::Result<(u64, u16)> {
        let sql = sql.as_ref();
        if sql.len() > self.packet {
            // the server would end the connection over it
            return Err(mysql_async::Error::Driver(DriverError::PacketTooLarge));
        }
        self.ask(sql.len(), async |conn| {
            conn.query_drop(sql).await?;
            Ok((conn.affected_rows(), conn.get_warnings()))
        })
    }

    /// All rows of a statement.
    pub(crate) fn rows(&mut self, sql: impl AsRef<[u8]>) -> mysql_async::Result<Vec<Given>> {
        let mut rows = Vec::new();
        self.each(sql, &mut |row| {
            rows.push(row);
            true
        })?;
        Ok(rows)
    }

    /// All rows of a statement as texts, NULL as the empty one.
    pub(crate) fn texts(&mut self, sql: impl AsRef<[u8]>) -> mysql_async::Result<Vec<Vec<String>>> {
        let text = |v: Option<Vec<u8>>| String::from_utf8_lossy(&v.unwrap_or_default()).into_owned();
        Ok(self.rows(sql)?.into_iter().map(|row| row.into_iter().map(text).collect()).collect())
    }

    /// Gives out rows one by one; when told `false` the connection is ended, for the server would send the rest.
    pub(crate) fn each(
        &mut self,
        sql: impl AsRef<[u8]>,
        each: &mut dyn FnMut(Given) -> bool,
    ) -> mysql_async::Result<()> {
        let sql = sql.as_ref();
        let stopped = if Handle::try_current().is_err() {
            self.ask_here(sql, each)?
        } else {
            // the rows come over to this thread, to which `each` belongs
            let (Some(conn), Some(runtime)) = (&mut self.conn, &self.runtime) else { return Err(closed()) };
            let patience = &self.patience;
            let (to, rows) = mpsc::sync_channel::<Given>(64);
            let result = thread::scope(|scope| {
                let reading = scope.spawn(move || {
                    runtime.block_on(stream(conn, sql, patience, &mut |row| to.send(row).is_ok()))
                });
                let stopped = !rows.iter().all(&mut *each);
                drop(rows);
                joined(reading.join()).map(|left| left || stopped)
            });
            self.ended(&result);
            result?
        };
        if stopped {
            self.abandon();
        }
        Ok(())
    }

    /// Asks with so many bytes.
    fn ask<T: Send>(
        &mut self,
        bytes: usize,
        ask: impl AsyncFnOnce(&mut Conn) -> mysql_async::Result<T> + Send,
    ) -> mysql_async::Result<T> {
        let (Some(conn), Some(runtime)) = (&mut self.conn, &self.runtime) else { return Err(closed()) };
        let patience = &self.patience;
        let result = beside(|| runtime.block_on(patience.wait(bytes, ask(conn))));
        self.ended(&result);
        result
    }

    /// Gives out rows on this thread and no other.
    fn ask_here(&mut self, sql: &[u8], each: &mut dyn FnMut(Given) -> bool) -> mysql_async::Result<bool> {
        let (Some(conn), Some(runtime)) = (&mut self.conn, &self.runtime) else { return Err(closed()) };
        let result = runtime.block_on(stream(conn, sql, &self.patience, each));
        self.ended(&result);
        result
    }

    fn ended<T>(&mut self, result: &mysql_async::Result<T>) {
        if result.as_ref().is_err_and(ends_connection) {
            self.abandon();
        }
    }
}

fn is_no_host(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Io(IoError::Io(io)) if greeting::is_no_host(&io.to_string()))
}

fn closed() -> mysql_async::Error {
    mysql_async::Error::Driver(DriverError::ConnectionClosed)
}

/// Gives out rows until told `false`; true if there may be more.
async fn stream(
    conn: &mut Conn,
    sql: &[u8],
    patience: &Patience,
    each: &mut dyn FnMut(Given) -> bool,
) -> mysql_async::Result<bool> {
    let mut result = patience.wait(sql.len(), conn.query_iter(sql)).await?;
    while let Some(row) = patience.wait(0, result.next()).await? {
        let values = row.unwrap().into_iter().map(|value| match value {
            mysql_async::Value::NULL => None,
            mysql_async::Value::Bytes(bytes) => Some(bytes),
            // a text protocol gives nothing else
            other => Some(other.as_sql(true).into_bytes()),
        });
        if !each(values.collect()) {
            return Ok(true);
        }
    }
    patience.wait(0, result.drop_result()).await?;
    Ok(false)
}

/// Does something on this thread, or where that is a runtime's on another one.
fn beside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if Handle::try_current().is_err() {
        return work();
    }
    thread::scope(|scope| joined(scope.spawn(work).join()))
}

/// A panic on another thread is one on this.
fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

impl Drop for Link {
    /// Says goodbye, so that the server does not count an aborted client.
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let conn = self.conn.take();
        beside(|| {
            if let Some(conn) = conn.filter(|_| !thread::panicking()) {
                runtime.block_on(async {
                    let goodbye = tokio::time::timeout(Duration::from_secs(1), conn.disconnect());
                    // a connection that cannot be ended well ends with its socket
                    drop(goodbye.await);
                });
            }
            drop(runtime);
        });
    }
}

/// `8.4.3`, `10.11.19-MariaDB`, `5.5.5-10.11.19-MariaDB` as 80403, 101119.
fn version_number(version: &str) -> u32 {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0).min(99);
    next() * 10_000 + next() * 100 + next()
}

/// After which errors is there no connection any more?
fn ends_connection(error: &mysql_async::Error) -> bool {
    match error {
        mysql_async::Error::Server(e) => {
            matches!(e.code, 1053 | 1077 | 1079 | 1080 | 1152..=1161 | 1927 | 3169 | 4031)
        }
        // found before anything was sent
        mysql_async::Error::Driver(DriverError::PacketTooLarge) => false,
        _ => true,
    }
}

fn opts(options: &MysqlOptions) -> Result<OptsBuilder> {
    let password = match &options.password_file {
        None => options.password.clone(),
        Some(file) => {
            let text = String::from_utf8(read(file, "password_file")?).map_err(|_| {
                Error::definite(
                    codes::FILE_NOT_TEXT,
                    format!("file {file} of option \"password_file\" is not UTF-8 text"),
                )
                .help("it holds the password, and at most a newline after it")
            })?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            Some(line.strip_suffix('\r').unwrap_or(line).to_owned())
        }
    };
    let mut opts = OptsBuilder::default()
        .ip_or_hostname(options.host.clone())
        .tcp_port(options.port)
        .user(Some(options.user.clone()))
        .pass(password)
        .db_name(Some(options.database.clone()))
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        // rows that a statement finds count, also where they are as it would make them
        .client_found_rows(true)
        .stmt_cache_size(0);
    if let Some(socket) = &options.socket {
        opts = opts.socket(Some(socket.path.to_string_lossy().into_owned()));
    }
    Ok(opts)
}

fn is_mariadb(options: &MysqlOptions) -> bool {
    let socket = options.socket.as_ref().map(|socket| &*socket.path);
    greeting::is_mariadb(socket, &options.host, options.port, options.connect_timeout)
}

/// The host under which `verify-ca` asks: no host is named like this (RFC 2606), and the library passes over a
/// wrong name only where the error's text holds these words.
const ANY_HOST: &str = "NotValidForName.invalid";

fn secure(options: &MysqlOptions) -> Result<Option<SslOpts>> {
    if options.tls == Tls::Disabled || options.socket.is_some() {
        return Ok(None);
    }
    // else a second provider that some other crate builds in would leave the choice open, and that is a panic
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // the program has chosen another, which will do
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut secure = SslOpts::default();
    if let Some(file) = &options.tls_ca {
        let pem = read(file, "tls_ca")?;
        secure = secure.with_root_certs(vec![pem.into()]).with_disable_built_in_roots(true);
    }
    if let (Some(cert), Some(key)) = (&options.tls_cert, &options.tls_key) {
        let (cert, key) = (read(cert, "tls_cert")?, read(key, "tls_key")?);
        secure = secure.with_client_identity(Some(ClientIdentity::new(cert.into(), key.into())));
    }
    Ok(Some(match options.tls {
        Tls::Disabled | Tls::Preferred | Tls::Required => secure.with_danger_accept_invalid_certs(true),
        Tls::VerifyCa => {
            secure.with_danger_skip_domain_validation(true).with_danger_tls_hostname_override(Some(ANY_HOST))
        }
        Tls::VerifyIdentity => secure,
    }))
}

/// A small file.
fn read(file: &Named, option: &str) -> Result<Vec<u8>> {
    const MOST_BYTES: u64 = 1 << 20;
    let unreadable = |why: String| {
        Error::definite(
            codes::FILE_UNREADABLE,
            format!("file {file} of option \"{option}\" cannot be read: {why}"),
        )
        .help("relative paths are from the folder of the pipeline file")
    };
    match std::fs::metadata(&file.path) {
        Err(e) => return Err(unreadable(e.to_string())),
        // to open a pipe that nobody writes to would wait
        Ok(meta) if !meta.is_file() => return Err(unreadable("it is no regular file".into())),
        Ok(meta) if meta.len() > MOST_BYTES => return Err(unreadable("it is larger than 1 MB".into())),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(&file.path)
        .and_then(|opened| opened.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(|e| unreadable(e.to_string()))?;
    Ok(bytes)
}

/// Makes errors that name the target.
#[derive(Clone, Copy)]
pub(crate) struct Errors<'a>(pub(crate) &'a MysqlOptions);

impl Errors<'_> {
    /// The error of something that was done; `code` where it is about what was done and not about the server as a
    /// whole.
    pub(crate) fn of(self, code: Code, doing: &str, e: &mysql_async::Error) -> Error {
        let place = self.0.place();
        match e {
            mysql_async::Error::Server(e) => self.server(code, doing, e),
            mysql_async::Error::Driver(DriverError::PacketTooLarge) => self.too_large(doing),
            _ => Error::transient(
                codes::TARGET_OPEN,
                format!("{place}: the connection was lost{}", self.why(e)),
            )
            .note(doing.to_owned())
            .help("it is opened again; see the server's error log if it does not come back"),
        }
    }

    fn too_large(self, doing: &str) -> Error {
        Error::definite(
            codes::TARGET_VALUE,
            format!("{}: a row is larger than the server takes in one statement", self.0.place()),
        )
        .note(doing.to_owned())
        .help(
            "SET GLOBAL max_allowed_packet = 1073741824; at the target, or leave the column out of the flow",
        )
    }

    fn server(self, code: Code, doing: &str, e: &ServerError) -> Error {
        let place = self.0.place();
        let said = format!("{place}: {} (error {})", e.message, e.code);
        let note = doing.to_owned();
        match e.code {
            1205 => Error::transient(
                codes::TARGET_BUSY,
                format!("{place}: rows or a table are locked by another transaction"),
            )
            .note(format!("{doing}: waited {LOCK_SECONDS} s: {}", e.message))
            .help("end the other transaction: see information_schema.INNODB_TRX"),
            1213 | 3058 => {
                Error::transient(codes::TARGET_BUSY, format!("{place}: a deadlock with another transaction"))
                    .note(note)
            }
            1040 | 1203 | 1226 => Error::transient(codes::TARGET_OPEN, said)
                .note(note)
                .help("too many connections: raise max_connections, or the account's limit"),
            1053 | 1077 | 1079 | 1080 | 1152..=1161 | 1317 | 1927 | 3024 | 3169 | 4031 if e.code != 1153 => {
                Error::transient(codes::TARGET_OPEN, said).note(note)
            }
            1153 => self.too_large(doing),
            1290 | 1792 | 1836 | 3100 | 3101 => Error::transient(codes::TARGET_WRITE, said)
                .note(note)
                .help("the server is read-only: SET GLOBAL read_only = OFF; nothing was written"),
            1021 | 1114 | 1041 | 1037 | 1038 | 1206 => Error::transient(codes::TARGET_WRITE, said)
                .note(note)
                .help("make room at the server; nothing was written"),
            1030 if e.message.contains("28") => Error::transient(codes::TARGET_WRITE, said)
                .note(note)
                .help("the disk is full: make room; nothing was written"),
            1044 | 1142 | 1143 | 1227 | 1370 => {
                Error::definite(codes::GRANT_MISSING, said).note(note).help(format!(
                    "GRANT {RIGHTS} ON {}.* TO '{}'@'%'",
                    sql::quote(&self.0.database),
                    self.0.account()
                ))
            }
            1049 => Error::definite(codes::TARGET_OPEN, said)
                .note(note)
                .help(format!("CREATE DATABASE {};", sql::quote(&self.0.database))),
            1264 | 1265 | 1292 | 1366 | 1367 | 1406 | 1411 | 1416 | 1525 | 3140 | 3141 | 3157 | 3643
            | 3616 | 4078 | 6138 | 6136 => Error::definite(codes::TARGET_VALUE, said)
                .note(note)
                .help("leave the column out of the flow, or compute another value for it: select .. as .."),
            // NULL where it may not be, a check, a foreign key, a trigger
            1048 | 1364 | 1216 | 1217 | 1451 | 1452 | 1644 | 1761 | 3819 | 4025 => {
                Error::definite(code, said).note(note).help(
                    "a rule of the target's table refuses a row that the source holds: SHOW CREATE TABLE and SHOW TRIGGERS \
                     at the target tell which; drop it there",
                )
            }
            _ => Error::definite(code, said).note(note),
        }
    }

    fn connecting(self, e: &mysql_async::Error) -> Error {
        let (place, account) = (self.0.place(), self.0.account());
        match e {
            mysql_async::Error::Server(e) => match e.code {
                1044 | 1045 | 1129 | 1130 | 1251 | 1698 | 1820 | 1862 | 3118 | 3955 | 4150 | 4151 => {
                    // the server's message names account and host
                    let said =
                        if self.0.account() == "***" { String::new() } else { format!(": {}", e.message) };
                    Error::definite(
                        codes::ACCESS_DENIED,
                        format!("{place} refuses account \"{account}\"{said}"),
                    )
                    .help(self.account_help())
                }
                3159 => {
                    Error::definite(codes::TLS_FAILED, format!("{place} refuses connections without TLS"))
                        .help("write tls = verify-identity with tls_ca, or at least tls = required")
                }
                _ => self.server(codes::TARGET_OPEN, "connecting", e),
            },
            mysql_async::Error::Driver(DriverError::NoClientSslFlagFromServer) => Error::definite(
                codes::TLS_FAILED,
                format!("{place} offers no TLS, and tls = {} needs it", self.0.tls),
            )
            .help("give the server a certificate, or write tls = preferred where nobody else is on the way"),
            mysql_async::Error::Driver(DriverError::UnknownAuthPlugin { name }) => self.no_method(name),
            mysql_async::Error::Driver(DriverError::CleartextPluginDisabled) => {
                self.no_method("mysql_clear_password")
            }
            mysql_async::Error::Driver(DriverError::MysqlOldPasswordDisabled) => {
                self.no_method("mysql_old_password")
            }
            mysql_async::Error::Io(IoError::Tls(_)) => self.tls(e),
            mysql_async::Error::Io(IoError::Io(io))
                if io.get_ref().is_some_and(|e| e.downcast_ref::<rustls::Error>().is_some()) =>
            {
                self.tls(e)
            }
            _ => Error::transient(codes::TARGET_OPEN, format!("no connection to {place}{}", self.why(e)))
                .help(match &self.0.socket {
                    Some(_) => "check that the server runs on this machine and that socket is its @@socket",
                    None => "check that the server runs and that url names its host and port",
                }),
        }
    }

    /// The server asks for a method that is not built. So does one that does not have the account: it draws a method by the
    /// name, so that accounts cannot be guessed.
    fn no_method(self, name: &str) -> Error {
        let (place, account) = (self.0.place(), self.0.account());
        let error = Error::definite(
            codes::ACCESS_DENIED,
            format!(
                "{place} does not let account \"{account}\" in by a method that is built: it asks for {name}"
            ),
        )
        .note("a server answers so for an account that it does not have, too")
        .help(self.account_help());
        // methods that only a MariaDB has
        if ["parsec", "dialog", "auth_gssapi_client"].contains(&name) {
            return error
                .help(format!("or ALTER USER '{account}'@'%' IDENTIFIED VIA ed25519 USING PASSWORD('..')"));
        }
        error.help(format!("or ALTER USER '{account}'@'%' IDENTIFIED WITH caching_sha2_password BY '..'"))
    }

    /// The library panics where a MariaDB asks for `parsec`, and where the server's RSA key is none or the password does not fit
    /// into it.
    fn panicked(self, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        if text.contains("response for `parsec`") {
            return self.no_method("parsec");
        }
        let place = self.0.place();
        Error::definite(
            codes::TLS_FAILED,
            format!(
                "the password cannot be sent to {place} without TLS: the server's RSA key cannot hold it"
            ),
        )
        .help("write tls = required, or give the account a password of at most 213 bytes")
    }

    fn account_help(self) -> String {
        let account = self.0.account();
        format!(
            "check user and password of the sink, or: CREATE USER '{account}'@'%' IDENTIFIED BY '..'; \
             GRANT {RIGHTS} ON {}.* TO '{account}'@'%'",
            sql::quote(&self.0.database)
        )
    }

    fn tls(self, e: &mysql_async::Error) -> Error {
        Error::definite(
            codes::TLS_FAILED,
            format!("secure connection to {} failed{}", self.0.place(), self.why(e)),
        )
        .help("tls_ca names the authority that signed the server's certificate; see @@ssl_ca at the server")
    }

    fn why(self, e: &mysql_async::Error) -> String {
        match e {
            mysql_async::Error::Io(IoError::Io(io)) if io.raw_os_error().is_some() => format!(": {io}"),
            mysql_async::Error::Io(IoError::Io(io)) if io.kind() == std::io::ErrorKind::UnexpectedEof => {
                ": it ended without a word".to_owned()
            }
            // our own words
            mysql_async::Error::Io(IoError::Io(io)) if io.kind() == std::io::ErrorKind::TimedOut => {
                format!(": {io}")
            }
            mysql_async::Error::Driver(e) => format!(": {e}"),
            other if self.0.shows_place() => format!(": {other}"),
            _ => String::new(),
        }
    }

    pub(crate) fn not_understood(self, what: &str) -> Error {
        Error::definite(
            codes::TARGET_OPEN,
            format!("{} gave no answer that can be read: {what}", self.0.place()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version_number("9.7.4"), 90_704);
        assert_eq!(version_number("10.11.19-MariaDB-log"), 101_119);
        assert_eq!(version_number("5.5.5-11.8.9-MariaDB"), 110_809);
    }
}
