//! A launch of a kernel that can be made smaller: its sizes, the contents of its arrays, and a checked run of it.
//!
//! Input: a kernel, with the arguments of a launch where they are known. Output: for given sizes, the arguments (arrays cut to their
//! shapes, or made up), and the race that a run reports.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::super::contents;
use super::super::replay::{Arguments, Shaped, Try};
use crate::base::aligned::AlignedBytes;
use crate::base::source::Span;
use crate::check::typed::{Kernel, Param, Program, Type};
use crate::compile::{self, sizes};
use crate::device::sim::{Jit, Simulator};
use crate::device::{Control, Device, Executable, Extents, Fault, FaultKind, Race};
use crate::ir::def::{Access, Form, KernelParam, Layout};
use crate::ir::{Checks, Prepared};
use crate::lang::scalar::{Scalar, Value};
use crate::lower::Instance;

/// Loop turns of a lane group, and of all groups of a launch.
const MAX_STEPS: u64 = 20_000;
const MAX_TURNS: u64 = 50_000;

/// What a launch that takes more of them counts for, in runs.
const LONG: u32 = 10;

/// Threads and bytes of a launch that is tried.
const MAX_THREADS: u64 = 1 << 12;
const MAX_BYTES: usize = 1 << 20;

/// The sizes of a launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Size {
    pub what: Try,
    /// The parameters that are integers by themselves, by position: these may change.
    pub free: Vec<u32>,
    /// Grid and block, where the launch itself gives them.
    pub geometry: Option<[[u32; 3]; 2]>,
}

/// What arrays without known contents hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    Zeros,
    /// 0, 1, 2, … in the order of memory.
    Ramp,
}

/// Where the contents of arrays are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    /// The launch's own, where they are known and cover the shape.
    pub own: bool,
    pub other: Fill,
}

/// What an array argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It is no array, or its contents do not matter.
    Nothing,
    /// The first elements, along each axis, of the launch's argument.
    Own,
    Zeros,
    Ramp,
    /// Made up so that promises are kept.
    Promised,
}

/// An array argument of the launch.
pub(super) struct Given<'a> {
    pub bytes: &'a [u8],
    pub shape: &'a [u32],
}

/// What may be spent: runs, and the threads of all of them.
pub(super) struct Budget<'a> {
    pub runs: u32,
    pub threads: u64,
    pub stop: &'a AtomicBool,
}

impl Budget<'_> {
    pub fn is_spent(&self) -> bool {
        self.runs == 0 || self.threads == 0 || self.is_stopped()
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(super) struct Case<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub instance: &'a Instance,
    pub prepared: Arc<Prepared>,
    executable: Arc<dyn Executable>,
    /// The kernel without checks, once it is needed.
    unchecked: OnceLock<Option<Arc<dyn Executable>>>,
    /// The launch's arguments by value, by position; integers that sizes do not name are among them.
    pub values: Vec<Option<Vec<Value>>>,
    /// Its arrays, as far as their contents are known.
    pub given: Vec<Option<Given<'a>>>,
    pub stop: &'a Arc<AtomicBool>,
}

/// The two lines of a race and its array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Which {
    lines: [Span; 2],
    array: String,
}

impl Which {
    pub fn of(fault: &Fault) -> Option<Which> {
        let race = race(fault)?;
        let mut lines = [fault.span, race.other_span];
        lines.sort_by_key(|span| (span.file.0, span.start, span.end));
        Some(Which { lines, array: array_of(&race.place).to_string() })
    }
}

pub(super) fn race(fault: &Fault) -> Option<&Race> {
    if let FaultKind::Race(race) = &fault.kind { Some(race) } else { None }
}

/// Returns the name of the array of an element: `s` of `s[3].x`.
pub(super) fn array_of(place: &str) -> &str {
    place.split(['[', '.']).next().unwrap_or(place)
}

/// Arguments, with what the arrays hold, by position.
pub(super) struct Filled {
    pub arguments: Arguments,
    pub held: Vec<Held>,
}

