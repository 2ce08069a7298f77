//! What views say of given tables, worked out from the beginning: slow, obvious, the oracle of the tests.

use cdc_core::plan::view::JoinKind;
use cdc_core::plan::view::bind::{Graph, NodeKind, key_of, with_values};
use cdc_core::schema::TableId;
use cdc_core::{Result, Row, Value};
use std::collections::{BTreeMap, HashMap};

/// The rows of every view of a graph, by its name, each as often as it is there; `tables` hold the columns that travel
/// ([`cdc_core::plan::view::bind::TableInput::columns`]).
///
/// # Errors
/// What expressions meet.
pub fn evaluate(graph: &Graph, tables: &BTreeMap<TableId, Vec<Row>>) -> Result<BTreeMap<String, Vec<Row>>> {
    let view = TableId::new("", "reference");
    let mut nodes: Vec<Vec<Row>> = Vec::new();
    for node in &graph.nodes {
        let rows = match &node.kind {
            NodeKind::Table(input) => tables.get(&input.table).cloned().unwrap_or_default(),
            NodeKind::Map { input, map } => {
                let mut out = Vec::new();
                for row in &nodes[*input] {
                    out.extend(map.apply(row)?);
                }
                out
            }
            NodeKind::Join { kind, inputs, keys, widths } => {
                let keyed = |side: usize| -> Result<Vec<Keyed<'_>>> {
                    nodes[inputs[side]]
                        .iter()
                        .map(|row| Ok((key_of(&keys[side], &view, row)?, row)))
                        .collect()
                };
                joined(*kind, &keyed(0)?, &keyed(1)?, *widths)
            }
            NodeKind::Group { input, group } => {
                let mut groups = BTreeMap::new();
                if group.is_of_all() {
                    groups.insert(Vec::new(), group.empty());
                }
                for row in &nodes[*input] {
                    with_values(&view, row, |values, meta| {
                        let mut key = Vec::new();
                        group.key_of(values, meta, &mut key)?;
                        let state = groups.entry(key).or_insert_with(|| group.empty());
                        group.change(state, values, meta, 1)
                    })?;
                }
                let mut out = Vec::new();
                for state in groups.values() {
                    out.extend(group.row(state)?);
                }
                out
            }
            NodeKind::Union { inputs } => inputs.iter().flat_map(|i| nodes[*i].clone()).collect(),
            NodeKind::Top { input, count, per, by } => {
                let mut groups: BTreeMap<Vec<u8>, Vec<(Vec<u8>, Row)>> = BTreeMap::new();
                for row in &nodes[*input] {
                    let group = key_of(per, &view, row)?.unwrap_or_default();
                    let order = key_of(by, &view, row)?.unwrap_or_default();
                    groups.entry(group).or_default().push((order, row.clone()));
                }
                let mut out = Vec::new();
                for mut rows in groups.into_values() {
                    rows.sort();
                    out.extend(rows.into_iter().take(*count as usize).map(|(_, row)| row));
                }
                out
            }
        };
        nodes.push(rows);
    }
    Ok(graph.views.iter().map(|view| (view.name.clone(), nodes[view.node].clone())).collect())
}

type Keyed<'r> = (Option<Vec<u8>>, &'r Row);

fn joined(kind: JoinKind, left: &[Keyed<'_>], right: &[Keyed<'_>], widths: [usize; 2]) -> Vec<Row> {
    let by_key = |side: &[Keyed<'_>]| {
        let mut map: HashMap<Vec<u8>, Vec<Row>> = HashMap::new();
        for (key, row) in side {
            if let Some(key) = key {
                map.entry(key.clone()).or_default().push((*row).clone());
            }
        }
        map
    };
    let row = |left: Option<&Row>, right: Option<&Row>| {
        let nulls = |n: usize| (0..n).map(|_| Value::Null).collect::<Vec<_>>();
        let left = left.map_or_else(|| nulls(widths[0]), |row| row.iter().collect());
        let right = right.map_or_else(|| nulls(widths[1]), |row| row.iter().collect());
        Row::pack(left.into_iter().chain(right))
    };
    let (of_left, of_right) = (by_key(left), by_key(right));
    let mut out = Vec::new();
    for (key, a) in left {
        let found = key.as_ref().and_then(|key| of_right.get(key)).map_or(&[][..], Vec::as_slice);
        match kind {
            JoinKind::Semi if !found.is_empty() => out.push((*a).clone()),
            JoinKind::Anti if found.is_empty() => out.push((*a).clone()),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => {
                out.extend(found.iter().map(|b| row(Some(a), Some(b))));
                if found.is_empty() && matches!(kind, JoinKind::Left | JoinKind::Full) {
                    out.push(row(Some(a), None));
                }
            }
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        for (key, b) in right {
            if !key.as_ref().is_some_and(|key| of_left.contains_key(key)) {
                out.push(row(None, Some(b)));
            }
        }
    }
    out
}
