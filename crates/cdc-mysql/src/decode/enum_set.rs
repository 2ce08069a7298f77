//! ENUM and SET: numbers on the wire, labels from our structure.
//!
//! Both ways carry the number (the snapshot selects `CAST(column AS UNSIGNED)`): ENUM's index 0, which the
//! server stores for an invalid value and prints as `''`, is then not confused with a member `''`, and the
//! labels of both ways are the same text by construction, whatever the column's character set.

use super::Flaw;
use cdc_core::row::RowBuilder;
use std::sync::Arc;

/// The bytes of an ENUM of so many members (MySQL manual 13.7 "Data Type Storage Requirements").
pub fn enum_bytes(members: usize) -> u8 {
    if members < 256 { 1 } else { 2 }
}

/// The bytes of a SET of so many members: 1, 2, 3, 4 or 8.
pub fn set_bytes(members: usize) -> u8 {
    match members.div_ceil(8) {
        n @ 0..=4 => n.max(1) as u8,
        _ => 8,
    }
}

/// An ENUM by its index.
#[inline]
pub fn push_enum(index: u64, labels: &[Arc<str>], out: &mut RowBuilder) -> Result<(), Flaw> {
    let label = match index {
        0 => "",
        n => match labels.get((n - 1) as usize) {
            Some(label) => label,
            None => {
                return Err(Flaw::undecodable(format!("index {n} of an ENUM of {} members", labels.len())));
            }
        },
    };
    out.push_enum(index as u16, label);
    Ok(())
}

/// A SET by its bits; `scratch` is used for its labels.
pub fn push_set(
    bits: u64,
    labels: &[Arc<str>],
    scratch: &mut String,
    out: &mut RowBuilder,
) -> Result<(), Flaw> {
    scratch.clear();
    let mut rest = bits;
    while rest != 0 {
        let member = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let Some(label) = labels.get(member) else {
            return Err(Flaw::undecodable(format!(
                "member {} of a SET of {} members",
                member + 1,
                labels.len()
            )));
        };
        if bits.trailing_zeros() as usize != member {
            scratch.push(',');
        }
        scratch.push_str(label);
    }
    out.push_set(bits, scratch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::value::Value;

    fn labels(n: usize) -> Vec<Arc<str>> {
        (1..=n).map(|i| format!("m{i}").into()).collect()
    }

    #[test]
    fn an_enum_has_its_label_and_index_0_has_none() {
        let mut out = RowBuilder::new();
        push_enum(0, &labels(3), &mut out).unwrap();
        push_enum(3, &labels(3), &mut out).unwrap();
        assert!(push_enum(4, &labels(3), &mut out).is_err());
        assert!(push_enum(u64::MAX, &labels(3), &mut out).is_err());
        let row = out.finish();
        assert_eq!(row.get(0), Value::Enum { index: 0, label: "".into() });
        assert_eq!(row.get(1), Value::Enum { index: 3, label: "m3".into() });
    }

    #[test]
    fn a_set_joins_its_members_in_the_order_of_the_definition() {
        let mut out = RowBuilder::new();
        let mut scratch = String::new();
        push_set(0, &labels(18), &mut scratch, &mut out).unwrap();
        push_set(1 | 1 << 17, &labels(18), &mut scratch, &mut out).unwrap();
        push_set(1 << 63, &labels(64), &mut scratch, &mut out).unwrap();
        assert!(push_set(1 << 18, &labels(18), &mut scratch, &mut out).is_err());
        let row = out.finish();
        assert_eq!(row.get(0), Value::Set { bits: 0, labels: "".into() });
        assert_eq!(row.get(1), Value::Set { bits: 1 | 1 << 17, labels: "m1,m18".into() });
        assert_eq!(row.get(2), Value::Set { bits: 1 << 63, labels: "m64".into() });
    }

    #[test]
    fn widths() {
        assert_eq!([1, 255, 256].map(enum_bytes), [1, 1, 2]);
        assert_eq!([1, 8, 9, 17, 25, 32, 33, 64].map(set_bytes), [1, 1, 2, 3, 4, 4, 8, 8]);
    }
}
