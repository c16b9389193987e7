//! Tests on a real GPU: agreement with the simulator, faults, memory, the cache, Ctrl-C. Without a GPU every test
//! prints that it is skipped.
//!
//! This binary can be copied to a machine without a Rust toolchain: it uses the repository in the folder it is started
//! in, and the `clk` binary named by `CLK_TEST_BINARY`.

mod agree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use clk_cuda::{CudaGpu, GpuSettings};
use clk_differential::{Both, is_approximate};
use clk_lang::libraries::nvrtc_places;
use clk_runtime::{Control, Device};
use clk_sim::Simulator;
use clk_testing::generate;
use clk_testing::setting;

/// Returns the root of the repository: the current folder, or else the one in which this test was built.
fn root() -> PathBuf {
    let current = Path::new(".");
    let built = Path::new(env!("CARGO_MANIFEST_DIR"));
    if current.join("examples").is_dir() { current.canonicalize().expect("a folder") } else { built.to_path_buf() }
}

fn binary() -> PathBuf {
    match std::env::var_os("CLK_TEST_BINARY") {
        Some(path) => Path::new(&path).canonicalize().expect("CLK_TEST_BINARY names the binary"),
        None => env!("CARGO_BIN_EXE_clk").into(),
    }
}

/// A lock that tests hold for writing while they fill the GPU's memory, so that other tests do not run out of memory.
static ALONE: RwLock<()> = RwLock::new(());

/// Opens the first GPU. Without a GPU or its compiler (NVRTC), prints the reason and returns `None`.
fn gpu() -> Option<CudaGpu> {
    let opened = CudaGpu::open(0, GpuSettings { nvrtc: nvrtc_places(), ..GpuSettings::default() });
    match opened {
        Ok(gpu) => Some(gpu),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

struct RunOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

fn clk(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).args(words).stdin(Stdio::null());
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLK_DEVICE"] {
        command.env_remove(name);
    }
    command
}

fn finish(mut command: Command) -> RunOutput {
    let output = command.output().expect("clk starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    RunOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a script on a device.
fn script(text: &str, options: &[&str]) -> RunOutput {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("script.clk"), text).expect("written");
    let words: Vec<&str> = [&["run"], options, &["script.clk"]].concat();
    finish(clk(folder.path(), &words))
}

/// Returns the number before a word in the line that `--stats` prints about the GPU.
fn stat(ran: &RunOutput, word: &str) -> u64 {
    let line = ran.err.lines().find(|l| l.starts_with("gpu:")).unwrap_or_else(|| panic!("no statistics: {}", ran.err));
    let before = line.split(word).next().unwrap_or_default().trim_end();
    let digits: String = before.chars().rev().take_while(char::is_ascii_digit).collect();
    digits.chars().rev().collect::<String>().parse().unwrap_or_else(|_| panic!("no number before `{word}`: {line}"))
}

/// Returns the ```` ```clk ```` blocks of the language reference.
fn reference_blocks() -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join("grammar/README.md")).expect("the reference");
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match (&mut open, line.trim()) {
            (None, "```clk") => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take().map(|b| (format!("block {}", blocks.len() + 1), b))),
            (Some(block), _) => *block += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    blocks
}

/// Returns all examples and all code blocks of the reference.
fn scripts() -> Vec<(String, String)> {
    let mut programs = Vec::new();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(root().join("examples")).expect("examples").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|p| p.extension().is_some_and(|e| e == "clk")) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        programs.push((name, fs::read_to_string(&path).expect("a source")));
    }
    programs.extend(reference_blocks());
    programs
}

/// Runs all scripts with these options in a folder with the examples' data; returns their number and the failures.
fn run_all(options: &[&str]) -> (usize, Vec<String>) {
    let scratch = tempfile::tempdir().expect("a folder");
    let data = scratch.path().join("examples/data");
    fs::create_dir_all(&data).expect("a folder");
    for entry in fs::read_dir(root().join("examples/data")).expect("the data") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, data.join(path.file_name().expect("a name"))).expect("copied");
    }
    let all = scripts();
    let mut failures = Vec::new();
    for (name, text) in &all {
        fs::write(scratch.path().join("script.clk"), text).expect("written");
        let words: Vec<&str> = [&["run"], options, &["script.clk"]].concat();
        let ran = finish(clk(scratch.path(), &words));
        if ran.code != Some(0) {
            failures.push(format!("== {name}: exit code {:?}\n{}", ran.code, ran.err));
        }
    }
    (all.len(), failures)
}

