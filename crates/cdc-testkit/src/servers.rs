//! Real database servers for tests, the demo and the benchmarks.
//!
//! ```no_run
//! use cdc_testkit::servers::{Server, ServerOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut server = Server::start(ServerOptions::default())?;
//! server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")?;
//! println!("{}", server.url("cdc")); // mysql://cdc:cdc@127.0.0.1:PORT
//! server.kill()?; // a crash
//! server.restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where the server comes from
//! 1. `MYSQLD=` names a `mysqld` program (`MARIADBD_1011=`, `MARIADBD_118=` a `mariadbd`); its clients are
//!    looked for beside it, then on `PATH`;
//! 2. `target/servers/mysql97` (`mariadb1011`, `mariadb118`), which `cargo xtask servers` fetches;
//! 3. `mysqld` (`mariadbd`) on `PATH`, if its version is right.
//!
//! # What a server is given
//! Row log with full images and full metadata, GTIDs (in MariaDB in strict order, and with the statements'
//! texts noted in the log), no fsync at commit (unless `fast` is off), and the accounts root (socket, no
//! password), root/root and cdc/cdc (TCP). All else is as the server has it by default: text is latin1 in
//! MariaDB 10.11, for example. The data folder is a copy of a template that is made once, because a first
//! initialisation takes seconds and a copy does not.
//!
//! # No server outlives its test
//! Drop ends the server. A test that is killed drops nothing, so beside each server runs a watchdog: a
//! `sh` that reads from a pipe whose other end only the test holds. When the test is gone, however it
//! went, the pipe ends, and the watchdog kills that one server, after checking that the process still
//! names our data folder. (`PR_SET_PDEATHSIG` would need unsafe code, and fires when the starting
//! *thread* ends, which in a test harness is long before the process does.)

mod dialect;
mod installation;
mod kind;
pub mod percona;
pub mod postgres;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

pub use installation::Installation;
pub use kind::{ServerKind, TEST_SERVER};

/// `sun_path` holds 108 bytes with its final zero on Linux, 104 on macOS.
const LONGEST_SOCKET_PATH: usize = 100;

/// A loaded machine starts a server several times slower than a quiet one, so be generous.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// What a server is started with; the defaults suit most tests.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Which server.
    pub kind: ServerKind,
    /// The data folder. `None`: a fresh folder that is removed with the server. One that is given is
    /// kept, made if it is missing, and taken up as it is if it already holds data.
    pub datadir: Option<PathBuf>,
    /// The TCP port on 127.0.0.1. `None`: a free one, kept over restarts.
    pub port: Option<u16>,
    /// `server_id` in the log.
    pub server_id: u32,
    /// More options of the server program, such as `--binlog-row-value-options=PARTIAL_JSON`. They come
    /// last, so they win over ours.
    pub extra: Vec<String>,
    /// No fsync at commit: survives a crash of the server, not of the machine. Turn it off where the
    /// order of commits and group commit matter.
    pub fast: bool,
    /// The performance schema costs memory and half of the start time, so it is off by default.
    pub performance_schema: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            kind: ServerKind::default(),
            datadir: None,
            port: None,
            server_id: 1,
            extra: Vec::new(),
            fast: true,
            performance_schema: false,
        }
    }
}

impl ServerOptions {
    /// The defaults for the [server of this run](ServerKind::of_this_run).
    pub fn of_this_run() -> Self {
        ServerOptions::of(ServerKind::of_this_run())
    }

    /// The defaults for this server.
    pub fn of(kind: ServerKind) -> Self {
        ServerOptions { kind, ..ServerOptions::default() }
    }

    /// These options with one more option of the server program.
    pub fn with(mut self, option: impl Into<String>) -> Self {
        self.extra.push(option.into());
        self
    }

    /// These options with this `server_id`.
    pub fn with_server_id(mut self, server_id: u32) -> Self {
        self.server_id = server_id;
        self
    }

    /// These options with this data folder.
    pub fn with_datadir(mut self, datadir: impl Into<PathBuf>) -> Self {
        self.datadir = Some(datadir.into());
        self
    }

    /// These options with this TCP port.
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }
}

