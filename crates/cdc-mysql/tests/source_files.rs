//! A log from files: the same as from the server that wrote them; and files that are damaged, incomplete or not the
//! right ones.

mod common;

use anyhow::{Context, Result, bail, ensure};
use cdc_core::{Error, codes};
use cdc_mysql::binlog::{LogItem, LogPoint, LogReader};
use cdc_mysql::capture::{Capture, CaptureItem, CaptureState};
use cdc_mysql::config::{Config, Named, StartMode, Tls};
use cdc_mysql::gtid::GtidSet;
use cdc_mysql::structure::TableStructures;
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::{Server, ServerOptions, fresh_dir, remove_dir};
use common::config;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        Ok(Folder(fresh_dir("files")?))
    }

    /// Copies the server's log files.
    fn of(server: &Server) -> Result<Folder> {
        let folder = Folder::new()?;
        for path in log_files(server.datadir())? {
            fs::copy(&path, folder.0.join(path.file_name().context("a name")?))?;
        }
        Ok(folder)
    }

    fn copy(&self) -> Result<Folder> {
        let folder = Folder::new()?;
        for path in log_files(&self.0)? {
            fs::copy(&path, folder.0.join(path.file_name().context("a name")?))?;
        }
        Ok(folder)
    }

    fn files(&self) -> Result<Vec<PathBuf>> {
        log_files(&self.0)
    }

    fn last(&self) -> Result<PathBuf> {
        self.files()?.pop().context("a file")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = remove_dir(&self.0);
    }
}

