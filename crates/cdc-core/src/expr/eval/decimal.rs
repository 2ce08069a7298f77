//! Exact decimal numbers, as MySQL computes with them (manual 14.25 "Precision Math").
//!
//! Nearly all numbers fit an `i128`; those that do not spill into a big integer and come back as soon as
//! they fit again, so there is one representation of each number per scale.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::num_traits::{Signed, ToPrimitive, Zero};
use std::cmp::Ordering;

/// A whole number times ten to the power of minus `scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    mantissa: Mantissa,
    scale: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mantissa {
    Small(i128),
    Big(BigInt),
}

use Mantissa::{Big, Small};

/// What to do with the digits that are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Half away from zero: what MySQL does with exact numbers (manual 14.25.4).
    HalfAway,
    /// Towards zero.
    Truncate,
    /// Towards minus infinity.
    Floor,
    /// Towards plus infinity.
    Ceiling,
}

/// The most digits after the dot that are kept of a number that came from a text or a DOUBLE: beyond what
/// a DECIMAL holds (30), so that nothing is rounded twice in sight of a user.
const MAX_PARSED_SCALE: u32 = 80;

fn pow10_small(n: u32) -> Option<i128> {
    10i128.checked_pow(n)
}

fn pow10_big(n: u32) -> BigInt {
    BigInt::from(10).pow(n)
}

impl Mantissa {
    fn from_big(big: BigInt) -> Mantissa {
        big.to_i128().map_or(Big(big), Small)
    }

    fn to_big(&self) -> BigInt {
        match self {
            Small(v) => BigInt::from(*v),
            Big(v) => v.clone(),
        }
    }

    fn is_negative(&self) -> bool {
        match self {
            Small(v) => *v < 0,
            Big(v) => v.is_negative(),
        }
    }

    fn is_zero(&self) -> bool {
        match self {
            Small(v) => *v == 0,
            Big(v) => v.is_zero(),
        }
    }

    /// Times ten to the power of n.
    fn shift_left(&self, n: u32) -> Mantissa {
        if n == 0 {
            return self.clone();
        }
        if let (Small(v), Some(p)) = (self, pow10_small(n))
            && let Some(product) = v.checked_mul(p)
        {
            return Small(product);
        }
        Mantissa::from_big(self.to_big() * pow10_big(n))
    }

    /// Divided by ten to the power of n.
    fn shift_right(&self, n: u32, rounding: Rounding) -> Mantissa {
        if n == 0 {
            return self.clone();
        }
        if let (Small(v), Some(p)) = (self, pow10_small(n)) {
            let (q, r) = (v / p, v % p);
            let away = match rounding {
                Rounding::HalfAway => r.unsigned_abs() >= p.unsigned_abs() - r.unsigned_abs(),
                Rounding::Truncate => false,
                Rounding::Floor => r < 0,
                Rounding::Ceiling => r > 0,
            };
            return Small(if away { q + v.signum() } else { q });
        }
        let (v, p) = (self.to_big(), pow10_big(n));
        let (q, r) = (&v / &p, &v % &p);
        let away = match rounding {
            Rounding::HalfAway => r.abs() * 2 >= p,
            Rounding::Truncate => false,
            Rounding::Floor => r.is_negative(),
            Rounding::Ceiling => r.is_positive(),
        };
        Mantissa::from_big(if away { q + v.signum() } else { q })
    }
}

impl Decimal {
    /// A whole number.
    pub(crate) fn from_int(v: i128) -> Decimal {
        Decimal { mantissa: Small(v), scale: 0 }
    }

