//! Changes as lines of JSON, for the sinks that give out a feed.
//!
//! Three formats, each line one JSON object with no newline in it. `canal-json` is described in `format/canal.rs`; the
//! other two:
//!
//! `debezium-json`, the envelope that consumers of Debezium know:
//! ```json
//! {"before":null,"after":{"id":7,"amount":"5.00"},"source":{"version":"0.1.0","connector":"mysql","name":"shop","ts_ms":1767225600000,"snapshot":"false","db":"shop","table":"orders","gtid":"..:5","file":"binlog.000003","pos":1234},"op":"c","ts_ms":1767225600120,"target":"orders","tick":12}
//! ```
//! `op` is `r` (read by a snapshot), `c`, `u`, `d`; `before` is null where the source gave none; a delete
//! without an image has the key columns in `before`. `source.ts_ms` is the commit at the source,
//! `source.name` the pipeline; `ts_ms` is when the line was made. Ours beyond Debezium's: `target` and `tick`.
//!
//! `plain`:
//! ```json
//! {"tick":12,"table":"orders","op":"upsert","key":{"id":7},"row":{"id":7,"amount":"5.00"}}
//! {"tick":13,"table":"orders","op":"delete","key":{"id":7},"row":null}
//! ```
//!
//! A table without key: `key` is null, `op` is `insert` or `delete`, and a delete has the row that goes in `row`: one
//! of the rows equal to it goes. (In `debezium-json` it is in `before` as ever; an update is two lines, `d` and `c`.)
//! ```json
//! {"tick":14,"table":"log","op":"insert","key":null,"row":{"line":"a"}}
//! {"tick":15,"table":"log","op":"delete","key":null,"row":{"line":"a"}}
//! ```
//!
//! Where the source's log does not hold all columns of an update (`binlog_row_image` MINIMAL or NOBLOB) those that are not in
//! a row keep their values. In `debezium-json` the line is a `u` as any; `before` has what the log has of it, the key at
//! least, or is null while the table is copied: then the row may not be there yet, and comes as a whole (`r`). In `plain`
//! `op` is `update`; `from` is the key that the row had, or null while the table is copied. In both a row that moves to another
//! key is one line, with the old key in front.
//! ```json
//! {"tick":16,"table":"orders","op":"update","key":{"id":8},"from":{"id":7},"row":{"id":8,"amount":"6.00"}}
//! ```
//!
//! A schema change is a line of its own, the same in these two formats, its kind in the words of the flow options
//! `include` and `exclude` (and `fill_column`: `to` takes the values of `from`, in every row; and `reset_column`); `tick` is that of
//! the next change or of the commit, whichever is written first. `reads` of `add_column` and `reset_column` is what the rows that are
//! there have in the column from now on; without it each has a value of its own (`default` says which):
//! ```json
//! {"schema_change":"add_column","table":"orders","column":{"name":"note","type":"varchar(20)","nullable":true,"default":null},"reads":null,"tick":14}
//! ```
//! `resnapshot_table` says that all rows of the table go and those that are there now come again (`r`); where several
//! source tables fill it `only` tells whose: the rows with these values. `truncate_table`, `fill_column` and `reset_column` have
//! `only` in that case too.
//! ```json
//! {"schema_change":"resnapshot_table","table":"orders","source":"shop.orders_1","only":{"shard":"orders_1"},"tick":15}
//! ```
//!
//! Values: integers of all widths, YEAR and BIT as numbers (64 bits: read them with a parser that keeps
//! them); FLOAT and DOUBLE as numbers with the digits that the server prints (FLOAT: the shortest that give
//! the same FLOAT); DECIMAL as a string, digit by digit; DATE, TIME, DATETIME, TIMESTAMP as strings in the
//! server's form, TIMESTAMP in UTC; ENUM and SET as their labels; text as a string; JSON nested as it is;
//! BINARY, BLOB, geometry (SRID, WKB) and VECTOR as base64 (RFC 4648, padded). NULL is null; a column that
//! is not in the image is not in the object.

mod canal;

use crate::default::{as_source, default_value};
use crate::text;
use canal::Canal;
use cdc_core::Row;
use cdc_core::connector::{TargetBatch, TargetChange, TargetOp, TargetSchemaChange, TargetTable};
use cdc_core::event::{Op, Origin};
use cdc_core::schema::Column;
use cdc_core::tick::Tick;
use cdc_core::value::Value;
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The words of the option `format`; the first is the default.
pub(crate) const FORMATS: &[&str] = &["debezium-json", "canal-json", "plain"];

