//! Binary JSON to the text that the server prints.
//!
//! The layout is that of the MySQL source documentation, `json_binary.h` ("This file specifies the interface
//! for serializing JSON values into binary representation"):
//!
//! ```text
//! document  = type (1 byte) value
//! container = count size key-entry* value-entry* key* value*     count, size, offsets: 2 bytes, or 4 if large
//! key-entry = offset length(2)        value-entry = type offset-or-inlined-value
//! string    = varint bytes            opaque = column type (1 byte) varint bytes
//! ```
//!
//! Offsets count from the container's `count`. The text follows `Json_wrapper::to_string()` in the source
//! documentation: `", "` and `": "` as separators, escapes for `"`, `\` and the control characters only,
//! doubles in the shortest digits that read back as the same number.
//!
//! # It ends on any input
//! A value lies behind the entry table of its container, so nesting strictly moves on; it is also bounded by
//! the server's own limit of 100 levels. Two entries may still point at the same bytes, which by nesting
//! could make an exponentially long text; the server never writes that, each entry and each byte of a string
//! being its own. So the entries and bytes that are read are counted, and may not be more than the bytes
//! that the document has.

pub mod diff;

use super::Flaw;
use super::bytes::Bytes;
use super::number::DecimalLayout;
use super::temporal::Packed;
use std::fmt::Write;

/// The server's `JSON_DOCUMENT_MAX_DEPTH`.
const MAX_DEPTH: usize = 100;

mod tag {
    pub const SMALL_OBJECT: u8 = 0x00;
    pub const LARGE_OBJECT: u8 = 0x01;
    pub const SMALL_ARRAY: u8 = 0x02;
    pub const LARGE_ARRAY: u8 = 0x03;
    pub const LITERAL: u8 = 0x04;
    pub const INT16: u8 = 0x05;
    pub const UINT16: u8 = 0x06;
    pub const INT32: u8 = 0x07;
    pub const UINT32: u8 = 0x08;
    pub const INT64: u8 = 0x09;
    pub const UINT64: u8 = 0x0a;
    pub const DOUBLE: u8 = 0x0b;
    pub const STRING: u8 = 0x0c;
    pub const OPAQUE: u8 = 0x0f;
}

/// Column types that have a text of their own inside JSON.
mod opaque {
    pub const TIMESTAMP: u8 = 7;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const NEWDECIMAL: u8 = 246;
}

/// Replaces the content of `out` by the text of a document.
pub fn to_text(document: &[u8], out: &mut String) -> Result<(), Flaw> {
    out.clear();
    // A NULL that INSERT IGNORE forces into a NOT NULL column is stored as an empty document, which the
    // server reads as the JSON null (`json_binary::parse_binary`).
    if document.is_empty() {
        out.push_str("null");
        return Ok(());
    }
    let mut input = Bytes(document);
    let tag = input.u8()?;
    Printer { out, budget: document.len() }.value(tag, input, 0)
}

struct Printer<'o> {
    out: &'o mut String,
    /// The entries and string bytes that may still be read.
    budget: usize,
}

