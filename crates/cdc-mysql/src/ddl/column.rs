//! Column definitions: name, type, attributes in any order.

use super::charset;
use super::context::Context;
use super::cursor::{Cursor, Failure, Parsed};
use super::default::{self, DefaultValue};
use super::index::{KeyDef, KeyKind};
use super::lexer::Kind;
use super::types::{self, TypeWords};
use super::versioning::RowTime;
use cdc_core::codes;
use cdc_core::schema::{Charset, Column, ColumnType, Generated};
use std::sync::Arc;

/// A column as a statement defines it, before what it inherits is known.
#[derive(Debug, Clone)]
pub(super) struct ColumnDef {
    pub(super) name: Arc<str>,
    ty: TypeWords,
    charset: Option<String>,
    collation: Option<String>,
    /// The BINARY attribute.
    binary: bool,
    null: Option<bool>,
    default: Option<DefaultValue>,
    pub(super) auto_increment: bool,
    generated: Option<Generated>,
    invisible: bool,
    comment: String,
    srid: Option<u32>,
    pub(super) primary: bool,
    pub(super) unique: bool,
    /// MariaDB's WITH SYSTEM VERSIONING, which versions the table.
    pub(super) versioned: bool,
}

impl ColumnDef {
    /// The keys its attributes make. Measured: of UNIQUE PRIMARY KEY MariaDB makes the primary key only.
    pub(super) fn keys(&self, context: &Context<'_>) -> impl Iterator<Item = KeyDef> {
        let primary = self.primary.then_some(KeyKind::Primary);
        let unique = (self.unique && !(self.primary && context.mariadb)).then_some(KeyKind::Unique);
        let name = self.name.clone();
        [primary, unique].into_iter().flatten().map(move |kind| KeyDef::of_column(kind, name.clone()))
    }

    /// Is it the column of this time of a row?
    pub(super) fn is_row_time(&self, time: RowTime) -> bool {
        self.generated.as_ref() == Some(&time.generated())
    }

    /// Does its type round or cut what is stored, in a way that the type does not show?
    pub(super) fn rounds(&self) -> bool {
        self.ty.rounds
    }

    /// TEXT, MEDIUMBLOB .. without a length. Measured on 9.7: changed in the same statement as CONVERT TO, such
    /// a column comes out as TINYTEXT, or as TEXT, whatever it says; TINYBLOB and BLOB just so.
    pub(super) fn is_unsized_lob(&self) -> bool {
        use types::RawType;
        matches!(self.ty.raw, RawType::Text { length: None, .. } | RawType::Fixed(ColumnType::Blob { .. }))
    }

    /// The column in an ALTER TABLE. CONVERT TO CHARACTER SET overrules what a text column says of itself,
    /// but for its BINARY attribute.
    pub(super) fn finish_in_alter(
        mut self,
        table: &Charset,
        converts: bool,
        context: &Context<'_>,
    ) -> Parsed<Column> {
        if !converts {
            return self.finish(table, context);
        }
        let column = self.clone().finish(table, context)?;
        if column.ty.charset().is_none_or(|own| &*own.name == "binary") {
            return Ok(column);
        }
        // Of `CHARACTER SET x BINARY` a collation was made at once; BINARY alone waits.
        self.binary &= self.charset.is_none();
        self.ty.charset = None;
        self.charset = None;
        self.collation = None;
        self.finish(table, context)
    }

    /// The column, in a table with this default character set. Keys make it NOT NULL elsewhere.
    pub(super) fn finish(self, table: &Charset, context: &Context<'_>) -> Parsed<Column> {
        let name = self.name;
        let unsupported = |code, what: String| Failure::new(code, format!("the column \"{name}\" {what}"));
        let own = self.charset.is_some() || self.collation.is_some();
        // NATIONAL CHAR names a set, and takes the collation it has by default on this server.
        let implied = self.ty.charset.clone().map(|implied| match &*implied.name {
            "utf8mb3" => charset::of_name("utf8mb3", context).unwrap_or(implied),
            _ => implied,
        });
        let charset = match &implied {
            Some(implied) if !own => implied.clone(),
            implied => {
                let inherited = implied.as_ref().unwrap_or(table);
                charset::resolve(self.charset.as_deref(), self.collation.as_deref(), inherited, context)
                    .map_err(|unknown| {
                        let what =
                            format!("has the character set or collation \"{unknown}\", which is not known");
                        unsupported(codes::CHARSET_UNSUPPORTED, what)
                    })?
            }
        };
        let charset = if self.binary { charset::binary_collation(&charset) } else { charset };
        let mut ty = self.ty.raw.finish(charset, context).map_err(|word| {
            unsupported(codes::TYPE_UNSUPPORTED, format!("has {word}, which is not copied yet"))
        })?;
        if let ColumnType::Geometry { srid, .. } = &mut ty {
            *srid = self.srid;
        }
        let timestamp = matches!(ty, ColumnType::Timestamp { .. }) && !context.explicit_timestamp;
        let not_null = timestamp && self.generated.is_none();
        let default = self.default.as_ref().filter(|value| !is_no_default(value, &ty, context));
        let default = default.map(|value| default::write(value, &ty));
        Ok(Column {
            name,
            // AUTO_INCREMENT is NOT NULL even where the definition says NULL, PRIMARY KEY even where IF NOT EXISTS
            // leaves the key out.
            nullable: !self.auto_increment && !self.primary && self.null.unwrap_or(!not_null),
            default,
            auto_increment: self.auto_increment,
            generated: self.generated,
            invisible: self.invisible,
            comment: self.comment,
            ty,
        })
    }
}

