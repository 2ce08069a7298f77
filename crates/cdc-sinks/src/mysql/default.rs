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
use super::types::{Declared, Dialect, word_and_length};
use crate::default::{Literal, default_value, literal, moment_of};
use cdc_core::schema::{Column, ColumnType};
use cdc_core::value::Value;

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

/// What stands behind DEFAULT at the target, of a column that is `declared` so there; `None` where the source has no default.
///
/// A default at the target is for rows that somebody else inserts there. So it must mean there what it means at the
/// source: a constant that the target's column holds as the source's does, or the moment of the statement, in the session's time zone
/// on both sides. An expression may mean another thing at another version or flavor of the server and is left out, with the
/// reason.
pub(crate) fn carried(column: &Column, declared: &str, dialect: &Dialect) -> Result<Option<String>, String> {
    if column.default.is_none() || column.generated.is_some() || column.auto_increment {
        return Ok(None);
    }
    if let Some(moment) = moment_of(column) {
        let digits = moment?;
        return Ok(Some(if digits == 0 {
            "CURRENT_TIMESTAMP".to_owned()
        } else {
            format!("CURRENT_TIMESTAMP({digits})")
        }));
    }
    let Some(text) = default_literal(&Column { nullable: true, ..column.clone() }, dialect)? else {
        return Ok(None);
    };
    let default = column.default.as_deref().unwrap_or_default();
    let value = default_value(column)?;
    let text = match (&column.ty, &value) {
        // these are texts at the target, in the one spelling that their values have
        (ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6, Value::Text(value)) => sql::text(value),
        _ => text,
    };
    let (word, length) = word_and_length(declared);
    let fits = match (&value, word) {
        (Value::Text(text), "char" | "varchar") => text.chars().count() <= length,
        (Value::Text(text), "binary" | "varbinary") => text.len() <= length,
        (Value::Bytes(bytes), "binary" | "varbinary") => bytes.len() <= length,
        // stored as a text with all its digits
        (Value::Decimal(_), word) => word == "decimal",
        _ => true,
    };
    if !fits {
        return Err(format!("DEFAULT {default} does not fit into {declared}"));
    }
    if needs_parentheses(declared, dialect) {
        if dialect.number < 80_013 {
            return Err(format!("this server has no default for {declared}"));
        }
        return Ok(Some(format!("({text})")));
    }
    Ok(Some(text))
}

/// What stands behind a column's type and NULL: its default and its comment, as far as the target has them.
pub(crate) fn clauses(column: &Column, declared: &Declared, dialect: &Dialect) -> String {
    let default = carried(column, &declared.ty, dialect).ok().flatten();
    let default = default.map_or_else(String::new, |text| format!(" DEFAULT {text}"));
    format!("{default}{}", comment_clause(&column.comment))
}

/// ` COMMENT '..'`; nothing for none.
pub(crate) fn comment_clause(comment: &str) -> String {
    if comment.is_empty() {
        return String::new();
    }
    format!(" COMMENT {}", sql::text(&held_comment(comment)))
}

/// A comment as the target holds it.
pub(crate) fn held_comment(comment: &str) -> String {
    comment.chars().map(|c| if c > '\u{ffff}' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// What of a comment has no place at the target.
pub(crate) fn odd_comment(comment: &str) -> Option<&'static str> {
    comment
        .chars()
        .any(|c| c > '\u{ffff}')
        .then_some("MySQL takes no character beyond U+FFFF in comments, U+FFFD stands for them")
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
    fn what_means_the_same_is_carried() {
        let mysql = Dialect { number: 90_700, ..Dialect::default() };
        let mariadb = Dialect { mariadb: true, number: 110_800, ..Dialect::default() };
        let of = |ty: ColumnType, default: &str, declared: &str, dialect: &Dialect| {
            let column = Column { default: Some(default.to_owned()), ..Column::new("c", ty).not_null() };
            carried(&column, declared, dialect)
        };
        let text = || ColumnType::VarChar { length: 9, charset: cdc_core::schema::Charset::utf8mb4() };
        let at = |fsp| ColumnType::DateTime { fsp };
        let int = ColumnType::Int { width: cdc_core::schema::IntWidth::Int, unsigned: false };
        let some = |t: &str| Ok(Some(t.to_owned()));
        assert_eq!(of(int.clone(), "7", "int", &mysql), some("7"));
        assert_eq!(of(text(), "'it''s'", "varchar(9)", &mysql), some("'it\\'s'"));
        assert_eq!(of(text(), "'x'", "text", &mysql), some("('x')"));
        assert_eq!(of(text(), "'x'", "text", &mariadb), some("'x'"));
        assert_eq!(of(at(3), "CURRENT_TIMESTAMP(3)", "datetime(3)", &mysql), some("CURRENT_TIMESTAMP(3)"));
        assert_eq!(of(at(0), "CURRENT_TIMESTAMP", "datetime", &mariadb), some("CURRENT_TIMESTAMP"));
        assert_eq!(of(at(0), "'0000-00-00 00:00:00'", "datetime", &mysql), some("'0000-00-00 00:00:00'"));
        let uuid = "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'";
        assert_eq!(of(ColumnType::Uuid, uuid, "char(36)", &mysql), some(&uuid.to_lowercase()));
        // nothing to carry: DEFAULT NULL is none
        assert_eq!(of(int.clone(), "NULL", "int", &mysql), Ok(None));
        let stamp = ColumnType::Timestamp { fsp: 0 };
        let decimal = ColumnType::Decimal { precision: 40, scale: 35, unsigned: false };
        for (ty, default, declared) in [
            (text(), "(uuid())", "varchar(9)"),
            (text(), "CURRENT_TIMESTAMP", "varchar(9)"),
            (int, "(1 + 1)", "int"),
            (at(6), "CURRENT_TIMESTAMP", "datetime(6)"),
            (stamp, "'2026-01-01 00:00:00'", "timestamp"),
            (text(), "'four'", "varchar(3)"),
            (decimal, "0", "varchar(42)"),
        ] {
            assert!(of(ty, default, declared, &mysql).is_err(), "{default} as {declared}");
        }
        let old = Dialect { number: 50_744, ..Dialect::default() };
        assert!(of(text(), "'x'", "text", &old).is_err());
    }

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
