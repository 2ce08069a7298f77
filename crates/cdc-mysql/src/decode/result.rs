//! The snapshot's way: values of the binary protocol to packed rows.
//!
//! The session must have `character_set_results = NULL` (text comes in the bytes of the column's own
//! character set, which the same code decodes as in the log) and `time_zone = '+00:00'`. ENUM and SET are
//! selected as numbers. Other than that, each column is selected as it is, by name: `SELECT *` would shift
//! under a DDL, and leaves out invisible columns, which the log has.

use super::charset::{self, Codec};
use super::{Flaw, address, bit, charset_unsupported, enum_set, geometry, in_key, number, temporal, text};
use cdc_core::diagnostic::codes;
use cdc_core::error::{Error, Result};
use cdc_core::row::{Row, RowBuilder};
use cdc_core::schema::{ColumnType, TableSchema};
use mysql_async::Value;
use std::sync::Arc;

/// Decodes the rows of `SELECT` [`select_list`](ResultDecoder::select_list) of one table in one shape of it.
#[derive(Debug, Clone)]
pub struct ResultDecoder {
    schema: Arc<TableSchema>,
    /// Of each column: how its text is read.
    codecs: Vec<Codec>,
}

impl ResultDecoder {
    /// A decoder for this table; refused if a column has a character set whose table has not
    /// been read ([`crate::charsets::ensure`]).
    pub fn new(schema: &Arc<TableSchema>) -> Result<ResultDecoder> {
        let codecs = schema
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| match &column.ty {
                ColumnType::Char { charset, .. }
                | ColumnType::VarChar { charset, .. }
                | ColumnType::Text { charset, .. } => charset::charset(&charset.name)
                    .and_then(|info| info.codec())
                    .map(|codec| if in_key(schema, i) { codec.in_key() } else { codec })
                    .ok_or_else(|| charset_unsupported(&schema.id, column, &charset.name)),
                _ => Ok(Codec::Utf8mb4),
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(ResultDecoder { schema: Arc::clone(schema), codecs })
    }

    /// The structure that it decodes with.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// What stands between SELECT and FROM: every column of the table in its order, quoted, without the
    /// table's name. A name of a result column is that of its column.
    pub fn select_list(&self) -> String {
        let mut list = String::new();
        for column in &self.schema.columns {
            if !list.is_empty() {
                list.push_str(", ");
            }
            let name = format!("`{}`", column.name.replace('`', "``"));
            match column.ty {
                ColumnType::Enum { .. } | ColumnType::Set { .. } => {
                    list.push_str(&format!("CAST({name} AS UNSIGNED) AS {name}"));
                }
                _ => list.push_str(&name),
            }
        }
        list
    }

    /// The row of the values that the server gave for [`select_list`](ResultDecoder::select_list). What
    /// `builder` held before is dropped.
    pub fn decode<'v>(
        &self,
        builder: &mut RowBuilder,
        values: impl IntoIterator<Item = &'v Value>,
    ) -> Result<Row> {
        builder.clear();
        let mut buffers = Buffers::default();
        let mut values = values.into_iter();
        let mut given = 0;
        for (i, (column, codec)) in self.schema.columns.iter().zip(&self.codecs).enumerate() {
            let Some(value) = values.next() else { break };
            given += 1;
            push(value, &column.ty, *codec, &mut buffers, builder)
                .map_err(|flaw| flaw.in_result(&self.schema, i))?;
        }
        let extra = values.count();
        if given < self.schema.columns.len() || extra > 0 {
            return Err(Error::definite(
                codes::STRUCTURE_DIFFERS,
                format!(
                    "table \"{}\" gave {} values, but has {} columns in the known structure",
                    self.schema.id,
                    given + extra,
                    self.schema.columns.len()
                ),
            ));
        }
        Ok(builder.finish())
    }
}

/// For what must be put together; neither allocates before it is used.
#[derive(Default)]
struct Buffers {
    text: String,
    bytes: Vec<u8>,
}

