//! "Did you mean" suggestions.

/// Returns at most three candidates close to `name` by edit distance, nearest first.
pub(crate) fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let limit = (name.chars().count() / 3).max(1);
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Returns "did you mean `a`?" for the close candidates, if there are any.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let found = near(name, candidates);
    let quoted: Vec<String> = found.iter().map(|n| format!("`{n}`")).collect();
    (!quoted.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_first() {
        assert_eq!(near("saxpi", ["saxpy", "matmul", "saxby"]), ["saxpy"]);
        assert_eq!(near("Matmul", ["matmul", "mat"]), ["matmul"]);
        assert_eq!(did_you_mean("zzz", ["matmul"]), None);
    }
}
