//! Accesses that a GPU text does not guard, as they are proved to be in bounds, against runs of random kernels: without checks, at
//! small sizes, with arrays that keep what is promised of them.

use std::sync::{Arc, Mutex};

use clk_lang::base::diag::Diagnostic;
use clk_lang::base::source::Span;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::cuda::text::{Options as Text, cuda_text};
use clk_lang::device::sim::Simulator;
use clk_lang::device::{Arg, Control, Declared, Device, Executable, Extents, Fault, Output};
use clk_lang::host::interp::{Interpreter, Options};
use clk_lang::ir::{Checks, Prepared};

use super::random::Silent;
use super::stream::Random;
use super::{compiled, promised, random};

/// The simulator, with a record of the kernels that it was given.
#[derive(Default)]
struct Recorder {
    simulator: Simulator,
    seen: Mutex<Vec<Arc<Prepared>>>,
}

impl Device for Recorder {
    fn name(&self) -> String {
        self.simulator.name()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.seen.lock().expect("the list").push(kernel.clone());
        self.simulator.load(kernel)
    }
}

#[derive(Debug, Default)]
pub struct Tally {
    kernels: u64,
    /// Accesses that are guarded, and those that need no guard by a proof.
    guarded: usize,
    pub released: usize,
    runs: u64,
    /// Runs that ended with an access out of bounds, all of which are guarded.
    pub ended: u64,
}

/// A launch of a random kernel: its number, and the text.
type Launches = Vec<String>;

/// Compares a kernel of each generator.
pub fn compare(seed: u64, tally: &mut Tally) {
    let sizes = (0..=6).flat_map(|n| (0..=6).map(move |m| (n, m))).enumerate();
    let plain = sizes.map(|(serial, (n, m))| {
        let fill = ["zeros", "ones"][serial % 2];
        format!("var y{serial} = zeros({m}, type = i32)\nk({fill}({n}, type = i32), y{serial})\n")
    });
    launches(seed, &random::kernel(seed), plain.collect(), tally);
    let text = promised::kernel(seed);
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let narrow = text.contains("b: [u8");
    launches(seed, &text, (0..60).map(|serial| promised::launch(&mut random, serial, narrow)).collect(), tally);
}

fn launches(seed: u64, text: &str, launches: Launches, tally: &mut Tally) {
    let Some(mut session) = compiled("random.clk", text) else { return };
    let device = Arc::new(Recorder::default());
    let control = || Control { workers: 1, max_steps: 100_000, ..Control::default() };
    let interpreter = |control, device| Interpreter::new(Options { args: vec![], control, seed: None, device });
    let mut plain = interpreter(control(), device.clone());
    let checks = Checks { memory: true, ..Checks::default() };
    let mut checking = interpreter(Control { checks, ..control() }, Arc::new(Simulator::default()));
    let mut faults: Vec<(Span, String)> = vec![];
    for (serial, script) in launches.into_iter().enumerate() {
        let outcome = session.add(&format!("<{serial}>"), &script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let chunks = outcome.chunks.clone();
        // Launches that break a promise are refused.
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
    // What a text assumes of extents is tested by launches; here it stands for no proof.
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
    let run = |chunk| interpreter.run_chunk(session, chunk, &mut Silent::default()).err().map(|error| *error);
    chunks.filter_map(run).collect()
}

/// The simulator, whose code rests on promises; notes what is known of launches of `k`.
#[derive(Default)]
struct Relying {
    simulator: Simulator,
    known: Arc<Mutex<Vec<Option<Declared>>>>,
}

struct Loaded {
    executable: Arc<dyn Executable>,
    known: Option<Arc<Mutex<Vec<Option<Declared>>>>>,
}

impl Device for Relying {
    fn name(&self) -> String {
        self.simulator.name()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        let known = (kernel.module.kernel.name == "k").then(|| self.known.clone());
        Arc::new(Loaded { executable: self.simulator.load(kernel), known })
    }
}

impl Executable for Loaded {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        if let Some(known) = &self.known {
            known.lock().expect("the list").push(control.declared);
        }
        self.executable.launch(extents, args, control)
    }

    fn rests_on_promises(&self) -> bool {
        true
    }
}

const GATHER: &str = "kernel k(at: [i32; M], x: [f32; N], out y: [f32; M]) grid(ceil_div(M, 4)) block(4)
    assume all(at >= 0 && at < N), M < 1000
{
    let i = global_idx.x
    if i < M { y[i] = x[at[i]] }
}
";

/// Without checks, too, promises that a device rests on are tested, for each version of an array.
#[test]
fn promises_that_code_rests_on_are_tested() {
    let device = Arc::new(Relying::default());
    let known = device.known.clone();
    let run = |script: &str| -> Vec<Diagnostic> {
        let mut session = compiled("case.clk", GATHER).expect("a program");
        let outcome = session.add("<script>", script, &NoFiles);
        assert!(!outcome.failed(), "{script}{:?}", outcome.diagnostics);
        let control = Control { workers: 1, ..Control::default() };
        let mut interpreter = Interpreter::new(Options { args: vec![], control, seed: None, device: device.clone() });
        errors(&mut interpreter, &session, outcome.chunks)
    };
    let take = || std::mem::take(&mut *known.lock().expect("the list"));
    let x = "let x = [1.0, 2.0, 3.0]\n";
    assert!(
        run(&format!("{x}var at = [0, 2]\nassert(k(at, x) == [1.0, 3.0])\nassert(k(at, x) == [1.0, 3.0])")).is_empty()
    );
    assert_eq!(take(), [Some(Declared { largest: 3, promises: true }); 2]);
    // What was written since is tested.
    let broken = [
        "var at = [0, 2]\nfor n in 2..4 {\n    at[1] = n\n    let y = k(at, x)\n}",
        "let all = [[0, 1], [0, 3]]\nfor r in 0..2 { let y = k(all[r, ..], x) }",
        "let at = [0, 2, 4, 6] / 2\nlet y = k(at, x)",
        "let at = [5, -1]\nlet y = k(at[1..], x)",
    ];
    let shown =
        ["`at[1]` is 3, and `N` is 3", "`at[1]` is 3, and `N` is 3", "`at[3]` is 3, and `N` is 3", "`at[0]` is -1"];
    for (script, shown) in broken.into_iter().zip(shown) {
        let found = run(&format!("{x}{script}"));
        let [error] = &found[..] else { panic!("{script}: {found:?}") };
        assert_eq!(error.code, "E0525", "{script}");
        assert!(error.labels.iter().any(|label| label.text.contains(shown)), "{script}: {:?}", error.labels);
    }
    take();
    // Another geometry is none that proofs are about.
    assert!(run(&format!("{x}let y = k<<<2, 4>>>([0, 2], x)")).is_empty());
    assert_eq!(take(), [None]);
}
