//! Tests that code patterns for which the simulator has superinstructions (fused ops) give the same bits as in the
//! reference interpreter. Edge cases include odd extents, blocks of several rows, one worker and several, and
//! out-of-bounds accesses.

mod arrays;
mod values;

use std::sync::Arc;

use clk_compile::{NoFiles, Session};
use clk_ir::PreparedKernel;
use clk_ir::def::Module;
use clk_lower::{Instance, lower};
use clk_runtime::{Arg, Control, Device, FaultKind, LaunchExtents};

use clk_testing::isa::some_simulators;
use clk_testing::reference;

/// An argument of a launch.
#[derive(Clone)]
enum Word {
    In(Vec<u32>),
    Out(Vec<u32>),
    /// An array that is read and written: element size and number of elements.
    Small(Vec<u32>, usize, usize),
    Value(i32),
}

fn argument(word: &mut Word) -> Arg<'_> {
    match word {
        Word::In(words) => Arg::Read { shape: vec![words.len() as u32], bytes: bytemuck::cast_slice_mut(words) },
        Word::Out(words) => Arg::Write { shape: vec![words.len() as u32], bytes: bytemuck::cast_slice_mut(words) },
        Word::Small(words, size, n) => {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
            Arg::Write { shape: vec![*n as u32], bytes: &mut bytes[..*n * *size] }
        }
        Word::Value(value) => Arg::Value(vec![clk_scalar::ScalarValue::of(*value)]),
    }
}

fn arguments(words: &mut [Word]) -> Vec<Arg<'_>> {
    words.iter_mut().map(argument).collect()
}

fn compiled(text: &str) -> Module {
    let mut session = Session::default();
    let outcome = session.add("forms.clk", text, &NoFiles);
    assert!(!outcome.failed(), "{text}\n{:#?}", outcome.diagnostics);
    let kernel = session.program.kernels.ids().next_back().expect("a kernel");
    lower(&session.program, &Instance::new(kernel, vec![])).unwrap_or_else(|e| panic!("{text}\n{e:#?}"))
}

/// Runs a kernel on the simulator (with one worker and with three, each with each instruction set) and on the
/// reference, and compares them. Returns the kind of the fault, if any.
fn agree(text: &str, extents: LaunchExtents, words: &[Word]) -> Option<FaultKind> {
    let module = compiled(text);
    let mut expected = words.to_vec();
    let outcome = reference::launch(&module, extents, &mut arguments(&mut expected));
    let prepared = clk_pass::prepare(module).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let prepared: Arc<PreparedKernel> = Arc::new(prepared);
    let mut fault = None;
    for (workers, simulator) in [1, 3].into_iter().flat_map(|w| some_simulators().into_iter().map(move |s| (w, s))) {
        let mut memory = words.to_vec();
        let control = Control { workers, ..Control::default() };
        let run = simulator.load(prepared.clone(), None).launch(&extents.into(), &mut arguments(&mut memory), &control);
        if let Err(memory) = run {
            let same =
                |f: &&clk_runtime::Fault| (&f.kind, f.thread, f.block) == (&memory.kind, memory.thread, memory.block);
            assert!(
                outcome.faults.iter().any(|f| same(&f)),
                "{text}\n{memory:?}\nexpected one of {:#?}",
                outcome.faults
            );
            fault = Some(memory.kind);
            continue;
        }
        assert!(outcome.faults.is_empty(), "{text}\nno fault, but {:#?}", outcome.faults);
        for (k, pair) in expected.iter().zip(&memory).enumerate() {
            if let (Word::Out(expected), Word::Out(memory)) | (Word::Small(expected, ..), Word::Small(memory, ..)) =
                pair
            {
                assert_eq!(expected, memory, "argument {k}, {workers} workers, {simulator:?}, {extents:?}\n{text}");
            }
        }
    }
    fault
}

fn grid(blocks: u32, block: [u32; 2]) -> LaunchExtents {
    LaunchExtents::Grid { grid: [blocks, 1, 1], block: [block[0], block[1], 1] }
}

/// Returns deterministic pseudo-random words.
fn noise(n: usize, seed: u32) -> Vec<u32> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x
    };
    (0..n).map(|_| next()).collect()
}

fn floats(n: usize, seed: u32) -> Vec<u32> {
    noise(n, seed).into_iter().map(|x| (x as f32 / 4e9 - 0.3).to_bits()).collect()
}

