//! The tables of a server that a source captures, and their structures.

use super::labels;
use crate::binlog::{LogReader, is_user_database, shadow};
use crate::config::Config;
use crate::conn::{query_error, server_code};
use crate::narrow::Narrow;
use crate::server::Server;
use crate::snapshot::chunk;
use crate::structure::TableStructures;
use crate::{charsets, ddl};
use cdc_core::schema::ColumnType;
use cdc_core::{Charset, Diagnostic, Error, Result, TableId, TableSchema, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::sync::Arc;

/// The tables of a server that a source captures, and what is to be told about them.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// By name, as flows and targets see them.
    pub tables: Vec<Arc<TableSchema>>,
    /// Warnings.
    pub notices: Vec<Diagnostic>,
}

/// Looks for the tables of a source and reads their structures.
///
/// # Errors
/// `NO_TABLES`, `GRANT_MISSING`, `TYPE_UNSUPPORTED`; those of the connection.
pub async fn discover(conn: &mut Conn, config: &Config) -> Result<(TableStructures, Discovery)> {
    let doing = "looking for tables";
    let (sequences, all) = list_tables(conn).await?;
    let mut discovery = Discovery::default();
    for pattern in config.tables.unmatched(&all) {
        discovery.notices.push(
            Diagnostic::warning(
                codes::PATTERN_MATCHES_NOTHING,
                format!("\"{pattern}\" matches no table of the server"),
            )
            .help(format!(
                "check its spelling, and that account \"{}\" may see the table: GRANT SELECT",
                config.account()
            )),
        );
    }
    let mut captured: Vec<TableId> = all.iter().filter(|t| config.tables.contains(t)).cloned().collect();
    if config.trust_online_ddl {
        let real = captured.clone();
        captured.retain(|t| !shadow::is_shadow(t, real.iter()));
    }
    if captured.is_empty() {
        let mut databases: Vec<&str> = all.iter().map(|t| &*t.database).collect();
        databases.dedup();
        return Err(Error::definite(codes::NO_TABLES, "the source's patterns match no table of the server")
            .note(format!(
                "account \"{}\" sees {} tables in {} databases{}",
                config.account(),
                all.len(),
                databases.len(),
                if databases.is_empty() { String::new() } else { format!(": {}", databases.join(", ")) }
            ))
            .help(format!("check tables = [..]; or: GRANT SELECT ON db.* TO '{}'@'%'", config.account())));
    }
    let mut structures = TableStructures::new();
    let server = Server::ask(conn).await?;
    let context = server.context();
    let narrow = Narrow::new(&server);
    let charsets: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> = conn
        .query("SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA")
        .await
        .map_err(|e| query_error(e, doing))?;
    for (database, charset, collation) in charsets {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let collation = ddl::own_name(text(&collation), context.mariadb);
        structures.set_database(text(&database), Charset::new(text(&charset), collation));
    }
    for sequence in sequences {
        structures.set_sequence(sequence, true);
    }
    for table in captured {
        let Some(mut definition) = structure_of(conn, &table, &context, &structures).await? else { continue };
        labels::complete(conn, &server, &mut definition.schema).await?;
        if let Some(by_transactions) = by_transactions(&definition) {
            return Err(by_transactions);
        }
        let schema = structures.insert_definition(definition);
        discovery.notices.extend(without_generated(&schema, &narrow, &server)?);
        discovery.tables.push(config.zero_dates.schema(&narrow.schema(&schema)));
    }
    discovery.notices.extend(unlogged(conn, &server, config).await?);
    charsets::ensure(conn, structures.tables()).await?;
    Ok((structures, discovery))
}

/// The sequences and the tables that the account sees, by name.
pub(super) async fn list_tables(conn: &mut Conn) -> Result<(Vec<TableId>, Vec<TableId>)> {
    let rows: Vec<(Vec<u8>, Vec<u8>, String)> = conn
        .query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES \
             WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') ORDER BY TABLE_SCHEMA, TABLE_NAME",
        )
        .await
        .map_err(|e| query_error(e, "looking for tables"))?;
    let (mut sequences, mut tables) = (Vec::new(), Vec::new());
    for (database, table, ty) in rows {
        let id = TableId::new(String::from_utf8_lossy(&database), String::from_utf8_lossy(&table));
        if is_user_database(&id.database) {
            if ty == "SEQUENCE" { &mut sequences } else { &mut tables }.push(id);
        }
    }
    Ok((sequences, tables))
}

