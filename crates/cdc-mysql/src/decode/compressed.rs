//! What MariaDB compresses: single values of COMPRESSED columns, and whole events under `log_bin_compress`.
//!
//! Both are a byte that says how, the length before compression (big endian), and a zlib or deflate stream;
//! the bits of the first byte differ. MariaDB has no page that says which bit is what: the layouts here were
//! read off 10.11.19 and 11.8.9 with `column_compression_threshold`, `column_compression_zlib_wrap` and
//! `log_bin_compress`, and are kept as tests below and in `values_mariadb.rs`.
//!
//! | | first byte | length |
//! |---|---|---|
//! | value, stored as it is | `0x00` | none: the rest is the value |
//! | value, compressed | `0x80`; `0x08` if the stream is deflate without zlib's head and checksum | so many bytes as the lowest three bits say |
//! | event | `0x80`; bits 4 to 6: the algorithm, 0 is zlib | the same |
//!
//! An empty value has no byte at all, not even the first.
//!
//! A length that a damaged log names is not believed: a deflate stream gives at most 1032 bytes for each of
//! its own (258 bytes for two bits), which bounds what is allocated by what was received, and the result
//! must have exactly the length named.

use super::Flaw;
use super::bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

/// The most bytes that anything here becomes: the server's largest packet, and so its largest value and
/// event, is 1 GiB (`max_allowed_packet`).
const MOST: u64 = 1 << 30;

/// The most bytes that one byte of a deflate stream becomes.
const MOST_OF_A_BYTE: u64 = 1032;

/// Set in the first byte of all that is compressed.
const COMPRESSED: u8 = 0x80;

/// Of a value: deflate, else zlib.
const RAW: u8 = 0x08;

/// The value of a COMPRESSED column, in the bytes of its type; `scratch` holds it if it was compressed.
pub fn value<'b>(bytes: &'b [u8], scratch: &'b mut Vec<u8>) -> Result<&'b [u8], Flaw> {
    let Some((&head, rest)) = bytes.split_first() else { return Ok(bytes) };
    if head == 0 {
        return Ok(rest);
    }
    if head & !(RAW | 0x07) != COMPRESSED {
        return Err(Flaw::undecodable(format!(
            "a value is compressed in the way 0x{head:02x}, which is not known"
        )));
    }
    inflate(head, rest, head & RAW == 0, scratch)?;
    Ok(scratch)
}

/// The bytes of a compressed part of an event (the rows of WRITE_ROWS_COMPRESSED and its siblings, the
/// statement of QUERY_COMPRESSED), as the event of the plain type has them.
pub fn decompress_block(bytes: &[u8]) -> Result<Vec<u8>, Flaw> {
    let (&head, rest) = bytes.split_first().ok_or(Flaw::Truncated)?;
    if head & 0xf8 != COMPRESSED {
        return Err(Flaw::undecodable(format!(
            "it is compressed in the way 0x{head:02x}, which is not known"
        )));
    }
    let mut plain = Vec::new();
    inflate(head, rest, true, &mut plain)?;
    Ok(plain)
}

/// Reads the length (of as many bytes as the lowest three bits of `head` say) and the stream into `out`,
/// replacing what that holds.
fn inflate(head: u8, bytes: &[u8], zlib: bool, out: &mut Vec<u8>) -> Result<(), Flaw> {
    let mut input = Bytes(bytes);
    let length = input.uint_be(usize::from(head & 0x07)).map_err(|_| damaged("its length is cut off"))?;
    let stream = input.0;
    if length > MOST || length > stream.len() as u64 * MOST_OF_A_BYTE {
        return Err(damaged("it names a length that it cannot have"));
    }
    let length = length as usize;
    out.clear();
    // One byte more: with no room left the end of the stream would not be read.
    out.reserve_exact(length + 1);
    let mut inflater = Decompress::new(zlib);
    let status = inflater.decompress_vec(stream, out, FlushDecompress::Finish);
    match status {
        Ok(Status::StreamEnd) if out.len() == length && inflater.total_in() == stream.len() as u64 => Ok(()),
        _ => Err(damaged("its data do not give the length that it names")),
    }
}

