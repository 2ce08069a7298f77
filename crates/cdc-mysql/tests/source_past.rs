//! Starts in the past: structures that the log itself tells (acceptance cases 21, 22), and the three time lines of the
//! specification's section on decoding, in which structures come with the checkpoint.

mod common;

use anyhow::{Context, Result, bail, ensure};
use cdc_core::schema::{Column, ColumnType};
use cdc_core::schema_change::SchemaChange;
use cdc_core::{Error, TableId, TableSchema, Value, codes};
use cdc_mysql::binlog::RowChange;
use cdc_mysql::binlog::metadata::charset_of;
use cdc_mysql::capture::{Capture, CaptureItem, CaptureState, discover};
use cdc_mysql::config::{Config, StartMode};
use cdc_mysql::gtid::GtidSet;
use cdc_mysql::server::Flavor;
use cdc_testkit::proxy::Proxy;
use cdc_testkit::servers::{Server, ServerOptions};
use common::{Copy, config, config_at, initial, server};
use std::sync::Arc;

fn executed(server: &Server) -> Result<GtidSet> {
    Ok(GtidSet::parse(&server.executed()?)?)
}

/// A server without full metadata.
fn minimal() -> Result<Server> {
    Server::start(ServerOptions::of_this_run().with("--binlog-row-metadata=MINIMAL"))
}

fn from(mut config: Config, start: StartMode) -> Config {
    config.start = start;
    config
}

/// What a capture gives out up to now, in order: a line for each row and each schema change.
struct Told {
    lines: Vec<String>,
    rows: Vec<(Arc<TableSchema>, RowChange)>,
    states: Vec<CaptureState>,
}

async fn told(server: &Server, config: Config) -> Result<Told> {
    let mut capture = Capture::start(config).await?;
    ensure!(capture.schemas().next().is_none(), "a structure is known at the start");
    follow(server, &mut capture).await
}

async fn follow(server: &Server, capture: &mut Capture) -> Result<Told> {
    let end = executed(server)?;
    let mut told = Told { lines: Vec::new(), rows: Vec::new(), states: Vec::new() };
    let mut known: Vec<Arc<TableSchema>> = capture.schemas().collect();
    loop {
        if capture.at_boundary() {
            told.states.push(capture.state());
            if GtidSet::parse(&capture.position().gtids)?.contains_set(&end) {
                return Ok(told);
            }
        }
        let item = tokio::time::timeout(std::time::Duration::from_secs(20), capture.next()).await??;
        match item {
            CaptureItem::Changes { schema, changes, .. } => {
                ensure!(known.contains(&schema), "rows of a structure that was not told: {schema:?}");
                for change in changes {
                    told.lines.push(line(&schema, &change));
                    told.rows.push((schema.clone(), change));
                }
            }
            CaptureItem::Schema { changes, before, after, .. } => {
                known.retain(|k| before.as_ref().is_none_or(|b| b.id != k.id));
                told.lines.extend(changes.iter().map(ToString::to_string));
                if let (Some(before), Some(after)) = (&before, &after) {
                    check_leads(&changes, before, after)?;
                }
                if let Some(after) = after {
                    known.retain(|k| k.id != after.id);
                    known.push(after);
                }
            }
            CaptureItem::TransactionEnd | CaptureItem::Moved | CaptureItem::Notice(_) => {}
            other => bail!("{other:?}"),
        }
    }
}

/// Do the changes lead from the one to the other?
fn check_leads(changes: &[SchemaChange], before: &TableSchema, after: &TableSchema) -> Result<()> {
    if changes.iter().any(|c| matches!(c, SchemaChange::CreateTable { .. })) {
        return Ok(());
    }
    let mut now = before.clone();
    for change in changes {
        now = change.apply_to(&now)?;
    }
    now.version = after.version;
    ensure!(now == *after, "{changes:?} lead to {now:?}, not to {after:?}");
    Ok(())
}