impl Printer<'_> {
    fn spend(&mut self, n: usize) -> Result<(), Flaw> {
        self.budget = self.budget.checked_sub(n).ok_or_else(|| flaw("values overlap"))?;
        Ok(())
    }

    /// A value whose bytes start at `input`.
    fn value(&mut self, tag: u8, mut input: Bytes<'_>, depth: usize) -> Result<(), Flaw> {
        match tag {
            tag::SMALL_OBJECT => self.container(Size::Small, true, input.0, depth + 1),
            tag::LARGE_OBJECT => self.container(Size::Large, true, input.0, depth + 1),
            tag::SMALL_ARRAY => self.container(Size::Small, false, input.0, depth + 1),
            tag::LARGE_ARRAY => self.container(Size::Large, false, input.0, depth + 1),
            tag::LITERAL => self.literal(input.u8()?),
            tag::INT16 => self.number(input.u16()?.cast_signed()),
            tag::UINT16 => self.number(input.u16()?),
            tag::INT32 => self.number(input.u32()?.cast_signed()),
            tag::UINT32 => self.number(input.u32()?),
            tag::INT64 => self.number(input.u64()?.cast_signed()),
            tag::UINT64 => self.number(input.u64()?),
            tag::DOUBLE => {
                push_double(f64::from_bits(input.u64()?), self.out);
                Ok(())
            }
            tag::STRING => {
                let bytes = self.sized(&mut input)?;
                push_quoted(utf8(bytes)?, self.out);
                Ok(())
            }
            tag::OPAQUE => {
                let column_type = input.u8()?;
                let bytes = self.sized(&mut input)?;
                self.opaque(column_type, bytes)
            }
            _ => Err(flaw(format!("there is no value type {tag:#04x}"))),
        }
    }

    fn literal(&mut self, byte: u8) -> Result<(), Flaw> {
        self.out.push_str(match byte {
            0 => "null",
            1 => "true",
            2 => "false",
            _ => return Err(flaw(format!("there is no literal {byte:#04x}"))),
        });
        Ok(())
    }

    fn number(&mut self, n: impl std::fmt::Display) -> Result<(), Flaw> {
        // writing to a String does not fail
        let _ = write!(self.out, "{n}");
        Ok(())
    }

    /// The bytes behind a length of 7 bits a byte, lowest first, at most five bytes.
    fn sized<'a>(&mut self, input: &mut Bytes<'a>) -> Result<&'a [u8], Flaw> {
        let mut length = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = input.u8()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let n = usize::try_from(length).map_err(|_| Flaw::Truncated)?;
                self.spend(n)?;
                return input.take(n).map_err(|_| flaw("a string runs past the end"));
            }
        }
        Err(flaw("a length of more than five bytes"))
    }

    fn container(&mut self, size: Size, object: bool, bytes: &[u8], depth: usize) -> Result<(), Flaw> {
        if depth > MAX_DEPTH {
            return Err(flaw("more than 100 levels"));
        }
        let entries = size.entries(bytes, object)?;
        self.spend(entries.count)?;
        self.out.push(if object { '{' } else { '[' });
        for i in 0..entries.count {
            if i > 0 {
                self.out.push_str(", ");
            }
            if object {
                let key = entries.key(i)?;
                self.spend(key.len())?;
                push_quoted(utf8(key)?, self.out);
                self.out.push_str(": ");
            }
            let (tag, bytes) = entries.value(i)?;
            self.value(tag, Bytes(bytes), depth)?;
        }
        self.out.push(if object { '}' } else { ']' });
        Ok(())
    }

    /// A value of a column type that JSON does not have.
    fn opaque(&mut self, column_type: u8, bytes: &[u8]) -> Result<(), Flaw> {
        let packed = || match <[u8; 8]>::try_from(bytes) {
            Ok(bytes) => Ok(Packed(i64::from_le_bytes(bytes))),
            Err(_) => Err(flaw(format!("a date or time of {} bytes", bytes.len()))),
        };
        match column_type {
            opaque::NEWDECIMAL => {
                let mut input = Bytes(bytes);
                let (precision, scale) = (input.u8()?, input.u8()?);
                let layout = DecimalLayout::new(precision, scale)
                    .ok_or_else(|| flaw(format!("a DECIMAL({precision}, {scale})")))?;
                layout.read(&mut input, |text| self.out.push_str(text))
            }
            opaque::DATE => self.quoted(&packed()?.datetime()?.date.to_string()),
            opaque::TIME => self.quoted(&packed()?.time()?.to_text(6)),
            opaque::DATETIME | opaque::TIMESTAMP => self.quoted(&packed()?.datetime()?.to_text(6)),
            _ => {
                let _ = write!(self.out, "\"base64:type{column_type}:");
                push_base64(bytes, self.out);
                self.out.push('"');
                Ok(())
            }
        }
    }

    fn quoted(&mut self, text: &str) -> Result<(), Flaw> {
        self.out.push('"');
        self.out.push_str(text);
        self.out.push('"');
        Ok(())
    }
}

/// Whether counts and offsets of a container have two bytes or four.
#[derive(Clone, Copy)]
enum Size {
    Small,
    Large,
}

