//! The nearest name, for messages.

/// The candidate that differs least from what was written, if it is near enough to be what was meant: at
/// most a third of its letters, and at least one, changed, added, left out or swapped with its neighbour.
pub fn nearest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let written: Vec<char> = written.to_lowercase().chars().collect();
    let limit = (written.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|c| (distance(&written, &c.to_lowercase().chars().collect::<Vec<_>>()), c))
        .filter(|(d, c)| *d <= limit && *d < written.len().max(c.chars().count()))
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Optimal string alignment: Levenshtein's distance with swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows = vec![(0..width).collect::<Vec<_>>()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; width];
        for (j, y) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(x != y)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *y && b[j - 1] == *x {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row[j + 1] = best;
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["customer_id", "amount", "status"];
        assert_eq!(nearest("amuont", names), Some("amount"));
        assert_eq!(nearest("Customer_ID", names), Some("customer_id"));
        assert_eq!(nearest("stat", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("i", ["id"]), Some("id"));
    }
}
