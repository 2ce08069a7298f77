//! Character sets: from the bytes that a column stores to UTF-8.
//!
//! The bytes are the same on both ways (the snapshot reads with `character_set_results = NULL`), so there is
//! one decoder per character set and no trust in the server's conversion of one side. Unicode's own sets and
//! latin1 are built in; the tables of the others are the server's ([`table`], which [`crate::charsets`] asks
//! for). Bytes that are ill-formed in their set, or that it has no character for, stop with a code, never with
//! replacement characters.
//!
//! MySQL manual 12.10 "Supported Character Sets and Collations".

pub mod table;
mod unicode;

use super::Flaw;
use table::Table;

/// How the bytes of a character set become UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// UTF-8.
    Utf8mb4,
    /// UTF-8 of at most three bytes a character.
    Utf8mb3,
    /// 7 bits.
    Ascii,
    /// MySQL's latin1.
    Latin1,
    /// UTF-16 without surrogates, big endian.
    Ucs2,
    /// UTF-16, big endian.
    Utf16,
    /// UTF-16, little endian.
    Utf16le,
    /// UTF-32, big endian.
    Utf32,
    /// By the server's table.
    Table(&'static Table),
    /// By the server's table, in a key: a code must be the only one of its character.
    KeyTable(&'static Table),
}

/// How a set's bytes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// By a codec of our own.
    Built(Codec),
    /// By the server's table.
    Server,
    /// No text: `binary`.
    Bytes,
}

/// A character set of the server.
#[derive(Debug, Clone, Copy)]
pub struct CharsetInfo {
    /// The server's name of it.
    pub name: &'static str,
    /// The most bytes of a character, by which CHAR(n) and VARCHAR(n) count their bytes in the log.
    pub max_bytes: u8,
    coding: Coding,
}

impl CharsetInfo {
    /// Its codec; `None` for a set whose table has not been read ([`crate::charsets::ensure`]), and for `binary`.
    pub fn codec(&self) -> Option<Codec> {
        match self.coding {
            Coding::Built(codec) => Some(codec),
            Coding::Server => table::get(self.name).map(Codec::Table),
            Coding::Bytes => None,
        }
    }

    /// Is its table to be asked for?
    pub fn lacks_table(&self) -> bool {
        self.coding == Coding::Server && table::get(self.name).is_none()
    }
}

/// What is known of a character set of the server, by name; `utf8` is `utf8mb3`.
pub fn charset(name: &str) -> Option<&'static CharsetInfo> {
    let name = if name == "utf8" { "utf8mb3" } else { name };
    CHARSETS.binary_search_by(|info| info.name.cmp(name)).ok().map(|i| &CHARSETS[i])
}

const fn table(name: &'static str, max_bytes: u8) -> CharsetInfo {
    CharsetInfo { name, max_bytes, coding: Coding::Server }
}

const fn built(name: &'static str, max_bytes: u8, codec: Codec) -> CharsetInfo {
    CharsetInfo { name, max_bytes, coding: Coding::Built(codec) }
}

/// `SHOW CHARACTER SET`, in the order of the names.
static CHARSETS: [CharsetInfo; 41] = [
    table("armscii8", 1),
    built("ascii", 1, Codec::Ascii),
    table("big5", 2),
    CharsetInfo { name: "binary", max_bytes: 1, coding: Coding::Bytes },
    table("cp1250", 1),
    table("cp1251", 1),
    table("cp1256", 1),
    table("cp1257", 1),
    table("cp850", 1),
    table("cp852", 1),
    table("cp866", 1),
    table("cp932", 2),
    table("dec8", 1),
    table("eucjpms", 3),
    table("euckr", 2),
    table("gb18030", 4),
    table("gb2312", 2),
    table("gbk", 2),
    table("geostd8", 1),
    table("greek", 1),
    table("hebrew", 1),
    table("hp8", 1),
    table("keybcs2", 1),
    table("koi8r", 1),
    table("koi8u", 1),
    built("latin1", 1, Codec::Latin1),
    table("latin2", 1),
    table("latin5", 1),
    table("latin7", 1),
    table("macce", 1),
    table("macroman", 1),
    table("sjis", 2),
    table("swe7", 1),
    table("tis620", 1),
    built("ucs2", 2, Codec::Ucs2),
    table("ujis", 3),
    built("utf16", 4, Codec::Utf16),
    built("utf16le", 4, Codec::Utf16le),
    built("utf32", 4, Codec::Utf32),
    built("utf8mb3", 3, Codec::Utf8mb3),
    built("utf8mb4", 4, Codec::Utf8mb4),
];

/// 0x80 to 0x9F of MySQL's latin1, which is Windows code page 1252 with its five holes filled by the control
/// characters of the same number (manual 12.10.2 "West European Character Sets").
const CP1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

