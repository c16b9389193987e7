//! Differential execution (McKeeman 1998): runs every launch on two devices and compares the results. They must be
//! bit-identical, unless the kernel calls functions with an error of some ULPs or adds floats in no fixed order.
//!
//! Two different results may both be correct. Therefore, if the results differ, the first device executes the launch
//! again in other permitted orders and with other permitted rounding. If these results differ from each other by a
//! similar amount, the difference is reported as a note, and not as a disagreement. Every execution begins with the
//! same bytes: arrays are copied before the first one, and uninitialized bytes are zeroed.

#![allow(rustdoc::private_intra_doc_links)]

mod compare;
mod copies;
mod first_divergence;
mod jitter;
mod value_recorder;

use std::sync::Arc;

use self::compare::{FirstDifference, compare, different_lines, is_explained, unravel};
use self::copies::{WrittenArrays, copy, duplicate_arrays, with_copy};
pub use self::jitter::{Loose, is_approximate, perturb_roundings};
use clk_base::source::{SourceMap, Span};
use clk_ir::PreparedKernel;
use clk_ir::def::{Access, ElementLayout, Kernel, KernelParam, Module, StmtKind};
use clk_ir::visit;
use clk_runtime::exchange::{CollectiveDevice, CollectiveError};
use clk_runtime::storage::Storage;
use clk_runtime::{
    Arg, BlockOrder, BoxedTimestamp, Capabilities, Cause, Control, Device, DeviceError, DeviceMemory, DeviceWrapper,
    DifferingArray, Disagreement, Executable, Fault, FaultKind, FirstDivergence, Interop, LaunchConfig, PrintedText,
    Variation, fault_title,
};

/// Runs every launch on two devices, compares the results, and returns those of the first device.
pub struct Both {
    reference: Arc<dyn Device>,
    other: Arc<dyn Device>,
    exact: bool,
}

impl Both {
    /// Combines two devices. `exact` means that neither device may trade accuracy for speed.
    pub fn new(reference: Arc<dyn Device>, other: Arc<dyn Device>, exact: bool) -> Both {
        Both { reference, other, exact }
    }
}

impl DeviceWrapper for Both {
    fn inner(&self) -> &dyn Device {
        &*self.other
    }

    fn name(&self) -> String {
        format!("{} and {}", self.reference.name(), self.other.name())
    }

    /// Launches are synchronous, and no check, proof or host computation bypasses the comparison.
    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }

    /// Both devices run the same optimized kernel.
    fn shows_variables(&self) -> bool {
        false
    }

    /// Both devices get copies of arrays in the host's memory.
    fn memory(&self) -> Option<&dyn DeviceMemory> {
        None
    }

    fn interop(&self) -> Option<&dyn Interop> {
        None
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        Arc::new(DevicePair {
            names: [self.reference.name(), self.other.name()],
            reference: self.reference.load(kernel.clone(), sources),
            other: self.other.load(kernel.clone(), sources),
            devices: [self.reference.clone(), self.other.clone()],
            loose: match self.exact {
                true => is_approximate(&kernel.module).then_some(Loose::Functions),
                false => Some(Loose::All),
            },
            has_atomics: has_atomics(&kernel.module),
            kernel,
        })
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        Err(CollectiveError::Unsupported(DeviceWrapper::name(self)))
    }

    /// Each launch has reported its faults.
    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Each launch is compared before the next one begins.
    fn begin_batch(&self) {}

    fn end_batch(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The clock of one device does not measure the other one.
    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        None
    }

    /// The arrays of the program are in the host's memory.
    fn spilled(&self) -> u64 {
        0
    }
}

struct DevicePair {
    names: [String; 2],
    devices: [Arc<dyn Device>; 2],
    reference: Arc<dyn Executable>,
    other: Arc<dyn Executable>,
    /// The operations that the two devices may round differently; `None` if results must be bit-identical.
    loose: Option<Loose>,
    /// Whether the kernel has atomic operations, so that its results may depend on the order of threads.
    has_atomics: bool,
    kernel: Arc<PreparedKernel>,
}

/// Number of executions with perturbed rounding.
const SEEDS: u32 = 8;

/// The outcome of one execution of a launch, and the arrays that it wrote.
struct DeviceRun {
    end: Result<PrintedText, Box<Fault>>,
    arrays: WrittenArrays,
}

