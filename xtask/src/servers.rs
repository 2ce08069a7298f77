//! `cargo xtask servers`: real MySQL, MariaDB and PostgreSQL servers for the tests, without installing anything.
//!
//! On Debian and its kin, the packages of a server and of every library it needs, libc included, are
//! fetched through apt into a folder of `target/servers` and run from there through their own dynamic
//! loader, so the host's libraries do not matter. apt keeps its state in a private folder: nothing is
//! installed, no maintainer script runs, no root is needed. Signatures and hashes are verified by apt.
//!
//! Elsewhere a server on `PATH` or in the server's variable is used; if there is none, the message says
//! what to install.
//!
//! | server | folder | from Debian | variable |
//! |---|---|---|---|
//! | MySQL 9.7 | `mysql97` | sid | `MYSQLD` |
//! | MariaDB 10.11 | `mariadb1011` | bookworm | `MARIADBD_1011` |
//! | MariaDB 11.8 | `mariadb118` | trixie | `MARIADBD_118` |
//! | PostgreSQL 17 | `postgres17` | trixie | `POSTGRES` (15 or later) |
//! | Percona Toolkit, a tool | `percona-toolkit` | trixie | `PT_ONLINE_SCHEMA_CHANGE` |
//!
//! | variable | meaning |
//! |---|---|
//! | `MYSQLD`, `MARIADBD_1011`, `MARIADBD_118`, `POSTGRES`, `PT_ONLINE_SCHEMA_CHANGE` | the path of a program to use instead |
//! | `DEB_MIRROR` | the Debian mirror (default: the one this host's apt uses) |
//! | `DEB_SECURITY` | the mirror of Debian's security corrections (default: likewise) |
//! | `DEB_KEYRING` | the keyring that must verify both (default: Debian's) |

mod apt;
mod fetch;
mod recipe;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, on_path, servers_dir};

pub use recipe::Wanted;

use crate::{args::Args, demo, say};