fn log_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let numbered = name.rsplit_once('.').is_some_and(|(_, n)| n.bytes().all(|b| b.is_ascii_digit()));
        if name.starts_with("binlog.") && numbered {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// A source of these files; nothing listens at its url.
fn of_files(folder: &Folder, tables: &[&str]) -> Config {
    let mut config = common::config_at(1, tables);
    config.files = Some(Named::from(&*folder.0.join("binlog.*")));
    config.start = StartMode::Earliest;
    config
}

/// All that is given out up to the end: a line for each, without the place in the log.
#[derive(Debug, Default)]
struct Read {
    lines: Vec<String>,
    /// Behind each transaction, with the lines up to there.
    states: Vec<(CaptureState, usize)>,
    notices: Vec<String>,
}

impl Read {
    fn take(&mut self, item: CaptureItem) {
        match item {
            CaptureItem::Changes { schema, origin, changes } => {
                for change in changes {
                    self.lines.push(format!("{} {} v{} {change:?}", origin.gtid, schema.id, schema.version));
                }
            }
            CaptureItem::Schema { changes, origin, .. } => {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                self.lines.push(format!("{} {}", origin.gtid, changes.join("; ")));
            }
            CaptureItem::TransactionEnd | CaptureItem::Moved => {}
            CaptureItem::Notice(notice) => self.notices.push(notice.to_string()),
            other => panic!("{other:?}"),
        }
    }
}

async fn read(config: Config) -> Result<Read> {
    let mut capture = Capture::start(config).await?;
    follow(&mut capture, None).await
}

/// To the end of the files, or to these transactions of a server.
async fn follow(capture: &mut Capture, end: Option<&GtidSet>) -> Result<Read> {
    let mut read = Read::default();
    loop {
        if let Some(end) = end
            && capture.at_boundary()
            && GtidSet::parse(&capture.position().gtids)?.contains_set(end)
        {
            return Ok(read);
        }
        let item = tokio::time::timeout(std::time::Duration::from_secs(20), capture.next()).await??;
        match item {
            CaptureItem::TransactionEnd => {
                if capture.at_boundary() {
                    read.states.push((capture.state(), read.lines.len()));
                }
            }
            CaptureItem::End => {
                ensure!(capture.at_boundary(), "an end inside a transaction");
                return Ok(read);
            }
            other => read.take(other),
        }
    }
}

async fn refused(config: Config) -> Result<Error> {
    match read(config).await {
        Ok(read) => bail!("not refused: {} lines, {:?}", read.lines.len(), read.notices),
        Err(error) => Ok(error.downcast::<Error>()?),
    }
}

/// A log of several files with all that a log has.
fn write_log(server: &Server) -> Result<()> {
    let compressed = if server.kind().is_mariadb() {
        "SET GLOBAL log_bin_compress_min_len = 10, GLOBAL log_bin_compress = ON; INSERT INTO f.t VALUES (50, REPEAT('c', 500), 0);
         UPDATE f.t SET v = 9 WHERE id = 50; SET GLOBAL log_bin_compress = OFF"
    } else {
        "SET SESSION binlog_transaction_compression = ON; BEGIN; INSERT INTO f.t VALUES (50, REPEAT('c', 500), 0);
         UPDATE f.t SET v = 9 WHERE id = 50; COMMIT; INSERT INTO f.t VALUES (51, REPEAT('d', 500), 0)"
    };
    server.sql(&format!(
        "CREATE DATABASE f; USE f; CREATE TABLE t (id INT PRIMARY KEY, t VARCHAR(4000), v INT); CREATE TABLE u (id INT PRIMARY KEY);
         CREATE TABLE other (id INT PRIMARY KEY); INSERT INTO t VALUES (1, 'one', 1), (2, 'zwei', 2);
         BEGIN; UPDATE t SET v = v + 1; INSERT INTO u VALUES (1); INSERT INTO other VALUES (1); SAVEPOINT s; COMMIT;
         FLUSH BINARY LOGS; {compressed}; ALTER TABLE t ADD COLUMN w DATE AFTER id; INSERT INTO t VALUES (3, '2026-01-01', 'x', 3);
         XA START 'x'; INSERT INTO u VALUES (7); XA END 'x'; XA PREPARE 'x'"
    ))?;
    // another session: this one may do nothing but end its branch
    server.sql(
        "USE f; FLUSH BINARY LOGS; XA COMMIT 'x';
         CREATE TABLE s (PRIMARY KEY (id)) AS SELECT id FROM u; RENAME TABLE u TO r; DELETE FROM r WHERE id = 1;
         XA START 'y'; INSERT INTO r VALUES (8); XA END 'y'; XA PREPARE 'y'; XA ROLLBACK 'y'; DROP TABLE s; DELETE FROM t WHERE id > 2",
    )?;
    Ok(())
}

const TABLES: &[&str] = &["f.*", "!f.other"];

fn start() -> Result<Server> {
    Server::start(ServerOptions::of_this_run())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_give_what_their_server_gives() -> Result<()> {
    let server = start()?;
    write_log(&server)?;
    let end = GtidSet::parse(&server.executed()?)?;
    let mut live = config(&server, TABLES);
    live.start = StartMode::Earliest;
    let live = follow(&mut Capture::start(live).await?, Some(&end)).await?;
    let folder = Folder::of(&server)?;
    // nobody to ask
    drop(server);
    let config = of_files(&folder, TABLES);
    let all = read(config.clone()).await?;
    ensure!(all.lines == live.lines, "{:#?}\nthe server gives {:#?}", all.lines, live.lines);
    ensure!(all.notices.is_empty(), "{:?}", all.notices);
    // from behind every transaction
    for (state, given) in &all.states {
        let state: CaptureState = serde_json::from_str(&serde_json::to_string(state)?)?;
        let rest = follow(&mut Capture::resume(config.clone(), &state).await?, None).await?;
        ensure!(rest.lines == all.lines[*given..], "{}: {:#?}", state.position, rest.lines);
    }
    // other starts
    let (middle, given) = &all.states[all.states.len() / 2];
    let gtids = GtidSet::parse(&middle.position.gtids)?;
    let mut by_gtids = config.clone();
    by_gtids.start = StartMode::Gtids(gtids);
    let rest = read(by_gtids).await?.lines;
    let rows = |lines: &[String]| lines.iter().filter(|l| l.contains("RowChange")).count();
    ensure!(rows(&rest) == rows(&all.lines[*given..]), "{rest:#?}");
    let mut by_file = config.clone();
    by_file.start = StartMode::File(middle.position.file.to_string(), middle.position.offset);
    ensure!(rows(&read(by_file).await?.lines) == rows(&all.lines[*given..]));
    let mut future = config.clone();
    future.start = StartMode::Timestamp(i64::MAX);
    ensure!(read(future).await?.lines.is_empty());
    // the index that the server keeps, with the paths of its own folder
    let names: Vec<String> = folder
        .files()?
        .iter()
        .map(|p| format!("/elsewhere/{}", p.file_name().unwrap_or_default().display()))
        .collect();
    fs::write(folder.0.join("binlog.index"), names.join("\n"))?;
    let mut by_index = config.clone();
    by_index.files = Some(Named::from(&*folder.0.join("binlog.index")));
    ensure!(read(by_index).await?.lines == all.lines);
    eprintln!("{} lines, {} positions", all.lines.len(), all.states.len());
    Ok(())
}

/// A file that is cut off anywhere ends behind its last whole transaction if its server still writes it, and is an error
/// if not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_that_are_cut_off() -> Result<()> {
    let server = start()?;
    write_log(&server)?;
    let folder = Folder::of(&server)?;
    drop(server);
    let config = of_files(&folder, TABLES);
    let all = read(config.clone()).await?;
    let last = folder.last()?;
    let whole = fs::read(&last)?;
    ensure!(flags(&whole) & 1 == 1, "the file is not in use");
    let (mut told, mut quiet) = (0, 0);
    for length in (130..whole.len()).step_by(11) {
        fs::write(&last, &whole[..length])?;
        let Ok(cut) = read(config.clone()).await else {
            // not even its format description
            ensure!(length < 4 + size(&whole, 4), "refused at {length}");
            continue;
        };
        ensure!(all.lines.starts_with(&cut.lines), "cut at {length}: {:#?}", cut.lines);
        if cut.notices.is_empty() {
            quiet += 1;
        } else {
            told += 1;
            ensure!(
                cut.notices[0].contains("still in use") && cut.notices[0].contains("byte"),
                "{:?}",
                cut.notices
            );
        }
    }
    ensure!(told > 50, "{told} told, {quiet} not");
    // closed files: an end anywhere but between transactions is an error, with the file and the byte
    let mut closed = whole.clone();
    closed[4 + 17] &= !1;
    let (mut errors, mut ends) = (0, 0);
    for length in (4 + size(&whole, 4)..closed.len()).step_by(37) {
        fs::write(&last, &closed[..length])?;
        match read(config.clone()).await {
            Ok(cut) => {
                ends += 1;
                ensure!(all.lines.starts_with(&cut.lines) && cut.notices.is_empty());
            }
            Err(error) => {
                errors += 1;
                let error = error.downcast::<Error>()?;
                let text = error.to_string();
                ensure!(error.code() == codes::LOG_CORRUPT && text.contains(" at byte "), "{text}");
                ensure!(text.contains(&last.display().to_string()), "{text}");
            }
        }
    }
    ensure!(errors > 20 && ends < errors / 4, "{errors} errors, {ends} ends");
    // not the last file
    fs::write(&last, &whole)?;
    let first = folder.files()?.remove(0);
    let bytes = fs::read(&first)?;
    fs::write(&first, &bytes[..bytes.len() - 100])?;
    let error = refused(config.clone()).await?;
    ensure!(error.code() == codes::LOG_CORRUPT && error.to_string().contains("000001"), "{error}");
    eprintln!("{told} told, {quiet} between transactions, {errors} errors");
    Ok(())
}

/// A flipped byte anywhere is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_with_a_flipped_byte() -> Result<()> {
    let server = start()?;
    write_log(&server)?;
    let folder = Folder::of(&server)?;
    drop(server);
    let config = of_files(&folder, TABLES);
    let all = read(config.clone()).await?;
    let middle = folder.files()?.remove(1);
    let whole = fs::read(&middle)?;
    // the byte that says how checksums are made is found out as well
    let mut bytes = whole.clone();
    bytes[4 + size(&whole, 4) - 5] ^= 1;
    fs::write(&middle, &bytes)?;
    ensure!(refused(config.clone()).await?.code() == codes::LOG_CORRUPT);
    let (mut in_use, mut at) = (Vec::new(), 4);
    while at < whole.len() {
        in_use.push(at + 17);
        at += size(&whole, at);
    }
    let mut errors = 0;
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&middle, &bytes)?;
        match read(config.clone()).await {
            // the flag that says whether the file is in use is no part of the checksum, in no event
            Ok(read) => {
                ensure!(
                    at % 8 == 0 && in_use.contains(&at) && read.lines == all.lines,
                    "byte {at} is not missed"
                );
            }
            Err(error) => {
                errors += 1;
                let error = error.downcast::<Error>()?;
                ensure!(!error.is_transient(), "byte {at}: {error}");
                let known = [codes::LOG_CORRUPT, codes::SETTING_WRONG, codes::SERVER_CHANGED];
                ensure!(known.contains(&error.code()), "byte {at}: {error}");
            }
        }
    }
    eprintln!("{errors} flipped bytes found");
    Ok(())
}

