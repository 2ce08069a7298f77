//! BIT(1..=64): `(width + 7) / 8` bytes, big endian, in the log and in result sets alike.

use super::Flaw;
use super::bytes::Bytes;
use cdc_core::row::RowBuilder;

/// The bytes of a BIT of this width.
pub fn bytes_of(width: u8) -> usize {
    usize::from(width).div_ceil(8)
}

/// A BIT of a row image.
#[inline]
pub fn decode(input: &mut Bytes<'_>, bytes: usize, out: &mut RowBuilder) -> Result<(), Flaw> {
    out.push_bit(input.uint_be(bytes)?);
    Ok(())
}

/// A BIT of a result set.
pub fn from_result(bytes: &[u8], out: &mut RowBuilder) -> Result<(), Flaw> {
    if bytes.len() > 8 {
        return Err(Flaw::undecodable(format!("a BIT of {} bytes", bytes.len())));
    }
    out.push_bit(Bytes(bytes).uint_be(bytes.len())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::Value;

    #[test]
    fn right_aligned_from_big_endian_bytes() {
        let mut out = RowBuilder::new();
        decode(&mut Bytes(&[0b011]), bytes_of(3), &mut out).unwrap();
        decode(&mut Bytes(&[0x01, 0x02]), bytes_of(9), &mut out).unwrap();
        decode(&mut Bytes(&[0xff; 8]), bytes_of(64), &mut out).unwrap();
        from_result(&[0x01, 0x02], &mut out).unwrap();
        assert_eq!(decode(&mut Bytes(&[1]), bytes_of(64), &mut out), Err(Flaw::Truncated));
        assert!(from_result(&[0; 9], &mut out).is_err());
        let row = out.finish();
        assert_eq!(
            row.iter().collect::<Vec<_>>(),
            [Value::Bit(3), Value::Bit(258), Value::Bit(u64::MAX), Value::Bit(258)]
        );
    }
}
