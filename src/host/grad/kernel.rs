//! Kernels that a differentiated function launches, and the derivatives of these kernels. Each derivative is generated
//! and loaded only once.
//!
//! Input: a lowered kernel before optimization. Output: executables of the kernel and of its derivatives. The
//! derivatives are kernels that can be differentiated again.

use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::problem::{ErrorOrigin, HostResult, RuntimeError};
use clk_derive::{
    DerivativeLaunches, Derived, DerivedParamRole, GatherKernel, NotDifferentiable, ReductionKernel,
    TapeCountingKernel, TapeLoop,
};
use clk_ir::def::{Access, KernelParam, MemorySpace, Module};
use clk_ir::{Checks, CostCounting, DeclaredLaunches, PreparedKernel};
use clk_runtime::{Control, Device, Executable, LaunchConfig, LaunchExtents};

/// Options for the compilation of a kernel and of its derivatives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompileOptions {
    pub checks: Checks,
    pub cost_counting: Option<CostCounting>,
}

/// A kernel that can be differentiated.
pub(crate) struct GradKernel {
    pub module: Module,
    launches: DerivativeLaunches,
    /// Whether this kernel is a reverse-mode derivative, or a derivative of one.
    is_reverse: bool,
    device: Arc<dyn Device>,
    options: CompileOptions,
    loaded_executable: OnceLock<Arc<dyn Executable>>,
    /// The generated derivatives, by direction and by which parameters are active.
    derivatives: KernelCache<(Direction, Vec<bool>), DerivedKernel>,
    /// The variants of the kernel of [`GradKernel::with_preserved_outputs`], by the preserved parameters.
    preserving: KernelCache<Vec<usize>, GradKernel>,
}

/// Maximum size of a launch's tapes in bytes in host memory. Larger tapes would not fit, or would leave too little
/// memory for other arrays.
const MAX_TAPE_BYTES: u64 = 4 << 30;
/// Maximum size of a launch's tapes in bytes in device memory.
const MAX_DEVICE_TAPE_BYTES: u64 = 32 << 30;

/// Cache of the kernels that were generated for a kernel.
type KernelCache<K, V> = Mutex<FxHashMap<K, Arc<V>>>;

/// Returns the value with this key; calls `make` and caches its result if there is none.
fn get_or_make<K: Eq + Hash, V>(
    all: &KernelCache<K, V>,
    key: K,
    make: impl FnOnce(&K) -> HostResult<Arc<V>>,
) -> HostResult<Arc<V>> {
    if let Some(found) = all.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(found.clone());
    }
    let value = make(&key)?;
    all.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value.clone());
    Ok(value)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Forward,
    Reverse,
}

/// A derivative of a kernel. It is itself a kernel that can be differentiated.
pub(super) struct DerivedKernel {
    pub kernel: Arc<GradKernel>,
    pub params: Vec<DerivedParamRole>,
    /// A kernel that counts the tape slots that threads need, if the derivative has tapes.
    pub counting: Option<(Arc<GradKernel>, Vec<DerivedParamRole>)>,
    /// For each tape, the loop that records the largest number of values. Used in error messages.
    pub tape_loops: Vec<TapeLoop>,
    /// Kernels that run before the main kernel and compute the adjoint of a parameter by gathering, without atomic
    /// operations. Each has the index of the parameter.
    pub gathers: Vec<(Arc<GradKernel>, Vec<DerivedParamRole>, usize)>,
    /// A kernel that runs before the main kernel and sums adjoints over all threads.
    pub reductions: Option<LoadedReductionKernel>,
    /// Whether the main kernel must run in addition to these kernels.
    pub has_effect: bool,
}

/// A kernel that computes sums over all threads. `targets` has the target of each sum: a parameter, and the indices of
/// the element of its adjoint to which the sum is added.
pub(super) struct LoadedReductionKernel {
    pub kernel: Arc<GradKernel>,
    pub params: Vec<DerivedParamRole>,
    pub targets: Vec<(usize, Vec<u32>)>,
}

/// One launch of a kernel.
#[derive(Clone)]
pub(crate) struct GradLaunch {
    pub kernel: Arc<GradKernel>,
    pub config: LaunchConfig,
    pub control: Control,
    /// The text that the kernel and its derivatives printed.
    pub output: Arc<Mutex<String>>,
}

impl std::fmt::Debug for GradLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "launch of {}", self.kernel.module.kernel.name)
    }
}

impl GradKernel {
    /// Creates a kernel from a module that was lowered without checks.
    pub fn new(
        module: Module,
        launches: DerivativeLaunches,
        device: Arc<dyn Device>,
        manner: CompileOptions,
    ) -> Arc<GradKernel> {
        Arc::new(GradKernel::with_options(module, launches, device, manner))
    }

    fn with_options(
        module: Module,
        launches: DerivativeLaunches,
        device: Arc<dyn Device>,
        manner: CompileOptions,
    ) -> GradKernel {
        let (loaded, derived, keeping) = (OnceLock::new(), Mutex::default(), Mutex::default());
        GradKernel {
            module,
            launches,
            is_reverse: false,
            device,
            options: manner,
            loaded_executable: loaded,
            derivatives: derived,
            preserving: keeping,
        }
    }

    fn derivative(&self, module: Module, params: &[DerivedParamRole], direction: Direction) -> Arc<GradKernel> {
        let launches = self.launches.for_derivative(&module, params);
        let takes_adjoints = self.is_reverse || direction == Direction::Reverse;
        Arc::new(GradKernel {
            is_reverse: takes_adjoints,
            ..GradKernel::with_options(module, launches, self.device.clone(), self.options)
        })
    }