/// Without checksums a flipped byte may be anything but a panic.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_without_checksums() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run().with("--binlog-checksum=NONE"))?;
    write_log(&server)?;
    let folder = Folder::of(&server)?;
    drop(server);
    let config = of_files(&folder, TABLES);
    let all = read(config.clone()).await?;
    ensure!(all.lines.len() > 15, "{:#?}", all.lines);
    let middle = folder.files()?.remove(1);
    let whole = fs::read(&middle)?;
    let mut errors = 0;
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&middle, &bytes)?;
        errors += usize::from(read(config.clone()).await.is_err());
    }
    eprintln!("{errors} of {} flipped bytes found", whole.len() / 5);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_that_are_missing_or_of_something_else() -> Result<()> {
    let server = start()?;
    write_log(&server)?;
    let folder = Folder::of(&server)?;
    let files = folder.files()?;
    ensure!(files.len() == 3, "{files:?}");
    let refusal = |folder: &Folder| refused(of_files(folder, TABLES));
    // a gap in the numbers
    let gap = folder.copy()?;
    fs::remove_file(&gap.files()?[1])?;
    let error = refusal(&gap).await?;
    ensure!(error.code() == codes::LOG_PURGED && error.to_string().contains("000001"), "{error}");
    // one that only the log knows of
    fs::rename(gap.last()?, gap.0.join("binlog.000002"))?;
    let error = refusal(&gap).await?;
    ensure!(
        error.code() == codes::LOG_PURGED && error.to_string().contains("transactions in front of"),
        "{error}"
    );
    // an order that is none
    let swapped = folder.copy()?;
    fs::copy(&files[0], swapped.0.join("binlog.000002"))?;
    let error = refusal(&swapped).await?;
    ensure!([codes::SERVER_CHANGED, codes::LOG_POSITION].contains(&error.code()), "{error}");
    // a position in front of the first
    let mut later = of_files(&folder, TABLES);
    later.start = StartMode::File("binlog.000099".into(), 4);
    let error = refused(later).await?;
    ensure!(error.code() == codes::LOG_PURGED && error.to_string().contains("binlog.000099"), "{error}");
    let tail = folder.copy()?;
    fs::remove_file(&tail.files()?[0])?;
    let mut from = of_files(&tail, TABLES);
    from.start = StartMode::Gtids(GtidSet::new());
    // from nothing on, and the first files are not there
    let error = refused(from).await?;
    ensure!(error.code() == codes::LOG_PURGED, "{error}");
    // no log at all, encrypted, another kind of server
    let damaged = folder.copy()?;
    let first = damaged.files()?.remove(0);
    let whole = fs::read(&first)?;
    for (magic, code) in
        [(b"\xfebim", codes::LOG_CORRUPT), (b"\xfdbin", codes::SETTING_WRONG), (b"PNG\0", codes::LOG_CORRUPT)]
    {
        fs::write(&first, [&magic[..], &whole[4..]].concat())?;
        let error = refusal(&damaged).await?;
        ensure!(error.code() == code && error.to_string().contains("binlog.000001"), "{error}");
    }
    fs::write(&first, [])?;
    ensure!(refusal(&damaged).await?.code() == codes::LOG_CORRUPT);
    // MariaDB's encrypted log says so in its second event
    let mut bytes = whole.clone();
    let second = 4 + size(&bytes, 4);
    bytes[second + 4] = 164;
    mend(&mut bytes, second);
    fs::write(&first, &bytes)?;
    let error = refusal(&damaged).await?;
    ensure!(error.code() == codes::SETTING_WRONG && error.to_string().contains("encrypted"), "{error}");
    fs::write(&first, &whole)?;
    let last = damaged.last()?;
    let mut bytes = fs::read(&last)?;
    let other = if server.kind().is_mariadb() { "9.7.4" } else { "10.11.19-MariaDB-log" };
    bytes[4 + 19 + 2..4 + 19 + 52].fill(0);
    bytes[4 + 19 + 2..][..other.len()].copy_from_slice(other.as_bytes());
    mend(&mut bytes, 4);
    fs::write(&last, &bytes)?;
    let error = refusal(&damaged).await?;
    ensure!(error.code() == codes::SERVER_CHANGED && error.to_string().contains("MariaDB"), "{error}");
    // nothing there, and starts that need a server
    let empty = Folder::new()?;
    let error = refusal(&empty).await?;
    ensure!(error.code() == codes::FILE_UNREADABLE && !error.diagnostic().help.is_empty(), "{error}");
    for start in [StartMode::Initial, StartMode::Snapshot, StartMode::Latest] {
        let mut config = of_files(&folder, TABLES);
        config.start = start;
        let error = refused(config).await?;
        ensure!(
            error.code() == codes::OPTION_VALUE && error.to_string().contains("start = earliest"),
            "{error}"
        );
    }
    Ok(())
}

