//! Does every stored value read the same after its column has got another type?
//!
//! Only what is certain counts: a change this does not know means that the table is copied again, which is
//! never wrong.

use super::charset::keeps_text;
use super::context::Context;
use super::cursor::Cursor;
use super::lexer::{Kind, unquote_name};
use cdc_core::schema::{Charset, ColumnType, IntWidth};

/// Bits of an integer of this width.
fn bits(width: IntWidth) -> u32 {
    match width {
        IntWidth::Tiny => 8,
        IntWidth::Small => 16,
        IntWidth::Medium => 24,
        IntWidth::Int => 32,
        IntWidth::Big => 64,
    }
}

/// Decimal digits of the widest integer.
fn digits(width: IntWidth) -> u8 {
    match width {
        IntWidth::Tiny => 3,
        IntWidth::Small => 5,
        IntWidth::Medium => 8,
        IntWidth::Int => 10,
        IntWidth::Big => 20,
    }
}

/// From one type to the other, does every value stay what it is?
pub(super) fn stay(from: &ColumnType, to: &ColumnType) -> bool {
    use ColumnType as T;
    if from == to {
        return true;
    }
    match (from, to) {
        (T::Int { width: a, unsigned: ua }, T::Int { width: b, unsigned: ub }) => {
            if ua == ub {
                bits(*b) >= bits(*a)
            } else {
                *ua && bits(*b) > bits(*a)
            }
        }
        (T::Int { width, unsigned: ua }, T::Decimal { precision, scale, unsigned: ub }) => {
            (*ua || !ub) && precision.saturating_sub(*scale) >= digits(*width)
        }
        (T::Int { width, unsigned: ua }, T::Double { unsigned: ub }) => (*ua || !ub) && bits(*width) <= 32,
        (
            T::Decimal { precision: p, scale: s, unsigned: ua },
            T::Decimal { precision: q, scale: t, unsigned: ub },
        ) => (*ua || !ub) && t >= s && q.saturating_sub(*t) >= p.saturating_sub(*s),
        (T::Float { unsigned: ua }, T::Float { unsigned: ub } | T::Double { unsigned: ub })
        | (T::Double { unsigned: ua }, T::Double { unsigned: ub }) => *ua || !ub,
        (T::Bit { width: a }, T::Bit { width: b }) => b >= a,
        (T::Time { fsp: a }, T::Time { fsp: b })
        | (T::DateTime { fsp: a }, T::DateTime { fsp: b })
        | (T::Timestamp { fsp: a }, T::Timestamp { fsp: b }) => b >= a,
        (
            T::Char { length: a, charset: c },
            T::Char { length: b, charset: d } | T::VarChar { length: b, charset: d },
        )
        | (T::VarChar { length: a, charset: c }, T::VarChar { length: b, charset: d }) => {
            b >= a && keeps(c, d)
        }
        (
            T::Char { length, charset: c } | T::VarChar { length, charset: c },
            T::Text { size, charset: d },
        ) => {
            let most = u64::from(*length) * super::charset::max_bytes(&d.name);
            keeps(c, d) && most <= size.max_bytes()
        }
        (T::Text { size: a, charset: c }, T::Text { size: b, charset: d }) => {
            // A text that takes more bytes in the other set may not fit the same size.
            keeps(c, d) && (b > a || (b == a && is_same_set(c, d)))
        }
        // BINARY is filled up with zeros: a longer one holds other values.
        (T::Binary { length: a } | T::VarBinary { length: a }, T::VarBinary { length: b }) => b >= a,
        (T::Binary { length } | T::VarBinary { length }, T::Blob { size }) => {
            u64::from(*length) <= size.max_bytes()
        }
        (T::Blob { size: a }, T::Blob { size: b }) => b >= a,
        // Members may only be added behind the others: values are kept as numbers in places.
        (T::Enum { labels: a, charset: c }, T::Enum { labels: b, charset: d })
        | (T::Set { labels: a, charset: c }, T::Set { labels: b, charset: d }) => {
            b.starts_with(a) && keeps(c, d)
        }
        (T::Geometry { kind: a, .. }, T::Geometry { kind: b, .. }) => a == b || &**b == "geometry",
        (T::Vector { dimensions: a }, T::Vector { dimensions: b }) => b >= a,
        _ => false,
    }
}

fn is_same_set(a: &Charset, b: &Charset) -> bool {
    a.name == b.name
}

fn keeps(a: &Charset, b: &Charset) -> bool {
    keeps_text(&a.name, &b.name)
}

/// An expression in a form in which the statement's text and the server's own print of it are more often
/// equal: blanks, quotes around names, the outermost parentheses, character set introducers and letter case
/// outside of texts are gone. Inner parentheses stay, they mean something; where the server prints more of
/// them than were typed, the table is copied once too often.
pub(super) fn plain_expression(text: &str) -> String {
    let context = Context::mysql(u32::MAX);
    let mut text = text.trim();
    loop {
        let mut cursor = Cursor::new(text, &context);
        match cursor.group() {
            Ok(inside) if cursor.at_end() => text = inside.trim(),
            _ => break,
        }
    }
    let mut cursor = Cursor::new(text, &context);
    let mut plain = String::with_capacity(text.len());
    loop {
        let token = cursor.peek();
        match token.kind {
            Kind::End | Kind::Unterminated => return plain,
            Kind::Word if token.text.starts_with('_') && cursor.second().kind == Kind::Text => {}
            Kind::Quoted => plain.push_str(&unquote_name(token.text).to_lowercase()),
            Kind::Text => plain.push_str(token.text),
            _ => plain.push_str(&token.text.to_lowercase()),
        }
        plain.push(' ');
        cursor.advance();
    }
}
