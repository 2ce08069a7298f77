//! A real PostgreSQL server as a target, with a data folder and a port of its own.
//!
//! ```no_run
//! use cdc_testkit::servers::postgres::{Postgres, PostgresOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut server = Postgres::start(PostgresOptions::default())?;
//! server.sql("CREATE TABLE t (id int PRIMARY KEY)")?; // as cdc, in database dw
//! println!("{}", server.url()); // postgres://127.0.0.1:PORT/dw
//! server.kill()?; // a crash
//! server.restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where it comes from
//! 1. `POSTGRES=` names a `postgres` program; `initdb` and `psql` are looked for beside it;
//! 2. `target/servers/postgres17`, which `cargo xtask servers` fetches;
//! 3. `postgres` on `PATH`, or below `/usr/lib/postgresql`, where Debian has it; 15 or later.
//!
//! # What it is given
//! The accounts postgres (superuser, over the socket) and cdc (password cdc, owner of database `dw`, nothing more),
//! UTF-8 and the C locale, no fsync. As with the other servers the data folder is a copy of a template.
//!
//! # Not as root
//! The server refuses to run as root. Where a test does, the server runs as `nobody`, who then owns its data. Where
//! `nobody` may not walk to the checkout (it lies in somebody's home) programs and data lie under `/tmp`
//! instead.
//!
//! The end of a server is as in the [module above](super): Drop, or the watchdog.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

use super::{
    LONGEST_SOCKET_PATH, ReservedPort, START_TIMEOUT, STOP_TIMEOUT, copy_tree, fnv, fresh_dir, fresh_dir_in,
    lock, programs_on_path, remove_dir, run, servers_dir, shorten, tail, with_suffix,
};

/// The environment variable that names the server program.
pub const VARIABLE: &str = "POSTGRES";
/// The folder under `target/servers` into which `cargo xtask servers` puts it.
pub const FOLDER: &str = "postgres17";
/// The word for it on a command line.
pub const NAME: &str = "postgres";

/// The oldest series that the tests are right for.
const OLDEST: u32 = 15;

/// What the template holds beside what `initdb` makes. It is copied for every server: no database that nobody uses.
const ACCOUNTS: &str = "\
CREATE ROLE cdc LOGIN PASSWORD 'cdc';
ALTER DATABASE postgres RENAME TO dw;
ALTER DATABASE dw OWNER TO cdc;
";

/// Whose name the server runs under.
#[derive(Debug, Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// `nobody` for root, else nobody else.
    fn find() -> Result<Option<Account>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let user =
            User::from_name("nobody")?.context("no account \"nobody\" for a server that refuses root")?;
        Ok(Some(Account { uid: user.uid.as_raw(), gid: user.gid.as_raw() }))
    }

    /// May it walk to this folder?
    fn reaches(self, path: &Path) -> bool {
        path.ancestors().all(|dir| {
            fs::metadata(dir).is_ok_and(|meta| {
                let mode = meta.mode();
                (meta.uid() == self.uid && mode & 0o100 != 0) || mode & 0o001 != 0
            })
        })
    }
}

/// The server's programs.
#[derive(Debug, Clone)]
pub struct PostgresInstallation {
    bin: PathBuf,
    account: Option<Account>,
}

