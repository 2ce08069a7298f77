//! Lines in the form that Alibaba Canal gives its "flat messages", and its readers (Flink, Doris, Databend, ...) expect.
//!
//! A line per change of a row, with one element in `data`:
//! ```json
//! {"data":[{"id":"7","amount":"5.00"}],"database":"shop","es":1767225600000,"id":12,"isDdl":false,"mysqlType":{"id":"int","amount":"decimal(10,2)"},"old":[{"amount":"4.00"}],"pkNames":["id"],"sql":"","sqlType":{"id":4,"amount":3},"table":"orders","ts":1767225600120,"type":"UPDATE","target":"orders"}
//! ```
//! `type` is `INSERT` (also for what a snapshot reads), `UPDATE` or `DELETE`. `old` has what an update changed, with the
//! values before; it is null for the other types. `es` is the commit at the source and `ts` when the line was made, both in
//! milliseconds; `id` is the tick. `database` and `table` are the source's; `target`, which Canal does not have, is the name
//! that the flow gives the table. `pkNames` is null for a table without key.
//!
//! An update of which the source's log holds no image before has one empty object in `old`: what changed is not known. Where
//! the log does not hold all columns, `data` has those that it holds.
//!
//! # Values
//! Each is a string, or null, in Canal's form: numbers, dates and times in the server's digits; ENUM the index and SET the
//! number of its bits (`mysqlType` has the labels); BIT a number; bytes (BINARY, BLOB, geometry as SRID and WKB, VECTOR) a
//! string of as many characters, each the byte's (ISO 8859-1); JSON its text.
//!
//! `sqlType` has the numbers of `java.sql.Types`. As in Canal, an unsigned integer has that of the next wider type where its
//! value needs it (BIGINT UNSIGNED: DECIMAL), so it belongs to the line, not to the column.
//!
//! # Schema changes
//! A line with `isDdl` true, `data` null, and a statement in `sql` that makes the change at the target. (The source's own
//! statement may have said more; what a flow leaves out is not in it.) `type` is `CREATE`, `ALTER`, `ERASE` (DROP TABLE),
//! `TRUNCATE`, `RENAME`, or `QUERY` for rows that are moved or removed by a statement.

use super::push_string;
use crate::default::{as_source, default_value};
use crate::text;
use cdc_core::Row;
use cdc_core::connector::{TargetBatch, TargetChange, TargetOp, TargetSchemaChange, TargetTable};
use cdc_core::event::{Op, Origin};
use cdc_core::schema::{Column, ColumnType, IntWidth};
use cdc_core::value::Value;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

/// A column as it stands in the lines.
struct Named {
    /// `"name":`
    name: Vec<u8>,
    fsp: u8,
    /// `"name":"type"`
    described: Vec<u8>,
    ty: ColumnType,
}

/// A table as it stands in the lines.
struct Names {
    columns: Vec<Named>,
    key: Vec<usize>,
    /// `,"pkNames":[..],"sql":"","sqlType":{`
    keys: Vec<u8>,
}

impl Names {
    fn new(table: &TargetTable) -> Names {
        let columns: Vec<Named> = table
            .schema
            .columns
            .iter()
            .map(|column| {
                let mut name = Vec::new();
                push_string(&mut name, &column.name);
                name.push(b':');
                let mut described = name.clone();
                push_string(&mut described, &column.ty.to_string());
                Named { name, fsp: text::fraction_digits(&column.ty), described, ty: column.ty.clone() }
            })
            .collect();
        let mut keys = b",\"pkNames\":".to_vec();
        if table.key.is_empty() {
            keys.extend_from_slice(b"null");
        } else {
            keys.push(b'[');
            for (i, at) in table.key.iter().enumerate() {
                if i > 0 {
                    keys.push(b',');
                }
                push_string(&mut keys, table.schema.columns.get(*at).map_or("", |c| &c.name));
            }
            keys.push(b']');
        }
        keys.extend_from_slice(b",\"sql\":\"\",\"sqlType\":{");
        Names { columns, key: table.key.clone(), keys }
    }

