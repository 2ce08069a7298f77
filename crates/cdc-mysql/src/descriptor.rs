//! The `mysql` source, as the language knows it.

use crate::config::Tls;
use cdc_core::ZeroDates;
use cdc_core::catalog::{ConnectorDescriptor, ConnectorRole, OptionDescriptor, OptionKind};

fn option(name: &'static str, kind: OptionKind, help: &'static str) -> OptionDescriptor {
    OptionDescriptor { name, kind, required: false, default: None, help, not_yet: None }
}

/// What the `mysql` source takes.
pub fn descriptor() -> ConnectorDescriptor {
    ConnectorDescriptor {
        name: "mysql",
        role: ConnectorRole::Source,
        help: "reads tables of a MySQL server and follows its binary log",
        options: vec![
            option("url", OptionKind::Url, "mysql://host:port; needed, but for files"),
            option("user", OptionKind::Text, "the account's name; needed, but for files"),
            option("password", OptionKind::Secret, "the account's password; take it from the environment"),
            option(
                "password_file",
                OptionKind::Path,
                "a file that holds the password instead (a newline at its end does not count); read for every connection",
            ),
            option(
                "socket",
                OptionKind::Path,
                "the server's Unix socket, on this machine; host and port of url are then only a name",
            ),
            OptionDescriptor {
                default: Some("preferred"),
                ..option(
                    "tls",
                    OptionKind::Choice(Tls::WORDS),
                    "disabled: never; preferred: encrypted if the server offers it; required: encrypted or not at all; \
                     verify-ca: and signed by tls_ca; verify-identity: and of the host in url",
                )
            },
            option(
                "tls_ca",
                OptionKind::Path,
                "PEM file of the authorities that verify-ca and verify-identity trust; without it verify-identity \
                 trusts the public ones",
            ),
            option(
                "tls_cert",
                OptionKind::Path,
                "PEM file of a client certificate, for accounts that REQUIRE X509",
            ),
            option("tls_key", OptionKind::Path, "PEM file of its private key"),
            OptionDescriptor {
                required: true,
                ..option(
                    "tables",
                    OptionKind::List,
                    "\"database.table\" with * and ?, \"!\" in front to leave out, \"/regex/\" over database.table; no pattern \
                     takes in _cdc_*, in which targets note what they have",
                )
            },
            option(
                "files",
                OptionKind::Path,
                "log files instead of a server: a path with * and ? in its last part, or the server's index file; read in \
                 the order of their numbers to their end; needs a start other than initial",
            ),
            option(
                "schema",
                OptionKind::Path,
                "a file of CREATE TABLE statements, for check and test without a server; with files: the tables as they were at the \
                 start, where the log's metadata does not tell",
            ),
            OptionDescriptor {
                default: Some("5400"),
                ..option(
                    "server_id",
                    OptionKind::Integer { min: 1, max: 4_294_967_295 },
                    "the replica id under which the log is read; no other replica of the server may use it",
                )
            },
            OptionDescriptor {
                default: Some("initial"),
                ..option(
                    "start",
                    OptionKind::ChoiceOrMap {
                        words: &["initial", "snapshot", "latest", "earliest"],
                        keys: &["timestamp", "offset"],
                    },
                    "initial: copy, then follow; snapshot: copy, then stop; latest, earliest, \
                     { timestamp = \"2026-01-31 12:00:00\" } (UTC), { offset = \"file:position\" or a GTID set }: follow only",
                )
            },
            OptionDescriptor {
                default: Some("8096"),
                ..option(
                    "chunk_rows",
                    OptionKind::Integer { min: 1, max: 1_000_000 },
                    "rows of a chunk of the snapshot",
                )
            },
            OptionDescriptor {
                default: Some("2"),
                ..option(
                    "chunk_readers",
                    OptionKind::Integer { min: 1, max: 64 },
                    "connections that read chunks side by side",
                )
            },
            OptionDescriptor {
                default: Some("16MB"),
                ..option("chunk_bytes", OptionKind::Bytes, "the most bytes of rows a chunk holds in memory")
            },
            OptionDescriptor {
                default: Some("keep"),
                ..option(
                    "zero_dates",
                    OptionKind::Choice(ZeroDates::WORDS),
                    "dates such as 0000-00-00 and 2024-02-30. keep: as they are; null: NULL; text: all dates as text; \
                     error: stop",
                )
            },
            OptionDescriptor {
                default: Some("none"),
                ..option(
                    "lock",
                    OptionKind::Choice(&["none", "brief"]),
                    "brief: a table without a key that is written to without pause is locked for reading while its \
                     snapshot is opened (MySQL)",
                )
            },
            OptionDescriptor {
                default: Some("copy"),
                ..option(
                    "online_ddl",
                    OptionKind::Choice(&["copy", "trust"]),
                    "what gh-ost and pt-online-schema-change end with, a swap of two tables. copy: one table goes and another comes; \
                     trust: the table changes its shape, and the tools' own tables are left out",
                )
            },
            OptionDescriptor {
                default: Some("10s"),
                ..option("connect_timeout", OptionKind::Duration, "how long a connection may take to open")
            },
        ],
        example: "source src = mysql {\n  url      = \"mysql://127.0.0.1:3306\"\n  user     = \"cdc\"\n  password = \"${CDC_PASSWORD}\"\n  tables   = [\"shop.*\"]\n}",
    }
}
