//! Runs a kernel at given sizes on the simulator, with all checks and arguments made up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use super::contents;
use super::report::Property;
use crate::base::aligned::AlignedBytes;
use crate::base::diag::Diagnostic;
use crate::check::typed::{AssumeKind, Kernel, Program};
use crate::compile::advice::explained;
use crate::compile::sizes::Sizes;
use crate::compile::{self, sizes};
use crate::device::sim::{Jit, Proofs, Simulator};
use crate::device::{Arg, Control, Declared, Device, Executable, Extents, Fault};
use crate::ir::def::{Access, KernelParam, Layout, Module, Ty};
use crate::ir::footprint::constant;
use crate::ir::footprint::space::Promised;
use crate::ir::ranges::type_range;
use crate::ir::{Checks, Counted};
use crate::lang::scalar::{Scalar, Value};
use crate::lower::Instance;

/// Bytes of an array, and threads of a launch, at most.
const MAX_BYTES: usize = 16 << 20;
const MAX_THREADS: u64 = 1 << 17;
/// Loop iterations of a lane group at most, and operations of all of a launch together, if an iteration has all of its kernel's.
const MAX_STEPS: u64 = 200_000;
const ALL_OPERATIONS: u64 = 4_000_000;

const CHECKS: Checks = Checks { memory: true, arithmetic: true, nan: false };

/// Contents of arrays that are tried, and the one with large numbers.
const FILLINGS: u64 = 3;
const LARGE: u64 = 2;

/// What arrays that are read hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// Zeros, small integers, or some of the largest and the smallest of their type.
    Numbers(u64),
    /// As well, but floats of many digits, whose sums depend on the order.
    Digits,
}

/// The arguments of a launch.
pub(super) struct Arguments {
    pub extents: Extents,
    /// What is passed by value, by position; of arrays, nothing.
    pub values: Vec<Vec<Value>>,
    /// The arrays with their shapes, by position.
    pub storage: Vec<Option<(AlignedBytes, Vec<u32>)>>,
}

/// The shapes of a launch of known sizes.
pub(super) struct Shaped {
    pub launch: sizes::Launch,
    pub extents: Extents,
    /// Of arrays, by position.
    pub shapes: Vec<Option<Vec<u32>>>,
}

impl Shaped {
    /// `None`: such a launch is refused, or too large to be tried.
    pub fn of(
        program: &Program,
        kernel: &Kernel,
        instance: &Instance,
        module: &Module,
        Try { dims, scalars }: &Try,
    ) -> Option<Shaped> {
        let launch = sizes::launch(program, kernel, instance, module, &Sizes::Known { dims, scalars }).ok()?;
        let space: Vec<u32> =
            launch.space.iter().map(|form| u32::try_from(constant(form)?).ok()).collect::<Option<_>>()?;
        let extents = extents(launch.given.grid.is_some(), &space)?;
        let mut shapes = vec![];
        for (position, param) in module.kernel.params.iter().enumerate() {
            let KernelParam::Array { memory, .. } = param else {
                shapes.push(None);
                continue;
            };
            let axes = module.functions.get(module.kernel.body)?.memories.get(*memory)?.extents.len();
            let extent = |axis| launch.given.extents.get(&(position as u32, axis as u8)).and_then(constant);
            let shape = (0..axes).map(|axis| u32::try_from(extent(axis)?).ok());
            shapes.push(Some(shape.collect::<Option<_>>()?));
        }
        Some(Shaped { launch, extents, shapes })
    }

    /// Returns the bytes of an array without contents, if it is small enough.
    pub fn zeroed(&self, position: usize, layout: &Layout) -> Option<AlignedBytes> {
        let shape = self.shapes.get(position)?.as_ref()?;
        let count = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent as usize))?;
        AlignedBytes::zeroed(count.checked_mul(layout.size).filter(|bytes| *bytes <= MAX_BYTES)?)
    }

    /// Returns what is promised of an array.
    pub fn promised(&self, position: usize) -> Option<&Promised> {
        self.launch.given.variables.promised.get(&(position as u32))
    }

    /// Returns what is passed by value: sizes, and ones.
    pub fn values(&self, module: &Module) -> Vec<Vec<Value>> {
        let of = |(position, param): (usize, &KernelParam)| match param {
            KernelParam::Value { ty, .. } => value(*ty, &self.launch, position as u32),
            KernelParam::Array { .. } => vec![],
        };
        module.kernel.params.iter().enumerate().map(of).collect()
    }
}