/// Makes lines.
pub(crate) struct Formatter {
    format: Format,
    /// The pipeline's name.
    pub(crate) pipeline: String,
    /// Schema changes that wait for a tick: what stands in front of its number, and what behind.
    waiting: Vec<(Vec<u8>, Vec<u8>)>,
    /// Milliseconds since 1970 UTC.
    pub(crate) now: fn() -> i64,
}

enum Format {
    Debezium,
    Canal(Canal),
    Plain,
}

impl Formatter {
    pub(crate) fn new(format: &str) -> Formatter {
        let format = match format {
            "plain" => Format::Plain,
            "canal-json" => Format::Canal(Canal::default()),
            _ => Format::Debezium,
        };
        Formatter { format, pipeline: String::new(), waiting: Vec::new(), now }
    }

    /// Takes note of the shape that a table has from now on.
    pub(crate) fn prepare(&mut self, table: &Arc<TargetTable>) {
        if let Format::Canal(canal) = &mut self.format {
            canal.prepare(table);
        }
    }

    /// Appends a line per change.
    pub(crate) fn batch(&mut self, out: &mut Vec<u8>, batch: &TargetBatch) {
        if let Some(first) = batch.changes.first() {
            self.schema_changes(out, first.tick);
        }
        if let Format::Canal(canal) = &mut self.format {
            return canal.batch(out, batch, (self.now)());
        }
        let names = Names::new(&batch.table);
        let is_plain = matches!(self.format, Format::Plain);
        let now = if is_plain { 0 } else { (self.now)() };
        // The part of a line that is the same for all changes of a transaction.
        let (mut origin, mut source) = (None, Vec::new());
        for change in &batch.changes {
            if is_plain {
                plain(out, &names, &batch.table, change);
            } else {
                if origin != Some(change.origin) {
                    origin = Some(change.origin);
                    source.clear();
                    self.source(&mut source, &batch.table, batch.origins.get(change.origin as usize));
                }
                debezium(out, &names, change, &source, now);
                push_string(out, &batch.table.name);
                push_tick(out, change.tick);
            }
        }
    }

    /// Appends the member `source`.
    fn source(&self, out: &mut Vec<u8>, table: &TargetTable, origin: Option<&Origin>) {
        let unknown = Origin::default();
        let origin = origin.unwrap_or(&unknown);
        out.extend_from_slice(b",\"source\":{\"version\":\"");
        out.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
        out.extend_from_slice(b"\",\"connector\":\"mysql\",\"name\":");
        push_string(out, &self.pipeline);
        out.extend_from_slice(b",\"ts_ms\":");
        text::push_int(out, origin.timestamp_micros.div_euclid(1000));
        out.extend_from_slice(if origin.snapshot {
            b",\"snapshot\":\"true\""
        } else {
            b",\"snapshot\":\"false\""
        });
        out.extend_from_slice(b",\"db\":");
        push_string(out, &table.schema.id.database);
        out.extend_from_slice(b",\"table\":");
        push_string(out, &table.schema.id.table);
        out.extend_from_slice(b",\"gtid\":");
        if origin.gtid.is_empty() {
            out.extend_from_slice(b"null")
        } else {
            push_string(out, &origin.gtid)
        }
        out.extend_from_slice(b",\"file\":");
        push_string(out, &origin.file);
        out.extend_from_slice(b",\"pos\":");
        text::push_uint(out, origin.offset);
        out.push(b'}');
    }

    /// Keeps a schema change until its tick is known.
    pub(crate) fn schema_change(&mut self, change: &TargetSchemaChange) {
        if let Format::Canal(canal) = &mut self.format {
            self.waiting.push(canal.schema_change(change, (self.now)()));
            return;
        }
        let mut line = describe(change).to_string();
        line.pop(); // the closing brace: the tick follows
        line.push_str(",\"tick\":");
        self.waiting.push((line.into_bytes(), b"}\n".to_vec()));
    }

    /// Appends the schema changes that wait.
    pub(crate) fn schema_changes(&mut self, out: &mut Vec<u8>, tick: Tick) {
        for (head, tail) in self.waiting.drain(..) {
            out.extend_from_slice(&head);
            text::push_uint(out, tick);
            out.extend_from_slice(&tail);
        }
    }

