//! The nearest name, for "did you mean".

/// The candidate that is most like this name, if any is like it at all: at most a third of its letters
/// changed, added, left out or swapped with a neighbour (Damerau's and Levenshtein's distance), letter case
/// left aside.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let limit = (name.len() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter_map(|c| {
            let letters: Vec<char> = c.to_lowercase().chars().collect();
            // long names that differ in length alone need not be compared
            if letters.len().abs_diff(name.len()) > limit || name.len() > 100 {
                return None;
            }
            let d = distance(&name, &letters);
            // two names of one letter each have nothing in common
            (d <= limit && d < name.len().max(letters.len())).then_some((d, c))
        })
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// `did you mean "x"?`, or what there is to choose from.
pub(crate) fn help_for<'c>(name: &str, what: &str, candidates: &[&'c str]) -> Option<String> {
    if let Some(near) = nearest(name, candidates.iter().copied()) {
        return Some(format!("did you mean \"{near}\"?"));
    }
    if candidates.is_empty() {
        return None;
    }
    const MOST: usize = 12;
    let more = if candidates.len() > MOST { ", .." } else { "" };
    let list = candidates.iter().take(MOST).map(|c| format!("\"{c}\"")).collect::<Vec<_>>().join(", ");
    Some(format!("{what}: {list}{more}"))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        assert_eq!(nearest("uper", ["lower", "upper"]), Some("upper"));
        assert_eq!(nearest("Amuont", ["amount", "id"]), Some("amount"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("größe", ["grösse", "große"]), Some("große"));
        assert_eq!(nearest("entirely_other", ["upper"]), None);
    }
}
