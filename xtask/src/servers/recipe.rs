//! What is fetched for each server, and from which suite of Debian.

use cdc_testkit::servers::ServerKind;

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
    /// The programs that get a launcher in `bin/`.
    pub programs: &'static [&'static str],
    /// The variable that tells client programs where their plugins are, which log in in special ways.
    pub plugin_variable: &'static str,
    /// Where these are, below a folder of libraries.
    pub client_plugins: &'static str,
    /// About how much is downloaded.
    pub megabytes: u32,
}

/// The recipe of a server, if Debian has it.
pub fn of(kind: ServerKind) -> Option<Recipe> {
    match kind {
        ServerKind::MySql => Some(MYSQL),
        ServerKind::MariaDb1011 => Some(Recipe { suite: "bookworm", ..MARIADB }),
        ServerKind::MariaDb118 => Some(Recipe { suite: "trixie", ..MARIADB }),
        _ => None,
    }
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
    plugin_variable: "LIBMYSQL_PLUGIN_DIR",
    client_plugins: "mysql/plugin",
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
    plugin_variable: "MARIADB_PLUGIN_DIR",
    client_plugins: "libmariadb3/plugin",
    megabytes: 25,
};
