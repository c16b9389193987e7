//! Tests `clk why` on programs with planted mistakes: the trees that explain the value of an element, or the first
//! non-finite number.
//!
//! `tests/why/*.clk` contain programs. A line `//# title` begins a case. A line that begins with `//?` has the
//! arguments after `clk why FILE`, and lines that begin with `//=` are the printed tree. `CLK_BLESS=1 cargo test --test
//! why` rewrites the trees; review the difference.

mod why_support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clk_testing::{RunOutput, run, run_with_input};

struct Case {
    title: String,
    arguments: String,
    tree: Vec<String>,
    program: String,
}

fn cases(text: &str) -> Vec<Case> {
    let mut all: Vec<Case> = vec![];
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("//# ") {
            all.push(Case { title: title.into(), arguments: String::new(), tree: vec![], program: String::new() });
            continue;
        }
        let Some(case) = all.last_mut() else { continue };
        if let Some(arguments) = line.strip_prefix("//? ") {
            case.arguments = arguments.into();
        } else if let Some(line) = line.strip_prefix("//= ") {
            case.tree.push(line.into());
        } else {
            case.program += line;
            case.program.push('\n');
        }
    }
    all
}

fn why(name: &str, program: &str, words: &str) -> RunOutput {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = format!("why_{name}.clk");
    fs::write(folder.join(&file), program).expect("written");
    let (element, options) = match words.find("--") {
        Some(0) => words.rsplit_once(' ').map_or((words, ""), |(options, name)| (name, options)),
        Some(at) => (words[..at].trim(), &words[at..]),
        None => (words, ""),
    };
    let words: Vec<&str> = ["why", file.as_str(), element].into_iter().chain(options.split_whitespace()).collect();
    run(folder, &words)
}

#[test]
fn trees_reach_the_inputs() {
    let bless = std::env::var_os("CLK_BLESS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/why");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    paths.sort();
    let (mut failures, mut count) = (String::new(), 0);
    for path in paths {
        let text = fs::read_to_string(&path).expect("readable");
        let mut blessed = String::new();
        for case in cases(&text) {
            count += 1;
            let ran = why(&count.to_string(), &case.program, &case.arguments);
            let said = if ran.code == 0 { ran.out.clone() } else { ran.err.clone() };
            let actual: Vec<String> = said.lines().map(str::to_string).collect();
            let tree: String = actual.iter().map(|line| format!("//= {line}\n")).collect();
            blessed += &format!("//# {}\n//? {}\n{tree}{}", case.title, case.arguments, case.program);
            if !bless && actual != case.tree {
                failures += &format!("{}:\n{}\n  is\n{said}\n", case.title, case.tree.join("\n"));
            }
        }
        if bless {
            fs::write(&path, blessed).expect("written");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 20, "{count} cases");
}

/// Each value that a tree shows equals the value in the run of the program.
#[test]
fn shown_values_match_the_run() {
    let program = "kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }\n\
                   let x = linspace(0.0, 7.0, 8)\nlet y = twice(x)\n";
    for i in 0..8 {
        let ran = why("values", program, &format!("y[{i}]"));
        assert_eq!(ran.code, 0, "{}", ran.err);
        let first = ran.out.lines().next().unwrap_or_default().to_string();
        assert!(first.starts_with(&format!("y[{i}] = {}.0: line 1, ", 2 * i)), "{first}");
        assert!(ran.out.contains(&format!("x[{i}] = {i}.0")), "{}", ran.out);
    }
}

#[test]
fn untraceable_values_are_reported() {
    let program = "let x = linspace(0.0, 7.0, 8)\nlet n = 3\n";
    for (question, said) in [
        ("z[1]", "the program has no variable `z`"),
        ("n[1]", "`n` is not an array"),
        ("x[9]", "is not an element of it"),
        ("x", "is not an element of a variable"),
        ("x[1]", "x[1] = 1.0: line 1: linspace(0.0, 7.0, 8)"),
        ("--nan x", "all numbers of `x` are finite"),
    ] {
        let ran = why("refused", program, question);
        assert!((ran.out.clone() + &ran.err).contains(said), "{question}: {}{}", ran.out, ran.err);
    }
}

/// In a session, `:why` runs the entries again, without failed ones. A variable that was changed later has its current
/// value.
#[test]
fn why_works_in_sessions() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let entries = "kernel root(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = sqrt(x[i]) + 1.0 }\n\
                   var x = [4.0, -1.0]\nlet wrong = nothing\nx[0] = 9.0\nlet y = root(x)\n:why y[0]\n:why y[0] 1\n:whynan y\n:why z[0]\n";
    let ran = run_with_input(folder, &["repl", "--plain", "--ascii"], entries);
    for said in
        ["y[0] = 4.0: line ", "x[0] = 9.0, of the argument `x`", "sqrt(x[i]) = nan", "x[1] = -1.0, of the argument `x`"]
    {
        assert!(ran.out.contains(said), "{said}\n{}{}", ran.out, ran.err);
    }
    assert_eq!(ran.out.matches("x[0] = 9.0").count(), 1, "one level has no operands: {}", ran.out);
    assert!(ran.err.contains("the program has no variable `z`"), "{}", ran.err);
}

/// A line of a tree, which shows an element: its depth in the tree, its array, its index, and its value.
struct Line {
    depth: usize,
    name: String,
    index: Vec<usize>,
    value: f32,
    says_more: bool,
}

