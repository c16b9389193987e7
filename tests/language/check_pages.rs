//! Tests the help pages of the checker's diagnostic codes: a wrong example causes exactly the error of its page, and a
//! correct example causes no error.

use std::collections::HashMap;

use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_check::typed::{Module, NameBinding, Program};
use clk_codes::Page;
use clk_syntax::ast::{Import, ItemKind};
use clk_syntax::parse;

/// Checks a text whose imports resolve to a module with a function `softmax`.
fn diagnostics(text: &str) -> Vec<Diagnostic> {
    let mut sources = SourceMap::default();
    let library = "fn softmax(x: [f32; M, N]) -> [f32; M, N] { exp(x) }\n";
    let (std_file, file) = (sources.add("std/nn.clk", library), sources.add("page", text));
    let mut program = Program::default();
    let std = program.modules.push(Module { name: "std.nn".into(), ..Module::default() });
    let (ast, diagnostics) = parse(std_file, library);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let library_diagnostics = clk_check::check(&mut program, std, &ast, &HashMap::new());
    assert!(library_diagnostics.is_empty(), "{library_diagnostics:?}");
    assert!(matches!(program.modules[std].names.get("softmax"), Some(NameBinding::Fn(_))));
    let (ast, mut reported) = parse(file, text);
    let imports = ast.items.iter().filter_map(|i| match &i.kind {
        ItemKind::Import(Import { span, .. }) => Some((*span, std)),
        _ => None,
    });
    let main = program.modules.push(Module::default());
    reported.extend(clk_check::check(&mut program, main, &ast, &imports.collect()));
    reported
}

fn block<'t>(text: &'t str, fence: &str) -> &'t str {
    let start = text.split_once(&format!("```{fence}\n")).unwrap_or_else(|| panic!("no ```{fence} block in {text}")).1;
    start.split_once("```").expect("a closing fence").0
}

/// Returns the pages of the codes that the checker and its lints report.
fn pages() -> impl Iterator<Item = &'static Page> {
    clk_codes::pages().filter(|page| match page.code {
        "W0010" | "W0011" => false,
        code => ["E0201"..="E0289", "E0301"..="E0479", "W0001"..="W0012"].iter().any(|range| range.contains(&code)),
    })
}

fn show(diagnostics: &[Diagnostic]) -> Vec<String> {
    diagnostics.iter().map(|d| format!("{} {}", d.code, d.title)).collect()
}

#[test]
fn wrong_examples_have_exactly_their_error() {
    for page in pages() {
        let reported = diagnostics(block(page.text, "clk fails"));
        assert!(reported.iter().any(|d| d.code == page.code), "{}: {:?}", page.code, show(&reported));
        let others: Vec<_> = reported.iter().filter(|d| d.code != page.code && d.is_error()).cloned().collect();
        assert!(others.is_empty(), "{} also gives {:?}", page.code, show(&others));
        for d in &reported {
            assert!(d.labels.iter().filter(|l| l.is_primary()).count() == 1, "{}: one primary label", d.code);
            assert!(!d.title.ends_with('.'), "{}: {}", d.code, d.title);
        }
    }
}

#[test]
fn correct_examples_pass() {
    for page in pages() {
        let reported = diagnostics(block(page.text, "clk"));
        assert!(reported.is_empty(), "{}: {:?}", page.code, show(&reported));
    }
}

#[test]
fn pages_are_in_order() {
    let codes: Vec<_> = pages().map(|p| p.code).collect();
    assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
}
