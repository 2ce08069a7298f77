//! The binder: from an expression with names to one with indexes, types and ready literals.
//!
//! A part that has been refused is `None`; what is around it is not judged, so one mistake is reported once.

use super::cast::{Conversion, Room, double_of};
use super::collation::Collator;
use super::number::{Number, NumberType};
use super::temporal::{parse_datetime, parse_time};
use super::text::{LikePattern, is_utf8};
use super::types::{Class, Coercibility, ExprType, merge_collations, unify};
use super::{
    BoundExpr, Branch, Call, Comparison, Decimal, Env, Evaluator, Node, Pattern, Ready, RowMeta, nearest,
};
use crate::codes;
use crate::diagnostic::{Diagnostic, Span};
use crate::event::{Op, Origin};
use crate::expr::{BinaryOp, CastType, Expr, ExprKind, MetaField, Secret, UnaryOp, Unit};
use crate::function;
use crate::schema::{Charset, ColumnType, TableId, TableSchema, same_name};
use crate::value::Value;
use std::sync::Arc;

/// Expressions nested deeper than this are refused: binding and evaluating go down as deep. Chains of
/// `and` and of `or` are one level.
const MAX_DEPTH: usize = 120;

/// The names that an expression may use.
pub(crate) struct Scope<'s> {
    pub(crate) table: &'s TableId,
    pub(crate) columns: Vec<ScopeColumn>,
}

pub(crate) struct ScopeColumn {
    pub(crate) name: Arc<str>,
    /// What it may be qualified with.
    pub(crate) of: Option<Arc<str>>,
    /// Its place among the values that are given to `eval`.
    pub(crate) index: usize,
    pub(crate) ty: ExprType,
}

impl<'s> Scope<'s> {
    pub(crate) fn of_table(schema: &'s TableSchema) -> Scope<'s> {
        let column = |(index, c): (usize, &crate::Column)| ScopeColumn {
            name: c.name.clone(),
            of: None,
            index,
            ty: ExprType::new(c.ty.clone(), c.nullable),
        };
        Scope { table: &schema.id, columns: schema.columns.iter().enumerate().map(column).collect() }
    }
}

impl Scope<'_> {
    /// The column of this name, of the input that is named or of the only one that has it.
    pub(crate) fn find(
        &self,
        of: Option<&str>,
        name: &str,
        span: &Span,
    ) -> Result<&ScopeColumn, Box<Diagnostic>> {
        let is_of = |c: &&ScopeColumn| match (of, &c.of) {
            (None, _) => true,
            (Some(of), Some(alias)) => same_name(alias, of),
            (Some(_), None) => false,
        };
        let mut found = self.columns.iter().filter(is_of).filter(|c| same_name(&c.name, name));
        match (found.next(), found.next()) {
            (Some(column), None) => return Ok(column),
            (Some(one), Some(other)) => {
                let places = [one, other].map(|c| match &c.of {
                    Some(of) => format!("{of}.{}", c.name),
                    None => c.name.to_string(),
                });
                let headline = format!("column \"{name}\" is there more than once");
                return Err(Box::new(
                    Diagnostic::error(codes::AMBIGUOUS_COLUMN, headline)
                        .at(span.clone(), "")
                        .help(format!("write {}", places.join(" or "))),
                ));
            }
            _ => {}
        }
        let mut aliases: Vec<&str> = self.columns.iter().filter_map(|c| c.of.as_deref()).collect();
        aliases.dedup();
        match of {
            Some(of) if !aliases.iter().any(|a| same_name(a, of)) => {
                let headline = format!("no input is called \"{of}\" here");
                let diagnostic = Diagnostic::error(codes::UNKNOWN_COLUMN, headline).at(span.clone(), "");
                Err(Box::new(if aliases.is_empty() {
                    diagnostic.help("behind a select or an aggregate columns stand for themselves")
                } else {
                    diagnostic.help(format!("there are {}", aliases.join(", ")))
                }))
            }
            Some(of) => {
                let names = self.columns.iter().filter(is_of).map(|c| &*c.name);
                Err(Box::new(unknown_column(name, span, &format!("\"{of}\""), names)))
            }
            None => {
                let names = self.columns.iter().map(|c| &*c.name);
                Err(Box::new(unknown_column(name, span, &format!("\"{}\"", self.table), names)))
            }
        }
    }
}

/// `UNKNOWN_COLUMN`, with the nearest name.
pub(crate) fn unknown_column<'n>(
    name: &str,
    span: &Span,
    of: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Diagnostic {
    let diagnostic = Diagnostic::error(codes::UNKNOWN_COLUMN, format!("unknown column \"{name}\" of {of}"))
        .at(span.clone(), "not a column here");
    match nearest(name, names.clone()) {
        Some(near) => diagnostic.help(format!("the nearest name is \"{near}\"")),
        None => diagnostic.help(format!("the columns are {}", names.collect::<Vec<_>>().join(", "))),
    }
}

/// The arguments of a call, bound.
pub(crate) struct Args {
    /// As written.
    pub(crate) name: String,
    pub(crate) args: Vec<BoundExpr>,
    /// The unit that one of them names.
    pub(crate) unit: Option<Unit>,
    pub(crate) span: Span,
}

pub(crate) struct Binder<'s> {
    scope: &'s Scope<'s>,
    errors: Vec<Diagnostic>,
    depth: usize,
}

