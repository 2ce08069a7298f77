//! The options of a sink, typed; what does not fit together is refused before a connection is tried.

use crate::registry::word_option;
use cdc_core::plan::{OptionValue, SinkPlan};
use cdc_core::{Error, Result, codes};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const TLS: &[&str] = &["preferred", "disabled", "required", "verify-ca", "verify-identity"];
pub(crate) const ON_EXISTING: &[&str] = &["check", "evolve"];

/// How a connection is made secure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Encrypted if the server offers it.
    Preferred,
    /// Not at all.
    Disabled,
    /// Encrypted, with whoever answers.
    Required,
    /// Encrypted, and the server's certificate is signed by `tls_ca`.
    VerifyCa,
    /// The same, and it is of the host in `url`.
    VerifyIdentity,
}

impl Tls {
    fn is_verifying(self) -> bool {
        matches!(self, Tls::VerifyCa | Tls::VerifyIdentity)
    }
}

impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TLS[*self as usize])
    }
}

/// A file that an option names; not shown if its name came from the environment.
#[derive(Clone)]
pub struct Named {
    /// Where it is.
    pub path: PathBuf,
    secret: bool,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.secret { f.write_str("\"***\"") } else { write!(f, "\"{}\"", self.path.display()) }
    }
}

/// The options of a sink.
#[derive(Clone)]
pub struct MysqlOptions {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The server's Unix socket; host and port are then no more than a name.
    pub socket: Option<Named>,
    /// The database whose tables are written.
    pub database: String,
    /// The account.
    pub user: String,
    /// Its password; never shown.
    pub password: Option<String>,
    /// The file that holds it instead, read for every connection.
    pub password_file: Option<Named>,
    /// How a connection over TCP is made secure.
    pub tls: Tls,
    /// The authorities that count, PEM.
    pub tls_ca: Option<Named>,
    /// A client certificate, PEM.
    pub tls_cert: Option<Named>,
    /// Its private key, PEM.
    pub tls_key: Option<Named>,
    /// A table that is there, of another shape and empty, is changed where that loses nothing.
    pub evolve: bool,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
    /// How long the server may be silent before it is looked whether it is at work.
    pub answer_timeout: Duration,
    secret_place: bool,
    secret_user: bool,
}

/// Without the password.
impl fmt::Debug for MysqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlOptions")
            .field("place", &self.place())
            .field("user", &self.account())
            .finish_non_exhaustive()
    }
}