impl DeviceRun {
    /// Returns the final contents of the array argument at `position`; an empty slice if the kernel does not write it.
    fn array(&self, position: usize) -> Result<&[u8], DeviceError> {
        self.arrays.get(position).and_then(Option::as_ref).map_or(Ok(&[]), Storage::bytes)
    }
}

/// The difference between the outcomes of two executions of a launch.
enum OutcomeDifference {
    Same,
    Lines([String; 2]),
    Faults,
}

impl Executable for DevicePair {
    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.reference.prepare_block_shape(block);
        self.other.prepare_block_shape(block);
    }

    fn depends_on_promises(&self) -> bool {
        self.reference.depends_on_promises() || self.other.depends_on_promises()
    }

    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        // A kernel may write only some elements of a new array. The other elements are zeroed, so that they can be
        // compared too.
        for arg in args.iter_mut() {
            if let Arg::ArrayMut { storage, .. } = arg {
                storage.define();
            }
        }
        let mut others = self.copies(args)?;
        // Copies of the arrays before the launch, for the other executions.
        let before = self.copies(args)?;
        // The launch is synchronous, so that a fault of the first device is known before the other device starts.
        let config = config.synchronous();
        let end = launch_on(&*self.other, &config, args, &mut others, control);
        let others = DeviceRun { end, arrays: others };
        if let Err(fault) = &others.end
            && matches!(fault.kind, FaultKind::Device(_))
        {
            return others.end;
        }
        let first = self.reference.launch(&config, args, control);
        let differing = self.differing(args, &others)?;
        if matches!(self.compare_outcomes(&first, &others.end), OutcomeDifference::Same)
            && (differing.is_empty() || first.is_err())
        {
            return first;
        }
        let witnesses = Witnesses { pair: self, config, control, before: &before, runs: [None, None] };
        self.classify(first, &others, args, differing, witnesses)
    }
}

impl DevicePair {
    fn span(&self) -> Span {
        self.kernel.module.kernel.span
    }

