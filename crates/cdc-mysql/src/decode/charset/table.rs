//! Conversion tables of the legacy character sets, as a server has given them.
//!
//! No table of ours: the server says of each code which character it is ([`crate::charsets`] asks), so our
//! values equal what it converts by construction, MySQL's peculiarities with them. A table is asked for once in
//! a process and kept for good; decoders hold it by reference and look nothing up.
//!
//! *Shape.* The first byte of a character says how long it is, or the second does:
//!
//! | sets | codes |
//! |---|---|
//! | one byte | any byte |
//! | big5, cp932, euckr, gb2312, gbk, sjis | one byte, or two of which the first is 0x80 or above |
//! | eucjpms, ujis | those, or 0x8F and two bytes |
//! | gb18030 | one byte, two, or four of which the second is a digit |
//!
//! *What is no value.* Bytes that the server finds ill-formed. Codes that it takes and has no character for: it
//! reads them as `?` or U+FFFD, and nobody can say afterwards what they were. And in a key, a code whose
//! character has another one too (cp932 has `¬` three times): the server tells the rows apart, their texts do
//! not, and two rows would be one to us.

use crate::decode::Flaw;
use std::sync::{PoisonError, RwLock};

/// The characters of one set, by code.
pub struct Table {
    name: &'static str,
    /// 0x00 to 0x7F are the characters of that number.
    ascii: bool,
    one: Box<[Entry; 256]>,
    /// By first byte less 0x80, and second; empty if the set has none.
    two: Vec<Entry>,
    /// Behind 0x8F: by second byte less 0x80, and third.
    three: Vec<Entry>,
    /// gb18030's four bytes below U+10000, by [`linear`].
    four: Vec<Entry>,
}

/// What a code is: a character, or a character with [`ALIAS`], or none of the two.
type Entry = u32;

/// The character has another code, which is the one that the server writes it with.
const ALIAS: Entry = 1 << 31;
/// The server takes the code and has no character for it.
const NO_CHARACTER: Entry = u32::MAX;
/// The server finds it ill-formed.
const ILL_FORMED: Entry = u32::MAX - 1;

/// gb18030's codes of four bytes from this one on are U+10000 and what follows (GB 18030-2005, annex C).
const BEYOND_BMP: [u8; 4] = [0x90, 0x30, 0x81, 0x30];

/// What the server says of one code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A character. `canonical`: the server writes it with this code.
    Char {
        /// Which.
        char: char,
        /// The server writes it with this code.
        canonical: bool,
    },
    /// Well-formed, and without a character.
    Nothing,
}

/// The number of a code of four bytes, in their order.
fn linear(code: [u8; 4]) -> Option<usize> {
    let place = |byte: u8, from: u8, to: u8| {
        (from..=to).contains(&byte).then(|| usize::from(byte) - usize::from(from))
    };
    let [a, b, c, d] = code;
    let (a, b) = (place(a, 0x81, 0xfe)?, place(b, 0x30, 0x39)?);
    let (c, d) = (place(c, 0x81, 0xfe)?, place(d, 0x30, 0x39)?);
    Some(((a * 10 + b) * 126 + c) * 10 + d)
}

/// A character of gb18030 beyond U+FFFF, by its code of four bytes.
pub fn beyond_bmp(code: [u8; 4]) -> Option<char> {
    let offset = linear(code)?.checked_sub(linear(BEYOND_BMP)?)?;
    char::from_u32(u32::try_from(offset).ok()?.checked_add(0x1_0000)?)
}

impl Table {
    /// A table without codes.
    pub fn new(name: &'static str) -> Table {
        let one = Box::new([ILL_FORMED; 256]);
        Table { name, ascii: false, one, two: Vec::new(), three: Vec::new(), four: Vec::new() }
    }

