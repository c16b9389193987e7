//! Checks the highlight query on the samples in `test/highlight`, and the tag query on those in `test/tags`, in the
//! format of `tree-sitter test`: a comment contains `^`, which points at the text above it, and then the name of the
//! capture at that text. `<-` instead of `^` refers to the column of the comment.

use super::parser::{language, parse};
use super::{files, read};
use std::ops::Range;
use tree_sitter::{Query, QueryCursor, StreamingIterator};

/// A byte range, its capture, and the index of the pattern in the query.
type Capture = (Range<usize>, String, usize);

fn query(name: &str) -> Query {
    Query::new(&language(), &read(&format!("grammar/tree-sitter-clk/queries/{name}.scm"))).expect("fits")
}

/// Returns the captures of the highlight query.
fn highlights(text: &str) -> Vec<Capture> {
    let query = query("highlights");
    let tree = parse(text);
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches(&query, tree.root_node(), text.as_bytes());
    let mut captures = Vec::new();
    while let Some(one) = matches.next() {
        for capture in one.captures() {
            let name = query.capture_names()[capture.index as usize];
            captures.push((capture.node.byte_range(), name.to_string(), one.pattern_index));
        }
    }
    captures
}

/// Returns the names that the tag query finds, each with its kind.
fn tags(text: &str) -> Vec<Capture> {
    let query = query("tags");
    let tree = parse(text);
    let mut cursor = QueryCursor::new();
    let mut matches = cursor.matches(&query, tree.root_node(), text.as_bytes());
    let mut tags = Vec::new();
    while let Some(one) = matches.next() {
        let name_of = |index: u32| query.capture_names()[index as usize];
        let name = one.captures().iter().find(|c| name_of(c.index) == "name").expect("a name");
        let kind = one.captures().iter().map(|c| name_of(c.index)).find(|n| *n != "name").expect("a kind");
        tags.push((name.node.byte_range(), kind.to_string(), one.pattern_index));
    }
    tags
}

/// Returns the capture that applies to a byte: that of the innermost node and, for one node, of the last pattern.
fn at(captures: &[Capture], byte: usize) -> &str {
    let covering = captures.iter().filter(|(range, _, _)| range.contains(&byte));
    let best = covering.min_by_key(|(range, _, pattern)| (range.len(), std::cmp::Reverse(*pattern)));
    best.map_or("nothing", |(_, name, _)| name)
}

/// Parses an assertion: the column it points at, and the expected capture.
fn assertion(line: &str) -> Option<(usize, &str)> {
    let start = line.find("//")?;
    let rest = &line[start + 2..];
    let trimmed = rest.trim_start();
    let column = match trimmed.chars().next()? {
        '^' => line.find('^')?,
        '<' if trimmed.starts_with("<-") => start,
        _ => return None,
    };
    let name = trimmed.trim_start_matches(['^', '<', '-']).trim();
    Some((column, name))
}

/// Checks the assertions of the samples in a folder, and returns their number.
fn check(folder: &str, read: impl Fn(&str) -> Vec<Capture>) -> usize {
    let mut count = 0;
    for path in files(folder, ".clk") {
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        let captures = read(&text);
        let (mut line_start, mut start) = (0, 0);
        for (number, line) in text.lines().enumerate() {
            match assertion(line) {
                Some((column, expected)) => {
                    let actual = at(&captures, line_start + column);
                    assert_eq!(actual, expected, "{}:{}, column {}", path.display(), number + 1, column + 1);
                    count += 1;
                }
                None => line_start = start,
            }
            start += line.len() + 1;
        }
    }
    count
}

#[test]
fn samples_have_the_highlights_they_name() {
    let count = check("grammar/tree-sitter-clk/test/highlight", highlights);
    assert!(count >= 60, "only {count} assertions");
}

#[test]
fn samples_have_the_tags_they_name() {
    let count = check("grammar/tree-sitter-clk/test/tags", tags);
    assert!(count >= 10, "only {count} assertions");
}