impl<'a> Case<'a> {
    /// `None`: the kernel cannot be compiled.
    pub fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        instance: &'a Instance,
        (values, given): (Vec<Option<Vec<Value>>>, Vec<Option<Given<'a>>>),
        stop: &'a Arc<AtomicBool>,
    ) -> Option<Case<'a>> {
        let checks = Checks { memory: true, ..Checks::default() };
        let prepared = Arc::new(compile::kernel(program, instance, checks).ok()?);
        let executable = load(prepared.clone());
        let unchecked = OnceLock::new();
        Some(Case { program, kernel, instance, prepared, executable, unchecked, values, given, stop })
    }

    pub fn is_grid(&self) -> bool {
        self.prepared.module.kernel.form == Form::Grid
    }

    pub fn layout(&self, position: usize) -> Option<(&Layout, Access)> {
        let module = &self.prepared.module;
        let KernelParam::Array { memory, access, .. } = module.kernel.params.get(position)? else { return None };
        let body = module.functions.get(module.kernel.body)?;
        Some((&body.memories.get(*memory)?.layout, *access))
    }

    /// Returns how many parameters of the launch one of the signature is.
    pub fn leaves(&self, param: &Param) -> Option<usize> {
        if matches!(param.ty, Type::Array(_)) {
            return Some(1);
        }
        sizes::leaves(self.program, &self.instance.arguments, &param.ty).ok().map(|n| n as usize)
    }

    /// Returns the parameters of the signature with the position of each in the launch.
    pub fn params(&self) -> Option<Vec<(usize, &'a Param)>> {
        let (mut position, mut all) = (0, vec![]);
        for param in &self.kernel.sig.params {
            all.push((position, param));
            position += self.leaves(param)?;
        }
        Some(all)
    }

    /// Returns the positions of parameters that are integers by themselves.
    pub fn integers(&self) -> Option<Vec<u32>> {
        let is_int = |param: &Param| matches!(&param.ty, Type::Scalar(scalar) if scalar.is_int());
        Some(self.params()?.into_iter().filter(|(_, param)| is_int(param)).map(|(at, _)| at as u32).collect())
    }

    /// Returns shapes and extents; `None` if such a launch is refused, or too large to be tried.
    pub fn shaped(&self, size: &Size) -> Option<Shaped> {
        let mut shaped = Shaped::of(self.program, self.kernel, self.instance, &self.prepared.module, &size.what)?;
        if let (Some([grid, block]), true) = (size.geometry, self.is_grid()) {
            shaped.extents = Extents::Grid { grid, block };
        }
        (1..=MAX_THREADS).contains(&threads(shaped.extents)).then_some(shaped)
    }

    /// Returns the arguments of a launch.
    pub fn arguments(&self, size: &Size, contents: Contents) -> Option<Filled> {
        let shaped = self.shaped(size)?;
        let module = &self.prepared.module;
        let mut values = shaped.values(module);
        for (position, own) in self.values.iter().enumerate() {
            let sized = shaped.launch.given.params.contains_key(&(position as u32));
            if let (Some(own), false, Some(slot)) = (own, sized, values.get_mut(position)) {
                slot.clone_from(own);
            }
        }
        let (mut storage, mut held) = (vec![], vec![]);
        for position in 0..module.kernel.params.len() {
            let Some((layout, access)) = self.layout(position) else {
                storage.push(None);
                held.push(Held::Nothing);
                continue;
            };
            let shape = shaped.shapes.get(position)?.clone()?;
            let mut data = shaped.zeroed(position, layout).filter(|data| data.len() <= MAX_BYTES)?;
            held.push(self.fill(position, (layout, access), (&shaped, shape.as_slice()), contents, &mut data)?);
            storage.push(Some((data, shape)));
        }
        Some(Filled { arguments: Arguments { extents: shaped.extents, values, storage }, held })
    }

    fn fill(
        &self,
        position: usize,
        (layout, access): (&Layout, Access),
        (shaped, shape): (&Shaped, &[u32]),
        contents: Contents,
        data: &mut AlignedBytes,
    ) -> Option<Held> {
        if access == Access::Out {
            return Some(Held::Nothing);
        }
        let promised = shaped.promised(position);
        let scalar = layout.leaves.first()?.ty.scalar();
        if let (Some(Some(own)), true) = (self.given.get(position), contents.own)
            && cut(own, shape, layout.size, data)
            && promised.is_none_or(|promised| contents::is_kept(promised, scalar, data))
        {
            return Some(Held::Own);
        }
        data.fill(0);
        if let Some(promised) = promised {
            contents::keep(promised, scalar, u64::from(contents.other == Fill::Ramp), data)?;
            return Some(Held::Promised);
        }
        let ramped = contents.other == Fill::Ramp && ramp(layout, data);
        Some(if ramped { Held::Ramp } else { Held::Zeros })
    }

    /// Runs a launch; returns what stopped it.
    fn run(
        &self,
        executable: &dyn Executable,
        checks: Checks,
        (size, contents): (&Size, Contents),
        budget: &mut Budget<'_>,
    ) -> Option<Fault> {
        let mut prepared = self.arguments(size, contents)?;
        let extents = prepared.arguments.extents;
        let groups = threads(extents).div_ceil(32);
        let control = Control {
            workers: 1,
            checks,
            max_steps: (MAX_TURNS / groups.max(1)).clamp(1, MAX_STEPS),
            wait: true,
            stop: self.stop.clone(),
            ..Control::default()
        };
        let mut args = prepared.arguments.all(&self.prepared.module)?;
        let fault = executable.launch(extents, &mut args, &control).err().map(|fault| *fault);
        let is_long = matches!(&fault, Some(Fault { kind: FaultKind::StepLimit { .. }, .. }));
        budget.runs = budget.runs.saturating_sub(if is_long { LONG } else { 1 });
        budget.threads = budget.threads.saturating_sub(threads(extents));
        fault
    }

    /// Returns whether a launch ends without a fault where nothing looks for races.
    pub fn ends_well(&self, size: &Size, contents: Contents, budget: &mut Budget<'_>) -> bool {
        let checks = Checks::default();
        let unchecked = || Some(load(Arc::new(compile::kernel(self.program, self.instance, checks).ok()?)));
        match self.unchecked.get_or_init(unchecked) {
            Some(executable) => self.run(&**executable, checks, (size, contents), budget).is_none(),
            None => false,
        }
    }

    /// Returns the race, if a run has it.
    pub fn has(&self, which: &Which, size: &Size, contents: Contents, budget: &mut Budget<'_>) -> Option<Fault> {
        self.run(&*self.executable, self.prepared.checks, (size, contents), budget)
            .filter(|fault| Which::of(fault).as_ref() == Some(which))
    }
}

