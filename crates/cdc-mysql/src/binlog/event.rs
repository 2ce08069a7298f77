//! Events that carry no rows: headers, checksums, GTIDs, statements, rotations.
//!
//! Layouts: MySQL source documentation, "Binlog Event", and `libbinlogevents`; MariaDB knowledge base, "Replication
//! Protocol", and its `sql/log_event.h`. A malformed body is an `Err` with what is wrong; the caller adds the position.

use crate::ddl;
use crate::decode::Flaw;
use crate::decode::charset::{CharsetInfo, Codec, charset};
use crate::decode::compressed::decompress_block;
use crate::gtid::{Gtid, GtidSet, Origin};
use cdc_core::{Charset, Error, Result, codes};
use mysql_common::binlog::consts::BinlogChecksumAlg;
use mysql_common::binlog::events::{Event, GtidEvent};
use mysql_common::collations::{Collation, CollationId};
use mysql_common::packets::{GnoInterval, Sid, Tag};
use std::borrow::Cow;
use std::sync::Arc;

/// Kinds of events, by number.
pub mod kind {
    #![allow(missing_docs)]
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const INTVAR: u8 = 5;
    pub const RAND: u8 = 13;
    pub const USER_VAR: u8 = 14;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const IGNORABLE: u8 = 28;
    pub const ROWS_QUERY: u8 = 29;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const GTID: u8 = 33;
    pub const ANONYMOUS_GTID: u8 = 34;
    pub const PREVIOUS_GTIDS: u8 = 35;
    pub const TRANSACTION_CONTEXT: u8 = 36;
    pub const VIEW_CHANGE: u8 = 37;
    pub const XA_PREPARE: u8 = 38;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const HEARTBEAT_V2: u8 = 41;
    pub const GTID_TAGGED: u8 = 42;
    // MariaDB's own
    pub const ANNOTATE_ROWS: u8 = 160;
    pub const BINLOG_CHECKPOINT: u8 = 161;
    pub const DOMAIN_GTID: u8 = 162;
    pub const GTID_LIST: u8 = 163;
    pub const START_ENCRYPTION: u8 = 164;
    pub const QUERY_COMPRESSED: u8 = 165;
    pub const WRITE_ROWS_COMPRESSED_V1: u8 = 166;
    pub const UPDATE_ROWS_COMPRESSED_V1: u8 = 167;
    pub const DELETE_ROWS_COMPRESSED_V1: u8 = 168;
    pub const WRITE_ROWS_COMPRESSED: u8 = 169;
    pub const UPDATE_ROWS_COMPRESSED: u8 = 170;
    pub const DELETE_ROWS_COMPRESSED: u8 = 171;

    /// Does an event of this kind hold rows?
    pub fn is_rows(kind: u8) -> bool {
        matches!(
            kind,
            WRITE_ROWS_V1..=DELETE_ROWS_V1
                | WRITE_ROWS..=DELETE_ROWS
                | PARTIAL_UPDATE_ROWS
                | WRITE_ROWS_COMPRESSED_V1..=DELETE_ROWS_COMPRESSED
        )
    }
}

/// What is used of an event's header.
#[derive(Debug, Clone, Copy)]
pub struct Header {
    /// Its kind.
    pub kind: u8,
    /// Seconds since 1970.
    pub timestamp: u32,
    /// The `server_id` of the server that wrote it first.
    pub server_id: u32,
    /// Bytes in all.
    pub size: u32,
    /// The low 32 bits of its end in the file; 0 for events that the server makes up.
    pub log_pos: u32,
    flags: u16,
}

impl Header {
    /// The event's header.
    pub fn of(event: &Event) -> Header {
        let h = event.header();
        Header {
            kind: h.event_type_raw(),
            timestamp: h.timestamp(),
            server_id: h.server_id(),
            size: h.event_size(),
            log_pos: h.log_pos(),
            flags: h.flags_raw(),
        }
    }

    /// LOG_EVENT_IGNORABLE_F: a reader that does not know the event may pass over it.
    pub fn ignorable(&self) -> bool {
        self.flags & 0x80 != 0
    }
}

