//! The options of a `postgres` sink: declared for the language, and typed.

use crate::registry::word_option;
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind};
use cdc_core::plan::{OptionValue, SinkPlan};
use cdc_core::{Error, Result, codes};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ON_EXISTING: &[&str] = &["check", "evolve"];

fn option(name: &'static str, kind: OptionKind, help: &'static str) -> OptionDescriptor {
    OptionDescriptor { name, kind, required: false, default: None, help, not_yet: None }
}

/// The connector, for the language.
pub fn descriptor() -> ConnectorDescriptor {
    let needed = |o: OptionDescriptor| OptionDescriptor { required: true, ..o };
    let usually = |default, o: OptionDescriptor| OptionDescriptor { default: Some(default), ..o };
    ConnectorDescriptor {
        name: "postgres",
        role: ConnectorRole::Sink,
        help: "writes to a PostgreSQL database (13 or later); exactly once",
        options: vec![
            needed(option("url", OptionKind::Url, "postgres://host:port/database")),
            needed(option("user", OptionKind::Text, "the account's name")),
            option("password", OptionKind::Secret, "the account's password; take it from the environment"),
            option(
                "password_file",
                OptionKind::Path,
                "a file that holds the password instead (a newline at its end does not count); read for every connection",
            ),
            option(
                "socket",
                OptionKind::Path,
                "the folder of the server's Unix socket, on this machine; host of url is then only a name",
            ),
            usually(
                "public",
                option("schema", OptionKind::Text, "the schema of all tables; it has to be there"),
            ),
            usually(
                "preferred",
                option(
                    "tls",
                    OptionKind::Choice(Tls::WORDS),
                    "disabled: never; preferred: encrypted if the server offers it; required: encrypted or not at all; \
                     verify-ca: and signed by tls_ca; verify-identity: and of the host in url",
                ),
            ),
            option(
                "tls_ca",
                OptionKind::Path,
                "PEM file of the authorities that verify-ca and verify-identity trust",
            ),
            option(
                "tls_cert",
                OptionKind::Path,
                "PEM file of a client certificate, for servers whose pg_hba.conf asks for one (cert, or clientcert)",
            ),
            option("tls_key", OptionKind::Path, "PEM file of its private key"),
            usually(
                "error",
                option(
                    "nul",
                    OptionKind::Choice(NulPolicy::WORDS),
                    "a NUL character in a text, which PostgreSQL cannot hold. error: stop; remove: leave it out; replace: \
                     U+FFFD instead. In a key column it is always an error",
                ),
            ),
            usually(
                "check",
                option(
                    "on_existing",
                    OptionKind::Choice(ON_EXISTING),
                    "a table that is there already: check it and refuse what does not fit; evolve: where it is empty add columns and widen types first",
                ),
            ),
            usually(
                "10s",
                option(
                    "lock_timeout",
                    OptionKind::Duration,
                    "how long a lock of another session is waited for before that is told and tried again",
                ),
            ),
            usually(
                "10s",
                option("connect_timeout", OptionKind::Duration, "how long a connection may take to open"),
            ),
            usually(
                "30s",
                option(
                    "answer_timeout",
                    OptionKind::Duration,
                    "how long the server may be silent before another connection asks whether it is at work; if it is not, \
                     the connection is given up and what was open is written again",
                ),
            ),
        ],
        example: "sink dw = postgres {\n  url      = \"postgres://127.0.0.1:5432/dw\"\n  user     = \"cdc\"\n  password = \"${PG_PASSWORD}\"\n}",
    }
}

/// What becomes of a NUL character in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NulPolicy {
    /// The row is refused.
    Error,
    /// It is left out.
    Remove,
    /// U+FFFD stands in its place.
    Replace,
}

impl NulPolicy {
    /// The words of option `nul`.
    pub const WORDS: &'static [&'static str] = &["error", "remove", "replace"];
}

/// How a connection is made secure; the words are those of the `mysql` source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Disabled,
    /// Encrypted if the server offers it, else not; nobody is verified.
    Preferred,
    /// Encrypted, with whoever answers.
    Required,
    /// Encrypted, and the server's certificate is signed by `tls_ca`.
    VerifyCa,
    /// The same, and it is of the host that `url` names.
    VerifyIdentity,
}

impl Tls {
    /// The words of option `tls`, weakest first.
    pub const WORDS: &'static [&'static str] =
        &["disabled", "preferred", "required", "verify-ca", "verify-identity"];

    pub(crate) fn is_verifying(self) -> bool {
        matches!(self, Tls::VerifyCa | Tls::VerifyIdentity)
    }
}

