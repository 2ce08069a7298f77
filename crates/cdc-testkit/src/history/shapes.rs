//! Tables that change their structure at random, with rows before, between and behind the statements.
//!
//! ```no_run
//! use cdc_testkit::history::shapes::{Shapes, ShapesOptions};
//! use cdc_testkit::servers::{Server, ServerOptions};
//!
//! # fn main() -> anyhow::Result<()> {
//! let server = Server::start(ServerOptions::default())?;
//! let shapes = Shapes::create(&server, ShapesOptions { database: "shapes".into(), ..ShapesOptions::default() })?;
//! let changing = shapes.start(&server)?;
//! while changing.statements() < 200 {
//!     std::thread::sleep(std::time::Duration::from_millis(50));
//! }
//! println!("{}", changing.end()?);
//! # Ok(())
//! # }
//! ```
//!
//! One client per database, so it knows each table's structure and no statement of it fails; one that does ends it. The
//! same seed gives the same statements.
//!
//! *Values* stay in the domain of their column, whatever its type has become: a number fits TINYINT, a text has 8
//! characters. So a target that did not follow a change of type still holds each of them, and what a mode lets
//! differ is its structure alone.
//!
//! *Classes*: what a statement means for whoever copies the rows ([`Class`]).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::session::{Door, Refusals, Session};
use crate::servers::Server;

/// How tables change.
#[derive(Clone, Debug)]
pub struct ShapesOptions {
    /// The same seed gives the same statements.
    pub seed: u64,
    /// The database, which is made.
    pub database: String,
    /// How many tables: one is partitioned, one has no key.
    pub tables: usize,
    /// What no mode but evolve follows: TRUNCATE, and DROP with a CREATE of the same name.
    pub removes: bool,
    /// Tables change their names, and their keys.
    pub renames: bool,
    /// Tables are swapped with others that nobody copies: a target is told to drop them and to make them again.
    pub rebuilds: bool,
    /// Names of columns come again, numbers become text, days get a time: where a target stays behind, what it has under
    /// a name is another column, a text is no number, and a time has no place in a DATE.
    pub crosses: bool,
    /// How long the client rests at most between two steps.
    pub pause: Duration,
}

impl Default for ShapesOptions {
    fn default() -> Self {
        ShapesOptions {
            seed: super::seed(),
            database: "shapes".into(),
            tables: 4,
            removes: true,
            renames: true,
            rebuilds: true,
            crosses: true,
            pause: Duration::from_millis(60),
        }
    }
}

/// What a statement means for whoever copies the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Shape only.
    Shape,
    /// Shape, and values that can be computed.
    Values,
    /// Rows change without row events.
    Unseen,
    /// Nothing.
    NoEffect,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Shape => "shape only",
            Class::Values => "shape and values",
            Class::Unseen => "rows change unseen",
            Class::NoEffect => "no effect",
        })
    }
}

/// What was done, for people.
#[derive(Clone, Debug, Default)]
pub struct ShapesCounts {
    /// Statements by class.
    pub ddl: BTreeMap<Class, u64>,
    /// Transactions of rows.
    pub transactions: u64,
}

impl fmt::Display for ShapesCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u64 = self.ddl.values().sum();
        let classes: Vec<String> = self.ddl.iter().map(|(class, n)| format!("{n} {class}")).collect();
        write!(f, "{} transactions, {all} DDL ({})", self.transactions, classes.join(", "))
    }
}

/// What the values of a column are, whatever its type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Domain {
    Number,
    Money,
    Text,
    Long,
    Day,
    Member,
}

impl Domain {
    const ALL: [Domain; 6] =
        [Domain::Number, Domain::Money, Domain::Text, Domain::Long, Domain::Day, Domain::Member];

