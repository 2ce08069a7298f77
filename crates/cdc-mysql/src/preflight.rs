//! What a server and an account must have, looked at before anything starts.
//!
//! Every check answers with setting, expected, actual, and the statement that mends it. All are made; the
//! first answer that does not do is not the last that is told. What is only advised stops nothing: it is shown by
//! `cdc check --live`.

use crate::config::Config;
use crate::conn::{query_error, server_code};
use crate::server::{Flavor, Server};
use cdc_core::{Diagnostic, Error, Result, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

pub use cdc_core::preflight::Check;

/// How long a log should be kept: long enough to find out that a pipeline has stopped, and to start it again.
const RETENTION: u64 = 24 * 3600;

/// Looks at everything that following the log needs.
///
/// # Errors
/// `SERVER_UNSUPPORTED`; errors of the connection. What does not do is in the checks.
pub async fn check(conn: &mut Conn, config: &Config) -> Result<(Server, Vec<Check>)> {
    let server = Server::ask(conn).await?;
    let (oldest, name) = match server.flavor {
        // before 8.0.26 the first event of a stream has another form (the variable that asks for checksums was
        // renamed)
        Flavor::MySql => (80_026, "MySQL 8.0.26"),
        // the first whose table maps tell signedness
        Flavor::MariaDb => (100_500, "MariaDB 10.5"),
    };
    if server.number < oldest {
        return Err(Error::definite(
            codes::SERVER_UNSUPPORTED,
            format!("the server is {} {}, {name} or later is needed", server.flavor, server.version),
        ));
    }
    let mut checks = Checks { server: &server, found: Vec::new() };
    let log_on = checks.settings(conn).await?;
    if log_on {
        checks.log_filters(conn).await;
        checks.privileges(conn, config).await?;
        checks.replica(conn).await?;
        checks.retention(conn).await?;
    }
    let found = checks.found;
    Ok((server, found))
}

struct Checks<'s> {
    server: &'s Server,
    found: Vec<Check>,
}

