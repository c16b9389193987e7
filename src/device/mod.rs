//! Layer 3: devices that run DeviceIR. A device takes a prepared kernel and a launch, and returns results or a fault.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use crate::base::aligned::Guard;
use crate::base::source::{Sources, Span};
use crate::ir::{Checks, Prepared};
use crate::lang::scalar::Value;

pub mod both;
#[cfg(not(target_family = "wasm"))]
pub mod cuda;
mod diagnose;
pub mod exchange;
mod extents;
mod fault;
pub mod lent;
pub mod ordered;
pub mod profile;
pub mod sim;
pub mod stall;
pub mod step;
pub mod storage;

pub use diagnose::{device_diagnostic, fault_diagnostic, fault_text, who_text};
pub use extents::Extents;
pub use fault::{Among, Crowd, Deed, LockStep, Loss, Race, Verdict, Who, size};
pub use fault::{DeviceError, Earlier, Fault, FaultKind, Output};
use lent::Lent;
use storage::{Remote, Storage};

/// One argument of a launch, in the order of `ir::def::Kernel::params`.
pub enum Arg<'a> {
    /// A scalar, or the lanes of a vector.
    Value(Vec<Value>),
    /// The elements of an array that is only read.
    Read { bytes: &'a [u8], shape: Vec<u32> },
    /// The elements of an `out` or `inout` array. Bytes are aligned to at least 16.
    Write { bytes: &'a mut [u8], shape: Vec<u32> },
    /// An array that is only read, in any memory.
    Array { storage: &'a Storage, shape: Vec<u32> },
    /// An `out` or `inout` array, in any memory.
    ArrayMut { storage: &'a mut Storage, shape: Vec<u32> },
}

impl Arg<'_> {
    /// Returns the shape of an array argument.
    pub fn shape(&self) -> Option<&[u32]> {
        match self {
            Arg::Value(_) => None,
            Arg::Read { shape, .. } | Arg::Write { shape, .. } => Some(shape),
            Arg::Array { shape, .. } | Arg::ArrayMut { shape, .. } => Some(shape),
        }
    }
}

/// Controls a launch from outside: limits, checks and options.
#[derive(Clone, Default)]
pub struct Control {
    /// Set by Ctrl-C: the launch stops soon after with [`FaultKind::Interrupted`].
    pub stop: Arc<AtomicBool>,
    /// Loop iterations that a lane group may run in total before [`FaultKind::StepLimit`]; 0 is no limit. Loops over tiles that are
    /// done at once have none.
    pub max_steps: u64,
    /// Worker threads; 0 uses the machine's parallelism.
    pub workers: usize,
    /// The checks that runs perform. A kernel is prepared for its checks: it is loaded anew if they change.
    pub checks: Checks,
    /// Atomic sums of floats, and all else that depends on the order of blocks, are computed as if blocks ran one after the
    /// other.
    pub deterministic: bool,
    /// Whatever may happen in any order happens in reverse order; for devices with a usual order.
    pub backward: bool,
    /// With `backward`: the order in which blocks start.
    pub blocks: BlockOrder,
    /// The statement that launches, for faults that are noticed later.
    pub launched: Span,
    /// Whether other launches of the kernel may have a larger grid or larger blocks; set if the run shall report hazards that
    /// this launch cannot show.
    pub larger: Option<Larger>,
    /// What is known of the launch, if it is one that the kernel's signature describes.
    pub declared: Option<Declared>,
    /// The launch returns when it is over, with its own fault.
    pub wait: bool,
    /// Findings of checks that did not stop the launch, for the host to take.
    pub warnings: Arc<Mutex<Vec<Fault>>>,
    /// Whether races of equal writes (W0601) are kept if a fault ends the launch. They refute that a kernel is free of races, but do not
    /// show that its result is independent of the order.
    pub keep_races: bool,
    /// The worst warp of each access, as far as the kernel was prepared to count what warps cost, for the host to take.
    pub crowds: Arc<Mutex<Vec<Fault>>>,
    /// Set if the simulator is to count what launches cost; kernels have to be prepared for it.
    pub counting: Option<profile::Counting>,
    /// Launches so far, for statistics.
    pub launches: Arc<AtomicU64>,
    /// Progress of the current launch, for display.
    pub progress: Arc<Progress>,
}

/// The order in which the blocks of a backward launch start. They share a worker, so that the order decides the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// The last block first.
    #[default]
    Reversed,
    /// The first block first.
    InOrder,
    /// Reversed, but beginning with this many blocks from the start of the grid; only if all blocks are alive at once.
    Rotated(u64),
}

/// A launch whose arrays and geometry are as the kernel's signature says, and that meets the conditions which the kernel assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The largest dimension, or number of elements of an array.
    pub largest: u64,
    /// The arrays keep what is promised of their elements.
    pub promises: bool,
}

