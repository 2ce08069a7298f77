//! Patterns over table names: globs, regular expressions, exclusions.
//!
//! `*` and `?` never cross the dot between a database and a table: each part is a pattern of its own. A dot within a name is a character like any
//! other, since `shop.*` without some of the tables of `shop` would leave rows out that nobody misses in time. A regular expression (Rust's
//! syntax) matches a whole table name. Names compare exactly, as on a server with `lower_case_table_names = 0`.

use crate::schema::TableId;
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt;

/// A pattern over one name: text, glob or regular expression.
#[derive(Clone)]
pub struct NamePattern {
    source: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Exact,
    Glob(Regex),
    Regex(Regex),
}

impl NamePattern {
    /// Just this name.
    pub fn exact(name: impl Into<String>) -> NamePattern {
        NamePattern { source: name.into(), kind: Kind::Exact }
    }

    /// A glob: `*` is any text, `?` any character. Without them it is a name.
    pub fn glob(text: &str) -> NamePattern {
        if !text.contains(['*', '?']) {
            return NamePattern::exact(text);
        }
        let mut re = String::from("(?s)^");
        for c in text.chars() {
            match c {
                '*' => re.push_str(".*"),
                '?' => re.push('.'),
                c => re.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            }
        }
        re.push('$');
        let kind = Regex::new(&re).map_or(Kind::Exact, Kind::Glob);
        NamePattern { source: text.to_owned(), kind }
    }

    /// A regular expression over the whole name.
    ///
    /// # Errors
    /// What the regex crate says of it.
    pub fn regex(text: &str) -> Result<NamePattern, String> {
        // the text alone first, so that a stray parenthesis cannot close our group
        Regex::new(text).map_err(|e| e.to_string())?;
        let re = Regex::new(&format!("^(?:{text})$")).map_err(|e| e.to_string())?;
        Ok(NamePattern { source: text.to_owned(), kind: Kind::Regex(re) })
    }

    /// Does it match?
    pub fn matches(&self, name: &str) -> bool {
        match &self.kind {
            Kind::Exact => self.source == name,
            Kind::Glob(re) | Kind::Regex(re) => re.is_match(name),
        }
    }

    /// True if it can only match one name.
    pub fn is_exact(&self) -> bool {
        matches!(self.kind, Kind::Exact)
    }

    /// The names of the groups of a regular expression.
    pub fn groups(&self) -> Vec<&str> {
        match &self.kind {
            Kind::Regex(re) => re.capture_names().flatten().collect(),
            _ => Vec::new(),
        }
    }

    /// What its named groups caught in this name.
    pub fn captures(&self, name: &str) -> BTreeMap<String, String> {
        let Kind::Regex(re) = &self.kind else { return BTreeMap::new() };
        let Some(caught) = re.captures(name) else { return BTreeMap::new() };
        re.capture_names()
            .flatten()
            .map(|g| (g.to_owned(), caught.name(g).map_or(String::new(), |m| m.as_str().to_owned())))
            .collect()
    }

    /// The text it was made from.
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
            && std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind)
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Regex(_) => write!(f, "/{}/", self.source),
            _ => f.write_str(&self.source),
        }
    }
}

/// The head of a flow: which tables of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct TablePattern {
    /// The database; `None` where the source's `tables` cover one database only, or for any of them.
    pub database: Option<NamePattern>,
    /// The table.
    pub table: NamePattern,
}

impl TablePattern {
    /// The table that the view of this name is to the flows that read it (see [`view`](super::view)).
    pub fn of_view(name: &str) -> TablePattern {
        TablePattern { database: Some(NamePattern::exact("")), table: NamePattern::exact(name) }
    }

    /// Does it match? A table of no database is a view: none but the pattern that names it takes it, so that `src.*` does not.
    pub fn matches(&self, table: &TableId) -> bool {
        let database = match &self.database {
            Some(database) => {
                database.matches(&table.database) && (database.is_exact() || !table.database.is_empty())
            }
            None => !table.database.is_empty(),
        };
        database && self.table.matches(&table.table)
    }
}

/// The `tables` option of a source: `database.table` globs, `!` in front of an exclusion, `/../` for a
/// regular expression over `database.table`. A table is in if an inclusion matches and no exclusion does.
///
/// Tables whose names begin with `_cdc_` are our own, in which targets note what they have: each commit writes to them, so
/// capturing them would never end. No glob and no regular expression takes one in; a name that stands there exactly does.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSet {
    texts: Vec<String>,
    include: Vec<Member>,
    exclude: Vec<Member>,
}

