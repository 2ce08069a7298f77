//! The type lattice: the least type that holds the values of two.
//!
//! ```text
//! TINYINT < SMALLINT < MEDIUMINT < INT < BIGINT < DECIMAL(n,0) < DECIMAL(n,m)      signed with unsigned: the next one up
//! FLOAT < DOUBLE                      DOUBLE takes integers up to INT and DECIMAL(15,0): more digits it does not have
//! CHAR < VARCHAR < TEXT .. LONGTEXT   longer is wider; ENUM and SET go to a longer list of members, else to VARCHAR
//! BINARY < VARBINARY < BLOB .. LONGBLOB        BIT(n) < BIT(m)        YEAR < SMALLINT
//! DATE < DATETIME(n) < DATETIME(m)    TIME(n) < TIME(m)    TIMESTAMP(n) < TIMESTAMP(m)    INET4 < INET6
//! ```
//!
//! DATETIME and TIMESTAMP have no common type: one is digits on a calendar, the other an instant, and which instant the
//! digits mean depends on a session's time zone. Nor have numbers and texts: `1.0` is `1` as a number and not as a text.
//!
//! *Why it is a lattice.* [`common`] gives the same for (a, b) and (b, a), gives `a` for (a, a), and what it gives holds
//! both: `common(common(a, b), a) = common(a, b)`. So a target's column that many tables feed ends at one type,
//! whichever comes first, and a change that it covers already is nothing to do. A property test holds
//! this over all pairs. Character sets do not count: a target holds text as text.

use cdc_core::schema::{Charset, ColumnType, IntWidth, LobSize};
use std::sync::Arc;

/// The most characters of a VARCHAR of four bytes each that fit a row (MySQL manual 10.4.7, row size limits).
const MAX_VARCHAR: u32 = 16_383;
/// The most bytes of a VARBINARY.
const MAX_VARBINARY: u32 = 65_532;
/// The most digits of a DECIMAL, and the most of them behind the dot.
const MAX_DIGITS: u8 = 65;
const MAX_SCALE: u8 = 38;

/// The least type that holds every value of both; `None` if there is none.
pub fn common(a: &ColumnType, b: &ColumnType) -> Option<ColumnType> {
    if same_type(a, b) {
        return Some(with_common_charset(a, b));
    }
    use ColumnType as T;
    // each pair once: the other order is asked by turning it round
    let one_way = |a: &T, b: &T| -> Option<T> {
        Some(match (a, b) {
            (T::Int { .. } | T::Year, T::Int { .. } | T::Year) => {
                let ((w, u), (x, v)) = (int_of(a)?, int_of(b)?);
                match (u, v) {
                    _ if u == v => T::Int { width: w.max(x), unsigned: u },
                    (true, _) => signed_above(w)
                        .map_or(decimal(20, 0), |up| T::Int { width: up.max(x), unsigned: false }),
                    (_, true) => signed_above(x)
                        .map_or(decimal(20, 0), |up| T::Int { width: up.max(w), unsigned: false }),
                    _ => return None,
                }
            }
            (T::Int { .. } | T::Year, T::Decimal { precision, scale, unsigned }) => {
                let (width, minus) = int_of(a)?;
                let whole = digits(width, minus).max(precision.saturating_sub(*scale));
                return united(whole, *scale, minus && *unsigned);
            }
            (
                T::Decimal { precision: p, scale: s, unsigned: u },
                T::Decimal { precision: q, scale: t, unsigned: v },
            ) => {
                return united(p.saturating_sub(*s).max(q.saturating_sub(*t)), *s.max(t), *u && *v);
            }
            (T::Float { unsigned: u }, T::Float { unsigned: v }) => T::Float { unsigned: *u && *v },
            (
                T::Float { unsigned: u } | T::Double { unsigned: u },
                T::Float { unsigned: v } | T::Double { unsigned: v },
            ) => T::Double { unsigned: *u && *v },
            (T::Int { width, .. }, T::Float { unsigned } | T::Double { unsigned })
                if *width != IntWidth::Big =>
            {
                T::Double { unsigned: *unsigned && int_of(a)?.1 }
            }
            (
                T::Decimal { precision, scale: 0, unsigned: u },
                T::Float { unsigned } | T::Double { unsigned },
            ) if *precision <= 15 => T::Double { unsigned: *unsigned && *u },
            (T::Bit { width: n }, T::Bit { width: m }) => T::Bit { width: *n.max(m) },
            (T::Char { length: n, .. }, T::Char { length: m, .. }) => {
                T::Char { length: *n.max(m), charset: text_charset(a, b) }
            }
            (
                T::Char { .. } | T::VarChar { .. } | T::Text { .. },
                T::Char { .. } | T::VarChar { .. } | T::Text { .. },
            ) => text(characters(a)?.max(characters(b)?), text_charset(a, b)),
            (T::Enum { labels: x, .. }, T::Enum { labels: y, .. }) if longer(x, y).is_some() => {
                T::Enum { labels: longer(x, y)?, charset: text_charset(a, b) }
            }
            (T::Set { labels: x, .. }, T::Set { labels: y, .. }) if longer(x, y).is_some() => {
                T::Set { labels: longer(x, y)?, charset: text_charset(a, b) }
            }
            (
                T::Enum { .. } | T::Set { .. },
                T::Enum { .. } | T::Set { .. } | T::Char { .. } | T::VarChar { .. } | T::Text { .. },
            ) => text(characters(a)?.max(characters(b)?), text_charset(a, b)),
            (
                T::Binary { .. } | T::VarBinary { .. } | T::Blob { .. },
                T::Binary { .. } | T::VarBinary { .. } | T::Blob { .. },
            ) => bytes(byte_length(a)?.max(byte_length(b)?)),
            (T::Date, T::DateTime { fsp }) => T::DateTime { fsp: *fsp },
            (T::Time { fsp: n }, T::Time { fsp: m }) => T::Time { fsp: *n.max(m) },
            (T::DateTime { fsp: n }, T::DateTime { fsp: m }) => T::DateTime { fsp: *n.max(m) },
            (T::Timestamp { fsp: n }, T::Timestamp { fsp: m }) => T::Timestamp { fsp: *n.max(m) },
            (T::Geometry { kind: k, srid: s }, T::Geometry { kind: l, srid: t }) => T::Geometry {
                kind: if k == l { k.clone() } else { "geometry".into() },
                srid: s.filter(|_| s == t),
            },
            (T::Vector { dimensions: n }, T::Vector { dimensions: m }) => T::Vector { dimensions: *n.max(m) },
            (T::Inet4, T::Inet6) => T::Inet6,
            _ => return None,
        })
    };
    one_way(a, b).or_else(|| one_way(b, a))
}

