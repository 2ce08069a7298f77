//! Test cases written as Markdown: prose, input, and the output that is expected.
//!
//! ````markdown
//! # Joins
//! ## A join needs a key
//! Why this is so, for whoever reads the file.
//!
//! ```cdc
//! view v = a join b
//! ```
//!
//! ```output
//! error[E0301]: …
//! ```
//! ````
//!
//! Every heading with fenced blocks below it is one case. The test gives a function from a case to the
//! text that its `output` block must hold; all differences of a file are reported at once. With
//! `UPDATE_EXPECT=1` the blocks are rewritten instead, and the change is reviewed as a diff. With
//! `CASE=word` only cases whose name holds the word run.
//!
//! Blocks that are `text`, `sh` or `console`, or say nothing, belong to the prose. A case whose expected
//! block is missing is a failure, not a pass: a case must not be lost by a typing error.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::servers::workspace_dir;

/// The info word of the block that most files expect.
pub const OUTPUT: &str = "output";

const PROSE: &[&str] = &["", "text", "sh", "console"];

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// All that stands after the opening fence.
    pub info: String,
    /// The lines between the fences, each with its newline.
    pub text: String,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// Lines from the opening fence to the closing one, as indices into the file's lines.
    open: usize,
    close: usize,
}

impl Block {
    /// The first word of the info string: the language.
    pub fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or("")
    }

    /// The words of the info string after the language.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.info.split_whitespace().skip(1)
    }
}

/// A heading and the blocks between it and the next heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The headings from the file's first level down to this one, joined by ` / `.
    pub name: String,
    /// The heading's line, from 1.
    pub line: usize,
    /// The blocks, in the order of the file.
    pub blocks: Vec<Block>,
}

impl Case {
    /// The text of the first block of this language.
    pub fn block(&self, language: &str) -> Option<&str> {
        self.blocks.iter().find(|block| block.language() == language).map(|block| block.text.as_str())
    }

    /// The text of the first block of this language, or nothing.
    pub fn text(&self, language: &str) -> &str {
        self.block(language).unwrap_or("")
    }

    /// All blocks of this language.
    pub fn blocks(&self, language: &str) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.language() == language)
    }
}

/// The cases of a Markdown text; headings without blocks are left out.
pub fn parse(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut headings: Vec<(usize, String)> = Vec::new();
    let mut case = Case { name: String::new(), line: 1, blocks: Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        if let Some((fence, info)) = opening_fence(lines[at]) {
            let closes = |line: &&str| is_closing_fence(line, fence);
            let length = lines[at + 1..].iter().take_while(|line| !closes(line)).count();
            let body = &lines[at + 1..at + 1 + length];
            let text = body.iter().fold(String::new(), |text, line| text + line + "\n");
            let close = at + 1 + length;
            case.blocks.push(Block { info: info.to_string(), text, line: at + 1, open: at, close });
            at = close + 1;
            continue;
        }
        if let Some((level, title)) = heading(lines[at]) {
            headings.retain(|(outer, _)| *outer < level);
            headings.push((level, title.to_string()));
            let name: Vec<&str> = headings.iter().map(|(_, title)| title.as_str()).collect();
            let next = Case { name: name.join(" / "), line: at + 1, blocks: Vec::new() };
            cases.push(std::mem::replace(&mut case, next));
        }
        at += 1;
    }
    cases.push(case);
    cases.retain(|case| !case.blocks.is_empty());
    cases
}

/// Checks the `output` block of every case of a file (a path from the test's package or the workspace).
///
/// # Panics
/// If a case differs, or its block is missing.
pub fn check_file(path: impl AsRef<Path>, mut actual: impl FnMut(&Case) -> String) {
    check_blocks(path, &[OUTPUT], |case, _| actual(case));
}