/// What is known at a start in the past.
pub(super) struct Past {
    /// The structures at the start.
    pub(super) known: TableStructures,
    /// Those of now.
    present: Arc<TableStructures>,
}

impl Past {
    pub(super) fn of(&self, log: LogReader) -> LogReader {
        log.learning(self.present.clone())
    }
}

/// As [`discover`], for a start in the past: no table's structure is known there.
pub(super) async fn discover_past(conn: &mut Conn, config: &Config) -> Result<(Past, Discovery)> {
    let (present, discovery) = discover(conn, config).await?;
    Ok((Past { known: present.without_tables(), present: Arc::new(present) }, discovery))
}

/// The present structure of a table; `None` if it is gone.
async fn structure_of(
    conn: &mut Conn,
    table: &TableId,
    context: &ddl::Context<'_>,
    known: &TableStructures,
) -> Result<Option<ddl::Definition>> {
    let name = format!("{}.{}", chunk::quote_name(&table.database), chunk::quote_name(&table.table));
    // any privilege on the table shows its structure; that its rows may be read is found out by reading none
    let readable = conn.query_drop(format!("SELECT * FROM {name} LIMIT 0")).await;
    let shown = match readable {
        Ok(()) => conn.query_first(format!("SHOW CREATE TABLE {name}")).await,
        Err(e) => Err(e),
    };
    let row: Option<mysql_async::Row> = match shown {
        Ok(row) => row,
        Err(e) if matches!(server_code(&e), Some(1146 | 1049)) => return Ok(None),
        Err(e) => {
            return Err(query_error(e, &format!("reading the structure of table \"{table}\"")).help(
                format!("GRANT SELECT ON {}.* TO the source's account", chunk::quote_name(&table.database)),
            ));
        }
    };
    let text: Option<Vec<u8>> = row.and_then(|r| r.get(1));
    let text = text
        .ok_or_else(|| Error::definite(codes::SERVER_ERROR, format!("no structure given for \"{table}\"")))?;
    let text = String::from_utf8(text).map_err(|_| {
        Error::definite(codes::DDL_NOT_UNDERSTOOD, format!("structure of \"{table}\" is not UTF-8 text"))
    })?;
    let mut definition = ddl::parse_definition(&text, &context.clone().in_database(&table.database), known)?;
    definition.schema.id = table.clone();
    Ok(Some(definition))
}

/// What is said of a table whose generated columns are left out.
fn without_generated(
    schema: &Arc<TableSchema>,
    narrow: &Narrow,
    server: &Server,
) -> Result<Option<Diagnostic>> {
    let left_out = narrow.left_out(schema);
    if left_out.is_empty() {
        return Ok(None);
    }
    let names = left_out.join(", ");
    let in_key = |i: &usize| left_out.contains(&schema.columns[*i].name);
    if schema.key().unwrap_or_default().iter().any(in_key) {
        return Err(Error::definite(
            codes::NO_KEY,
            format!(
                "the key of table \"{}\" has generated columns ({names}), which {server} does not log",
                schema.id
            ),
        )
        .help("give it a key of other columns, or leave it out: tables = [.., \"!db.table\"]"));
    }
    let headline = format!("generated columns of table \"{}\" are left out: {names}", schema.id);
    Ok(Some(
        Diagnostic::warning(codes::PARTIAL_IMAGE, headline)
            .note(format!("{server} does not write them into its log when rows change"))
            .help("where they are wanted at the target, compute them there, or in the flow: extend"),
    ))
}

/// What is told at every start of tables that are known: what of them the log does not say.
pub(super) async fn notices(
    conn: &mut Conn,
    server: &Server,
    config: &Config,
    structures: &TableStructures,
) -> Result<Vec<Diagnostic>> {
    let narrow = Narrow::new(server);
    let mut notices = Vec::new();
    for schema in structures.tables() {
        notices.extend(without_generated(schema, &narrow, server)?);
    }
    notices.extend(unlogged(conn, server, config).await?);
    Ok(notices)
}

