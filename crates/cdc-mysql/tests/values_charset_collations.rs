//! Text compares as at the server, under each collation that is built.
//!
//! - Weights: `WEIGHT_STRING` of every code point, against what `Collator` makes of it. The tables of
//!   `cdc-core` are made anew from it and compared with those that are there; `UPDATE_EXPECT=1` writes them.
//! - Comparison: columns of texts, ENUM and SET, compared by a server and by expressions that are bound to the same
//!   table. The texts are random, of characters that are odd or equal to others; and each character stands beside
//!   its neighbor and beside the first of those that are equal to it.
//!
//! `CDC_SEED=` runs one seed.

mod common;

use anyhow::{Context, Result, ensure};
use cdc_core::event::{Op, Origin};
use cdc_core::expr::eval::{Collator, RowMeta, bind};
use cdc_core::expr::{BinaryOp, Expr, ExprKind};
use cdc_core::schema::{Charset, Column, ColumnType, IntWidth, TableId, TableSchema};
use cdc_core::value::Value;
use common::{root, server};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Collations that every server has, by character set.
const EVERYWHERE: &[(&str, &str)] = &[
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("ascii", "ascii_general_ci"),
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb3", "utf8mb3_bin"),
    ("latin1", "latin1_bin"),
    ("ascii", "ascii_bin"),
];

const MYSQL_ONLY: &[(&str, &str)] = &[("utf8mb4", "utf8mb4_0900_ai_ci"), ("utf8mb4", "utf8mb4_0900_bin")];

const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 255)";

fn collator(charset: &str, collation: &str) -> Result<Collator> {
    Collator::of(&Charset::new(charset, collation)).with_context(|| format!("{collation} is not built"))
}

fn encoded(collator: Collator, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    collator.encode(text, &mut out);
    out
}

async fn session() -> Result<Conn> {
    let mut conn = root(server()).await?;
    conn.query_drop("SET NAMES utf8mb4, sql_mode = '', group_concat_max_len = 16777216").await?;
    conn.query_drop("CREATE DATABASE IF NOT EXISTS texts").await?;
    conn.query_drop("USE texts").await?;
    Ok(conn)
}

