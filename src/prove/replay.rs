//! Replays a kernel at given sizes on the simulator, with checks and generated arguments.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use super::array_contents;
use super::report::Property;
use super::unstated_lengths::UnstatedLengths;
use clk_base::aligned::AlignedBytes;
use clk_base::diag::Diagnostic;
use clk_check::typed::{AssumeKind, Kernel, Program};
use clk_compile::advice::FaultOrigin;
use clk_compile::symbolic_launch;
use clk_compile::symbolic_launch::LaunchSizes;
use clk_ir::def::{Access, ElementLayout, KernelParam, Module, Ty};
use clk_ir::footprint::constant;
use clk_ir::footprint::vars::ArrayPromises;
use clk_ir::{Checks, CostCounting};
use clk_lower::Instance;
use clk_runtime::{Arg, Control, Device, Executable, Fault, LaunchConfig, LaunchExtents, SignaturePromise};
use clk_scalar::exact::limits;
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::{Jit, Proofs, Simulator};

/// Limits: the size of an array in bytes, and the number of threads of a launch.
const MAX_BYTES: usize = 16 << 20;
const MAX_THREADS: u64 = 1 << 17;
/// Limits: the number of loop iterations of a lane group, and the estimated number of operations of a launch. The
/// estimate assumes that each iteration executes the whole kernel.
const MAX_STEPS: u64 = 200_000;
const ALL_OPERATIONS: u64 = 4_000_000;

const CHECKS: Checks = Checks { memory: true, arithmetic: true, nan: false };

/// The number of array contents that are tried for a launch.
const FILL_SEEDS: u64 = 3;
/// The seed of the array contents with large numbers.
const LARGE_SEED: u64 = 2;

/// How arrays that the kernel reads are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayFilling {
    /// Depending on the seed: zeros (0), small integers (1), or a mix of the largest and smallest integers of the type
    /// (2).
    Numbers(u64),
    /// The position of each element, as far as its type can represent it.
    Positions,
    /// Small integers, and floats that use all digits, so that rounding errors of sums depend on the order.
    Digits,
}

/// Generated arguments of a launch.
pub(super) struct ReplayArguments {
    pub extents: LaunchExtents,
    /// By-value arguments, by position. The entry of an array is empty.
    pub values: Vec<Vec<ScalarValue>>,
    /// The bytes and shape of each array, by position.
    pub storage: Vec<Option<(AlignedBytes, Vec<u32>)>>,
}

/// A launch with known sizes, and the shapes of its arrays.
pub(super) struct ShapedLaunch {
    pub launch: symbolic_launch::SizedLaunch,
    pub extents: LaunchExtents,
    /// The shapes of arrays, by position.
    pub shapes: Vec<Option<Vec<u32>>>,
}

impl ShapedLaunch {
    /// `None` if a launch with these sizes is rejected or too large.
    pub fn of(
        program: &Program,
        kernel: &Kernel,
        instance: &Instance,
        module: &Module,
        ReplaySizes { dims, scalars }: &ReplaySizes,
    ) -> Option<ShapedLaunch> {
        let launch =
            symbolic_launch::symbolic_launch(program, kernel, instance, module, &LaunchSizes::Known { dims, scalars })
                .ok()?;
        let space: Vec<u32> =
            launch.space.iter().map(|form| u32::try_from(constant(form)?).ok()).collect::<Option<_>>()?;
        let extents = launch_extents(launch.symbolic.grid.is_some(), &space)?;
        let mut shapes = vec![];
        for (position, param) in module.kernel.params.iter().enumerate() {
            let KernelParam::Array { memory, .. } = param else {
                shapes.push(None);
                continue;
            };
            let axes = module.functions.get(module.kernel.body)?.memories.get(*memory)?.extents.len();
            let extent = |axis| launch.symbolic.extents.get(&(position as u32, axis as u8)).and_then(constant);
            let shape = (0..axes).map(|axis| u32::try_from(extent(axis)?).ok());
            shapes.push(Some(shape.collect::<Option<_>>()?));
        }
        Some(ShapedLaunch { launch, extents, shapes })
    }