fn push(
    value: &Value,
    ty: &ColumnType,
    codec: Codec,
    buffers: &mut Buffers,
    out: &mut RowBuilder,
) -> Result<(), Flaw> {
    match (ty, value) {
        (_, Value::NULL) => out.push_null(),
        (ColumnType::Int { unsigned: false, .. }, Value::Int(v)) => out.push_int(*v),
        (ColumnType::Int { unsigned: true, .. }, Value::UInt(v)) => out.push_uint(*v),
        // the driver has one integer kind for both signs where the number fits
        (ColumnType::Int { unsigned, .. }, _) => match (integer(value)?, unsigned) {
            (v, false) => out.push_int(i64::try_from(v).map_err(|_| unexpected(ty, value))?),
            (v, true) => out.push_uint(u64::try_from(v).map_err(|_| unexpected(ty, value))?),
        },
        (ColumnType::Float { .. }, Value::Float(v)) => out.push_float(*v),
        (ColumnType::Double { .. }, Value::Double(v)) => out.push_double(*v),
        (ColumnType::Decimal { .. }, Value::Bytes(bytes)) => {
            number::decimal_from_result(bytes, &mut buffers.text, out)?;
        }
        (ColumnType::Year, _) => number::year_from_result(integer(value)?, out)?,
        (ColumnType::Bit { .. }, Value::Bytes(bytes)) => bit::from_result(bytes, out)?,
        (ColumnType::Date, Value::Date(year, month, day, ..)) => {
            temporal::date_from_result(*year, *month, *day, out)?;
        }
        (ColumnType::Time { .. }, Value::Time(negative, days, h, m, s, us)) => {
            temporal::time_from_result((*negative, *days, *h, *m, *s, *us), out)?;
        }
        (ColumnType::DateTime { .. }, Value::Date(y, mo, d, h, mi, s, us)) => {
            out.push_datetime(temporal::digits_from_result((*y, *mo, *d, *h, *mi, *s, *us))?);
        }
        (ColumnType::Timestamp { .. }, Value::Date(y, mo, d, h, mi, s, us)) => {
            let digits = temporal::digits_from_result((*y, *mo, *d, *h, *mi, *s, *us))?;
            temporal::timestamp_from_result(digits, out)?;
        }
        (ColumnType::Char { .. }, Value::Bytes(bytes)) => text::char(bytes, codec, &mut buffers.text, out)?,
        (ColumnType::VarChar { .. } | ColumnType::Text { .. }, Value::Bytes(bytes)) => {
            text::text(bytes, codec, &mut buffers.text, out)?;
        }
        (ColumnType::Binary { length }, Value::Bytes(bytes)) => {
            text::binary(bytes, *length, &mut buffers.bytes, out)?;
        }
        (ColumnType::VarBinary { .. } | ColumnType::Blob { .. }, Value::Bytes(bytes)) => {
            text::bytes(bytes, out);
        }
        (ColumnType::Enum { labels, .. }, Value::Int(_) | Value::UInt(_)) => {
            let index = u64::try_from(integer(value)?).map_err(|_| unexpected(ty, value))?;
            enum_set::push_enum(index, labels, out)?;
        }
        (ColumnType::Set { labels, .. }, Value::Int(_) | Value::UInt(_)) => {
            let bits = u64::try_from(integer(value)?).map_err(|_| unexpected(ty, value))?;
            enum_set::push_set(bits, labels, &mut buffers.text, out)?;
        }
        (ColumnType::Json, Value::Bytes(bytes)) => {
            out.push_json(Codec::Utf8mb4.decode(bytes, &mut buffers.text)?);
        }
        (ColumnType::Geometry { .. }, Value::Bytes(bytes)) => geometry::geometry(bytes, out),
        (ColumnType::Vector { .. }, Value::Bytes(bytes)) => geometry::vector(bytes, out)?,
        (ColumnType::Uuid | ColumnType::Inet4 | ColumnType::Inet6, Value::Bytes(bytes)) => {
            address::from_result(bytes, out)?;
        }
        _ => return Err(unexpected(ty, value)),
    }
    Ok(())
}

fn integer(value: &Value) -> Result<i128, Flaw> {
    match value {
        Value::Int(v) => Ok((*v).into()),
        Value::UInt(v) => Ok((*v).into()),
        _ => Err(Flaw::undecodable(format!("the server gave {} for an integer", kind(value)))),
    }
}

