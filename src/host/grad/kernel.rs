//! Kernels that are launched in a function that is differentiated: their derivatives, made and loaded once.
//!
//! In: a kernel as it was lowered, before it is optimized. Out: executables of it and of its derivatives, which are kernels again.

use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::derive::{self, Counting, Derived, Gather, Launches, Lost, Recorder, Role, Totals};
use crate::device::{Control, Device, Executable, Extents};
use crate::host::problem::{Elsewhere, Outcome, Problem};
use crate::ir::def::{Access, KernelParam, Module, Space};
use crate::ir::{Checks, Counted, Declared, Prepared};
use crate::pass;

/// How kernels are compiled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    pub checks: Checks,
    pub counted: Option<Counted>,
}

/// A kernel, and what its launches need.
pub(crate) struct Kernel {
    pub module: Module,
    launches: Launches,
    /// It is a derivative in reverse mode, or one of such a derivative.
    takes_adjoints: bool,
    device: Arc<dyn Device>,
    manner: Manner,
    loaded: OnceLock<Arc<dyn Executable>>,
    /// By direction, and by which parameters are active.
    derived: Made<(Direction, Vec<bool>), Derivative>,
    /// By the parameters that keep what is not written.
    keeping: Made<Vec<usize>, Kernel>,
}

/// The most bytes of tapes, in the memory of the host and in that of a device. More would not fit, or slow down all else.
const MOST: u64 = 4 << 30;
const MOST_ON_DEVICE: u64 = 32 << 30;

/// What has been made of a kernel so far.
type Made<K, V> = Mutex<FxHashMap<K, Arc<V>>>;

/// Returns what was made before, or makes it.
fn found_or<K: Eq + Hash, V>(all: &Made<K, V>, key: K, make: impl FnOnce(&K) -> Outcome<Arc<V>>) -> Outcome<Arc<V>> {
    if let Some(found) = all.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(found.clone());
    }
    let made = make(&key)?;
    all.lock().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
    Ok(made)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Forward,
    Reverse,
}

/// A derivative of a kernel, which is a kernel that can be differentiated.
pub(super) struct Derivative {
    pub kernel: Arc<Kernel>,
    pub params: Vec<Role>,
    /// Counts the slots of tapes.
    pub counting: Option<(Arc<Kernel>, Vec<Role>)>,
    /// The loop that records the most on each tape.
    pub recorders: Vec<Recorder>,
    /// Kernels that gather adjoints before it runs, with what they are adjoints of.
    pub gathers: Vec<(Arc<Kernel>, Vec<Role>, usize)>,
    /// Adds up over all threads before it runs.
    pub totals: Option<Sums>,
    /// Whether it has to run besides.
    pub has_effect: bool,
}

/// A kernel of sums over all threads, with what each is a part of: the adjoint of which parameter, and the element.
pub(super) struct Sums {
    pub kernel: Arc<Kernel>,
    pub params: Vec<Role>,
    pub of: Vec<(usize, Vec<u32>)>,
}

/// One launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    pub kernel: Arc<Kernel>,
    pub extents: Extents,
    pub control: Control,
    /// What the kernel and its derivatives have printed.
    pub said: Arc<Mutex<String>>,
}

impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "launch of {}", self.kernel.module.kernel.name)
    }
}

impl Kernel {
    /// Creates a kernel of a module that is lowered for no checks, to be launched in this way.
    pub fn new(module: Module, launches: Launches, device: Arc<dyn Device>, manner: Manner) -> Arc<Kernel> {
        Arc::new(Kernel::made(module, launches, device, manner))
    }

    fn made(module: Module, launches: Launches, device: Arc<dyn Device>, manner: Manner) -> Kernel {
        let (loaded, derived, keeping) = (OnceLock::new(), Mutex::default(), Mutex::default());
        Kernel { module, launches, takes_adjoints: false, device, manner, loaded, derived, keeping }
    }

    fn derivative(&self, module: Module, params: &[Role], direction: Direction) -> Arc<Kernel> {
        let launches = self.launches.of_derivative(&module, params);
        let takes_adjoints = self.takes_adjoints || direction == Direction::Reverse;
        Arc::new(Kernel { takes_adjoints, ..Kernel::made(module, launches, self.device.clone(), self.manner) })
    }

    /// Returns the access to a parameter that is an array.
    pub fn access(&self, param: usize) -> Option<Access> {
        self.module.kernel.params.get(param)?.access()
    }

    /// The most bytes of a launch's tapes.
    pub(super) fn largest_tape(&self) -> u64 {
        if self.device.is_remote() { MOST_ON_DEVICE } else { MOST }
    }

