//! GTIDs and sets of them (MySQL manual 19.1.3; MariaDB's "Global Transaction ID").
//!
//! A set of MySQL maps a server's UUID, and a tag where there is one (8.3 and later), to ranges of transaction
//! numbers. A set of MariaDB maps a domain to the last transaction of it: what is in the log of a domain before
//! that one is in the set, as the server itself means it when a replica connects. That is a set only while the
//! sequence numbers of a domain rise along its log; the log reader refuses a log in which they do not
//! (`gtid_strict_mode` keeps servers from writing one).
//!
//! Sets are only partially ordered: of two sets, neither need contain the other. So there is
//! [`GtidSet::contains_set`] and no comparison. No server has both kinds, so no set holds both; the algebra
//! does not care.

use crate::server::Flavor;
use cdc_core::{Error, Result, codes};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The server and tag of a GTID.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The UUID of the server that first committed the transaction.
    pub uuid: [u8; 16],
    /// The tag, in lower case; empty for none.
    pub tag: Arc<str>,
}

/// A transaction's identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Gtid {
    /// MySQL's.
    MySql {
        /// Server and tag.
        origin: Origin,
        /// Its number there, from 1.
        number: u64,
    },
    /// MariaDB's.
    MariaDb {
        /// A stream of transactions with an order of its own.
        domain: u32,
        /// The `server_id` of the server that first committed it.
        server: u32,
        /// Its number in the domain, from 1; it rises along the log.
        sequence: u64,
    },
}

impl Gtid {
    /// From its text.
    ///
    /// # Errors
    /// `LOG_POSITION` if it is not that of one transaction.
    pub fn parse(text: &str) -> Result<Gtid> {
        if let Some(gtid) = parse_domain(text) {
            return Ok(gtid);
        }
        let set = GtidSet::parse(text)?;
        let mut all = set.iter().flat_map(|(origin, ranges)| ranges.iter().map(move |range| (origin, range)));
        match (all.next(), all.next()) {
            (Some((origin, &(start, end))), None) if end == start + 1 => {
                Ok(Gtid::MySql { origin: origin.clone(), number: start })
            }
            _ => Err(Error::definite(codes::LOG_POSITION, format!("\"{}\" is not a GTID", shorten(text)))),
        }
    }
}

/// A set of GTIDs. Ranges are kept sorted, disjoint and not adjacent, as `start..end` (end excluded), so
/// equal sets are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct GtidSet {
    ranges: BTreeMap<Origin, Vec<(u64, u64)>>,
    /// MariaDB: of each domain the last transaction, as server and sequence number.
    domains: BTreeMap<u32, (u32, u64)>,
}

impl GtidSet {
    /// The empty set.
    pub fn new() -> GtidSet {
        GtidSet::default()
    }

