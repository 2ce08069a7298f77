//! The text of a first file, with comments that say what each part is for; and the structures of its tables.

use super::look::{Found, LeftOut, Taken, plain_name, quoted};
use crate::output::{count, printable};
use cdc_core::schema::TableId;
use std::fmt::Write as _;

/// What the files are called, and how the server is reached.
pub struct Names<'a> {
    /// The server.
    pub url: &'a str,
    /// The account.
    pub user: &'a str,
    /// The variable with its password; `None`: it has none.
    pub password_env: Option<&'a str>,
    /// The pipeline file.
    pub file: &'a str,
    /// The same without its ending: what lies beside it begins with it.
    pub stem: &'a str,
}

/// The pipeline file, not laid out yet.
pub fn pipeline(found: &Found, names: &Names<'_>) -> String {
    let mut out = String::new();
    head(&mut out, found, names);
    settings(&mut out, names);
    source(&mut out, found, names);
    flows(&mut out, found, names);
    out
}

fn head(out: &mut String, found: &Found, names: &Names<'_>) {
    let file = printable(names.file);
    let databases: Vec<String> = found.databases().iter().map(|d| format!("\"{}\"", printable(d))).collect();
    let noun = if databases.len() == 1 { "database" } else { "databases" };
    _ = writeln!(
        out,
        "-- Copies {} of {noun} {} ({}) into SQLite, and follows every change.\n\
         -- Written by cdc init, and yours to edit.\n--\n\
         --   cdc check {file} --live             what the server must have, and whether this file fits it\n\
         --   cdc run {file} --until caught-up    copies; without --until it goes on following until Ctrl-C\n\
         --   cdc verify {file}                   compares every row of the target with the source\n",
        count(found.taken.len() as u64, "table"),
        databases.join(", "),
        printable(&found.version),
    );
}

fn settings(out: &mut String, names: &Names<'_>) {
    let state = text(&format!("{}.state", names.stem));
    _ = writeln!(
        out,
        "-- Its name is the key under which the target keeps how far the copy has come.\n\
         pipeline {{\n\
         name = {}\n\
         -- where checkpoints are kept, beside this file, and the time between them\n\
         checkpoint = {{ dir = {state}, every = \"10s\" }}\n\
         -- what becomes of ALTER TABLE: lenient follows it, and drops nothing at the target; also evolve, exception\n\
         on_schema_change = lenient\n\
         }}\n",
        text(&plain_name(names.stem)),
    );
}

fn source(out: &mut String, found: &Found, names: &Names<'_>) {
    _ = writeln!(
        out,
        "-- The server. The account needs SELECT, REPLICATION SLAVE and REPLICATION CLIENT.\n\
         source src = mysql {{\n\
         url = {}\n\
         user = {}",
        text(names.url),
        text(names.user)
    );
    match names.password_env {
        Some(variable) => {
            _ = writeln!(
                out,
                "-- from the environment: it is in no file and in no log\npassword = \"${{{variable}}}\""
            );
        }
        None => out.push_str("-- the account has no password; else: password = \"${CDC_PASSWORD}\"\n"),
    }
    out.push_str(
        "-- database.table; * is any text, ? any character, and ! in front leaves tables out\ntables = [\n",
    );
    for pattern in &found.patterns {
        _ = writeln!(out, "{},", text(pattern));
    }
    for table in &found.left_out {
        left_out(out, table);
    }
    _ = writeln!(
        out,
        "]\n\
         -- their structures, so that check and explain need no server; check --live says where they differ\n\
         schema = {}\n\
         -- the id under which the log is read: no other replica of the server, and no other pipeline, may have it\n\
         server_id = {}\n\
         }}\n",
        text(&format!("{}.sql", names.stem)),
        found.server_id(names.stem),
    );
}