/// As it is written.
impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Tls::WORDS[*self as usize])
    }
}

/// The options of a sink.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The folder of the Unix socket to use instead of TCP.
    pub socket: Option<PathBuf>,
    /// The database.
    pub database: String,
    /// The schema of all tables.
    pub schema: String,
    /// The account.
    pub user: String,
    /// Its password; never shown.
    pub password: Option<String>,
    /// The file that holds the password instead.
    pub password_file: Option<PathBuf>,
    /// How the connection is made secure.
    pub tls: Tls,
    /// The authorities that count when the server is verified, PEM.
    pub tls_ca: Option<PathBuf>,
    /// A client certificate, PEM.
    pub tls_cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// What becomes of a NUL in a text.
    pub nul: NulPolicy,
    /// A table that is there, of another shape and empty, is changed where that loses nothing.
    pub evolve: bool,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long the server may be silent before it is looked whether it is at work.
    pub answer_timeout: Duration,
    /// How long a lock of another session is waited for at a time.
    pub lock_timeout: Duration,
    /// The url came from the environment: it is not shown.
    pub secret_place: bool,
    /// The account's name came from the environment: it is not shown.
    pub secret_user: bool,
}

/// Without the password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions").field("place", &self.place()).finish_non_exhaustive()
    }
}

impl PostgresOptions {
    /// The options in a plan; files relative to `base`.
    ///
    /// # Errors
    /// `MISSING_OPTION`, `OPTION_VALUE`, `URL_MALFORMED`.
    pub fn from_plan(plan: &SinkPlan, base: &Path) -> Result<PostgresOptions> {
        let place = |headline: &str| format!("sink \"{}\": {headline}", plan.name);
        let needed = |name: &str| {
            plan.options.text(name).ok_or_else(|| {
                Error::definite(codes::MISSING_OPTION, place(&format!("option \"{name}\" is missing")))
                    .help(format!("write {name} = \"..\" in sink {} = postgres {{ .. }}", plan.name))
            })
        };
        let (host, port, database) =
            parse_url(needed("url")?).map_err(|e| e.note(place("its option \"url\"")))?;
        let evolve = word_option(plan, "on_existing", ON_EXISTING)? == "evolve";
        let word = |name: &str, words: &[&'static str], default: usize| -> Result<usize> {
            let Some(text) = plan.options.text(name) else { return Ok(default) };
            words.iter().position(|w| *w == text).ok_or_else(|| {
                Error::definite(
                    codes::OPTION_VALUE,
                    place(&format!("option \"{name}\" cannot be \"{text}\"")),
                )
                .help(format!("it can be {}", words.join(", ")))
            })
        };
        let tls = match word("tls", Tls::WORDS, 1)? {
            0 => Tls::Disabled,
            1 => Tls::Preferred,
            2 => Tls::Required,
            3 => Tls::VerifyCa,
            _ => Tls::VerifyIdentity,
        };
        let nul = match word("nul", NulPolicy::WORDS, 0)? {
            0 => NulPolicy::Error,
            1 => NulPolicy::Remove,
            _ => NulPolicy::Replace,
        };
        let path = |name: &str| plan.options.text(name).map(|text| base.join(text));
        let secret = |name: &str| matches!(plan.options.0.get(name), Some(OptionValue::Secret(_)));
        let duration = |name: &str, usual_ms: u64| {
            Duration::from_millis(plan.options.duration_ms(name).unwrap_or(usual_ms))
        };
        let options = PostgresOptions {
            host,
            port,
            socket: path("socket"),
            database,
            schema: plan.options.text("schema").unwrap_or("public").to_owned(),
            user: needed("user")?.to_owned(),
            password: plan.options.text("password").map(str::to_owned),
            password_file: path("password_file"),
            tls,
            tls_ca: path("tls_ca"),
            tls_cert: path("tls_cert"),
            tls_key: path("tls_key"),
            nul,
            evolve,
            connect_timeout: duration("connect_timeout", 10_000),
            answer_timeout: duration("answer_timeout", 30_000),
            lock_timeout: duration("lock_timeout", 10_000),
            secret_place: secret("url"),
            secret_user: secret("user"),
        };
        options.ensure_consistent().map_err(|e| e.note(place("its options do not fit together")))?;
        Ok(options)
    }

