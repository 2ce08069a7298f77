//! Views bound to the schemas of the tables that they read: operators over rows.
//!
//! The result is a graph ([`Graph`]): a node an operator, its inputs in front of it. Two views that read one table share its node, and so do
//! two that read one view.
//!
//! *Only what is used travels.* The columns of a table that nothing of a view names are left out at its entrance, where a
//! `select` or an `aggregate` says what is used at all. A condition behind inner joins that looks at one side only is asked in front of
//! the join.
//!
//! *Keys.* What identifies a row of an operator's output, where that is known:
//!
//! | operator | key |
//! |---|---|
//! | a table | its own |
//! | where, select, extend, drop, rename | the same, as long as all its columns are there |
//! | join | both; the left one alone, where the equalities hold the right one's whole key: there is one match at most |
//! | left join | as join; the right one's columns may be NULL |
//! | right join | both |
//! | full join | both, if a column of one of them cannot be NULL: a row of the left alone is told from one of the right alone by it |
//! | semi join, anti join, top | the left one, the input's |
//! | aggregate | the columns of `group by` |
//! | distinct, union distinct | all columns |
//! | union all | none |
//!
//! A view with a key writes at most one row of it; where a flow states another one it is watched ([`Upsert`](super::Upsert)).

use super::group::{GroupProgram, ItemProgram};
use super::key::{KeyPart, KeyProgram, KeyType};
use super::rank::Ranking;
use super::{Aggregate, AggregateItem, InputOf, JoinKind, OrderKey, ViewInput, ViewOp, ViewPlan};
use crate::codes;
use crate::diagnostic::{Diagnostic, Span};
use crate::error::{Error, Result};
use crate::event::{Op, Origin};
use crate::expr::eval::{
    Binder, BoundExpr, Class, ExprType, NUMBER_OF_LABEL, NumberType, RowMeta, Scope, ScopeColumn, describe,
};
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::plan::program::{
    Shape, ShapeColumn, Step, duplicate_column, expressions, located, packed, run, walk,
};
use crate::plan::{FlowOp, SelectItem};
use crate::row::Row;
use crate::schema::{Charset, Column, ColumnType, TableId, TableSchema, same_name};
use crate::value::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Views as operators.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// The operators, each behind its inputs.
    pub nodes: Vec<Node>,
    /// The views that somebody reads, each behind those that it reads.
    pub views: Vec<BoundView>,
}

impl Graph {
    /// A view that somebody reads.
    pub fn view(&self, name: &str) -> Option<&BoundView> {
        self.views.iter().find(|v| v.name == name)
    }

    /// The tables that are read, each with nothing but the columns that travel and the key.
    pub fn schemas(&self) -> Vec<Arc<TableSchema>> {
        let schema = |input: &TableInput| {
            let place = |name: &Arc<str>| input.columns.iter().position(|c| c.name == *name);
            Arc::new(TableSchema {
                id: input.table.clone(),
                version: 1,
                columns: input.columns.clone(),
                primary_key: input.key.iter().flatten().filter_map(place).collect(),
                unique_keys: Vec::new(),
                charset: Charset::utf8mb4(),
                comment: String::new(),
            })
        };
        self.tables().map(schema).collect()
    }

    /// The tables that are read, each once.
    pub fn tables(&self) -> impl Iterator<Item = &TableInput> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Table(input) => Some(input),
            _ => None,
        })
    }
}

/// A view, bound.
#[derive(Debug, Clone)]
pub struct BoundView {
    /// Its name.
    pub name: String,
    /// The operator that gives its rows.
    pub node: usize,
    /// The shape of its rows, under [`ViewPlan::table`]'s name; its primary key is the view's, where that is known.
    pub schema: Arc<TableSchema>,
}

/// An operator.
#[derive(Debug, Clone)]
pub struct Node {
    /// As `explain` shows it: `join[order_lines: c]`.
    pub name: String,
    /// What it does.
    pub kind: NodeKind,
}

/// What an operator does.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// The rows of a table, as they are at the end of each tick.
    Table(TableInput),
    /// Each row by itself.
    Map {
        /// The operator in front.
        input: usize,
        /// What it makes of a row.
        map: Arc<RowMap>,
    },
    /// Rows of two sides that agree.
    Join {
        /// Which.
        kind: JoinKind,
        /// The operators in front.
        inputs: [usize; 2],
        /// What must agree, on each side.
        keys: [Arc<KeyProgram>; 2],
        /// How many columns each side has.
        widths: [usize; 2],
        /// What else must be true of a pair for its rows to match, asked of the two rows one behind the other.
        pairs: Option<Arc<RowMap>>,
    },
    /// A row a group.
    Group {
        /// The operator in front.
        input: usize,
        /// What it makes of them.
        group: Arc<GroupProgram>,
    },
    /// All rows of several.
    Union {
        /// The operators in front.
        inputs: Vec<usize>,
    },
    /// The first rows of an order.
    Top {
        /// The operator in front.
        input: usize,
        /// How many.
        count: u64,
        /// So many of each of these groups.
        per: Arc<KeyProgram>,
        /// The order; what is equal in it is ordered by the row's key, or by its bytes.
        by: Arc<KeyProgram>,
    },
}

/// A table that views read.
#[derive(Debug, Clone)]
pub struct TableInput {
    /// The source.
    pub source: String,
    /// Which table.
    pub table: TableId,
    /// The columns that travel, with their types when the views were bound.
    pub columns: Vec<Column>,
    /// Its key, by name; none: its rows are a multiset.
    pub key: Option<Vec<Arc<str>>>,
    /// The views that read each column, or need it to know a row by its key.
    pub readers: BTreeMap<Arc<str>, BTreeSet<String>>,
}

impl TableInput {
    /// The views that read a column, or any where none is given: `view "a"` and `reads`, or `views "a", "b"` and `read`.
    pub fn read_by(&self, column: Option<&str>) -> (String, &'static str) {
        let of_column = |name: &str| column.is_none_or(|column| same_name(column, name));
        let readers = self.readers.iter().filter(|(name, _)| of_column(name));
        let names: BTreeSet<String> =
            readers.flat_map(|(_, names)| names).map(|n| format!("\"{n}\"")).collect();
        let (word, verb) = if names.len() == 1 { ("view", "reads") } else { ("views", "read") };
        (format!("{word} {}", Vec::from_iter(names).join(", ")), verb)
    }
}

/// What is made of each row by itself.
#[derive(Debug, Clone)]
pub struct RowMap {
    table: TableId,
    width: usize,
    steps: Vec<Step>,
    registers: Vec<usize>,
    same_row: bool,
}

impl RowMap {
    /// What comes of a row; `None` if it is left out.
    ///
    /// # Errors
    /// What its expressions meet, with the row.
    pub fn apply(&self, row: &Row) -> Result<Option<Row>> {
        let origin = Origin::default();
        let meta = RowMeta { op: Op::Read, table: &self.table, origin: &origin };
        let made = run(&self.steps, row, self.width, &meta).map_err(|e| located(e, row, &meta))?;
        let Some(values) = made else { return Ok(None) };
        if self.same_row {
            return Ok(Some(row.clone()));
        }
        Ok(Some(packed(|builder| self.registers.iter().for_each(|r| builder.push(&values[*r])))))
    }
}

