//! Every function of the register is asked of real servers too, over random arguments.
//!
//! A table has a column of each type, and rows of extremes, NULL, empty and odd values. An expression is made of a
//! function and random columns and constants; `SELECT expression FROM table` gives the server's values, all rows
//! at once, and ours are computed from the same rows as a snapshot reads them. Compared are the value, whether it
//! is NULL, the kind of its type, its scale, and the digits of a second's fraction.
//!
//! # What counts as equal
//! - We refuse an expression when it is bound: always allowed, and counted; enough of them must be bound.
//! - We give an error at a row: the server gives one too, or a value with a warning, where we are stricter.
//! - The server gives an error: so do we.
//!
//! A function without a line in [`FUNCTIONS`] fails the test, and so does one of which too few values were seen.
//! Where MariaDB gives another value than MySQL, MySQL's counts; [`MARIADB`] names these functions.
//!
//! `CDC_SEED=` runs one seed; `CDC_FUNCTION=` one function; `CDC_EXPRESSIONS=` sets how many of each.

use anyhow::{Context, Result, ensure};
use cdc_core::event::{Op, Origin};
use cdc_core::expr::eval::{BoundExpr, ExprType, RowMeta, bind};
use cdc_core::expr::{BinaryOp, CastType, Expr, ExprKind, Unit};
use cdc_core::function;
use cdc_core::row::RowBuilder;
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, LobSize, TableId, TableSchema};
use cdc_core::value::{Date, DateTime, Time, Value};
use cdc_mysql::decode::result::ResultDecoder;
use cdc_testkit::servers::{Server, ServerKind, ServerOptions};
use mysql_async::consts::{ColumnFlags, ColumnType as Wire};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

const SEED: u64 = 1;
const ROWS: usize = 60;
const EXPRESSIONS: usize = 30;
/// Values that must be seen of each function, NULL not counted.
const LEAST_VALUES: usize = 40;

/// Each function, and the arguments that it is called with: see [`Generator::argument`].
const FUNCTIONS: &[(&str, &[&str])] = &[
    // text
    ("upper", &["text"]),
    ("lower", &["text"]),
    ("concat", &["text", "text text", "text num text", "text day"]),
    ("concat_ws", &["text text text", "=',' text num day"]),
    ("length", &["text", "bytes"]),
    ("char_length", &["text", "bytes", "num"]),
    ("left", &["text small"]),
    ("right", &["text small"]),
    ("substring", &["text small", "text small small"]),
    ("trim", &["text"]),
    ("ltrim", &["text"]),
    ("rtrim", &["text"]),
    ("replace", &["text text text", "text =a|aa|b|. text"]),
    ("lpad", &["text small text"]),
    ("rpad", &["text small text"]),
    ("reverse", &["text"]),
    ("repeat", &["text small"]),
    ("space", &["small"]),
    ("hex", &["text", "int", "num", "bytes"]),
    ("crc32", &["text", "bytes", "num"]),
    // search
    ("locate", &["bin bin", "bin bin small", "=a|b|. bin"]),
    ("instr", &["bin bin", "bin =a|b|."]),
    ("find_in_set", &["bin bin", "=a|b| bin"]),
    ("strcmp", &["bin bin", "ci ci"]),
    ("field", &["bin bin bin", "int int int", "num small small", "bin =a|b =c|", "ci ci ci", "ci =A|é|a "]),
    ("elt", &["small text text", "small text text text"]),
    ("substring_index", &["text =.|a|aa|, small", "text text small"]),
    ("insert", &["text small small text"]),
    ("regexp_like", &["plain pattern", "plain pattern =c|i|n|in", "ci pattern"]),
    ("regexp_instr", &["plain pattern", "plain pattern small", "plain pattern =n1|2 =n1|2|3"]),
    ("regexp_substr", &["plain pattern", "plain pattern small", "plain pattern =n1|2 =n1|2|3", "ci pattern"]),
    ("regexp_replace", &["plain pattern replacement", "plain pattern =X =n1|2 =n0|1|2", "ci pattern =<$0>"]),
    // encode
    ("md5", &["text", "bytes"]),
    ("sha1", &["text", "bytes"]),
    ("sha2", &["text =n0|224|256|384|512", "bytes =n256|512", "text small"]),
    ("unhex", &["digits", "text", "hexdigits"]),
    ("to_base64", &["text", "bytes"]),
    ("from_base64", &["base64", "text"]),
    ("ascii", &["text", "bytes", "num"]),
    ("ord", &["text", "bytes"]),
    ("bit_length", &["text", "bytes"]),
    ("bit_count", &["int", "num"]),
    ("bin", &["int", "num"]),
    ("oct", &["int", "num"]),
    ("conv", &["int =n10 =n2|16|36|-16|-2|1|37", "digits =n10|16|36|-10 =n2|10|16|-10", "num =n10 =n16"]),
    ("is_uuid", &["uuid", "text"]),
    ("uuid_to_bin", &["uuid", "uuid =n0|1"]),
    ("bin_to_uuid", &["bytes16", "bytes16 =n0|1"]),
    ("inet_aton", &["address"]),
    ("inet_ntoa", &["int", "ipnumber"]),
    // numbers
    ("abs", &["num", "int"]),
    ("sign", &["num"]),
    ("floor", &["num"]),
    ("ceiling", &["num"]),
    ("round", &["num", "num small", "num =n0|1|2|-1|-2|5|30"]),
    ("truncate", &["num small", "num =n0|1|2|-1|-2|5|30"]),
    ("mod", &["num num", "int int"]),
    ("format", &["num =n0|1|2|3|10|30|31|-1", "num small"]),
    ("sqrt", &["num"]),
    ("exp", &["small", "num"]),
    ("ln", &["num"]),
    ("log", &["num", "small num"]),
    ("log2", &["num"]),
    ("log10", &["num"]),
    ("power", &["small small", "num small"]),
    ("radians", &["num"]),
    ("degrees", &["num"]),
    ("sin", &["num"]),
    ("cos", &["num"]),
    ("tan", &["num"]),
    ("asin", &["num", "=n0.5|1|-0.25"]),
    ("acos", &["num", "=n0.5|1|-0.25"]),
    ("atan", &["num", "num num"]),
    ("pi", &[""]),
    // conditional
    ("coalesce", &["num num", "text text", "day day", "int num"]),
    ("ifnull", &["num num", "text text", "int int"]),
    ("nullif", &["int int", "num num", "bin bin", "ci ci"]),
    ("if", &["cond text text", "cond int num"]),
    ("isnull", &["text", "num", "day"]),
    ("greatest", &["num num", "bin bin", "typed typed", "int int int", "ci ci", "ci ci =A|é "]),
    ("least", &["num num", "bin bin", "typed typed", "int int int", "ci ci", "ci ci =A|é "]),
    // dates and times
    ("date", &["day"]),
    ("year", &["day"]),
    ("quarter", &["day"]),
    ("month", &["day"]),
    ("day", &["day"]),
    ("hour", &["day", "time"]),
    ("minute", &["day", "time"]),
    ("second", &["day", "time"]),
    ("microsecond", &["day", "time"]),
    ("unix_timestamp", &["typed"]),
    ("date_add", &["typed small", "typed num", "time small", "time num"]),
    ("date_sub", &["typed small", "typed num", "time small"]),
    ("timestampadd", &["small typed", "int typed"]),
    ("timestampdiff", &["day day"]),
    ("datediff", &["day day"]),
    ("last_day", &["day"]),
    ("dayofweek", &["day"]),
    ("weekday", &["day"]),
    ("dayofyear", &["day"]),
    ("week", &["day", "day small", "day =n0|1|2|3|4|5|6|7|8"]),
    ("weekofyear", &["day"]),
    ("yearweek", &["day", "day =n0|1|2|3|4|5|6|7|8"]),
    ("to_days", &["day"]),
    ("from_days", &["int", "daynumber"]),
    ("to_seconds", &["day"]),
    ("dayname", &["day"]),
    ("monthname", &["day"]),
    ("makedate", &["year small", "year daynumber", "small small"]),
    ("from_unixtime", &["num", "seconds"]),
    ("convert_tz", &["day =+00:00|+02:00|-13:59|+14:00 =+00:00|-05:30|+05:45"]),
    ("timestamp", &["day", "typed time"]),
    ("time", &["typed", "time"]),
    ("timediff", &["time time", "typed typed"]),
    ("addtime", &["moment time", "time time"]),
    ("subtime", &["moment time", "time time"]),
    ("time_to_sec", &["time", "typed"]),
    ("sec_to_time", &["small", "num", "seconds"]),
    ("maketime", &["small small small", "small =n0|59|60 num", "int =n1 =n2.5"]),
    ("extract", &["day", "time"]),
    ("period_add", &["period small"]),
    ("period_diff", &["period period"]),
    ("date_format", &["day format"]),
    ("time_format", &["time format", "typed format"]),
    (
        "str_to_date",
        &[
            "datetext =%Y-%m-%d|%Y-%m-%d %H:%i:%s|%d.%m.%Y|%d %b %Y|%M %D, %Y|%H:%i|%y%m%d|%Y-%m-%d %T.%f|%h:%i %p|%j %Y",
        ],
    ),
    // json
    ("json_extract", &["json path", "json path path"]),
    ("json_unquote", &["json", "text", "jsonstring"]),
    ("json_value", &["json onepath"]),
    ("json_length", &["json", "json onepath"]),
    ("json_keys", &["json", "json onepath"]),
    ("json_depth", &["json"]),
    ("json_valid", &["json", "text"]),
    ("json_type", &["json"]),
    ("json_quote", &["text"]),
    ("json_contains", &["json candidate", "json candidate onepath"]),
    ("json_contains_path", &["json =one|all path", "json =one|all path path"]),
    // operators, which are no functions
    ("cast", &["text", "num", "day", "time"]),
    ("->", &["jsoncolumn path"]),
    ("->>", &["jsoncolumn path"]),
    ("+", &["num num"]),
    ("*", &["num num"]),
    ("/", &["num num"]),
    ("div", &["int int"]),
];

