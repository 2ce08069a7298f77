//! What rows that are already there read in a column that is added to them.
//!
//! `ADD COLUMN flag INT NOT NULL DEFAULT 7` writes no rows at the source: the rows that are there read 7. The
//! target is a server of the same kind, so it computes the value from the same constant, as DEFAULT of the column it
//! adds: one statement, and no row is written here either. Only a constant is taken over: what depends on the
//! moment, the session or the row (CURRENT_TIMESTAMP, UUID(), an expression, a TIMESTAMP literal, which is in
//! the session's time zone) would be another value here. The constant is read and written anew, so that no text
//! of the source runs at the target. A NOT NULL column without a default reads its type's implicit one (MySQL
//! manual 13.6).

use super::sql;
use super::types::Dialect;
use crate::default::{Literal, literal};
use cdc_core::schema::{Column, ColumnType};

/// The literal, or why the value cannot be told. `None`: NULL.
pub(crate) fn default_literal(column: &Column, dialect: &Dialect) -> Result<Option<String>, String> {
    if column.generated.is_some() {
        return Err("a generated column is computed from each row".to_owned());
    }
    if column.auto_increment {
        return Err("AUTO_INCREMENT numbers the rows that are there".to_owned());
    }
    match &column.default {
        Some(text) => match literal(text) {
            Some(Literal::Null) => Ok(None),
            Some(literal) => {
                let is_zero = matches!(&literal, Literal::Text(t) if t.starts_with("0000-00-00"));
                match column.ty {
                    ColumnType::Timestamp { .. } if !is_zero => Err(format!(
                        "DEFAULT {text} is in the time zone of the session that added the column"
                    )),
                    ColumnType::Geometry { .. } | ColumnType::Vector { .. } | ColumnType::Json => {
                        Err(format!("DEFAULT {text} of a {} column", column.ty))
                    }
                    _ => Ok(Some(literal_sql(&literal))),
                }
            }
            None => Err(format!("DEFAULT {text} is not a constant")),
        },
        None if column.nullable => Ok(None),
        None => implicit(&column.ty, dialect)
            .map(Some)
            .ok_or_else(|| format!("{} has no implicit default", column.ty)),
    }
}

/// Does DEFAULT of this type take a literal only as an expression, in parentheses?
pub(crate) fn needs_parentheses(declared: &str, dialect: &Dialect) -> bool {
    let word = declared.split('(').next().unwrap_or_default();
    !dialect.mariadb && (word.ends_with("text") || word.ends_with("blob") || word == "json")
}

/// A constant as the target reads it.
fn literal_sql(literal: &Literal) -> String {
    match literal {
        Literal::Null => "NULL".to_owned(),
        Literal::Number(digits) => digits.clone(),
        Literal::Text(text) => sql::text(text),
        Literal::Bytes(bytes) => {
            let mut out = b"x'".to_vec();
            sql::push_hex(&mut out, bytes);
            out.push(b'\'');
            String::from_utf8_lossy(&out).into_owned()
        }
        Literal::Bits(bits) => format!("b'{bits:b}'"),
    }
}

/// The implicit default of a NOT NULL column.
fn implicit(ty: &ColumnType, dialect: &Dialect) -> Option<String> {
    Some(
        match ty {
            ColumnType::Int { .. }
            | ColumnType::Bit { .. }
            | ColumnType::Year
            | ColumnType::Decimal { .. }
            | ColumnType::Float { .. }
            | ColumnType::Double { .. } => "0",
            ColumnType::Date => "'0000-00-00'",
            ColumnType::Time { .. } => "'00:00:00'",
            ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => "'0000-00-00 00:00:00'",
            ColumnType::Char { .. }
            | ColumnType::VarChar { .. }
            | ColumnType::Text { .. }
            | ColumnType::Set { .. }
            | ColumnType::Binary { .. }
            | ColumnType::VarBinary { .. }
            | ColumnType::Blob { .. } => "''",
            ColumnType::Enum { labels, .. } => return labels.first().map(|l| sql::text(l)),
            ColumnType::Json if dialect.mariadb => "'null'",
            ColumnType::Json => "CAST('null' AS JSON)",
            ColumnType::Uuid => "'00000000-0000-0000-0000-000000000000'",
            ColumnType::Inet4 => "'0.0.0.0'",
            ColumnType::Inet6 => "'::'",
            ColumnType::Geometry { .. } | ColumnType::Vector { .. } => return None,
        }
        .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_constants_are_read_and_they_are_written_anew() {
        let of = |text: &str| literal(text).map(|l| literal_sql(&l));
        for (text, sql) in [
            ("7", "7"),
            ("'7'", "'7'"),
            ("(-7.5)", "-7.5"),
            ("TRUE", "1"),
            ("'it''s \\'x\\' \\\\'", "'it\\'s \\'x\\' \\\\'"),
            ("_utf8mb4'é'", "'é'"),
            ("b'101'", "b'101'"),
            ("0x41", "x'41'"),
            ("1e3", "1e3"),
        ] {
            assert_eq!(of(text).as_deref(), Some(sql), "{text}");
        }
        for text in
            ["CURRENT_TIMESTAMP", "(uuid())", "1 + 1", "'a", "'a' OR 'b'", "1--1", "now()", "'a'; DROP"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