/// Does the first type hold every value of the second?
#[cfg(test)]
fn covers(wide: &ColumnType, narrow: &ColumnType) -> bool {
    common(wide, narrow).is_some_and(|both| same_type(&both, wide))
}

/// Equal but for character sets.
pub fn same_type(a: &ColumnType, b: &ColumnType) -> bool {
    use ColumnType as T;
    match (a, b) {
        (T::Char { length: n, .. }, T::Char { length: m, .. })
        | (T::VarChar { length: n, .. }, T::VarChar { length: m, .. }) => n == m,
        (T::Text { size: n, .. }, T::Text { size: m, .. }) => n == m,
        (T::Enum { labels: x, .. }, T::Enum { labels: y, .. })
        | (T::Set { labels: x, .. }, T::Set { labels: y, .. }) => x == y,
        _ => a == b,
    }
}

/// A type of text that holds what any value is as text.
pub(crate) fn any_text() -> ColumnType {
    ColumnType::Text { size: LobSize::Long, charset: Charset::utf8mb4() }
}

fn with_common_charset(a: &ColumnType, b: &ColumnType) -> ColumnType {
    if a == b {
        return a.clone();
    }
    let charset = text_charset(a, b);
    use ColumnType as T;
    match a.clone() {
        T::Char { length, .. } => T::Char { length, charset },
        T::VarChar { length, .. } => T::VarChar { length, charset },
        T::Text { size, .. } => T::Text { size, charset },
        T::Enum { labels, .. } => T::Enum { labels, charset },
        T::Set { labels, .. } => T::Set { labels, charset },
        other => other,
    }
}

/// The character set of a text that comes from both.
fn text_charset(a: &ColumnType, b: &ColumnType) -> Charset {
    match (a.charset(), b.charset()) {
        (Some(a), Some(b)) if a == b => a.clone(),
        _ => Charset::utf8mb4(),
    }
}

/// Size, and whether it has no sign. A YEAR is a small number without one.
fn int_of(ty: &ColumnType) -> Option<(IntWidth, bool)> {
    match ty {
        ColumnType::Int { width, unsigned } => Some((*width, *unsigned)),
        ColumnType::Year => Some((IntWidth::Small, true)),
        _ => None,
    }
}

