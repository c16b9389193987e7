//! Generated GPU code has no bounds checks (guards) for accesses that are proved in bounds. Compares these proofs with
//! unchecked runs of random kernels at small sizes, with arrays that satisfy the `assume` clauses.

use std::sync::{Arc, Mutex};

use clk_base::diag::Diagnostic;
use clk_base::source::{SourceMap, Span};
use clk_compile::{NoFiles, Session};
use clk_cuda::text::{CodegenOptions as Text, cuda_text};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::{Checks, PreparedKernel};
use clk_runtime::{
    Arg, Capabilities, Control, Device, DeviceWrapper, Executable, Fault, LaunchConfig, PrintedText, SignaturePromise,
};
use clk_sim::Simulator;

use super::{compiled, random, random_contracts};
use clk_testing::random::Random;
use clk_testing::world::CapturedOutput;

/// A simulator that records the kernels that it loads.
#[derive(Default)]
struct Recorder {
    simulator: Simulator,
    seen: Mutex<Vec<Arc<PreparedKernel>>>,
}

impl DeviceWrapper for Recorder {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        self.seen.lock().expect("the list").push(kernel.clone());
        self.simulator.load(kernel, sources)
    }
}

#[derive(Debug, Default)]
pub struct Tally {
    kernels: u64,
    /// Numbers of guarded accesses, and of accesses that are proved to need no guard.
    guarded: usize,
    pub released: usize,
    runs: u64,
    /// Number of runs that ended with an out-of-bounds access, which must be a guarded one.
    pub ended: u64,
}

/// The script texts of the launches of a random kernel.
type Launches = Vec<String>;

/// Tests one kernel from each of the two generators of random kernels.
pub fn compare(seed: u64, tally: &mut Tally) {
    let sizes = (0..=6).flat_map(|n| (0..=6).map(move |m| (n, m))).enumerate();
    let plain = sizes.map(|(serial, (n, m))| {
        let fill = ["zeros", "ones"][serial % 2];
        format!("var y{serial} = zeros({m}, type = i32)\nk({fill}({n}, type = i32), y{serial})\n")
    });
    launches(seed, &random::kernel(seed), plain.collect(), tally);
    let text = random_contracts::kernel(seed);
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let narrow = text.contains("b: [u8");
    launches(seed, &text, (0..60).map(|serial| random_contracts::launch(&mut random, serial, narrow)).collect(), tally);
}

fn launches(seed: u64, text: &str, launches: Launches, tally: &mut Tally) {
    let Some(mut session) = compiled("random.clk", text) else { return };
    let device = Arc::new(Recorder::default());
    let control = || Control { workers: 1, max_steps: 100_000, ..Control::default() };
    let interpreter = |control, device| Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    let mut plain = interpreter(control(), device.clone());
    let checks = Checks { memory: true, ..Checks::default() };
    let mut checking = interpreter(Control { checks, ..control() }, Arc::new(Simulator::default()));
    let mut faults: Vec<(Span, String)> = vec![];
    for (serial, script) in launches.into_iter().enumerate() {
        let outcome = session.add(&format!("<{serial}>"), &script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let chunks = outcome.chunks.clone();
        // Skips launches that violate an `assume` clause; a checked run refuses them.
        if errors(&mut checking, &session, chunks.clone()).iter().any(|error| error.code == "E0525") {
            continue;
        }
        tally.runs += 1;
        for error in errors(&mut plain, &session, chunks) {
            if error.code == "E0601" {
                faults.extend(error.primary().map(|span| (span, script.clone())));
            }
        }
    }
    let Some(kernel) = device.seen.lock().expect("the list").first().cloned() else { return };
    // Generates text without assumptions about extents, which launches would have to test: only proofs may remove
    // guards.
    let guarded = |declared| cuda_text(&kernel, &Text { assume: false, declared, ..Text::default() }, None).guarded();
    let left = guarded(true);
    tally.kernels += 1;
    tally.guarded += left.len();
    tally.released += guarded(false).len() - left.len();
    tally.ended += faults.len() as u64;
    for (span, script) in faults {
        assert!(left.contains(&span), "seed {seed}: {span:?} is out of bounds and not guarded\n{text}{script}");
    }
}

fn errors(interpreter: &mut Interpreter, session: &Session, chunks: std::ops::Range<usize>) -> Vec<Diagnostic> {
    let run = |chunk| interpreter.run_chunk(session, chunk, &mut CapturedOutput::default()).err().map(|error| *error);
    chunks.filter_map(run).collect()
}

/// A simulator that claims to rely on the promises of `assume` clauses. Records the promises that are known to hold for
/// each launch of `k`.
#[derive(Default)]
struct PromiseDevice {
    simulator: Simulator,
    known: Arc<Mutex<Vec<Option<SignaturePromise>>>>,
}

struct Loaded {
    executable: Arc<dyn Executable>,
    known: Option<Arc<Mutex<Vec<Option<SignaturePromise>>>>>,
}

impl DeviceWrapper for PromiseDevice {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let promises = (kernel.module.kernel.name == "k").then(|| self.known.clone());
        Arc::new(Loaded { executable: self.simulator.load(kernel, sources), known: promises })
    }
}

