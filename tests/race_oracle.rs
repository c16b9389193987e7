//! Races that `--check` reports, against all pairs of accesses in the stepper's trace: none is missed, none is invented, and each report
//! names accesses that happen.
//!
//! `CLK_RACE_KERNELS` is the number of random kernels, `CLK_RACE_SEED` the first seed.

#[path = "race_oracle/kernels.rs"]
mod kernels;
#[path = "race_oracle/oracle.rs"]
mod oracle;
#[path = "common/random.rs"]
mod random;
#[path = "common/world.rs"]
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clk_lang::base::source::Sources;
use clk_lang::compile::{NoFiles, Session};
use clk_lang::device::sim::{Isa, Jit, Proofs, Simulator};
use clk_lang::device::{Arg, Control, Device, Executable, Extents, Fault, FaultKind, Output};
use clk_lang::host::interp::{Interpreter, Options};
use clk_lang::ir::def::Module;
use clk_lang::ir::{Checks, Prepared};
use clk_lang::lower::{Instance, lower};
use kernels::Program;
use oracle::{Truth, Verdict};
use world::Paper;

/// What checks find in a launch.
#[derive(Clone, Default)]
struct Found {
    fault: Option<Box<Fault>>,
    warnings: Vec<Fault>,
}

/// The simulator, and what its launches found.
struct Recorder {
    simulator: Simulator,
    found: Arc<Mutex<Found>>,
}

struct Recorded {
    inner: Arc<dyn Executable>,
    found: Arc<Mutex<Found>>,
}

impl Device for Recorder {
    fn name(&self) -> String {
        self.simulator.name()
    }

    fn is_watchful(&self) -> bool {
        true
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.load_named(kernel, &Sources::default())
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        Arc::new(Recorded { inner: self.simulator.load_named(kernel, sources), found: self.found.clone() })
    }

    fn instructions(&self) -> Option<Isa> {
        self.simulator.instructions()
    }
}

impl Executable for Recorded {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let result = self.inner.launch(extents, args, control);
        let mut found = self.found.lock().expect("one thread");
        found.warnings = control.warnings.lock().expect("one thread").clone();
        found.fault = result.as_ref().err().cloned();
        result
    }
}

/// One way to run a kernel.
#[derive(Clone, Copy, Debug)]
struct Way {
    workers: usize,
    jit: Jit,
    proofs: Proofs,
}

/// Returns the ways to run the kernel of a seed. Machine code and proofs alternate, so that all combinations occur.
fn ways(seed: u64) -> [Way; 3] {
    let jits = match Jit::Always.is_here(Isa::default()) {
        true => [Jit::Off, Jit::Always, Jit::Forced],
        false => [Jit::Off; 3],
    };
    let proofs = [Proofs::Unused, Proofs::Always];
    let way = |(k, workers): (usize, usize)| Way {
        workers,
        jit: jits[(seed as usize + k) % 3],
        proofs: proofs[(seed as usize / 3 + k) % 2],
    };
    [(0, 1), (1, 2), (2, 7)].map(way)
}

fn run(program: &Program, way: Way) -> Result<Found, String> {
    let mut session = Session::default();
    let outcome = session.add("races.clk", &program.text, &NoFiles);
    if outcome.failed() {
        return Err(format!("{:#?}", outcome.diagnostics));
    }
    let found = Arc::new(Mutex::new(Found::default()));
    let simulator = Simulator::default().compiling(way.jit).with_proofs(way.proofs);
    let device = Arc::new(Recorder { simulator, found: found.clone() });
    let checks = Checks { memory: true, arithmetic: true, nan: false };
    let control = Control { workers: way.workers, checks, ..Control::default() };
    let mut interpreter = Interpreter::new(Options { args: vec![], control, seed: None, device });
    for chunk in outcome.chunks {
        if let Err(error) = interpreter.run_chunk(&session, chunk, &mut Paper::default())
            && found.lock().expect("one thread").fault.is_none()
        {
            return Err(format!("{error:#?}"));
        }
    }
    let found = found.lock().expect("one thread").clone();
    Ok(found)
}

fn lowered(text: &str) -> Module {
    let mut session = Session::default();
    let outcome = session.add("races.clk", text, &NoFiles);
    assert!(!outcome.failed(), "{:#?}\n{text}", outcome.diagnostics);
    let kernel = session.program.kernels.ids().next_back().expect("a kernel");
    lower(&session.program, &Instance::new(kernel, vec![])).expect("a kernel that can be lowered")
}

/// Returns how what checks find differs from the truth.
fn difference(program: &Program, truth: &Truth, found: &Found) -> Option<String> {
    let verdict = match &found.fault {
        Some(fault) if !matches!(fault.kind, FaultKind::Race(_)) => return Some("another fault".into()),
        Some(_) => Verdict::Race,
        None if found.warnings.is_empty() => Verdict::Clean,
        None => Verdict::Same,
    };
    if verdict != truth.verdict() {
        return Some(format!("{verdict:?} and should be {:?}", truth.verdict()));
    }
    let reports = found.fault.as_deref().into_iter().chain(&found.warnings);
    for report in reports {
        if let Some(why) = truth.contradiction(program, report) {
            return Some(format!("{why}: {report:#?}"));
        }
    }
    match verdict {
        Verdict::Same => truth.unreported(program, &found.warnings).map(|element| format!("not reported: {element}")),
        _ => None,
    }
}

fn failure(seed: u64) -> (Verdict, Option<String>) {
    let program = kernels::program(seed);
    let truth = Truth::of(&program, &lowered(&program.text));
    let wrong = ways(seed).into_iter().find_map(|way| {
        let wrong = match run(&program, way) {
            Ok(found) => difference(&program, &truth, &found).map(|why| format!("{why}\n{:#?}", found.fault)),
            Err(why) => Some(why),
        };
        wrong.map(|why| format!("seed {seed}, {way:?}: {why}\n{}", program.text))
    });
    (truth.verdict(), wrong)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn reports_of_races_are_true_and_complete() {
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