#[cold]
fn damaged(why: &str) -> Flaw {
    Flaw::undecodable(format!("it is compressed and damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn hex(s: &str) -> Vec<u8> {
        (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, Flaw> {
        let mut scratch = vec![1; 3];
        value(bytes, &mut scratch).map(<[u8]>::to_vec)
    }

    /// As they stood in the log of 10.11.19 and 11.8.9.
    const RAW_200_C: &str = "89c84b4e1e1e0000";
    const ZLIB_200_C: &str = "81c8789c4b4e1e1e00005f964d59";
    const ZLIB_400_C: &str = "820190789c4b4e1e05830900002f7f9ab1";
    const ROWS: &str = "82013a789cfbc3c8c0c090c2904807f0870968d50986a46102004af6759c";

    #[test]
    fn values_stored_as_they_are() {
        assert_eq!(read(b"").unwrap(), b"");
        assert_eq!(read(b"\0").unwrap(), b"");
        assert_eq!(read(b"\0short").unwrap(), b"short");
    }

    #[test]
    fn values_with_and_without_zlib_s_head() {
        assert_eq!(read(&hex(RAW_200_C)).unwrap(), [b'c'; 200]);
        assert_eq!(read(&hex(ZLIB_200_C)).unwrap(), [b'c'; 200]);
        assert_eq!(read(&hex(ZLIB_400_C)).unwrap(), [b'c'; 400]);
    }

    #[test]
    fn rows_of_an_event() {
        // (1, 'aa..'), (2, 'bb..'), each behind its bitmap of NULLs
        let rows = [&b"\xfc\x01\0\0\0\x64\0"[..], &[b'a'; 100], b"\xfc\x02\0\0\0\xc8\0", &[b'b'; 200]];
        assert_eq!(decompress_block(&hex(ROWS)).unwrap(), rows.concat());
    }

    #[test]
    fn damage_is_refused() {
        for whole in [hex(RAW_200_C), hex(ZLIB_200_C), hex(ZLIB_400_C)] {
            for n in 1..whole.len() {
                assert!(read(&whole[..n]).is_err(), "{n} of {whole:02x?}");
            }
            let longer = [&whole[..], &[0]].concat();
            assert!(read(&longer).is_err(), "{longer:02x?}");
            // another length than it has
            let mut other = whole.clone();
            other[1] ^= 1;
            assert!(read(&other).is_err(), "{other:02x?}");
        }
        for head in [0x01, 0x90, 0xc1, 0x7f] {
            assert!(read(&[head, 1, 0]).is_err(), "{head:02x}");
        }
        let whole = hex(ROWS);
        for n in 0..whole.len() {
            assert!(decompress_block(&whole[..n]).is_err(), "{n}");
        }
        assert!(decompress_block(&[&[0x91], &whole[1..]].concat()).is_err(), "another algorithm");
    }

    #[test]
    fn a_length_is_not_believed() {
        // 4 GiB, and what a few bytes cannot become
        for length in ["ffffffff", "3fffffff", "00010000"] {
            let bytes = hex(&format!("84{length}789c4b4e1e1e00005f964d59"));
            let mut scratch = Vec::new();
            assert!(value(&bytes, &mut scratch).is_err());
            assert!(scratch.capacity() < 100_000);
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = StdRng::seed_from_u64(4);
        for _ in 0..50_000 {
            let mut bytes = hex([RAW_200_C, ZLIB_200_C, ZLIB_400_C, ROWS][rng.random_range(0..4)]);
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..bytes.len());
                bytes[at] = rng.random();
            }
            let _ = read(&bytes);
            let _ = decompress_block(&bytes);
        }
    }
}
