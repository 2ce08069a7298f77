//! The options of a source, typed.

use crate::ddl;
use crate::server::Server;
use crate::structure::TableStructures;
use cdc_core::plan::pattern::TableSet;
use cdc_core::plan::{OptionValue, Options};
use cdc_core::{Error, Result, ZeroDates, codes};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartMode {
    /// Copy the tables, then follow the log.
    Initial,
    /// Copy the tables as they are at one position, then stop.
    Snapshot,
    /// Follow the log from its present end.
    Latest,
    /// Follow the log from the oldest file that the server has.
    Earliest,
    /// Follow the log from the first transaction committed at or after this time: microseconds since 1970 UTC.
    Timestamp(i64),
    /// Follow the log from a file and a byte in it.
    File(String, u64),
    /// Follow the log from a GTID set: everything that is not in it.
    Gtids(crate::gtid::GtidSet),
}

/// Where to end. Tables that are being copied are made whole first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopAt {
    /// In front of the first transaction committed at or after this time: microseconds since 1970 UTC. (MariaDB's log
    /// tells seconds: of the second in which the time lies all is given out.)
    Timestamp(i64),
    /// Behind the transaction in which this byte of a file lies.
    File(String, u64),
    /// When all of this GTID set has been given out.
    Gtids(crate::gtid::GtidSet),
}

impl StopAt {
    /// From a time (`2026-01-31 12:00:00`, UTC), `file:position` or a GTID set.
    ///
    /// # Errors
    /// `OPTION_VALUE` if it is none of these.
    pub fn parse(text: &str) -> Result<StopAt> {
        if let Some(micros) = parse_timestamp(text) {
            return Ok(StopAt::Timestamp(micros));
        }
        // three numbers are a GTID of MariaDB too, and a day that there is not is a mistake
        let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let is_day = shape == "0000-00-00";
        match parse_offset(text) {
            Ok(StartMode::File(file, offset)) => Ok(StopAt::File(file, offset)),
            Ok(StartMode::Gtids(set)) if !set.is_empty() && !is_day => Ok(StopAt::Gtids(set)),
            _ => Err(Error::definite(codes::OPTION_VALUE, format!("\"{text}\" is no place to end")).help(
                "caught-up; a time in UTC such as \"2026-01-31 12:00:00\"; binlog.000042:1234; or a GTID set",
            )),
        }
    }
}

/// A named point of a chunk's way, where a test may do something at the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The low watermark has been accepted, the SELECT has not begun.
    AfterLow,
    /// The SELECT has ended, the high watermark has not been read.
    BeforeHigh,
    /// The high watermark has been read, the chunk is not mended.
    AfterHigh,
}

/// What is called at a [`Point`].
pub type Hook = dyn Fn(Point, &cdc_core::TableId) + Send + Sync;

/// How a connection is made secure; the words are those of MySQL's own clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Disabled,
    /// Encrypted if the server offers it, else not. Nobody is verified: whoever can change what is sent on the
    /// way can also take TLS out of the offer.
    Preferred,
    /// Encrypted, with whoever answers.
    Required,
    /// Encrypted, and the server's certificate is signed by `tls_ca`.
    VerifyCa,
    /// The same, and it is of the host that `url` names. Without `tls_ca` the public authorities count.
    VerifyIdentity,
}

impl Tls {
    /// The words of option `tls`, weakest first.
    pub const WORDS: &[&str] = &["disabled", "preferred", "required", "verify-ca", "verify-identity"];

    fn parse(word: &str) -> Option<Tls> {
        Some(match word {
            "disabled" => Tls::Disabled,
            "preferred" => Tls::Preferred,
            "required" => Tls::Required,
            "verify-ca" => Tls::VerifyCa,
            "verify-identity" => Tls::VerifyIdentity,
            _ => return None,
        })
    }

    /// Is the server's certificate looked at?
    pub fn is_verifying(self) -> bool {
        matches!(self, Tls::VerifyCa | Tls::VerifyIdentity)
    }
}

