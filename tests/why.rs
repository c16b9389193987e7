//! `clk why`: expected trees of elements, and of first numbers that are not finite, in programs with planted mistakes.
//!
//! `tests/why/*.clk` contain programs. A line `//# title` begins a case, `//? words` are what `clk why FILE` is asked, and `//=` lines are the
//! tree that it prints. `CLK_BLESS=1 cargo test --test why` rewrites the trees; read the difference.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Ran, run, run_with_input};

struct Case {
    title: String,
    asked: String,
    tree: Vec<String>,
    program: String,
}

fn cases(text: &str) -> Vec<Case> {
    let mut all: Vec<Case> = vec![];
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("//# ") {
            all.push(Case { title: title.into(), asked: String::new(), tree: vec![], program: String::new() });
            continue;
        }
        let Some(case) = all.last_mut() else { continue };
        if let Some(asked) = line.strip_prefix("//? ") {
            case.asked = asked.into();
        } else if let Some(line) = line.strip_prefix("//= ") {
            case.tree.push(line.into());
        } else {
            case.program += line;
            case.program.push('\n');
        }
    }
    all
}

fn why(name: &str, program: &str, words: &str) -> Ran {
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
fn trees_lead_back_to_the_inputs() {
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
            let ran = why(&count.to_string(), &case.program, &case.asked);
            let said = if ran.code == 0 { ran.out.clone() } else { ran.err.clone() };
            let found: Vec<String> = said.lines().map(str::to_string).collect();
            let tree: String = found.iter().map(|line| format!("//= {line}\n")).collect();
            blessed += &format!("//# {}\n//? {}\n{tree}{}", case.title, case.asked, case.program);
            if !bless && found != case.tree {
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

/// Every line of a tree names a value that the program has.
#[test]
fn the_value_is_that_of_the_run() {
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
fn what_cannot_be_followed_is_said() {
    let program = "let x = linspace(0.0, 7.0, 8)\nlet n = 3\n";
    for (asked, said) in [
        ("z[1]", "the program has no variable `z`"),
        ("n[1]", "`n` is no array"),
        ("x[9]", "is no element of it"),
        ("x", "is no element of a variable"),
        ("x[1]", "x[1] = 1.0: line 1: linspace(0.0, 7.0, 8)"),
        ("--nan x", "all numbers of `x` are finite"),
    ] {
        let ran = why("refused", program, asked);
        assert!((ran.out.clone() + &ran.err).contains(said), "{asked}: {}{}", ran.out, ran.err);
    }
}

/// In a session its entries run again, and a failed entry is none of them. A variable that was changed is as it is now.
#[test]
fn sessions_answer_as_well() {
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
