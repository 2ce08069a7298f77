//! `cdc test`: what must pass passes, and what must fail is seen to fail, with what it says.

use cdc_testkit::markdown::diff;
use serde_json::Value;
use std::fs;
use std::process::Command;
use tempfile::TempDir;

const SCHEMA: &str = "\
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, tier ENUM('basic', 'gold') NOT NULL DEFAULT 'basic');
CREATE TABLE orders (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT NOT NULL,
  amount DECIMAL(8,2) NOT NULL DEFAULT 1,
  placed DATETIME(3) NULL,
  seen TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE log (line VARCHAR(20), n INT);
";

const HEAD: &str = "\
pipeline { name = \"shop\" }
source src = mysql { url = \"mysql://127.0.0.1:1\", user = \"cdc\", password = \"${NOBODY_SETS_THIS}\", tables = [\"shop.*\"], schema = \"shop.sql\" }
sink dw = sqlite { path = \"dw.db\" }
src.customers => dw.customers
src.log => dw.log
src.orders |> where amount > 1 |> select id, customer_id, amount, placed => dw.orders
view lines = from src.orders as o |> join src.customers as c on o.customer_id = c.id |> select o.id, c.name as customer, o.amount
view spent = from src.orders |> aggregate sum(amount) as total, count(*) as n group by customer_id
lines => dw.lines
";

struct Said {
    code: i32,
    out: String,
    err: String,
}

/// `cdc test shop.cdc ..` in a folder of its own, with these tests.
fn run(text: &str, args: &[&str]) -> Said {
    run_with(text, &[("shop.sql", SCHEMA)], args)
}

/// The same with other files beside it.
fn run_with(text: &str, files: &[(&str, &str)], args: &[&str]) -> Said {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files.iter().chain(&[("shop.cdc", text)]) {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_cdc"))
        .args(["test", "shop.cdc"])
        .args(args)
        .current_dir(folder.path())
        .env("NO_COLOR", "1")
        .output()
        .expect("the program");
    // nothing is opened, nothing is left behind
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("the folder").map(|e| e.expect("it").file_name()).collect();
    assert_eq!(left.len(), 1 + files.len(), "{left:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

fn tests(steps: &str) -> Said {
    run(&format!("{HEAD}test \"t\" {{\n{steps}\n}}\n"), &[])
}

#[track_caller]
fn passes(steps: &str) {
    let said = tests(steps);
    assert_eq!(said.out, "ok      shop.cdc: t\n1 test: ok\n", "{}", said.err);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
}

/// It fails, and says just this behind the line of the test.
#[track_caller]
fn fails(steps: &str, says: &str) {
    let said = tests(steps);
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{}", said.out);
    let first = said.out.lines().next().unwrap_or_default();
    assert!(first.starts_with("FAILED  shop.cdc:") && first.ends_with(": t"), "{}", said.out);
    let body = said.out.split_once('\n').map_or("", |(_, rest)| rest);
    let body = body.strip_suffix("\n1 test: 1 failed\n").unwrap_or(body);
    let body: String = body.lines().map(|l| format!("{}\n", l.trim_end())).collect();
    assert!(body == says, "{}\n{body}", diff(says, &body));
}

#[test]
fn rows_go_the_way_of_a_run() {
    passes(
        "given src.customers + { id: 1, name: \"ann\" }, { id: 2, name: \"bea\", tier: \"GOLD\" }
  given src.orders + { customer_id: 1, amount: 5, seen: \"2026-01-01\", placed: \"2026-01-02 03:04:05.678\" }, { customer_id: 1, seen: \"2026-01-01\" }
  expect dw.customers = [ { id: 2, name: \"bea\", tier: \"gold\" }, { id: 1, name: \"ann\", tier: \"basic\" } ]
  expect dw.orders = [ { id: 1, customer_id: 1, amount: 5.0, placed: \"2026-01-02 03:04:05.678\" } ]
  expect dw.lines = [ { id: 1, customer: \"ann\", amount: 5 }, { id: 2, customer: \"ann\", amount: 1 } ]
  expect spent = [ { customer_id: 1, total: 6, n: 2 } ]
  when src.customers ~ { id: 1, name: \"cem\" }
  when src.orders - { id: 1 }, src.orders + { id: 9, customer_id: 2, amount: 2.005, seen: \"2026-01-01\" }
  expect lines = [ { id: 2, customer: \"cem\", amount: 1 }, { id: 9, customer: \"bea\", amount: 2.01 } ]
  expect dw.orders = [ { id: 9, customer_id: 2, amount: 2.01, placed: null } ]",
    );
}

#[test]
fn a_table_without_a_key_holds_rows_as_often_as_they_came() {
    passes(
        "given src.log + { line: \"a\", n: 1 }, { line: \"a\", n: 1 }, { line: \"b\" }
  when src.log - { line: \"a\" }
  expect dw.log = [ { line: \"b\", n: null }, { line: \"a\", n: 1 } ]",
    );
    fails(
        "given src.log + { line: \"a\", n: 1 }, { line: \"a\", n: 1 }
  expect dw.log = [ { line: \"a\", n: 1 } ]",
        "\
error[E4006]: \"dw.log\" is not what is expected
  --> shop.cdc:12:10
   |
12 |   expect dw.log = [ { line: \"a\", n: 1 } ]
   |          ^^^^^^ 1 row too many
   |

            line  n
  too many  \"a\"   1
  1 row as expected
",
    );
}

/// A view's rows are looked at as they are; only a target needs its key.
#[test]
fn a_view_is_looked_at_with_nulls_in_its_key() {
    let by_line =
        "view by_line = from src.log |> aggregate sum(n) as n, count(*) as rows_of_it group by line\n";
    let test = |steps: &str| run(&format!("{HEAD}{by_line}test \"of nulls\" {{\n  {steps}\n}}\n"), &[]);
    let said = test(
        "given src.log + { line: null, n: 1 }, { line: null, n: 2 }, { line: \"x\", n: 3 }
  expect by_line = [ { line: null, n: 3, rows_of_it: 2 }, { line: \"x\", n: 3, rows_of_it: 1 } ]
  when src.log - { line: null, n: 1 }
  expect by_line = [ { line: null, n: 2, rows_of_it: 1 }, { line: \"x\", n: 3, rows_of_it: 1 } ]
  when src.log - { line: null }
  expect by_line = [ { line: \"x\", n: 3, rows_of_it: 1 } ]",
    );
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    // a row that differs stands beside the one of its key
    let said = test(
        "given src.log + { line: null, n: 1 }, { line: \"x\", n: 3 }
  expect by_line = [ { line: null, n: 7, rows_of_it: 1 }, { line: \"x\", n: 3, rows_of_it: 1 } ]",
    );
    assert_eq!(said.code, 1);
    assert!(format!("{}{}", said.out, said.err).contains("1 row differing"), "{}{}", said.out, said.err);
}

/// What a server would not leave as it was has to be said.
#[test]
fn an_update_says_what_the_server_would_compute() {
    let file = |steps: &str| {
        let schema = "CREATE TABLE g (id VARCHAR(9) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, a INT, note TEXT, b INT AS (a * 2) STORED, c INT AS (`b` + 1), alpha INT);";
        let text = format!(
            "pipeline {{ name = \"shop\" }}
source src = mysql {{ url = \"mysql://127.0.0.1:1\", user = \"cdc\", tables = [\"shop.*\"], schema = \"shop.sql\" }}
sink dw = sqlite {{ path = \"dw.db\" }}
src.g |> select id, a, b, c => dw.g
test \"computed\" {{
  given src.g + {{ id: \"k\", a: 1, b: 2, c: 3 }}
  {steps}
}}
"
        );
        run_with(&text, &[("shop.sql", schema)], &[])
    };
    for (row, why) in [
        (
            "a: 2",
            "column \"b\" of \"shop.g\" is not named, and the server computes it from \"a\", which changes",
        ),
        (
            "a: 2, b: 4",
            "column \"c\" of \"shop.g\" is not named, and the server computes it from \"b\", which changes",
        ),
    ] {
        let said = file(&format!("when src.g ~ {{ id: \"k\", {row} }}"));
        assert_eq!(said.code, 1, "{row}");
        assert!(said.err.contains(why) || said.out.contains(why), "{}{}", said.out, said.err);
    }
    // by its collation, as ~ does, - finds the key too
    let said = file(
        "when src.g ~ { id: \"K\", a: 2, b: 4, c: 5 }
  when src.g ~ { id: \"k\", alpha: 2, a: 2, note: \"a\" }
  expect dw.g = [ { id: \"k\", a: 2, b: 4, c: 5 } ]
  when src.g - { id: \"K\", a: 2 }
  expect dw.g = []",
    );
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

/// What a choice of columns leaves out is not read, although there is a union behind it.
#[test]
fn columns_in_front_of_a_union_that_nothing_reads_may_go() {
    let text = format!(
        "{HEAD}
view few  = from src.orders |> select cast(id as signed) as id, customer_id |> union all more
view more = from src.customers |> select id + 1000 as id, id as customer_id
few => dw.few key (id)
test \"gone\" {{
  given src.customers + {{ id: 1, name: \"ann\" }}
  given src.orders + {{ id: 7, customer_id: 1, amount: 5.00, seen: \"2026-01-01\" }}
  ddl \"ALTER TABLE shop.customers DROP COLUMN tier\"
  ddl \"ALTER TABLE shop.orders RENAME COLUMN seen TO looked_at\"
  expect dw.few = [ {{ id: 7, customer_id: 1 }}, {{ id: 1001, customer_id: 1 }} ]
}}
"
    );
    let said = run(&text, &[]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

/// What a view leaves out before anything reads it is not read: by `drop` and by `* except`, in front of a join and behind it, beside `rename`, and
/// in front of what tells rows apart by all their columns.
#[test]
fn columns_that_a_view_leaves_out_may_go() {
    let text = format!(
        "{HEAD}
view less   = from src.orders |> drop seen, placed |> rename amount as paid
view rest   = from src.orders |> select * except (seen, placed), amount * 2 as twice |> drop customer_id
view joined = from src.orders as o |> join src.customers as c on o.customer_id = c.id |> drop seen, tier, placed |> select o.id, customer_id, amount
view kinds  = from src.customers |> drop tier, id |> distinct
view first  = from src.orders |> top 1 by amount desc |> drop seen |> select * except (placed)
view united = from src.customers |> drop tier |> union all few
view few    = from src.customers |> select * except (tier) |> where id > 1
less => dw.less
rest => dw.rest
joined => dw.joined
kinds => dw.kinds
first => dw.first
united => dw.united
test \"gone\" {{
  given src.customers + {{ id: 1, name: \"ann\" }}, {{ id: 2, name: \"bob\" }}
  given src.orders + {{ id: 7, customer_id: 1, amount: 5.00, seen: \"2026-01-01\" }}
  ddl \"ALTER TABLE shop.customers DROP COLUMN tier\"
  ddl \"ALTER TABLE shop.orders RENAME COLUMN seen TO looked_at\"
  ddl \"ALTER TABLE shop.orders MODIFY placed VARCHAR(30)\"
  ddl \"ALTER TABLE shop.orders ADD COLUMN seen INT\"
  when src.orders + {{ id: 8, customer_id: 2, amount: 6.00, looked_at: \"2026-01-02\", seen: 3 }}
  expect dw.less = [ {{ id: 7, customer_id: 1, paid: 5.00 }}, {{ id: 8, customer_id: 2, paid: 6.00 }} ]
  expect dw.rest = [ {{ id: 7, amount: 5.00, twice: 10.00 }}, {{ id: 8, amount: 6.00, twice: 12.00 }} ]
  expect dw.joined = [ {{ id: 7, customer_id: 1, amount: 5.00 }}, {{ id: 8, customer_id: 2, amount: 6.00 }} ]
  expect dw.kinds = [ {{ name: \"ann\" }}, {{ name: \"bob\" }} ]
  expect dw.first = [ {{ id: 8, customer_id: 2, amount: 6.00 }} ]
  expect dw.united = [ {{ id: 1, name: \"ann\" }}, {{ id: 2, name: \"bob\" }}, {{ id: 2, name: \"bob\" }} ]
}}
"
    );
    // what HEAD reads of these columns is not there
    let text = text.replace(", amount, placed => dw.orders", ", amount => dw.orders");
    let said = run(&text, &[]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

/// What is left out behind something that reads it, or that tells rows apart by it, is read.
#[test]
fn columns_that_are_left_out_too_late_are_read() {
    for (view, column) in [
        ("from src.orders |> extend seen as at |> drop seen", "seen"),
        ("from src.orders |> distinct |> drop seen", "seen"),
        ("from src.customers |> union all src.customers |> drop tier", "tier"),
        ("from src.orders |> where seen > '2000-01-01' |> select * except (seen)", "seen"),
        ("from src.orders |> rename seen as at |> drop at", "seen"),
        ("from src.orders |> top 1 by seen |> drop seen", "seen"),
    ] {
        let table = if column == "tier" { "customers" } else { "orders" };
        let said = run(
            &format!(
                "{HEAD}
view late = {view}
late => dw.late
test \"late\" {{
  ddl \"ALTER TABLE shop.{table} DROP COLUMN {column}\"
  expect dw.late = []
}}
"
            ),
            &[],
        );
        let told =
            format!("column \"{column}\" of table \"shop.{table}\" is dropped, and view \"late\" reads it");
        assert!(said.code == 1 && said.out.contains(&told), "{view}: {}{}", said.out, said.err);
    }
}

/// What is left out is looked up as everything is: a name that is not there, or that two tables have, is a mistake.
#[test]
fn what_is_left_out_must_be_there() {
    for (ops, told) in [
        ("drop sen", "\"sen\""),
        ("select * except (sen)", "\"sen\""),
        ("drop seen |> drop seen", "\"seen\""),
        ("join src.customers as c on o.customer_id = c.id |> drop id", "\"id\""),
        ("extend 1 as seen |> drop seen", "\"seen\""),
    ] {
        let said = run(
            &format!(
                "{HEAD}
view late = from src.orders as o |> {ops}
late => dw.late
test \"late\" {{
  expect dw.late = []
}}
"
            ),
            &[],
        );
        let text = format!("{}{}", said.out, said.err);
        assert!(said.code != 0 && text.contains(told) && text.contains("error["), "{ops}: {text}");
    }
}

#[test]
fn numbers_that_were_given_are_not_given_again() {
    let order = |id: &str| format!("{{ {id}customer_id: 1, amount: 5, seen: \"2026-01-01\" }}");
    let all = |ids: &[u32]| {
        let rows: Vec<String> =
            ids.iter().map(|id| format!("{{ id: {id}, customer_id: 1, amount: 5, placed: null }}")).collect();
        format!("[ {} ]", rows.join(", "))
    };
    passes(&format!(
        "given src.orders + {}, {}
  when src.orders - {{ id: 11 }}
  when src.orders + {}, {}, {}
  expect dw.orders = {}
  ddl \"TRUNCATE shop.orders\"
  when src.orders + {}
  expect dw.orders = {}",
        order("id: 10, "),
        order(""),
        order(""),
        order("id: null, "),
        order("id: 0, "),
        all(&[10, 12, 13, 14]),
        order(""),
        // in mode lenient the target keeps its rows
        all(&[1, 10, 12, 13, 14]),
    ));
}

#[test]
fn a_chain_of_views_may_be_long() {
    let mut text = format!("{HEAD}view v0 = from src.orders |> select id, amount\n");
    for i in 1..3_000 {
        text += &format!("view v{i} = from v{} |> where amount <> {i}\n", i - 1);
    }
    let day = "2026-01-01";
    text += &format!(
        "test \"a chain\" {{
  given src.orders + {{ id: 1, customer_id: 1, amount: 3000, seen: \"{day}\" }}, {{ id: 2, customer_id: 1, amount: 2999, seen: \"{day}\" }}
  expect v2999 = [ {{ id: 1, amount: 3000 }} ]
}}\n"
    );
    let said = run(&text, &[]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}

#[test]
fn statements_become_what_a_run_would_have_met() {
    passes(
        "given src.customers + { id: 1, name: \"ann\" }
  ddl \"ALTER TABLE shop.customers ADD COLUMN points INT NOT NULL DEFAULT 3 AFTER id, RENAME COLUMN tier TO level\"
  when src.customers + { id: 2, name: \"bea\", level: \"gold\", points: 7 }
  expect dw.customers columns (id, name, tier, level, points)
  expect dw.customers = [
    { id: 1, name: \"ann\", tier: \"basic\", points: 3, level: \"basic\" },
    { id: 2, name: \"bea\", tier: null, points: 7, level: \"gold\" } ]",
    );
    // one that changes values is copied anew
    passes(
        "given src.log + { line: \"17\", n: 1 }, { line: \"4\" }
  ddl \"ALTER TABLE shop.log MODIFY n TINYINT, MODIFY line CHAR(2)\"
  expect dw.log = [ { line: \"17\", n: 1 }, { line: \"4\", n: null } ]
  ddl \"CREATE TABLE shop.more (a INT PRIMARY KEY)\"
  given src.more + { a: 1 }
  ddl \"DROP TABLE shop.log\"",
    );
}

#[test]
fn a_wrong_value_a_missing_row_and_one_too_many_are_shown() {
    fails(
        "given src.customers + { id: 1, name: \"ann\" }, { id: 2, name: \"bea\" }, { id: 3, name: \"cem\" }
  expect dw.customers = [
    { id: 1, name: \"ann\", tier: \"gold\" }, { id: 2, name: \"bea\", tier: \"basic\" }, { id: 4, name: \"dea\", tier: \"basic\" } ]",
        "\
error[E4006]: \"dw.customers\" is not what is expected
  --> shop.cdc:12:10
   |
12 |   expect dw.customers = [
   |          ^^^^^^^^^^^^ 1 row differing, 1 row missing, 1 row too many
   |

            id  name   tier
  expected  1   \"ann\"  \"gold\"
  actual    1   \"ann\"  \"basic\"
                       ^^^^^^^
  missing   4   \"dea\"  \"basic\"
  too many  3   \"cem\"  \"basic\"
  1 row as expected
",
    );
}

#[test]
fn other_columns_are_shown() {
    fails(
        "expect dw.customers columns (id, tier, name)",
        "\
error[E4006]: \"dw.customers\" has other columns than expected
  --> shop.cdc:11:34
   |
11 | expect dw.customers columns (id, tier, name)
   |                                  ^^^^
   |
note: expected: (id, tier, name)
note: actual:   (id, name, tier)
",
    );
}

/// The first line of what is said.
#[track_caller]
fn fails_with(steps: &str, begins: &str, also: &str) {
    let said = tests(steps);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    let line = said.out.lines().nth(1).unwrap_or_default();
    assert!(line.starts_with(begins) && said.out.contains(also), "{}", said.out);
}

#[test]
fn steps_that_a_server_would_refuse_are_refused() {
    let given = "given src.customers + { id: 17, name: \"ann\" }\n";
    let with = |step: &str| format!("{given}{step}");
    fails_with(
        &with("when src.customers ~ { id: 71, name: \"bea\" }"),
        "error[E4007]: table \"shop.customers\" has no such row",
        "note: the nearest that it has: { id: 17, name: \"ann\", tier: \"basic\" }",
    );
    fails_with(
        "when src.customers - { id: 1 }",
        "error[E4007]: table \"shop.customers\" has no such row",
        "the table is empty",
    );
    fails_with(
        &with("when src.customers ~ { name: \"bea\" }"),
        "error[E4007]: the key's column \"id\" is not named",
        "found by their key: id",
    );
    fails_with(
        &with("when src.customers + { id: 17, name: \"bea\" }"),
        "error[E4007]: table \"shop.customers\" has a row of this key already",
        "name: \"ann\"",
    );
    fails_with(
        &with("when src.customers - { id: 17, name: \"bea\" }"),
        "error[E4007]: the row of this key has another value in column \"name\"",
        "name: \"ann\"",
    );
    fails_with(
        "when src.log ~ { line: \"a\", n: 1 }",
        "error[E4007]: table \"shop.log\" has no key",
        "delete the row with -",
    );
    fails_with(
        "when src.customers + { id: 1 }",
        "error[E4007]: column \"name\" of \"shop.customers\" is not named, and it has no default",
        "name it: name: ..",
    );
    fails_with(
        "when src.orders + { customer_id: 1 }",
        "error[E4007]: column \"seen\" of \"shop.orders\" is not named, and its default depends on the moment",
        "name it",
    );
    fails_with(
        "when src.customers + { id: 1, name: null }",
        "error[E4007]: column \"name\" of \"shop.customers\" is NOT NULL",
        "shop.cdc:11:",
    );
    fails_with(
        "expect dw.customers = [ { id: 1 } ]",
        "error[E4007]: an expected row of \"dw.customers\" does not name all columns",
        "name name, tier as well",
    );
    fails_with(
        "expect dw.custmers = []",
        "error[E0203]: unknown table \"dw.custmers\"",
        "did you mean dw.customers?",
    );
    fails_with("ddl \"DELETE FROM shop.log\"", "error[E4007]: DELETE changes rows", "write rows as when");
    fails_with(
        "ddl \"ALTER TABLE shop.log FROBNICATE\"",
        "error[E1301]: ",
        "ALTER TABLE shop.log FROBNICATE",
    );
}

#[test]
fn a_statement_that_changes_no_captured_table_is_refused() {
    for (statement, why) in [
        ("ALTER TABEL shop.log DROP COLUMN n", "it reads as ALTER TABEL"),
        ("CREATE TABEL shop.more (a INT)", "it reads as CREATE TABEL"),
        ("DROP TABEL shop.log", "it reads as DROP TABEL"),
        ("RENAME TABEL shop.log TO shop.more", "it reads as RENAME TABEL"),
        ("ALTER shop.log ADD x INT", "it reads as ALTER SHOP"),
        ("ALTER", "it reads as ALTER"),
        ("SET", "it reads as SET"),
        ("GRANT x", "it reads as GRANT"),
        ("", "it reads as an empty statement"),
        ("CREATE TEMPORARY TABLE shop.log (a INT)", "it reads as CREATE TEMPORARY TABLE"),
        ("CREATE TABLE crm.more (a INT)", "it is about \"crm.more\""),
        ("DROP TABLE IF EXISTS crm.more", "it is about \"crm.more\""),
    ] {
        let step = format!("ddl \"{statement}\"");
        fails_with(&step, "error[E4007]: the statement changes no table that source \"src\" captures", why);
    }
    fails_with("ddl \"SELECT 1\"", "error[E4007]: the statement reads or calls", "ALTER TABLE ..");
    fails_with(
        "ddl \"ALTER TABLE shop.log FROBNICATE\"",
        "error[E1301]: ",
        "help: correct the statement, or leave it out of the test",
    );
    // what the server would refuse
    for (statement, why) in [
        ("DROP TABLE shop.lok", "\"shop.lok\" is not there"),
        ("TRUNCATE shop.lok", "\"shop.lok\" is not there"),
        ("RENAME TABLE shop.lok TO shop.more", "\"shop.lok\" is not there"),
        ("RENAME TABLE shop.log TO shop.orders", "\"shop.orders\" is there already"),
        ("CREATE TABLE shop.log (a INT)", "\"shop.log\" is there already"),
    ] {
        fails_with(&format!("ddl \"{statement}\""), "error[E4007]: table ", why);
    }
    // what does nothing at the server either
    passes(
        "ddl \"CREATE INDEX n ON shop.log (n)\"
  ddl \"DROP TABLE IF EXISTS shop.more\"
  ddl \"CREATE TABLE IF NOT EXISTS shop.log (a INT)\"
  ddl \"ALTER TABLE shop.log ENGINE = InnoDB\"
  ddl \"ALTER DATABASE shop CHARACTER SET latin1\"
  ddl \"RENAME TABLE shop.log TO shop.old, shop.old TO shop.log\"
  given src.log + { n: 1 }
  expect dw.log = [ { line: null, n: 1 } ]",
    );
}

#[test]
fn values_that_are_none_of_their_columns_are_refused() {
    for (value, why) in [
        ("id: 3000000000, name: \"a\"", "\"id\" int: it is out of range"),
        ("id: 1, name: \"a name of more than twenty letters\"", "\"name\" varchar(20): it is too long"),
        ("id: 1, name: \"a\", tier: \"silver\"", "\"tier\" enum('basic','gold'): it is none of the members"),
        ("id: \"x\", name: \"a\"", "error[E0307]: "),
    ] {
        fails_with(&format!("when src.customers + {{ {value} }}"), "error[E0307]: ", why);
    }
    let order =
        |value: &str| format!("when src.orders + {{ customer_id: 1, seen: \"2026-01-01\", {value} }}");
    fails_with(
        &order("amount: 1234567.00"),
        "error[E0307]: ",
        "\"amount\" decimal(8,2): it has too many digits",
    );
    fails_with(&order("placed: \"soon\""), "error[E0307]: ", "column \"placed\" datetime(3)");
    fails_with(&order("placed: \"2026-02-30\""), "error[E0307]: ", "shop.cdc:11:");
}

#[test]
fn an_error_is_told_at_the_step_that_led_to_it() {
    fails_with(
        "ddl \"ALTER TABLE shop.customers RENAME COLUMN name TO called\"
  when src.customers + { id: 1, called: \"ann\" }
  expect dw.lines = []",
        "error[E1311]: column \"name\" of table \"shop.customers\" is renamed to \"called\", and view \"lines\" reads it",
        "--> shop.cdc:11:1",
    );
}

#[test]
fn an_error_of_the_pipeline_fails_its_test_alone() {
    let exception = HEAD.replace("name = \"shop\"", "name = \"shop\", on_schema_change = exception");
    let text = format!(
        "{exception}test \"stopped\" {{\n  ddl \"ALTER TABLE shop.log ADD COLUMN x INT\"\n  expect dw.log = []\n}}\n\
         test \"after it\" {{\n  given src.log + {{ n: 1 }}\n  expect dw.log = [ {{ line: null, n: 1 }} ]\n}}\n"
    );
    let said = run(&text, &[]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    let mut lines = said.out.lines();
    assert_eq!(lines.next(), Some("FAILED  shop.cdc:11: stopped"), "{}", said.out);
    assert!(lines.next().is_some_and(|line| line.starts_with("error[E1308]: ")), "{}", said.out);
    assert!(said.out.ends_with("\nok      shop.cdc: after it\n2 tests: 1 failed\n"), "{}", said.out);
    let said = run(&text, &["--filter", "after"]);
    assert_eq!((said.code, said.out.as_str()), (0, "ok      shop.cdc: after it\n1 test: ok\n"));
    let said = run(&text, &["--filter", "nothing"]);
    assert_eq!((said.code, said.out.as_str()), (2, "no test was run: none has \"nothing\" in its name\n"));
}

#[test]
fn programs_get_a_document() {
    let text = format!(
        "{HEAD}test \"wrong\" {{\n  given src.log + {{ line: \"a\", n: 1 }}\n  expect dw.log = []\n}}\n\
         test \"right\" {{\n  expect dw.log = []\n}}\n"
    );
    let said = run(&text, &["--format", "json"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    let document: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        (&document["ok"], &document["tests"], &document["failed"]),
        (&false.into(), &2.into(), &1.into())
    );
    let wrong = &document["files"][0]["tests"][0];
    assert_eq!((&wrong["name"], &wrong["ok"], &wrong["line"]), (&"wrong".into(), &false.into(), &12.into()));
    assert_eq!(wrong["diagnostics"][0]["code"], "E4006");
    assert_eq!(wrong["differences"]["target"], "dw.log");
    assert_eq!(wrong["differences"]["rows"][0]["actual"], serde_json::json!(["\"a\"", "1"]));
    assert_eq!(document["files"][0]["tests"][1]["ok"], true);
}

#[test]
fn without_a_schema_text_there_are_no_tests() {
    let text = HEAD.replace(", schema = \"shop.sql\"", "");
    let said = run(&format!("{text}test \"t\" {{\n  expect dw.log = []\n}}\n"), &[]);
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(said.err.starts_with("error[E0402]: source \"src\" has no schema text"), "{}", said.err);
    assert!(said.err.contains("cdc init mysql://host:port writes one"), "{}", said.err);
    // rows are not made of a variable that is not there
    let text = HEAD.replace("amount > 1", "amount > ${NOR_THIS}");
    let said = run(&format!("{text}test \"t\" {{\n  expect dw.log = []\n}}\n"), &[]);
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(said.err.starts_with("error[E0405]: "), "{}", said.err);
}

/// The test of the language by example: its first part, over a join with a side that need not be there.
#[test]
fn the_language_by_example() {
    let head = "\
pipeline { name = \"shop\" }
source src = mysql { url = \"mysql://127.0.0.1:1\", user = \"cdc\", tables = [\"shop.*\"], schema = \"more.sql\" }
sink dw = sqlite { path = \"dw.db\" }
view order_lines =
  from src.orders as o
  |> join src.customers as c on o.customer_id = c.id
  |> left join src.coupons as k on o.coupon = k.code
  |> select o.id, c.name as customer, o.amount, coalesce(k.percent, 0) as percent
order_lines => dw.order_lines key (id)
src./orders.*/ |> extend meta.table as shard => dw.orders key (shard, id)
";
    let schema = "\
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20));
CREATE TABLE coupons (code VARCHAR(10) PRIMARY KEY, percent INT NOT NULL);
CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT, amount DECIMAL(8,2), coupon VARCHAR(10));
";
    let test = "\
test \"an order of a renamed customer\" {
  given src.customers  + { id: 1, name: \"ann\" }
  given src.orders     + { id: 7, customer_id: 1, amount: 5.00 }, { id: 8, customer_id: 1, amount: 2.00 }
  expect dw.order_lines = [ { id: 7, customer: \"ann\", amount: 5.00, percent: 0 }, { id: 8, customer: \"ann\", amount: 2.00, percent: 0 } ]
  when  src.customers  ~ { id: 1, name: \"bea\" }
  when  src.orders     - { id: 8 }
  expect dw.order_lines = [ { id: 7, customer: \"bea\", amount: 5.00, percent: 0 } ]
  when  src.coupons    + { code: \"may\", percent: 5 }, src.orders ~ { id: 7, coupon: \"MAY\" }
  expect order_lines = [ { id: 7, customer: \"bea\", amount: 5.00, percent: 5 } ]
  ddl   \"ALTER TABLE shop.orders ADD COLUMN note VARCHAR(20) AFTER id\"
  expect dw.orders columns (id, customer_id, amount, coupon, shard, note)
}
";
    let said = run_with(&format!("{head}{test}"), &[("more.sql", schema)], &[]);
    assert_eq!(said.out, "ok      shop.cdc: an order of a renamed customer\n1 test: ok\n", "{}", said.err);
}

#[test]
fn deleted_rows_that_stay_are_seen() {
    let head = HEAD.replace("=> dw.customers\n", "=> dw.customers with { soft_delete = gone }\n");
    let test = "test \"t\" {\n  given src.customers + { id: 1, name: \"ann\" }\n  when src.customers - { id: 1 }\n  \
                expect dw.customers = [ { id: 1, name: \"ann\", tier: \"basic\", gone: true } ]\n}\n";
    let said = run(&format!("{head}{test}"), &[]);
    assert_eq!(said.out, "ok      shop.cdc: t\n1 test: ok\n", "{}", said.err);
}

#[test]
fn dates_that_change_on_their_way_are_not_played() {
    let head = HEAD.replace("tables = ", "zero_dates = text, tables = ");
    let said = run(&format!("{head}test \"t\" {{\n  expect dw.log = []\n}}\n"), &[]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.out.contains("error[E0504]: tests of a source with zero_dates = text"), "{}", said.out);
}

/// The examples of the page of statements that hold tests, over a table of orders.
#[test]
fn the_tests_of_the_reference_pass() {
    let page = cdc_testkit::servers::workspace_dir().join("dsl/reference/statements.md");
    let page = fs::read_to_string(page).expect("the page");
    let blocks = page.split("```cdc fmt\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let head = "pipeline { name = \"shop\" }\nsource src = mysql { url = \"mysql://127.0.0.1:1\", user = \"cdc\", \
                tables = [\"shop.*\"], schema = \"orders.sql\" }\nsink dw = sqlite { path = \"dw.db\" }\n";
    let schema = "CREATE TABLE orders (id INT PRIMARY KEY, amount DECIMAL(8,2));";
    let mut count = 0;
    for block in blocks.filter(|block| block.contains("\ntest \"")) {
        let said = run_with(&format!("{head}{block}\n"), &[("orders.sql", schema)], &[]);
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        count += said.out.lines().filter(|line| line.starts_with("ok ")).count();
    }
    assert!(count > 0, "the page shows no test");
}

/// A test is the quickest look at which row of a key is the last one, and at what a left join says of a row that its condition leaves without a match.
#[test]
fn the_last_row_of_a_key_and_conditions_of_joins_in_a_test() {
    let text = format!(
        "{HEAD}view latest = from src.orders |> select customer_id, id, amount, placed
latest => dw.latest key (customer_id) with {{ on_conflict = {{ last = placed }} }}
view large = from src.orders as o |> left join src.customers as c on o.customer_id = c.id and o.amount > 10 |> select o.id, c.name
large => dw.large
test \"t\" {{
  given src.customers + {{ id: 1, name: \"ann\" }}
  given src.orders + {{ id: 1, customer_id: 1, seen: \"2026-01-01\", amount: 20.00, placed: \"2026-02-03\" }}
  given src.orders + {{ id: 2, customer_id: 1, seen: \"2026-01-01\", amount: 5.00, placed: \"2026-02-01\" }}
  given src.orders + {{ id: 3, customer_id: 1, seen: \"2026-01-01\", amount: 9.00 }}
  expect dw.latest = [ {{ customer_id: 1, id: 1, amount: 20.00, placed: \"2026-02-03\" }} ]
  expect dw.large = [ {{ id: 1, name: \"ann\" }}, {{ id: 2, name: null }}, {{ id: 3, name: null }} ]
  when src.orders - {{ id: 1 }}
  expect dw.latest = [ {{ customer_id: 1, id: 2, amount: 5.00, placed: \"2026-02-01\" }} ]
}}
"
    );
    let said = run(&text, &[]);
    assert_eq!(
        (said.out.as_str(), said.code),
        ("ok      shop.cdc: t\n1 test: ok\n", 0),
        "{}{}",
        said.out,
        said.err
    );
}
