//! Tests the analysis that finds arrays which the blocks of a launch overwrite completely. The tests of the standard
//! library must pass on a simulator that fills these arrays with garbage before each launch.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_ir::def::KernelParam;
use clk_runtime::launch_facts::LaunchFacts;
use clk_runtime::write_coverage;
use clk_runtime::{
    Arg, Capabilities, Control, Device, DeviceWrapper, Executable, Fault, LaunchConfig, LaunchExtents, PrintedText,
};
use clk_scalar::ScalarValue;
use clk_sim::Simulator;
use clk_testing::cuda_support;

/// A simulator that fills arrays with garbage before each launch that overwrites them completely. Records these arrays
/// as `kernel.array`.
#[derive(Default)]
struct GarbageFiller {
    simulator: Simulator,
    spoiled: Arc<Mutex<BTreeSet<String>>>,
}

/// A kernel whose completely overwritten arrays are filled with garbage before each launch.
struct GarbageFilledKernel {
    inner: Arc<dyn Executable>,
    prepared: Arc<PreparedKernel>,
    spoiled: Arc<Mutex<BTreeSet<String>>>,
}

impl DeviceWrapper for GarbageFiller {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }

    fn load(&self, prepared: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let inner = self.simulator.load(prepared.clone(), sources);
        Arc::new(GarbageFilledKernel { inner, prepared, spoiled: self.spoiled.clone() })
    }
}

struct Facts {
    values: Vec<Option<ScalarValue>>,
    shapes: Vec<Option<Vec<u32>>>,
    extents: LaunchExtents,
}

impl LaunchFacts for Facts {
    fn value(&self, param: usize) -> Option<ScalarValue> {
        *self.values.get(param)?
    }

    fn extent(&self, param: usize, axis: usize) -> Option<u32> {
        self.shapes.get(param)?.as_ref()?.get(axis).copied()
    }

    fn rank(&self, param: usize) -> Option<usize> {
        self.shapes.get(param)?.as_ref().map(Vec::len)
    }

    fn extents(&self) -> LaunchExtents {
        self.extents
    }
}

impl Executable for GarbageFilledKernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        if let LaunchExtents::Grid { .. } = config.extents {
            let one = |arg: &Arg<'_>| match arg {
                Arg::Value(values) => values.first().copied(),
                _ => None,
            };
            let facts = Facts {
                values: args.iter().map(one).collect(),
                shapes: args.iter().map(|arg| arg.shape().map(<[u32]>::to_vec)).collect(),
                extents: config.extents,
            };
            let kernel = &self.prepared.module.kernel;
            let (covers, _) = write_coverage::overwritten_by_grid(&self.prepared, &facts, config.declared);
            for ((arg, cover), param) in args.iter_mut().zip(&covers).zip(&kernel.params) {
                let (Arg::ArrayMut { storage, .. }, true) = (arg, cover) else { continue };
                let KernelParam::Array { name, .. } = param else { continue };
                storage.bytes_mut().unwrap().fill(0xa5);
                self.spoiled.lock().expect("the list").insert(format!("{}.{name}", kernel.name));
            }
        }
        self.inner.launch(config, args, control)
    }

    fn depends_on_promises(&self) -> bool {
        self.inner.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.inner.prepare_block_shape(block);
    }
}

/// Kernels that seem to write all elements of an array, but leave some unwritten.
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
test "unwritten elements are zero" {
    assert(nobody([1, 2]) == 0)
    let y = few(ones(100, type = i32))
    assert(sum(y) == 2)
    assert(rows(zeros(3, 0, type = i32)) == 0)
    assert(ends(ones(64, type = i32))[63] == 0)
}
"#;

#[test]
fn partially_written_arrays_are_not_overwritten() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let device = GarbageFiller::default();
    let spoiled = device.spoiled.clone();
    assert_eq!(cuda_support::run(root, "partial.clk", PARTIAL, Arc::new(device), false), 0);
    assert!(spoiled.lock().expect("the list").is_empty(), "{spoiled:?}");
}

#[test]
fn arrays_proved_fully_overwritten_are_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let device = GarbageFiller::default();
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
    // These arrays are written by tiles, by rows of constant and of dynamic length, by products of both, at the edge,
    // and from shared memory.
    for expected in [
        "tiles.partial",
        "transposed.y",
        "softmax_held.y",
        "softmax_long.y",
        "layernorm_held.y",
        "matmul.c",
        "attention_online.y",
    ] {
        assert!(
            spoiled.contains(expected),
            "{expected} is not proved to be written completely; proved are {spoiled:?}"
        );
    }
    // The indices of the writes to `sweep.y` depend on data, so the analysis cannot prove that they cover the array.
    assert!(!spoiled.contains("sweep.y"), "{spoiled:?}");
}
