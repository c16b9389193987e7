//! Arrays that the analysis says blocks overwrite completely: the tests of the standard library have to pass on a simulator
//! that fills those arrays with garbage before each launch.

#[allow(dead_code)] // only other tests use the compiler
mod cuda_support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clk_lang::device::cuda::text::LaunchFacts;
use clk_lang::device::cuda::whole;
use clk_lang::device::sim::Simulator;
use clk_lang::device::{Arg, Control, Device, Executable, Extents, Fault, Output};
use clk_lang::ir::Prepared;
use clk_lang::ir::def::KernelParam;
use clk_lang::lang::scalar::Value;

/// The simulator, and the arrays that were filled with garbage, as `kernel.array`.
#[derive(Default)]
struct Spoiler {
    simulator: Simulator,
    spoiled: Arc<Mutex<BTreeSet<String>>>,
}

/// A kernel of the simulator.
struct Spoiled {
    inner: Arc<dyn Executable>,
    prepared: Arc<Prepared>,
    spoiled: Arc<Mutex<BTreeSet<String>>>,
}

impl Device for Spoiler {
    fn name(&self) -> String {
        self.simulator.name()
    }

    fn load(&self, prepared: Arc<Prepared>) -> Arc<dyn Executable> {
        let inner = self.simulator.load(prepared.clone());
        Arc::new(Spoiled { inner, prepared, spoiled: self.spoiled.clone() })
    }
}

struct Facts {
    values: Vec<Option<Value>>,
    shapes: Vec<Option<Vec<u32>>>,
    extents: Extents,
}

impl LaunchFacts for Facts {
    fn value(&self, param: usize) -> Option<Value> {
        *self.values.get(param)?
    }

    fn extent(&self, param: usize, axis: usize) -> Option<u32> {
        self.shapes.get(param)?.as_ref()?.get(axis).copied()
    }

    fn rank(&self, param: usize) -> Option<usize> {
        self.shapes.get(param)?.as_ref().map(Vec::len)
    }

    fn extents(&self) -> Extents {
        self.extents
    }
}

impl Executable for Spoiled {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        if let Extents::Grid { .. } = extents {
            let one = |arg: &Arg<'_>| match arg {
                Arg::Value(values) => values.first().copied(),
                _ => None,
            };
            let facts = Facts {
                values: args.iter().map(one).collect(),
                shapes: args.iter().map(|arg| arg.shape().map(<[u32]>::to_vec)).collect(),
                extents,
            };
            let kernel = &self.prepared.module.kernel;
            let (covers, _) = whole::by_blocks(&self.prepared, &facts, control.declared);
            for ((arg, cover), param) in args.iter_mut().zip(&covers).zip(&kernel.params) {
                let (Arg::ArrayMut { storage, .. }, true) = (arg, cover) else { continue };
                let KernelParam::Array { name, .. } = param else { continue };
                storage.bytes_mut().unwrap().fill(0xa5);
                self.spoiled.lock().expect("the list").insert(format!("{}.{name}", kernel.name));
            }
        }
        self.inner.launch(extents, args, control)
    }
}

/// Kernels that look as if they wrote all of an array, but do not.
const PARTIAL: &str = r#"
kernel nobody(x: [i32; N], out y: [i32; 4]) grid(4) block(64) {
    if thread_idx.x == 0 && lane_idx == 5 { y[block_idx.x] = x[0] }
}
kernel few(x: [i32; N], out y: [i32; N]) grid(1) block(64) {
    for c in thread_idx.x..N step 64 {
        if thread_idx.x == 0 { y[c] = x[c] }
    }
}
kernel rows(x: [i32; R, C], out y: [i32; R]) grid(R) block(64) {
    for c in thread_idx.x..C step 64 { y[block_idx.x] = 1 }
}
kernel ends(x: [i32; N], out y: [i32; N]) grid(ceil_div(N, 64)) block(64) {
    if thread_idx.x < 63 && global_idx.x < N { y[global_idx.x] = x[global_idx.x] }
}
test "what nobody writes is zero" {
    assert(nobody([1, 2]) == 0)
    let y = few(ones(100, type = i32))
    assert(sum(y) == 2)
    assert(rows(zeros(3, 0, type = i32)) == 0)
    assert(ends(ones(64, type = i32))[63] == 0)
}
"#;

#[test]
fn what_is_written_in_part_is_not_spoiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let device = Spoiler::default();
    let spoiled = device.spoiled.clone();
    assert_eq!(cuda_support::run(root, "partial.clk", PARTIAL, Arc::new(device), false), 0);
    assert!(spoiled.lock().expect("the list").is_empty(), "{spoiled:?}");
}

#[test]
fn what_is_spoiled_before_a_launch_is_written_by_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let device = Spoiler::default();
    let spoiled = device.spoiled.clone();
    let device: Arc<dyn Device> = Arc::new(device);
    for folder in ["stdlib", "examples", "examples/bench"] {
        for path in cuda_support::sources(root, folder, "clk") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let name = path.display().to_string();
            assert_eq!(cuda_support::run(root, &name, &text, device.clone(), false), 0, "failed tests of {name}");
        }
    }
    let spoiled = spoiled.lock().expect("the list");
    // Written by tiles, by rows, by rows of dynamic length, by products of both, at the edge, from shared memory.
    for expected in [
        "tiles.partial",
        "transposed.y",
        "softmax_held.y",
        "softmax_long.y",
        "layernorm_held.y",
        "matmul.c",
        "attention_online.y",
    ] {
        assert!(spoiled.contains(expected), "{expected} is not known to be written in full; known are {spoiled:?}");
    }
    // The destination of the writes depends on data, so the analysis cannot know.
    assert!(!spoiled.contains("sweep.y"), "{spoiled:?}");
}