/// Functions of which MariaDB gives another value, type or error than MySQL, and we give MySQL's; or which it does
/// not have.
const MARIADB: &[(&str, &str)] = &[
    ("->", "as json_extract"),
    ("->>", "as json_extract"),
    ("addtime", "counts on from a date that no calendar has, and has times up to 838:59:59.999999"),
    ("bin", "a number beyond 64 bits has all bits set, without a warning"),
    ("bin_to_uuid", "is not there"),
    ("bit_count", "rounds half away from zero"),
    ("cast", "cuts fractions of seconds off instead of rounding them"),
    ("conv", "11.8 has bases up to 62"),
    ("convert_tz", "10.11 leaves everything behind 2038-01-19 as it is"),
    ("date_add", "has nothing before year 1 and times up to 838:59:59.999999, whatever the interval"),
    ("date_format", "of dates that no calendar has, weeks and days of the year are NULL"),
    ("date_sub", "as date_add"),
    ("extract", "the hours of a TIME are those of its last day"),
    ("format", "up to 38 digits"),
    ("from_days", "0000-00-00 where there is no day"),
    ("from_unixtime", "cuts fractions of seconds off"),
    ("greatest", "of equal texts the first; a FLOAT beside whole numbers is a DOUBLE"),
    ("hex", "a DECIMAL goes over a DOUBLE"),
    ("inet_aton", "takes more than four parts"),
    ("is_uuid", "is not there"),
    ("insert", "a text put into what was no text is not converted"),
    ("json_contains", "0 where nothing stands at the path"),
    ("json_contains_path", "a value is no array of one at [last]"),
    ("json_extract", "leaves the text as it was written, and a value is no array of one at [last]"),
    ("json_keys", "leaves the keys in their order"),
    ("json_length", "a value is no array of one at [last]"),
    ("json_quote", "quotes what is no text, too"),
    ("json_type", "has no UNSIGNED INTEGER"),
    ("json_unquote", "as json_extract"),
    ("json_valid", "takes numbers that begin with a dot"),
    ("json_value", "NULL for arrays and objects"),
    ("least", "a FLOAT beside whole numbers is a DOUBLE"),
    ("locate", "an empty part is found at bytes"),
    ("log2", "divides logarithms"),
    ("lpad", "an empty filling gives NULL"),
    ("maketime", "as sec_to_time, and a second below zero however small is none"),
    ("nullif", "of a BIT the digits are given out as bytes"),
    ("oct", "as bin"),
    ("ord", "four bytes wrap around to a negative number"),
    ("period_add", "32 bits"),
    ("regexp_instr", "PCRE's patterns, and no position"),
    ("regexp_like", "is not there"),
    ("regexp_replace", "PCRE's patterns, and no position"),
    ("regexp_substr", "PCRE's patterns, and no position"),
    ("replace", "an empty part is not looked for, even if another argument is NULL"),
    ("round", "digits that are not there are added"),
    ("rpad", "an empty filling gives NULL"),
    ("sec_to_time", "cuts fractions of seconds off"),
    ("sha2", "bits that are NULL are 0"),
    ("str_to_date", "gives dates that no calendar has, where the session allows them"),
    ("subtime", "as addtime"),
    ("time_to_sec", "keeps the fraction"),
    ("timediff", "NULL where it is out of range"),
    ("timestamp", "as addtime"),
    ("timestampadd", "as date_add"),
    ("truncate", "digits that are not there are added, where their number is no whole number"),
    ("unix_timestamp", "NULL for what is before 1970"),
    ("uuid_to_bin", "is not there"),
];

/// Errors of the servers where we have a value: function (or all), a part of the text, why.
const MORE_LENIENT: &[(&str, &str, &str)] = &[
    ("", "Illegal mix of collations", "joining texts needs no collation here"),
    (
        "md5",
        "Wrong argument type",
        "the component takes texts, as the function did before it moved there it takes numbers",
    ),
    ("sha1", "Wrong argument type", "as md5"),
    ("", "Timeout exceeded in regular expression match", "patterns take linear time here"),
    ("", "Overflow in the regular expression backtrack stack", "patterns take linear time here"),
    ("", "Cannot convert string", "a text put into one of another character set is Unicode here"),
    ("div", "out of range", "the server refuses -9223372036854775808 div 1, which is in range"),
];

/// Errors of ours where a server gives a value without a warning: function, why.
const STRICTER: &[(&str, &str)] = &[
    ("cast", "a negative TIME as UNSIGNED is out of range, as are other numbers with a sign"),
    ("*", "more than 65 digits are out of range"),
    ("+", "more than 65 digits are out of range"),
    ("/", "more than 65 digits are out of range"),
    ("bit_count", "a DOUBLE beyond BIGINT is out of range"),
    ("hex", "as bit_count"),
    ("regexp_instr", "a position beyond an empty text; texts on which the two programs could differ"),
    ("regexp_like", "texts on which the two programs could differ"),
    ("regexp_replace", "texts on which the two programs could differ"),
    ("regexp_substr", "texts on which the two programs could differ"),
    ("date_add", "an interval beyond BIGINT is out of range"),
    ("date_sub", "an interval beyond BIGINT is out of range"),
    ("last_day", "a date without a day has none: the server's answer depends on what is around the function"),
    ("timestampadd", "an interval beyond BIGINT is out of range"),
    ("lpad", "a length of more than 16 million characters, as if each took four bytes"),
    ("rpad", "as lpad"),
    ("period_add", "a month before year 0 is out of range, where the server's number wraps around"),
];

/// An expression as we have it and as it is written.
#[derive(Clone)]
struct Made {
    expr: Expr,
    sql: String,
}

impl Made {
    fn new(kind: ExprKind, sql: impl Into<String>) -> Made {
        Made { expr: Expr { kind, span: 0..0 }, sql: sql.into() }
    }

    fn constant(value: Value<'static>, sql: impl Into<String>) -> Made {
        Made::new(ExprKind::Literal(value), sql)
    }

    fn boxed(&self) -> Box<Expr> {
        Box::new(self.expr.clone())
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

struct Generator {
    random: StdRng,
    mariadb: bool,
}

const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "aa",
    "aaa",
    "abcabc",
    "B ",
    " x ",
    "é",
    "ß",
    "🙂",
    "日本",
    "12",
    "-7",
    "1.5",
    ".",
    ",",
    "a,b,c",
    "b,",
    "www.mysql.com",
    "%",
    "_",
    "\\",
    "'",
    "\"",
    "\t",
    "\n",
    "Straße",
    "ABC",
    "0",
    "  ",
];

const JSONS: &[&str] = &[
    "{\"a\": 1, \"b\": [1, 2, {\"c\": null}]}",
    "[1, 2, 3]",
    "[]",
    "{}",
    "null",
    "true",
    "5",
    "-1.5",
    "\"text\"",
    "\"a\\\"b\\n\"",
    "{\"a\": {\"b\": {\"c\": [true, false]}}}",
    "[[1], [2, [3]]]",
    "{\"key with space\": 1, \"é\": \"🙂\"}",
    "18446744073709551615",
    "[1.0, 100.0, 1e100]",
    "{\"a\": \"x\", \"bb\": \"y\", \"c\": 3}",
    "[{\"a\": 1}, {\"a\": 2}, \"a\"]",
    "\"\"",
];

const PATHS: &[&str] = &[
    "$",
    "$.a",
    "$.b",
    "$.a.b",
    "$.b[0]",
    "$.b[2].c",
    "$[0]",
    "$[1]",
    "$[last]",
    "$[last-1]",
    "$.\"key with space\"",
    "$[5]",
    "$.a.b.c[1]",
    "$.bb",
];

impl Generator {
    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items.choose(&mut self.random).expect("items").clone()
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.random_ratio(1, n)
    }

