//! Expressions to expressions: qualifiers resolved, parameters put in as values, constants read.
//!
//! Whether columns exist and types fit is another question, answered by [`check`](crate::check) once for
//! each table that a flow may meet.

use super::aggregate::{Grouping, not_aggregate};
use super::literal;
use crate::ast::{Expr, ExprKind, Name, Span, TypeName, UnaryOp};
use crate::resolve::Scope;
use crate::suggest::{help_for, nearest};
use crate::values::is_number;
use cdc_core::diagnostic::{Code, Diagnostic, codes};
use cdc_core::expr::{CastType, Expr as Lowered, ExprKind as Kind, MetaField, Unit};
use cdc_core::function;
use cdc_core::plan::view::Aggregate;
use cdc_core::value::Value;
use std::borrow::Cow;

/// Where an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a flow of tables.
    Flow,
    /// In a flow that reads a view.
    FlowOfView,
    /// In a view, whose columns may be of several inputs.
    View,
}

/// What may stand before the dot of a column.
pub(crate) struct Qualifiers<'f> {
    /// Of a flow the alias, else the table's name where it is one name; of a view those of all inputs whose columns are
    /// there.
    pub tables: Vec<&'f str>,
    pub place: Place,
}

impl<'f> Qualifiers<'f> {
    pub fn new(place: Place, tables: impl IntoIterator<Item = &'f str>) -> Qualifiers<'f> {
        Qualifiers { tables: tables.into_iter().collect(), place }
    }
}

/// Functions that need a group of rows.
pub(crate) const AGGREGATES: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "count",
    "group_concat",
    "json_arrayagg",
    "json_objectagg",
    "max",
    "min",
    "std",
    "stddev",
    "sum",
    "variance",
];

/// Lowers an expression; `None` if something in it was reported.
pub(crate) fn lower_expr(scope: &mut Scope<'_>, expr: &Expr, qualifiers: &Qualifiers<'_>) -> Option<Lowered> {
    Lowering { scope, qualifiers, grouping: None }.expr(expr)
}

/// Lowers an item of an `aggregate`: the aggregates in it are computed under names that `grouping` notes.
pub(super) fn lower_item(
    scope: &mut Scope<'_>,
    expr: &Expr,
    qualifiers: &Qualifiers<'_>,
    grouping: &mut Grouping<'_>,
) -> Option<Lowered> {
    Lowering { scope, qualifiers, grouping: Some(grouping) }.expr(expr)
}

struct Lowering<'s, 'a, 'q, 'g, 'e> {
    scope: &'s mut Scope<'a>,
    qualifiers: &'q Qualifiers<'q>,
    /// Of an item of an `aggregate`.
    grouping: Option<&'g mut Grouping<'e>>,
}

