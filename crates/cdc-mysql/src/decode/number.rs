//! Integers, DECIMAL, FLOAT, DOUBLE and YEAR.
//!
//! Whether an integer is signed is *our structure's* knowledge: the row image does not say it.

use super::Flaw;
use super::bytes::Bytes;
use cdc_core::row::RowBuilder;
use cdc_core::schema::IntWidth;

/// An integer of a row image, little endian.
#[inline]
pub fn int(input: &mut Bytes<'_>, width: IntWidth, unsigned: bool, out: &mut RowBuilder) -> Result<(), Flaw> {
    match (width, unsigned) {
        (IntWidth::Tiny, false) => out.push_int(i64::from(input.u8()?.cast_signed())),
        (IntWidth::Tiny, true) => out.push_uint(u64::from(input.u8()?)),
        (IntWidth::Small, false) => out.push_int(i64::from(input.u16()?.cast_signed())),
        (IntWidth::Small, true) => out.push_uint(u64::from(input.u16()?)),
        // 24 bits, moved to the top of 32 and back so that the sign is extended
        (IntWidth::Medium, false) => out.push_int(i64::from((input.u24()? << 8).cast_signed() >> 8)),
        (IntWidth::Medium, true) => out.push_uint(u64::from(input.u24()?)),
        (IntWidth::Int, false) => out.push_int(i64::from(input.u32()?.cast_signed())),
        (IntWidth::Int, true) => out.push_uint(u64::from(input.u32()?)),
        (IntWidth::Big, false) => out.push_int(input.u64()?.cast_signed()),
        (IntWidth::Big, true) => out.push_uint(input.u64()?),
    }
    Ok(())
}

/// FLOAT, 4 bytes.
#[inline]
pub fn float(input: &mut Bytes<'_>, plain_zero: bool, out: &mut RowBuilder) -> Result<(), Flaw> {
    let value = f32::from_le_bytes(input.array()?);
    out.push_float(if plain_zero && value == 0.0 { 0.0 } else { value });
    Ok(())
}

/// DOUBLE, 8 bytes.
#[inline]
pub fn double(input: &mut Bytes<'_>, out: &mut RowBuilder) -> Result<(), Flaw> {
    out.push_double(f64::from_le_bytes(input.array()?));
    Ok(())
}

/// YEAR: 0, or the years since 1900 (MySQL manual 13.2.4 "The YEAR Type").
#[inline]
pub fn year(input: &mut Bytes<'_>, out: &mut RowBuilder) -> Result<(), Flaw> {
    out.push_year(match input.u8()? {
        0 => 0,
        n => 1900 + u16::from(n),
    });
    Ok(())
}

/// YEAR of a result set, which gives the year itself.
pub fn year_from_result(year: i128, out: &mut RowBuilder) -> Result<(), Flaw> {
    match year {
        0 | 1901..=2155 => out.push_year(year as u16),
        _ => return Err(Flaw::undecodable(format!("the YEAR {year}"))),
    }
    Ok(())
}

/// The bytes that so many leftover digits (0 to 8) of a packed DECIMAL take.
const LEFTOVER_BYTES: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
const POWERS: [u32; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The layout of a packed DECIMAL(precision, scale).
///
/// MySQL source documentation, `decimal2bin()`: nine digits take four bytes, big endian; the leftover digits
/// stand first in the integer part and last in the fraction. The highest bit of the first byte is inverted
/// (set for a positive number), and all bits of a negative number are inverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalLayout {
    whole_leftover: u8,
    whole_groups: u8,
    fraction_groups: u8,
    fraction_leftover: u8,
    bytes: u8,
}

/// More than the 65 digits, the sign, the dot and a zero in front of it.
const DECIMAL_TEXT: usize = 96;
/// More than the bytes of any split of 65 digits.
const DECIMAL_BYTES: usize = 40;

impl DecimalLayout {
    /// `None` where the type is not one that a server has: up to 65 digits, up to 30 of them fraction, on
    /// MariaDB up to 38.
    pub fn new(precision: u8, scale: u8) -> Option<DecimalLayout> {
        if precision == 0 || precision > 65 || scale > 38 || scale > precision {
            return None;
        }
        let whole = precision - scale;
        let bytes = usize::from(whole / 9 + scale / 9) * 4
            + LEFTOVER_BYTES[usize::from(whole % 9)]
            + LEFTOVER_BYTES[usize::from(scale % 9)];
        Some(DecimalLayout {
            whole_leftover: whole % 9,
            whole_groups: whole / 9,
            fraction_groups: scale / 9,
            fraction_leftover: scale % 9,
            bytes: bytes as u8,
        })
    }