    /// Takes in what a code is; false if it has a form that no code has.
    pub fn put(&mut self, code: &[u8], meaning: Meaning) -> bool {
        let entry = match meaning {
            Meaning::Char { char, canonical: true } => char.into(),
            Meaning::Char { char, canonical: false } => Entry::from(char) | ALIAS,
            Meaning::Nothing => NO_CHARACTER,
        };
        let (codes, place) = match *code {
            [one] => {
                self.one[usize::from(one)] = entry;
                self.ascii = (0u8..0x80).all(|b| self.one[usize::from(b)] == Entry::from(b));
                return true;
            }
            [a @ 0x80..=0xff, b] => (&mut self.two, pair(a, b)),
            [0x8f, a @ 0x80..=0xff, b] => (&mut self.three, pair(a, b)),
            [a, b, c, d] => match linear([a, b, c, d]) {
                Some(place) => (&mut self.four, place),
                None => return false,
            },
            _ => return false,
        };
        if codes.len() <= place {
            codes.resize(place + 1, ILL_FORMED);
        }
        codes[place] = entry;
        true
    }

    /// The set.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Is 0x00 to 0x7F ASCII, where a character begins?
    pub fn is_ascii_compatible(&self) -> bool {
        self.ascii
    }

    /// The text of `bytes`, behind what `out` holds. `key`: of a column by which rows are told apart.
    #[inline]
    pub fn decode(&self, bytes: &[u8], key: bool, out: &mut String) -> Result<(), Flaw> {
        out.reserve(bytes.len() * 2);
        if self.two.is_empty() {
            for byte in bytes {
                let entry = self.one[usize::from(*byte)];
                out.push(match char::from_u32(entry) {
                    Some(char) => char,
                    None => self.special(entry, std::slice::from_ref(byte), bytes, key)?,
                });
            }
            return Ok(());
        }
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if self.ascii && first < 0x80 {
                let n = rest.iter().position(|b| *b >= 0x80).unwrap_or(rest.len());
                let (run, behind) = rest.split_at(n);
                match std::str::from_utf8(run) {
                    Ok(run) => out.push_str(run),
                    Err(_) => out.extend(run.iter().map(|&b| char::from(b))),
                }
                rest = behind;
                continue;
            }
            let (entry, n) = self.first(first, rest);
            let (code, behind) = rest.split_at(n);
            out.push(match char::from_u32(entry) {
                Some(char) => char,
                None => self.special(entry, code, bytes, key)?,
            });
            rest = behind;
        }
        Ok(())
    }

    /// What the first character of `bytes` is, and how many bytes it has.
    #[inline]
    fn first(&self, first: u8, bytes: &[u8]) -> (Entry, usize) {
        let one = self.one[usize::from(first)];
        if char::from_u32(one).is_some() {
            return (one, 1);
        }
        let at = |codes: &[Entry], place: usize| codes.get(place).copied().unwrap_or(ILL_FORMED);
        match *bytes {
            [0x8f, a @ 0x80..=0xff, b, ..] if !self.three.is_empty() => (at(&self.three, pair(a, b)), 3),
            [a, b @ 0x30..=0x39, c, d, ..] if !self.four.is_empty() => (self.four_bytes([a, b, c, d]), 4),
            [a @ 0x80..=0xff, b, ..] => (at(&self.two, pair(a, b)), 2),
            _ => (one, 1),
        }
    }

    fn four_bytes(&self, code: [u8; 4]) -> Entry {
        match linear(code) {
            None => ILL_FORMED,
            Some(place) => match self.four.get(place) {
                Some(&entry) => entry,
                None => beyond_bmp(code).map_or(NO_CHARACTER, Entry::from),
            },
        }
    }

    #[cold]
    fn special(&self, entry: Entry, code: &[u8], value: &[u8], key: bool) -> Result<char, Flaw> {
        let name = self.name;
        match entry {
            ILL_FORMED => return Err(super::ill_formed(name, value)),
            NO_CHARACTER => {}
            alias => {
                if let Some(char) = char::from_u32(alias & !ALIAS) {
                    if !key {
                        return Ok(char);
                    }
                    return Err(Flaw::undecodable(format!(
                        "0x{} is a second {name} code of \"{char}\", and in a key two codes of one character \
                         are two rows with one text",
                        super::hex(code)
                    )));
                }
            }
        }
        Err(Flaw::undecodable(format!("0x{} is no character of {name} that Unicode has", super::hex(code))))
    }
}

fn pair(first: u8, second: u8) -> usize {
    (usize::from(first) & 0x7f) << 8 | usize::from(second)
}

/// The tables that this process has been given.
static TABLES: RwLock<Vec<&'static Table>> = RwLock::new(Vec::new());

