//! Runs every launch on two devices and compares the results: bit for bit, unless the kernel calls functions with an error of
//! some ULPs, or adds floats in no fixed order.
//!
//! Two results may differ and both be correct. Where they differ, the first device runs the launch again in ways that the
//! language permits (other orders, other roundings); if these runs differ as much, the report is a note and not a disagreement.
//!
//! All runs begin with the same bytes: copies are made before the first one, and bytes without a meaning are set to zero.

mod compare;
mod copies;
mod jitter;
mod outcome;
mod parting;
mod record;

use std::sync::Arc;

use self::compare::{Found, compare, different_lines, is_explained, unravel};
use self::copies::{Copies, again, copy, duplicated};
pub use self::jitter::{Loose, is_approximate, jittered};
pub(crate) use self::outcome::Cause;
pub use self::outcome::{Disagreement, How, Parting, Spot, Values, Variation};
use super::diagnose::fault_title;
use super::storage::Storage;
use super::{Arg, BlockOrder, Control, Device, DeviceError, Executable, Extents, Fault, FaultKind, Output, Statistics};
use crate::base::source::{Sources, Span};
use crate::ir::Prepared;
use crate::ir::def::{Access, Kernel, KernelParam, Layout, Module, StmtKind};
use crate::ir::visit;

/// Two devices as one. The first one's results are returned.
pub struct Both {
    reference: Arc<dyn Device>,
    other: Arc<dyn Device>,
    exact: bool,
}

impl Both {
    /// Combines two devices; `exact`: neither may trade accuracy for speed.
    pub fn new(reference: Arc<dyn Device>, other: Arc<dyn Device>, exact: bool) -> Both {
        Both { reference, other, exact }
    }
}

impl Device for Both {
    fn name(&self) -> String {
        format!("{} and {}", self.reference.name(), self.other.name())
    }

    fn model(&self) -> String {
        self.other.model()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.load_named(kernel, &Sources::default())
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        Arc::new(Pair {
            names: [self.reference.name(), self.other.name()],
            reference: self.reference.load_named(kernel.clone(), sources),
            other: self.other.load_named(kernel.clone(), sources),
            devices: [self.reference.clone(), self.other.clone()],
            loose: match self.exact {
                true => is_approximate(&kernel.module).then_some(Loose::Functions),
                false => Some(Loose::All),
            },
            meets: meets(&kernel.module),
            kernel,
        })
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.other.finish()
    }

    fn statistics(&self) -> Statistics {
        self.other.statistics()
    }
}

struct Pair {
    names: [String; 2],
    devices: [Arc<dyn Device>; 2],
    reference: Arc<dyn Executable>,
    other: Arc<dyn Executable>,
    /// The operations that the two devices may round differently.
    loose: Option<Loose>,
    /// Threads communicate by atomic operations, so that their order may show in the results.
    meets: bool,
    kernel: Arc<Prepared>,
}

/// The largest number of runs with other roundings.
const SEEDS: u32 = 8;

/// A run: its outcome and the arrays it wrote.
struct Ran {
    end: Result<Output, Box<Fault>>,
    arrays: Copies,
}

impl Ran {
    /// Returns the contents that it left in the array at a position; empty if the kernel does not write that.
    fn array(&self, position: usize) -> Result<&[u8], DeviceError> {
        self.arrays.get(position).and_then(Option::as_ref).map_or(Ok(&[]), Storage::bytes)
    }
}

/// How the outcomes of two runs differ.
enum Ends {
    Same,
    Lines([String; 2]),
    Faults,
}

impl Executable for Pair {
    fn expect_blocks(&self, block: [u32; 3]) {
        self.reference.expect_blocks(block);
        self.other.expect_blocks(block);
    }

    fn rests_on_promises(&self) -> bool {
        self.reference.rests_on_promises() || self.other.rests_on_promises()
    }

    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        // Elements that no run writes, as a kernel may write a part of a new array, are compared too.
        for arg in args.iter_mut() {
            if let Arg::ArrayMut { storage, .. } = arg {
                storage.define();
            }
        }
        let mut others = self.copies(args)?;
        // The initial contents, for further runs.
        let before = self.copies(args)?;
        // A fault has to be attributed before the other device starts.
        let control = &Control { wait: true, ..control.clone() };
        let end = launch_on(&*self.other, extents, args, &mut others, control);
        let others = Ran { end, arrays: others };
        if let Err(fault) = &others.end
            && matches!(fault.kind, FaultKind::Device(_))
        {
            return others.end;
        }
        let first = self.reference.launch(extents, args, control);
        let differing = self.differing(args, &others)?;
        if matches!(self.ends(&first, &others.end), Ends::Same) && (differing.is_empty() || first.is_err()) {
            return first;
        }
        let witnesses = Witnesses { pair: self, extents, control, before: &before, ran: [None, None] };
        self.judge(first, &others, args, differing, witnesses)
    }
}

