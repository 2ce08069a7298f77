//! Reading integers and slices off the front of a byte slice, without ever reading past its end.

use super::Flaw;

/// What is left of an event's or a value's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Flaw> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Flaw::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Flaw::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    /// An unsigned byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Flaw> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Flaw> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Three bytes, little endian.
    #[inline]
    pub fn u24(&mut self) -> Result<u32, Flaw> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes, little endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Flaw> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Six bytes, little endian.
    #[inline]
    pub fn u48(&mut self) -> Result<u64, Flaw> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Eight bytes, little endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Flaw> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// `n` bytes (at most 8), little endian.
    pub fn uint_le(&mut self, n: usize) -> Result<u64, Flaw> {
        let bytes = self.take(n)?;
        Ok(bytes.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)))
    }

    /// `n` bytes (at most 8), big endian.
    #[inline]
    pub fn uint_be(&mut self, n: usize) -> Result<u64, Flaw> {
        Ok(self.take(n)?.iter().fold(0, |value, &b| value << 8 | u64::from(b)))
    }

    /// A length-encoded integer (MySQL source documentation, "Protocol::LengthEncodedInteger").
    pub fn lenenc(&mut self) -> Result<u64, Flaw> {
        match self.u8()? {
            0xfb | 0xff => Err(Flaw::Truncated),
            0xfc => Ok(u64::from(self.u16()?)),
            0xfd => Ok(u64::from(self.u24()?)),
            0xfe => self.u64(),
            small => Ok(u64::from(small)),
        }
    }

    /// A length-encoded integer that counts or indexes things in memory.
    pub fn lenenc_usize(&mut self) -> Result<usize, Flaw> {
        usize::try_from(self.lenenc()?).map_err(|_| Flaw::Truncated)
    }

    /// A string behind its length-encoded length.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Flaw> {
        let n = self.lenenc_usize()?;
        self.take(n)
    }

    /// The bytes behind a length of `width` bytes (1 to 4), little endian.
    #[inline]
    pub fn sized(&mut self, width: LengthWidth) -> Result<&'a [u8], Flaw> {
        let n = match width {
            LengthWidth::One => usize::from(self.u8()?),
            LengthWidth::Two => usize::from(self.u16()?),
            LengthWidth::Three => self.u24()? as usize,
            LengthWidth::Four => self.u32()? as usize,
        };
        self.take(n)
    }
}

/// How many bytes the length in front of a string or a blob has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthWidth {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Three bytes.
    Three,
    /// Four bytes.
    Four,
}

impl LengthWidth {
    /// The width of a length of at most `max`, as CHAR and VARCHAR have it: one byte or two.
    pub fn of_string(max: u16) -> LengthWidth {
        if max > 255 { LengthWidth::Two } else { LengthWidth::One }
    }

    /// The width that a BLOB's metadata names.
    pub fn of_blob(bytes: u8) -> Option<LengthWidth> {
        Some(match bytes {
            1 => LengthWidth::One,
            2 => LengthWidth::Two,
            3 => LengthWidth::Three,
            4 => LengthWidth::Four,
            _ => return None,
        })
    }

    /// In bytes.
    pub fn bytes(self) -> u8 {
        match self {
            LengthWidth::One => 1,
            LengthWidth::Two => 2,
            LengthWidth::Three => 3,
            LengthWidth::Four => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_in_all_widths() {
        let mut bytes = Bytes(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(bytes.u24().unwrap(), 0x03_02_01);
        assert_eq!(bytes.uint_be(2).unwrap(), 0x0405);
        assert_eq!(bytes.uint_le(2).unwrap(), 0x0706);
        assert!(bytes.u32().is_err());
        assert_eq!(bytes.u16().unwrap(), 0x0908);
        assert!(bytes.u8().is_err());
    }

    #[test]
    fn length_encoded_integers() {
        assert_eq!(Bytes(&[250]).lenenc().unwrap(), 250);
        assert_eq!(Bytes(&[0xfc, 0, 1]).lenenc().unwrap(), 256);
        assert_eq!(Bytes(&[0xfd, 0, 0, 1]).lenenc().unwrap(), 65536);
        assert!(Bytes(&[0xfb]).lenenc().is_err());
        assert!(Bytes(&[0xfe, 1]).lenenc().is_err());
        assert_eq!(Bytes(&[2, b'a', b'b', b'c']).lenenc_bytes().unwrap(), b"ab");
    }
}
