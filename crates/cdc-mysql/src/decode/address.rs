//! MariaDB's UUID, INET4 and INET6: bytes in the log, text from a SELECT, the same text of both.
//!
//! In the log they are fixed strings of 16, 4 and 16 bytes in the order of their text (a UUID is *stored* in
//! another order), from whose end zero bytes have been cut off, as from a BINARY; spaces are kept (read off
//! 10.11.19 and 11.8.9). The text is made by [`cdc_core::address`].

use super::Flaw;
use cdc_core::address::{push_inet4, push_inet6, push_uuid};
use cdc_core::row::RowBuilder;

/// Which of the types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// UUID.
    Uuid,
    /// INET4.
    Inet4,
    /// INET6.
    Inet6,
}

/// A value of a row image; `scratch` is used for its text.
pub fn decode(bytes: &[u8], ty: Address, scratch: &mut String, out: &mut RowBuilder) -> Result<(), Flaw> {
    scratch.clear();
    match ty {
        Address::Uuid => push_uuid(&padded(bytes)?, scratch),
        Address::Inet4 => push_inet4(&padded(bytes)?, scratch),
        Address::Inet6 => push_inet6(&padded(bytes)?, scratch),
    }
    out.push_text(scratch);
    Ok(())
}

/// The zero bytes back that the log cuts off.
fn padded<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Flaw> {
    let mut whole = [0; N];
    match whole.get_mut(..bytes.len()) {
        Some(head) => head.copy_from_slice(bytes),
        None => return Err(Flaw::undecodable(format!("{} bytes where {N} are the most", bytes.len()))),
    }
    Ok(whole)
}

/// A value of a result set, where it is text; all of its characters are ASCII.
pub fn from_result(bytes: &[u8], out: &mut RowBuilder) -> Result<(), Flaw> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => out.push_text(text),
        _ => return Err(Flaw::undecodable("a UUID or an address that is no text")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_log_become_the_server_s_text() {
        let mut scratch = String::new();
        let mut check = |ty: Address, bytes: &[u8], text: &str| {
            let mut out = RowBuilder::new();
            decode(bytes, ty, &mut scratch, &mut out).unwrap();
            assert_eq!(out.finish().get(0), cdc_core::Value::Text(text.into()));
        };
        // read off the log of 10.11.19: two zero bytes are cut off
        check(
            Address::Uuid,
            b"\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x55\x44",
            "123e4567-e89b-12d3-a456-426655440000",
        );
        check(Address::Uuid, b"", "00000000-0000-0000-0000-000000000000");
        check(Address::Inet4, &[10, 1], "10.1.0.0");
        check(Address::Inet4, b"", "0.0.0.0");
        check(Address::Inet4, b"\0\0\0 ", "0.0.0.32");
        check(Address::Inet6, b"\x20\x01\x0d\xb8", "2001:db8::");
        check(Address::Inet6, &[b' '; 16], "2020:2020:2020:2020:2020:2020:2020:2020");
        let mut out = RowBuilder::new();
        assert!(decode(&[1; 17], Address::Uuid, &mut String::new(), &mut out).is_err());
        assert!(decode(&[1; 5], Address::Inet4, &mut String::new(), &mut out).is_err());
        assert!(from_result(&[0xff], &mut out).is_err());
    }
}