impl Size {
    fn offset_bytes(self) -> usize {
        match self {
            Size::Small => 2,
            Size::Large => 4,
        }
    }

    fn read(self, input: &mut Bytes<'_>) -> Result<usize, Flaw> {
        Ok(match self {
            Size::Small => usize::from(input.u16()?),
            Size::Large => input.u32()? as usize,
        })
    }

    /// The tables of a container that begins with these bytes.
    fn entries(self, bytes: &[u8], object: bool) -> Result<Entries<'_>, Flaw> {
        let mut head = Bytes(bytes);
        let count = self.read(&mut head)?;
        let total = self.read(&mut head)?;
        let Some(bytes) = bytes.get(..total) else {
            return Err(flaw("a container runs past the end"));
        };
        let key_bytes = if object { self.offset_bytes() + 2 } else { 0 };
        let header = (key_bytes + 1 + self.offset_bytes())
            .checked_mul(count)
            .and_then(|n| n.checked_add(2 * self.offset_bytes()))
            .filter(|&n| n <= total)
            .ok_or_else(|| flaw("a container without room for its entries"))?;
        let values = 2 * self.offset_bytes() + key_bytes * count;
        Ok(Entries { size: self, count, header, values, bytes })
    }
}

/// The tables of entries at the beginning of a container.
struct Entries<'a> {
    size: Size,
    count: usize,
    /// Bytes of the tables, and what is in front of them.
    header: usize,
    /// Where the table of values begins.
    values: usize,
    /// The container.
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    fn behind(&self, offset: usize) -> Result<&'a [u8], Flaw> {
        if offset < self.header {
            return Err(flaw("an entry points into the table of entries"));
        }
        self.bytes.get(offset..).ok_or_else(|| flaw("an entry points past the end"))
    }

    fn at(&self, offset: usize) -> Result<Bytes<'a>, Flaw> {
        self.bytes.get(offset..self.header).map(Bytes).ok_or(Flaw::Truncated)
    }

    /// The name of a member.
    fn key(&self, i: usize) -> Result<&'a [u8], Flaw> {
        let width = self.size.offset_bytes();
        let mut entry = self.at(2 * width + (width + 2) * i)?;
        let offset = self.size.read(&mut entry)?;
        let length = usize::from(entry.u16()?);
        self.behind(offset)?.get(..length).ok_or_else(|| flaw("a key runs past the end"))
    }

    /// The type of a value, and bytes that begin with it.
    fn value(&self, i: usize) -> Result<(u8, &'a [u8]), Flaw> {
        let width = self.size.offset_bytes();
        let mut entry = self.at(self.values + (1 + width) * i)?;
        let tag = entry.u8()?;
        let slot = entry.take(width)?;
        Ok(match (tag, self.size) {
            (tag::LITERAL | tag::INT16 | tag::UINT16, _) | (tag::INT32 | tag::UINT32, Size::Large) => {
                (tag, slot)
            }
            _ => (tag, self.behind(self.size.read(&mut Bytes(slot))?)?),
        })
    }
}

#[cold]
fn flaw(why: impl AsRef<str>) -> Flaw {
    Flaw::undecodable(format!("binary JSON in which {}", why.as_ref()))
}

fn utf8(bytes: &[u8]) -> Result<&str, Flaw> {
    std::str::from_utf8(bytes).map_err(|_| flaw("a string is not UTF-8"))
}

/// A string in double quotes (`double_quote()`): escapes for the quote, the backslash and the characters
/// below U+0020; everything else, U+007F and `/` too, stands as it is.
fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (i, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            b'\t' => "\\t",
            0x0c => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(text.get(plain..i).unwrap_or_default());
        plain = i + 1;
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(text.get(plain..).unwrap_or_default());
    out.push('"');
}

