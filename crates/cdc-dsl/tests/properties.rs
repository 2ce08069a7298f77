//! Whatever the text, nothing panics; whatever can be read can be laid out, twice the same, with the same
//! meaning and every comment. `SEED` repeats a run, `ROUNDS` makes it longer.

mod common;

use common::{PREAMBLE, compile, dsl_dir, rendered};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Every text of the corpus: whole files, and the blocks of the Markdown files.
fn corpus() -> Vec<String> {
    fn collect(dir: &std::path::Path, texts: &mut Vec<String>) {
        let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                collect(&path, texts);
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            match path.extension().and_then(|e| e.to_str()) {
                Some("cdc") => texts.push(text),
                Some("md") => {
                    for case in cdc_testkit::markdown::parse(&text) {
                        texts.extend(case.blocks("cdc").map(|b| b.text.clone()));
                    }
                }
                _ => {}
            }
        }
    }
    let mut texts = Vec::new();
    collect(&dsl_dir(), &mut texts);
    texts
}

/// All that must hold of any text.
fn check(text: &str) {
    let compiled = compile(text);
    _ = rendered(&compiled.diagnostics, text);
    for d in &compiled.diagnostics {
        for label in &d.labels {
            let span = &label.span;
            assert!(span.start <= span.end && span.end <= text.len(), "{d} at {span:?}");
            assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{d} at {span:?}");
        }
    }
    let Ok(tree) = cdc_dsl::parse(text) else {
        assert!(cdc_dsl::format(text).is_err());
        return;
    };
    let formatted = cdc_dsl::format(text).unwrap();
    let again = cdc_dsl::parse(&formatted);
    assert!(again.as_ref() == Ok(&tree), "another meaning:\n{formatted}\n{again:#?}");
    assert_eq!(cdc_dsl::format(&formatted).unwrap(), formatted, "changes again");
    // a state knows its flows by their names
    if let Some(plan) = &compiled.plan {
        let names = |plan: &cdc_core::plan::Plan| -> Vec<String> {
            plan.flows.iter().map(|flow| flow.name.clone()).collect()
        };
        let laid_out = compile(&formatted).plan.unwrap();
        assert_eq!(names(&laid_out), names(plan), "other flows");
    }
    let comments = |t: &str| t.matches("-- ").count();
    // one in a text counts too, on both sides
    assert_eq!(comments(&formatted), comments(&text.replace("--\n", "")), "a comment is lost:\n{formatted}");
}

