//! A server, or a tool, out of Debian's packages: fetched, pruned, and made to run from where it lies, with its own
//! libraries.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::servers::{lock, remove_dir, workspace_dir};

use super::apt::Apt;
use super::recipe::{Recipe, Wanted};
use crate::say;

/// What a test server never reads, two thirds of the whole.
const UNUSED: &[&str] = &[
    "etc",
    "var",
    "lib/systemd",
    "usr/lib/systemd",
    "usr/lib/mysql-testsuite",
    "usr/share/apport",
    "usr/share/bug",
    "usr/share/doc",
    "usr/share/gdb",
    "usr/share/info",
    "usr/share/libc-bin",
    "usr/share/lintian",
    "usr/share/locale",
    "usr/share/man",
];

/// The one program that others are read by.
const PERL: &str = "usr/bin/perl";

/// Whether a server was fetched whole, and runs.
pub fn is_complete(server: Wanted, prefix: &Path) -> bool {
    prefix.join(".complete").exists() && server.ensure_runs(prefix).is_ok()
}

/// Fetches a server into a folder.
pub fn fetch(server: Wanted, prefix: &Path) -> Result<()> {
    let recipe = server.recipe().with_context(|| format!("Debian has no {server}"))?;
    let start = Instant::now();
    let folder = prefix.parent().context("the prefix has no folder")?;
    fs::create_dir_all(folder)?;
    // one fetch at a time; whoever waited finds it done
    let _lock = lock(&prefix.with_extension("lock"))?;
    if is_complete(server, prefix) {
        return Ok(());
    }
    let (suite, megabytes) = (recipe.suite, recipe.megabytes);
    say!("fetching {server} from Debian {suite} into {} (once, about {megabytes} MB)", short(prefix));
    let partial = prefix.with_extension("partial");
    remove_dir(&partial)?;
    fs::create_dir_all(&partial)?;
    let apt = Apt::with_verified_lists(&partial.join(".apt"), suite, recipe.has_updates)?;
    let bytes = unpack(&recipe, &apt, &partial)?;
    prune(&recipe, &partial)?;
    for program in recipe.programs {
        write_launcher(&recipe, &partial, program)?;
    }
    remove_dir(&partial.join(".apt"))?;
    server.ensure_runs(&partial)?;
    fs::write(partial.join(".complete"), format!("{suite}\n"))?;
    remove_dir(prefix)?;
    fs::rename(&partial, prefix)?;
    say!("fetched {:.0} MB in {:.1} s", bytes as f64 / 1e6, start.elapsed().as_secs_f64());
    Ok(())
}

/// Unpacks the packages and as many libraries as they need; returns the bytes downloaded.
fn unpack(recipe: &Recipe, apt: &Apt, prefix: &Path) -> Result<u64> {
    let closure = apt.closure(recipe.packages)?;
    let is_absent = |name: &&str| !closure.contains(*name);
    let absent: Vec<&str> = recipe.packages.iter().copied().filter(is_absent).collect();
    ensure!(absent.is_empty(), "Debian {} has no {}", recipe.suite, absent.join(", "));
    let is_wanted = |name: &&String| is_one_of(name, recipe.packages) || is_one_of(name, recipe.libraries);
    let wanted: BTreeSet<String> = closure.iter().filter(is_wanted).cloned().collect();
    let mut bytes = apt.extract(&wanted, prefix)?;
    let missing = missing_libraries(recipe, prefix)?;
    if !missing.is_empty() {
        say!("{} missing: taking every dependency", join(&missing));
        let rest = closure.difference(&wanted).filter(|name| !name.contains("perl")).cloned().collect();
        bytes += apt.extract(&rest, prefix)?;
        let missing = missing_libraries(recipe, prefix)?;
        ensure!(missing.is_empty(), "still missing: {}", join(&missing));
    }
    Ok(bytes)
}

