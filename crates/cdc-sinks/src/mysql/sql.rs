//! Names and values as SQL text, safe in one session only: ours, whose `sql_mode` has backslash escapes, whose
//! strings are never names (no ANSI_QUOTES), and which speaks utf8mb4.
//!
//! Statements are text, not prepared: one INSERT holds thousands of rows, and a prepared one is limited to
//! 65,535 parameters and has to be prepared anew for each number of rows.
//! A quote or a backslash is escaped where it stands. No byte of a longer UTF-8 character can be taken for
//! one, since those all have their high bit set; that is why the connection's character set is fixed.

/// A name in backticks.
pub(crate) fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Names in backticks, joined by commas.
pub(crate) fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// A text as a literal.
pub(crate) fn text(value: &str) -> String {
    let mut out = Vec::with_capacity(value.len() + 2);
    push_text(&mut out, value.as_bytes());
    // escapes are ASCII in front of ASCII
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a text literal.
pub(crate) fn push_text(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'\'');
    push_escaped(out, value);
    out.push(b'\'');
}

fn push_escaped(out: &mut Vec<u8>, mut value: &[u8]) {
    while let Some(at) = value.iter().position(|b| matches!(b, b'\'' | b'\\' | 0)) {
        out.extend_from_slice(&value[..at]);
        out.extend_from_slice(match value[at] {
            b'\'' => b"\\'",
            b'\\' => b"\\\\",
            _ => b"\\0",
        });
        value = &value[at + 1..];
    }
    out.extend_from_slice(value);
}

/// Bytes from which on they are written as they are: hexadecimal digits would double what has to fit into
/// `max_allowed_packet`.
const LONG: usize = 1024;

/// Appends a literal of bytes.
pub(crate) fn push_bytes(out: &mut Vec<u8>, value: &[u8]) {
    if value.len() >= LONG {
        out.extend_from_slice(b"_binary");
        return push_text(out, value);
    }
    out.extend_from_slice(b"x'");
    push_hex(out, value);
    out.push(b'\'');
}

/// Appends hexadecimal digits, in upper case as `HEX()` gives them.
pub(crate) fn push_hex(out: &mut Vec<u8>, value: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(value.len() * 2);
    for byte in value {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Appends a floating point literal; false for what SQL has none for. With its exponent it is read as a DOUBLE,
/// never as a DECIMAL, and the shortest digits that read back as the same value are read back as it.
pub(crate) fn push_double(out: &mut Vec<u8>, value: f64) -> bool {
    use std::io::Write;
    // a write to a Vec cannot fail
    value.is_finite() && write!(out, "{value:e}").is_ok()
}

/// A text short enough for a message.
pub(crate) fn clipped(text: &str) -> String {
    const LIMIT: usize = 400;
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let end = (0..=LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}.. ({} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_its_quotes() {
        assert_eq!(quote("a`; DROP TABLE t; --"), "`a``; DROP TABLE t; --`");
        assert_eq!(text("it's \\ \0 é \" \n"), "'it\\'s \\\\ \\0 é \" \n'");
        let mut out = Vec::new();
        push_bytes(&mut out, b"\x00'\\\xff");
        assert_eq!(out, b"x'00275CFF'");
        out.clear();
        push_bytes(&mut out, &[b'\''; LONG]);
        assert!(out.starts_with(b"_binary'\\'\\'") && out.ends_with(b"\\''"));
        assert_eq!(out.len(), 9 + 2 * LONG);
    }

    #[test]
    fn doubles_are_never_decimals() {
        for (value, literal) in [(1.0, "1e0"), (-0.0, "-0e0"), (0.1, "1e-1"), (5e-324, "5e-324")] {
            let mut out = Vec::new();
            assert!(push_double(&mut out, value));
            assert_eq!(String::from_utf8(out).unwrap(), literal);
        }
        assert!(!push_double(&mut Vec::new(), f64::NAN));
    }
}
