//! What a server has for a first file: its tables, which of them can be copied, and why the others cannot.

use cdc_core::plan::pattern::TableSet;
use cdc_core::schema::TableId;
use cdc_core::{Diagnostic, Error, Result, TableSchema, codes};
use cdc_mysql::binlog::is_user_database;
use cdc_mysql::capture::discover;
use cdc_mysql::config::Config;
use cdc_mysql::conn::{connect, query_error};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_mysql::preflight;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The replica ids that are chosen from: above those that people give to servers.
const SERVER_IDS: std::ops::Range<u32> = 5400..9400;

/// What was seen at a server.
#[derive(Debug)]
pub struct Found {
    /// `MySQL 9.7.0`.
    pub version: String,
    /// Settings and privileges that do not do.
    pub failures: Vec<Diagnostic>,
    /// The `tables` of the source, as they were given or a pattern for each database; those that are left out are
    /// not among them.
    pub patterns: Vec<String>,
    /// By name.
    pub taken: Vec<Taken>,
    /// By name.
    pub left_out: Vec<LeftOut>,
    /// Replica ids that somebody has.
    pub server_ids: BTreeSet<u32>,
}

/// A table that is copied.
#[derive(Debug)]
pub struct Taken {
    /// Its name.
    pub id: TableId,
    /// The columns of its key.
    pub key: Vec<String>,
    /// Rows that the server reckons with.
    pub rows: Option<u64>,
    /// The server's CREATE TABLE.
    pub create: String,
}

/// A table that is not.
#[derive(Debug)]
pub struct LeftOut {
    /// Its name.
    pub id: TableId,
    /// In a few words.
    pub reason: String,
}

impl Found {
    /// The databases of the tables that are taken.
    pub fn databases(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.taken.iter().map(|t| &*t.id.database).collect();
        names.dedup();
        names
    }

    /// All names of the source are of this database: targets need not be told apart by it.
    pub fn only_database(&self) -> Option<String> {
        TableSet::parse(&self.patterns).ok()?.only_database().map(str::to_owned)
    }

    /// What a file of these tables is called.
    pub fn name(&self) -> String {
        match self.databases()[..] {
            [one] => plain_name(one),
            _ => "copy".to_owned(),
        }
    }

    /// A replica id for a pipeline of this name: the same at every call, and most likely another one than that of
    /// the next pipeline.
    pub fn server_id(&self, name: &str) -> u32 {
        let hash = name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let all = SERVER_IDS.end - SERVER_IDS.start;
        let at = |step: u32| SERVER_IDS.start + (hash % all + step) % all;
        (0..all).map(at).find(|id| !self.server_ids.contains(id)).unwrap_or(SERVER_IDS.start)
    }
}

/// Letters, digits, `-` and `_`, so that it can be a file's name and a pipeline's.
pub fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Looks at a server.
///
/// # Errors
/// Those of the connection; `SERVER_UNSUPPORTED`; `MALFORMED_PATTERN`; `NO_TABLES` if none can be copied.
pub fn look(url: &str, user: &str, password: Option<&str>, patterns: &[String]) -> Result<Found> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::definite(codes::INTERNAL, format!("no runtime for input and output: {e}")))?;
    let every = ["*.*".to_owned()];
    let given = if patterns.is_empty() { &every } else { patterns };
    let config = Config::new(url, user, password, given)?;
    runtime.block_on(async {
        let mut conn = connect(&config).await?;
        let found = ask(&mut conn, &config, patterns).await;
        // the answers are there; whether the server hears the goodbye does not matter
        let _ = conn.disconnect().await;
        found
    })
}

async fn ask(conn: &mut Conn, config: &Config, given: &[String]) -> Result<Found> {
    let (server, checks) = preflight::check(conn, config).await?;
    let listed = tables(conn).await?;
    let wanted: Vec<&TableId> = listed.keys().filter(|id| config.tables.contains(id)).collect();
    let mut found = Found {
        version: server.to_string(),
        failures: preflight::failures(&checks),
        patterns: given.to_vec(),
        taken: Vec::new(),
        left_out: Vec::new(),
        server_ids: server_ids(conn).await,
    };
    for (id, judged) in judge(conn, config, &wanted).await? {
        match judged {
            Ok(schema) => {
                let create = create_statement(conn, &id).await?;
                let key = schema.key().unwrap_or_default().iter();
                let key = key.map(|i| schema.columns[*i].name.to_string()).collect();
                let rows = listed.get(&id).copied().flatten();
                found.taken.push(Taken { id, key, rows, create });
            }
            Err(reason) => found.left_out.push(LeftOut { id, reason }),
        }
    }
    if found.taken.is_empty() {
        return Err(none_taken(&found, config));
    }
    if given.is_empty() {
        found.patterns = covering(&found.taken);
    }
    keep_names_apart(&mut found);
    Ok(found)
}

