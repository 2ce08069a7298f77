//! A log from files: for replays, tests and benches, with no server.
//!
//! *Which files.* A path whose last part may hold `*` and `?`, or the index that a server keeps of its log
//! (`binlog.index`, a name in each line). They are read in the order of their numbers, which must follow each other.
//! That nothing is missing between them is checked by the log's own words too: each file says which transactions are in
//! those before it.
//!
//! *Framing.* A file is four bytes of magic and then events, each with its length in its header. Lengths are checked
//! against the file before anything is taken from it, so that a damaged file is an error with a name and a byte. The
//! library's reader is given whole events only: it panics on others.
//!
//! *The end.* The last file may be one that its server still writes, or was writing when it died; its header says so
//! (LOG_EVENT_BINLOG_IN_USE_F). Then what is behind its last whole transaction is left out, and told. To know where that
//! is, the last file's headers are looked through before it is read. In any other file an end in the middle of an event
//! or of a transaction is an error.
//!
//! *Reading ahead.* A thread of the blocking pool reads and frames, and sends batches over a channel that holds a few:
//! a file is read while the events before are decoded, memory is bounded, and whoever waits for the next event may stop
//! waiting. (Blocking reads in place would be simpler, and stall a runtime of one thread; a task for each event costs
//! more than the event.)

use super::event::{self, kind};
use super::source::{Incoming, verify_checksum};
use crate::config::Named;
use crate::decode::bytes::Bytes;
use crate::server::{Flavor, Server};
use cdc_core::{Diagnostic, Error, Result, codes};
use mysql_common::binlog::consts::{BinlogChecksumAlg, BinlogVersion};
use mysql_common::binlog::events::{
    BinlogEventFooter, Event, FormatDescriptionEvent, TransactionPayloadReader,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;

const MAGIC: [u8; 4] = *b"\xfebin";
/// Of a file that MySQL has encrypted.
const ENCRYPTED: [u8; 4] = *b"\xfdbin";
const HEADER: usize = 19;
const CHECKSUM: usize = 4;
const IN_USE: u16 = 1;

/// Version, server version, time, length of headers; then, since MySQL 5.6.1, how checksums are made, and one.
const FORMAT_DESCRIPTION: usize = HEADER + 57 + 1 + CHECKSUM;

/// Bytes of events that are sent at once, and batches that wait.
const BATCH: usize = 256 << 10;
const BATCHES: usize = 4;

/// A file of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name, without its folder.
    pub name: Arc<str>,
    number: u64,
    /// Its path is not shown.
    secret: bool,
}

impl LogFile {
    fn shown(&self) -> String {
        if self.secret { "\"***\"".to_owned() } else { format!("\"{}\"", self.path.display()) }
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        Error::definite(codes::FILE_UNREADABLE, format!("log file {} cannot be read: {error}", self.shown()))
    }

    fn corrupt(&self, at: u64, what: impl std::fmt::Display) -> Error {
        Error::definite(
            codes::LOG_CORRUPT,
            format!("log file {} is damaged at byte {at}: {what}", self.shown()),
        )
        .help("copy the file again from its server; mysqlbinlog --verify-binlog-checksum tells the same")
    }
}