/// Without strict mode MySQL takes DEFAULT '' of a type that can have no literal for its default, and forgets it.
fn is_no_default(value: &DefaultValue, ty: &ColumnType, context: &Context<'_>) -> bool {
    let takes_none = matches!(
        ty,
        ColumnType::Text { .. }
            | ColumnType::Blob { .. }
            | ColumnType::Json
            | ColumnType::Geometry { .. }
            | ColumnType::Vector { .. }
    );
    !context.mariadb && takes_none && matches!(value, DefaultValue::Text(text) if text.is_empty())
}

/// `name type attributes`, up to what ends a column's definition.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Parsed<ColumnDef> {
    let name: Arc<str> = cursor.column()?.as_ref().into();
    parse_behind_name(cursor, name)
}

/// `type attributes` of a column of this name.
pub(super) fn parse_behind_name(cursor: &mut Cursor<'_>, name: Arc<str>) -> Parsed<ColumnDef> {
    let ty = types::parse(cursor)?;
    let serial = ty.serial;
    let mut def = ColumnDef {
        name,
        ty,
        charset: None,
        collation: None,
        binary: false,
        null: serial.then_some(false),
        default: None,
        auto_increment: serial,
        generated: None,
        invisible: false,
        comment: String::new(),
        srid: None,
        primary: false,
        unique: serial,
        versioned: false,
    };
    while attribute(cursor, &mut def)? {}
    Ok(def)
}

/// One attribute; false if something else stands in front.
fn attribute(cursor: &mut Cursor<'_>, def: &mut ColumnDef) -> Parsed<bool> {
    if cursor.accept_all(&["NOT", "NULL"]) {
        def.null = Some(false);
    } else if cursor.accept("NULL") {
        def.null = Some(true);
    } else if cursor.accept("DEFAULT") {
        def.default = default::parse(cursor)?;
    } else if cursor.accept_all(&["ON", "UPDATE"]) {
        default::now(cursor)?;
    } else if cursor.accept("AUTO_INCREMENT") {
        def.auto_increment = true;
    } else if cursor.accept_all(&["SERIAL", "DEFAULT", "VALUE"]) {
        def.auto_increment = true;
        def.unique = true;
        def.null = Some(false);
    } else if cursor.accept("UNIQUE") {
        cursor.accept("KEY");
        def.unique = true;
    } else if cursor.accept("PRIMARY") {
        cursor.accept("KEY");
        def.primary = true;
    } else if cursor.accept("KEY") {
        def.primary = true;
    } else if cursor.accept("COMMENT") {
        cursor.accept_symbol(b'=');
        def.comment = cursor.text()?.into_owned();
    } else if cursor.accept("INVISIBLE") {
        def.invisible = true;
    } else if cursor.accept("VISIBLE") {
        def.invisible = false;
    } else if cursor.accept_all(&["WITH", "SYSTEM", "VERSIONING"]) {
        def.versioned = true;
    } else if cursor.accept_any(&["SRID", "REF_SYSTEM_ID"]) {
        cursor.accept_symbol(b'=');
        def.srid = Some(cursor.number()?.min(u64::from(u32::MAX)) as u32);
    } else {
        return Ok(character_set(cursor, def)? || generated(cursor, def)? || passed_over(cursor)?);
    }
    Ok(true)
}

