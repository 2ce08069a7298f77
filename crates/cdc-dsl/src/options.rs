//! Options, checked and typed by their descriptors: of connectors, of the pipeline, of flows.

use crate::ast::{OptionBlock, OptionEntry, OptionValue as Written, OptionValueKind, Span};
use crate::parser::parse_option_value;
use crate::resolve::{ResolvedText, Scope, plain_text};
use crate::suggest::help_for;
use crate::values::{is_number, parse_bytes, parse_duration};
use cdc_core::catalog::{OptionDescriptor, OptionKind};
use cdc_core::diagnostic::{Diagnostic, codes};
use cdc_core::plan::{OptionValue, Options};

/// Checks a block. `owner` is for messages, such as `connector "mysql"`, and `place` is where an option that
/// is missing is reported.
pub(crate) fn check_options(
    scope: &mut Scope<'_>,
    block: Option<&OptionBlock>,
    descriptors: &[OptionDescriptor],
    owner: &str,
    place: Span,
) -> Options {
    let mut options = Options::default();
    let mut seen: Vec<&OptionEntry> = Vec::new();
    for entry in block.iter().flat_map(|b| &b.entries) {
        let name = &entry.name.text;
        let Some(descriptor) = descriptors.iter().find(|d| d.name == name) else {
            let names: Vec<&str> = descriptors.iter().map(|d| d.name).collect();
            let mut d = Diagnostic::error(codes::UNKNOWN_OPTION, format!("{owner} has no option \"{name}\""))
                .at(entry.name.span.range(), "");
            d.help.extend(help_for(name, "its options", &names));
            scope.report(d);
            continue;
        };
        if let Some(first) = seen.iter().find(|e| e.name.text == *name) {
            scope.report(
                Diagnostic::error(codes::DUPLICATE_OPTION, format!("option \"{name}\" is given twice"))
                    .at(entry.name.span.range(), "again here")
                    .at(first.name.span.range(), "first here"),
            );
            continue;
        }
        seen.push(entry);
        if let Some(reason) = descriptor.not_yet {
            let d = Diagnostic::error(codes::OPTION_NOT_YET, format!("option \"{name}\" is not built yet"))
                .at(entry.name.span.range(), "");
            scope.report(if reason.is_empty() { d } else { d.note(reason) });
            continue;
        }
        if let Some(value) = convert(scope, descriptor, &entry.value) {
            options.0.insert(name.clone(), value);
        }
    }
    for descriptor in descriptors {
        let broken = block.iter().flat_map(|b| &b.broken).any(|n| n.text == descriptor.name);
        if broken || seen.iter().any(|e| e.name.text == descriptor.name) {
            continue;
        }
        if descriptor.required {
            // a name that is nearly right was reported already, as unknown
            let misspelt = block.iter().flat_map(|b| &b.entries).any(|e| {
                !descriptors.iter().any(|d| d.name == e.name.text)
                    && crate::suggest::nearest(&e.name.text, [descriptor.name]).is_some()
            });
            if !misspelt {
                scope.report(
                    Diagnostic::error(
                        codes::MISSING_OPTION,
                        format!("{owner} needs the option \"{}\"", descriptor.name),
                    )
                    .at(place.range(), "")
                    .help(format!("{} = ..: {}", descriptor.name, descriptor.help)),
                );
            }
        } else if let Some(default) = descriptor.default
            && let Some(value) = default_value(scope, descriptor, default)
        {
            options.0.insert(descriptor.name.to_owned(), value);
        }
    }
    options
}

/// A default "as it would be written"; what is no value by itself, such as a path without quotes, is a text.
fn default_value(scope: &mut Scope<'_>, descriptor: &OptionDescriptor, text: &str) -> Option<OptionValue> {
    let written = parse_option_value(text).unwrap_or_else(|| Written {
        kind: OptionValueKind::Text(crate::ast::Text {
            parts: vec![crate::ast::TextPart::Literal(text.to_owned())],
            span: Span::default(),
        }),
        span: Span::default(),
    });
    let before = scope.diagnostics.len();
    let value = convert(scope, descriptor, &written);
    // a default that does not fit its own descriptor is the connector's mistake, not the file's
    scope.diagnostics.truncate(before);
    value
}