    /// Types from the narrowest to the widest.
    fn types(self, crosses: bool) -> &'static [&'static str] {
        match self {
            Domain::Number if crosses => &["TINYINT", "SMALLINT", "INT", "BIGINT", "VARCHAR(20)"],
            Domain::Number => &["TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20,0)"],
            Domain::Money => &["DECIMAL(8,2)", "DECIMAL(10,2)", "DECIMAL(14,4)"],
            Domain::Text => &["VARCHAR(10)", "VARCHAR(40)", "VARCHAR(300)", "TEXT"],
            Domain::Long => &["VARCHAR(40)", "VARCHAR(300)", "TEXT"],
            Domain::Day => &["DATE", "DATETIME", "DATETIME(3)"],
            Domain::Member => &["ENUM('a','b')", "ENUM('a','b','c')"],
        }
    }

    fn value(self, rng: &mut StdRng) -> String {
        match self {
            Domain::Number => rng.random_range(-100..100).to_string(),
            Domain::Money => format!("{}.25", rng.random_range(-1000..1000)),
            Domain::Text | Domain::Long => {
                let length = rng.random_range(1..9);
                let letters: String = (0..length).map(|_| rng.random_range('a'..='z')).collect();
                format!("'{letters}'")
            }
            Domain::Day => format!(
                "'20{:02}-{:02}-{:02}'",
                rng.random_range(10..30),
                rng.random_range(1..13),
                rng.random_range(1..29)
            ),
            Domain::Member => if rng.random_ratio(1, 2) { "'a'" } else { "'b'" }.into(),
        }
    }
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    domain: Domain,
    /// Which of the domain's types.
    rank: usize,
    not_null: bool,
    /// It may be left out of an INSERT.
    optional: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Primary,
    Partitioned,
    None,
}

#[derive(Clone, Debug)]
struct Table {
    name: String,
    /// What the names that it may have begin with.
    stem: String,
    key: Key,
    /// The key is (id, n).
    wide_key: bool,
    columns: Vec<Column>,
    next_id: u64,
    indexes: u64,
    partitions: u64,
}

/// Tables, and nobody who changes them yet.
#[derive(Debug)]
pub struct Shapes {
    options: ShapesOptions,
    /// Statements that only MariaDB has are among them.
    mariadb: bool,
    rng: StdRng,
    tables: Vec<Table>,
    steps: u64,
}

/// Tables that are being changed.
#[derive(Debug)]
pub struct Changing {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    ddl: AtomicU64,
    counts: Mutex<ShapesCounts>,
}

/// Columns that a table does not grow beyond.
const COLUMNS: usize = 10;

impl Shapes {
    /// Makes the database, its tables and their first rows.
    pub fn create(server: &Server, options: ShapesOptions) -> Result<Shapes> {
        let mut shapes = Shapes {
            rng: StdRng::seed_from_u64(options.seed ^ fingerprint(&options.database)),
            tables: Vec::new(),
            steps: 0,
            mariadb: server.kind().is_mariadb(),
            options,
        };
        let mut sql = format!("CREATE DATABASE {0}; USE {0};\n", shapes.options.database);
        for number in 0..shapes.options.tables {
            let key = match number % 4 {
                2 => Key::Partitioned,
                3 => Key::None,
                _ => Key::Primary,
            };
            let mut table = shapes.table(format!("t{number}"), key);
            sql += &create(&table, shapes.options.crosses);
            for _ in 0..10 {
                sql += &shapes.insert(&mut table);
            }
            shapes.tables.push(table);
        }
        server.sql(&sql)?;
        Ok(shapes)
    }

    fn table(&mut self, stem: String, key: Key) -> Table {
        let mut table = Table {
            name: stem.clone(),
            stem,
            key,
            wide_key: false,
            columns: Vec::new(),
            next_id: 1,
            indexes: 0,
            partitions: 4,
        };
        for _ in 0..3 {
            let column = self.column(&table);
            table.columns.push(column);
        }
        table
    }

    /// A column that the table does not have.
    fn column(&mut self, table: &Table) -> Column {
        let domain = Domain::ALL[self.rng.random_range(0..Domain::ALL.len())];
        // not a text that stands for a number: what it reads at first is none
        let ranks = domain.types(self.options.crosses).len().min(4);
        let rank = self.rng.random_range(0..ranks);
        Column { name: self.name(table), domain, rank, not_null: false, optional: true }
    }