    fn text(&mut self) -> String {
        let n = self.random.random_range(0..4);
        let text: String = (0..n).map(|_| self.pick(TEXTS)).collect();
        text.chars().take(20).collect()
    }

    fn date(&mut self) -> Date {
        let date = |year, month, day| Date { year, month, day };
        match self.random.random_range(0..12) {
            0 => Date::default(),
            1 => date(2026, 0, 0),
            2 => date(2026, self.random.random_range(0..13), 0),
            3 => self.pick(&[
                date(1, 1, 1),
                date(9999, 12, 31),
                date(2024, 2, 29),
                date(1970, 1, 1),
                date(2000, 12, 31),
                date(1000, 1, 1),
            ]),
            4 => date(
                self.random.random_range(1..10_000),
                self.random.random_range(1..13),
                self.random.random_range(1..29),
            ),
            5 => date(
                self.random.random_range(1999..2030),
                self.pick(&[1, 12]),
                self.pick(&[1, 2, 3, 4, 5, 6, 7, 28, 29, 30, 31]),
            ),
            _ => date(
                self.random.random_range(1969..2040),
                self.random.random_range(1..13),
                self.random.random_range(1..29),
            ),
        }
    }

    fn datetime(&mut self, fsp: u8) -> DateTime {
        let date = self.date();
        let (hour, minute, second) = match self.random.random_range(0..4) {
            0 => (0, 0, 0),
            1 => (23, 59, 59),
            _ => (
                self.random.random_range(0..24),
                self.random.random_range(0..60),
                self.random.random_range(0..60),
            ),
        };
        let unit = 10u32.pow(6 - u32::from(fsp));
        let micro = if fsp == 0 { 0 } else { self.random.random_range(0..1_000_000) / unit * unit };
        DateTime { date, hour, minute, second, micro }
    }

    fn time(&mut self, fsp: u8) -> Time {
        let unit = 10i64.pow(6 - u32::from(fsp));
        let most = (838 * 3600 + 59 * 60 + 59) * 1_000_000i64;
        let micros = match self.random.random_range(0..6) {
            0 => 0,
            1 => self.pick(&[most, -most, 1_000_000, -1_000_000]),
            2 => self.random.random_range(-most..most),
            _ => self.random.random_range(-90_000_000_000..90_000_000_000),
        };
        Time { micros: micros / unit * unit }
    }

    fn decimal(&mut self, whole: u32, scale: usize) -> String {
        let digits = self.random.random_range(0..=whole);
        let mut text = String::new();
        if self.one_in(2) {
            text.push('-');
        }
        if self.one_in(8) {
            text.push_str(&"9".repeat(whole as usize));
        } else if digits == 0 {
            text.push('0');
        } else {
            let _ = write!(text, "{}", self.random.random_range(1..10));
            (1..digits).for_each(|_| _ = write!(text, "{}", self.random.random_range(0..10)));
        }
        if scale > 0 {
            text.push('.');
            let half = self.one_in(4);
            (0..scale).for_each(|i| {
                let digit = if half { if i == 0 { 5 } else { 0 } } else { self.random.random_range(0..10) };
                _ = write!(text, "{digit}");
            });
        }
        text
    }

    fn double(&mut self) -> f64 {
        match self.random.random_range(0..8) {
            0 => self.pick(&[
                0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e15, 1e16, 1e-7, 1e300, -1e300, 1e22, 123456.789,
            ]),
            1 => self.random.random_range(-10.0..10.0),
            2 => self.random.random_range(-1000i32..1000) as f64 / 8.0,
            3 => f64::from_bits(self.random.random::<u64>()),
            _ => self.random.random_range(-1e6..1e6),
        }
    }

    fn integer(&mut self) -> i64 {
        match self.random.random_range(0..6) {
            0 => self.pick(&[0, 1, -1, i64::MAX, i64::MIN, 255, 256, -256, 1 << 53]),
            1 => self.random.random(),
            _ => self.random.random_range(-1000..1000),
        }
    }

    /// A regular expression of the parts that are built, and now and then of those that are not.
    fn pattern(&mut self, depth: usize) -> String {
        let atoms = [
            "a",
            "b",
            "c",
            "A",
            "B",
            "x",
            "é",
            "É",
            "1",
            ".",
            "\\.",
            "\\d",
            "\\w",
            "\\s",
            "\\W",
            "\\S",
            "\\D",
            "[a-c]",
            "[^a]",
            "[^a-c]",
            "[0-9]",
            "[[:alpha:]]",
            "[[:space:]]",
            "[[:digit:]]",
            "[a-z0-9_]",
            "[A-Z]",
            "[[:alnum:]]",
            "[[:upper:]]",
            " ",
            ",",
            "ab",
            "www",
            "ss",
            "st",
            "\\b",
            "\\B",
            "^",
            "日",
            "🙂",
            "\\t",
            "\\n",
            "-",
            "k",
            "[k-s]",
            "[é]",
            "[^é]",
            "[ -.]",
            "\\x41",
            "\\u0061",
        ];
        let n = self.random.random_range(1..4);
        let mut out = String::new();
        for _ in 0..n {
            match self.random.random_range(0..10) {
                0 if depth > 0 => {
                    let inner = self.pattern(depth - 1);
                    let open = self.pick(&["(", "(?:"]);
                    let _ = write!(out, "{open}{inner})");
                }
                1 if depth > 0 => {
                    let (a, b) = (self.pattern(depth - 1), self.pattern(depth - 1));
                    let _ = write!(out, "({a}|{b})");
                }
                _ => out.push_str(self.pick(&atoms)),
            }
            let quantifier = self.pick(&["", "", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "+?", "{2,}"]);
            out.push_str(quantifier);
        }
        if self.one_in(6) {
            out.push('$');
        }
        out
    }

    /// A text in which patterns find something.
    fn searchable(&mut self) -> String {
        let parts = [
            "a", "b", "c", "ab", "A", "AB", "aab", "é", "É", " ", "  ", "1", "12", ".", ",", "-", "_", "\n",
            "\t", "\r\n", "x", "www", "ss", "ß", "K", "\u{212a}", "ſ", "日", "🙂", "\u{2028}", "\u{85}",
            "st", "\u{301}", "\u{b}", "ﬁ", "\u{a0}", "٣",
        ];
        let n = self.random.random_range(0..8);
        (0..n).map(|_| self.pick(&parts)).collect()
    }

    fn json(&mut self) -> String {
        self.pick(JSONS).to_owned()
    }

    /// The SQL of a value for a column.
    fn value_for(&mut self, name: &str) -> String {
        if self.one_in(8) {
            return "NULL".to_owned();
        }
        match name {
            "i" => (self.integer() as i32).to_string(),
            "b" => self.integer().to_string(),
            "u" => (self.integer() as u64).to_string(),
            "p" => self.pick(&[-3i64, -2, -1, 0, 1, 2, 3, 4, 5, 7, 12]).to_string(),
            "d" => self.decimal(8, 2),
            "dw" => self.decimal(28, 10),
            "dz" => self.decimal(20, 0),
            "f" => {
                let v = self.random.random_range(-1e6f32..1e6);
                let v = self.pick(&[v, v / 1e6, v * 1e20, v / 1e30, 0.1, 16_777_216.0, 0.0]);
                format!("{v:e}")
            }
            "g" => loop {
                let v = self.double();
                if v.is_finite() && (v == 0.0 || v.is_normal()) {
                    break format!("{v:e}");
                }
            },
            "y" => self.pick(&[0u16, 1901, 1999, 2026, 2155]).to_string(),
            "bt" => self.random.random_range(0..1024).to_string(),
            "l1" => {
                let text: String = self.text().chars().filter(|c| u32::from(*c) < 0x100).collect();
                quoted(&text)
            }
            "rx" | "rc" => quoted(&self.searchable()),
            "v" | "w" | "ci" => quoted(&self.text()),
            "c" => quoted(self.text().trim_end_matches(' ')),
            "tx" => quoted(&self.text().repeat(3)),
            "e" => self.pick(&["'new'", "'paid'", "'a,b'"]).to_owned(),
            "s" => self.pick(&["''", "'x'", "'x,z'", "'yy'"]).to_owned(),
            "da" => quoted(&self.date().to_string()),
            "dt" => quoted(&self.datetime(0).to_text(0)),
            "d3" => quoted(&self.datetime(3).to_text(3)),
            "d6" => quoted(&self.datetime(6).to_text(6)),
            "ts" => {
                let second: i64 = self.pick(&[1, 86_399, 1_700_000_000, 2_147_483_647]);
                quoted(&DateTime::from_micros_since_epoch(second * 1_000_000).expect("a date").to_text(0))
            }
            "tm" => quoted(&self.time(0).to_text(0)),
            "t6" => quoted(&self.time(6).to_text(6)),
            "vb" => self.bytes(self.random.clone().random_range(0..12)),
            "b16" => self.bytes(16),
            "j" => format!("CAST({} AS JSON)", quoted(&self.json())),
            "jt" => quoted(&self.json()),
            other => panic!("no column {other}"),
        }
    }

