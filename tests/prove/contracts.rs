//! Proofs that rest on `assume`: each case has the verdicts with it, and what it must not prove.

use std::fmt::Write;

use super::{letters, report};

/// Verdicts (`P` counts as `p`), and the rest of a kernel.
const CASES: &[(&str, &str)] = &[
    // Conditions on dimensions and scalar parameters.
    ("ppppp", "(x: [f32; N, M], out y: [f32; N]) threads(i: N) assume M >= 1 { y[i] = x[i, M - 1] }"),
    ("rpppp", "(x: [f32; N, M], out y: [f32; N]) threads(i: N) assume M >= 0 { y[i] = x[i, M - 1] }"),
    ("ppppp", "(x: [f32; N], k: i32, out y: [f32; M]) threads(i: M) assume k >= 0 && k < N { y[i] = x[k] }"),
    ("rpppp", "(x: [f32; N], k: i32, out y: [f32; M]) threads(i: M) assume k >= 0 || k < N { y[i] = x[k] }"),
    ("ppppp", "(x: [f32; N], k: i32, out y: [f32; M]) threads(i: M) assume !(k < 0 || k >= N) { y[i] = x[k] }"),
    ("ppppp", "(x: [f32; N], k: u32, out y: [f32; M]) threads(i: M) assume k < 8u32, N >= 8 { y[i] = x[i32(k)] }"),
    (
        "ppppp",
        "(d: i32, k: i32, x: [f32; K], out y: [f32; M]) threads(i: M) assume d > 0 && k >= 2 * d, K >= k { y[i] = x[d] }",
    ),
    // A product that the type does not hold is not small.
    ("rpppp", "(a: i32, x: [f32; N], out y: [f32; M]) threads(i: M) assume a * a >= 0, N > 0 { y[i] = x[a] }"),
    ("ppppp", "(x: [f32; N], out y: [f32; M]) threads(i: M) assume N % 4 == 0, N > 0 { y[i] = x[3] }"),
    // A remainder that is only tested sometimes says nothing of the rest.
    ("rpppp", "(x: [f32; N], out y: [f32; M]) threads(i: M) assume N > 3 || N % 4 == 1 { y[i] = x[3] }"),
    // Elements in a range.
    (
        "prppp",
        "(x: [f32; N], at: [i32; M], out z: [i32; M], inout y: [f32; N]) threads(i: M)
        assume all(at >= 0), all(at < N) { y[at[i]] = 1.0; z[i] = i }",
    ),
    (
        "ppppp",
        "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
        assume all(0 <= at && N > at) { y[i] = x[at[i]] }",
    ),
    (
        "rpppp",
        "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
        assume all(at >= 0), all(at <= N) { y[i] = x[at[i]] }",
    ),
    (
        "rpppp",
        "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M)
        assume all(at < N) { y[i] = x[at[i]] }",
    ),
    ("ppppp", "(x: [f32; N], at: [u8; M], out y: [f32; M]) threads(i: M) assume N >= 256 { y[i] = x[i32(at[i])] }"),
    (".pppp", "(x: [f32; N], at: [i8; M], out y: [f32; M]) threads(i: M) assume N >= 256 { y[i] = x[i32(at[i])] }"),
    (
        "ppppp",
        "(x: [f32; N], at: [i32; M, 2], out y: [f32; M]) threads(i: M)
        assume all(at >= 0), all(at < N) { y[i] = x[at[i, 0]] + x[at[i, 1]] }",
    ),
    (
        "ppppp",
        "<T: Int>(x: [f32; N], at: [T; M], out y: [f32; M]) threads(i: M)
        assume all(at >= 0), all(at < N) { y[i] = x[i32(at[i])] }",
    ),
    // An array without elements promises nothing of sizes.
    (
        "rpppp",
        "(at: [i32; M], x: [f32; N], out y: [f32; 1]) threads(i: 1)
        assume all(at >= 0), all(at < N)
    {
        var j = 0
        if M > 0 { j = at[0] }
        y[0] = x[j]
    }",
    ),
    (
        "rpppp",
        "(at: [i32; M], x: [f32; N], out y: [f32; 1]) threads(i: 1)
        assume permutation(at)
    {
        var j = 0
        if M > 5 { j = at[0] }
        y[0] = x[j]
    }",
    ),
    // Of an array that the kernel writes, nothing is known later.
    (
        "rpppp",
        "(inout at: [i32; N], x: [f32; N], out y: [f32; N]) threads(i: N)
        assume permutation(at)
    {
        at[i] -= 2
        y[i] = x[at[i]]
    }",
    ),
    // A copy that is changed.
    (
        "rpppp",
        "(at: [i32; N], x: [f32; N], out y: [f32; N]) threads(i: N)
        assume permutation(at)
    {
        var k = at[i]
        k += 1
        y[i] = x[k]
    }",
    ),
    // Rows that start where those before them end.
    (
        "pprpp",
        "(starts: [i32; R + 1], out y: [f32; NZ]) threads(row: R)
        assume all(starts >= 0), all(starts <= NZ), ascending(starts)
    { for k in starts[row]..starts[row + 1] { y[k] = 1.0 } }",
    ),
    (
        "prppp",
        "(starts: [i32; R + 1], inout y: [f32; NZ], out z: [i32; R]) threads(row: R)
        assume all(starts >= 0), all(starts <= NZ)
    { for k in starts[row]..starts[row + 1] { y[k] = 1.0 }; z[row] = 0 }",
    ),
    (
        "prppp",
        "(starts: [i32; R + 1], inout y: [f32; NZ], out z: [i32; R]) threads(row: R)
        assume all(starts >= 0), all(starts < NZ), ascending(starts)
    { for k in starts[row]..=starts[row + 1] { y[k] = 1.0 }; z[row] = 0 }",
    ),
    // That they ascend says nothing of where they end.
    (
        "rpppp",
        "(starts: [i32; R + 1], inout y: [f32; NZ], out z: [i32; R]) threads(row: R)
        assume all(starts >= 0), ascending(starts)
    { for k in starts[row]..starts[row + 1] { y[k] = 1.0 }; z[row] = 0 }",
    ),
    // Distinct places.
    ("ppppp", "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(at) { y[at[i]] = x[i] }"),
    (
        "ppppp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(at) { y[at[at[i]]] = x[i] }",
    ),
    (
        "prrpp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(at) { y[at[i] / 2] = x[i] }",
    ),
    (
        "prrpp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(at) { y[at[i / 2]] = x[i] }",
    ),
    (
        "pp.pp",
        "(x: [f32; N], at: [i32; N], out y: [f32; M]) threads(i: N)
        assume distinct(at), all(at >= 0), all(at < M) { y[at[i]] = x[i] }",
    ),
    ("rprpp", "(x: [f32; N], at: [i32; N], out y: [f32; M]) threads(i: N) assume permutation(at) { y[at[i]] = x[i] }"),
    ("rp.pp", "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume distinct(at) { y[at[i]] = x[i] }"),
    (
        "ppppp",
        "(x: [f32; N, M], at: [i32; N], to: [i32; M], out y: [f32; N, M]) threads(i: N, j: M)
        assume permutation(at), permutation(to) { y[at[i], to[j]] = x[i, j] }",
    ),
    (
        "ppppp",
        "(x: [f32; N], at: [i32; M], out y: [f32; N]) threads(i: M) assume permutation(at), M == N { y[at[i]] = x[i] }",
    ),
    (
        "pprpp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(at) { if i > 0 { y[at[i]] = x[i] } }",
    ),
    (
        "pprpp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(at) { if at[i] != 3 { y[at[i]] = x[i] } }",
    ),
    (
        "ppppp",
        "(x: [f32; N], at: [u8; N], out y: [f32; N]) threads(i: N) assume permutation(at) { y[i32(at[N - 1 - i])] = x[i] }",
    ),
    // Elements of one array, not of two.
    (
        "pr.pp",
        "(a: [i32; N], b: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(a), permutation(b)
        { if i % 2 == 0 { y[a[i]] = 1.0 } else { y[b[i]] = 2.0 } }",
    ),
    (
        "ppppp",
        "(a: [i32; N], out y: [f32; N]) threads(i: N) assume permutation(a)
        { if i % 2 == 0 { y[a[i]] = 1.0 } else { y[a[i]] = 2.0 } }",
    ),
    // Between the blocks of a grid, and within each.
    (
        "ppppp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) assume permutation(at) {
        let i = global_idx.x
        if i < N { y[at[i]] = x[i] }
    }",
    ),
    // An element read twice is the same; two elements need not be.
    (
        "ppppp",
        "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M) {
        y[i] = if at[i] >= 0 && at[i] < N { x[at[i]] } else { 0.0 }
    }",
    ),
    (
        ".pppp",
        "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M) {
        y[i] = if at[0] >= 0 && at[0] < N { x[at[i]] } else { 0.0 }
    }",
    ),
];

