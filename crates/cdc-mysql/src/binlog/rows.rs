//! WRITE_ROWS, UPDATE_ROWS and DELETE_ROWS: row images to packed rows.
//!
//! MySQL source documentation, `Rows_event` in `rows_event.h`. An event is a list of changes of one table;
//! each change has one row image or two. An image is a bitmap of NULLs over *the columns that are in the
//! image*, then the values of those that are not NULL, one after the other with no separators. Nothing in it
//! says where it ends, so the layout must be known (the table map) and so must the meaning (our structure).
//!
//! This is the hot path of a running pipeline. What depends on the table alone is decided once, in
//! [`RowDecoder::new`]: each column becomes one step, and a row is a walk over the steps into a buffer that
//! serves all rows of an event. The finished [`Row`] is the only allocation of a row.

use super::table_map::{TableMap, WireType};
use crate::decode::address::{self, Address};
use crate::decode::bytes::{Bytes, LengthWidth};
use crate::decode::charset::{self, Codec};
use crate::decode::compressed::{self, decompress_block};
use crate::decode::number::DecimalLayout;
use crate::decode::{self, Flaw, bit, enum_set, geometry, in_key, json, number, temporal, text};
use cdc_core::diagnostic::codes;
use cdc_core::error::{Error, Result};
use cdc_core::row::{Encoded, Row, RowBuilder};
use cdc_core::schema::{ColumnType, IntWidth, TableSchema};
use std::sync::Arc;

/// What a row event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsKind {
    /// Rows come: each change has an image after it.
    Write,
    /// Rows change: each change has an image before and one after it.
    Update,
    /// Rows go: each change has an image before it.
    Delete,
}

/// A row event, its rows not yet decoded.
#[derive(Debug, Clone, Copy)]
pub struct RowsEvent<'a> {
    /// What it does.
    pub kind: RowsKind,
    table_id: u64,
    /// Its flags. Others than the end of the statement come and go with versions (0x0010 on every event of
    /// MySQL 9.7): mask them, never compare them.
    pub flags: u16,
    /// The columns of the table.
    pub columns: usize,
    /// Of two images the first; of one image that one.
    first: Bitmap<'a>,
    /// Of two images the second.
    second: Option<Bitmap<'a>>,
    /// A JSON value after may be the difference to the one before (PARTIAL_UPDATE_ROWS).
    differences: bool,
    rows: &'a [u8],
}

/// The flag of the last row event of a statement.
const STMT_END: u16 = 0x0001;

/// The table of a row event that carries no rows and only ends a statement (source documentation,
/// `Rows_event`: "dummy event").
const DUMMY_TABLE: u64 = 0x00ff_ffff;

mod event_type {
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    /// The first of six.
    pub const COMPRESSED: u8 = 166;
}

#[cold]
fn corrupt(flaw: Flaw) -> Error {
    let why = match flaw {
        Flaw::Truncated => "it ends too early".into(),
        Flaw::Undecodable(why) => why,
    };
    Error::definite(codes::LOG_CORRUPT, format!("the log holds a row event that cannot be read: {why}"))
}

impl<'a> RowsEvent<'a> {
    /// Reads an event's body: what is between its header of 19 bytes and its checksum.
    pub fn parse(event_type: u8, body: &'a [u8]) -> Result<RowsEvent<'a>> {
        use event_type::*;
        let (kind, second_version) = match event_type {
            WRITE_ROWS_V1 => (RowsKind::Write, false),
            UPDATE_ROWS_V1 => (RowsKind::Update, false),
            DELETE_ROWS_V1 => (RowsKind::Delete, false),
            WRITE_ROWS => (RowsKind::Write, true),
            UPDATE_ROWS | PARTIAL_UPDATE_ROWS => (RowsKind::Update, true),
            DELETE_ROWS => (RowsKind::Delete, true),
            _ => {
                return Err(Error::definite(
                    codes::LOG_EVENT_UNKNOWN,
                    format!("event type {event_type} is not a row event that is understood"),
                ));
            }
        };
        let event = RowsEvent::read(kind, second_version, body).map_err(corrupt)?;
        Ok(RowsEvent { differences: event_type == PARTIAL_UPDATE_ROWS, ..event })
    }

    fn read(kind: RowsKind, second_version: bool, body: &'a [u8]) -> Result<RowsEvent<'a>, Flaw> {
        let mut input = Bytes(body);
        let (table_id, flags) = (input.u48()?, input.u16()?);
        if second_version {
            // The length counts itself. What follows (the NDB engine's information, partition numbers) does
            // not change what the rows are.
            let extra = usize::from(input.u16()?);
            let extra =
                extra.checked_sub(2).ok_or_else(|| Flaw::undecodable("its extra data has no length"))?;
            input.take(extra)?;
        }
        let columns = input.lenenc_usize()?;
        let first = Bitmap::read(&mut input, columns)?;
        let second = match kind {
            RowsKind::Update => Some(Bitmap::read(&mut input, columns)?),
            _ => None,
        };
        Ok(RowsEvent { kind, table_id, flags, columns, first, second, differences: false, rows: input.0 })
    }

    /// The number of its table, as a TABLE_MAP before it says.
    pub fn table_id(&self) -> u64 {
        self.table_id
    }

    /// Does it belong to no table, and only end its statement?
    pub fn is_dummy(&self) -> bool {
        self.table_id == DUMMY_TABLE
    }

    /// Is it the last row event of its statement? The table maps before it end there too.
    pub fn is_statement_end(&self) -> bool {
        self.flags & STMT_END != 0
    }

    /// Do its images hold all columns (`binlog_row_image = FULL`)?
    pub fn has_all_columns(&self) -> bool {
        self.first.all && self.second.is_none_or(|second| second.all)
    }

    /// Does it have rows of a table, of which it holds no column?
    fn has_no_columns(&self) -> bool {
        self.columns > 0 && self.first.present == 0 && self.second.is_none_or(|second| second.present == 0)
    }

    /// Do its images leave out nothing but generated columns? MariaDB 11.8 leaves them out of the images of
    /// every UPDATE, DELETE and REPLACE, under `binlog_row_image = FULL` too, STORED ones and those of keys
    /// among them (measured on 11.8.9; 10.11 has them).
    pub fn lacks_only_generated(&self, schema: &TableSchema) -> bool {
        let whole = |image: &Bitmap<'_>| {
            let columns = schema.columns.iter().enumerate();
            columns.into_iter().all(|(i, column)| bit_at(image.bits, i) || column.generated.is_some())
        };
        !self.has_all_columns()
            && self.columns == schema.columns.len()
            && whole(&self.first)
            && self.second.is_none_or(|second| whole(&second))
    }

    /// Is each column that its images after lack the same as in the image before, which is whole? MariaDB's
    /// `binlog_row_image = FULL_NODUP`: an image after holds what the statement set, and the server's own
    /// changes beside it (triggers, ON UPDATE). The rows are then given out whole.
    ///
    /// A generated column that is left out may have changed with the others: images without one stay partial.
    /// So do images before that are not whole (MINIMAL, NOBLOB); a MINIMAL one of a table without a key is.
    pub fn after_is_completed_by_before(&self, schema: &TableSchema) -> bool {
        let Some(second) = self.second else { return false };
        self.first.all
            && !second.all
            && self.columns == schema.columns.len()
            && schema
                .columns
                .iter()
                .enumerate()
                .all(|(i, column)| bit_at(second.bits, i) || column.generated.is_none())
    }

    /// The bytes of its rows, by which to count and to budget.
    pub fn rows_len(&self) -> usize {
        self.rows.len()
    }
}

/// A row event that MariaDB has compressed (`log_bin_compress`), as the plain event that it stands for: its kind and
/// body. `None` for one that is plain.
///
/// # Errors
/// `LOG_CORRUPT`.
pub fn decompress(event_type: u8, body: &[u8]) -> Result<Option<(u8, Vec<u8>)>> {
    use event_type::*;
    // in the order of their numbers: v1, then v2
    const PLAIN: [u8; 6] =
        [WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1, WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS];
    let Some(&plain) = event_type.checked_sub(COMPRESSED).and_then(|i| PLAIN.get(usize::from(i))) else {
        return Ok(None);
    };
    let event = RowsEvent::parse(plain, body)?;
    let head = body.len() - event.rows.len();
    let rows = decompress_block(event.rows).map_err(corrupt)?;
    Ok(Some((plain, [&body[..head], &rows].concat())))
}

/// Which columns an image holds.
#[derive(Debug, Clone, Copy)]
struct Bitmap<'a> {
    bits: &'a [u8],
    present: usize,
    all: bool,
}

