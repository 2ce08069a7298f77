//! Text: comparison under the collations that are built, LIKE, letter case, encoded length.
//!
//! A collation is built when its order is proved equal to the server's. So far: `binary` and the `_bin`
//! collations of character sets whose order over code points is known.

use super::types::{Coercibility, ExprType};
use crate::schema::Charset;
use std::cmp::Ordering;

/// How two texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Collator {
    order: Order,
    /// PAD SPACE: the shorter text counts as if it were filled up with spaces (MySQL manual 12.8.5).
    pad: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By code point, which is the order of UTF-8 bytes.
    CodePoint,
    /// By the bytes of the server's `latin1`, which is cp1252 (manual 12.10.2).
    Latin1,
}

/// The characters of the bytes 0x80 to 0x9f in the server's latin1; the five bytes that cp1252 leaves out
/// are control characters of the same number.
const CP1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}', '\u{2c6}',
    '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}', '\u{90}', '\u{2018}',
    '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}', '\u{2dc}', '\u{2122}', '\u{161}',
    '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

fn latin1_weight(c: char) -> u32 {
    match CP1252.iter().position(|m| *m == c) {
        Some(i) => 0x80 + i as u32,
        // what latin1 cannot hold only comes from the other side, and sorts behind
        None => c as u32,
    }
}

impl Collator {
    /// Of literals among each other: by code point, without padding, as `utf8mb4_0900_bin`. A pipeline
    /// file has no connection whose collation they could take.
    pub(crate) const LITERAL: Collator = Collator { order: Order::CodePoint, pad: false };

    /// The collation, if it is built.
    pub(crate) fn of(charset: &Charset) -> Option<Collator> {
        let code_point = |pad| Some(Collator { order: Order::CodePoint, pad });
        match &*charset.collation {
            // manual 12.8.5: NO PAD are `binary` and the collations of UCA 9.0.0 and later
            "binary" | "utf8mb4_0900_bin" => code_point(false),
            "utf8mb4_bin" | "utf8mb3_bin" | "utf8_bin" | "ucs2_bin" | "utf16_bin" | "utf16le_bin"
            | "utf32_bin" | "ascii_bin" => code_point(true),
            "latin1_bin" => Some(Collator { order: Order::Latin1, pad: true }),
            // MariaDB
            "utf8mb4_nopad_bin" | "utf8mb3_nopad_bin" | "utf8_nopad_bin" | "ascii_nopad_bin" => {
                code_point(false)
            }
            "latin1_nopad_bin" => Some(Collator { order: Order::Latin1, pad: false }),
            _ => None,
        }
    }

    /// The collation by which texts of this type compare, if it is built.
    pub(crate) fn of_type(charset: &Charset, coercibility: Coercibility) -> Option<Collator> {
        match coercibility {
            Coercibility::NoCollation => None,
            Coercibility::Explicit | Coercibility::Implicit => Collator::of(charset),
            _ => Some(Collator::LITERAL),
        }
    }

    pub(crate) fn encode(self, text: &str, out: &mut Vec<u8>) {
        let _ = self;
        out.extend_from_slice(text.trim_end_matches(' ').as_bytes());
        out.push(0);
    }

    pub(crate) fn compare(self, a: &str, b: &str) -> Ordering {
        match self.order {
            Order::CodePoint if self.pad => compare_padded(a.as_bytes(), b.as_bytes(), |b| b),
            Order::CodePoint => a.cmp(b),
            Order::Latin1 => {
                let weights = |s: &str| s.chars().map(latin1_weight).collect::<Vec<_>>();
                let (x, y) = (weights(a), weights(b));
                if self.pad { compare_padded(&x, &y, u32::from) } else { x.cmp(&y) }
            }
        }
    }
}

fn compare_padded<T: Ord + Copy>(a: &[T], b: &[T], space: impl Fn(u8) -> T) -> Ordering {
    let common = a.len().min(b.len());
    let space = space(b' ');
    a[..common].cmp(&b[..common]).then_with(|| {
        let tail = |rest: &[T]| rest.iter().map(|c| c.cmp(&space)).find(|o| *o != Ordering::Equal);
        match (tail(&a[common..]), tail(&b[common..])) {
            (Some(o), _) => o,
            (None, Some(o)) => o.reverse(),
            (None, None) => Ordering::Equal,
        }
    })
}

