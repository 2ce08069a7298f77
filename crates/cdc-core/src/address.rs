//! MariaDB's UUID, INET4 and INET6 as texts.
//!
//! A value of such a type is 16 or 4 bytes, and the server prints each value in exactly one way. That text
//! is the [`Value::Text`](crate::value::Value::Text) of the value: a snapshot gets it from the server, the
//! log has the bytes, and here they become the same text. Two values are equal exactly if their texts are.
//! The *order* of the texts is not the server's order of the values.
//!
//! The texts (measured on 10.11 and 11.8, see `values_mariadb.rs` in cdc-mysql):
//! - UUID: 32 lower-case hexadecimal digits, dashes behind the 8th, 12th, 16th and 20th.
//! - INET4: four decimal numbers.
//! - INET6: eight groups of hexadecimal digits without leading zeros, in which the longest run of zero
//!   groups, the first of several equally long ones, is `::`. This is not RFC 5952, which leaves a single
//!   zero group alone: `2001:db8:0:1:1:1:1:1` prints as `2001:db8::1:1:1:1:1`. An address whose first six
//!   groups are zeros, and no more, and one of `::ffff` and two groups end in an INET4's text.

use crate::schema::ColumnType;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Appends the text of a UUID, whose bytes are in the order of its digits.
pub fn push_uuid(bytes: &[u8; 16], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Appends the text of an INET4.
pub fn push_inet4(bytes: &[u8; 4], out: &mut String) {
    // writing to a String cannot fail
    let _ = write!(out, "{}", Ipv4Addr::from(*bytes));
}

/// Appends the text of an INET6.
pub fn push_inet6(bytes: &[u8; 16], out: &mut String) {
    let groups = Ipv6Addr::from(*bytes).segments();
    let (start, length) = longest_zeros(&groups);
    let embeds_inet4 = start == 0 && (length == 6 || length == 5 && groups[5] == 0xffff);
    let mut i = 0;
    while i < groups.len() {
        if length > 0 && i == start {
            out.push_str("::");
            i += length;
            continue;
        }
        if i > 0 && i != start + length {
            out.push(':');
        }
        if embeds_inet4 && i == 6 {
            push_inet4(&[bytes[12], bytes[13], bytes[14], bytes[15]], out);
            return;
        }
        let _ = write!(out, "{:x}", groups[i]);
        i += 1;
    }
}

/// Where the longest run of zero groups begins, the first of several, and how long it is; `(8, 0)` if none
/// is zero.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let mut best = (8, 0);
    let mut run = 0;
    for (i, group) in groups.iter().enumerate() {
        run = if *group == 0 { run + 1 } else { 0 };
        if run > best.1 {
            best = (i + 1 - run, run);
        }
    }
    best
}

/// The one text of the value that this text means as a UUID, INET4 or INET6; `None` if it means none, and
/// for other types.
///
/// Stricter than the server, which takes dashes anywhere in a UUID: they are at their places or nowhere.
pub fn canonical(ty: &ColumnType, text: &str) -> Option<String> {
    let mut out = String::new();
    match ty {
        ColumnType::Uuid => {
            let digits: String = match text.len() {
                32 => text.to_owned(),
                36 if text.char_indices().all(|(i, c)| matches!(i, 8 | 13 | 18 | 23) == (c == '-')) => {
                    text.replace('-', "")
                }
                _ => return None,
            };
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            push_uuid(&u128::from_str_radix(&digits, 16).ok()?.to_be_bytes(), &mut out);
        }
        ColumnType::Inet4 => push_inet4(&text.parse::<Ipv4Addr>().ok()?.octets(), &mut out),
        ColumnType::Inet6 => {
            // an INET4's text means nothing here on 10.11, and the mapped address on 11.8
            push_inet6(&text.parse::<Ipv6Addr>().ok()?.octets(), &mut out);
        }
        _ => return None,
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet6(groups: [u16; 8]) -> String {
        let mut out = String::new();
        push_inet6(&Ipv6Addr::from(groups).octets(), &mut out);
        out
    }

    #[test]
    fn the_texts_of_inet6_are_mariadb_s() {
        for (groups, text) in [
            ([0; 8], "::"),
            ([0, 0, 0, 0, 0, 0, 0, 1], "::1"),
            ([1, 0, 0, 0, 0, 0, 0, 0], "1::"),
            ([0, 0, 0, 0, 0, 0, 1, 0], "::0.1.0.0"),
            ([0, 0, 0, 0, 0, 0xffff, 0xa00, 1], "::ffff:10.0.0.1"),
            ([0, 0, 0, 0, 0, 0xffff, 0, 1], "::ffff:0.0.0.1"),
            ([0, 0, 0, 0, 0, 0xfffe, 0, 1], "::fffe:0:1"),
            ([0x2001, 0xdb8, 0, 1, 1, 1, 1, 1], "2001:db8::1:1:1:1:1"),
            ([1, 0, 0, 2, 0, 0, 3, 4], "1::2:0:0:3:4"),
            ([1, 0, 2, 0, 0, 3, 4, 5], "1:0:2::3:4:5"),
            ([0, 1, 2, 3, 4, 5, 6, 7], "::1:2:3:4:5:6:7"),
            ([1, 2, 3, 4, 5, 6, 7, 0], "1:2:3:4:5:6:7::"),
            ([1, 2, 3, 4, 5, 6, 7, 0xffff], "1:2:3:4:5:6:7:ffff"),
        ] {
            assert_eq!(inet6(groups), text);
            assert_eq!(canonical(&ColumnType::Inet6, text).as_deref(), Some(text));
        }
    }

    #[test]
    fn texts_come_into_their_one_form() {
        let check = |ty: ColumnType, text: &str, expected: Option<&str>| {
            assert_eq!(canonical(&ty, text).as_deref(), expected, "{text}");
        };
        let uuid = "123e4567-e89b-12d3-a456-426655440000";
        check(ColumnType::Uuid, uuid, Some(uuid));
        check(ColumnType::Uuid, &uuid.to_uppercase(), Some(uuid));
        check(ColumnType::Uuid, &uuid.replace('-', ""), Some(uuid));
        check(ColumnType::Uuid, "123e4567-e89b-12d3-a456-42665544000", None);
        check(ColumnType::Uuid, "+23e4567e89b12d3a456426655440000", None);
        check(ColumnType::Uuid, "çççççççççççççççç", None);
        check(ColumnType::Inet4, "10.1.0.0", Some("10.1.0.0"));
        check(ColumnType::Inet4, "10.1.0", None);
        check(ColumnType::Inet6, "2001:DB8:0:0:0:0:0:1", Some("2001:db8::1"));
        check(ColumnType::Inet6, "10.0.0.1", None);
        check(ColumnType::Inet6, ":", None);
        check(ColumnType::Year, "2024", None);
    }
}
