//! Tests that kernels behave the same in machine code as in the interpreter, even if machine code exits to the
//! interpreter at arbitrary points. Compares the printed text and the complete faults.
//!
//! `tests/machine/*.clk` contain programs, each after a line `//# title`.

mod programs;
mod races;
mod tensor;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::Checks;
use clk_lower::MmaPrecision;
use clk_runtime::Isa;
use clk_runtime::{Control, Device};
use clk_sim::{Jit, Simulator};
use clk_testing::setting;
use clk_testing::world::CapturedOutput;

/// Returns the instruction sets for which machine code can run on this machine; prints a message if there are none.
fn sets() -> Vec<Isa> {
    let is_usable = |isa: &Isa| isa.is_supported() && Jit::Always.is_available(*isa);
    let sets: Vec<Isa> = Isa::ALL.iter().copied().filter(is_usable).collect();
    if sets.is_empty() {
        println!("skipped: this machine or system has no machine code");
    }
    sets
}

/// Runs a program; returns its output, its warnings and its error, if any.
fn run(text: &str, isa: Isa, jit: Jit, control: Control) -> String {
    run_on(text, isa, jit, control).0
}

fn run_on(text: &str, isa: Isa, jit: Jit, control: Control) -> (String, Arc<Simulator>) {
    run_adding(MmaPrecision::default(), text, isa, jit, control)
}

/// Runs a program whose `mma` operations add with the given precision.
fn run_adding(sums: MmaPrecision, text: &str, isa: Isa, jit: Jit, control: Control) -> (String, Arc<Simulator>) {
    let mut session = Session::default();
    let outcome = session.add("machine.clk", text, &NoFiles);
    assert!(!outcome.failed(), "{:#?}", outcome.diagnostics);
    let device = Arc::new(Simulator::with_isa(isa).with_jit(jit));
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device: device.clone() });
    interpreter.mma_precision = sums;
    let mut paper = CapturedOutput::default();
    for chunk in outcome.chunks {
        let result = interpreter.run_chunk(&session, chunk, &mut paper);
        let warnings = interpreter.take_warnings();
        if !warnings.is_empty() {
            paper.0 += &format!("{warnings:#?}");
        }
        if let Err(error) = result {
            return (format!("{}{error:#?}", paper.0), device);
        }
    }
    (paper.0, device)
}

/// The checks of `--check`.
const CHECKS: Checks = Checks { memory: true, arithmetic: true, nan: false };

/// Compares machine code with the interpreter for several combinations of workers and checks, each with one of the
/// instruction sets in turn.
fn check(title: &str, text: &str, sets: &[Isa]) {
    // Several workers may find the faults of a launch in different orders, but report the same one.
    let ways = [(1, Checks::default()), (3, Checks::default()), (3, CHECKS), (1, CHECKS)];
    for ((workers, checks), &isa) in ways.into_iter().zip(sets.iter().cycle()) {
        let control = || Control { workers, checks, ..Control::default() };
        let expected = run(text, isa, Jit::Off, control());
        for jit in [Jit::Always, Jit::Forced, Jit::Forced] {
            let actual = run(text, isa, jit, control());
            assert!(
                actual == expected,
                "{title} ({isa}, {jit}, {workers} workers, {checks:?}): {actual}\nand should be {expected}"
            );
        }
    }
}

#[test]
fn programs_match_in_machine_code() {
    let sets = sets();
    let mut count = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine")).expect("a folder") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        for case in text.split("//#").skip(1) {
            let (title, text) = case.split_once('\n').expect("a title and a program");
            sets.iter().for_each(|isa| check(title, text, &[*isa]));
            count += 1;
        }
    }
    assert!(count >= 15, "{count} programs");
}

