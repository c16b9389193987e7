//! Derives the highlight queries of editors with their own capture names from the grammar's query.

use super::parser::language;
use super::{compare, files, lists, read};
use std::collections::BTreeSet;
use tree_sitter::Query;

/// Capture names of the grammar's query that Helix does not use, with the names that Helix uses instead.
const HELIX: &[(&str, &str)] = &[
    ("boolean", "constant.builtin.boolean"),
    ("comment", "comment.line"),
    ("comment.documentation", "comment.line.documentation"),
    ("keyword.conditional", "keyword.control.conditional"),
    ("keyword.import", "keyword.control.import"),
    ("keyword.modifier", "keyword.storage.modifier"),
    ("keyword.repeat", "keyword.control.repeat"),
    ("keyword.return", "keyword.control.return"),
    ("keyword.type", "keyword.storage.type"),
    ("module", "namespace"),
    ("number", "constant.numeric.integer"),
    ("number.float", "constant.numeric.float"),
    ("string.escape", "constant.character.escape"),
    ("variable.member", "variable.other.member"),
];

/// Capture names of the grammar's query that Zed does not use, with the names that Zed uses instead.
const ZED: &[(&str, &str)] = &[
    ("comment.documentation", "comment.doc"),
    ("keyword.conditional", "keyword.control"),
    ("keyword.directive", "preproc"),
    ("keyword.repeat", "keyword.control"),
    ("keyword.return", "keyword.control"),
    ("module", "namespace"),
    ("number.float", "number"),
    ("variable.builtin", "variable.special"),
    ("variable.member", "property"),
];

/// Replaces the capture names of a query.
fn translate(query: &str, names: &[(&str, &str)], editor: &str) -> String {
    let mut out = format!(
        "; The query of the grammar with the capture names of {editor}; `cargo test --test repository editors::` keeps it so.\n\n"
    );
    for (index, part) in query.split('@').enumerate() {
        // The query also contains a quoted "@", the operator of the language, which does not begin a capture name.
        let quoted = out.ends_with('"');
        if index == 0 || quoted {
            out += if index == 0 { "" } else { "@" };
            out += part;
            continue;
        }
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_')).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let other = names.iter().find(|(from, _)| *from == name).map_or(name, |(_, to)| to);
        out += &format!("@{other}{rest}");
    }
    out
}

#[test]
fn highlights_of_helix_and_zed() {
    let query = lists::highlights();
    compare("editors/helix/queries/clk/highlights.scm", &translate(&query, HELIX, "Helix"));
    compare("editors/zed/languages/clk/highlights.scm", &translate(&query, ZED, "Zed"));
}

/// Neovim uses the capture names of the grammar's queries.
#[test]
fn queries_of_neovim() {
    for name in ["highlights", "locals", "injections", "indents", "folds"] {
        let query = match name {
            "highlights" => lists::highlights(),
            _ => read(&format!("grammar/tree-sitter-clk/queries/{name}.scm")),
        };
        compare(&format!("editors/vim/queries/clk/{name}.scm"), &query);
    }
}

#[test]
fn every_query_fits_the_grammar() {
    let mut count = 0;
    for folder in ["grammar/tree-sitter-clk/queries", "editors"] {
        for path in files(folder, ".scm") {
            let text = std::fs::read_to_string(&path).expect("UTF-8");
            if let Err(error) = Query::new(&language(), &text) {
                panic!("{}: {error}", path.display());
            }
            count += 1;
        }
    }
    assert!(count >= 16, "only {count} queries");
}

/// The queries use only capture names for which the themes of their editors have colors.
#[test]
fn captures_have_names_that_themes_know() {
    let common = [
        "constant",
        "function",
        "function.builtin",
        "keyword",
        "keyword.function",
        "operator",
        "punctuation.bracket",
        "punctuation.delimiter",
        "punctuation.special",
        "string",
        "string.special",
        "type",
        "type.builtin",
        "variable",
        "variable.parameter",
    ];
    let neovim = [
        "boolean",
        "comment",
        "comment.documentation",
        "keyword.conditional",
        "keyword.directive",
        "keyword.import",
        "keyword.modifier",
        "keyword.repeat",
        "keyword.return",
        "keyword.type",
        "module",
        "number",
        "number.float",
        "string.escape",
        "variable.builtin",
        "variable.member",
    ];
    let helix = [
        "comment.line",
        "comment.line.documentation",
        "constant.builtin.boolean",
        "constant.character.escape",
        "constant.numeric.float",
        "constant.numeric.integer",
        "keyword.control.conditional",
        "keyword.control.import",
        "keyword.control.repeat",
        "keyword.control.return",
        "keyword.directive",
        "keyword.storage.modifier",
        "keyword.storage.type",
        "namespace",
        "variable.builtin",
        "variable.other.member",
    ];
    let zed = [
        "boolean",
        "comment",
        "comment.doc",
        "keyword.control",
        "keyword.import",
        "keyword.modifier",
        "keyword.type",
        "namespace",
        "number",
        "preproc",
        "property",
        "string.escape",
        "variable.special",
    ];
    let source = lists::highlights();
    let lists: [(&str, String, &[&str]); 3] = [
        ("Helix", translate(&source, HELIX, "Helix"), &helix),
        ("Zed", translate(&source, ZED, "Zed"), &zed),
        ("Neovim", source, &neovim),
    ];
    for (editor, text, own) in lists {
        let query = Query::new(&language(), &text).expect("fits");
        let used: BTreeSet<&str> = query.capture_names().iter().copied().collect();
        let allowed: BTreeSet<&str> = common.iter().chain(own).copied().collect();
        let unknown: Vec<_> = used.difference(&allowed).collect();
        assert!(unknown.is_empty(), "{editor}: {unknown:?}");
    }
}