    /// Reads a number and gives `then` its canonical text.
    pub fn read(&self, input: &mut Bytes<'_>, then: impl FnOnce(&str)) -> Result<(), Flaw> {
        let packed = input.take(usize::from(self.bytes))?;
        let mut bytes = [0; DECIMAL_BYTES];
        let bytes = bytes.get_mut(..packed.len()).ok_or(Flaw::Truncated)?;
        bytes.copy_from_slice(packed);
        let first = bytes.first_mut().ok_or(Flaw::Truncated)?;
        *first ^= 0x80;
        let negative = *first & 0x80 != 0;
        if negative {
            bytes.iter_mut().for_each(|b| *b = !*b);
        }

        let mut groups = Bytes(bytes);
        let mut text = DecimalText { buffer: [0; DECIMAL_TEXT], end: 1, nonzero: false };
        if self.whole_leftover > 0 {
            text.leading(group(&mut groups, self.whole_leftover)?);
        }
        for _ in 0..self.whole_groups {
            text.whole(group(&mut groups, 9)?);
        }
        if text.end == 1 {
            text.digits(0, 1);
        }
        if self.fraction_groups + self.fraction_leftover > 0 {
            text.buffer[text.end] = b'.';
            text.end += 1;
            for _ in 0..self.fraction_groups {
                text.digits(group(&mut groups, 9)?, 9);
            }
            if self.fraction_leftover > 0 {
                text.digits(group(&mut groups, self.fraction_leftover)?, self.fraction_leftover);
            }
        }
        // no `-` before a zero
        let start = if negative && text.nonzero {
            text.buffer[0] = b'-';
            0
        } else {
            1
        };
        // digits, a dot and a sign are always UTF-8; the check is cheaper than an unsafe block is dear
        then(std::str::from_utf8(&text.buffer[start..text.end]).unwrap_or_default());
        Ok(())
    }
}

/// A group of `digits` (1 to 9) digits of a packed DECIMAL.
#[inline]
fn group(input: &mut Bytes<'_>, digits: u8) -> Result<u32, Flaw> {
    let bytes = LEFTOVER_BYTES.get(usize::from(digits)).copied().unwrap_or(4);
    let value = input.uint_be(bytes)? as u32;
    match POWERS.get(usize::from(digits)) {
        Some(&power) if value < power => Ok(value),
        _ => Err(Flaw::undecodable(format!("{value} as {digits} digits of a DECIMAL"))),
    }
}

/// The text as it grows, from index 1 so that a sign fits in front.
struct DecimalText {
    buffer: [u8; DECIMAL_TEXT],
    end: usize,
    nonzero: bool,
}

impl DecimalText {
    /// Appends exactly `count` digits.
    #[inline]
    fn digits(&mut self, mut value: u32, count: u8) {
        self.nonzero |= value != 0;
        let end = self.end + usize::from(count);
        for digit in self.buffer[self.end..end].iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
        self.end = end;
    }

    /// Appends a number without leading zeros; nothing for zero.
    fn leading(&mut self, value: u32) {
        let count = POWERS.iter().filter(|&&power| value >= power).count();
        self.digits(value, count as u8);
    }

    /// Appends nine digits of the integer part: without leading zeros if they are the first.
    fn whole(&mut self, value: u32) {
        if self.end == 1 {
            self.leading(value);
        } else {
            self.digits(value, 9);
        }
    }
}

