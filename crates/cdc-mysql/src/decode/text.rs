//! CHAR, VARCHAR, the TEXT family, BINARY, VARBINARY and the BLOB family.

use super::Flaw;
use super::charset::Codec;
use cdc_core::row::RowBuilder;

/// VARCHAR and TEXT: the bytes of the column's character set, as UTF-8.
#[inline]
pub fn text(bytes: &[u8], codec: Codec, scratch: &mut String, out: &mut RowBuilder) -> Result<(), Flaw> {
    out.push_text(codec.decode(bytes, scratch)?);
    Ok(())
}

/// CHAR: as [`text()`], without trailing spaces.
///
/// MySQL manual 13.3.2 "The CHAR and VARCHAR Types": a CHAR is stored padded with spaces, and they are taken
/// away when it is read; the log takes them away too. They are not part of the value. Trimming both sides
/// here holds under PAD_CHAR_TO_FULL_LENGTH as well. It is done after the conversion: in ucs2 a byte 0x20 at
/// the end need not be a space.
#[inline]
pub fn char(bytes: &[u8], codec: Codec, scratch: &mut String, out: &mut RowBuilder) -> Result<(), Flaw> {
    out.push_text(codec.decode(bytes, scratch)?.trim_end_matches(' '));
    Ok(())
}

/// VARBINARY and BLOB.
#[inline]
pub fn bytes(bytes: &[u8], out: &mut RowBuilder) {
    out.push_bytes(bytes);
}

/// BINARY(length): padded back to its length with 0x00, which the log trims (MySQL manual 13.3.3 "The BINARY
/// and VARBINARY Types"). `scratch` is used for the padding.
#[inline]
pub fn binary(bytes: &[u8], length: u32, scratch: &mut Vec<u8>, out: &mut RowBuilder) -> Result<(), Flaw> {
    let length = length as usize;
    if bytes.len() == length {
        out.push_bytes(bytes);
        return Ok(());
    }
    if bytes.len() > length {
        return Err(Flaw::undecodable(format!("{} bytes in a BINARY({length})", bytes.len())));
    }
    scratch.clear();
    scratch.extend_from_slice(bytes);
    scratch.resize(length, 0);
    out.push_bytes(scratch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::Value;

    #[test]
    fn char_is_trimmed_and_varchar_is_not() {
        let mut out = RowBuilder::new();
        let mut scratch = String::new();
        char(b"a b  ", Codec::Utf8mb4, &mut scratch, &mut out).unwrap();
        char(b"   ", Codec::Latin1, &mut scratch, &mut out).unwrap();
        text(b"a b  ", Codec::Utf8mb4, &mut scratch, &mut out).unwrap();
        let row = out.finish();
        assert_eq!(row.get(0), Value::Text("a b".into()));
        assert_eq!(row.get(1), Value::Text("".into()));
        assert_eq!(row.get(2), Value::Text("a b  ".into()));
    }

    #[test]
    fn binary_is_padded_and_varbinary_is_not() {
        let mut out = RowBuilder::new();
        let mut scratch = Vec::new();
        binary(&[0xaa], 4, &mut scratch, &mut out).unwrap();
        binary(&[0xaa, 0, 0, 0], 4, &mut scratch, &mut out).unwrap();
        binary(&[], 2, &mut scratch, &mut out).unwrap();
        bytes(&[0xaa], &mut out);
        assert!(binary(&[1, 2, 3], 2, &mut scratch, &mut out).is_err());
        let row = out.finish();
        assert_eq!(row.get(0), Value::Bytes(vec![0xaa, 0, 0, 0].into()));
        assert_eq!(row.get(1), row.get(0));
        assert_eq!(row.get(2), Value::Bytes(vec![0, 0].into()));
        assert_eq!(row.get(3), Value::Bytes(vec![0xaa].into()));
    }
}
