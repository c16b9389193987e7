//! The pages of the checker's codes: the wrong example has the error, and no other; the correct one has none.

use std::collections::HashMap;

use clk_lang::base::diag::Diagnostic;
use clk_lang::base::source::Sources;
use clk_lang::check::typed::{Binding, Module, Program};
use clk_lang::lang::codes::{Page, check, lints};
use clk_lang::syntax::ast::{Import, ItemKind};
use clk_lang::syntax::parse;

/// Checks a text whose imports resolve to a module with a function `softmax`.
fn diagnostics(text: &str) -> Vec<Diagnostic> {
    let mut sources = Sources::default();
    let library = "fn softmax(x: [f32; M, N]) -> [f32; M, N] { exp(x) }\n";
    let (std_file, file) = (sources.add("std/nn.clk", library), sources.add("page", text));
    let mut program = Program::default();
    let std = program.modules.push(Module { name: "std.nn".into(), ..Module::default() });
    let (ast, found) = parse(std_file, library);
    assert!(found.is_empty(), "{found:?}");
    let found = clk_lang::check::check(&mut program, std, &ast, &HashMap::new());
    assert!(found.is_empty(), "{found:?}");
    assert!(matches!(program.modules[std].names.get("softmax"), Some(Binding::Fn(_))));
    let (ast, mut found) = parse(file, text);
    let imports = ast.items.iter().filter_map(|i| match &i.kind {
        ItemKind::Import(Import { span, .. }) => Some((*span, std)),
        _ => None,
    });
    let main = program.modules.push(Module::default());
    found.extend(clk_lang::check::check(&mut program, main, &ast, &imports.collect()));
    found
}

fn block<'t>(text: &'t str, fence: &str) -> &'t str {
    let start = text.split_once(&format!("```{fence}\n")).unwrap_or_else(|| panic!("no ```{fence} block in {text}")).1;
    start.split_once("```").expect("a closing fence").0
}

fn pages() -> impl Iterator<Item = &'static Page> {
    check::PAGES.iter().chain(lints::PAGES)
}

fn show(found: &[Diagnostic]) -> Vec<String> {
    found.iter().map(|d| format!("{} {}", d.code, d.title)).collect()
}

#[test]
fn each_wrong_example_has_its_mistake_and_no_other() {
    for page in pages() {
        let found = diagnostics(block(page.text, "clk fails"));
        assert!(found.iter().any(|d| d.code == page.code), "{}: {:?}", page.code, show(&found));
        let others: Vec<_> = found.iter().filter(|d| d.code != page.code && d.is_error()).cloned().collect();
        assert!(others.is_empty(), "{} also gives {:?}", page.code, show(&others));
        for d in &found {
            assert!(d.labels.iter().filter(|l| l.primary).count() == 1, "{}: one primary label", d.code);
            assert!(!d.title.ends_with('.'), "{}: {}", d.code, d.title);
        }
    }
}

#[test]
fn each_right_example_passes() {
    for page in pages() {
        let found = diagnostics(block(page.text, "clk"));
        assert!(found.is_empty(), "{}: {:?}", page.code, show(&found));
    }
}

#[test]
fn pages_are_in_order() {
    let codes: Vec<_> = pages().map(|p| p.code).collect();
    assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
}
