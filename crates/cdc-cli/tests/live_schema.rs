//! Schema changes while a pipeline runs, and what becomes of the target.

mod support;

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::Server;
use support::{Job, Run, names_change_hands, server};

const COPY: &str = "sink dw = sqlite { path = \"target.db\" }\nsrc.* => dw.*";

/// Makes a database and starts a pipeline that copies it.
fn start(database: &str, mode: &str, sql: &str, workers: &str) -> Result<(&'static Server, Job, Run)> {
    let server = server();
    server.sql(&format!("CREATE DATABASE {database}; USE {database}; {sql}"))?;
    let job =
        Job::with(server, &format!("[\"{database}.*\"]"), &format!("on_schema_change = {mode}"), "", COPY);
    job.catch_up(&["--workers", workers])?;
    let mut run = job.start(&["--workers", workers])?;
    run.says("going on from tick")?;
    Ok((server, job, run))
}

/// The columns of a target table, in their order.
fn columns(job: &Job, table: &str) -> Result<String> {
    Ok(job.rows(&format!("SELECT name FROM pragma_table_info('{table}')"))?.join(" "))
}

/// Waits until the target's table is as the server's.
fn equal(job: &Job, run: &mut Run, server: &Server, database: &str, table: &str) -> Result<usize> {
    let mut last = None;
    let waited = run.until("the tables are equal", |_| {
        last = Some(job.compare(server, (database, table), table));
        Ok(matches!(last, Some(Ok(_))))
    });
    match last.context("not compared")? {
        Ok(rows) => waited.map(|()| rows),
        Err(error) => Err(error.context(waited.err().map_or(String::new(), |e| e.to_string()))),
    }
}

fn evolve(database: &str, workers: &str) -> Result<()> {
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL);
               INSERT INTO t WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 200)
                 SELECT n, CONCAT('a', n), n FROM s";
    let (server, job, mut run) = start(database, "evolve", sql, workers)?;
    let mut id = 1000;
    let mut change = |statement: &str, insert: &str, wanted: &str| -> Result<()> {
        id += 1;
        let update = "UPDATE t SET b = b + 1 WHERE id % 10 = 3; DELETE FROM t WHERE id % 100 = 57";
        server.sql(&format!(
            "USE {database}; {update}; {statement}; INSERT INTO t {}; {update}",
            insert.replace("id", &id.to_string())
        ))?;
        equal(&job, &mut run, server, database, "t").context(statement.to_owned())?;
        let found = columns(&job, "t")?;
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            words.sort();
            words
        };
        ensure!(sorted(&found) == sorted(wanted), "columns {found} after {statement}, wanted {wanted}");
        Ok(())
    };
    change(
        "ALTER TABLE t ADD COLUMN c VARCHAR(20) DEFAULT 'grün' AFTER id",
        "VALUES (id, 'c', 'a', 1)",
        "id a b c",
    )?;
    change(
        "ALTER TABLE t ADD COLUMN flag INT NOT NULL DEFAULT 7 FIRST",
        "VALUES (1, id, 'c', NULL, 1)",
        "id a b c flag",
    )?;
    change(
        "ALTER TABLE t ADD COLUMN (x DECIMAL(10,3) DEFAULT 1.5, y DATETIME(3) NULL)",
        "VALUES (1, id, 'c', 'a', 1, 2.125, NOW(3))",
        "id a b c flag x y",
    )?;
    change(
        "ALTER TABLE t RENAME COLUMN a TO a2, MODIFY b BIGINT NOT NULL",
        "VALUES (1, id, 'c', 'a', 9007199254740993, 3, NULL)",
        "id a2 b c flag x y",
    )?;
    change(
        "ALTER TABLE t CHANGE c `c d` VARCHAR(200), ALTER COLUMN flag SET DEFAULT 8",
        "VALUES (DEFAULT, id, REPEAT('ü', 150), 'a', 1, 3, NULL)",
        "id a2 b c_d flag x y",
    )
    .or_else(|e| {
        // a name with a space, which `split` above takes for two
        if columns(&job, "t")?.contains("c d") { Ok(()) } else { Err(e) }
    })?;
    change(
        "ALTER TABLE t DROP COLUMN `c d`, ADD COLUMN z JSON",
        "VALUES (1, id, 'a', 1, 3, NULL, '{\"k\": [1, 2]}')",
        "id a2 b flag x y z",
    )?;
    change(
        "ALTER TABLE t DROP COLUMN x, DROP COLUMN y, MODIFY a2 VARCHAR(30) NULL AFTER z",
        "VALUES (1, id, 2, NULL, 'a')",
        "id a2 b flag z",
    )?;
    change(
        "CREATE INDEX i ON t (b); ALTER TABLE t ADD COLUMN x INT; ALTER TABLE t DROP COLUMN x; ALTER TABLE t ADD COLUMN x VARCHAR(5)",
        "VALUES (1, id, 2, NULL, 'a', 'x')",
        "id a2 b flag z x",
    )?;
    // everything goes, and something comes
    server
        .sql(&format!("USE {database}; TRUNCATE TABLE t; INSERT INTO t VALUES (1, 1, 1, '1', '1', '1')"))?;
    ensure!(equal(&job, &mut run, server, database, "t")? == 1);
    server.sql(&format!(
        "USE {database}; RENAME TABLE t TO u; INSERT INTO u VALUES (1, 2, 1, '1', '1', '1'); CREATE TABLE t LIKE u; INSERT INTO t SELECT * FROM u"
    ))?;
    ensure!(equal(&job, &mut run, server, database, "u")? == 2);
    ensure!(equal(&job, &mut run, server, database, "t")? == 2);
    server.sql(&format!("DROP TABLE {database}.u"))?;
    run.until("the table is gone", |_| Ok(columns(&job, "u")?.is_empty()))?;
    run.stop()?;
    job.verify()?;
    let again = job.catch_up(&["--workers", workers])?;
    ensure!(again.err.contains("nothing new"), "{}", again.text());
    Ok(())
}