/// As it is written.
impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Tls::WORDS[*self as usize])
    }
}

/// A file or a socket that an option names; shown in quotes, or as `"***"` if its name came from the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Where it is.
    pub path: PathBuf,
    /// Its name is not shown.
    pub secret: bool,
}

impl From<&Path> for Named {
    fn from(path: &Path) -> Named {
        Named { path: path.to_owned(), secret: false }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.secret { f.write_str("\"***\"") } else { write!(f, "\"{}\"", self.path.display()) }
    }
}

/// A server, an account, the tables, and how to read them.
#[derive(Clone)]
pub struct Config {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The account.
    pub user: String,
    /// Its password; never shown.
    pub password: Option<String>,
    /// The file that holds the password instead, read anew for every connection, so that it can be changed while
    /// a pipeline runs.
    pub password_file: Option<Named>,
    /// The server's Unix socket. Host and port are then no more than a name.
    pub socket: Option<Named>,
    /// The log is read from these files, and there is no server: see [`crate::binlog::files`].
    pub files: Option<Named>,
    /// A file of CREATE TABLE statements: of a log in files, the structures at its beginning.
    pub schema: Option<Named>,
    /// How a connection over TCP is made secure.
    pub tls: Tls,
    /// The authorities that count when the server is verified, PEM.
    pub tls_ca: Option<Named>,
    /// The certificate by which we prove who we are, PEM, with what is between it and the authority.
    pub tls_cert: Option<Named>,
    /// Its private key, PEM.
    pub tls_key: Option<Named>,
    /// Which tables.
    pub tables: TableSet,
    /// The replica id under which the log is read.
    pub server_id: u32,
    /// Where to begin.
    pub start: StartMode,
    /// Ends by itself in front of what was committed at or after this time, once all tables are whole.
    pub stop_micros: Option<i64>,
    /// Rows of a chunk.
    pub chunk_rows: u64,
    /// Connections that read chunks.
    pub chunk_readers: usize,
    /// The most bytes of rows a chunk holds.
    pub chunk_bytes: usize,
    /// A table without a key may be locked for a moment, where its snapshot is not exact otherwise.
    pub lock_briefly: bool,
    /// Tables of online schema change tools are theirs, and their swap is a change of shape.
    pub trust_online_ddl: bool,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// What becomes of dates that no calendar has.
    pub zero_dates: ZeroDates,
    /// Host and port came from the environment: they are not shown.
    pub secret_place: bool,
    /// The account's name came from the environment: it is not shown.
    pub secret_user: bool,
    /// For tests: called at the points of each chunk's way.
    pub hook: Option<Arc<Hook>>,
}

