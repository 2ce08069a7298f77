//! The nearest name, for "did you mean".

pub(crate) use cdc_core::expr::eval::nearest;

/// `did you mean "x"?`, or what there is to choose from.
pub(crate) fn help_for(name: &str, what: &str, candidates: &[&str]) -> Option<String> {
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