#[test]
fn examples_and_the_reference_run_on_the_gpu() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let (count, failures) = run_all(&["--device", "gpu"]);
    println!("{} of {count} scripts run on the GPU", count - failures.len());
    assert!(failures.is_empty(), "{} of {count} scripts:\n{}", failures.len(), failures.join("\n"));
}

/// Runs random kernels on simulator and GPU; `CLK_RANDOM_PROGRAMS` is their number, `CLK_RANDOM_SEED` the first seed.
#[test]
fn random_programs_agree() {
    let _beside = ALONE.read();
    let Some(gpu) = gpu() else { return };
    let (first, count): (u64, u64) = (setting("CLK_RANDOM_SEED", 0), setting("CLK_RANDOM_PROGRAMS", 200));
    let both = Both::new(Arc::new(Simulator::default()), Arc::new(gpu), true);
    let next = AtomicU64::new(first);
    let (compared, faults) = (AtomicU64::new(0), AtomicU64::new(0));
    let worker = || {
        let mut failures = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return failures;
            }
            let program = generate::program(seed);
            let Ok(prepared) = clk_pass::prepare(program.module.clone()) else { continue };
            if is_approximate(&prepared.module) {
                continue;
            }
            let mut arguments = program.arguments.clone();
            let executable = both.load(Arc::new(prepared), None);
            let control = Control { workers: 1, max_steps: 1_000_000, ..Control::default() };
            let ran =
                executable.launch(&program.extents.into(), &mut generate::launch_arguments(&mut arguments), &control);
            compared.fetch_add(1, Ordering::Relaxed);
            use clk_runtime::FaultKind::{Device, Disagreement};
            match ran {
                Err(fault) if matches!(fault.kind, Device(_) | Disagreement(_)) => {
                    failures.push(format!("seed {seed}: {:#?}", fault.kind));
                }
                Err(_) => drop(faults.fetch_add(1, Ordering::Relaxed)),
                Ok(_) => {}
            }
        }
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..8).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().flat_map(|h| h.join().unwrap_or_else(|_| vec!["a worker panicked".into()])).collect()
    });
    let (compared, faults) = (compared.into_inner(), faults.into_inner());
    println!("{compared} of {count} random programs compared, {faults} with the same fault, {} differ", failures.len());
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n\n"));
    assert!(compared > count / 4);
}

/// Returns the code and lines of the first diagnostic. Omits details that may differ between two devices: which
/// faulting thread is named, and how many threads faulted.
fn essence(ran: &RunOutput) -> Option<(String, Vec<u64>)> {
    let diagnostic: serde_json::Value = ran.err.lines().find_map(|line| serde_json::from_str(line).ok())?;
    let labels = diagnostic["labels"].as_array()?;
    let lines = labels.iter().filter_map(|l| l["line"].as_u64()).collect();
    Some((diagnostic["code"].as_str()?.to_string(), lines))
}

const FAULTS: &[(&str, &str)] = &[
    (
        "a read out of bounds",
        "kernel k(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 256)) block(256) { let i = global_idx.x\n y[i] = 2.0 * x[i + 1] }\nprint(k(ones(300)))",
    ),
    (
        "a write out of bounds",
        "kernel k(j: i32, out y: [i32; N, M]) threads(i: N) { y[i, j] = 1 }\nprint(k(7, N = 4, M = 7))",
    ),
    (
        "a negative index",
        "kernel k(d: i32, x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i - d] }\nprint(k(3, [1, 2, 3, 4]))",
    ),
    (
        "a division by zero",
        "kernel k(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = 100 / x[i] }\nprint(k([1, 0, 2]))",
    ),
    (
        "an assertion",
        "kernel k(x: [i32; N], out y: [i32; N]) threads(i: N) { assert(x[i] < 3, \"x is {x[i]}\")\n y[i] = x[i] }\nprint(k([1, 2, 3]))",
    ),
    (
        "a zero step",
        "kernel k(s: i32, out y: [i32; 4]) threads(i: 4) { for j in 0..8 step s { y[i] = j } }\nprint(k(0))",
    ),
    (
        "another geometry than the signature's",
        "kernel k(out y: [i32; 4 * N]) grid(N) block(4) { y[4 * block_idx.x + 3 - thread_idx.x] = 1 }\nvar y = zeros(8, type = i32)\nk(y)\nk<<<3, 4>>>(y)\nprint(y)",
    ),
    (
        "an access in a branch of a loop",
        "kernel k(at: [i32; M], x: [i32; N, N], out y: [i32; 9]) threads(i: 9) { var s = 0\n for j in 0..M { if j > i {\n s += x[at[j], 0] } }\n y[i] = s }\nprint(k([0, 1, 2, 1, 2, 5], [[1, 2], [3, 4]]))",
    ),
    (
        "a shared array's bounds",
        "kernel k(d: i32, out y: [i32; 32]) grid(1) block(32) { shared s: [i32; 32]\n s[thread_idx.x + d] = 1\n barrier()\n y[thread_idx.x] = s[thread_idx.x] }\nprint(k(1))",
    ),
];

