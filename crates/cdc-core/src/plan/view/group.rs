//! What is computed of a group, kept as rows come and go.
//!
//! A group's state is a function of the multiset of its rows, whatever came first and whatever went in between:
//!
//! * counts are counts; sums of exact numbers are exact, however many digits they have in between;
//! * *sums of doubles do not drift*: they are kept as whole multiples of the least double, 2^-1074, exactly, and rounded once, when they
//!   are read. A row that goes takes away what it brought. (MySQL's own sum depends on the order in which it reads rows.)
//! * min, max and what is `distinct` keep each value with the number of rows that have it, in order ([`super::key`]): a change in a group of a
//!   million rows costs a walk down a tree.
//!
//! Where equal values need not be the same ('a' and 'A', -0 and 0) the least by its bytes stands for them.

use super::Aggregate;
use super::key::{KeyPart, KeyProgram};
use crate::codes;
use crate::error::{Error, Result};
use crate::expr::eval::{BoundExpr, Decimal, Failure, Number, NumberType, Rounding, RowMeta};
use crate::row::{Row, RowBuilder};
use crate::value::Value;
use bigdecimal::num_bigint::{BigInt, Sign};
use std::collections::BTreeMap;

/// An aggregation, bound.
#[derive(Debug, Clone)]
pub struct GroupProgram {
    /// What makes a group.
    pub(crate) key: KeyProgram,
    /// The columns that show it, one per part of the key.
    pub(crate) columns: Vec<BoundExpr>,
    /// Equal keys have the same columns.
    pub(crate) key_tells_all: bool,
    pub(crate) items: Vec<ItemProgram>,
}

/// One of its aggregates.
#[derive(Debug, Clone)]
pub(crate) struct ItemProgram {
    pub(crate) function: Aggregate,
    pub(crate) distinct: bool,
    /// `None`: of `count(*)`.
    pub(crate) arg: Option<BoundExpr>,
    /// How values are told apart and ordered: of min, max and what is distinct.
    pub(crate) order: Option<KeyPart>,
    /// What a sum or a mean is stored as.
    pub(crate) ty: Option<NumberType>,
}

/// The rows of one group.
#[derive(Debug, Clone, Default)]
pub struct GroupState {
    rows: i64,
    /// The group's columns, where equal keys need not have the same.
    shown: BTreeMap<Row, i64>,
    items: Vec<ItemState>,
    /// Of the rows in `shown`.
    shown_bytes: i64,
}

#[derive(Debug, Clone, Default)]
struct ItemState {
    /// Rows whose argument is not NULL; of what is distinct the different values.
    count: i64,
    sum: Sum,
    /// By the bytes that order them, and their own.
    values: BTreeMap<(Vec<u8>, Row), i64>,
    /// Of those.
    bytes: i64,
}

#[derive(Debug, Clone, Default)]
enum Sum {
    #[default]
    Nothing,
    Exact(Decimal),
    /// Of doubles: times 2^1074.
    Double(BigInt),
}

impl Sum {
    fn add(&mut self, number: &Number, times: i64) {
        if let Number::Double(double) = number {
            let mut units = in_units(*double);
            units *= times;
            match self {
                Sum::Double(sum) => *sum += units,
                other => *other = Sum::Double(units),
            }
            return;
        }
        let Some(value) = number.to_decimal() else { return };
        let part = if times == 1 { value } else { value.multiply(&Decimal::from_int(i128::from(times))) };
        match self {
            Sum::Exact(sum) => *sum = sum.add(&part),
            other => *other = Sum::Exact(part),
        }
    }

    fn number(&self) -> Option<Number> {
        match self {
            Sum::Nothing => None,
            Sum::Exact(sum) => Some(Number::Decimal(sum.clone())),
            Sum::Double(units) => Some(Number::Double(from_units(units))),
        }
    }
}

/// A double as a whole number of 2^-1074.
fn in_units(double: f64) -> BigInt {
    let bits = double.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i64;
    let mantissa = bits & ((1 << 52) - 1);
    // subnormal ones have the exponent 1 and no hidden bit
    let (mantissa, shift) = if exponent == 0 { (mantissa, 0) } else { (mantissa | 1 << 52, exponent - 1) };
    let units = BigInt::from(mantissa) << shift as usize;
    if double.is_sign_negative() { -units } else { units }
}