    fn name(&mut self, table: &Table) -> String {
        self.steps += 1;
        let fresh = format!("f{}", self.steps);
        let again = format!("c{}", self.rng.random_range(0..14));
        let taken = table.columns.iter().any(|c| c.name == again);
        if self.options.crosses && !taken { again } else { fresh }
    }

    fn insert(&mut self, table: &mut Table) -> String {
        let left_out = self.rng.random_range(0..6);
        let columns: Vec<&Column> = table
            .columns
            .iter()
            .enumerate()
            .filter(|(i, c)| *i != left_out || !c.optional)
            .map(|(_, c)| c)
            .collect();
        let mut sql = format!("INSERT INTO {} (id, n", table.name);
        columns.iter().for_each(|c| _ = write!(sql, ", {}", c.name));
        sql += ") VALUES ";
        for row in 0..self.rng.random_range(1..5) {
            let id = if table.key == Key::None { self.rng.random_range(1..20) } else { table.next_id };
            table.next_id += 1;
            _ = write!(sql, "{}({id}, {}", if row > 0 { ", " } else { "" }, self.rng.random_range(0..5));
            for column in &columns {
                let is_null = !column.not_null && self.rng.random_ratio(1, 6);
                let value = if is_null { "NULL".into() } else { column.domain.value(&mut self.rng) };
                _ = write!(sql, ", {value}");
            }
            sql += ")";
        }
        sql + ";\n"
    }

    /// A transaction of rows.
    fn rows(&mut self, at: usize) -> String {
        let mut table = self.tables[at].clone();
        let mut sql = String::from("BEGIN;\n");
        for _ in 0..self.rng.random_range(1..4) {
            let name = &table.name;
            match self.rng.random_range(0..10) {
                0..4 => sql += &self.insert(&mut table),
                4..8 if !table.columns.is_empty() => {
                    let column = &table.columns[self.rng.random_range(0..table.columns.len())];
                    let value = column.domain.value(&mut self.rng);
                    let (of, rest) = (self.rng.random_range(2..9), self.rng.random_range(0..9));
                    _ = writeln!(
                        sql,
                        "UPDATE {name} SET {} = {value} WHERE id % {of} = {rest};",
                        column.name
                    );
                }
                8 => {
                    _ = writeln!(sql, "DELETE FROM {name} WHERE id % 23 = {};", self.rng.random_range(0..23));
                }
                _ => {
                    let id = self.rng.random_range(1..=table.next_id);
                    // far from what is to come
                    _ = writeln!(sql, "UPDATE {name} SET id = id + 1000000000 WHERE id = {id};");
                }
            }
        }
        self.tables[at] = table;
        sql + "COMMIT;\n"
    }