    pub(super) fn executable(&self) -> Outcome<&Arc<dyn Executable>> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let prepared = self.prepared()?;
        Ok(self.loaded.get_or_init(|| self.device.load(Arc::new(prepared))))
    }

    fn prepared(&self) -> Outcome<Prepared> {
        let mut prepared = pass::prepare_for(self.module.clone(), self.manner.checks).map_err(|why| {
            Problem::new("E0999", format!("internal error: the derivative of a kernel is broken: {why}"))
                .help("please report this as a bug of Clk")
        })?;
        prepared.counted = self.manner.counted;
        prepared.declared = self.launches.given().cloned().map(Declared::new);
        Ok(prepared)
    }

    /// Returns the same kernel, with `out` arrays that keep what is not written.
    pub(super) fn keeping(&self, params: Vec<usize>) -> Outcome<Arc<Kernel>> {
        found_or(&self.keeping, params, |params| {
            let mut module = self.module.clone();
            for &at in params {
                let Some(KernelParam::Array { access, memory, .. }) = module.kernel.params.get_mut(at) else {
                    continue;
                };
                *access = Access::InOut;
                let (memory, body) = (*memory, module.kernel.body);
                if let Space::Global { access, .. } = &mut module.functions[body].memories[memory].space {
                    *access = Access::InOut;
                }
            }
            let kernel = Kernel::made(module, self.launches.clone(), self.device.clone(), self.manner);
            Ok(Arc::new(Kernel { takes_adjoints: self.takes_adjoints, ..kernel }))
        })
    }

    pub(super) fn derived(&self, direction: Direction, active: &[bool]) -> Outcome<Arc<Derivative>> {
        found_or(&self.derived, (direction, active.to_vec()), |_| {
            let made = match direction {
                Direction::Forward => derive::forward(&self.module, active, self.takes_adjoints),
                Direction::Reverse => derive::reverse(&self.module, active, &self.launches),
            };
            let made = made.map_err(|lost| refused(&self.module.kernel.name, &lost))?;
            let Derived { module, params, counting, recorders, gathers, totals, has_effect } = made;
            let apart = |module: Module| {
                let launches = Launches::with(&module, Extents::Threads([1; 3]));
                Kernel::new(module, launches, self.device.clone(), self.manner)
            };
            let gather = |Gather { module, params, param }| (apart(module), params, param);
            let gathers = gathers.into_iter().map(gather).collect();
            let sums = |Totals { module, params, sums }| Sums { kernel: apart(module), params, of: sums };
            let totals = totals.map(sums);
            let counting =
                counting.map(|Counting { module, params }| (self.derivative(module, &params, direction), params));
            let kernel = self.derivative(module, &params, direction);
            Ok(Arc::new(Derivative { kernel, params, counting, recorders, gathers, totals, has_effect }))
        })
    }
}

/// Returns the refusal of a kernel's derivative at its launch, which shows the line of the kernel.
fn refused(kernel: &str, lost: &Lost) -> Problem {
    let mut problem = Problem::new(lost.code, lost.title.clone()).label(format!("launches `{kernel}`"));
    problem.elsewhere = Some(Box::new(Elsewhere::Place(lost.span, lost.label.clone())));
    problem.help.extend(Some(lost.help.clone()).filter(|help| !help.is_empty()));
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{NoFiles, Session, launches};
    use crate::device::sim::Simulator;
    use crate::lower::{Instance, lower};

    /// In its derivative a kernel's accesses, and those to adjoints, are in bounds by the same proofs.
    #[test]
    fn derivatives_have_the_launches_of_their_kernels() {
        let text = "kernel k(x: [f32; 2 * N + 1], out y: [f32; N]) threads(i: N) { y[i] = x[2 * i + 1] * x[i] }";
        let mut session = Session::default();
        assert!(!session.add("k.clk", text, &NoFiles).failed());
        let instance = Instance::new(session.program.kernels.ids().next().expect("a kernel"), vec![]);
        let module = lower(&session.program, &instance).expect("a module");
        let launches = launches(&session.program, &instance, &module).expect("a signature");
        let kernel = Kernel::new(module, launches, Arc::new(Simulator::default()), Manner::default());
        let first = kernel.derived(Direction::Reverse, &[true, true]).expect("a derivative").kernel.clone();
        let second = first.derived(Direction::Forward, &[true; 4]).expect("a derivative").kernel.clone();
        for (kernel, least) in [(kernel, 1), (first, 2), (second, 3)] {
            let prepared = kernel.prepared().expect("a kernel");
            let inside = prepared.declared.as_ref().expect("launches").inside(&prepared.module);
            assert!(inside.axes.len() >= least, "{}: {:?}", kernel.module.kernel.name, inside.axes);
        }
    }
}
