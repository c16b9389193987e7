//! Tests that gradients have the same bits in every `--deterministic` run. In other runs, their additions have no fixed
//! order.

use std::sync::{Arc, Mutex};

use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_host::value::HostValue;
use clk_ir::PreparedKernel;
use clk_runtime::ordered::DeterministicDevice;
use clk_runtime::{Capabilities, Control, Device, DeviceWrapper, Executable};
use clk_sim::Simulator;

use clk_testing::world::CapturedOutput;

/// Programs in which the gradients of many threads are added to the same scalar, and to few elements of arrays and
/// shared memory. The value of the script is the bit pattern of the gradients.
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

/// A device that records which kernels it loads.
#[derive(Default)]
struct RecordingDevice {
    simulator: Simulator,
    loaded: Mutex<Vec<String>>,
}

impl DeviceWrapper for RecordingDevice {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    fn name(&self) -> String {
        "other".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        self.loaded.lock().expect("no panic").push(kernel.module.kernel.name.clone());
        self.simulator.load(kernel, sources)
    }
}

fn bits(device: Arc<dyn Device>, workers: usize) -> Vec<i32> {
    let mut session = Session::default();
    let outcome = session.add("ordered.clk", COLLISIONS, &NoFiles);
    assert!(!outcome.failed(), "{:?}", outcome.diagnostics);
    let control = Control { workers, deterministic: true, ..Control::default() };
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let mut last = None;
    for chunk in outcome.chunks {
        last = interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default()).expect("no fault").or(last);
    }
    let Some(HostValue::Array(array)) = last else { panic!("an array") };
    array.items::<i32>().expect("an array on the host").to_vec()
}

#[test]
fn colliding_atomic_additions_are_ordered() {
    let one_worker = bits(Arc::new(Simulator::default()), 1);
    assert!(one_worker.len() == 20_032 && one_worker.iter().any(|&bits| bits != 0));
    for workers in [1, 2, 3, 7, 16] {
        assert!(bits(Arc::new(Simulator::default()), workers) == one_worker, "{workers} workers");
    }
}

#[test]
fn other_devices_run_unordered_kernels_on_the_simulator() {
    let other = Arc::new(RecordingDevice::default());
    let actual = bits(Arc::new(DeterministicDevice::new(other.clone(), Arc::new(Simulator::default()))), 2);
    assert!(actual == bits(Arc::new(Simulator::default()), 2));
    let loaded = other.loaded.lock().expect("no panic");
    let is_there = |name: &str| loaded.iter().any(|loaded| loaded == name);
    assert!(is_there("picked") && is_there("doubled_vjp"), "{loaded:?}");
    for name in ["put", "picked_vjp", "mixed_vjp"] {
        assert!(!is_there(name), "{name} has atomic sums of floats: {loaded:?}");
    }
}
