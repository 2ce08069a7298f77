//! Lines of output, and what is aligned over several of them.

use unicode_width::UnicodeWidthStr;

/// Trailing comments stand here, or two columns behind the longest line of their group.
const COMMENT_COLUMN: usize = 38;

/// A line: code, a comment, or both.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub indent: usize,
    /// An empty line before it.
    pub blank: bool,
    pub text: String,
    pub comment: Option<String>,
}

/// A statement: the comments before it, and its lines.
pub(super) struct Chunk {
    pub leading: Vec<Row>,
    /// An empty line between those comments, or the statement before, and its first line.
    pub blank: bool,
    pub body: Vec<Row>,
    /// What single lines next to each other are aligned by: lines of the same kind, at this mark.
    pub align: Option<(&'static str, &'static str)>,
}

pub(super) fn width(text: &str) -> usize {
    // of a text over several lines the last one counts
    text.rsplit('\n').next().unwrap_or(text).width()
}

/// Puts statements below each other.
pub(super) fn assemble(mut chunks: Vec<Chunk>) -> String {
    align_neighbours(&mut chunks);
    let mut rows: Vec<Row> = Vec::new();
    let mut previous_long = false;
    for chunk in chunks {
        let long = chunk.body.len() > 1;
        let mut leading = chunk.leading;
        let mut body = chunk.body;
        if let Some(first) = body.first_mut() {
            first.blank = chunk.blank;
        }
        leading.append(&mut body);
        if let Some(first) = leading.first_mut() {
            first.blank |= long || previous_long;
            previous_long = long;
        }
        rows.append(&mut leading);
    }
    print(rows)
}

/// Lines of one kind that stand next to each other, with nothing between them, are aligned at their mark.
fn align_neighbours(chunks: &mut [Chunk]) {
    let mut start = 0;
    while start < chunks.len() {
        let single = |c: &Chunk| c.body.len() == 1 && c.align.is_some();
        let mut end = start + 1;
        while single(&chunks[start])
            && chunks.get(end).is_some_and(|c| {
                single(c) && c.align == chunks[start].align && c.leading.is_empty() && !c.blank
            })
        {
            end += 1;
        }
        let run = &mut chunks[start..end];
        if let [first, ..] = &*run
            && run.len() > 1
            && let Some((_, mark)) = first.align
        {
            align(run, mark);
        }
        start = end;
    }
}

fn align(run: &mut [Chunk], mark: &str) {
    // the first mark may be part of a name or a regular expression: such a line is left alone
    let find = |c: &Chunk| {
        let text = &c.body.first()?.text;
        let i = text.find(mark)?;
        let sure = !text[..i].contains(['`', '/', '"']) || !text[i + 1..].contains(mark);
        sure.then(|| (i, width(&text[..i])))
    };
    let Some(column) = run.iter().filter_map(find).map(|(_, w)| w).max() else { return };
    for chunk in run {
        if let Some((i, own)) = find(chunk)
            && let Some(row) = chunk.body.first_mut()
        {
            row.text.insert_str(i, &" ".repeat(column - own));
        }
    }
}

fn print(rows: Vec<Row>) -> String {
    let mut out = String::new();
    let mut i = 0;
    while i < rows.len() {
        // lines with code and a comment, next to each other
        let both = |r: &Row| !r.text.is_empty() && r.comment.is_some();
        let group =
            rows[i..].iter().enumerate().take_while(|(n, r)| both(r) && (*n == 0 || !r.blank)).count();
        let column = rows[i..i + group]
            .iter()
            .map(|r| r.indent + width(&r.text) + 2)
            .max()
            .map_or(COMMENT_COLUMN, |c| c.max(COMMENT_COLUMN));
        for row in &rows[i..i + group.max(1)] {
            if row.blank && !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&" ".repeat(row.indent));
            out.push_str(&row.text);
            if let Some(comment) = &row.comment {
                if !row.text.is_empty() {
                    let used = row.indent + width(&row.text);
                    out.push_str(&" ".repeat(column.saturating_sub(used)));
                }
                out.push_str(comment);
            }
            out.push('\n');
        }
        i += group.max(1);
    }
    out
}
