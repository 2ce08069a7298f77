//! Keys and constraints of a table, and the names the server gives to indexes that have none.

use super::charset;
use super::column;
use super::context::{Index, IndexPart};
use super::cursor::{Cursor, Failure, Parsed};
use super::lexer::Kind;
use super::versioning::{self, Period, PeriodDef};
use cdc_core::codes;
use cdc_core::schema::{Column, ColumnType, IntWidth, same_name};
use std::sync::Arc;

/// What a key promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    Primary,
    Unique,
    /// Nothing: an index for speed.
    Plain,
}

/// A key as a statement defines it.
#[derive(Debug, Clone)]
pub(super) struct KeyDef {
    pub(super) kind: KeyKind,
    pub(super) name: Option<Arc<str>>,
    pub(super) if_not_exists: bool,
    parts: Vec<IndexPart>,
}

impl KeyDef {
    /// The key that a column's own attribute makes.
    pub(super) fn of_column(kind: KeyKind, column: Arc<str>) -> KeyDef {
        let parts = vec![IndexPart { column: Some(column), prefix: None }];
        KeyDef { kind, name: None, if_not_exists: false, parts }
    }

    /// Its parts with their columns as numbers.
    pub(super) fn numbered(&self, columns: &[Column]) -> Parsed<Vec<NumberedPart>> {
        self.parts.iter().map(|part| numbered(part, columns)).collect()
    }

    /// The name that IF NOT EXISTS looks for: its own, or its first column's.
    pub(super) fn looked_for(&self) -> Option<&Arc<str>> {
        self.name.as_ref().or_else(|| self.parts.first()?.column.as_ref())
    }

    /// Its name, or the one the server makes: the first column's, with `_2`, `_3` .. if that is taken.
    pub(super) fn name_among(&self, taken: &[Index], columns: &[Column]) -> Arc<str> {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let base = match self.parts.first().and_then(|p| p.column.as_ref()) {
            // As the column is spelled, not as the key spells it.
            Some(column) if !column.eq_ignore_ascii_case("PRIMARY") => {
                find(columns, column).map_or_else(|| column.clone(), |at| columns[at].name.clone())
            }
            Some(column) => return Arc::from(format!("{column}_2")),
            None => Arc::from("functional_index"),
        };
        let is_free = |name: &str| !taken.iter().any(|i| same_name(&i.name, name));
        if is_free(&base) {
            return base;
        }
        (2..=taken.len() + 2)
            .map(|n| format!("{base}_{n}"))
            .find(|name| is_free(name))
            .map_or(base, Arc::from)
    }
}

/// A part of an index with its column as a number, which outlives a change of name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberedPart {
    /// `None` for an expression.
    pub(super) column: Option<usize>,
    pub(super) prefix: Option<u32>,
}

/// May an index be over a prefix of this type?
fn takes_prefix(ty: &ColumnType) -> bool {
    length(ty).is_some()
        || matches!(ty, ColumnType::Text { .. } | ColumnType::Blob { .. } | ColumnType::Geometry { .. })
}

/// A part's column looked up; a prefix of a column's whole length is none.
pub(super) fn numbered(part: &IndexPart, columns: &[Column]) -> Parsed<NumberedPart> {
    let Some(name) = &part.column else {
        return Ok(NumberedPart { column: None, prefix: None });
    };
    let Some(at) = find(columns, name) else {
        let message = format!("a key names the column \"{name}\", which is not there");
        return Err(Failure::new(codes::DDL_NOT_UNDERSTOOD, message));
    };
    let ty = &columns[at].ty;
    let is_shorter = |prefix: &u32| takes_prefix(ty) && length(ty).is_none_or(|whole| *prefix < whole);
    let prefix = part.prefix.filter(is_shorter);
    Ok(NumberedPart { column: Some(at), prefix })
}

/// The length of a type whose prefix an index may be over; none for TEXT, BLOB and the like.
pub(super) fn length(ty: &ColumnType) -> Option<u32> {
    match ty {
        ColumnType::Char { length, .. }
        | ColumnType::VarChar { length, .. }
        | ColumnType::Binary { length }
        | ColumnType::VarBinary { length } => Some(*length),
        _ => None,
    }
}