fn number(text: &str) -> f32 {
    match text {
        "true" => 1.0,
        "false" => 0.0,
        text => text.parse().unwrap_or_else(|_| panic!("{text}")),
    }
}

/// Parses a line of a printed tree.
fn line(text: &str) -> Line {
    let depth = (text.len() - text.trim_start().len()) / 2;
    let text = text.trim_start();
    if let Some(constant) = text.strip_suffix(", a constant") {
        let value = number(constant);
        return Line { depth, name: constant.into(), index: vec![], value, says_more: false };
    }
    let (name, rest) = text.split_once("] = ").unwrap_or_else(|| panic!("{text}"));
    let end = rest.find(": line").or(rest.find(", ")).unwrap_or(rest.len());
    let (name, index) = name.rsplit_once('[').expect("an index");
    let index = index.split(", ").map(|at| at.parse().unwrap_or_else(|_| panic!("{text}"))).collect();
    let says_more = rest.ends_with(", as above");
    Line { depth, name: name.into(), index, value: number(&rest[..end]), says_more }
}

fn bare(text: &str) -> String {
    let mut text = text;
    let closes_at_end = |text: &str| {
        let mut depth = 0;
        let closed = text.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        text.starts_with('(') && closed.is_some_and(|(at, _)| at + 1 == text.len())
    };
    while closes_at_end(text) {
        text = &text[1..text.len() - 1];
    }
    text.into()
}

/// Each value in a tree equals the value of its expression, which the test evaluates directly. It also results from the
/// values of its operands in the tree.
#[test]
fn random_expressions_are_explained_by_their_values() {
    let (mut random, mut lines, mut joined) = (clk_testing::random::Random(11), 0, 0);
    for round in 0..120 {
        let leaf = |name: &str, shape: &[usize], values: Vec<f32>| why_support::Node {
            text: name.into(),
            shape: shape.into(),
            values,
            operation: None,
            of: vec![],
        };
        let mut numbers =
            |count: usize| (0..count).map(|_| random.next_below(17) as f32 * 0.25 - 1.0).collect::<Vec<f32>>();
        let leaves = [
            leaf("a", &[3, 4], numbers(12)),
            leaf("b", &[3, 4], numbers(12)),
            leaf("row", &[4], numbers(4)),
            leaf("column", &[3, 1], numbers(3)),
        ];
        let mut program = String::new();
        for leaf in &leaves {
            let dims: Vec<String> = leaf.shape.iter().map(usize::to_string).collect();
            program += &format!("let {} = reshape({:?}, {})\n", leaf.text, leaf.values, dims.join(", "));
        }
        let mut all: BTreeMap<String, why_support::Node> =
            leaves.iter().map(|leaf| (leaf.text.clone(), leaf.clone())).collect();
        let root = why_support::expression(&mut random, 3, &leaves, &mut all);
        let definition = format!("let y = {}\n", bare(&root.text));
        program += &definition;
        let by_text: BTreeMap<String, &why_support::Node> = all.iter().map(|(text, node)| (bare(text), node)).collect();
        let index = [random.next_below(3), random.next_below(4)];
        let ran = why(&format!("random{round}"), &program, &format!("y[{}, {}] --levels 40", index[0], index[1]));
        assert_eq!(ran.code, 0, "{program}{}", ran.err);
        let said = format!("{program}{}", ran.out);
        let is_leaf = |name: &str| leaves.iter().any(|leaf| leaf.text == name);
        // Skips the lines below a variable, which show its initializer, a list of numbers.
        let mut tree: Vec<Line> = vec![];
        let mut leaf_depth = None;
        for text in ran.out.lines() {
            let depth = (text.len() - text.trim_start().len()) / 2;
            if leaf_depth.is_some_and(|leaf_depth| depth > leaf_depth) {
                continue;
            }
            let mut line = line(text);
            line.name = if line.name == "y" { bare(&root.text) } else { bare(&line.name) };
            leaf_depth = is_leaf(&line.name).then_some(depth);
            tree.push(line);
        }
        for (at, line) in tree.iter().enumerate() {
            lines += 1;
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let Some(node) = by_text.get(&line.name) else { panic!("{}: {said}", line.name) };
            let place = line.index.iter().zip(&node.shape).fold(0, |at, (i, extent)| at * extent + i);
            assert_eq!(line.index.len(), node.shape.len(), "{said}");
            assert!(same(node.values[place], line.value), "{} is {}: {said}", line.name, node.values[place]);
            let under = tree[at + 1..].iter().take_while(|under| under.depth > line.depth);
            let parts: Vec<&Line> = under.filter(|under| under.depth == line.depth + 1).collect();
            if line.says_more || node.of.is_empty() {
                continue;
            }
            let operands: Vec<String> = node.of.iter().map(|text| bare(text)).collect();
            assert_eq!(parts.iter().map(|part| part.name.clone()).collect::<Vec<_>>(), operands, "{said}");
            let values: Vec<f32> = parts.iter().map(|part| part.value).collect();
            let recomputed = node.operation.map_or(values[0], |operation| why_support::combined(operation, &values));
            assert!(same(recomputed, line.value), "{}: {recomputed}: {said}", line.name);
            joined += 1;
        }
    }
    assert!(lines > 500 && joined > 250, "{lines} lines, {joined} operations");
}
