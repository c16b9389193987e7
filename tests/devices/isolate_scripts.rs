//! Tests scripts whose kernels kill the worker process: the diagnostic names the line of the launch, arrays keep their
//! contents, and the next launch works.
//!
//! `clk_testing::fake` implements the processes and the GPU.
#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clk_base::diag::Diagnostic;
use clk_compile::{NoFiles, Session};
use clk_cuda::driver::Driver;
use clk_cuda::isolate;
use clk_cuda::nvrtc::{CudaCompiler, NvrtcError, NvrtcOutput};
use clk_cuda::{CudaGpu, GpuSettings, Isolation};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_runtime::worker_process::{Child, ChildRole};
use clk_runtime::{Control, Device};
use clk_sim::Simulator;
use clk_testing::fake::starter::Children;
use clk_testing::world::CapturedOutput;

/// A compiler whose output is only the name of the kernel, by which the fake GPU selects a function.
struct NameCompiler;

impl CudaCompiler for NameCompiler {
    fn version(&self) -> (i32, i32) {
        (13, 0)
    }
    fn compile(&self, _: &str, name: &str, _: u32, _: &[String]) -> Result<NvrtcOutput, NvrtcError> {
        Ok(NvrtcOutput { cubin: name.into(), log: String::new() })
    }
}

/// A session on an isolated GPU, entered one entry at a time.
struct Entries {
    children: Arc<Children>,
    session: Session,
    interpreter: Interpreter,
}

impl Entries {
    fn new() -> Entries {
        let children = Arc::new(Children::default());
        let isolation = Isolation {
            starter: children.clone(),
            replay_device: Arc::new(Simulator::default()),
            fallback_notice: None,
        };
        let starting = isolate::start(0, children.clone()).expect("children start");
        let settings = GpuSettings { isolation: Some(isolation), ..GpuSettings::default() };
        let device: Arc<dyn Device> = Arc::new(CudaGpu::with_parts(
            starting.properties().clone(),
            settings,
            move |_| starting.finish().map(|driver| Arc::new(driver) as Arc<dyn Driver>),
            || Ok(Arc::new(NameCompiler)),
        ));
        let options = ScriptOptions { args: vec![], control: Control::default(), seed: None, device };
        Entries { children, session: Session::default(), interpreter: Interpreter::new(options) }
    }

    fn enter(&mut self, text: &str) -> Result<(), Box<Diagnostic>> {
        let entered = self.session.enter("<entry>", text, &NoFiles);
        assert!(!entered.outcome.failed(), "{:?}", entered.outcome.diagnostics);
        for chunk in entered.outcome.chunks {
            self.interpreter.run_entry(&self.session, chunk, &mut CapturedOutput::default())?;
        }
        self.interpreter.options.device.finish().expect("nothing is left behind");
        Ok(())
    }
}

/// Returns code and title of a diagnostic, and all its other texts.
fn words(diagnostic: &Diagnostic) -> (&'static str, &str, String) {
    let labels = diagnostic.labels.iter().map(|l| l.text.as_str());
    let all: Vec<&str> = labels.chain(diagnostic.notes.iter().chain(&diagnostic.help).map(String::as_str)).collect();
    (diagnostic.code, &diagnostic.title, all.join("\n"))
}

const KERNELS: &str = "kernel bump(inout y: [i32; N]) threads(i: N) { y[i] += 1 }
kernel illegal(inout y: [i32; N], shift: i32) threads(i: N) { y[i + shift] = 5 }
kernel crash(inout y: [i32; N]) threads(i: N) { y[i] += 0 }
kernel hang(inout y: [i32; N]) threads(i: N) { while y[i] == 0 { y[i] += 0 } }
var y = [1]
bump(y)
assert(y == [2])";

#[test]
fn faults_have_a_line_and_lose_no_array() {
    let mut entries = Entries::new();
    entries.enter(KERNELS).expect("no fault");
    entries.enter("bump(y)").expect("no fault");
    let diagnostic = entries.enter("illegal(y, 1000)").expect_err("the kernel writes far outside");
    let (code, title, all) = words(&diagnostic);
    assert_eq!((code, title), ("E0601", "index 1000 is out of bounds for `y` of length 1"));
    for part in ["CUDA_ERROR_ILLEGAL_ADDRESS", "the simulator found this", "replaced within", "writes `y[1000]`"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    entries.enter("assert(y == [3])").expect("the array is unchanged");
    entries.enter("bump(y)\nassert(y == [4])").expect("the next launch works");
}

#[test]
fn faults_not_reproduced_by_the_simulator_are_explained() {
    let mut entries = Entries::new();
    entries.enter(KERNELS).expect("no fault");
    let diagnostic = entries.enter("crash(y)").expect_err("the process ends");
    let (code, title, all) = words(&diagnostic);
    assert_eq!((code, title), ("E0622", "`gpu:0` failed in kernel `crash`: the worker says it ended by signal 9"));
    assert!(all.contains("finds no fault") && all.contains("this kernel was running"), "{all}");
    entries.enter("bump(y)\nassert(y == [3])").expect("the next launch works");
}

#[test]
fn a_second_ctrl_c_kills_a_stuck_kernel() {
    let mut entries = Entries::new();
    entries.enter(KERNELS).expect("no fault");
    let (stop, children) = (entries.interpreter.options.control.stop.clone(), entries.children.clone());
    entries.enter("var z = [0]").expect("no fault");
    let begin = Instant::now();
    let diagnostic = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
            let worker = children.last(ChildRole::Worker);
            worker.stopped.store(true, Ordering::SeqCst);
            worker.kill();
        });
        entries.enter("hang(z)").expect_err("it does not end by itself")
    });
    assert!(begin.elapsed() < Duration::from_secs(20));
    entries.interpreter.options.control.stop.store(false, Ordering::SeqCst);
    let (code, title, all) = words(&diagnostic);
    assert_eq!((code, title), ("E0607", "interrupted"));
    assert!(all.contains("was still here after 1."), "{all}");
    entries.enter("bump(z)\nassert(z == [1])\nassert(y == [2])").expect("the session goes on");
}