/// Files of a server without full metadata need the structures that they begin with.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_without_metadata_take_structures_from_a_schema_file() -> Result<()> {
    let server = Server::start(ServerOptions::of_this_run().with("--binlog-row-metadata=MINIMAL"))?;
    let create = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), b INT UNSIGNED)";
    server.sql(&format!(
        "CREATE DATABASE f; USE f; {create}; FLUSH BINARY LOGS; INSERT INTO t VALUES (1, 'x', 4000000000);
        ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES (2, 2)"
    ))?;
    let folder = Folder::of(&server)?;
    let mut config = of_files(&folder, &["f.*"]);
    ensure!(read(config.clone()).await?.lines.len() == 4, "CREATE TABLE is in the log");
    fs::remove_file(&folder.files()?[0])?;
    let error = refused(config.clone()).await?;
    ensure!(error.code() == codes::STRUCTURE_UNKNOWN, "{error}");
    let schema = folder.0.join("schema.sql");
    fs::write(&schema, create)?;
    config.schema = Some(Named::from(&*schema));
    let read = read(config.clone()).await?;
    ensure!(read.lines.len() == 3, "{:#?}", read.lines);
    fs::write(&schema, "CREATE TABLE t (id INT PRIMARY KEY, b INT UNSIGNED)")?;
    let error = refused(config).await?;
    ensure!(
        [codes::STRUCTURE_DIFFERS, codes::DDL_UNSUPPORTED, codes::DDL_NOT_UNDERSTOOD].contains(&error.code()),
        "{error}"
    );
    Ok(())
}