    /// Returns the access mode of an array parameter.
    pub fn access(&self, param: usize) -> Option<Access> {
        self.module.kernel.params.get(param)?.access()
    }

    /// Returns the maximum size of a launch's tapes in bytes on this device.
    pub(super) fn max_tape_bytes(&self) -> u64 {
        if self.device.memory().is_some() { MAX_DEVICE_TAPE_BYTES } else { MAX_TAPE_BYTES }
    }

    pub(super) fn executable(&self) -> HostResult<&Arc<dyn Executable>> {
        if let Some(loaded) = self.loaded_executable.get() {
            return Ok(loaded);
        }
        let prepared = self.prepare()?;
        Ok(self.loaded_executable.get_or_init(|| self.device.load(Arc::new(prepared), None)))
    }

    fn prepare(&self) -> HostResult<PreparedKernel> {
        let mut prepared = clk_pass::prepare_for(self.module.clone(), self.options.checks).map_err(|why| {
            RuntimeError::new("E0999", format!("internal error: the derivative of a kernel is broken: {why}"))
                .help("please report this as a bug of Clk")
        })?;
        prepared.cost_counting = self.options.cost_counting;
        prepared.declared_launches = self.launches.symbolic_launch().cloned().map(DeclaredLaunches::new);
        Ok(prepared)
    }

    /// Returns a variant of the kernel in which these `out` parameters are `inout`, so that elements that it does not
    /// write keep their values.
    pub(super) fn with_preserved_outputs(&self, params: Vec<usize>) -> HostResult<Arc<GradKernel>> {
        get_or_make(&self.preserving, params, |params| {
            let mut module = self.module.clone();
            for &at in params {
                let Some(KernelParam::Array { access, memory, .. }) = module.kernel.params.get_mut(at) else {
                    continue;
                };
                *access = Access::InOut;
                let (memory, body) = (*memory, module.kernel.body);
                if let MemorySpace::Global { access, .. } = &mut module.functions[body].memories[memory].space {
                    *access = Access::InOut;
                }
            }
            let kernel = GradKernel::with_options(module, self.launches.clone(), self.device.clone(), self.options);
            Ok(Arc::new(GradKernel { is_reverse: self.is_reverse, ..kernel }))
        })
    }

    pub(super) fn derivatives(&self, direction: Direction, active: &[bool]) -> HostResult<Arc<DerivedKernel>> {
        get_or_make(&self.derivatives, (direction, active.to_vec()), |_| {
            let made = match direction {
                Direction::Forward => clk_derive::forward(&self.module, active, self.is_reverse),
                Direction::Reverse => clk_derive::reverse_mode(&self.module, active, &self.launches),
            };
            let made = made.map_err(|lost| derivative_error(&self.module.kernel.name, &lost))?;
            let Derived { module, params, counting, tape_loops, gathers, reduction, has_effect } = made;
            let separate_kernel = |module: Module| {
                let launches = DerivativeLaunches::for_extents(&module, LaunchExtents::Threads([1; 3]));
                GradKernel::new(module, launches, self.device.clone(), self.options)
            };
            let gather = |GatherKernel { module, params, param }| (separate_kernel(module), params, param);
            let gathers = gathers.into_iter().map(gather).collect();
            let load = |ReductionKernel { module, params, sums }| LoadedReductionKernel {
                kernel: separate_kernel(module),
                params,
                targets: sums,
            };
            let reductions = reduction.map(load);
            let counting = counting
                .map(|TapeCountingKernel { module, params }| (self.derivative(module, &params, direction), params));
            let kernel = self.derivative(module, &params, direction);
            Ok(Arc::new(DerivedKernel { kernel, params, counting, tape_loops, gathers, reductions, has_effect }))
        })
    }
}

/// Returns the error for a kernel that has no derivative. It is reported at the launch, and also shows the line in the
/// kernel.
fn derivative_error(kernel: &str, lost: &NotDifferentiable) -> RuntimeError {
    let mut problem = RuntimeError::new(lost.code, lost.title.clone()).label(format!("launches `{kernel}`"));
    problem.origin = Some(Box::new(ErrorOrigin::KernelSource(lost.span, lost.label.clone())));
    problem.help.extend(Some(lost.help.clone()).filter(|help| !help.is_empty()));
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_compile::{NoFiles, Session, derivative_launches};
    use clk_lower::{Instance, lower};
    use clk_sim::Simulator;

    /// Bounds checks are eliminated in a derivative too, including those of accesses to adjoints.
    #[test]
    fn derivatives_have_the_launches_of_their_kernels() {
        let text = "kernel k(x: [f32; 2 * N + 1], out y: [f32; N]) threads(i: N) { y[i] = x[2 * i + 1] * x[i] }";
        let mut session = Session::default();
        assert!(!session.add("k.clk", text, &NoFiles).failed());
        let instance = Instance::new(session.program.kernels.ids().next().expect("a kernel"), vec![]);
        let module = lower(&session.program, &instance).expect("a module");
        let launches = derivative_launches(&session.program, &instance, &module).expect("a signature");
        let kernel = GradKernel::new(module, launches, Arc::new(Simulator::default()), CompileOptions::default());
        let first = kernel.derivatives(Direction::Reverse, &[true, true]).expect("a derivative").kernel.clone();
        let second = first.derivatives(Direction::Forward, &[true; 4]).expect("a derivative").kernel.clone();
        for (kernel, least) in [(kernel, 1), (first, 2), (second, 3)] {
            let prepared = kernel.prepare().expect("a kernel");
            let inside = prepared.declared_launches.as_ref().expect("launches").in_bounds(&prepared.module);
            assert!(inside.axes.len() >= least, "{}: {:?}", kernel.module.kernel.name, inside.axes);
        }
    }
}
