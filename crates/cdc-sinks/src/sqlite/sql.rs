//! Names and texts as SQL.

/// A name in double quotes.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names in double quotes, joined by commas.
pub(crate) fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// `"a" = ?1 AND "b" = ?2`.
pub(crate) fn key_condition<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let conditions = names.into_iter().enumerate().map(|(i, name)| format!("{} = ?{}", quote(name), i + 1));
    conditions.collect::<Vec<_>>().join(" AND ")
}

/// `"a" IS ?1 COLLATE BINARY AND "b" IS ?2 COLLATE BINARY`: NULL is NULL, and texts are equal by their bytes
/// whatever collation the columns have.
pub(crate) fn equal_condition<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let conditions = names
        .into_iter()
        .enumerate()
        .map(|(i, name)| format!("{} IS ?{} COLLATE BINARY", quote(name), i + 1));
    conditions.collect::<Vec<_>>().join(" AND ")
}

/// The words of a statement that stand outside quotes and comments, in upper case. Enough to see whether a
/// CREATE TABLE uses a clause; not a parser.
pub(crate) fn bare_words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut rest = sql.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_alphanumeric() || c == '_' {
            word.extend(c.to_uppercase());
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        match c {
            // A doubled quote inside reads as two texts side by side: no bare word between them.
            '"' | '\'' | '`' => while rest.next().is_some_and(|d| d != c) {},
            '[' => while rest.next().is_some_and(|d| d != ']') {},
            '-' if rest.peek() == Some(&'-') => while rest.next().is_some_and(|d| d != '\n') {},
            '/' if rest.peek() == Some(&'*') => {
                rest.next();
                let mut last = ' ';
                for d in rest.by_ref() {
                    if last == '*' && d == '/' {
                        break;
                    }
                    last = d;
                }
            }
            _ => {}
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_their_quotes() {
        assert_eq!(quote("a\"; DROP TABLE t; --"), "\"a\"\"; DROP TABLE t; --\"");
    }

    #[test]
    fn only_words_outside_quotes_count() {
        let words =
            bare_words("CREATE TABLE t(\"check\" x, 'un''ique', [a b], -- collate\n /* strict */ c);");
        assert_eq!(words, ["CREATE", "TABLE", "T", "X", "C"]);
    }
}
