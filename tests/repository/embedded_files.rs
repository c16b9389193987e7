//! Tests that the files compiled into the binary, the standard library and the pages of codes, are all listed.

use std::path::Path;

/// Returns the names of the files in a folder of the repository that have an extension, without the extension.
fn names_of_files(folder: &str, extension: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("a folder");
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("a file").path();
        path.extension().is_some_and(|found| found == extension).then(|| path.file_stem().expect("a name").to_owned())
    };
    let mut names: Vec<String> = files.filter_map(name).map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn each_page_of_a_code_is_listed_in_order() {
    let listed: Vec<_> = clk_codes::pages().map(|page| page.code.to_string()).collect();
    assert_eq!(listed, names_of_files("src/codes", "md"));
}

#[test]
fn each_file_of_the_standard_library_is_a_module() {
    let mut modules: Vec<&str> = clk_stdlib::MODULES.iter().map(|(name, _)| *name).collect();
    modules.sort_unstable();
    assert_eq!(modules, names_of_files("stdlib", "clk"));
}

#[test]
fn public_names_belong_to_modules() {
    assert_eq!(clk_stdlib::home("lerp"), Some("math"));
    assert_eq!(clk_stdlib::home("PI"), Some("math"));
    assert_eq!(clk_stdlib::home("softmax"), Some("nn"));
    assert_eq!(clk_stdlib::home("THREADS"), None, "not public");
    assert_eq!(clk_stdlib::home("matvec"), None, "two modules have it");
    assert_eq!(clk_stdlib::home("std.reduce"), Some("reduce"));
    assert_eq!((clk_stdlib::home("reduce"), clk_stdlib::home("std.nothing")), (None, None));
}
