//! What views say of given tables, worked out from the beginning: slow, obvious, the oracle of the tests.

use cdc_core::plan::view::JoinKind;
use cdc_core::plan::view::bind::{Graph, NodeKind, RowMap, key_of, with_values};
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
            NodeKind::Join { kind, inputs, keys, widths, pairs } => {
                let keyed = |side: usize| -> Result<Vec<Keyed<'_>>> {
                    nodes[inputs[side]]
                        .iter()
                        .map(|row| Ok((key_of(&keys[side], &view, row)?, row)))
                        .collect()
                };
                joined(*kind, &keyed(0)?, &keyed(1)?, *widths, pairs.as_deref())?
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

fn joined(
    kind: JoinKind,
    left: &[Keyed<'_>],
    right: &[Keyed<'_>],
    widths: [usize; 2],
    pairs: Option<&RowMap>,
) -> Result<Vec<Row>> {
    let mut by_key: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (place, (key, _)) in right.iter().enumerate() {
        if let Some(key) = key {
            by_key.entry(key).or_default().push(place);
        }
    }
    let row = |left: Option<&Row>, right: Option<&Row>| {
        let nulls = |n: usize| (0..n).map(|_| Value::Null).collect::<Vec<_>>();
        let left = left.map_or_else(|| nulls(widths[0]), |row| row.iter().collect());
        let right = right.map_or_else(|| nulls(widths[1]), |row| row.iter().collect());
        Row::pack(left.into_iter().chain(right))
    };
    let mut out = Vec::new();
    let mut has_match = vec![false; right.len()];
    for (key, a) in left {
        let mut found = Vec::new();
        for place in key.as_ref().and_then(|key| by_key.get(&key[..])).into_iter().flatten() {
            let pair = row(Some(a), Some(right[*place].1));
            if pairs.map_or(Ok(true), |map| map.apply(&pair).map(|row| row.is_some()))? {
                has_match[*place] = true;
                found.push(pair);
            }
        }
        match kind {
            JoinKind::Semi if !found.is_empty() => out.push((*a).clone()),
            JoinKind::Anti if found.is_empty() => out.push((*a).clone()),
            JoinKind::Semi | JoinKind::Anti => {}
            JoinKind::Left | JoinKind::Full if found.is_empty() => out.push(row(Some(a), None)),
            _ => out.extend(found),
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        for ((_, b), _) in right.iter().zip(has_match).filter(|(_, has_match)| !has_match) {
            out.push(row(None, Some(b)));
        }
    }
    Ok(out)
}