/// The files that an option names, in order.
///
/// # Errors
/// `FILE_UNREADABLE` if there are none, `LOG_PURGED` if there is a gap between them.
pub fn find(named: &Named) -> Result<Vec<LogFile>> {
    let folder = match named.path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let last = named.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let unreadable = |e: &std::io::Error| {
        Error::definite(codes::FILE_UNREADABLE, format!("the log files {named} cannot be read: {e}"))
    };
    let mut files = Vec::new();
    let mut take = |path: PathBuf| {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(number) = number_of(&name) {
            files.push(LogFile { path, name: name.into(), number, secret: named.secret });
        }
    };
    if last.ends_with(".index") && !last.contains(['*', '?']) {
        let text = std::fs::read_to_string(&named.path).map_err(|e| unreadable(&e))?;
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            // the server's own folder, which may be elsewhere by now
            let name = Path::new(line).file_name().map_or(line.into(), |n| n.to_string_lossy().into_owned());
            take(folder.join(name));
        }
    } else {
        for entry in std::fs::read_dir(&folder).map_err(|e| unreadable(&e))? {
            let entry = entry.map_err(|e| unreadable(&e))?;
            if matches(&last, &entry.file_name().to_string_lossy()) {
                take(entry.path());
            }
        }
    }
    files.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
    if files.is_empty() {
        return Err(Error::definite(codes::FILE_UNREADABLE, format!("{named} names no log file"))
            .note("a log file's name ends in a number, such as binlog.000001")
            .help("files = \"backup/binlog.*\", or the server's index: files = \"backup/binlog.index\""));
    }
    for pair in files.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        if after.number != before.number + 1 {
            let what = if after.number == before.number {
                "have the same number"
            } else {
                "do not follow each other"
            };
            return Err(Error::definite(
                codes::LOG_PURGED,
                format!("the log files \"{}\" and \"{}\" {what}", before.name, after.name),
            )
            .help("put the files that are missing beside them, or name only those of one log that follow each other"));
        }
    }
    Ok(files)
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.rsplit_once('.')?.1;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// `*` is any text, `?` any character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // where the last `*` was, and how much it has taken
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Who wrote these files, as the first of them says.
///
/// # Errors
/// `FILE_UNREADABLE`, `LOG_CORRUPT`, `SETTING_WRONG` if it is encrypted.
pub fn server_of(files: &[LogFile]) -> Result<Server> {
    match files.first() {
        Some(file) => Ok(Opened::open(file)?.server),
        None => Err(Error::definite(codes::FILE_UNREADABLE, "there is no log file")),
    }
}

/// The end of the last file.
///
/// # Errors
/// `FILE_UNREADABLE`.
pub fn end_of(files: &[LogFile]) -> Result<(Arc<str>, u64)> {
    let Some(last) = files.last() else { return Ok(("".into(), 0)) };
    let length = std::fs::metadata(&last.path).map_err(|e| last.unreadable(&e))?.len();
    Ok((last.name.clone(), length))
}

/// A file, behind its first event.
struct Opened {
    input: BufReader<File>,
    length: u64,
    /// Where the next event begins.
    at: u64,
    format: FormatDescriptionEvent<'static>,
    /// The first event.
    first: Event,
    server: Server,
    in_use: bool,
}

/// An event's frame.
struct Frame {
    header: [u8; HEADER],
    size: u64,
}

impl Frame {
    fn kind(&self) -> u8 {
        self.header[4]
    }

    fn body(&self) -> u64 {
        self.size - HEADER as u64
    }

    fn flags(&self) -> u16 {
        u16::from_le_bytes([self.header[17], self.header[18]])
    }

    fn server_id(&self) -> u32 {
        u32::from_le_bytes([self.header[5], self.header[6], self.header[7], self.header[8]])
    }
}

/// Why there is no next event.
enum Torn {
    /// The file ends before the event does.
    Truncated,
    /// It is no event.
    Damaged(String),
    Io(std::io::Error),
}

/// Reads a header; `left`: the bytes that there are, `at`: where it is in its file. `None` at the end.
fn frame(input: &mut impl Read, left: u64, at: Option<u64>) -> std::result::Result<Option<Frame>, Torn> {
    if left == 0 {
        return Ok(None);
    }
    if left < HEADER as u64 {
        return Err(Torn::Truncated);
    }
    let mut header = [0; HEADER];
    input.read_exact(&mut header).map_err(torn)?;
    let size = u64::from(u32::from_le_bytes([header[9], header[10], header[11], header[12]]));
    if size < HEADER as u64 {
        return Err(Torn::Damaged(format!("an event of {size} bytes, where its header alone has {HEADER}")));
    }
    if size > left {
        // One that was cut off still says where it was to end; if that is elsewhere, its length is what is wrong.
        let end = u32::from_le_bytes([header[13], header[14], header[15], header[16]]);
        return Err(match at {
            Some(at) if end != 0 && (at + size) as u32 != end => {
                Torn::Damaged(format!("an event of {size} bytes that ends at byte {end}"))
            }
            _ => Torn::Truncated,
        });
    }
    Ok(Some(Frame { header, size }))
}