    /// The columns that a row has, each with its value.
    fn of_row<'a>(&'a self, row: &'a Row) -> impl Iterator<Item = (&'a Named, Value<'a>)> {
        self.columns.iter().zip(row.iter()).filter(|(_, value)| !value.is_absent())
    }

    /// The columns of the key, each with its value.
    fn of_key<'a>(&'a self, key: &'a Row) -> impl Iterator<Item = (&'a Named, Value<'a>)> {
        self.key.iter().filter_map(|at| self.columns.get(*at)).zip(key.iter())
    }
}

/// Makes lines.
#[derive(Default)]
pub(super) struct Canal {
    /// The target's tables, as they were seen last.
    tables: HashMap<String, Arc<TargetTable>>,
}

impl Canal {
    /// Takes note of a table's shape.
    pub(super) fn prepare(&mut self, table: &Arc<TargetTable>) {
        self.tables.insert(table.name.clone(), Arc::clone(table));
    }

    /// Appends a line per change.
    pub(super) fn batch(&mut self, out: &mut Vec<u8>, batch: &TargetBatch, now: i64) {
        let names = Names::new(&batch.table);
        let unknown = Origin::default();
        for change in &batch.changes {
            let origin = batch.origins.get(change.origin as usize).unwrap_or(&unknown);
            line(out, &names, &batch.table, change, origin, now);
        }
    }

    /// The line of a schema change up to the number of its tick, and what follows that.
    pub(super) fn schema_change(&mut self, change: &TargetSchemaChange, now: i64) -> (Vec<u8>, Vec<u8>) {
        match change {
            TargetSchemaChange::CreateTable { table } | TargetSchemaChange::ChangeKey { table } => {
                self.prepare(table);
            }
            TargetSchemaChange::RenameTable { from, to } => {
                if let Some(table) = self.tables.remove(from) {
                    self.tables.insert(to.clone(), table);
                }
            }
            _ => {}
        }
        let (word, target, sql) = self.statement(change);
        let source = match change {
            TargetSchemaChange::RemoveRows { source, .. } => Some(source),
            _ => self.tables.get(target).map(|table| &table.schema.id),
        };
        let mut head = b"{\"data\":null,\"database\":".to_vec();
        push_string(&mut head, source.map_or("", |source| &source.database));
        head.extend_from_slice(b",\"es\":");
        text::push_int(&mut head, now);
        head.extend_from_slice(b",\"id\":");
        let mut tail = b",\"isDdl\":true,\"mysqlType\":null,\"old\":null,\"pkNames\":null,\"sql\":".to_vec();
        push_string(&mut tail, &sql);
        tail.extend_from_slice(b",\"sqlType\":null,\"table\":");
        push_string(&mut tail, source.map_or(target, |source| &source.table));
        tail.extend_from_slice(b",\"ts\":");
        text::push_int(&mut tail, now);
        tail.extend_from_slice(b",\"type\":\"");
        tail.extend_from_slice(word.as_bytes());
        tail.extend_from_slice(b"\",\"target\":");
        push_string(&mut tail, target);
        tail.extend_from_slice(b"}\n");
        (head, tail)
    }