/// The signed type that holds what this one holds without sign.
fn signed_above(width: IntWidth) -> Option<IntWidth> {
    Some(match width {
        IntWidth::Tiny => IntWidth::Small,
        IntWidth::Small => IntWidth::Medium,
        IntWidth::Medium => IntWidth::Int,
        IntWidth::Int => IntWidth::Big,
        IntWidth::Big => return None,
    })
}

/// Decimal digits of the largest number.
fn digits(width: IntWidth, unsigned: bool) -> u8 {
    match (width, unsigned) {
        (IntWidth::Tiny, _) => 3,
        (IntWidth::Small, _) => 5,
        (IntWidth::Medium, false) => 7,
        (IntWidth::Medium, true) => 8,
        (IntWidth::Int, _) => 10,
        (IntWidth::Big, false) => 19,
        (IntWidth::Big, true) => 20,
    }
}

fn decimal(precision: u8, scale: u8) -> ColumnType {
    ColumnType::Decimal { precision, scale, unsigned: false }
}

/// A DECIMAL with so many digits before the dot and behind it.
fn united(whole: u8, scale: u8, unsigned: bool) -> Option<ColumnType> {
    let precision = whole.checked_add(scale)?;
    (precision <= MAX_DIGITS && scale <= MAX_SCALE).then_some(ColumnType::Decimal {
        precision: precision.max(1),
        scale,
        unsigned,
    })
}

/// The longer of two lists of members, if it begins with the other one.
fn longer(a: &Arc<[Arc<str>]>, b: &Arc<[Arc<str>]>) -> Option<Arc<[Arc<str>]>> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    long.starts_with(short).then(|| long.clone())
}

/// The most characters of a value; of the TEXT family as many as a byte each may be.
fn characters(ty: &ColumnType) -> Option<u64> {
    let length = |label: &Arc<str>| label.chars().count() as u64;
    Some(match ty {
        ColumnType::Char { length, .. } | ColumnType::VarChar { length, .. } => u64::from(*length),
        ColumnType::Text { size, .. } => size.max_bytes(),
        ColumnType::Enum { labels, .. } => labels.iter().map(length).max().unwrap_or(0),
        ColumnType::Set { labels, .. } => {
            labels.iter().map(length).sum::<u64>() + (labels.len() as u64).saturating_sub(1)
        }
        _ => return None,
    })
}

/// The least type of text for so many characters. The sizes of the TEXT family themselves stand for texts of one byte
/// a character: one that comes from it stays in it, one that comes from VARCHAR leaves it only where it must.
fn text(characters: u64, charset: Charset) -> ColumnType {
    let size = match characters {
        n if n <= u64::from(MAX_VARCHAR) => {
            return ColumnType::VarChar { length: n.max(1) as u32, charset };
        }
        n if n <= LobSize::Normal.max_bytes() => LobSize::Normal,
        n if n <= LobSize::Medium.max_bytes() => LobSize::Medium,
        _ => LobSize::Long,
    };
    ColumnType::Text { size, charset }
}

fn byte_length(ty: &ColumnType) -> Option<u64> {
    Some(match ty {
        ColumnType::Binary { length } | ColumnType::VarBinary { length } => u64::from(*length),
        ColumnType::Blob { size } => size.max_bytes(),
        _ => return None,
    })
}

