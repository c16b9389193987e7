//! Tests proofs that the order of blocks and warps does not affect the results.

use std::fmt::Write;
use std::sync::Arc;

use clk_host::interp::{Interpreter, ScriptOptions};
use clk_prove::Property;
use clk_runtime::Control;
use clk_sim::{Jit, Simulator};

use super::{compiled, letter, report};
use clk_testing::world::CapturedOutput;

/// Expected verdicts on whether the order of blocks and warps affects the results, each with a kernel.
#[test]
fn orders() {
    let kernels = [
        ('p', "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { atomic_add(n[0], x[i]) }"),
        (
            'p',
            "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { if x[i] > 0 { atomic_sub(n[0], 1) } else { atomic_add(n[0], 2) } }",
        ),
        // Sums of floats are rounded.
        ('r', "(x: [f32; N], inout n: [f32; 1]) threads(i: N) { atomic_add(n[0], x[i]) }"),
        // A maximum and a sum do not commute.
        (
            'r',
            "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { if i == 0 { atomic_max(n[0], 400) } else { atomic_add(n[0], 1) } }",
        ),
        (
            'p',
            "(x: [i32; N], inout n: [i32; 2]) threads(i: N) { if i % 2 == 0 { atomic_add(n[0], 1) } else { atomic_max(n[1], 4) } }",
        ),
        // The order changes the order of the elements in a queue.
        (
            'r',
            "(x: [i32; N], inout n: [i32; 1], inout y: [i32; M]) threads(i: N) {
            let k = atomic_add(n[0], 1)
            if k >= 0 && k < M { y[k] = i }
        }",
        ),
        // A branch depends on the old value that an atomic operation returns.
        ('r', "(inout n: [i32; 1], inout y: [i32; N]) threads(i: N) { if atomic_add(n[0], 1) == 0 { y[i] = 1 } }"),
        // Through a variable.
        (
            'r',
            "(inout n: [i32; 1], inout y: [i32; N]) threads(i: N) {
            var k = 0
            for j in 0..3 { k += atomic_add(n[0], j) }
            y[i] = k
        }",
        ),
        // No stored value depends on the old values that the atomics return.
        (
            'p',
            "(inout n: [i32; 1], inout y: [i32; N]) threads(i: N) {
            var k = 0
            for j in 0..3 { k += atomic_add(n[0], j) }
            y[i] = 1
        }",
        ),
        // Each thread updates only its own element.
        ('p', "(inout n: [f32; N], inout y: [f32; N]) threads(i: N) { y[i] = atomic_add(n[i], 1.0) }"),
        ('p', "(inout n: [i32; N]) threads(i: N) { atomic_exchange(n[N - 1 - i], i) }"),
        ('r', "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { atomic_store(n[0], i) }"),
        // Other threads load an element while one thread updates it.
        (
            'r',
            "(inout n: [i32; 1], out y: [i32; N]) threads(i: N) {
            if i == 0 { atomic_store(n[0], 3) }
            y[i] = atomic_load(n[0])
        }",
        ),
        ('p', "(inout n: [i32; 1], out y: [i32; N]) threads(i: N) { y[i] = atomic_load(n[0]) }"),
        // Between barriers.
        (
            'p',
            "(x: [i32; N], out y: [i32; ceil_div(N, 64)]) grid(ceil_div(N, 64)) block(64) {
            shared n: [i32; 1]
            if thread_idx.x == 0 { n[0] = 0 }
            barrier()
            if global_idx.x < N && x[global_idx.x] > 0 { atomic_add(n[0], 1) }
            barrier()
            if thread_idx.x == 0 { y[block_idx.x] = n[0] }
        }",
        ),
        (
            'p',
            "(x: [i32; N], out y: [i32; ceil_div(N, 64)]) grid(ceil_div(N, 64)) block(64) {
            shared n: [i32; 1]
            if thread_idx.x == 0 { n[0] = 0 }
            barrier()
            if global_idx.x < N && x[global_idx.x] > 0 { atomic_max(n[0], x[global_idx.x]) }
            barrier()
            if thread_idx.x == 0 { atomic_add(n[0], 1) }
            barrier()
            if thread_idx.x == 5 { y[block_idx.x] = n[0] }
        }",
        ),
        // A barrier orders the threads of a block, but not the blocks.
        (
            'r',
            "(x: [i32; N], inout n: [i32; 1]) grid(N) block(64) {
            atomic_add(n[0], 1)
            barrier()
            if global_idx.x == 0 { atomic_max(n[0], 70) }
        }",
        ),
        // This kernel is not proved free of races. Running it in both orders gives the same result, so the verdict is
        // unknown.
        (
            '.',
            "(x: [i32; N], out y: [i32; N]) grid(N / 64) block(64) {
            shared s: [i32; 64]
            let t = thread_idx.x
            s[t] = x[global_idx.x]
            barrier()
            y[global_idx.x] = atomic_load(s[63 - t]) + s[(t + 1) % 64] + atomic_load(s[t])
        }",
        ),
        // A race.
        ('r', "(x: [i32; N], inout n: [i32; 1]) threads(i: N) { n[0] = i }"),
        ('r', "(inout n: [i32; N]) threads(i: N) { if i > 0 { n[i] = n[i - 1] + 1 } }"),
    ];
    let mut wrong = String::new();
    for (verdict, kernel) in kernels {
        let report = report(&format!("kernel k{kernel}"));
        let actual = letter(&report, Property::Order);
        if actual != verdict {
            let _ =
                writeln!(wrong, "{verdict} expected, {actual} found: {kernel}\n{:?}", report.verdict(Property::Order));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A backward run performs atomic updates in reverse order, in the interpreter and in machine code.
#[test]
fn machine_code_runs_backward() {
    let kernels = [
        "(x: [f32; N], inout y: [f32; 1]) threads(i: N) { if x[i] > 0.5 { atomic_exchange(y[0], x[i]) } }",
        "(x: [f32; N], inout y: [f32; 1]) threads(i: N) { atomic_add(y[0], x[i] / 3.0) }",
        "(x: [f32; N], inout y: [f32; 1]) grid(ceil_div(N, 64)) block(64) {
            let i = global_idx.x
            if i < N { atomic_exchange(y[0], x[i] + 1.0) }
        }",
        "(x: [f32; N], inout y: [f32; 1]) grid(ceil_div(N, 64)) block(64) {
            shared s: [f32; 64]
            s[thread_idx.x] = 2.0
            barrier()
            let i = global_idx.x
            if i < N { atomic_exchange(y[0], x[i] + s[63 - thread_idx.x]) }
        }",
    ];
    for kernel in kernels {
        for n in [40, 200] {
            let text = format!("kernel k{kernel}\nvar y = [0.0]\nk(linspace(0.75, 1.25, {n}), y)\nprint(y)");
            let session = compiled("case.clk", &text).unwrap_or_else(|| panic!("{text}"));
            let ran = |backward: bool, jit: Jit| {
                let control = Control { workers: 1, reverse_order: backward, ..Control::default() };
                let device = Arc::new(Simulator::default().with_jit(jit));
                let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
                let mut world = CapturedOutput::default();
                for chunk in 0..session.program.chunks.len() {
                    interpreter.run_chunk(&session, chunk, &mut world).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
                }
                world.0
            };
            let last = ran(true, Jit::Off);
            assert!(text.contains("add") || ran(false, Jit::Off) != last, "{text}");
            for jit in [Jit::Always, Jit::Forced] {
                assert_eq!(ran(true, jit), last, "{text}");
            }
        }
    }
}