    /// The type of a schema change, the target's table, and a statement that makes it there.
    fn statement<'a>(&self, change: &'a TargetSchemaChange) -> (&'static str, &'a str, String) {
        let name = |name: &str| format!("`{}`", name.replace('`', "``"));
        let column = |c: &Column| {
            let null = if c.nullable { "" } else { " NOT NULL" };
            format!("{} {}{null}", name(&c.name), c.ty)
        };
        let key = |table: &TargetTable| {
            let columns = table.key.iter().filter_map(|at| table.schema.columns.get(*at));
            columns.map(|c| name(&c.name)).collect::<Vec<_>>().join(", ")
        };
        let known = |table: &str, column: &str| {
            self.tables.get(table).and_then(|t| t.schema.columns.iter().find(|c| *c.name == *column))
        };
        let alter = |table: &str, what: String| format!("ALTER TABLE {} {what}", name(table));
        // which rows, where it is not about all of them
        let rows = |only: &[(Column, Row)]| {
            let mut condition = Vec::new();
            for (i, (column, value)) in only.iter().enumerate() {
                condition.extend_from_slice(if i > 0 { b" AND " } else { b" WHERE " });
                condition.extend_from_slice(name(&column.name).as_bytes());
                condition.extend_from_slice(b" <=> ");
                push_literal(&mut condition, &value.get(0), text::fraction_digits(&column.ty));
            }
            String::from_utf8_lossy(&condition).into_owned()
        };
        match change {
            TargetSchemaChange::CreateTable { table } => {
                let mut parts: Vec<String> = table.schema.columns.iter().map(column).collect();
                if !table.is_multiset() {
                    parts.push(format!("PRIMARY KEY ({})", key(table)));
                }
                let sql = format!("CREATE TABLE {} ({})", name(&table.name), parts.join(", "));
                ("CREATE", &table.name, sql)
            }
            TargetSchemaChange::AddColumn { table, column: c, implicit, .. } => {
                ("ALTER", table, alter(table, format!("ADD COLUMN {}{}", column(c), default(c, *implicit))))
            }
            TargetSchemaChange::RenameColumn { table, from, to } => {
                ("ALTER", table, alter(table, format!("RENAME COLUMN {} TO {}", name(from), name(to))))
            }
            TargetSchemaChange::FillColumn { table, from, to, only, .. } => (
                "QUERY",
                table,
                format!("UPDATE {} SET {} = {}{}", name(table), name(to), name(from), rows(only)),
            ),
            TargetSchemaChange::ResetColumn { table, column: c, implicit, only } => {
                // the value itself: the consumer's table may have another default, or none. One that is told for each row
                // (a number, an expression over its columns) only the consumer can make.
                let value = reads(c, *implicit).unwrap_or_else(|| "DEFAULT".to_owned());
                (
                    "QUERY",
                    table,
                    format!("UPDATE {} SET {} = {value}{}", name(table), name(&c.name), rows(only)),
                )
            }
            TargetSchemaChange::DropColumn { table, column } => {
                ("ALTER", table, alter(table, format!("DROP COLUMN {}", name(column))))
            }
            TargetSchemaChange::AlterColumnType { table, column: of, ty, .. } => {
                let nullable = known(table, of).is_none_or(|c| c.nullable);
                let new = Column { ty: ty.clone(), nullable, ..Column::new(of.as_str(), ty.clone()) };
                ("ALTER", table, alter(table, format!("MODIFY COLUMN {}", column(&new))))
            }
            TargetSchemaChange::AlterNullability { table, column: of, nullable } => {
                let what = match known(table, of) {
                    Some(known) => {
                        format!("MODIFY COLUMN {}", column(&Column { nullable: *nullable, ..known.clone() }))
                    }
                    None => format!(
                        "ALTER COLUMN {} {} NOT NULL",
                        name(of),
                        if *nullable { "DROP" } else { "SET" }
                    ),
                };
                ("ALTER", table, alter(table, what))
            }
            TargetSchemaChange::AlterColumnDefault { table, column: c } => {
                let what = match &c.default {
                    // the moment is an expression here
                    Some(default) if default.starts_with("CURRENT_") => format!("SET DEFAULT ({default})"),
                    Some(default) => format!("SET DEFAULT {default}"),
                    None if c.nullable => "SET DEFAULT NULL".to_owned(),
                    None => "DROP DEFAULT".to_owned(),
                };
                ("ALTER", table, alter(table, format!("ALTER COLUMN {} {what}", name(&c.name))))
            }
            TargetSchemaChange::AlterComment { table, column: of, comment } => {
                let mut text = Vec::new();
                push_literal(&mut text, &Value::Text(comment.as_str().into()), 0);
                let text = String::from_utf8_lossy(&text);
                let what = match of.as_ref().map(|of| (of, known(table, of))) {
                    None => format!("COMMENT = {text}"),
                    Some((_, Some(known))) => format!("MODIFY COLUMN {} COMMENT {text}", column(known)),
                    // of a table that no line has shown yet the definition is not known
                    Some((of, None)) => format!("MODIFY COLUMN {} COMMENT {text}", name(of)),
                };
                ("ALTER", table, alter(table, what))
            }
            TargetSchemaChange::ChangeKey { table } if table.is_multiset() => {
                ("ALTER", &table.name, alter(&table.name, "DROP PRIMARY KEY".into()))
            }
            TargetSchemaChange::ChangeKey { table } => {
                let what = format!("DROP PRIMARY KEY, ADD PRIMARY KEY ({})", key(table));
                ("ALTER", &table.name, alter(&table.name, what))
            }
            TargetSchemaChange::TruncateTable { table } => {
                ("TRUNCATE", table, format!("TRUNCATE TABLE {}", name(table)))
            }
            TargetSchemaChange::RemoveRows { table, only, .. } if only.is_empty() => {
                ("TRUNCATE", table, format!("TRUNCATE TABLE {}", name(table)))
            }
            TargetSchemaChange::RemoveRows { table, only, .. } => {
                ("QUERY", table, format!("DELETE FROM {}{}", name(table), rows(only)))
            }
            TargetSchemaChange::DropTable { table } => {
                ("ERASE", table, format!("DROP TABLE {}", name(table)))
            }
            TargetSchemaChange::RenameTable { from, to } => {
                ("RENAME", to, format!("RENAME TABLE {} TO {}", name(from), name(to)))
            }
        }
    }
}

