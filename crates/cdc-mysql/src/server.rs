//! Which server answers: MySQL or MariaDB, how old, and who it is.
//!
//! The two have gone different ways in what a source needs: how transactions are named, how the log is asked
//! for, what a watermark is, how status is shown. All of these differences hang on [`Flavor`], asked of the server
//! itself on each connection that needs it: what the handshake says of a version can be set to anything
//! (MariaDB's begins with `5.5.5-` for old clients, proxies put in their own).

use crate::conn::query_error;
use crate::ddl;
use cdc_core::connector::{SERVER_NAME_MARIADB, SERVER_NAME_MYSQL};
use cdc_core::{Error, Result, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use std::fmt;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// MySQL, and what calls itself so.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavor::MySql => "MySQL",
            Flavor::MariaDb => "MariaDB",
        })
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Which of the two.
    pub flavor: Flavor,
    /// `9.7.0`, `10.11.19-MariaDB-log`.
    pub version: String,
    /// As a number: 90700, 101119.
    pub number: u32,
    /// Whose log it is: `server_uuid`, or on MariaDB `server_id` in words. File names and offsets of one mean
    /// nothing to another.
    pub id: String,
}

impl Server {
    /// Asks the server.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn ask(conn: &mut Conn) -> Result<Server> {
        let failed = |e| query_error(e, "asking who the server is");
        let row: Option<(String, String, u64)> = conn
            .query_first("SELECT VERSION(), @@version_comment, @@global.server_id")
            .await
            .map_err(failed)?;
        let (version, comment, server_id) =
            row.ok_or_else(|| Error::definite(codes::SERVER_ERROR, "the server gave no version"))?;
        let number = version_number(&version);
        if version.contains("MariaDB") || comment.contains("MariaDB") {
            let id = format!("server_id {server_id}");
            return Ok(Server { flavor: Flavor::MariaDb, version, number, id });
        }
        let uuid: Option<String> = conn.query_first("SELECT @@global.server_uuid").await.map_err(failed)?;
        Ok(Server { flavor: Flavor::MySql, version, number, id: uuid.unwrap_or_default() })
    }

    /// The servers whose changes are in its log, by their names ([`cdc_core::connector::Upstream::servers`]): itself, and those that it
    /// follows as a replica. (Only its direct ones; a MariaDB names none of them.)
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn upstream(&self, conn: &mut Conn) -> Result<Vec<String>> {
        let failed = |e| query_error(e, "asking which server it is");
        let sql = if self.is_mariadb() { SERVER_NAME_MARIADB } else { SERVER_NAME_MYSQL };
        let own: Option<String> = conn.query_first(sql).await.map_err(failed)?;
        let mut servers: Vec<String> = own.into_iter().collect();
        if !self.is_mariadb() {
            let show = if self.number < 80_022 { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
            // without the privilege preflight has told so
            let channels: Vec<mysql_async::Row> = conn.query(show).await.unwrap_or_default();
            for channel in &channels {
                let uuid =
                    |name: &str| channel.get_opt::<Option<String>, _>(name).and_then(|v| v.ok()).flatten();
                servers.extend(uuid("Source_UUID").or_else(|| uuid("Master_UUID")).filter(|u| !u.is_empty()));
            }
        }
        Ok(servers)
    }

    /// Is it MariaDB?
    pub fn is_mariadb(&self) -> bool {
        self.flavor == Flavor::MariaDb
    }

    /// Are generated columns missing in its row images? MariaDB 11.8 leaves them out of UPDATE, DELETE and
    /// REPLACE, whatever `binlog_row_image` says (measured; 10.11 does not).
    pub fn leaves_out_generated(&self) -> bool {
        self.is_mariadb() && self.number >= 110_000
    }

    /// Are the rows in its log that foreign keys delete and change? MySQL logs them since 9.6; before, and on
    /// MariaDB, the engine changes them behind the log.
    pub fn logs_cascades(&self) -> bool {
        self.flavor == Flavor::MySql && self.number >= 90_600
    }

    /// How its DDL is to be read.
    pub fn context(&self) -> ddl::Context<'static> {
        match self.flavor {
            Flavor::MySql => ddl::Context::mysql(self.number),
            Flavor::MariaDb => ddl::Context::mariadb(self.number),
        }
    }

    /// The statement that shows the written end of the log. MySQL's SHOW MASTER STATUS is gone in 8.4, its
    /// successor came in 8.2; MariaDB keeps it.
    pub fn show_log_status(&self) -> &'static str {
        match self.flavor {
            Flavor::MySql if self.number >= 80_200 => "SHOW BINARY LOG STATUS",
            _ => "SHOW MASTER STATUS",
        }
    }

    /// How a variable is set for good: MariaDB has no SET PERSIST, there it also goes into the option file.
    pub fn set_for_good(&self, variable: &str, value: &str) -> String {
        match self.flavor {
            Flavor::MySql => format!("SET PERSIST {variable} = {value}"),
            Flavor::MariaDb => {
                format!("SET GLOBAL {variable} = {value}, and the same in the server's option file")
            }
        }
    }
}

/// `MySQL 9.7.0`, `MariaDB 10.11.19`.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.split("-MariaDB").next().unwrap_or(&self.version);
        write!(f, "{} {version}", self.flavor)
    }
}

fn version_number(text: &str) -> u32 {
    // old clients were to be kept from what they do not know
    let text = text.strip_prefix("5.5.5-").filter(|rest| rest.contains("MariaDB")).unwrap_or(text);
    let mut parts = text
        .split(['.', '-'])
        .map(|p| p.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u32>().unwrap_or(0));
    let (a, b, c) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    a * 10_000 + b * 100 + c
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions() {
        assert_eq!(super::version_number("9.7.0-debian"), 90_700);
        assert_eq!(super::version_number("8.0.36"), 80_036);
        assert_eq!(super::version_number("10.11.19-MariaDB-log"), 101_119);
        assert_eq!(super::version_number("5.5.5-11.8.2-MariaDB"), 110_802);
        assert_eq!(super::version_number("x"), 0);
    }
}