/// MariaDB logs changes of such a table as statements, whatever `binlog_format` says.
fn by_transactions(definition: &ddl::Definition) -> Option<Error> {
    let ddl::Versioning::Columns { start, .. } = definition.versioning.as_ref()? else { return None };
    let schema = &definition.schema;
    let column = &schema.columns[schema.column_index(start)?];
    matches!(column.ty, ColumnType::Int { .. }).then(|| {
        Error::definite(
            codes::STATEMENT_FORMAT,
            format!("table \"{}\" keeps its history by transactions, whose changes the server logs as statements", schema.id),
        )
        .note(format!("column \"{start}\" is {}, GENERATED ALWAYS AS ROW START", column.ty))
        .help("give it two columns of TIMESTAMP(6) for its rows' times; or leave it out: tables = [.., \"!db.table\"]")
    })
}

/// Changes of captured tables that the server makes behind its log.
async fn unlogged(conn: &mut Conn, server: &Server, config: &Config) -> Result<Vec<Diagnostic>> {
    let mut notices = elsewhere(conn, config).await?;
    if !server.logs_cascades() {
        notices.extend(cascades(conn, server, config).await?);
    }
    Ok(notices)
}

/// Tables whose rows are kept elsewhere: what changes them there the log does not tell under their name, or at all.
async fn elsewhere(conn: &mut Conn, config: &Config) -> Result<Vec<Diagnostic>> {
    let rows: Vec<(Vec<u8>, Vec<u8>, String)> = conn
        .query(
            "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES \
             WHERE ENGINE IN ('MRG_MyISAM', 'FEDERATED', 'SPIDER', 'CONNECT') ORDER BY 1, 2",
        )
        .await
        .map_err(|e| query_error(e, "looking for engines"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut notices = Vec::new();
    for (database, table, engine) in rows {
        let id = TableId::new(text(&database), text(&table));
        if config.tables.contains(&id) {
            notices.push(
                Diagnostic::warning(
                    codes::CASCADE_UNLOGGED,
                    format!("rows of table \"{id}\" are kept elsewhere (ENGINE = {engine}), and what changes them there is not logged"),
                )
                .note("the target keeps such rows as they were")
                .help("copy the tables under it instead, and leave it out: tables = [.., \"!db.table\"]"),
            );
        }
    }
    Ok(notices)
}

/// Rows that a foreign key deletes or changes in a captured table, of which the server's log says nothing: the engine
/// does it behind the log. A replica does it once more by itself; we cannot.
async fn cascades(conn: &mut Conn, server: &Server, config: &Config) -> Result<Vec<Diagnostic>> {
    type ForeignKey = (Vec<u8>, Vec<u8>, Vec<u8>, String, String);
    let rows: Vec<ForeignKey> = conn
        .query(
            "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE \
             FROM information_schema.REFERENTIAL_CONSTRAINTS \
             WHERE DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION') \
             ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME",
        )
        .await
        .map_err(|e| query_error(e, "looking for foreign keys"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut notices = Vec::new();
    for (database, table, name, delete, update) in rows {
        let id = TableId::new(text(&database), text(&table));
        if !config.tables.contains(&id) || !is_user_database(&id.database) {
            continue;
        }
        let rule = |word: &str, rule: String| {
            let plain = matches!(&*rule, "RESTRICT" | "NO ACTION");
            (!plain).then(|| format!("ON {word} {rule}"))
        };
        let rules: Vec<String> =
            [rule("DELETE", delete), rule("UPDATE", update)].into_iter().flatten().collect();
        notices.push(
            Diagnostic::warning(
                codes::CASCADE_UNLOGGED,
                format!(
                    "foreign key \"{}\" of table \"{id}\" acts {}, and {server} does not log the rows it changes",
                    text(&name),
                    rules.join(" and ")
                ),
            )
            .note("the target keeps such rows as they were")
            .help("delete and change the children by statements of their own before the parent; or copy from MySQL 9.6 or later, which logs them"),
        );
    }
    Ok(notices)
}
