//! Names to what they stand for: parameters and the environment here, sources, sinks and views in
//! [`names`](crate::names).
//!
//! Parameters come before the environment. What comes from the environment is secret and stays so through
//! every text that it is put into. A name that stands for nothing is reported where it is used; a parameter
//! that was reported once (of a wrong type, without a value) has a value that fits everything, so that it is
//! not reported again.

use crate::ast::{Expr, ExprKind, Name, Param, Span, Text, TextPart, UnaryOp};
use crate::suggest::{help_for, nearest};
use crate::values::{ParamType, is_number};
use cdc_core::catalog::Catalog;
use cdc_core::diagnostic::{Diagnostic, Severity, codes};
use cdc_core::value::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a `${NAME}` stands for.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// `None`: already reported, or not known here (a lenient environment).
    pub value: Option<Value<'static>>,
    /// From the environment.
    pub secret: bool,
}

/// A text with its `${..}` put in.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedText {
    pub text: String,
    /// Something in it comes from the environment.
    pub secret: bool,
    /// Something in it is a parameter or comes from the environment.
    pub has_param: bool,
    /// Something in it is not known.
    pub missing: bool,
}

/// What all of checking and lowering shares: the world, the parameters, the reports.
pub(crate) struct Scope<'a> {
    pub catalog: &'a Catalog<'a>,
    /// The pipeline's time zone as an offset, if it is one.
    pub zone_minutes: Option<i32>,
    pub diagnostics: Vec<Diagnostic>,
    params: BTreeMap<String, Resolved>,
    /// Secret values that got into expressions, whose types later checks explain.
    secrets: Vec<String>,
}

