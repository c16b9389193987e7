//! A launch whose sizes can be changed, to find a smaller launch with the same race.
//!
//! Input: a kernel, with the arguments of a launch if they are known. Output: for given sizes, the arguments (arrays
//! are truncated to the new shapes, or generated), and the race that a run with checks reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::super::array_contents;
use super::super::replay::{ReplayArguments, ReplaySizes, ShapedLaunch};
use clk_base::aligned::AlignedBytes;
use clk_base::source::Span;
use clk_check::typed::{Kernel, Param, Program, Type};
use clk_compile::symbolic_launch;
use clk_ir::def::{Access, ElementLayout, KernelParam, LaunchForm};
use clk_ir::{Checks, PreparedKernel};
use clk_lower::Instance;
use clk_runtime::{Control, Device, Executable, Fault, FaultKind, LaunchConfig, LaunchExtents, Race};
use clk_scalar::{Scalar, ScalarValue};
use clk_sim::{Jit, Simulator};

/// Limits: the number of loop iterations of a lane group, and of all lane groups of a launch together.
const MAX_STEPS: u64 = 20_000;
const MAX_TOTAL_STEPS: u64 = 50_000;

/// A launch that is stopped by these limits counts as this number of runs of the budget.
const LONG_RUN_COST: u32 = 10;

/// Limits: the number of threads and of array bytes of a launch.
const MAX_THREADS: u64 = 1 << 12;
const MAX_BYTES: usize = 1 << 20;

/// The sizes of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LaunchSize {
    pub sizes: ReplaySizes,
    /// The positions of the scalar integer parameters that may be changed.
    pub free: Vec<u32>,
    /// Grid and block, if the launch specifies them instead of the kernel's signature.
    pub geometry: Option<[[u32; 3]; 2]>,
}

/// The contents of arrays whose original contents are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayFill {
    Zeros,
    /// Elements 0, 1, 2, … in memory order.
    Ramp,
}

/// How the contents of arrays are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    /// Whether to use the contents of the original launch, for arrays whose contents are known and that are large
    /// enough.
    pub own: bool,
    pub other: ArrayFill,
}

/// The contents that were chosen for an array argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrayContents {
    /// The argument is not an array, or the contents of the array do not matter.
    Irrelevant,
    /// The first elements, along each axis, of the original launch's array.
    FromLaunch,
    Zeros,
    Ramp,
    /// Generated to satisfy the promises about the array.
    Promised,
}

/// An array argument of the original launch.
pub(super) struct ArrayArgument<'a> {
    pub bytes: &'a [u8],
    pub shape: &'a [u32],
}

/// The number of runs, and of threads in these runs, that are still allowed.
pub(super) struct ReplayBudget<'a> {
    pub runs: u32,
    pub threads: u64,
    pub stop: &'a AtomicBool,
}

impl ReplayBudget<'_> {
    pub fn is_spent(&self) -> bool {
        self.runs == 0 || self.threads == 0 || self.is_stopped()
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(super) struct ReplayCase<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub instance: &'a Instance,
    pub prepared: Arc<PreparedKernel>,
    executable: Arc<dyn Executable>,
    /// The kernel without checks, compiled when it is first needed.
    unchecked: OnceLock<Option<Arc<dyn Executable>>>,
    /// The by-value arguments of the original launch, by position. Integers that determine sizes are replaced by the
    /// sizes.
    pub values: Vec<Option<Vec<ScalarValue>>>,
    /// The arrays of the original launch whose contents are known, by position.
    pub launch_arrays: Vec<Option<ArrayArgument<'a>>>,
    pub stop: &'a Arc<AtomicBool>,
}

/// Identifies a race by the locations of its two accesses and its array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RaceIdentity {
    lines: [Span; 2],
    array: String,
}

impl RaceIdentity {
    pub fn of(fault: &Fault) -> Option<RaceIdentity> {
        let race = race_of(fault)?;
        let mut lines = [fault.span, race.other_span];
        lines.sort_by_key(|span| (span.file.0, span.start, span.end));
        Some(RaceIdentity { lines, array: array_of(&race.place).to_string() })
    }
}

pub(super) fn race_of(fault: &Fault) -> Option<&Race> {
    if let FaultKind::Race(race) = &fault.kind { Some(race) } else { None }
}

/// Returns the name of the array in the text of an element: `s` for `s[3].x`.
pub(super) fn array_of(place: &str) -> &str {
    place.split(['[', '.']).next().unwrap_or(place)
}

/// The arguments of a launch, and how the contents of each array were chosen, by position.
pub(super) struct Refill {
    pub arguments: ReplayArguments,
    pub array_contents: Vec<ArrayContents>,
}