impl<'a> Bitmap<'a> {
    fn read(input: &mut Bytes<'a>, columns: usize) -> Result<Bitmap<'a>, Flaw> {
        let bits = input.take(columns.div_ceil(8))?;
        // bits past the last column are not defined
        let whole = bits.get(..columns / 8).unwrap_or_default();
        let tail = bits.get(columns / 8).map_or(0, |byte| byte & ((1 << (columns % 8)) - 1));
        let present =
            whole.iter().map(|byte| byte.count_ones()).sum::<u32>() as usize + tail.count_ones() as usize;
        Ok(Bitmap { bits, present, all: present == columns })
    }
}

/// Bit `n` of these bytes, from the lowest bit of the first.
#[inline]
fn bit_at(bytes: &[u8], n: usize) -> bool {
    bytes.get(n / 8).is_some_and(|byte| byte >> (n % 8) & 1 != 0)
}

/// One change: the row before it (UPDATE, DELETE) and the row after it (WRITE, UPDATE).
pub type Change = (Option<Row>, Option<Row>);

/// Decodes the rows of one table in one shape of it.
#[derive(Debug, Clone)]
pub struct RowDecoder {
    schema: Arc<TableSchema>,
    steps: Vec<Step>,
    /// Columns of type JSON.
    documents: usize,
}

/// What the rows of an event are put together in.
#[derive(Debug)]
struct Buffers {
    builder: RowBuilder,
    text: String,
    bytes: Vec<u8>,
}

/// How a column is read.
#[derive(Debug, Clone)]
enum Step {
    Int {
        width: IntWidth,
        unsigned: bool,
    },
    Decimal(DecimalLayout),
    Float {
        /// -0 reads as 0.
        plain_zero: bool,
    },
    Double,
    Year,
    Date,
    Time {
        fsp: u8,
    },
    DateTime {
        fsp: u8,
    },
    Timestamp {
        fsp: u8,
    },
    Time2 {
        fsp: u8,
    },
    DateTime2 {
        fsp: u8,
    },
    Timestamp2 {
        fsp: u8,
    },
    Char {
        width: LengthWidth,
        codec: Codec,
    },
    Text {
        width: LengthWidth,
        codec: Codec,
    },
    Binary {
        width: LengthWidth,
        length: u32,
    },
    Bytes {
        width: LengthWidth,
    },
    Bit {
        bytes: usize,
    },
    Enum {
        bytes: usize,
        labels: Arc<[Arc<str>]>,
    },
    Set {
        bytes: usize,
        labels: Arc<[Arc<str>]>,
    },
    Json {
        width: LengthWidth,
    },
    Geometry {
        width: LengthWidth,
    },
    Vector {
        width: LengthWidth,
    },
    TextCompressed {
        width: LengthWidth,
        codec: Codec,
    },
    BytesCompressed {
        width: LengthWidth,
    },
    /// One byte of length, as for any string of so few.
    Address(Address),
}

impl RowDecoder {
    /// A decoder for the rows behind this table map, which `schema` describes; checked against each other.
    pub fn new(map: &TableMap, schema: &Arc<TableSchema>) -> Result<RowDecoder> {
        map.check(schema)?;
        let steps = map
            .columns
            .iter()
            .zip(&schema.columns)
            .enumerate()
            .map(|(i, (wire, column))| {
                if let Some(step) = step(wire.ty, &column.ty, in_key(schema, i)) {
                    return Ok(step);
                }
                // what `check` lets pass and is not read: a character set whose table is not there
                match column.ty.charset() {
                    Some(charset) => Err(decode::charset_unsupported(&schema.id, column, &charset.name)),
                    None => Err(Error::definite(
                        codes::TYPE_UNSUPPORTED,
                        format!(
                            "column \"{}\" of table \"{}\" has the type {} as {} in the log, which is not read",
                            column.name, schema.id, column.ty, wire.ty
                        ),
                    )),
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let documents = steps.iter().filter(|step| matches!(step, Step::Json { .. })).count();
        Ok(RowDecoder { schema: Arc::clone(schema), steps, documents })
    }

    /// The same, for MariaDB: its FLOAT columns hold -0, and each SELECT shows 0 (measured on 10.11 and 11.8). The log's
    /// value has to be the SELECT's.
    #[must_use]
    pub fn with_plain_zeros(mut self) -> RowDecoder {
        for step in &mut self.steps {
            if let Step::Float { plain_zero } = step {
                *plain_zero = true;
            }
        }
        self
    }

    /// The structure that it decodes with.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The changes of an event, in its order. Ends after the first error.
    pub fn rows<'d, 'e>(&'d self, event: &RowsEvent<'e>) -> RowsIter<'d, 'e> {
        // A row is longer packed than on the wire, by the tags and by integers of 8 bytes. The guess saves
        // the steps by which the buffer would grow, and is bounded for a large event of small rows.
        let guess = (2 * event.rows.len() + 16).min(4096);
        let buffers =
            Buffers { builder: RowBuilder::with_capacity(guess), text: String::new(), bytes: Vec::new() };
        let completed = event.after_is_completed_by_before(&self.schema);
        RowsIter {
            decoder: self,
            event: *event,
            completed,
            rest: Bytes(event.rows),
            buffers,
            row: 0,
            differs: None,
            ended: false,
        }
    }

    /// Do the rows of this event come out whole: the images hold all columns, or the one before completes the
    /// one after?
    pub fn gives_whole_rows(&self, event: &RowsEvent<'_>) -> bool {
        event.has_all_columns() || (!event.differences && event.after_is_completed_by_before(&self.schema))
    }

    /// One image; what it does not hold is that of `completed_by`. A flaw comes with the index of its column, or the number of columns if it is in the bitmap
    /// of NULLs.
    #[inline]
    fn image(
        &self,
        input: &mut Bytes<'_>,
        present: &Bitmap<'_>,
        completed_by: Option<&Row>,
        buffers: &mut Buffers,
    ) -> Result<Row, (Flaw, usize)> {
        buffers.builder.clear();
        if present.all {
            self.full_image(input, buffers)?;
        } else {
            self.partial_image(input, present, completed_by, buffers)?;
        }
        Ok(buffers.builder.finish())
    }

    #[inline]
    fn full_image(&self, input: &mut Bytes<'_>, buffers: &mut Buffers) -> Result<(), (Flaw, usize)> {
        let columns = self.steps.len();
        let nulls = input.take(columns.div_ceil(8)).map_err(|flaw| (flaw, columns))?;
        for (i, step) in self.steps.iter().enumerate() {
            if bit_at(nulls, i) {
                buffers.builder.push_null();
            } else {
                step.run(input, buffers).map_err(|flaw| (flaw, i))?;
            }
        }
        Ok(())
    }

    fn partial_image(
        &self,
        input: &mut Bytes<'_>,
        present: &Bitmap<'_>,
        completed_by: Option<&Row>,
        buffers: &mut Buffers,
    ) -> Result<(), (Flaw, usize)> {
        let columns = self.steps.len();
        let nulls = input.take(present.present.div_ceil(8)).map_err(|flaw| (flaw, columns))?;
        let mut other = completed_by.map(Row::iter);
        let mut null = 0;
        for (i, step) in self.steps.iter().enumerate() {
            let unchanged = other.as_mut().and_then(|row| row.next_encoded());
            if !bit_at(present.bits, i) {
                match unchanged {
                    Some(value) => buffers.builder.push_encoded(value),
                    None => buffers.builder.push_absent(),
                }
                continue;
            }
            if bit_at(nulls, null) {
                buffers.builder.push_null();
            } else {
                step.run(input, buffers).map_err(|flaw| (flaw, i))?;
            }
            null += 1;
        }
        Ok(())
    }
}

/// The documents of an image before, by column; `None` for SQL NULL.
type Documents<'e> = Vec<(usize, Option<&'e [u8]>)>;

impl RowDecoder {
    /// The image before of an event whose JSON values after may be differences to those before.
    fn image_with_documents<'e>(
        &self,
        input: &mut Bytes<'e>,
        present: &Bitmap<'_>,
        documents: &mut Documents<'e>,
        buffers: &mut Buffers,
    ) -> Result<Row, (Flaw, usize)> {
        buffers.builder.clear();
        documents.clear();
        let nulls = input.take(present.present.div_ceil(8)).map_err(|flaw| (flaw, self.steps.len()))?;
        let mut null = 0;
        for (i, step) in self.steps.iter().enumerate() {
            if !bit_at(present.bits, i) {
                buffers.builder.push_absent();
                continue;
            }
            let is_null = bit_at(nulls, null);
            null += 1;
            if let Step::Json { width } = step {
                let document = if is_null {
                    None
                } else {
                    // read once as a whole, and again as a value
                    Some(Bytes(input.0).sized(*width).map_err(|flaw| (flaw, i))?)
                };
                documents.push((i, document));
            }
            if is_null {
                buffers.builder.push_null();
            } else {
                step.run(input, buffers).map_err(|flaw| (flaw, i))?;
            }
        }
        Ok(buffers.builder.finish())
    }

    /// The image after of such an event, and a column whose value is the difference to a document that the image before
    /// does not hold; that one is absent. MySQL source documentation, `Rows_event`: in front of the NULLs stand the
    /// value options, and if they say so a bit for each JSON column of the table, in the image or not.
    fn image_of_differences(
        &self,
        input: &mut Bytes<'_>,
        present: &Bitmap<'_>,
        documents: &Documents<'_>,
        buffers: &mut Buffers,
    ) -> Result<(Row, Option<usize>), (Flaw, usize)> {
        /// `PARTIAL_JSON_UPDATES` of `enum_binlog_row_value_options`.
        const DIFFERENCES: u64 = 1;
        let head = |flaw| (flaw, self.steps.len());
        buffers.builder.clear();
        let options = input.lenenc().map_err(head)?;
        if options & !DIFFERENCES != 0 {
            return Err(head(Flaw::undecodable(format!("unknown options {options:#x} of its values"))));
        }
        let differences = match options {
            0 => &[][..],
            _ => input.take(self.documents.div_ceil(8)).map_err(head)?,
        };
        let nulls = input.take(present.present.div_ceil(8)).map_err(head)?;
        let (mut null, mut document) = (0, 0);
        let mut differs = None;
        for (i, step) in self.steps.iter().enumerate() {
            let is_difference = if let Step::Json { .. } = step {
                document += 1;
                bit_at(differences, document - 1)
            } else {
                false
            };
            if !bit_at(present.bits, i) {
                buffers.builder.push_absent();
                continue;
            }
            let is_null = bit_at(nulls, null);
            null += 1;
            match step {
                _ if is_null => buffers.builder.push_null(),
                Step::Json { width } if is_difference => {
                    let difference = input.sized(*width).map_err(|flaw| (flaw, i))?;
                    match documents.iter().find(|(column, _)| *column == i) {
                        Some((_, Some(before))) => {
                            json::diff::apply_to_text(before, difference, &mut buffers.text)
                                .map_err(|flaw| (flaw, i))?;
                            buffers.builder.push_json(&buffers.text);
                        }
                        Some((_, None)) => {
                            return Err((Flaw::undecodable("a difference to the document NULL"), i));
                        }
                        None => {
                            buffers.builder.push_absent();
                            differs = Some(i);
                        }
                    }
                }
                _ => step.run(input, buffers).map_err(|flaw| (flaw, i))?,
            }
        }
        Ok((buffers.builder.finish(), differs))
    }
}

/// The step that reads such bytes as a value of such a type. `key`: of a column of the table's key.
fn step(wire: WireType, ty: &ColumnType, key: bool) -> Option<Step> {
    let codec = || {
        let codec = charset::charset(&ty.charset()?.name)?.codec()?;
        Some(if key { codec.in_key() } else { codec })
    };
    Some(match (ty, wire) {
        (
            ColumnType::Int { width, unsigned },
            WireType::Tiny | WireType::Short | WireType::Int24 | WireType::Long | WireType::LongLong,
        ) => Step::Int { width: *width, unsigned: *unsigned },
        (ColumnType::Decimal { .. }, WireType::NewDecimal { precision, scale }) => {
            Step::Decimal(DecimalLayout::new(precision, scale)?)
        }
        (ColumnType::Float { .. }, WireType::Float) => Step::Float { plain_zero: false },
        (ColumnType::Double { .. }, WireType::Double) => Step::Double,
        (ColumnType::Year, WireType::Year) => Step::Year,
        (ColumnType::Date, WireType::Date) => Step::Date,
        (ColumnType::Time { fsp }, WireType::Time) => Step::Time { fsp: *fsp },
        (ColumnType::Time { .. }, WireType::Time2 { fsp }) => Step::Time2 { fsp },
        (ColumnType::DateTime { fsp }, WireType::DateTime) => Step::DateTime { fsp: *fsp },
        (ColumnType::DateTime { .. }, WireType::DateTime2 { fsp }) => Step::DateTime2 { fsp },
        (ColumnType::Timestamp { fsp }, WireType::Timestamp) => Step::Timestamp { fsp: *fsp },
        (ColumnType::Timestamp { .. }, WireType::Timestamp2 { fsp }) => Step::Timestamp2 { fsp },
        (ColumnType::Char { .. }, WireType::String { length }) => {
            Step::Char { width: LengthWidth::of_string(length), codec: codec()? }
        }
        (ColumnType::VarChar { .. }, WireType::VarChar { length }) => {
            Step::Text { width: LengthWidth::of_string(length), codec: codec()? }
        }
        (ColumnType::Text { .. }, WireType::Blob { width }) => Step::Text { width, codec: codec()? },
        (ColumnType::Binary { length: known }, WireType::String { length }) => {
            Step::Binary { width: LengthWidth::of_string(length), length: *known }
        }
        (ColumnType::VarBinary { .. }, WireType::VarChar { length }) => {
            Step::Bytes { width: LengthWidth::of_string(length) }
        }
        (ColumnType::Blob { .. }, WireType::Blob { width }) => Step::Bytes { width },
        (ColumnType::Bit { width }, WireType::Bit { .. }) => Step::Bit { bytes: bit::bytes_of(*width) },
        (ColumnType::Enum { labels, .. }, WireType::Enum { bytes: bytes @ 1..=2 }) => {
            Step::Enum { bytes: bytes.into(), labels: Arc::clone(labels) }
        }
        (ColumnType::Set { labels, .. }, WireType::Set { bytes: bytes @ 1..=8 }) => {
            Step::Set { bytes: bytes.into(), labels: Arc::clone(labels) }
        }
        (ColumnType::Json, WireType::Json { width }) => Step::Json { width },
        (ColumnType::Geometry { .. }, WireType::Geometry { width }) => Step::Geometry { width },
        (ColumnType::Vector { .. }, WireType::Vector { width }) => Step::Vector { width },
        (ColumnType::Vector { .. }, WireType::VarChar { length }) => {
            Step::Vector { width: LengthWidth::of_string(length) }
        }
        (ColumnType::VarChar { .. }, WireType::VarCharCompressed { length }) => {
            Step::TextCompressed { width: LengthWidth::of_string(length), codec: codec()? }
        }
        (ColumnType::Text { .. }, WireType::BlobCompressed { width }) => {
            Step::TextCompressed { width, codec: codec()? }
        }
        (ColumnType::VarBinary { .. }, WireType::VarCharCompressed { length }) => {
            Step::BytesCompressed { width: LengthWidth::of_string(length) }
        }
        (ColumnType::Blob { .. }, WireType::BlobCompressed { width }) => Step::BytesCompressed { width },
        (ColumnType::Uuid, WireType::String { .. }) => Step::Address(Address::Uuid),
        (ColumnType::Inet4, WireType::String { .. }) => Step::Address(Address::Inet4),
        (ColumnType::Inet6, WireType::String { .. }) => Step::Address(Address::Inet6),
        _ => return None,
    })
}

impl Step {
    #[inline]
    fn run(&self, input: &mut Bytes<'_>, buffers: &mut Buffers) -> Result<(), Flaw> {
        let out = &mut buffers.builder;
        match self {
            Step::Int { width, unsigned } => number::int(input, *width, *unsigned, out),
            Step::Text { width, codec } => text::text(input.sized(*width)?, *codec, &mut buffers.text, out),
            Step::Char { width, codec } => text::char(input.sized(*width)?, *codec, &mut buffers.text, out),
            Step::DateTime2 { fsp } => temporal::datetime2(input, *fsp, out),
            Step::Timestamp2 { fsp } => temporal::timestamp2(input, *fsp, out),
            Step::Decimal(layout) => layout.read(input, |text| out.push_decimal(text)),
            Step::Bytes { width } => {
                text::bytes(input.sized(*width)?, out);
                Ok(())
            }
            Step::Binary { width, length } => {
                text::binary(input.sized(*width)?, *length, &mut buffers.bytes, out)
            }
            Step::Float { plain_zero } => number::float(input, *plain_zero, out),
            Step::Double => number::double(input, out),
            Step::Year => number::year(input, out),
            Step::Date => temporal::date(input, out),
            Step::Time { fsp } => temporal::time(input, *fsp, out),
            Step::DateTime { fsp } => temporal::datetime(input, *fsp, out),
            Step::Timestamp { fsp } => temporal::timestamp(input, *fsp, out),
            Step::Time2 { fsp } => temporal::time2(input, *fsp, out),
            Step::Bit { bytes } => bit::decode(input, *bytes, out),
            Step::Enum { bytes, labels } => enum_set::push_enum(input.uint_le(*bytes)?, labels, out),
            Step::Set { bytes, labels } => {
                enum_set::push_set(input.uint_le(*bytes)?, labels, &mut buffers.text, out)
            }
            Step::Json { width } => {
                json::to_text(input.sized(*width)?, &mut buffers.text)?;
                out.push_json(&buffers.text);
                Ok(())
            }
            Step::Geometry { width } => {
                geometry::geometry(input.sized(*width)?, out);
                Ok(())
            }
            Step::Vector { width } => geometry::vector(input.sized(*width)?, out),
            Step::TextCompressed { width, codec } => {
                let plain = compressed::value(input.sized(*width)?, &mut buffers.bytes)?;
                text::text(plain, *codec, &mut buffers.text, out)
            }
            Step::BytesCompressed { width } => {
                text::bytes(compressed::value(input.sized(*width)?, &mut buffers.bytes)?, out);
                Ok(())
            }
            Step::Address(ty) => address::decode(input.sized(LengthWidth::One)?, *ty, &mut buffers.text, out),
        }
    }
}

/// The changes of an event, from [`RowDecoder::rows`].
#[derive(Debug)]
pub struct RowsIter<'d, 'e> {
    decoder: &'d RowDecoder,
    event: RowsEvent<'e>,
    /// Is an image after completed by the one before?
    completed: bool,
    rest: Bytes<'e>,
    buffers: Buffers,
    row: usize,
    differs: Option<usize>,
    ended: bool,
}

impl RowsIter<'_, '_> {
    /// Of the last change: a column of whose value after there is only the difference to a document that the image before
    /// does not hold. It is absent, and it is not what it was.
    pub fn differs(&self) -> Option<usize> {
        self.differs
    }

