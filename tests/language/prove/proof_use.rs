//! Tests that checked runs which skip proved properties give the same reports and results as runs with all checks.

use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_runtime::{Control, Device};
use clk_sim::{Jit, Proofs, Simulator};

use super::{compiled, random, random_contracts};
use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;

#[derive(Debug, Default)]
pub struct Tally {
    kernels: u64,
    pub runs: u64,
    /// Number of runs in which a fault or a warning was reported.
    pub reports: u64,
}

/// One device with all checks, and three that skip proved checks: interpreted, in machine code, and in machine code
/// with forced exits.
struct Several([Interpreter; 4]);

impl Several {
    fn new() -> Several {
        let interpreter = |proofs, jit| {
            let checks = Checks { memory: true, arithmetic: true, nan: false };
            let control = Control { workers: 1, checks, max_steps: 100_000, ..Control::default() };
            let device = Arc::new(Simulator::default().with_jit(jit).with_proofs(proofs));
            Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device })
        };
        let always = [Jit::Off, Jit::Always, Jit::Forced].map(|jit| (Proofs::Always, jit));
        let all = [(Proofs::Unused, Jit::Off), always[0], always[1], always[2]];
        Several(all.map(|(proofs, jit)| interpreter(proofs, jit)))
    }

    /// Runs a script on all devices; returns its reports.
    fn run(&mut self, session: &mut Session, serial: usize, script: &str, kernel: &str) -> Vec<Diagnostic> {
        let outcome = session.add(&format!("<{serial}>"), script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let mut runs = self.0.iter_mut().map(|interpreter| {
            let mut world = CapturedOutput::default();
            let mut diagnostics: Vec<Diagnostic> = vec![];
            for chunk in outcome.chunks.clone() {
                if let Err(error) = interpreter.run_chunk(session, chunk, &mut world) {
                    diagnostics.push(*error);
                    break;
                }
            }
            diagnostics.extend(interpreter.take_warnings());
            (diagnostics, world.0)
        });
        let everything = runs.next().expect("a run");
        for (which, other) in runs.enumerate() {
            assert_eq!(
                everything.0, other.0,
                "run {which}, which skips proved checks, has other reports\n{kernel}{script}"
            );
            let (one, two) = (&everything.1, &other.1);
            assert!(!everything.0.is_empty() || one == two, "run {which} returns {two}, not {one}\n{kernel}{script}");
        }
        everything.0
    }
}

/// Compares runs of one kernel from each of the two generators of random kernels.
pub fn compare(seed: u64, tally: &mut Tally) {
    let sizes = (0..=6).flat_map(|n| (0..=6).map(move |m| (n, m))).enumerate();
    let plain = sizes.map(|(serial, (n, m))| {
        let fill = ["zeros", "ones"][serial % 2];
        format!("var y{serial} = zeros({m}, type = i32)\nk({fill}({n}, type = i32), y{serial})\nprint(y{serial})\n")
    });
    let text = random::kernel(seed);
    launches(&text, plain.collect(), tally);
    // Repeats the comparison with blocks of 32 threads, which are whole vectors and run at once.
    if text.contains("block(8)") {
        let wide = text.replace("block(8)", "block(32)").replace("(M, 8)", "(M, 32)").replace("[i32; 8]", "[i32; 32]");
        let sizes = [(0, 31), (1, 32), (5, 5), (31, 70), (32, 32), (33, 40)];
        let launch = |(n, m): &(i32, i32)| {
            format!("var y{m} = zeros({m}, type = i32)\nk(ones({n}, type = i32), y{m})\nprint(y{m})\n")
        };
        launches(&wide, sizes.iter().map(launch).collect(), tally);
    }
    let text = random_contracts::kernel(seed);
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let narrow = text.contains("b: [u8");
    let launch = |serial| random_contracts::launch(&mut random, serial, narrow) + &format!("print(y{serial})\n");
    launches(&text, (0..60).map(launch).collect(), tally);
}

fn launches(text: &str, launches: Vec<String>, tally: &mut Tally) {
    let Some(mut session) = compiled("random.clk", text) else { return };
    tally.kernels += 1;
    let mut several = Several::new();
    for (serial, script) in launches.into_iter().enumerate() {
        tally.runs += 1;
        tally.reports += u64::from(!several.run(&mut session, serial, &script, text).is_empty());
    }
}