/// The canonical text of a DECIMAL that a result set gives as text: the server's, less the zeros that
/// ZEROFILL puts in front.
pub fn decimal_from_result(bytes: &[u8], scratch: &mut String, out: &mut RowBuilder) -> Result<(), Flaw> {
    let flaw = || Flaw::undecodable(format!("the DECIMAL {:?}", String::from_utf8_lossy(bytes)));
    let text = std::str::from_utf8(bytes).map_err(|_| flaw())?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if digits.len() > 70 || !all_digits(whole) || !fraction.is_none_or(all_digits) {
        return Err(flaw());
    }
    let shortened = match whole.trim_start_matches('0') {
        "" => "0",
        rest => rest,
    };
    let zero = shortened == "0" && fraction.is_none_or(|f| f.bytes().all(|b| b == b'0'));
    if shortened.len() == whole.len() && !(negative && zero) {
        out.push_decimal(text);
        return Ok(());
    }
    scratch.clear();
    if negative && !zero {
        scratch.push('-');
    }
    scratch.push_str(shortened);
    if let Some(fraction) = fraction {
        scratch.push('.');
        scratch.push_str(fraction);
    }
    out.push_decimal(scratch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::Value;

    fn one(decode: impl FnOnce(&mut RowBuilder) -> Result<(), Flaw>) -> Value<'static> {
        let mut out = RowBuilder::new();
        decode(&mut out).unwrap();
        out.finish().get(0).into_owned()
    }

    #[test]
    fn integers_at_their_ends() {
        let check = |width, unsigned, bytes: &[u8], expected: Value<'_>| {
            assert_eq!(one(|out| int(&mut Bytes(bytes), width, unsigned, out)), expected);
            let short = &bytes[..bytes.len() - 1];
            assert_eq!(int(&mut Bytes(short), width, unsigned, &mut RowBuilder::new()), Err(Flaw::Truncated));
        };
        use IntWidth::*;
        check(Tiny, false, &[0x80], Value::Int(-128));
        check(Tiny, true, &[0xff], Value::UInt(255));
        check(Small, false, &[0, 0x80], Value::Int(-32768));
        check(Small, true, &[0xff, 0xff], Value::UInt(65535));
        check(Medium, false, &[0, 0, 0x80], Value::Int(-8_388_608));
        check(Medium, false, &[0xff, 0xff, 0x7f], Value::Int(8_388_607));
        check(Medium, false, &[0xff, 0xff, 0xff], Value::Int(-1));
        check(Medium, true, &[0xff, 0xff, 0xff], Value::UInt(16_777_215));
        check(Int, false, &[0, 0, 0, 0x80], Value::Int(-2_147_483_648));
        check(Int, true, &[0xff; 4], Value::UInt(4_294_967_295));
        check(Big, false, &[0, 0, 0, 0, 0, 0, 0, 0x80], Value::Int(i64::MIN));
        check(Big, true, &[0xff; 8], Value::UInt(u64::MAX));
    }

    #[test]
    fn years() {
        for (byte, expected) in [(0, 0), (1, 1901), (99, 1999), (255, 2155)] {
            assert_eq!(one(|out| year(&mut Bytes(&[byte]), out)), Value::Year(expected));
            assert_eq!(one(|out| year_from_result(expected.into(), out)), Value::Year(expected));
        }
        assert!(year_from_result(1900, &mut RowBuilder::new()).is_err());
    }

    fn decimal(precision: u8, scale: u8, hex: &str) -> Result<String, Flaw> {
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
        let mut text = String::new();
        let mut input = Bytes(&bytes);
        DecimalLayout::new(precision, scale).unwrap().read(&mut input, |s| text = s.to_owned())?;
        assert!(input.is_empty());
        Ok(text)
    }

    #[test]
    fn packed_decimals_have_the_server_s_text() {
        // the worked example of `decimal2bin()`: 1234567890.1234 as DECIMAL(14, 4)
        assert_eq!(decimal(14, 4, "810DFB38D204D2").unwrap(), "1234567890.1234");
        assert_eq!(decimal(14, 4, "7EF204C72DFB2D").unwrap(), "-1234567890.1234");
        assert_eq!(decimal(10, 2, "8000000000").unwrap(), "0.00");
        assert_eq!(decimal(10, 2, "7FFFFFFFFF").unwrap(), "0.00", "no minus before a zero");
        assert_eq!(decimal(10, 2, "7FFFFFFFFE").unwrap(), "-0.01");
        assert_eq!(decimal(10, 0, "8000000007").unwrap(), "7");
        assert_eq!(decimal(2, 2, "85").unwrap(), "0.05");
        assert_eq!(decimal(18, 9, "8000000100000001").unwrap(), "1.000000001");
        assert_eq!(decimal(18, 0, "8000000100000001").unwrap(), "1000000001");
        // MariaDB's largest scale
        assert_eq!(
            decimal(65, 38, "875BCD1500BC614E35B7BF87075BCD1500BC614E35B7BF87350E34C04E").unwrap(),
            "123456789012345678901234567.12345678901234567890123456789012345678"
        );
        assert_eq!(
            decimal(65, 38, "7FFFFFFFFFFFFFFFFFFFFFFFFA0A1EFFFFFFFFFFFFFFFFFFFFFFFFFFFF").unwrap(),
            format!("-0.1{}", "0".repeat(37))
        );
        assert_eq!(
            decimal(65, 30, &format!("85F5E0FF{}03E7", "3B9AC9FF".repeat(6))).unwrap(),
            format!("{}.{}", "9".repeat(35), "9".repeat(30))
        );
    }

    #[test]
    fn a_group_too_large_for_its_digits_is_refused() {
        assert!(matches!(decimal(9, 0, "BB9ACA00"), Err(Flaw::Undecodable(_))));
        assert_eq!(DecimalLayout::new(66, 0), None);
        assert_eq!(DecimalLayout::new(5, 6), None);
        assert_eq!(DecimalLayout::new(65, 39), None);
        assert_eq!(DecimalLayout::new(65, 30).unwrap().bytes, 30);
    }

    #[test]
    fn decimals_of_result_sets() {
        let mut scratch = String::new();
        for (text, expected) in [
            ("0000012.50", "12.50"),
            ("0.05", "0.05"),
            ("-0.00", "0.00"),
            ("-12.5", "-12.5"),
            ("000", "0"),
            ("7", "7"),
        ] {
            assert_eq!(
                one(|out| decimal_from_result(text.as_bytes(), &mut scratch, out)),
                Value::Decimal(expected.into())
            );
        }
        for text in ["", "-", "1e5", "1.2.3", "x", ".", ".5", "5."] {
            let result = decimal_from_result(text.as_bytes(), &mut scratch, &mut RowBuilder::new());
            assert!(result.is_err(), "{text:?}");
        }
    }
}
