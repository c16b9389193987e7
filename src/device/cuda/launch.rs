//! One launch: arrays to the GPU, the call, and its outcome.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::batch::Issue;
use super::context::Context;
use super::driver::{Address, Argument, Launch, Map, MapElement, Words};
use super::fault;
use super::kernel::Kernel;
use super::memory::{self, Buffer};
use super::plan::{End, Facts, Plan};
use super::records::{Pending, stoppable};
use super::replay::{Kept, Record};
use super::text::abi::{BOX_ALIGN, CudaKernel, FAULT_BYTES, KernelArgument, MOST_AXES, Options};
use super::variant::Variant;
use crate::device::fault::size;
use crate::device::{Arg, Control, DeviceError, Executable, Extents, Fault, FaultKind, Output};
use crate::ir::def::{Scalar, Ty};
use crate::lang::scalar::Value;

/// Bytes of output that one launch may print.
const PRINT_BYTES: u64 = 4 << 20;

impl Executable for Kernel {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        self.run(extents, args, control).map_err(|end| match end {
            End::Fault(fault) => fault,
            End::Device(error) => FaultKind::Device(error).of_launch(self.definition().span),
        })
    }

    fn rests_on_promises(&self) -> bool {
        let declared = self.prepared.declared.as_ref().filter(|_| self.context.settings.text.checked);
        declared.is_some_and(|declared| declared.inside(&self.prepared.module).on_promises)
    }

    fn expect_blocks(&self, block: [u32; 3]) {
        if !self.expect_product() {
            self.variant(&Options { block: Some(block), ..self.options() });
        }
    }
}

/// The GPU memory of a launch's arrays, by parameter.
type Buffers = Vec<Option<Arc<Buffer>>>;