fn line(
    out: &mut Vec<u8>,
    names: &Names,
    table: &TargetTable,
    change: &TargetChange,
    origin: &Origin,
    now: i64,
) {
    // the whole row where it is known, else what identifies it
    let whole = match change.op {
        TargetOp::Upsert => change.row.as_ref(),
        TargetOp::Delete => change.before.as_ref().or(table.is_multiset().then_some(&change.key)),
    };
    let data: Vec<(&Named, Value<'_>)> = match whole {
        Some(row) => names.of_row(row).collect(),
        None => names.of_key(&change.key).collect(),
    };
    // What a deletion at the source writes at a target (a view's row) is an update of that row.
    let is_update = change.op == TargetOp::Upsert && matches!(change.source_op, Op::Update | Op::Delete);
    out.extend_from_slice(b"{\"data\":[");
    object(out, data.iter().map(|(named, value)| (*named, value)));
    out.extend_from_slice(b"],\"database\":");
    push_string(out, &table.schema.id.database);
    out.extend_from_slice(b",\"es\":");
    text::push_int(out, origin.timestamp_micros.div_euclid(1000));
    out.extend_from_slice(b",\"id\":");
    text::push_uint(out, change.tick);
    out.extend_from_slice(b",\"isDdl\":false,\"mysqlType\":{");
    for (i, (named, _)) in data.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&named.described);
    }
    out.extend_from_slice(b"},\"old\":");
    if is_update {
        out.push(b'[');
        let empty = Row::pack([]);
        let before = change.before.as_ref().unwrap_or(&empty);
        let is_new = |named: &Named, old: &Value<'_>| {
            !data.iter().any(|(new, value)| std::ptr::eq(*new, named) && value == old)
        };
        let changed: Vec<_> = names.of_row(before).filter(|(named, old)| is_new(named, old)).collect();
        object(out, changed.iter().map(|(named, value)| (*named, value)));
        out.push(b']');
    } else {
        out.extend_from_slice(b"null");
    }
    out.extend_from_slice(&names.keys);
    for (i, (named, value)) in data.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&named.name);
        text::push_int(out, sql_type(&named.ty, value));
    }
    out.extend_from_slice(b"},\"table\":");
    push_string(out, &table.schema.id.table);
    out.extend_from_slice(b",\"ts\":");
    text::push_int(out, now);
    out.extend_from_slice(match (change.op, is_update) {
        (TargetOp::Delete, _) => b",\"type\":\"DELETE\",\"target\":",
        (_, true) => b",\"type\":\"UPDATE\",\"target\":",
        (_, false) => b",\"type\":\"INSERT\",\"target\":",
    });
    push_string(out, &table.name);
    out.extend_from_slice(b"}\n");
}

fn object<'a>(out: &mut Vec<u8>, members: impl Iterator<Item = (&'a Named, &'a Value<'a>)>) {
    out.push(b'{');
    for (i, (named, value)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&named.name);
        push_text(out, value, named.fsp);
    }
    out.push(b'}');
}

