//! `cargo xtask demo`: a shop is copied while it is open, its table grows a column on the way, and in
//! the end every row is compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cdc_testkit::servers::postgres::{self, Postgres, PostgresOptions};
use cdc_testkit::servers::{Server, ServerKind, ServerOptions, remove_dir, target_dir, workspace_dir};
use rusqlite::{Connection, OpenFlags};

use crate::args::Args;
use crate::child::Guarded;
use crate::soak::TargetKind;
use crate::tidy::cargo;
use crate::{say, servers};

const PIPELINE: &str = "examples/shop.cdc";
const WITH_VIEWS: &str = "examples/shop_views.cdc";
const TO_MYSQL: &str = "examples/shop_mysql.cdc";
const TO_POSTGRES: &str = "examples/shop_postgres.cdc";

/// How long a run may take to catch up before the demo gives up on it.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the shop is copied into: a file, or another server.
enum Target {
    Sqlite(PathBuf),
    Server(Box<Server>),
    Postgres(Box<Postgres>),
}

impl Target {
    /// As the pipelines take it.
    fn parameter(&self) -> String {
        match self {
            Target::Sqlite(path) => path.display().to_string(),
            Target::Server(server) => format!("mysql://127.0.0.1:{}", server.port()),
            Target::Postgres(server) => server.url(),
        }
    }

    /// Starts what `--target` names, and gives the pipeline that copies into it. The database of a MySQL or MariaDB server and
    /// the account's rights are the user's part.
    fn start(name: &str, folder: &Path) -> Result<(Target, &'static str)> {
        if name == "sqlite" {
            return Ok((Target::Sqlite(folder.join("shop.db")), PIPELINE));
        }
        if name == postgres::NAME {
            servers::ensure_postgres()?;
            let server = Postgres::start(PostgresOptions::default())?;
            say!("== {} as the target on port {}", server.installation().version()?, server.port());
            return Ok((Target::Postgres(Box::new(server)), TO_POSTGRES));
        }
        let kind: ServerKind = name.parse().context("--target: sqlite, postgres, or a server")?;
        servers::ensure(kind)?;
        let server = Server::start(ServerOptions::of(kind))?;
        server.sql("CREATE DATABASE dw; GRANT ALL ON dw.* TO cdc@'%'")?;
        say!("== a {kind} server as the target on port {}", server.port());
        Ok((Target::Server(Box::new(server)), TO_MYSQL))
    }
}