    fn change(&mut self) -> Result<Change> {
        let RowsIter { decoder, event, completed, rest, buffers, row, differs, .. } = self;
        if event.has_no_columns() {
            // Such images take no bytes, so nobody can say how many there are. MySQL refuses the statement
            // that would log them (measured on 9.7.4: error 1534).
            return Err(Error::definite(
                codes::PARTIAL_IMAGE,
                format!("the log holds row images of table \"{}\" without any column", decoder.schema.id),
            ));
        }
        if event.columns != decoder.steps.len() {
            return Err(Error::definite(
                codes::LOG_CORRUPT,
                format!(
                    "row event of table \"{}\" has {} columns, but its table map {}",
                    decoder.schema.id,
                    event.columns,
                    decoder.steps.len()
                ),
            ));
        }
        if let (true, Some(second)) = (event.differences, &event.second) {
            let mut documents = Documents::new();
            let located = |(flaw, column): (Flaw, usize)| flaw.in_event(&decoder.schema, column, *row);
            let before =
                decoder.image_with_documents(rest, &event.first, &mut documents, buffers).map_err(located)?;
            let (after, column) =
                decoder.image_of_differences(rest, second, &documents, buffers).map_err(located)?;
            *differs = column;
            return Ok((Some(before), Some(after)));
        }
        let first = decoder.image(rest, &event.first, None, buffers);
        let (before_image, after_image) = match (event.kind, &event.second) {
            (RowsKind::Write, _) => (None, Some(first)),
            (_, None) => (Some(first), None),
            (_, Some(second)) => {
                // the second image can only be found behind a first that is whole
                let second = match &first {
                    Ok(before) => {
                        let completed_by = completed.then_some(before);
                        Some(decoder.image(rest, second, completed_by, buffers))
                    }
                    Err(_) => None,
                };
                (Some(first), second)
            }
        };
        let located = |image: Option<Result<Row, (Flaw, usize)>>| {
            image.transpose().map_err(|(flaw, column)| flaw.in_event(&decoder.schema, column, *row))
        };
        Ok((located(before_image)?, located(after_image)?))
    }
}

impl Iterator for RowsIter<'_, '_> {
    type Item = Result<Change>;