    /// Forgets the schema changes that wait.
    pub(crate) fn rollback(&mut self) {
        self.waiting.clear();
    }
}

/// A line up to the value of `target`.
fn debezium(out: &mut Vec<u8>, names: &Names, change: &TargetChange, source: &[u8], now: i64) {
    out.extend_from_slice(b"{\"before\":");
    match (&change.before, change.op) {
        (Some(before), _) => names.row(out, before),
        (None, TargetOp::Delete) if names.key.is_empty() => names.row(out, &change.key),
        (None, TargetOp::Delete) => names.key(out, &change.key),
        (None, TargetOp::Upsert) => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"after\":");
    match (&change.row, change.op) {
        (Some(row), TargetOp::Upsert) => names.row(out, row),
        _ => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(source);
    out.extend_from_slice(b",\"op\":\"");
    let op = match (change.op, change.source_op) {
        (TargetOp::Delete, _) => Op::Delete,
        // What a deletion at the source writes at a target (a view's row) is an update of that row.
        (TargetOp::Upsert, Op::Delete) => Op::Update,
        (TargetOp::Upsert, op) => op,
    };
    out.extend_from_slice(op.letter().as_bytes());
    out.extend_from_slice(b"\",\"ts_ms\":");
    text::push_int(out, now);
    out.extend_from_slice(b",\"target\":");
}

fn plain(out: &mut Vec<u8>, names: &Names, table: &TargetTable, change: &TargetChange) {
    out.extend_from_slice(b"{\"tick\":");
    text::push_uint(out, change.tick);
    out.extend_from_slice(b",\"table\":");
    push_string(out, &table.name);
    let multiset = table.is_multiset();
    let in_part = change.is_in_part();
    out.extend_from_slice(match change.op {
        TargetOp::Upsert if in_part => b",\"op\":\"update\",\"key\":",
        TargetOp::Upsert if multiset => b",\"op\":\"insert\",\"key\":",
        TargetOp::Upsert => b",\"op\":\"upsert\",\"key\":",
        TargetOp::Delete => b",\"op\":\"delete\",\"key\":",
    });
    if multiset {
        out.extend_from_slice(b"null");
    } else {
        names.key(out, &change.key);
    }
    if in_part {
        out.extend_from_slice(b",\"from\":");
        match &change.before {
            Some(before) => names.key(out, &table.key_of(before)),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b",\"row\":");
    match (&change.row, change.op) {
        (Some(row), TargetOp::Upsert) => names.row(out, row),
        (_, TargetOp::Delete) if multiset => names.row(out, &change.key),
        _ => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}\n");
}

fn push_tick(out: &mut Vec<u8>, tick: Tick) {
    out.extend_from_slice(b",\"tick\":");
    text::push_uint(out, tick);
    out.extend_from_slice(b"}\n");
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The column names of a table as they stand in a line, `"name":`, each with its digits of fraction.
struct Names {
    columns: Vec<(Vec<u8>, u8)>,
    key: Vec<usize>,
}

impl Names {
    fn new(table: &TargetTable) -> Names {
        let name = |c: &Column| {
            let mut text = Vec::with_capacity(c.name.len() + 3);
            push_string(&mut text, &c.name);
            text.push(b':');
            (text, text::fraction_digits(&c.ty))
        };
        Names { columns: table.schema.columns.iter().map(name).collect(), key: table.key.clone() }
    }

    fn row(&self, out: &mut Vec<u8>, row: &Row) {
        object(out, self.columns.iter().zip(row.iter()));
    }

    fn key(&self, out: &mut Vec<u8>, key: &Row) {
        object(out, self.key.iter().filter_map(|i| self.columns.get(*i)).zip(key.iter()));
    }
}

fn object<'a>(out: &mut Vec<u8>, members: impl Iterator<Item = (&'a (Vec<u8>, u8), Value<'a>)>) {
    out.push(b'{');
    for (i, ((name, fsp), value)) in members.filter(|(_, v)| !v.is_absent()).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(name);
        push_json(out, &value, *fsp);
    }
    out.push(b'}');
}

/// Appends a value as JSON.
pub(crate) fn push_json(out: &mut Vec<u8>, value: &Value<'_>, fsp: u8) {
    match value {
        Value::Null | Value::Absent => out.extend_from_slice(b"null"),
        Value::Int(_) | Value::UInt(_) | Value::Year(_) | Value::Bit(_) => text::push_value(out, value, fsp),
        // JSON has no word for these, and the server has no such value.
        Value::Float(v) if !v.is_finite() => out.extend_from_slice(b"null"),
        Value::Double(v) if !v.is_finite() => out.extend_from_slice(b"null"),
        // A write to a Vec cannot fail. `{:e}` is the shortest text, and JSON.
        Value::Float(v) if *v != 0.0 && !(1e-6..1e15).contains(&v.abs()) => drop(write!(out, "{v:e}")),
        Value::Float(v) => drop(write!(out, "{v}")),
        Value::Double(v) => text::push_double(out, *v),
        Value::Decimal(v) | Value::Text(v) => push_string(out, v),
        Value::Enum { label, .. } => push_string(out, label),
        Value::Set { labels, .. } => push_string(out, labels),
        Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Timestamp(_) => {
            out.push(b'"');
            text::push_value(out, value, fsp);
            out.push(b'"');
        }
        Value::Bytes(v) | Value::Geometry(v) | Value::Vector(v) => {
            out.push(b'"');
            push_base64(out, v);
            out.push(b'"');
        }
        // The server's JSON text is nested as it is; a text that is no JSON would spoil the line.
        Value::Json(v) if serde_json::from_str::<&serde_json::value::RawValue>(v).is_err() => {
            push_string(out, v)
        }
        // A newline in JSON text is white space, or it would be escaped.
        Value::Json(v) => {
            out.extend(v.bytes().map(|b| if b == b'\n' || b == b'\r' { b' ' } else { b }));
        }
    }
}

/// Appends a JSON string.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (i, &b) in bytes.iter().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[plain..i]);
        plain = i + 1;
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(b >> 4)],
                HEX[usize::from(b & 15)],
            ]),
        }
    }
    out.extend_from_slice(&bytes[plain..]);
    out.push(b'"');
}

