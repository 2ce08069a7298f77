//! What rows that are already there read in a column that is added to them, as SQLite stores it: see
//! [`crate::default`].

use super::types::{Form, encode};
use cdc_core::schema::Column;
use rusqlite::types::Value as Stored;

/// The value, or why it cannot be told.
pub(crate) fn default_value(column: &Column) -> Result<Stored, String> {
    let value = crate::default::default_value(column)?;
    let mut scratch = Vec::new();
    encode(&value, Form::of(&column.ty), &mut scratch)
        .map(Stored::from_ref)
        .ok_or_else(|| format!("a {} column has no place for {value}", column.ty))
}

/// Owns a stored value.
pub(crate) trait FromRef {
    fn from_ref(value: rusqlite::types::ValueRef<'_>) -> Self;
}

impl FromRef for Stored {
    fn from_ref(value: rusqlite::types::ValueRef<'_>) -> Stored {
        use rusqlite::types::ValueRef;
        match value {
            ValueRef::Null => Stored::Null,
            ValueRef::Integer(v) => Stored::Integer(v),
            ValueRef::Real(v) => Stored::Real(v),
            // What is not UTF-8 was not written by us.
            ValueRef::Text(v) => Stored::Text(String::from_utf8_lossy(v).into_owned()),
            ValueRef::Blob(v) => Stored::Blob(v.to_vec()),
        }
    }
}

/// A stored value as a literal that ADD COLUMN takes as a default; `None` for values that have none.
pub(crate) fn as_literal(value: &Stored) -> Option<String> {
    match value {
        Stored::Null => Some("NULL".to_owned()),
        Stored::Integer(v) => Some(v.to_string()),
        // `{:?}` gives the shortest digits with a dot or an exponent; the sign of -0.0 would be lost.
        Stored::Real(v) if *v == 0.0 && v.is_sign_negative() => None,
        Stored::Real(v) => Some(format!("{v:?}")),
        // SQLite's text literals end at a NUL.
        Stored::Text(v) if v.contains('\0') => None,
        Stored::Text(v) => Some(format!("'{}'", v.replace('\'', "''"))),
        Stored::Blob(v) => Some(format!("x'{}'", v.iter().map(|b| format!("{b:02x}")).collect::<String>())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, ColumnType, IntWidth};

    fn of(ty: ColumnType, default: &str) -> Result<Stored, String> {
        let mut column = Column::new("c", ty).not_null();
        column.default = Some(default.to_owned());
        default_value(&column)
    }

    #[test]
    fn constants_are_computed_as_the_server_does() {
        let int = || ColumnType::Int { width: IntWidth::Int, unsigned: false };
        let decimal = || ColumnType::Decimal { precision: 10, scale: 2, unsigned: false };
        let varchar = || ColumnType::VarChar { length: 20, charset: Charset::utf8mb4() };
        let text = |t: &str| Ok(Stored::Text(t.to_owned()));
        assert_eq!(of(int(), "7"), Ok(Stored::Integer(7)));
        assert_eq!(of(int(), "'7'"), Ok(Stored::Integer(7)));
        assert_eq!(of(int(), "-7"), Ok(Stored::Integer(-7)));
        assert_eq!(of(int(), "(7)"), Ok(Stored::Integer(7)));
        assert_eq!(of(int(), "NULL"), Ok(Stored::Null));
        assert_eq!(of(int(), "TRUE"), Ok(Stored::Integer(1)));
        assert!(of(int(), "7.5").is_err());
        assert_eq!(of(decimal(), "'1.5'"), text("1.50"));
        assert_eq!(of(decimal(), "1.5"), text("1.50"));
        assert_eq!(of(decimal(), "-.5"), text("-0.50"));
        assert_eq!(of(varchar(), r"'it''s \'x\' \\ \n'"), text("it's 'x' \\ \n"));
        assert_eq!(of(varchar(), "_utf8mb4'é'"), text("é"));
        assert_eq!(
            of(ColumnType::DateTime { fsp: 3 }, "'2026-01-01 00:00:00'"),
            text("2026-01-01 00:00:00.000")
        );
        assert_eq!(of(ColumnType::Bit { width: 3 }, "b'101'"), Ok(Stored::Integer(5)));
        assert_eq!(of(ColumnType::Binary { length: 3 }, "0x41"), Ok(Stored::Blob(vec![0x41, 0, 0])));
        assert_eq!(of(ColumnType::Double { unsigned: false }, "'1e3'"), Ok(Stored::Real(1000.0)));
        let big = ColumnType::Int { width: IntWidth::Big, unsigned: true };
        assert_eq!(of(big, "18446744073709551615"), text("18446744073709551615"));
        for unknown in ["CURRENT_TIMESTAMP", "(uuid())", "now()", "(1 + 1)", "'a", "CURRENT_TIMESTAMP(6)"] {
            assert!(of(ColumnType::DateTime { fsp: 0 }, unknown).is_err(), "{unknown}");
            assert!(of(varchar(), unknown).is_err(), "{unknown}");
        }
        assert!(of(ColumnType::Timestamp { fsp: 0 }, "'2026-01-01 00:00:00'").is_err());
        assert_eq!(
            of(ColumnType::Timestamp { fsp: 1 }, "'0000-00-00 00:00:00'"),
            text("0000-00-00 00:00:00.0")
        );
    }

    #[test]
    fn not_null_without_a_default_reads_the_implicit_one() {
        let column =
            Column::new("c", ColumnType::Decimal { precision: 5, scale: 1, unsigned: false }).not_null();
        assert_eq!(default_value(&column), Ok(Stored::Text("0.0".to_owned())));
        let column = Column::new("c", ColumnType::Json);
        assert_eq!(default_value(&column), Ok(Stored::Null));
    }
}