impl Config {
    /// Host and port, or the socket, for messages.
    pub fn place(&self) -> String {
        if let Some(files) = &self.files {
            return format!("files {files}");
        }
        match &self.socket {
            Some(socket) => format!("socket {socket}"),
            None if self.secret_place => "***".to_owned(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// The account's name, for messages.
    pub fn account(&self) -> &str {
        if self.secret_user { "***" } else { &self.user }
    }

    pub(crate) fn reach(&self, point: Point, table: &cdc_core::TableId) {
        if let Some(hook) = &self.hook {
            hook(point, table);
        }
    }
}

/// Without the password.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("place", &self.place())
            .field("user", &self.account())
            .field("start", &self.start)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// A source with the defaults of [`descriptor`](crate::descriptor::descriptor).
    ///
    /// # Errors
    /// `URL_MALFORMED`, `MALFORMED_PATTERN`.
    pub fn new(url: &str, user: &str, password: Option<&str>, tables: &[String]) -> Result<Config> {
        let (host, port) = parse_url(url)?;
        let tables = TableSet::parse(tables).map_err(|(i, why)| {
            Error::definite(
                codes::MALFORMED_PATTERN,
                format!("table pattern \"{}\" is malformed: {why}", tables.get(i).map_or("", String::as_str)),
            )
            .help("a pattern reads like \"shop.*\" or \"!shop.tmp_*\"")
        })?;
        Ok(Config {
            host,
            port,
            user: user.to_owned(),
            password: password.map(str::to_owned),
            password_file: None,
            socket: None,
            files: None,
            schema: None,
            tls: Tls::Preferred,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            tables,
            server_id: 5400,
            start: StartMode::Initial,
            stop_micros: None,
            chunk_rows: 8096,
            chunk_readers: 2,
            chunk_bytes: 16 << 20,
            lock_briefly: false,
            trust_online_ddl: false,
            connect_timeout: Duration::from_secs(10),
            zero_dates: ZeroDates::Keep,
            secret_place: false,
            secret_user: false,
            hook: None,
        })
    }

    /// From the options of a plan.
    ///
    /// # Errors
    /// As [`Config::new`], `OPTION_VALUE` for a start that cannot be read, and what [`Config::ensure_connectable`]
    /// says.
    pub fn from_options(options: &Options) -> Result<Config> {
        // a log in files needs no server
        let from_files = options.text("files").is_some();
        let text = |name: &str, of_files: &'static str, help: &str| match options.text(name) {
            Some(text) => Ok(text),
            None if from_files => Ok(of_files),
            None => Err(Error::definite(
                codes::MISSING_OPTION,
                format!("connector \"mysql\" needs the option \"{name}\""),
            )
            .help(format!("{name} = ..: {help}"))),
        };
        let mut config = Config::new(
            text("url", "mysql://files", "mysql://host:port")?,
            text("user", "", "the account's name")?,
            options.text("password"),
            options.list("tables").unwrap_or_default(),
        )?;
        let integer = |name: &str| options.integer(name).and_then(|v| u64::try_from(v).ok());
        if let Some(id) = integer("server_id").and_then(|v| u32::try_from(v).ok()) {
            config.server_id = id;
        }
        if let Some(rows) = integer("chunk_rows") {
            config.chunk_rows = rows.max(1);
        }
        if let Some(readers) = integer("chunk_readers") {
            config.chunk_readers = (readers as usize).clamp(1, 64);
        }
        if let Some(bytes) = integer("chunk_bytes") {
            config.chunk_bytes = (bytes as usize).max(1);
        }
        config.lock_briefly = options.text("lock") == Some("brief");
        config.trust_online_ddl = options.text("online_ddl") == Some("trust");
        if let Some(ms) = options.duration_ms("connect_timeout") {
            config.connect_timeout = Duration::from_millis(ms);
        }
        let secret = |name: &str| matches!(options.0.get(name), Some(OptionValue::Secret(_)));
        config.secret_place = secret("url");
        config.secret_user = secret("user");
        let named = |name: &str| {
            options.text(name).map(|path| Named { path: PathBuf::from(path), secret: secret(name) })
        };
        config.password_file = named("password_file");
        config.socket = named("socket");
        config.files = named("files");
        config.schema = named("schema");
        config.tls_ca = named("tls_ca");
        config.tls_cert = named("tls_cert");
        config.tls_key = named("tls_key");
        if let Some(word) = options.text("tls") {
            config.tls = Tls::parse(word).ok_or_else(|| {
                Error::definite(codes::OPTION_VALUE, "this is no value for option \"tls\"")
                    .help(Tls::WORDS.join(", "))
            })?;
        }
        if let Some(word) = options.text("zero_dates") {
            config.zero_dates = ZeroDates::parse(word).ok_or_else(|| {
                Error::definite(codes::OPTION_VALUE, "this is no value for option \"zero_dates\"")
                    .help(ZeroDates::WORDS.join(", "))
            })?;
        }
        config.start = start_mode(options)?;
        config.ensure_connectable()?;
        config.ensure_files_start()?;
        Ok(config)
    }

    /// Relative paths are from this folder: that of the pipeline file.
    pub fn relative_to(mut self, base: &Path) -> Config {
        let paths = [
            &mut self.password_file,
            &mut self.socket,
            &mut self.files,
            &mut self.schema,
            &mut self.tls_ca,
            &mut self.tls_cert,
            &mut self.tls_key,
        ];
        for named in paths.into_iter().flatten() {
            named.path = base.join(&named.path);
        }
        self
    }

    /// Of a log in files: does it begin in the log?
    ///
    /// # Errors
    /// `OPTION_VALUE`.
    pub fn ensure_files_start(&self) -> Result<()> {
        let word = match self.start {
            StartMode::Initial => "initial",
            StartMode::Snapshot => "snapshot",
            StartMode::Latest => "latest",
            _ => return Ok(()),
        };
        if self.files.is_none() {
            return Ok(());
        }
        Err(Error::definite(
            codes::OPTION_VALUE,
            format!("start = {word} needs a server, and the source reads files"),
        )
        .note("log files hold changes, and no table as it is now")
        .help(
            "start = earliest reads them from the first on; or { timestamp = \"..\" }, { offset = \"..\" }",
        ))
    }

    /// The captured tables of the file that option `schema` names, if there is one.
    ///
    /// # Errors
    /// `FILE_UNREADABLE`; what is wrong with the statements.
    pub fn structures_of_file(&self, server: &Server) -> Result<TableStructures> {
        let mut structures = TableStructures::new();
        let Some(named) = &self.schema else { return Ok(structures) };
        let text = std::fs::read_to_string(&named.path).map_err(|e| {
            Error::definite(codes::FILE_UNREADABLE, format!("the schema file {named} cannot be read: {e}"))
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let tables = ddl::parse_schema_text(text, self.tables.only_database(), &server.context());
        let tables = tables.map_err(|mut diagnostics| {
            diagnostics.truncate(1);
            let first = diagnostics.pop().map(Error::from);
            first
                .unwrap_or_else(|| Error::definite(codes::DDL_NOT_UNDERSTOOD, "a schema file was refused"))
                .note(format!("in the schema file {named}"))
        })?;
        for table in tables.into_iter().filter(|t| self.tables.contains(&t.id)) {
            structures.insert(table, None);
        }
        Ok(structures)
    }

    /// Do the options of the connection fit together? One that would silently do nothing is refused, since who
    /// names an authority believes that it is asked.
    ///
    /// # Errors
    /// `OPTION_VALUE`, `MISSING_OPTION`.
    pub fn ensure_connectable(&self) -> Result<()> {
        let value =
            |headline: &str, help: &str| Err(Error::definite(codes::OPTION_VALUE, headline).help(help));
        let missing =
            |headline: &str, help: &str| Err(Error::definite(codes::MISSING_OPTION, headline).help(help));
        let tls = self.tls;
        let files = self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_key.is_some();
        if self.password.is_some() && self.password_file.is_some() {
            return value("the source has both \"password\" and \"password_file\"", "leave out one of them");
        }
        if self.socket.is_some() && (files || tls.is_verifying() || tls == Tls::Required) {
            return value(
                "TLS is not used over a socket",
                "a socket does not leave the machine: leave out tls and its files, or leave out socket",
            );
        }
        if self.tls_ca.is_some() && !tls.is_verifying() {
            return value(
                &format!("\"tls_ca\" is not asked with tls = {tls}"),
                "write tls = verify-identity, or tls = verify-ca where the certificate does not name the host",
            );
        }
        if tls == Tls::Disabled && files {
            return value(
                "a client certificate is not shown with tls = disabled",
                "write tls = required, or leave out tls_cert and tls_key",
            );
        }
        // any certificate that any public authority has signed for anybody would do
        if tls == Tls::VerifyCa && self.tls_ca.is_none() {
            return missing(
                "tls = verify-ca needs the option \"tls_ca\"",
                "tls_ca = \"ca.pem\": the authority that signed the server's certificate; or write tls = verify-identity",
            );
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => missing(
                "option \"tls_cert\" needs the option \"tls_key\"",
                "tls_key = \"client-key.pem\": the certificate's private key",
            ),
            (None, Some(_)) => missing(
                "option \"tls_key\" needs the option \"tls_cert\"",
                "tls_cert = \"client-cert.pem\": the certificate whose private key it is",
            ),
            _ => Ok(()),
        }
    }
}

fn start_mode(options: &Options) -> Result<StartMode> {
    if let Some(map) = options.map("start") {
        if let Some(text) = map.text("timestamp") {
            return parse_timestamp(text).map(StartMode::Timestamp).ok_or_else(|| {
                Error::definite(codes::OPTION_VALUE, format!("\"{text}\" is not a time"))
                    .help("a time reads like 2026-01-31 12:00:00 and is in UTC")
            });
        }
        if let Some(text) = map.text("offset") {
            return parse_offset(text);
        }
    }
    match options.text("start") {
        None | Some("initial") => Ok(StartMode::Initial),
        Some("snapshot") => Ok(StartMode::Snapshot),
        Some("latest") => Ok(StartMode::Latest),
        Some("earliest") => Ok(StartMode::Earliest),
        Some(other) => {
            Err(Error::definite(codes::OPTION_VALUE, format!("\"{other}\" is not a way to start"))
                .help("initial, snapshot, latest, earliest, { timestamp = \"..\" } or { offset = \"..\" }"))
        }
    }
}

/// `file:position`, else a GTID set.
fn parse_offset(text: &str) -> Result<StartMode> {
    if let Some((file, offset)) = text.rsplit_once(':')
        && !file.contains(':')
        && file.contains('.')
        && let Ok(offset) = offset.parse()
    {
        return Ok(StartMode::File(file.to_owned(), offset));
    }
    crate::gtid::GtidSet::parse(text).map(StartMode::Gtids)
}

/// `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`, in UTC, as microseconds since 1970.
fn parse_timestamp(text: &str) -> Option<i64> {
    let (day, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    // three numbers may be a GTID of MariaDB
    if day.find('-') != Some(4) {
        return None;
    }
    let mut parts = day.split('-').map(str::parse::<u16>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let (time, fraction) =
        time.trim_end_matches('Z').split_once('.').unwrap_or((time.trim_end_matches('Z'), ""));
    let mut parts = time.split(':').map(str::parse::<u8>);
    let (hour, minute) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let second = parts.next().unwrap_or(Ok(0)).ok()?;
    let micro: u32 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let date = cdc_core::value::Date { year, month: month.try_into().ok()?, day: day.try_into().ok()? };
    if !date.is_real() {
        return None;
    }
    cdc_core::value::DateTime { date, hour, minute, second, micro }.micros_since_epoch()
}

/// `mysql://host[:port]`; an account in it is refused, since urls end up in logs.
fn parse_url(url: &str) -> Result<(String, u16)> {
    let malformed = |why: &str| {
        Error::definite(codes::URL_MALFORMED, format!("the source's url is malformed: {why}"))
            .help("a url reads like mysql://127.0.0.1:3306; the account goes into user and password")
    };
    let rest = url.strip_prefix("mysql://").ok_or_else(|| malformed("it does not begin with mysql://"))?;
    if rest.contains('@') {
        return Err(malformed("it holds an account"));
    }
    let rest = rest.trim_end_matches('/');
    if rest.contains(['/', '?', '#']) {
        return Err(malformed("nothing may follow host and port"));
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(address) => {
            let (host, port) = address.split_once(']').ok_or_else(|| malformed("\"[\" has no \"]\""))?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err(malformed("what follows \"]\" is no port")),
                port => (host, port),
            }
        }
        None => match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    if host.is_empty() {
        return Err(malformed("it names no host"));
    }
    let port = match port {
        None => 3306,
        Some(p) => p.parse().map_err(|_| malformed(&format!("\"{p}\" is not a port")))?,
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        assert_eq!(parse_url("mysql://db.example:3307").unwrap(), ("db.example".into(), 3307));
        assert_eq!(parse_url("mysql://[::1]:3307/").unwrap(), ("::1".into(), 3307));
        assert_eq!(parse_url("mysql://h").unwrap(), ("h".into(), 3306));
        for bad in [
            "h:1",
            "mysql://",
            "mysql://h:x",
            "mysql://u:p@h",
            "mysql://h/db",
            "mysql://h:70000",
            "mysql://[::1",
            "mysql://[::1]3306",
            "mysql://[]:3306",
        ] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_of_a_connection_that_do_not_fit_are_refused() {
        let base = || Config::new("mysql://[::1]:3307", "u", None, &["a.b".to_owned()]).unwrap();
        let file = |path: &str| Some(Named::from(Path::new(path)));
        let code = |change: &dyn Fn(&mut Config)| {
            let mut config = base();
            change(&mut config);
            config.ensure_connectable().err().map(|e| e.code())
        };
        assert_eq!(base().place(), "[::1]:3307");
        assert_eq!(code(&|_| {}), None);
        let value = Some(codes::OPTION_VALUE);
        let missing = Some(codes::MISSING_OPTION);
        assert_eq!(code(&|c| (c.password, c.password_file) = (Some("x".into()), file("p"))), value);
        assert_eq!(code(&|c| (c.socket, c.tls) = (file("s"), Tls::Required)), value);
        assert_eq!(code(&|c| c.socket = file("s")), None);
        assert_eq!(code(&|c| c.tls_ca = file("ca")), value);
        assert_eq!(code(&|c| (c.tls_ca, c.tls) = (file("ca"), Tls::VerifyCa)), None);
        assert_eq!(code(&|c| c.tls = Tls::VerifyCa), missing);
        assert_eq!(code(&|c| c.tls = Tls::VerifyIdentity), None);
        assert_eq!(code(&|c| c.tls_cert = file("c")), missing);
        assert_eq!(code(&|c| c.tls_key = file("k")), missing);
        assert_eq!(code(&|c| (c.tls_cert, c.tls_key) = (file("c"), file("k"))), None);
        assert_eq!(code(&|c| (c.tls_cert, c.tls_key, c.tls) = (file("c"), file("k"), Tls::Disabled)), value);
    }

    #[test]
    fn tls_words_and_paths() {
        for word in Tls::WORDS {
            assert_eq!(Tls::parse(word).unwrap().to_string(), *word);
        }
        assert_eq!(Tls::parse("on"), None);
        let option = |name: &str, value| (name.to_owned(), value);
        let options = Options(
            [
                option("url", OptionValue::Text("mysql://h".into())),
                option("user", OptionValue::Text("u".into())),
                option("tables", OptionValue::List(vec!["a.b".into()])),
                option("tls", OptionValue::Text("verify-ca".into())),
                option("tls_ca", OptionValue::Text("certs/ca.pem".into())),
                option("password_file", OptionValue::Secret("/run/secret".into())),
                option("zero_dates", OptionValue::Text("text".into())),
                option("online_ddl", OptionValue::Text("trust".into())),
            ]
            .into(),
        );
        let config = Config::from_options(&options).unwrap().relative_to(Path::new("base"));
        assert_eq!(config.tls, Tls::VerifyCa);
        assert_eq!(config.zero_dates, ZeroDates::Text);
        assert!(config.trust_online_ddl);
        assert_eq!(config.tls_ca.unwrap().path, Path::new("base/certs/ca.pem"));
        let file = config.password_file.unwrap();
        assert_eq!(file.path, Path::new("/run/secret"));
        assert_eq!(file.to_string(), "\"***\"");
    }

    #[test]
    fn times_and_offsets() {
        assert_eq!(parse_timestamp("1970-01-01 00:00:01.5"), Some(1_500_000));
        assert_eq!(parse_timestamp("1970-01-02"), Some(86_400_000_000));
        assert_eq!(parse_timestamp("1970-02-30"), None);
        assert_eq!(
            parse_offset("binlog.000002:1234").unwrap(),
            StartMode::File("binlog.000002".into(), 1234)
        );
        assert!(matches!(
            parse_offset("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5").unwrap(),
            StartMode::Gtids(_)
        ));
        assert!(parse_offset("nonsense").is_err());
    }
}