/// Appends bytes as base64 with the alphabet of RFC 4648 section 4, padded.
pub(crate) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            out.push(if i <= chunk.len() { ALPHABET[(word >> (18 - 6 * i) & 63) as usize] } else { b'=' });
        }
    }
}

/// Which rows a change is about, where it is not about all of them.
fn tell_only(line: &mut serde_json::Value, only: &[(Column, Row)]) {
    if only.is_empty() {
        return;
    }
    let member = |(column, value): &(Column, Row)| (column.name.to_string(), to_json(column, &value.get(0)));
    line["only"] = serde_json::Value::Object(only.iter().map(member).collect());
}

/// What rows that are there read in a column, where that can be told: the column's own words say it only for a column of the
/// source, and not where it is NOT NULL there and several tables share it here.
fn tell_reads(line: &mut serde_json::Value, column: &Column, implicit: bool) {
    if let Ok(value) = default_value(&as_source(column, implicit)) {
        line["reads"] = to_json(column, &value);
    }
}

fn to_json(column: &Column, value: &Value<'_>) -> serde_json::Value {
    let mut text = Vec::new();
    push_json(&mut text, value, text::fraction_digits(&column.ty));
    // what was just made is JSON
    serde_json::from_slice(&text).unwrap_or_default()
}

/// A schema change as an object, its kind in the words of `SCHEMA_CHANGE_KINDS`.
fn describe(change: &TargetSchemaChange) -> serde_json::Value {
    fn column(c: &Column) -> serde_json::Value {
        json!({ "name": &*c.name, "type": c.ty.to_string(), "nullable": c.nullable, "default": c.default })
    }
    match change {
        TargetSchemaChange::CreateTable { table } => {
            let key: Vec<&str> =
                table.key.iter().filter_map(|i| table.schema.columns.get(*i)).map(|c| &*c.name).collect();
            let columns: Vec<_> = table.schema.columns.iter().map(column).collect();
            json!({ "schema_change": "create_table", "table": table.name, "key": key, "columns": columns })
        }
        TargetSchemaChange::ChangeKey { table } => {
            let key: Vec<&str> =
                table.key.iter().filter_map(|i| table.schema.columns.get(*i)).map(|c| &*c.name).collect();
            json!({ "schema_change": "change_key", "table": table.name, "key": key })
        }
        TargetSchemaChange::AddColumn { table, column: c, implicit, .. } => {
            let mut line = json!({ "schema_change": "add_column", "table": table, "column": column(c) });
            tell_reads(&mut line, c, *implicit);
            line
        }
        TargetSchemaChange::RenameColumn { table, from, to } => {
            json!({ "schema_change": "rename_column", "table": table, "from": from, "to": to })
        }
        TargetSchemaChange::FillColumn { table, from, to, only, .. } => {
            let mut line = json!({ "schema_change": "fill_column", "table": table, "from": from, "to": to });
            tell_only(&mut line, only);
            line
        }
        TargetSchemaChange::ResetColumn { table, column: c, implicit, only } => {
            let mut line = json!({ "schema_change": "reset_column", "table": table, "column": column(c) });
            tell_reads(&mut line, c, *implicit);
            tell_only(&mut line, only);
            line
        }
        TargetSchemaChange::DropColumn { table, column } => {
            json!({ "schema_change": "drop_column", "table": table, "column": column })
        }
        TargetSchemaChange::AlterColumnType { table, column, ty, .. } => {
            json!({ "schema_change": "alter_column_type", "table": table, "column": column, "type": ty.to_string() })
        }
        TargetSchemaChange::AlterNullability { table, column, nullable } => {
            json!({ "schema_change": "alter_nullability", "table": table, "column": column, "nullable": nullable })
        }
        TargetSchemaChange::AlterColumnDefault { table, column } => {
            json!({ "schema_change": "alter_column_default", "table": table, "column": &*column.name, "default": column.default })
        }
        TargetSchemaChange::AlterComment { table, column, comment } => {
            json!({ "schema_change": "alter_comment", "table": table, "column": column, "comment": comment })
        }
        TargetSchemaChange::TruncateTable { table } => {
            json!({ "schema_change": "truncate_table", "table": table })
        }
        TargetSchemaChange::RemoveRows { table, source, only, again } => {
            let word = if *again { "resnapshot_table" } else { "truncate_table" };
            let mut line = json!({ "schema_change": word, "table": table, "source": source.to_string() });
            tell_only(&mut line, only);
            line
        }
        TargetSchemaChange::DropTable { table } => json!({ "schema_change": "drop_table", "table": table }),
        TargetSchemaChange::RenameTable { from, to } => {
            json!({ "schema_change": "rename_table", "from": from, "to": to })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, ColumnType, IntWidth, TableId, TableSchema};
    use cdc_core::value::{Date, DateTime, Time, Timestamp};

    fn json(value: Value<'_>, fsp: u8) -> String {
        let mut out = Vec::new();
        push_json(&mut out, &value, fsp);
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        text
    }

    #[test]
    fn values_are_encoded_as_documented() {
        let date = Date { year: 2026, month: 1, day: 31 };
        let at = DateTime { date, hour: 1, minute: 2, second: 3, micro: 450_000 };
        for (value, fsp, text) in [
            (Value::Null, 0, "null"),
            (Value::Int(i64::MIN), 0, "-9223372036854775808"),
            (Value::UInt(u64::MAX), 0, "18446744073709551615"),
            (Value::Float(0.1), 0, "0.1"),
            (Value::Float(f32::MAX), 0, "3.4028235e38"),
            (Value::Float(f32::MIN_POSITIVE), 0, "1.1754944e-38"),
            (Value::Double(f64::MAX), 0, "1.7976931348623157e308"),
            (Value::Double(-0.0), 0, "-0"),
            (Value::Double(f64::NAN), 0, "null"),
            (Value::Decimal("-1.50".into()), 0, "\"-1.50\""),
            (Value::Date(date), 0, "\"2026-01-31\""),
            (Value::Time(Time { micros: -10_000 }), 2, "\"-00:00:00.01\""),
            (Value::DateTime(at), 3, "\"2026-01-31 01:02:03.450\""),
            (Value::Timestamp(Timestamp { micros: 1_000_000 }), 0, "\"1970-01-01 00:00:01\""),
            (Value::Year(2026), 0, "2026"),
            (Value::Bit(5), 0, "5"),
            (Value::Enum { index: 1, label: "a\"b".into() }, 0, "\"a\\\"b\""),
            (Value::Set { bits: 3, labels: "a,b".into() }, 0, "\"a,b\""),
            (Value::Text("é\n\u{1}\\🙂\0".into()), 0, "\"é\\n\\u0001\\\\🙂\\u0000\""),
            (Value::Bytes(vec![0, 255, 16, 32].into()), 0, "\"AP8QIA==\""),
            (Value::Geometry(vec![1, 2].into()), 0, "\"AQI=\""),
            (Value::Vector(vec![1, 2, 3].into()), 0, "\"AQID\""),
            (Value::Json("{\"a\": [1.50, null]}".into()), 0, "{\"a\": [1.50, null]}"),
            (Value::Json("[1,\n2]".into()), 0, "[1, 2]"),
            (Value::Json("{".into()), 0, "\"{\""),
        ] {
            assert_eq!(json(value.clone(), fsp), text, "{value:?}");
        }
    }

    fn table() -> Arc<TargetTable> {
        let id = ColumnType::Int { width: IntWidth::Int, unsigned: false };
        let columns = vec![
            Column::new("id", id).not_null(),
            Column::new("at", ColumnType::DateTime { fsp: 1 }),
            Column::new("a \"b\"", ColumnType::VarChar { length: 9, charset: Charset::utf8mb4() }),
        ];
        let schema = TableSchema {
            id: TableId::new("shop", "orders_1"),
            version: 1,
            columns,
            primary_key: vec![0],
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        Arc::new(TargetTable {
            name: "orders".into(),
            schema: Arc::new(schema),
            key: vec![0],
            soft_delete: None,
            told_by: None,
        })
    }

    fn lines(format: &str) -> String {
        let table = table();
        let row = |text: &'static str| {
            Row::pack([Value::Int(7), Value::DateTime(DateTime::default()), Value::Text(text.into())])
        };
        let change = |tick, op, source_op, before, row| TargetChange {
            tick,
            ordinal: 0,
            op,
            source_op,
            key: Row::pack([Value::Int(7)]),
            row,
            before,
            origin: (tick > 1) as u32,
        };
        let origins: Arc<[Origin]> = Arc::new([
            Origin {
                timestamp_micros: 1_500,
                snapshot: true,
                file: "log.1".into(),
                offset: 4,
                gtid: "".into(),
            },
            Origin {
                timestamp_micros: 2_000,
                snapshot: false,
                file: "log.2".into(),
                offset: 9,
                gtid: "u:5".into(),
            },
        ]);
        let minimal = Row::pack([Value::Int(7), Value::Absent, Value::Null]);
        let old = Row::pack([Value::Int(6), Value::Absent, Value::Absent]);
        let changes = vec![
            change(1, TargetOp::Upsert, Op::Read, None, Some(row("x"))),
            change(2, TargetOp::Upsert, Op::Update, Some(row("x")), Some(row("y"))),
            change(3, TargetOp::Delete, Op::Update, None, None),
            change(3, TargetOp::Delete, Op::Delete, Some(minimal.clone()), None),
            change(4, TargetOp::Upsert, Op::Update, Some(old), Some(minimal.clone())),
            change(4, TargetOp::Upsert, Op::Update, None, Some(minimal)),
        ];
        let mut formatter = Formatter::new(format);
        formatter.pipeline = "p".into();
        formatter.now = || 99;
        let mut out = Vec::new();
        formatter.prepare(&table);
        formatter.schema_change(&TargetSchemaChange::AddColumn {
            table: "orders".into(),
            column: table.schema.columns[2].clone(),
            implicit: false,
            keeps_default: false,
        });
        formatter.batch(&mut out, &TargetBatch { table: table.clone(), origins, changes });
        formatter.schema_change(&TargetSchemaChange::TruncateTable { table: "orders".into() });
        formatter.schema_changes(&mut out, 5);
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        text.replace(env!("CARGO_PKG_VERSION"), "V")
    }

    #[test]
    fn debezium_lines() {
        let expected = r#"{"schema_change":"add_column","table":"orders","column":{"name":"a \"b\"","type":"varchar(9)","nullable":true,"default":null},"reads":null,"tick":1}
{"before":null,"after":{"id":7,"at":"0000-00-00 00:00:00.0","a \"b\"":"x"},"source":{"version":"V","connector":"mysql","name":"p","ts_ms":1,"snapshot":"true","db":"shop","table":"orders_1","gtid":null,"file":"log.1","pos":4},"op":"r","ts_ms":99,"target":"orders","tick":1}
{"before":{"id":7,"at":"0000-00-00 00:00:00.0","a \"b\"":"x"},"after":{"id":7,"at":"0000-00-00 00:00:00.0","a \"b\"":"y"},"source":{"version":"V","connector":"mysql","name":"p","ts_ms":2,"snapshot":"false","db":"shop","table":"orders_1","gtid":"u:5","file":"log.2","pos":9},"op":"u","ts_ms":99,"target":"orders","tick":2}
{"before":{"id":7},"after":null,"source":{"version":"V","connector":"mysql","name":"p","ts_ms":2,"snapshot":"false","db":"shop","table":"orders_1","gtid":"u:5","file":"log.2","pos":9},"op":"d","ts_ms":99,"target":"orders","tick":3}
{"before":{"id":7,"a \"b\"":null},"after":null,"source":{"version":"V","connector":"mysql","name":"p","ts_ms":2,"snapshot":"false","db":"shop","table":"orders_1","gtid":"u:5","file":"log.2","pos":9},"op":"d","ts_ms":99,"target":"orders","tick":3}
{"before":{"id":6},"after":{"id":7,"a \"b\"":null},"source":{"version":"V","connector":"mysql","name":"p","ts_ms":2,"snapshot":"false","db":"shop","table":"orders_1","gtid":"u:5","file":"log.2","pos":9},"op":"u","ts_ms":99,"target":"orders","tick":4}
{"before":null,"after":{"id":7,"a \"b\"":null},"source":{"version":"V","connector":"mysql","name":"p","ts_ms":2,"snapshot":"false","db":"shop","table":"orders_1","gtid":"u:5","file":"log.2","pos":9},"op":"u","ts_ms":99,"target":"orders","tick":4}
{"schema_change":"truncate_table","table":"orders","tick":5}
"#;
        assert_eq!(lines("debezium-json"), expected);
    }

    #[test]
    fn canal_lines() {
        let types = r#""mysqlType":{"id":"int","at":"datetime(1)","a \"b\"":"varchar(9)"}"#;
        let sql_types = r#""pkNames":["id"],"sql":"","sqlType":{"id":4,"at":93,"a \"b\"":12}"#;
        let row = |text: &str| format!(r#"{{"id":"7","at":"0000-00-00 00:00:00.0","a \"b\"":"{text}"}}"#);
        let part = r#"{"id":"7","a \"b\"":null}"#;
        let part_types = r#""mysqlType":{"id":"int","a \"b\"":"varchar(9)"}"#;
        let part_sql_types = r#""pkNames":["id"],"sql":"","sqlType":{"id":4,"a \"b\"":12}"#;
        let expected = format!(
            r#"{{"data":null,"database":"shop","es":99,"id":1,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"ALTER TABLE `orders` ADD COLUMN `a \"b\"` varchar(9)","sqlType":null,"table":"orders_1","ts":99,"type":"ALTER","target":"orders"}}
{{"data":[{x}],"database":"shop","es":1,"id":1,"isDdl":false,{types},"old":null,{sql_types},"table":"orders_1","ts":99,"type":"INSERT","target":"orders"}}
{{"data":[{y}],"database":"shop","es":2,"id":2,"isDdl":false,{types},"old":[{{"a \"b\"":"x"}}],{sql_types},"table":"orders_1","ts":99,"type":"UPDATE","target":"orders"}}
{{"data":[{{"id":"7"}}],"database":"shop","es":2,"id":3,"isDdl":false,"mysqlType":{{"id":"int"}},"old":null,"pkNames":["id"],"sql":"","sqlType":{{"id":4}},"table":"orders_1","ts":99,"type":"DELETE","target":"orders"}}
{{"data":[{part}],"database":"shop","es":2,"id":3,"isDdl":false,{part_types},"old":null,{part_sql_types},"table":"orders_1","ts":99,"type":"DELETE","target":"orders"}}
{{"data":[{part}],"database":"shop","es":2,"id":4,"isDdl":false,{part_types},"old":[{{"id":"6"}}],{part_sql_types},"table":"orders_1","ts":99,"type":"UPDATE","target":"orders"}}
{{"data":[{part}],"database":"shop","es":2,"id":4,"isDdl":false,{part_types},"old":[{{}}],{part_sql_types},"table":"orders_1","ts":99,"type":"UPDATE","target":"orders"}}
{{"data":null,"database":"shop","es":99,"id":5,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"TRUNCATE TABLE `orders`","sqlType":null,"table":"orders_1","ts":99,"type":"TRUNCATE","target":"orders"}}
"#,
            x = row("x"),
            y = row("y"),
        );
        assert_eq!(lines("canal-json"), expected);
    }

    #[test]
    fn plain_lines() {
        let expected = r#"{"schema_change":"add_column","table":"orders","column":{"name":"a \"b\"","type":"varchar(9)","nullable":true,"default":null},"reads":null,"tick":1}
{"tick":1,"table":"orders","op":"upsert","key":{"id":7},"row":{"id":7,"at":"0000-00-00 00:00:00.0","a \"b\"":"x"}}
{"tick":2,"table":"orders","op":"upsert","key":{"id":7},"row":{"id":7,"at":"0000-00-00 00:00:00.0","a \"b\"":"y"}}
{"tick":3,"table":"orders","op":"delete","key":{"id":7},"row":null}
{"tick":3,"table":"orders","op":"delete","key":{"id":7},"row":null}
{"tick":4,"table":"orders","op":"update","key":{"id":7},"from":{"id":6},"row":{"id":7,"a \"b\"":null}}
{"tick":4,"table":"orders","op":"update","key":{"id":7},"from":null,"row":{"id":7,"a \"b\"":null}}
{"schema_change":"truncate_table","table":"orders","tick":5}
"#;
        assert_eq!(lines("plain"), expected);
    }

    /// A column is filled and reset, in every row and in those of one of several tables.
    fn columns_of_rows(format: &str) -> Vec<String> {
        let shard = Column::new("shard", ColumnType::VarChar { length: 9, charset: Charset::utf8mb4() });
        let of_one = || vec![(shard.clone(), Row::pack([Value::Text("it's".into())]))];
        let int = || Column::new("n", ColumnType::Int { width: IntWidth::Int, unsigned: false });
        let fill = |only| TargetSchemaChange::FillColumn {
            table: "orders".into(),
            from: "a".into(),
            to: "b".into(),
            was: None,
            only,
        };
        let reset = |column, implicit, only| TargetSchemaChange::ResetColumn {
            table: "orders".into(),
            column,
            implicit,
            only,
        };
        let deleted = Column { default: Some("1".into()), ..int().not_null() };
        let mut formatter = Formatter::new(format);
        formatter.now = || 99;
        formatter.prepare(&table());
        for change in [
            fill(Vec::new()),
            fill(of_one()),
            reset(deleted, false, Vec::new()),
            reset(int(), true, of_one()),
            reset(int().not_null(), false, of_one()),
            reset(int(), false, Vec::new()),
        ] {
            formatter.schema_change(&change);
        }
        let mut out = Vec::new();
        formatter.schema_changes(&mut out, 5);
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_of_columns_that_are_filled_and_reset() {
        let column = |nullable: bool, default: &str| {
            format!(r#""column":{{"name":"n","type":"int","nullable":{nullable},"default":{default}}}"#)
        };
        let fill = r#"{"schema_change":"fill_column","table":"orders","from":"a","to":"b""#;
        let reset = r#"{"schema_change":"reset_column","table":"orders","#;
        let expected = [
            format!(r#"{fill},"tick":5}}"#),
            format!(r#"{fill},"only":{{"shard":"it's"}},"tick":5}}"#),
            format!(r#"{reset}{},"reads":1,"tick":5}}"#, column(false, r#""1""#)),
            format!(r#"{reset}{},"reads":0,"only":{{"shard":"it's"}},"tick":5}}"#, column(true, "null")),
            format!(r#"{reset}{},"reads":0,"only":{{"shard":"it's"}},"tick":5}}"#, column(false, "null")),
            format!(r#"{reset}{},"reads":null,"tick":5}}"#, column(true, "null")),
        ];
        assert_eq!(columns_of_rows("plain"), expected);
        assert_eq!(columns_of_rows("debezium-json"), expected);
        let statements = [
            "UPDATE `orders` SET `b` = `a`",
            "UPDATE `orders` SET `b` = `a` WHERE `shard` <=> 'it''s'",
            "UPDATE `orders` SET `n` = 1",
            "UPDATE `orders` SET `n` = '0' WHERE `shard` <=> 'it''s'",
            "UPDATE `orders` SET `n` = '0' WHERE `shard` <=> 'it''s'",
            "UPDATE `orders` SET `n` = NULL",
        ];
        let line = |sql: &&str| {
            format!(
                r#"{{"data":null,"database":"shop","es":99,"id":5,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"{sql}","sqlType":null,"table":"orders_1","ts":99,"type":"QUERY","target":"orders"}}"#
            )
        };
        assert_eq!(columns_of_rows("canal-json"), statements.iter().map(line).collect::<Vec<_>>());
    }
}
