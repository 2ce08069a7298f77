//! A server's programs and files, and the data folder that every server begins with.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

use super::{
    ServerKind, copy_tree, flag, fnv, is_program, is_writable, lock, on_path, programs_on_path, remove_dir,
    run, servers_dir, with_suffix,
};

const ACCOUNTS: &str = "\
CREATE USER 'root'@'%' IDENTIFIED BY 'root';
GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;
CREATE USER 'cdc'@'%' IDENTIFIED BY 'cdc';
GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT, RELOAD, SHOW VIEW ON *.* TO 'cdc'@'%';
";

/// The scripts, in this order, out of which a MariaDB makes its system tables; `*` is `mysql` up to 10.11
/// and `mariadb` in later series.
const MARIADB_SCRIPTS: [&str; 6] = [
    "*_system_tables.sql",
    "*_performance_tables.sql",
    "*_system_tables_data.sql",
    "fill_help_tables.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "*_sys_schema.sql",
];

/// What comes before the scripts. They ask these variables how root is to log in (unset: by password,
/// which is empty), and whether there shall be an account without a name; it would be found before
/// `'cdc'@'%'` whenever somebody connects through the socket.
const MARIADB_BEFORE: &str = "\
CREATE DATABASE mysql;
USE mysql;
SET @auth_root_socket = NULL, @skip_auth_anonymous = 1;
";

/// What comes after the scripts: of the accounts of root that they make, one is for this host's name.
const MARIADB_AFTER: &str = "\
DELETE FROM mysql.global_priv WHERE Host <> 'localhost';
DELETE FROM mysql.proxies_priv WHERE Host <> 'localhost';
FLUSH PRIVILEGES;
";

/// A server program and the programs that came with it.
#[derive(Clone, Debug)]
pub struct Installation {
    kind: ServerKind,
    server: PathBuf,
    /// The folder that `cargo xtask servers` made, if the program lies in one.
    prefix: Option<PathBuf>,
    /// For a program that does not find its files by itself.
    layout: Option<Layout>,
}

/// Where a server program's own files are.
#[derive(Clone, Debug)]
struct Layout {
    basedir: PathBuf,
    /// Messages, character sets and SQL scripts.
    share: PathBuf,
}

impl Layout {
    fn of_basedir(basedir: &Path) -> Option<Layout> {
        let folders = ["share/mysql", "share/mariadb", "share"].map(|folder| basedir.join(folder));
        let share = folders.into_iter().find(|share| share.join("charsets").is_dir())?;
        Some(Layout { basedir: basedir.to_path_buf(), share })
    }

    fn options(&self) -> Vec<OsString> {
        let mut options = vec![
            flag("basedir", &self.basedir),
            flag("lc-messages-dir", &self.share),
            flag("character-sets-dir", &self.share.join("charsets")),
        ];
        let plugins = self.basedir.join("lib/mysql/plugin");
        if plugins.is_dir() {
            options.push(flag("plugin-dir", &plugins));
        }
        options
    }

    /// One of [`MARIADB_SCRIPTS`].
    fn script(&self, name: &str) -> Result<String> {
        let candidates = ["mysql", "mariadb"].map(|stem| self.share.join(name.replace('*', stem)));
        let path = candidates.iter().find(|path| path.exists());
        let path = path.with_context(|| format!("no {name} in {}", self.share.display()))?;
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    }
}