fn torn(error: std::io::Error) -> Torn {
    match error.kind() {
        ErrorKind::UnexpectedEof => Torn::Truncated,
        _ => Torn::Io(error),
    }
}

/// An event whose frame has been read. `format` says whether there is a checksum in it.
fn read_event(
    input: &mut impl Read,
    frame: &Frame,
    format: &FormatDescriptionEvent<'static>,
) -> std::result::Result<Event, Torn> {
    let least = match format.footer().get_checksum_alg() {
        _ if frame.kind() == kind::FORMAT_DESCRIPTION => FORMAT_DESCRIPTION,
        Ok(None | Some(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_OFF)) => HEADER,
        _ => HEADER + CHECKSUM,
    };
    if frame.size < least as u64 {
        return Err(Torn::Damaged(format!(
            "an event of {} bytes, where it has {least} at least",
            frame.size
        )));
    }
    let mut bytes = frame.header.to_vec();
    // not reserved by the length alone, which may be anything
    let taken = input.take(frame.body()).read_to_end(&mut bytes).map_err(Torn::Io)?;
    if taken as u64 != frame.body() {
        return Err(Torn::Truncated);
    }
    Event::read(format, &*bytes).map_err(|e| Torn::Damaged(e.to_string()))
}

impl Opened {
    fn open(file: &LogFile) -> Result<Opened> {
        let unreadable = |e: &std::io::Error| file.unreadable(e);
        let opened = File::open(&file.path).map_err(|e| unreadable(&e))?;
        let length = opened.metadata().map_err(|e| unreadable(&e))?.len();
        let mut input = BufReader::with_capacity(1 << 20, opened);
        let mut magic = [0; MAGIC.len()];
        match input.read_exact(&mut magic) {
            Ok(()) if magic == MAGIC => {}
            Ok(()) if magic == ENCRYPTED => return Err(encrypted(file)),
            Err(e) if e.kind() != ErrorKind::UnexpectedEof => return Err(unreadable(&e)),
            Ok(()) | Err(_) => return Err(file.corrupt(0, "it does not begin as a log file does")),
        }
        let at = MAGIC.len() as u64;
        let format = FormatDescriptionEvent::new(BinlogVersion::Version4);
        let (frame, first) = match frame(&mut input, length - at, Some(at)) {
            Ok(Some(frame)) if frame.kind() == kind::FORMAT_DESCRIPTION => {
                read_event(&mut input, &frame, &format).map(|event| (frame, event))
            }
            Ok(_) => Err(Torn::Damaged("it does not begin with a format description".into())),
            Err(torn) => Err(torn),
        }
        .map_err(|torn| refused(file, at, torn))?;
        verify_checksum(&first).map_err(|why| file.corrupt(at, why))?;
        let format = first
            .read_event::<FormatDescriptionEvent<'_>>()
            .map_err(|e| file.corrupt(at, e))?
            .into_owned()
            .with_footer(first.footer());
        let version = format.server_version().trim_end_matches('\0').to_owned();
        let server = server(version, frame.server_id());
        let in_use = frame.flags() & IN_USE != 0;
        Ok(Opened { input, length, at: at + frame.size, format, first, server, in_use })
    }

    /// The next event, and where it begins.
    fn next(&mut self) -> std::result::Result<Option<(u64, Event)>, Torn> {
        let at = self.at;
        let Some(frame) = frame(&mut self.input, self.length.saturating_sub(at), Some(at))? else {
            return Ok(None);
        };
        let event = read_event(&mut self.input, &frame, &self.format)?;
        self.at += frame.size;
        Ok(Some((at, event)))
    }
}

/// A server as its log tells of it. MySQL's log does not name its `server_uuid`.
fn server(version: String, server_id: u32) -> Server {
    let flavor = if version.contains("MariaDB") { Flavor::MariaDb } else { Flavor::MySql };
    let mut numbers =
        version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0).min(99);
    let number = next() * 10_000 + next() * 100 + next();
    Server { flavor, version, number, id: format!("server_id {server_id}") }
}

