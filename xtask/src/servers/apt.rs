//! An apt of our own: its lists, its cache and its downloads lie in one folder, the system's stay as they
//! are, and signatures and hashes are verified all the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cdc_testkit::servers::{on_path, remove_dir, run};

use crate::say;

/// Whether this host has what is needed.
pub fn is_here() -> bool {
    ["apt-get", "apt-cache", "dpkg-deb"].iter().all(|name| on_path(name).is_some())
}

/// An apt whose whole state lives in one folder.
pub struct Apt {
    state: PathBuf,
    keyring: PathBuf,
    /// Address and suite of each list of packages.
    sources: Vec<(String, String)>,
}

impl Apt {
    /// The package lists of a suite, verified by the first keyring that can, and those of its corrections,
    /// as far as there are any.
    pub fn with_verified_lists(state: &Path, suite: &str, has_updates: bool) -> Result<Apt> {
        let mirror = mirror(state)?;
        let mut apt = Apt::of_suite(state, &mirror, suite)?;
        if has_updates {
            apt.add_if_there(mirror.clone(), format!("{suite}-updates"))?;
            if let Some(security) = security_mirror(&mirror) {
                apt.add_if_there(security, format!("{suite}-security"))?;
            }
        }
        Ok(apt)
    }

    fn of_suite(state: &Path, mirror: &str, suite: &str) -> Result<Apt> {
        let with = |keyring: PathBuf| {
            let sources = vec![(mirror.to_string(), suite.to_string())];
            let apt = Apt { state: state.to_path_buf(), keyring, sources };
            remove_dir(&state.join("lists"))?;
            apt.update().map(|()| apt)
        };
        let mut failures = Vec::new();
        for keyring in keyrings().into_iter().filter(|keyring| keyring.exists()) {
            match with(keyring) {
                Ok(apt) => return Ok(apt),
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        // a host older than the suite's key: the keyring package is itself verified by the host's apt
        match host_keyring(state).and_then(with) {
            Ok(apt) => return Ok(apt),
            Err(error) => failures.push(format!("{error:#}")),
        }
        bail!("no verified package lists of Debian {suite}:\n{}", failures.join("\n"))
    }

    /// Adds a suite of corrections. A mirror need not have it, and what it lacks is not missing: the
    /// packages of the suite itself are whole.
    fn add_if_there(&mut self, mirror: String, suite: String) -> Result<()> {
        self.sources.push((mirror, suite));
        if let Err(error) = self.update()
            && let Some((_, suite)) = self.sources.pop()
        {
            say!("without {suite}: {}", format!("{error:#}").lines().next().unwrap_or_default());
            self.write_sources()?;
        }
        Ok(())
    }

    /// Fetches the lists, and verifies them.
    fn update(&self) -> Result<()> {
        for dir in ["lists/partial", "cache/archives/partial", "debs"] {
            fs::create_dir_all(self.state.join(dir))?;
        }
        fs::write(self.state.join("status"), "")?;
        self.write_sources()?;
        run(self.command("apt-get").args(["-q=2", "--error-on=any", "update"]))?;
        Ok(())
    }

    fn write_sources(&self) -> Result<()> {
        let line = |(mirror, suite): &(String, String)| {
            format!("deb [signed-by={}] {mirror} {suite} main\n", self.keyring.display())
        };
        let lines: String = self.sources.iter().map(line).collect();
        Ok(fs::write(self.state.join("sources.list"), lines)?)
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
    pub fn closure(&self, roots: &[&str]) -> Result<BTreeSet<String>> {
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
    pub fn extract(&self, packages: &BTreeSet<String>, prefix: &Path) -> Result<u64> {
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

/// What an environment variable says, unless it is empty.
fn named(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The address from which this host takes the lists with this label, if it has fetched any.
fn labelled(label: &str) -> Result<Option<String>> {
    let listed = run(Command::new("apt-get").args(["indextargets", "--format", "$(LABEL) $(REPO_URI)"]))?;
    let of_label = |line: &str| Some(line.strip_prefix(label)?.strip_prefix(' ')?.to_string());
    Ok(listed.lines().find_map(of_label))
}

/// The mirror from which this host takes Debian.
fn mirror(scratch: &Path) -> Result<String> {
    if let Some(mirror) = named("DEB_MIRROR") {
        return Ok(mirror);
    }
    if let Some(mirror) = labelled("Debian")? {
        return Ok(mirror);
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

/// The mirror for security corrections: named, else the one this host uses, else where mirrors that have
/// them keep them, beside Debian itself.
fn security_mirror(mirror: &str) -> Option<String> {
    let beside = || {
        let base = mirror.trim_end_matches('/');
        base.ends_with("/debian").then(|| format!("{base}-security"))
    };
    named("DEB_SECURITY").or_else(|| labelled("Debian-Security").ok().flatten()).or_else(beside)
}

/// The keyrings that may verify Debian, best first.
fn keyrings() -> Vec<PathBuf> {
    match named("DEB_KEYRING") {
        Some(keyring) => vec![keyring.into()],
        None => keyrings_below(Path::new("/")).to_vec(),
    }
}

fn keyrings_below(root: &Path) -> [PathBuf; 2] {
    ["gpg", "pgp"].map(|end| root.join(format!("usr/share/keyrings/debian-archive-keyring.{end}")))
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
    let unpacked = keyrings_below(&dir.join("x")).into_iter().find(|path| path.exists());
    unpacked.context("the keyring package holds no keyring")
}
