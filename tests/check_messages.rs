//! Mistakes and what is said about them: `//~ CODE words` stands above the line that a diagnostic points at (with the words in
//! its title or on its label). Missing and surplus diagnostics both fail. `// ---` begins a new program.

use std::collections::HashMap;

use clk_lang::base::diag::{Applicability, Diagnostic};
use clk_lang::base::source::Sources;
use clk_lang::check::check;
use clk_lang::check::typed::{Module, Program};
use clk_lang::syntax::parse;

fn checked(text: &str) -> (Sources, Vec<Diagnostic>) {
    let mut sources = Sources::default();
    let file = sources.add("test", text);
    let (ast, mut found) = parse(file, text);
    let mut program = Program::default();
    let main = program.modules.push(Module::default());
    found.extend(check(&mut program, main, &ast, &HashMap::new()));
    (sources, found)
}

fn differences(text: &str, problems: &mut Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let mut expected: Vec<(usize, &str, &str)> = vec![];
    let mut waiting: Vec<(&str, &str)> = vec![];
    for (number, line) in lines.iter().enumerate() {
        match line.trim().strip_prefix("//~ ") {
            Some(note) => waiting.push(note.split_once(' ').unwrap_or((note, ""))),
            None => expected.extend(waiting.drain(..).map(|(code, words)| (number + 1, code, words))),
        }
    }
    let (sources, found) = checked(text);
    for d in &found {
        let line = d.primary().map_or(0, |s| sources.line_column(s).0);
        let says = |words: &str| d.title.contains(words) || d.labels.iter().any(|l| l.text.contains(words));
        match expected.iter().position(|(n, code, words)| *n == line && *code == d.code && says(words)) {
            Some(i) => drop(expected.remove(i)),
            None => problems.push(format!("surplus, at `{}`: {} {}", lines[line - 1].trim(), d.code, d.title)),
        }
    }
    for (line, code, words) in expected {
        problems.push(format!("missing, at `{}`: {code} {words}", lines[line - 1].trim()));
    }
}

#[test]
fn mistakes_are_reported_where_and_as_expected() {
    let mut problems = vec![];
    for file in [
        include_str!("check/mistakes_names.clk"),
        include_str!("check/mistakes_types.clk"),
        include_str!("check/mistakes_device.clk"),
        include_str!("check/warnings.clk"),
    ] {
        file.split("// ---\n").for_each(|program| differences(program, &mut problems));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// Applies every fix and checks that the program is right afterwards.
fn mended(text: &str) -> String {
    let (_, found) = checked(text);
    let mut edits: Vec<_> = found.iter().flat_map(|d| d.fixes.first()).flat_map(|f| f.edits.clone()).collect();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse((span.start, span.end)));
    let mut text = text.to_string();
    for (span, new) in edits {
        text.replace_range(span.range(), &new);
    }
    text
}

#[test]
fn fixes_mend_the_mistake() {
    for (wrong, right) in [
        ("let n = 1\nn += 1", "var n = 1\nn += 1"),
        ("fn f(x: float) -> float { x }", "fn f(x: f32) -> f32 { x }"),
        ("fn f(x: f32) -> f32 { sqrtf(x) }", "fn f(x: f32) -> f32 { sqrt(x) }"),
        ("fn f(n: i32, x: f32) -> f32 { n * x }", "fn f(n: i32, x: f32) -> f32 { f32(n) * x }"),
        ("fn f(n: i32) -> f32 { n }", "fn f(n: i32) -> f32 { f32(n) }"),
        ("fn f<T: Num>(x: T, y: f32) -> T { x + y }", "fn f<T: Num>(x: T, y: f32) -> T { x + T(y) }"),
        ("let x = zeros(4)\nprint(x.sum())", "let x = zeros(4)\nprint(sum(x))"),
        ("let x = zeros(4)\nprint(x.sum(axis = 0))", "let x = zeros(4)\nprint(sum(x, axis = 0))"),
        ("for i in 10 { print(i) }", "for i in 0..10 { print(i) }"),
        ("let total = 1.5\nprint(totl)", "let total = 1.5\nprint(total)"),
        (
            "kernel k(out r: [i32; N]) grid(1) block(N) { r[threadIdx.x] = threadIdx.x }",
            "kernel k(out r: [i32; N]) grid(1) block(N) { r[thread_idx.x] = thread_idx.x }",
        ),
        (
            "kernel k(x: [f32; N]) threads(i: N) { x[i] += 1 }",
            "kernel k(inout x: [f32; N]) threads(i: N) { x[i] += 1 }",
        ),
        (
            "kernel k(out x: [f32; N]) threads(i: N) { x[i] += 1 }",
            "kernel k(inout x: [f32; N]) threads(i: N) { x[i] += 1 }",
        ),
    ] {
        assert_eq!(mended(wrong), right);
        let (_, left) = checked(right);
        assert!(left.is_empty(), "{right}: {left:?}");
    }
}

#[test]
fn a_foreign_word_can_be_replaced_without_looking() {
    let (_, found) = checked("kernel k(out r: [i32; N]) grid(1) block(N) { r[threadIdx.x] = 0 }");
    let fix = &found[0].fixes[0];
    assert_eq!((fix.edits[0].1.as_str(), fix.applicability), ("thread_idx", Applicability::MachineApplicable));
}

#[test]
fn no_more_errors_than_help() {
    let text: String = (0..100).map(|i| format!("print(unknown{i})\n")).collect();
    assert_eq!(checked(&text).1.len(), 20);
}