/// Runs launches of kernels, and compares the codes of the reports, which are joined by spaces.
fn cases(text: &str, launches: &[(&str, &str)]) {
    let mut session = compiled("case.clk", text).unwrap_or_else(|| panic!("{text}"));
    let mut several = Several::new();
    for (serial, (script, codes)) in launches.iter().enumerate() {
        let diagnostics = several.run(&mut session, serial, script, text);
        let actual = diagnostics.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>().join(" ");
        assert_eq!(actual, *codes, "{text}{script}");
    }
}

/// Kernels without races, but with uninitialized reads of shared memory and of arrays.
#[test]
fn unwritten_elements() {
    cases(
        "kernel hole(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 32)) block(32) {
            shared s: [i32; 33]
            let (t, i) = (thread_idx.x, global_idx.x)
            if i < N { s[t] = x[i] }
            barrier()
            if i < N { y[i] = s[t + 1] + s[t] }
        }
        kernel late(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 32)) block(32) {
            shared s: [i32; 32]
            let (t, i) = (thread_idx.x, global_idx.x)
            let before = s[31 - t]
            barrier()
            s[t] = t
            barrier()
            if i < N { y[i] = x[i] + before + s[31 - t] }
        }
        kernel loops(n: i32, out y: [i32; M]) grid(1) block(32) {
            shared s: [i32; 32]
            let t = thread_idx.x
            var sum = 0
            for k in 0..n {
                if k > 0 { sum += s[31 - t] }
                barrier()
                if t < 31 - k { s[t] = k }
                barrier()
            }
            if t < M { y[t] = sum }
        }
        kernel ahead(n: i32, out y: [i32; M]) grid(1) block(32) assume n <= 32 {
            shared s: [i32; 32]
            let t = thread_idx.x
            var sum = 0
            for k in 0..n {
                if t == k { s[k] = 1 }
                barrier()
                sum += s[31 - k]
                barrier()
            }
            if t < M { y[t] = sum }
        }
        kernel behind(n: i32, out y: [i32; M]) grid(1) block(32) assume n <= 32 {
            shared s: [i32; 32]
            let t = thread_idx.x
            var sum = 0
            for k in 0..n {
                if t == k { s[k] = 1 }
                barrier()
                sum += s[k / 2]
                barrier()
            }
            if t < M { y[t] = sum }
        }
        kernel tiles(x: [i32; N], n: i32, out y: [i32; 16, 16]) grid(1) block(16, 16) {
            shared s: [i32; 16, 16]
            let (i, j) = (thread_idx.y, thread_idx.x)
            var sum = 0
            for k in 0..n {
                if N > 3 { s[i, j] = k }
                barrier()
                for c in 0..16 { sum += s[i, c] }
                barrier()
            }
            y[i, j] = sum
        }
        kernel counts(x: [i32; N], first: i32, out y: [i32; 64]) grid(1) block(32) {
            shared s: [i32; 64]
            let t = thread_idx.x
            for c in t + first..64 step 32 { s[c] = 0 }
            barrier()
            if t < N { atomic_add(s[x[t]], 1) }
            barrier()
            for c in t..64 step 32 { y[c] = s[c] }
        }
        kernel halo(x: [i32; N], wide: i32, out y: [i32; 32]) grid(1) block(32) {
            shared s: [i32; 34]
            let t = thread_idx.x
            s[t + 1] = t
            if t < wide { s[t * 33] = 0 }
            barrier()
            y[t] = s[t] + s[t + 1] + s[t + 2]
        }
        kernel early(x: [i32; N], out y: [i32; 32]) grid(1) block(32) {
            shared s: [i32; 32]
            let t = thread_idx.x
            if t < N && x[t] > 0 { return }
            s[t] = t
            y[t] = 1
            if t > 0 { y[t] = s[t - t % 2] }
        }
        kernel again(out y: [i32; N]) threads(i: N) { if i > 2 { y[i] = 1 } y[i] = y[i] + 1 }
        kernel part(out y: [i32; N]) threads(i: N) { if i > 2 { y[i] = 1 } }
        kernel back(out y: [i32; N]) grid(ceil_div(N, 32)) block(32) {
            let i = global_idx.x
            if i < N && i != 40 { y[i] = i }
            barrier()
            if i < N { y[i] = y[i / 32 * 32] }
        }
        struct Pair { a: i32, b: i32 }
        kernel pairs(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 32)) block(32) {
            shared s: [Pair; 32]
            let (t, i) = (thread_idx.x, global_idx.x)
            s[t].a = t
            if i < N && x[i] > 0 { s[t].b = 1 }
            barrier()
            if i < N { y[i] = s[31 - t].a + s[31 - t].b }
        }
        kernel halves(out y: [i32x2; N]) threads(i: N) { y[i].x = i }
        ",
        &[
            ("var a = zeros(0, type = i32)\nhole(zeros(0, type = i32), a)\n", ""),
            ("var b = zeros(40, type = i32)\nhole(ones(40, type = i32), b)\n", "E0611"),
            ("var c = zeros(31, type = i32)\nhole(ones(31, type = i32), c)\n", "E0611"),
            ("var d = zeros(64, type = i32)\nlate(ones(64, type = i32), d)\n", "E0611"),
            ("var e = zeros(32, type = i32)\nloops(3, e)\n", "E0611"),
            ("var f = zeros(32, type = i32)\nloops(1, f)\n", ""),
            ("var n = zeros(32, type = i32)\nahead(32, n)\n", "E0611"),
            ("var o = zeros(32, type = i32)\nahead(0, o)\n", ""),
            ("var p = zeros(32, type = i32)\nbehind(32, p)\n", ""),
            ("var q = zeros(16, 16, type = i32)\ntiles(ones(4, type = i32), 3, q)\nprint(q)\n", ""),
            ("var r = zeros(16, 16, type = i32)\ntiles(ones(3, type = i32), 3, r)\n", "E0611"),
            ("var s = zeros(16, 16, type = i32)\ntiles(ones(3, type = i32), 0, s)\n", ""),
            ("var t = zeros(64, type = i32)\ncounts([1, 40, 1], 0, t)\nprint(t)\n", ""),
            ("var u = zeros(64, type = i32)\ncounts([1, 40, 1], 3, u)\n", "E0611"),
            ("var v = zeros(32, type = i32)\nhalo([1], 2, v)\nprint(v)\n", ""),
            ("var w = zeros(32, type = i32)\nhalo([1], 1, w)\n", "E0611"),
            ("var x = zeros(32, type = i32)\nearly(zeros(3, type = i32), x)\n", "E0610"),
            ("var g = zeros(3, type = i32)\nagain(g)\n", "E0611"),
            ("var h = zeros(0, type = i32)\nagain(h)\n", ""),
            ("var i = zeros(5, type = i32)\npart(i)\n", "W0602"),
            ("var j = zeros(70, type = i32)\nback(j)\n", "E0610"),
            ("var k = zeros(40, type = i32)\npairs(ones(40, type = i32), k)\n", "E0611"),
            ("var l = zeros(64, type = i32)\npairs(ones(64, type = i32), l)\n", ""),
            ("var m = zeros(64, type = i32)\npairs(zeros(64, type = i32), m)\n", "E0611"),
        ],
    );
}