#[cold]
fn unexpected(ty: &ColumnType, value: &Value) -> Flaw {
    Flaw::undecodable(format!("the server gave {} for a value of type {ty}", kind(value)))
}

fn kind(value: &Value) -> String {
    match value {
        Value::NULL => "NULL".to_owned(),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
        Value::Int(v) => format!("the integer {v}"),
        Value::UInt(v) => format!("the integer {v}"),
        Value::Float(v) => format!("the float {v}"),
        Value::Double(v) => format!("the double {v}"),
        Value::Date(..) => "a date".to_owned(),
        Value::Time(..) => "a time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, Column, IntWidth, TableId};
    use cdc_core::value;

    fn schema(columns: Vec<Column>) -> Arc<TableSchema> {
        Arc::new(TableSchema {
            id: TableId::new("shop", "t"),
            version: 1,
            columns,
            primary_key: vec![0],
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        })
    }

    fn id() -> Column {
        Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }).not_null()
    }

    #[test]
    fn columns_are_selected_by_name_and_enums_by_number() {
        let labels: Arc<[Arc<str>]> = ["a".into(), "b".into()].into();
        let table = schema(vec![
            id(),
            Column::new("odd `name", ColumnType::Enum { labels, charset: Charset::utf8mb4() }),
        ]);
        let decoder = ResultDecoder::new(&table).unwrap();
        assert_eq!(decoder.select_list(), "`id`, CAST(`odd ``name` AS UNSIGNED) AS `odd ``name`");
        let row = decoder.decode(&mut RowBuilder::new(), &[Value::Int(-1), Value::UInt(2)]).unwrap();
        assert_eq!(
            row.iter().collect::<Vec<_>>(),
            [value::Value::Int(-1), value::Value::Enum { index: 2, label: "b".into() }]
        );
    }

    #[test]
    fn identifiers_and_addresses_are_text() {
        let columns = [("u", ColumnType::Uuid), ("a", ColumnType::Inet4), ("b", ColumnType::Inet6)];
        let columns = columns.map(|(name, ty)| Column::new(name, ty));
        let decoder = ResultDecoder::new(&schema(columns.to_vec())).unwrap();
        let texts = ["00000000-0000-0000-0000-000000000000", "10.1.0.0", "::ffff:10.0.0.1"];
        let values = texts.map(|text| Value::Bytes(text.into()));
        let row = decoder.decode(&mut RowBuilder::new(), &values).unwrap();
        assert_eq!(row.iter().collect::<Vec<_>>(), texts.map(|text| value::Value::Text(text.into())));
        let bytes = Value::Bytes(vec![0xff; 16]);
        let error = decoder.decode(&mut RowBuilder::new(), &[bytes]).unwrap_err();
        assert_eq!(error.code(), codes::VALUE_UNDECODABLE);
    }

    #[test]
    fn errors_name_table_and_column() {
        let decoder = ResultDecoder::new(&schema(vec![id()])).unwrap();
        let mut builder = RowBuilder::new();
        let error = decoder.decode(&mut builder, &[Value::Bytes(vec![1])]).unwrap_err();
        assert_eq!(error.code(), codes::VALUE_UNDECODABLE);
        assert!(error.to_string().contains("column \"id\" of table \"shop.t\""), "{error}");
        let error = decoder.decode(&mut builder, &[Value::Int(1), Value::Int(2)]).unwrap_err();
        assert_eq!(error.code(), codes::STRUCTURE_DIFFERS);
        let error = decoder.decode(&mut builder, &[]).unwrap_err();
        assert_eq!(error.code(), codes::STRUCTURE_DIFFERS);
        // a failed row leaves nothing behind
        assert_eq!(decoder.decode(&mut builder, &[Value::Int(7)]).unwrap().len(), 1);
    }

    #[test]
    fn a_character_set_whose_table_is_not_there_is_refused() {
        let gbk = Charset::new("gbk", "gbk_chinese_ci");
        let table = schema(vec![id(), Column::new("g", ColumnType::VarChar { length: 5, charset: gbk })]);
        let error = ResultDecoder::new(&table).unwrap_err();
        assert_eq!(error.code(), codes::CHARSET_UNSUPPORTED);
        assert!(error.to_string().contains("\"gbk\""), "{error}");
    }
}