    /// `[-+]digits[.digits][e[-+]digits]`, and nothing else.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (negative, body) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (digits, exponent) = match body.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (body, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let mut mantissa = if whole.len() + fraction.len() <= 38 {
            let small =
                whole.bytes().chain(fraction.bytes()).fold(0i128, |v, b| v * 10 + i128::from(b - b'0'));
            Small(small)
        } else {
            Mantissa::from_big(BigInt::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?)
        };
        if negative {
            mantissa = match mantissa {
                Small(v) => Small(-v),
                Big(v) => Mantissa::from_big(-v),
            };
        }
        Decimal { mantissa, scale: 0 }.scaled(i64::from(exponent) - i64::try_from(fraction.len()).ok()?)
    }

    /// The shortest decimal that reads back as this double; `None` where it is too large for any DECIMAL.
    pub(crate) fn from_f64(v: f64) -> Option<Decimal> {
        if v.is_finite() { Decimal::parse(&super::number::shortest_text(v)) } else { None }
    }

    /// Times ten to the power of `exponent`; `None` where that is out of any sensible range.
    fn scaled(self, exponent: i64) -> Option<Decimal> {
        if self.mantissa.is_zero() {
            let scale = u32::try_from(-exponent).unwrap_or(0).min(MAX_PARSED_SCALE);
            return Some(Decimal { scale, ..self });
        }
        match exponent {
            0.. => {
                let up = u32::try_from(exponent).ok().filter(|e| *e <= 400)?;
                Some(Decimal { mantissa: self.mantissa.shift_left(up), scale: 0 })
            }
            _ => {
                let scale = u32::try_from(-exponent).ok()?;
                let scaled = Decimal { mantissa: self.mantissa, scale };
                Some(if scale > MAX_PARSED_SCALE {
                    if scale > 2000 {
                        Decimal::from_int(0)
                    } else {
                        scaled.round(MAX_PARSED_SCALE, Rounding::HalfAway)
                    }
                } else {
                    scaled
                })
            }
        }
    }

    /// Digits after the dot.
    pub(crate) fn scale(&self) -> u32 {
        self.scale
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.mantissa.is_zero()
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.mantissa.is_negative()
    }

    /// All digits that are not leading zeros.
    pub(crate) fn digits(&self) -> u32 {
        match &self.mantissa {
            Small(0) => 0,
            Small(v) => v.unsigned_abs().ilog10() + 1,
            Big(v) => u32::try_from(v.abs().to_string().len()).unwrap_or(u32::MAX),
        }
    }

    /// Digits before the dot that are not leading zeros.
    pub(crate) fn whole_digits(&self) -> u32 {
        self.digits().saturating_sub(self.scale)
    }

    pub(crate) fn negate(self) -> Decimal {
        let mantissa = match self.mantissa {
            Small(v) => v.checked_neg().map_or_else(|| Big(-BigInt::from(v)), Small),
            Big(v) => Mantissa::from_big(-v),
        };
        Decimal { mantissa, scale: self.scale }
    }

    pub(crate) fn abs(self) -> Decimal {
        if self.is_negative() { self.negate() } else { self }
    }

    /// With exactly `scale` digits after the dot; zeros are appended, digits are rounded away.
    pub(crate) fn round(&self, scale: u32, rounding: Rounding) -> Decimal {
        let mantissa = if scale >= self.scale {
            self.mantissa.shift_left(scale - self.scale)
        } else {
            self.mantissa.shift_right(self.scale - scale, rounding)
        };
        Decimal { mantissa, scale }
    }

    /// Rounded at a place before the dot: `places` = 2 gives whole hundreds. Its scale is 0.
    pub(crate) fn round_whole(&self, places: u32, rounding: Rounding) -> Decimal {
        // more places than digits: nothing is left of it
        if places > self.whole_digits() {
            return Decimal::from_int(0);
        }
        let cut = self.mantissa.shift_right(self.scale + places, rounding);
        Decimal { mantissa: cut.shift_left(places), scale: 0 }
    }

    fn aligned(&self, other: &Decimal) -> (Mantissa, Mantissa, u32) {
        let scale = self.scale.max(other.scale);
        (self.mantissa.shift_left(scale - self.scale), other.mantissa.shift_left(scale - other.scale), scale)
    }

    pub(crate) fn add(&self, other: &Decimal) -> Decimal {
        let (a, b, scale) = self.aligned(other);
        let mantissa = match (&a, &b) {
            (Small(x), Small(y)) => x.checked_add(*y).map(Small),
            _ => None,
        }
        .unwrap_or_else(|| Mantissa::from_big(a.to_big() + b.to_big()));
        Decimal { mantissa, scale }
    }

    pub(crate) fn subtract(&self, other: &Decimal) -> Decimal {
        self.add(&other.clone().negate())
    }

    pub(crate) fn multiply(&self, other: &Decimal) -> Decimal {
        let mantissa = match (&self.mantissa, &other.mantissa) {
            (Small(x), Small(y)) => x.checked_mul(*y).map(Small),
            _ => None,
        }
        .unwrap_or_else(|| Mantissa::from_big(self.mantissa.to_big() * other.mantissa.to_big()));
        Decimal { mantissa, scale: self.scale + other.scale }
    }

    /// The quotient with `scale` digits after the dot, rounded half away from zero; `None` by zero.
    pub(crate) fn divide(&self, other: &Decimal, scale: u32) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        // one digit more than asked for, and whether anything is behind it: a tie is a tie only if not
        let up = scale + 1 + other.scale;
        let n =
            if up >= self.scale { self.mantissa.shift_left(up - self.scale) } else { self.mantissa.clone() };
        let d = if up >= self.scale {
            other.mantissa.clone()
        } else {
            other.mantissa.shift_left(self.scale - up)
        };
        let q = match (&n, &d) {
            (Small(x), Small(y)) => x.checked_div(*y).map(Small),
            _ => None,
        }
        .unwrap_or_else(|| Mantissa::from_big(n.to_big() / d.to_big()));
        // truncation keeps the first digit that is cut, which alone decides half-away rounding
        Some(Decimal { mantissa: q.shift_right(1, Rounding::HalfAway), scale })
    }

    /// The whole part of the quotient; `None` by zero.
    pub(crate) fn divide_whole(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let (a, b, _) = self.aligned(other);
        let mantissa = match (&a, &b) {
            (Small(x), Small(y)) => x.checked_div(*y).map(Small),
            _ => None,
        }
        .unwrap_or_else(|| Mantissa::from_big(a.to_big() / b.to_big()));
        Some(Decimal { mantissa, scale: 0 })
    }

    /// The remainder, with the sign of `self`; `None` by zero.
    pub(crate) fn remainder(&self, other: &Decimal) -> Option<Decimal> {
        if other.is_zero() {
            return None;
        }
        let (a, b, scale) = self.aligned(other);
        let mantissa = match (&a, &b) {
            (Small(x), Small(y)) => Some(Small(x.checked_rem(*y).unwrap_or(0))),
            _ => None,
        }
        .unwrap_or_else(|| Mantissa::from_big(a.to_big() % b.to_big()));
        Some(Decimal { mantissa, scale })
    }

    pub(crate) fn compare(&self, other: &Decimal) -> Ordering {
        let (a, b, _) = self.aligned(other);
        match (&a, &b) {
            (Small(x), Small(y)) => x.cmp(y),
            _ => a.to_big().cmp(&b.to_big()),
        }
    }

    /// Rounded to a whole number; `None` beyond an `i128`.
    pub(crate) fn to_i128(&self, rounding: Rounding) -> Option<i128> {
        match self.round(0, rounding).mantissa {
            Small(v) => Some(v),
            Big(_) => None,
        }
    }

    pub(crate) fn to_f64(&self) -> f64 {
        self.to_text().parse().unwrap_or(f64::NAN)
    }

    /// The canonical text of [`Value::Decimal`](crate::Value::Decimal).
    pub(crate) fn to_text(&self) -> String {
        let digits = match &self.mantissa {
            Small(v) => v.unsigned_abs().to_string(),
            Big(v) => v.abs().to_string(),
        };
        let scale = self.scale as usize;
        let mut out = String::with_capacity(digits.len() + 3);
        if self.is_negative() {
            out.push('-');
        }
        if scale == 0 {
            out.push_str(&digits);
            return out;
        }
        if digits.len() <= scale {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', scale - digits.len()));
            out.push_str(&digits);
        } else {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            out.push_str(whole);
            out.push('.');
            out.push_str(fraction);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn texts_come_back_in_canonical_form() {
        for (text, canonical) in [
            ("1.50", "1.50"),
            ("-0.0", "0.0"),
            ("+07", "7"),
            (".5", "0.5"),
            ("1.5e3", "1500"),
            ("15e-3", "0.015"),
        ] {
            assert_eq!(d(text).to_text(), canonical);
        }
        let nines = "9".repeat(65);
        assert_eq!(d(&nines).to_text(), nines);
        for text in ["", "-", ".", "1.2.3", "1e", "x", "1 ", "0x1", "1e99999", "１"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert_eq!(d("0e99999").to_text(), "0");
        assert_eq!(d("1e-99999").to_text(), "0");
    }

    #[test]
    fn big_and_small_numbers_follow_the_same_rules() {
        let a = d("12345678901234567890123456789012345678");
        // `select cast(.. as decimal(38,0)) * cast(.. as decimal(38,0))` on 9.7
        let product = "152415787532388367504953515625666819427831123554031397676527968299765279684";
        assert_eq!(a.multiply(&a).to_text(), product);
        assert_eq!(a.divide(&d("7"), 4).unwrap().to_text(), "1763668414462081127160493827001763668.2857");
        assert_eq!(d(product).divide(&a, 0).unwrap(), a);
        assert_eq!(d("-7.5").remainder(&d("2")).unwrap().to_text(), "-1.5");
        assert_eq!(d("1").divide(&d("0.00"), 4), None);
        for (text, scale, rounded) in
            [("2.5", 0, "3"), ("-2.5", 0, "-3"), ("1.005", 2, "1.01"), ("1.5", 3, "1.500")]
        {
            assert_eq!(d(text).round(scale, Rounding::HalfAway).to_text(), rounded);
        }
        assert_eq!(d("1250.5").round_whole(2, Rounding::HalfAway).to_text(), "1300");
        assert_eq!(d("70").round_whole(2, Rounding::HalfAway).to_text(), "100");
        assert_eq!(d("70").round_whole(3, Rounding::HalfAway).to_text(), "0");
        assert_eq!(d("-0.5").round(0, Rounding::Floor).to_text(), "-1");
    }
}