/// The double nearest to so many 2^-1074, ties to even; infinite beyond the greatest.
fn from_units(units: &BigInt) -> f64 {
    let magnitude = units.magnitude();
    let length = magnitude.bits() as i64;
    // 53 bits are kept of a normal double
    let cut = (length - 53).max(0);
    let mut kept: u64 = (magnitude >> cut as usize).iter_u64_digits().next().unwrap_or(0);
    let mut exponent = cut;
    if cut > 0 {
        let half = magnitude.bit(cut as u64 - 1);
        let more = cut > 1 && magnitude.trailing_zeros().is_some_and(|zeros| (zeros as i64) < cut - 1);
        if half && (more || kept & 1 == 1) {
            kept += 1;
            if kept == 1 << 53 {
                (kept, exponent) = (1 << 52, exponent + 1);
            }
        }
    }
    let bits = if kept < 1 << 52 {
        kept
    } else if exponent + 1 >= 0x7ff {
        0x7ff << 52
    } else {
        (exponent as u64 + 1) << 52 | (kept & ((1 << 52) - 1))
    };
    let double = f64::from_bits(bits);
    if units.sign() == Sign::Minus { -double } else { double }
}

impl GroupProgram {
    /// The bytes that tell a row's group.
    ///
    /// # Errors
    /// What its expressions meet.
    pub fn key_of<'v>(&'v self, columns: &[Value<'v>], meta: &RowMeta<'v>, out: &mut Vec<u8>) -> Result<()> {
        self.key.encode(columns, meta, out).map(|_| ())
    }

    /// Is it of all rows, so that there is one group over nothing too?
    pub fn is_of_all(&self) -> bool {
        self.key.is_empty()
    }

    /// A group without rows.
    pub fn empty(&self) -> GroupState {
        GroupState { items: vec![ItemState::default(); self.items.len()], ..GroupState::default() }
    }

    /// A row comes (`times` > 0) or goes.
    ///
    /// # Errors
    /// What its expressions meet.
    pub fn change<'v>(
        &'v self,
        state: &mut GroupState,
        columns: &[Value<'v>],
        meta: &RowMeta<'v>,
        times: i64,
    ) -> Result<()> {
        state.rows += times;
        if !self.key_tells_all || state.shown.is_empty() {
            let mut values = Vec::with_capacity(self.columns.len());
            for column in &self.columns {
                values.push(column.eval(columns, meta)?);
            }
            let shown = Row::pack(values);
            let size = shown.as_bytes().len() as i64;
            let step = if self.key_tells_all {
                i64::from(state.shown.insert(shown, 0).is_none())
            } else {
                counted(&mut state.shown, shown, times)
            };
            state.shown_bytes += step * size;
        }
        for (item, state) in self.items.iter().zip(&mut state.items) {
            item.change(state, columns, meta, times)?;
        }
        Ok(())
    }

    /// The group's row; `None` if it has none.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` for a sum beyond its type; `INTERNAL` where more rows went than came.
    pub fn row(&self, state: &GroupState) -> Result<Option<Row>> {
        if state.rows < 0 {
            return Err(Error::definite(codes::INTERNAL, "more rows have left a group than came into it"));
        }
        if state.rows == 0 && !self.is_of_all() {
            return Ok(None);
        }
        let mut builder = RowBuilder::new();
        if let Some((shown, _)) = state.shown.first_key_value() {
            shown.iter().for_each(|value| builder.push(&value));
        }
        for (item, item_state) in self.items.iter().zip(&state.items) {
            builder.push(&item.value(item_state, state.rows)?);
        }
        Ok(Some(builder.finish()))
    }
}

impl GroupState {
    /// No rows are in it.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of the rows and values that it holds.
    pub fn bytes(&self) -> i64 {
        self.shown_bytes + self.items.iter().map(|item| item.bytes).sum::<i64>()
    }
}

/// Counts a key; how many more keys there are.
fn counted<K: Ord>(map: &mut BTreeMap<K, i64>, key: K, times: i64) -> i64 {
    use std::collections::btree_map::Entry;
    match map.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(times);
            1
        }
        Entry::Occupied(mut entry) => {
            *entry.get_mut() += times;
            if *entry.get() == 0 {
                entry.remove();
                return -1;
            }
            0
        }
    }
}

/// Counts a value by what orders it.
fn counted_value(state: &mut ItemState, key: Vec<u8>, value: Row, times: i64) {
    let size = (key.len() + value.as_bytes().len()) as i64;
    state.bytes += size * counted(&mut state.values, (key, value), times);
}