impl Lowering<'_, '_, '_, '_, '_> {
    fn error(&mut self, code: Code, headline: impl Into<String>, span: Span, label: &str) -> Option<Kind> {
        self.scope.report(Diagnostic::error(code, headline).at(span.range(), label));
        None
    }

    fn expr(&mut self, expr: &Expr) -> Option<Lowered> {
        let of_group = match &mut self.grouping {
            Some(grouping) => grouping.column(expr, self.qualifiers, self.scope),
            None => None,
        };
        let kind = match of_group {
            Some(column) => Kind::Column(column?),
            None => self.kind(expr)?,
        };
        Some(Lowered { kind, span: expr.span.range() })
    }

    fn boxed(&mut self, expr: &Expr) -> Option<Box<Lowered>> {
        self.expr(expr).map(Box::new)
    }

    /// All of them, so that each gets its reports.
    fn all(&mut self, exprs: &[Expr]) -> Option<Vec<Lowered>> {
        let lowered: Vec<Option<Lowered>> = exprs.iter().map(|e| self.expr(e)).collect();
        lowered.into_iter().collect()
    }

    fn kind(&mut self, expr: &Expr) -> Option<Kind> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Column { qualifier, name } => self.column(qualifier.as_ref(), name),
            ExprKind::Param(name) => Some(match self.scope.lookup_constant(name) {
                (value, true) => Kind::Secret(cdc_core::expr::Secret(value)),
                (value, false) => Kind::Literal(value),
            }),
            ExprKind::Text(text) => {
                let text = self.scope.resolve_text(text, &|s| s.to_owned());
                let value = Value::Text(Cow::Owned(text.text));
                Some(if text.secret {
                    Kind::Secret(cdc_core::expr::Secret(value))
                } else {
                    Kind::Literal(value)
                })
            }
            ExprKind::Number(text) => match literal::number(text) {
                Ok(value) => Some(Kind::Literal(value)),
                Err(_) if !is_number(text) => Some(Kind::Literal(Value::Null)),
                Err(why) => self.error(codes::OUT_OF_RANGE, format!("\"{text}\" is out of range"), span, why),
            },
            ExprKind::Hex(digits) => {
                // with its quotes a text is three longer than its digits, with 0x two
                let quoted = span.end - span.start != digits.len() + 2;
                match literal::hex(digits, quoted) {
                    Some(value) => Some(Kind::Literal(value)),
                    None => {
                        let headline = "a hexadecimal text has an even number of digits, 0 to 9 and a to f";
                        self.error(codes::MALFORMED_NUMBER, headline, span, "")
                    }
                }
            }
            ExprKind::Bits(digits) => match literal::bits(digits) {
                Some(value) => Some(Kind::Literal(value)),
                None => {
                    let headline = "a bit text has 1 to 64 digits, each 0 or 1";
                    self.error(codes::MALFORMED_NUMBER, headline, span, "")
                }
            },
            ExprKind::Bool(b) => Some(Kind::Literal(Value::Int(i64::from(*b)))),
            ExprKind::Null => Some(Kind::Literal(Value::Null)),
            ExprKind::Typed(word, text) => {
                let resolved = self.scope.resolve_text(text, &|s| s.to_owned());
                match literal::typed(word, resolved.text.trim()) {
                    Some(value) => Some(Kind::Literal(value)),
                    None if resolved.missing => Some(Kind::Literal(Value::Null)),
                    None => {
                        let headline = if resolved.secret {
                            format!("this is no {word}")
                        } else {
                            format!("\"{}\" is no {word}", resolved.text)
                        };
                        self.error(codes::OUT_OF_RANGE, headline, text.span, "")
                    }
                }
            }
            ExprKind::Interval(count, unit) => {
                let (count, unit) = (self.boxed(count), self.unit(&unit.text, unit.span));
                Some(Kind::Interval(count?, unit?))
            }
            ExprKind::Unit(unit) => Some(Kind::Unit(self.unit(&unit.text, unit.span)?)),
            ExprKind::Unary(UnaryOp::Negate, inner) if matches!(inner.kind, ExprKind::Number(_)) => {
                match self.kind(inner)? {
                    Kind::Literal(value) => match literal::negated(&value) {
                        Some(value) => Some(Kind::Literal(value)),
                        None if value.is_null() => Some(Kind::Literal(value)),
                        None => self.error(codes::OUT_OF_RANGE, "this number is out of range", span, ""),
                    },
                    other => Some(other),
                }
            }
            ExprKind::Unary(op, inner) => Some(Kind::Unary(*op, self.boxed(inner)?)),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.boxed(a), self.boxed(b));
                Some(Kind::Binary(*op, a?, b?))
            }
            ExprKind::Bars(a, b) => {
                self.expr(a);
                self.expr(b);
                None
            }
            ExprKind::IsNull { operand, negated } => {
                Some(Kind::IsNull { operand: self.boxed(operand)?, negated: *negated })
            }
            ExprKind::IsTruth { operand, truth, negated } => {
                Some(Kind::IsTruth { operand: self.boxed(operand)?, truth: *truth, negated: *negated })
            }
            ExprKind::Between { operand, low, high, negated } => {
                let (operand, low, high) = (self.boxed(operand), self.boxed(low), self.boxed(high));
                Some(Kind::Between { operand: operand?, low: low?, high: high?, negated: *negated })
            }
            ExprKind::In { operand, list, negated } => {
                let (operand, list) = (self.boxed(operand), self.all(list));
                Some(Kind::In { operand: operand?, list: list?, negated: *negated })
            }
            ExprKind::Like { operand, pattern, escape, negated } => {
                let (operand, pattern) = (self.boxed(operand), self.boxed(pattern));
                let escape = match escape {
                    Some(text) => Some(self.escape(text)?),
                    None => None,
                };
                Some(Kind::Like { operand: operand?, pattern: pattern?, escape, negated: *negated })
            }
            ExprKind::Case { operand, branches, otherwise } => {
                let operand = operand.as_ref().map(|o| self.boxed(o));
                let branches: Vec<_> = branches.iter().map(|(w, t)| (self.expr(w), self.expr(t))).collect();
                let otherwise = otherwise.as_ref().map(|o| self.boxed(o));
                let branches: Option<Vec<_>> = branches.into_iter().map(|(w, t)| Some((w?, t?))).collect();
                Some(Kind::Case {
                    operand: transpose(operand)?,
                    branches: branches?,
                    otherwise: transpose(otherwise)?,
                })
            }
            ExprKind::Cast(inner, ty) => {
                let (inner, ty) = (self.boxed(inner), self.cast_type(ty));
                Some(Kind::Cast(inner?, ty?))
            }
            ExprKind::Collate(inner, name) => {
                Some(Kind::Collate(self.boxed(inner)?, name.text.to_ascii_lowercase()))
            }
            ExprKind::Call { name, distinct, star, arguments } => {
                let is_aggregate = AGGREGATES.contains(&name.text.as_str());
                if !is_aggregate && (*star || *distinct) {
                    not_aggregate(name, *star, self.scope);
                    return None;
                }
                if self.grouping.is_some() {
                    // a misspelt aggregate takes what no other function takes
                    self.function(name, expr)?;
                }
                let arguments = self.all(arguments);
                if is_aggregate {
                    let headline = format!("aggregate function \"{}\" outside of \"aggregate\"", name.text);
                    self.scope.report(
                        Diagnostic::error(codes::AGGREGATE_MISPLACED, headline)
                            .at(name.span.range(), "")
                            .help(match self.qualifiers.place {
                                Place::View => "group rows first: |> aggregate .. as name group by ..",
                                _ => "group rows in a view: view name = from .. |> aggregate .. as name group by ..",
                            }),
                    );
                    return None;
                }
                if self.grouping.is_none() {
                    self.function(name, expr)?;
                }
                Some(Kind::Call(name.text.clone(), arguments?))
            }
        }
    }

    fn unit(&mut self, word: &str, span: Span) -> Option<Unit> {
        let found = Unit::from_name(word);
        if found.is_none() {
            let names = Unit::ALL.map(Unit::name);
            let headline = match word {
                // day_hour and the like
                _ if word.contains('_') => format!("the unit \"{word}\" of several parts is not built"),
                _ => format!("\"{word}\" is no unit"),
            };
            let mut d = Diagnostic::error(codes::TYPE_MISMATCH, headline).at(span.range(), "");
            d.help.extend(help_for(word, "units", &names));
            self.scope.report(d);
        }
        found
    }

    /// A function that can be called so, whatever its arguments are.
    fn function(&mut self, name: &Name, call: &Expr) -> Option<()> {
        let count = call.children().len();
        let text = &name.text;
        let d = match function::find(text) {
            None => {
                let d = Diagnostic::error(codes::UNKNOWN_FUNCTION, format!("unknown function \"{text}\""))
                    .at(name.span.range(), "");
                let grouped = self.grouping.is_some();
                let aggregates = Aggregate::ALL.into_iter().filter(|_| grouped).map(Aggregate::name);
                match nearest(text, aggregates.chain(function::names())) {
                    Some(near) => d.help(format!("did you mean \"{near}\"?")),
                    None => d,
                }
            }
            Some(found) => match found.refused {
                Some(reason) => {
                    let d = Diagnostic::error(codes::UNKNOWN_FUNCTION, format!("\"{text}\" {reason}"))
                        .at(name.span.range(), "");
                    let of_flows = found.help.contains("`meta.");
                    if of_flows && self.qualifiers.place != Place::Flow { d } else { d.help(found.help) }
                }
                None if !found.takes(count) => {
                    let plural = if count == 1 { "" } else { "s" };
                    let headline = format!("\"{text}\" does not take {count} argument{plural}");
                    Diagnostic::error(codes::ARGUMENT_COUNT, headline)
                        .at(call.span.range(), "")
                        .help(format!("it is called as {}", found.signature))
                }
                None => return Some(()),
            },
        };
        self.scope.report(d);
        None
    }

    fn escape(&mut self, text: &crate::ast::Text) -> Option<char> {
        let resolved = self.scope.resolve_text(text, &|s| s.to_owned());
        let mut chars = resolved.text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Some(c),
            _ => {
                self.error(codes::OUT_OF_RANGE, "\"escape\" takes one character", text.span, "");
                None
            }
        }
    }

    fn column(&mut self, qualifier: Option<&Name>, name: &Name) -> Option<Kind> {
        let Some(qualifier) = qualifier else { return Some(Kind::Column(name.text.clone())) };
        let place = self.qualifiers.place;
        if qualifier.text.eq_ignore_ascii_case("meta") {
            let Some(field) = MetaField::from_name(&name.text) else {
                let names = MetaField::ALL.map(MetaField::name);
                let mut d = Diagnostic::error(
                    codes::UNKNOWN_META,
                    format!("unknown metadata field \"{}\"", name.text),
                )
                .at(name.span.range(), "");
                d.help.extend(help_for(&name.text, "fields of meta", &names));
                self.scope.report(d);
                return None;
            };
            if place != Place::Flow {
                self.scope.report(
                    Diagnostic::error(codes::NOT_OF_VIEWS, format!("\"meta.{}\" in a view", field.name()))
                        .at(qualifier.span.to(name.span).range(), "")
                        .note("it is of one change of one row, and a row of a view may come of many")
                        .help("take a column that says it, such as the time of a change in the row itself"),
                );
                return None;
            }
            return Some(Kind::Meta(field));
        }
        let tables = &self.qualifiers.tables;
        if tables.contains(&qualifier.text.as_str()) {
            let column = name.text.clone();
            return Some(match place {
                Place::View => Kind::Of { table: qualifier.text.clone(), column },
                _ => Kind::Column(column),
            });
        }
        let mut d =
            Diagnostic::error(codes::UNKNOWN_NAME, format!("unknown table or alias \"{}\"", qualifier.text))
                .at(qualifier.span.range(), "");
        d.help.push(match (place, tables.as_slice()) {
            (Place::View, []) => {
                format!(
                    "behind \"select\", \"aggregate\" and \"union\" columns stand alone: \"{}\"",
                    name.text
                )
            }
            (_, []) => format!("columns of this flow stand alone: \"{}\"", name.text),
            (_, [table]) => format!("write \"{table}.{}\", or just \"{}\"", name.text, name.text),
            _ => help_for(&qualifier.text, "the inputs are", tables).unwrap_or_default(),
        });
        self.scope.report(d);
        None
    }

    fn cast_type(&mut self, ty: &TypeName) -> Option<CastType> {
        let n = |i: usize| ty.arguments.get(i).copied();
        let most = match ty.words.as_str() {
            "decimal" | "dec" => 2,
            "char" | "binary" | "datetime" | "time" | "nchar" => 1,
            _ => 0,
        };
        let fsp = n(0).unwrap_or(0);
        let found = match ty.words.as_str() {
            "signed" | "signed integer" | "signed int" => CastType::Signed,
            "unsigned" | "unsigned integer" | "unsigned int" => CastType::Unsigned,
            "decimal" | "dec" => {
                let (precision, scale) = (n(0).unwrap_or(10), n(1).unwrap_or(0));
                if !(1..=65).contains(&precision) || scale > 30 || scale > precision {
                    let label = "1 to 65 digits, 0 to 30 of them behind the dot";
                    self.error(codes::OUT_OF_RANGE, "this DECIMAL is out of range", ty.span, label);
                    return None;
                }
                CastType::Decimal { precision: precision as u8, scale: scale as u8 }
            }
            "double" | "double precision" | "real" => CastType::Double,
            "float" => CastType::Float,
            "char" | "nchar" => CastType::Char { length: n(0) },
            "binary" => CastType::Binary { length: n(0) },
            "date" => CastType::Date,
            "datetime" if fsp <= 6 => CastType::DateTime { fsp: fsp as u8 },
            "time" if fsp <= 6 => CastType::Time { fsp: fsp as u8 },
            "datetime" | "time" => {
                self.error(codes::OUT_OF_RANGE, "a fraction has at most 6 digits", ty.span, "");
                return None;
            }
            "year" => CastType::Year,
            "json" => CastType::Json,
            other => {
                const TYPES: &[&str] = &[
                    "signed", "unsigned", "decimal", "double", "float", "char", "binary", "date", "datetime",
                    "time", "year", "json",
                ];
                let mut d =
                    Diagnostic::error(codes::TYPE_MISMATCH, format!("\"{other}\" is no type of a cast"))
                        .at(ty.span.range(), "");
                d.help.push(match other {
                    "int" | "integer" | "bigint" => "write \"signed\" or \"unsigned\"".to_owned(),
                    "varchar" | "text" | "string" => "write \"char\"".to_owned(),
                    "timestamp" => "write \"datetime\"".to_owned(),
                    _ => help_for(other, "types", TYPES).unwrap_or_default(),
                });
                self.scope.report(d);
                return None;
            }
        };
        if ty.arguments.len() > most {
            self.error(
                codes::ARGUMENT_COUNT,
                format!("type \"{}\" takes no such numbers", ty.words),
                ty.span,
                "",
            );
            return None;
        }
        Some(found)
    }
}

/// Nothing there, or something that lowered; `None` if it did not.
#[allow(clippy::option_option)]
fn transpose<T>(inner: Option<Option<T>>) -> Option<Option<T>> {
    match inner {
        None => Some(None),
        Some(Some(value)) => Some(Some(value)),
        Some(None) => None,
    }
}