    fn bytes(&mut self, n: usize) -> String {
        let mut text = String::from("x'");
        (0..n).for_each(|_| _ = write!(text, "{:02x}", self.random.random::<u8>()));
        text.push('\'');
        text
    }

    fn column(&mut self, names: &[&str]) -> Made {
        let name = self.pick(names);
        Made::new(ExprKind::Column(name.to_owned()), format!("`{name}`"))
    }

    fn literal_text(&mut self, text: &str) -> Made {
        Made::constant(Value::Text(text.to_owned().into()), quoted(text))
    }

    fn literal_number(&mut self, text: &str) -> Made {
        let value = match (text.parse::<i64>(), text.contains('e')) {
            (Ok(v), _) => Value::Int(v),
            (_, true) => Value::Double(text.parse().expect("a double")),
            _ => Value::Decimal(text.to_owned().into()),
        };
        Made::constant(value, if text.starts_with('-') { format!("({text})") } else { text.to_owned() })
    }

    fn literal_day(&mut self) -> Made {
        loop {
            let v = self.datetime(0);
            if !v.date.is_real() {
                continue;
            }
            return match self.random.random_range(0..2) {
                0 => Made::constant(Value::Date(v.date), format!("DATE'{}'", v.date)),
                _ => Made::constant(Value::DateTime(v), format!("TIMESTAMP'{}'", v.to_text(0))),
            };
        }
    }

    /// An argument of a kind; `=a|b` is one of these texts, `=n1|2` one of these numbers.
    fn argument(&mut self, kind: &str) -> Made {
        if let Some(list) = kind.strip_prefix("=n") {
            let choice = self.pick(&list.split('|').collect::<Vec<_>>());
            return self.literal_number(choice);
        }
        if let Some(list) = kind.strip_prefix('=') {
            let list = list.trim_matches('\'');
            let choice = self.pick(&list.split('|').collect::<Vec<_>>());
            return self.literal_text(choice);
        }
        if self.one_in(25) && !matches!(kind, "path" | "onepath" | "format" | "cond" | "pattern" | "ci") {
            return Made::constant(Value::Null, "NULL");
        }
        if self.one_in(10)
            && let Some(made) = self.computed(kind)
        {
            return made;
        }
        match kind {
            "text" => match self.random.random_range(0..10) {
                0..6 => self.column(&["v", "w", "ci", "c", "tx", "e", "s", "l1"]),
                6 => self.column(&["i", "d", "g", "f", "da", "d3", "t6", "y"]),
                _ => {
                    let text = self.text();
                    self.literal_text(&text)
                }
            },
            "bin" => match self.random.random_range(0..3) {
                0 => {
                    let text = self.text();
                    self.literal_text(&text)
                }
                _ => self.column(&["v", "c", "v", "e", "tx"]),
            },
            "plain" => match self.random.random_range(0..4) {
                0 => {
                    let text = self.text();
                    self.literal_text(&text)
                }
                _ => self.column(&["v", "w", "c", "tx", "rx", "rx", "rx"]),
            },
            "ci" => self.column(&["ci", "rc", "rc"]),
            "replacement" => {
                let text = self.pick(&["", "X", "<$0>", "\\$", "é", "$0$0", "a\\b"]).to_owned();
                self.literal_text(&text)
            }
            "pattern" => {
                let text = self.pattern(2);
                self.literal_text(&text)
            }
            "num" => match self.random.random_range(0..3) {
                0 => {
                    let text = match self.random.random_range(0..3) {
                        0 => self.integer().to_string(),
                        1 => self.decimal(12, 4),
                        _ => loop {
                            let v = self.double();
                            if v.is_finite() && (v == 0.0 || v.is_normal()) {
                                break format!("{v:e}");
                            }
                        },
                    };
                    self.literal_number(&text)
                }
                _ => self.column(&["i", "b", "u", "d", "dw", "dz", "g", "f", "y", "bt", "p"]),
            },
            "int" => match self.random.random_range(0..3) {
                0 => {
                    let text = self.integer().to_string();
                    self.literal_number(&text)
                }
                _ => self.column(&["i", "b", "u", "p"]),
            },
            "small" => match self.random.random_range(0..5) {
                0..3 => self.column(&["p"]),
                3 => {
                    let text =
                        self.pick(&["-5", "-1", "0", "1", "2", "3", "10", "1.5", "2.4", "2.5e0"]).to_owned();
                    self.literal_number(&text)
                }
                _ => self.column(&["p", "i", "d"]),
            },
            "cond" => {
                // of a constant condition the server leaves the other branch out, and with it its part of the type
                let (a, b) = (self.column(&["i", "b", "p"]), self.argument("int"));
                let kind = ExprKind::Binary(BinaryOp::Greater, a.boxed(), b.boxed());
                Made::new(kind, format!("({} > {})", a.sql, b.sql))
            }
            "day" => match self.random.random_range(0..6) {
                0 => self.literal_day(),
                1 => {
                    let v = self.datetime(0);
                    let text = if v.date.is_real() { v.to_text(0) } else { "2026-01-31".to_owned() };
                    self.literal_text(&text)
                }
                _ => self.column(&["da", "dt", "d3", "d6", "ts"]),
            },
            "typed" => match self.random.random_range(0..6) {
                0 => self.literal_day(),
                _ => self.column(&["da", "dt", "d3", "d6", "ts"]),
            },
            "moment" => self.column(&["dt", "d3", "d6", "ts"]),
            "time" => match self.random.random_range(0..5) {
                0 => {
                    let v = self.time(0);
                    Made::constant(Value::Time(v), format!("TIME'{}'", v.to_text(0)))
                }
                _ => self.column(&["tm", "t6"]),
            },
            "bytes" => self.column(&["vb", "b16"]),
            "bytes16" => {
                if self.one_in(20) {
                    self.column(&["vb"])
                } else {
                    self.column(&["b16"])
                }
            }
            "json" => match self.random.random_range(0..4) {
                0 => {
                    let text = self.json();
                    self.literal_text(&text)
                }
                1 => self.column(&["jt"]),
                _ => self.column(&["j"]),
            },
            "jsoncolumn" => self.column(&["j"]),
            "jsonstring" => {
                let text = self
                    .pick(&[
                        "\"a\"",
                        "\"a\\u00e9\\n\"",
                        "\"\"",
                        "\"a",
                        "a\"",
                        "\"a\"b\"",
                        "[1]",
                        "\"\\ud83d\\ude42\"",
                    ])
                    .to_owned();
                self.literal_text(&text)
            }
            "path" => {
                let path = if self.one_in(4) {
                    self.pick(&["$.*", "$[*]", "$.b[*]", "$[*].a", "$.a.*"])
                } else {
                    self.pick(PATHS)
                };
                self.literal_text(path)
            }
            "onepath" => {
                let path = self.pick(PATHS);
                self.literal_text(path)
            }
            "candidate" => {
                let text = self
                    .pick(&[
                        "1",
                        "\"a\"",
                        "[1]",
                        "{\"a\": 1}",
                        "null",
                        "true",
                        "{}",
                        "[]",
                        "1.0",
                        "[2, 1]",
                        "{\"c\": null}",
                        "100",
                        "{\"b\": [1]}",
                        "3",
                    ])
                    .to_owned();
                self.literal_text(&text)
            }
            "format" => {
                let parts = [
                    "%Y", "%m", "%d", "%H", "%i", "%s", "%f", "%a", "%b", "%c", "%D", "%e", "%h", "%I", "%j",
                    "%k", "%l", "%M", "%p", "%r", "%T", "%U", "%u", "%V", "%v", "%W", "%w", "%X", "%x", "%y",
                    "%%", "%q", "-", " ", "é", "%",
                ];
                let n = self.random.random_range(0..5);
                let text: String = (0..n).map(|_| self.pick(&parts)).collect();
                self.literal_text(&text)
            }
            "datetext" => {
                let v = self.datetime(6);
                let t = v.date;
                let text = match self.random.random_range(0..12) {
                    0 => v.to_text(0),
                    1 => format!("{:02}.{:02}.{:04}", t.day, t.month, t.year),
                    2 => format!("{} Jan {}", t.day, t.year),
                    3 => format!("february {}th, {}", t.day, t.year),
                    4 => format!("{}:{}", v.hour, v.minute),
                    5 => format!("{:02}{:02}{:02}", t.year % 100, t.month, t.day),
                    6 => v.to_text(6),
                    7 => format!("{}:{:02} {}", v.hour % 13, v.minute, self.pick(&["am", "PM", "xx"])),
                    8 => format!("{} {}", self.random.random_range(0..400), t.year),
                    9 => format!(" {}-{}-{} ", t.year % 100, t.month, t.day),
                    10 => self.text(),
                    _ => t.to_string(),
                };
                self.literal_text(&text)
            }
            "digits" => {
                let text = self
                    .pick(&[
                        "0",
                        "7",
                        "-7",
                        "ff",
                        "FF",
                        "10",
                        "1f",
                        "zz",
                        "12.5",
                        " 12",
                        "18446744073709551615",
                        "99999999999999999999",
                        "",
                        "+5",
                        "-9223372036854775808",
                        "x",
                    ])
                    .to_owned();
                self.literal_text(&text)
            }
            "hexdigits" => {
                let n = self.random.random_range(0..9);
                let text: String = (0..n).map(|_| self.pick(&["0", "9", "a", "F", "c"])).collect();
                self.literal_text(&text)
            }
            "base64" => {
                let text = self
                    .pick(&[
                        "YWJj", "YWI=", "YQ==", "YR==", "YQ", "YW Jj\n", "", "Y", "====", "YWJj=", "+/+/",
                        "YWJjZGVm", "-_",
                    ])
                    .to_owned();
                self.literal_text(&text)
            }
            "uuid" => {
                let id = format!("{:032x}", self.random.random::<u128>());
                let hyphens =
                    format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
                let text = match self.random.random_range(0..6) {
                    0 => id,
                    1 => format!("{{{hyphens}}}"),
                    2 => hyphens.to_uppercase(),
                    3 => hyphens.replace('-', "+"),
                    _ => hyphens,
                };
                self.literal_text(&text)
            }
            "address" => {
                let text = self
                    .pick(&[
                        "10.0.5.9",
                        "127.0.0.1",
                        "255.255.255.255",
                        "127.1",
                        "1.2.3",
                        "256.1.1.1",
                        "",
                        "1.",
                        "a.b.c.d",
                        "0.0.0.0",
                        "5",
                        "01.02.03.04",
                        "1..2",
                        "1.2.3.4.5",
                        "-1.2.3.4",
                        "0001.2.3.4",
                    ])
                    .to_owned();
                self.literal_text(&text)
            }
            "ipnumber" => {
                let text =
                    self.pick(&["0", "1", "4294967295", "4294967296", "167773449", "-1", "1.5"]).to_owned();
                self.literal_number(&text)
            }
            "daynumber" => {
                let n = self.pick(&[0i64, 1, 59, 60, 365, 366, 400, 739_982, 3_652_424, 3_652_425, -1]);
                let n = if self.one_in(2) { self.random.random_range(1..3_652_425) } else { n };
                self.literal_number(&n.to_string())
            }
            "year" => {
                let text =
                    self.pick(&["0", "1", "69", "70", "99", "100", "2026", "9999", "10000", "-1"]).to_owned();
                self.literal_number(&text)
            }
            "seconds" => {
                let text = self
                    .pick(&[
                        "0",
                        "1.5",
                        "-1",
                        "1769854272",
                        "1769854272.123456",
                        "32536771199",
                        "32536771199.999999",
                        "32536771200",
                        "1.1234567",
                        "1769854272.5e0",
                        "3020399",
                        "3020400",
                        "-3020399",
                        "0.9999999",
                        "59.9999996",
                    ])
                    .to_owned();
                self.literal_number(&text)
            }
            "period" => {
                let text = self
                    .pick(&[
                        "202601", "202612", "2601", "9912", "0", "202613", "202600", "1", "-1", "199912",
                        "7001",
                    ])
                    .to_owned();
                self.literal_number(&text)
            }
            other => panic!("no kind of argument {other}"),
        }
    }