/// The bytes of a row's key; `None` if nothing is equal to it.
///
/// # Errors
/// What its expressions meet, with the row.
pub fn key_of(key: &KeyProgram, view: &TableId, row: &Row) -> Result<Option<Vec<u8>>> {
    with_values(view, row, |values, meta| {
        let mut out = Vec::new();
        Ok(key.encode(values, meta, &mut out)?.then_some(out))
    })
}

/// Does something with the values of a view's row; errors tell the row.
///
/// # Errors
/// What is done.
pub fn with_values<T>(
    view: &TableId,
    row: &Row,
    act: impl FnOnce(&[Value<'_>], &RowMeta<'_>) -> Result<T>,
) -> Result<T> {
    let origin = Origin::default();
    let meta = RowMeta { op: Op::Read, table: view, origin: &origin };
    let values: Vec<Value<'_>> = row.iter().collect();
    act(&values, &meta).map_err(|e| located(e, row, &meta))
}

/// The columns behind an operator.
#[derive(Clone)]
struct Output {
    node: usize,
    /// Registers are places in the row.
    columns: Vec<ShapeColumn>,
    /// Columns of tables that the view leaves out before anything reads them: there to be named where they are left out, in no row.
    unread: Vec<ShapeColumn>,
    key: Option<Vec<usize>>,
    /// Columns of which one may stand for the other in the key: an equality of a join says that they agree in each row.
    same: Vec<(usize, usize)>,
}

/// Binds views that somebody reads, and those that they read.
///
/// # Errors
/// All that is wrong with them.
pub fn bind(
    views: &[ViewPlan],
    wanted: &BTreeSet<String>,
    schemas: &[Arc<TableSchema>],
) -> Result<Graph, Vec<Diagnostic>> {
    bound(views, wanted, schemas, false)
}

fn bound(
    views: &[ViewPlan],
    wanted: &BTreeSet<String>,
    schemas: &[Arc<TableSchema>],
    whole: bool,
) -> Result<Graph, Vec<Diagnostic>> {
    let mut binder = GraphBinder {
        plans: by_name(views),
        schemas,
        graph: Graph::default(),
        used: BTreeMap::new(),
        tables: BTreeMap::new(),
        again: whole,
        done: BTreeMap::new(),
        errors: Vec::new(),
    };
    if whole {
        let all = |schema: &Arc<TableSchema>| (schema.id.clone(), (0..schema.columns.len()).collect());
        binder.used = schemas.iter().map(all).collect();
    } else {
        binder.find_used(wanted);
    }
    for view in read_first(views, wanted) {
        binder.view(view);
    }
    if binder.errors.is_empty() { Ok(binder.graph) } else { Err(binder.errors) }
}

/// The views that are wanted, each behind those that it reads: a view finds them bound, however long the chain is.
fn read_first<'p>(views: &'p [ViewPlan], wanted: &BTreeSet<String>) -> Vec<&'p ViewPlan> {
    let by_name = by_name(views);
    let mut order = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let begun = |plan: &'p ViewPlan| (plan, plan.inputs().collect::<Vec<_>>().into_iter());
    for view in views.iter().filter(|v| wanted.contains(&v.name)) {
        if !seen.insert(&view.name) {
            continue;
        }
        let mut open = vec![begun(view)];
        while let Some((plan, inputs)) = open.last_mut() {
            let Some(input) = inputs.next() else {
                order.push(*plan);
                open.pop();
                continue;
            };
            if let InputOf::View(name) = &input.of
                && let Some(read) = by_name.get(name.as_str())
                && seen.insert(&read.name)
            {
                open.push(begun(read));
            }
        }
    }
    order
}

fn by_name(views: &[ViewPlan]) -> BTreeMap<&str, &ViewPlan> {
    // of two of one name, which was reported, the first
    views.iter().rev().map(|view| (view.name.as_str(), view)).collect()
}

/// As [`bind`], the first of what is wrong.
///
/// # Errors
/// That.
pub fn bind_or_first(
    views: &[ViewPlan],
    wanted: &BTreeSet<String>,
    schemas: &[Arc<TableSchema>],
) -> Result<Graph> {
    bind(views, wanted, schemas).map_err(first)
}

/// Views bound anew to [`Graph::schemas`] of a graph before: all the columns of these travel, whichever views still read them, since they are
/// what is held of each row.
///
/// # Errors
/// The first of what is wrong with them.
pub fn bind_again(
    views: &[ViewPlan],
    wanted: &BTreeSet<String>,
    tables: &[Arc<TableSchema>],
) -> Result<Graph> {
    bound(views, wanted, tables, true).map_err(first)
}

fn first(diagnostics: Vec<Diagnostic>) -> Error {
    match diagnostics.into_iter().next() {
        Some(first) => Error::from(first),
        None => Error::definite(codes::INTERNAL, "a view was refused without a reason"),
    }
}

struct GraphBinder<'p> {
    plans: BTreeMap<&'p str, &'p ViewPlan>,
    schemas: &'p [Arc<TableSchema>],
    graph: Graph,
    /// The columns of tables that some view uses, by their places.
    used: BTreeMap<TableId, BTreeSet<usize>>,
    /// The nodes of tables: one for all views, since there is one state of a table.
    tables: BTreeMap<TableId, usize>,
    /// Bound to what is held of the tables: what views leave out unread is not part of that.
    again: bool,
    /// `None`: refused, or being bound.
    done: BTreeMap<String, Option<Output>>,
    errors: Vec<Diagnostic>,
}

impl<'p> GraphBinder<'p> {
    fn node(&mut self, name: String, kind: NodeKind) -> usize {
        self.graph.nodes.push(Node { name, kind });
        self.graph.nodes.len() - 1
    }

    /// What of each table travels: what any of the views that are read uses.
    fn find_used(&mut self, wanted: &BTreeSet<String>) {
        let mut open: Vec<&'p ViewPlan> =
            self.plans.values().copied().filter(|v| wanted.contains(&v.name)).collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(plan) = open.pop() {
            if !seen.insert(plan.name.as_str()) {
                continue;
            }
            let used = Used::of(plan);
            let more = plan.ops.iter().filter_map(|op| match op {
                ViewOp::Join { with, .. } | ViewOp::Union { with, .. } => Some(with),
                _ => None,
            });
            for input in std::iter::once(&plan.from).chain(more) {
                match &input.of {
                    InputOf::View(name) => open.extend(self.plans.get(name.as_str())),
                    InputOf::Table { table, .. } => {
                        for schema in self.schemas.iter().filter(|s| table.matches(&s.id)) {
                            let kept = used.places(&input.alias, schema);
                            self.used.entry(schema.id.clone()).or_default().extend(kept);
                        }
                    }
                }
            }
        }
    }

