//! Functions of MySQL's that a pipeline cannot have: they give another result the next time, or tell of the
//! session.

use super::Function;

const ANOTHER_TIME: &str = "gives another value at another time, and a row must come out the same again";
const SESSION: &str = "tells of a session at the server, and a pipeline has none";

const fn refused(
    name: &'static str,
    aliases: &'static [&'static str],
    signature: &'static str,
    reason: &'static str,
    help: &'static str,
) -> Function {
    Function {
        name,
        aliases,
        signature,
        help,
        examples: &[],
        refused: Some(reason),
        arity: (0, None),
        bind: |_, _| None,
    }
}

const COMMIT_TIME: &str = "`meta.ts` is the time at which the change was committed at the source";

pub(super) const FUNCTIONS: &[Function] = &[
    refused(
        "now",
        &["current_timestamp", "sysdate", "localtime", "localtimestamp", "utc_timestamp"],
        "now()",
        ANOTHER_TIME,
        COMMIT_TIME,
    ),
    refused("curdate", &["current_date", "utc_date"], "curdate()", ANOTHER_TIME, COMMIT_TIME),
    refused("curtime", &["current_time", "utc_time"], "curtime()", ANOTHER_TIME, COMMIT_TIME),
    refused("rand", &["random_bytes"], "rand()", ANOTHER_TIME, "`crc32(..)` of a key spreads rows"),
    refused("uuid", &["uuid_short"], "uuid()", ANOTHER_TIME, "make it at the source, in a column"),
    refused("last_insert_id", &[], "last_insert_id()", SESSION, "use the column"),
    refused(
        "connection_id",
        &["user", "current_user", "session_user", "system_user", "version"],
        "connection_id()",
        SESSION,
        "leave it out",
    ),
    refused("database", &["schema"], "database()", SESSION, "`meta.database` is the row's database"),
];
