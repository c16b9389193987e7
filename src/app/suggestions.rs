//! "Did you mean" suggestions.

use clk_check::suggestions::edit_limit;

/// Returns at most three candidates close to `name` by edit distance, nearest first.
pub(crate) fn nearest_names<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let limit = edit_limit(name).max(1);
    let mut ranked: Vec<(usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Returns "did you mean `a`?" if some candidates are close to the name.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let nearest = nearest_names(name, candidates);
    let quoted: Vec<String> = nearest.iter().map(|n| format!("`{n}`")).collect();
    (!quoted.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_suggestions_come_first() {
        assert_eq!(nearest_names("saxpi", ["saxpy", "matmul", "saxby"]), ["saxpy"]);
        assert_eq!(nearest_names("Matmul", ["matmul", "mat"]), ["matmul"]);
        assert_eq!(did_you_mean("zzz", ["matmul"]), None);
    }
}