    /// What is computed from a column instead of being one: the server treats it differently here and there.
    fn computed(&mut self, kind: &str) -> Option<Made> {
        let call = |name: &str, arg: Made| {
            let sql = format!("{name}({})", arg.sql);
            Made::new(ExprKind::Call(name.to_owned(), vec![arg.expr]), sql)
        };
        Some(match kind {
            "text" => match self.random.random_range(0..3) {
                0 => call("reverse", self.column(&["v", "w", "ci"])),
                1 => {
                    let arg = self.column(&["g", "d", "i", "da"]);
                    Made::new(
                        ExprKind::Cast(arg.boxed(), CastType::Char { length: None }),
                        format!("CAST({} AS CHAR)", arg.sql),
                    )
                }
                _ => self.computed("num")?,
            },
            "bin" | "plain" => call("reverse", self.column(&["v", "c"])),
            "num" => {
                let (a, b) = (self.column(&["i", "d", "g", "p"]), self.argument("=n1|0.5|2e0"));
                let (op, word) =
                    self.pick(&[(BinaryOp::Add, "+"), (BinaryOp::Multiply, "*"), (BinaryOp::Divide, "/")]);
                Made::new(ExprKind::Binary(op, a.boxed(), b.boxed()), format!("({} {word} {})", a.sql, b.sql))
            }
            "int" => call("char_length", self.column(&["v", "tx"])),
            "day" | "typed" => call("date", self.column(&["dt", "d3"])),
            "json" => call("json_unquote", self.column(&["j"])),
            _ => return None,
        })
    }

    /// A call, or an operator, with these kinds of arguments.
    fn call(&mut self, name: &str, kinds: &str) -> Made {
        let kinds: Vec<&str> = kinds.split(' ').filter(|k| !k.is_empty()).collect();
        // a format may hold spaces
        let joined = join_choices(&kinds);
        let args: Vec<Made> = joined.iter().map(|k| self.argument(k)).collect();
        let unit = |of: &[Unit], g: &mut Generator| g.pick(of);
        match name {
            "date_add" | "date_sub" => {
                let of = if joined[0] == "time" { &Unit::ALL[..4] } else { &Unit::ALL[..] };
                let unit = unit(of, self);
                let kind = ExprKind::Interval(args[1].boxed(), unit);
                let interval = Expr { kind, span: 0..0 };
                Made::new(
                    ExprKind::Call(name.to_owned(), vec![args[0].expr.clone(), interval]),
                    format!("{name}({}, INTERVAL {} {})", args[0].sql, args[1].sql, unit.name()),
                )
            }
            "timestampadd" | "timestampdiff" => {
                let unit = unit(&Unit::ALL, self);
                let first = Expr { kind: ExprKind::Unit(unit), span: 0..0 };
                let all = [first].into_iter().chain(args.iter().map(|a| a.expr.clone())).collect();
                Made::new(
                    ExprKind::Call(name.to_owned(), all),
                    format!("{name}({}, {}, {})", unit.name(), args[0].sql, args[1].sql),
                )
            }
            "extract" => {
                let of = if joined[0] == "time" { &Unit::ALL[..4] } else { &Unit::ALL[..] };
                let unit = unit(of, self);
                let first = Expr { kind: ExprKind::Unit(unit), span: 0..0 };
                Made::new(
                    ExprKind::Call(name.to_owned(), vec![first, args[0].expr.clone()]),
                    format!("extract({} from {})", unit.name(), args[0].sql),
                )
            }
            "->" | "->>" => {
                let op = if name == "->" { BinaryOp::JsonExtract } else { BinaryOp::JsonUnquote };
                let function = if name == "->" { "json_extract" } else { "json_unquote(json_extract" };
                let end = if name == "->" { "" } else { ")" };
                Made::new(
                    ExprKind::Binary(op, args[0].boxed(), args[1].boxed()),
                    format!("{function}({}, {}){end}", args[0].sql, args[1].sql),
                )
            }
            "+" | "*" | "/" | "div" => {
                let op = match name {
                    "+" => BinaryOp::Add,
                    "*" => BinaryOp::Multiply,
                    "/" => BinaryOp::Divide,
                    _ => BinaryOp::IntegerDivide,
                };
                Made::new(
                    ExprKind::Binary(op, args[0].boxed(), args[1].boxed()),
                    format!("({} {name} {})", args[0].sql, args[1].sql),
                )
            }
            "cast" => {
                let ty = self.pick(&[
                    (CastType::Signed, "SIGNED"),
                    (CastType::Unsigned, "UNSIGNED"),
                    (CastType::Decimal { precision: 20, scale: 3 }, "DECIMAL(20,3)"),
                    (CastType::Double, "DOUBLE"),
                    (CastType::Char { length: None }, "CHAR"),
                    (CastType::Char { length: Some(3) }, "CHAR(3)"),
                    (CastType::Date, "DATE"),
                    (CastType::DateTime { fsp: 0 }, "DATETIME"),
                    (CastType::DateTime { fsp: 6 }, "DATETIME(6)"),
                    (CastType::Time { fsp: 0 }, "TIME"),
                    (CastType::Time { fsp: 3 }, "TIME(3)"),
                ]);
                Made::new(ExprKind::Cast(args[0].boxed(), ty.0), format!("CAST({} AS {})", args[0].sql, ty.1))
            }
            _ => {
                let list: Vec<&str> = args.iter().map(|a| a.sql.as_str()).collect();
                let sql = format!("{name}({})", list.join(", "));
                Made::new(ExprKind::Call(name.to_owned(), args.iter().map(|a| a.expr.clone()).collect()), sql)
            }
        }
    }
}