#[test]
fn gpu_faults_match_the_simulator() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let mut failures = Vec::new();
    for (name, text) in FAULTS {
        let [sim, gpu] = ["sim", "gpu"].map(|device| script(text, &["--json", "--device", device]));
        let (expected, actual) = (essence(&sim), essence(&gpu));
        if expected.is_none() || expected != actual || gpu.code != Some(1) {
            failures.push(format!("== {name}: {expected:?} and {actual:?}\n{}", gpu.err));
        }
    }
    println!("{} of {} faults agree", FAULTS.len() - failures.len(), FAULTS.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A bounds check in a loop may report after the loop, but reports the first access that is out of bounds.
#[test]
fn the_first_access_of_a_loop_that_is_out_of_bounds_is_reported() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let kernel = "kernel k(at: [i32; M], x: [i32; N], out y: [i32; 1]) threads(i: 1) {\n\
        var sum = 0\nfor j in 0..M { sum += x[at[j]] * x[at[M - 1 - j]] }\ny[i] = sum\n}\n";
    for at in ["[0, 2, 7, 1, -1]", "[0, 2, 1, 9, -1]", "[5, 1, 1, 1, 1]", "[0, 1, 2, 1, 0]"] {
        let [sim, gpu] = ["sim", "gpu"]
            .map(|device| script(&format!("{kernel}print(k({at}, [10, 20, 30]))"), &["--json", "--device", device]));
        let title = |ran: &RunOutput| {
            let reported: Option<serde_json::Value> = ran.err.lines().find_map(|line| serde_json::from_str(line).ok());
            reported.map(|diagnostic| diagnostic["title"].to_string())
        };
        assert_eq!((sim.code, title(&sim), sim.out), (gpu.code, title(&gpu), gpu.out), "{at}: {}", gpu.err);
    }
}

/// The code omits the bounds checks that an `assume` clause makes unnecessary. Launches test such a clause on the GPU,
/// and test it again after the array has changed.
#[test]
fn promises_are_tested_if_code_relies_on_them() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let kernel = "kernel k(at: [i32; M], x: [f32; N], out y: [f32; M]) threads(i: M) assume all(at >= 0 && at < N) {\n\
        y[i] = x[at[i]]\n}\nlet x = random(1000, seed = 1)\nvar at = random_int(0, 999, 1 << 20, seed = 2)\n";
    let ran = script(
        &format!("{kernel}let y = k(at, x)\nassert(y == x[at])\nassert(k(at, x) == y)\nprint(\"so\")"),
        &["--device", "gpu"],
    );
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "so\n"), "{}", ran.err);
    for (change, shown) in [
        ("at[777777] = 1000", "`at[777777]` is 1000, and `N` is 1000"),
        ("at[3] = -1", "`at[3]` is -1"),
        ("at += 2", "is 1000, and `N` is 1000"),
    ] {
        let broken = script(&format!("{kernel}let y = k(at, x)\n{change}\nprint(k(at, x)[0])"), &["--device", "gpu"]);
        let words: Vec<&str> = broken.err.split_whitespace().filter(|word| *word != "│").collect();
        assert!(
            broken.code == Some(1) && broken.err.contains("E0525") && words.join(" ").contains(shown),
            "{change}: {}",
            broken.err
        );
    }
}

