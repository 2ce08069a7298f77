//! Which servers there are, and what each calls its programs.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};

/// The environment variable that names the server of a test run.
pub const TEST_SERVER: &str = "CDC_TEST_SERVER";

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// MySQL 8.4 or later; the one that is fetched is 9.7.
    #[default]
    MySql,
    /// MariaDB 10.11, the series of Debian 12: no encryption unless it is given certificates, no vectors.
    MariaDb1011,
    /// MariaDB 11.8, the series of Debian 13: encrypts by itself, other default collations, vectors.
    MariaDb118,
}

impl ServerKind {
    /// Every server, the default one first.
    pub const ALL: [ServerKind; 3] = [ServerKind::MySql, ServerKind::MariaDb1011, ServerKind::MariaDb118];

    /// The server that this test run is about: `CDC_TEST_SERVER` names it, without it it is MySQL. Live tests that hold
    /// for every server start this one; `cargo xtask test` runs them once for each.
    ///
    /// # Panics
    /// If the variable names no server.
    pub fn of_this_run() -> ServerKind {
        let name = std::env::var(TEST_SERVER).unwrap_or_default();
        if name.is_empty() {
            return ServerKind::default();
        }
        name.parse().unwrap_or_else(|error| panic!("{TEST_SERVER}: {error}"))
    }

    /// The word for it on a command line.
    pub fn name(self) -> &'static str {
        match self {
            ServerKind::MySql => "mysql",
            ServerKind::MariaDb1011 => "mariadb-10.11",
            ServerKind::MariaDb118 => "mariadb-11.8",
        }
    }

    /// The environment variable that names the server program.
    pub fn variable(self) -> &'static str {
        match self {
            ServerKind::MySql => "MYSQLD",
            ServerKind::MariaDb1011 => "MARIADBD_1011",
            ServerKind::MariaDb118 => "MARIADBD_118",
        }
    }

    /// The server program's name.
    pub fn program(self) -> &'static str {
        if self.is_mariadb() { "mariadbd" } else { "mysqld" }
    }

    /// The folder under `target/servers` into which `cargo xtask servers` puts it.
    pub fn folder(self) -> &'static str {
        match self {
            ServerKind::MySql => "mysql97",
            ServerKind::MariaDb1011 => "mariadb1011",
            ServerKind::MariaDb118 => "mariadb118",
        }
    }

    /// Whether it is a MariaDB, of whichever series.
    pub fn is_mariadb(self) -> bool {
        self.series().is_some()
    }

    /// The first two numbers of a MariaDB's version. MySQL is taken as it comes.
    fn series(self) -> Option<&'static str> {
        match self {
            ServerKind::MySql => None,
            ServerKind::MariaDb1011 => Some("10.11"),
            ServerKind::MariaDb118 => Some("11.8"),
        }
    }

    /// Whether a program that says this of its version is such a server. The name does not tell: MariaDB
    /// goes by `mysqld` too, and every series by `mariadbd`.
    pub fn accepts(self, version: &str) -> bool {
        let number = version.split_once("Ver ").map_or(version, |(_, number)| number);
        match self.series() {
            None => !version.contains("MariaDB"),
            Some(series) => {
                version.contains("MariaDB")
                    && number.strip_prefix(series).is_some_and(|rest| rest.starts_with('.'))
            }
        }
    }

    /// What this server calls the client program that MySQL calls `name`: the `mysqlbinlog` of MariaDB is
    /// `mariadb-binlog`. Its own names are right as well.
    pub fn client_name(self, name: &str) -> String {
        let Some(rest) = name.strip_prefix("mysql").filter(|_| self.is_mariadb()) else {
            return name.to_string();
        };
        match rest.trim_start_matches(['_', '-']).replace('_', "-") {
            rest if rest.is_empty() => "mariadb".to_string(),
            rest => format!("mariadb-{rest}"),
        }
    }
}

/// What people call it.
impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.series() {
            Some(series) => write!(f, "MariaDB {series}"),
            None => f.write_str("MySQL 9.7"),
        }
    }
}

impl FromStr for ServerKind {
    type Err = Error;

    /// Reads a [name](ServerKind::name); `mariadb` alone is the oldest series.
    fn from_str(name: &str) -> Result<ServerKind, Error> {
        if name == "mariadb" {
            return Ok(ServerKind::MariaDb1011);
        }
        let names = ServerKind::ALL.map(ServerKind::name);
        match ServerKind::ALL.into_iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(kind),
            None => bail!("no server \"{name}\": there are {}", names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ServerKind::{MariaDb118, MariaDb1011, MySql};
    use super::*;

    #[test]
    fn a_version_tells_what_a_program_is() {
        let mysql = "Ver 9.7.4-1 for Linux on x86_64 ((Debian))";
        let old = "Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        let new = "Ver 11.8.9-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64 (-- Please help)";
        for (version, kind) in [(mysql, MySql), (old, MariaDb1011), (new, MariaDb118)] {
            let accepted: Vec<_> = ServerKind::ALL.into_iter().filter(|kind| kind.accepts(version)).collect();
            assert_eq!(accepted, [kind], "{version}");
        }
        assert!(!MariaDb118.accepts("Ver 11.80.1-MariaDB for Linux"));
        assert!(!MariaDb1011.accepts("Ver 10.1.11-MariaDB for Linux"));
    }

    #[test]
    fn clients_are_asked_for_by_their_mysql_names() {
        let names = ["mysql", "mysqlbinlog", "mysqldump", "mysqladmin", "mysql_tzinfo_to_sql", "sysbench"];
        let own = names.map(|name| MariaDb118.client_name(name));
        let mariadb = ["mariadb", "mariadb-binlog", "mariadb-dump", "mariadb-admin", "mariadb-tzinfo-to-sql"];
        assert_eq!(own[..5], mariadb);
        assert_eq!(own[5], "sysbench");
        assert_eq!(MariaDb1011.client_name("mariadb-binlog"), "mariadb-binlog");
        assert_eq!(names.map(|name| MySql.client_name(name)), names);
    }

    #[test]
    fn names_are_read_back() -> Result<(), Error> {
        for kind in ServerKind::ALL {
            assert_eq!(kind.name().parse::<ServerKind>()?, kind);
        }
        assert_eq!("mariadb".parse::<ServerKind>()?, MariaDb1011);
        let error = "oracle".parse::<ServerKind>().map(drop).unwrap_err().to_string();
        assert_eq!(error, "no server \"oracle\": there are mysql, mariadb-10.11, mariadb-11.8");
        assert_eq!(
            ServerKind::ALL.map(|kind| kind.to_string()),
            ["MySQL 9.7", "MariaDB 10.11", "MariaDB 11.8"]
        );
        Ok(())
    }
}
