//! Tests how `clk test` checks contracts (`expect` clauses) that `clk check` cannot prove, with launches that satisfy
//! and that violate them. Also tests the reports about faults that only occur in launches larger than those of a run.

use std::fs;

use clk_testing::{RunOutput, diagnostics, run};

/// Runs `clk` in a folder with a file `k.clk` that contains this text.
fn ran(text: &str, words: &[&str]) -> RunOutput {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("k.clk"), text).expect("written");
    run(folder.path(), words)
}

fn tested(text: &str, options: &[&str]) -> RunOutput {
    ran(text, &[&["test", "k.clk"], options].concat())
}

/// Each case: a contract, a kernel for which it is not proved, a launch that satisfies it, a launch that violates it,
/// and parts of the error for the latter.
const CASES: [(&str, &str, &str, &str, &[&str]); 10] = [
    (
        "in_bounds",
        "kernel k(at: [i32; N], inout y: [i32; 8]) threads(i: N) expect in_bounds { y[at[i]] = i }",
        "var y = zeros(8, type = i32); k([3, 1], y); assert(y[3] == 0)",
        "var y = zeros(8, type = i32); k([3, 8], y)",
        &["index 8 is out of bounds", "the thread of index 1 writes `y[8]`"],
    ),
    (
        "race_free",
        "kernel k(at: [i32; N], inout y: [i32; 8]) threads(i: N) expect race_free { y[at[i]] = i }",
        "var y = zeros(8, type = i32); k([3, 1], y); assert(y[3] == 0)",
        "var y = zeros(8, type = i32); k([3, 3], y)",
        &["a data race on `y[3]`", "the thread of index 0 writes 0"],
    ),
    (
        "written",
        "kernel k(at: [i32; N], out y: [i32; N]) threads(i: N) expect written { if at[i] >= 0 { y[at[i]] = i } }",
        "assert(k([1, 0]) == [1, 0])",
        "print(k([1, 0, -1])[0])",
        &["were not written: y[2]"],
    ),
    (
        "barriers",
        "kernel k(x: [i32; 64], inout y: [i32; 1]) grid(1) block(64) expect barriers {
            if x[thread_idx.x] > 0 { barrier() }
            if thread_idx.x == 0 { y[0] = 1 }
        }",
        "var y = [0]; k(zeros(64, type = i32), y); assert(y[0] == 1)",
        "var y = [0]; k(arange(64), y)",
        &["only 63 of 64 threads reach `barrier`"],
    ),
    (
        "any_order",
        "kernel k(x: [f32; N], inout y: [f32; 1]) threads(i: N) expect any_order {
            if x[i] > 0.5 { atomic_exchange(y[0], x[i]) }
        }",
        "var y = [0.0]; k([0.75, 0.75], y); assert(y[0] == 0.75)",
        "var y = [0.0]; k([0.75, 1.0], y)",
        &["`y` depends on the order", "`y[0]` is 1.0 if the first block"],
    ),
    (
        "bank_ways <= 2",
        "kernel k(at: [i32; 32], out y: [f32; 32]) grid(1) block(32) expect bank_ways <= 2 {
            shared s: [f32; 1024]
            for i in 0..32 { s[32 * i + thread_idx.x] = 1.0 }
            barrier()
            y[thread_idx.x] = s[clamp(at[thread_idx.x], 0, 1023)]
        }",
        "assert(k(2 * arange(32))[3] == 1.0)",
        "print(k(32 * arange(32))[3])",
        &["a warp takes 32 passes for an access to `s`", "thread 1 of block 0 `s[32]`, in bank 0", "32 threads of the warp"],
    ),
    (
        "sectors <= 4",
        "kernel k(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M) assume all(at >= 0), all(at < N) expect sectors <= 4 {
            y[i] = x[at[i]]
        }",
        "assert(k(zeros(64), 63 - arange(64))[3] == 0.0)",
        "print(k(zeros(4096), arange(64) * 64)[3])",
        &["a warp touches 32 sectors of `x`", "the thread of index 1 `x[64]`", "would fit 4 sectors"],
    ),
    (
        "max_ulp <= 1",
        "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) expect max_ulp <= 1 { y[i] = (1.0 + x[i]) - 1.0 }",
        "assert(k([0.5, 0.25])[1] == 0.25)",
        "print(k([0.5, 1e-8])[0])",
        &["`y[1]` is 0.0, and in `f64` it is 9.", "units in the last place of `f32`", "1 of 2 floats is further than 1 unit from"],
    ),
    (
        "max_ulp <= 0",
        "struct P { a: f16, n: i32 }
        kernel k<T: Float>(x: [T; N], inout y: [P; N, 2], by: T) threads(i: N) expect max_ulp <= 0 {
            y[i, 1].a = f16(x[i] * by)
            y[i, 0].n += 1
        }",
        "var y = [[P { a: f16(1.0), n: 1 }, P { a: f16(2.0), n: 2 }]]; k([f16(1.5)], y, f16(3.0)); assert(y[0, 1].a == 4.5 && y[0, 0].n == 2)",
        "var y = [[P { a: f16(1.0), n: 1 }, P { a: f16(2.0), n: 2 }]]; k([1.0], y, 0.1)",
        &["`y[0, 1].a` is 0.1, and in `f64` it is 0.1", "of `f16`"],
    ),
    (
        "max_ulp <= 4",
        "kernel k(x: [f32; N], inout y: [f32; 1]) threads(i: N) expect max_ulp <= 4 { atomic_add(y[0], x[i]) }",
        "var y = [0.0]; k(zeros(1000) + 1.0, y); assert(y[0] == 1000.0)",
        "var y = [0.0]; k(zeros(100000) + 0.1, y)",
        &["`y[0]` is", "units in the last place of `f32`"],
    ),
];