/// `=a b|c` was cut at its space.
fn join_choices(kinds: &[&str]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for kind in kinds {
        let goes_on = out.last().is_some_and(|l| l.starts_with('='))
            && (kind.contains('%') || kind.contains('|'))
            && !kind.starts_with('=');
        match out.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(kind);
            }
            _ => out.push((*kind).to_owned()),
        }
    }
    out
}

/// The columns: name, type, and how the server writes it.
fn columns(mariadb: bool) -> Vec<(&'static str, ColumnType, String)> {
    let int = |width, unsigned| ColumnType::Int { width, unsigned };
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale, unsigned: false };
    let bin = || Charset::new("utf8mb4", "utf8mb4_bin");
    let labels = |l: &[&str]| l.iter().map(|s| (*s).into()).collect::<Vec<Arc<str>>>().into();
    let no_pad = if mariadb { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
    let json =
        if mariadb { ColumnType::Text { size: LobSize::Long, charset: bin() } } else { ColumnType::Json };
    let b = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    let text = |sql: &str| format!("{sql} {b}");
    vec![
        ("id", int(IntWidth::Int, false), "INT NOT NULL PRIMARY KEY".into()),
        ("i", int(IntWidth::Int, false), "INT".into()),
        ("b", int(IntWidth::Big, false), "BIGINT".into()),
        ("u", int(IntWidth::Big, true), "BIGINT UNSIGNED".into()),
        ("p", int(IntWidth::Small, false), "SMALLINT".into()),
        ("d", decimal(10, 2), "DECIMAL(10,2)".into()),
        ("dw", decimal(38, 10), "DECIMAL(38,10)".into()),
        ("dz", decimal(20, 0), "DECIMAL(20,0)".into()),
        ("g", ColumnType::Double { unsigned: false }, "DOUBLE".into()),
        ("f", ColumnType::Float { unsigned: false }, "FLOAT".into()),
        ("y", ColumnType::Year, "YEAR".into()),
        ("bt", ColumnType::Bit { width: 10 }, "BIT(10)".into()),
        ("v", ColumnType::VarChar { length: 30, charset: bin() }, text("VARCHAR(30)")),
        (
            "w",
            ColumnType::VarChar { length: 30, charset: Charset::new("utf8mb4", no_pad) },
            format!("VARCHAR(30) CHARACTER SET utf8mb4 COLLATE {no_pad}"),
        ),
        (
            "ci",
            ColumnType::VarChar { length: 30, charset: Charset::new("utf8mb4", "utf8mb4_general_ci") },
            "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci".into(),
        ),
        ("c", ColumnType::Char { length: 30, charset: bin() }, text("CHAR(30)")),
        ("tx", ColumnType::Text { size: LobSize::Normal, charset: bin() }, text("TEXT")),
        (
            "e",
            ColumnType::Enum { labels: labels(&["new", "paid", "a,b"]), charset: bin() },
            text("ENUM('new','paid','a,b')"),
        ),
        (
            "s",
            ColumnType::Set { labels: labels(&["x", "yy", "z"]), charset: bin() },
            text("SET('x','yy','z')"),
        ),
        ("da", ColumnType::Date, "DATE".into()),
        ("dt", ColumnType::DateTime { fsp: 0 }, "DATETIME".into()),
        ("d3", ColumnType::DateTime { fsp: 3 }, "DATETIME(3)".into()),
        ("d6", ColumnType::DateTime { fsp: 6 }, "DATETIME(6)".into()),
        ("ts", ColumnType::Timestamp { fsp: 0 }, "TIMESTAMP NULL".into()),
        ("tm", ColumnType::Time { fsp: 0 }, "TIME".into()),
        ("t6", ColumnType::Time { fsp: 6 }, "TIME(6)".into()),
        ("vb", ColumnType::VarBinary { length: 20 }, "VARBINARY(20)".into()),
        ("b16", ColumnType::Binary { length: 16 }, "BINARY(16)".into()),
        ("j", json, if mariadb { text("LONGTEXT") } else { "JSON".into() }),
        (
            "l1",
            ColumnType::VarChar { length: 30, charset: Charset::new("latin1", "latin1_bin") },
            "VARCHAR(30) CHARACTER SET latin1 COLLATE latin1_bin".into(),
        ),
        ("rx", ColumnType::VarChar { length: 60, charset: bin() }, text("VARCHAR(60)")),
        (
            "rc",
            ColumnType::VarChar { length: 60, charset: Charset::new("utf8mb4", "utf8mb4_general_ci") },
            "VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci".into(),
        ),
        ("jt", ColumnType::VarChar { length: 200, charset: bin() }, text("VARCHAR(200)")),
    ]
}

/// What is compared: the kind of the type, and the value as a text.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    kind: &'static str,
    text: String,
}

fn kind_of(ty: &ExprType) -> &'static str {
    match &ty.ty {
        None => "null",
        Some(ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit { .. }) => "integer",
        Some(ColumnType::Decimal { .. }) => "decimal",
        Some(ColumnType::Float { .. }) => "float",
        Some(ColumnType::Double { .. }) => "double",
        Some(ColumnType::Date) => "date",
        Some(ColumnType::DateTime { .. } | ColumnType::Timestamp { .. }) => "datetime",
        Some(ColumnType::Time { .. }) => "time",
        Some(ColumnType::Json) => "json",
        Some(ColumnType::Binary { .. } | ColumnType::VarBinary { .. } | ColumnType::Blob { .. }) => "bytes",
        Some(_) => "text",
    }
}

fn our_text(value: &Value<'_>) -> String {
    match value {
        Value::Text(v) | Value::Enum { label: v, .. } | Value::Set { labels: v, .. } => format!("{v:?}"),
        Value::Double(v) => format!("{v:e}"),
        Value::Float(v) => format!("{v:e}"),
        Value::Bit(v) => v.to_string(),
        Value::Year(v) => v.to_string(),
        Value::DateTime(v) => v.to_text(6),
        Value::Timestamp(v) => v.to_text(6),
        Value::Time(v) => v.to_text(6),
        other => other.to_string(),
    }
}

fn their_kind(column: &mysql_async::Column) -> &'static str {
    let binary = column.character_set() == 63;
    match column.column_type() {
        Wire::MYSQL_TYPE_TINY
        | Wire::MYSQL_TYPE_SHORT
        | Wire::MYSQL_TYPE_INT24
        | Wire::MYSQL_TYPE_LONG
        | Wire::MYSQL_TYPE_LONGLONG
        | Wire::MYSQL_TYPE_BIT
        | Wire::MYSQL_TYPE_YEAR => "integer",
        Wire::MYSQL_TYPE_NEWDECIMAL | Wire::MYSQL_TYPE_DECIMAL => "decimal",
        Wire::MYSQL_TYPE_FLOAT => "float",
        Wire::MYSQL_TYPE_DOUBLE => "double",
        Wire::MYSQL_TYPE_DATE | Wire::MYSQL_TYPE_NEWDATE => "date",
        Wire::MYSQL_TYPE_DATETIME | Wire::MYSQL_TYPE_TIMESTAMP => "datetime",
        Wire::MYSQL_TYPE_TIME => "time",
        Wire::MYSQL_TYPE_JSON => "json",
        Wire::MYSQL_TYPE_NULL => "null",
        _ if binary => "bytes",
        _ => "text",
    }
}