/// A scalar with its `${..}` put in.
enum Scalar {
    Text(ResolvedText),
    Number(String),
    Word(String),
}

fn scalar(scope: &mut Scope<'_>, value: &Written, url: bool) -> Option<Scalar> {
    let encode = |s: &str| if url { percent_encode(s) } else { s.to_owned() };
    match &value.kind {
        OptionValueKind::Text(text) => Some(Scalar::Text(scope.resolve_text(text, &encode))),
        OptionValueKind::Number(number) => Some(Scalar::Number(number.clone())),
        OptionValueKind::Word(word) => Some(Scalar::Word(word.clone())),
        OptionValueKind::Param(name) => {
            let resolved = scope.lookup(name);
            let missing = resolved.value.is_none();
            let text = resolved.value.map_or_else(|| name.text.clone(), |v| plain_text(&v));
            Some(Scalar::Text(ResolvedText { text, secret: resolved.secret, has_param: true, missing }))
        }
        OptionValueKind::List(_) | OptionValueKind::Map(_) => None,
    }
}

fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// What an option takes, after "takes".
fn describe(kind: &OptionKind) -> String {
    let words = |words: &[&str]| words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(", ");
    match kind {
        OptionKind::Text | OptionKind::Secret => "a text in quotes".to_owned(),
        OptionKind::Name => "a name".to_owned(),
        OptionKind::Path => "a file or folder in quotes".to_owned(),
        OptionKind::Url => "a url in quotes".to_owned(),
        OptionKind::Integer { min, max } if *max == i64::MAX => format!("a whole number from {min}"),
        OptionKind::Integer { min, max } => format!("a whole number from {min} to {max}"),
        OptionKind::Bool => "true or false".to_owned(),
        OptionKind::Duration => "a duration such as \"10s\", \"500ms\" or \"1h30m\"".to_owned(),
        OptionKind::Bytes => "a size such as \"16MB\"".to_owned(),
        OptionKind::List => "a list of texts such as [\"a\", \"b\"]".to_owned(),
        OptionKind::Choice(choices) => format!("one of {}", words(choices)),
        OptionKind::ChoiceOrMap { words: w, keys } => {
            let maps: Vec<String> = keys.iter().map(|k| format!("{{ {k} = \"..\" }}")).collect();
            let both = [words(w), maps.join(", ")].into_iter().filter(|s| !s.is_empty());
            format!("one of {}", both.collect::<Vec<_>>().join(", "))
        }
        OptionKind::ChoiceOrColumn { words: w, keys } => {
            let maps: Vec<String> = keys.iter().map(|k| format!("{{ {k} = column }}")).collect();
            format!("one of {}, {}", words(w), maps.join(", "))
        }
    }
}

fn found(value: &Written) -> &'static str {
    match &value.kind {
        OptionValueKind::Text(_) => "this is a text",
        OptionValueKind::Number(_) => "this is a number",
        OptionValueKind::Word(w) if w == "true" || w == "false" => "this is true or false",
        OptionValueKind::Word(_) => "this is a word",
        OptionValueKind::Param(_) => "this is a parameter",
        OptionValueKind::List(_) => "this is a list",
        OptionValueKind::Map(_) => "this is a map",
    }
}

fn wrong_type(scope: &mut Scope<'_>, descriptor: &OptionDescriptor, value: &Written) {
    let headline = format!("option \"{}\" takes {}", descriptor.name, describe(&descriptor.kind));
    let mut d = Diagnostic::error(codes::OPTION_TYPE, headline).at(value.span.range(), found(value));
    if descriptor.kind == OptionKind::List && matches!(value.kind, OptionValueKind::Text(_)) {
        d.help.push("put it in brackets: [\"..\"]".to_owned());
    }
    scope.report(d);
}