/// `max_ulp` contracts compare a kernel with its `f64` shadow, the same computation in `f64`. A kernel that has no
/// shadow is not tested, and a kernel in `f64` is its own shadow.
#[test]
fn f64_shadows_bound_the_error() {
    let bits = "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) expect max_ulp <= 1 {
        y[i] = bitcast(f32, bitcast(u32, x[i]) + 1u32)
    }
    test \"bits\" { assert(k([1.0])[0] > 1.0) }";
    let ran = tested(bits, &[]);
    assert!(ran.code == 0 && ran.err.contains("W0610"), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("it has no `f64` shadow: a float"), "{}", ran.err);
    let wide = "kernel k(x: [f64; N], out y: [f64; N]) threads(i: N) expect max_ulp <= 0 { y[i] = (1.0 + x[i]) - 1.0 }
    test \"wide\" { assert(k([1e-20])[0] == 0.0) }";
    let ran = tested(wide, &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    // `clk check` reports nothing.
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("k.clk"), wide).expect("written");
    let ran = run(folder.path(), &["check", "k.clk"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
}

#[test]
fn tests_fail_if_contracts_are_violated() {
    for (contract, kernel, good, bad, parts) in CASES {
        let ran = tested(&format!("{kernel}\ntest \"good\" {{ {good} }}\n"), &[]);
        assert!(ran.code == 0 && !ran.err.contains("E0618") && !ran.err.contains("W0610"), "{contract}: {}", ran.err);
        let ran = tested(&format!("{kernel}\ntest \"good\" {{ {good} }}\ntest \"bad\" {{ {bad} }}\n"), &[]);
        assert_eq!(ran.code, 1, "{contract}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("1 passed, 1 failed"), "{contract}: {}", ran.out);
        let text = ran.err.split(|c: char| c.is_whitespace() || "│╰╭─╯┬".contains(c)).filter(|w| !w.is_empty());
        let text = text.collect::<Vec<_>>().join(" ");
        let title = format!("error[E0618]: `k` violates `expect {contract}`");
        for part in [&[title.as_str(), "launched here"][..], parts].concat() {
            assert!(text.contains(part), "{contract}: {part}: {}", ran.err);
        }
        // Contracts are also tested if `--no-check` turns off all other checks, and with one worker.
        for options in [&["--no-check"][..], &["--workers", "1"]] {
            let ran = tested(&format!("{kernel}\ntest \"bad\" {{ {bad} }}\n"), options);
            assert!(ran.code == 1 && ran.err.contains("E0618"), "{contract} {options:?}: {}", ran.err);
        }
        // If no test launches the kernel, a warning says that the contract was not tested.
        let ran = tested(kernel, &[]);
        assert_eq!(ran.code, 0, "{contract}: {}", ran.err);
        let status = if contract.starts_with("max_ulp") { "not tested" } else { "neither proved nor tested" };
        let title = format!("warning[W0610]: `expect {contract}` of `k` is {status}");
        assert!(ran.err.contains(&title), "{contract}: {}", ran.err);
    }
}

/// A proved contract is not tested, unless a launch overrides the geometry of the signature. A launch that ends in a
/// fault does not test the contract.
#[test]
fn proved_contracts_are_not_tested() {
    let kernel =
        "kernel k(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 32)) block(32) expect sectors <= 4, in_bounds {
        if global_idx.x < N { y[global_idx.x] = x[global_idx.x] }
    }";
    let ran = tested(kernel, &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let whole = format!("{kernel}\ntest \"a launch\" {{ assert(k(zeros(64))[1] == 0.0) }}\n");
    assert_eq!(tested(&whole, &[]).code, 0);
    let other = "kernel k(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 32)) block(32) expect sectors <= 4 {
        let i = block_idx.x * 32 + thread_idx.y
        if i < N && thread_idx.x == 0 { y[i] = x[i] }
    }";
    let passing = format!(
        "{other}\ntest \"given\" {{ var y = zeros(512); k<<<16, (1, 32)>>>(zeros(512), y); assert(y[1] == 0.0) }}\n"
    );
    assert_eq!(tested(&passing, &[]).code, 0, "{}", tested(&passing, &[]).err);
    let bad = other.replace("thread_idx.y", "16 * thread_idx.y % 512").replace("block_idx.x * 32 + ", "");
    let failing = format!("{bad}\ntest \"given\" {{ var y = zeros(512); k<<<1, (1, 32)>>>(zeros(512), y) }}\n");
    let ran = tested(&failing, &["--json"]);
    let codes: Vec<String> = diagnostics(&ran).iter().map(|d| d["code"].as_str().unwrap_or("").to_string()).collect();
    assert_eq!(codes, ["E0618"], "{}{}", ran.out, ran.err);
    let stopped = "kernel k(at: [i32; N], inout y: [i32; 8]) threads(i: N) expect race_free { y[at[i]] = 1 / at[i] }
        test \"stopped\" { var y = zeros(8, type = i32); k([0], y) }";
    let ran = tested(stopped, &[]);
    assert!(ran.err.contains("E0602") && ran.err.contains("W0610"), "{}", ran.err);
    assert!(ran.err.contains("did not test it: 1 is divided by zero"), "{}", ran.err);
}

/// An integer overflow does not violate `expect no_overflow` if it affects only stored values.
#[test]
fn overflow_from_data_does_not_violate_contracts() {
    let kernel = "kernel k(x: [i32; N], inout y: [i32; N]) threads(i: N) expect no_overflow { y[i] = x[i] * x[i]
        if x[i] * 2 > 5 { y[i] = 0 } }";
    let launch = |x: i32| format!("{kernel}\ntest \"t\" {{ var y = [0]; k([{x}], y) }}\n");
    assert_eq!(tested(&launch(3), &[]).code, 0);
    // The overflow of `x[i] * x[i]` is a fault in checked launches, but does not violate the contract.
    let ran = tested(&launch(50_000), &["--no-check"]);
    assert!(!ran.err.contains("E0618"), "{}", ran.err);
    let ran = tested(&launch(2_000_000_000).replace("x[i] * x[i]", "0"), &["--no-check"]);
    assert!(ran.code == 1 && ran.err.contains("E0618") && ran.err.contains("does not fit `i32`"), "{}", ran.err);
}

