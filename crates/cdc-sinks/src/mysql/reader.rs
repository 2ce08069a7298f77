//! Reads a target back, for `cdc verify`. Never writes, and holds no transaction between calls.
//!
//! A value is compared as the server gives it out against what it would give out for the source's value: digits,
//! texts and bytes by their bytes, FLOAT and DOUBLE by their bits (the server prints a FLOAT with six digits, so
//! it is read as a DOUBLE), JSON in the server's own print. An ENUM's invalid value reads like a member of no characters: where the
//! target's column has such a member, they are told by the number.

use super::conn::{Errors, Link};
use super::look::Found;
use super::sql::quote;
use super::types::{Dialect, Pushed, Slot};
use super::{MysqlOptions, sql};
use crate::default::without_deleted;
use cdc_core::connector::{ColumnDifference, Comparison, TargetReader, TargetTable};
use cdc_core::schema::ColumnType;
use cdc_core::{Error, Result, Row, codes};
use std::borrow::Borrow;
use std::collections::HashMap;

/// Rows asked for in one statement.
const AT_ONCE: usize = 200;

/// The reader of a database.
pub struct MysqlReader {
    options: MysqlOptions,
    link: Option<Link>,
    /// By table: its columns' types at the target, of tables in whose keys they matter.
    types: HashMap<String, Vec<String>>,
}

/// A table, ready to be read.
struct Reading {
    here: String,
    names: Vec<String>,
    types: Vec<String>,
    slots: Vec<Slot>,
}

impl MysqlReader {
    /// A reader; opens nothing yet.
    pub fn new(options: MysqlOptions) -> MysqlReader {
        MysqlReader { options, link: None, types: HashMap::new() }
    }

    /// The table, if there is one, checked to have all our columns.
    fn find(&mut self, table: &TargetTable) -> Result<Option<(&mut Link, Errors<'_>, Reading)>> {
        if self.link.as_ref().is_none_or(Link::is_lost) {
            self.link = Some(Link::open(&self.options, false)?);
        }
        let errors = Errors(&self.options);
        let Some(link) = &mut self.link else { return Ok(None) };
        let found = Found::look(link, &table.name).map_err(|e| {
            errors.of(codes::TARGET_OPEN, &format!("looking at table \"{}\"", table.name), &e)
        })?;
        // one that differs in letter case is another table to the source
        let Some(found) = found.filter(|f| f.name == table.name) else { return Ok(None) };
        let (names, types, slots) = Default::default();
        let mut reading = Reading { here: quote(&found.name), names, types, slots };
        for column in &table.schema.columns {
            let Some(there) = found.column(&column.name) else {
                return Err(Error::definite(
                    codes::TARGET_SHAPE,
                    format!("table \"{}\" at the target has no column \"{}\"", table.name, column.name),
                )
                .note(format!("found: {}", found.shown())));
            };
            reading.names.push(there.name.clone());
            reading.types.push(there.ty.clone());
            reading.slots.push(Slot::new(&column.ty, &there.ty, &link.dialect));
        }
        Ok(Some((link, errors, reading)))
    }
}

impl Reading {
    fn columns(&self, which: &[usize]) -> String {
        which.iter().map(|i| self.slots[*i].reading(&self.names[*i])).collect::<Vec<_>>().join(", ")
    }
}

/// The columns of the key; all of them where there is none.
fn key_columns(table: &TargetTable) -> Vec<usize> {
    if table.is_multiset() { (0..table.schema.columns.len()).collect() } else { table.key.clone() }
}