impl Executable for Loaded {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        if let Some(known) = &self.known {
            known.lock().expect("the list").push(config.declared);
        }
        self.executable.launch(config, args, control)
    }

    fn depends_on_promises(&self) -> bool {
        true
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.executable.prepare_block_shape(block);
    }
}

const GATHER: &str = "kernel k(at: [i32; M], x: [f32; N], out y: [f32; M]) grid(ceil_div(M, 4)) block(4)
    assume all(at >= 0 && at < N), M < 1000
{
    let i = global_idx.x
    if i < M { y[i] = x[at[i]] }
}
";

/// If a device relies on an `assume` clause about an array, launches test it again after the array has changed, even
/// without checks.
#[test]
fn promises_that_code_relies_on_are_tested() {
    let device = Arc::new(PromiseDevice::default());
    let promises = device.known.clone();
    let run = |script: &str| -> Vec<Diagnostic> {
        let mut session = compiled("case.clk", GATHER).expect("a program");
        let outcome = session.add("<script>", script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let control = Control { workers: 1, ..Control::default() };
        let mut interpreter =
            Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device: device.clone() });
        errors(&mut interpreter, &session, outcome.chunks)
    };
    let take_promises = || std::mem::take(&mut *promises.lock().expect("the list"));
    let x = "let x = [1.0, 2.0, 3.0]\n";
    assert!(
        run(&format!("{x}var at = [0, 2]\nassert(k(at, x) == [1.0, 3.0])\nassert(k(at, x) == [1.0, 3.0])")).is_empty()
    );
    assert_eq!(take_promises(), [Some(SignaturePromise { largest: 3, promises: true }); 2]);
    // A launch tests elements that were written after the previous test.
    let broken = [
        "var at = [0, 2]\nfor n in 2..4 {\n    at[1] = n\n    let y = k(at, x)\n}",
        "let all = [[0, 1], [0, 3]]\nfor r in 0..2 { let y = k(all[r, ..], x) }",
        "let at = [0, 2, 4, 6] / 2\nlet y = k(at, x)",
        "let at = [5, -1]\nlet y = k(at[1..], x)",
    ];
    let shown =
        ["`at[1]` is 3, and `N` is 3", "`at[1]` is 3, and `N` is 3", "`at[3]` is 3, and `N` is 3", "`at[0]` is -1"];
    for (script, shown) in broken.into_iter().zip(shown) {
        let errors = run(&format!("{x}{script}"));
        let [error] = &errors[..] else { panic!("{script}: {errors:?}") };
        assert_eq!(error.code, "E0525", "{script}");
        assert!(error.labels.iter().any(|label| label.text.contains(shown)), "{script}: {:?}", error.labels);
    }
    take_promises();
    // Proofs do not cover a launch that overrides the geometry.
    assert!(run(&format!("{x}let y = k<<<2, 4>>>([0, 2], x)")).is_empty());
    assert_eq!(take_promises(), [None]);
}
