//! What a test says in another way to a MariaDB.

use anyhow::{Context, Result};

use super::{Server, ServerKind};

/// Collations of MySQL, and what orders a few letters the same way in MariaDB 10.11. (11.8 knows them by both names.)
const COLLATIONS: [(&str, &str); 3] = [
    ("utf8mb4_0900_ai_ci", "utf8mb4_uca1400_nopad_ai_ci"),
    ("utf8mb4_0900_as_cs", "utf8mb4_uca1400_nopad_as_cs"),
    ("utf8mb4_de_pb_0900_ai_ci", "utf8mb4_uca1400_german2_nopad_ai_ci"),
];

impl ServerKind {
    /// The statement that lets a recursive query give so many rows.
    pub fn recursion(self, rows: u64) -> String {
        let variable = if self.is_mariadb() { "max_recursive_iterations" } else { "cte_max_recursion_depth" };
        format!("SET SESSION {variable} = {rows}")
    }

    /// The statement that shows the end of the log.
    pub fn show_log_status(self) -> &'static str {
        if self.is_mariadb() { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" }
    }

    /// These statements with the collations that only MySQL has by the names of those most like them.
    pub fn with_collations(self, sql: &str) -> String {
        let all = if self == ServerKind::MariaDb1011 { &COLLATIONS[..] } else { &[] };
        all.iter().fold(sql.to_owned(), |sql, (mysql, mariadb)| sql.replace(mysql, mariadb))
    }

    /// The privilege to see where the log ends.
    pub fn log_privilege(self) -> &'static str {
        if self.is_mariadb() { "BINLOG MONITOR" } else { "REPLICATION CLIENT" }
    }

    /// How a statement begins that sets a variable for good. In MariaDB that lasts until the server ends.
    pub fn set_for_good(self) -> &'static str {
        if self.is_mariadb() { "SET GLOBAL" } else { "SET PERSIST" }
    }
}

impl Server {
    /// The GTIDs of the transactions in the log.
    pub fn executed(&self) -> Result<String> {
        let variable = if self.kind().is_mariadb() { "gtid_binlog_pos" } else { "gtid_executed" };
        // the client writes line ends inside a value as \n
        Ok(self.sql(&format!("SELECT @@global.{variable}"))?.replace("\\n", "").trim().to_owned())
    }

    /// File and byte of the end of the log.
    pub fn log_end(&self) -> Result<(String, u64)> {
        let status = self.sql(self.kind().show_log_status())?;
        let mut fields = status.split('\t');
        let file = fields.next().filter(|file| !file.is_empty()).context("the server writes no log")?;
        Ok((file.to_owned(), fields.next().context("no offset")?.parse()?))
    }
}

#[cfg(test)]
mod tests {
    use super::ServerKind::{MariaDb118, MariaDb1011, MySql};

    #[test]
    fn collations_are_named_as_the_server_names_them() {
        let sql = "a VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, b CHAR(9) COLLATE utf8mb4_bin";
        assert_eq!([MySql, MariaDb118].map(|kind| kind.with_collations(sql)), [sql, sql]);
        assert_eq!(
            MariaDb1011.with_collations(sql),
            "a VARCHAR(9) COLLATE utf8mb4_uca1400_nopad_ai_ci, b CHAR(9) COLLATE utf8mb4_bin"
        );
    }
}