/// The tables that the account sees, each with the rows that the server reckons with.
async fn tables(conn: &mut Conn) -> Result<BTreeMap<TableId, Option<u64>>> {
    // numbers of now, where the server keeps them for a day; one that does not know this has them anyway
    let _ = conn.query_drop("SET SESSION information_schema_stats_expiry = 0").await;
    let rows: Vec<(Vec<u8>, Vec<u8>, Option<u64>)> = conn
        .query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES \
             WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')",
        )
        .await
        .map_err(|e| query_error(e, "looking for tables"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let tables = rows.into_iter().map(|(d, t, rows)| (TableId::new(text(&d), text(&t)), rows));
    Ok(tables.filter(|(id, _)| is_user_database(&id.database)).collect())
}

/// The ids of the server and of those that read its log; none where the account may not ask.
async fn server_ids(conn: &mut Conn) -> BTreeSet<u32> {
    let mut ids = BTreeSet::new();
    for sql in ["SELECT @@server_id", "SHOW REPLICAS", "SHOW SLAVE HOSTS"] {
        let rows: Vec<Row> = conn.query(sql).await.unwrap_or_default();
        ids.extend(rows.iter().filter_map(|row| row.get_opt::<u32, _>(0)?.ok()));
    }
    ids
}

type Judged = Vec<(TableId, Result<Arc<TableSchema>, String>)>;

/// What the source says to each table. All are looked at in one go; where that does not succeed, one by one, so
/// that each has a reason of its own.
async fn judge(conn: &mut Conn, config: &Config, wanted: &[&TableId]) -> Result<Judged> {
    let mut judged = Vec::new();
    match discover(conn, config).await {
        Ok((_, discovery)) => {
            judged.extend(discovery.tables.into_iter().map(|schema| (schema.id.clone(), decoded(schema))));
        }
        Err(error) if error.is_transient() => return Err(error),
        Err(_) => {
            for id in wanted {
                let pattern = [format!("{}.{}", quoted(&id.database), quoted(&id.table))];
                let one = Config { tables: tables_of(&pattern)?, ..config.clone() };
                match discover(conn, &one).await {
                    Ok((_, discovery)) => {
                        judged.extend(discovery.tables.into_iter().map(|s| (s.id.clone(), decoded(s))));
                    }
                    Err(error) if error.is_transient() => return Err(error),
                    // dropped just now
                    Err(error) if error.code() == codes::NO_TABLES => {}
                    Err(error) => judged.push(((*id).clone(), Err(reason(&error)))),
                }
            }
        }
    }
    judged.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(judged)
}

/// A pattern for each database, and one for each table that this does not match: one with a dot in its name.
fn covering(taken: &[Taken]) -> Vec<String> {
    let mut patterns = Vec::new();
    for table in taken {
        let TableId { database, table } = &table.id;
        let all = format!("{}.*", quoted(database));
        if table.contains('.') {
            patterns.push(format!("{}.{}", quoted(database), quoted(table)));
        } else if !patterns.contains(&all) {
            patterns.push(all);
        }
    }
    patterns.sort();
    patterns
}

/// What only reading the rows would find.
fn decoded(schema: Arc<TableSchema>) -> Result<Arc<TableSchema>, String> {
    ResultDecoder::new(&schema).map_err(|error| reason(&error))?;
    Ok(schema)
}

fn reason(error: &Error) -> String {
    error.diagnostic().headline.clone()
}

fn tables_of(patterns: &[String]) -> Result<TableSet> {
    TableSet::parse(patterns).map_err(|(_, why)| Error::definite(codes::MALFORMED_PATTERN, why))
}

async fn create_statement(conn: &mut Conn, id: &TableId) -> Result<String> {
    let name = |name: &str| format!("`{}`", name.replace('`', "``"));
    let sql = format!("SHOW CREATE TABLE {}.{}", name(&id.database), name(&id.table));
    let row: Option<Row> =
        conn.query_first(sql).await.map_err(|e| query_error(e, "reading the structure of a table"))?;
    let text: Option<Vec<u8>> = row.and_then(|row| row.get(1));
    text.and_then(|text| String::from_utf8(text).ok()).ok_or_else(|| {
        Error::definite(codes::SERVER_ERROR, format!("the server gave no structure of table \"{id}\""))
    })
}

fn none_taken(found: &Found, config: &Config) -> Error {
    let error = Error::definite(codes::NO_TABLES, "the server has no table that can be copied");
    let error =
        found.left_out.iter().take(10).fold(error, |error, table| {
            error.note(format!("table \"{}\" cannot: {}", table.id, table.reason))
        });
    error.help(format!(
        "check --tables, and that account \"{}\" sees the tables: GRANT SELECT ON db.* TO '{}'@'%'",
        config.account(),
        config.account()
    ))
}

/// Leaves out tables whose name at the target another one has, or that SQLite or cdc keep for themselves. SQLite
/// compares names without their letter case.
fn keep_names_apart(found: &mut Found) {
    let one = found.only_database().is_some();
    let mut names = BTreeMap::new();
    let (mut taken, mut left_out) = (Vec::new(), std::mem::take(&mut found.left_out));
    for table in std::mem::take(&mut found.taken) {
        let name = if one {
            table.id.table.to_string()
        } else {
            format!("{}_{}", table.id.database, table.id.table)
        };
        let name = name.to_lowercase();
        let reason = if name.starts_with("sqlite_") || name.starts_with("_cdc_") {
            Some(format!("a table of the target cannot be named \"{name}\""))
        } else {
            names.get(&name).map(|other| format!("it and \"{other}\" would be one table of the target"))
        };
        match reason {
            Some(reason) => left_out.push(LeftOut { id: table.id, reason }),
            None => {
                names.insert(name, table.id.clone());
                taken.push(table);
            }
        }
    }
    left_out.sort_by(|a, b| a.id.cmp(&b.id));
    (found.taken, found.left_out) = (taken, left_out);
}

/// A name as a part of a pattern: in backticks where it could be read as something else.
pub fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A table that is taken.
    pub fn taken(database: &str, table: &str) -> Taken {
        Taken {
            id: TableId::new(database, table),
            key: vec!["id".into()],
            rows: Some(1204),
            create: format!(
                "CREATE TABLE `{table}` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB"
            ),
        }
    }

    /// A server with these tables.
    pub fn found(patterns: &[&str], tables: Vec<Taken>) -> Found {
        Found {
            version: "MySQL 9.7.4".into(),
            failures: Vec::new(),
            patterns: patterns.iter().map(ToString::to_string).collect(),
            taken: tables,
            left_out: Vec::new(),
            server_ids: BTreeSet::new(),
        }
    }

    #[test]
    fn patterns_of_odd_names_match_them() {
        for (database, table) in
            [("shop", "orders"), ("a.b", "c*d"), ("!x", "/y/"), ("q`q", "?"), ("größe", "a b")]
        {
            let set = tables_of(&[format!("{}.{}", quoted(database), quoted(table))]).expect("a pattern");
            assert!(set.contains(&TableId::new(database, table)), "{database}.{table}");
            assert!(!set.contains(&TableId::new(database, "other")));
        }
    }

    #[test]
    fn every_table_that_is_taken_is_covered() {
        let tables = [("b", "t"), ("a", "t.u"), ("a", "t"), ("a", "v"), ("c.d", "x.y")];
        let tables: Vec<Taken> = tables.iter().map(|(d, t)| taken(d, t)).collect();
        let patterns = covering(&tables);
        assert_eq!(patterns, ["`c.d`.`x.y`", "a.*", "a.`t.u`", "b.*"]);
        let set = tables_of(&patterns).expect("patterns");
        assert!(tables.iter().all(|t| set.contains(&t.id)));
    }

    #[test]
    fn names_that_meet_at_the_target_are_kept_apart() {
        let mut one = found(
            &["shop.*"],
            vec![taken("shop", "Orders"), taken("shop", "orders"), taken("shop", "_cdc_x")],
        );
        keep_names_apart(&mut one);
        assert_eq!(one.taken.len(), 1);
        let left: Vec<String> = one.left_out.iter().map(|t| t.id.to_string()).collect();
        assert_eq!(left, ["shop._cdc_x", "shop.orders"]);
        let mut several =
            found(&["a.*", "a_b.*"], vec![taken("a", "b_c"), taken("a_b", "c"), taken("a_b", "d")]);
        keep_names_apart(&mut several);
        assert_eq!((several.taken.len(), several.left_out.len()), (2, 1));
    }

    #[test]
    fn replica_ids_are_free_and_their_own() {
        let mut server = found(&["shop.*"], vec![taken("shop", "t")]);
        let first = server.server_id("shop");
        assert_eq!(first, server.server_id("shop"));
        assert_ne!(first, server.server_id("crm"));
        server.server_ids.insert(first);
        assert_ne!(first, server.server_id("shop"));
        assert!(SERVER_IDS.contains(&server.server_id("shop")));
    }

    #[test]
    fn a_file_is_named_after_its_database() {
        assert_eq!(found(&["shop.*"], vec![taken("shop", "a"), taken("shop", "b")]).name(), "shop");
        assert_eq!(found(&["a/b.*"], vec![taken("a/b", "t")]).name(), "a_b");
        assert_eq!(found(&["*.*"], vec![taken("a", "t"), taken("b", "t")]).name(), "copy");
    }
}