/// CHARACTER SET, COLLATE and their short forms.
fn character_set(cursor: &mut Cursor<'_>, def: &mut ColumnDef) -> Parsed<bool> {
    if charset_words(cursor) {
        def.charset = Some(cursor.name_or_text()?.into_owned());
    } else if cursor.accept_all(&["COLLATE", "DEFAULT"]) {
        // MariaDB: the character set's own.
        def.collation = None;
    } else if cursor.accept("COLLATE") {
        def.collation = Some(cursor.name_or_text()?.into_owned());
    } else if cursor.accept("ASCII") {
        def.charset = Some("latin1".to_owned());
    } else if cursor.accept("UNICODE") {
        def.charset = Some("ucs2".to_owned());
    } else if cursor.accept("BYTE") {
        def.charset = Some("binary".to_owned());
    } else if cursor.is("BINARY") && def.ty.raw.is_text() {
        cursor.advance();
        def.binary = true;
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// `CHARACTER SET`, `CHAR SET` or `CHARSET`.
pub(super) fn charset_words(cursor: &mut Cursor<'_>) -> bool {
    cursor.accept("CHARSET")
        || cursor.accept_all(&["CHARACTER", "SET"])
        || cursor.accept_all(&["CHAR", "SET"])
}

/// `[GENERATED ALWAYS] AS (..) [VIRTUAL | STORED]`.
fn generated(cursor: &mut Cursor<'_>, def: &mut ColumnDef) -> Parsed<bool> {
    let full = cursor.accept_all(&["GENERATED", "ALWAYS", "AS"]);
    if !full && !cursor.accept("AS") {
        return Ok(false);
    }
    if cursor.accept("ROW") {
        let time = if cursor.accept("START") {
            RowTime::Start
        } else if cursor.accept("END") {
            RowTime::End
        } else {
            return Err(cursor.unexpected("START or END"));
        };
        def.generated = Some(time.generated());
        def.null = Some(false);
        return Ok(true);
    }
    let expression = cursor.group()?.to_owned();
    let stored = cursor.accept_any(&["STORED", "PERSISTENT"]);
    if !stored {
        cursor.accept("VIRTUAL");
    }
    def.generated = Some(Generated { expression, stored });
    Ok(true)
}

/// Attributes that say nothing of stored values.
fn passed_over(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    if cursor.accept("CONSTRAINT") {
        if !cursor.is("CHECK") {
            cursor.name("a constraint's name")?;
        }
        if !cursor.is("CHECK") {
            return Err(cursor.unexpected("CHECK"));
        }
    }
    if cursor.accept("CHECK") {
        cursor.group()?;
        enforced(cursor);
    } else if cursor.accept("REFERENCES") {
        references(cursor)?;
    } else if cursor.accept("NOT") {
        cursor.expect("SECONDARY")?;
    } else if cursor.accept_any(&["COLUMN_FORMAT", "STORAGE"]) {
        cursor.name("a format")?;
    } else if cursor.accept_any(&["ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"]) {
        cursor.accept_symbol(b'=');
        cursor.text()?;
    } else if cursor.accept("COMPRESSED") {
        // MariaDB: the row image is compressed, the type says so to its reader.
        if cursor.accept_symbol(b'=') {
            cursor.name("a method")?;
        }
    } else if cursor.accept_all(&["WITHOUT", "SYSTEM", "VERSIONING"]) {
        // Of this column only; its values are the row's of now all the same.
    } else if matches!(cursor.peek().kind, Kind::Word | Kind::Quoted)
        && cursor.second().kind == Kind::Symbol(b'=')
    {
        // MariaDB: options of an engine, `name=value`.
        cursor.advance();
        cursor.advance();
        cursor.advance();
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// `[NOT] ENFORCED`.
pub(super) fn enforced(cursor: &mut Cursor<'_>) {
    if !cursor.accept("ENFORCED") {
        cursor.accept_all(&["NOT", "ENFORCED"]);
    }
}

/// Behind REFERENCES: `t [(columns)] [MATCH x] [ON DELETE x] [ON UPDATE x]`.
pub(super) fn references(cursor: &mut Cursor<'_>) -> Parsed<()> {
    cursor.column()?;
    if cursor.is_symbol(b'(') {
        cursor.group()?;
    }
    loop {
        if cursor.accept("MATCH") {
            cursor.name("FULL, PARTIAL or SIMPLE")?;
        } else if cursor.is("ON") && (cursor.second().is("DELETE") || cursor.second().is("UPDATE")) {
            cursor.advance();
            cursor.advance();
            if cursor.accept("SET") {
                cursor.name("NULL or DEFAULT")?;
            } else if cursor.accept("NO") {
                cursor.expect("ACTION")?;
            } else if !cursor.accept_any(&["CASCADE", "RESTRICT"]) {
                return Err(cursor.unexpected("what to do"));
            }
        } else {
            return Ok(());
        }
    }
}