impl Arguments {
    /// Returns the largest dimension, or number of elements of an array.
    fn largest(&self, what: &Try) -> u64 {
        let shapes = self.storage.iter().flatten().map(|(_, shape)| shape);
        let counts = shapes.map(|shape| shape.iter().fold(1u64, |n, &extent| n.saturating_mul(extent.into())));
        let dims = what.dims.iter().map(|&n| u64::try_from(n).unwrap_or(u64::MAX));
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

/// A launch that may show a fault.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Try {
    pub dims: Vec<i128>,
    /// By position in the launch.
    pub scalars: FxHashMap<u32, i128>,
}

/// A kernel ready to be run.
pub(super) struct Runner<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    instance: &'a Instance,
    pub module: &'a Module,
    executable: Option<Arc<dyn Executable>>,
    known: Vec<Tried>,
    /// What runs may contradict.
    properties: Vec<Property>,
    /// Ends runs once it is set.
    pub stop: Arc<AtomicBool>,
}

/// A launch, with as many contents of its arrays as were tried, and what the runs reported.
struct Tried {
    what: Try,
    fillings: u64,
    found: Vec<Found>,
}

/// What a run reported.
#[derive(Clone)]
pub(super) struct Found {
    pub property: Property,
    pub diagnostic: Diagnostic,
    pub sizes: String,
    /// The launch and the fault of its run.
    pub fault: Option<(Try, Fault)>,
}

