//! What a server and an account must have, looked at before anything starts.
//!
//! Every check answers with setting, expected, actual, and the statement that mends it. All are made; the
//! first answer that does not do is not the last that is told.

use crate::config::Config;
use crate::conn::{query_error, server_code};
use cdc_core::diagnostic::Code;
use cdc_core::{Diagnostic, Error, Result, codes};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The setting or privilege.
    pub setting: String,
    /// What it must be.
    pub expected: String,
    /// What it is.
    pub actual: String,
    /// The statement that mends it.
    pub mend: String,
    /// Does it do?
    pub ok: bool,
    /// The code of an error about it.
    pub code: Code,
}

impl Check {
    /// As a diagnostic, if it does not do.
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        (!self.ok).then(|| {
            Diagnostic::error(
                self.code,
                format!("{} is {}, {} is needed", self.setting, self.actual, self.expected),
            )
            .help(self.mend.clone())
        })
    }
}

/// What was found out about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `9.7.0`.
    pub version: String,
    /// As a number: 90700.
    pub version_number: u32,
    /// Its identity.
    pub uuid: String,
}

/// Looks at everything that following the log needs.
///
/// # Errors
/// `SERVER_UNSUPPORTED`; errors of the connection. What does not do is in the checks.
pub async fn check(conn: &mut Conn, config: &Config) -> Result<(Server, Vec<Check>)> {
    let doing = "looking at the server's settings";
    let failed = |e| query_error(e, doing);
    let row: Option<(String, String)> =
        conn.query_first("SELECT VERSION(), @@version_comment").await.map_err(failed)?;
    let (version, comment) = row.unwrap_or_default();
    let number = version_number(&version);
    if version.contains("MariaDB") || comment.contains("MariaDB") {
        return Err(Error::definite(
            codes::SERVER_UNSUPPORTED,
            format!("the server is MariaDB ({version}), which this version does not follow"),
        )
        .help("MySQL 8.0 and later can be a source"));
    }
    // before 8.0.26 the first event of a stream has another form (the variable that asks for checksums was renamed)
    if number < 80_026 {
        return Err(Error::definite(
            codes::SERVER_UNSUPPORTED,
            format!("the server is MySQL {version}, 8.0.26 or later is needed"),
        ));
    }
    let names = [
        "log_bin",
        "binlog_format",
        "binlog_row_image",
        "binlog_row_value_options",
        "gtid_mode",
        "server_uuid",
    ];
    let select = names.map(|n| format!("CAST(@@global.{n} AS CHAR)")).join(", ");
    let row: Option<mysql_async::Row> = conn.query_first(format!("SELECT {select}")).await.map_err(failed)?;
    let row = row.ok_or_else(|| Error::definite(codes::SERVER_ERROR, "the server gave no settings"))?;
    let setting = |i: usize| row.get::<Option<String>, _>(i).flatten().unwrap_or_default();
    let mut checks = Vec::new();
    let mut variable = |name: &str, actual: String, expected: &str, ok: bool, mend: &str| {
        checks.push(Check {
            setting: name.to_owned(),
            expected: expected.to_owned(),
            actual: if actual.is_empty() { "empty".to_owned() } else { actual },
            mend: mend.to_owned(),
            ok,
            code: codes::SETTING_WRONG,
        });
    };
    let log_bin = setting(0);
    let log_on = log_bin == "1" || log_bin.eq_ignore_ascii_case("on");
    variable(
        "log_bin",
        if log_on { "ON".into() } else { "OFF".into() },
        "ON",
        log_on,
        "start the server with --log-bin (it cannot be turned on while it runs)",
    );
    let v = setting(1);
    let ok = v == "ROW";
    variable("binlog_format", v, "ROW", ok, "SET PERSIST binlog_format = ROW");
    let v = setting(2);
    let ok = v == "FULL";
    variable("binlog_row_image", v, "FULL", ok, "SET PERSIST binlog_row_image = FULL");
    let v = setting(3);
    let ok = v.is_empty();
    variable("binlog_row_value_options", v, "empty", ok, "SET PERSIST binlog_row_value_options = ''");
    let v = setting(4);
    let ok = v == "ON";
    variable(
        "gtid_mode",
        v,
        "ON",
        ok,
        "SET PERSIST enforce_gtid_consistency = ON; then SET PERSIST gtid_mode = OFF_PERMISSIVE, \
         = ON_PERMISSIVE, = ON, one after the other",
    );
    let uuid = setting(5);
    if log_on {
        checks.extend(log_filters(conn, number).await?);
        checks.push(privilege(conn, "SHOW BINARY LOG STATUS", "REPLICATION CLIENT", config, number).await?);
        checks.push(privilege(conn, "SHOW REPLICAS", "REPLICATION SLAVE", config, number).await?);
    }
    Ok((Server { version, version_number: number, uuid }, checks))
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

/// The errors among the checks.
pub fn failures(checks: &[Check]) -> Vec<Diagnostic> {
    checks.iter().filter_map(Check::diagnostic).collect()
}

/// `binlog_do_db` and `binlog_ignore_db` keep databases out of the log.
async fn log_filters(conn: &mut Conn, version: u32) -> Result<Vec<Check>> {
    let statement = if version < 80_200 { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
    let status: Option<mysql_async::Row> = match conn.query_first(statement).await {
        Ok(row) => row,
        // no privilege: told by its check
        Err(_) => return Ok(Vec::new()),
    };
    let Some(row) = status else { return Ok(Vec::new()) };
    Ok([(2, "binlog_do_db"), (3, "binlog_ignore_db")]
        .into_iter()
        .filter_map(|(i, name)| {
            let actual = row.get::<Option<String>, _>(i).flatten().unwrap_or_default();
            (!actual.is_empty()).then(|| Check {
                setting: name.into(),
                expected: "unset".into(),
                actual,
                mend: format!("start the server without --{}", name.replace('_', "-")),
                ok: false,
                code: codes::SETTING_WRONG,
            })
        })
        .collect())
}

async fn privilege(
    conn: &mut Conn,
    statement: &str,
    privilege: &str,
    config: &Config,
    version: u32,
) -> Result<Check> {
    // the words before 8.2 and 8.0.22
    let statement = match statement {
        "SHOW BINARY LOG STATUS" if version < 80_200 => "SHOW MASTER STATUS",
        "SHOW REPLICAS" if version < 80_022 => "SHOW SLAVE HOSTS",
        other => other,
    };
    let ok = match conn.query_drop(statement).await {
        Ok(()) => true,
        Err(e) if server_code(&e) == Some(1227) => false,
        Err(e) => return Err(query_error(e, "looking at the account's privileges")),
    };
    Ok(Check {
        setting: format!("privilege {privilege} of account \"{}\"", config.account()),
        expected: "granted".into(),
        actual: if ok { "granted".into() } else { "missing".into() },
        mend: format!("GRANT {privilege} ON *.* TO '{}'@'%'", config.account().replace('\'', "''")),
        ok,
        code: codes::GRANT_MISSING,
    })
}

fn version_number(text: &str) -> u32 {
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
        assert_eq!(super::version_number("x"), 0);
    }
}
