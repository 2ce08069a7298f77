//! JSON texts of the source as MySQL's JSON type holds them.
//!
//! The type reads a number with a dot or an exponent as a DOUBLE. The source may hold a DECIMAL inside a JSON
//! value, of up to 65 digits, and prints it like any number: read back as a DOUBLE it would lose digits, or
//! zeros at its end, without a word. So such numbers are found, and put in by their path as the DECIMAL they
//! are: `JSON_SET('{"price": 1.10}', '$."price"', CAST(1.10 AS DECIMAL(3,2)))` prints what the source printed.

use super::sql;
use crate::text::push_double;

/// Appends the literal of a JSON text, as the server prints one.
pub(crate) fn push_literal(out: &mut Vec<u8>, json: &str) {
    let found = decimals(json);
    if found.is_empty() {
        return sql::push_text(out, json.as_bytes());
    }
    // a function takes so many arguments; two for each number
    const AT_ONCE: usize = 1000;
    let calls = found.chunks(AT_ONCE);
    for _ in calls.clone() {
        out.extend_from_slice(b"JSON_SET(");
    }
    sql::push_text(out, json.as_bytes());
    for call in calls {
        for (path, digits) in call {
            out.extend_from_slice(b", ");
            sql::push_text(out, path.as_bytes());
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let whole = whole.trim_start_matches('-').trim_start_matches('0').len();
            let precision = (whole + fraction.len()).max(1);
            out.extend_from_slice(
                format!(", CAST({digits} AS DECIMAL({precision},{}))", fraction.len()).as_bytes(),
            );
        }
        out.push(b')');
    }
}

/// The numbers of a text that a DOUBLE would print in another way, each with its path.
fn decimals(json: &str) -> Vec<(String, &str)> {
    enum Place {
        Array(usize),
        Object(String),
    }
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let mut places: Vec<Place> = Vec::new();
    // the last text that ended: the key where a colon follows
    let mut last = "";
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                let start = i;
                i += 1;
                while i < bytes.len() && bytes[i] != b'"' {
                    i += if bytes[i] == b'\\' { 2 } else { 1 };
                }
                i = (i + 1).min(bytes.len());
                last = json.get(start..i).unwrap_or("\"\"");
            }
            b'{' => {
                places.push(Place::Object(String::new()));
                i += 1;
            }
            b'[' => {
                places.push(Place::Array(0));
                i += 1;
            }
            b'}' | b']' => {
                places.pop();
                i += 1;
            }
            b':' => {
                if let Some(Place::Object(key)) = places.last_mut() {
                    last.clone_into(key);
                }
                i += 1;
            }
            b',' => {
                if let Some(Place::Array(n)) = places.last_mut() {
                    *n += 1;
                }
                i += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = i;
                while i < bytes.len() && matches!(bytes[i], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
                    i += 1;
                }
                let token = &json[start..i];
                if is_decimal(token) {
                    let mut path = "$".to_owned();
                    for place in &places {
                        match place {
                            Place::Array(n) => path.push_str(&format!("[{n}]")),
                            Place::Object(key) => path.push_str(&format!(".{key}")),
                        }
                    }
                    found.push((path, token));
                }
            }
            _ => i += 1,
        }
    }
    found
}

/// Is this number one that only a DECIMAL prints so?
fn is_decimal(token: &str) -> bool {
    if token.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        // an integer: exact up to 64 bits, beyond that the server printed a DECIMAL
        return token.parse::<i64>().is_err() && token.parse::<u64>().is_err();
    }
    if token.contains(['e', 'E']) {
        return false;
    }
    let Ok(value) = token.parse::<f64>() else { return false };
    let mut printed = Vec::new();
    push_double(&mut printed, value);
    printed != token.as_bytes() && token.strip_suffix(".0").is_none_or(|t| t.as_bytes() != printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_found_by_their_path() {
        let of = |json| decimals(json).into_iter().map(|(p, d)| format!("{p} {d}")).collect::<Vec<_>>();
        assert_eq!(of(r#"{"a": 1.5, "b": [1, 2.0, 1e22, "1.10", -0.1], "c": null}"#), [""; 0]);
        assert_eq!(
            of(r#"{"a, \"b": [0, {"c:": 1.10}], "d": 12345678901234567890.123, "e": 18446744073709551615}"#),
            [r#"$."a, \"b"[1]."c:" 1.10"#, r#"$."d" 12345678901234567890.123"#]
        );
        assert_eq!(of("1.50"), ["$ 1.50"]);
        assert_eq!(of("[18446744073709551616]"), ["$[0] 18446744073709551616"]);
        let mut out = Vec::new();
        push_literal(&mut out, r#"{"p": -1.10}"#);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"JSON_SET('{"p": -1.10}', '$."p"', CAST(-1.10 AS DECIMAL(3,2)))"#
        );
    }
}
