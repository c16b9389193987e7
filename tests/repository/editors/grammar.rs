//! The committed parser parses every Clk file of the repository without an error.

use super::parser::{first_error, language, parse};
use super::{files, read, root};
use clk_base::source::FileId;
use clk_syntax::token::{CONTEXTUAL, KEYWORDS, OPERATORS};
use clk_syntax::{lex, parse as compile};
use std::collections::BTreeSet;
use tree_sitter::Tree;

/// Returns name and text of the programs of the repository: the Clk files, and the code blocks of the reference.
fn programs() -> Vec<(String, String)> {
    let mut programs = Vec::new();
    for folder in ["examples", "stdlib", "tests"] {
        for path in files(folder, ".clk") {
            let name = path.strip_prefix(root()).expect("inside").display().to_string();
            programs.push((name, std::fs::read_to_string(&path).expect("UTF-8")));
        }
    }
    for page in [
        "grammar/README.md",
        "README.md",
        "docs/gradients.md",
        "docs/proofs.md",
        "docs/tour.md",
        "docs/book/12-tuned.md",
    ] {
        let text = read(page);
        let blocks = text.split("\n```clk\n").skip(1).filter_map(|part| part.split_once("\n```"));
        programs
            .extend(blocks.enumerate().map(|(i, (code, _))| (format!("{page}, block {}", i + 1), code.to_string())));
    }
    programs
}

#[test]
fn every_program_parses() {
    let (mut sound, mut wrong) = (0, Vec::new());
    for (name, text) in programs() {
        // Skip test files with intentional errors.
        if !compile(FileId(0), &text).1.is_empty() {
            continue;
        }
        sound += 1;
        if let Some(error) = first_error(&parse(&text), &text) {
            wrong.push(format!("{name}:{error}"));
        }
    }
    assert!(wrong.is_empty(), "tree-sitter finds errors where the compiler finds none:\n{}", wrong.join("\n"));
    assert!(sound > 80, "only {sound} programs were read");
}

/// Counts the top-level items and statements of a tree.
fn top(tree: &Tree) -> usize {
    let root = tree.root_node();
    let mut cursor = root.walk();
    root.named_children(&mut cursor).filter(|node| !node.is_extra() && node.kind() != "shebang").count()
}

/// Inserts newlines between tokens: if the compiler still accepts the program, tree-sitter does as well, and both find
/// the same number of items and statements.
#[test]
fn newlines_are_parsed_as_by_the_compiler() {
    let (mut accepted, mut wrong) = (0, Vec::new());
    for (number, (name, text)) in programs().into_iter().filter(|(_, text)| text.len() < 3000).enumerate() {
        for token in lex(FileId(0), &text).tokens.iter().skip(number % 3).step_by(3) {
            let mut changed = text.clone();
            changed.insert_str(token.start as usize, ["\n", " // c\n", "/* \n */\n"][accepted % 3]);
            let (file, diagnostics) = compile(FileId(0), &changed);
            if !diagnostics.is_empty() {
                continue;
            }
            accepted += 1;
            let tree = parse(&changed);
            if let Some(error) = first_error(&tree, &changed) {
                wrong.push(format!("{name}, newline at {}: {error}", token.start));
            } else if top(&tree) != file.items.len() {
                let at = token.start as usize;
                wrong.push(format!(
                    "{name}, newline at {at}: {} items, not {}: {:?}",
                    top(&tree),
                    file.items.len(),
                    &text[at..].lines().next()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {accepted}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(accepted > 1000, "only {accepted} programs were tried");
}

#[test]
fn grammar_abi_is_supported_by_old_editors() {
    assert_eq!(language().abi_version(), 14);
}

#[test]
fn grammar_has_every_keyword_and_operator() {
    let language = language();
    let names: BTreeSet<&str> = (0..language.node_kind_count())
        .filter_map(|id| u16::try_from(id).ok())
        .filter(|id| !language.node_kind_is_named(*id))
        .filter_map(|id| language.node_kind_for_id(id))
        .collect();
    let words = KEYWORDS.iter().chain(OPERATORS).map(|(text, _)| *text).chain(CONTEXTUAL.iter().copied());
    let statements = ["break", "continue"];
    let missing: Vec<&str> = words.filter(|word| !names.contains(word) && !statements.contains(word)).collect();
    assert!(missing.is_empty(), "not in grammar.js: {missing:?}");
    let script = read("grammar/tree-sitter-clk/grammar.js");
    let list = |name: &str| -> BTreeSet<String> {
        let start = script.find(&format!("const {name} = [")).expect("the list");
        let list = script[start..].split_once("];").expect("its end").0;
        list.split('\'').skip(1).step_by(2).map(str::to_string).collect()
    };
    assert_eq!(list("KEYWORDS"), KEYWORDS.iter().map(|(text, _)| text.to_string()).collect(), "KEYWORDS in grammar.js");
    assert_eq!(
        list("CONTEXTUAL"),
        CONTEXTUAL.iter().map(|text| text.to_string()).collect(),
        "CONTEXTUAL in grammar.js"
    );
}