fn load(prepared: Arc<Prepared>) -> Arc<dyn Executable> {
    // When machine code is ready depends on time, and reports do not.
    Simulator::default().compiling(Jit::Off).load(prepared)
}

pub(super) fn threads(extents: Extents) -> u64 {
    let count = |n: [u32; 3]| n.iter().fold(1u64, |all, &n| all.saturating_mul(u64::from(n)));
    match extents {
        Extents::Threads(n) => count(n),
        Extents::Grid { grid, block } => count(grid).saturating_mul(count(block)),
    }
}

/// Copies the first elements along each axis; false if there are not as many.
fn cut(own: &Given<'_>, shape: &[u32], size: usize, data: &mut [u8]) -> bool {
    if own.shape.len() != shape.len() || own.shape.iter().zip(shape).any(|(have, want)| have < want) {
        return false;
    }
    for (element, to) in data.chunks_exact_mut(size.max(1)).enumerate() {
        let (mut rest, mut from, mut pitch) = (element, 0, 1);
        for (&want, &have) in shape.iter().zip(own.shape).rev() {
            from += rest % (want as usize).max(1) * pitch;
            rest /= (want as usize).max(1);
            pitch *= have as usize;
        }
        let Some(bytes) = own.bytes.get(from * size..(from + 1) * size) else { return false };
        to.copy_from_slice(bytes);
    }
    true
}

/// Writes 0, 1, 2, … to all parts of all elements in the order of memory; false if a type does not hold as many.
fn ramp(layout: &Layout, data: &mut [u8]) -> bool {
    let count = data.len() / layout.size.max(1) * layout.scalars();
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
                let Some(value) = Value::from_integer(scalar, next) else { return false };
                to.copy_from_slice(&value.bits.to_le_bytes()[..scalar.size()]);
                next += 1;
            }
        }
    }
    true
}
