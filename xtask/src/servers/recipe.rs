//! What is fetched for each server, and from which suite of Debian.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Error, Result, bail, ensure};
use cdc_testkit::servers::postgres::{self, PostgresInstallation};
use cdc_testkit::servers::{Installation, ServerKind, percona, run};

/// A server that the tests use, or a tool for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A source.
    Source(ServerKind),
    /// A target only.
    Postgres,
    /// What changes tables of a source while they are written.
    PerconaToolkit,
}

impl Wanted {
    /// Every server.
    pub fn all() -> Vec<Wanted> {
        ServerKind::ALL
            .into_iter()
            .map(Wanted::Source)
            .chain([Wanted::Postgres, Wanted::PerconaToolkit])
            .collect()
    }

    /// The environment variable that names the server program.
    pub fn variable(self) -> &'static str {
        match self {
            Wanted::Source(kind) => kind.variable(),
            Wanted::Postgres => postgres::VARIABLE,
            Wanted::PerconaToolkit => percona::VARIABLE,
        }
    }

    /// The folder under `target/servers` into which it is put.
    pub fn folder(self) -> &'static str {
        match self {
            Wanted::Source(kind) => kind.folder(),
            Wanted::Postgres => postgres::FOLDER,
            Wanted::PerconaToolkit => percona::FOLDER,
        }
    }

    /// What was fetched into this folder runs, and is what is wanted.
    pub fn ensure_runs(self, prefix: &Path) -> Result<()> {
        match self {
            Wanted::Source(kind) => {
                let program = prefix.join("bin").join(kind.program());
                let version = run(Command::new(program).args(["--no-defaults", "--version"]))?;
                ensure!(kind.accepts(&version), "{kind} is wanted, and this is another: {version}");
                Ok(())
            }
            Wanted::Postgres => PostgresInstallation::fetched(prefix).map(|_| ()),
            Wanted::PerconaToolkit => {
                // the tool itself looks for its driver when it connects
                run(Command::new(prefix.join("bin/perl")).args(["-MDBI", "-MDBD::mysql", "-e1"]))?;
                percona::version(&prefix.join("bin").join(percona::PROGRAM)).map(|_| ())
            }
        }
    }

    /// Where the tests find it, and what it says of its version.
    pub fn find(self) -> Result<String> {
        let (server, version) = match self {
            Wanted::Source(kind) => {
                let found = Installation::find(kind)?;
                (found.server().to_path_buf(), found.version()?)
            }
            Wanted::Postgres => {
                let found = PostgresInstallation::find()?;
                (found.server(), found.version()?)
            }
            Wanted::PerconaToolkit => {
                let found = percona::online_schema_change()?;
                let version = percona::version(&found)?;
                (found, version)
            }
        };
        Ok(format!("{}: {version}", server.display()))
    }

    /// The recipe, if Debian has the server.
    pub fn recipe(self) -> Option<Recipe> {
        match self {
            Wanted::Source(ServerKind::MySql) => Some(MYSQL),
            Wanted::Source(ServerKind::MariaDb1011) => Some(Recipe { suite: "bookworm", ..MARIADB }),
            Wanted::Source(ServerKind::MariaDb118) => Some(Recipe { suite: "trixie", ..MARIADB }),
            Wanted::Source(_) => None,
            Wanted::Postgres => Some(POSTGRES),
            Wanted::PerconaToolkit => Some(PERCONA_TOOLKIT),
        }
    }
}

/// What people call it.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Source(kind) => kind.fmt(f),
            Wanted::Postgres => f.write_str("PostgreSQL"),
            Wanted::PerconaToolkit => f.write_str("Percona Toolkit"),
        }
    }
}

impl FromStr for Wanted {
    type Err = Error;

    /// Reads the word for it on a command line.
    fn from_str(name: &str) -> Result<Wanted> {
        if name == postgres::NAME {
            return Ok(Wanted::Postgres);
        }
        if name == percona::NAME {
            return Ok(Wanted::PerconaToolkit);
        }
        match name.parse() {
            Ok(kind) => Ok(Wanted::Source(kind)),
            Err(error) => bail!("{error:#}, {}, {}", postgres::NAME, percona::NAME),
        }
    }
}

/// How a server is put together out of Debian's packages.
pub struct Recipe {
    /// The suite of Debian that carries this series.
    pub suite: &'static str,
    /// Whether the suite has corrections beside it, as releases do.
    pub has_updates: bool,
    /// The packages that are wanted.
    pub packages: &'static [&'static str],
    /// Which of the packages they depend on are needed to run; `*` stands for the rest of a name, because
    /// library packages carry versions in their names. If this list ever falls short, the whole closure
    /// is taken instead.
    pub libraries: &'static [&'static str],
    /// The programs that get a launcher in `bin/`. Where `usr/bin/perl` is one of them, scripts among the others run with it and
    /// with the modules of the packages.
    pub programs: &'static [&'static str],
    /// The variable that tells client programs where their plugins are, which log in in special ways; and where these
    /// are, below a folder of libraries.
    pub client_plugins: Option<(&'static str, &'static str)>,
    /// The programs start each other by where they lie: their launchers lie there too, and they beside them.
    pub in_place: bool,
    /// What a test server never reads, beside what no server reads.
    pub unused: &'static [&'static str],
    /// About how much is downloaded.
    pub megabytes: u32,
}