    /// An option that would silently do nothing is refused: who names an authority believes that it is asked.
    fn ensure_consistent(&self) -> Result<()> {
        let value =
            |headline: String, help: &str| Err(Error::definite(codes::OPTION_VALUE, headline).help(help));
        if self.password.is_some() && self.password_file.is_some() {
            return value(
                "the sink has both \"password\" and \"password_file\"".into(),
                "leave out one of them",
            );
        }
        if self.schema.is_empty() || self.schema.contains('\0') {
            return value(
                "option \"schema\" names no schema".into(),
                "leave it out, or write schema = \"public\"",
            );
        }
        let files = self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_key.is_some();
        if self.socket.is_some() && (files || self.tls.is_verifying() || self.tls == Tls::Required) {
            return value(
                "TLS is not used over a socket".into(),
                "a socket does not leave the machine: leave out tls and its files, or leave out socket",
            );
        }
        if self.tls == Tls::Disabled && files {
            return value(
                "a client certificate is not shown with tls = disabled".into(),
                "write tls = required, or leave out tls_cert and tls_key",
            );
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Error::definite(
                codes::MISSING_OPTION,
                "\"tls_cert\" and \"tls_key\" need one another",
            )
            .help("the certificate, and its private key"));
        }
        if self.tls_ca.is_some() && !self.tls.is_verifying() {
            return value(
                format!("\"tls_ca\" is not asked with tls = {}", self.tls),
                "write tls = verify-identity, or tls = verify-ca where the certificate does not name the host",
            );
        }
        if self.tls.is_verifying() && self.tls_ca.is_none() {
            return Err(Error::definite(
                codes::MISSING_OPTION,
                format!("tls = {} needs the option \"tls_ca\"", self.tls),
            )
            .help("tls_ca = \"ca.pem\": the authority that signed the server's certificate"));
        }
        Ok(())
    }

    /// Host, port and database, for messages.
    pub fn place(&self) -> String {
        match &self.socket {
            _ if self.secret_place => "***".to_owned(),
            Some(folder) => format!("socket \"{}\", database \"{}\"", folder.display(), self.database),
            None if self.host.contains(':') => format!("[{}]:{}/{}", self.host, self.port, self.database),
            None => format!("{}:{}/{}", self.host, self.port, self.database),
        }
    }

    /// The account's name, for messages.
    pub(crate) fn account(&self) -> &str {
        if self.secret_user { "***" } else { &self.user }
    }
}

/// Host, port and database of `postgres://host:port/database`.
fn parse_url(url: &str) -> Result<(String, u16, String)> {
    let malformed = |why: &str| {
        Error::definite(codes::URL_MALFORMED, format!("the sink's url is malformed: {why}")).help(
            "a url reads like postgres://127.0.0.1:5432/database; the account goes into user and password",
        )
    };
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    let rest = rest.ok_or_else(|| malformed("it does not begin with postgres://"))?;
    if rest.contains('@') {
        return Err(malformed("it holds an account"));
    }
    if rest.contains(['?', '#']) {
        return Err(malformed("nothing may follow the database"));
    }
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let database =
        decoded(database.trim_end_matches('/')).ok_or_else(|| malformed("a \"%\" in it is no code"))?;
    if database.is_empty() || database.contains('\0') {
        return Err(malformed("it names no database"));
    }
    let (host, port) = match place.strip_prefix('[') {
        Some(address) => {
            let (host, port) = address.split_once(']').ok_or_else(|| malformed("\"[\" has no \"]\""))?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err(malformed("what follows \"]\" is no port")),
                port => (host, port),
            }
        }
        None => match place.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() || host.contains('\0') {
        return Err(malformed("it names no host"));
    }
    let port = match port {
        None => 5432,
        Some(text) => text.parse().map_err(|_| malformed("what follows \":\" is not a port"))?,
    };
    Ok((host.to_owned(), port, database))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (code, tail) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let good = |url: &str| parse_url(url).unwrap();
        assert_eq!(good("postgres://db.example:5433/dw"), ("db.example".into(), 5433, "dw".into()));
        assert_eq!(good("postgresql://[::1]/my%20dw"), ("::1".into(), 5432, "my dw".into()));
        for bad in [
            "mysql://h/d",
            "postgres://h",
            "postgres://h/",
            "postgres:///d",
            "postgres://h:x/d",
            "postgres://u:p@h/d",
            "postgres://h/d?sslmode=require",
            "postgres://[::1/d",
            "postgres://h/%zz",
        ] {
            assert_eq!(parse_url(bad).unwrap_err().code(), codes::URL_MALFORMED, "{bad}");
        }
    }
}