impl Checks<'_> {
    fn put(&mut self, setting: &str, actual: &str, expected: &str, ok: bool, mend: String) {
        self.found.push(Check {
            setting: setting.to_owned(),
            expected: expected.to_owned(),
            actual: if actual.is_empty() { "empty".to_owned() } else { actual.to_owned() },
            mend,
            ok,
            advised: false,
            code: codes::SETTING_WRONG,
        });
    }

    fn advise(&mut self, setting: &str, actual: &str, expected: &str, ok: bool, mend: String) {
        self.put(setting, actual, expected, ok, mend);
        if let Some(last) = self.found.last_mut() {
            last.advised = true;
        }
    }

    /// What is in force for sessions to come; true if there is a log.
    async fn settings(&mut self, conn: &mut Conn) -> Result<bool> {
        let log_bin = global(conn, "log_bin").await?;
        let log_on = log_bin == "1" || log_bin.eq_ignore_ascii_case("on");
        self.put(
            "log_bin",
            if log_on { "ON" } else { "OFF" },
            "ON",
            log_on,
            "start the server with --log-bin (it cannot be turned on while it runs)".to_owned(),
        );
        let set = |name: &str, value: &str| self.server.set_for_good(name, value);
        let (row, image) = (set("binlog_format", "ROW"), set("binlog_row_image", "FULL"));
        let metadata = set("binlog_row_metadata", "FULL");
        let format = global(conn, "binlog_format").await?;
        self.put("binlog_format", &format, "ROW", format == "ROW", row);
        let actual = global(conn, "binlog_row_image").await?;
        // FULL_NODUP of MariaDB leaves out of the row after what the row before it says
        let ok = actual == "FULL" || actual == "FULL_NODUP";
        self.advise("binlog_row_image", &actual, "FULL", ok, image);
        let actual = global(conn, "binlog_row_metadata").await?;
        self.advise("binlog_row_metadata", &actual, "FULL", actual == "FULL", metadata);
        if self.server.flavor == Flavor::MySql {
            let actual = global(conn, "binlog_row_value_options").await?;
            let mend = self.server.set_for_good("binlog_row_value_options", "''");
            self.advise("binlog_row_value_options", &actual, "empty", actual.is_empty(), mend);
            let actual = global(conn, "gtid_mode").await?;
            self.put(
                "gtid_mode",
                &actual,
                "ON",
                actual == "ON",
                "SET PERSIST enforce_gtid_consistency = ON; then SET PERSIST gtid_mode = OFF_PERMISSIVE, \
                 = ON_PERMISSIVE, = ON, one after the other"
                    .to_owned(),
            );
        }
        Ok(log_on)
    }

    /// `binlog_do_db` and `binlog_ignore_db` keep databases out of the log.
    async fn log_filters(&mut self, conn: &mut Conn) {
        // no privilege: told by its check
        let Ok(Some(row)) = conn.query_first::<mysql_async::Row, _>(self.server.show_log_status()).await
        else {
            return;
        };
        for (i, name) in [(2, "binlog_do_db"), (3, "binlog_ignore_db")] {
            let actual = row.get::<Option<String>, _>(i).flatten().unwrap_or_default();
            let mend = format!("start the server without --{}", name.replace('_', "-"));
            let shown = if actual.is_empty() { "unset" } else { &actual };
            self.put(name, shown, "unset", actual.is_empty(), mend);
        }
    }

    async fn privileges(&mut self, conn: &mut Conn, config: &Config) -> Result<()> {
        let monitor = allowed(conn, self.server.show_log_status()).await?;
        match self.server.flavor {
            Flavor::MySql => {
                self.privilege("REPLICATION CLIENT", monitor, config);
                let show = if self.server.number < 80_022 { "SHOW SLAVE HOSTS" } else { "SHOW REPLICAS" };
                let replica = allowed(conn, show).await?;
                self.privilege("REPLICATION SLAVE", replica, config);
            }
            Flavor::MariaDb => {
                self.privilege("BINLOG MONITOR", monitor, config);
                // no statement but the dump itself asks for it
                let grants: Vec<String> = conn
                    .query("SHOW GRANTS")
                    .await
                    .map_err(|e| query_error(e, "looking at the account's privileges"))?;
                let global = |grant: &String| {
                    let grant = grant.to_ascii_uppercase();
                    grant.contains(" ON *.*")
                        && grant
                            .trim_start_matches("GRANT ")
                            .split(" ON *.*")
                            .take(1)
                            .flat_map(|list| list.split(','))
                            .any(|p| matches!(p.trim(), "REPLICATION SLAVE" | "ALL PRIVILEGES"))
                };
                self.privilege("REPLICATION SLAVE", grants.iter().any(global), config);
            }
        }
        Ok(())
    }

    fn privilege(&mut self, privilege: &str, ok: bool, config: &Config) {
        self.found.push(Check {
            setting: format!("privilege {privilege} of account \"{}\"", config.account()),
            expected: "granted".into(),
            actual: if ok { "granted".into() } else { "missing".into() },
            mend: format!("GRANT {privilege} ON *.* TO '{}'@'%'", config.account().replace('\'', "''")),
            ok,
            advised: false,
            code: codes::GRANT_MISSING,
        });
    }

    /// Without `log_replica_updates` a replica's log does not hold what it has replicated.
    async fn replica(&mut self, conn: &mut Conn) -> Result<()> {
        let (name, of_replicas) = match self.server.flavor {
            Flavor::MySql => {
                let show =
                    if self.server.number < 80_022 { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
                let channels: Vec<mysql_async::Row> = conn.query(show).await.unwrap_or_default();
                ("log_replica_updates", !channels.is_empty())
            }
            // its threads are shown to accounts with one more privilege only; what it has applied is shown to all
            Flavor::MariaDb => ("log_slave_updates", !global(conn, "gtid_slave_pos").await?.is_empty()),
        };
        let name = if self.server.flavor == Flavor::MySql && self.server.number < 80_026 {
            "log_slave_updates"
        } else {
            name
        };
        let on = matches!(&*global(conn, name).await?, "1" | "ON");
        let mend = format!(
            "the server is a replica: start it with --{}, or read from its source",
            name.replace('_', "-")
        );
        self.put(name, if on { "ON" } else { "OFF" }, "ON on a replica", on || !of_replicas, mend);
        Ok(())
    }

    /// How long the server keeps its log.
    async fn retention(&mut self, conn: &mut Conn) -> Result<()> {
        let setting = "binlog_expire_logs_seconds";
        // MariaDB has it since 10.6, beside the days that MySQL has given up
        let seconds = match global(conn, setting).await {
            Ok(text) => text.parse::<u64>().unwrap_or(0),
            Err(error) if error.is_transient() => return Err(error),
            Err(_) => return Ok(()),
        };
        // 0: for ever
        let ok = seconds == 0 || seconds >= RETENTION;
        let mend = self.server.set_for_good(setting, "604800");
        let actual = if seconds == 0 { "0 (for ever)".to_owned() } else { seconds.to_string() };
        self.advise(setting, &actual, &format!("{RETENTION} or more"), ok, mend);
        Ok(())
    }
}

/// A global variable as text.
async fn global(conn: &mut Conn, name: &str) -> Result<String> {
    let doing = format!("looking at the server's setting {name}");
    let value: Option<Option<String>> = conn
        .query_first(format!("SELECT CAST(@@global.{name} AS CHAR)"))
        .await
        .map_err(|e| query_error(e, &doing))?;
    Ok(value.flatten().unwrap_or_default())
}

/// May the account run this statement?
async fn allowed(conn: &mut Conn, statement: &str) -> Result<bool> {
    match conn.query_drop(statement).await {
        Ok(()) => Ok(true),
        Err(e) if server_code(&e) == Some(1227) => Ok(false),
        Err(e) => Err(query_error(e, "looking at the account's privileges")),
    }
}

/// All that does not do, as one error: the first, with the others as notes and help.
///
/// # Errors
/// If anything does not do.
pub fn ensure(checks: &[Check]) -> Result<()> {
    let mut failed = failures(checks).into_iter();
    let Some(mut first) = failed.next() else { return Ok(()) };
    for other in failed {
        first.notes.push(format!("also: {} ({})", other.headline, other.code));
        first.help.extend(other.help);
    }
    Err(Error::from(first))
}

/// The server's setting, where by it row images need not hold all columns: `binlog_row_image = MINIMAL`.
pub fn partial_images(checks: &[Check]) -> Option<String> {
    let image = checks.iter().find(|c| c.setting == "binlog_row_image" && !c.ok)?;
    Some(format!("{} = {}", image.setting, image.actual))
}

/// The errors among the checks.
pub fn failures(checks: &[Check]) -> Vec<Diagnostic> {
    checks.iter().filter(|c| !c.advised).filter_map(Check::diagnostic).collect()
}