/// A proof does not apply to launches that override the geometry of the signature, that violate `assume` clauses, or
/// whose threads reach different barriers.
#[test]
fn proof_assumptions() {
    cases(
        "kernel own(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 32)) block(32) {
            shared s: [i32; 32]
            let (t, i) = (thread_idx.x, global_idx.x)
            s[t % 32] = t
            barrier()
            if i < N { y[i % N] = x[i] + s[31 - t % 32] }
        }
        kernel scatter(x: [i32; N], at: [i32; N], inout y: [i32; M]) threads(i: N)
            assume all(at >= 0 && at < M), distinct(at)
        { y[at[i]] = x[i] }
        kernel parted(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 32)) block(32) {
            shared s: [i32; 32]
            let (t, i) = (thread_idx.x, global_idx.x)
            s[t] = t
            if i < N { barrier() }
            if i < N { y[i] = s[31 - t] + x[i] }
        }
        kernel steps(step: i32, inout y: [i32; M]) threads(i: 8) assume step > 0 { y[i * step] = i }
        kernel any(step: i32, inout y: [i32; M]) threads(i: 8) { if i * step >= 0 && i * step < M { y[i * step] = i } }
        kernel sums(x: [i32; N], inout y: [i32; M]) threads(i: N) { atomic_add(y[x[i]], 1) }
        kernel fresh(x: [i32; N], out y: [i32; 8]) grid(1) block(32) {
            let t = thread_idx.x
            if t > 0 && t < 8 { y[t] = 0 }
            barrier()
            if t < N { atomic_add(y[x[t]], 1) }
        }
        kernel bins(x: [i32; N], out y: [i32; 8]) grid(1) block(32) {
            shared s: [i32; 8]
            let t = thread_idx.x
            if t < 7 { s[t] = 0 }
            barrier()
            if t < N { atomic_add(s[x[t]], 1) }
            barrier()
            if t < 8 { y[t] = s[t] }
        }
        kernel overflow(k: i32, inout y: [i32; N]) threads(i: N) { y[(i * k) % N] = i }
        kernel both(inout a: [i32; N], inout b: [i32; N]) threads(i: N) {
            a[i] = b[N - 1 - i]
            b[N - 1 - i] = 7
        }
        fn wrapper(x: [i32; N], inout y: [i32; N]) { own<<<2, 64>>>(x, y) }
        fn plain(x: [i32; N], inout y: [i32; N]) { own(x, y) }
        ",
        &[
            ("var a = zeros(40, type = i32)\nown(ones(40, type = i32), a)\n", ""),
            ("var b = zeros(40, type = i32)\nown<<<2, 64>>>(ones(40, type = i32), b)\n", "E0610"),
            ("var c = zeros(40, type = i32)\nwrapper(ones(40, type = i32), c)\n", "E0610"),
            ("var d = zeros(40, type = i32)\nplain(ones(40, type = i32), d)\n", ""),
            ("var e = zeros(4, type = i32)\nscatter([1, 2, 3], [3, 1, 2], e)\n", ""),
            ("var f = zeros(4, type = i32)\nscatter([1, 2, 3], [3, 1, 3], f)\n", "E0525"),
            ("var g = zeros(4, type = i32)\nscatter([1, 2, 3], [3, 1, 4], g)\n", "E0525"),
            ("var h = zeros(40, type = i32)\nparted(ones(40, type = i32), h)\n", "E0604"),
            ("var i = zeros(64, type = i32)\nparted(ones(64, type = i32), i)\n", ""),
            ("var j = zeros(40, type = i32)\nsteps(3, j)\n", ""),
            ("var k = zeros(4, type = i32)\nsteps(3, k)\n", "E0601"),
            ("var l = zeros(40, type = i32)\nany(0, l)\n", "E0610"),
            ("var m = zeros(40, type = i32)\nany(-3, m)\n", ""),
            ("var n = zeros(4, type = i32)\nsums([1, 1, 3], n)\n", ""),
            ("var o = zeros(4, type = i32)\nsums([1, 1, 4], o)\n", "E0601"),
            ("var p = zeros(8, type = i32)\nfresh([1, 1, 3], p)\n", "W0602"),
            ("var w = zeros(8, type = i32)\nfresh([1, 1, 0], w)\n", "E0611"),
            ("var q = zeros(8, type = i32)\nbins([1, 1, 3], q)\n", "E0611"),
            ("var r = zeros(8, type = i32)\nbins([1, 7, 3], r)\n", "E0611"),
            ("var s = zeros(8, type = i32)\noverflow(2147483647, s)\n", "E0612"),
            ("var t = zeros(8, type = i32)\noverflow(2, t)\n", "E0610"),
            ("var u = zeros(8, type = i32)\nvar v = ones(8, type = i32)\nboth(u, v)\nprint(u, v)\n", ""),
        ],
    );
}

