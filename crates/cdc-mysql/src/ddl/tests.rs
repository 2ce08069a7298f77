//! The behaviour is in `testdata/ddl/*.md`: prose, statements, and what comes of them. With `CDC_BLESS=1` the
//! expected parts are written anew; review the diff.

use super::*;
use crate::structure::TableStructures;
use std::fmt::Write;

/// One line per thing a reader would want to check.
fn show(outcome: &Outcome) -> String {
    let names = |tables: &[TableId]| {
        let names: Vec<String> = tables.iter().map(TableId::to_string).collect();
        if names.is_empty() { String::new() } else { format!(" [{}]", names.join(", ")) }
    };
    let mut text = String::new();
    match outcome {
        Outcome::Changes { changes, .. } => {
            for change in changes {
                show_change(change, &mut text);
            }
            if changes.is_empty() {
                text.push_str("no change\n");
            }
        }
        Outcome::NoEffect { what, tables, .. } => {
            let _ = writeln!(text, "no effect: {what}{}", names(tables));
        }
        Outcome::Dml { what, tables } => {
            let _ = writeln!(text, "rows as text: {what}{}", names(tables));
        }
        Outcome::Transaction(transaction) => {
            let _ = writeln!(text, "transaction: {transaction:?}");
        }
        Outcome::NotUnderstood { diagnostic, tables } => {
            let _ = writeln!(text, "{}: {}{}", diagnostic.code, diagnostic.headline, names(tables));
        }
    }
    text
}

fn show_change(change: &SchemaChange, text: &mut String) {
    let _ = match change {
        SchemaChange::CreateTable { schema } => writeln!(text, "create table {}", show_table(schema)),
        SchemaChange::AddColumn { column, position, .. } => {
            let place = match position {
                cdc_core::schema_change::ColumnPosition::Last => String::new(),
                cdc_core::schema_change::ColumnPosition::First => " first".to_owned(),
                cdc_core::schema_change::ColumnPosition::After(name) => format!(" after {name}"),
            };
            writeln!(text, "add column to {}: {}{place}", change.table(), show_column(column))
        }
        SchemaChange::AlterColumnType { ty, position, .. } => {
            let charset = ty.charset().map_or(String::new(), |c| format!(" {}", c.collation));
            match position {
                None => writeln!(text, "{change}{charset}"),
                Some(position) => writeln!(text, "{change}{charset}, place {position:?}"),
            }
        }
        SchemaChange::AlterColumnAttributes { column, .. } => {
            writeln!(text, "{change}: {}", show_column(column))
        }
        SchemaChange::ChangeUniqueKeys { keys, .. } => writeln!(text, "{change}: {keys:?}"),
        _ => writeln!(text, "{change}"),
    };
}

fn show_column(column: &Column) -> String {
    let mut text = format!("{} {}", column.name, column.ty);
    if let Some(charset) = column.ty.charset() {
        let _ = write!(text, " {}", charset.collation);
    }
    if let cdc_core::ColumnType::Geometry { srid: Some(srid), .. } = column.ty {
        let _ = write!(text, " srid {srid}");
    }
    if !column.nullable {
        text.push_str(" not null");
    }
    if let Some(default) = &column.default {
        let _ = write!(text, " default {default}");
    }
    if column.auto_increment {
        text.push_str(" auto_increment");
    }
    if let Some(generated) = &column.generated {
        let how = if generated.stored { "stored" } else { "virtual" };
        let _ = write!(text, " as ({}) {how}", generated.expression);
    }
    if column.invisible {
        text.push_str(" invisible");
    }
    if !column.comment.is_empty() {
        let _ = write!(text, " comment {:?}", column.comment);
    }
    text
}