/// Launches are asynchronous. A fault must still be attributed to the launch that caused it, and be reported only once.
#[test]
fn faults_are_reported_at_their_launch() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let kernel = "kernel at(j: i32, x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i + j] }";
    let one_by_one = format!(
        "{kernel}\nlet x = [1, 2, 3, 4]\nvar a = at(0, x)\nprint(\"first\")\n\
         a = at(1, x)\na = at(2, a)\na = at(0, a)\nprint(a)"
    );
    let in_batches = format!(
        "{kernel}\nlet x = [1, 2, 3, 4]\nvar a = x\nvar b = x\nvar c = x\nfor k in 0..20 {{\nbatch {{\na = at(0, x)\n\
         b = at(k / 19, a)\nc = at(0, b)\n}}\n}}\nprint(c)"
    );
    for text in [&one_by_one, &in_batches] {
        let [sim, gpu] = ["sim", "gpu"].map(|device| script(text, &["--json", "--device", device]));
        assert_eq!((essence(&sim), sim.out), (essence(&gpu), gpu.out), "{}", gpu.err);
        assert_eq!(gpu.err.matches("E0601").count(), 1, "{}", gpu.err);
    }
}

#[test]
fn batches_match_single_launches() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    // From iteration to iteration, the arrays, numbers and grid sizes in the `batch` change. Some iterations
    // synchronize within the `batch`.
    let text = "kernel step(a: f32, x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = a * x[i] + 1.0 }
         kernel total(x: [f32; N], inout s: [f32; 1]) grid(1) block(1) { for i in 0..N { s[0] += x[i] } }
         var s = zeros(1)
         for turn in 0..12 {
             var u = ones(100 + turn % 3)
             batch {
                 for k in 0..5 { u = step(0.5 + f32(turn), u) }
                 if turn % 4 == 3 { print(u[7]) }
                 for k in 0..5 { u = step(0.25, u) }
                 total(u, s)
             }
         }
         print(s)";
    let [sim, gpu] = ["sim", "gpu"].map(|device| script(text, &["--device", device]));
    assert_eq!((sim.code, sim.out), (gpu.code, gpu.out), "{}", gpu.err);
}

/// Computations on sharded arrays give the same bits as on unsharded ones: with all shards on one GPU, and with two
/// GPUs if available.
#[test]
fn sharded_arrays_match_unsharded_bits() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let text = "kernel step(x: [f32; N, M], out y: [f32; N, M]) threads(i: N, j: M) {
    y[i, j] = 0.25 * (x[max(i - 1, 0), j] + x[min(i + 1, N - 1), j] + x[i, max(j - 1, 0)] + x[i, min(j + 1, M - 1)])
}
kernel push(all: [f32x4; N], inout own: [f32x4; N]) threads(i: N) { for k in 0..N { own[i] += (all[k] - all[i]) * 0.001 } }
let devices = DEVICES
for axis in 0..2 {
    let start = random(2049, 333, seed = 3)
    var (a, b) = (start, shard(start, devices, axis = axis, halo = 2))
    for k in 0..40 {
        a = step(a)
        b = step(b)
        if k % 10 == 3 { a[5..1500, ..] *= 1.5\n b[5..1500, ..] *= 1.5 }
    }
    assert(all(a == b))
    assert(sum(a) == sum(b) && max(a) == max(b) && all(sum(a, axis = 0) == sum(b, axis = 0)))
    assert(all(a @ transpose(start) == b @ transpose(start)) && all(2.0 * a - start == 2.0 * b - start))
}
let at = bitcast(f32x4, random(4 * 3000, seed = 5))
var (c, d) = (at, shard(at, devices))
for _ in 0..5 { push(c, c)\n push(gather(d), d) }
assert(all(bitcast(f32, c) == bitcast(f32, gather(d))))
print(\"done\")";
    let two = script("let x = gpus(2)", &["--device", "gpu"]).code == Some(0);
    println!("{}", if two { "on two GPUs" } else { "skipped: a second GPU" });
    let lists = ["[0, 0]", "[0, 0, 0]", "[0, 1]", "[1, 0, 1]"];
    for devices in lists.iter().take(if two { 4 } else { 2 }) {
        let ran = script(&text.replace("DEVICES", devices), &["--device", "gpu"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "done\n"), "{devices}: {}", ran.err);
    }
}