/// `cargo xtask demo [--server SERVER] [--target sqlite|postgres|SERVER] [--rows N] [--keep] [--cdc PROGRAM] [--pipeline FILE]
/// [--views]`
pub fn main(args: &mut Args) -> Result<()> {
    let kind = args.value("--server")?.map_or(Ok(ServerKind::default()), |name| name.parse())?;
    let rows = args.number("--rows", 20_000)?.max(100);
    let keep = args.flag("--keep");
    let program = args.value("--cdc")?;
    let pipeline = args.value("--pipeline")?;
    let target = args.value("--target")?.unwrap_or_else(|| "sqlite".into());
    let views = args.flag("--views");
    args.finish()?;
    ensure!(
        !views || (pipeline.is_none() && target == "sqlite"),
        "--views is a pipeline of its own, which writes into SQLite: leave out --pipeline and --target"
    );
    let pipeline = if views { Some(WITH_VIEWS.to_owned()) } else { pipeline };
    // what is written wrong is told before anything is built
    TargetKind::parse(&target)?;
    let program = program_or_build(program)?;
    servers::ensure(kind)?;

    let folder = target_dir().join("demo");
    remove_dir(&folder)?;
    fs::create_dir_all(&folder)?;
    let (target, usual) = Target::start(&target, &folder)?;
    let pipeline = pipeline.unwrap_or_else(|| usual.into());
    ensure!(workspace_dir().join(&pipeline).exists(), "{pipeline} is not there");
    let start = Instant::now();
    let server = Server::start(ServerOptions::of(kind))?;
    say!("== a {kind} server on port {}, {:.1} s", server.port(), start.elapsed().as_secs_f64());
    let start = Instant::now();
    server.sql(&shop(kind, rows))?;
    say!("== {} in database shop, {:.1} s", counts(&server)?, start.elapsed().as_secs_f64());

    let demo = Demo { program, pipeline, port: server.port(), target, folder };
    say!("== cdc run {}", demo.pipeline);
    let mut run = Guarded::spawn(&mut demo.command("run"))?;
    pause(&mut run, 1500)?;
    say!("== the shop is open: orders, payments, a customer moves, some orders go");
    for round in 0..4 {
        server.sql(&changes(round, rows))?;
        pause(&mut run, 300)?;
    }
    say!("== ALTER TABLE orders ADD COLUMN note VARCHAR(40), and notes are written");
    server.sql(ALTER)?;
    pause(&mut run, 500)?;
    server.sql(&changes(4, rows))?;
    pause(&mut run, 1000)?;
    say!("== Ctrl-C");
    run.interrupt()?;
    let status = run.wait(PATIENCE).context("cdc run after Ctrl-C")?;
    say!("== cdc run ended ({status}); the shop stays open meanwhile");
    server.sql(&changes(5, rows))?;
    say!("== cdc run --until caught-up: goes on where it was");
    let status = Guarded::spawn(demo.command("run").args(["--until", "caught-up"]))?.wait(PATIENCE)?;
    ensure!(status.success(), "cdc run failed ({status})");

    say!("== cdc verify: {} at the source", counts(&server)?);
    let output = demo.command("verify").output().context("starting cdc verify")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    say!("{}", printed.trim_end());
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "cdc verify failed ({})", output.status);
    let verdict = printed.lines().rfind(|line| line.contains("differences"));
    let verdict = verdict.context("cdc verify names no number of differences")?;
    ensure!(has_no_differences(verdict), "source and target differ: {verdict}");
    if views && let Target::Sqlite(path) = &demo.target {
        best_customers(path)?;
    }
    say!("\ndemo: {}", verdict.trim());
    if keep {
        demo.say_how_to_go_on(&server);
        say!("running until Ctrl-C");
        servers::wait_for_interrupt()?;
    } else {
        remove_dir(&demo.folder)?;
    }
    Ok(())
}

/// The view that the demo is about, as it stands at the target.
fn best_customers(path: &Path) -> Result<()> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut select = db.prepare(
        "SELECT name, tier, orders, revenue FROM best_customers ORDER BY CAST(revenue AS REAL) DESC, name",
    )?;
    let rows = select.query_map([], |row| {
        let (name, tier): (String, String) = (row.get(0)?, row.get(1)?);
        let (orders, revenue): (i64, String) = (row.get(2)?, row.get(3)?);
        Ok(format!("{name:<12} {tier:<7} {orders:>6} {revenue:>12}"))
    })?;
    let rows = rows.collect::<rusqlite::Result<Vec<String>>>()?;
    say!("\nthe {} best customers, as the target has them in view best_customers", rows.len());
    say!("{:<12} {:<7} {:>6} {:>12}", "name", "tier", "orders", "revenue");
    rows.iter().for_each(|row| say!("{row}"));
    ensure!(!rows.is_empty(), "view best_customers is empty");
    Ok(())
}

/// The program that is given, else one that is built as users run it.
pub fn program_or_build(given: Option<String>) -> Result<PathBuf> {
    if let Some(program) = given {
        return Path::new(&program).canonicalize().with_context(|| format!("--cdc {program}"));
    }
    say!("== cargo build --release -p cdc-cli (the first time some minutes)");
    let status = cargo().args(["build", "--release", "--locked", "-p", "cdc-cli"]).status()?;
    ensure!(status.success(), "the build failed");
    let program = target_dir().join("release").join("cdc");
    ensure!(program.exists(), "the build made no {}", program.display());
    Ok(program)
}

struct Demo {
    program: PathBuf,
    pipeline: String,
    port: u16,
    target: Target,
    folder: PathBuf,
}

