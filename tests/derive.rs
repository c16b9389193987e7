//! Derivatives of kernels: forward mode against difference quotients, reverse mode against forward mode, both run with all checks.
//!
//! `CLK_DERIVE_KERNELS` is the number of random kernels, `CLK_DERIVE_SEED` the first seed.

#[path = "derive/cases.rs"]
mod cases;
#[allow(dead_code)]
mod generate;
#[path = "derive/harness.rs"]
mod harness;
#[path = "derive/random.rs"]
mod random;
#[allow(dead_code)]
mod reference;

use harness::{Spec, Verdict};

/// A kernel, of which `k` is the last, its launch, and what comes of it: the words of a refusal in reverse and in forward mode.
struct Case {
    name: &'static str,
    text: &'static str,
    extents: clk_lang::device::Extents,
    arguments: &'static [Spec],
    /// The range of its inputs.
    range: (f64, f64),
    refused: Option<&'static str>,
}

fn run(cases: &[Case]) {
    let mut failures = vec![];
    let wanted = std::env::var("CLK_DERIVE_CASE").unwrap_or_default();
    for case in cases.iter().filter(|case| case.name.contains(&wanted)) {
        let start = std::time::Instant::now();
        // The difference quotients need more digits than `f32` has.
        let text = case.text.replace("f32", "f64");
        let verdict = match harness::problem(&text, case.extents, case.arguments, case.range) {
            Ok(problem) => std::panic::catch_unwind(|| harness::check(&problem))
                .unwrap_or_else(|_| Verdict::Wrong("a panic".into())),
            Err(why) => Verdict::Wrong(why),
        };
        let took = start.elapsed().as_secs_f64();
        match (verdict, case.refused) {
            (Verdict::Right(said), None) => println!("{}: right, {said} ({took:.1} s)", case.name),
            (Verdict::Refused { label, line }, Some(wanted)) => {
                let marked = case.text.lines().position(|line| line.contains("//!")).map(|at| at + 1);
                if !label.contains(wanted) || marked != Some(line) {
                    failures.push(format!("{}: refused at line {line}: {label}", case.name));
                }
                println!("{}: refused, {label}", case.name);
            }
            (verdict, _) => failures.push(format!("{}: {verdict:?}", case.name)),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn kernels_without_loops() {
    run(cases::PLAIN);
}

#[test]
fn kernels_with_loops() {
    run(cases::LOOPS);
}

#[test]
fn kernels_of_blocks() {
    run(cases::BLOCKS);
}

/// Programs whose gradients other systems once gave wrong.
#[test]
fn known_mistakes() {
    run(cases::MISTAKES);
}

#[test]
fn what_is_refused() {
    run(cases::REFUSED);
}

/// The derivative of a kernel is a kernel, which has derivatives in both modes.
#[test]
fn derivatives_of_derivatives() {
    let (mut right, mut refused, mut failures) = (0, 0, vec![]);
    for case in cases::PLAIN.iter().chain(cases::LOOPS).chain(cases::BLOCKS) {
        let text = case.text.replace("f32", "f64");
        let problem = harness::problem(&text, case.extents, case.arguments, case.range).expect("a kernel");
        let Some(derived) = harness::derived(&problem).expect("a launch") else { continue };
        match harness::check(&derived) {
            Verdict::Right(_) => right += 1,
            Verdict::Refused { label, .. } => {
                println!("{}: refused, {label}", case.name);
                refused += 1;
            }
            Verdict::Left(why) => println!("{}: left out, {why}", case.name),
            verdict => failures.push(format!("{}: {verdict:?}", case.name)),
        }
    }
    println!("{right} right, {refused} refused");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(right > 20, "{right} right");
}

#[test]
fn random_kernels() {
    random::compare();
}