/// `t a=1 b=2 -> a=1 b=3`.
fn line(schema: &TableSchema, change: &RowChange) -> String {
    let image = |row: &Option<cdc_core::Row>| {
        row.as_ref().map_or("-".to_owned(), |row| {
            let columns = schema.columns.iter().enumerate();
            let values: Vec<String> =
                columns.map(|(i, c)| format!("{}={}", c.name, shown(&row.get(i)))).collect();
            values.join(" ")
        })
    };
    format!("{}: {} -> {}", schema.id.table, image(&change.before), image(&change.after))
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Int(n) => n.to_string(),
        Value::UInt(n) => n.to_string(),
        Value::Text(text) if text.len() > 30 => format!("{} bytes", text.len()),
        Value::Text(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

fn expect(told: &Told, expected: &[&str]) -> Result<()> {
    ensure!(told.lines == expected, "{:#?}\nexpected {expected:#?}", told.lines);
    Ok(())
}

async fn refused(server: &Server, config: Config) -> Result<Error> {
    match told(server, config).await {
        Ok(told) => bail!("not refused: {:?}", told.lines),
        Err(error) => Ok(error.downcast::<Error>()?),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_22_old_rows_decode_with_their_old_structure() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE c22; CREATE TABLE c22.t (id INT PRIMARY KEY, a VARCHAR(10) NOT NULL, b INT UNSIGNED)")?;
    let start = executed(server)?;
    server.sql(
        "USE c22; INSERT INTO t VALUES (1, 'one', 1);
         ALTER TABLE t DROP COLUMN a, ADD COLUMN n VARCHAR(9) FIRST;
         INSERT INTO t VALUES ('two', 2, 4000000000);
         ALTER TABLE t RENAME COLUMN b TO c, MODIFY n VARCHAR(20);
         UPDATE t SET n = 'x', c = 3 WHERE id = 2;
         ALTER TABLE t DROP COLUMN n, ADD COLUMN a INT NOT NULL DEFAULT 7",
    )?;
    let config = config(server, &["c22.*"]);
    let told = told(server, from(config.clone(), StartMode::Gtids(start.clone()))).await?;
    expect(
        &told,
        &[
            "create table c22.t with 3 columns",
            "t: - -> id=1 a=one b=1",
            "drop column c22.t.a",
            "add column c22.t.n varchar(9) first",
            "t: - -> n=two id=2 b=4000000000",
            "rename column c22.t.b to c",
            "alter column c22.t.n to varchar(20)",
            "t: n=two id=2 c=4000000000 -> n=x id=2 c=3",
            "drop column c22.t.n",
            "add column c22.t.a int",
        ],
    )?;
    // earliest: the CREATE TABLE is in the log too; a restart at any point gives the rest
    let all = self::told(server, from(config.clone(), StartMode::Earliest)).await?;
    ensure!(all.lines[1..] == told.lines[1..], "{:#?}", all.lines);
    for state in &told.states {
        let state: CaptureState = serde_json::from_str(&serde_json::to_string(state)?)?;
        let mut capture = Capture::resume(config.clone(), &state).await?;
        let rest = follow(server, &mut capture).await?;
        ensure!(told.lines.ends_with(&rest.lines), "{}: {:#?}", state.position, rest.lines);
    }
    let resumed = told.states.len();
    eprintln!("{} lines, resumed at {resumed} positions", told.lines.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_22_without_full_metadata_it_is_refused() -> Result<()> {
    let server = minimal()?;
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); CREATE TABLE d.u (id INT PRIMARY KEY)")?;
    let start = executed(&server)?;
    server.sql(
        "USE d; INSERT INTO u VALUES (1); CREATE TABLE made (id INT PRIMARY KEY); INSERT INTO made VALUES (1);
         ALTER TABLE made ADD COLUMN v INT; INSERT INTO made VALUES (2, 2); ALTER TABLE t ADD COLUMN w INT;
         CREATE TABLE d.other (id INT PRIMARY KEY)",
    )?;
    // what is created behind the start is known, and what has no rows need not be
    let quiet = from(config(&server, &["d.t", "d.made"]), StartMode::Gtids(start.clone()));
    expect(
        &told(&server, quiet.clone()).await?,
        &[
            "create table d.made with 1 columns",
            "made: - -> id=1",
            "add column d.made.v int",
            "made: - -> id=2 v=2",
        ],
    )?;
    server.sql("INSERT INTO d.t VALUES (1, 2, 3)")?;
    for start in [
        StartMode::Gtids(start),
        StartMode::File(server.log_end()?.0, 4),
        StartMode::Timestamp(1_700_000_000_000_000),
        StartMode::Earliest,
    ] {
        let begins_with_everything = !matches!(start, StartMode::Gtids(_));
        let config = from(quiet.clone(), start);
        if begins_with_everything {
            // CREATE TABLE is in the log
            told(&server, config).await?;
            continue;
        }
        let error = refused(&server, config).await?;
        ensure!(error.code() == codes::STRUCTURE_UNKNOWN && !error.is_transient(), "{error}");
        let text = error.to_string();
        for words in ["\"d.t\"", "binlog_row_metadata", "start = initial", "start = latest"] {
            ensure!(text.contains(words), "{words} in {text}");
        }
    }
    Ok(())
}

/// Statements of tables that are not known yet are not applied, and not lost: their outcome comes with the next map.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn statements_in_front_of_the_first_row_are_not_applied_twice() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE p1; USE p1; CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY, x INT);
         CREATE TABLE c (id INT PRIMARY KEY); CREATE TABLE d (id INT PRIMARY KEY); CREATE TABLE e (id INT PRIMARY KEY)",
    )?;
    let start = executed(server)?;
    server.sql(
        "USE p1; ALTER TABLE a ADD COLUMN v INT; CREATE INDEX i ON a (v); INSERT INTO a VALUES (1, 1);
         DROP INDEX i ON a; ALTER TABLE a ADD UNIQUE KEY u (v); INSERT INTO a VALUES (2, 2); ALTER TABLE a DROP COLUMN v;
         INSERT INTO a VALUES (3);
         RENAME TABLE b TO b2; ALTER TABLE b2 CHANGE x y BIGINT; INSERT INTO b2 VALUES (1, 1);
         TRUNCATE c; INSERT INTO c VALUES (1);
         DROP TABLE d; CREATE TABLE d (id BIGINT PRIMARY KEY, w INT); INSERT INTO d VALUES (1, 1);
         RENAME TABLE e TO f; CREATE TABLE e LIKE f; INSERT INTO e VALUES (5); DROP TABLE f",
    )?;
    let told = told(server, from(config(server, &["p1.*"]), StartMode::Gtids(start))).await?;
    expect(
        &told,
        &[
            "create table p1.a with 2 columns",
            "a: - -> id=1 v=1",
            "change unique keys of p1.a",
            "a: - -> id=2 v=2",
            "drop column p1.a.v",
            "a: - -> id=3",
            "create table p1.b2 with 2 columns",
            "b2: - -> id=1 y=1",
            "truncate table p1.c",
            "create table p1.c with 1 columns",
            "c: - -> id=1",
            "drop table p1.d",
            "create table p1.d with 2 columns",
            "d: - -> id=1 w=1",
            "create table p1.e with 1 columns",
            "e: - -> id=5",
        ],
    )
}

/// A statement that is not in the log: the map shows its outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_altered_behind_the_logs_back_is_told() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE p2; CREATE TABLE p2.t (id INT PRIMARY KEY, a INT, b VARCHAR(5), c INT)")?;
    let start = executed(server)?;
    server.sql(
        "USE p2; INSERT INTO t VALUES (1, 1, 'b', 1); SET sql_log_bin = 0;
         ALTER TABLE t DROP COLUMN a, MODIFY c BIGINT NOT NULL AFTER id, ADD COLUMN d DATE; SET sql_log_bin = 1;
         BEGIN; INSERT INTO t VALUES (2, 2, 'b', NULL); INSERT INTO t VALUES (3, 2, 'b', NULL); COMMIT",
    )?;
    let told = told(server, from(config(server, &["p2.*"]), StartMode::Gtids(start))).await?;
    expect(
        &told,
        &[
            "create table p2.t with 4 columns",
            "t: - -> id=1 a=1 b=b c=1",
            "drop column p2.t.a",
            "alter column p2.t.c to bigint",
            "make column p2.t.c not null",
            "add column p2.t.d date after b",
            "t: - -> id=2 c=2 b=b d=NULL",
            "t: - -> id=3 c=2 b=b d=NULL",
        ],
    )
}

/// Tables that are met in the middle of a transaction, one after the other and in one statement.
const MANY: &str =
    "USE p3; BEGIN; INSERT INTO a VALUES (1, 1); INSERT INTO b VALUES (1, 'ü'); INSERT INTO a VALUES (2, 2);
    UPDATE a JOIN b ON a.id = b.id JOIN c ON c.id = a.id SET a.v = 9, b.v = 'y', c.v = 5; COMMIT;
    ALTER TABLE b ADD COLUMN w INT; INSERT INTO b VALUES (7, REPEAT('z', 3000), 7);
    CREATE TABLE s (PRIMARY KEY (id)) AS SELECT * FROM b; DELETE FROM a";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tables_are_met_inside_a_transaction_and_connections_break() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE p3; USE p3; CREATE TABLE a (id INT PRIMARY KEY, v INT);
         CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(3000) CHARACTER SET gbk); CREATE TABLE c (id INT PRIMARY KEY, v INT);
         INSERT INTO c VALUES (1, 1)",
    )?;
    let start = executed(server)?;
    server.sql(MANY)?;
    let start = StartMode::Gtids(start);
    let expected = told(server, from(config(server, &["p3.*"]), start.clone())).await?;
    ensure!(expected.rows.len() == 11, "{:#?}", expected.lines);
    let proxy = Proxy::start(server.port())?;
    let mut cuts = 0;
    for after in (100..12_000).step_by(450) {
        let mut capture = Capture::start(from(config_at(proxy.port(), &["p3.*"]), start.clone())).await?;
        proxy.cut_after(after);
        let accepted = proxy.accepted();
        let told = follow(server, &mut capture).await?;
        ensure!(told.lines == expected.lines, "cut after {after}: {:#?}\n{:#?}", told.lines, expected.lines);
        cuts += proxy.accepted() - accepted;
        proxy.cut_after(u32::MAX);
    }
    ensure!(cuts >= 5, "{cuts} cuts");
    eprintln!("{cuts} cuts, {} lines each time", expected.lines.len());
    Ok(())
}