impl<'a> Scope<'a> {
    pub fn new(catalog: &'a Catalog<'a>) -> Scope<'a> {
        Scope {
            catalog,
            zone_minutes: Some(0),
            diagnostics: Vec::new(),
            params: BTreeMap::new(),
            secrets: Vec::new(),
        }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }

    /// Takes a parameter of the file in, with what `--set` says of it.
    pub fn declare(&mut self, param: &Param) {
        let name = &param.name;
        if name.text.eq_ignore_ascii_case("meta") {
            self.report(
                Diagnostic::error(codes::RESERVED_NAME, "\"meta\" is reserved for metadata of rows")
                    .at(name.span.range(), ""),
            );
        }
        let ty = match &param.ty {
            Some(word) => match ParamType::from_word(&word.text) {
                Some(ty) => Some(ty),
                None => {
                    let words = ParamType::WORDS.map(|(w, _)| w);
                    let mut d = Diagnostic::error(
                        codes::PARAMETER_TYPE,
                        format!("unknown type \"{}\" of parameter \"{}\"", word.text, name.text),
                    )
                    .at(word.span.range(), "");
                    d.help.extend(help_for(&word.text, "types", &words));
                    self.report(d);
                    None
                }
            },
            None => param.default.as_ref().and_then(literal_type),
        };
        let resolved = self.value_of(param, ty);
        self.params.insert(name.text.clone(), resolved);
    }

    /// A parameter of a statement that could not be read: its uses are not reported.
    pub fn declare_broken(&mut self, name: &Name) {
        self.params.entry(name.text.clone()).or_insert(Resolved { value: None, secret: false });
    }

    fn value_of(&mut self, param: &Param, ty: Option<ParamType>) -> Resolved {
        let broken = Resolved { value: None, secret: false };
        let name = &param.name.text;
        let set = self.catalog.parameters.get(name);
        if let (Some(text), Some(ty)) = (set, ty) {
            let value = ty.parse(text, self.zone_minutes);
            if value.is_none() {
                self.report(
                    Diagnostic::error(
                        codes::PARAMETER_TYPE,
                        format!("\"{text}\" does not fit parameter \"{name}\", expected {}", ty.expected()),
                    )
                    .at(param.name.span.range(), "set by --set"),
                );
            }
            return Resolved { value, secret: false };
        }
        let Some(default) = &param.default else {
            if ty.is_some() {
                self.missing(
                    param.name.span,
                    format!("parameter \"{name}\" has no value"),
                    format!("run with --set {name}=.., or write a default: = .."),
                );
            }
            return broken;
        };
        let Some(ty) = ty else {
            if param.ty.is_none() {
                self.report(
                    Diagnostic::error(codes::PARAMETER_TYPE, format!("parameter \"{name}\" needs a type"))
                        .at(default.span.range(), "its type cannot be seen from this")
                        .help("write it behind the name, such as: param since: date = \"2026-01-01\""),
                );
            }
            return broken;
        };
        self.default_value(name, ty, default)
    }

    fn default_value(&mut self, name: &str, ty: ParamType, default: &Expr) -> Resolved {
        let numeric = matches!(ty, ParamType::Int | ParamType::Decimal | ParamType::Double);
        let (text, secret) = match &default.kind {
            ExprKind::Text(text) => {
                let resolved = self.resolve_text(text, &|s| s.to_owned());
                if resolved.missing {
                    return Resolved { value: None, secret: resolved.secret };
                }
                (Some(resolved.text), resolved.secret)
            }
            ExprKind::Param(used) => {
                let resolved = self.lookup(used);
                let Some(value) = &resolved.value else { return resolved };
                (Some(plain_text(value)), resolved.secret)
            }
            ExprKind::Typed(_, text) => (Some(self.resolve_text(text, &|s| s.to_owned()).text), false),
            ExprKind::Number(n) if !is_number(n) => return Resolved { value: None, secret: false },
            ExprKind::Number(n) if numeric => (Some(n.clone()), false),
            ExprKind::Unary(UnaryOp::Negate, inner) => match &inner.kind {
                ExprKind::Number(n) if numeric => (Some(format!("-{n}")), false),
                _ => (None, false),
            },
            ExprKind::Bool(b) if ty == ParamType::Bool => (Some(b.to_string()), false),
            ExprKind::Null => return Resolved { value: Some(Value::Null), secret: false },
            _ => (None, false),
        };
        let value = text.and_then(|t| ty.parse(&t, self.zone_minutes));
        if value.is_none() {
            self.report(
                Diagnostic::error(
                    codes::PARAMETER_TYPE,
                    format!("the default does not fit parameter \"{name}\""),
                )
                .at(default.span.range(), format!("expected {}", ty.expected())),
            );
        }
        Resolved { value, secret }
    }

    /// Reports what `--set` names and the file does not.
    pub fn check_set(&mut self) {
        let declared: Vec<&str> = self.params.keys().map(String::as_str).collect();
        let mut found = Vec::new();
        for name in self.catalog.parameters.keys() {
            if !self.params.contains_key(name) {
                let mut d = Diagnostic::error(
                    codes::UNKNOWN_PARAMETER,
                    format!("--set names parameter \"{name}\", which the file does not have"),
                );
                match help_for(name, "it has", &declared) {
                    Some(help) => d.help.push(help),
                    None => d.help.push(format!("declare it: param {name}: text")),
                }
                found.push(d);
            }
        }
        self.diagnostics.extend(found);
    }

    fn missing(&mut self, span: Span, headline: String, help: String) {
        let d = if self.catalog.lenient_environment {
            Diagnostic::warning(codes::MISSING_PARAMETER, headline)
        } else {
            Diagnostic::error(codes::MISSING_PARAMETER, headline)
        };
        self.report(d.at(span.range(), "").help(help));
    }

    /// What a `${NAME}` stands for: a parameter, else a variable of the environment.
    pub fn lookup(&mut self, name: &Name) -> Resolved {
        if let Some(found) = self.params.get(&name.text) {
            return found.clone();
        }
        if let Some(text) = self.catalog.surroundings.environment(&name.text) {
            return Resolved { value: Some(Value::Text(Cow::Owned(text))), secret: true };
        }
        let near = nearest(&name.text, self.params.keys().map(String::as_str));
        let help = match near {
            Some(near) => format!("did you mean \"${{{near}}}\"?"),
            None => format!("set the environment variable {0}, or declare: param {0}: text", name.text),
        };
        let headline = format!("\"${{{}}}\" is neither a parameter nor in the environment", name.text);
        self.missing(name.span, headline, help);
        Resolved { value: None, secret: true }
    }

    /// A value that is put into an expression, and whether it is secret.
    pub fn lookup_constant(&mut self, name: &Name) -> (Value<'static>, bool) {
        let resolved = self.lookup(name);
        let value = resolved.value.unwrap_or(Value::Null);
        if resolved.secret {
            self.secrets.push(plain_text(&value));
        }
        (value, resolved.secret)
    }

    /// All reports, in which no secret value of an expression is shown: those who explain a constant do not
    /// know where it comes from.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        // shorter ones would be found in words that have nothing to do with them
        self.secrets.retain(|s| s.len() >= 4);
        for d in &mut self.diagnostics {
            let labels = d.labels.iter_mut().map(|l| &mut l.message);
            let texts = std::iter::once(&mut d.headline).chain(labels).chain(&mut d.notes).chain(&mut d.help);
            for text in texts {
                for secret in self.secrets.iter().filter(|s| text.contains(s.as_str())).collect::<Vec<_>>() {
                    *text = text.replace(secret.as_str(), "***");
                }
            }
        }
        self.diagnostics
    }

    /// Puts the `${..}` of a text in, each through `encode`. A text that is nothing but one `${..}` is that value
    /// itself: a whole url in a parameter is a url, not a part of one.
    pub fn resolve_text(&mut self, text: &Text, encode: &dyn Fn(&str) -> String) -> ResolvedText {
        let mut out = ResolvedText { text: String::new(), secret: false, has_param: false, missing: false };
        let whole = text.parts.len() == 1;
        for part in &text.parts {
            match part {
                TextPart::Literal(literal) => out.text.push_str(literal),
                TextPart::Param(name) => {
                    let resolved = self.lookup(name);
                    out.has_param = true;
                    out.secret |= resolved.secret;
                    match resolved.value {
                        Some(value) if whole => out.text.push_str(&plain_text(&value)),
                        Some(value) => out.text.push_str(&encode(&plain_text(&value))),
                        None => {
                            out.missing = true;
                            out.text.push_str(&name.text);
                        }
                    }
                }
            }
        }
        out
    }
}

/// A value as the text that stands for it.
pub(crate) fn plain_text(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// The type that a literal shows.
fn literal_type(expr: &Expr) -> Option<ParamType> {
    match &expr.kind {
        ExprKind::Text(_) => Some(ParamType::Text),
        ExprKind::Bool(_) => Some(ParamType::Bool),
        ExprKind::Number(n) if n.contains(['e', 'E']) => Some(ParamType::Double),
        ExprKind::Number(n) if n.contains('.') => Some(ParamType::Decimal),
        ExprKind::Number(_) => Some(ParamType::Int),
        ExprKind::Unary(UnaryOp::Negate, inner) => literal_type(inner),
        ExprKind::Typed(word, _) if word == "date" => Some(ParamType::Date),
        ExprKind::Typed(word, _) if word != "time" => Some(ParamType::DateTime),
        _ => None,
    }
}
