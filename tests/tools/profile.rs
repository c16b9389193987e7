//! Tests `clk profile`: it reports planted mistakes at their lines, with counts that equal those computed by hand.
//! Kernels without mistakes get no advice, and counts agree with a direct recount.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clk_testing::{RunOutput, diagnostics, run};
use serde_json::Value;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a scratch folder")
}

/// Runs `clk profile` on a text.
fn profiled(text: &str, words: &[&str]) -> RunOutput {
    let folder = scratch();
    fs::write(folder.path().join("p.clk"), text).expect("written");
    run(folder.path(), &[&["profile"], words, &["p.clk"]].concat())
}

/// Returns the kernels of a run with `--json`.
fn kernels(ran: &RunOutput) -> Vec<Value> {
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn program(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles").join(name)).expect("a program")
}

/// The expected code and counts in a comment of `mistakes.clk`.
struct Expected {
    line: u64,
    code: String,
    /// For each access: its kind, the array, the number of requests, and the number of sectors (global memory) or
    /// passes (shared memory).
    counts: Vec<(String, String, u64, u64)>,
}

fn expected(text: &str) -> Vec<Expected> {
    let of = |(at, line): (usize, &str)| {
        let (_, mark) = line.split_once("//= ").filter(|_| !line.starts_with("//"))?;
        let (code, counts) = mark.split_once(' ').unwrap_or((mark, ""));
        let count = |part: &str| {
            let words: Vec<&str> = part.split_whitespace().collect();
            let [deed, array, requests, moved] = words[..] else { panic!("{part}") };
            (deed.into(), array.into(), requests.parse().expect("a number"), moved.parse().expect("a number"))
        };
        let counts = counts.split(';').map(str::trim).filter(|part| !part.is_empty()).map(count).collect();
        Some(Expected { line: at as u64 + 1, code: code.to_string(), counts })
    };
    text.lines().enumerate().filter_map(of).collect()
}

#[test]
fn planted_performance_mistakes_are_reported_with_counts() {
    let text = program("mistakes.clk");
    let ran = profiled(&text, &["--json"]);
    let kernels = kernels(&ran);
    let all = expected(&text);
    assert!(kernels.len() >= 23, "{} kernels", kernels.len());
    let reported: BTreeSet<(u64, String)> = diagnostics(&ran)
        .iter()
        .map(|d| {
            let primary = d["labels"].as_array().expect("labels").iter().find(|l| l["primary"] == true).expect("one");
            (number(primary, "line"), d["code"].as_str().expect("a code").to_string())
        })
        .collect();
    let expected_codes: BTreeSet<(u64, String)> = all.iter().map(|e| (e.line, e.code.clone())).collect();
    // If a kernel makes the same mistake twice with one array, only the worse one is reported, or the first if they are
    // equally bad.
    let missing: Vec<_> = expected_codes.difference(&reported).filter(|(line, _)| !is_second(&text, *line)).collect();
    let surplus: Vec<_> = reported.difference(&expected_codes).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}\n{}", ran.err);
    let mut wrong = vec![];
    for Expected { line, counts, .. } in &all {
        for (deed, array, requests, moved) in counts {
            let accesses = kernels.iter().flat_map(|kernel| kernel["accesses"].as_array().expect("accesses"));
            let matching =
                accesses.filter(|a| number(a, "line") == *line && a["deed"] == **deed && a["array"] == **array);
            let (mut r, mut m) = (0, 0);
            for access in matching {
                r += number(access, "requests");
                m += number(access, if access["shared"] == true { "passes" } else { "sectors" });
            }
            if (r, m) != (*requests, *moved) {
                wrong.push(format!("line {line}: {deed} {array}: {r} requests, {m}, not {requests}, {moved}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether an earlier line of the same kernel expects the same code.
fn is_second(text: &str, line: u64) -> bool {
    let lines: Vec<&str> = text.lines().take(line as usize).collect();
    let kernel = lines.iter().rposition(|line| line.starts_with("kernel ")).unwrap_or(0);
    lines[kernel..].iter().filter(|line| line.contains("//= ")).count() > 1
}

#[test]
fn kernels_without_mistakes_get_no_advice() {
    let ran = profiled(&program("clean.clk"), &["--json"]);
    assert!(kernels(&ran).len() >= 11);
    assert!(diagnostics(&ran).is_empty(), "{}", ran.err);
}

/// A test case: the index that each thread accesses in each iteration.
struct Pattern {
    /// The index as Clk source, in terms of `i` and `k`.
    text: &'static str,
    /// The index as a function.
    index: fn(u64, u64) -> u64,
    /// The condition under which a thread performs the access, as Clk source.
    guard: &'static str,
    participates: fn(u64, u64) -> bool,
}

const PATTERNS: &[Pattern] = &[
    Pattern { text: "i + k", index: |i, k| i + k, guard: "true", participates: |_, _| true },
    Pattern { text: "i + 1 + 7 * k", index: |i, k| i + 1 + 7 * k, guard: "true", participates: |_, _| true },
    Pattern { text: "3 * i + k", index: |i, k| 3 * i + k, guard: "true", participates: |_, _| true },
    Pattern {
        text: "(i * 37 + k) % 4096",
        index: |i, k| (i * 37 + k) % 4096,
        guard: "true",
        participates: |_, _| true,
    },
    Pattern { text: "i / 4 + k", index: |i, k| i / 4 + k, guard: "i % 3 == 0", participates: |i, _| i % 3 == 0 },
    Pattern { text: "k * 8", index: |_, k| k * 8, guard: "i > 40", participates: |i, _| i > 40 },
    Pattern {
        text: "(i ^ 5) + 2 * k",
        index: |i, k| (i ^ 5) + 2 * k,
        guard: "i < 100 + k",
        participates: |i, k| i < 100 + k,
    },
    Pattern { text: "4095 - i - k", index: |i, k| 4095 - i - k, guard: "true", participates: |_, _| true },
    Pattern {
        text: "(i * 33 + k) % 1024",
        index: |i, k| (i * 33 + k) % 1024,
        guard: "i % 2 == k % 2",
        participates: |i, k| i % 2 == k % 2,
    },
];

/// Counts the accesses of a pattern directly: for each warp and iteration, the distinct 32-byte sectors, and the
/// passes, which are the largest number of distinct words in one bank.
fn recount(pattern: &Pattern, threads: u64, size: u64) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for first in (0..threads).step_by(32) {
        for k in 0..3 {
            let lanes: Vec<u64> =
                (first..(first + 32).min(threads)).filter(|&i| (pattern.participates)(i, k)).collect();
            if lanes.is_empty() {
                continue;
            }
            let bytes: Vec<(u64, u64)> = lanes.iter().map(|&i| (i - first, (pattern.index)(i, k) * size)).collect();
            let sectors: BTreeSet<u64> = bytes.iter().flat_map(|(_, at)| (*at..at + size).map(|b| b / 32)).collect();
            // A warp accesses elements of 8 bytes in two halves.
            let half = if size == 8 { 16 } else { 32 };
            let mut passes = 0;
            for part in [0, 1] {
                let mut banks: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
                for (_, at) in bytes.iter().filter(|(lane, _)| lane / half == part) {
                    for word in at / 4..(at + size).div_ceil(4) {
                        banks.entry(word % 32).or_default().insert(word);
                    }
                }
                passes += banks.values().map(|words| words.len() as u64).max().unwrap_or(0);
            }
            *counts.entry("requests").or_insert(0) += 1;
            *counts.entry("threads").or_insert(0) += lanes.len() as u64;
            *counts.entry("sectors").or_insert(0) += sectors.len() as u64;
            *counts.entry("passes").or_insert(0) += passes;
        }
    }
    counts
}

#[test]
fn counts_agree_with_a_recount() {
    const THREADS: u64 = 1000;
    for (ty, size) in [("u8", 1), ("f16", 2), ("f32", 4), ("f64", 8)] {
        let mut text = String::new();
        for (n, Pattern { text: index, guard, .. }) in PATTERNS.iter().enumerate() {
            text += &format!(
                "kernel p{n}(x: [{ty}; 4096], turns: i32, out y: [{ty}; {THREADS}]) threads(i: {THREADS}) {{\n    var sum = {ty}(0)\n    \
                 for k in 0..turns {{\n        if {guard} {{ sum += x[{index}] }}\n    }}\n    y[i] = sum\n}}\n\
                 p{n}(zeros(4096, type = {ty}), 3);\n"
            );
            text += &format!(
                "kernel s{n}(x: [{ty}; 4096], turns: i32, out y: [{ty}; {THREADS}]) grid({THREADS} / 200) block(200) {{\n    \
                 shared t: [{ty}; 4096]\n    let i = thread_idx.x\n    for k in i..4096 step 200 {{ t[k] = x[k] }}\n    barrier()\n    \
                 var sum = {ty}(0)\n    for k in 0..turns {{\n        if {guard} {{ sum += t[{index}] }}\n    }}\n    \
                 y[block_idx.x * 200 + i] = sum\n}}\ns{n}(zeros(4096, type = {ty}), 3);\n"
            );
        }
        let ran = profiled(&text, &["--json"]);
        let all = kernels(&ran);
        for (n, pattern) in PATTERNS.iter().enumerate() {
            let of = |name: String, array: &str, last: &str| {
                let kernel = all.iter().find(|kernel| kernel["kernel"] == *name).unwrap_or_else(|| panic!("{name}"));
                let accesses = kernel["accesses"].as_array().expect("accesses");
                let row_accesses: Vec<&Value> =
                    accesses.iter().filter(|a| a["array"] == *array && a["deed"] == "load").collect();
                // The compiler may have split the access into several loads, which the profile lists separately.
                let sum = |key: &str| row_accesses.iter().map(|access| number(access, key)).sum::<u64>();
                (sum("requests"), sum("threads"), sum(last))
            };
            let want = recount(pattern, THREADS, size);
            let got = of(format!("p{n}"), "x", "sectors");
            assert_eq!(got, (want["requests"], want["threads"], want["sectors"]), "{ty} x[{}]", pattern.text);
            let want = recount(pattern, 200, size);
            let got = of(format!("s{n}"), "t", "passes");
            assert_eq!(
                got,
                (5 * want["requests"], 5 * want["threads"], 5 * want["passes"]),
                "{ty} t[{}]",
                pattern.text
            );
        }
    }
}

/// In a kernel with two indices, the threads of a warp differ in the last index. If the number of loop iterations
/// depends on the index, a warp covers 16 by 2 indices instead. The last warp of a row is partly filled.
#[test]
fn warps_of_two_dimensional_kernels_are_rows() {
    let ran = profiled(
        "kernel rows(out y: [i32; N, M]) threads(i: N, j: M) { y[i, j] = i + j }\nrows(N = 5, M = 40);\n\
         kernel tiles(out y: [i32; N, M]) threads(i: N, j: M) {\n    var n = i\n    while n > 3 { n -= 2 }\n    y[i, j] = n\n}\n\
         tiles(N = 4, M = 40);\n",
        &["--json"],
    );
    let all = kernels(&ran);
    // Each of the 5 rows has two warps, with 32 and 8 lanes. The rows are 160 bytes apart.
    assert_eq!((number(&all[0], "warps"), number(&all[0]["accesses"][0], "sectors")), (10, 25));
    // Two rows of three warps, which are 16, 16 and 8 lanes wide and 2 lanes high. Each of their rows covers at most 64
    // bytes, from a multiple of 32 bytes on.
    assert_eq!((number(&all[1], "warps"), number(&all[1]["accesses"][0], "sectors")), (6, 20));
}

#[test]
fn counts_do_not_depend_on_workers_and_sampling_is_reported() {
    let text = program("mistakes.clk");
    let counts = |words: &[&str]| {
        let ran = profiled(&text, words);
        kernels(&ran).iter().map(|kernel| (kernel["accesses"].clone(), kernel["lines"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(counts(&["--json", "--workers", "1"]), counts(&["--json", "--workers", "3"]));
    let text = "kernel f(x: [f32; N], out y: [f32; N]) grid(N / 128) block(128) { y[global_idx.x] = x[global_idx.x] }\nf(ones(12800));";
    let all = kernels(&profiled(text, &["--json", "--blocks", "10"]));
    assert_eq!(all[0]["sampled"].as_f64(), Some(0.1));
    assert_eq!(number(&all[0]["accesses"][0], "requests"), 40);
}

#[test]
fn waiting_blocks_are_counted_without_polls() {
    let text = "import std.scan\nlet x = ones(300_000, type = i32)\nassert(scan.inclusive(x)[99] == 100)\n";
    let all: Vec<Vec<Value>> = (0..3).map(|_| kernels(&profiled(text, &["--json"]))).collect();
    assert!(all.iter().all(|counted| *counted == all[0]));
    // A block reads one word of each earlier block in its group. The profile counts each of these reads once, even if
    // the block polls.
    let seconds = all[0][0]["seconds"].as_f64().expect("a bound");
    assert!(seconds < 10e-6, "{seconds}");
}

#[test]
fn advised_products_compute_the_same_result() {
    for (threads, stored, left, right, call) in [
        ("i: N, j: N", "i, j", "a[i, k]", "b[k, j]", "a @ b"),
        ("j: N, i: N", "i, j", "a[i, k]", "b[k, j]", "a @ b"),
        ("i: N, j: N", "j, i", "a[i, k]", "b[k, j]", "transpose(b) @ transpose(a)"),
        ("j: N, i: N", "i, j", "b[k, j]", "a[i, k]", "a @ b"),
        ("i: N, j: N", "i, j", "a[k, i]", "b[j, k]", "transpose(a) @ transpose(b)"),
        ("j: N, i: N", "i, j", "a[j, k]", "b[i, k]", "b @ transpose(a)"),
    ] {
        let text = format!(
            "kernel product(a: [f32; N, N], b: [f32; N, N], out c: [f32; N, N]) threads({threads}) {{
    var sum = 0.0
    for k in 0..N {{ sum += {left} * {right} }}
    c[{stored}] = sum
}}
let (a, b) = (random(32, 32, seed = 1), random(32, 32, seed = 2))
assert(close(product(a, b), {call}, rtol = 1e-4))
"
        );
        let ran = profiled(&text, &[]);
        assert!(ran.code == 0 && ran.err.contains(&format!("`{call}`")), "{text}{}", ran.err);
    }
    // If the kernel stores its sums at other indices, `a @ b` gives a different result, so it is not suggested.
    let text = "kernel product(a: [f32; N, N], b: [f32; N, N], out c: [f32; N, N]) threads(i: N, j: N) {
    var sum = 0.0
    for k in 0..N { sum += a[i, k] * b[k, j] }
    c[N - 1 - i, j] = sum
}
product(ones(32, 32), ones(32, 32));
";
    assert!(!profiled(text, &[]).err.contains("W0907"));
}

#[test]
fn certain_fixes_are_applied() {
    let folder = scratch();
    let path = folder.path().join("slow.clk");
    let slow = "kernel turn(x: [f32; N, N], out y: [f32; N, N]) grid(N / 32, N / 32) block(32, 8) {
    shared tile: [f32; 32, 32]
    let (i, j, t) = (32 * block_idx.y, 32 * block_idx.x, thread_idx.x)
    for k in thread_idx.y..32 step 8 { tile[k, t] = x[i + k, j + t] }
    barrier()
    for k in thread_idx.y..32 step 8 { y[j + k, i + t] = tile[t, k] }
}

kernel double(x: [f32; N, M], out y: [f32; N, M]) threads(j: M, i: N) { y[i, j] = 2.0 * x[i, j] }

let x = random(64, 64, seed = 1)
assert(turn(x) == transpose(x))
assert(double(x) == 2.0 * x)
";
    fs::write(&path, slow).expect("written");
    let ran = run(folder.path(), &["fix", "--profile", "slow.clk"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fixed = fs::read_to_string(&path).expect("a file");
    let want = slow
        .replace("tile: [f32; 32, 32]", "tile: [f32; 32, 33]")
        .replace("threads(j: M, i: N)", "threads(i: N, j: M)");
    assert_eq!(fixed, want, "{}{}", ran.out, ran.err);
    let second = run(folder.path(), &["profile", "--json", "slow.clk"]);
    assert!(second.code == 0 && diagnostics(&second).is_empty(), "{}", second.err);
    // A shared tile that a statement uses as a whole is not padded, and the axes of `threads` are not exchanged if the
    // order of threads matters.
    let doubtful = "kernel turn(x: [f32; N, N], out y: [f32; N, N]) grid(N / 32, N / 32) block(32, 8) {
    shared tile: [f32; 32, 32]
    let (i, j, t) = (32 * block_idx.y, 32 * block_idx.x, thread_idx.x)
    tile = 0.0
    for k in thread_idx.y..32 step 8 { tile[k, t] = x[i + k, j + t] }
    barrier()
    for k in thread_idx.y..32 step 8 { y[j + k, i + t] = tile[t, k] }
}

kernel last(x: [f32; N, M], out y: [f32; N, M], inout z: [f32; 1]) threads(j: M, i: N) {
    y[i, j] = 2.0 * x[i, j]
    atomic_exchange(z[0], x[i, j])
}

fn told(v: f32) -> f32 {
    print(v)
    v
}

kernel tells(x: [f32; N, M], out y: [f32; N, M]) threads(j: M, i: N) { y[i, j] = told(x[i, j]) }

let x = ones(64, 64)
var z = [0.0]
turn(x);
tells(x);
last(x, z)
";
    fs::write(&path, doubtful).expect("written");
    let ran = run(folder.path(), &["fix", "--profile", "slow.clk"]);
    assert_eq!((ran.code, fs::read_to_string(&path).expect("a file").as_str()), (0, doubtful), "{}", ran.err);
}

#[test]
fn a_launch_without_threads_gets_no_advice() {
    let ran = profiled(
        "kernel f(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }\n\
         kernel g(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 32)) block(32) { y[global_idx.x] = x[global_idx.x] }\n\
         let _ = f(zeros(0))\nlet _ = g(zeros(0))\n",
        &["--json"],
    );
    assert_eq!(kernels(&ran).len(), 2);
    assert!(diagnostics(&ran).is_empty(), "{}", ran.err);
}

#[test]
fn unprofiled_launches_are_reported() {
    let none = profiled("print(1)", &[]);
    assert!(none.code == 1 && none.err.contains("launched no kernel"), "{}", none.err);
    let text = "kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 2.0 * x[i] }\ndouble(ones(4));";
    let other = {
        let folder = scratch();
        fs::write(folder.path().join("p.clk"), text).expect("written");
        run(folder.path(), &["profile", "p.clk", "dobule"])
    };
    assert!(other.code == 1 && other.err.contains("did you mean `double`?"), "{}", other.err);
    let gpu = profiled(text, &["--for", "h300"]);
    assert!(gpu.code == 2 && gpu.err.contains("h200, h100"), "{}", gpu.err);
    let fault = profiled(&text.replace("2.0 * x[i]", "x[i + 1]"), &[]);
    assert!(fault.code == 1 && fault.err.contains("E0601"), "{}", fault.err);
}

#[test]
fn listings_fit_the_terminal() {
    let text = "kernel double(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    y[i] = 2.0 * x[i]          // and a comment that is much too long for any terminal that is as narrow as this one, by far\n}\ndouble(ones(4096));";
    let folder = scratch();
    fs::write(folder.path().join("p.clk"), text).expect("written");
    for columns in [60, 80, 120] {
        let mut command = clk_testing::clk(folder.path());
        let ran = clk_testing::finish(command.env("COLUMNS", columns.to_string()).args(["profile", "p.clk"]));
        let listing = ran.out.lines().filter(|line| line.contains('│'));
        assert!(listing.clone().count() >= 4, "{}", ran.out);
        assert!(listing.clone().all(|line| line.chars().count() <= columns), "{columns}:\n{}", ran.out);
    }
}