impl Pair {
    fn span(&self) -> Span {
        self.kernel.module.kernel.span
    }

    /// Returns copies of the arrays, for another run to write to.
    fn copies(&self, args: &[Arg<'_>]) -> Result<Copies, Box<Fault>> {
        args.iter().map(|arg| copy(arg).map_err(|error| self.failed(error))).collect()
    }

    /// Returns the fault for an array that cannot be copied or read.
    fn failed(&self, error: DeviceError) -> Box<Fault> {
        FaultKind::Device(error).of_launch(self.span())
    }

    /// Returns the arrays that two runs left different: positions and differences.
    fn differing(&self, args: &[Arg<'_>], others: &Ran) -> Result<Vec<(usize, Found)>, Box<Fault>> {
        let mut differing = Vec::new();
        for position in 0..args.len() {
            let Some((_, layout)) = array(&self.kernel.module, position) else { continue };
            let bytes = written(args, position).map_err(|error| self.failed(error))?;
            let theirs = others.array(position).map_err(|error| self.failed(error))?;
            if bytes != theirs
                && let Some(found) = compare(bytes, theirs, layout, self.loose.is_some())
            {
                differing.push((position, found));
            }
        }
        Ok(differing)
    }

    fn ends(&self, first: &Result<Output, Box<Fault>>, other: &Result<Output, Box<Fault>>) -> Ends {
        match (first, other) {
            (Ok(a), Ok(b)) => different_lines(a, b, self.loose.is_some()).map_or(Ends::Same, Ends::Lines),
            // It is not specified which of the faulting threads is reported.
            (Err(a), Err(b)) if place(a) == place(b) => Ends::Same,
            _ => Ends::Faults,
        }
    }

    /// Decides, for two runs that differ, whether the kernel may have both results.
    fn judge(
        &self,
        first: Result<Output, Box<Fault>>,
        others: &Ran,
        args: &[Arg<'_>],
        differing: Vec<(usize, Found)>,
        mut witnesses: Witnesses<'_>,
    ) -> Result<Output, Box<Fault>> {
        match self.ends(&first, &others.end) {
            Ends::Same => {}
            Ends::Lines(lines) => match witnesses.print_otherwise(args, &first) {
                Some(cause) => self.note(&witnesses, Variation { lines: true, ..self.variation(cause) }),
                None => return Err(self.disagree(Disagreement::Output { devices: self.names.clone(), lines })),
            },
            // A fault that occurs with another order or rounding is the program's own, whichever device found it.
            Ends::Faults => {
                return match witnesses.end_as(args, &others.end) {
                    Some(Err(fault)) => Err(fault),
                    Some(Ok(_)) => first,
                    None => Err(self.different_faults(&first, &others.end)),
                };
            }
        }
        for (position, found) in differing {
            let Some((name, layout)) = array(&self.kernel.module, position) else { continue };
            let failed = |error| self.failed(error);
            let bytes = written(args, position).map_err(failed)?;
            let theirs = others.array(position).map_err(failed)?;
            let shape = args.get(position).and_then(Arg::shape).unwrap_or(&[]);
            let values = Values {
                array: name.to_string(),
                index: unravel(found.element, shape),
                field: found.field,
                values: found.values,
                differing: found.differing,
                elements: shape.iter().map(|&n| u64::from(n)).product(),
            };
            match witnesses.explain(args, position, bytes, theirs, layout).map_err(failed)? {
                Some(cause) => self.note(&witnesses, Variation { values: Some(values), ..self.variation(cause) }),
                None => {
                    let (devices, approximate) = (self.names.clone(), self.loose.is_some());
                    let racy = !self.meets && witnesses.order_matters(args, position, layout).map_err(failed)?;
                    let parting = match racy {
                        true => None,
                        false => witnesses.parting(args, position, part_of(layout, found.element, &values.field)),
                    };
                    return Err(self.disagree(Disagreement::Values { devices, values, approximate, racy, parting }));
                }
            }
        }
        first
    }

    fn variation(&self, cause: Cause) -> Variation {
        Variation { devices: self.names.clone(), cause, values: None, lines: false }
    }

    fn note(&self, witnesses: &Witnesses<'_>, variation: Variation) {
        let note = FaultKind::Variation(Box::new(variation)).of_launch(self.span());
        if let Ok(mut warnings) = witnesses.control.warnings.lock() {
            warnings.push(*note);
        }
    }

    fn disagree(&self, difference: Disagreement) -> Box<Fault> {
        disagreement(difference, self.span())
    }

    fn different_faults(&self, first: &Result<Output, Box<Fault>>, other: &Result<Output, Box<Fault>>) -> Box<Fault> {
        let end = |result: &Result<Output, Box<Fault>>| match result {
            Ok(_) => "no fault".to_string(),
            Err(fault) => fault_title(fault),
        };
        let fault = [first, other].into_iter().find_map(|result| result.as_ref().err());
        // What one of them has no room for is no other meaning of the kernel.
        if let Some(fault) = fault.filter(|fault| matches!(fault.kind, FaultKind::SharedSize { .. })) {
            return fault.clone();
        }
        let difference = Disagreement::Faults { devices: self.names.clone(), faults: [end(first), end(other)] };
        disagreement(difference, fault.map_or(self.span(), |fault| fault.span))
    }
}

/// Further runs of the reference device from the initial state, in ways that the language permits: in other orders, and with
/// other roundings. Each kind runs on demand.
struct Witnesses<'a> {
    pair: &'a Pair,
    extents: Extents,
    control: &'a Control,
    before: &'a Copies,
    /// In other orders; with other roundings.
    ran: [Option<Vec<Ran>>; 2],
}

impl Witnesses<'_> {
    /// Returns the runs of a kind; none if the kernel has nothing that depends on it.
    fn of(&mut self, cause: Cause, args: &[Arg<'_>]) -> &[Ran] {
        let place = match cause {
            Cause::Order => 0,
            Cause::Rounding => 1,
        };
        if self.ran[place].is_none() {
            self.ran[place] = Some(match cause {
                Cause::Order => self.reordered(args),
                Cause::Rounding => (1..=SEEDS).filter_map(|seed| self.jittered(args, seed)).collect(),
            });
        }
        self.ran[place].as_deref().unwrap_or(&[])
    }

    /// Runs in other orders of blocks. The order of a run by several workers is open and may be the reverse one by chance, so the usual
    /// order is one of them, and so is a repetition. The rotated orders differ in the second of three blocks, which the usual and the reverse order have in common.
    fn reordered(&self, args: &[Arg<'_>]) -> Vec<Ran> {
        let orders = [BlockOrder::Reversed, BlockOrder::InOrder, BlockOrder::Rotated(1), BlockOrder::Rotated(2)];
        let other = |blocks| Control { backward: true, blocks, ..self.control.clone() };
        let controls = orders.into_iter().map(other).chain([self.control.clone()]);
        controls.filter_map(|control| self.run(&*self.pair.reference, args, &control)).collect()
    }

    fn jittered(&self, args: &[Arg<'_>], seed: u32) -> Option<Ran> {
        let kernel = jittered(&self.pair.kernel, self.pair.loose?, seed).ok()?;
        self.run(&*self.pair.devices[0].load(Arc::new(kernel)), args, self.control)
    }

    /// Runs the kernel again; `None` if there is not enough memory.
    fn run(&self, executable: &dyn Executable, args: &[Arg<'_>], control: &Control) -> Option<Ran> {
        let mut arrays = duplicated(self.before)?;
        let quiet = Control { warnings: Arc::default(), launches: Arc::default(), ..control.clone() };
        let end = launch_on(executable, self.extents, args, &mut arrays, &quiet);
        Some(Ran { end, arrays })
    }

    /// Returns whether the kernel may print other lines, and why.
    fn print_otherwise(&mut self, args: &[Arg<'_>], first: &Result<Output, Box<Fault>>) -> Option<Cause> {
        let pair = self.pair;
        self.causes()
            .into_iter()
            .find(|&cause| self.of(cause, args).iter().any(|ran| matches!(pair.ends(first, &ran.end), Ends::Lines(_))))
    }

    /// Returns the outcome of a run that ends as another device's did.
    fn end_as(&mut self, args: &[Arg<'_>], other: &Result<Output, Box<Fault>>) -> Option<Result<Output, Box<Fault>>> {
        let same = |ran: &&Ran| match (&ran.end, other) {
            (Ok(_), Ok(_)) => true,
            (Err(a), Err(b)) => place(a) == place(b),
            _ => false,
        };
        self.causes().into_iter().find_map(|cause| self.of(cause, args).iter().find(same).map(|ran| ran.end.clone()))
    }

    /// Returns why an array may differ as much as it does.
    fn explain(
        &mut self,
        args: &[Arg<'_>],
        position: usize,
        own: &[u8],
        other: &[u8],
        layout: &Layout,
    ) -> Result<Option<Cause>, DeviceError> {
        if self.pair.meets && self.order_matters(args, position, layout)? {
            return Ok(Some(Cause::Order));
        }
        if self.pair.loose.is_none() {
            return Ok(None);
        }
        let witnesses = self.of(Cause::Rounding, args).iter().map(|ran| ran.array(position));
        let witnesses: Vec<&[u8]> = witnesses.collect::<Result<_, _>>()?;
        Ok(is_explained(own, other, &witnesses, layout).then_some(Cause::Rounding))
    }

    /// Returns whether a run in another order leaves different contents.
    fn order_matters(&mut self, args: &[Arg<'_>], position: usize, layout: &Layout) -> Result<bool, DeviceError> {
        let approximate = self.pair.loose.is_some();
        let own = written(args, position)?;
        for ran in self.of(Cause::Order, args) {
            if compare(own, ran.array(position)?, layout, approximate).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for the operation to which the difference of an element goes back.
    fn parting(&self, args: &[Arg<'_>], position: usize, part: (usize, usize)) -> Option<Parting> {
        let [reference, other] = &self.pair.devices;
        let search = parting::Search {
            devices: [reference, other],
            kernel: &self.pair.kernel,
            extents: self.extents,
            args,
            before: self.before,
            control: self.control,
            approximate: self.pair.loose.is_some(),
        };
        search.parting(position, part)
    }

    fn causes(&self) -> Vec<Cause> {
        let order = self.pair.meets.then_some(Cause::Order);
        order.into_iter().chain(self.pair.loose.map(|_| Cause::Rounding)).collect()
    }
}

/// Launches with the arrays that the kernel may write replaced.
fn launch_on(
    executable: &dyn Executable,
    extents: Extents,
    args: &[Arg<'_>],
    arrays: &mut Copies,
    control: &Control,
) -> Result<Output, Box<Fault>> {
    let mut given: Vec<Arg<'_>> = args.iter().zip(arrays).map(|(arg, copy)| again(arg, copy)).collect();
    executable.launch(extents, &mut given, control)
}

/// Returns the offset and the bytes of a field of an element.
fn part_of(layout: &Layout, element: usize, field: &str) -> (usize, usize) {
    let path = field.trim_start_matches('.');
    let leaf = layout.leaves.iter().rfind(|leaf| path.starts_with(&leaf.path));
    let (offset, size) = leaf.map_or((0, layout.size), |leaf| (leaf.offset, leaf.ty.size()));
    (element * layout.size + offset, size)
}

/// Returns the contents of the array at a position; empty if the kernel does not write that.
fn written<'b>(args: &'b [Arg<'_>], position: usize) -> Result<&'b [u8], DeviceError> {
    match args.get(position) {
        Some(Arg::Write { bytes, .. }) => Ok(bytes),
        Some(Arg::ArrayMut { storage, .. }) => storage.bytes(),
        Some(Arg::Value(_) | Arg::Read { .. } | Arg::Array { .. }) | None => Ok(&[]),
    }
}

/// The first element in which two arrays differ: its indices, the field of a struct, the two values.
pub struct Difference {
    pub index: String,
    pub field: String,
    pub values: [String; 2],
}

/// Returns where two arrays of one shape differ.
pub fn difference(a: &[u8], b: &[u8], shape: &[u32], layout: &Layout) -> Option<Difference> {
    let Found { element, field, values, .. } = compare(a, b, layout, false)?;
    let index = unravel(element, shape).iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Some(Difference { index, field, values })
}

/// Returns whether threads communicate by atomic operations.
fn meets(module: &Module) -> bool {
    module.functions.iter().any(|(_, function)| {
        let mut found = false;
        visit::each_stmt(&function.body, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Atomic { .. }));
        found
    })
}

fn disagreement(difference: Disagreement, span: Span) -> Box<Fault> {
    FaultKind::Disagreement(Box::new(difference)).of_launch(span)
}

/// Returns the location and the kind of a fault.
fn place(fault: &Fault) -> (Span, std::mem::Discriminant<FaultKind>) {
    (fault.span, std::mem::discriminant(&fault.kind))
}

/// Returns name and element layout of the array parameter at a position.
fn array(module: &Module, position: usize) -> Option<(&str, &Layout)> {
    let Kernel { params, body, .. } = &module.kernel;
    match params.get(position)? {
        KernelParam::Array { name, memory, access: Access::Out | Access::InOut } => {
            Some((name, &module.functions.get(*body)?.memories.get(*memory)?.layout))
        }
        _ => None,
    }
}