/// Appends a value as a string.
fn push_text(out: &mut Vec<u8>, value: &Value<'_>, fsp: u8) {
    let latin1 = |out: &mut Vec<u8>, bytes: &[u8]| {
        push_string(out, &bytes.iter().map(|byte| char::from(*byte)).collect::<String>());
    };
    match value {
        Value::Null | Value::Absent => out.extend_from_slice(b"null"),
        Value::Float(v) if !v.is_finite() => out.extend_from_slice(b"null"),
        Value::Double(v) if !v.is_finite() => out.extend_from_slice(b"null"),
        Value::Float(v) => drop(write!(out, "\"{v}\"")),
        Value::Decimal(v) | Value::Text(v) | Value::Json(v) => push_string(out, v),
        Value::Enum { index, .. } => drop(write!(out, "\"{index}\"")),
        Value::Set { bits, .. } => drop(write!(out, "\"{bits}\"")),
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => latin1(out, v),
        _ => {
            out.push(b'"');
            text::push_value(out, value, fsp);
            out.push(b'"');
        }
    }
}

/// The number that `java.sql.Types` has for a column, or for a value that is beyond the column's own type there.
fn sql_type(ty: &ColumnType, value: &Value<'_>) -> i64 {
    const BIT: i64 = -7;
    const TINYINT: i64 = -6;
    const BIGINT: i64 = -5;
    const BINARY: i64 = -2;
    const CHAR: i64 = 1;
    const DECIMAL: i64 = 3;
    const INTEGER: i64 = 4;
    const SMALLINT: i64 = 5;
    const REAL: i64 = 7;
    const DOUBLE: i64 = 8;
    const VARCHAR: i64 = 12;
    const DATE: i64 = 91;
    const TIME: i64 = 92;
    const TIMESTAMP: i64 = 93;
    const BLOB: i64 = 2004;
    const CLOB: i64 = 2005;
    let above = |limit: u64| matches!(value, Value::UInt(v) if *v > limit);
    match ty {
        ColumnType::Int { width: IntWidth::Tiny, .. } if above(i8::MAX as u64) => SMALLINT,
        ColumnType::Int { width: IntWidth::Tiny, .. } => TINYINT,
        ColumnType::Int { width: IntWidth::Small, .. } if above(i16::MAX as u64) => INTEGER,
        ColumnType::Int { width: IntWidth::Small, .. } => SMALLINT,
        ColumnType::Int { width: IntWidth::Int, .. } if above(i32::MAX as u64) => BIGINT,
        ColumnType::Int { width: IntWidth::Medium | IntWidth::Int, .. } => INTEGER,
        ColumnType::Int { width: IntWidth::Big, .. } if above(i64::MAX as u64) => DECIMAL,
        ColumnType::Int { width: IntWidth::Big, .. } => BIGINT,
        ColumnType::Decimal { .. } => DECIMAL,
        ColumnType::Float { .. } => REAL,
        ColumnType::Double { .. } => DOUBLE,
        ColumnType::Bit { .. } | ColumnType::Set { .. } => BIT,
        ColumnType::Date => DATE,
        ColumnType::Time { .. } => TIME,
        ColumnType::DateTime { .. } | ColumnType::Timestamp { .. } => TIMESTAMP,
        ColumnType::Char { .. } => CHAR,
        ColumnType::Text { .. } => CLOB,
        ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. } => BLOB,
        ColumnType::Vector { .. } => BLOB,
        ColumnType::Enum { .. } => INTEGER,
        ColumnType::Geometry { .. } => BINARY,
        ColumnType::Year
        | ColumnType::VarChar { .. }
        | ColumnType::Json
        | ColumnType::Uuid
        | ColumnType::Inet4
        | ColumnType::Inet6 => VARCHAR,
    }
}

/// What rows that are there read in a column, in MySQL's words: the default as the source's statement has it, else the type's own
/// where the column is NOT NULL there, else NULL. `None`: each row reads a value of its own.
fn reads(column: &Column, implicit: bool) -> Option<String> {
    if let Some(text) = &column.default {
        return Some(text.clone());
    }
    let value = default_value(&as_source(column, implicit)).ok()?;
    let mut literal = Vec::new();
    push_literal(&mut literal, &value, text::fraction_digits(&column.ty));
    Some(String::from_utf8_lossy(&literal).into_owned())
}