type Parsed<T> = std::result::Result<T, String>;

/// Compares the stored checksum with the bytes. The library stores it and does not look.
pub fn verify_checksum(event: &Event) -> Parsed<()> {
    let footer = event.footer();
    let alg = footer.get_checksum_alg().map_err(|e| e.to_string())?;
    if let (Some(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32), Some(stored)) = (alg, event.checksum()) {
        let stored = u32::from_le_bytes(stored);
        let computed = event.calc_checksum(BinlogChecksumAlg::BINLOG_CHECKSUM_ALG_CRC32);
        if stored != computed {
            return Err(format!("checksum {computed:08x} where {stored:08x} is stored"));
        }
    }
    Ok(())
}

fn bytes<const N: usize>(body: &[u8], at: usize) -> Parsed<[u8; N]> {
    body.get(at..at + N)
        .and_then(|b| b.try_into().ok())
        .ok_or_else(|| format!("it ends at byte {} of at least {}", body.len(), at + N))
}

fn uint48(body: &[u8], at: usize) -> Parsed<u64> {
    let b: [u8; 6] = bytes(body, at)?;
    Ok(u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0]))
}

/// The table id that begins a table map.
pub fn table_map_id(body: &[u8]) -> Parsed<u64> {
    uint48(body, 0)
}

/// ROTATE: the next file, and where to read on in it.
pub fn rotate(body: &[u8]) -> Parsed<(Arc<str>, u64)> {
    let offset = u64::from_le_bytes(bytes(body, 0)?);
    let name = std::str::from_utf8(&body[8..]).map_err(|e| e.to_string())?;
    Ok((name.trim_end_matches('\0').into(), offset))
}

/// GTID: which transaction, and when it was committed, in microseconds since 1970 (8.0 and later).
pub fn gtid(event: &Event) -> Parsed<(Gtid, Option<i64>)> {
    const IMMEDIATE: usize = 42; // flags 1, uuid 16, number 8, commit timestamps' type 1, two of 8
    if event.header().event_type_raw() == kind::GTID_TAGGED {
        let e: GtidEvent = event.read_event().map_err(|e| e.to_string())?;
        let tag = e.tag().map_or(String::new(), ToString::to_string).to_ascii_lowercase();
        let micros = e.immediate_commit_timestamp() as i64;
        let origin = Origin { uuid: e.sid(), tag: tag.into() };
        return Ok((Gtid::MySql { origin, number: e.gno() }, (micros > 0).then_some(micros)));
    }
    let body = event.data();
    let origin = Origin { uuid: bytes(body, 1)?, tag: "".into() };
    let number = u64::from_le_bytes(bytes(body, 17)?);
    let micros = bytes::<7>(body, IMMEDIATE).ok().map(|b| {
        // bit 55 says that another time follows
        (u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], 0]) & !(1 << 55)) as i64
    });
    Ok((Gtid::MySql { origin, number }, micros.filter(|&m| m > 0)))
}

/// What MariaDB's GTID event says of the transaction that it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainGtid {
    /// Which transaction.
    pub gtid: Gtid,
    /// One statement follows and nothing that ends it; else it is also the BEGIN of what follows.
    pub standalone: bool,
    /// The branch, if what follows is prepared for an XA transaction, as XA COMMIT will name it.
    pub prepares: Option<String>,
    /// `binlog_alter_two_phase`: the ALTER that follows only begins here, or ended without effect.
    pub no_effect: bool,
}