#[test]
fn case_49_evolve_follows_step_by_step() -> Result<()> {
    evolve("ev1", "1")
}

#[test]
fn case_49_evolve_follows_step_by_step_with_two_workers() -> Result<()> {
    evolve("ev2", "2")
}

#[test]
fn case_50_and_51_lenient_keeps_what_it_has() -> Result<()> {
    let sql = "CREATE TABLE members (id INT PRIMARY KEY, name VARCHAR(17), age INT);
               INSERT INTO members VALUES (1001, 'Ann', 20), (1002, 'Bob', NULL)";
    let (server, job, mut run) = start("lenient", "lenient", sql, "1")?;
    server.sql(
        "USE lenient; ALTER TABLE members ADD gender TINYINT AFTER age; INSERT INTO members VALUES (1012, 'Eve', 17, 0);
         ALTER TABLE members CHANGE age precise_age DOUBLE; ALTER TABLE members RENAME COLUMN gender TO biological_sex;
         ALTER TABLE members DROP biological_sex; INSERT INTO members VALUES (1013, 'Fiona', 16)",
    )?;
    run.until("the row is there", |_| Ok(job.number("SELECT COUNT(*) FROM members WHERE id = 1013")? == 1))?;
    ensure!(
        columns(&job, "members")? == "id name age gender precise_age biological_sex",
        "{}",
        columns(&job, "members")?
    );
    let rows =
        job.rows("SELECT id, name, age, gender, precise_age, biological_sex FROM members ORDER BY id")?;
    ensure!(
        rows == [
            "1001|Ann|20.0|NULL|20.0|NULL",
            "1002|Bob|NULL|NULL|NULL|NULL",
            "1012|Eve|17.0|0|17.0|0",
            "1013|Fiona|NULL|NULL|16.0|NULL"
        ],
        "{rows:?}"
    );
    // a NOT NULL column in the middle is appended as nullable; one that is dropped becomes nullable
    server.sql(
        "USE lenient; ALTER TABLE members ADD must INT NOT NULL DEFAULT 7 AFTER id; INSERT INTO members VALUES (1014, 1, 'Gem', 17);
         ALTER TABLE members DROP must; INSERT INTO members VALUES (1015, 'Hal', 18); UPDATE members SET name = 'Eva' WHERE id = 1012",
    )?;
    run.until("the row is there", |_| Ok(job.number("SELECT COUNT(*) FROM members WHERE id = 1015")? == 1))?;
    run.until("the update is there", |_| {
        Ok(job.number("SELECT COUNT(*) FROM members WHERE name = 'Eva'")? == 1)
    })?;
    let rows = job.rows("SELECT id, must FROM members ORDER BY id")?;
    // (rows that come without the column read what it was added with, as SQLite has it)
    ensure!(rows == ["1001|7", "1002|7", "1012|7", "1013|7", "1014|1", "1015|7"], "{rows:?}");
    run.stop()?;
    ensure!(job.verify()? == 6);
    job.compare(server, ("lenient", "members"), "members")?;

    // nothing is truncated or dropped
    server.sql("TRUNCATE lenient.members; INSERT INTO lenient.members VALUES (2000, 'New', 1)")?;
    job.catch_up(&[])?;
    ensure!(job.number("SELECT COUNT(*) FROM members")? == 7);
    server.sql("DROP TABLE lenient.members; CREATE TABLE lenient.other (id INT PRIMARY KEY)")?;
    job.catch_up(&[])?;
    ensure!(job.number("SELECT COUNT(*) FROM members")? == 7);
    // what is kept is told
    let kept = |database: &str| -> Result<()> {
        let said = Run::start(&mut job.command("verify", &[]))?.wait()?;
        ensure!(said.code == Some(0), "{database}: {}", said.text());
        for word in ["members", "no table of the source is written to it any more; its 7 rows are kept"] {
            ensure!(said.text().contains(word), "{word} in\n{}", said.text());
        }
        Ok(())
    };
    kept("one table is left")?;
    server.sql("DROP TABLE lenient.other")?;
    job.catch_up(&[])?;
    kept("none is left")
}