    /// A statement that changes a table, and what has to be done around it.
    fn ddl(&mut self, at: usize) -> (String, Class) {
        let mut table = self.tables[at].clone();
        let name = table.name.clone();
        let crosses = self.options.crosses;
        let [lead, tail] = self.ways_to_alter();
        let alter = |what: String| format!("{lead} {name}{tail} {what};\n");
        let many = table.columns.len() >= COLUMNS;
        let any = (!table.columns.is_empty()).then(|| self.rng.random_range(0..table.columns.len()));
        let (sql, class) = match (self.rng.random_range(0..100), any) {
            (0..14, _) if !many => {
                let (part, class) = self.add(&mut table);
                // (beside a DROP of the name it would add nothing: MariaDB looks at the table before the statement)
                let word = self.if_exists("ADD COLUMN", "IF NOT EXISTS");
                (alter(part.replacen("ADD COLUMN", &word, 1)), class)
            }
            (14..20, _) if !many => {
                let (one, first) = self.add(&mut table);
                let (two, second) = self.add(&mut table);
                (alter(format!("{one}, {two}")), first.max(second))
            }
            (20..26, Some(i)) => {
                let word = self.if_exists("DROP COLUMN", "IF EXISTS");
                (alter(format!("{word} {}", table.columns.remove(i).name)), Class::Shape)
            }
            (26..34, Some(i)) => {
                let to = self.name(&table);
                let from = std::mem::replace(&mut table.columns[i].name, to.clone());
                (alter(format!("RENAME COLUMN {from} TO {to}")), Class::Shape)
            }
            (34..44, Some(i)) => {
                let column = &mut table.columns[i];
                let most = column.domain.types(crosses).len() - 1;
                column.rank = (column.rank + 1).min(most);
                column.optional = !column.not_null;
                let place = ["", " FIRST", " AFTER id"][self.rng.random_range(0..3)];
                (alter(format!("MODIFY COLUMN {}{place}", declared(column, crosses))), Class::Shape)
            }
            (44..49, Some(i)) => {
                let column = &mut table.columns[i];
                column.rank = column.rank.saturating_sub(1);
                column.optional = !column.not_null;
                (alter(format!("MODIFY COLUMN {}", declared(column, crosses))), Class::Unseen)
            }
            // everything at once, a name that is given away among it
            (49..59, Some(i)) => {
                let gone = table.columns.remove(i).name;
                let mut parts = vec![format!("DROP COLUMN {gone}")];
                if let Some(other) = table.columns.first_mut() {
                    let to = if crosses { gone } else { format!("{}r", other.name) };
                    let from = std::mem::replace(&mut other.name, to.clone());
                    parts.push(format!("RENAME COLUMN {from} TO {to}"));
                }
                let (add, class) = self.add(&mut table);
                parts.push(add);
                (alter(parts.join(", ")), class)
            }
            (59..63, Some(i)) => {
                // of one domain, unless a target may follow: what it copies again by name must fit
                let fits = |c: &Column| crosses || c.domain == table.columns[i].domain;
                let other = (i + 1..table.columns.len()).find(|j| fits(&table.columns[*j]));
                let j = other.unwrap_or(i);
                let (a, b) = (table.columns[i].name.clone(), table.columns[j].name.clone());
                table.columns[i].name.clone_from(&b);
                table.columns[j].name.clone_from(&a);
                match other {
                    Some(_) => {
                        (alter(format!("RENAME COLUMN {a} TO {b}, RENAME COLUMN {b} TO {a}")), Class::Shape)
                    }
                    None => (alter("COMMENT = 'nothing to swap'".into()), Class::Shape),
                }
            }
            (63..67, Some(i)) => {
                let column = &mut table.columns[i];
                let ty = column.domain.types(crosses)[column.rank];
                if ty == "TEXT" || !column.optional {
                    (alter("COMMENT = 'another'".into()), Class::Shape)
                } else if !column.not_null && self.rng.random_ratio(1, 3) {
                    (alter(format!("ALTER COLUMN {} SET DEFAULT NULL", column.name)), Class::Shape)
                } else {
                    let value = column.domain.value(&mut self.rng);
                    (alter(format!("ALTER COLUMN {} SET DEFAULT {value}", column.name)), Class::Shape)
                }
            }
            (67..71, Some(i)) => {
                let column = &mut table.columns[i];
                column.not_null = !column.not_null;
                column.optional = !column.not_null;
                let (declared, value) = (declared(column, crosses), column.domain.value(&mut self.rng));
                let filled = format!("UPDATE {name} SET {0} = {value} WHERE {0} IS NULL;\n", column.name);
                let class = if column.not_null { Class::Unseen } else { Class::Shape };
                let filled = if column.not_null { filled } else { String::new() };
                (filled + &alter(format!("MODIFY COLUMN {declared}")), class)
            }
            (71..74, _) if self.options.removes => (format!("TRUNCATE TABLE {name};\n"), Class::Shape),
            (74..77, _) if self.options.removes => {
                let key = table.key;
                let (stem, next_id) = (table.stem.clone(), table.next_id);
                table = self.table(stem, key);
                table.next_id = next_id;
                let sql = create(&table, crosses);
                if self.mariadb && self.rng.random_ratio(1, 2) {
                    (sql.replacen("CREATE TABLE", "CREATE OR REPLACE TABLE", 1), Class::Shape)
                } else {
                    (format!("DROP TABLE {name};\n{sql}"), Class::Shape)
                }
            }
            (77..80, _) if self.options.renames => {
                table.name = format!("{}_{}", table.stem, self.steps);
                (format!("RENAME TABLE {name} TO {};\n", table.name), Class::Shape)
            }
            (80..82, _) if self.options.renames && table.key == Key::Primary => {
                table.wide_key = !table.wide_key;
                let key = if table.wide_key { "id, n" } else { "id" };
                (alter(format!("DROP PRIMARY KEY, ADD PRIMARY KEY ({key})")), Class::Shape)
            }
            (82..85, _) if self.options.rebuilds => (
                format!(
                    "CREATE TABLE hidden_new LIKE {name};\nINSERT INTO hidden_new SELECT * FROM {name} WHERE id % 7 <> 3;\n\
                     RENAME TABLE {name} TO hidden_old, hidden_new TO {name};\nDROP TABLE hidden_old;\n"
                ),
                Class::Unseen,
            ),
            (85..89, _) if table.key == Key::Partitioned => {
                let partition = self.rng.random_range(0..table.partitions);
                match self.rng.random_range(0..3) {
                    0 => (alter(format!("TRUNCATE PARTITION p{partition}")), Class::Unseen),
                    1 if table.partitions > 2 => {
                        table.partitions -= 1;
                        (alter("COALESCE PARTITION 1".into()), Class::NoEffect)
                    }
                    _ => {
                        table.partitions += 1;
                        (alter("ADD PARTITION PARTITIONS 1".into()), Class::NoEffect)
                    }
                }
            }
            (85..89, _) if !many => {
                let column = Column { domain: Domain::Long, rank: 0, ..self.column(&table) };
                let part = format!("ADD COLUMN {} VARCHAR(40) DEFAULT (LOWER('ABC'))", column.name);
                table.columns.push(column);
                (alter(part), Class::Unseen)
            }
            _ => {
                table.indexes += 1;
                let index = format!("i{}", table.indexes);
                let sql = match self.rng.random_range(0..7) {
                    0 => format!("CREATE INDEX {index} ON {name} (n);\nDROP INDEX {index} ON {name};\n"),
                    1 => {
                        return (
                            alter("COMMENT = 'it''s; another', ROW_FORMAT = DYNAMIC".into()),
                            Class::Shape,
                        );
                    }
                    2 => format!("ANALYZE TABLE {name};\n"),
                    3 => alter("ENGINE = InnoDB".into()),
                    4 => format!("CREATE TEMPORARY TABLE {index} (id INT);\nDROP TEMPORARY TABLE {index};\n"),
                    5 => format!("CREATE VIEW {index} AS SELECT id FROM {name};\nDROP VIEW {index};\n"),
                    _ => format!(
                        "CREATE TRIGGER {index} BEFORE INSERT ON {name} FOR EACH ROW SET NEW.n = NEW.n + 1;\nDROP TRIGGER {index};\n"
                    ),
                };
                (sql, Class::NoEffect)
            }
        };
        self.tables[at] = table;
        (sql, class)
    }

