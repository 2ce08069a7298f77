//! ALTER TABLE: its actions, read in order. What they do to a table is in [`super::evolve`].

use super::column::{self, ColumnDef};
use super::create::{self, Options};
use super::cursor::{Cursor, Failure, Parsed};
use super::default::{self, DefaultValue};
use super::index::{self, Element, KeyDef, KeyKind};
use super::lexer::Kind;
use super::versioning::{self, HistoryPartitions, Period};
use super::{Work, evolve};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{TableId, codes};
use std::sync::Arc;

/// FIRST or AFTER.
#[derive(Debug, Clone)]
pub(super) enum Place {
    First,
    After(Arc<str>),
}

/// An action that needs the table's structure.
#[derive(Debug)]
pub(super) enum Action {
    Add {
        def: ColumnDef,
        place: Option<Place>,
        if_not_exists: bool,
    },
    Drop {
        column: Arc<str>,
        if_exists: bool,
    },
    /// CHANGE; MODIFY, which takes over the name as it is typed (measured: `MODIFY NAME ..` renames `name`).
    Change {
        column: Arc<str>,
        def: ColumnDef,
        place: Option<Place>,
        if_exists: bool,
    },
    Rename {
        column: Arc<str>,
        to: Arc<str>,
        if_exists: bool,
    },
    /// SET DEFAULT, or DROP DEFAULT.
    Default {
        column: Arc<str>,
        default: Option<DefaultValue>,
        if_exists: bool,
    },
    Visible {
        column: Arc<str>,
        visible: bool,
        if_exists: bool,
    },
    AddKey(KeyDef),
    DropPrimary,
    DropIndex {
        name: Arc<str>,
    },
    RenameIndex {
        name: Arc<str>,
        to: Arc<str>,
    },
    Convert {
        charset: Option<String>,
        collation: Option<String>,
    },
    /// MariaDB: an application-time period, whose columns become NOT NULL.
    AddPeriod {
        period: Period,
        if_not_exists: bool,
    },
    /// There is at most one.
    DropPeriod,
}

/// What becomes of the partitions BY SYSTEM_TIME.
#[derive(Debug, Default, Clone)]
pub(super) enum Partitions {
    /// They stay, or there are none.
    #[default]
    AsTheyWere,
    /// They stay, under names that are not known.
    Renamed,
    /// PARTITION BY, REMOVE PARTITIONING: these, or others than BY SYSTEM_TIME.
    Are(Option<HistoryPartitions>),
}

/// Partitions whose rows are gone.
#[derive(Debug)]
enum Emptied {
    Dropped,
    /// These, or all.
    Truncated(Option<Vec<Arc<str>>>),
}

impl Emptied {
    fn reason(&self) -> &'static str {
        match self {
            Emptied::Dropped => "DROP PARTITION",
            Emptied::Truncated(_) => "TRUNCATE PARTITION",
        }
    }

    /// Did they hold rows that ended, and no others? The server refuses to drop the partition of the rows of
    /// now; it empties it without a word.
    fn only_history(&self, history: &HistoryPartitions) -> bool {
        match self {
            Emptied::Dropped => true,
            Emptied::Truncated(None) => false,
            Emptied::Truncated(Some(names)) => names.iter().all(|name| history.is_history(name)),
        }
    }
}