    /// From the text of `gtid_executed`: `uuid:1-5:7:tag:1-3,uuid:..`, with any white space; or of MariaDB's
    /// `gtid_binlog_pos`: `domain-server-sequence,..`.
    ///
    /// # Errors
    /// `LOG_POSITION` if it is not such a text.
    pub fn parse(text: &str) -> Result<GtidSet> {
        let malformed = || {
            Error::definite(codes::LOG_POSITION, format!("\"{}\" is not a GTID set", shorten(text)))
                .help("a GTID set reads like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23:27; one of MariaDB like 0-1-270,7-1-4")
        };
        let mut set = GtidSet::new();
        for part in text.split(',') {
            let part = part.trim();
            if part.is_empty() {
                continue;
            }
            if let Some(last) = parse_domain(part) {
                set.insert(&last);
                continue;
            }
            let mut items = part.split(':').map(str::trim);
            let uuid = items.next().and_then(parse_uuid).ok_or_else(malformed)?;
            let mut origin = Origin { uuid, tag: "".into() };
            for item in items {
                if item.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                    origin.tag = item.to_ascii_lowercase().into();
                    continue;
                }
                let (first, last) = match item.split_once('-') {
                    Some((a, b)) => (a.trim().parse::<u64>(), b.trim().parse::<u64>()),
                    None => (item.parse::<u64>(), item.parse::<u64>()),
                };
                let (Ok(first), Ok(last)) = (first, last) else { return Err(malformed()) };
                if first == 0 || last == u64::MAX {
                    return Err(malformed());
                }
                // an empty range such as 5-4 is what the server itself accepts and drops
                if first <= last {
                    set.insert_range(&origin, first, last + 1);
                }
            }
        }
        Ok(set)
    }

    /// From the text of `gtid_owned`: as [`GtidSet::parse`], with `#` and a thread behind each number.
    ///
    /// # Errors
    /// As [`GtidSet::parse`].
    pub fn parse_owned(text: &str) -> Result<GtidSet> {
        let mut plain = String::with_capacity(text.len());
        let mut parts = text.split('#');
        plain.push_str(parts.next().unwrap_or_default());
        for part in parts {
            plain.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
        GtidSet::parse(&plain)
    }

    /// Holds it none of the other kind of server?
    pub fn is_of(&self, flavor: Flavor) -> bool {
        match flavor {
            Flavor::MySql => self.domains.is_empty(),
            Flavor::MariaDb => self.ranges.is_empty(),
        }
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.domains.is_empty()
    }

    /// Is the transaction in it?
    pub fn contains(&self, gtid: &Gtid) -> bool {
        match gtid {
            Gtid::MySql { origin, number } => self.contains_number(origin, *number),
            Gtid::MariaDb { domain, sequence, .. } => {
                self.domains.get(domain).is_some_and(|&(_, last)| *sequence <= last)
            }
        }
    }

    fn contains_number(&self, origin: &Origin, number: u64) -> bool {
        self.ranges.get(origin).is_some_and(|ranges| {
            let i = ranges.partition_point(|&(_, end)| end <= number);
            ranges.get(i).is_some_and(|&(start, _)| start <= number)
        })
    }

    /// Adds a transaction; of MariaDB also all before it in its domain.
    pub fn insert(&mut self, gtid: &Gtid) {
        let (origin, number) = match gtid {
            Gtid::MySql { origin, number } => (origin, *number),
            Gtid::MariaDb { domain, server, sequence } => {
                return self.insert_last(*domain, (*server, *sequence));
            }
        };
        // the usual case first: the next number of a server that is already there
        if let Some(last) = self.ranges.get_mut(origin).and_then(|r| r.last_mut())
            && last.1 == number
        {
            last.1 += 1;
            return;
        }
        self.insert_range(origin, number, number + 1);
    }

    fn insert_last(&mut self, domain: u32, new: (u32, u64)) {
        let last = self.domains.entry(domain).or_insert(new);
        if new.1 > last.1 {
            *last = new;
        }
    }

    fn insert_range(&mut self, origin: &Origin, mut start: u64, mut end: u64) {
        let ranges = match self.ranges.get_mut(origin) {
            Some(ranges) => ranges,
            None => self.ranges.entry(origin.clone()).or_default(),
        };
        let from = ranges.partition_point(|&(_, e)| e < start);
        let to = ranges.partition_point(|&(s, _)| s <= end);
        if from < to {
            start = start.min(ranges[from].0);
            end = end.max(ranges[to - 1].1);
        }
        ranges.splice(from..to, [(start, end)]);
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &GtidSet) {
        for (origin, ranges) in &other.ranges {
            for &(start, end) in ranges {
                self.insert_range(origin, start, end);
            }
        }
        for (&domain, &last) in &other.domains {
            self.insert_last(domain, last);
        }
    }

    /// Is every transaction of the other set in this one?
    pub fn contains_set(&self, other: &GtidSet) -> bool {
        let domains = other
            .domains
            .iter()
            .all(|(domain, &(_, theirs))| self.domains.get(domain).is_some_and(|&(_, ours)| theirs <= ours));
        domains
            && other.ranges.iter().all(|(origin, ranges)| {
                let Some(ours) = self.ranges.get(origin) else { return ranges.is_empty() };
                ranges.iter().all(|&(start, end)| {
                    let i = ours.partition_point(|&(_, e)| e <= start);
                    ours.get(i).is_some_and(|&(s, e)| s <= start && end <= e)
                })
            })
    }

    /// What is in this set and not in the other. Of MariaDB: the domains of which it holds more, up to their
    /// last transactions.
    pub fn minus(&self, other: &GtidSet) -> GtidSet {
        let mut out = GtidSet::new();
        for (origin, ranges) in &self.ranges {
            let empty = Vec::new();
            let theirs = other.ranges.get(origin).unwrap_or(&empty);
            for &(start, end) in ranges {
                let mut at = start;
                for &(s, e) in theirs.iter().filter(|&&(s, e)| s < end && e > start) {
                    if at < s {
                        out.insert_range(origin, at, s);
                    }
                    at = at.max(e);
                }
                if at < end {
                    out.insert_range(origin, at, end);
                }
            }
        }
        for (&domain, &last) in &self.domains {
            if other.domains.get(&domain).is_none_or(|&(_, theirs)| theirs < last.1) {
                out.domains.insert(domain, last);
            }
        }
        out
    }

    /// Without a transaction of MySQL. (Of MariaDB all before it would be in it still, and all behind it not.)
    pub fn without(&self, gtid: &Gtid) -> GtidSet {
        let mut one = GtidSet::new();
        one.insert(gtid);
        self.minus(&one)
    }

    /// The server to which MariaDB's last transaction of a domain goes back.
    pub fn last_of(&self, domain: u32) -> Option<Gtid> {
        let &(server, sequence) = self.domains.get(&domain)?;
        Some(Gtid::MariaDb { domain, server, sequence })
    }

    /// MariaDB: the last of this one's domain.
    pub fn domain_of(&self, gtid: &Gtid) -> Option<Gtid> {
        let Gtid::MariaDb { domain, .. } = gtid else { return None };
        self.last_of(*domain)
    }

    /// MariaDB: the last of each domain.
    pub fn domains(&self) -> impl Iterator<Item = Gtid> {
        let last = |(&domain, &(server, sequence))| Gtid::MariaDb { domain, server, sequence };
        self.domains.iter().map(last)
    }

    /// The ranges, for MySQL's dump request: server, tag, and `start..end` pairs (end excluded).
    pub fn iter(&self) -> impl Iterator<Item = (&Origin, &[(u64, u64)])> {
        self.ranges.iter().map(|(o, r)| (o, r.as_slice()))
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 80 {
        text.to_owned()
    } else {
        text.chars().take(80).collect::<String>() + ".."
    }
}

/// `domain-server-sequence`.
fn parse_domain(text: &str) -> Option<Gtid> {
    let mut parts = text.split('-');
    let domain = parts.next()?.parse().ok()?;
    let server = parts.next()?.parse().ok()?;
    let sequence = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Gtid::MariaDb { domain, server, sequence })
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.bytes().filter(|&b| b != b'-').collect();
    if digits.len() != 32 {
        return None;
    }
    let mut uuid = [0; 16];
    for (i, byte) in uuid.iter_mut().enumerate() {
        let hex = |b: u8| (b as char).to_digit(16);
        *byte = (hex(digits[2 * i])? * 16 + hex(digits[2 * i + 1])?) as u8;
    }
    Some(uuid)
}

