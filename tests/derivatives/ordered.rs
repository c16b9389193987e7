//! Gradients of `--deterministic` runs have the same bits each time, whose additions come in no fixed order otherwise.

use std::sync::{Arc, Mutex};

use clk_lang::base::source::Sources;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::ordered::Ordered;
use clk_lang::device::sim::Simulator;
use clk_lang::device::{Control, Device, Executable};
use clk_lang::host::interp::{Interpreter, Options};
use clk_lang::host::value::Value;
use clk_lang::ir::Prepared;

use super::world::Paper;

/// Additions to few elements by many threads: in arrays, in shared memory, and to a number. The gradients' bits, as `i32`.
const COLLISIONS: &str = "
kernel picked(x: [f32; N], at: [i32; M], w: [f32; M], s: f32, out y: [f32; M]) threads(i: M) {
    y[i] = sin(x[at[i]] * w[i]) * s + x[at[(i + 1) % M]]
}
kernel put(x: [f32; N], at: [i32; M], w: [f32; M], inout h: [f32; N]) threads(i: M) { atomic_add(h[at[i]], x[at[i]] * w[i]) }
kernel mixed(x: [f32; N], s: f32, out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
    shared b: [f32; 64]
    let (t, i) = (thread_idx.x, global_idx.x)
    b[t] = if i < N { x[i] } else { 0.0 }
    barrier()
    if i < N { y[i] = b[t % 7] * b[63 - t] * s }
}
kernel doubled(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] * x[i] }
fn f(x: [f32; N], w: [f32; M], at: [i32; M], s: f32) -> f32 {
    let y = picked(x, at, w, s)
    var h = x * 0.5
    put(x, at, w, h)
    sum(y * y) + sum(h * doubled(x)) + sum(mixed(y, s) * y)
}
let (x, w) = (random_normal(31, seed = 3), random_normal(20_000, seed = 4))
let (a, b, c) = grad(f, wrt = (x, w, s))(x, w, random_int(0, 31, 20_000, seed = 5), 1.25)
concat(bitcast(i32, a), bitcast(i32, b), [bitcast(i32, c)])";

/// A device that remembers which kernels it was asked to run.
#[derive(Default)]
struct Other {
    simulator: Simulator,
    loaded: Mutex<Vec<String>>,
}

impl Device for Other {
    fn name(&self) -> String {
        "other".into()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.load_named(kernel, &Sources::default())
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        self.loaded.lock().expect("no panic").push(kernel.module.kernel.name.clone());
        self.simulator.load_named(kernel, sources)
    }
}

fn bits(device: Arc<dyn Device>, workers: usize) -> Vec<i32> {
    let mut session = Session::default();
    let outcome = session.add("ordered.clk", COLLISIONS, &NoFiles);
    assert!(!outcome.failed(), "{:?}", outcome.diagnostics);
    let control = Control { workers, deterministic: true, ..Control::default() };
    let mut interpreter = Interpreter::new(Options { args: vec![], control, seed: None, device });
    let mut last = None;
    for chunk in outcome.chunks {
        last = interpreter.run_chunk(&session, chunk, &mut Paper::default()).expect("no fault").or(last);
    }
    let Some(Value::Array(array)) = last else { panic!("an array") };
    array.items::<i32>().expect("an array on the host").to_vec()
}

#[test]
fn colliding_additions_have_one_order() {
    let alone = bits(Arc::new(Simulator::default()), 1);
    assert!(alone.len() == 20_032 && alone.iter().any(|&bits| bits != 0));
    for workers in [1, 2, 3, 7, 16] {
        assert!(bits(Arc::new(Simulator::default()), workers) == alone, "{workers} workers");
    }
}

#[test]
fn on_other_devices_the_simulator_runs_what_has_no_order_there() {
    let other = Arc::new(Other::default());
    let found = bits(Arc::new(Ordered::new(other.clone(), Arc::new(Simulator::default()))), 2);
    assert!(found == bits(Arc::new(Simulator::default()), 2));
    let loaded = other.loaded.lock().expect("no panic");
    let is_there = |name: &str| loaded.iter().any(|loaded| loaded == name);
    assert!(is_there("picked") && is_there("doubled_vjp"), "{loaded:?}");
    for name in ["put", "picked_vjp", "mixed_vjp"] {
        assert!(!is_there(name), "{name} has atomic sums of floats: {loaded:?}");
    }
}