/// A double as `my_gcvt()` lays it out in 34 places, and `.0` behind what would look like an integer.
///
/// They stand without an exponent if the point is at most 14 places in front of them, or at most 15 places
/// behind the first (`MAX_DECPT_FOR_F_FORMAT` is 15), or within them.
fn push_double(value: f64, out: &mut String) {
    // the server stores no NaN and no infinity
    if !value.is_finite() {
        out.push_str("null");
        return;
    }
    let text = shortest(value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (first, rest) = mantissa.split_at(1);
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let digits = 1 + rest.len() as i32;
    let point = exponent + 1;
    out.push_str(sign);
    if point < -14 || (point > 15 && digits <= point) {
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        let _ = write!(out, "e{exponent}");
    } else if point <= 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
        out.push_str(first);
        out.push_str(rest);
    } else {
        let whole = exponent as usize;
        out.push_str(first);
        match rest.split_at_checked(whole) {
            Some((a, b)) => {
                out.push_str(a);
                out.push('.');
                out.push_str(if b.is_empty() { "0" } else { b });
            }
            None => {
                out.push_str(rest);
                out.extend(std::iter::repeat_n('0', whole - rest.len()));
                out.push_str(".0");
            }
        }
    }
}

/// The shortest digits that read back as the same number, and of those the nearest to it, as `d.ddde-N`.
///
/// Rust and the server's `dtoa()` agree but for a tie: 2653286400494.28125 lies half-way between two numbers
/// of 17 digits that both read back as it. `dtoa()` then takes the even digit and Rust the upper one. Rust's
/// formatting to a given number of digits takes the even one as well, so that is asked where a tie can be:
/// numbers of up to 15 digits are too far apart for two of them to be the same double.
fn shortest(value: f64) -> String {
    let text = format!("{value:e}");
    let digits = text.split('e').next().unwrap_or_default().bytes().filter(u8::is_ascii_digit).count();
    if digits > 15 {
        let nearest = format!("{value:.*e}", digits - 1);
        // next to a power of two the nearest may lie outside of the narrower side
        if nearest.parse() == Ok(value) {
            return nearest;
        }
    }
    text
}