/// Every type: the structure that the log tells is that of SHOW CREATE TABLE, but for what it cannot tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn structures_that_the_log_tells_are_those_that_the_server_shows() -> Result<()> {
    let server = server();
    let both = "id BIGINT UNSIGNED NOT NULL, k VARCHAR(20) NOT NULL, t1 TINYINT(1), t2 TINYINT UNSIGNED, s SMALLINT,
        m MEDIUMINT UNSIGNED, i INT, f FLOAT, d DOUBLE UNSIGNED, de DECIMAL(20,5), du DECIMAL(65,30) UNSIGNED, bo BOOL,
        b1 BIT(1), b2 BIT(64), y YEAR, da DATE, ti TIME, t6 TIME(6), dt DATETIME, d3 DATETIME(3), ts TIMESTAMP NULL,
        ts2 TIMESTAMP(2) NULL, c CHAR(10), c2 CHAR(255) CHARACTER SET utf8mb4, c3 CHAR(7) CHARACTER SET latin1,
        v VARCHAR(300) CHARACTER SET utf8mb3, v2 VARCHAR(9) CHARACTER SET utf16, v3 VARCHAR(40) CHARACTER SET gbk,
        bi BINARY(16), vb VARBINARY(300), tt TINYTEXT, te TEXT CHARACTER SET ucs2, mt MEDIUMTEXT, lt LONGTEXT,
        tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB, e ENUM('a','b','ü') CHARACTER SET utf8mb4,
        e2 ENUM('ä','x') CHARACTER SET latin1, e3 ENUM('中','x') CHARACTER SET gbk, se SET('p','q','r'), g GEOMETRY, po POINT,
        mp MULTIPOLYGON, gc GEOMETRYCOLLECTION, j JSON, gs INT AS (i + 1) STORED, gv INT AS (i + 2) VIRTUAL";
    let own = match (server.kind().is_mariadb(), &*server.sql("SELECT VERSION()")?) {
        (false, _) => ", ve VECTOR(12), inv INT INVISIBLE DEFAULT 5",
        (true, version) if version.starts_with("11.") => {
            ", u UUID, i4 INET4, i6 INET6, vc VARCHAR(100) COMPRESSED, tc TEXT COMPRESSED, ve VECTOR(12)"
        }
        _ => ", u UUID, i4 INET4, i6 INET6, vc VARCHAR(100) COMPRESSED, tc TEXT COMPRESSED",
    };
    // behind each type one that has a character set, so that none shifts those of the others
    let tail = ", z1 VARCHAR(9) CHARACTER SET latin1, z2 POINT, z3 TEXT CHARACTER SET ucs2, z4 ENUM('ö') CHARACTER SET latin1";
    server.sql(&format!("CREATE DATABASE p4; CREATE TABLE p4.t ({both}{own}{tail}, PRIMARY KEY (k, id))"))?;
    let start = executed(server)?;
    server.sql(
        "INSERT INTO p4.t (id, k, i, e, se, e3) VALUES (1, 'x', 5, 'ü', 'p,r', '中'); DELETE FROM p4.t",
    )?;
    let config = config(server, &["p4.*"]);
    let told = told(server, from(config.clone(), StartMode::Gtids(start))).await?;
    let mut conn = cdc_mysql::conn::connect(&config).await?;
    let present = discover(&mut conn, &config).await?.0;
    let shown = present.get(&TableId::new("p4", "t")).context("a table")?;
    let (learned, change) = told.rows.first().context("a row")?;
    ensure!(learned.primary_key == shown.primary_key, "{:?}", learned.primary_key);
    // generated columns are not given out where the server leaves them out of some images
    let given = |c: &&Column| c.generated.is_none() || learned.column_index(&c.name).is_some();
    let shown: Vec<&Column> = shown.columns.iter().filter(given).collect();
    ensure!(learned.columns.len() == shown.len(), "{} and {} columns", learned.columns.len(), shown.len());
    for (learned, shown) in learned.columns.iter().zip(shown) {
        let untold = Column { default: None, comment: String::new(), generated: None, ..shown.clone() };
        let learned = Column { generated: None, ..learned.clone() };
        // a collation is a number that may have no name here
        let untold = match learned.ty.charset() {
            Some(told) if told.collation.is_empty() => Column { ty: without_collation(untold.ty), ..untold },
            _ => untold,
        };
        ensure!(learned == untold, "{learned:?}, and the server shows {shown:?}");
    }
    for (i, expected) in [("e", "ü"), ("e3", "中")] {
        let at = learned.column_index(i).context("a column")?;
        let after = change.after.as_ref().context("a row")?;
        ensure!(format!("{:?}", after.get(at)).contains(expected), "{:?}", after.get(at));
    }
    Ok(())
}

