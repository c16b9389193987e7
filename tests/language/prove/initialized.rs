//! Tests the property that no element of a shared array is read before it is written.

use super::{compiled, kernels, letter};
use clk_prove::{ProofVerdict, Property, prove_kernel};

/// Returns the verdict on a kernel with blocks of 64 threads, and the line of the read if it is refuted.
fn verdict(body: &str) -> (char, usize) {
    let text = format!("kernel f(x: [f32; N], n: i32, out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {{\n{body}\n}}");
    let session = compiled("case.clk", &text).unwrap_or_else(|| panic!("no program: {text}"));
    let (id, _) = kernels(&session)[0];
    let report = prove_kernel(&session.program, id);
    let line = match report.verdict(Property::Initialized) {
        Some(ProofVerdict::Refuted { found, .. }) => found.primary().map(|span| session.sources.line_column(span).0),
        Some(ProofVerdict::Unknown { why, .. }) => {
            println!("{why}");
            None
        }
        _ => None,
    };
    (letter(&report, Property::Initialized), line.unwrap_or(0))
}

const START: &str = "let (t, i) = (thread_idx.x, global_idx.x)";

#[track_caller]
fn assert_proved(body: &str) {
    assert_eq!(verdict(&format!("{START}\n{body}")).0, 'p', "{body}");
}

/// Asserts that the kernel is refuted at the line of the body, from 1.
#[track_caller]
fn assert_refuted(line: usize, body: &str) {
    assert_eq!(verdict(&format!("{START}\n{body}")), ('r', line + 2), "{body}");
}

#[test]
fn kernels_without_shared_reads_have_no_verdict() {
    assert_eq!(verdict("let i = global_idx.x\nif i < N { y[i] = x[i] }").0, '?');
}

#[test]
fn tiles_and_halos_are_initialized() {
    assert_proved("shared s: [f32; 64]\ns[t] = 1.0\nbarrier()\nif i < N { y[i] = s[63 - t] }");
    assert_refuted(4, "shared s: [f32; 64]\nif t < 63 { s[t] = 1.0 }\nbarrier()\nif i < N { y[i] = s[63 - t] }");
    let halo = |left: &str| {
        format!(
            "shared s: [f32; 70]\ns[t + 3] = 1.0\nif t < {left} {{ s[t] = 2.0\ns[t + 67] = 3.0 }}\nbarrier()
            var sum = 0.0\nfor k in 0..=6 {{ sum += s[t + k] }}\nif i < N {{ y[i] = sum }}"
        )
    };
    assert_proved(&halo("3"));
    assert_refuted(7, &halo("2"));
    let strided = |count: i32| {
        format!(
            "shared s: [f32; 256]\nfor k in t..{count} step 64 {{ s[k] = 1.0 }}\nbarrier()
            var sum = 0.0\nfor k in 0..4 {{ sum += s[64 * k + 63 - t] }}\nif i < N {{ y[i] = sum }}"
        )
    };
    assert_proved(&strided(256));
    assert_refuted(5, &strided(255));
}

#[test]
fn single_threads_write() {
    let halo = |last: i32| {
        format!(
            "shared s: [f32; 66]\ns[t + 1] = 1.0\nif t == 0 {{ s[0] = 2.0 }}\nif t == {last} {{ s[65] = 3.0 }}\nbarrier()
            if i < N {{ y[i] = s[t] + s[t + 2] }}"
        )
    };
    assert_proved(&halo(63));
    assert_refuted(6, &halo(64));
}

#[test]
fn threads_read_their_own_elements() {
    let own = |guard: &str| {
        format!(
            "shared s: [f32; 64]\nif i < N && x[i] > 0.0 {{ if {guard} {{ s[63 - t] = 1.0 }}
            y[i] = s[63 - t] }}"
        )
    };
    assert_proved(&own("true"));
    assert_refuted(3, &own("t > 0"));
}

#[test]
fn guards_of_the_write_and_of_the_read_are_compared() {
    assert_proved("shared s: [f32; 64]\nif i < N { s[t] = x[i] }\nbarrier()\nif i < N { y[i] = s[t] }");
    assert_refuted(4, "shared s: [f32; 64]\nif i < N { s[t] = x[i] }\nbarrier()\nif i < N { y[i] = s[63 - t] }");
    assert_proved(
        "shared s: [f32; 64]\nif block_idx.x < n { s[t] = 1.0 }\nbarrier()\nif block_idx.x < n && i < N { y[i] = s[63 - t] }",
    );
    assert_refuted(
        4,
        "shared s: [f32; 64]\nif block_idx.x < n { s[t] = 1.0 }\nbarrier()\nif block_idx.x <= n && i < N { y[i] = s[63 - t] }",
    );
}

#[test]
fn loops_write_before_they_read() {
    let tiles = |guard: &str| {
        format!(
            "shared s: [f32; 64]\nvar sum = 0.0\nfor k in 0..n {{
                if {guard} {{ s[t] = 1.0 }}\nbarrier()\nsum += s[63 - t]\nbarrier()
            }}\nif i < N {{ y[i] = sum }}"
        )
    };
    assert_proved(&tiles("true"));
    assert_proved(&tiles("k < n"));
    assert_refuted(6, &tiles("k > 0"));
    // The tile for the next iteration is loaded into the other half.
    let halves = |first: &str| {
        format!(
            "shared s: [f32; 2, 64]\nvar sum = 0.0\n{first}\nbarrier()\nfor k in 0..n {{
                sum += s[k % 2, 63 - t]\nif k + 1 < n {{ s[(k + 1) % 2, t] = 2.0 }}\nbarrier()
            }}\nif i < N {{ y[i] = sum }}"
        )
    };
    assert_proved(&halves("s[0, t] = 1.0"));
    assert_refuted(6, &halves("s[1, t] = 1.0"));
    let tree = |first: &str| {
        format!(
            "shared s: [f32; 64]\n{first}\nbarrier()\nvar d = 32\nwhile d > 0 {{
                if t < d {{ s[t] += s[t + d] }}\nbarrier()\nd /= 2
            }}\nif i < N {{ y[i] = s[0] }}"
        )
    };
    assert_proved(&tree("s[t] = 1.0"));
    assert_refuted(6, &tree("if t < 32 { s[t] = 1.0 }"));
}

#[test]
fn atomics_read() {
    let count = |first: &str| {
        format!(
            "shared c: [i32; 1]\n{first}\nbarrier()\natomic_add(c[0], 1)\nbarrier()\nif i < N {{ y[i] = f32(c[0]) }}"
        )
    };
    assert_proved(&count("if t == 0 { c[0] = 0 }"));
    assert_refuted(4, &count(""));
}

#[test]
fn reads_without_barriers_are_not_proved() {
    let body = format!("{START}\nshared s: [f32; 64]\ns[t] = 1.0\nif i < N {{ y[i] = s[63 - t] }}");
    assert_ne!(verdict(&body).0, 'p');
    // The index of a write after a loop that may end early is not any iteration of the loop.
    let body = format!(
        "{START}\nshared s: [f32; 64]\nvar at = 0
        while at < n {{ s[0] = 1.0\nat += 1 }}\ns[at] = 1.0\nbarrier()\nif i < N {{ y[i] = s[t] }}"
    );
    assert_ne!(verdict(&body).0, 'p');
}
