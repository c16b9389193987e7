//! Faults of asynchronous launches: which statement of a script reports the fault, and which source location the report
//! shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::PreparedKernel;
use clk_runtime::{
    Arg, Capabilities, Control, Device, DeviceError, DeviceSelector, DeviceWrapper, Devices, EarlierFault, Executable,
    Fault, LaunchConfig, LaunchOrigin, PrintedText,
};
use clk_sim::Simulator;
use clk_testing::world::CapturedOutput;

/// A device that runs launches on the simulator and reports faults asynchronously. It keeps the first fault until the
/// next synchronization, and skips the launches queued after the faulty one.
#[derive(Default)]
struct Queue {
    simulator: Simulator,
    failed: Arc<Mutex<Option<EarlierFault>>>,
    waits: AtomicUsize,
    /// Number of `batch` blocks that are open now, and number opened so far.
    batches: Mutex<(usize, usize)>,
}

impl DeviceWrapper for Queue {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }
    fn name(&self) -> String {
        "queue".into()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }
    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let failed = self.failed.clone();
        Arc::new(Queued { kernel: self.simulator.load(kernel.clone(), sources), prepared: kernel, failed })
    }
    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        match self.failed.lock().unwrap().take() {
            Some(earlier) => Err(DeviceError::EarlierLaunch(Box::new(earlier))),
            None => Ok(()),
        }
    }
    fn begin_batch(&self) {
        let mut batches = self.batches.lock().unwrap();
        (batches.0, batches.1) = (batches.0 + 1, batches.1 + 1);
    }
    fn end_batch(&self) -> Result<(), DeviceError> {
        self.batches.lock().unwrap().0 -= 1;
        Ok(())
    }
}

struct Queued {
    kernel: Arc<dyn Executable>,
    prepared: Arc<PreparedKernel>,
    failed: Arc<Mutex<Option<EarlierFault>>>,
}

impl Executable for Queued {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let mut failed = self.failed.lock().unwrap();
        if failed.is_none()
            && let Err(fault) = self.kernel.launch(config, args, control)
        {
            *failed =
                Some(EarlierFault { fault: *fault, origin: LaunchOrigin::new(&self.prepared.module.kernel, config) });
        }
        Ok(PrintedText::new())
    }

    fn depends_on_promises(&self) -> bool {
        self.kernel.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.kernel.prepare_block_shape(block);
    }
}

struct SharedQueue(Arc<Queue>);

impl Devices for SharedQueue {
    fn open(&self, selector: DeviceSelector) -> Result<Arc<dyn Device>, DeviceError> {
        match selector {
            DeviceSelector::Sim(_) => Ok(Arc::new(Simulator::default())),
            DeviceSelector::Gpu(_) => Ok(self.0.clone()),
        }
    }
}

/// A session whose launches run on a [`Queue`].
struct Script {
    queue: Arc<Queue>,
    session: Session,
    interpreter: Interpreter,
    paper: CapturedOutput,
}

impl Script {
    fn on(device: Arc<dyn Device>, queue: Arc<Queue>) -> Script {
        let options = ScriptOptions { args: vec![], control: Control::default(), seed: None, device };
        let mut interpreter = Interpreter::new(options);
        interpreter.device_pool.available = Some(Arc::new(SharedQueue(queue.clone())));
        Script { queue, session: Session::default(), interpreter, paper: CapturedOutput::default() }
    }

    fn new() -> Script {
        let queue = Arc::new(Queue::default());
        Script::on(queue.clone(), queue)
    }

    fn run(&mut self, text: &str) -> Result<(), Box<Diagnostic>> {
        let outcome = self.session.add("entry", text, &NoFiles);
        assert!(!outcome.failed(), "{:#?}", outcome.diagnostics);
        for chunk in outcome.chunks {
            self.interpreter.run_chunk(&self.session, chunk, &mut self.paper)?;
        }
        Ok(())
    }

    /// Returns the code of an error, and the source texts that its labels point at.
    fn code_and_labels(&self, diagnostic: &Diagnostic) -> (&'static str, Vec<&str>) {
        let text = |span| self.session.sources.slice(span);
        (diagnostic.code, diagnostic.labels.iter().map(|label| text(label.span)).collect())
    }
}

const KERNEL: &str =
    "kernel at(j: i32, x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i + j] }\nlet x = [1, 2, 3]\n";