/// Checks every `.md` file below a folder as [`check_file`] does.
///
/// # Panics
/// If there is no such file, or a case differs.
pub fn check_dir(path: impl AsRef<Path>, mut actual: impl FnMut(&Case) -> String) {
    let dir = locate(path.as_ref());
    let mut files = Vec::new();
    markdown_files(&dir, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no Markdown file below {}", path.as_ref().display());
    let failures: String = files
        .iter()
        .map(|file| check(file, &[OUTPUT], &mut |case, _| actual(case), Mode::from_env()))
        .collect();
    assert!(failures.is_empty(), "\n{failures}");
}

/// Checks blocks of several languages: every case must hold at least one of them, and each that it holds
/// must equal what the function says for its language.
///
/// # Panics
/// If a case differs, or has no such block.
pub fn check_blocks(
    path: impl AsRef<Path>,
    expected: &[&str],
    mut actual: impl FnMut(&Case, &str) -> String,
) {
    let failures = check(&locate(path.as_ref()), expected, &mut actual, Mode::from_env());
    assert!(failures.is_empty(), "\n{failures}");
}

struct Mode {
    update: bool,
    only: Option<String>,
}

impl Mode {
    fn from_env() -> Mode {
        let update = std::env::var("UPDATE_EXPECT").is_ok_and(|value| !value.is_empty() && value != "0");
        Mode { update, only: std::env::var("CASE").ok().filter(|word| !word.is_empty()) }
    }
}

/// Returns what differs, for people to read; nothing if all is well.
fn check(
    path: &Path,
    expected: &[&str],
    actual: &mut dyn FnMut(&Case, &str) -> String,
    mode: Mode,
) -> String {
    let shown = path.strip_prefix(workspace_dir()).unwrap_or(path).display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return format!("{shown}: {error}\n"),
    };
    let mut failures = String::new();
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    let mut checked = 0;
    for case in parse(&text) {
        if mode.only.as_ref().is_some_and(|word| !case.name.contains(word)) {
            continue;
        }
        let is_expected = |block: &&Block| expected.contains(&block.language());
        let is_input =
            |block: &&Block| !PROSE.contains(&block.language()) && !expected.contains(&block.language());
        let mut wanted: Vec<&Block> = case.blocks.iter().filter(is_expected).collect();
        let missing = wanted.is_empty();
        if missing && !case.blocks.iter().any(|block| is_input(&block)) {
            continue;
        }
        checked += 1;
        let place = format!("{shown}:{}: {}", case.line, case.name);
        let _named = NameOnPanic(&place);
        if missing {
            let Some(last) = case.blocks.last().filter(|_| mode.update) else {
                _ = writeln!(failures, "{place}\n  has no `{}` block", expected.join("` or `"));
                continue;
            };
            let new = actual(&case, expected[0]);
            edits.push((last.close + 1, last.close + 1, format!("\n{}", fenced(expected[0], &new))));
            continue;
        }
        for block in wanted.drain(..) {
            let new = actual(&case, block.language());
            if new.trim_end() == block.text.trim_end() {
                continue;
            }
            edits.push((block.open, block.close + 1, fenced(&block.info, &new)));
            if !mode.update {
                _ = writeln!(failures, "{place}\n{}", diff(&block.text, &new));
            }
        }
    }
    if checked == 0 && mode.only.is_none() {
        _ = writeln!(failures, "{shown}: holds no case");
    }
    if mode.update && !edits.is_empty() {
        if let Err(error) = fs::write(path, edited(&text, &edits)) {
            _ = writeln!(failures, "{shown}: {error}");
        }
    } else if !failures.is_empty() {
        _ = writeln!(failures, "- expected, + actual; UPDATE_EXPECT=1 writes the actual into {shown}");
    }
    failures
}

/// Tells which case was running when the tested code panicked.
struct NameOnPanic<'a>(&'a str);

impl Drop for NameOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("panicked in {}", self.0);
        }
    }
}

fn edited(text: &str, edits: &[(usize, usize, String)]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut result = String::new();
    let mut at = 0;
    for (from, to, new) in edits {
        lines[at..(*from).min(lines.len())].iter().for_each(|line| result += &format!("{line}\n"));
        result += new;
        at = (*to).min(lines.len());
    }
    lines[at..].iter().for_each(|line| result += &format!("{line}\n"));
    result
}

/// A block whose fence is longer than any fence in its text.
fn fenced(info: &str, text: &str) -> String {
    let inner = text.lines().filter_map(opening_fence).map(|((_, length), _)| length).max().unwrap_or(0);
    let fence = "`".repeat((inner + 1).max(3));
    let text = text.trim_end();
    let newline = if text.is_empty() { "" } else { "\n" };
    format!("{fence}{info}\n{text}{newline}{fence}\n")
}