#[test]
fn case_49_exception_stops_and_says_so() -> Result<()> {
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)";
    let (server, job, run) = start("exception", "exception", sql, "1")?;
    server.sql("UPDATE exception.t SET v = 2; ALTER TABLE exception.t ADD COLUMN w INT; UPDATE exception.t SET v = 3")?;
    let said = run.wait()?;
    said.failed(1308)?;
    ensure!(said.err.contains("ADD COLUMN w INT"), "{}", said.text());
    let rows = job.rows("SELECT * FROM t")?;
    ensure!(rows == ["1|1"] || rows == ["1|2"], "behind the statement something was written: {rows:?}");
    // it stays so until the user decides
    job.fails(1308)?;
    job.write("[\"exception.*\"]", "on_schema_change = evolve", "", COPY);
    job.catch_up(&[])?;
    ensure!(job.verify()? == 1);
    job.compare(server, ("exception", "t"), "t")?;
    Ok(())
}

#[test]
fn case_36_a_table_that_is_created_while_running_is_filled() -> Result<()> {
    for mode in ["evolve", "lenient"] {
        let database = format!("c36{mode}");
        let sql = "CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1)";
        let (server, job, mut run) = start(&database, mode, sql, "2")?;
        server.sql(&format!(
            "USE {database}; CREATE TABLE b (id INT PRIMARY KEY, v VARCHAR(10)); INSERT INTO b VALUES (1, 'x'), (2, 'y');
             CREATE TABLE c (id INT PRIMARY KEY) AS SELECT id FROM b; CREATE TABLE d LIKE b; INSERT INTO d SELECT * FROM b;
             CREATE TABLE IF NOT EXISTS b (z INT PRIMARY KEY); CREATE DATABASE other_{database}; CREATE TABLE other_{database}.e (id INT PRIMARY KEY);
             INSERT INTO other_{database}.e VALUES (1); UPDATE a SET id = 2"
        ))?;
        for table in ["a", "b", "c", "d"] {
            equal(&job, &mut run, server, &database, table)?;
        }
        run.stop()?;
        ensure!(job.verify()? == 7);
        ensure!(columns(&job, "e")?.is_empty(), "a table that is not captured was created");
    }
    Ok(())
}

#[test]
fn case_40_names_that_change_hands_in_one_statement() -> Result<()> {
    names_change_hands(
        server(),
        "hands",
        |_| Ok("sqlite { path = \"target.db\" }".into()),
        |job, database, table, _| {
            ensure!(job.compare(server(), (database, table), table)? == 3);
            Ok(())
        },
    )
}

