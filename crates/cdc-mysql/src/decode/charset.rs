//! Character sets: from the bytes that a column stores to UTF-8.
//!
//! The bytes are the same on both ways (the snapshot reads with `character_set_results = NULL`), so there is
//! one decoder per character set and no trust in the server's conversion of one side. A character set that
//! is not built in stops its table with a code; bytes that are ill-formed in theirs stop with another, never
//! with replacement characters.
//!
//! MySQL manual 12.10 "Supported Character Sets and Collations".

use super::Flaw;

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
}

/// A character set of the server.
#[derive(Debug, Clone, Copy)]
pub struct CharsetInfo {
    /// The server's name of it.
    pub name: &'static str,
    /// The most bytes of a character, by which CHAR(n) and VARCHAR(n) count their bytes in the log.
    pub max_bytes: u8,
    /// `None`: not built in.
    pub codec: Option<Codec>,
}

/// What is known of a character set of the server, by name; `utf8` is `utf8mb3`.
pub fn charset(name: &str) -> Option<&'static CharsetInfo> {
    let name = if name == "utf8" { "utf8mb3" } else { name };
    CHARSETS.binary_search_by(|info| info.name.cmp(name)).ok().map(|i| &CHARSETS[i])
}

const fn known(name: &'static str, max_bytes: u8) -> CharsetInfo {
    CharsetInfo { name, max_bytes, codec: None }
}

const fn built(name: &'static str, max_bytes: u8, codec: Codec) -> CharsetInfo {
    CharsetInfo { name, max_bytes, codec: Some(codec) }
}

/// `SHOW CHARACTER SET`, in the order of the names.
static CHARSETS: [CharsetInfo; 41] = [
    known("armscii8", 1),
    built("ascii", 1, Codec::Ascii),
    known("big5", 2),
    known("binary", 1),
    known("cp1250", 1),
    known("cp1251", 1),
    known("cp1256", 1),
    known("cp1257", 1),
    known("cp850", 1),
    known("cp852", 1),
    known("cp866", 1),
    known("cp932", 2),
    known("dec8", 1),
    known("eucjpms", 3),
    known("euckr", 2),
    known("gb18030", 4),
    known("gb2312", 2),
    known("gbk", 2),
    known("geostd8", 1),
    known("greek", 1),
    known("hebrew", 1),
    known("hp8", 1),
    known("keybcs2", 1),
    known("koi8r", 1),
    known("koi8u", 1),
    built("latin1", 1, Codec::Latin1),
    known("latin2", 1),
    known("latin5", 1),
    known("latin7", 1),
    known("macce", 1),
    known("macroman", 1),
    known("sjis", 2),
    known("swe7", 1),
    known("tis620", 1),
    known("ucs2", 2),
    known("ujis", 3),
    known("utf16", 4),
    known("utf16le", 4),
    known("utf32", 4),
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
        }
    }
}

#[cold]
fn ill_formed(charset: &str, bytes: &[u8]) -> Flaw {
    let shown = bytes.iter().take(24).fold(String::new(), |text, b| format!("{text}{b:02X}"));
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
        assert_eq!(charset("latin1").unwrap().codec, Some(Codec::Latin1));
        assert_eq!(charset("gbk").unwrap().codec, None);
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
    fn ill_formed_bytes_are_refused() {
        let mut scratch = String::new();
        for (codec, bytes) in [
            (Codec::Utf8mb4, &b"a\xff"[..]),
            (Codec::Utf8mb4, b"\xed\xa0\x80"),
            (Codec::Utf8mb3, "🙂".as_bytes()),
            (Codec::Ascii, b"\x80"),
        ] {
            assert!(matches!(codec.decode(bytes, &mut scratch), Err(Flaw::Undecodable(_))), "{codec:?}");
        }
        assert_eq!(Codec::Utf8mb4.decode("🙂".as_bytes(), &mut scratch).unwrap(), "🙂");
        assert_eq!(Codec::Utf8mb3.decode("中".as_bytes(), &mut scratch).unwrap(), "中");
    }
}