#[test]
fn verdicts_with_contracts() {
    let mut wrong = String::new();
    for (expected, kernel) in CASES {
        let report = report(&format!("kernel k{kernel}"));
        // The order of threads is another matter.
        let found = letters(&report)[..5].replace('P', "p");
        if found != *expected {
            let _ = writeln!(wrong, "{expected} expected, {found} found: {kernel}\n{:?}", report.verdicts);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_proof_names_what_it_rests_on() {
    let report = report("kernel k(x: [f32; N], out y: [f32; 1]) threads(i: 1) assume N > 0, N < 9 { y[i] = x[N - 1] }");
    assert_eq!(report.assuming.len(), 2);
}

#[test]
fn contradictory_assumptions_prove_nothing() {
    for clauses in ["N > 3, N < 3", "k > 0 && k < 0", "M == 2 * N, M % 2 == 1"] {
        let report = report(&format!(
            "kernel k(x: [f32; N], k: i32, out y: [f32; M]) threads(i: M) assume {clauses} {{ y[i] = x[i + 1] }}"
        ));
        assert_eq!(letters(&report), "......", "{clauses}");
    }
}

/// What a promise would prove is offered, where nothing is promised yet.
#[test]
fn promises_are_offered() {
    let cases = [
        ("all(at >= 0 && at < N)", "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M) { y[i] = x[at[i]] }"),
        (
            "all(at >= 0 && at < N)",
            "(x: [f32; N], at: [i8; M], out y: [f32; M]) threads(i: M) assume N > 127 { y[i] = x[i32(at[i])] }",
        ),
        (
            "distinct(at)",
            "(at: [i32; M], inout y: [f32; N]) threads(i: M) assume all(at >= 0), all(at < N) { y[at[i]] += 1.0 }",
        ),
    ];
    for (offer, kernel) in cases {
        let report = report(&format!("kernel k{kernel}"));
        let text = format!("{:?}", report.verdicts);
        assert!(text.contains(&format!("`assume {offer}`")), "{text}");
    }
    let report = report("kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i + 1] }");
    assert!(!format!("{:?}", report.verdicts).contains("assume"));
}