/// A table gets a captured name in a swap, and another captured one behind rows of its own: by the time that it is looked
/// for under the first name it is gone, and the log reader has its rows still in front of it.
#[test]
fn case_44_a_table_that_came_in_by_a_swap_and_went_on_under_another_name() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE DATABASE went; USE went; CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1), (2, 2);
         CREATE TABLE big (id INT PRIMARY KEY, w VARCHAR(300))",
    )?;
    let job = Job::with(server, "[\"went.*\", \"!*.hidden_*\"]", "on_schema_change = evolve", "", COPY);
    job.catch_up(&[])?;
    // rows between, which the target is busy with while the table is looked for
    server.sql(&format!(
        "USE went; {}; CREATE TABLE hidden_new LIKE t; ALTER TABLE hidden_new ADD COLUMN more INT;
         INSERT INTO hidden_new VALUES (1, 10, 1), (3, 30, 3);
         RENAME TABLE t TO hidden_old, hidden_new TO t;
         INSERT INTO big WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 100000) SELECT n, REPEAT('x', 250) FROM s;
         UPDATE t SET v = v + 1; INSERT INTO t VALUES (4, 40, 4); ALTER TABLE t ADD COLUMN last INT DEFAULT 7;
         RENAME TABLE t TO went_on; UPDATE went_on SET v = v + 1 WHERE id = 4",
        server.kind().recursion(100_000)
    ))?;
    let said = job.catch_up(&[])?;
    let rows = job.verify().with_context(|| said.text())?;
    ensure!(job.compare(server, ("went", "went_on"), "went_on")? == 3 && rows == 100_003, "{}", said.text());
    // and one that comes under the first name is another
    server.sql("USE went; CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (5)")?;
    job.catch_up(&[])?;
    ensure!(job.compare(server, ("went", "t"), "t")? == 1 && job.verify()? == 100_004);
    Ok(())
}

/// What `cdc explain --schema` prints, which must be good.
fn explained(job: &Job) -> Result<String> {
    let said = Run::start(&mut job.command("explain", &["--schema"]))?.wait()?;
    ensure!(said.code == Some(0), "{}", said.text());
    Ok(said.out)
}

#[test]
fn explain_shows_target_tables_beside_what_their_sources_give() -> Result<()> {
    let server = server();
    server.sql("CREATE DATABASE shown; CREATE TABLE shown.t (id INT PRIMARY KEY, a INT, note TEXT)")?;
    let job = Job::with(server, "[\"shown.*\"]", "on_schema_change = lenient", "", COPY);
    // before the first run the server is asked
    let text = explained(&job)?;
    ensure!(
        text.starts_with("sink dw, as the first run will make it: 1 table\n\ntable t, key (id)\n  shown.t\n"),
        "{text}"
    );
    ensure!(text.contains("    a int     -> a int\n"), "{text}");
    job.catch_up(&[])?;
    server.sql("ALTER TABLE shown.t RENAME COLUMN a TO b; ALTER TABLE shown.t DROP COLUMN note")?;
    ensure!(explained(&job)?.contains("    a int     -> a int\n"), "as the run has left it");
    job.catch_up(&[])?;
    let text = explained(&job)?;
    ensure!(text.starts_with("sink dw, as of tick "), "{text}");
    ensure!(text.contains("    b int  -> b int\n"), "{text}");
    for kept in ["              a int            (kept: nobody writes it)\n", "              note text"] {
        ensure!(text.contains(kept), "{text}");
    }
    // it is another pipeline's
    job.write("[\"shown.*\"]", "", "", COPY);
    let foreign = std::fs::read_to_string(job.path("p.cdc"))?.replace("\"live\"", "\"other\"");
    std::fs::write(job.path("p.cdc"), foreign)?;
    let said = Run::start(&mut job.command("explain", &["--schema", "--format", "json"]))?.wait()?;
    ensure!(said.code == Some(3) && said.out.contains("belongs to pipeline"), "{}", said.text());
    Ok(())
}

/// Statements are in the character set of the client that sends them: these two bytes are two letters of latin1.
#[test]
fn a_default_in_the_character_set_of_its_client() -> Result<()> {
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, l VARCHAR(9) CHARACTER SET koi8r); INSERT INTO t VALUES (1, 'б')";
    let (server, job, mut run) = start("clients", "evolve", sql, "1")?;
    for (set, column) in [("latin1", "a"), ("koi8r", "b"), ("utf8mb4", "c")] {
        server.sql(&format!(
            "SET NAMES {set}; ALTER TABLE clients.t ADD COLUMN {column} VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'grün'"
        ))?;
    }
    server.sql("INSERT INTO clients.t (id) VALUES (2)")?;
    ensure!(equal(&job, &mut run, server, "clients", "t")? == 2);
    let rows = job.rows("SELECT a, b, c FROM t ORDER BY id")?;
    ensure!(rows[0] == rows[1] && rows[0].starts_with("grÃ¼n|") && rows[0].ends_with("|grün"), "{rows:?}");
    run.stop()?;
    job.verify()?;
    Ok(())
}
