//! Faults of asynchronous launches: where a script is notified of them, and the location it shows.

#[path = "common/world.rs"]
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use clk_lang::base::diag::Diagnostic;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::sim::Simulator;
use clk_lang::device::{
    Arg, Control, Device, DeviceError, Devices, Earlier, Executable, Extents, Fault, Output, Wanted,
};
use clk_lang::host::interp::{Interpreter, Options};
use clk_lang::ir::Prepared;
use world::Paper;

/// The simulator behind an asynchronous queue: the first fault is kept until the next synchronization, and later launches are
/// skipped.
#[derive(Default)]
struct Queue {
    simulator: Simulator,
    failed: Arc<Mutex<Option<Earlier>>>,
    waits: AtomicUsize,
    /// Number of `batch` blocks that are open, and in total.
    batches: Mutex<(usize, usize)>,
}

impl Device for Queue {
    fn name(&self) -> String {
        "queue".into()
    }
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        Arc::new(Queued { kernel: self.simulator.load(kernel), failed: self.failed.clone() })
    }
    fn confirm(&self) -> Result<(), DeviceError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        match self.failed.lock().unwrap().take() {
            Some(earlier) => Err(DeviceError::Earlier(Box::new(earlier))),
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
    failed: Arc<Mutex<Option<Earlier>>>,
}

impl Executable for Queued {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let mut failed = self.failed.lock().unwrap();
        if failed.is_none()
            && let Err(fault) = self.kernel.launch(extents, args, control)
        {
            *failed = Some(Earlier { fault: *fault, launched: control.launched });
        }
        Ok(Output::new())
    }
}

struct Same(Arc<Queue>);

impl Devices for Same {
    fn open(&self, wanted: Wanted) -> Result<Arc<dyn Device>, DeviceError> {
        match wanted {
            Wanted::Sim(_) => Ok(Arc::new(Simulator::default())),
            Wanted::Gpu(_) => Ok(self.0.clone()),
        }
    }
}

/// A session on such a device.
struct Script {
    queue: Arc<Queue>,
    session: Session,
    interpreter: Interpreter,
    paper: Paper,
}

impl Script {
    fn on(device: Arc<dyn Device>, queue: Arc<Queue>) -> Script {
        let options = Options { args: vec![], control: Control::default(), seed: None, device };
        let mut interpreter = Interpreter::new(options);
        interpreter.devices = Some(Arc::new(Same(queue.clone())));
        Script { queue, session: Session::default(), interpreter, paper: Paper::default() }
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
    fn told(&self, diagnostic: &Diagnostic) -> (&'static str, Vec<&str>) {
        let text = |span| self.session.sources.slice(span);
        (diagnostic.code, diagnostic.labels.iter().map(|label| text(label.span)).collect())
    }
}

const KERNEL: &str =
    "kernel at(j: i32, x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i + j] }\nlet x = [1, 2, 3]\n";

#[test]
fn a_fault_is_told_before_the_script_says_more() {
    let mut script = Script::new();
    let error = script.run(&format!("{KERNEL}print(\"before\")\nlet y = at(5, x)\nlet z = at(0, x)\nprint(\"after\")"));
    let error = error.unwrap_err();
    assert_eq!(script.told(&error), ("E0601", vec!["x[i + j]", "at(5, x)"]));
    assert_eq!(script.paper.0, "before\n");
    // It is reported once, and the session continues.
    script.run("print(at(0, x))").unwrap();
    assert_eq!(script.paper.0, "before\n[1 2 3]\n");
}

#[test]
fn the_end_of_an_entry_waits() {
    let mut script = Script::new();
    let error = script.run(&format!("{KERNEL}let y = at(5, x)")).unwrap_err();
    assert_eq!(script.told(&error).1[1], "at(5, x)");
    // The fault precedes any other error of the script.
    let error = script.run("let w = at(7, x)\nassert(1 == 2)").unwrap_err();
    assert_eq!(script.told(&error), ("E0601", vec!["x[i + j]", "at(7, x)"]));
    assert_eq!(script.run("assert(1 == 2)").unwrap_err().code, "E0530");
}

#[test]
fn loops_tell_the_launch_of_theirs() {
    let mut script = Script::new();
    let text = format!("{KERNEL}var y = x\nfor k in 0..4 {{ y = at(k / 3, y) }}\nfor k in 0..3 {{ y = at(0, y) }}\n");
    let error = script.run(&text).unwrap_err();
    assert_eq!(script.told(&error), ("E0601", vec!["x[i + j]", "at(k / 3, y)"]));
}

#[test]
fn devices_that_were_named_are_waited_for() {
    let queue = Arc::new(Queue::default());
    let mut script = Script::on(Arc::new(Simulator::default()), queue);
    let error = script.run(&format!("{KERNEL}on gpu(1) {{ let y = at(4, x) }}\n")).unwrap_err();
    assert_eq!(script.told(&error), ("E0601", vec!["x[i + j]", "at(4, x)"]));
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
fn launches_that_come_again_are_not_mixed_up() {
    // One statement with arguments of several kinds and shapes, dimensions by value, results of several sizes.
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