    fn view(&mut self, plan: &'p ViewPlan) -> Option<Output> {
        if let Some(done) = self.done.get(&plan.name) {
            return done.clone();
        }
        self.done.insert(plan.name.clone(), None);
        let output = self.bound(plan)?;
        let id = plan.table();
        let mut columns: Vec<Column> = Vec::new();
        for column in &output.columns {
            if columns.iter().any(|c| same_name(&c.name, &column.column.name)) {
                self.errors.push(duplicate_column(&column.column.name, &plan.span));
                return None;
            }
            columns.push(plain(&column.column));
        }
        if columns.is_empty() {
            let headline = format!("no column is left in view \"{}\"", plan.name);
            self.errors.push(Diagnostic::error(codes::NO_FLOW, headline).at(plan.span.clone(), ""));
            return None;
        }
        let schema = TableSchema {
            id,
            version: 1,
            columns,
            primary_key: output.key.clone().unwrap_or_default(),
            unique_keys: Vec::new(),
            charset: Charset::utf8mb4(),
            comment: String::new(),
        };
        if let Err(found) = Ranking::bind(&plan.on_conflict, &schema, &format!("view \"{}\"", plan.name)) {
            self.errors.extend(found);
            return None;
        }
        let output = Output {
            columns: output.columns.into_iter().map(|c| ShapeColumn { of: None, ..c }).collect(),
            ..output
        };
        self.graph.views.push(BoundView {
            name: plan.name.clone(),
            node: output.node,
            schema: Arc::new(schema),
        });
        self.done.insert(plan.name.clone(), Some(output.clone()));
        Some(output)
    }

    fn bound(&mut self, plan: &'p ViewPlan) -> Option<Output> {
        let used = Used::of(plan);
        let from = self.input(&plan.from, plan, &used);
        let mut inputs = Vec::new();
        for op in &plan.ops {
            if let ViewOp::Join { with, .. } | ViewOp::Union { with, .. } = op {
                inputs.push(self.input(with, plan, &used));
            }
        }
        let mut sides = vec![from?];
        sides.extend(inputs.into_iter().collect::<Option<Vec<_>>>()?);
        let table = plan.table();
        let ops = self.pushed(&mut sides, plan, &table)?;
        let mut inputs = sides.into_iter();
        let mut output = inputs.next()?;
        let mut rows: Vec<&FlowOp> = Vec::new();
        for (place, op) in ops.iter().enumerate() {
            if let ViewOp::Row(op) = op {
                rows.push(op);
                if ops.get(place + 1).is_some_and(|next| matches!(next, ViewOp::Row(_))) {
                    continue;
                }
                output = self.mapped(output, &rows, plan, &table)?;
                rows.clear();
                continue;
            }
            output = match op {
                ViewOp::Row(_) => output,
                ViewOp::Join { kind, on, span, .. } => {
                    let right = inputs.next()?;
                    self.joined(*kind, output, right, on, span, plan, &table)?
                }
                ViewOp::Aggregate { group_by, items, span } => {
                    self.aggregated(output, group_by, items, span, plan, &table)?
                }
                ViewOp::Distinct { span } => self.distinct(output, span, plan, &table)?,
                ViewOp::Union { all, span, .. } => {
                    let right = inputs.next()?;
                    let both = self.union(output, right, span, plan)?;
                    if *all { both } else { self.distinct(both, span, plan, &table)? }
                }
                ViewOp::Top { count, by, per, span } => {
                    self.top(output, *count, by, per, span, plan, &table)?
                }
            };
        }
        Some(output)
    }

    /// Asks conditions that stand behind joins, and look at one input only, in front of the joins; gives what is left to do.
    fn pushed(&mut self, sides: &mut [Output], plan: &ViewPlan, table: &TableId) -> Option<Vec<ViewOp>> {
        let mut joined: Vec<JoinKind> = Vec::new();
        let mut ops = plan.ops.iter();
        let mut out = Vec::new();
        for op in ops.by_ref() {
            match op {
                ViewOp::Join { kind, .. } => {
                    joined.push(*kind);
                    out.push(op.clone());
                }
                ViewOp::Row(FlowOp::Where(condition)) if !joined.is_empty() => {
                    let mut left: Option<Expr> = None;
                    for part in conjuncts(condition) {
                        if let Some(side) = side_of(part, sides, &joined) {
                            sides[side] = self.thinned(sides[side].clone(), &[part], plan, table)?;
                            continue;
                        }
                        left = Some(match left {
                            None => part.clone(),
                            Some(left) => Expr {
                                span: left.span.start..part.span.end,
                                kind: ExprKind::Binary(BinaryOp::And, Box::new(left), Box::new(part.clone())),
                            },
                        });
                    }
                    out.extend(left.map(|left| ViewOp::Row(FlowOp::Where(left))));
                }
                other => {
                    out.push(other.clone());
                    break;
                }
            }
        }
        out.extend(ops.cloned());
        Some(out)
    }

    fn input(&mut self, input: &'p ViewInput, plan: &'p ViewPlan, used: &Used<'_>) -> Option<Output> {
        let alias: Arc<str> = input.alias.as_str().into();
        let named = |output: Output| Output {
            columns: output
                .columns
                .into_iter()
                .map(|c| ShapeColumn { of: Some(alias.clone()), ..c })
                .collect(),
            unread: Vec::new(),
            ..output
        };
        match &input.of {
            InputOf::View(name) => {
                let view = *self.plans.get(name.as_str())?;
                // a cycle was refused by the language
                self.view(view).map(named)
            }
            InputOf::Table { source, table } => {
                let mut found = self.schemas.iter().filter(|s| table.matches(&s.id));
                let Some(schema) = found.next() else {
                    let shown = match &table.database {
                        Some(database) => format!("{database}.{}", table.table),
                        None => table.table.to_string(),
                    };
                    let headline =
                        format!("view \"{}\" reads table \"{shown}\", which is not captured", plan.name);
                    self.errors.push(
                        Diagnostic::error(codes::UNKNOWN_TABLE, headline).at(input.span.clone(), "").help(
                            format!("check the name, and that tables of source \"{source}\" take it in"),
                        ),
                    );
                    return None;
                };
                if let Some(other) = found.next() {
                    let headline = format!("\"{}\" and \"{}\" have this name", schema.id, other.id);
                    self.errors.push(
                        Diagnostic::error(codes::AMBIGUOUS_TABLE, headline)
                            .at(input.span.clone(), "")
                            .help("write its database too: source.database.table"),
                    );
                    return None;
                }
                Some(self.table(source, schema, &alias, used, plan))
            }
        }
    }