/// The dimensions that differ between launches of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Larger {
    pub grid: bool,
    pub block: bool,
}

/// Number of groups of a launch that have started, and of all. A device that does not track them leaves both at 0.
#[derive(Debug, Default)]
pub struct Progress {
    pub begun: AtomicU64,
    pub of: AtomicU64,
    pub stalls: Arc<stall::Stalls>,
}

/// A device that runs kernels: the simulator, a GPU.
pub trait Device: Send + Sync {
    /// Returns its name for `--device`: `sim`, `gpu:0`.
    fn name(&self) -> String;

    /// Returns what kind of device it is, for what is remembered of it across runs: `sim`, `NVIDIA H200`.
    fn model(&self) -> String {
        self.name()
    }

    /// Compiles a kernel for the device. Called once per kernel. May return before the work is done; an error is then reported by
    /// the first launch.
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable>;

    /// As [`Device::load`], with the sources of the kernel's spans, for devices that produce line information.
    fn load_named(&self, kernel: Arc<Prepared>, _sources: &Sources) -> Arc<dyn Executable> {
        self.load(kernel)
    }

    /// Returns whether kernels run on separate device memory, to and from which arrays are copied.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the bytes of the device's own memory, if arrays are copied there.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Returns room in the device's memory for so many bytes, to be copied there beside the kernels that run; `None` if the device does
    /// not do that. With `spare`, no other array has to make room: then that is an error.
    fn expect(&self, _bytes: usize, _spare: bool) -> Result<Option<Box<dyn Coming>>, DeviceError> {
        Ok(None)
    }

    /// Copies an array to the device's memory, as a launch that reads it would.
    fn have(&self, _storage: &Storage) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns memory that somebody lends as that of an array, or a copy of it: kernels then use it in place. See [`lent`].
    ///
    /// # Safety
    /// The bytes are in the memory of that GPU, at an address that is a multiple of 16 unless they are `copied`, until the keeper is
    /// dropped; the stream is alive. Nobody else uses them, or writes them if the array is only read, until [`Device::finish`] has
    /// returned after their last use, or on that stream [`Device::pass_on`].
    unsafe fn lend(&self, lent: &Lent, _copied: bool) -> Result<Arc<dyn Remote>, DeviceError> {
        Err(DeviceError::Unavailable { device: self.name(), why: format!("it has not the memory of gpu:{}", lent.gpu) })
    }

    /// Has lent memory hold the bytes of an array, as many, once the device has done what it has to do: nothing happens where they are
    /// there already.
    ///
    /// # Safety
    /// As of [`Device::lend`], and the memory may be written.
    unsafe fn give_back(&self, lent: &Lent, _storage: &Storage) -> Result<(), DeviceError> {
        Err(DeviceError::Unavailable { device: self.name(), why: format!("it has not the memory of gpu:{}", lent.gpu) })
    }

    /// Gives an array memory on the device that is its own, with the same bytes: neither lent nor shared. Returns that memory, which stays
    /// where it is as long as the caller keeps it.
    fn own(&self, _storage: &mut Storage) -> Result<Arc<dyn Remote>, DeviceError> {
        Err(DeviceError::Unavailable { device: self.name(), why: "it has no memory to give away".into() })
    }

    /// Locks pages of the host's memory, so that copies need not go by way of other memory; `None` if that cannot be, or takes more than
    /// this machine should spare.
    ///
    /// # Safety
    /// The bytes stay where they are until the guard is dropped.
    unsafe fn lock(&self, _bytes: &[u8]) -> Option<Guard> {
        None
    }

    /// Returns the bytes of shared memory that a block can have, if kernels are chosen by them.
    fn block_memory(&self) -> Option<u32> {
        None
    }

    /// Returns whether its runs can perform [`Checks`].
    fn is_watchful(&self) -> bool {
        false
    }

    /// Returns whether kernels with a name are compiled so that all variables of the source can be looked at
    /// ([`Prepared::named`](crate::ir::Prepared)).
    fn shows_names(&self) -> bool {
        false
    }

    /// Returns the processor's instruction set, where the host may compute in place of kernels what they would compute there.
    fn instructions(&self) -> Option<sim::Isa> {
        None
    }

    /// Returns what exchanges its arrays with the devices of other processes; why, if there is nothing.
    fn exchange(&self) -> Result<Box<dyn exchange::Exchange>, String> {
        Err(format!("{} exchanges nothing with other processes", self.name()))
    }