/// As the server writes UUIDs.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    // once per transaction: without the machinery of format
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(48);
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtid::MySql { origin, number } => {
                f.write_str(&uuid_text(&origin.uuid))?;
                if !origin.tag.is_empty() {
                    write!(f, ":{}", origin.tag)?;
                }
                write!(f, ":{number}")
            }
            Gtid::MariaDb { domain, server, sequence } => write!(f, "{domain}-{server}-{sequence}"),
        }
    }
}

/// As the server writes sets, without white space.
impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous: Option<[u8; 16]> = None;
        for (origin, ranges) in &self.ranges {
            if previous != Some(origin.uuid) {
                if previous.is_some() {
                    f.write_str(",")?;
                }
                f.write_str(&uuid_text(&origin.uuid))?;
                previous = Some(origin.uuid);
            }
            if !origin.tag.is_empty() {
                write!(f, ":{}", origin.tag)?;
            }
            for &(start, end) in ranges {
                if end - start == 1 {
                    write!(f, ":{start}")?;
                } else {
                    write!(f, ":{start}-{}", end - 1)?;
                }
            }
        }
        for (i, (domain, (server, sequence))) in self.domains.iter().enumerate() {
            let comma = if i > 0 || previous.is_some() { "," } else { "" };
            write!(f, "{comma}{domain}-{server}-{sequence}")?;
        }
        Ok(())
    }
}