/// The bytes that a column without a length takes in a key.
pub(super) fn key_bytes(ty: &ColumnType) -> Option<u32> {
    Some(match ty {
        ColumnType::Text { .. } | ColumnType::Blob { .. } => return None,
        ColumnType::Int { width: IntWidth::Small, .. } => 2,
        ColumnType::Int { width: IntWidth::Medium, .. } | ColumnType::Date => 3,
        ColumnType::Int { width: IntWidth::Int, .. } | ColumnType::Float { .. } => 4,
        ColumnType::Int { width: IntWidth::Big, .. } | ColumnType::Double { .. } => 8,
        // Its bytes, counted as if they were letters of its character set.
        ColumnType::Enum { labels, charset } => {
            let bytes = if labels.len() > 255 { 2 } else { 1 };
            bytes / charset::max_bytes(&charset.name) as u32
        }
        ColumnType::Set { labels, charset } => {
            let bytes = match labels.len().div_ceil(8) as u32 {
                bytes @ 0..=4 => bytes,
                _ => 8,
            };
            bytes / charset::max_bytes(&charset.name) as u32
        }
        _ => 1,
    })
}

/// The part after its column has got another type: the server keeps a prefix only where both types can have
/// one and it is shorter than the new column.
pub(super) fn prefix_after(prefix: u32, was: &ColumnType, is: &ColumnType) -> Option<u32> {
    let fits = length(is).is_none_or(|whole| prefix < whole);
    (takes_prefix(was) && takes_prefix(is) && fits).then_some(prefix)
}

/// Do the stored values of its columns tell rows apart? Not if a part is an expression or a prefix; MariaDB
/// takes a prefix of a geometry without saying so.
pub(super) fn identifies<'c>(
    unique: bool,
    parts: &[NumberedPart],
    column: impl Fn(usize) -> Option<&'c ColumnType>,
) -> Option<Vec<usize>> {
    let whole = |part: &NumberedPart| {
        let number = part.column?;
        let geometry = matches!(column(number), Some(ColumnType::Geometry { .. }));
        (part.prefix.is_none() && !geometry).then_some(number)
    };
    if unique { parts.iter().map(whole).collect() } else { None }
}

/// Are they one name?
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!(a.is_ascii() && b.is_ascii()) && same_name(a, b))
}

/// The place of a column by name.
pub(super) fn find(columns: &[Column], name: &str) -> Option<usize> {
    // Spelled alike is by far the most frequent; only the second look makes lower case of both.
    columns.iter().position(|c| &*c.name == name).or_else(|| {
        if name.is_ascii() {
            return columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
        }
        columns.iter().position(|c| same_name(&c.name, name))
    })
}

/// Does a key or constraint stand in front, where a column could stand as well?
pub(super) fn is_in_front(cursor: &Cursor<'_>) -> bool {
    let second = cursor.second();
    cursor.is_any(&[
        "PRIMARY",
        "UNIQUE",
        "KEY",
        "INDEX",
        "FULLTEXT",
        "SPATIAL",
        "CONSTRAINT",
        "FOREIGN",
        "CHECK",
    ]) || (cursor.is("PERIOD") && (second.is("FOR") || second.is("IF")))
        || (cursor.is("VECTOR") && (second.is("INDEX") || second.is("KEY")))
}

/// What can stand where a column could.
pub(super) enum Element {
    Key(KeyDef),
    /// An application-time period; one of SYSTEM_TIME says no more than its columns do.
    Period {
        period: Period,
        if_not_exists: bool,
    },
    /// FOREIGN KEY, CHECK.
    Nothing,
}

impl From<KeyDef> for Element {
    fn from(key: KeyDef) -> Element {
        Element::Key(key)
    }
}

/// A key, a constraint or a period.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Parsed<Element> {
    let mut symbol: Option<Arc<str>> = None;
    if cursor.accept("CONSTRAINT") {
        cursor.if_not_exists();
        if !cursor.is_any(&["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"]) {
            symbol = Some(cursor.name("a constraint's name")?.as_ref().into());
        }
    }
    if cursor.accept("PRIMARY") {
        cursor.expect("KEY")?;
        let mut key = rest(cursor, KeyKind::Primary)?;
        key.name = None;
        return Ok(key.into());
    }
    if cursor.accept("UNIQUE") {
        cursor.accept_any(&["KEY", "INDEX"]);
        let mut key = rest(cursor, KeyKind::Unique)?;
        key.name = key.name.or(symbol);
        return Ok(key.into());
    }
    if cursor.accept("CHECK") {
        cursor.group()?;
        column::enforced(cursor);
        return Ok(Element::Nothing);
    }
    if cursor.accept("FOREIGN") {
        cursor.expect("KEY")?;
        cursor.if_not_exists();
        if !cursor.is_symbol(b'(') {
            cursor.name("a key's name")?;
        }
        cursor.group()?;
        cursor.expect("REFERENCES")?;
        column::references(cursor)?;
        return Ok(Element::Nothing);
    }
    if cursor.is("PERIOD") {
        return Ok(match versioning::period(cursor)? {
            PeriodDef::SystemTime => Element::Nothing,
            PeriodDef::Application { period, if_not_exists } => Element::Period { period, if_not_exists },
        });
    }
    if cursor.accept_any(&["FULLTEXT", "SPATIAL", "VECTOR"]) {
        cursor.accept_any(&["KEY", "INDEX"]);
        return rest(cursor, KeyKind::Plain).map(Element::from);
    }
    if cursor.accept_any(&["KEY", "INDEX"]) {
        return rest(cursor, KeyKind::Plain).map(Element::from);
    }
    Err(cursor.unexpected("a key"))
}