#[test]
fn sessions_continue_after_a_fault() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let entries = "kernel at(j: i32, x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i + j] }\n\
        let x = [1, 2, 3]\nat(1, x)\nat(0, x)\n";
    let mut child = clk(Path::new("."), &["repl", "--plain", "--device", "gpu"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("clk starts");
    use std::io::Write;
    child.stdin.take().expect("a pipe").write_all(entries.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("clk ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(err.contains("E0601"), "{err}");
    assert!(out.contains("[1 2 3]"), "{out}{err}");
}

#[test]
fn unread_arrays_are_not_copied() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let ran = script(
        "kernel step(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 0.5 * x[i] + 1.0 }
         var u = ones(1 << 20)
         for _ in 0..100 { u = step(u) }
         print(u[7])",
        &["--device", "gpu", "--stats"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.trim(), "2.0", "{}", ran.out);
    assert_eq!(stat(&ran, " launches"), 100, "{}", ran.err);
    assert_eq!(stat(&ran, " copies to the device"), 1, "{}", ran.err);
    assert!(ran.err.contains("1 back (4 bytes)"), "{}", ran.err);
}

/// An assignment to a variable reuses the memory of its old value if nothing else reads that value.
#[test]
fn results_reuse_memory_of_dead_operands() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    // The array takes 256 MiB, and must be the only one.
    let ran = script(
        "var x = random(1 << 26) * 1.0
         for _ in 0..20 {
             x = x * 0.5 + 1.0
             x[0] = 1.0
         }
         assert(x[5] > 0.0)",
        &["--device", "gpu", "--stats"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("at most 256.0 MiB"), "{}", ran.err);
    let ran = script(
        "var x = ones(1 << 20)
         let (old, part) = (x, x[5..1000])
         for _ in 0..200 { x = x * 0.5 + old }
         let k = i32(x) - 2
         var n = k + 7
         let rest = n
         n = n * 2 + 1
         assert(x[7] == 2.0 && old[7] == 1.0 && part[2] == 1.0 && all(rest == 7) && all(n == 15))",
        &["--device", "gpu"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

#[test]
fn single_elements_are_written_on_the_device() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let ran = script(
        "kernel step(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = 0.5 * x[i] + 1.0 }
         var u = ones(1 << 20)
         for k in 0..100 {
             u = step(u)
             u[0] = 0.0
             u[len(u) - 1] = f32(k)
         }
         print(u[0], u[7], u[len(u) - 1])",
        &["--device", "gpu", "--stats"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.trim(), "0.0 2.0 99.0", "{}", ran.out);
    assert_eq!(stat(&ran, " copies to the device"), 1, "{}", ran.err);
    assert!(ran.err.contains("3 back (12 bytes)"), "{}", ran.err);
}

/// `argsort` gives the same result on the GPU as on the simulator.
#[test]
fn sort_orders_are_computed_on_the_device() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let ran = script(
        "let x = random_int(0, 1000, 300_000, seed = 3)
         let nan = 0.0 / zeros(1)[0]
         var f = f32(x) - 500.0
         f[x > 900] = nan
         f[x == 3] = -0.0
         let d = f64(f) * 1e200
         let n = i64(x) * 0x1_0000_0000i64 - 100_000_000_000i64
         let on_gpu = (argsort(x), argsort(f), argsort(d), argsort(n))
         on sim {
             assert(argsort(x) == on_gpu.0)
             assert(argsort(f) == on_gpu.1)
             assert(argsort(d) == on_gpu.2)
             assert(argsort(n) == on_gpu.3)
         }
         assert(x[argsort(x)] == sort(x))",
        &["--device", "gpu"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let pairs = fs::read_to_string(root().join("tests/gpu/orders.clk")).expect("a script");
    let ran = script(&pairs, &["--device", "gpu"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = script(
        "var x = random(1 << 22, seed = 1) * 2.0
         x = x + 1.0
         let at = argsort(x)
         print(x[at[0]] <= x[at[1]])",
        &["--device", "gpu", "--stats"],
    );
    assert_eq!((ran.code, ran.out.trim()), (Some(0), "true"), "{}", ran.err);
    assert!(stat(&ran, " back") < 10, "{}", ran.err);
}

#[test]
fn arrays_have_value_semantics_on_the_device() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let ran = script(
        "kernel add(inout x: [i32; N], by: i32) threads(i: N) { x[i] += by }
         kernel sum(x: [i32; N], y: [i32; N], out z: [i32; N]) threads(i: N) { z[i] = x[i] + y[i] }
         var a = zeros(1000, type = i32)
         add(a, 1)
         var b = a
         add(b, 10)
         a[3] = 5
         add(a, 1)
         let c = sum(a, b)
         assert(a[0] == 2 && a[3] == 6 && b[3] == 11 && c[3] == 17 && c[0] == 13)
         on sim { add(a, 1) }
         on gpu { add(a, 1) }
         assert(a[0] == 4 && b[0] == 11)
         assert(sum(a, a)[0] == 8)",
        &["--device", "gpu"],
    );
    assert_eq!(ran.code, Some(0), "{}", ran.err);
}

#[test]
fn kernels_print() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let text = "kernel k(x: [f32; N]) threads(i: N) { if i % 2 == 0 { print(\"{i}: {x[i]:.2}\") } }\nk(linspace(0.0, 1.0, 5))\nprint(\"done\")";
    let [sim, gpu] = ["sim", "gpu"].map(|device| script(text, &["--device", device]));
    let lines = |ran: &RunOutput| {
        let mut lines: Vec<String> = ran.out.lines().map(str::to_string).collect();
        let last = lines.pop();
        lines.sort();
        (lines, last)
    };
    assert_eq!(lines(&sim), lines(&gpu), "{}", gpu.err);
}

#[test]
fn arrays_are_evicted_to_the_host_if_memory_is_full() {
    let _alone = ALONE.write();
    let Some(gpu) = gpu() else { return };
    // Each array takes an eighth of the GPU's memory, so the eighth or ninth array does not fit.
    let side = (gpu.properties().memory / 8 / 8) / 50_000;
    let fill = "kernel fill(v: f64, out y: [f64; M, N]) threads(i: M, j: N) { y[i, j] = v }";
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let let_ = |(k, name)| format!("let {name} = fill({k}.5, M = 50000, N = {side})\n");
    let lets: String = names.iter().enumerate().map(let_).collect();
    let each: Vec<String> = names.iter().map(|name| format!("{{{name}[5, 7]}}")).collect();
    let text = format!("{fill}\n{lets}print(\"{}\")\nprint(b[9, 9] + max(a[0, ..]))\n", each.join(" "));
    let ran = script(&text, &["--device", "gpu"]);
    println!("{}", ran.err);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.trim(), "0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5\n2.0");
    assert_eq!(ran.err.matches("W0607").count(), 1, "{}", ran.err);
    assert!(ran.err.contains("`a`"), "{}", ran.err);
    // If eviction cannot free enough memory, the launch fails with an error, and the session keeps its variables.
    let entries = format!(
        "{fill}\nlet a = fill(1.0, M = 50000, N = {side})\nlet b = fill(2.0, M = 50000, N = {})\na[7, 7]\n",
        8 * side
    );
    let path = tempfile::tempdir().expect("a folder");
    let file = path.path().join("entries");
    fs::write(&file, entries).expect("written");
    let mut command = clk(Path::new("."), &["repl", "--plain", "--device", "gpu"]);
    command.stdin(fs::File::open(&file).expect("a file"));
    let ran = finish(command);
    assert!(ran.err.contains("E0620") && ran.err.contains("`a`"), "{}", ran.err);
    assert!(ran.out.contains("1.0"), "{}{}", ran.out, ran.err);
}

#[test]
fn oversized_work_is_refused_before_it_starts() {
    let _beside = ALONE.read();
    let Some(gpu) = gpu() else { return };
    let side = (gpu.properties().memory / 8) / 50_000 + 1000;
    let text = format!(
        "kernel fill(out y: [f64; M, N]) threads(i: M, j: N) {{ y[i, j] = 1.0 }}\nprint(fill(M = 50000, N = {side})[0, 0])"
    );
    let begin = Instant::now();
    let ran = script(&text, &["--device", "gpu"]);
    println!("{}", ran.err);
    assert!(ran.err.contains("E0621"), "{}", ran.err);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_an_endless_kernel() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let text = "kernel wait(flag: [i32; 1], out done: [i32; N]) threads(i: N) { var n = 0\n while flag[0] == 0 { n += 1 }\n done[i] = n }\nprint(wait([0], N = 64))";
    fs::write(folder.path().join("script.clk"), text).expect("written");
    let mut child = clk(folder.path(), &["run", "--device", "gpu", "script.clk"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("clk starts");
    std::thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().expect("a child").is_none(), "it runs");
    let begin = Instant::now();
    // SAFETY: the child was started by this test and is still running.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    while begin.elapsed() < Duration::from_secs(10) && child.try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let stopped = begin.elapsed();
    let _ = child.kill();
    let output = child.wait_with_output().expect("clk ends");
    println!("stopped after {stopped:?}");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stopped < Duration::from_secs(2), "{stopped:?}");
}

const SAXPY: &str =
    "kernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) { r[i] = a * x[i] + y[i] }
let r = saxpy(2.0, ones(16), ones(16))\nassert(r[15] == 3.0)";

#[test]
fn cached_kernels_survive_damage_of_the_cache() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    fs::write(folder.path().join("script.clk"), SAXPY).expect("written");
    let command = || {
        let mut command = clk(folder.path(), &["run", "--device", "gpu", "--stats", "script.clk"]);
        command.env("CLK_CACHE_DIR", &cache);
        command
    };
    let counts = |ran: &RunOutput| {
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        (stat(ran, " kernels compiled"), stat(ran, " from the cache"))
    };
    // Two processes start at the same time with an empty cache.
    let children: Vec<_> =
        (0..2).map(|_| command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("clk starts")).collect();
    for child in children {
        assert!(child.wait_with_output().expect("clk ends").status.success());
    }
    assert_eq!(counts(&finish(command())), (0, 1), "it was kept");
    // Damages all cache entries: first fills them with garbage, then empties them.
    let files = || fs::read_dir(&cache).expect("a folder").map(|e| e.expect("an entry").path());
    let entries = || files().filter(|path| !path.ends_with("CACHEDIR.TAG")).collect::<Vec<_>>();
    for damage in [&b"nonsense"[..], b""] {
        entries().iter().for_each(|entry| fs::write(entry, damage).expect("written"));
        assert_eq!(counts(&finish(command())), (1, 0), "it was made again");
        assert_eq!(counts(&finish(command())), (0, 1), "and kept");
    }
    // Processes that are killed at various times while they write to the cache.
    for wait in [5, 50, 150, 250, 300, 350, 400, 500] {
        fs::remove_dir_all(&cache).expect("removed");
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("clk starts");
        std::thread::sleep(Duration::from_millis(wait));
        let _ = child.kill();
        child.wait().expect("it ends");
        counts(&finish(command()));
    }
    // There is a file in place of the cache folder.
    fs::remove_dir_all(&cache).expect("removed");
    fs::write(&cache, "").expect("written");
    assert_eq!(counts(&finish(command())), (1, 0));
}

/// Prints how long scripts take from the start of the process to the result. Fails only if a script fails.
#[test]
fn times_from_start_to_result() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("script.clk"), SAXPY).expect("written");
    let time = |fresh: bool| {
        let mut times: Vec<f64> = (0..7)
            .map(|k| {
                let cache = folder.path().join(if fresh { format!("cache{k}") } else { "cache".into() });
                let mut command = clk(folder.path(), &["run", "--device", "gpu", "script.clk"]);
                command.env("CLK_CACHE_DIR", cache);
                let begin = Instant::now();
                let ran = finish(command);
                assert_eq!(ran.code, Some(0), "{}", ran.err);
                begin.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    println!("process start to saxpy of 16: {:.3} s compiled, {:.3} s cached", time(true), time(false));
}

/// Runs a script of `tests/gpu` with `--device both`, which requires the same bits on the simulator and the GPU. The
/// GPU uses its best tensor core instructions, then the sm_80 instructions, also for the rounding models of sm_80 and
/// sm_90. It emulates a model that its tensor cores do not have.
fn has_the_bits_of_the_simulator(script: &str) {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let text = fs::read_to_string(root().join("tests/gpu").join(script)).expect("a script");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("script.clk"), text).expect("written");
    let ways = [("best", None), ("sync", None), ("sync", Some("sm_80")), ("sync", Some("sm_90"))];
    for (instructions, cores) in ways {
        let options: Vec<&str> = cores.iter().flat_map(|&cores| ["--mma", cores]).collect();
        let words = [&["run", "--device", "both", "--stats"], options.as_slice(), &["script.clk"]].concat();
        let mut command = clk(folder.path(), &words);
        command.env("CLK_GPU_TENSOR", instructions);
        let ran = finish(command);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "compared\n"), "{instructions} {cores:?}: {}", ran.err);
        println!("{instructions} {cores:?}: {}", ran.err);
    }
}

#[test]
fn products_match_the_bits_of_the_simulator() {
    has_the_bits_of_the_simulator("products.clk");
}

#[test]
fn tile_programs_match_the_bits_of_the_simulator() {
    has_the_bits_of_the_simulator("tiles.clk");
}