impl<'a> ReplayCase<'a> {
    /// Compiles the kernel. `None` if it cannot be compiled.
    pub fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        instance: &'a Instance,
        values: Vec<Option<Vec<ScalarValue>>>,
        launch_arrays: Vec<Option<ArrayArgument<'a>>>,
        stop: &'a Arc<AtomicBool>,
    ) -> Option<ReplayCase<'a>> {
        let checks = Checks { memory: true, ..Checks::default() };
        let prepared = Arc::new(clk_compile::compile_kernel(program, instance, checks).ok()?);
        let executable = load(prepared.clone());
        let unchecked = OnceLock::new();
        Some(ReplayCase { program, kernel, instance, prepared, executable, unchecked, values, launch_arrays, stop })
    }

    pub fn is_grid(&self) -> bool {
        self.prepared.module.kernel.form == LaunchForm::Grid
    }

    pub fn layout(&self, position: usize) -> Option<(&ElementLayout, Access)> {
        let module = &self.prepared.module;
        let KernelParam::Array { memory, access, .. } = module.kernel.params.get(position)? else { return None };
        let body = module.functions.get(module.kernel.body)?;
        Some((&body.memories.get(*memory)?.layout, *access))
    }

    /// Returns the number of device parameters for a parameter of the signature.
    pub fn leaves(&self, param: &Param) -> Option<usize> {
        if matches!(param.ty, Type::Array(_)) {
            return Some(1);
        }
        symbolic_launch::leaf_count(self.program, &self.instance.arguments, &param.ty).ok().map(|n| n as usize)
    }

    /// Returns the parameters of the signature, each with the position of its first device parameter.
    pub fn params(&self) -> Option<Vec<(usize, &'a Param)>> {
        let (mut position, mut all) = (0, vec![]);
        for param in &self.kernel.sig.params {
            all.push((position, param));
            position += self.leaves(param)?;
        }
        Some(all)
    }

    /// Returns the positions of scalar integer parameters.
    pub fn integers(&self) -> Option<Vec<u32>> {
        let is_int = |param: &Param| matches!(&param.ty, Type::Scalar(scalar) if scalar.is_int());
        Some(self.params()?.into_iter().filter(|(_, param)| is_int(param)).map(|(at, _)| at as u32).collect())
    }

    /// Returns the array shapes and extents of a launch with these sizes; `None` if such a launch is rejected or too
    /// large.
    pub fn shaped(&self, size: &LaunchSize) -> Option<ShapedLaunch> {
        let mut shaped =
            ShapedLaunch::of(self.program, self.kernel, self.instance, &self.prepared.module, &size.sizes)?;
        if let (Some([grid, block]), true) = (size.geometry, self.is_grid()) {
            shaped.extents = LaunchExtents::Grid { grid, block };
        }
        (1..=MAX_THREADS).contains(&thread_count(shaped.extents)).then_some(shaped)
    }

    /// Returns the arguments of a launch with these sizes and contents.
    pub fn arguments(&self, size: &LaunchSize, contents: Contents) -> Option<Refill> {
        let shaped = self.shaped(size)?;
        let module = &self.prepared.module;
        let mut values = shaped.values(module);
        for (position, own) in self.values.iter().enumerate() {
            let sized = shaped.launch.symbolic.params.contains_key(&(position as u32));
            if let (Some(own), false, Some(slot)) = (own, sized, values.get_mut(position)) {
                slot.clone_from(own);
            }
        }
        let (mut storage, mut array_contents) = (vec![], vec![]);
        for position in 0..module.kernel.params.len() {
            let Some((layout, _)) = self.layout(position) else {
                storage.push(None);
                array_contents.push(ArrayContents::Irrelevant);
                continue;
            };
            let shape = shaped.shapes.get(position)?.clone()?;
            let mut data = shaped.zeroed(position, layout).filter(|data| data.len() <= MAX_BYTES)?;
            array_contents.push(self.fill_array(position, &shaped, contents, &mut data)?);
            storage.push(Some((data, shape)));
        }
        Some(Refill { arguments: ReplayArguments { extents: shaped.extents, values, storage }, array_contents })
    }

    fn fill_array(
        &self,
        position: usize,
        shaped: &ShapedLaunch,
        contents: Contents,
        data: &mut AlignedBytes,
    ) -> Option<ArrayContents> {
        let (layout, access) = self.layout(position)?;
        let shape = shaped.shapes.get(position)?.as_deref()?;
        if access == Access::Out {
            return Some(ArrayContents::Irrelevant);
        }
        let promised = shaped.promised(position);
        let scalar = layout.leaves.first()?.ty.scalar();
        if let (Some(Some(own)), true) = (self.launch_arrays.get(position), contents.own)
            && copy_prefix(own, shape, layout.size, data)
            && promised.is_none_or(|promised| array_contents::keeps_promises(promised, scalar, data))
        {
            return Some(ArrayContents::FromLaunch);
        }
        data.fill(0);
        if let Some(promised) = promised {
            array_contents::fill_with_promises(promised, scalar, u64::from(contents.other == ArrayFill::Ramp), data)?;
            return Some(ArrayContents::Promised);
        }
        let ramped = contents.other == ArrayFill::Ramp && fill_with_ramp(layout, data);
        Some(if ramped { ArrayContents::Ramp } else { ArrayContents::Zeros })
    }

    /// Runs a launch. Returns the fault that stopped it, if there was one.
    fn run_launch(
        &self,
        executable: &dyn Executable,
        checks: Checks,
        size: &LaunchSize,
        contents: Contents,
        budget: &mut ReplayBudget<'_>,
    ) -> Option<Fault> {
        let mut prepared = self.arguments(size, contents)?;
        let extents = prepared.arguments.extents;
        let groups = thread_count(extents).div_ceil(32);
        let control = Control {
            workers: 1,
            checks,
            max_steps: (MAX_TOTAL_STEPS / groups.max(1)).clamp(1, MAX_STEPS),
            stop: self.stop.clone(),
            ..Control::default()
        };
        let mut args = prepared.arguments.all(&self.prepared.module)?;
        let fault = executable
            .launch(&LaunchConfig::from(extents).synchronous(), &mut args, &control)
            .err()
            .map(|fault| *fault);
        let is_long = matches!(&fault, Some(Fault { kind: FaultKind::StepLimit { .. }, .. }));
        budget.runs = budget.runs.saturating_sub(if is_long { LONG_RUN_COST } else { 1 });
        budget.threads = budget.threads.saturating_sub(thread_count(extents));
        fault
    }

    /// Returns whether a launch without checks completes without a fault.
    pub fn ends_well(&self, size: &LaunchSize, contents: Contents, budget: &mut ReplayBudget<'_>) -> bool {
        let checks = Checks::default();
        let unchecked = || Some(load(Arc::new(clk_compile::compile_kernel(self.program, self.instance, checks).ok()?)));
        match self.unchecked.get_or_init(unchecked) {
            Some(executable) => self.run_launch(&**executable, checks, size, contents, budget).is_none(),
            None => false,
        }
    }

    /// Runs a launch with checks. Returns the reported fault if it is the same race.
    pub fn reproduce_race(
        &self,
        race: &RaceIdentity,
        size: &LaunchSize,
        contents: Contents,
        budget: &mut ReplayBudget<'_>,
    ) -> Option<Fault> {
        self.run_launch(&*self.executable, self.prepared.checks, size, contents, budget)
            .filter(|fault| RaceIdentity::of(fault).as_ref() == Some(race))
    }
}