fn left_out(out: &mut String, table: &LeftOut) {
    const MOST: usize = 160;
    let reason = printable(&table.reason);
    let short: String = reason.chars().take(MOST).collect();
    let more = if short.len() < reason.len() { ".." } else { "" };
    let name = format!("!{}.{}", quoted(&table.id.database), quoted(&table.id.table));
    _ = writeln!(out, "-- {short}{more}\n{},", text(&name));
}

fn flows(out: &mut String, found: &Found, names: &Names<'_>) {
    out.push_str("-- The tables that are copied, their keys, and the rows that the server reckons with:\n");
    for line in listing(&found.taken) {
        _ = writeln!(out, "--   {line}");
    }
    let database = text(&format!("{}.db", names.stem));
    _ = writeln!(out, "\n-- The target, beside this file.\nsink dw = sqlite {{ path = {database} }}\n");
    let shown = found.taken.iter().find(|t| !t.key.is_empty()).or(found.taken.first());
    let example = shown.map_or(TableId::new("shop", "orders"), |t| t.id.clone());
    let one = found.only_database().is_some();
    let head = if one {
        word(&example.table)
    } else {
        format!("{}.{}", word(&example.database), word(&example.table))
    };
    let key = shown.and_then(|t| t.key.first()).map_or("id".into(), |k| word(k));
    // the time of a change is no part of a row that only its values tell
    let keyless = shown.is_some_and(|t| t.key.is_empty());
    let more = if keyless { "meta.table as origin" } else { "meta.ts as changed_at" };
    let about = if one { "under its own name" } else { "under the names of its database and its own" };
    let target = if one { "dw.*" } else { "dw.\"{database}_{table}\"" };
    _ = writeln!(
        out,
        "-- Every table {about}, with every change of its structure.\n\
         -- A flow can also choose and compute:\n\
         --\n\
         --   src.{head}\n\
         --     |> where {key} is not null\n\
         --     |> extend {more}\n\
         --     => dw.another_name\n\
         src.* => {target}"
    );
}

/// A line per table, in columns.
fn listing(tables: &[Taken]) -> Vec<String> {
    let cells: Vec<[String; 3]> = tables
        .iter()
        .map(|t| {
            let rows = match t.rows {
                Some(rows) => format!("about {}", count(rows, "row")),
                None => "rows not known".to_owned(),
            };
            [
                printable(&t.id.to_string()).into_owned(),
                if t.key.is_empty() {
                    "no key: a multiset".to_owned()
                } else {
                    format!("key ({})", printable(&t.key.join(", ")))
                },
                rows,
            ]
        })
        .collect();
    // names of any length keep their line; one long name does not push all others away
    let width = |i: usize| cells.iter().map(|c| c[i].chars().count()).max().unwrap_or(0).min(40);
    let (names, keys) = (width(0), width(1));
    cells.iter().map(|[name, key, rows]| format!("{name:names$}  {key:keys$}  {rows}")).collect()
}

/// The structures as the server tells them, without what counts on with every row.
pub fn schema(found: &Found, names: &Names<'_>) -> String {
    let mut out = format!(
        "-- The tables of {}, as the server showed them ({}). Read by cdc check and cdc explain.\n",
        printable(names.file),
        printable(&found.version)
    );
    let mut database = None;
    for table in &found.taken {
        if database != Some(&table.id.database) {
            _ = writeln!(out, "\nUSE `{}`;", table.id.database.replace('`', "``"));
            database = Some(&table.id.database);
        }
        _ = writeln!(out, "\n{};", without_counter(&table.create));
    }
    out
}

/// Takes ` AUTO_INCREMENT=17` out of the options of a table, which stand behind its last line break that a `)`
/// follows.
fn without_counter(create: &str) -> String {
    let Some(options) = create.rfind("\n)") else { return create.to_owned() };
    let (columns, options) = create.split_at(options);
    // options with texts come behind it
    let Some(at) = options.find(" AUTO_INCREMENT=") else { return create.to_owned() };
    let (front, counter) = options.split_at(at);
    if front.contains('\'') {
        return create.to_owned();
    }
    let rest = counter[" AUTO_INCREMENT=".len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{columns}{front}{rest}")
}

/// A text of the language.
fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            c => out.push(c),
        }
    }
    out.push('"');
    out.replace("${", "$${")
}