/// The least type for so many bytes. Not BINARY: values of another length would be filled up with zeros.
fn bytes(length: u64) -> ColumnType {
    let size = match length {
        n if n <= u64::from(MAX_VARBINARY) => return ColumnType::VarBinary { length: n.max(1) as u32 },
        n if n <= LobSize::Normal.max_bytes() => LobSize::Normal,
        n if n <= LobSize::Medium.max_bytes() => LobSize::Medium,
        _ => LobSize::Long,
    };
    ColumnType::Blob { size }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn int(width: IntWidth, unsigned: bool) -> ColumnType {
        ColumnType::Int { width, unsigned }
    }

    fn varchar(length: u32) -> ColumnType {
        ColumnType::VarChar { length, charset: Charset::utf8mb4() }
    }

    fn members(labels: &[&str]) -> Arc<[Arc<str>]> {
        labels.iter().map(|l| Arc::from(*l)).collect()
    }

    /// One or more of every type.
    pub(crate) fn all_types() -> Vec<ColumnType> {
        use ColumnType as T;
        let latin1 = Charset::new("latin1", "latin1_swedish_ci");
        let mut types = vec![T::Year, T::Date, T::Json, T::Uuid, T::Inet4, T::Inet6];
        for width in [IntWidth::Tiny, IntWidth::Small, IntWidth::Medium, IntWidth::Int, IntWidth::Big] {
            types.extend([int(width, false), int(width, true)]);
        }
        for (precision, scale) in
            [(10, 0), (10, 5), (38, 19), (65, 30), (65, 0), (5, 5), (15, 0), (16, 0), (20, 0)]
        {
            types.extend([decimal(precision, scale), T::Decimal { precision, scale, unsigned: true }]);
        }
        for unsigned in [false, true] {
            types.extend([T::Float { unsigned }, T::Double { unsigned }]);
        }
        for width in [1, 8, 64] {
            types.push(T::Bit { width });
        }
        for fsp in [0, 3, 6] {
            types.extend([T::Time { fsp }, T::DateTime { fsp }, T::Timestamp { fsp }]);
        }
        for length in [0, 1, 20, 255] {
            types.extend([
                T::Char { length, charset: latin1.clone() },
                varchar(length),
                T::Binary { length },
                T::VarBinary { length },
            ]);
        }
        types.extend([varchar(MAX_VARCHAR), varchar(65_000), T::VarBinary { length: 65_535 }]);
        for size in [LobSize::Tiny, LobSize::Normal, LobSize::Medium, LobSize::Long] {
            types.extend([T::Text { size, charset: Charset::utf8mb4() }, T::Blob { size }]);
        }
        for labels in [&["a"][..], &["a", "b"], &["b", "a"], &["long member"]] {
            types.push(T::Enum { labels: members(labels), charset: Charset::utf8mb4() });
            types.push(T::Set { labels: members(labels), charset: latin1.clone() });
        }
        for (kind, srid) in [("geometry", None), ("point", None), ("point", Some(4326)), ("polygon", Some(0))]
        {
            types.push(T::Geometry { kind: kind.into(), srid });
        }
        types.extend([T::Vector { dimensions: 3 }, T::Vector { dimensions: 5 }]);
        types
    }

    #[test]
    fn case_53_every_pair_has_one_common_type_or_none() {
        let types = all_types();
        let (mut some, mut none) = (0, 0);
        for a in &types {
            assert!(common(a, a).is_some_and(|c| same_type(&c, a)), "{a} with itself");
            for b in &types {
                let both = common(a, b);
                assert_eq!(both, common(b, a), "{a} and {b} the other way round");
                match both {
                    None => none += 1,
                    Some(both) => {
                        some += 1;
                        for one in [a, b] {
                            assert!(covers(&both, one), "{both} is to hold {one}");
                        }
                    }
                }
            }
        }
        assert!(some > 500 && none > 1000, "{some} {none}");
    }

    #[test]
    fn case_52_integers_and_decimals_widen_step_by_step() {
        use ColumnType as T;
        let at = |a: &T, b: &T| common(a, b).map(|c| c.to_string());
        let (tiny, small, big) =
            (int(IntWidth::Tiny, false), int(IntWidth::Small, false), int(IntWidth::Big, false));
        assert_eq!(at(&tiny, &small).as_deref(), Some("smallint"));
        assert_eq!(at(&tiny, &big).as_deref(), Some("bigint"));
        assert_eq!(at(&int(IntWidth::Int, true), &tiny).as_deref(), Some("bigint"));
        assert_eq!(at(&int(IntWidth::Big, true), &tiny).as_deref(), Some("decimal(20,0)"));
        assert_eq!(at(&big, &decimal(10, 0)).as_deref(), Some("decimal(19,0)"));
        assert_eq!(at(&decimal(10, 0), &decimal(10, 5)).as_deref(), Some("decimal(15,5)"));
        assert_eq!(at(&decimal(15, 5), &decimal(38, 19)).as_deref(), Some("decimal(38,19)"));
        assert_eq!(at(&decimal(65, 0), &decimal(10, 5)), None, "70 digits");
        let double = T::Double { unsigned: false };
        assert_eq!(at(&int(IntWidth::Int, true), &double).as_deref(), Some("double"));
        assert_eq!(at(&big, &double), None, "a DOUBLE has 53 bits");
        assert_eq!(at(&T::DateTime { fsp: 0 }, &T::Timestamp { fsp: 6 }), None);
        assert_eq!(at(&T::Date, &T::DateTime { fsp: 3 }).as_deref(), Some("datetime(3)"));
        assert_eq!(
            at(&varchar(10), &T::Text { size: LobSize::Tiny, charset: Charset::utf8mb4() }).as_deref(),
            Some("varchar(255)")
        );
        assert_eq!(at(&T::Binary { length: 4 }, &T::Binary { length: 16 }).as_deref(), Some("varbinary(16)"));
        assert_eq!(at(&varchar(10), &big), None);
    }
}
