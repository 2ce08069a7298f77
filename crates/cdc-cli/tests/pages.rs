//! The pages of `dsl/` as users meet them: `cdc error`, and the files for editors.

use cdc_core::{codes, function};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

/// `cdc error ..`, in a folder that has nothing of the sources.
fn error(args: &[&str]) -> Said {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_cdc"))
        .arg("error")
        .args(args)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

fn dsl(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../dsl").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn json(path: &str) -> Value {
    serde_json::from_str(&dsl(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn every_code_is_explained() {
    for code in codes::ALL {
        let said = error(&[&code.to_string()]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{code}");
        assert_eq!(said.out.lines().next(), Some(format!("{code}: {}", code.title).as_str()));
        assert!(said.out.contains("\nExample\n") && said.out.contains("\nHow to mend it\n"), "{}", said.out);
        assert!(!said.out.contains("```") && !said.out.contains('\x1b'), "{}", said.out);
        // examples may be wide, prose is not
        let wide = said.out.lines().find(|l| !l.starts_with("    ") && l.chars().count() > 80);
        assert_eq!(wide, None, "{code}");
    }
}

#[test]
fn a_code_is_written_in_several_ways() {
    let page = error(&["E1004"]).out;
    assert!(page.contains("GRANT REPLICATION SLAVE"), "{page}");
    for way in ["e1004", "1004", "error[E1004]"] {
        assert_eq!(error(&[way]).out, page, "{way}");
    }
}

#[test]
fn without_a_code_all_are_listed_by_range() {
    let said = error(&[]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    for code in codes::ALL {
        assert!(said.out.lines().any(|l| l == format!("  {code}  {}", code.title)), "{code}");
    }
    let at = |text: &str| said.out.find(text).unwrap_or_else(|| panic!("{text}: {}", said.out));
    assert!(at("10  connection and preflight") < at("E1001") && at("E1010") < at("11  snapshot"));
}

#[test]
fn an_unknown_code_leads_to_those_that_are_like_it() {
    for (written, help) in [("E1040", "E1004 (missing privilege)"), ("E0213", "E0214 (table has no key)")] {
        let said = error(&[written]);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""));
        assert!(
            said.err.starts_with(&format!("error[E4003]: there is no code \"{written}\"\n")),
            "{}",
            said.err
        );
        assert!(said.err.contains("did you mean ") && said.err.contains(help), "{}", said.err);
    }
    let said = error(&["privilege"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.lines().any(|line| line == "E1004  missing privilege"), "{}", said.out);
    let said = error(&["E9999"]);
    assert_eq!(said.code, Some(2));
    assert_eq!(said.err, "error[E4003]: there is no code \"E9999\"\n  help: cdc error lists all codes\n");
}

/// The words between quotes of the grammar: not those of its comments and of what it says in words.
fn words_of_the_grammar(text: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut rest = text;
    while let Some(at) = rest.find(['"', '?', '(']) {
        let (sign, behind) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = match sign {
            b'"' => {
                let (word, behind) = behind.split_once('"').expect("the quote is closed");
                if !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase()) {
                    words.insert(word.to_owned());
                }
                behind
            }
            b'(' => behind.strip_prefix('*').map_or(behind, |c| c.split_once("*)").expect("it ends").1),
            _ => {
                let mut quoted = false;
                let end = behind.char_indices().find(|(_, c)| {
                    quoted ^= *c == '"';
                    *c == '?' && !quoted
                });
                &behind[end.expect("it ends").0 + 1..]
            }
        };
    }
    words
}

/// The alternatives of a rule of the TextMate grammar: those of its first group.
fn words_of_a_rule(rule: &Value) -> BTreeSet<String> {
    let pattern = rule["match"].as_str().expect("a pattern");
    let group = pattern.find("(?:").map(|at| &pattern[at + 3..]).expect("a group");
    group[..group.find(')').expect("its end")].split('|').map(str::to_owned).collect()
}

const GRAMMAR: &str = "editors/vscode/syntaxes/cdc.tmLanguage.json";

#[test]
fn editors_know_the_words_of_the_language() {
    let grammar = json(GRAMMAR);
    let rules = grammar["repository"].as_object().expect("rules");
    let known: BTreeSet<String> = rules
        .iter()
        .filter(|(name, _)| name.ends_with("-words") && !name.ends_with("function-words"))
        .flat_map(|(_, rule)| words_of_a_rule(rule))
        .collect();
    let mut words = words_of_the_grammar(&dsl("grammar.ebnf"));
    // of numbers
    words.remove("e");
    assert!(words.len() > 70, "{words:?}");
    let missing: Vec<&String> = words.difference(&known).collect();
    let extra: Vec<&String> = known.difference(&words).collect();
    assert!(missing.is_empty() && extra.is_empty(), "editors lack {missing:?}, the language lacks {extra:?}");
}

#[test]
fn editors_know_the_functions() {
    let grammar = json(GRAMMAR);
    for (rule, refused) in [("function-words", false), ("refused-function-words", true)] {
        let functions = function::all().filter(|f| f.refused.is_some() == refused);
        let names: BTreeSet<String> =
            functions.flat_map(|f| f.aliases.iter().chain([&f.name])).map(ToString::to_string).collect();
        assert_eq!(words_of_a_rule(&grammar["repository"][rule]), names, "{rule}");
    }
}

/// A rule that is misspelt in an `include` highlights nothing, and nobody is told.
#[test]
fn the_rules_of_the_grammar_are_there_and_used() {
    fn includes(value: &Value, out: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                if let Some(name) = map.get("include").and_then(Value::as_str) {
                    out.insert(name.trim_start_matches('#').to_owned());
                }
                map.values().for_each(|v| includes(v, out));
            }
            Value::Array(all) => all.iter().for_each(|v| includes(v, out)),
            _ => {}
        }
    }
    let grammar = json(GRAMMAR);
    assert_eq!(grammar["scopeName"], "source.cdc");
    let mut used = BTreeSet::new();
    includes(&grammar, &mut used);
    let mut rules: BTreeSet<String> =
        grammar["repository"].as_object().expect("rules").keys().cloned().collect();
    // a list for programs: the rule of statements matches them at their place
    rules.remove("statement-words");
    assert_eq!(used, rules);
}

#[test]
fn the_extension_names_its_files() {
    let package = json("editors/vscode/package.json");
    let language = &package["contributes"]["languages"][0];
    let grammar = &package["contributes"]["grammars"][0];
    assert_eq!((&language["id"], &language["extensions"][0]), (&"cdc".into(), &".cdc".into()));
    assert_eq!((&grammar["language"], &grammar["scopeName"]), (&"cdc".into(), &"source.cdc".into()));
    for path in [&language["configuration"], &grammar["path"]] {
        let path = path.as_str().and_then(|p| p.strip_prefix("./")).expect("a path in the folder");
        json(&format!("editors/vscode/{path}"));
    }
}
