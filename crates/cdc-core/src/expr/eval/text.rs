//! Text: LIKE, letter case, encoded length.

use super::collation::Collator;
use super::types::ExprType;
use crate::schema::Charset;

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

impl LikePattern<u32> {
    /// Of what the collation compares characters by. The letters with a meaning are known by themselves: `％` is none of
    /// them, whatever it equals.
    pub(crate) fn of_text(pattern: &str, escape: char, collator: Collator) -> Self {
        let items = LikePattern::new(pattern.chars(), '%', '_', Some(escape)).items.into_iter();
        let keyed = |item| match item {
            LikeItem::Any => LikeItem::Any,
            LikeItem::One => LikeItem::One,
            LikeItem::Just(c) => LikeItem::Just(collator.like_key(c)),
        };
        LikePattern { items: items.map(keyed).collect() }
    }

    pub(crate) fn matches_text(&self, text: &str, collator: Collator) -> bool {
        self.matches(&text.chars().map(|c| collator.like_key(c)).collect::<Vec<_>>())
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
            LikePattern::of_text(pattern, '\\', Collator::LITERAL).matches_text(text, Collator::LITERAL)
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