fn encrypted(file: &LogFile) -> Error {
    Error::definite(codes::SETTING_WRONG, format!("log file {} is encrypted", file.shown())).help(
        "read from the server, which decrypts it; or fetch the file from it: \
         mysqlbinlog --read-from-remote-server --raw",
    )
}

fn refused(file: &LogFile, at: u64, torn: Torn) -> Error {
    match torn {
        Torn::Truncated => file.corrupt(at, "it ends in the middle of an event"),
        Torn::Damaged(what) => file.corrupt(at, what),
        Torn::Io(error) => file.unreadable(&error),
    }
}

/// The end of a file's last whole transaction, by its headers.
struct WholeUpTo {
    at: u64,
    /// What is behind it, if anything.
    rest: Option<&'static str>,
}

fn whole_up_to(file: &LogFile) -> Result<WholeUpTo> {
    let Opened { mut input, length, mut at, format, .. } = Opened::open(file)?;
    let checksum = match format.footer().get_checksum_alg() {
        Ok(None | Some(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_OFF)) => 0,
        _ => CHECKSUM,
    };
    // where the transaction begins that is open, and what ends it
    let mut open: Option<(u64, bool)> = None;
    let rest = loop {
        let frame = match frame(&mut input, length - at, Some(at)) {
            Ok(Some(frame)) => frame,
            Ok(None) => break open.map(|_| "a transaction that has no end"),
            Err(Torn::Truncated) => break Some("an event that is cut off"),
            // told when it is read
            Err(Torn::Damaged(_)) => return Ok(WholeUpTo { at: length, rest: None }),
            Err(Torn::Io(error)) => return Err(file.unreadable(&error)),
        };
        let mut skip = frame.body();
        let mut body = |input: &mut BufReader<File>| {
            let mut bytes = Vec::new();
            let read = input.take(skip).read_to_end(&mut bytes).map_err(|e| file.unreadable(&e))?;
            skip -= read as u64;
            bytes.truncate(read.saturating_sub(checksum));
            Ok::<_, Error>(bytes)
        };
        match frame.kind() {
            kind::GTID | kind::GTID_TAGGED | kind::ANONYMOUS_GTID => open = Some((at, false)),
            kind::DOMAIN_GTID => {
                const STANDALONE: u8 = 1;
                let flags = body(&mut input)?.get(12).copied().unwrap_or(0);
                open = Some((at, flags & STANDALONE == 0));
            }
            kind::START_ENCRYPTION => return Err(encrypted(file)),
            kind::XID | kind::XA_PREPARE | kind::TRANSACTION_PAYLOAD => open = None,
            kind::QUERY | kind::QUERY_COMPRESSED => {
                let mut bytes = body(&mut input)?;
                if frame.kind() == kind::QUERY_COMPRESSED {
                    bytes = event::plain_query(&bytes).unwrap_or_default();
                }
                if let Some((begin, begun)) = open {
                    open = (!ends(&bytes, begun)).then_some((begin, true));
                }
            }
            _ => {}
        }
        let skipped = i64::try_from(skip).unwrap_or(i64::MAX);
        input.seek_relative(skipped).map_err(|e| file.unreadable(&e))?;
        at += frame.size;
    };
    Ok(WholeUpTo { at: rest.map_or(length, |_| open.map_or(at, |(begin, _)| begin)), rest })
}

/// Does this statement end its transaction?
fn ends(body: &[u8], begun: bool) -> bool {
    let Ok(query) = event::query(body) else { return false };
    let text = query.text.get(..20).unwrap_or(&query.text).to_ascii_uppercase();
    match begun {
        true => {
            text.starts_with("COMMIT") || (text.starts_with("ROLLBACK") && !text.starts_with("ROLLBACK TO"))
        }
        // any other is a transaction of its own
        false => {
            !query.starts_transaction
                && !["BEGIN", "XA START", "XA BEGIN"].iter().any(|w| text.starts_with(w))
        }
    }
}