fn without_collation(mut ty: ColumnType) -> ColumnType {
    match &mut ty {
        ColumnType::Char { charset, .. }
        | ColumnType::VarChar { charset, .. }
        | ColumnType::Text { charset, .. }
        | ColumnType::Enum { charset, .. }
        | ColumnType::Set { charset, .. } => charset.collation = "".into(),
        _ => {}
    }
    ty
}

/// All that the server has: the character set is right, and the name, if there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn collations_by_number() -> Result<()> {
    let server = server();
    let mariadb = server.kind().is_mariadb();
    let flavor = if mariadb { Flavor::MariaDb } else { Flavor::MySql };
    let sql = if mariadb {
        "SELECT ID, FULL_COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
    } else {
        "SELECT ID, COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
    };
    let (mut named, mut all) = (0, 0);
    for row in server.sql(sql)?.lines() {
        let fields: Vec<&str> = row.split('\t').collect();
        let [id, name, set] = fields[..] else { bail!("{row}") };
        let known = charset_of(flavor, id.parse()?).with_context(|| format!("{row} is not known"))?;
        ensure!(*known.name == *set, "{row}: {known:?}");
        // MariaDB's own under MySQL's name has other weights, and goes by its own name
        let own = if mariadb && name == "utf8mb4_0900_ai_ci" { "utf8mb4_uca1400_nopad_ai_ci" } else { name };
        ensure!(known.collation.is_empty() || *known.collation == *own, "{row}: {known:?}");
        named += usize::from(!known.collation.is_empty());
        all += 1;
    }
    eprintln!("{all} collations, {named} with a name");
    ensure!(named >= 200, "{named} of {all} have a name");
    Ok(())
}