impl Demo {
    /// What to paste to go on with this very pipeline, and to look at both sides.
    fn say_how_to_go_on(&self, server: &Server) {
        let folder = self.folder.display();
        let arguments = format!(
            "{} --set url=mysql://127.0.0.1:{} --set target={} --state {folder}/state",
            self.pipeline,
            self.port,
            self.target.parameter()
        );
        say!("\nto go on, in another terminal:");
        say!("  export CDC_PASSWORD=cdc DW_PASSWORD=cdc");
        for command in ["run", "verify"] {
            say!("  {} {command} {arguments}", self.program.display());
        }
        say!("the source:  {}", servers::client_line(server));
        match &self.target {
            Target::Sqlite(path) => say!("the target:  sqlite3 {}", path.display()),
            Target::Server(target) => say!("the target:  {}", servers::client_line(target)),
            Target::Postgres(target) => {
                say!("the target:  PGPASSWORD=cdc psql -h 127.0.0.1 -p {} -U cdc dw", target.port());
            }
        }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(workspace_dir())
            .arg(name)
            .arg(&self.pipeline)
            .arg("--set")
            .arg(format!("url=mysql://127.0.0.1:{}", self.port))
            .arg("--set")
            .arg(format!("target={}", self.target.parameter()))
            .arg("--state")
            .arg(self.folder.join("state"))
            .env("CDC_PASSWORD", "cdc")
            .env("DW_PASSWORD", "cdc");
        command
    }
}

/// Lets the run work for a while; a run that ends by itself is an error.
fn pause(run: &mut Guarded, millis: u64) -> Result<()> {
    thread::sleep(Duration::from_millis(millis));
    match run.ended()? {
        Some(status) => bail!("cdc run ended by itself ({status})"),
        None => Ok(()),
    }
}

/// Whether a line says "0 differences", and not "10 differences".
fn has_no_differences(line: &str) -> bool {
    let words: Vec<&str> = line.split(|next: char| !next.is_alphanumeric()).collect();
    words.windows(2).any(|pair| pair == ["0", "differences"])
}

/// How many rows the shop has.
pub fn counts(server: &Server) -> Result<String> {
    let count = |table: &str| -> Result<String> {
        Ok(format!("{} {table}", server.sql(&format!("SELECT COUNT(*) FROM shop.{table}"))?.trim()))
    };
    Ok([count("customers")?, count("products")?, count("orders")?].join(", "))
}

/// The tables of the shop: the text that the examples name as `schema`.
const SHOP_TABLES: &str = include_str!("../../examples/shop.sql");

/// The shop and its first rows, drawn from row numbers so that every demo is the same.
pub fn shop(kind: ServerKind, rows: u64) -> String {
    let (customers, products) = (rows / 10, rows / 50 + 1);
    let most_rounds = if kind.is_mariadb() { "max_recursive_iterations" } else { "cte_max_recursion_depth" };
    format!(
        "\
CREATE DATABASE shop CHARACTER SET utf8mb4;
USE shop;
{SHOP_TABLES}SET SESSION {most_rounds} = {rows};
INSERT INTO customers (name, email, tier, credit, settings, created_at)
  WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {customers})
  SELECT CONCAT(ELT(1 + n % 6, 'Ann', 'Zoë', 'Jörg', 'Łukasz', '美咲', 'Иван'), ' ', n),
         IF(n % 7 = 0, NULL, CONCAT('user', n, '@example.com')),
         1 + CRC32(n) % 3,
         CRC32(n * 3) % 100000 / 100,
         IF(n % 5 = 0, NULL, JSON_OBJECT('newsletter', n % 2 = 0, 'language', ELT(1 + n % 3, 'en', 'de', 'ja'))),
         '2024-01-01' + INTERVAL n * 4711 SECOND + INTERVAL n * 17 MICROSECOND
  FROM s;
INSERT INTO products (sku, title, price, weight, attributes)
  WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {products})
  SELECT CONCAT('P', LPAD(n, 8, '0')), CONCAT(ELT(1 + n % 4, 'Chair', 'Table', 'Lamp', 'Tee ☕'), ' ', n),
         1 + CRC32(n * 7) % 50000 / 100, IF(n % 9 = 0, NULL, CRC32(n) % 1000 / 8),
         JSON_OBJECT('colours', JSON_ARRAY('red', 'grün'), 'size', n % 12)
  FROM s;