    /// The table's rows, with what this view uses of them.
    fn table(
        &mut self,
        source: &str,
        schema: &TableSchema,
        alias: &Arc<str>,
        used: &Used<'_>,
        plan: &ViewPlan,
    ) -> Output {
        let kept = used.places(alias, schema);
        let travels: Vec<usize> =
            self.used.get(&schema.id).map_or_else(|| kept.clone(), |all| all.iter().copied().collect());
        let mut node = match self.tables.get(&schema.id) {
            Some(node) => *node,
            None => {
                let input = TableInput {
                    source: source.to_owned(),
                    table: schema.id.clone(),
                    columns: travels.iter().map(|i| schema.columns[*i].clone()).collect(),
                    key: schema.key().map(|k| k.iter().map(|i| schema.columns[*i].name.clone()).collect()),
                    readers: BTreeMap::new(),
                };
                let node = self.node(format!("upsert[{source}.{}]", schema.id), NodeKind::Table(input));
                self.tables.insert(schema.id.clone(), node);
                node
            }
        };
        if let NodeKind::Table(input) = &mut self.graph.nodes[node].kind {
            for place in &kept {
                let readers = input.readers.entry(schema.columns[*place].name.clone()).or_default();
                readers.insert(plan.name.clone());
            }
        }
        if kept != travels {
            // what other views use of it stays behind
            let map = RowMap {
                table: plan.table(),
                width: travels.len(),
                steps: Vec::new(),
                registers: kept.iter().filter_map(|i| travels.iter().position(|t| t == i)).collect(),
                same_row: false,
            };
            node = self.node(
                format!("map[{}: {alias}]", plan.name),
                NodeKind::Map { input: node, map: Arc::new(map) },
            );
        }
        let shown = |column: &Column, register: usize| ShapeColumn {
            column: column.clone(),
            of: Some(alias.clone()),
            ty: ExprType::new(column.ty.clone(), column.nullable),
            register,
        };
        let columns = kept.iter().enumerate().map(|(register, i)| shown(&schema.columns[*i], register));
        let unread = (0..schema.columns.len())
            .filter(|i| !kept.contains(i) && used.leaves_out(alias, &schema.columns[*i].name))
            .map(|i| shown(&schema.columns[i], NO_REGISTER));
        let place = |column: &usize| kept.iter().position(|k| k == column);
        Output {
            node,
            columns: columns.collect(),
            unread: unread.collect(),
            key: schema.key().and_then(|key| key.iter().map(place).collect()),
            same: Vec::new(),
        }
    }

    fn mapped(&mut self, input: Output, ops: &[&FlowOp], plan: &ViewPlan, table: &TableId) -> Option<Output> {
        let width = input.columns.len();
        let mut shape = Shape::new(table, input.columns);
        shape.columns.extend(input.unread);
        shape.may_be_gone = self.again;
        for op in ops {
            self.ensure_no_meta(expressions(op), plan)?;
            shape.apply(op);
        }
        if !shape.errors.is_empty() {
            self.errors.append(&mut shape.errors);
            return None;
        }
        let (unread, columns): (Vec<_>, Vec<_>) =
            shape.columns.into_iter().partition(|c| c.register == NO_REGISTER);
        let registers: Vec<usize> = columns.iter().map(|c| c.register).collect();
        let place = |register: usize| registers.iter().position(|r| *r == register);
        // what stands for a column of the key that is left out
        let stands_for = |register: usize| {
            input.same.iter().find_map(|(a, b)| match register {
                r if r == *a => place(*b),
                r if r == *b => place(*a),
                _ => None,
            })
        };
        let key = input
            .key
            .as_ref()
            .and_then(|key| key.iter().map(|k| place(*k).or_else(|| stands_for(*k))).collect());
        let same = input.same.iter().filter_map(|(a, b)| Some((place(*a)?, place(*b)?))).collect();
        let columns =
            columns.into_iter().enumerate().map(|(register, c)| ShapeColumn { register, ..c }).collect();
        let map = RowMap {
            table: table.clone(),
            width,
            same_row: registers.len() == width && registers.iter().enumerate().all(|(i, r)| i == *r),
            steps: shape.steps,
            registers,
        };
        if map.same_row && map.steps.is_empty() {
            return Some(Output { node: input.node, columns, unread, key, same });
        }
        let word = if map.same_row { "filter" } else { "map" };
        let node = self
            .node(format!("{word}[{}]", plan.name), NodeKind::Map { input: input.node, map: Arc::new(map) });
        Some(Output { node, columns, unread, key, same })
    }

    /// `meta.` is about changes of one table; a view's row comes of several.
    fn ensure_no_meta(&mut self, exprs: Vec<&Expr>, plan: &ViewPlan) -> Option<()> {
        let mut found = None;
        for expr in exprs {
            walk(expr, &mut |e| {
                if let ExprKind::Meta(field) = e.kind {
                    found.get_or_insert((field, e.span.clone()));
                }
            });
        }
        let Some((field, span)) = found else { return Some(()) };
        let headline = format!("meta.{} in view \"{}\"", field.name(), plan.name);
        self.errors.push(
            Diagnostic::error(codes::NOT_OF_VIEWS, headline)
                .at(span, "")
                .note("it is about a change of one table; a row of a view is made of rows of several, and changes with any of them"),
        );
        None
    }