#[test]
fn tree_reductions_in_shared_memory() {
    let joints = [
        ("f32", "s[t] += s[t + d]"),
        ("f32", "s[t] = max(s[t], s[t + d])"),
        ("f32", "s[t] = min(s[t], s[t + d])"),
        ("f32", "s[t] *= s[t + d]"),
        ("f32", "s[t] -= s[t + d]"),
        ("i32", "s[t] += s[t + d]"),
        ("i32", "s[t] = max(s[t], s[t + d])"),
        ("i32", "s[t] = min(s[t], s[t + d])"),
        ("i32", "s[t] = s[d + t] + s[t]"),
        ("i32", "s[t] = s[t] + s[t + d + 1]"),
    ];
    for (ty, joint) in joints {
        for (start, block) in [
            ("128", [256, 1]),
            ("n / 2", [256, 1]),
            ("64", [256, 1]),
            ("96", [256, 1]),
            ("100", [200, 1]),
            ("8", [32, 1]),
            ("7", [16, 1]),
            ("1", [4, 1]),
            ("0", [64, 1]),
            ("-5", [64, 1]),
            ("128", [64, 1]),
        ] {
            let text = format!(
                "kernel tree(x: [{ty}; N], out y: [{ty}; N], out last: [i32; 1], n: i32) grid(2) block({}, {}) {{
                     shared s: [{ty}; 257]
                     let t = thread_idx.x
                     s[t] = x[t]
                     barrier()
                     var d = {start}
                     while d > 0 {{
                         if t < d {{ {joint} }}
                         barrier()
                         d /= 2
                     }}
                     y[t] = s[t]
                     if t == 0 {{ last[0] = d }}
                 }}",
                block[1], block[0]
            );
            let n = block[0] as usize;
            let x = if ty == "f32" { floats(n, 7) } else { noise(n, 7) };
            let words = [Word::In(x), Word::Out(vec![0; n]), Word::Out(vec![9]), Word::Value(n as i32)];
            assert_eq!(agree(&text, grid(2, block), &words), None);
        }
    }
}

#[test]
fn tree_reductions_out_of_bounds_fault() {
    let text = "kernel tree(out y: [f32; N], d0: i32) grid(1) block(64) {
        shared s: [f32; 64]
        let t = thread_idx.x
        s[t] = f32(t)
        barrier()
        var d = d0
        while d > 0 {
            if t < d { s[t] += s[t + d] }
            barrier()
            d >>= 1
        }
        y[t] = s[t]
    }";
    for (start, faults) in [(32, false), (33, true), (40, true), (64, true), (1000, true)] {
        let words = [Word::Out(vec![0; 64]), Word::Value(start)];
        let fault = agree(text, grid(1, [64, 1]), &words);
        assert_eq!(matches!(fault, Some(FaultKind::OutOfBounds { .. })), faults, "{start}: {fault:?}");
    }
}

#[test]
fn comparisons_along_a_row() {
    for op in ["<", "<=", ">", ">=", "==", "!="] {
        for (left, right) in [
            ("t", "k"),
            ("k", "t"),
            ("2 * t", "k"),
            ("k", "3 * t"),
            ("-t", "-k"),
            ("t", "2 * t - k"),
            ("t + k", "t + 5"),
        ] {
            let text = format!(
                "kernel rows(out y: [i32; N], k: i32) grid(1) block(50) {{
                     let t = thread_idx.x
                     var v = 1
                     if {left} {op} {right} {{ v = 2 }}
                     if t > 3 && {left} {op} {right} {{
                         if t < 40 {{ v += 5 }}
                         if t != 20 {{ v += 7 }}
                     }}
                     if !({left} {op} {right}) {{ if t >= 7 {{ v *= 3 }} }}
                     y[t] = v
                 }}"
            );
            for k in [-100, -1, 0, 1, 5, 17, 48, 49, 50, 51, 98, i32::MAX, i32::MIN] {
                let words = [Word::Out(vec![0; 50]), Word::Value(k)];
                assert_eq!(agree(&text, grid(1, [50, 1]), &words), None);
            }
        }
    }
}

#[test]
fn division_by_powers_of_two() {
    let specials =
        [0u32, 1, 2, 3, 7, 8, 9, u32::MAX, u32::MAX - 1, u32::MAX - 7, 1 << 31, (1 << 31) + 1, (1 << 31) - 1];
    let x: Vec<u32> = specials.into_iter().chain(noise(51, 3)).collect();
    for ty in ["i32", "u32"] {
        for divisor in ["1", "2", "8", "1024", "1073741824"] {
            let text = format!(
                "kernel halves(x: [{ty}; N], out q: [{ty}; N], out r: [{ty}; N], k: i32) threads(i: N) {{
                     q[i] = x[i] / {divisor}
                     r[i] = x[i] % {divisor} + {ty}(k / {divisor} + k % {divisor})
                 }}"
            );
            let words = [Word::In(x.clone()), Word::Out(vec![0; 64]), Word::Out(vec![0; 64]), Word::Value(-77)];
            assert_eq!(agree(&text, LaunchExtents::Threads([64, 1, 1]), &words), None);
        }
    }
}

