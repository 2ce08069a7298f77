//! `dsl/reference/connectors.md` is made from the connectors' own descriptors: `UPDATE_EXPECT=1` makes it anew.

use cdc_core::catalog::{ConnectorRole, OptionKind};
use cdc_testkit::servers::workspace_dir;
use std::fmt::Write;

fn takes(kind: &OptionKind) -> String {
    let words = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
    match kind {
        OptionKind::Text => "a text".into(),
        OptionKind::Name => "a name".into(),
        OptionKind::Secret => "a text that is never shown".into(),
        OptionKind::Path => "a path, relative to the pipeline file".into(),
        OptionKind::Url => "a url".into(),
        OptionKind::Integer { min, max } => format!("a whole number, {min} to {max}"),
        OptionKind::Bool => "`true` or `false`".into(),
        OptionKind::Duration => "a duration such as `\"10s\"`".into(),
        OptionKind::Bytes => "a size such as `\"16MB\"`".into(),
        OptionKind::List => "a list of texts".into(),
        OptionKind::Choice(all) => words(all),
        OptionKind::ChoiceOrMap { words: all, keys } => {
            let maps: Vec<String> = keys.iter().map(|k| format!("`{{ {k} = \"..\" }}`")).collect();
            format!("{}, {}", words(all), maps.join(", "))
        }
        OptionKind::ChoiceOrColumn { words: all, keys } => {
            let maps: Vec<String> = keys.iter().map(|k| format!("`{{ {k} = column }}`")).collect();
            format!("{}, {}", words(all), maps.join(", "))
        }
    }
}

fn page() -> String {
    let mut out = String::from(
        "# Connectors\n\nWhat sources and sinks take. (Made from the connectors' descriptors by a test of `cdc-cli`.)\n",
    );
    for connector in cdc_runtime::connectors() {
        let role = match connector.role {
            ConnectorRole::Source => "source",
            ConnectorRole::Sink => "sink",
        };
        let _ = write!(out, "\n## {role} `{}`\n\nIt {}.\n\n", connector.name, connector.help);
        out.push_str("| option | takes | without it | what it means |\n|---|---|---|---|\n");
        for option in &connector.options {
            let without = match (option.required, option.default) {
                (true, _) => "must be written".to_owned(),
                (false, Some(default)) => format!("`{default}`"),
                (false, None) => String::new(),
            };
            let help = match option.not_yet {
                Some(why) => format!("{} (not built yet: {why})", option.help),
                None => option.help.to_owned(),
            };
            // a bar would end the cell
            let cells = [format!("`{}`", option.name), takes(&option.kind), without, help];
            let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let _ = write!(out, "\n```text\n{}\n```\n", connector.example);
    }
    out
}

#[test]
fn the_page_says_what_the_connectors_say() {
    let path = workspace_dir().join("dsl/reference/connectors.md");
    let made = page();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &made).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).expect("the page is there");
    assert_eq!(written, made, "UPDATE_EXPECT=1 makes it anew");
}