impl PostgresInstallation {
    /// Finds a server, in the order of the [module's](self) list.
    pub fn find() -> Result<PostgresInstallation> {
        let account = Account::find()?;
        if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            let found = PostgresInstallation::of_program(Path::new(&path), account)?;
            found.ensure_version().with_context(|| VARIABLE.to_owned())?;
            return Ok(found);
        }
        let prefix = servers_dir().join(FOLDER);
        let mut candidates = Vec::new();
        if prefix.join(".complete").exists() {
            candidates.push(reachable(&prefix, account)?.join("bin/postgres"));
        }
        candidates.extend(programs_on_path("postgres"));
        candidates.extend(of_debian());
        let found = candidates.iter().filter_map(|path| {
            let found = PostgresInstallation::of_program(path, account).ok()?;
            found.ensure_version().is_ok().then_some(found)
        });
        found.into_iter().next().with_context(|| {
            format!("no PostgreSQL of {OLDEST} or later found: run `cargo xtask servers`, or set {VARIABLE}= to the path of a `postgres`")
        })
    }

    /// The programs that were fetched into this folder, wherever they may be run from.
    ///
    /// # Errors
    /// If they do not run.
    pub fn fetched(prefix: &Path) -> Result<PostgresInstallation> {
        let found = PostgresInstallation::of_program(&prefix.join("bin/postgres"), None)?;
        found.ensure_version()?;
        Ok(found)
    }

    fn of_program(path: &Path, account: Option<Account>) -> Result<PostgresInstallation> {
        let path = path.canonicalize().with_context(|| format!("{} is not there", path.display()))?;
        let bin = path.parent().context("a program without a folder")?.to_path_buf();
        Ok(PostgresInstallation { bin, account })
    }

    /// The server program.
    pub fn server(&self) -> PathBuf {
        self.bin.join("postgres")
    }

    /// What the server program says of its version.
    pub fn version(&self) -> Result<String> {
        Ok(run(Command::new(self.server()).arg("--version"))?.trim().to_owned())
    }

    fn ensure_version(&self) -> Result<()> {
        let version = self.version()?;
        let number = version.split_once("(PostgreSQL) ").map_or("", |(_, number)| number);
        let series = number.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse::<u32>().ok());
        ensure!(
            series.is_some_and(|n| n >= OLDEST),
            "PostgreSQL {OLDEST} or later is wanted, this is {version}"
        );
        Ok(())
    }

    /// A program that runs as the server does.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        // of whoever runs the tests, and may not be open to the server
        command.current_dir("/").env("LC_ALL", "C").env_remove("PGDATA").env_remove("PGPORT");
        command
    }

    /// A folder in which the server may keep things.
    fn base(&self, folder: PathBuf) -> Result<PathBuf> {
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        match self.account {
            Some(account) if !account.reaches(&folder) => {
                let other = Path::new("/tmp").join(format!("cdc-servers-{}", geteuid()));
                fs::create_dir_all(&other)?;
                fs::set_permissions(&other, fs::Permissions::from_mode(0o755))?;
                Ok(other)
            }
            _ => Ok(folder),
        }
    }

    fn give(&self, path: &Path) -> Result<()> {
        let Some(account) = self.account else { return Ok(()) };
        chown(path, Some(account.uid), Some(account.gid))?;
        if path.is_dir() {
            for entry in fs::read_dir(path)? {
                self.give(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// Fills an empty data folder from the template, which is made first if need be.
    fn fill_datadir(&self, datadir: &Path) -> Result<()> {
        let name = format!("{}|{}|{ACCOUNTS}", self.bin.display(), self.version()?);
        let base = self.base(servers_dir())?;
        let template = base.join(format!(".template-{:016x}", fnv(name.as_bytes())));
        let marker = template.join(".filled");
        if !marker.exists() {
            let _lock = lock(&with_suffix(&template, ".lock"))?;
            if !marker.exists() {
                remove_dir(&template)?;
                self.initialise(&template)?;
                fs::write(&marker, "")?;
            }
        }
        copy_tree(&template, datadir)
            .with_context(|| format!("copying {} to {}", template.display(), datadir.display()))?;
        fs::remove_file(datadir.join(".filled"))?;
        self.give(datadir)
    }

    fn initialise(&self, datadir: &Path) -> Result<()> {
        fs::create_dir(datadir)?;
        fs::set_permissions(datadir, fs::Permissions::from_mode(0o700))?;
        self.give(datadir)?;
        run(self
            .command("initdb")
            .arg("-D")
            .arg(datadir)
            .args(["-U", "postgres", "--no-locale", "--encoding=UTF8", "--no-sync", "--wal-segsize=1"])
            .args(["--auth-local=trust", "--auth-host=scram-sha-256"]))?;
        let mut single = self
            .command("postgres")
            .args(["--single", "-j", "-F", "-c", "exit_on_error=true", "-D"])
            .arg(datadir)
            .arg("template1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        // with -j a statement ends at a semicolon and an empty line
        let statements = ACCOUNTS.replace(";\n", ";\n\n");
        single.stdin.take().context("no input")?.write_all(statements.as_bytes())?;
        let output = single.wait_with_output()?;
        ensure!(
            output.status.success(),
            "making the accounts failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(())
    }
}

/// Debian keeps each series in a folder of its own; the newest comes first.
fn of_debian() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/usr/lib/postgresql") else { return Vec::new() };
    let series = |path: &Path| path.file_name().and_then(|n| n.to_str()?.parse::<u32>().ok());
    let mut found: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    found.sort_by_key(|path| std::cmp::Reverse(series(path)));
    found.into_iter().map(|path| path.join("bin/postgres")).collect()
}

/// The fetched programs where the account may run them: a copy if it may not walk to where they lie.
fn reachable(prefix: &Path, account: Option<Account>) -> Result<PathBuf> {
    let Some(account) = account.filter(|account| !account.reaches(prefix)) else {
        return Ok(prefix.to_path_buf());
    };
    let changed = fs::metadata(prefix.join(".complete"))?.mtime_nsec();
    let name = format!("{}|{changed}|{}", prefix.display(), account.uid);
    let copy = Path::new("/tmp")
        .join(format!("cdc-servers-{}", geteuid()))
        .join(format!("{FOLDER}-{:016x}", fnv(name.as_bytes())));
    fs::create_dir_all(&copy)?;
    let _lock = lock(&with_suffix(&copy, ".lock"))?;
    if !copy.join(".complete").exists() {
        // links too, which the libraries are full of
        run(Command::new("cp").args(["-R", "-P", "-p"]).arg(prefix.join(".")).arg(&copy))?;
        for dir in copy.ancestors().take(2) {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(copy)
}

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    /// The TCP port on 127.0.0.1. `None`: a free one, kept over restarts.
    pub port: Option<u16>,
    /// Settings, such as `max_connections=3`. They come last, so they win over ours.
    pub extra: Vec<String>,
}

impl PostgresOptions {
    /// These options with one more setting.
    pub fn with(mut self, setting: impl Into<String>) -> Self {
        self.extra.push(setting.into());
        self
    }
}

/// A running (or stopped, or crashed) server; ended by Drop.
#[derive(Debug)]
pub struct Postgres {
    installation: PostgresInstallation,
    options: PostgresOptions,
    datadir: PathBuf,
    sockets: PathBuf,
    port: u16,
    _port: Option<ReservedPort>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    watchdog: Child,
    pipe: Option<ChildStdin>,
}

impl Postgres {
    /// Starts a server and waits until it answers.
    pub fn start(options: PostgresOptions) -> Result<Postgres> {
        let installation = PostgresInstallation::find()?;
        let (port, reserved) = match options.port {
            Some(port) => (port, None),
            None => {
                let reserved = ReservedPort::find()?;
                (reserved.port, Some(reserved))
            }
        };
        let usual = servers_dir().join("run");
        let base = installation.base(usual.clone())?;
        let datadir =
            if base == usual.canonicalize()? { fresh_dir("pg")? } else { fresh_dir_in(&base, "pg")? };
        let too_long = datadir.as_os_str().len() + ".s.PGSQL.12345.lock".len() > LONGEST_SOCKET_PATH;
        let sockets = if too_long { fresh_dir_in(Path::new("/tmp"), "pgsock")? } else { datadir.clone() };
        installation.give(&sockets)?;
        // from here on Drop cleans up, whatever fails
        let mut server =
            Postgres { installation, options, datadir, sockets, port, _port: reserved, running: None };
        server.installation.fill_datadir(&server.datadir)?;
        server.launch()?;
        Ok(server)
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `postgres://127.0.0.1:PORT/dw`; the account is cdc, its password cdc.
    pub fn url(&self) -> String {
        format!("postgres://127.0.0.1:{}/dw", self.port)
    }

    /// The folder of its socket.
    pub fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// The data folder.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// The server's programs.
    pub fn installation(&self) -> &PostgresInstallation {
        &self.installation
    }

    /// The options of the next [`Postgres::restart`].
    pub fn options_mut(&mut self) -> &mut PostgresOptions {
        &mut self.options
    }

    /// Runs statements as cdc in database `dw` and returns their rows: `|` between columns, `NULL` for NULL, a
    /// newline after each row. Ends at the first statement that fails.
    pub fn sql(&self, sql: &str) -> Result<String> {
        self.sql_as("cdc", "dw", sql)
    }

    /// Like [`Postgres::sql`], as the superuser.
    pub fn admin(&self, sql: &str) -> Result<String> {
        self.sql_as("postgres", "dw", sql)
    }

    /// Like [`Postgres::sql`], with another account, in another database.
    pub fn sql_as(&self, user: &str, database: &str, sql: &str) -> Result<String> {
        let mut command = self.installation.command("psql");
        command
            .arg("-h")
            .arg(&self.sockets)
            .args(["-p", &self.port.to_string(), "-U", user, "-d", database])
            .args(["-X", "-q", "-A", "-t", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1", "-f", "-"])
            .env("PGCLIENTENCODING", "UTF8")
            .env("PGOPTIONS", "-c timezone=GMT -c client_min_messages=warning -c lock_timeout=30s");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting psql")?;
        let mut input = child.stdin.take().context("psql has no input")?;
        let output = thread::scope(|scope| {
            // from a thread: it may end early, at the first error, or wait for us to read its rows
            scope.spawn(move || {
                let _ = input.write_all(sql.as_bytes());
            });
            child.wait_with_output()
        })?;
        if !output.status.success() {
            bail!("{}\nin: {}", String::from_utf8_lossy(&output.stderr).trim(), shorten(sql));
        }
        String::from_utf8(output.stdout).context("psql's output is not UTF-8")
    }

    /// `psql` with this account and database; add its arguments.
    pub fn psql(&self, user: &str, database: &str) -> Command {
        let mut command = self.installation.command("psql");
        command
            .arg("-h")
            .arg(&self.sockets)
            .args(["-p", &self.port.to_string(), "-U", user, "-d", database])
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1"])
            .env("PGCLIENTENCODING", "UTF8")
            .env("PGOPTIONS", "-c timezone=GMT");
        command
    }

    /// Puts a file into the data folder that nobody but the server may read, such as a key.
    pub fn put(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.datadir.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        self.installation.give(&path)
    }

    /// The server's own log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.datadir.join("server.out")).unwrap_or_default()
    }

    /// Shuts the server down (connections are ended, data is written) and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        self.end(Signal::SIGINT)
    }

    /// Crashes the server: all its processes end at once, nothing is written. (`SIGKILL` would leave its children,
    /// which keep the data folder until they notice.)
    pub fn kill(&mut self) -> Result<()> {
        self.end(Signal::SIGQUIT)
    }

    /// Stops its processes where they stand, or lets them go on: a machine that hangs. Connections stay open, and are even
    /// accepted.
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        let running = self.running.as_ref().context("the server does not run")?;
        let pid = running.child.id();
        let signal = if frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
        // sessions are children of the server that we started
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        for pid in std::iter::once(i32::try_from(pid)?).chain(children) {
            match kill(Pid::from_raw(pid), signal) {
                // a session that has ended
                Err(nix::errno::Errno::ESRCH) => {}
                other => other.map_err(|e| anyhow!("signalling process {pid}: {e}"))?,
            }
        }
        if frozen { super::stands_still(pid) } else { Ok(()) }
    }

    /// Starts the server again, on the same data and port, after shutting it down if it runs.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    fn end(&mut self, signal: Signal) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        if running.child.try_wait()?.is_none() {
            let pid = i32::try_from(running.child.id())?;
            kill(Pid::from_raw(pid), signal).map_err(|e| anyhow!("signalling process {pid}: {e}"))?;
            let deadline = Instant::now() + STOP_TIMEOUT;
            while running.child.try_wait()?.is_none() {
                if Instant::now() > deadline {
                    running.child.kill()?;
                    running.child.wait()?;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
        if let Some(mut pipe) = running.pipe.take() {
            let _ = pipe.write_all(b"ended\n");
        }
        running.watchdog.wait()?;
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        // what a crash left; its number may be another process by now
        let pid_file = self.datadir.join("postmaster.pid");
        let _ = fs::remove_file(&pid_file);
        let log = self.datadir.join("server.out");
        let from = fs::metadata(&log).map_or(0, |meta| meta.len());
        let output = OpenOptions::new().create(true).append(true).open(&log)?;
        let child = self
            .installation
            .command("postgres")
            .arg("-D")
            .arg(&self.datadir)
            .args(self.settings())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C at the terminal is for the test, which then ends its servers in order
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", self.installation.server().display()))?;
        let (watchdog, pipe) = match self.watch(child.id()) {
            Ok(watched) => watched,
            Err(error) => {
                let mut child = child;
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        self.running = Some(Running { child, watchdog, pipe: Some(pipe) });
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let running = self.running.as_mut().context("the server does not run")?;
            let ended = running.child.try_wait()?;
            // the eighth line says how far it is
            let state = fs::read_to_string(&pid_file).unwrap_or_default();
            if ended.is_none() && state.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
                return Ok(());
            }
            if ended.is_none() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            self.kill()?;
            let what = ended.map_or_else(
                || format!("is not ready after {START_TIMEOUT:?}"),
                |status| format!("ended while starting ({status})"),
            );
            bail!("the server on {} {what}\n{}", self.datadir.display(), tail(&log, from));
        }
    }

    fn settings(&self) -> Vec<OsString> {
        let mut sockets = OsString::from("unix_socket_directories=");
        sockets.push(&self.sockets);
        let mut settings = vec![sockets, format!("port={}", self.port).into()];
        let ours = [
            "listen_addresses=127.0.0.1",
            "fsync=off",
            "full_page_writes=off",
            "max_connections=40",
            "shared_buffers=64MB",
            "max_wal_size=1GB",
            "timezone=GMT",
            "log_timezone=GMT",
            "logging_collector=off",
            "log_destination=stderr",
        ];
        settings.extend(ours.map(OsString::from));
        settings.extend(self.options.extra.iter().map(OsString::from));
        settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting]).collect()
    }

    /// Starts the watchdog of one server process.
    fn watch(&self, pid: u32) -> Result<(Child, ChildStdin)> {
        // $1 process, $2 data folder, $3... what to remove once it is dead
        const SCRIPT: &str = r#"
read -r word && exit 0
pid=$1 data=$2
shift 2
ours() {
    if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null
    else ps -ww -o args= -p "$pid"; fi | grep -qF -e "-D $data "
}
if ours; then kill -QUIT "$pid"; fi
i=0
while ours && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
if ours; then kill -KILL "$pid"; sleep 1; fi
for dir; do rm -rf -- "$dir"; done
"#;
        let mut watchdog = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(pid.to_string())
            .args([&self.datadir, &self.datadir, &self.sockets])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting sh")?;
        let pipe = watchdog.stdin.take().context("the watchdog has no pipe")?;
        Ok((watchdog, pipe))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // nobody reads the folder again, so it needs no shutdown
        let _ = self.kill();
        let keep = thread::panicking() && std::env::var_os("CDC_KEEP_DATADIR").is_some();
        if !keep {
            let _ = remove_dir(&self.datadir);
            let _ = remove_dir(&self.sockets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_what_was_committed_over_a_crash_and_leaves_nothing_behind() -> Result<()> {
        let mut server = Postgres::start(PostgresOptions::default())?;
        server.sql(
            "CREATE TABLE t (id int PRIMARY KEY, note text); INSERT INTO t VALUES (1, 'ä'), (2, NULL)",
        )?;
        server.kill()?;
        assert!(server.sql("SELECT 1").is_err());
        server.restart()?;
        assert_eq!(server.sql("SELECT * FROM t ORDER BY id")?, "1|ä\n2|NULL\n");
        assert!(server.sql("SELECT * FROM nowhere").unwrap_err().to_string().contains("nowhere"));
        assert_eq!(server.admin("SHOW fsync")?, "off\n");
        let datadir = server.datadir().to_owned();
        drop(server);
        assert!(!datadir.exists());
        Ok(())
    }
}