/// A block enters machine code only once, even with barriers, if its lanes fill whole batches (the groups of lanes that
/// machine code runs together). Other blocks enter it at least once per barrier interval.
#[test]
fn blocks_with_barriers_are_in_machine_code() {
    for isa in sets() {
        let entered = |[x, y, z]: [u32; 3]| {
            let size = x * y * z;
            let text = format!(
                "kernel k(n: i32, inout a: [i32; N]) grid(4) block({x}, {y}, {z}) {{\n    shared s: [i32; {size}]\n    \
                 let t = (thread_idx.z * {y} + thread_idx.y) * {x} + thread_idx.x\n    \
                 let i = block_idx.x * {size} + t\n    for k in 0..n {{\n        s[t] = a[i]\n        barrier()\n        \
                 a[i] = s[(t + 1) % {size}] + k\n        barrier()\n    }}\n}}\nvar a = arange({})\nk(5, a)\nprint(a)",
                4 * size
            );
            let control = || Control { workers: 1, ..Control::default() };
            let (output, device) = run_on(&text, isa, Jit::Always, control());
            assert_eq!(output, run(&text, isa, Jit::Off, control()), "{isa}, a block of {x}, {y}, {z}");
            let counts = device.statistics().machine_code.expect("the simulator has it");
            assert_eq!(counts.left, 0, "{isa}, a block of {x}, {y}, {z}");
            counts.entered
        };
        for whole in
            [[16, 1, 1], [32, 1, 1], [512, 1, 1], [16, 16, 1], [32, 4, 1], [16, 2, 2], [64, 2, 3], [1024, 1, 1]]
        {
            assert_eq!(entered(whole), 4, "{isa}, a block of {whole:?}");
        }
        for other in [[100, 1, 1], [5, 5, 3], [20, 4, 1]] {
            assert!(entered(other) >= 4 * 5 * 2, "{isa}, a block of {other:?}");
        }
    }
}

/// `CLK_RANDOM_PROGRAMS` is the number of programs, `CLK_RANDOM_SEED` the first seed.
#[test]
fn random_kernels_match_in_machine_code() {
    let sets = sets();
    let Some(best) = sets.last().copied() else { return };
    let (first, count) = (setting("CLK_RANDOM_SEED", 0), setting("CLK_RANDOM_PROGRAMS", 100));
    let (mut compiled, mut faults) = (0, 0);
    for seed in first..first + count {
        let text = programs::program(seed);
        let mut session = Session::default();
        let outcome = session.add("machine.clk", &text, &NoFiles);
        if outcome.failed() {
            // The compiler rejects programs that are certain to fault.
            let why = outcome.diagnostics.iter().find(|d| d.is_error()).map(|d| format!("{} {}", d.code, d.title));
            println!("seed {seed}: refused: {}", why.unwrap_or_default());
            continue;
        }
        compiled += 1;
        faults += u64::from(run(&text, best, Jit::Off, Control::default()).contains("code: \"E06"));
        let mut order = sets.clone();
        order.rotate_left(seed as usize % sets.len());
        check(&format!("seed {seed}\n{text}"), &text, &order);
    }
    println!("{compiled} of {count} compiled, {faults} fault");
    assert!(compiled > count / 2, "{compiled} of {count} programs are accepted");
    assert!(count < 100 || faults > count / 50 && faults < count / 2, "{faults} of {count} programs fault");
}

/// Like [`random_kernels_match_in_machine_code`], for kernels with races and other faults, with checks on.
#[test]
fn checks_match_in_machine_code() {
    let sets = sets();
    if sets.is_empty() {
        return;
    }
    let (first, count) = (setting("CLK_RANDOM_SEED", 0), setting("CLK_RANDOM_PROGRAMS", 100));
    let (mut compiled, mut faults, mut entered, mut left) = (0, [0, 0, 0, 0], 0, 0);
    for seed in first..first + count {
        let text = races::program(seed);
        let mut session = Session::default();
        let outcome = session.add("machine.clk", &text, &NoFiles);
        if outcome.failed() {
            let why = outcome.diagnostics.iter().find(|d| d.is_error()).map(|d| format!("{} {}", d.code, d.title));
            println!("seed {seed}: refused: {}", why.unwrap_or_default());
            continue;
        }
        compiled += 1;
        for (workers, isa_seed) in [(1, seed), (3, seed + 1)] {
            let isa = sets[isa_seed as usize % sets.len()];
            let control = || Control { workers, checks: CHECKS, ..Control::default() };
            let expected = run(&text, isa, Jit::Off, control());
            for jit in [Jit::Always, Jit::Forced] {
                let (output, device) = run_on(&text, isa, jit, control());
                assert!(
                    output == expected,
                    "seed {seed} ({isa}, {jit}, {workers} workers)\n{text}\n{output}\nand should be {expected}"
                );
                let counts = device.statistics().machine_code.expect("the simulator has it");
                (entered, left) = (entered + counts.entered, left + counts.left);
            }
            let codes = ["E0610", "E0611", "E0612", "E06"].map(|code| expected.contains(&format!("code: \"{code}")));
            (0..4).for_each(|k| faults[k] += u64::from(codes[k]));
        }
    }
    println!("{compiled} of {count} compiled; races, unwritten, overflow, any: {faults:?} of {}", 2 * compiled);
    println!("entered {entered} times, left {left} times");
    assert!(compiled > count / 2, "{compiled} of {count} programs are accepted");
    assert!(entered > left && entered > compiled, "entered {entered} times, left {left} times");
    assert!(count < 100 || faults[3] < 2 * compiled && faults[0] > 0 && faults[1] > 0, "{faults:?}");
}