    #[inline]
    fn next(&mut self) -> Option<Result<Change>> {
        if self.ended || (self.rest.is_empty() && !self.event.has_no_columns()) {
            return None;
        }
        self.row += 1;
        let change = self.change();
        self.ended = change.is_err();
        Some(change)
    }
}

/// Takes the key out of rows.
///
/// The key is a packed row of the key's columns, in key order. Decoded values are in one normal form each
/// (see [`crate::decode`]), so the key of a row from a chunk and the key of the same row from the log are
/// equal byte for byte, whatever the collation of its columns. That is *identity of the stored value*, which
/// is finer than the server's `=`: under `utf8mb4_0900_ai_ci` `'a'` and `'A'` are one key to the server and
/// two here; a row goes from one to the other by an UPDATE that has both in its images.
#[derive(Debug, Clone)]
pub struct KeyExtractor {
    /// The columns, in key order.
    key: Vec<usize>,
    ascending: bool,
    builder: RowBuilder,
}

impl KeyExtractor {
    /// For the columns `key` (indexes, in key order) of a table.
    ///
    /// # Panics
    /// If the table has no such column.
    pub fn new(schema: &TableSchema, key: &[usize]) -> KeyExtractor {
        assert!(key.iter().all(|&i| i < schema.columns.len()), "a key of columns that the table has");
        KeyExtractor {
            key: key.to_vec(),
            ascending: key.windows(2).all(|w| w[0] < w[1]),
            builder: RowBuilder::new(),
        }
    }