/// The position of an event is its end's low 32 bits: a file that grows beyond them goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn positions_beyond_4_gib() -> Result<()> {
    let server = start()?;
    write_log(&server)?;
    let folder = Folder::of(&server)?;
    drop(server);
    let config = of_files(&folder, TABLES);
    let all = read(config.clone()).await?;
    let last = folder.last()?;
    let mut bytes = fs::read(&last)?;
    // as if so many bytes lay in front of the second event
    let shift = u32::MAX - bytes.len() as u32 / 2;
    let mut at = 4 + size(&bytes, 4);
    while at < bytes.len() {
        let place = at + 13..at + 17;
        let end = u32::from_le_bytes(bytes[place.clone()].try_into()?);
        if end != 0 {
            bytes[place].copy_from_slice(&end.wrapping_add(shift).to_le_bytes());
        }
        mend(&mut bytes, at);
        at += size(&bytes, at);
    }
    fs::write(&last, &bytes)?;
    let beyond = read(config.clone()).await?;
    ensure!(beyond.lines == all.lines, "{:#?}", beyond.lines);
    let before: Vec<_> = all.states.iter().map(|(s, _)| s.position.clone()).collect();
    let name = last.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (position, (state, _)) in before.iter().zip(&beyond.states) {
        let shifted = position.offset + if *position.file == *name { u64::from(shift) } else { 0 };
        ensure!(state.position.offset == shifted, "{} and {position}", state.position);
    }
    ensure!(beyond.states.last().is_some_and(|(s, _)| s.position.offset > u64::from(u32::MAX)));
    Ok(())
}

