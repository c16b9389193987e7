//! Performs a launch: copies arrays to the GPU, issues the kernel, and for synchronous launches returns its output or
//! fault.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::batch::Issue;
use super::context::GpuContext;
use super::driver::{DevicePtr, DriverArgument, DriverLaunch, MapElement, StridedWords, TensorMap};
use super::kernel::KernelVariants;
use super::memory::{self, Buffer};
use super::plan::{LaunchError, LaunchPlan};
use super::records::{PendingReport, wait_stoppable};
use super::replay::{LaunchRecord, RecordedArg};
use super::text::abi::{CodegenOptions, CudaKernel, KernelArgument, MAX_AXES, TMA_ALIGN};
use super::variant::KernelVariant;
use clk_ir::def::{Scalar, Ty};
use clk_runtime::fault_record::{self, RECORD_BYTES, STOP_WORD_AT};
use clk_runtime::launch_facts::ArgFacts;
use clk_runtime::size;
use clk_runtime::{
    Arg, Control, DeviceError, Executable, Fault, FaultKind, LaunchConfig, LaunchExtents, LaunchOrigin, PrintedText,
};
use clk_scalar::ScalarValue;

/// Maximum size of the output of one launch in bytes.
const PRINT_BYTES: u64 = 4 << 20;

impl Executable for KernelVariants {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        self.run(config, args, control).map_err(|end| match end {
            LaunchError::Fault(fault) => fault,
            LaunchError::Device(error) => FaultKind::Device(error).into_launch_fault(self.definition().span),
        })
    }

    fn depends_on_promises(&self) -> bool {
        let declared = self.prepared.declared_launches.as_ref().filter(|_| self.context.settings.text.checked);
        declared.is_some_and(|declared| declared.in_bounds(&self.prepared.module).uses_promises)
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        if !self.prepare_tensor_variant() {
            self.variant(&CodegenOptions { block: Some(block), ..self.options() });
        }
    }
}

/// For each argument of a launch, the GPU memory of the array; `None` for values.
type Buffers = Vec<Option<Arc<Buffer>>>;