    /// The columns of the key, in key order.
    pub fn columns(&self) -> &[usize] {
        &self.key
    }

    /// The key of a row of the table. A column that the row's image does not hold is absent in the key too.
    pub fn key(&mut self, row: &Row) -> Row {
        self.builder.clear();
        if self.ascending {
            // one walk over the row
            let mut values = row.iter();
            let mut next = 0;
            for i in 0..self.key.len() {
                let column = self.key[i];
                while next < column {
                    values.skip_value();
                    next += 1;
                }
                self.push(values.next_encoded());
                next += 1;
            }
        } else {
            for i in 0..self.key.len() {
                let mut values = row.iter();
                for _ in 0..self.key[i] {
                    values.skip_value();
                }
                self.push(values.next_encoded());
            }
        }
        self.builder.finish()
    }

    /// `None`: the row is shorter than the table, which only a caller's mistake can make it.
    fn push(&mut self, value: Option<Encoded<'_>>) {
        match value {
            Some(value) => self.builder.push_encoded(value),
            None => self.builder.push_absent(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cdc_core::schema::{Charset, Column, LobSize, TableId};
    use cdc_core::value::Value;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// `shop.t (id INT PRIMARY KEY, name VARCHAR(20) utf8mb4, amount DECIMAL(10,2))`.
    fn table() -> (TableMap, Arc<TableSchema>) {
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
        body.extend(b"\x04shop\0\x01t\0");
        body.extend([3, 3, 15, 246]);
        body.extend([4, 80, 0, 10, 2]);
        body.push(0b110);
        let schema = TableSchema {
            id: TableId::new("shop", "t"),
            version: 1,
            columns: vec![
                Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }).not_null(),
                Column::new("name", ColumnType::VarChar { length: 20, charset: Charset::utf8mb4() }),
                Column::new("amount", ColumnType::Decimal { precision: 10, scale: 2, unsigned: false }),
            ],
            primary_key: vec![0],
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        (TableMap::parse(&body).unwrap(), Arc::new(schema))
    }

    const HEAD_V2: &[u8] = &[7, 0, 0, 0, 0, 0, 0x11, 0, 2, 0, 3];

    fn decode(event_type: u8, body: &[u8]) -> Result<Vec<Change>> {
        let (map, schema) = table();
        let decoder = RowDecoder::new(&map, &schema)?;
        let event = RowsEvent::parse(event_type, body)?;
        decoder.rows(&event).collect()
    }

    fn row(id: i64, name: Option<&str>, amount: Option<&str>) -> Row {
        Row::pack([
            Value::Int(id),
            name.map_or(Value::Null, |s| Value::Text(s.into())),
            amount.map_or(Value::Null, |s| Value::Decimal(s.into())),
        ])
    }

    /// `(1, 'abc', 12.50)` as an image with its bitmap of NULLs.
    const ONE: &[u8] = &[0, 1, 0, 0, 0, 3, b'a', b'b', b'c', 0x80, 0, 0, 12, 50];
    /// `(2, NULL, NULL)`.
    const TWO: &[u8] = &[0b110, 2, 0, 0, 0];

    #[test]
    fn writes_updates_and_deletes_in_both_versions() {
        let (one, two) = (row(1, Some("abc"), Some("12.50")), row(2, None, None));
        let v1 = [7, 0, 0, 0, 0, 0, 1, 0, 3];
        for (head, [write, update, delete]) in [(HEAD_V2, [30, 31, 32]), (&v1[..], [23, 24, 25])] {
            assert_eq!(
                decode(write, &[head, &[7], ONE, TWO].concat()).unwrap(),
                [(None, Some(one.clone())), (None, Some(two.clone()))]
            );
            assert_eq!(
                decode(update, &[head, &[7, 7], ONE, TWO].concat()).unwrap(),
                [(Some(one.clone()), Some(two.clone()))]
            );
            // bits past the last column count for nothing
            assert_eq!(decode(delete, &[head, &[0xff], TWO].concat()).unwrap(), [(Some(two.clone()), None)]);
        }
        let event = [&[7, 0, 0, 0, 0, 0, 0x11, 0, 5, 0, 9, 9, 9, 3][..], &[7], TWO].concat();
        assert_eq!(decode(30, &event).unwrap().len(), 1, "extra data is stepped over");
        let event = RowsEvent::parse(30, &event).unwrap();
        assert!(event.is_statement_end() && event.has_all_columns());
        assert_eq!(event.table_id(), 7);
    }

    #[test]
    fn columns_that_are_not_in_the_image_are_absent() {
        // MINIMAL: the key before, `amount` after
        let body =
            [HEAD_V2, &[0b001, 0b100], &[0, 1, 0, 0, 0], &[1], &[0, 2, 0, 0, 0], &[0, 0x80, 0, 0, 1, 5]];
        let changes = decode(31, &body.concat()).unwrap();
        let key = |id| Some(Row::pack([Value::Int(id), Value::Absent, Value::Absent]));
        let after = |v| Some(Row::pack([Value::Absent, Value::Absent, v]));
        assert_eq!(changes, [(key(1), after(Value::Null)), (key(2), after(Value::Decimal("1.05".into())))]);
        assert!(!RowsEvent::parse(31, &body.concat()).unwrap().has_all_columns());
    }

    /// `t.n1 (id INT PRIMARY KEY, a INT, b VARCHAR(20) utf8mb4, c TEXT utf8mb4)`, as 11.8.9 logs it under FULL_NODUP.
    #[test]
    fn images_after_are_completed_by_those_before() {
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0];
        body.extend(b"\x01t\0\x02n1\0\x04\x03\x03\x0f\xfc\x03\x50\x00\x02\x0e");
        let (_, schema) = table();
        let mut schema = TableSchema::clone(&schema);
        let int = ColumnType::Int { width: IntWidth::Int, unsigned: false };
        schema.columns[2] = schema.columns[1].clone();
        schema.columns[1] = Column::new("a", int);
        let text = ColumnType::Text { size: LobSize::Normal, charset: Charset::utf8mb4() };
        schema.columns.push(Column::new("c", text));
        let map = TableMap::parse(&body).unwrap();
        let row = |id, a, b: Option<&'static str>, c: Option<&'static str>| {
            let text = |v: Option<&'static str>| v.map_or(Value::Null, |v| Value::Text(v.into()));
            Row::pack([Value::Int(id), Value::Int(a), text(b), text(c)])
        };
        let decode = |hex: &str, schema: &TableSchema| {
            let bytes: Vec<u8> =
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
            let decoder = RowDecoder::new(&map, &Arc::new(schema.clone())).unwrap();
            let event = RowsEvent::parse(24, &bytes).unwrap();
            assert_eq!(decoder.gives_whole_rows(&event), event.after_is_completed_by_before(schema));
            let changes: Vec<_> = decoder.rows(&event).collect::<Result<_>>().unwrap();
            (decoder.gives_whole_rows(&event), changes)
        };
        let head = "070000000000010004";
        let (whole, changes) = decode(
            &format!("{head}0f02f001000000010000000162010063fe0b000000f4020000000200000002006363fe0c000000"),
            &schema,
        );
        assert!(whole);
        assert_eq!(
            changes,
            [
                (Some(row(1, 1, Some("b"), Some("c"))), Some(row(1, 11, Some("b"), Some("c")))),
                (Some(row(2, 2, None, Some("cc"))), Some(row(2, 12, None, Some("cc")))),
            ]
        );
        // set to NULL is not left out
        let (_, changes) = decode(&format!("{head}0f04f0010000000b0000000162010063ff"), &schema);
        assert_eq!(changes[0].1, Some(row(1, 11, None, Some("c"))));
        let (_, changes) = decode(&format!("{head}0f01f4010000000b000000010063fe03000000"), &schema);
        assert_eq!(changes[0].1, Some(row(3, 11, None, Some("c"))));
        // MINIMAL: the image before is not whole either
        let (whole, changes) = decode(&format!("{head}0102fe03000000fe64000000"), &schema);
        assert!(!whole);
        assert!(changes[0].1.as_ref().is_some_and(Row::has_absent));
        // a generated column that is left out may have changed
        schema.columns[2].generated =
            Some(cdc_core::schema::Generated { expression: "a".into(), stored: true });
        let (whole, changes) = decode(&format!("{head}0f02f001000000010000000162010063fe0b000000"), &schema);
        assert!(!whole);
        assert!(changes[0].1.as_ref().is_some_and(Row::has_absent));
        // 11.8 leaves it out of both
        let bytes = [&[7, 0, 0, 0, 0, 0, 1, 0, 4, 0b1011, 0b1011][..], &[0; 40]].concat();
        let event = RowsEvent::parse(24, &bytes).unwrap();
        assert!(event.lacks_only_generated(&schema) && !event.has_all_columns());
        schema.columns[2].generated = None;
        assert!(!event.lacks_only_generated(&schema));
    }

    /// INSERT, UPDATE and DELETE of `z1 (id INT, a VARCHAR(300) latin1)` as 10.11.19 logs them under
    /// `log_bin_compress`.
    #[test]
    fn compressed_events_become_plain_ones() {
        let hex = |s: &str| -> Vec<u8> {
            (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).unwrap()).collect()
        };
        let (a, b) = ("61".repeat(100), "62".repeat(200));
        let write = "1f00000000000100020382013a789cfbc3c8c0c090c2904807f0870968d50986a46102004af6759c";
        let (kind, plain) = decompress(166, &hex(write)).unwrap().unwrap();
        let rows = format!("1f00000000000100020 3fc010000006400{a}fc02000000c800{b}").replace(' ', "");
        assert_eq!((kind, plain), (23, hex(&rows)));
        let update = "1f00000000000100020303820276789cfbc3c8c0c090c2904807f00764552a5dacaaf8c304b4eb04\
                      43d2300160ef9c1c36dea90000e16dec29";
        let (kind, plain) = decompress(167, &hex(update)).unwrap().unwrap();
        let rows = format!(
            "1f00000000000100020303fc010000006400{a}fc010000006500{a}78fc02000000c800{b}fc02000000c900{b}78"
        );
        assert_eq!((kind, plain), (24, hex(&rows)));
        let delete = hex("1f000000000001000203816c789cfbc3c8c0c090ca904807500100341827bf");
        let (kind, plain) = decompress(168, &delete).unwrap().unwrap();
        assert_eq!((kind, plain), (25, hex(&format!("1f000000000001000203fc010000006500{a}78"))));
        // the same behind the head of the second version
        let head = &[0x1f, 0, 0, 0, 0, 0, 1, 0, 2, 0, 2, 3][..];
        let (kind, plain) = decompress(171, &[head, &delete[10..]].concat()).unwrap().unwrap();
        assert_eq!((kind, &plain[..12], &plain[12..17]), (32, head, &[0xfc, 1, 0, 0, 0][..]));

        for kind in (0..=u8::MAX).filter(|kind| !(166..=171).contains(kind)) {
            assert_eq!(decompress(kind, &delete).unwrap(), None);
        }
        for n in 0..delete.len() {
            assert_eq!(decompress(168, &delete[..n]).unwrap_err().code(), codes::LOG_CORRUPT, "{n}");
        }
    }

