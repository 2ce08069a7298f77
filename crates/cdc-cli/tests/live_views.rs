//! Views of live servers: what the target holds is what the source answers to the same query, at every moment, through deletions, moved keys,
//! kills and restarts.

mod support;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cdc_testkit::views::{MOMENT, QUESTIONS, Random, VIEWS, is_one_moment, tables};
use support::{Job, Run, server};

/// The source's own answers, and the target's.
fn compare(job: &Job, database: &str) -> Result<()> {
    for question in QUESTIONS {
        let (view, expected) = (question.view, question.at_source(server(), database)?);
        let mut found = job.rows(&question.at_target())?;
        found.sort();
        ensure!(!expected.is_empty(), "view {view}: nothing to compare");
        ensure!(found == expected, "view {view}: the source says\n{expected:#?}\nthe target has\n{found:#?}");
    }
    Ok(())
}

fn body() -> String {
    format!("sink dw = sqlite {{ path = \"target.db\" }}\n{VIEWS}")
}

fn job(database: &str) -> Result<Job> {
    tables(server(), database)?;
    let more = "chunk_rows = 100\n  chunk_readers = 2";
    Ok(Job::with(server(), &format!("[\"{database}.*\"]"), "", more, &body()))
}

/// Looks at the target as long as this takes: all that is there must be of one moment of the source.
fn watched(job: &Job, with_orders: bool, seen: &mut usize, until: Instant) -> Result<()> {
    while Instant::now() < until {
        // before views have spoken there is no table, or nothing in it
        if let Ok(rows) = job.rows(MOMENT)
            && let [row] = &rows[..]
        {
            is_one_moment(row, with_orders)?;
            *seen += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[test]
fn case_72_and_73_views_say_what_the_source_says_at_every_moment() -> Result<()> {
    let database = "v_moments";
    let job = job(database)?;
    let mut random = Random::new(73);
    let mut seen = 0;
    for round in 0..6 {
        let workers = (1 + random.below(3)).to_string();
        let run = job.start(&["--workers", &workers])?;
        let until = Instant::now() + Duration::from_millis(900 + random.below(1500));
        let writing = {
            let sql = format!("USE {database}; {}", random.changes(150));
            std::thread::spawn(move || server().sql(&sql))
        };
        let watching = watched(&job, true, &mut seen, until);
        let said = run.kill()?;
        watching.with_context(|| format!("round {round}, {workers} workers\n{}", said.text()))?;
        writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    }
    let said = job.catch_up(&["--workers", "2"])?;
    compare(&job, database).with_context(|| said.text())?;
    let rows = job.verify()?;
    ensure!(seen > 50, "looked {seen} times only");
    println!("{seen} moments seen, {rows} rows verified");
    Ok(())
}

/// A run is killed at a step while rows change, and goes on behind it. `begin` is done once it has started.
fn killed_at(
    job: &Job,
    database: &str,
    n: usize,
    (step, nth): (&str, u32),
    begin: impl FnOnce(&mut Run) -> Result<()>,
) -> Result<()> {
    let mut random = Random::new(n as u64);
    let mut command = job.command("run", &["--workers", if n.is_multiple_of(2) { "1" } else { "2" }]);
    command.env("FAILPOINTS", format!("{step}={}*off->return", nth - 1));
    let mut run = Run::start(&mut command)?;
    begin(&mut run)?;
    let mut rounds = 0;
    while !run.has_ended()? {
        ensure!(rounds < 60, "it never gets to {step}\n{}", run.err());
        server().sql(&format!("USE {database}; {} DO SLEEP(0.05)", random.changes(10)))?;
        rounds += 1;
    }
    let said = run.wait()?;
    ensure!(said.code.is_none(), "it was to be killed at {step}\n{}", said.text());
    server().sql(&format!("USE {database}; {}", random.changes(20)))?;
    let again = job.catch_up(&[])?;
    let runs =
        || format!("{step}, {nth}. time: it was killed:\n{}\nand went on:\n{}", said.text(), again.text());
    compare(job, database).with_context(runs)?;
    job.verify().with_context(runs)?;
    Ok(())
}

#[test]
fn case_75_killed_at_each_step_with_views() -> Result<()> {
    let steps = [
        ("snapshot.chunk-given", 4),
        ("views.speak", 1),
        ("views.saved", 1),
        ("views.saved", 3),
        ("checkpoint.partial", 2),
        ("checkpoint.saved", 3),
        ("sink.commit", 5),
        ("sink.committed", 6),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        let database = format!("v_step_{n}");
        killed_at(&job(&database)?, &database, n, step, |_| Ok(()))?;
    }
    Ok(())
}

#[test]
fn a_restart_writes_nothing_again_and_asks_the_source_for_nothing() -> Result<()> {
    let database = "v_again";
    let job = job(database)?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    let db = job.target()?;
    for view in QUESTIONS.iter().map(|question| question.view) {
        db.execute_batch(&format!(
            "CREATE TRIGGER i_{view} AFTER INSERT ON {view} BEGIN SELECT RAISE(ABORT, 'written again'); END;
             CREATE TRIGGER u_{view} AFTER UPDATE ON {view} BEGIN SELECT RAISE(ABORT, 'written again'); END;
             CREATE TRIGGER d_{view} AFTER DELETE ON {view} BEGIN SELECT RAISE(ABORT, 'written again'); END"
        ))?;
    }
    // nothing that any view reads
    server().sql(&format!(
        "USE {database}; UPDATE customers SET unread = 'other'; UPDATE orders SET unread = id"
    ))?;
    let said = job.catch_up(&["--workers", "3"])?;
    ensure!(said.done("snapshot") == Some(0), "{}", said.text());
    for view in QUESTIONS.iter().map(|question| question.view) {
        db.execute_batch(&format!("DROP TRIGGER i_{view}; DROP TRIGGER u_{view}; DROP TRIGGER d_{view}"))?;
    }
    server().sql(&format!(
        "USE {database}; DELETE FROM orders WHERE id % 3 = 0; UPDATE customers SET region = 9 WHERE id < 5"
    ))?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    job.verify()?;
    Ok(())
}

/// Told to stop while the checkpoint behind the copy is waited for, and killed behind one that is written then: what was closed meanwhile
/// must not count as finished.
#[test]
fn case_75_told_to_stop_before_views_speak() -> Result<()> {
    for nth in 0..4 {
        let database = format!("v_stop_{nth}");
        let job = job(&database)?;
        let mut command = job.command("run", &[]);
        command.env("FAILPOINTS", format!("sink.commit=sleep(150);checkpoint.saved={}*off->return", 2 + nth));
        let mut run = Run::start(&mut command)?;
        while !run.err().contains("snapshot complete") && !run.has_ended()? {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !run.has_ended()? {
            run.interrupt()?;
        }
        let said = run.wait()?;
        let again = job.catch_up(&[])?;
        let runs = || format!("it was told to stop:\n{}\nand went on:\n{}", said.text(), again.text());
        compare(&job, &database).with_context(runs)?;
        job.verify().with_context(runs)?;
    }
    Ok(())
}

/// A view says all that it holds once: who was not there then would never hear of it.
#[test]
fn flows_of_views_do_not_come_later() -> Result<()> {
    let database = "v_later";
    let job = job(database)?;
    job.catch_up(&[])?;
    let write = |views: &str| {
        job.write(&format!("[\"{database}.*\"]"), "", "chunk_rows = 100\n  chunk_readers = 2", views);
    };
    write(&format!("{}\nlost => dw.lost_again", body()));
    let said = job.fails(3006)?;
    ensure!(
        said.err.contains("lost_again") && said.err.contains("a view begins with a copy"),
        "{}",
        said.text()
    );
    // nor is another view the same
    ensure!(VIEWS.contains("top 3 by"));
    write(&body().replace("top 3 by", "top 4 by"));
    job.fails(3006)?;
    // one that goes is let go
    ensure!(VIEWS.contains("best         => dw.best"));
    write(&body().replace("best         => dw.best", ""));
    server().sql(&format!("USE {database}; UPDATE orders SET amount = 9 WHERE id = 5"))?;
    job.catch_up(&[])?;
    job.verify()?;
    Ok(())
}

#[test]
fn tables_of_views_change() -> Result<()> {
    let database = "v_ddl";
    let job = job(database)?;
    job.catch_up(&[])?;
    // what no view reads comes and goes; types grow; all rows go
    server().sql(&format!(
        "USE {database}; ALTER TABLE orders ADD COLUMN more INT FIRST; ALTER TABLE customers DROP COLUMN unread;
         ALTER TABLE orders MODIFY amount DECIMAL(14,2); UPDATE orders SET amount = amount + 1000000000 WHERE id = 7; TRUNCATE TABLE coupons;
         INSERT INTO coupons VALUES ('c3', 1); ALTER TABLE customers MODIFY region BIGINT NOT NULL"
    ))?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    job.verify()?;
    server().sql(&format!(
        "USE {database}; DELETE FROM customers; INSERT INTO customers VALUES (1, 'only', 1)"
    ))?;
    job.catch_up(&[])?;
    job.verify()?;
    // other tables take their names
    server().sql(&format!(
        "USE {database}; CREATE TABLE next LIKE orders; INSERT INTO next SELECT * FROM orders WHERE id % 2 = 0;
         RENAME TABLE orders TO last, next TO orders; UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0; DELETE FROM last WHERE id < 50;
         CREATE TABLE other LIKE customers; DROP TABLE customers; RENAME TABLE other TO customers;
         INSERT INTO customers (id, name, region) VALUES (1, 'another', 1), (2, 'name', 2); ALTER TABLE coupons ADD COLUMN n INT DEFAULT (percent)"
    ))?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    job.verify()?;
    // a column that no view reads gets another name, and one that views read becomes another one under its name
    server().sql(&format!("USE {database}; ALTER TABLE orders RENAME COLUMN unread TO unseen"))?;
    job.catch_up(&[])?;
    compare(&job, database)?;
    // what a view reads is gone
    server()
        .sql(&format!("USE {database}; ALTER TABLE orders DROP COLUMN weight, ADD COLUMN weight DOUBLE"))?;
    let said = job.fails(1311)?;
    ensure!(
        said.err.contains("\"weight\"") && said.err.contains("remove the state folder"),
        "{}",
        said.text()
    );
    Ok(())
}

/// Columns that views leave out before anything reads them get other names, other types, go and come again, while rows change: the views are
/// what the source answers to their queries, through kills, and the file goes on although it names what is gone.
#[test]
fn columns_that_views_leave_out_are_free() -> Result<()> {
    let database = "v_left_out";
    tables(server(), database)?;
    let body = "sink dw = sqlite { path = \"target.db\" }
        view less  = from src.orders |> drop unread, weight
        view rest  = from src.orders |> where amount > 20 |> select * except (weight, unread), amount * 2 as twice
        view pairs = from src.orders as o |> join src.coupons as k on o.coupon = k.code |> drop weight |> select * except (code, unread)
        view names = from src.customers |> drop id, unread |> distinct
        less => dw.less
        rest => dw.rest
        pairs => dw.pairs
        names => dw.names";
    let job = Job::with(server(), &format!("[\"{database}.*\"]"), "", "chunk_rows = 100", body);
    let mut random = Random::new(9);
    let alike = |job: &Job, at: &str| -> Result<()> {
        for (target, columns, at_source) in [
            ("less", "id, customer, amount, coupon", "orders"),
            (
                "rest",
                "id, customer, amount, coupon, twice",
                "(SELECT *, amount * 2 AS twice FROM orders WHERE amount > 20) AS r",
            ),
            ("pairs", "id, customer, amount, coupon, percent", "orders JOIN coupons ON coupon = code"),
            ("names", "name, region", "(SELECT DISTINCT name, region FROM customers) AS r"),
        ] {
            let shown: Vec<String> = columns.split(", ").map(|c| format!("COALESCE({c}, 'none')")).collect();
            let sql = format!("USE {database}; SELECT CONCAT_WS('|', {}) FROM {at_source}", shown.join(", "));
            let said = server().sql(&sql)?;
            let mut expected: Vec<&str> = said.lines().collect();
            let mut found = job.rows(&format!("SELECT {} FROM {target}", shown.join(", ")))?;
            expected.sort_unstable();
            found.sort_unstable();
            ensure!(
                !expected.is_empty() && found == expected,
                "{at}: {target}: the source says\n{expected:#?}\nthe target has\n{found:#?}"
            );
        }
        Ok(())
    };
    let change = |random: &mut Random| -> String {
        let changes = (0..30).map(|_| {
            let (id, n) = (1 + random.below(620), random.below(60));
            match random.below(5) {
                0 => format!("DELETE FROM orders WHERE id = {id}"),
                1 => format!("INSERT INTO orders (id, customer, amount, coupon) VALUES ({id}, {n}, {n} + 0.5, 'c1') ON DUPLICATE KEY UPDATE amount = {n}"),
                2 => format!("UPDATE orders SET coupon = CONCAT('c', {n} % 3), amount = amount + 1 WHERE id % 40 = {n}"),
                3 => format!("INSERT INTO coupons (code, percent) VALUES (CONCAT('c', {n} % 4), {n})"),
                _ => format!("UPDATE customers SET region = {n} % 3 WHERE id = {n}"),
            }
        });
        format!("USE {database}; {}", changes.collect::<Vec<_>>().join("; "))
    };
    job.catch_up(&[])?;
    alike(&job, "the copy")?;
    for (n, statement) in [
        "ALTER TABLE orders RENAME COLUMN unread TO unseen",
        "ALTER TABLE orders MODIFY weight VARCHAR(40) FIRST",
        "ALTER TABLE customers DROP COLUMN unread",
        "ALTER TABLE orders DROP COLUMN weight, ADD COLUMN unread INT DEFAULT 7 AFTER id",
        "ALTER TABLE orders DROP COLUMN unread, RENAME COLUMN unseen TO weight",
        "ALTER TABLE orders DROP COLUMN weight",
    ]
    .into_iter()
    .enumerate()
    {
        server().sql(&change(&mut random))?;
        if n % 2 == 1 {
            job.start(&["--workers", "2"])?.kill()?;
        }
        server().sql(&format!("USE {database}; {statement}; {}", change(&mut random)))?;
        let said = job.catch_up(&["--workers", if n % 3 == 0 { "1" } else { "2" }])?;
        alike(&job, statement).with_context(|| said.text())?;
        job.verify()?;
    }
    Ok(())
}

/// Both sides of a join change in one transaction: what no moment of the source had together is not computed with.
#[test]
fn rows_that_were_never_together_are_no_error() -> Result<()> {
    let database = "v_never_together";
    server().sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE a (k INT PRIMARY KEY, n BIGINT UNSIGNED NOT NULL); CREATE TABLE b (k INT PRIMARY KEY, n BIGINT UNSIGNED NOT NULL);
         INSERT INTO a VALUES (1, 5), (2, 5); INSERT INTO b VALUES (1, 10), (2, 10)"
    ))?;
    let body = "sink dw = sqlite { path = \"target.db\" }
                view rest = from src.a as a |> join src.b as b on a.k = b.k |> select a.k, b.n - a.n as n
                view none = from src.a as a |> left join src.b as b on a.k = b.k |> select a.k, coalesce(b.n, 0) - a.n as n
                view other = from src.a as a |> left join src.b as b on a.k = b.k and a.n < b.n |> select a.k, coalesce(b.n, 0) - a.n as n
                view kept = from src.a as a |> left join src.b as b on a.k = b.k and b.n - a.n > 3 |> select a.k, b.n
                view sums = from src.a as a |> join src.b as b on a.k = b.k |> aggregate sum(b.n - a.n) as n group by a.k mod 2 as odd
                none => dw.none\nother => dw.other\nrest => dw.rest\nkept => dw.kept\nsums => dw.sums";
    let job = Job::with(server(), &format!("[\"{database}.*\"]"), "", "", body);
    job.catch_up(&[])?;
    for (a, b) in [(50, 100), (1, 2), (700, 900)] {
        for order in [["a", "b"], ["b", "a"]] {
            let sets: Vec<String> = order
                .iter()
                .map(|table| format!("UPDATE {table} SET n = {}", if *table == "a" { a } else { b }))
                .collect();
            server().sql(&format!("USE {database}; BEGIN; {}; COMMIT", sets.join("; ")))?;
            job.catch_up(&["--workers", "2"])?;
            for view in ["rest", "none", "other"] {
                let found = job.rows(&format!("SELECT k, n FROM {view} ORDER BY k"))?;
                ensure!(found == [format!("1|{}", b - a), format!("2|{}", b - a)], "{view}: {found:?}");
            }
            job.verify()?;
        }
    }
    Ok(())
}

/// What happens is said with its numbers and names, for programs; between the copy and what views say of it too.
#[test]
fn what_happens_has_fields() -> Result<()> {
    let database = "v_events";
    let job = job(database)?;
    let events = |job: &Job| -> Result<Vec<serde_json::Value>> {
        let mut command = job.command("run", &["--until", "caught-up", "--log-format", "json"]);
        let said = Run::start(&mut command)?.wait()?;
        ensure!(said.code == Some(0), "{}", said.text());
        said.err.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    };
    let named = |events: &[serde_json::Value], name: &str| -> Vec<serde_json::Value> {
        events.iter().filter(|e| e["event"] == name).cloned().collect()
    };
    let first = events(&job)?;
    let whole: Vec<_> = named(&first, "table_whole").iter().map(|e| e["table"].clone()).collect();
    ensure!(whole.len() == 5 && whole.contains(&"v_events.orders".into()), "{first:#?}");
    let order: Vec<_> = first.iter().filter_map(|e| e["event"].as_str()).collect();
    let place =
        |name: &str| order.iter().position(|e| *e == name).with_context(|| format!("no {name} in {order:?}"));
    ensure!(place("snapshot_complete")? < place("views_computing")?, "{order:?}");
    ensure!(
        place("views_computing")? < place("views_speak")? && place("views_speak")? < place("done")?,
        "{order:?}"
    );
    let tick = named(&first, "done")[0]["tick"].as_u64().context("a tick")?;
    ensure!(
        named(&first, "views_speak")[0]["tick"].as_u64().is_some_and(|t| t > 0 && t <= tick),
        "{first:#?}"
    );
    server().sql(&format!(
        "USE {database}; ALTER TABLE orders ADD COLUMN more INT; ALTER TABLE customers ADD COLUMN n INT DEFAULT (id % 5)"
    ))?;
    let second = events(&job)?;
    let going_on = &named(&second, "going_on")[0];
    ensure!(going_on["tick"].as_u64() == Some(tick) && going_on["position"].is_string(), "{second:#?}");
    ensure!(named(&second, "views_loaded")[0]["rows"].as_u64().is_some_and(|rows| rows > 600), "{second:#?}");
    let change = &named(&second, "schema_change")[0];
    ensure!(
        change["sink"] == "dw"
            && change["table"] == "orders"
            && change["statement"].as_str().is_some_and(|s| s.contains("ADD COLUMN more"))
            && change["made"].as_array().is_some_and(|made| made.len() == 1)
            && change["tick"].as_u64().is_some_and(|t| t > tick),
        "{second:#?}"
    );
    ensure!(named(&second, "views_silent")[0]["table"] == "v_events.customers", "{second:#?}");
    ensure!(named(&second, "views_speak_again")[0]["tick"].is_u64(), "{second:#?}");
    ensure!(second.iter().all(|e| e["event"] != "info" && e["message"].is_string()), "{second:#?}");
    Ok(())
}

/// Who reads the column, by what statement it went, and what to write.
#[test]
fn a_column_of_views_that_is_renamed_is_told_with_its_views() -> Result<()> {
    let database = "v_renamed";
    let job = job(database)?;
    job.catch_up(&[])?;
    server().sql(&format!("USE {database}; ALTER TABLE customers RENAME COLUMN region TO `the region`"))?;
    let said = job.fails(1311)?;
    for part in [
        "column \"region\" of table \"v_renamed.customers\" is renamed to \"the region\", and view \"order_lines\" reads it",
        "the statement: ALTER TABLE customers RENAME COLUMN region TO `the region`",
        "in view \"order_lines\" write `the region` for region (or `the region` as region, where other views and targets are to keep the name), and begin anew",
    ] {
        ensure!(said.err.contains(part), "{part}\n{}", said.text());
    }
    let said = Run::start(&mut job.command("verify", &[]))?.wait()?;
    ensure!(
        said.code == Some(3)
            && said.text().contains("E1311")
            && said.text().contains("column \"region\" of table \"v_renamed.customers\" is gone, and view \"order_lines\" reads it"),
        "{}",
        said.text()
    );
    Ok(())
}

/// What the error of a renamed column says to do, to the letter, under either name: all is copied again, and the views are what the source
/// answers, with the rows from before, between and behind.
#[test]
fn a_renamed_column_is_mended_as_its_error_says() -> Result<()> {
    for (n, written) in ["`the region`", "`the region` as region"].into_iter().enumerate() {
        let database = format!("v_mended_{n}");
        let job = job(&database)?;
        let mut random = Random::new(n as u64);
        job.catch_up(&[])?;
        server().sql(&format!("USE {database}; {}", random.changes(40)))?;
        server()
            .sql(&format!("USE {database}; ALTER TABLE customers RENAME COLUMN region TO `the region`"))?;
        // the program's own words, from which the rest is taken
        let said = job.fails(1311)?;
        let help =
            format!("in view \"order_lines\" write {} for region", written.trim_end_matches(" as region"));
        ensure!(said.err.contains(&help) && said.err.contains(written), "{}", said.text());
        ensure!(
            said.err.contains("and begin anew: remove the state folder and the targets' tables and progress"),
            "{}",
            said.text()
        );
        let (line, lines) = ("c.region,", format!("c.{written},"));
        ensure!(VIEWS.matches(line).count() == 1);
        let mut views = body().replace(line, &lines);
        if n == 0 {
            // its other name is the name for those that read it
            views = views.replace("group by region", "group by `the region`");
        }
        job.write(&format!("[\"{database}.*\"]"), "", "chunk_rows = 100", &views);
        // a start without the rest of it is refused
        job.fails(3006)?;
        std::fs::remove_dir_all(job.path("state"))?;
        // as the page of E2005 has it, of a file and of a server
        if n == 0 {
            for file in ["target.db", "target.db-wal", "target.db-shm"] {
                let _ = std::fs::remove_file(job.path(file));
            }
        } else {
            let tables = QUESTIONS.iter().map(|question| question.view).chain(["orders"]);
            let drops: Vec<String> = tables.map(|table| format!("DROP TABLE {table}")).collect();
            rusqlite::Connection::open(job.path("target.db"))?.execute_batch(&format!(
                "{}; DELETE FROM _cdc_progress WHERE sink = 'dw'; DELETE FROM _cdc_tables WHERE sink = 'dw'",
                drops.join("; ")
            ))?;
        }
        job.catch_up(&[])?;
        let same = |job: &Job| -> Result<()> {
            for question in QUESTIONS {
                let mut at_target = question.at_target();
                if n == 0 {
                    at_target = at_target.replace("region,", "\"the region\",");
                }
                let mut found = job.rows(&at_target)?;
                found.sort();
                let at_source = question.query.replace("c.region", "c.`the region`");
                let printed = server().sql(&format!("USE {database}; {at_source}"))?;
                let mut expected: Vec<String> = printed.lines().map(|line| line.replace('\t', "|")).collect();
                expected.sort();
                ensure!(
                    !expected.is_empty() && found == expected,
                    "{}: the source says\n{expected:#?}\nthe target has\n{found:#?}",
                    question.view
                );
            }
            Ok(())
        };
        same(&job)?;
        job.verify()?;
        server().sql(&format!("USE {database}; UPDATE customers SET `the region` = 4 WHERE id % 2 = 0; UPDATE orders SET amount = 7 WHERE id % 5 = 0"))?;
        job.catch_up(&[])?;
        same(&job)?;
        job.verify()?;
    }
    Ok(())
}

/// A group of NULL, and the missing side of a full join: the row, its view, and what to write.
#[test]
fn null_in_the_key_of_a_view_is_told_with_the_row() -> Result<()> {
    let database = "v_null_key";
    tables(server(), database)?;
    server().sql(&format!("USE {database}; UPDATE orders SET customer = NULL WHERE id = 7"))?;
    for (name, view, column, row) in [
        (
            "groups",
            "from src.orders |> aggregate count(*) as n group by customer",
            "customer",
            "row (NULL, 1)",
        ),
        (
            "both",
            "from src.customers as c |> where id = 1 |> full join src.accounts as a on c.id = a.id + 39 |> select c.id as customer, a.id as account",
            "account",
            "NULL",
        ),
    ] {
        let body =
            format!("sink dw = sqlite {{ path = \"target.db\" }}\nview {name} = {view}\n{name} => dw.t");
        let said = Job::with(server(), &format!("[\"{database}.*\"]"), "", "", &body).fails(309)?;
        for part in [
            "of target table \"t\" is NULL".to_owned(),
            format!("view \"{name}\""),
            row.to_owned(),
            format!("flow \"{name} => dw.t\""),
            " is not null; or give them a value: coalesce(".to_owned(),
            column.to_owned(),
        ] {
            ensure!(said.err.contains(&part), "{part}\n{}", said.text());
        }
    }
    Ok(())
}

/// Statements that move rows in ways that the log does not show, of tables that views read: by the column that they add.
fn copied_anew(database: &str, n: usize) -> String {
    let table = ["orders", "customers", "coupons", "accounts"][n % 4];
    let number = ["id", "region", "percent", "id"][n % 4];
    format!("USE {database}; ALTER TABLE {table} ADD COLUMN computed_{n} BIGINT DEFAULT ({number} % 5);")
}

/// While a table is copied anew the target stays at the moment in front of it, and then what has become is said at once; also when the run is
/// killed on the way.
#[test]
fn a_table_of_views_that_is_copied_anew_makes_them_silent_until_it_is_whole() -> Result<()> {
    let database = "v_anew";
    let job = job(database)?;
    job.catch_up(&[])?;
    let mut random = Random::new(19);
    let mut seen = 0;
    let mut runs = String::new();
    for round in 0..6 {
        let workers = (1 + random.below(3)).to_string();
        let run = job.start(&["--workers", &workers])?;
        server().sql(&copied_anew(database, round))?;
        let until = Instant::now() + Duration::from_millis(100 + random.below(900));
        let writing = {
            let sql = format!("USE {database}; {}", random.changes(60));
            std::thread::spawn(move || server().sql(&sql))
        };
        // the table itself is copied into the target too, and is empty meanwhile
        let watching = watched(&job, false, &mut seen, until);
        let said = run.kill()?;
        runs.push_str(&said.text());
        watching.with_context(|| format!("round {round}, {workers} workers\n{}", said.text()))?;
        writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
        if round % 2 == 1 {
            let said = job.catch_up(&["--workers", "2"])?;
            runs.push_str(&said.text());
            compare(&job, database).with_context(|| said.text())?;
        }
    }
    job.catch_up(&[])?;
    compare(&job, database)?;
    job.verify()?;
    ensure!(runs.contains("views are silent until"), "no table was copied anew\n{runs}");
    ensure!(seen > 20, "looked {seen} times only");
    Ok(())
}

#[test]
fn case_75_killed_at_each_step_while_a_table_is_copied_anew() -> Result<()> {
    let steps = [
        ("snapshot.chunk-given", 2),
        ("views.saved", 1),
        ("checkpoint.partial", 1),
        ("checkpoint.saved", 1),
        ("views.saved", 2),
        ("views.speak", 1),
        ("views.saved", 3),
        ("checkpoint.saved", 3),
        ("sink.committed", 3),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        let database = format!("v_anew_{n}");
        let job = job(&database)?;
        job.catch_up(&[])?;
        killed_at(&job, &database, n, step, |run| {
            run.says("going on from tick")?;
            server().sql(&copied_anew(&database, n)).map(drop)
        })?;
    }
    Ok(())
}

#[test]
fn a_key_that_does_not_tell_rows_apart_is_told() -> Result<()> {
    let database = "v_conflict";
    tables(server(), database)?;
    let with = |policy: &str| {
        let body = format!(
            "sink dw = sqlite {{ path = \"target.db\" }}
             view regions = from src.customers |> select region, name
             regions => dw.regions key (region){policy}"
        );
        Job::with(server(), &format!("[\"{database}.*\"]"), "", "", &body)
    };
    let said = with("").fails(314)?;
    ensure!(said.err.contains("(region)") && said.err.contains("name "), "{}", said.text());
    let job = with(" with { on_conflict = log }");
    let said = job.catch_up(&[])?;
    ensure!(said.err.contains("warning[E0314]"), "{}", said.text());
    let last = |job: &Job| -> Result<()> {
        let expected = server().sql(&format!(
            "SELECT region, MAX(name) FROM {database}.customers GROUP BY region ORDER BY region"
        ))?;
        let found = job.rows("SELECT region || char(9) || name FROM regions ORDER BY region")?.join("\n");
        ensure!(found.trim() == expected.trim(), "expected\n{expected}\nfound\n{found}");
        Ok(())
    };
    last(&job)?;
    job.verify()?;
    // the one that stands goes, and another one of its key stands
    server().sql(&format!("USE {database}; DELETE FROM customers WHERE name = 'name 8'; INSERT INTO customers VALUES (99, 'zz', 2, '')"))?;
    job.catch_up(&[])?;
    last(&job)?;
    job.verify()?;
    Ok(())
}

/// Of rows that agree in the key the one stands that is greatest in a column, as the server orders it: also when it goes, or falls behind; through
/// kills and starts. Another column than before would be another target.
#[test]
fn the_last_row_of_a_key_is_told_by_a_column() -> Result<()> {
    let database = "v_last_by";
    server().sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, at DATETIME(3), n DECIMAL(10,2), word VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci);
         INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 90)
           SELECT i, i % 7, NULLIF(FROM_UNIXTIME(1700000000 + i * 37 % 11 + (i % 3) / 2), FROM_UNIXTIME(1700000004)), NULLIF(i * 31 % 17, 3) / 4,
             NULLIF(ELT(1 + i % 5, 'a', 'B', 'b', 'Ab', 'none'), 'none') FROM s"
    ))?;
    let by = ["at", "n", "word"];
    let with = |policy: &dyn Fn(&str) -> String| {
        let flows: Vec<String> = by
            .iter()
            .map(|by| format!("of_keys => dw.by_{by} key (k) with {{ on_conflict = {} }}", policy(by)))
            .collect();
        format!(
            "sink dw = sqlite {{ path = \"target.db\" }}
             view of_keys = from src.t |> select id, k, at, n, word
             {}",
            flows.join("\n")
        )
    };
    let tables = format!("[\"{database}.*\"]");
    let job = Job::with(server(), &tables, "", "", &with(&|_| "error".into()));
    job.fails(314)?;
    // what is to happen may be said then, without beginning anew
    job.write(&tables, "", "", &with(&|by| format!("{{ last = {by} }}")));
    let mut random = Random::new(31);
    for round in 0..6 {
        if round > 0 {
            let changes: Vec<String> = (0..40)
                .map(|_| {
                    let (id, k) = (1 + random.below(95), random.below(7));
                    match random.below(4) {
                        0 => format!("DELETE FROM t WHERE id = {id}"),
                        1 => format!("UPDATE t SET at = NULLIF(at + INTERVAL {k} SECOND, '2023-11-14 22:13:24'), k = {k} WHERE id = {id}"),
                        2 => format!("UPDATE t SET n = {k} / 4, word = ELT({k}, 'a', 'A', 'á', 'ab ') WHERE id = {id}"),
                        _ => format!("REPLACE INTO t VALUES ({id}, {k}, NULL, {k} + 1, 'Z')"),
                    }
                })
                .collect();
            server().sql(&format!("USE {database}; {}", changes.join("; ")))?;
        }
        if round % 2 == 1 {
            job.start(&["--workers", "2"])?.kill()?;
        }
        job.catch_up(&["--workers", if round % 3 == 0 { "1" } else { "3" }])?;
        for by in by {
            let expected = server().sql(&format!(
                "USE {database}; SELECT k, id FROM (SELECT k, id, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {by} DESC, id DESC) AS place FROM t) r
                 WHERE place = 1 ORDER BY k"
            ))?;
            let found = job.rows(&format!("SELECT k || char(9) || id FROM by_{by} ORDER BY k"))?.join("\n");
            ensure!(
                found.trim() == expected.trim(),
                "round {round}, by {by}: the source says\n{expected}\nthe target has\n{found}"
            );
        }
        job.verify()?;
    }
    // in other letters it is the same column; what the view says of conflicts is asked of flows only, which have theirs
    let in_capitals = with(&|by| format!("{{ last = {} }}", by.to_uppercase()));
    job.write(
        &tables,
        "",
        "",
        &in_capitals.replace("view of_keys =", "view of_keys with { on_conflict = { log = \"K\" } } ="),
    );
    job.catch_up(&[])?;
    job.verify()?;
    job.write(&tables, "", "", &with(&|_| "{ last = n }".into()));
    let said = job.fails(3006)?;
    ensure!(said.err.contains("dw.by_word") && !said.err.contains("dw.by_n\n"), "{}", said.text());
    // nor is a key watched no more that was
    job.write(&tables, "", "", &with(&|by| format!("{{ last = {by} }}, upsert = none")));
    job.fails(3006)?;
    Ok(())
}