fn wrong_value(scope: &mut Scope<'_>, descriptor: &OptionDescriptor, span: Span, shown: &str) {
    let takes = describe(&descriptor.kind);
    scope.report(
        Diagnostic::error(
            codes::OPTION_VALUE,
            format!("{shown} is no value for option \"{}\"", descriptor.name),
        )
        .at(span.range(), format!("expected {takes}")),
    );
}

/// A text in messages; a secret one is not shown.
fn shown(text: &ResolvedText) -> String {
    if text.secret { "the text from the environment".to_owned() } else { format!("\"{}\"", text.text) }
}

fn convert(scope: &mut Scope<'_>, descriptor: &OptionDescriptor, value: &Written) -> Option<OptionValue> {
    match &descriptor.kind {
        OptionKind::List => return list(scope, descriptor, value),
        OptionKind::ChoiceOrMap { words, keys } | OptionKind::ChoiceOrColumn { words, keys } => {
            if let OptionValueKind::Map(map) = &value.kind {
                return choice_map(scope, descriptor, map, keys);
            }
            return choice(scope, descriptor, value, words);
        }
        OptionKind::Choice(words) => return choice(scope, descriptor, value, words),
        _ => {}
    }
    let url = descriptor.kind == OptionKind::Url;
    let Some(scalar) = scalar(scope, value, url) else {
        wrong_type(scope, descriptor, value);
        return None;
    };
    // what is not known here, or no number at all, has been reported and can be of any type
    let is_text = matches!(
        descriptor.kind,
        OptionKind::Text | OptionKind::Name | OptionKind::Path | OptionKind::Url | OptionKind::Secret
    );
    match &scalar {
        Scalar::Text(t) if t.missing && !is_text => return None,
        Scalar::Number(n) if !is_number(n) => return None,
        _ => {}
    }
    let result = match (&descriptor.kind, &scalar) {
        (OptionKind::Secret, Scalar::Text(t)) => OptionValue::Secret(t.text.clone()),
        (OptionKind::Name, Scalar::Word(w)) => OptionValue::Text(w.clone()),
        (OptionKind::Text | OptionKind::Name | OptionKind::Path | OptionKind::Url, Scalar::Text(t)) => {
            if t.secret { OptionValue::Secret(t.text.clone()) } else { OptionValue::Text(t.text.clone()) }
        }
        (OptionKind::Integer { min, max }, _) => {
            let text = match &scalar {
                Scalar::Number(n) => n,
                Scalar::Text(t) if t.has_param => &t.text,
                _ => {
                    wrong_type(scope, descriptor, value);
                    return None;
                }
            };
            match text.trim().parse::<i64>() {
                Ok(n) if (*min..=*max).contains(&n) => OptionValue::Integer(n),
                _ => {
                    let text = if let Scalar::Text(t) = &scalar { shown(t) } else { text.clone() };
                    wrong_value(scope, descriptor, value.span, &text);
                    return None;
                }
            }
        }
        (OptionKind::Bool, Scalar::Word(w)) if w == "true" || w == "false" => OptionValue::Bool(w == "true"),
        (OptionKind::Bool, Scalar::Text(t)) if t.has_param => match t.text.as_str() {
            "true" | "1" => OptionValue::Bool(true),
            "false" | "0" => OptionValue::Bool(false),
            _ => {
                wrong_value(scope, descriptor, value.span, &shown(t));
                return None;
            }
        },
        (OptionKind::Duration | OptionKind::Bytes, _) => {
            let text = match &scalar {
                Scalar::Text(t) => &t.text,
                Scalar::Word(w) => w,
                Scalar::Number(n) => n,
            };
            let parsed = if descriptor.kind == OptionKind::Duration {
                parse_duration(text).map(OptionValue::Duration)
            } else {
                parse_bytes(text).map(OptionValue::Integer)
            };
            let Some(parsed) = parsed else {
                let text = if let Scalar::Text(t) = &scalar { shown(t) } else { format!("\"{text}\"") };
                wrong_value(scope, descriptor, value.span, &text);
                return None;
            };
            parsed
        }
        _ => {
            wrong_type(scope, descriptor, value);
            return None;
        }
    };
    Some(result)
}