/// A running (or stopped, or crashed) server; ended by Drop.
#[derive(Debug)]
pub struct Server {
    installation: Installation,
    options: ServerOptions,
    datadir: PathBuf,
    datadir_is_ours: bool,
    socket: PathBuf,
    /// Holds the socket where the data folder's path is too long for one.
    socket_dir: Option<PathBuf>,
    port: u16,
    _port: Option<ReservedPort>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    watchdog: Child,
    /// The watchdog's pipe: while it is open, the watchdog waits.
    pipe: Option<ChildStdin>,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub fn start(options: ServerOptions) -> Result<Server> {
        let installation = Installation::find(options.kind)?;
        let (datadir, datadir_is_ours) = match &options.datadir {
            Some(path) => {
                fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
                (path.canonicalize()?, false)
            }
            None => (fresh_dir("data")?, true),
        };
        let (port, reserved) = match options.port {
            Some(port) => (port, None),
            None => {
                let reserved = ReservedPort::find()?;
                (reserved.port, Some(reserved))
            }
        };
        let mut socket = datadir.join("mysqld.sock");
        let mut socket_dir = None;
        if socket.as_os_str().len() > LONGEST_SOCKET_PATH {
            let dir = short_dir("sock")?;
            socket = dir.join("s");
            socket_dir = Some(dir);
        }
        // from here on Drop cleans up, whatever fails
        let mut server = Server {
            installation,
            options,
            datadir,
            datadir_is_ours,
            socket,
            socket_dir,
            port,
            _port: reserved,
            running: None,
        };
        server.ensure_unused()?;
        if !server.datadir.join("mysql").is_dir() {
            let entries = fs::read_dir(&server.datadir)?.count();
            ensure!(entries == 0, "{} is neither empty nor a data folder", server.datadir.display());
            server.installation.fill_datadir(&server.datadir)?;
        }
        server.launch()?;
        Ok(server)
    }