    #[test]
    fn torn_and_overlong_events_name_table_column_and_row() {
        let whole = [HEAD_V2, &[7], TWO, ONE].concat();
        for n in 0..whole.len() {
            match decode(30, &whole[..n]) {
                Ok(changes) => {
                    assert!(changes.len() < 2, "{n} bytes");
                    assert!([HEAD_V2.len() + 1, HEAD_V2.len() + 1 + TWO.len()].contains(&n), "{n} bytes");
                }
                Err(error) => assert_eq!(error.code(), codes::LOG_CORRUPT, "{n} bytes"),
            }
        }
        let error = decode(30, &whole[..whole.len() - 1]).unwrap_err().to_string();
        assert!(
            error.contains("\"amount\"") && error.contains("\"shop.t\"") && error.contains("row 2"),
            "{error}"
        );
        assert_eq!(decode(30, &[&whole[..], &[0]].concat()).unwrap_err().code(), codes::LOG_CORRUPT);
        let other = [&HEAD_V2[..10], &[2, 3], TWO].concat();
        assert_eq!(decode(30, &other).unwrap_err().code(), codes::LOG_CORRUPT);
        let none = [HEAD_V2, &[0]].concat();
        assert_eq!(decode(30, &none).unwrap_err().code(), codes::PARTIAL_IMAGE);
    }