const MYSQL: Recipe = Recipe {
    // no other suite carries MySQL
    suite: "sid",
    has_updates: false,
    packages: &["mysql-server-core", "mysql-client-core"],
    libraries: &[
        "libc6",
        "libgcc-s1",
        "libstdc++6",
        "libicu*",
        "libssl3*",
        "libzstd1",
        "zlib1g",
        "liblz4-1",
        "libaio1*",
        "libnuma1",
        "libprotobuf-lite*",
        "libgoogle-perftools4*",
        "libunwind8",
        "liblzma5",
        "libedit2",
        "libtinfo6",
        "libbsd0",
        "libmd0",
        "libxxhash0",
    ],
    programs: &[
        "usr/bin/mysql",
        "usr/bin/mysqladmin",
        "usr/bin/mysqldump",
        "usr/bin/mysqlimport",
        "usr/bin/mysqlbinlog",
        "usr/sbin/mysqld",
    ],
    client_plugins: Some(("LIBMYSQL_PLUGIN_DIR", "mysql/plugin")),
    in_place: false,
    unused: &[],
    megabytes: 50,
};

const MARIADB: Recipe = Recipe {
    suite: "",
    has_updates: true,
    // the last three hold the programs for the log and for dumps, the server's and the clients' plugins
    packages: &[
        "mariadb-server-core",
        "mariadb-client-core",
        "mariadb-client",
        "mariadb-server",
        "libmariadb3",
    ],
    libraries: &[
        "libc6",
        "libgcc-s1",
        "libstdc++6",
        "libcrypt1",
        "libssl3*",
        "libzstd1",
        "zlib1g",
        "liblz4-1",
        "liblzma5",
        "libaio1*",
        "liburing2",
        "libnuma1",
        "libpcre2-8-0",
        "libpcre2-posix*",
        "libsystemd0",
        "libcap2",
        "libgcrypt20",
        "libgpg-error0",
        "libedit2",
        "libncurses6",
        "libtinfo6",
        "libbsd0",
        "libmd0",
    ],
    programs: &[
        "usr/bin/mariadb",
        "usr/bin/mariadb-admin",
        "usr/bin/mariadb-binlog",
        "usr/bin/mariadb-check",
        "usr/bin/mariadb-dump",
        "usr/bin/mariadb-import",
        "usr/sbin/mariadbd",
    ],
    client_plugins: Some(("MARIADB_PLUGIN_DIR", "libmariadb3/plugin")),
    in_place: false,
    unused: &[],
    megabytes: 25,
};

const POSTGRES: Recipe = Recipe {
    suite: "trixie",
    has_updates: true,
    packages: &["postgresql-17", "postgresql-client-17", "libpq5"],
    libraries: &[
        "libc6",
        "libgcc-s1",
        "libstdc++6",
        "libcrypt1",
        "libssl3*",
        "libicu*",
        "libxml2*",
        "libzstd1",
        "zlib1g",
        "liblz4-1",
        "liblzma5",
        "libnuma1",
        "libsystemd0",
        "libcap2",
        "libcap-ng0",
        "libaudit1",
        "libpam0g",
        "libselinux1",
        "libpcre2-8-0",
        "libldap*",
        "libsasl2-2",
        "libgssapi-krb5-2",
        "libkrb5-3",
        "libkrb5support0",
        "libk5crypto3",
        "libcom-err2",
        "libkeyutils1",
        "libreadline8*",
        "libxxhash0",
        "libtinfo6",
        "libuuid1",
        "libgcrypt20",
        "libgpg-error0",
    ],
    programs: &[
        "usr/lib/postgresql/17/bin/initdb",
        "usr/lib/postgresql/17/bin/postgres",
        "usr/lib/postgresql/17/bin/psql",
    ],
    client_plugins: None,
    in_place: true,
    unused: &[
        "usr/lib/postgresql/17/lib/bitcode",
        "usr/share/postgresql/17/man",
        "usr/share/postgresql-common",
    ],
    megabytes: 40,
};

const PERCONA_TOOLKIT: Recipe = Recipe {
    suite: "trixie",
    has_updates: true,
    packages: &[
        "percona-toolkit",
        "libdbi-perl",
        "libdbd-mysql-perl",
        "perl-base",
        "perl",
        "perl-modules-5.40",
        "libperl5.40",
        // the driver logs in by its plugins
        "libmariadb3",
    ],
    libraries: &[
        "libc6",
        "libgcc-s1",
        "libcrypt1",
        "libdb5.3*",
        "libgdbm*",
        "libssl3*",
        "libzstd1",
        "zlib1g",
        "libbz2*",
        "libcurl4*",
        "libterm-readkey-perl",
    ],
    programs: &["usr/bin/perl", "usr/bin/pt-online-schema-change"],
    client_plugins: Some(("MARIADB_PLUGIN_DIR", "libmariadb3/plugin")),
    in_place: false,
    unused: &[],
    megabytes: 18,
};
