//! The checker returns a tree and diagnostics for any text, however broken.

use std::collections::HashMap;

use clk_base::source::SourceMap;
use clk_check::typed::{Module, Program};
use clk_check::{check, dump};
use clk_syntax::parse;
use clk_testing::random::Random;

fn codes(text: &str) -> Vec<&'static str> {
    let mut sources = SourceMap::default();
    let file = sources.add("test", text);
    let (ast, mut diagnostics) = parse(file, text);
    let mut program = Program::default();
    let main = program.modules.push(Module::default());
    diagnostics.extend(check(&mut program, main, &ast, &HashMap::new()));
    assert!(
        !dump(&program, main).contains(" -> ?") || diagnostics.iter().any(|d| d.is_error()),
        "an error without a diagnostic"
    );
    diagnostics.iter().map(|d| d.code).collect()
}

const TEXTS: [&str; 3] =
    [include_str!("../check/kernels.clk"), include_str!("../check/script.clk"), include_str!("../check/functions.clk")];

#[test]
fn good_programs_have_no_diagnostics() {
    for text in TEXTS {
        assert_eq!(codes(text), Vec::<&str>::new());
    }
}

/// Checks programs that are broken by deleting or duplicating bytes and by swapping words.
#[test]
fn broken_programs_do_not_stop_the_checker() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..400 {
        let text = TEXTS[round % TEXTS.len()];
        let mut words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for _ in 0..1 + random.next_below(6) {
            let (i, j) = (random.next_below(words.len()), random.next_below(words.len()));
            match random.next_below(3) {
                0 => drop(words.remove(i)),
                1 => words.swap(i, j),
                _ => words.insert(i, words[j]),
            }
        }
        codes(&words.concat());
    }
}

#[test]
fn deeply_nested_programs_are_checked_or_refused() {
    let nested =
        |open: &str, inner: &str, close: &str, n: usize| format!("{}{inner}{}", open.repeat(n), close.repeat(n));
    for text in [
        format!("let x = {}", nested("1+", "1", "", 450)),
        format!("let x = {}", nested("(", "1", ")", 150)),
        format!("let x = {}", nested("if true { ", "1", " } else { 2 }", 150)),
        format!("let x = {}", nested("min(1, ", "1", ")", 150)),
        format!("fn f() {{ {} }}", nested("while true { ", "print(1)", " }", 150)),
        format!("let x = {}", nested("[", "1", "]", 150)),
        format!("fn f(x: {}) {{ }}", nested("(", "f32", ", f32)", 150)),
        format!("let x = {}1 {}", "if true { 1 } else ".repeat(120), "{ 2 }"),
        format!("let x = {}1", "-".repeat(150)),
    ] {
        codes(&text);
    }
}