/// `cargo xtask servers [SERVER ..]` and `cargo xtask servers up [--kind SERVER] [--port N] [--datadir DIR] [--shop]`
pub fn main(args: &mut Args) -> Result<()> {
    if args.word("up") {
        return up(args);
    }
    let mut servers: Vec<Wanted> = Vec::new();
    while let Some(name) = args.next() {
        servers.push(name.parse()?);
    }
    if servers.is_empty() {
        servers = Wanted::all();
    }
    let start = Instant::now();
    ensure_each(&servers)?;
    for server in servers {
        say!("{server}: {}", server.find()?);
    }
    say!("ready in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Makes sure that [`Server::start`] finds this server, fetching it if need be.
pub fn ensure(kind: ServerKind) -> Result<()> {
    ensure_each(&[Wanted::Source(kind)])
}

/// The same for PostgreSQL.
pub fn ensure_postgres() -> Result<()> {
    ensure_each(&[Wanted::Postgres])
}

/// [`ensure`] for every server that the tests use.
pub fn ensure_all() -> Result<()> {
    ensure_each(&Wanted::all())
}

/// Tries all before it fails, so that one reading of the advice is enough.
fn ensure_each(servers: &[Wanted]) -> Result<()> {
    let mut failures = Vec::new();
    for server in servers {
        // what a person names is used, or is wrong
        if std::env::var_os(server.variable()).is_some_and(|path| !path.is_empty()) {
            server.find()?;
        } else if let Err(error) = fetch_or_find(*server) {
            failures.push(format!("no {server}: {error:#}"));
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    bail!("{}\n\n{}", failures.join("\n"), advice())
}

fn fetch_or_find(server: Wanted) -> Result<()> {
    let prefix = servers_dir().join(server.folder());
    if fetch::is_complete(server, &prefix) {
        return Ok(());
    }
    let fetched =
        if apt::is_here() { fetch::fetch(server, &prefix) } else { Err(anyhow!("apt is not here")) };
    let Err(error) = fetched else { return Ok(()) };
    let Ok(found) = server.find() else { return Err(error) };
    say!("{server}: using {found} ({error:#})");
    Ok(())
}

fn advice() -> String {
    let mysql = if cfg!(target_os = "macos") {
        "brew install mysql"
    } else if on_path("dnf").is_some() {
        "dnf install mysql8.4-server"
    } else if on_path("pacman").is_some() {
        "an AUR package of MySQL (Arch's own `mariadb` is not MySQL)"
    } else if on_path("zypper").is_some() {
        "MySQL's own repository for SUSE (`mysql-community-server`)"
    } else if on_path("nix").is_some() {
        "nix shell nixpkgs#mysql84"
    } else if on_path("apt-get").is_some() {
        "apt-get install mysql-server-core, or set DEB_MIRROR= to a Debian mirror and install \
         debian-archive-keyring, and run this again: that brings MariaDB as well"
    } else {
        "MySQL 8.4 or later: server, `mysql` and `mysqlbinlog`"
    };
    // two series at once are more than most package managers like
    let mariadb = if cfg!(target_os = "macos") {
        "brew install mariadb@10.11 mariadb@11.8"
    } else {
        "MariaDB's own archives for Linux, of 10.11 and of 11.8, unpacked anywhere"
    };
    format!(
        "help: the tests run against real servers, a MySQL, two MariaDB, a PostgreSQL, and a tool for the first; on Debian `cargo xtask servers`\n\
         fetches them; here, install\n  \
         MySQL: {mysql}\n  \
         MariaDB: {mariadb}\n  \
         PostgreSQL: your system's package of its server, 15 or later\n  \
         pt-online-schema-change: Percona Toolkit, with Perl's DBI and DBD::mysql\n\
         then put `mysqld`, `mariadbd`, `postgres` and `pt-online-schema-change` on PATH, or set MYSQLD=, MARIADBD_1011=,\n\
         MARIADBD_118=, POSTGRES= and PT_ONLINE_SCHEMA_CHANGE= to their paths (their clients are looked for beside them)\n\
         no server need run: each test starts its own, in a folder of its own"
    )
}

/// Lines to paste: how a pipeline and a client get at a server.
pub fn say_how_to_use(server: &Server) {
    let port = server.port();
    say!(
        "accounts cdc (password cdc, may read and follow) and root (password root), at mysql://127.0.0.1:{port}"
    );
    say!("  export CDC_PASSWORD=cdc");
    say!("  cargo run --release -- run examples/shop.cdc --set url=mysql://127.0.0.1:{port}");
    say!("  {}", client_line(server));
}

/// The client that looks at a server, as it is typed.
pub fn client_line(server: &Server) -> String {
    let client = server.client("mysql").map_or_else(|_| "mysql".into(), |path| path.display().to_string());
    format!("{client} -h127.0.0.1 -P{} -uroot -proot", server.port())
}

/// Keeps one server running until Ctrl-C.
fn up(args: &mut Args) -> Result<()> {
    let kind = args.value("--kind")?.map_or(Ok(ServerKind::default()), |name| name.parse())?;
    let port = args.value("--port")?.map(|port| port.parse::<u16>().context("--port")).transpose()?;
    let datadir = args.value("--datadir")?.map(PathBuf::from);
    let shop = args.flag("--shop");
    args.finish()?;
    ensure(kind)?;
    let mut server = Server::start(ServerOptions { port, datadir, ..ServerOptions::of(kind) })?;
    say!("{kind}: {}", server.installation().version()?);
    if shop {
        // a data folder that was there may have it
        let is_there = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'shop'";
        if server.sql(is_there)?.trim() == "0" {
            server.sql(&demo::shop(kind, 10_000))?;
        }
        say!("{} in database shop", demo::counts(&server)?);
    }
    say_how_to_use(&server);
    say!("socket {}  data {}", server.socket().display(), server.datadir().display());
    say!("running until Ctrl-C");
    wait_for_interrupt()?;
    server.stop()
}

/// Blocks until SIGINT or SIGTERM.
pub fn wait_for_interrupt() -> Result<()> {
    use nix::sys::signal::{SigSet, Signal};
    let mut set = SigSet::empty();
    set.add(Signal::SIGINT);
    set.add(Signal::SIGTERM);
    set.thread_block()?;
    set.wait()?;
    Ok(())
}