    #[test]
    fn a_value_without_meaning_names_table_column_and_row() {
        let mut bad = ONE.to_vec();
        bad[6] = 0xff;
        let error = decode(30, &[HEAD_V2, &[7], TWO, &bad].concat()).unwrap_err();
        assert_eq!(error.code(), codes::VALUE_UNDECODABLE);
        let text = error.to_string();
        assert!(text.contains("\"name\"") && text.contains("\"shop.t\""), "{text}");
        assert!(error.diagnostic().notes.iter().any(|n| n.contains("row 2")));
    }

    #[test]
    fn other_events_are_refused() {
        for event_type in [40, 19, 166] {
            assert_eq!(RowsEvent::parse(event_type, &[]).unwrap_err().code(), codes::LOG_EVENT_UNKNOWN);
        }
    }

    #[test]
    fn a_character_set_whose_table_is_not_there_is_refused() {
        let (mut map, schema) = table();
        let mut schema = TableSchema::clone(&schema);
        let gbk = Charset::new("gbk", "gbk_chinese_ci");
        schema.columns[1].ty = ColumnType::VarChar { length: 40, charset: gbk };
        map.columns[1].collation = None;
        let error = RowDecoder::new(&map, &Arc::new(schema)).unwrap_err();
        assert_eq!(error.code(), codes::CHARSET_UNSUPPORTED);
    }