impl<'s> Binder<'s> {
    pub(crate) fn new(scope: &'s Scope<'s>) -> Binder<'s> {
        Binder { scope, errors: Vec::new(), depth: 0 }
    }

    /// What was bound, if nothing was refused.
    pub(crate) fn finish<T>(self, bound: Option<T>) -> Result<T, Vec<Diagnostic>> {
        match bound {
            Some(bound) if self.errors.is_empty() => Ok(bound),
            _ => Err(self.errors),
        }
    }

    pub(crate) fn refuse<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.errors.push(diagnostic);
        None
    }

    pub(crate) fn mismatch(&self, span: &Span, headline: impl Into<String>) -> Diagnostic {
        Diagnostic::error(codes::TYPE_MISMATCH, headline).at(span.clone(), "")
    }

    pub(crate) fn bind(&mut self, expr: &Expr) -> Option<BoundExpr> {
        if self.depth >= MAX_DEPTH {
            let headline = format!("the expression is nested more than {MAX_DEPTH} deep");
            return self
                .refuse(Diagnostic::error(codes::TOO_DEEP, headline).at(expr.span.clone(), "from here"));
        }
        self.depth += 1;
        let bound = self.kind(expr);
        self.depth -= 1;
        bound
    }

    /// An expression that is used as a condition.
    pub(crate) fn condition(&mut self, expr: &Expr) -> Option<BoundExpr> {
        let bound = self.bind(expr)?;
        self.ensure_condition(bound)
    }

    fn kind(&mut self, expr: &Expr) -> Option<BoundExpr> {
        let span = &expr.span;
        match &expr.kind {
            ExprKind::Column(name) => self.column(None, name, span),
            ExprKind::Of { table, column } => self.column(Some(table), column, span),
            ExprKind::Meta(field) => Some(meta(*field, span)),
            ExprKind::Literal(value) | ExprKind::Secret(Secret(value)) => Some(literal(value, span)),
            ExprKind::Unary(op, operand) => self.unary(*op, operand, span),
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) => self.chain(expr),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, span),
            ExprKind::IsNull { operand, negated } => {
                let operand = Box::new(self.bind(operand)?);
                Some(boolean(Node::IsNull { operand, negated: *negated }, false, span))
            }
            ExprKind::IsTruth { operand, truth, negated } => {
                let operand = Box::new(self.condition(operand)?);
                Some(boolean(Node::IsTruth { operand, truth: *truth, negated: *negated }, false, span))
            }
            ExprKind::Between { operand, low, high, negated } => {
                self.between(operand, low, high, *negated, span)
            }
            ExprKind::In { operand, list, negated } => self.in_list(operand, list, *negated, span),
            ExprKind::Like { operand, pattern, escape, negated } => {
                self.like(operand, pattern, escape.unwrap_or('\\'), *negated, span)
            }
            ExprKind::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), span)
            }
            ExprKind::Cast(operand, ty) => self.cast(operand, *ty, span),
            ExprKind::Collate(operand, name) => self.collate(operand, name, span),
            ExprKind::Call(name, args) => self.call(name, args, span),
            ExprKind::Interval(..) => {
                let diagnostic =
                    self.mismatch(span, "an interval is added to a date or time, or taken from it");
                self.refuse(diagnostic.help("write `x + interval 1 day` or `date_add(x, interval 1 day)`"))
            }
            ExprKind::Unit(unit) => {
                let headline = format!("the unit \"{}\" stands where a value is meant", unit.name());
                let diagnostic = self.mismatch(span, headline);
                self.refuse(diagnostic)
            }
        }
    }

    fn column(&mut self, of: Option<&str>, name: &str, span: &Span) -> Option<BoundExpr> {
        let column = match self.scope.find(of, name, span) {
            Ok(column) => column,
            Err(diagnostic) => return self.refuse(*diagnostic),
        };
        Some(BoundExpr {
            node: Node::Column { index: column.index, name: column.name.clone() },
            ty: column.ty.clone(),
            span: span.clone(),
        })
    }

    /// All operands of `a and b and c`, however long, as one node.
    fn chain(&mut self, expr: &Expr) -> Option<BoundExpr> {
        let ExprKind::Binary(op, ..) = &expr.kind else { return None };
        let mut parts = Vec::new();
        let mut rest = expr;
        while let ExprKind::Binary(next, a, b) = &rest.kind
            && next == op
        {
            parts.push(&**b);
            rest = a;
        }
        parts.push(rest);
        let bound: Vec<_> = parts.into_iter().rev().map(|p| self.condition(p)).collect();
        let bound: Vec<_> = bound.into_iter().collect::<Option<_>>()?;
        let nullable = bound.iter().any(|b| b.ty.nullable);
        let node = if *op == BinaryOp::And { Node::And(bound) } else { Node::Or(bound) };
        Some(boolean(node, nullable, &expr.span))
    }

    fn both(&mut self, a: &Expr, b: &Expr) -> Option<(BoundExpr, BoundExpr)> {
        let (a, b) = (self.bind(a), self.bind(b));
        Some((a?, b?))
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr, span: &Span) -> Option<BoundExpr> {
        if op == UnaryOp::Not {
            let operand = self.condition(operand)?;
            let nullable = operand.ty.nullable;
            return Some(boolean(Node::Not(Box::new(operand)), nullable, span));
        }
        let operand = self.bind(operand)?;
        self.ensure_number(&operand, if op == UnaryOp::Negate { "-" } else { "~" })?;
        let nullable = operand.ty.nullable;
        if op == UnaryOp::BitNot {
            let node = Node::BitNot(Box::new(operand));
            return self.folded(BoundExpr { node, ty: ExprType::bigint(true, nullable), span: span.clone() });
        }
        let ty = match operand.ty.class() {
            Class::Decimal => operand.ty.clone(),
            class if class.is_approximate() => ExprType::double(nullable),
            // beyond BIGINT the server goes on in DECIMAL, for constants only
            _ => match operand.const_value() {
                Some(Value::UInt(v)) if *v > 1 << 63 => ExprType::decimal(20, 0, nullable),
                _ => ExprType::bigint(false, nullable),
            },
        };
        let node = Node::Negate { ty: number_type(&ty), operand: Box::new(operand) };
        let mut bound = self.folded(BoundExpr { node, ty, span: span.clone() })?;
        if let Some(value) = bound.const_value() {
            bound.ty = ExprType::of_literal(value);
        }
        Some(bound)
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: &Span) -> Option<BoundExpr> {
        match op {
            BinaryOp::Xor => {
                let (a, b) = (self.condition(a), self.condition(b));
                let (a, b) = (a?, b?);
                let nullable = a.ty.nullable || b.ty.nullable;
                Some(boolean(Node::Xor(Box::new([a, b])), nullable, span))
            }
            BinaryOp::JsonExtract | BinaryOp::JsonUnquote => {
                let (document, path) = self.both(a, b)?;
                function::extracted(self, vec![document, path], op == BinaryOp::JsonUnquote, span)
            }
            BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual
            | BinaryOp::NullSafeEqual => {
                let (a, b) = self.both(a, b)?;
                self.compared(op, a, b, span)
            }
            BinaryOp::BitAnd
            | BinaryOp::BitOr
            | BinaryOp::BitXor
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRight => {
                let (a, b) = self.both(a, b)?;
                let word = op.symbol();
                let (x, y) = (self.ensure_number(&a, word), self.ensure_number(&b, word));
                x.and(y)?;
                let nullable = a.ty.nullable || b.ty.nullable;
                let node = Node::Bits { op, operands: Box::new([a, b]) };
                self.folded(BoundExpr { node, ty: ExprType::bigint(true, nullable), span: span.clone() })
            }
            _ => match (op, &a.kind, &b.kind) {
                (BinaryOp::Add | BinaryOp::Subtract, _, ExprKind::Interval(count, unit)) => {
                    let (day, count) = self.both(a, count)?;
                    function::shifted(self, day, count, *unit, op == BinaryOp::Subtract, span)
                }
                (BinaryOp::Add, ExprKind::Interval(count, unit), _) => {
                    let (count, day) = self.both(count, b)?;
                    function::shifted(self, day, count, *unit, false, span)
                }
                _ => {
                    let (a, b) = self.both(a, b)?;
                    self.arithmetic(op, a, b, span)
                }
            },
        }
    }

    /// Also `mod(a, b)`.
    pub(crate) fn arithmetic(
        &mut self,
        op: BinaryOp,
        a: BoundExpr,
        b: BoundExpr,
        span: &Span,
    ) -> Option<BoundExpr> {
        let word = op.symbol();
        let (x, y) = (self.ensure_number(&a, word), self.ensure_number(&b, word));
        x.and(y)?;
        let ty = arithmetic_type(op, &a, &b);
        let number = match number_type(&ty) {
            // the server computes in up to 81 digits; only what leaves the expression must be a DECIMAL
            NumberType::Decimal { precision: 65, scale } => NumberType::Decimal { precision: 81, scale },
            other => other,
        };
        let node = Node::Arithmetic { op, ty: number, operands: Box::new([a, b]) };
        self.folded(BoundExpr { node, ty, span: span.clone() })
    }

    fn compared(&mut self, op: BinaryOp, a: BoundExpr, b: BoundExpr, span: &Span) -> Option<BoundExpr> {
        if !matches!(op, BinaryOp::Equal | BinaryOp::NotEqual | BinaryOp::NullSafeEqual) {
            self.ensure_ordered(&[&a, &b], span)?;
        }
        let (how, a, b) = self.comparison(a, b, span)?;
        let nullable = op != BinaryOp::NullSafeEqual && (a.ty.nullable || b.ty.nullable);
        Some(boolean(Node::Compare { op, how, operands: Box::new([a, b]) }, nullable, span))
    }

    fn between(
        &mut self,
        operand: &Expr,
        low: &Expr,
        high: &Expr,
        negated: bool,
        span: &Span,
    ) -> Option<BoundExpr> {
        let (operand, bounds) = (self.bind(operand), self.both(low, high));
        let (operand, (low, high)) = (operand?, bounds?);
        if operand.const_value().is_some() {
            // a literal is converted to what it is compared with, which may be two things here
            let low = self.compared(BinaryOp::GreaterEqual, operand.clone(), low, span);
            let high = self.compared(BinaryOp::LessEqual, operand, high, span);
            let (low, high) = (low?, high?);
            let nullable = low.ty.nullable || high.ty.nullable;
            let both = boolean(Node::And(vec![low, high]), nullable, span);
            return Some(if negated { boolean(Node::Not(Box::new(both)), nullable, span) } else { both });
        }
        self.ensure_ordered(&[&operand, &low, &high], span)?;
        let low = self.comparison(operand.clone(), low, span);
        let high = self.comparison(operand.clone(), high, span);
        let ((low_how, _, low), (high_how, _, high)) = (low?, high?);
        let nullable = operand.ty.nullable || low.ty.nullable || high.ty.nullable;
        let node = Node::Between {
            operand: Box::new(operand),
            low: (low_how, Box::new(low)),
            high: (high_how, Box::new(high)),
            negated,
        };
        Some(boolean(node, nullable, span))
    }

    fn in_list(&mut self, operand: &Expr, list: &[Expr], negated: bool, span: &Span) -> Option<BoundExpr> {
        let operand = self.bind(operand);
        let items: Vec<_> = list.iter().map(|i| self.bind(i)).collect();
        let (operand, items) = (operand?, items.into_iter().collect::<Option<Vec<_>>>()?);
        let nullable = operand.ty.nullable || items.iter().any(|i| i.ty.nullable);
        if operand.const_value().is_some() {
            let equal: Vec<_> =
                items.into_iter().map(|i| self.compared(BinaryOp::Equal, operand.clone(), i, span)).collect();
            let any = boolean(Node::Or(equal.into_iter().collect::<Option<_>>()?), nullable, span);
            return Some(if negated { boolean(Node::Not(Box::new(any)), nullable, span) } else { any });
        }
        let list: Vec<_> = items
            .into_iter()
            .map(|i| self.comparison(operand.clone(), i, span).map(|(how, _, item)| (how, item)))
            .collect();
        let list = list.into_iter().collect::<Option<_>>()?;
        Some(boolean(Node::In { operand: Box::new(operand), list, negated }, nullable, span))
    }

    fn like(
        &mut self,
        operand: &Expr,
        pattern: &Expr,
        escape: char,
        negated: bool,
        span: &Span,
    ) -> Option<BoundExpr> {
        let (operand, pattern) = self.both(operand, pattern)?;
        let nullable = operand.ty.nullable || pattern.ty.nullable;
        let bytes = operand.ty.class() == Class::Bytes || pattern.ty.class() == Class::Bytes;
        let (operand, pattern, how) = if bytes {
            let (a, b) = (self.byte_operand(operand), self.byte_operand(pattern));
            (a?, b?, None)
        } else {
            let (a, b) = (self.text_of(operand), self.text_of(pattern));
            let (a, b) = (a?, b?);
            let how = self.collator(&a, &b, span)?;
            (a, b, Some(how))
        };
        let ready = match (pattern.const_value(), how) {
            (Some(Value::Text(p)), Some(how)) => Pattern::Text(LikePattern::of_text(p, escape, how), how),
            (Some(Value::Bytes(p)), _) => Pattern::Bytes(LikePattern::of_bytes(p, escape)),
            (Some(Value::Text(p)), None) => Pattern::Bytes(LikePattern::of_bytes(p.as_bytes(), escape)),
            _ => Pattern::PerRow { escape, how },
        };
        let node = Node::Like { operands: Box::new([operand, pattern]), pattern: ready, negated };
        Some(boolean(node, nullable, span))
    }

    fn byte_operand(&mut self, operand: BoundExpr) -> Option<BoundExpr> {
        match operand.ty.class() {
            Class::Bytes | Class::Null => Some(operand),
            class if class.is_text() && is_utf8(&operand.ty) => Some(operand),
            _ => {
                let headline = format!("{} is compared with bytes", describe(&operand));
                let diagnostic = self.mismatch(&operand.span, headline);
                self.refuse(diagnostic.help("write `cast(.. as binary)` to compare the bytes"))
            }
        }
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        span: &Span,
    ) -> Option<BoundExpr> {
        let base = match operand {
            Some(o) => Some(self.bind(o)?),
            None => None,
        };
        // a literal is compared with each `when` anew, and may be converted for each
        let shared = base.as_ref().filter(|b| b.const_value().is_none()).cloned();
        let bound: Vec<Option<(Comparison, BoundExpr, BoundExpr)>> = branches
            .iter()
            .map(|(when, then)| {
                let when = match &base {
                    None => self.condition(when).map(|w| (Comparison::Never, w)),
                    Some(base) => self.bind(when).and_then(|w| match &shared {
                        Some(_) => self.comparison(base.clone(), w, span).map(|(how, _, w)| (how, w)),
                        None => self
                            .compared(BinaryOp::Equal, base.clone(), w, span)
                            .map(|c| (Comparison::Never, c)),
                    }),
                };
                let then = self.bind(then);
                let (how, when) = when?;
                Some((how, when, then?))
            })
            .collect();
        let otherwise = match otherwise {
            Some(o) => Some(self.bind(o)?),
            None => None,
        };
        let bound = bound.into_iter().collect::<Option<Vec<_>>>()?;
        let (mut whens, mut results) = (Vec::new(), Vec::new());
        for (how, when, then) in bound {
            whens.push((how, when));
            results.push(then);
        }
        let has_otherwise = otherwise.is_some();
        results.extend(otherwise);
        self.ensure_no_bits(&results, span)?;
        let (mut results, ty) = self.unified(results, span)?;
        let otherwise = if has_otherwise { results.pop().map(Box::new) } else { None };
        let nullable = ty.nullable || !has_otherwise;
        let branches =
            whens.into_iter().zip(results).map(|((how, when), then)| Branch { how, when, then }).collect();
        let node = Node::Case { operand: shared.map(Box::new), branches, otherwise };
        Some(BoundExpr { node, ty: ty.with_nullable(nullable), span: span.clone() })
    }

    /// `if(condition, then, otherwise)`.
    pub(crate) fn conditional(
        &mut self,
        when: BoundExpr,
        then: BoundExpr,
        otherwise: BoundExpr,
        span: &Span,
    ) -> Option<BoundExpr> {
        let when = self.ensure_condition(when)?;
        let results = vec![then, otherwise];
        self.ensure_no_bits(&results, span)?;
        let (mut results, ty) = self.unified(results, span)?;
        let (otherwise, then) = (results.pop()?, results.pop()?);
        let branches = vec![Branch { how: Comparison::Never, when, then }];
        let node = Node::Case { operand: None, branches, otherwise: Some(Box::new(otherwise)) };
        Some(BoundExpr { node, ty, span: span.clone() })
    }

    /// Of a BIT among other values the server gives out its bytes, or reads its digits as bytes.
    fn ensure_no_bits(&mut self, operands: &[BoundExpr], span: &Span) -> Option<()> {
        if !operands.iter().any(|o| o.ty.class() == Class::Bit) {
            return Some(());
        }
        let diagnostic = self.mismatch(span, "the server does not give out a BIT as a number here");
        self.refuse(diagnostic.help("write `cast(.. as unsigned)` around it"))
    }

    /// `coalesce(..)`, `ifnull(a, b)`.
    pub(crate) fn coalesce(&mut self, args: Vec<BoundExpr>, span: &Span) -> Option<BoundExpr> {
        let nullable = args.iter().all(|a| a.ty.nullable);
        if args.iter().any(|a| a.ty.class() == Class::Null) || args.iter().all(|a| a.ty.class() == Class::Bit)
        {
            self.ensure_no_bits(&args, span)?;
        }
        // a text, also of one ENUM alone
        let args = args.into_iter().map(|arg| self.label_of(arg)).collect::<Option<_>>()?;
        let (args, ty) = self.unified(args, span)?;
        Some(BoundExpr { node: Node::Coalesce(args), ty: ty.with_nullable(nullable), span: span.clone() })
    }

    /// `nullif(a, b)`.
    pub(crate) fn null_if(&mut self, a: BoundExpr, b: BoundExpr, span: &Span) -> Option<BoundExpr> {
        let given = a.ty.clone();
        let (how, left, right) = self.comparison(a.clone(), b, span)?;
        if left.ty != given {
            // a literal that was converted for the comparison is given out as it was written
            let equal = boolean(
                Node::Compare { op: BinaryOp::Equal, how, operands: Box::new([left, right]) },
                true,
                span,
            );
            let null = literal(&Value::Null, span);
            return self.conditional(equal, null, a, span);
        }
        let node = Node::NullIf { how, operands: Box::new([left, right]) };
        Some(BoundExpr { node, ty: given.with_nullable(true), span: span.clone() })
    }

    /// `isnull(x)`.
    pub(crate) fn is_null(operand: BoundExpr, span: &Span) -> BoundExpr {
        boolean(Node::IsNull { operand: Box::new(operand), negated: false }, false, span)
    }

    /// `greatest(..)` and `least(..)`.
    pub(crate) fn extreme(&mut self, greatest: bool, args: Vec<BoundExpr>, span: &Span) -> Option<BoundExpr> {
        let textual = |b: &BoundExpr| b.ty.class().is_text();
        let other = |b: &BoundExpr| !b.ty.class().is_text() && b.ty.class() != Class::Null;
        if args.iter().any(textual)
            && let Some(odd) = args.iter().find(|a| other(a))
        {
            let headline = format!("{} is compared with a text", describe(odd));
            let diagnostic = self.mismatch(&odd.span.clone(), headline);
            return self.refuse(diagnostic.help("write `cast(.. as char)`, or `cast` the text"));
        }
        if args.iter().all(|a| a.ty.class() == Class::Bit) {
            let diagnostic = self.mismatch(span, "the server compares BITs among each other as texts");
            return self.refuse(diagnostic.help("write `cast(.. as unsigned)` around them"));
        }
        self.ensure_ordered(&args.iter().collect::<Vec<_>>(), span)?;
        let (args, ty) = self.unified(args, span)?;
        let mut how = Comparison::Never;
        for arg in &args[1..] {
            how = self.comparison(args[0].clone(), arg.clone(), span)?.0;
        }
        if how == Comparison::Never
            && let [.., a, b] = &args[..]
        {
            // the first argument is the literal NULL: then all of it is
            how = self.comparison(a.clone(), b.clone(), span)?.0;
        }
        Some(BoundExpr { node: Node::Extreme { how, greatest, args }, ty, span: span.clone() })
    }

    fn cast(&mut self, operand: &Expr, ty: CastType, span: &Span) -> Option<BoundExpr> {
        let operand = self.bind(operand)?;
        let nullable = operand.ty.nullable;
        let length = operand.ty.text_length();
        let (to, ty) = match ty {
            CastType::Signed => (Conversion::Integer { unsigned: false }, ExprType::bigint(false, nullable)),
            CastType::Unsigned => (Conversion::Integer { unsigned: true }, ExprType::bigint(true, nullable)),
            CastType::Decimal { precision, scale } => {
                if !(1..=65).contains(&precision) || scale > 30 || scale > precision {
                    let headline = format!("decimal({precision},{scale}) is no type");
                    let diagnostic = self.mismatch(span, headline);
                    return self.refuse(
                        diagnostic
                            .help("the precision is 1 to 65, the scale 0 to 30 and at most the precision"),
                    );
                }
                let ty = ExprType::new(ColumnType::Decimal { precision, scale, unsigned: false }, nullable);
                (Conversion::Number(number_type(&ty)), ty)
            }
            CastType::Double => (Conversion::Number(NumberType::Double), ExprType::double(nullable)),
            CastType::Float => {
                let ty = ExprType::new(ColumnType::Float { unsigned: false }, nullable);
                (Conversion::Number(NumberType::Float), ty)
            }
            CastType::Char { length: most } => {
                let length = most.map_or(length, |m| length.min(u64::from(m)));
                let (charset, coercibility) = match operand.ty.class() {
                    Class::Bytes => (Charset::utf8mb4(), Coercibility::Implicit),
                    _ => text_charset(&operand.ty),
                };
                let ty = ExprType::text(length, charset, coercibility, nullable);
                (Conversion::Text { fsp: operand.ty.fsp(), length: most, room: room_of(&operand) }, ty)
            }
            CastType::Binary { length: most } => {
                if !is_utf8(&operand.ty) {
                    return self.refuse_charset(&operand);
                }
                let ty = ExprType::bytes(most.map_or(length.saturating_mul(4), u64::from), nullable);
                (Conversion::Bytes { length: most, room: room_of(&operand) }, ty)
            }
            CastType::Date => (Conversion::Date, ExprType::new(ColumnType::Date, nullable)),
            CastType::DateTime { fsp } => {
                let fsp = self.fsp(fsp, span)?;
                (Conversion::DateTime { fsp }, ExprType::new(ColumnType::DateTime { fsp }, nullable))
            }
            CastType::Time { fsp } => {
                let fsp = self.fsp(fsp, span)?;
                (Conversion::Time { fsp }, ExprType::new(ColumnType::Time { fsp }, nullable))
            }
            CastType::Year => (Conversion::Year, ExprType::new(ColumnType::Year, nullable)),
            CastType::Json => return function::parsed(self, operand, span),
        };
        let from = operand.ty.class();
        if from != Class::Null && !to.takes(from) {
            let headline = format!("{} has no {ty}", describe(&operand));
            let diagnostic = self.mismatch(span, headline);
            return self.refuse(diagnostic);
        }
        let numeric = matches!(to, Conversion::Integer { .. } | Conversion::Number(_) | Conversion::Year);
        // a column is cast by its number, what CASE, IF and NULLIF hand on by its label
        let operand = match operand.node {
            Node::Column { .. } => operand,
            _ if numeric => self.label_of(operand)?,
            _ => operand,
        };
        self.converted(operand, to, ty, span)
    }

    fn fsp(&mut self, fsp: u8, span: &Span) -> Option<u8> {
        if fsp <= 6 {
            return Some(fsp);
        }
        let diagnostic = self.mismatch(span, format!("{fsp} digits of a second's fraction"));
        self.refuse(diagnostic.help("0 to 6 are kept"))
    }

    fn collate(&mut self, operand: &Expr, name: &str, span: &Span) -> Option<BoundExpr> {
        let operand = self.bind(operand);
        let name = name.to_lowercase();
        let set = name.split_once('_').map_or(&*name, |(set, _)| set);
        let charset = Charset::new(set, &*name);
        if Collator::of(&charset).is_none() {
            let diagnostic = Diagnostic::error(
                codes::COLLATION_NOT_BUILT,
                format!("the collation \"{name}\" is not built"),
            )
            .at(span.clone(), "")
            .help("`collate utf8mb4_bin` compares by code point");
            return self.refuse(diagnostic);
        }
        let operand = operand?;
        if operand.ty.class() == Class::Null {
            return Some(operand);
        }
        if !operand.ty.class().is_text() {
            let headline = format!("{} is no text, so it has no collation", describe(&operand));
            let diagnostic = self.mismatch(span, headline);
            return self.refuse(diagnostic);
        }
        let mut bound = self.text_of(operand)?;
        bound.ty.coercibility = Coercibility::Explicit;
        if let Some(
            ColumnType::Char { charset: c, .. }
            | ColumnType::VarChar { charset: c, .. }
            | ColumnType::Text { charset: c, .. },
        ) = &mut bound.ty.ty
        {
            *c = charset;
        }
        bound.span = span.clone();
        Some(bound)
    }

    fn call(&mut self, name: &str, args: &[Expr], span: &Span) -> Option<BoundExpr> {
        let known = function::find(name);
        let takes_unit = known.is_some_and(function::Function::takes_unit);
        let takes_interval = known.is_some_and(function::Function::takes_interval);
        let mut unit = None;
        let written = args.len();
        let mut bound = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            match &arg.kind {
                ExprKind::Unit(u) if takes_unit && i == 0 => unit = Some(*u),
                ExprKind::Interval(count, u) if takes_interval && i == 1 => {
                    unit = Some(*u);
                    bound.push(self.bind(count));
                }
                _ => bound.push(self.bind(arg)),
            }
        }
        let function = match function::find(name) {
            Some(function) => function,
            None => {
                let headline = format!("unknown function \"{name}\"");
                let diagnostic = Diagnostic::error(codes::UNKNOWN_FUNCTION, headline).at(span.clone(), "");
                return self.refuse(match nearest(name, function::names()) {
                    Some(near) => diagnostic.help(format!("the nearest name is \"{near}\"")),
                    None => diagnostic,
                });
            }
        };
        if let Some(reason) = function.refused {
            let headline = format!("\"{name}\" {reason}");
            let diagnostic = Diagnostic::error(codes::UNKNOWN_FUNCTION, headline).at(span.clone(), "");
            return self.refuse(diagnostic.help(function.help));
        }
        if !function.takes(written) {
            let plural = if written == 1 { "" } else { "s" };
            let headline = format!("\"{name}\" with {written} argument{plural}");
            let diagnostic = Diagnostic::error(codes::ARGUMENT_COUNT, headline).at(span.clone(), "");
            return self.refuse(diagnostic.help(format!("it is called as `{}`", function.signature)));
        }
        if takes_unit && unit.is_none() {
            let headline = format!("the first argument of \"{name}\" is a unit, such as `day`");
            let diagnostic = self.mismatch(span, headline);
            return self.refuse(diagnostic.help(format!("it is called as `{}`", function.signature)));
        }
        let args = bound.into_iter().collect::<Option<Vec<_>>>()?;
        (function.bind)(self, Args { name: name.to_owned(), args, unit, span: span.clone() })
    }
}