    /// Waits for all pending operations.
    fn finish(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Has what is done on these streams of others from now on come behind all pending operations. Waits for those where they may report
    /// something, as [`Device::finish`] does.
    fn pass_on(&self, _streams: &[usize]) -> Result<(), DeviceError> {
        self.finish()
    }

    /// Waits for launches that may still report a fault, and reports the first one's ([`DeviceError::Earlier`]); for devices with
    /// asynchronous launches.
    fn confirm(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Begins a batch: launches may be held back until the batch ends, or until something has to wait.
    fn begin_batch(&self) {}

    /// Ends the batch of [`Device::begin_batch`]; batches may be nested.
    fn end_batch(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Records a time stamp on the device's own clock, behind all pending operations; `None` for synchronous devices, where the
    /// host's clock suffices.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// Returns the bytes of arrays so far that were moved to the host as the device's memory was full.
    fn spilled(&self) -> u64 {
        0
    }

    /// Returns statistics of the device so far.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

/// Bytes that are to come to a device's memory, beside what else it does.
pub trait Coming: Send {
    /// Copies these bytes, as many as there is room for, from any thread; returns when they are needed no longer. Who uses what
    /// this returns waits for the rest of the copy.
    fn copy(self: Box<Self>, bytes: &[u8]) -> Result<Arc<dyn Remote>, DeviceError>;
}

/// A time stamp on a device's clock.
pub trait Moment {
    /// Returns the seconds from an earlier time stamp of the same device to this one; waits until it is reached.
    fn since(&self, earlier: &dyn Moment) -> Option<f64>;

    /// For downcasts by the device.
    fn as_any(&self) -> &dyn std::any::Any;
}

pub type Mark = Box<dyn Moment>;

/// Statistics of a device: counts, bytes and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    pub launches: u64,
    /// Launches of products of matrices that tensor cores computed in tiles of their own.
    pub on_tensor_cores: u64,
    /// Copies to the device, and their bytes.
    pub uploads: u64,
    pub uploaded: u64,
    /// The bytes of them that were copied beside kernels, without a launch that waited for the copy to begin.
    pub uploaded_beside: u64,
    /// Copies from the device, and their bytes.
    pub downloads: u64,
    pub downloaded: u64,
    /// Compiled kernels, and the seconds that took.
    pub compiled: u64,
    pub compile_seconds: f64,
    /// Kernels found in the cache, and the seconds that took.
    pub cached: u64,
    pub cached_seconds: f64,
    /// Seconds spent to load machine code into the driver.
    pub load_seconds: f64,
    /// Seconds that the host spent to issue launches, where they were timed; without those that waited for a compiler.
    pub begin_seconds: f64,
    /// Accesses and divisions in the kernels' texts, and those that were not proved safe and are guarded.
    pub checkable: u64,
    pub guarded: u64,
    /// Seconds that kernels ran, where they were timed.
    pub kernel_seconds: f64,
    /// Bytes of device memory that arrays take, now and at the peak.
    pub held: u64,
    pub held_most: u64,
    /// What became of the parts of kernels that may have machine code of the host; of the simulator.
    pub machine_code: Option<MachineCode>,
}

/// Machine code that a simulator has made of parts of kernels, their regions, instead of interpreting them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineCode {
    /// Regions of the loaded kernels, and how many of them were compiled.
    pub regions: u64,
    pub compiled: u64,
    /// Bytes of machine code, and the seconds that compiling took.
    pub bytes: u64,
    pub seconds: f64,
    /// How often groups entered it, and left it for the interpreter.
    pub entered: u64,
    pub left: u64,
}

/// A device that a script selects by `on … { }`, or a user by `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The simulator; with a number, one of the virtual devices of `--device sim:N`.
    Sim(Option<u32>),
    /// `gpu` without a number is the first one.
    Gpu(Option<u32>),
}

/// Access to the available devices. Each call for the same one returns the same device.
pub trait Devices: Send + Sync {
    fn open(&self, wanted: Wanted) -> Result<Arc<dyn Device>, DeviceError>;
}

/// A kernel compiled for a device.
pub trait Executable: Send + Sync {
    /// Runs the kernel. The arguments match the kernel's parameters (the host has checked types, ranks and dimensions). Returns
    /// the kernel's output. It may return before the kernel is over, unless the kernel prints, an argument is [`Arg::Write`] or
    /// [`Control::wait`] is set; a fault is then reported by a later launch, copy or [`Device::confirm`].
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>>;

    /// Returns whether launches rest on what the kernel's signature promises of arrays, so that this should be tested before each
    /// ([`Declared::promises`]); else they do more tests themselves.
    fn rests_on_promises(&self) -> bool {
        false
    }

    /// Announces launches with blocks of this shape, so that a device can prepare while the script continues.
    fn expect_blocks(&self, _block: [u32; 3]) {}
}