    #[allow(clippy::too_many_arguments)]
    fn joined(
        &mut self,
        kind: JoinKind,
        left: Output,
        right: Output,
        on: &Expr,
        span: &Span,
        plan: &ViewPlan,
        table: &TableId,
    ) -> Option<Output> {
        self.ensure_no_meta(vec![on], plan)?;
        let width = left.columns.len();
        // both sides one behind the other, each column at its place on its own side
        let column = |c: &ShapeColumn| ScopeColumn {
            name: c.column.name.clone(),
            of: c.of.clone(),
            index: c.register,
            ty: c.ty.clone(),
        };
        let columns: Vec<ScopeColumn> = left.columns.iter().chain(&right.columns).map(column).collect();
        let scope = Scope { table, columns };
        let aliases = |side: &Output| -> BTreeSet<String> {
            side.columns.iter().filter_map(|c| c.of.as_ref().map(ToString::to_string)).collect()
        };
        if let Some(alias) = aliases(&left).iter().find(|a| aliases(&right).iter().any(|b| same_name(a, b))) {
            let headline = format!("both sides of the join are called \"{alias}\"");
            self.errors.push(
                Diagnostic::error(codes::DUPLICATE_NAME, headline)
                    .at(span.clone(), "")
                    .help("give one of them another name: join t as other on .."),
            );
            return None;
        }
        let mut keys: [Vec<KeyPart>; 2] = [Vec::new(), Vec::new()];
        // conditions on one side alone, and on both
        let (mut of_side, mut rest): ([Vec<&Expr>; 2], Vec<&Expr>) = ([Vec::new(), Vec::new()], Vec::new());
        let errors = self.errors.len();
        for part in conjuncts(on) {
            let sides = match sides_of(part, &scope, width) {
                Ok(sides) => sides,
                Err(error) => {
                    self.errors.push(*error);
                    continue;
                }
            };
            if let ExprKind::Binary(op @ (BinaryOp::Equal | BinaryOp::NullSafeEqual), a, b) = &part.kind
                && sides == [true, true]
                && let (Ok(of_a), Ok(of_b)) = (sides_of(a, &scope, width), sides_of(b, &scope, width))
                && (of_a, of_b) != ([true, true], [true, true])
                && of_a != of_b
                && of_a != [true, true]
                && of_b != [true, true]
            {
                let (a, b) = if of_a == [true, false] { (a, b) } else { (b, a) };
                let mut binder = Binder::new(&scope);
                let compared = match (binder.bind(a), binder.bind(b)) {
                    (Some(a), Some(b)) => binder.comparison(a, b, &part.span),
                    _ => None,
                };
                match binder.finish(compared) {
                    Ok((how, a, b)) => {
                        let ty = KeyType::of(how, a.ty().class(), b.ty().class());
                        let nulls_meet = *op == BinaryOp::NullSafeEqual;
                        for (side, expr) in keys.iter_mut().zip([a, b]) {
                            side.push(KeyPart { expr, ty, descending: false, nulls_meet });
                        }
                    }
                    Err(found) => self.errors.extend(found),
                }
                continue;
            }
            match sides {
                [false, true] => of_side[1].push(part),
                [true, true] => rest.push(part),
                // what is of no side may be asked of either
                _ => of_side[0].push(part),
            }
        }
        if self.errors.len() > errors {
            return None;
        }
        if keys[0].is_empty() {
            self.errors.push(
                Diagnostic::error(codes::JOIN_CONDITION, "the join has no equality between its sides")
                    .at(on.span.clone(), "")
                    .note("without one every row of one side would meet every row of the other")
                    .help("write a condition such as o.customer_id = c.id; further conditions may stand beside it"),
            );
            return None;
        }
        // A condition on one side alone thins that side out where its rows without a match do not count. Where they do, a row for which it is
        // not true meets nothing. One on both sides is asked of each pair.
        let thins = |side: usize| match kind {
            JoinKind::Inner | JoinKind::Semi => true,
            JoinKind::Left | JoinKind::Anti => side == 1,
            JoinKind::Right => side == 0,
            JoinKind::Full => false,
        };
        let mut meets: [Vec<BoundExpr>; 2] = [Vec::new(), Vec::new()];
        for side in (0..2).filter(|side| !thins(*side)) {
            for part in std::mem::take(&mut of_side[side]) {
                let mut binder = Binder::new(&scope);
                let bound = binder.condition(part);
                match binder.finish(bound) {
                    Ok(condition) => meets[side].push(condition),
                    Err(found) => self.errors.extend(found),
                }
            }
        }
        if self.errors.len() > errors {
            return None;
        }
        let [left_only, right_only] = of_side;
        let left = self.thinned(left, &left_only, plan, table)?;
        let right = self.thinned(right, &right_only, plan, table)?;
        let (pairs, behind) = match kind {
            JoinKind::Inner => (None, rest),
            _ => (self.asked_of_pairs(&left, &right, &rest, table)?, Vec::new()),
        };
        // A column that is equal in the join only if it is equal in its table: compared as the table does, not by another collation
        // (`collate` says one for the comparison, and leaves the column what it is).
        let own = |side: &Output, part: &KeyPart| {
            let register = part.expr.as_column()?;
            let column = side.columns.iter().find(|c| c.register == register)?;
            part.is_of_type(&column.ty).then_some(register)
        };
        // one match at most: its whole key is among what must be equal
        let one_match = |side: &Output, parts: &[KeyPart]| {
            let places: Vec<usize> = parts.iter().filter_map(|part| own(side, part)).collect();
            side.key.as_ref().is_some_and(|key| key.iter().all(|k| places.contains(k)))
        };
        let right_once = one_match(&right, &keys[1]);
        // a row of it alone is never one of the other side alone, since its key is not all NULL
        let is_told = |side: &Output, key: &[usize]| {
            let is_there = |k: &usize| side.columns.iter().any(|c| c.register == *k && !c.column.nullable);
            key.iter().any(is_there)
        };
        let alias = right.columns.first().and_then(|c| c.of.clone()).unwrap_or_else(|| "".into());
        let nullable = |column: &ShapeColumn, may: bool| {
            let mut column = column.clone();
            if may {
                column.ty = column.ty.with_nullable(true);
                column.column.nullable = true;
            }
            column
        };
        let widths = [left.columns.len(), right.columns.len()];
        let keeps_right = !matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let mut columns: Vec<ShapeColumn> = left
            .columns
            .iter()
            .map(|c| nullable(c, matches!(kind, JoinKind::Right | JoinKind::Full)))
            .collect();
        if keeps_right {
            columns.extend(right.columns.iter().map(|c| {
                let c = nullable(c, matches!(kind, JoinKind::Left | JoinKind::Full));
                ShapeColumn { register: c.register + widths[0], ..c }
            }));
        }
        let key = match (kind, &left.key, &right.key) {
            (JoinKind::Semi | JoinKind::Anti, left, _) => left.clone(),
            (JoinKind::Inner | JoinKind::Left, Some(left), _) if right_once => Some(left.clone()),
            (JoinKind::Full, Some(of_left), Some(of_right))
                if !is_told(&left, of_left) && !is_told(&right, of_right) =>
            {
                None
            }
            (_, Some(left), Some(right)) => {
                Some(left.iter().copied().chain(right.iter().map(|k| k + widths[0])).collect())
            }
            _ => None,
        };
        let mut same = left.same.clone();
        if kind == JoinKind::Inner {
            same.extend(right.same.iter().map(|(a, b)| (a + widths[0], b + widths[0])));
            // equal in the join only if equal in a key of either
            let pairs = keys[0].iter().zip(&keys[1]).filter(|(a, _)| !a.nulls_meet);
            same.extend(pairs.filter_map(|(a, b)| Some((own(&left, a)?, own(&right, b)? + widths[0]))));
        }
        let kind_node = NodeKind::Join {
            kind,
            inputs: [left.node, right.node],
            keys: {
                let [left_meets, right_meets] = meets;
                let [left, right] = keys;
                let key = |parts, conditions| Arc::new(KeyProgram { parts, conditions });
                [key(left, left_meets), key(right, right_meets)]
            },
            widths,
            pairs,
        };
        let node = self.node(format!("{}[{}: {alias}]", kind.word().replace(' ', "_"), plan.name), kind_node);
        let mut unread = left.unread;
        if keeps_right {
            unread.extend(right.unread);
        }
        let output = Output { node, columns, unread, key, same };
        self.thinned(output, &behind, plan, table)
    }

    /// Conditions on both sides of a join, over the rows of a pair one behind the other.
    fn asked_of_pairs(
        &mut self,
        left: &Output,
        right: &Output,
        conditions: &[&Expr],
        table: &TableId,
    ) -> Option<Option<Arc<RowMap>>> {
        if conditions.is_empty() {
            return Some(None);
        }
        let first = left.columns.len();
        let of_right =
            right.columns.iter().map(|c| ShapeColumn { register: c.register + first, ..c.clone() });
        let columns: Vec<ShapeColumn> = left.columns.iter().cloned().chain(of_right).collect();
        let width = columns.len();
        let mut shape = Shape::new(table, columns);
        for condition in conditions {
            shape.apply(&FlowOp::Where((*condition).clone()));
        }
        if !shape.errors.is_empty() {
            self.errors.append(&mut shape.errors);
            return None;
        }
        let map =
            RowMap { table: table.clone(), width, steps: shape.steps, registers: Vec::new(), same_row: true };
        Some(Some(Arc::new(map)))
    }

    /// Rows for which all of these are true.
    fn thinned(
        &mut self,
        input: Output,
        conditions: &[&Expr],
        plan: &ViewPlan,
        table: &TableId,
    ) -> Option<Output> {
        let ops: Vec<FlowOp> = conditions.iter().map(|c| FlowOp::Where((*c).clone())).collect();
        let ops: Vec<&FlowOp> = ops.iter().collect();
        if ops.is_empty() { Some(input) } else { self.mapped(input, &ops, plan, table) }
    }

