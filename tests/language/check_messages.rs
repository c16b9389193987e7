//! Compares the checker's diagnostics with comments in programs. `//~ CODE words` precedes the line that a diagnostic
//! points at; the words occur in its title or label. A missing or an unexpected diagnostic fails the test. `// ---`
//! begins a new program.

use std::collections::HashMap;

use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::SourceMap;
use clk_check::check;
use clk_check::typed::{Module, Program};
use clk_syntax::parse;

fn checked(text: &str) -> (SourceMap, Vec<Diagnostic>) {
    let mut sources = SourceMap::default();
    let file = sources.add("test", text);
    let (ast, mut diagnostics) = parse(file, text);
    let mut program = Program::default();
    let main = program.modules.push(Module::default());
    diagnostics.extend(check(&mut program, main, &ast, &HashMap::new()));
    (sources, diagnostics)
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
    let (sources, reported) = checked(text);
    for d in &reported {
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
fn errors_have_the_expected_place_and_text() {
    let mut problems = vec![];
    for file in [
        include_str!("../check/mistakes_names.clk"),
        include_str!("../check/mistakes_types.clk"),
        include_str!("../check/mistakes_device.clk"),
        include_str!("../check/warnings.clk"),
        include_str!("../check/zeros.clk"),
        include_str!("../check/arguments.clk"),
    ] {
        file.split("// ---\n").for_each(|program| differences(program, &mut problems));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn missing_axes_are_restored_by_reshape() {
    for (text, help) in [
        ("let s = zeros(5, 3) - max(zeros(5, 3), axis = 1)", "`reshape(…, 5, 1)` gives [5] an axis that is repeated"),
        ("let s = zeros(2) * zeros(2, 3, 4)", "`reshape(…, 2, 1, 1)` gives [2] an axis"),
        ("let s = sum(zeros(5, 3), axis = 1, keepdims = true)", "`reshape(sum(x, axis = 1), -1, 1)`"),
    ] {
        let (_, reported) = checked(text);
        let all: Vec<&String> = reported.iter().flat_map(|d| &d.help).collect();
        assert!(all.iter().any(|own| own.contains(help)), "{text}: {all:?}");
    }
    // The help for incompatible shapes does not suggest `reshape` if inserting an axis would not make them compatible.
    let (_, found) = checked("let s = zeros(3) + zeros(4, 5)");
    assert!(found.iter().flat_map(|d| &d.help).all(|own| !own.contains("reshape")), "{found:?}");
}

/// Applies every fix and checks that the program is valid afterwards.
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
fn transpositions_name_the_shapes_of_their_products() {
    let titles = |text: &str| checked(text).1[0].fixes.iter().map(|fix| fix.title.clone()).collect::<Vec<_>>();
    assert_eq!(
        titles("let a = zeros(2, 3)\nprint(a @ a)"),
        ["transpose the left operand for the shape [3, 3]", "transpose the right operand for the shape [2, 2]"]
    );
    assert_eq!(titles("print(zeros(2, 3) @ zeros(2))"), ["transpose the left operand"]);
}

#[test]
fn fixes_remove_the_error() {
    for (wrong, right) in [
        ("let n = 1\nn += 1", "var n = 1\nn += 1"),
        ("fn f(x: float) -> float { x }", "fn f(x: f32) -> f32 { x }"),
        ("fn f(x: f32) -> f32 { sqrtf(x) }", "fn f(x: f32) -> f32 { sqrt(x) }"),
        ("fn f(n: i32, x: f32) -> f32 { n * x }", "fn f(n: i32, x: f32) -> f32 { f32(n) * x }"),
        ("fn f(n: i32) -> f32 { n }", "fn f(n: i32) -> f32 { f32(n) }"),
        ("fn f(n: u8) -> f32 { n / 255 }", "fn f(n: u8) -> f32 { f32(n) / 255.0 }"),
        ("fn f(n: i32, m: i32) -> f64 { (1 / (n + m)) }", "fn f(n: i32, m: i32) -> f64 { (1.0 / (f64(n + m))) }"),
        (
            "fn f(n: i32, x: f32) -> f32 { x * (n / n / 2) }",
            "fn f(n: i32, x: f32) -> f32 { x * (f32(n) / f32(n) / 2.0) }",
        ),
        ("fn f(n: i32) -> f32 { sqrt(n / 2) }", "fn f(n: i32) -> f32 { sqrt(f32(n) / 2.0) }"),
        ("fn f<T: Num>(x: T, y: f32) -> T { x + y }", "fn f<T: Num>(x: T, y: f32) -> T { x + T(y) }"),
        ("let x = zeros(4)\nprint(x.sum())", "let x = zeros(4)\nprint(sum(x))"),
        ("let x = zeros(4)\nprint(x.sum(axis = 0))", "let x = zeros(4)\nprint(sum(x, axis = 0))"),
        ("for i in 10 { print(i) }", "for i in 0..10 { print(i) }"),
        ("for i in 5..0 { print(i) }", "for i in 5..0 step -1 { print(i) }"),
        ("for i in 2..=-2 { print(i) }", "for i in 2..=-2 step -1 { print(i) }"),
        ("let n = 3\nprint(full(7.0, n, 4))", "let n = 3\nprint(full(n, 4, 7.0))"),
        ("x = 5\nprint(x)", "let x = 5\nprint(x)"),
        ("x = 5\nx += 1\nprint(x)", "var x = 5\nx += 1\nprint(x)"),
        ("sum = 0.0\nprint(sum)", "let sum = 0.0\nprint(sum)"),
        ("fn f(n: i32) -> i32 { y = n + 1; y * 2 }", "fn f(n: i32) -> i32 { let y = n + 1; y * 2 }"),
        ("print(2.0 ^ 3.0)", "print(2.0 ** 3.0)"),
        ("let n = 5\nprint(\"n = \" + n)", "let n = 5\nprint(\"n = {n}\")"),
        ("let n = 5\nprint(n + \" items\")", "let n = 5\nprint(\"{n} items\")"),
        ("let n = 5\nprint(\"n = \" + (n + 1))", "let n = 5\nprint(\"n = {(n + 1)}\")"),
        ("let n = 5\nprint(\"n = \" + n)", "let n = 5\nprint(\"n = {n}\")"),
        ("let n = 5\nlet s = \"a\"\nprint(s + n)", "let n = 5\nlet s = \"a\"\nprint(\"{s}{n}\")"),
        ("let s = \"abc\"\nprint(s.length)", "let s = \"abc\"\nprint(len(s))"),
        ("print(startswith(\"ab\", \"a\"))", "print(starts_with(\"ab\", \"a\"))"),
        ("print(i32(\"12\"))", "print(parse(i32, \"12\"))"),
        ("let n: [str; 2] = [\"a\", \"b\"]\nprint(n)", "let n: [str; _] = [\"a\", \"b\"]\nprint(n)"),
        ("let x = arange(6)\nprint(x[-1])", "let x = arange(6)\nprint(x[len(x) - 1])"),
        ("let x = zeros(2, 3)\nprint(x[0, -2])", "let x = zeros(2, 3)\nprint(x[0, shape(x, 1) - 2])"),
        (
            "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[-1] }",
            "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[N - 1] }",
        ),
        (
            "kernel k(out y: [f32; N]) grid(1) block(N) { let i = thread_idx; y[i] = 1.0 }",
            "kernel k(out y: [f32; N]) grid(1) block(N) { let i = thread_idx; y[i.x] = 1.0 }",
        ),
        (
            "kernel k(out y: [f32; M, N]) threads(i: M, j: N) { y[i][j] = 1.0 }",
            "kernel k(out y: [f32; M, N]) threads(i: M, j: N) { y[i, j] = 1.0 }",
        ),
        (
            "kernel fill(out y: [f32; N]) threads(i: N) { y[i] = 1.0 }\nprint(fill(10))",
            "kernel fill(out y: [f32; N]) threads(i: N) { y[i] = 1.0 }\nprint(fill(N = 10))",
        ),
        (
            "kernel fill(a: f32, out y: [f32; M, N]) threads(i: M, j: N) { y[i, j] = a }\nprint(fill(1.0, 2, 3))",
            "kernel fill(a: f32, out y: [f32; M, N]) threads(i: M, j: N) { y[i, j] = a }\nprint(fill(1.0, M = 2, N = 3))",
        ),
        (
            "kernel k(out y: [f32; N]) threads(i: 0..N) { y[i] = 1.0 }",
            "kernel k(out y: [f32; N]) threads(i: N) { y[i] = 1.0 }",
        ),
        ("let x = ones(3)\nassert(x == 1.0 && x > 0.0)", "let x = ones(3)\nassert((x == 1.0) & (x > 0.0))"),
        ("let y = ones(3)\nplot(y, \"a.png\")", "let y = ones(3)\nplot(\"a.png\", y)"),
        (
            "let n = 3\nlet x = ones(4, 4)\nheat(x * 2.0, \"a{n:03}.png\", fps = 2)",
            "let n = 3\nlet x = ones(4, 4)\nheat(\"a{n:03}.png\", x * 2.0, fps = 2)",
        ),
        (
            "let path = \"a.png\"\nlet x = ones(4, 4)\nimage(x, path)",
            "let path = \"a.png\"\nlet x = ones(4, 4)\nimage(path, x)",
        ),
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

/// One error causes one diagnostic.
#[test]
fn errors_are_not_reported_twice() {
    for text in [
        "x = 5\nprint(x)\nx = 6",
        "x = x + 1",
        "struct Ball { at: f32x2, mass: f32 }\nlet b = Ball { at: f32x2(1.0, 2.0), mas: 3.0 }\nprint(b.mass)",
        "let n = 5\nlet s = \"a\" + n + \"b\"",
        "let names = [\"a\", 2, 3]\nprint(names)",
        "let x = ones(3)\nassert(x == 1.0 && x > 0.0)",
        "kernel k(out y: [f32; N]) grid(1) block(N) { let i = thread_idx; y[i] = 1.0; y[i] = 2.0 }",
        "kernel k(inout y: [f32; M, N]) threads(i: M, j: N) { y[i][j] = y[i, j] + 1.0 }",
        "fn f(n: i32) -> i32 { f(n - 1) }\nkernel a(out y: [i32; N]) threads(i: N) { y[i] = f(i) }\n\
         kernel b(out y: [i32; N]) threads(i: N) { y[i] = f(i) }",
    ] {
        let (_, reported) = checked(text);
        assert_eq!(reported.len(), 1, "{text}: {reported:#?}");
    }
}

#[test]
fn fixes_of_possible_variables_are_not_automatic() {
    let (_, found) = checked("let sizes = 3\nprint(size)");
    assert_eq!(found[0].fixes[0].edits[0].1, "sizes");
    let (_, found) = checked("print(maximum)");
    let fix = &found[0].fixes[0];
    assert_eq!((fix.edits[0].1.as_str(), fix.applicability), ("max", Applicability::MaybeIncorrect));
}

#[test]
fn fixes_of_foreign_keywords_are_automatic() {
    let (_, found) = checked("kernel k(out r: [i32; N]) grid(1) block(N) { r[threadIdx.x] = 0 }");
    let fix = &found[0].fixes[0];
    assert_eq!((fix.edits[0].1.as_str(), fix.applicability), ("thread_idx", Applicability::MachineApplicable));
}

#[test]
fn follow_up_errors_are_suppressed() {
    let text: String = (0..100).map(|i| format!("print(unknown{i})\n")).collect();
    assert_eq!(checked(&text).1.len(), 20);
}