#[test]
fn atomic_additions_with_unused_results() {
    let bodies = [
        "atomic_add(y[i32(x[g] % 32)], 1)",
        "atomic_add(y[i32(x[g] % 32)], x[g])",
        "atomic_sub(y[i32(x[g] % 32)], x[g])",
        "atomic_add(y[0], x[g])",
        "atomic_add(y[t % 8], x[g])",
        "atomic_add(y[t], x[g])",
        "atomic_add(y[2 * t], 3)",
        "if t < 11 { atomic_sub(y[t], x[g]) }",
        "if x[g] % 3 == 0 { atomic_add(y[t], x[g]) }",
        "if x[g] % 3 == 0 { atomic_add(y[1], x[g]) }",
        "if x[g] % 3 == 0 { atomic_add(y[i32(x[g] % 32)], x[g]) }",
        "atomic_add(y[block_idx.x], 1)",
        "atomic_add(y[t], x[g])\n if t == 0 { atomic_max(y[3], 5) }",
        "let old = atomic_add(y[t], x[g])\n if old == 12345 { atomic_add(y[0], 1) }",
        "atomic_add(s[i32(x[g] % 32)], 1)\n barrier()\n if t < 32 { atomic_add(y[t], s[t]) }",
        "atomic_add(s[t % 32], x[g])\n barrier()\n atomic_add(y[t % 32], s[t % 32])",
        "atomic_add(y[i32(x[g] % 200)], 1)",
        "atomic_add(y[t + 60], 1)",
    ];
    for body in bodies {
        for block in [64, 50, 7] {
            let text = format!(
                "kernel sums(x: [u32; N], inout y: [u32; 128]) grid(5) block({block}) {{
                     shared s: [u32; 32]
                     let t = thread_idx.x
                     let g = global_idx.x
                     if t < 32 {{ s[t] = 0 }}
                     barrier()
                     {body}
                 }}"
            );
            let words = [Word::In(noise(5 * block, 11)), Word::Out(noise(128, 5))];
            agree(&text, grid(5, [block as u32, 1]), &words);
        }
    }
}

/// A value is used in a store and again after it. It must survive even if one op implements the store and other
/// statements.
#[test]
fn values_outlive_the_store_they_were_computed_for() {
    let values = ["select(k > 3, 16.0, x[i])", "(x[i] + 6.0) * 2.0", "fma(x[i], 2.0, 12.0)", "sqrt(abs(x[i])) + 1.0"];
    let stored = ["2.0 / s", "s * 3.0", "1.0 - s", "s * s + x[i]"];
    let later =
        ["let m = s * s\nlet e = 1.0 - m", "let m = s + 0.5\nlet e = m * m", "let m = 3.0 - s\nlet e = x[i] - m"];
    for value in values {
        for first in stored {
            for then in later {
                let text = format!(
                    "kernel k(k: i32, x: [f32; N], out y: [f32; N], out z: [f32; N]) threads(i: N) {{\n\
                     let s = {value}\ny[i] = {first}\n{then}\nz[i] = exp2(e / 100.0)\n}}"
                );
                let words = [Word::Value(8), Word::In(floats(70, 5)), Word::Out(vec![0; 70]), Word::Out(vec![0; 70])];
                assert!(agree(&text, LaunchExtents::Threads([70, 1, 1]), &words).is_none(), "{text}");
            }
        }
    }
}

/// Kernels in which warps wait for each other: the simulator must let the other warps make progress. The reference
/// interpreter runs threads sequentially, so nothing waits there.
#[test]
fn warps_that_wait_for_one_another() {
    let bodies = [
        // A lock and the data it guards.
        "if lane_idx == 0 {
             while atomic_compare_exchange(y[0], 7, 8) != 7 { }
             fence()
             y[1] = y[1] * 3 + 1
             fence()
             atomic_exchange(y[0], 7)
         }",
        // Each warp waits for the previous one, across all blocks.
        "let w = i32(warp_idx + 3 * block_idx.x)
         if lane_idx == 5 {
             if w > 0 { while atomic_or(y[w + 1], 0) == 0 { } }
             fence()
             y[40 + w] = y[39 + w] + x[g]
             fence()
             atomic_exchange(y[w + 2], 1)
         }",
        // Two rounds with barriers in between; the results depend on which threads participate.
        "for turn in 0..2 {
             if lane_idx == 1 && warp_idx != turn {
                 while atomic_compare_exchange(y[turn], 7, 8) != 7 { }
                 fence()
                 y[2 + turn] += x[g]
                 fence()
                 atomic_exchange(y[turn], 7)
             }
             let n = barrier_count(x[g] % 2 == 0)
             if barrier_any(t > 1000) { y[100] = 1 }
             if t == 40 { y[50 + turn + 2 * block_idx.x] = u32(n) }
         }",
        // Only some warps take the lock, and they leave from within the loop.
        "if warp_idx > 0 && lane_idx < 1 {
             loop {
                 if atomic_compare_exchange(y[0], 7, 8) == 7 {
                     fence()
                     y[1] += x[g]
                     fence()
                     atomic_exchange(y[0], 7)
                     break
                 }
             }
         } else {
             y[20 + i32(warp_idx)] = 4
         }
         y[60 + t % 8] = 5",
    ];
    for body in bodies {
        for block in [96, 70] {
            let text = format!(
                "kernel wait(x: [u32; N], inout y: [u32; 128]) grid(5) block({block}) {{
                     let t = thread_idx.x
                     let g = global_idx.x
                     {body}
                 }}"
            );
            let mut y = vec![0; 128];
            (y[0], y[1]) = (7, if body.contains("turn") { 7 } else { 0 });
            let words = [Word::In(noise(5 * block, 3)), Word::Out(y)];
            assert_eq!(agree(&text, grid(5, [block as u32, 1]), &words), None, "{text}");
        }
    }
}