/// Base64 with a line feed, escaped as it stands inside a JSON string, after every 76 characters but the
/// last (`base64_encode()`, whose lines are those of RFC 2045).
fn push_base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (i, chunk) in bytes.chunks(3).enumerate() {
        if i > 0 && i % 19 == 0 {
            out.push_str("\\n");
        }
        let at = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            out.push(if n <= chunk.len() {
                char::from(DIGITS[(word >> (18 - 6 * n) & 63) as usize])
            } else {
                '='
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn text(document: &[u8]) -> Result<String, Flaw> {
        let mut out = String::from("what was here before");
        to_text(document, &mut out)?;
        Ok(out)
    }

    fn check(document: &[u8], expected: &str) {
        assert_eq!(text(document).unwrap(), expected);
    }

    #[test]
    fn scalars() {
        check(&[], "null");
        check(&[4, 0], "null");
        check(&[4, 1], "true");
        check(&[4, 2], "false");
        check(&[5, 0xff, 0xff], "-1");
        check(&[6, 0xff, 0xff], "65535");
        check(&[7, 0, 0, 0, 0x80], "-2147483648");
        check(&[8, 0xff, 0xff, 0xff, 0xff], "4294967295");
        check(&[9, 0, 0, 0, 0, 0, 0, 0, 0x80], "-9223372036854775808");
        check(&[10, 255, 255, 255, 255, 255, 255, 255, 255], "18446744073709551615");
        check(b"\x0c\x03a\"\n", r#""a\"\n""#);
        check(b"\x0c\x04\x01\x1f\x7f/", "\"\\u0001\\u001f\u{7f}/\"");
        let long = "é".repeat(100);
        check(&[&[0x0c, 0xc8, 0x01], long.as_bytes()].concat(), &format!("\"{long}\""));
    }

    #[test]
    fn small_and_large_containers() {
        // {"a": 1, "b": [true, "x"]}
        let small: &[u8] = &[
            0, // object
            2, 0, 33, 0, // count, size
            18, 0, 1, 0, 19, 0, 1, 0, // keys
            5, 1, 0, // 1, inlined
            2, 20, 0, // array
            b'a', b'b', // keys
            2, 0, 13, 0, // count, size
            4, 1, 0, // true, inlined
            12, 10, 0, // string
            1, b'x', 0,
        ];
        check(small, r#"{"a": 1, "b": [true, "x"]}"#);
        // [-1, 70000] with offsets of four bytes
        let large: &[u8] = &[3, 2, 0, 0, 0, 18, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 8, 0x70, 0x11, 1, 0];
        check(large, "[-1, 70000]");
        check(&[0, 0, 0, 4, 0], "{}");
        check(&[2, 0, 0, 4, 0], "[]");
    }

    #[test]
    fn opaque_values() {
        check(&[15, 246, 4, 3, 2, 0x81, 0x32], "1.50");
        let whole = 0x99_B2BA_C8B8_i64 - 0x80_0000_0000;
        let datetime = (whole << 24 | 789_012).to_le_bytes();
        let with = |ty: u8, bytes: &[u8]| [&[15, ty, bytes.len() as u8], bytes].concat();
        check(&with(12, &datetime), "\"2024-02-29 12:34:56.789012\"");
        check(&with(7, &datetime), "\"2024-02-29 12:34:56.789012\"");
        check(&with(10, &datetime), "\"2024-02-29\"");
        check(&with(11, &(-(1i64 << 24)).to_le_bytes()), "\"-00:00:01.000000\"");
        check(&with(16, &[5]), "\"base64:type16:BQ==\"");
        check(&with(252, b"abc"), "\"base64:type252:YWJj\"");
        let line = "AAAA".repeat(19);
        check(&with(252, &[0; 57]), &format!("\"base64:type252:{line}\""));
        check(&with(252, &[0; 58]), &format!("\"base64:type252:{line}\\nAA==\""));
        assert!(text(&with(10, &[1])).is_err());
        assert!(text(&with(246, &[70, 0])).is_err());
    }

    #[test]
    fn doubles_are_laid_out_as_the_server_does() {
        let check = |value: f64, expected: &str| {
            let mut out = String::new();
            push_double(value, &mut out);
            assert_eq!(out, expected);
            assert_eq!(out.parse::<f64>().unwrap().to_bits(), value.to_bits());
        };
        check(0.0, "0.0");
        check(-0.0, "-0.0");
        check(1.0, "1.0");
        check(2.5, "2.5");
        check(-1234.5, "-1234.5");
        check(1e14, "100000000000000.0");
        check(1e15, "1e15");
        check(123456789012345.0, "123456789012345.0");
        check(1234567890123456.0, "1.234567890123456e15");
        check(1234567890123456.5, "1234567890123456.5");
        check(12345678901234567.0, "1.2345678901234568e16");
        check(1e22, "1e22");
        check(1e-5, "0.00001");
        check(1e-14, "0.00000000000001");
        check(1e-15, "0.000000000000001");
        check(1e-16, "1e-16");
        check(1.25e-20, "1.25e-20");
        check(f64::MAX, "1.7976931348623157e308");
        check(f64::MIN_POSITIVE, "2.2250738585072014e-308");
        check(5e-324, "5e-324");
        // 2653286400494.28125, a tie
        check(21226291203954.25 / 8.0, "2653286400494.2812");
        check(-1.5e300, "-1.5e300");
    }

    #[test]
    fn torn_documents_are_refused() {
        assert!(text(&[12, 5, b'a']).is_err());
        assert!(text(&[2, 1, 0, 200, 0]).is_err());
        assert!(text(&[1]).is_err());
        assert!(text(&[77, 0]).is_err());
        assert!(text(&[12, 0xff, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(text(&[12, 1, 0xff]).is_err());
    }

    #[test]
    fn a_document_that_points_at_itself_ends() {
        // arrays of 100 entries that all point at the next array: 100^k values if followed
        let mut document = vec![2];
        let levels = 5;
        for _ in 0..levels {
            document.extend([100, 0, 0xff, 0x7f]);
            for _ in 0..100 {
                document.extend([2, 0x30, 0x01]);
            }
        }
        document.resize(40_000, 0);
        assert!(text(&document).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..200_000 {
            let n = rng.random_range(0..60);
            let mut document: Vec<u8> = (0..n).map(|_| rng.random_range(0..=255)).collect();
            if let Some(tag) = document.first_mut() {
                *tag &= 0x0f;
            }
            let _ = text(&document);
        }
    }
}