/// MariaDB: sequences are no tables, and of versioned tables the rows of now are given out, in the past as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sequences_and_versioned_tables_of_the_past() -> Result<()> {
    let server = server();
    if !server.kind().is_mariadb() {
        return Ok(());
    }
    server.sql(
        "CREATE DATABASE p5; USE p5; CREATE SEQUENCE s; CREATE SEQUENCE gone; CREATE TABLE h (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING;
         CREATE TABLE n (id INT PRIMARY KEY, a TIMESTAMP(6) GENERATED ALWAYS AS ROW START,
            z TIMESTAMP(6) GENERATED ALWAYS AS ROW END, v INT, PERIOD FOR SYSTEM_TIME (a, z)) WITH SYSTEM VERSIONING",
    )?;
    let start = executed(server)?;
    server.sql(
        "USE p5; SELECT NEXTVAL(s), NEXTVAL(gone); DROP SEQUENCE gone; INSERT INTO h VALUES (1, 1), (2, 2); UPDATE h SET v = 3 WHERE id = 1;
         DELETE FROM h WHERE id = 2; INSERT INTO n (id, v) VALUES (1, 1), (2, 2); UPDATE n SET v = 4 WHERE id = 1; DELETE FROM n WHERE id = 2;
         DROP SEQUENCE s; CREATE TABLE s (id INT PRIMARY KEY); INSERT INTO s VALUES (1);
         SET system_versioning_alter_history = KEEP; ALTER TABLE h ADD COLUMN w INT; INSERT INTO h VALUES (5, 5, 5)",
    )?;
    let config = config(server, &["p5.*"]);
    let told = told(server, from(config.clone(), StartMode::Gtids(start.clone()))).await?;
    let lines: Vec<&str> = told.lines.iter().map(String::as_str).filter(|l| !l.starts_with("n: ")).collect();
    let expected = [
        "create table p5.h with 2 columns",
        "h: - -> id=1 v=1",
        "h: - -> id=2 v=2",
        "h: id=1 v=1 -> id=1 v=3",
        "h: id=2 v=2 -> -",
        "create table p5.n with 4 columns",
        "create table p5.s with 1 columns",
        "s: - -> id=1",
        "add column p5.h.w int",
        "h: - -> id=5 v=5 w=5",
    ];
    ensure!(lines == expected, "{lines:#?}");
    ensure!(told.lines.iter().filter(|l| l.starts_with("n: ")).count() == 4, "{:#?}", told.lines);
    Ok(())
}