/// A log in files, being read.
pub(super) struct FileLog {
    batches: mpsc::Receiver<Result<Vec<Incoming>>>,
    read: VecDeque<Incoming>,
    ended: bool,
}

impl FileLog {
    /// Reads from this file on; in an empty name from the first.
    ///
    /// # Errors
    /// Those of [`find`] and [`server_of`]; `LOG_PURGED` if the file is none of them.
    pub(super) fn open(named: &Named, from: &str) -> Result<(FileLog, Server)> {
        let mut files = find(named)?;
        let server = server_of(&files)?;
        if !from.is_empty() {
            let Some(first) = files.iter().position(|f| *f.name == *from) else {
                return Err(Error::definite(
                    codes::LOG_PURGED,
                    format!("log file \"{from}\" is not among the files {named}"),
                )
                .note(format!("the first is \"{}\"", files.first().map_or("", |f| &*f.name)))
                .help("put it beside them"));
            };
            files.drain(..first);
        }
        let (sender, batches) = mpsc::channel(BATCHES);
        let flavor = server.flavor;
        tokio::task::spawn_blocking(move || read_all(&files, flavor, sender));
        Ok((FileLog { batches, read: VecDeque::new(), ended: false }, server))
    }

    /// The next; may be dropped while it waits.
    pub(super) async fn next(&mut self) -> Result<Incoming> {
        loop {
            match self.read.pop_front() {
                Some(Incoming::End(notice)) => {
                    self.ended = true;
                    return Ok(Incoming::End(notice));
                }
                Some(incoming) => return Ok(incoming),
                None if self.ended => return Ok(Incoming::End(None)),
                None => {}
            }
            match self.batches.recv().await {
                Some(batch) => self.read.extend(batch?),
                None => {
                    return Err(Error::definite(
                        codes::INTERNAL,
                        "the thread that reads log files has ended",
                    ));
                }
            }
        }
    }
}

/// Sends what is read in batches.
struct Outlet {
    to: mpsc::Sender<Result<Vec<Incoming>>>,
    batch: Vec<Incoming>,
    bytes: usize,
}

/// Nobody reads any more.
struct Gone;

type Sent<T> = std::result::Result<T, Gone>;

impl Outlet {
    fn put(&mut self, incoming: Incoming, bytes: usize) -> Sent<()> {
        self.batch.push(incoming);
        self.bytes += bytes;
        if self.bytes >= BATCH { self.flush() } else { Ok(()) }
    }

    fn event(&mut self, event: Event) -> Sent<()> {
        let bytes = HEADER + event.data().len();
        self.put(Incoming::Event(Box::new(event)), bytes)
    }

    fn flush(&mut self) -> Sent<()> {
        self.bytes = 0;
        self.to.blocking_send(Ok(std::mem::take(&mut self.batch))).map_err(|_| Gone)
    }

    /// What was read before an error comes before it.
    fn fail(&mut self, error: Error) {
        if self.flush().is_ok() {
            let _ = self.to.blocking_send(Err(error));
        }
    }
}

fn read_all(files: &[LogFile], flavor: Flavor, to: mpsc::Sender<Result<Vec<Incoming>>>) {
    let mut out = Outlet { to, batch: Vec::new(), bytes: 0 };
    let mut notice = None;
    for (i, file) in files.iter().enumerate() {
        match read_file(file, i + 1 == files.len(), flavor, &mut out) {
            Ok(Ok(told)) => notice = told,
            Ok(Err(Gone)) => return,
            Err(error) => return out.fail(error),
        }
    }
    let _ = out.put(Incoming::End(notice.map(Box::new)), 0).and_then(|()| out.flush());
}