/// Tests conditions in loops. The interpreter evaluates a loop-invariant condition once before the loop, and an exit
/// condition in each iteration.
#[test]
fn conditions_of_loops() {
    let bodies = [
        // The condition `t < 1` can be evaluated before the loop, and is used once in it.
        "loop {
             if t < 1 { y[t] += 1 }
             k += 1
             if k >= 6 { break }
         }",
        "loop {
             if x[0] > 77 { y[t] += 1 }
             k += 1
             if k >= 5 { break }
         }",
        "let both = t < 3 && x[t] % 2 == 0
         loop {
             if both { y[t] += 1 }
             k += 1
             if k >= 6 { break }
         }",
        "for i in 0..5 {
             if t < 2 { y[t] += u32(i) }
         }",
        // Two exits, with arithmetic between them.
        "loop {
             if x[t] % 7 == k % 7 { break }
             k += 1
             if k >= 10 { break }
         }
         y[t] = k",
        "loop {
             if x[t] % 3 == 5 { break }
             k += 1
             if k >= 10 { break }
             if x[t] + k > 4_000_000_000u32 { continue }
             y[t] += k
         }",
        "while k < 20 {
             k += 1
             if x[t] % 5 == k { continue }
             if y[t] > 40 { break }
             y[t] += k
             if k * k > x[t] % 200 { break }
         }",
    ];
    for body in bodies {
        for block in [32, 64, 50] {
            let text = format!(
                "kernel turns(x: [u32; N], inout y: [u32; 128]) grid(1) block({block}) {{
                     let t = thread_idx.x
                     var k = 0u32
                     {body}
                 }}"
            );
            let words = [Word::In(noise(block, 17)), Word::Out(vec![0; 128])];
            assert_eq!(agree(&text, grid(1, [block as u32, 1]), &words), None, "{text}");
        }
    }
}

/// In blocks of several rows, the bounding box of the active lanes may include inactive lanes, which must not perform
/// the access.
#[test]
fn accesses_of_partial_warps() {
    let bodies = [
        "var n = 0
         loop {
             if n >= w { break }
             n += 1
             var q = 0
             loop {
                 if q >= (n + l) % 8 { break }
                 q += 1
                 atomic_add(y[3], 5u32)
                 atomic_add(y[t], x[t])
             }
         }",
        "if x[t] % 2 == 0 { y[t] = 1 }
         if w > 0 && l > 3 {
             for q in 0..l % 5 { y[t] += x[t] }
         }
         if w > 1 { y[t] += 7 }",
        "for q in 0..3 {
             if (w + q) % 3 == 1 && l > 9 * q {
                 y[t] += 1
                 atomic_add(y[0], 1u32)
             }
         }",
    ];
    for body in bodies {
        for block in [[5, 3, 3], [64, 2, 1], [20, 5, 1], [33, 3, 1], [16, 3, 2], [100, 1, 1]] {
            let [a, b, c] = block;
            let text = format!(
                "kernel boxes(x: [u32; N], inout y: [u32; 128]) grid(1) block({a}, {b}, {c}) {{
                     let w = i32(warp_idx)
                     let l = i32(lane_idx)
                     let t = thread_idx.x + {a} * (thread_idx.y + {b} * thread_idx.z)
                     {body}
                 }}"
            );
            let words = [Word::In(noise(128, 23)), Word::Out(vec![0; 128])];
            let extents = LaunchExtents::Grid { grid: [1, 1, 1], block };
            assert_eq!(agree(&text, extents, &words), None, "{text}");
        }
    }
}