/// The fence's character and length, and the info string.
fn opening_fence(line: &str) -> Option<((char, usize), &str)> {
    let first = line.chars().next().filter(|first| matches!(first, '`' | '~'))?;
    let length = line.chars().take_while(|next| *next == first).count();
    let info = line[length..].trim();
    // `a` at a line's start is code in a sentence
    (length >= 3 && !(first == '`' && info.contains('`'))).then_some(((first, length), info))
}

fn is_closing_fence(line: &str, (first, length): (char, usize)) -> bool {
    let line = line.trim_end();
    line.len() >= length && line.chars().all(|next| next == first)
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.chars().take_while(|next| *next == '#').count();
    let title = line[level..].strip_prefix(' ')?;
    (1..=6).contains(&level).then(|| (level, title.trim()))
}

fn locate(path: &Path) -> PathBuf {
    if path.exists() { path.to_path_buf() } else { workspace_dir().join(path) }
}

fn markdown_files(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            markdown_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "md") {
            files.push(path);
        }
    }
}

/// The lines of both texts, common ones once, by their longest common subsequence.
pub fn diff(expected: &str, actual: &str) -> String {
    let old: Vec<&str> = expected.trim_end().lines().collect();
    let new: Vec<&str> = actual.trim_end().lines().collect();
    // longest[i][j]: of old[i..] and new[j..]
    let mut longest = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i][j] = if old[i] == new[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut result = String::new();
    while i < old.len() || j < new.len() {
        let (mark, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', old[i - 1])
        } else if j == new.len() || (i < old.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            i += 1;
            ('-', old[i - 1])
        } else {
            j += 1;
            ('+', new[j - 1])
        };
        _ = writeln!(result, "  {mark} {line}");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{fresh_dir, remove_dir};

    const TEXT: &str = "\
# Top
prose
```text
only shown
```
## One
```cdc strict
a
b
```
```output
A
B
```
## Two
~~~~cdc
```
c
~~~~

# Other
### Deep
```cdc
d
```
```output
```
";

    fn upper(case: &Case) -> String {
        case.text("cdc").to_uppercase()
    }

    fn check_text(text: &str, update: bool) -> (String, String) {
        let dir = fresh_dir("markdown").unwrap();
        let path = dir.join("cases.md");
        fs::write(&path, text).unwrap();
        let mode = Mode { update, only: None };
        let failures = check(&path, &[OUTPUT], &mut |case, _| upper(case), mode);
        let after = fs::read_to_string(&path).unwrap();
        remove_dir(&dir).unwrap();
        (failures, after)
    }

    #[test]
    fn headings_name_cases_and_blocks_keep_their_text() {
        let cases = parse(TEXT);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["Top", "Top / One", "Top / Two", "Other / Deep"]);
        assert_eq!(cases[1].block("cdc"), Some("a\nb\n"));
        assert_eq!(cases[1].blocks[0].arguments().collect::<Vec<_>>(), ["strict"]);
        assert_eq!(cases[2].text("cdc"), "```\nc\n");
        assert_eq!((cases[1].line, cases[1].blocks[0].line), (6, 7));
    }

    #[test]
    fn all_failures_are_reported_at_once() {
        let (failures, after) = check_text(TEXT, false);
        assert!(failures.contains("Top / Two\n  has no `output` block"), "{failures}");
        assert!(failures.contains("Other / Deep\n  + D\n"), "{failures}");
        assert!(!failures.contains("Top / One"), "{failures}");
        assert_eq!(after, TEXT);
    }

    #[test]
    fn an_update_is_complete_and_changes_nothing_else() {
        let (failures, after) = check_text(TEXT, true);
        assert_eq!(failures, "");
        assert!(after.contains("~~~~\n\n````output\n```\nC\n````\n\n# Other"), "{after}");
        assert!(after.ends_with("```output\nD\n```\n"), "{after}");
        assert!(after.starts_with(&TEXT[..TEXT.find("## Two").unwrap()]));
        assert_eq!(check_text(&after, false), (String::new(), after.clone()));
    }

    #[test]
    fn a_file_without_cases_is_a_failure() {
        assert!(check_text("# Top\nprose\n", false).0.contains("holds no case"));
    }
}