    /// Returns zeroed memory for an array; `None` if the array is too large.
    pub fn zeroed(&self, position: usize, layout: &ElementLayout) -> Option<AlignedBytes> {
        let shape = self.shapes.get(position)?.as_ref()?;
        let count = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent as usize))?;
        AlignedBytes::zeroed(count.checked_mul(layout.size).filter(|bytes| *bytes <= MAX_BYTES)?)
    }

    /// Returns the promises about an array.
    pub fn promised(&self, position: usize) -> Option<&ArrayPromises> {
        self.launch.symbolic.variables.array_promises.get(&(position as u32))
    }

    /// Returns the by-value arguments. Integers that are part of the sizes have the value of the size, all others are
    /// 1.
    pub fn values(&self, module: &Module) -> Vec<Vec<ScalarValue>> {
        let value_of = |(position, param): (usize, &KernelParam)| match param {
            KernelParam::Value { ty, .. } => param_value(*ty, &self.launch, position as u32),
            KernelParam::Array { .. } => vec![],
        };
        module.kernel.params.iter().enumerate().map(value_of).collect()
    }
}

impl ReplayArguments {
    /// Returns the largest dimension or number of array elements.
    fn largest(&self, replay_sizes: &ReplaySizes) -> u64 {
        let shapes = self.storage.iter().flatten().map(|(_, shape)| shape);
        let counts = shapes.map(|shape| shape.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into())));
        let dims = replay_sizes.dims.iter().map(|&n| u64::try_from(n).unwrap_or(u64::MAX));
        counts.chain(dims).max().unwrap_or(0)
    }

    pub fn all(&mut self, module: &Module) -> Option<Vec<Arg<'_>>> {
        let mut args = vec![];
        for (position, (param, storage)) in module.kernel.params.iter().zip(&mut self.storage).enumerate() {
            args.push(match (param, storage) {
                (KernelParam::Value { .. }, _) => Arg::Value(self.values.get(position)?.clone()),
                (KernelParam::Array { access: Access::In, .. }, Some((data, shape))) => {
                    Arg::Read { bytes: data, shape: shape.clone() }
                }
                (KernelParam::Array { .. }, Some((data, shape))) => Arg::Write { bytes: data, shape: shape.clone() },
                (KernelParam::Array { .. }, None) => return None,
            });
        }
        Some(args)
    }
}

/// The sizes of a launch to be replayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplaySizes {
    pub dims: Vec<i128>,
    /// Integer parameters, by position.
    pub scalars: FxHashMap<u32, i128>,
}

/// Replays a kernel, and caches the findings.
pub(super) struct ReplayRunner<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    instance: &'a Instance,
    pub module: &'a Module,
    executable: Option<Arc<dyn Executable>>,
    replayed: Vec<ReplayedLaunch>,
    /// The properties for which violations are recorded.
    properties: Vec<Property>,
    pub lengths: UnstatedLengths,
    /// See [`ProofOptions::initial_contents`](super::ProofOptions::initial_contents).
    pub initial_contents: FxHashMap<String, Vec<ScalarValue>>,
    /// Whether runs skip proved checks.
    pub proofs: Proofs,
    /// Stops replays when it is set.
    pub stop: Arc<AtomicBool>,
}

/// A launch that was replayed, with the number of array contents tried so far and the findings of the runs.
struct ReplayedLaunch {
    sizes: ReplaySizes,
    fillings: u64,
    findings: Vec<ReplayFinding>,
}

/// A violation of a property that a run has shown.
#[derive(Clone)]
pub(super) struct ReplayFinding {
    pub property: Property,
    pub diagnostic: Diagnostic,
    pub sizes: String,
    /// Whether the launch has no such violation if all elements of its arrays are zero.
    pub needs_contents: bool,
    /// The launch sizes and the fault of the run.
    pub fault: Option<(ReplaySizes, Fault)>,
}