#[derive(Debug, Clone, PartialEq)]
enum Member {
    Pair(NamePattern, NamePattern),
    Whole(NamePattern),
}

impl TableSet {
    /// From the texts of the option.
    ///
    /// # Errors
    /// The index of the text that is malformed, and what is wrong with it.
    pub fn parse(texts: &[String]) -> Result<TableSet, (usize, String)> {
        let mut set = TableSet { texts: texts.to_vec(), include: Vec::new(), exclude: Vec::new() };
        for (i, text) in texts.iter().enumerate() {
            let (negated, body) = match text.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, text.as_str()),
            };
            let member = if let Some(re) = body.strip_prefix('/').and_then(|b| b.strip_suffix('/')) {
                Member::Whole(NamePattern::regex(re).map_err(|e| (i, e))?)
            } else {
                match split_name(body) {
                    Some((database, table)) if !database.is_empty() && !table.is_empty() => {
                        Member::Pair(part(database), part(table))
                    }
                    _ => return Err((i, format!("\"{body}\" is not of the form database.table"))),
                }
            };
            if negated { &mut set.exclude } else { &mut set.include }.push(member);
        }
        if set.include.is_empty() {
            return Err((0, "no table is included".to_owned()));
        }
        Ok(set)
    }

    /// Exactly these tables.
    pub fn only<'t>(tables: impl IntoIterator<Item = &'t TableId>) -> TableSet {
        let include: Vec<Member> = tables
            .into_iter()
            .map(|t| Member::Pair(NamePattern::exact(&*t.database), NamePattern::exact(&*t.table)))
            .collect();
        TableSet { texts: include.iter().map(ToString::to_string).collect(), include, exclude: Vec::new() }
    }

    /// What it was made from.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Is the table in?
    pub fn contains(&self, table: &TableId) -> bool {
        self.matching_inclusion(table).is_some() && !self.exclude.iter().any(|m| m.matches(table))
    }

    /// The first inclusion that matches the table, by its place among the inclusions.
    pub fn matching_inclusion(&self, table: &TableId) -> Option<usize> {
        self.include.iter().position(|m| m.includes(table))
    }

    /// The inclusions that match none of these tables, as they were written.
    pub fn unmatched<'t>(&self, tables: impl IntoIterator<Item = &'t TableId> + Clone) -> Vec<String> {
        self.include
            .iter()
            .filter(|m| !tables.clone().into_iter().any(|t| m.includes(t)))
            .map(ToString::to_string)
            .collect()
    }

    /// The one database that all inclusions name, if they do.
    pub fn only_database(&self) -> Option<&str> {
        let mut only = None;
        for member in &self.include {
            let Member::Pair(database, _) = member else { return None };
            if !database.is_exact() || only.is_some_and(|d| d != database.as_str()) {
                return None;
            }
            only = Some(database.as_str());
        }
        only
    }

    /// The databases named exactly, if all inclusions name theirs exactly: nothing else need be looked at.
    pub fn databases(&self) -> Option<Vec<&str>> {
        self.include
            .iter()
            .map(|m| match m {
                Member::Pair(d, _) if d.is_exact() => Some(d.as_str()),
                _ => None,
            })
            .collect()
    }
}

impl Member {
    /// Does it take the table in?
    fn includes(&self, table: &TableId) -> bool {
        let named = matches!(self, Member::Pair(_, t) if t.is_exact());
        self.matches(table) && (named || !is_ours(&table.table))
    }

    fn matches(&self, table: &TableId) -> bool {
        match self {
            Member::Pair(d, t) => d.matches(&table.database) && t.matches(&table.table),
            Member::Whole(re) => re.matches(&table.to_string()),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Pair(d, t) => write!(f, "{d}.{t}"),
            Member::Whole(re) => write!(f, "{re}"),
        }
    }
}

/// A table in which targets note what they have.
fn is_ours(table: &str) -> bool {
    table.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("_cdc_"))
}

/// A name in backticks is taken as it stands, dots and stars too.
fn part(text: &str) -> NamePattern {
    match text.strip_prefix('`').and_then(|t| t.strip_suffix('`')) {
        Some(quoted) => NamePattern::exact(quoted.replace("``", "`")),
        None => NamePattern::glob(text),
    }
}

