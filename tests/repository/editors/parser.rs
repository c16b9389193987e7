//! Compiles the committed parser with the C compiler of this machine, and loads it.

use super::root;
use std::sync::OnceLock;
use tree_sitter::{Language, Node, Parser, Tree};

/// Returns the tree-sitter language.
pub fn language() -> Language {
    static LANGUAGE: OnceLock<Language> = OnceLock::new();
    LANGUAGE.get_or_init(load).clone()
}

fn load() -> Language {
    let folder = root().join("grammar/tree-sitter-clk/src");
    let out = tempfile::tempdir().expect("a folder");
    let library = out.path().join(format!("clk{}", std::env::consts::DLL_SUFFIX));
    let target = format!("{}-{}", std::env::consts::ARCH, host_system());
    let mut build = cc::Build::new();
    build.cargo_metadata(false).target(&target).host(&target).opt_level(1).out_dir(out.path());
    build.include(&folder).std("c11").pic(true).warnings(false);
    let done = build
        .get_compiler()
        .to_command()
        .args(["-shared", "-o"])
        .arg(&library)
        .args([folder.join("parser.c"), folder.join("scanner.c")])
        .output()
        .expect("a C compiler, which the tree-sitter crate needs too");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // SAFETY: the library was just built from the committed parser; it has no initializers, and it stays loaded
    // forever.
    unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(&library).expect("loads")));
        let symbol = library.get::<unsafe extern "C" fn() -> *const ()>(b"tree_sitter_clk").expect("tree_sitter_clk");
        tree_sitter_language::LanguageFn::from_raw(*symbol).into()
    }
}

fn host_system() -> &'static str {
    match std::env::consts::OS {
        "macos" => "apple-darwin",
        "windows" => "pc-windows-msvc",
        _ => "unknown-linux-gnu",
    }
}

pub fn parse(text: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&language()).expect("an ABI that the crate reads");
    parser.parse(text, None).expect("no time limit is set")
}

/// Describes the first error in a tree.
pub fn first_error(tree: &Tree, text: &str) -> Option<String> {
    fn find<'t>(node: Node<'t>) -> Option<Node<'t>> {
        if node.is_error() || node.is_missing() {
            return Some(node);
        }
        if !node.has_error() {
            return None;
        }
        let mut cursor = node.walk();
        node.children(&mut cursor).find_map(find)
    }
    find(tree.root_node()).map(|node| {
        let at = node.start_position();
        let line = text.lines().nth(at.row).unwrap_or("");
        format!("{}:{}: {} in `{}`", at.row + 1, at.column + 1, node.to_sexp(), line.trim())
    })
}
