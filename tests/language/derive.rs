//! Tests derivatives of kernels: compares forward mode with finite differences, and reverse mode with forward mode. All
//! derivatives run with all checks.
//!
//! `CLK_DERIVE_KERNELS` is the number of random kernels, `CLK_DERIVE_SEED` the first seed.

mod cases;
mod harness;
mod loop_memory;
mod outlined_adjoints;
mod random;
mod sources;

use clk_ir::text;
use harness::{Spec, Verdict};

/// A source whose last kernel is `k`, a launch of `k`, and the error if its derivative must be refused.
struct Case {
    name: &'static str,
    text: &'static str,
    extents: clk_runtime::LaunchExtents,
    arguments: &'static [Spec],
    /// The range of the random inputs.
    range: (f64, f64),
    refused: Option<&'static str>,
}

fn run(cases: &[Case]) {
    let mut failures = vec![];
    let filter = std::env::var("CLK_DERIVE_CASE").unwrap_or_default();
    for case in cases.iter().filter(|case| case.name.contains(&filter)) {
        let start = std::time::Instant::now();
        // Finite differences need more digits than `f32` has.
        let text = case.text.replace("f32", "f64");
        let verdict = match harness::problem(&text, case.extents, case.arguments, case.range) {
            Ok(problem) => std::panic::catch_unwind(|| harness::check(&problem))
                .unwrap_or_else(|_| Verdict::Wrong("a panic".into())),
            Err(why) => Verdict::Wrong(why),
        };
        let took = start.elapsed().as_secs_f64();
        match (verdict, case.refused) {
            (Verdict::Right(said), None) => println!("{}: right, {said} ({took:.1} s)", case.name),
            (Verdict::Refused { label, line }, Some(filter)) => {
                let marked = case.text.lines().position(|line| line.contains("//!")).map(|at| at + 1);
                if !label.contains(filter) || marked != Some(line) {
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
fn derived(case: &Case) -> clk_derive::Derived {
    let problem = harness::problem(case.text, case.extents, case.arguments, case.range).expect("a kernel");
    let active = clk_derive::can_be_active(&problem.module);
    let launches = clk_derive::DerivativeLaunches::for_extents(&problem.module, case.extents);
    clk_derive::reverse_mode(&problem.module, &active, &launches).expect("a derivative")
}

/// If a kernel reads elements at constant offsets from the thread's indices, their adjoint is computed by a gather
/// without atomics.
#[test]
fn stencils() {
    run(outlined_adjoints::GATHERED);
    for case in outlined_adjoints::GATHERED {
        let derived = derived(case);
        assert!(!derived.gathers.is_empty(), "{}: nothing is gathered", case.name);
        for gather in &derived.gathers {
            assert!(!text::print(&gather.module).contains("atomic"), "{}", case.name);
        }
    }
}

/// Values that stay in shared memory or in a thread's array until the end of a kernel are not recorded on a tape.
#[test]
fn unchanged_memory_is_not_recorded() {
    let records =
        |case: &Case| derived(case).params.iter().any(|role| matches!(role, clk_derive::DerivedParamRole::Tape(_)));
    run(loop_memory::UNRECORDED);
    loop_memory::UNRECORDED.iter().for_each(|case| assert!(!records(case), "{}: there is a tape", case.name));
    run(loop_memory::OVERWRITTEN);
    loop_memory::OVERWRITTEN.iter().for_each(|case| assert!(records(case), "{}: there is no tape", case.name));
}

/// If all threads of a kernel read an element, its adjoint is computed as a sum over the threads.
#[test]
fn sums_over_all_threads() {
    run(outlined_adjoints::SUMMED);
    for case in outlined_adjoints::SUMMED {
        let derived = derived(case);
        let totals = derived.reduction.expect("sums");
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
fn kernels_with_barriers() {
    run(cases::MEETING);
}

/// Each entry: a number of blocks, a kernel, and how many atomic additions to adjoints and atomic exchanges its
/// derivative must have.
const ATOMICS: &[(u32, &str, usize, usize)] = &[
    (1, "x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i] }", 0, 0),
    // Gathered.
    (1, "x: [f32; N + 1], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i + 1] }", 0, 0),
    (1, "x: [f32; N], out y: [f32; M]) threads(i: M) { y[i] = x[i / 2] }", 1, 0),
    (1, "x: [f32; M, N], out y: [f32; M]) threads(i: M) { for j in 0..N { y[i] = x[i, j] * x[i, N - 1 - j] } }", 0, 0),
    (1, "x: [f32; M, N], out y: [f32; M]) threads(i: M) { for j in 0..N { y[i] = x[i, j] * x[j, i] } }", 2, 0),
    // Indices from memory may be equal for two threads, even if an `assume` clause that is not tested says that they
    // are distinct.
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
    // The barrier separates the two reads of threads in one block, but not those of threads in two blocks.
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
    // Each thread has its own tape, like a local array, so recording needs no atomics.
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
fn only_shared_adjoints_are_added_atomically() {
    for (blocks, text, additions, exchanges) in ATOMICS {
        let counts = harness::atomics(&format!("kernel k({text}"), *blocks);
        assert_eq!(counts, (*additions, *exchanges), "{text}");
    }
}

/// Programs for which other systems once computed wrong gradients.
#[test]
fn known_mistakes() {
    run(cases::MISTAKES);
}

#[test]
fn refused_derivatives() {
    run(cases::REFUSED);
}

/// Derivatives of kernels are kernels, which can themselves be differentiated in both modes.
#[test]
fn derivatives_of_derivatives() {
    let (mut right, mut refused, mut failures) = (0, 0, vec![]);
    let plain =
        cases::TWICE.iter().chain(cases::PLAIN).chain(outlined_adjoints::GATHERED).chain(outlined_adjoints::SUMMED);
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
