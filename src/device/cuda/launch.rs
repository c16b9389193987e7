//! One launch: arrays to the GPU, the text that fits, the geometry, the call, and what came of it.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::context::Context;
use super::driver::{Address, Argument, Shape, Words};
use super::fault;
use super::kernel::{Kernel, Loaded, Variant};
use super::memory::{self, Buffer};
use super::text::abi::{CudaKernel, FAULT_BYTES, KernelArgument, LaunchFacts, Options, PlaceKind};
use super::text::is_narrow;
use super::whole;
use crate::base::source::Span;
use crate::device::error::size;
use crate::device::{Arg, Control, DeviceError, Executable, Extents, Fault, FaultKind, Output};
use crate::ir::def::{Form, Ty};
use crate::lang::scalar::Value;

/// Bytes that kernels of one launch may print.
const PRINT_BYTES: u64 = 4 << 20;

impl Executable for Kernel {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        control.launches.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.run(extents, args, control).map_err(|end| match end {
            End::Fault(fault) => fault,
            End::Device(error) => FaultKind::Device(error).of_launch(self.definition().span),
        })
    }

    fn expect_blocks(&self, block: [u32; 3]) {
        self.variant(&Options { block: Some(block), ..self.options() });
    }
}

/// Why a launch ended early.
enum End {
    Fault(Box<Fault>),
    Device(DeviceError),
}

impl From<DeviceError> for End {
    fn from(error: DeviceError) -> End {
        End::Device(error)
    }
}

/// What texts ask about a launch.
struct Facts<'a, 'b> {
    args: &'a [Arg<'b>],
    extents: Extents,
}

impl LaunchFacts for Facts<'_, '_> {
    fn value(&self, param: usize) -> Option<Value> {
        match self.args.get(param)? {
            Arg::Value(values) => values.first().copied(),
            _ => None,
        }
    }

    fn extent(&self, param: usize, axis: usize) -> Option<u32> {
        self.args.get(param)?.shape()?.get(axis).copied()
    }

    fn rank(&self, param: usize) -> Option<usize> {
        self.args.get(param)?.shape().map(<[u32]>::len)
    }

    fn extents(&self) -> Extents {
        self.extents
    }
}

/// The memory that a launch works on, by parameter.
type Buffers = Vec<Option<Arc<Buffer>>>;