/// A loop over a tile becomes one vectorized operation if no check needs its individual accesses.
#[test]
fn tiles() {
    cases(
        "kernel product(a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]) grid(ceil_div(N, 32), ceil_div(M, 16)) block(64) {
            let (i, j) = (16 * block_idx.y, 32 * block_idx.x)
            shared acc: [f32; 16, 32]
            acc = 0.0
            for k in 0..K step 16 { acc = mma(acc, a[i..i + 16, k..k + 16], b[k..k + 16, j..j + 32]) }
            c[i..i + 16, j..j + 32] = acc
        }
        kernel turned(a: [bf16; K, M], b: [bf16; N, K], shift: i32, out c: [f32; M, N]) grid(ceil_div(N, 32), ceil_div(M, 16)) block(96) {
            let (i, j) = (16 * block_idx.y, 32 * block_idx.x)
            shared acc: [f32; 16, 32]
            acc = 0.0
            for k in shift..K step 16 {
                acc = mma(acc, transpose(a[k..k + 16, i..i + 16]), transpose(b[j..j + 32, k..k + 16]))
            }
            c[i..i + 16, j..j + 32] = acc
        }
        kernel twice(a: [bf16; M, 16], b: [bf16; 16, 32], part: i32, out c: [f32; M, 32]) grid(ceil_div(M, 16)) block(64) {
            let i = 16 * block_idx.x
            shared left: [bf16; 16, 16]
            shared acc: [f32; 16, 32]
            acc = 0.0
            for k in 0..2 {
                if k >= part { left = a[i..i + 16, 0..16] }
                acc = mma(acc, left, b[0..16, 0..32])
            }
            c[i..i + 16, 0..32] = acc
        }
        kernel squared(inout a: [bf16; M, 16], step: i32) grid(ceil_div(M, 16)) block(64) {
            let i = 16 * block_idx.x
            shared acc: [f32; 16, 16]
            acc = 0.0
            acc = mma(acc, a[i * step..i * step + 16, 0..16], a[i..i + 16, 0..16])
            a[i..i + 16, 0..16] = bf16(acc)
        }
        kernel apart(x: [f32; M, 16], by: i32, out y: [f32; M, 16]) grid(ceil_div(M, 16)) block(64) {
            let i = by * block_idx.x
            shared t: [f32; 16, 16]
            t = x[i..i + 16, 0..16]
            y[i..i + 16, 0..16] = t + reshape(t, 16, 16)
        }
        fn made(rows: i32, columns: i32) -> [bf16; _, _] { bf16(reshape(random_normal(rows * columns, seed = 3), rows, columns)) }
        ",
        &[
            ("print(product(made(35, 21), made(21, 70)))\n", ""),
            ("print(turned(made(21, 35), made(70, 21), 0))\n", ""),
            ("print(turned(made(21, 35), made(70, 21), -16))\n", ""),
            ("print(turned(made(21, 35), made(70, 21), 16))\n", ""),
            ("print(twice(made(35, 16), made(16, 32), 0))\n", ""),
            ("print(twice(made(35, 16), made(16, 32), 1))\n", "E0611"),
            ("var a = made(35, 16)\nsquared(a, 1)\nprint(a)\n", ""),
            ("var b = made(35, 16)\nsquared(b, 0)\n", "E0610"),
            ("print(apart(reshape(arange(35.0 * 16.0), 35, 16), 16))\n", ""),
            ("print(apart(reshape(arange(35.0 * 16.0), 35, 16), 8))\n", "W0601 W0602"),
            ("print(apart(reshape(arange(35.0 * 16.0), 35, 16), 1073741820))\n", "E0612"),
        ],
    );
}