/// The table of a set, if it has been given.
pub fn get(name: &str) -> Option<&'static Table> {
    let tables = TABLES.read().unwrap_or_else(PoisonError::into_inner);
    tables.iter().find(|table| table.name == name).copied()
}

/// Keeps a table for good; of two of one set the first.
pub fn keep(table: Table) {
    let mut tables = TABLES.write().unwrap_or_else(PoisonError::into_inner);
    if !tables.iter().any(|known| known.name == table.name) {
        tables.push(Box::leak(Box::new(table)));
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Table) -> bool {
        self.name == other.name
    }
}

impl Eq for Table {}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Table").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn char(char: char) -> Meaning {
        Meaning::Char { char, canonical: true }
    }

    /// ASCII, and a code of each form.
    fn table() -> Table {
        let mut table = Table::new("made up");
        for b in 0..0x80 {
            assert!(table.put(&[b], char(b.into())));
        }
        table.put(&[0xa1], char('ｱ'));
        table.put(&[0x81, 0x41], char('中'));
        table.put(&[0x81, 0x42], Meaning::Nothing);
        table.put(&[0x81, 0x43], Meaning::Char { char: '中', canonical: false });
        table.put(&[0x8f, 0xa1, 0xa2], char('丂'));
        table.put(&[0x81, 0x30, 0x81, 0x30], char('\u{80}'));
        table
    }

    fn decoded(bytes: &[u8], key: bool) -> Result<String, Flaw> {
        let mut out = String::new();
        table().decode(bytes, key, &mut out).map(|()| out)
    }

    #[test]
    fn characters_of_every_length() {
        assert!(table().is_ascii_compatible());
        assert_eq!(decoded(b"plain", true).unwrap(), "plain");
        // the second byte of a character may be ASCII
        assert_eq!(decoded(b"a\x81AA\xa1\x8f\xa1\xa2z", true).unwrap(), "a中Aｱ丂z");
        assert_eq!(decoded(b"\x81\x30\x81\x30", true).unwrap(), "\u{80}");
        assert_eq!(decoded(b"\x90\x30\x81\x30\xe3\x32\x9a\x35", true).unwrap(), "\u{10000}\u{10ffff}");
        assert_eq!(decoded(b"", true).unwrap(), "");
    }

    #[test]
    fn one_byte_a_character() {
        let mut table = Table::new("single");
        table.put(b"A", char('Ä'));
        table.put(&[0xff], Meaning::Nothing);
        assert!(!table.is_ascii_compatible());
        let mut out = String::new();
        table.decode(b"AA", true, &mut out).unwrap();
        assert_eq!(out, "ÄÄ");
        assert!(table.decode(&[0xff], true, &mut out).is_err());
        assert!(table.decode(b"B", true, &mut out).is_err());
    }

    #[test]
    fn what_is_no_value_says_why() {
        for (bytes, why) in [
            (&b"ok\x81B"[..], "0x8142 is no character of made up that Unicode has"),
            (b"\x8f\x39\xfe\x39", "0x8F39FE39 is no character of made up that Unicode has"),
            (b"\xe3\x32\x9a\x36", "0xE3329A36 is no character of made up that Unicode has"),
            (b"ok\x81", "0x6F6B81 is not well-formed made up"),
            (b"\x81D", "0x8144 is not well-formed made up"),
            (b"\x81\x30\x81", "0x813081 is not well-formed made up"),
            (b"\x81\x30\xff\x30", "0x8130FF30 is not well-formed made up"),
            (b"\xff", "0xFF is not well-formed made up"),
        ] {
            assert_eq!(decoded(bytes, false), Err(Flaw::undecodable(why)));
        }
    }

    #[test]
    fn a_second_code_of_a_character_is_no_key() {
        assert_eq!(decoded(b"\x81C", false).unwrap(), "中");
        assert!(matches!(decoded(b"\x81C", true), Err(Flaw::Undecodable(why)) if why.contains("0x8143")));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let table = table();
        let mut out = String::new();
        for n in 0..=u32::from(u16::MAX) {
            let bytes = (n.wrapping_mul(0x9e37_79b1)).to_be_bytes();
            for len in 0..=4 {
                out.clear();
                let _ = table.decode(&bytes[..len], false, &mut out);
            }
        }
        assert!(!Table::new("x").put(&[1, 2], Meaning::Nothing));
    }
}