    fn aggregated(
        &mut self,
        input: Output,
        group_by: &[crate::plan::NamedExpr],
        items: &[AggregateItem],
        span: &Span,
        plan: &ViewPlan,
        table: &TableId,
    ) -> Option<Output> {
        self.ensure_no_meta(
            group_by.iter().map(|g| &g.expr).chain(items.iter().filter_map(|i| i.arg.as_ref())).collect(),
            plan,
        )?;
        let mut shape = Shape::new(table, input.columns);
        let mut columns = Vec::new();
        let (mut parts, mut shown) = (Vec::new(), Vec::new());
        let mut failed = false;
        for group in group_by {
            let named = shape.computed_plain(group);
            match shape.bound(&group.expr, false).and_then(|bound| self.part(&shape, bound, true)) {
                Some((part, bound)) => {
                    let ty = bound.ty().clone();
                    let mut column =
                        named.unwrap_or_else(|| Column::new(group.name.as_str(), ty.column_type()));
                    column.name = group.name.as_str().into();
                    column.nullable = ty.nullable;
                    columns.push((
                        ShapeColumn { column, of: None, ty, register: columns.len() },
                        &group.expr.span,
                    ));
                    parts.push(part);
                    shown.push(bound);
                }
                None => failed = true,
            }
        }
        let mut programs = Vec::new();
        for item in items {
            match self.item(&mut shape, item) {
                Some((program, ty)) => {
                    let mut column = Column::new(item.name.as_str(), ty.column_type());
                    column.nullable = ty.nullable;
                    columns.push((ShapeColumn { column, of: None, ty, register: columns.len() }, &item.span));
                    programs.push(program);
                }
                None => failed = true,
            }
        }
        self.errors.append(&mut shape.errors);
        if failed {
            return None;
        }
        for (i, (column, span)) in columns.iter().enumerate() {
            if columns[..i].iter().any(|(c, _)| same_name(&c.column.name, &column.column.name)) {
                self.errors.push(duplicate_column(&column.column.name, span));
                return None;
            }
        }
        let _ = span;
        let key: Vec<usize> = (0..parts.len()).collect();
        let key_tells_all =
            parts.iter().zip(&shown).all(|(p, e): (&KeyPart, &BoundExpr)| p.ty.tells_all(e.ty().class()));
        let group =
            GroupProgram { key: KeyProgram::of(parts), columns: shown, key_tells_all, items: programs };
        let node = self.node(
            format!("aggregate[{}]", plan.name),
            NodeKind::Group { input: input.node, group: Arc::new(group) },
        );
        Some(Output {
            node,
            columns: columns.into_iter().map(|(c, _)| c).collect(),
            unread: Vec::new(),
            key: Some(key).filter(|k| !k.is_empty()),
            same: Vec::new(),
        })
    }