fn their_text(value: &mysql_async::Value, kind: &str) -> String {
    use mysql_async::Value as V;
    match value {
        V::NULL => "NULL".to_owned(),
        V::Int(v) => v.to_string(),
        V::UInt(v) => v.to_string(),
        V::Float(v) => format!("{v:e}"),
        V::Double(v) => format!("{v:e}"),
        V::Bytes(b) if kind == "integer" => b.iter().fold(0u64, |n, b| n << 8 | u64::from(*b)).to_string(),
        V::Bytes(b) if kind == "bytes" => {
            let mut out = String::from("0x");
            b.iter().for_each(|b| _ = write!(out, "{b:02X}"));
            out
        }
        V::Bytes(b) => match (std::str::from_utf8(b), kind) {
            (Ok(text), "text") => format!("{text:?}"),
            (Ok(text), _) => text.to_owned(),
            (Err(_), _) => format!("{b:?}"),
        },
        V::Date(y, m, d, ..) if kind == "date" => format!("{y:04}-{m:02}-{d:02}"),
        V::Date(y, m, d, h, mi, s, us) => format!("{y:04}-{m:02}-{d:02} {h:02}:{mi:02}:{s:02}.{us:06}"),
        V::Time(negative, d, h, m, s, us) => {
            let sign = if *negative { "-" } else { "" };
            format!("{sign}{:02}:{m:02}:{s:02}.{us:06}", d * 24 + u32::from(*h))
        }
    }
}

#[derive(Default, Debug)]
struct Count {
    expressions: usize,
    refused: usize,
    values: usize,
    nulls: usize,
    errors: usize,
    stricter: usize,
    lenient: usize,
    differences: Vec<String>,
}

struct Oracle {
    conn: Conn,
    kind: ServerKind,
    schema: Arc<TableSchema>,
    rows: Vec<Vec<Value<'static>>>,
    _server: Server,
}

impl Oracle {
    async fn start(kind: ServerKind, seed: u64) -> Result<Oracle> {
        let server = Server::start(ServerOptions::of(kind))?;
        let opts = OptsBuilder::from_opts(Opts::from_url(&server.url("root"))?).stmt_cache_size(0);
        let mut conn = Conn::new(opts).await?;
        let mariadb = kind.is_mariadb();
        let collation = if mariadb { "utf8mb4_nopad_bin" } else { "utf8mb4_0900_bin" };
        conn.query_drop(format!("SET NAMES utf8mb4 COLLATE {collation}")).await?;
        conn.query_drop("SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'").await?;
        if !mariadb {
            // MD5 and SHA1 left the server for a component
            conn.query_drop("INSTALL COMPONENT 'file://component_classic_hashing'").await?;
        }
        conn.query_drop("SET GLOBAL max_prepared_stmt_count = 1048576").await?;
        conn.query_drop("CREATE DATABASE o").await?;
        conn.query_drop("USE o").await?;
        let columns = columns(mariadb);
        let definitions: Vec<String> = columns.iter().map(|(n, _, sql)| format!("`{n}` {sql}")).collect();
        conn.query_drop(format!("CREATE TABLE o ({})", definitions.join(", "))).await?;
        let mut generator = Generator { random: StdRng::seed_from_u64(seed), mariadb };
        for id in 0..ROWS {
            let values: Vec<String> = columns[1..].iter().map(|(n, ..)| generator.row_value(n)).collect();
            let sql = format!("INSERT INTO o VALUES ({id}, {})", values.join(", "));
            conn.query_drop(&sql).await.with_context(|| sql.clone())?;
        }
        let schema = Arc::new(TableSchema {
            id: TableId::new("o", "o"),
            version: 1,
            columns: columns
                .into_iter()
                .map(|(n, ty, _)| if n == "id" { Column::new(n, ty).not_null() } else { Column::new(n, ty) })
                .collect(),
            primary_key: vec![0],
            unique_keys: vec![],
            charset: Charset::utf8mb4(),
            comment: String::new(),
        });
        let decoder = ResultDecoder::new(&schema)?;
        let select = format!("SELECT {} FROM o ORDER BY id", decoder.select_list());
        // as a snapshot reads: texts in the bytes of their columns
        conn.query_drop("SET character_set_results = NULL").await?;
        let result: Vec<Row> = conn.exec(select, ()).await?;
        conn.query_drop("SET character_set_results = utf8mb4").await?;
        let mut builder = RowBuilder::new();
        let mut rows = Vec::new();
        for row in result {
            let row = decoder.decode(&mut builder, &row.unwrap())?;
            rows.push((0..schema.columns.len()).map(|i| row.get(i).into_owned()).collect());
        }
        ensure!(rows.len() == ROWS, "{} rows", rows.len());
        conn.query_drop("SET sql_mode = ''").await?;
        Ok(Oracle { conn, kind, schema, rows, _server: server })
    }

    /// The server's values of all rows, or its error.
    async fn ask(&mut self, sql: &str, condition: &str) -> Result<Result<(Vec<Seen>, u8, bool), String>> {
        let select = format!("SELECT {sql} AS x FROM o {condition} ORDER BY id");
        let mut result = match self.conn.exec_iter(select, ()).await {
            Ok(result) => result,
            Err(mysql_async::Error::Server(error)) => return Ok(Err(error.to_string())),
            Err(other) => return Err(other.into()),
        };
        let columns = result.columns().context("columns")?;
        let column = columns.first().context("a column")?.clone();
        let rows: Vec<Row> = match result.collect().await {
            Ok(rows) => rows,
            Err(mysql_async::Error::Server(error)) => return Ok(Err(error.to_string())),
            Err(other) => return Err(other.into()),
        };
        drop(result);
        let kind = their_kind(&column);
        let seen = rows
            .iter()
            .map(|r| Seen { kind, text: their_text(r.as_ref(0).unwrap_or(&mysql_async::Value::NULL), kind) });
        let unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
        Ok(Ok((seen.collect(), column.decimals(), unsigned)))
    }

    async fn warnings(&mut self) -> Result<Vec<String>> {
        let rows: Vec<(String, u32, String)> = self.conn.query("SHOW WARNINGS").await?;
        Ok(rows.into_iter().map(|(_, code, text)| format!("{code} {text}")).collect())
    }

