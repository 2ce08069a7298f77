//! Tables of weights, as a server gives them with `WEIGHT_STRING`.
//!
//! # Form of a table
//! Runs of code points that follow each other, in ascending order. A run is a few numbers of variable length
//! (7 bits a byte, the lowest first, all but the last with 0x80):
//! - code points that are left out since the run before it;
//! - twice one less than its length, and 1 if its weights ascend;
//! - how many weights each of its code points has, and these weights: each as the difference to the one before
//!   it, also across runs, doubled, less than zero as its complement.
//!
//! Where the weights ascend, it is the last one, by one from code point to code point. Code points that a table leaves out
//! weigh what a rule says. The test `values_charset_collations` of `cdc-mysql` makes the tables anew and compares.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Gives each code point that the table holds, with its weights.
fn read(table: &[u8], mut each: impl FnMut(u32, &[u16])) {
    let mut bytes = table.iter();
    let mut number = || {
        let (mut value, mut shift) = (0u32, 0);
        loop {
            let byte = *bytes.next()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
    };
    let (mut at, mut last) = (0, 0u16);
    let mut weights = Vec::new();
    while let (Some(gap), Some(length), Some(count)) = (number(), number(), number()) {
        at += gap;
        weights.clear();
        for _ in 0..count {
            let code = number().unwrap_or_default();
            let difference = if code % 2 == 0 { code / 2 } else { !(code / 2) };
            last = last.wrapping_add(difference as u16);
            weights.push(last);
        }
        for i in 0..=length / 2 {
            if i > 0 && length % 2 == 1 {
                last += 1;
                if let Some(weight) = weights.last_mut() {
                    *weight = last;
                }
            }
            each(at, &weights);
            at += 1;
        }
    }
}

/// What `utf8mb4_general_ci` makes of characters.
pub(super) struct General {
    /// By code point.
    mapped: Vec<u16>,
}

pub(super) fn general() -> &'static General {
    static TABLE: LazyLock<General> = LazyLock::new(|| {
        let mut mapped: Vec<u16> = (0..=u16::MAX).collect();
        read(include_bytes!("general_ci.weights"), |c, weights| {
            if let (Some(entry), [weight]) = (mapped.get_mut(c as usize), weights) {
                *entry = *weight;
            }
        });
        General { mapped }
    });
    &TABLE
}

impl General {
    #[inline]
    pub(super) fn map(&self, c: char) -> char {
        match self.mapped.get(c as usize) {
            Some(weight) => char::from_u32(u32::from(*weight)).unwrap_or(c),
            None => char::REPLACEMENT_CHARACTER,
        }
    }
}

/// The weights of Unicode 9's first level, as `utf8mb4_0900_ai_ci` has them.
pub(super) struct Unicode9 {
    /// Of each 256 code points, the place of their entries; [`NOWHERE`] if no table has one.
    pages: Vec<u16>,
    /// 0: no weight; up to 0xffff: this one; [`COMPUTED`]; else how many, and in the low 24 bits where
    /// they begin in `lists`. Code points of the same weights have the same entry, but for what is computed.
    entries: Vec<u32>,
    lists: Vec<u16>,
}

const NOWHERE: u16 = u16::MAX;
const COMPUTED: u32 = u32::MAX;

pub(super) fn unicode9() -> &'static Unicode9 {
    static TABLE: LazyLock<Unicode9> = LazyLock::new(|| {
        let mut table = Unicode9 { pages: vec![NOWHERE; 0x1100], entries: Vec::new(), lists: Vec::new() };
        let mut known: HashMap<Vec<u16>, u32> = HashMap::new();
        read(include_bytes!("uca900_ai_ci.weights"), |c, weights| {
            let entry = match weights {
                [] => 0,
                [weight] => u32::from(*weight),
                list => *known.entry(list.to_vec()).or_insert_with(|| {
                    let from = table.lists.len();
                    table.lists.extend_from_slice(list);
                    (list.len() << 24 | from) as u32
                }),
            };
            let page = &mut table.pages[c as usize >> 8];
            if *page == NOWHERE {
                *page = (table.entries.len() >> 8) as u16;
                table.entries.resize(table.entries.len() + 256, COMPUTED);
            }
            table.entries[usize::from(*page) << 8 | c as usize & 0xff] = entry;
        });
        // the server's tables are made of such pages, and to it all of a page is in the table
        for (high, page) in (0u32..).zip(&table.pages).filter(|(_, page)| **page != NOWHERE) {
            for low in 0..256 {
                let place = usize::from(*page) << 8 | low as usize;
                let weights = table.computed(high << 8 | low);
                let weights = if weights[2] == 0 { &weights[..2] } else { &weights };
                if table.entries[place] == COMPUTED
                    && let Some(entry) = known.get(weights)
                {
                    table.entries[place] = *entry;
                }
            }
        }
        table
    });
    &TABLE
}

