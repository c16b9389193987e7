//! Tests proofs that no thread fails an `assert`.

use clk_prove::{ProofReport, Property, prove_kernel};

use super::{compiled, kernels};

fn report(text: &str) -> ProofReport {
    let session = compiled("assertions", text).unwrap_or_else(|| panic!("does not compile: {text}"));
    let (id, _) = kernels(&session).remove(0);
    prove_kernel(&session.program, id)
}

fn verdict(body: &str) -> &'static str {
    let text = format!(
        "kernel f(x: [i32; N], inout y: [i32; N], n: i32) grid(ceil_div(N, 64)) block(64) assume n < 100 {{\n\
         let i = global_idx.x\n{body}\n}}\n"
    );
    report(&text).verdict(Property::Assertions).map_or("none", |verdict| verdict.word())
}

#[test]
fn assertions_follow_from_guards() {
    assert_eq!(verdict("if i < N { assert(i < N) }"), "proved");
    assert_eq!(verdict("assert(n < 200)"), "proved");
    assert_eq!(verdict("for k in 0..n { assert(k < 100) }"), "proved");
    assert_eq!(verdict("if n > 100 { assert(false) }"), "proved");
    assert_eq!(verdict("assert(n < 50)\nassert(n < 60)"), "refuted", "by the first one");
}

#[test]
fn assertions_fail_at_some_sizes() {
    assert_eq!(verdict("assert(i < N)"), "refuted");
    assert_eq!(verdict("assert(i != 70)"), "refuted");
    assert_eq!(verdict("for k in 0..n { assert(k != 7) }"), "refuted");
    assert_eq!(verdict("assert(false)"), "refuted");
    assert_eq!(verdict("if i < N { if x[i] == 3 { assert(false) } }"), "refuted", "by the contents of an array");
}

#[test]
fn assertions_may_depend_on_memory_that_changes() {
    let body = "if i < N { y[i] = 1 }\nbarrier()\nif i < N { assert(y[i] == 1) }";
    assert_eq!(verdict(body), "unknown");
}

#[test]
fn kernels_without_assertions_have_no_verdict_about_them() {
    assert_eq!(verdict("if i < N { y[i] = 1 }"), "none");
}