    fn ours(&self, bound: &BoundExpr, row: usize) -> Result<Seen, String> {
        let (table, origin) = (TableId::new("o", "o"), Origin::default());
        let meta = RowMeta { op: Op::Read, table: &table, origin: &origin };
        match bound.eval(&self.rows[row], &meta) {
            Ok(value) => Ok(Seen { kind: kind_of(bound.ty()), text: our_text(&value) }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Does the server say what the page of functions says?
    async fn examples(&mut self, examples: &[(&str, &str)], count: &mut Count) -> Result<()> {
        for (call, value) in examples {
            // MariaDB knows no type of this name
            let value = if self.kind.is_mariadb() {
                value.replace("cast(", "(").replace(" as json)", ")")
            } else {
                (*value).to_owned()
            };
            let extract = |text: &str| match text.split_once("->>") {
                Some((a, b)) => format!("json_unquote(json_extract({a}, {b}))"),
                None => text.to_owned(),
            };
            let is_text = value.starts_with('\'');
            let asked = |call: &str| {
                let call = extract(call);
                if is_text {
                    format!("CONVERT({call} USING utf8mb4) COLLATE utf8mb4_bin")
                } else {
                    format!("({call})")
                }
            };
            match self
                .conn
                .query_first::<Option<u8>, _>(format!("SELECT {} <=> ({value})", asked(call)))
                .await
            {
                Ok(Some(Some(1))) => count.values += 1,
                Ok(_) => {
                    count.differences.push(format!("{call}: different: the server does not say {value}"))
                }
                Err(mysql_async::Error::Server(error)) => {
                    count.differences.push(format!("{call}: different: {error}"))
                }
                Err(other) => return Err(other.into()),
            }
        }
        Ok(())
    }

    async fn compare(&mut self, name: &str, made: &Made, count: &mut Count) -> Result<()> {
        count.expressions += 1;
        let Ok(bound) = bind(&made.expr, &self.schema) else {
            // also what is constant and out of range: the server must not be content with it
            count.refused += 1;
            return Ok(());
        };
        let differ = |at: String, count: &mut Count| {
            count.differences.push(format!("{}: {at}", made.sql));
        };
        match self.ask(&made.sql, "").await? {
            Ok((theirs, decimals, _)) => {
                let is_time = matches!(kind_of(bound.ty()), "time" | "datetime");
                let fsp = match bound.ty().ty {
                    Some(
                        ColumnType::Time { fsp }
                        | ColumnType::DateTime { fsp }
                        | ColumnType::Timestamp { fsp },
                    ) => fsp,
                    _ => 0,
                };
                let all_null = theirs.iter().all(|t| t.text == "NULL");
                if is_time && fsp != decimals && !all_null {
                    differ(format!("a fraction of {fsp} digits, of {decimals} at the server"), count);
                }
                for (row, theirs) in theirs.into_iter().enumerate() {
                    self.row(name, made, &bound, row, Ok(theirs), count).await?;
                }
            }
            Err(_) => {
                for row in 0..ROWS {
                    let theirs = self.ask(&made.sql, &format!("WHERE id = {row}")).await?;
                    let theirs = theirs.map(|(mut seen, ..)| seen.remove(0));
                    self.row(name, made, &bound, row, theirs, count).await?;
                }
            }
        }
        Ok(())
    }

    async fn row(
        &mut self,
        name: &str,
        made: &Made,
        bound: &BoundExpr,
        row: usize,
        theirs: Result<Seen, String>,
        count: &mut Count,
    ) -> Result<()> {
        let ours = self.ours(bound, row);
        let shown = |seen: &Result<Seen, String>| match seen {
            Ok(seen) => format!("{} {}", seen.kind, seen.text),
            Err(error) => format!("error {error}"),
        };
        let mut problem = None;
        // MariaDB gives the text of every DOUBLE as much room as MySQL that of a column: its texts may differ, and what is asked of a
        // text, no other result
        let asks_a_text = [
            "ascii",
            "bit_length",
            "char_length",
            "crc32",
            "field",
            "find_in_set",
            "instr",
            "length",
            "locate",
            "octet_length",
            "ord",
            "position",
            "strcmp",
        ];
        let is_text = |seen: &Result<Seen, String>| {
            seen.as_ref()
                .is_ok_and(|seen| matches!(seen.kind, "text" | "bytes") || asks_a_text.contains(&name))
        };
        let of_double = made.sql.contains("(`g`")
            || made
                .sql
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
                .any(|w| w.contains('e') && w.starts_with(|c: char| c.is_ascii_digit()));
        let computed = self.kind.is_mariadb() && of_double && is_text(&ours) && is_text(&theirs);
        match (&ours, &theirs) {
            (Ok(a), Ok(b)) if computed && !self.equal(name, a, b) => count.lenient += 1,
            (Ok(a), Ok(b)) if a.text == "NULL" && b.text == "NULL" => count.nulls += 1,
            (Ok(a), Ok(b)) if self.equal(name, a, b) => count.values += 1,
            (Err(_), Err(_)) => count.errors += 1,
            (Ok(_), Err(error))
                if MORE_LENIENT
                    .iter()
                    .any(|(f, part, _)| (f.is_empty() || *f == name) && error.contains(part)) =>
            {
                count.lenient += 1;
            }
            (Err(_), Ok(_)) if STRICTER.iter().any(|(f, _)| *f == name) => count.stricter += 1,
            (Err(_), Ok(_)) => {
                self.ask(&made.sql, &format!("WHERE id = {row}")).await?.ok();
                let warnings = self.warnings().await?;
                if warnings.is_empty() {
                    problem = Some("the server is content");
                } else {
                    count.stricter += 1;
                }
            }
            _ => problem = Some("different"),
        }
        if let Some(problem) = problem {
            let inputs: Vec<String> = self
                .schema
                .columns
                .iter()
                .enumerate()
                .filter(|(_, c)| made.sql.contains(&format!("`{}`", c.name)))
                .map(|(i, c)| format!("{} = {}", c.name, our_text(&self.rows[row][i])))
                .collect();
            count.differences.push(format!(
                "{}: {problem}: ours {}, {:?} {} (row {row}: {})",
                made.sql,
                shown(&ours),
                self.kind,
                shown(&theirs),
                inputs.join(", ")
            ));
        }
        Ok(())
    }

    fn equal(&self, name: &str, ours: &Seen, theirs: &Seen) -> bool {
        // MariaDB's JSON is a text
        let json = self.kind.is_mariadb() && ours.kind == "json" && theirs.kind == "text";
        if json {
            return theirs.text == format!("{:?}", ours.text);
        }
        if self.kind.is_mariadb() {
            // it has other types of whole numbers, no zero with a sign, and says so of decimals' zeros
            let numbers = |k: &str| matches!(k, "integer" | "decimal" | "double");
            let plain = |t: &str| {
                t.trim_start_matches('-')
                    .bytes()
                    .all(|b| matches!(b, b'0' | b'.' | b'e'))
                    .then(String::new)
                    .unwrap_or_else(|| t.to_owned())
            };
            if numbers(ours.kind) && numbers(theirs.kind) && plain(&ours.text) == plain(&theirs.text) {
                return true;
            }
        }
        // of IF the server sends a DECIMAL with the digits of its branch, and stores it with those of the type
        if ours.kind == "decimal" && theirs.kind == "decimal" && name == "if" {
            let value = |text: &str| text.parse::<bigdecimal::BigDecimal>().map(|v| v.normalized()).ok();
            return value(&ours.text) == value(&theirs.text);
        }
        ours.kind == theirs.kind && ours.text == theirs.text
    }
}

impl Generator {
    fn row_value(&mut self, name: &str) -> String {
        let value = self.value_for(name);
        if self.mariadb && name == "j" {
            value.replace("CAST(", "(").replace(" AS JSON)", ")")
        } else {
            value
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn ask_all(kind: ServerKind) -> Result<()> {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok()).unwrap_or(default)
    };
    let seed = number("CDC_SEED", SEED);
    let expressions = number("CDC_EXPRESSIONS", EXPRESSIONS as u64) as usize;
    let only = std::env::var("CDC_FUNCTION").ok();
    println!("{kind:?}: seed {seed}, {expressions} expressions of each function, {ROWS} rows");
    let listed: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    let without: Vec<&str> = function::all()
        .filter(|f| f.refused.is_none() && !listed.contains(&f.name))
        .map(|f| f.name)
        .collect();
    ensure!(without.is_empty(), "no oracle for {without:?}");
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    runtime()?.block_on(async {
        let mut oracle = Oracle::start(kind, seed).await?;
        for (index, (name, shapes)) in FUNCTIONS.iter().enumerate() {
            if only.as_deref().is_some_and(|only| only != *name) {
                continue;
            }
            // a seed of its own, so that each can be run alone
            let mut generator = Generator {
                random: StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(index as u64)),
                mariadb: kind.is_mariadb(),
            };
            let count = counts.entry(name).or_default();
            let examples = function::find(name).map_or(&[][..], |f| f.examples);
            oracle.examples(examples, count).await?;
            for n in 0..expressions {
                let made = generator.call(name, shapes[n % shapes.len()]);
                oracle.compare(name, &made, count).await.with_context(|| made.sql.clone())?;
                if shapes == &[""] {
                    break;
                }
            }
        }
        anyhow::Ok(())
    })?;
    let mut report = String::new();
    let mut failed = false;
    let mut total = Count::default();
    for (name, count) in &counts {
        let documented = kind.is_mariadb() && MARIADB.iter().any(|(n, _)| n == name);
        // where they are known to differ, values that do were seen too
        let seen = count.values + if documented { count.differences.len() } else { 0 };
        let few = seen < LEAST_VALUES.min(count.expressions * ROWS / 4);
        println!(
            "{name}: {} expressions ({} refused), {} values, {} NULL, {} errors on both sides, {} only ours, {} differences",
            count.expressions,
            count.refused,
            count.values,
            count.nulls,
            count.errors,
            count.stricter,
            count.differences.len()
        );
        total.values += count.values;
        total.nulls += count.nulls;
        total.errors += count.errors;
        total.stricter += count.stricter;
        total.expressions += count.expressions;
        total.refused += count.refused;
        if few {
            let _ = writeln!(report, "{name}: only {seen} values were compared");
        }
        if !documented {
            for difference in count.differences.iter().take(4) {
                let _ = writeln!(report, "{difference}");
            }
        }
        failed |= few || !documented && !count.differences.is_empty();
    }
    println!(
        "{kind:?}, seed {seed}: {} expressions ({} refused), {} equal values, {} NULL on both sides, {} errors on both sides, {} only ours",
        total.expressions, total.refused, total.values, total.nulls, total.errors, total.stricter
    );
    ensure!(!failed, "seed {seed}\n{report}");
    Ok(())
}

#[test]
fn functions_give_what_mysql_gives() -> Result<()> {
    ask_all(ServerKind::default())
}

#[test]
fn functions_give_what_mariadb_10_11_gives() -> Result<()> {
    ask_all(ServerKind::MariaDb1011)
}

#[test]
fn functions_give_what_mariadb_11_8_gives() -> Result<()> {
    ask_all(ServerKind::MariaDb118)
}