fn bytes_of(hex: &str) -> Result<Vec<u8>> {
    hex.as_bytes().chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

fn hex_of(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// The characters of a set, and what the server says that they weigh.
async fn weights(conn: &mut Conn, charset: &str, collation: &str) -> Result<Vec<(char, Vec<u8>)>> {
    let weight = format!("HEX(WEIGHT_STRING(c COLLATE {collation}))");
    let mut all = Vec::new();
    if !charset.starts_with("utf8") {
        let most = if charset == "ascii" { 127 } else { 255 };
        let rows: Vec<(String, String)> = conn
            .query(format!(
                "{NUMBERS} SELECT HEX(CONVERT(c USING utf8mb4)), {weight} FROM \
                 (SELECT CONVERT(UNHEX(LPAD(HEX(i), 2, '0')) USING {charset}) c FROM n WHERE i <= {most}) chars"
            ))
            .await?;
        for (c, weight) in rows {
            let c = String::from_utf8(bytes_of(&c)?)?;
            all.push((c.chars().next().context("a character")?, bytes_of(&weight)?));
        }
        return Ok(all);
    }
    let planes = if charset == "utf8mb3" { 256 } else { 0x1100 };
    let rows: Vec<(u32, String)> = conn
        .query(format!(
            "{NUMBERS}, high(i) AS (SELECT a.i * 17 + b.i FROM n a, n b WHERE b.i < 17) \
             SELECT g, GROUP_CONCAT({weight} ORDER BY code) FROM \
             (SELECT h.i g, h.i * 256 + n.i code, CONVERT(CONVERT(UNHEX(LPAD(HEX(h.i * 256 + n.i), 8, '0')) \
             USING utf32) USING {charset}) c FROM high h, n \
             WHERE h.i < {planes} AND h.i NOT BETWEEN 216 AND 223) codes GROUP BY g"
        ))
        .await?;
    for (group, weights) in rows {
        let mut code = group * 256;
        for weight in weights.split(',') {
            all.push((char::from_u32(code).context("a code point")?, bytes_of(weight)?));
            code += 1;
        }
        ensure!(code == group * 256 + 256, "{code:#x} is the last one of group {group}");
    }
    ensure!(all.len() == planes as usize * 256 - 2048, "{} characters", all.len());
    Ok(all)
}

/// Ordered as the server orders, each character beside the one before it.
fn compare_weights(collation: &str, collator: Collator, weights: &[(char, Vec<u8>)]) -> Result<()> {
    let mut order: Vec<(&[u8], char)> = weights.iter().map(|(c, weight)| (&weight[..], *c)).collect();
    order.sort();
    for pair in order.windows(2) {
        let [(x, a), (y, b)] = *pair else { continue };
        let theirs = x.cmp(y);
        let (mut of_a, mut of_b) = ([0; 4], [0; 4]);
        let (a, b) = (&*a.encode_utf8(&mut of_a), &*b.encode_utf8(&mut of_b));
        let compared = collator.compare(a, b);
        let encodings = encoded(collator, a).cmp(&encoded(collator, b));
        ensure!(
            encodings == theirs && compared == theirs,
            "{collation}: {a:?} and {b:?} are {compared:?}, the server says {theirs:?}"
        );
    }
    Ok(())
}

/// A table in the form of `cdc_core::expr::eval`'s `collation/weights.rs`.
fn table_of(weights: &BTreeMap<u32, Vec<u16>>) -> Vec<u8> {
    fn number(mut value: u32, out: &mut Vec<u8>) {
        while value >= 0x80 {
            out.push(value as u8 & 0x7f | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
    let follows = |at: u32, weights: &[u16], step: u16| {
        let mut next = weights.to_vec();
        if let Some(last) = next.last_mut() {
            *last += step;
        }
        (at + 1, next)
    };
    let mut out = Vec::new();
    let (mut end, mut last) = (0, 0u16);
    let mut rest = weights.iter().peekable();
    while let Some((&start, own)) = rest.peek().copied() {
        let length = |step| {
            let (mut at, mut now) = (start, own.clone());
            loop {
                let (next, wanted) = follows(at, &now, step);
                if weights.get(&next) != Some(&wanted) {
                    return at - start + 1;
                }
                (at, now) = (next, wanted);
            }
        };
        let (level, rising) = (length(0), if own.is_empty() { 0 } else { length(1) });
        let (length, step) = if rising > level { (rising, 1) } else { (level, 0) };
        number(start - end, &mut out);
        number((length - 1) * 2 + step, &mut out);
        number(own.len() as u32, &mut out);
        for weight in own {
            let difference = i32::from(*weight) - i32::from(last);
            number(if difference < 0 { !difference * 2 + 1 } else { difference * 2 } as u32, &mut out);
            last = *weight;
        }
        if step == 1 {
            last += length as u16 - 1;
        }
        end = start + length;
        for _ in 0..length {
            rest.next();
        }
    }
    out
}

/// Is the table that is there made of what the server says?
fn compare_table(name: &str, weights: &BTreeMap<u32, Vec<u16>>) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cdc-core/src/expr/eval/collation").join(name);
    let table = table_of(weights);
    if std::env::var("UPDATE_EXPECT").is_ok_and(|v| !v.is_empty() && v != "0") {
        std::fs::write(&path, &table)?;
    }
    ensure!(std::fs::read(&path)? == table, "{name} is not made of what this server says");
    Ok(())
}

fn units(weight: &[u8]) -> Vec<u16> {
    weight.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
}

#[tokio::test]
async fn every_character_weighs_what_the_server_says() -> Result<()> {
    let mut conn = session().await?;
    for (charset, collation) in EVERYWHERE {
        let weights = weights(&mut conn, charset, collation).await.context(*collation)?;
        compare_weights(collation, collator(charset, collation)?, &weights)?;
        if *collation == "utf8mb4_general_ci" {
            let moved = weights
                .iter()
                .map(|(c, weight)| (*c as u32, units(weight)))
                .filter(|(c, weight)| *c < 0x1_0000 && *weight != [*c as u16]);
            compare_table("general_ci.weights", &moved.collect())?;
        }
    }
    Ok(())
}

/// What a table need not hold, as it is computed: Han, Tangut, all that is not assigned, and, of the jamo that they are
/// made of, Hangul syllables.
fn is_computed(c: u32, weight: &[u8], all: &HashMap<u32, &[u8]>) -> bool {
    let jamo = |c: u32| all.get(&c).copied().unwrap_or_default();
    if (0xac00..0xd7a4).contains(&c) {
        let s = c - 0xac00;
        let last = if s.is_multiple_of(28) { &[][..] } else { jamo(0x11a7 + s % 28) };
        return *weight == *[jamo(0x1100 + s / 588), jamo(0x1161 + s % 588 / 28), last].concat();
    }
    let [first, second] = units(weight)[..] else { return false };
    let by_block = (0x1_7000..0x1_8b00).contains(&c);
    first == 0xfb00 && by_block && second == (c - 0x1_7000) as u16 | 0x8000
        || [0xfb40, 0xfb80, 0xfbc0].contains(&(u32::from(first) - (c >> 15)))
            && second == c as u16 & 0x7fff | 0x8000
}

#[tokio::test]
async fn every_character_weighs_what_unicode_9_says_mysql_only() -> Result<()> {
    let mut conn = session().await?;
    for (charset, collation) in MYSQL_ONLY {
        let weights = weights(&mut conn, charset, collation).await.context(*collation)?;
        compare_weights(collation, collator(charset, collation)?, &weights)?;
        if *collation == "utf8mb4_0900_ai_ci" {
            let all: HashMap<u32, &[u8]> = weights.iter().map(|(c, w)| (*c as u32, &w[..])).collect();
            let held = weights
                .iter()
                .map(|(c, weight)| (*c as u32, weight))
                .filter(|(c, weight)| !is_computed(*c, weight, &all))
                .map(|(c, weight)| (c, units(weight)));
            compare_table("uca900_ai_ci.weights", &held.collect())?;
        }
    }
    Ok(())
}

/// Unicode's own table gives some sequences weights that are not those of their characters: letters with marks, Indic
/// vowels of two parts, Thai and Lao vowels that are written in front. The server's has none.
#[tokio::test]
async fn no_two_characters_weigh_together_mysql_only() -> Result<()> {
    let mut conn = session().await?;
    let collator = collator("utf8mb4", "utf8mb4_0900_ai_ci")?;
    // all but Han, Tangut and what is not assigned
    let chars: Vec<char> = holds("utf8mb4")
        .into_iter()
        .filter(|c| encoded(collator, c.encode_utf8(&mut [0; 4]))[0] < 0xfb)
        .collect();
    ensure!(chars.len() > 39_000, "{} characters", chars.len());
    let seconds = "\u{300}\u{301}\u{302}\u{303}\u{304}\u{306}\u{307}\u{308}\u{30a}\u{30b}\u{30c}\u{30f}\u{327}\u{328}\u{338}\u{345}\
                   \u{653}\u{654}\u{655}\u{93c}\u{9be}\u{9d7}\u{b3e}\u{b56}\u{b57}\u{bbe}\u{bd7}\u{c56}\u{cc2}\u{cd5}\u{d3e}\u{d57}\
                   \u{dca}\u{dcf}\u{ddf}\u{102e}\u{1b35}\u{3099}\u{309a}\u{f71}\u{f72}\u{f74}\u{f80}\u{fb5}\u{fb7}\u{11127}\u{1133e}\
                   \u{114b0}\u{114bd}\u{115af}\u{e40}\u{e41}\u{e42}\u{e43}\u{e44}\u{ec0}\u{ec1}\u{ec2}\u{ec3}\u{ec4}\u{19b5}\u{19b6}\
                   \u{19b7}\u{19ba}\u{aab5}\u{aab6}\u{aab9}\u{aabb}\u{aabc}\u{1161}\u{11a8}\u{b7}l";
    for second in seconds.chars() {
        let mut text = String::from(second);
        for c in &chars {
            text.extend([*c, second]);
        }
        let sql = format!("SELECT WEIGHT_STRING(_utf8mb4 X'{}' COLLATE utf8mb4_0900_ai_ci)", hex_of(&text));
        let mut theirs: Vec<u8> = conn.query_first(sql).await?.context("weights")?;
        // the end of ours
        theirs.push(0);
        ensure!(theirs == encoded(collator, &text), "beside {second:?} something weighs otherwise");
    }
    Ok(())
}

/// An expression as we have it and as it is written.
struct Asked {
    expr: Expr,
    sql: String,
}

fn asked(kind: ExprKind, sql: impl Into<String>) -> Asked {
    Asked { expr: Expr { kind, span: 0..0 }, sql: sql.into() }
}

fn column(name: &str) -> Asked {
    asked(ExprKind::Column(name.to_owned()), name)
}

fn text(text: &str) -> Asked {
    asked(ExprKind::Literal(Value::Text(text.to_owned().into())), format!("'{text}'"))
}

fn binary(op: BinaryOp, word: &str, a: Asked, b: Asked) -> Asked {
    let sql = format!("({} {word} {})", a.sql, b.sql);
    asked(ExprKind::Binary(op, Box::new(a.expr), Box::new(b.expr)), sql)
}

fn like(a: Asked, pattern: Asked) -> Asked {
    let sql = format!("({} LIKE {})", a.sql, pattern.sql);
    let (operand, pattern) = (Box::new(a.expr), Box::new(pattern.expr));
    asked(ExprKind::Like { operand, pattern, escape: None, negated: false }, sql)
}

fn call(name: &str, args: Vec<Asked>) -> Asked {
    let sql = args.iter().map(|a| a.sql.clone()).collect::<Vec<_>>().join(", ");
    asked(
        ExprKind::Call(name.to_owned(), args.into_iter().map(|a| a.expr).collect()),
        format!("{name}({sql})"),
    )
}

fn one_of(a: Asked, list: Vec<Asked>) -> Asked {
    let items = list.iter().map(|a| a.sql.clone()).collect::<Vec<_>>().join(", ");
    let sql = format!("({} IN ({items}))", a.sql);
    let list = list.into_iter().map(|a| a.expr).collect();
    asked(ExprKind::In { operand: Box::new(a.expr), list, negated: false }, sql)
}

fn between(a: Asked, low: Asked, high: Asked) -> Asked {
    let sql = format!("({} BETWEEN {} AND {})", a.sql, low.sql, high.sql);
    let (operand, low, high) = (Box::new(a.expr), Box::new(low.expr), Box::new(high.expr));
    asked(ExprKind::Between { operand, low, high, negated: false }, sql)
}

fn case(a: Asked, when: Asked) -> Asked {
    let sql = format!("(CASE {} WHEN {} THEN 1 ELSE 0 END)", a.sql, when.sql);
    let number = |n| Expr { kind: ExprKind::Literal(Value::Int(n)), span: 0..0 };
    let branches = vec![(when.expr, number(1))];
    let kind =
        ExprKind::Case { operand: Some(Box::new(a.expr)), branches, otherwise: Some(Box::new(number(0))) };
    asked(kind, sql)
}

/// What is asked of each row: of texts `a`, `b` and the pattern `p`, of an ENUM `e` and a SET `s`.
fn questions() -> Vec<Asked> {
    use BinaryOp::{Equal, GreaterEqual, Less, NotEqual, NullSafeEqual};
    let [a, b] = ["a", "b"].map(|name| move || column(name));
    vec![
        binary(Less, "<", a(), b()),
        binary(Equal, "=", a(), b()),
        binary(NullSafeEqual, "<=>", a(), b()),
        binary(GreaterEqual, ">=", a(), text("b ")),
        binary(NotEqual, "<>", text("AB"), b()),
        like(a(), column("p")),
        like(a(), text("%B%")),
        like(b(), text("_A%")),
        call("strcmp", vec![a(), b()]),
        call("greatest", vec![a(), b()]),
        call("least", vec![a(), b()]),
        call("nullif", vec![a(), b()]),
        call("field", vec![a(), text("x"), b()]),
        one_of(a(), vec![text("A"), b(), text("ab")]),
        between(a(), text("A"), b()),
        case(a(), b()),
        binary(Equal, "=", column("e"), text("AB ")),
        binary(Less, "<", column("e"), b()),
        one_of(column("e"), vec![text("b"), text("Q")]),
        like(column("e"), text("A_")),
        binary(Equal, "=", column("s"), text("AB,b")),
        binary(Less, "<", column("s"), a()),
    ]
}

/// Under which none equals another one.
const LABELS: [&str; 4] = ["ab", "B", "cX", "q"];

/// Are these texts compared as the server compares them? Gives how many pairs were equal without being the same.
async fn compare_rows(
    conn: &mut Conn,
    charset: &str,
    collation: &str,
    rows: &[[String; 3]],
) -> Result<usize> {
    let of = || Charset::new(charset, collation);
    let collator = collator(charset, collation)?;
    let labels: Arc<[Arc<str>]> = LABELS.iter().map(|l| Arc::from(*l)).collect::<Vec<_>>().into();
    let varchar = || ColumnType::VarChar { length: 400, charset: of() };
    let schema = TableSchema {
        id: TableId::new("texts", "t"),
        version: 1,
        columns: vec![
            Column::new("id", ColumnType::Int { width: IntWidth::Int, unsigned: false }).not_null(),
            Column::new("a", varchar()),
            Column::new("b", varchar()),
            Column::new("p", varchar()),
            Column::new("e", ColumnType::Enum { labels: labels.clone(), charset: of() }),
            Column::new("s", ColumnType::Set { labels, charset: of() }),
        ],
        primary_key: vec![0],
        unique_keys: vec![],
        charset: of(),
        comment: String::new(),
    };
    let (set, list) = (format!("CHARACTER SET {charset} COLLATE {collation}"), LABELS.join("','"));
    conn.query_drop(format!(
        "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, a VARCHAR(400) {set}, b VARCHAR(400) {set}, p VARCHAR(400) {set}, \
         e ENUM('{list}') {set}, s SET('{list}') {set})"
    ))
    .await?;
    let (label, bits) = (|id: usize| id % LABELS.len(), |id: usize| id % 16);
    for (n, part) in rows.chunks(2000).enumerate() {
        let values: Vec<String> = part
            .iter()
            .enumerate()
            .map(|(i, [a, b, p])| {
                let id = n * 2000 + i;
                let [a, b, p] = [a, b, p].map(|text| hex_of(text));
                let (e, s) = (label(id) + 1, bits(id));
                format!("({id}, _utf8mb4 X'{a}', _utf8mb4 X'{b}', _utf8mb4 X'{p}', {e}, {s})")
            })
            .collect();
        conn.query_drop(format!("INSERT INTO t VALUES {}", values.join(", "))).await?;
    }
    let questions = questions();
    let mut bound = Vec::new();
    for question in &questions {
        bound.push(bind(&question.expr, &schema).map_err(|e| anyhow::anyhow!("{}: {e:?}", question.sql))?);
    }
    let list: Vec<&str> = questions.iter().map(|q| &*q.sql).collect();
    let answers: Vec<Row> =
        conn.query(format!("SELECT {}, a, b, p FROM t ORDER BY id", list.join(", "))).await?;
    ensure!(answers.len() == rows.len(), "{} answers", answers.len());
    conn.query_drop("DROP TABLE t").await?;
    let (table, origin) = (TableId::new("texts", "t"), Origin::default());
    let meta = RowMeta { op: Op::Read, table: &table, origin: &origin };
    let mut equal = 0;
    for (id, (answer, [a, b, p])) in answers.into_iter().zip(rows).enumerate() {
        let answer: Vec<Option<String>> =
            (0..answer.len()).map(|i| answer.get::<Option<String>, _>(i).flatten()).collect();
        let (answer, stored) = answer.split_at(questions.len());
        let same = stored.iter().zip([a, b, p]).all(|(s, own)| s.as_ref() == Some(own));
        ensure!(same, "{collation}: the server stores {stored:?} for {a:?}, {b:?} and {p:?}");
        let set: Vec<&str> = (0..4).filter(|i| bits(id) >> i & 1 == 1).map(|i| LABELS[i]).collect();
        let values = [
            Value::Int(id as i64),
            Value::Text(a.as_str().into()),
            Value::Text(b.as_str().into()),
            Value::Text(p.as_str().into()),
            Value::Enum { index: label(id) as u16 + 1, label: LABELS[label(id)].into() },
            Value::Set { bits: bits(id) as u64, labels: set.join(",").into() },
        ];
        for ((bound, question), theirs) in bound.iter().zip(&questions).zip(answer) {
            let ours = match bound.eval(&values, &meta)? {
                Value::Null => None,
                Value::Text(text) => Some(text.into_owned()),
                value => Some(value.to_string()),
            };
            // MariaDB takes the first of equal ones for the greatest
            let either = server().kind().is_mariadb() && question.sql.starts_with("greatest");
            let as_good = either
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(x, y)| collator.compare(x, y).is_eq() && [a, b].contains(&y));
            ensure!(
                ours == *theirs || as_good,
                "{collation}: {} is {ours:?}, the server says {theirs:?}: a {a:?}, b {b:?}, p {p:?}, e {:?}, s {:?}",
                question.sql,
                values[4],
                values[5]
            );
        }
        equal += usize::from(answer[1].as_deref() == Some("1") && a != b);
    }
    Ok(equal)
}

/// Characters that a set has.
fn holds(charset: &str) -> Vec<char> {
    let all = (0..=0x10_ffff).filter_map(char::from_u32);
    match charset {
        "ascii" => all.take(128).collect(),
        // the server's latin1 is cp1252, with the five bytes that it leaves out
        "latin1" => ('\0'..='\u{ff}')
            .filter(|c| !matches!(c, '\u{80}'..='\u{9f}') || "\u{81}\u{8d}\u{8f}\u{90}\u{9d}".contains(*c))
            .chain("€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ".chars())
            .collect(),
        "utf8mb3" => all.take_while(|c| (*c as u32) < 0x1_0000).collect(),
        _ => all.collect(),
    }
}

/// The characters that are equal, of all that there are.
struct Equals {
    by_key: HashMap<Vec<u8>, Vec<char>>,
    collator: Collator,
}

impl Equals {
    fn of(collator: Collator, chars: &[char]) -> Equals {
        let mut by_key: HashMap<Vec<u8>, Vec<char>> = HashMap::new();
        for c in chars {
            by_key.entry(encoded(collator, c.encode_utf8(&mut [0; 4]))).or_default().push(*c);
        }
        by_key.retain(|_, chars| chars.len() > 1);
        Equals { by_key, collator }
    }

    fn to(&self, c: char) -> Option<&[char]> {
        self.by_key.get(&encoded(self.collator, c.encode_utf8(&mut [0; 4]))).map(Vec::as_slice)
    }
}

const ODD: &str = "\0\0\u{1}\t\u{1f}      !aAáÄbBcXzZqQßsS€\u{7f}\u{a0}ÿŸæÆŒœ\u{301}\u{308}\u{ad}\u{200d}각가\u{1100}\u{1161}\u{11a8}一⼀\
                   ﷺﬁ㎒Åй\u{438}\u{306}ก\u{e40}ꙮ豈豈\u{fffd}\u{ffff}🦀🐞𗀀𝐀\u{10ffff}%_\\";

fn random_rows(random: &mut StdRng, charset: &str, collator: Collator, count: usize) -> Vec<[String; 3]> {
    let chars = holds(charset);
    let odd: Vec<char> = ODD.chars().filter(|c| chars.contains(c)).collect();
    let equals = Equals::of(collator, &chars);
    let groups: Vec<&Vec<char>> = {
        let mut groups: Vec<_> = equals.by_key.values().collect();
        groups.sort();
        groups
    };
    let some = |random: &mut StdRng| match random.random_range(0..10) {
        0 => *chars.choose(random).expect("characters"),
        1 if !groups.is_empty() => {
            *groups.choose(random).and_then(|g| g.choose(random)).expect("a character")
        }
        _ => *odd.choose(random).expect("characters"),
    };
    let text = |random: &mut StdRng, most: usize| -> String {
        let n = random.random_range(0..=most);
        let mut text: String = (0..n).map(|_| some(random)).collect();
        if random.random_ratio(1, 20) {
            text.extend(std::iter::repeat_n(' ', random.random_range(1..140)));
            text.extend((0..random.random_range(0..3)).map(|_| some(random)));
        }
        text
    };
    let other = |random: &mut StdRng, c: char| match equals.to(c) {
        Some(group) if random.random_ratio(1, 2) => *group.iter().choose(random).expect("characters"),
        _ => c,
    };
    (0..count)
        .map(|_| {
            let a = text(random, 5);
            // most others are much like it, so that something is decided behind the first character
            let b = match random.random_range(0..8) {
                0 => text(random, 5),
                1..4 => {
                    let n = random.random_range(0..=a.chars().count());
                    a.chars().take(n).map(|c| other(random, c)).collect::<String>() + &text(random, 2)
                }
                _ => a.chars().map(|c| other(random, c)).collect(),
            };
            let mut p = String::new();
            for c in a.chars() {
                match random.random_range(0..16) {
                    0 => p.push('_'),
                    1 => p.push('%'),
                    2 => p.push_str("%_"),
                    3 => p.extend([c, '%']),
                    4 => p.extend(['\\', c]),
                    5 => p.push(some(random)),
                    _ => p.push(other(random, c)),
                }
            }
            [a, b, p]
        })
        .collect()
}

async fn random_texts(collations: &[(&str, &str)], count: usize) -> Result<()> {
    let seed = cdc_testkit::history::seed();
    let mut conn = session().await?;
    for (charset, collation) in collations {
        let collator = collator(charset, collation)?;
        let rows = random_rows(&mut StdRng::seed_from_u64(seed), charset, collator, count);
        let equal = compare_rows(&mut conn, charset, collation, &rows)
            .await
            .with_context(|| format!("seed {seed}"))?;
        let least = if collation.ends_with("_ci") { count / 20 } else { 0 };
        ensure!(
            equal >= least,
            "seed {seed}: only {equal} pairs under {collation} are equal and not the same"
        );
    }
    Ok(())
}

#[tokio::test]
async fn random_texts_compare_as_at_the_server() -> Result<()> {
    random_texts(EVERYWHERE, 4000).await
}

#[tokio::test]
async fn random_texts_compare_as_at_the_server_mysql_only() -> Result<()> {
    random_texts(MYSQL_ONLY, 12_000).await
}

/// Every character beside the next in the order, and beside the first of those that are equal to it. Of characters
/// that follow each other and are equal to none, as Han, each tenth.
async fn neighbors(charset: &str, collation: &str) -> Result<()> {
    let mut conn = session().await?;
    let collator = collator(charset, collation)?;
    let chars = holds(charset);
    let equals = Equals::of(collator, &chars);
    let mut order: Vec<(Vec<u8>, char)> =
        chars.iter().map(|c| (encoded(collator, c.encode_utf8(&mut [0; 4])), *c)).collect();
    order.sort();
    let escaped = |c: char| if "%_\\".contains(c) { format!("\\{c}") } else { c.to_string() };
    let mut rows = Vec::new();
    for (i, pair) in order.windows(2).enumerate() {
        let (c, next) = (pair[0].1, pair[1].1);
        let group = equals.to(c);
        // beyond the characters of Unicode 9 nothing is near to anything
        if group.is_none() && (i % 10 > 0 || c as u32 > 0x1_ffff) {
            continue;
        }
        let mut row = |other: char| rows.push([c.to_string(), other.to_string(), escaped(other)]);
        row(next);
        if let Some([first, ..]) = group
            && *first != c
            && group.is_some_and(|g| g.len() < 60_000 || i % 100 == 0)
        {
            row(*first);
        }
    }
    ensure!(rows.len() > 8000, "{} pairs", rows.len());
    let equal = compare_rows(&mut conn, charset, collation, &rows).await?;
    ensure!(equal > 2000, "{equal} pairs are equal");
    Ok(())
}

#[tokio::test]
async fn neighbors_compare_as_at_the_server() -> Result<()> {
    neighbors("utf8mb3", "utf8mb3_general_ci").await
}

#[tokio::test]
async fn neighbors_compare_as_at_the_server_mysql_only() -> Result<()> {
    neighbors("utf8mb4", "utf8mb4_0900_ai_ci").await
}
