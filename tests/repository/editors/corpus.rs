//! Runs the test corpus of the grammar, which has the format of `tree-sitter test`.

use super::files;
use super::parser::parse;

struct Case {
    name: String,
    source: String,
    tree: String,
}

/// Parses the cases: each is a title between lines of `=`, a source, a line of `-`, and the tree.
fn cases(text: &str) -> Vec<Case> {
    let rule = |line: &str, mark: char| line.len() >= 3 && line.chars().all(|c| c == mark);
    let lines: Vec<&str> = text.lines().collect();
    let starts: Vec<usize> =
        (0..lines.len().saturating_sub(2)).filter(|&i| rule(lines[i], '=') && rule(lines[i + 2], '=')).collect();
    let mut cases = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(lines.len());
        let body = &lines[start + 3..end];
        let split =
            body.iter().position(|line| rule(line, '-')).unwrap_or_else(|| panic!("{}: no ---", lines[start + 1]));
        cases.push(Case {
            name: lines[start + 1].to_string(),
            source: body[..split].join("\n"),
            tree: body[split + 1..].join("\n"),
        });
    }
    cases
}

/// Normalizes a tree: removes field names, and leaves one blank between nodes and none next to parentheses.
fn normal(tree: &str) -> String {
    let nodes: Vec<&str> = tree.split_whitespace().filter(|word| !word.ends_with(':')).collect();
    nodes.join(" ").replace("( ", "(").replace(" )", ")")
}

#[test]
fn the_corpus_parses_as_written() {
    let mut count = 0;
    for path in files("grammar/tree-sitter-clk/test/corpus", ".txt") {
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        for case in cases(&text) {
            let source = case.source.trim_start_matches('\n');
            let tree = parse(source).root_node().to_sexp();
            assert_eq!(normal(&tree), normal(&case.tree), "{}: {}\n{source}", path.display(), case.name);
            count += 1;
        }
    }
    assert!(count >= 40, "only {count} cases");
}