/// What rows that are there read in a new column: ` DEFAULT ..` where its own words do not say so already.
fn default(column: &Column, implicit: bool) -> String {
    let told = column.default.is_some() || (implicit && column.nullable);
    let Some(value) = reads(column, implicit).filter(|_| told) else { return String::new() };
    match column.ty {
        // these take an expression only
        ColumnType::Text { .. } | ColumnType::Blob { .. } | ColumnType::Json if column.default.is_none() => {
            format!(" DEFAULT ({value})")
        }
        _ => format!(" DEFAULT {value}"),
    }
}

/// Appends a value as a literal of MySQL's.
fn push_literal(out: &mut Vec<u8>, value: &Value<'_>, fsp: u8) {
    match value {
        Value::Null | Value::Absent => out.extend_from_slice(b"NULL"),
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => {
            out.extend_from_slice(b"x'");
            v.iter().for_each(|byte| drop(write!(out, "{byte:02x}")));
            out.push(b'\'');
        }
        // in quotes they would be other values: '1' is the bits of its byte, '0' the year 2000
        Value::Bit(_) | Value::Year(_) => text::push_value(out, value, fsp),
        _ => {
            let mut text = Vec::new();
            text::push_value(&mut text, value, fsp);
            out.push(b'\'');
            for byte in text {
                if matches!(byte, b'\'' | b'\\') {
                    out.push(byte);
                }
                out.push(byte);
            }
            out.push(b'\'');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, LobSize};
    use cdc_core::value::{Date, Time};

    #[test]
    fn values_are_texts_and_have_the_types_of_their_values() {
        let int = |width, unsigned| ColumnType::Int { width, unsigned };
        let labels: Arc<[Arc<str>]> = vec!["x".into(), "y".into()].into();
        let charset = Charset::utf8mb4();
        let text = |size| ColumnType::Text { size, charset: Charset::utf8mb4() };
        for (ty, value, expected, number) in [
            (int(IntWidth::Tiny, true), Value::UInt(127), "\"127\"", -6),
            (int(IntWidth::Tiny, true), Value::UInt(128), "\"128\"", 5),
            (int(IntWidth::Small, true), Value::UInt(65535), "\"65535\"", 4),
            (int(IntWidth::Medium, true), Value::UInt(16_777_215), "\"16777215\"", 4),
            (int(IntWidth::Int, false), Value::Int(-1), "\"-1\"", 4),
            (int(IntWidth::Int, true), Value::UInt(4_294_967_295), "\"4294967295\"", -5),
            (int(IntWidth::Big, true), Value::UInt(u64::MAX), "\"18446744073709551615\"", 3),
            (int(IntWidth::Big, false), Value::Null, "null", -5),
            (ColumnType::Float { unsigned: false }, Value::Float(0.1), "\"0.1\"", 7),
            (ColumnType::Double { unsigned: false }, Value::Double(1e300), "\"1e300\"", 8),
            (ColumnType::Bit { width: 3 }, Value::Bit(5), "\"5\"", -7),
            (ColumnType::Year, Value::Year(2026), "\"2026\"", 12),
            (ColumnType::Date, Value::Date(Date { year: 2026, month: 2, day: 0 }), "\"2026-02-00\"", 91),
            (ColumnType::Time { fsp: 2 }, Value::Time(Time { micros: -10_000 }), "\"-00:00:00.01\"", 92),
            (text(LobSize::Normal), Value::Text("a\"\u{1f600}".into()), "\"a\\\"\u{1f600}\"", 2005),
            (
                ColumnType::Blob { size: LobSize::Tiny },
                Value::Bytes(vec![0, 0xe9].into()),
                "\"\\u0000\u{e9}\"",
                2004,
            ),
            (
                ColumnType::Enum { labels: labels.clone(), charset: charset.clone() },
                Value::Enum { index: 2, label: "y".into() },
                "\"2\"",
                4,
            ),
            (ColumnType::Set { labels, charset }, Value::Set { bits: 3, labels: "x,y".into() }, "\"3\"", -7),
            (ColumnType::Json, Value::Json("{\"a\": 1}".into()), "\"{\\\"a\\\": 1}\"", 12),
        ] {
            let mut out = Vec::new();
            push_text(&mut out, &value, text::fraction_digits(&ty));
            let out = String::from_utf8(out).unwrap();
            serde_json::from_str::<serde_json::Value>(&out).unwrap();
            assert_eq!((&*out, sql_type(&ty, &value)), (expected, number), "{value:?}");
        }
    }

    #[test]
    fn a_new_column_has_what_rows_that_are_there_read() {
        let add = |column: Column, implicit| {
            let change =
                TargetSchemaChange::AddColumn { table: "t".into(), column, implicit, keeps_default: true };
            Canal::default().statement(&change).2
        };
        let int = || Column::new("n", ColumnType::Int { width: IntWidth::Int, unsigned: false });
        let text = Column::new("n", ColumnType::Text { size: LobSize::Normal, charset: Charset::utf8mb4() });
        let with = |default: &str| Column { default: Some(default.into()), ..int() };
        assert_eq!(add(int(), false), "ALTER TABLE `t` ADD COLUMN `n` int");
        assert_eq!(add(with("'7'"), false), "ALTER TABLE `t` ADD COLUMN `n` int DEFAULT '7'");
        assert_eq!(add(with("(uuid())"), true), "ALTER TABLE `t` ADD COLUMN `n` int DEFAULT (uuid())");
        assert_eq!(add(int(), true), "ALTER TABLE `t` ADD COLUMN `n` int DEFAULT '0'");
        assert_eq!(add(text, true), "ALTER TABLE `t` ADD COLUMN `n` text DEFAULT ('')");
        let not_null = Column { nullable: false, ..int() };
        assert_eq!(add(not_null, false), "ALTER TABLE `t` ADD COLUMN `n` int NOT NULL");
        let bits = Column::new("n", ColumnType::Bit { width: 3 });
        assert_eq!(add(bits, true), "ALTER TABLE `t` ADD COLUMN `n` bit(3) DEFAULT 0");
        assert_eq!(
            add(Column::new("n", ColumnType::Year), true),
            "ALTER TABLE `t` ADD COLUMN `n` year DEFAULT 0"
        );
    }

    #[test]
    fn a_column_is_reset_to_what_its_rows_read_and_not_to_the_consumers_default() {
        let reset = |column: Column, implicit| {
            let change =
                TargetSchemaChange::ResetColumn { table: "t".into(), column, implicit, only: Vec::new() };
            Canal::default().statement(&change).2
        };
        let int = || Column::new("n", ColumnType::Int { width: IntWidth::Int, unsigned: false });
        let text = Column::new("n", ColumnType::Text { size: LobSize::Normal, charset: Charset::utf8mb4() });
        // soft_delete marks what a TRUNCATE deletes, in a column whose default is 0
        let marked = Column { default: Some("1".into()), ..int().not_null() };
        for (column, implicit, value) in [
            (marked, false, "1"),
            (int(), false, "NULL"),
            // DEFAULT would be refused: error 1364
            (int().not_null(), false, "'0'"),
            (int(), true, "'0'"),
            (text, true, "''"),
            (Column { default: Some("(uuid())".into()), ..int() }, true, "(uuid())"),
            (Column { auto_increment: true, ..int().not_null() }, false, "DEFAULT"),
        ] {
            assert_eq!(reset(column, implicit), format!("UPDATE `t` SET `n` = {value}"));
        }
    }

    #[test]
    fn statements_hold_names_and_values_that_are_hostile() {
        let column = Column::new("a`b", ColumnType::VarChar { length: 9, charset: Charset::utf8mb4() });
        let change = TargetSchemaChange::RemoveRows {
            table: "t`x".into(),
            source: cdc_core::schema::TableId::new("d", "s"),
            only: vec![(column, Row::pack([Value::Text("it's \\".into())]))],
            again: true,
        };
        let (_, tail) = Canal::default().schema_change(&change, 1);
        let tail = String::from_utf8(tail).unwrap();
        assert!(tail.contains(r#""sql":"DELETE FROM `t``x` WHERE `a``b` <=> 'it''s \\\\'","#), "{tail}");
    }
}