    /// `ADD COLUMN ..`, and what it means.
    fn add(&mut self, table: &mut Table) -> (String, Class) {
        let mut column = self.column(table);
        let ty = column.domain.types(self.options.crosses)[column.rank];
        let place = ["", "", " FIRST", " AFTER n"][self.rng.random_range(0..4)];
        let mut class = Class::Values;
        let rest = match self.rng.random_range(0..5) {
            1 if ty != "TEXT" => format!(" DEFAULT {}", column.domain.value(&mut self.rng)),
            2 if ty != "TEXT" => format!(" NOT NULL DEFAULT {}", column.domain.value(&mut self.rng)),
            // what rows that are there read in it
            3 if !matches!(column.domain, Domain::Day) && ty != "TEXT" => " NOT NULL".into(),
            // (which has a time of day, as no other value)
            4 if ty == "DATETIME" && self.options.crosses => " DEFAULT CURRENT_TIMESTAMP".into(),
            _ => {
                class = Class::Shape;
                String::new()
            }
        };
        column.not_null = rest.contains("NOT NULL");
        column.optional = rest != " NOT NULL";
        let comment = match self.rng.random_range(0..4) {
            0 => format!(" COMMENT 'it''s \"{}\"'", column.name),
            _ => String::new(),
        };
        let part = format!("ADD COLUMN {} {ty}{rest}{comment}{place}", column.name);
        table.columns.push(column);
        (part, class)
    }