fn show_table(schema: &TableSchema) -> String {
    let names = |key: &[usize]| {
        let names: Vec<&str> = key.iter().map(|&i| &*schema.columns[i].name).collect();
        names.join(", ")
    };
    let mut text = format!("{} {}", schema.id, schema.charset.collation);
    if !schema.comment.is_empty() {
        let _ = write!(text, " comment {:?}", schema.comment);
    }
    for column in &schema.columns {
        let _ = write!(text, "\n  {}", show_column(column));
    }
    if !schema.primary_key.is_empty() {
        let _ = write!(text, "\n  primary key ({})", names(&schema.primary_key));
    }
    for key in &schema.unique_keys {
        let _ = write!(text, "\n  unique key ({})", names(key));
    }
    text
}

use cdc_core::Column;

/// The session a section asks for: `mariadb`, `ansi_quotes`, `no_backslash_escapes`, `database=x`, ...
fn context_of<'t>(words: &'t str) -> Context<'t> {
    let has = |word: &str| words.split_whitespace().any(|w| w == word);
    let mut context = if has("mariadb") { Context::mariadb(101119) } else { Context::mysql(90704) };
    context.database = Some("shop");
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("database", "")) => context.database = None,
            Some(("database", name)) => context.database = Some(name),
            Some(("server_charset", name)) => {
                context.server_charset = charset::of_name(name, &context).expect("a known character set");
            }
            Some(("lower_case_table_names", n)) => {
                context.lower_case_table_names = n.parse().expect("a number")
            }
            _ => {}
        }
    }
    context.sql_mode = SqlMode {
        ansi_quotes: has("ansi_quotes"),
        no_backslash_escapes: has("no_backslash_escapes"),
        real_as_float: has("real_as_float"),
        oracle: has("oracle"),
    };
    context.explicit_timestamp = !has("implicit_timestamp");
    context
}

/// What a fact says that no change does.
fn show_fact(fact: &Fact, text: &mut String) {
    match fact {
        Fact::Table { table, versioning, history, period, .. } => {
            if let Some(versioning) = versioning {
                let _ = writeln!(text, "  {table} versioned: {versioning:?}");
            }
            if let Some(history) = history {
                let _ = writeln!(text, "  {table} partitions: {history:?}");
            }
            if let Some(period) = period {
                let _ = writeln!(text, "  {table} period: {period:?}");
            }
        }
        Fact::Sequence { table, is } => {
            let _ = writeln!(text, "  {table} sequence: {is}");
        }
        Fact::Database { .. } => {}
    }
}

/// Runs statements one after the other, the outcome of each followed.
fn run(sql: &str, context: &Context<'_>, structures: &mut TableStructures) -> String {
    run_with(sql, context, structures, parse, false)
}