impl KernelVariants {
    fn run(&self, config: &LaunchConfig, args: &mut [Arg<'_>], control: &Control) -> Result<PrintedText, LaunchError> {
        let (context, LaunchConfig { extents, declared, .. }) = (&self.context, *config);
        context.report_known_fault()?;
        self.check_memory_limit(args)?;
        let Some(plan) = self.plan(&ArgFacts { args, extents, declared })? else {
            return Ok(PrintedText::new());
        };
        match self.launch_with_plan(&plan, config, args, control)? {
            Ok(output) => Ok(output),
            // Memory for packed operands is full. Retry without packing, which is slower.
            Err(_) => match self.plan_without_packing(&ArgFacts { args, extents, declared })? {
                Some(plan) => self.launch_with_plan(&plan, config, args, control)?.map_err(LaunchError::Device),
                None => Ok(PrintedText::new()),
            },
        }
    }

    /// Issues a planned launch. If memory for packed operands cannot be allocated, launches nothing and returns that
    /// error in the inner result.
    fn launch_with_plan(
        &self,
        plan: &LaunchPlan,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<Result<PrintedText, DeviceError>, LaunchError> {
        let (context, variant) = (&self.context, &plan.variant);
        let loaded = variant.load(context)?;
        let begin = context.settings.timed.then(Instant::now);
        // Output and the caller's arrays must be on the host when this returns.
        let is_synchronous = config.wait || variant.prints || args.iter().any(|arg| matches!(arg, Arg::Write { .. }));
        if is_synchronous {
            // Report faults of earlier launches first.
            context.confirm()?;
        }
        let buffers = self.make_arrays_resident(&plan.whole, args)?;
        let mut service = ServiceBuffers::new(context, variant, is_synchronous)?;
        match [0, 1].map(|factor| ServiceBuffers::packed(context, variant, args, factor)) {
            [Err(full @ DeviceError::OutOfMemory { .. }), _] | [_, Err(full @ DeviceError::OutOfMemory { .. })] => {
                return Ok(Err(full));
            }
            [a, b] => service.packed = [a?, b?],
        }
        let own = variant.kernel.own_extents(config.extents);
        let mut arguments = Vec::with_capacity(variant.kernel.params.len());
        arguments.extend(variant.kernel.params.iter().map(|p| driver_argument(p, args, &own, &buffers, &service)));
        context.record_pending(self, control);
        let pending = || PendingReport {
            kernel: variant.kernel.clone(),
            origin: LaunchOrigin::new(&self.prepared.module.kernel, config),
        };
        context.issue(Issue {
            launch: DriverLaunch { function: loaded.function, shape: plan.shape, arguments },
            fault: variant.fault_argument.filter(|_| !is_synchronous).map(|at| (at, pending())),
            stop: variant.may_run_forever.then_some(&control.stop),
            replay: context.is_isolated().then(|| self.as_record(config, args, &buffers)),
        })?;
        if variant.kernel.options.product.is_some() {
            context.count_product();
        }
        if !is_synchronous {
            begin.into_iter().for_each(|begin| context.count_begin(begin));
            return Ok(Ok(PrintedText::new()));
        }
        context.flush()?;
        let outcome = self.outcome(variant, &service, control);
        for (arg, buffer) in args.iter_mut().zip(&buffers) {
            if let (Arg::Write { bytes, .. }, Some(buffer)) = (arg, buffer) {
                buffer.download(bytes)?;
            }
        }
        outcome.map(Ok)
    }

    /// Records the launch, so that it can be replayed on another device.
    fn as_record(&self, config: &LaunchConfig, args: &[Arg<'_>], buffers: &Buffers) -> Arc<LaunchRecord> {
        let recorded_args = args.iter().zip(buffers).map(|(arg, buffer)| match (arg, buffer) {
            (Arg::Value(values), _) => RecordedArg::Value(values.clone()),
            (_, None) => RecordedArg::Value(vec![]),
            (array, Some(buffer)) => RecordedArg::Array {
                address: buffer.address(),
                // Compute the size from the shape, because the device memory of a truncated array is larger.
                bytes: arg_bytes(array),
                shape: array.shape().unwrap_or_default().to_vec(),
                writes: matches!(array, Arg::Write { .. } | Arg::ArrayMut { .. }),
            },
        });
        let origin = LaunchOrigin::new(&self.prepared.module.kernel, config);
        Arc::new(LaunchRecord { kernel: self.prepared.clone(), origin, args: recorded_args.collect() })
    }

    /// Returns an error if the arrays together exceed the GPU's memory. Called before anything is copied.
    fn check_memory_limit(&self, args: &[Arg<'_>]) -> Result<(), DeviceError> {
        let total_bytes: u64 = args.iter().map(arg_bytes).sum();
        let limit = self.context.properties.memory;
        match total_bytes > limit {
            true => Err(DeviceError::TooLarge {
                device: self.context.name.clone(),
                wanted: size(total_bytes),
                limit: size(limit),
                what: "of memory",
            }),
            false => Ok(()),
        }
    }

    /// Ensures that all arrays are in GPU memory. `overwritten`: for each argument, whether the kernel overwrites the
    /// whole array.
    fn make_arrays_resident(&self, overwritten: &[bool], args: &mut [Arg<'_>]) -> Result<Buffers, DeviceError> {
        let context = &self.context;
        let mut buffers: Buffers = Vec::with_capacity(args.len());
        for (param, arg) in args.iter_mut().enumerate() {
            buffers.push(match arg {
                Arg::Value(_) => None,
                Arg::Read { bytes, .. } => Some(Arc::new(Buffer::of_bytes(context, bytes)?)),
                Arg::Write { bytes, .. } => Some(Arc::new(Buffer::of_bytes(context, bytes)?)),
                Arg::Array { storage, .. } => Some(memory::make_readable(storage, context)?),
                Arg::ArrayMut { storage, .. } => Some(memory::make_writable(storage, context, overwritten[param])?),
            });
        }
        Ok(buffers)
    }

    /// Waits for a synchronous launch. Returns its output or its fault.
    fn outcome(
        &self,
        variant: &KernelVariant,
        service: &ServiceBuffers,
        control: &Control,
    ) -> Result<PrintedText, LaunchError> {
        let context = &self.context;
        let _waiting = context.begin_wait();
        if let (Some(faults), true) = (&service.faults, variant.may_run_forever) {
            let word = StridedWords { first: DevicePtr(faults.address().0 + STOP_WORD_AT), pitch: 4, count: 1 };
            context.call(|driver| wait_stoppable(driver, &control.stop, &[word], |driver| driver.is_idle()))?;
        }
        let output = match &service.prints {
            Some(prints) => printed(&variant.kernel, prints)?,
            None => PrintedText::new(),
        };
        let Some(faults) = &service.faults else {
            context.finish()?;
            return Ok(output);
        };
        let mut record = [0; RECORD_BYTES];
        faults.download(&mut record)?;
        match fault_record::read(&variant.kernel.places, variant.kernel.index_rank(), &record, &output) {
            Some(fault) => Err(LaunchError::Fault(fault)),
            None => Ok(output),
        }
    }
}

/// Returns the size of an argument's array in bytes, or 0 for a value.
fn arg_bytes(arg: &Arg<'_>) -> u64 {
    match arg {
        Arg::Value(_) => 0,
        Arg::Read { bytes, .. } => bytes.len() as u64,
        Arg::Write { bytes, .. } => bytes.len() as u64,
        Arg::Array { storage, .. } => storage.len() as u64,
        Arg::ArrayMut { storage, .. } => storage.len() as u64,
    }
}

/// Reads the print buffer, and returns the output of the kernel's threads as text.
fn printed(kernel: &CudaKernel, prints: &Buffer) -> Result<PrintedText, DeviceError> {
    let mut header = [0; 8];
    prints.download(&mut header)?;
    let used = u64::from(u32::from_le_bytes([header[0], header[1], header[2], header[3]]));
    let bytes = (8 + 4 * used).min(PRINT_BYTES);
    let mut buffer = vec![0; bytes as usize];
    prints.download(&mut buffer)?;
    let (mut output, lost) = kernel.printed(&buffer);
    if lost > 0 {
        output.push_str("(more was printed than there is room for)\n");
    }
    Ok(output)
}

/// Buffers that generated code needs in addition to the arrays.
struct ServiceBuffers {
    /// The fault record of a synchronous launch; asynchronous launches get one of the context's records.
    faults: Option<Buffer>,
    prints: Option<Buffer>,
    barrier: Option<Buffer>,
    /// For each operand of a product, memory for the packed operand, if it is packed.
    packed: [Option<Buffer>; 2],
}

impl ServiceBuffers {
    fn new(
        context: &Arc<GpuContext>,
        variant: &KernelVariant,
        is_synchronous: bool,
    ) -> Result<ServiceBuffers, DeviceError> {
        let zeroed = |wanted: bool, bytes| wanted.then(|| Buffer::zeroed(context, bytes)).transpose();
        let prints = match variant.prints {
            false => None,
            true => {
                let prints = Buffer::zeroed(context, PRINT_BYTES)?;
                let header = [0, (PRINT_BYTES as u32 - 8) / 4];
                context.upload(prints.address(), bytemuck::cast_slice(&header))?;
                Some(prints)
            }
        };
        if variant.may_run_forever && is_synchronous {
            // Create the flag before the kernel runs: stopping the kernel requires it.
            context.call(|driver| driver.flag())?;
        }
        Ok(ServiceBuffers {
            faults: zeroed(variant.fault_argument.is_some() && is_synchronous, RECORD_BYTES as u64)?,
            prints,
            barrier: zeroed(variant.has_grid_barrier, 4)?,
            packed: [None, None],
        })
    }

    /// Allocates memory for an operand of a product, if the generated code packs the operand.
    fn packed(
        context: &Arc<GpuContext>,
        variant: &KernelVariant,
        args: &[Arg<'_>],
        wanted: usize,
    ) -> Result<Option<Buffer>, DeviceError> {
        let operand = variant.kernel.params.iter().find_map(|argument| match argument {
            KernelArgument::Packed { factor, param, element } if *factor == wanted => Some((*param, element.size())),
            _ => None,
        });
        let Some((param, size)) = operand else { return Ok(None) };
        let &[rows, columns] = args.get(param).and_then(Arg::shape).unwrap_or_default() else { return Ok(None) };
        let row = (u64::from(columns) * size as u64).next_multiple_of(TMA_ALIGN);
        Buffer::new(context, u64::from(rows) * row).map(Some)
    }
}

/// Returns the value of an argument of the CUDA function.
fn driver_argument(
    argument: &KernelArgument,
    args: &[Arg<'_>],
    extents: &LaunchExtents,
    buffers: &Buffers,
    service: &ServiceBuffers,
) -> DriverArgument {
    let address =
        |buffer: Option<&Buffer>| DriverArgument::Address(buffer.map_or(DevicePtr::default(), Buffer::address));
    match *argument {
        KernelArgument::Value { param, ty } => match args.get(param) {
            Some(Arg::Value(values)) => lanes(ty, values),
            _ => lanes(ty, &[]),
        },
        KernelArgument::Array { param } => address(buffers.get(param).and_then(|b| b.as_deref())),
        KernelArgument::Extent { param, axis } => {
            let extent = args.get(param).and_then(|arg| arg.shape()?.get(axis).copied());
            number(extent.unwrap_or(0))
        }
        KernelArgument::IndexExtent { index } => number(match extents {
            LaunchExtents::Threads(sizes) => sizes.get(index).copied().unwrap_or(1),
            LaunchExtents::Grid { .. } => 1,
        }),
        KernelArgument::Map { param, element, tma_box, .. } => {
            let buffer = buffers.get(param).and_then(|buffer| buffer.as_deref());
            let shape = args.get(param).and_then(Arg::shape).unwrap_or_default();
            let mut extents = [1; MAX_AXES];
            extents.iter_mut().zip(shape.iter().rev()).for_each(|(own, &extent)| *own = extent);
            DriverArgument::Map(TensorMap {
                address: buffer.map_or(DevicePtr::default(), Buffer::address),
                element: match element {
                    Scalar::F32 => MapElement::Tf32,
                    Scalar::Bf16 => MapElement::Bf16,
                    _ => MapElement::F16,
                },
                axes: shape.len() as u32,
                extents,
                tma_box,
            })
        }
        KernelArgument::Packed { factor, .. } => address(service.packed.get(factor).and_then(Option::as_ref)),
        KernelArgument::Faults => address(service.faults.as_ref()),
        KernelArgument::Prints => address(service.prints.as_ref()),
        KernelArgument::GridBarrier => address(service.barrier.as_ref()),
    }
}

fn number(value: u32) -> DriverArgument {
    DriverArgument::Value { bytes: [value.into(), 0, 0, 0], len: 4 }
}

/// Returns the lanes of a value as an argument, stored contiguously.
fn lanes(ty: Ty, lanes: &[ScalarValue]) -> DriverArgument {
    let mut bytes = [0u8; 32];
    let size = ty.scalar().size();
    for (place, lane) in bytes.chunks_exact_mut(size).zip(lanes) {
        place.copy_from_slice(&lane.to_bytes()[..size]);
    }
    DriverArgument::Value { bytes: bytemuck::cast(bytes), len: (size * usize::from(ty.lanes())) as u8 }
}
