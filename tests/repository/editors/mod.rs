//! Tests the tree-sitter grammar and the editor packages: every source file parses, queries match the grammar, and word
//! lists equal the compiler's tables. `CLK_BLESS=1` rewrites generated files.

mod corpus;
mod derived;
mod grammar;
mod highlight;
mod lists;
mod packages;
mod parser;
mod words;

use std::path::{Path, PathBuf};

use clk_testing::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Compares a file with its expected content; with `CLK_BLESS=1`, rewrites it.
fn compare(path: &str, expected: &str) {
    if std::env::var_os("CLK_BLESS").is_some() {
        std::fs::write(root().join(path), expected).unwrap_or_else(|e| panic!("{path}: {e}"));
        return;
    }
    let current = std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let line = current.lines().zip(expected.lines()).position(|(a, b)| a != b);
    assert!(
        current == expected,
        "{path} differs from the compiler's tables from line {} on; `CLK_BLESS=1 cargo test --test repository editors::` rewrites it",
        line.unwrap_or(current.lines().count().min(expected.lines().count())) + 1
    );
}

/// Returns the files below a folder whose names end with `ending`, sorted.
fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, ending: &str, paths: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                walk(&path, ending, paths);
            } else if path.to_string_lossy().ends_with(ending) {
                paths.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), ending, &mut paths);
    paths.sort();
    paths
}
