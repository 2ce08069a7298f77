//! What the tests of the language share: a world without servers.

// each test file uses its own part of this
#![allow(dead_code)]

use cdc_core::catalog::{
    Catalog, ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind, Surroundings,
};
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema};
use cdc_dsl::{Compiled, report};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Connectors as the crates declare them, without their crates.
pub fn connectors() -> Vec<ConnectorDescriptor> {
    fn option(name: &'static str, kind: OptionKind) -> OptionDescriptor {
        OptionDescriptor { name, kind, required: false, default: None, help: "..", not_yet: None }
    }
    fn required(name: &'static str, kind: OptionKind, help: &'static str) -> OptionDescriptor {
        OptionDescriptor { required: true, help, ..option(name, kind) }
    }
    let connector = |name, role, options| ConnectorDescriptor { name, role, help: "", options, example: "" };
    let formats = &["debezium-json", "plain"];
    vec![
        connector(
            "mysql",
            ConnectorRole::Source,
            vec![
                required("url", OptionKind::Url, "mysql://host:port"),
                required("user", OptionKind::Text, "the account's name"),
                option("password", OptionKind::Secret),
                required("tables", OptionKind::List, "database.table patterns"),
                option("schema", OptionKind::Path),
                OptionDescriptor {
                    default: Some("5400"),
                    ..option("server_id", OptionKind::Integer { min: 1, max: 4_294_967_295 })
                },
                OptionDescriptor {
                    default: Some("initial"),
                    ..option(
                        "start",
                        OptionKind::ChoiceOrMap {
                            words: &["initial", "snapshot", "latest", "earliest"],
                            keys: &["timestamp", "offset"],
                        },
                    )
                },
                OptionDescriptor { default: Some("16MB"), ..option("chunk_bytes", OptionKind::Bytes) },
                OptionDescriptor { default: Some("10s"), ..option("connect_timeout", OptionKind::Duration) },
                OptionDescriptor { not_yet: Some("TLS comes later"), ..option("tls", OptionKind::Bool) },
            ],
        ),
        connector(
            "sqlite",
            ConnectorRole::Sink,
            vec![
                required("path", OptionKind::Path, "the database file"),
                OptionDescriptor { default: Some("true"), ..option("wal", OptionKind::Bool) },
            ],
        ),
        connector(
            "stdout",
            ConnectorRole::Sink,
            vec![OptionDescriptor {
                default: Some("debezium-json"),
                ..option("format", OptionKind::Choice(formats))
            }],
        ),
        connector("null", ConnectorRole::Sink, Vec::new()),
    ]
}

/// An environment with `CDC_PASSWORD` and the schema files `shop.sql` and `keyless.sql`.
pub struct World;

impl Surroundings for World {
    fn environment(&self, name: &str) -> Option<String> {
        match name {
            "CDC_PASSWORD" => Some("s3cr&t".to_owned()),
            "CDC_HOST" => Some("db.example.com".to_owned()),
            "CDC_ID" => Some("77".to_owned()),
            _ => None,
        }
    }

    fn schema_file(&self, path: &str, _: Option<&str>) -> Result<Vec<TableSchema>, Vec<Diagnostic>> {
        match path {
            "shop.sql" => Ok(shop()),
            "keyless.sql" => Ok(shop().into_iter().chain([keyless()]).collect()),
            other => Err(vec![Diagnostic::error(
                codes::FILE_UNREADABLE,
                format!("file \"{other}\" cannot be read"),
            )]),
        }
    }
}

fn bigint() -> ColumnType {
    ColumnType::Int { width: IntWidth::Big, unsigned: false }
}

fn varchar(length: u32) -> ColumnType {
    ColumnType::VarChar { length, charset: Charset::utf8mb4() }
}

/// A text under a collation that comparing knows.
fn word() -> ColumnType {
    ColumnType::VarChar { length: 20, charset: Charset::new("utf8mb4", "utf8mb4_bin") }
}

fn decimal() -> ColumnType {
    ColumnType::Decimal { precision: 10, scale: 2, unsigned: false }
}

/// Columns that may be NULL.
const NULLABLE: &[&str] = &["coupon", "percent", "note", "line"];

/// A table whose first column is its primary key.
fn table(name: &str, columns: Vec<(&str, ColumnType)>) -> TableSchema {
    let column = |(name, ty): (&str, ColumnType)| {
        let column = Column::new(name, ty);
        if NULLABLE.contains(&name) { column } else { column.not_null() }
    };
    TableSchema {
        id: TableId::new("shop", name),
        version: 0,
        columns: columns.into_iter().map(column).collect(),
        primary_key: vec![0],
        unique_keys: Vec::new(),
        charset: Charset::utf8mb4(),
        comment: String::new(),
    }
}

fn orders(name: &str) -> TableSchema {
    table(
        name,
        vec![
            ("id", bigint()),
            ("customer_id", bigint()),
            ("amount", decimal()),
            ("status", word()),
            ("coupon", varchar(20)),
            ("created_at", ColumnType::DateTime { fsp: 0 }),
        ],
    )
}

fn shop() -> Vec<TableSchema> {
    vec![
        orders("orders"),
        orders("orders_1"),
        orders("orders_2"),
        table("customers", vec![("id", bigint()), ("name", word()), ("größe", bigint())]),
        table("coupons", vec![("code", varchar(20)), ("percent", decimal())]),
        table(
            "odd",
            vec![
                ("id", bigint()),
                ("timestamp", bigint()),
                ("a-b", bigint()),
                ("select", word()),
                // under a collation that comparing does not know
                (
                    "note",
                    ColumnType::VarChar {
                        length: 20,
                        charset: Charset::new("utf8mb4", "utf8mb4_unicode_ci"),
                    },
                ),
            ],
        ),
    ]
}

fn keyless() -> TableSchema {
    TableSchema { primary_key: Vec::new(), ..table("log", vec![("line", varchar(200))]) }
}

/// Compiles in the world of the tests.
pub fn compile(text: &str) -> Compiled {
    compile_with(text, &[], false)
}

/// Compiles with `--set` and, or, a lenient environment.
pub fn compile_with(text: &str, set: &[(&str, &str)], lenient_environment: bool) -> Compiled {
    let connectors = connectors();
    let parameters: BTreeMap<String, String> =
        set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let catalog = Catalog {
        connectors: &connectors,
        parameters: &parameters,
        surroundings: &World,
        lenient_environment,
    };
    cdc_dsl::compile(text, &catalog)
}

/// What a user would see.
pub fn rendered(diagnostics: &[Diagnostic], text: &str) -> String {
    report::render(diagnostics, "test.cdc", text, report::Style::default())
}

/// Statements, made a whole file if they are not: with a source `src` and sinks `dw` and `feed` behind them,
/// so that lines keep their numbers.
pub fn whole(statements: &str) -> String {
    if statements.lines().any(|l| l.starts_with("pipeline")) {
        return statements.to_owned();
    }
    format!("{statements}\n{PREAMBLE}")
}

/// What most files have.
pub const PREAMBLE: &str = r#"pipeline { name = "shop" }

source src = mysql {
  url    = "mysql://127.0.0.1:3306"
  user   = "cdc"
  tables = ["shop.*"]
  schema = "shop.sql"
}

sink dw   = sqlite { path = "dw.db" }
sink feed = stdout { format = "debezium-json" }
"#;

/// The folder `dsl/` at the top of the workspace.
pub fn dsl_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dsl")
}
