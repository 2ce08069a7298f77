//! What the account may do at the target: the server is asked, and nothing is tried.

use super::conn::Conn;
use super::error::Errors;
use super::sql::{literal, quote};
use cdc_core::preflight::Check;
use cdc_core::{Result, codes};

/// Looks at everything that writing these tables needs; they need not be there.
pub(super) fn check(conn: &Conn, errors: Errors<'_>, tables: &[&str]) -> Result<Vec<Check>> {
    let options = errors.0;
    let (account, schema) = (options.account(), quote(&options.schema));
    let names: Vec<String> = tables.iter().map(|t| literal(t)).collect();
    let of_tables = if names.is_empty() { "NULL".to_owned() } else { names.join(", ") };
    let rows = conn
        .rows(&format!(
            "SELECT 's', has_schema_privilege({0}, 'CREATE'), current_setting('transaction_read_only'), NULL, NULL, NULL;
             SELECT c.relname, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT'),
                    has_table_privilege(c.oid, 'UPDATE'), has_table_privilege(c.oid, 'DELETE'), pg_has_role(c.relowner, 'USAGE')
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = {0} AND c.relname IN ({of_tables}) AND c.relkind IN ('r', 'p') ORDER BY c.relname",
            literal(&options.schema)
        ))
        .map_err(|e| errors.of(codes::TARGET_OPEN, "looking at the account's rights", &e))?;
    let Some((server, tables)) = rows.split_first() else { return Ok(Vec::new()) };
    let is = |row: &[Option<String>], i: usize| row.get(i).and_then(Option::as_deref) == Some("t");
    let role = quote(account);
    let privilege = |name: &str, place: &str, granted: bool, mend: String| Check {
        setting: format!("privilege {name} of account \"{account}\" on {place}"),
        expected: "granted".into(),
        actual: if granted { "granted" } else { "missing" }.into(),
        mend,
        ok: granted,
        advised: false,
        code: codes::GRANT_MISSING,
    };
    let mend = format!("GRANT USAGE, CREATE ON SCHEMA {schema} TO {role};");
    let mut checks = vec![privilege("CREATE", &format!("schema {schema}"), is(server, 1), mend)];
    let read_only = server.get(2).and_then(Option::as_deref) == Some("on");
    checks.push(Check {
        setting: "transaction_read_only".into(),
        expected: "off".into(),
        actual: if read_only { "on" } else { "off" }.into(),
        mend: "name the primary in url, or turn default_transaction_read_only off".into(),
        ok: !read_only,
        advised: false,
        code: codes::SETTING_WRONG,
    });
    for row in tables {
        let table = row.first().and_then(Option::as_deref).unwrap_or_default();
        let full = format!("{schema}.{}", quote(table));
        for (i, name) in ["SELECT", "INSERT", "UPDATE", "DELETE"].into_iter().enumerate() {
            if !is(row, i + 1) {
                let mend = format!("GRANT {name} ON {full} TO {role};");
                checks.push(privilege(name, &full, false, mend));
            }
        }
        // only who owns a table may change its shape
        if !is(row, 5) {
            checks.push(Check {
                setting: format!("owner of table {full}"),
                expected: format!("account \"{account}\""),
                actual: "another role".into(),
                mend: format!("ALTER TABLE {full} OWNER TO {role};"),
                ok: false,
                advised: true,
                code: codes::GRANT_MISSING,
            });
        }
    }
    Ok(checks)
}