impl ItemProgram {
    fn change<'v>(
        &'v self,
        state: &mut ItemState,
        columns: &[Value<'v>],
        meta: &RowMeta<'v>,
        times: i64,
    ) -> Result<()> {
        let Some(arg) = &self.arg else { return Ok(()) };
        let value = arg.eval(columns, meta)?;
        if value.is_null() {
            return Ok(());
        }
        let number = || -> Result<Number, Failure> {
            Number::of(&value)?.ok_or_else(|| Failure::unexpected(&value, "a number"))
        };
        if let Some(order) = &self.order {
            let mut key = Vec::new();
            order.encode(columns, meta, &mut key)?;
            if self.distinct {
                // the first row of a value brings it, the last one takes it along
                let had = count_of(&state.values, &key);
                counted_value(state, key.clone(), Row::pack([value.clone()]), times);
                let has = count_of(&state.values, &key);
                let step = i64::from(has != 0) - i64::from(had != 0);
                state.count += step;
                if step != 0 && matches!(self.function, Aggregate::Sum | Aggregate::Avg) {
                    state.sum.add(&number().map_err(|f| arg.place(f))?, step);
                }
            } else {
                state.count += times;
                counted_value(state, key, Row::pack([value]), times);
            }
            return Ok(());
        }
        state.count += times;
        if matches!(self.function, Aggregate::Sum | Aggregate::Avg) {
            state.sum.add(&number().map_err(|f| arg.place(f))?, times);
        }
        Ok(())
    }

    fn value<'s>(&self, state: &'s ItemState, rows: i64) -> Result<Value<'s>> {
        let stored = |number: Number| -> Result<Value<'static>> {
            let ty = self.ty.unwrap_or(NumberType::Double);
            let place = |failure| match &self.arg {
                Some(arg) => arg.place(failure),
                None => Error::definite(codes::INTERNAL, "an aggregate of nothing"),
            };
            number.store(ty).map_err(place)
        };
        Ok(match self.function {
            Aggregate::Count => Value::Int(if self.arg.is_some() { state.count } else { rows }),
            _ if state.count == 0 => Value::Null,
            Aggregate::Sum => state.sum.number().map_or(Ok(Value::Null), stored)?,
            Aggregate::Avg => match (state.sum.number(), self.ty) {
                (Some(Number::Double(sum)), _) => stored(Number::Double(sum / state.count as f64))?,
                (Some(Number::Decimal(sum)), Some(NumberType::Decimal { scale, .. })) => {
                    let mean = sum.divide(&Decimal::from_int(i128::from(state.count)), scale);
                    mean.map_or(Ok(Value::Null), |mean| {
                        stored(Number::Decimal(mean.round(scale, Rounding::HalfAway)))
                    })?
                }
                _ => Value::Null,
            },
            Aggregate::Min => shown(state.values.first_key_value()),
            Aggregate::Max => match state.values.last_key_value() {
                // of equal ones the least by its bytes
                Some(((key, _), _)) => shown(state.values.range((key.clone(), Row::pack([]))..).next()),
                None => Value::Null,
            },
        })
    }
}

fn shown<'s>(entry: Option<(&'s (Vec<u8>, Row), &'s i64)>) -> Value<'s> {
    entry.map_or(Value::Null, |((_, row), _)| row.get(0))
}

fn count_of(values: &BTreeMap<(Vec<u8>, Row), i64>, key: &[u8]) -> i64 {
    values.range((key.to_vec(), Row::pack([]))..).take_while(|((k, _), _)| k == key).map(|(_, n)| n).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_come_back_from_their_units() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed
        };
        let mut doubles =
            vec![0.0, 1.0, -1.0, 0.1, 5e-324, f64::MAX, f64::MIN, f64::MIN_POSITIVE, f64::MIN_POSITIVE / 2.0];
        doubles.extend((0..10_000).map(|_| f64::from_bits(random())).filter(|d| d.is_finite()));
        for double in doubles {
            assert_eq!(from_units(&in_units(double)).to_bits(), (double + 0.0).to_bits(), "{double:e}");
        }
        // what is between two doubles goes to the nearer one, a tie to the even one
        let odd = |n: f64, more: i64| from_units(&(in_units(n) * 4 + more)) / 4.0;
        let one = 2f64.powi(-1074 + 60);
        let gap = 1_i64 << (60 - 52 + 2);
        assert_eq!(odd(one, gap / 2).to_bits(), one.to_bits());
        assert_eq!(odd(one, gap / 2 + 1).to_bits(), one.to_bits() + 1);
        assert_eq!(odd(one, gap + gap / 2).to_bits(), one.to_bits() + 2);
        assert!(from_units(&(in_units(f64::MAX) * 2)).is_infinite());
    }

    #[test]
    fn sums_of_doubles_do_not_drift() {
        let mut sum = Sum::default();
        for (value, times) in [(1e308, 1), (0.1, 1), (1e-300, 3), (1e308, -1), (1e-300, -3)] {
            sum.add(&Number::Double(value), times);
        }
        assert_eq!(sum.number(), Some(Number::Double(0.1)));
        let mut sum = Sum::default();
        (0..10).for_each(|_| sum.add(&Number::Double(0.1), 1));
        assert_eq!(sum.number(), Some(Number::Double(1.0)));
    }
}
