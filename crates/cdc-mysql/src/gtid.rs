//! GTIDs and sets of them (MySQL manual 19.1.3).
//!
//! A set maps a server's UUID, and a tag where there is one (8.3 and later), to ranges of transaction
//! numbers. Sets are only partially ordered: of two sets, neither need contain the other. So there is
//! [`GtidSet::contains_set`] and no comparison.

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
pub struct Gtid {
    /// Server and tag.
    pub origin: Origin,
    /// Its number there, from 1.
    pub number: u64,
}

/// A set of GTIDs. Ranges are kept sorted, disjoint and not adjacent, as `start..end` (end excluded), so
/// equal sets are equal values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GtidSet {
    ranges: BTreeMap<Origin, Vec<(u64, u64)>>,
}

impl GtidSet {
    /// The empty set.
    pub fn new() -> GtidSet {
        GtidSet::default()
    }

    /// From the text of `gtid_executed`: `uuid:1-5:7:tag:1-3,uuid:..`, with any white space.
    ///
    /// # Errors
    /// `LOG_POSITION` if it is not such a text.
    pub fn parse(text: &str) -> Result<GtidSet> {
        let malformed = || {
            Error::definite(codes::LOG_POSITION, format!("\"{}\" is not a GTID set", shorten(text)))
                .help("a GTID set reads like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23:27")
        };
        let mut set = GtidSet::new();
        for part in text.split(',') {
            let part = part.trim();
            if part.is_empty() {
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

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Is the transaction in it?
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.contains_number(&gtid.origin, gtid.number)
    }

    fn contains_number(&self, origin: &Origin, number: u64) -> bool {
        self.ranges.get(origin).is_some_and(|ranges| {
            let i = ranges.partition_point(|&(_, end)| end <= number);
            ranges.get(i).is_some_and(|&(start, _)| start <= number)
        })
    }

    /// Adds a transaction.
    pub fn insert(&mut self, gtid: &Gtid) {
        // the usual case first: the next number of a server that is already there
        if let Some(last) = self.ranges.get_mut(&gtid.origin).and_then(|r| r.last_mut())
            && last.1 == gtid.number
        {
            last.1 += 1;
            return;
        }
        self.insert_range(&gtid.origin, gtid.number, gtid.number + 1);
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
    }

    /// Is every transaction of the other set in this one?
    pub fn contains_set(&self, other: &GtidSet) -> bool {
        other.ranges.iter().all(|(origin, ranges)| {
            let Some(ours) = self.ranges.get(origin) else { return ranges.is_empty() };
            ranges.iter().all(|&(start, end)| {
                let i = ours.partition_point(|&(_, e)| e <= start);
                ours.get(i).is_some_and(|&(s, e)| s <= start && end <= e)
            })
        })
    }

    /// What is in this set and not in the other.
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
        out
    }

    /// What is in both.
    pub fn intersection(&self, other: &GtidSet) -> GtidSet {
        self.minus(&self.minus(other))
    }

    /// The ranges, for the dump request: server, tag, and `start..end` pairs (end excluded).
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
        f.write_str(&uuid_text(&self.origin.uuid))?;
        if !self.origin.tag.is_empty() {
            write!(f, ":{}", self.origin.tag)?;
        }
        write!(f, ":{}", self.number)
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
        Gtid { origin: Origin { uuid: parse_uuid(A).unwrap(), tag: "".into() }, number }
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
    fn minus_and_intersection_and_containment() {
        let a = set(&format!("{A}:1-10,{B}:1-5"));
        let b = set(&format!("{A}:3-4:8,{B}:1-9"));
        assert_eq!(a.minus(&b).to_string(), format!("{A}:1-2:5-7:9-10"));
        assert_eq!(a.intersection(&b).to_string(), format!("{A}:3-4:8,{B}:1-5"));
        assert!(!a.contains_set(&b) && !b.contains_set(&a));
        let mut both = a.clone();
        both.extend(&b);
        assert!(both.contains_set(&a) && both.contains_set(&b));
        assert!(a.contains_set(&GtidSet::new()));
    }
}