/// What functions need of the binder.
impl Binder<'_> {
    /// A call that is evaluated by `eval`.
    pub(crate) fn evaluated(
        &mut self,
        args: Vec<BoundExpr>,
        ty: ExprType,
        span: &Span,
        eval: Evaluator,
    ) -> Option<BoundExpr> {
        self.evaluated_with(args, ty, span, Ready::Nothing, eval)
    }

    /// A call that is evaluated by `eval`, with what was made ready for it.
    pub(crate) fn evaluated_with(
        &mut self,
        args: Vec<BoundExpr>,
        ty: ExprType,
        span: &Span,
        ready: Ready,
        eval: Evaluator,
    ) -> Option<BoundExpr> {
        let node = Node::Call(Call { eval, args, ready, ty: ty.clone() });
        self.folded(BoundExpr { node, ty, span: span.clone() })
    }

    /// As a text, as the server writes the value.
    pub(crate) fn text_of(&mut self, operand: BoundExpr) -> Option<BoundExpr> {
        let class = operand.ty.class();
        if matches!(class, Class::Text | Class::Null) {
            return Some(operand);
        }
        let to = Conversion::Text { fsp: operand.ty.fsp(), length: None, room: room_of(&operand) };
        if class == Class::Bytes || !to.takes(class) {
            let headline = format!("{} is used as a text", describe(&operand));
            let diagnostic = self.mismatch(&operand.span.clone(), headline);
            return self.refuse(match class {
                Class::Bit => diagnostic.help("write `cast(.. as unsigned)` for its number"),
                Class::Bytes => {
                    diagnostic.help("write `cast(.. as char)` if the bytes are UTF-8, or `hex(..)`")
                }
                _ => diagnostic,
            });
        }
        let (charset, coercibility) = text_charset(&operand.ty);
        let ty = ExprType::text(operand.ty.text_length(), charset, coercibility, operand.ty.nullable);
        let span = operand.span.clone();
        self.converted(operand, to, ty, &span)
    }

    /// Of an ENUM or a SET the text, where the server has forgotten that it has a number.
    fn label_of(&mut self, operand: BoundExpr) -> Option<BoundExpr> {
        if matches!(operand.ty.class(), Class::Enum | Class::Set) {
            self.text_of(operand)
        } else {
            Some(operand)
        }
    }

    /// A number, or refused with what to do.
    pub(crate) fn ensure_number(&mut self, operand: &BoundExpr, word: &str) -> Option<()> {
        let class = operand.ty.class();
        if class.is_number() || class == Class::Null {
            return Some(());
        }
        let what = describe(operand);
        let diagnostic =
            self.mismatch(&operand.span, format!("\"{word}\" takes numbers, and {what} is none"));
        let diagnostic = match class {
            Class::Text if word == "+" => diagnostic
                .help("write `cast(.. as decimal(20,4))` for its number, or `concat(a, b)` to join texts"),
            Class::Text => {
                diagnostic.help("write `cast(.. as decimal(20,4))` or `cast(.. as signed)` for its number")
            }
            Class::Enum | Class::Set => diagnostic.help(NUMBER_OF_LABEL),
            _ => diagnostic,
        };
        self.refuse(diagnostic)
    }

    fn ensure_condition(&mut self, operand: BoundExpr) -> Option<BoundExpr> {
        let class = operand.ty.class();
        if class.is_number() || class == Class::Null {
            return Some(operand);
        }
        let headline = format!("{} is no condition", describe(&operand));
        let diagnostic = self.mismatch(&operand.span, headline);
        self.refuse(diagnostic.help("compare it with something"))
    }

    /// A day or a time of one, or a literal that is one.
    pub(crate) fn day_of(&mut self, operand: BoundExpr, word: &str) -> Option<BoundExpr> {
        if operand.ty.class().is_day() || operand.ty.class() == Class::Null {
            return Some(operand);
        }
        if operand.const_value().is_some_and(|v| matches!(v, Value::Text(_))) {
            return self.day_literal(operand);
        }
        let headline = format!("\"{word}\" takes a date, and {} is none", describe(&operand));
        let diagnostic = self.mismatch(&operand.span, headline);
        self.refuse(diagnostic.help("write `cast(.. as date)` or `cast(.. as datetime)`"))
    }

    /// Texts whose bytes matter, in a character set whose encoding is not UTF-8.
    pub(crate) fn refuse_charset<T>(&mut self, operand: &BoundExpr) -> Option<T> {
        let charset = operand.ty.ty.as_ref().and_then(ColumnType::charset).map_or("", |c| &c.name).to_owned();
        let headline = format!("the bytes of {} are in \"{charset}\", which is not built", describe(operand));
        let diagnostic = Diagnostic::error(codes::CHARSET_UNSUPPORTED, headline).at(operand.span.clone(), "");
        self.refuse(diagnostic)
    }

    /// All converted to the one type that holds them.
    pub(crate) fn unified(
        &mut self,
        operands: Vec<BoundExpr>,
        span: &Span,
    ) -> Option<(Vec<BoundExpr>, ExprType)> {
        // beside a FLOAT a whole number that was computed or written down counts as BIGINT, beside a DECIMAL one
        // that is written down counts with its digits
        let float = operands.iter().any(|o| o.ty.class() == Class::Float);
        let decimal = operands.iter().any(|o| o.ty.class() == Class::Decimal);
        let seen = |o: &BoundExpr| match (&o.node, o.ty.class()) {
            (Node::Column { .. }, _) => o.ty.clone(),
            (_, Class::Integer) if float => ExprType::bigint(o.ty.is_unsigned(), o.ty.nullable),
            (Node::Const(..), Class::Integer) if decimal => {
                ExprType::decimal(digits_of(o).0, 0, o.ty.nullable)
            }
            _ => o.ty.clone(),
        };
        let types: Vec<ExprType> = operands.iter().map(seen).collect();
        let ty = match unify(&types.iter().collect::<Vec<_>>()) {
            Ok(ty) => ty,
            Err((a, b)) => {
                let diagnostic = self.mismatch(span, format!("one value of type {a}, another of type {b}"));
                return self.refuse(diagnostic.help("`cast` them to one type"));
            }
        };
        let converted: Vec<_> = operands.into_iter().map(|o| self.of_type(o, &ty)).collect();
        Some((converted.into_iter().collect::<Option<_>>()?, ty))
    }

    /// Converted to a type that [`unify`] found to hold it.
    fn of_type(&mut self, operand: BoundExpr, ty: &ExprType) -> Option<BoundExpr> {
        let (from, to) = (operand.ty.class(), ty.class());
        let same_form = match to {
            Class::Integer => from == to && operand.ty.is_unsigned() == ty.is_unsigned(),
            Class::Decimal => from == to && operand.ty.digits().1 == ty.digits().1,
            _ => from == to,
        };
        if same_form || from == Class::Null {
            return Some(operand);
        }
        let conversion = match to {
            Class::Text => return self.text_of(operand),
            Class::DateTime => Conversion::DateTime { fsp: ty.fsp() },
            Class::Timestamp => Conversion::Timestamp { fsp: ty.fsp() },
            _ => match NumberType::of(ty) {
                Some(number) => Conversion::Number(number),
                None => return Some(operand),
            },
        };
        let ty = ty.clone().with_nullable(operand.ty.nullable);
        let span = operand.span.clone();
        self.converted(operand, conversion, ty, &span)
    }

    fn converted(
        &mut self,
        operand: BoundExpr,
        to: Conversion,
        ty: ExprType,
        span: &Span,
    ) -> Option<BoundExpr> {
        let node = Node::Convert { to, operand: Box::new(operand) };
        self.folded(BoundExpr { node, ty, span: span.clone() })
    }

    /// Computes what is constant, so that an overflow among literals is found here.
    fn folded(&mut self, bound: BoundExpr) -> Option<BoundExpr> {
        let constant = match &bound.node {
            Node::Arithmetic { operands, .. } | Node::Bits { operands, .. } => {
                operands.iter().all(BoundExpr::is_constant)
            }
            Node::Negate { operand, .. } | Node::BitNot(operand) | Node::Convert { operand, .. } => {
                operand.is_constant()
            }
            Node::Call(call) => call.args.iter().all(BoundExpr::is_constant),
            _ => false,
        };
        if !constant {
            return Some(bound);
        }
        let (table, origin) = (TableId::new("", ""), Origin::default());
        let meta = RowMeta { op: Op::Read, table: &table, origin: &origin };
        let value = bound.value(&Env { columns: &[], meta: &meta }).map(Value::into_owned);
        match value {
            Ok(value) => {
                let mut ty = bound.ty.clone().with_nullable(value.is_null());
                if let (Value::Text(text), Some(charset)) =
                    (&value, ty.ty.as_ref().and_then(ColumnType::charset))
                {
                    // its own length instead of the longest that it could have been
                    let length = text.chars().count() as u64;
                    ty = ExprType::text(length, charset.clone(), ty.coercibility, false);
                }
                Some(constant_of(value, ty, &bound.span))
            }
            Err(error) => self.refuse(error.diagnostic().clone()),
        }
    }
}

