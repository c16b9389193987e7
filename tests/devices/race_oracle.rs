//! Compares the races that `--check` reports with those that an exhaustive comparison of the accesses in the stepper's
//! trace finds. Each race must be reported, nothing else may be, and each report must name accesses that happen.
//!
//! `CLK_RACE_KERNELS` is the number of random kernels, `CLK_RACE_SEED` the first seed.

mod kernels;
mod oracle;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::def::Module;
use clk_ir::{Checks, PreparedKernel};
use clk_lower::{Instance, lower};
use clk_runtime::Isa;
use clk_runtime::{Arg, Control, Device, DeviceWrapper, Executable, Fault, FaultKind, LaunchConfig, PrintedText};
use clk_sim::{Jit, Proofs, Simulator};
use clk_testing::setting;
use clk_testing::world::CapturedOutput;
use kernels::Program;
use oracle::{Truth, Verdict};

/// The reports of a checked launch.
#[derive(Clone, Default)]
struct LaunchReport {
    fault: Option<Box<Fault>>,
    warnings: Vec<Fault>,
}

/// A simulator that records the reports of its launches.
struct Recorder {
    simulator: Simulator,
    launch_report: Arc<Mutex<LaunchReport>>,
}

struct RecordedKernel {
    inner: Arc<dyn Executable>,
    launch_report: Arc<Mutex<LaunchReport>>,
}

impl DeviceWrapper for Recorder {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        Arc::new(RecordedKernel {
            inner: self.simulator.load(kernel, sources),
            launch_report: self.launch_report.clone(),
        })
    }
}

impl Executable for RecordedKernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let result = self.inner.launch(config, args, control);
        let mut report = self.launch_report.lock().expect("one thread");
        report.warnings = control.warnings.lock().expect("one thread").clone();
        report.fault = result.as_ref().err().cloned();
        result
    }

    fn depends_on_promises(&self) -> bool {
        self.inner.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.inner.prepare_block_shape(block);
    }
}

/// How to run a kernel: the number of workers, the engine, and the use of proofs.
#[derive(Clone, Copy, Debug)]
struct RunConfig {
    workers: usize,
    jit: Jit,
    proofs: Proofs,
}

/// Returns three configurations for the kernel of a seed. The engine and the use of proofs depend on the seed, so that
/// all combinations occur.
fn configs(seed: u64) -> [RunConfig; 3] {
    let jits = match Jit::Always.is_available(Isa::default()) {
        true => [Jit::Off, Jit::Always, Jit::Forced],
        false => [Jit::Off; 3],
    };
    let proofs = [Proofs::Unused, Proofs::Always];
    let config = |(k, workers): (usize, usize)| RunConfig {
        workers,
        jit: jits[(seed as usize + k) % 3],
        proofs: proofs[(seed as usize / 3 + k) % 2],
    };
    [(0, 1), (1, 2), (2, 7)].map(config)
}

fn run(program: &Program, run_config: RunConfig) -> Result<LaunchReport, String> {
    let mut session = Session::default();
    let outcome = session.add("races.clk", &program.text, &NoFiles);
    if outcome.failed() {
        return Err(format!("{:#?}", outcome.diagnostics));
    }
    let shared_report = Arc::new(Mutex::new(LaunchReport::default()));
    let simulator = Simulator::default().with_jit(run_config.jit).with_proofs(run_config.proofs);
    let device = Arc::new(Recorder { simulator, launch_report: shared_report.clone() });
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    let control = Control { workers: run_config.workers, checks, ..Control::default() };
    let mut interpreter = Interpreter::new(ScriptOptions { args: vec![], control, seed: None, device });
    for chunk in outcome.chunks {
        if let Err(error) = interpreter.run_chunk(&session, chunk, &mut CapturedOutput::default())
            && shared_report.lock().expect("one thread").fault.is_none()
        {
            return Err(format!("{error:#?}"));
        }
    }
    let report = shared_report.lock().expect("one thread").clone();
    Ok(report)
}

fn lowered(text: &str) -> Module {
    let mut session = Session::default();
    let outcome = session.add("races.clk", text, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{text}", outcome.diagnostics);
    let kernel = session.program.kernels.ids().next_back().expect("a kernel");
    lower(&session.program, &Instance::new(kernel, vec![])).expect("a kernel that can be lowered")
}

/// Describes how the reports of a launch differ from its true races.
fn difference(program: &Program, truth: &Truth, launch_report: &LaunchReport) -> Option<String> {
    let verdict = match &launch_report.fault {
        Some(fault) if !matches!(fault.kind, FaultKind::Race(_)) => return Some("another fault".into()),
        Some(_) => Verdict::Race,
        None if launch_report.warnings.is_empty() => Verdict::Clean,
        None => Verdict::Same,
    };
    if verdict != truth.verdict() {
        return Some(format!("{verdict:?} and should be {:?}", truth.verdict()));
    }
    let reports = launch_report.fault.as_deref().into_iter().chain(&launch_report.warnings);
    for report in reports {
        if let Some(why) = truth.contradiction(program, report) {
            return Some(format!("{why}: {report:#?}"));
        }
    }
    match verdict {
        Verdict::Same => {
            truth.unreported(program, &launch_report.warnings).map(|element| format!("not reported: {element}"))
        }
        _ => None,
    }
}

fn failure(seed: u64) -> (Verdict, Option<String>) {
    let program = kernels::program(seed);
    let truth = Truth::of(&program, &lowered(&program.text));
    let wrong = configs(seed).into_iter().find_map(|run_config| {
        let wrong = match run(&program, run_config) {
            Ok(launch_report) => {
                difference(&program, &truth, &launch_report).map(|why| format!("{why}\n{:#?}", launch_report.fault))
            }
            Err(why) => Some(why),
        };
        wrong.map(|why| format!("seed {seed}, {run_config:?}: {why}\n{}", program.text))
    });
    (truth.verdict(), wrong)
}

#[test]
fn race_reports_are_sound_and_complete() {
    let (first, count) = (setting("CLK_RACE_SEED", 0), setting("CLK_RACE_KERNELS", 600));
    let (next, verdicts) = (AtomicU64::new(first), Mutex::new([0u64; 3]));
    let failures = Mutex::new(vec![]);
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let (verdict, wrong) = failure(seed);
            verdicts.lock().expect("no panic")[verdict as usize] += 1;
            failures.lock().expect("no panic").extend(wrong);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let failures = failures.into_inner().expect("no panic");
    let verdicts = verdicts.into_inner().expect("no panic");
    println!("{count} kernels from seed {first}: {verdicts:?} are clean, write the same, race");
    let few = &failures[..failures.len().min(3)];
    assert!(failures.is_empty(), "{} of {count} kernels are wrong:\n{}", failures.len(), few.join("\n\n"));
    assert!(count < 300 || verdicts.iter().all(|&n| n > count / 20), "{verdicts:?}");
}