impl Kernel {
    fn run(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, End> {
        let context = &self.context;
        context.look()?;
        self.refuse_what_cannot_fit(args)?;
        let Some(plan) = self.plan(&Facts { args, extents, declared: control.declared })? else {
            return Ok(Output::new());
        };
        match self.performed(&plan, extents, args, control)? {
            Ok(output) => Ok(output),
            // Without packed factors it takes longer.
            Err(_) => match self.plan_without_room(&Facts { args, extents, declared: control.declared })? {
                Some(plan) => self.performed(&plan, extents, args, control)?.map_err(End::Device),
                None => Ok(Output::new()),
            },
        }
    }

    /// Launches as planned; returns the error, with nothing launched, if there is no memory for packed factors.
    fn performed(
        &self,
        plan: &Plan,
        extents: Extents,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<Result<Output, DeviceError>, End> {
        let (context, variant) = (&self.context, &plan.variant);
        let loaded = variant.load(context)?;
        let begin = context.settings.timed.then(Instant::now);
        // Output, and bytes of the caller, have to be on the host when this returns.
        let now = control.wait || variant.prints || args.iter().any(|arg| matches!(arg, Arg::Write { .. }));
        if now {
            // Earlier faults are reported first.
            context.confirm()?;
        }
        let buffers = self.bring(&plan.whole, args)?;
        let mut service = Service::new(context, variant, now)?;
        match [0, 1].map(|factor| Service::packed(context, variant, args, factor)) {
            [Err(full @ DeviceError::OutOfMemory { .. }), _] | [_, Err(full @ DeviceError::OutOfMemory { .. })] => {
                return Ok(Err(full));
            }
            [a, b] => service.packed = [a?, b?],
        }
        let own = variant.kernel.own_extents(extents);
        let mut arguments = Vec::with_capacity(variant.kernel.params.len());
        arguments.extend(variant.kernel.params.iter().map(|p| pass(p, args, &own, &buffers, &service)));
        context.record_pending(self, control);
        let pending = || Pending { kernel: variant.kernel.clone(), launched: control.launched };
        context.issue(Issue {
            launch: Launch { function: loaded.function, shape: plan.shape, arguments },
            fault: variant.reports.filter(|_| !now).map(|at| (at, pending())),
            stop: variant.endless.then_some(&control.stop),
            replay: context.is_isolated().then(|| self.as_record(extents, args, &buffers, control)),
        })?;
        if variant.kernel.options.product.is_some() {
            context.count_product();
        }
        if !now {
            begin.into_iter().for_each(|begin| context.count_begin(begin));
            return Ok(Ok(Output::new()));
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

    /// Records the launch as data, to be run again on another device.
    fn as_record(&self, extents: Extents, args: &[Arg<'_>], buffers: &Buffers, control: &Control) -> Arc<Record> {
        let kept = args.iter().zip(buffers).map(|(arg, buffer)| match (arg, buffer) {
            (Arg::Value(values), _) => Kept::Value(values.clone()),
            (_, None) => Kept::Value(vec![]),
            (array, Some(buffer)) => Kept::Array {
                address: buffer.address(),
                // The memory of an array that was cut is larger.
                bytes: arg_bytes(array),
                shape: array.shape().unwrap_or_default().to_vec(),
                writes: matches!(array, Arg::Write { .. } | Arg::ArrayMut { .. }),
            },
        });
        let (kernel, launched) = (self.prepared.clone(), control.launched);
        Arc::new(Record { kernel, extents, args: kept.collect(), launched })
    }

    /// Rejects arrays that together exceed the GPU's memory, before anything is copied.
    fn refuse_what_cannot_fit(&self, args: &[Arg<'_>]) -> Result<(), DeviceError> {
        let wanted: u64 = args.iter().map(arg_bytes).sum();
        let limit = self.context.properties.memory;
        match wanted > limit {
            true => Err(DeviceError::TooLarge {
                device: self.context.name.clone(),
                wanted: size(wanted),
                limit: size(limit),
                what: "of memory",
            }),
            false => Ok(()),
        }
    }

    /// Ensures that all arrays are in GPU memory. `whole`: by argument, the kernel overwrites all of it.
    fn bring(&self, whole: &[bool], args: &mut [Arg<'_>]) -> Result<Buffers, DeviceError> {
        let context = &self.context;
        let mut buffers: Buffers = Vec::with_capacity(args.len());
        for (param, arg) in args.iter_mut().enumerate() {
            buffers.push(match arg {
                Arg::Value(_) => None,
                Arg::Read { bytes, .. } => Some(Arc::new(Buffer::of_bytes(context, bytes)?)),
                Arg::Write { bytes, .. } => Some(Arc::new(Buffer::of_bytes(context, bytes)?)),
                Arg::Array { storage, .. } => Some(memory::for_reading(storage, context)?),
                Arg::ArrayMut { storage, .. } => Some(memory::for_writing(storage, context, whole[param])?),
            });
        }
        Ok(buffers)
    }

    /// Waits for a launch whose outcome is needed now: its output or its fault.
    fn outcome(&self, variant: &Variant, service: &Service, control: &Control) -> Result<Output, End> {
        let context = &self.context;
        let _waiting = context.begin_wait();
        if let (Some(faults), true) = (&service.faults, variant.endless) {
            let word = Words { first: Address(faults.address().0 + fault::STOP_WORD), pitch: 4, count: 1 };
            context.call(|driver| stoppable(driver, &control.stop, &[word], |driver| driver.is_idle()))?;
        }
        let output = match &service.prints {
            Some(prints) => printed(&variant.kernel, prints)?,
            None => Output::new(),
        };
        let Some(faults) = &service.faults else {
            context.finish()?;
            return Ok(output);
        };
        let mut record = [0; FAULT_BYTES];
        faults.download(&mut record)?;
        match fault::read(&variant.kernel, &record, &output) {
            Some(fault) => Err(End::Fault(fault)),
            None => Ok(output),
        }
    }
}

/// Returns the size of an argument's array; 0 for a value.
fn arg_bytes(arg: &Arg<'_>) -> u64 {
    match arg {
        Arg::Value(_) => 0,
        Arg::Read { bytes, .. } => bytes.len() as u64,
        Arg::Write { bytes, .. } => bytes.len() as u64,
        Arg::Array { storage, .. } => storage.len() as u64,
        Arg::ArrayMut { storage, .. } => storage.len() as u64,
    }
}

/// Returns the output of the kernel's threads.
fn printed(kernel: &CudaKernel, prints: &Buffer) -> Result<Output, DeviceError> {
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

/// Buffers that a text needs besides the arrays.
struct Service {
    /// The launch's own fault record, where the launch is waited for; else it gets one of the context's.
    faults: Option<Buffer>,
    prints: Option<Buffer>,
    barrier: Option<Buffer>,
    /// By factor of a product: memory where it is packed.
    packed: [Option<Buffer>; 2],
}

impl Service {
    fn new(context: &Arc<Context>, variant: &Variant, now: bool) -> Result<Service, DeviceError> {
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
        if variant.endless && now {
            // The means to stop the kernel have to exist before it runs.
            context.call(|driver| driver.flag())?;
        }
        Ok(Service {
            faults: zeroed(variant.reports.is_some() && now, FAULT_BYTES as u64)?,
            prints,
            barrier: zeroed(variant.meets, 4)?,
            packed: [None, None],
        })
    }

    /// Returns memory for a factor of a product, if the text packs it.
    fn packed(
        context: &Arc<Context>,
        variant: &Variant,
        args: &[Arg<'_>],
        wanted: usize,
    ) -> Result<Option<Buffer>, DeviceError> {
        let found = variant.kernel.params.iter().find_map(|argument| match argument {
            KernelArgument::Packed { factor, param, element } if *factor == wanted => Some((*param, element.size())),
            _ => None,
        });
        let Some((param, size)) = found else { return Ok(None) };
        let &[rows, columns] = args.get(param).and_then(Arg::shape).unwrap_or_default() else { return Ok(None) };
        let row = (u64::from(columns) * size as u64).next_multiple_of(BOX_ALIGN);
        Buffer::new(context, u64::from(rows) * row).map(Some)
    }
}

/// Returns one argument of the CUDA function.
fn pass(
    argument: &KernelArgument,
    args: &[Arg<'_>],
    extents: &Extents,
    buffers: &Buffers,
    service: &Service,
) -> Argument {
    let address = |buffer: Option<&Buffer>| Argument::Address(buffer.map_or(Address::default(), Buffer::address));
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
            Extents::Threads(sizes) => sizes.get(index).copied().unwrap_or(1),
            Extents::Grid { .. } => 1,
        }),
        KernelArgument::Map { param, element, of_box, .. } => {
            let buffer = buffers.get(param).and_then(|buffer| buffer.as_deref());
            let shape = args.get(param).and_then(Arg::shape).unwrap_or_default();
            let mut extents = [1; MOST_AXES];
            extents.iter_mut().zip(shape.iter().rev()).for_each(|(own, &extent)| *own = extent);
            Argument::Map(Map {
                address: buffer.map_or(Address::default(), Buffer::address),
                element: match element {
                    Scalar::F32 => MapElement::Tf32,
                    Scalar::Bf16 => MapElement::Bf16,
                    _ => MapElement::F16,
                },
                axes: shape.len() as u32,
                extents,
                of_box,
            })
        }
        KernelArgument::Packed { factor, .. } => address(service.packed.get(factor).and_then(Option::as_ref)),
        KernelArgument::Faults => address(service.faults.as_ref()),
        KernelArgument::Prints => address(service.prints.as_ref()),
        KernelArgument::GridBarrier => address(service.barrier.as_ref()),
    }
}

fn number(value: u32) -> Argument {
    Argument::Value { bytes: [value.into(), 0, 0, 0], len: 4 }
}

/// Packs the lanes of a value side by side.
fn lanes(ty: Ty, lanes: &[Value]) -> Argument {
    let mut bytes = [0u8; 32];
    let size = ty.scalar().size();
    for (place, lane) in bytes.chunks_exact_mut(size).zip(lanes) {
        place.copy_from_slice(&lane.to_bytes()[..size]);
    }
    Argument::Value { bytes: bytemuck::cast(bytes), len: (size * usize::from(ty.lanes())) as u8 }
}