impl<'a> ReplayRunner<'a> {
    pub fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        instance: &'a Instance,
        module: &'a Module,
        lengths: UnstatedLengths,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let properties = Property::of_kernel(kernel, Some(module));
        let stop = stop.clone();
        ReplayRunner {
            program,
            kernel,
            instance,
            module,
            executable: None,
            replayed: vec![],
            properties,
            lengths,
            initial_contents: FxHashMap::default(),
            proofs: Proofs::Always,
            stop,
        }
    }

    /// Returns the number of threads of a launch; `None` if it is rejected or too large.
    pub fn thread_count(&self, sizes: &ReplaySizes) -> Option<u64> {
        let shaped = ShapedLaunch::of(self.program, self.kernel, self.instance, self.module, sizes)?;
        let product = |extents: &[u32]| extents.iter().map(|&n| u64::from(n)).product::<u64>();
        Some(match shaped.extents {
            LaunchExtents::Grid { grid, block } => product(&grid) * product(&block),
            LaunchExtents::Threads(sizes) => product(&sizes),
        })
    }

    /// Replays the kernel with several array contents until a run violates the property. Returns that run's finding.
    pub fn run(&mut self, sizes: &ReplaySizes, property: Property) -> Option<ReplayFinding> {
        let at = self.replayed.iter().position(|tried| tried.sizes == *sizes).unwrap_or_else(|| {
            self.replayed.push(ReplayedLaunch { sizes: sizes.clone(), fillings: 0, findings: vec![] });
            self.replayed.len() - 1
        });
        let promises = self.kernel.assumes.iter().any(|assume| matches!(assume.kind, AssumeKind::Array { .. }));
        let seed_count = if promises { 4 } else { FILL_SEEDS };
        loop {
            let tried = &mut self.replayed[at];
            if let Some(found) = tried.findings.iter().find(|found| found.property == property) {
                return Some(found.clone());
            }
            let seed = tried.fillings;
            if seed == seed_count {
                return None;
            }
            tried.fillings += 1;
            let mut new = self.findings(sizes, ReplayFilling::Numbers(seed)).unwrap_or_default();
            new.iter_mut().for_each(|new| new.needs_contents = seed > 0);
            // With large elements, sums of the data overflow. Such overflows are ignored, because they do not concern
            // indices.
            new.retain(|new| seed != LARGE_SEED || new.property != Property::NoOverflow);
            self.replayed[at].findings.append(&mut new);
        }
    }

    fn executable(&mut self) -> Option<Arc<dyn Executable>> {
        if self.executable.is_none() {
            self.executable = self.load(CHECKS);
        }
        self.executable.clone()
    }

    /// Returns the settings of a replay's launch on the simulator: one worker, the given checks, and a step limit that
    /// is lower for long kernels and for large grids.
    pub(super) fn control(&self, checks: Checks, extents: LaunchExtents) -> Control {
        let groups: u64 = match extents {
            LaunchExtents::Grid { grid, .. } => grid.iter().map(|&n| u64::from(n)).product(),
            LaunchExtents::Threads(_) => 1,
        };
        let operations: u64 = self.module.functions.iter().map(|(_, f)| f.exprs.len() as u64).sum();
        let max_steps = (ALL_OPERATIONS / (operations * groups).max(1)).clamp(1, MAX_STEPS);
        Control { workers: 1, checks, max_steps, stop: self.stop.clone(), ..Control::default() }
    }

    pub(super) fn load(&self, checks: Checks) -> Option<Arc<dyn Executable>> {
        let mut prepared = clk_compile::compile_kernel(self.program, self.instance, checks).ok()?;
        let counts = checks.memory && Property::limits(self.kernel).next().is_some();
        prepared.cost_counting = counts.then_some(CostCounting::Kernel);
        // The JIT is off, because the time at which it switches to machine code varies, and verdicts must be
        // reproducible.
        Some(Simulator::default().with_jit(Jit::Off).with_proofs(self.proofs).load(Arc::new(prepared), None))
    }

    /// Runs a launch and returns the violations that it shows. `None` if a launch with these sizes and contents is
    /// rejected or too large.
    pub fn findings(&mut self, launch_sizes: &ReplaySizes, filling: ReplayFilling) -> Option<Vec<ReplayFinding>> {
        let mut arguments = self.arguments(launch_sizes, filling)?;
        // The launch satisfies the kernel's assumptions, so the simulator need not check properties that are proved.
        let declared = Some(SignaturePromise { largest: arguments.largest(launch_sizes), promises: true });
        let control = Control { keep_races: true, ..self.control(CHECKS, arguments.extents) };
        let config = LaunchConfig { declared, ..LaunchConfig::from(arguments.extents).synchronous() };
        let result = self.executable()?.launch(&config, &mut arguments.all(self.module)?, &control);
        let mut faults: Vec<Fault> = control.warnings.lock().map(|mut w| std::mem::take(&mut *w)).unwrap_or_default();
        faults.extend(result.err().map(|fault| *fault));
        faults.extend(control.worst_accesses.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default());
        let sizes = self.sizes(launch_sizes);
        let findings = faults.iter().filter(|fault| !self.lengths.excuse(&fault.kind)).filter_map(|fault| {
            let property = self.properties.iter().find(|property| property.is_broken_by(&fault.kind))?;
            let explained = FaultOrigin::of_trial(self.program, self.kernel, arguments.extents).explain(fault);
            let (diagnostic, fault) = (explained, Some((launch_sizes.clone(), fault.clone())));
            let sizes = sizes.clone();
            Some(ReplayFinding { property: *property, diagnostic, sizes, needs_contents: false, fault })
        });
        Some(findings.collect())
    }

    /// Generates the arguments of a launch.
    pub(super) fn arguments(&self, sizes: &ReplaySizes, filling: ReplayFilling) -> Option<ReplayArguments> {
        let shaped = ShapedLaunch::of(self.program, self.kernel, self.instance, self.module, sizes)?;
        let mut storage: Vec<Option<(AlignedBytes, Vec<u32>)>> = vec![];
        for (position, param) in self.module.kernel.params.iter().enumerate() {
            let KernelParam::Array { name, memory, access, .. } = param else {
                storage.push(None);
                continue;
            };
            let layout = &self.module.functions.get(self.module.kernel.body)?.memories.get(*memory)?.layout;
            let mut data = shaped.zeroed(position, layout)?;
            let seed = match filling {
                ReplayFilling::Numbers(seed) => seed,
                ReplayFilling::Positions => 3,
                ReplayFilling::Digits => 1,
            };
            let scalar = layout.leaves.first().map(|leaf| leaf.ty.scalar());
            match (self.initial_contents.get(name), shaped.promised(position)) {
                (Some(values), _) => {
                    let scalar = scalar?;
                    for (bytes, value) in data.chunks_exact_mut(scalar.size()).zip(values) {
                        bytes.copy_from_slice(&value.to_type(scalar).to_bytes()[..scalar.size()]);
                    }
                }
                (None, Some(promised)) => {
                    // With the last seed, each array is filled with a different one of the contents.
                    let seed = if seed == 3 { (seed + position as u64) % 4 } else { seed };
                    array_contents::fill_with_promises(promised, scalar?, seed, &mut data)?;
                }
                (None, None) if *access != Access::Out && seed > 0 => {
                    let types = layout.leaves.iter().map(|leaf| leaf.ty.scalar()).collect::<Vec<_>>();
                    fill_with_numbers(&mut data, &types, filling);
                }
                (None, None) => {}
            }
            storage.push(Some((data, shaped.shapes.get(position)?.clone()?)));
        }
        Some(ReplayArguments { extents: shaped.extents, values: shaped.values(self.module), storage })
    }

    /// Returns launch sizes as text, such as `N = 5, M = 3, n = -1`.
    pub(super) fn sizes(&self, replay_sizes: &ReplaySizes) -> String {
        let dims = self.kernel.sig.dims.iter().zip(&replay_sizes.dims).enumerate();
        let dims = dims.filter(|(at, _)| !self.lengths.is_dim(*at));
        let dims = dims.map(|(_, (dim, n))| format!("{} = {n}", dim.name));
        let hidden = self.kernel.sig.hidden_dims().count();
        let params = &self.module.kernel.params;
        let own = params.iter().enumerate().take(params.len().saturating_sub(hidden));
        let scalars = own.filter_map(|(position, param)| match param {
            KernelParam::Value { name, .. } => {
                replay_sizes.scalars.get(&(position as u32)).map(|n| format!("{name} = {n}"))
            }
            KernelParam::Array { .. } => None,
        });
        dims.chain(scalars).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the extents of a launch; `None` if the host would reject the launch or it is too large.
fn launch_extents(grid: bool, space: &[u32]) -> Option<LaunchExtents> {
    let threads = space.iter().try_fold(1u64, |n, &extent| n.checked_mul(u64::from(extent)))?;
    if threads > MAX_THREADS {
        return None;
    }
    if !grid {
        let mut sizes = [1; 3];
        sizes.iter_mut().zip(space).for_each(|(slot, &extent)| *slot = extent);
        return Some(LaunchExtents::Threads(sizes));
    }
    let block: [u32; 3] = space.get(..3)?.try_into().ok()?;
    let grid: [u32; 3] = space.get(3..6)?.try_into().ok()?;
    let size: u64 = block.iter().map(|&n| u64::from(n)).product();
    (1..=1024).contains(&size).then_some(LaunchExtents::Grid { grid, block })
}

/// Fills an array with numbers. `types` are the types of the scalars of an element.
fn fill_with_numbers(data: &mut [u8], types: &[Scalar], filling: ReplayFilling) {
    let size = types.first().map_or(1, |scalar| scalar.size());
    let Some(&scalar) = types.first() else { return };
    for (i, chunk) in data.chunks_mut(size).enumerate() {
        let number = match filling {
            ReplayFilling::Positions if scalar == Scalar::Bool => i as i128 % 2,
            ReplayFilling::Positions if scalar.is_int() => (i as i128).min(limits(scalar).1),
            ReplayFilling::Positions => i as i128 % 128,
            ReplayFilling::Digits if scalar.is_float() => 1 + (i as i128 * 2_654_435_761) % 1021,
            _ if scalar == Scalar::Bool => (i * 7 + 3) as i128 % 5 % 2,
            ReplayFilling::Numbers(LARGE_SEED) if scalar.is_int() => large_integer(scalar, i),
            _ => (i * 7 + 3) as i128 % 5,
        };
        let value = ScalarValue::from_integer(scalar, number);
        // Reciprocals of integers usually need all digits of the type.
        let value = if scalar.is_float() && filling == ReplayFilling::Digits { value.map(reciprocal) } else { value };
        let bits = value.map_or(0, |value| value.bits);
        let bytes = bits.to_le_bytes();
        chunk.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
}

/// Returns an integer for element `i`: in turn the largest, the smallest and other integers of the type, so that
/// neighboring elements differ widely.
fn large_integer(scalar: Scalar, i: usize) -> i128 {
    let (low, high) = limits(scalar);
    [high, 70, low, high / 2, 1000.min(high)][i % 5]
}

fn reciprocal(value: ScalarValue) -> ScalarValue {
    ScalarValue::of(1.0 / value.as_f64()).to_type(value.ty)
}

fn param_value(ty: Ty, launch: &symbolic_launch::SizedLaunch, position: u32) -> Vec<ScalarValue> {
    let number = launch.symbolic.params.get(&position).and_then(constant);
    let one = || ScalarValue::from_integer(ty.scalar(), number.unwrap_or(1));
    let zero = ScalarValue { ty: ty.scalar(), bits: 0 };
    (0..ty.lanes()).map(|_| one().unwrap_or(zero)).collect()
}
