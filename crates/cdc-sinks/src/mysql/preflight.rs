//! What the account may do at the target, found out without doing it.
//!
//! `SHOW GRANTS` is text with patterns and roles in it. So the server is asked by statements on a table that is not there: it looks at
//! the privilege first (error 1142), and only then for the table (1146, 1051). Nothing is made, changed or logged.
//!
//! What is granted for single tables is not seen in this way: where there is such a grant, what is missing for the database is advised
//! only.

use super::conn::{Errors, Link};
use super::sql::quote;
use cdc_core::preflight::Check;
use cdc_core::{Result, codes};

/// A name that nobody has given to a table.
const NOBODY: &str = "_cdc_is_not_there";

/// A privilege, and a statement that takes it. Without the last three a copy goes on until a schema change needs them.
const ASKED: [(&str, &str, bool); 8] = [
    ("SELECT", "SELECT 1 FROM {t}", true),
    ("INSERT", "INSERT INTO {t} VALUES (1)", true),
    ("UPDATE", "UPDATE {t} SET a = 1", true),
    ("DELETE", "DELETE FROM {t}", true),
    ("CREATE", "CREATE TABLE {t} LIKE {u}", true),
    ("ALTER", "ALTER TABLE {t} ADD COLUMN a INT", false),
    ("DROP", "DROP TABLE {t}", false),
    ("INDEX", "CREATE INDEX i ON {t} (a)", false),
];

/// Looks at everything that writing needs.
pub(super) fn check(link: &mut Link, errors: Errors<'_>) -> Result<Vec<Check>> {
    let failed =
        |e: &mysql_async::Error| errors.of(codes::TARGET_OPEN, "looking at the account's privileges", e);
    let single = link
        .texts("SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE TABLE_SCHEMA = DATABASE()")
        .map_err(|e| failed(&e))?
        .concat()
        .concat()
        != "0";
    let (account, database) = (errors.0.account(), quote(&errors.0.database));
    let mut read_only = false;
    let mut checks = Vec::new();
    for (privilege, statement, needed) in ASKED {
        let sql = statement.replace("{t}", &quote(NOBODY)).replace("{u}", &quote(&format!("{NOBODY}_2")));
        let granted = match link.run(sql) {
            Err(mysql_async::Error::Server(e)) => match e.code {
                1044 => false,
                // of CREATE .. LIKE it may be another one that is missing
                1142 => !e.message.starts_with(privilege),
                1290 | 1836 | 3100 | 3101 => {
                    read_only = true;
                    true
                }
                _ => true,
            },
            Err(e) => return Err(failed(&e)),
            Ok(_) => true,
        };
        checks.push(Check {
            setting: format!("privilege {privilege} of account \"{account}\""),
            expected: "granted".into(),
            actual: if granted { "granted" } else { "missing" }.into(),
            mend: format!("GRANT {privilege} ON {database}.* TO '{}'@'%'", account.replace('\'', "''")),
            ok: granted,
            advised: !needed || single,
            code: codes::GRANT_MISSING,
        });
    }
    checks.push(Check {
        setting: "read_only".into(),
        expected: "OFF".into(),
        actual: if read_only { "ON" } else { "OFF" }.into(),
        mend: "SET GLOBAL read_only = OFF, or name a server in url that is no replica".into(),
        ok: !read_only,
        advised: false,
        code: codes::SETTING_WRONG,
    });
    Ok(checks)
}