/// Contracts are also tested in launches that compute gradients.
#[test]
fn launches_of_gradients_are_tested() {
    let kernel = "kernel k(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M) expect in_bounds, sectors <= 4 { y[i] = x[at[i]] }
        fn f(x: [f32; N], at: [i32; M]) -> f32 { sum(k(x, at)) }";
    let test = |at: &str| format!("{kernel}\ntest \"t\" {{ assert(grad(f)(zeros(2048), {at})[0] == 1.0) }}\n");
    let ran = tested(&test("arange(32)"), &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    let ran = tested(&test("arange(32) * 64"), &[]);
    assert!(ran.code == 1 && ran.err.contains("`k` violates `expect sectors <= 4`"), "{}{}", ran.out, ran.err);
}

/// Runs a program with `--check`; returns the codes of its warnings and notes, and its output.
fn checked(text: &str) -> (Vec<String>, String) {
    let ran = ran(text, &["run", "--check", "k.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let code = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_string());
    let codes =
        ran.err.lines().filter(|line| line.starts_with("warning[") || line.starts_with("note[")).filter_map(code);
    (codes.collect(), ran.err.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Programs whose launches are too small to show the fault of a kernel. A proof at the end of the run finds the fault;
/// each program is listed with the codes and a part of its report.
#[test]
fn contracts_beyond_small_launches_are_proved() {
    let scale = "kernel scale(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) { let i = global_idx.x;";
    let cases = [
        (format!("{scale} y[i] = x[i] }}\nlet _ = scale(ones(64))"), vec!["W0611"], "had at most one block; one with N = 1 has it (E0601)"),
        (format!("{scale} if i < N {{ y[i] = x[i] }} }}\nlet _ = scale(ones(64))"), vec![], ""),
        // The second launch of this run is large enough to have the fault, so no proof is needed.
        (format!("{scale} y[i] = x[i] }}\nlet _ = scale(ones(64))\nlet _ = scale(ones(128))"), vec![], ""),
        (
            "kernel keep(x: [i32; N], inout y: [i32; 32]) grid(N / 32) block(32) assume N % 32 == 0 {\n\
             y[thread_idx.x] = x[global_idx.x] }\nvar y = zeros(32, type = i32)\nkeep(arange(32), y)"
                .into(),
            vec!["W0603", "W0611"],
            "a launch with N = 64 has a race, reported below",
        ),
        (
            "kernel turn(x: [i32; N], out y: [i32; N]) grid(1) block(N) assume N <= 64 {\nshared s: [i32; 64]\n\
             s[thread_idx.x] = x[thread_idx.x]\nwarp_barrier()\ny[thread_idx.x] = s[N - 1 - thread_idx.x] }\nlet _ = turn(arange(32))"
                .into(),
            vec!["W0603", "W0611"],
            "had blocks of at most 32 threads; one with N = 33 has it",
        ),
        (
            "kernel put(at: [i32; N], inout y: [i32; N]) grid(ceil_div(N, 64)) block(64) assume all(at >= 0 && at < N), distinct(at) {\n\
             if global_idx.x < N { y[at[global_idx.x]] = 1 } }\nvar y = zeros(64, type = i32)\nput(63 - arange(64), y)"
                .into(),
            vec![],
            "",
        ),
        (
            "kernel flip(x: [i32; N], out y: [i32; N]) grid(1) block(N) assume N % 32 == 0, N <= 64 {\nshared s: [i32; 64]\n\
             let t = thread_idx.x\ns[t] = x[t]\nwarp_barrier()\ny[t] = s[t / 32 * 32 + 31 - t % 32] }\nlet _ = flip(arange(32))"
                .into(),
            vec!["W0603"],
            "a proof for all sizes did not settle it",
        ),
    ];
    for (text, expected, part) in cases {
        let (codes, said) = checked(&text);
        assert_eq!(codes, expected, "{text}\n{said}");
        assert!(said.contains(part), "{text}\n{said}");
    }
    let silent = ran(&format!("{scale} y[i] = x[i] }}\nlet _ = scale(ones(64))"), &["run", "k.clk"]);
    assert_eq!(silent.err, "", "nothing is proved unless checks are asked for");
}