    /// How values of an expression are told apart and, unless only equality is asked, ordered.
    fn part(
        &mut self,
        shape: &Shape<'_>,
        bound: BoundExpr,
        only_equality: bool,
    ) -> Option<(KeyPart, BoundExpr)> {
        match part_of(&shape.scope(), bound, only_equality) {
            Ok(part) => Some(part),
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    /// The same of an ENUM or a SET by its text.
    fn part_of_label(&mut self, shape: &Shape<'_>, bound: BoundExpr) -> Option<(KeyPart, BoundExpr)> {
        let scope = shape.scope();
        let mut binder = Binder::new(&scope);
        let span = bound.span().clone();
        let compared = binder.comparison(bound.clone(), bound.clone(), &span);
        match binder.finish(compared) {
            Ok((how, expr, _)) => {
                let ty = KeyType::of(how, Class::Text, Class::Text);
                Some((KeyPart { expr, ty, descending: false, nulls_meet: true }, bound))
            }
            Err(errors) => {
                self.errors.extend(errors);
                None
            }
        }
    }

    fn item(&mut self, shape: &mut Shape<'_>, item: &AggregateItem) -> Option<(ItemProgram, ExprType)> {
        let Some(arg) = &item.arg else {
            let program =
                ItemProgram { function: Aggregate::Count, distinct: false, arg: None, order: None, ty: None };
            return Some((program, ExprType::bigint(false, false)));
        };
        let arg = shape.bound(arg, false)?;
        let class = arg.ty().class();
        let ty = match item.function {
            Aggregate::Count => ExprType::bigint(false, false),
            Aggregate::Min | Aggregate::Max => arg.ty().clone().with_nullable(true),
            Aggregate::Sum | Aggregate::Avg if class.is_approximate() => ExprType::double(true),
            Aggregate::Sum | Aggregate::Avg if class.is_number() => {
                let (whole, scale) = arg.ty().digits();
                if item.function == Aggregate::Sum {
                    ExprType::decimal((whole + 22).min(65 - scale), scale, true)
                } else {
                    ExprType::decimal(whole, (scale + 4).min(30), true)
                }
            }
            Aggregate::Sum | Aggregate::Avg => {
                let headline = format!("{} of {}, which is no number", item.function.name(), describe(&arg));
                let diagnostic = Diagnostic::error(codes::TYPE_MISMATCH, headline).at(arg.span().clone(), "");
                self.errors.push(match class {
                    Class::Text => {
                        diagnostic.help("write `cast(.. as decimal(20,4))` around a text that holds numbers")
                    }
                    Class::Enum | Class::Set => diagnostic.help(NUMBER_OF_LABEL),
                    Class::Json => {
                        diagnostic.help("take a number out of it: `cast(.. ->> '$.path' as decimal(20,4))`")
                    }
                    _ => diagnostic,
                });
                return None;
            }
        };
        let ordered = item.distinct || matches!(item.function, Aggregate::Min | Aggregate::Max);
        let (order, arg) = if ordered {
            let only_equality = !matches!(item.function, Aggregate::Min | Aggregate::Max);
            // the least and the greatest ENUM are those of the labels, while groups and orders go by their numbers (manual 14.19.1)
            let by_label = !only_equality && matches!(class, Class::Enum | Class::Set);
            let (part, arg) = if by_label {
                self.part_of_label(shape, arg)?
            } else {
                self.part(shape, arg, only_equality)?
            };
            (Some(part), arg)
        } else {
            (None, arg)
        };
        let distinct = item.distinct && !matches!(item.function, Aggregate::Min | Aggregate::Max);
        let number = NumberType::of(&ty);
        Some((ItemProgram { function: item.function, distinct, arg: Some(arg), order, ty: number }, ty))
    }

    fn distinct(&mut self, input: Output, span: &Span, plan: &ViewPlan, table: &TableId) -> Option<Output> {
        let shape = Shape::new(table, input.columns.clone());
        let (mut parts, mut shown) = (Vec::new(), Vec::new());
        for column in &input.columns {
            let expr = BoundExpr::of_column(column.register, &column.column.name, &column.ty, span);
            let (part, bound) = self.part(&shape, expr, true)?;
            parts.push(part);
            shown.push(bound);
        }
        let key_tells_all =
            parts.iter().zip(&shown).all(|(p, e): (&KeyPart, &BoundExpr)| p.ty.tells_all(e.ty().class()));
        let group =
            GroupProgram { key: KeyProgram::of(parts), columns: shown, key_tells_all, items: Vec::new() };
        let node = self.node(
            format!("distinct[{}]", plan.name),
            NodeKind::Group { input: input.node, group: Arc::new(group) },
        );
        let key = (0..input.columns.len()).collect();
        Some(Output { node, columns: input.columns, unread: Vec::new(), key: Some(key), same: Vec::new() })
    }

    fn union(&mut self, left: Output, right: Output, span: &Span, plan: &ViewPlan) -> Option<Output> {
        if left.columns.len() != right.columns.len() {
            let headline = format!("a union of {} and {} columns", left.columns.len(), right.columns.len());
            self.errors.push(
                Diagnostic::error(codes::TYPE_MISMATCH, headline)
                    .at(span.clone(), "")
                    .help("select the same columns on both sides, in the same order"),
            );
            return None;
        }
        let mut columns = Vec::new();
        for (a, b) in left.columns.iter().zip(&right.columns) {
            let Some(ty) = common(&a.ty, &b.ty) else {
                let (one, other) = (a.ty.to_string(), b.ty.to_string());
                // where the names of the types are the same, what tells texts apart is not
                let collation = |ty: &ExprType| match ty.ty.as_ref().and_then(|ty| ty.charset()) {
                    Some(charset) if one == other => format!(" collate {}", charset.collation),
                    _ => String::new(),
                };
                let headline = format!(
                    "column \"{}\" is {one}{} on one side of the union and {other}{} on the other",
                    a.column.name,
                    collation(&a.ty),
                    collation(&b.ty)
                );
                self.errors.push(
                    Diagnostic::error(codes::TYPE_MISMATCH, headline)
                        .at(span.clone(), "")
                        .help("write a `cast` on one side"),
                );
                return None;
            };
            let mut column = a.column.clone();
            column.ty = ty.column_type();
            column.nullable = ty.nullable;
            columns.push(ShapeColumn { column, of: None, ty, register: a.register });
        }
        let node = self
            .node(format!("union[{}]", plan.name), NodeKind::Union { inputs: vec![left.node, right.node] });
        Some(Output { node, columns, unread: Vec::new(), key: None, same: Vec::new() })
    }

    #[allow(clippy::too_many_arguments)]
    fn top(
        &mut self,
        input: Output,
        count: u64,
        by: &[OrderKey],
        per: &[Expr],
        span: &Span,
        plan: &ViewPlan,
        table: &TableId,
    ) -> Option<Output> {
        self.ensure_no_meta(by.iter().map(|k| &k.expr).chain(per).collect(), plan)?;
        let mut shape = Shape::new(table, input.columns.clone());
        let mut failed = false;
        let (mut order, mut groups) = (Vec::new(), Vec::new());
        for key in by {
            match shape.bound(&key.expr, false).and_then(|bound| self.part(&shape, bound, false)) {
                Some((part, _)) => order.push(KeyPart { descending: key.descending, ..part }),
                None => failed = true,
            }
        }
        for expr in per {
            match shape.bound(expr, false).and_then(|bound| self.part(&shape, bound, true)) {
                Some((part, _)) => groups.push(part),
                None => failed = true,
            }
        }
        // ties: by key, as far as that has an order
        for register in input.key.iter().flatten() {
            let column = &input.columns[*register];
            if !column.ty.class().is_address() {
                let expr = BoundExpr::of_column(*register, &column.column.name, &column.ty, span);
                let (part, _) = self.part(&shape, expr, false)?;
                order.push(part);
            }
        }
        self.errors.append(&mut shape.errors);
        if failed {
            return None;
        }
        let kind = NodeKind::Top {
            input: input.node,
            count,
            per: Arc::new(KeyProgram::of(groups)),
            by: Arc::new(KeyProgram::of(order)),
        };
        let node = self.node(format!("top[{}]", plan.name), kind);
        Some(Output { node, ..input })
    }
}

/// How values of an expression are told apart and, unless only equality is asked, ordered.
pub(super) fn part_of(
    scope: &Scope<'_>,
    bound: BoundExpr,
    only_equality: bool,
) -> Result<(KeyPart, BoundExpr), Vec<Diagnostic>> {
    let mut binder = Binder::new(scope);
    let class = bound.ty().class();
    let span = bound.span().clone();
    let compared = if class == Class::Null {
        // all rows have it
        Some((KeyType::Bytes, bound.clone()))
    } else if class.is_address() && !only_equality {
        let headline = format!("{} has no order that is built", describe(&bound));
        binder.refuse(
            Diagnostic::error(codes::TYPE_MISMATCH, headline)
                .at(span.clone(), "")
                .help("write `cast(.. as char)` to order by its text, which the server does not"),
        )
    } else if matches!(class, Class::Enum | Class::Set) {
        // by their numbers, as the server groups and orders them
        Some((KeyType::Whole, bound.clone()))
    } else {
        binder
            .comparison(bound.clone(), bound.clone(), &span)
            .map(|(how, a, _)| (KeyType::of(how, class, class), a))
    };
    let (ty, expr) = binder.finish(compared)?;
    Ok((KeyPart { expr, ty, descending: false, nulls_meet: true }, bound))
}

/// A column of a view: without what a table's column has beside its type.
fn plain(column: &Column) -> Column {
    let mut plain = Column::new(column.name.clone(), column.ty.clone());
    plain.nullable = column.nullable;
    plain
}

/// The type of a column of a union: values are not changed, so they must be alike.
fn common(a: &ExprType, b: &ExprType) -> Option<ExprType> {
    let nullable = a.nullable || b.nullable;
    let wider = |a: &ExprType, b: &ExprType| -> ExprType {
        if a.text_length() >= b.text_length() { a.clone() } else { b.clone() }
    };
    let ty = match (&a.ty, &b.ty) {
        (None, _) => return Some(b.clone().with_nullable(true)),
        (_, None) => return Some(a.clone().with_nullable(true)),
        (Some(x), Some(y)) if x == y => a.clone(),
        (Some(ColumnType::Int { unsigned: x, .. }), Some(ColumnType::Int { unsigned: y, .. })) if x == y => {
            wider(a, b)
        }
        (
            Some(ColumnType::Decimal { precision: p, scale: s, unsigned: x }),
            Some(ColumnType::Decimal { precision: q, scale: t, unsigned: y }),
        ) if s == t => {
            let ty = ColumnType::Decimal { precision: *p.max(q), scale: *s, unsigned: *x && *y };
            ExprType::new(ty, nullable)
        }
        (Some(x), Some(y))
            if a.class() == b.class() && (a.class() == Class::Text || a.class() == Class::Bytes) =>
        {
            if x.charset().map(|c| &c.collation) != y.charset().map(|c| &c.collation) {
                return None;
            }
            let mut ty = wider(a, b);
            ty.coercibility = a.coercibility.max(b.coercibility);
            // CHAR is given out without its spaces, as a VARCHAR
            match &ty.ty {
                Some(ColumnType::Char { length, charset }) => {
                    ty.ty = Some(ColumnType::VarChar { length: *length, charset: charset.clone() });
                }
                Some(ColumnType::Binary { length }) => {
                    ty.ty = Some(ColumnType::VarBinary { length: *length });
                }
                _ => {}
            }
            ty
        }
        (Some(_), Some(_)) if a.class() == b.class() && a.class().is_temporal() => {
            if a.fsp() >= b.fsp() {
                a.clone()
            } else {
                b.clone()
            }
        }
        _ => return None,
    };
    Some(ty.with_nullable(nullable))
}

/// The parts of a chain of `and`.
fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let mut parts = Vec::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match &expr.kind {
            ExprKind::Binary(BinaryOp::And, a, b) => open.extend([&**b, &**a]),
            _ => parts.push(expr),
        }
    }
    parts
}

