//! The standard library: modules written in Clk and carried inside the binary.

/// A module by its name behind `std.`, and its text.
#[rustfmt::skip]
pub static MODULES: &[(&str, &str)] = &[
    ("histogram", include_str!("../../stdlib/histogram.clk")),
    ("image", include_str!("../../stdlib/image.clk")),
    ("linalg", include_str!("../../stdlib/linalg.clk")),
    ("math", include_str!("../../stdlib/math.clk")),
    ("nn", include_str!("../../stdlib/nn.clk")),
    ("random", include_str!("../../stdlib/random.clk")),
    ("reduce", include_str!("../../stdlib/reduce.clk")),
    ("scan", include_str!("../../stdlib/scan.clk")),
    ("sort", include_str!("../../stdlib/sort.clk")),
    ("sparse", include_str!("../../stdlib/sparse.clk")),
];

/// The text of `std.<name>`.
pub fn text(name: &str) -> Option<&'static str> {
    MODULES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_file_is_a_module_and_names_are_unique() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/stdlib");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".clk")?.to_string()))
            .collect();
        files.sort();
        let mut names: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(files, names, "stdlib/*.clk and the table have to agree");
    }
}