    /// Returns copies of the arrays for another execution.
    fn copies(&self, args: &[Arg<'_>]) -> Result<WrittenArrays, Box<Fault>> {
        args.iter().map(|arg| copy(arg).map_err(|error| self.device_fault(error))).collect()
    }

    /// Returns the fault for an array that cannot be copied or read.
    fn device_fault(&self, error: DeviceError) -> Box<Fault> {
        FaultKind::Device(error).into_launch_fault(self.span())
    }

    /// Returns the argument position and the first difference of each array that differs between two executions.
    fn differing(&self, args: &[Arg<'_>], others: &DeviceRun) -> Result<Vec<(usize, FirstDifference)>, Box<Fault>> {
        let mut differing = Vec::new();
        for position in 0..args.len() {
            let Some((_, layout)) = array(&self.kernel.module, position) else { continue };
            let bytes = written_array(args, position).map_err(|error| self.device_fault(error))?;
            let theirs = others.array(position).map_err(|error| self.device_fault(error))?;
            if bytes != theirs
                && let Some(found) = compare(bytes, theirs, layout, self.loose.is_some())
            {
                differing.push((position, found));
            }
        }
        Ok(differing)
    }

    fn compare_outcomes(
        &self,
        first: &Result<PrintedText, Box<Fault>>,
        other: &Result<PrintedText, Box<Fault>>,
    ) -> OutcomeDifference {
        match (first, other) {
            (Ok(a), Ok(b)) => {
                different_lines(a, b, self.loose.is_some()).map_or(OutcomeDifference::Same, OutcomeDifference::Lines)
            }
            // The faulting threads are not compared, because it is unspecified which of them is reported.
            (Err(a), Err(b)) if fault_key(a) == fault_key(b) => OutcomeDifference::Same,
            _ => OutcomeDifference::Faults,
        }
    }

    /// Returns the result of the first device if the results of both can be correct; otherwise a disagreement.
    fn classify(
        &self,
        first: Result<PrintedText, Box<Fault>>,
        others: &DeviceRun,
        args: &[Arg<'_>],
        differing: Vec<(usize, FirstDifference)>,
        mut witnesses: Witnesses<'_>,
    ) -> Result<PrintedText, Box<Fault>> {
        match self.compare_outcomes(&first, &others.end) {
            OutcomeDifference::Same => {}
            OutcomeDifference::Lines(lines) => match witnesses.explain_output(args, &first) {
                Some(cause) => self.report_variation(&witnesses, Variation { lines: true, ..self.variation(cause) }),
                None => return Err(self.disagree(Disagreement::Output { devices: self.names.clone(), lines })),
            },
            // If an execution on the first device with another order or rounding ends like the other device's
            // execution, the devices do not disagree. A fault is then a fault of the program, even if at first only the
            // other device found it.
            OutcomeDifference::Faults => {
                return match witnesses.find_same_outcome(args, &others.end) {
                    Some(Err(fault)) => Err(fault),
                    Some(Ok(_)) => first,
                    None => Err(self.different_faults(&first, &others.end)),
                };
            }
        }
        for (position, found) in differing {
            let Some((name, layout)) = array(&self.kernel.module, position) else { continue };
            let device_fault = |error| self.device_fault(error);
            let bytes = written_array(args, position).map_err(device_fault)?;
            let theirs = others.array(position).map_err(device_fault)?;
            let shape = args.get(position).and_then(Arg::shape).unwrap_or(&[]);
            let values = DifferingArray {
                array: name.to_string(),
                index: unravel(found.element, shape),
                field: found.field,
                values: found.values,
                differing: found.differing,
                elements: shape.iter().map(|&n| u64::from(n)).product(),
            };
            match witnesses.explain(args, position, bytes, theirs, layout).map_err(device_fault)? {
                Some(cause) => {
                    self.report_variation(&witnesses, Variation { values: Some(values), ..self.variation(cause) })
                }
                None => {
                    let (devices, approximate) = (self.names.clone(), self.loose.is_some());
                    let racy =
                        !self.has_atomics && witnesses.order_matters(args, position, layout).map_err(device_fault)?;
                    let divergence = match racy {
                        true => None,
                        false => {
                            let (offset, size) = field_byte_range(layout, found.element, &values.field);
                            witnesses.find_divergence(args, position, offset, size)
                        }
                    };
                    return Err(self.disagree(Disagreement::Values { devices, values, approximate, racy, divergence }));
                }
            }
        }
        first
    }

    fn variation(&self, cause: Cause) -> Variation {
        Variation { devices: self.names.clone(), cause, values: None, lines: false }
    }

    fn report_variation(&self, witnesses: &Witnesses<'_>, variation: Variation) {
        let note = FaultKind::Variation(Box::new(variation)).into_launch_fault(self.span());
        if let Ok(mut warnings) = witnesses.control.warnings.lock() {
            warnings.push(*note);
        }
    }

    fn disagree(&self, difference: Disagreement) -> Box<Fault> {
        disagreement(difference, self.span())
    }

    fn different_faults(
        &self,
        first: &Result<PrintedText, Box<Fault>>,
        other: &Result<PrintedText, Box<Fault>>,
    ) -> Box<Fault> {
        let describe_outcome = |result: &Result<PrintedText, Box<Fault>>| match result {
            Ok(_) => "no fault".to_string(),
            Err(fault) => fault_title(fault),
        };
        let fault = [first, other].into_iter().find_map(|result| result.as_ref().err());
        // Devices may have different limits of shared memory. That is not a disagreement.
        if let Some(fault) = fault.filter(|fault| matches!(fault.kind, FaultKind::SharedSize { .. })) {
            return fault.clone();
        }
        let difference = Disagreement::Faults {
            devices: self.names.clone(),
            faults: [describe_outcome(first), describe_outcome(other)],
        };
        disagreement(difference, fault.map_or(self.span(), |fault| fault.span))
    }
}

/// Repeated executions of the launch on the reference device, in other permitted orders and with perturbed rounding.
/// Each of the two sets is computed on first use.
struct Witnesses<'a> {
    pair: &'a DevicePair,
    config: LaunchConfig,
    control: &'a Control,
    before: &'a WrittenArrays,
    /// The executions in other orders, and those with perturbed rounding.
    runs: [Option<Vec<DeviceRun>>; 2],
}

impl Witnesses<'_> {
    /// Returns the executions for one cause of variation.
    fn runs_for(&mut self, cause: Cause, args: &[Arg<'_>]) -> &[DeviceRun] {
        let slot = match cause {
            Cause::Order => 0,
            Cause::Rounding => 1,
        };
        if self.runs[slot].is_none() {
            self.runs[slot] = Some(match cause {
                Cause::Order => self.reordered(args),
                Cause::Rounding => (1..=SEEDS).filter_map(|seed| self.perturb_roundings(args, seed)).collect(),
            });
        }
        self.runs[slot].as_deref().unwrap_or(&[])
    }

    /// Executes the launch with several block orders. An execution with several workers has an unspecified order,
    /// possibly the reversed one; therefore the usual order and an unchanged repetition are included. The rotated
    /// orders are needed because the usual and the reversed order of three blocks agree in the second block.
    fn reordered(&self, args: &[Arg<'_>]) -> Vec<DeviceRun> {
        let orders = [BlockOrder::Reversed, BlockOrder::InOrder, BlockOrder::Rotated(1), BlockOrder::Rotated(2)];
        let other = |blocks| Control { reverse_order: true, blocks, ..self.control.clone() };
        let controls = orders.into_iter().map(other).chain([self.control.clone()]);
        controls.filter_map(|control| self.run(&*self.pair.reference, args, &control)).collect()
    }

    fn perturb_roundings(&self, args: &[Arg<'_>], seed: u32) -> Option<DeviceRun> {
        let kernel = perturb_roundings(&self.pair.kernel, self.pair.loose?, seed).ok()?;
        self.run(&*self.pair.devices[0].load(Arc::new(kernel), None), args, self.control)
    }

    /// Executes the launch again; `None` if there is not enough memory.
    fn run(&self, executable: &dyn Executable, args: &[Arg<'_>], control: &Control) -> Option<DeviceRun> {
        let mut arrays = duplicate_arrays(self.before)?;
        let quiet = Control { warnings: Arc::default(), launches: Arc::default(), ..control.clone() };
        let end = launch_on(executable, &self.config, args, &mut arrays, &quiet);
        Some(DeviceRun { end, arrays })
    }

    /// Returns why the kernel may correctly print different output; `None` if it may not.
    fn explain_output(&mut self, args: &[Arg<'_>], first: &Result<PrintedText, Box<Fault>>) -> Option<Cause> {
        let pair = self.pair;
        self.causes().into_iter().find(|&cause| {
            self.runs_for(cause, args)
                .iter()
                .any(|ran| matches!(pair.compare_outcomes(first, &ran.end), OutcomeDifference::Lines(_)))
        })
    }

    /// Returns the outcome of a repeated execution that ends like the other device's execution: normally, or with the
    /// same fault.
    fn find_same_outcome(
        &mut self,
        args: &[Arg<'_>],
        other: &Result<PrintedText, Box<Fault>>,
    ) -> Option<Result<PrintedText, Box<Fault>>> {
        let same = |ran: &&DeviceRun| match (&ran.end, other) {
            (Ok(_), Ok(_)) => true,
            (Err(a), Err(b)) => fault_key(a) == fault_key(b),
            _ => false,
        };
        self.causes()
            .into_iter()
            .find_map(|cause| self.runs_for(cause, args).iter().find(same).map(|ran| ran.end.clone()))
    }

    /// Returns why the array argument at `position` may correctly differ between the devices; `None` if it may not.
    fn explain(
        &mut self,
        args: &[Arg<'_>],
        position: usize,
        own: &[u8],
        other: &[u8],
        layout: &ElementLayout,
    ) -> Result<Option<Cause>, DeviceError> {
        if self.pair.has_atomics && self.order_matters(args, position, layout)? {
            return Ok(Some(Cause::Order));
        }
        if self.pair.loose.is_none() {
            return Ok(None);
        }
        let witnesses = self.runs_for(Cause::Rounding, args).iter().map(|ran| ran.array(position));
        let witnesses: Vec<&[u8]> = witnesses.collect::<Result<_, _>>()?;
        Ok(is_explained(own, other, &witnesses, layout).then_some(Cause::Rounding))
    }

    /// Returns whether executions in other orders produce different contents of the array argument at `position`.
    fn order_matters(
        &mut self,
        args: &[Arg<'_>],
        position: usize,
        layout: &ElementLayout,
    ) -> Result<bool, DeviceError> {
        let approximate = self.pair.loose.is_some();
        let own = written_array(args, position)?;
        for ran in self.runs_for(Cause::Order, args) {
            if compare(own, ran.array(position)?, layout, approximate).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the operation that caused a difference in the array argument at `position`, in `size` bytes at `offset`.
    fn find_divergence(
        &self,
        args: &[Arg<'_>],
        position: usize,
        offset: usize,
        size: usize,
    ) -> Option<FirstDivergence> {
        let [reference, other] = &self.pair.devices;
        let search = first_divergence::DivergenceSearch {
            devices: [reference, other],
            kernel: &self.pair.kernel,
            config: self.config,
            args,
            before: self.before,
            control: self.control,
            approximate: self.pair.loose.is_some(),
        };
        search.find_divergence(position, offset, size)
    }

    fn causes(&self) -> Vec<Cause> {
        let order = self.pair.has_atomics.then_some(Cause::Order);
        order.into_iter().chain(self.pair.loose.map(|_| Cause::Rounding)).collect()
    }
}

/// Launches the kernel on `arrays`, copies of the arrays that it may write.
fn launch_on(
    executable: &dyn Executable,
    config: &LaunchConfig,
    args: &[Arg<'_>],
    arrays: &mut WrittenArrays,
    control: &Control,
) -> Result<PrintedText, Box<Fault>> {
    let mut copied_args: Vec<Arg<'_>> = args.iter().zip(arrays).map(|(arg, copy)| with_copy(arg, copy)).collect();
    executable.launch(config, &mut copied_args, control)
}

/// Returns the byte offset in the array, and the size, of a field of an element.
fn field_byte_range(layout: &ElementLayout, element: usize, field: &str) -> (usize, usize) {
    let path = field.trim_start_matches('.');
    let leaf = layout.leaves.iter().rfind(|leaf| path.starts_with(&leaf.path));
    let (offset, size) = leaf.map_or((0, layout.size), |leaf| (leaf.offset, leaf.ty.size()));
    (element * layout.size + offset, size)
}

/// Returns the contents of the array argument at `position`; an empty slice if the kernel does not write it.
fn written_array<'b>(args: &'b [Arg<'_>], position: usize) -> Result<&'b [u8], DeviceError> {
    match args.get(position) {
        Some(Arg::Write { bytes, .. }) => Ok(bytes),
        Some(Arg::ArrayMut { storage, .. }) => storage.bytes(),
        Some(Arg::Value(_) | Arg::Read { .. } | Arg::Array { .. }) | None => Ok(&[]),
    }
}

/// The first element in which two arrays differ: its indices, the differing field if it is a struct, and both values.
pub struct Difference {
    pub index: String,
    pub field: String,
    pub values: [String; 2],
}

/// Returns the first difference of two arrays with the same shape and layout.
pub fn difference(a: &[u8], b: &[u8], shape: &[u32], layout: &ElementLayout) -> Option<Difference> {
    let FirstDifference { element, field, values, .. } = compare(a, b, layout, false)?;
    let index = unravel(element, shape).iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Some(Difference { index, field, values })
}

/// Returns whether the kernel has atomic operations.
fn has_atomics(module: &Module) -> bool {
    module.functions.iter().any(|(_, function)| {
        let mut has_atomic = false;
        visit::each_stmt(&function.body, &mut |stmt| has_atomic |= matches!(stmt.kind, StmtKind::Atomic { .. }));
        has_atomic
    })
}

fn disagreement(difference: Disagreement, span: Span) -> Box<Fault> {
    FaultKind::Disagreement(Box::new(difference)).into_launch_fault(span)
}

/// Returns the location and the kind of a fault. Faults of two devices are equal if these are equal.
fn fault_key(fault: &Fault) -> (Span, std::mem::Discriminant<FaultKind>) {
    (fault.span, std::mem::discriminant(&fault.kind))
}

/// Returns the name and the element layout of the array parameter at `position`.
fn array(module: &Module, position: usize) -> Option<(&str, &ElementLayout)> {
    let Kernel { params, body, .. } = &module.kernel;
    match params.get(position)? {
        KernelParam::Array { name, memory, access: Access::Out | Access::InOut } => {
            Some((name, &module.functions.get(*body)?.memories.get(*memory)?.layout))
        }
        _ => None,
    }
}