/// A name of the language, for a comment.
fn word(name: &str) -> String {
    let name = printable(name);
    if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return name.into_owned();
    }
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::super::look::tests::{found, taken};
    use super::*;

    const NAMES: Names<'static> = Names {
        url: "mysql://127.0.0.1:3306",
        user: "cdc",
        password_env: Some("CDC_PASSWORD"),
        file: "shop.cdc",
        stem: "shop",
    };

    fn laid_out(found: &Found) -> String {
        let text = pipeline(found, &NAMES);
        cdc_dsl::format(&text).unwrap_or_else(|d| panic!("{d:?}\n{text}"))
    }

    #[test]
    fn one_database() {
        let mut server = found(&["shop.*"], vec![taken("shop", "orders"), taken("shop", "customers")]);
        server.left_out.push(LeftOut { id: TableId::new("shop", "log"), reason: "no\nkey".into() });
        let text = laid_out(&server);
        for line in [
            "  password  = \"${CDC_PASSWORD}\"",
            "    \"shop.*\",",
            "    -- no key",
            "    \"!shop.log\"",
            "  schema    = \"shop.sql\"",
            "--   shop.customers  key (id)  about 1204 rows",
            "sink dw = sqlite { path = \"shop.db\" }",
            "src.* => dw.*",
        ] {
            assert!(
                text.lines().any(|l| l.trim_end_matches(',') == line.trim_end_matches(',')),
                "{line}\n{text}"
            );
        }
        assert!(cdc_dsl::parse(&text).is_ok());
        assert!(!text.contains('\t') && text.lines().all(|l| l.chars().count() <= 120), "{text}");
    }

    #[test]
    fn several_databases_are_told_apart_at_the_target() {
        let text = laid_out(&found(&["a.*", "b.*"], vec![taken("a", "t"), taken("b", "t")]));
        assert!(text.contains("src.* => dw.\"{database}_{table}\""), "{text}");
    }

    #[test]
    fn odd_names_stay_what_they_are() {
        let mut server = found(&["`a\"b`.*"], vec![taken("a\"b", "x\n-- y")]);
        server.left_out.push(LeftOut { id: TableId::new("a\"b", "${HOME}\\"), reason: "\u{1b}[2J".into() });
        let text = laid_out(&server);
        assert!(!text.contains('\u{1b}') && text.contains("$${HOME}\\\\"), "{text}");
        assert!(cdc_dsl::parse(&text).is_ok(), "{text}");
    }

    #[test]
    fn an_account_without_a_password() {
        let names = Names { password_env: None, ..NAMES };
        let text = pipeline(&found(&["shop.*"], vec![taken("shop", "t")]), &names);
        assert!(!text.lines().any(|l| l.starts_with("password")), "{text}");
    }

    #[test]
    fn counters_are_left_out_of_structures() {
        let create = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB AUTO_INCREMENT=17 DEFAULT CHARSET=utf8mb4 COMMENT='x'";
        assert_eq!(without_counter(create), create.replace(" AUTO_INCREMENT=17", ""));
        let plain = "CREATE TABLE `t` (\n  `id` int\n) ENGINE=InnoDB COMMENT='a AUTO_INCREMENT=17'";
        assert_eq!(without_counter(plain), plain);
        let schema = schema(&found(&["shop.*"], vec![taken("shop", "a"), taken("shop", "b")]), &NAMES);
        assert_eq!(schema.matches("USE `shop`;").count(), 1);
        let context = cdc_mysql::ddl::Context::mysql(90_700);
        let tables = cdc_mysql::ddl::parse_schema_text(&schema, None, &context).expect("DDL");
        assert_eq!(tables.len(), 2);
    }
}