/// MariaDB's GTID.
pub fn domain_gtid(header: &Header, body: &[u8]) -> Parsed<DomainGtid> {
    const STANDALONE: u8 = 1;
    const GROUP_COMMIT_ID: u8 = 2;
    const PREPARED_XA: u8 = 64;
    const COMPLETED_XA: u8 = 128;
    // in the byte of further flags
    const START_ALTER: u8 = 2;
    const ROLLBACK_ALTER: u8 = 8;

    let sequence = u64::from_le_bytes(bytes(body, 0)?);
    let domain = u32::from_le_bytes(bytes(body, 8)?);
    let [flags] = bytes(body, 12)?;
    let mut at = 13;
    if flags & GROUP_COMMIT_ID != 0 {
        at += 8;
    }
    let mut branch = None;
    if flags & (PREPARED_XA | COMPLETED_XA) != 0 {
        let format = u32::from_le_bytes(bytes(body, at)?);
        let [gtrid, bqual] = bytes(body, at + 4)?.map(usize::from);
        at += 6;
        let data = body.get(at..at + gtrid + bqual).ok_or("the name of an XA branch is cut off")?;
        at += data.len();
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        branch = Some(format!("X'{}',X'{}',{format}", hex(&data[..gtrid]), hex(&data[gtrid..])));
    }
    // an event is at least 19 bytes long, filled up with zeros
    let further = body.get(at).copied().unwrap_or(0);
    Ok(DomainGtid {
        gtid: Gtid::MariaDb { domain, server: header.server_id, sequence },
        standalone: flags & STANDALONE != 0,
        prepares: branch.filter(|_| flags & PREPARED_XA != 0),
        no_effect: further & (START_ALTER | ROLLBACK_ALTER) != 0,
    })
}

/// GTID_LIST of MariaDB: what earlier files hold.
pub fn gtid_list(body: &[u8]) -> Parsed<GtidSet> {
    // the upper four bits are flags
    let count = u32::from_le_bytes(bytes(body, 0)?) & 0x0fff_ffff;
    let mut set = GtidSet::new();
    for i in 0..count as usize {
        let at = 4 + 16 * i;
        set.insert(&Gtid::MariaDb {
            domain: u32::from_le_bytes(bytes(body, at)?),
            server: u32::from_le_bytes(bytes(body, at + 4)?),
            sequence: u64::from_le_bytes(bytes(body, at + 8)?),
        });
    }
    Ok(set)
}

/// PREVIOUS_GTIDS: what earlier files hold. With tags the first word is in the tagged form.
pub fn previous_gtids(body: &[u8]) -> Parsed<GtidSet> {
    let word = u64::from_le_bytes(bytes(body, 0)?);
    // format byte in the highest byte: 1 means tagged, with the count in bytes 1..=6
    let tagged = word >> 56 == 1;
    let count = if tagged { word << 8 >> 16 } else { word };
    let mut at = 8;
    let mut text = String::new();
    for _ in 0..count {
        let uuid: [u8; 16] = bytes(body, at)?;
        at += 16;
        text.push_str(&crate::gtid::uuid_text(&uuid));
        if tagged {
            // the tag's length is a variable-length integer; tags have at most 32 bytes, so one byte holds 2 * n
            let n = usize::from(bytes::<1>(body, at)?[0] >> 1);
            at += 1;
            let tag = body.get(at..at + n).ok_or("a tag is cut off")?;
            at += n;
            if n > 0 {
                text.push(':');
                text.push_str(&String::from_utf8_lossy(tag));
            }
        }
        let intervals = u64::from_le_bytes(bytes(body, at)?);
        at += 8;
        for _ in 0..intervals {
            let start = u64::from_le_bytes(bytes(body, at)?);
            let end = u64::from_le_bytes(bytes(body, at + 8)?);
            at += 16;
            text.push_str(&format!(":{start}-{}", end.saturating_sub(1)));
        }
        text.push(',');
    }
    GtidSet::parse(&text).map_err(|e| e.diagnostic().headline.clone())
}

/// TRANSACTION_PAYLOAD: the bytes of events in it, once decompressed. Fields are type, length, value, all
/// variable-length integers; 0 ends them; 3 is the size.
pub fn payload_size(body: &[u8]) -> Parsed<u64> {
    let mut at = 0;
    let mut next = || -> Parsed<u64> {
        let first: [u8; 1] = bytes(body, at)?;
        at += 1;
        let n = match first[0] {
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            v => return Ok(u64::from(v)),
        };
        let part = body.get(at..at + n).ok_or("a field is cut off")?;
        at += n;
        let mut b = [0; 8];
        b[..n].copy_from_slice(part);
        Ok(u64::from_le_bytes(b))
    };
    loop {
        match next()? {
            0 => return Err("it does not say how large it is".into()),
            3 => {
                next()?;
                return match next()? {
                    0 => Err("a compressed transaction of no bytes".into()),
                    n => Ok(n),
                };
            }
            _ => {
                next()?;
                next()?; // the other fields (1 size of the payload, 2 compression) are integers as well
            }
        }
    }
}