/// These kernels have more live values than there are registers, for each register class.
#[test]
fn kernels_with_hundreds_of_live_values() {
    let (n, m) = (48, 24);
    let mut text =
        String::from("kernel k(x: [f32; N], k: [i32; N], n: i32, out y: [f32; N], out z: [i32; N]) threads(i: N) {\n");
    for a in 0..n {
        text +=
            &format!("var v{a} = x[(i + {a}) % N] * {a}.5\nvar u{a} = k[(i * {a}) % N] + {a}\nvar s{a} = k[{a}] + n\n");
    }
    (0..m).for_each(|a| text += &format!("var b{a} = k[i] % {} == {}\n", a + 2, a % 3));
    text += "for j in 0..n {\n";
    for a in 0..n {
        let (b, c) = ((a + 1) % n, (a * 7 + 3) % n);
        text += &format!("v{a} = v{a} * 0.5 + v{c} * 0.25 + x[(i + j) % N]\n");
        text += &format!("u{a} = u{a} * 3 + u{b} / (j + 1)\ns{a} = s{a} * 5 + k[j * 2 + {a}] - min(s{c}, j)\n");
    }
    (0..m).for_each(|a| text += &format!("b{a} = (b{a} || v{a} > {a}.0) && !b{}\n", (a + 1) % m));
    text += "if b0 { continue }\n";
    (0..n).for_each(|a| text += &format!("if b{} {{ v{a} = exp(v{a} * 0.01) + rsqrt(v{a} * v{a} + 1.0) }}\n", a % m));
    text += "if b1 && v0 > 10.0 { break }\n}\n";
    let sum = |of: &dyn Fn(usize) -> String, n: usize| (0..n).map(of).collect::<Vec<_>>().join(" + ");
    text += &format!("y[i] = {}\n", sum(&|a| format!("v{a}"), n));
    let masks = sum(&|a| format!("i32(b{a}) * {}", 1 << (a % 20)), m);
    text += &format!("z[i] = {} + {masks}\n}}\n", sum(&|a| format!("u{a} * {} + s{a}", a + 1), n));
    text += "let (y, z) = k(random(333, seed = 1), arange(333) * 17 % 101, 9)\nprint(y, z)\n";
    check("live values", &text, &sets());
}

/// A kernel with an endless loop. Its input is also its output, so the loop would end at once if the launch were
/// restarted after it has written results.
const ENDLESS: &str = "
kernel endless(inout x: [i32; N]) threads(i: N) {
    var n = x[i]
    while n >= 0 {
        n = (n + 1) & 1023
        x[i] = n - 5000
    }
}
var x = arange(100)
endless(x)
print(x)
";

#[test]
fn endless_machine_code_can_be_stopped() {
    for (isa, jit) in sets().into_iter().flat_map(|isa| [(isa, Jit::Off), (isa, Jit::Always)]) {
        let control = Control { workers: 2, ..Control::default() };
        let stop = control.stop.clone();
        let start = Instant::now();
        let running = thread::spawn(move || run(ENDLESS, isa, jit, control));
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let output = running.join().expect("no panic");
        assert!(output.contains("E0607"), "{isa}, {jit}: {output}");
        assert!(start.elapsed() < Duration::from_secs(20), "{isa}, {jit}: it took {:?}", start.elapsed());
    }
}

#[test]
fn many_launches_at_once_share_machine_code() {
    let sets = sets();
    if sets.is_empty() {
        return;
    }
    let text = include_str!("../machine/memory.clk");
    let cases: Vec<&str> = text.split("//#").skip(1).filter_map(|c| c.split_once('\n')).map(|c| c.1).collect();
    let threads: Vec<_> = (0..6)
        .map(|at| {
            let (case, isa) = (cases[at % cases.len()].to_string(), sets[at % sets.len()]);
            thread::spawn(move || {
                let control = || Control { workers: 2, ..Control::default() };
                let expected = run(&case, isa, Jit::Off, control());
                (0..5).for_each(|_| assert_eq!(run(&case, isa, Jit::Forced, control()), expected));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}