impl Kernel {
    fn run(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, End> {
        let context = &self.context;
        self.refuse_what_cannot_fit(args)?;
        let (variant, grid, shared) = {
            let facts = Facts { args, extents };
            let variant = self.fitting(&facts);
            let Some(grid) = variant.kernel.grid(extents) else { return Ok(Output::new()) };
            let shared = variant.kernel.shared_bytes(&self.prepared.module, &facts);
            (variant, grid, shared.map_err(|fault| self.shared_fault(fault.bytes, fault.span))?)
        };
        let loaded = variant.load(context)?;
        self.allow_shared(loaded, shared)?;
        let cooperative = variant.kernel.cooperative;
        let shape = Shape { grid: grid.grid, block: grid.block, shared, cooperative };
        self.check_grid(loaded, &shape)?;
        let buffers = self.bring(extents, args)?;
        let service = Service::new(context, &variant.kernel)?;
        let pass = |argument| pass(argument, args, &extents, &buffers, &service);
        let arguments: Vec<Argument> = variant.kernel.params.iter().map(pass).collect();
        context.count_launch();
        // SAFETY: the text says which parameters the kernel has, and `pass` made one value of the right size for each; the
        // buffers live until after the call, and memory is given back in the stream's order.
        context.timed(|driver| unsafe { driver.launch(loaded.function, &shape, &arguments) })?;
        let outcome = self.outcome(&variant, &service, &extents, control);
        for (arg, buffer) in args.iter_mut().zip(&buffers) {
            if let (Arg::Write { bytes, .. }, Some(buffer)) = (arg, buffer) {
                buffer.download(bytes)?;
            }
        }
        outcome
    }

    /// Arrays that are together larger than the GPU's memory: nothing is copied for a launch that cannot be.
    fn refuse_what_cannot_fit(&self, args: &[Arg<'_>]) -> Result<(), DeviceError> {
        let bytes = |arg: &Arg<'_>| match arg {
            Arg::Value(_) => 0,
            Arg::Read { bytes, .. } => bytes.len() as u64,
            Arg::Write { bytes, .. } => bytes.len() as u64,
            Arg::Array { storage, .. } => storage.len() as u64,
            Arg::ArrayMut { storage, .. } => storage.len() as u64,
        };
        let wanted: u64 = args.iter().map(bytes).sum();
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

    /// The text for this launch: with offsets as wide as it needs, and guards for what it does not keep to.
    fn fitting(&self, facts: &Facts<'_, '_>) -> Arc<Variant> {
        let mut options = self.options();
        if let (Form::Grid, Extents::Grid { block, .. }) = (self.definition().form, facts.extents) {
            options.block = Some(block);
        }
        let mut variant = self.variant(&options);
        if !is_narrow(&self.prepared.module, facts) {
            options.wide = true;
            variant = self.variant(&options);
        }
        if !variant.kernel.assumptions_hold(facts) {
            options.assume = false;
            variant = self.variant(&options);
        }
        variant
    }

    /// More shared memory than a block can have, which is the simulator's fault too.
    fn shared_fault(&self, bytes: u64, span: Span) -> End {
        let limit = u64::from(self.context.properties.shared_per_block);
        End::Fault(FaultKind::SharedSize { bytes, limit }.of_launch(span))
    }

    /// Lets the function have so much dynamic shared memory.
    fn allow_shared(&self, loaded: &Loaded, wanted: u32) -> Result<(), End> {
        let (limit, bytes) = (self.context.properties.shared_per_block, wanted.saturating_add(loaded.static_shared));
        if bytes > limit {
            return Err(self.shared_fault(bytes.into(), self.definition().span));
        }
        let mut allowed = loaded.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > *allowed {
            self.context.call(|driver| driver.allow_shared(loaded.function, wanted))?;
            *allowed = wanted;
        }
        Ok(())
    }

    fn check_grid(&self, loaded: &Loaded, shape: &Shape) -> Result<(), DeviceError> {
        let too_large = |what, wanted: u64, limit: u64| {
            let (wanted, limit) = (wanted.to_string(), limit.to_string());
            DeviceError::TooLarge { device: self.context.name.clone(), what, wanted, limit }
        };
        let limits = self.context.properties.grid;
        for ((wanted, limit), what) in
            shape.grid.into_iter().zip(limits).zip(["blocks along x", "blocks along y", "blocks along z"])
        {
            if wanted > limit {
                return Err(too_large(what, wanted.into(), limit.into()));
            }
        }
        if shape.cooperative {
            let threads = shape.block.iter().product();
            let limit = self.context.call(|d| d.resident_blocks(loaded.function, threads, shape.shared))?;
            let wanted = shape.grid.iter().map(|&n| u64::from(n)).product();
            if wanted > u64::from(limit) {
                return Err(too_large("blocks that run at the same time", wanted, limit.into()));
            }
        }
        Ok(())
    }

    /// All arrays in the GPU's memory.
    fn bring(&self, extents: Extents, args: &mut [Arg<'_>]) -> Result<Buffers, DeviceError> {
        let context = &self.context;
        let mut buffers: Buffers = Vec::with_capacity(args.len());
        for (param, arg) in args.iter_mut().enumerate() {
            buffers.push(match arg {
                Arg::Value(_) => None,
                Arg::Read { bytes, .. } => Some(Arc::new(Buffer::of_bytes(context, bytes)?)),
                Arg::Write { bytes, .. } => Some(Arc::new(Buffer::of_bytes(context, bytes)?)),
                Arg::Array { storage, .. } => Some(memory::for_reading(storage, context)?),
                Arg::ArrayMut { storage, shape } => {
                    let own = self.own_elements.get(param).copied().unwrap_or(false);
                    let whole = own && whole::covers(shape, &extents);
                    Some(memory::for_writing(storage, context, whole)?)
                }
            });
        }
        Ok(buffers)
    }

    /// Waits if the kernel may report a fault or prints; other launches go on while the script does.
    fn outcome(
        &self,
        variant: &Variant,
        service: &Service,
        extents: &Extents,
        control: &Control,
    ) -> Result<Output, End> {
        let kernel = &variant.kernel;
        if service.faults.is_none() && service.prints.is_none() {
            return Ok(Output::new());
        }
        if let Some(faults) = &service.faults
            && kernel.places.iter().any(|place| place.kind == PlaceKind::Stopped)
        {
            self.wait(faults.address(), control)?;
        }
        let output = match &service.prints {
            Some(prints) => printed(kernel, prints)?,
            None => Output::new(),
        };
        let Some(faults) = &service.faults else { return Ok(output) };
        let mut buffer = [0; FAULT_BYTES];
        faults.download(&mut buffer)?;
        let rank = match self.definition().form {
            Form::Threads { rank } => rank.into(),
            Form::Grid => 0,
        };
        match fault::read(kernel, &buffer, extents, rank, &output) {
            Some(fault) => Err(End::Fault(fault)),
            None => Ok(output),
        }
    }

    /// Waits for the stream, and asks the kernel to stop when the user does.
    fn wait(&self, faults: Address, control: &Control) -> Result<(), DeviceError> {
        let begin = Instant::now();
        let mut asked = false;
        while !self.context.call(|driver| driver.is_idle())? {
            if !asked && control.stop.load(std::sync::atomic::Ordering::Relaxed) {
                asked = true;
                let word = Words { first: Address(faults.0 + fault::STOP_WORD), pitch: 4, count: 1 };
                self.context.call(|driver| driver.poke(word, 1))?;
            }
            // Short kernels are waited for busily, long ones are not worth a core.
            match begin.elapsed() > Duration::from_millis(2) {
                true => std::thread::sleep(Duration::from_micros(100)),
                false => std::hint::spin_loop(),
            }
        }
        Ok(())
    }
}

/// What the kernel's threads printed.
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

/// Memory beside the arrays that a text asks for.
struct Service {
    faults: Option<Buffer>,
    prints: Option<Buffer>,
    barrier: Option<Buffer>,
}

impl Service {
    fn new(context: &Arc<Context>, kernel: &CudaKernel) -> Result<Service, DeviceError> {
        let wants = |argument: KernelArgument| kernel.params.contains(&argument);
        let zeroed = |wanted: bool, bytes| wanted.then(|| Buffer::zeroed(context, bytes)).transpose();
        let prints = match wants(KernelArgument::Prints) {
            false => None,
            true => {
                let prints = Buffer::zeroed(context, PRINT_BYTES)?;
                let header = [0, (PRINT_BYTES as u32 - 8) / 4];
                context.upload(prints.address(), bytemuck::cast_slice(&header))?;
                Some(prints)
            }
        };
        Ok(Service {
            faults: zeroed(wants(KernelArgument::Faults), FAULT_BYTES as u64)?,
            prints,
            barrier: zeroed(wants(KernelArgument::GridBarrier), 4)?,
        })
    }
}

/// One argument of the CUDA function.
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
        KernelArgument::Faults => address(service.faults.as_ref()),
        KernelArgument::Prints => address(service.prints.as_ref()),
        KernelArgument::GridBarrier => address(service.barrier.as_ref()),
    }
}

fn number(value: u32) -> Argument {
    Argument::Value { bytes: [value.into(), 0, 0, 0], len: 4 }
}

/// Lanes side by side in their own size.
fn lanes(ty: Ty, lanes: &[Value]) -> Argument {
    let mut bytes = [0u8; 32];
    let size = ty.scalar().size();
    for (place, lane) in bytes.chunks_exact_mut(size).zip(lanes) {
        place.copy_from_slice(&lane.to_bytes()[..size]);
    }
    Argument::Value { bytes: bytemuck::cast(bytes), len: (size * usize::from(ty.lanes())) as u8 }
}