    /// Which server it is.
    pub fn kind(&self) -> ServerKind {
        self.installation.kind()
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The data folder.
    pub fn datadir(&self) -> &Path {
        &self.datadir
    }

    /// The server's process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// `mysql://USER:PASSWORD@127.0.0.1:PORT` for the account `cdc` or `root` (whose passwords are their
    /// names).
    pub fn url(&self, user: &str) -> String {
        format!("mysql://{user}:{user}@127.0.0.1:{}", self.port)
    }

    /// The server's programs.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The path of a client program such as `mysqlbinlog`, which MariaDB has under another name.
    pub fn client(&self, name: &str) -> Result<PathBuf> {
        self.installation.client(name)
    }

    /// A client program that connects to this server over TCP with this account; add its arguments.
    pub fn client_command(&self, name: &str, user: &str, password: &str) -> Result<Command> {
        let mut command = self.bare_command(name)?;
        command
            .args(["--protocol=TCP", "--host=127.0.0.1"])
            .arg(format!("--port={}", self.port))
            .arg(format!("--user={user}"))
            .env("MYSQL_PWD", password);
        Ok(command)
    }

    /// A client program that connects to this server over the socket as root; add its arguments.
    pub fn socket_command(&self, name: &str) -> Result<Command> {
        let mut command = self.bare_command(name)?;
        command
            .arg("--protocol=SOCKET")
            .arg(flag("socket", &self.socket))
            .arg("--user=root")
            .env_remove("MYSQL_PWD");
        Ok(command)
    }

    /// A client program that is told nothing yet but what every call needs.
    fn bare_command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.client(name)?);
        command.arg("--no-defaults");
        if self.kind().is_mariadb() {
            // the clients of 11.8 warn of each login whose password does not stand in the command line
            command.arg("--skip-ssl-verify-server-cert");
        }
        Ok(command)
    }

    /// Runs statements as root and returns their rows: tab between columns, newline after each row, with
    /// the client's escapes (`\t`, `\n`, `\\`, `NULL`). Ends at the first statement that fails.
    pub fn sql(&self, sql: &str) -> Result<String> {
        text(self.sql_bytes(sql)?)
    }

    /// Like [`Server::sql`], for rows with bytes that are not UTF-8.
    pub fn sql_bytes(&self, sql: &str) -> Result<Vec<u8>> {
        let command = self.socket_command("mysql")?;
        run_sql(command, sql)
    }

    /// Like [`Server::sql`], over TCP with another account.
    pub fn sql_as(&self, user: &str, password: &str, sql: &str) -> Result<String> {
        let command = self.client_command("mysql", user, password)?;
        text(run_sql(command, sql)?)
    }

    /// The options of the next [`Server::restart`]. Data folder and port stay as they were.
    pub fn options_mut(&mut self) -> &mut ServerOptions {
        &mut self.options
    }

    /// The server's own error log.
    pub fn error_log(&self) -> String {
        fs::read_to_string(self.datadir.join("server.err")).unwrap_or_default()
    }

    /// Shuts the server down (`SIGTERM`) and waits for its end. Does nothing if it does not run.
    pub fn stop(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        if running.child.try_wait()?.is_none() {
            signal(&running.child, Signal::SIGTERM)?;
            let deadline = Instant::now() + STOP_TIMEOUT;
            while running.child.try_wait()?.is_none() {
                ensure!(
                    Instant::now() < deadline,
                    "the server on {} has not ended after {STOP_TIMEOUT:?}",
                    self.datadir.display()
                );
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.reap()
    }

    /// Crashes the server (`SIGKILL`). Does nothing if it does not run.
    pub fn kill(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        running.child.kill()?;
        self.reap()
    }

    /// Stops its process where it stands, or lets it go on: a machine that hangs. Connections stay open, and are even accepted.
    pub fn freeze(&self, frozen: bool) -> Result<()> {
        let running = self.running.as_ref().context("the server does not run")?;
        signal(&running.child, if frozen { Signal::SIGSTOP } else { Signal::SIGCONT })?;
        if frozen { stands_still(running.child.id()) } else { Ok(()) }
    }

    /// Starts the server again, on the same data and port, after shutting it down if it runs.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    /// Takes leave of a server process that has ended or is about to, and of its watchdog.
    fn reap(&mut self) -> Result<()> {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        running.child.wait()?;
        if let Some(mut pipe) = running.pipe.take() {
            let _ = pipe.write_all(b"ended\n");
        }
        running.watchdog.wait()?;
        Ok(())
    }

    /// Refuses a data folder on which a server runs that is not ours.
    fn ensure_unused(&self) -> Result<()> {
        let pid = fs::read_to_string(self.datadir.join("server.pid")).unwrap_or_default();
        let Ok(pid) = pid.trim().parse::<u32>() else { return Ok(()) };
        ensure!(
            !names_datadir(pid, &self.datadir),
            "a server runs on {} already (process {pid})",
            self.datadir.display()
        );
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        self.ensure_unused()?;
        // What a crash left. The server refuses a socket whose lock file names a process that answers,
        // and after a crash that number may belong to anyone, or to a zombie.
        let pid_file = self.datadir.join("server.pid");
        for stale in [pid_file.clone(), self.socket.clone(), with_suffix(&self.socket, ".lock")] {
            let _ = fs::remove_file(stale);
        }
        let errors = self.datadir.join("server.err");
        let errors_from = fs::metadata(&errors).map_or(0, |meta| meta.len());
        let output = OpenOptions::new().create(true).append(true).open(self.datadir.join("server.out"))?;
        let child = Command::new(self.installation.server())
            .args(self.installation.common_options())
            .args(self.server_options())
            .args(&self.options.extra)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C at the terminal is for the test, which then ends its servers in order
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", self.installation.server().display()))?;
        let pid = child.id();
        let (watchdog, pipe) = match self.watch(pid) {
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
            // The pid file appears when plugins, init file and ports are ready; the greeting shows that
            // connections are being served.
            if ended.is_none() && pid_file.exists() && greets(&self.socket) {
                return Ok(());
            }
            let late = Instant::now() > deadline;
            if ended.is_none() && !late {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            self.kill()?;
            let what = ended.map_or_else(
                || format!("is not ready after {START_TIMEOUT:?}"),
                |status| format!("ended while starting ({status})"),
            );
            bail!("the server on {} {what}\n{}", self.datadir.display(), tail(&errors, errors_from));
        }
    }

    fn server_options(&self) -> Vec<OsString> {
        let mut options = vec![
            flag("datadir", &self.datadir),
            flag("socket", &self.socket),
            flag("pid-file", &self.datadir.join("server.pid")),
            flag("log-error", &self.datadir.join("server.err")),
            format!("--port={}", self.port).into(),
            "--bind-address=127.0.0.1".into(),
            "--skip-name-resolve".into(),
            format!("--server-id={}", self.options.server_id).into(),
            flag("log-bin", &self.datadir.join("binlog")),
            "--binlog-row-image=FULL".into(),
            "--binlog-row-metadata=FULL".into(),
            "--innodb-buffer-pool-size=256M".into(),
            "--innodb-buffer-pool-load-at-startup=OFF".into(),
            "--innodb-buffer-pool-dump-at-shutdown=OFF".into(),
            "--max-allowed-packet=64M".into(),
            "--secure-file-priv=".into(),
            "--local-infile=ON".into(),
        ];
        let on_off = |on| if on { "ON" } else { "OFF" };
        options.push(format!("--performance-schema={}", on_off(self.options.performance_schema)).into());
        let own: &[&str] = if self.kind().is_mariadb() {
            &[
                "--binlog-format=ROW",
                "--gtid-strict-mode=ON",
                "--log-slave-updates=ON",
                "--binlog-annotate-row-events=ON",
            ]
        } else {
            &["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--mysqlx=OFF"]
        };
        options.extend(own.iter().map(OsString::from));
        if self.kind().is_mariadb() {
            // It clears its folder of temporary tables when it starts, other servers' too.
            options.push(flag("tmpdir", &self.datadir));
        }
        if self.options.fast {
            options.push("--sync-binlog=0".into());
            options.push("--innodb-flush-log-at-trx-commit=2".into());
        }
        options
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
    else ps -ww -o args= -p "$pid"; fi | grep -qF -e "--datadir=$data "
}
if ours; then kill -KILL "$pid"; fi
i=0
while ours && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
for dir; do rm -rf -- "$dir"; done
"#;
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "watchdog"]).arg(pid.to_string()).arg(&self.datadir);
        if self.datadir_is_ours {
            command.arg(&self.datadir);
        }
        command.args(&self.socket_dir);
        let mut watchdog = command
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

impl Drop for Server {
    fn drop(&mut self) {
        // nobody reads a temporary folder again, so it needs no shutdown
        let ended = if self.datadir_is_ours { self.kill() } else { self.stop() };
        if ended.is_err() {
            let _ = self.kill();
        }
        let keep = thread::panicking() && std::env::var_os("CDC_KEEP_DATADIR").is_some();
        if self.datadir_is_ours && !keep {
            let _ = remove_dir(&self.datadir);
        }
        if let Some(dir) = &self.socket_dir {
            let _ = remove_dir(dir);
        }
    }
}

/// The workspace's folder.
pub fn workspace_dir() -> PathBuf {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    if let Some(dir) = built_in.filter(|dir| dir.join("Cargo.toml").exists()) {
        return dir.to_path_buf();
    }
    // the tree was moved after the build
    let here = std::env::current_dir().unwrap_or_default();
    here.ancestors().filter(|dir| dir.join("Cargo.lock").exists()).last().unwrap_or(&here).to_path_buf()
}

/// Cargo's target folder.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => workspace_dir().join(dir),
        None => workspace_dir().join("target"),
    }
}

