//! Tests `clk profile` of array expressions: compares the memory traffic of their kernels with numbers computed by
//! hand, and its source lines.

use std::fs;

use clk_testing::{RunOutput, run};
use serde_json::Value;

fn profiled(text: &str, words: &[&str]) -> RunOutput {
    let folder = tempfile::tempdir().expect("a scratch folder");
    fs::write(folder.path().join("p.clk"), text).expect("written");
    run(folder.path(), &[&["profile", "--expressions"], words, &["p.clk"]].concat())
}

/// Returns the kernels of array expressions in a profile.
fn expressions(text: &str) -> Vec<Value> {
    let ran = profiled(text, &["--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let all = ran.out.lines().filter_map(|line| serde_json::from_str(line).ok());
    all.filter(|value: &Value| value["expression"].is_string()).collect()
}

const N: u64 = 1 << 20;
/// Number of warps in a launch of `N` threads.
const W: u64 = N / 32;

const BEGIN: &str =
    "let x = random(1048576, seed = 1)\nlet y = random(1048576, seed = 2)\nlet q = reshape(x, 1024, 1024)\n";

/// A program, one of its expressions, and the expected profile of that expression: launches, requests and sectors of
/// each access in order, and floating-point operations.
type Case = (&'static str, &'static str, u64, &'static [(&'static str, u64, u64)], u64);

const CASES: &[Case] = &[
    (
        "let a = 2.0 * x + y\nprint(a[100])",
        "2.0 * x + y",
        1,
        &[("load", W, 4 * W), ("load", W, 4 * W), ("store", W, 4 * W)],
        2 * N,
    ),
    // Each warp reads elements of a column, which are 4 KiB apart.
    (
        "let b = transpose(q) + 1.0\nprint(b[5, 7])",
        "transpose(q) + 1.0",
        1,
        &[("load", W, 32 * W), ("store", W, 4 * W)],
        N,
    ),
    ("let c = f64(x) * 2.0\nprint(c[9])", "f64(x) * 2.0", 1, &[("load", W, 4 * W), ("store", W, 8 * W)], N),
    ("let d = q[.., 3] + 1.0\nprint(d[9])", "q[.., 3] + 1.0", 1, &[("load", 32, 1024), ("store", 32, 128)], 1024),
    (
        "let e = q + y[..1024]\nprint(e[5, 7])",
        "q + y[..1024]",
        1,
        &[("load", W, 4 * W), ("load", W, 4 * W), ("store", W, 4 * W)],
        N,
    ),
    (
        "for k in 0..10 {\n    let f = x * f32(k)\n    print(f[77])\n}",
        "x * f32(k)",
        10,
        &[("load", 10 * W, 40 * W), ("store", 10 * W, 40 * W)],
        10 * N,
    ),
    (
        "let h = select(x > 0.5, x, y)\nprint(h[0])",
        "select(x > 0.5, x, y)",
        1,
        &[("load", W, 4 * W), ("load", W, 4 * W), ("store", W, 4 * W)],
        0,
    ),
    ("let u = u8(x * 255.0)\nprint(u[0])", "u8(x * 255.0)", 1, &[("load", W, 4 * W), ("store", W, W)], N),
    (
        "let u = u8(x)\nprint(u[0])\nlet v = f32(u) + 1.0\nprint(v[0])",
        "f32(u) + 1.0",
        1,
        &[("load", W, W), ("store", W, 4 * W)],
        N,
    ),
    // The expression reads consecutive positions, and elements that are 32 bytes apart.
    (
        "let at = 8 * arange(131072)\nlet w = x[at]\nprint(w[4])",
        "x[at]",
        1,
        &[("load", W / 8, W / 2), ("load", W / 8, 4 * W), ("store", W / 8, W / 2)],
        0,
    ),
    (
        "var z = zeros(4096)\nz[1024..2048] = x[..1024] * 2.0\nprint(z[1030])",
        "z[1024..2048] = x[..1024] * 2.0",
        1,
        &[("load", 32, 128), ("store", 32, 128)],
        1024,
    ),
    // A value that is read several times is computed once; expressions of several lines are fused into one kernel.
    (
        "let s = x + 1.0\nlet t = s * y\nprint(t[3])",
        "s * y",
        1,
        &[("load", W, 4 * W), ("load", W, 4 * W), ("store", W, 4 * W)],
        2 * N,
    ),
    (
        "let i = i16(x * 100.0)\nprint(i[0])\nlet j = i + i\nprint(j[0])",
        "i + i",
        1,
        &[("load", W, 2 * W), ("store", W, 2 * W)],
        0,
    ),
];

#[test]
fn expressions_have_the_expected_counts() {
    for &(text, expression, launches, accesses, flops) in CASES {
        let profiled = expressions(&format!("{BEGIN}{text}\n"));
        // Skips the kernel that computes the minimum and maximum of the positions of a gather.
        let has_name = |kernel: &&Value| {
            let own = kernel["accesses"].as_array().map(Vec::len);
            kernel["expression"] == expression && kernel["kernel"] == "expression" && own == Some(accesses.len())
        };
        let kernels: Vec<&Value> = profiled.iter().filter(has_name).collect();
        let [kernel] = kernels[..] else { panic!("{expression}: {} kernels of {profiled:#?}", kernels.len()) };
        assert_eq!(kernel["launches"], launches, "{expression}");
        let own: Vec<(&str, u64, u64)> = kernel["accesses"]
            .as_array()
            .expect("accesses")
            .iter()
            .map(|access| {
                let number = |key: &str| access[key].as_u64().expect("a number");
                (access["deed"].as_str().expect("a deed"), number("requests"), number("sectors"))
            })
            .collect();
        assert_eq!(own, accesses, "{expression}");
        let of = |line: &Value, key: &str| line[key].as_u64().expect("a number");
        let done: u64 =
            kernel["lines"].as_array().expect("lines").iter().map(|line| of(line, "f32") + of(line, "f64")).sum();
        assert_eq!(done, flops, "{expression}: {kernel:#}");
    }
}