fn load(prepared: Arc<PreparedKernel>) -> Arc<dyn Executable> {
    // The JIT is off, because the time at which it switches to machine code varies, and reports must be reproducible.
    Simulator::default().with_jit(Jit::Off).load(prepared, None)
}

pub(super) fn thread_count(extents: LaunchExtents) -> u64 {
    let count = |n: [u32; 3]| n.iter().fold(1u64, |all, &n| all.saturating_mul(u64::from(n)));
    match extents {
        LaunchExtents::Threads(n) => count(n),
        LaunchExtents::Grid { grid, block } => count(grid).saturating_mul(count(block)),
    }
}

/// Copies the first elements along each axis. Returns `false` if the source is too small.
fn copy_prefix(source: &ArrayArgument<'_>, shape: &[u32], size: usize, data: &mut [u8]) -> bool {
    if source.shape.len() != shape.len() || source.shape.iter().zip(shape).any(|(have, want)| have < want) {
        return false;
    }
    for (element, to) in data.chunks_exact_mut(size.max(1)).enumerate() {
        let (mut rest, mut from, mut pitch) = (element, 0, 1);
        for (&want, &have) in shape.iter().zip(source.shape).rev() {
            from += rest % (want as usize).max(1) * pitch;
            rest /= (want as usize).max(1);
            pitch *= have as usize;
        }
        let Some(bytes) = source.bytes.get(from * size..(from + 1) * size) else { return false };
        to.copy_from_slice(bytes);
    }
    true
}

/// Writes 0, 1, 2, … to all scalars of all elements in memory order. Returns `false` if a type cannot represent one of
/// these numbers.
fn fill_with_ramp(layout: &ElementLayout, data: &mut [u8]) -> bool {
    let count = data.len() / layout.size.max(1) * layout.scalar_count();
    let most = |scalar: Scalar| match scalar {
        Scalar::Bool => 0,
        Scalar::I8 | Scalar::U8 => 127,
        Scalar::Bf16 => 256,
        Scalar::F16 => 2048,
        _ => 1 << 20,
    };
    if layout.leaves.iter().any(|leaf| count > most(leaf.ty.scalar())) {
        return false;
    }
    let mut next = 0;
    for element in data.chunks_exact_mut(layout.size.max(1)) {
        for leaf in &layout.leaves {
            let scalar = leaf.ty.scalar();
            let Some(parts) = element.get_mut(leaf.offset..leaf.offset + leaf.ty.size()) else { return false };
            for to in parts.chunks_exact_mut(scalar.size()) {
                let Some(value) = ScalarValue::from_integer(scalar, next) else { return false };
                to.copy_from_slice(&value.bits.to_le_bytes()[..scalar.size()]);
                next += 1;
            }
        }
    }
    true
}