/// A statement of the log.
#[derive(Debug)]
pub struct Query<'a> {
    /// Its text, which the log holds in the character set of the client that sent it.
    pub text: Cow<'a, str>,
    /// The default database.
    pub database: String,
    /// CREATE TABLE .. SELECT: the rows follow in the same transaction.
    pub starts_transaction: bool,
    /// The error it ended with, 0 for none: it may have done a part of its work.
    pub error: u16,
    sql_mode: u64,
    client_collation: u16,
    server_collation: u16,
    utf8mb4_collation: u16,
    explicit_timestamp: Option<bool>,
}

/// QUERY_COMPRESSED of MariaDB as the QUERY that it stands for.
pub fn plain_query(body: &[u8]) -> Parsed<Vec<u8>> {
    let database = usize::from(bytes::<1>(body, 8)?[0]);
    let status = usize::from(u16::from_le_bytes(bytes(body, 11)?));
    let text = 13 + status + database + 1;
    let (head, block) = body.split_at_checked(text).ok_or("its database is cut off")?;
    let mut plain = head.to_vec();
    plain.extend(decompress_block(block).map_err(|flaw| match flaw {
        Flaw::Truncated => "its compressed text is cut off".to_owned(),
        Flaw::Undecodable(why) => why.to_string(),
    })?);
    Ok(plain)
}

/// QUERY.
pub fn query(body: &[u8]) -> Parsed<Query<'_>> {
    // thread 4, seconds 4, length of the database's name 1, error 2, length of the status variables 2
    let database_len = usize::from(bytes::<1>(body, 8)?[0]);
    let status_len = usize::from(u16::from_le_bytes(bytes(body, 11)?));
    let database =
        body.get(13 + status_len..13 + status_len + database_len).ok_or("its database is cut off")?;
    let text = body.get(13 + status_len + database_len + 1..).ok_or("its text is cut off")?;
    let status = &body[13..13 + status_len];
    let mut query = Query {
        text: Cow::Borrowed(""),
        database: String::from_utf8_lossy(database).into_owned(),
        starts_transaction: text.trim_ascii_end().to_ascii_uppercase().ends_with(b"START TRANSACTION"),
        error: u16::from_le_bytes(bytes(body, 9)?),
        sql_mode: 0,
        client_collation: 0,
        server_collation: 0,
        utf8mb4_collation: 0,
        explicit_timestamp: None,
    };
    read_status(status, &mut query);
    query.text = statement(text, query.client_collation)?;
    Ok(query)
}

/// The text of a statement, sent under this collation's character set. Of a set whose conversion table this process has not
/// (no table in it is captured) UTF-8 is tried.
fn statement(bytes: &[u8], client: u16) -> Parsed<Cow<'_, str>> {
    let client = charset_of(client);
    let codec = client.as_ref().and_then(|set| charset(&set.name)).and_then(CharsetInfo::codec);
    let codec = codec.filter(|codec| !matches!(codec, Codec::Utf8mb3 | Codec::Ascii));
    if let (Some(codec), false) = (codec, bytes.is_ascii()) {
        let mut scratch = String::new();
        if let Ok(text) = codec.decode(bytes, &mut scratch) {
            return Ok(Cow::Owned(text.to_owned()));
        }
    }
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| {
        let set = client.map_or_else(|| "an unknown character set".to_owned(), |set| set.name.to_string());
        format!("a statement that is not UTF-8 text, sent in {set}")
    })
}