#[test]
fn faults_are_reported_before_later_output() {
    let mut script = Script::new();
    let error = script.run(&format!("{KERNEL}print(\"before\")\nlet y = at(5, x)\nlet z = at(0, x)\nprint(\"after\")"));
    let error = error.unwrap_err();
    assert_eq!(script.code_and_labels(&error), ("E0601", vec!["x[i + j]", "at(5, x)"]));
    assert_eq!(script.paper.0, "before\n");
    // The fault is reported once, and the session continues.
    script.run("print(at(0, x))").unwrap();
    assert_eq!(script.paper.0, "before\n[1 2 3]\n");
}

#[test]
fn faults_have_the_advice_of_synchronous_launches() {
    for launch in ["let y = at(5, x)", "print(at(5, x))"] {
        let text = format!("{KERNEL}{launch}");
        let synchronous = Script::on(Arc::new(Simulator::default()), Arc::default()).run(&text).unwrap_err();
        assert!(synchronous.help.iter().any(|help| help.starts_with("guard the access")), "{synchronous:#?}");
        assert_eq!(Script::new().run(&text).unwrap_err(), synchronous);
    }
}

#[test]
fn entries_wait_for_their_launches() {
    let mut script = Script::new();
    let error = script.run(&format!("{KERNEL}let y = at(5, x)")).unwrap_err();
    assert_eq!(script.code_and_labels(&error).1[1], "at(5, x)");
    // The script reports the fault of `at(7, x)` instead of the assertion that fails after it.
    let error = script.run("let w = at(7, x)\nassert(1 == 2)").unwrap_err();
    assert_eq!(script.code_and_labels(&error), ("E0601", vec!["x[i + j]", "at(7, x)"]));
    assert_eq!(script.run("assert(1 == 2)").unwrap_err().code, "E0530");
}

#[test]
fn faults_in_loops_name_the_iterations_launch() {
    let mut script = Script::new();
    let text = format!("{KERNEL}var y = x\nfor k in 0..4 {{ y = at(k / 3, y) }}\nfor k in 0..3 {{ y = at(0, y) }}\n");
    let error = script.run(&text).unwrap_err();
    assert_eq!(script.code_and_labels(&error), ("E0601", vec!["x[i + j]", "at(k / 3, y)"]));
}

#[test]
fn explicitly_named_devices_are_waited_for() {
    let queue = Arc::new(Queue::default());
    let mut script = Script::on(Arc::new(Simulator::default()), queue);
    let error = script.run(&format!("{KERNEL}on gpu(1) {{ let y = at(4, x) }}\n")).unwrap_err();
    assert_eq!(script.code_and_labels(&error), ("E0601", vec!["x[i + j]", "at(4, x)"]));
    let waits = script.queue.waits.load(Ordering::Relaxed);
    script.run("print(at(0, x))").unwrap();
    assert_eq!(script.queue.waits.load(Ordering::Relaxed), waits, "nobody named it");
}

#[test]
fn batches_end_whatever_happens() {
    let mut script = Script::new();
    script.run(&format!("{KERNEL}var y = x\nbatch {{ y = at(0, y)\n batch {{ y = at(0, y) }} }}")).unwrap();
    assert_eq!(*script.queue.batches.lock().unwrap(), (0, 2));
    script.run("for k in 0..3 { batch { y = at(0, y)\n if k == 1 { break } } }").unwrap();
    assert_eq!(*script.queue.batches.lock().unwrap(), (0, 4));
    script.run("batch { y = at(0, y)\n assert(1 == 2) }").unwrap_err();
    script.run("batch { y = at(9, y) }").unwrap_err();
    assert_eq!(script.queue.batches.lock().unwrap().0, 0);
}

#[test]
fn repeated_launches_are_distinguished() {
    // Each launch statement runs several times, with arguments of different types, shapes and values, and with results
    // of different sizes.
    let mut script = Script::new();
    let text = "kernel twice<T: Num>(x: [T; N], out y: [T; N, 2]) threads(i: N, j: 2) { y[i, j] = x[i] }
        kernel first(n: i32, x: [f32; N], out y: [f32; 3]) grid(n) block(1) { if block_idx.x < 3 { y[block_idx.x] = x[0] } }
        for k in 0..12 {
            let n = 1 + k % 3
            let y = twice(ones(n))
            assert(y[n - 1, 1] == 1.0 && sum(y) == f32(2 * n))
            assert(sum(twice(zeros(k, type = i32))) == 0)
            assert(all(first(3 + k, ones(n)) == [1.0, 1.0, 1.0]))
        }
        print(\"done\")";
    script.run(text).unwrap();
    assert_eq!(script.paper.0, "done\n");
}