impl<'a> Runner<'a> {
    pub fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        (instance, module): (&'a Instance, &'a Module),
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let properties = Property::ALL.into_iter().chain(Property::limits(kernel)).collect();
        let stop = stop.clone();
        Runner { program, kernel, instance, module, executable: None, known: vec![], properties, stop }
    }

    /// Runs the kernel with several contents of its arrays, until a run contradicts a property; returns what that run reported.
    pub fn run(&mut self, what: &Try, property: Property) -> Option<Found> {
        let at = self.known.iter().position(|tried| tried.what == *what).unwrap_or_else(|| {
            self.known.push(Tried { what: what.clone(), fillings: 0, found: vec![] });
            self.known.len() - 1
        });
        let promises = self.kernel.assumes.iter().any(|assume| matches!(assume.kind, AssumeKind::Array { .. }));
        let all = if promises { 4 } else { FILLINGS };
        loop {
            let tried = &mut self.known[at];
            if let Some(found) = tried.found.iter().find(|found| found.property == property) {
                return Some(found.clone());
            }
            let seed = tried.fillings;
            if seed == all {
                return None;
            }
            tried.fillings += 1;
            let mut new = self.once(what, seed).unwrap_or_default();
            // Sums of large elements overflow, whatever indices do.
            new.retain(|new| seed != LARGE || new.property != Property::NoOverflow);
            self.known[at].found.append(&mut new);
        }
    }

    fn executable(&mut self) -> Option<Arc<dyn Executable>> {
        if self.executable.is_none() {
            self.executable = self.load(CHECKS);
        }
        self.executable.clone()
    }

    /// Returns how runs of candidates are controlled.
    pub(super) fn control(&self, checks: Checks, extents: Extents) -> Control {
        let groups: u64 = match extents {
            Extents::Grid { grid, .. } => grid.iter().map(|&n| u64::from(n)).product(),
            Extents::Threads(_) => 1,
        };
        let operations: u64 = self.module.functions.iter().map(|(_, f)| f.exprs.len() as u64).sum();
        let max_steps = (ALL_OPERATIONS / (operations * groups).max(1)).clamp(1, MAX_STEPS);
        Control { workers: 1, checks, max_steps, wait: true, stop: self.stop.clone(), ..Control::default() }
    }

    pub(super) fn load(&self, checks: Checks) -> Option<Arc<dyn Executable>> {
        let mut prepared = compile::kernel(self.program, self.instance, checks).ok()?;
        let counts = checks.memory && self.properties.len() > Property::ALL.len();
        prepared.counted = counts.then_some(Counted::Kernel);
        // When machine code is ready depends on time, and verdicts do not.
        Some(Simulator::default().compiling(Jit::Off).with_proofs(Proofs::Always).load(Arc::new(prepared)))
    }

    /// `None`: such a launch is refused, or too large to be tried.
    fn once(&mut self, what: &Try, seed: u64) -> Option<Vec<Found>> {
        let mut arguments = self.arguments(what, Filling::Numbers(seed))?;
        // Such a launch keeps what its kernel assumes, so that what is proved need not be looked at.
        let declared = Some(Declared { largest: arguments.largest(what), promises: true });
        let control = Control { declared, keep_races: true, ..self.control(CHECKS, arguments.extents) };
        let result = self.executable()?.launch(arguments.extents, &mut arguments.all(self.module)?, &control);
        let mut faults: Vec<Fault> = control.warnings.lock().map(|mut w| std::mem::take(&mut *w)).unwrap_or_default();
        faults.extend(result.err().map(|fault| *fault));
        faults.extend(control.crowds.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default());
        let sizes = self.sizes(what);
        let found = faults.iter().filter_map(|fault| {
            let property = self.properties.iter().find(|property| property.is_broken_by(&fault.kind))?;
            let explained = explained(self.program, self.kernel, arguments.extents, fault);
            let (diagnostic, fault) = (explained, Some((what.clone(), fault.clone())));
            Some(Found { property: *property, diagnostic, sizes: sizes.clone(), fault })
        });
        Some(found.collect())
    }

    /// Makes up the arguments of a launch.
    pub(super) fn arguments(&self, what: &Try, filling: Filling) -> Option<Arguments> {
        let shaped = Shaped::of(self.program, self.kernel, self.instance, self.module, what)?;
        let mut storage: Vec<Option<(AlignedBytes, Vec<u32>)>> = vec![];
        for (position, param) in self.module.kernel.params.iter().enumerate() {
            let KernelParam::Array { memory, access, .. } = param else {
                storage.push(None);
                continue;
            };
            let layout = &self.module.functions.get(self.module.kernel.body)?.memories.get(*memory)?.layout;
            let mut data = shaped.zeroed(position, layout)?;
            let seed = if let Filling::Numbers(seed) = filling { seed } else { 1 };
            match shaped.promised(position) {
                Some(promised) => {
                    let scalar = layout.leaves.first().map(|leaf| leaf.ty.scalar())?;
                    // The last seed is another one for each array.
                    let seed = if seed == 3 { (seed + position as u64) % 4 } else { seed };
                    contents::keep(promised, scalar, seed, &mut data)?;
                }
                None if *access != Access::Out && seed > 0 => {
                    let types = layout.leaves.iter().map(|leaf| leaf.ty.scalar()).collect::<Vec<_>>();
                    fill(&mut data, &types, filling);
                }
                None => {}
            }
            storage.push(Some((data, shaped.shapes.get(position)?.clone()?)));
        }
        Some(Arguments { extents: shaped.extents, values: shaped.values(self.module), storage })
    }

    /// Writes sizes as `N = 5, M = 3, n = -1`.
    pub(super) fn sizes(&self, what: &Try) -> String {
        let dims = self.kernel.sig.dims.iter().zip(&what.dims).map(|(dim, n)| format!("{} = {n}", dim.name));
        let hidden = self.kernel.sig.hidden_dims().count();
        let params = &self.module.kernel.params;
        let own = params.iter().enumerate().take(params.len().saturating_sub(hidden));
        let scalars = own.filter_map(|(position, param)| match param {
            KernelParam::Value { name, .. } => what.scalars.get(&(position as u32)).map(|n| format!("{name} = {n}")),
            KernelParam::Array { .. } => None,
        });
        dims.chain(scalars).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the extents of a launch, if the host would launch it and it is small enough.
fn extents(grid: bool, space: &[u32]) -> Option<Extents> {
    let threads = space.iter().try_fold(1u64, |n, &extent| n.checked_mul(u64::from(extent)))?;
    if threads > MAX_THREADS {
        return None;
    }
    if !grid {
        let mut sizes = [1; 3];
        sizes.iter_mut().zip(space).for_each(|(slot, &extent)| *slot = extent);
        return Some(Extents::Threads(sizes));
    }
    let block: [u32; 3] = space.get(..3)?.try_into().ok()?;
    let grid: [u32; 3] = space.get(3..6)?.try_into().ok()?;
    let size: u64 = block.iter().map(|&n| u64::from(n)).product();
    (1..=1024).contains(&size).then_some(Extents::Grid { grid, block })
}

/// Fills an array with numbers of all its scalars' types.
fn fill(data: &mut [u8], types: &[Scalar], filling: Filling) {
    let size = types.first().map_or(1, |scalar| scalar.size());
    let Some(&scalar) = types.first() else { return };
    for (i, chunk) in data.chunks_mut(size).enumerate() {
        let number = match filling {
            Filling::Digits if scalar.is_float() => 1 + (i as i128 * 2_654_435_761) % 1021,
            _ if scalar == Scalar::Bool => (i * 7 + 3) as i128 % 5 % 2,
            Filling::Numbers(LARGE) if scalar.is_int() => large(scalar, i),
            _ => (i * 7 + 3) as i128 % 5,
        };
        let value = Value::from_integer(scalar, number);
        // The inverse of a number has as many digits as the type holds.
        let value = if scalar.is_float() && filling == Filling::Digits { value.map(inverse) } else { value };
        let bits = value.map_or(0, |value| value.bits);
        let bytes = bits.to_le_bytes();
        chunk.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
}

/// Returns an integer of a type, far from those of other elements nearby.
fn large(scalar: Scalar, i: usize) -> i128 {
    let (low, high) = type_range(scalar);
    [high, 70, low, high / 2, 1000.min(high)][i % 5]
}

fn inverse(value: Value) -> Value {
    Value::of(1.0 / value.as_f64()).to_type(value.ty)
}

fn value(ty: Ty, launch: &sizes::Launch, position: u32) -> Vec<Value> {
    let number = launch.given.params.get(&position).and_then(constant);
    let one = || Value::from_integer(ty.scalar(), number.unwrap_or(1));
    let zero = Value { ty: ty.scalar(), bits: 0 };
    (0..ty.lanes()).map(|_| one().unwrap_or(zero)).collect()
}