impl Codec {
    /// The text of `bytes`, in `scratch` if it is not UTF-8 as it stands.
    #[inline]
    pub fn decode<'a>(self, bytes: &'a [u8], scratch: &'a mut String) -> Result<&'a str, Flaw> {
        match self {
            // the standard library's check runs over ASCII 16 bytes at a time
            Codec::Utf8mb4 => std::str::from_utf8(bytes).map_err(|_| ill_formed("utf8mb4", bytes)),
            Codec::Utf8mb3 => match std::str::from_utf8(bytes) {
                Ok(text) if !bytes.iter().any(|&b| b >= 0xf0) => Ok(text),
                _ => Err(ill_formed("utf8mb3", bytes)),
            },
            Codec::Ascii if !bytes.is_ascii() => Err(ill_formed("ascii", bytes)),
            Codec::Ascii => std::str::from_utf8(bytes).map_err(|_| ill_formed("ascii", bytes)),
            Codec::Latin1 => match std::str::from_utf8(bytes) {
                Ok(text) if bytes.is_ascii() => Ok(text),
                _ => {
                    scratch.clear();
                    scratch.extend(bytes.iter().map(|&b| match b {
                        0x80..=0x9f => CP1252[usize::from(b - 0x80)],
                        _ => char::from(b),
                    }));
                    Ok(scratch)
                }
            },
            Codec::Ucs2 => into(scratch, |out| unicode::ucs2(bytes, out)),
            Codec::Utf16 => into(scratch, |out| unicode::utf16(bytes, out)),
            Codec::Utf16le => into(scratch, |out| unicode::utf16le(bytes, out)),
            Codec::Utf32 => into(scratch, |out| unicode::utf32(bytes, out)),
            Codec::Table(table) | Codec::KeyTable(table) => match std::str::from_utf8(bytes) {
                Ok(text) if table.is_ascii_compatible() && bytes.is_ascii() => Ok(text),
                _ => into(scratch, |out| table.decode(bytes, matches!(self, Codec::KeyTable(_)), out)),
            },
        }
    }

    /// The codec of a column by which rows are told apart.
    pub fn in_key(self) -> Codec {
        match self {
            Codec::Table(table) => Codec::KeyTable(table),
            other => other,
        }
    }
}

#[inline]
fn into(scratch: &mut String, decode: impl FnOnce(&mut String) -> Result<(), Flaw>) -> Result<&str, Flaw> {
    scratch.clear();
    decode(scratch)?;
    Ok(scratch)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, b| format!("{text}{b:02X}"))
}

#[cold]
fn ill_formed(charset: &str, bytes: &[u8]) -> Flaw {
    let shown = hex(&bytes[..bytes.len().min(24)]);
    let more = if bytes.len() > 24 { ".." } else { "" };
    Flaw::undecodable(format!("0x{shown}{more} is not well-formed {charset}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(CHARSETS.windows(2).all(|w| w[0].name < w[1].name));
        assert_eq!(charset("utf8").unwrap().name, "utf8mb3");
        assert_eq!(charset("latin1").unwrap().codec(), Some(Codec::Latin1));
        assert_eq!(charset("binary").unwrap().codec(), None);
        assert!(charset("gbk").unwrap().lacks_table() && !charset("binary").unwrap().lacks_table());
        assert!(charset("klingon").is_none());
    }

    #[test]
    fn latin1_is_cp1252() {
        let mut scratch = String::new();
        assert_eq!(Codec::Latin1.decode(b"\x80 caf\xe9", &mut scratch).unwrap(), "€ café");
        assert_eq!(
            Codec::Latin1.decode(b"\x81\x8d\x8f\x90\x9d", &mut scratch).unwrap(),
            "\u{81}\u{8d}\u{8f}\u{90}\u{9d}"
        );
        assert_eq!(Codec::Latin1.decode(b"plain", &mut scratch).unwrap(), "plain");
    }

    #[test]
    fn unicode_in_units_of_two_and_four_bytes() {
        let mut scratch = String::from("old");
        for (codec, bytes, text) in [
            (Codec::Ucs2, &b"\x00a\x4e\x2d"[..], "a中"),
            (Codec::Utf16, b"\x00a\xd8\x3d\xde\x42", "a🙂"),
            (Codec::Utf16le, b"a\x00\x3d\xd8\x42\xde", "a🙂"),
            (Codec::Utf32, b"\x00\x00\x00a\x00\x01\xf6\x42", "a🙂"),
        ] {
            assert_eq!(codec.decode(bytes, &mut scratch).unwrap(), text, "{codec:?}");
        }
    }

    #[test]
    fn ill_formed_bytes_are_refused() {
        let mut scratch = String::new();
        for (codec, bytes) in [
            (Codec::Utf8mb4, &b"a\xff"[..]),
            (Codec::Utf8mb4, b"\xed\xa0\x80"),
            (Codec::Utf8mb3, "🙂".as_bytes()),
            (Codec::Ascii, b"\x80"),
            (Codec::Ucs2, b"\x00a\x00"),
            (Codec::Ucs2, b"\xd8\x3d\xde\x42"),
            (Codec::Utf16, b"\xd8\x3d"),
            (Codec::Utf16le, b"\x42\xde"),
            (Codec::Utf32, b"\x00\x11\x00\x00"),
            (Codec::Utf32, b"\x00\x00\xd8\x00"),
            (Codec::Utf32, b"\x00\x00a"),
        ] {
            assert!(matches!(codec.decode(bytes, &mut scratch), Err(Flaw::Undecodable(_))), "{codec:?}");
        }
        assert_eq!(Codec::Utf8mb4.decode("🙂".as_bytes(), &mut scratch).unwrap(), "🙂");
        assert_eq!(Codec::Utf8mb3.decode("中".as_bytes(), &mut scratch).unwrap(), "中");
    }
}
