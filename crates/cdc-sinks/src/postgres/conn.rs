//! The connection to the server.
//!
//! The client library is asynchronous and `Sink` is not. So each connection is driven by a small runtime on a thread
//! of its own, and a caller waits with its own thread parked. (A runtime inside the caller's thread would forbid
//! callers that have one already, and would serve the connection only during calls.) The thread ends with its
//! connection.
//!
//! A session begins with settings that decide how values read and print: what the server, the database or the account
//! has for defaults changes no value. They are set after the login and not in it, which poolers refuse. GMT, not UTC:
//! the server knows it without files of time zones.

use super::error::{Errors, Pg, message};
use super::options::{PostgresOptions, Tls};
use super::silence::{Patience, Watch};
use super::sql::{literal, quote};
use super::tls;
use crate::silence::Looks;
use cdc_core::greeting::is_no_host;
use cdc_core::{Error, Result, codes};
use futures_util::SinkExt;
use futures_util::future::{AbortHandle, abortable};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, Statement};

/// What no password file is larger than.
const MOST_BYTES: u64 = 1 << 20;

/// Bytes of a message of COPY: each is handed from thread to thread, so not too few.
const COPY_BYTES: usize = 512 << 10;

/// A row of texts, as the simple protocol gives it.
pub(crate) type TextRow = Vec<Option<String>>;

/// An open connection.
pub(crate) struct Conn {
    client: Client,
    /// Lets go of the socket.
    hang_up: AbortHandle,
    patience: Patience,
    /// The account may make temporary tables.
    pub(crate) can_stage: bool,
}

/// A parameter in the binary form of its type.
#[derive(Debug)]
pub(crate) struct Raw<'a>(pub(crate) &'a [u8]);

impl ToSql for Raw<'_> {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

impl Conn {
    /// Opens a connection and sets its session up. `again`: the target is one that was there.
    ///
    /// # Errors
    /// `TARGET_OPEN`, `ACCESS_DENIED`, `TLS_FAILED`, `FILE_UNREADABLE`, `TARGET_BUSY` (no connection left).
    pub(crate) fn open(options: &PostgresOptions, again: bool) -> Result<Conn> {
        let errors = Errors(options);
        let conn = Conn::reach(options).map_err(|opening| match opening {
            Opening::Failed(error) => {
                let shown = errors.connecting(&error);
                // it may be away for a moment, but not be named wrong, where it was there before
                if !again && is_no_host(&message(&error)) { shown.into_definite() } else { shown }
            }
            Opening::Late => errors.no_answer(),
            Opening::Thread(error) => errors.cannot_open(&error.to_string()),
            Opening::Options(error) => error,
        })?;
        conn.begin_session(options)
    }