fn list(scope: &mut Scope<'_>, descriptor: &OptionDescriptor, value: &Written) -> Option<OptionValue> {
    let OptionValueKind::List(items) = &value.kind else {
        wrong_type(scope, descriptor, value);
        return None;
    };
    let mut texts = Vec::new();
    for item in items {
        match scalar(scope, item, false) {
            Some(Scalar::Text(t)) => texts.push(t.text),
            Some(Scalar::Word(w)) => texts.push(w),
            _ => {
                wrong_type(scope, descriptor, item);
                return None;
            }
        }
    }
    Some(OptionValue::List(texts))
}

fn choice(
    scope: &mut Scope<'_>,
    descriptor: &OptionDescriptor,
    value: &Written,
    words: &[&str],
) -> Option<OptionValue> {
    let (text, secret) = match scalar(scope, value, false) {
        Some(Scalar::Text(t)) if t.missing => return None,
        Some(Scalar::Text(t)) => (t.text, t.secret),
        Some(Scalar::Word(w)) => (w, false),
        _ => {
            wrong_type(scope, descriptor, value);
            return None;
        }
    };
    if words.contains(&text.as_str()) {
        return Some(OptionValue::Text(text));
    }
    let what = if secret { "the text from the environment".to_owned() } else { format!("\"{text}\"") };
    let headline = format!("{what} is no value for option \"{}\"", descriptor.name);
    let mut d = Diagnostic::error(codes::OPTION_VALUE, headline)
        .at(value.span.range(), format!("expected {}", describe(&descriptor.kind)));
    if let Some(near) = crate::suggest::nearest(&text, words.iter().copied()) {
        d.help.push(format!("did you mean \"{near}\"?"));
    }
    scope.report(d);
    None
}

/// `{ timestamp = ".." }` or `{ last = column }`: exactly one entry.
fn choice_map(
    scope: &mut Scope<'_>,
    descriptor: &OptionDescriptor,
    map: &OptionBlock,
    keys: &[&str],
) -> Option<OptionValue> {
    let [entry] = map.entries.as_slice() else {
        // what could not be read was reported
        if !map.broken.is_empty() {
            return None;
        }
        wrong_value(scope, descriptor, map.span, "a map without exactly one entry");
        return None;
    };
    let name = entry.name.text.as_str();
    if !keys.contains(&name) {
        let headline = format!("option \"{}\" has no form \"{name}\"", descriptor.name);
        let mut d = Diagnostic::error(codes::UNKNOWN_OPTION, headline).at(entry.name.span.range(), "");
        d.help.extend(help_for(name, "its forms", keys));
        scope.report(d);
        return None;
    }
    let takes_column = matches!(descriptor.kind, OptionKind::ChoiceOrColumn { .. });
    let map = |value| Some(OptionValue::Map(Options([(name.to_owned(), value)].into())));
    match scalar(scope, &entry.value, false) {
        Some(Scalar::Text(t)) if t.missing => None,
        Some(Scalar::Text(t)) if t.secret => map(OptionValue::Secret(t.text)),
        Some(Scalar::Text(t)) => map(OptionValue::Text(t.text)),
        Some(Scalar::Word(w)) if takes_column => map(OptionValue::Text(w)),
        _ => {
            let takes = if takes_column { "the name of a column" } else { "a text in quotes" };
            let headline = format!("\"{name}\" of option \"{}\" takes {takes}", descriptor.name);
            scope.report(
                Diagnostic::error(codes::OPTION_TYPE, headline)
                    .at(entry.value.span.range(), found(&entry.value)),
            );
            None
        }
    }
}