impl Installation {
    /// Finds a server, in the order of the [module's](super) list.
    pub fn find(kind: ServerKind) -> Result<Installation> {
        let (variable, program) = (kind.variable(), kind.program());
        if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            ensure!(is_program(&path), "{variable}={} is not a program", path.display());
            let named = Installation::of_program(kind, path);
            let version = named.version()?;
            ensure!(kind.accepts(&version), "{variable} names another server than {kind}: {version}");
            return Ok(named);
        }
        let prefix = servers_dir().join(kind.folder());
        let server = prefix.join("bin").join(program);
        if prefix.join(".complete").exists() && is_program(&server) {
            return Ok(Installation::of_program(kind, server));
        }
        let right = |found: &Installation| found.version().is_ok_and(|version| kind.accepts(&version));
        if let Some(found) =
            programs_on_path(program).map(|path| Installation::of_program(kind, path)).find(right)
        {
            return Ok(found);
        }
        bail!(
            "no {program} of {kind} found: run `cargo xtask servers`, or set {variable}= to the path of one"
        )
    }

    /// The installation to which this server program belongs.
    fn of_program(kind: ServerKind, server: PathBuf) -> Installation {
        let server = server.canonicalize().unwrap_or(server);
        let home = server.parent().and_then(Path::parent);
        let fetched = home.and_then(|home| Layout::of_basedir(&home.join("usr")));
        let prefix = home.filter(|_| fetched.is_some()).map(Path::to_path_buf);
        // elsewhere MySQL goes by where it lies, MariaDB by where it was built to lie
        let unpacked = || home.filter(|_| kind.is_mariadb()).and_then(Layout::of_basedir);
        let layout = fetched.or_else(unpacked);
        Installation { kind, server, prefix, layout }
    }

    /// Which server it is.
    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// The server program.
    pub fn server(&self) -> &Path {
        &self.server
    }

    /// What the server program says of its version.
    pub fn version(&self) -> Result<String> {
        let output = run(Command::new(&self.server).arg("--no-defaults").arg("--version"))?;
        let text = output.trim();
        Ok(text.find("Ver ").map_or(text, |at| &text[at..]).to_string())
    }

    /// A client program, by the name that MySQL gives it, such as `mysql` or `mysqlbinlog` (see
    /// [`ServerKind::client_name`]): beside the server, else in a `bin` near it (distributions put the
    /// server in `sbin`), else on `PATH`.
    pub fn client(&self, name: &str) -> Result<PathBuf> {
        let name = self.kind.client_name(name);
        let beside = self.server.parent().map(|dir| dir.join(&name));
        let near = self.server.parent().and_then(Path::parent).map(|dir| dir.join("bin").join(&name));
        [beside, near]
            .into_iter()
            .flatten()
            .find(|path| is_program(path))
            .or_else(|| on_path(&name))
            .with_context(|| format!("no {name} beside {} nor on PATH", self.server.display()))
    }

    /// Options that every call of the server program needs.
    pub(super) fn common_options(&self) -> Vec<OsString> {
        let mut options = vec![OsString::from("--no-defaults")];
        options.extend(self.layout.iter().flat_map(Layout::options));
        // the server refuses to run as root unless told so
        if geteuid().is_root() {
            options.push("--user=root".into());
        }
        options
    }

    /// Where this installation's template lies.
    fn template(&self) -> Result<PathBuf> {
        if let Some(prefix) = &self.prefix
            && is_writable(prefix)
        {
            return Ok(prefix.join(".template"));
        }
        // one a version: a data folder of a newer version does not open in an older one
        let name = format!("{}|{}", self.server.display(), self.version()?);
        Ok(servers_dir().join(format!(".template-{:016x}", fnv(name.as_bytes()))))
    }

    /// Fills an empty data folder from the template, which is made first if need be.
    pub(super) fn fill_datadir(&self, datadir: &Path) -> Result<()> {
        let template = self.template()?;
        let marker = template.join("ibdata1");
        if !marker.exists() {
            let folder = template.parent().context("the template has no folder")?;
            fs::create_dir_all(folder)?;
            let _lock = lock(&template.with_extension("lock"))?;
            if !marker.exists() {
                let fresh = template.with_extension("new");
                remove_dir(&fresh)?;
                self.initialise(&fresh)?;
                remove_dir(&template)?;
                fs::rename(&fresh, &template)?;
            }
        }
        copy_tree(&template, datadir)
            .with_context(|| format!("copying {} to {}", template.display(), datadir.display()))
    }

    /// Makes system tables and accounts, outside of any log.
    fn initialise(&self, datadir: &Path) -> Result<()> {
        fs::create_dir_all(datadir)?;
        let script = with_suffix(datadir, ".sql");
        let log = with_suffix(datadir, ".log");
        fs::write(&script, self.first_statements()?)?;
        let output = File::create(&log)?;
        let mut command = Command::new(&self.server);
        command.args(self.common_options()).arg(flag("datadir", datadir));
        if self.kind.is_mariadb() {
            // the small log of changes is made anew, in the size that is asked for, at the first start
            command.args(["--bootstrap", "--innodb-log-file-size=8M", "--max-allowed-packet=64M"]);
            // it clears its folder of temporary tables when it starts, those of one that starts beside it too
            command.arg(flag("tmpdir", datadir));
            command.stdin(File::open(&script)?);
        } else {
            command.arg("--initialize-insecure").arg(flag("init-file", &script));
            command.args(["--performance-schema=OFF", "--innodb-redo-log-capacity=8M", "--mysqlx=OFF"]);
            command.stdin(Stdio::null());
        }
        let status = command
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .with_context(|| format!("running {}", self.server.display()))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        fs::remove_file(&script)?;
        fs::remove_file(&log)?;
        ensure!(status.success(), "initialising a data folder failed ({status}):\n{text}");
        // it holds the uuid of a MySQL server, which every copy must draw anew
        let _ = fs::remove_file(datadir.join("auto.cnf"));
        Ok(())
    }

    /// What a new data folder is given: MySQL makes its system tables by itself, MariaDB is told.
    fn first_statements(&self) -> Result<String> {
        if !self.kind.is_mariadb() {
            return Ok(ACCOUNTS.to_string());
        }
        let layout = self.layout.as_ref();
        let layout = layout.with_context(|| format!("no share folder near {}", self.server.display()))?;
        let scripts = MARIADB_SCRIPTS.map(|name| layout.script(name));
        let scripts = scripts.into_iter().collect::<Result<String>>()?;
        Ok([MARIADB_BEFORE, &scripts, MARIADB_AFTER, ACCOUNTS].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::fresh_dir;

    /// Two data folders made at the same time: each MariaDB threw the other's temporary tables away, and
    /// one of them ended with "Unknown table".
    #[test]
    fn making_a_data_folder_leaves_other_servers_temporary_tables() -> Result<()> {
        for kind in ServerKind::ALL.into_iter().filter(|kind| kind.is_mariadb()) {
            let other = std::env::temp_dir().join(format!("#sql-temptable-of-another-{kind}"));
            fs::write(&other, "")?;
            let folder = fresh_dir("initialise")?;
            Installation::find(kind)?.initialise(&folder)?;
            ensure!(other.exists(), "{kind} removed {}", other.display());
            fs::remove_file(&other)?;
            remove_dir(&folder)?;
        }
        Ok(())
    }
}