/// A pattern of LIKE (MySQL manual 14.8.1). Character by character, never padded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LikePattern<C> {
    items: Vec<LikeItem<C>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LikeItem<C> {
    Any,
    One,
    Just(C),
}

impl<C: Copy + PartialEq> LikePattern<C> {
    /// An escape character at the end stands for itself.
    pub(crate) fn new(pattern: impl IntoIterator<Item = C>, any: C, one: C, escape: Option<C>) -> Self {
        let mut items = Vec::new();
        let mut chars = pattern.into_iter();
        while let Some(c) = chars.next() {
            items.push(if Some(c) == escape {
                LikeItem::Just(chars.next().unwrap_or(c))
            } else if c == any {
                LikeItem::Any
            } else if c == one {
                LikeItem::One
            } else {
                LikeItem::Just(c)
            });
        }
        LikePattern { items }
    }

    /// Does it match the whole text? Goes back to the last `%` only, so it takes at most text × pattern
    /// steps and no stack.
    pub(crate) fn matches(&self, text: &[C]) -> bool {
        let (mut t, mut p) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match self.items.get(p) {
                Some(LikeItem::Any) => {
                    p += 1;
                    retry = Some((p, t));
                    continue;
                }
                Some(LikeItem::One) if t < text.len() => {
                    (t, p) = (t + 1, p + 1);
                    continue;
                }
                Some(LikeItem::Just(c)) if text.get(t) == Some(c) => {
                    (t, p) = (t + 1, p + 1);
                    continue;
                }
                None if t == text.len() => return true,
                _ => {}
            }
            match retry {
                Some((after, from)) if from < text.len() => {
                    retry = Some((after, from + 1));
                    (t, p) = (from + 1, after);
                }
                _ => return false,
            }
        }
    }
}

impl LikePattern<char> {
    pub(crate) fn of_text(pattern: &str, escape: char) -> Self {
        LikePattern::new(pattern.chars(), '%', '_', Some(escape))
    }
}

impl LikePattern<u8> {
    pub(crate) fn of_bytes(pattern: &[u8], escape: char) -> Self {
        LikePattern::new(pattern.iter().copied(), b'%', b'_', u8::try_from(u32::from(escape)).ok())
    }
}

/// UPPER, as the server's `utf8mb4_0900` collations map letters: one character to one.
pub(crate) fn to_upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

/// LOWER, as the server's `utf8mb4_0900` collations map letters: one character to one.
pub(crate) fn to_lower(text: &str) -> String {
    text.chars().map(lower_char).collect()
}

fn upper_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_uppercase();
    }
    match c {
        // Greek letters with iota: one letter by the simple mapping, two by Rust's full one
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            char::from_u32(c as u32 + 8).unwrap_or(c)
        }
        '\u{1fb3}' => '\u{1fbc}',
        '\u{1fc3}' => '\u{1fcc}',
        '\u{1ff3}' => '\u{1ffc}',
        _ if is_newer_letter(c) => c,
        _ => single(c.to_uppercase()).unwrap_or(c),
    }
}

fn lower_char(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    match c {
        '\u{130}' => 'i',
        _ if is_newer_letter(c) => c,
        _ => single(c.to_lowercase()).unwrap_or(c),
    }
}

fn single(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next();
    if mapped.next().is_some() { None } else { first }
}

/// Letters whose partner came after Unicode 9, which the server's tables follow; found by comparing all
/// code points with a 9.7 server.
///
/// One difference is left on purpose: where the partner takes another number of UTF-8 bytes (such as U+0250
/// and U+2C6F) that server gives an empty text for one of the two (19 letters in all). We map the letter.
fn is_newer_letter(c: char) -> bool {
    matches!(c as u32,
        0x19b | 0x264 | 0x282 | 0x10d0..=0x10ff | 0x1c89..=0x1cbf | 0x1d8e | 0x2c2f | 0x2c5f | 0xa794
        | 0xa7b8..=0xa7dc | 0xa7f5..=0xa7f6 | 0x10570..=0x105bc | 0x10d50..=0x10d85
        | 0x16e40..=0x16e7f | 0x16ea0..=0x16ed3)
}

/// The bytes that a text takes in a character set; `None` where that is not known here.
pub(crate) fn encoded_length(charset: &Charset, text: &str) -> Option<usize> {
    let chars = text.chars().count();
    Some(match &*charset.name {
        "utf8mb4" | "utf8mb3" | "utf8" | "binary" => text.len(),
        "ucs2" => chars * 2,
        "utf16" | "utf16le" => text.encode_utf16().count() * 2,
        "utf32" => chars * 4,
        name if is_single_byte(name) => chars,
        _ => return None,
    })
}