/// Q_SQL_MODE_CODE 1, Q_CHARSET_CODE 4, Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP 16,
/// Q_DEFAULT_COLLATION_FOR_UTF8MB4 18; the others before and between them are
/// stepped over by their lengths (`Query_event` of libbinlogevents). An unknown one ends the reading.
fn read_status(mut rest: &[u8], query: &mut Query<'_>) {
    let u16_at = |b: &[u8], at: usize| b.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
    while let Some((&code, body)) = rest.split_first() {
        let n = match code {
            0 => 4, // flags2
            1 => {
                if let Some(b) = body.first_chunk::<8>() {
                    query.sql_mode = u64::from_le_bytes(*b);
                }
                8
            }
            2 => usize::from(body.first().copied().unwrap_or(0)) + 2, // catalog with its NUL
            3 => 4,                                                   // auto_increment
            4 => {
                query.client_collation = u16_at(body, 0);
                query.server_collation = u16_at(body, 4);
                6
            }
            5 | 6 => usize::from(body.first().copied().unwrap_or(0)) + 1, // time zone, catalog
            7 => 2,                                                       // lc_time_names
            8 => 2,                                                       // the database's collation
            9 => 8,                                                       // table_map_for_update
            10 => 4,                                                      // master_data_written
            11 => {
                // invoker: user, host
                let user = usize::from(body.first().copied().unwrap_or(0));
                let host = usize::from(body.get(1 + user).copied().unwrap_or(0));
                2 + user + host
            }
            12 => {
                // updated_db_names: a count (254: too many), names with NULs
                let count = body.first().copied().unwrap_or(0);
                let mut at = 1;
                if count != 254 {
                    for _ in 0..count {
                        at += body.get(at..).and_then(|b| b.iter().position(|&c| c == 0)).unwrap_or(0) + 1;
                    }
                }
                at
            }
            13 => 3, // microseconds
            16 => {
                query.explicit_timestamp = body.first().map(|&b| b != 0);
                1
            }
            17 => 8, // ddl_xid
            18 => {
                query.utf8mb4_collation = u16_at(body, 0);
                2
            }
            19 => 1, // sql_require_primary_key
            20 => 1, // default_table_encryption
            // MariaDB: hundredths of seconds, xid, flags of a GTID, collations that a client chose for itself
            128 => 3,
            129 => 8,
            130 if body.first().is_some_and(|flags| flags & 12 != 0) => 9,
            130 => 1,
            131 => 1 + 4 * usize::from(body.first().copied().unwrap_or(0)),
            _ => return,
        };
        rest = body.get(n..).unwrap_or_default();
    }
}

impl Query<'_> {
    /// What the DDL parser must know to read the statement; `server` is what it knows of the server.
    pub fn context<'q>(&'q self, server: &ddl::Context<'q>) -> ddl::Context<'q> {
        let mut context = server.clone().in_database(&self.database);
        context.sql_mode = ddl::SqlMode::from_bits(self.sql_mode);
        let mariadb = context.mariadb;
        let own = |c: Charset| Charset::new(c.name, ddl::own_name(c.collation.to_string(), mariadb));
        if let Some(charset) = charset_of(self.server_collation) {
            context.server_charset = own(charset);
        }
        context.utf8mb4_collation = charset_of(self.utf8mb4_collation).map(|c| own(c).collation);
        if let Some(explicit) = self.explicit_timestamp {
            context.explicit_timestamp = explicit;
        }
        context
    }
}

fn charset_of(collation: u16) -> Option<Charset> {
    if collation == 0 {
        return None;
    }
    let known: Collation<'_> = CollationId::from(collation).into();
    (known.id() != CollationId::UNKNOWN_COLLATION_ID)
        .then(|| Charset::new(known.charset(), known.collation()))
}

/// The set in the form of MySQL's dump request.
pub fn sids(set: &GtidSet) -> Result<Vec<Sid<'static>>> {
    set.iter()
        .map(|(origin, ranges)| {
            let mut sid = Sid::new(origin.uuid);
            for &(start, end) in ranges {
                sid = sid.with_interval(GnoInterval::new(start, end));
            }
            if !origin.tag.is_empty() {
                let tag = Tag::new(origin.tag.to_string()).map_err(|e| {
                    Error::definite(codes::LOG_POSITION, format!("\"{}\" is not a GTID tag: {e}", origin.tag))
                })?;
                sid = sid.with_tag(tag);
            }
            Ok(sid)
        })
        .collect()
}