type Parse = fn(&str, &Context<'_>, &dyn Structures) -> Outcome;

fn run_with(
    sql: &str,
    context: &Context<'_>,
    structures: &mut TableStructures,
    parse: Parse,
    show_facts: bool,
) -> String {
    let mut shown = String::new();
    for statement in statements(sql, context) {
        let outcome = parse(statement, context, structures);
        shown.push_str(&show(&outcome));
        if let (true, Outcome::Changes { facts, .. } | Outcome::NoEffect { facts, .. }) =
            (show_facts, &outcome)
        {
            facts.iter().for_each(|fact| show_fact(fact, &mut shown));
        }
        match outcome {
            Outcome::Changes { changes, facts } => {
                if let Err(error) = structures.apply(&changes) {
                    let _ = writeln!(shown, "not applied: {error}");
                }
                structures.learn(&facts);
            }
            Outcome::NoEffect { facts, .. } => structures.learn(&facts),
            _ => {}
        }
    }
    shown
}

/// A file: sections that begin with `## `; in each fenced blocks `setup` (run, not shown), `sql` with words of
/// the session behind it (and `facts`, if they are to be shown) or `failed` for statements with an error, and
/// `changes`, the expected outcome of the block before.
fn check(name: &str, text: &str) {
    let mut structures = TableStructures::default();
    let mut rest = text;
    let mut written = String::new();
    let mut failures = Vec::new();
    let mut got = String::new();
    let mut title = "";
    while let Some(line_end) = rest.find('\n') {
        let line = &rest[..line_end];
        rest = &rest[line_end + 1..];
        written.push_str(line);
        written.push('\n');
        if let Some(section) = line.strip_prefix("## ") {
            title = section;
            structures = TableStructures::default();
        }
        let Some(fence) = line.strip_prefix("```") else { continue };
        let end = rest.find("```\n").expect("a fence has its end");
        let block = &rest[..end];
        rest = &rest[end + 4..];
        let (kind, words) = fence.split_once(' ').unwrap_or((fence, ""));
        match kind {
            "setup" => {
                run(block, &context_of(words), &mut structures);
                written.push_str(block);
            }
            "sql" | "failed" => {
                let parse: Parse = if kind == "sql" { parse } else { parse_failed };
                let show_facts = words.split_whitespace().any(|word| word == "facts");
                got = run_with(block, &context_of(words), &mut structures, parse, show_facts);
                written.push_str(block);
            }
            "changes" => {
                if got != block {
                    failures.push(format!("{name}: {title}\nwanted:\n{block}got:\n{got}"));
                }
                written.push_str(&got);
            }
            other => panic!("{name}: a block of the kind {other:?}"),
        }
        written.push_str("```\n");
    }
    if failures.is_empty() {
        return;
    }
    if std::env::var_os("CDC_BLESS").is_some() {
        let root = std::env::var("CARGO_MANIFEST_DIR").expect("run by cargo");
        std::fs::write(format!("{root}/testdata/ddl/{name}"), written).expect("the file can be written");
        return;
    }
    panic!("{}", failures.join("\n"));
}

macro_rules! cases {
    ($($test:ident = $file:literal;)*) => {
        $(#[test] fn $test() { check($file, include_str!(concat!("../../testdata/ddl/", $file))); })*
    };
}

cases! {
    case_37_change_is_type_then_rename = "case_37.md";
    case_38_adds_in_order = "case_38.md";
    case_39_drop_and_change = "case_39.md";
    case_40_other_actions = "case_40.md";
    case_41_letter_case = "case_41.md";
    case_42_tables = "case_42.md";
    case_43_types = "case_43.md";
    case_44_copied_again_or_passed_over = "case_44.md";
    case_45_character_sets = "case_45.md";
    case_46_online_tools = "case_46.md";
    case_47_not_understood = "case_47.md";
    case_48_sql_mode = "case_48.md";
    outside_tables = "outside_tables.md";
    keys = "keys.md";
    mariadb = "mariadb.md";
}

/// The statements of all files, as they stand.
fn corpus() -> Vec<String> {
    let files = [
        include_str!("../../testdata/ddl/case_37.md"),
        include_str!("../../testdata/ddl/case_38.md"),
        include_str!("../../testdata/ddl/case_40.md"),
        include_str!("../../testdata/ddl/case_42.md"),
        include_str!("../../testdata/ddl/case_43.md"),
        include_str!("../../testdata/ddl/case_44.md"),
        include_str!("../../testdata/ddl/case_45.md"),
        include_str!("../../testdata/ddl/case_46.md"),
        include_str!("../../testdata/ddl/outside_tables.md"),
        include_str!("../../testdata/ddl/keys.md"),
        include_str!("../../testdata/ddl/mariadb.md"),
    ];
    let context = Context::mariadb(101119);
    let mut corpus = Vec::new();
    for file in files {
        for block in file.split("```sql").skip(1) {
            let block = block.split("```").next().unwrap_or("");
            let block = block.split_once('\n').map_or("", |(_, sql)| sql);
            corpus.extend(statements(block, &context).map(str::to_owned));
        }
    }
    corpus
}

/// A small generator: the same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// Cuts, doubles, swaps and replaces pieces.
fn mutate(text: &str, other: &str, dice: &mut Dice) -> String {
    const PIECES: &[&str] = &[
        "(",
        ")",
        ",",
        "'",
        "\"",
        "`",
        "\\",
        ";",
        ".",
        "/*",
        "*/",
        "/*!",
        "/*!80013 ",
        "/*M!",
        "--",
        "#",
        "\n",
        "=",
        "'",
        "é",
        "\u{0}",
        "0x",
        "b'",
        "_utf8'",
        "@",
        "-1",
        "99999999999999999999",
        " AFTER ",
        " DEFAULT ",
        " IF ",
        "\u{1f600}",
        "``",
        "SET STATEMENT x FOR ",
        "PARTITION",
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.below(4) {
        let at = dice.below(chars.len() + 1);
        match dice.below(6) {
            0 => chars.truncate(at),
            1 => drop(chars.drain(at..(at + dice.below(9)).min(chars.len()))),
            2 => {
                let piece: Vec<char> = PIECES[dice.below(PIECES.len())].chars().collect();
                chars.splice(at..at, piece);
            }
            3 => {
                let piece: Vec<char> = chars[at..(at + dice.below(30)).min(chars.len())].to_vec();
                let to = dice.below(chars.len() + 1);
                chars.splice(to..to, piece);
            }
            4 => {
                let other: Vec<char> = other.chars().collect();
                let from = dice.below(other.len() + 1);
                chars.splice(at.., other[from..].iter().copied());
            }
            _ => {
                let to = dice.below(chars.len() + 1);
                if at < chars.len() && to < chars.len() {
                    chars.swap(at, to);
                }
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn mutated_statements_never_panic_and_what_is_understood_fits() {
    let corpus = corpus();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut structures = TableStructures::default();
    let mysql = Context::mysql(90704).in_database("shop");
    let mariadb = Context::mariadb(101119).in_database("shop");
    let mut ansi = mysql.clone();
    ansi.sql_mode = SqlMode { ansi_quotes: true, no_backslash_escapes: true, ..SqlMode::default() };
    let contexts = [mysql, mariadb, ansi];
    let start = std::time::Instant::now();
    for round in 0..40_000 {
        if round % 500 == 0 {
            structures = TableStructures::default();
            let sql = "CREATE TABLE products (id INT PRIMARY KEY, name VARCHAR(255), description TEXT, weight FLOAT);
                CREATE TABLE t (id INT, a VARCHAR(50), b DATETIME(6), c INT, UNIQUE KEY u (a, c))";
            run(sql, &contexts[0], &mut structures);
        }
        let statement = &corpus[dice.below(corpus.len())];
        let statement = mutate(statement, &corpus[dice.below(corpus.len())], &mut dice);
        let context = &contexts[dice.below(contexts.len())];
        match parse(&statement, context, &structures) {
            Outcome::Changes { changes, facts } => {
                if let Err(error) = structures.apply(&changes) {
                    panic!("{statement}\n{error}");
                }
                structures.learn(&facts);
            }
            Outcome::NoEffect { facts, .. } => structures.learn(&facts),
            Outcome::Dml { .. } | Outcome::Transaction(_) => {}
            Outcome::NotUnderstood { diagnostic, .. } => assert!(!diagnostic.headline.is_empty()),
        }
    }
    // Milliseconds in release; generous for a debug build on a busy machine.
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

#[test]
fn every_cut_of_a_statement_ends() {
    let context = Context::mysql(90704).in_database("shop");
    for statement in corpus() {
        for end in (0..=statement.len()).filter(|&end| statement.is_char_boundary(end)).step_by(3) {
            let _ = parse(&statement[..end], &context, &NoStructures);
        }
    }
}

#[test]
fn depth_and_length_need_no_stack_and_little_time() {
    let context = Context::mysql(90704).in_database("shop");
    let start = std::time::Instant::now();
    let open = "(".repeat(200_000);
    let shut = ")".repeat(200_000);
    let statements = [
        format!("CREATE TABLE t (a INT DEFAULT {open}1{shut})"),
        format!("CREATE TABLE t (a INT AS {open}1{shut} STORED, b INT CHECK {open}1)"),
        format!("CREATE TABLE t {open}"),
        format!("ALTER TABLE t ADD a INT AS {open}1{shut}"),
        format!("UPDATE {open}a{shut} SET x=1"),
        format!("DELETE FROM {open}a"),
        "SET STATEMENT x=1 FOR ".repeat(50_000),
        "/*!".repeat(100_000),
        "/*!99999 ".repeat(50_000),
        "/*".repeat(100_000),
        format!("ALTER TABLE t {}", "/*! ADD a INT, */".repeat(20_000)),
        format!("ALTER TABLE t {}", "ADD a INT,".repeat(100_000)),
        format!("CREATE TABLE t ({})", "a INT,".repeat(100_000)),
        format!("CREATE TABLE t (a INT, KEY ({}a))", "a,".repeat(100_000)),
        format!("CREATE TABLE t (a ENUM({}'a'))", "'a',".repeat(100_000)),
        format!("RENAME TABLE {}a TO b", "a TO b,".repeat(20_000)),
        format!("DROP TABLE {}a", "a,".repeat(100_000)),
        format!("ALTER TABLE t COMMENT {}", "''".repeat(200_000)),
        format!("CREATE TABLE t (a VARCHAR(5) DEFAULT {})", "'a' ".repeat(100_000)),
        format!("CREATE TABLE t (a INT DEFAULT {}1)", "- ".repeat(100_000)),
        format!("ALTER TABLE t {}", ",".repeat(200_000)),
        ";".repeat(200_000),
    ];
    for statement in &statements {
        let _ = parse(statement, &context, &NoStructures);
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn a_table_of_the_most_columns_is_followed_in_time() {
    let context = Context::mysql(90704).in_database("shop");
    let mut structures = TableStructures::default();
    let columns: Vec<String> = (0..1000).map(|i| format!("c{i} VARCHAR(3) NOT NULL")).collect();
    run(&format!("CREATE TABLE t ({})", columns.join(",")), &context, &mut structures);
    let renames: Vec<String> =
        (0..1000).map(|i| format!("RENAME COLUMN c{i} TO c{}", (i + 1) % 1000)).collect();
    let start = std::time::Instant::now();
    run(&format!("ALTER TABLE t {}", renames.join(",")), &context, &mut structures);
    let table = structures.get(&TableId::new("shop", "t")).expect("the table is known");
    assert_eq!(&*table.columns[0].name, "c1");
    assert_eq!(&*table.columns[999].name, "c0");
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn show_create_and_schema_files() {
    let context = Context::mysql(90704);
    let text = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `a` varchar(3) COLLATE utf8mb4_bin DEFAULT NULL,\n  \
        PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci";
    let schema = parse_show_create(text, &context.clone().in_database("shop")).expect("it is a table");
    assert_eq!(
        show_table(&schema),
        "shop.t utf8mb4_0900_ai_ci\n  id int not null\n  a varchar(3) utf8mb4_bin\n  primary key (id)"
    );
    let error = parse_show_create("CREATE VIEW v AS SELECT 1", &context).expect_err("it is no table");
    assert_eq!(error.code(), codes::DDL_NOT_UNDERSTOOD);
    assert_eq!(
        error.to_string().lines().next(),
        Some("error[E1301]: statement that is not understood: \"VIEW\" stands where TABLE is wanted")
    );

    let file = "-- a dump; with a semicolon\nCREATE DATABASE other CHARACTER SET latin1;\nCREATE TABLE a (x INT);\n\
        DROP TABLE IF EXISTS `b`;\n/*!40101 SET character_set_client = utf8 */;\nINSERT INTO a VALUES (';');\n\
        USE other;\nCREATE TABLE b (y CHAR(1));\nALTER TABLE shop.a ADD z INT;\n";
    let tables = parse_schema_text(file, Some("shop"), &context).expect("it is a schema");
    let shown: Vec<String> = tables.iter().map(show_table).collect();
    assert_eq!(
        shown,
        [
            "other.b latin1_swedish_ci\n  y char(1) latin1_swedish_ci",
            "shop.a utf8mb4_0900_ai_ci\n  x int\n  z int"
        ]
    );
    assert!(tables.iter().all(|table| table.version == 0));
    let wrong = "CREATE TABLE a (x INTT);\nCREATE TABLE b (y INT);\nALTER TABLE c ADD d INT;";
    let diagnostics = parse_schema_text(wrong, Some("shop"), &context).expect_err("two statements are wrong");
    let found: Vec<_> = diagnostics.iter().map(|d| d.code).collect();
    assert_eq!(found, [codes::TYPE_UNSUPPORTED, codes::STRUCTURE_UNKNOWN]);
}

#[test]
fn unique_keys_without_known_names() {
    let context = Context::mysql(90704).in_database("shop");
    let text = "CREATE TABLE t (a INT NOT NULL, b INT, UNIQUE KEY u (a), UNIQUE KEY (b))";
    let schema = parse_show_create(text, &context).expect("it is a table");
    let mut structures = TableStructures::default();
    structures.insert(schema, None);
    let outcome = parse("ALTER TABLE t DROP INDEX u", &context, &structures);
    let Outcome::NotUnderstood { diagnostic, .. } = outcome else { panic!("a guess was made: {outcome:?}") };
    assert_eq!(diagnostic.code, codes::DDL_UNSUPPORTED);
    let keyed = "CREATE TABLE k (id INT PRIMARY KEY, b INT, UNIQUE KEY (b))";
    structures.insert(parse_show_create(keyed, &context).expect("it is a table"), None);
    assert_eq!(
        run("DROP INDEX u ON k; DROP INDEX b ON k", &context, &mut structures),
        "no effect: DROP INDEX [shop.k]\nchange unique keys of shop.k: []\n"
    );
}

#[test]
fn case_46_swaps_are_changes_of_shape() {
    let context = Context::mysql(90704).in_database("shop");
    let mut structures = TableStructures::default();
    run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", &context, &mut structures);
    let tools = [
        ("_t_gho", "_t_del", "ADD b INT DEFAULT 5 AFTER id", "shop.t.b int after id"),
        ("_t_new", "_t_old", "MODIFY a BIGINT FIRST", "shop.t.a to bigint"),
        ("___t_new", "_t_old", "DROP COLUMN b", "shop.t.b"),
        ("_t_gho", "_t_20240131120000_del", "ADD c INT", "shop.t.c int"),
    ];
    for (shadow, retired, action, expect) in tools {
        let make = format!("CREATE TABLE {shadow} LIKE t; ALTER TABLE {shadow} {action}");
        run(&make, &context, &mut structures);
        let rename = format!("RENAME TABLE t TO {retired}, {shadow} TO t");
        let Outcome::Changes { changes, facts } = parse(&rename, &context, &structures) else {
            panic!("{rename} is a change");
        };
        let swap = online::swap(&changes).unwrap_or_else(|| panic!("{rename} is a swap"));
        assert_eq!(swap.real, TableId::new("shop", "t"));
        let was = structures.get(&swap.real).expect("the table is known").clone();
        let is = structures.get(&swap.shadow).expect("its shadow is known").clone();
        let (shape, reasons) = online::shape_changes(&was, &is).expect("one is made into the other");
        assert_eq!(shape.len(), 1, "{shape:?}");
        assert!(shape[0].to_string().ends_with(expect), "{}", shape[0]);
        assert_eq!(reasons, Vec::<String>::new());
        structures.apply(&changes).expect("renames fit");
        structures.learn(&facts);
        run(&format!("DROP TABLE {retired}"), &context, &mut structures);
    }
    let nightly = parse("RENAME TABLE t TO t_old, t_new TO t", &context, &structures);
    let Outcome::Changes { changes, .. } = nightly else { panic!("a rename is a change") };
    assert_eq!(online::swap(&changes), None);
}