    #[test]
    fn keys_are_taken_out_in_key_order() {
        let (_, schema) = table();
        let row = row(1, Some("abc"), Some("12.50"));
        let key = |columns: &[usize]| KeyExtractor::new(&schema, columns).key(&row);
        assert_eq!(key(&[0]), Row::pack([Value::Int(1)]));
        assert_eq!(key(&[0, 2]), Row::pack([Value::Int(1), Value::Decimal("12.50".into())]));
        assert_eq!(key(&[1, 0]), Row::pack([Value::Text("abc".into()), Value::Int(1)]));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let (map, schema) = table();
        let decoder = RowDecoder::new(&map, &schema).unwrap();
        let mut rng = StdRng::seed_from_u64(3);
        for _ in 0..100_000 {
            let event_type = [23, 24, 25, 30, 31, 32, 39][rng.random_range(0..7)];
            let mut body = [HEAD_V2, &[7, 7], ONE, TWO, ONE].concat();
            for _ in 0..rng.random_range(1..5) {
                let at = rng.random_range(0..body.len());
                body[at] = rng.random();
            }
            body.truncate(rng.random_range(0..=body.len()));
            if let Ok(event) = RowsEvent::parse(event_type, &body) {
                let changes = decoder.rows(&event).count();
                assert!(changes <= body.len());
            }
        }
    }
}
