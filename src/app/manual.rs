//! The manual: the repository's pages for users, embedded in the binary. Input: a topic. Output: its page in Markdown. A test compares
//! the list with the folder `docs`.

/// The pages: path from the root of the repository, and text.
#[rustfmt::skip]
pub(crate) static PAGES: &[(&str, &str)] = &[
    ("docs/debugging.md", include_str!("../../docs/debugging.md")),
    ("docs/gradients.md", include_str!("../../docs/gradients.md")),
    ("docs/profiling.md", include_str!("../../docs/profiling.md")),
    ("docs/proofs.md", include_str!("../../docs/proofs.md")),
    ("docs/races.md", include_str!("../../docs/races.md")),
    ("docs/tiles.md", include_str!("../../docs/tiles.md")),
    ("docs/tuning.md", include_str!("../../docs/tuning.md")),
    ("docs/why.md", include_str!("../../docs/why.md")),
    ("docs/projects.md", include_str!("../../docs/projects.md")),
];

/// The language reference.
pub(crate) const REFERENCE: &str = include_str!("../../grammar/README.md");

/// Returns the name of a page as a topic: that of its file, without a number in front.
fn name_of(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".md");
    file.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('-')
}

fn title_of(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("")
}

/// Returns the page with a name.
pub(crate) fn page(topic: &str) -> Option<&'static str> {
    PAGES.iter().find(|(path, _)| name_of(path).eq_ignore_ascii_case(topic)).map(|(_, text)| *text)
}

/// Returns the names of all pages with their titles.
pub(crate) fn titles() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAGES.iter().map(|(path, text)| (name_of(path), title_of(text)))
}

/// Returns the titles of the reference's sections.
pub(crate) fn sections() -> impl Iterator<Item = &'static str> {
    REFERENCE.lines().filter_map(|line| line.strip_prefix("## "))
}

/// Returns a section of the reference by its title.
pub(crate) fn section(topic: &str) -> Option<String> {
    let mut inside = false;
    let mut text = String::new();
    for line in REFERENCE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            inside = title.eq_ignore_ascii_case(topic);
        }
        if inside {
            text += line;
            text.push('\n');
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics() {
        assert_eq!(name_of("docs/book/03-blocks.md"), "blocks");
        assert!(page("proofs").is_some() && page("nothing").is_none());
        assert!(section("kernels").is_some_and(|text| text.starts_with("## Kernels\n")));
    }
}