/// Splits at the first dot outside backticks; a second such dot belongs to no name.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let mut quoted = false;
    let mut dot = None;
    for (i, c) in text.char_indices() {
        match c {
            '`' => quoted = !quoted,
            '.' if !quoted => {
                if dot.is_some() {
                    return None;
                }
                dot = Some(i);
            }
            _ => {}
        }
    }
    dot.map(|i| (&text[..i], &text[i + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> TableSet {
        TableSet::parse(&texts.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn case_34_globs_regexes_and_exclusions() {
        let t = |d: &str, t: &str| TableId::new(d, t);
        let s = set(&["shop.*", "!shop.tmp_*", "/crm\\.c[0-9]+/"]);
        assert!(s.contains(&t("shop", "orders")));
        assert!(!s.contains(&t("shop", "tmp_1")));
        assert!(!s.contains(&t("shop2", "orders")));
        assert!(s.contains(&t("crm", "c12")));
        assert!(!s.contains(&t("crm", "c12x")));
        assert_eq!(s.unmatched(&[t("shop", "a")]), ["/crm\\.c[0-9]+/"]);
        // a dot in a name is not the one between database and table
        assert!(
            s.contains(&t("shop", "a.b"))
                && !s.contains(&t("shop.a", "b"))
                && !s.contains(&t("shop", "tmp_a.b"))
        );
    }

    #[test]
    fn no_pattern_takes_in_what_targets_note() {
        let t = |d: &str, t: &str| TableId::new(d, t);
        let all = set(&["*.*", "/shop\\..*/"]);
        assert!(all.contains(&t("shop", "orders")) && all.contains(&t("shop", "x_cdc_")));
        assert!(!all.contains(&t("shop", "_cdc_progress")) && !all.contains(&t("dw", "_CDC_tables")));
        let named = set(&["dw.*", "dw._cdc_progress", "!dw._cdc_t*"]);
        assert!(named.contains(&t("dw", "_cdc_progress")) && !named.contains(&t("dw", "_cdc_tables")));
        assert_eq!(set(&["dw._cdc_*"]).unmatched(&[t("dw", "_cdc_tables")]), ["dw._cdc_*"]);
    }

    #[test]
    fn no_pattern_takes_a_view_in_but_its_own() {
        let view = TableId::new("", "revenue");
        let pattern = |database: Option<NamePattern>, table: NamePattern| TablePattern { database, table };
        let name = NamePattern::exact("revenue");
        assert!(TablePattern::of_view("revenue").matches(&view));
        assert!(!TablePattern::of_view("revenue").matches(&TableId::new("shop", "revenue")));
        assert!(!TablePattern::of_view("orders").matches(&view));
        let all = NamePattern::glob("*");
        for database in [None, Some(all.clone()), Some(NamePattern::regex(".*").unwrap())] {
            for table in [name.clone(), all.clone()] {
                let pattern = pattern(database.clone(), table);
                assert!(!pattern.matches(&view), "{pattern:?}");
                assert!(pattern.matches(&TableId::new("shop", "revenue")), "{pattern:?}");
            }
        }
    }

    #[test]
    fn stars_stay_in_their_part_and_backticks_quote() {
        let s = set(&["`a.b`.`c*d`", "x?.y"]);
        assert!(s.contains(&TableId::new("a.b", "c*d")));
        assert!(!s.contains(&TableId::new("a.b", "cxd")));
        assert!(s.contains(&TableId::new("x1", "y")));
        assert!(NamePattern::glob("*").matches("a.b") && NamePattern::glob("a?b").matches("a.b"));
        let s = set(&["a.*"]);
        assert!(s.contains(&TableId::new("a", "b.c")) && !s.contains(&TableId::new("a.b", "c")));
        assert!(TableSet::parse(&["a.b.c".into()]).is_err());
        assert!(TableSet::parse(&["!a.b".into()]).is_err());
    }

    #[test]
    fn regexes_match_whole_names_and_give_groups() {
        let p = NamePattern::regex("(?<t>.*)_v2").unwrap();
        assert_eq!(p.groups(), ["t"]);
        assert_eq!(p.captures("orders_v2").get("t").map(String::as_str), Some("orders"));
        assert!(!NamePattern::regex("a|b").unwrap().matches("ab"));
        assert!(NamePattern::regex("a)(b").is_err());
    }
}
