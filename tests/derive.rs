//! Derivatives of kernels: forward mode against difference quotients, reverse mode against forward mode, both run with all checks.
//!
//! `CLK_DERIVE_KERNELS` is the number of random kernels, `CLK_DERIVE_SEED` the first seed.

#[path = "derive/apart.rs"]
mod apart;
#[path = "derive/cases.rs"]
mod cases;
mod generate;
#[path = "derive/harness.rs"]
mod harness;
#[path = "derive/held.rs"]
mod held;
#[path = "derive/random.rs"]
mod random;
#[allow(dead_code)]
#[path = "common/random.rs"]
mod random_numbers;
#[allow(dead_code)]
mod reference;
#[path = "derive/sources.rs"]
mod sources;

use clk_lang::derive;
use clk_lang::ir::text;
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

/// Returns the derivative of a case's kernel in reverse mode.
fn derived(case: &Case) -> derive::Derived {
    let problem = harness::problem(case.text, case.extents, case.arguments, case.range).expect("a kernel");
    let active = derive::can_be_active(&problem.module);
    let launches = derive::Launches::with(&problem.module, case.extents);
    derive::reverse(&problem.module, &active, &launches).expect("a derivative")
}

/// What is read at constant distances from the thread's indices: its adjoint is gathered.
#[test]
fn stencils() {
    run(apart::GATHERED);
    for case in apart::GATHERED {
        let derived = derived(case);
        assert!(!derived.gathers.is_empty(), "{}: nothing is gathered", case.name);
        for gather in &derived.gathers {
            assert!(!text::print(&gather.module).contains("atomic"), "{}", case.name);
        }
    }
}

/// What shared memory, or an array of the thread, holds to the end of a kernel is on no tape.
#[test]
fn what_is_held_is_not_recorded() {
    let records = |case: &Case| derived(case).params.iter().any(|role| matches!(role, derive::Role::Tape(_)));
    run(held::HELD);
    held::HELD.iter().for_each(|case| assert!(!records(case), "{}: there is a tape", case.name));
    run(held::OVERWRITTEN);
    held::OVERWRITTEN.iter().for_each(|case| assert!(records(case), "{}: there is no tape", case.name));
}

/// What all threads read: its adjoint is a sum over them.
#[test]
fn sums_over_all_threads() {
    run(apart::SUMMED);
    for case in apart::SUMMED {
        let derived = derived(case);
        let totals = derived.totals.expect("sums");
        assert!(!text::print(&totals.module).contains("atomic"), "{}", case.name);
        assert!(!derived.has_effect || !text::print(&derived.module).contains("atomic"), "{}", case.name);
    }
}

#[test]
fn kernels_with_loops() {
    run(cases::LOOPS);
}

#[test]
fn kernels_of_blocks() {
    run(cases::BLOCKS);
}

#[test]
fn kernels_whose_threads_meet() {
    run(cases::MEETING);
}

/// Numbers of blocks, and kernels, with the number of additions to adjoints that are atomic, and of adjoints that are taken so.
const ATOMICS: &[(u32, &str, usize, usize)] = &[
    (1, "x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i] }", 0, 0),
    // Gathered.
    (1, "x: [f32; N + 1], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i + 1] }", 0, 0),
    (1, "x: [f32; N], out y: [f32; M]) threads(i: M) { y[i] = x[i / 2] }", 1, 0),
    (1, "x: [f32; M, N], out y: [f32; M]) threads(i: M) { for j in 0..N { y[i] = x[i, j] * x[i, N - 1 - j] } }", 0, 0),
    (1, "x: [f32; M, N], out y: [f32; M]) threads(i: M) { for j in 0..N { y[i] = x[i, j] * x[j, i] } }", 2, 0),
    // Neither what is read from memory nor a promise that no run tests tells threads apart.
    (1, "x: [f32; M], at: [i32; N], out y: [f32; M]) threads(i: N) { y[at[i]] = x[i] }", 0, 1),
    (1, "x: [f32; M], at: [i32; N], out y: [f32; N]) threads(i: N) assume distinct(at) { y[i] = x[at[i]] }", 1, 0),
    (
        2,
        "x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 4)) block(4) {
        if global_idx.x < N { y[global_idx.x] = x[global_idx.x] * x[global_idx.x] } }",
        0,
        0,
    ),
    (1, "x: [f32; N], out y: [f32; N]) grid(1) block(4) { y[thread_idx.y] = x[thread_idx.y] }", 1, 1),
    // In one block a barrier is between the two reads; of two blocks it is not.
    (
        1,
        "x: [f32; 4], out y: [f32; 4]) grid(1) block(4) {
        let a = x[thread_idx.x]
        barrier()
        y[thread_idx.x] = a * x[3 - thread_idx.x] }",
        0,
        0,
    ),
    (
        2,
        "x: [f32; 8], out y: [f32; 8]) grid(2) block(4) {
        let a = x[global_idx.x]
        barrier()
        y[global_idx.x] = a * x[7 - global_idx.x] }",
        2,
        0,
    ),
    // A tape is a thread's own; so is an array of the thread.
    (
        1,
        "x: [f32; N], out y: [f32; N]) threads(i: N) { var p = x[i]
        for j in 0..N { p *= p + 0.5 }
        y[i] = p }",
        0,
        0,
    ),
];

#[test]
fn only_what_threads_share_is_added_atomically() {
    for (blocks, text, additions, taken) in ATOMICS {
        let found = harness::atomics(&format!("kernel k({text}"), *blocks);
        assert_eq!(found, (*additions, *taken), "{text}");
    }
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
    let plain = cases::TWICE.iter().chain(cases::PLAIN).chain(apart::GATHERED).chain(apart::SUMMED);
    for case in plain.chain(cases::LOOPS).chain(cases::BLOCKS).chain(cases::MEETING) {
        let text = case.text.replace("f32", "f64");
        let problem = harness::problem(&text, case.extents, case.arguments, case.range).expect("a kernel");
        for derived in harness::derived(&problem).expect("launches") {
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
    }
    println!("{right} right, {refused} refused");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(right > 20, "{right} right");
}

#[test]
fn random_kernels() {
    random::compare();
}

#[test]
fn random_sources() {
    random::compare_sources();
}