/// Behind the key's words: `[IF NOT EXISTS] [name] [USING x] (parts) options`.
fn rest(cursor: &mut Cursor<'_>, kind: KeyKind) -> Parsed<KeyDef> {
    let if_not_exists = cursor.if_not_exists();
    let using = cursor.is_any(&["USING", "TYPE"]) && cursor.second().kind == Kind::Word;
    let name = if cursor.is_symbol(b'(') || using {
        None
    } else {
        Some(Arc::from(cursor.name("an index's name")?.as_ref()))
    };
    if cursor.accept_any(&["USING", "TYPE"]) {
        cursor.name("an index type")?;
    }
    let parts = parts(cursor)?;
    cursor.skip_part()?;
    Ok(KeyDef { kind, name, if_not_exists, parts })
}

/// The key of `CREATE INDEX name ON t`, at its parts.
pub(super) fn of_create_index(
    cursor: &mut Cursor<'_>,
    kind: KeyKind,
    name: Arc<str>,
    if_not_exists: bool,
) -> Parsed<KeyDef> {
    let parts = parts(cursor)?;
    Ok(KeyDef { kind, name: Some(name), if_not_exists, parts })
}

fn parts(cursor: &mut Cursor<'_>) -> Parsed<Vec<IndexPart>> {
    cursor.expect_symbol(b'(')?;
    let mut parts = Vec::new();
    loop {
        // MariaDB 10.11 shows a key over the hidden columns of a versioned table as "(,`d`)" (measured).
        cursor.accept_symbol(b',');
        if cursor.is_symbol(b'(') {
            cursor.group()?;
            parts.push(IndexPart { column: None, prefix: None });
        } else {
            let column = cursor.column()?.as_ref().into();
            let prefix = cursor.optional_number()?.map(|n| n.min(u64::from(u32::MAX)) as u32);
            parts.push(IndexPart { column: Some(column), prefix });
        }
        cursor.accept_any(&["ASC", "DESC"]);
        if cursor.accept_all(&["WITHOUT", "OVERLAPS"]) {
            return Err(cursor.failure(
                codes::DDL_UNSUPPORTED,
                "a key over a period (WITHOUT OVERLAPS) does not identify rows by its columns",
            ));
        }
        // More columns than a table can have: nothing a server has let pass.
        if parts.len() > super::MAX_COLUMNS {
            return Err(cursor.unexpected("no further column"));
        }
        if !cursor.accept_symbol(b',') {
            break;
        }
    }
    cursor.expect_symbol(b')')?;
    Ok(parts)
}

/// A part by its column's name.
pub(super) fn named<'c>(part: &NumberedPart, column: impl Fn(usize) -> Option<&'c Column>) -> IndexPart {
    let name = part.column.and_then(column).map(|c| c.name.clone());
    IndexPart { column: name, prefix: part.prefix }
}

/// The keys of a new table.
pub(super) struct Keys {
    pub(super) primary: Vec<usize>,
    pub(super) unique: Vec<Vec<usize>>,
    pub(super) indexes: Vec<Index>,
}

/// Puts a new table's keys together; the primary key's columns become NOT NULL.
pub(super) fn assemble(columns: &mut [Column], defs: &[KeyDef]) -> Parsed<Keys> {
    let mut keys = Keys { primary: Vec::new(), unique: Vec::new(), indexes: Vec::new() };
    for def in defs {
        let mut parts = def.numbered(columns)?;
        if def.kind != KeyKind::Plain {
            versioning::without_row_end(&mut parts, |at| columns.get(at));
        }
        if def.kind == KeyKind::Primary {
            // Unique in a prefix is unique in the whole column.
            keys.primary = parts.iter().filter_map(|part| part.column).collect();
            continue;
        }
        let unique = def.kind == KeyKind::Unique;
        let name = def.name_among(&keys.indexes, columns);
        keys.unique.extend(identifies(unique, &parts, |at| columns.get(at).map(|c| &c.ty)));
        let parts = parts.iter().map(|part| named(part, |at| columns.get(at))).collect();
        keys.indexes.push(Index { name, unique, parts });
    }
    for &i in &keys.primary {
        columns[i].nullable = false;
    }
    Ok(keys)
}