/// Runs a check, and says which text it was that failed.
fn named(text: &str, seed: u64) {
    let result = std::panic::catch_unwind(|| check(text));
    if let Err(panic) = result {
        eprintln!("--- SEED={seed}, the text:\n{text}\n---");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn the_corpus_itself() {
    for text in corpus() {
        named(&text, 0);
        named(&format!("{text}\n{PREAMBLE}"), 0);
    }
}

#[test]
fn every_beginning_of_a_file() {
    for name in ["shop.cdc", "ten-mistakes.cdc"] {
        let text = std::fs::read_to_string(dsl_dir().join("corpus").join(name)).unwrap();
        for (i, _) in text.char_indices() {
            let part = &text[..i];
            let result = std::panic::catch_unwind(|| {
                compile(part);
                _ = cdc_dsl::format(part);
            });
            assert!(result.is_ok(), "the first {i} bytes of {name}");
        }
    }
}

#[test]
fn token_soup() {
    const TOKENS: &[&str] = &[
        "pipeline",
        "param",
        "source",
        "sink",
        "view",
        "test",
        "from",
        "where",
        "select",
        "extend",
        "drop",
        "rename",
        "join",
        "left",
        "on",
        "as",
        "aggregate",
        "group",
        "by",
        "distinct",
        "union",
        "all",
        "top",
        "per",
        "key",
        "with",
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast",
        "like",
        "escape",
        "between",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "true",
        "collate",
        "interval",
        "date",
        "except",
        "given",
        "expect",
        "ddl",
        "columns",
        "src",
        "dw",
        "orders",
        "meta",
        "id",
        "`a b`",
        "'x'",
        "\"y ${Z}\"",
        "\"${\"",
        "''",
        "1",
        "1.5",
        "1.",
        "1e9",
        "10s",
        "x'0F'",
        "b'1'",
        "${A}",
        "$",
        "$${",
        ".",
        ",",
        ":",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "~",
        "!",
        "?",
        "=",
        "<>",
        "<=>",
        "<",
        ">",
        "&&",
        "&",
        "|",
        "||",
        "<<",
        "->",
        "->>",
        "|>",
        "=>",
        "\n",
        "\n",
        "  ",
        " ",
        " ",
        " ",
        "-- c\n",
        "/re/",
        "\\",
        "'",
        "\"",
        "`",
        "#",
        "/*",
        "é",
        "中",
        "\t",
        ";",
        "\r\n",
        "\u{feff}",
        "\0",
    ];
    let seed = number("SEED", 1);
    for round in 0..number("ROUNDS", 3000) {
        let mut rng = StdRng::seed_from_u64(seed + round);
        let length = rng.random_range(1..60);
        let mut text = String::new();
        for _ in 0..length {
            text.push_str(TOKENS.choose(&mut rng).unwrap());
            if rng.random_bool(0.5) {
                text.push(' ');
            }
        }
        named_without_comments(&text, seed + round);
    }
}

/// Soup may hold comments in any shape; all else must hold.
fn named_without_comments(text: &str, seed: u64) {
    let result = std::panic::catch_unwind(|| {
        let compiled = compile(text);
        _ = rendered(&compiled.diagnostics, text);
        if let Ok(tree) = cdc_dsl::parse(text) {
            let formatted = cdc_dsl::format(text).unwrap();
            assert!(cdc_dsl::parse(&formatted).as_ref() == Ok(&tree), "another meaning:\n{formatted}");
            assert_eq!(cdc_dsl::format(&formatted).unwrap(), formatted, "changes again");
        }
    });
    if let Err(panic) = result {
        eprintln!("--- SEED={seed}, the text:\n{text}\n---");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn mutations_of_the_corpus() {
    let corpus = corpus();
    let seed = number("SEED", 1);
    for round in 0..number("ROUNDS", 1500) {
        let mut rng = StdRng::seed_from_u64(seed + round);
        let mut chars: Vec<char> = corpus.choose(&mut rng).unwrap().chars().collect();
        for _ in 0..rng.random_range(1..6) {
            if chars.is_empty() {
                break;
            }
            let at = rng.random_range(0..chars.len());
            match rng.random_range(0..5) {
                0 => {
                    chars.remove(at);
                }
                1 => chars.insert(
                    at,
                    *"'\"`/{}()[]|>=-*.,:~+$\n \t1aé中".chars().collect::<Vec<_>>().choose(&mut rng).unwrap(),
                ),
                2 => {
                    let other = rng.random_range(0..chars.len());
                    chars.swap(at, other);
                }
                3 => {
                    let end = (at + rng.random_range(1..40)).min(chars.len());
                    chars.drain(at..end);
                }
                _ => {
                    let end = (at + rng.random_range(1..40)).min(chars.len());
                    let part: Vec<char> = chars[at..end].to_vec();
                    let to = rng.random_range(0..chars.len());
                    chars.splice(to..to, part);
                }
            }
        }
        named_without_comments(&chars.into_iter().collect::<String>(), seed + round);
    }
}

/// A comment behind any token of a valid file stays, and the file means the same.
#[test]
fn comments_behind_any_token_stay() {
    for text in corpus().iter().filter(|t| cdc_dsl::parse(t).is_ok()) {
        let places: Vec<usize> = text
            .char_indices()
            .filter(|(i, c)| {
                (*c == ' ' || *c == '\n') && !text[..*i].lines().last().unwrap_or("").contains("--")
            })
            .map(|(i, _)| i)
            .collect();
        for at in places {
            for comment in [" -- kept\n", "\n -- kept\n"] {
                let with = format!("{}{comment}{}", &text[..at], &text[at..]);
                // in a text it is no comment
                let Ok(tree) = cdc_dsl::parse(&with) else { continue };
                if cdc_dsl::parse(text).as_ref() != Ok(&tree) {
                    continue;
                }
                let formatted = cdc_dsl::format(&with).unwrap();
                assert_eq!(formatted.matches("-- kept").count(), 1, "lost in\n{with}\n{formatted}");
                assert!(
                    cdc_dsl::parse(&formatted).as_ref() == Ok(&tree),
                    "another meaning:\n{with}\n{formatted}"
                );
                assert_eq!(cdc_dsl::format(&formatted).unwrap(), formatted, "changes again:\n{with}");
            }
        }
    }
}

#[test]
fn deep_and_long_texts_end_well() {
    let deep = |open: &str, close: &str| {
        format!("a.b |> where {}1{} => c.d", open.repeat(20_000), close.repeat(20_000))
    };
    for text in [
        deep("(", ")"),
        deep("-", ""),
        deep("not ", ""),
        deep("f(", ")"),
        deep("case when ", " then 1 end"),
        deep("1 + ", ""),
        deep("a or ", ""),
        format!("sink a = b {{ c = {}{} }}", "[".repeat(20_000), "]".repeat(20_000)),
        format!("sink a = b {{ c = {}{} }}", "{ c = ".repeat(20_000), "}".repeat(20_000)),
        format!("a.b |> where x in ({}1) => c.d", "1, ".repeat(20_000)),
        "a.b ".repeat(5_000),
        "'".repeat(20_001),
        "a.b => c.d\n".repeat(300),
    ] {
        let start = std::time::Instant::now();
        let compiled = compile(&text);
        _ = rendered(&compiled.diagnostics, &text);
        _ = cdc_dsl::format(&text);
        assert!(start.elapsed().as_secs() < 20, "{:?} for {}", start.elapsed(), &text[..40]);
    }
}
