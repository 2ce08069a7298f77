//! ucs2, utf16, utf16le and utf32.
//!
//! MySQL manual 12.9 "Unicode Support". The server stores half a surrogate pair in ucs2 (there it is a character
//! like any other) and in none of the others, and makes UTF-8 of it nowhere: it is no value.

use super::ill_formed;
use crate::decode::Flaw;

/// Two bytes a character, big endian; no surrogates.
pub fn ucs2(bytes: &[u8], out: &mut String) -> Result<(), Flaw> {
    let (units, rest) = bytes.as_chunks::<2>();
    out.reserve(bytes.len());
    for unit in units {
        let char = char::from_u32(u16::from_be_bytes(*unit).into());
        out.push(char.ok_or_else(|| ill_formed("ucs2", bytes))?);
    }
    whole(rest, "ucs2", bytes)
}

/// UTF-16, big endian.
pub fn utf16(bytes: &[u8], out: &mut String) -> Result<(), Flaw> {
    units(bytes, u16::from_be_bytes, "utf16", out)
}

/// UTF-16, little endian.
pub fn utf16le(bytes: &[u8], out: &mut String) -> Result<(), Flaw> {
    units(bytes, u16::from_le_bytes, "utf16le", out)
}

fn units(bytes: &[u8], unit: fn([u8; 2]) -> u16, name: &str, out: &mut String) -> Result<(), Flaw> {
    let (units, rest) = bytes.as_chunks::<2>();
    out.reserve(bytes.len());
    for char in char::decode_utf16(units.iter().map(|&bytes| unit(bytes))) {
        out.push(char.map_err(|_| ill_formed(name, bytes))?);
    }
    whole(rest, name, bytes)
}

/// Four bytes a character, big endian.
pub fn utf32(bytes: &[u8], out: &mut String) -> Result<(), Flaw> {
    let (units, rest) = bytes.as_chunks::<4>();
    out.reserve(bytes.len());
    for unit in units {
        out.push(char::from_u32(u32::from_be_bytes(*unit)).ok_or_else(|| ill_formed("utf32", bytes))?);
    }
    whole(rest, "utf32", bytes)
}

fn whole(rest: &[u8], name: &str, bytes: &[u8]) -> Result<(), Flaw> {
    if rest.is_empty() { Ok(()) } else { Err(ill_formed(name, bytes)) }
}