/// How the two numbers of an ENUM or a SET are written: a cast of the column is not that of its text.
pub(crate) const NUMBER_OF_LABEL: &str = "write `cast(.. as unsigned)` for its number (of an ENUM the place of its label, of a SET its bits), or `cast(cast(.. as char) as signed)` for the number that its text is";

/// Comparison.
impl Binder<'_> {
    /// How two values are compared, and the two, a literal among them converted to the other's type.
    pub(crate) fn comparison(
        &mut self,
        a: BoundExpr,
        b: BoundExpr,
        span: &Span,
    ) -> Option<(Comparison, BoundExpr, BoundExpr)> {
        let (x, y) = (a.ty.class(), b.ty.class());
        if x == Class::Null || y == Class::Null {
            return Some((Comparison::Never, a, b));
        }
        let is_text_literal = |e: &BoundExpr| matches!(e.const_value(), Some(Value::Text(_)));
        let adapts = |c: Class| c.is_number() || c.is_temporal() || c.is_address();
        if x.is_address() && x == y {
            // one value, one text
            return Some((Comparison::Text(Collator::LITERAL), a, b));
        }
        if is_text_literal(&b) && adapts(x) {
            let b = self.adapted(b, &a.ty)?;
            return self.comparison(a, b, span);
        }
        if is_text_literal(&a) && adapts(y) {
            let a = self.adapted(a, &b.ty)?;
            return self.comparison(a, b, span);
        }
        let indexed = |c: Class| c.is_number() || matches!(c, Class::Enum | Class::Set);
        let how = if x.is_text() && y.is_text() {
            Comparison::Text(self.collator(&a, &b, span)?)
        } else if indexed(x) && indexed(y) {
            Comparison::Numbers
        } else if x.is_day() && y.is_day() {
            Comparison::Days
        } else if x == Class::Time && y == Class::Time {
            Comparison::Times
        } else if x == Class::Bytes && (y == Class::Bytes || y.is_text()) || y == Class::Bytes && x.is_text()
        {
            let (a, b) = (self.byte_operand(a), self.byte_operand(b));
            return Some((Comparison::Bytes, a?, b?));
        } else {
            return self.refuse_comparison(&a, &b, span);
        };
        Some((how, a, b))
    }

    fn refuse_comparison<T>(&mut self, a: &BoundExpr, b: &BoundExpr, span: &Span) -> Option<T> {
        let headline = format!("{} is compared with {}", describe(a), describe(b));
        let diagnostic = self.mismatch(span, headline);
        let classes = (a.ty.class(), b.ty.class());
        self.refuse(match classes {
            (Class::Json, _) | (_, Class::Json) => diagnostic.help(
                "comparing JSON is not built: take its text with `->>`, and `cast(.. as signed)` for numbers",
            ),
            (x, y) if x.is_address() && y.is_text() || x.is_text() && y.is_address() => {
                let ty = if x.is_address() { &a.ty } else { &b.ty };
                diagnostic.help(format!("write `cast(.. as char)` around the {ty} to compare its text"))
            }
            (Class::Text, other) | (other, Class::Text) if other.is_number() => {
                diagnostic.help("write `cast(.. as signed)` or `cast(.. as decimal(20,4))` around the text")
            }
            (Class::Text, other) | (other, Class::Text) if other.is_temporal() => {
                diagnostic.help("write `cast(.. as datetime)` around the text")
            }
            (x, y) if x.is_temporal() && y.is_number() || x.is_number() && y.is_temporal() => {
                diagnostic.help("write dates and times as texts, such as '2026-01-31 12:00:00'")
            }
            _ => diagnostic,
        })
    }

    /// Has each of these an order that is built?
    fn ensure_ordered(&mut self, operands: &[&BoundExpr], span: &Span) -> Option<()> {
        let Some(odd) = operands.iter().find(|o| o.ty.class().is_address()) else { return Some(()) };
        let headline = format!("{} has no order that is built", describe(odd));
        let diagnostic = self.mismatch(span, headline);
        self.refuse(
            diagnostic.help("write `cast(.. as char)` to order by its text, which the server does not"),
        )
    }

    /// A text literal as a value of the kind that it is compared with.
    fn adapted(&mut self, literal: BoundExpr, other: &ExprType) -> Option<BoundExpr> {
        let class = other.class();
        if class.is_day() {
            return self.day_literal(literal);
        }
        let Some(Value::Text(text)) = literal.const_value() else { return Some(literal) };
        if class.is_address() {
            let known = other.ty.as_ref().and_then(|ty| crate::address::canonical(ty, text));
            return match known {
                Some(text) => Some(constant_of(
                    Value::Text(text.into()),
                    other.clone().with_nullable(false),
                    &literal.span,
                )),
                None => {
                    let diagnostic =
                        self.mismatch(&literal.span, format!("the text is not one of type {other}"));
                    self.refuse(diagnostic.note(format!("it is compared with a value of type {other}")))
                }
            };
        }
        let value = if class == Class::Time {
            parse_time(text).map(Value::Time)
        } else if class.is_approximate() {
            double_of(text).filter(|v| v.is_finite()).map(Value::Double)
        } else {
            Decimal::parse(text.trim()).map(|d| Value::Decimal(d.to_text().into()))
        };
        match value {
            Some(value) => Some(super::bind::literal(&value, &literal.span)),
            None => {
                let wanted = if class == Class::Time { "a time such as '12:30:00'" } else { "a number" };
                let diagnostic = self.mismatch(&literal.span, format!("the text is not {wanted}"));
                self.refuse(diagnostic.note(format!("it is compared with a value of type {other}")))
            }
        }
    }

    /// A text literal as the time of day that it is, or has.
    pub(crate) fn clock_literal(&mut self, literal: BoundExpr) -> Option<BoundExpr> {
        let Some(text) = literal.const_text() else { return Some(literal) };
        let value = match (parse_datetime(text), parse_time(text)) {
            (Some((value, true)), _) => Some(Value::DateTime(value)),
            (_, Some(time)) => Some(Value::Time(time)),
            _ => None,
        };
        match value {
            Some(value) => Some(super::bind::literal(&value, &literal.span)),
            None => {
                let diagnostic = self.mismatch(&literal.span, "the text has no time of day");
                self.refuse(diagnostic.help("write it as '12:00:00' or '2026-01-31 12:00:00'"))
            }
        }
    }

    fn day_literal(&mut self, literal: BoundExpr) -> Option<BoundExpr> {
        let Some(Value::Text(text)) = literal.const_value() else { return Some(literal) };
        match parse_datetime(text) {
            Some((value, _)) => Some(super::bind::literal(&Value::DateTime(value), &literal.span)),
            None => {
                let diagnostic = self.mismatch(&literal.span, "the text is not a date");
                self.refuse(diagnostic.help("write it as '2026-01-31' or '2026-01-31 12:00:00'"))
            }
        }
    }

    /// Does the collation tell all characters apart? Where it does not, the server's answer depends on how many bytes
    /// they take: it compares the part with as many bytes of the text, so under `utf8mb4_0900_ai_ci` it finds no `é` in `xe`, and one in `xee`.
    pub(crate) fn ensure_searchable(
        &mut self,
        a: &BoundExpr,
        b: &BoundExpr,
        word: &str,
        span: &Span,
    ) -> Option<()> {
        if self.collator(a, b, span)?.tells_all_apart() {
            return Some(());
        }
        let (charset, _) = merge_collations(&a.ty, &b.ty);
        let headline = format!("\"{word}\" under \"{}\" is not built", charset.collation);
        let diagnostic = Diagnostic::error(codes::COLLATION_NOT_BUILT, headline).at(span.clone(), "");
        let column = first_column(a).or(first_column(b)).unwrap_or("..");
        self.refuse(diagnostic.help(format!(
            "to find the very characters, write `{column} collate utf8mb4_bin`; `like` follows the collation"
        )))
    }

    /// The collation by which two texts compare, if it is built.
    pub(crate) fn collator(&mut self, a: &BoundExpr, b: &BoundExpr, span: &Span) -> Option<Collator> {
        let (charset, coercibility) = merge_collations(&a.ty, &b.ty);
        if let Some(collator) = Collator::of_type(&charset, coercibility) {
            return Some(collator);
        }
        let name_of = |e: &BoundExpr| {
            e.ty.ty.as_ref().and_then(ColumnType::charset).map_or(String::new(), |c| c.collation.to_string())
        };
        let stronger = if a.ty.coercibility <= b.ty.coercibility { a } else { b };
        let diagnostic = if coercibility == Coercibility::NoCollation && name_of(a) != name_of(b) {
            let headline = format!("two collations meet: \"{}\" and \"{}\"", name_of(a), name_of(b));
            Diagnostic::error(codes::COLLATION_NOT_BUILT, headline).at(span.clone(), "")
        } else {
            let headline = match name_of(stronger) {
                name if name.is_empty() => format!("the collation of {} is not known", describe(stronger)),
                name => format!("{} compares under \"{name}\", which is not built yet", describe(stronger)),
            };
            Diagnostic::error(codes::COLLATION_NOT_BUILT, headline).at(stronger.span.clone(), "")
        };
        let column = first_column(stronger).unwrap_or("..");
        self.refuse(
            diagnostic.help(format!("to compare by code point, write `{column} collate utf8mb4_bin`")),
        )
    }
}