/// Whether a name is in a list, in which `*` stands for the rest of a name.
fn is_one_of(name: &str, list: &[&str]) -> bool {
    list.iter().any(|wanted| match wanted.strip_suffix('*') {
        Some(stem) => name.starts_with(stem),
        None => name == *wanted,
    })
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
fn missing_libraries(recipe: &Recipe, prefix: &Path) -> Result<BTreeSet<String>> {
    let loader = prefix.join(loader(prefix)?);
    let path: Vec<String> =
        library_dirs(prefix)?.iter().map(|dir| prefix.join(dir).display().to_string()).collect();
    let mut missing = BTreeSet::new();
    for program in recipe.programs {
        if is_script(&prefix.join(program))? {
            continue;
        }
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

/// Is it text that another program reads?
fn is_script(path: &Path) -> Result<bool> {
    let mut begin = [0; 2];
    let mut file = fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    Ok(file.read_exact(&mut begin).is_ok() && begin == *b"#!")
}

fn has_perl(recipe: &Recipe) -> bool {
    recipe.programs.contains(&PERL)
}

/// The folders of Perl's modules, relative to the prefix.
fn perl_dirs(prefix: &Path) -> Result<Vec<PathBuf>> {
    let mut dirs = vec![PathBuf::from("usr/share/perl5")];
    for base in library_dirs(prefix)?.into_iter().chain([PathBuf::from("usr/share")]) {
        dirs.push(base.join("perl-base"));
        for versions in ["perl5", "perl"] {
            for entry in entries(&prefix.join(&base).join(versions))? {
                let name = entry.file_name();
                if name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit()) {
                    dirs.push(base.join(versions).join(name));
                }
            }
        }
    }
    dirs.retain(|dir| prefix.join(dir).is_dir());
    Ok(dirs)
}

fn prune(recipe: &Recipe, prefix: &Path) -> Result<()> {
    for dir in UNUSED.iter().chain(recipe.unused) {
        remove_dir(&prefix.join(dir))?;
    }
    if !has_perl(recipe) {
        remove_dir(&prefix.join("usr/share/perl5"))?;
    }
    // error messages in other languages
    for share in ["usr/share/mysql", "usr/share/mariadb"] {
        for entry in entries(&prefix.join(share))? {
            let keep = ["english", "charsets"].iter().any(|name| entry.file_name() == *name);
            if entry.file_type()?.is_dir() && !keep {
                remove_dir(&entry.path())?;
            }
        }
    }
    for bin in ["usr/bin", "usr/sbin"] {
        for entry in entries(&prefix.join(bin))? {
            let path = entry.path();
            if !recipe.programs.iter().any(|program| prefix.join(program) == path) {
                fs::remove_file(path)?;
            }
        }
    }
    for dir in library_dirs(prefix)? {
        for entry in entries(&prefix.join(dir))? {
            let name = entry.file_name();
            let unused = is_one_of(&name.to_string_lossy(), &["gconv", "ossl-modules"])
                || (is_one_of(&name.to_string_lossy(), &["perl*"]) && !has_perl(recipe));
            if unused {
                remove_dir(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// What is in a folder that may not be there.
fn entries(dir: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.collect::<Result<_, _>>()?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("reading {}", dir.display())),
    }
}

/// Writes `bin/NAME`, which runs a program with the prefix's loader and libraries, wherever it lies.
fn write_launcher(recipe: &Recipe, prefix: &Path, program: &str) -> Result<()> {
    let loader = loader(prefix)?;
    let bin = prefix.join("bin");
    fs::create_dir_all(&bin)?;
    let name = Path::new(program).file_name().context("a program without a name")?;
    let plain = bin.join(name);
    let (path, folder, target) = if recipe.in_place {
        let folder = Path::new(program).parent().context("a program without a folder")?;
        let target = format!("{program}.bin");
        fs::rename(prefix.join(program), prefix.join(&target))?;
        std::os::unix::fs::symlink(Path::new("..").join(program), &plain)?;
        (prefix.join(program), folder.display().to_string(), target)
    } else {
        (plain, "bin".to_owned(), program.to_owned())
    };
    let plugins = match recipe.client_plugins {
        Some((variable, _)) => {
            format!("export {variable}=\"$home/{}\"\n", client_plugins(recipe, prefix)?.display())
        }
        None => String::new(),
    };
    let joined = |dirs: Vec<PathBuf>| -> String {
        dirs.iter().map(|dir| format!("$home/{}", dir.display())).collect::<Vec<_>>().join(":")
    };
    let modules = if has_perl(recipe) {
        format!("export PERL5LIB=\"{}\"\n", joined(perl_dirs(prefix)?))
    } else {
        String::new()
    };
    let reader = if is_script(&prefix.join(&target))? { format!("\"$home/{PERL}\" ") } else { String::new() };
    let text = format!(
        "#!/bin/sh\n\
         # runs {program} of this folder with the libraries of this folder only\n\
         home=$(readlink -f -- \"$0\")\n\
         home=${{home%/{folder}/*}}\n\
         {plugins}\
         {modules}\
         exec \"$home/{}\" --inhibit-cache --library-path \"{}\" {reader}\"$home/{target}\" \"$@\"\n",
        loader.display(),
        joined(library_dirs(prefix)?),
    );
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The folder of the clients' plugins, relative to the prefix.
fn client_plugins(recipe: &Recipe, prefix: &Path) -> Result<PathBuf> {
    let mut dirs = vec![PathBuf::from("usr/lib")];
    dirs.extend(library_dirs(prefix)?);
    let wanted = recipe.client_plugins.map_or("", |(_, folder)| folder);
    let plugins = dirs.into_iter().map(|dir| dir.join(wanted));
    let found = plugins.into_iter().find(|dir| prefix.join(dir).is_dir());
    found.with_context(|| format!("the packages hold no {wanted}"))
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// A path as seen from the workspace.
fn short(path: &Path) -> String {
    path.strip_prefix(workspace_dir()).unwrap_or(path).display().to_string()
}