/// The reader alone: an end that is asked for again is the same, and points are those of the files.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_of_files_ends() -> Result<()> {
    let server = start()?;
    write_log(&server)?;
    let folder = Folder::of(&server)?;
    let config = of_files(&folder, TABLES);
    let first = LogPoint::new("binlog.000001", 4);
    let mut reader = LogReader::from_file(config, first, TableStructures::new());
    let mut points = vec![reader.point().clone()];
    loop {
        if let LogItem::End(_) = reader.next().await? {
            break;
        }
        ensure!(
            reader.point().has_reached(&points[points.len() - 1]),
            "{} behind {points:?}",
            reader.point()
        );
        points.push(reader.point().clone());
    }
    ensure!(matches!(reader.next().await?, LogItem::End(None)));
    let length = fs::metadata(folder.last()?)?.len();
    ensure!(*reader.point() == LogPoint::new("binlog.000003", length), "{}", reader.point());
    ensure!(*reader.gtids() == GtidSet::parse(&server.executed()?)?, "{}", reader.gtids());
    Ok(())
}

/// On the way from a server: found too, or the connection fails and the log is asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stream_with_a_flipped_byte() -> Result<()> {
    let server = start()?;
    let begin = GtidSet::parse(&server.executed()?)?;
    write_log(&server)?;
    let end = GtidSet::parse(&server.executed()?)?;
    let proxy = Proxy::start(server.port())?;
    let from = |port| {
        let mut config = common::config_at(port, TABLES);
        // TLS would find it by itself
        config.tls = Tls::Disabled;
        config.start = StartMode::Gtids(begin.clone());
        config
    };
    let all = follow(&mut Capture::start(from(server.port())).await?, Some(&end)).await?;
    let (mut corrupt, mut again, mut unseen) = (0, 0, 0);
    // checksums are looked at in one place for both flavors: each byte costs a connection that is given up
    let step = if server.kind().is_mariadb() { 393 } else { 131 };
    for after in (0..5000).step_by(step) {
        // another byte of the stream, not of what is asked before
        let mut capture = Capture::start(from(proxy.port())).await?;
        proxy.flip_after(after);
        match tokio::time::timeout(std::time::Duration::from_secs(40), flips(&mut capture, &end)).await? {
            (read, None) => {
                ensure!(read.lines == all.lines, "byte {after}: {:#?}", read.lines);
                match read.notices.is_empty() {
                    true => unseen += 1,
                    false => again += 1,
                }
            }
            (read, Some(error)) => {
                corrupt += 1;
                ensure!(all.lines.starts_with(&read.lines), "byte {after}: {:#?}", read.lines);
                ensure!(error.code() == codes::LOG_CORRUPT, "byte {after}: {error}");
            }
        }
        proxy.flip_after(u32::MAX);
    }
    eprintln!("{corrupt} refused, {again} read again, {unseen} outside of events");
    ensure!(corrupt + again >= 1310 / step, "hardly an event was hit");
    Ok(())
}

/// What is given out up to an error, and the error.
async fn flips(capture: &mut Capture, end: &GtidSet) -> (Read, Option<Error>) {
    let mut read = Read::default();
    loop {
        if capture.at_boundary()
            && GtidSet::parse(&capture.position().gtids).is_ok_and(|g| g.contains_set(end))
        {
            return (read, None);
        }
        match capture.next().await {
            Ok(item) => read.take(item),
            Err(error) => return (read, Some(error)),
        }
    }
}

fn flags(file: &[u8]) -> u16 {
    u16::from_le_bytes([file[4 + 17], file[4 + 18]])
}

fn size(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes([file[at + 9], file[at + 10], file[at + 11], file[at + 12]]) as usize
}

/// Writes the checksum of the event at this byte anew; the flag that says that the file is in use is no part of it.
fn mend(file: &mut [u8], at: usize) {
    let end = at + size(file, at);
    let mut event = file[at..end - 4].to_vec();
    if event[4] == 15 {
        event[17] &= !1;
    }
    let mut crc = u32::MAX;
    for byte in event {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    file[end - 4..end].copy_from_slice(&(!crc).to_le_bytes());
}