impl BinaryOp {
    /// As it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::IntegerDivide => "div",
            BinaryOp::Modulo => "%",
            BinaryOp::Equal => "=",
            BinaryOp::NotEqual => "<>",
            BinaryOp::Less => "<",
            BinaryOp::LessEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterEqual => ">=",
            BinaryOp::NullSafeEqual => "<=>",
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
            BinaryOp::Xor => "xor",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            BinaryOp::JsonExtract => "->",
            BinaryOp::JsonUnquote => "->>",
        }
    }
}

fn boolean(node: Node, nullable: bool, span: &Span) -> BoundExpr {
    BoundExpr { node, ty: ExprType::boolean(nullable), span: span.clone() }
}

fn literal(value: &Value<'static>, span: &Span) -> BoundExpr {
    let value = match value {
        // absence is of row images, not of literals
        Value::Absent => Value::Null,
        // a literal is signed where that holds it, and a text whatever it was made from
        Value::UInt(v) => i64::try_from(*v).map_or(Value::UInt(*v), Value::Int),
        Value::Enum { label: text, .. } | Value::Set { labels: text, .. } => Value::Text(text.clone()),
        Value::Decimal(text) => match Decimal::parse(text) {
            Some(decimal) => Value::Decimal(decimal.to_text().into()),
            None => Value::Null,
        },
        other => other.clone(),
    };
    let ty = ExprType::of_literal(&value);
    constant_of(value, ty, span)
}