/// An ALTER TABLE.
#[derive(Debug, Default)]
pub(super) struct Alter {
    pub(super) actions: Vec<Action>,
    pub(super) options: Options,
    /// A character set or collation of the table is named behind CONVERT TO.
    pub(super) charset_behind_convert: bool,
    /// MariaDB: ADD or DROP SYSTEM VERSIONING.
    pub(super) versioning: Option<bool>,
    pub(super) partitions: Partitions,
    rename: Option<TableId>,
    /// What changes rows unseen, and in which other tables.
    unseen: Vec<(&'static str, Option<TableId>)>,
    emptied: Option<Emptied>,
    /// MariaDB: CONVERT PARTITION p TO TABLE t makes t, CONVERT TABLE t TO PARTITION p takes it away.
    made: Option<TableId>,
    dropped: Option<TableId>,
}

/// Behind ALTER .. TABLE.
pub(super) fn table(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<()> {
    work.what = "ALTER TABLE without effect on rows".into();
    cursor.if_exists();
    let id = cursor.table(work.structures)?;
    work.tables.push(id.clone());
    cursor.skip_wait()?;
    let alter = actions(cursor, work)?;
    cursor.expect_end()?;
    if work.structures.is_sequence(&id) {
        return sequence(work, id, alter);
    }
    if alter.options.sequence == Some(true) {
        work.what = "ALTER TABLE that makes a sequence".into();
        if work.structures.table(&id).is_some() {
            work.changes.push(SchemaChange::DropTable { table: id.clone() });
        }
        work.sequence(id, true);
        return Ok(());
    }
    finish(cursor, work, id, alter)
}

/// A sequence has the columns it has; it can get another name.
fn sequence(work: &mut Work<'_>, id: TableId, alter: Alter) -> Parsed<()> {
    work.what = "ALTER TABLE of a sequence".into();
    if alter.options.sequence == Some(false) {
        return Err(Failure::new(codes::DDL_UNSUPPORTED, "a sequence is made a table"));
    }
    if let Some(to) = alter.rename.filter(|to| *to != id) {
        work.tables.push(to.clone());
        work.sequence(id, false);
        work.sequence(to, true);
    }
    Ok(())
}

/// From the actions to the changes.
fn finish(cursor: &Cursor<'_>, work: &mut Work<'_>, id: TableId, alter: Alter) -> Parsed<()> {
    let known = work.structures.table(&id);
    let mut reasons: Vec<String> = Vec::new();
    let mut evolved = None;
    match &known {
        Some(schema) => {
            let indexes = work.structures.indexes(&id);
            let evolution = evolve::evolve(schema, indexes, &alter, cursor.context, work.structures)?;
            work.changes.extend(evolution.changes);
            reasons.extend(evolution.reasons);
            evolved = Some(evolution.definition);
        }
        None if alter.actions.iter().all(|a| matches!(a, Action::AddKey(k) if k.kind == KeyKind::Plain)) => {}
        None => {
            return Err(Failure::new(
                codes::STRUCTURE_UNKNOWN,
                format!("the structure of \"{id}\", which is altered, is not known here"),
            ));
        }
    }
    let mut last = id.clone();
    if let Some(to) = alter.rename.filter(|to| *to != id) {
        work.changes.push(SchemaChange::RenameTable { table: id.clone(), to: to.clone() });
        work.tables.push(to.clone());
        if known.is_none() {
            reasons.push("renamed from a table that is not followed".to_owned());
        }
        last = to;
    }
    if let Some(mut definition) = evolved {
        if let Some(made) = alter.made {
            let mut copy = definition.clone();
            copy.schema.id = made;
            copy.history = None;
            work.create(copy);
        }
        definition.schema.id = last.clone();
        work.fact(&definition);
    }
    if let Some(emptied) = alter.emptied {
        let history = work.structures.history(&id);
        if !history.is_some_and(|history| emptied.only_history(&history)) {
            reasons.push(emptied.reason().to_owned());
        }
    }
    for (reason, other) in alter.unseen {
        reasons.push(reason.to_owned());
        if let Some(other) = other.filter(|other| *other != id) {
            work.changes.push(SchemaChange::ResnapshotTable { table: other, reason: reason.to_owned() });
        }
    }
    if let Some(table) = alter.dropped {
        work.changes.push(SchemaChange::DropTable { table });
    }
    if !reasons.is_empty() {
        work.changes.push(SchemaChange::ResnapshotTable { table: last, reason: reasons.join(", ") });
    }
    Ok(())
}

fn actions(cursor: &mut Cursor<'_>, work: &mut Work<'_>) -> Parsed<Alter> {
    let mut alter = Alter::default();
    while !cursor.at_end() {
        if cursor.accept_symbol(b',') {
            continue;
        }
        action(cursor, work, &mut alter)?;
        // Bounds the time of what no server has let pass; a table has at most 4096 columns.
        if alter.actions.len() > 4 * super::MAX_COLUMNS {
            return Err(cursor.unexpected("no further action"));
        }
    }
    Ok(alter)
}

fn action(cursor: &mut Cursor<'_>, work: &mut Work<'_>, alter: &mut Alter) -> Parsed<()> {
    let second = cursor.second();
    let of_partitions = second.is("PARTITION")
        || cursor.is_any(&["PARTITION", "REMOVE", "UPGRADE"])
        || (cursor.is("CONVERT") && !second.is("TO"));
    if of_partitions {
        return partitions(cursor, work, alter);
    }
    if cursor.accept("ADD") {
        add(cursor, alter)
    } else if cursor.accept("DROP") {
        drop_part(cursor, alter)
    } else if cursor.accept("ALTER") {
        alter_part(cursor, alter)
    } else if cursor.accept("CHANGE") {
        change(cursor, alter, true)
    } else if cursor.accept("MODIFY") {
        change(cursor, alter, false)
    } else if cursor.accept("RENAME") {
        rename(cursor, work, alter)
    } else if cursor.accept_all(&["CONVERT", "TO"]) {
        convert(cursor, alter)
    } else if cursor.accept_all(&["ORDER", "BY"]) {
        order_by(cursor)
    } else if cursor.is_any(&["ENABLE", "DISABLE"]) && second.is("KEYS") {
        cursor.skip_part()
    } else if cursor.is_any(&["DISCARD", "IMPORT"]) && second.is("TABLESPACE") {
        alter.unseen.push(("rows of a tablespace came or went", None));
        cursor.skip_part()
    } else if cursor.is_any(&["FORCE", "SECONDARY_LOAD", "SECONDARY_UNLOAD", "NOWAIT"])
        || (cursor.is_any(&["WITH", "WITHOUT"]) && second.is("VALIDATION"))
    {
        cursor.skip_part()
    } else {
        let names_charset = cursor.is_any(&["DEFAULT", "CHARACTER", "CHARSET", "CHAR", "COLLATE"]);
        if names_charset {
            let is_convert = |action: &Action| matches!(action, Action::Convert { .. });
            alter.charset_behind_convert = alter.actions.iter().any(is_convert);
        }
        create::option(cursor, &mut alter.options)
    }
}

/// Statements about partitions stand alone.
fn partitions(cursor: &mut Cursor<'_>, work: &mut Work<'_>, alter: &mut Alter) -> Parsed<()> {
    if cursor.accept("DROP") {
        alter.emptied = Some(Emptied::Dropped);
    } else if cursor.accept("TRUNCATE") {
        alter.emptied = Some(Emptied::Truncated(truncated(cursor)?));
    } else if cursor.accept_all(&["PARTITION", "BY"]) {
        alter.partitions = Partitions::Are(versioning::system_time(cursor)?);
    } else if cursor.accept("REMOVE") {
        alter.partitions = Partitions::Are(None);
    } else if cursor.accept("REORGANIZE") {
        alter.partitions = Partitions::Renamed;
    } else if cursor.is_any(&["DISCARD", "IMPORT"]) {
        alter.unseen.push(("rows of a partition's tablespace came or went", None));
    } else if cursor.accept("EXCHANGE") {
        cursor.expect("PARTITION")?;
        cursor.name("a partition's name")?;
        cursor.expect("WITH")?;
        cursor.expect("TABLE")?;
        let other = cursor.table(work.structures)?;
        work.tables.push(other.clone());
        alter.unseen.push(("EXCHANGE PARTITION", Some(other)));
    } else if cursor.accept_all(&["CONVERT", "PARTITION"]) {
        cursor.name("a partition's name")?;
        cursor.expect("TO")?;
        cursor.expect("TABLE")?;
        let other = cursor.table(work.structures)?;
        work.tables.push(other.clone());
        alter.made = Some(other.clone());
        alter.unseen.push(("CONVERT PARTITION", Some(other)));
    } else if cursor.accept_all(&["CONVERT", "TABLE"]) {
        let other = cursor.table(work.structures)?;
        work.tables.push(other.clone());
        alter.dropped = Some(other);
        alter.unseen.push(("CONVERT TABLE TO PARTITION", None));
    } else if !cursor.is_any(&[
        "ADD",
        "ANALYZE",
        "CHECK",
        "COALESCE",
        "OPTIMIZE",
        "REBUILD",
        "REPAIR",
        "UPGRADE",
        "SECONDARY_LOAD",
        "SECONDARY_UNLOAD",
    ]) {
        return Err(cursor.unexpected("an action on partitions"));
    }
    while !cursor.at_end() {
        if cursor.peek().kind == Kind::Unterminated {
            return Err(cursor.unexpected("a partition"));
        }
        cursor.advance();
    }
    Ok(())
}

/// Behind TRUNCATE: `PARTITION {ALL | names}`.
fn truncated(cursor: &mut Cursor<'_>) -> Parsed<Option<Vec<Arc<str>>>> {
    cursor.expect("PARTITION")?;
    if cursor.accept("ALL") {
        return Ok(None);
    }
    let mut names = Vec::new();
    loop {
        names.push(shared(cursor.name("a partition's name")?));
        if !cursor.accept_symbol(b',') {
            return Ok(Some(names));
        }
    }
}

fn shared(name: std::borrow::Cow<'_, str>) -> Arc<str> {
    Arc::from(&*name)
}

fn place(cursor: &mut Cursor<'_>) -> Parsed<Option<Place>> {
    if cursor.accept("FIRST") {
        return Ok(Some(Place::First));
    }
    if cursor.accept("AFTER") {
        return Ok(Some(Place::After(shared(cursor.column()?))));
    }
    Ok(None)
}

/// The keys of a column's attributes. Measured: where IF [NOT] EXISTS leaves the column out, they are made all the
/// same, unless there is one of the name.
fn keys(def: &ColumnDef, cursor: &Cursor<'_>, conditional: bool) -> Vec<KeyDef> {
    let mut keys: Vec<KeyDef> = def.keys(cursor.context).collect();
    keys.iter_mut().for_each(|key| key.if_not_exists = conditional);
    keys
}

fn add_column(cursor: &mut Cursor<'_>, alter: &mut Alter, if_not_exists: bool) -> Parsed<()> {
    let def = column::parse(cursor)?;
    let place = place(cursor)?;
    let keys = keys(&def, cursor, if_not_exists);
    alter.actions.push(Action::Add { def, place, if_not_exists });
    alter.actions.extend(keys.into_iter().map(Action::AddKey));
    Ok(())
}

fn add(cursor: &mut Cursor<'_>, alter: &mut Alter) -> Parsed<()> {
    let explicit = cursor.accept("COLUMN");
    let if_not_exists = cursor.if_not_exists();
    if cursor.accept_symbol(b'(') {
        loop {
            if index::is_in_front(cursor) {
                element(cursor, alter)?;
            } else {
                add_column(cursor, alter, if_not_exists)?;
            }
            if alter.actions.len() > 4 * super::MAX_COLUMNS {
                return Err(cursor.unexpected("no further column"));
            }
            if !cursor.accept_symbol(b',') {
                return cursor.expect_symbol(b')');
            }
        }
    }
    if !explicit && cursor.is("SYSTEM") && cursor.second().is("VERSIONING") {
        cursor.advance();
        cursor.advance();
        alter.versioning = Some(true);
        return Ok(());
    }
    if !explicit && index::is_in_front(cursor) {
        return element(cursor, alter);
    }
    add_column(cursor, alter, if_not_exists)
}

/// A key, a constraint or a period that is added.
fn element(cursor: &mut Cursor<'_>, alter: &mut Alter) -> Parsed<()> {
    match index::parse(cursor)? {
        Element::Key(key) => alter.actions.push(Action::AddKey(key)),
        Element::Period { period, if_not_exists } => {
            alter.actions.push(Action::AddPeriod { period, if_not_exists });
        }
        Element::Nothing => {}
    }
    Ok(())
}

fn drop_part(cursor: &mut Cursor<'_>, alter: &mut Alter) -> Parsed<()> {
    let second = cursor.second();
    if cursor.accept("PRIMARY") {
        cursor.expect("KEY")?;
        alter.actions.push(Action::DropPrimary);
    } else if cursor.accept_any(&["INDEX", "KEY", "CONSTRAINT"]) {
        cursor.if_exists();
        let name = shared(cursor.name("an index's name")?);
        alter.actions.push(Action::DropIndex { name });
    } else if cursor.accept("FOREIGN") {
        cursor.expect("KEY")?;
        cursor.if_exists();
        cursor.name("a key's name")?;
    } else if cursor.accept("CHECK") {
        cursor.name("a constraint's name")?;
    } else if cursor.is("PERIOD") && (second.is("FOR") || second.is("IF")) {
        cursor.advance();
        cursor.if_exists();
        cursor.expect("FOR")?;
        if !cursor.is("SYSTEM_TIME") {
            alter.actions.push(Action::DropPeriod);
        }
        cursor.name("a period's name")?;
    } else if cursor.accept_all(&["SYSTEM", "VERSIONING"]) {
        alter.versioning = Some(false);
    } else {
        cursor.accept("COLUMN");
        let if_exists = cursor.if_exists();
        let column = shared(cursor.column()?);
        cursor.accept_any(&["RESTRICT", "CASCADE"]);
        alter.actions.push(Action::Drop { column, if_exists });
    }
    Ok(())
}

fn alter_part(cursor: &mut Cursor<'_>, alter: &mut Alter) -> Parsed<()> {
    if cursor.is_any(&["INDEX", "KEY", "CHECK", "CONSTRAINT"]) {
        return cursor.skip_part();
    }
    cursor.accept("COLUMN");
    let if_exists = cursor.if_exists();
    let column = shared(cursor.column()?);
    let action = if cursor.accept_all(&["SET", "DEFAULT"]) {
        Action::Default { column, default: default::parse(cursor)?, if_exists }
    } else if cursor.accept_all(&["DROP", "DEFAULT"]) {
        Action::Default { column, default: None, if_exists }
    } else if cursor.accept_all(&["SET", "VISIBLE"]) {
        Action::Visible { column, visible: true, if_exists }
    } else if cursor.accept_all(&["SET", "INVISIBLE"]) {
        Action::Visible { column, visible: false, if_exists }
    } else {
        return Err(cursor.unexpected("SET or DROP DEFAULT"));
    };
    alter.actions.push(action);
    Ok(())
}

fn change(cursor: &mut Cursor<'_>, alter: &mut Alter, rename: bool) -> Parsed<()> {
    cursor.accept("COLUMN");
    let if_exists = cursor.if_exists();
    let column = shared(cursor.column()?);
    let name = if rename { shared(cursor.column()?) } else { column.clone() };
    let def = column::parse_behind_name(cursor, name)?;
    let place = place(cursor)?;
    let keys = keys(&def, cursor, if_exists);
    alter.actions.push(Action::Change { column, def, place, if_exists });
    alter.actions.extend(keys.into_iter().map(Action::AddKey));
    Ok(())
}

fn rename(cursor: &mut Cursor<'_>, work: &mut Work<'_>, alter: &mut Alter) -> Parsed<()> {
    if cursor.accept("COLUMN") {
        let if_exists = cursor.if_exists();
        let column = shared(cursor.column()?);
        cursor.expect("TO")?;
        let to = shared(cursor.column()?);
        alter.actions.push(Action::Rename { column, to, if_exists });
    } else if cursor.accept_any(&["INDEX", "KEY"]) {
        cursor.if_exists();
        let name = shared(cursor.name("an index's name")?);
        cursor.expect("TO")?;
        let to = shared(cursor.name("an index's name")?);
        alter.actions.push(Action::RenameIndex { name, to });
    } else {
        if !cursor.accept_any(&["TO", "AS"]) {
            cursor.accept_symbol(b'=');
        }
        alter.rename = Some(cursor.table(work.structures)?);
    }
    Ok(())
}

/// Behind CONVERT TO.
fn convert(cursor: &mut Cursor<'_>, alter: &mut Alter) -> Parsed<()> {
    if !column::charset_words(cursor) {
        return Err(cursor.unexpected("CHARACTER SET"));
    }
    cursor.accept_symbol(b'=');
    let charset = if cursor.accept("DEFAULT") { None } else { Some(cursor.name_or_text()?.into_owned()) };
    let mut collation = None;
    if cursor.accept("COLLATE") {
        cursor.accept_symbol(b'=');
        if !cursor.accept("DEFAULT") {
            collation = Some(cursor.name_or_text()?.into_owned());
        }
    }
    alter.charset_behind_convert = false;
    alter.actions.push(Action::Convert { charset, collation });
    Ok(())
}

/// Behind ORDER BY: columns, up to a comma with an action behind it.
fn order_by(cursor: &mut Cursor<'_>) -> Parsed<()> {
    loop {
        cursor.column()?;
        cursor.accept_any(&["ASC", "DESC"]);
        let second = cursor.second();
        let action_follows = ["ADD", "DROP", "ALTER", "CHANGE", "CONVERT", "ORDER", "RENAME"];
        if !cursor.is_symbol(b',') || action_follows.iter().any(|w| second.is(w)) {
            return Ok(());
        }
        cursor.advance();
    }
}

/// CREATE INDEX and DROP INDEX are ALTER TABLE with one action.
pub(super) fn with_action(
    cursor: &Cursor<'_>,
    work: &mut Work<'_>,
    id: TableId,
    action: Action,
) -> Parsed<()> {
    let alter = Alter { actions: vec![action], ..Alter::default() };
    finish(cursor, work, id, alter)
}