/// Decimal values by name, of the row behind each change of `items`.
fn items(told: &Told) -> Vec<String> {
    told.lines.iter().filter_map(|l| l.strip_prefix("items: ")).map(str::to_owned).collect()
}

/// A copied table, its capture at a checkpoint, and the configuration.
async fn checkpoint(server: &Server, database: &str) -> Result<(Config, CaptureState)> {
    server.sql(&format!(
        "CREATE DATABASE {database}; CREATE TABLE {database}.items (id INT PRIMARY KEY, amount INT);
         INSERT INTO {database}.items VALUES (1, 10)"
    ))?;
    let config = config(server, &[&format!("{database}.items")]);
    let (capture, _) = initial(config.clone()).await?;
    Ok((config, saved(&capture)?))
}

fn saved(capture: &Capture) -> Result<CaptureState> {
    ensure!(capture.at_boundary());
    Ok(serde_json::from_str(&serde_json::to_string(&capture.state())?)?)
}

/// Goes on from a state; no table is copied again.
async fn resumed(server: &Server, config: &Config, state: &CaptureState) -> Result<(Capture, Told)> {
    ensure!(state.copying.is_empty(), "a snapshot is not complete");
    let mut capture = Capture::resume(config.clone(), state).await?;
    let told = follow(server, &mut capture).await?;
    Ok((capture, told))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn time_line_a_a_statement_behind_the_checkpoint() -> Result<()> {
    let server = server();
    let (config, state) = checkpoint(server, "line_a").await?;
    let write = "USE line_a; ALTER TABLE items ADD COLUMN note VARCHAR(20) AFTER id; UPDATE items SET note = 'blue', amount = 20";
    server.sql(write)?;
    // the run that crashes has seen all of it; the next begins at its checkpoint, and so does one more
    for _ in 0..3 {
        let (_, told) = resumed(server, &config, &state).await?;
        expect(
            &told,
            &[
                "add column line_a.items.note varchar(20) after id",
                "items: id=1 note=NULL amount=10 -> id=1 note=blue amount=20",
            ],
        )?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn time_line_b_the_live_table_has_dropped_what_the_log_holds() -> Result<()> {
    let server = server();
    let (config, state) = checkpoint(server, "line_b").await?;
    server.sql(
        "USE line_b; ALTER TABLE items ADD COLUMN note VARCHAR(20) AFTER id; UPDATE items SET amount = 20",
    )?;
    let (capture, told) = resumed(server, &config, &state).await?;
    ensure!(items(&told) == ["id=1 note=NULL amount=10 -> id=1 note=NULL amount=20"], "{:?}", told.lines);
    let c3 = saved(&capture)?;
    drop(capture);
    server.sql(
        "USE line_b; UPDATE items SET note = 'still there'; ALTER TABLE items DROP COLUMN note; UPDATE items SET amount = 30",
    )?;
    for _ in 0..2 {
        let (_, told) = resumed(server, &config, &c3).await?;
        expect(
            &told,
            &[
                "items: id=1 note=NULL amount=20 -> id=1 note=still there amount=20",
                "drop column line_b.items.note",
                "items: id=1 amount=20 -> id=1 amount=30",
            ],
        )?;
    }
    // and from the first checkpoint everything
    let (_, told) = resumed(server, &config, &state).await?;
    ensure!(items(&told).len() == 3 && told.lines.len() == 5, "{:?}", told.lines);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn time_line_c_a_checkpoint_right_behind_the_statement() -> Result<()> {
    let server = server();
    let (config, state) = checkpoint(server, "line_c").await?;
    server.sql("ALTER TABLE line_c.items ADD COLUMN note VARCHAR(20) AFTER id")?;
    let (capture, told) = resumed(server, &config, &state).await?;
    expect(&told, &["add column line_c.items.note varchar(20) after id"])?;
    let behind = saved(&capture)?;
    drop(capture);
    server.sql("UPDATE line_c.items SET note = 'blue', amount = 20")?;
    let row = "items: id=1 note=NULL amount=10 -> id=1 note=blue amount=20";
    let (_, told) = resumed(server, &config, &behind).await?;
    expect(&told, &[row])?;
    // from in front of it the statement is met, once
    let (_, told) = resumed(server, &config, &state).await?;
    expect(&told, &["add column line_c.items.note varchar(20) after id", row])?;
    let (_, copy) = initial(config).await?;
    common::assert_all_equal(server, &copy).await
}

/// A plain consumer that knows nothing at the start ends with the table's rows of behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_from_its_beginning_is_the_table() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE p6; USE p6; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)); INSERT INTO t VALUES (1, 'a'), (2, 'b');
         ALTER TABLE t ADD COLUMN w INT NOT NULL FIRST; DELETE FROM t; INSERT INTO t VALUES (7, 3, 'c'); UPDATE t SET v = 'd'",
    )?;
    let config = from(config(server, &["p6.t"]), StartMode::Earliest);
    let mut capture = Capture::start(config).await?;
    let mut copy = Copy::of(&capture);
    copy.catch_up(&mut capture).await?;
    ensure!(copy.rows("t").len() == 1);
    common::assert_all_equal(server, &copy).await
}