/// Which sides an expression looks at, of columns of which the first `width` are the left one's.
fn sides_of(expr: &Expr, scope: &Scope<'_>, width: usize) -> std::result::Result<[bool; 2], Box<Diagnostic>> {
    let mut sides = [false, false];
    let mut error = None;
    walk(expr, &mut |e| {
        let (of, name) = match &e.kind {
            ExprKind::Column(name) => (None, name),
            ExprKind::Of { table, column } => (Some(table.as_str()), column),
            _ => return,
        };
        match scope.find(of, name, &e.span) {
            Ok(found) => {
                let place = scope.columns.iter().position(|c| std::ptr::eq(c, found));
                sides[usize::from(place.is_some_and(|p| p >= width))] = true;
            }
            Err(diagnostic) => {
                error.get_or_insert(diagnostic);
            }
        }
    });
    match error {
        Some(error) => Err(error),
        None => Ok(sides),
    }
}

/// The one input that a condition behind joins looks at, if asking it in front of them leaves out the same rows: no join on the way may
/// make a row of the input's absence. (The first input is the left side of all, each other one is the right side of its own.)
fn side_of(condition: &Expr, sides: &[Output], joined: &[JoinKind]) -> Option<usize> {
    let keeps = |kind: &JoinKind| !matches!(kind, JoinKind::Right | JoinKind::Full);
    let is_seen = |side: usize| match side.checked_sub(1) {
        None => true,
        Some(join) => joined.get(join).is_some_and(|k| !matches!(k, JoinKind::Semi | JoinKind::Anti)),
    };
    let mut found: BTreeSet<Option<usize>> = BTreeSet::new();
    walk(condition, &mut |e| {
        let (of, name) = match &e.kind {
            ExprKind::Column(name) => (None, name),
            ExprKind::Of { table, column } => (Some(table), column),
            ExprKind::Meta(_) => {
                found.insert(None);
                return;
            }
            _ => return,
        };
        let is_it = |c: &ShapeColumn| {
            same_name(&c.column.name, name)
                && of.is_none_or(|of| c.of.as_ref().is_some_and(|alias| same_name(alias, of)))
        };
        let mut owners = sides
            .iter()
            .enumerate()
            .filter(|(side, _)| is_seen(*side))
            .flat_map(|(side, output)| output.columns.iter().filter(|c| is_it(c)).map(move |_| side));
        // what is unknown or ambiguous is told where the condition stands
        found.insert(match (owners.next(), owners.next()) {
            (Some(side), None) => Some(side),
            _ => None,
        });
    });
    let mut found = found.into_iter();
    let (Some(Some(side)), None) = (found.next(), found.next()) else { return None };
    let allowed = match side.checked_sub(1) {
        None => joined.iter().all(keeps),
        Some(join) => joined.get(join) == Some(&JoinKind::Inner) && joined[join..].iter().all(keeps),
    };
    allowed.then_some(side)
}

/// The register of a column that is in no row.
const NO_REGISTER: usize = usize::MAX;

/// What a view uses of the columns of its tables.
///
/// A column is used if an expression names it, or if it may be in the view's rows or in what tells them apart. What `drop` or `* except (..)` leaves out in
/// front of that, with no expression that has its name anywhere in the view, is used by nothing: it is free to change, or to go.
struct Used<'p> {
    /// Nothing says which columns there are in the end: all that are not left out.
    all: bool,
    /// What expressions name, with what they qualify it by.
    names: Vec<(Option<&'p str>, &'p str)>,
    /// Aliases of tables that come in behind the choice, as a whole.
    whole: Vec<&'p str>,
    /// What is left out by name, and the aliases of the tables that were there then.
    left_out: Vec<(&'p str, Vec<&'p str>)>,
}

impl<'p> Used<'p> {
    fn of(plan: &'p ViewPlan) -> Used<'p> {
        let mut used = Used { all: false, names: Vec::new(), whole: Vec::new(), left_out: Vec::new() };
        // which columns there are is said, from there on whatever tables have
        let mut says = false;
        let mut exprs: Vec<&'p Expr> = Vec::new();
        let mut there: Vec<&'p str> = vec![&plan.from.alias];
        for op in &plan.ops {
            match op {
                ViewOp::Row(op) => {
                    exprs.extend(expressions(op));
                    match op {
                        FlowOp::Drop(names) if !says => {
                            used.left_out.extend(names.iter().map(|n| (n.name.as_str(), there.clone())));
                        }
                        FlowOp::Rename(pairs) => {
                            let both = pairs.iter().flat_map(|(old, new)| [old.name.as_str(), new.as_str()]);
                            used.names.extend(both.map(|name| (None, name)));
                        }
                        FlowOp::Select(items) if !says => {
                            says = true;
                            for item in items {
                                if let SelectItem::Star { except } = item {
                                    says = false;
                                    let names = except.iter().map(|n| (n.name.as_str(), there.clone()));
                                    used.left_out.extend(names);
                                }
                            }
                        }
                        _ => {}
                    }
                }
                ViewOp::Join { on, with, .. } => {
                    if says {
                        used.whole.push(&with.alias);
                    }
                    there.push(&with.alias);
                    exprs.push(on);
                }
                ViewOp::Aggregate { group_by, items, .. } => {
                    exprs.extend(group_by.iter().map(|g| &g.expr));
                    exprs.extend(items.iter().filter_map(|i| i.arg.as_ref()));
                    says = true;
                }
                // rows are told apart by all their columns, and meet those of the other side by their places
                ViewOp::Distinct { .. } | ViewOp::Union { .. } => {
                    used.all |= !says;
                    says = true;
                    if let ViewOp::Union { with, .. } = op {
                        used.whole.push(&with.alias);
                    }
                }
                ViewOp::Top { by, per, .. } => {
                    exprs.extend(by.iter().map(|k| &k.expr).chain(per));
                }
            }
        }
        used.all |= !says;
        for expr in exprs {
            walk(expr, &mut |e| match &e.kind {
                ExprKind::Column(name) => used.names.push((None, name.as_str())),
                ExprKind::Of { table, column } => used.names.push((Some(table.as_str()), column.as_str())),
                _ => {}
            });
        }
        used
    }

    /// The places of what is used of a table, with its key.
    fn places(&self, alias: &str, schema: &TableSchema) -> Vec<usize> {
        let key = schema.key().unwrap_or_default();
        let is_used = |i: &usize| key.contains(i) || self.uses(alias, &schema.columns[*i].name);
        (0..schema.columns.len()).filter(is_used).collect()
    }

    fn uses(&self, alias: &str, column: &str) -> bool {
        let is_it = |(of, name): &(Option<&str>, &str)| {
            same_name(name, column) && of.is_none_or(|of| same_name(of, alias))
        };
        self.names.iter().any(is_it)
            || self.whole.iter().any(|w| same_name(w, alias))
            || self.all && !self.leaves_out(alias, column)
    }

    fn leaves_out(&self, alias: &str, column: &str) -> bool {
        let of_it = |there: &[&str]| there.iter().any(|of| same_name(of, alias));
        self.left_out.iter().any(|(name, there)| same_name(name, column) && of_it(there))
    }
}
