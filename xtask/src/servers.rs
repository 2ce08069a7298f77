//! `cargo xtask servers`: a real MySQL for the tests, without installing anything.
//!
//! On Debian and its kin, the packages of MySQL and of every library it needs, libc included, are
//! fetched through apt into `target/servers/mysql97` and run from there through their own dynamic
//! loader, so the host's libraries do not matter. apt keeps its state in a private folder: nothing is
//! installed, no maintainer script runs, no root is needed. Signatures and hashes are verified by apt.
//!
//! Elsewhere a `mysqld` on `PATH` or in `MYSQLD=` is used; if there is none, the message says what to
//! install.
//!
//! | variable | meaning |
//! |---|---|
//! | `MYSQLD` | the path of a `mysqld` to use instead |
//! | `DEB_MIRROR` | the Debian mirror (default: the one this host's apt uses) |
//! | `DEB_KEYRING` | the keyring that must verify it (default: Debian's) |

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::servers::{
    Installation, Server, ServerKind, ServerOptions, lock, on_path, remove_dir, run, servers_dir,
};

use crate::{args::Args, say};

/// The only suite of Debian that carries MySQL.
const SUITE: &str = "sid";

/// The packages that are wanted.
const ROOTS: &[&str] = &["mysql-server-core", "mysql-client-core"];

/// Which of the packages they depend on are needed to run; `*` stands for the rest of a name, because
/// library packages carry versions in their names. If this list ever falls short, the whole closure is
/// taken instead.
const LIBRARIES: &[&str] = &[
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
];

/// The programs that get a launcher in `bin/`.
const PROGRAMS: &[&str] = &[
    "usr/bin/mysql",
    "usr/bin/mysqladmin",
    "usr/bin/mysqldump",
    "usr/bin/mysqlimport",
    "usr/bin/mysqlbinlog",
    "usr/sbin/mysqld",
];

/// What a test server never reads, two thirds of the whole.
const UNUSED: &[&str] = &[
    "etc",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/gdb",
    "usr/share/libc-bin",
    "usr/lib/mysql-testsuite",
];