impl MysqlOptions {
    /// The options in a plan; paths relative to `base`.
    ///
    /// # Errors
    /// `MISSING_OPTION`, `OPTION_VALUE`, `URL_MALFORMED`.
    pub fn from_plan(plan: &SinkPlan, base: &Path) -> Result<MysqlOptions> {
        let options = &plan.options;
        let needed = |name: &str, help: &str| match options.text(name) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(Error::definite(
                codes::MISSING_OPTION,
                format!("sink \"{}\": option \"{name}\" is missing", plan.name),
            )
            .help(format!("{name} = ..: {help}"))),
        };
        let secret = |name: &str| matches!(options.0.get(name), Some(OptionValue::Secret(_)));
        let named = |name: &str| {
            let path = options.text(name)?;
            Some(Named { path: base.join(path), secret: secret(name) })
        };
        let url = needed("url", "mysql://host:port")?;
        let (host, port) = parse_url(url).map_err(|why| {
            Error::definite(
                codes::URL_MALFORMED,
                format!("sink \"{}\": its url is malformed: {why}", plan.name),
            )
            .help("a url reads like mysql://127.0.0.1:3306; account and database are options of their own")
        })?;
        let evolve = word_option(plan, "on_existing", ON_EXISTING)? == "evolve";
        let tls = match word_option(plan, "tls", TLS)? {
            "disabled" => Tls::Disabled,
            "required" => Tls::Required,
            "verify-ca" => Tls::VerifyCa,
            "verify-identity" => Tls::VerifyIdentity,
            _ => Tls::Preferred,
        };
        let made = MysqlOptions {
            host,
            port,
            socket: named("socket"),
            database: needed("database", "the database whose tables are written; it must be there")?
                .to_owned(),
            user: needed("user", "the account's name")?.to_owned(),
            password: options.text("password").map(str::to_owned),
            password_file: named("password_file"),
            tls,
            tls_ca: named("tls_ca"),
            tls_cert: named("tls_cert"),
            tls_key: named("tls_key"),
            evolve,
            connect_timeout: Duration::from_millis(options.duration_ms("connect_timeout").unwrap_or(10_000)),
            answer_timeout: Duration::from_millis(options.duration_ms("answer_timeout").unwrap_or(30_000)),
            secret_place: secret("url"),
            secret_user: secret("user"),
        };
        made.check(&plan.name)?;
        Ok(made)
    }

    /// An option that would silently do nothing is refused: who names an authority believes that it is asked.
    fn check(&self, sink: &str) -> Result<()> {
        let refuse = |code, what: String, help: &str| {
            Err(Error::definite(code, format!("sink \"{sink}\": {what}")).help(help))
        };
        let files = self.tls_ca.is_some() || self.tls_cert.is_some() || self.tls_key.is_some();
        let value = codes::OPTION_VALUE;
        if self.password.is_some() && self.password_file.is_some() {
            return refuse(
                value,
                "it has both \"password\" and \"password_file\"".into(),
                "leave out one of them",
            );
        }
        if self.socket.is_some() && (files || self.tls.is_verifying() || self.tls == Tls::Required) {
            return refuse(
                value,
                "TLS is not used over a socket".into(),
                "a socket does not leave the machine: leave out tls and its files, or leave out socket",
            );
        }
        if self.tls_ca.is_some() && !self.tls.is_verifying() {
            return refuse(
                value,
                format!("\"tls_ca\" is not asked with tls = {}", self.tls),
                "write tls = verify-identity, or verify-ca where the certificate does not name the host",
            );
        }
        if self.tls == Tls::Disabled && files {
            return refuse(
                value,
                "a client certificate is not shown with tls = disabled".into(),
                "write tls = required, or leave out tls_cert and tls_key",
            );
        }
        if self.tls == Tls::VerifyCa && self.tls_ca.is_none() {
            return refuse(
                codes::MISSING_OPTION,
                "tls = verify-ca needs the option \"tls_ca\"".into(),
                "tls_ca = \"ca.pem\": the authority that signed the server's certificate",
            );
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return refuse(
                codes::MISSING_OPTION,
                "\"tls_cert\" and \"tls_key\" need one another".into(),
                "the certificate, and its private key",
            );
        }
        Ok(())
    }

    /// Server and database, for messages.
    pub(crate) fn place(&self) -> String {
        let server = match &self.socket {
            Some(socket) => format!("socket {socket}"),
            None if self.secret_place => "***".to_owned(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        };
        format!("mysql {server}, database \"{}\"", self.database)
    }

    /// The account's name, for messages.
    pub(crate) fn account(&self) -> &str {
        if self.secret_user { "***" } else { &self.user }
    }

    /// May an error's text show host and port?
    pub(crate) fn shows_place(&self) -> bool {
        !self.secret_place
    }
}

/// `mysql://host[:port]`; an account in it is refused, since urls end up in logs.
fn parse_url(url: &str) -> Result<(String, u16), String> {
    let rest = url.strip_prefix("mysql://").ok_or("it does not begin with mysql://")?;
    if rest.contains('@') {
        return Err("it holds an account".into());
    }
    let rest = rest.trim_end_matches('/');
    if rest.contains(['/', '?', '#']) {
        return Err("nothing may follow host and port".into());
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(address) => {
            let (host, port) = address.split_once(']').ok_or("\"[\" has no \"]\"")?;
            match port.strip_prefix(':') {
                None if !port.is_empty() => return Err("what follows \"]\" is no port".into()),
                port => (host, port),
            }
        }
        None => match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    if host.is_empty() {
        return Err("it names no host".into());
    }
    let port = port.map_or(Ok(3306), str::parse).map_err(|_| "its port is no port")?;
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
        for bad in ["h:1", "mysql://", "mysql://h:x", "mysql://u:p@h", "mysql://h/db", "mysql://[::1"] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
    }
}