/// Conditions of outer joins, semi joins and anti joins beside their equality, on either side and on both: as the server answers them.
#[test]
fn conditions_of_joins_mean_what_the_server_means() -> Result<()> {
    let database = "v_conditions";
    server().sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE a (id INT PRIMARY KEY, k INT, n INT, word VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci);
         CREATE TABLE b (id INT PRIMARY KEY, k INT, n INT, word VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci);
         CREATE TABLE loose (k INT, n INT);
         INSERT INTO a WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 40)
           SELECT i, NULLIF(i % 9, 4), NULLIF(i * 7 % 11, 5), ELT(1 + i % 3, 'x', 'Y', 'z') FROM s;
         INSERT INTO b SELECT id + 3, k + 1, n - 1, word FROM a WHERE id % 3 > 0;
         INSERT INTO loose SELECT k, n % 3 FROM a UNION ALL SELECT k, n % 3 FROM a WHERE id < 15"
    ))?;
    let conditions = [
        "a.n > 4",
        "b.n < 6",
        "a.n > 2 AND b.n > 2",
        "a.n < b.n",
        "a.n <= b.n + 1 AND a.id <> b.id AND b.word = 'X' AND a.id > 5",
        "(a.n IS NULL OR b.n = 3)",
        "coalesce(a.word, b.word) = 'y'",
        "1 = 0",
        "NULL",
    ];
    let outer = ["left", "right", "full"];
    let mut body = "sink dw = sqlite { path = \"target.db\" }\n".to_owned();
    let mut questions: Vec<(String, String, String)> = Vec::new();
    let mut ask = |name: String, view: String, columns: &str, query: String| {
        body += &format!("view {name} =\n  {view}\n{name} => dw.{name}\n");
        questions.push((name, columns.to_owned(), query));
    };
    for (i, condition) in conditions.into_iter().enumerate() {
        for kind in outer {
            let on = format!("a.k = b.k AND {condition}");
            let view = format!(
                "from src.a as a |> {kind} join src.b as b on {on} |> select coalesce(a.id, 0) as one, coalesce(b.id, 0) as other, b.word"
            );
            let select = "SELECT COALESCE(a.id, 0), COALESCE(b.id, 0), b.word FROM";
            let query = match kind {
                // no such join at the server: what the left one gives, and of the right side what has no match
                "full" => format!(
                    "{select} a LEFT JOIN b ON {on} UNION ALL SELECT 0, b.id, b.word FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE {on})"
                ),
                _ => format!("{select} a {kind} JOIN b ON {on}"),
            };
            ask(format!("{kind}_{i}"), view, "one, other, word", query);
        }
        for (kind, not) in [("semi", ""), ("anti", "NOT ")] {
            ask(
                format!("{kind}_{i}"),
                format!(
                    "from src.a as a |> {kind} join src.b as b on a.k = b.k AND {condition} |> select a.id, a.n"
                ),
                "id, n",
                format!(
                    "SELECT id, n FROM a WHERE {not}EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND {condition})"
                ),
            );
        }
    }
    for kind in ["left", "right"] {
        ask(
            format!("loose_{kind}"),
            format!(
                "from src.loose as l |> {kind} join src.b as b on l.k = b.k and l.n < b.n and b.n > 1 |> select l.k, l.n, b.id"
            ),
            "k, n, id",
            format!(
                "SELECT l.k, l.n, b.id FROM loose l {kind} JOIN b ON l.k = b.k AND l.n < b.n AND b.n > 1"
            ),
        );
    }
    let job = Job::with(server(), &format!("[\"{database}.*\"]"), "", "", &body);
    let mut random = Random::new(47);
    for round in 0..4 {
        if round > 0 {
            let changes: Vec<String> = (0..30)
                .map(|_| {
                    let (id, k, n) = (1 + random.below(45), random.below(9), random.below(11));
                    let table = ["a", "b"][random.below(2) as usize];
                    match random.below(5) {
                        0 => format!("DELETE FROM {table} WHERE id = {id}"),
                        1 => format!("UPDATE {table} SET k = NULLIF({k}, 4), n = {n} WHERE id = {id}"),
                        2 => format!("REPLACE INTO {table} VALUES ({id}, {k}, NULLIF({n}, 5), 'y')"),
                        3 => format!("INSERT INTO loose VALUES ({k}, {n} % 3), ({k}, {n} % 3)"),
                        _ => format!("DELETE FROM loose WHERE k = {k} LIMIT 1"),
                    }
                })
                .collect();
            server().sql(&format!("USE {database}; {}", changes.join("; ")))?;
        }
        job.catch_up(&["--workers", if round % 2 == 0 { "2" } else { "1" }])?;
        for (name, columns, query) in &questions {
            let printed = server().sql(&format!("USE {database}; {query}"))?;
            let mut expected: Vec<String> = printed.lines().map(|line| line.replace('\t', "|")).collect();
            let mut found = job.rows(&format!("SELECT {columns} FROM {name}"))?;
            expected.sort();
            found.sort();
            ensure!(
                found == expected,
                "round {round}, {name}: {query}\nthe source says\n{expected:#?}\nthe target has\n{found:#?}"
            );
        }
    }
    job.verify()?;
    Ok(())
}

