//! Compares verdicts with Z3, which reads the same problems as SMT-LIB. Without Z3 the tests print the reason and are
//! skipped.
//!
//! `CLK_PYTHON` is a Python with the package `z3-solver` (by default `python3`), `CLK_RANDOM_PROGRAMS` the number of
//! problems.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clk_base::linear::{
    AffineForm, Atom, Formula, LinearProblem, SolverBudget, SolverVerdict, UnknownReason, decide, recheck,
};
use clk_testing::setting;

use super::random::kernel;
use clk_testing::random::Random;

fn number(value: i128) -> String {
    if value < 0 { format!("(- {})", value.unsigned_abs()) } else { value.to_string() }
}

fn form(form: &AffineForm) -> String {
    let terms: String = form.terms().iter().map(|(var, c)| format!(" (* {} x{})", number(*c), var.0)).collect();
    format!("(+ {}{terms})", number(form.constant()))
}

fn formula(fact: &Formula) -> String {
    let join = |name: &str, none: &str, parts: &[Formula]| match parts {
        [] => none.to_string(),
        parts => format!("({name} {})", parts.iter().map(formula).collect::<Vec<_>>().join(" ")),
    };
    match fact {
        Formula::Atom(Atom::NonNegative(atom)) => format!("(>= {} 0)", form(atom)),
        Formula::Atom(Atom::Zero(atom)) => format!("(= {} 0)", form(atom)),
        Formula::And(parts) => join("and", "true", parts),
        Formula::Or(parts) => join("or", "false", parts),
    }
}

fn smt(problem: &LinearProblem) -> String {
    let mut text = String::new();
    for index in 0..problem.variables.len() {
        writeln!(text, "(declare-const x{index} Int)").expect("a string");
    }
    for (p, x, y) in &problem.products {
        writeln!(text, "(assert (= x{} (* x{} x{})))", p.0, x.0, y.0).expect("a string");
    }
    for fact in &problem.facts {
        writeln!(text, "(assert {})", formula(fact)).expect("a string");
    }
    text
}

/// Returns a Python that has Z3, or the reason why none is available.
fn python() -> Result<String, String> {
    let python = std::env::var("CLK_PYTHON").unwrap_or_else(|_| "python3".into());
    let probe = Command::new(&python).args(["-c", "import z3"]).output();
    match probe {
        Ok(output) if output.status.success() => Ok(python),
        Ok(_) => Err(format!("`{python}` has no package z3-solver")),
        Err(error) => Err(format!("`{python}` does not start: {error}")),
    }
}

fn ask(python: &str, problems: &[LinearProblem]) -> Vec<String> {
    let script = include_str!("../../linear/z3.py");
    let mut child = Command::new(python)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it started before");
    let text: String = problems.iter().map(|problem| smt(problem) + ";;\n").collect();
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).expect("z3 reads its input"));
    let output = child.wait_with_output().expect("z3 ends");
    writer.join().expect("the writer ends");
    assert!(output.status.success(), "z3 failed");
    String::from_utf8(output.stdout).expect("text").lines().map(String::from).collect()
}

fn compare(products: bool, seeds: std::ops::Range<u64>) {
    let python = match python() {
        Ok(python) => python,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let problems: Vec<LinearProblem> =
        seeds.clone().map(|seed| kernel(&mut Random::from_seed(seed), products)).collect();
    let answers = ask(&python, &problems);
    assert_eq!(answers.len(), problems.len());
    let (mut counts, mut times) = (BTreeMap::new(), Vec::new());
    let mut sizes = Vec::new();
    for ((seed, problem), answer) in seeds.zip(&problems).zip(answers) {
        let start = Instant::now();
        let verdict = decide(problem, &SolverBudget::default());
        let time = start.elapsed();
        times.push((time, seed));
        let verdict_name = match verdict {
            SolverVerdict::Empty(certificate) => {
                recheck(problem, &certificate).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{certificate}"));
                assert_ne!(answer, "sat", "seed {seed}: refuted, Z3 has a point\n{}", smt(problem));
                sizes.push(certificate.size().lines);
                "empty"
            }
            SolverVerdict::Point(point) => {
                assert_eq!(problem.holds(&point), Some(true), "seed {seed}");
                assert_ne!(answer, "unsat", "seed {seed}: a point, Z3 has none\n{}", smt(problem));
                "point"
            }
            SolverVerdict::Unknown(reason) => {
                assert_ne!(reason, UnknownReason::Unproved, "seed {seed}");
                println!("seed {seed}: {reason} in {time:?}, z3: {answer}");
                "unknown"
            }
        };
        *counts.entry((verdict_name, answer)).or_insert(0) += 1;
    }
    report(&counts, times, sizes);
    let unknown: usize = counts.iter().filter(|((found, _), _)| *found == "unknown").map(|(_, count)| count).sum();
    assert!(unknown * 50 <= problems.len(), "too many unknown: {counts:?}");
}

fn report(counts: &BTreeMap<(&str, String), usize>, mut times: Vec<(Duration, u64)>, mut sizes: Vec<usize>) {
    times.sort();
    sizes.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let size = |percent: usize| sizes.get(sizes.len().saturating_sub(1) * percent / 100);
    println!("{counts:?}\ntime: median {:?}, 99 % {:?}, most {:?}", at(50), at(99), at(100));
    println!("certificates: lines in the median {:?}, 99 % {:?}, most {:?}", size(50), size(99), size(100));
}

fn count() -> u64 {
    setting("CLK_RANDOM_PROGRAMS", 300)
}

#[test]
fn linear_problems() {
    compare(false, 0..count());
}

#[test]
fn problems_with_products() {
    compare(true, 1_000_000..1_000_000 + count() / 4);
}