fn constant_of(value: Value<'static>, ty: ExprType, span: &Span) -> BoundExpr {
    let number = match &value {
        Value::Text(_) | Value::Enum { .. } | Value::Set { .. } => None,
        other => Number::of(other).ok().flatten(),
    };
    BoundExpr { node: Node::Const(value, number), ty, span: span.clone() }
}

fn meta(field: MetaField, span: &Span) -> BoundExpr {
    let text = |length, nullable| ExprType::text(length, Charset::utf8mb4(), Coercibility::Literal, nullable);
    let ty = match field {
        MetaField::Op => text(1, false),
        // identifiers have at most 64 characters (MySQL manual 11.2.1)
        MetaField::Database | MetaField::Table => text(64, false),
        MetaField::Ts => ExprType::new(ColumnType::Timestamp { fsp: 6 }, false),
        MetaField::Position => text(255, false),
        // rows of a snapshot have none; a tagged GTID (manual 19.1.3.1) is 36 + 32 + 20 characters and colons
        MetaField::Gtid => text(90, true),
    };
    BoundExpr { node: Node::Meta(field), ty, span: span.clone() }
}

/// How much room the server has for the text of this value if it is a DOUBLE.
fn room_of(operand: &BoundExpr) -> Room {
    match &operand.node {
        Node::Column { .. } => Room::All,
        Node::NullIf { operands, .. } => room_of(&operands[0]),
        Node::Case { branches, otherwise, .. } => branches
            .iter()
            .map(|b| &b.then)
            .chain(otherwise.as_deref())
            .filter(|e| e.ty.class() != Class::Null)
            .map(room_of)
            .reduce(Room::or)
            .unwrap_or(Room::Some),
        _ => Room::Some,
    }
}