#[test]
fn unread_and_host_values_cost_nothing() {
    let text = "let x = random(4096)\nlet never = x * 7.0\nlet small = x[..64] * 2.0\nprint(small[3])\nprint(sum(x))\n";
    let counted_kernels = expressions(text);
    let is_counted = |text: &str| counted_kernels.iter().any(|kernel| kernel["expression"] == text);
    assert!(is_counted("sum(x)") && !is_counted("x * 7.0") && !is_counted("x[..64] * 2.0"), "{counted_kernels:#?}");
    let ran = profiled("print(1 + 2)\n", &[]);
    assert!(ran.code == 1 && ran.err.contains("launched no kernel"), "{}", ran.err);
}

#[test]
fn counted_runs_use_gpu_kernels_with_the_same_results() {
    let text = "let x = random(3000, seed = 3)\nlet q = reshape(x, 50, 60)\nprint(sum(x), mean(q, axis = 1), max(q, axis = 0)[3])\n\
                print((q @ transpose(q))[7, 9], sort(x)[100], argmax(x), cumsum(x)[2999])\nlet m = x[x > 0.25]\nprint(len(m), m[len(m) - 1])\n\
                var z = zeros(3000)\nz[x > 0.5] = 2.0\nz[[5, 6, 5]] = [1.0, 2.0, 3.0]\nz[10..2000 step 3] = x[..664]\nprint(sum(z), z[5], z[13])\n\
                print(argsort(x)[17], sum(q / reshape(sum(q, axis = 1), -1, 1)))\n";
    let folder = tempfile::tempdir().expect("a scratch folder");
    fs::write(folder.path().join("p.clk"), text).expect("written");
    let plain = run(folder.path(), &["run", "--device", "sim", "p.clk"]);
    let counted = run(folder.path(), &["profile", "--expressions", "p.clk"]);
    assert_eq!((plain.code, counted.code), (0, 0), "{}{}", plain.err, counted.err);
    let (printed, table) = counted.out.split_once("array expressions").expect("a table");
    assert_eq!(printed, plain.out);
    for kernel in ["`matmul_words`", "`sweep`", "`chosen`", "`ordered_scan`", "`reduction`", "`rows`", "`position`"] {
        assert!(
            table.contains(kernel) || kernel == "`matmul_words`" && table.contains("product"),
            "no {kernel} in\n{table}"
        );
    }
}

#[test]
fn the_table_names_lines_and_launch_bound_expressions() {
    let text = "var x = random(1000)\nfor k in 0..200 {\n    x = x * 0.5 + 1.0\n    print(x[k])\n}\n";
    let ran = profiled(text, &["--color", "never"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let (_, table) = ran.out.split_once("array expressions: ").expect("a table");
    assert!(table.starts_with("1 kernel, 200 launches, at best 400 µs on an H200\n"), "{table}");
    assert!(table.contains("│ p.clk:3 x * 0.5 + 1.0: the launch\n"), "{table}");
    assert!(table.contains("100% of that is launches of kernels with little to do"), "{table}");
    // Without the option that includes array expressions, the profile shows only kernels.
    let kernel = "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }\nlet x = random(1000)\nprint(f(x)[3], sum(x))\n";
    let folder = tempfile::tempdir().expect("a scratch folder");
    fs::write(folder.path().join("p.clk"), kernel).expect("written");
    let ran = run(folder.path(), &["profile", "p.clk"]);
    assert!(
        ran.code == 0 && ran.out.contains("f: 1000 threads") && !ran.out.contains("array expressions"),
        "{}{}",
        ran.out,
        ran.err
    );
    let ran = profiled(kernel, &[]);
    assert!(ran.out.contains("f: 1000 threads") && ran.out.contains("sum(x) by `rows`"), "{}", ran.out);
}

#[test]
fn gradient_kernels_are_counted_at_their_source_lines() {
    let text = "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    y[i] = x[i] * x[N - 1 - i]\n}\nfn g(x: [f32; 1024]) -> f32 { sum(f(x)) }\n\
                print(sum(grad(g)(random(1024, seed = 1))))\n";
    let ran = profiled(text, &["--json"]);
    assert!(ran.code == 0 && ran.err.is_empty(), "{}", ran.err);
    let all: Vec<Value> = ran.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let kernel_named = |name: &str| all.iter().find(|kernel: &&Value| kernel["kernel"] == name);
    let (own, derived) = (kernel_named("f").expect("the kernel"), kernel_named("f_vjp").expect("its derivative"));
    let lines = |kernel: &Value| {
        kernel["lines"].as_array().expect("lines").iter().map(|l| l["line"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!((lines(own), lines(derived)), (vec![Some(2)], vec![Some(2)]));
    // The derivative loads both operands again, and each of them receives a contribution.
    let of = |deed: &str| {
        derived["accesses"].as_array().expect("all").iter().filter(|access| access["deed"] == deed).count()
    };
    assert!(of("load") >= 3 && of("atomic") + of("store") >= 1, "{derived:#}");
    assert!(derived["registers"].is_null());
}