/// Launches use separate code without the proved checks, unless all checks are requested, the launch has few threads,
/// or it overrides the geometry.
#[test]
fn proved_checks_are_removed_from_code() {
    let text = "kernel sums(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 64)) block(64) {
        shared s: [i32; 64]
        let (t, i) = (thread_idx.x, global_idx.x)
        s[t] = if i < N { x[i] } else { 0 }
        barrier()
        if i < N { y[i] = s[63 - t] }
    }
    var y = zeros(4000, type = i32)\n";
    let regions = |proofs, launch: &str| {
        let session = compiled("case.clk", &format!("{text}{launch}")).unwrap_or_else(|| panic!("{launch}"));
        let device = Arc::new(Simulator::default().with_jit(Jit::Always).with_proofs(proofs));
        let checks = Checks { memory: true, arithmetic: true, nan: false };
        let control = Control { workers: 1, checks, ..Control::default() };
        let mut interpreter =
            Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device: device.clone() });
        for chunk in 0..session.program.chunks.len() {
            interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()).unwrap_or_else(|e| panic!("{e:?}"));
        }
        device.statistics().machine_code.map_or(0, |code| code.regions)
    };
    let (single, often) = ("sums(ones(4000, type = i32), y)", "for _ in 0..20 { sums(ones(4000, type = i32), y) }");
    let all = regions(Proofs::Unused, often);
    assert!(regions(Proofs::Always, single) > all);
    assert_eq!(regions(Proofs::Used, single), all);
    assert!(regions(Proofs::Used, often) > all);
    assert_eq!(regions(Proofs::Always, "sums<<<63, 64>>>(ones(4000, type = i32), y)"), all);
}
