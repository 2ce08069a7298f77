//! The rows of a table that is played, found by their keys.

use super::target::Values;
use cdc_core::Row;
use cdc_core::expr::eval::Collator;
use cdc_core::schema::TableSchema;
use cdc_core::value::Value;
use std::collections::{BTreeMap, HashMap};

/// The rows of a table, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<u64, Values>,
    /// How many have come so far.
    came: u64,
    /// By the number of a key and its values, which row; nothing where a statement may have changed the keys.
    by_key: Option<Vec<HashMap<Vec<Part>, u64>>>,
    /// The largest number that an AUTO_INCREMENT column has had.
    pub(super) last_number: u64,
}

/// A value of a key, equal to those that the server takes for equal.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Part {
    /// Text, as its collation orders it.
    Text(Vec<u8>),
    Other(Row),
}

/// The keys of a table: the one that tells its rows apart first, where there is one.
fn keys(schema: &TableSchema) -> impl Iterator<Item = &[usize]> {
    schema.key().into_iter().chain(schema.unique_keys.iter().map(Vec::as_slice))
}

/// A NULL equals nothing: then there is none.
fn parts(schema: &TableSchema, key: &[usize], row: &Values) -> Option<Vec<Part>> {
    key.iter()
        .map(|&i| match row.get(i)? {
            Value::Null => None,
            value => Some(match (value, schema.columns[i].ty.charset().and_then(Collator::of)) {
                (Value::Text(text), Some(collator)) => {
                    let mut out = Vec::new();
                    collator.encode(text, &mut out);
                    Part::Text(out)
                }
                _ => Part::Other(Row::pack([value.clone()])),
            }),
        })
        .collect()
}

impl Rows {
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Values)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    pub(super) fn get(&self, id: u64) -> Option<&Values> {
        self.rows.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row that agrees with another one in a key: the number counts the table's own and its unique ones.
    pub(super) fn of_key(&mut self, schema: &TableSchema, number: usize, row: &Values) -> Option<u64> {
        let wanted = parts(schema, keys(schema).nth(number)?, row)?;
        self.by_key(schema).get(number)?.get(&wanted).copied()
    }

    /// A row that agrees with this one in one of the keys.
    pub(super) fn of_any_key(&mut self, schema: &TableSchema, row: &Values) -> Option<u64> {
        (0..keys(schema).count()).find_map(|number| self.of_key(schema, number, row))
    }

    fn by_key(&mut self, schema: &TableSchema) -> &mut Vec<HashMap<Vec<Part>, u64>> {
        let rows = &self.rows;
        self.by_key.get_or_insert_with(|| {
            keys(schema)
                .map(|key| {
                    let mut found = HashMap::new();
                    for (id, row) in rows {
                        if let Some(parts) = parts(schema, key, row) {
                            found.entry(parts).or_insert(*id);
                        }
                    }
                    found
                })
                .collect()
        })
    }

    pub(super) fn insert(&mut self, schema: &TableSchema, row: Values) {
        self.came += 1;
        self.put(schema, self.came, row);
    }

    fn put(&mut self, schema: &TableSchema, id: u64, row: Values) {
        for (found, key) in self.by_key(schema).iter_mut().zip(keys(schema)) {
            if let Some(parts) = parts(schema, key, &row) {
                found.insert(parts, id);
            }
        }
        self.rows.insert(id, row);
    }

    pub(super) fn remove(&mut self, schema: &TableSchema, id: u64) -> Option<Values> {
        let row = self.rows.remove(&id)?;
        for (found, key) in self.by_key(schema).iter_mut().zip(keys(schema)) {
            if let Some(parts) = parts(schema, key, &row) {
                found.remove(&parts);
            }
        }
        Some(row)
    }

    pub(super) fn replace(&mut self, schema: &TableSchema, id: u64, row: Values) {
        self.remove(schema, id);
        self.put(schema, id, row);
    }

    /// The keys, or what is compared in them, may be others from now on.
    pub(super) fn keys_change(&mut self) {
        self.by_key = None;
    }

    /// Every row anew, in their order.
    pub(super) fn rewrite(&mut self, rows: Vec<Values>) {
        self.keys_change();
        self.rows.values_mut().zip(rows).for_each(|(row, new)| *row = new);
    }
}
