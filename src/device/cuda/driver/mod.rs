//! The interface to a GPU driver: memory, copies, modules and launches, all ordered by one stream.
//!
//! The real driver is [`nvidia`]; tests have one whose memory is the host's.

pub mod nvidia;
pub(crate) mod pieces;

use std::borrow::Cow;

use super::text::abi::{MOST_AXES, OfBox};

/// An address in GPU memory; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module(pub usize);

/// An entry point of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub usize);

/// A recorded position in the stream, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub usize);

/// A sequence of launches that is started as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph(pub usize);

/// Properties of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// The driver's name of the GPU.
    pub name: String,
    /// The ordinal: the number in `gpu:N`.
    pub ordinal: u32,
    /// The compute capability: 90 for `sm_90`.
    pub architecture: u32,
    /// Bytes of memory.
    pub memory: u64,
    pub multiprocessors: u32,
    /// Bytes of shared memory that a block may opt in to.
    pub shared_per_block: u32,
    /// The maximum number of blocks of a grid by axis.
    pub grid: [u32; 3],
    /// The driver's CUDA version: 13000 for 13.0.
    pub driver: u32,
}

/// The geometry of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// A cooperative launch: all blocks are resident at once and may wait for each other.
    pub cooperative: bool,
}

/// One argument of a launch, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The first `len` of these bytes: a number, or the lanes of a vector side by side.
    Value { bytes: [u64; 4], len: u8 },
    /// An address in GPU memory, or 0 for none.
    Address(Address),
    /// 128 bytes that describe an array for copies of boxes.
    Map(Map),
}

/// What the elements of an array are that copies in hardware read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapElement {
    F16,
    Bf16,
    /// `f32`, which the copy rounds to tf32: to nearest, halves to even.
    Tf32,
}

impl MapElement {
    pub const ALL: [MapElement; 3] = [MapElement::F16, MapElement::Bf16, MapElement::Tf32];

    /// Returns its size in bytes.
    pub fn size(self) -> u64 {
        if self == MapElement::Tf32 { 4 } else { 2 }
    }
}

/// An array of up to five axes, without gaps, of which copies in hardware take boxes to shared memory: rows of 128
/// bytes, of which the 16-byte pieces are at their number XOR the row's number modulo 8. What is outside of the array is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// A multiple of 16.
    pub address: Address,
    pub element: MapElement,
    /// The number of axes, from 2 on, and the extents along them, the last axis first: more than 0, that one a multiple of 16 bytes.
    pub axes: u32,
    pub extents: [u32; MOST_AXES],
    /// What a box has of them: at most 256 with those that its steps leave out, and steps up to 8.
    pub of_box: OfBox,
}

/// One launch, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub function: Function,
    pub shape: Shape,
    /// By position in the function's signature.
    pub arguments: Vec<Argument>,
}

/// 32-bit words in GPU memory, `pitch` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    pub first: Address,
    pub pitch: u64,
    pub count: u64,
}

/// A failed driver call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The name of the driver's function.
    pub call: Cow<'static, str>,
    /// Its `CUresult`.
    pub code: u32,
    /// The result's name: `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

impl Refusal {
    /// `CUDA_ERROR_OUT_OF_MEMORY`, which leaves the context usable.
    pub const OUT_OF_MEMORY: u32 = 2;

    pub fn is_out_of_memory(&self) -> bool {
        self.code == Self::OUT_OF_MEMORY
    }

    /// Returns whether the error is sticky, that is, every further GPU call of this process fails: after an illegal or misaligned
    /// address, a failed assertion, a trap and the like.
    pub fn is_lost(&self) -> bool {
        (700..=720).contains(&self.code) && ![701, 704, 705].contains(&self.code) || self.code == 999
    }
}

/// The consequences of a sticky error where kernels run in a separate process.
#[derive(Clone, Debug, PartialEq)]
pub struct Casualty {
    /// The launch that was running, if any, by its number from 1 on.
    pub launch: Option<u64>,
    /// Launches queued behind it, which did not start.
    pub waiting: usize,
    /// The user asked to stop it.
    pub stopped: bool,
    /// Seconds until a new process had replaced the lost one; `None` if that failed.
    pub replaced: Option<f64>,
    /// Why it failed.
    pub problem: Option<String>,
}

pub type Answer<T = ()> = Result<T, Refusal>;

/// Memory of another GPU.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The GPU's number.
    pub ordinal: u32,
    pub address: Address,
}

/// One GPU. Operations execute in the order of the calls, but most calls return before their operation is done.
pub trait Driver: Send + Sync {
    fn properties(&self) -> &Properties;

    /// Makes the GPU's context current on this thread and returns the stream, if both are of this process.
    fn stream(&self) -> Option<usize> {
        None
    }

    /// Allocates this many bytes (more than 0), uninitialized.
    fn allocate(&self, bytes: u64) -> Answer<Address>;

    /// Frees memory once all earlier operations are done.
    fn free(&self, address: Address);

    fn zero(&self, address: Address, bytes: u64) -> Answer;

    /// Copies to the GPU. The caller may change the bytes as soon as the call returns.
    fn upload(&self, to: Address, bytes: &[u8]) -> Answer;

    /// Returns whether there is [`Driver::upload_beside`].
    fn has_beside(&self) -> bool {
        false
    }

    /// Copies to the GPU once a recorded event is reached, beside all other operations, from any thread. Those that use the bytes come
    /// behind a [`Driver::wait`] of the event that this returns.
    fn upload_beside(&self, to: Address, bytes: &[u8], _after: Event) -> Answer<Event> {
        self.upload(to, bytes)?;
        let done = self.event()?;
        self.record(done).map(|()| done)
    }