    /// Opens a connection, and nothing more.
    pub(crate) fn reach(options: &PostgresOptions) -> std::result::Result<Conn, Opening> {
        let config = config(options).map_err(Opening::Options)?;
        let tls = tls::connector(options).map_err(Opening::Options)?;
        let timeout = options.connect_timeout;
        let (sender, opened) = std::sync::mpsc::channel();
        let drive = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    drop(sender.send(Err(Opening::Thread(error))));
                    return;
                }
            };
            runtime.block_on(async {
                let connecting = async {
                    match tls {
                        Some(tls) => config.connect(tls).await.map(|(client, c)| (client, Either::Tls(c))),
                        None => config.connect(NoTls).await.map(|(client, c)| (client, Either::Plain(c))),
                    }
                };
                match tokio::time::timeout(timeout, connecting).await {
                    Ok(Ok((client, connection))) => {
                        let (driven, hang_up) = abortable(async move {
                            // what it fails with is told to whoever waits for an answer
                            match connection {
                                Either::Tls(connection) => drop(connection.await),
                                Either::Plain(connection) => drop(connection.await),
                            }
                        });
                        if sender.send(Ok((client, hang_up))).is_err() {
                            return;
                        }
                        let _ = driven.await;
                    }
                    Ok(Err(error)) => drop(sender.send(Err(Opening::Failed(error)))),
                    Err(_) => drop(sender.send(Err(Opening::Late))),
                }
            });
        };
        thread::Builder::new().name("postgres".into()).spawn(drive).map_err(Opening::Thread)?;
        let ended = |_| Opening::Thread(std::io::Error::other("its thread ended"));
        let (client, hang_up) = opened.recv().map_err(ended)??;
        Ok(Conn { client, hang_up, patience: Patience::Within(timeout), can_stage: false })
    }

    fn begin_session(mut self, options: &PostgresOptions) -> Result<Conn> {
        let errors = Errors(options);
        let conn = &mut self;
        let rows = conn
            .rows(&session(options))
            .map_err(|e| errors.of(codes::TARGET_OPEN, "setting the session up", &e))?;
        let text = |i: usize| rows.last().and_then(|r| r.get(i)?.as_deref()).unwrap_or_default();
        conn.can_stage = text(0) == "t";
        if let Ok(pid) = text(3).parse() {
            conn.patience = Patience::Watched(Box::new(Watch { options: options.clone(), pid }));
        }
        if text(1) != "UTF8" {
            return Err(Error::definite(
                codes::TARGET_OPEN,
                format!("{}: the database holds texts as {}, not as UTF-8", errors.target(), text(1)),
            )
            .note("not every text of the source could be stored")
            .help("CREATE DATABASE .. ENCODING 'UTF8' TEMPLATE template0; and name it in url"));
        }
        if text(2) != "t" {
            return Err(Error::definite(
                codes::TARGET_OPEN,
                format!(
                    "{}: schema \"{}\" is not there, or not for this account",
                    errors.target(),
                    options.schema
                ),
            )
            .help(format!(
                "CREATE SCHEMA {0}; or GRANT USAGE, CREATE ON SCHEMA {0} TO ..; or write schema = \"..\"",
                quote(&options.schema)
            )));
        }
        Ok(self)
    }

    /// True if the connection is known to have ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs statements; the rows of all of them.
    pub(crate) fn rows(&self, sql: &str) -> std::result::Result<Vec<TextRow>, Pg> {
        Ok(self.simple(sql)?.0)
    }

    /// Runs statements; the number of rows that the last one touched.
    pub(crate) fn run(&self, sql: &str) -> std::result::Result<u64, Pg> {
        Ok(self.simple(sql)?.1)
    }

    fn simple(&self, sql: &str) -> std::result::Result<(Vec<TextRow>, u64), Pg> {
        let (mut rows, mut touched) = (Vec::new(), 0);
        for message in self.wait(sql.len(), self.client.simple_query(sql))? {
            match message {
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect());
                }
                SimpleQueryMessage::CommandComplete(n) => touched = n,
                _ => {}
            }
        }
        Ok((rows, touched))
    }

    /// Gives the rows of a statement one by one, none of them held; stops when told `false`.
    pub(crate) fn each(
        &self,
        sql: &str,
        mut each: impl FnMut(&[Option<&str>]) -> bool,
    ) -> std::result::Result<(), Pg> {
        use futures_util::StreamExt;
        let mut stream = pin!(self.wait(sql.len(), self.client.simple_query_raw(sql))?);
        let mut more = true;
        // to its end in any case: the answer has to be read
        while let Some(message) = self.wait(0, stream.next()) {
            if let SimpleQueryMessage::Row(row) = message?
                && more
            {
                let values: Vec<Option<&str>> = (0..row.len()).map(|i| row.get(i)).collect();
                more = each(&values);
            }
        }
        Ok(())
    }

    pub(crate) fn prepare(&self, sql: &str, types: &[Type]) -> std::result::Result<Statement, Pg> {
        self.wait(sql.len(), self.client.prepare_typed(sql, types))
    }

    /// Runs a prepared statement; the number of rows that it touched.
    pub(crate) fn execute(&self, statement: &Statement, values: &[Raw<'_>]) -> std::result::Result<u64, Pg> {
        let bytes = values.iter().map(|v| v.0.len()).sum();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as _).collect();
        self.wait(bytes, self.client.execute(statement, &values))
    }

    /// Runs a prepared statement and gives its rows.
    pub(crate) fn query(
        &self,
        statement: &Statement,
        values: &[Raw<'_>],
    ) -> std::result::Result<Vec<tokio_postgres::Row>, Pg> {
        let bytes = values.iter().map(|v| v.0.len()).sum();
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as _).collect();
        self.wait(bytes, self.client.query(statement, &values))
    }

    /// Runs a COPY .. FROM STDIN; `next` appends rows to a buffer until it says that there are no more, or `None`: then
    /// the COPY, and with it the transaction, is given up.
    pub(crate) fn copy_in(
        &self,
        sql: &str,
        mut next: impl FnMut(&mut Vec<u8>) -> Option<bool>,
    ) -> std::result::Result<u64, Pg> {
        self.wait(COPY_BYTES, async {
            let mut sink = pin!(self.client.copy_in::<_, bytes::Bytes>(sql).await?);
            let mut more = true;
            while more {
                let mut buffer = Vec::with_capacity(COPY_BYTES + COPY_BYTES / 4);
                while more && buffer.len() < COPY_BYTES {
                    match next(&mut buffer) {
                        Some(answer) => more = answer,
                        None => return Ok(0),
                    }
                }
                if sink.send(buffer.into()).await.is_err() {
                    // the server has said why, in the answer
                    break;
                }
            }
            sink.finish().await
        })
    }

    /// Waits for an answer to so many bytes, with the thread parked; where none comes the connection is given up, and that is the
    /// answer.
    fn wait<F: Future>(&self, bytes: usize, future: F) -> F::Output {
        struct Unpark(Thread, AtomicBool);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.1.store(true, Ordering::Release);
                self.0.unpark();
            }
        }
        let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
        let waker = Waker::from(unpark.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        let mut most = self.patience.most(bytes);
        let mut looks = Looks::default();
        let mut over = false;
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            if over {
                // polled once more behind the look
                self.hang_up.abort();
            }
            let since = Instant::now();
            loop {
                if unpark.1.swap(false, Ordering::AcqRel) {
                    break;
                }
                let left = most.saturating_sub(since.elapsed());
                if left.is_zero() && !over {
                    over = self.patience.is_over(&mut looks);
                    most = self.patience.most(0);
                    break;
                }
                // after a hang-up the end is told soon; looked after all the same
                thread::park_timeout(if over { Duration::from_millis(100) } else { left });
                if over {
                    break;
                }
            }
        }
    }
}

