//! Tests proofs that rely on `assume` clauses. Each case has the expected verdicts; properties that do not follow from
//! its clauses must not be proved.

use std::fmt::Write;

use super::{letters, report};

/// Expected verdicts (a verdict `P`, which holds for limited sizes, matches `p`), and the text of the kernel after its
/// name.
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
    // `a * a >= 0` does not bound `a`.
    ("rpppp", "(a: i32, x: [f32; N], out y: [f32; M]) threads(i: M) assume a * a >= 0, N > 0 { y[i] = x[a] }"),
    ("ppppp", "(x: [f32; N], out y: [f32; M]) threads(i: M) assume N % 4 == 0, N > 0 { y[i] = x[3] }"),
    // A remainder in one operand of `||` proves nothing if only the other operand holds.
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
    // An `assume` clause about the elements of an array implies nothing about sizes, since the array may be empty.
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
    // Nothing is known about an array after the kernel writes it.
    (
        "rpppp",
        "(inout at: [i32; N], x: [f32; N], out y: [f32; N]) threads(i: N)
        assume permutation(at)
    {
        at[i] -= 2
        y[i] = x[at[i]]
    }",
    ),
    // A modified copy.
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
    // Each row of a sparse matrix starts where the previous one ends.
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
    // `ascending` does not bound the last element.
    (
        "rpppp",
        "(starts: [i32; R + 1], inout y: [f32; NZ], out z: [i32; R]) threads(row: R)
        assume all(starts >= 0), ascending(starts)
    { for k in starts[row]..starts[row + 1] { y[k] = 1.0 }; z[row] = 0 }",
    ),
    // Distinct indices.
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
    // The elements of one permutation are distinct, but those of two permutations may be equal.
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
    // The elements of a permutation are distinct between the blocks of a grid, and within each block.
    (
        "ppppp",
        "(x: [f32; N], at: [i32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) assume permutation(at) {
        let i = global_idx.x
        if i < N { y[at[i]] = x[i] }
    }",
    ),
    // An element has the same value if it is read twice, but two elements may differ.
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
        // Drops the sixth verdict, on the order of threads.
        let actual = letters(&report)[..5].replace('P', "p");
        if actual != *expected {
            let _ = writeln!(wrong, "{expected} expected, {actual} found: {kernel}\n{:?}", report.verdicts);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn proofs_name_their_assumptions() {
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

/// If an `assume` clause would complete a proof, the report suggests it.
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