fn read_file(
    file: &LogFile,
    is_last: bool,
    flavor: Flavor,
    out: &mut Outlet,
) -> Result<Sent<Option<Diagnostic>>> {
    let mut opened = Opened::open(file)?;
    if opened.server.flavor != flavor {
        return Err(Error::definite(
            codes::SERVER_CHANGED,
            format!("log file {} is of {}, the first one of {flavor}", file.shown(), opened.server),
        )
        .help("name the files of one server"));
    }
    let mut notice = None;
    let mut end = opened.length;
    if is_last {
        let WholeUpTo { at, rest } = whole_up_to(file)?;
        if let Some(rest) = rest {
            if !opened.in_use {
                return Err(
                    file.corrupt(at, format!("behind it there is {rest}, and no server writes the file"))
                );
            }
            end = at;
            notice = Some(
                Diagnostic::warning(
                    codes::LOG_CORRUPT,
                    format!("log file {} is still in use: it was read up to byte {at}", file.shown()),
                )
                .note(format!("behind it there is {rest}")),
            );
        }
    }
    let begins = Incoming::File { name: file.name.clone(), server: opened.server.clone() };
    if out.put(begins, 0).and_then(|()| out.put(Incoming::Event(Box::new(opened.first.clone())), 0)).is_err()
    {
        return Ok(Err(Gone));
    }
    while opened.at < end {
        let at = opened.at;
        let event = match opened.next() {
            Ok(Some((_, event))) => event,
            Ok(None) => break,
            Err(torn) => return Err(refused(file, at, torn)),
        };
        let sent = match event.header().event_type_raw() {
            kind::START_ENCRYPTION => return Err(encrypted(file)),
            kind::TRANSACTION_PAYLOAD => {
                // what is compressed is not read before it is known to be whole
                verify_checksum(&event).map_err(|why| file.corrupt(at, why))?;
                send_payload(event, out).map_err(|why| file.corrupt(at, why))?
            }
            _ => out.event(event),
        };
        if sent.is_err() {
            return Ok(Err(Gone));
        }
    }
    Ok(Ok(notice))
}

/// A compressed transaction, and its events behind it, which have no checksums of their own.
fn send_payload(event: Event, out: &mut Outlet) -> std::result::Result<Sent<()>, String> {
    if out.event(event.clone()).is_err() {
        return Ok(Err(Gone));
    }
    let Payload { is_compressed, mut left, bytes } = Payload::parse(event.data()).ok_or("it is cut off")?;
    let mut reader = if is_compressed {
        TransactionPayloadReader::new_zstd(bytes).map_err(|e| e.to_string())?
    } else {
        TransactionPayloadReader::new_uncompressed(bytes)
    };
    let plain = BinlogEventFooter::new(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_OFF);
    let format = event.fde().clone().with_footer(plain);
    let broken = |torn| match torn {
        Torn::Truncated => "a compressed transaction that ends in the middle of an event".to_owned(),
        Torn::Damaged(what) => format!("in a compressed transaction: {what}"),
        Torn::Io(error) => format!("a compressed transaction: {error}"),
    };
    while let Some(frame) = frame(&mut reader, left, None).map_err(broken)? {
        if matches!(frame.kind(), kind::FORMAT_DESCRIPTION | kind::TRANSACTION_PAYLOAD) {
            return Err("a compressed transaction holds an event that it cannot hold".into());
        }
        let event = read_event(&mut reader, &frame, &format).map_err(broken)?;
        if out.event(event).is_err() {
            return Ok(Err(Gone));
        }
        left -= frame.size;
    }
    Ok(Ok(()))
}

/// TRANSACTION_PAYLOAD. Fields are type, length, value; 0 ends them, 2 says how it is compressed, 3 how large it is
/// uncompressed.
struct Payload<'e> {
    is_compressed: bool,
    /// Bytes of the events in it.
    left: u64,
    bytes: &'e [u8],
}

impl<'e> Payload<'e> {
    fn parse(body: &'e [u8]) -> Option<Payload<'e>> {
        const NOT_COMPRESSED: u64 = 255;
        let mut input = Bytes(body);
        let (mut is_compressed, mut left) = (true, None);
        loop {
            match input.lenenc().ok()? {
                0 => return Some(Payload { is_compressed, left: left?, bytes: input.0 }),
                field => {
                    let mut value = Bytes(input.lenenc_bytes().ok()?);
                    match field {
                        2 => is_compressed = value.lenenc().ok()? != NOT_COMPRESSED,
                        3 => left = Some(value.lenenc().ok()?),
                        _ => {}
                    }
                }
            }
        }
    }
}