/// `cargo xtask servers [up --port N [--datadir DIR]]`
pub fn main(args: &mut Args) -> Result<()> {
    if args.word("up") {
        return up(args);
    }
    args.finish()?;
    let start = Instant::now();
    ensure_mysql()?;
    let installation = Installation::find(ServerKind::MySql)?;
    say!("{}: {}", installation.server().display(), installation.version()?);
    say!("ready in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Makes sure that [`Server::start`] finds a MySQL server, fetching one if need be.
pub fn ensure_mysql() -> Result<()> {
    if std::env::var_os("MYSQLD").is_some_and(|path| !path.is_empty()) {
        let version = Installation::find(ServerKind::MySql)?.version()?;
        // MariaDB names its server mysqld too
        ensure!(!version.contains("MariaDB"), "MYSQLD names a MariaDB server: {version}");
        return Ok(());
    }
    let prefix = servers_dir().join(ServerKind::MySql.folder());
    if is_complete(&prefix) {
        return Ok(());
    }
    let apt = ["apt-get", "apt-cache", "dpkg-deb"].iter().all(|name| on_path(name).is_some());
    let fetched = if apt { fetch(&prefix) } else { Err(anyhow::anyhow!("apt is not here")) };
    let Err(error) = fetched else { return Ok(()) };
    if let Ok(installation) = Installation::find(ServerKind::MySql)
        && !installation.version()?.contains("MariaDB")
    {
        say!("using {} ({error:#})", installation.server().display());
        return Ok(());
    }
    bail!("{error:#}\n\n{}", advice())
}

fn advice() -> String {
    let install = if cfg!(target_os = "macos") {
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
         debian-archive-keyring, and run this again"
    } else {
        "MySQL 8.4 or later: server, `mysql` and `mysqlbinlog`"
    };
    format!(
        "help: the tests run against a real MySQL server; on Debian `cargo xtask servers` fetches one\n\
         here, install it: {install}\n\
         then put `mysqld` on PATH, or set MYSQLD=/path/to/mysqld (its clients are looked for beside it)\n\
         the server need not run: each test starts its own, in a folder of its own"
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
    if let Ok(client) = server.client("mysql") {
        say!("  {} -h127.0.0.1 -P{port} -uroot -proot", client.display());
    }
}

/// Keeps one server running until Ctrl-C.
fn up(args: &mut Args) -> Result<()> {
    let port = args.value("--port")?.map(|port| port.parse::<u16>().context("--port")).transpose()?;
    let datadir = args.value("--datadir")?.map(PathBuf::from);
    args.finish()?;
    ensure_mysql()?;
    let mut server = Server::start(ServerOptions { port, datadir, ..ServerOptions::default() })?;
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

fn is_complete(prefix: &Path) -> bool {
    prefix.join(".complete").exists()
        && run(Command::new(prefix.join("bin/mysqld")).arg("--no-defaults").arg("--version")).is_ok()
}

fn fetch(prefix: &Path) -> Result<()> {
    let start = Instant::now();
    let folder = prefix.parent().context("the prefix has no folder")?;
    fs::create_dir_all(folder)?;
    // one fetch at a time; whoever waited finds it done
    let _lock = lock(&prefix.with_extension("lock"))?;
    if is_complete(prefix) {
        return Ok(());
    }
    say!("fetching MySQL from Debian {SUITE} into {} (once, about 50 MB)", short(prefix));
    let partial = prefix.with_extension("partial");
    remove_dir(&partial)?;
    fs::create_dir_all(&partial)?;
    let apt = Apt::with_verified_lists(&partial.join(".apt"))?;

    let closure = apt.closure(ROOTS)?;
    ensure!(ROOTS.iter().all(|root| closure.contains(*root)), "Debian {SUITE} has no {}", ROOTS.join(", "));
    let is_library = |name: &str| {
        LIBRARIES.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => name == *wanted,
        })
    };
    let mut wanted: BTreeSet<String> = ROOTS.iter().map(ToString::to_string).collect();
    wanted.extend(closure.iter().filter(|name| is_library(name)).cloned());
    let mut bytes = apt.extract(&wanted, &partial)?;
    let mut missing = missing_libraries(&partial)?;
    if !missing.is_empty() {
        say!("{} missing: taking every dependency", join(&missing));
        let rest = closure.difference(&wanted).filter(|name| !name.contains("perl")).cloned().collect();
        bytes += apt.extract(&rest, &partial)?;
        missing = missing_libraries(&partial)?;
        ensure!(missing.is_empty(), "still missing: {}", join(&missing));
    }
    prune(&partial)?;
    for program in PROGRAMS {
        write_launcher(&partial, program)?;
    }
    remove_dir(&partial.join(".apt"))?;
    fs::write(partial.join(".complete"), format!("{SUITE}\n"))?;
    remove_dir(prefix)?;
    fs::rename(&partial, prefix)?;
    run(Command::new(prefix.join("bin/mysqld")).arg("--no-defaults").arg("--version"))?;
    say!("fetched {:.0} MB in {:.1} s", bytes as f64 / 1e6, start.elapsed().as_secs_f64());
    Ok(())
}

/// An apt whose whole state lives in one folder.
struct Apt {
    state: PathBuf,
}

impl Apt {
    /// The package lists of the suite, verified by the first keyring that can.
    fn with_verified_lists(state: &Path) -> Result<Apt> {
        let mirror = mirror(state)?;
        let apt = Apt { state: state.to_path_buf() };
        let mut failures = Vec::new();
        let named = std::env::var_os("DEB_KEYRING").filter(|path| !path.is_empty()).map(PathBuf::from);
        let candidates = match named {
            Some(keyring) => vec![keyring],
            None => ["gpg", "pgp"]
                .map(|end| PathBuf::from(format!("/usr/share/keyrings/debian-archive-keyring.{end}")))
                .to_vec(),
        };
        for keyring in candidates.into_iter().filter(|keyring| keyring.exists()) {
            match apt.update(&mirror, &keyring) {
                Ok(()) => return Ok(apt),
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        // a host older than the suite's key: the keyring package is itself verified by the host's apt
        match host_keyring(state).and_then(|keyring| apt.update(&mirror, &keyring)) {
            Ok(()) => return Ok(apt),
            Err(error) => failures.push(format!("{error:#}")),
        }
        bail!("no verified package lists of Debian {SUITE}:\n{}", failures.join("\n"))
    }

    fn update(&self, mirror: &str, keyring: &Path) -> Result<()> {
        remove_dir(&self.state.join("lists"))?;
        for dir in ["lists/partial", "cache/archives/partial", "debs"] {
            fs::create_dir_all(self.state.join(dir))?;
        }
        fs::write(self.state.join("status"), "")?;
        let source = format!("deb [signed-by={}] {mirror} {SUITE} main\n", keyring.display());
        fs::write(self.state.join("sources.list"), source)?;
        run(self.command("apt-get").args(["-q=2", "--error-on=any", "update"]))?;
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let in_state = |name: &str| self.state.join(name).display().to_string();
        for (option, value) in [
            ("Dir::Etc::sourcelist", in_state("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
            ("Dir::Etc::preferences", "/dev/null".into()),
            ("Dir::Etc::preferencesparts", "/dev/null".into()),
            ("Dir::State", in_state("")),
            ("Dir::State::lists", in_state("lists")),
            ("Dir::State::status", in_state("status")),
            ("Dir::Cache", in_state("cache")),
            ("Dir::Cache::pkgcache", "pkgcache.bin".into()),
            ("Dir::Cache::srcpkgcache", "srcpkgcache.bin".into()),
            // apt's own download account cannot write into our folder
            ("APT::Sandbox::User", "root".into()),
            ("Acquire::Languages", "none".into()),
            ("Acquire::Retries", "3".into()),
            ("Acquire::IndexTargets::deb::DEP-11::DefaultEnabled", "false".into()),
            ("Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled", "false".into()),
            // a mirror may be a frozen snapshot: its age is not checked, its signature is
            ("Acquire::Check-Valid-Until", "false".into()),
            ("Acquire::Check-Date", "false".into()),
            ("APT::Get::AllowUnauthenticated", "false".into()),
        ] {
            command.arg(format!("-o{option}={value}"));
        }
        command
    }

    /// These packages and all they depend on.
    fn closure(&self, roots: &[&str]) -> Result<BTreeSet<String>> {
        let listed = run(self
            .command("apt-cache")
            .args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"])
            .args(["--no-breaks", "--no-replaces", "--no-enhances"])
            .args(roots))?;
        // names of packages stand at the line's start; relations are indented, virtual ones in <>
        let is_name = |line: &&str| line.starts_with(|first: char| first.is_ascii_alphanumeric());
        Ok(listed.lines().filter(is_name).map(str::to_string).collect())
    }

    /// Downloads packages and unpacks them; returns the bytes downloaded.
    fn extract(&self, packages: &BTreeSet<String>, prefix: &Path) -> Result<u64> {
        let debs = self.state.join("debs");
        run(self.command("apt-get").current_dir(&debs).args(["-q=2", "download"]).args(packages))?;
        let mut bytes = 0;
        for entry in fs::read_dir(&debs)? {
            let deb = entry?.path();
            bytes += fs::metadata(&deb)?.len();
            run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(prefix))?;
            fs::remove_file(deb)?;
        }
        Ok(bytes)
    }
}

/// The mirror from which this host takes Debian.
fn mirror(scratch: &Path) -> Result<String> {
    if let Some(mirror) = std::env::var("DEB_MIRROR").ok().filter(|mirror| !mirror.is_empty()) {
        return Ok(mirror);
    }
    let labelled = run(Command::new("apt-get").args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"]))?;
    if let Some(mirror) = labelled.lines().find_map(|line| line.strip_prefix("Debian ")) {
        return Ok(mirror.to_string());
    }
    // lists that were never fetched have no label; but apt can say what it would fetch
    let lists = scratch.join("host-lists");
    fs::create_dir_all(lists.join("partial"))?;
    let uris = run(Command::new("apt-get")
        .arg(format!("-oDir::State::lists={}", lists.display()))
        .args(["update", "--print-uris"]))?;
    uris.lines()
        .filter_map(|line| line.strip_prefix('\'')?.split_once("/dists/"))
        .map(|(base, _)| base)
        .find(|base| base.ends_with("/debian"))
        .map(str::to_string)
        .context("this host's apt names no Debian mirror; DEB_MIRROR= can name one")
}

/// Debian's keyring out of its package, as the host's own apt verifies it.
fn host_keyring(scratch: &Path) -> Result<PathBuf> {
    let dir = scratch.join("keyring");
    fs::create_dir_all(&dir)?;
    run(Command::new("apt-get").current_dir(&dir).args([
        "-q=2",
        "-oAPT::Sandbox::User=root",
        "download",
        "debian-archive-keyring",
    ]))?;
    let deb = fs::read_dir(&dir)?.next().context("no keyring package came")??.path();
    run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir.join("x")))?;
    ["gpg", "pgp"]
        .map(|end| dir.join(format!("x/usr/share/keyrings/debian-archive-keyring.{end}")))
        .into_iter()
        .find(|path| path.exists())
        .context("the keyring package holds no keyring")
}

/// The prefix's own dynamic loader, relative to it.
fn loader(prefix: &Path) -> Result<PathBuf> {
    let mut dirs = vec![PathBuf::from("usr/lib64"), PathBuf::from("lib64"), PathBuf::from("usr/lib")];
    dirs.extend(library_dirs(prefix)?);
    for dir in dirs {
        let Ok(entries) = fs::read_dir(prefix.join(&dir)) else { continue };
        for entry in entries {
            let name = entry?.file_name();
            let path = dir.join(&name);
            // a link to the loader may be absolute, and would lead out of the prefix
            let is_file = fs::symlink_metadata(prefix.join(&path)).is_ok_and(|meta| meta.is_file());
            if is_file && name.to_string_lossy().starts_with("ld-linux") {
                return Ok(path);
            }
        }
    }
    bail!("the packages hold no dynamic loader")
}

/// The folders with libraries, relative to the prefix.
fn library_dirs(prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    for base in ["usr/lib", "lib"] {
        let Ok(entries) = fs::read_dir(prefix.join(base)) else { continue };
        for entry in entries {
            let name = entry?.file_name();
            if name.to_string_lossy().contains("-linux-gnu") {
                dirs.push(Path::new(base).join(name));
            }
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// Libraries that a program asks for and the prefix does not hold.
fn missing_libraries(prefix: &Path) -> Result<BTreeSet<String>> {
    let loader = prefix.join(loader(prefix)?);
    let path: Vec<String> =
        library_dirs(prefix)?.iter().map(|dir| prefix.join(dir).display().to_string()).collect();
    let mut missing = BTreeSet::new();
    for program in PROGRAMS {
        let output = Command::new(&loader)
            .args(["--inhibit-cache", "--library-path", &path.join(":"), "--list"])
            .arg(prefix.join(program))
            .output()?;
        let text = [output.stdout, output.stderr].concat();
        for line in String::from_utf8_lossy(&text).lines() {
            match line.split_once(" => ") {
                Some((name, found)) if !found.starts_with(&*prefix.to_string_lossy()) => {
                    missing.insert(name.trim().to_string());
                }
                None if line.contains("error") || line.contains("cannot") => {
                    missing.insert(line.trim().to_string());
                }
                _ => {}
            }
        }
    }
    Ok(missing)
}

fn prune(prefix: &Path) -> Result<()> {
    for dir in UNUSED {
        remove_dir(&prefix.join(dir))?;
    }
    // error messages in other languages
    for entry in fs::read_dir(prefix.join("usr/share/mysql"))? {
        let entry = entry?;
        let keep = ["english", "charsets"].iter().any(|name| entry.file_name() == *name);
        if entry.file_type()?.is_dir() && !keep {
            remove_dir(&entry.path())?;
        }
    }
    for entry in fs::read_dir(prefix.join("usr/bin"))? {
        let path = entry?.path();
        if !PROGRAMS.iter().any(|program| prefix.join(program) == path) {
            fs::remove_file(path)?;
        }
    }
    for dir in library_dirs(prefix)? {
        for unused in ["gconv", "ossl-modules"] {
            remove_dir(&prefix.join(&dir).join(unused))?;
        }
    }
    Ok(())
}

/// Writes `bin/NAME`, which runs a program with the prefix's loader and libraries, wherever it lies.
fn write_launcher(prefix: &Path, program: &str) -> Result<()> {
    let loader = loader(prefix)?;
    let libraries: Vec<String> =
        library_dirs(prefix)?.iter().map(|dir| format!("$home/{}", dir.display())).collect();
    let text = format!(
        "#!/bin/sh\n\
         # runs {program} of this folder with the libraries of this folder only\n\
         home=$(readlink -f -- \"$0\")\n\
         home=${{home%/bin/*}}\n\
         export LIBMYSQL_PLUGIN_DIR=\"$home/usr/lib/mysql/plugin\"\n\
         exec \"$home/{}\" --inhibit-cache --library-path \"{}\" \"$home/{program}\" \"$@\"\n",
        loader.display(),
        libraries.join(":"),
    );
    let bin = prefix.join("bin");
    fs::create_dir_all(&bin)?;
    let name = Path::new(program).file_name().context("a program without a name")?;
    let path = bin.join(name);
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A path as seen from the workspace.
fn short(path: &Path) -> String {
    let workspace = cdc_testkit::servers::workspace_dir();
    path.strip_prefix(workspace).unwrap_or(path).display().to_string()
}