/// What the server groups, orders and chooses by, where that is not the same.
#[test]
fn labels_count_by_number_or_by_text_as_the_server_has_it() -> Result<()> {
    let database = "v_labels";
    server().sql(&format!(
        "CREATE DATABASE {database}; USE {database};
         CREATE TABLE e (id INT PRIMARY KEY, g INT NOT NULL, label ENUM('m', 'z', 'a', 'b') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
           tags SET('y', 'x') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL);
         INSERT INTO e VALUES (1, 1, 'z', 'x'), (2, 1, 'a', 'y'), (3, 1, 'm', 'x,y'), (4, 2, 'b', ''), (5, 2, 'a', 'y'), (6, 2, 'm', 'x')"
    ))?;
    let body = "sink dw = sqlite { path = \"target.db\" }
                view ends = from src.e |> aggregate min(label) as least, max(label) as most, min(tags) as low, max(tags) as high,
                  count(distinct label) as labels group by g
                view first = from src.e |> top 1 by label, id per g |> select g, id, label
                view by_label = from src.e |> aggregate count(*) as n group by label
                ends => dw.ends
                first => dw.first key (g)
                by_label => dw.by_label";
    let job = Job::with(server(), &format!("[\"{database}.*\"]"), "", "", body);
    let questions = [
        (
            "SELECT CONCAT_WS('|', g, MIN(label), MAX(label), MIN(tags), MAX(tags), COUNT(DISTINCT label)) FROM e GROUP BY g ORDER BY g",
            "SELECT g, least, most, low, high, labels FROM ends ORDER BY g",
        ),
        (
            "SELECT CONCAT_WS('|', g, id, label) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY label, id) AS n FROM e) r WHERE n = 1 ORDER BY g",
            "SELECT g, id, label FROM first ORDER BY g",
        ),
        (
            "SELECT CONCAT_WS('|', label, COUNT(*)) FROM e GROUP BY label ORDER BY CAST(label AS CHAR)",
            "SELECT label, n FROM by_label ORDER BY label",
        ),
    ];
    for change in
        ["DO 1", "DELETE FROM e WHERE id IN (2, 3)", "UPDATE e SET label = 'z', tags = 'x,y' WHERE id = 5"]
    {
        server().sql(&format!("USE {database}; {change}"))?;
        job.catch_up(&[])?;
        for (at_source, at_target) in questions {
            let expected = server().sql(&format!("USE {database}; {at_source}"))?;
            let found = job.rows(at_target)?;
            let expected: Vec<&str> = expected.lines().collect();
            ensure!(
                found == expected,
                "behind {change}: {at_source}\nthe source says {expected:?}\nthe target has {found:?}"
            );
        }
    }
    job.verify()?;
    Ok(())
}