enum Either<A, B> {
    Tls(A),
    Plain(B),
}

/// Why no connection came.
pub(crate) enum Opening {
    Failed(Pg),
    Late,
    Thread(std::io::Error),
    Options(Error),
}

impl Opening {
    /// Did the server answer?
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Opening::Failed(error) if error.as_db_error().is_some())
    }
}

/// What every session begins with, and what it is asked. Statements are planned anew for their values: a plan that was
/// made when the table was empty would read all of it for each key, for ever. Rows are found by keys, whose index is at hand: with a
/// page out of order at the price of four, the default, deleting 2,000 keys reads all of a table of 60 MB (51 ms, where by the
/// index it takes 5). Functions and operators of extensions (citext) are usually in "public".
fn session(options: &PostgresOptions) -> String {
    let schema = options.schema.as_str();
    // 0 would be for ever
    let lock_timeout = options.lock_timeout.as_millis().clamp(1, 86_400_000);
    let path = if schema == "public" { quote(schema) } else { format!("{}, public", quote(schema)) };
    format!(
        "SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'; SET timezone = 'GMT'; SET extra_float_digits = 1;
         SET bytea_output = 'hex'; SET standard_conforming_strings = on; SET client_min_messages = warning;
         SET quote_all_identifiers = off; SET plan_cache_mode = force_custom_plan; SET random_page_cost = 1; SET jit = off;
         SET lock_timeout = {lock_timeout};
         SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET default_transaction_isolation = 'read committed';
         SET search_path = {path};
         SELECT has_database_privilege(current_database(), 'TEMP'), current_setting('server_encoding'),
                coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = {}), false), pg_backend_pid()",
        literal(schema)
    )
}

fn config(options: &PostgresOptions) -> Result<Config> {
    let mut config = Config::new();
    config
        .port(options.port)
        .dbname(&options.database)
        .user(&options.user)
        .application_name("cdc")
        .connect_timeout(options.connect_timeout)
        .keepalives_idle(Duration::from_secs(30))
        .keepalives_interval(Duration::from_secs(10))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(60))
        .ssl_mode(match options.tls {
            Tls::Disabled => SslMode::Disable,
            Tls::Preferred => SslMode::Prefer,
            _ => SslMode::Require,
        });
    match &options.socket {
        Some(folder) => config.host_path(folder).ssl_mode(SslMode::Disable),
        None => config.host(&options.host),
    };
    if let Some(password) = password(options)? {
        config.password(password);
    }
    Ok(config)
}

fn password(options: &PostgresOptions) -> Result<Option<String>> {
    let Some(path) = &options.password_file else { return Ok(options.password.clone()) };
    let text = String::from_utf8(read(path, "password_file")?).map_err(|_| {
        Error::definite(
            codes::FILE_NOT_TEXT,
            format!("file \"{}\" of option \"password_file\" is not UTF-8 text", path.display()),
        )
        .help("it holds the password, and at most a newline after it")
    })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

/// A small file. Only a regular one: it is read for every connection, and a pipe has nothing the second time.
pub(crate) fn read(path: &std::path::Path, option: &str) -> Result<Vec<u8>> {
    let unreadable = |why: &str| {
        Error::definite(
            codes::FILE_UNREADABLE,
            format!("file \"{}\" of option \"{option}\" cannot be read: {why}", path.display()),
        )
        .help("relative paths are from the folder of the pipeline file")
    };
    match std::fs::metadata(path) {
        Err(error) => return Err(unreadable(&error.to_string())),
        Ok(meta) if !meta.is_file() => return Err(unreadable("it is no regular file")),
        Ok(meta) if meta.len() > MOST_BYTES => return Err(unreadable("it is larger than 1 MB")),
        Ok(_) => {}
    }
    std::fs::read(path).map_err(|error| unreadable(&error.to_string()))
}