/// The folder for fetched servers and templates.
pub fn servers_dir() -> PathBuf {
    target_dir().join("servers")
}

/// A program of this name on `PATH`; the server programs are also looked for in `sbin` folders, which
/// the `PATH` of ordinary users often lacks.
pub fn on_path(name: &str) -> Option<PathBuf> {
    programs_on_path(name).next()
}

/// All programs of this name, in the order in which [`on_path`] takes them.
fn programs_on_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Fedora keeps server programs in libexec
    let more = ["/usr/sbin", "/usr/local/sbin", "/usr/libexec"].map(PathBuf::from);
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).chain(more).collect();
    dirs.into_iter().map(move |dir| dir.join(name)).filter(|path| is_program(path))
}

/// Takes a lock that other processes respect; given back when the file is closed.
pub fn lock(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    file.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(file)
}

/// A TCP port on 127.0.0.1 that no other test uses as long as this lives.
///
/// Binding port 0 would give a port out of the range from which outgoing connections draw theirs: while
/// a server restarts, any client may take it. So draw from below that range, and keep a lock file.
#[derive(Debug)]
pub struct ReservedPort {
    /// The port.
    pub port: u16,
    _lock: File,
}

impl ReservedPort {
    const FIRST: u64 = 20_000;
    const COUNT: u64 = 12_000;