/// Character sets of one byte a character (MySQL manual 12.10).
fn is_single_byte(name: &str) -> bool {
    matches!(
        name,
        "ascii"
            | "latin1"
            | "latin2"
            | "latin5"
            | "latin7"
            | "cp1250"
            | "cp1251"
            | "cp1256"
            | "cp1257"
            | "cp850"
            | "cp852"
            | "cp866"
            | "dec8"
            | "hp8"
            | "greek"
            | "hebrew"
            | "keybcs2"
            | "koi8r"
            | "koi8u"
            | "macce"
            | "macroman"
            | "swe7"
            | "tis620"
            | "armscii8"
            | "geostd8"
    )
}

/// True where the server's bytes of a text are its UTF-8 bytes.
pub(crate) fn is_utf8(ty: &ExprType) -> bool {
    ty.ty
        .as_ref()
        .and_then(|t| t.charset())
        .is_none_or(|c| matches!(&*c.name, "utf8mb4" | "utf8mb3" | "utf8" | "ascii"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collator(name: &str) -> Collator {
        Collator::of(&Charset::new("x", name)).unwrap()
    }

    #[test]
    fn padding_follows_the_collation() {
        let pad = collator("utf8mb4_bin");
        let no_pad = collator("utf8mb4_0900_bin");
        assert_eq!(pad.compare("a", "a  "), Ordering::Equal);
        assert_eq!(no_pad.compare("a", "a  "), Ordering::Less);
        assert_eq!(pad.compare("a", "a\u{1}"), Ordering::Greater);
        assert_eq!(pad.compare("a \u{1}", "a"), Ordering::Less);
        assert_eq!(pad.compare("a", "a!"), Ordering::Less);
        assert_eq!(pad.compare("", "  "), Ordering::Equal);
        assert_eq!(pad.compare("é", "f"), Ordering::Greater);
        assert_eq!(collator("latin1_bin").compare("€", "ÿ"), Ordering::Less);
        assert_eq!(collator("latin1_bin").compare("€ ", "€"), Ordering::Equal);
        assert_eq!(Collator::of(&Charset::utf8mb4()), None);
        assert_eq!(Collator::of(&Charset::new("utf8mb4", "")), None);
    }

    /// The mapping of every code point was compared with a 9.7 server's UPPER and LOWER once; the checksum
    /// keeps it so when the tables of Rust's standard library move on to a newer Unicode.
    #[test]
    fn letters_are_mapped_as_the_server_maps_them() {
        let mut sum = 0xcbf2_9ce4_8422_2325u64;
        let mut mapped = 0;
        for c in (0..=0x10_ffff).filter_map(char::from_u32) {
            let (upper, lower) = (upper_char(c), lower_char(c));
            if upper != c || lower != c {
                mapped += 1;
                for part in [c, upper, lower] {
                    sum = (sum ^ u64::from(u32::from(part))).wrapping_mul(0x100_0000_01b3);
                }
            }
        }
        assert_eq!((mapped, sum), (2621, 18_235_670_507_926_474_586));
        assert_eq!(to_upper("straße ŉ ÿ ﬁ"), "STRAßE ŉ Ÿ ﬁ");
        assert_eq!(to_lower("İ ΑΣ"), "i ασ");
    }

    #[test]
    fn like_goes_back_to_the_last_percent_only() {
        let like = |text: &str, pattern: &str| {
            LikePattern::of_text(pattern, '\\').matches(&text.chars().collect::<Vec<_>>())
        };
        for (text, pattern, expect) in [
            ("abc", "a%", true),
            ("abc", "_b_", true),
            ("abc", "%b%c", true),
            ("abc", "%b", false),
            ("", "%", true),
            ("", "_", false),
            ("", "", true),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("a\\", "a\\", true),
            ("mississippi", "%iss%ip%", true),
            ("mississippi", "m%iss%issx%", false),
            ("abc ", "abc", false),
            ("é", "_", true),
        ] {
            assert_eq!(like(text, pattern), expect, "{text:?} like {pattern:?}");
        }
        // exponential in a naive matcher
        assert!(!like(&"a".repeat(5000), &format!("{}b", "a%".repeat(50))));
    }
}