INSERT INTO orders (customer_id, product_id, quantity, amount, status, placed_at, shipped_at, message)
  WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
  SELECT 1 + CRC32(n) % {customers}, 1 + CRC32(n * 5) % {products}, 1 + n % 9,
         CRC32(n * 11) % 1000000 / 100, 1 + n % 3,
         '2025-01-01' + INTERVAL n * 97 SECOND + INTERVAL n * 13 MICROSECOND,
         IF(n % 3 = 2, '2025-06-01' + INTERVAL n SECOND, NULL),
         IF(n % 4 = 0, CONCAT('für dich 🎁 ', n), NULL)
  FROM s;
"
    )
}

/// One round of a day in the shop; each statement block is one transaction.
fn changes(round: u64, rows: u64) -> String {
    let (customers, from) = (rows / 10, round * 37);
    format!(
        "\
USE shop;
BEGIN;
INSERT INTO orders (customer_id, product_id, quantity, amount, placed_at, message) VALUES
  (1 + {round}, 1, 1, 19.90, '2026-01-01 10:00:00.000001', 'первый'),
  (2 + {round}, 2, 2, 39.80, '2026-01-01 10:00:01', NULL),
  (3 + {round}, 1, 3, 59.70, '2026-01-01 10:00:02.5', '');
UPDATE customers SET credit = credit - 19.90 WHERE id = 1 + {round};
COMMIT;
UPDATE orders SET status = 'paid' WHERE id % 41 = {from} % 41 AND status = 'new';
UPDATE orders SET status = 'shipped', shipped_at = '2026-01-02 08:00:00' WHERE id BETWEEN {from} AND {from} + 20;
UPDATE customers SET email = 'moved{round}@example.com', settings = JSON_SET(COALESCE(settings, '{{}}'), '$.moved', {round})
  WHERE id = 5 + {round};
UPDATE products SET price = price * 1.10 WHERE id % 10 = {round};
DELETE FROM orders WHERE id % 53 = {round} AND status = 'returned';
DELETE FROM orders WHERE id BETWEEN 50 + {from} AND 55 + {from};
BEGIN;
DELETE FROM orders WHERE customer_id = {customers} - {round};
DELETE FROM customers WHERE id = {customers} - {round};
COMMIT;
BEGIN;
DELETE FROM orders WHERE id < 1000;
ROLLBACK;
"
    )
}

const ALTER: &str = "\
USE shop;
ALTER TABLE orders ADD COLUMN note VARCHAR(40);
UPDATE orders SET note = CONCAT('note ', id) WHERE id % 10 = 0;
INSERT INTO orders (customer_id, product_id, quantity, amount, placed_at, note)
  VALUES (1, 1, 1, 1.00, '2026-01-03 00:00:00', 'born with a note ✎');
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_differences_are_not_none() {
        assert!(has_no_differences("3 tables, 22000 rows compared, 0 differences"));
        assert!(!has_no_differences("3 tables, 22000 rows compared, 10 differences"));
    }

    #[test]
    fn the_shop_opens_and_its_days_change_it() -> Result<()> {
        for kind in ServerKind::ALL {
            let server = Server::start(ServerOptions::of(kind))?;
            server.sql(&shop(kind, 2000))?;
            assert_eq!(counts(&server)?, "200 customers, 41 products, 2000 orders", "{kind}");
            (0..5).try_for_each(|round| server.sql(&changes(round, 2000)).map(drop))?;
            server.sql(ALTER)?;
            server.sql(&changes(5, 2000))?;
            assert!(counts(&server)?.starts_with("194 customers, 41 products, "), "{kind}");
        }
        Ok(())
    }
}
