//! `cdc init` against a real server: what it writes is checked, run and verified with no edit.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};
use cdc_testkit::servers::{Server, ServerOptions};
use tempfile::TempDir;

/// Tables of every kind of type, odd names, and some that cannot be copied.
const SHOP: &str = "
CREATE DATABASE shop CHARACTER SET utf8mb4;
USE shop;
CREATE TABLE customers (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(80) NOT NULL COMMENT 'as it is; AUTO_INCREMENT=7',
  email VARCHAR(120) CHARACTER SET ascii NOT NULL,
  note TEXT CHARACTER SET latin1,
  created_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  UNIQUE KEY by_email (email)
) COMMENT 'who buys' AUTO_INCREMENT = 100;
CREATE TABLE orders (
  customer_id BIGINT UNSIGNED NOT NULL,
  number INT NOT NULL,
  amount DECIMAL(12,2) NOT NULL DEFAULT 0.00,
  state ENUM('new','paid','it''s void') NOT NULL,
  flags SET('gift','express') DEFAULT NULL,
  paid_on DATE DEFAULT NULL,
  gross DECIMAL(14,2) GENERATED ALWAYS AS (amount * 1.19) STORED,
  PRIMARY KEY (customer_id, number),
  CONSTRAINT of_customer FOREIGN KEY (customer_id) REFERENCES customers (id)
);
CREATE TABLE everything (
  code CHAR(8) NOT NULL,
  a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d BIGINT, f FLOAT, g DOUBLE, h BIT(12), y YEAR,
  t TIME(6), dt DATETIME(6), j JSON, vb VARBINARY(20), bl BLOB, p POINT SRID 4326,
  UNIQUE KEY only_key (code)
);
CREATE TABLE `odd \"name\" - with.dot` (`the key` INT PRIMARY KEY, `select` VARCHAR(20), `größe` INT);
CREATE TABLE parts (id INT NOT NULL, kind INT NOT NULL, PRIMARY KEY (id, kind)) PARTITION BY HASH (kind) PARTITIONS 3;
CREATE TABLE empty_one (id INT PRIMARY KEY);
CREATE TABLE no_key (line VARCHAR(200));
CREATE TABLE old_words (id INT PRIMARY KEY, w VARCHAR(20) CHARACTER SET gb18030);
CREATE VIEW big AS SELECT * FROM orders WHERE amount > 100;
INSERT INTO customers (name, email, note) VALUES ('Ann', 'ann@example.com', 'caf\u{e9}'), ('中文字', 'b@example.com', NULL);
INSERT INTO orders (customer_id, number, amount, state, flags, paid_on)
  VALUES (100, 1, 12.50, 'paid', 'gift,express', '2026-01-31'), (101, 1, -0.01, 'it''s void', NULL, NULL);
INSERT INTO everything VALUES
  ('a', -128, 65535, -8388608, -9223372036854775808, 1.5, 1e300, b'101', 1901, '-838:59:59', '9999-12-31 23:59:59.999999',
   '{\"a\": [1, 2.5, null]}', x'0001FF', x'', ST_GeomFromText('POINT(1 2)', 4326)),
  ('b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO `odd \"name\" - with.dot` VALUES (1, 'x', 3);
INSERT INTO parts VALUES (1, 1), (2, 1), (3, 2);
INSERT INTO no_key VALUES ('one'), ('one');
INSERT INTO old_words VALUES (1, 'w');
CREATE DATABASE crm;
CREATE TABLE crm.customers (id INT PRIMARY KEY, since DATE);
INSERT INTO crm.customers VALUES (1, '2020-02-29');
";

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::start(ServerOptions::of_this_run()).expect("a server");
        let mariadb = [("POINT SRID 4326", "POINT REF_SYSTEM_ID=4326"), ("gb18030", "eucjpms")];
        let words = if server.kind().is_mariadb() { &mariadb[..] } else { &[] };
        let shop = words.iter().fold(SHOP.to_owned(), |shop, (mysql, mariadb)| shop.replace(mysql, mariadb));
        server.sql(&shop).expect("a shop");
        server
    })
}