    /// Locks pages of the host's memory, which copies from and to them need not go around.
    ///
    /// # Safety
    /// The bytes stay where they are until [`Driver::unlock`].
    unsafe fn lock(&self, _bytes: &[u8]) -> Answer {
        Err(Refusal { call: "cuMemHostRegister".into(), code: 801, name: "CUDA_ERROR_NOT_SUPPORTED".into() })
    }

    /// Unlocks the pages from this address on that were locked by one call.
    fn unlock(&self, _start: usize) {}

    /// Copies from the GPU after all earlier operations; returns when the copy is done.
    fn download(&self, from: Address, bytes: &mut [u8]) -> Answer;

    /// Copies within GPU memory.
    fn copy(&self, to: Address, from: Address, bytes: u64) -> Answer;

    /// Copies from the memory of another GPU, beside what this one has to do: behind these events, and records another one when the copy
    /// is done. Both GPUs have to wait for that ([`Driver::wait`]) before the memory is used in another way.
    fn copy_from_peer(&self, to: Address, from: Peer, bytes: u64, after: [Event; 2], done: Event) -> Answer;

    /// Loads machine code (a cubin).
    fn load(&self, cubin: &[u8]) -> Answer<Module>;

    fn unload(&self, module: Module);

    /// Looks up an entry point of a module.
    fn function(&self, module: Module, name: &str) -> Answer<Function>;

    /// Allows a function more dynamic shared memory than the default of 48 KiB.
    fn allow_shared(&self, function: Function, bytes: u32) -> Answer;

    /// Returns the bytes of static shared memory of a function.
    fn static_shared(&self, function: Function) -> u32;

    /// Returns how many blocks can be resident at once on the whole GPU: the limit of cooperative launches.
    fn resident_blocks(&self, function: Function, threads: u32, shared: u32) -> Answer<u32>;

    /// Starts a kernel.
    ///
    /// # Safety
    /// The arguments match the kernel's parameters in number and size; addresses among them belong to memory that is not freed
    /// before this call returns.
    unsafe fn launch(&self, function: Function, shape: &Shape, arguments: &[Argument]) -> Answer;

    /// Creates a graph of launches, each of which starts when the one before has finished; none of them is cooperative.
    ///
    /// # Safety
    /// As [`Driver::launch`], for as long as the graph is run.
    unsafe fn graph(&self, launches: &[Launch]) -> Answer<Graph>;

    /// Starts a graph after replacing the launches at these positions by others of the same functions. Runs that were started
    /// before are not affected.
    ///
    /// # Safety
    /// As [`Driver::graph`].
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &Launch)]) -> Answer;

    /// Destroys a graph. Runs that were started finish normally.
    fn forget_graph(&self, graph: Graph);

    /// Returns the device address of a word in host memory that kernels can write. It is 0 until a kernel writes it.
    fn flag(&self) -> Answer<Address>;

    /// Returns whether a kernel wrote the flag: reliable once a wait is over, usually seen earlier. Costs nothing.
    fn is_flag_up(&self) -> bool;

    /// Resets the flag to 0.
    fn lower_flag(&self);

    /// Waits for all pending operations; an error if one of them failed.
    fn synchronize(&self) -> Answer;

    /// Returns whether no operations are pending.
    fn is_idle(&self) -> Answer<bool>;

    /// Returns whether all operations before a recorded event are done.
    fn is_reached(&self, event: Event) -> Answer<bool>;

    /// Writes a value to words immediately, concurrently with running kernels; requires that [`Driver::flag`] was called before
    /// they started.
    fn poke(&self, words: Words, value: u32) -> Answer;

    /// Returns free and total bytes of memory.
    fn memory(&self) -> Answer<(u64, u64)>;

    /// Returns unused memory of the pool to the system. Waits for pending operations.
    fn trim(&self) -> Answer;

    fn event(&self) -> Answer<Event>;

    fn record(&self, event: Event) -> Answer;

    /// Has all later operations wait for what another stream of this process has to do, which CUDA knows by this handle.
    fn come_behind(&self, _stream: usize) -> Answer {
        Err(Refusal { call: "cuStreamWaitEvent".into(), code: 801, name: "CUDA_ERROR_NOT_SUPPORTED".into() })
    }

    /// Has all later operations of other streams of this process wait for what this one has to do.
    fn go_before(&self, _streams: &[usize]) -> Answer {
        self.synchronize()
    }

    /// Waits for all operations of all streams of this process, also of those that others have made.
    fn quiet(&self) -> Answer {
        self.synchronize()
    }

    /// Has all later operations wait for an event that was recorded, on this GPU or another one of this process.
    fn wait(&self, _event: Event) -> Answer {
        Ok(())
    }

    /// Returns the milliseconds between two recorded events; waits for the second.
    fn elapsed(&self, from: Event, to: Event) -> Answer<f64>;

    fn forget_event(&self, event: Event);

    /// Returns an address in the form that kernels can dereference; needed for addresses stored in memory, whereas arguments of
    /// launches are translated.
    fn resolve(&self, address: Address) -> Answer<u64> {
        Ok(address.0)
    }

    /// Declares that memory holds resolved addresses at these locations (location, address), which have to stay valid until the
    /// memory is freed.
    fn hold(&self, _addresses: &[(Address, Address)]) {}

    /// Returns the number of launches so far, graphs included, where the driver counts them to identify a lost one.
    fn launched(&self) -> u64 {
        0
    }

    /// Takes the consequences of the last sticky error, where the driver recovers from it.
    fn take_casualty(&self) -> Option<Casualty> {
        None
    }
}