    /// Finds a port that nobody listens on and nobody has reserved.
    pub fn find() -> Result<ReservedPort> {
        // one folder for all checkouts on this machine, whatever TMPDIR says
        let dir = Path::new("/tmp").join(format!("cdc-ports-{}", geteuid()));
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        let mut draw = fnv(unique_name().as_bytes());
        for _ in 0..1000 {
            draw = fnv(&draw.to_le_bytes());
            let port = u16::try_from(Self::FIRST + draw % Self::COUNT)?;
            let path = dir.join(port.to_string());
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return Ok(ReservedPort { port, _lock: file });
            }
        }
        bail!("no free port found")
    }
}

/// A fresh folder for what may be large, on the disk of the build: `/tmp` is memory, or small, on many machines.
/// Whoever asks for it removes it.
pub fn fresh_dir(what: &str) -> Result<PathBuf> {
    let base = servers_dir().join("run");
    fs::create_dir_all(&base).with_context(|| format!("making {}", base.display()))?;
    fresh_dir_in(&base.canonicalize()?, what)
}

/// A fresh folder whose path is short enough for a socket in it; whoever asks for it removes it.
fn short_dir(what: &str) -> Result<PathBuf> {
    fresh_dir_in(Path::new("/tmp"), what)
}

fn fresh_dir_in(base: &Path, what: &str) -> Result<PathBuf> {
    let dir = base.join(format!("cdc-{what}-{}", unique_name()));
    fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
    Ok(dir)
}

fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
    format!("{}-{}-{nanos:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).context("the client's output is not UTF-8; see `sql_bytes`")
}

fn run_sql(mut command: Command, sql: &str) -> Result<Vec<u8>> {
    command.args(["--skip-column-names", "--batch", "--default-character-set=utf8mb4"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting the mysql client")?;
    let mut input = child.stdin.take().context("the client has no input")?;
    let output = thread::scope(|scope| {
        // From a thread: a client that waits for us to read its rows does not read our statements. It
        // may also end early, at the first error.
        scope.spawn(move || {
            let _ = input.write_all(sql.as_bytes());
        });
        child.wait_with_output()
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{}\nin: {}", message.trim(), shorten(sql));
    }
    Ok(output.stdout)
}

/// Runs a program to its end and returns what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {name}"))?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&printed).trim().to_string();
        bail!("{name} failed ({}): {text}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shorten(text: &str) -> String {
    const LIMIT: usize = 400;
    match text.char_indices().nth(LIMIT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

/// Waits until every thread of a process has stopped: the signal is taken by one of them, and on a busy machine the others may answer
/// somebody before.
pub(crate) fn stands_still(pid: u32) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut moves = false;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // a thread that has ended meanwhile has no state any more
            let stat = fs::read_to_string(task?.path().join("stat")).unwrap_or_default();
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            moves |= state.is_some_and(|state| !matches!(state, 'T' | 't' | 'Z' | 'X'));
        }
        if !moves {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("process {pid} was told to stop and has not");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a server sends its greeting on this socket: four bytes of packet header, then protocol 10.
fn greets(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else { return false };
    let mut head = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(2))).is_ok()
        && stream.read_exact(&mut head).is_ok()
        && head[4] == 10
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = i32::try_from(child.id())?;
    // our own child, not waited for yet: the number cannot belong to anyone else
    kill(Pid::from_raw(pid), signal).map_err(|error| anyhow!("signalling process {pid}: {error}"))
}

/// Whether this process was started on this data folder.
fn names_datadir(pid: u32, datadir: &Path) -> bool {
    let wanted = flag("datadir", datadir);
    if let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) {
        return line.split(|byte| *byte == 0).any(|word| word == wanted.as_encoded_bytes());
    }
    let listed = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).output();
    listed.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).contains(wanted.to_string_lossy().as_ref())
    })
}

/// The last lines of what was written to a log after `from`.
fn tail(path: &Path, from: u64) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let new = bytes.get(usize::try_from(from).unwrap_or(0)..).unwrap_or_default();
    let text = String::from_utf8_lossy(new);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// `--name=path`
fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(path);
    flag
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn is_writable(dir: &Path) -> bool {
    let probe = dir.join(format!(".probe-{}", unique_name()));
    let made = File::create(&probe).is_ok();
    let _ = fs::remove_file(probe);
    made
}

/// Removes a folder that may not be there.
pub fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Copies files and folders; `fs::copy` shares blocks where the file system can.
fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
        } else if entry.file_type()?.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// FNV-1a: small, and good enough to spread names.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