/// A folder in which the program works.
struct Place {
    folder: TempDir,
    password: &'static str,
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    fn text(&self) -> String {
        format!("exit code {:?}\n{}{}", self.code, self.out, self.err)
    }
}

impl Place {
    fn new() -> Result<Place> {
        Ok(Place { folder: tempfile::tempdir()?, password: "cdc" })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path(name)).with_context(|| name.to_owned())
    }

    fn say(&self, args: &[&str]) -> Result<Said> {
        let output = Command::new(env!("CARGO_BIN_EXE_cdc"))
            .args(args)
            .current_dir(self.folder.path())
            .env("CDC_PASSWORD", self.password)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()?;
        Ok(Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// The same; it must succeed.
    fn done(&self, args: &[&str]) -> Result<Said> {
        let said = self.say(args)?;
        ensure!(said.code == Some(0), "{args:?}\n{}", said.text());
        Ok(said)
    }

    /// Checks, runs and verifies a file that was written, as it stands; the rows that were compared.
    fn use_it(&self, file: &str) -> Result<u64> {
        self.done(&["fmt", "--check", file])?;
        let offline = self.done(&["check", file])?;
        ensure!(only_multisets(&offline.err), "{}", offline.text());
        self.done(&["explain", file])?;
        let live = self.done(&["check", file, "--live"])?;
        ensure!(only_multisets(&live.err) && !live.out.contains("drift:"), "{}", live.text());
        self.done(&["run", file, "--until", "caught-up"])?;
        let verified = self.done(&["verify", file, "--format", "json"])?;
        let report: serde_json::Value = serde_json::from_str(&verified.out)?;
        ensure!(report["differing"] == 0, "{}", verified.text());
        report["rows"].as_u64().context("no number of rows")
    }
}

/// Nothing is warned of but tables without a key, and generated columns that a server does not log.
fn only_multisets(err: &str) -> bool {
    let count = |text: &str| err.matches(text).count();
    let known = ["has no key: it is copied as a multiset", "are left out: "];
    count("error[") == 0 && count("warning[") == known.into_iter().map(count).sum::<usize>()
}

fn url() -> String {
    format!("mysql://127.0.0.1:{}", server().port())
}

#[test]
fn what_is_written_is_checked_run_and_verified_with_no_edit() -> Result<()> {
    let place = Place::new()?;
    let said = place.done(&["init", &url(), "--tables", "shop.*"])?;
    ensure!(said.err.is_empty(), "{}", said.text());
    for line in [
        "without a key: shop.no_key: copied as a multiset, unless a flow of its own has key (..)",
        "  cdc check shop.cdc --live",
        "  cdc run shop.cdc --until caught-up",
        "  cdc verify shop.cdc",
    ] {
        ensure!(said.out.lines().any(|l| l == line), "{line}\n{}", said.text());
    }
    let text = place.read("shop.cdc")?;
    for part in [
        "shop.no_key",
        "no key: a multiset",
        "shop.customers",
        "key (customer_id, number)",
        "${CDC_PASSWORD}",
    ] {
        ensure!(text.contains(part), "{part}\n{text}");
    }
    let schema = place.read("shop.sql")?;
    ensure!(!schema.contains("AUTO_INCREMENT=100") && schema.contains("AUTO_INCREMENT=7"), "{schema}");
    let rows = place.use_it("shop.cdc")?;
    ensure!(rows >= 2 + 2 + 2 + 3 + 2, "{rows} rows");
    ensure!(place.path("shop.db").is_file() && place.path("shop.state").is_dir(), "all lies beside the file");
    Ok(())
}

#[test]
fn several_databases_go_into_one_target() -> Result<()> {
    let place = Place::new()?;
    fs::create_dir(place.path("conf"))?;
    let said = place.done(&["init", &url(), "--output", "conf/all"])?;
    ensure!(said.out.starts_with("conf/all.cdc: "), "{}", said.text());
    let text = place.read("conf/all.cdc")?;
    ensure!(text.contains("\"crm.*\"") && text.contains("\"shop.*\""), "{text}");
    ensure!(text.contains("src.* => dw.\"{database}_{table}\""), "{text}");
    ensure!(text.contains(r#""shop.`odd \"name\" - with.dot`""#), "{text}");
    let rows = place.use_it("conf/all.cdc")?;
    // the first two are those of the table with a dot in its name and of the other database
    let least = 1 + 1 + 2 + 2 + 2 + 3;
    ensure!(rows >= least, "{rows} rows");
    Ok(())
}

#[test]
fn files_that_are_there_stay_as_they_are() -> Result<()> {
    let place = Place::new()?;
    fs::write(place.path("shop.sql"), "-- mine\n")?;
    let init = |more: &[&str]| {
        let url = url();
        let tables = ["init", &url, "--tables", "shop.orders", "--tables", "shop.customers"];
        place.say(&[&tables[..], more].concat())
    };
    for more in [&[][..], &["--output", "shop.cdc"]] {
        let said = init(more)?;
        ensure!(
            said.code == Some(2) && said.err.contains("\"shop.sql\" is there already"),
            "{}",
            said.text()
        );
        ensure!(place.read("shop.sql")? == "-- mine\n" && !place.path("shop.cdc").exists());
    }
    let said = init(&["--force"])?;
    ensure!(said.code == Some(0), "{}", said.text());
    let first = place.read("shop.cdc")?;
    ensure!(first.contains("\"shop.orders\",") && !first.contains("everything"), "{first}");
    ensure!(
        init(&["--force"])?.code == Some(0) && place.read("shop.cdc")? == first,
        "it comes out the same again"
    );
    ensure!(fs::read_dir(place.folder.path())?.count() == 2, "nothing is left beside the files");
    Ok(())
}

#[test]
fn what_fails_leaves_no_file() -> Result<()> {
    let mut place = Place::new()?;
    let url = url();
    let says = |place: &Place, args: &[&str], code: i32, begins: &str| -> Result<()> {
        let said = place.say(&[&["init"], args].concat())?;
        ensure!(said.code == Some(code) && said.err.starts_with(begins), "{args:?}\n{}", said.text());
        ensure!(said.err.contains("help: "), "{}", said.text());
        ensure!(fs::read_dir(place.folder.path())?.count() == 0, "a file was written");
        Ok(())
    };
    says(&place, &[&url, "--tables", "nothing.*"], 2, "error[E0216]")?;
    says(&place, &[&url, "--tables", "shop"], 2, "error[E0206]")?;
    says(&place, &[&url, "--output", "shop.sql"], 2, "error[E4003]")?;
    says(&place, &["127.0.0.1:3306"], 2, "error[E1008]")?;
    says(&place, &["mysql://127.0.0.1:1"], 3, "error[E1001]")?;
    says(&place, &[&url, "--user", "nobody"], 3, "error[E1002]")?;
    place.password = "";
    let said = place.say(&["init", &url])?;
    ensure!(said.code == Some(3) && said.err.contains("CDC_PASSWORD is not set"), "{}", said.text());
    place.password = "s3cr3t-never-to-be-seen";
    let said = place.say(&["init", &url])?;
    ensure!(said.code == Some(3) && !said.text().contains(place.password), "{}", said.text());
    Ok(())
}

#[test]
fn an_account_that_lacks_privileges_gets_a_file_and_is_told() -> Result<()> {
    let server = server();
    server.sql(
        "CREATE USER 'reader'@'%' IDENTIFIED BY ''; GRANT SELECT ON crm.* TO 'reader'@'%'; \
         GRANT SELECT ON shop.orders TO 'reader'@'%'",
    )?;
    let mut place = Place::new()?;
    place.password = "";
    let said = place.done(&["init", &url(), "--user", "reader", "--output", "r.cdc"])?;
    ensure!(
        said.err.contains("warning[E1004]") && said.err.contains("GRANT REPLICATION SLAVE"),
        "{}",
        said.text()
    );
    ensure!(said.out.contains("mend what is warned of above"), "{}", said.text());
    let text = place.read("r.cdc")?;
    ensure!(text.contains("has no password") && !text.contains("customers  key (id, since)"), "{text}");
    server.sql("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'reader'@'%'")?;
    place.use_it("r.cdc")?;
    Ok(())
}