impl Unicode9 {
    #[inline]
    fn entry(&self, c: u32) -> u32 {
        match self.pages[c as usize >> 8] {
            NOWHERE => COMPUTED,
            page => self.entries[usize::from(page) << 8 | c as usize & 0xff],
        }
    }

    /// The weights of a text, one after the other.
    pub(super) fn of<'t>(&'t self, text: &'t str) -> Weights<'t> {
        Weights { table: self, chars: text.chars(), rest: &[], computed: [0; 3], computed_rest: 0 }
    }

    pub(super) fn compare(&self, a: &str, b: &str) -> Ordering {
        let (mut a, mut b) = (a.chars(), b.chars());
        loop {
            let (rest_a, rest_b) = (a.as_str(), b.as_str());
            if let (Some(x), Some(y)) = (a.next(), b.next()) {
                let (v, w) = (self.entry(x as u32), self.entry(y as u32));
                if x == y || v == w && v != COMPUTED {
                    continue;
                }
                if (1..=0xffff).contains(&v) && (1..=0xffff).contains(&w) {
                    return v.cmp(&w);
                }
            }
            // from here on their weights need not stand one beside the other
            return self.of(rest_a).cmp(self.of(rest_b));
        }
    }

    pub(super) fn like_key(&self, c: char) -> u32 {
        match self.entry(c as u32) {
            COMPUTED => 1 << 31 | c as u32,
            entry => entry,
        }
    }

    /// The weights of a character that the table leaves out, 0 behind them: of a Hangul syllable those of its
    /// letters (Unicode 9, 3.12), of others what UTS 10, 10.1.3 says of its version 9.
    fn computed(&self, c: u32) -> [u16; 3] {
        let letter = |c| u16::try_from(self.entry(c)).unwrap_or_default();
        let base = match c {
            0xac00..=0xd7a3 => {
                let s = c - 0xac00;
                let last = s % 28;
                let last = if last == 0 { 0 } else { letter(0x11a7 + last) };
                return [letter(0x1100 + s / 588), letter(0x1161 + s % 588 / 28), last];
            }
            // Tangut, by its block and what lies before the next multiple of 256
            0x17000..=0x18aff => return [0xfb00, (c - 0x17000) as u16 | 0x8000, 0],
            0x4e00..=0x9fd5
            | 0xfa0e..=0xfa0f
            | 0xfa11
            | 0xfa13..=0xfa14
            | 0xfa1f
            | 0xfa21
            | 0xfa23..=0xfa24
            | 0xfa27..=0xfa29 => 0xfb40,
            0x3400..=0x4db5
            | 0x20000..=0x2a6d6
            | 0x2a700..=0x2b734
            | 0x2b740..=0x2b81d
            | 0x2b820..=0x2cea1 => 0xfb80,
            _ => 0xfbc0,
        };
        [base + (c >> 15) as u16, c as u16 & 0x7fff | 0x8000, 0]
    }
}

pub(super) struct Weights<'t> {
    table: &'t Unicode9,
    chars: std::str::Chars<'t>,
    /// Of the character before: from the table, or computed.
    rest: &'t [u16],
    computed: [u16; 3],
    computed_rest: usize,
}

impl Iterator for Weights<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if let Some((first, rest)) = self.rest.split_first() {
            self.rest = rest;
            return Some(*first);
        }
        if self.computed_rest > 0 {
            let weight = self.computed[3 - self.computed_rest];
            self.computed_rest -= 1;
            if weight != 0 {
                return Some(weight);
            }
        }
        loop {
            let c = self.chars.next()? as u32;
            match self.table.entry(c) {
                0 => {}
                COMPUTED => {
                    self.computed = self.table.computed(c);
                    self.computed_rest = 2;
                    return Some(self.computed[0]);
                }
                entry @ ..=0xffff => return Some(entry as u16),
                entry => {
                    let from = entry as usize & 0xff_ffff;
                    let list = &self.table.lists[from..from + (entry >> 24) as usize];
                    let (first, rest) = list.split_first()?;
                    self.rest = rest;
                    return Some(*first);
                }
            }
        }
    }
}
