//! The tree-sitter grammar and the editor packages: every source file parses, queries fit the grammar, and the word lists are
//! those of the compiler's tables. `CLK_BLESS=1` rewrites generated files.

mod corpus;
mod derived;
mod grammar;
mod highlight;
mod lists;
mod packages;
mod parser;
mod words;

use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Compares a file with its expected content, or rewrites it.
fn compare(path: &str, wanted: &str) {
    if std::env::var_os("CLK_BLESS").is_some() {
        std::fs::write(root().join(path), wanted).unwrap_or_else(|e| panic!("{path}: {e}"));
        return;
    }
    let found = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let line = found.lines().zip(wanted.lines()).position(|(a, b)| a != b);
    assert!(
        found == wanted,
        "{path} is not what the compiler's tables say, from line {}; `CLK_BLESS=1 cargo test --test editors` rewrites it",
        line.unwrap_or(found.lines().count().min(wanted.lines().count())) + 1
    );
}

/// Returns the files below a folder whose names end with `ending`, sorted.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                walk(&path, ending, found);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), ending, &mut found);
    found.sort();
    found
}