impl serde::Serialize for GtidSet {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for GtidSet {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<GtidSet, D::Error> {
        let text = String::deserialize(d)?;
        GtidSet::parse(&text).map_err(|e| serde::de::Error::custom(e.diagnostic().headline.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    fn gtid(number: u64) -> Gtid {
        Gtid::MySql { origin: Origin { uuid: parse_uuid(A).unwrap(), tag: "".into() }, number }
    }

    #[test]
    fn text_round_trips_and_ranges_merge() {
        for text in
            [format!("{A}:1-23:27"), format!("{A}:5,{B}:1-2"), format!("{A}:1-41:mytag:1:3-4"), String::new()]
        {
            assert_eq!(set(&text).to_string(), text);
        }
        assert_eq!(set(&format!("{A}:1-3:4:6-7, {A}:5")).to_string(), format!("{A}:1-7"));
        for bad in ["x", "3e11fa47:1", &format!("{A}:0-1"), &format!("{A}:a-")[..], &format!("{A}:1-x")] {
            let tagged = bad.ends_with("a-");
            assert!(GtidSet::parse(bad).is_err() || tagged, "{bad}");
        }
    }

    #[test]
    fn owned_gtids() {
        let owned = GtidSet::parse_owned(&format!("{A}:29#12:31#7,\n{B}:mytag:5#1024")).unwrap();
        assert_eq!(owned, set(&format!("{A}:29:31,{B}:mytag:5")));
        assert!(GtidSet::parse_owned("").unwrap().is_empty());
    }

    #[test]
    fn one_by_one_equals_a_naive_set() {
        // numbers in a scrambled order, compared at every step
        let mut ours = GtidSet::new();
        let mut naive = std::collections::BTreeSet::new();
        for i in 0..200u64 {
            let n = (i * 73) % 101 + 1;
            ours.insert(&gtid(n));
            naive.insert(n);
            for k in 1..=102 {
                assert_eq!(ours.contains(&gtid(k)), naive.contains(&k));
            }
        }
        assert_eq!(ours.to_string(), format!("{A}:1-101"));
    }

    #[test]
    fn minus_and_containment() {
        let a = set(&format!("{A}:1-10,{B}:1-5"));
        let b = set(&format!("{A}:3-4:8,{B}:1-9"));
        assert_eq!(a.minus(&b).to_string(), format!("{A}:1-2:5-7:9-10"));
        assert!(!a.contains_set(&b) && !b.contains_set(&a));
        let mut both = a.clone();
        both.extend(&b);
        assert!(both.contains_set(&a) && both.contains_set(&b));
        assert!(a.contains_set(&GtidSet::new()));
    }

    #[test]
    fn domains() {
        let a = set("0-1-270, 7-2-4");
        assert_eq!(a.to_string(), "0-1-270,7-2-4");
        assert_eq!(set(&a.to_string()), a);
        let gtid = |domain, server, sequence| Gtid::MariaDb { domain, server, sequence };
        assert!(a.contains(&gtid(0, 9, 270)) && a.contains(&gtid(7, 2, 1)));
        assert!(!a.contains(&gtid(0, 1, 271)) && !a.contains(&gtid(1, 1, 1)));
        let mut b = a.clone();
        b.insert(&gtid(0, 3, 271));
        b.insert(&gtid(1, 3, 5));
        assert_eq!(b.to_string(), "0-3-271,1-3-5,7-2-4");
        assert!(b.contains_set(&a) && !a.contains_set(&b));
        assert_eq!(b.minus(&a).to_string(), "0-3-271,1-3-5");
        assert!(a.minus(&b).is_empty());
        let mut c = set("0-1-300");
        c.extend(&b);
        assert_eq!(c.to_string(), "0-1-300,1-3-5,7-2-4");
        assert_eq!(c.last_of(1), Some(gtid(1, 3, 5)));
        for bad in ["0-1", "0-1-2-3", "0-1-x", "-1-2-3", "4294967296-1-1"] {
            assert!(GtidSet::parse(bad).is_err(), "{bad}");
        }
    }
}