fn number_type(ty: &ExprType) -> NumberType {
    NumberType::of(ty).unwrap_or(NumberType::Double)
}

/// The character set of a text made of values of this type.
fn text_charset(ty: &ExprType) -> (Charset, Coercibility) {
    match ty.ty.as_ref() {
        // MySQL manual 13.5: JSON is utf8mb4 and compares under utf8mb4_bin
        Some(ColumnType::Json) => (Charset::new("utf8mb4", "utf8mb4_bin"), Coercibility::Implicit),
        Some(other) => match other.charset() {
            Some(charset) => (charset.clone(), ty.coercibility),
            None => (Charset::utf8mb4(), Coercibility::Numeric),
        },
        None => (Charset::utf8mb4(), Coercibility::Ignorable),
    }
}

/// The types of arithmetic (MySQL manual 14.6.1 and 14.25), checked against CREATE TABLE .. SELECT on 9.7.
/// Integers are BIGINT throughout: the server computes them so, and narrows only the column it makes.
fn arithmetic_type(op: BinaryOp, a: &BoundExpr, b: &BoundExpr) -> ExprType {
    let ((w1, s1), (w2, s2)) = (digits_of(a), digits_of(b));
    let (a, b) = (&a.ty, &b.ty);
    let (x, y) = (a.class(), b.class());
    let can_be_null = a.nullable
        || b.nullable
        || matches!(op, BinaryOp::Divide | BinaryOp::IntegerDivide | BinaryOp::Modulo);
    let whole = |c: Class| c.is_whole() || c == Class::Null;
    if op == BinaryOp::IntegerDivide {
        let unsigned = whole(x) && whole(y) && (a.is_unsigned() || b.is_unsigned());
        return ExprType::bigint(unsigned, can_be_null);
    }
    if x.is_approximate() || y.is_approximate() {
        return ExprType::double(can_be_null);
    }
    let scale = s1.max(s2);
    match op {
        // div_precision_increment is 4 where nobody has changed it
        BinaryOp::Divide => ExprType::decimal(w1 + s2, s1 + 4, can_be_null),
        BinaryOp::Modulo if whole(x) && whole(y) => ExprType::bigint(a.is_unsigned(), can_be_null),
        _ if whole(x) && whole(y) => ExprType::bigint(a.is_unsigned() || b.is_unsigned(), can_be_null),
        BinaryOp::Multiply => ExprType::decimal(w1 + w2, s1 + s2, can_be_null),
        BinaryOp::Modulo => {
            ExprType::decimal((w1 + s1).max(w2 + s2).saturating_sub(scale), scale, can_be_null)
        }
        _ => ExprType::decimal(w1.max(w2) + 1, scale, can_be_null),
    }
}

/// Digits before and after the dot; a whole number that is written down counts with its own.
fn digits_of(operand: &BoundExpr) -> (u32, u32) {
    match operand.const_value() {
        Some(Value::Int(v)) => (v.unsigned_abs().checked_ilog10().unwrap_or(0) + 1, 0),
        Some(Value::UInt(v)) => (v.checked_ilog10().unwrap_or(0) + 1, 0),
        _ => operand.ty.digits(),
    }
}

/// What an operand is, for messages: its name where it has one, never a literal's value.
pub(crate) fn describe(operand: &BoundExpr) -> String {
    match &operand.node {
        Node::Column { name, .. } => format!("\"{name}\" ({})", operand.ty),
        Node::Meta(field) => format!("\"meta.{}\"", field.name()),
        Node::Const(Value::Text(_), _) => "the text".to_owned(),
        _ => format!("a value of type {}", operand.ty),
    }
}

fn first_column(operand: &BoundExpr) -> Option<&str> {
    match &operand.node {
        Node::Column { name, .. } => Some(name),
        _ => None,
    }
}