    /// What stands in front of an altered table's name, and behind it.
    fn ways_to_alter(&mut self) -> [&'static str; 2] {
        if !self.mariadb {
            return ["ALTER TABLE", ""];
        }
        match self.rng.random_range(0..8) {
            0 => ["SET STATEMENT lock_wait_timeout = 50 FOR ALTER TABLE", ""],
            1 => ["ALTER TABLE IF EXISTS", ""],
            2 => ["ALTER IGNORE TABLE", " WAIT 50"],
            _ => ["ALTER TABLE", ""],
        }
    }

    /// A word, sometimes with a condition that always holds.
    fn if_exists(&mut self, word: &str, condition: &str) -> String {
        if self.mariadb && self.rng.random_ratio(1, 4) { format!("{word} {condition}") } else { word.into() }
    }

    /// Begins to change them.
    pub fn start(mut self, server: &Server) -> Result<Changing> {
        let shared = Arc::new(Shared::default());
        let (door, own) = (Door::of(server)?, shared.clone());
        let thread = thread::spawn(move || self.change(&door, &own));
        Ok(Changing { shared, thread: Some(thread) })
    }

    fn change(&mut self, door: &Door, shared: &Shared) -> Result<()> {
        let mut session = Session::open(door)?;
        let refusals = Refusals::default();
        let mut run = |sql: &str| -> Result<()> {
            let lost = session.run(sql, &refusals).map_err(|_| anyhow!("the server has gone"));
            lost.with_context(|| sql.to_owned())?;
            let refused = refusals.all();
            ensure!(refused.is_empty(), "the server refuses a statement: {refused:?}");
            Ok(())
        };
        run(&format!("USE {};\nSET time_zone = '+00:00';\n", self.options.database))?;
        while !shared.stop.load(Ordering::SeqCst) {
            let at = self.rng.random_range(0..self.tables.len());
            self.steps += 1;
            let is_ddl = self.rng.random_ratio(2, 5);
            let (sql, class) = if is_ddl { self.ddl(at) } else { (self.rows(at), Class::NoEffect) };
            run(&sql).with_context(|| format!("table {:?}", self.tables[at]))?;
            let mut counts = shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if is_ddl {
                *counts.ddl.entry(class).or_default() += 1;
                shared.ddl.fetch_add(1, Ordering::SeqCst);
            } else {
                counts.transactions += 1;
            }
            drop(counts);
            thread::sleep(self.options.pause.mul_f64(self.rng.random_range(0.0..1.0)));
        }
        Ok(())
    }
}

impl Changing {
    /// Statements that have changed tables so far.
    pub fn statements(&self) -> u64 {
        self.shared.ddl.load(Ordering::SeqCst)
    }

    /// Why the client has given up, which it does not by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.thread.take_if(|thread| thread.is_finished()) {
            Some(thread) => thread.join().map_err(|_| anyhow!("the client panicked"))?,
            None => Ok(()),
        }
    }

    /// Ends the client, and says what it did.
    pub fn end(mut self) -> Result<ShapesCounts> {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| anyhow!("the client panicked"))??;
        }
        Ok(self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn declared(column: &Column, crosses: bool) -> String {
    let ty = column.domain.types(crosses)[column.rank];
    format!("{} {ty}{}", column.name, if column.not_null { " NOT NULL" } else { "" })
}

fn create(table: &Table, crosses: bool) -> String {
    let mut sql = format!("CREATE TABLE {} (id BIGINT NOT NULL, n INT NOT NULL DEFAULT 0", table.name);
    table.columns.iter().for_each(|c| _ = write!(sql, ", {}", declared(c, crosses)));
    match table.key {
        Key::Primary => sql += ", PRIMARY KEY (id))",
        Key::Partitioned => {
            _ = write!(sql, ", PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS {}", table.partitions);
        }
        Key::None => sql += ")",
    }
    sql + ";\n"
}
