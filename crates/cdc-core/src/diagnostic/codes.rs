//! The register of codes, by range: 01 syntax, 02 names and structure of a pipeline, 03 types and
//! expressions, 04 options and parameters, 05 what this version does not do yet; 10 connection and preflight,
//! 11 snapshot, 12 log, 13 DDL and decoding; 20 targets; 30 runtime and state; 40 command line.

use super::Code;

macro_rules! codes {
    ($($name:ident = $number:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code { number: $number, title: $title };)*
        /// Every code, in order.
        pub const ALL: &[Code] = &[$($name),*];
    };
}

codes! {
    UNEXPECTED_TOKEN = 101, "unexpected token";
    UNTERMINATED = 102, "text or comment without an end";
    MALFORMED_NUMBER = 103, "malformed number";
    UNKNOWN_STATEMENT = 104, "unknown statement";
    UNEXPECTED_CHARACTER = 105, "character that begins no token";
    CONCAT_BARS = 106, "|| is neither or nor concat";
    TOO_DEEP = 107, "nested too deeply";

    UNKNOWN_NAME = 201, "unknown source, sink or view";
    DUPLICATE_NAME = 202, "name defined twice";
    UNKNOWN_TABLE = 203, "unknown table";
    AMBIGUOUS_TABLE = 204, "table name needs its database";
    PATTERN_NOT_ALLOWED = 205, "pattern in a place that takes a name";
    MALFORMED_PATTERN = 206, "malformed pattern";
    NO_PIPELINE = 207, "no pipeline statement";
    NO_FLOW = 208, "nothing flows";
    UNKNOWN_CONNECTOR = 209, "unknown connector";
    RESERVED_NAME = 210, "reserved name";
    TARGET_COLLISION = 211, "two tables meet in one target";
    KEY_CONFLICT = 212, "two flows write one table with different keys";
    NO_KEY = 214, "table has no key";
    PATTERN_MATCHES_NOTHING = 215, "pattern matches no table";
    NO_TABLES = 216, "no table to copy";
    TEMPLATE_GROUP = 217, "name template uses an unknown group";
    VIEW_CYCLE = 218, "views that read each other";

    UNKNOWN_COLUMN = 301, "unknown column";
    DUPLICATE_COLUMN = 302, "column named twice";
    UNKNOWN_FUNCTION = 303, "unknown function";
    ARGUMENT_COUNT = 304, "wrong number of arguments";
    TYPE_MISMATCH = 305, "types do not fit";
    COLLATION_NOT_BUILT = 306, "comparison under a collation that is not built";
    OUT_OF_RANGE = 307, "value out of range";
    UNKNOWN_META = 308, "unknown metadata field";
    KEY_COLUMN_NULL = 309, "NULL in a key column";
    AMBIGUOUS_COLUMN = 310, "column that several inputs have";
    AGGREGATE_MISPLACED = 311, "aggregate where none can be";
    JOIN_CONDITION = 312, "join condition that is not built";
    NOT_OF_VIEWS = 313, "value that views cannot keep";
    VIEW_CONFLICT = 314, "rows that agree in a view's key";

    UNKNOWN_OPTION = 401, "unknown option";
    MISSING_OPTION = 402, "missing option";
    OPTION_TYPE = 403, "option of the wrong type";
    OPTION_VALUE = 404, "option value that is not allowed";
    MISSING_PARAMETER = 405, "parameter or environment variable not set";
    PARAMETER_TYPE = 406, "parameter value does not fit its type";
    UNKNOWN_PARAMETER = 407, "unknown parameter";
    DUPLICATE_OPTION = 408, "option given twice";

    OPTION_NOT_YET = 503, "option that is not built yet";
    FEATURE_NOT_YET = 504, "feature that is not built yet";

    CONNECT_FAILED = 1001, "connection failed";
    ACCESS_DENIED = 1002, "access denied";
    SETTING_WRONG = 1003, "server setting that does not do";
    GRANT_MISSING = 1004, "missing privilege";
    SERVER_UNSUPPORTED = 1005, "server that is not supported";
    SERVER_LOST = 1006, "connection lost";
    SERVER_ERROR = 1007, "error of the server";
    URL_MALFORMED = 1008, "malformed url";
    SERVER_CHANGED = 1009, "another server than before";
    TLS_FAILED = 1010, "secure connection failed";
    CASCADE_UNLOGGED = 1011, "changes that are not logged";

    CHUNK_FAILED = 1101, "chunk could not be read";
    STRUCTURE_MOVED = 1102, "structure changed while it was read";
    KEY_UNSUPPORTED = 1103, "key that cannot be split";
    SNAPSHOT_UNSAFE = 1104, "no exact position to be had";

    LOG_PURGED = 1201, "log no longer on the server";
    LOG_CORRUPT = 1202, "corrupt log event";
    LOG_EVENT_UNKNOWN = 1203, "log event that is not understood";
    STATEMENT_FORMAT = 1204, "change logged as a statement";
    INCIDENT = 1205, "incident in the log";
    SERVER_ID_IN_USE = 1206, "server_id in use";
    PARTIAL_IMAGE = 1207, "row image without all columns";
    XA_UNSEEN = 1208, "XA COMMIT of rows that were not seen";
    LOG_POSITION = 1209, "log position that is not there";
    PREPARED_BRANCH = 1210, "transaction prepared before the start";

    DDL_NOT_UNDERSTOOD = 1301, "DDL that is not understood";
    DDL_UNSUPPORTED = 1302, "DDL that cannot be followed";
    STRUCTURE_UNKNOWN = 1303, "structure of a table not known at this position";
    STRUCTURE_DIFFERS = 1304, "row event does not fit the known structure";
    VALUE_UNDECODABLE = 1305, "value that cannot be decoded";
    CHARSET_UNSUPPORTED = 1306, "character set that is not supported";
    TYPE_UNSUPPORTED = 1307, "column type that is not supported";
    SCHEMA_CHANGE_REFUSED = 1308, "schema change refused by on_schema_change";
    KEY_CHANGED = 1309, "key of a table changed";
    ZERO_DATE = 1310, "date that no calendar has";
    VIEW_COLUMN_CHANGED = 1311, "column that a view reads has changed";

    TARGET_OPEN = 2001, "target cannot be opened";
    TARGET_NOT_OURS = 2002, "target is not a database";
    TARGET_SHAPE = 2003, "target table has another shape";
    TARGET_FENCED = 2004, "another run has taken over the target";
    TARGET_PROGRESS = 2005, "target's progress does not belong to this state";
    TARGET_WRITE = 2006, "target refused a write";
    TARGET_VALUE = 2007, "value the target cannot hold";
    TARGET_DDL = 2008, "target refused a schema change";
    TARGET_BUSY = 2009, "target is locked";
    TARGET_ROW_MISSING = 2010, "row to be changed is not at the target";
    TARGET_CAPTURED = 2011, "target table is read by the source";
    TARGET_KEY_TAKEN = 2012, "rows of two source tables have one key";

    STATE_LOCKED = 3001, "another run of this pipeline";
    STATE_UNREADABLE = 3002, "state folder cannot be used";
    STATE_CORRUPT = 3003, "no usable checkpoint";
    STATE_FOREIGN = 3004, "state of another pipeline";
    STATE_VERSION = 3005, "state of another version";
    PIPELINE_CHANGED = 3006, "pipeline changed in a way that cannot go on";
    WORKER_PANIC = 3007, "a worker failed";
    INTERNAL = 3008, "a rule of cdc itself was broken";

    FILE_UNREADABLE = 4001, "file cannot be read";
    FILE_NOT_TEXT = 4002, "file is not UTF-8 text";
    USAGE = 4003, "command line not understood";
    DIFFERENCES = 4004, "target differs from the source";
    NOT_FORMATTED = 4005, "file is not formatted";
    TEST_FAILED = 4006, "expectation of a test that is not met";
    TEST_STEP = 4007, "step of a test that cannot be made";
}

/// The code of this number.
pub fn by_number(number: u16) -> Option<Code> {
    ALL.iter().copied().find(|c| c.number == number)
}

#[cfg(test)]
mod tests {
    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(super::ALL.windows(2).all(|w| w[0].number < w[1].number));
    }
}