/// Appends a value of a key. The two zeros are one, as they are to the server's index.
fn push_key(out: &mut Vec<u8>, slot: &Slot, value: Option<&[u8]>) {
    match value {
        None => out.push(0),
        Some(bytes) if slot.is_float() && bytes == (-0.0f64).to_bits().to_be_bytes() => {
            push_key(out, slot, Some(&[0; 8]));
        }
        Some(bytes) => {
            out.push(1);
            out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

impl TargetReader for MysqlReader {
    fn count(&mut self, table: &TargetTable) -> Result<u64> {
        let Some((link, errors, reading)) = self.find(table)? else { return Ok(0) };
        let rows = link
            .texts(format!("SELECT COUNT(*) FROM {}{}", reading.here, without_deleted(table, quote)))
            .map_err(|e| errors.of(codes::TARGET_OPEN, "counting rows", &e))?;
        Ok(rows.first().and_then(|r| r.first()).and_then(|n| n.parse().ok()).unwrap_or(0))
    }

    fn compare(&mut self, table: &TargetTable, rows: &[Row]) -> Result<Vec<Comparison>> {
        if table.is_multiset() {
            return Err(Error::definite(
                codes::INTERNAL,
                format!(
                    "rows of table \"{}\" were to be compared by a key that it does not have",
                    table.name
                ),
            ));
        }
        let Some((link, errors, reading)) = self.find(table)? else {
            return Ok(vec![Comparison::Missing; rows.len()]);
        };
        let all: Vec<usize> = (0..reading.slots.len()).collect();
        let select = format!("SELECT {} FROM {} WHERE ", reading.columns(&all), reading.here);
        let mut answers = Vec::with_capacity(rows.len());
        for some in rows.chunks(AT_ONCE) {
            let mut statement = select.clone().into_bytes();
            let mut asked = 0;
            let start = statement.len();
            for row in some {
                let before = statement.len();
                if before > start {
                    statement.extend_from_slice(b" OR ");
                }
                if push_condition(&mut statement, table, &reading, row) {
                    asked += 1;
                } else {
                    // what has no place at the target is not there
                    statement.truncate(before);
                }
            }
            let found = if asked == 0 {
                Vec::new()
            } else {
                link.rows(&statement).map_err(|e| {
                    errors.of(codes::TARGET_OPEN, &format!("reading table \"{}\"", table.name), &e)
                })?
            };
            let mut by_key: HashMap<Vec<u8>, Vec<Option<Vec<u8>>>> = HashMap::with_capacity(found.len());
            for row in found {
                let stored: Vec<Option<Vec<u8>>> =
                    row.into_iter().zip(&reading.slots).map(|(v, slot)| v.map(|v| slot.stored(v))).collect();
                let mut key = Vec::new();
                for i in &table.key {
                    push_key(&mut key, &reading.slots[*i], stored.get(*i).and_then(Option::as_deref));
                }
                by_key.insert(key, stored);
            }
            for row in some {
                let key = encode(table, row, |i| reading.slots.get(i));
                answers.push(match by_key.get(&key) {
                    None => Comparison::Missing,
                    Some(stored) => compare_row(&reading, row, stored),
                });
            }
        }
        Ok(answers)
    }

    fn scan_keys(
        &mut self,
        table: &TargetTable,
        each: &mut dyn FnMut(Vec<u8>, String) -> bool,
    ) -> Result<()> {
        let Some((link, errors, reading)) = self.find(table)? else { return Ok(()) };
        let key = key_columns(table);
        let statement = format!(
            "SELECT {} FROM {}{}",
            reading.columns(&key),
            reading.here,
            without_deleted(table, quote)
        );
        link.each(&statement, &mut |row| {
            let mut bytes = Vec::new();
            let mut texts = Vec::with_capacity(key.len());
            for (value, i) in row.into_iter().zip(&key) {
                let slot = &reading.slots[*i];
                let stored = value.map(|v| slot.stored(v));
                push_key(&mut bytes, slot, stored.as_deref());
                texts.push(format!("{} = {}", reading.names[*i], slot.show(stored.as_deref())));
            }
            each(bytes, sql::clipped(&texts.join(", ")))
        })
        .map_err(|e| {
            errors.of(codes::TARGET_OPEN, &format!("reading the keys of table \"{}\"", table.name), &e)
        })
    }

    fn encode_key(&mut self, table: &TargetTable, row: &Row) -> Vec<u8> {
        let (of, dialect) = (&table.schema.columns, Dialect::default());
        // only of these it matters what the column is at the target
        let has_members = |i: &usize| {
            let ty = of.get(*i).map(|c| &c.ty);
            matches!(ty, Some(ColumnType::Enum { .. } | ColumnType::Set { .. }))
        };
        if !key_columns(table).iter().any(has_members) {
            return encode(table, row, |i| Some(Slot::new(&of.get(i)?.ty, "", &dialect)));
        }
        if !self.types.contains_key(&table.name) {
            // what cannot be looked at is told by the read that comes next
            let found = self.find(table).ok().flatten();
            let types = found.map(|(_, _, reading)| reading.types).unwrap_or_default();
            self.types.insert(table.name.clone(), types);
        }
        let types = self.types.get(&table.name).map(Vec::as_slice).unwrap_or_default();
        let there = |i: usize| types.get(i).map_or("", String::as_str);
        encode(table, row, |i| Some(Slot::new(&of.get(i)?.ty, there(i), &dialect)))
    }
}

fn encode<S: Borrow<Slot>>(table: &TargetTable, row: &Row, slot: impl Fn(usize) -> Option<S>) -> Vec<u8> {
    let values: Vec<_> = row.iter().collect();
    let mut key = Vec::new();
    for i in key_columns(table) {
        let (Some(value), Some(slot)) = (values.get(i), slot(i)) else { continue };
        let slot = slot.borrow();
        let mut expected = Vec::new();
        if value.is_null() {
            push_key(&mut key, slot, None);
        } else if slot.push_expected(&mut expected, value) {
            push_key(&mut key, slot, Some(&expected));
        } else {
            // what has no place at the target is never found there
            key.push(u8::MAX);
        }
    }
    key
}

fn push_condition(out: &mut Vec<u8>, table: &TargetTable, reading: &Reading, row: &Row) -> bool {
    let values: Vec<_> = row.iter().collect();
    for (n, i) in table.key.iter().enumerate() {
        let (Some(value), Some(slot)) = (values.get(*i), reading.slots.get(*i)) else { return false };
        out.extend_from_slice(if n == 0 { b"(" } else { b" AND " });
        out.extend_from_slice(format!("{} = ", quote(&reading.names[*i])).as_bytes());
        if slot.push(out, value) == Pushed::NoPlace {
            return false;
        }
    }
    out.push(b')');
    true
}

fn compare_row(reading: &Reading, row: &Row, stored: &[Option<Vec<u8>>]) -> Comparison {
    let mut differences = Vec::new();
    for (i, (value, slot)) in row.iter().zip(&reading.slots).enumerate() {
        let actual = stored.get(i).and_then(Option::as_deref);
        let mut expected = Vec::new();
        let has_place = value.is_null() || slot.push_expected(&mut expected, &value);
        let expected = if value.is_null() { None } else { Some(&expected[..]) };
        if !has_place || expected != actual {
            let shown = if has_place {
                slot.show(expected)
            } else {
                format!("{value} (not to be written to this column)")
            };
            differences.push(ColumnDifference {
                column: reading.names[i].clone(),
                expected: shown,
                actual: slot.show(actual),
            });
        }
    }
    if differences.is_empty() { Comparison::Equal } else { Comparison::Differs(differences) }
}
